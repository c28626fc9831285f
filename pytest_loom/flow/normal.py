"""Two recordings of the same thing are told from two of different things: ids, times and chance taken out.

What differs from run to run without meaning anything gets a fixed value: the execution's id, timestamps, what
``ctx.now()``, ``ctx.uuid()`` and ``ctx.random()`` gave (also where it stands in later payloads), and how the events of
concurrent branches happened to interleave. Everything else stays as it is, byte for byte: where it is not sure that two
recordings say the same, they count as different.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from pytest_loom.flow.history import Place
from pytest_loom.flow.values import encode
from pytest_loom.fold import branch_order
from pytest_loom.log.event import UNDECODABLE, Event, Log
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.log.tokens import HEX, TOKEN, UUID
from pytest_loom.log.write import encode_events

EXECUTION = "execution"
"""Stands for the execution's id (with a number where a payload holds this very word already)."""

_TIME = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)"
_NUMBER = rb"(?<![0-9A-Za-z.])\d+\.\d+(?:[eE][+-]?\d+)?(?![0-9A-Za-z.])"
_SHAPES = b"|".join((UUID, HEX, _TIME, _NUMBER))
_LONG = 16
"""From this length on an id is recognised within a word too."""

_STARTS = {"STEP_STARTED": "stepId", "TOOL_REQUESTED": "callId", "MODEL_REQUESTED": "callId"}
_ENDS = {
    "STEP_COMPLETED": "stepId",
    "STEP_FAILED": "stepId",
    "TOOL_COMPLETED": "callId",
    "TOOL_FAILED": "callId",
    "MODEL_COMPLETED": "callId",
    "MODEL_FAILED": "callId",
}


def normalised(log: Log) -> Log:
    """The log without what is different each time it is recorded: ids, times, chance, interleaving.

    Two recordings are of the same thing where ``write_log`` writes the same bytes for both. Ids and values that
    decisions recorded are replaced by placeholders of the same shape that stand nowhere in the log; every timestamp is
    0. Branches keep their own order, and stand where their first event did among the events of the branch that made
    them. Raises LogError for a payload that cannot be decoded.
    """
    events = _in_order(log.events)
    identity = _unused(b"\n".join(bytes(event.raw) for event in events), log.execution_id)
    texts = _without_chance(events, log.execution_id, identity)
    return Log(
        [
            msgspec.structs.replace(
                event, execution_id=identity, sequence=index, timestamp=0, raw=msgspec.Raw(text), path="", line=0
            )
            for index, (event, text) in enumerate(zip(events, texts, strict=True), 1)
        ],
        path=log.path,
        source=log.source,
        engine=log.engine,
    )


def same_recording(one: Log, other: Log) -> bool:
    """Whether two logs record the same thing: nothing differs but ids, times, chance and interleaving."""
    if len(one) != len(other) or one.workflow_id != other.workflow_id:
        return False
    return encode_events(normalised(one).events) == encode_events(normalised(other).events)


# Order --------------------------------------------------------------------------------------------------------------


def _in_order(events: Sequence[Event]) -> list[Event]:
    """The events in the order in which they would stand had every branch run to its end before the next one began.

    Branches are put by number where their first event stood among the events of the branch that made them; where that
    was during an effect, right after its start. What came before the answer of a gate stays before it.
    """
    if all(event.branch is None and event.namespace is None for event in events):
        return list(events)
    legs, places = _legs(events)
    indexes: dict[Place, list[int]] = {(None, None): []}
    for index, place in enumerate(places):
        indexes.setdefault(place, []).append(index)
    inner_last = sorted(indexes, key=lambda place: len(place[0] or "") + len(place[1] or ""))
    outer = {place: _outer(place, indexes) for place in inner_last[1:]}
    first = {place: own[0] for place, own in indexes.items() if own}
    for place in reversed(inner_last[1:]):
        around = outer[place]
        first[around] = min(first[place], first.get(around, first[place]))
    keys: dict[Place, tuple[Any, ...]] = {(None, None): ()}
    anchors: dict[Place, list[int]] = {}
    for place in inner_last[1:]:
        around = outer[place]
        own = indexes[around]
        if around not in anchors:
            anchors[around] = _anchors([events[index] for index in own])
        gap = anchors[around][bisect_left(own, first[place])]
        keys[place] = (*keys[around], (gap, 0, branch_order(place[1]), place[1] or "", place[0] or ""))
    ranks: list[tuple[Any, ...]] = [()] * len(events)
    for place, own in indexes.items():
        for number, index in enumerate(own):
            ranks[index] = (legs[index], (*keys[place], (number, 1)))
    return [events[index] for index in sorted(range(len(events)), key=ranks.__getitem__)]


def _legs(events: Sequence[Event]) -> tuple[list[int], list[Place]]:
    """For each event how many answers came before it, and its place: an answer's own event goes with the answer."""
    legs: list[int] = []
    places: list[Place] = []
    leg = 0
    for index, event in enumerate(events):
        place = (event.namespace, event.branch)
        following = events[index + 1] if index + 1 < len(events) else event
        answered_before = index > 0 and not is_kernel_type(events[index - 1].event_type)
        if not is_kernel_type(event.event_type) and following.event_type == "EXECUTION_RESUMED":
            place = (following.namespace, following.branch)
            leg += 1
        elif event.event_type == "EXECUTION_RESUMED" and not answered_before:
            leg += 1
        legs.append(leg)
        places.append(place)
    return legs, places


