"""Engines that look recorded work up by its place: what today's contract says of the order, held against the record.

AWS durable functions and DBOS give each operation the number in which the code asks for it, and compare names on
resume. Where today's flow is code it is replayed; a contract says by ``next`` which steps may follow a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

_BY_PLACE = frozenset({"aws-durable", "dbos"})
"""Sources of such engines' logs."""


def order_changed(log: Log, contract: Contract) -> Iterator[Finding]:
    """A recorded step that today's flow no longer does after the one before it: another one is asked for in its place.

    Steps that are gone are ``step-removed``; those of sub-flows have an order of their own.
    """
    steps = contract.steps
    if steps is None or log.source not in _BY_PLACE or not log.state.in_flight:
        return
    ran = [frame.step_id for frame in log.state.frames.values() if not frame.namespace and frame.step_id in steps]
    for before, step in pairwise(ran):
        allowed = steps[before].next
        if allowed is None or "*" in allowed or step in allowed:
            continue
        now = " or ".join(printable(name) for name in allowed[:3]) or "nothing"
        yield finding(
            log,
            "replay-diverged",
            f"recorded was {printable(step)} after {printable(before)}, and today's {printable(contract.workflow_id)}"
            f" does {now} there. Resumed, the run would find another step in the place of {printable(step)} and fail.",
            "Keep the order of what has run and change only what comes after, or let the old code finish these runs.",
            step=step,
        )
        return
