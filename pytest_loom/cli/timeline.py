"""A run's events in words, one a line: sequence, time since the start, what happened, what was said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from pytest_loom.cli.output import Style
from pytest_loom.errors import LogError, printable
from pytest_loom.evals.values import short
from pytest_loom.log.event import Event, Log
from pytest_loom.state import Frame

WIDTH = 80
_NAME = 34
_TIME = 10

_SHOWN: dict[str, tuple[str, str]] = {
    "EXECUTION_STARTED": ("starts", "input"),
    "EXECUTION_COMPLETED": ("completed", "output"),
    "EXECUTION_FAILED": ("FAILED", "error"),
    "EXECUTION_CANCELLED": ("cancelled", "reason"),
    "STEP_STARTED": ("starts", "input"),
    "STEP_PROGRESS": ("gives a piece", "chunk"),
    "STEP_COMPLETED": ("done", "output"),
    "STEP_FAILED": ("FAILED", "error"),
    "TOOL_REQUESTED": ("asked", "args"),
    "TOOL_COMPLETED": ("answers", "output"),
    "TOOL_FAILED": ("FAILED", "error"),
    "MODEL_REQUESTED": ("asked", "request"),
    "MODEL_COMPLETED": ("answers", "response"),
    "MODEL_FAILED": ("FAILED", "error"),
}
"""By kind: what happened, and the field of the payload that says what."""


def rows(log: Log, frames: Mapping[int, Frame], events: list[Event] | None = None) -> Iterator[tuple[str, Style]]:
    """The timeline of a run, or of some of its events, in lines of 80 columns; ``frames`` is what ``frames_told`` says.

    Pieces of a stream that follow upon each other are one line.
    """
    events = list(log.events) if events is None else events
    names = call_names(log)
    start = _time(log.events[0])
    wide = max(4, len(str(events[-1].sequence))) if events else 4

    def stream(event: Event) -> object:
        frame = frames.get(event.sequence)
        return frame.key if event.event_type == "STEP_PROGRESS" and frame is not None else event.sequence

    for _, together in groupby(events, key=stream):
        first, *more = together
        what, value, style = said(first, frames, names)
        if more:
            what, value = f"{what.rpartition(' gives')[0]} gives {len(more) + 1} pieces", first.payload.get("chunk")
        told = _with(f"{_place(first)}{what}", value, WIDTH - wide - _TIME - 4)
        yield f"{first.sequence:>{wide}}  {since(first, start):>{_TIME}}  {told}", style


def said(event: Event, frames: Mapping[int, Frame], names: Mapping[Any, str]) -> tuple[str, Any, Style]:
    """What happened, the value that belongs to it (None where there is none), and how it is to look."""
    kind = event.event_type
    try:
        payload = event.payload
    except LogError as error:
        return f"{printable(kind, _NAME)}, which cannot be read", error.what, "red"
    style: Style = "red" if kind.endswith("_FAILED") else "bold" if kind.startswith("EXECUTION_") else ""
    if kind in _SHOWN:
        what, field = _SHOWN[kind]
        about = _about(event, payload, frames, names)
        again = ", and is tried again" if kind == "STEP_FAILED" and payload.get("willRetry") else ""
        return f"{about}{what}{_attempt(kind, payload)}{again}", _error(payload, field), style
    if kind == "EXECUTION_SUSPENDED":
        on = payload.get("on")
        on = " or ".join(map(str, on)) if isinstance(on, list) else str(on)
        limit = payload.get("timeoutMs")
        within = f", within {duration(limit)}" if isinstance(limit, (int, float)) and limit >= 0 else ""
        how = printable(str(payload.get("kind", "event")), 20)
        return f"waits for {printable(on, _NAME)} ({how}{within})", payload.get("pending"), "yellow"
    if kind == "EXECUTION_RESUMED":
        by = payload.get("eventType")
        return f"goes on{f', by {printable(str(by), _NAME)}' if by else ''}", payload.get("payload"), "bold"
    if kind == "DECISION_RECORDED":
        return f"decided {printable(str(payload.get('key')), _NAME)}", payload.get("value"), style
    if kind in ("STATE_SNAPSHOT", "PLAN_RECORDED"):
        name = "state" if kind == "STATE_SNAPSHOT" else "plan"
        version = payload.get(f"{name}SchemaVersion")
        return f"{name}{f' of version {short(version, 20)}' if version is not None else ''}", payload.get(name), style
    if kind == "EXECUTION_MIGRATED":
        return "taken over to another version", payload, style
    if kind == "EXECUTION_FORKED":
        parent = printable(str(payload.get("parentExecutionId")), _NAME)
        return f"forked from {parent} at event {short(payload.get('atSequence'), 20)}", None, style
    if kind == "EXECUTION_CONTINUED":
        return f"goes on as {printable(str(payload.get('newExecutionId')), _NAME)}", payload.get("input"), style
    return printable(kind, _NAME), payload or None, "bold"


def call_names(log: Log) -> dict[Any, str]:
    """By kind and call id: the name of the tool or model that was asked."""
    found: dict[Any, str] = {}
    for event in log.events:
        field = {"TOOL_REQUESTED": "name", "MODEL_REQUESTED": "model"}.get(event.event_type)
        if field is not None:
            payload = _payload(event)
            found[event.event_type[:4], str(payload.get("callId"))] = str(payload.get(field))
    return found


def duration(ms: float) -> str:
    """So many milliseconds in at most ten characters; "?" for more than a thousand years."""
    if not abs(ms) < 86_400_000 * 365_000:
        return "?"
    sign, ms = ("-", -ms) if ms < 0 else ("", ms)
    if ms < 1000:
        return f"{sign}{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 59.95:
        return f"{sign}{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days > 999:
        return f"{sign}{days} d"
    pairs = ((days, "d", hours, "h"), (hours, "h", minutes, "m"), (minutes, "m", seconds, "s"))
    large, unit, small, below = next(pair for pair in pairs if pair[0])
    return f"{sign}{large} {unit} {small:02} {below}"


def since(event: Event, start: float | None) -> str:
    """The time since ``start``; "?" where it is not known."""
    moment = _time(event)
    if start is None or moment is None:
        return "?"
    return "0" if moment == start else f"+{duration(moment - start)}".replace("+-", "-")


def between(first: Event, last: Event) -> str:
    """The time from one event to another, "" where it is not known."""
    one, other = _time(first), _time(last)
    return "" if one is None or other is None else duration(other - one)


def _time(event: Event) -> float | None:
    try:
        return event.time_ms
    except LogError:
        return None


def _payload(event: Event) -> dict[str, Any]:
    try:
        return event.payload
    except LogError:
        return {}


def _about(event: Event, payload: dict[str, Any], frames: Mapping[int, Frame], names: Mapping[Any, str]) -> str:
    """The step, tool or model that an event is about; "" for one of the run itself."""
    kind = event.event_type[:4]
    if kind == "STEP":
        frame = frames.get(event.sequence)
        return f"{printable(str(payload.get('stepId')) if frame is None else frame.key, _NAME)} "
    if kind in ("TOOL", "MODE"):
        name = payload.get("name") or payload.get("model") or names.get((kind, str(payload.get("callId"))), "?")
        return f"{'tool' if kind == 'TOOL' else 'model'} {printable(str(name), _NAME)} "
    return ""


def _attempt(kind: str, payload: dict[str, Any]) -> str:
    attempt = payload.get("attempt")
    return (
        f", attempt {short(attempt, 10)}" if kind == "STEP_STARTED" and isinstance(attempt, int) and attempt > 1 else ""
    )


def _error(payload: dict[str, Any], field: str) -> Any:
    """The value of a field; of an error its type and message in one."""
    value = payload.get(field)
    if field == "error" and isinstance(value, dict) and value.keys() <= {"type", "message"}:
        return _Plain(": ".join(str(value[part]) for part in ("type", "message") if value.get(part)))
    return value


class _Plain(str):
    """Text that is shown without quotes."""


def shown(value: Any, limit: int) -> str:
    """A value in at most ``limit`` characters."""
    return printable(value, limit) if isinstance(value, _Plain) else short(value, limit)


def _place(event: Event) -> str:
    """The branch and the sub-flow in which an event happened."""
    parts = [f"[{printable(event.branch, 16)}] " if event.branch else ""]
    parts += [f"{printable(event.namespace, 20)}: " if event.namespace else ""]
    return "".join(parts)


def _with(what: str, value: Any, room: int) -> str:
    if value is None or room - len(what) < 8:
        return printable(what, room)
    return f"{what}  {shown(value, room - len(what) - 2)}"
