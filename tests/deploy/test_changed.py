"""Contracts that changed under unfinished runs: counted by run, compared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_loom import Contract, Log, simulate_deploy
from pytest_loom.contract.changes import compare_contracts
from pytest_loom.contract.fingerprint import fingerprint

Run = Callable[..., Log]


def contract(*steps: str, **parts: Any) -> Contract:
    """A contract of refund with these steps."""
    return Contract.model_validate({"workflowId": "refund", "steps": {step: {} for step in steps}, **parts})


OLD, NEW = contract("assess", "pay"), contract("assess", "pay", "note")


def test_runs_on_an_old_contract_are_counted_and_it_is_compared_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfinished runs only; those that name no contract count by when it was captured; the comparison is done once."""
    calls: list[str] = []

    def counted(old: Contract, new: Contract) -> Any:
        calls.append(old.workflow_id)
        return compare_contracts(old, new)

    monkeypatch.setattr("pytest_loom.deploy.changed.compare_contracts", counted)
    named = {"contractFingerprint": fingerprint(OLD)}
    logs = [
        *(run(f"r-{n}", "assess", status="suspended", manifest=named) for n in range(3)),
        run("r-3", "assess", status="running"),
        run("over", "assess", manifest=named),
        run("elsewhere", "assess", status="running", manifest={"contractFingerprint": "of nobody's"}),
    ]
    (found,) = simulate_deploy(logs, NEW, contract=OLD).changed
    assert (found.workflow_id, found.was, found.now) == ("refund", fingerprint(OLD), fingerprint(NEW))
    assert (found.runs, [change.name for change in found.changes]) == (4, ["note"])
    assert calls == ["refund"]


@pytest.mark.parametrize("kept", [None, OLD])
def test_where_nothing_changed(run: Run, kept: Contract | None) -> None:
    """No entry without a kept contract, nor where today's promises the same in other words."""
    today = OLD.model_copy(update={"version": "7", "steps": dict(reversed((OLD.steps or {}).items()))})
    assert simulate_deploy([run("r-1", "assess", status="running")], today, contract=kept).changed == []


def test_only_finished_runs(run: Run) -> None:
    """What nobody is on any more is no news."""
    assert simulate_deploy([run("r-1", "assess")], NEW, contract=OLD).changed == []
