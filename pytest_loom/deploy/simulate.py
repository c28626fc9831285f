"""``simulate_deploy``: decide about each recorded run beside today's flows, one run in memory at a time (ADR 0008)."""

from __future__ import annotations

import functools
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal

from pytest_loom.contract.store import Contracts, load_contracts
from pytest_loom.deploy.alike import Memo
from pytest_loom.deploy.checks import Check, looks_at_finished
from pytest_loom.deploy.decide import Judge, ResumeDecision, Today, unreadable, version_of
from pytest_loom.deploy.facts import rfc3339
from pytest_loom.deploy.report import DeployReport, RunResult, versions_of
from pytest_loom.deploy.strategies import strategies
from pytest_loom.deploy.temporal import is_unreplayed
from pytest_loom.errors import LogError
from pytest_loom.log.alike import Alike, Hit
from pytest_loom.log.event import Log
from pytest_loom.log.migrations import registered as migrations
from pytest_loom.log.texts import Text
from pytest_loom.log.upcast import registered as upcasters
from pytest_loom.resume.policy import Policy, load_policy
from pytest_loom.sources import (
    Item,
    LogStream,
    OutOfScope,
    Wanted,
    find_files,
    is_address,
    load_logs,
    sources,
)

if TYPE_CHECKING:
    from pytest_loom.deploy.parts import Part
    from pytest_loom.deploy.timeline import Timelines

Scope = Literal["auto", "all", "in-flight"]
SCOPES: tuple[Scope, ...] = ("auto", "all", "in-flight")


def simulate_deploy(
    logs: Iterable[Log] | Log | str | os.PathLike[str],
    flows: Any,
    *,
    contract: Any = None,
    scope: Scope = "auto",
    policy: Any = None,
    checks: Iterable[Check] = (),
    executor: Executor | None = None,
    timelines: Timelines | None = None,
) -> DeployReport:
    """Which of these recorded runs would today's flows strand or break? (ADR 0008)

    ``logs`` is an iterable of logs, one log, or anything ``load_logs`` takes; ``flows`` an object with
    ``get_flow(workflow_id, version=None)``, such a callable, a mapping of workflow id to flow, or one flow, where a
    flow is a Contract, contract JSON or the path of one. ``contract``: yesterday's contracts, one, a mapping of
    workflow ids, or the folder where they were captured. ``scope``: ``auto`` takes every run of a kept file and the
    unfinished ones of a live store; ``policy`` is what ``load_policy`` takes; ``checks`` are asked beside the built-in
    ones.

    An ``executor`` (processes, or those that Dask and Ray give) judges files, and shares of large ones, side by side:
    ``logs`` has to be a path, a glob or an address then, and the flows something that can be pickled. ``timelines``
    keeps what the first runs of each cause did, when each run last did something, and the contracts that changed, for
    reports that show them (HTML).

    A log that cannot be read is a finding and never hides the others. Raises LogError where there is no log at all,
    FlowError where the flows or contracts are not of a known shape or cannot be asked, LoomError where a check raises.
    """
    if scope not in SCOPES:
        raise ValueError(f"scope {scope!r} is none of {', '.join(SCOPES)}")
    kept = None if contract is None else load_contracts(contract)
    rules = load_policy(policy)
    if executor is not None:
        return _side_by_side(logs, flows, kept, scope, rules, tuple(checks), executor, timelines)
    if isinstance(logs, (str, os.PathLike)):
        logs = load_logs(logs)
    elif isinstance(logs, Log):
        logs = [logs]
    report, taken = _simulated(logs, Judge(Today(flows), kept, rules, checks), scope, timelines)
    if not taken:
        raise LogError("no log to simulate", hint="An empty corpus proves nothing, so it is an error.")
    return report


def simulate_share(
    logs: LogStream,
    today: Today,
    *,
    contract: Any,
    scope: Scope,
    policy: Any,
    checks: Iterable[Check],
    timelines: Timelines | None = None,
) -> DeployReport:
    """The same for one file or a share of it, which may be empty."""
    kept = None if contract is None else load_contracts(contract)
    return _simulated(logs, Judge(today, kept, load_policy(policy), checks), scope, timelines)[0]


def _simulated(
    logs: Iterable[Log], judge: Judge, scope: Scope, timelines: Timelines | None
) -> tuple[DeployReport, int]:
    """The report, and how many logs there were. A stream of ours gives less than a log where that is enough."""
    report = DeployReport()
    memo = Memo(judge, lambda part, log: _take(part, judge, log, scope), timed=timelines is not None)
    wanted = Wanted(scope, None if judge.own_checks else memo.book)
    items: Iterator[Item] = logs.wanted(wanted) if isinstance(logs, LogStream) else surviving(logs)
    taken = 0
    alike: dict[Alike, list[Any]] = defaultdict(lambda: [0, None])  # how many, and when the newest went on last
    for item in items:
        taken += 1
        if isinstance(item, Hit):
            memo.enter(report, item)
            last = alike[item.template]
            last[0] += 1
            if item.time is not None and (last[1] is None or item.time > last[1]):
                last[1] = item.time
        elif isinstance(item, Text):
            _take(report, judge, item.log, scope, timelines)
            memo.learn(item)
        elif isinstance(item, OutOfScope):
            report.skipped += item.runs
            report.corpus.left_out += item.runs
        else:
            _take(report, judge, item, scope, timelines)
    for template, (runs, newest) in alike.items():
        report.corpus.see_alike(template.verdict.report.corpus, runs, newest)
    report.notes += [note for note in judge.today.notes if note not in report.notes]
    report.contracts = judge.today.contracts
    report.changed = judge.compared.with_runs(whole=timelines is not None)
    return report, taken


