"""Where the events of a run go: into memory and, while recording with a path, line by line into ``PATH.partial``.

Every event is one write of whole lines, so that a killed process leaves a valid prefix. Secrets are scrubbed first.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec

from pytest_loom.errors import LogError, LoomError, RecordingError, printable
from pytest_loom.flow.guard import opened
from pytest_loom.log.event import Event, Log, place_problem
from pytest_loom.log.files import MAX_LINE
from pytest_loom.log.schema import SCHEMA_VERSION
from pytest_loom.log.upcast import current_version
from pytest_loom.log.write import SUFFIXES, encode_events, write_log

_encode = msgspec.json.Encoder().encode
MAX_EVENT = MAX_LINE - 1024 * 1024
"""Bytes that one payload may have, so that its line can be read back."""


class Scrubs(Protocol):
    """What takes secrets out of JSON text (``pytest_loom.log.scrub``)."""

    def raw(self, data: bytes) -> bytes:
        """The text without its secrets."""


def without_secrets(scrub: Scrubs | None, raw: bytes, field: str = "") -> bytes:
    """JSON text without its secrets. With the ``field`` of the payload that it is, paths are what they are there."""
    if scrub is None or not raw:
        return raw
    if not field:
        return scrub.raw(raw)
    whole = b'{"%b":%b}' % (field.encode(), raw)
    clean = scrub.raw(whole)
    return raw if clean is whole else bytes(msgspec.json.decode(clean, type=dict[str, msgspec.Raw])[field])


class Recorder:
    """Makes the events of one run, and keeps them."""

    def __init__(
        self,
        execution_id: str,
        workflow_id: str,
        *,
        events: Sequence[Event] = (),
        scrub: Scrubs | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self.execution_id = execution_id
        self.workflow_id = workflow_id
        self.events: list[Event] = list(events)
        self.scrub = scrub
        self.replaying = False
        self.lock = threading.Lock()
        self.failure: LoomError | None = None
        self.on_failure: Callable[[LoomError], None] | None = None
        self.path = Path(path) if path is not None else None
        self._file: int | None = None
        if self.path is not None:
            self._open(self.path)

    def _open(self, path: Path) -> None:
        if not path.name.endswith(SUFFIXES):
            raise LogError("a log is written to *.loom.jsonl or *.loom.jsonl.gz", path=str(path))
        history = encode_events(self.events) if self.events else b""
        try:
            with opened():
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = _open_alone(self.partial)
                self._begin_with(history)
        except OSError as problem:
            self.close()
            raise _unwritable(problem, path, "Nothing was run. Give a path that can be written.") from None

    def _begin_with(self, history: bytes) -> None:
        """Let the file hold the history and nothing else. Killed on the way, it holds all of it or what it held."""
        assert self._file is not None
        held = self.partial.read_bytes()
        if held.startswith(history):  # and the part of an event that was never acknowledged
            os.ftruncate(self._file, len(history))
            os.lseek(self._file, 0, os.SEEK_END)
        elif held == history[:-1]:
            os.lseek(self._file, 0, os.SEEK_END)
            _write(self._file, b"\n")
        else:
            self._file = _exchanged(self._file, self.partial, history)

    @property
    def partial(self) -> Path:
        """The file that grows while the run goes on."""
        assert self.path is not None
        return self.path.with_name(self.path.name.removesuffix(".gz") + ".partial")

    def scrubbed(self, raw: bytes, field: str = "") -> bytes:
        """JSON text without its secrets; ``field`` is where in a payload it stands."""
        return without_secrets(self.scrub, raw, field)

    def emit(self, *news: tuple[str, dict[str, Any], tuple[str | None, str | None]]) -> list[Event]:
        """Append events, each given as its type, its payload and its place (namespace and branch), as one write."""
        made: list[Event] = []
        with self.lock:
            now = self.events[-1].timestamp if self.replaying and self.events else time.time_ns() // 1_000_000
            for event_type, payload, (namespace, branch) in news:
                raw = self.scrubbed(_encode(payload))
                if len(raw) > MAX_EVENT:
                    self._fail(_too_large(event_type, payload, len(raw)))
                problem = place_problem(branch, namespace)
                if problem:
                    self._fail(_too_deep(event_type, payload, problem))
                event = Event(
                    execution_id=self.execution_id,
                    workflow_id=self.workflow_id,
                    sequence=len(self.events) + len(made) + 1,
                    timestamp=now,
                    event_type=event_type,
                    schema_version=SCHEMA_VERSION,
                    event_version=current_version(event_type),
                    branch=branch,
                    namespace=namespace,
                    raw=msgspec.Raw(raw),
                )
                made.append(event)
            if self.failure is not None:
                self._fail(self.failure)
            self._append(made)
            self.events.extend(made)
        return made

    def _append(self, made: list[Event]) -> None:
        if self._file is not None:
            try:
                with opened():
                    _write(self._file, encode_lines(made))
            except OSError as problem:
                self._fail(_unwritable(problem, self.partial))

    def _fail(self, failure: LoomError) -> NoReturn:
        """Nothing more is recorded from here on, and the run ends, whatever the flow's code catches."""
        self.failure = failure
        if self.on_failure is not None:
            self.on_failure(failure)
        raise failure

    def log(self, *, notices: Sequence[str] = ()) -> Log:
        """The events so far as a log, numbered through."""
        events = self.events
        for index, event in enumerate(events, 1):
            if event.sequence != index or event.execution_id != self.execution_id:
                events[index - 1] = msgspec.structs.replace(
                    event, sequence=index, execution_id=self.execution_id, workflow_id=self.workflow_id
                )
        return Log(list(events), path=str(self.path or ""), notices=notices)

    def accept(self) -> None:
        """The run was recorded whole: the file gets its name."""
        if self._file is None or self.path is None:
            return
        try:
            with opened():
                os.fsync(self._file)
                if os.name == "nt":  # where no open file is renamed
                    self.close()
                if self.path.name.endswith(".gz") or self.path.is_symlink():
                    write_log(self.log(), self.path)
                    os.unlink(self.partial)
                else:
                    os.replace(self.partial, self.path)
        except OSError as problem:
            raise _unwritable(problem, self.path) from None
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file; what it holds stays."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)


