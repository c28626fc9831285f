"""The page docs/temporal.md is true: a new user's ten minutes, step by step, and each row of its table."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.engines.temporal.histories import Building
from tests.engines.temporal.histories import write as write_history
from tests.pages import BLOCKS, PAGES, ROOT, assert_shows, change, line, run, write

NAMES = (
    *("install", "application", "fetch", "settings", "command", "note", "capture", "change", "report"),
    *("replayer", "test", "test-command"),
)
"""The blocks of the page, without its prefix."""

FIRST, WAIT = (
    '        quote = await workflow.execute_activity(\n            "quote"',
    "        await workflow.wait_condition",
)
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    '`"quote_refund"` instead of `"quote"`': (('"quote"', '"quote_refund"'),),
    "a `workflow.sleep` before the wait": ((WAIT, f"        await workflow.sleep(60)\n{WAIT}"),),
    "a timeout of the wait": (('self.answer != "")', 'self.answer != "", timeout=3600)'),),
    "a `workflow.sleep` before the quote": ((FIRST, f"        await workflow.sleep(60)\n{FIRST}"),),
    "`Ticket.customer` without a default": (("    order: str\n", "    order: str\n    customer: str\n"),),
    "`Ticket.cause` instead of `reason`, with a default": (("reason: str", "cause: str"),),
    "`Quote.fee` without a default": (("    cents: int\n", "    cents: int\n    fee: int\n"),),
    "`Quote.currency_code` instead of `currency`": (("currency: str", "currency_code: str"),),
    "another value for `quote`": (('"quote", ticket', '"quote", Ticket("A-18", "late")'),),
    "another timeout of `quote`": (("minutes=1", "minutes=2"),),
    "`raise ValueError` after the quote": ((WAIT, f'        raise ValueError("no")\n{WAIT}'),),
    "`approve` takes a `Quote`": (("answer: str) -> None", "answer: Quote) -> None"),),
    "`decide` instead of `approve`": (("def approve", "def decide"),),
    "`Payback` instead of `Refund`": (("class Refund", "class Payback"),),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of the page, with the history of a run that waits."""
    pytest.importorskip("temporalio", reason="needs the extra temporal")
    for name in ("application", "settings"):
        write(f"temporal-{name}", tmp_path)
    history = Building("Refund", {"order": "A-17", "reason": "broken"})
    history.task()
    quote = history.activity("quote", {"order": "A-17", "reason": "broken"})
    history.done(quote, {"cents": 4999, "currency": "EUR"})
    history.task()
    path = tmp_path / line("temporal-fetch").rpartition(" > ")[2]
    path.parent.mkdir()
    write_history(history.history, path)
    return tmp_path


def simulated(project: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, output and report of the page's command."""
    words = [*shlex.split(line("temporal-command")), "--loom-report=report.json", *options]
    done = run(shlex.join(words), project)
    return done.returncode, done.stdout, json.loads((project / "report.json").read_bytes())


def test_from_nothing_to_the_first_true_finding(project: Path) -> None:
    """The page's own steps: green with one run that waits, and a note until the contract is captured; then red."""
    status, output, report = simulated(project)
    assert (status, report["summary"]["in_flight"]) == (0, 1), output
    assert_shows(BLOCKS["temporal-note"].text, output)
    captured = run(line("temporal-capture"), project)
    assert "captured 1 contract" in captured.stdout, captured.stdout
    status, output, report = simulated(project)
    assert (status, report["notes"]) == (0, []), output
    change(project / "desk.py", FIRST, BLOCKS["temporal-change"].text + FIRST)
    status, output, _ = simulated(project)
    assert status == 1
    assert_shows(BLOCKS["temporal-report"].text, output)


def test_table_of_what_is_told(project: Path) -> None:
    """Each change of the table is told as its row says, beside a captured contract."""
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", PAGES["docs/temporal.md"].split("| --- | --- |\n")[-1], re.M))
    assert rows.keys() == CHANGES.keys()
    captured = run(line("temporal-capture"), project)
    assert "captured 1 contract" in captured.stdout, captured.stdout
    desk = project / "desk.py"
    text = desk.read_text()
    for cell, edits in CHANGES.items():
        desk.write_text(text)
        for old, new in edits:
            change(desk, old, new)
        flows = "-oloom_flows=desk:Payback" if "Payback" in desk.read_text() else "-q"
        _, output, report = simulated(project, flows)
        said = [(one["code"], one["severity"]) for one in report["findings"]]
        said = [one for one in said if one[0] not in ("suspended-carryover", "contract-drift")]
        told = re.match(r"`([\w-]+)`, (?:a )?(\w+)", rows[cell])
        assert told or rows[cell].startswith("nothing"), cell
        assert set(said) == ({(told[1], told[2])} if told else set()), f"{cell}\n{output}"


def test_a_replayer_as_the_flows(project: Path) -> None:
    """The page's Replayer stands for its workflows."""
    write("temporal-replayer", project)
    status, output, report = simulated(project, "-oloom_flows=replays:replayer")
    assert (status, report["summary"]["in_flight"]) == (0, 1), output


def test_the_test_of_the_page(project: Path) -> None:
    """Green on unchanged code; another command names its event."""
    write("temporal-test", project)
    done = run(line("temporal-test-command"), project)
    assert done.returncode == 0, done.stdout
    change(project / "desk.py", '"quote"', '"quote_refund"')
    done = run(line("temporal-test-command"), project)
    assert done.returncode == 1
    assert "event 5: the activity quote was recorded, today's code asks for the activity quote_refund" in done.stdout


def test_the_extra_is_one() -> None:
    """What the page installs is an extra of the package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert line("temporal-install") == 'python -m pip install "./pytest-loom[temporal]"'
    assert "temporal" in extras
