"""``check_resume``: may this run go on with today's code? Seed 003's pipeline, closed by default (DESIGN section 5).

Load the raw log, inspect its versions and manifest, decode, upcast and migrate what can be, reject, fork or hand over
what cannot, revalidate pending external actions, and only then resume. A deploy simulation asks this for each run.
"""

from __future__ import annotations

import difflib
import inspect
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import msgspec

from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import UNNAMED, contract_as, named_flows, own_name, patches_of, resolver_of
from pytest_loom.contract.store import Contracts, load_contracts
from pytest_loom.deploy import agents_shadow
from pytest_loom.deploy.attribution import ambiguous, attributed, candidates, names_said
from pytest_loom.deploy.changed import ChangedContract, Compared
from pytest_loom.deploy.checks import AS_DATA, BUILT_IN, FINISHED_TOO, Check, unnamed_wait
from pytest_loom.deploy.engines import asked
from pytest_loom.deploy.facts import told
from pytest_loom.deploy.handlers import pinned_worker
from pytest_loom.deploy.report import BREAKING, IDLE, Finding, finding, verdict_of
from pytest_loom.deploy.versions import contract_drift, contract_unknown
from pytest_loom.errors import (
    FlowError,
    LogError,
    LoomError,
    UnknownSchemaVersion,
    Unsupported,
    UpcastError,
    printable,
    set_in,
)
from pytest_loom.flow import guard
from pytest_loom.flow.approvals import PendingCall, migrated_calls, pending_calls
from pytest_loom.flow.carried import Carried, carried, carried_below
from pytest_loom.flow.definition import Flow
from pytest_loom.log.event import Log
from pytest_loom.log.origin import CONTRACT as CAPTURED_CONTRACT
from pytest_loom.log.read import check_events
from pytest_loom.log.upcast import current_version, registered
from pytest_loom.resume.policy import FINE, HIGH, Policy, Verdict, Worker, load_policy

_NOT_ALLOWED = {"resume": "approval-stale", "upcast": "upcast-missing", "migrate": "migration-missing"}
_ABOUT_A_CALL = frozenset({"tool-args", "approval-stale", "tool-missing", "effect-repeated"})


@dataclass(frozen=True)
class ResumeDecision:
    """What is to be done with one run.

    ``verdict``: ``resume``, ``upcast``, ``migrate``, ``pin`` (it goes on), ``reapprove``, ``fork``, ``manual``,
    ``reject`` (it does not, until somebody did something). ``findings`` say why, ``reasons`` all that was looked at
    and counts, ``next_step`` what to do or type.
    """

    execution_id: str
    workflow_id: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    reasons: tuple[str, ...]
    next_step: str
    judged: Judged

    @property
    def ok(self) -> bool:
        """Whether the run goes on without anybody doing anything."""
        return self.verdict in FINE

    def __str__(self) -> str:
        """The verdict, why, and what to do, for a terminal."""
        lines = [f"{printable(self.workflow_id)} {printable(self.execution_id)}: {self.verdict}"]
        for reason in self.reasons:
            lines += set_in(reason, "  ")
        return "\n".join([*lines, *set_in(f"-> {self.next_step}", "  ", "     ")])


@dataclass
class Judged:
    """What was seen of one run, before any policy: on it the table of strategies is computed.

    ``upcasts`` are (event kind, its version, today's), ``migrated`` what its saved state and plan became. ``worker`` is
    the kept worker that it belongs to. ``same``: its contract is today's; None where the run does not say its own.
    """

    findings: list[Finding] = field(default_factory=list)
    upcasts: list[tuple[str, int, int]] = field(default_factory=list)
    migrated: list[Carried] = field(default_factory=list)
    pending: list[PendingCall] = field(default_factory=list)
    worker: Worker | None = None
    same: bool | None = None
    in_flight: bool = True

    @property
    def verdict(self) -> Verdict:
        """What today's code alone would make of the run."""
        found = verdict_of(self.findings)
        if found != "resume":
            return found
        return "migrate" if self.migrated else "upcast" if self.upcasts else "resume"


