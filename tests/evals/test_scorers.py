"""The ready-made scorers, each passing, failing and saying why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from pytest_loom import Log, LogBuilder, Score, ScoreError, Unsupported, score_run
from pytest_loom.evals import scorers

MakeRun = Callable[..., Log]


class Refund(BaseModel):
    amount: int
    day: date = date(2026, 1, 1)


@dataclass
class Line:
    sku: str
    price: float


def scored(run: Log, scorer: Any) -> Score:
    """The score of one scorer."""
    (score,) = score_run(run, [scorer]).values()
    return score


def models(*usages: Any, status: str = "COMPLETED") -> list[tuple[str, dict[str, Any]]]:
    """The events of model calls that used so much."""
    events: list[tuple[str, dict[str, Any]]] = []
    for number, usage in enumerate(usages):
        events.append(("MODEL_REQUESTED", {"callId": f"m{number}", "model": "m", "request": {}}))
        answer = {"response": {}} if status == "COMPLETED" else {"error": {"message": "x"}}
        events.append(
            (f"MODEL_{status}", {"callId": f"m{number}", **answer, **({} if usage is None else {"usage": usage})})
        )
    return events


def test_each_has_its_name_and_a_score_of_one_or_nought(make_run: MakeRun) -> None:
    """In a list they are told apart by name, and a report can add them up."""
    run = make_run([("a", 1)], output=1)
    made = [
        scorers.completed(),
        scorers.output_equals(2),
        scorers.output_matches(int),
        scorers.step_count(at_most=1),
        scorers.latency(at_most_ms=5),
        scorers.tokens(at_most=5),
        scorers.trajectory_match(["a"]),
    ]
    names = ["completed", "output_equals", "output_matches", "step_count", "latency", "tokens", "trajectory_match"]
    found = score_run(run, made)
    assert list(found) == names
    assert [(score.value, score.passed) for score in found.values()] == [
        (1.0, True),
        (0.0, False),
        (1.0, True),
        (1.0, True),
        (0.0, False),
        (1.0, True),
        (1.0, True),
    ]
    assert all(score.reason for score in found.values())


def test_completed(make_run: MakeRun) -> None:
    """Only a completed run passes; a failed one says how it failed."""
    assert scored(make_run(), scorers.completed()).passed is True
    for status in ("running", "cancelled", "continued"):
        score = scored(make_run(status=status), scorers.completed())
        assert (score.passed, score.reason) == (False, f"the run is {status}")
    failed = make_run(status="failed", error={"type": "ValueError", "message": "no\nrates"})
    assert scored(failed, scorers.completed()).reason == r"the run is failed: ValueError: no\nrates"


@pytest.mark.parametrize(
    ("output", "scorer", "reason"),
    [
        ({"a": 1}, scorers.output_equals({"a": 1.0}), ""),
        ({"a": 1}, scorers.output_equals({"a": True}), "output.a is 1, not true"),
        (
            {"a": 1, "b": [1]},
            scorers.output_equals({"a": 2, "b": [2]}),
            "output.a is 1, not 2; output.b[0] is 1, not 2",
        ),
        ({"a": 1, "id": 5}, scorers.output_equals({"a": 1}), "output.id is 5, not absent"),
        ({"a": 1, "id": 5}, scorers.output_equals({"a": 1}, ignore=["output.id"]), ""),
        ({"a": 1, "id": 5}, scorers.output_equals({"a": 1}, ignore=["**.id"]), ""),
        ({"a": 1.01}, scorers.output_equals({"a": 1}, tolerance={"abs": 0.1}), ""),
        ({"amount": 5, "day": "2026-01-01"}, scorers.output_equals(Refund(amount=5)), ""),
        ([{"sku": "x", "price": 1}], scorers.output_equals((Line("x", 1.0),)), ""),
        (None, scorers.output_equals(None), ""),
    ],
)
def test_output_equals(make_run: MakeRun, output: Any, scorer: Any, reason: str) -> None:
    """Equal by value, under the rules of diff_runs, to plain data or what says it; else the places are named."""
    score = scored(make_run(output=output), scorer)
    assert score == (Score(0.0, False, reason) if reason else Score(1.0, True, "the output is equal"))


def test_output_equals_is_not_passed_by_a_run_without_output(make_run: MakeRun) -> None:
    """None expected is JSON's null, not "nothing"; and wrong rules are refused where they are written."""
    score = scored(make_run(status="running"), scorers.output_equals(None))
    assert score.reason == "output is absent, not null"
    with pytest.raises(ValueError, match="path pattern"):
        scorers.output_equals(1, ignore=["a*"])


