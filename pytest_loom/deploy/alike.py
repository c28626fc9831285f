"""Runs that are alike are judged once: what was said of the first one is said of the others (``log.alike``).

Only where that is certain. When many runs look like one, that run is judged anew as a twin: of the same text, but with
another id, and with values that cannot be decoded in all places where any value may stand. What is said of the twin is
what is said of the run only if nothing that was asked looked at a value. Where something did, it is told by the line,
and the values of that line have to be the same again; or, for a recorded input or result that only today's schema is
held against, each run's value is held against that schema.

So this file knows nothing of checks: a new one that reads a value, an id or a time makes runs unlike by itself. It
stands aside where code may look at anything or is run: with checks of the user's own, registered upcasters, and
unfinished runs of flows that are code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from pytest_loom.contract.model import Contract
from pytest_loom.contract.quick import fitting
from pytest_loom.contract.resolve import UNNAMED
from pytest_loom.deploy.attribution import names_said
from pytest_loom.deploy.decide import Judge
from pytest_loom.deploy.facts import rfc3339, rfc3339_of
from pytest_loom.deploy.report import DeployReport, Finding, RunResult
from pytest_loom.deploy.values import fits, problems, read_values, recorded_input, recorded_outputs
from pytest_loom.errors import LogError, LoomError
from pytest_loom.flow.definition import Flow
from pytest_loom.log.alike import Alike, Book, Hit, Place
from pytest_loom.log.event import UNDECODABLE, Log
from pytest_loom.log.origin import may_say
from pytest_loom.log.texts import Text
from pytest_loom.log.upcast import has_upcasters

Take = Callable[[DeployReport, Log], None]
"""Judge a run and enter it."""

_TRIES = 16
"""How often a twin is judged, at most: each time one more line turns out to be read."""

_KEPT = 20_000
_SHORT = 2048
"""How many values are remembered, and how long one of them is at most."""
_decode = msgspec.json.Decoder().decode


class _Said(NamedTuple):
    """What is said of a run, for how much it counts for each pair of contracts that changed, and of which of its lines
    each finding tells (from 0; None of none, -1 of one that is not its own). ``at``: when it last did something."""

    report: DeployReport
    counted: list[int]
    places: list[int | None]
    at: str | None

    def findings_of(self, execution_id: str, path: str, numbers: Sequence[int]) -> list[Finding]:
        """The same of a run that is alike."""
        return [
            Finding(
                found.code,
                found.severity,
                found.workflow_id,
                execution_id,
                found.step,
                found.message,
                found.hint,
                path,
                found.acknowledged,
                found.version,
                None if place is None else numbers[place],
                found.engine,
                found.recorded,
                found.today,
            )
            for found, place in zip(self.report.findings, self.places, strict=True)
        ]

    def runs_of(self, execution_id: str, path: str, at: str | None) -> list[RunResult]:
        """The same of a run that is alike, which last did something at another time."""
        return [
            RunResult(
                execution_id,
                run.workflow_id,
                run.status,
                run.verdict,
                path,
                run.strategies,
                run.manifest,
                at,
            )
            for run in self.report.runs
        ]


class Memo:
    """What is known of runs that are alike, in one simulation; of each, when it last did something, if ``timed``."""

    def __init__(self, judge: Judge, take: Take, *, timed: bool = False) -> None:
        self.book = Book()
        self._judge = judge
        self._take = take
        self._timed = timed
        self._fitting: dict[tuple[int, int, bytes], bool] = {}

    def enter(self, report: DeployReport, hit: Hit) -> None:
        """Enter a run that is like one that was judged."""
        said: _Said = hit.template.verdict
        part, counted = said.report, said.counted
        report.examined += part.examined
        report.in_flight += part.in_flight
        report.skipped += part.skipped
        report.unheld += part.unheld
        if part.lineage.open:
            report.lineage.see_alike(part.lineage, hit.execution_id)
        if part.runs:
            report.finding_rows += said.findings_of(hit.execution_id, hit.path, hit.numbers)
            at = rfc3339_of(hit.time) if self._timed and hit.time is not None else said.at
            report.run_rows += said.runs_of(hit.execution_id, hit.path, at)
        if counted:
            self._judge.compared.count(counted)

    def learn(self, text: Text) -> None:
        """Make a template of a run that was judged the long way, if there are many like it and it can be one."""
        log = text.log
        try:
            state = log.state
        except LogError:
            return
        look = (log.workflow_id, state.status, *(event.event_type for event in log.events), *state.frames)
        if self._may(log, text.template.source) and self.book.wants(look, len(text.text)):
            template = text.template.of(text.text, log, over=not state.in_flight)
            if template is not None and self._is_certain(template, log):
                self.book.add(template)

    def _may(self, log: Log, source: str) -> bool:
        """Whether no code had a say in the verdict, and it is a run whose record says whose it is."""
        if (
            (log.source, log.engine) != (source, "journal")
            or has_upcasters()
            or log.workflow_id == UNNAMED
            or names_said(log)
        ):
            return False
        code = [flow for flow in self._judge.today.asked() if not isinstance(flow, _DATA)]
        return all(isinstance(flow, Flow) for flow in code) and not (code and log.state.in_flight)

    def _is_certain(self, template: Alike, log: Log) -> bool:
        """Judge the twin; whether it is told the same as the run. Then ``template`` has its verdict and its pattern."""
        said = self._judged(log)
        if said is None:
            return False
        holes = template.holes()
        checks = {place: schemas for place, schemas in self._checks(log).items() if place in holes}
        apart = (recorded_input, recorded_outputs) if checks else ()  # which find nothing in the values of this run
        kept: set[Place] = set()
        seen = None
        for _ in range(_TRIES):
            twin = template.twin(kept)
            if twin is None:
                return False
            with self._judge.without(*apart):
                seen = self._judged(twin)
            line = None if seen is None else _unread(seen.report)
            if line is None:
                break
            read = {place for place in holes if place[0] == line} - kept
            if not read:
                return False
            kept |= read
        if seen is None or not _is_same(said, seen, log):
            return False
        template.compile(kept)
        template.verdict = said
        template.check = self._check(template, log, {place: checks[place] for place in checks.keys() - kept})
        return True

    def _judged(self, log: Log) -> _Said | None:
        """What is said of one run; nothing is entered. None where a check cannot bear it, or notes what is new."""
        part = DeployReport()
        compared, today = self._judge.compared, self._judge.today
        before, notes = compared.counts(), list(today.notes)
        with suppress(LoomError):
            self._take(part, log)
        more = [now - then for now, then in zip_longest(compared.counts(), before, fillvalue=0)]
        compared.count(-runs for runs in more)
        if notes != today.notes or not part.examined + part.skipped:
            today.notes = notes
            return None
        numbers = {event.line: place for place, event in enumerate(log.events)}
        places = [None if found.line is None else numbers.get(found.line, -1) for found in part.findings]
        at = rfc3339(log.state.last_event) if self._timed else None
        return _Said(part, more if any(more) else [], places, at)

    def _checks(self, log: Log) -> dict[Place, tuple[Any, Any]]:
        """The values that are held against a schema of today's, with yesterday's and today's; {} where one is unfit."""
        today = self._judge.today.of(log.workflow_id, _version(log)) if log.state.in_flight else None
        if today is None or not isinstance(today[1], _DATA):
            return {}
        found = {}
        for event, field, old, new in read_values(log, today[0], self._judge.yesterday_of(log)):
            try:
                wrong = problems(old, new, event.payload.get(field))
            except LogError:
                return {}
            if wrong:
                return {}
            found[event.sequence - 1, field] = (old, new)
        return found

    def _check(self, template: Alike, log: Log, values: dict[Place, tuple[Any, Any]]) -> Callable[[Hit], bool]:
        """What has to be true of another run: it is not imported if this one is not, it was started on the same
        contract, and its values fit."""
        is_kept = self._judge.kept is not None and template.verdict.report.examined > 0
        manifest = log.state.manifest
        yesterday = self._judge.yesterday_of(log) if is_kept else None
        start = template.places.get((0, "input"))
        may_be_imported = may_say(bytes(log.events[0].raw))
        checked = [(template.places[place], *schemas) for place, schemas in values.items()]
        all_fit = fitting([(old, new) for _, old, new in checked])

        def check(hit: Hit) -> bool:
            if has_upcasters():
                return False
            if start is not None and may_say(hit.holes[start]) and not (may_be_imported and _is_read(hit.holes[start])):
                return False
            if is_kept:
                if hit.time is None:
                    return False
                if self._judge.kept_for(log.workflow_id, manifest, hit.time) is not yesterday:
                    return False
            found = [hit.holes[place] for place, _, _ in checked]
            return all_fit(found) or all(
                self._fits(old, new, value) for (_, old, new), value in zip(checked, found, strict=True)
            )

        return check

    def _fits(self, old: Any, new: Any, value: bytes) -> bool:
        """Whether nothing is wrong with a recorded value; what has been looked at closely is known."""
        if fits(old, new, value):
            return True
        key = (id(old), id(new), value)
        if key in self._fitting:
            return self._fitting[key]
        try:
            is_fit = not problems(old, new, _decode(value))
        except UNDECODABLE:
            is_fit = False
        if len(value) <= _SHORT:
            if len(self._fitting) >= _KEPT:
                self._fitting.clear()
            self._fitting[key] = is_fit
        return is_fit