def check_resume(
    log: Log, flow: Any, *, contract: Any = None, policy: Any = None, checks: Iterable[Check] = ()
) -> ResumeDecision:
    """Whether this run may be resumed with today's code, and what has to be done else (seed 003).

    ``flow`` is today's flow, its contract, or anything ``simulate_deploy`` takes as ``flows``; ``contract`` yesterday's
    contracts (one, a mapping of workflow ids, or the folder in which they were captured); ``policy`` what
    ``load_policy`` takes; ``checks`` are asked beside the built-in ones. Nothing live is run, and nothing is appended.

    A log that cannot be read is a decision too (``reject``). Raises FlowError where the flow or the contracts are not
    of a known shape, Unsupported for a trace, LoomError where a check raises or the policy is none.
    """
    if not isinstance(log, Log):
        raise TypeError(f"check_resume takes a Log, not a {type(log).__name__}; load_log(path) reads one")
    if log.engine == "trace":
        raise Unsupported(
            f"what the {log.source} source reads is a trace: nothing resumes it",
            hint="Compare it with diff_runs, and check the run itself where its engine keeps it.",
        )
    kept = None if contract is None else load_contracts(contract)
    return Judge(Today(flow), kept, load_policy(policy), checks).decide(log)


class Today:
    """Today's flows: each asked for once, with its contract and fingerprint; ``notes`` say what is not looked at."""

    def __init__(self, flows: Any) -> None:
        self.resolver = resolver_of(flows)
        self.named = list(named_flows(flows))
        self.notes: list[str] = []
        self.contracts: dict[str, Contract] = {}
        self._known: dict[tuple[str, str | None], tuple[Contract, Any, str] | None] = {}

    def of(self, workflow_id: str, version: str | None) -> tuple[Contract, Any, str] | None:
        """The contract of a workflow's flow, the flow, and the contract's fingerprint; None where the flow is gone."""
        key = (workflow_id, version)
        if key not in self._known:
            self._known[key] = self._ask(workflow_id, version)
        return self._known[key]

    def questions(self) -> list[tuple[str, str | None]]:
        """For which workflows in which versions runs have asked so far."""
        return list(self._known)

    def asked(self) -> list[Any]:
        """The flows that runs have asked for so far, as they were given."""
        return [known[1] for known in self._known.values() if known is not None]

    def patches(self, workflow_id: str) -> dict[str, str] | None:
        """The patches that today's code of a workflow names, and how; None where that cannot be told."""
        found = self.of(workflow_id, None)
        return None if found is None else patches_of(found[1])

    def is_kept(self, workflow_id: str, version: str | None) -> bool:
        """Whether the resolver still has the very version that a run was started on, beside a newer one or none."""
        found = self.of(workflow_id, version)
        if found is None or version is None or found[0].version != version:
            return False
        newest = self.of(workflow_id, None)
        return newest is None or (newest[2] != found[2] and newest[0].version != version)

    def _ask(self, workflow_id: str, version: str | None) -> tuple[Contract, Any, str] | None:
        name = printable(workflow_id)
        try:
            with guard.closed(during="while today's flow is looked up", hint=_LOOK_UP) as closed:
                flow = self.resolver(workflow_id, version)
            if closed.calls:
                raise closed.calls[0]
        except LoomError:
            raise
        except Exception as problem:
            what = f"asking for today's flow {name} raised {type(problem).__name__}: {problem}"
            raise FlowError(what, hint="A resolver says by None or KeyError that there is no such flow.") from problem
        if flow is not None and own_name(flow) not in (None, workflow_id):
            flow = None  # its engine looks for it by that name alone
        try:
            contract = None if flow is None else contract_as(flow, workflow_id)
        except LoomError as error:
            raise type(error)(f"today's flow {name}: {error.what}", path=error.path, hint=error.hint) from None
        if contract is None:
            return None
        if contract.steps is None and contract.engine != "checkpoint" and own_name(flow) is None:
            note = f"today's {name} says nothing of its steps, so they were not looked at"
            self.notes += [note] if note not in self.notes else []
        self.contracts.setdefault(workflow_id, contract)
        return contract, flow, fingerprint(contract)


