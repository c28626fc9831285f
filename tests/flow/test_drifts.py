"""The seventeen drifts of issue 3: each is noticed, or does not matter, and none lets one live call through."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest

from pytest_loom import (
    Context,
    Flow,
    LiveCallError,
    Log,
    ReplayDivergence,
    SyncContext,
    diff_runs,
    flow,
    record,
    replay,
    step,
    tool,
)
from pytest_loom.flow import seam

Mode = Literal["async", "sync"]
Move = Callable[[Any], Any]

LIVE: list[str] = []
"""What really ran: every body of a step, tool or model call says so."""


@pytest.fixture(params=["async", "sync"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Runs the test with an async flow and with a sync one."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    LIVE.clear()
    yield
    LIVE.clear()


@step
def policy(name: str) -> str:
    """Says that it ran."""
    LIVE.append("policy")
    return f"policy {name}"


@step
async def pay(request: dict[str, Any]) -> int:
    """Says that it ran."""
    LIVE.append("pay")
    return int(request["amount"])


@step
def notify(to: str, text: str) -> None:
    """Says that it ran."""
    LIVE.append("notify")


@step
def extra(name: str) -> str:
    """Says that it ran."""
    LIVE.append("extra")
    return name


@tool
def lookup(id: int) -> str:
    """Says that it ran."""
    LIVE.append("lookup")
    return f"customer {id}"


@tool
def stock(id: int) -> int:
    """Says that it ran."""
    LIVE.append("stock")
    return id


@tool(name="look_up")
def renamed_lookup(id: int) -> str:
    """Says that it ran."""
    LIVE.append("look_up")
    return f"customer {id}"


_TEXT: seam.Wire[str] = seam.Wire(dump=str, load=str)


def model(mode: Mode, prompt: str) -> Move:
    """A model call through a seam, as the recorded model clients make it."""
    request = {"messages": [{"role": "user", "content": prompt}]}

    def live() -> str:
        LIVE.append("model")
        return prompt.upper()

    async def alive() -> str:
        return live()

    if mode == "sync":
        return lambda ctx: seam.call("model", "m1", request, live, _TEXT)
    return lambda ctx: seam.acall("model", "m1", request, alive, _TEXT)


def run(step: Any, *args: Any) -> Move:
    """A step, as a move of an agent."""
    return lambda ctx: ctx.run(step, *args)


def call(tool: Any, **arguments: Any) -> Move:
    """A tool call, as a move of an agent."""
    return lambda ctx: ctx.call(tool, **arguments)


def agent(mode: Mode, *moves: Move) -> Flow[..., Any]:
    """A flow that makes these moves one after the other, and gives what they gave."""
    declared: dict[str, Any] = {
        "id": "agent",
        "steps": [policy, pay, notify, extra],
        "tools": [lookup, stock, renamed_lookup],
    }
    if mode == "sync":

        @flow(**declared)
        def sync_agent(ctx: SyncContext) -> list[Any]:
            return [move(ctx) for move in moves]

        return sync_agent

    @flow(**declared)
    async def async_agent(ctx: Context) -> list[Any]:
        return [await move(ctx) for move in moves]

    return async_agent


def golden(of: Flow[..., Any]) -> Log:
    """Today's behaviour as the golden run."""
    log = record(of)
    assert log.state.status == "completed", log.state.variables
    LIVE.clear()
    return log


def drift(log: Log, today: Flow[..., Any]) -> ReplayDivergence:
    """The divergence that replaying today's code raises; not one body ran meanwhile, in either mode of replay."""
    with pytest.raises(ReplayDivergence) as caught:
        replay(log, today)
    candidate = replay(log, today, on_divergence="record")
    assert LIVE == []
    assert diff_runs(log, candidate, compare="all") != []
    return caught.value


def same(log: Log, today: Flow[..., Any], **options: Any) -> Log:
    """The candidate of today's code, which does what the golden run did; not one body ran."""
    candidate = replay(log, today, **options)
    assert LIVE == []
    return candidate


