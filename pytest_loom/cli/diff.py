"""``pytest-loom diff A B``: what one run, or each run of a place, does otherwise than its counterpart."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from pytest_loom.cli.output import FINDING, OK, Output
from pytest_loom.cli.runs import add_flows, error_facts, one_of, runs_of, use_flows
from pytest_loom.errors import LogError, LoomError, printable
from pytest_loom.evals.diff import DEFAULT, KINDS, Difference, Differences, diff_runs
from pytest_loom.evals.explain import explain
from pytest_loom.evals.values import MISSING
from pytest_loom.log.event import Log

_LIMIT = 1_000
"""How many differences of two runs are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("golden", metavar="A", help="how it was: a file of runs, a folder, a glob or an address")
    parser.add_argument("candidate", metavar="B", help="how it is")
    parser.add_argument(
        "--run", metavar="ID", help="only this run; without it, one run each or all by their ids are compared"
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="PATH",
        help="leave a path out, such as assess.output.id or **.id; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--compare", action="append", choices=("all", *KINDS), metavar="KIND",
        help="compare this kind of difference, such as step-input, or all; may be given several times",
    )  # fmt: skip
    add_flows(parser)


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Compare. Gives 1 where something differs or is broken; raises LoomError for a pattern that makes no sense."""
    use_flows(arguments)
    compare: Any = DEFAULT if arguments.compare is None else arguments.compare
    compare = "all" if "all" in compare else compare

    def compared(golden: Log, candidate: Log) -> Differences:
        try:
            return diff_runs(golden, candidate, ignore=arguments.ignore, compare=compare)
        except LogError:
            raise
        except ValueError as problem:
            raise LoomError(f"--ignore: {problem}") from None

    if arguments.run is not None:
        places = (arguments.golden, arguments.candidate)
        golden, candidate = (one_of(runs_of(place), place, arguments.run) for place in places)
        return _Comparison(compared, out).of([golden], [candidate])
    return _Comparison(compared, out).of(runs_of(arguments.golden), runs_of(arguments.candidate))


def difference_facts(one: Difference) -> dict[str, Any]:
    """A difference, for programs; a side that has no value is left out."""
    sides = {"golden": one.golden, "candidate": one.candidate}
    said = {name: value for name, value in sides.items() if value is not MISSING}
    return {"kind": one.kind, "step": one.step, "path": one.path, **said}


class _Comparison:
    """One comparison on its way."""

    def __init__(self, compared: Callable[[Log, Log], Differences], out: Output) -> None:
        self.compared = compared
        self.out = out
        self.errors: list[dict[str, Any]] = []
        self.pairs: list[dict[str, Any]] = []
        self.alone: dict[str, list[str]] = {"golden": [], "candidate": []}

    def of(self, goldens: Any, candidates: Any) -> int:
        """Compare the one run of either side, or each with the one of its id."""
        left, right = (list(self._whole(side)) for side in (goldens, candidates))
        if len(left) == len(right) == 1 and not self.errors:
            self._pair(left[0], right[0])
        else:
            there: dict[str, list[Log]] = {}
            for log in right:
                there.setdefault(log.execution_id, []).append(log)
            for log in left:
                same = there.get(log.execution_id)
                if same:
                    self._pair(log, same.pop(0))
                else:
                    self._alone("golden", log)
                self.out.progress(f"{len(self.pairs)} compared")
            for log in (log for logs in there.values() for log in logs):
                self._alone("candidate", log)
        return self._outcome()

    def _whole(self, items: Any) -> Iterator[Log]:
        for item in items:
            if isinstance(item, LogError):
                self._broken(item)
            else:
                yield item

    def _pair(self, golden: Log, candidate: Log) -> None:
        try:
            found = self.compared(golden, candidate)
        except LogError as error:
            self._broken(error)
            return
        self.pairs.append(
            {
                "golden": {"executionId": golden.execution_id, "path": golden.path},
                "candidate": {"executionId": candidate.execution_id, "path": candidate.path},
                "differences": [difference_facts(one) for one in found],
            }
        )
        if found:
            verdict, *lines = explain(found, limit=_LIMIT)
            self.out.line(verdict, "bold")
            self.out.lines(lines)

    def _alone(self, side: str, log: Log) -> None:
        self.alone[side].append(log.execution_id)
        self.out.line(f"only the {side} has {printable(log.workflow_id, 30)}/{printable(log.execution_id)}", "bold")

    def _broken(self, error: LogError) -> None:
        self.out.error(error)
        self.errors.append(error_facts(error))

    def _outcome(self) -> int:
        differ = sum(bool(pair["differences"]) for pair in self.pairs)
        same = not differ and not any(self.alone.values())
        if same and not self.errors:
            self.out.line("no difference")
        if len(self.pairs) > 1:
            self.out.note(f"{len(self.pairs)} runs compared, {differ or 'none'} of them different")
        self.out.result(
            {
                "ok": same and not self.errors,
                "schema": 1,
                "pairs": self.pairs,
                "onlyGolden": self.alone["golden"],
                "onlyCandidate": self.alone["candidate"],
                "errors": self.errors,
            }
        )
        return OK if same and not self.errors else FINDING
