"""Which pending approvals have to be asked for again: a table of old and new tools, decided by running both.

Each row is a tool's signature yesterday and today, and the arguments that were approved. Real functions are made of
both, their schemas are pydantic's (in the forms in which agents' SDKs write them), the arguments are bound to both as
those SDKs do, and both are run. What they were called with decides what ``pending_problems`` has to say.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import itertools
import typing
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, Base64Bytes, BaseModel, ConfigDict, Field, ValidationError, create_model

from pytest_loom import tool
from pytest_loom.contract.model import ToolContract
from pytest_loom.contract.pending import Problem, pending_problems
from pytest_loom.flow.contract import arguments_schema


class Item(BaseModel):
    sku: str
    count: int


class ItemInOtherWords(BaseModel):
    """An item of an order."""

    count: int = Field(description="how many", examples=[3])
    sku: str = Field(title="Article", description="what")


class ItemWithNote(BaseModel):
    sku: str
    count: int
    note: str | None = None


class ItemWithGift(BaseModel):
    sku: str
    count: int
    gift: bool = True


class ItemWithPrice(BaseModel):
    sku: str
    count: int
    price: int


class ItemRenamed(BaseModel):
    sku: str
    quantity: int = 1


class ItemOfText(BaseModel):
    sku: str
    count: str


class ItemFew(BaseModel):
    sku: str
    count: int = Field(le=5)


class ItemClosed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sku: str
    count: int


class ItemOpen(BaseModel):
    model_config = ConfigDict(extra="allow")
    sku: str
    count: int


class Tree(BaseModel):
    name: str
    parts: list[Tree] = []


class TreeInOtherWords(BaseModel):
    """A tree."""

    name: str = Field(description="its name")
    parts: list[TreeInOtherWords] = []


class TreeWithSize(BaseModel):
    name: str
    parts: list[TreeWithSize] = []
    size: int = 1


class TreeNumbered(BaseModel):
    name: int
    parts: list[TreeNumbered] = []


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class CardShort(BaseModel):
    kind: Literal["card"]
    number: str = Field(max_length=4)


class Bank(BaseModel):
    kind: Literal["bank"]
    iban: str


class Cash(BaseModel):
    kind: Literal["cash"]


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class ModeFewer(enum.Enum):
    FAST = "fast"


class ModeMore(enum.Enum):
    SLOW = "slow"
    FAST = "fast"
    NONE = "none"


Pay = Annotated[Card | Bank, Field(discriminator="kind")]
PayMore = Annotated[Cash | Bank | Card, Field(discriminator="kind")]
PayNoCard = Annotated[Cash | Bank, Field(discriminator="kind")]
PayShort = Annotated[CardShort | Bank, Field(discriminator="kind")]


@dataclass(frozen=True)
class Row:
    """A tool's signature yesterday and today, and what was approved; the SDKs in whose form it is tried."""

    name: str
    old: str
    new: str
    args: dict[str, Any]
    sdks: tuple[str, ...] = ("native", "langchain", "pydantic-ai")


PAY = {"order": "A-1", "amount": 4999}
ITEM = {"item": {"sku": "x", "count": 3}}
TREE = {"tree": {"name": "1", "parts": [{"name": "2", "parts": [{"name": "3"}]}]}}
STRICT = ("strict",)
OPEN = ("native", "langchain")

