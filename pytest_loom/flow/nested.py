"""Steps that run steps of their own, and sub-flows: effects that hold effects, recorded under a namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pytest_loom.errors import FlowError, RecordingError
from pytest_loom.flow.branches import Branch
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.failures import error_payload
from pytest_loom.flow.history import Effect
from pytest_loom.flow.perform import Asked, aenter, aperform, enter, replay_start
from pytest_loom.flow.run import Run
from pytest_loom.flow.turns import Parked, Stop
from pytest_loom.flow.values import encode
from pytest_loom.log.event import Event


def nested_key(branch: Branch, name: str) -> str:
    """The key under which the effects inside the next occurrence of a step or sub-flow are recorded."""
    count = branch.counts.get(f"{name}/", 0) + 1
    branch.counts[f"{name}/"] = count
    return name if count == 1 else f"{name}#{count}"


def answered_whole(branch: Branch, inner: Branch, asked: Asked) -> bool:
    """Whether the next recorded effect answers a step that ran steps; those count as asked for then."""
    effects, position = branch.effects, branch.position
    if position >= len(effects) or effects[position].outcome == "open":
        return False
    history = branch.run.history
    if history is None or effects[position].name != asked.name:
        return position < len(effects)
    within: list[Event] = []
    for nested in history.within(inner.place[0]):
        branch.run.skip(nested)
        within.extend(event for effect in nested for event in effect.events)
    if branch.run.replaying and within:  # they come between its start and its end in the candidate
        branch.run.shuffled = True  # where other branches go on meanwhile
        whole = effects[position]
        whole.between = sorted([*(whole.between or ()), *within], key=lambda event: event.sequence)
    return True


async def run_nested(branch: Branch, inner: Branch, asked: Asked, body: Callable[[], Any]) -> Any:
    """A step that runs steps: from the log as a whole, else its body is entered."""
    if answered_whole(branch, inner, asked):
        return await aperform(branch, asked, body)
    run = branch.run
    effect = run.take(branch, asked.kind, asked.name, asked.request, asked.again)
    if run.replaying:
        if effect is None:
            await run.park(branch, None, None)
        assert effect is not None
        replay_start(run, branch, effect, asked)
        return await body()
    return await aenter(branch, asked, effect, body)


def run_nested_sync(branch: Branch, asked: Asked, body: Callable[[], Any]) -> Any:
    """The same for sync code."""
    run = branch.run
    effect = run.take(branch, asked.kind, asked.name, asked.request, asked.again)
    if run.replaying:
        if effect is None:
            run.note_wait(branch, None, None)
            raise Parked
        replay_start(run, branch, effect, asked)
        return body()
    return enter(branch, asked, effect, body)


def subflow_asked(flow: Flow[..., Any], request: bytes) -> Asked:
    """What a sub-flow is asked: as for a step."""
    return Asked("step", flow.id, request, flow.output.load_raw, flow.output.dump)


def begin_subflow(run: Run, branch: Branch, asked: Asked) -> Effect | None:
    """A sub-flow begins: matched in what was recorded, else recorded."""
    effect = run.take(branch, asked.kind, asked.name, asked.request, asked.again)
    if effect is not None:
        if run.replaying:
            replay_start(run, branch, effect, asked)
        if effect.order >= 0:
            run.gave(effect)
        return effect
    if not run.replaying:
        said = {"input": msgspec.Raw(asked.canonical)} if asked.canonical else {}
        run.recorder.emit(("STEP_STARTED", {"stepId": asked.name, **said, "attempt": 1}, branch.place))
    return None


def end_subflow(
    run: Run,
    branch: Branch,
    asked: Asked,
    effect: Effect | None,
    *,
    value: Any = None,
    problem: Exception | None = None,
) -> Any:
    """A sub-flow is over: what it gave is recorded, by today's code also where it was recorded before."""
    if run.stopping:
        raise Stop
    if problem is not None:
        event_type, said = "STEP_FAILED", {"error": error_payload(problem), "attempt": 1, "willRetry": False}
    else:
        try:
            raw = encode(asked.dump(value))
        except (RecordingError, FlowError) as error:
            run.fail(error)
            raise Stop from None
        event_type, said = "STEP_COMPLETED", {"output": msgspec.Raw(raw)}
    if effect is None or effect.outcome == "open":
        run.recorder.emit((event_type, {"stepId": asked.name, **said}, branch.place))
    elif run.replaying and effect.end is not None:
        same = (
            event_type == "STEP_COMPLETED"
            and effect.outcome == "completed"
            and run.recorder.scrubbed(raw) == effect.output
        )
        if same or (problem is not None and effect.outcome == "failed" and encode(said["error"]) == effect.output):
            run.recorder.events.append(effect.end)
        else:
            run.recorder.emit((event_type, {"stepId": asked.name, **said}, branch.place))
    if problem is not None:
        return None
    return asked.load(raw)