def _outer(place: Place, known: Iterable[Place]) -> Place:
    """The nearest place around another that has events: the branch that made it, or in which its sub-flow runs."""
    namespace, branch = place
    while namespace or branch:
        around, _, name = (namespace or "").rpartition("/")
        began, is_told, _ = name.partition(":")
        began_in = began.replace(".", "/") if is_told else ""
        if namespace and (branch or "") == began_in:
            namespace = around
        elif branch:
            branch = branch.rpartition("/")[0]
        else:
            namespace = around
        found = (namespace or None, branch or None)
        if found in known:
            return found
    return (None, None)


def _anchors(own: Sequence[Event]) -> list[int]:
    """For each gap before, between and after a branch's events: itself, or the one after the start of what goes on."""
    anchors = [0]
    open_since: dict[tuple[str, Any], int] = {}
    for gap, event in enumerate(own, 1):
        kind = event.event_type.partition("_")[0]
        if event.event_type in _STARTS:
            open_since.setdefault((kind, event.payload.get(_STARTS[event.event_type])), gap)
        elif event.event_type in _ENDS:
            payload = event.payload
            if not payload.get("willRetry"):
                open_since.pop((kind, payload.get(_ENDS[event.event_type])), None)
        anchors.append(min(open_since.values(), default=gap))
    return anchors


# Chance -------------------------------------------------------------------------------------------------------------


def _without_chance(events: Sequence[Event], execution_id: str, identity: str) -> list[bytes]:
    """The payloads with placeholders for the execution's id and for what the clock, uuid and random gave."""
    texts = [bytes(event.raw) for event in events]
    chances = list(_chances(events))
    known = set(re.findall(_SHAPES, b"\n".join(texts)))
    known -= {text for _, key, value in chances for text, _ in _SHAPED[key](0, value)}
    said = encode(execution_id)[1:-1]
    found: dict[bytes, bytes] = {said: encode(identity)[1:-1]}
    own: dict[int, bytes] = {}
    counts = dict.fromkeys(_SHAPED, 0)
    for index, key, value in chances:
        counts[key] += 1
        while any(placeholder in known for _, placeholder in _SHAPED[key](counts[key], value)):
            counts[key] += 1
        forms = _SHAPED[key](counts[key], value)
        own[index] = texts[index].replace(value, forms[0][1])
        for text, placeholder in forms:
            found.setdefault(text, placeholder)
    word = re.escape(said)
    if len(execution_id) < _LONG:
        word = rb"(?<![0-9A-Za-z])" + word + rb"(?![0-9A-Za-z])"
    pattern = re.compile(word + b"|" + _SHAPES)

    def replaced(token: re.Match[bytes]) -> bytes:
        text = token[0]
        if text[:1] != b'"':
            return found.get(text, text) if text != said else text
        return pattern.sub(lambda match: found.get(match[0], match[0]), text)

    return [own.get(index) or TOKEN.sub(replaced, text) for index, text in enumerate(texts)]


def _chances(events: Sequence[Event]) -> Iterator[tuple[int, str, bytes]]:
    """The decisions that are chance: which event, of which kind, and the value as it is written."""
    for index, event in enumerate(events):
        if event.event_type == "DECISION_RECORDED":
            payload = event.payload
            key, value = str(payload.get("key")), encode(payload.get("value")).strip(b'"')
            if key in _SHAPED and _SHAPED[key](0, value):
                yield index, key, value


def chance_forms(events: Sequence[Event]) -> Iterator[tuple[Any, list[bytes]]]:
    """Of each decision that is chance, where it was made, and every form in which its value may stand in a payload."""
    for index, key, value in _chances(events):
        event = events[index]
        yield (event.namespace, event.branch, key), [text for text, _ in _SHAPED[key](0, value)]


def _unused(text: bytes, execution_id: str) -> str:
    """The word for the execution's id: one that no payload holds."""
    word, number = EXECUTION, 1
    while word != execution_id and word.encode() in text:
        number += 1
        word = f"{EXECUTION}{number}"
    return word


def _now_forms(number: int, value: bytes) -> list[tuple[bytes, bytes]]:
    if re.fullmatch(_TIME, value) is None or value[-1:] != b"Z":
        return []
    placeholder = b"2000-01-01T%02d:%02d:%02d.%06dZ" % (number // 3600 % 24, number // 60 % 60, number % 60, number)

    def forms(text: bytes) -> list[bytes]:
        offset = text[:-1] + b"+00:00"
        return [text, offset, offset.replace(b"T", b" ")]

    return list(zip(forms(value), forms(placeholder), strict=True))


def _uuid_forms(number: int, value: bytes) -> list[tuple[bytes, bytes]]:
    if re.fullmatch(UUID, value) is None:
        return []
    placeholder = b"00000000-0000-4000-8000-%012x" % number
    return [(value, placeholder), (value.replace(b"-", b""), placeholder.replace(b"-", b""))]


def _random_forms(number: int, value: bytes) -> list[tuple[bytes, bytes]]:
    try:
        decoded = msgspec.json.decode(value)
    except UNDECODABLE:
        return []
    if not isinstance(decoded, float) or not 0 <= decoded < 1:
        return []
    return [(value, encode(0.5 + number / 2**30))]


_SHAPED: dict[str, Callable[[int, bytes], list[tuple[bytes, bytes]]]] = {
    "now": _now_forms,
    "uuid": _uuid_forms,
    "random": _random_forms,
}
"""The decisions that are chance: each form in which such a value may stand in a payload, and its placeholder."""
