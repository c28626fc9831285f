"""Temporal history files as checked lists of events: every shape that tools write, brought to one.

Shapes: ``{"events": […]}``, ``[{"events": […]}, …]`` (batches of one run, or several runs), ``{"history": {"events"}}``
(the server's answer, page by page too) and a bare list of events; ascending or descending; as downloaded or as decoded
by Temporal's UI. Format: temporalio/api, temporal/api/history/v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import too_deep
from pytest_loom.log.read import paused_gc
from pytest_loom.sources.temporal.enums import EVENT_TYPE, enum_name
from pytest_loom.sources.temporal.payloads import MAX_DEPTH
from pytest_loom.sources.temporal.protojson import NOTHING, Fields, Malformed, camel, kind_of, utc_time

STARTED = "WorkflowExecutionStarted"

ENDS = frozenset(
    f"WorkflowExecution{how}" for how in ("Completed", "Failed", "TimedOut", "Canceled", "Terminated", "ContinuedAsNew")
)
"""Events after which a run is over."""

_AGAIN = "Download the whole history once more, e.g. `temporal workflow show --workflow-id ID --output json`."
_ATTRIBUTES = "EventAttributes"
_MAX_EVENT_ID = 2**31


class HistoryEvent(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One event: ``kind`` is its Pascal name, ``attributes`` the message that belongs to it.

    ``known`` says whether this reader knows the kind; ``may_ignore`` whether the server marked it as safe to ignore.
    ``timestamp`` is RFC 3339 text in UTC, None where the file has none.
    """

    event_id: int
    kind: str
    known: bool
    timestamp: str | None
    attributes: Fields
    may_ignore: bool
    user_metadata: Fields


@dataclass(frozen=True, slots=True)
class Run:
    """The events of one run in order, numbered 1, 2, 3, …; ``partial`` where the file says that more of it follows."""

    events: list[HistoryEvent]
    partial: bool = False


def parse_history(data: bytes, path: str = "") -> Iterator[Run | LogError]:
    """Every run in a history file (JSON text, decompressed), or the LogError that says what is wrong with it.

    Never raises. An error's ``line`` is the id of the Temporal event, which is where tools show it.
    """
    try:
        with paused_gc():
            batches, partial = _batches(_document(data))
            runs = _runs(batches)
    except Malformed as problem:
        yield log_error(problem, path)
        return
    for raw_events in runs:
        try:
            with paused_gc():
                run = Run(_ordered(raw_events), partial)
        except Malformed as problem:
            yield log_error(problem, path)
        else:
            yield run


def log_error(problem: Malformed, path: str, execution_id: str = "") -> LogError:
    """``problem`` as the error that readers hand out; its line is the Temporal event id."""
    what = f"event {problem.event_id}: {problem.what}" if problem.event_id else problem.what
    return LogError(
        f"not a readable Temporal history: {what}",
        path=path,
        line=problem.event_id,
        execution_id=execution_id,
        hint=problem.hint or _AGAIN,
    )


def _document(data: bytes) -> Any:
    try:
        document = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError:
        raise Malformed(f"it nests deeper than {MAX_DEPTH} levels") from None
    except ValueError as problem:
        raise Malformed(f"it is not JSON ({problem})") from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and too_deep(document, MAX_DEPTH):
        raise Malformed(f"it nests deeper than {MAX_DEPTH} levels")
    return document


def _batches(document: Any) -> tuple[list[list[Any]], bool]:
    """The lists of events in a document, and whether it says that a further page follows."""
    if isinstance(document, list):
        if not any(isinstance(item, dict) and ("events" in item or "history" in item) for item in document):
            return [document], False
        pages = [_batches(page) for page in document if page is not None]
        return [batch for batches, _ in pages for batch in batches], bool(pages and pages[-1][1])
    if not isinstance(document, dict):
        raise Malformed(f"it is {kind_of(document)}, not a history")
    partial = bool(document.get("nextPageToken") or document.get("next_page_token"))
    holder = document
    if "events" not in document and document.get("history") is not None:
        holder = document["history"]
        if not isinstance(holder, dict):
            raise Malformed(f'"history" is {kind_of(holder)}, not an object')
    events = holder.get("events")
    if events is None:
        if document.get("rawHistory") or document.get("raw_history"):
            raise Malformed("it holds only rawHistory, which is protobuf and not JSON")
        events = []
    if not isinstance(events, list):
        raise Malformed(f'"events" is {kind_of(events)}, not a list')
    return [events], partial


