"""Signals, updates and queries of a Temporal workflow: whether today's class still takes what comes, as it comes.

The SDK keeps a signal without a handler, and drops one that it cannot decode, with no more than a line in the worker's
log; a replay of the history passes. A history does not say which signal an idle run waits for: the names that are known
are those that it was sent, and those that yesterday's contract had.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pytest_loom.contract.model import Contract, GateContract
from pytest_loom.contract.pending import value_problems
from pytest_loom.contract.schema import compare_schemas
from pytest_loom.deploy.report import Finding, Severity, finding
from pytest_loom.deploy.values import is_sealed, said
from pytest_loom.errors import printable
from pytest_loom.log.event import Log
from pytest_loom.log.origin import origin_of
from pytest_loom.resume.policy import Worker

ANY_NAME = "*"

_FATE = {
    "signal": "the SDK keeps such a signal for a handler that never comes, and what it should do never happens",
    "update": "such an update is refused, and what it should do never happens",
    "query": "such a query fails",
}
_READ = "Let the handler read the old shape too (an optional field, an alias), or let the old code finish these runs."


class Message(NamedTuple):
    """A signal or an update that a run was sent. ``open``: no code has seen it to its end yet."""

    kind: str
    name: str
    input: Any
    open: bool
    event: int


def pinned_worker(log: Log) -> Worker | None:
    """The worker on which Temporal's server keeps an unfinished run, as its history says; None where it moves on."""
    pinned = log.state.manifest.get("pinnedTo") if _is_open(log) else None
    return Worker(flow=log.workflow_id, build=pinned) if isinstance(pinned, str) else None


def messages(log: Log) -> list[Message]:
    """The signals and updates that the run was sent, in order."""
    facts = log.events[0].payload.get("temporal") if log.state.received else None
    seen = facts.get("seenTo", 0) if isinstance(facts, dict) else 0
    imported = bool(origin_of(log))
    found: list[Message] = []
    done = {str(event.payload.get("id")) for event in log.state.received if event.event_type == "UpdateCompleted"}
    for event in log.state.received:
        payload = event.payload
        kind, name = payload.get("kind"), payload.get("name")
        if event.event_type == "UpdateAdmitted":
            kind = "update"
        if kind == "signal" and isinstance(name, str):
            place = event.sequence if imported else event.line
            found.append(Message(kind, name, payload.get("input"), place > seen, event.line))
        elif kind == "update" and isinstance(name, str):
            is_open = str(payload.get("id")) not in done
            found.append(Message(kind, name, payload.get("input"), is_open, event.line))
    return found


def gate_of(contract: Contract, kind: str, name: str) -> GateContract | None:
    """The handler that takes such a message: its own, else one for any name."""
    gates = contract.gates or {}
    for key in (name, f"{kind}:{name}", ANY_NAME, f"{kind}:{ANY_NAME}"):
        if key in gates and gates[key].kind in (None, kind):
            return gates[key]
    return None


