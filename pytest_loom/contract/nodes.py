"""How a JSON Schema is read here: references followed, ``allOf`` merged, words left out, and nothing guessed.

A ``Node`` is one place of a schema: all its ``parts`` hold together (a reference and what stands beside it, ``allOf``).
``read`` gives what a node says in one flat ``Read``. A keyword that is not understood is kept in ``Read.unread``, so
that a comparison can say "cannot be told" instead of guessing. Schemas come from logs: references that leave the
document are never fetched, loops end, and work is bounded (``Undecided``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from pytest_loom.errors import FlowError, printable

WORDS = frozenset(
    {"title", "description", "examples", "example", "$comment", "deprecated", "readOnly", "writeOnly", "$id", "id"}
    | {"$schema", "$defs", "definitions"}
)
"""Keywords that say nothing about which values fit (JSON Schema 2020-12, part 9 of Validation), and definitions."""
NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE = frozenset(
    {"additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames", "contentSchema"}
    | {"unevaluatedProperties", "unevaluatedItems", "additionalItems"}
)
LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
MAX_DEPTH = 200
MAX_WORK = 50_000
ABSENT: Any = object()
"""Stands for a default that is not there; null is a default too."""

Scope = tuple[Mapping[str, Any], ...]
"""The documents that enclose a schema, outermost first: a reference is looked up in the nearest that knows it."""
_TYPES: dict[str, dict[str, str]] = {}


class Undecided(Exception):
    """A schema cannot be followed: it leaves the document, loops, is no schema, or is too large. The text says why."""


class Budget:
    """Bounds the work of one comparison: schemas that unfold without end are cut off, not waited for."""

    def __init__(self, steps: int = MAX_WORK) -> None:
        self.left = steps

    def spend(self) -> None:
        """Take one step. Raises Undecided when none is left."""
        self.left -= 1
        if self.left < 0:
            raise Undecided("the schema unfolds into too much to follow")


class Part(NamedTuple):
    """A schema in its documents. ``chosen``: its anyOf and oneOf do not count: one member stands beside it."""

    schema: Any
    scope: Scope = ()
    chosen: bool = False


class Node(NamedTuple):
    """A place of a schema; a value has to fit all of its parts."""

    parts: tuple[Part, ...]

    @property
    def key(self) -> tuple[tuple[int, bool], ...]:
        """Equal for the same place of the same document, so that a walk sees where it has been."""
        return tuple((id(part.schema), part.chosen) for part in self.parts)


def node_of(schema: Any) -> Node:
    """The root of a schema. None says nothing about values, like ``true``."""
    return Node((Part(True if schema is None else schema),))


@dataclass
class Read:
    """What a node says, flat. ``extra`` is additionalProperties (None: not said); ``declared``: properties are said."""

    never: bool = False
    types: frozenset[str] | None = None
    properties: dict[str, Node] = field(default_factory=dict)
    declared: bool = False
    required: set[str] = field(default_factory=set)
    extra: Node | bool | None = None
    patterns: dict[str, Node] = field(default_factory=dict)
    names: Node | None = None
    prefix: list[Node] = field(default_factory=list)
    items: Node | None = None
    unique: bool = False
    options: list[list[Node]] = field(default_factory=list)
    enum: list[Any] | None = None
    limits: dict[str, int | float] = field(default_factory=dict)
    pattern: list[str] = field(default_factory=list)
    format: str | None = None
    default: Any = ABSENT
    unread: list[tuple[str, Any, Scope]] = field(default_factory=list)

    @property
    def keeps_extra(self) -> bool:
        """Whether a key that is not declared reaches the code: said so, or a mapping without declared keys.

        A pydantic model that says nothing drops such keys, and so do LangChain's and OpenAI's tools.
        """
        return self.extra is True or isinstance(self.extra, Node) or (self.extra is None and not self.declared)


def canonical(value: Any) -> str:
    """Plain JSON data as one text that does not depend on the order of keys. Raises FlowError for anything else."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except (TypeError, ValueError, RecursionError) as problem:
        raise FlowError(f"a schema is not plain JSON data: {problem}") from None