ROWS = [
    # words and order
    Row("nothing-changed", "order: str, amount: int", "order: str, amount: int", PAY),
    Row("arguments-swapped", "order: str, amount: int", "amount: int, order: str", PAY),
    Row("described", "order: str, amount: int", "order: Annotated[str, Field(description='its id')], amount: int", PAY),
    Row("titled", "order: str, amount: int", "order: str, amount: Annotated[int, Field(title='Cents')]", PAY),
    Row("exampled", "order: str, amount: int", "order: str, amount: Annotated[int, Field(examples=[1])]", PAY),
    Row(
        "deprecated",
        "order: str, amount: int",
        "order: Annotated[str, Field(json_schema_extra={'deprecated': True})], amount: int",
        PAY,
    ),
    # names
    Row("renamed", "order: str, amount_cents: int", "order: str, amount: int", {"order": "A", "amount_cents": 1}),
    Row("renamed-behind-a-default", "order: str, amount: int", "order: str, total: int = 0", PAY),
    Row("renamed-behind-null", "order: str, amount: int", "order: str, total: int | None = None", PAY),
    Row("argument-removed", "order: str, amount: int", "order: str", PAY),
    Row("unnamed-optional-removed", "order: str, memo: str | None = None", "order: str", {"order": "A"}),
    Row("named-optional-removed", "order: str, memo: str | None = None", "order: str", {"order": "A", "memo": "m"}),
    Row("unnamed-default-removed", "order: str, loud: bool = True", "order: str", {"order": "A"}),
    Row("split", "name: str", "first: str, last: str", {"name": "Ada L"}),
    Row("merged", "first: str, last: str", "name: str", {"first": "Ada", "last": "L"}),
    # what is new
    Row("new-required", "order: str", "order: str, region: str", {"order": "A"}),
    Row("new-null-default", "order: str", "order: str, memo: str | None = None", {"order": "A"}),
    Row("new-default", "order: str", "order: str, breakfast: bool = True", {"order": "A"}),
    Row("new-default-zero", "order: str", "order: str, fee: int = 0", {"order": "A"}),
    Row(
        "two-new-null-defaults", "order: str", "order: str, a: int | None = None, b: Item | None = None", {"order": "A"}
    ),
    Row("default-given-to-a-named-one", "order: str, amount: int", "order: str, amount: int = 1", PAY),
    Row("default-changed-but-named", "amount: int = 1", "amount: int = 2", {"amount": 3}),
    Row("default-changed-unnamed", "amount: int = 1", "amount: int = 2", {}),
    Row("null-default-now-something", "amount: int | None = None", "amount: int | None = 2", {}),
    Row("default-now-null", "amount: int | None = 2", "amount: int | None = None", {}),
    Row("required-now-though-unnamed", "amount: int = 1", "amount: int", {}),
    Row("required-now-and-named", "amount: int = 1", "amount: int", {"amount": 1}),
    Row("optional-now", "order: str, amount: int", "order: str, amount: int | None = None", PAY),
    # types
    Row("int-to-str", "amount: int", "amount: str", {"amount": 1}),
    Row("int-to-float", "amount: int", "amount: float", {"amount": 4999}),
    Row("float-to-int", "amount: float", "amount: int", {"amount": 5.0}),
    Row("float-to-int-with-a-fraction", "amount: float", "amount: int", {"amount": 5.5}),
    Row("int-to-bool", "amount: int", "amount: bool", {"amount": 1}),
    Row("int-to-nullable", "amount: int", "amount: int | None", {"amount": 1}),
    Row("nullable-to-int", "amount: int | None", "amount: int", {"amount": 1}),
    Row("nullable-to-int-with-null", "amount: int | None", "amount: int", {"amount": None}),
    Row("int-to-int-or-str", "amount: int", "amount: str | int", {"amount": 1}),
    Row("int-or-str-to-str", "amount: int | str", "amount: str", {"amount": 1}),
    Row("int-or-str-to-int", "amount: int | str", "amount: int", {"amount": 1}),
    Row("union-swapped", "amount: int | str | None", "amount: None | str | int", {"amount": 1}),
    Row("float-or-int-to-float", "amount: int | float", "amount: float", {"amount": 1}),
    Row("int-to-int-or-float", "amount: int", "amount: float | int", {"amount": 1}),
    Row("anything-to-int", "amount: Any", "amount: int", {"amount": 1}),
    Row("anything-to-int-with-text", "amount: Any", "amount: int", {"amount": "1"}),
    Row("int-to-anything", "amount: int", "amount: Any", {"amount": 1}),
    Row("text-read-as-int-by-both", "amount: int", "amount: int | None", {"amount": "12"}),
    Row("text-read-as-int-then-limited", "amount: int", "amount: Annotated[int, Field(le=10)]", {"amount": "12"}),
    Row("text-read-as-int-then-as-text", "amount: int", "amount: int | str", {"amount": "12"}),
    Row("float-to-decimal", "amount: float", "amount: Decimal", {"amount": 1.5}),
    Row("str-to-decimal", "amount: str", "amount: Decimal", {"amount": "1.5"}),
    Row("decimal-optional", "amount: Decimal", "amount: Decimal | None = None", {"amount": "1.5"}),
    Row("str-to-bytes", "data: str", "data: Base64Bytes", {"data": "aGk="}),
    # members
    Row("enum-narrowed-to-it", "mode: Literal['a', 'b']", "mode: Literal['a']", {"mode": "a"}),
    Row("enum-narrowed-away", "mode: Literal['a', 'b']", "mode: Literal['b']", {"mode": "a"}),
    Row("enum-widened", "mode: Literal['a', 'b']", "mode: Literal['c', 'b', 'a']", {"mode": "a"}),
    Row("str-to-enum-with-it", "mode: str", "mode: Literal['a', 'b']", {"mode": "a"}),
    Row("str-to-enum-without-it", "slot: str", "slot: Literal['09:00', '10:30']", {"slot": "2026-01-01T09:00"}),
    Row("enum-to-str", "mode: Literal['a', 'b']", "mode: str", {"mode": "a"}),
    Row("enum-class-widened", "mode: Mode", "mode: ModeMore", {"mode": "slow"}),
    Row("enum-class-narrowed", "mode: Mode", "mode: ModeFewer", {"mode": "slow"}),
    Row("enum-class-to-literal", "mode: Mode", "mode: Literal['slow', 'fast']", {"mode": "slow"}),
    Row("enum-of-numbers-to-text", "size: Literal[1, 2]", "size: Literal['1', '2']", {"size": 1}),
    Row("newly-accepted", "mode: Literal['a']", "mode: Literal['a', 'b']", {"mode": "b"}),
    # limits and formats
    Row("limit-below-it", "amount: int", "amount: Annotated[int, Field(le=2500)]", {"amount": 4999}),
    Row("limit-above-it", "amount: int", "amount: Annotated[int, Field(le=9000, gt=0)]", {"amount": 4999}),
    Row("limit-lifted", "amount: Annotated[int, Field(le=9000)]", "amount: int", {"amount": 4999}),
    Row("multiple", "amount: int", "amount: Annotated[int, Field(multiple_of=100)]", {"amount": 4999}),
    Row("text-too-long-now", "memo: str", "memo: Annotated[str, Field(max_length=3)]", {"memo": "hello"}),
    Row("text-still-short", "memo: str", "memo: Annotated[str, Field(max_length=9)]", {"memo": "hello"}),
    Row("pattern-fits", "order: str", "order: Annotated[str, Field(pattern='^[A-Z]-[0-9]+$')]", {"order": "A-1"}),
    Row("pattern-does-not-fit", "order: str", "order: Annotated[str, Field(pattern='^[0-9]+$')]", {"order": "A-1"}),
    Row("list-too-long-now", "ids: list[int]", "ids: Annotated[list[int], Field(max_length=1)]", {"ids": [1, 2]}),
    Row("str-to-date", "day: str", "day: datetime.date", {"day": "2026-01-02"}),
    Row("str-to-date-that-is-none", "day: str", "day: datetime.date", {"day": "tomorrow"}),
    Row("date-to-datetime", "day: datetime.date", "day: datetime.datetime", {"day": "2026-01-02"}),
    Row("date-nullable", "day: datetime.date", "day: datetime.date | None = None", {"day": "2026-01-02"}),
    Row("date-default-changed", "day: datetime.date", "day: datetime.date = datetime.date.min", {"day": "2026-01-02"}),
    Row("uuid-to-str", "key: uuid.UUID", "key: str", {"key": "12345678-1234-5678-1234-567812345678"}),
    Row("str-to-url", "link: str", "link: AnyUrl", {"link": "https://example.org"}),
    Row(
        "format-in-words",
        "code: str",
        "code: Annotated[str, Field(json_schema_extra={'format': 'sku'})]",
        {"code": "x"},
    ),
    # inside
    Row("item-in-other-words", "item: Item", "item: ItemInOtherWords", ITEM),
    Row("item-gained-a-note", "item: Item", "item: ItemWithNote", ITEM),
    Row("item-gained-a-default", "item: Item", "item: ItemWithGift", ITEM),
    Row("item-gained-a-requirement", "item: Item", "item: ItemWithPrice", ITEM),
    Row("item-key-renamed", "item: Item", "item: ItemRenamed", ITEM),
    Row("item-key-retyped", "item: Item", "item: ItemOfText", ITEM),
    Row("item-key-limited", "item: Item", "item: ItemFew", ITEM),
    Row("item-key-limited-below-it", "item: Item", "item: ItemFew", {"item": {"sku": "x", "count": 6}}),
    Row("item-nullable", "item: Item", "item: ItemInOtherWords | None = None", ITEM),
    Row("item-to-dict", "item: Item", "item: dict[str, Any]", ITEM),
    Row("item-from-dict", "item: dict[str, Any]", "item: Item", ITEM),
    Row("item-from-dict-with-more", "item: dict[str, Any]", "item: Item", {"item": {"sku": "x", "count": 3, "hue": 1}}),
    Row("item-extra-ignored-by-both", "item: Item", "item: ItemWithNote", {"item": {"sku": "x", "count": 3, "hue": 1}}),
    Row("item-extra-newly-read", "item: Item", "item: ItemWithNote", {"item": {"sku": "x", "count": 3, "note": "n"}}),
    Row("item-closed", "item: Item", "item: ItemClosed", ITEM),
    Row("item-closed-with-more", "item: Item", "item: ItemClosed", {"item": {"sku": "x", "count": 3, "hue": 1}}),
    Row("item-open-with-more", "item: Item", "item: ItemOpen", {"item": {"sku": "x", "count": 3, "hue": 1}}),
    Row("item-open-to-ignoring", "item: ItemOpen", "item: Item", {"item": {"sku": "x", "count": 3, "hue": 1}}),
    Row("item-or-text", "item: Item", "item: str | ItemInOtherWords", ITEM),
    Row(
        "items-gained-a-default",
        "items: list[Item]",
        "items: list[ItemWithGift]",
        {"items": [{"sku": "x", "count": 3}]},
    ),
    Row("items-none-gained-a-default", "items: list[Item]", "items: list[ItemWithGift]", {"items": []}),
    Row("items-retyped-in-one", "items: list[int]", "items: list[str]", {"items": [1]}),
    Row("items-none-retyped", "items: list[int]", "items: list[str]", {"items": []}),
    Row("list-to-set", "ids: list[int]", "ids: set[int]", {"ids": [1, 1, 2]}),
    Row("pair", "pair: tuple[int, str]", "pair: tuple[int, str]", {"pair": [1, "a"]}),
    Row("pair-retyped", "pair: tuple[int, str]", "pair: tuple[str, str]", {"pair": [1, "a"]}),
    Row("map-retyped", "prices: dict[str, int]", "prices: dict[str, float]", {"prices": {"a": 1}}),
    Row("map-same", "prices: dict[str, int]", "prices: dict[str, int | None]", {"prices": {"a": 1}}),
    Row("tree-in-other-words", "tree: Tree", "tree: TreeInOtherWords", TREE),
    Row("tree-gained-a-default", "tree: Tree", "tree: TreeWithSize", TREE),
    Row("tree-retyped-deep-down", "tree: Tree", "tree: TreeNumbered", TREE),
    Row("pay-widened", "pay: Pay", "pay: PayMore", {"pay": {"kind": "card", "number": "12345"}}),
    Row("pay-without-it", "pay: Pay", "pay: PayNoCard", {"pay": {"kind": "card", "number": "12345"}}),
    Row("pay-limited", "pay: Pay", "pay: PayShort", {"pay": {"kind": "card", "number": "12345"}}),
    Row("pay-other-limited", "pay: Pay", "pay: PayShort", {"pay": {"kind": "bank", "iban": "12345"}}),
    Row("pay-undiscriminated", "pay: Pay", "pay: Bank | Card", {"pay": {"kind": "bank", "iban": "12345"}}),
    # keys that are not declared
    Row("open-takes-it", "order: str, **rest: Any", "order: str, amount: Any, **rest: Any", PAY, OPEN),
    Row("open-closed", "order: str, **rest: Any", "order: str", PAY, OPEN),
    Row("opened", "order: str, amount: int", "order: str, **rest: Any", PAY, OPEN),
    Row("extra-ignored-by-both", "order: str", "order: str, memo: str | None = None", PAY, ("langchain",)),
    Row("extra-newly-read", "order: str", "order: str, amount: int = 0", PAY, ("langchain",)),
    Row("extra-refused-by-both", "order: str", "order: Annotated[str, Field(title='Id')]", PAY, ("native", "strict")),
    # OpenAI's strict functions: everything required, nothing else allowed
    Row(
        "strict-words", "order: str, amount: int", "amount: int, order: Annotated[str, Field(title='Id')]", PAY, STRICT
    ),
    Row("strict-renamed", "order: str, amount: int", "order: str, total: int", PAY, STRICT),
    Row("strict-removed", "order: str, amount: int", "order: str", PAY, STRICT),
    Row("strict-new-required", "order: str, amount: int", "order: str, amount: int, region: str", PAY, STRICT),
    Row("strict-new-default", "order: str, amount: int", "order: str, amount: int, fee: int = 5", PAY, STRICT),
    Row("strict-retyped", "order: str, amount: int", "order: str, amount: str", PAY, STRICT),
    Row("strict-item", "item: ItemClosed", "item: ItemClosed | None", ITEM, STRICT),
]


