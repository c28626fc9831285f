"""``simulate_rollout``: old and new workers side by side, and the way back (seed 003's rolling deploy).

While a deploy rolls out, a run is picked up by whichever worker is free, and after a rollback the old code reads what
the new code wrote. So each unfinished run is judged on both, and what the new code makes of it on the old code again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.contract.store import Captured, Contracts, load_contracts
from pytest_loom.deploy.decide import Judge, ResumeDecision, Today, unreadable
from pytest_loom.deploy.native import replay_of
from pytest_loom.deploy.report import Finding, Severity
from pytest_loom.deploy.rollback import READ_FIRST, Side, way_back
from pytest_loom.deploy.simulate import surviving
from pytest_loom.errors import LogError, printable, set_in
from pytest_loom.flow.definition import Flow
from pytest_loom.log.event import Log
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.log.upcast import current_version, isolated_upcasters, registered, upcaster
from pytest_loom.resume.policy import FINE, Verdict, load_policy

_SHOWN = 10
_WIDTH = 80
_NEVER_SAID = "suspended-carryover"
_SAVED = ("state", "plan")


@dataclass(frozen=True)
class RolloutRow:
    """One unfinished run: its verdict on the old code, on the new, and on the old again once the new has had it.

    ``after_rollback`` is None where the new code writes nothing of the run, since it does not take it or is not at hand
    as code. The findings are those behind each verdict; ``found_after_rollback`` has what the old code alone would not
    have found.
    """

    execution_id: str
    workflow_id: str
    status: str
    on_old: Verdict
    on_new: Verdict
    after_rollback: Verdict | None
    found_on_old: tuple[Finding, ...] = ()
    found_on_new: tuple[Finding, ...] = ()
    found_after_rollback: tuple[Finding, ...] = ()


@dataclass
class RolloutReport:
    """The outcome of ``simulate_rollout``; its text is a table for the terminal, the verdict on a rollback first.

    ``rows`` are the unfinished runs, ``structure`` what the contracts say of runs that the new code has yet to touch;
    ``notes`` say what was not looked at.
    """

    rows: list[RolloutRow] = field(default_factory=list)
    structure: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """Everything that was found, each thing once."""
        found = [one for row in self.rows for one in (*row.found_on_old, *row.found_on_new, *row.found_after_rollback)]
        return list(dict.fromkeys([*found, *self.structure]))

    @property
    def ok(self) -> bool:
        """Whether either worker may pick up any run at any time, and the way back is open too."""
        return not any(found.blocks for found in self.findings)

    @property
    def rollback_ok(self) -> bool:
        """Whether the old code reads what the new code writes."""
        stranded = any(row.after_rollback not in (None, *FINE) for row in self.rows)
        return not stranded and not any(found.blocks for found in self.structure)

    def __str__(self) -> str:
        """The verdict, the runs by what becomes of them, and the causes, within 80 columns."""
        notes = (f"note: {note}" for note in self.notes)
        return "\n".join([*_verdict(self), *_table(self.rows), *_causes(self), *notes])


def simulate_rollout(
    logs: Iterable[Log] | Log | str | os.PathLike[str],
    old: Any,
    new: Any,
    *,
    contract: Any = None,
    policy: Any = None,
) -> RolloutReport:
    """Whether old and new workers can work on these runs side by side, and whether the deploy can be taken back.

    ``old`` and ``new`` are what ``simulate_deploy`` takes as ``flows``, ``logs``, ``contract`` and ``policy`` too;
    without ``contract`` that of ``old`` is taken for what its runs were started on. Nothing live is run.

    After a rollback: what the new code writes of each run that it takes, up to where the run stands (a replay; flows
    that are data have none), is judged on the old code. What it may write after that, and in runs that are started on
    it, is told by the contracts of every workflow that has a log here. A migration's inverse counts as a way back, so
    the old workers must have it, or it is applied before they take over. Upcasters have no way back: the old code is
    taken to know the versions of events that its own runs have.

    Raises as ``simulate_deploy`` does; a log that cannot be read is a row.
    """
    if isinstance(logs, (str, os.PathLike)):
        from pytest_loom.sources import load_logs

        logs = load_logs(logs)
    elif isinstance(logs, Log):
        logs = [logs]
    then, now = Today(old), Today(new)
    kept = _OfOld(then) if contract is None else load_contracts(contract)
    rules = load_policy(policy)
    both = _Both(Judge(then, kept, rules), Judge(now, kept, rules))
    report = RolloutReport()
    taken = 0
    for item in surviving(logs):
        taken += 1
        row = both.row(item)
        report.rows += [] if row is None else [row]
    if not taken:
        raise LogError("no log to simulate", hint="An empty corpus proves nothing, so it is an error.")
    said = {(one.code, one.workflow_id, one.step) for row in report.rows for one in row.found_after_rollback}
    report.structure = [one for one in both.structure() if (one.code, one.workflow_id, one.step) not in said]
    report.notes = list(dict.fromkeys([*then.notes, *now.notes]))
    return report


class _OfOld(Contracts):
    """The old code's contracts, for runs that do not name another one."""

    def __init__(self, old: Today) -> None:
        super().__init__()
        self._old = old

    def kept(self, workflow_id: str) -> list[Captured]:
        found = self._old.of(workflow_id, None)
        return [] if found is None else [Captured(found[0], found[2])]

    def of(self, workflow_id: str, fingerprint: str | None, last_event_ms: float | None) -> Contract | None:
        kept = self.kept(workflow_id)
        return kept[0].contract if kept and fingerprint in (None, kept[0].fingerprint) else None

    def knows(self, workflow_id: str, fingerprint: str) -> bool:
        return True  # nobody says that these are all


