"""Pending approvals in a deploy simulation: is the call that was shown still the same call to today's tools?"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.flow.approvals import Hazard, stale_calls
from pytest_loom.log.event import Log

_ELSEWHERE = "Ask for the approval again, with the call as it is today, or let the old code finish these runs."


OWN_RULES = frozenset({"langgraph", "pydantic_ai", "pydantic_graph"})
"""Frameworks (as the manifest names them) for whose runs there are checks that know what they do on resume."""


def calls_waiting(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """Pending calls that mean something else to today's tools (tool-missing, tool-args, approval-stale)."""
    if log.state.in_flight and log.state.manifest.get("framework") not in OWN_RULES:
        for hazard in stale_calls(log.state, contract, yesterday):
            yield from_hazard(log, hazard)


def from_hazard(log: Log, hazard: Hazard) -> Finding:
    """A hazard of one run as a finding."""
    native = log.source == "loom"
    return finding(
        log,
        hazard.code,
        hazard.message,
        hazard.hint if native else _ELSEWHERE,
        step=hazard.name or None,
        severity=hazard.severity,
    )
