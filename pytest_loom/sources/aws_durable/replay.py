"""Today's durable function against a recorded execution, by the SDK itself: its own check of name, type and parent.

Runs only in a process that does nothing else and may be thrown away (``deploy.durable``): parts of the SDK are
replaced there. What was recorded is answered from the record, as the SDK does on every resume; no step's body and no
condition is run, no client is made, and nothing is sent. Work that is new comes after what was recorded: it is told,
and answered with nothing, to see whether the code still comes to where the run waits.
"""

from __future__ import annotations

import importlib
import json
import logging
from typing import Any

from pytest_loom.log.event import Log

_SDK = "aws_durable_execution_sdk_python"
_ROOT = "execution"
"""The id of the operation that the execution itself is, which the SDK takes from the end of the ARN."""

_MOST_NEW = 100
"""After so many operations that are new, the code is taken to go on for ever."""

_SHOWN = 400
_STATUS = {"STEP_COMPLETED": "SUCCEEDED", "STEP_FAILED": "FAILED"}
_DETAILS = {"STEP": "StepDetails", "CONTEXT": "ContextDetails", "CHAINED_INVOKE": "ChainedInvokeDetails"}


def operations_of(log: Log) -> list[dict[str, Any]]:
    """The operations of an unfinished execution, as ``GetDurableExecutionState`` lists them, out of its log."""
    found: dict[str, dict[str, Any]] = {}
    root = {"Id": _ROOT, "Type": "EXECUTION", "Status": "STARTED", "Name": "execution"}
    for event in log.events:
        payload = event.payload
        kind = event.event_type
        if kind == "EXECUTION_STARTED":
            text = json.dumps(payload["input"]) if "input" in payload else None
            root["ExecutionDetails"] = {"InputPayload": text}  # type: ignore[assignment]
        elif kind in ("STEP_STARTED", "EXECUTION_SUSPENDED"):
            key = str(payload.get("callId") if kind == "STEP_STARTED" else payload.get("correlationKey"))
            found[key] = _started(key, payload)
        elif kind in _STATUS:
            _ended(found.get(str(payload.get("callId"))), _STATUS[kind], payload)
        elif kind == "EXECUTION_RESUMED":
            answer = _table(payload, "payload")
            status = "SUCCEEDED" if "error" not in answer else "FAILED"
            timed_out = payload.get("eventType") == "TIMEOUT"
            _ended(found.get(str(payload.get("correlationKey"))), "TIMED_OUT" if timed_out else status, answer)
    return [root, *found.values()]


def _table(payload: dict[str, Any], key: str) -> dict[str, Any]:
    found = payload.get(key)
    return found if isinstance(found, dict) else {}


def _started(key: str, payload: dict[str, Any]) -> dict[str, Any]:
    held = _table(payload, "operation")
    facts = {"Id": key, "Status": "STARTED"}
    names = {"type": "Type", "subType": "SubType", "name": "Name", "parentId": "ParentId"}
    facts |= {name: str(held[said]) for said, name in names.items() if said in held}
    if facts.get("Type") == "CALLBACK":
        return facts | {"CallbackDetails": {"CallbackId": payload.get("callbackId") or "callback"}}
    return facts


def _ended(operation: dict[str, Any] | None, status: str, payload: dict[str, Any]) -> None:
    if operation is None:
        return
    retried = payload.get("willRetry") is True
    operation["Status"] = "PENDING" if retried else status
    details: dict[str, Any] = {}
    if "serialized" in payload:
        details["Result"] = payload["serialized"]
    elif "output" in payload:
        details["Result"] = json.dumps(payload["output"])
    error = payload.get("error")
    if isinstance(error, dict):
        details["Error"] = {"ErrorType": error.get("type"), "ErrorMessage": error.get("message")}
    kind = operation.get("Type")
    if kind == "CALLBACK":
        operation["CallbackDetails"] |= details
    elif kind in _DETAILS:
        if kind == "STEP":
            details["Attempt"] = payload.get("attempt", 1)
        if kind == "CONTEXT" and payload.get("replayChildren"):
            details["ReplayChildren"] = True
        operation[_DETAILS[str(kind)]] = details


# In the process of its own --------------------------------------------------------------------------------------------


