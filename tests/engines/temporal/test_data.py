"""What schemas say of recorded payloads, beside what Temporal's own converters really make of them."""

# mypy: disallow-untyped-decorators=False, disallow-subclassing-any=False

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import pytest

from pytest_loom.contract.pending import value_problems
from pytest_loom.sources.temporal.types import arguments_schema, schema_of

pytest.importorskip("temporalio", reason="needs the extra temporal")
pydantic: Any = pytest.importorskip("pydantic")
converter: Any = pytest.importorskip("temporalio.converter")
contrib: Any = pytest.importorskip("temporalio.contrib.pydantic")
common: Any = pytest.importorskip("temporalio.api.common.v1")


class Tier(enum.StrEnum):
    """A plan."""

    FREE = "free"
    PAID = "paid"


class Level(enum.IntEnum):
    """A number with a name."""

    LOW = 1


@dataclass
class Line:
    """One position."""

    sku: str
    count: int = 1


@dataclass
class Order:
    """What was recorded."""

    order_id: str
    cents: int
    lines: list[Line] = field(default_factory=list)
    tier: Tier = Tier.FREE
    placed: datetime | None = None
    raw: bytes = b""
    done: bool = field(init=False, default=False)


@dataclass
class NewDefault:
    """A field more, with a default."""

    order_id: str
    cents: int
    note: str = ""


@dataclass
class NewRequired:
    """A field more, without."""

    order_id: str
    cents: int
    country: str


@dataclass
class Renamed:
    """The amount has another name, behind a default."""

    order_id: str
    amount_cents: int = 0


@dataclass
class Dropped:
    """The amount is gone."""

    order_id: str


@dataclass
class Retyped:
    """The amount is a text."""

    order_id: str
    cents: str


class Model(pydantic.BaseModel):
    """The same as a model, where old names are read too."""

    order_id: str
    amount: int = pydantic.Field(validation_alias=pydantic.AliasChoices("amount", "cents"))


ORDER = Order("o1", 4999, [Line("a", 2)], Tier.PAID)
BOTH = (converter.default().payload_converter, contrib.pydantic_data_converter.payload_converter)


def recorded(value: Any) -> Any:
    """The value as a log has it: what the converter wrote, read as JSON."""
    (payload,) = BOTH[0].to_payloads([value])
    return json.loads(payload.data or b"null")


def decodes(value: Any, hint: Any, by: Any) -> bool:
    """Whether one of Temporal's converters takes recorded JSON for a type."""
    payload = common.Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value).encode())
    try:
        by.from_payloads([payload], [hint])
    except Exception:
        return False
    return True


GOOD: list[tuple[Any, Any]] = [
    (ORDER, Order),
    (ORDER, NewDefault),
    (ORDER, Dropped),
    (Line("a"), Line),
    ([Line("a")], list[Line]),
    ({"k": Line("a")}, dict[str, Line]),
    (Tier.PAID, Tier),
    (Level.LOW, Level),
    (3, float),
    (None, Line | None),
    ("x", Literal["x", "y"]),
    ("5f0c0b1e-6e3e-4b0a-9d5d-0d9c3a1c2b3d", UUID),
    (["a", 1], tuple[str, int]),
    ({"a": {"b": [1, None]}}, Any),
    ({"a": 1}, dict),
    (1, int | str),
]
BAD: list[tuple[Any, Any]] = [
    (ORDER, NewRequired),
    (ORDER, Retyped),
    (ORDER, str),
    ("x", Line),
    ("big", Tier),
    ("z", Literal["x", "y"]),
    ([1], list[Line]),
    ("no time", datetime),
    (None, str),
    ("words", int),
]


@pytest.mark.parametrize(("value", "hint"), GOOD)
def test_what_either_converter_takes_is_no_problem(value: Any, hint: Any) -> None:
    """A schema that refuses what runs would be a false alarm."""
    data = recorded(value)
    assert any(decodes(data, hint, by) for by in BOTH)
    assert value_problems(None, schema_of(hint), data) == []


@pytest.mark.parametrize(("value", "hint"), BAD)
def test_what_both_converters_refuse_is_one(value: Any, hint: Any) -> None:
    """Each worker that decodes it fails, or drops it."""
    data = recorded(value)
    assert not any(decodes(data, hint, by) for by in BOTH)
    assert value_problems(None, schema_of(hint), data) != []


def test_a_field_renamed_behind_a_default_decodes_and_is_lost() -> None:
    """Both converters take it, with another amount than was recorded: only the schema says so."""
    data = {"order_id": "o1", "cents": 4999}
    for by in BOTH:
        payload = common.Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(data).encode())
        assert by.from_payloads([payload], [Renamed])[0].amount_cents == 0
    (problem,) = value_problems(None, schema_of(Renamed), data)
    assert (problem.kind, problem.path) == ("renamed", "cents")
    assert "amount_cents" in problem.detail


def test_a_model_that_reads_the_old_name_is_fine() -> None:
    """An alias is how a renamed field is kept readable."""
    data = {"order_id": "o1", "cents": 4999}
    assert decodes(data, Model, BOTH[1])
    assert value_problems(None, schema_of(Model), data) == []


def test_a_new_argument_leaves_a_dataclass_undecoded() -> None:
    """Where fewer arguments were recorded than there are annotations, temporalio decodes by none of them."""
    payloads = BOTH[0].to_payloads([Line("a")])
    assert BOTH[0].from_payloads(payloads, None) == [{"sku": "a", "count": 1}]
    assert value_problems(None, arguments_schema([Line, str], 1), recorded(Line("a"))) != []
    assert value_problems(None, arguments_schema([str, str], 1), "a") == []
