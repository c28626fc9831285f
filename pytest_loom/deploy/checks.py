"""The checks of structure: small pure functions, ``(log, today's contract, yesterday's contract) -> findings``.

``flow-missing``, ``log-unreadable`` and ``schema-unknown`` come from the decision itself: without a log and a flow
there is nothing to check. Users add their own checks with the ``pytest_loom_checks`` hook; those may leave yesterday's
contract out, which is None where none is kept.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator

from pytest_loom.contract.model import Contract
from pytest_loom.contract.schema import compare_schemas
from pytest_loom.deploy import (
    agents,
    checkpoint,
    checkpoint_calls,
    checkpoint_state,
    checkpoint_types,
    deferred,
    graphs,
    order,
)
from pytest_loom.deploy.approvals import calls_waiting
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.deploy.values import continued_input, recorded_input, recorded_outputs, recorded_state
from pytest_loom.deploy.versions import saved_versions
from pytest_loom.errors import printable
from pytest_loom.log.event import Log
from pytest_loom.state import Suspension

Check = Callable[[Log, Contract], Iterable[Finding]] | Callable[[Log, Contract, Contract | None], Iterable[Finding]]


def step_removed(log: Log, contract: Contract) -> Iterator[Finding]:
    """A step that already ran is not in today's flow: its recorded output is orphaned, and it would run again live.

    Loom's rule for journal engines (ADR 0008). Applies to finished runs too: they stand for runs that are on their way.
    A sub-flow's steps are its own contract's business.
    """
    steps = contract.steps
    if steps is None or (contract.engine or log.engine) != "journal":
        return
    known = {frame.step_id for frame in log.state.frames.values()}
    gone = [frame for frame in log.state.frames.values() if frame.step_id not in steps and not frame.namespace]
    for step in dict.fromkeys(frame.step_id for frame in gone):
        statuses = [frame.status for frame in gone if frame.step_id == step]
        name = printable(step)
        near = difflib.get_close_matches(step, [other for other in steps if other not in known], n=1, cutoff=0.4)
        renamed = f" Was it renamed to {printable(near[0])}?" if near else ""
        did = "has run" if "completed" in statuses else f"was started ({statuses[-1]})"
        yield finding(
            log,
            "step-removed",
            f"step {name} {did}, but today's {printable(contract.workflow_id)} has no such step:"
            f" its recorded result is orphaned and the work would be done again, live.{renamed}",
            f"Keep the step id {name}, or let the old code finish these runs, or finish them by hand."
            " If the step is there, what loom_flows says is out of date.",
            step=step,
        )


def gate_removed(log: Log, contract: Contract) -> Iterator[Finding]:
    """A run waits for an event that today's flow never waits for: its answer would reach nobody (DESIGN section 8)."""
    if contract.gates is None or log.state.status != "suspended" or (contract.engine or log.engine) != "journal":
        return
    for wait in log.state.suspensions:
        if wait.kind in _NO_GATES or "*" in wait.events or any(event in contract.gates for event in wait.events):
            continue
        name = " or ".join(printable(event) for event in wait.events)
        near = difflib.get_close_matches(wait.events[0], contract.gates, n=1, cutoff=0.4)
        renamed = f" Was it renamed to {printable(near[0])}?" if near else ""
        yield finding(
            log,
            "gate-removed",
            f"waits for {name}, which today's {printable(contract.workflow_id)} does not wait for any more: the answer"
            f" would reach nobody, and the run would never go on.{renamed}",
            f"Keep the gate {name}, or let the old code finish these runs.{_asked_anew(log, wait)}",
            step=wait.events[0],
        )


