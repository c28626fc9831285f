"""Runs that are alike: the text of one run, with holes for its values, tells others of its kind without decoding them.

Most runs of a large log differ in nothing but ids, times and values. A ``Template`` is made from the lines of one run.
Another run is like it where its text is the same, but for

- the execution's id, which is the same on each of its lines,
- other ids (``callId``, ``correlationKey``, …), which are equal where those of the first run were, and differ where
  they differed,
- timestamps,
- values in places where any value may stand (an input, an output, an answer): each exactly one JSON value.

So it has the same events with the same envelopes, the same steps, calls and waits, and fields that are there or not.
What does not fit, down to a blank, is not alike: it is only read the long way. Nothing here knows what a run means.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec

from pytest_loom.log.event import UNDECODABLE, Event, Log
from pytest_loom.log.read import read_block
from pytest_loom.log.schema import is_kernel_type

MAX_TEXT = 256 * 1024
"""Bytes of the longest run that becomes a template: a pattern takes some 2 ms for each KiB of it to be made."""

_SHARE = 16
"""A template is made once so many times its text has been read the long way: making one takes as long as judging some
ten runs, so that it has to be clear that there are many of them."""

_FIRST = 8
"""How many runs that look alike are read the long way before one becomes a template; later ones after twice as many."""

_MANY = 20_000
_ABREAST = 12
"""How many templates of one key are kept: each may have to be tried on each of those runs."""

_RAW: dict[str, tuple[str, ...]] = {
    "EXECUTION_STARTED": ("input",),
    "STEP_STARTED": ("input",),
    "STEP_PROGRESS": ("chunk",),
    "STEP_COMPLETED": ("output", "input"),
    "STEP_FAILED": ("error", "input"),
    "TOOL_REQUESTED": ("args",),
    "TOOL_COMPLETED": ("output",),
    "TOOL_FAILED": ("error",),
    "MODEL_REQUESTED": ("request",),
    "MODEL_COMPLETED": ("response", "usage"),
    "MODEL_FAILED": ("error",),
    "EXECUTION_COMPLETED": ("output",),
    "EXECUTION_FAILED": ("error",),
    "EXECUTION_CANCELLED": ("reason",),
}
"""Fields whose values the fold keeps as bytes: nothing sees them unless it asks."""

_READ: dict[str, tuple[str, ...]] = {"DECISION_RECORDED": ("value",), "EXECUTION_RESUMED": ("payload",)}
"""Fields that the fold decodes; what they say makes no difference to it, but for ``_TELLING``."""

_READ_WHEN_OVER: dict[str, tuple[str, ...]] = {
    "STATE_SNAPSHOT": ("state",),
    "PLAN_RECORDED": ("plan",),
    "EXECUTION_SUSPENDED": ("pending",),
}
"""The same for a run that is over, of which nobody reads any more what it had saved and asked."""

_TELLING = ("correlationKey", "on")
"""What an answer may say of the wait that it is for."""

_IDS = frozenset({"callId", "idempotencyKey", "correlationKey"})
_TEXT = rb'"([^"\\\x00-\x1f]++)"'
_A_TEXT = re.compile(_TEXT)
_A_TIME = re.compile(rb"0|[1-9][0-9]{0,14}")
_BRACES = rb"\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]*+\})*+\})*+\}"
_SEPARATORS = ((b",", b":"), (b", ", b": "))
_LONG_END = 256
"""Bytes behind the value of a line, at most: where a value ends is sought from the end of its line."""
_LONG = 900
_MANY_BRACKETS = 400
"""A value with fewer is not nested too deeply for anything that reads it."""

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_decode_any = msgspec.json.Decoder().decode

TWIN = "pytest-loom-twin"
"""The execution id and path of a run that stands for all that are alike."""

Kind = Literal["text", "execution", "id", "time", "raw", "flat", "read", "answer"]
"""``raw`` and ``flat`` values are never decoded by the fold, ``read`` ones and the ``answer`` to a wait are."""

_VALUES = ("raw", "flat", "read", "answer")

Place = tuple[int, str]
"""A line, from 0, and a field of its payload; "" for all of it."""


class Part(NamedTuple):
    """A piece of a line: text that has to be found again, or a hole for what the first run had there.

    ``field`` is the payload's, ``line`` counts from 0.
    """

    kind: Kind
    text: bytes
    line: int
    field: str = ""


class Hit(NamedTuple):
    """A run that is like a template's, read from the lines ``numbers`` of the file ``path``.

    ``holes`` is what it has in the template's groups, ``time`` the timestamp of its last event in
    milliseconds (None where that cannot be told), ``end`` where its text ends.
    """

    template: Alike
    path: str
    numbers: Sequence[int]
    execution_id: str
    holes: tuple[bytes, ...]
    time: float | None
    end: int


class Alike(Protocol):
    """One run as a pattern for others.

    ``verdict`` and ``check`` are its owner's: what is known of all runs that are alike, and what has to be true of one,
    by its holes, for that to hold. ``key`` is what runs have in common that may be alike, ``places`` say where in a
    hit's holes a value is.
    """

    source: ClassVar[str]
    """Of whose runs they are made."""

    key: Any
    verdict: Any
    check: Callable[[Hit], bool] | None
    places: dict[Place, int]

    @classmethod
    def of(cls, text: bytes, log: Log, *, over: bool) -> Alike | None:
        """The template of a run with this text; None where it cannot be one. ``over``: it is finished."""

    def holes(self) -> set[Place]:
        """Where there is a hole for a value."""

    def twin(self, kept: set[Place]) -> Log | None:
        """A run that is alike and has nothing of the first one's: other ids and times, and values that cannot be
        decoded. What is ``kept`` stays; so does the last time. Its lines are counted from 1. None: there is none."""

    def compile(self, fixed: set[Place]) -> None:
        """Make the pattern; the ``fixed`` values have to be found again as well. Then ``places`` are known."""


class Template:
    """The text of one run in a log of our own as a pattern: an ``Alike``.

    ``end`` is what its last line has in it, for a first look.
    """

    source: ClassVar[str] = "loom"

    def __init__(self, parts: list[Part], lines: int) -> None:
        self.parts = parts
        self.lines = self.key = lines
        self.end = _kind_of(parts)
        self.verdict: Any = None
        self.check: Callable[[Hit], bool] | None = None
        self.places: dict[Place, int] = {}

    @classmethod
    def of(cls, text: bytes, log: Log, *, over: bool) -> Template | None:
        """As in ``Alike``."""
        events = log.events
        lines = text.split(b"\n")
        if lines.pop() or len(lines) != len(events) or len(text) > MAX_TEXT:
            return None
        parts: list[Part] = []
        for number, (line, event) in enumerate(zip(lines, events, strict=True)):
            found = _of_line(line, event, number, over)
            if found is None:
                return None
            parts += found
        return cls(parts, len(lines))

    def holes(self) -> set[Place]:
        """Where there is a hole for a value."""
        return {(part.line, part.field) for part in self.parts if part.kind in _VALUES}

    def twin(self, kept: set[Place]) -> Log:
        """As in ``Alike``."""
        ids: dict[bytes, bytes] = {}
        out: list[bytes] = []
        for kind, text, line, field in self.parts:
            if kind == "execution":
                out.append(b'"%s"' % TWIN.encode())
            elif kind == "id":
                out.append(ids.setdefault(text, b'"%s-%d"' % (TWIN.encode(), len(ids))))
            elif kind == "time" and line < self.lines - 1:
                out.append(b"0")
            elif kind in ("raw", "flat") and (line, field) not in kept:
                out.append(b'{"":1e999}' if text[:1] == b"{" else b"1e999")
            elif kind in ("read", "answer") and (line, field) not in kept:
                out.append(b"{}" if text[:1] == b"{" else b"null")
            else:
                out.append(text)
        return Log(read_block(b"".join(out), 1, self.lines, TWIN), path=TWIN)  # type: ignore[arg-type]

    def compile(self, fixed: set[Place]) -> None:
        """As in ``Alike``."""
        out: list[bytes] = []
        kinds: list[Kind] = []
        ids: dict[bytes, int] = {}
        line = -1
        for part in self.parts:
            if part.line != line:
                out.append(b"(?>" if line < 0 else b")(?>")  # no line is gone back to once it has fitted
                line = part.line
            name = part.text if part.kind == "id" else b""
            is_id = part.kind in ("execution", "id")
            if part.kind == "text" or (part.kind in _VALUES and (part.line, part.field) in fixed):
                out.append(re.escape(part.text))
            elif is_id and name in ids:
                out.append(rb'"\%d"' % ids[name])
            elif part.kind == "time" and part.line < self.lines - 1:
                out.append(b"(?:0|[1-9][0-9]{0,14}+)")
            else:
                kinds.append(part.kind)
                out.append(_pattern(part))
                if is_id:
                    ids[name] = len(kinds)
                elif part.kind in _VALUES:
                    self.places[part.line, part.field] = len(kinds) - 1
        self._match = re.compile(b"".join([*out, b")"])).match
        values = [place for place, kind in enumerate(kinds) if kind in _VALUES]
        self._values = itemgetter(*values, *values[-1:]) if values else None  # one alone would come bare
        self._ids = [place for place, kind in enumerate(kinds) if kind == "id"]
        self._read = [place for place, kind in enumerate(kinds) if kind in ("read", "answer")]
        self._answers = {place for place, kind in enumerate(kinds) if kind == "answer"}
        self._time = kinds.index("time") if "time" in kinds else None

    def fits(self, text: bytes, start: int, path: str, numbers: Sequence[int]) -> Hit | None:
        """The run whose text starts there, where it is like this one."""
        found = self._match(text, start)
        if found is None:
            return None
        holes = found.groups()
        if len(self._ids) > 1 and len({holes[place] for place in self._ids}) != len(self._ids):
            return None
        try:
            if self._values is not None:
                values = self._values(holes)
                deque(map(_decode_raw, values), 0)
                if max(map(len, values)) > _LONG and any(map(_is_deep, values)):
                    return None
            for place in self._read:
                said = _decode_any(holes[place])
                if place in self._answers and isinstance(said, dict) and any(name in said for name in _TELLING):
                    return None
            name = holes[0].decode()
        except UNDECODABLE:
            return None
        time = None if self._time is None else float(holes[self._time])
        hit = Hit(self, path, numbers, name, holes, time, found.end())
        return hit if self.check is None or self.check(hit) else None


class Book:
    """The templates that are known so far, and whether another one would be worth its while."""

    def __init__(self) -> None:
        self._known: dict[Any, list[Any]] = {}
        self._seen: dict[Any, int] = {}
        self._next: dict[Any, int] = {}
        self._read = 0
        self._made = 0

    def find(self, text: bytes, start: int, path: str, numbers: Sequence[int]) -> Hit | None:
        """The run that starts there, where it is like one that is known; ``numbers`` are those of its lines."""
        lines = len(numbers)
        last = _last_line(text, start, lines) if len(self._known.get(lines, ())) > 1 else b""

        def fitting(template: Any) -> Hit | None:
            if last and template.end not in last:
                return None
            hit: Hit | None = template.fits(text, start, path, numbers)
            return hit

        return self.first(lines, fitting)

    def first(self, key: Any, fitting: Callable[[Any], Hit | None]) -> Hit | None:
        """The first hit that ``fitting`` gives of a template with that key: those that were of use last come first."""
        known = self._known.get(key, [])
        for place, template in enumerate(known):
            hit = fitting(template)
            if hit is not None:
                if place:
                    known.insert(0, known.pop(place))
                return hit
        return None

    def wants(self, look: Any, size: int) -> bool:
        """Whether to make a template of a run that was read the long way: ``look`` is what it has in common with those
        that may be like it, ``size`` the length of its text."""
        self._read += size
        if size > MAX_TEXT or (look not in self._seen and len(self._seen) > _MANY):
            return False
        seen = self._seen[look] = self._seen.get(look, 0) + 1
        if seen < self._next.get(look, _FIRST) or (self._made + size) * _SHARE > self._read:
            return False
        self._next[look] = 2 * seen
        self._made += size
        return True

    def add(self, template: Alike) -> None:
        """Know another one."""
        known = self._known.setdefault(template.key, [])
        known.insert(0, template)
        del known[_ABREAST:]


def _last_line(text: bytes, start: int, lines: int) -> bytes:
    """The last of so many lines; b"" where they are not all there."""
    end = start
    for _ in range(lines):
        start, end = end, text.find(b"\n", end) + 1
        if not end:
            return b""
    return text[start:end]


def _of_line(line: bytes, event: Event, number: int, over: bool) -> list[Part] | None:
    """A line as parts; None where it is not written as one that can be taken apart."""
    fields = _fields(line)
    if fields is None:
        return None
    parts: list[Part] = []
    for name, before, value in fields:
        parts.append(Part("text", before, number))
        if name == "executionId":
            if _A_TEXT.fullmatch(value) is None:
                return None
            parts.append(Part("execution", value, number))
        elif name == "timestamp" and _A_TIME.fullmatch(value):
            parts.append(Part("time", value, number))
        elif name == "payload":
            parts += _of_payload(value, event, number, over)
        else:
            parts.append(Part("text", value, number))
    parts.append(Part("text", b"}\n", number))
    if not any(part.kind == "execution" for part in parts):
        return None
    hole = next((place for place, part in enumerate(parts) if part.kind in ("raw", "read", "answer")), None)
    if hole is not None and sum(len(part.text) for part in parts[hole + 1 :]) > _LONG_END:
        parts[hole] = Part("text", parts[hole].text, number)
    return parts


def _of_payload(payload: bytes, event: Event, number: int, over: bool) -> list[Part]:
    """A payload as parts: at most one hole of any length, since where it ends is told by what follows."""
    kind = event.event_type
    if not is_kernel_type(kind):
        return [Part("read" if payload[:1] == b"{" else "text", payload, number)]  # of an application event
    fields = _fields(payload)
    if not fields:
        return [Part("text", payload, number)]
    raw = _RAW.get(kind, ())
    read = (*_READ.get(kind, ()), *(_READ_WHEN_OVER.get(kind, ()) if over else ()))
    values = [(len(value), name) for name, _, value in fields if name in raw or name in read]
    longest = max(values)[1] if values else ""
    parts: list[Part] = []
    for name, before, value in fields:
        parts.append(Part("text", before, number))
        hole: Kind = "text"
        if name in _IDS and _A_TEXT.fullmatch(value):
            hole = "id"
        elif name == longest and name in read:
            hole = "answer" if kind == "EXECUTION_RESUMED" else "read"
            if hole == "answer" and any(b'"' + word.encode() + b'"' in value for word in _TELLING):
                hole = "text"
        elif name == longest:
            hole = "raw"
        elif name in raw and value[:1] != b"[":
            hole = "flat"
        parts.append(Part(hole, value, number, name))
    parts.append(Part("text", b"}", number))
    return parts


def _fields(text: bytes) -> list[tuple[str, bytes, bytes]] | None:
    """An object's fields: name, the text before the value, the value's text. None for another way of writing it."""
    try:
        values = _decode_fields(text)
    except UNDECODABLE:
        return None
    for comma, colon in _SEPARATORS:
        fields = []
        before = b"{"
        for name, raw in values.items():
            fields.append((name, before + msgspec.json.encode(name) + colon, bytes(raw)))
            before = comma
        if b"".join(part for field in fields for part in field[1:]) + b"}" == text:
            return fields
    return None


def _kind_of(parts: list[Part]) -> bytes:
    """The last event's kind, as it is written."""
    kinds = [then.text for part, then in pairwise(parts) if part.text.endswith((b'"eventType":', b'"eventType": '))]
    return kinds[-1] if kinds else b""


def _pattern(part: Part) -> bytes:
    """The group for what may stand in a hole. That a value is one JSON value is looked at afterwards."""
    if part.kind in ("execution", "id"):
        return _TEXT
    return b"(" + (b"0|[1-9][0-9]{0,14}+" if part.kind == "time" else _value_pattern(part)) + b")"


def _value_pattern(part: Part) -> bytes:
    first = part.text[:1]
    if part.kind != "flat":
        return rb"\{.+" if first == b"{" else rb".+"
    if first == b"{":
        return _BRACES
    return rb'"[^"\\\n]*+"' if first == b'"' else rb'[^",{}\[\]\n ]++'


def _is_deep(value: bytes) -> bool:
    return len(value) > _LONG and value.count(b"[") + value.count(b"{") > _MANY_BRACKETS
