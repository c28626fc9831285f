"""``simulate_deploy``: decide about each recorded run beside today's flows, one run in memory at a time (ADR 0008)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pytest_loom.contract.store import load_contracts
from pytest_loom.deploy.checks import Check
from pytest_loom.deploy.decide import Judge, ResumeDecision, Today, unreadable
from pytest_loom.deploy.report import DeployReport, RunResult, versions_of
from pytest_loom.deploy.strategies import strategies
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.resume.policy import load_policy

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
) -> DeployReport:
    """Which of these recorded runs would today's flows strand or break? (ADR 0008)

    ``logs`` is an iterable of logs, one log, or anything ``load_logs`` takes; ``flows`` an object with
    ``get_flow(workflow_id, version=None)``, such a callable, a mapping of workflow id to flow, or one flow, where a
    flow is a Contract, contract JSON or the path of one. ``contract``: yesterday's contracts, one, a mapping of
    workflow ids, or the folder where they were captured. ``scope``: ``auto`` takes every run of a kept file and the
    unfinished ones of a live store; ``policy`` is what ``load_policy`` takes; ``checks`` are asked beside the built-in
    ones.

    A log that cannot be read is a finding and never hides the others. Raises LogError where there is no log at all,
    FlowError where the flows or contracts are not of a known shape or cannot be asked, LoomError where a check raises.
    """
    if scope not in SCOPES:
        raise ValueError(f"scope {scope!r} is none of {', '.join(SCOPES)}")
    if isinstance(logs, (str, os.PathLike)):
        from pytest_loom.sources import load_logs

        logs = load_logs(logs)
    elif isinstance(logs, Log):
        logs = [logs]
    kept = None if contract is None else load_contracts(contract)
    today = Today(flows)
    judge = Judge(today, kept, load_policy(policy), checks)
    report = DeployReport()
    taken = 0
    for item in surviving(logs):
        taken += 1
        _take(report, judge, item, scope)
    if not taken:
        raise LogError("no log to simulate", hint="An empty corpus proves nothing, so it is an error.")
    report.notes += [note for note in today.notes if note not in report.notes]
    report.contracts = today.contracts
    report.changed = judge.compared.with_runs()
    return report


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


def _take(report: DeployReport, judge: Judge, item: Log | LogError, scope: Scope) -> None:
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
        return
    decision = judge.decide(item)
    is_read = not any(found.code in _UNREAD for found in decision.findings)
    _enter(report, judge, decision, state.status if is_read else "unreadable", item)


_UNREAD = frozenset({"log-unreadable", "upcast-missing", "schema-unknown"})


def _enter(report: DeployReport, judge: Judge, decision: ResumeDecision, status: str, log: Log | None = None) -> None:
    report.examined += 1
    judged = decision.judged
    if decision.findings or judged.in_flight:
        report.finding_rows += decision.findings
        found = decision.findings[0].source if decision.findings else ""
        source = (log.path if log is not None else "") or found
        judged = judged if log is None else judge.on_newest(log, judged)
        ways = strategies(judged, judge.policy.window)
        manifest = {} if log is None or status == "unreadable" else versions_of(log.state.manifest)
        run = RunResult(decision.execution_id, decision.workflow_id, status, decision.verdict, source, ways, manifest)
        report.run_rows.append(run)
