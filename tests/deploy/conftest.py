"""Runs to simulate a deploy on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_loom import Log, LogBuilder
from pytest_loom.deploy import alike as memo
from pytest_loom.deploy.report import DeployReport
from pytest_loom.log import alike


@pytest.fixture
def run() -> Callable[..., Log]:
    """Makes the log of one run: ``run("r-1", "assess", "pay", status="suspended")``."""
    return make_run


def make_run(
    execution_id: str = "r-1",
    *steps: str,
    flow: str = "refund",
    status: str = "completed",
    manifest: dict[str, Any] | None = None,
    **log_facts: Any,
) -> Log:
    """A run whose steps have all completed; ``status`` is how it stands then."""
    made = LogBuilder(execution_id, flow, path=f"{execution_id}.loom.jsonl")
    made.add("EXECUTION_STARTED", {"input": {"order": 1}, "manifest": manifest or {}}, timestamp=0)
    for step in steps:
        made.add("STEP_STARTED", {"stepId": step}, timestamp=1)
        made.add("STEP_COMPLETED", {"stepId": step, "output": f"{step} done"}, timestamp=2)
    last: dict[str, tuple[str, dict[str, Any]]] = {
        "completed": ("EXECUTION_COMPLETED", {"output": None}),
        "failed": ("EXECUTION_FAILED", {"error": {"type": "ValueError", "message": "no"}}),
        "cancelled": ("EXECUTION_CANCELLED", {"reason": "asked"}),
        "continued": ("EXECUTION_CONTINUED", {"newExecutionId": "r-next"}),
        "suspended": ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval"}),
    }
    if status in last:
        kind, payload = last[status]
        made.add(kind, payload, timestamp=3)
    return made.log(**log_facts)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run that comes by becomes a template."""
    monkeypatch.setattr(alike, "_FIRST", 1)
    monkeypatch.setattr(alike, "_SHARE", 0)


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were not read the long way."""
    seen: list[str] = []
    enter = memo.Memo.enter

    def noting(self: memo.Memo, report: DeployReport, hit: alike.Hit) -> None:
        seen.append(hit.execution_id)
        enter(self, report, hit)

    monkeypatch.setattr(memo.Memo, "enter", noting)
    return seen
