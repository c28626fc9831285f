"""What became of the mutants of ``--loom-mutate``: put together from tests and workers, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pytest_loom.deploy.flow_mutants import OPERATORS as FLOW
from pytest_loom.deploy.flow_trials import Trial
from pytest_loom.errors import printable, set_in
from pytest_loom.evals.operators import OPERATORS as GOLDEN

_ORDER = {operator: place for place, operator in enumerate((*GOLDEN, *FLOW))}
_SHOWN = 5
"""How many of a kind a terminal shows."""


@dataclass
class Fate:
    """One mutant: what was changed of what, who looked at it and passed, and whether anybody noticed.

    ``subject`` is the golden's file or the flow, ``run`` the execution; ``ask`` says what to assert where it survives.
    ``excuse``: why nobody has to notice it.
    """

    operator: str
    subject: str
    run: str
    what: str
    ask: str
    noticed: bool = False
    looked: list[str] = field(default_factory=list)
    excuse: str = ""

    @property
    def state(self) -> Literal["killed", "equivalent", "survived"]:
        """What is counted."""
        return "killed" if self.noticed else "equivalent" if self.excuse else "survived"


@dataclass
class Asked:
    """One test: how many mutants it ran with, how many it noticed, how many it was spared for there being so many.

    ``sampled``: there were more mutants of its goldens than were made. ``steady``: it passes when it is run again.
    """

    mutants: int = 0
    noticed: int = 0
    spared: int = 0
    sampled: bool = False
    steady: bool = True

    @property
    def is_blind(self) -> bool:
        """Whether it passed with every mutant that there is of its goldens."""
        return self.steady and self.mutants > 0 and not (self.noticed or self.spared or self.sampled)


class MutationReport:
    """All mutants of a session by a key of their own, and the tests that were asked."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.tests: dict[str, Asked] = {}
        self.notes: list[str] = []
        self._trials: dict[str, Trial] = {}

    def look(self, name: str, fate: Fate) -> Fate:
        """The mutant ``name`` of the fate's subject and run, as far as it is known."""
        return self.fates.setdefault("\n".join((fate.subject, fate.run, name)), fate)

    def add(self, packed: dict[str, Any]) -> None:
        """Take over what another process found (``as_packed``)."""
        for key, facts in packed["fates"].items():
            other = Fate(**facts)
            known = self.fates.setdefault(key, other)
            known.noticed |= other.noticed
            known.looked = list(dict.fromkeys([*known.looked, *other.looked]))
            known.excuse = known.excuse or other.excuse
        self.tests.update((nodeid, Asked(**facts)) for nodeid, facts in packed["tests"].items())
        self.notes += [note for note in packed["notes"] if note not in self.notes]

    def as_packed(self) -> dict[str, Any]:
        """The report as plain data, to cross process borders."""
        return {
            "fates": {key: asdict(fate) for key, fate in self.fates.items()},
            "tests": {nodeid: asdict(asked) for nodeid, asked in self.tests.items()},
            "notes": self.notes,
        }

    def add_trials(self, nodeid: str, trials: Mapping[str, Any]) -> None:
        """Take over what one simulation made of mutants of today's flows (``Trial``, by name, as plain data)."""
        for name, facts in trials.items():
            trial = Trial(**facts)
            known = self._trials.setdefault(f"{trial.flow} {name}", trial)
            if known is not trial:
                known.add(trial)
            fate = Fate(trial.operator, f"flow {trial.flow}", "", trial.what, "")
            fate = self.look(name, fate)
            fate.noticed, fate.excuse, fate.ask = known.noticed, known.excuse, known.ask
            if trial.judged and not trial.noticed:
                fate.looked.append(nodeid)

    @property
    def survivors(self) -> list[Fate]:
        """The mutants that nobody noticed and somebody should have."""
        return self.those("survived")

    def those(self, state: str) -> list[Fate]:
        """The mutants that fared so, operator by operator, in one order whoever ran them."""
        found = [(_ORDER[fate.operator], key, fate) for key, fate in self.fates.items() if fate.state == state]
        return [fate for _, _, fate in sorted(found, key=lambda entry: entry[:2])]

    @property
    def blind(self) -> list[str]:
        """The tests that noticed nothing, whatever their golden said."""
        return sorted(nodeid for nodeid, asked in self.tests.items() if asked.is_blind)

    @property
    def ok(self) -> bool:
        """Whether there were mutants, and nothing survived."""
        return bool(self.fates) and not self.survivors and not self.blind

    def counts(self) -> dict[str, dict[str, int]]:
        """For each operator how many mutants were made, killed, survived and are equivalent."""
        made = {fate.operator for fate in self.fates.values()}
        names = ("mutants", "killed", "survived", "equivalent")
        table = {operator: dict.fromkeys(names, 0) for operator in _ORDER if operator in made}
        for fate in self.fates.values():
            table[fate.operator]["mutants"] += 1
            table[fate.operator][fate.state] += 1
        return table

    def as_dict(self) -> dict[str, Any]:
        """What ``report.json`` holds under ``mutants``: the same for the same mutants, whoever ran them."""

        def told(state: str) -> list[dict[str, Any]]:
            return [
                {
                    "operator": fate.operator,
                    "subject": fate.subject,
                    "execution_id": fate.run,
                    "what": fate.what,
                    **({"reason": fate.excuse} if fate.excuse else {"looked": sorted(fate.looked), "assert": fate.ask}),
                }
                for fate in self.those(state)
            ]

        return {
            "ok": self.ok,
            "operators": self.counts(),
            "survivors": told("survived"),
            "equivalent": told("equivalent"),
            "blind_tests": self.blind,
            "unsteady_tests": sorted(nodeid for nodeid, asked in self.tests.items() if not asked.steady),
            "spared": sum(asked.spared for asked in self.tests.values()),
            "notes": sorted(self.notes),
        }


