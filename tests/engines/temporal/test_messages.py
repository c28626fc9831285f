"""What the SDK says of a failed replay, in our words: each message here is provoked from the real Replayer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.temporal.histories import Building, History, write
from tests.engines.temporal.test_replayer import ORDER, line_of, shop

pytest.importorskip("temporalio", reason="needs the extra temporal")

from pytest_loom.sources.temporal import messages
from pytest_loom.sources.temporal.replayer import Replays
from pytest_loom.sources.temporal.settings import Settings
from tests.engines.temporal.workflows import replayed as app


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Any]:
    """Asks the real Replayer, in this process."""
    opened = []

    def answer(history: History, flow: type) -> dict[str, Any]:
        path = write(history, tmp_path / "history.json")
        replays = Replays({"it": (flow, Settings())}, under_sandbox=False)
        opened.append(replays)
        length = len(history["events"])
        return replays.run({"flow": "it", "path": str(path), "run": "run-1", "length": length})

    yield answer
    for replays in opened:
        replays.close()


def patched() -> History:
    """A run of the shop that was started with the patch."""
    at = Building("Shop", ORDER)
    at.task()
    at.patch("offers")
    offer = at.activity("offer", ORDER)
    at.done(offer, {"price": 1})
    at.task()
    at.activity("quote", ORDER)
    return at.history


def with_child() -> History:
    """A run of the shop that waits for a child workflow of another type."""
    at = Building("Shop", ORDER)
    at.task()
    at.add(
        "START_CHILD_WORKFLOW_EXECUTION_INITIATED",
        workflowId="quoting",
        workflowType={"name": "Asking"},
        namespace="ReplayNamespace",
        input={"payloads": []},
    )
    return at.history


def slept() -> History:
    """A run of the shop that begins with a timer."""
    at = Building("Shop", ORDER)
    at.task()
    at.fired(at.timer("60s"))
    at.task()
    at.activity("quote", ORDER)
    return at.history


QUOTE, TIMER = "the activity quote", "a timer of 1 minute"
DIVERGED = {
    "renamed": (shop(), app.Renamed, 5, QUOTE, "the activity offer", "does not match activity type"),
    "timer for activity": (shop(), app.SleepsFirst, 5, QUOTE, TIMER, "HistoryEvent(id: 5, ActivityTaskScheduled)"),
    "activity for timer": (slept(), app.Shop, 5, TIMER, QUOTE, "HistoryEvent(id: 5, TimerStarted)"),
    "nothing for activity": (shop(), app.Waits, 5, QUOTE, "", "No command scheduled for event"),
    "left out": (shop(), app.ChargesOnly, 5, QUOTE, "the activity charge", "does not match activity type"),
    "child for activity": (shop(), app.AsksAChild, 5, QUOTE, "the child workflow Quoting", "HistoryEvent(id: 5"),
    "other child": (with_child(), app.AsksAChild, 5, "the child workflow Asking", "the child workflow Quoting", ""),
    "end for activity": (shop(), app.GivesUp, 5, QUOTE, "the end of the run, with an error", "HistoryEvent(id: 5"),
    "new run for activity": (shop(), app.GoesOnAnew, 5, QUOTE, "a new run in place of this one", "HistoryEvent(id: 5"),
    "appended": (shop(), app.AsksTwo, 17, "the end of the run, with its result", "the activity thank", "(id: 17"),
}
"""History, flow; the event, what it recorded, what is asked for instead, and a piece of Core's own words."""


@pytest.mark.parametrize("case", DIVERGED)
def test_a_divergence_has_its_place(ask: Any, case: str) -> None:
    """The event and both commands; Core's words are kept, without the Rust around them."""
    history, flow, event, recorded, instead, words = DIVERGED[case]
    answer = ask(history, flow)
    assert answer["outcome"] == "diverged"
    assert (answer["event"], answer["recorded"], answer["instead"]) == (event, recorded, instead)
    assert words in answer["message"]
    assert_clean(answer["message"])
    assert "replayed.py:" in answer["line"] or case == "new run for activity"


@pytest.mark.parametrize(
    ("history", "flow", "words"),
    [(patched(), app.Shop, "offers"), (shop(), app.DeprecatedPatch, ""), (shop("charge"), app.AsksHere, "")],
)
def test_other_divergences_are_cleaned(ask: Any, history: History, flow: type, words: str) -> None:
    """Patches and local activities, which are recorded in markers, are told in Core's words at the least."""
    answer = ask(history, flow)
    assert answer["outcome"] == "diverged"
    assert answer["event"] > 0
    assert words in answer["message"]
    assert_clean(answer["message"])


def test_a_patch_keeps_both_kinds_of_runs(ask: Any) -> None:
    """With the patch, runs from before and after it pass."""
    assert ask(shop(), app.Patched)["outcome"] == "passed"
    assert ask(patched(), app.Patched)["outcome"] == "passed"
    assert ask(patched(), app.DeprecatedPatch)["outcome"] == "passed"


def test_an_error_of_the_code(ask: Any) -> None:
    """Its own type and words, the application's line, and what it had been given."""
    answer = ask(shop("charge"), app.Raises)
    assert (answer["outcome"], answer["type"], answer["message"]) == ("raised", "KeyError", "'no tax for EUR'")
    assert answer["line"].endswith(f"replayed.py:{line_of('raise KeyError')}")
    assert answer["about"] == "quote"


def test_an_input_that_cannot_be_read(ask: Any) -> None:
    """The innermost cause, and that it was the input."""
    answer = ask(shop("charge"), app.NeedsACustomer)
    assert (answer["outcome"], answer["type"], answer["about"]) == ("raised", "TypeError", "input")
    assert "missing 1 required positional argument: 'customer'" in answer["message"]
    assert "_make_workflow_input" in answer["through"]


def test_words_that_are_not_known_are_kept() -> None:
    """Whatever a later SDK says is shown, in one line and of a bounded length."""
    assert messages.core_message("something\nelse  entirely") == "something else entirely"
    assert messages.core_message('Failure { message: "a \\"b\\" \\\\ c", source: "" }') == 'a "b" \\ c'
    assert messages.core_message('Failure { message: "[TMPRL1100] Nondeterminism error: no" }') == "no"
    assert len(messages.core_message("x" * 10_000)) == 600
    assert messages.named_event("no event here") == 0
    whole = 'no: HistoryEvent { event_id: 5, attributes: Some(A { input: "secret" }) }'
    assert (messages.core_message(whole), messages.named_event(whole)) == ("no: HistoryEvent(id: 5)", 5)


def assert_clean(message: str) -> None:
    """No trace of Rust's debug text."""
    assert not any(part in message for part in ("Failure {", "source:", "\\", "TMPRL", "stack_trace", "failure_info"))
