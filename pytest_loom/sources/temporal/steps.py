"""Steps: activities, child workflows, Nexus operations, and signals and cancellations sent to other workflows.

Each is opened by one event and closed by another, which names it by event id. Tries in between leave no events: the
server tells them, by number and last failure, with the event that ends the last one.
"""

from __future__ import annotations

from typing import Any

from pytest_loom.sources.temporal.enums import (
    EXTERNAL_CAUSE,
    ID_REUSE_POLICY,
    PARENT_CLOSE_POLICY,
    START_CHILD_CAUSE,
    Enum,
    enum_name,
)
from pytest_loom.sources.temporal.failures import read_failure, retry_state
from pytest_loom.sources.temporal.payloads import arguments, payload, payload_list, payload_map, result
from pytest_loom.sources.temporal.protojson import Fields, Malformed
from pytest_loom.sources.temporal.writer import Handler, Writer, options, present


def _activity_scheduled(writer: Writer, fields: Fields) -> None:
    facts = {
        "activityId": fields.text("activityId"),
        "input": arguments(payload_list(fields.raw("input"))),
        "options": options(fields),
    }
    writer.open_step(_type_name(fields, "activityType"), "activity", facts)


def _activity_started(writer: Writer, fields: Fields) -> None:
    step = writer.step(fields, "activity")
    step.attempt = max(fields.integer("attempt"), 1)
    step.last_failure = read_failure(fields.message("lastFailure"))


def _child_initiated(writer: Writer, fields: Fields) -> None:
    policies = {
        "parentClosePolicy": enum_name(fields.raw("parentClosePolicy"), PARENT_CLOSE_POLICY, f"{fields.name}.policy"),
        "workflowIdReusePolicy": enum_name(
            fields.raw("workflowIdReusePolicy"), ID_REUSE_POLICY, f"{fields.name}.policy"
        ),
        "cronSchedule": fields.text("cronSchedule"),
        "namespace": fields.text("namespace"),
        "memo": payload_map(fields, "memo", "fields"),
        "searchAttributes": payload_map(fields, "searchAttributes", "indexedFields"),
    }
    facts = {
        "childWorkflowId": fields.text("workflowId"),
        "input": arguments(payload_list(fields.raw("input"))),
        "options": options(fields) | present(policies),
    }
    writer.open_step(_type_name(fields, "workflowType"), "childWorkflow", facts)


def _nexus_scheduled(writer: Writer, fields: Fields) -> None:
    facts = {
        "input": payload(fields.raw("input")),
        "options": options(fields) | present({"endpoint": fields.text("endpoint")}),
    }
    writer.open_step(f"{fields.text('service')}.{fields.text('operation')}", "nexus", facts)


def _signal_external(writer: Writer, fields: Fields) -> None:
    facts = {"input": arguments(payload_list(fields.raw("input"))), "options": _target(fields)}
    writer.open_step(f"signalExternal:{fields.text('signalName')}", "signalExternal", facts)


def _cancel_external(writer: Writer, fields: Fields) -> None:
    target = _target(fields) | present({"reason": fields.text("reason")})
    writer.open_step("cancelExternal", "cancelExternal", {"input": None, "options": target})


def _type_name(fields: Fields, name: str) -> str:
    value = fields.named(name)
    if not value:
        raise Malformed(f"{fields.name} has no {name}")
    return value


def _target(fields: Fields) -> dict[str, Any]:
    execution = fields.message("workflowExecution")
    target = {
        "workflowId": execution.text("workflowId"),
        "runId": execution.text("runId"),
        "childWorkflowOnly": fields.flag("childWorkflowOnly"),
    }
    return present(target)


def _completes(kind: str) -> Handler:
    """A step of this kind is done."""

    def handle(writer: Writer, fields: Fields) -> None:
        raw = fields.raw("result")
        output = payload(raw) if kind == "nexus" else result(payload_list(raw))  # one Payload there, Payloads elsewhere
        writer.end_step(writer.step(fields, kind), {"output": output}, _child_run(fields, kind))

    return handle


