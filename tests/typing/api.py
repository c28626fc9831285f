"""The public API as a user's type checker sees it: never run, only checked (tests/test_packaging.py).

A name that disappears, a return type that changes or an argument that is renamed makes mypy fail here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type

import pytest_loom
from pytest_loom import (
    Context,
    Contract,
    DeployReport,
    Difference,
    Event,
    ExecutionState,
    Finding,
    Log,
    LogError,
    LoomError,
    Score,
    SyncContext,
    UnknownSchemaVersion,
    diff_runs,
    flow,
    load_log,
    load_logs,
    record,
    recorded_step_outputs,
    replay,
    replay_as_fixture,
    resume,
    score_run,
    simulate_deploy,
    step,
    tool,
    write_log,
)


def reads_and_writes(path: Path) -> None:
    """One log from a file, many from a glob, and back to disk."""
    log = load_log(path)
    assert_type(log, Log)
    assert_type(load_log("golden/refund.loom.jsonl"), Log)
    assert_type(log.execution_id, str)
    assert_type(log.workflow_id, str)
    assert_type(log.state, ExecutionState)
    events: Sequence[Event] = log.events
    assert_type(events[0].sequence, int)
    assert_type(events[0].event_type, str)
    assert_type(events[0].payload, dict[str, Any])
    logs: Iterator[Log] = load_logs("golden/*.loom.jsonl")
    assert_type(next(logs), Log)
    write_log(log, path)
    write_log(log, "copy.loom.jsonl.gz")


def folds(log: Log) -> None:
    """What a log says happened."""
    state = replay_as_fixture(log)
    assert_type(state, ExecutionState)
    assert_type(recorded_step_outputs(log), dict[str, Any])


def compares(golden: Log, candidate: Log) -> None:
    """Differences are data with five parts."""
    differences: list[Difference] = diff_runs(golden, candidate)
    diff_runs(golden, candidate, ignore=["assess.output.rationale", "**.id"], tolerance={"abs": 0.01}, compare="all")
    for difference in differences:
        said: tuple[str, str | None, str | None] = (difference.kind, difference.step, difference.path)
        values: tuple[Any, Any] = (difference.golden, difference.candidate)
        print(said, values)


def polite(state: ExecutionState) -> bool:
    """A user's own scorer."""
    return "please" in str(state.variables["_output"])


def scores(log: Log) -> None:
    """Scorers are plain callables under names."""
    result = score_run(log.state, {"polite": polite})
    assert_type(result, dict[str, Score])
    assert_type(result["polite"].value, float)
    assert_type(result["polite"].passed, bool | None)
    assert_type(result["polite"].reason, str)


def flow_for(workflow_id: str, version: str | None = None) -> Contract | None:
    """A user's own resolver."""
    return {"refund": Contract.model_validate({"workflowId": workflow_id, "version": version})}.get(workflow_id)


def simulates(logs: Sequence[Log], contract: Contract, contracts: Mapping[str, Contract]) -> None:
    """Flows may be a resolver, a mapping or one contract; logs may be logs or anything that load_logs takes."""
    report = simulate_deploy(logs, flow_for)
    assert_type(report, DeployReport)
    assert_type(report.ok, bool)
    simulate_deploy("golden/*.loom.jsonl", contracts, scope="in-flight")
    simulate_deploy(load_logs("golden/*.loom.jsonl"), contract, scope="all")
    finding: Finding
    for finding in report.findings:
        assert_type(finding.code, str)
        assert_type(finding.message, str)
    print(len(report.runs))


def fails(path: Path) -> str:
    """Every error is a LoomError that says where and what to do next."""
    try:
        load_log(path)
    except UnknownSchemaVersion as error:
        return error.hint
    except LogError as error:
        return f"{error.path}:{error.line}"
    except LoomError as error:
        return error.where
    return pytest_loom.__version__


@step
async def assess(amount: int, currency: str = "EUR") -> str:
    """An async step keeps its signature."""
    return f"{amount} {currency}"


@step(id="charge", retries=2, backoff=0.5)
def pay(amount: int) -> dict[str, int]:
    """So does a sync one, declared with arguments."""
    return {"paid": amount}


@tool(version=2, approval=True)
async def refund(order: str) -> bool:
    """A tool."""
    return bool(order)


@flow(id="order", version="1.0.0", steps=[assess, pay], tools=[refund], gates={"Approved": bool})
async def order(ctx: Context, amount: int) -> str:
    """What a step gives is known to the flow."""
    assert_type(await ctx.run(assess, amount), str)
    assert_type(await ctx.run(assess, amount, currency="USD"), str)
    assert_type(await ctx.run(pay, amount), dict[str, int])
    await ctx.run(assess, "much")  # type: ignore[call-overload]
    return str(ctx.uuid())


@flow(id="sync-order", steps=[pay])
def sync_order(ctx: SyncContext, amount: int) -> int:
    """The same for plain code."""
    assert_type(ctx.run(pay, amount), dict[str, int])
    return amount


def records_and_replays() -> None:
    """A flow is recorded, resumed and replayed; each gives a log."""
    log = record(order, 5, events=[("Approved", True)])
    assert_type(log, Log)
    assert_type(resume(log, order, event="Approved", payload=True), Log)
    assert_type(replay(log, order, ignore=["**.id"], on_divergence="record"), Log)
