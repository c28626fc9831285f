"""The flows whose recordings are in ``goldens/``: everything that the engine knows, on every Python that it runs on.

``python tests/flow/golden_flows.py`` records them anew, and leaves a file alone where only ids and times differ.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pydantic

from pytest_loom import Context, Log, SyncContext, current_step, flow, load_log, record, resume, step, tool, write_log
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.normal import same_recording

GOLDENS = Path(__file__).with_name("goldens")


class Colour(Enum):
    """A plain enum."""

    RED = "red"
    BLUE = ("b", 1)


class Size(IntEnum):
    """One of numbers."""

    SMALL = 1


class Mood(StrEnum):
    """One of words."""

    GOOD = "good"


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: float


class Refused(Exception):
    """An exception of the application."""


@dataclass
class Animal:
    """A class with a subclass, which is recorded as itself."""

    name: str


@dataclass
class Dog(Animal):
    """The subclass."""

    tricks: set[str] = field(default_factory=set)


class Order(pydantic.BaseModel):
    """A pydantic model."""

    id: UUID
    lines: dict[str, Decimal]
    placed: datetime
    note: Annotated[str, pydantic.Field(max_length=50)] | None = None


@dataclass(frozen=True)
class Everything:
    """A value of every type that is expected to survive."""

    text: str
    whole: int
    huge: int
    number: float
    endless: float
    nothing: None
    yes: bool
    raw: bytes
    pair: tuple[int, str]
    many: tuple[float, ...]
    bag: set[int]
    frozen: frozenset[str]
    queue: deque[int]
    moment: datetime
    day: date
    clock: time
    span: timedelta
    money: Decimal
    unique: UUID
    path: PurePosixPath
    colours: list[Colour]
    size: Size
    mood: Mood
    point: Point
    order: Order
    choice: Literal["a", "b"]
    nested: dict[str, list[tuple[int, str | None]]]
    free: Any = None


EVERYTHING = Everything(
    text='Grüße, "世界" \U0001f9f5\n',
    whole=-7,
    huge=2**63 + 1,
    number=0.1,
    endless=float("-inf"),
    nothing=None,
    yes=True,
    raw=b"\x00\xff bytes",
    pair=(1, "one"),
    many=(1.5, 2e300),
    bag={3, 1, 2},
    frozen=frozenset({"b", "a"}),
    queue=deque([1, 2]),
    moment=datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=UTC),
    day=date(1999, 12, 31),
    clock=time(23, 59, 59, 999),
    span=timedelta(days=1, microseconds=1),
    money=Decimal("12.340"),
    unique=UUID("12345678-1234-4234-8234-123456789abc"),
    path=PurePosixPath("/a/b c"),
    colours=[Colour.RED, Colour.RED],
    size=Size.SMALL,
    mood=Mood.GOOD,
    point=Point(1, -0.0),
    order=Order(
        id=UUID(int=1), lines={"tea": Decimal("1.10")}, placed=datetime(2024, 1, 1, tzinfo=UTC), note="no hurry"
    ),
    choice="b",
    nested={"k": [(1, None), (2, "two")]},
    free={"any": [1, None, "thing"]},
)


@step
async def collect(text: str) -> Everything:
    """A value of every type."""
    return EVERYTHING if text == "all" else EVERYTHING.__class__(**{**vars(EVERYTHING), "text": text})


@step
async def zoo() -> list[Animal]:
    """Animals, of which one is more than that."""
    return [Animal("Tom"), Dog("Rex", {"sit", "roll"})]


@step
async def take(given: Everything, *, factor: Decimal = Decimal(2)) -> dict[Mood, tuple[Decimal, Colour]]:
    """What uses it."""
    return {given.mood: (given.money * factor, given.colours[0])}


@step
async def work(name: str, pauses: int) -> str:
    """Take a while."""
    for _ in range(pauses):
        await asyncio.sleep(0.001)
    return f"did {name}"


@step(retries=2)
async def flaky(number: int) -> int:
    """Succeed at the third attempt."""
    info = current_step()
    assert info is not None
    if info.attempt < 3:
        raise ConnectionError("not yet")
    return number * 2


@step
async def refuse(number: int) -> int:
    """Fail, as the application does."""
    raise Refused(f"no {number}")


@step
async def write(words: int) -> AsyncIterator[str]:
    """Stream words."""
    for number in range(words):
        yield f"word{number}"


@step
async def outer(ctx: Context, name: str) -> list[str]:
    """A step that runs steps."""
    return [await ctx.run(work, name, 0), *await asyncio.gather(ctx.run(work, "x", 1), ctx.run(work, "y", 0))]


@tool(version=2, approval=True)
async def pay(order: Order, cents: int) -> str:
    """A tool."""
    return f"paid {cents} for {order.id}"


@dataclass
class Approval:
    """What a person says."""

    by: str
    at: datetime | None = None


@flow(id="part", steps=[work], gates={"Signed": Literal["yes", "no"]})
async def part(ctx: Context, name: str) -> tuple[str, ...]:
    """A sub-flow, with branches and a gate of its own."""
    both = await asyncio.gather(ctx.run(work, name, 1), ctx.run(work, f"{name}!", 0))
    return (*both, await ctx.suspend("Signed", correlation_key=name))


@flow(
    id="rich",
    version="1.2.0",
    steps=[collect, zoo, take, work, flaky, refuse, write, outer, part],
    gates={"Approved": Approval, "Never": None},
    tools=[pay],
    versions={"state": 3},
)
async def rich(ctx: Context, wanted: list[Mood]) -> dict[str, Any]:
    """A bit of everything."""
    token, started, chance = ctx.uuid(), ctx.now(), ctx.random()
    given = await ctx.run(collect, "all")
    assert given == EVERYTHING
    assert [type(animal) for animal in await ctx.run(zoo)] == [Animal, Dog]
    taken = await ctx.run(take, given, factor=Decimal("0.5"))
    ctx.snapshot({"wanted": wanted, "of": token, "run": ctx.execution_id})
    quick = await asyncio.wait_for(ctx.run(work, f"{token} at {started.isoformat()}", 1), timeout=30)
    async with asyncio.timeout(30):
        lucky = await ctx.run(flaky, 21)
    gathered = await asyncio.gather(
        ctx.run(work, "slow", 3), ctx.run(work, "fast", 0), ctx.run(refuse, 5), return_exceptions=True
    )
    async with asyncio.TaskGroup() as group:
        nested = group.create_task(ctx.run(outer, "in a task"))
        beside = group.create_task(ctx.run(work, "beside", 1))
        own = await ctx.run(work, "meanwhile", 2)
    paid = await ctx.call(pay, order=given.order, cents=100)
    approval = await ctx.suspend("Approved", correlation_key=str(token), timeout=timedelta(hours=1), kind="approval")
    try:
        await ctx.suspend("Never", timeout=60)
    except TimeoutError as problem:
        late = str(problem)
    parts = [await ctx.run(part, "one"), *await asyncio.gather(ctx.run(part, "two"), ctx.run(part, "three"))]
    words = [word async for word in ctx.run(write, 3)]
    return {
        "taken": list(taken.items()),
        "quick": quick,
        "lucky": lucky,
        "gathered": [repr(one) for one in gathered],
        "nested": [nested.result(), beside.result(), own],
        "paid": paid,
        "approval": approval,
        "late": late,
        "parts": parts,
        "words": words,
        "chance": chance,
        "decided": ctx.decide("colour", lambda: "red"),
        "hex": token.hex,
    }


@step
def add(number: int) -> int:
    """Ten more."""
    return number + 10


@step
def count(to: int) -> Iterator[int]:
    """Stream numbers."""
    yield from range(to)


@flow(id="little", steps=[add])
def little(ctx: SyncContext, number: int) -> int:
    """A sub-flow."""
    return ctx.run(add, ctx.run(add, number))


@flow(id="threads", steps=[add, count, little, work], gates={"Go": int})
def threads(ctx: SyncContext, numbers: Sequence[int], more: int = 3) -> list[Any]:
    """The same in threads."""
    with ThreadPoolExecutor(2) as pool:
        pooled = list(pool.map(lambda number: ctx.run(add, number), numbers))
        deeper = pool.submit(ctx.run, little, more).result()
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(ctx.run(work, "thread", 1)))
    thread.start()
    thread.join()
    go = ctx.suspend("Go")
    return [pooled, deeper, found, go, list(ctx.stream(count, 3)), str(ctx.uuid())]


FLOWS: dict[str, Flow[..., Any]] = {"rich": rich, "threads": threads}


def comparable(log: Log) -> Log:
    """The log without its tools' JSON Schemas, which pydantic's versions write differently."""
    events = []
    for event in log.events:
        payload = event.payload
        payload.pop("toolSchema", None)
        events.append(msgspec.structs.replace(event, raw=msgspec.Raw(msgspec.json.encode(payload))))
    return Log(events)


def recorded(name: str) -> Log:
    """One of the flows recorded now."""
    if name == "threads":
        return record(threads, {"numbers": [1, 2, 3]}, events=[("Go", 7)])
    log = record(rich, ["good"], events=[("Approved", {"by": "Ada"}), ("TIMEOUT", None), ("Signed", "yes")])
    log = resume(log, rich, event="Signed", payload="no", correlation_key="three")
    return resume(log, rich, event="Signed", payload="yes")


def main() -> None:
    """Record the goldens anew."""
    for name in FLOWS:
        path = GOLDENS / f"{name}.loom.jsonl"
        log = recorded(name)
        same = path.exists() and same_recording(load_log(path), log)
        print(f"{path.name}: {log.state.status}, {len(log)} events, {'as it was' if same else 'written'}")
        if not same:
            write_log(log, path)


if __name__ == "__main__":
    import importlib

    importlib.import_module("golden_flows").main()  # under its own name, which stands in the recordings
