"""Where effects are recorded: no two lines of a run share a place, and a replay puts events where they were."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from pytest_loom import (
    Context,
    Log,
    RecordingError,
    SyncContext,
    current_step,
    diff_runs,
    flow,
    record,
    replay,
    resume,
    step,
)
from pytest_loom.flow.history import History


@step
async def work(number: int) -> int:
    """Take a moment."""
    await asyncio.sleep(0)
    return number


@flow(id="part", steps=[work])
async def part(ctx: Context, number: int) -> list[int]:
    """A sub-flow that has branches of its own."""
    first = await ctx.run(work, 100 + number)
    return [first, *await asyncio.gather(ctx.run(work, number), ctx.run(work, number + 1))]


@step
async def outer(ctx: Context, number: int) -> list[int]:
    """A step that has branches of its own."""
    first = await ctx.run(work, 200 + number)
    return [first, *await asyncio.gather(ctx.run(work, number), ctx.run(work, number + 1))]


def test_the_same_parts_within_branches_and_outside_of_them() -> None:
    """Branches of a sub-flow are not taken for those in which it runs: each effect has a key of its own."""

    @flow(id="top", steps=[work, part, outer])
    async def top(ctx: Context) -> list[Any]:
        alone = [await ctx.run(part, 1), await ctx.run(outer, 2)]
        return [alone, await asyncio.gather(ctx.run(part, 3), ctx.run(outer, 4), ctx.run(part, 5))]

    log = record(top)
    keys = [event.payload["idempotencyKey"] for event in log.events if "idempotencyKey" in event.payload]
    assert len(keys) == 17
    assert len(set(keys)) == len(keys)
    assert diff_runs(log, replay(log, top), compare="all") == []
    for cut in range(1, len(log) - 1):
        again = resume(Log(log.events[:cut]), top)
        assert diff_runs(log, again, compare=("status", "output", "step-output")) == []
        assert diff_runs(again, replay(again, top), compare="all") == []


def test_only_what_is_within_a_step_is_answered_with_it() -> None:
    """A step whose name begins with another's, and its later occurrences, keep what they did to themselves."""

    @step(id="outer.more")
    async def longer(ctx: Context, number: int) -> int:
        return await ctx.run(work, 300 + number)

    @flow(id="alike", steps=[work, outer, longer])
    async def alike(ctx: Context) -> list[Any]:
        return [await ctx.run(outer, 1), await ctx.run(longer, 2), await ctx.run(outer, 3), await ctx.run(longer, 4)]

    log = record(alike)
    history = History(log)
    found = {name: sum(map(len, history.within(name))) for name in ("outer", "outer#2", "outer.more", "out")}
    assert found == {"outer": 3, "outer#2": 3, "outer.more": 1, "out": 0}
    assert diff_runs(log, replay(log, alike), compare="all") == []


def test_branches_without_end_are_not_recorded() -> None:
    """What could not be read again is refused while recording, with what to do about it."""

    @flow(id="chain", steps=[work])
    async def chain(ctx: Context) -> None:
        tasks: list[asyncio.Task[None]] = []

        async def link(left: int) -> None:
            if left:
                tasks.append(asyncio.create_task(link(left - 1)))
            else:
                await ctx.run(work, 1)

        await link(levels)
        for task in tasks:
            await task

    levels = 256
    assert diff_runs(record(chain), replay(record(chain), chain), compare="all") == []
    levels = 257
    with pytest.raises(RecordingError, match="its branch has more than 256 levels"):
        record(chain)


def test_a_step_that_ran_steps_beside_others_keeps_its_place_in_a_replay() -> None:
    """What it did stands among the events of the other branches as it was recorded, not all at its end."""

    @flow(id="beside", steps=[work, outer])
    async def beside(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.run(outer, 1))
            group.create_task(ctx.run(work, 2))
            await ctx.run(work, 3)

    log = record(beside)
    candidate = replay(log, beside)
    assert diff_runs(log, candidate, compare="all") == []
    assert candidate.events == log.events


def test_threads_keep_the_recorded_order_in_a_replay() -> None:
    """Which thread comes first is chance in a replay, and the candidate's events stand as they were recorded."""
    turns = [threading.Event() for _ in range(3)]

    @step
    def wait(number: int) -> str:
        info = current_step()
        assert info is not None
        if number:
            turns[number - 1].wait(60)
        turns[number].set()
        return info.key

    @flow(id="racing", steps=[wait])
    def racing(ctx: SyncContext) -> None:
        threads = [threading.Thread(target=ctx.run, args=[wait, number]) for number in (2, 1, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    log = record(racing)
    ended = [event.branch for event in log.events if event.event_type == "STEP_COMPLETED"]
    assert ended == ["3", "2", "1"]
    for _ in range(5):
        assert replay(log, racing).events == log.events