class Judge:
    """Decides run by run: today's flows, yesterday's contracts, the policy and the checks, each looked up once."""

    def __init__(self, today: Today, kept: Contracts | None, policy: Policy, checks: Iterable[Check] = ()) -> None:
        self.today = today
        self.kept = kept
        self.policy = policy
        checks = tuple(checks)
        self._seen: set[str] = set()
        self._names: set[str] = set()
        of_all = [(check, _takes_three(check)) for check in (*BUILT_IN, *checks)]
        self._of_code = tuple(of_all)
        self._of_data = (*of_all, *((check, _takes_three(check)) for check in AS_DATA))
        self._of_finished = tuple((check, _takes_three(check)) for check in (*FINISHED_TOO, *checks))
        self.compared = Compared()
        self.own_checks = checks

    @contextmanager
    def without(self, *checks: Check) -> Iterator[None]:
        """Leave checks of data out for a while."""
        before = self._of_data
        self._of_data = tuple(one for one in before if one[0] not in checks)
        try:
            yield
        finally:
            self._of_data = before

    def decide(self, log: Log) -> ResumeDecision:
        """The decision about one run."""
        try:
            check_events(log.events)
            for event in log.state.received:
                _ = event.payload  # which nothing else may read, and a log that cannot be read is none
            log, judged = self._attributed(log)
        except LogError as error:
            return unreadable(error, log)
        return self._told(log, self._by_policy(log, judged))

    def _told(self, log: Log, decision: ResumeDecision) -> ResumeDecision:
        """The decision, with the facts that stand beside each finding."""
        if not decision.findings:
            return decision
        contract, flow, print_of_today = self.today.of(log.workflow_id, version_of(log)) or (None, None, "")
        engine = "native" if isinstance(flow, Flow) else log.source
        findings = tuple(told(found, log, contract, print_of_today, engine) for found in decision.findings)
        return replace(decision, findings=findings)

    def _attributed(self, log: Log) -> tuple[Log, Judged]:
        """What is seen of the run, as one of the flow that it belongs to where its record does not say so."""
        said = [log.workflow_id, *names_said(log)]
        known = next((name for name in said if self.today.of(name, version_of(log)) is not None), None)
        if known is not None and known != log.workflow_id:
            log = attributed(log, known)
        if known is not None or (log.workflow_id != UNNAMED and not (names_said(log) and self.today.named)):
            return log, self.judge(log)
        possible = candidates(log, {name: self._contracts(name) for name in self.today.named})
        runs = [attributed(log, name) for name in possible]
        seen = [(run, self.judge(run)) for run in runs]
        if len(seen) == 1:
            return seen[0]
        if seen and all(verdict_of(judged.findings) != "resume" for _, judged in seen):
            _, judged = min(seen, key=lambda one: len(one[1].findings))
        else:
            judged = Judged(in_flight=log.state.in_flight)
        if log.state.in_flight:
            judged.findings.append(ambiguous(log, possible))
        return log, judged

    def _contracts(self, workflow_id: str) -> list[Contract]:
        """All that is known of a flow: its contract of today, and those that are kept."""
        today = self.today.of(workflow_id, None)
        kept = [] if self.kept is None else [one.contract for one in self.kept.kept(workflow_id)]
        return [*([] if today is None else [today[0]]), *kept]

    def on_newest(self, log: Log, judged: Judged) -> Judged:
        """What the newest flow would do to the run, where the resolver also keeps the run's own; else ``judged``."""
        if judged.worker is None or not self.today.is_kept(log.workflow_id, version_of(log)):
            return judged
        try:
            return self.judge(log, newest=True)
        except LogError as error:
            return unreadable(error, log).judged

    def judge(self, log: Log, *, newest: bool = False) -> Judged:
        """What today's flow would do to the run, or the newest one, whatever the run's version.

        Raises LogError where the log cannot be read.
        """
        state = log.state
        version = version_of(log)
        seen = Judged(in_flight=state.in_flight)
        today = self.today.of(log.workflow_id, None if newest else version)
        if state.in_flight:
            pinned = pinned_worker(log)
            seen.worker = self.policy.keeps(log.workflow_id, state.manifest) or pinned
            if seen.worker is None and self.today.is_kept(log.workflow_id, version):
                seen.worker = Worker(flow=log.workflow_id, version=version)
        if today is None:
            seen.findings.append(_flow_missing(log, self.today.named))
            return seen
        contract, flow, print_of_today = today
        self._check_apart(seen, contract, print_of_today)
        self._check_patterns(contract, print_of_today)
        yesterday = self.yesterday_of(log)
        if state.in_flight:
            seen.upcasts = _upcasts(log)
            parts = [*carried(log, contract.versions or {})]
            parts += carried_below(log, flow) if isinstance(flow, Flow) else ()
            seen.migrated = [part for part in parts if _is_migrated(part)]
            seen.pending = list(pending_calls(state))
            if seen.pending:
                seen.migrated += [
                    Carried(f"call of {call.name}", version, today_s, call.args)
                    for call, version, today_s in migrated_calls(state, contract, yesterday)
                ]
            changed = None
            if yesterday is not None:
                changed = self.compared.pair(yesterday, contract, print_of_today, self._captured_at)
            seen.same = _is_same(log, contract, print_of_today, changed)
            if pinned is not None or (not newest and self.today.is_kept(log.workflow_id, version)):
                seen.same = False  # it is on the version that is kept, beside the newest
            if self.kept is not None:
                seen.findings += contract_unknown(log, self.kept)
            seen.findings += contract_drift(log, contract, print_of_today, changed)
            if changed is not None and log.state.manifest.get("contractFingerprint") in (None, changed.was):
                changed.runs += 1
        checks = self._of_code if isinstance(flow, Flow) else self._of_data
        for check, takes_three in checks if state.in_flight else self._of_finished:
            seen.findings += _asked(check, log, contract, *((yesterday,) if takes_three else ()))
        seen.findings = asked(log, flow, contract, yesterday, seen.findings)
        unseen = "" if seen.worker is not None else unnamed_wait(log, contract, yesterday)
        for note in (agents_shadow.not_asked(log), unseen):
            self.today.notes += [note] if note and note not in self.today.notes else []
        return seen

    def _check_apart(self, seen: Judged, contract: Contract, print_of_today: str) -> None:
        """A kept worker whose patterns fit today's code too is none: its runs cannot be told from today's."""
        worker = seen.worker
        if worker is None or worker not in self.policy.worker:
            return
        ours = {"flowVersion": contract.version, "contractFingerprint": print_of_today}
        if self.policy.keeps(contract.workflow_id, ours) is not None:
            seen.worker = None
            note = (
                f"policy: the worker {_worker(worker)} fits today's code as well, so its runs cannot be told from"
                " today's and none is pinned: raise the flow's version, or name the worker's fingerprint"
            )
            self.today.notes += [note] if note not in self.today.notes else []

    def _check_patterns(self, contract: Contract, print_of_today: str) -> None:
        """Say which patterns for tools fit none of a flow's, where they fit none of any flow that was seen."""
        if print_of_today in self._seen:
            return
        self._seen.add(print_of_today)
        tools = contract.tools or {}
        self._names |= {*tools, *(f"permission:{one}" for tool in tools.values() for one in tool.permissions or ())}
        patterns = [(f"risk {risk}", one) for risk, listed in self.policy.risk.items() for one in listed]
        patterns += [("a rule", rule.tool) for rule in self.policy.rule if rule.tool is not None]
        self.today.notes = [note for note in self.today.notes if not note.startswith(IDLE)]
        for where, pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in self._names):
                self.today.notes.append(f"{IDLE}{pattern!r} ({where}) fits no tool and no permission of today's flows")

    def yesterday_of(self, log: Log) -> Contract | None:
        """The contract that the run was started on, as far as it is kept."""
        if self.kept is None:
            return None  # then the time may be any
        return self.kept_for(log.workflow_id, log.state.manifest, log.state.last_event.time_ms)

    def kept_for(self, workflow_id: str, manifest: Mapping[str, Any], last_event_ms: float) -> Contract | None:
        """The same by what a run says: its manifest, and when it last did something."""
        named = manifest.get("contractFingerprint", manifest.get(CAPTURED_CONTRACT))
        if self.kept is None:
            return None
        return self.kept.of(workflow_id, named if isinstance(named, str) else None, last_event_ms)

    def _captured_at(self, contract: Contract) -> datetime | None:
        kept = () if self.kept is None else self.kept.kept(contract.workflow_id)
        return next((one.captured_at for one in kept if one.contract is contract), None)

    def _by_policy(self, log: Log, judged: Judged) -> ResumeDecision:
        """The verdict once the policy has its say; the findings that it calms or adds say so."""
        findings, verdict = list(judged.findings), judged.verdict
        if not judged.in_flight:
            return _decision(log, judged, verdict, findings)
        risky = {call.name for call in judged.pending if HIGH in self._risks(call)}
        if risky:
            findings = [_failed_closed(found, risky) for found in findings]
            verdict = verdict_of(findings) if verdict_of(findings) != "resume" else verdict
        allowed = self.policy.allowed(log.workflow_id, [(call.name, _permissions(call)) for call in judged.pending])
        if judged.worker is not None and judged.same is not True and "pin" in allowed:
            note = f"It stays on the kept worker {_worker(judged.worker)}."
            stays = [found for found in findings if found.code != "suspended-carryover"]  # which it does not
            calmed = [_calmed(found, note, "info", "Nothing: that worker goes on with it.") for found in stays]
            return _decision(log, judged, "pin", calmed)
        if verdict in allowed:
            if verdict not in FINE:
                note = f"The policy allows {verdict} for it."
                findings = [_calmed(found, note, "warning") for found in findings]
            return _decision(log, judged, verdict, findings)
        if verdict in FINE:
            code = _NOT_ALLOWED.get(verdict, "approval-stale")
            what = f"the run could go on ({verdict}), but the policy does not allow that for {_what(log, judged)}."
            hint = 'Do what the policy asks for, or change its rule: allow = [… "' + verdict + '"].'
            findings.append(finding(log, code, what, hint))
            verdict = verdict_of(findings)
        return _decision(log, judged, verdict, findings)

    def _risks(self, call: PendingCall) -> set[str]:
        return self.policy.risks(call.name, _permissions(call))


