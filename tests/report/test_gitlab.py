"""GitLab's code quality report: what its documentation asks for, and fingerprints that tell causes apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport
from pytest_loom.report.gitlab import MOST, write_gitlab
from tests.report.conftest import found, hostile, report_of


@pytest.fixture
def issues(tmp_path: Path) -> Any:
    """Write a report and give its issues."""

    def read(report: DeployReport, *, ok: bool | None = None, not_judged: int = 0) -> Any:
        path = tmp_path / "report.gitlab.json"
        write_gitlab(report, path, ok=report.ok if ok is None else ok, extra={"logs": 3, "not_judged": not_judged})
        return json.loads(path.read_bytes())

    return read


def test_an_issue_for_a_cause(issues: Any) -> None:
    """Description, check, severity and the log's own line; nothing else, so that the schema is met."""
    issue, warning = issues(
        report_of(*(found(number) for number in range(1, 5)), found(5, "suspended-carryover", "warning"))
    )
    fingerprint = issue.pop("fingerprint")
    assert issue == {
        "description": "step-removed: refund, step assess, 4 runs: It would run again. Keep it."
        " Runs: r-1 in app/logs/1.loom.jsonl:3, r-2 in app/logs/2.loom.jsonl:3, r-3 in app/logs/3.loom.jsonl:3,"
        " and 1 more.",
        "check_name": "step-removed",
        "severity": "blocker",
        "location": {"path": "app/logs/1.loom.jsonl", "lines": {"begin": 3}},
    }
    assert len(fingerprint) == 64
    assert warning["severity"] == "minor"


def test_severities(issues: Any) -> None:
    """What stops a deploy is a blocker, what is to be seen minor; what was accepted or is only said is information."""
    report = report_of(
        found(1, "a"), found(2, "b", "warning"), found(3, "c", "info"), found(4, "d", acknowledged="ann until 2027: x")
    )
    found_ = {issue["check_name"]: issue for issue in issues(report)}
    assert {name: issue["severity"] for name, issue in found_.items()} == {
        "a": "blocker",
        "b": "minor",
        "c": "info",
        "d": "info",
    }
    assert " Acknowledged by ann until 2027: x. " in found_["d"]["description"]


class TestFingerprints:
    def test_stable(self, issues: Any) -> None:
        """The same cause keeps its fingerprint when its runs, their lines and its words change."""
        (one,) = issues(report_of(found(1)))
        (other,) = issues(report_of(*(found(n, message="Other.", hint="x", line=n, version="2") for n in range(2, 9))))
        assert one["fingerprint"] == other["fingerprint"]

    def test_unique(self, issues: Any) -> None:
        """Every cause of a report has its own, also where names run into each other or are made up without end."""
        facts = [("a", None), ("a", ""), ("a", "None"), ("a\0b", "c"), ("a", "b\0c"), ("", "a"), ("\ud800", "a")]
        report = report_of(*(found(n, workflow_id=flow, step=step) for n, (flow, step) in enumerate(facts)))
        report.finding_rows += [found(20, "tool-args"), found(21, "tool-args", "warning")]
        report.finding_rows += [found(n, step=f"s-{n}", workflow_id=f"f-{n}") for n in range(3000)]
        prints = [issue["fingerprint"] for issue in issues(report)]
        assert len(set(prints)) == len(prints) == MOST + 1


def test_so_many_at_most(issues: Any) -> None:
    """More causes than anybody looks at are a number, as an issue of its own."""
    report = report_of(*(found(n, f"code-{n}") for n in range(MOST + 5)))
    last = issues(report)[-1]
    assert (last["check_name"], last["description"][:14]) == ("more-causes", "5 more causes ")


def test_what_was_not_judged(issues: Any) -> None:
    """An empty list would look as if all were well; where all is well it is one."""
    (issue,) = issues(report_of(), ok=False, not_judged=3)
    assert (issue["check_name"], issue["severity"]) == ("not-judged", "blocker")
    assert issue["description"] == "NOT JUDGED: 3 of 3 log files, see the failed tests"
    assert issue["location"] == {"path": "pyproject.toml", "lines": {"begin": 1}}
    assert issues(report_of()) == []


def test_hostile_text(issues: Any) -> None:
    """A description is one line of readable text; the place is a file of the repository, or the settings."""
    (issue,) = issues(report_of(hostile(source="../../etc/passwd")))
    assert issue["description"].isprintable()
    assert issue["location"]["path"] == "pyproject.toml"
