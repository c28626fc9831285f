"""Mutants of a golden log: one thing changed each, the same in every run, and never the golden itself."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import Log, LogBuilder, diff_runs
from pytest_loom.evals.mutants import MOST, Mutant, equivalent, is_sampled, mutants_of, mutated
from pytest_loom.evals.operators import OPERATORS
from pytest_loom.evals.tamper import all_other, leaves, other, with_leaf


def refund() -> Log:
    """A run with two steps in a row, a tool, a model, an approval that was given, and an output."""
    made = LogBuilder("r-1", "refund")
    add = made.add
    add("EXECUTION_STARTED", {"input": {"order": "1001"}}, timestamp=1)
    add("STEP_STARTED", {"stepId": "assess", "input": {"cents": 4999}}, timestamp=2)
    add("STEP_COMPLETED", {"stepId": "assess", "output": {"risk": "high", "at": "2026-01-31"}}, timestamp=3)
    add("TOOL_REQUESTED", {"callId": "t", "name": "screen", "args": {"seller": "north"}}, timestamp=4)
    add("TOOL_COMPLETED", {"callId": "t", "output": True}, timestamp=5)
    add("MODEL_REQUESTED", {"callId": "m", "model": "gpt", "request": {"text": "Well?"}}, timestamp=6)
    add("MODEL_COMPLETED", {"callId": "m", "response": {"text": "Pay."}}, timestamp=7)
    pending = {"name": "pay", "args": {"cents": 4999}}
    add("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "pending": pending}, timestamp=8)
    add("Approved", {"yes": True}, timestamp=9)
    add("EXECUTION_RESUMED", {"eventType": "Approved", "payload": {"yes": True}}, timestamp=10)
    add("STEP_STARTED", {"stepId": "pay", "input": 4999}, timestamp=11)
    add("STEP_COMPLETED", {"stepId": "pay", "output": "receipt"}, timestamp=12)
    add("STEP_STARTED", {"stepId": "tell"}, timestamp=13)
    add("STEP_COMPLETED", {"stepId": "tell", "output": "paid"}, timestamp=14)
    add("EXECUTION_COMPLETED", {"output": {"outcome": "paid"}}, timestamp=15)
    return made.log()


def those(log: Log, operator: str) -> list[Mutant]:
    """The mutants that one operator makes."""
    return [mutant for mutant in mutants_of(log) if mutant.operator == operator]


def only(log: Log, operator: str, words: str) -> Log:
    """The log as that mutant has it which says these words."""
    (mutant,) = (one for one in those(log, operator) if words in one.what)
    changed = mutated(log, mutant)
    assert changed is not None
    return changed


def test_every_operator_has_its_turn() -> None:
    """A run that has everything is changed by each operator, and each mutant is a log of its own."""
    log = refund()
    mutants = mutants_of(log)
    assert {mutant.operator for mutant in mutants} == set(OPERATORS)
    logs = [mutated(log, mutant) for mutant in mutants]
    texts = {tuple((event.event_type, bytes(event.raw)) for event in made.events) for made in logs if made is not None}
    assert len(texts) == len(mutants)
    assert tuple((event.event_type, bytes(event.raw)) for event in log.events) not in texts


def test_mutants_are_the_same_every_time() -> None:
    """What is made follows from the log alone, order and names included."""
    first, second = mutants_of(refund()), mutants_of(refund())
    assert [(one.name, one.what) for one in first] == [(one.name, one.what) for one in second]


def test_mutants_are_numbered_anew() -> None:
    """A log without one of its steps is a log that can be written and read."""
    changed = only(refund(), "drop-step", "step assess was left out")
    assert [event.sequence for event in changed.events] == list(range(1, len(changed) + 1))
    assert list(changed.state.frames) == ["pay", "tell"]


@pytest.mark.parametrize(
    ("operator", "words", "kinds"),
    [
        ("drop-step", "step assess was left out", {"step-missing", "step-order"}),
        ("drop-step", "tool call screen was left out", {"tool-args"}),
        ("swap-steps", "step tell came before step pay", {"step-order"}),
        ("change-output", 'step assess gave risk "mutant" instead of "high"', {"step-output"}),
        ("change-output", 'step assess gave at "2026-02-01" instead of "2026-01-31"', {"step-output"}),
        ("change-output", 'the run came to outcome "mutant" instead of "paid"', {"output"}),
        ("change-input", "step assess was asked cents 5000 instead of 4999", {"step-input"}),
        ("change-argument", 'screen was called with seller "mutant" instead of "north"', {"tool-args"}),
        ("change-argument", "at Approved was shown cents 5000 instead of 4999", {"suspension"}),
        ("drop-suspension", "the run did not wait for Approved", {"suspension"}),
        ("drop-answer", "nobody answered Approved", {"status", "output", "step-missing"}),
        ("change-status", "the run was failed instead of completed", {"status", "output"}),
    ],
)
def test_a_full_comparison_sees_it(operator: str, words: str, kinds: set[str]) -> None:
    """What changed is what a comparison in everything finds, and it is said in words."""
    log = refund()
    found = {difference.kind for difference in diff_runs(log, only(log, operator, words), compare="all")}
    assert found & kinds
    assert found <= kinds


def test_an_answer_is_changed_as_a_whole() -> None:
    """The application's event and what the run went on with say the same other thing."""
    changed = only(refund(), "change-answer", 'Approved was answered {"yes": false} instead of {"yes": true}')
    said = {event.event_type: event.payload for event in changed.events}
    assert said["Approved"] == {"yes": False}
    assert said["EXECUTION_RESUMED"]["payload"] == {"yes": False}