def replayed(handler: Any, operations: list[dict[str, Any]]) -> dict[str, Any]:
    """What today's ``handler`` does with the record: ``status`` (SUCCEEDED, FAILED, PENDING), ``error``, what it asked
    for that is ``new``, the record that it does not fit (``mismatch``), and the open waits that it has ``reached``.
    """
    logging.disable(logging.CRITICAL)
    execution, service = (importlib.import_module(f"{_SDK}.{name}") for name in ("execution", "lambda_service"))
    watch = _Watch()
    watch.install()
    state = execution.InitialExecutionState.from_dict({"Operations": operations, "NextMarker": ""})
    invocation = execution.DurableExecutionInvocationInputWithClient(
        durable_execution_arn=f"replayed/{_ROOT}", checkpoint_token="replayed", initial_execution_state=state,
        service_client=_Client(service),
    )  # fmt: skip
    output = handler(invocation, _Context())
    error = output.get("Error") or {}
    return {
        "status": output.get("Status"),
        "error": {"type": str(error.get("ErrorType")), "message": str(error.get("ErrorMessage"))[:_SHOWN]},
        "new": watch.new,
        "mismatch": watch.mismatch,
        "reached": sorted(watch.reached),
        "endless": len(watch.new) > _MOST_NEW,
    }


class _Client:
    """A service that takes everything and tells nothing."""

    def __init__(self, service: Any) -> None:
        self.service = service

    def checkpoint(self, *_args: Any, **_options: Any) -> Any:
        """What a checkpoint gives: a token, and no news."""
        return self.service.CheckpointOutput.from_dict({"CheckpointToken": "replayed"})

    def get_execution_state(self, *_args: Any, **_options: Any) -> Any:
        """There is no further page."""
        return self.service.StateOutput()


class _Context:
    """What Lambda tells a function about its call."""

    aws_request_id = "replayed"
    function_name = invoked_function_arn = log_group_name = log_stream_name = "replayed"
    function_version = "$LATEST"
    memory_limit_in_mb = 128
    client_context = identity = tenant_id = None

    def get_remaining_time_in_millis(self) -> int:
        """Time enough."""
        return 900_000

    def log(self, message: str) -> None:
        """Nobody reads it."""


class _Watch:
    """Stands between today's code and the SDK's executors."""

    def __init__(self) -> None:
        self.new: list[dict[str, Any]] = []
        self.mismatch: dict[str, Any] | None = None
        self.reached: set[str] = set()
        self.exceptions = importlib.import_module(f"{_SDK}.exceptions")

    def install(self) -> None:
        """Put this between them, for the rest of the process's life."""
        base = importlib.import_module(f"{_SDK}.operation.base").OperationExecutor
        identifier = importlib.import_module(f"{_SDK}.identifier").OperationIdentifier
        context = importlib.import_module(f"{_SDK}.context")
        self.check, self.process, self.result = identifier.validate_checkpoint, base.process, context.Callback.result
        watch = self
        identifier.validate_checkpoint = lambda own, checkpoint: watch.checked(own, checkpoint)
        base.process = lambda own: watch.processed(own)
        context.Callback.result = lambda own: watch.awaited(own)
        for name, kind in (
            ("step", "StepOperationExecutor"),
            ("wait_for_condition", "WaitForConditionOperationExecutor"),
        ):
            executor = getattr(importlib.import_module(f"{_SDK}.operation.{name}"), kind)
            executor.execute = lambda own, checkpointed_result: watch.stop("a body would be run")

    def stop(self, why: str) -> Any:
        """Suspend, as where there is nothing to go on with."""
        raise self.exceptions.SuspendExecution(why)

    def checked(self, own: Any, checkpoint: Any) -> None:
        """The SDK's own check; what does not pass it is kept."""
        try:
            self.check(own, checkpoint)
        except self.exceptions.NonDeterministicExecutionError:
            self.mismatch = self.mismatch or {
                "id": own.operation_id,
                "then": _facts(checkpoint.operation_type, checkpoint.sub_type, checkpoint.name, checkpoint.parent_id),
                "now": _facts(own.type, own.sub_type, own.name, own.parent_id),
            }
            raise

    def processed(self, executor: Any) -> Any:
        """An operation as today's code asks for it: answered from the record, or new."""
        identity = executor.operation_identifier
        found = executor._get_checkpoint_result()
        if found.is_existent():
            if found.is_started() and identity.type.value == "WAIT":
                self.reached.add(identity.operation_id)
            return self.process(executor)
        if getattr(executor, "is_virtual", False):
            return self.process(executor)
        self.new.append(_facts(identity.type, identity.sub_type, identity.name, identity.parent_id))
        if len(self.new) > _MOST_NEW or identity.type.value == "CALLBACK":
            return self.stop("it waits for something new")
        return self.process(executor) if identity.type.value == "CONTEXT" else None

    def awaited(self, callback: Any) -> Any:
        """The answer to a callback is asked for."""
        self.reached.add(callback.operation_id)
        return self.result(callback)


def _facts(kind: Any, sub_type: Any, name: Any, parent: Any) -> dict[str, Any]:
    facts = {"type": kind.value, "subType": sub_type, "name": name, "parentId": parent}
    return {key: str(value)[:_SHOWN] for key, value in facts.items() if value}
