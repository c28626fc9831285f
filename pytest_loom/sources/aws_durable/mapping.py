"""A durable execution as a log: steps, child contexts and invocations are steps; waits and callbacks are suspensions.

Each start says under ``operation`` what the engine holds the code to on resume, and each end keeps a result that is no
plain JSON as it was ``serialized``, so that the SDK can be asked about the log (``replay``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.sources.aws_durable.happenings import Execution, Happening, Operation
from pytest_loom.sources.calls import milliseconds
from pytest_loom.sources.shape import Malformed, document

_KINDS = {"STEP": "step", "CONTEXT": "context", "CHAINED_INVOKE": "invoke"}
_MAX_DEPTH = 100
_CONTAINERS = {"l", "t"}
_PLAIN = {"n", "s", "i", "f", "b", "B", "u", "d", "dt", "D"}
_WAIT_FOR_CALLBACK = "WaitForCallback"


def log_of(execution: Execution, path: Path) -> Log:
    """The log of an execution. Raises Malformed."""
    return _Writer(execution, path).log()


class _Writer:
    def __init__(self, execution: Execution, path: Path) -> None:
        self.execution = execution
        self.builder = LogBuilder(execution.execution_id, execution.workflow_id, path=str(path))
        self.operations = {one.operation.id: one.operation for one in execution.happenings}
        self.at: int | str = 0
        self.cut = 0

    def log(self) -> Log:
        happenings = self.execution.happenings
        if happenings[0].operation.type != "EXECUTION" or happenings[0].action != "start":
            self.at = happenings[0].at
            self.builder.add("EXECUTION_STARTED", {"manifest": self.manifest()}, timestamp=self.at)
        for happening in happenings:
            self.at = happening.at or self.at
            self.cut += happening.is_cut
            self.tell(happening)
        notices = []
        if self.cut:
            notices.append(
                f"{self.cut} inputs and results are not in the history: fetch it with --include-execution-data"
                " to compare them"
            )
        return self.builder.log(source="aws-durable", engine="journal", notices=notices)

    def manifest(self) -> dict[str, Any]:
        facts = {
            "framework": "aws-durable-execution",
            "arn": self.execution.arn,
            "functionVersion": self.execution.version,
        }
        return {key: value for key, value in facts.items() if value}

    def tell(self, happening: Happening) -> None:
        kind = happening.operation.type
        if kind == "EXECUTION":
            self.execution_itself(happening)
        elif kind in _KINDS:
            self.step(happening)
        else:
            self.wait(happening)

    def add(self, event_type: str, payload: dict[str, Any], happening: Happening) -> None:
        namespace = self.namespace(happening.operation)
        self.builder.add(event_type, payload, timestamp=self.at, line=happening.line, namespace=namespace)

    def namespace(self, operation: Operation) -> str | None:
        """The contexts around an operation, from the outermost. Raises Malformed where they lie in each other."""
        names: list[str] = []
        parent = self.operations.get(operation.parent)
        while parent is not None and parent.type != "EXECUTION":
            names.append(parent.called.replace("/", "-"))
            if len(names) > _MAX_DEPTH:
                raise Malformed(f"operation {printable(operation.id)} lies in more than {_MAX_DEPTH} contexts")
            parent = self.operations.get(parent.parent)
        return "/".join(reversed(names)) or None

    def execution_itself(self, happening: Happening) -> None:
        if happening.action == "start":
            started: dict[str, Any] = {"manifest": self.manifest()}
            if happening.result is not None:
                started["input"] = decoded(happening.result)
            self.add("EXECUTION_STARTED", started, happening)
        elif happening.action == "succeed":
            output = {} if happening.result is None else {"output": decoded(happening.result)}
            self.add("EXECUTION_COMPLETED", output, happening)
        elif happening.action == "stop":
            reason = (happening.error or {}).get("message") or "it was stopped"
            self.add("EXECUTION_CANCELLED", {"reason": reason}, happening)
        else:
            self.add("EXECUTION_FAILED", {"error": _error(happening)}, happening)

    def step(self, happening: Happening) -> None:
        operation = happening.operation
        facts: dict[str, Any] = {"stepId": operation.called, "callId": operation.id, "attempt": happening.attempt}
        if happening.action == "start":
            facts |= {"kind": _KINDS[operation.type], "operation": held_to(operation)}
            if operation.type == "CHAINED_INVOKE" and happening.result is not None:
                facts["input"] = decoded(happening.result)
            self.add("STEP_STARTED", facts, happening)
        elif happening.action == "succeed":
            if happening.replay_children:
                facts["replayChildren"] = True
            self.add("STEP_COMPLETED", facts | result(happening), happening)
        else:
            facts["willRetry"] = happening.action == "retry"
            self.add("STEP_FAILED", facts | {"error": _error(happening)}, happening)

    def wait(self, happening: Happening) -> None:
        operation = happening.operation
        on = self.awaited(operation)
        if happening.action == "start":
            is_timer = operation.type == "WAIT"
            facts = {"on": on, "kind": "timer" if is_timer else "event", "correlationKey": operation.id}
            if happening.until:
                facts["timeoutMs"] = milliseconds(happening.until) - milliseconds(self.at)  # type: ignore[assignment]
            if happening.callback_id:
                facts["callbackId"] = happening.callback_id
            self.add("EXECUTION_SUSPENDED", facts | {"operation": held_to(operation)}, happening)
            return
        payload: dict[str, Any] = {"correlationKey": operation.id}
        if happening.action == "succeed":
            payload |= result(happening)
        else:
            payload["error"] = _error(happening)
        event = "TIMEOUT" if happening.action == "time-out" else on
        if event == "TIMEOUT":
            payload["on"] = on
        self.add(event, payload, happening)
        self.add(
            "EXECUTION_RESUMED", {"eventType": event, "correlationKey": operation.id, "payload": payload}, happening
        )

    def awaited(self, operation: Operation) -> str:
        """What a wait is called: a callback that ``wait_for_callback`` made is called as that was."""
        parent = self.operations.get(operation.parent)
        if parent is not None and parent.sub_type == _WAIT_FOR_CALLBACK and parent.name:
            name = parent.name
        else:
            name = operation.called
        return f"{operation.type.lower()}:{name}" if is_kernel_type(name) or name == "TIMEOUT" else name


def held_to(operation: Operation) -> dict[str, Any]:
    """What the engine compares on resume, of an operation that is found by its id."""
    facts = {
        "type": operation.type,
        "subType": operation.sub_type,
        "name": operation.name,
        "parentId": operation.parent,
    }
    return {key: value for key, value in facts.items() if value}


def result(happening: Happening) -> dict[str, Any]:
    """The output of an operation, and its serialized form where that is no plain JSON."""
    if happening.result is None:
        return {}
    value, is_plain = _decoded(happening.result)
    return {"output": value} if is_plain else {"output": value, "serialized": happening.result}


def decoded(serialized: str) -> Any:
    """A serialized value as plain data: JSON, the SDK's typed JSON, or the text itself."""
    return _decoded(serialized)[0]


def _decoded(serialized: str) -> tuple[Any, bool]:
    try:
        value = document(serialized.encode("utf-8", "surrogatepass"))
        plain = _untyped(value)
    except Malformed:
        return serialized, False
    return plain, plain == value and not isinstance(value, float)


def _untyped(value: Any) -> Any:
    """The value in the SDK's envelopes ``{"t": type, "v": value}``, its types left to JSON. Raises Malformed."""
    if not isinstance(value, dict) or value.keys() != {"t", "v"}:
        return value
    kind, inner = value["t"], value["v"]
    if kind in _CONTAINERS and isinstance(inner, list):
        return [_untyped(one) for one in inner]
    if kind in ("m", "br") and isinstance(inner, dict):
        return {key: _untyped(one) for key, one in inner.items()}
    return inner if kind in _PLAIN else value


def _error(happening: Happening) -> dict[str, Any]:
    default = {"time-out": "TimeoutError", "stop": "Stopped"}.get(happening.action, "Error")
    error = happening.error or {"type": default, "message": ""}
    return {"type": error["type"], "message": error["message"] or "no message was recorded"}
