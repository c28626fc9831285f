"""Writing a run's log event by event, with what is open in between; and the words that all handlers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_loom.log.event import LogBuilder
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.sources.temporal.history import HistoryEvent, Run
from pytest_loom.sources.temporal.payloads import payload
from pytest_loom.sources.temporal.protojson import Fields, Malformed

_DURATIONS = (
    "scheduleToCloseTimeout",
    "scheduleToStartTimeout",
    "startToCloseTimeout",
    "heartbeatTimeout",
    "workflowExecutionTimeout",
    "workflowRunTimeout",
    "workflowTaskTimeout",
)


@dataclass(slots=True)
class Step:
    """Work that was asked for by event ``event_id`` and has not been answered yet."""

    step_id: str
    kind: str
    event_id: int
    attempt: int = 1
    last_failure: dict[str, Any] | None = None


class Writer:
    """One run on its way to a log. Handlers get it with the attributes of ``event``, the event of the moment."""

    def __init__(self, run: Run, builder: LogBuilder) -> None:
        self.run = run
        self.builder = builder
        self.event: HistoryEvent = run.events[0]
        self.timestamp: int | str = 0
        self.notices: dict[str, str] = {}
        self.steps: dict[int, Step] = {}
        self.step_ids: dict[int, str] = {}
        self.timers: dict[int, str] = {}
        self.updates: dict[str, tuple[str, Any]] = {}
        self.retried_local: dict[str, str] = {}
        self.side_effects = 0
        self.cancel_cause = ""
        self.paused = False
        self.news = False
        """Whether the workflow's code has something to do: news after which no workflow task was completed yet."""

    def add(self, event_type: str, fields: dict[str, Any]) -> None:
        """Append one event of the log at the time and with the id of the history's event."""
        self.builder.add(event_type, fields, timestamp=self.timestamp, line=self.event.event_id)

    def notice(self, about: str, text: str) -> None:
        """Have the log say how something was read: once for each thing that there is something to say about."""
        self.notices.setdefault(about, text)

    def resume(self, event_type: str, key: str, fields: dict[str, Any]) -> None:
        """End the wait of that correlation key: the application event, then the resumption."""
        self.add(event_type, fields)
        self.add("EXECUTION_RESUMED", {"eventType": event_type, "correlationKey": key, "payload": fields})

    def open_step(self, step_id: str, kind: str, fields: dict[str, Any]) -> None:
        """Start a step; its callId is the id of the event that asked for it."""
        event_id = self.event.event_id
        self.steps[event_id] = Step(step_id, kind, event_id)
        self.step_ids[event_id] = step_id
        self.add("STEP_STARTED", {"stepId": step_id, "callId": str(event_id), "kind": kind} | fields | self.summary())

    def step(self, fields: Fields, kind: str) -> Step:
        """The open step that ``fields`` names by the id of the event that opened it."""
        event_id = fields.integer("scheduledEventId" if kind in ("activity", "nexus") else "initiatedEventId")
        found = self.steps.get(event_id)
        if found is None or found.kind != kind:
            raise Malformed(f"{self.event.kind} belongs to event {event_id}, which is no open step of kind {kind}")
        return found

    def end_step(self, step: Step, outcome: dict[str, Any], facts: dict[str, Any]) -> None:
        """Complete a step with its ``output``, or fail it with its ``error``."""
        del self.steps[step.event_id]
        self.news = True
        head = {"stepId": step.step_id, "callId": str(step.event_id)}
        facts = present({**facts, "lastFailure": step.last_failure})
        if "error" in outcome:
            self.add("STEP_FAILED", head | outcome | {"attempt": step.attempt, "willRetry": False} | facts)
        else:
            self.add("STEP_COMPLETED", head | outcome | {"attempt": step.attempt} | facts)

    def summary(self) -> dict[str, Any]:
        """What the code said about the event for people to read, if it did."""
        told = self.event.user_metadata.raw("summary")
        return {} if told is None else present({"summary": payload(told)})


Handler = Callable[[Writer, Fields], None]
"""Writes what one kind of history event means; raises Malformed."""


def present(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that say something: an absent field, null and the protobuf default are one. Not for payloads."""
    return {name: value for name, value in facts.items() if value}


def event_name(name: str, kind: str) -> str:
    """An application event's name out of data: it can neither be empty nor forge a kernel event."""
    return name if name and not is_kernel_type(name) else f"{kind}:{name}"


def sender(fields: Fields) -> dict[str, Any]:
    """Which other workflow an event came from, if one."""
    if fields.raw("externalWorkflowExecution") is None:
        return {}
    execution = fields.message("externalWorkflowExecution")
    return present({"fromWorkflowId": execution.text("workflowId"), "fromRunId": execution.text("runId")})


def options(fields: Fields) -> dict[str, Any]:
    """Task queue, timeouts and retry policy, as far as they are set."""
    told: dict[str, Any] = {"taskQueue": fields.named("taskQueue")}
    for name in _DURATIONS:
        if fields.raw(name) is not None:
            told[name] = fields.duration(name)
    if fields.raw("retryPolicy") is not None:
        retry = fields.message("retryPolicy")
        policy = {
            "initialInterval": retry.duration("initialInterval"),
            "backoffCoefficient": retry.number("backoffCoefficient"),
            "maximumInterval": retry.duration("maximumInterval"),
            "maximumAttempts": retry.integer("maximumAttempts"),
            "nonRetryableErrorTypes": retry.texts("nonRetryableErrorTypes"),
        }
        told["retryPolicy"] = present(policy)
    return present(told)
