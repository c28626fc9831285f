"""Values that fit their schemas beyond doubt, told while they are decoded: for the many, before anybody looks closely.

``fitting(schemas)`` gives a test on as many JSON texts. What passes has every required key, each value of just the type
that is said, and either no key that is not declared or all that are, so that none can be a lost one's new name:
``value_problems`` finds nothing either. What does not pass may fit all the same: it has to be looked at. Nothing passes
where a schema says more than types, keys and choices of words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union

import msgspec

from pytest_loom.contract.nodes import MAX_WORK, WORDS

_UNDECODABLE = (msgspec.DecodeError, ValueError, RecursionError)

Fit = Callable[[Sequence[bytes]], bool]

_SCALARS: dict[str, Any] = {"string": str, "integer": int, "number": int | float, "boolean": bool, "null": None}
_MOST = 8
"""Members of a choice."""
_DEEP = 20
_NESTED = 100
_STEPS = 40
"""More than what looking closely at one place of a value takes, of the ``MAX_WORK`` that it has for all of it."""


class _Unsaid(Exception):
    """The schema says something that is not looked at here."""


def fitting(schemas: Sequence[tuple[Any, Any]]) -> Fit:
    """The test for values, each recorded under the first of two schemas (None: not known) and read under the second.

    The texts have to be one JSON value each. True is certain, False is not. Yesterday's schema only has to be one that
    can be followed.
    """
    found = [[_types(schema) for schema in (new, old) if schema is not None] for old, new in schemas]
    if not all(types for each in found for types, _ in each):
        return lambda values: False
    both = [each[0][0] for each in found]
    decoders = [
        msgspec.json.Decoder(tuple[tuple(types[min(way, len(types) - 1)] for types in both)]).decode  # type: ignore[misc]
        for way in (range(2) if both else ())
    ]
    places = max((places for each in found for _, places in each), default=0)
    short = min(2 * _NESTED, 2 * MAX_WORK // (_STEPS * (places + 1)) - 8)

    def fit(values: Sequence[bytes]) -> bool:
        if not values:
            return True
        if max(map(len, values)) > short and any(_is_much(value, places) for value in values):
            return False
        text = b"[" + b",".join(values) + b"]"
        for decode in decoders:
            try:
                decode(text)
            except _UNDECODABLE:
                continue
            return True
        return False

    return fit


def _is_much(value: bytes, places: int) -> bool:
    """Whether looking closely at a value might be given up, since there is too much of it."""
    objects = value.count(b"{")
    return objects + value.count(b"[") > _NESTED or (objects * places + value.count(b",") + 2) * _STEPS > MAX_WORK


def _types(schema: Any) -> tuple[list[Any], int]:
    """Types of which only values that fit can be, and how many places the schema has; none where it says more."""
    found: list[Any] = []
    places = 0
    for is_complete in (False, True):
        maker = _Maker(schema, is_complete)
        try:
            kind = maker.type_of(schema, 0)
            msgspec.json.Decoder(kind)
        except (_Unsaid, TypeError, ValueError):
            continue
        found.append(kind)
        places = max(places, maker.places)
    return found, places


class _Maker:
    """From a schema to the type that its values are decoded as. ``places`` counts what was looked at.

    ``is_complete``: objects have all declared keys and may have others; else they have no others.
    """

    def __init__(self, root: Any, is_complete: bool) -> None:
        self._is_complete = is_complete
        self._definitions = root.get("$defs", {}) if isinstance(root, Mapping) else {}
        self.places = 0

    def type_of(self, schema: Any, depth: int) -> Any:
        """The type for a schema. Raises _Unsaid."""
        self.places += 1
        if depth > _DEEP or self.places > MAX_WORK:
            raise _Unsaid
        if schema is True:
            return Any
        if not isinstance(schema, Mapping) or (depth and "$defs" in schema):
            raise _Unsaid
        said = {key: value for key, value in schema.items() if key not in WORDS and key != "default"}
        if not said:
            return Any
        if said.keys() == {"$ref"}:
            name = str(said["$ref"]).removeprefix("#/$defs/")
            if name not in self._definitions:
                raise _Unsaid
            return self.type_of(self._definitions[name], depth + 1)
        if said.keys() == {"anyOf"}:
            return self._choice([self.type_of(member, depth + 1) for member in said["anyOf"]])
        return self._of_type(said, depth)

    def _of_type(self, said: Mapping[str, Any], depth: int) -> Any:
        kind = said.get("type")
        rest = said.keys() - {"type"}
        if rest == {"enum"} and kind in (None, "string") and all(isinstance(one, str) for one in said["enum"]):
            return Literal[tuple(said["enum"])]
        if isinstance(kind, list) and not rest:
            return self._choice([self.type_of({"type": one}, depth + 1) for one in kind])
        if kind in _SCALARS and not rest:
            return _SCALARS[kind]
        if kind == "array" and rest <= {"items"}:
            return list[self.type_of(said.get("items", True), depth + 1)]  # type: ignore[misc]  # a type made here
        if kind == "object" and "properties" in said and rest <= {"properties", "required", "additionalProperties"}:
            return self._object(said, depth)
        if kind == "object" and rest <= {"additionalProperties"} and said.get("additionalProperties") is not False:
            return dict[str, self.type_of(said.get("additionalProperties", True), depth + 1)]  # type: ignore[misc]  # the same
        raise _Unsaid

    def _object(self, said: Mapping[str, Any], depth: int) -> Any:
        names = list(said["properties"])
        required = names if self._is_complete else said.get("required", [])
        more = said.get("additionalProperties", True)
        if not {*said.get("required", ())} <= {*names} or (self._is_complete and not isinstance(more, bool)):
            raise _Unsaid
        fields: list[Any] = []
        for number, name in enumerate(names):
            kind = self.type_of(said["properties"][name], depth + 1)
            optional = (Union[kind, msgspec.UnsetType], msgspec.UNSET)  # noqa: UP007 - as below
            fields.append((f"f{number}", kind) if name in required else (f"f{number}", *optional))
        return msgspec.defstruct(
            "Value",
            fields,
            rename={f"f{number}": name for number, name in enumerate(names)},
            forbid_unknown_fields=not self._is_complete or not more,
            kw_only=True,
        )

    def _choice(self, members: list[Any]) -> Any:
        """One of several: of those that are no scalars at most one, so that no value is tried over and over."""
        if not members or len(members) > _MOST or Any in members:
            raise _Unsaid
        plain = [member for member in members if member in (str, int, bool, None) or member == int | float]
        if len(members) - len(plain) > 1:
            raise _Unsaid
        return Union[tuple(members)]  # noqa: UP007 - a union of what is known only here
