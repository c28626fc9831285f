"""Temporal histories for tests: built event by event, cut where a run stood once, or with the ids of Python."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

History = dict[str, Any]
"""``{"events": [...]}``, as the SDK and ``temporal workflow show`` write it."""

FLAGS = {"coreUsedFlags": [1, 2, 3], "sdkName": "temporal-python", "sdkVersion": "1.35.0"}
"""What a worker of today notes in its first workflow task; flag 1 makes the engine compare activity types."""


def payload(value: Any) -> dict[str, Any]:
    """One value as the SDK's own converter writes it."""
    if value is None:
        return {"metadata": {"encoding": _base64(b"binary/null")}}
    return {"metadata": {"encoding": _base64(b"json/plain")}, "data": _base64(json.dumps(value).encode())}


def payloads(*values: Any) -> dict[str, Any]:
    """Several values, as inputs and results hold them."""
    return {"payloads": [payload(value) for value in values]}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Building:
    """A history as it grows: each method appends what the server would write; ids are those that later events name."""

    def __init__(self, workflow: str, *args: Any, flags: dict[str, Any] | None = None, run_id: str = "run-1") -> None:
        self.events: list[dict[str, Any]] = []
        self.flags = FLAGS if flags is None else flags
        self.activities = 0
        self.timers = 0
        self.add(
            "WORKFLOW_EXECUTION_STARTED",
            workflowType={"name": workflow},
            taskQueue={"name": "quotes", "kind": "TASK_QUEUE_KIND_NORMAL"},
            input=payloads(*args),
            originalExecutionRunId=run_id,
            firstExecutionRunId=run_id,
            workflowId=f"wf-{run_id}",
            attempt=1,
        )

    def add(self, kind: str, **attributes: Any) -> str:
        """One event of any kind; its id."""
        event_id = str(len(self.events) + 1)
        name = "".join(word.capitalize() for word in kind.split("_"))
        key = f"{name[0].lower()}{name[1:]}EventAttributes"
        time = f"2026-05-04T10:{len(self.events) // 60:02}:{len(self.events) % 60:02}Z"
        self.events.append({"eventId": event_id, "eventTime": time, "eventType": f"EVENT_TYPE_{kind}", key: attributes})
        return event_id

    def task(self) -> str:
        """A workflow task that was done; what it decided follows."""
        scheduled = self.add("WORKFLOW_TASK_SCHEDULED", taskQueue={"name": "quotes"}, attempt=1)
        started = self.add("WORKFLOW_TASK_STARTED", scheduledEventId=scheduled, identity="worker")
        flags, self.flags = self.flags, {}
        more = {"sdkMetadata": flags} if flags else {}
        return self.add("WORKFLOW_TASK_COMPLETED", scheduledEventId=scheduled, startedEventId=started, **more)

    def activity(self, name: str, *args: Any) -> str:
        """An activity that is scheduled."""
        self.activities += 1
        return self.add(
            "ACTIVITY_TASK_SCHEDULED",
            activityId=str(self.activities),
            activityType={"name": name},
            taskQueue={"name": "quotes"},
            input=payloads(*args),
            startToCloseTimeout="60s",
        )

    def done(self, scheduled: str, result: Any) -> None:
        """The activity's result; no workflow task has seen it yet."""
        started = self.add("ACTIVITY_TASK_STARTED", scheduledEventId=scheduled, attempt=1, identity="worker")
        self.add("ACTIVITY_TASK_COMPLETED", scheduledEventId=scheduled, startedEventId=started, result=payloads(result))

    def timer(self, length: str) -> str:
        """A timer that is started."""
        self.timers += 1
        return self.add("TIMER_STARTED", timerId=str(self.timers), startToFireTimeout=length)

    def fired(self, started: str) -> None:
        """The timer's end."""
        timer_id = self.events[int(started) - 1]["timerStartedEventAttributes"]["timerId"]
        self.add("TIMER_FIRED", timerId=timer_id, startedEventId=started)

    def signal(self, name: str, *args: Any) -> None:
        """A signal that arrives."""
        self.add("WORKFLOW_EXECUTION_SIGNALED", signalName=name, input=payloads(*args))

    def patch(self, name: str, *, deprecated: bool = False) -> None:
        """The marker that ``patched`` or ``deprecate_patch`` leaves, and the search attribute beside it."""
        data = payloads({"id": name, "deprecated": deprecated})
        self.add("MARKER_RECORDED", markerName="core_patch", details={"patch-data": data})
        indexed = {"TemporalChangeVersion": payload([name])}
        self.add("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", searchAttributes={"indexedFields": indexed})

    def completed(self, result: Any) -> None:
        """The end of the run."""
        self.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads(result))

    @property
    def history(self) -> History:
        """All that was built up to here, a copy."""
        return copy.deepcopy({"events": self.events})


def cut(history: History, last: int) -> History:
    """The history as it stood when event ``last`` was written, as a run of its own."""
    found = copy.deepcopy({"events": history["events"][:last]})
    started = found["events"][0]["workflowExecutionStartedEventAttributes"]
    started["originalExecutionRunId"] = f"{started.get('originalExecutionRunId')}-at-{last}"
    return found


def counted(history: History) -> History:
    """The history with its timers numbered 1, 2, 3, as Python counts them; the Go SDK names them by event id."""
    made: dict[str, str] = {}
    found = copy.deepcopy(history)
    for event in found["events"]:
        for attributes in event.values():
            if isinstance(attributes, dict) and "timerId" in attributes:
                attributes["timerId"] = made.setdefault(attributes["timerId"], str(len(made) + 1))
    return found


def write(history: History, path: Path) -> Path:
    """``history`` as a JSON file."""
    path.write_text(json.dumps(history, indent=1))
    return path
