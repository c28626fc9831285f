"""What today's code asked for, beside what was recorded: paired in order, kind by kind, and said in words.

A history holds an event for every command that code gave; both are SDK Core's protobuf messages here. What a server
adds to an event by itself (default timeouts, a retry policy) is no difference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict

from pytest_loom.sources.temporal.payloads import arguments, payload, result
from pytest_loom.sources.temporal.watch import Command

_KINDS = {
    "activity_task_scheduled_event_attributes": "schedule_activity",
    "timer_started_event_attributes": "start_timer",
    "start_child_workflow_execution_initiated_event_attributes": "start_child_workflow_execution",
    "signal_external_workflow_execution_initiated_event_attributes": "signal_external_workflow_execution",
    "request_cancel_external_workflow_execution_initiated_event_attributes": (
        "request_cancel_external_workflow_execution"
    ),
    "nexus_operation_scheduled_event_attributes": "schedule_nexus_operation",
    "workflow_execution_completed_event_attributes": "complete_workflow_execution",
    "workflow_execution_failed_event_attributes": "fail_workflow_execution",
    "workflow_execution_canceled_event_attributes": "cancel_workflow_execution",
    "workflow_execution_continued_as_new_event_attributes": "continue_as_new_workflow_execution",
}
"""The command that each event of a history stands for."""

_UNDONE = {
    "request_cancel_activity": "schedule_activity",
    "cancel_timer": "start_timer",
    "cancel_child_workflow_execution": "start_child_workflow_execution",
    "cancel_signal_workflow": "signal_external_workflow_execution",
    "request_cancel_nexus_operation": "schedule_nexus_operation",
}
"""Commands that take another one back, which leaves no trace where that was not sent yet."""

_TIMEOUTS = ("schedule_to_close_timeout", "schedule_to_start_timeout", "start_to_close_timeout", "heartbeat_timeout")
_RETRY = ("initial_interval", "backoff_coefficient", "maximum_interval", "maximum_attempts")


@dataclass(frozen=True)
class Place:
    """One place of the record, and what today's code asked for there: either may be missing."""

    event: Any
    command: Command | None


def given(commands: Iterable[Command], events: Iterable[Any]) -> list[Command]:
    """The commands that leave an event of their own, in order.

    SDK Core holds what has no event among the recorded ones until there is one, or until it can be sent: what the code
    takes back before leaves no trace. As commands are sent in order, the first has the first event, and so on.
    """
    ids = [event.event_id for event in events if event.WhichOneof("attributes") in _KINDS]
    kept: list[Command] = []
    for command in commands:
        taken_back = _UNDONE.get(command.kind)
        if command.kind in _COMMANDS:
            kept.append(command)
        if taken_back is None:
            continue
        for position, other in enumerate(kept):
            if other.kind == taken_back and other.message.seq == command.message.seq:
                is_sent = other.task < command.task and sum(one < command.task for one in ids) > position
                if not is_sent:
                    del kept[position]
                break
    return kept


_COMMANDS = frozenset(_KINDS.values())


def first_difference(events: Iterable[Any], commands: list[Command]) -> Place | None:
    """Where record and code first part by kind or name; the code may have stopped there, or gone beyond the record."""
    recorded = [event for event in events if event.WhichOneof("attributes") in _KINDS]
    for position in range(max(len(recorded), len(commands))):
        event = recorded[position] if position < len(recorded) else None
        command = commands[position] if position < len(commands) else None
        if event is None or command is None or _kind(event) != command.kind:
            return Place(event, command)
        if event_name(event) != command_name(command):
            return Place(event, command)
    return None


def beyond(events: Iterable[Any], commands: Iterable[Command]) -> Command | None:
    """The first command for which the record has no event of its kind any more; None where each has one."""
    left = Counter(_KINDS.get(event.WhichOneof("attributes")) for event in events)
    for command in commands:
        if not left[command.kind]:
            return command
        left[command.kind] -= 1
    return None


