"""A saved run replayed on today's agent: recorded answers, no model, no tool, nothing live."""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import areplay, diff_runs, load_log, replay
from pytest_loom.errors import ReplayDivergence, Unsupported
from pytest_loom.flow.saved import replay_saved, replays
from pytest_loom.log.event import Log

pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")
changes: Any = importlib.import_module("agent_changes")


def log_of(state: Any, folder: Path) -> Log:
    """The log of a state."""
    path = folder / "ticket-1.json"
    path.write_text(json.dumps(state))
    return load_log(path)


def waiting(name: str, folder: Path) -> tuple[Any, Log]:
    """A change, and the run that waits for it."""
    one = next(one for one in changes.CHANGES if one.name == name)
    log = log_of(changes.save(one), folder)
    changes.EFFECTS.clear()
    return one, log


def finished(name: str, folder: Path) -> tuple[Any, Log]:
    """A change, and its run finished on the old code."""
    one = next(one for one in changes.CHANGES if one.name == name)

    async def run() -> Any:
        result = await changes.sdk.Runner.run(one.old(), "order A-17")
        while result.interruptions:
            state = result.to_state()
            for item in state.get_interruptions():
                state.approve(item)
            result = await changes.sdk.Runner.run(one.old(), state)
        return result.to_state().to_json()

    log = log_of(asyncio.run(run()), folder)
    changes.EFFECTS.clear()
    return one, log


@pytest.mark.parametrize("name", ["words", "line-same", "line-object", "two-wait", "optional-strict", "approval-rule"])
@pytest.mark.parametrize("made", [waiting, finished])
def test_the_same_agent_does_the_same(made: Any, name: str, tmp_path: Path) -> None:
    """A replay on the code that wrote the run is equal to it, up to its wait or its end, and nothing runs."""
    one, log = made(name, tmp_path)
    start = one.old()
    models = [agent.model for agent in (start, *start.handoffs)]
    assert replays(log, start)
    candidate = replay_saved(log, start)
    assert diff_runs(log, candidate, compare="all") == []
    assert candidate.state.status == log.state.status
    assert changes.EFFECTS == []
    assert [agent.model for agent in (start, *start.handoffs)] == models  # and the agent is as it was


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tool-gone", "not found"),
        ("approval-dropped", "runs pay"),
        ("line-cut", "not found"),
        ("handoff-waits-gone", "not found"),
    ],
)
def test_a_changed_agent_diverges(name: str, says: str, tmp_path: Path) -> None:
    """A tool or a handoff that is gone, and a call that would run unasked, are divergences; nothing runs."""
    one, log = waiting(name, tmp_path)
    with pytest.raises(ReplayDivergence, match=says):
        replay_saved(log, one.new())
    assert changes.EFFECTS == []


def test_in_async_code(tmp_path: Path) -> None:
    """It may be called where a loop is running."""
    one, log = waiting("words", tmp_path)

    async def test() -> Log:
        return replay_saved(log, one.new())

    assert diff_runs(log, asyncio.run(test()), compare="all") == []


def test_it_is_what_replay_does(tmp_path: Path) -> None:
    """``replay`` and ``areplay`` take a saved run and today's agent; going on after a divergence is refused."""
    one, log = waiting("words", tmp_path)
    assert diff_runs(log, replay(log, one.new()), compare="all") == []
    assert diff_runs(log, asyncio.run(areplay(log, one.new())), compare="all") == []
    with pytest.raises(Unsupported):
        replay(log, one.new(), on_divergence="record")


def test_a_run_inside_a_tool_is_refused(tmp_path: Path) -> None:
    """The answers of an agent that works as a tool are in a run of its own."""
    one, log = waiting("nested-same", tmp_path)
    with pytest.raises(Unsupported):
        replay_saved(log, one.new())