class Test_1_ArgumentChanged:
    def test_of_a_step(self, mode: Mode) -> None:
        """A changed leaf of a step's argument is shown with both values, where it is, and how to go on."""
        log = golden(agent(mode, run(policy, "eu"), run(pay, {"to": {"iban": "DE1"}, "amount": 39})))
        error = drift(log, agent(mode, run(policy, "eu"), run(pay, {"to": {"iban": "DE1"}, "amount": 3900})))
        assert error.kind == "argument-changed"
        assert error.step == "pay"
        assert "amount: recorded 39, today 3900" in str(error)
        assert error.expected is not None
        assert error.expected["input"]["amount"] == 39
        assert error.asked is not None
        assert error.asked["input"]["amount"] == 3900
        assert '"pay.input.amount"' in str(error)
        assert "--snapshot-update" in str(error)

    def test_of_a_tool(self, mode: Mode) -> None:
        """A changed argument of a tool is noticed."""
        error = drift(golden(agent(mode, call(lookup, id=1))), agent(mode, call(lookup, id=2)))
        assert (error.kind, error.step) == ("argument-changed", "lookup")
        assert "id: recorded 1, today 2" in str(error)

    @pytest.mark.parametrize(
        ("was", "now"),
        [
            ({"amount": 1}, {"amount": 1, "currency": "EUR"}),
            ({"amount": 1, "currency": "EUR"}, {"amount": 1}),
            ({"amount": 1, "tags": ["a", "b"]}, {"amount": 1, "tags": ["b", "a"]}),
            ({"amount": 1, "now": True}, {"amount": 1, "now": 1}),
            ({"amount": 1, "note": None}, {"amount": 1}),
            ({"amount": 1, "note": None}, {"amount": 1, "note": float("nan")}),
            ({"amount": 1, "note": ""}, {"amount": 1, "note": None}),
            ({"amount": 1, "id": 1}, {"amount": 1, "id": 2}),
        ],
        ids=["key added", "key lost", "list order", "true is not 1", "null lost", "NaN", "empty text", "key named id"],
    )
    def test_in_a_small_way(self, mode: Mode, was: dict[str, Any], now: dict[str, Any]) -> None:
        """Changes that a loose comparison takes for the same are noticed, whatever the key is called."""
        assert drift(golden(agent(mode, run(pay, was))), agent(mode, run(pay, now))).kind == "argument-changed"

    def test_of_several(self, mode: Mode) -> None:
        """The second of two arguments counts as the first does."""
        error = drift(golden(agent(mode, run(notify, "ann", "hi"))), agent(mode, run(notify, "ann", "ho")))
        assert error.kind == "argument-changed"
        assert "args[1]" in str(error)

    def test_of_none(self, mode: Mode) -> None:
        """A step that was asked with arguments is not answered when it is asked without."""

        @step
        def ping(*what: str) -> str:
            LIVE.append("ping")
            return "pong"

        def flow_of(*args: str) -> Flow[..., Any]:
            if mode == "sync":

                @flow(id="ping", steps=[ping])
                def sync_ping(ctx: SyncContext) -> str:
                    return ctx.run(ping, *args)

                return sync_ping

            @flow(id="ping", steps=[ping])
            async def async_ping(ctx: Context) -> str:
                return await ctx.run(ping, *args)

            return async_ping

        assert drift(golden(flow_of("a")), flow_of()).kind == "argument-changed"
        assert drift(golden(flow_of()), flow_of("a")).kind == "argument-changed"


class Test_2_StepSkipped:
    @pytest.mark.parametrize("skipped", [0, 1])
    def test_before_others(self, mode: Mode, skipped: int) -> None:
        """A step that is no longer run is noticed at the effect that comes in its place."""
        moves = [run(policy, "eu"), run(pay, {"amount": 1}), call(lookup, id=1)]
        log = golden(agent(mode, *moves))
        del moves[skipped]
        error = drift(log, agent(mode, *moves))
        assert error.kind == "order-changed"
        assert error.expected is not None
        assert error.expected["key"] == ["policy", "pay"][skipped]


