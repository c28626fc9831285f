"""A deploy simulation of saved runs on live agents: end to end, with captured contracts, and with nothing run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import check_resume, load_log, simulate_deploy
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.resolve import contract_of

pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")
changes: Any = importlib.import_module("agent_changes")


def by_name(name: str) -> Any:
    """One of the changes."""
    return next(one for one in changes.CHANGES if one.name == name)


def saved(name: str, folder: Path) -> Path:
    """The run of a change in a file."""
    path = folder / "ticket-1.json"
    path.write_text(json.dumps(changes.save(by_name(name))))
    changes.EFFECTS.clear()
    return path


@pytest.mark.parametrize("flows", ["mapping", "other-name", "alone"])
def test_flows_are_found_however_they_are_given(flows: str, tmp_path: Path) -> None:
    """By the workflow's name, by the only flow there is, and as a bare agent."""
    path, new = saved("renamed-default-strict", tmp_path), by_name("renamed-default-strict").new()
    given = {"mapping": {"desk": new}, "other-name": {"shop": new}, "alone": new}[flows]
    report = simulate_deploy(path, given)
    assert [found.code for found in report.findings if found.severity == "breaking"] == ["tool-args"]
    assert check_resume(load_log(path), given).verdict == "reapprove"
    assert changes.EFFECTS == []


def test_an_unchanged_agent_may_resume(tmp_path: Path) -> None:
    """Nothing changed, nothing is said but that it waits."""
    path, old = saved("words", tmp_path), by_name("words").old()
    decision = check_resume(load_log(path), {"desk": old}, contract=contract_of(old))
    assert decision.verdict == "resume"


def test_a_standing_grant_is_held_against_the_contract_that_was_captured(tmp_path: Path) -> None:
    """A grant for a tool that does not wait now: only yesterday's contract knows what was granted."""
    state = changes.save(by_name("words"))
    grant = {"agent": {"name": "desk"}, "tool_key": "sign", "decision": {"approved": True, "rejected": []}}
    state["context"]["function_tool_approvals"] = [grant]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(state))
    old = changes.agent(changes.pay, changes.sign)

    def wider(text: str, copies: int = 1) -> str:
        return ""

    def stranger(who: str) -> str:
        return ""

    for function, severity in ((changes.plain_sign, None), (wider, "warning"), (stranger, "breaking")):
        sign = changes.function_tool(function, name_override="sign", needs_approval=True)
        report = simulate_deploy(path, {"desk": changes.agent(changes.pay, sign)}, contract={"desk": [contract(old)]})
        found = {one.severity for one in report.findings if one.code == "approval-stale"}
        assert found == ({severity} if severity else set()), function.__name__


def test_a_new_guardrail_is_never_passed(tmp_path: Path) -> None:
    """The SDK looks at the input when a run starts: a guardrail that is new is not asked about one that waits."""
    one, looked = by_name("words"), []

    def look(ctx: Any, agent: Any, given: Any) -> Any:
        looked.append(given)
        return changes.sdk.GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    guardrail = changes.sdk.InputGuardrail(guardrail_function=look, name="known-customer")
    new = changes.agent(changes.pay, input_guardrails=[guardrail])
    path = saved("words", tmp_path)
    assert changes.resume(one, new, json.loads(path.read_text())).effects == ["pay A-17 4999"]
    assert looked == []
    report = simulate_deploy(path, {"desk": new}, contract={"desk": [contract(one.old())]})
    assert {found.code: found.severity for found in report.findings}["step-inserted"] == "warning"
    assert report.ok
    again = simulate_deploy(path, {"desk": new}, contract={"desk": [contract(new)]})
    assert "step-inserted" not in {found.code for found in again.findings}


def contract(agent: Any) -> Any:
    """An agent's contract, as one of the flow ``desk``."""
    return contract_of(agent).model_copy(update={"workflow_id": "desk"})


@pytest.mark.parametrize(
    "name", ["words", "same-but-loose", "same-but-strict", "reordered-strict", "approved-before-same", "line-same"]
)
def test_fingerprints_stand_still(name: str) -> None:
    """Words, the order of arguments and strict mode are no promise."""
    one = by_name(name)
    assert fingerprint(contract_of(one.old())) == fingerprint(contract_of(one.new()))


@pytest.mark.parametrize("name", ["renamed-strict", "tool-gone", "line-object", "line-longer", "approval-dropped"])
def test_fingerprints_move(name: str) -> None:
    """An argument, a tool, a handoff's name, an agent and a rule of approval are."""
    one = by_name(name)
    assert fingerprint(contract_of(one.old())) != fingerprint(contract_of(one.new()))


def test_rules_and_servers_are_not_asked() -> None:
    """A rule that is a function, and a server of tools, are not called for a contract: it says that there is more."""

    def never(*args: Any) -> bool:
        raise AssertionError("nothing of the application runs")

    agent = changes.agent(changes.tool(changes.plain_pay, needs_approval=never, is_enabled=never), name="desk")
    agent.mcp_servers = [object()]
    found = contract_of(agent)
    assert found.agents is not None
    assert found.agents["desk"].more_tools
    assert found.agents["desk"].tools is not None
    assert found.agents["desk"].tools["pay"].approval is True


def test_a_tool_that_may_come_from_a_server_is_not_missing(tmp_path: Path) -> None:
    """An agent with MCP servers may have the tool; that is not for its list to say."""
    path = saved("words", tmp_path)
    agent = changes.agent()
    agent.mcp_servers = [object()]
    report = simulate_deploy(path, {"desk": agent})
    assert [found.code for found in report.findings if found.severity == "breaking"] == []
