"""A run without what only tells it from the same run of another day: ids by number, times from a fixed start.

An id is what looks like one that was drawn (a uuid, hex digits, a random token) and stands where ids stand, or is a
uuid; what was put into a run is data and keeps its ids. The id of the run itself becomes one that is made of the run's
content: it is the same on every machine and day, whatever else is imported, and in every other run that refers to it.
A log imported again stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pytest_loom.log.event import Event, Log, decode
from pytest_loom.log.payloads import read_started
from pytest_loom.log.relative import relative_payloads, relative_times
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.log.tokens import UUID

_RAW_PIECES = re.compile(UUID + rb"|(?<![0-9A-Za-z])run-[0-9a-f]{12}(?![0-9A-Za-z-])|[0-9A-Za-z]{12,}")
_PIECES = re.compile(_RAW_PIECES.pattern.decode())
"""What may be an id: our own alias of a run is one."""
_A_UUID = re.compile(UUID.decode())
_SHORT = re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])")
_RUN_KEYS = frozenset(
    (
        "executionid",
        "idempotencykey",
        "threadid",
        "runid",
        "runids",
        "sessionid",
        "conversationid",
        "groupid",
        "aliases",
    )
)
"""Under which names (small letters alone) a payload may say the id of its own run."""
_LINKS = frozenset(
    (
        *("newexecutionid", "parentexecutionid", "childexecutionid"),
        *("firstexecutionrunid", "continuedexecutionrunid", "parentrunid", "fromrunid"),
    )
)
"""Under which names a payload says the id of another run."""
_ID_KEYS = (
    _RUN_KEYS
    | _LINKS
    | frozenset(
        (
            *("id", "ids", "callid", "toolcallid", "correlationkey", "taskid", "conversationids", "activityid"),
            *("traceid", "spanid", "parentid", "parentspanid", "requestid", "responseid", "previousresponseid"),
            *("messageid", "checkpointid", "itemid", "providerresponseid", "workflowid", "childworkflowid"),
            *("parentworkflowid", "fromworkflowid", "originalexecutionrunid", "eventid"),
        )
    )
)
_PLACES = re.compile(rb'"([A-Za-z_]{3,24})"\s*:\s*(?:"(?:[^"\\]|\\.)*"|\[[^\[\]{}]*\])')
"""A name with a text, or a list of texts."""
_RESUME_FACTS = ("CheckpointFrontier", "checkpoints")
"""An event and the part of it that an engine needs to set a run up again: ids in it are hashes over each other."""


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A run in its normal form: its ``events``, its ``alias``, the id that it ``was``, and its ``links``.

    ``links``: for each other run that it refers to, that one's id and what stands in the events for it until
    ``linked`` says what it is.
    """

    events: list[Event]
    alias: str
    was: str
    links: dict[str, str]


def normal_form(log: Log) -> NormalForm:
    """The log with its ids and times in their normal form. Raises LogError where a payload cannot be decoded."""
    given = b"\n".join(_given(log.events))
    texts = [bytes(event.raw) for event in log.events]
    if log.source != "loom":  # there the code computes with the times that it was told
        texts = relative_payloads(log.events, texts, given)
    ids = _Ids(log.events, log.execution_id, given)
    times = relative_times(log.events)
    events = [
        msgspec.structs.replace(
            event,
            execution_id="execution",
            timestamp=moment,
            branch=ids.in_text(event.branch),
            namespace=ids.in_text(event.namespace),
            raw=msgspec.Raw(ids.in_payload(text)),
            path="",
            line=0,
        )
        for event, moment, text in zip(log.events, times, texts, strict=True)
    ]
    digest = _digest(events)
    alias = ids.named(digest)
    mine = {mark: _shaped(piece, digest) for piece, mark in ids.own.items()} or {_SELF: alias}
    events = [
        msgspec.structs.replace(
            event,
            execution_id=alias,
            branch=_filled(event.branch, mine),
            namespace=_filled(event.namespace, mine),
            raw=msgspec.Raw(_filled_bytes(bytes(event.raw), mine)),
        )
        for event in events
    ]
    return NormalForm(events, alias, log.execution_id, ids.links)


def is_drawn(text: str) -> bool:
    """Whether an id looks drawn rather than given by somebody."""
    return bool(_ids_in(text))