_DATA = (Contract, Mapping, str, os.PathLike)


def _is_read(value: bytes) -> bool:
    try:
        _decode(value)
    except UNDECODABLE:
        return False
    return True


def _version(log: Log) -> str | None:
    said = log.state.manifest.get("flowVersion")
    return said if isinstance(said, str) else None


def _unread(report: DeployReport) -> int | None:
    """The line (from 0) that could not be read, where one could not."""
    for run in report.runs:
        if run.status == "unreadable":
            line = report.findings[-1].source.rpartition(":")[2]
            return int(line) - 1 if line.isdecimal() else -1
    return None


def _is_same(said: _Said, seen: _Said, log: Log) -> bool:
    """Whether the same is said of the run and of its twin."""
    counts = [(one.report.examined, one.report.in_flight, one.report.skipped, one.report.notes) for one in (said, seen)]
    if counts[0] != counts[1] or seen.counted != said.counted or -1 in seen.places:
        return False
    if not said.report.lineage.is_like(seen.report.lineage):
        return False
    findings = seen.findings_of(log.execution_id, log.path, [event.line for event in log.events])
    runs = seen.runs_of(log.execution_id, log.path, None)
    return _told(findings, runs) == _told(said.report.findings, said.report.runs)


def _told(findings: Iterable[Finding], runs: Iterable[RunResult]) -> list[dict[str, Any]]:
    """All that a report holds of them: the facts beside a finding, too, which do not tell two findings apart."""
    return [*(one.as_dict() for one in findings), *(one.as_dict() for one in runs)]
