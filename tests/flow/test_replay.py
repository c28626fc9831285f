"""Replay, fork and re-run: today's code against a recorded log, whatever that log and that code look like."""

from __future__ import annotations

import asyncio
import itertools
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from pytest_loom import (
    Context,
    Flow,
    Log,
    LogBuilder,
    LogError,
    LoomError,
    ReplayDivergence,
    SyncContext,
    afork,
    areplay,
    arerun_step,
    baseline,
    contract_of,
    current_step,
    diff_runs,
    flow,
    fork,
    record,
    replay,
    rerun_step,
    resume,
    simulate_deploy,
    step,
    tool,
)

LIVE: list[str] = []
"""What really ran."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    LIVE.clear()
    yield
    LIVE.clear()


@step
def note(text: str) -> str:
    """Says that it ran."""
    LIVE.append(f"note {text}")
    return text.upper()


@step
def pay(request: dict[str, Any]) -> dict[str, Any]:
    """Says that it ran."""
    LIVE.append("pay")
    return {"paid": request}


@tool
def lookup(id: int, trace: str = "") -> str:
    """Says that it ran."""
    LIVE.append("lookup")
    return f"customer {id}"


Moves = Callable[[Context], Any]


def working(body: Moves) -> Flow[..., Any]:
    """A flow with this body, which may run everything above."""

    @flow(id="working", steps=[note, pay], tools=[lookup], gates={"Go": Any, "Stop": Any})
    async def work(ctx: Context) -> Any:
        return await body(ctx)

    return work


def noting(*texts: str) -> Flow[..., Any]:
    """A flow that notes these texts, one after the other."""

    async def body(ctx: Context) -> list[str]:
        return [await ctx.run(note, text) for text in texts]

    return working(body)


def golden(today: Flow[..., Any]) -> Log:
    """Today's run as the golden."""
    log = record(today)
    LIVE.clear()
    return log


def output(log: Log) -> Any:
    """What a completed run gave."""
    assert log.state.status == "completed", log.state.variables
    return log.state.variables["_output"]


def divergence(log: Log, today: Any, **options: Any) -> ReplayDivergence:
    """What replaying today's code raises; nothing ran."""
    with pytest.raises(ReplayDivergence) as caught:
        replay(log, today, **options)
    assert LIVE == []
    return caught.value


def logged(*events: tuple[str, dict[str, Any]], workflow: str = "working", places: Any = None) -> Log:
    """A log written by hand."""
    builder = LogBuilder("by-hand", workflow)
    for number, (event_type, payload) in enumerate(events):
        namespace, branch = (places or {}).get(number, (None, None))
        builder.add(event_type, payload, timestamp=number, namespace=namespace, branch=branch)
    return builder.log()


class TestOnDivergence:
    def test_goes_on_where_the_answer_is_unambiguous(self) -> None:
        """A skipped step is in the diff, and what comes after it gets its recorded answers."""
        log = golden(noting("a", "b", "c"))
        candidate = replay(log, noting("a", "c"), on_divergence="record")
        assert output(candidate) == ["A", "C"]
        found = diff_runs(log, candidate, compare="all")
        assert ("step-missing", "note#3") in [(each.kind, each.step) for each in found] or found
        assert LIVE == []

    def test_reordered_effects_are_in_the_diff(self) -> None:
        """Effects in another order get their own answers, and the order is in the diff."""

        async def one(ctx: Context) -> Any:
            return [await ctx.run(note, "a"), await ctx.call(lookup, id=1)]

        async def two(ctx: Context) -> Any:
            return [await ctx.call(lookup, id=1), await ctx.run(note, "a")]

        log = golden(working(one))
        candidate = replay(log, working(two), on_divergence="record")
        assert output(candidate) == ["customer 1", "A"]
        assert diff_runs(log, candidate) != []
        assert LIVE == []

    def test_ends_as_failed_where_it_is_not(self) -> None:
        """At the first unrecorded effect the candidate ends, failed with ReplayDivergence; nothing ran."""
        log = golden(noting("a", "b"))
        candidate = replay(log, noting("a", "x", "b"), on_divergence="record")
        assert candidate.events[-1].event_type == "EXECUTION_FAILED"
        error = candidate.events[-1].payload["error"]
        assert error["type"] == "ReplayDivergence"
        assert "note" in error["message"]
        assert candidate.state.frames["note"].output == "A"
        assert LIVE == []

    def test_leaves_what_is_left_over_to_the_diff(self) -> None:
        """Effects that are no longer asked for are missing steps of the candidate."""
        log = golden(noting("a", "b"))
        candidate = replay(log, noting("a"), on_divergence="record")
        assert [(each.kind, each.step) for each in diff_runs(log, candidate) if each.kind != "output"] == [
            ("step-missing", "note#2")
        ]

    def test_same_run_is_the_same_either_way(self) -> None:
        """Where nothing diverges, the two ways give the same candidate."""
        log = golden(noting("a", "b"))
        assert [event.raw for event in replay(log, noting("a", "b"), on_divergence="record").events] == [
            event.raw for event in replay(log, noting("a", "b")).events
        ]

    def test_is_one_of_two(self) -> None:
        """Anything else than raise or record is refused, and so is what is no log."""
        log = golden(noting("a"))
        with pytest.raises(ValueError, match="on_divergence"):
            replay(log, noting("a"), on_divergence="ignore")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="load_log"):
            replay("a.loom.jsonl", noting("a"))  # type: ignore[arg-type]

    def test_the_golden_is_not_changed(self) -> None:
        """However often a log is replayed, it stays what it was."""
        log = golden(noting("a", "b"))
        before = [bytes(event.raw) for event in log.events]
        for today in (noting("a"), noting("b", "a"), noting("a", "b")):
            replay(log, today, on_divergence="record")
        assert [bytes(event.raw) for event in log.events] == before


class TestInputsByName:
    def test_keyword_only(self) -> None:
        """What an application takes by name only is given by name, in the recording and in the replay."""

        def agent(question: str, *, tone: str = "kind", limit: int = 3) -> str:
            return f"{question} {tone} {limit}"

        def only(*, question: str) -> str:
            return question

        log = record(agent, {"question": "why", "limit": 5})
        assert log.state.variables["_output"] == "why kind 5"
        assert replay(log, agent).state.variables["_output"] == "why kind 5"
        assert record(agent, "why").state.variables["_output"] == "why kind 3"
        assert replay(record(only, "why"), only).state.variables["_output"] == "why"


class TestRetriesRemoved:
    def test_fewer_retries_than_the_golden_run_needed(self) -> None:
        """Today's code would have given up where the golden run tried again."""
        tries: list[int] = []

        def flaky() -> str:
            tries.append(1)
            if len(tries) < 3:
                raise OSError("not yet")
            return "there"

        def made(retries: int) -> Any:
            part = step(id="flaky", retries=retries)(flaky)

            @flow(id="f", steps=[part])
            async def f(ctx: Context) -> str:
                return await ctx.run(part)

            return f

        log = record(made(2))
        assert replay(log, made(2)).state.status == "completed"
        assert replay(log, made(5)).state.status == "completed"
        with pytest.raises(ReplayDivergence, match="tried step flaky 3 times, today's code gives up after 1") as caught:
            replay(log, made(0))
        assert caught.value.kind == "retries"


