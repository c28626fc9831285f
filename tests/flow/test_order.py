"""Order across branches and gates: what a person decided first stays first, and unchanged code is never blamed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_loom import (
    Context,
    LiveCallError,
    Log,
    ReplayDivergence,
    SyncContext,
    diff_runs,
    flow,
    record,
    replay,
    resume,
    step,
)

RAN: list[Any] = []


@step
async def pay(number: int) -> int:
    """An effect that is not to come before its approval."""
    RAN.append(number)
    return number


@step
async def log_it(text: str) -> str:
    """Another one."""
    RAN.append(text)
    return text


def made(body: Callable[..., Any]) -> Any:
    """A flow with a body."""
    return flow(id="f", steps=[pay, log_it], gates={"A": bool, "B": bool})(body)


def diverges(log: Log, body: Callable[..., Any]) -> str:
    """What is said of today's body; no step's body runs."""
    RAN.clear()
    with pytest.raises(ReplayDivergence) as caught:
        replay(log, made(body))
    assert RAN == []
    assert caught.value.kind == "order-changed"
    return caught.value.what


async def _approved_first(ctx: Context) -> int:
    await ctx.suspend("A")
    return sum(await asyncio.gather(ctx.run(pay, 1), ctx.run(pay, 2)))


class TestGatesComeFirst:
    def test_payments_before_their_approval(self) -> None:
        """The golden run waited for the approval and paid then; today's code pays and asks afterwards."""
        log = record(made(_approved_first), events=[("A", True)])
        assert diff_runs(log, replay(log, made(_approved_first)), compare="all") == []

        async def today(ctx: Context) -> int:
            paid = sum(await asyncio.gather(ctx.run(pay, 1), ctx.run(pay, 2)))
            await ctx.suspend("A")
            return paid

        assert "before an answer came through gate A; the golden run waited for it" in diverges(log, today)

    def test_a_payment_that_is_started_before_the_approval(self) -> None:
        """Its task exists before the wait begins, so that it would run while somebody still decides."""

        async def golden(ctx: Context) -> int:
            await ctx.suspend("A")
            return await asyncio.create_task(ctx.run(pay, 1))

        log = record(made(golden), events=[("A", True)])

        async def today(ctx: Context) -> int:
            task = asyncio.create_task(ctx.run(pay, 1))
            await ctx.suspend("A")
            return await task

        assert "before an answer came through gate A" in diverges(log, today)

    def test_in_threads(self) -> None:
        """The same for a sync flow and its pool."""

        def golden(ctx: SyncContext) -> int:
            ctx.suspend("A")
            with ThreadPoolExecutor(2) as pool:
                return sum(pool.map(lambda number: ctx.run(pay, number), [1, 2]))

        def today(ctx: SyncContext) -> int:
            with ThreadPoolExecutor(2) as pool:
                paid = sum(pool.map(lambda number: ctx.run(pay, number), [1, 2]))
            ctx.suspend("A")
            return paid

        log = record(made(golden), events=[("A", True)])
        assert diff_runs(log, replay(log, made(golden)), compare="all") == []
        assert "before an answer came through gate A" in diverges(log, today)

    def test_a_gate_that_is_no_longer_waited_for(self) -> None:
        """Live, the timer would end the wait long before anybody answers, and the code goes on without the answer."""

        async def golden(ctx: Context) -> int:
            await ctx.suspend("A")
            return await ctx.run(pay, 1)

        async def today(ctx: Context) -> int:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ctx.suspend("A"), 0.01)
            return await ctx.run(pay, 1)

        log = record(made(golden), events=[("A", True)])
        assert "gives up on gate A, through which the golden run got its answer" in diverges(log, today)


class TestBranchesAndWhatIsAround:
    def test_a_step_moved_behind_its_gather(self) -> None:
        """What a branch did before it made others is not concurrent with them."""

        async def golden(ctx: Context) -> str:
            first = await ctx.run(log_it, "begin")
            await asyncio.gather(ctx.run(pay, 1), ctx.run(pay, 2))
            return first

        async def today(ctx: Context) -> str:
            await asyncio.gather(ctx.run(pay, 1), ctx.run(pay, 2))
            return await ctx.run(log_it, "begin")

        assert "before log_it, which the golden run did first" in diverges(record(made(golden)), today)

    def test_a_step_moved_before_its_gather(self) -> None:
        """And what it did when they were done came after them."""

        async def golden(ctx: Context) -> str:
            await asyncio.gather(ctx.run(pay, 1), ctx.run(pay, 2))
            return await ctx.run(log_it, "end")

        async def today(ctx: Context) -> str:
            last = await ctx.run(log_it, "end")
            await asyncio.gather(ctx.run(pay, 1), ctx.run(pay, 2))
            return last

        assert "before pay, pay#2, which the golden run did first" in diverges(record(made(golden)), today)

    def test_few_at_a_time_is_no_change(self) -> None:
        """Which of many siblings comes next is up to a semaphore's queue; replay does not blame it."""

        async def body(ctx: Context) -> int:
            few = asyncio.Semaphore(3)

            async def one(number: int) -> int:
                async with few:
                    await asyncio.sleep(0.001 * (number % 3))
                    return await ctx.run(pay, number)

            return sum(await asyncio.gather(*(one(number) for number in range(20))))

        log = record(made(body))
        assert replay(log, made(body)).state.variables["_output"] == sum(range(20))

    def test_a_race_of_gates(self) -> None:
        """The recorded run rested at both gates; the loser's wait stands in the candidate too."""

        async def body(ctx: Context) -> int:
            waits = {asyncio.create_task(ctx.suspend(name)) for name in ("A", "B")}
            done, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in rest:
                task.cancel()
            return await ctx.run(pay, len(done))

        log = record(made(body), events=[("B", True)])
        assert diff_runs(log, replay(log, made(body)), compare="all") == []


def test_a_crash_while_another_gate_is_open() -> None:
    """The run can be resumed from every event on: with nothing, and with the other gate's answer."""

    async def body(ctx: Context) -> int:
        async def first() -> int:
            await ctx.suspend("A")
            return await ctx.run(pay, 1) + await ctx.run(pay, 2)

        async def second() -> int:
            await ctx.suspend("B")
            return await ctx.run(pay, 3)

        return sum(await asyncio.gather(first(), second()))

    whole = record(made(body), events=[("A", True), ("B", True)])
    assert whole.state.variables["_output"] == 6
    for end in range(4, len(whole)):
        prefix = Log(whole.events[:end])
        again = resume(prefix, made(body))
        for name in ("A", "B"):
            if any(name in wait.events for wait in again.state.suspensions):
                again = resume(again, made(body), event=name, payload=True)
        assert (end, again.state.variables.get("_output")) == (end, 6)
        assert diff_runs(again, replay(again, made(body))) == []


def test_a_thread_that_outlives_an_async_flow_is_still_guarded(tmp_path: Any) -> None:
    """It is waited for, so that what it does counts: a live call of it ends the replay as any other."""
    out = tmp_path / "out.txt"

    def later() -> None:
        threading.Event().wait(0.1)
        with contextlib.suppress(Exception):
            out.write_text("x")

    async def body(ctx: Context) -> int:
        threading.Thread(target=later).start()
        return await ctx.run(pay, 1)

    log = record(made(body))
    assert out.read_text() == "x"
    out.unlink()
    with pytest.raises(LiveCallError):
        replay(log, made(body))
    assert not out.exists()
