"""Changes between the code that saved a run and today's, each with what the real SDK is asked to do with the run.

``EFFECTS`` holds what the tools did. No network: models are scripted, and the SDK's tracing is off.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field

sdk: Any = pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")
responses: Any = importlib.import_module("openai.types.responses")
function_tool: Any = sdk.function_tool
sdk.set_tracing_disabled(True)
EFFECTS: list[str] = []
Json = dict[str, Any]


class Scripted(sdk.Model):  # type: ignore[misc]
    """A model that asks for ``calls`` once, and then says what the last tool said."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """The next response."""
        items = args[1] if len(args) > 1 else kwargs["input"]
        items = items if isinstance(items, list) else []
        asked = {item.get("call_id") for item in items if item.get("type") == "function_call"}
        fresh = [call for call in self.calls if call.call_id not in asked]
        said = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        output: list[Any] = list(fresh) if fresh and len(fresh) == len(self.calls) else [_say(" | ".join(said))]
        return sdk.ModelResponse(output=output, usage=sdk.Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Not used here."""
        raise NotImplementedError


def _say(text: str) -> Any:
    part = responses.ResponseOutputText(type="output_text", text=text, annotations=[])
    return responses.ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


def call(name: str, call_id: str = "c1", **arguments: Any) -> Any:
    """A call that a model asks for."""
    return responses.ResponseFunctionToolCall(
        id="fc_" + call_id, call_id=call_id, type="function_call", name=name, arguments=json.dumps(arguments)
    )


PAY = call("pay", order="A-17", cents=4999)


def agent(*tools: Any, name: str = "desk", calls: list[Any] | None = None, **more: Any) -> Any:
    """An agent with a scripted model."""
    return sdk.Agent(name=name, model=Scripted([PAY] if calls is None else calls), tools=list(tools), **more)


def done(*values: Any) -> str:
    """What a tool does: it leaves its arguments behind."""
    EFFECTS.append(" ".join(map(str, values)))
    return "done"


def plain_pay(order: str, cents: int) -> str:
    """Pay."""
    return done("pay", order, cents)


pay = function_tool(plain_pay, name_override="pay", needs_approval=True)


@dataclass
class Change:
    """One change: the old and the new starting agent, and what a human decides (``approve`` where not named).

    ``edit`` changes the saved state; ``expected`` is set where the effects alone do not tell: ``warning``.
    """

    name: str
    old: Callable[[], Any]
    new: Callable[[], Any]
    reject: tuple[str, ...] = ()
    always: str = ""
    approve_before: bool = False
    reject_before: bool = False
    edit: Callable[[Json], None] | None = None
    expected: str = ""


CHANGES: list[Change] = []


def change(name: str, old: Callable[[], Any], new: Callable[[], Any], **more: Any) -> None:
    """Add one."""
    CHANGES.append(Change(name, old, new, **more))


def tool(function: Callable[..., Any], **more: Any) -> Any:
    """``function`` as a tool called ``pay`` that asks for approval."""
    return function_tool(function, name_override="pay", **({"needs_approval": True} | more))


def _only(tool_: Any, **more: Any) -> Callable[[], Any]:
    return lambda: agent(tool_, **more)


BASE = _only(pay)


def renamed(order: str, amount: int) -> str:  # noqa: D103
    return done("pay", order, amount)


def renamed_default(order: str, amount: int = 0) -> str:  # noqa: D103
    return done("pay", order, amount)


def optional(order: str, cents: int, memo: str | None = None) -> str:  # noqa: D103
    return done("pay", order, cents)


def old_optional(order: str, cents: int, memo: Optional[str] = None, tags: list[str] | None = None) -> str:  # noqa: D103, UP045
    return done("pay", order, cents)


def defaulted(order: str, cents: int, currency: str = "JPY") -> str:  # noqa: D103
    return done("pay", order, cents, currency)


def required(order: str, cents: int, currency: str) -> str:  # noqa: D103
    return done("pay", order, cents, currency)


def fewer(order: str) -> str:  # noqa: D103
    return done("pay", order)


def as_text(order: str, cents: str) -> str:  # noqa: D103
    return done("pay", order, cents)


def limited(order: str, cents: Annotated[int, Field(le=2500)]) -> str:  # noqa: D103
    return done("pay", order, cents)


