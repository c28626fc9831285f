"""``report.json``: its schema is a promise to the scripts that gate a deploy on it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport, Finding
from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import RunResult
from pytest_loom.report.json import read_json, write_json

RED = Finding("step-removed", "breaking", "refund", "r-1", "assess", "m", "h", "a.loom.jsonl")
LOOK = Finding("suspended-carryover", "warning", "refund", "r-2", None, "m", "h", "b.loom.jsonl", "ann until 2027: x")

GONE = ContractChange("step", "assess", "", "removed", "breaking", "step assess is gone", "flowVersion")
CHANGED = ChangedContract("refund", "1a", "2b", (GONE,), 3)


def written(report: DeployReport, path: Path, *, ok: bool = True, **extra: int) -> Any:
    """The file, decoded by Python's own json."""
    write_json(report, path, ok=ok, extra=extra)
    return json.loads(path.read_bytes())


def test_the_whole_schema(tmp_path: Path) -> None:
    """Every key of the file, by name and in order."""
    runs = [
        RunResult("r-1", "refund", "completed", "fork", "a.loom.jsonl"),
        RunResult("r-2", "refund", "suspended", "upcast", "b.loom.jsonl", {"fail-closed": "fork"}),
    ]
    report = DeployReport([RED, LOOK], runs, examined=2, in_flight=1, skipped=3, changed=[CHANGED])
    data = written(report, tmp_path / "report.json", ok=False, logs=2, not_judged=0)
    assert list(data) == ["ok", "schema", "summary", "notes", "contracts", "findings", "runs"]
    assert data == {
        "ok": False,
        "schema": 1,
        "summary": {
            "runs": 2,
            "in_flight": 1,
            "out_of_scope": 3,
            "breaking": 1,
            "acknowledged": 1,
            "warnings": 0,
            "infos": 0,
            "logs": 2,
            "not_judged": 0,
            "strategies": {"fail-closed": {"go_on": 0, "need_a_person": 1, "stranded": 0}},
        },
        "notes": [],
        "contracts": [
            {
                "workflow_id": "refund",
                "was": "1a",
                "now": "2b",
                "runs": 3,
                "unmoved": ["flowVersion"],
                "changes": [
                    {
                        "part": "step",
                        "name": "assess",
                        "path": "",
                        "kind": "removed",
                        "effect": "breaking",
                        "detail": "step assess is gone",
                        "version": "flowVersion",
                    }
                ],
            }
        ],
        "findings": [
            {
                "code": "step-removed",
                "severity": "breaking",
                "workflow_id": "refund",
                "execution_id": "r-1",
                "step": "assess",
                "message": "m",
                "hint": "h",
                "source": "a.loom.jsonl",
            },
            {
                "code": "suspended-carryover",
                "severity": "warning",
                "workflow_id": "refund",
                "execution_id": "r-2",
                "step": None,
                "message": "m",
                "hint": "h",
                "source": "b.loom.jsonl",
                "acknowledged": "ann until 2027: x",
            },
        ],
        "runs": [
            {
                "execution_id": "r-1",
                "workflow_id": "refund",
                "status": "completed",
                "verdict": "fork",
                "source": "a.loom.jsonl",
            },
            {
                "execution_id": "r-2",
                "workflow_id": "refund",
                "status": "suspended",
                "verdict": "upcast",
                "source": "b.loom.jsonl",
                "strategies": {"fail-closed": "fork"},
            },
        ],
    }


def test_what_is_read_again(tmp_path: Path) -> None:
    """A report beside a page has what the page shows: facts, timelines and both contracts are there after a merge."""
    red = replace(RED, engine="native", recorded="step assess completed", today="refund has no step assess")
    whole = replace(
        CHANGED, was_version="1.0.0", captured_at="2026-01-01T09:00:00Z", old={"steps": {}}, new={"steps": 1}
    )
    run = RunResult("r-1", "refund", "completed", "fork", "a.loom.jsonl", at="2026-01-01T09:00:00Z")
    run = replace(run, timeline={"rows": []})
    before = DeployReport([red], [run], examined=1, changed=[whole])
    write_json(before, tmp_path / "report.json", ok=False, extra={})
    after, _, _ = read_json(tmp_path / "report.json")
    assert after.as_dict() == before.as_dict()


def test_an_empty_report(tmp_path: Path) -> None:
    """Nothing found and nothing listed is still the whole schema."""
    data = written(DeployReport(examined=1), tmp_path / "report.json")
    assert (data["ok"], data["findings"], data["runs"]) == (True, [], [])


@pytest.mark.parametrize(("session", "red", "ok"), [(True, False, True), (False, False, False), (True, True, False)])
def test_ok_is_never_better_than_the_report(tmp_path: Path, session: bool, red: bool, ok: bool) -> None:
    """The session may know worse (a log that was not judged), and cannot make a red report green."""
    report = DeployReport([RED] if red else [], examined=1)
    assert written(report, tmp_path / "report.json", ok=session)["ok"] is ok


def test_one_finding_a_line(tmp_path: Path) -> None:
    """Each finding and each run has its line, so that reports diff well and big ones can be read line by line."""
    runs = [RunResult(f"r-{n}", "refund", "running", "resume", "s") for n in range(3)]
    write_json(DeployReport([RED, RED, LOOK], runs), tmp_path / "report.json", ok=False, extra={})
    lines = (tmp_path / "report.json").read_text().splitlines()
    assert sum(line.startswith('{"code"') for line in lines) == 3
    assert sum(line.startswith('{"execution_id"') for line in lines) == 3


def test_hostile_text(tmp_path: Path) -> None:
    """Whatever a log put into a name comes out of the JSON as it was, escaped and not shortened."""
    name = 'r"\\\n\x1b[2J\u2028é😀</script>' + "x" * 10_000
    hostile = Finding("step-removed", "breaking", name, name, name, name, name, name)
    (finding,) = written(DeployReport([hostile]), tmp_path / "report.json")["findings"]
    assert {finding[key] for key in ("workflow_id", "execution_id", "step", "message", "hint", "source")} == {name}


def test_the_folder_is_made_and_the_file_replaced(tmp_path: Path) -> None:
    """A report goes into a folder that is not there yet, and takes the place of the last one as a whole."""
    path = tmp_path / "out" / "reports" / "report.json"
    written(DeployReport([RED] * 50), path)
    assert written(DeployReport(), path)["findings"] == []
    assert os.listdir(path.parent) == ["report.json"]


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    """Where it cannot be written an OSError says so, and nothing half-written stays."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        write_json(DeployReport(), tmp_path / "file" / "report.json", ok=True, extra={})
    assert os.listdir(tmp_path) == ["file"]
