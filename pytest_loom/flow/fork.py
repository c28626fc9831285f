"""Forks: what would the run have done, had the model or the human said otherwise? And one step's body, run again."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from pytest_loom.errors import LoomError, printable
from pytest_loom.evals.difference import Difference
from pytest_loom.evals.paths import Rules, format_path
from pytest_loom.evals.values import MISSING, walk
from pytest_loom.flow.asking import is_several
from pytest_loom.flow.definition import Step
from pytest_loom.flow.perform import StepInfo, awaited, step_info
from pytest_loom.flow.values import codec_for, encode, plain, why_not
from pytest_loom.log.event import Event, Log
from pytest_loom.log.schema import SCHEMA_VERSION, is_kernel_type
from pytest_loom.log.upcast import current_version

_ANSWERS = {
    "STEP_COMPLETED": "output",
    "TOOL_COMPLETED": "output",
    "MODEL_COMPLETED": "response",
    "DECISION_RECORDED": "value",
    "EXECUTION_RESUMED": "payload",
}
_ENDS = ("EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED", "EXECUTION_CONTINUED")


def fork(
    log: Log,
    at_sequence: int,
    *,
    answer: Any = MISSING,
    execution_id: str | None = None,
    confirmed_by: str | None = None,
) -> Log:
    """A new run that shares the history of ``log`` up to and including event ``at_sequence``.

    ``answer`` replaces what that event answered (a step's output, a tool's, a model's response, a decision, the payload
    that came through a gate; a failure becomes this answer). ``resume(fork, flow)`` then says what the run would have
    done; ``replay`` says it as far as no new effect is needed. The given log is not changed.

    Raises LoomError where there is no such event, where the run was over by it, and where it has no answer to replace.
    """
    if isinstance(at_sequence, bool) or not isinstance(at_sequence, int) or not 1 <= at_sequence <= len(log.events):
        raise _error(log, f"there is no event {at_sequence!r}: the log has events 1 to {len(log.events)}")
    events = list(log.events[:at_sequence])
    last = events[-1]
    if last.event_type in _ENDS:
        raise _error(log, f"the run was over by event {at_sequence}, so nothing can follow it", "Fork before its end.")
    if answer is not MISSING:
        events = _answered(log, events, plain(answer, f"the answer at event {at_sequence}"))
    identity = execution_id or uuid.uuid4().hex
    if identity == log.execution_id:
        raise _error(log, "a fork is another execution, so it needs another id")
    events = [
        msgspec.structs.replace(event, execution_id=identity, sequence=index, path="", line=0)
        for index, event in enumerate(events, 1)
    ]
    said = {"parentExecutionId": log.execution_id, "atSequence": at_sequence}
    if confirmed_by is not None:
        said["confirmedBy"] = confirmed_by
    events.append(
        Event(
            execution_id=identity,
            workflow_id=log.workflow_id,
            sequence=len(events) + 1,
            timestamp=last.timestamp,
            event_type="EXECUTION_FORKED",
            schema_version=SCHEMA_VERSION,
            event_version=current_version("EXECUTION_FORKED"),
            raw=msgspec.Raw(encode(said)),
        )
    )
    return Log(events, engine=log.engine)


async def afork(
    log: Log,
    at_sequence: int,
    *,
    answer: Any = MISSING,
    execution_id: str | None = None,
    confirmed_by: str | None = None,
) -> Log:
    """``fork`` for async code."""
    return fork(log, at_sequence, answer=answer, execution_id=execution_id, confirmed_by=confirmed_by)


def _answered(log: Log, events: list[Event], answer: Any) -> list[Event]:
    """The events with the last one's answer replaced; a gate's stands in two events."""
    last = events[-1]
    kind = last.event_type
    if not is_kernel_type(kind) and len(log.events) > len(events):
        following = log.events[len(events)]
        if following.event_type == "EXECUTION_RESUMED":
            events.append(following)
            return _answered(log, events, answer)
    if kind in ("STEP_FAILED", "TOOL_FAILED", "MODEL_FAILED"):
        kind = kind.replace("FAILED", "COMPLETED")
    field = _ANSWERS.get(kind)
    if field is None:
        raise _error(
            log,
            f"event {last.sequence} is {printable(last.event_type)}, which has no answer to replace",
            f"Events with an answer are {', '.join(_ANSWERS)}.",
        )
    payload = last.payload
    for name in ("error", "willRetry", "attempt"):
        if last.event_type.endswith("FAILED"):
            payload.pop(name, None)
    payload[field] = answer
    events[-1] = msgspec.structs.replace(last, event_type=kind, raw=msgspec.Raw(encode(payload)))
    if kind == "EXECUTION_RESUMED" and len(events) > 1 and events[-2].event_type == payload.get("eventType"):
        own = answer if isinstance(answer, dict) else {"value": answer}
        events[-2] = msgspec.structs.replace(events[-2], raw=msgspec.Raw(encode(own)))
    return events


def _error(log: Log, what: str, hint: str = "") -> LoomError:
    return LoomError(what, path=log.path, execution_id=log.execution_id, hint=hint)


def rerun_step(log: Log, key: str, step: Step[..., Any]) -> list[Difference]:
    """Run one step's real body on its recorded input, and compare with its recorded output; [] means the same.

    ``key`` is the step's key in the log (``assess``, ``poll#2``). The body runs live: this is what shows a changed
    body, which replay never runs. Raises LoomError where the log has no such step, or its input does not fit.
    """
    args, kwargs = _recorded_arguments(log, key, step)
    with _as_recorded(log, key):
        value = step.fn(*args, **kwargs)
        value = asyncio.run(awaited(lambda: value)) if inspect.isawaitable(value) else value
        if step.is_stream:
            value = list(islice(value, _read(log, key)))
    return _compared(log, key, step, value)


def _read(log: Log, key: str) -> int | None:
    """How many pieces of a stream the recorded run read where it gave it up early, else None: all."""
    frame = log.state.frames[key]
    output = frame.output
    return len(output) if frame.event.payload.get("closed") is True and isinstance(output, list) else None


@contextlib.contextmanager
def _as_recorded(log: Log, key: str) -> Iterator[None]:
    """``current_step()`` is what it was when the step was recorded."""
    frame = log.state.frames[key]
    token = step_info.set(StepInfo(key, frame.attempts, frame.idempotency_key or ""))
    try:
        yield
    finally:
        step_info.reset(token)


async def arerun_step(log: Log, key: str, step: Step[..., Any]) -> list[Difference]:
    """``rerun_step`` for async code."""
    args, kwargs = _recorded_arguments(log, key, step)
    with _as_recorded(log, key):
        value = step.fn(*args, **kwargs)
        if step.is_async_stream:
            found: list[Any] = []
            count, over = _read(log, key), object()
            async with contextlib.aclosing(value) as pieces:
                while len(found) != count and (piece := await anext(pieces, over)) is not over:
                    found.append(piece)
            value = found
        value = await value if inspect.isawaitable(value) else value
        if step.is_stream:
            value = list(islice(value, _read(log, key)))
    return _compared(log, key, step, value)


def _recorded_arguments(log: Log, key: str, step: Step[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    frame = log.state.frames.get(key)
    if frame is None:
        names = ", ".join(map(printable, list(log.state.frames)[:10]))
        raise _error(log, f"no step {printable(key)} was recorded", f"The log has {names}.")
    if frame.status != "completed":
        raise _error(log, f"step {printable(key)} did not complete, so there is no output to compare with")
    given = frame.input
    if frame.input_event is None:
        args, kwargs = [], {}
    elif is_several(given):
        args, kwargs = given["args"], given["kwargs"]
    else:
        args, kwargs = [given], {}
    try:
        bound = step.signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if step.signature.parameters[name].kind in (
                inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.VAR_KEYWORD,
            ):
                continue
            bound.arguments[name] = codec_for(step.annotation(name), f"step {step.id}: {name}").load(value)
    except (TypeError, ValueError) as problem:
        why = why_not(problem) if isinstance(problem, ValueError) else str(problem)
        raise _error(log, f"the recorded input of step {printable(key)} does not fit today's: {why}") from None
    return list(bound.args), dict(bound.kwargs)


def _compared(log: Log, key: str, step: Step[..., Any], value: Any) -> list[Difference]:
    today = [step.output.dump(piece) for piece in value] if step.is_stream else step.output.dump(value)
    recorded = log.state.frames[key].output
    return [
        Difference("step-output", key, format_path(path), was, now)
        for path, was, now in walk(recorded, today, Rules(), None)
    ]