def resolve(ref: Any, scope: Scope) -> Part | None:
    """The schema that ``$ref`` names within the documents around it, or None. Nothing is ever fetched."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    if ref in ("#", "#/"):
        return Part(scope[0]) if scope else None
    if not ref.startswith("#/"):
        return None
    steps = [step.replace("~1", "/").replace("~0", "~") for step in ref[2:].split("/")]
    for index in range(len(scope) - 1, -1, -1):
        found: Any = scope[index]
        for step in steps:
            if isinstance(found, Mapping) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                break
        else:
            return Part(found, scope[: index + 1])
    return None


def within(part: Part) -> Scope:
    """The documents that enclose what stands inside ``part``: a schema with definitions is one, and so is the root.

    The schema of a function's arguments is often put together from pydantic's schemas of its parameters, each with
    definitions of its own and references from its own root.
    """
    schema, scope, _ = part
    if not scope or "$defs" in schema or "definitions" in schema:
        return (*scope, schema)
    return scope


def settled(node: Node) -> Node:
    """The place that a mere reference leads to, so that a walk knows it again; else ``node``."""
    for _ in range(20):
        part = node.parts[0] if len(node.parts) == 1 else Part(True)
        if not isinstance(part.schema, Mapping) or part.schema.keys() - WORDS != {"$ref"}:
            return node
        target = resolve(part.schema["$ref"], within(part))
        if target is None:
            return node
        node = Node((target._replace(chosen=part.chosen),))
    return node


def children(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Every schema directly inside ``schema``, definitions left out."""
    for key, value in schema.items():
        if key in NAMED and isinstance(value, Mapping):
            yield from value.values()
        elif (key in LISTED or key == "items") and isinstance(value, list):
            yield from value
        elif key in SINGLE:
            yield value


def read(node: Node, budget: Budget) -> Read:
    """What ``node`` says. Raises Undecided where that cannot be followed."""
    found = Read()
    waiting = list(node.parts)
    followed: set[tuple[int, bool]] = set()
    while waiting:
        budget.spend()
        part = waiting.pop()
        schema = part.schema
        if schema is True:
            continue
        if schema is False:
            found.never = True
            continue
        if not isinstance(schema, Mapping):
            raise Undecided(f"a schema cannot be a {type(schema).__name__}")
        if (id(schema), part.chosen) in followed:
            continue  # it holds already; a schema that refers only to itself says nothing more
        followed.add((id(schema), part.chosen))
        scope = within(part)
        if "$ref" in schema:
            target = resolve(schema["$ref"], scope)
            if target is None:
                raise Undecided(f"the reference {str(schema['$ref'])[:80]!r} does not lead to a schema in the document")
            waiting.append(target._replace(chosen=part.chosen))
        try:
            waiting.extend(Part(member, scope, part.chosen) for member in _list(schema.get("allOf", [])))
            _take(found, schema, scope, part.chosen)
        except (TypeError, AttributeError, ValueError) as problem:
            raise Undecided(f"a keyword has a value of the wrong type ({problem})") from None
    return found


def alternatives(node: Node, said: Read, budget: Budget, depth: int = 0) -> list[Node]:
    """The ways to fit ``node``, each without a choice in it; one where there is no choice.

    Raises Undecided where a value has to fit several choices at once, or the choices do not end.
    """
    if not said.options:
        if said.types is not None and len(said.types) > 1:
            kinds = [_TYPES.setdefault(kind, {"type": kind}) for kind in sorted(said.types)]
            return [Node((*node.parts, Part(kind))) for kind in kinds]
        return [node]
    if len(said.options) > 1:
        raise Undecided("a value has to fit several choices at once")
    if depth > 20:
        raise Undecided("a choice leads back to itself")
    found: list[Node] = []
    rest = tuple(part._replace(chosen=True) for part in node.parts)
    for option in said.options[0]:
        whole = Node((*rest, *option.parts))
        found += alternatives(whole, read(whole, budget), budget, depth + 1)
        if len(found) > 500:
            raise Undecided("there are more than 500 alternatives")
    return found


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a {type(value).__name__} where a list belongs")
    return value


def _texts(value: Any) -> list[str]:
    if not all(isinstance(one, str) for one in _list(value)):
        raise TypeError("a list of something else where one of texts belongs")
    return value  # type: ignore[no-any-return]


