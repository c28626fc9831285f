"""The checks against the framework itself: changes of an agent, each with the waiting run really resumed on it.

Whether a change is harmless is what the framework does: the same call is carried out with the same arguments as before,
or not. Harmless changes give no breaking finding, all others give one, or a warning where the call runs with more than
was shown.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest

from pytest_loom import check_resume
from pytest_loom.contract.resolve import contract_of
from pytest_loom.log.event import Log
from pytest_loom.sources.pydantic_ai import source

pydantic_ai: Any = pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")
toolsets: Any = pydantic_ai.toolsets

ran: list[dict[str, Any]] = []
"""The arguments with which the tool was carried out."""

Book = Callable[..., str]


def done(**arguments: Any) -> str:
    """What the tool does: note what it was called with, as JSON would say it."""
    ran.append(pydantic.TypeAdapter(Any).dump_python(arguments, mode="json"))
    return "booked"


def book(guest: str, room: str, nights: int) -> str:
    """The tool as the run knew it."""
    return done(guest=guest, room=room, nights=nights)


def answering(messages: Any, info: Any) -> Any:
    """A model that asks for one call, and then says that it is done."""
    parts = pydantic_ai.messages
    if any(message.kind == "response" for message in messages):
        return parts.ModelResponse(parts=[parts.TextPart("done")])
    call = parts.ToolCallPart("book", {"guest": "Ada", "room": "204", "nights": 2}, tool_call_id="c1")
    return parts.ModelResponse(parts=[call])


def agent(*tools: Any, sets: Any = (), **more: Any) -> Any:
    """An agent on that model."""
    model = pytest.importorskip("pydantic_ai.models.function").FunctionModel(answering)
    output = [str, pydantic_ai.DeferredToolRequests]
    return pydantic_ai.Agent(model, tools=list(tools), toolsets=list(sets), output_type=output, **more)


def guarded(function: Book, **more: Any) -> Any:
    """A tool called ``book`` that asks for approval."""
    return pydantic_ai.Tool(function, **{"name": "book", "requires_approval": True, "takes_ctx": False, **more})


class Stay(pydantic.BaseModel):
    """The same arguments as one object."""

    guest: str
    room: str
    nights: int


class Room(enum.Enum):
    """Rooms by number."""

    A = "204"
    B = "311"


def swapped(room: str, nights: int, guest: str) -> str:
    """Other order."""
    return done(guest=guest, room=room, nights=nights)


def optional(guest: str, room: str, nights: int, memo: str | None = None) -> str:
    """One more, which is null."""
    return done(guest=guest, room=room, nights=nights)


def limited(guest: str, room: str, nights: Annotated[int, pydantic.Field(le=30)]) -> str:
    """A limit that holds."""
    return done(guest=guest, room=room, nights=nights)


def listed(guest: str, room: Literal["204", "311"], nights: int) -> str:
    """A choice that has it."""
    return done(guest=guest, room=room, nights=nights)


def chosen(guest: str, room: Room, nights: int) -> str:
    """The same choice as an enum."""
    return done(guest=guest, room=room.value, nights=nights)


def aliased(guest: str, room: str, count: Annotated[int, pydantic.Field(alias="nights")]) -> str:
    """A new name in Python only."""
    return done(guest=guest, room=room, nights=count)


def both(
    guest: str,
    room: str,
    count: Annotated[int, pydantic.Field(validation_alias=pydantic.AliasChoices("count", "nights"))],
) -> str:
    """A new name that reads the old one too."""
    return done(guest=guest, room=room, nights=count)


def whole(stay: Stay) -> str:
    """One object."""
    return done(**stay.model_dump())


def anything(**arguments: Any) -> str:
    """Whatever comes."""
    return done(**arguments)


def trimmed(guest: Annotated[str, pydantic.BeforeValidator(str.strip)], room: str, nights: int) -> str:
    """A validator that changes nothing here."""
    return done(guest=guest, room=room, nights=nights)


def more(guest: str, room: str, nights: int, breakfast: bool = True) -> str:
    """One more, with consequences."""
    return done(guest=guest, room=room, nights=nights, breakfast=breakfast)


def required(guest: str, room: str, nights: int, mail: str) -> str:
    """One more, required."""
    return done(guest=guest, room=room, nights=nights, mail=mail)


def renamed(guest: str, room: str, count: int) -> str:
    """Another name."""
    return done(guest=guest, room=room, count=count)


def hidden(guest: str, room: str, count: int = 1) -> str:
    """Another name, behind a default."""
    return done(guest=guest, room=room, count=count)


def retyped(guest: str, room: str, nights: str) -> str:
    """Another type."""
    return done(guest=guest, room=room, nights=nights)


def numbered(guest: str, room: int, nights: int) -> str:
    """A text that is read as a number."""
    return done(guest=guest, room=room, nights=nights)


def fewer(guest: str, room: str) -> str:
    """One less."""
    return done(guest=guest, room=room)


def stricter(guest: str, room: str, nights: Annotated[int, pydantic.Field(ge=3)]) -> str:
    """A limit that does not hold."""
    return done(guest=guest, room=room, nights=nights)


def elsewhere(guest: str, room: Literal["101"], nights: int) -> str:
    """A choice that has it not."""
    return done(guest=guest, room=room, nights=nights)


def never(value: int) -> int:
    """A rule that no schema shows."""
    raise ValueError("not any more")


def ruled(guest: str, room: str, nights: Annotated[int, pydantic.AfterValidator(never)]) -> str:
    """Refused by code."""
    return done(guest=guest, room=room, nights=nights)


async def gone(ctx: Any, definition: Any) -> Any:
    """Leaves the tool out."""
    return None


async def kept(ctx: Any, definition: Any) -> Any:
    """Keeps it."""
    return definition


def external() -> Any:
    """The same tool, carried out by another system."""
    return toolsets.ExternalToolset([guarded(book).tool_def])


def in_set(*tools: Any) -> Any:
    """A toolset of its own."""
    return toolsets.FunctionToolset(list(tools))


CHANGES: dict[str, Callable[[], Any]] = {
    "nothing": lambda: agent(guarded(book)),
    "words": lambda: agent(guarded(book, description="Books."), name="other", instructions="Be brief."),
    "order": lambda: agent(guarded(swapped)),
    "optional": lambda: agent(guarded(optional)),
    "limit-holds": lambda: agent(guarded(limited)),
    "choice-holds": lambda: agent(guarded(listed)),
    "enum-holds": lambda: agent(guarded(chosen)),
    "alias": lambda: agent(guarded(aliased)),
    "aliases": lambda: agent(guarded(both)),
    "one-object": lambda: agent(guarded(whole)),
    "any-arguments": lambda: agent(guarded(anything)),
    "harmless-validator": lambda: agent(guarded(trimmed)),
    "no-approval": lambda: agent(guarded(book, requires_approval=False)),
    "in-a-toolset": lambda: agent(sets=[in_set(guarded(book))]),
    "approval-around": lambda: agent(sets=[in_set(book).approval_required()]),
    "renamed-back": lambda: agent(sets=[in_set(guarded(book, name="b")).renamed({"book": "b"})]),
    "prepared": lambda: agent(guarded(book, prepare=kept)),
    "dynamic": lambda: agent(sets=[lambda ctx: in_set(guarded(book))]),
    "other-tools": lambda: agent(guarded(book), guarded(more, name="other")),
    "sequential": lambda: agent(guarded(book, sequential=True, max_retries=3)),
    "default": lambda: agent(guarded(more)),
    "required": lambda: agent(guarded(required)),
    "renamed": lambda: agent(guarded(renamed)),
    "renamed-behind-default": lambda: agent(guarded(hidden)),
    "type": lambda: agent(guarded(retyped)),
    "read-as-number": lambda: agent(guarded(numbered)),
    "argument-gone": lambda: agent(guarded(fewer)),
    "limit": lambda: agent(guarded(stricter)),
    "choice": lambda: agent(guarded(elsewhere)),
    "rule": lambda: agent(guarded(ruled)),
    "left-out": lambda: agent(guarded(book, prepare=gone)),
    "filtered-out": lambda: agent(sets=[in_set(guarded(book)).filtered(lambda ctx, definition: False)]),
    "tool-renamed": lambda: agent(guarded(book, name="reserve")),
    "prefix": lambda: agent(sets=[in_set(guarded(book)).prefixed("hotel")]),
    "tool-gone": lambda: agent(),
    "dynamic-gone": lambda: agent(sets=[lambda ctx: in_set()]),
    "external": lambda: agent(sets=[external()]),
}
WARNED = {"default"}
"""Changes with which the call is carried out with more than anybody was shown: a look, and no reason to fail."""


def saved() -> bytes:
    """The history of a run that waits for an approval."""
    history: bytes = asyncio.run(agent(guarded(book)).run("a room for Ada")).all_messages_json()
    return history


def outcome(today: Any, history: bytes) -> list[dict[str, Any]]:
    """With what the tool is carried out when the waiting call is approved on today's agent."""
    ran.clear()
    messages = pydantic_ai.messages.ModelMessagesTypeAdapter.validate_json(history)
    results = pydantic_ai.DeferredToolResults(approvals={"c1": True})
    try:
        asyncio.run(today.run(message_history=messages, deferred_tool_results=results))
    except Exception as problem:
        return [*ran, {"raised": type(problem).__name__}]
    return list(ran)


@pytest.mark.parametrize("contract", [True, False], ids=["contract", "bare"])
@pytest.mark.parametrize("change", CHANGES)
def test_findings_are_what_the_framework_does(change: str, contract: bool) -> None:
    """Breaking just where the call is not carried out as it was shown; nothing runs while that is found out."""
    history = saved()
    (log,) = source.read(Path("run.json"), history)
    assert isinstance(log, Log)
    today = CHANGES[change]()
    yesterday = contract_of(agent(guarded(book))).model_copy(update={"workflow_id": "desk"}) if contract else None
    ran.clear()
    found = check_resume(log, {"desk": today}, contract=yesterday).findings
    assert ran == []
    severities = {one.severity for one in found if one.code != "suspended-carryover"}
    harmless = outcome(today, history) == [{"guest": "Ada", "room": "204", "nights": 2}]
    if harmless:
        assert severities == set()
    elif contract:
        assert severities == ({"warning"} if change in WARNED else {"breaking"})
    elif change not in WARNED and change != "read-as-number":  # which only a contract can show
        assert severities == {"breaking"}
