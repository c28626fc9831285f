"""Mutants of today's flows, as a deploy simulation sees them: would it turn red if the deploy changed this?

Each mutant has one promise of a flow changed: a step or gate of another name or none, a tool gone, wider or asking for
more, a schema that takes less. What is declared in code (``@flow``) is left out of the declaration, so that a replay
meets it as well; all else is changed in the contract and judged as data. A mutant is noticed where a run is broken
under it that is not broken today.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_loom.contract.model import Contract, StepContract, ToolContract
from pytest_loom.deploy.corpus_health import parts_of
from pytest_loom.errors import printable
from pytest_loom.flow.definition import Flow

MOST = 24
"""How many mutants an operator makes of one flow."""

OPERATORS = ("rename-step", "remove-step", "rename-gate", "remove-tool", "widen-tool", "narrow-schema")

_NEW = "mutant"
_WORD = {"type": "string"}


@dataclass(frozen=True)
class FlowMutant:
    """One change of a flow. ``flow`` is what a simulation is given in its place; ``name`` is the same in every run.

    ``part`` and ``target`` are what it is about: step, gate or tool and its name, or input, output (of the step
    ``target``), answer (to the gate ``target``) or state. ``asks``: runs may stop there for a person's word.
    """

    operator: str
    name: str
    what: str
    part: str
    target: str
    flow: Any
    asks: bool = False

    @property
    def is_code(self) -> bool:
        """Whether it is judged as code, by a replay, and not as data alone."""
        return isinstance(self.flow, Flow)


def flow_mutants(contract: Contract, flow: Any) -> list[FlowMutant]:
    """The mutants of one of today's flows, ``contract`` being what can be told of it as data."""
    native = flow if isinstance(flow, Flow) else None
    found: list[FlowMutant] = []
    for makers in (_steps, _gates, _tools, _schemas):
        made: dict[str, list[FlowMutant]] = {}
        for mutant in makers(contract, native):
            group = made.setdefault(mutant.operator, [])
            if len(group) < MOST:
                group.append(mutant)
        found += [mutant for operator in OPERATORS for mutant in made.get(operator, ())]
    return found


def _steps(contract: Contract, native: Flow[..., Any] | None) -> Iterator[FlowMutant]:
    steps = contract.steps or {}
    for name in sorted(parts_of(contract)["step"]):
        if any(other.startswith(f"{name}/") for other in steps):
            continue  # a sub-flow's steps are told by themselves
        asks = bool(steps[name].asks)
        names: tuple[str | None, ...] = (f"{name}_{_NEW}", None)
        for new in names:
            operator = "rename-step" if new else "remove-step"
            changed: Any = _without_step(contract, name, new)
            if native is not None and name in native.steps:
                part = native.steps[name]
                changed = _declaring(native, steps=_renamed(native.steps, name, new, _called(part, new)))
            what = f"step {printable(name)} {f'is called {printable(new)}' if new else 'is gone'}"
            yield FlowMutant(operator, f"{operator} {name}", what, "step", name, changed, asks)


def _without_step(contract: Contract, name: str, new: str | None) -> Contract:
    """The contract with another name for a step, or none, wherever it is named."""
    namespace, _, own = name.rpartition("/")
    own_new = None if new is None else new.rpartition("/")[2]
    steps = {
        key: step.model_copy(update={"next": _named_anew(step.next, own, own_new)})
        if step.next is not None and key.rpartition("/")[0] == namespace
        else step
        for key, step in (contract.steps or {}).items()
    }
    changed: dict[str, Any] = {"steps": _renamed(steps, name, new, steps[name])}
    if contract.joins is not None:
        word = re.compile(rf"(?<![^:+/]){re.escape(own)}(?![^:+/])")
        changed["joins"] = {
            word.sub(own_new or "", key): _named_anew(sources, own, own_new) for key, sources in contract.joins.items()
        }
    if contract.agents is not None and name in contract.agents:
        agents = {
            key: agent.model_copy(
                update={
                    "handoffs": None
                    if agent.handoffs is None
                    else {tool: new or "" if to == name else to for tool, to in agent.handoffs.items()}
                }
            )
            for key, agent in contract.agents.items()
        }
        changed["agents"] = _renamed(agents, name, new, agents[name])
    return contract.model_copy(update=changed)


def _named_anew(names: tuple[str, ...], name: str, new: str | None) -> tuple[str, ...]:
    return tuple(new if one == name else one for one in names if one != name or new is not None)  # type: ignore[misc]


def _renamed(parts: Mapping[str, Any], name: str, new: str | None, part: Any) -> dict[str, Any]:
    """The parts with another name for one of them, or without it, in their order."""
    found = [(new, part) if key == name else (key, one) for key, one in parts.items()]
    return {key: one for key, one in found if key is not None}


def _called(part: Any, new: str | None) -> Any:
    """A declared step or tool under another name: a copy."""
    made = copy.copy(part)
    made.id = new
    return made


def _declaring(native: Flow[..., Any], **parts: dict[str, Any]) -> Flow[..., Any]:
    """The flow with other declarations: its code is as it was, and what it uses undeclared is refused."""
    made = copy.copy(native)
    made.__dict__.pop("fingerprint", None)  # which was of the old ones
    made.__dict__.update(parts)
    return made


