"""The checks for engines that resume from a saved state, on logs made by hand: they know no engine by name."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import Log, simulate_deploy
from pytest_loom.contract.model import Contract
from pytest_loom.deploy.questions import Answered, compare_questions
from pytest_loom.log.event import LogBuilder

STEPS = {
    "__start__": {"next": ["agent"]},
    "agent": {"next": ["approve"]},
    "approve": {"next": ["pay"], "asks": True},
    "pay": {"next": []},
}
WAITING = {"node": "approve", "namespace": "", "status": "waiting", "leaf": True, "kind": "pull"}


def contract(**parts: Any) -> Contract:
    """Today's contract of ``refund``."""
    return Contract.model_validate({"workflowId": "refund", "engine": "checkpoint", "steps": STEPS, **parts})


def waiting(state: Any = None, **frontier: Any) -> Log:
    """A run that ran ``agent`` and waits in ``approve``, or stands as ``frontier`` says."""
    builder = LogBuilder("r-1", "refund")
    builder.add("EXECUTION_STARTED", {"input": {}, "manifest": {"framework": "langgraph"}}, timestamp=1)
    if state is not None:
        builder.add("STATE_SNAPSHOT", {"state": state}, timestamp=2)
    builder.add("EXECUTION_SUSPENDED", {"on": "Answered", "kind": "approval"}, timestamp=3)
    facts = {"pending": [WAITING], "ran": {"": ["agent"]}, **frontier}
    builder.add("CheckpointFrontier", facts, timestamp=4)
    return builder.log(source="some", engine="checkpoint", live=True)


def codes(log: Log, today: Contract, yesterday: Contract | None = None) -> list[tuple[str, str]]:
    """Code and severity of each finding, but for the usual notices."""
    report = simulate_deploy(log, {"refund": today}, contract=yesterday)
    usual = ("suspended-carryover", "contract-drift")
    return [(found.code, found.severity) for found in report.findings if found.code not in usual]


def without(step: str) -> dict[str, Any]:
    """The steps but one."""
    return {name: part for name, part in STEPS.items() if name != step}


def test_a_run_that_changed_nothing_is_fine() -> None:
    """No finding where all is as it was."""
    assert codes(waiting({"x": 1}), contract()) == []


@pytest.mark.parametrize("status", ["waiting", "failed", "ready", "finished"])
def test_a_pending_step_that_is_gone_strands_the_run(status: str) -> None:
    """Whatever the step is about to do: without it a resume does nothing."""
    log = waiting(pending=[{**WAITING, "status": status}])
    assert codes(log, contract(steps=without("approve"))) == [("frontier-missing", "breaking")]


def test_a_finished_step_may_go() -> None:
    """Work that is done is never done again."""
    assert codes(waiting(), contract(steps=without("agent"))) == []


def test_work_that_was_sent_out_needs_its_target() -> None:
    """A Send to a step that is gone is dropped by the engine."""
    log = waiting(sends=[{"node": "translate", "namespace": ""}])
    assert codes(log, contract()) == [("frontier-missing", "breaking")]


def test_an_inner_step_is_looked_for_in_its_sub_flow() -> None:
    """``writer/review`` is a step of the sub-flow; where nothing is known of that, nothing is said."""
    outer = {**WAITING, "node": "writer", "leaf": False}
    inner = {**WAITING, "node": "review", "namespace": "writer"}
    log = waiting(pending=[outer, inner])
    told: dict[str, Any] = {"writer": {"next": []}, "writer/edit": {"next": []}}
    assert codes(log, contract(steps=told)) == [("frontier-missing", "breaking")]
    assert codes(log, contract(steps={"writer": {"next": []}})) == []