def _side_by_side(
    logs: Any,
    flows: Any,
    kept: Contracts | None,
    scope: Scope,
    policy: Policy,
    checks: tuple[Check, ...],
    executor: Executor,
    timelines: Timelines | None,
) -> DeployReport:
    """The simulation in parts, each of them by a worker of the executor."""
    from pytest_loom.deploy.parts import parts_of, workers_of

    if not isinstance(logs, (str, os.PathLike)):
        raise TypeError("with an executor, logs is a path, a glob or an address: its workers read for themselves")
    address = is_address(logs)
    workers = workers_of(executor)
    parts = parts_of([] if address else find_files(logs), [os.fspath(logs)] if address else [], workers)
    return simulate_side_by_side(parts, flows, kept, scope, policy, checks, executor, timelines)


def simulate_side_by_side(
    parts: Iterable[Part],
    flows: Any,
    contract: Any,
    scope: Scope,
    policy: Any,
    checks: Iterable[Check],
    executor: Executor,
    timelines: Timelines | None = None,
) -> DeployReport:
    """The same for the parts of a corpus, which may be none, by the workers of an executor.

    Raises FlowError where what they are given cannot be pickled.
    """
    from pytest_loom.deploy.parts import simulate_parts, workers_of

    kept = None if contract is None else load_contracts(contract)
    rules: dict[str, Any] = {"kept": kept, "scope": scope, "policy": load_policy(policy), "checks": tuple(checks)}
    work = functools.partial(_part, flows=flows, registered=_registered(), timelines=timelines, **rules)
    return simulate_parts(parts, work, executor, workers_of(executor))


def _part(
    part: Part,
    *,
    flows: Any,
    kept: Contracts | None,
    scope: Scope,
    policy: Policy,
    checks: tuple[Check, ...],
    registered: list[str],
    timelines: Timelines | None,
) -> DeployReport:
    """In a worker: one part."""
    from pytest_loom.deploy.parts import check_registered, items_of

    judge = Judge(Today(flows), kept, policy, checks)
    check_registered(_registered(), registered)
    return _simulated(LogStream(lambda wanted: items_of(part, wanted)), judge, scope, timelines)[0]


def _registered() -> list[str]:
    """What this process has registered that may change a verdict."""
    found = [f"the upcaster of {one.kind} from version {one.from_version}" for one in upcasters()]
    found += [f"the migration of {one.what} from version {one.from_version!r}" for one in migrations()]
    return [*found, *(f"the source {one.name}" for one in sources())]


def surviving(logs: Iterable[Log]) -> Iterator[Log | LogError]:
    """The logs of an iterable, with the LogErrors that it raises on the way as items of their own."""
    iterator = iter(logs)
    while True:
        try:
            yield next(iterator)
        except StopIteration:
            return
        except LogError as error:
            yield error


def _take(
    report: DeployReport, judge: Judge, item: Log | LogError, scope: Scope, timelines: Timelines | None = None
) -> None:
    """Judge one run, and enter it."""
    if isinstance(item, LogError):
        _enter(report, judge, unreadable(item), "unreadable")
        return
    if not isinstance(item, Log):
        raise TypeError(f"logs holds a {type(item).__name__}, not only Logs; load_logs(path) reads a file")
    if item.engine == "trace":
        report.skipped += 1
        note = f"what the {item.source} source reads is a trace, which nothing resumes: compared by tests, not judged"
        report.notes += [note] if note not in report.notes else []
        return
    try:
        state = item.state
        in_flight = state.in_flight
    except LogError as error:
        _enter(report, judge, unreadable(error, item), "unreadable")
        return
    if in_flight:
        report.in_flight += 1
    elif scope == "in-flight" or (scope == "auto" and item.live):
        report.skipped += 1
        report.corpus.left_out += 1
        return
    decision = judge.decide(item)
    is_read = not any(found.code in _UNREAD for found in decision.findings)
    if is_read and item.source == "temporal":
        _, flow, _ = judge.today.of(item.workflow_id, version_of(item)) or (None, None, "")
        patches = judge.today.patches(item.workflow_id)
        report.lineage.see(item, patches, unreplayed=is_unreplayed(item, flow))
    contract = judge.today.contracts.get(decision.workflow_id)
    if is_read and not in_flight and contract is not None:
        is_asked = bool(judge.own_checks) or looks_at_finished(item, contract)
        report.unheld += Counter([] if is_asked else [item.source])
    report.corpus.see(item, decision.workflow_id, contract)
    _enter(report, judge, decision, state.status if is_read else "unreadable", item, timelines)


_UNREAD = frozenset({"log-unreadable", "upcast-missing", "schema-unknown"})


def _enter(
    report: DeployReport,
    judge: Judge,
    decision: ResumeDecision,
    status: str,
    log: Log | None = None,
    timelines: Timelines | None = None,
) -> None:
    report.examined += 1
    judged = decision.judged
    if decision.findings or judged.in_flight:
        report.finding_rows += decision.findings
        found = decision.findings[0].source if decision.findings else ""
        source = (log.path if log is not None else "") or found
        judged = judged if log is None else judge.on_newest(log, judged)
        ways = strategies(judged, judge.policy.window)
        facts: dict[str, Any] = {}
        if log is not None and status != "unreadable":
            facts = {"manifest": versions_of(log.state.manifest)}
            if timelines is not None:
                contract, flow, _ = judge.today.of(decision.workflow_id, version_of(log)) or (None, None, "")
                facts["timeline"] = timelines.of(log, decision.findings, contract, flow)
                facts["at"] = rfc3339(log.state.last_event)
        named = (decision.execution_id, decision.workflow_id, status, decision.verdict, source, ways)
        report.run_rows.append(RunResult(*named, **facts))