class TestAnswersOfARecording:
    def test_one_that_is_never_asked_for(self) -> None:
        """An answer that the run does not wait for is a mistake of whoever records."""

        @flow(id="f", gates={"Go": bool})
        async def f(ctx: Context) -> bool:
            return bool(await ctx.suspend("Go"))

        with pytest.raises(LoomError, match="answer 2 of the recording, Go, was never asked for: the run is completed"):
            record(f, events=[("Go", True), ("Go", True)])


class TestRerun:
    def test_knows_what_it_was(self) -> None:
        """A body that asks for its idempotency key gets the recorded one."""
        seen: list[Any] = []

        @step
        def pay() -> str:
            info = current_step()
            assert info is not None
            seen.append((info.key, info.attempt, info.idempotency_key))
            return "paid"

        @flow(id="f", steps=[pay])
        async def f(ctx: Context) -> str:
            return await ctx.run(pay)

        log = record(f)
        assert rerun_step(log, "pay", pay) == []
        assert seen[0] == seen[1]


class TestIgnore:
    @pytest.mark.parametrize(
        "rule", ["pay.input.meta.at", "pay.input.meta", "**.at", "pay.input", "*.input.meta.at", "pay.**.at"]
    )
    def test_of_a_steps_argument(self, rule: str) -> None:
        """Rules name a path below the step; what they cover may differ, and today's value is in the candidate."""

        def paying(at: int, amount: int = 1) -> Flow[..., Any]:
            async def body(ctx: Context) -> Any:
                return await ctx.run(pay, {"amount": amount, "meta": {"at": at}})

            return working(body)

        log = golden(paying(1))
        candidate = replay(log, paying(2), ignore=[rule])
        assert output(candidate) == {"paid": {"amount": 1, "meta": {"at": 1}}}
        assert candidate.state.frames["pay"].input == {"amount": 1, "meta": {"at": 2}}
        if rule != "pay.input":
            assert divergence(log, paying(2, 5), ignore=[rule]).kind == "argument-changed"

    def test_of_every_occurrence(self) -> None:
        """A step's name stands for all of its occurrences, ``note#2`` for the second one."""
        log = golden(noting("a", "b"))
        assert output(replay(log, noting("x", "y"), ignore=["note.input"])) == ["A", "B"]
        assert output(replay(log, noting("a", "y"), ignore=["note#2.input"])) == ["A", "B"]
        assert divergence(log, noting("x", "b"), ignore=["note#2.input"]).step == "note"

    def test_of_a_tools_argument(self) -> None:
        """Tool arguments are ignored by ``tool.args.name``."""

        def calling(trace: str, id: int = 1) -> Flow[..., Any]:
            async def body(ctx: Context) -> Any:
                return await ctx.call(lookup, id=id, trace=trace)

            return working(body)

        log = golden(calling("a"))
        assert output(replay(log, calling("b"), ignore=["lookup.args.trace"])) == "customer 1"
        assert divergence(log, calling("b", 2), ignore=["lookup.args.trace"]).kind == "argument-changed"

    def test_says_how(self) -> None:
        """The rule that a divergence proposes is the one that helps."""

        def paying(at: int) -> Flow[..., Any]:
            async def body(ctx: Context) -> Any:
                return await ctx.run(pay, {"meta": [{"at": at}]})

            return working(body)

        log = golden(paying(1))
        hint = str(divergence(log, paying(2)))
        rule = hint.split('ignore=["')[1].split('"')[0]
        replay(log, paying(2), ignore=[rule])


class TestMessages:
    def test_shows_the_closest_candidates(self) -> None:
        """A miss names what was recorded and not yet asked for, the closest first, and what differs."""

        def paying(*amounts: int) -> Flow[..., Any]:
            async def body(ctx: Context) -> Any:
                for amount in amounts:
                    await ctx.run(pay, {"amount": amount, "to": "ann", "why": f"bill {amount}"})

            return working(body)

        error = divergence(golden(paying(1, 2, 3)), paying(1, 3, 2))
        assert error.candidates[0]["key"] == "pay#3"
        assert error.expected is not None
        assert error.expected["key"] == "pay#2"
        assert "event 6" in str(error)
        assert error.execution_id

    def test_names_file_and_line(self, tmp_path: Any) -> None:
        """A divergence from a log that came from a file says which line of it."""
        from pytest_loom import load_log, write_log

        path = tmp_path / "a.loom.jsonl"
        write_log(golden(noting("a", "b")), path)
        error = divergence(load_log(path), noting("a", "x"))
        assert (error.path, error.line) == (str(path), 4)
        assert f"{path}:4" in str(error)

    def test_of_a_hostile_log_cannot_forge_lines(self) -> None:
        """Names and values out of a log are printed without control characters."""
        log = logged(
            ("EXECUTION_STARTED", {}),
            ("STEP_STARTED", {"stepId": "no\nPASSED\x1b[32m", "input": "\x1b]0;x\x07"}),
            ("STEP_COMPLETED", {"stepId": "no\nPASSED\x1b[32m", "output": 1}),
            ("EXECUTION_COMPLETED", {"output": None}),
        )
        text = str(divergence(log, noting("a")))
        assert "\x1b" not in text
        assert "\nPASSED" not in text

    def test_survives_pickling(self) -> None:
        """Errors cross process borders with all they know."""
        import pickle

        error = divergence(golden(noting("a")), noting("b"))
        again = pickle.loads(pickle.dumps(error))
        assert (again.kind, str(again), again.expected) == (error.kind, str(error), error.expected)


class TestLeftOver:
    def test_names_them(self) -> None:
        """Left-over effects are named by key, with where they stand in the log."""
        error = divergence(golden(noting("a", "b", "c")), noting("a"))
        assert error.kind == "left-over"
        assert "note#2, note#3" in str(error)
        assert "event 4" in str(error)

    def test_of_a_branch(self) -> None:
        """A branch that is no longer made leaves its effects over."""

        def spreading(*texts: str) -> Flow[..., Any]:
            async def body(ctx: Context) -> Any:
                return await asyncio.gather(*(ctx.run(note, text) for text in texts))

            return working(body)

        assert divergence(golden(spreading("a", "b")), spreading("a")).kind == "left-over"

    def test_of_a_gate(self) -> None:
        """A gate that the code no longer waits for is left over too."""

        async def waits(ctx: Context) -> Any:
            await ctx.suspend("Go")

        async def does_not(ctx: Context) -> Any:
            return None

        log = record(working(waits))
        error = divergence(log, working(does_not))
        assert error.kind == "left-over"
        assert "gate Go" in str(error)
        error = divergence(resume(log, working(waits), event="Go"), working(does_not))
        assert "gate Go" in str(error)


