"""Checks for Pydantic AI's waiting runs: would the calls that wait still be carried out, as they were shown?

Measured on 1.107 and 2.68. A call whose tool is gone, or whose arguments do not validate, is not carried out: the model
is told so, and the run finishes as if nothing were wrong. A tool that is external now raises as soon as its call is
approved. A decision is obeyed, though today's tool asks for none; so is a result from outside, whatever became of the
tool; and of all that is finished nothing is looked at. So none of these is a finding.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_loom.contract.binding import bind
from pytest_loom.contract.model import Contract, ToolContract
from pytest_loom.contract.nodes import Undecided
from pytest_loom.contract.pending import Problem, pending_problems
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import FlowError, printable
from pytest_loom.log.event import Log

FRAMEWORK = "pydantic_ai"


def tools_there(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The tool of a call that waits for an approval has to be one of today's tools."""
    tools = contract.tools
    if tools is None or contract.more_tools:
        return
    for call in waiting_calls(log, yesterday):
        if call["name"] in tools:
            continue
        name = printable(call["name"])
        yield finding(
            log,
            "tool-missing",
            f"{name} waits to be approved, and today's {printable(contract.workflow_id)} has no such tool: once it is"
            " approved, the model is told that the tool is unknown, and the run finishes without it."
            f"{_renamed(log, call['name'], tools, yesterday)}",
            f"Keep a tool called {name} (Tool(function, name=...) keeps a name) until these runs are over.",
            step=call["name"],
        )


def gates_alike(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A call that waits for an approval can only be approved as long as its tool is one that the run carries out."""
    for call in waiting_calls(log, yesterday):
        tool = (contract.tools or {}).get(call["name"])
        if tool is None or not tool.external:
            continue
        name = printable(call["name"])
        sure = "kind" in call or _yesterdays(yesterday, call["name"]).approval is not None
        told = "" if sure else " (A history does not say which it waits for; a captured contract does.)"
        yield finding(
            log,
            "gate-changed",
            f"{name} waits to be approved, and is an external tool today, whose result has to come from outside: once"
            f" it is approved, the run raises RuntimeError: External tools cannot be called.{told}",
            f"Answer it by a result (DeferredToolResults.calls), or keep {name} as a tool of the agent until these runs"
            " are over. If it was external all along, keep the DeferredToolRequests beside the history, or capture the"
            " contract of the code that wrote it.",
            step=call["name"],
        )


def arguments_fit(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The arguments that somebody is shown have to mean the same to the tool that would be called with them."""
    for call, problem in argument_problems(log, contract, yesterday):
        name = printable(call["name"])
        carried_out = problem.verdict == "warning" or not _refused(contract, call)
        then = "It would be carried out all the same." if carried_out else NOT_CARRIED_OUT
        yield finding(
            log,
            "approval-stale" if carried_out else "tool-args",
            f"{name} waits to be approved as it was shown: {problem.detail}. {then}",
            f"Keep the argument as it was, under a new tool if need be, or ask for the approval of {name} anew.",
            step=call["name"],
            severity="warning" if problem.verdict == "warning" else None,
        )


NOT_CARRIED_OUT = "The model would be told so, and the run would finish without the call."


def argument_problems(
    log: Log, contract: Contract, yesterday: Contract | None
) -> Iterator[tuple[dict[str, Any], Problem]]:
    """What is wrong with the arguments of the calls that wait, by the schemas alone."""
    for call in waiting_calls(log, yesterday):
        tool = (contract.tools or {}).get(call["name"])
        if tool is None or tool.external or not isinstance(call["args"], dict):
            continue  # arguments that are no object are the model's slip: it is asked again, as it was
        for problem in pending_problems(_yesterdays(yesterday, call["name"]), tool, call["args"]):
            yield call, problem


def _refused(contract: Contract, call: dict[str, Any]) -> bool:
    """Whether today's tool does not take the arguments at all."""
    try:
        facts = bind((contract.tools or {})[call["name"]].schema_, call["args"])
    except (Undecided, FlowError, RecursionError):
        return False
    return any(fact.kind == "refused" for fact in facts.values())


def waiting_calls(log: Log, yesterday: Contract | None) -> Iterator[dict[str, Any]]:
    """The calls of a suspended run of Pydantic AI that wait for an approval; a result from outside is always taken."""
    if log.state.status != "suspended" or log.state.manifest.get("framework") != FRAMEWORK:
        return
    for wait in log.state.suspensions:
        for call in wait.pending if isinstance(wait.pending, list) else [wait.pending]:
            if not isinstance(call, dict) or not isinstance(call.get("name"), str) or "args" not in call:
                continue
            external = _yesterdays(yesterday, call["name"]).external if "kind" not in call else None
            if call.get("kind", "external" if external else "approval") == "approval":
                yield call


def _yesterdays(yesterday: Contract | None, name: str) -> ToolContract:
    tools = (yesterday.tools if yesterday is not None else None) or {}
    return tools.get(name, ToolContract())


def _renamed(log: Log, name: str, tools: Iterable[str], yesterday: Contract | None) -> str:
    """Which of the tools that were not there before it may be called now."""
    before = {call.name for call in log.state.calls} | set((yesterday.tools if yesterday is not None else None) or ())
    near = difflib.get_close_matches(name, [other for other in tools if other not in before], n=1, cutoff=0.5)
    return f" Was it renamed to {printable(near[0])}?" if near else ""


CHECKS = (tools_there, gates_alike, arguments_fit)
"""All of them: functions ``(log, today's contract, yesterday's or None) -> findings``."""
