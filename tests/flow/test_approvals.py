"""Pending approvals in every shape a log may have: bound to what was shown, closed where that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pytest_loom import Context, Contract, Log, LogBuilder, SyncContext, check_resume, flow, record, resume, step, tool
from pytest_loom.deploy.decide import ResumeDecision

SCHEMA = {"type": "object", "properties": {"env": {"type": "string"}}, "required": ["env"]}
TOOL: dict[str, Any] = {"schema": SCHEMA, "version": 1, "permissions": ["cluster"]}
CALL = {"callId": "c-1", "name": "deploy", "args": {"env": "prod"}}
SHOWN = {**CALL, "toolSchema": SCHEMA, "toolSchemaVersion": 1, "permissions": ["cluster"]}


def contract(*, workflow: str = "release", **tool: Any) -> Contract:
    """Today's contract with one tool."""
    return Contract.model_validate({"workflowId": workflow, "gates": {"A": {}}, "tools": {"deploy": {**TOOL, **tool}}})


def log_of(*events: tuple[str, dict[str, Any]]) -> Log:
    """A run of release."""
    made = LogBuilder("r-1", "release", path="r.loom.jsonl")
    for kind, payload in [("EXECUTION_STARTED", {}), *events]:
        made.add(kind, payload, timestamp=1)
    return made.log()


def waiting(pending: Any, *before: tuple[str, dict[str, Any]], kind: str = "approval") -> Log:
    """A run that waits for an approval of that."""
    return log_of(*before, ("EXECUTION_SUSPENDED", {"on": "A", "kind": kind, "pending": pending}))


def codes(decision: ResumeDecision) -> list[str]:
    """What was found beside that the run waits."""
    return [found.code for found in decision.findings if found.code != "suspended-carryover"]


def deep(levels: int) -> dict[str, Any]:
    """A schema in a schema in a schema."""
    found: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"env": found}}
    return found


REQUESTED = ("TOOL_REQUESTED", {**SHOWN, "approval": True})

