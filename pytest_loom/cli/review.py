"""``pytest-loom review``: what failed tests would have their goldens be, accepted or rejected one by one."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_loom.cli.corpus import shown
from pytest_loom.cli.diff import difference_facts
from pytest_loom.cli.git import is_ignored
from pytest_loom.cli.output import FINDING, OK, Output, Style
from pytest_loom.cli.runs import error_facts
from pytest_loom.cli.settings import read_settings
from pytest_loom.errors import LogError, LoomError, printable
from pytest_loom.evals.diff import Differences, diff_runs
from pytest_loom.evals.explain import explain, ignorable
from pytest_loom.log.candidates import (
    Candidate,
    accept,
    candidate_file,
    candidates,
    drop,
    is_candidate_file,
)
from pytest_loom.log.event import Log
from pytest_loom.log.read import read_jsonl

_QUESTION = "accept (a), reject (r), skip (s), ignore what differs (i), quit (q)? "
_STYLES: dict[str, Style] = {"accepted": "green", "rejected": "yellow"}
_NEVER_WALKED = frozenset({"__pycache__", "__snapshots__", "node_modules", "loom-contracts"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="goldens, their *.new, or folders (default: the whole project)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="show what waits, and change nothing")
    what.add_argument("--accept-all", action="store_true", help="make every candidate the golden")
    what.add_argument("--reject-all", action="store_true", help="drop every candidate")


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Review. Gives 1 where something still waits at the end, or is damaged; raises LoomError without a terminal."""
    review = _Review(arguments, out)
    for file in _files(arguments.paths):
        for one in candidates(file):
            if isinstance(one, LogError):
                review.broken(one)
            else:
                review.add(one)
    return review.all()


def _files(paths: list[str]) -> Iterator[Path]:
    """The files of candidates that are meant, each once. Raises LoomError for a path that is not there."""
    found: dict[Path, None] = {}
    for path in map(Path, paths or [os.path.relpath(read_settings(Path.cwd()).base)]):
        if path.is_dir():
            found.update(dict.fromkeys(walk(path)))
        elif is_candidate_file(path.name) and os.path.lexists(path):
            found[path] = None
        elif os.path.lexists(candidate_file(path)):
            found[candidate_file(path)] = None
        elif not path.exists():
            raise LoomError("there is no such file or folder", path=str(path))
    yield from found