def linked(data: bytes, links: Mapping[str, str], aliases: Mapping[str, str]) -> bytes:
    """The lines of a log with the aliases of the runs that it refers to; one that is not known gets a number."""
    for number, (was, mark) in enumerate(links.items(), _UNKNOWN + 1):
        alias = aliases.get(was)
        if alias is None:
            parts = enumerate(_PIECES.split(was))
            found = iter(_PIECES.findall(was))
            alias = "".join(part if not at else _other(next(found), number) + part for at, part in parts)
        data = data.replace(mark.encode(), msgspec.json.encode(alias)[1:-1])
    return data


def _other(piece: str, number: int) -> str:
    return _numbered(piece, number) if _kind(piece) else piece


_SELF = "<<run>>"
_UNKNOWN = 0xF00000
"""Runs that nothing is known of are numbered from here, apart from the ids of the run itself."""


class _Ids:
    """The ids of one run and what stands for each."""

    def __init__(self, events: Sequence[Event], execution_id: str, given: bytes) -> None:
        self.execution_id = execution_id
        self.own = {
            piece: f"<<run:{number}>>" if number else _SELF for number, piece in enumerate(_ids_in(execution_id))
        }
        self.links: dict[str, str] = {}
        self.found: dict[str, str] = {}
        kept = {piece.decode() for piece in _RAW_PIECES.findall(given)}
        drawn: dict[str, None] = {}
        for event in events:
            payload: Any = decode(event.raw, event)
            if event.event_type == _RESUME_FACTS[0] and isinstance(payload, dict):
                kept |= {piece for _, text in _strings(payload.get(_RESUME_FACTS[1])) for piece in _ids_in(text)}
            for key, text in _strings(payload):
                if key in _LINKS and text and text != execution_id:
                    self.links.setdefault(text, f"<<link:{len(self.links)}>>")
                    continue
                pieces = _ids_in(text) if key in _ID_KEYS else _A_UUID.findall(text)
                drawn |= dict.fromkeys(pieces)
        used_in_part = _used_in_part(events)
        counts: dict[tuple[str, int], int] = {}
        for piece in drawn:
            if piece in kept or piece in self.own or piece in self.links or piece[:8] in used_in_part:
                continue
            kind = (_kind(piece), len(piece))
            counts[kind] = counts.get(kind, 0) + 1
            while (alias := _numbered(piece, counts[kind])) in kept:
                counts[kind] += 1
            self.found[piece] = alias
            if kind[0] == "uuid":
                self.found.setdefault(piece.replace("-", ""), alias.replace("-", ""))
        self.found |= {was: mark for was, mark in self.links.items() if _kind(was)}
        for piece, mark in list(self.own.items()):
            self.found[piece] = mark
            twin = piece.replace("-", "") if "-" in piece else _hyphened(piece)
            if twin:
                self.own[twin] = self.found[twin] = mark.replace(">", "t>", 1)
        self._raw = {key.encode(): value.encode() for key, value in self.found.items()}
        word = re.escape(msgspec.json.encode(execution_id)[1:-1])
        self._word = re.compile(rb"(?<![0-9A-Za-z_-])" + word + rb"(?![0-9A-Za-z_-])")

    def in_payload(self, text: bytes) -> bytes:
        """A payload with the aliases."""
        if self.links or not self.own:  # a word that somebody chose may mean something else elsewhere
            text = _PLACES.sub(self._in_place, text)
        return _RAW_PIECES.sub(lambda piece: self._raw.get(piece[0], piece[0]), text)

    def _in_place(self, place: re.Match[bytes]) -> bytes:
        """A name with its text: the id of the run, or of another one, by which it is called."""
        name = _plain(place[1].decode())
        key, colon, rest = place[0].partition(b":")
        value = rest.lstrip()
        if name in _LINKS and value.startswith(b'"'):
            said: Any = msgspec.json.decode(value)
            if said in self.links:
                return key + colon + msgspec.json.encode(self.links[said])
        if name in _RUN_KEYS | _LINKS and not self.own:
            return key + colon + self._word.sub(_SELF.encode(), value)
        return place[0]

    def in_text(self, text: str | None) -> str | None:
        """The same for a part of the envelope."""
        return None if text is None else _PIECES.sub(lambda piece: self.found.get(piece[0], piece[0]), text)

    def named(self, digest: str) -> str:
        """The alias of the run itself."""
        if not self.own:
            return f"run-{digest[:12]}"
        return _PIECES.sub(
            lambda piece: _shaped(piece[0], digest) if piece[0] in self.own else piece[0], self.execution_id
        )


