"""Payload shapes of the kernel's kinds (DESIGN section 3): only what has to be understood; values stay raw."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SuspensionKind = Literal["approval", "question", "timer", "event", "breakpoint", "crash"]

ABSENT = msgspec.Raw(b"")
"""Stands for a payload field that the log does not have."""


class _Payload(msgspec.Struct, gc=False, rename="camel"):
    pass


class Step(_Payload):
    """STEP_STARTED, STEP_PROGRESS, STEP_COMPLETED and STEP_FAILED."""

    step_id: str
    call_id: str | int | None = None
    attempt: int | None = None
    will_retry: bool | None = False
    idempotency_key: str | None = None
    input: msgspec.Raw = ABSENT
    output: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    chunk: msgspec.Raw = ABSENT


class ToolRequested(_Payload):
    """TOOL_REQUESTED."""

    call_id: str | int
    name: str
    args: msgspec.Raw = ABSENT
    approval: Any = None
    tool_schema_version: Any = None


class ModelRequested(_Payload):
    """MODEL_REQUESTED."""

    call_id: str | int
    model: str
    request: msgspec.Raw = ABSENT


class Answer(_Payload):
    """What ends a tool or model call."""

    call_id: str | int
    name: str = ""
    model: str = ""
    output: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class Started(_Payload):
    """EXECUTION_STARTED."""

    input: msgspec.Raw = ABSENT
    manifest: dict[str, Any] | None = None


class Suspended(_Payload):
    """EXECUTION_SUSPENDED."""

    on: str | list[str]
    kind: SuspensionKind = "event"  # what a log that does not say so waits for in any case
    correlation_key: str | int | None = None
    timeout_ms: float | None = None
    pending: Any = None


class Resumed(_Payload):
    """EXECUTION_RESUMED."""

    event_type: str | None = None  # where nothing but a restart ended the wait
    correlation_key: str | int | None = None
    payload: Any = None


class Migrated(_Payload):
    """EXECUTION_MIGRATED."""

    strategy: str | None = None


class Forked(_Payload):
    """EXECUTION_FORKED."""

    parent_execution_id: str
    at_sequence: int


class Ended(_Payload):
    """EXECUTION_COMPLETED, EXECUTION_FAILED and EXECUTION_CANCELLED."""

    output: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    reason: msgspec.Raw = ABSENT


class Continued(_Payload):
    """EXECUTION_CONTINUED."""

    new_execution_id: str
    input: msgspec.Raw = ABSENT


class Snapshot(_Payload):
    """STATE_SNAPSHOT."""

    state: Any
    state_schema_version: Any = None


class Plan(_Payload):
    """PLAN_RECORDED."""

    plan: Any
    plan_schema_version: Any = None


class Decision(_Payload):
    """DECISION_RECORDED."""

    key: str
    value: Any = None


read_step = msgspec.json.Decoder(Step).decode
read_tool_requested = msgspec.json.Decoder(ToolRequested).decode
read_model_requested = msgspec.json.Decoder(ModelRequested).decode
read_answer = msgspec.json.Decoder(Answer).decode
read_started = msgspec.json.Decoder(Started).decode
read_suspended = msgspec.json.Decoder(Suspended).decode
read_resumed = msgspec.json.Decoder(Resumed).decode
read_migrated = msgspec.json.Decoder(Migrated).decode
read_forked = msgspec.json.Decoder(Forked).decode
read_ended = msgspec.json.Decoder(Ended).decode
read_continued = msgspec.json.Decoder(Continued).decode
read_snapshot = msgspec.json.Decoder(Snapshot).decode
read_plan = msgspec.json.Decoder(Plan).decode
read_decision = msgspec.json.Decoder(Decision).decode
