"""A thread that waits for a person, left by last week's graph (returns_v1), on today's (returns).

Optional: skipped where LangGraph is not installed. ``python make_returns.py`` leaves the thread anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_loom import simulate_deploy

pytest.importorskip("langgraph", reason="needs the extra: pip install pytest-loom[langgraph]")

from returns.graph import State, decide, graph, graph_with

STORE = Path(__file__).parent / "logs" / "returns" / "returns.sqlite"


def test_today_may_be_deployed() -> None:
    """A node that is done may have another name, and what comes later may be more."""
    report = simulate_deploy(STORE, {"returns": graph})
    assert {found.code for found in report.findings} == {"suspended-carryover"}
    assert report.ok


def test_another_name_for_the_waiting_node_may_not() -> None:
    """The answer would reach nobody, and the thread would look finished."""
    report = simulate_deploy(STORE, {"returns": graph_with(decide, name="ask")})
    (found,) = (one for one in report.findings if one.severity == "breaking")
    assert (found.code, found.step, found.execution_id) == ("frontier-missing", "decide", "return-17")
    assert not report.ok


def test_a_dropped_question_may_not() -> None:
    """Structure does not show it: a shadow resume runs the node once, apart, and it asks nobody any more."""

    def decide(state: State) -> State:
        return {"approved": state["cents"] < 5000}

    report = simulate_deploy(STORE, {"returns": graph_with(decide)})
    (found,) = (one for one in report.findings if one.severity == "breaking")
    assert (found.code, found.step) == ("approval-bypassed", "decide")
