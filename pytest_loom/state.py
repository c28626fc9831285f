"""What folding a log gives: the state of one run, with its steps, calls and open waits (DESIGN section 4).

Values stay JSON bytes until somebody asks for them, so that looking at structure alone never pays for decoding.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pytest_loom.errors import printable
from pytest_loom.log.event import Event, decode
from pytest_loom.log.payloads import ABSENT, SuspensionKind, read_step

Status = Literal["running", "suspended", "completed", "failed", "cancelled", "continued"]
FrameStatus = Literal["running", "completed", "failed"]

TERMINAL = frozenset({"completed", "failed", "cancelled", "continued"})
"""Statuses in which a run is over: it is never resumed."""


class Frame(msgspec.Struct, eq=False, gc=False):
    """One occurrence of a step: what went in, what came out, and how it ended.

    ``key`` is the step's id the first time, then ``id#2``, ``id#3``, counted by branch path and then by order.
    ``input``, ``output`` and ``error`` are decoded on access (None where the log has none); ``raw_*`` are their JSON
    bytes. ``attempts`` counts tries, ``will_retry`` says that a failed try is to be repeated. ``event`` is the event
    that told of it last, ``input_event`` the one that told its input.
    """

    key: str
    step_id: str
    branch: str | None
    namespace: str | None
    event: Event
    call_id: str | int | None = None
    status: FrameStatus = "running"
    attempts: int = 0
    will_retry: bool = False
    raw_input: msgspec.Raw = ABSENT
    raw_output: msgspec.Raw = ABSENT
    raw_error: msgspec.Raw = ABSENT
    input_event: Event | None = None
    idempotency_key: str | None = None
    chunk_events: list[Event] = []

    @property
    def input(self) -> Any:
        """What the step was given."""
        return None if self.input_event is None else decode(self.raw_input, self.input_event)

    @property
    def output(self) -> Any:
        """What the step returned."""
        return self._value(self.raw_output)

    @property
    def error(self) -> Any:
        """The last failure, ``{"type", "message"}``; None once a later try succeeded."""
        return self._value(self.raw_error)

    @property
    def chunks(self) -> list[Any]:
        """The pieces of a streaming step, in order."""
        return [decode(read_step(event.raw).chunk, event) for event in self.chunk_events]

    def _value(self, raw: msgspec.Raw) -> Any:
        return decode(raw, self.event) if raw is not ABSENT else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return (
            self.key == other.key
            and self.status == other.status
            and self.attempts == other.attempts
            and self.input == other.input
            and self.output == other.output
            and self.error == other.error
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value, and values may be lists

    def __repr__(self) -> str:
        return f"<Frame {printable(self.key)} {self.status}, attempts={self.attempts}>"


class Call:
    """One recorded tool or model call: ``name`` is the tool's or the model's, ``args`` the arguments or the request.

    ``event`` is the event that told of it last, ``request_event`` the one that told its arguments.
    """

    __slots__ = (
        "approval",
        "branch",
        "call_id",
        "event",
        "kind",
        "name",
        "raw_args",
        "raw_error",
        "raw_output",
        "raw_usage",
        "request_event",
        "status",
        "tool_schema_version",
    )

    def __init__(self, kind: Literal["tool", "model"], call_id: str | int | None, name: str, event: Event) -> None:
        self.kind = kind
        self.call_id = call_id
        self.name = name
        self.branch = event.branch
        self.status: Literal["requested", "completed", "failed"] = "requested"
        self.approval: Any = None
        self.tool_schema_version: Any = None
        self.raw_args = ABSENT
        self.raw_output = ABSENT
        self.raw_error = ABSENT
        self.raw_usage = ABSENT
        self.event = event
        self.request_event = event

    @property
    def args(self) -> Any:
        """The tool's arguments, or the model request."""
        return decode(self.raw_args, self.request_event) if self.raw_args is not ABSENT else None

    @property
    def output(self) -> Any:
        """The tool's output, or the model's response."""
        return decode(self.raw_output, self.event) if self.raw_output is not ABSENT else None

    @property
    def error(self) -> Any:
        """``{"type", "message"}`` of a failed call."""
        return decode(self.raw_error, self.event) if self.raw_error is not ABSENT else None

    @property
    def usage(self) -> Any:
        """Token counts of a model call, as its provider names them."""
        return decode(self.raw_usage, self.event) if self.raw_usage is not ABSENT else None

    def __repr__(self) -> str:
        return f"<Call {self.kind} {printable(self.name)} {self.status}>"