def pairs(events: Iterable[Any], commands: Iterable[Command]) -> Iterator[tuple[Any, Command]]:
    """Each recorded event with the command that stands for it today: the first of a kind with the first, and so on."""
    waiting: dict[str, list[Command]] = defaultdict(list)
    for command in commands:
        waiting[command.kind].append(command)
    for event in events:
        kind = _KINDS.get(event.WhichOneof("attributes"))
        if kind is not None and waiting[kind]:
            yield event, waiting[kind].pop(0)


def _kind(event: Any) -> str:
    return _KINDS[event.WhichOneof("attributes")]


def attributes(event: Any) -> Any:
    """The message that belongs to an event's type."""
    return getattr(event, event.WhichOneof("attributes"))


def event_name(event: Any) -> str:
    """The activity, workflow, signal or operation that an event names; "" for none."""
    return _name(_kind(event), attributes(event))


def command_name(command: Command) -> str:
    """The same of a command."""
    return _name(command.kind, command.message)


def _name(kind: str, message: Any) -> str:
    if kind == "schedule_activity":
        named = message.activity_type
        return str(getattr(named, "name", named))
    if kind == "start_child_workflow_execution":
        named = message.workflow_type
        return str(getattr(named, "name", named))
    if kind == "signal_external_workflow_execution":
        return str(message.signal_name)
    if kind == "schedule_nexus_operation":
        return f"{message.service}.{message.operation}"
    return ""


_WORDS: dict[str, str] = {
    "schedule_activity": "the activity {}",
    "start_timer": "a timer",
    "start_child_workflow_execution": "the child workflow {}",
    "signal_external_workflow_execution": "the signal {} to another workflow",
    "request_cancel_external_workflow_execution": "the cancellation of another workflow",
    "schedule_nexus_operation": "the Nexus operation {}",
    "complete_workflow_execution": "the end of the run, with its result",
    "fail_workflow_execution": "the end of the run, with an error",
    "cancel_workflow_execution": "the end of the run, cancelled",
    "continue_as_new_workflow_execution": "a new run in place of this one",
}


def in_words(kind: str, message: Any) -> str:
    """``the activity charge``, ``a timer of 30s``, …"""
    words = _WORDS[kind].format(_name(kind, message))
    return f"{words} of {_seconds(message.start_to_fire_timeout)}" if kind == "start_timer" else words


def event_in_words(event: Any) -> str:
    """What an event that stands for a command recorded."""
    return in_words(_kind(event), attributes(event))


def renamed(events: Iterable[Any], commands: Iterable[Command]) -> list[tuple[int, str]]:
    """Where the names differ of what is one and the same otherwise: the event's id and today's name."""
    found = [(event, event_name(event), command_name(command)) for event, command in pairs(events, commands)]
    return [(event.event_id, now) for event, was, now in found if was != now]


_STEP_KINDS = {
    "schedule_activity": "activity",
    "start_timer": "timer",
    "start_child_workflow_execution": "childWorkflow",
    "signal_external_workflow_execution": "signalExternal",
    "request_cancel_external_workflow_execution": "cancelExternal",
    "schedule_nexus_operation": "nexus",
}


def asked_for(commands: Iterable[Command]) -> list[tuple[str, str, str]]:
    """Each command as ``(kind, step id, line)``, in the words that logs have for steps."""
    found = []
    for command in commands:
        kind = _STEP_KINDS.get(command.kind)
        if kind is not None:
            name = command_name(command)
            name = f"signalExternal:{name}" if kind == "signalExternal" else name
            found.append((kind, name or (kind if kind == "cancelExternal" else ""), command.line))
    return found


# Values --------------------------------------------------------------------------------------------------------------

Decode = Callable[[list[Any]], list[Any]]
"""Payloads as they lie in the history to payloads as the converter wrote them: the application's codec."""


