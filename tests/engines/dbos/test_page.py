"""The page docs/dbos.md is true: a new user's ten minutes, step by step, and each row of its table."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.engines.conftest import needs_postgres
from tests.engines.dbos.conftest import needs_dbos
from tests.pages import BLOCKS, PAGES, ROOT, assert_shows, change, line, run, write

NAMES = (
    *("install", "application", "save", "save-command", "settings", "command", "note", "capture", "report"),
    "postgres",
)
"""The blocks of the page, without its prefix."""

WAIT = "    if DBOS.recv("
QUOTE = "    cents = quote(order)"
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "`quote_with_tax` instead of `quote`": (("quote", "quote_with_tax"),),
    "`pay(order, cents)` is called before the wait, too": ((WAIT, f"    pay(order, cents)\n{WAIT}"),),
    '`if DBOS.patch("vip"): ...` right before the wait': ((WAIT, f'    if DBOS.patch("vip"): quote(order)\n{WAIT}'),),
    '`if DBOS.patch("vip"): ...` before `quote`': ((QUOTE, f'    if DBOS.patch("vip"): pay(order, 1)\n{QUOTE}'),),
    '`return "paid"` before the wait': ((WAIT, f'    if cents: return "paid"\n{WAIT}'),),
    "`refund(order, currency)`": (("def refund(order: str)", "def refund(order: str, currency: str)"),),
    '`refund(order, currency="EUR")`': (("def refund(order: str)", 'def refund(order: str, currency: str = "EUR")'),),
    "`refund_order` instead of `refund`": (("def refund(", "def refund_order("),),
    '`"application_version": "2"`': (('"application_version": "1"', '"application_version": "2"'),),
    '`DBOS.recv("decision", ...)`': (('DBOS.recv("approval"', 'DBOS.recv("decision"'),),
    "another step after `pay`": (
        ("    return pay(order, cents)", "    pay(order, cents)\n    return str(quote(order))"),
    ),
    "another body of `quote`": (("    return 4999", "    return 5999"),),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the page with its waiting run saved."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("application", "save", "settings"):
        write(f"dbos-{name}", folder)
    done = run(line("dbos-save-command"), folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def project(saved: Path, tmp_path: Path) -> Path:
    """That project, each test its own: one captures the contract that another begins without."""
    return shutil.copytree(saved, tmp_path / "project")


def simulated(project: Path, command: str = "dbos-command", *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, output and report of a command of the page."""
    words = [*shlex.split(line(command)), "--loom-report=report.json", *options]
    done = run(shlex.join(words), project)
    return done.returncode, done.stdout, json.loads((project / "report.json").read_bytes())


@needs_dbos
def test_from_nothing_to_the_first_true_finding(project: Path) -> None:
    """The page's own steps: green with one run that waits, and a note until the contract is captured; then red."""
    status, output, report = simulated(project)
    assert (status, report["summary"]["in_flight"]) == (0, 1), output
    assert_shows(BLOCKS["dbos-note"].text, output)
    captured = run(line("dbos-capture"), project)
    assert "captured 1 contract" in captured.stdout, captured.stdout
    status, output, report = simulated(project)
    assert (status, report["notes"]) == (0, []), output
    desk = project / "desk.py"
    text = desk.read_text()
    try:
        change(desk, "quote", "quote_with_tax")
        status, output, _ = simulated(project)
        assert status == 1
        assert_shows(BLOCKS["dbos-report"].text, output)
    finally:
        desk.write_text(text)


@needs_dbos
def test_table_of_what_is_told(project: Path) -> None:
    """Each change of the table is told as its row says, beside a captured contract or without."""
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", PAGES["docs/dbos.md"].split("| --- | --- |\n")[-1], re.M))
    assert rows.keys() == CHANGES.keys()
    run(line("dbos-capture"), project)
    assert list((project / "loom-contracts").rglob("*.json")), "the page's command captures its contract"
    desk = project / "desk.py"
    text = desk.read_text()
    try:
        for cell, edits in CHANGES.items():
            desk.write_text(text)
            for old, new in edits:
                change(desk, old, new)
            flows = "-oloom_flows=desk:refund_order" if "refund_order" in desk.read_text() else "-q"
            _, output, report = simulated(project, "dbos-command", flows)
            told = re.match(r"`([\w-]+)`, breaking", rows[cell])
            wanted = [told[1]] if told else []
            assert told or rows[cell].startswith("nothing"), cell
            assert [one["code"] for one in report["findings"] if one["severity"] == "breaking"] == wanted, output
    finally:
        desk.write_text(text)


@needs_dbos
@needs_postgres
def test_the_command_for_an_address(project: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's run in a server is read by the page's command, whose password nothing shows."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE page_of_dbos")
    address = server.replace("/postgres", "/page_of_dbos")
    monkeypatch.setenv("DATABASE_URL", address)
    done = run(line("dbos-save-command"), project)
    assert done.returncode == 0, done.stderr
    done = run(line("dbos-postgres").replace("$DATABASE_URL", address), project)
    assert done.returncode == 0, done.stdout
    assert "1 of them unfinished" in done.stdout
    assert "s3cret" not in done.stdout


def test_the_extra_is_one() -> None:
    """What the page installs is an extra of the package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert line("dbos-install") == 'python -m pip install "./pytest-loom[dbos]"'
    assert "dbos" in extras