def as_recorded(events: Sequence[Event], recorded: Sequence[Event]) -> list[Event]:
    """The events of a replay in the order in which the recorded ones came, each branch's own order kept.

    In which order threads ask is chance, tasks may ask a turn of the loop sooner or later than they did; and what a
    step did that ran steps comes in one piece where it is answered as a whole.
    """
    position = {id(event): index for index, event in enumerate(recorded)}
    reached: dict[tuple[str | None, str | None], int] = {}
    latest = 0
    keys = []
    for event in events:
        place = (event.namespace, event.branch)
        at = max(position.get(id(event), _said_anew(event, recorded, latest)), reached.get(place, 0))
        reached[place] = at
        latest = max(latest, at)
        keys.append(at)
    return [events[index] for index in sorted(range(len(events)), key=keys.__getitem__)]


def put_back(events: list[Event], recorded: Sequence[Event], gone: list[int]) -> list[Event]:
    """The events of a replay with those (by index) that no code brings about, where they were recorded."""
    if not gone:
        return events
    position = {id(event): index for index, event in enumerate(recorded)}
    backwards: list[Event] = []
    for event in reversed(events):
        at = position.get(id(event), _said_anew(event, recorded, -1))
        while gone and 0 <= at < gone[-1]:
            backwards.append(recorded[gone.pop()])
        backwards.append(event)
    return backwards[::-1]


def _said_anew(event: Event, recorded: Sequence[Event], otherwise: int) -> int:
    """Where a recorded event stands that says something else in the replay."""
    index = event.sequence - 1
    if index < len(recorded):
        was = recorded[index]
        if (was.event_type, was.namespace, was.branch) == (event.event_type, event.namespace, event.branch):
            return index
    return otherwise


def encode_lines(events: Sequence[Event]) -> bytes:
    """Events that this package made, as the lines of a log."""
    from pytest_loom.log.write import line_of

    return msgspec.json.Encoder().encode_lines([line_of(event) for event in events])


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _open_alone(partial: Path) -> int:
    """The file opened, for this run only. Raises LogError where somebody else records to it."""
    while True:
        file = os.open(partial, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        if not _lock(file):
            os.close(file)
            raise LogError(
                "another recording to this file is going on",
                path=str(partial),
                hint="Two tests or processes share one path: give each its own, or wait for the other to end.",
            )
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(partial)):
                return file
        os.close(file)  # it was renamed between the two: it is a finished log by now


def _exchanged(file: int, partial: Path, history: bytes) -> int:
    """The file opened anew with other content, as one act; ours alone all the time."""
    if os.name == "nt":  # where no open file is renamed
        os.ftruncate(file, 0)
        _write(file, history)
        return file
    fresh = partial.with_name(partial.name + ".new")
    other = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        _lock(other)
        _write(other, history)
        os.replace(fresh, partial)
    except BaseException:
        os.close(other)
        raise
    os.close(file)
    return other


def _lock(file: int) -> bool:
    """Whether nobody else records to this file; let go by the system when the process dies."""
    try:
        import fcntl
    except ImportError:  # Windows does not let two processes rename one open file either
        return True
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _unwritable(problem: OSError, path: Path, hint: str = "") -> LogError:
    hint = hint or "A run does not go on unrecorded. What the file holds so far can be resumed."
    return LogError(f"the recording cannot be written: {problem.strerror or problem}", path=str(path), hint=hint)


def _too_deep(event_type: str, payload: dict[str, Any], problem: str) -> RecordingError:
    name = _name_in(payload)
    return RecordingError(
        f"{event_type} of {printable(str(name))}: {problem}",
        step=str(name),
        hint="Each task that is made within another is one level: make them in a loop instead.",
    )


def _name_in(payload: dict[str, Any]) -> Any:
    return next((payload[key] for key in ("stepId", "name", "model", "callId", "key") if key in payload), "")


def _too_large(event_type: str, payload: dict[str, Any], size: int) -> RecordingError:
    name = _name_in(payload)
    return RecordingError(
        f"{event_type} of {printable(str(name))} has {size // 1024**2} MiB; one event may have {MAX_EVENT // 1024**2}",
        step=str(name),
        hint="Record where the data is (a path, a hash) instead of the data.",
    )
