"""How a waiting run goes on after a deploy that has its code ask for more: by the real Replayer, and as it is told.

SDK Core holds back what the code asks for where its record has nothing, and sends it with the next workflow task,
unless the code takes it back in that very task. What a worker would write next is built here, and replayed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_loom import simulate_deploy
from pytest_loom.deploy.report import Finding

pytest.importorskip("temporalio", reason="needs the extra temporal")
if not hasattr(os, "fork"):
    pytest.skip("the Replayer runs in a copy of the process", allow_module_level=True)

from tests.engines.temporal.histories import Building, write
from tests.engines.temporal.replayer import ask
from tests.engines.temporal.test_detection_table import ORDER, class_of, flow

Next = Callable[[Building], None]
CHARGE = {"item": "chair", "price": 40}


def waiting(name: str) -> Building:
    """A run that waits for the approval, as the code before wrote it."""
    at = Building(name, ORDER, run_id=name)
    at.task()
    at.done(at.activity("quote", "chair", 3), {"price": 40})
    at.task()
    at.fired(at.timer("30s"))
    at.task()
    return at


def parked(at: Building) -> None:
    """Nothing has come yet."""


def not_enough(at: Building) -> None:
    """A signal has come that is not enough, and nobody has seen it."""
    at.signal("note")


def approved(at: Building) -> None:
    """The signal that is waited for: what was asked for beside the wait is taken back, unsent."""
    at.signal("approve", "ada")
    at.task()
    at.activity("charge", CHARGE)


def asked_again_before(at: Building) -> None:
    """The code before saw a signal that is not enough, and wrote nothing; then one that is."""
    at.signal("note")
    at.task()
    approved(at)


def timer_late(at: Building) -> None:
    """A signal that is not enough: today's worker sends the timer with that task; the next signal takes it back."""
    at.signal("note")
    at.task()
    timer = at.timer("259200s")
    at.signal("approve", "ada")
    at.task()
    at.add("TIMER_CANCELED", timerId="2", startedEventId=timer)
    at.activity("charge", CHARGE)


def looked_before(at: Building) -> None:
    """The code before did something else in between, ahead of which today's code asks for its timer."""
    at.signal("look")
    at.task()
    at.activity("look")


def activity_late(at: Building) -> None:
    """The signal comes; today's worker sends the activity that stands before the wait, and goes on after it."""
    at.signal("approve", "ada")
    at.task()
    check = at.activity("check", "chair")
    at.done(check, True)
    at.task()
    at.activity("charge", CHARGE)


def pause_late(at: Building) -> None:
    """The same of a timer."""
    at.signal("approve", "ada")
    at.task()
    at.fired(at.timer("259200s"))
    at.task()
    at.activity("charge", CHARGE)


FINE, FAILS = True, False
WARNED = {("WaitTimed", parked), ("WaitTimed", not_enough)}
BREAKING = {("InsertedAtWait", parked), ("SleepsAtWait", parked)}
"""What the Replayer takes, and is told all the same."""

CASES: list[tuple[str, Next, bool]] = [
    # the class in workflows/quotes.py, what follows in the history, whether the Replayer takes it
    ("WaitTimed", parked, FINE),
    ("WaitTimed", not_enough, FINE),
    ("WaitTimed", approved, FINE),
    ("WaitTimed", asked_again_before, FINE),
    ("WaitTimed", timer_late, FINE),
    ("WaitTimed", looked_before, FAILS),
    ("InsertedAtWait", parked, FINE),
    ("InsertedAtWait", approved, FAILS),
    ("InsertedAtWait", activity_late, FINE),
    ("SleepsAtWait", parked, FINE),
    ("SleepsAtWait", approved, FAILS),
    ("SleepsAtWait", pause_late, FINE),
]


def test_the_replayer(tmp_path: Path) -> None:
    """What really goes on, and what is stuck."""
    made = []
    for number, (name, then, _) in enumerate(CASES):
        at = waiting(name)
        then(at)
        made.append((write(at.history, tmp_path / f"{number}.json"), class_of(name)))
    answers = [error is None for error in ask(made)]
    assert [(name, then.__name__, fine) for (name, then, _), fine in zip(CASES, answers, strict=True)] == [
        (name, then.__name__, fine) for name, then, fine in CASES
    ]


@pytest.mark.parametrize(("name", "then", "fine"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_simulation(tmp_path: Path, name: str, then: Next, fine: bool) -> None:
    """It says breaking of what the Replayer refuses, and of the rest only where the run does something late."""
    told = said(tmp_path, name, then)
    worst = {found.severity for found in told}
    assert ("breaking" in worst) == (not fine or (name, then) in BREAKING), told
    assert ("warning" in worst) == ((name, then) in WARNED), told


def test_a_timer_beside_the_wait_in_words(tmp_path: Path) -> None:
    """That the run goes on, and that it does not time out by itself."""
    (found,) = said(tmp_path, "WaitTimed", parked)
    assert "asks for a timer of 3 days" in found.message
    assert "as long as nothing comes, the run does not time out" in found.message


def test_what_is_done_late_in_words(tmp_path: Path) -> None:
    """That the run is not stuck, and when it is done."""
    (found,) = said(tmp_path, "InsertedAtWait", parked)
    assert "the activity check" in found.message
    assert "The run is not stuck" in found.message
    assert "with the run's next signal, timer" in found.message


def said(folder: Path, name: str, then: Next) -> list[Finding]:
    """What a simulation finds, beside that the run waits."""
    at = waiting(name)
    then(at)
    report = simulate_deploy(str(write(at.history, folder / "one.json")), flow(name))
    return [found for found in report.findings if found.severity != "info" and found.code != "suspended-carryover"]
