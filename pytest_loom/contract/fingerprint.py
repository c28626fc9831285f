"""The fingerprint of a contract: one short text that moves when what the contract promises moves, and only then.

It tells ``contract-drift`` (DESIGN section 5: the same version with another fingerprint) from a deploy that only
moved words. Seed 003 asks what happens when a schema's meaning changes and its version number does not: this is what
shows it, as far as the schema says so.

A schema is hashed from its leaves up, a reference being the hash of what it leads to, so that names of definitions
do not count. Definitions that refer to each other are told apart by as many rounds as that takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_loom.contract.nodes import (
    LISTED,
    LOWER,
    MAX_DEPTH,
    NAMED,
    SINGLE,
    UPPER,
    WORDS,
    Part,
    Scope,
    canonical,
    children,
    resolve,
    within,
)
from pytest_loom.errors import FlowError

if TYPE_CHECKING:
    from pytest_loom.contract.model import AgentContract, Contract, StepContract, ToolContract

_Place = tuple[int, ...]
_DECIMAL = ("pattern", r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$")
"""What pydantic before 2.13 writes beside the type of a Decimal: it says nothing that the type does not."""

MAX_STEPS = 200_000
"""How many schemas, those inside others and repeated rounds included, are looked at for one digest."""


def fingerprint(contract: Contract) -> str:
    """16 hex digits that stand for what ``contract`` promises: the same for every contract that promises the same.

    Moves with steps, gates, joins, reducers, engine, versions, tools (schema, version, approval, permissions,
    external), agents (tools, handoffs, guardrails) and every schema's types, required keys, defaults, members, formats,
    limits and additionalProperties. Does not move with titles, descriptions, examples, the order of keys, of
    ``required``, ``enum``, ``type`` and ``anyOf``, the names of definitions, or the module in which something is
    defined (of a reducer's dotted name the last part counts). The flow's own id and version are names for a contract,
    not part of it, and are left out.

    Raises FlowError where a schema is no JSON data, nested more than 200 deep, or too large to be told.
    """
    data: dict[str, Any] = {"engine": contract.engine, "versions": contract.versions}
    for name in ("input_schema", "output_schema", "state_schema"):
        data[name] = _maybe(getattr(contract, name))
    if contract.reducers is not None:
        data["reducers"] = {key: name.rpartition(".")[2] for key, name in contract.reducers.items()}
    if contract.joins is not None:
        data["joins"] = {target: sorted(sources) for target, sources in contract.joins.items()}
    if contract.steps is not None:
        data["steps"] = {
            name: [_maybe(step.input_schema), _maybe(step.output_schema), *_leads(step)]
            for name, step in contract.steps.items()
        }
    if contract.gates is not None:
        data["gates"] = {event: _maybe(gate.payload_schema) for event, gate in contract.gates.items()}
        kinds = {event: gate.kind for event, gate in contract.gates.items() if gate.kind is not None}
        data |= {"gateKinds": kinds} if kinds else {}
    if contract.tools is not None:
        data["tools"] = {name: tool_parts(tool) for name, tool in contract.tools.items()}
    if contract.agents is not None:
        data["agents"] = {name: agent_parts(agent) for name, agent in contract.agents.items()}
    data["more_tools"] = contract.more_tools or None
    return _hash({key: value for key, value in data.items() if value is not None})[:16]


def _leads(step: StepContract) -> list[Any]:
    """Where a step leads and whether it asks, where that is said. What its code names is no promise."""
    if step.next is None and step.asks is None:
        return []
    return [None if step.next is None else sorted(set(step.next)), step.asks]


def tool_parts(tool: ToolContract) -> list[Any]:
    """What a tool promises, as JSON data for a hash: its schema's digest, version, approval, permissions, external."""
    permissions = None if tool.permissions is None else sorted(set(tool.permissions))
    parts = [_maybe(tool.schema_), tool.version, tool.approval, permissions]
    return [*parts, "external"] if tool.external else parts


def agent_parts(agent: AgentContract) -> list[Any]:
    """What one agent may do, as JSON data for a hash: its tools, handoffs, guardrails, what it gives."""
    tools = None if agent.tools is None else {name: tool_parts(tool) for name, tool in agent.tools.items()}
    guardrails = None if agent.input_guardrails is None else sorted(set(agent.input_guardrails))
    return [tools, agent.handoffs, agent.more_tools, _maybe(agent.output_schema), guardrails]


def schema_digest(schema: Any, scope: Scope = (), *, ordered: bool = False) -> str:
    """The hash of one JSON Schema, as ``fingerprint`` sees it. ``scope``: the documents around it, outermost first.

    ``ordered``: the order of anyOf counts, for a value that fits several is read as the first.
    """
    return _Digest(ordered).of(Part(schema, scope))


def _maybe(schema: dict[str, Any] | bool | None) -> str | None:
    return None if schema is None else schema_digest(schema)


def _hash(data: Any) -> str:
    return hashlib.sha256(canonical(data).encode()).hexdigest()


class _Digest:
    """Hashes a schema from its leaves up; ``known`` holds the hash of each schema that a reference leads to."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.known: dict[_Place, str] = {}
        self.steps = 0

    def of(self, part: Part) -> str:
        self._learn(part)
        return self._merkle(part, 0)

    def _learn(self, part: Part) -> None:
        """Hash all that is referred to: what refers to nothing unknown first, what is left over in rounds."""
        targets: dict[_Place, Part] = {}
        needs: dict[_Place, set[_Place]] = {}
        waiting = self._referred(part)
        while waiting:
            target = waiting.pop()
            if _place(target) in targets:
                continue
            targets[_place(target)] = target
            found = self._referred(target)
            needs[_place(target)] = {_place(one) for one in found}
            waiting += found
        users: dict[_Place, list[_Place]] = {key: [] for key in targets}
        for key, wanted in needs.items():
            for other in wanted:
                users[other].append(key)
        ready = [key for key in targets if not needs[key]]
        while ready:
            key = ready.pop()
            self.known[key] = self._merkle(targets[key], 0)
            for user in users[key]:
                needs[user].discard(key)
                if not needs[user]:
                    ready.append(user)
        looped = {key: target for key, target in targets.items() if key not in self.known}
        self.known.update(dict.fromkeys(looped, "loop"))
        kinds, rounds = 0, 0
        while looped and rounds <= kinds:  # when no more are told apart, once more for each, so that all is seen by all
            found_now = {key: self._merkle(target, 0) for key, target in looped.items()}
            self.known.update(found_now)
            told = len(set(found_now.values()))
            kinds, rounds = told, rounds + 1 if told == kinds else 0

    def _referred(self, part: Part) -> list[Part]:
        found: list[Part] = []
        waiting = [(part, 0)]
        while waiting:
            here, depth = waiting.pop()
            self._step(depth)
            if not isinstance(here.schema, Mapping):
                continue
            scope = within(here)
            if "$ref" in here.schema:
                target = resolve(here.schema["$ref"], scope)
                if target is not None and isinstance(target.schema, Mapping):
                    found.append(target)
            waiting += [(Part(child, scope), depth + 1) for child in children(here.schema)]
        return found

    def _step(self, depth: int) -> None:
        self.steps += 1
        if depth > MAX_DEPTH:
            raise FlowError(f"a schema is nested more than {MAX_DEPTH} deep")
        if self.steps > MAX_STEPS:
            raise FlowError("a schema is too large, or its definitions are too entangled, to be told from another")

    def _merkle(self, part: Part, depth: int) -> str:
        self._step(depth)
        schema = part.schema
        if not isinstance(schema, Mapping):
            return _hash({} if schema is True else schema)
        scope = within(part)
        said: dict[str, Any] = {}
        every: list[str] = []
        for key, value in schema.items():
            if key in WORDS or (key, value) == _DECIMAL:
                continue
            if key == "$ref":
                every.append(self._target(value, scope))
            elif key == "allOf" and isinstance(value, list):
                every += [self._merkle(Part(one, scope), depth + 1) for one in value]
            elif key in LISTED and isinstance(value, list):
                inner = [self._merkle(Part(one, scope), depth + 1) for one in value]
                said[key] = inner if self.ordered or key == "prefixItems" else sorted(inner)
            elif key in NAMED and isinstance(value, Mapping):
                said[key] = {name: self._merkle(Part(one, scope), depth + 1) for name, one in value.items()}
            elif key in SINGLE:
                listed = isinstance(value, list)
                inner = [self._merkle(Part(one, scope), depth + 1) for one in (value if listed else [value])]
                said[key] = inner if listed else inner[0]
            elif key == "discriminator" and isinstance(value, Mapping):
                said[key] = value.get("propertyName")  # its mapping repeats what the members say
            else:
                said[key] = value
        _settle(said)
        if len(set(every)) == 1 and not said:
            return every[0]
        if every:
            said["allOf"] = sorted(set(every))
        for choice in ("anyOf", "oneOf"):
            members = said.get(choice)
            if len(said) == 1 and isinstance(members, list) and len(members) == 1:
                return str(members[0])
        return _hash(said)

    def _target(self, ref: Any, scope: Scope) -> str:
        target = resolve(ref, scope)
        if target is None:
            return _hash(["reference", ref])
        if isinstance(target.schema, Mapping):
            return self.known[_place(target)]
        return _hash({} if target.schema is True else target.schema)


def _place(part: Part) -> _Place:
    return (id(part.schema), *map(id, part.scope))


def _settle(said: dict[str, Any]) -> None:
    """One form for what can be said in several, as different versions of pydantic do."""
    kinds = said.get("type")
    if isinstance(kinds, list):
        said["type"] = sorted(set(map(str, kinds)))
    elif isinstance(kinds, str):
        said["type"] = [kinds]
    if "const" in said:
        said["enum"] = [said.pop("const")]
    if isinstance(said.get("enum"), list):
        said["enum"] = sorted({canonical(member) for member in said["enum"]})
    if isinstance(said.get("required"), list):
        said["required"] = sorted({canonical(name) for name in said["required"]})
        if not said["required"]:
            del said["required"]
    if isinstance(said.get("dependentRequired"), Mapping):
        said["dependentRequired"] = {
            key: sorted(map(str, names)) if isinstance(names, list) else names
            for key, names in said["dependentRequired"].items()
        }
    for key in (*LOWER, *UPPER, "multipleOf"):
        if isinstance(said.get(key), float) and said[key].is_integer():
            said[key] = int(said[key])
    if said.get("additionalProperties") == _hash({}) and not ({"properties", "patternProperties"} & said.keys()):
        del said["additionalProperties"]  # a mapping without declared keys is open either way
    if said.get("items") == _hash({}) and "prefixItems" not in said:
        del said["items"]  # items of any kind
    if said.get("uniqueItems") is False:
        del said["uniqueItems"]