def unreadable(error: LogError, log: Log | None = None) -> ResumeDecision:
    """A log that cannot be read may be a waiting run: it is rejected, by name."""
    code = "upcast-missing" if isinstance(error, UpcastError) else "log-unreadable"
    code = "schema-unknown" if isinstance(error, UnknownSchemaVersion) else code
    path = error.path or (log.path if log else "")
    found = Finding(
        code,
        "breaking",
        log.workflow_id if log else "",
        error.execution_id or (log.execution_id if log else ""),
        error.step or None,
        f"{error.what}. Whether this run survives the deploy cannot be told.",
        error.hint or "Restore the log, or take it out of the corpus if it is no run.",
        f"{path}:{error.line}" if error.line else path,
    )
    judged = Judged(findings=[found])
    return ResumeDecision(
        found.execution_id, found.workflow_id, "reject", (found,), (found.message,), found.hint, judged
    )


# What is said -------------------------------------------------------------------------------------------------------


def _decision(log: Log, judged: Judged, verdict: Verdict, findings: list[Finding]) -> ResumeDecision:
    reasons = [found.message for found in findings if found.severity == "breaking"]
    reasons += [f"{found.severity}: {found.message}" for found in findings if found.severity != "breaking"]
    for kind, version, today in judged.upcasts:
        reasons.append(f"{printable(kind)} is read in version {today}, upcast from {version}")
    for part in judged.migrated:
        reasons.append(f"the {part.name} is carried from version {part.from_version!r} to {part.to_version!r}")
    if not judged.in_flight:
        reasons.append(f"the run is {log.state.status}: there is nothing to resume")
    elif not reasons and verdict == "pin":
        reasons.append(f"it stays on the kept worker {_worker(judged.worker)}")
    elif not reasons:
        reasons.append("today's code does what was recorded, and all that was saved is read as it is")
    worst = next((found for found in findings if BREAKING.get(found.code) == verdict and found.hint), None)
    next_step = worst.hint if worst is not None and verdict not in FINE else _next_step(log, judged, verdict)
    return ResumeDecision(
        log.execution_id, log.workflow_id, verdict, tuple(findings), tuple(reasons), next_step, judged
    )