class Test_3_StepAdded:
    @pytest.mark.parametrize("at", [0, 1, 2])
    def test_anywhere(self, mode: Mode, at: int) -> None:
        """A step that was never recorded is noticed at the start, in the middle and at the end."""
        moves = [run(policy, "eu"), run(pay, {"amount": 1})]
        log = golden(agent(mode, *moves))
        moves.insert(at, run(extra, "new"))
        error = drift(log, agent(mode, *moves))
        assert error.kind == "step-added"
        assert error.asked is not None
        assert (error.asked["name"], error.asked["input"]) == ("extra", "new")

    def test_a_tool(self, mode: Mode) -> None:
        """A tool call that was never recorded is noticed."""
        error = drift(golden(agent(mode, run(policy, "eu"))), agent(mode, run(policy, "eu"), call(stock, id=1)))
        assert error.kind == "step-added"
        assert "calls tool stock" in str(error)


class Test_4_StepTwice:
    def test_at_the_end(self, mode: Mode) -> None:
        """A payment that is now made twice gets no second answer."""
        once = run(pay, {"amount": 1})
        error = drift(golden(agent(mode, once)), agent(mode, once, once))
        assert error.kind == "occurrence-added"
        assert "once more than the golden run" in str(error)

    def test_in_the_middle(self, mode: Mode) -> None:
        """The second payment is not answered with anything that was recorded after the first."""
        once, then = run(pay, {"amount": 1}), run(policy, "eu")
        assert drift(golden(agent(mode, once, then)), agent(mode, once, once, then)).kind == "step-added"

    def test_with_another_payment_after_it(self, mode: Mode) -> None:
        """An answer that belongs to another question is not used up by the repetition."""
        one, two = run(pay, {"amount": 1}), run(pay, {"amount": 2})
        error = drift(golden(agent(mode, one, two)), agent(mode, one, one, two))
        assert error.kind == "argument-changed"
        assert "amount: recorded 2, today 1" in str(error)


class Test_5_ToolsReordered:
    def test_two_tools(self, mode: Mode) -> None:
        """Two tools that change places are noticed though both answers are there."""
        one, two = call(lookup, id=1), call(stock, id=1)
        error = drift(golden(agent(mode, one, two)), agent(mode, two, one))
        assert error.kind == "order-changed"
        assert "calls tool stock where the golden run had tool call lookup" in str(error)


class Test_6_ModelAndToolReordered:
    def test_tool_first(self, mode: Mode) -> None:
        """A model call and a tool call that change places are noticed."""
        one, two = model(mode, "hello"), call(lookup, id=1)
        assert drift(golden(agent(mode, one, two)), agent(mode, two, one)).kind == "order-changed"
        assert drift(golden(agent(mode, two, one)), agent(mode, one, two)).kind == "order-changed"


class Test_7_ArgumentsSwapped:
    def test_of_one_tool(self, mode: Mode) -> None:
        """One tool called with the same two arguments in the other order is noticed at the first call."""
        one, two = call(lookup, id=1), call(lookup, id=2)
        error = drift(golden(agent(mode, one, two)), agent(mode, two, one))
        assert error.kind == "order-changed"
        assert error.step == "lookup"
        assert error.candidates[0]["input"] == {"id": 2}


class Test_8_LastStepDropped:
    @pytest.mark.parametrize("last", ["step", "tool", "model", "decision"])
    def test_of_any_kind(self, mode: Mode, last: str) -> None:
        """What the golden run did last, and today's code does not, is left over and reported."""

        async def decided(ctx: Any) -> Any:
            return ctx.decide("coin", lambda: 1)

        moves: dict[str, Move] = {
            "step": run(pay, {"amount": 1}),
            "tool": call(lookup, id=1),
            "model": model(mode, "hello"),
            "decision": decided if mode == "async" else lambda ctx: ctx.decide("coin", lambda: 1),
        }
        log = golden(agent(mode, run(policy, "eu"), moves[last]))
        error = drift(log, agent(mode, run(policy, "eu")))
        assert error.kind == "left-over"
        assert error.expected is not None
        assert error.expected["kind"] == last

    def test_even_all_of_them(self, mode: Mode) -> None:
        """Code that does nothing any more is no replay of a run that did something."""
        assert drift(golden(agent(mode, run(policy, "eu"))), agent(mode)).kind == "left-over"

    def test_where_the_flow_fails_before_it(self, mode: Mode) -> None:
        """Code that raises before its last step does not hide that step's absence."""

        def broken(ctx: Any) -> Any:
            raise RuntimeError("new bug")

        log = golden(agent(mode, run(policy, "eu"), run(pay, {"amount": 1})))
        assert drift(log, agent(mode, run(policy, "eu"), broken)).kind == "left-over"


