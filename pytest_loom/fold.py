"""Folding: what a log says happened, as one ExecutionState (DESIGN section 4, ADR 0008 and 0056).

Pure and deterministic: no clock, no call, no import on the log's word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.log.event import UNDECODABLE, Event, Log, check_depth, check_places, unknown_kind
from pytest_loom.log.payloads import (
    ABSENT,
    Resumed,
    Step,
    read_answer,
    read_continued,
    read_decision,
    read_ended,
    read_forked,
    read_migrated,
    read_model_requested,
    read_plan,
    read_resumed,
    read_snapshot,
    read_started,
    read_step,
    read_suspended,
    read_tool_requested,
)
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.log.upcast import upcast_events
from pytest_loom.state import Call, ExecutionState, Frame, Status, Suspension

T = TypeVar("T")

MAX_WAITS = 5_000
"""How many waits one run may have open at once: each resume looks through them."""

MANY = 100
"""With more steps than this under way at once, a step's events belong together by their fields alone: no log may make
each of its events look through all that is open."""


def replay_as_fixture(log: Log) -> ExecutionState:
    """Fold a recorded log back into its state, with no live call (ADR 0008).

    Identity is seeded from the first envelope; events of older versions are upcast on the way, and the log itself stays
    as recorded. Raises LogError where a payload does not have its kind's shape, UpcastError where an event cannot be
    upcast, and UnknownSchemaVersion for a version newer than today's and for a kernel kind that this version does not
    know, unless it is marked ignorable.
    """
    check_places(log.events)
    events = upcast_events(log.events)
    fold = _Fold(events[0])
    handlers = _HANDLERS
    event = events[0]
    try:
        for event in events:
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
        raise event.misshapen(problem) from None
    return fold.finish(events)


def frames_told(log: Log) -> dict[int, Frame]:
    """By its sequence, each event that tells about an occurrence of a step: that occurrence, as it came to be.

    Raises what ``replay_as_fixture`` raises.
    """
    replay_as_fixture(log)
    events = upcast_events(log.events)
    fold = _Fold(events[0])
    told: dict[int, Frame] = {}
    for event in events:
        handler = _HANDLERS.get(event.event_type)
        frame = None if handler is None else handler(fold, event)
        if frame is not None:
            told[event.sequence] = frame
    fold.finish(events)
    return told


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
        self.every_wait: dict[int, Suspension] = {}  # by sequence, answered ones too
        self.ended: Status | None = None

    def finish(self, events: Sequence[Event]) -> ExecutionState:
        state = self.state
        last = events[-1]
        state.last_event = last
        state.sequence = last.sequence
        state.events = len(events)
        state.frames = {frame.key: frame for frame in self.frames}
        if self.branched or len(state.frames) != len(self.frames):
            keys = occurrence_keys([(frame.step_id, frame.branch) for frame in self.frames])
            for key, frame in zip(keys, self.frames, strict=True):
                frame.key = key
            state.frames = {frame.key: frame for frame in self.frames}
        if self.decisions:
            names = occurrence_keys([(key, branch) for key, branch, _ in self.decisions])
            state.decisions = {name: value for name, (_, _, value) in zip(names, self.decisions, strict=True)}
        state.waits = list(self.every_wait.values())
        if self.ended is not None:
            state.status = self.ended
        else:
            state.suspensions = list(self.waits.values())
            state.status = "suspended" if state.suspensions else "running"
        return state

    def new_frame(self, key: Any, payload: Step, event: Event) -> Frame:
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
        if key not in self.waiting:
            return None
        frame = self.waiting[key].pop(0)
        self.forget_if_empty(key)
        self.run(key, frame)
        return frame

    def forget_if_empty(self, key: Any) -> None:
        """Drop a key under which nothing waits any more: what is looked through is what really waits."""
        if not self.waiting[key]:
            del self.waiting[key]

    def retried(self, payload: Step, event: Event) -> Frame | None:
        """The failed occurrence that a start under a new call id tries again, unless it says that it is a first try."""
        if payload.call_id is None or payload.attempt == 1 or len(self.waiting) > MANY:
            return None
        for key, frames in self.waiting.items():
            for frame in frames[:MANY]:
                if (
                    frame.will_retry
                    and frame.step_id == payload.step_id
                    and frame.branch == event.branch
                    and frame.namespace == event.namespace
                ):
                    frames[:] = [other for other in frames if other is not frame]
                    self.forget_if_empty(key)
                    self.run(_open_key(payload, event), frame)
                    frame.call_id = payload.call_id
                    return frame
        return None

    def key_of_end(self, payload: Step, event: Event) -> Any:
        """The key of the occurrence that an event tells about, though one of the two left an optional field unsaid."""
        key = _open_key(payload, event)
        if key in self.open or key in self.waiting or len(self.open) > MANY:
            return key
        similar = [
            other
            for other, frame in self.open.items()
            if frame.step_id == payload.step_id
            and _may_be(frame.call_id, payload.call_id)
            and _may_be(frame.branch, event.branch)
            and _may_be(frame.namespace, event.namespace)
        ]
        return similar[0] if len(similar) == 1 else key

    def running(self, key: Any, payload: Step, event: Event) -> Frame:
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


def _open_key(payload: Step, event: Event) -> Any:
    """What tells occurrences apart that are open at the same time."""
    if payload.call_id is not None:
        return (payload.call_id, payload.step_id)
    if event.branch is None and event.namespace is None:
        return payload.step_id
    return (event.branch, event.namespace, payload.step_id)


def _may_be(one: object, other: object) -> bool:
    return one is None or other is None or one == other


def _step_started(fold: _Fold, event: Event) -> Frame:
    payload = read_step(event.raw)
    key = _open_key(payload, event)
    frame = (fold.restarted(key) or fold.retried(payload, event)) if fold.waiting else None
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
    frame.idempotency_key = payload.idempotency_key
    if payload.input is not ABSENT:
        frame.raw_input = payload.input
        frame.input_event = event
    return frame


def _is_restart(frame: Frame, payload: Step) -> bool:
    """Whether a start is another try of the occurrence that runs already, rather than a second one beside it."""
    if not frame.attempts or payload.call_id is not None:
        return True
    if payload.idempotency_key is not None and payload.idempotency_key == frame.idempotency_key:
        return True
    return payload.attempt is not None and payload.attempt > frame.attempts


def _step_completed(fold: _Fold, event: Event) -> Frame:
    payload = read_step(event.raw)
    key = _open_key(payload, event)
    if key not in fold.open:
        key = fold.key_of_end(payload, event)
    frame = _end_of_try(fold, key, payload, event)
    frame.status = "completed"
    frame.raw_output = payload.output
    frame.raw_error = ABSENT
    frame.will_retry = False
    fold.close(key)
    return frame


def _step_failed(fold: _Fold, event: Event) -> Frame:
    payload = read_step(event.raw)
    key = fold.key_of_end(payload, event)
    frame = _end_of_try(fold, key, payload, event)
    frame.status = "failed"
    frame.raw_error = _error(payload.error, event)
    frame.will_retry = bool(payload.will_retry)
    fold.close(key)
    if payload.will_retry:
        fold.waiting.setdefault(key, []).append(frame)
    return frame


def _end_of_try(fold: _Fold, key: Any, payload: Step, event: Event) -> Frame:
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


def _step_progress(fold: _Fold, event: Event) -> Frame:
    payload = read_step(event.raw)
    if payload.chunk is ABSENT:
        raise event.error("the payload of STEP_PROGRESS has no chunk")
    frame = fold.running(fold.key_of_end(payload, event), payload, event)
    frame.chunk_events.append(event)
    return frame


def _tool_asked(fold: _Fold, event: Event) -> None:
    payload = _eagerly(read_tool_requested, event)
    call = _new_call(fold, "tool", payload.call_id, payload.name, event)
    call.raw_args = payload.args
    call.approval = payload.approval
    call.tool_schema_version = payload.tool_schema_version


def _model_asked(fold: _Fold, event: Event) -> None:
    payload = read_model_requested(event.raw)
    _new_call(fold, "model", payload.call_id, payload.model, event).raw_args = payload.request


def _new_call(fold: _Fold, kind: Literal["tool", "model"], call_id: str | int, name: str, event: Event) -> Call:
    call = fold.calls[kind, call_id] = Call(kind, call_id, name, event)
    fold.state.calls.append(call)
    return call


def _answered(kind: Literal["tool", "model"], status: Literal["completed", "failed"]) -> Callable[[_Fold, Event], None]:
    def handle(fold: _Fold, event: Event) -> None:
        payload = read_answer(event.raw)
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
    payload = _eagerly(read_started, event)
    _set(fold, "_input", payload.input, event)
    fold.state.manifest = payload.manifest or {}


def _execution_suspended(fold: _Fold, event: Event) -> None:
    payload = _eagerly(read_suspended, event)
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
    again = fold.waits.pop(key, None)  # recorded again by a flow that was re-run up to it: one wait, and the youngest
    if again is not None:
        del fold.every_wait[again.sequence]
    if len(fold.waits) >= MAX_WAITS:
        raise event.error(f"more than {MAX_WAITS} waits are open at once")
    fold.waits[key] = suspension
    fold.every_wait[event.sequence] = suspension
    fold.ended = None


def _execution_resumed(fold: _Fold, event: Event) -> None:
    waits = list(fold.waits.values())
    if event.branch is not None:
        waits = [wait for wait in waits if wait.branch == event.branch] or waits
    payload = _eagerly(read_resumed, event)
    answered = _answered_wait(waits, payload)
    if answered is not None:
        del fold.waits[_wait_key(answered)]
        fold.state.answered = None if payload.event_type == "TIMEOUT" else (answered, event.sequence)
    fold.interrupt()
    fold.ended = None


def _wait_key(wait: Suspension) -> tuple[Any, ...]:
    """What tells open waits apart: two calls that wait for the same event are two waits."""
    pending = wait.pending if isinstance(wait.pending, list) else [wait.pending]
    calls = tuple(str(call["callId"]) for call in pending if isinstance(call, dict) and "callId" in call)
    return (wait.on if isinstance(wait.on, str) else tuple(wait.on), wait.correlation_key, wait.branch, calls)


def _answered_wait(waits: list[Suspension], payload: Resumed) -> Suspension | None:
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
    read_migrated(event.raw)
    entry = event.payload
    entry.pop("stateMigrated", None)  # the fold's word, never the log's
    if "migratedInput" in entry:
        fold.state.raw_variables["_input"] = entry.pop("migratedInput")
        entry["stateMigrated"] = True
    fold.state.raw_variables.setdefault("_migrations", []).append(entry)


def _execution_forked(fold: _Fold, event: Event) -> None:
    read_forked(event.raw)
    fold.state.raw_variables["_forked"] = event.payload


def _execution_completed(fold: _Fold, event: Event) -> None:
    _set(fold, "_output", read_ended(event.raw).output, event)
    fold.ended = "completed"


def _execution_failed(fold: _Fold, event: Event) -> None:
    _set(fold, "_error", _error(read_ended(event.raw).error, event), event)
    fold.ended = "failed"


def _execution_cancelled(fold: _Fold, event: Event) -> None:
    _set(fold, "_reason", read_ended(event.raw).reason, event)
    fold.ended = "cancelled"


def _execution_continued(fold: _Fold, event: Event) -> None:
    payload = read_continued(event.raw)
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
    payload = _eagerly(read_snapshot, event)
    fold.state.state, fold.state.state_schema_version = payload.state, payload.state_schema_version


def _plan_recorded(fold: _Fold, event: Event) -> None:
    payload = _eagerly(read_plan, event)
    fold.state.plan, fold.state.plan_schema_version = payload.plan, payload.plan_schema_version


def _decision_recorded(fold: _Fold, event: Event) -> None:
    payload = _eagerly(read_decision, event)
    fold.decisions.append((payload.key, event.branch, payload.value))


_HANDLERS: dict[str, Callable[[_Fold, Event], Frame | None]] = {
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
