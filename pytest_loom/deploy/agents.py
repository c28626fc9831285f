"""Checks for agents' runs that are saved as checkpoints: is what waits still there, and does it mean the same?

Measured on the OpenAI Agents SDK, which is strict about names (agent, tool, handoff, call id) and silent about
meaning: it never looks at the schema that it saves beside a call. A decision that is stored is obeyed, though today's
tool no longer asks for one; so a dropped approval is no finding.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_loom.contract.model import AgentContract, Contract, ToolContract
from pytest_loom.contract.pending import Problem, pending_problems, standing_problems
from pytest_loom.contract.strict import loosened, said_arguments
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

_BENIGN = ("added-null-default", "added-optional", "format")
_LOOK = ("added-default", "undecided")
_DECIDED = "ToolApprovalDecided"
_DROPPING = frozenset(f"1.{minor}" for minor in range(15))
"""Schema versions that do not say which calls are finished, so that the SDK cannot miss one."""


def agents_there(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """Every agent of an unfinished run has to be reachable today: the SDK refuses the whole state otherwise.

    Before schema 1.15 it drops what a finished agent did from the run's history instead, with a line in a log.
    """
    agents = _agents(log, contract)
    if agents is None:
        return
    manifest = log.state.manifest
    current = manifest.get("agent")
    asking = {current, *(call.get("agent") for wait in log.state.suspensions for call in _entries(wait.pending))}
    for name in _texts(manifest.get("agents")):
        if name in agents:
            continue
        shown = printable(name)
        did = "stands at" if name in asking else "has been through"
        drops = name not in asking and manifest.get("runStateSchema") in _DROPPING
        fate = "agent not found in agent map" if name == current else "its finished calls match no restored agent"
        then = (
            "the SDK drops what it did from the run's history, and the model goes on without it"
            if drops
            else f"the SDK refuses to load the run, or loses the question ({fate})"
        )
        yield finding(
            log,
            "frontier-missing",
            f"{did} agent {shown}, which cannot be reached from today's {printable(contract.workflow_id)}:"
            f" {then}.{_near(name, agents)}",
            f"Keep an agent named {shown} within reach of handoffs, or finish these runs on the old code.",
            step=name,
            severity="warning" if drops else None,
        )


def handoffs_there(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A handoff that the model asked for beside a call that waits has to exist when the run goes on."""
    for call, agent in _waiting(log, contract):
        handoffs = agent.handoffs
        if call.get("kind") != "handoff" or handoffs is None or call["name"] in handoffs:
            continue
        name = printable(call["name"])
        yield finding(
            log,
            "frontier-missing",
            f"the handoff {name} is asked for and not done; today's agent {printable(call['agent'])} has no such"
            f" handoff: the SDK raises ModelBehaviorError when the run goes on.{_near(call['name'], handoffs)}",
            f"Keep the handoff {name}, or finish these runs on the old code.",
            step=call["agent"],
        )


