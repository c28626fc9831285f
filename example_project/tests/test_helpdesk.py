"""Code that was not written for it: ``loom_effects`` in pyproject.toml names what of the agent is recorded."""

from __future__ import annotations

import pytest

from pytest_loom.plugin.facade import Loom
from refund_desk.helpdesk import answer


@pytest.mark.parametrize(
    ("question", "tools"),
    [
        ("My order 1001 arrived in pieces!", ["find_order", "refund"]),
        ("Where is order 1002?", ["find_order", "hand_over"]),
        ("Where is order 4711?", ["find_order"]),
        ("I want my money back.", []),
    ],
    ids=["broken", "missing", "unknown", "unclear"],
)
def test_answers(loom: Loom, question: str, tools: list[str]) -> None:
    """The agent asks the same of model and tools as it did, and gives the same answer."""
    run = loom.record(answer, question)
    assert run.state.status == "completed"
    used = [frame.step_id.rpartition(":")[2] for frame in run.state.frames.values()]
    assert [name for name in used if name != "complete"] == tools
