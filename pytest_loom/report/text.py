"""The deploy report as text for a terminal: findings grouped by cause, what would happen, to whom, what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_loom.deploy.report import DeployReport, Finding
from pytest_loom.errors import printable, set_in

_SHOWN = 3
_ORDER = {"breaking": 0, "warning": 1, "info": 2}


def verdict_line(report: DeployReport) -> str:
    """One line: does anything speak against this deploy, and how many runs say so?"""
    numbers = report.summary()
    hurt = len({(found.execution_id, found.source) for found in report.findings if found.blocks})
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


def cause_lines(findings: Iterable[Finding], *, width: int = 80) -> Iterator[str]:
    """The causes in short, for the failure of one log file: the code, the place, what would happen, in which line."""
    causes: dict[tuple[str, str, str | None], list[Finding]] = {}
    for found in findings:
        causes.setdefault((found.code, found.workflow_id, found.step), []).append(found)
    for group in causes.values():
        first = group[0]
        yield f"{printable(first.code)}: {_place(first)}{_count(group)}"
        yield from set_in(first.message, "  ", width=width)
        if first.source.rpartition(":")[2].isdecimal():
            yield f"    {printable(first.source, 200)}"


def finding_lines(findings: Iterable[Finding], *, width: int = 80, shown: int = _SHOWN) -> Iterator[str]:
    """The findings grouped by cause, worst first; of each cause ``shown`` runs by name and the rest as a number."""
    causes: dict[tuple[str, str, str, str | None], list[Finding]] = {}
    for found in findings:
        causes.setdefault((found.severity, found.code, found.workflow_id, found.step), []).append(found)
    for (severity, code, _, _), group in sorted(causes.items(), key=_weight):
        accepted = sum(found.acknowledged is not None for found in group)
        group.sort(key=lambda found: found.acknowledged is not None)
        first = group[0]
        state = "acknowledged" if accepted == len(group) else severity
        version_of_all = len({found.version for found in group}) == 1
        yield f"{state}  {printable(code)}  {_place(first, version=version_of_all)}{_count(group)}"
        yield from set_in(first.message, "  ", width=width)
        for found in group[:shown]:
            name = printable(found.execution_id) or "(no execution named)"
            version = f" ({printable(found.version, 40)})" if found.version is not None and not version_of_all else ""
            yield f"    {name}{version}  {printable(found.source, 200)}"
            if found.message != first.message:
                yield from set_in(found.message, "      ", width=width)
            if found.acknowledged:
                yield from set_in(f"acknowledged by {found.acknowledged}", "      ", width=width)
        if len(group) > shown:
            yield f"    and {len(group) - shown} more (all are in the report: --loom-report=report.json)"
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
    ways = [run.strategies for run in report.runs if run.strategies]
    if len(ways) < 2 or all(set(way.values()) == {"resume"} for way in ways):
        return
    yield f"strategies for {len(ways)} unfinished runs:"
    yield f"  {'':20}{'go on':>10}{'need a person':>16}{'stranded':>12}"
    for strategy, row in report.strategies().items():
        yield f"  {strategy:20}{row['go_on']:>10}{row['need_a_person']:>16}{row['stranded']:>12}"


def _place(found: Finding, *, version: bool = False) -> str:
    flow = printable(found.workflow_id) if found.workflow_id else "unknown flow"
    flow += f" {printable(found.version, 40)}" if version and found.version is not None else ""
    return f"{flow}, step {printable(found.step)}" if found.step else flow


def _count(group: list[Finding]) -> str:
    return f", {len(group)} runs" if len(group) > 1 else ""


def _weight(cause: tuple[tuple[str, str, str, str | None], list[Finding]]) -> tuple[int, bool]:
    (severity, *_), group = cause
    return _ORDER[severity], all(found.acknowledged is not None for found in group)
