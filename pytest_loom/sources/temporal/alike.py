"""Histories that are alike: the text of one, with holes for its values, tells others of its kind without mapping them.

As ``log.alike`` does for logs of our own, and used in the same way by a simulation. A history is like another where its
text is the same but for ids, times, who did it, and the data of ``json/plain`` payloads that code was given or gave: so
it has the same events, types, options, markers and versions. What does not fit, down to a blank, is read the long way.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.log.alike import MAX_TEXT, TWIN, Book, Hit, Place
from pytest_loom.log.event import UNDECODABLE, Log
from pytest_loom.sources.temporal.history import PLAIN, parse_history
from pytest_loom.sources.temporal.mapping import to_log

_IDS = frozenset({"workflowId", "originalExecutionRunId", "firstExecutionRunId", "runId"})
_EXECUTIONS = frozenset({"workflowExecution", "parentWorkflowExecution", "externalWorkflowExecution"})
_UNSEEN = frozenset({"identity", "requestId"})
"""What no part of a log is made of."""

_GIVEN: dict[str, str] = {
    "WorkflowExecutionStarted": "input",
    "WorkflowExecutionCompleted": "result",
    "WorkflowExecutionSignaled": "input",
    "ActivityTaskScheduled": "input",
    "ActivityTaskCompleted": "result",
    "StartChildWorkflowExecutionInitiated": "input",
    "ChildWorkflowExecutionCompleted": "result",
}
"""Payloads that become values of a log as they are: whatever they say, the same events come out."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]++')
_PLAIN_JSON = b2a_base64(b"json/plain", newline=False).decode()
_DAY = rb"(?:(?:0[13-9]|1[0-2])-(?:0[1-9]|[12][0-9]|30)|(?:0[13578]|1[02])-31|02-(?:0[1-9]|1[0-9]|2[0-8]))"
_TIME = (
    rb"(?:19|20)[0-9]{2}-"
    + _DAY
    + rb"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{3}|\.[0-9]{6}|\.[0-9]{9})?Z"
)
_PATTERNS: dict[str, bytes] = {
    "id": rb'"([^"\\\x00-\x1f]++)"',
    "value": rb'"([A-Za-z0-9+/]++={0,2})"',
    "time": rb'"' + _TIME + rb'"',
    "last": rb'"(' + _TIME + rb')"',
    "number": rb'"[1-9][0-9]{0,17}"',
    "unseen": rb'"[^"\\\x00-\x1f]++"',
}
_TWINS: dict[str, bytes] = {"time": b'"2001-02-03T04:05:06Z"', "number": b'"1"', "unseen": b'"%s"' % TWIN.encode()}
_MARKED = rb"\u0001loom"
_MARK = re.compile(rb'"\\u0001loom ([0-9]+)\\u0001"')
_UNDECODABLE = b"1e999"
_MANY_BRACKETS = 64
"""A value with fewer is not nested too deeply."""
_decode = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Kind = Literal["text", "id", "time", "last", "number", "unseen", "value"]


class _Part(NamedTuple):
    """A piece of the text: to be found again, or a hole for what the first history had there."""

    kind: Kind
    text: bytes


