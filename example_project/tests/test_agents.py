"""A ticket that waits for a person, saved by last week's agents (tickets_v1), on today's (tickets).

Optional: skipped where the OpenAI Agents SDK is not installed. ``python make_tickets.py`` saves the ticket anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_loom import diff_runs, load_log, replay, simulate_deploy

agents: Any = pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")

from tickets.desk import desk, front  # noqa: E402

TICKET = Path(__file__).parent / "logs" / "tickets" / "ticket-17.json"


def test_today_may_be_deployed() -> None:
    """Other words, an argument that may be left out and one more agent hurt nobody who waits."""
    report = simulate_deploy(TICKET, {"tickets": front})
    assert {found.code for found in report.findings} == {"suspended-carryover"}
    assert report.ok


def test_a_renamed_amount_may_not() -> None:
    """With ``amount`` for ``cents`` the ticket would be paid with 0, whatever the person agreed to."""

    @agents.function_tool(needs_approval=True)
    def refund(order: str, amount: int = 0) -> str:
        """Pay an order back."""
        raise AssertionError("a simulation runs no tool")

    report = simulate_deploy(TICKET, {"tickets": desk(refund)})
    assert not report.ok
    (found,) = (one for one in report.findings if one.severity == "breaking")
    assert (found.code, found.step, found.execution_id) == ("tool-args", "refund", "ticket-17")
    assert "cents was shown as 4999; today's tool has amount instead, and amount would be 0" in found.message


def test_today_still_asks() -> None:
    """On the recorded answers today's agents hand over and ask for the same refund, and nothing is run."""
    ticket = load_log(TICKET)
    assert diff_runs(ticket, replay(ticket, front), compare="all", ignore=["**.toolSchema"]) == []
