"""The facts beside a finding: what the log says at its place, and what today's contract has there."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import Finding, Log, LogBuilder, check_resume, flow, record, simulate_deploy, step
from pytest_loom.deploy.facts import told
from pytest_loom.deploy.timeline import Timelines

Told = tuple[str, dict[str, Any]]
"""An event: its kind and its payload."""


def run(*events: Told, flow: str = "refund") -> Log:
    """A run with these events after its start, a minute apart."""
    log = LogBuilder("r-1", flow)
    log.add("EXECUTION_STARTED", {}, timestamp=0)
    for minute, (kind, payload) in enumerate(events, 1):
        log.add(kind, payload, timestamp=minute * 60_000)
    return log.log()


DONE: list[Told] = [("STEP_STARTED", {"stepId": "assess"}), ("STEP_COMPLETED", {"stepId": "assess", "output": 1})]
WAITS: Told = ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval"})
ASKED = {"name": "pay", "callId": "c-1", "args": {}}


def only(code: str, log: Log, **contract: Any) -> Finding:
    """The finding of this code of a run, held against this contract."""
    report = simulate_deploy([log], {"refund": {"workflowId": "refund", **contract}})
    (found,) = [found for found in report.findings if found.code == code]
    return found


def test_a_step_that_is_gone() -> None:
    """Which event told of it and when, and what today's flow has in its place."""
    found = only("step-removed", run(*DONE, WAITS), version="2.0.0", steps={"inspect": {}, "pay": {}})
    assert found.recorded == "step assess completed, event 3 of 4"
    assert found.today is not None
    assert found.today.startswith("refund 2.0.0 (contract ")
    assert found.today.endswith(") has no step assess, but inspect, pay")
    assert found.engine == "loom"


def test_a_flow_without_any_step() -> None:
    """Where today's flow has nothing of the kind, that is said."""
    found = only("step-removed", run(*DONE), steps={})
    assert str(found.today).endswith("has no step assess, and no step at all")


def test_many_names_are_cut() -> None:
    """A contract of many steps fills no screen."""
    found = only("step-removed", run(*DONE), steps={f"step-{number}": {} for number in range(50)})
    assert str(found.today).endswith("but step-0, step-1, step-2, step-3, step-4 and 45 more")


def test_a_gate_that_is_gone() -> None:
    """A run that waits is told by its wait, and since when."""
    found = only("gate-removed", run(*DONE, WAITS), steps={"assess": {}}, gates={"Confirmed": {}})
    assert found.recorded == "waits for Approved (approval), event 4 of 4"
    assert str(found.today).endswith("has no gate Approved, but Confirmed")


def test_a_call_that_somebody_is_asked_about() -> None:
    """It is where the run waits, not where a call of that name was made before."""
    log = run(
        ("TOOL_REQUESTED", ASKED),
        ("TOOL_COMPLETED", {"callId": "c-1", "output": 1}),
        (WAITS[0], {**WAITS[1], "pending": {**ASKED, "callId": "c-2"}}),
    )
    found = only("tool-missing", log, gates={"Approved": {}}, tools={"payout": {}})
    assert found.recorded == "waits for Approved (approval), event 4 of 4"
    assert str(found.today).endswith("has no tool pay, but payout")


@pytest.mark.parametrize("step", [None, "nowhere"])
def test_what_names_no_place_is_where_the_run_stands(step: str | None) -> None:
    """The open wait, else the last event; today's contract is named, and nothing else is claimed."""
    about = Finding("own", "breaking", "refund", "r-1", step, "m", "h", "s")
    waits, ended = run(*DONE, WAITS), run(*DONE)
    flows = {"refund": {"workflowId": "refund", "steps": {}}}
    contract = simulate_deploy([ended], flows).contracts["refund"]
    facts = [told(about, log, contract, "0123456789abcdef", "loom") for log in (waits, ended)]
    assert [str(fact.recorded).partition(",")[0] for fact in facts] == ["waits for Approved (approval)", SECOND[step]]
    assert {fact.today for fact in facts} == {"refund (contract 01234567)"}


SECOND = {None: "step completed", "nowhere": "step nowhere completed"}


def test_a_flow_that_is_gone() -> None:
    """Today's side is that there is none."""
    (found,) = simulate_deploy([run(*DONE)], {}).findings
    assert (found.code, found.today) == ("flow-missing", "no flow refund")


def test_a_flow_that_is_code() -> None:
    """A flow of pytest-loom's own is told from one that is data, for it has ways of its own."""

    @step
    def assess() -> int:
        return 1

    @step
    def other() -> int:
        return 2

    @flow(id="refund", steps=[assess, other])
    def refund(ctx: Any) -> int:
        return int(ctx.run(assess))

    @flow(id="refund", steps=[other])
    def renamed(ctx: Any) -> int:
        return int(ctx.run(other))

    log = record(refund)
    found = check_resume(Log(log.events[:-1]), renamed).findings
    assert {one.engine for one in found} == {"native"}


def test_names_from_logs_stay_on_their_line() -> None:
    """Neither fact forges a line, whatever a log or a contract calls its steps."""
    name = "x\n\x1b[2J\u2028" + "y" * 5_000
    log = run(("STEP_STARTED", {"stepId": name}), ("STEP_COMPLETED", {"stepId": name}))
    found = only("step-removed", log, version=name, steps={name + "z": {}})
    for fact in (found.recorded, found.today):
        assert fact is not None
        assert fact.isprintable()
        assert len(fact) < 400


def test_when_a_run_last_did_something() -> None:
    """For a report that shows it, in UTC, to the second; a timestamp beyond any calendar is said to be none."""
    for timestamp, told_ in ((1_767_258_000_000, "2026-01-01T09:00:00Z"), (10**18, None)):
        log = LogBuilder("r-1", "refund")
        log.add("EXECUTION_STARTED", {}, timestamp=timestamp)
        (run_,) = simulate_deploy([log.log()], {}, timelines=Timelines()).runs
        assert run_.at == told_


def test_facts_do_not_tell_findings_apart() -> None:
    """Two findings that say the same are equal, whatever stands beside them."""
    found = only("step-removed", run(*DONE), steps={})
    assert found == told(found, run(*DONE, WAITS), None, "", "temporal")