class HistoryTemplate:
    """The text of one history as a pattern for others: what ``log.alike.Template`` is for a log of our own.

    ``_values`` says of each value of the log, by event and field, of which holes it is made: its text, cut there.
    """

    source: ClassVar[str] = "temporal"

    def __init__(self, parts: list[_Part], key: tuple[str, int], log: Log) -> None:
        self.key = key
        self.verdict: Any = None
        self.check: Callable[[Hit], bool] | None = None
        self.places: dict[Place, int] = {}
        self._parts = parts
        self._lines = [event.line for event in log.events]
        self._identity = b'"%s"' % log.execution_id.encode()
        self._values: dict[Place, list[bytes | int]] = {}
        self._ids: list[int] = []
        self._data: list[int] = []

    @classmethod
    def of(cls, text: bytes, log: Log, *, over: bool) -> HistoryTemplate | None:
        """As in ``log.alike.Alike``."""
        if len(text) > MAX_TEXT or log.notices or not text.isascii():
            return None
        parts = _parts(text)
        if parts is None:
            return None
        made = cls(parts, key_of(text), log)
        return made if ("id", made._identity) in parts and made._find_values() else None

    def holes(self) -> set[Place]:
        """Where there is a hole for a value."""
        return set(self._values)

    def twin(self, kept: set[Place]) -> Log | None:
        """As in ``log.alike.Alike``."""
        log = self._marked(self._holes_of(kept))
        if log is None:
            return None
        events = [
            msgspec.structs.replace(event, raw=msgspec.Raw(_MARK.sub(_UNDECODABLE, bytes(event.raw))), line=line)
            for line, event in enumerate(log.events, 1)
        ]
        return Log(events, path=TWIN, source=log.source, engine=log.engine)

    def compile(self, fixed: set[Place]) -> None:
        """As in ``log.alike.Alike``."""
        kept = self._holes_of(fixed)
        self._values = {place: made for place, made in self._values.items() if kept.isdisjoint(made)}
        groups: dict[int, int] = {}  # which of the captured values a hole is
        ids: dict[bytes, int] = {}
        out: list[bytes] = []
        count = 0
        for number, (kind, text) in enumerate(self._parts):
            if kind == "text" or number in kept:
                out.append(re.escape(text))
            elif kind == "id" and text in ids:
                out.append(rb'"\%d"' % ids[text])
            else:
                out.append(_PATTERNS[kind])
                if kind in ("id", "value", "last"):
                    count += 1
                if kind == "id":
                    if text == self._identity:
                        self._name = count - 1
                    ids[text] = count
                    self._ids.append(count - 1)
                elif kind == "value":
                    groups[number] = len(self._data)
                    self._data.append(count - 1)
                elif kind == "last":
                    self._last = count - 1
        self._match = re.compile(b"".join(out)).fullmatch
        self._made = [[p if isinstance(p, bytes) else groups[p] for p in made] for made in self._values.values()]
        self.places = {place: number for number, place in enumerate(self._values)}

    def fits(self, text: bytes, path: str) -> Hit | None:
        """The run whose history this is, where it is like this one."""
        found = self._match(text)
        if found is None:
            return None
        groups = found.groups()
        if len({groups[place] for place in self._ids}) != len(self._ids):
            return None
        try:
            data = [a2b_base64(groups[place], strict_mode=True) for place in self._data]
            for value in data:
                if value.count(b"[") + value.count(b"{") > _MANY_BRACKETS:
                    return None
                _decode(value)
            name = groups[self._name].decode()
            moment = datetime.fromisoformat(groups[self._last].decode()).timestamp() * 1000
        except (ValueError, *UNDECODABLE):
            return None
        holes = tuple(b"".join([p if isinstance(p, bytes) else data[p] for p in made]) for made in self._made)
        hit = Hit(self, path, self._lines, name, holes, moment, len(text))
        return hit if self.check is None or self.check(hit) else None

    def _find_values(self) -> bool:
        """See what values come of the holes; whether that is certain."""
        log = self._marked(set())
        if log is None or [event.line for event in log.events] != self._lines:
            return False
        for place, event in enumerate(log.events):
            for name, raw in _decode_fields(event.raw).items():
                pieces: list[bytes | int] = list(_MARK.split(bytes(raw)))
                pieces[1::2] = [int(number) for number in pieces[1::2]]
                if any(isinstance(piece, bytes) and _MARKED in piece for piece in pieces):
                    return False  # it has become part of another text
                if len(pieces) > 1:
                    self._values[place, name] = [piece for piece in pieces if piece != b""]
        return True

    def _holes_of(self, places: set[Place]) -> set[int]:
        return {piece for place in places for piece in self._values.get(place, ()) if isinstance(piece, int)}

    def _marked(self, kept: set[int]) -> Log | None:
        """A run that is alike, with a mark for each value that is not kept; None where no run comes out."""
        ids: dict[bytes, bytes] = {}
        out: list[bytes] = []
        for number, (kind, text) in enumerate(self._parts):
            if kind == "value" and number not in kept:
                out.append(b'"%s"' % b2a_base64(b'"%s %d\\u0001"' % (_MARKED, number), newline=False))
            elif kind == "id":
                out.append(ids.setdefault(text, b'"%s-%d"' % (TWIN.encode(), len(ids))))
            else:
                out.append(_TWINS.get(kind, text))
        log = read_alone(b"".join(out), TWIN)
        return log if isinstance(log, Log) else None