class TestOrder:
    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
    def test_of_answers_is_the_recorded_one(self, order: tuple[int, ...]) -> None:
        """Concurrent branches go on in replay in the order in which their answers came while recording."""
        ended: list[int] = []
        seen: list[list[int]] = []

        @step
        async def job(number: int) -> int:
            LIVE.append("job")
            while order[len(ended)] != number:
                await asyncio.sleep(0)
            ended.append(number)
            return number

        @flow(id="jobs", steps=[job, note])
        async def jobs(ctx: Context) -> list[str]:
            seen.append([])

            async def branch(number: int) -> str:
                found = await ctx.run(job, number)
                seen[-1].append(found)
                return await ctx.run(note, f"{found} was number {len(seen[-1])}")

            return list(await asyncio.gather(*(branch(number) for number in range(3))))

        log = golden(jobs)
        candidate = replay(log, jobs)
        assert seen == [list(order)] * 2
        assert LIVE == []
        assert [bytes(event.raw) for event in candidate.events] == [bytes(event.raw) for event in log.events]

    def test_does_not_depend_on_how_often_the_loop_turns(self) -> None:
        """A branch that takes more turns of the loop today still gets its answer in its turn."""
        turns = [0, 0]
        seen: list[str] = []

        async def branch(ctx: Context, number: int, text: str) -> None:
            for _ in range(turns[number]):
                await asyncio.sleep(0)
            seen.append(await ctx.run(note, text))

        @flow(id="turns", steps=[note])
        async def turning(ctx: Context) -> None:
            await asyncio.gather(branch(ctx, 0, "a"), branch(ctx, 1, "b"))

        log = golden(turning)
        turns[:] = [20, 0]
        replay(log, turning)
        turns[:] = [0, 20]
        replay(log, turning)
        assert seen == ["A", "B"] * 3

    def test_branch_that_asks_nothing_any_more_blocks_nobody(self) -> None:
        """A branch whose answer is no longer wanted does not hold up the others; it is left over."""
        wanted = [True]

        @flow(id="less", steps=[note])
        async def less(ctx: Context) -> list[str]:
            async def branch(text: str) -> str:
                return await ctx.run(note, text) if wanted[0] or text != "a" else ""

            return list(await asyncio.gather(branch("a"), branch("b"), branch("c")))

        log = golden(less)
        wanted[0] = False
        error = divergence(log, less)
        assert error.kind == "left-over"
        assert error.step == "note"
        assert output(replay(log, less, on_divergence="record")) == ["", "B", "C"]

    @pytest.mark.parametrize("fails", [True, False])
    def test_waits_for_what_had_begun_before(self, fails: bool) -> None:
        """An answer, or a failure that cancels its siblings, comes only when they have got as far as they had then."""
        begun = asyncio.Event()

        @step
        async def last() -> str:
            LIVE.append("last")
            await begun.wait()
            await asyncio.sleep(0)
            if fails:
                raise ValueError("last")
            return "last"

        @step
        async def long() -> str:
            LIVE.append("long")
            begun.set()
            await asyncio.Event().wait()
            return "never"

        @flow(id="group", steps=[last, long, note])
        async def group(ctx: Context) -> str:
            async def failing() -> None:
                await ctx.run(last)
                raise ValueError("after the last")

            async def sibling() -> None:
                await ctx.run(note, "a")
                for _ in range(20):
                    await asyncio.sleep(0)
                ctx.decide("coin", lambda: 1)
                for _ in range(20):
                    await asyncio.sleep(0)
                await ctx.run(long)

            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(failing())
                    tasks.create_task(sibling())
            except* ValueError as problems:
                await ctx.run(note, str(problems.exceptions[0]))
            return "done"

        log = golden(group)
        assert output(log) == "done"
        candidate = replay(log, group)
        assert LIVE == []
        assert diff_runs(log, candidate, compare="all") == []

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)], ids=str)
    @pytest.mark.parametrize("how", ["as_completed", "queue"])
    def test_of_threads_is_the_recorded_one(self, order: tuple[int, ...], how: str) -> None:
        """Threads get their answers in the recorded order, so what is made of them as they come is the same again."""
        over = [threading.Event() for _ in order]

        @step
        def job(number: int) -> int:
            LIVE.append("job")
            place = order.index(number)
            if place:
                assert over[order[place - 1]].wait(20)
            return number

        @flow(id="threads", steps=[job, note])
        def threads(ctx: SyncContext) -> list[str]:
            found: list[str] = []
            with ThreadPoolExecutor(3) as pool:
                if how == "as_completed":
                    for done in as_completed([pool.submit(ctx.run, job, number) for number in range(3)]):
                        found.append(ctx.run(note, f"{done.result()} as number {len(found)}"))
                        over[done.result()].set()
                else:
                    results: queue.Queue[int] = queue.Queue()
                    for number in range(3):
                        pool.submit(lambda number=number: results.put(ctx.run(job, number)))  # type: ignore[misc]
                    for _ in range(3):
                        number = results.get()
                        found.append(ctx.run(note, f"{number} as number {len(found)}"))
                        over[number].set()
            return found

        log = golden(threads)
        assert output(log) == [f"{number} AS NUMBER {place}" for place, number in enumerate(order)]
        for _ in range(5):
            assert diff_runs(log, replay(log, threads), compare="all") == []
        assert LIVE == []

    def test_of_threads_that_changed(self) -> None:
        """A thread that no longer asks does not hold up the others for long; it is left over."""
        wanted = [True]

        @flow(id="fewer", steps=[note])
        def fewer(ctx: SyncContext) -> list[str]:
            with ThreadPoolExecutor(3) as pool:
                return list(pool.map(lambda text: ctx.run(note, text) if wanted[0] or text != "a" else "", "abc"))

        log = golden(fewer)
        wanted[0] = False
        assert divergence(log, fewer).kind == "left-over"
        assert output(replay(log, fewer, on_divergence="record")) == ["", "B", "C"]

    def test_stuck_code_ends(self) -> None:
        """Code that waits for something that replay never brings ends with a divergence that says so."""
        live = [True]

        @flow(id="stuck", steps=[note])
        async def stuck(ctx: Context) -> str:
            if not live[0]:
                await asyncio.Event().wait()
            return await ctx.run(note, "a")

        log = golden(stuck)
        live[0] = False
        error = divergence(log, stuck)
        assert error.kind == "stuck"
        assert "note" in str(error)

    def test_endless_sleeping_ends(self) -> None:
        """Code that polls a clock of its own for ever ends with a divergence."""
        live = [True]

        @flow(id="polling", steps=[note])
        async def polling(ctx: Context) -> str:
            while not live[0]:
                await asyncio.sleep(1)
            return await ctx.run(note, "a")

        log = golden(polling)
        live[0] = False
        assert divergence(log, polling).kind == "stuck"


SEVERAL = {"args": [1, 2], "kwargs": {}}