def _next_step(log: Log, judged: Judged, verdict: Verdict) -> str:
    if not judged.in_flight:
        return "Nothing: the run is over."
    if verdict == "pin":
        return (
            f"Let the kept worker go on with it: {_worker(judged.worker)}."
            if judged.worker
            else "Let the worker of its version go on with it."
        )
    waits = log.state.suspensions
    answer = f", event={waits[0].events[0]!r}, payload=…" if waits and waits[0].events[0] != "*" else ""
    if verdict in FINE:
        return f"resume(log, flow{answer})" if log.source == "loom" else "Nothing: its engine resumes it."
    return "Finish it by hand, or let the code that wrote it do so."


def _worker(worker: Worker | None) -> str:
    if worker is None:
        return "its worker"
    told = [worker.version, worker.fingerprint, worker.build]
    return printable(" ".join([worker.flow, *(part for part in told if part is not None)]))


def _what(log: Log, judged: Judged) -> str:
    names = dict.fromkeys(printable(call.name) for call in judged.pending)
    return f"{printable(log.workflow_id)}{f' with a pending {chr(44).join(names)}' if names else ''}"


def _calmed(found: Finding, note: str, severity: Any, hint: str = "") -> Finding:
    """A breaking finding that does not count, because of ``note``."""
    if found.severity != "breaking":
        return found
    return replace(found, severity=severity, message=f"{found.message} {note}", hint=hint or found.hint)