def find(book: Book, text: bytes, path: str) -> Hit | None:
    """The run whose history this is, where it is like one that the book knows."""
    return book.first(key_of(text), lambda template: template.fits(text, path))


def read_alone(text: bytes, path: str) -> Log | None:
    """The only run of a history file; None where there is not just one, or something is wrong with it."""
    runs = list(parse_history(text, path))
    log = None if len(runs) != 1 or isinstance(runs[0], LogError) else to_log(runs[0], path)
    return None if isinstance(log, LogError) else log


def key_of(text: bytes) -> tuple[str, int]:
    """What histories that are alike have in common, at a glance."""
    return "temporal", text.count(b'"eventId"')


def _parts(text: bytes) -> list[_Part] | None:
    """The text as parts; None where it is not that of one run as today's tools write it."""
    document = _decode(text)
    holder = document.get("history", document) if isinstance(document, dict) else None
    events = holder.get("events") if isinstance(holder, dict) else None
    if not isinstance(events, list) or not events:
        return None
    before = ("events",) if holder is document else ("history", "events")
    parts: list[_Part] = []
    end = 0
    for path, start, stop in _strings(text):
        if path[: len(before)] != before or len(path) < len(before) + 2:
            continue
        kind = _kind_of(path[len(before) :], events)
        if kind != "text" and re.fullmatch(_PATTERNS[kind], text[start:stop]):
            parts += (_Part("text", text[end:start]), _Part(kind, text[start:stop]))
            end = stop
    times = [kind for kind, _ in parts if kind in ("time", "last")]
    if len(times) != len(events) or times[-1] != "last":
        return None
    return [*parts, _Part("text", text[end:])]


def _kind_of(path: tuple[Any, ...], events: list[Any]) -> Kind:
    """What stands in an event at a path that begins with the event's number."""
    number, name, *rest = path
    event = events[number]
    if not rest:
        if name == "eventTime":
            return "last" if number == len(events) - 1 else "time"
        return "number" if name == "taskId" else "text"
    kind = PLAIN.get(event.get("eventType"), ("", ""))
    if name != kind[1]:
        return "text"
    match rest:
        case [field] if field in _IDS:
            return "id"
        case [field] if field in _UNSEEN:
            return "unseen"
        case [execution, field] if execution in _EXECUTIONS and field in _IDS:
            return "id"
        case [field, "payloads", int(place), "data"] if _GIVEN.get(kind[0]) == field:
            metadata = event[name][field]["payloads"][place].get("metadata")
            return "value" if metadata == {"encoding": _PLAIN_JSON} else "text"
    return "text"


def _strings(text: bytes) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """Each text of a JSON document that is a value: its path, and where it stands."""
    path: list[Any] = []
    is_key = False
    for token in _TOKEN.finditer(text):
        sign = token[0][:1]
        if sign in b"{[":
            path.append(0 if sign == b"[" else "")
            is_key = sign == b"{"
        elif sign in b"}]":
            path.pop()
            is_key = False
        elif sign == b",":
            if isinstance(path[-1], int):
                path[-1] += 1
            else:
                is_key = True
        elif sign == b'"' and is_key:
            path[-1] = _decode(token[0])
            is_key = False
        elif sign == b'"':
            yield tuple(path), token.start(), token.end()