def by_contract(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """All that can be said of an unfinished run's messages where today's workflow is known as data only."""
    lost = list(unread(log, contract, yesterday))
    told = {found.step for found in lost}
    yield from lost
    yield from (found for found in handlers_gone(log, contract, yesterday) if found.step not in told)
    yield from misread(log, contract, yesterday)
    yield from asked_otherwise(log, contract, yesterday)


def unread(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A message that was sent and that no code has seen to its end has no handler any more (gate-removed)."""
    if contract.gates is None or not _is_open(log):
        return
    told: set[tuple[str, str]] = set()
    for message in messages(log):
        one = (message.kind, message.name)
        was_heard = yesterday is None or yesterday.gates is None or gate_of(yesterday, *one) is not None
        if not message.open or not was_heard or one in told or gate_of(contract, *one) is not None:
            continue
        told.add(one)
        name, flow = printable(message.name), printable(contract.workflow_id)
        lies = "lies unread at the end of the run" if message.kind == "signal" else "was accepted and is not completed"
        yield finding(
            log,
            "gate-removed",
            f"event {message.event}: the {message.kind} {name} {lies}, and today's {flow} has no handler for it:"
            f" {_FATE[message.kind]}.{_renamed(contract, one, yesterday)}",
            _keep(*one),
            step=message.name,
        )


def handlers_gone(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """What the run could be sent or asked, and today's code cannot take any more (gate-removed).

    That is what yesterday's contract has; without one, what an idle run was sent before. A warning where it is a query,
    or where this run has been sent it already, for then it may have what it needs.
    """
    if contract.gates is None or not _is_open(log):
        return
    sent = {(message.kind, message.name) for message in messages(log)}
    is_known = yesterday is not None and yesterday.gates is not None
    known = _promised(yesterday) if is_known else sent if _idles(log) else set()
    for one in sorted(known):
        if gate_of(contract, *one) is not None:
            continue
        kind, name = one
        renamed = _renamed(contract, one, yesterday)
        is_last = not any(other != "query" for other, _ in _promised(contract))
        sure = kind != "query" and one not in sent if is_known else is_last or _near(contract, one, yesterday, 0.6)
        source = "which the code that this run was started on has" if is_known else "which it was sent before"
        yield finding(
            log,
            "gate-removed",
            f"today's {printable(contract.workflow_id)} has no handler for the {kind} {printable(name)}, {source}:"
            f" {_FATE[kind]}.{renamed}",
            _keep(kind, name),
            step=name,
            severity="breaking" if sure else "warning",
        )


def misread(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """What a run was sent is not what today's handler reads of it; each replay decodes it anew (gate-changed)."""
    if contract.gates is None or not _is_open(log):
        return
    told: set[str] = set()
    for message in messages(log):
        gate = gate_of(contract, message.kind, message.name)
        old = None if yesterday is None else gate_of(yesterday, message.kind, message.name)
        if gate is None or gate.payload_schema is None or message.name in told or is_sealed(message.input):
            continue
        found = value_problems(old and old.payload_schema, gate.payload_schema, message.input)
        if found:
            told.add(message.name)
            then = {"signal": "the SDK drops such a signal, and says so in the worker's log only"}.get(
                message.kind, "such an update fails"
            )
            yield finding(
                log,
                "gate-changed",
                f"event {message.event}: the {message.kind} {printable(message.name)} does not fit today's handler:"
                f" {said(found)}. Where it cannot be decoded, {then}.",
                _READ,
                step=message.name,
            )


def asked_otherwise(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """Who sends an idle run a message knows yesterday's shape of it (gate-changed)."""
    if contract.gates is None or yesterday is None or not _is_open(log) or not _idles(log):
        return
    promised = {one for one in _promised(yesterday) if one[0] != "query"}
    for kind, name in sorted(promised):
        was, now = gate_of(yesterday, kind, name), gate_of(contract, kind, name)
        if was is None or now is None or was.payload_schema is None or now.payload_schema is None:
            continue
        changes = compare_schemas(was.payload_schema, now.payload_schema)
        filled = any(change.kind == "added-default" for change in changes)
        hurt = [one for one in changes if one.breaking and (one.kind != "ignored" or filled)]
        doubt = [one for one in changes if one.breaking is None]
        severity: Severity = "breaking" if hurt and len(promised) == 1 else "warning"
        if hurt or doubt:
            what = "; ".join(f"{one.path or 'its input'}: {one.detail}" for one in (hurt or doubt)[:4])
            yield finding(
                log,
                "gate-changed",
                f"the run is idle and may wait for the {kind} {printable(name)}, whose input was of another shape when"
                f" it was started: {what}. One that is sent as it was would be refused, or read as something else.",
                _READ,
                step=name,
                severity=severity,
            )


def _is_open(log: Log) -> bool:
    return log.source == "temporal" and log.state.in_flight


def _idles(log: Log) -> bool:
    """Whether the run has nothing under way: then it waits for a message, or for a condition that one brings about."""
    return any(ANY_NAME in wait.events for wait in log.state.suspensions)


def _promised(contract: Contract | None) -> set[tuple[str, str]]:
    """Kind and name of each handler of a contract; a name that two kinds share is ``kind:name`` for one of them."""
    gates: Mapping[str, GateContract] = (contract.gates if contract is not None else None) or {}
    return {
        (gate.kind, name.removeprefix(f"{gate.kind}:"))
        for name, gate in gates.items()
        if gate.kind is not None and not name.endswith(ANY_NAME)
    }


def _near(contract: Contract, one: tuple[str, str], yesterday: Contract | None, cutoff: float) -> str:
    """The handler that is new and looks like the one that is gone, "" where there is none."""
    kind, name = one
    fresh = [other for same, other in sorted(_promised(contract) - _promised(yesterday)) if same == kind]
    return next(iter(difflib.get_close_matches(name, fresh, n=1, cutoff=cutoff)), "")


def _renamed(contract: Contract, one: tuple[str, str], yesterday: Contract | None) -> str:
    near = _near(contract, one, yesterday, 0.4)
    return f" Was it renamed to {printable(near)}?" if near else ""


def _keep(kind: str, name: str) -> str:
    return (
        f"Keep a handler for {printable(name)} beside the new one until these runs are over:"
        f'\n  @workflow.{kind}(name="{printable(name)}")'
    )
