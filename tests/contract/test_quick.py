"""Values told to fit while they are decoded: what is said to fit does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom.contract.pending import value_problems
from pytest_loom.contract.quick import fitting

NAMES = ("a", "b", "item", "items")
PLAIN = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"type": ["integer", "string", "boolean"]},
        {"enum": ["x", "y"]},
        {"type": "string", "enum": ["x"]},
        {"type": "string", "format": "date-time"},
        {"type": "integer", "maximum": 3},
        {"$ref": "#/$defs/one"},
        {"title": "anything"},
        {},
        True,
    ]
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of what holds something."""
    properties = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    objects = st.builds(
        lambda properties, required, more: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            **({} if more is None else {"additionalProperties": more}),
        },
        properties,
        st.sets(st.sampled_from(NAMES)),
        st.sampled_from([None, True, False]),
    )
    return st.one_of(
        objects,
        inner.map(lambda one: {"type": "array", "items": one}),
        inner.map(lambda one: {"type": "object", "additionalProperties": one}),
        st.lists(inner, min_size=1, max_size=3).map(lambda members: {"anyOf": members}),
        inner.map(lambda one: {**one, "default": None} if isinstance(one, dict) else one),
    )


SCHEMAS = st.recursive(PLAIN, larger, max_leaves=6)
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([1.0, 0.5, 1e300, "x", "y", "1", "true", ""])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
)


def of(schema: Any, value: st.DataObject) -> Any:
    """A value that is likely to fit a schema."""
    said = schema if isinstance(schema, dict) else {}
    if "anyOf" in said:
        return of(value.draw(st.sampled_from(said["anyOf"])), value)
    if "properties" in said:
        names = [name for name in said["properties"] if name in said["required"] or value.draw(st.booleans())]
        more = value.draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=1))
        return more | {name: of(said["properties"][name], value) for name in names}
    if said.get("type") == "array":
        return [of(said["items"], value) for _ in range(value.draw(st.integers(0, 2)))]
    return value.draw(VALUES)


@given(SCHEMAS, st.none() | SCHEMAS, st.data())
@settings(max_examples=600, deadline=None, derandomize=True)
def test_what_is_said_to_fit_has_no_problem(schema: Any, old: Any, data: st.DataObject) -> None:
    """A value that passes has no problem, whatever yesterday's schema was."""
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"one": {"type": "integer"}}}
    value = of(schema, data)
    if fitting([(old, schema)])([json.dumps(value).encode()]):
        assert value_problems(old, schema, value) == []


SCHEMA = {
    "type": "object",
    "properties": {"risk": {"type": "integer"}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["risk"],
}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (b'{"risk":1}', True),
        (b'{"note":null,"risk":1}', True),
        (b'{"risk":1,"note":"x"}', True),
        (b'{"risk":"1"}', False),
        (b'{"risk":true}', False),
        (b'{"note":"x"}', False),
        (b'{"risk":1,"other":2}', False),
        (b'{"risk":1,"note":null,"other":[{}]}', True),
        (b"[]", False),
        (b'{"risk":1,"note":"' + b"{" * 200 + b'"}', False),
    ],
)
def test_which_values_pass(text: bytes, fits: bool) -> None:
    """All that is required, of just the types that are said; nothing else, unless all that is declared is there."""
    assert fitting([(None, SCHEMA)])([text]) is fits
    assert fitting([(None, True), (None, SCHEMA), (SCHEMA, {})])([b"1", text, b"2"]) is fits


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "a"},
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 1},
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}, "required": []},
        {"oneOf": [{"type": "string"}]},
        {"anyOf": [SCHEMA, SCHEMA]},
        {"$ref": "#/definitions/one"},
        {"$ref": "#/$defs/one", "$defs": {"one": {"$ref": "#/$defs/one"}}},
        {"const": 1},
        {"type": "object", "required": ["a"], "properties": {}},
        {"type": 7},
        {"anyOf": 7},
        False,
        7,
    ],
)
def test_schemas_that_say_more(schema: Any) -> None:
    """Where a schema says anything else, nothing is told of its values."""
    assert not fitting([(None, schema)])([b"1"])
    assert not fitting([(schema, {})])([b"1"])
    assert fitting([(SCHEMA, {})])([b"1"])


def test_a_value_that_takes_too_long_to_look_at() -> None:
    """What would be undecided, since it is too much to follow, is not said to fit."""
    test = fitting([(None, {"type": "array"})])
    many = b"[" + b",".join([b"1"] * 60_000) + b"]"
    assert value_problems(None, {"type": "array"}, json.loads(many)) != []
    assert not test([many])
    assert test([b"[1,2]"])
