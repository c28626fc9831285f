"""OpenAI's strict mode, turned back into what binds a call."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom.contract.strict import loosened, said_arguments

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
MAYBE = {"anyOf": [TEXT, {"type": "null"}]}


def strict(**properties: Any) -> dict[str, Any]:
    """An object as strict mode writes it: closed, and everything required."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "loose"),
    [
        (strict(a=TEXT), {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}),
        (strict(a=TEXT, b=MAYBE), {"type": "object", "properties": {"a": TEXT, "b": MAYBE}, "required": ["a"]}),
        (strict(b={**NUMBER, "default": 1}), {"type": "object", "properties": {"b": {**NUMBER, "default": 1}}}),
        (strict(b={"type": ["string", "null"]}), {"type": "object", "properties": {"b": {"type": ["string", "null"]}}}),
        (
            {"type": "array", "items": strict(a=MAYBE)},
            {"type": "array", "items": {"type": "object", "properties": {"a": MAYBE}}},
        ),
        (
            {"$defs": {"A": strict(a=MAYBE)}, "$ref": "#/$defs/A"},
            {"$defs": {"A": {"type": "object", "properties": {"a": MAYBE}}}, "$ref": "#/$defs/A"},
        ),
        ({"anyOf": [strict(a=MAYBE), TEXT]}, {"anyOf": [{"type": "object", "properties": {"a": MAYBE}}, TEXT]}),
        ({"additionalProperties": TEXT}, {"additionalProperties": TEXT}),
        (
            {"properties": {"required": TEXT}, "required": "no list"},
            {"properties": {"required": TEXT}, "required": "no list"},
        ),
        (True, True),
        (None, None),
    ],
)
def test_loosened(schema: Any, loose: Any) -> None:
    """Objects are open, and only what has no default and cannot be null is required, all the way down."""
    assert loosened(schema) == loose


def test_a_deep_schema_is_left_as_it_is_from_some_depth_on() -> None:
    """A schema out of a log cannot exhaust the stack."""
    schema: Any = TEXT
    for _ in range(5000):
        schema = {"items": schema}
    assert loosened(schema)["items"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"a": "x", "b": None}, {"a": "x"}),
        ({"a": None, "b": "x"}, {"a": None, "b": "x"}),
        ({"a": "x", "c": None}, {"a": "x", "c": None}),
        ("text", "text"),
    ],
)
def test_nulls_that_say_nothing(args: Any, said: Any) -> None:
    """A null for an argument that could be left out and is gone today is none; any other null is one."""
    old, new = loosened(strict(a=TEXT, b=MAYBE)), strict(a=TEXT)
    assert said_arguments(args, old, new) == said
    assert said_arguments(args, None, new) == args
