"""The facts beside a finding: what the log says at the place that it is about, and what today's contract has there.

One rule for all engines, so that every form of report can put the two side by side. Where a run stands is told by its
open wait, else by its last event. No value and no time is among them: of runs that are alike they are the same
(``alike``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.report import Finding
from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Event, Log
from pytest_loom.state import Suspension

_NAMED = 5
"""How many of today's names are listed beside one that is gone."""

_LONG = 60


def told(found: Finding, log: Log, contract: Contract | None, print_of_today: str, engine: str) -> Finding:
    """The finding with its facts. ``contract`` is today's, None where the flow is gone."""
    recorded, part = recorded_at(log, found.step)
    today = today_at(log.workflow_id, contract, print_of_today, found.step, part)
    return replace(found, engine=engine, recorded=recorded, today=today)


def place_of(log: Log, step: str | None) -> tuple[Event | None, str]:
    """The event that a finding about ``step`` is about, and which part of a contract that is: step, tool, gate or "".

    None where it is about none: the run stands where it stands then.
    """
    state = log.state
    if step is None:
        return None, ""
    for wait in state.suspensions:
        if step in wait.events:
            return _event(log, wait.sequence), "gate"
        if step in _asked_about(wait):
            return _event(log, wait.sequence), "tool"
    frame = state.frames.get(step)
    if frame is None:
        frame = next((one for one in reversed(state.frames.values()) if one.step_id == step), None)
    if frame is not None:
        return frame.event, "step"
    call = next((one for one in reversed(state.calls) if one.name == step), None)
    return (None, "") if call is None else (call.event, "tool" if call.kind == "tool" else "")


def recorded_at(log: Log, step: str | None) -> tuple[str, str]:
    """What the log says of ``step``, or of where the run stands, in one line; and the part of the contract."""
    event, part = place_of(log, step)
    state = log.state
    if event is None:
        waits = state.suspensions
        event = _event(log, waits[0].sequence) if waits else state.last_event
    what = _what(log, event, step)
    return f"{what}, event {event.sequence} of {len(log)}", part


def today_at(
    workflow_id: str, contract: Contract | None, print_of_today: str, step: str | None, part: str
) -> str | None:
    """What today's contract has at that place, in one line; None where it says nothing of it."""
    flow = printable(workflow_id, _LONG)
    if contract is None:
        return f"no flow {flow}"
    head = f"{today_begins(workflow_id, contract.version)}{print_of_today[:8]})"
    names: Mapping[str, Any] | None = {"step": contract.steps, "gate": contract.gates, "tool": contract.tools}.get(part)
    if step is None or names is None:
        return head
    name = printable(step, _LONG)
    if step in names:
        return f"{head} has {part} {name}"
    listed = ", ".join(printable(one, _LONG) for one in list(names)[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{head} has no {part} {name}" + (f", but {listed}{more}" if names else f", and no {part} at all")


def today_begins(workflow_id: str, version: str | None) -> str:
    """How the line of today's side begins where today's code has that version."""
    return f"{printable(workflow_id, _LONG)}{f' {printable(version, 40)}' if version is not None else ''} (contract "


def rfc3339(event: Event) -> str | None:
    """When an event was, to the second, in UTC, for programs; None where that cannot be read."""
    try:
        return rfc3339_of(event.time_ms)
    except LogError:
        return None


def rfc3339_of(time_ms: float) -> str | None:
    """The same of milliseconds since the epoch."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()[:19]}Z"
    except (ValueError, OverflowError, OSError):
        return None


def _what(log: Log, event: Event, step: str | None) -> str:
    wait = next((one for one in log.state.suspensions if one.sequence == event.sequence), None)
    if wait is not None:
        return f"waits for {' or '.join(printable(name, _LONG) for name in wait.events)} ({printable(wait.kind)})"
    kind = printable(event.event_type, _LONG).lower().replace("_", " ")
    subject, _, verb = kind.partition(" ")
    if step is not None and subject in ("step", "tool", "model"):
        return f"{subject} {printable(step, _LONG)} {verb}"
    return kind if event.event_type.isupper() else printable(event.event_type, _LONG)


def _event(log: Log, sequence: int) -> Event:
    return log.events[sequence - 1] if 0 < sequence <= len(log) else log.state.last_event


def _asked_about(wait: Suspension) -> set[str]:
    pending = wait.pending
    calls = pending if isinstance(pending, list) else [pending]
    return {call["name"] for call in calls if isinstance(call, dict) and isinstance(call.get("name"), str)}