def changes(events: list[Any], commands: list[Command], decode: Decode) -> Iterator[dict[str, Any]]:
    """What the SDK's replay does not look at: values, durations and options that differ.

    ``{"event", "what", "step", "recorded", "today", "line"}``; ``what`` is ``input``, ``output``, ``error``,
    ``timer`` or ``options``.
    """
    for event, command in pairs(events, commands):
        kind, recorded, today = command.kind, attributes(event), command.message
        facts = {"event": event.event_id, "step": event_name(event), "line": command.line}
        if event_name(event) != command_name(command):
            continue  # that is for ``asked_for`` to show
        what, was, now = _values(kind, recorded, today)
        if what and not _same(was, now):
            was = decode(was)
            if not _same(was, now):
                as_value = arguments if what == "input" else result
                values = [as_value([plain(item) for item in items]) for items in (was, now)]
                if values[0] != values[1]:
                    yield facts | {"what": what, "recorded": values[0], "today": values[1]}
        if kind == "start_timer":
            lengths = [_seconds(one.start_to_fire_timeout) for one in (recorded, today)]
            if lengths[0] != lengths[1]:
                yield facts | {
                    "what": "timer",
                    "recorded": lengths[0],
                    "today": lengths[1],
                    "milliseconds": today.start_to_fire_timeout.ToMilliseconds(),
                }
        if kind == "schedule_activity":
            options = _options(recorded, today)
            if options[0]:
                yield facts | {"what": "options", "recorded": options[0], "today": options[1]}
        if kind == "fail_workflow_execution":
            errors = [_error(one.failure) for one in (recorded, today)]
            if errors[0] != errors[1]:
                yield facts | {"what": "error", "recorded": errors[0], "today": errors[1]}


def _values(kind: str, recorded: Any, today: Any) -> tuple[str, list[Any], list[Any]]:
    """What holds the values of an event and of its command."""
    if kind == "schedule_activity":
        return "input", list(recorded.input.payloads), list(today.arguments)
    if kind == "continue_as_new_workflow_execution":
        return "input", list(recorded.input.payloads), list(today.arguments)
    if kind == "start_child_workflow_execution":
        return "input", list(recorded.input.payloads), list(today.input)
    if kind == "signal_external_workflow_execution":
        return "input", list(recorded.input.payloads), list(today.args)
    if kind == "schedule_nexus_operation":
        return "input", [recorded.input], [today.input]
    if kind == "complete_workflow_execution":
        return "output", list(recorded.result.payloads), [today.result]
    return "", [], []


def _same(was: list[Any], now: list[Any]) -> bool:
    return len(was) == len(now) and all(
        one.data == other.data and one.metadata == other.metadata for one, other in zip(was, now, strict=True)
    )


def plain(message: Any) -> Any:
    """A Payload message as the value that a log has for it."""
    return payload(MessageToDict(message))


def _error(failure: Any) -> dict[str, str]:
    return {"type": failure.application_failure_info.type, "message": failure.message}


def _options(recorded: Any, today: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What today's code sets otherwise than it is recorded; what it leaves to the server cannot be told."""
    was: dict[str, Any] = {}
    now: dict[str, Any] = {}
    for name in _TIMEOUTS:
        if today.HasField(name) and getattr(today, name) != getattr(recorded, name):
            was[name], now[name] = (_seconds(getattr(one, name)) for one in (recorded, today))
    if today.HasField("retry_policy"):
        for name in _RETRY:
            mine = getattr(today.retry_policy, name)
            theirs = getattr(recorded.retry_policy, name)
            if mine != theirs and mine:
                was[name], now[name] = (str(one).strip() for one in (theirs, mine))
    own = today.task_queue and not today.task_queue.startswith("replay-")  # that is what the Replayer calls its own
    if own and recorded.task_queue.name and today.task_queue != recorded.task_queue.name:
        was["task_queue"], now["task_queue"] = recorded.task_queue.name, today.task_queue
    return was, now


def _seconds(duration: Any) -> str:
    """``90 s``, ``14 days``: in the largest unit that it is a whole number of."""
    seconds = duration.seconds + duration.nanos / 1e9
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}{'s' if seconds > size else ''}"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + " s"
