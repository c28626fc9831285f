"""Pending approvals beside the table: the tool itself, the words, standing grants, and schemas that mean harm."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom.contract.model import ToolContract
from pytest_loom.contract.pending import Problem, pending_problems, standing_problems

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def thing(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object schema that requires all its properties."""
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def charge(**parts: Any) -> ToolContract:
    """A tool that takes one amount."""
    return ToolContract(schema=thing({"amount": WHOLE}), **parts)


def verdicts(problems: list[Problem]) -> list[tuple[str, str, str]]:
    """What was said, without the words."""
    return [(problem.path, problem.kind, problem.verdict) for problem in problems]


class TestTheToolItself:
    def test_more_permissions(self) -> None:
        """A tool that may do more was not what the person agreed to; one that may do less, or the same, was."""
        args, money = {"amount": 1}, charge(permissions=("money",))
        more = charge(permissions=("mail", "money"))
        problems = pending_problems(money, more, args)
        assert verdicts(problems) == [("", "permissions", "reapprove")]
        assert "mail" in problems[0].detail
        assert "money" not in problems[0].detail
        assert pending_problems(more, money, args) == []
        assert pending_problems(more, charge(permissions=("money", "mail")), args) == []
        assert verdicts(pending_problems(charge(permissions=()), money, args)) == [("", "permissions", "reapprove")]

    @pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1), ("a", "b"), (3, "3")])
    def test_another_version(self, old: Any, new: Any) -> None:
        """Another meaning-version, up or down, is another tool, whatever the schema says; versions are equal or not."""
        problems = pending_problems(charge(version=old), charge(version=new), {"amount": 1})
        assert verdicts(problems) == [("", "version", "reapprove")]
        assert pending_problems(charge(version=old), charge(version=old), {"amount": 1}) == []

    def test_whether_it_still_asks_is_not_judged_here(self) -> None:
        """What an engine does with an answer that is no longer asked for is the engine's own (DESIGN section 5)."""
        for old, new in [(True, False), (False, True)]:
            assert pending_problems(charge(approval=old), charge(approval=new), {"amount": 1}) == []

    def test_a_part_that_is_absent_is_not_checked(self) -> None:
        """None says that nothing is known, so nothing is said of it."""
        known = charge(version=1, permissions=("money",), approval=True)
        bare = charge()
        assert pending_problems(bare, known, {"amount": 1}) == []
        assert pending_problems(known, bare, {"amount": 1}) == []
        assert pending_problems(charge(), ToolContract(), {"anything": 1}) == []

    def test_without_the_old_schema_todays_tool_has_to_take_it_all(self) -> None:
        """Where nobody kept what was shown, an argument that today's tool refuses or drops is still found."""
        today = ToolContract(schema=thing({"amount": WHOLE}))
        assert pending_problems(ToolContract(), today, {"amount": 1}) == []
        found = pending_problems(ToolContract(), today, {"cents": 1})
        assert verdicts(found) == [("amount", "newly-required", "reapprove"), ("cents", "ignored", "reapprove")]
        with_default = ToolContract(schema={"type": "object", "properties": {"fee": {"type": "integer", "default": 5}}})
        assert pending_problems(ToolContract(), with_default, {}) == []

    def test_everything_is_said_at_once(self) -> None:
        """Several causes are several problems: the tool's own first."""
        old = charge(version=1, permissions=())
        new = ToolContract(schema=thing({"amount": TEXT, "region": TEXT}), version=2, permissions=("mail",))
        assert verdicts(pending_problems(old, new, {"amount": 1})) == [
            ("", "permissions", "reapprove"),
            ("", "version", "reapprove"),
            ("amount", "retyped", "reapprove"),
            ("region", "newly-required", "reapprove"),
        ]


class TestWords:
    def test_a_rename_says_both_names_and_what_would_happen(self) -> None:
        """The worst case seen in the field: the approved 4999 is dropped, and the refund runs with 0."""
        old = ToolContract(schema=thing({"amount_cents": WHOLE}))
        new = ToolContract(schema={"type": "object", "properties": {"amount": {**WHOLE, "default": 0}}})
        (problem,) = pending_problems(old, new, {"amount_cents": 4999})
        assert (problem.path, problem.kind) == ("amount_cents", "renamed")
        assert (
            problem.detail == "amount_cents was shown as 4999; today's tool has amount instead, and amount would be 0"
        )

    def test_a_place_deep_inside_is_named(self) -> None:
        """The path leads to the one key that changed."""
        old, new = (
            ToolContract(schema=thing({"items": {"type": "array", "items": thing({"sku": TEXT, "count": kind})}}))
            for kind in (WHOLE, TEXT)
        )
        (problem,) = pending_problems(old, new, {"items": [{"sku": "x", "count": 3}]})
        assert problem.path == "items[0].count"
        assert "3" in problem.detail

    def test_hostile_names_and_values_are_printed_safely(self) -> None:
        """A log cannot forge a line of a report, nor fill it."""
        before = ToolContract(schema={"type": "object", "properties": {"a\nb": {}}})
        today = ToolContract(schema={"type": "object", "properties": {"c\x1b[31m": {}}})
        problems = pending_problems(before, today, {"a\nb": "x\n" * 9999})
        assert problems
        for problem in problems:
            assert problem.path.isprintable()
            assert problem.detail.isprintable()
            assert len(problem.detail) < 500


