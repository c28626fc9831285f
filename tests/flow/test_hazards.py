"""What resume refuses is what a simulation calls breaking: one list, and the way out that it names really works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from pytest_loom import (
    Context,
    Log,
    LoomError,
    StateMigrationError,
    SyncContext,
    check_resume,
    flow,
    fork,
    migration,
    record,
    replay,
    resume,
    resume_as,
    simulate_deploy,
    step,
    tool,
)
from pytest_loom.flow.definition import Flow
from pytest_loom.log.migrations import isolated_migrations


@pytest.fixture(autouse=True)
def own_migrations() -> Any:
    """Each test registers its own."""
    with isolated_migrations():
        yield


@dataclass
class Case:
    """The input."""

    id: str
    cents: int = 0


@dataclass
class Renamed:
    """The input whose field has another name behind a default."""

    id: str
    amount: int = 0


@dataclass
class Strict:
    """The input with what nobody gave."""

    id: str
    region: str


@dataclass
class More:
    """The input with an optional field."""

    id: str
    cents: int = 0
    note: str | None = None


@dataclass
class Verdict:
    """What a step gives."""

    risk: str
    cents: int = 0


@dataclass
class OtherVerdict:
    """The same with a field of another name."""

    risk: str
    amount: int = 0


@dataclass
class MoreVerdict:
    """The same with one more."""

    risk: str
    cents: int = 0
    tags: list[str] = field(default_factory=list)


@tool(version=1, approval=True, permissions=["payments"])
def pay(cents: int) -> str:
    """The tool."""
    return str(cents)


def tool_of(*, version: int = 1, permissions: tuple[str, ...] = ("payments",), doc: str = "The tool.") -> Any:
    """The tool of today."""

    def pay(cents: int) -> str:
        return str(cents)

    pay.__doc__ = doc
    return tool(version=version, approval=True, permissions=list(permissions))(pay)


def refund(
    *,
    input: Any = Case,
    verdict: Any = Verdict,
    pays: Any = pay,
    pending: Callable[[int], Any] = lambda cents: {"callId": "c", "name": "pay", "args": {"cents": cents}},
    state: Callable[[str], Any] = lambda risk: {"risk": risk, "tries": 1},
    versions: dict[str, Any] | None = None,
    gate: str = "Approved",
    extra: str = "",
    steps: Any = None,
) -> Flow[..., Any]:
    """A refund flow that assesses, saves its state and asks, with parts that can be changed."""

    @step(id="assess")
    def assess(id: str) -> Any:
        return verdict("low", 7)

    assess.fn.__annotations__["return"] = verdict

    @step
    def audit(id: str) -> str:
        return id

    def body(ctx: SyncContext, case: Any) -> Any:
        if extra == "inserted":
            ctx.run(audit, case.id)
        found = ctx.run(assess, case.id)
        if extra == "decides":
            ctx.decide("d", lambda: 1)
        ctx.snapshot(state(found.risk))
        if not ctx.suspend(gate, kind="approval", pending=pending(4999)):
            return "no"
        if extra == "appended":
            ctx.run(audit, case.id)
        return [ctx.state, ctx.call(pays, cents=4999)]

    body.__annotations__["case"] = input
    made = flow(id="refund", version="1", steps=[assess, audit], gates={gate: bool}, tools=[pays])
    if versions is not None:
        made = flow(
            id="refund", version="1", steps=[assess, audit], gates={gate: bool}, tools=[pays], versions=versions
        )
    return made(body)


def call(**facts: Any) -> Callable[[int], Any]:
    """The pending call with other facts."""
    return lambda cents: {"callId": "c", "name": "pay", "args": {"cents": cents}, **facts}


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "resume"),
    "a step behind the gate": ({"extra": "appended"}, "resume"),
    "an optional input field": ({"input": More}, "resume"),
    "an optional result field": ({"verdict": MoreVerdict}, "resume"),
    "another docstring": ({"pays": tool_of(doc="Pays money back, in cents.")}, "resume"),
    "fewer permissions": ({"pays": tool_of(permissions=())}, "resume"),
    "a state key more": ({"state": lambda risk: {"risk": risk, "tries": 1, "new": 0}}, "resume"),
    "an argument that is null": ({"pending": call(args={"cents": 4999, "note": None})}, "resume"),
    "an argument more": ({"pending": call(args={"cents": 4999, "fast": True})}, "resume"),
    "an input field of another name": ({"input": Renamed}, "reject"),
    "an input field that nobody gave": ({"input": Strict}, "reject"),
    "a result field of another name": ({"verdict": OtherVerdict}, "manual"),
    "a state key of another name": ({"state": lambda risk: {"grade": risk, "tries": 1}}, "manual"),
    "a state key of another type": ({"state": lambda risk: {"risk": risk, "tries": "once"}}, "manual"),
    "a state version without a migration": ({"versions": {"state": 2}}, "reject"),
    "another gate": ({"gate": "Granted"}, "manual"),
    "a step before the gate": ({"extra": "inserted"}, "fork"),
    "a decision before the gate": ({"extra": "decides"}, "fork"),
    "another argument": ({"pending": call(args={"cents": 1})}, "reapprove"),
    "an argument that is lost": ({"pending": call(args={})}, "reapprove"),
    "another tool": ({"pending": call(name="refuse")}, "reapprove"),
    "another meaning of the tool": ({"pays": tool_of(version=2)}, "reapprove"),
    "more permissions": ({"pays": tool_of(permissions=("payments", "mail"))}, "reapprove"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_resume_refuses_what_is_breaking_and_appends_nothing(name: str, tmp_path: Any) -> None:
    """The verdict of the change, and resume does what it says; refused, the log and the file are as they were."""
    change, verdict = CHANGES[name]
    log = record(refund(), Case("c-1", 4999), execution_id="r")
    today, before = refund(**change), [bytes(event.raw) for event in log.events]
    decision = check_resume(log, today)
    assert decision.verdict == verdict
    assert simulate_deploy([log], today).ok == decision.ok
    path = tmp_path / "r.loom.jsonl"
    if decision.ok:
        done = resume(log, today, event="Approved", payload=True, path=path)
        assert done.state.status == "completed"
        return
    with pytest.raises(LoomError) as refused:
        resume(log, today, event="Approved", payload=True, path=path)
    assert [bytes(event.raw) for event in log.events] == before
    assert list(tmp_path.iterdir()) == []
    first = next(found for found in decision.findings if found.severity == "breaking")
    if first.code not in ("gate-removed", "replay-diverged", "schema-unknown", "migration-missing"):
        assert first.message.rstrip(".").splitlines()[0][:60] in str(refused.value)


def test_an_idempotency_key_that_is_derived_another_way() -> None:
    """What was begun under the old key would be done once more: effect-repeated, and a fork is the way out."""
    log = record(refund(pending=call(idempotencyKey="run-1")), Case("c"))
    decision = check_resume(log, refund(pending=call(idempotencyKey="case-c")))
    assert (decision.verdict, decision.findings[-1].code) == ("fork", "effect-repeated")
    assert 'was "run-1", and today\'s code derives "case-c"' in decision.findings[-1].message


def test_a_question_that_is_worded_another_way() -> None:
    """Other words for a question are for a person to look at, and never stop the run."""
    log = record(refund(pending=lambda cents: "Pay?"), Case("c"))
    today = refund(pending=lambda cents: "Pay it back?")
    decision = check_resume(log, today)
    assert (decision.verdict, [f.code for f in decision.findings if f.severity == "warning"][-1]) == (
        "resume",
        "answer-misrouted",
    )
    assert resume(log, today, event="Approved", payload=True).state.status == "completed"


# The way out that is named, pasted ----------------------------------------------------------------------------------


def pasted(code: str, **names: Any) -> Any:
    """What the command of a hint gives, as somebody would paste it."""
    lines = [line.strip() for line in code.splitlines() if line.startswith("  ")]
    found = {"resume": resume, "resume_as": resume_as, "fork": fork, "migration": migration, **names}
    exec("\n".join(lines), found)
    return found


def test_asking_again_works() -> None:
    """The command of ``reapprove`` asks with today's call; the old wait stays as it was."""
    log = record(refund(), Case("c", 4999))
    today = refund(pending=call(args={"cents": 1}))
    decision = check_resume(log, today)
    asked = pasted(decision.next_step, log=log, flow=today)["asked"]
    assert asked.state.suspension.pending["args"] == {"cents": 1}
    assert check_resume(asked, today).verdict == "resume"
    assert log.state.suspension is not None


