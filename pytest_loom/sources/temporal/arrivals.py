"""What comes to a run from outside: timers that fire, signals, updates."""

from __future__ import annotations

from typing import Any

from pytest_loom.sources.temporal.enums import UPDATE_ORIGIN, enum_name
from pytest_loom.sources.temporal.failures import error_of, read_failure
from pytest_loom.sources.temporal.payloads import arguments, payload_list, result
from pytest_loom.sources.temporal.protojson import Fields, Malformed
from pytest_loom.sources.temporal.writer import Handler, Writer, event_name, present, sender


def _timer_started(writer: Writer, fields: Fields) -> None:
    event_id = writer.event.event_id
    timer_id = writer.timers[event_id] = fields.text("timerId") or str(event_id)
    wait = {"on": "TimerFired", "kind": "timer", "correlationKey": timer_id}
    timeout = {"timeoutMs": fields.milliseconds("startToFireTimeout")}
    writer.add("EXECUTION_SUSPENDED", wait | timeout | writer.summary())


def _timer_ended(writer: Writer, fields: Fields) -> None:
    started = fields.integer("startedEventId")
    if started not in writer.timers:
        raise Malformed(f"{writer.event.kind} belongs to event {started}, which is no open timer")
    timer_id = writer.timers.pop(started)
    writer.news = writer.news or writer.event.kind == "TimerFired"  # it is the code itself that cancels a timer
    writer.resume(writer.event.kind, timer_id, {"timerId": timer_id})


def _signaled(writer: Writer, fields: Fields) -> None:
    name = fields.text("signalName")
    signal = {"kind": "signal", "name": name, "input": arguments(payload_list(fields.raw("input")))}
    writer.add(event_name(name, "signal"), signal | sender(fields))
    writer.news = True


def _update_admitted(writer: Writer, fields: Fields) -> None:
    update_id = _request(writer, fields.message("request"))
    name, given = writer.updates[update_id]
    origin = enum_name(fields.raw("origin"), UPDATE_ORIGIN, f"{fields.name}.origin")
    writer.add("UpdateAdmitted", {"name": name, "id": update_id, "input": given} | present({"origin": origin}))
    writer.news = True


def _update_accepted(writer: Writer, fields: Fields) -> None:
    update_id = _request(writer, fields.message("acceptedRequest"), fields.text("protocolInstanceId"))
    name, given = writer.updates[update_id]
    writer.add(event_name(name, "update"), {"kind": "update", "name": name, "id": update_id, "input": given})


def _update_rejected(writer: Writer, fields: Fields) -> None:
    update_id = _request(writer, fields.message("rejectedRequest"), fields.text("protocolInstanceId"))
    failure = read_failure(fields.message("failure"))
    rejected = {"name": writer.updates[update_id][0], "id": update_id, "error": error_of(failure, kind="Failure")}
    writer.add("UpdateRejected", rejected | present({"failure": failure}))


def _update_completed(writer: Writer, fields: Fields) -> None:
    update_id = fields.message("meta").text("updateId")
    outcome = fields.message("outcome")
    ended: dict[str, Any] = {"name": writer.updates.get(update_id, ("", None))[0], "id": update_id}
    if outcome.raw("failure") is not None:
        failure = read_failure(outcome.message("failure"))
        ended |= {"error": error_of(failure, kind="Failure")} | present({"failure": failure})
    else:
        ended["output"] = result(payload_list(outcome.raw("success")))
    writer.add("UpdateCompleted", ended)


def _request(writer: Writer, request: Fields, update_id: str = "") -> str:
    """Note an update's name and input. An update that was admitted earlier is not told again when it is accepted."""
    update_id = request.message("meta").text("updateId") or update_id
    told = request.message("input")
    if told.text("name") or update_id not in writer.updates:
        writer.updates[update_id] = (told.text("name"), arguments(payload_list(told.raw("args"))))
    return update_id


HANDLERS: dict[str, Handler] = {
    "TimerStarted": _timer_started,
    "TimerFired": _timer_ended,
    "TimerCanceled": _timer_ended,
    "WorkflowExecutionSignaled": _signaled,
    "WorkflowExecutionUpdateAdmitted": _update_admitted,
    "WorkflowExecutionUpdateAccepted": _update_accepted,
    "WorkflowExecutionUpdateRejected": _update_rejected,
    "WorkflowExecutionUpdateCompleted": _update_completed,
}
