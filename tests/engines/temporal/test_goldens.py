"""Imported runs of Temporal: a golden has no history, so today's code is not replayed on it, which is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import load_log, replay, simulate_deploy
from pytest_loom.cli import main
from pytest_loom.deploy.report import DeployReport
from pytest_loom.errors import Unsupported
from pytest_loom.report.json import read_json, write_json

pytest.importorskip("temporalio", reason="needs the extra temporal")
if not hasattr(os, "fork"):
    pytest.skip("the Replayer runs in a copy of the process", allow_module_level=True)

from tests.engines.temporal.histories import write
from tests.engines.temporal.test_detection_table import flow, run_at

SAID = "today's code was not replayed on {} imported from Temporal, judged by contract: a golden has no history"


@pytest.fixture
def imported(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Goldens of runs that stand at some states: their folder, and what the import says on standard error."""
    monkeypatch.chdir(tmp_path)

    def make(*states: str, name: str = "Quoting") -> tuple[Path, str]:
        for state in states:
            write(run_at(state, name), tmp_path / f"{state}.json")
        assert main(["import", *(f"{state}.json" for state in states), "-o", "goldens"]) == 0
        return tmp_path / "goldens", capsys.readouterr().err

    return make


def test_unchanged_code_is_green(imported: Any, tmp_path: Path) -> None:
    """One note says for how many runs the code was not replayed, also of a report that is read again."""
    folder, _ = imported("C", "S", "G", "T")
    report = simulate_deploy(str(folder), flow("Quoting"))
    assert [found for found in report.findings if found.code != "suspended-carryover"] == []
    notes = report.all_notes()
    (note,) = [one for one in notes if one.startswith(SAID.format("4 runs"))]
    assert "histories/*.json" in note
    write_json(report, tmp_path / "report.json", ok=True, extra={})
    again = read_json(tmp_path / "report.json")[0]
    assert again.all_notes() == notes
    merged = DeployReport.merge([again, report]).all_notes()
    assert [one for one in merged if one.startswith(SAID.format("8 runs"))]


@pytest.mark.parametrize(
    ("state", "name", "code"),
    [
        ("G", "SignalRemoved", "gate-removed"),
        ("S", "FieldRequired", "input-contract"),
        ("C", "FieldRequired", "input-contract"),
    ],
)
def test_the_structure_is_judged(imported: Any, state: str, name: str, code: str) -> None:
    """What the class says of its handlers and its input is held against the run, finished ones included."""
    folder, _ = imported(state, name=name)
    report = simulate_deploy(str(folder), flow(name))
    assert code in {found.code for found in report.findings if found.severity == "breaking"}


def test_flows_that_are_data_need_no_history(imported: Any) -> None:
    """Nothing could have been replayed, so nothing is noted."""
    folder, _ = imported("S")
    report = simulate_deploy(str(folder), {"Quoting": {"workflowId": "Quoting", "engine": "journal", "gates": {}}})
    assert not any("replayed" in note for note in report.all_notes())


def test_replay_refuses_a_golden(imported: Any) -> None:
    """It says why, and what to replay instead."""
    folder, _ = imported("C")
    (golden,) = folder.rglob("*.loom.jsonl")
    with pytest.raises(Unsupported, match="imported from Temporal has no history") as raised:
        replay(load_log(golden), flow("Quoting"))
    assert 'load_log("histories/NAME.json")' in raised.value.hint


def test_the_import_says_so(imported: Any) -> None:
    """In a line of its own."""
    _, err = imported("C", "S")
    (line,) = [line for line in err.splitlines() if "goldens of Temporal have no history" in line]
    assert "histories/*.json" in line