class TestStandingGrants:
    def test_the_same_tool(self) -> None:
        """Other words leave an "always approve" as it is."""
        same = ToolContract(schema={**thing({"amount": {**WHOLE, "title": "Cents"}}), "description": "pays"})
        assert standing_problems(charge(), same) == []

    def test_a_tool_that_takes_less(self) -> None:
        """Calls that can no longer come were approved all the same."""
        less = ToolContract(schema=thing({"amount": {**WHOLE, "maximum": 100}}))
        assert standing_problems(charge(), less) == []

    @pytest.mark.parametrize(
        "schema",
        [
            thing({"amount": {"type": ["integer", "string"]}}),
            {**thing({"amount": WHOLE, "to": TEXT}), "required": ["amount"]},
            thing({"total": WHOLE}),
        ],
    )
    def test_a_tool_that_takes_more_or_other_things(self, schema: dict[str, Any]) -> None:
        """A call that nobody could have agreed to needs a new grant, though each old call would still be fine."""
        problems = standing_problems(charge(), ToolContract(schema=schema))
        assert problems
        assert {problem.verdict for problem in problems} == {"reapprove"}

    def test_the_tool_itself(self) -> None:
        """Another version is another tool for a standing grant too."""
        assert verdicts(standing_problems(charge(version=1), charge(version=2))) == [("", "version", "reapprove")]


def deep(levels: int) -> dict[str, Any]:
    """A schema of lists in lists."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


BOMB = {
    "$ref": "#/$defs/a0",
    "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": WHOLE},
}
HOSTILE: dict[str, Any] = {
    "itself": {"$ref": "#"},
    "each-other": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "a-choice-of-itself": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
    },
    "all-of-itself": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "bomb": BOMB,
    "nowhere": {"$ref": "#/$defs/gone"},
    "elsewhere": {"$ref": "https://127.0.0.1:9/schema.json"},
    "not-a-name": {"$ref": 5},
    "deep": deep(5000),
    "wide": thing({f"k{n}": {"type": "string"} for n in range(2500)}),
    "wrong-types": {"type": 5, "properties": [1], "required": 7, "items": "x", "enum": 3, "anyOf": {}, "minimum": "a"},
    "nulls": {"type": None, "properties": None, "required": None, "items": None, "anyOf": None, "$defs": None},
    "unhashable": {"type": [["integer"]], "required": [{}], "enum": [{}, []]},
    "slow-pattern": {"type": "string", "pattern": "^(a+)+$"},
    "no-pattern": {"type": "string", "pattern": "(?<=a)b(("},
    "not": {"not": {"type": "integer"}},
    "true": True,
    "false": False,
}
ARGS: list[Any] = [{}, {"x": 1}, [[[1]]], 1, "a" * 40 + "!", None, True]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_in_an_answer(name: str) -> None:
    """Whatever a log holds as a schema, against itself or another: an answer, in time, and never a crash."""
    hostile, plain = ToolContract(schema=HOSTILE[name]), ToolContract(schema=thing({"x": WHOLE}))
    for args in ARGS:
        for old, new in [(hostile, plain), (plain, hostile), (hostile, hostile), (ToolContract(), hostile)]:
            assert isinstance(pending_problems(old, new, args), list)
        assert isinstance(standing_problems(hostile, plain), list)


def test_what_cannot_be_told_is_asked_again() -> None:
    """A schema that leads out of its document is never fetched and never taken for harmless."""
    problems = pending_problems(charge(), ToolContract(schema=HOSTILE["elsewhere"]), {"amount": 1})
    assert verdicts(problems) == [("", "undecided", "reapprove")]
    assert verdicts(pending_problems(charge(), ToolContract(schema=deep(5000)), {})) == [("", "undecided", "reapprove")]
    clause = {**thing({"amount": WHOLE}), "if": {"required": ["amount"]}, "then": {"required": ["region"]}}
    assert verdicts(pending_problems(charge(), ToolContract(schema=clause), {"amount": 1})) == [
        ("", "undecided", "reapprove")
    ]


def test_arguments_nested_without_end() -> None:
    """Arguments come from a log too: too deep to follow is asked again."""
    args: Any = 1
    for _ in range(3000):
        args = [args]
    other = ToolContract(schema=thing({"amount": True, "more": True}))
    problems = pending_problems(ToolContract(schema=thing({"amount": {}})), other, {"amount": args})
    assert [problem.kind for problem in problems] == ["undecided"]