def test_a_join_whose_mark_is_lost_never_fires() -> None:
    """One source arrived under the old name of the join."""
    barrier = {"channel": "join:a+b:c", "namespace": "", "sources": ["a", "b"], "target": "c", "seen": ["a"]}
    steps = {"a": {"next": ["c"]}, "b": {"next": ["c"]}, "c": {"next": []}}
    log = waiting(pending=[{**WAITING, "node": "b"}], barriers=[barrier], ran={"": ["a"]})
    assert codes(log, contract(steps=steps, joins={"join:a+b:c": ["a", "b"]})) == []
    assert codes(log, contract(steps=steps, joins={"join:b+a:c": ["b", "a"]}))[0] == ("join-broken", "breaking")


def test_a_new_join_that_can_never_be_complete() -> None:
    """A step that ran before there was the join will not arrive at it; one in a loop may."""
    steps = {"a": {"next": ["b"]}, "b": {"next": ["c"]}, "c": {"next": []}}
    log = waiting(pending=[{**WAITING, "node": "b"}], ran={"": ["a"]})
    joins = {"join:a+b:c": ["a", "b"]}
    assert codes(log, contract(steps=steps, joins=joins)) == [("join-broken", "breaking")]
    loops = {**steps, "b": {"next": ["a", "c"]}}
    assert codes(log, contract(steps=loops, joins=joins)) == []


def test_a_new_gate_that_was_passed_by_is_a_warning() -> None:
    """Only one that every run has to pass, and that this one never did."""
    gated = {**STEPS, "agent": {"next": ["security"]}, "security": {"next": ["approve"], "asks": True}}
    assert codes(waiting(), contract(steps=gated)) == [("step-inserted", "warning")]
    beside = {**gated, "agent": {"next": ["security", "approve"]}}
    assert codes(waiting(), contract(steps=beside)) == []


def test_a_lost_key_counts_where_somebody_wants_it() -> None:
    """A renamed key loses its value; a key that nobody reads any more may go."""
    steps = {
        **STEPS,
        "pay": {"next": [], "reads": ["cents"], "writes": []},
        "approve": {"next": ["pay"], "reads": [], "writes": []},
    }
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}, "additionalProperties": False}
    log = waiting({"amount": 4999})
    assert codes(log, contract(steps=steps, stateSchema=schema)) == [("state-key-lost", "breaking")]
    unread = {**steps, "pay": {"next": [], "reads": [], "writes": []}}
    assert codes(log, contract(steps=unread, stateSchema=schema)) == []


def test_a_saved_value_of_another_type_is_told() -> None:
    """No engine converts saved values to what is declared today."""
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False}
    assert codes(waiting({"x": 5}), contract(stateSchema=schema)) == [("state-type", "breaking")]
    assert codes(waiting({"x": "5"}), contract(stateSchema=schema)) == []


def test_a_reducer_that_went_is_told_by_what_writes_did() -> None:
    """Yesterday's contract says it, or the recorded steps do."""
    schema = {"type": "object", "properties": {"log": {"type": "array"}}, "additionalProperties": False}
    today = contract(stateSchema=schema, reducers={})
    assert codes(waiting({"log": ["a"]}, folds={"log": "added"}), today) == [("reducer-changed", "breaking")]
    before = contract(stateSchema=schema, reducers={"log": "operator.add"})
    assert ("reducer-changed", "breaking") in codes(waiting({"log": ["a"]}), today, before)
    other = contract(stateSchema=schema, reducers={"log": "app.append_all"})
    assert codes(waiting({"log": ["a"]}), other, before) == []


def test_a_pending_call_has_to_mean_the_same() -> None:
    """The tool is there, takes the arguments, and still asks where the engine asks again."""
    call = {"callId": "c1", "name": "refund", "args": {"cents": 4999}, "approval": True}
    takes = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
    log = waiting(calls=[call], asksAgain=True)
    assert codes(log, contract(tools={"refund": {"schema": takes, "approval": True}})) == []
    assert codes(log, contract(tools={"email": {}})) == [("tool-missing", "breaking")]
    renamed = {"type": "object", "properties": {"amount": {"type": "integer", "default": 0}}}
    assert codes(log, contract(tools={"refund": {"schema": renamed, "approval": True}})) == [("tool-args", "breaking")]
    assert codes(log, contract(tools={"refund": {"schema": takes, "approval": False}})) == [
        ("approval-bypassed", "breaking")
    ]
    held = waiting(calls=[call])
    assert codes(held, contract(tools={"refund": {"schema": takes, "approval": False}})) == []