def test_a_timeout_is_no_answer() -> None:
    """Nothing was said when the time ran out; that it did is dropped like an answer, and the wait with it."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {"input": 1}, timestamp=1)
    made.add("EXECUTION_SUSPENDED", {"on": "Approved", "timeoutMs": 5}, timestamp=2)
    made.add("EXECUTION_RESUMED", {"eventType": "TIMEOUT", "payload": {"on": "Approved"}}, timestamp=3)
    made.add("EXECUTION_COMPLETED", {"output": "on hold"}, timestamp=4)
    log = made.log()
    assert those(log, "change-answer") == []
    (kept,) = those(log, "drop-suspension")
    changed = mutated(log, kept)
    assert changed is not None
    assert [event.event_type for event in changed.events] == ["EXECUTION_STARTED", "EXECUTION_COMPLETED"]


def test_attempts_are_changed_together() -> None:
    """A step that was tried twice was asked the same each time, and still is."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {}, timestamp=1)
    for attempt, end in ((1, "STEP_FAILED"), (2, "STEP_COMPLETED")):
        made.add("STEP_STARTED", {"stepId": "pay", "attempt": attempt, "input": 1}, timestamp=2)
        made.add(end, {"stepId": "pay", "error": {"type": "E", "message": "m"}, "willRetry": True}, timestamp=3)
    (asked,) = those(made.log(), "change-input")
    changed = mutated(made.log(), asked)
    assert changed is not None
    assert [event.payload["input"] for event in changed.events if event.event_type == "STEP_STARTED"] == [2, 2]
    assert len(those(made.log(), "drop-step")) == 1


@pytest.mark.parametrize(
    ("status", "becomes"), [("completed", "failed"), ("suspended", "completed"), ("failed", "completed")]
)
def test_another_status(status: str, becomes: str) -> None:
    """A run that is over ends otherwise, and one that waits is over."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {}, timestamp=1)
    made.add(f"EXECUTION_{status.upper()}", {"on": "Approved"} if status == "suspended" else {}, timestamp=2)
    (mutant,) = those(made.log(), "change-status")
    changed = mutated(made.log(), mutant)
    assert changed is not None
    assert changed.state.status == becomes


def branches() -> Log:
    """Two steps that ran side by side."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {}, timestamp=1)
    for branch in ("1", "2"):
        made.add("STEP_STARTED", {"stepId": f"step-{branch}"}, timestamp=2, branch=branch)
        made.add("STEP_COMPLETED", {"stepId": f"step-{branch}", "output": 1}, timestamp=3, branch=branch)
    return made.log()