def mutation_lines(report: MutationReport, *, width: int = 80, verbose: bool = False) -> Iterator[str]:
    """The report for a terminal: the table, survivors in words, what is equivalent and why, the verdict last."""
    if report.fates:
        yield from _table(report)
    most = _SHOWN if not verbose else len(report.fates)
    yield from _survivor_lines(report.survivors, width, most)
    yield from _blind_lines(report, most)
    yield from _equivalent_lines(report, width, verbose)
    for nodeid, asked in sorted(report.tests.items()):
        if not asked.steady:
            yield f"note: {printable(nodeid, 200)} fails when it is run again, so it was not asked"
    spared = sum(asked.spared for asked in report.tests.values())
    if spared:
        yield f"note: {spared} mutants were not run, each with a test that has too many of them"
    yield from (f"note: {note}" for note in report.notes)
    yield _verdict(report)


def _table(report: MutationReport) -> Iterator[str]:
    names = ("mutants", "killed", "survived", "equivalent")
    yield f"{'':18}{''.join(f'{name:>12}' for name in names)}"
    for operator, row in report.counts().items():
        yield f"{operator:18}{''.join(f'{row[name] or chr(45):>12}' for name in names)}"


def _survivor_lines(survivors: list[Fate], width: int, most: int) -> Iterator[str]:
    groups: dict[str, list[Fate]] = {}
    for fate in survivors:
        groups.setdefault(fate.ask, []).append(fate)
    for ask, fates in groups.items():
        operators = ", ".join(dict.fromkeys(fate.operator for fate in fates))
        yield f"SURVIVED  {len(fates)} mutant{'' if len(fates) == 1 else 's'}: {operators}"
        for fate in fates[:most]:
            yield from set_in(f"{fate.subject}: {fate.what}", "  ", "    ", width=width, limit=400)
        if len(fates) > most:
            yield f"  and {len(fates) - most} more (-v shows them)"
        looked = sorted({nodeid for fate in fates for nodeid in fate.looked})
        if looked:
            yield "  looked and passed:"
            yield from (f"    {printable(nodeid, 200)}" for nodeid in looked[:most])
        if len(looked) > most:
            yield f"    and {len(looked) - most} more"
        yield from set_in(f"-> {ask}", "  ", "     ", width=width)


def _blind_lines(report: MutationReport, most: int) -> Iterator[str]:
    blind = report.blind
    if blind:
        yield f"BLIND  {len(blind)} test{'' if len(blind) == 1 else 's'} passed with every mutant of the goldens used:"
        yield from (f"  {printable(nodeid, 200)}, {report.tests[nodeid].mutants} mutants" for nodeid in blind[:most])
        if len(blind) > most:
            yield f"  and {len(blind) - most} more (-v shows them)"
        yield "  -> Assert something about the golden, or take it out of the test."


def _equivalent_lines(report: MutationReport, width: int, verbose: bool) -> Iterator[str]:
    groups: dict[tuple[str, str], list[Fate]] = {}
    for fate in report.those("equivalent"):
        groups.setdefault((fate.operator, fate.excuse), []).append(fate)
    for (operator, excuse), fates in groups.items():
        yield from set_in(f"{operator}, {len(fates)}: {excuse}", "equivalent  ", "  ", width=width)
        for fate in fates if verbose else fates[:1]:
            yield from set_in(f"{fate.subject}: {fate.what}", "    ", "      ", width=width, limit=400)
        if len(fates) > 1 and not verbose:
            yield f"    and {len(fates) - 1} more (-v shows them)"


def _verdict(report: MutationReport) -> str:
    total = len(report.fates)
    if not total:
        return "NOTHING WAS MUTATED: no test that passed uses a golden, and no flow was held against a log"
    states = [fate.state for fate in report.fates.values()]
    equivalent = states.count("equivalent")
    more = f", {equivalent} equivalent" if equivalent else ""
    mutants = f"{total} mutant{'' if total == 1 else 's'}"
    blind = f"; {len(report.blind)} test{' is' if len(report.blind) == 1 else 's are'} blind" if report.blind else ""
    if report.survivors:
        return f"{len(report.survivors)} of {mutants} SURVIVED{more}{blind}"
    return f"no mutant of {total} survived{more}{blind}"