def _fails(kind: str, how: str = "", message: str = "") -> Handler:
    """A step of this kind failed. Where the event itself says ``how``, the error's type does, too."""

    def handle(writer: Writer, fields: Fields) -> None:
        failure = read_failure(fields.message("failure"))
        error = {"type": _error_type(failure, how), "message": failure.get("message") or message}
        facts = {**failure, "details": payload_list(fields.raw("details")), "retryState": retry_state(fields)}
        if failure.get("details"):
            facts["details"] = failure["details"]
        writer.end_step(
            writer.step(fields, kind), {"error": error}, {"failure": present(facts), **_child_run(fields, kind)}
        )

    return handle


def _error_type(failure: dict[str, Any], how: str) -> str:
    """The failure's type or its cause's, as far as it tells ``how``; ``StartToCloseTimeoutError`` is a TimeoutError."""
    types = [told["type"] for told in (failure, failure.get("cause", {})) if told]
    return next((name for name in types if name.endswith(how)), how or "Failure")


def _refused(kind: str, causes: Enum) -> Handler:
    """A step of this kind could not be carried out at all; the server says why by a cause."""

    def handle(writer: Writer, fields: Fields) -> None:
        cause = enum_name(fields.raw("cause"), causes, f"{fields.name}.cause")
        error = {"type": f"{cause or kind}Error", "message": f"the server refused it: {cause or 'no cause given'}"}
        writer.end_step(writer.step(fields, kind), {"error": error}, {"failure": present({"cause": cause})})

    return handle


def _child_run(fields: Fields, kind: str) -> dict[str, Any]:
    """The execution id of the child's own log."""
    return {"childExecutionId": fields.message("workflowExecution").text("runId")} if kind == "childWorkflow" else {}


def _cancel_requested(writer: Writer, fields: Fields) -> None:
    """A step was asked to stop; whether it did is told by its own end."""
    event_id = fields.integer("scheduledEventId")
    facts = {
        "stepId": writer.step_ids.get(event_id),
        "callId": str(event_id),
        "failure": read_failure(fields.message("failure")),
    }
    writer.add(writer.event.kind, present(facts))


HANDLERS: dict[str, Handler] = {
    "ActivityTaskScheduled": _activity_scheduled,
    "ActivityTaskStarted": _activity_started,
    "ActivityTaskCompleted": _completes("activity"),
    "ActivityTaskFailed": _fails("activity"),
    "ActivityTaskTimedOut": _fails("activity", "TimeoutError", "the activity timed out"),
    "ActivityTaskCanceled": _fails("activity", "CanceledError", "the activity was canceled"),
    "ActivityTaskCancelRequested": _cancel_requested,
    "StartChildWorkflowExecutionInitiated": _child_initiated,
    "StartChildWorkflowExecutionFailed": _refused("childWorkflow", START_CHILD_CAUSE),
    "ChildWorkflowExecutionCompleted": _completes("childWorkflow"),
    "ChildWorkflowExecutionFailed": _fails("childWorkflow"),
    "ChildWorkflowExecutionTimedOut": _fails("childWorkflow", "TimeoutError", "the child workflow timed out"),
    "ChildWorkflowExecutionCanceled": _fails("childWorkflow", "CanceledError", "the child workflow was canceled"),
    "ChildWorkflowExecutionTerminated": _fails("childWorkflow", "TerminatedError", "the child workflow was terminated"),
    "NexusOperationScheduled": _nexus_scheduled,
    "NexusOperationCompleted": _completes("nexus"),
    "NexusOperationFailed": _fails("nexus"),
    "NexusOperationTimedOut": _fails("nexus", "TimeoutError", "the operation timed out"),
    "NexusOperationCanceled": _fails("nexus", "CanceledError", "the operation was canceled"),
    "NexusOperationCancelRequested": _cancel_requested,
    "NexusOperationCancelRequestCompleted": _cancel_requested,
    "NexusOperationCancelRequestFailed": _cancel_requested,
    "SignalExternalWorkflowExecutionInitiated": _signal_external,
    "ExternalWorkflowExecutionSignaled": _completes("signalExternal"),
    "SignalExternalWorkflowExecutionFailed": _refused("signalExternal", EXTERNAL_CAUSE),
    "RequestCancelExternalWorkflowExecutionInitiated": _cancel_external,
    "ExternalWorkflowExecutionCancelRequested": _completes("cancelExternal"),
    "RequestCancelExternalWorkflowExecutionFailed": _refused("cancelExternal", EXTERNAL_CAUSE),
}