def test_an_order_that_means_nothing_is_equivalent() -> None:
    """Steps of two branches are swapped where there is nothing else to swap, and that nobody has to notice."""
    (mutant,) = those(branches(), "swap-steps")
    assert equivalent(branches(), mutant, []) == "the two ran side by side, and their order means nothing"


def test_what_a_test_ignores_is_equivalent() -> None:
    """A path that the rules of a test leave out is no survivor, and the reason names the rule."""
    log = refund()
    (risk,) = (mutant for mutant in mutants_of(log) if "gave risk" in mutant.what)
    (pay,) = (mutant for mutant in mutants_of(log) if "step pay gave" in mutant.what)
    rules = [{}, {"ignore": ["assess.output.risk"], "compare": ("status",)}]
    assert equivalent(log, risk, rules) == "the tests leave it out on purpose: ignore=['assess.output.risk']"
    assert equivalent(log, pay, rules) == ""
    assert equivalent(log, risk, []) == ""


def test_the_same_step_twice_is_not_swapped() -> None:
    """Two turns of a loop that nobody could tell apart are no mutant."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {}, timestamp=1)
    for _ in range(2):
        made.add("STEP_STARTED", {"stepId": "poll"}, timestamp=2)
        made.add("STEP_COMPLETED", {"stepId": "poll", "output": "open"}, timestamp=3)
    assert those(made.log(), "swap-steps") == []


def test_long_logs_are_sampled() -> None:
    """So many mutants an operator and no more, each step having its turn before any has a second."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {}, timestamp=1)
    for turn in range(200):
        step = "rare" if turn == 150 else "poll"
        made.add("STEP_STARTED", {"stepId": step, "input": turn}, timestamp=2)
        made.add("STEP_COMPLETED", {"stepId": step, "output": turn}, timestamp=3)
    found = those(made.log(), "change-output")
    assert len(found) == MOST
    assert any("step rare" in mutant.what for mutant in found)
    assert not is_sampled(made.log())


def test_more_steps_than_mutants_are_said() -> None:
    """Where a step has no mutant at all, nobody may conclude anything from a test of it."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {}, timestamp=1)
    for number in range(MOST + 1):
        made.add("STEP_COMPLETED", {"stepId": f"step-{number}", "output": 1}, timestamp=3)
    assert is_sampled(made.log())


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        (True, False),
        (4999, 5000),
        (0.5, 1.5),
        (1e300, 5e299),
        ("1001", "1000"),
        ("7450.00", "7450.01"),
        ("2026-01-31", "2026-02-01"),
        ("2026-01-31T10:00:00+00:00", "2026-02-01T10:00:00+00:00"),
        ("0164518b-5864-4b53-bf1a-4d06992914b8", "0164518b-5864-4b53-bf1a-4d06992914b9"),
        ("north", "mutant"),
        ("mutant", "mutant 2"),
        ([], ["mutant"]),
        ({}, {"mutant": True}),
    ],
)
def test_another_value_of_the_same_kind(value: Any, becomes: Any) -> None:
    """Numbers stay numbers, days days and ids ids, so that it is the comparison that notices."""
    assert other(value) == becomes
    assert type(other(value)) is type(value)


def test_values_are_changed_in_copies() -> None:
    """A recorded value is shared: what is changed is another one."""
    value = {"lines": [{"sku": "a"}, {"sku": "b"}], "note": None}
    assert [path for path, _ in leaves(value)] == [("lines", 0, "sku"), ("lines", 1, "sku")]
    assert with_leaf(value, ("lines", 1, "sku"), "c") == {"lines": [{"sku": "a"}, {"sku": "c"}], "note": None}
    assert all_other(value) == {"lines": [{"sku": "mutant"}, {"sku": "mutant"}], "note": None}
    assert value == {"lines": [{"sku": "a"}, {"sku": "b"}], "note": None}
