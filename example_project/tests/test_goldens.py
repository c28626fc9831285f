"""Style one: does today's code still do what the golden runs did?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_loom import Log, diff_runs


@pytest.mark.loom("logs/refund*.loom.jsonl", compare="all")
def test_refunds_are_as_recorded(loom_golden: Log, rerun: Callable[[Log], Log]) -> None:
    """Paid, declined, waiting, retried and crashed refunds come out as they did."""
    candidate = rerun(loom_golden)
    assert diff_runs(loom_golden, candidate) == []


@pytest.mark.loom("logs/chargeback-polling.loom.jsonl", compare="all")
def test_a_chargeback_is_polled_as_recorded(loom_golden: Log, rerun: Callable[[Log], Log]) -> None:
    """The loop asks once a day: the keys of its turns are poll, poll#2 and poll#3."""
    candidate = rerun(loom_golden)
    assert diff_runs(loom_golden, candidate) == []
    assert list(candidate.state.frames) == ["contest", "poll", "poll#2", "poll#3"]
