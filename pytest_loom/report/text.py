"""The deploy report as text for a terminal: findings grouped by cause, what would happen, to whom, what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import DeployReport, Finding
from pytest_loom.deploy.rows import Rows
from pytest_loom.errors import printable, set_in
from pytest_loom.report.since import change_of, since_lines
from pytest_loom.report.ways import ON_RESUME, ways_of

Key = tuple[str, str, str, str | None]
"""What a cause is told apart by: severity, code, flow and step."""

MOST = 12
"""How many causes a screen has room for."""

_SHOWN = 3
_CONTRACTS = 5
_ENGINES = 5
_ORDER = {"breaking": 0, "warning": 1, "info": 2}
_CAUSES = 1000
"""How many causes are told apart by step; and as many again by flow."""

OTHERS = "other flows"
"""The flow of a cause that is of more flows than are told apart."""


def verdict_line(report: DeployReport) -> str:
    """One line: does anything speak against this deploy, and how many runs say so?"""
    numbers = report.summary()
    hurt = report.hurt()
    runs = f"{numbers['runs']} run{'' if numbers['runs'] == 1 else 's'}"
    if not report.ok:
        head = f"NOT SAFE TO DEPLOY: {hurt} of {runs} would break"
    elif not numbers["runs"]:
        head = "no unfinished run, so nothing can break"
    else:
        head = f"no breaking change found for {runs}, {numbers['in_flight'] or 'none'} of them unfinished"
    warnings = f"{numbers['warnings']} warning{'' if numbers['warnings'] == 1 else 's'}"
    more = [warnings] if numbers["warnings"] else []
    more += [f"{numbers['acknowledged']} acknowledged"] if numbers["acknowledged"] else []
    more += [f"{numbers['out_of_scope']} finished left out"] if numbers["out_of_scope"] else []
    return ", ".join([head, *more])


class Cause:
    """Findings with one code, flow and step, as far as a reader needs them: how many, and the first of them.

    ``key`` is severity, code, flow and step: no other cause of a report has the same. ``engines`` has the first finding
    of each engine.
    """

    __slots__ = ("_accepted", "_open", "_shown", "accepted", "count", "engines", "key", "severity", "versions")

    def __init__(self, key: Key, shown: int) -> None:
        self.key = key
        self.severity = key[0]
        self.count = 0
        self.accepted = 0
        self.versions: set[str | None] = set()
        self.engines: dict[str | None, Finding] = {}
        self._shown = shown
        self._open: list[Finding] = []
        self._accepted: list[Finding] = []

    def add(self, found: Finding) -> None:
        """One more."""
        self.count += 1
        self.accepted += found.acknowledged is not None
        if len(self.versions) < 2:  # more is not asked
            self.versions.add(found.version)
        if len(self.engines) < _ENGINES:
            self.engines.setdefault(found.engine, found)
        examples = self._open if found.acknowledged is None else self._accepted
        if len(examples) < self._shown:
            examples.append(found)

    @property
    def examples(self) -> list[Finding]:
        """The first findings, those that nobody accepted before the others."""
        return [*self._open, *self._accepted][: self._shown]

    @property
    def state(self) -> str:
        """The severity, or that all of it is accepted."""
        return "acknowledged" if self.accepted == self.count else self.severity


def causes(findings: Iterable[Finding], shown: int) -> list[Cause]:
    """The findings by cause, worst first. Holds ``shown`` findings of each cause, and so many causes at most."""
    found: dict[Key, Cause] = {}
    for one in findings:
        exact, without_step, others = keys_of(one)
        key = exact
        if key not in found and len(found) >= _CAUSES:
            key = without_step  # where steps are made up as runs go on
        if key not in found and len(found) >= 2 * _CAUSES:
            key = others
        if key not in found:
            found[key] = Cause(key, shown)
        found[key].add(one)
    return sorted(found.values(), key=lambda cause: (_ORDER[cause.severity], cause.state == "acknowledged"))


def cause_lines(findings: Iterable[Finding], *, width: int = 80) -> Iterator[str]:
    """The causes in short, for the failure of one log file: the code, the place, what would happen, in which line."""
    for cause in causes(findings, 1):
        (first,) = cause.examples
        yield f"{printable(first.code)}: {_place(first)}{_count(cause)}"
        yield from set_in(first.message, "  ", width=width)
        if first.source.rpartition(":")[2].isdecimal():
            yield f"    {printable(first.source, 200)}"


def keys_of(found: Finding) -> tuple[Key, Key, Key]:
    """The causes that a finding may belong to: the first of them that there is."""
    first = (found.severity, found.code, found.workflow_id, found.step)
    return first, (*first[:3], None), (*first[:2], OTHERS, None)


def by_cause(findings: Iterable[Finding], grouped: Sequence[Cause]) -> Iterator[tuple[Cause, Iterator[Finding]]]:
    """All findings, cause by cause in the order of ``grouped`` (``causes`` of the same ones), few of them in memory.

    Those that nobody accepted come first, then by run.
    """
    ranks: Mapping[Key, int] = {cause.key: rank for rank, cause in enumerate(grouped)}

    def rank(found: Finding) -> int:
        return next(ranks[key] for key in keys_of(found) if key in ranks)

    def order(found: Finding) -> tuple[int, bool, str, str]:
        return rank(found), found.acknowledged is not None, found.execution_id, found.source

    for number, group in groupby(Rows(Finding, order, findings).in_order(), key=rank):
        yield grouped[number], group


def finding_lines(
    findings: Iterable[Finding],
    *,
    width: int = 80,
    shown: int = _SHOWN,
    most: int | None = None,
    changed: Sequence[ChangedContract] = (),
    option: str = "--loom-report",
) -> Iterator[str]:
    """The findings grouped by cause, worst first; of each cause ``shown`` runs by name and the rest as a number.

    Of more than ``most`` causes the rest is a number, too. ``changed``: the contracts that changed, so that a cause is
    told since which change it is there. ``option`` is what writes a report with all runs.
    """
    grouped = causes(findings, shown)
    for cause in grouped[:most]:
        yield from _head_lines(cause, width)
        for found in cause.examples:
            yield from _run_lines(found, cause, width)
        if cause.count > shown:
            yield f"    and {cause.count - shown} more (all are in the report: {option}=report.json)"
        yield from _since_lines(cause, changed, width)
        yield from set_in(f"-> {cause.examples[0].hint}", "  ", "     ", width=width)
    if most is not None and len(grouped) > most:
        yield f"and {len(grouped) - most} more causes (-v shows all of them)"


def full_lines(
    findings: Iterable[Finding], *, width: int = 80, changed: Sequence[ChangedContract] = ()
) -> Iterator[str]:
    """The findings with all of their runs, the facts beside them, and each way out with what to paste (``-v``)."""
    rows = Rows(Finding, lambda found: (found.execution_id, found.source), findings)
    for cause, group in by_cause(rows, causes(rows, 1)):
        yield from _head_lines(cause, width)
        for found in group:
            yield from _run_lines(found, cause, width)
            if found.recorded is not None and cause.count > 1:
                yield from set_in(found.recorded, "      ", width=width)
        yield from _fact_lines(cause, changed, width)
        first = cause.examples[0]
        yield from set_in(f"-> {first.hint}", "  ", "     ", width=width)
        for way in ways_of(cause.engines.values()):
            if not way.said:
                yield from set_in(f"{way.name}: {way.what}", "  ", "     ", width=width)
                yield from (f"       {printable(line, 200)}" for line in way.code.splitlines())


def _head_lines(cause: Cause, width: int) -> Iterator[str]:
    first = cause.examples[0]
    place = _place(first, version=len(cause.versions) == 1)
    yield f"{cause.state}  {printable(first.code)}  {place}{_count(cause)}"
    yield from set_in(first.message, "  ", width=width)


def _run_lines(found: Finding, cause: Cause, width: int) -> Iterator[str]:
    name = printable(found.execution_id) or "(no execution named)"
    is_said = found.version is not None and len(cause.versions) > 1
    version = f" ({printable(found.version or '', 40)})" if is_said else ""
    yield f"    {name}{version}  {printable(found.source, 200)}"
    if found.message != cause.examples[0].message:
        yield from set_in(found.message, "      ", width=width)
    if found.acknowledged:
        yield from set_in(f"acknowledged by {found.acknowledged}", "      ", width=width)


def _fact_lines(cause: Cause, changed: Sequence[ChangedContract], width: int) -> Iterator[str]:
    first = cause.examples[0]
    facts = {"recorded": first.recorded if cause.count == 1 else None}
    if first.severity == "breaking":
        facts |= {"today": first.today, "on resume": ON_RESUME.get(first.code)}
    for name, said in facts.items():
        if said:
            yield from set_in(f"{name}: {said}", "  ", "    ", width=width)
    yield from _since_lines(cause, changed, width)


def _since_lines(cause: Cause, changed: Sequence[ChangedContract], width: int) -> Iterator[str]:
    _, code, flow, step = cause.key
    for line in since_lines(code, flow, step, changed):
        yield from set_in(f"since {line}", "  ", "    ", width=width)


def contract_lines(report: DeployReport, *, width: int = 80, full: bool = False) -> Iterator[str]:
    """What changed in the contracts that unfinished runs are on: whom it hurts, and which number stood still.

    Not ``full``: the first few of them, and the first few changes of each.
    """
    for changed in report.changed if full else report.changed[:_CONTRACTS]:
        runs = f"{changed.runs} unfinished run{'' if changed.runs == 1 else 's'}"
        yield f"contract  {printable(changed.workflow_id)} {changed.was[:8]} -> {changed.now[:8]}, {runs}"
        told = [changed.was_version, changed.now_version, changed.captured_at] if full else []
        if any(told):
            yield from set_in(change_of(changed), "  ", "    ", width=width)
        for effect in ("breaking", "unknown", "additive"):
            details = [change.detail for change in changed.changes if change.effect == effect]
            if full:
                for detail in details:
                    yield from set_in(f"{effect}: {detail}", "  ", "    ", width=width)
            elif details:
                more = f"; and {len(details) - _SHOWN} more" if len(details) > _SHOWN else ""
                yield from set_in(f"{effect}: {'; '.join(details[:_SHOWN])}{more}", "  ", "    ", width=width)
        words = sum(change.effect == "cosmetic" for change in changed.changes)
        if words:
            yield f"  cosmetic: {words}"
        if changed.unmoved:
            yield from set_in(f"{', '.join(changed.unmoved)} should have moved", "  ", "    ", width=width)
    if not full and len(report.changed) > _CONTRACTS:
        yield f"and {len(report.changed) - _CONTRACTS} more contracts that changed (-v shows all of them)"


def strategy_lines(report: DeployReport) -> Iterator[str]:
    """What each way to deploy would make of the unfinished runs.

    Nothing where all of them simply go on either way, and for one run alone: its verdict says it.
    """
    ways = plain = 0
    for run in report.runs:
        ways += bool(run.strategies)
        plain += bool(run.strategies) and set(run.strategies.values()) == {"resume"}
    if ways < 2 or ways == plain:
        return
    yield f"strategies for {ways} unfinished runs:"
    yield f"  {'':20}{'go on':>10}{'need a person':>16}{'stranded':>12}"
    for strategy, row in report.strategies().items():
        yield f"  {strategy:20}{row['go_on']:>10}{row['need_a_person']:>16}{row['stranded']:>12}"


def _place(found: Finding, *, version: bool = False) -> str:
    flow = printable(found.workflow_id) if found.workflow_id else "unknown flow"
    flow += f" {printable(found.version, 40)}" if version and found.version is not None else ""
    return f"{flow}, step {printable(found.step)}" if found.step else flow


def _count(cause: Cause) -> str:
    return f", {cause.count} runs" if cause.count > 1 else ""


PAINT = {
    "breaking": {"red": True, "bold": True},
    "acknowledged": {"yellow": True},
    "warning": {"yellow": True},
    "NOT SAFE TO DEPLOY": {"red": True, "bold": True},
    "NOT JUDGED": {"red": True, "bold": True},
    "no breaking change found": {"green": True},
}
"""How the words that weigh are painted, in the names that pytest's terminal writer has for colours."""


def weight(line: str) -> str:
    """The word of ``PAINT`` that a line of the report begins with; "" where it begins with none.

    Lines that tell what a log says are set in, or begin with a word of ours.
    """
    return next((word for word in PAINT if line.startswith(word) and line[len(word) : len(word) + 1] in ":, "), "")