def gate_changed(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """Who answers knows the question of yesterday: what today's flow does not read of such an answer (seed 003)."""
    if contract.gates is None or yesterday is None or yesterday.gates is None or log.state.status != "suspended":
        return
    for event in dict.fromkeys(event for wait in log.state.suspensions for event in wait.events):
        was, now = yesterday.gates.get(event), contract.gates.get(event)
        if was is None or now is None:
            continue
        changes = compare_schemas(was.payload_schema, now.payload_schema)
        filled = any(change.kind == "added-default" for change in changes)  # a lost field may be what that one was
        hurt = [change for change in changes if change.breaking and (change.kind != "ignored" or filled)]
        doubt = [change for change in changes if change.breaking is None or (change.kind == "ignored" and not filled)]
        for found, severity in ((hurt, "breaking"), (doubt if not hurt else [], "warning")):
            if found:
                said = "; ".join(f"{change.path or 'the answer'}: {change.detail}" for change in found[:4])
                yield finding(
                    log,
                    "gate-changed",
                    f"waits for {printable(event)}, whose answer was of another shape when it was asked for: {said}."
                    " An answer as it was asked for would be refused, or read as something else.",
                    "Let the gate read the old shape too (an optional field, an alias), or let the old code finish"
                    " these runs.",
                    step=event,
                    severity=severity,  # type: ignore[arg-type]  # one of the two above
                )


def suspended_carryover(log: Log, contract: Contract) -> Iterator[Finding]:
    """A run waits and will be resumed by today's code: worth a look, never a reason to fail (ADR 0008)."""
    waits = log.state.suspensions
    if log.state.status != "suspended" or not waits:
        return
    more = f" and {len(waits) - 1} more" if len(waits) > 1 else ""
    yield finding(
        log,
        "suspended-carryover",
        f"waits for {_wait(waits[0], log.source)}{more} and will be resumed by today's code.",
        "Look whether what it waits for still means the same to today's code.",
    )


def unnamed_wait(log: Log, contract: Contract, yesterday: Contract | None) -> str:
    """What to say where nobody recorded what a run waits for and no contract of yesterday's lists it; else "".

    Engines whose code asks for a message or a signal only when it is there leave no trace of its name.
    """
    gates = contract.gates
    if yesterday is not None or gates is None or "*" in gates or log.state.status != "suspended":
        return ""
    if not any("*" in wait.events for wait in log.state.suspensions):
        return ""
    return (
        f"what waiting runs of {printable(log.workflow_id)} wait for is not recorded: that it was renamed is seen only"
        " beside the contract of the code that is deployed. Capture that on that code, and commit it:\n"
        "  pytest --loom-deploy-sim --snapshot-update -k deploy-sim"
    )


BUILT_IN: tuple[Check, ...] = (
    step_removed,
    gate_removed,
    gate_changed,
    saved_versions,
    calls_waiting,
    suspended_carryover,
    order.order_changed,
    *agents.CHECKS,
    *deferred.CHECKS,
    *graphs.CHECKS,
    *checkpoint.CHECKS,
    *checkpoint_state.CHECKS,
    *checkpoint_calls.CHECKS,
    *checkpoint_types.CHECKS,
)
FINISHED_TOO: tuple[Check, ...] = (step_removed, continued_input)
"""What has something to say about a run that is over; all others are not asked about one."""


def looks_at_finished(log: Log, contract: Contract) -> bool:
    """Whether anything that is asked of finished runs may have something to say of this one.

    Logs of ours say nothing new here: where a contract has no steps there is a note on that. Temporal's are replayed.
    """
    has_steps = contract.steps is not None and (contract.engine or log.engine) == "journal"
    return log.source in ("loom", "temporal") or has_steps


AS_DATA: tuple[Check, ...] = (recorded_input, recorded_outputs, recorded_state)
"""Asked where today's flow is known as data only: code reads recorded values with its own types, in a replay."""


def _asked_anew(log: Log, wait: Suspension) -> str:
    """How a native run comes to today's gate instead."""
    if log.source != "loom":
        return ""
    return f" Or let today's code ask anew:\n  asked = resume(fork(log, {wait.sequence - 1}), flow)"


_NO_GATES = ("timer", "crash", "breakpoint")


def _wait(wait: Suspension, source: str) -> str:
    on = " or ".join(printable(event) for event in wait.events)
    unnamed = "a message or an event" if source == "dbos" else "a signal, an update or a condition"
    return unnamed if on == "*" else f"{on} ({printable(wait.kind)})"
