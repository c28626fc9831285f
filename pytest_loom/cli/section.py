"""A deploy report as a command prints and writes it: the lines of pytest's own section, JSON, files by suffix."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_loom.cli.output import Output, Style
from pytest_loom.deploy.report import DeployReport
from pytest_loom.errors import LoomError, printable, set_in
from pytest_loom.report.forms import FORMS, form_of, missing_for, write_report
from pytest_loom.report.json import json_pieces
from pytest_loom.report.plain import SEE, headline
from pytest_loom.report.text import contract_lines, finding_lines, strategy_lines

_STYLES: dict[str, Style] = {"breaking": "red", "warning": "yellow", "contract": "bold", "strategies": "bold"}


def report_file(text: str) -> Path:
    """The path of a report on the command line, whose suffix has to tell a form."""
    if form_of(Path(text)) is None:
        raise argparse.ArgumentTypeError(f"the form of {text} is told by the suffix, one of {', '.join(FORMS)}")
    if what := missing_for(Path(text)):
        raise argparse.ArgumentTypeError(what)
    return Path(text)


def publish(
    report: DeployReport,
    out: Output,
    reports: Iterable[Path],
    *,
    title: str,
    ok: bool,
    numbers: Mapping[str, Any],
    notes: Iterable[str] = (),
    see: str = SEE,
) -> None:
    """Write the reports and show the section; ``see`` says why something was not judged.

    Raises LoomError where a report cannot be written.
    """
    written = []
    for path in reports:
        try:
            write_report(report, path, ok=ok, extra=numbers)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise LoomError(f"the report could not be written: {reason}", path=str(path)) from None
        written.append(path)
    if out.as_json:
        out.bytes(json_pieces(report, ok=ok, extra=numbers))
        return
    out.line(title, "bold")
    for note in [*report.all_notes(), *notes]:
        out.lines(set_in(note, "note: ", "  "))
    findings = finding_lines(report.findings, option="--report", changed=report.changed)
    for lines in (findings, contract_lines(report, full=True), strategy_lines(report)):
        for line in lines:
            out.line(line, _STYLES.get(line.partition(" ")[0].rstrip(":"), ""))
    verdict = set_in(headline(report, ok=ok, extra=numbers, see=see), "", "  ")
    out.lines(verdict, "green" if ok and report.ok else "red")
    for path in written:
        out.note(f"report: {printable(str(path), 1_000)}")


def counted(number: int, thing: str) -> str:
    """``1 log file``, ``2 log files``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
