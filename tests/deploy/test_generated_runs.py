"""Generated runs: unchanged code resumes whatever prefix a crash left; no damage to a log makes it ``resume``."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from pytest_loom import ApprovalError, Context, Event, Log, check_resume, flow, record, resume, step, tool
from pytest_loom.flow.definition import Flow

Program = list[Any]
"""Operations of a flow: ``["inc", 2]``, ``["gate", "A", 1]``, ``["branch", [program, …]]``, ``["sub"]``."""

CALL = {"callId": "1", "name": "pay", "args": {"cents": 1}}
PENDING: list[Callable[[int], Any]] = [
    lambda total: None,
    lambda total: {**CALL, "args": {"cents": total}},
    lambda total: {"question": "sure?", "total": total},
    lambda total: [{**CALL, "idempotencyKey": f"k{total}"}, {"callId": "2", "name": "look", "args": {"q": "x"}}],
    lambda total: {"callId": "3", "name": "inc", "args": {"number": total}},
    lambda total: {"callId": 4, "name": ["odd"], "permissions": 5},
]


@step
async def inc(number: int) -> int:
    """A step with one argument."""
    return number + 1


@step
async def name(number: int, word: str) -> dict[str, Any]:
    """A step with several."""
    return {"number": number, "word": word}


@step(retries=1)
async def fails(number: int) -> int:
    """A step that may fail, twice."""
    if number % 2:
        raise ValueError("odd")
    return number


@tool(approval=True, version=1, permissions=["payments"])
async def pay(cents: int, to: str = "x") -> str:
    """A tool that needs an approval."""
    return f"paid {cents} to {to}"


@tool
async def look(q: str) -> list[str]:
    """A tool that needs none."""
    return [q]


async def play(ctx: Context, program: Program, child: Any) -> int:
    """Do what a program says."""
    total = 0
    for op, *args in program:
        if op == "inc":
            total = await ctx.run(inc, total + args[0])
        elif op == "name":
            await ctx.run(name, total, word="w")
        elif op == "fails":
            try:
                total += await ctx.run(fails, args[0])
            except ValueError:
                total += 100
        elif op == "pay":
            await ctx.call(pay, cents=total)
        elif op == "look":
            await ctx.call(look, q=str(total))
        elif op == "decide":
            total += ctx.decide("d", lambda: 1)
        elif op == "now":
            ctx.now()
        elif op == "snapshot":
            ctx.snapshot({args[0]: total, "at": {args[0]: [total]}})
        elif op == "state":
            total += len(ctx.state or ())
        elif op == "gate":
            timeout = 60 if args[1] == 2 else None
            kind = "question" if args[1] == 2 else "approval"
            try:
                total += await ctx.suspend(args[0], kind=kind, pending=PENDING[args[1]](total), timeout=timeout)
            except TimeoutError:
                total += 7
        elif op == "branch":
            total += sum(await asyncio.gather(*(play(ctx, part, child) for part in args[0])))
        elif child is not None:
            total += await ctx.run(child, total)
    return total


def made(program: Program, inner: Program) -> Flow[..., Any]:
    """The flow of a program, with a sub-flow whose state has versions of its own."""

    @flow(id="child", version="1", steps=[inc, name, fails], tools=[pay, look], gates={"C": int}, versions={"state": 2})
    async def child(ctx: Context, number: int) -> int:
        return number + await play(ctx, inner, None)

    parts: list[Any] = [inc, name, fails, child]
    gates: dict[str, Any] = {"A": int, "B": int, "C": int}

    @flow(id="generated", version="1", steps=parts, tools=[pay, look], gates=gates, versions={"state": 1})
    async def outer(ctx: Context, number: int) -> int:
        return number + await play(ctx, program, child)

    return outer


SMALL = st.integers(0, 3)


def programs(gates: tuple[str, ...], *, nested: bool) -> st.SearchStrategy[Program]:
    """Programs of a few operations; ``nested`` ones have branches and sub-flows too."""
    simple = (
        st.tuples(st.sampled_from(["inc", "fails", "decide"]), SMALL)
        | st.tuples(st.sampled_from(["name", "pay", "look", "now", "state"]))
        | st.tuples(st.just("snapshot"), st.sampled_from(["a", "b"]))
        | st.tuples(st.just("gate"), st.sampled_from(gates), st.integers(0, len(PENDING) - 1))
    )
    if not nested:
        return st.lists(simple, min_size=1, max_size=4)
    inner = st.lists(simple | st.just(("sub",)), min_size=1, max_size=3)
    branches = st.tuples(st.just("branch"), st.lists(inner, min_size=2, max_size=3))
    return st.lists(simple | branches | st.just(("sub",)), min_size=1, max_size=4)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Flow[..., Any], Log]:
    """A generated flow and a run of it, with some of its waits answered, that is not over."""
    today = made(draw(programs(("A", "B"), nested=True)), draw(programs(("C",), nested=False)))
    log = _lived(lambda: record(today, draw(SMALL), execution_id="run-1"))
    for _ in range(draw(st.integers(0, 4))):
        if log.state.status != "suspended":
            break
        wait = draw(st.sampled_from(log.state.suspensions))
        event = "TIMEOUT" if wait.timeout_ms is not None and draw(st.booleans()) else wait.events[0]
        payload = None if event == "TIMEOUT" else draw(SMALL)
        log = _lived(functools.partial(resume, log, today, event=event, payload=payload))
    ends = 0 if log.state.in_flight else 1
    return today, Log(log.events[: len(log) - ends])


def _lived(run: Callable[[], Log]) -> Log:
    """A run; one whose code calls a tool with what nobody was shown is refused, and is no run to ask about."""
    try:
        return run()
    except ApprovalError:
        reject()


def told(log: Log, today: Any) -> tuple[str, list[str]]:
    """The verdict, and what was found beside that the run waits."""
    decision = check_resume(log, today)
    return decision.verdict, [found.code for found in decision.findings if found.code != "suspended-carryover"]


quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@given(runs(), st.data())
@quick
def test_unchanged_code_resumes_whatever_a_crash_left(run: tuple[Flow[..., Any], Log], data: st.DataObject) -> None:
    """Each prefix of a run is one that crashed there: unchanged code goes on with it, and nothing is reported."""
    today, log = run
    cut = data.draw(st.integers(1, len(log)))
    for length in {cut, len(log)}:
        assert told(Log(log.events[:length]), today) == ("resume", [])


@given(runs(), st.data())
@quick
def test_what_is_said_to_resume_does(run: tuple[Flow[..., Any], Log], data: st.DataObject) -> None:
    """A run with that verdict is really resumed, from any prefix."""
    today, log = run
    half = Log(log.events[: data.draw(st.integers(1, len(log)))])
    wait = next(iter(half.state.suspensions), None)
    done = resume(half, today) if wait is None else resume(half, today, event=wait.events[0], payload=1)
    assert done.events[: len(half)] == half.events


# Damage --------------------------------------------------------------------------------------------------------------


def changed(event: Event, **facts: Any) -> Event:
    """A copy of an event with other facts."""
    return msgspec.structs.replace(event, **facts)


def with_payload(event: Event, **facts: Any) -> Event:
    """A copy of an event with other facts in its payload."""
    return changed(event, raw=msgspec.Raw(msgspec.json.encode({**event.payload, **facts})))


def numbered(events: list[Event]) -> list[Event]:
    """The events counted anew, as one who forges a log would do."""
    return [changed(event, sequence=number) for number, event in enumerate(events, 1)]


def dropped(events: list[Event], at: int) -> list[Event]:
    """An event is missing, which is not the last."""
    return [*events[:at], *events[at + 1 :]]


def swapped(events: list[Event], at: int) -> list[Event]:
    """Two neighbours stand the other way round."""
    return [*events[:at], events[at + 1], events[at], *events[at + 2 :]]


def doubled(events: list[Event], at: int) -> list[Event]:
    """An event stands twice."""
    return [*events[: at + 1], *events[at:]]


def one(change: Callable[[Event], Event]) -> Callable[[list[Event], int], list[Event]]:
    """One event is changed."""
    return lambda events, at: [*events[:at], change(events[at]), *events[at + 1 :]]


DAMAGE: dict[str, Callable[[list[Event], int], list[Event]]] = {
    "dropped": dropped,
    "swapped": swapped,
    "doubled": doubled,
    "torn": one(lambda event: changed(event, raw=msgspec.Raw(bytes(event.raw)[:-1]))),
    "garbled": one(lambda event: changed(event, raw=msgspec.Raw(bytes(event.raw)[:-1] + b',"x":\x00}'))),
    "no object": one(lambda event: changed(event, raw=msgspec.Raw(b"[]"))),
    "unknown kind": one(lambda event: changed(event, event_type="STEP_POSTPONED")),
    "newer major": one(lambda event: changed(event, schema_version="2.0.0")),
    "no version": one(lambda event: changed(event, schema_version="new")),
    "version from the future": one(lambda event: changed(event, event_version=7)),
    "version zero": one(lambda event: changed(event, event_version=0)),
    "another execution": one(lambda event: changed(event, execution_id="run-2")),
    "another workflow": one(lambda event: changed(event, workflow_id="other")),
    "another number": one(lambda event: changed(event, sequence=event.sequence + 1)),
    "too deep": one(lambda event: changed(event, raw=msgspec.Raw(b'{"x":' + b"[" * 500 + b"]" * 500 + b"}"))),
}


@given(runs(), st.sampled_from(sorted(DAMAGE)), st.integers(0, 1000))
@settings(parent=quick, max_examples=300)
def test_no_damage_makes_it_resume(run: tuple[Flow[..., Any], Log], kind: str, at: int) -> None:
    """Whatever became of a line of a log, the answer is another one, and never a crash."""
    today, log = run
    events = list(log.events)
    if len(events) < 3:
        return
    damaged = DAMAGE[kind](events, at % (len(events) - 2))
    assert check_resume(Log(damaged), today).verdict != "resume"


FIRST = {"STEP_STARTED": "input", "TOOL_REQUESTED": "args"}


@given(runs(), st.integers(0, 1000))
@settings(parent=quick, max_examples=150)
def test_no_other_question_makes_it_resume(run: tuple[Flow[..., Any], Log], at: int) -> None:
    """An effect whose recorded arguments are other ones is not the one that today's code asks for."""
    today, log = run
    asked = [
        index
        for index, event in enumerate(log.events[:-1])
        if event.event_type in FIRST and event.payload.get("attempt", 1) == 1
    ]
    if asked:
        index = asked[at % len(asked)]
        forged = with_payload(log.events[index], **{FIRST[log.events[index].event_type]: {"forged": 1}})
        assert told(Log([*log.events[:index], forged, *log.events[index + 1 :]]), today)[0] != "resume"


