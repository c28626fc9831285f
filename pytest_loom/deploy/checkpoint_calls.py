"""What a pending tool call means to today's tools: it is there, takes the same arguments, and still asks for leave."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pytest_loom.contract.model import Contract, ToolContract
from pytest_loom.contract.pending import Problem, pending_problems
from pytest_loom.deploy.checkpoint import applies, frontier_of, items
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log


def tool_missing(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A call waits for a tool that today's flow does not have: it fails, or the model is told that it failed."""
    if not contract.tools or not applies(log, contract):
        return
    for call in items(frontier_of(log), "calls"):
        name = str(call.get("name"))
        if name in contract.tools or not _is_tool(name, call, yesterday):
            continue
        near = difflib.get_close_matches(name, contract.tools, n=1, cutoff=0.4)
        renamed = f" Was it renamed to {printable(near[0])}?" if near else ""
        yield finding(
            log,
            "tool-missing",
            f"the call {_shown(call)} waits, and today's {printable(contract.workflow_id)} has no tool"
            f" {printable(name)}: what was asked for would never be done, and the run may end as if it were.{renamed}",
            f"Keep {printable(name)} until these runs are over, or answer them by hand.",
            step=name,
        )


def _is_tool(name: str, call: dict[str, Any], yesterday: Contract | None) -> bool:
    """Whether the call is one that a tool has to answer, as far as yesterday's contract can tell."""
    return call.get("approval") is True or yesterday is None or not yesterday.tools or name in yesterday.tools


def tool_args(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The arguments of a waiting call mean something else to today's tool, or are refused by it."""
    if not contract.tools or not applies(log, contract):
        return
    for call in items(frontier_of(log), "calls"):
        name = str(call.get("name"))
        today = contract.tools.get(name)
        if today is None:
            continue
        before = (yesterday.tools or {}).get(name) if yesterday is not None else None
        for problem in pending_problems(_shown_tool(call, before), today, call.get("args")):
            yield _changed(log, call, name, problem)


def _shown_tool(call: dict[str, Any], before: ToolContract | None) -> ToolContract:
    """The tool as it was when the call was shown: what the run itself kept of it counts before what was captured."""
    kept = before or ToolContract()
    schema, version = call.get("schema"), call.get("version")
    update: dict[str, Any] = {}
    if isinstance(schema, (dict, bool)):
        update["schema_"] = schema
    if isinstance(version, (str, int)) and not isinstance(version, bool):
        update["version"] = version
    return kept.model_copy(update=update)


def _changed(log: Log, call: dict[str, Any], name: str, problem: Problem) -> Finding:
    code = "approval-stale" if problem.kind in ("permissions", "version") else "tool-args"
    return finding(
        log,
        code,
        f"the call {_shown(call)} waits, and {problem.detail}.",
        "Ask for the approval again with what today's tool would do, or keep taking the old arguments.",
        step=name,
        severity="breaking" if problem.verdict == "reapprove" else "warning",
    )


def approval_bypassed(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A call waits for a person's leave, and today's flow does not ask for it: a "no" would not be heard.

    Only for engines that ask again on resume (``asksAgain``); where the saved state itself holds the question, its
    answer is obeyed whatever the code says.
    """
    facts = frontier_of(log)
    if not contract.tools or not applies(log, contract) or not facts.get("asksAgain"):
        return
    for call in items(facts, "calls"):
        tool = contract.tools.get(str(call.get("name")))
        if call.get("approval") is True and tool is not None and tool.approval is False:
            yield finding(
                log,
                "approval-bypassed",
                f"the call {_shown(call)} waits for a person's leave, and today's"
                f" {printable(contract.workflow_id)} does not ask for it any more: it would run whatever is answered,"
                " a rejection included.",
                f"Keep asking for {printable(str(call.get('name')))} until these runs are answered.",
                step=str(call.get("name")),
            )


def _shown(call: dict[str, Any]) -> str:
    args = call.get("args")
    inner = ", ".join(f"{key}={value!r}" for key, value in args.items()) if isinstance(args, dict) else repr(args)
    return printable(f"{call.get('name')}({inner})", 160)


CHECKS = (tool_missing, tool_args, approval_bypassed)
