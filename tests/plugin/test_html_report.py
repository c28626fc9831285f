"""``--loom-report=report.html`` in a session: the page, the timelines that only it asks for, and what it needs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

pytest.importorskip("jinja2", reason="the HTML report needs the extra html (Jinja2)")

SIM = "--loom-deploy-sim"
PAGE = "--loom-report=out/report.html"
RENAMED = "loom_flows=app:renamed"
PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR


def timelines(desk: Desk) -> list[Any]:
    """The timelines in the page."""
    text = (desk.path / "out/report.html").read_text(encoding="utf-8")
    return [json.loads(data) for data in re.findall(r'id="timeline-\d+">(.*?)</script>', text, re.S)]


def test_red(desk: Desk) -> None:
    """The page is written and named; of many runs three have their timeline."""
    for number in range(9):
        desk.log(f"logs/{number}.loom.jsonl", f"r-{number}", "assess", "pay", status="suspended")
    assert desk(SIM, PAGE, "-o", RENAMED) == FAILED
    text = (desk.path / "out/report.html").read_text(encoding="utf-8")
    assert "<h1>NOT SAFE TO DEPLOY</h1>" in text
    assert "deploy simulation of 9 log files" in text
    assert desk.section[-1] == "report: out/report.html"
    told = timelines(desk)
    assert [[row["name"] for row in one["rows"]] for one in told] == [["started", "assess", "pay", "Approved"]] * 3
    assert {one["rows"][one["first"]]["name"] for one in told} == {"assess"}


def test_green(desk: Desk) -> None:
    """A green simulation has its page, too."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    assert desk(SIM, PAGE) == PASSED
    assert "<h1>No breaking change found</h1>" in (desk.path / "out/report.html").read_text(encoding="utf-8")


def test_only_a_page_asks_for_timelines(desk: Desk) -> None:
    """A report that shows none has none; one beside a page has those of the page, so that parts can be merged."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    assert desk(SIM, "--loom-report=report.json", "-o", RENAMED) == FAILED
    assert "timeline" not in desk.report["runs"][0]
    assert desk(SIM, "--loom-report=report.json", PAGE, "-o", RENAMED) == FAILED
    assert desk.report["runs"][0]["timeline"]["rows"][1]["name"] == "assess"


def test_secrets(desk: Desk) -> None:
    """What is secret by the project's own settings is not in the page."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess", output={"badge": "EMP-1234", "password": "hunter2hunter2"})
    desk.ini("loom_scrub = re:EMP-[0-9]+")
    assert desk(SIM, PAGE, "-o", RENAMED) == FAILED
    text = (desk.path / "out/report.html").read_text(encoding="utf-8")
    assert "EMP-1234" not in text
    assert "hunter2" not in text
    assert "scrubbed:" in text


def test_contracts_that_changed(desk: Desk) -> None:
    """Where contracts are kept, the page has the old one beside today's."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess", status="suspended")
    assert desk(SIM, "--loom-update") == PASSED
    assert desk(SIM, PAGE, "-o", RENAMED) == FAILED
    text = (desk.path / "out/report.html").read_text(encoding="utf-8")
    assert "The contracts side by side" in text
    assert "assess_risk" in text.partition("The contracts side by side")[2]


def test_without_jinja2(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before anything is judged, with the extra to install."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    assert desk(SIM, PAGE) == USAGE
    (line,) = [line for line in desk.result.errlines if line.startswith("ERROR")]
    assert line.endswith("an HTML report needs Jinja2: pip install 'pytest-loom[html]'")
