"""The tools that a node runs, with their argument schemas and whether a person is asked before."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from pytest_loom.sources.langgraph import code


def tools_of(bound: Any, functions: list[FunctionType], known: dict[str, Any]) -> dict[str, Any]:
    """Contract parts of the tools of a node: of a ToolNode, named by its code, or in a mapping of functions.

    ``known`` are those of the nodes before; what LangChain's approval middleware says of any of them is added.
    """
    found: dict[str, Any] = {}
    for item in code.inner_objects(bound):
        by_name = getattr(item, "tools_by_name", None)
        if isinstance(by_name, dict):
            found |= {name: _tool(tool) for name, tool in by_name.items() if _is_tool(tool)}
    for function in code.with_helpers(functions):
        for tool in code.held_by(function, _is_tool):
            found.setdefault(tool.name, _tool(tool))
        for mapping in code.mappings_of_functions(function):
            for name, plain in mapping.items():
                found.setdefault(name, {"schema": function_schema(plain)})
    asked = _asked_for(bound)
    for name, tool in {**known, **found}.items():
        if asked is not None and tool.get("approval") is not True:
            found[name] = {**tool, "approval": name in asked}
        elif name in found and name in known and "approval" in known[name]:
            found[name] = {**tool, "approval": known[name]["approval"]}
    for name in asked or ():
        found.setdefault(name, {**known.get(name, {}), "approval": True})
    return found


def _asked_for(bound: Any) -> set[str] | None:
    """The tools that an approval middleware of the node asks for; None without one."""
    for item in code.inner_objects(bound):
        rules = getattr(item, "interrupt_on", None)
        if isinstance(rules, dict):
            return {str(name) for name, rule in rules.items() if rule}
    return None


def _is_tool(value: Any) -> bool:
    return (
        not isinstance(value, type)
        and isinstance(getattr(value, "name", None), str)
        and hasattr(value, "args_schema")
        and callable(getattr(value, "invoke", None))
    )


def _tool(tool: Any) -> dict[str, Any]:
    try:
        schema = getattr(tool, "tool_call_schema", None) or tool.args_schema
        found = schema if isinstance(schema, dict) else schema.model_json_schema()
    except Exception:  # a schema of a tool's own making may raise anything; then nothing is said of its arguments
        return {}
    return {"schema": found}


def function_schema(function: FunctionType) -> dict[str, Any] | bool:
    """The arguments of a plain function, called with keywords, as a JSON Schema; True where it cannot be told."""
    from pydantic import Field, create_model

    members: dict[str, Any] = {}
    open_ended = False
    try:
        parameters: Iterable[inspect.Parameter] = inspect.signature(function, eval_str=True).parameters.values()
    except (TypeError, ValueError, NameError, SyntaxError):
        return True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            kind = Any if parameter.annotation is parameter.empty else parameter.annotation
            members[parameter.name] = (kind, ... if parameter.default is parameter.empty else Field(parameter.default))
    try:
        schema = create_model("Arguments", **members).model_json_schema()
    except Exception:  # see _tool
        return True
    return schema if open_ended else {**schema, "additionalProperties": False}
