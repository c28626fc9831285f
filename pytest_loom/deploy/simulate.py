"""``simulate_deploy``: fold each recorded run and hold it against today's flows, one run in memory at a time."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import Resolver, contract_of, resolver_of
from pytest_loom.deploy.checks import BUILT_IN, Check
from pytest_loom.deploy.native import replayed
from pytest_loom.deploy.report import BREAKING, DeployReport, Finding, RunResult, finding, verdict_of
from pytest_loom.errors import FlowError, LogError, LoomError, UnknownSchemaVersion, UpcastError, printable
from pytest_loom.flow import guard
from pytest_loom.log.event import Log

Scope = Literal["auto", "all", "in-flight"]
SCOPES: tuple[Scope, ...] = ("auto", "all", "in-flight")


def simulate_deploy(
    logs: Iterable[Log] | Log | str | os.PathLike[str],
    flows: Any,
    *,
    scope: Scope = "auto",
    checks: Iterable[Check] = (),
) -> DeployReport:
    """Which of these recorded runs would today's flows strand or break? (ADR 0008)

    ``logs`` is an iterable of logs, one log, or anything ``load_logs`` takes; ``flows`` an object with
    ``get_flow(workflow_id, version=None)``, such a callable, a mapping of workflow id to flow, or one flow, where a
    flow is a Contract, contract JSON or the path of one. ``scope``: ``auto`` takes every run of a kept file and the
    unfinished ones of a live store; ``checks`` are asked beside the built-in ones.

    A log that cannot be read is a finding and never hides the others. Raises LogError where there is no log at all,
    FlowError where the flows are not of a known shape or cannot be asked, LoomError where a check raises.
    """
    if scope not in SCOPES:
        raise ValueError(f"scope {scope!r} is none of {', '.join(SCOPES)}")
    if isinstance(logs, (str, os.PathLike)):
        from pytest_loom.sources import load_logs

        logs = load_logs(logs)
    elif isinstance(logs, Log):
        logs = [logs]
    simulation = _Simulation(resolver_of(flows), scope, (*BUILT_IN, *checks))
    for item in surviving(logs):
        simulation.take(item)
    if not simulation.taken:
        raise LogError("no log to simulate", hint="An empty corpus proves nothing, so it is an error.")
    return simulation.report


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


class _Simulation:
    """One simulation under way: the report so far, and each flow's contract, asked for once."""

    def __init__(self, resolver: Resolver, scope: Scope, checks: tuple[Check, ...]) -> None:
        self.report = DeployReport()
        self.resolver = resolver
        self.scope = scope
        self.checks = checks
        self.contracts: dict[tuple[str, str | None], tuple[Contract, Any] | None] = {}
        self.taken = 0

    def take(self, item: Log | LogError) -> None:
        """Judge one run."""
        self.taken += 1
        if isinstance(item, LogError):
            self.unreadable(item)
            return
        if not isinstance(item, Log):
            raise TypeError(f"logs holds a {type(item).__name__}, not only Logs; load_logs(path) reads a file")
        try:
            state = item.state
            if state.in_flight:
                self.report.in_flight += 1
            elif self.scope == "in-flight" or (self.scope == "auto" and item.live):
                self.report.skipped += 1
                return
            findings = self.judge(item)
        except LogError as error:
            self.unreadable(error, item)
            return
        self.report.examined += 1
        if findings or state.in_flight:
            verdict = verdict_of(findings)
            self.report.findings += findings
            self.report.runs.append(RunResult(item.execution_id, item.workflow_id, state.status, verdict, item.path))

    def judge(self, log: Log) -> list[Finding]:
        """What today's flow would do to the run."""
        version = log.state.manifest.get("flowVersion")
        today = self.today(log.workflow_id, version if isinstance(version, str) else None)
        if today is None:
            return [_flow_missing(log)]
        contract, flow = today
        found: list[Finding] = []
        for check in self.checks:
            found += _asked(check, log, contract)
        if all(item.code not in BREAKING for item in found):  # else it is known already that it does not fit
            found += replayed(log, flow)
        return found

    def today(self, workflow_id: str, version: str | None) -> tuple[Contract, Any] | None:
        """Today's flow of a workflow with its contract; None where the flow is gone."""
        key = (workflow_id, version)
        if key not in self.contracts:
            self.contracts[key] = self.ask(workflow_id, version)
        return self.contracts[key]

    def ask(self, workflow_id: str, version: str | None) -> tuple[Contract, Any] | None:
        """Ask the resolver. Raises FlowError where it fails, or gives what has no contract."""
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
        try:
            contract = None if flow is None else contract_of(flow)
        except LoomError as error:
            raise type(error)(f"today's flow {name}: {error.what}", path=error.path, hint=error.hint) from None
        if contract is not None and contract.steps is None:
            note = f"today's {name} says nothing of its steps, so they were not looked at"
            self.report.notes += [note] if note not in self.report.notes else []
        return None if contract is None else (contract, flow)

    def unreadable(self, error: LogError, log: Log | None = None) -> None:
        """A log that cannot be read may be a waiting run: it counts as broken, by name."""
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
        self.report.examined += 1
        self.report.findings.append(found)
        self.report.runs.append(RunResult(found.execution_id, found.workflow_id, "unreadable", "reject", found.source))


_LOOK_UP = "A simulation runs nothing: loom_flows names flows, or what finds them, not a function that does work."


def _asked(check: Check, log: Log, contract: Contract) -> list[Finding]:
    """What a check finds. One that raises, or gives something else, must not be taken for one that found nothing."""
    try:
        found = list(check(log, contract))
        strange = [item for item in found if not isinstance(item, Finding)]
        if strange:
            raise TypeError(f"it yielded a {type(strange[0]).__name__}, not a Finding")
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


def _line_of(check: Check, problem: Exception) -> str:
    """`` (file:line)`` of the check's own line that raised, or "" where it never began."""
    file = getattr(getattr(check, "__code__", None), "co_filename", None)
    lines = [line for frame, line in traceback.walk_tb(problem.__traceback__) if frame.f_code.co_filename == file]
    return f" ({file}:{lines[-1]})" if lines else ""


def _flow_missing(log: Log) -> Finding:
    name = printable(log.workflow_id)
    return finding(
        log,
        "flow-missing",
        f"today's code has no flow {name}: its unfinished runs are stranded, nothing will pick them up.",
        f"Keep {name} registered until its runs are over, or register it under its old id."
        + (" A recording of a plain function is no waiting run: leave it out of loom_logs." if ":" in name else ""),
    )