def test_a_state_that_is_migrated_works() -> None:
    """The migration that the refusal names carries the state; without it nothing is appended."""
    log = record(refund(versions={"state": 1}), Case("c"))
    today = refund(versions={"state": 2}, state=lambda risk: {"grade": risk, "tries": 1})
    decision = check_resume(log, today)
    assert (decision.verdict, "migration-missing" in [f.code for f in decision.findings]) == ("reject", True)
    assert '@migration("state", from_version=1)' in decision.next_step
    with pytest.raises(StateMigrationError):
        resume(log, today, event="Approved", payload=True)
    migration("state", from_version=1)(lambda state: {"grade": state["risk"], "tries": state["tries"]})
    assert check_resume(log, today).verdict == "migrate"
    done = resume(log, today, event="Approved", payload=True)
    assert done.state.variables["_output"][0] == {"grade": "low", "tries": 1}


def test_a_renamed_input_is_accepted_once_a_migration_said_so() -> None:
    """Plain resume refuses a field renamed behind a default, and accepts it after resume_as said what it is."""
    log = record(refund(), Case("c", 4999))
    today = refund(input=Renamed)
    with pytest.raises(StateMigrationError, match="cents would be dropped"):
        resume(log, today, event="Approved", payload=True)
    moved = resume_as(log, today, transform_state=lambda old: {"id": old["id"], "amount": old["cents"]})
    assert check_resume(moved, today).verdict == "resume"
    assert resume(moved, today, event="Approved", payload=True).state.status == "completed"
    dropped = resume_as(log, today, transform_state=lambda old: old)
    assert resume(dropped, today, event="Approved", payload=True).state.status == "completed"


