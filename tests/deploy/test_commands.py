"""Recorded activities, children and timers beside what today's code asks for: the names that an engine let pass."""

from __future__ import annotations

from typing import Any

from pytest_loom import Log, LogBuilder
from pytest_loom.deploy.commands import Asked, compare_commands, recorded


def log_of(*asked: Asked, status: str = "") -> Log:
    """A run that asked for these things."""
    made = LogBuilder("run-1", "Order")
    made.add("EXECUTION_STARTED", {}, timestamp=0, line=1)
    for line, one in enumerate(asked, 5):
        payload: dict[str, Any] = {"stepId": one.name, "callId": str(line), "kind": one.kind}
        kind = "STEP_STARTED"
        if one.kind == "timer":
            kind, payload = "EXECUTION_SUSPENDED", {"on": "TimerFired", "kind": "timer", "correlationKey": str(line)}
        made.add(kind, payload, timestamp=line, line=line)
    if status:
        made.add(status, {}, timestamp=99, line=99)
    return made.log(source="temporal")


CHARGE, MAIL, SLEEP = Asked("activity", "charge"), Asked("activity", "mail"), Asked("timer", "")
CHILD = Asked("childWorkflow", "Shipping")


def test_what_is_recorded_in_order() -> None:
    """Activities, children and timers count, with their event; local activities are recorded later than asked for."""
    log = log_of(CHARGE, SLEEP, Asked("localActivity", "now"), CHILD)
    assert list(recorded(log)) == [
        Asked("activity", "charge", "event 5"),
        Asked("timer", "", "event 6"),
        Asked("childWorkflow", "Shipping", "event 8"),
    ]


def test_the_same_and_what_is_ahead_is_silent() -> None:
    """Today's code may ask for more than an unfinished run has recorded."""
    assert compare_commands(log_of(CHARGE, SLEEP), [CHARGE, SLEEP]) == []
    assert compare_commands(log_of(CHARGE), [CHARGE, MAIL]) == []
    assert compare_commands(log_of(), [CHARGE]) == []


def test_a_renamed_activity_is_told_once() -> None:
    """However often it ran; the finding names the event, both names and the line."""
    bill = Asked("activity", "bill", "flows.py:12")
    (found,) = compare_commands(log_of(CHARGE, MAIL, CHARGE), [bill, MAIL, bill])
    assert (found.code, found.severity, found.step) == ("replay-diverged", "breaking", "charge")
    assert found.message == (
        "event 5: the activity charge was asked for, and today's code asks for the activity bill (flows.py:12) there."
        " The SDK gives it the recorded result of the other, unasked."
    )


def test_every_renamed_activity_is_told() -> None:
    """Two names that changed are two findings; two that were swapped, too."""
    post = Asked("activity", "post")
    found = compare_commands(log_of(CHARGE, MAIL), [Asked("activity", "bill"), post])
    assert [one.step for one in found] == ["charge", "mail"]
    assert [one.step for one in compare_commands(log_of(CHARGE, MAIL), [MAIL, CHARGE])] == ["charge", "mail"]


def test_only_the_first_place_where_all_that_follows_is_shifted() -> None:
    """An activity inserted or left out moves the others: they are not renamed."""
    post = Asked("activity", "post")
    (found,) = compare_commands(log_of(CHARGE, MAIL, MAIL), [post, CHARGE, MAIL, MAIL])
    assert found.step == "charge"
    (found,) = compare_commands(log_of(CHARGE, SLEEP, MAIL), [CHARGE, MAIL])
    assert (found.step, "a timer was asked for" in found.message) == (None, True)
    (found,) = compare_commands(log_of(CHARGE, MAIL), [CHARGE])
    assert "asks for nothing more there" in found.message


def test_names_from_a_log_cannot_forge_a_line() -> None:
    """Control characters are shown as what they are."""
    (found,) = compare_commands(log_of(Asked("activity", "a\nb")), [CHARGE])
    assert "a\\nb" in found.message