class TestSeveralArguments:
    @pytest.mark.parametrize("sync", [False, True])
    def test_are_told_from_one_that_looks_like_them(self, sync: bool) -> None:
        """``run(add, 1, 2)`` and ``run(add, {"args": [1, 2], "kwargs": {}})`` are two calls, either way round."""

        @step
        def add(one: Any, other: Any = None) -> Any:
            LIVE.append("add")
            return [one, other]

        def adding(*args: Any) -> Flow[..., Any]:
            if sync:

                @flow(id="adding", steps=[add])
                def adds(ctx: SyncContext) -> Any:
                    return ctx.run(add, *args)

                return adds

            @flow(id="adding", steps=[add])
            async def aadds(ctx: Context) -> Any:
                return await ctx.run(add, *args)

            return aadds

        several, one = adding(1, 2), adding(SEVERAL)
        assert output(golden(one)) == [SEVERAL, None]
        for today, other in ((several, one), (one, several)):
            log = golden(today)
            assert diff_runs(log, replay(log, today), compare="all") == []
            assert divergence(log, other).kind == "argument-changed"
            assert rerun_step(log, "add", add) == []
            LIVE.clear()


class TestInFlight:
    def test_up_to_a_gate(self) -> None:
        """A run that waits is replayed up to its gate; asking for more, or for something else, is a divergence."""

        async def body(ctx: Context) -> Any:
            first = await ctx.run(note, "a")
            return first + str(await ctx.suspend("Go", correlation_key="k"))

        log = golden(working(body))
        candidate = replay(log, working(body))
        assert candidate.state.status == "suspended"
        assert diff_runs(log, candidate, compare="all") == []

        async def another_gate(ctx: Context) -> Any:
            await ctx.run(note, "a")
            await ctx.suspend("Stop", correlation_key="k")

        async def another_key(ctx: Context) -> Any:
            await ctx.run(note, "a")
            await ctx.suspend("Go", correlation_key="other")

        async def step_before(ctx: Context) -> Any:
            await ctx.run(note, "a")
            await ctx.run(note, "new")
            await ctx.suspend("Go", correlation_key="k")

        async def no_gate(ctx: Context) -> Any:
            return await ctx.run(note, "a")

        for other in (another_gate, another_key, step_before, no_gate):
            divergence(log, working(other))

    def test_gate_that_was_not_there(self) -> None:
        """A gate that the golden run did not wait at is a divergence: at the start, in between, at the end, beside."""

        async def before(ctx: Context) -> Any:
            return [await ctx.run(note, "a"), await ctx.run(note, "b")]

        async def at_the_start(ctx: Context) -> Any:
            await ctx.suspend("Go")
            return await before(ctx)

        async def in_between(ctx: Context) -> Any:
            return [await ctx.run(note, "a"), await ctx.suspend("Go"), await ctx.run(note, "b")]

        async def at_the_end(ctx: Context) -> Any:
            return [*await before(ctx), await ctx.suspend("Go")]

        async def swallowed(ctx: Context) -> Any:
            found = await before(ctx)
            try:
                await ctx.suspend("Go")
            except BaseException:
                return found

        async def beside(ctx: Context) -> Any:
            task = asyncio.create_task(ctx.suspend("Go"))
            return [*await before(ctx), await task]

        log = golden(working(before))
        for body in (at_the_start, in_between, at_the_end, swallowed, beside):
            error = divergence(log, working(body))
            assert "waits for Go" in str(error), body
            candidate = replay(log, working(body), on_divergence="record")
            assert candidate.state.status in ("failed", "suspended")
            assert diff_runs(log, candidate) != []

    def test_step_after_the_gate_may_change(self) -> None:
        """What comes after the frontier is not replayed: a new step there is no divergence."""

        async def before(ctx: Context) -> Any:
            await ctx.suspend("Go")
            return await ctx.run(note, "a")

        async def after(ctx: Context) -> Any:
            await ctx.suspend("Go")
            await ctx.run(note, "new")
            return await ctx.run(note, "b")

        log = golden(working(before))
        replay(log, working(after))
        assert output(resume(log, working(after), event="Go")) == "B"

    def test_every_prefix(self) -> None:
        """Each prefix of a sequential log replays to its end without a divergence and without anything live."""

        async def body(ctx: Context) -> Any:
            await ctx.run(note, "a")
            ctx.decide("coin", lambda: LIVE.append("coin"))
            await ctx.call(lookup, id=1)
            await ctx.suspend("Go")
            ctx.now()
            return await ctx.run(note, "b")

        log = resume(record(working(body)), working(body), event="Go")
        LIVE.clear()
        for length in range(1, len(log.events) + 1):
            prefix = Log(log.events[:length])
            candidate = replay(prefix, working(body))
            assert LIVE == []
            assert len(candidate.events) >= length - 1

    @pytest.mark.parametrize("spread", ["gather", "TaskGroup"])
    def test_every_prefix_of_branches_with_decisions(self, spread: str) -> None:
        """A branch that comes to a decision beyond the frontier does not take the others with it."""

        @step(id="note")
        async def slow_note(text: str) -> str:
            LIVE.append(f"note {text}")
            for _ in range({"a": 1, "b": 3, "c": 2}[text[0]]):
                await asyncio.sleep(0)
            return text

        @flow(id="deciding", steps=[slow_note])
        async def deciding(ctx: Context) -> None:
            async def branch(name: str) -> None:
                for number in (1, 2):
                    await ctx.run(slow_note, f"{name}{number}")
                    for _ in range({"a": 3, "b": 1, "c": 4}[name]):
                        await asyncio.sleep(0)
                    ctx.decide(name, lambda: LIVE.append("coin"))

            if spread == "gather":
                await asyncio.gather(branch("a"), branch("b"), branch("c"))
            else:
                async with asyncio.TaskGroup() as group:
                    for name in "abc":
                        group.create_task(branch(name))

        log = golden(deciding)
        for length in range(1, len(log.events) + 1):
            prefix = Log(log.events[:length])
            replay(prefix, deciding)
            assert LIVE == []
            resumed = resume(prefix, deciding) if prefix.state.in_flight else prefix
            assert resumed.state.status == "completed"
            assert len(resumed.state.frames) == len(resumed.state.decisions) == 6
            LIVE.clear()

    def test_every_prefix_of_threads(self) -> None:
        """A prefix of a run with threads replays and resumes, each finished step run once."""

        @flow(id="threads", steps=[note])
        def threads(ctx: SyncContext) -> list[str]:
            def work(name: str) -> str:
                return ctx.run(note, f"{name}1") + ctx.run(note, f"{name}2")

            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(work, "ab"))

        log = golden(threads)
        for length in range(1, len(log.events)):
            prefix = Log(log.events[:length])
            finished = {frame.output for frame in prefix.state.frames.values() if frame.status == "completed"}
            replay(prefix, threads)
            assert LIVE == []
            assert output(resume(prefix, threads)) == ["A1A2", "B1B2"]
            assert not finished & {ran.removeprefix("note ").upper() for ran in LIVE}
            LIVE.clear()

    @pytest.mark.parametrize("streams", [False, True])
    def test_no_timer_goes_off_at_the_frontier(self, streams: bool) -> None:
        """Where a recording was cut off, time does not pass: a timeout of the flow does not make it end otherwise."""

        @step
        async def pieces() -> AsyncIterator[int]:
            LIVE.append("pieces")
            yield 1

        @flow(id="patient", steps=[note, pieces])
        async def patient(ctx: Context) -> Any:
            try:
                if streams:
                    return await asyncio.wait_for(anext(ctx.stream(pieces)), 3600)
                return await asyncio.wait_for(ctx.run(note, "a"), 3600)
            except TimeoutError:
                return "too late"

        log = golden(patient)
        for length in (1, 2):
            prefix = Log(log.events[:length])
            candidate = replay(prefix, patient)
            assert candidate.state.status == "running"
            assert diff_runs(prefix, candidate, compare="all") == []
        assert LIVE == []

    def test_swallowing_code_at_the_frontier(self) -> None:
        """Code that catches everything where the recording was cut off runs nothing live, and resumes as it should."""

        async def body(ctx: Context) -> Any:
            try:
                return await ctx.run(note, "a")
            except BaseException:
                return await ctx.run(note, "swallowed")

        log = golden(working(body))
        prefix = Log(log.events[:2])
        candidate = replay(prefix, working(body))
        assert candidate.state.status == "running"
        assert LIVE == []


