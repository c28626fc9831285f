"""To which flow does a run belong whose record does not say so? (DESIGN section 8: flow-ambiguous)

Histories and run states of agents name no flow. It is the one that ``unknown`` is mapped to, the only flow there is, or
the only one that knows most of the tools and steps that the run used, today or when its contract was captured. Else
nobody can say, and it is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import UNNAMED
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

_LISTED = 5


def candidates(log: Log, flows: Mapping[str, Iterable[Contract]]) -> list[str]:
    """The ids of the flows that a run may belong to, best first only where that is one.

    ``flows`` are today's, each with its contracts, today's and captured ones. Flows whose runs go on by re-running code
    are none for a run that stands in a checkpoint.
    """
    fitting = {
        workflow_id: known
        for workflow_id, contracts in flows.items()
        if (known := [one for one in contracts if one.engine in (None, log.engine)])
    }
    used = {call.name for call in log.state.calls if call.kind == "tool"}
    used |= {frame.step_id for frame in log.state.frames.values()}
    scores = {workflow_id: len(used & _names(contracts)) for workflow_id, contracts in fitting.items()}
    best = max(scores.values(), default=0)
    leading = [workflow_id for workflow_id, score in scores.items() if score == best]
    return leading if best else list(fitting)


def flow_of(log: Log, flows: Mapping[str, Contract]) -> str:
    """The id of the flow that a run belongs to, as far as it can be told without judging it: what its record says, else
    the only one of today's that it may belong to; else its own word."""
    said = names_said(log)
    known = next((name for name in (log.workflow_id, *said) if name in flows), None)
    if known is not None or (log.workflow_id != UNNAMED and not said):
        return known or log.workflow_id
    possible = candidates(log, {name: [contract] for name, contract in flows.items()})
    return possible[0] if len(possible) == 1 else log.workflow_id


def names_said(log: Log) -> list[str]:
    """What a run state of agents calls its flow, in its manifest's ``flows``: names that its application may have given
    to the workflow, and its first agent's. Today's flows need not know any of them."""
    said = log.state.manifest.get("flows")
    return [name for name in said if isinstance(name, str)] if isinstance(said, list) else []


def attributed(log: Log, workflow_id: str) -> Log:
    """The run as one of a flow."""
    events = [msgspec.structs.replace(event, workflow_id=workflow_id) for event in log.events]
    return Log(events, path=log.path, source=log.source, engine=log.engine, live=log.live, notices=log.notices)


def ambiguous(log: Log, flows: Iterable[str]) -> Finding:
    """The finding that nobody can say to which of ``flows`` the run belongs."""
    names = [printable(name) for name in flows]
    shown = ", ".join([*names[:_LISTED], "…"] if len(names) > _LISTED else names)
    could = f"it may be one of {shown}" if names else "today's flows cannot be listed"
    return finding(
        log,
        "flow-ambiguous",
        f"its record does not say to which flow it belongs, and {could}: what is breaking is told only where it would"
        " break with each of them.",
        f'Say it for these logs: loom_flows = "GLOB = module:attr" with the one flow, or a mapping with "{UNNAMED}".',
    )


def _names(contracts: Iterable[Contract]) -> set[str]:
    names: set[str] = set()
    for contract in contracts:
        names |= set(contract.tools or ()) | set(contract.steps or ())
        for agent in (getattr(contract, "agents", None) or {}).values():
            names |= set(agent.tools or ())
    return names
