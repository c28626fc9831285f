"""Values survive a log: a step's result is in replay what it was, type and all, guided by annotations."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from typing_extensions import TypedDict

from pytest_loom import Context, FlowError, RecordingError, ReplayDivergence, flow, record, replay, resume, step
from pytest_loom.log.event import LogBuilder

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    RAN.clear()
    yield
    RAN.clear()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mood(enum.StrEnum):
    GOOD = "good"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Odd(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass
class Money:
    amount: Decimal
    currency: str = "EUR"


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    price: Money
    seen: dt.date
    tags: tuple[str, ...] = ()
    kinds: frozenset[Colour] = frozenset()


@dataclasses.dataclass(frozen=True)
class Pin:
    day: dt.date


class Item(pydantic.BaseModel):
    name: str
    weight: float = 0.0


class Gadget(Item):
    volts: int = 5


class Toy(Item):
    age: int = 3


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    from_: str = pydantic.Field(alias="from")
    at: dt.datetime
    blob: bytes = b""


class Nested(pydantic.BaseModel):
    items: list[Item]
    by_name: dict[str, Item]
    money: Money | None = None


@dataclasses.dataclass
class Bonus(Money):
    reason: str = ""


class Point(NamedTuple):
    x: int
    y: float


class Address(TypedDict):
    street: str
    since: dt.date


class Tree(pydantic.BaseModel):
    value: int
    children: list[Tree] = []


DAY = dt.date(2026, 3, 29)
NOW = dt.datetime(2026, 3, 29, 1, 59, 59, 999999, tzinfo=dt.UTC)
SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")

SURVIVE: list[tuple[str, Any, Any]] = [
    ("none", None, None),
    ("nothing said", Any, {"a": [1, 2.5, "x", None, True]}),
    ("tuple", tuple[int, str], (1, "a")),
    ("long tuple", tuple[int, ...], (1, 2, 3)),
    ("empty tuple", tuple[()], ()),
    ("bare tuple", tuple, (1, "a")),
    ("set", set[int], {3, 1, 2}),
    ("empty set", set[int], set()),
    ("frozenset", frozenset[str], frozenset({"b", "a"})),
    ("deque", collections.deque[int], collections.deque([1, 2])),
    ("datetime", dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, 6)),
    ("aware datetime", dt.datetime, NOW),
    ("datetime with an offset", dt.datetime, NOW.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30)))),
    ("datetime in a zone without changes", dt.datetime, NOW.replace(tzinfo=ZoneInfo("UTC"))),
    ("date", dt.date, DAY),
    ("time", dt.time, dt.time(1, 2, 3, 4)),
    ("timedelta", dt.timedelta, dt.timedelta(days=-1, microseconds=7)),
    ("decimal", Decimal, Decimal("1.10")),
    ("large decimal", Decimal, Decimal("12345678901234567890.123456789")),
    ("uuid", UUID, SOME_UUID),
    ("enum", Colour, Colour.RED),
    ("int enum", Level, Level.HIGH),
    ("str enum", Mood, Mood.GOOD),
    ("flag", Access, Access.READ | Access.WRITE),
    ("literal", Literal["a", "b"], "a"),
    ("bytes", bytes, bytes(range(256))),
    ("empty bytes", bytes, b""),
    ("path", Path, Path("/tmp/a b")),
    ("pure path", PurePosixPath, PurePosixPath("a/b")),
    ("infinity", float, math.inf),
    ("minus infinity", float, -math.inf),
    ("float", float, 0.1 + 0.2),
    ("whole float", float, 1.0),
    ("minus zero", float, -0.0),
    ("int that is a float by annotation", float, 3),
    ("large int", int, 10**30),
    ("large int that nobody annotated", Any, 10**30),
    ("bool", bool, True),
    ("complex text", str, "naïve ✓ \u2028 \x00 𝕏"),
    ("dataclass", Money, Money(Decimal("2.50"))),
    ("frozen dataclass of everything", Line, Line(Money(Decimal(1)), DAY, ("a",), frozenset({Colour.RED}))),
    ("model", Item, Item(name="a", weight=1.5)),
    (
        "model with aliases and more",
        Aliased,
        Aliased.model_validate({"from": "x", "at": NOW, "blob": b"hi", "extra": [1]}),
    ),
    ("model with binary", Aliased, Aliased.model_validate({"from": "x", "at": NOW, "blob": b"\xff\x00"})),
    ("model of models", Nested, Nested(items=[Item(name="a")], by_name={"b": Item(name="b")}, money=Money(Decimal(1)))),
    ("recursive model", Tree, Tree(value=1, children=[Tree(value=2, children=[Tree(value=3)])])),
    ("named tuple", Point, Point(1, 2.5)),
    ("typed dict", Address, {"street": "x", "since": DAY}),
    ("optional", Optional[dt.date], DAY),  # noqa: UP045
    ("optional none", dt.date | None, None),
    ("union", Union[int, dt.date], DAY),  # noqa: UP007
    ("union of models", Gadget | Toy, Toy(name="bear")),
    ("union of dataclasses in a list", list[Money | Point], [Money(Decimal(1)), Point(1, 2.0)]),
    ("list of tuples", list[tuple[int, Colour]], [(1, Colour.RED), (2, Colour.BLUE)]),
    ("dict of sets", dict[str, set[Decimal]], {"a": {Decimal("1.0"), Decimal(2)}}),
    ("dict by int", dict[int, str], {1: "a", 2: "b"}),
    ("dict by date", dict[dt.date, bytes], {DAY: b"\x00"}),
    ("dict by enum", dict[Colour, int], {Colour.RED: 1}),
    ("dict by uuid", dict[UUID, int], {SOME_UUID: 1}),
    ("mapping", Mapping[str, Path], {"a": Path("b")}),
    ("sequence of dates", Sequence[dt.date], [DAY]),
    ("set of tuples", set[tuple[int, str]], {(1, "a"), (2, "b")}),
    ("set of dataclasses", frozenset[Pin], frozenset({Pin(DAY), Pin(dt.date(2026, 1, 1))})),
    ("annotated", Annotated[int, pydantic.Field(gt=0)], 3),
    ("deep", dict[str, list[Optional[tuple[bytes, Line]]]], {"a": [None, (b"x", Line(Money(Decimal(1)), DAY))]}),  # noqa: UP045
    ("subclass of a model", Item, Gadget(name="lamp", volts=12)),
    ("subclasses in a list", list[Item], [Toy(name="bear"), Item(name="x"), Gadget(name="lamp")]),
    ("subclass of a dataclass", Money, Bonus(Decimal(1), "EUR", "good work")),
    ("subclass deep inside", dict[str, tuple[Money, ...]], {"a": (Money(Decimal(1)), Bonus(Decimal(2)))}),
]


def producing(annotation: Any, value: Any) -> tuple[Any, list[Any]]:
    """A flow with one step of this annotation that gives this value, and the list of what the flow got."""
    seen: list[Any] = []

    def produce() -> Any:
        RAN.append("produce")
        return value

    produce.__annotations__["return"] = annotation
    produced: Any = step(produce)

    @flow(id="producing", steps=[produced])
    async def producing(ctx: Context) -> None:
        seen.append(await ctx.run(produced))

    return producing, seen


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of equal types, all the way down, NaN included."""
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    if isinstance(one, pydantic.BaseModel):
        return same(one.__dict__, other.__dict__) and one.__pydantic_extra__ == other.__pydantic_extra__
    if isinstance(one, dict):
        return list(map(repr, one)) == list(map(repr, other)) and all(map(same, one.values(), other.values()))
    if isinstance(one, (list, tuple, collections.deque)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


@pytest.mark.parametrize(("annotation", "value"), [pytest.param(a, v, id=name) for name, a, v in SURVIVE])
class TestSurvives:
    def test_as_result_of_a_step(self, annotation: Any, value: Any) -> None:
        """A result is the same, type and all, while recording and in replay, where the step does not run."""
        today, seen = producing(annotation, value)
        log = record(today)
        assert log.state.status == "completed", log.state.variables
        replay(log, today)
        assert RAN == ["produce"]
        for found in seen:
            if not (type(value) is int and type(found) is float):
                assert same(found, value), (found, value)
        assert same(*seen)

    def test_as_input_and_argument(self, annotation: Any, value: Any) -> None:
        """As a flow's input and a step's argument, a value is the same again, and matches what was recorded."""
        seen: list[Any] = []

        def take(value: Any) -> None:
            RAN.append("take")

        take.__annotations__["value"] = annotation
        taking: Any = step(take)

        async def passing(ctx: Context, given: Any) -> None:
            seen.append(given)
            await ctx.run(taking, given)

        passing.__annotations__["given"] = annotation
        today = flow(id="passing", steps=[taking])(passing)
        log = record(today, value)
        assert log.state.status == "completed", log.state.variables
        replay(log, today)
        assert RAN == ["take"]
        assert same(*seen)

    def test_through_a_gate(self, annotation: Any, value: Any) -> None:
        """As a gate's payload, a value arrives as what it is, and again in replay."""
        seen: list[Any] = []

        @flow(id="waiting", gates={"Go": annotation})
        async def waiting(ctx: Context) -> None:
            seen.append(await ctx.suspend("Go"))

        log = resume(record(waiting), waiting, event="Go", payload=value)
        replay(log, waiting)
        assert same(*seen)
        if not (type(value) is int and type(seen[0]) is float):
            assert same(seen[0], value), (seen[0], value)


class Opaque:
    """Something that no annotation describes."""


@dataclasses.dataclass
class Holder:
    deep: dict[str, Any]


class Lossy(pydantic.BaseModel):
    kept: int
    lost: int = pydantic.Field(default=0, exclude=True)


CANNOT: list[tuple[str, Any, Any, str]] = [
    ("tuple as list", list[int], (1, 2), "tuple"),
    ("tuple that nobody annotated", Any, {"a": (1, 2)}, "a is a tuple"),
    ("set that nobody annotated", Any, {1, 2}, "set"),
    ("date as text", str, DAY, "date"),
    ("date that nobody annotated", Any, [DAY], "[0] is a date"),
    ("decimal as float", float, Decimal(1), "Decimal"),
    ("dataclass as dict", dict[str, Any], Money(Decimal(1)), "Money"),
    ("dataclass that nobody annotated", Any, [{"m": Money(Decimal(1))}], "[0].m is a Money"),
    ("model that nobody annotated", Any, Item(name="x"), "Item"),
    ("enum that nobody annotated", Any, Colour.RED, "Colour"),
    ("int enum as int", int, Level.HIGH, "Level"),
    ("bytes as text", str, b"a", "bytes"),
    ("opaque", Any, {"a": {"b": [Opaque()]}}, "a.b[0] is a Opaque"),
    ("opaque in a dataclass", Holder, Holder({"x": Opaque()}), "deep.x is a Opaque"),
    ("tuple in a field of Any", Holder, Holder({"x": (1,)}), "deep.x is a tuple"),
    ("generator", Any, (n for n in range(3)), "generator"),
    ("function", Any, len, "no log can hold"),
    ("class", Any, Money, "no log can hold"),
    ("decimal nan, which pydantic refuses", Decimal, Decimal("NaN"), "finite"),
    ("wrong type", dt.date, "x", "step produce"),
    ("field of a wrong type", Item, Item.model_construct(name=5), "name"),
    ("excluded field", Lossy, Lossy(kept=1, lost=2), "lost"),
    ("integer keys that nobody annotated", Any, {1: "a"}, "keys"),
    ("two keys that are one in JSON", Any, {1: "a", "1": "b"}, "two keys"),
    ("tuple as key", dict[Any, int], {(1, 2): 3}, "key"),
    ("half a character", str, "a\ud800", "half a character"),
    ("half a character as key", Any, {"\ud800": 1}, "half a character"),
    ("nan that nobody annotated", Any, [float("nan")], "[0] is a float"),
    ("int subclass", int, type("Number", (int,), {})(3), "Number"),
    ("bool as int", int, True, "int"),
    ("nothing as int", int, None, "int"),
    ("deque with a maxlen", collections.deque[int], collections.deque([1], maxlen=3), "maxlen"),
    ("datetime in a zone", dt.datetime, dt.datetime(2026, 3, 28, tzinfo=ZoneInfo("Europe/Paris")), "Europe/Paris"),
    ("dict that looks like bytes", Any, {"a": {"$type": "bytes", "$via": "base64", "$value": "YWI="}}, "a is a dict"),
]


class TestCannotSurvive:
    @pytest.mark.parametrize(
        ("annotation", "value", "said"), [pytest.param(a, v, s, id=name) for name, a, v, s in CANNOT]
    )
    def test_is_an_error_while_recording(self, annotation: Any, value: Any, said: str) -> None:
        """A result that would not come back is an error of record, naming the step and the field, even if caught."""
        today, _ = producing(annotation, value)
        with pytest.raises(RecordingError) as caught:
            record(today)
        assert "step produce" in str(caught.value)
        assert said in str(caught.value)

    def test_even_if_the_flow_catches_it(self) -> None:
        """A flow that catches everything cannot hide it."""

        @step
        def produce() -> Any:
            return Opaque()

        @flow(id="careless", steps=[produce])
        async def careless(ctx: Context) -> str:
            try:
                return str(await ctx.run(produce))
            except BaseException:
                return "fine"

        with pytest.raises(RecordingError, match="step produce"):
            record(careless)

    def test_what_holds_itself(self) -> None:
        """A value that holds itself is an error, not a crash."""
        endless: list[Any] = []
        endless.append(endless)
        today, _ = producing(Any, endless)
        with pytest.raises(RecordingError, match="nested"):
            record(today)

    @pytest.mark.parametrize("what", ["argument", "decision", "state", "pending", "output"])
    def test_anywhere_else(self, what: str) -> None:
        """Arguments, decisions, states, pending calls and outputs that no log can hold are errors that name them."""

        @step
        def take(value: Any) -> None:
            RAN.append("take")

        @flow(id="giving", steps=[take], gates={"Go": Any})
        async def giving(ctx: Context) -> Any:
            if what == "argument":
                await ctx.run(take, {"a": Opaque()})
            elif what == "decision":
                ctx.decide("coin", lambda: {"a": Opaque()})
            elif what == "state":
                ctx.snapshot({"a": Opaque()})
            elif what == "pending":
                await ctx.suspend("Go", pending={"a": Opaque()})
            return {"a": Opaque()}

        names = {
            "argument": "step take: the input",
            "decision": "decision coin: the value",
            "state": "flow giving: the state",
            "pending": "gate Go: pending",
            "output": "flow giving: the output",
        }
        with pytest.raises(RecordingError, match=f"{names[what]}: a is a Opaque"):
            record(giving)
        assert RAN == []

    def test_annotation_of_which_nothing_is_known(self) -> None:
        """A class that pydantic knows nothing of, as an annotation, is an error that names the step."""
        today, _ = producing(Opaque, Opaque())
        with pytest.raises((FlowError, RecordingError), match="step produce"):
            record(today)

    def test_annotation_that_cannot_be_resolved(self) -> None:
        """An annotation that names what does not exist is an error, even if the flow catches everything."""

        @step
        def produce() -> Any:
            return 1

        produce.fn.__annotations__["return"] = "NoSuchThing"

        @flow(id="careless", steps=[produce])
        async def careless(ctx: Context) -> str:
            try:
                return str(await ctx.run(produce))
            except Exception:
                return "fine"

        with pytest.raises(FlowError, match="NoSuchThing"):
            record(careless)


class TestReading:
    @pytest.mark.parametrize("name", ["subprocess.Popen", {}, [1]])
    def test_the_logs_word_makes_no_class(self, name: Any) -> None:
        """A mark in a log is read only as a class that the annotation leads to, else it stays data."""
        builder = LogBuilder("x", "producing")
        builder.add("EXECUTION_STARTED", {}, timestamp=0)
        builder.add("STEP_STARTED", {"stepId": "produce"}, timestamp=0)
        mark = {"$type": name, "$via": "fields", "$value": {"args": ["true"]}}
        builder.add("STEP_COMPLETED", {"stepId": "produce", "output": {"a": mark}}, timestamp=0)
        builder.add("EXECUTION_COMPLETED", {"output": None}, timestamp=0)
        today, seen = producing(Any, None)
        replay(builder.log(), today)
        assert seen == [{"a": mark}]

    def test_a_result_that_does_not_fit_any_more(self) -> None:
        """A recorded result that today's annotation rejects is a divergence that names the field."""
        log = record(producing(dict[str, Any], {"amount": "ten"})[0])
        with pytest.raises(ReplayDivergence, match="amount") as caught:
            replay(log, producing(Money, None)[0])
        assert caught.value.kind == "output-type"

    def test_sets_are_written_sorted(self) -> None:
        """The same set gives the same bytes, whatever order it is in."""
        logs = [record(producing(set[str], set(names))[0]) for names in ("abcdef", "fedcba")]
        assert logs[0].events[2].raw == logs[1].events[2].raw
        assert logs[0].events[2].payload["output"] == list("abcdef")

    def test_json_forms(self) -> None:
        """Bytes are base64, non-finite floats and decimals text, dates ISO: what pydantic writes."""
        forms: list[tuple[Any, Any, Any]] = [
            (bytes, b"\xff\xfe", "__4="),
            (float, math.nan, "NaN"),
            (float, -math.inf, "-Infinity"),
            (Decimal, Decimal("1.10"), "1.10"),
            (dt.date, DAY, "2026-03-29"),
            (dt.timedelta, dt.timedelta(seconds=90), "PT1M30S"),
            (UUID, SOME_UUID, str(SOME_UUID)),
            (Colour, Colour.RED, "red"),
            (Path, Path("a/b"), "a/b"),
            (Money, Money(Decimal(1)), {"amount": "1", "currency": "EUR"}),
        ]
        for annotation, value, written in forms:
            log = record(producing(annotation, value)[0])
            assert log.events[2].payload["output"] == written