class Test_9_ToolRenamed:
    def test_with_the_same_arguments(self, mode: Mode) -> None:
        """A renamed tool is noticed, and the message guesses that it was renamed."""
        error = drift(golden(agent(mode, call(lookup, id=1))), agent(mode, call(renamed_lookup, id=1)))
        assert error.kind == "renamed"
        assert "look_up" in str(error)
        assert "Renamed?" in str(error)


class Test_10_PromptEdited:
    def test_by_one_word(self, mode: Mode) -> None:
        """An edited prompt is noticed, with both texts."""
        log = golden(agent(mode, model(mode, "Be kind.")))
        error = drift(log, agent(mode, model(mode, "Be brief.")))
        assert error.kind == "argument-changed"
        assert 'messages[0].content: recorded "Be kind.", today "Be brief."' in str(error)
        assert '"m1.request.messages[0].content"' in str(error)


class Test_11_SameCallThreeTimes:
    def test_gets_its_three_answers(self, mode: Mode) -> None:
        """A call that is repeated with the same argument gets each recorded answer once, in order."""
        numbers = iter(range(1, 100))

        @step
        def poll(job: str) -> int:
            LIVE.append("poll")
            return next(numbers)

        def polling() -> Flow[..., Any]:
            if mode == "sync":

                @flow(id="polling", steps=[poll])
                def sync_polling(ctx: SyncContext) -> list[int]:
                    return [ctx.run(poll, "j") for _ in range(3)]

                return sync_polling

            @flow(id="polling", steps=[poll])
            async def async_polling(ctx: Context) -> list[int]:
                return [await ctx.run(poll, "j") for _ in range(3)]

            return async_polling

        log = golden(polling())
        candidate = same(log, polling())
        assert candidate.state.variables["_output"] == [1, 2, 3]
        assert {key: frame.output for key, frame in candidate.state.frames.items()} == {
            "poll": 1,
            "poll#2": 2,
            "poll#3": 3,
        }


class Declined(Exception):
    """The bank said no."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"declined with {code}: {reason}")
        self.code = code


class Test_12_ExceptionRaisedAgain:
    @pytest.mark.parametrize("raised", [ValueError("no"), KeyError("k"), Declined(51, "funds")], ids=repr)
    def test_and_can_be_caught(self, mode: Mode, raised: Exception) -> None:
        """A recorded exception is raised again as its own type, with its own text, and the flow goes on from there."""

        @step
        def charge() -> int:
            LIVE.append("charge")
            raise raised

        @step
        def fallback(why: str) -> str:
            LIVE.append("fallback")
            return f"instead of {why}"

        if mode == "sync":

            @flow(id="charging", steps=[charge, fallback])
            def charging(ctx: SyncContext) -> str:
                try:
                    return str(ctx.run(charge))
                except type(raised) as problem:
                    return ctx.run(fallback, f"{type(problem).__name__} {problem}")
        else:

            @flow(id="charging", steps=[charge, fallback])
            async def charging(ctx: Context) -> str:
                try:
                    return str(await ctx.run(charge))
                except type(raised) as problem:
                    return await ctx.run(fallback, f"{type(problem).__name__} {problem}")

        log = golden(charging)
        candidate = same(log, charging)
        assert candidate.state.variables["_output"] == f"instead of {type(raised).__name__} {raised}"
        assert diff_runs(log, candidate, compare="all") == []


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str


class Test_13_TypesComeBack:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (tuple[int, str], (1, "a")),
            (set[str], {"b", "a"}),
            (Money, Money(Decimal("1.10"), "EUR")),
            (datetime, datetime(2026, 1, 2, 3, 4, 5, 678901)),
            (date, date(2026, 1, 2)),
            (Decimal, Decimal("0.10")),
            (Colour, Colour.RED),
            (bytes, b"\x00\xff"),
        ],
        ids=lambda part: getattr(part, "__name__", None),
    )
    def test_as_what_they_were(self, mode: Mode, annotation: Any, value: Any) -> None:
        """A step's result is in replay of the type and value that it was while recording."""
        seen: list[Any] = []

        def produce() -> Any:
            LIVE.append("produce")
            return value

        produce.__annotations__["return"] = annotation
        produced: Any = step(produce)
        if mode == "sync":

            @flow(id="producing", steps=[produced])
            def producing(ctx: SyncContext) -> None:
                seen.append(ctx.run(produced))
        else:

            @flow(id="producing", steps=[produced])
            async def producing(ctx: Context) -> None:
                seen.append(await ctx.run(produced))

        same(golden(producing), producing)
        assert seen == [value, value]
        assert type(seen[0]) is type(seen[1]) is type(value)


