"""What a call's arguments become under a schema: bound as the agents' SDKs bind them, without running anything.

``bind`` gives facts by path: a value and the type it is read as, a default that fills a gap, an argument that is
dropped or refused. Two tools run an approved call alike when the facts of its arguments are the same for both.

SDKs bind with pydantic in its lax mode ("5" is an integer, a key that is not declared is dropped unless the schema says
otherwise), so pydantic's own validators decide texts, formats and patterns here too; its patterns run in linear time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_loom.contract.fingerprint import schema_digest
from pytest_loom.contract.nodes import (
    ABSENT,
    MAX_DEPTH,
    WORDS,
    Budget,
    Node,
    Read,
    Undecided,
    alternatives,
    canonical,
    exact,
    node_of,
    read,
)
from pytest_loom.contract.scalars import FORMATS, matches, natural, scalar, validated

Path = tuple[str | int, ...]


class Fact(NamedTuple):
    """What becomes of one place: ``value`` (read as ``text``), ``default`` (``text`` is its JSON), ``null`` (default
    null), ``absent``, ``ignored``, ``refused`` (``text`` tells one cause from another), ``unread`` (cannot be told).

    ``note`` says it for people, and does not count.
    """

    kind: str
    text: str = ""
    note: str = ""

    @property
    def same_as(self) -> tuple[str, str]:
        """Equal for facts that mean the same for a call."""
        return self.kind, self.text


@dataclass
class Bound:
    """The facts of one value by path, and how loosely it fits (0 exact, 1 strict, 2 lax, as pydantic ranks a union).

    Where several members of a union fit and none exactly, SDKs and versions of them choose differently: that is a fact
    of its own, so that nothing is concluded when such a union changes.
    """

    facts: dict[Path, Fact] = field(default_factory=dict)
    loose: int = 0

    @property
    def refused(self) -> bool:
        """Whether the value does not fit."""
        return any(fact.kind == "refused" for fact in self.facts.values())


def bind(schema: Any, value: Any, budget: Budget | None = None) -> dict[Path, Fact]:
    """The facts of ``value``, JSON data, under ``schema``. Raises Undecided where the schema cannot be followed."""
    bound = Bound()
    _bind(node_of(schema), value, (), bound, budget or Budget())
    return bound.facts


def fails(facts: Mapping[Path, Fact]) -> bool:
    """Whether the call fails with every SDK: a value that breaks a limit or is of another shape than what is asked."""
    return any(fact.kind == "refused" and fact.text in ("limit", "enum", "shape") for fact in facts.values())


def accepts(node: Node, value: Any, budget: Budget) -> bool | None:
    """Whether ``value`` fits ``node``; None where that cannot be told."""
    bound = Bound()
    try:
        _bind(node, value, (), bound, budget)
    except Undecided:
        return None
    if bound.refused:
        return False
    return None if any(fact.kind == "unread" for fact in bound.facts.values()) else True


def _bind(node: Node, value: Any, path: Path, out: Bound, budget: Budget) -> None:
    if len(path) > MAX_DEPTH:
        raise Undecided(f"a value is nested more than {MAX_DEPTH} deep")
    said = read(node, budget)
    ways = alternatives(node, said, budget)
    if len(ways) == 1 and not said.options:
        _bind_one(node, said, value, path, out, budget)
        return
    best: Bound | None = None
    chosen, several, hopeless = 0, False, True
    for index, way in enumerate(ways):
        trial = Bound()
        _bind_one(way, read(way, budget), value, path, trial, budget)
        if trial.refused:
            hopeless = hopeless and fails(trial.facts)
            continue
        several = several or (best is not None and best.facts != trial.facts)
        if best is None or trial.loose < best.loose:
            best, chosen = trial, index
        if best.loose == 0:
            several = False  # a value that is just what a member says is never read as another
            break
    if best is None:
        cause = "shape" if hopeless else "type:" + node_digest(node)
        out.facts[path] = Fact("refused", cause, f"fits none of {len(ways)} alternatives")
        return
    if chosen in decimals(ways):
        best.facts[path] = Fact("value" if validated("decimal", value)[0] else "unread", "decimal", "number or text")
    elif several:
        best.facts[(*path, "\0choice")] = Fact("unread", node_digest(node), "choice between types that all fit")
    out.facts.update(best.facts)
    out.loose = max(out.loose, best.loose)


def _bind_one(node: Node, said: Read, value: Any, path: Path, out: Bound, budget: Budget) -> None:
    """Bind to a node without a choice."""
    budget.spend()
    if said.never:
        out.facts[path] = Fact("refused", "never", "no value fits")
        return
    if said.unread:
        cause = unread_digest(said)
        out.facts[(*path, "\0")] = Fact("unread", cause, ", ".join(sorted({key for key, _, _ in said.unread})))
    kind = None if said.types is None else next(iter(said.types))
    if isinstance(value, dict) and kind in (None, "object"):
        _bind_object(said, value, path, out, budget)
    elif isinstance(value, list) and kind in (None, "array"):
        _bind_array(said, value, path, out, budget)
    elif kind is None and said.format not in FORMATS:
        out.loose = max(out.loose, 0 if said.enum is not None else 1)
        out.facts[path] = _limited(said, value, Fact("value", natural(value)), node)
    else:
        name, coerced, loose = scalar(kind or "string", said.format, value)
        out.loose = max(out.loose, loose)
        if name is None:
            wanted = f"{said.format} text" if kind == "string" and said.format else kind
            plain = value is None or isinstance(value, (dict, list)) or kind in ("object", "array", "null")
            cause = (
                "shape" if plain else "type:" + node_digest(node)
            )  # SDKs differ in which texts and numbers they convert
            out.facts[path] = Fact("refused", cause, f"is not {_a(str(wanted))}")
        else:
            out.facts[path] = _limited(said, coerced, Fact("value", name), node)
    if said.enum is not None and out.facts[path].kind != "refused":
        out.facts[path] = _member(said.enum, value, out.facts[path])


def _member(members: list[Any], value: Any, fits: Fact) -> Fact:
    """``fits``, or why a value is not one of ``members``. pydantic takes 1.0 and true for the member 1."""
    wanted = exact(value)
    if any(exact(member) == wanted for member in members):
        return fits
    if isinstance(value, (int, float)):
        for member in members:
            if isinstance(member, (int, float)) and member == value:
                return Fact("value", natural(member))
    shown = ", ".join(canonical(member) for member in members[:6])
    return Fact("refused", "enum", f"is not among {shown}{', …' if len(members) > 6 else ''}")


def _bind_object(said: Read, value: dict[str, Any], path: Path, out: Bound, budget: Budget) -> None:
    out.facts[path] = _sized(said, len(value), "Properties", Fact("value", "object"))
    if said.declared:
        out.loose = 2
    for name, child in said.properties.items():
        here = (*path, name)
        if name in value:
            _bind(child, value[name], here, out, budget)
            continue
        default = read(child, budget).default
        if default is None:
            out.facts[here] = Fact("null")
        elif default is not ABSENT:
            out.facts[here] = Fact("default", canonical(default))
        elif name in said.required:
            out.facts[here] = Fact("refused", "missing", "is required")
        else:
            out.facts[here] = Fact("absent")
    for name in said.required - said.properties.keys() - value.keys():
        out.facts[(*path, name)] = Fact("refused", "missing", "is required")
    for name, part in value.items():
        fits = None if said.names is None else accepts(said.names, name, budget)
        if said.names is not None and fits is not True:
            cause = "name" if fits is False else node_digest(said.names)
            out.facts[(*path, name)] = Fact("unread" if fits is None else "refused", cause, "is not a name that fits")
        elif name not in said.properties:
            _bind_extra(said, str(name), part, path, out, budget)


def _bind_extra(said: Read, name: str, part: Any, path: Path, out: Bound, budget: Budget) -> None:
    here = (*path, name)
    matching = []
    for pattern, child in said.patterns.items():
        fits = matches(pattern, name)
        if fits is None:
            out.facts[here] = Fact("unread", pattern, "patternProperties")
            return
        matching += [child] if fits else []
    if matching:
        _bind(Node(tuple(one for child in matching for one in child.parts)), part, here, out, budget)
    elif isinstance(said.extra, Node):
        _bind(said.extra, part, here, out, budget)
    elif said.extra is False:
        out.facts[here] = Fact("refused", "forbidden", "is not an argument")
    elif said.keeps_extra:
        _bind_natural(part, here, out, budget)
    else:
        out.facts[here] = Fact("ignored")


def _bind_array(said: Read, value: list[Any], path: Path, out: Bound, budget: Budget) -> None:
    kind = "set" if said.unique else "array"
    out.loose = max(out.loose, 2 if said.unique or said.prefix else 0)
    size = len({exact(one) for one in value}) if said.unique else len(value)
    out.facts[path] = _sized(said, size, "Items", Fact("value", kind))
    for index, part in enumerate(value):
        here = (*path, index)
        if index < len(said.prefix):
            _bind(said.prefix[index], part, here, out, budget)
        elif said.items is not None:
            _bind(said.items, part, here, out, budget)
        else:
            _bind_natural(part, here, out, budget)


def _bind_natural(value: Any, path: Path, out: Bound, budget: Budget) -> None:
    """A value about which nothing is said stays what it is, and so does all in it."""
    budget.spend()
    if len(path) > MAX_DEPTH:
        raise Undecided(f"a value is nested more than {MAX_DEPTH} deep")
    out.facts[path] = Fact("value", natural(value))
    out.loose = max(out.loose, 1)
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _bind_natural(part, (*path, key), out, budget)


def _limited(said: Read, value: Any, fits: Fact, node: Node) -> Fact:
    """``fits``, or why a number or text is refused."""
    if isinstance(value, str):
        for pattern in said.pattern:
            found = matches(pattern, value)
            if found is None:
                return Fact("unread", fits.text + pattern, "pattern")
            if not found:
                return Fact("refused", "limit", f"does not match {pattern}")
        return _sized(said, len(value), "Length", fits)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for key, limit in said.limits.items():
            outside = (
                (key == "minimum" and value < limit)
                or (key == "maximum" and value > limit)
                or (key == "exclusiveMinimum" and value <= limit)
                or (key == "exclusiveMaximum" and value >= limit)
                or (key == "multipleOf" and limit and value % limit)
            )
            if outside:
                return Fact("refused", "limit", f"is outside {key} {limit}")
    return fits


def _sized(said: Read, size: int, what: str, fits: Fact) -> Fact:
    least, most = said.limits.get("min" + what), said.limits.get("max" + what)
    if least is not None and size < least:
        return Fact("refused", "limit", f"has fewer than min{what} {least}")
    if most is not None and size > most:
        return Fact("refused", "limit", f"has more than max{what} {most}")
    return fits


def decimals(ways: list[Node]) -> set[int]:
    """Which alternatives are how pydantic writes a Decimal: a number and, right after it, a text.

    ``float | str`` is written the same, so that neither can be told from the other: both are read as one type here.
    """
    found: set[int] = set()
    for index in range(len(ways) - 1):
        number, text = (way.parts[-1].schema for way in ways[index : index + 2])
        if not isinstance(number, Mapping) or not isinstance(text, Mapping):
            continue
        looks = str(text.get("pattern", "^(?!")).startswith("^(?!")  # older versions add a pattern with a look-ahead
        if number.get("type") == "number" and text.get("type") == "string" and looks and len(text.keys() - WORDS) < 3:
            found |= {index, index + 1} if "format" not in text and "enum" not in text else set()
    return found


def node_digest(node: Node) -> str:
    """One text for what a node says: two nodes with the same text refuse the same values."""
    return canonical(
        sorted({schema_digest(part.schema, part.scope, ordered=True) + str(part.chosen) for part in node.parts})
    )


def unread_digest(said: Read) -> str:
    """One text for the keywords that are not understood: two nodes with the same text say the same by them."""
    return canonical(sorted(schema_digest({key: value}, scope, ordered=True) for key, value, scope in said.unread))


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
