"""The workflow whose histories test_temporal.py replays, and such a history: one activity, eleven events."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

from temporalio import workflow


@workflow.defn
class Greeting:
    """Asks one activity, and answers with what it gives."""

    @workflow.run
    async def run(self, name: str) -> str:
        """The greeting for ``name``."""
        answer: str = await workflow.execute_activity(
            "greet", name, result_type=str, start_to_close_timeout=timedelta(seconds=60)
        )
        return answer


def history(number: int) -> dict[str, Any]:
    """The history of one finished run of ``Greeting``, as a server writes it."""
    name, greeting = _payloads(f"Ada {number}"), _payloads(f"Hello, Ada {number}!")
    queue = {"name": "greetings", "kind": "TASK_QUEUE_KIND_NORMAL"}
    sdk = {"coreUsedFlags": [1, 2, 3], "sdkName": "temporal-python", "sdkVersion": "1.35.0"}
    run = f"00000000-0000-4000-8000-{number:012d}"
    events: list[tuple[str, dict[str, Any]]] = [
        (
            "WORKFLOW_EXECUTION_STARTED",
            {
                "workflowType": {"name": "Greeting"},
                "taskQueue": queue,
                "input": name,
                "workflowTaskTimeout": "10s",
                "originalExecutionRunId": run,
                "firstExecutionRunId": run,
                "attempt": 1,
                "workflowId": f"greeting-{number}",
                "identity": "client@host",
            },
        ),
        ("WORKFLOW_TASK_SCHEDULED", {"taskQueue": queue, "startToCloseTimeout": "10s", "attempt": 1}),
        ("WORKFLOW_TASK_STARTED", {"scheduledEventId": "2", "identity": "worker@host", "requestId": run}),
        ("WORKFLOW_TASK_COMPLETED", {"scheduledEventId": "2", "startedEventId": "3", "sdkMetadata": sdk}),
        (
            "ACTIVITY_TASK_SCHEDULED",
            {
                "activityId": "1",
                "activityType": {"name": "greet"},
                "taskQueue": queue,
                "input": name,
                "scheduleToCloseTimeout": "0s",
                "startToCloseTimeout": "60s",
                "heartbeatTimeout": "0s",
                "workflowTaskCompletedEventId": "4",
                "retryPolicy": {"initialInterval": "1s", "backoffCoefficient": 2, "maximumInterval": "100s"},
            },
        ),
        ("ACTIVITY_TASK_STARTED", {"scheduledEventId": "5", "identity": "worker@host", "attempt": 1}),
        ("ACTIVITY_TASK_COMPLETED", {"result": greeting, "scheduledEventId": "5", "startedEventId": "6"}),
        ("WORKFLOW_TASK_SCHEDULED", {"taskQueue": queue, "startToCloseTimeout": "10s", "attempt": 1}),
        ("WORKFLOW_TASK_STARTED", {"scheduledEventId": "8", "identity": "worker@host", "requestId": run}),
        ("WORKFLOW_TASK_COMPLETED", {"scheduledEventId": "8", "startedEventId": "9", "sdkMetadata": {}}),
        ("WORKFLOW_EXECUTION_COMPLETED", {"result": greeting, "workflowTaskCompletedEventId": "10"}),
    ]
    return {"events": [_event(place, *event) for place, event in enumerate(events, 1)]}


def _event(number: int, kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    first, *rest = kind.lower().split("_")
    key = first + "".join(map(str.capitalize, rest)) + "EventAttributes"
    moment = f"2026-01-01T12:00:{number:02d}.123456789Z"
    kept = {"eventId": str(number), "eventTime": moment, "eventType": f"EVENT_TYPE_{kind}", "taskId": str(number)}
    return kept | {key: attributes}


def _payloads(value: str) -> dict[str, Any]:
    data = base64.b64encode(json.dumps(value).encode()).decode()
    return {"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": data}]}