class _Both:
    """Two deploys, and what was seen of the runs that are between them."""

    def __init__(self, old: Judge, new: Judge) -> None:
        self.old = old
        self.new = new
        self.workflows: dict[str, None] = {}
        self.read: dict[tuple[str, str], int] = {}
        """The newest version of each kind of event that runs of the old code have, by workflow."""

    def row(self, item: Log | LogError) -> RolloutRow | None:
        """What becomes of one run; None for one that is over."""
        if not isinstance(item, (Log, LogError)):
            raise TypeError(f"logs holds a {type(item).__name__}, not only Logs; load_logs(path) reads a file")
        try:
            if isinstance(item, LogError):
                raise item
            in_flight = item.state.in_flight
        except LogError as error:
            lost = unreadable(error, item if isinstance(item, Log) else None)
            named = (lost.execution_id, lost.workflow_id, "unreadable")
            return RolloutRow(*named, "reject", "reject", "reject", lost.findings, lost.findings)
        self.workflows[item.workflow_id] = None
        if not in_flight:
            return None
        on_new = self.new.decide(item)
        is_of_old = self._is_of_old(item)
        if is_of_old:
            for event in item.events:
                key = (item.workflow_id, event.event_type)
                self.read[key] = max(event.event_version, self.read.get(key, 0))
        written = self._written(item, on_new)
        with _as_written(item) if is_of_old and on_new.judged.upcasts else nullcontext():
            on_old = self.old.decide(item)
            read = None if written is None else self.old.decide(written)
        found = () if read is None else [_after(one) for one in _worth(read) if one not in on_old.findings]
        return RolloutRow(
            item.execution_id,
            item.workflow_id,
            item.state.status,
            on_old.verdict,
            on_new.verdict,
            None if read is None else read.verdict,
            _worth(on_old),
            _worth(on_new),
            tuple(found),
        )

    def _is_of_old(self, log: Log) -> bool:
        """Whether the run is one of the old code's own, as far as it says."""
        named, known = log.state.manifest.get("contractFingerprint"), _known(self.old.today, log)
        return named is None or (known is not None and named == known[2])

    def _written(self, log: Log, on_new: ResumeDecision) -> Log | None:
        """What the new code writes of a run up to where it stands; None where it does not, or is not at hand."""
        known = _known(self.new.today, log)
        if on_new.verdict not in FINE or on_new.verdict == "pin" or known is None or not isinstance(known[1], Flow):
            return None
        written = replay_of(log, known[1])
        return written if isinstance(written, Log) else None

    def structure(self) -> Iterator[Finding]:
        """What the contracts say of the way back, once a workflow."""
        for workflow_id in self.workflows:
            old, new = self.old.today.of(workflow_id, None), self.new.today.of(workflow_id, None)
            if old is None or new is None:
                continue
            yield from way_back(Side(old[0], isinstance(old[1], Flow)), Side(new[0], isinstance(new[1], Flow)))
            yield from self._newer_kinds(workflow_id, new[0])

    def _newer_kinds(self, workflow_id: str, contract: Contract) -> Iterator[Finding]:
        """Kinds of events that the new code writes in a version that the old code's runs do not have."""
        for kind in dict.fromkeys(one.kind for one in registered()):
            today, newest = current_version(kind), self.read.get((workflow_id, kind))
            if newest == today or not (newest or is_kernel_type(kind) or kind in (contract.gates or {})):
                continue
            seen = f"the old code's runs have it in version {newest} at most"
            seen = seen if newest else "no run here shows that the old code reads that"
            text = f"the new code writes {printable(kind)} in version {today}, and {seen}: events have no way back."
            severity: Severity = "breaking" if newest else "warning"
            yield Finding("schema-unknown", severity, workflow_id, "", kind, text, READ_FIRST, "")