def _gates(contract: Contract, native: Flow[..., Any] | None) -> Iterator[FlowMutant]:
    for name in sorted(contract.gates or ()):
        new = f"{name}{_NEW.capitalize()}"
        gates = contract.gates or {}
        changed: Any = contract.model_copy(update={"gates": _renamed(gates, name, new, gates[name])})
        if native is not None and name in native.gates:
            changed = _declaring(native, gates=_renamed(native.gates, name, new, native.gates[name]))
        what = f"gate {printable(name)} is called {printable(new)}"
        yield FlowMutant("rename-gate", f"rename-gate {name}", what, "gate", name, changed, True)


def _tools(contract: Contract, native: Flow[..., Any] | None) -> Iterator[FlowMutant]:
    places: list[tuple[str | None, str, ToolContract]] = [(None, *item) for item in (contract.tools or {}).items()]
    for owner, facts in (contract.agents or {}).items():
        places += [(owner, *item) for item in (facts.tools or {}).items()]
    for agent, name, tool in sorted(places, key=lambda place: (place[1], place[0] or "")):
        asks = tool.approval is not False or tool.external is True
        shown = printable(name)
        of = f" of agent {printable(agent)}" if agent else ""
        gone: Any = _with_tool(contract, agent, name, None)
        if native is not None and name in native.tools:
            gone = _declaring(native, tools=_renamed(native.tools, name, None, None))
        key = name if agent is None else f"{agent}/{name}"
        yield FlowMutant("remove-tool", f"remove-tool {key}", f"tool {shown}{of} is gone", "tool", name, gone, asks)
        for kind, what, wider in _widened(tool):
            changed = _with_tool(contract, agent, name, wider)
            yield FlowMutant(
                "widen-tool", f"widen-tool {key} {kind}", f"tool {shown}{of} {what}", "tool", name, changed, asks
            )


def _widened(tool: ToolContract) -> Iterator[tuple[str, str, ToolContract]]:
    if isinstance(tool.schema_, dict):
        schema = _with_required(tool.schema_)
        yield "arguments", f"takes one more argument, {_NEW}", tool.model_copy(update={"schema_": schema})
    if tool.permissions is not None:
        more = (*tool.permissions, _NEW)
        yield "permissions", f"may touch one thing more, {_NEW}", tool.model_copy(update={"permissions": more})
    if tool.approval:
        yield "approval", "asks for no approval any more", tool.model_copy(update={"approval": False})


def _with_tool(contract: Contract, agent: str | None, name: str, tool: ToolContract | None) -> Contract:
    """The contract with another tool in the place of one, or without it."""

    def changed(tools: Mapping[str, ToolContract]) -> dict[str, Any]:
        return _renamed(tools, name, name if tool is not None else None, tool)

    if agent is None:
        return contract.model_copy(update={"tools": changed(contract.tools or {})})
    agents = dict(contract.agents or {})
    agents[agent] = agents[agent].model_copy(update={"tools": changed(agents[agent].tools or {})})
    return contract.model_copy(update={"agents": agents})


def _schemas(contract: Contract, native: Flow[..., Any] | None) -> Iterator[FlowMutant]:
    is_journal = contract.engine != "checkpoint"
    if is_journal and _says(contract.input_schema):
        changed = contract.model_copy(update={"input_schema": _with_required(contract.input_schema)})
        yield _narrow("input", "", "its input has", changed)
    for name, step in sorted((contract.steps or {}).items()) if is_journal else ():
        if _says(step.output_schema):
            narrow: StepContract = step.model_copy(update={"output_schema": _with_required(step.output_schema)})
            changed = contract.model_copy(update={"steps": {**(contract.steps or {}), name: narrow}})
            yield _narrow("output", name, f"the result of step {printable(name)} has", changed)
    for name, gate in sorted((contract.gates or {}).items()):
        if _says(gate.payload_schema):
            asked = gate.model_copy(update={"payload_schema": _with_required(gate.payload_schema)})
            changed = contract.model_copy(update={"gates": {**(contract.gates or {}), name: asked}})
            yield _narrow("answer", name, f"the answer to {printable(name)} has", changed)
    if _says(contract.state_schema):
        changed = contract.model_copy(update={"state_schema": _narrowed_state(contract.state_schema)})
        yield _narrow("state", "", "the saved state has", changed)


def _narrow(part: str, target: str, words: str, changed: Contract) -> FlowMutant:
    name = f"narrow-schema {part} {target}".strip()
    what = f"{words} to have a key {_NEW}" if part != "state" else f"{words} other types"
    return FlowMutant("narrow-schema", name, what, part, target, changed, part == "answer")


def _says(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(schema)


def _with_required(schema: Any) -> dict[str, Any]:
    """A schema that asks for one more key: of an object that it describes, or of one in place of what it describes."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return {"type": "object", "properties": {_NEW: _WORD}, "required": [_NEW]}
    required = schema.get("required")
    return {
        **schema,
        "properties": {**schema["properties"], _NEW: _WORD},
        "required": [*(required if isinstance(required, list) else ()), _NEW],
    }


def _narrowed_state(schema: Any) -> dict[str, Any]:
    """A state whose keys are all of a type that nothing has which was saved."""
    properties = schema.get("properties")
    other = {"type": "object", "properties": {_NEW: _WORD}, "required": [_NEW], "additionalProperties": False}
    return {**schema, "properties": dict.fromkeys(properties, other)} if isinstance(properties, dict) else other