def _failed_closed(found: Finding, risky: set[str]) -> Finding:
    """A warning about a pending call of high risk is breaking: it has to be exactly what was shown."""
    if found.severity == "warning" and found.code in _ABOUT_A_CALL and found.step in risky:
        return replace(found, severity="breaking", message=f"{found.message} The policy calls {found.step} high risk.")
    return found


def _permissions(call: PendingCall) -> tuple[str, ...]:
    return call.tool.permissions or ()


# What is seen -------------------------------------------------------------------------------------------------------


def _upcasts(log: Log) -> list[tuple[str, int, int]]:
    """The kinds of events that are read in a newer version than they were written in."""
    if not registered():
        return []
    old = dict.fromkeys(
        (event.event_type, event.event_version)
        for event in log.events
        if event.event_version < current_version(event.event_type)
    )
    return [(kind, version, current_version(kind)) for kind, version in old]


def _is_migrated(part: Carried) -> bool:
    return part.error is None and part.from_version != part.to_version


def _is_same(log: Log, contract: Contract, print_of_today: str, changed: ChangedContract | None) -> bool | None:
    """Whether the run was started on today's contract; None where it does not say on which."""
    named = log.state.manifest.get("contractFingerprint")
    if named is None and changed is not None:
        named = changed.was
    if named is not None:
        return bool(named == print_of_today)
    version = log.state.manifest.get("flowVersion")
    return None if version is None else bool(version == contract.version)


def version_of(log: Log) -> str | None:
    """The version of its flow that the run was started on, as far as it says that."""
    said = log.state.manifest.get("flowVersion")
    return said if isinstance(said, str) else None


_LOOK_UP = "A simulation runs nothing: loom_flows names flows, or what finds them, not a function that does work."


def _asked(check: Check, log: Log, *contracts: Contract | None) -> list[Finding]:
    """What a check finds. One that raises, or gives something else, must not be taken for one that found nothing."""
    try:
        found = list(check(log, *contracts))  # type: ignore[arg-type]
        strange = [item for item in found if not isinstance(item, Finding)]
        if strange:
            raise TypeError(f"it yielded a {type(strange[0]).__name__}, not a Finding")
        msgspec.convert([msgspec.to_builtins(item) for item in found], list[Finding])  # as reports hold them
    except LoomError:
        raise
    except Exception as problem:
        name = getattr(check, "__qualname__", repr(check))
        raise LoomError(
            f"the check {name} raised {type(problem).__name__}: {problem}{_line_of(check, problem)}",
            path=log.path,
            execution_id=log.execution_id,
            hint="Mend the check: as long as it raises, nothing is said about these runs.",
        ) from problem
    return found


@lru_cache(maxsize=256)
def _takes_three(check: Check) -> bool:
    """Whether a check takes yesterday's contract as well."""
    try:
        parameters = inspect.signature(check).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(plain) > 2 or any(one.kind is one.VAR_POSITIONAL for one in parameters)


def _line_of(check: Check, problem: Exception) -> str:
    """`` (file:line)`` of the check's own line that raised, or "" where it never began."""
    file = getattr(getattr(check, "__code__", None), "co_filename", None)
    lines = [line for frame, line in traceback.walk_tb(problem.__traceback__) if frame.f_code.co_filename == file]
    return f" ({file}:{lines[-1]})" if lines else ""


def _flow_missing(log: Log, known: Iterable[str]) -> Finding:
    name = printable(log.workflow_id)
    near = difflib.get_close_matches(log.workflow_id, known, n=1, cutoff=0.6)
    renamed = f" Was it renamed to {printable(near[0])}?" if near else ""
    return finding(
        log,
        "flow-missing",
        f"today's code has no flow {name}: its unfinished runs are stranded, nothing will pick them up.{renamed}",
        f"Keep {name} registered until its runs are over, or register it under its old id."
        + (" A recording of a plain function is no waiting run: leave it out of loom_logs." if ":" in name else ""),
    )