# ctx.state -----------------------------------------------------------------------------------------------------------


@dataclass
class Saved:
    """A typed state."""

    total: Decimal
    tags: set[str]


def saving(value: Any, look: Callable[[Any], Any], *, versions: dict[str, Any] | None = None) -> Flow[..., Any]:
    """A flow that saves a value, waits, and then looks at its state."""

    @flow(id="saving", version="1", gates={"A": int}, versions=versions)
    def body(ctx: SyncContext) -> Any:
        ctx.snapshot(value)
        before = look(ctx.state)
        ctx.suspend("A")
        assert look(ctx.state) == before
        return before

    return body


@pytest.mark.parametrize(
    ("value", "look"),
    [
        (Saved(Decimal("1.10"), {"a"}), lambda state: (state.total + 1, state.tags | {"b"})),
        ({"saved": Saved(Decimal(2), set())}, lambda state: state["saved"].total),
        ([Saved(Decimal(3), set())], lambda state: state[0].tags),
        ({"a": 1}, lambda state: state["a"]),
        (Decimal("1.5"), lambda state: state + 1),
        ({1, 2}, lambda state: state | {3}),
        (b"\x00", lambda state: state + b"x"),
        (None, lambda state: state),
    ],
    ids=["typed", "typed within", "typed in a list", "plain", "decimal", "set", "bytes", "none"],
)
def test_the_state_is_of_the_same_type_after_a_resume(value: Any, look: Callable[[Any], Any]) -> None:
    """What code does with its state before a wait it can do behind it, in a resumed and in a replayed run."""
    today = saving(value, look)
    log = record(today)
    assert check_resume(log, today).verdict == "resume"
    done = resume(log, today, event="A", payload=1)
    assert (done.state.status, done.state.variables.get("_error")) == ("completed", None)
    assert replay(done, today).state.status == "completed"


