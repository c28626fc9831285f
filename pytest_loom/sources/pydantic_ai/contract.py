"""What a Pydantic AI agent, or a graph of pydantic-graph, promises to the runs that wait for it: its contract as data.

Read off the live object: its toolsets are walked, nothing of them is run and no server is asked. So tools that only a
run brings up (a dynamic toolset, an MCP server) are not listed; ``moreTools`` says that there are such. What
``prepare`` functions and filters make of a tool is decided by their code when a run is under way: the tool is listed as
it was defined.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any


def contract_of_object(flow: Any) -> dict[str, Any] | None:
    """The contract JSON of an agent or a graph; None where ``flow`` is neither."""
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(flow).__mro__}
    if ("pydantic_ai", "AbstractAgent") in kinds:
        return contract_of_agent(flow)
    if ("pydantic_graph", "Graph") in kinds:
        return contract_of_graph(flow)
    return None


def contract_of_agent(agent: Any) -> dict[str, Any]:
    """The contract JSON of an agent: its tools with schema and approval rule, and what it gives back.

    A tool's ``approval`` is True where every call of it waits for one, False where its definition asks for none, None
    where code decides (``ApprovalRequiredToolset`` with a function of its own). ``external``: its result comes from
    outside of the run.
    """
    tools: dict[str, dict[str, Any]] = {}
    more = False
    for toolset in agent.toolsets:
        found, has_more = _tools_of(toolset)
        tools |= found
        more |= has_more
    contract: dict[str, Any] = {
        "workflowId": agent.name or "agent",
        "engine": "checkpoint",
        "tools": {name: tools[name] for name in sorted(tools)},
    }
    if more:
        contract["moreTools"] = True
    schema = _output_schema(agent)
    if schema is not None:
        contract["outputSchema"] = schema
    return contract


def contract_of_graph(graph: Any) -> dict[str, Any]:
    """The contract JSON of a graph: its nodes, with the fields of each as input, and its state.

    Graphs of 2.x, which have steps instead of nodes and keep nothing, have their steps' names only.
    """
    contract: dict[str, Any] = {"workflowId": graph.name or "graph", "engine": "checkpoint"}
    definitions = getattr(graph, "node_defs", None)
    if definitions is None:
        contract["steps"] = {str(name): {} for name in sorted(map(str, graph.nodes))}
        state = graph.state_type
    else:
        contract["steps"] = {name: _step(definitions[name].node) for name in sorted(definitions)}
        state = graph.inferred_types[0]
    schema = None if state in (None, type(None)) else _schema(state)
    if schema is not None:
        contract["stateSchema"] = schema
    return contract


def _tools_of(toolset: Any) -> tuple[dict[str, dict[str, Any]], bool]:
    """The tools that a toolset lists, by name, and whether there may be more."""
    toolsets: Any = importlib.import_module("pydantic_ai.toolsets")
    if isinstance(toolset, toolsets.CombinedToolset):
        return _together(_tools_of(inner) for inner in toolset.toolsets)
    if isinstance(toolset, toolsets.ExternalToolset):
        return {one.name: _tool(one) | {"external": True} for one in toolset.tool_defs}, False
    if isinstance(toolset, toolsets.FunctionToolset):
        renames = any(tool.prepare is not None for tool in toolset.tools.values())  # which a prepare function may do
        return {tool.name: _tool(tool.tool_def) for tool in toolset.tools.values()}, renames
    if not isinstance(toolset, toolsets.WrapperToolset):
        return {}, True
    found, more = _tools_of(toolset.wrapped)
    if isinstance(toolset, toolsets.PrefixedToolset):
        found = {f"{toolset.prefix}_{name}": tool for name, tool in found.items()}
    elif isinstance(toolset, toolsets.RenamedToolset):
        names = {original: new for new, original in toolset.name_map.items()}
        found = {names.get(name, name): tool for name, tool in found.items()}
    elif isinstance(toolset, toolsets.ApprovalRequiredToolset):
        always = type(toolset).__dataclass_fields__["approval_required_func"].default
        asks = True if toolset.approval_required_func is always else None
        found = {name: tool | {"approval": tool["approval"] or asks} for name, tool in found.items()}
    elif _lists_its_own(toolset, toolsets):
        more = True
    return found, more


def _lists_its_own(toolset: Any, toolsets: Any) -> bool:
    """Whether a wrapper of the user's own decides which tools there are, under which names."""
    known = (toolsets.FilteredToolset, toolsets.PreparedToolset)  # these can only leave tools out, or alter them
    inherited = toolsets.WrapperToolset.get_tools
    ours = type(toolset).__module__.startswith("pydantic_ai.")
    return not ours and not isinstance(toolset, known) and type(toolset).get_tools is not inherited


def _together(parts: Iterable[tuple[dict[str, dict[str, Any]], bool]]) -> tuple[dict[str, dict[str, Any]], bool]:
    tools: dict[str, dict[str, Any]] = {}
    more = False
    for found, has_more in parts:
        tools |= found
        more |= has_more
    return tools, more


def _tool(definition: Any) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "schema": definition.parameters_json_schema,
        "approval": definition.kind == "unapproved",
    }
    return tool | ({"external": True} if definition.kind == "external" else {})


def _output_schema(agent: Any) -> dict[str, Any] | None:
    try:
        schema = agent.output_json_schema()
    except Exception:  # older versions have none, and what a function returns need not have a schema
        return None
    if not isinstance(schema, dict):
        return None
    members = schema.get("anyOf", [])
    if any(member.get("title") == _DEFERRED["title"] for member in members):  # it differs by the framework's version
        schema = {**schema, "anyOf": [_DEFERRED if one.get("title") == _DEFERRED["title"] else one for one in members]}
        schema["$defs"] = {name: one for name, one in schema.get("$defs", {}).items() if name != "ToolCallPart"}
    return schema


_DEFERRED = {"title": "DeferredToolRequests", "type": "object"}


def _step(node: Any) -> dict[str, Any]:
    schema = _schema(node)
    return {} if schema is None else {"inputSchema": schema}


def _schema(kind: Any) -> dict[str, Any] | None:
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(kind).json_schema()
    except Exception:  # pydantic has no schema for it: then it is not checked
        return None