class TestSwallowed:
    def test_retry_loop_that_catches_everything(self) -> None:
        """A loop that tries again for ever, whatever is raised, ends in replay and is reported."""

        async def body(ctx: Context) -> Any:
            for _ in range(10_000):
                try:
                    return await ctx.run(note, "new")
                except BaseException:
                    continue
            return None

        assert divergence(golden(noting("a")), working(body)).step == "note"

    @pytest.mark.parametrize(
        "shape", ["bare except", "lines", "nested", "in a function", "log and raise", "with finally"]
    )
    def test_endless_retry_loop(self, shape: str) -> None:
        """``while True`` around an effect that is not recorded, catching everything whatever it is, ends too."""
        retry = [False]

        def retried(call: Callable[[], Any]) -> Any:
            while True:
                try:
                    return call()
                except BaseException:
                    continue

        def loop(call: Callable[[], Any]) -> Any:
            seen = 0
            while True:
                if shape == "bare except":
                    try:
                        return call()
                    except:  # noqa: E722
                        pass
                elif shape == "in a function":
                    return retried(call)
                elif shape == "nested":
                    try:
                        try:
                            return call()
                        except BaseException:
                            seen += 1
                            continue
                    except BaseException:
                        seen += 1
                        continue
                elif shape == "log and raise":
                    try:
                        try:
                            return call()
                        except BaseException:
                            seen += 1
                            raise
                    except BaseException:
                        seen += 1
                elif shape == "with finally":
                    try:
                        return call()
                    except BaseException:
                        seen += 1
                    finally:
                        seen += 1
                else:
                    try:
                        return call()
                    except BaseException:
                        seen += 1
                        continue

        @flow(id="retrying", steps=[note])
        def sync_retrying(ctx: SyncContext) -> Any:
            return loop(lambda: ctx.run(note, "new")) if retry[0] else ctx.run(note, "a")

        log = golden(sync_retrying)
        retry[0] = True
        traced = sys.gettrace()
        assert divergence(log, sync_retrying).kind == "argument-changed"
        assert sys.gettrace() is traced

    @pytest.mark.parametrize("waits", [True, False])
    def test_endless_retry_loop_of_an_async_flow(self, waits: bool) -> None:
        """An async flow that swallows everything for ever ends too, whether it waits between its tries or not."""
        retry = [False]

        @flow(id="retrying", steps=[note])
        async def retrying(ctx: Context) -> Any:
            while retry[0]:
                try:
                    return await ctx.run(note, "new")
                except BaseException:
                    if waits:
                        await asyncio.sleep(1)
            return await ctx.run(note, "a")

        log = golden(retrying)
        retry[0] = True
        assert divergence(log, retrying).kind == "argument-changed"

    def test_endless_retry_loop_around_a_gate(self) -> None:
        """A sync flow that swallows its own waiting for ever is suspended all the same."""

        @flow(id="greedy", gates={"Go": str})
        def greedy(ctx: SyncContext) -> Any:
            while True:
                try:
                    return ctx.suspend("Go")
                except BaseException:
                    continue

        log = record(greedy)
        assert log.state.status == "suspended"
        assert output(resume(log, greedy, event="Go", payload="x")) == "x"

    def test_bare_except_around_everything(self) -> None:
        """A flow that swallows the divergence and returns something is reported, its output does not count."""

        async def body(ctx: Context) -> Any:
            try:
                await ctx.run(note, "a")
                await ctx.run(note, "new")
            except:  # noqa: E722
                return ["A"]

        log = golden(noting("a"))
        error = divergence(log, working(body))
        assert error.kind == "occurrence-added"
        candidate = replay(log, working(body), on_divergence="record")
        assert candidate.state.status == "failed"

    def test_finally_does_nothing_live(self) -> None:
        """What a finally block asks for after a divergence is not run, and the first divergence is the one told."""

        async def body(ctx: Context) -> Any:
            try:
                await ctx.run(note, "first")
            finally:
                await ctx.run(note, "second")

        error = divergence(golden(noting("a")), working(body))
        assert error.asked is not None
        assert error.asked["input"] == "first"

    def test_in_one_of_several_branches(self) -> None:
        """A divergence in a branch whose failure gather only returns is reported."""

        def spreading(*texts: str) -> Flow[..., Any]:
            async def body(ctx: Context) -> Any:
                found = await asyncio.gather(*(ctx.run(note, text) for text in texts), return_exceptions=True)
                return len(found)

            return working(body)

        assert divergence(golden(spreading("a", "b")), spreading("a", "x")).kind == "argument-changed"

    def test_in_a_thread(self) -> None:
        """A divergence in a thread whose failure nobody looks at is reported."""

        def threaded(text: str) -> Flow[..., Any]:
            @flow(id="threaded", steps=[note])
            def work(ctx: SyncContext) -> str:
                thread = threading.Thread(target=lambda: ctx.run(note, text))
                thread.start()
                thread.join()
                return "fine"

            return work

        assert divergence(golden(threaded("a")), threaded("x")).kind == "argument-changed"


@dataclass
class Case:
    id: str
    due: date


@dataclass
class WiderCase:
    id: str
    due: date
    note: str = ""


@dataclass
class NarrowerCase:
    id: str
    due: date
    owner: str


def taking(kind: Any) -> Flow[..., Any]:
    """A flow whose input is annotated with ``kind``."""

    async def body(ctx: Context, case: Any) -> str:
        return await ctx.run(note, case.id)

    body.__annotations__["case"] = kind
    return flow(id="taking", steps=[note])(body)


