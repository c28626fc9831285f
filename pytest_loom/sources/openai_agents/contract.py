"""The contract of a live OpenAI agent: which agents can be reached from it, with which tools and handoffs.

Nothing of the application is called: an ``is_enabled`` or ``needs_approval`` that is a function is not asked, and no
MCP server is. A tool's schema here is what its arguments are bound by (pydantic, from the function's signature), not
what the model is shown: in strict mode the model is shown every argument as required and no null default, while a
saved call that lacks one, or has one too many, runs all the same.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from typing import Any

from pytest_loom.contract.strict import loosened
from pytest_loom.errors import Unsupported


def contract_of_object(flow: Any) -> dict[str, Any] | None:
    """Contract JSON of an Agent; None for anything else. It belongs to the table in ``contract.resolve``."""
    agents = sys.modules.get("agents")
    kind = getattr(agents, "Agent", None)
    if not isinstance(kind, type) or not isinstance(flow, kind) or not hasattr(agents, "FunctionTool"):
        return None  # other packages are called agents too
    return contract_of_agent(flow)


def contract_of_agent(agent: Any) -> dict[str, Any]:
    """The contract of the run that starts at ``agent``, as JSON data: its agents as steps, and what each may do.

    The starting agent comes first. Agents that share a name are told apart as the SDK does (``name#2``).
    """
    found = reachable(agent)
    names = {id(one): name for name, one in found.items()}
    return {
        "workflowId": str(agent.name),
        "engine": "checkpoint",
        "steps": {name: {} for name in found},
        "agents": {name: _agent(one, names) for name, one in found.items()},
    }


def reachable(agent: Any) -> dict[str, Any]:
    """Every agent that the SDK finds from ``agent`` when it loads a run, itself first, by the name in run states.

    What is not enabled is found all the same: handoffs and tools only have to be open where they are used.
    """
    found: list[Any] = []
    seen: set[int] = set()
    waiting = deque([agent])
    while waiting:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        found.append(one)
        waiting += [target for _, _, target in _handoffs(one, disabled=True) if target is not None]
        waiting += [inner for tool in getattr(one, "tools", None) or () if (inner := _inner(tool)) is not None]
    if len({str(one.name) for one in found}) < len(found):
        return _told_apart(agent, found)
    return {str(one.name): one for one in found}


def _told_apart(agent: Any, found: list[Any]) -> dict[str, Any]:
    """Agents of which some share a name: the SDK numbers them by what they are, and knows that order alone."""
    try:
        module = importlib.import_module("agents._run_state_agent_identity")
        names = {id(one): str(name) for name, one in module._build_agent_identity_map(agent).items()}
        return {names[id(one)]: one for one in found}
    except (ImportError, AttributeError, KeyError):  # an SDK that numbers them elsewhere, or not at all
        counts: dict[str, int] = {}
        told: dict[str, Any] = {}
        for one in found:
            name = str(one.name)
            counts[name] = counts.get(name, 0) + 1
            told[name if counts[name] == 1 else f"{name}#{counts[name]}"] = one
        return told


def _output(agent: Any) -> Any:
    """The JSON Schema of what an agent gives; None for text."""
    output = getattr(agent, "output_type", None)
    if output is None or output is str:
        return None
    if callable(getattr(output, "json_schema", None)) and not isinstance(output, type):  # an AgentOutputSchemaBase
        return None if output.is_plain_text() else output.json_schema()
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(output).json_schema()
    except Exception as problem:
        what = f"the output type of agent {agent.name} has no JSON Schema: {type(problem).__name__}"
        raise Unsupported(what, hint="Give output_type a type that pydantic can describe.") from problem


def _agent(agent: Any, names: dict[int, str]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "tools": dict(_tool(tool) for tool in _tools(agent)),
        "handoffs": {tool: names.get(id(target), name) for tool, name, target in _handoffs(agent)},
    }
    guardrails = getattr(agent, "input_guardrails", None) or ()
    said["inputGuardrails"] = [str(one.get_name()) if hasattr(one, "get_name") else str(one) for one in guardrails]
    output = _output(agent)
    if output is not None:
        said["outputSchema"] = output
    if getattr(agent, "mcp_servers", None) or getattr(agent, "capabilities", None):
        said["moreTools"] = True
    return said


def _tools(agent: Any) -> list[Any]:
    return [tool for tool in getattr(agent, "tools", None) or () if getattr(tool, "is_enabled", True) is not False]


def _inner(tool: Any) -> Any:
    """The agent that works as this tool, if it is one."""
    return getattr(tool, "_agent_instance", None) if getattr(tool, "_is_agent_tool", False) else None


def _tool(tool: Any) -> tuple[str, dict[str, Any]]:
    """A tool's name, as a run state refers to it, and what is known of it."""
    config = getattr(tool, "tool_config", None)
    if isinstance(config, dict) and config.get("server_label"):
        return f"mcp:{config['server_label']}", {"approval": config.get("require_approval") != "never"}
    name, space = str(getattr(tool, "name", type(tool).__name__)), getattr(tool, "_tool_namespace", None)
    name = f"{space}.{name}" if isinstance(space, str) and space and space != name else name
    said: dict[str, Any] = {}
    if hasattr(tool, "needs_approval"):
        said["approval"] = tool.needs_approval is not False  # a rule that is a function may ask
    schema = _bound_by(tool)
    return name, said if schema is None else said | {"schema": schema}


def _bound_by(tool: Any) -> Any:
    """The schema that binds the arguments of a call; where only the model's is there, that one loosened."""
    shown = getattr(tool, "params_json_schema", None)
    if not isinstance(shown, dict):
        return None
    try:
        function = tool.__wrapped__
    except AttributeError:  # made by hand, an MCP tool, an agent as a tool, or an SDK before it had the attribute
        return loosened(shown) if getattr(tool, "strict_json_schema", False) else shown
    try:
        # the annotations are read once more; nothing of the application is called
        read = importlib.import_module("agents.function_schema").function_schema
        return read(function, use_docstring_info=False, strict_json_schema=False).params_json_schema
    except Exception:
        return loosened(shown)


def _handoffs(agent: Any, *, disabled: bool = False) -> list[tuple[str, str, Any]]:
    """Each handoff's tool name, target's name and target; the target is None where it cannot be had.

    ``disabled``: those too that are switched off.
    """
    found = []
    for entry in getattr(agent, "handoffs", None) or ():
        if hasattr(entry, "handoffs"):  # an agent itself
            found.append((_handoff_name(entry), str(entry.name), entry))
            continue
        if getattr(entry, "is_enabled", True) is False and not disabled:
            continue
        reference = getattr(entry, "_agent_ref", None)
        target = reference() if callable(reference) else getattr(entry, "agent", None)
        name = str(getattr(entry, "agent_name", None) or getattr(target, "name", "unknown"))
        found.append((str(getattr(entry, "tool_name", name)), name, target if hasattr(target, "handoffs") else None))
    return found


def _handoff_name(agent: Any) -> str:
    return str(sys.modules["agents"].Handoff.default_tool_name(agent))