def wide_limit(order: str, cents: Annotated[int, Field(le=100_000)]) -> str:  # noqa: D103
    return done("pay", order, cents)


def patterned(order: Annotated[str, Field(pattern="^B-")], cents: int) -> str:  # noqa: D103
    return done("pay", order, cents)


def reordered(cents: Annotated[int, Field(description="in cents")], order: str) -> str:
    """Pay somebody, with other words."""
    return done("pay", order, cents)


def union(order: str | int, cents: int | None) -> str:  # noqa: D103
    return done("pay", order, cents)


def open_ended(order: str, **rest: Any) -> str:  # noqa: D103
    return done("pay", order, rest)


def with_context(ctx: Any, order: str, cents: int) -> str:  # noqa: D103
    return done("pay", order, cents)


def as_number(order: str, cents: float) -> str:  # noqa: D103
    return done("pay", order, cents)


class Order(BaseModel):
    """Arguments of a tool that is made by hand."""

    order: str
    cents: int


class OrderMore(Order):
    """One more, empty by default."""

    memo: str | None = None


class OrderRenamed(BaseModel):
    """One that is called otherwise, and may be left out."""

    order: str
    amount: int = 0


def by_hand(arguments: type[BaseModel], strict: bool = True) -> Any:
    """A tool that is no decorated function."""

    async def invoke(ctx: Any, given: str) -> str:
        read = arguments.model_validate_json(given)
        return done("pay", *(value for value in read.model_dump().values() if value is not None))

    schema = arguments.model_json_schema()
    return sdk.FunctionTool("pay", "Pays.", schema, invoke, strict_json_schema=strict, needs_approval=True)


for strict in (True, False):
    more = {"strict_mode": strict}
    word = "strict" if strict else "loose"
    change(f"renamed-{word}", BASE, _only(tool(renamed, **more)))
    change(f"renamed-default-{word}", BASE, _only(tool(renamed_default, **more)))
    change(f"optional-{word}", BASE, _only(tool(optional, **more)))
    change(f"default-{word}", BASE, _only(tool(defaulted, **more)), expected="warning")
    change(f"required-{word}", BASE, _only(tool(required, **more)))
    change(f"fewer-{word}", BASE, _only(tool(fewer, **more)))
    change(f"text-{word}", BASE, _only(tool(as_text, **more)))
    change(f"limited-{word}", BASE, _only(tool(limited, **more)))
    change(f"wide-limit-{word}", BASE, _only(tool(wide_limit, **more)))
    change(f"pattern-{word}", BASE, _only(tool(patterned, **more)))
    change(f"reordered-{word}", BASE, _only(tool(reordered, **more)))
    change(f"union-{word}", BASE, _only(tool(union, **more)))
    change(f"same-but-{word}", BASE, _only(tool(plain_pay, **more)))
    change(f"unsaid-optionals-{word}", _only(tool(old_optional)), _only(tool(old_optional, **more)))
    change(f"unsaid-optional-kept-{word}", _only(tool(optional)), _only(tool(optional, **more)))
    change(f"unsaid-optional-gone-{word}", _only(tool(optional)), _only(tool(plain_pay, **more)))
change("open-ended", BASE, _only(tool(open_ended, strict_mode=False)))
change("approval-dropped", BASE, _only(tool(plain_pay, needs_approval=False)))
change("approval-dropped-rejected", BASE, _only(tool(plain_pay, needs_approval=False)), reject=("pay",))
change("approval-rule", BASE, _only(tool(plain_pay, needs_approval=lambda ctx, args, call_id: False)))
change("tool-gone", BASE, lambda: agent())
change("tool-gone-rejected-before", BASE, lambda: agent(), reject_before=True)
change("tool-disabled", BASE, _only(tool(plain_pay, is_enabled=False)))
change("tool-renamed", BASE, _only(function_tool(plain_pay, name_override="payout", needs_approval=True)))
change("function-renamed", BASE, _only(tool(reordered)))
change("approved-before-same", BASE, BASE, approve_before=True)
change("approved-before-renamed", BASE, _only(tool(renamed)), approve_before=True)
change("number", BASE, _only(tool(as_number)))
change("by-hand", _only(by_hand(Order)), _only(by_hand(Order)))
change("by-hand-loose", _only(by_hand(Order)), _only(by_hand(Order, strict=False)))
change("by-hand-more", _only(by_hand(Order)), _only(by_hand(OrderMore)))
change("by-hand-renamed", _only(by_hand(Order)), _only(by_hand(OrderRenamed)))
change("by-hand-to-function", _only(by_hand(Order)), BASE)
change("words", BASE, _only(pay, instructions="Be brief.", handoff_description="pays"))
change("agent-renamed", BASE, _only(pay, name="till"))


