"""Pydantic AI in a deploy simulation as users run it: contracts captured, code changed, runs judged one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.test_pydantic_ai import call, prompt, response

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

APP = """
from pydantic_ai import Agent, DeferredToolRequests

desk = Agent(None, name="desk", output_type=[str, DeferredToolRequests])

@desk.tool_plain(requires_approval=True)
def pay({arguments}) -> str:
    open("effects.log", "w").close()

flows = {{"refunds": desk}}
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A project with two waiting runs and one that is over."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    store = pytester.mkdir("store")
    for name, cents in (("small", 100), ("large", 900000)):
        history = [prompt("go"), response(call("pay", {"cents": cents}, "c1"))]
        (store / f"{name}.json").write_text(json.dumps(history))
    done = [prompt("hi"), response({"content": "hello", "part_kind": "text"})]
    (store / "done.json").write_text(json.dumps(done))
    pytester.makeini("[pytest]\nloom_logs = store/*\nloom_flows = app:flows\n")
    return pytester


def simulated(project: Any, arguments: str, *options: str) -> dict[str, Any]:
    """The report of a simulation, the application being so."""
    project.makepyfile(app=APP.format(arguments=arguments))
    project.runpytest_subprocess(
        "-p", "pytest_loom.plugin", "--loom-deploy-sim", "--loom-report=report.json", "-q", *options
    )
    assert not Path("effects.log").exists()
    report: dict[str, Any] = json.loads(Path("report.json").read_text())
    found = [one for one in report["findings"] if one["code"] != "suspended-carryover"]
    return {"ok": report["ok"], "found": {(one["execution_id"], one["code"], one["severity"]) for one in found}}


def test_a_limit_breaks_the_run_that_is_above_it(project: Any) -> None:
    """Without a contract: of two waiting runs, the one whose arguments no longer validate is named; the others pass."""
    limited = "cents: __import__('typing').Annotated[int, __import__('pydantic').Field(le=5000)]"
    assert simulated(project, "cents: int") == {"ok": True, "found": set()}
    assert simulated(project, limited) == {"ok": False, "found": {("large", "tool-args", "breaking")}}


def test_a_default_that_is_new_is_a_warning_with_a_captured_contract(project: Any) -> None:
    """Captured under the name that the flow is registered as, the contract shows that an argument is new."""
    new = "cents: int, express: bool = True"
    assert simulated(project, "cents: int", "--loom-update")["ok"]
    assert [path.parent.name for path in Path("loom-contracts").glob("*/*.json")] == ["refunds"]
    assert simulated(project, new) == {
        "ok": True,
        "found": {("small", "approval-stale", "warning"), ("large", "approval-stale", "warning")},
    }
