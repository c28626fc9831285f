"""A program for test_kills.py: records a flow in forked children that kill themselves, and resumes each one.

``python killed.py FLOW FOLDER`` prints one JSON line a kill: where it was, what was on disk, how the run ended, and
which effects happened how often.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pytest_loom import (
    Context,
    Log,
    LogError,
    SyncContext,
    current_step,
    diff_runs,
    flow,
    load_log,
    record,
    replay,
    resume,
    step,
    write_log,
)
from pytest_loom.flow import recorder
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.history import History

EFFECTS = Path(sys.argv[2]) / "effects"
ANSWER = ("Approved", {"by": "Ada"})


def finished() -> None:
    """Leave a trace outside the log: the step whose body runs has really finished."""
    info = current_step()
    assert info is not None
    with EFFECTS.open("a") as file:
        file.write(f"{info.idempotency_key}\n")


@step
async def first(number: int) -> int:
    """The next number."""
    await asyncio.sleep(0)
    finished()
    return number + 1


@step
async def branch(name: str, pauses: int) -> str:
    """Take some time."""
    for _ in range(pauses):
        await asyncio.sleep(0.001)
    finished()
    return f"did {name} ä"


@step(retries=2)
async def flaky(number: int) -> int:
    """Succeed at the third attempt."""
    info = current_step()
    assert info is not None
    if info.attempt < 3:
        raise ConnectionError(f"not yet ({info.attempt})")
    finished()
    return number * 2


@step
async def refuse(number: int) -> int:
    """Always fail."""
    finished()
    raise ValueError(f"no {number}")


@step
async def write(words: int) -> AsyncIterator[str]:
    """Stream."""
    for number in range(words):
        yield f"word{number}"
    finished()


@flow(id="part", steps=[first, branch])
async def part(ctx: Context, number: int) -> list[Any]:
    """A sub-flow with branches of its own."""
    number = await ctx.run(first, number)
    return [number, *await asyncio.gather(ctx.run(branch, "x", 1), ctx.run(branch, "y", 0))]


@step
async def outer(ctx: Context, number: int) -> int:
    """A step that runs steps."""
    number = await ctx.run(first, number)
    number = await ctx.run(first, number)
    finished()
    return number


@flow(
    id="killed",
    steps=[first, branch, flaky, refuse, write, part, outer],
    gates={"Approved": dict[str, str]},
)
async def of_tasks(ctx: Context, number: int) -> list[Any]:
    """A bit of everything, in tasks."""
    begun = await ctx.run(first, number)
    lucky = await ctx.run(flaky, begun)
    chosen = ctx.decide("chosen", lambda: lucky + 1)
    both: list[Any] = [
        *await asyncio.gather(ctx.run(branch, "a", 2), ctx.run(branch, "b", 0), ctx.run(flaky, 5), ctx.run(part, 1))
    ]
    try:
        await ctx.run(refuse, chosen)
    except ValueError as problem:
        both.append(str(problem))
    answer = await ctx.suspend("Approved", correlation_key="k")
    words = [word async for word in ctx.run(write, 3)]
    inner = await ctx.run(part, 7)
    nested = await ctx.run(outer, 3)
    async with asyncio.TaskGroup() as group:
        one = group.create_task(ctx.run(part, 2))
        two = group.create_task(ctx.run(branch, "c", 1))
    return [chosen, both, answer, words, inner, nested, one.result(), two.result()]


@step
def add(number: int) -> int:
    """The next number."""
    finished()
    return number + 1


@step
async def add_async(number: int) -> int:
    """Ten more."""
    await asyncio.sleep(0)
    finished()
    return number + 10


@step(retries=2)
def flaky_sync(number: int) -> int:
    """Succeed at the third attempt."""
    info = current_step()
    assert info is not None
    if info.attempt < 3:
        raise ConnectionError("not yet")
    finished()
    return number * 2


@step
def count(to: int) -> Iterator[int]:
    """Stream."""
    yield from range(to)
    finished()


@flow(id="part-sync", steps=[add])
def part_sync(ctx: SyncContext, number: int) -> int:
    """A sub-flow."""
    return ctx.run(add, ctx.run(add, number))


@flow(id="killed-sync", steps=[add, add_async, flaky_sync, count, part_sync], gates={"Approved": dict[str, str]})
def of_threads(ctx: SyncContext, number: int) -> list[Any]:
    """The same in threads."""
    begun = ctx.run(add, number)
    lucky = ctx.run(flaky_sync, begun)
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(ctx.run, add, 5), pool.submit(ctx.run, add_async, 6), pool.submit(ctx.run, part_sync, 7)]
        both = [future.result() for future in futures]
    answer = ctx.suspend("Approved")
    numbers = list(ctx.stream(count, 3))
    return [lucky, both, answer, numbers, ctx.run(part_sync, 1), ctx.run(add_async, 2)]


FLOWS: dict[str, Flow[..., Any]] = {"tasks": of_tasks, "threads": of_threads}


def happened() -> Counter[str]:
    """How often each effect really happened."""
    lines = EFFECTS.read_text().splitlines() if EFFECTS.exists() else []
    return Counter(line.partition("/")[2] for line in lines)


def in_child(work: Callable[[], Any]) -> Any:
    """What ``work`` gives in a process of its own; None where that was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            os.write(writing, json.dumps(work()).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    assert status == 0, f"the child ended with {status}"
    return json.loads(said)


def killing(kill_at: int, share: float) -> Callable[[], int]:
    """Kill this process when a share of the write number ``kill_at`` has been written (0: never).

    The result says how many writes there were so far.
    """
    writes = 0
    whole = recorder._write

    def writing(file: int, data: bytes) -> None:
        nonlocal writes
        writes += 1
        if writes == kill_at:
            whole(file, data[: int(len(data) * share)])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(file, data)

    recorder._write = writing
    return lambda: writes


def recording(chosen: Flow[..., Any], path: Path, kill_at: int = 0, share: float = 1) -> int:
    """Record, and be killed on the way; else how many writes it took."""
    writes = killing(kill_at, share)
    record(chosen, 1, path=path, events=[ANSWER])
    return writes()


def going_on(chosen: Flow[..., Any], path: Path, kill_at: int = 0, share: float = 1) -> int:
    """The same while a killed recording is resumed."""
    writes = killing(kill_at, share)
    recover(chosen, path)
    return writes()


def recover(chosen: Flow[..., Any], path: Path) -> Log:
    """What a program does that finds an unfinished recording when it starts."""
    partial = path.with_name(path.name + ".partial")
    try:
        log = load_log(partial)
    except LogError:  # nothing of a new run; or of what followed a log that is there
        log = load_log(path) if path.exists() else record(chosen, 1, path=path)
    if not log.state.in_flight:
        write_log(log, path)
        partial.unlink(missing_ok=True)
        return log
    if log.path.endswith(".partial"):
        log = resume(log, chosen, path=path)
    if log.state.status == "suspended":
        log = resume(load_log(path), chosen, event=ANSWER[0], payload=ANSWER[1], path=path)
    return log


def recovered(chosen: Flow[..., Any], path: Path, reference: Log) -> dict[str, Any]:
    """How a killed recording goes on, and what was done by then."""
    partial = path.with_name(path.name + ".partial")
    on_disk = 0
    done: list[str] = []
    for file in (partial, path):
        if not on_disk:
            with contextlib.suppress(LogError):
                before = load_log(file)
                on_disk = len(before)
                done = [
                    effect.start.payload["idempotencyKey"].partition("/")[2]
                    for effect in History(before).all()
                    if effect.outcome != "open" and "idempotencyKey" in effect.start.payload
                ]
    times_before = happened()
    log = recover(chosen, path)
    times = happened()
    return {
        "events": on_disk,
        "kept": path.exists() and not partial.exists() and load_log(path).events == log.events,
        "differences": [str(part) for part in diff_runs(reference, log, compare=("status", "output", "step-output"))],
        "replays": [str(part) for part in diff_runs(log, replay(log, chosen), compare="all")],
        "finished": len(done),
        "again": [key for key in done if times[key] != times_before[key]],
        "most": max(times.values()),
        "kinds": len(times),
    }


def main() -> None:
    """Kill at every write, after it and within it."""
    chosen, folder = FLOWS[sys.argv[1]], Path(sys.argv[2])
    path = folder / "run.loom.jsonl"

    def afresh() -> None:
        for file in folder.iterdir():
            file.unlink()

    def show(kill: list[float]) -> None:
        print(json.dumps({"kill": kill, **in_child(lambda: recovered(chosen, path, reference))}), flush=True)

    record(chosen, 1)  # the children need not make what pydantic makes once
    afresh()
    writes = in_child(lambda: recording(chosen, path))
    reference = load_log(path)
    if "twice" not in sys.argv:
        for kill_at in range(1, writes + 1):
            for share in (0.0, 0.5, 1.0) if kill_at in (1, writes) else (0.5, 1.0):
                afresh()
                assert in_child(lambda: recording(chosen, path, kill_at, share)) is None  # noqa: B023
                show([kill_at, share])
        return
    kill_at = 0
    killed: Any = None
    while killed is None:
        kill_at += 2
        afresh()
        assert in_child(lambda: recording(chosen, path, 22, 0.5)) is None
        killed = in_child(lambda: going_on(chosen, path, kill_at, 0.5))  # noqa: B023
        show([22, kill_at])


if __name__ == "__main__":
    main()
