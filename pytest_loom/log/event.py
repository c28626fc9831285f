"""One line of a log (Event), the ordered events of one execution (Log), and the builder that makes new ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from pytest_loom.errors import LogError, UnknownSchemaVersion, printable
from pytest_loom.log.schema import SCHEMA_VERSION, is_kernel_type, known_event_types

if TYPE_CHECKING:
    from pytest_loom.state import ExecutionState

Engine = Literal["journal", "checkpoint", "trace"]
"""How an engine resumes: a journal re-runs the code against the log, a checkpoint never re-runs finished work.

A trace is what an observer wrote down of a run: it can be compared, and nothing resumes it.
"""

UNDECODABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding raises for bad data. Before msgspec 0.21 its own error was no ValueError."""

MAX_LEVELS = 256
MAX_PLACE = 20_000
"""How many levels a branch or a namespace may have, and how many characters: each level costs on every look."""

MAX_DEPTH = 500
"""How deep the values of a payload may be nested: with more, comparing and printing them would break down."""

NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
_Moment = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)$")]
"""RFC 3339, which names a time zone."""

_Position = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Event(
    msgspec.Struct,
    frozen=True,
    eq=False,
    gc=False,
    kw_only=True,
    rename={
        "execution_id": "executionId",
        "workflow_id": "workflowId",
        "event_type": "eventType",
        "schema_version": "schemaVersion",
        "event_version": "eventVersion",
        "raw": "payload",
        "path": " path",
        "line": " line",
    },
):
    """One event of a log: the envelope of DESIGN section 3, decoded; the payload stays bytes until asked for.

    ``raw`` is the payload as JSON text; ``payload`` decodes it anew on each access, so nobody can change history.
    ``path`` and ``line`` say where the event was read; they are never written, and do not count in comparisons.
    """

    execution_id: NonEmpty
    workflow_id: NonEmpty
    sequence: _Position
    timestamp: int | _Moment
    event_type: NonEmpty
    schema_version: str
    event_version: int = 1
    branch: str | None = None
    namespace: str | None = None
    ignorable: bool = False
    raw: msgspec.Raw
    path: str = ""
    line: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        return (
            self.execution_id,
            self.workflow_id,
            self.sequence,
            self.timestamp,
            self.event_type,
            self.schema_version,
            self.event_version,
            self.branch,
            self.namespace,
            self.ignorable,
            bytes(self.raw),
        )

    @property
    def payload(self) -> dict[str, Any]:
        """The payload as plain JSON data. Raises LogError where it cannot be decoded."""
        value = decode(self.raw, self)
        if not isinstance(value, dict):
            raise self.error(f"the payload of {printable(self.event_type)} is not an object")
        return value

    @property
    def time_ms(self) -> float:
        """The timestamp in milliseconds since the epoch, whichever way it was written."""
        try:
            if isinstance(self.timestamp, int):
                return float(self.timestamp)
            moment = datetime.fromisoformat(self.timestamp.replace("z", "Z"))  # RFC 3339 allows either
        except OverflowError:
            raise self.error("the timestamp is out of range") from None
        except ValueError:
            raise self.error(f"timestamp {printable(str(self.timestamp))!r} is neither ms nor RFC 3339") from None
        if moment.tzinfo is None:
            raise self.error(f"timestamp {printable(self.timestamp)!r} has no time zone")
        return moment.timestamp() * 1000

    def error(self, what: str, *, step: str = "", hint: str = "", kind: type[LogError] = LogError) -> LogError:
        """A LogError that names this event's file, line and execution."""
        return kind(
            f"event {self.sequence}: {what}",
            path=self.path,
            line=self.line,
            execution_id=self.execution_id,
            step=step,
            hint=hint,
        )

    def misshapen(self, problem: Exception) -> LogError:
        """The LogError for a payload that has not the shape of its kind."""
        return self.error(f"the payload of {self.event_type} does not have its shape: {printable(str(problem))}")


@dataclass(frozen=True)
class Golden:
    """What makes a log a golden in a test: how it is compared, and what happens when a change is accepted.

    ``rules`` are keyword arguments for ``diff_runs`` (from the marker); ``accept`` takes the candidate that is to
    become the golden, and is None unless the run was started to accept changes. Where it is None, ``differs`` is told
    of a candidate that is different, and by which rules. ``compared`` is told each set of rules that the golden is
    compared under, where somebody asked.
    """

    rules: Mapping[str, Any]
    accept: Callable[[Log], None] | None = None
    differs: Callable[[Log, Mapping[str, Any]], None] | None = None
    compared: Callable[[Mapping[str, Any]], None] | None = None


_reading = 0


def read_anew() -> None:
    """What events mean has changed (another upcaster is registered): logs fold anew when they are asked next."""
    global _reading
    _reading += 1


