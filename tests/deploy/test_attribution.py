"""Runs whose record names no flow: whose they are, when that can be told, and that it is said when it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import check_resume, simulate_deploy
from pytest_loom.log.event import Log, LogBuilder

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}


def waiting(*used: str, workflow_id: str = "unknown") -> Log:
    """A run that called tools and waits for the last of them."""
    builder = LogBuilder("run-1", workflow_id, path="run-1.json")
    builder.add("EXECUTION_STARTED", {"manifest": {"framework": "pydantic_ai"}}, timestamp=0)
    for number, name in enumerate(used):
        builder.add("TOOL_REQUESTED", {"callId": f"c{number}", "name": name, "args": {"x": 1}}, timestamp=0)
        if number < len(used) - 1:
            builder.add("TOOL_COMPLETED", {"callId": f"c{number}", "name": name, "output": ""}, timestamp=0)
    pending = [{"callId": f"c{len(used) - 1}", "name": used[-1], "args": {"x": 1}}]
    builder.add(
        "EXECUTION_SUSPENDED", {"on": "DeferredToolResults", "kind": "approval", "pending": pending}, timestamp=0
    )
    return builder.log(source="pydantic_ai", engine="checkpoint")


def flow(name: str, *tools: str, engine: str = "checkpoint") -> dict[str, Any]:
    """An agent's contract."""
    listed = {tool: {"schema": SCHEMA, "approval": True} for tool in tools}
    return {"workflowId": name, "engine": engine, "tools": listed}


def judged(log: Log, flows: Any, contract: Any = None) -> tuple[str, list[str]]:
    """Whose the run is, and what is found, without what is said of every run that waits."""
    decision = check_resume(log, flows, contract=contract)
    return decision.workflow_id, [found.code for found in decision.findings if found.code != "suspended-carryover"]


@pytest.mark.parametrize(
    ("flows", "found"),
    [
        (flow("desk", "look", "pay"), ("desk", [])),
        ({"desk": flow("desk", "look")}, ("desk", ["tool-missing"])),
        ({"desk": flow("desk", "look", "pay"), "shop": flow("shop", "sell")}, ("desk", [])),
        ({"desk": flow("desk", "look"), "shop": flow("shop", "sell")}, ("desk", ["tool-missing"])),
        ({"desk": flow("desk"), "job": flow("job", "look", "pay", engine="journal")}, ("desk", ["tool-missing"])),
        ({"unknown": flow("unknown", "pay"), "desk": flow("desk", "look", "pay")}, ("unknown", [])),
    ],
    ids=["one", "one in a mapping", "knows its tools", "knows most", "another engine", "mapped"],
)
def test_a_run_is_of_the_flow_that_it_can_only_be_of(flows: Any, found: Any) -> None:
    """The only flow, the one that unknown is mapped to, or the only one that knows most of what the run used."""
    assert judged(waiting("look", "pay"), flows) == found


def test_captured_contracts_tell_whose_a_run_is() -> None:
    """A tool that is gone today still tells, where the contract of that day is kept."""
    flows = {"desk": flow("desk", "look"), "shop": flow("shop", "look")}
    assert judged(waiting("look", "pay"), flows)[0] == "unknown"
    kept = {"desk": flow("desk", "look", "pay"), "shop": flow("shop", "look", "sell")}
    assert judged(waiting("look", "pay"), flows, kept) == ("desk", ["tool-missing"])


def test_what_cannot_be_told_is_said() -> None:
    """With two flows alike, a run is ambiguous; that breaks nothing, unless it would break with each of them."""
    alike = {"desk": flow("desk", "look", "pay"), "shop": flow("shop", "look", "pay")}
    assert judged(waiting("look", "pay"), alike) == ("unknown", ["flow-ambiguous"])
    gone = {"desk": flow("desk", "look"), "shop": flow("shop", "look")}
    assert sorted(judged(waiting("look", "pay"), gone)[1]) == ["flow-ambiguous", "tool-missing"]
    assert judged(waiting("look", "pay"), lambda workflow_id: None) == ("unknown", ["flow-ambiguous"])


def test_a_run_that_names_its_flow_is_of_no_other() -> None:
    """A flow that is gone stays missing, though there is another one."""
    assert judged(waiting("look", "pay", workflow_id="desk"), {"shop": flow("shop", "look", "pay")}) == (
        "desk",
        ["flow-missing"],
    )


def test_the_report_names_the_flow() -> None:
    """Findings and runs are of the flow that was found."""
    report = simulate_deploy([waiting("look", "pay")], {"desk": flow("desk", "look")})
    assert {found.workflow_id for found in report.findings} == {"desk"}
    assert [run.workflow_id for run in report.runs] == ["desk"]
