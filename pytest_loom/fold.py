"""Folding: what a log says happened, as one ExecutionState (DESIGN section 4, ADR 0008 and 0056).

Pure and deterministic: no clock, no call, no import on the log's word. Values stay JSON bytes until somebody
asks for them, so that folding for structure alone never pays for decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

import msgspec

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import UNDECODABLE, Event, Log, check_depth, decode, unknown_kind
from pytest_loom.log.schema import is_kernel_type

T = TypeVar("T")

Status = Literal["running", "suspended", "completed", "failed", "cancelled", "continued"]
FrameStatus = Literal["running", "completed", "failed"]

TERMINAL = frozenset({"completed", "failed", "cancelled", "continued"})
"""Statuses in which a run is over: it is never resumed."""

ABSENT = msgspec.Raw(b"")
"""Stands for a payload field that the log does not have."""

MAX_WAITS = 5_000
"""How many waits one run may have open at once: each resume looks through them."""

SuspensionKind = Literal["approval", "question", "timer", "event", "breakpoint", "crash"]


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
        return [decode(_step(event.raw).chunk, event) for event in self.chunk_events]

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

    ``variables`` holds ``_input``, ``_output``, ``_error``, ``_migrations`` and the like.
    """

    __slots__ = (
        "_variables",
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
        self.received: list[Event] = []
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


def replay_as_fixture(log: Log) -> ExecutionState:
    """Fold a recorded log back into its state, with no live call (ADR 0008).

    Identity is seeded from the first envelope. Raises LogError where a payload does not have its kind's shape, and
    UnknownSchemaVersion for a kernel kind that this version does not know, unless it is marked ignorable.
    """
    fold = _Fold(log.events[0])
    handlers = _HANDLERS
    event = log.events[0]
    try:
        for event in log.events:
            handler = handlers.get(event.event_type)
            if handler is not None:
                handler(fold, event)
            elif not is_kernel_type(event.event_type):
                fold.state.received.append(event)
            elif not event.ignorable:
                raise unknown_kind(event)
    except LogError:
        raise
    except UNDECODABLE as problem:
        raise event.error(
            f"the payload of {event.event_type} does not have its shape: {printable(str(problem))}"
        ) from None
    return fold.finish(log)


def recorded_step_outputs(log: Log) -> dict[str, Any]:
    """Each completed step's recorded output by step key (ADR 0008)."""
    return {key: frame.output for key, frame in log.state.frames.items() if frame.status == "completed"}


def occurrence_keys(names: Iterable[tuple[str, str | None]]) -> list[str]:
    """Keys for (name, branch) pairs in the order given: ``name``, ``name#2``, … counted by branch path, then by order.

    No two are the same, even where something is really called ``name#2``.
    """
    pairs = list(names)
    order: Iterable[int] = range(len(pairs))
    if any(branch for _, branch in pairs):
        order = sorted(order, key=lambda index: branch_order(pairs[index][1]))
    counts: dict[str, int] = {}
    taken: set[str] = set()
    keys = [""] * len(pairs)
    for index in order:
        name = pairs[index][0]
        count = counts.get(name, 0) + 1
        key = name if count == 1 else f"{name}#{count}"
        while key in taken:
            count += 1
            key = f"{name}#{count}"
        counts[name] = count
        taken.add(key)
        keys[index] = key
    return keys


def branch_order(branch: str | None) -> list[tuple[int, int, str]]:
    """A sort key for branch paths: by the order in which branches were created, so ``2`` comes before ``10``."""
    if not branch:
        return []
    parts = branch.replace(".", "/").split("/")
    return [
        (0, int(part), "") if part.isdecimal() and part.isascii() and len(part) < 19 else (1, 0, part) for part in parts
    ]


# Payload shapes. Only what the fold needs is decoded; the values stay raw.


class _Payload(msgspec.Struct, gc=False, rename="camel"):
    pass


class _Step(_Payload):
    step_id: str
    call_id: str | int | None = None
    attempt: int | None = None
    will_retry: bool = False
    input: msgspec.Raw = ABSENT
    output: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    chunk: msgspec.Raw = ABSENT


class _ToolRequested(_Payload):
    call_id: str | int
    name: str
    args: msgspec.Raw = ABSENT
    approval: Any = None
    tool_schema_version: Any = None


class _ModelRequested(_Payload):
    call_id: str | int
    model: str
    request: msgspec.Raw = ABSENT


class _Answer(_Payload):
    call_id: str | int
    name: str = ""
    model: str = ""
    output: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class _Started(_Payload):
    input: msgspec.Raw = ABSENT
    manifest: dict[str, Any] | None = None


class _Suspended(_Payload):
    on: str | list[str]
    kind: SuspensionKind
    correlation_key: str | int | None = None
    timeout_ms: float | None = None
    pending: Any = None


class _Resumed(_Payload):
    event_type: str | None  # null where nothing but a restart ended the wait
    correlation_key: str | int | None = None
    payload: Any = None


class _Migrated(_Payload):
    strategy: str


class _Forked(_Payload):
    parent_execution_id: str
    at_sequence: int


class _Ended(_Payload):
    output: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    reason: msgspec.Raw = ABSENT


class _Continued(_Payload):
    new_execution_id: str
    input: msgspec.Raw = ABSENT


class _Snapshot(_Payload):
    state: Any
    state_schema_version: Any = None


class _Plan(_Payload):
    plan: Any
    plan_schema_version: Any = None


class _Decision(_Payload):
    key: str
    value: Any = None


_step = msgspec.json.Decoder(_Step).decode
_tool_requested = msgspec.json.Decoder(_ToolRequested).decode
_model_requested = msgspec.json.Decoder(_ModelRequested).decode
_answer = msgspec.json.Decoder(_Answer).decode
_started = msgspec.json.Decoder(_Started).decode
_suspended = msgspec.json.Decoder(_Suspended).decode
_resumed = msgspec.json.Decoder(_Resumed).decode
_migrated = msgspec.json.Decoder(_Migrated).decode
_forked = msgspec.json.Decoder(_Forked).decode
_ended = msgspec.json.Decoder(_Ended).decode
_continued = msgspec.json.Decoder(_Continued).decode
_snapshot = msgspec.json.Decoder(_Snapshot).decode
_plan = msgspec.json.Decoder(_Plan).decode
_decision = msgspec.json.Decoder(_Decision).decode


class _Fold:
    """The state under construction, with what is open while the events go by."""

    def __init__(self, first: Event) -> None:
        self.state = ExecutionState(first)
        self.frames: list[Frame] = []
        self.counts: dict[str, int] = {}
        self.branched = False
        self.open: dict[Any, Frame] = {}  # the oldest running occurrence under each key
        self.queued: dict[Any, list[Frame]] = {}  # further ones, where several run at once
        self.waiting: dict[Any, list[Frame]] = {}  # those that wait for another try, oldest first
        self.calls: dict[tuple[str, str | int | None], Call] = {}
        self.decisions: list[tuple[str, str | None, Any]] = []
        self.waits: dict[tuple[Any, ...], Suspension] = {}
        self.ended: Status | None = None

    def finish(self, log: Log) -> ExecutionState:
        state = self.state
        last = log.events[-1]
        state.last_event = last
        state.sequence = last.sequence
        state.events = len(log.events)
        state.frames = {frame.key: frame for frame in self.frames}
        if self.branched or len(state.frames) != len(self.frames):
            keys = occurrence_keys([(frame.step_id, frame.branch) for frame in self.frames])
            for key, frame in zip(keys, self.frames, strict=True):
                frame.key = key
            state.frames = {frame.key: frame for frame in self.frames}
        if self.decisions:
            names = occurrence_keys([(key, branch) for key, branch, _ in self.decisions])
            state.decisions = {name: value for name, (_, _, value) in zip(names, self.decisions, strict=True)}
        if self.ended is not None:
            state.status = self.ended
        else:
            state.suspensions = list(self.waits.values())
            state.status = "suspended" if state.suspensions else "running"
        return state

    def new_frame(self, key: Any, payload: _Step, event: Event) -> Frame:
        """The next occurrence of a step, open under ``key``."""
        step_id = payload.step_id
        count = self.counts.get(step_id, 0) + 1
        self.counts[step_id] = count
        name = step_id if count == 1 else f"{step_id}#{count}"
        frame = Frame(name, step_id, event.branch, event.namespace, event, payload.call_id)
        if event.branch is not None:
            self.branched = True
        self.frames.append(frame)
        self.run(key, frame)
        return frame

    def run(self, key: Any, frame: Frame) -> None:
        """An occurrence is running under ``key``."""
        if key in self.open:
            self.queued.setdefault(key, []).append(frame)
        else:
            self.open[key] = frame

    def interrupt(self) -> None:
        """What runs may have to be started again: the process that ran it may be gone."""
        for key, frame in self.open.items():
            self.waiting.setdefault(key, []).extend([frame, *self.queued.get(key, ())])
        self.open.clear()
        self.queued.clear()

    def restarted(self, key: Any) -> Frame | None:
        """The oldest occurrence that waits for another try under ``key``; it is running now."""
        if not self.waiting.get(key):
            return None
        frame = self.waiting[key].pop(0)
        self.run(key, frame)
        return frame

    def running(self, key: Any, payload: _Step, event: Event) -> Frame:
        """The occurrence that an event under ``key`` tells about; one whose start was not recorded is new."""
        return self.open.get(key) or self.restarted(key) or self.new_frame(key, payload, event)

    def close(self, key: Any) -> None:
        """The oldest occurrence that runs under ``key`` is over; the next one comes up."""
        if key in self.queued:
            self.open[key] = self.queued[key].pop(0)
            if not self.queued[key]:
                del self.queued[key]
        else:
            del self.open[key]


def _eagerly(decoder: Callable[[msgspec.Raw], T], event: Event) -> T:
    """Decode a payload of a kind whose values do not stay raw."""
    check_depth(event.raw, event)
    return decoder(event.raw)


def _open_key(payload: _Step, event: Event) -> Any:
    """What tells occurrences apart that are open at the same time."""
    if payload.call_id is not None:
        return (payload.call_id, payload.step_id)
    if event.branch is None and event.namespace is None:
        return payload.step_id
    return (event.branch, event.namespace, payload.step_id)


def _step_started(fold: _Fold, event: Event) -> None:
    payload = _step(event.raw)
    key = _open_key(payload, event)
    frame = fold.restarted(key) if fold.waiting else None
    if frame is None:
        frame = fold.open.get(key)
        if frame is not None and not _is_restart(frame, payload):
            frame = None
    if frame is None:
        frame = fold.new_frame(key, payload, event)
        frame.attempts = payload.attempt or 1
    else:
        frame.attempts = max(frame.attempts + 1, payload.attempt or 0)
        frame.status = "running"
        frame.will_retry = False
    if payload.input is not ABSENT:
        frame.raw_input = payload.input
        frame.input_event = event


def _is_restart(frame: Frame, payload: _Step) -> bool:
    """Whether a start is another try of the occurrence that runs already, rather than a second one beside it."""
    if not frame.attempts or payload.call_id is not None:
        return True
    return payload.attempt is not None and payload.attempt > frame.attempts


def _step_completed(fold: _Fold, event: Event) -> None:
    payload = _step(event.raw)
    key = _open_key(payload, event)
    frame = _end_of_try(fold, key, payload, event)
    frame.status = "completed"
    frame.raw_output = payload.output
    frame.raw_error = ABSENT
    frame.will_retry = False
    fold.close(key)


def _step_failed(fold: _Fold, event: Event) -> None:
    payload = _step(event.raw)
    key = _open_key(payload, event)
    frame = _end_of_try(fold, key, payload, event)
    frame.status = "failed"
    frame.raw_error = _error(payload.error, event)
    frame.will_retry = payload.will_retry
    fold.close(key)
    if payload.will_retry:
        fold.waiting.setdefault(key, []).append(frame)


def _end_of_try(fold: _Fold, key: Any, payload: _Step, event: Event) -> Frame:
    frame = fold.open.get(key) or fold.running(key, payload, event)
    frame.event = event
    if not frame.attempts or frame.will_retry:  # the start of this try was not recorded
        frame.attempts += 1
    if payload.attempt is not None and payload.attempt > frame.attempts:
        frame.attempts = payload.attempt
    if payload.input is not ABSENT:
        frame.raw_input = payload.input
        frame.input_event = event
    return frame


def _step_progress(fold: _Fold, event: Event) -> None:
    payload = _step(event.raw)
    if payload.chunk is ABSENT:
        raise event.error("the payload of STEP_PROGRESS has no chunk")
    fold.running(_open_key(payload, event), payload, event).chunk_events.append(event)


def _tool_asked(fold: _Fold, event: Event) -> None:
    payload = _eagerly(_tool_requested, event)
    call = _new_call(fold, "tool", payload.call_id, payload.name, event)
    call.raw_args = payload.args
    call.approval = payload.approval
    call.tool_schema_version = payload.tool_schema_version


def _model_asked(fold: _Fold, event: Event) -> None:
    payload = _model_requested(event.raw)
    _new_call(fold, "model", payload.call_id, payload.model, event).raw_args = payload.request


def _new_call(fold: _Fold, kind: Literal["tool", "model"], call_id: str | int, name: str, event: Event) -> Call:
    call = fold.calls[kind, call_id] = Call(kind, call_id, name, event)
    fold.state.calls.append(call)
    return call


def _answered(kind: Literal["tool", "model"], status: Literal["completed", "failed"]) -> Callable[[_Fold, Event], None]:
    def handle(fold: _Fold, event: Event) -> None:
        payload = _answer(event.raw)
        call = fold.calls.get((kind, payload.call_id))
        if call is None:
            call = _new_call(fold, kind, payload.call_id, payload.name or payload.model, event)
        call.status = status
        call.event = event
        call.raw_output = payload.output if kind == "tool" else payload.response
        call.raw_error = _error(payload.error, event)
        call.raw_usage = payload.usage

    return handle


def _execution_started(fold: _Fold, event: Event) -> None:
    payload = _eagerly(_started, event)
    _set(fold, "_input", payload.input, event)
    fold.state.manifest = payload.manifest or {}


def _execution_suspended(fold: _Fold, event: Event) -> None:
    payload = _eagerly(_suspended, event)
    suspension = Suspension(
        on=payload.on,
        kind=payload.kind,
        correlation_key=None if payload.correlation_key is None else str(payload.correlation_key),
        timeout_ms=payload.timeout_ms,
        pending=payload.pending,
        sequence=event.sequence,
        branch=event.branch,
    )
    key = _wait_key(suspension)
    fold.waits.pop(key, None)  # recorded again by a flow that was re-run up to it: one wait, and the youngest
    if len(fold.waits) >= MAX_WAITS:
        raise event.error(f"more than {MAX_WAITS} waits are open at once")
    fold.waits[key] = suspension
    fold.ended = None


def _execution_resumed(fold: _Fold, event: Event) -> None:
    answered = _answered_wait(list(fold.waits.values()), _eagerly(_resumed, event))
    if answered is not None:
        del fold.waits[_wait_key(answered)]
    fold.interrupt()
    fold.ended = None


def _wait_key(wait: Suspension) -> tuple[Any, ...]:
    return (wait.on if isinstance(wait.on, str) else tuple(wait.on), wait.correlation_key, wait.branch)


def _answered_wait(waits: list[Suspension], payload: _Resumed) -> Suspension | None:
    """Which open wait a resume ends: by event and correlation key, a timeout by the wait that had one."""
    facts = payload.payload if isinstance(payload.payload, dict) else {}
    key = payload.correlation_key if payload.correlation_key is not None else facts.get("correlationKey")
    if key is not None:
        waits = [wait for wait in waits if wait.correlation_key == str(key)] or waits
    if payload.event_type == "TIMEOUT":
        fitting = next((wait for wait in waits if facts.get("on") in wait.events), None)
        fitting = fitting or next((wait for wait in waits if wait.timeout_ms is not None), None)
        is_any = True
    else:
        fitting = next((wait for wait in waits if payload.event_type in wait.events), None)
        is_any = payload.event_type is None or len(waits) == 1
    return fitting or (waits[0] if waits and is_any else None)


def _execution_migrated(fold: _Fold, event: Event) -> None:
    _migrated(event.raw)
    entry = event.payload
    entry.pop("stateMigrated", None)  # the fold's word, never the log's
    if "migratedInput" in entry:
        fold.state.raw_variables["_input"] = entry.pop("migratedInput")
        entry["stateMigrated"] = True
    fold.state.raw_variables.setdefault("_migrations", []).append(entry)


def _execution_forked(fold: _Fold, event: Event) -> None:
    _forked(event.raw)
    fold.state.raw_variables["_forked"] = event.payload


def _execution_completed(fold: _Fold, event: Event) -> None:
    _set(fold, "_output", _ended(event.raw).output, event)
    fold.ended = "completed"


def _execution_failed(fold: _Fold, event: Event) -> None:
    _set(fold, "_error", _error(_ended(event.raw).error, event), event)
    fold.ended = "failed"


def _execution_cancelled(fold: _Fold, event: Event) -> None:
    _set(fold, "_reason", _ended(event.raw).reason, event)
    fold.ended = "cancelled"


def _execution_continued(fold: _Fold, event: Event) -> None:
    payload = _continued(event.raw)
    fold.state.raw_variables["_continued_as"] = payload.new_execution_id
    _set(fold, "_continued_input", payload.input, event)
    fold.ended = "continued"


def _set(fold: _Fold, variable: str, raw: msgspec.Raw, event: Event) -> None:
    if raw is not ABSENT:
        fold.state.raw_variables[variable] = raw
        fold.state.variable_events[variable] = event


def _error(raw: msgspec.Raw, event: Event) -> msgspec.Raw:
    """The error of a failure, ``{"type", "message"}``. Raises LogError where it is no object."""
    if raw is not ABSENT and bytes(raw)[:1] not in (b"{", b"n"):
        raise event.error(f"the error of {event.event_type} is not an object")
    return raw


def _state_snapshot(fold: _Fold, event: Event) -> None:
    payload = _eagerly(_snapshot, event)
    fold.state.state, fold.state.state_schema_version = payload.state, payload.state_schema_version


def _plan_recorded(fold: _Fold, event: Event) -> None:
    payload = _eagerly(_plan, event)
    fold.state.plan, fold.state.plan_schema_version = payload.plan, payload.plan_schema_version


def _decision_recorded(fold: _Fold, event: Event) -> None:
    payload = _eagerly(_decision, event)
    fold.decisions.append((payload.key, event.branch, payload.value))


_HANDLERS: dict[str, Callable[[_Fold, Event], None]] = {
    "EXECUTION_STARTED": _execution_started,
    "EXECUTION_SUSPENDED": _execution_suspended,
    "EXECUTION_RESUMED": _execution_resumed,
    "EXECUTION_MIGRATED": _execution_migrated,
    "EXECUTION_FORKED": _execution_forked,
    "EXECUTION_CONTINUED": _execution_continued,
    "EXECUTION_COMPLETED": _execution_completed,
    "EXECUTION_FAILED": _execution_failed,
    "EXECUTION_CANCELLED": _execution_cancelled,
    "STEP_STARTED": _step_started,
    "STEP_PROGRESS": _step_progress,
    "STEP_COMPLETED": _step_completed,
    "STEP_FAILED": _step_failed,
    "TOOL_REQUESTED": _tool_asked,
    "TOOL_COMPLETED": _answered("tool", "completed"),
    "TOOL_FAILED": _answered("tool", "failed"),
    "MODEL_REQUESTED": _model_asked,
    "MODEL_COMPLETED": _answered("model", "completed"),
    "MODEL_FAILED": _answered("model", "failed"),
    "STATE_SNAPSHOT": _state_snapshot,
    "PLAN_RECORDED": _plan_recorded,
    "DECISION_RECORDED": _decision_recorded,
}
