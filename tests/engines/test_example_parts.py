"""The optional parts of example_project, where their engine is installed: green, and made by last week's code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pytest_loom import load_log
from pytest_loom.flow.normal import same_recording
from tests.test_example_project import EXAMPLE, Project

AGENTS = pytest.mark.skipif(
    importlib.util.find_spec("agents") is None, reason="needs pip install pytest-loom[openai-agents]"
)
LANGGRAPH = pytest.mark.skipif(
    importlib.util.find_spec("langgraph") is None, reason="needs pip install pytest-loom[langgraph]"
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The example, free to be changed."""
    return Project(tmp_path)


@AGENTS
def test_waiting_tickets(project: Project) -> None:
    """The tests of the tickets run and pass; with the change that their simulation calls breaking they do not."""
    run = project.pytest("-k", "test_agents")
    assert run.returncode == 0, run.stdout
    assert "3 passed" in run.stdout
    project.change("tickets/desk.py", "cents: int,", "amount: int = 0,")
    run = project.pytest("-k", "test_today_may_be_deployed")
    assert run.returncode == 1
    assert "tool-args" in run.stdout


@AGENTS
def test_the_ticket_is_made_anew(project: Project, tmp_path: Path) -> None:
    """Last week's code saves what is committed as the ticket that waits."""
    run = project.python("make_tickets.py", str(tmp_path / "made"), folder=project.path)
    assert run.returncode == 0, run.stderr
    committed = EXAMPLE / "tests" / "logs" / "tickets" / "ticket-17.json"
    assert same_recording(load_log(tmp_path / "made" / "ticket-17.json"), load_log(committed))


@LANGGRAPH
def test_waiting_returns(project: Project) -> None:
    """The tests of the returns run and pass; with a question that is not asked any more they do not."""
    run = project.pytest("-k", "test_graph")
    assert run.returncode == 0, run.stdout
    assert "3 passed" in run.stdout
    project.change("returns/graph.py", 'interrupt({"refund": state["order"], "cents": state["cents"]})', "True")
    run = project.pytest("-k", "test_graph and test_today_may_be_deployed")
    assert run.returncode == 1
    assert "approval-bypassed" in run.stdout


@LANGGRAPH
def test_the_store_is_made_anew(project: Project, tmp_path: Path) -> None:
    """Last week's graph leaves the same thread waiting as the committed store has, ids and times aside."""
    run = project.python("make_returns.py", str(tmp_path / "made"), folder=project.path)
    assert run.returncode == 0, run.stderr
    stores = (tmp_path / "made" / "returns.sqlite", EXAMPLE / "tests" / "logs" / "returns" / "returns.sqlite")
    made, committed = (load_log(store).state for store in stores)
    assert (made.status, made.execution_id, made.state) == ("suspended", "return-17", committed.state)
    assert made.suspension is not None
    assert committed.suspension is not None
    assert made.suspension.pending["question"] == committed.suspension.pending["question"]