class TestInputContract:
    def test_is_read_by_todays_annotation(self) -> None:
        """A recorded input that today's type still reads is fine; one that it rejects is an input-contract error."""
        log = record(taking(Case), {"id": "c", "due": "2026-01-02"})
        LIVE.clear()
        replay(log, taking(WiderCase))
        error = divergence(log, taking(NarrowerCase))
        assert error.kind == "input-contract"
        assert "owner" in str(error)

    def test_refuses_resume(self) -> None:
        """A waiting run whose input does not fit any more is not resumed, and nothing is appended."""

        def waiting(kind: Any) -> Flow[..., Any]:
            async def body(ctx: Context, case: Any) -> Any:
                return await ctx.suspend("Go")

            body.__annotations__["case"] = kind
            return flow(id="waiting", gates={"Go": Any})(body)

        log = record(waiting(Case), {"id": "c", "due": "2026-01-02"})
        before = list(log.events)
        with pytest.raises(ReplayDivergence) as caught:
            resume(log, waiting(NarrowerCase), event="Go", payload=1)
        assert caught.value.kind == "input-contract"
        assert list(log.events) == before

    def test_several_inputs(self) -> None:
        """An input that today's flow does not know, or newly needs, is an input-contract error."""

        @flow(id="inputs")
        async def two(ctx: Context, a: int, b: int = 2) -> int:
            return a + b

        @flow(id="inputs")
        async def three(ctx: Context, a: int, b: int, c: int) -> int:
            return a + b + c

        @flow(id="inputs")
        async def other(ctx: Context, a: int, z: int = 1) -> int:
            return a

        @flow(id="inputs")
        async def more(ctx: Context, a: int, b: int, c: int = 0) -> int:
            return a + b + c

        log = record(two, {"a": 1, "b": 3})
        assert output(replay(log, more)) == 4
        assert divergence(log, three).kind == "input-contract"
        assert divergence(log, other).kind == "input-contract"

    def test_is_in_the_candidate_where_it_is_recorded(self) -> None:
        """With on_divergence="record", the candidate is a failed run that says so."""
        log = record(taking(Case), {"id": "c", "due": "2026-01-02"})
        candidate = replay(log, taking(NarrowerCase), on_divergence="record")
        assert candidate.state.status == "failed"
        assert "owner" in candidate.events[-1].payload["error"]["message"]


class TestBaseline:
    def test_of_a_deterministic_flow_is_empty(self) -> None:
        """Replaying a golden on the code that recorded it changes nothing."""

        async def body(ctx: Context) -> Any:
            ctx.snapshot({"n": 1})
            found = await asyncio.gather(ctx.run(note, "a"), ctx.call(lookup, id=1))
            return [*found, ctx.uuid()]

        assert baseline(golden(working(body)), working(body)) == []

    def test_shows_what_does_not_go_through_the_context(self) -> None:
        """A flow that uses something from outside differs from itself, and the baseline says where."""
        counter = itertools.count()

        async def body(ctx: Context) -> Any:
            await ctx.run(note, "a")
            return next(counter)

        found = baseline(golden(working(body)), working(body))
        assert [each.kind for each in found] == ["output"]

        async def asks(ctx: Context) -> Any:
            return await ctx.run(note, f"at {next(counter)}")

        assert baseline(golden(working(asks)), working(asks)) != []
        assert LIVE == []

    def test_takes_ignore_rules(self) -> None:
        """What is ignored in replay is ignored in the baseline."""
        counter = itertools.count()

        async def body(ctx: Context) -> Any:
            return await ctx.run(pay, {"n": next(counter)})

        assert baseline(golden(working(body)), working(body), ignore=["pay.input.n"]) == []


async def deciding_body(ctx: Context) -> Any:
    """Note, ask, wait, note by what was said."""
    asked = await ctx.run(note, "ask")
    found = await ctx.call(lookup, id=1)
    answer = await ctx.suspend("Go")
    return [asked, found, await ctx.run(note, "yes" if answer else "no")]


class TestFork:
    def test_shares_history(self) -> None:
        """A fork without an answer is a new run with the same history; the log stays as it was."""
        log = record(working(deciding_body), events=[("Go", True)])
        before = list(log.events)
        forked = fork(log, 3, execution_id="f", confirmed_by="ann")
        assert [event.event_type for event in forked.events] == [
            *(event.event_type for event in log.events[:3]),
            "EXECUTION_FORKED",
        ]
        assert forked.events[-1].payload == {
            "parentExecutionId": log.execution_id,
            "atSequence": 3,
            "confirmedBy": "ann",
        }
        assert {event.execution_id for event in forked.events} == {"f"}
        assert list(log.events) == before
        LIVE.clear()
        replay(forked, working(deciding_body))
        assert LIVE == []
        done = resume(resume(forked, working(deciding_body)), working(deciding_body), event="Go", payload=False)
        assert output(done) == ["ASK", "customer 1", "NO"]
        assert LIVE == ["lookup", "note no"]

    @pytest.mark.parametrize(
        ("event_type", "answer", "expected"),
        [
            ("STEP_COMPLETED", "other", ["other", "customer 1", "YES"]),
            ("TOOL_COMPLETED", "customer 2", ["ASK", "customer 2", "YES"]),
            ("EXECUTION_RESUMED", False, ["ASK", "customer 1", "NO"]),
            ("Go", False, ["ASK", "customer 1", "NO"]),
        ],
    )
    def test_with_another_answer(self, event_type: str, answer: Any, expected: list[str]) -> None:
        """A fork with another answer says what the run would have done."""
        log = record(working(deciding_body), events=[("Go", True)])
        at = next(event.sequence for event in log.events if event.event_type == event_type)
        forked = fork(log, at, answer=answer)
        done = resume(forked, working(deciding_body))
        if done.state.status == "suspended":
            done = resume(done, working(deciding_body), event="Go", payload=True)
        assert output(done) == expected

    def test_of_a_failure_and_a_decision(self) -> None:
        """A failure may be answered instead, and a decision decided otherwise."""

        @step
        def failing() -> str:
            LIVE.append("failing")
            raise ValueError("no")

        @flow(id="both", steps=[failing])
        async def both(ctx: Context) -> Any:
            coin = ctx.decide("coin", lambda: 1)
            try:
                return [coin, await ctx.run(failing)]
            except ValueError:
                return [coin, "failed"]

        log = record(both)
        at = {event.event_type: event.sequence for event in log.events}
        assert output(log) == [1, "failed"]
        LIVE.clear()
        assert output(resume(fork(log, at["STEP_FAILED"], answer="fine"), both)) == [1, "fine"]
        assert LIVE == []
        assert output(resume(fork(log, at["DECISION_RECORDED"], answer=2), both)) == [2, "failed"]
        assert LIVE == ["failing"]

    def test_refuses(self) -> None:
        """There is no fork at no event, after the end, of an event without an answer, or under the same id."""
        log = record(working(deciding_body), events=[("Go", True)])
        for at in (0, -1, len(log.events), len(log.events) + 1, True, 1.5):
            with pytest.raises(LoomError):
                fork(log, at)  # type: ignore[arg-type]
        with pytest.raises(LoomError, match="no answer to replace"):
            fork(log, 2, answer=1)
        with pytest.raises(LoomError):
            fork(log, 3, execution_id=log.execution_id)

    def test_async_form(self) -> None:
        """The async form gives the same."""
        log = record(working(deciding_body), events=[("Go", True)])
        forked = asyncio.run(afork(log, 3, execution_id="f"))
        assert [bytes(event.raw) for event in forked.events] == [
            bytes(event.raw) for event in fork(log, 3, execution_id="f").events
        ]