SAME: dict[str, Log] = {
    "a dict": waiting(SHOWN),
    "a list": waiting([SHOWN]),
    "a list in a list": waiting([[SHOWN]]),
    "without what the tool was like": waiting(CALL),
    "joined by its callId": waiting({"callId": "c-1"}, REQUESTED),
    "joined, the arguments said anew": waiting(CALL, REQUESTED),
    "a question": waiting("Really deploy?", kind="question"),
    "a question with parts": waiting({"question": "Really?", "options": ["yes", "no"]}, kind="question"),
    "nothing": waiting(None),
    "an empty list": waiting([]),
    "a name that is no tool's": waiting({"name": "Ann", "question": "May Ann in?"}, kind="question"),
    "approved, then cut off": log_of(REQUESTED),
    "answered, then cut off": log_of(
        ("EXECUTION_SUSPENDED", {"on": "A", "kind": "approval", "pending": SHOWN}),
        ("A", {"value": True}),
        ("EXECUTION_RESUMED", {"eventType": "A", "payload": True}),
    ),
    "approved for good": log_of(
        ("TOOL_REQUESTED", {**SHOWN, "approval": "always"}), ("TOOL_COMPLETED", {"callId": "c-1"})
    ),
    "two thousand calls": waiting([{**CALL, "callId": str(number)} for number in range(2_000)]),
    "a long text": waiting({**CALL, "args": {"env": "x" * 1_000_000}}),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_as_it_was_shown_goes_on(name: str) -> None:
    """The same tool: in every shape the run resumes, and nothing is said beside that it waits."""
    decision = check_resume(SAME[name], contract())
    assert (decision.verdict, codes(decision)) == ("resume", [])


CALLS = [
    name
    for name in SAME
    if "question" not in name and name not in ("nothing", "an empty list", "a name that is no tool's")
]


@pytest.mark.parametrize("change", ["version", "permissions", "schema"])
@pytest.mark.parametrize("name", CALLS)
def test_a_tool_that_means_more_is_asked_again(name: str, change: str) -> None:
    """Widened, bumped or with an argument that was not shown: in every shape the approval does not hold any more."""
    wider = {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}
    new: dict[str, Any] = {"version": 2, "permissions": ["cluster", "payments"], "schema": wider}
    yesterday = contract()
    decision = check_resume(SAME[name], contract(**{change: new[change]}), contract=yesterday)
    assert decision.verdict == "reapprove"
    assert not decision.ok


HOSTILE: dict[str, Any] = {
    "a schema that is a list": {**SHOWN, "toolSchema": [1, 2]},
    "a schema that is a text": {**SHOWN, "toolSchema": "object"},
    "a schema that nothing fits": {**SHOWN, "toolSchema": False},
    "a schema without an end": {**SHOWN, "toolSchema": deep(45)},
    "a schema that points nowhere": {**SHOWN, "toolSchema": {"$ref": "#/$defs/none"}},
    "permissions that are a number": {**SHOWN, "permissions": 5},
    "permissions that are a text": {**SHOWN, "permissions": "cluster"},
    "permissions with a number": {**SHOWN, "permissions": ["cluster", 5]},
    "a version that is a list": {**SHOWN, "toolSchemaVersion": [1]},
    "a version that is true": {**SHOWN, "toolSchemaVersion": True},
    "a version with a point": {**SHOWN, "toolSchemaVersion": 1.0},
    "a version as text": {**SHOWN, "toolSchemaVersion": "1"},
    "a name that is a number": {**SHOWN, "name": 5},
    "a name that is a list": {**SHOWN, "name": ["deploy"]},
    "no name": {key: value for key, value in SHOWN.items() if key != "name"},
    "a callId that nothing has": {"callId": "c-9"},
    "no arguments": {"callId": "c-1", "name": "deploy"},
    "arguments that are a list": {**CALL, "args": ["prod"]},
    "arguments that are null": {**CALL, "args": None},
    "arguments that are deep": {**CALL, "args": {"env": "prod", "x": deep(40)}},
    "hidden in a list": [SHOWN, [[{**SHOWN, "permissions": 5}]]],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_payloads_are_closed(name: str) -> None:
    """What cannot be read is not what was shown: never a crash, never ``resume``."""
    decision = check_resume(waiting(HOSTILE[name]), contract())
    assert decision.verdict == "reapprove"
    assert set(codes(decision)) <= {"approval-stale", "tool-args"}
    assert all(reason.isprintable() for reason in decision.reasons)


def test_what_cannot_be_read_is_named() -> None:
    """The refusal says which parts of what was shown are not to be read."""
    decision = check_resume(waiting({**SHOWN, "permissions": 5, "toolSchemaVersion": [1]}), contract())
    assert "what was shown of it cannot be read: toolSchemaVersion, permissions" in decision.reasons[0]


def test_a_call_that_is_over_is_not_pending() -> None:
    """What was shown and then done leaves nothing to ask again."""
    done = log_of(
        ("EXECUTION_SUSPENDED", {"on": "A", "kind": "approval", "pending": SHOWN}),
        ("EXECUTION_RESUMED", {"eventType": "A", "payload": True}),
        REQUESTED,
        ("TOOL_COMPLETED", {"callId": "c-1", "output": None}),
    )
    assert check_resume(done, contract(version=2)).verdict == "resume"


def test_a_tool_that_is_gone() -> None:
    """An approval of what today's code does not have is for a person."""
    gone = Contract.model_validate({"workflowId": "release", "gates": {"A": {}}, "tools": {}})
    decision = check_resume(waiting(SHOWN), gone)
    assert (decision.verdict, codes(decision)) == ("manual", ["tool-missing"])


# Native flows --------------------------------------------------------------------------------------------------------


@tool(version=1, approval=True, permissions=["cluster"])
def deploy(env: str) -> str:
    """The tool."""
    return env


@step
def transfer(cents: int) -> int:
    """A step that somebody approves, which is no tool."""
    return cents


def asking(pending: Callable[[], Any], *, tools: Any = (deploy,), id: str = "release") -> Any:
    """A flow that waits for an approval of that, and then does it."""

    @flow(id=id, version="1", steps=[transfer], gates={"A": bool}, tools=list(tools))
    def body(ctx: SyncContext) -> Any:
        return ctx.suspend("A", kind="approval", pending=pending())

    return body


@pytest.mark.parametrize(
    "pending",
    [
        {"callId": "t-1", "name": "transfer", "args": {"cents": 5}},
        {"name": "somebody's", "args": {"cents": 5}},
        {"callId": "t-1"},
        {"callId": "t-1", "name": ["odd"], "args": 5, "permissions": 5},
        {"name": "deploy"},
        "Really?",
    ],
    ids=repr,
)
def test_code_may_ask_for_what_is_no_tool(pending: Any) -> None:
    """A native flow that asks for a step, or for whatever it likes, resumes on the same code."""
    today = asking(lambda: pending)
    log = record(today)
    assert (check_resume(log, today).verdict, codes(check_resume(log, today))) == ("resume", [])
    assert resume(log, today, event="A", payload=True).state.status == "completed"


def test_the_tool_of_a_sub_flow() -> None:
    """What waits within a sub-flow is a call of the sub-flow's tools, and bound to them."""

    def outer(version: int) -> Any:
        @tool(version=version, approval=True)
        def deploy(env: str) -> str:
            return env

        @flow(id="guarded", gates={"A": bool}, tools=[deploy])
        def guarded(ctx: SyncContext) -> Any:
            return ctx.suspend("A", kind="approval", pending=CALL) and ctx.call(deploy, env="prod")

        @flow(id="desk", version="1", steps=[guarded])
        def desk(ctx: SyncContext) -> Any:
            return ctx.run(guarded)

        return desk

    log = record(outer(1))
    assert (check_resume(log, outer(1)).verdict, codes(check_resume(log, outer(1)))) == ("resume", [])
    assert check_resume(log, outer(2)).verdict == "reapprove"


@pytest.mark.parametrize(
    "shown", [{"callId": "c-1"}, {"callId": "c-1", "name": ["deploy"]}, {"name": "other", "args": {}}]
)
def test_another_call_than_the_one_in_the_log(shown: Any) -> None:
    """What the log says was shown is not the call that today's code asks for: nobody agreed to that one."""
    today = asking(lambda: CALL)
    log = record(asking(lambda: shown))
    assert check_resume(log, today).verdict == "reapprove"


def test_more_or_less_than_was_shown() -> None:
    """A second call in the same question, or one that is not shown any more, is another question."""
    two = {"callId": "c-2", "name": "deploy", "args": {"env": "test"}}
    assert check_resume(record(asking(lambda: [CALL])), asking(lambda: [CALL, two])).verdict == "reapprove"
    assert check_resume(record(asking(lambda: [CALL, two])), asking(lambda: [CALL])).verdict == "reapprove"
    assert check_resume(record(asking(lambda: CALL)), asking(lambda: None)).verdict == "reapprove"


def test_several_gates_of_one_event() -> None:
    """Branches that wait for the same event are each held against their own call."""

    def fan(cents: list[int]) -> Any:
        @flow(id="fan", version="1", gates={"A": bool})
        async def body(ctx: Context) -> Any:
            calls: list[Any] = [{"callId": str(one), "name": "pay", "args": {"cents": one}} for one in cents]
            waits = (ctx.suspend("A", correlation_key=call["callId"][:1], pending=call) for call in calls)
            return await asyncio.gather(*waits)

        return body

    log = record(fan([10, 20, 30]))
    assert codes(check_resume(log, fan([10, 20, 30]))) == []
    changed = check_resume(log, fan([10, 21, 30]))
    assert (changed.verdict, codes(changed)) == ("reapprove", ["tool-args"])
    assert "was 20, today 21" in changed.reasons[0]