def _map(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a {type(value).__name__} where an object belongs")
    return value


def _take(found: Read, schema: Mapping[str, Any], scope: Scope, chosen: bool) -> None:
    """Add what one part says to what the others said: all of it holds."""
    for key, value in schema.items():
        if key in WORDS or key in ("$ref", "allOf", "discriminator"):
            continue
        if key == "type":
            said = frozenset([value] if isinstance(value, str) else _texts(value))
            found.types = said if found.types is None else _common_types(found.types, said)
            found.never = found.never or not found.types
        elif key == "properties":
            found.declared = True
            for name, part in _map(value).items():
                old = found.properties.get(name, Node(()))
                found.properties[name] = Node((*old.parts, Part(part, scope)))
        elif key == "required":
            found.required.update(_texts(value))
        elif key == "additionalProperties":
            found.extra = _both(found.extra, value if isinstance(value, bool) else Node((Part(value, scope),)))
        elif key == "patternProperties":
            for name, part in _map(value).items():
                old = found.patterns.get(name, Node(()))
                found.patterns[name] = Node((*old.parts, Part(part, scope)))
        elif key == "propertyNames":
            found.names = Node((*(found.names.parts if found.names else ()), Part(value, scope)))
        elif key == "prefixItems" or (key == "items" and isinstance(value, list)):
            for index, part in enumerate(_list(value)):
                if index < len(found.prefix):
                    found.prefix[index] = Node((*found.prefix[index].parts, Part(part, scope)))
                else:
                    found.prefix.append(Node((Part(part, scope),)))
        elif key == "items" or (key == "additionalItems" and isinstance(schema.get("items"), list)):
            found.items = Node((*(found.items.parts if found.items else ()), Part(value, scope)))
        elif key == "uniqueItems":
            found.unique = found.unique or value is True
        elif key in ("anyOf", "oneOf"):
            if not chosen:  # else the chosen member is a part of its own
                found.options.append([Node((Part(part, scope),)) for part in _list(value)])
        elif key in ("enum", "const"):
            members = [value] if key == "const" else _list(value)
            if found.enum is not None:
                kept = {exact(member) for member in members}
                members = [member for member in found.enum if exact(member) in kept]
            found.enum = members
        elif key in LOWER or key in UPPER:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{key} is not a number")
            tightest = max if key in LOWER else min
            found.limits[key] = tightest(found.limits.get(key, value), value)
        elif key == "pattern":
            if not isinstance(value, str):
                raise TypeError("pattern is not a text")
            if value not in found.pattern:
                found.pattern.append(value)
        elif key == "format" and isinstance(value, str) and found.format in (None, value):
            found.format = value
        elif key == "default":
            found.default = value if found.default is ABSENT else found.default
        elif key == "multipleOf" and found.limits.get(key, value) == value and isinstance(value, (int, float)):
            found.limits[key] = value
        else:
            found.unread.append((key, value, scope))


def _common_types(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    both = one & other
    if ("integer" in one and "number" in other) or ("number" in one and "integer" in other):
        both |= {"integer"}
    return both


def _both(one: Node | bool | None, other: Node | bool) -> Node | bool:
    if one is False or other is False:
        return False
    if isinstance(one, Node) and isinstance(other, Node):
        return Node((*one.parts, *other.parts))
    return one if isinstance(one, Node) else other


def exact(value: Any) -> str:
    """A text that is equal for equal JSON values only: 1 and true differ, and so do 1 and 1.0."""
    return canonical(value)


def shown_path(path: tuple[str | int, ...]) -> str:
    """A path as people read it, ``item.lines[0].sku``, safe to print."""
    text = ""
    for step in path:
        if isinstance(step, str) and step.startswith("\0"):
            continue  # a fact about the place itself
        text += f"[{step}]" if isinstance(step, int) else step if not text or step == "[]" else f".{step}"
    return printable(text)


def alike(one: str, other: str) -> float:
    """How much two names look like the old and the new name of one thing, 0 to 1; below 0.5 they do not."""
    a, b = one.lower().replace("_", ""), other.lower().replace("_", "")
    if min(len(a), len(b)) > 1 and (a in b or b in a):
        return 0.9
    return SequenceMatcher(None, a[:100], b[:100]).ratio()