@pytest.mark.parametrize(
    ("output", "schema", "reason"),
    [
        ({"amount": 5, "day": "2026-01-01"}, Refund, ""),
        ({"amount": "5"}, Refund, "output.amount: Input should be a valid integer"),
        ({}, Refund, "output.amount: Field required"),
        ([1, 2], list[int], ""),
        ([1, "2"], list[int], "output[1]: Input should be a valid integer"),
        ({"sku": "x", "price": 1}, Line, ""),
        ("a", int | None, "output: Input should be a valid integer"),
    ],
)
def test_output_matches_a_type(make_run: MakeRun, output: Any, schema: Any, reason: str) -> None:
    """Checked strictly and as JSON: a date may be text, a number may not; the first problem is named."""
    score = scored(make_run(output=output), scorers.output_matches(schema))
    assert score == (Score(0.0, False, reason) if reason else Score(1.0, True, "the output fits"))


def test_output_matches_needs_an_output(make_run: MakeRun) -> None:
    """A run without an output fits nothing, not even None."""
    score = scored(make_run(status="suspended"), scorers.output_matches(type(None)))
    assert score == Score(0.0, False, "the run has no output: it is running")


def test_a_json_schema_without_its_package_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """jsonschema is no dependency; where it is missing, that is said with what to do."""
    monkeypatch.setitem(sys.modules, "jsonschema.validators", None)
    with pytest.raises(Unsupported, match="pip install jsonschema"):
        scorers.output_matches({"type": "object"})


def test_output_matches_a_json_schema(make_run: MakeRun) -> None:
    """With jsonschema installed, the first violation is named by its path, and nothing is fetched."""
    pytest.importorskip("jsonschema")
    scorer = scorers.output_matches({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert scored(make_run(output={"n": 1}), scorer).passed
    assert scored(make_run(output={"n": "1"}), scorer).reason == "output.n: '1' is not of type 'integer'"
    remote = scorers.output_matches({"$ref": "https://example.invalid/schema.json"})
    with pytest.raises(ScoreError, match="scorer 'output_matches' raised"):
        scored(make_run(output=1), remote)


def test_step_count(make_run: MakeRun) -> None:
    """Each turn of a loop counts, bounds are inclusive, and one is needed."""
    run = make_run([("poll", 1), ("poll", 2), ("pay", 1)])
    assert scored(run, scorers.step_count(at_most=3, at_least=3)).passed is True
    assert scored(run, scorers.step_count(at_most=2)) == Score(0.0, False, "3 steps; at most 2 allowed")
    assert scored(run, scorers.step_count(at_least=4)) == Score(0.0, False, "3 steps; at least 4 allowed")
    with pytest.raises(ValueError, match="at_most"):
        scorers.step_count()


def test_latency(make_run: MakeRun) -> None:
    """The time from the first event to the last, whichever way timestamps are written."""
    assert scored(make_run(), scorers.latency(at_most_ms=999)) == Score(1.0, True, "999 ms; at most 999 ms allowed")
    builder = LogBuilder("r", "w")
    builder.add("EXECUTION_STARTED", {}, timestamp="2026-01-01T00:00:00Z")
    builder.add("EXECUTION_COMPLETED", {"output": 1}, timestamp="2026-01-01T01:00:01.5+01:00")
    assert scored(builder.log(), scorers.latency(at_most_ms=1000)).reason == "1500 ms; at most 1000 ms allowed"


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 7, "output_tokens": 3},
        {"prompt_tokens": 7, "completion_tokens": 3},
        {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        {"total_tokens": 10},
        {"inputTokens": 7, "outputTokens": 3},
        {"promptTokens": 7, "completionTokens": 3, "totalTokens": 10},
        {"prompt_token_count": 7, "candidates_token_count": 3, "total_token_count": 10},
    ],
)
def test_tokens_are_summed_whatever_their_names(make_run: MakeRun, usage: Any) -> None:
    """The names of the usual providers are understood, and calls add up."""
    run = make_run(events=models(usage, usage))
    assert scored(run, scorers.tokens(at_most=20)) == Score(1.0, True, "20 tokens in 2 model calls; at most 20 allowed")
    assert scored(run, scorers.tokens(at_most=19)).passed is False


@pytest.mark.parametrize(
    "usage", [None, {}, {"input_tokens": 1}, {"total_tokens": "7"}, {"total_tokens": True}, {"total_tokens": -1}, 7]
)
def test_unknown_usage_is_not_within_a_budget(make_run: MakeRun, usage: Any) -> None:
    """What a completed call used has to be known; a failed call answered nothing."""
    run = make_run(events=models({"total_tokens": 4}, usage))
    score = scored(run, scorers.tokens(at_most=10**9))
    assert score == Score(0.0, False, "1 of 2 model calls recorded no usage; the others 4 tokens")
    assert scored(make_run(events=models(usage, status="FAILED")), scorers.tokens(at_most=0)).passed is True


@pytest.mark.parametrize("value", ["text", 3, None, [1]])
def test_output_matches_takes_no_plain_value(value: Any) -> None:
    """Who means a value is told what compares values, rather than shown pydantic's insides."""
    with pytest.raises(ValueError, match="output_equals compares values"):
        scorers.output_matches(value)