def test_a_typed_state_is_migrated_to_its_type() -> None:
    """A state of an older version comes as an instance of what today's code saves, twice migrated."""

    @dataclass
    class Old:
        sum: int

    @dataclass
    class Today:
        cents: int
        currency: str

    def of(value: Any, version: int) -> Flow[..., Any]:
        @flow(id="typed", version="1", gates={"A": int}, versions={"state": version})
        def body(ctx: SyncContext) -> Any:
            ctx.snapshot(value)
            ctx.suspend("A")
            return [type(ctx.state).__name__, ctx.state.cents, ctx.state.currency]

        return body

    log = record(of(Old(4999), 1))
    migration("state", from_version=1)(lambda state: {"cents": state["sum"]})
    migration("state", from_version=2)(lambda state: {**state, "currency": "EUR"})
    today = of(Today(0, "USD"), 3)
    decision = check_resume(log, today)
    assert decision.verdict == "migrate"
    assert "the state is carried from version 1 to 3" in decision.reasons
    done = resume(log, today, event="A", payload=1)
    assert done.state.variables["_output"] == ["Today", 4999, "EUR"]
    assert done.events[1].payload["state"] == {"sum": 4999}


def nested(versions: dict[str, Any], inner: dict[str, Any], key: str = "n") -> Flow[..., Any]:
    """A flow with a state, whose sub-flow has one of its own."""

    @flow(id="child", gates={"A": int}, versions=inner)
    async def child(ctx: Context) -> Any:
        ctx.snapshot({key: 1})
        await ctx.suspend("A")
        return ctx.state

    @flow(id="outer", version="1", steps=[child], versions=versions)
    async def outer(ctx: Context) -> Any:
        ctx.snapshot({"o": 1})
        found = await ctx.run(child)
        return [ctx.state, found]

    return outer


def test_each_sub_flow_has_its_own_state() -> None:
    """The versions of the flow around it say nothing of a sub-flow's state, and its own ones do."""
    log = record(nested({"state": 1}, {"state": 7}))
    assert check_resume(log, nested({"state": 1}, {"state": 7})).verdict == "resume"
    newer = nested({"state": 1}, {"state": 8})
    decision = check_resume(log, newer)
    assert (decision.verdict, decision.findings[-1].code) == ("reject", "migration-missing")
    with pytest.raises(StateMigrationError):
        resume(log, newer, event="A", payload=1)
    migration("state", from_version=7)(lambda state: {"n": state["n"] + 41})
    assert check_resume(log, newer).verdict == "migrate"
    assert resume(log, newer, event="A", payload=1).state.variables["_output"] == [{"o": 1}, {"n": 42}]
    other = check_resume(log, nested({"state": 1}, {"state": 7}, "m"))
    assert (other.verdict, other.findings[-1].code) == ("manual", "state-key-lost")


def test_a_crash_before_a_later_snapshot() -> None:
    """The state that was recorded last is held against today's at that very point, not at the last one."""

    @flow(id="twice", version="1", gates={"A": int})
    def twice(ctx: SyncContext) -> Any:
        ctx.snapshot({"first": 1})
        ctx.snapshot({"second": "x"})
        ctx.suspend("A")
        return ctx.state

    log = record(twice)
    assert check_resume(Log(log.events[:2]), twice).verdict == "resume"
    assert resume(Log(log.events[:2]), twice).state.status == "suspended"