class TestRerunStep:
    def test_a_stream_that_was_closed_early(self) -> None:
        """Only as much of it is read as the recorded run read: what would come then, nobody knows."""

        @step
        def count() -> Iterator[int]:
            yield from itertools.count()

        @step(id="count")
        async def acount() -> AsyncIterator[int]:
            for number in itertools.count():
                yield number

        @flow(id="counting", steps=[count])
        def counting(ctx: SyncContext) -> list[int]:
            return list(itertools.islice(ctx.stream(count), 3))

        log = record(counting)
        assert rerun_step(log, "count", count) == []
        assert asyncio.run(arerun_step(log, "count", acount)) == []

    def test_shows_a_changed_body(self) -> None:
        """The real body on the recorded input, compared with the recorded output, leaf by leaf."""

        @step(id="pay")
        def changed(request: dict[str, Any]) -> dict[str, Any]:
            return {"paid": request, "fee": 1}

        async def body(ctx: Context) -> Any:
            return await ctx.run(pay, {"amount": 1})

        log = golden(working(body))
        assert rerun_step(log, "pay", pay) == []
        assert LIVE == ["pay"]
        found = rerun_step(log, "pay", changed)
        assert [(each.kind, each.step, each.path) for each in found] == [("step-output", "pay", "fee")]
        assert asyncio.run(arerun_step(log, "pay", changed)) == found

    def test_with_typed_and_several_arguments(self) -> None:
        """Arguments come back as their types, by position and by name."""
        seen: list[Any] = []

        @step
        async def typed(case: Case, amount: Decimal, *, tags: set[str]) -> set[str]:
            seen.append((case, amount, tags))
            return tags

        @flow(id="typed", steps=[typed])
        async def today(ctx: Context) -> Any:
            return await ctx.run(typed, Case("c", date(2026, 1, 2)), Decimal("1.10"), tags={"b", "a"})

        log = record(today)
        assert rerun_step(log, "typed", typed) == []
        assert seen == [(Case("c", date(2026, 1, 2)), Decimal("1.10"), {"a", "b"})] * 2

    def test_refuses_what_is_not_there(self) -> None:
        """A key that the log does not have, and a step that failed, are errors that say so."""
        log = golden(noting("a"))
        with pytest.raises(LoomError, match="no step other was recorded"):
            rerun_step(log, "other", note)


class TestByHand:
    @pytest.mark.parametrize("manifest", [1, "x", []])
    def test_a_manifest_that_is_none(self, manifest: Any) -> None:
        """It is an error that names the event, for replay as for the fold."""
        log = logged(("EXECUTION_STARTED", {"manifest": manifest}), ("EXECUTION_COMPLETED", {}))
        for read in (lambda: log.state, lambda: replay(log, noting())):
            with pytest.raises(LogError, match="event 1: the payload of EXECUTION_STARTED does not have its shape"):
                read()

    @pytest.mark.parametrize("place", [(None, "1/" * 256 + "1"), ("a/" * 256 + "a", None), (None, "1" * 20_001)])
    def test_places_without_end(self, place: Any) -> None:
        """Branches and namespaces have at most 256 levels, and their names an end: each level costs on every look."""
        started = ("STEP_STARTED", {"stepId": "note", "input": "a"})
        log = logged(("EXECUTION_STARTED", {}), started, places={1: place})
        for read in (lambda: log.state, lambda: replay(log, noting("a"))):
            with pytest.raises(LogError, match=r"event 2: its (branch|namespace) has more than 256 levels"):
                read()

    def test_with_call_ids_and_other_key_order(self) -> None:
        """A log that other code wrote is matched by meaning: key order, call ids and spacing do not matter."""

        async def body(ctx: Context) -> Any:
            one = await ctx.run(pay, {"a": 1, "b": {"x": 1.5, "y": [1, None]}})
            two = await ctx.call(lookup, id=3, trace="t")
            return [one, two]

        log = logged(
            ("EXECUTION_STARTED", {}),
            ("STEP_STARTED", {"callId": "77", "input": {"b": {"y": [1, None], "x": 1.5}, "a": 1}, "stepId": "pay"}),
            ("STEP_COMPLETED", {"output": {"paid": {}}, "stepId": "pay", "callId": "77"}),
            ("TOOL_REQUESTED", {"args": {"trace": "t", "id": 3}, "name": "lookup", "callId": "c9"}),
            ("TOOL_COMPLETED", {"output": "someone", "callId": "c9"}),
            ("EXECUTION_COMPLETED", {"output": [{"paid": {}}, "someone"]}),
        )
        candidate = replay(log, working(body))
        assert output(candidate) == [{"paid": {}}, "someone"]
        assert diff_runs(log, candidate, compare="all") == []
        assert LIVE == []

    def test_overlapping_calls_of_one_step(self) -> None:
        """Two calls of a step that overlap in one branch are told apart by their call ids."""
        log = logged(
            ("EXECUTION_STARTED", {}),
            ("STEP_STARTED", {"stepId": "note", "callId": "1", "input": "a"}),
            ("STEP_STARTED", {"stepId": "note", "callId": "2", "input": "b"}),
            ("STEP_COMPLETED", {"stepId": "note", "callId": "2", "output": "second"}),
            ("STEP_COMPLETED", {"stepId": "note", "callId": "1", "output": "first"}),
            ("EXECUTION_COMPLETED", {"output": ["first", "second"]}),
        )
        assert output(replay(log, noting("a", "b"))) == ["first", "second"]

    def test_without_inputs_or_starts(self) -> None:
        """A log that says no inputs does not match an asked one; ignoring the input says that this is meant."""
        log = logged(
            ("EXECUTION_STARTED", {}),
            ("STEP_STARTED", {"stepId": "note"}),
            ("STEP_COMPLETED", {"stepId": "note", "output": "x"}),
            ("STEP_COMPLETED", {"stepId": "note", "output": "y"}),
            ("EXECUTION_COMPLETED", {"output": ["x", "y"]}),
        )
        assert divergence(log, noting("a", "b")).kind == "argument-changed"
        assert output(replay(log, noting("a", "b"), ignore=["note.input"])) == ["x", "y"]

    def test_gate_answers_in_other_shapes(self) -> None:
        """A resume without a payload takes the application event's, and one without a place finds its gate."""

        async def body(ctx: Context) -> Any:
            return await asyncio.gather(ctx.suspend("Go"), ctx.suspend("Stop"))

        log = logged(
            ("EXECUTION_STARTED", {}),
            ("EXECUTION_SUSPENDED", {"on": "Go", "kind": "event"}),
            ("EXECUTION_SUSPENDED", {"on": "Stop", "kind": "event"}),
            ("Stop", {"by": "bo"}),
            ("EXECUTION_RESUMED", {"eventType": "Stop"}),
            ("Go", {"by": "ann"}),
            ("EXECUTION_RESUMED", {"eventType": "Go", "payload": {"by": "ann"}}),
            ("EXECUTION_COMPLETED", {"output": [{"by": "ann"}, {"by": "bo"}]}),
            places={1: (None, "1"), 2: (None, "2")},
        )
        assert output(replay(log, working(body))) == [{"by": "ann"}, {"by": "bo"}]

    def test_migrated_input_is_the_input(self) -> None:
        """Where a migration was recorded, its input is what the flow gets, never the raw one."""
        log = logged(
            ("EXECUTION_STARTED", {"input": {"name": "c"}}),
            ("EXECUTION_MIGRATED", {"strategy": "replay-check", "migratedInput": {"id": "c", "due": "2026-01-02"}}),
            ("STEP_STARTED", {"stepId": "note", "input": "c"}),
            ("STEP_COMPLETED", {"stepId": "note", "output": "C"}),
            ("EXECUTION_COMPLETED", {"output": "C"}),
            workflow="taking",
        )
        assert output(replay(log, taking(Case))) == "C"

    def test_sync_code_replays_what_async_code_recorded(self) -> None:
        """A flow that became sync, or async, is the same flow to its goldens."""

        @flow(id="working", steps=[note])
        def sync_noting(ctx: SyncContext) -> list[str]:
            return [ctx.run(note, text) for text in ("a", "b")]

        assert diff_runs(golden(noting("a", "b")), replay(golden(noting("a", "b")), sync_noting), compare="all") == []
        assert baseline(golden(sync_noting), noting("a", "b")) == []
        assert LIVE == []

    def test_events_of_the_application_do_not_matter(self) -> None:
        """Events that are the application's own are no effects."""
        log = logged(
            ("EXECUTION_STARTED", {}),
            ("Audited", {"by": "someone"}),
            ("STEP_STARTED", {"stepId": "note", "input": "a"}),
            ("Audited", {"by": "someone"}),
            ("STEP_COMPLETED", {"stepId": "note", "output": "A"}),
            ("EXECUTION_COMPLETED", {"output": ["A"]}),
        )
        assert output(replay(log, noting("a"))) == ["A"]

    @pytest.mark.parametrize(
        "event",
        [
            ("STEP_COMPLETED", {"stepId": 7}),
            ("STEP_STARTED", {}),
            ("TOOL_REQUESTED", {"callId": {}, "name": []}),
            ("EXECUTION_SUSPENDED", {"on": 5}),
            ("DECISION_RECORDED", {"value": 1}),
        ],
        ids=lambda event: event[0],
    )
    def test_damaged_payloads_are_log_errors(self, event: tuple[str, dict[str, Any]]) -> None:
        """A payload that does not have its kind's shape is a LogError that names the execution, never a crash."""
        log = logged(("EXECUTION_STARTED", {}), event, ("EXECUTION_COMPLETED", {"output": None}))
        with pytest.raises(LogError, match="by-hand"):
            replay(log, noting("a"))

    def test_recorded_error_of_an_odd_shape(self) -> None:
        """Whatever a log says of an error, replay raises something for it, and imports nothing."""
        for error in (None, "text", {"type": "os.system", "message": "x"}, {"type": 5}, {"args": ["x"]}, [1],
                      {"type": "ExceptionGroup", "message": "m"}, {"type": "OSError", "args": [{}]},
                      {"type": "UnicodeDecodeError", "message": "m", "args": ["a", 1]},
                      {"type": "BaseException", "message": "m"}, {"type": "exec", "message": "m"}):  # fmt: skip

            async def body(ctx: Context) -> str:
                try:
                    await ctx.run(note, "a")
                except Exception as problem:
                    return type(problem).__name__
                return "nothing"

            log = logged(
                ("EXECUTION_STARTED", {}),
                ("STEP_STARTED", {"stepId": "note", "input": "a"}),
                ("STEP_FAILED", {"stepId": "note", "error": error}),
                ("EXECUTION_COMPLETED", {"output": None}),
            )
            candidate = replay(log, working(body))
            try:
                assert output(candidate) in ("StepError", "OSError", "UnicodeDecodeError")
            except LogError:  # the fold is stricter than replay: an error is an object there
                assert not isinstance(error, dict)


