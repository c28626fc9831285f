"""A list of chat messages as model and tool calls: the way that OpenAI, and by now most others, write one.

An assistant's message is the answer of a model; its ``tool_calls`` (or the older ``function_call``) are tool calls,
which messages of the role ``tool`` (``function``) answer by ``tool_call_id``. Some traces put name and arguments of a
call in the call itself rather than under ``function``. See https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

from typing import Any

from pytest_loom.sources.calls import Calls
from pytest_loom.sources.shape import arguments, listed, table, tables, text

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
"""The roles of a conversation with one model."""


class Chat:
    """Tells messages, one after the other; ``said`` is the text that the model said last."""

    def __init__(self, calls: Calls, model: str = "unknown") -> None:
        self.calls = calls
        self.model = model
        self.said: str | None = None
        self._unsent: list[dict[str, Any]] = []
        self._asked = False

    def tell(self, messages: list[dict[str, Any]]) -> None:
        """Every message as events; the line of an event is the number of its message. Raises Malformed."""
        for number, message in enumerate(messages, 1):
            self.calls.line = number
            role = text(message.get("role"))
            if role == "assistant":
                self._answer(message)
            elif role in ("tool", "function"):
                self._result(message)
            else:
                if role == "user" and self._asked:
                    self.calls.add("UserPrompt", {"content": message.get("content")})
                self._unsent.append(message)

    def _answer(self, message: dict[str, Any]) -> None:
        self._asked = True
        call_id = self.calls.asks(text(message.get("model")) or self.model, {"messages": self._unsent})
        self._unsent = []
        self.calls.add("MODEL_COMPLETED", {"callId": call_id, "response": message})
        self.said = plain_text(message.get("content")) or self.said
        for call in tool_calls(message):
            self.calls.calls(*call)

    def _result(self, message: dict[str, Any]) -> None:
        self._unsent.append(message)
        ids = [text(message.get("tool_call_id")), *listed(message.get("tool_call_ids"), "tool_call_ids")]
        for given in [text(given) for given in ids if given] or [""]:
            facts = self.calls.close(given)
            if facts is None:
                continue  # an answer to a call that is not in this conversation
            error = message.get("error") or message.get("tool_error")  # as Inspect wrote it in 2024
            if error:
                self.calls.add("TOOL_FAILED", facts | {"error": error_of(error)})
            else:
                self.calls.add("TOOL_COMPLETED", facts | {"output": message.get("content")})


def tool_calls(message: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Name, arguments and id ("" for none) of each tool call of an assistant's message."""
    found = []
    for call in tables(message.get("tool_calls"), "tool_calls"):
        function = call.get("function")
        inner = function if isinstance(function, dict) else call
        name = text(inner.get("name")) or text(function) or "unknown"
        found.append((name, arguments(inner.get("arguments")), text(call.get("id"))))
    older = message.get("function_call")
    if older and not found:
        call = table(older, "function_call")
        found.append((text(call.get("name")) or "unknown", arguments(call.get("arguments")), ""))
    return found


def plain_text(content: Any) -> str | None:
    """The text of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [text(part.get("text")) for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "".join(parts) or None


def error_of(error: Any) -> dict[str, Any]:
    """An error as a log has it, of whatever a trace says about one."""
    if isinstance(error, dict):
        message = text(error.get("message"))
        return {"type": text(error.get("type")) or "Error", "message": message or "it failed"}
    return {"type": "Error", "message": text(error) or "it failed"}