def _runs(batches: list[list[Any]]) -> list[list[Any]]:
    """The events of each run. A run begins where a WorkflowExecutionStarted stands; one list may hold several."""
    events = [event for batch in batches for event in batch]
    if not events:
        raise Malformed("it has no events")
    starts = [
        index
        for index, event in enumerate(events)
        if not (type(event) is dict and type(kind := event.get("eventType")) is str and kind in _NO_START)
        and _is_start(event)
    ]
    if len(starts) < 2:
        return [events]
    if len(starts) == len(batches) and all(sum(map(_is_start, batch)) == 1 for batch in batches):
        return batches
    if starts[0] == 0:
        cuts = [*starts, len(events)]
    elif starts[-1] == len(events) - 1:
        cuts = [0, *(index + 1 for index in starts)]
    else:
        raise Malformed(f"it holds {len(starts)} runs, and which events belong to which cannot be told")
    return [events[begin:end] for begin, end in pairwise(cuts)]


_NO_START = frozenset(way for way, kind in EVENT_TYPE.spellings.items() if kind != STARTED)


def _is_start(event: Any) -> bool:
    kind = event.get("eventType", event.get("event_type")) if isinstance(event, dict) else None
    return type(kind) in (str, int) and EVENT_TYPE.spellings.get(str(kind)) == STARTED


def _ordered(raw_events: list[Any]) -> list[HistoryEvent]:
    events = [_plain_event(raw) or _event(raw, position) for position, raw in enumerate(raw_events, 1)]
    events.sort(key=attrgetter("event_id"))
    for expected, event in enumerate(events, 1):
        if event.event_id == expected:
            continue
        if event.event_id < expected:
            raise Malformed("this event id occurs twice", event_id=event.event_id)
        if expected == 1:
            raise Malformed("the history begins with this event; what came before is missing", event_id=event.event_id)
        raise Malformed(
            f"this event is missing: event {expected - 1} is followed by event {event.event_id}", event_id=expected
        )
    if events[0].kind != STARTED:
        raise Malformed(
            f"the first event has to be {STARTED}, it is {printable(events[0].kind)}", event_id=events[0].event_id
        )
    for event in events[:-1]:
        if event.kind in ENDS:
            raise Malformed(f"{event.kind} ends the run, and yet an event follows", event_id=event.event_id)
    return events


def _plain_event(raw: Any) -> HistoryEvent | None:
    """An event as today's tools write it; None for any other, which ``_event`` reads or refuses. Nearly all are."""
    try:
        kind, key = PLAIN[raw["eventType"]]
        event_id, moment, attributes = raw["eventId"], raw["eventTime"], raw[key]
    except (KeyError, TypeError):
        return None
    if type(event_id) is not str or type(attributes) is not dict or not _UNUSUAL.isdisjoint(raw):
        return None
    if not (event_id.isascii() and event_id.isdecimal() and len(event_id) < 10 and (moment := utc_time(moment))):
        return None
    return HistoryEvent(int(event_id), kind, True, moment, Fields(attributes, key), False, NOTHING)


_UNUSUAL = frozenset({"workerMayIgnore", "worker_may_ignore", "userMetadata", "user_metadata"})


def _event(raw: Any, position: int) -> HistoryEvent:
    if not isinstance(raw, dict):
        raise Malformed(f"entry {position} of the events is {kind_of(raw)}, not an object")
    fields = Fields(raw, "event")
    try:
        event_id = fields.integer("eventId")
    except Malformed as problem:
        raise Malformed(f"entry {position} of the events: {problem.what}") from None
    if not 0 < event_id < _MAX_EVENT_ID:
        raise Malformed(f"entry {position} of the events has no eventId")
    try:
        kind, known = _kind(fields)
        return HistoryEvent(
            event_id=event_id,
            kind=kind,
            known=known,
            timestamp=fields.timestamp("eventTime"),
            attributes=_attributes(fields, kind, known),
            may_ignore=fields.flag("workerMayIgnore"),
            user_metadata=fields.message("userMetadata"),
        )
    except Malformed as problem:
        problem.event_id = event_id
        raise


def _kind(fields: Fields) -> tuple[str, bool]:
    kind = enum_name(fields.raw("eventType"), EVENT_TYPE, "eventType")
    if kind in _KNOWN:
        return kind, True
    if not kind:
        raise Malformed("it has no eventType")
    if kind.isdecimal():  # a number newer than the table: the attributes still say what it is
        key = next((key for key in fields if key.endswith(_ATTRIBUTES)), "")
        kind = f"{key[:1].upper()}{key[1:].removesuffix(_ATTRIBUTES)}" if key else f"EventType{kind}"
    return kind, False


_KNOWN = frozenset(EVENT_TYPE.names) - {""}
PLAIN: dict[Any, tuple[str, str]] = {
    way: (kind, f"{kind[:1].lower()}{kind[1:]}{_ATTRIBUTES}") for way, kind in EVENT_TYPE.spellings.items() if kind
}
"""An event's kind, and the key of its attributes, by each way of writing its type."""


def _attributes(fields: Fields, kind: str, known: bool) -> Fields:
    key = f"{kind[:1].lower()}{kind[1:]}{_ATTRIBUTES}"
    if not known and fields.raw(key) is None:
        key = next((other for other in fields if other.endswith(_ATTRIBUTES)), key)
    return Fields(fields.raw(key), camel(key))