class Item(BaseModel):
    """What a line of an order is."""

    sku: str
    count: int = 1


class ItemClosed(BaseModel):
    """The same, closed."""

    model_config = ConfigDict(extra="forbid")
    sku: str
    count: int = 1


class ItemRenamed(BaseModel):
    """Its count has another name."""

    sku: str
    quantity: int = 1


class ItemMore(BaseModel):
    """One key more, empty by default."""

    sku: str
    count: int = 1
    note: str | None = None


class Way(StrEnum):
    """How to pay."""

    CARD = "card"
    CASH = "cash"


def lines(order: str, items: list[Item]) -> str:  # noqa: D103
    return done("pay", order, *[f"{item.sku}x{item.count}" for item in items])


def lines_closed(order: str, items: list[ItemClosed]) -> str:  # noqa: D103
    return done("pay", order, *[f"{item.sku}x{item.count}" for item in items])


def lines_renamed(order: str, items: list[ItemRenamed]) -> str:  # noqa: D103
    return done("pay", order, *[f"{item.sku}x{item.quantity}" for item in items])


def lines_more(order: str, items: list[ItemMore]) -> str:  # noqa: D103
    return done("pay", order, *[f"{item.sku}x{item.count}" for item in items])


def way_text(order: str, way: str) -> str:  # noqa: D103
    return done("pay", order, way)


def way_literal(order: str, way: Literal["card", "cash"]) -> str:  # noqa: D103
    return done("pay", order, way)


def way_enum(order: str, way: Way) -> str:  # noqa: D103
    return done("pay", order, way if isinstance(way, str) and not isinstance(way, Way) else way.value)


def way_narrow(order: str, way: Literal["cash"]) -> str:  # noqa: D103
    return done("pay", order, way)


def way_wide(order: str, way: Literal["card", "cash", "iban"]) -> str:  # noqa: D103
    return done("pay", order, way)


NULL = [call("pay", order="A-17", cents=4999, memo=None)]
for strict in (True, False):
    word = "strict" if strict else "loose"
    change(
        f"null-same-{word}", _only(tool(optional), calls=NULL), _only(tool(optional, strict_mode=strict), calls=NULL)
    )
    change(
        f"null-gone-{word}", _only(tool(optional), calls=NULL), _only(tool(plain_pay, strict_mode=strict), calls=NULL)
    )


def default_other(order: str, cents: int, currency: str = "USD") -> str:  # noqa: D103
    return done("pay", order, cents, currency)


change("default-moved", _only(tool(defaulted)), _only(tool(default_other)))
SAID = [call("pay", order="A-17", cents=4999, currency="JPY")]
change("default-moved-but-said", _only(tool(defaulted), calls=SAID), _only(tool(default_other), calls=SAID))
change("default-gone-but-said", _only(tool(defaulted), calls=SAID), _only(tool(required), calls=SAID))
change("default-gone", _only(tool(defaulted)), _only(tool(required)))
ITEMS = [call("pay", order="A", items=[{"sku": "a", "count": 3}])]
WAY = [call("pay", order="A", way="card")]
new: Any
for name, new in (("closed", lines_closed), ("renamed", lines_renamed), ("more", lines_more), ("same", lines)):
    change(f"items-{name}", _only(tool(lines), calls=ITEMS), _only(tool(new), calls=ITEMS))
for name, new in (("narrow", way_narrow), ("wide", way_wide), ("literal", way_literal)):
    change(f"way-{name}", _only(tool(way_literal), calls=WAY), _only(tool(new), calls=WAY))
change("way-text-to-literal", _only(tool(way_text), calls=WAY), _only(tool(way_literal), calls=WAY))


def plain_note(text: str) -> str:
    """Note."""
    return done("note", text)


