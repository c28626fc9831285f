"""The runs of an HTML report, as compact JSON for the page's script: rows of numbers and tables of what they mean.

The runs that would break come first. However many there are, few are in memory, and ``LISTED`` at most are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any

import msgspec

from pytest_loom.deploy.report import DeployReport, Finding, RunResult
from pytest_loom.deploy.timeline import EXAMPLES
from pytest_loom.errors import printable
from pytest_loom.report.places import Places
from pytest_loom.report.plain import one_line
from pytest_loom.report.since import when
from pytest_loom.report.text import Cause, Key, keys_of

LISTED = 50_000
"""How many runs are listed at most."""

_MESSAGES = 4_000_000
"""Characters of messages that differ from the first one of their cause."""

_TIMELINES = 16_000_000
"""Bytes of timelines."""

_TOGETHER = 10_000
"""How many findings of runs of one name are told apart by their files."""

_TAGS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def safe_json(value: Any) -> str:
    """JSON text for a script element: no tag, comment or entity can begin in it."""
    return msgspec.json.encode(value).decode("utf-8").translate(_TAGS)


class Table:
    """Values that many rows share, each written once; a row has its number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.values: list[Any] = []

    def number(self, key: Any, value: Any = None) -> int:
        """The number of a value (the key itself without one)."""
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append(key if value is None else value)
        return self.numbers[key]


class RunList:
    """The rows of runs, and the timelines that belong to them: ``data`` first, ``timelines`` after it."""

    def __init__(self, report: DeployReport, grouped: Sequence[Cause], places: Places) -> None:
        self.report = report
        self.places = places
        self._grouped = grouped
        self._ranks: dict[Key, int] = {cause.key: number for number, cause in enumerate(grouped)}
        self._tables = {
            name: Table() for name in ("flows", "statuses", "verdicts", "sources", "ways", "versions", "texts")
        }
        self._room = _MESSAGES
        self._kept: list[bytes] = []
        self._kept_size = 0
        self._examples = {(found.execution_id, found.source) for cause in grouped for found in cause.examples}

    def data(self) -> Iterator[str]:
        """``{"rows": […], "causes": […], …}`` in pieces.

        A row is ``[name, flow, status, verdict, source, last event, [[cause, text], …], strategies, version,
        timeline]``: numbers of the tables that follow; text -1 is that of the cause, timeline -1 is none.
        """
        yield '{"rows":['
        separator = "\n"
        for run, findings in islice(self._in_order(), LISTED):
            yield f"{separator}{safe_json(self._row(run, findings))}"
            separator = ",\n"
        causes = [
            {"code": printable(cause.key[1]), "flow": printable(cause.key[2]), "step": printable(cause.key[3] or ""),
             "state": cause.state, "text": self._said(cause.examples[0])}
            for cause in self._grouped
        ]  # fmt: skip
        tables = {name: table.values for name, table in self._tables.items()}
        rest = {"causes": causes, **tables, "strategies": list(self.report.strategies()), "each": EXAMPLES}
        yield f"],\n{safe_json(rest)[1:]}"

    def timelines(self) -> Iterator[str]:
        """A script element of data for each timeline."""
        for number, timeline in enumerate(self._kept):
            yield f'<script type="application/json" id="timeline-{number}">'
            yield timeline.decode()
            yield "</script>\n"

    def _in_order(self) -> Iterator[tuple[RunResult, list[Finding]]]:
        hurt = (pair for pair in self._with_findings() if any(found.blocks for found in pair[1]))
        rest = (pair for pair in self._with_findings() if not any(found.blocks for found in pair[1]))
        return chain(hurt, rest)

    def _with_findings(self) -> Iterator[tuple[RunResult, list[Finding]]]:
        """Each run with its findings: both come sorted by run."""
        groups = groupby(self.report.finding_rows.in_order(), key=lambda found: found.execution_id)
        name, findings = _next(groups)
        for run_name, runs in groupby(self.report.run_rows.in_order(), key=lambda run: run.execution_id):
            while name is not None and name < run_name:
                name, findings = _next(groups)
            here = findings if name == run_name else []
            for run in runs:
                of_it = [
                    found for found in here if found.source == run.source or found.source.startswith(f"{run.source}:")
                ]
                yield run, of_it

    def _row(self, run: RunResult, findings: Iterable[Finding]) -> list[Any]:
        reasons = list({(reason := self._reason(found))[0]: reason for found in findings}.values())
        ways = tuple(run.strategies.items())
        version = run.manifest.get("flowVersion")
        return [
            printable(run.execution_id),
            self._number("flows", printable(run.workflow_id)),
            self._number("statuses", printable(run.status)),
            self._number("verdicts", run.verdict),
            self._number("sources", self.places.named(run.source)),
            when(run.at).removesuffix(" UTC") if run.at else "",
            reasons,
            self._tables["ways"].number(ways, dict(ways)),
            self._number("versions", printable(str(version), 40) if version is not None else ""),
            self._timeline(run),
        ]

    def _number(self, table: str, value: str) -> int:
        return self._tables[table].number(value)

    def _reason(self, found: Finding) -> list[int]:
        cause = next(self._ranks[key] for key in keys_of(found) if key in self._ranks)
        if found.message == self._grouped[cause].examples[0].message:
            return [cause, -1]
        text = self._said(found)
        texts = self._tables["texts"]
        if text not in texts.numbers:
            if len(text) > self._room:
                return [cause, -1]
            self._room -= len(text)
        return [cause, texts.number(text)]

    def _said(self, found: Finding) -> str:
        return one_line(self.places.said(found.message))

    def _timeline(self, run: RunResult) -> int:
        """The number of the run's timeline; -1 where it has none, or is no example of a cause."""
        if run.timeline is None or (run.execution_id, run.source) not in self._examples:
            return -1
        data = safe_json(run.timeline).encode()
        if self._kept_size + len(data) > _TIMELINES:
            return -1
        self._kept_size += len(data)
        self._kept.append(data)
        return len(self._kept) - 1


def _next(groups: Iterator[tuple[str, Iterator[Finding]]]) -> tuple[str | None, list[Finding]]:
    name, found = next(groups, (None, iter(())))
    return name, list(islice(found, _TOGETHER))
