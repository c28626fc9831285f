"""``pytest-loom merge REPORT…``: the reports of shards as the one that a single job would have written."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_loom.cli.output import FINDING, OK, Output
from pytest_loom.cli.section import counted, publish, report_file
from pytest_loom.report.merge import merge_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("parts", nargs="+", type=Path, metavar="REPORT", help="the report.json of each shard")
    parser.add_argument(
        "-o", "--output", "--report", action="append", default=[], type=report_file, metavar="FILE", dest="reports",
        help="write the whole, in the form of its suffix; may be given several times",
    )  # fmt: skip


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Merge. Gives 1 where a run would break or was not judged; raises LoomError where a shard is missing or comes
    twice, and where a file is no report.
    """
    report, ok, numbers = merge_files(arguments.parts)
    report.finding_rows = report.finding_rows.like(report.finding_rows.in_order())
    title = f"deploy simulation of {counted(numbers.get('logs', 0), 'log file')}"
    publish(report, out, arguments.reports, title=title, ok=ok, numbers=numbers)
    return OK if ok and report.ok else FINDING