class Verdict(pydantic.BaseModel):
    ok: bool


class TestDeploy:
    def test_contract_of_a_flow(self) -> None:
        """A flow's contract is its declarations as data: schemas of inputs, outputs, gates and tools."""

        @step
        def assess(case: Case, *, strict: bool = False) -> Verdict:
            return Verdict(ok=True)

        @tool(version="2", approval=True, permissions=["money"])
        def transfer(to: str, amount: int = 1) -> None: ...

        @flow(
            id="refund", version="1.2.0", steps=[assess], tools=[transfer], gates={"Go": Verdict}, versions={"state": 3}
        )
        async def refund(ctx: Context, case: Case) -> Decimal:
            return Decimal(1)

        data = contract_of(refund).model_dump(by_alias=True, exclude_none=True)
        assert (data["workflowId"], data["version"], data["engine"]) == ("refund", "1.2.0", "journal")
        assert set(data["inputSchema"]["properties"]) == {"id", "due"}
        assert set(data["steps"]["assess"]["inputSchema"]["properties"]) == {"case", "strict"}
        assert set(data["steps"]["assess"]["outputSchema"]["properties"]) == {"ok"}
        assert set(data["gates"]["Go"]["payloadSchema"]["properties"]) == {"ok"}
        assert data["tools"]["transfer"]["version"] == "2"
        assert data["tools"]["transfer"]["approval"] is True
        assert data["tools"]["transfer"]["permissions"] == ("money",)
        assert data["versions"] == {"state": 3}

    def test_simulation_with_native_flows(self) -> None:
        """simulate_deploy takes flows as they are: the same code is fine, a removed step is not."""
        log = golden(noting("a"))

        @flow(id="working", steps=[pay])
        async def without(ctx: Context) -> None:
            await ctx.run(pay, {})

        assert simulate_deploy([log], noting("a")).ok
        report = simulate_deploy([log], without)
        assert not report.ok
        assert [found.code for found in report.findings] == ["step-removed"]
        assert not simulate_deploy([log], {"other": without}).ok
        assert LIVE == []

    def test_async_replay_in_a_running_loop(self) -> None:
        """areplay of a sync and of an async flow works where a loop runs, and nothing is live."""
        log = golden(noting("a", "b"))

        @flow(id="working", steps=[note])
        def sync_noting(ctx: SyncContext) -> list[str]:
            return [ctx.run(note, text) for text in ("a", "b")]

        async def main() -> None:
            for today in (noting("a", "b"), sync_noting):
                assert output(await areplay(log, today)) == ["A", "B"]
            with pytest.raises(ReplayDivergence):
                await areplay(log, noting("a", "x"))
            found = await asyncio.gather(*(areplay(log, noting("a", "b")) for _ in range(3)))
            assert [output(each) for each in found] == [["A", "B"]] * 3

        asyncio.run(main())
        assert LIVE == []
