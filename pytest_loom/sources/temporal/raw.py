"""A run's events as the protobuf JSON that the SDK's Replayer takes, and the news at its end that it would not replay.

The SDK hands to the code only what a completed workflow task has seen. What came after it (a result, a signal that
nobody has read) is handed over by a workflow task that is added at the end: ``with_news``.
"""

from __future__ import annotations

import re
from typing import Any

from pytest_loom.sources.temporal.enums import EVENT_TYPE
from pytest_loom.sources.temporal.history import ENDS, HistoryEvent, Run
from pytest_loom.sources.temporal.protojson import Fields

_SCREAMING = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in EVENT_TYPE.names}

_PAYLOAD = frozenset({"metadata", "data", "externalPayloads", "external_payloads"})
_OF_PAYLOADS = frozenset({"input", "result", "details", "success"})
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")

_OF_CODE = frozenset(
    {
        "ActivityTaskScheduled",
        "ActivityTaskCancelRequested",
        "TimerStarted",
        "TimerCanceled",
        "MarkerRecorded",
        "StartChildWorkflowExecutionInitiated",
        "SignalExternalWorkflowExecutionInitiated",
        "UpsertWorkflowSearchAttributes",
        "RequestCancelExternalWorkflowExecutionInitiated",
        "WorkflowPropertiesModified",
        "NexusOperationScheduled",
        "NexusOperationCancelRequested",
        "WorkflowExecutionUpdateAccepted",
        "WorkflowExecutionUpdateRejected",
        "WorkflowExecutionUpdateCompleted",
    }
)
"""Events that the workflow's own code brings about."""

_SILENT = frozenset(
    {
        "ActivityTaskStarted",
        "WorkflowExecutionOptionsUpdated",
        "WorkflowPropertiesModifiedExternally",
        "NexusOperationStarted",
        "ActivityPropertiesModifiedExternally",
        "WorkflowExecutionPaused",
        "WorkflowExecutionUnpaused",
        "WorkflowExecutionTimeSkippingTransitioned",
        "NexusOperationCancelRequestCompleted",
        "NexusOperationCancelRequestFailed",
    }
)
"""Events that the code is not told of."""


def raw_events(run: Run, flow: str = "unknown") -> list[dict[str, Any]]:
    """The run's events in protobuf JSON, in order, with today's spelling of their types.

    What SDK Core cannot do without, and hangs for want of (its type, its task queue, times), is filled in; ``flow`` is
    the type of a run that does not say its own.
    """
    events = [_raw(event) for event in run.events]
    started = events[0][run.events[0].attributes.name]
    started.setdefault("taskQueue", {"name": "unknown"})
    started.setdefault("workflowType", {"name": flow})
    time = "1970-01-01T00:00:00Z"
    for event in events:
        time = event.setdefault("eventTime", time)
    return events


def _raw(event: HistoryEvent) -> dict[str, Any]:
    name = _SCREAMING.get(event.kind)
    raw: dict[str, Any] = {"eventId": str(event.event_id)}
    if event.timestamp is not None:
        raw["eventTime"] = event.timestamp
    if event.may_ignore:
        raw["workerMayIgnore"] = True
    if name is not None:
        raw["eventType"] = f"EVENT_TYPE_{name}"
    raw[event.attributes.name] = _plain(event.attributes)
    return raw


def decoded_at(run: Run) -> int:
    """The event whose payload a tool decoded before the download, so that the SDK cannot read it; 0 where none was."""
    return next((event.event_id for event in run.events if _is_decoded(_plain(event.attributes))), 0)


def _plain(fields: Fields) -> dict[str, Any]:
    return {name: fields.raw(name) for name in fields}


def _is_decoded(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_decoded, value))
    if not isinstance(value, dict):
        return False
    if "metadata" in value and value.keys() <= _PAYLOAD:
        metadata, data = value["metadata"], value.get("data", "")
        encoding = metadata.get("encoding") if isinstance(metadata, dict) else None
        return not (isinstance(encoding, str) and _BASE64.fullmatch(encoding) and _is_base64(data))
    for name, inner in value.items():
        if name == "payloads" and isinstance(inner, list):
            if any(not isinstance(item, dict) or "metadata" not in item for item in inner if item is not None):
                return True
        elif name in _OF_PAYLOADS and inner is not None and not isinstance(inner, dict):
            return True
        if _is_decoded(inner):
            return True
    return False


def _is_base64(data: Any) -> bool:
    return data is None or (isinstance(data, str) and _BASE64.fullmatch(data) is not None)


def news_from(run: Run) -> int:
    """Where the SDK's own replay would stop too early: the id of the first event that is news to the code; else 0."""
    if run.partial or run.events[-1].kind in ENDS:
        return 0
    seen = 0
    for event in reversed(run.events):
        if event.kind == "WorkflowTaskCompleted":
            break
        if event.kind not in _OF_CODE and event.kind not in _SILENT and not event.kind.startswith("WorkflowTask"):
            seen = event.event_id
    return seen


def with_news(run: Run, events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """``events`` and, where there is news at their end, the workflow task that hands it over.

    Also the id of the event with which that task starts, 0 where there is none: from there on the code is ahead of
    its record.
    """
    if not news_from(run):
        return events, 0
    last = run.events[-1]
    events = list(events)
    scheduled = started = 0
    if last.kind == "WorkflowTaskStarted":
        started, scheduled = last.event_id, last.attributes.integer("scheduledEventId")
    elif last.kind == "WorkflowTaskScheduled":
        scheduled = last.event_id
    if not scheduled:
        scheduled = _add(events, "WorkflowTaskScheduled", last, {"attempt": 1})
    if not started:
        started = _add(events, "WorkflowTaskStarted", last, {"scheduledEventId": str(scheduled)})
    _add(events, "WorkflowTaskCompleted", last, {"scheduledEventId": str(scheduled), "startedEventId": str(started)})
    return events, started


def _add(events: list[dict[str, Any]], kind: str, after: HistoryEvent, fields: dict[str, Any]) -> int:
    event: dict[str, Any] = {"eventId": str(len(events) + 1), "eventType": f"EVENT_TYPE_{_SCREAMING[kind]}"}
    if after.timestamp is not None:
        event["eventTime"] = after.timestamp
    event[f"{kind[:1].lower()}{kind[1:]}EventAttributes"] = fields
    events.append(event)
    return len(events)
