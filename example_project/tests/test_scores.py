"""Style three: is a run good enough? Scorers look at what the log says; nothing runs anew."""

from __future__ import annotations

import pytest

from pytest_loom import ExecutionState, Log, score_run
from pytest_loom.evals.scorers import completed, latency, output_matches, step_count, trajectory_match
from pytest_loom.plugin.facade import Loom

PAID = ["inspect", "assess", "pay", "notify"]


def politeness(state: ExecutionState) -> float:
    """A scorer of our own: the share of letters that name the order."""
    letters = [frame.output for frame in state.frames.values() if frame.step_id == "notify"]
    return sum("Order " in letter for letter in letters) / len(letters)


@pytest.mark.loom("logs/refund-approved.loom.jsonl", "logs/refund-retried.loom.jsonl")
def test_paid_refunds_take_the_short_way(loom_golden: Log) -> None:
    """Each is completed, in the four steps of the book, with an output of the right shape."""
    scores = score_run(
        loom_golden,
        [completed(), step_count(at_most=4), trajectory_match(PAID), output_matches(dict[str, str | int])],
    )
    assert {name: score.reason for name, score in scores.items() if not score.passed} == {}


@pytest.mark.loom(
    "logs/refund-approved.loom.jsonl",
    scorers={"in a week": latency(at_most_ms=7 * 24 * 3600 * 1000), "polite": politeness},
    thresholds={"polite": 0.9},
)
def test_the_customer_is_treated_well(loom: Loom, loom_golden: Log) -> None:
    """The marker names scorers and thresholds; loom.score fails where a run stays below them."""
    loom.score(loom_golden)
