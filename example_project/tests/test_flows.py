"""Style four: record once, replay for ever. The recordings lie in logs/test_flows; a plain run calls nothing live."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import Log, diff_runs, rerun_step
from pytest_loom.plugin.facade import Loom
from refund_desk.payout import claims, payout, sales, screen, tell

YES = ("PayoutDecided", {"approved": True, "by": "mia"})
NO = ("PayoutDecided", {"approved": False, "by": "jon"})
NOBODY: tuple[str, Any] = ("TIMEOUT", None)
MONTH = {"until": "2026-01-31"}


def outcome(run: Log) -> str:
    """How a payout ended."""
    return str(run.state.variables["_output"]["outcome"])


def test_small_sums_are_paid_at_once(loom: Loom) -> None:
    """No human is asked; the bank is late once, and asked again."""
    run = loom.record(payout, {"seller": "harbour", **MONTH})
    assert outcome(run) == "paid"
    assert run.state.frames["transfer"].attempts == 2


def test_approved(loom: Loom) -> None:
    """A high sum waits for a human, who agrees."""
    assert outcome(loom.record(payout, {"seller": "summit", **MONTH}, events=[YES])) == "paid"


def test_declined(loom: Loom) -> None:
    """A listed seller waits for a human, who does not agree: no money moves."""
    run = loom.record(payout, {"seller": "north", **MONTH}, events=[NO])
    assert outcome(run) == "declined by jon"
    assert "transfer" not in run.state.frames


def test_timed_out(loom: Loom) -> None:
    """Nobody decides within two days."""
    assert outcome(loom.record(payout, {"seller": "summit", **MONTH}, events=[NOBODY])) == "on hold, nobody decided"


def test_waiting(loom: Loom) -> None:
    """A payout on its way: the deploy simulation counts it as one that today's code has to go on with."""
    run = loom.record(payout, {"seller": "summit", **MONTH})
    assert (run.state.status, run.state.suspensions[0].on) == ("suspended", "PayoutDecided")


@pytest.mark.loom("logs/test_flows/test_*.loom.jsonl", compare="all")
def test_every_payout_replays(loom: Loom, loom_golden: Log) -> None:
    """The goldens by their files, in everything that can be compared."""
    assert diff_runs(loom_golden, loom.replay(loom_golden, payout)) == []


@pytest.mark.loom("logs/test_flows/test_approved.loom.jsonl")
def test_had_the_human_said_no(loom: Loom, loom_golden: Log) -> None:
    """Fork the approved run where the human answered, and let today's code go on from there."""
    (answered,) = (event.sequence for event in loom_golden.events if event.event_type == "PayoutDecided")
    otherwise = loom.resume(loom.fork(loom_golden, answered, answer=NO[1]), payout)
    assert outcome(otherwise) == "declined by jon"


@pytest.mark.loom("logs/test_flows/test_*.loom.jsonl")
def test_the_work_itself_gives_what_is_recorded(loom_golden: Log) -> None:
    """Replay does not run the bodies of steps and tools. This runs those that nothing else shows, on what they got."""
    for work in (sales, claims, tell):
        if work.id in loom_golden.state.frames:
            assert rerun_step(loom_golden, work.id, work) == []
    (screened,) = loom_golden.state.calls
    assert screen(**screened.args) == screened.output
