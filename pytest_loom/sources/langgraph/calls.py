"""Tool calls and typed values inside saved state: what is open, what asks for approval, which classes are named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_loom.sources.langgraph.values import is_typed

_REQUESTS = ("action_requests", "action_request", "actionRequests")


def open_calls(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of messages in the state that no tool message answers: ``{"callId", "name", "args"}``."""
    asked: dict[str, dict[str, Any]] = {}
    for value in state.values():
        for item in value if isinstance(value, list) else [value]:
            message = _message(item)
            if message is None:
                continue
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else []:
                if isinstance(call, dict) and isinstance(call.get("name"), str):
                    key = str(call.get("id") or len(asked))
                    asked[key] = {"callId": key, "name": call["name"], "args": call.get("args") or {}}
            asked.pop(str(message.get("tool_call_id")), None)
    return list(asked.values())


def _message(value: Any) -> dict[str, Any] | None:
    if is_typed(value):
        value = value["$value"]
    return value if isinstance(value, dict) and ("tool_calls" in value or "tool_call_id" in value) else None


def requests_in(question: Any) -> list[dict[str, Any]]:
    """The calls that a question of LangChain's human-in-the-loop middleware shows: ``{"name", "args"}``."""
    found = []
    for item in question if isinstance(question, list) else [question]:
        if isinstance(item, dict) and item.get("type") == "tool_approval" and isinstance(item.get("name"), str):
            args = item.get("args")
            found.append({"name": item["name"], "args": args if isinstance(args, dict) else {}})
        for key in _REQUESTS:
            requests = item.get(key) if isinstance(item, dict) else None
            for request in requests if isinstance(requests, list) else [requests]:
                if isinstance(request, dict):
                    name = request.get("name", request.get("action"))
                    args = request.get("args", request.get("arguments"))
                    if isinstance(name, str):
                        found.append({"name": name, "args": args if isinstance(args, dict) else {}})
    return found


def is_approval(question: Any) -> bool:
    """Whether a question asks for leave to do something that it names."""
    return bool(requests_in(question))


def types_in(value: Any) -> set[str]:
    """The names of all classes that a value would be built of."""
    return {found["$type"] for found in typed_values(value)}


def typed_values(value: Any) -> Iterator[dict[str, Any]]:
    """Every ``$type`` value in ``value``, outermost first."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if is_typed(item):
            yield item
            waiting.append(item["$value"])
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
