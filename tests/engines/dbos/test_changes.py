"""The checks against DBOS itself: changes of an application, each with the waiting run really recovered on it.

Whether a change is harmless is what DBOS does: the run comes to the same end with the same effects, or it does not.
Changes that lose the run give a breaking finding that names it, all others none.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import simulate_deploy
from pytest_loom.contract.resolve import contract_of
from tests.engines.dbos.changes import ANSWERS, APPS, CHANGES, changed
from tests.engines.dbos.conftest import Bench, needs_dbos

pytestmark = [needs_dbos, pytest.mark.filterwarnings("ignore")]

VERIFIED = (
    "a patch right before the wait",
    "the topic renamed, mail waits",
    "branches in another order",
    "the version raised",
    "a field that is read after the wait renamed",
    "a field renamed, with a default",
    "a field added, with a default",
    "a field added that is made anew",
    "a class renamed",
)


def digests(store: Path) -> dict[str, str]:
    """What stands beside the store, and in it."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in store.parent.glob("desk.sqlite*")}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_told_as_dbos_takes_it(bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What loses the run is breaking, by the expected finding; what does not is not. The store stays as it is."""
    monkeypatch.setenv("DESK_EFFECTS", str(bench.folder / "never"))
    change = CHANGES[name]
    store = bench.store(change.app, change.mail)
    before = digests(store)
    old = {key: contract_of(flow) for key, flow in bench.flows(APPS[change.app]).items()}
    flows = bench.flows(changed(change))
    for contract in (None, old):
        report = simulate_deploy(str(store), flows, contract=contract)
        found = [(one.code, one.execution_id) for one in report.findings if one.severity == "breaking"]
        is_told = change.lost and not (change.contract and contract is None)
        assert found == ([(change.code, "run-1")] if is_told else []), [one.message for one in report.findings]
        assert not [one for one in report.findings if one.code == "replay-untold"]
    assert digests(store) == before
    assert not (bench.folder / "never").exists()


@pytest.mark.parametrize("name", VERIFIED)
def test_what_is_pinned_is_what_dbos_does(bench: Bench, name: str) -> None:
    """A few of the changes once more: the run is recovered by the real DBOS, on the old code and on the new."""
    change = CHANGES[name]
    store = bench.store(change.app, change.mail)
    answers: Any = ANSWERS[change.app] if change.answers is None else change.answers
    then = bench.resumed(store, APPS[change.app], answers)
    now = bench.resumed(store, changed(change), answers)
    assert then["status"] == "SUCCESS"
    same = (now["status"], now["output"], now["effects"]) == ("SUCCESS", then["output"], then["effects"])
    assert same is not change.lost, now
