"""What changed between two schemas, and whether one reads what was written under the other."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from pytest_loom.contract.schema import compare_schemas, subsumes

INT, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}
DATE = {"type": "string", "format": "date"}


def thing(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """An object schema that requires all its properties, unless ``required`` says which."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        **more,
    }


def changes(old: Any, new: Any) -> list[tuple[str, str, bool | None]]:
    """What changed, without the words."""
    return [(change.path, change.kind, change.breaking) for change in compare_schemas(old, new)]


def tree(name: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A recursive schema."""
    node = thing({"name": name, "parts": {"type": "array", "items": {"$ref": "#/$defs/T"}}, **more})
    return {"$defs": {"T": node}, "$ref": "#/$defs/T"}


CASES: dict[str, tuple[Any, Any, list[tuple[str, str, bool | None]], bool | None]] = {
    # name: (old, new, changes, whether the new reads what was written under the old)
    "same": (thing({"a": INT}), thing({"a": INT}), [], True),
    "words": (thing({"a": INT}), {**thing({"a": {**INT, "title": "A"}}), "description": "x"}, [], True),
    "integer-to-number": (thing({"a": INT}), thing({"a": NUMBER}), [("a", "wider-number", False)], True),
    "number-to-integer": (thing({"a": NUMBER}), thing({"a": INT}), [("a", "narrowed", True)], False),
    "retyped": (thing({"a": INT}), thing({"a": TEXT}), [("a", "retyped", True)], False),
    "typed": (thing({"a": {}}), thing({"a": INT}), [("a", "narrowed", True)], False),
    "untyped": (thing({"a": INT}), thing({"a": {}}), [("a", "widened", False)], True),
    "nullable": (INT, {"anyOf": [INT, {"type": "null"}]}, [("", "widened", False)], True),
    "nullable-in-one-list": (INT, {"type": ["integer", "null"]}, [("", "widened", False)], True),
    "no-longer-nullable": ({"type": ["integer", "null"]}, INT, [("", "narrowed", True)], False),
    "renamed": (thing({"amount_cents": INT}), thing({"amount": INT}), [("amount_cents", "renamed", True)], False),
    "renamed-optional": (thing({"env": INT}, []), thing({"environment": INT}, []), [("env", "renamed", True)], True),
    "another": (
        thing({"sku": INT}),
        thing({"price": INT}),
        [("sku", "ignored", True), ("price", "added-required", True)],
        False,
    ),
    "ignored": (thing({"a": INT, "b": INT}), thing({"a": INT}), [("b", "ignored", True)], True),
    "removed": (
        thing({"a": INT, "b": INT}, additionalProperties=False),
        thing({"a": INT}, additionalProperties=False),
        [("b", "removed", True)],
        False,
    ),
    "kept-undeclared": (
        thing({"a": INT, "b": INT}, additionalProperties=True),
        thing({"a": INT}, additionalProperties=True),
        [("b", "widened", False)],
        True,
    ),
    "added-required": (thing({"a": INT}), thing({"a": INT, "b": INT}), [("b", "added-required", True)], False),
    "added-optional": (thing({"a": INT}), thing({"a": INT, "b": INT}, ["a"]), [("b", "added-optional", False)], True),
    "added-default": (
        thing({"a": INT}),
        thing({"a": INT, "b": {**INT, "default": 5}}, ["a"]),
        [("b", "added-default", False)],
        True,
    ),
    "added-null-default": (
        thing({"a": INT}),
        thing({"a": INT, "b": {"type": ["integer", "null"], "default": None}}, ["a"]),
        [("b", "added-null-default", False)],
        True,
    ),
    "required-now": (thing({"a": INT}, []), thing({"a": INT}), [("a", "required", True)], False),
    "optional-now": (thing({"a": INT}), thing({"a": INT}, []), [("a", "widened", False)], True),
    "default-changed": (
        thing({"a": {**INT, "default": 1}}, []),
        thing({"a": {**INT, "default": 2}}, []),
        [("a", "default-changed", None)],
        True,
    ),
    "enum-narrowed": ({"enum": ["x", "y"]}, {"enum": ["x"]}, [("", "narrowed", True)], False),
    "enum-widened": ({"enum": ["x"]}, {"enum": ["x", "y"]}, [("", "widened", False)], True),
    "enum-swapped": ({"enum": ["x"]}, {"enum": ["y"]}, [("", "narrowed", True), ("", "widened", False)], False),
    "enum-opened": ({"enum": ["x"], **TEXT}, TEXT, [("", "widened", False)], True),
    "enum-closed": (TEXT, {"enum": ["x"], **TEXT}, [("", "narrowed", True)], False),
    "const-to-enum": ({"const": "x"}, {"enum": ["x", "y"], **TEXT}, [("", "widened", False)], True),
    "minimum-raised": ({**INT, "minimum": 1}, {**INT, "minimum": 2}, [("", "narrowed", True)], False),
    "minimum-said-otherwise": ({**INT, "minimum": 1}, {**INT, "exclusiveMinimum": 0}, [], True),
    "maximum-raised": ({**INT, "maximum": 1}, {**INT, "maximum": 2}, [("", "widened", False)], True),
    "maximum-now-exclusive": (
        {**NUMBER, "maximum": 1},
        {**NUMBER, "exclusiveMaximum": 1},
        [("", "narrowed", True)],
        False,
    ),
    "multiple-coarser": ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 2}, [("", "widened", False)], True),
    "multiple-other": ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 3}, [("", "narrowed", None)], None),
    "pattern-added": (TEXT, {**TEXT, "pattern": "^a"}, [("", "narrowed", True)], False),
    "pattern-removed": ({**TEXT, "pattern": "^a"}, TEXT, [("", "widened", False)], True),
    "pattern-changed": ({**TEXT, "pattern": "^ab"}, {**TEXT, "pattern": "^a"}, [("", "narrowed", None)], None),
    "format-added": (TEXT, DATE, [("", "retyped", True)], False),
    "format-removed": (DATE, TEXT, [("", "widened", False)], True),
    "format-of-words": (TEXT, {**TEXT, "format": "sku"}, [("", "format", False)], True),
    "shorter-list": ({"type": "array"}, {"type": "array", "maxItems": 3}, [("", "narrowed", True)], False),
    "list-to-set": (
        {"type": "array", "items": INT},
        {"type": "array", "items": INT, "uniqueItems": True},
        [("", "retyped", True)],
        False,
    ),
    "items-retyped": (
        {"type": "array", "items": INT},
        {"type": "array", "items": TEXT},
        [("[]", "retyped", True)],
        False,
    ),
    "pair-widened": (
        {"type": "array", "prefixItems": [INT, TEXT], "minItems": 2, "maxItems": 2},
        {"type": "array", "prefixItems": [NUMBER, TEXT], "minItems": 2, "maxItems": 2},
        [("[0]", "wider-number", False)],
        True,
    ),
    "map-widened": (
        {"type": "object", "additionalProperties": INT},
        {"type": "object", "additionalProperties": NUMBER},
        [("*", "wider-number", False)],
        True,
    ),
    "map-to-model": (
        {"type": "object"},
        thing({"a": INT}),
        [("a", "narrowed", None), ("a", "added-required", True), ("*", "ignored", True)],
        False,
    ),
    "closed": (thing({"a": INT}), thing({"a": INT}, additionalProperties=False), [("*", "closed", None)], None),
    "opened": (thing({"a": INT}, additionalProperties=False), thing({"a": INT}), [("*", "widened", False)], True),
    "deep": (thing({"a": thing({"b": INT})}), thing({"a": thing({"b": TEXT})}), [("a.b", "retyped", True)], False),
    "recursive-same": (tree(TEXT), tree({**TEXT, "description": "x"}), [], True),
    "recursive-retyped": (tree(INT), tree(NUMBER), [("name", "wider-number", False)], True),
    "recursive-narrowed": (tree(NUMBER), tree(INT), [("name", "narrowed", True)], False),
    "recursive-extended": (tree(INT), tree(INT, size=INT), [("size", "added-required", True)], False),
    "recursive-through-a-choice": (
        tree(INT, left={"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}),
        tree(NUMBER, left={"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}),
        [("name", "wider-number", False)],
        True,
    ),
    "inlined": (
        {"$defs": {"X": thing({"v": INT})}, **thing({"a": {"$ref": "#/$defs/X"}})},
        thing({"a": thing({"v": INT})}),
        [],
        True,
    ),
    "one-of-more": (
        {"oneOf": [thing({"k": {"const": "a"}, "v": INT}), thing({"k": {"const": "b"}})]},
        {
            "oneOf": [
                thing({"k": {"const": "c"}}),
                thing({"k": {"const": "b"}}),
                thing({"k": {"const": "a"}, "v": NUMBER}),
            ]
        },
        [("v", "wider-number", False), ("", "widened", False)],
        True,
    ),
    "a-member-gone": (
        {"anyOf": [INT, TEXT]},
        {"anyOf": [INT, {"type": "null"}]},
        [("", "narrowed", True), ("", "widened", False)],
        False,
    ),
    "object-to-members": (thing({"a": INT}), {"enum": ["a", 1]}, [("", "narrowed", True)], False),
    "text-to-a-number-or-text": (
        TEXT,
        {"anyOf": [NUMBER, TEXT]},  # how pydantic writes a Decimal
        [("", "undecided", None), ("", "widened", False)],
        None,
    ),
    "not": ({"not": INT}, {"not": TEXT}, [("", "undecided", None)], None),
    "if": (thing({"a": INT}), {**thing({"a": INT}), "if": {}, "then": False}, [("", "undecided", None)], None),
    "names-by-pattern": (
        {"type": "object", "patternProperties": {"^a": INT}},
        {"type": "object", "patternProperties": {"^a": TEXT}},
        [("*", "undecided", None)],
        None,
    ),
    "no-value-any-more": (INT, False, [("", "narrowed", True)], False),
    "nothing-said": (None, True, [], True),
    "out-of-the-document": (INT, {"$ref": "https://127.0.0.1:9/x"}, [("", "undecided", None)], None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change(name: str) -> None:
    """Each change is named, at its place, with what it means for data that is there already."""
    old, new, expected, readable = CASES[name]
    assert changes(old, new) == expected
    assert subsumes(new, old) is readable


def test_a_rollback_is_the_other_way_round() -> None:
    """What the new code may write, the old one may not read: the same two schemas, turned round."""
    old, new = {"enum": ["x"]}, {"enum": ["x", "y"]}
    assert subsumes(new, old) is True
    assert subsumes(old, new) is False


def test_the_words_say_what_and_where() -> None:
    """The details are for people: what it was, and what it is."""
    (change,) = compare_schemas(thing({"env": TEXT}), thing({"environment": {**TEXT, "default": "prod"}}, []))
    assert (change.path, change.kind) == ("env", "renamed")
    assert change.detail == 'looks renamed to environment, which is new, "prod" by default'
    (change,) = compare_schemas({**INT, "maximum": 10}, {**INT, "maximum": 5})
    assert change.detail == "maximum was 10 and is 5"


@pytest.mark.parametrize(
    "hostile", [5, "x", {"type": 5}, {"properties": [1]}, {"$ref": "#"}, {"anyOf": {}}, {"enum": 3}]
)
def test_what_is_no_schema_is_undecided(hostile: Any) -> None:
    """Nonsense is neither harmless nor an error: it cannot be told."""
    assert subsumes(hostile, INT) in (None, True)
    assert all(change.breaking is None or change.kind == "widened" for change in compare_schemas(INT, hostile))


def test_it_ends() -> None:
    """Schemas that unfold without end, or are nested without end, are given up as undecided."""
    bomb = {
        "$ref": "#/$defs/a0",
        "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"type": "null"}] * 3} for n in range(30)}
        | {"a30": INT},
    }
    nested: dict[str, Any] = INT
    for _ in range(1000):
        nested = {"type": "array", "items": nested}
    for hostile in (bomb, nested):
        assert changes(hostile, INT) == [("", "undecided", None)]
        assert changes(INT, hostile) == [("", "undecided", None)]


class Item(BaseModel):
    sku: str
    count: int = 1


class ItemMore(BaseModel):
    sku: str
    count: float = 1
    note: str | None = None


class ItemLess(BaseModel):
    sku: Literal["a", "b"]


ATOMS: list[Any] = [
    *(int, float, str, bool, None, Any, Decimal, datetime.date, uuid.UUID, Item, ItemMore, ItemLess),
    *(Literal["a", 1], Literal["a"], Annotated[int, Field(gt=0, lt=3)], Annotated[int, Field(ge=1)]),
    *(Annotated[str, Field(max_length=1)], Annotated[str, Field(pattern="^a")]),
]
TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        inner.map(lambda one: list[one])  # type: ignore[valid-type]
        | inner.map(lambda one: dict[str, one])  # type: ignore[valid-type]
        | st.lists(inner, min_size=2, max_size=3).map(lambda many: Union[tuple(many)])  # noqa: UP007
        | st.tuples(inner, inner).map(lambda two: tuple[two])  # type: ignore[valid-type]
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 2, 1.5, "", "a", "ab", "b", "2026-01-02", str(uuid.UUID(int=1))])
    | st.sampled_from([{"sku": "a"}, {"sku": "x", "count": 2}, {"sku": "b", "count": 1.5, "note": "n"}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def reads(kind: TypeAdapter[Any], value: Any, strict: bool) -> bool:
    """Whether pydantic takes ``value``."""
    try:
        kind.validate_json(json.dumps(value), strict=strict)
    except ValidationError:
        return False
    return True


@settings(deadline=None, max_examples=300)
@given(writer=TYPES, reader=TYPES, values=st.lists(VALUES, min_size=5, max_size=5))
def test_what_is_said_to_be_read_is_read(writer: Any, reader: Any, values: list[Any]) -> None:
    """Whatever the types: where the answer is yes, pydantic reads as the new type all that it took as the old one."""
    old, new = TypeAdapter(writer), TypeAdapter(reader)
    if subsumes(new.json_schema(), old.json_schema()) is True:
        for value in values:
            assert reads(new, value, False) or not reads(old, value, True), value
    assert subsumes(old.json_schema(), old.json_schema()) is True