@given(runs(), st.integers(0, 1000))
@settings(parent=quick, max_examples=150)
def test_no_answer_that_was_taken_out_makes_it_resume(run: tuple[Flow[..., Any], Log], at: int) -> None:
    """An answer is gone and the events are counted anew: the work after it was not asked for before it came.

    A sub-flow's own is left alone, since its code runs again anyway; so is one whose step is begun again right behind
    it, which is what a crash leaves.
    """
    today, log = run
    own = [(index, event) for index, event in enumerate(log.events) if (event.branch, event.namespace) == (None, None)]
    gone = [
        index
        for (index, event), (_, after) in itertools.pairwise(own)
        if event.event_type in ("STEP_COMPLETED", "TOOL_COMPLETED")
        and event.payload.get("stepId") != "child"
        and after.event_type in (*FIRST, "DECISION_RECORDED", "EXECUTION_SUSPENDED")
        and after.payload.get("stepId", "") != event.payload.get("stepId")
    ]
    if gone:
        assert told(Log(numbered(dropped(list(log.events), gone[at % len(gone)]))), today)[0] != "resume"


def test_the_generator_reaches_every_operation() -> None:
    """Programs of all kinds are drawn, so that the properties are about something."""
    seen: set[str] = set()

    @given(programs(("A",), nested=True))
    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    def look_at(program: Program) -> None:
        seen.update(op for op, *_ in program)

    look_at()
    assert {"inc", "gate", "snapshot", "branch", "sub", "state", "pay", "decide"} <= seen


def test_damage_is_told() -> None:
    """A damaged log is a decision like any other: rejected, with a reason and a next step."""
    today = made([("inc", 1), ("gate", "A", 1)], [("inc", 1)])
    events = list(record(today, 1, execution_id="run-1").events)
    for damage in DAMAGE.values():
        decision = check_resume(Log(damage(events, 1)), today)
        assert decision.verdict == "reject"
        assert decision.reasons
        assert decision.next_step