def walk(folder: Path) -> Iterator[Path]:
    """The files of candidates below a folder."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NEVER_WALKED and not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(names) if is_candidate_file(name))


class _Review:
    """One review on its way."""

    def __init__(self, arguments: argparse.Namespace, out: Output) -> None:
        self.out = out
        self.waiting: list[Candidate] = []
        self.done: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.left = 0
        self.ask = not (arguments.list or arguments.accept_all or arguments.reject_all)
        self.answer = "a" if arguments.accept_all else "r" if arguments.reject_all else "s"

    def add(self, one: Candidate) -> None:
        """One more that waits."""
        self.waiting.append(one)

    def broken(self, error: LogError) -> None:
        """What waits, and cannot be read."""
        if not error.hint:
            error.hint = "Delete the file, and run the test again."
        self.out.error(error)
        self.errors.append(error_facts(error))

    def all(self) -> int:
        """Go through all of them."""
        if self.ask and self.waiting and (self.out.as_json or not sys.stdin.isatty()):
            what = "nobody can be asked with --json" if self.out.as_json else "there is no terminal"
            raise LoomError(
                f"{_wait(len(self.waiting))}, and {what}", hint="Give --list, --accept-all or --reject-all."
            )
        for number, one in enumerate(self.waiting, 1):
            try:
                answer = self._one(one, number)
            except LogError as error:
                self.broken(error)
                continue
            if answer == "q":
                self.left += len(self.waiting) - number
                break
        return self._outcome()

    def _one(self, one: Candidate, number: int) -> str:
        """Show one, and do with it what is asked for; gives the answer."""
        found = _differences(one)
        if found is not None and not found:
            self._drop(one, "no longer different, and dropped")
            return "s"
        self._show(one, found, f"{number} of {len(self.waiting)}")
        answer = self._asked(one, found) if self.ask else self.answer
        if answer == "a":
            accept(one)
            self._said(one, "accepted", found)
        elif answer == "r":
            self._drop(one, "rejected", found)
        else:
            self.left += 1
            self._said(one, "waits", found)
        return answer

    def _drop(self, one: Candidate, what: str, found: Differences | None = None) -> None:
        drop(one.golden, one.log.execution_id)
        self._said(one, what, found)

    def _said(self, one: Candidate, what: str, found: Differences | None) -> None:
        name = f"{printable(shown(one.golden), 200)} ({printable(one.log.execution_id, 60)})"
        if what != "waits":
            self.out.line(f"{what}: {name}", _STYLES.get(what, ""))
        self.done.append(
            {
                "golden": shown(one.golden),
                "executionId": one.log.execution_id,
                "test": one.facts.test,
                "what": what,
                "differences": [difference_facts(difference) for difference in found or ()],
            }
        )

    def _show(self, one: Candidate, found: Differences | None, place: str) -> None:
        self.out.line(f"[{place}] {printable(one.facts.test or shown(one.golden), 200)}", "bold")
        if found is None:
            self.out.line(f"  there is no golden yet: {printable(shown(one.golden), 200)}")
            self.out.line(f"  the candidate has {len(one.log)} events and is {one.log.state.status}")
        else:
            verdict, *lines = explain(found, width=78)
            self.out.lines(f"  {line}" for line in [verdict, *lines])
        if one.facts.rules.comparators:
            paths = printable(", ".join(one.facts.rules.comparators), 200)
            self.out.line(f"  (the test compares {paths} by functions of its own, which are not asked here)")
        self.out.line()

    def _asked(self, one: Candidate, found: Differences | None) -> str:
        """What is to be done: a, r, s or q. What could be ignored is shown as often as is asked."""
        while True:
            try:
                answer = input(_QUESTION).strip().lower()[:1]
            except EOFError:
                self.out.line()
                return "q"
            if answer == "i":
                self.out.lines(_to_ignore(one, found))
            elif answer and answer in "arsq":
                return answer

    def _outcome(self) -> int:
        if not self.done and not self.errors:
            self.out.note("nothing waits for review")
        if self.left:
            self.out.note(f"{_wait(self.left)}: pytest-loom review")
            first = self.waiting[0].golden
            if is_ignored(candidate_file(first)) is False:
                self.out.note("Candidates are not for git. Put into .gitignore: *.jsonl.new *.jsonl.gz.new")
        ok = not self.left and not self.errors
        self.out.result({"ok": ok, "schema": 1, "candidates": self.done, "waiting": self.left, "errors": self.errors})
        return OK if ok else FINDING


def _wait(count: int) -> str:
    return "1 candidate waits for review" if count == 1 else f"{count} candidates wait for review"


def _differences(one: Candidate) -> Differences | None:
    """What the candidate does otherwise than today's golden, by the rules of its test; None where there is no golden.

    Raises LogError where the golden cannot be read.
    """
    if not one.golden.exists():
        return None
    for item in read_jsonl(one.golden):
        if item.execution_id == one.log.execution_id or (isinstance(item, LogError) and not item.execution_id):
            if isinstance(item, LogError):
                raise item
            golden = Log(item.events, path=shown(one.golden), source=item.source, engine=item.engine)
            run = Log(one.log.events, path=shown(candidate_file(one.golden)))
            try:
                return diff_runs(golden, run, **one.facts.rules.rules)
            except LogError:
                raise
            except ValueError:  # rules that make no sense: by hand, or of another version
                return diff_runs(golden, run, compare="all")
    return None


def _to_ignore(one: Candidate, found: Differences | None) -> Iterator[str]:
    """The ``ignore=`` to paste into the marker of the test."""
    more = ignorable(found or ())
    if not more:
        yield "  Nothing here is a value that may vary: a step, a status or the whole run is different."
        return
    patterns = dict.fromkeys([*one.facts.rules.ignore, *more])
    said = ", ".join(json.dumps(path, ensure_ascii=False) for path in patterns)
    yield f"  To ignore these paths, mark {printable(one.facts.test, 200) or 'the test'} with, or give loom.record:"
    yield f"    ignore=[{said}]"
    yield "  Then run the test again: the candidate goes when it passes."
