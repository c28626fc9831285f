"""The smallest workflow and its history: replayed once, they show that the SDK works in a copy of a process.

Where the process had the SDK's threads running when it was copied (a client, a test server), it may hang or crash.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow

_TIME = "2026-01-01T00:00:00Z"
_RUN = "00000000-0000-4000-8000-000000000000"


@workflow.defn(name="pytest-loom-probe", sandboxed=False)
class Probe:
    """Ends at once."""

    @workflow.run
    async def run(self) -> None:
        """Nothing."""


def history() -> dict[str, Any]:
    """What a server writes of one run of it."""
    task = {"scheduledEventId": "2", "startedEventId": "3"}
    started: dict[str, Any] = {
        "workflowType": {"name": "pytest-loom-probe"},
        "originalExecutionRunId": _RUN,
        "workflowId": "probe",
    }
    started["taskQueue"] = {"name": "probe"}
    events = [
        ("WorkflowExecutionStarted", started),
        ("WorkflowTaskScheduled", {}),
        ("WorkflowTaskStarted", {"scheduledEventId": "2"}),
        ("WorkflowTaskCompleted", task),
        ("WorkflowExecutionCompleted", {"workflowTaskCompletedEventId": "4"}),
    ]
    return {
        "events": [
            {
                "eventId": str(place),
                "eventType": kind,
                "eventTime": _TIME,
                f"{kind[:1].lower()}{kind[1:]}EventAttributes": attributes,
            }
            for place, (kind, attributes) in enumerate(events, 1)
        ]
    }