def plain_sign(text: str) -> str:
    """Sign."""
    return done("sign", text)


note = function_tool(plain_note, name_override="note")
sign = function_tool(plain_sign, name_override="sign", needs_approval=True)


NOTED = [call("note", "n1", text="hi"), PAY]
SIGNED = [call("sign", "s1", text="hi"), PAY]
change("done-beside-gone", _only(pay, calls=NOTED), _only(pay, calls=NOTED))
CHANGES[-1].old = lambda: agent(pay, note, calls=NOTED)
change("two-wait", lambda: agent(pay, sign, calls=SIGNED), lambda: agent(sign, pay, calls=SIGNED))
change("two-wait-one-gone", lambda: agent(pay, sign, calls=SIGNED), lambda: agent(pay, calls=SIGNED))
change("two-wait-one-changed", lambda: agent(pay, sign, calls=SIGNED), lambda: agent(tool(renamed), sign, calls=SIGNED))


def line(*tools: Any, start: str = "front", end: str = "back", **more: Any) -> Any:
    """Two agents: the first hands over to the second, which pays."""
    second = agent(*tools, name=end)
    return agent(name=start, calls=[call("transfer_to_" + end, "h1")], handoffs=[second], **more)


def line_object() -> Any:
    """The same, with a handoff object."""
    first = line(pay)
    first.handoffs = [sdk.handoff(first.handoffs[0], tool_name_override="over", tool_description_override="x")]
    return first


def long_line() -> Any:
    """A third agent between them, and one beside."""
    first = line(pay)
    between = agent(name="between", handoffs=list(first.handoffs))
    first.handoffs = [between, agent(name="beside")]
    return first


def line_closed(rule: Any) -> Any:
    """The handoff is there, and not open any more."""
    first = line(pay)
    first.handoffs = [sdk.handoff(first.handoffs[0], is_enabled=rule)]
    return first


def looped() -> Any:
    """The second can hand back."""
    first = line(pay)
    second = first.handoffs[0]
    second.handoffs = [first]
    return first


def moved() -> Any:
    """The first agent has the tool now."""
    first = line()
    first.tools = [pay]
    return first


LINE = lambda: line(pay)  # noqa: E731
change("line-same", LINE, LINE)
change("line-object", LINE, line_object)
change("line-closed", LINE, lambda: line_closed(False))
change("line-rule", LINE, lambda: line_closed(lambda ctx, agent: False))
change("line-longer", LINE, long_line)
change("line-loop", LINE, looped)
change("line-moved", LINE, moved)
change("line-second-renamed", LINE, lambda: line(pay, end="till"))
change("line-first-renamed", LINE, lambda: line(pay, start="porter"))
change("line-cut", LINE, lambda: agent(name="front", calls=[]))
change("line-second-starts", LINE, lambda: agent(pay, name="back"))
change("line-changed", LINE, lambda: line(tool(renamed_default)))


def both(handoffs: bool) -> Any:
    """A handoff is asked for beside a call that waits."""
    other = agent(name="other", calls=[])
    asked = [PAY, call("transfer_to_other", "h1")]
    return agent(pay, calls=asked, handoffs=[other] if handoffs else [])


def both_closed(rule: Any) -> Any:
    """The handoff that is asked for is there, and not open any more."""
    first = both(True)
    first.handoffs = [sdk.handoff(first.handoffs[0], is_enabled=rule)]
    return first


change("handoff-waits", lambda: both(True), lambda: both(True))
change("handoff-waits-closed", lambda: both(True), lambda: both_closed(False))
change("handoff-waits-gone", lambda: both(True), lambda: both(False))


def nested(*tools: Any, inner: str = "inner", name: str = "ask") -> Any:
    """An agent that works as another's tool, and waits."""
    one = agent(*tools, name=inner)
    asking = one.as_tool(tool_name=name, tool_description="asks")
    return agent(asking, name="outer", calls=[call("ask", "o1", input="x")])


NESTED = lambda: nested(pay)  # noqa: E731
change("nested-same", NESTED, NESTED)


def nested_disabled() -> Any:
    """The agent that works as a tool is there, and not enabled any more."""
    first = nested(pay)
    first.tools[0].is_enabled = False
    return first


