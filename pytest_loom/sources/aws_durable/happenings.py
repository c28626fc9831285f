"""What happened in a durable execution, in order, whether a file lists operations as they stand or events as they came.

An operation is known by its id, which is a hash of its place in its context: the first is hashed from ``1``, the first
in a context from ``{context's id}-1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_loom.errors import printable
from pytest_loom.sources.calls import milliseconds, moment
from pytest_loom.sources.shape import Malformed, table, tables, text

Action = Literal["start", "succeed", "fail", "retry", "time-out", "stop"]

TYPES = ("EXECUTION", "CONTEXT", "STEP", "WAIT", "CALLBACK", "CHAINED_INVOKE")
_ENDED: dict[str, Action] = {
    "SUCCEEDED": "succeed",
    "FAILED": "fail",
    "TIMED_OUT": "time-out",
    "STOPPED": "stop",
    "CANCELLED": "stop",
    "PENDING": "retry",
}
"""What has become of an operation, by its status; STARTED and READY ones are under way."""

_EVENT = re.compile(
    r"(Execution|Context|Step|Wait|Callback|ChainedInvoke)(Started|Succeeded|Failed|TimedOut|Stopped|Cancelled)"
)
_EVENT_ACTIONS: dict[str, Action] = {
    "Started": "start",
    "Succeeded": "succeed",
    "Failed": "fail",
    "TimedOut": "time-out",
    "Stopped": "stop",
    "Cancelled": "stop",
}
_ARN = re.compile(r"arn:[^:]*:lambda:[^:]*:[^:]*:function:([^:/]+)(?::([^/]+))?/durable-execution/.+", re.DOTALL)
_DETAILS = {"EXECUTION": "Execution", "CONTEXT": "Context", "STEP": "Step", "WAIT": "Wait", "CALLBACK": "Callback"}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its place (``id``, ``parent``), and what the engine holds it to on resume."""

    id: str
    type: str
    sub_type: str
    name: str
    parent: str

    @property
    def called(self) -> str:
        """A name for it, also where the code gave none."""
        return self.name or self.sub_type or self.type.title()


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to an operation. ``result`` is as it was serialized; ``is_cut``: it was left out."""

    at: int | str
    action: Action
    operation: Operation
    line: int
    result: str | None = None
    error: dict[str, Any] | None = None
    attempt: int = 1
    until: int | str = 0
    callback_id: str = ""
    is_cut: bool = False
    replay_children: bool = False


@dataclass(slots=True)
class Execution:
    """An execution, and where it comes from."""

    execution_id: str
    workflow_id: str
    version: str = ""
    arn: str = ""
    happenings: list[Happening] = field(default_factory=list)


def execution_of(whole: Any, stem: str) -> Execution:
    """The execution that a document holds; ``stem`` is its id where nothing else is. Raises Malformed."""
    top = table(whole, "the document")
    initial = table(top.get("InitialExecutionState"), "InitialExecutionState")
    listed = top if "Operations" in top else initial
    if text(listed.get("NextMarker")) or text(top.get("NextMarker")):
        raise Malformed("it is only a page: NextMarker says that more follows. Put all pages into one document")
    happenings = _events(top) if "Events" in top else _operations(listed, top)
    if not happenings:
        raise Malformed("it holds no operation")
    start = table(top.get("StartInput"), "StartInput")
    arn = text(top.get("DurableExecutionArn"))
    named = _ARN.fullmatch(arn)
    root = next((one.operation.id for one in happenings if one.operation.type == "EXECUTION"), "")
    return Execution(
        execution_id=arn or root or stem,
        workflow_id=(named[1] if named else text(start.get("FunctionName"))) or "unknown",
        version=(named[2] if named and named[2] else text(start.get("FunctionQualifier"))),
        arn=arn,
        happenings=happenings,
    )


# A state: operations as they stand ------------------------------------------------------------------------------------


def _operations(state: dict[str, Any], top: dict[str, Any]) -> list[Happening]:
    timed: list[tuple[float, int, int, Happening]] = []
    seen: set[str] = set()
    for number, entry in enumerate(tables(state.get("Operations"), "Operations"), 1):
        operation = _operation(entry, text(entry.get("Type")), number)
        if operation.id in seen:
            raise Malformed(f"operation {number} has the id of another")
        seen.add(operation.id)
        for happening in _of_operation(entry, operation, number, top):
            ends_context = happening.action != "start" and operation.type in ("CONTEXT", "EXECUTION")
            timed.append((milliseconds(happening.at), 1 if ends_context else 0, number, happening))
    timed.sort(key=lambda one: (one[0], one[1], -one[2] if one[1] else one[2]))  # of one moment, the outer ends last
    return [happening for *_, happening in timed]


def _of_operation(entry: dict[str, Any], operation: Operation, line: int, top: dict[str, Any]) -> Iterator[Happening]:
    details = _details(entry, operation.type)
    started = moment(entry.get("StartTimestamp"))
    result, cut = _payload(details.get("InputPayload") if operation.type == "EXECUTION" else None)
    yield Happening(
        started,
        "start",
        operation,
        line,
        result=result,
        is_cut=cut,
        until=moment(details.get("ScheduledEndTimestamp")),
        callback_id=text(details.get("CallbackId")),
    )
    status = text(entry.get("Status"))
    action = _ENDED.get(status)
    if action is None:
        if status not in ("STARTED", "READY"):
            raise Malformed(f"operation {line} has the status {printable(status) or 'none'}")
        return
    if operation.type == "EXECUTION":
        said = top.get("Result")
        details = said if isinstance(said, dict) else {"Result": said, "Error": top.get("Error")}
    result, cut = _payload(details.get("Result"))
    yield Happening(
        moment(entry.get("EndTimestamp")) or started,
        action,
        operation,
        line,
        result=result,
        error=_error(details.get("Error")),
        attempt=_count(details.get("Attempt")),
        is_cut=cut,
        replay_children=details.get("ReplayChildren") is True,
    )


def _details(entry: dict[str, Any], kind: str) -> dict[str, Any]:
    name = "ChainedInvokeDetails" if kind == "CHAINED_INVOKE" else f"{_DETAILS[kind]}Details"
    return table(entry.get(name), name)


# A history: events as they came ---------------------------------------------------------------------------------------


def _events(top: dict[str, Any]) -> list[Happening]:
    found: list[Happening] = []
    known: dict[str, Operation] = {}
    tries: dict[str, int] = {}
    entries = tables(top.get("Events"), "Events")
    for number, entry in enumerate(entries, 1):
        kind = text(entry.get("EventType"))
        match = _EVENT.fullmatch(kind)
        if match is None:
            if not kind:
                raise Malformed(f"event {number} has no EventType")
            continue  # InvocationCompleted: how often the code was run is no work of the execution
        event_id = entry.get("EventId")
        if found and isinstance(event_id, int) and event_id <= found[-1].line:
            raise Malformed(f"event {number} is not in the order of EventId: fetch it without ReverseOrder")
        what = "CHAINED_INVOKE" if match[1] == "ChainedInvoke" else match[1].upper()
        operation = _operation(entry, what, number)
        action = _EVENT_ACTIONS[match[2]]
        before = known.get(operation.id)
        if action == "start":
            if before is not None and what != "STEP":
                raise Malformed(f"event {number} starts an operation anew")
            tries[operation.id] = tries.get(operation.id, 0) + 1
            known[operation.id] = operation
        elif before is None or before.type != what:
            raise Malformed(f"event {number} ends an operation that did not start")
        else:
            operation = before
        found.append(
            _of_event(entry, kind, action, operation, event_id if isinstance(event_id, int) else number, tries)
        )
    return found


def _of_event(
    entry: dict[str, Any], kind: str, action: Action, operation: Operation, line: int, tries: dict[str, int]
) -> Happening:
    details = table(entry.get(f"{kind}Details"), f"{kind}Details")
    retry = table(details.get("RetryDetails"), "RetryDetails")
    if action == "fail" and retry.get("NextAttemptDelaySeconds"):
        action = "retry"
    result, cut = _payload(details.get("Input" if action == "start" else "Result"))
    return Happening(
        moment(entry.get("EventTimestamp")),
        action,
        operation,
        line,
        result=result,
        error=_error(details.get("Error")),
        attempt=tries.get(operation.id, 1),
        until=moment(details.get("ScheduledEndTimestamp")),
        callback_id=text(details.get("CallbackId")),
        is_cut=cut,
    )


# Parts of both --------------------------------------------------------------------------------------------------------


def _operation(entry: dict[str, Any], kind: str, number: int) -> Operation:
    if kind not in TYPES:
        raise Malformed(f"entry {number} is an operation of type {printable(kind) or 'none'}")
    if not text(entry.get("Id")):
        raise Malformed(f"entry {number} has no Id")
    sub_type, name, parent = (text(entry.get(key)) for key in ("SubType", "Name", "ParentId"))
    return Operation(entry["Id"], kind, sub_type, name, parent)


def _payload(value: Any) -> tuple[str | None, bool]:
    """A serialized value, and whether it was left out: histories show data only where they are asked to."""
    if isinstance(value, dict):
        payload = value.get("Payload")
        return (payload, False) if isinstance(payload, str) else (None, value.get("Truncated") is True)
    return (value if isinstance(value, str) else None), False


def _error(value: Any) -> dict[str, Any] | None:
    said = table(value, "an error")
    inner = table(said.get("Payload", said), "an error")  # histories have one level more
    if not inner and not said:
        return None
    return {"type": text(inner.get("ErrorType")) or "Error", "message": text(inner.get("ErrorMessage"))}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value is not True and 0 < value < 2**31 else 1
