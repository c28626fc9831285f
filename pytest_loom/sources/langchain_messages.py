"""LangChain's messages inside what runs and nodes gave, and the tool calls in them.

Messages come as plain objects, in LangChain's envelope (``{"lc": 1, "type": "constructor", …}``), as ``$type`` values
of a checkpoint store, or as providers' chat APIs write them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_loom.sources.shape import arguments, text
from pytest_loom.sources.toolcalls import NOTHING, ToolCall, ToolCalls

_MODEL = ("ai", "AIMessage", "AIMessageChunk", "assistant")
_TOOL = ("tool", "ToolMessage", "ToolMessageChunk")


@dataclass(frozen=True)
class Wanted:
    """A tool call in a message of a model."""

    message_id: str
    given_id: str
    name: str
    args: Any


@dataclass(frozen=True)
class Brought:
    """A message that answers a tool call."""

    given_id: str
    name: str
    content: Any
    failed: bool


def messages_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every message in ``value``, in order; what is inside a message is not looked at."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            message = _message(item)
            if message is not None:
                yield message
            else:
                waiting += reversed(item.values())
        elif isinstance(item, list):
            waiting += reversed(item)


def wanted_in(message: dict[str, Any]) -> list[Wanted]:
    """The tool calls that a message of a model asks for."""
    if not _is(message, _MODEL) or not isinstance(message.get("tool_calls"), list):
        return []
    found = []
    for call in message["tool_calls"]:
        if not isinstance(call, dict):
            continue
        inner = call["function"] if isinstance(call.get("function"), dict) else call
        args = inner.get("args", inner.get("arguments", NOTHING))
        if text(inner.get("name")):
            found.append(Wanted(text(message.get("id")), text(call.get("id")), inner["name"], arguments(args)))
    return found


def brought_by(message: dict[str, Any]) -> Brought | None:
    """The answer to a tool call that a message is, None where it is none."""
    if not _is(message, _TOOL):
        return None
    failed = message.get("status") == "error"
    return Brought(text(message.get("tool_call_id")), text(message.get("name")), message.get("content"), failed)


def says(message: dict[str, Any]) -> dict[str, Any] | None:
    """A model's message as it stands in the log, None for another's."""
    return message if _is(message, _MODEL) else None


class _Told(NamedTuple):
    """A tool call that a message asked for, and how many calls there were by then."""

    message_id: str
    name: str
    args: Any
    number: int


class MessageCalls(ToolCalls):
    """The tool calls of a run that passes messages on: what is passed on again is no new call."""

    def __init__(self, add: Callable[[str, dict[str, Any]], object]) -> None:
        super().__init__(add)
        self.told: dict[str, _Told] = {}

    def asked(self, given_id: str, name: str, args: Any = NOTHING, **facts: Any) -> ToolCall:
        """As ``ToolCalls.asked``; messages that ask for the same call again are an echo."""
        call = super().asked(given_id, name, args, **facts)
        self.told[given_id or call.call_id] = _Told("", name, args, self.count)
        return call

    def known(self, value: Any) -> None:
        """Messages that came with the input: what they ask for is no call of this run."""
        for message in messages_in(value):
            for wanted in wanted_in(message):
                self.told[wanted.given_id] = _Told(wanted.message_id, wanted.name, wanted.args, -1)

    def heard(self, value: Any, since: int) -> None:
        """Messages that a model or a node gave; ``since`` is the ``count`` of calls when the node began."""
        for message in messages_in(value):
            for wanted in wanted_in(message):
                if not self._is_echo(wanted, since):
                    call = self.asked(wanted.given_id, wanted.name, wanted.args)
                    place = wanted.given_id or call.call_id
                    self.told[place] = _Told(wanted.message_id, wanted.name, wanted.args, self.count)
            found = brought_by(message)
            if found is not None and (waiting := self.waiting(found.given_id, found.name)) is not None:
                self.bring(waiting, found)

    def bring(self, call: ToolCall, found: Brought) -> None:
        """A message answers a call."""
        if found.failed:
            shown = found.content if isinstance(found.content, str) else json.dumps(found.content)
            self.failed(call, {"type": "ToolError", "message": shown})
        else:
            self.answered(call, found.content)

    def _is_echo(self, wanted: Wanted, since: int) -> bool:
        """Whether a call was told already: by the same message, or by the model inside the node that gives it."""
        told = self.told.get(wanted.given_id)
        if told is None or (told.name, told.args) != (wanted.name, wanted.args):
            return False
        return told.number > since or not wanted.message_id or told.message_id in ("", wanted.message_id)


def _message(item: dict[str, Any]) -> dict[str, Any] | None:
    if item.keys() == {"$type", "$via", "$value"}:
        is_one = isinstance(item["$type"], str) and item["$type"].endswith(("Message", "MessageChunk"))
        return dict(item["$value"]) if is_one and isinstance(item["$value"], dict) else None
    if item.get("lc") in (1, 2) and item.get("type") == "constructor" and isinstance(item.get("kwargs"), dict):
        path = item.get("id")
        name = path[-1] if isinstance(path, list) and path else ""
        if not isinstance(name, str) or not name.endswith(("Message", "MessageChunk")):
            return None
        return {"type": name, **item["kwargs"]}
    has_content = "content" in item or "tool_calls" in item
    return item if has_content and (_is(item, _MODEL) or _is(item, _TOOL)) else None


def _is(message: dict[str, Any], kinds: tuple[str, ...]) -> bool:
    return message.get("type") in kinds or message.get("role") in kinds
