"""How a run begins, pauses and ends."""

from __future__ import annotations

from typing import Any

from pytest_loom.sources.temporal.enums import CONTINUED_BEHAVIOR, INITIATOR, enum_name
from pytest_loom.sources.temporal.failures import error_of, read_failure, retry_state
from pytest_loom.sources.temporal.history import Run
from pytest_loom.sources.temporal.manifest import manifest_of, reset_run_id
from pytest_loom.sources.temporal.payloads import arguments, payload_list, payload_map, result
from pytest_loom.sources.temporal.protojson import Fields
from pytest_loom.sources.temporal.writer import Handler, Writer, options, present, sender

_PAUSE = "pause"


def _started(writer: Writer, fields: Fields) -> None:
    parent = fields.message("parentWorkflowExecution")
    temporal = {
        "workflowId": fields.text("workflowId"),
        "runId": reset_run_id(writer.run) or fields.text("originalExecutionRunId"),
        "firstExecutionRunId": fields.text("firstExecutionRunId"),
        "continuedExecutionRunId": fields.text("continuedExecutionRunId"),
        "parentWorkflowId": parent.text("workflowId"),
        "parentRunId": parent.text("runId"),
        "attempt": fields.integer("attempt"),
        "cronSchedule": fields.text("cronSchedule"),
        "continuedFailure": read_failure(fields.message("continuedFailure")),
        "historyLength": len(writer.run.events),
        "seenTo": _seen_to(writer.run),
    }
    facts = {"input": arguments(payload_list(fields.raw("input"))), "manifest": manifest_of(writer.run)}
    writer.add("EXECUTION_STARTED", {**facts, "temporal": present(temporal) | _settings(fields)})


def _seen_to(run: Run) -> int:
    """The id of the last workflow task that was completed, 0 for none: what came after it no code has seen yet."""
    tasks = (event.event_id for event in reversed(run.events) if event.kind == "WorkflowTaskCompleted")
    return next(tasks, 0)


def _settings(fields: Fields) -> dict[str, Any]:
    """What a start and a continue-as-new say alike about the run that begins."""
    settings = {
        "initiator": enum_name(fields.raw("initiator"), INITIATOR, f"{fields.name}.initiator"),
        "options": options(fields),
        "memo": payload_map(fields, "memo", "fields"),
        "searchAttributes": payload_map(fields, "searchAttributes", "indexedFields"),
    }
    last = payload_list(fields.raw("lastCompletionResult"))
    return present(settings) | ({"lastCompletionResult": result(last)} if last else {})


def _completed(writer: Writer, fields: Fields) -> None:
    output = result(payload_list(fields.raw("result")))
    writer.add("EXECUTION_COMPLETED", {"output": output, **_next_run(fields)})


def _failed(writer: Writer, fields: Fields) -> None:
    failure = read_failure(fields.message("failure"))
    facts = present({**failure, "retryState": retry_state(fields)})
    writer.add("EXECUTION_FAILED", {"error": error_of(failure, kind="Failure"), "failure": facts, **_next_run(fields)})


def _timed_out(writer: Writer, fields: Fields) -> None:
    error = {"type": "WorkflowTimeoutError", "message": "the workflow timed out"}
    facts = present({"retryState": retry_state(fields)})
    writer.add("EXECUTION_FAILED", {"error": error, "failure": facts, **_next_run(fields)})


def _next_run(fields: Fields) -> dict[str, Any]:
    """The run that a retry policy or a cron schedule starts after this one."""
    return present({"newExecutionId": fields.text("newExecutionRunId")})


def _cancel_requested(writer: Writer, fields: Fields) -> None:
    writer.cancel_cause = fields.text("cause")
    writer.add("WorkflowExecutionCancelRequested", present({"cause": writer.cancel_cause}) | sender(fields))
    writer.news = True


def _canceled(writer: Writer, fields: Fields) -> None:
    details = present({"details": payload_list(fields.raw("details"))})
    writer.add("EXECUTION_CANCELLED", {"reason": writer.cancel_cause or "canceled", "kind": "canceled", **details})


def _terminated(writer: Writer, fields: Fields) -> None:
    details = present({"details": payload_list(fields.raw("details"))})
    reason = fields.text("reason") or "terminated"
    writer.add("EXECUTION_CANCELLED", {"reason": reason, "kind": "terminated", **details})


def _continued(writer: Writer, fields: Fields) -> None:
    more = {
        "workflowType": fields.named("workflowType"),
        "backoffMs": fields.milliseconds("backoffStartInterval"),
        "initialVersioningBehavior": enum_name(
            fields.raw("initialVersioningBehavior"), CONTINUED_BEHAVIOR, f"{fields.name}.behavior"
        ),
        "failure": read_failure(fields.message("failure")),
    }
    following = {
        "newExecutionId": fields.text("newExecutionRunId"),
        "input": arguments(payload_list(fields.raw("input"))),
    }
    writer.add("EXECUTION_CONTINUED", following | present(more) | _settings(fields))


def _paused(writer: Writer, fields: Fields) -> None:
    writer.add("WorkflowExecutionPaused", present({"reason": fields.text("reason")}))
    wait = {"on": "WorkflowExecutionUnpaused", "kind": "breakpoint", "correlationKey": _PAUSE}
    writer.add("EXECUTION_SUSPENDED", wait)
    writer.paused = True


def _unpaused(writer: Writer, fields: Fields) -> None:
    facts = present({"reason": fields.text("reason")})
    if writer.paused:
        writer.resume("WorkflowExecutionUnpaused", _PAUSE, facts)
    else:
        writer.add("WorkflowExecutionUnpaused", facts)
    writer.paused = False
    writer.news = True


HANDLERS: dict[str, Handler] = {
    "WorkflowExecutionStarted": _started,
    "WorkflowExecutionCompleted": _completed,
    "WorkflowExecutionFailed": _failed,
    "WorkflowExecutionTimedOut": _timed_out,
    "WorkflowExecutionCancelRequested": _cancel_requested,
    "WorkflowExecutionCanceled": _canceled,
    "WorkflowExecutionTerminated": _terminated,
    "WorkflowExecutionContinuedAsNew": _continued,
    "WorkflowExecutionPaused": _paused,
    "WorkflowExecutionUnpaused": _unpaused,
}