def tools_there(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The tool of a call that waits has to be a tool of the same agent. A call that was rejected needs none."""
    for call, agent in _waiting(log, contract):
        if call.get("kind") == "handoff" or agent.tools is None or agent.more_tools:
            continue
        if call.get("decision") == "rejected" or _tool(call, agent) is not None:
            continue
        name, owner = printable(call["name"]), printable(call["agent"])
        others = [other for other, one in (contract.agents or {}).items() if call["name"] in (one.tools or {})]
        moved = f" It belongs to agent {printable(others[0])} now." if others else _near(call["name"], agent.tools)
        yield finding(
            log,
            "tool-missing",
            f"{name} waits to run, and today's agent {owner} has no such tool: when the run goes on, the SDK raises"
            f" ModelBehaviorError or asks for the same approval again for ever.{moved}",
            f"Keep {name} (name_override keeps a name) as a tool of {owner} until these runs are over.",
            step=call["name"],
        )


def arguments_mean_the_same(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The arguments that are shown to a human have to mean the same to today's tool: the SDK does not look."""
    for call, problem in _argument_problems(log, contract, yesterday):
        code = "approval-stale" if call.get("decision") == "approved" else "tool-args"
        asked = "was approved" if code == "approval-stale" else "waits for approval"
        name = printable(call["name"])
        yield finding(
            log,
            code,
            f"{name} {asked}, and means something else to today's tool: {problem.detail}. The SDK does not notice:"
            " it runs the call as it is, or tells the model that the tool failed, and the run looks finished.",
            f"Keep reading the arguments that were shown until these runs are over, or reject {name}, so that the model"
            " asks for it anew.",
            step=call["name"],
            severity="warning" if problem.verdict == "warning" else None,
        )


def grants_mean_the_same(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """ "Always approve" approves calls to come, so that what today's tool takes beyond what was shown needs a look."""
    agents = _agents(log, contract)
    if agents is None:
        return
    reported = {call["name"] for call, _ in _argument_problems(log, contract, yesterday)}
    for tool, agent in _grants(log):
        if tool in reported:
            continue
        for owner in [agent] if agent else list(agents):
            new = (agents[owner].tools or {}).get(tool) if owner in agents else None
            old = _recorded(log, tool, owner) or _yesterdays(yesterday, tool, owner)
            if new is None or old is None:
                continue
            for problem in standing_problems(_loose(old), _loose(new)):
                if problem.kind in _BENIGN:
                    continue
                name = printable(tool)
                yield finding(
                    log,
                    "approval-stale",
                    f'{name} has a standing "always approve", and today\'s tool is another: {problem.detail}. Every'
                    " further call would run without anybody being asked.",
                    f"Take the grant back before these runs go on, or give the changed tool another name than {name}.",
                    step=tool,
                    severity="warning" if problem.kind in _LOOK else None,
                )


def effects_once(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A call that was started and whose output was not saved: it may have had its effect."""
    for call in log.state.calls:
        if call.kind != "tool" or call.status != "requested" or not log.state.in_flight:
            continue
        if call.request_event.payload.get("executed") is not True:
            continue
        name = printable(call.name)
        yield finding(
            log,
            "effect-repeated",
            f"{name} was started before the run was saved, and its output is not in it: the SDK refuses to go on, and a"
            " new run would do it a second time.",
            f"Find out whether {name} had its effect, and finish this run by hand.",
            step=call.name,
        )


def guardrails_passed(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A new guardrail for the input of a run: it only looks when a run starts, which this one did without it."""
    agents = _agents(log, contract)
    if agents is None or yesterday is None or not log.state.frames:
        return
    first = next(iter(_texts(log.state.manifest.get("agents"))), "")
    before = (yesterday.agents or {}).get(first)
    now = agents.get(first)
    if before is None or now is None or before.input_guardrails is None:
        return
    for name in sorted(set(now.input_guardrails or ()) - set(before.input_guardrails)):
        yield finding(
            log,
            "step-inserted",
            f"today's agent {printable(first)} has guardrail {printable(name)} for the input of a run, and this run"
            " started before: its input is never looked at.",
            "Decide whether these runs may go on under the rules that they were started under.",
            step=first,
        )


CHECKS = (
    agents_there,
    handoffs_there,
    tools_there,
    arguments_mean_the_same,
    grants_mean_the_same,
    effects_once,
    guardrails_passed,
)
"""All of them: functions ``(log, today's contract, yesterday's or None) -> findings``."""


def _agents(log: Log, contract: Contract) -> Mapping[str, AgentContract] | None:
    """Today's agents, for a run that is to go on with them."""
    return contract.agents if log.engine == "checkpoint" and log.state.in_flight else None


def _waiting(log: Log, contract: Contract) -> Iterator[tuple[dict[str, Any], AgentContract]]:
    """The calls that are not done in a suspended run, each with its agent as it is today, where there is one."""
    agents = _agents(log, contract)
    if agents is None or log.state.status != "suspended":
        return
    found: dict[str, dict[str, Any]] = {}
    for call in log.state.calls:
        if call.kind == "tool" and call.status == "requested":
            found[str(call.call_id)] = call.request_event.payload
    for wait in log.state.suspensions:
        for entry in _entries(wait.pending):
            if isinstance(entry.get("name"), str):
                call_id = str(entry.get("callId"))
                found[call_id] = found.get(call_id, {}) | entry
    for said in found.values():
        if isinstance(said.get("name"), str) and said.get("agent") in agents:
            yield said, agents[said["agent"]]


def _entries(pending: Any) -> list[dict[str, Any]]:
    return [one for one in (pending if isinstance(pending, list) else [pending]) if isinstance(one, dict)]


def _argument_problems(
    log: Log, contract: Contract, yesterday: Contract | None
) -> Iterator[tuple[dict[str, Any], Problem]]:
    for call, agent in _waiting(log, contract):
        new = _tool(call, agent)
        if new is None or call.get("decision") == "rejected":
            continue
        kept = _yesterdays(yesterday, call["name"], call["agent"]) or ToolContract()
        shown = call.get("toolSchema")
        old = kept.model_copy(update={"schema_": loosened(shown)}) if isinstance(shown, dict) else kept
        for problem in pending_problems(old, new, said_arguments(call.get("args"), old.schema_, new.schema_)):
            yield call, problem


def _tool(call: Mapping[str, Any], agent: AgentContract) -> ToolContract | None:
    """Today's tool of a call: by its name, or the server that has it."""
    tools = agent.tools or {}
    server = call.get("server")
    return tools.get(f"mcp:{server}") if server else tools.get(call["name"])


def _yesterdays(yesterday: Contract | None, tool: str, agent: str) -> ToolContract | None:
    owner = (yesterday.agents or {}).get(agent) if yesterday is not None else None
    return (owner.tools or {}).get(tool) if owner is not None else None


def _recorded(log: Log, tool: str, agent: str) -> ToolContract | None:
    """The tool as it is kept beside the last call of it in the run."""
    for call in reversed(log.state.calls):
        if call.kind != "tool" or call.name != tool:
            continue
        said = call.request_event.payload
        if said.get("agent") == agent and isinstance(said.get("toolSchema"), dict):
            return ToolContract(schema=said["toolSchema"])
    return None


def _loose(tool: ToolContract) -> ToolContract:
    return tool.model_copy(update={"schema_": loosened(tool.schema_)})


def _grants(log: Log) -> Iterator[tuple[str, str]]:
    """Tool and agent ("" any) of each standing approval."""
    for event in log.state.received:
        if event.event_type != _DECIDED:
            continue
        said = event.payload
        if said.get("decision") == "approved" and isinstance(said.get("tool"), str):
            yield said["tool"], str(said.get("agent") or "")


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _near(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
    return f" Was it renamed to {printable(near[0])}?" if near else ""