def test_a_class_that_is_gone_from_its_module_is_told() -> None:
    """Only loaded modules are looked into, and nothing is built; a class that is there is fine."""
    gone = {"$type": f"{__name__}.Vanished", "$via": "kwargs", "$value": {"x": 1}}
    assert codes(waiting({"thing": gone}), contract()) == [("state-type", "breaking")]
    there = {"$type": "pytest_loom.deploy.questions.Answered", "$via": "kwargs", "$value": {"value": 1, "index": 0}}
    assert codes(waiting({"thing": there}), contract()) == []
    older = {**there, "$value": {"value": 1, "position": 0}}
    assert codes(waiting({"thing": older}), contract()) == [("state-type", "breaking")]
    hostile = {"$type": "os.mkdir", "$via": "call", "$value": "/nowhere/at/all"}
    assert codes(waiting({"thing": hostile}), contract()) == []


@pytest.mark.parametrize(
    ("shown", "today", "found"),
    [
        (Answered({"ask": "Pay 5?"}, 0), [{"ask": "Pay 5?"}], []),
        (Answered({"ask": "Roll out?"}, 0), [{"ask": "Stop it?"}], ["gate-changed warning"]),
        (Answered({"ask": "Pay 5 EUR?"}, 0), [{"ask": "Pay 500 cents?"}], ["gate-changed warning"]),
        (Answered({"ask": "Pay 5 EUR?"}, 0), [{"ask": "Pay 0 EUR?"}], ["approval-stale breaking"]),
        (Answered({"field": "age"}, 0), [{"field": "email"}], ["gate-changed warning"]),
        (Answered({"field": "age"}, 1), [{"field": "age"}, {"field": "name"}], ["answer-misrouted breaking"]),
        (Answered("age?", 1), ["age?"], ["answer-misrouted breaking"]),
        (Answered({"at": "2026-01-01T10:00:00"}, 0), [{"at": "2026-02-03T11:30:00"}], []),
    ],
)
def test_a_question_beside_the_one_in_its_place(shown: Answered, today: list[Any], found: list[str]) -> None:
    """The same is fine, other words or numbers are a warning, another position or a lost amount is breaking."""
    assert [f"{code} {severity}" for code, severity, _ in compare_questions(shown, today)] == found


def test_a_question_that_stands_further_down_is_known_by_its_sketch() -> None:
    """Which question of the code was shown is told by its words, not by its place."""
    sketches = [{"consent": "ok?"}, {"ask": {"$any": True}}]
    ((code, severity, _),) = compare_questions(Answered({"ask": "b?"}, 0), [{"consent": "ok?"}], sketches)
    assert (code, severity) == ("answer-misrouted", "breaking")


def test_what_the_code_fills_in_is_another_question_and_what_is_made_while_asking_is_none() -> None:
    """A field that comes out of a list is another field; an id that is new each time says nothing."""
    sketch = {"field": {"$any": True}}
    ((code, severity, _),) = compare_questions(Answered({"field": "age"}, 0), [{"field": "name"}], [sketch])
    assert (code, severity) == ("answer-misrouted", "breaking")
    shown = Answered({"ask": "go?", "trace": "abc"}, 0)
    today, again = [{"ask": "go?", "trace": "xyz"}], [{"ask": "go?", "trace": "uvw"}]
    assert compare_questions(shown, today, [{"ask": "go?", "trace": {"$any": True}}], again) == []
