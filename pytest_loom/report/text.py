"""The deploy report as text for a terminal: findings grouped by cause, what would happen, to whom, what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_loom.deploy.report import DeployReport, Finding
from pytest_loom.errors import printable, set_in

_SHOWN = 3
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

    ``key`` is severity, code, flow and step: no other cause of a report has the same.
    """

    __slots__ = ("_accepted", "_open", "_shown", "accepted", "count", "key", "severity", "versions")

    def __init__(self, key: tuple[str, str, str, str | None], shown: int) -> None:
        self.key = key
        self.severity = key[0]
        self.count = 0
        self.accepted = 0
        self.versions: set[str | None] = set()
        self._shown = shown
        self._open: list[Finding] = []
        self._accepted: list[Finding] = []

    def add(self, found: Finding) -> None:
        """One more."""
        self.count += 1
        self.accepted += found.acknowledged is not None
        if len(self.versions) < 2:  # more is not asked
            self.versions.add(found.version)
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
    found: dict[tuple[str, str, str, str | None], Cause] = {}
    for one in findings:
        key = (one.severity, one.code, one.workflow_id, one.step)
        if key not in found and len(found) >= _CAUSES:
            key = (one.severity, one.code, one.workflow_id, None)  # where steps are made up as runs go on
        if key not in found and len(found) >= 2 * _CAUSES:
            key = (one.severity, one.code, OTHERS, None)
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


def finding_lines(
    findings: Iterable[Finding], *, width: int = 80, shown: int = _SHOWN, option: str = "--loom-report"
) -> Iterator[str]:
    """The findings grouped by cause, worst first; of each cause ``shown`` runs by name and the rest as a number.

    ``option`` is what writes a report with all of them.
    """
    for cause in causes(findings, shown):
        first = cause.examples[0]
        version_of_all = len(cause.versions) == 1
        yield f"{cause.state}  {printable(first.code)}  {_place(first, version=version_of_all)}{_count(cause)}"
        yield from set_in(first.message, "  ", width=width)
        for found in cause.examples:
            name = printable(found.execution_id) or "(no execution named)"
            version = f" ({printable(found.version, 40)})" if found.version is not None and not version_of_all else ""
            yield f"    {name}{version}  {printable(found.source, 200)}"
            if found.message != first.message:
                yield from set_in(found.message, "      ", width=width)
            if found.acknowledged:
                yield from set_in(f"acknowledged by {found.acknowledged}", "      ", width=width)
        if cause.count > shown:
            yield f"    and {cause.count - shown} more (all are in the report: {option}=report.json)"
        yield from set_in(f"-> {first.hint}", "  ", "     ", width=width)


def contract_lines(report: DeployReport, *, width: int = 80) -> Iterator[str]:
    """What changed in the contracts that unfinished runs are on: whom it hurts, and which number stood still."""
    for changed in report.changed:
        runs = f"{changed.runs} unfinished run{'' if changed.runs == 1 else 's'}"
        yield f"contract  {printable(changed.workflow_id)} {changed.was[:8]} -> {changed.now[:8]}, {runs}"
        for effect in ("breaking", "unknown", "additive"):
            details = [change.detail for change in changed.changes if change.effect == effect]
            more = f"; and {len(details) - _SHOWN} more" if len(details) > _SHOWN else ""
            if details:
                yield from set_in(f"{effect}: {'; '.join(details[:_SHOWN])}{more}", "  ", "    ", width=width)
        words = sum(change.effect == "cosmetic" for change in changed.changes)
        if words:
            yield f"  cosmetic: {words}"
        if changed.unmoved:
            yield from set_in(f"{', '.join(changed.unmoved)} should have moved", "  ", "    ", width=width)


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