class Test_14_VolatileArguments:
    def test_made_by_the_context(self, mode: Mode) -> None:
        """Ids, times and numbers that come from the Context are the recorded ones, so they break no match."""

        def request(ctx: Any) -> dict[str, Any]:
            return {"amount": 1, "id": str(ctx.uuid()), "at": ctx.now().isoformat(), "jitter": ctx.random()}

        today = agent(mode, lambda ctx: ctx.run(pay, request(ctx)))
        log = golden(today)
        assert diff_runs(log, same(log, today), compare="all") == []

    def test_that_are_ignored(self, mode: Mode) -> None:
        """An argument that is ignored by its path may differ; any other still may not."""

        def paying(id: str, amount: int) -> Flow[..., Any]:
            return agent(mode, run(pay, {"amount": amount, "id": id}), call(lookup, id=1))

        log = golden(paying("a", 1))
        assert same(log, paying("b", 1), ignore=["pay.input.id"]).state.variables["_output"] == [1, "customer 1"]
        with pytest.raises(ReplayDivergence, match="amount: recorded 1, today 2"):
            replay(log, paying("b", 2), ignore=["pay.input.id"])
        assert LIVE == []


ORDERS = [[0, 1, 2], [2, 1, 0], [1, 2, 0]]


class Ordered:
    """Lets concurrent bodies end in a given order: each waits until those before it are over."""

    def __init__(self, order: list[int]) -> None:
        self.order = order
        self.over = [threading.Event() for _ in order]
        self.lock = threading.Lock()
        self.begun = 0

    def number(self) -> int:
        """How many bodies began before."""
        with self.lock:
            self.begun += 1
            return self.begun - 1

    def end(self, number: int) -> None:
        """Wait for this body's turn to end."""
        place = self.order.index(number)
        if place:
            assert self.over[self.order[place - 1]].wait(20)

    def ended(self, number: int) -> None:
        """The next one may end."""
        self.over[number].set()

    async def aend(self, number: int) -> None:
        """``end`` for async bodies."""
        place = self.order.index(number)
        while place and not self.over[self.order[place - 1]].is_set():
            await asyncio.sleep(0)


async def _gather(jobs: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    return await asyncio.gather(*(job() for job in jobs))


async def _task_group(jobs: list[Callable[[], Any]]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job()) for job in jobs]
    return [task.result() for task in tasks]


async def _create_task(jobs: list[Callable[[], Any]]) -> list[Any]:
    tasks = [asyncio.create_task(job()) for job in jobs]
    return [await task for task in reversed(tasks)][::-1]


async def _as_completed(jobs: list[Callable[[], Any]]) -> list[Any]:
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    for ended in asyncio.as_completed(tasks):
        await ended
    return [task.result() for task in tasks]


def _pool(jobs: list[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(3) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def _threads(jobs: list[Callable[[], Any]]) -> list[Any]:
    found: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda number=number, job=job: found.update({number: job()}))
        for number, job in enumerate(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(jobs))]


