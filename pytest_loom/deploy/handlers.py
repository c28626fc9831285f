"""Handlers of a Temporal workflow that are gone, held against the contract of the code that a run was started on.

A history holds the signals and updates that came, never those that a run waits for. So what may still come is what
yesterday's code could take; without its contract nothing is known, and nothing said. An engine keeps a signal for which
there is no handler, says nothing, and the run never hears of it; who sends an update or a query gets an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from pytest_loom.contract.model import Contract, GateContract
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

_ANY_NAME = "*"

_FATE = {
    "signal": "the SDK keeps such a signal for a handler that never comes, and what it should do never happens",
    "update": "such an update is refused, and what it should do never happens",
    "query": "such a query fails",
}


def handlers_gone(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """What yesterday's code could be sent or asked, and today's cannot, while the run is not over.

    A warning where it is a query, or where this run has been sent it already: then it may have what it needs.
    """
    if yesterday is None or yesterday.gates is None or contract.gates is None or not log.state.in_flight:
        return
    today, known = _handlers(contract.gates), _handlers(yesterday.gates)
    gone = {(kind, name) for kind, name in known - today if (kind, _ANY_NAME) not in today and name != _ANY_NAME}
    sent = {(event.payload.get("kind"), event.payload.get("name")) for event in log.events} if gone else set()
    for kind, name in sorted(gone):
        new = [other for same, other in sorted(today - known) if same == kind]
        near = difflib.get_close_matches(name, new, n=1, cutoff=0.4)
        renamed = f" Was it renamed to {printable(near[0])}?" if near else ""
        yield finding(
            log,
            "gate-removed",
            f"today's {printable(contract.workflow_id)} has no handler for the {kind} {printable(name)}, which the code"
            f" that this run was started on has: {_FATE[kind]}.{renamed}",
            f"Keep a handler for {printable(name)} beside the new one until these runs are over:"
            f'\n  @workflow.{kind}(name="{printable(name)}")',
            step=name,
            severity="warning" if kind == "query" or (kind, name) in sent else "breaking",
        )


def _handlers(gates: Mapping[str, GateContract]) -> set[tuple[str, str]]:
    """Kind and name of each handler; a name that two kinds share is written ``kind:name`` for one of them."""
    return {(gate.kind, name.removeprefix(f"{gate.kind}:")) for name, gate in gates.items() if gate.kind is not None}
