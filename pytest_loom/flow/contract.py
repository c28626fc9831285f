"""The contract of a native flow, as data: from its declarations and annotations, without running it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pytest_loom.flow.definition import Flow, Step, Tool
from pytest_loom.flow.values import Codec, codec_for


def contract_data(flow: Flow[..., Any]) -> dict[str, Any]:
    """Contract JSON (DESIGN section 6) of a flow declared with ``@flow``."""
    parameters = flow.parameters
    data: dict[str, Any] = {
        "workflowId": flow.id,
        "engine": "journal",
        "inputSchema": flow.input.schema() if len(parameters) == 1 else _object(flow, parameters),
        "outputSchema": flow.output.schema(),
        "steps": {name: _step(part) for name, part in flow.steps.items()},
        "gates": {event: {"payloadSchema": codec.schema()} for event, codec in gates_of(flow).items()},
        "tools": {name: _tool(part) for name, part in tools_of(flow).items()},
    }
    if flow.version is not None:
        data["version"] = flow.version
    if flow.versions:
        data["versions"] = flow.versions
    return data


def gates_of(flow: Flow[..., Any]) -> dict[str, Codec]:
    """A flow's gates, and those of its sub-flows: a run of it waits at either."""
    found: dict[str, Codec] = {}
    for part in _all_flows(flow):
        found = {**{event: part.gate(event) for event in part.gates}, **found}
    return found


def tools_of(flow: Flow[..., Any]) -> dict[str, Tool[..., Any]]:
    """A flow's tools, and those of its sub-flows."""
    found: dict[str, Tool[..., Any]] = {}
    for part in _all_flows(flow):
        found = {**part.tools, **found}
    return found


def _all_flows(flow: Flow[..., Any]) -> Iterator[Flow[..., Any]]:
    """A flow and its sub-flows, each once."""
    todo, seen = [flow], set[int]()
    while todo:
        part = todo.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            todo += [inner for inner in part.steps.values() if isinstance(inner, Flow)]


def manifest(flow: Flow[..., Any]) -> dict[str, Any]:
    """What a run's first event says of the code that started it (DESIGN section 5)."""
    found: dict[str, Any] = {}
    if flow.version is not None:
        found["flowVersion"] = flow.version
    for part in ("state", "plan"):
        if flow.versions.get(part) is not None:
            found[f"{part}SchemaVersion"] = flow.versions[part]
    tools = {name: tool.version for name, tool in tools_of(flow).items() if tool.version is not None}
    if tools:
        found["toolSchemaVersions"] = tools
    if flow.fingerprint is not None:
        found["contractFingerprint"] = flow.fingerprint
    return found


def shown_tool(tool: Tool[..., Any]) -> dict[str, Any]:
    """What a pending call says of its tool: what somebody is shown is bound to it (DESIGN section 5)."""
    facts: dict[str, Any] = {"toolSchema": arguments_schema(tool), "permissions": list(tool.permissions)}
    return facts if tool.version is None else {**facts, "toolSchemaVersion": tool.version}


def arguments_schema(tool: Tool[..., Any]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments."""
    return _object(tool, list(tool.signature.parameters.values()))


def _step(part: Step[..., Any] | Flow[..., Any]) -> dict[str, Any]:
    parameters = list(part.signature.parameters.values())
    if isinstance(part, Flow) or part.takes_context:
        parameters = parameters[1:]
    if len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        schema = codec_for(part.annotation(parameters[0].name), f"step {part.id}: the input").schema()
    else:
        schema = _object(part, parameters)
    return {"inputSchema": schema, "outputSchema": part.output.schema()}


def _tool(part: Tool[..., Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"schema": arguments_schema(part), "approval": part.approval}
    if part.version is not None:
        data["version"] = part.version
    data["permissions"] = list(part.permissions)
    return data


def _object(
    part: Flow[..., Any] | Step[..., Any] | Tool[..., Any], parameters: list[inspect.Parameter]
) -> dict[str, Any]:
    """A JSON Schema for several parameters: an object by their names."""
    properties: dict[str, Any] = {}
    required = []
    definitions: dict[str, Any] = {}
    is_open = False
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            is_open = True
            continue
        schema = codec_for(part.annotation(parameter.name), f"{part.noun} {part.id}: {parameter.name}").schema()
        said = {} if schema is None else dict(schema)
        definitions.update(said.pop("$defs", {}))
        properties[parameter.name] = said
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            default = parameter.default
            if default is None or isinstance(default, (str, int, float, bool)):
                properties[parameter.name] = {**properties[parameter.name], "default": default}
    found = {"type": "object", "properties": properties, "required": required, "additionalProperties": is_open}
    return {**found, "$defs": definitions} if definitions else found