def _given(events: Sequence[Event]) -> Iterator[bytes]:
    """What was put into the run from outside: its input, and what was sent to it."""
    for event in events:
        if event.event_type == "EXECUTION_STARTED":
            try:
                yield bytes(read_started(event.raw).input)
            except (ValueError, RecursionError) as problem:
                raise event.misshapen(problem) from None
        elif not is_kernel_type(event.event_type) and event.event_type != _RESUME_FACTS[0]:
            said = (text for key, text in _strings(decode(event.raw, event)) if key not in _ID_KEYS)
            yield "\n".join(said).encode("utf-8", "surrogatepass")


def _strings(root: Any) -> Iterator[tuple[str, str]]:
    """Every string of plain data with the name that it stands under, in the order of the text."""
    todo: list[tuple[str, Any]] = [("", root)]
    while todo:
        key, value = todo.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict):
            todo += [(_plain(name), inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list):
            todo += [(key, inner) for inner in reversed(value)]


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _ids_in(text: str) -> list[str]:
    return [piece for piece in _PIECES.findall(text) if _kind(piece)]


def _kind(piece: str) -> str:
    """``run`` (our alias), ``uuid``, ``hex`` or ``token`` for what looks drawn, "" for what somebody chose."""
    if len(piece) == 16 and piece.startswith("run-"):
        return "run"
    if len(piece) == 36 and _A_UUID.fullmatch(piece):
        return "uuid"
    if len(piece) in (16, 32) and re.fullmatch("[0-9a-f]+", piece):
        return "hex"
    turns = len(re.findall(r"(?<=[0-9])[A-Za-z]|(?<=[A-Za-z])[0-9]", piece))
    return "token" if len(piece) >= 12 and piece.isalnum() and piece.isascii() and turns >= 3 else ""


def _numbered(piece: str, number: int) -> str:
    """The alias of an id by its number, in the shape that the id has: whoever reads it may look at that."""
    if _kind(piece) == "run":
        return f"run-{number:012x}"
    if _kind(piece) == "uuid":
        version = piece[14] if piece[14] in "12345678" else "4"
        return f"00000000-0000-{version}000-8000-{number:012x}"
    return f"{number:0{len(piece)}x}" if _kind(piece) == "hex" else f"{number:0{len(piece)}d}"


def _shaped(piece: str, digest: str) -> str:
    """The alias of a run's id made of a digest, in the shape that the id has."""
    if _kind(piece) == "run":
        return f"run-{digest[:12]}"
    text = digest
    if len(piece) in (32, 36) and _kind(piece) in ("uuid", "hex"):
        version = piece.replace("-", "")[12]
        text = f"{digest[:12]}{version if version in '12345678' else '4'}{digest[13:16]}8{digest[17:]}"
    if "-" in piece:
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"
    return text[: len(piece)]


def _hyphened(piece: str) -> str:
    if len(piece) != 32 or _kind(piece) != "hex":
        return ""
    return f"{piece[:8]}-{piece[8:12]}-{piece[12:16]}-{piece[16:20]}-{piece[20:]}"


def _used_in_part(events: Sequence[Event]) -> frozenset[str]:
    """The hex words of eight that stand alone: where a uuid begins so, code may have cut it off from it."""
    found: set[bytes] = set()
    for event in events:
        found.update(_SHORT.findall(_RAW_PIECES.sub(b"", bytes(event.raw))))
    return frozenset(word.decode() for word in found)


def _digest(events: Sequence[Event]) -> str:
    sha = hashlib.sha256()
    for event in events:
        head = [
            event.workflow_id,
            event.timestamp,
            event.event_type,
            event.event_version,
            event.branch,
            event.namespace,
        ]
        sha.update(msgspec.json.encode(head) + bytes(event.raw) + b"\n")
    return sha.hexdigest()


def _filled(text: str | None, marks: Mapping[str, str]) -> str | None:
    for mark, alias in marks.items() if text else ():
        text = text.replace(mark, alias) if text else text
    return text


def _filled_bytes(text: bytes, marks: Mapping[str, str]) -> bytes:
    if b"<<run" in text:
        for mark, alias in marks.items():
            text = text.replace(mark.encode(), alias.encode())
    return text