def concurrent(spread: Callable[[list[Any]], Any], arguments: list[str], order: list[int]) -> Flow[..., Any]:
    """A flow that asks the same step with these arguments at once; each answer says which branch asked for it."""
    ordered = Ordered(order)

    @step
    async def ask(question: str) -> str:
        LIVE.append("ask")
        number = ordered.number()
        await ordered.aend(number)
        ordered.ended(number)
        return f"{question}, answer {number}"

    @step(id="ask")
    def sync_ask(question: str) -> str:
        LIVE.append("ask")
        number = ordered.number()
        ordered.end(number)
        ordered.ended(number)
        return f"{question}, answer {number}"

    if spread in (_pool, _threads):

        @flow(id="asking", steps=[sync_ask])
        def asking(ctx: SyncContext) -> Any:
            def job(question: str) -> Callable[[], str]:
                return lambda: ctx.run(sync_ask, question)

            return spread([job(question) for question in arguments])

        return asking

    @flow(id="asking", steps=[ask])
    async def async_asking(ctx: Context) -> Any:
        def job(question: str) -> Callable[[], Awaitable[str]]:
            return lambda: ctx.run(ask, question)

        return await spread([job(question) for question in arguments])

    return async_asking


SPREADS = [_gather, _task_group, _create_task, _as_completed, _pool, _threads]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("spread", SPREADS, ids=lambda spread: spread.__name__.strip("_"))
class Test_15_16_ConcurrentCalls:
    @pytest.mark.parametrize("arguments", [["a", "b", "c"], ["a", "a", "a"]], ids=["distinct", "identical"])
    def test_keep_their_branch(self, spread: Any, order: list[int], arguments: list[str]) -> None:
        """Each branch gets its own answer again, whatever order they ended in and whether the questions differ."""
        today = concurrent(spread, arguments, order)
        log = golden(today)
        candidate = same(log, today)
        assert candidate.state.variables["_output"] == log.state.variables["_output"]
        assert diff_runs(log, candidate, compare="all") == []
        told = [sorted((event.branch or "", bytes(event.raw)) for event in run.events) for run in (candidate, log)]
        assert told[0] == told[1]

    def test_that_are_swapped_are_noticed(self, spread: Any, order: list[int]) -> None:
        """Branches that swap their questions are noticed, whatever order they ended in."""
        log = golden(concurrent(spread, ["a", "b", "c"], order))
        error = drift(log, concurrent(spread, ["b", "a", "c"], order))
        assert error.asked is not None
        assert error.asked["input"] in ("a", "b")


def _connect() -> None:
    socket.create_connection(("127.0.0.1", 9), timeout=1).close()


def _resolve() -> None:
    socket.getaddrinfo("localhost", 80)


def _spawn() -> None:
    subprocess.run(["true"], check=False)


class Test_17_LiveCall:
    @pytest.mark.parametrize("way_out", [_connect, _resolve, _spawn], ids=lambda way: way.__name__.strip("_"))
    @pytest.mark.parametrize("caught", [Exception, BaseException, OSError])
    def test_is_reported_though_swallowed(
        self, mode: Mode, way_out: Callable[[], None], caught: type[BaseException]
    ) -> None:
        """A way out that new code takes, and whose error it swallows, fails the replay all the same."""

        def leaving(ctx: Any) -> Any:
            with suppress(caught):
                way_out()
            return ctx.run(pay, {"amount": 1})

        log = golden(agent(mode, run(policy, "eu"), run(pay, {"amount": 1})))
        with pytest.raises(LiveCallError):
            replay(log, agent(mode, run(policy, "eu"), leaving))
        with pytest.raises(LiveCallError):
            replay(log, agent(mode, run(policy, "eu"), leaving), on_divergence="record")
        assert LIVE == []

    def test_of_an_unrecorded_step_never_happens(self, mode: Mode) -> None:
        """A step that is not recorded does not run, and the code cannot hide that it was asked for."""

        def hidden(ctx: Any) -> Any:
            try:
                return ctx.run(extra, "new")
            except BaseException:
                return ctx.run(policy, "other")

        async def ahidden(ctx: Any) -> Any:
            try:
                return await ctx.run(extra, "new")
            except BaseException:
                return await ctx.run(policy, "other")

        log = golden(agent(mode, run(policy, "eu")))
        error = drift(log, agent(mode, run(policy, "eu"), hidden if mode == "sync" else ahidden))
        assert error.kind == "step-added"
        assert error.step == "extra"
