"""Findings as the forms of a report get them, and texts that a hostile log would put into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport, Finding
from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import RunResult

HOSTILE = 'x\nSAFE TO DEPLOY ::error::a%b,c:d `code` <b>|@ann #12</b> ](http://evil) \x1b[2J\u2028\ud800"\\' + "y" * 500


def found(number: int = 1, code: str = "step-removed", severity: Any = "breaking", **other: Any) -> Finding:
    """A finding about refund run r-NUMBER, told by the third line of its log."""
    facts: dict[str, Any] = {"workflow_id": "refund", "execution_id": f"r-{number}", "step": "assess"}
    facts |= {"message": "It would run again.", "hint": "Keep it.", "source": f"logs/{number}.loom.jsonl", "line": 3}
    return Finding(code, severity, **facts | other)


def hostile(**other: Any) -> Finding:
    """A finding every text of which comes from a log that wants to be more than text."""
    names = dict.fromkeys(("workflow_id", "execution_id", "step", "message", "hint", "source"), HOSTILE)
    return found(**names | other)


def report_of(*findings: Finding, runs: int = 0, **other: Any) -> DeployReport:
    """A report with these findings, of so many runs at least."""
    facts: dict[str, Any] = {"examined": max(runs, len(findings)), "in_flight": 1, **other}
    return DeployReport(findings, **facts)


def changed(*details: str, flow: str = "refund") -> ChangedContract:
    """A contract that changed under two unfinished runs."""
    changes = tuple(ContractChange("step", "s", "", "removed", "breaking", detail, "flowVersion") for detail in details)
    return ChangedContract(flow, "1" * 16, "2" * 16, changes, 2)


def waiting(number: int, **ways: Any) -> RunResult:
    """An unfinished run, of which each strategy makes what it says."""
    return RunResult(f"r-{number}", "refund", "suspended", "resume", f"logs/{number}.loom.jsonl", ways)


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, in a folder of which pytest was started, outside of CI."""
    repository = tmp_path_factory.mktemp("repository")
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    (repository / ".git").mkdir()
    here = repository / "app"
    here.mkdir()
    monkeypatch.chdir(here)
    return here
