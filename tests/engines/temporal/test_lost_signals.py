"""Where code waits on because a recorded signal reaches no handler today, that is told as the cause, with its cure."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import contract_of, load_log, replay, simulate_deploy
from pytest_loom.deploy.report import Finding
from pytest_loom.errors import ReplayDivergence

pytest.importorskip("temporalio", reason="needs the extra temporal")
if not hasattr(os, "fork"):
    pytest.skip("the Replayer runs in a copy of the process", allow_module_level=True)

from tests.engines.temporal.histories import Building, write
from tests.engines.temporal.test_detection_table import ORDER, flow, run_at


def breaking(path: Path, name: str, **more: Any) -> Finding:
    """The one breaking finding."""
    report = simulate_deploy(str(path), flow(name), **more)
    (found,) = [found for found in report.findings if found.severity == "breaking"]
    return found


def test_a_handler_that_is_gone(tmp_path: Path) -> None:
    """Of a finished run too: the signal with its event, where the code waits, what was recorded there."""
    found = breaking(write(run_at("C", "SignalRenamed"), tmp_path / "run.json"), "SignalRenamed")
    assert (found.code, found.step) == ("gate-removed", "approve")
    assert (
        "event 16: the signal approve was sent to this run, and today's SignalRenamed has no handler" in found.message
    )
    assert "So the code still waits (" in found.message
    assert "where event 20 recorded the activity charge" in found.message
    assert '@workflow.signal(name="approve")' in found.hint


def test_a_handler_that_cannot_read_it(tmp_path: Path) -> None:
    """What was sent is of another type than the handler takes."""
    found = breaking(write(run_at("C", "SignalRetyped"), tmp_path / "run.json"), "SignalRetyped")
    assert (found.code, found.step) == ("gate-changed", "approve")
    assert "event 16: the signal approve was sent to this run, and today's handler cannot read it" in found.message
    assert "take the old form too" in found.hint


def test_a_signal_that_nobody_ever_took_is_no_cause(tmp_path: Path) -> None:
    """Where yesterday's contract has no handler for it either, the change of the activity is told."""
    before = contract_of(flow("SignalRenamed")).model_copy(update={"gates": {}})
    path = write(run_at("C", "SignalRenamed"), tmp_path / "run.json")
    found = breaking(path, "SignalRenamed", contract={"SignalRenamed": before})
    assert found.code == "replay-diverged"
    assert "event 20 recorded the activity charge; today's code does not ask for it" in found.message


def test_a_signal_after_the_place_is_no_cause(tmp_path: Path) -> None:
    """What came later cannot be why the code did not go on."""
    at = Building("TimerRemoved", ORDER)
    at.task()
    at.done(at.activity("quote", "chair", 3), {"price": 40})
    at.task()
    at.timer("30s")
    at.signal("other")
    at.task()
    found = breaking(write(at.history, tmp_path / "run.json"), "TimerRemoved")
    assert found.code == "replay-diverged"


def test_replay_says_so_in_one_traceback(tmp_path: Path) -> None:
    """And nothing of what goes on inside is shown as the first cause; the name to choose is not broken."""
    path = write(run_at("C", "SignalRenamed"), tmp_path / "run.json")
    with pytest.raises(ReplayDivergence) as raised:
        replay(load_log(path), flow("SignalRenamed"))
    assert "the signal approve (event 16) has no handler today" in str(raised.value)
    assert 'workflow.patched("NAME-OF-THE-CHANGE")' in " ".join(str(raised.value).split())
    assert '"NAME-OF-THE-CHANGE"' in str(raised.value)
    assert "no running event loop" not in "".join(traceback.format_exception(raised.value))
