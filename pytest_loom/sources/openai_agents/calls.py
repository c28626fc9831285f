"""The calls in a model's response: which items are calls, what their arguments are, who decided about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_loom.sources.shape import Malformed, arguments, listed, table, tables, text

_KINDS = {
    "function_call": ("function", "arguments"),
    "custom_tool_call": ("custom", "input"),
    "shell_call": ("shell", "action"),
    "local_shell_call": ("local_shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
    "mcp_approval_request": ("hosted_mcp", "arguments"),
}
"""Calls that this side runs, or approves: by the item's type, the kind of tool and where the arguments stand.

What the provider runs by itself (web search, code interpreter) is part of the response.
"""


@dataclass
class Call:
    """One call: by which agent, to which tool, with what, under which schema, and how far it has come."""

    call_id: str
    name: str
    kind: str
    args: Any
    agent: str
    server: str = ""
    schema: Any = None
    executed: bool = False

    def facts(self) -> dict[str, Any]:
        """The payload of TOOL_REQUESTED."""
        said: dict[str, Any] = {"callId": self.call_id, "name": self.name, "args": self.args, "kind": self.kind}
        said["agent"] = self.agent
        if self.server:
            said["server"] = self.server
        if self.schema is not None:
            said["toolSchema"] = self.schema
        if self.executed:
            said["executed"] = True
        return said


def call_of(item: dict[str, Any], agent: str, name: str = "") -> Call | None:
    """The call that an output item is, or None where it is none that this side has to do with."""
    kind, place = _KINDS.get(text(item.get("type")), ("", ""))
    call_id = text(item.get("call_id")) or text(item.get("id"))
    if not kind:
        return None
    if not call_id:
        raise Malformed("a tool call has no id")
    own, space = text(item.get("name")), text(item.get("namespace"))
    name = name or (f"{space}.{own}" if space and space != own else own) or kind
    args = item.get(place)
    args = item.get("arguments") if args is None and kind == "hosted_mcp" else args
    return Call(call_id, name, kind, arguments(args), agent, text(item.get("server_label")))


def agent_of(value: Any) -> str:
    """The agent that an item names: its identity where names are shared (schema 1.7), else its name."""
    if isinstance(value, str):
        return value
    said = table(value, "an agent")
    return text(said.get("identity")) or text(said.get("name"))


@dataclass
class Decisions:
    """What people decided about calls: each a tool's name, the agent it belongs to ("" any), and the decision."""

    records: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def of(self, call: Call) -> str | None:
        """``approved``, ``rejected`` or None; a decision about this very call overrides a standing one."""
        standing = None
        for tool, agent, decision in self.records:
            if tool not in (call.name, call.name.rpartition(".")[2]) or agent not in ("", call.agent):
                continue
            for word in ("rejected", "approved"):
                said = decision.get(word)
                if isinstance(said, list) and call.call_id in said:
                    return word
                standing = standing or (word if said is True else None)
        return standing

    def standing(self) -> Iterator[tuple[str, str, str]]:
        """Tool, agent and decision of each that holds for calls to come."""
        for tool, agent, decision in self.records:
            for word in ("approved", "rejected"):
                if decision.get(word) is True:
                    yield tool, agent, word


def decisions_of(context: dict[str, Any]) -> Decisions:
    """The decisions that a run state's context holds: of every kind and schema version."""
    found = Decisions()
    for tool, decision in table(context.get("approvals"), "approvals").items():
        found.records.append((tool, "", table(decision, "an approval")))
    for entry in tables(context.get("function_tool_approvals"), "function_tool_approvals"):
        decision = table(entry.get("decision"), "an approval")
        found.records.append((text(entry.get("tool_key")), agent_of(entry.get("agent")), decision))
    for entry in tables(context.get("hosted_mcp_approvals"), "hosted_mcp_approvals"):
        identity = table(entry.get("identity"), "the identity of an approval")
        found.records.append((text(identity.get("tool_name")), "", table(entry.get("decision"), "an approval")))
    return found


def invocations(context: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the state knows of each call's execution (schema 1.15), by call id."""
    said = table(context.get("tool_invocations"), "tool_invocations")
    return {call_id: table(one, "an invocation") for call_id, one in said.items()}


def outputs(items: list[dict[str, Any]]) -> dict[str, Any]:
    """The output of each finished call, by call id, out of a state's items."""
    found: dict[str, Any] = {}
    for item in items:
        raw = item.get("raw_item")
        if item.get("type") not in ("tool_call_output_item", "handoff_output_item") or not isinstance(raw, dict):
            continue
        call_id = text(raw.get("call_id")) or text(raw.get("approval_request_id"))
        if call_id:
            found[call_id] = item["output"] if item.get("output") is not None else raw.get("output")
    return found


def said_text(output: list[dict[str, Any]]) -> str | None:
    """What a response says to the user: the text of its messages; None where it has none."""
    parts = []
    for item in output:
        if item.get("type") != "message":
            continue
        for part in listed(item.get("content"), "the content of a message"):
            said = part if isinstance(part, dict) else {}
            parts.append(text(said.get("text")) or text(said.get("refusal")))
    return "".join(parts) if parts else None