NAMES = {
    **globals(),  # what only the rows name:
    **{"Annotated": Annotated, "Any": Any, "AnyUrl": AnyUrl, "Base64Bytes": Base64Bytes, "datetime": datetime},
    **{"Decimal": Decimal, "Field": Field, "Literal": Literal, "Union": typing.Union, "uuid": uuid},
}


def made(signature: str, model_extra: str) -> tuple[Callable[..., Any], type[BaseModel]]:
    """A real function that returns what it was called with, and the model by which an SDK binds its arguments."""
    code = compile(f"def effect({signature}): return dict(locals())", "<row>", "exec", dont_inherit=True)
    names = dict(NAMES)
    exec(code, names)
    function = names["effect"]
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            model_extra = "allow"
        else:
            fields[name] = (hints[name], ... if parameter.default is parameter.empty else parameter.default)
    config = ConfigDict(extra=typing.cast(Any, model_extra))
    return function, create_model("effect", __config__=config, **fields)


EXTRA = {"native": "forbid", "langchain": "ignore", "pydantic-ai": "forbid", "strict": "forbid"}


NUMBER = itertools.count()  # codecs are kept by name and annotation, and int | str equals str | int


def schema_in(sdk: str, function: Callable[..., Any], model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a tool's arguments in the form in which an SDK writes it."""
    if sdk == "native":
        return arguments_schema(tool(name=f"effect-{next(NUMBER)}")(function))
    schema = model.model_json_schema()
    return strict(schema) if sdk == "strict" else schema


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """What OpenAI's strict functions make of a schema: all required, nothing else, null defaults gone."""
    for part in [schema, *schema.get("$defs", {}).values()]:
        if "properties" in part:
            part["required"] = list(part["properties"])
            part["additionalProperties"] = False
            for child in part["properties"].values():
                if "default" in child and child["default"] is None:
                    del child["default"]
    return schema


def told(value: Any) -> Any:
    """What a tool was called with, with the type of each value, whatever classes it came in."""
    if isinstance(value, BaseModel):
        return {name: told(getattr(value, name)) for name in [*type(value).model_fields, *(value.model_extra or {})]}
    if isinstance(value, dict):
        return {key: told(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(part) for part in value]
    if isinstance(value, set):
        return "set", sorted(repr(part) for part in value)
    if isinstance(value, enum.Enum):
        return told(value.value)
    return type(value).__name__, repr(value)


def run(function: Callable[..., Any], model: type[BaseModel], args: dict[str, Any]) -> dict[str, Any] | None:
    """Bind ``args``, run the tool, and give what it was called with; None where the call fails."""
    try:
        bound = model.model_validate(args)
        called = function(**{name: getattr(bound, name) for name in model.model_fields}, **(bound.model_extra or {}))
    except (ValidationError, TypeError):
        return None
    called.update(called.pop("rest", {}))
    return typing.cast("dict[str, Any]", told(called))


NULL = ("NoneType", "None")
ORDER = ["silent", "warning", "reapprove"]


def owed(old: Any, new: Any, args: Any) -> str:
    """What has to be said of an approval when the old tool is called with ``old`` and the new one with ``new``."""
    if old == new:
        return "silent"
    if isinstance(old, dict) and isinstance(new, dict):
        worst = "silent"
        for key in old.keys() | new.keys():
            shown = args.get(key) if isinstance(args, dict) else None
            if key in old and key in new:
                found = owed(old[key], new[key], shown)
            elif (old if key in old else new)[key] == NULL:
                found = "silent"
            else:
                found = "warning" if key in new and shown is None else "reapprove"
            worst = max(worst, found, key=ORDER.index)
        return worst
    if isinstance(old, list) and isinstance(new, list) and isinstance(args, list) and len(old) == len(new):
        return max((owed(*three) for three in zip(old, new, args, strict=True)), key=ORDER.index, default="silent")
    return "reapprove"


def said(problems: list[Problem]) -> str:
    """The worst that was said."""
    return max((problem.verdict for problem in problems), key=ORDER.index, default="silent")


def table(row: Row, sdk: str, old: Any, new: Any, expected: str, problems: list[Problem]) -> str:
    """A row as people read it."""
    lines = [
        f"{row.name} in the form of {sdk}",
        f"  approved {row.args}",
        f"  old      tool({row.old}) was called with {old}",
        f"  new      tool({row.new}) is called with  {new}",
        f"  expected {expected}; said {said(problems)}",
        *(f"  said     {problem}" for problem in problems),
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("row", "sdk"), [pytest.param(row, sdk, id=f"{row.name}-{sdk}") for row in ROWS for sdk in row.sdks]
)
def test_an_approval_is_asked_again_exactly_where_the_call_would_be_another(row: Row, sdk: str) -> None:
    """Both tools are run with what was approved: the same call is silent, another one is not."""
    old, new = made(row.old, EXTRA[sdk]), made(row.new, EXTRA[sdk])
    called_old, called_new = run(*old, row.args), run(*new, row.args)
    expected = owed(called_old, called_new, row.args)
    problems = pending_problems(
        ToolContract(schema=schema_in(sdk, *old)), ToolContract(schema=schema_in(sdk, *new)), row.args
    )
    assert said(problems) == expected, table(row, sdk, called_old, called_new, expected, problems)


ATOM = st.sampled_from([None, True, 0, 1, 2, 7, 1.0, 1.5, "", "a", "1", "b", "slow", "1.5", "2026-01-02", "true"])
KEYS = st.sampled_from(["sku", "count", "note", "gift", "name", "kind", "z"])
JSON = st.recursive(
    ATOM, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=4
)
FITTING: dict[str, list[Any]] = {
    **{
        "int": [1, 0, "7", 1.0],
        "float": [1.5, 2, "1.5"],
        "str": ["a", "1", ""],
        "bool": [True, 1, "true"],
        "None": [None],
    },
    **{"Literal['a', 1]": ["a", 1, True], "Literal['1', 'b']": ["1"], "Mode": ["slow"], "Any": [{"sku": 1}, "a", 1]},
    **{"Annotated[int, Field(gt=0, lt=3)]": [1, 2], "Annotated[str, Field(min_length=1, max_length=2)]": ["a"]},
    **{"datetime.date": ["2026-01-02"], "datetime.datetime": ["2026-01-02"], "set[int]": [[1, 2], [1, 1]]},
    **{name: [{"sku": "x", "count": 1}, {"sku": "x", "count": 1, "note": "z"}] for name in ("Item", "ItemClosed")},
    **{"ItemWithNote": [{"sku": "x", "count": 1}], "ItemWithGift": [{"sku": "x", "count": 1, "gift": False}]},
    **{
        "ItemRenamed": [{"sku": "x"}],
        "ItemOfText": [{"sku": "x", "count": "1"}],
        "Tree": [TREE["tree"], {"name": "1"}],
    },
    **{name: [{"kind": "card", "number": "1"}] for name in ("Pay", "Card")},
    **{
        "tuple[int, str]": [[1, "a"]],
        "dict[str, Any]": [{"sku": "x", "count": 1}, {}],
        "uuid.UUID": [str(uuid.UUID(int=1))],
    },
}
TYPES: st.SearchStrategy[tuple[str, Any]] = st.recursive(
    st.sampled_from([(name, value) for name, values in FITTING.items() for value in values]),
    lambda inner: (
        inner.map(lambda one: (f"list[{one[0]}]", [one[1]]))
        | inner.map(lambda one: (f"dict[str, {one[0]}]", {"z": one[1]}))
        | st.lists(inner, min_size=2, max_size=3).map(
            lambda many: (f"Union[{', '.join(one[0] for one in many)}]", many[0][1])
        )
    ),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(old=TYPES, new=TYPES, other=st.none() | JSON, sdk=st.sampled_from(["native", "langchain", "pydantic-ai"]))
def test_no_other_call_passes_in_silence(old: tuple[str, Any], new: tuple[str, Any], other: Any, sdk: str) -> None:
    """Whatever types an argument had and has: where the tools would be called differently, something is said."""
    args = {"x": old[1] if other is None else other}
    tools = made(f"x: {old[0]}", EXTRA[sdk]), made(f"x: {new[0]}", EXTRA[sdk])
    called = [run(*one, args) for one in tools]
    expected = owed(called[0], called[1], args)
    before, today = (ToolContract(schema=schema_in(sdk, *one)) for one in tools)
    problems = pending_problems(before, today, args)
    row = Row("generated", f"x: {old[0]}", f"x: {new[0]}", args)
    least = max(said(problems), expected, key=ORDER.index)
    assert least == said(problems), table(row, sdk, called[0], called[1], expected, problems)


def thing(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object schema that requires all its properties, unless it says otherwise."""
    return {"type": "object", "properties": properties, "required": list(properties), **more}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
ITEM_SCHEMA = thing({"sku": TEXT, "count": WHOLE})
HAND_WRITTEN: dict[str, tuple[Any, ...]] = {
    "null-by-a-list-of-types": (
        *(thing({"x": TEXT}), thing({"x": {"type": ["string", "null"]}})),
        *("x: str", "x: str | None", {"x": "a"}),
    ),
    "no-null-in-a-list-of-types": (
        *(thing({"x": {"type": ["string", "null"]}}), thing({"x": TEXT})),
        *("x: str | None", "x: str", {"x": None}),
    ),
    "old-definitions": (
        {**thing({"item": {"$ref": "#/$defs/Item"}}), "$defs": {"Item": ITEM_SCHEMA}},
        {**thing({"item": {"allOf": [{"$ref": "#/definitions/Thing"}]}}), "definitions": {"Thing": ITEM_SCHEMA}},
        *("item: Item", "item: Item", ITEM),
    ),
    "all-of-adds-a-requirement": (
        thing({"item": ITEM_SCHEMA}),
        thing({"item": {"allOf": [ITEM_SCHEMA, thing({"price": WHOLE})]}}),
        *("item: Item", "item: ItemWithPrice", ITEM),
    ),
    "inlined": (
        {**thing({"item": {"$ref": "#/$defs/Item"}}), "$defs": {"Item": ITEM_SCHEMA}},
        thing({"item": ITEM_SCHEMA}),
        *("item: Item", "item: Item", ITEM),
    ),
    "a-pointer-into-another-property": (
        thing({"item": ITEM_SCHEMA, "spare": ITEM_SCHEMA}),
        thing({"item": ITEM_SCHEMA, "spare": {"$ref": "#/properties/item"}}),
        *("item: Item, spare: Item", "item: Item, spare: Item", {**ITEM, "spare": {"sku": "y", "count": 1}}),
    ),
    "const-to-members": (
        *(thing({"x": {"const": "a"}}), thing({"x": {"enum": ["b", "a"]}})),
        *("x: Literal['a']", "x: Literal['b', 'a']", {"x": "a"}),
    ),
    "one-of-without-a-discriminator": (
        thing({"pay": {"oneOf": [thing({"kind": {"const": "card"}, "number": TEXT})]}}),
        thing(
            {"pay": {"oneOf": [thing({"kind": {"const": "cash"}}), thing({"kind": {"const": "bank"}, "iban": TEXT})]}}
        ),
        *("pay: Card", "pay: Cash | Bank", {"pay": {"kind": "card", "number": "1"}}),
    ),
    "a-tuple-of-an-older-draft": (
        thing({"pair": {"type": "array", "items": [WHOLE, TEXT], "minItems": 2, "maxItems": 2}}),
        thing({"pair": {"type": "array", "prefixItems": [WHOLE, TEXT], "minItems": 2, "maxItems": 2}}),
        *("pair: tuple[int, str]", "pair: tuple[int, str]", {"pair": [1, "a"]}),
    ),
    "true-and-nothing": (
        *(thing({"x": True}), thing({"x": {}})),
        *("x: Any", "x: Any", {"x": {"a": [1]}}),
    ),
    "required-and-a-default": (  # pydantic's serialization mode writes both
        thing({"x": WHOLE}),
        thing({"x": WHOLE, "fee": {"type": "integer", "default": 5}}),
        *("x: int", "x: int, fee: int = 5", {"x": 1}),
    ),
    "more-is-kept": (
        *(thing({"x": WHOLE}, additionalProperties=True), thing({"x": WHOLE}, additionalProperties=TEXT)),
        *("x: int, **rest: Any", "x: int, **rest: str", {"x": 1, "y": "a"}),
    ),
    "more-is-dropped": (
        *(thing({"x": WHOLE}, additionalProperties=True), thing({"x": WHOLE})),
        *("x: int, **rest: Any", "x: int", {"x": 1, "y": "a"}),
    ),
    "names-limited": (  # older versions of pydantic do not write these
        thing({"prices": {"type": "object", "additionalProperties": WHOLE}}),
        thing({"prices": {"type": "object", "additionalProperties": WHOLE, "propertyNames": {"const": "b"}}}),
        *("prices: dict[str, int]", "prices: dict[Literal['b'], int]", {"prices": {"a": 1}}),
    ),
    "limits-from-both-sides": (
        thing({"x": {"type": "integer", "minimum": 1}}),
        thing({"x": {"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "maximum": 3}]}}),
        *("x: Annotated[int, Field(ge=1)]", "x: Annotated[int, Field(ge=1, le=3)]", {"x": 4}),
    ),
}


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_a_schema_written_by_hand(name: str) -> None:
    """Forms that pydantic does not write mean what the tools behind them do."""
    old_schema, new_schema, old, new, args = HAND_WRITTEN[name]
    called = [run(*made(signature, "ignore"), args) for signature in (old, new)]
    expected = owed(called[0], called[1], args)
    problems = pending_problems(ToolContract(schema=old_schema), ToolContract(schema=new_schema), args)
    row = Row(name, old, new, args)
    assert said(problems) == expected, table(row, "JSON Schema", called[0], called[1], expected, problems)


def test_the_table_has_both_sides() -> None:
    """The table holds enough rows of either answer to tell a checker that always answers the same from a good one."""
    answers = [
        owed(
            run(*made(row.old, EXTRA[row.sdks[0]]), row.args),
            run(*made(row.new, EXTRA[row.sdks[0]]), row.args),
            row.args,
        )
        for row in ROWS
    ]
    assert len({row.name for row in ROWS}) == len(ROWS) >= 60
    assert answers.count("silent") >= 40
    assert answers.count("reapprove") >= 40
    assert answers.count("warning") >= 5


def test_strict_functions_do_not_say_which_null_is_a_default() -> None:
    """OpenAI's strict mode writes ``memo: str | None`` with and without a default alike, so it is asked again."""
    old = ToolContract(schema=schema_in("strict", *made("order: str", "forbid")))
    optional = schema_in("strict", *made("order: str, memo: str | None = None", "forbid"))
    assert optional == schema_in("strict", *made("order: str, memo: str | None", "forbid"))
    problems = pending_problems(old, ToolContract(schema=optional), {"order": "A"})
    assert [(problem.path, problem.kind) for problem in problems] == [("memo", "newly-required")]