class Suspension(msgspec.Struct, frozen=True, kw_only=True):
    """A durable wait that is still open.

    ``on`` is the event (or the events) that end it, ``kind`` approval, question, timer, event, breakpoint or crash.
    """

    on: str | list[str]
    kind: SuspensionKind
    correlation_key: str | None = None
    timeout_ms: float | None = None
    pending: Any = None
    sequence: int = 0
    branch: str | None = None

    @property
    def events(self) -> list[str]:
        """The names of the events that end this wait."""
        return [self.on] if isinstance(self.on, str) else self.on


class ExecutionState:
    """What one log says happened.

    ``suspensions`` are the open waits, ``waits`` all there ever were, answered ones too; ``answered`` is the wait that
    was answered last, with the sequence of the answer (None after a timeout, which is no answer). ``variables`` holds
    ``_input``, ``_output``, ``_error``, ``_migrations`` and the like.
    """

    __slots__ = (
        "_variables",
        "answered",
        "calls",
        "decisions",
        "events",
        "execution_id",
        "first_event",
        "frames",
        "last_event",
        "manifest",
        "plan",
        "plan_schema_version",
        "raw_variables",
        "received",
        "sequence",
        "state",
        "state_schema_version",
        "status",
        "suspensions",
        "variable_events",
        "waits",
        "workflow_id",
    )

    def __init__(self, first: Event) -> None:
        self.execution_id = first.execution_id
        self.workflow_id = first.workflow_id
        self.first_event = first
        self.last_event = first
        self.status: Status = "running"
        self.sequence = 0
        self.events = 0
        self.frames: dict[str, Frame] = {}
        self.calls: list[Call] = []
        self.suspensions: list[Suspension] = []
        self.waits: list[Suspension] = []
        self.received: list[Event] = []
        self.answered: tuple[Suspension, int] | None = None
        self.decisions: dict[str, Any] = {}
        self.manifest: dict[str, Any] = {}
        self.state: Any = None
        self.state_schema_version: Any = None
        self.plan: Any = None
        self.plan_schema_version: Any = None
        self.raw_variables: dict[str, Any] = {}
        self.variable_events: dict[str, Event] = {}
        self._variables: dict[str, Any] | None = None

    @property
    def variables(self) -> dict[str, Any]:
        """The run's variables, decoded once."""
        if self._variables is None:
            self._variables = {
                name: decode(value, self.variable_events[name]) if isinstance(value, msgspec.Raw) else value
                for name, value in self.raw_variables.items()
            }
        return self._variables

    @property
    def suspension(self) -> Suspension | None:
        """The first open wait, or None."""
        return self.suspensions[0] if self.suspensions else None

    @property
    def in_flight(self) -> bool:
        """Whether the run is not over: somebody or something will resume it."""
        return self.status not in TERMINAL

    @property
    def duration_ms(self) -> float:
        """Milliseconds between the first and the last event."""
        return self.last_event.time_ms - self.first_event.time_ms

    def facts(self) -> dict[str, Any]:
        """Everything folded, as plain data: two logs that say the same give equal facts."""
        return {
            "execution_id": self.execution_id,
            "workflow_id": self.workflow_id,
            "status": self.status,
            "sequence": self.sequence,
            "variables": self.variables,
            "frames": {
                key: {
                    "status": frame.status,
                    "input": frame.input,
                    "output": frame.output,
                    "error": frame.error,
                    "attempts": frame.attempts,
                    "chunks": frame.chunks,
                }
                for key, frame in self.frames.items()
            },
            "calls": [
                {
                    "kind": call.kind,
                    "name": call.name,
                    "status": call.status,
                    "args": call.args,
                    "output": call.output,
                    "error": call.error,
                    "usage": call.usage,
                }
                for call in self.calls
            ],
            "suspensions": [msgspec.to_builtins(suspension) for suspension in self.suspensions],
            "state": self.state,
            "plan": self.plan,
            "decisions": self.decisions,
            "received": [{"event_type": event.event_type, "payload": event.payload} for event in self.received],
            "manifest": self.manifest,
        }

    def __eq__(self, other: object) -> bool:
        return self.facts() == other.facts() if isinstance(other, ExecutionState) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # compared by value

    def __repr__(self) -> str:
        return f"<ExecutionState {printable(self.execution_id)} {self.status}, {len(self.frames)} steps>"