def two_of_a_name(first: str, second: str) -> Any:
    """The first hands over to one of two agents that share a name; the one of them pays, the other says."""
    payer, sayer = agent(pay, name="back"), agent(name="back", calls=[])
    target = {"pay": payer, "say": sayer}
    front = agent(name="front", calls=[call("over_pay", "h1")])
    front.handoffs = [sdk.handoff(target[which], tool_name_override=f"over_{which}") for which in (first, second)]
    return front


change("two-of-a-name", lambda: two_of_a_name("pay", "say"), lambda: two_of_a_name("pay", "say"))
change("two-of-a-name-second", lambda: two_of_a_name("say", "pay"), lambda: two_of_a_name("say", "pay"))
change("two-of-a-name-turned", lambda: two_of_a_name("say", "pay"), lambda: two_of_a_name("pay", "say"))
change("nested-tool-disabled", NESTED, nested_disabled)
change("nested-renamed-argument", NESTED, lambda: nested(tool(renamed)))
change("nested-default-argument", NESTED, lambda: nested(tool(renamed_default)))
change("nested-tool-gone", NESTED, lambda: nested())
change("nested-agent-renamed", NESTED, lambda: nested(pay, inner="within"))
change("nested-outer-tool-renamed", NESTED, lambda: nested(pay, name="query"))


def executed(state: Json) -> None:
    """Say that the call was started."""
    state["context"]["tool_invocations"]["c1"]["executed"] = True


def relabelled(version: str) -> Callable[[Json], None]:
    """Say that the state is of another schema version."""

    def edit(state: Json) -> None:
        state["$schemaVersion"] = version

    return edit


for version in ("1.0", "1.6", "1.9", "1.13", "1.14", "1.15", "1.17", "1.18", "1.20"):
    change(f"schema-{version}", BASE, BASE, edit=relabelled(version))
    change(f"schema-{version}-always", BASE, BASE, always="pay", edit=relabelled(version))
    change(f"schema-{version}-line", LINE, LINE, edit=relabelled(version))
    dropped = "warning" if version in ("1.0", "1.6", "1.9", "1.13", "1.14") else ""  # no effect shows that
    change(
        f"schema-{version}-line-first",
        LINE,
        lambda: line(pay, start="porter"),
        edit=relabelled(version),
        expected=dropped,
    )
    change(f"schema-{version}-line-second", LINE, lambda: line(pay, end="till"), edit=relabelled(version))
change("executed", BASE, BASE, edit=executed)
change("always-same", BASE, BASE, always="pay")
change("always-words", BASE, _only(tool(reordered)), always="pay")
change("always-renamed", BASE, _only(tool(renamed)), always="pay")
change("always-optional", BASE, _only(tool(optional)), always="pay")


@dataclass
class Outcome:
    """What the SDK did with a saved run."""

    effects: list[str]
    error: str = ""
    waits: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether the run came to its end."""
        return not self.error and not self.waits


def save(one: Change) -> Json:
    """Run the old code up to its approval, and save it."""
    EFFECTS.clear()

    async def run() -> Json:
        config = sdk.RunConfig(workflow_name="desk", group_id="g")
        result = await sdk.Runner.run(one.old(), "order A-17", run_config=config)
        state = result.to_state()
        for item in state.get_interruptions():
            if one.always == item.name:
                state.approve(item, always_approve=True)
            elif one.approve_before:
                state.approve(item)
            elif one.reject_before:
                state.reject(item)
        saved: Json = json.loads(json.dumps(state.to_json()))
        if one.edit is not None:
            one.edit(saved)
        return saved

    return asyncio.run(run())


def resume(one: Change, start: Any, saved: Json) -> Outcome:
    """Load the run with ``start``, decide, and let it go on."""
    EFFECTS.clear()

    async def run() -> Outcome:
        try:
            state = await sdk.RunState.from_json(start, json.loads(json.dumps(saved)))
            for item in state.get_interruptions():
                if not (one.approve_before or one.reject_before or one.always):
                    (state.reject if item.name in one.reject else state.approve)(item)
            result = await sdk.Runner.run(start, state)
        except Exception as problem:
            return Outcome(list(EFFECTS), f"{type(problem).__name__}: {problem}")
        return Outcome(list(EFFECTS), "", [str(item.name) for item in result.interruptions])

    return asyncio.run(run())
