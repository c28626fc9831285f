"""What a workflow notes about itself: markers, search attributes, memo; and events that this reader does not know."""

from __future__ import annotations

from typing import Any

from pytest_loom.errors import printable
from pytest_loom.sources.temporal.enums import TASK_FAILED_CAUSE, enum_name
from pytest_loom.sources.temporal.failures import error_of, read_failure
from pytest_loom.sources.temporal.markers import KNOWN_MARKERS, Decision, LocalActivity, read_details, read_marker
from pytest_loom.sources.temporal.payloads import canonical, payload_map, result
from pytest_loom.sources.temporal.protojson import Fields
from pytest_loom.sources.temporal.writer import Handler, Writer, event_name, present

_NOT_MEANING = frozenset({"identity", "requestId", "workflowTaskCompletedEventId", "header"})
"""Who and by which message, not what: differs between two runs that did the same."""


def _marker(writer: Writer, fields: Fields) -> None:
    name, details = fields.text("markerName"), read_details(fields)
    writer.side_effects += name == "SideEffect"
    meaning = read_marker(name, details, writer.side_effects)
    failure = read_failure(fields.message("failure"))
    if isinstance(meaning, LocalActivity):
        _local_activity(writer, meaning, failure)
    elif isinstance(meaning, Decision):
        writer.add("DECISION_RECORDED", {"key": meaning.key, "value": meaning.value} | meaning.facts)
    else:
        if name in KNOWN_MARKERS:
            what = f"event {writer.event.event_id}: the {name} marker cannot be read"
            writer.notice(name, f"{what} (are its details encrypted?), so it is kept as it stands")
        shown = {key: result(values) for key, values in details.items()}
        writer.add("MarkerRecorded", {"name": name, "details": shown} | present({"failure": failure}))


def _local_activity(writer: Writer, local: LocalActivity, failure: dict[str, Any]) -> None:
    """One marker is one try, begun and ended; a try after a backoff belongs to the step that backed off."""
    retried = writer.retried_local.pop(local.name, "") if local.attempt > 1 else ""
    head = {"stepId": local.name, "callId": retried or str(writer.event.event_id)}
    facts = present({"activityId": local.activity_id}) | local.facts | writer.summary()
    writer.add("STEP_STARTED", head | {"kind": "localActivity", "attempt": local.attempt} | facts)
    if not failure:
        writer.add("STEP_COMPLETED", head | {"output": local.output, "attempt": local.attempt})
        return
    if local.backoff:
        writer.retried_local[local.name] = head["callId"]
    ended = {"error": error_of(failure), "attempt": local.attempt, "willRetry": local.backoff, "failure": failure}
    writer.add("STEP_FAILED", head | ended)


def _search_attributes(writer: Writer, fields: Fields) -> None:
    attributes = payload_map(fields, "searchAttributes", "indexedFields")
    writer.add("UpsertWorkflowSearchAttributes", {"searchAttributes": attributes})


def _memo(writer: Writer, fields: Fields) -> None:
    writer.add("WorkflowPropertiesModified", {"memo": payload_map(fields, "upsertedMemo", "fields")})


def _task_failed(writer: Writer, fields: Fields) -> None:
    """The code could not go on, or somebody reset the run to this point: worth more than other workflow tasks."""
    cause = enum_name(fields.raw("cause"), TASK_FAILED_CAUSE, f"{fields.name}.cause")
    facts = {
        "failure": read_failure(fields.message("failure")),
        "baseRunId": fields.text("baseRunId"),
        "newRunId": fields.text("newRunId"),
    }
    writer.add("WorkflowTaskFailed", {"cause": cause} | present(facts))


def other(writer: Writer, fields: Fields) -> None:
    """Any other event: kept with all that it says, never dropped in silence."""
    event = writer.event
    told = {name: fields.raw(name) for name in fields if name not in _NOT_MEANING}
    facts = present({"attributes": canonical(told)})
    if not event.known:
        facts["workerMayIgnore"] = event.may_ignore
        if not event.may_ignore:
            what = f"event {event.event_id} is of the kind {printable(event.kind)}"
            writer.notice(event.kind, f"{what}, which is not known here and not marked as safe to ignore")
    writer.add(event_name(event.kind, "temporal"), facts)


HANDLERS: dict[str, Handler] = {
    "MarkerRecorded": _marker,
    "UpsertWorkflowSearchAttributes": _search_attributes,
    "WorkflowPropertiesModified": _memo,
    "WorkflowTaskFailed": _task_failed,
}