def _known(today: Today, log: Log) -> tuple[Contract, Any, str] | None:
    said = log.state.manifest.get("flowVersion")
    return today.of(log.workflow_id, said if isinstance(said, str) else None)


@contextmanager
def _as_written(log: Log) -> Iterator[None]:
    """Read events as the code did that wrote the run: with no upcaster to versions that are not in it."""
    newest: dict[str, int] = {}
    for event in log.events:
        newest[event.event_type] = max(event.event_version, newest.get(event.event_type, 1))
    steps = registered()
    with isolated_upcasters():
        for one in steps:
            if one.from_version < newest.get(one.kind, 1):
                upcaster(one.kind, from_version=one.from_version)(one.function)
        yield


def _worth(decision: ResumeDecision) -> tuple[Finding, ...]:
    """What was found, without the word that a run waits."""
    return tuple(found for found in decision.findings if found.code != _NEVER_SAID)


def _after(found: Finding) -> Finding:
    """A finding of the old code on what the new code wrote, in words that say so."""
    hint = found.hint if found.step in _SAVED else READ_FIRST
    return replace(found, message=f"as the new code writes it, read by the old code: {found.message}", hint=hint)


# What is said -------------------------------------------------------------------------------------------------------


def _verdict(report: RolloutReport) -> Iterator[str]:
    total = len(report.rows)
    runs = f"{total or 'no'} unfinished run{'s' if total > 1 else ''}"
    back = sum(row.after_rollback not in (None, *FINE) for row in report.rows)
    if back:
        yield f"ROLLBACK NOT SAFE: {back} of {runs} could not go back"
    elif not report.rollback_ok:
        yield f"ROLLBACK NOT SAFE for what the new code may write yet ({runs})"
    else:
        yield f"rollback is safe: the old code reads what the new writes ({runs})"
    for name, verdicts in (("old", [row.on_old for row in report.rows]), ("new", [row.on_new for row in report.rows])):
        refused = sum(verdict not in FINE for verdict in verdicts)
        if refused:
            yield f"{refused} of {runs} would not go on with the {name} code"


def _table(rows: list[RolloutRow]) -> Iterator[str]:
    groups: dict[tuple[str, Verdict, Verdict, Verdict | None], int] = {}
    for row in rows:
        key = (row.workflow_id, row.on_old, row.on_new, row.after_rollback)
        groups[key] = groups.get(key, 0) + 1
    if groups:
        yield f"{'runs':>6}  {'flow':30}{'on old':12}{'on new':12}after a rollback"
    for (workflow_id, on_old, on_new, after), count in list(groups.items())[:_SHOWN]:
        yield f"{count:>6}  {printable(workflow_id, 28) or '?':30}{on_old:12}{on_new:12}{after or '-'}"
    if len(groups) > _SHOWN:
        yield f"        and {len(groups) - _SHOWN} more kinds of runs"


def _causes(report: RolloutReport) -> Iterator[str]:
    """What is breaking anywhere, and what there is to know of the way back, by cause."""
    causes: dict[tuple[str, str, str, str, str | None], list[Finding]] = {}
    sides = [
        ("on the old code", [one for row in report.rows for one in row.found_on_old if one.blocks]),
        ("on the new code", [one for row in report.rows for one in row.found_on_new if one.blocks]),
        ("after a rollback", [one for row in report.rows for one in row.found_after_rollback] + report.structure),
    ]
    for side, findings in sides:
        for one in findings:
            causes.setdefault((side, one.severity, one.code, one.workflow_id, one.step), []).append(one)
    for (side, severity, code, workflow_id, step), group in causes.items():
        place = f"{printable(workflow_id, 40)}{f', {printable(step, 40)}' if step else ''}"
        runs = f", {len(group)} runs" if len(group) > 1 else ""
        yield from set_in(f"{severity} {side}: {code}, {place}{runs}", "", "    ")
        yield from set_in(group[0].message, "  ", "  ")
        yield from set_in(f"-> {group[0].hint}", "  ", "     ")