class Log:
    """The ordered events of one execution.

    ``path`` is the file or masked store address it was read from ("" for a log made in memory), ``source`` the name
    of the reader, ``engine`` how that engine resumes, ``live`` whether it stands in a running store (a database)
    rather than in a file that somebody keeps, ``notices`` what the reader had to say about it. ``golden`` is set on a
    log that a test holds as its golden.
    """

    __slots__ = ("_reading", "_state", "engine", "events", "golden", "live", "notices", "path", "source")

    def __init__(
        self,
        events: Sequence[Event],
        *,
        path: str = "",
        source: str = "loom",
        engine: Engine = "journal",
        live: bool = False,
        notices: Sequence[str] = (),
    ) -> None:
        if not events:
            raise LogError("a log needs at least one event", path=path)
        self.events = events
        self.path = path
        self.source = source
        self.engine: Engine = engine
        self.live = live
        self.notices = tuple(notices)
        self.golden: Golden | None = None
        self._state: ExecutionState | None = None
        self._reading = 0

    @property
    def execution_id(self) -> str:
        """The identity of the run."""
        return self.events[0].execution_id

    @property
    def workflow_id(self) -> str:
        """The flow that the run belongs to."""
        return self.events[0].workflow_id

    @property
    def state(self) -> ExecutionState:
        """What the log says happened (``replay_as_fixture``), computed once for the upcasters that there are."""
        if self._state is None or self._reading != _reading:
            from pytest_loom.fold import replay_as_fixture

            self._reading = _reading
            self._state = replay_as_fixture(self)
        return self._state

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __repr__(self) -> str:
        place = f" from {self.path}" if self.path else ""
        return f"<Log {printable(self.workflow_id)}/{printable(self.execution_id)}, {len(self.events)} events{place}>"


class LogBuilder:
    """Makes a log event by event, with the sequence counted and the payloads encoded: for sources and recorders.

    ``add`` raises LogError where the kernel has no such kind (an application event may have any other name), and for a
    payload that JSON cannot say.
    """

    def __init__(self, execution_id: str, workflow_id: str, *, path: str = "") -> None:
        self.execution_id = execution_id
        self.workflow_id = workflow_id
        self.path = path
        self.events: list[Event] = []

    def add(
        self,
        event_type: str,
        payload: dict[str, Any],
        *,
        timestamp: int | str,
        line: int = 0,
        branch: str | None = None,
        namespace: str | None = None,
        event_version: int = 1,
    ) -> Event:
        """Append one event.

        ``timestamp`` is milliseconds since the epoch or RFC 3339 text, ``line`` is where the event came from.
        """
        if not isinstance(payload, dict):
            raise self._error(f"the payload of {printable(event_type)} is not an object (a dict)", line)
        if isinstance(timestamp, bool) or not isinstance(timestamp, (int, str)):
            raise self._error("a timestamp is whole milliseconds since the epoch, or RFC 3339 text", line)
        if event_type not in known_event_types() and is_kernel_type(event_type):
            raise self._error(f"{printable(event_type)} is not a kernel event", line)
        try:
            encoded = msgspec.json.encode(payload)
            raw = msgspec.Raw(encoded)
            if b"null" in encoded:  # which is how msgspec writes NaN; json says so instead
                json.dumps(payload, allow_nan=False, default=lambda _: None, skipkeys=True)
        except (TypeError, ValueError, RecursionError) as problem:
            raise self._error(
                f"the payload of {printable(event_type)} cannot be said in JSON: {problem}", line
            ) from None
        event = Event(
            execution_id=self.execution_id,
            workflow_id=self.workflow_id,
            sequence=len(self.events) + 1,
            timestamp=timestamp,
            event_type=event_type,
            schema_version=SCHEMA_VERSION,
            event_version=event_version,
            branch=branch,
            namespace=namespace,
            raw=raw,
            path=self.path,
            line=line,
        )
        self.events.append(event)
        return event

    def log(
        self, *, source: str = "loom", engine: Engine = "journal", live: bool = False, notices: Sequence[str] = ()
    ) -> Log:
        """The log of the events added so far."""
        return Log(list(self.events), path=self.path, source=source, engine=engine, live=live, notices=notices)

    def _error(self, what: str, line: int) -> LogError:
        return LogError(what, path=self.path, line=line, execution_id=self.execution_id)


def unknown_kind(event: Event) -> LogError:
    """The refusal for a kernel kind that is not known: guessing what it does to a run is not an option."""
    return event.error(
        f"kernel event kind {printable(event.event_type)} is not known",
        hint="Read it with the pytest-loom that knows this kind.",
        kind=UnknownSchemaVersion,
    )


_decode_json = msgspec.json.Decoder().decode
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def decode(raw: msgspec.Raw, event: Event) -> Any:
    """One JSON text out of ``event`` as plain data. Raises LogError naming the event where it is not valid."""
    check_depth(raw, event)
    try:
        return _decode_json(raw)
    except UNDECODABLE as problem:
        raise event.error(f"the payload of {printable(event.event_type)} cannot be decoded: {problem}") from None


def check_places(events: Iterable[Event]) -> None:
    """Raise LogError where an event stands in a branch or namespace that is too long or has too many levels."""
    wrong = {place for place in {(event.branch, event.namespace) for event in events} if place_problem(*place)}
    if wrong:
        event = next(event for event in events if (event.branch, event.namespace) in wrong)
        raise event.error(f"{place_problem(event.branch, event.namespace)}; no run nests its branches so deep")


def place_problem(branch: str | None, namespace: str | None) -> str:
    """What is wrong with where an event stands, or ""."""
    for what, path in (("branch", branch), ("namespace", namespace)):
        if path is not None and (len(path) > MAX_PLACE or path.count("/") >= MAX_LEVELS):
            return f"its {what} has more than {MAX_LEVELS} levels or {MAX_PLACE} characters"
    return ""


def too_deep(value: object, limit: int) -> bool:
    """Whether containers nest deeper than ``limit``. Looks level by level, so depth itself cannot hurt."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def check_depth(raw: msgspec.Raw, event: Event) -> None:
    """Raise LogError where a JSON text out of ``event`` is nested too deeply; decoders differ in what they bear."""
    text = bytes(raw)
    if len(text) <= 2 * MAX_DEPTH or text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _STRING.sub(b"", text).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise event.error(f"the payload of {printable(event.event_type)} is nested more than {MAX_DEPTH} deep")
