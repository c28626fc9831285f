"""Temporal failures as ``error`` (type and message, for comparing) and ``failure`` (all that was recorded)."""

from __future__ import annotations

from typing import Any

from pytest_loom.sources.temporal.enums import ERROR_CATEGORY, HANDLER_RETRY, RETRY_STATE, TIMEOUT_TYPE, enum_name
from pytest_loom.sources.temporal.payloads import payload, payload_list
from pytest_loom.sources.temporal.protojson import NOTHING, Fields


def error_of(failure: dict[str, Any], *, kind: str = "", message: str = "") -> dict[str, Any]:
    """``{"type", "message"}`` of a failure read by ``read_failure``; ``kind`` and ``message`` where it has none."""
    return {"type": failure.get("type") or kind, "message": failure.get("message") or message}


def read_failure(fields: Fields) -> dict[str, Any]:
    """A Failure message with its causes: ``type``, ``message`` and whatever else it holds, defaults left out.

    ``type`` is the application's own error type, else a name that says which failure it was. Causes nest as deep as
    the document, which is bounded.
    """
    if fields is NOTHING or not any(True for _ in fields):
        return {}
    message, stack_trace = fields.text("message"), fields.text("stackTrace")
    encoded = payload(fields.raw("encodedAttributes"))
    if isinstance(encoded, dict) and isinstance(encoded.get("message"), str):
        # Common attributes moved out of sight of the server, and not encrypted after all.
        message, stack_trace = encoded["message"], str(encoded.get("stack_trace") or "")
        encoded = None
    kind, info = _info(fields)
    read: dict[str, Any] = {"type": kind, "message": message}
    rest = info | {
        "source": fields.text("source"),
        "stackTrace": stack_trace,
        "encodedAttributes": encoded,
        "cause": read_failure(fields.message("cause")),
    }
    return read | {name: value for name, value in rest.items() if value not in (None, "", [], {}, False)}


def _info(fields: Fields) -> tuple[str, dict[str, Any]]:
    """The failure's type and the facts of its one ``…FailureInfo``."""
    for name, read in _INFOS.items():
        if fields.raw(name) is not None:
            return read(fields.message(name))
    return "Failure", {}


def _application(info: Fields) -> tuple[str, dict[str, Any]]:
    return info.text("type") or "ApplicationError", {
        "nonRetryable": info.flag("nonRetryable"),
        "details": payload_list(info.raw("details")),
        "nextRetryDelay": info.duration("nextRetryDelay"),
        "category": enum_name(info.raw("category"), ERROR_CATEGORY, f"{info.name}.category"),
    }


def _timeout(info: Fields) -> tuple[str, dict[str, Any]]:
    which = enum_name(info.raw("timeoutType"), TIMEOUT_TYPE, f"{info.name}.timeoutType")
    heartbeat = payload_list(info.raw("lastHeartbeatDetails"))
    return f"{which}TimeoutError", {"timeoutType": which, "lastHeartbeatDetails": heartbeat}


def _canceled(info: Fields) -> tuple[str, dict[str, Any]]:
    return "CanceledError", {"details": payload_list(info.raw("details"))}


def _server(info: Fields) -> tuple[str, dict[str, Any]]:
    return "ServerError", {"nonRetryable": info.flag("nonRetryable")}


def _activity(info: Fields) -> tuple[str, dict[str, Any]]:
    return "ActivityError", {
        "activityType": info.named("activityType"),
        "activityId": info.text("activityId"),
        "retryState": retry_state(info),
    }


def _child(info: Fields) -> tuple[str, dict[str, Any]]:
    execution = info.message("workflowExecution")
    return "ChildWorkflowError", {
        "workflowType": info.named("workflowType"),
        "workflowId": execution.text("workflowId"),
        "runId": execution.text("runId"),
        "retryState": retry_state(info),
    }


def _nexus(info: Fields) -> tuple[str, dict[str, Any]]:
    return "NexusOperationError", {name: info.text(name) for name in ("endpoint", "service", "operation")}


def _handler(info: Fields) -> tuple[str, dict[str, Any]]:
    retry = enum_name(info.raw("retryBehavior"), HANDLER_RETRY, f"{info.name}.retryBehavior")
    return "NexusHandlerError", {"handlerErrorType": info.text("type"), "retryBehavior": retry}


_INFOS = {
    "applicationFailureInfo": _application,
    "timeoutFailureInfo": _timeout,
    "canceledFailureInfo": _canceled,
    "terminatedFailureInfo": lambda info: ("TerminatedError", {}),
    "serverFailureInfo": _server,
    "resetWorkflowFailureInfo": lambda info: ("ResetWorkflowError", {}),
    "activityFailureInfo": _activity,
    "childWorkflowExecutionFailureInfo": _child,
    "nexusOperationExecutionFailureInfo": _nexus,
    "nexusHandlerFailureInfo": _handler,
}


def retry_state(fields: Fields) -> str:
    """The ``retryState`` field: why nothing was tried again."""
    return enum_name(fields.raw("retryState"), RETRY_STATE, f"{fields.name}.retryState")
