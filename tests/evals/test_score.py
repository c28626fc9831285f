"""score_run: what a scorer may return, and what happens when it cannot."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from pytest_loom import ExecutionState, Log, Score, ScoreError, ascore_run, score_run

MakeRun = Callable[..., Log]


@pytest.fixture
def run(make_run: MakeRun) -> Log:
    """A completed run of one step, as read from a file."""
    return make_run([("a", 1)], output={"n": 3}, path="tests/logs/a.loom.jsonl")


def steps(state: ExecutionState) -> float:
    """A scorer that counts."""
    return len(state.frames)


async def later(state: ExecutionState) -> Score:
    """A scorer that takes its time."""
    await asyncio.sleep(0)
    return Score(0.5, None, state.status)


@pytest.mark.parametrize(
    ("verdict", "score"),
    [
        (True, Score(1.0, True)),
        (False, Score(0.0, False)),
        (3, Score(3.0)),
        (0.25, Score(0.25)),
        (Fraction(1, 4), Score(0.25)),
        (Score(1, True, "why"), Score(1.0, True, "why")),
    ],
)
def test_a_verdict_becomes_a_score(run: Log, verdict: Any, score: Score) -> None:
    """A bool is passed or not, a number is not judged, a Score is itself; the value is always a float."""
    (found,) = score_run(run, {"it": lambda state: verdict}).values()
    assert found == score
    assert type(found.value) is float
    assert asyncio.run(ascore_run(run, {"it": lambda state: verdict})) == {"it": score}


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        "1",
        math.nan,
        math.inf,
        10**400,
        Decimal(1),
        [1.0],
        Score(math.nan),
        Score("x"),  # type: ignore[arg-type]
        Score(1, 1),  # type: ignore[arg-type]
        Score(1, "no"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_score_is_an_error_that_names_the_scorer(run: Log, verdict: Any) -> None:
    """NaN, text, nothing: refused with the scorer, the run and its file."""
    with pytest.raises(ScoreError, match=r"a\.loom\.jsonl.*run-1.*scorer 'quality' returned") as caught:
        score_run(run, {"quality": lambda state: verdict})
    assert caught.value.hint
    with pytest.raises(ScoreError, match="scorer 'quality' returned"):
        asyncio.run(ascore_run(run, {"quality": lambda state: verdict}))


def test_a_scorer_that_raises_is_named_and_its_error_chained(run: Log) -> None:
    """Whose fault it is stands in the message, what it was in the cause."""

    def broken(state: ExecutionState) -> bool:
        return bool(state.variables["_output"]["m"])

    async def broken_later(state: ExecutionState) -> bool:
        raise KeyError("m")

    for scorer in (broken, broken_later):
        with pytest.raises(ScoreError, match=f"scorer '{scorer.__name__}' raised KeyError: 'm'") as caught:
            score_run(run, [scorer])
        assert isinstance(caught.value.__cause__, KeyError)
        with pytest.raises(ScoreError, match=f"scorer '{scorer.__name__}' raised KeyError"):
            asyncio.run(ascore_run(run.state, [scorer]))


def test_scorers_are_named_in_the_order_given(run: Log) -> None:
    """By mapping, by __name__ or by an attribute ``name``; sync and async together, on a log or its state."""

    class Judge:
        name = "judge"

        def __call__(self, state: ExecutionState) -> bool:
            return state.status == "completed"

    scorers: list[Any] = [steps, later, Judge()]
    expected = {"steps": Score(1.0), "later": Score(0.5, None, "completed"), "judge": Score(1.0, True)}
    assert score_run(run, scorers) == expected
    assert list(score_run(run.state, scorers)) == list(expected)
    named: dict[str, Any] = {"b": steps, "a": later}
    assert score_run(run, named) == {"b": Score(1.0), "a": Score(0.5, None, "completed")}
    assert score_run(run, []) == {}


@pytest.mark.parametrize(
    ("scorers", "said"),
    [
        ([lambda state: 1], "no name"),
        ([partial(steps)], "no name"),
        ([steps, steps], "two scorers are called 'steps'"),
        ([3], "no name"),
        ({"a": 3}, "'a' is not callable"),
        (steps, "mapping of name to scorer"),
        ("completed", "mapping of name to scorer"),
    ],
)
def test_scorers_need_distinct_names(run: Log, scorers: Any, said: str) -> None:
    """What cannot be named in a report is refused before anything is scored."""
    with pytest.raises(ValueError, match=said):
        score_run(run, scorers)


def test_in_a_running_loop_async_scorers_need_the_coroutine(run: Log) -> None:
    """score_run says what to write instead, leaves no coroutine behind, and still takes sync scorers."""

    async def inside() -> None:
        assert score_run(run, [steps]) == {"steps": Score(1.0)}
        with pytest.raises(ScoreError, match=r"await ascore_run") as caught:
            score_run(run, [steps, later])
        assert "'later'" in str(caught.value)
        assert await ascore_run(run, [steps, later]) == {"steps": Score(1.0), "later": Score(0.5, None, "completed")}

    asyncio.run(inside())


def test_a_failing_scorer_leaves_no_coroutine_behind(run: Log) -> None:
    """An async scorer called before one that raises is closed: Python would warn, and warnings are errors here."""
    scorers: dict[str, Any] = {"later": later, "broken": lambda state: 1 / 0}
    with pytest.raises(ScoreError, match="'broken'"):
        score_run(run, scorers)


def test_interrupts_pass_through(run: Log) -> None:
    """Ctrl-C in a scorer is no scoring error."""

    def interrupted(state: ExecutionState) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_run(run, [interrupted])
