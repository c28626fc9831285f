"""Native flows in a deploy simulation: today's code is replayed against each waiting run, and nothing runs live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_loom import Context, Log, SyncContext, flow, record, simulate_deploy, step
from pytest_loom.deploy.report import DeployReport

LIVE: list[str] = []


@dataclass
class Case:
    """What the flow is asked."""

    id: str
    cents: int = 0


@dataclass
class Strict:
    """What the flow is asked today."""

    id: str
    region: str


@step
async def assess(case: Case) -> str:
    """The recorded work."""
    LIVE.append("assess")
    return "high"


@step
async def check(case: Case) -> str:
    """Work that the old code did not do."""
    LIVE.append("check")
    return "fine"


@step
async def pay(cents: int) -> int:
    """The work after the gate."""
    LIVE.append("pay")
    return cents


def made(body: Callable[..., Any], *, gates: dict[str, Any] | None = None) -> Any:
    """Today's refund flow with a body."""
    return flow(id="refund", version="2", steps=[assess, check, pay], gates=gates or {"Approved": bool})(body)


async def _old(ctx: Context, case: Case) -> int:
    await ctx.run(assess, case)
    return await ctx.run(pay, case.cents) if await ctx.suspend("Approved") else 0


@pytest.fixture
def waiting() -> Log:
    """A run that waits for its approval."""
    log = record(made(_old), Case("c", 4999))
    LIVE.clear()
    return log


def judged(log: Log, today: Any) -> DeployReport:
    """The simulation of one run, in which no step's body ran."""
    report = simulate_deploy([log], {"refund": today})
    assert LIVE == []
    return report


def codes(report: DeployReport) -> list[str]:
    """The codes of its findings, without the word that a run waits, and that its contract changed."""
    return [found.code for found in report.findings if found.code not in ("suspended-carryover", "contract-drift")]


def test_unchanged_code_is_silent(waiting: Log) -> None:
    """The same code goes over what was recorded up to the gate, and stops there."""
    assert (codes(judged(waiting, made(_old))), judged(waiting, made(_old)).ok) == ([], True)


def test_a_change_after_the_gate_is_silent(waiting: Log) -> None:
    """What has not run yet may change freely."""

    async def today(ctx: Context, case: Case) -> int:
        await ctx.run(assess, case)
        if not await ctx.suspend("Approved"):
            return -1
        await ctx.run(check, case)
        return await ctx.run(pay, case.cents * 2)

    assert codes(judged(waiting, made(today))) == []


@pytest.mark.parametrize("change", ["inserted", "other argument", "dropped", "gate given up"])
def test_what_a_resume_would_refuse(waiting: Log, change: str) -> None:
    """A step before the gate that is new, gone or asked something else: the run could not be resumed."""

    async def today(ctx: Context, case: Case) -> int:
        if change == "inserted":
            await ctx.run(check, case)
        if change != "dropped":
            await ctx.run(assess, Case(case.id, 1) if change == "other argument" else case)
        if change == "gate given up":
            return await ctx.run(pay, case.cents)
        return await ctx.run(pay, case.cents) if await ctx.suspend("Approved") else 0

    report = judged(waiting, made(today))
    assert codes(report) == ["replay-diverged"]
    assert (report.ok, report.runs[0].verdict) == (False, "fork")
    assert "A resume of this run on today's code is refused." in report.findings[-1].message


def test_a_renamed_gate(waiting: Log) -> None:
    """The answer would reach nobody; said by structure, with the name that it may have now."""

    async def today(ctx: Context, case: Case) -> int:
        await ctx.run(assess, case)
        return await ctx.run(pay, case.cents) if await ctx.suspend("ApprovedNow") else 0

    report = judged(waiting, made(today, gates={"ApprovedNow": bool}))
    assert codes(report) == ["gate-removed"]
    found = next(found for found in report.findings if found.code == "gate-removed")
    assert (found.step, report.runs[0].verdict) == ("Approved", "manual")
    assert "Was it renamed to ApprovedNow?" in found.message


def test_an_input_that_no_longer_fits(waiting: Log) -> None:
    """The recorded input cannot be given to today's flow."""

    async def today(ctx: Context, case: Strict) -> int:
        return 0

    report = judged(waiting, made(today))
    assert (codes(report), report.runs[0].verdict) == (["input-contract"], "reject")


def test_an_output_that_no_longer_fits(waiting: Log) -> None:
    """The recorded result of a step does not fit what today's annotation says."""

    @step(id="assess")
    async def numbered(case: Case) -> int:
        return 1

    @flow(id="refund", steps=[numbered, pay], gates={"Approved": bool})
    async def today(ctx: Context, case: Case) -> int:
        await ctx.run(numbered, case)
        return await ctx.run(pay, case.cents) if await ctx.suspend("Approved") else 0

    assert codes(judged(waiting, today)) == ["output-contract"]


def test_a_live_call_of_the_flow_itself(waiting: Log) -> None:
    """What is no effect would be done again each time a run is resumed; the simulation does not do it either."""

    async def today(ctx: Context, case: Case) -> int:
        with open("/pytest-loom-was-here", "w") as stream:
            stream.write("x")
        return 0

    assert codes(judged(waiting, made(today))) == ["effect-repeated"]


def test_finished_runs_are_not_replayed() -> None:
    """They stand for runs on their way, but only for what is structure: their own code may change."""
    done = record(made(_old), Case("c", 1), events=[("Approved", True)])
    LIVE.clear()

    async def today(ctx: Context, case: Case) -> int:
        return 0

    assert codes(judged(done, made(today))) == []


def test_a_gate_within_a_sub_flow() -> None:
    """A run that waits inside of a sub-flow waits at a gate of the whole flow."""

    @flow(id="ask", gates={"Answered": str})
    def ask(ctx: SyncContext) -> str:
        return str(ctx.suspend("Answered"))

    @flow(id="outer", steps=[ask])
    def outer(ctx: SyncContext) -> str:
        return ctx.run(ask)

    report = simulate_deploy([record(outer)], outer)
    assert codes(report) == []


def test_from_async_code(waiting: Log) -> None:
    """A simulation within a running event loop replays the same."""

    async def simulate() -> DeployReport:
        return simulate_deploy([waiting], {"refund": made(_old)})

    assert codes(asyncio.run(simulate())) == []
