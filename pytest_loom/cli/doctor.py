"""``pytest-loom doctor``: what is configured, what is found, why nothing was collected; each with what to type."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path

from pytest_loom.cli import around, checkup, coverage
from pytest_loom.cli.check import Check, Seen
from pytest_loom.cli.output import FINDING, OK, Output, Style
from pytest_loom.cli.settings import read_settings
from pytest_loom.errors import set_in

_STYLES: dict[str, Style] = {"ok": "", "note": "yellow", "problem": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes: nothing."""


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Look. Gives 1 where something is wrong; raises LoomError for a configuration that cannot be read."""
    found = []
    about = ""
    for check in _checks(out):
        found.append(check)
        if check.about != about:
            about = check.about
            out.line(about, "bold")
        head = f"  {'PROBLEM' if check.state == 'problem' else check.state:7}  "
        out.lines(set_in(check.text, head, " " * 11), _STYLES[check.state])
        hint = f"Type:\n{check.hint}" if check.hint.startswith(" ") else check.hint
        out.lines(set_in(hint, " " * 11 + "-> ", " " * 14))
    problems = sum(check.state == "problem" for check in found)
    out.note(f"{problems or 'no'} problem{'' if problems == 1 else 's'}")
    out.result({"ok": not problems, "schema": 1, "checks": [asdict(check) for check in found]})
    return FINDING if problems else OK


def _checks(out: Output) -> Iterator[Check]:
    settings = read_settings(Path.cwd())
    seen = Seen()
    yield from around.configuration(settings)
    yield from around.pytest_itself(settings)
    yield from checkup.logs(settings, seen, out)
    yield from checkup.flows(settings, seen)
    yield from coverage.corpus(settings, out)
    yield from checkup.effects(settings)
    yield from checkup.rules(settings, date.today())
    yield from around.review(settings)
    yield from around.installed(seen)
