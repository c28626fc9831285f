"""Which of today's flows a saved run belongs to: its own word, the only flow that fits, the only one there is."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import check_resume, simulate_deploy
from pytest_loom.log.event import Log, LogBuilder


def waiting(*agents: str, flows: Any = ("refunds", "support")) -> Log:
    """A run of a checkpoint engine that went through ``agents`` and waits."""
    builder = LogBuilder("run-1", "refunds")
    manifest = {"agents": list(agents), "flows": list(flows)}
    builder.add("EXECUTION_STARTED", {"input": 1, "manifest": manifest}, timestamp=0)
    for agent in agents:
        builder.add("STEP_STARTED", {"stepId": agent}, timestamp=0)
    builder.add("EXECUTION_SUSPENDED", {"on": "ToolApproval", "kind": "approval", "pending": []}, timestamp=0)
    return builder.log(source="elsewhere", engine="checkpoint")


def flow(*agents: str) -> dict[str, Any]:
    """A flow of agents."""
    return {
        "workflowId": agents[0],
        "engine": "checkpoint",
        "steps": {name: {} for name in agents},
        "agents": {name: {"tools": {}, "handoffs": {}} for name in agents},
    }


DESK, TILL = flow("desk", "clerk"), flow("till")


@pytest.mark.parametrize(
    ("log", "flows", "codes"),
    [
        (waiting("desk"), {"refunds": DESK, "x": TILL}, []),
        (waiting("desk", flows=["nobody", "y"]), {"y": DESK, "x": TILL}, []),
        (waiting("desk", "clerk"), {"a": DESK, "b": TILL}, []),
        (waiting("desk", "gone"), {"a": DESK, "b": TILL}, ["frontier-missing"]),
        (waiting("gone"), {"a": DESK}, ["frontier-missing"]),
        (waiting("gone"), {"a": DESK, "b": TILL}, ["frontier-missing", "flow-ambiguous"]),
        (waiting("desk"), {"a": DESK, "b": DESK}, ["flow-ambiguous"]),
        (waiting("desk"), {}, ["flow-missing"]),
        (waiting("desk"), lambda name: None, ["flow-missing"]),
    ],
    ids=["its-id", "its-word", "fits-best", "fits-best-but", "only-one", "none-fits", "two-fit", "none", "not-listed"],
)
def test_which_flow(log: Log, flows: Any, codes: list[str]) -> None:
    """A run is judged beside the flow that it belongs to; where that cannot be told it is said, and nothing guessed."""
    report = simulate_deploy(log, flows)
    assert [found.code for found in report.findings if found.code != "suspended-carryover"] == codes
    assert [found.code for found in check_resume(log, flows).findings if found.code != "suspended-carryover"] == codes


def test_ambiguity_is_a_warning() -> None:
    """It does not fail a simulation where the run may be fine."""
    report = simulate_deploy(waiting("desk"), {"a": DESK, "b": DESK})
    assert report.ok
    assert "a, b" in report.findings[-1].message


def test_findings_name_the_flow_that_it_is_registered_as() -> None:
    """The report speaks of today's flow."""
    assert {found.workflow_id for found in simulate_deploy(waiting("gone"), {"a": DESK}).findings} == {"a"}


def test_a_journal_is_known_by_its_id_alone() -> None:
    """A flow whose code is run again is never guessed."""
    builder = LogBuilder("run-1", "refunds")
    builder.add("EXECUTION_STARTED", {"input": 1, "manifest": {"agents": ["desk"]}}, timestamp=0)
    report = simulate_deploy(builder.log(), {"a": DESK})
    assert [found.code for found in report.findings] == ["flow-missing"]
