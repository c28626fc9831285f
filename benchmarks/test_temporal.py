"""Bulk replay of small Temporal histories: the deploy simulation beside the SDK's own bulk, and without running code.

Both replay in a sandbox through which all modules are passed, and both begin with the files; what is started once (a
process, the SDK's runtime) is started before. The last line is the simulation of the same runs by contract alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import contract_of, simulate_deploy

pytest.importorskip("temporalio.worker")

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from benchmarks.measure import milliseconds
from benchmarks.temporal_work import Greeting, history

PASSED_THROUGH = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_all_modules())


def sdk_bulk(files: list[Path]) -> None:
    """The SDK's own way: one Replayer for all of them."""

    async def histories() -> Any:
        for file in files:
            yield WorkflowHistory.from_json(file.stem, file.read_text())

    async def replay() -> None:
        replayer = Replayer(workflows=[Greeting], workflow_runner=PASSED_THROUGH, build_id="benchmark")
        results = await replayer.replay_workflows(histories(), raise_on_replay_failure=False)
        assert not results.replay_failures

    asyncio.run(replay())


def seconds(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The best round of each way, all taken in turn after one to warm up, so that a busy machine hurts all alike."""
    best = dict.fromkeys(ways, float("inf"))
    for number in range(rounds + 1):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            if number or not rounds:
                best[name] = min(best[name], time.perf_counter() - begin)
    return best


def test_bulk(tmp_path: Path, row: Callable[..., None], sized: Callable[[int, int], int], measuring: bool) -> None:
    """Every history passes each way; the figures are for a person to read."""
    count, rounds = sized(500, 5), 5 if measuring else 1
    for number in range(count):
        (tmp_path / f"greeting-{number}.json").write_text(json.dumps(history(number)))
    files, logs = sorted(tmp_path.glob("*.json")), f"{tmp_path}/*.json"

    def simulate(flow: Any) -> None:
        report = simulate_deploy(logs, flow)
        assert report.ok, report.findings
        assert report.examined == count

    contract = contract_of(Greeting)
    ways = {  # ours first: a process in which the SDK has run is not copied
        "ours": lambda: simulate(Greeting),
        "theirs": lambda: sdk_bulk(files),
        "structural": lambda: simulate(contract),
    }
    took = seconds(ways, rounds)
    ours, theirs, structural = (took[name] for name in ways)
    what, sdk = f"{count} Temporal histories of 11 events", f"the SDK's own bulk replay {milliseconds(theirs)}"
    row(f"{what}, replayed by a deploy simulation", milliseconds(ours), sdk, f"{ours / theirs:.2f} times")
    row(f"{what}, simulated by contract", milliseconds(structural), sdk, f"{theirs / structural:.0f} times as fast")
