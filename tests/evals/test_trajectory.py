"""Trajectory match: the modes of agentevals, as a table, and the places where first come first served is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loom import Log, score_run
from pytest_loom.evals.scorers import trajectory_match
from pytest_loom.evals.trajectory import Move, match_problem, moves

MakeRun = Callable[..., Log]
ALL = ("strict", "unordered", "subset", "superset")


def calling(make_run: MakeRun, *calls: tuple[str, Any], steps: Any = ()) -> Log:
    """A run that calls these tools, and a model."""
    events = [
        ("TOOL_REQUESTED", {"callId": f"c{number}", "name": name, "args": args})
        for number, (name, args) in enumerate(calls)
    ]
    events.append(("MODEL_REQUESTED", {"callId": "m", "model": "gpt", "request": {}}))
    return make_run(steps, events=events)


def matching(run: Log, reference: Any, **options: Any) -> set[str]:
    """The modes in which the run matches the reference."""
    return {
        mode
        for mode in ALL
        if score_run(run, [trajectory_match(reference, mode, **options)])["trajectory_match"].passed  # type: ignore[arg-type]
    }


@pytest.mark.parametrize(
    ("actual", "reference", "modes"),
    [
        ("ab", "ab", {"strict", "unordered", "subset", "superset"}),
        ("ba", "ab", {"unordered", "subset", "superset"}),
        ("abc", "ab", {"superset"}),
        ("a", "ab", {"subset"}),
        ("ac", "ab", set()),
        ("aab", "ab", {"superset"}),
        ("ab", "aab", {"subset"}),
        ("", "", {"strict", "unordered", "subset", "superset"}),
        ("", "a", {"subset"}),
        ("a", "", {"superset"}),
    ],
)
@pytest.mark.parametrize("over", ["steps", "tools"])
def test_the_four_modes(make_run: MakeRun, actual: str, reference: str, modes: set[str], over: Any) -> None:
    """Same order, any order, none beyond, at least: for steps and for tools, repeated calls counted."""
    if over == "steps":
        run, wanted = (make_run([(name, 1, {"n": 1}) for name in names]) for names in (actual, reference))
    else:
        run, wanted = (calling(make_run, *((name, {"n": 1}) for name in names)) for names in (actual, reference))
    assert matching(run, wanted, over=over) == modes
    assert matching(run, wanted.state, over=over) == modes
    assert matching(run, list(reference), over=over) == modes
    assert matching(run, [(name, {"n": 1.0}) for name in reference], over=over) == modes
    assert matching(run, [(name, {"n": 2}) for name in reference], over=over, args="ignore") == modes


@pytest.mark.parametrize(
    ("given", "wanted", "modes"),
    [
        ({"a": 1}, {"a": 1}, {"exact", "ignore", "subset", "superset"}),
        ({"a": 1}, {"a": 1, "b": 2}, {"ignore", "subset"}),
        ({"a": 1, "b": 2}, {"a": 1}, {"ignore", "superset"}),
        ({"a": 1}, {"a": 2}, {"ignore"}),
        ({"a": True}, {"a": 1}, {"ignore"}),
        ({}, {"a": 1}, {"ignore", "subset"}),
        ([1], [1], {"exact", "ignore", "subset", "superset"}),
        ([1], [1, 2], {"ignore"}),
        (None, {}, {"ignore"}),
    ],
)
@pytest.mark.parametrize("mode", ALL)
def test_arguments(make_run: MakeRun, given: Any, wanted: Any, modes: set[str], mode: Any) -> None:
    """Exact, ignored, each of the call's, each of the reference's: the same way round in every mode."""
    run = calling(make_run, ("find", given))
    for args in ("exact", "ignore", "subset", "superset"):
        passed = mode in matching(run, [("find", wanted)], over="tools", args=args)
        assert passed is (args in modes)
        by_override = mode in matching(run, [("find", wanted)], over="tools", args="exact", overrides={"find": args})
        assert by_override is passed


def test_a_function_judges_arguments(make_run: MakeRun) -> None:
    """It is given the actual arguments first; for one tool only, the others are compared as said."""
    run = calling(make_run, ("find", {"q": "Paris"}), ("pay", {"n": 1}))
    reference = [("find", {"q": "paris"}), ("pay", {"n": 1})]
    assert matching(run, reference, over="tools") == set()

    def judge(actual: Any, wanted: Any) -> bool:
        assert actual["q"] == "Paris"
        return bool(actual["q"].lower() == wanted["q"])

    assert matching(run, reference, over="tools", overrides={"find": judge}) == set(ALL)
    assert matching(run, reference[:1], over="tools", overrides={"find": judge}) == {"superset"}


def test_the_order_of_calls_cannot_spoil_a_match(make_run: MakeRun) -> None:
    """The first call fits both references, the second only the first: taking the first that fits would fail."""
    run = calling(make_run, ("find", {"a": 1, "b": 2}), ("find", {"a": 1}))
    reference = [("find", {"a": 1}), ("find", {"a": 1, "b": 2})]
    assert matching(run, reference, over="tools", args="superset") == {"unordered", "subset", "superset"}


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_the_modes_are_those_of_multisets(actual: list[str], reference: list[str]) -> None:
    """Strict is equality of lists, the others equality and inclusion of multisets."""

    def matches(mode: Any) -> bool:
        return not match_problem([Move(name, {}) for name in actual], [Move(name, {}) for name in reference], mode)

    counts = [(actual.count(name), reference.count(name)) for name in "abc"]
    assert matches("strict") is (actual == reference)
    assert matches("unordered") is all(mine == wanted for mine, wanted in counts)
    assert matches("subset") is all(mine <= wanted for mine, wanted in counts)
    assert matches("superset") is all(mine >= wanted for mine, wanted in counts)


@pytest.mark.parametrize(
    ("actual", "mode", "reason"),
    [
        ("ac", "strict", '2: expected b({"n": 1}), got c({"n": 1})'),
        ("a", "strict", '2: missing b({"n": 1})'),
        ("abb", "strict", '3: b({"n": 1}) comes after the end of the reference'),
        ("ac", "unordered", 'missing b({"n": 1}); not in the reference: c({"n": 1})'),
        ("ac", "subset", 'not in the reference: c({"n": 1})'),
        ("ac", "superset", 'missing b({"n": 1})'),
        ("ab", "strict", "the steps match (strict)"),
    ],
)
def test_the_reason_names_the_call(make_run: MakeRun, actual: str, mode: Any, reason: str) -> None:
    """What is missing, extra or another is named, which agentevals leaves to the reader."""
    scorer = trajectory_match([(name, {"n": 1}) for name in "ab"], mode)
    run = make_run([(name, 1, {"n": 1}) for name in actual])
    assert score_run(run, [scorer])["trajectory_match"].reason == reason


def test_long_loops_do_not_take_long(make_run: MakeRun) -> None:
    """5,000 calls of one tool in another order, one of them changed: found without trying all pairs."""
    actual = [Move("poll", {"n": number}) for number in range(5_000)]
    reference = [*reversed(actual[1:]), Move("poll", {"n": -1})]
    problem = match_problem(actual, reference, "unordered")
    assert problem == 'missing poll({"n": -1}); not in the reference: poll({"n": 0})'
    assert match_problem(actual, reference, "unordered", "ignore") == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "loose"}, "mode 'loose'"),
        ({"over": "models"}, "over 'models'"),
        ({"args": "most"}, "args 'most'"),
        ({"overrides": {"a": "most"}}, "args 'most'"),
        ({"reference": "abc"}, "not 'abc'"),
        ({"reference": 3}, "not 3"),
        ({"reference": [3]}, "not 3"),
        ({"reference": [("a", 1, 2)]}, "not "),
    ],
)
def test_what_is_not_known_is_refused_where_it_is_written(options: dict[str, Any], said: str) -> None:
    """A misspelt mode or a reference of another shape is a ValueError, not a score."""
    with pytest.raises(ValueError, match=said):
        trajectory_match(**{"reference": ["a"], **options})


def test_a_path_is_read_from_steps_or_tools(make_run: MakeRun) -> None:
    """Steps by id (each turn of a loop), tools by name; model calls are no tools; a bare name says no arguments."""
    run = calling(make_run, ("find", {"q": 1}), steps=[("poll", 1, {"n": 1}), ("poll", 2)])
    assert moves(run) == [Move("poll", {"n": 1}), Move("poll", None)]
    assert moves(run.state, "tools") == [Move("find", {"q": 1})]
    assert [str(move) for move in moves(["a", ("b", (1,))])] == ["a", "b([1])"]
