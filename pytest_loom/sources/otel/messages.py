"""The messages of a model call, wherever a convention writes them, in the shape of today's: role and parts.

Conventions, by where the messages stand: the attributes ``gen_ai.input.messages`` and ``gen_ai.output.messages`` (of a
span, or of the event ``gen_ai.client.inference.operation.details``); events ``gen_ai.user.message``, … and
``gen_ai.choice`` (semantic conventions up to 1.36), as span events, log records or, by Pydantic AI's version 1, one
attribute ``events``; events ``gen_ai.content.prompt`` and ``….completion`` (1.27); ``request_data`` and
``response_data`` (Logfire's clients of providers); numbered attributes ``gen_ai.prompt.0.role`` and
``gen_ai.completion.0.…`` (OpenLLMetry).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from pytest_loom.log.event import too_deep
from pytest_loom.sources.otel.otlp import Span, SpanEvent
from pytest_loom.sources.shape import MAX_DEPTH, arguments, text
from pytest_loom.sources.toolcalls import NOTHING

Message = dict[str, Any]

DETAILS = "gen_ai.client.inference.operation.details"
_ROLES = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_CONTENT = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}
_MAX_NUMBERED = 10_000


@dataclass
class Talk:
    """What was sent to a model, what it said, and the instructions beside them; ``known`` where they were kept."""

    sent: list[Message] = field(default_factory=list)
    said: list[Message] = field(default_factory=list)
    instructions: Any = None
    known: bool = False


@dataclass(frozen=True)
class Asked:
    """A tool call in a message."""

    given_id: str
    name: str
    args: Any


@dataclass(frozen=True)
class Answer:
    """What a message brings back for a tool call."""

    given_id: str
    name: str
    output: Any


def talk_of(span: Span) -> Talk:
    """The messages of a model call, or of the run of an agent."""
    talk = Talk()
    _structured(talk, span.attributes)
    for event in span.events:
        if event.name == DETAILS:
            _structured(talk, event.attributes)
            if isinstance(event.body, dict):
                _structured(talk, event.body)
    if not talk.known:
        listed = decoded(span.attributes.get("events") or span.attributes.get("all_messages_events"))
        events = [SpanEvent(text(one.get("event.name")), {}, one) for one in _dicts(listed)]
        _noted(talk, [*events, *span.events])
    if not talk.known:
        _of_provider(talk, decoded(span.attributes.get("request_data")), decoded(span.attributes.get("response_data")))
    if not talk.known:
        talk.sent = _numbered(span.attributes, "gen_ai.prompt")
        talk.said = _numbered(span.attributes, "gen_ai.completion")
        talk.known = bool(talk.sent or talk.said)
    return talk


def history_of(span: Span) -> list[Message]:
    """All messages of an agent's run, where its span has them."""
    found = decoded(span.attributes.get("pydantic_ai.all_messages"))
    if isinstance(found, list):
        return [_message(one) for one in _dicts(found)]
    talk = talk_of(span)
    return talk.sent + talk.said


def asked_in(messages: list[Message]) -> list[Asked]:
    """The tool calls in messages, in order."""
    found = []
    for part in _parts(messages):
        if part.get("type") == "tool_call" and text(part.get("name")):
            args = arguments(part["arguments"]) if part.get("arguments") is not None else NOTHING
            found.append(Asked(text(part.get("id")), part["name"], args))
    return found


def answers_in(messages: list[Message]) -> list[Answer]:
    """What messages bring back from tools, in order."""
    found = []
    for part in _parts(messages):
        if part.get("type") == "tool_call_response":
            output = next((part[key] for key in ("response", "result") if key in part), NOTHING)
            found.append(Answer(text(part.get("id")), text(part.get("name")), output))
    return found


def texts_in(messages: list[Message], role: str) -> list[str]:
    """The texts of each message of a role that has any."""
    found = []
    for message in messages:
        parts = [text(part.get("content")) for part in _parts([message]) if part.get("type") == "text"]
        if message["role"] == role and any(parts):
            found.append("".join(parts))
    return found


def decoded(said: Any) -> Any:
    """A value that may be JSON written as text: attributes of spans could long be no objects."""
    if not isinstance(said, str) or said.lstrip()[:1] not in ("{", "["):
        return said
    try:
        found = msgspec.json.decode(said)
    except (ValueError, RecursionError):
        return said
    return said if too_deep(found, MAX_DEPTH) else found


def _structured(talk: Talk, attributes: dict[str, Any]) -> None:
    for name, messages in (("gen_ai.input.messages", talk.sent), ("gen_ai.output.messages", talk.said)):
        found = decoded(attributes.get(name))
        if isinstance(found, list):
            messages[:] = [_message(one) for one in _dicts(found)]
            talk.known = True
    instructions = decoded(attributes.get("gen_ai.system_instructions"))
    talk.instructions = instructions if instructions is not None else talk.instructions


def _noted(talk: Talk, events: list[SpanEvent]) -> None:
    """Messages that are events of their own."""
    for event in events:
        if event.name in _ROLES:
            body = _body(event)
            talk.sent.append(_message(body | {"role": text(body.get("role")) or _ROLES[event.name]}))
        elif event.name == "gen_ai.choice":
            body = _body(event)
            inner = decoded(body.get("message"))
            message = inner if isinstance(inner, dict) else body | ({"content": inner} if "message" in body else {})
            calls = {"tool_calls": body["tool_calls"]} if "tool_calls" in body else {}
            talk.said.append(_message(calls | message | {"role": "assistant"}))
        elif event.name in _CONTENT:
            found = decoded(event.attributes.get(_CONTENT[event.name]))
            told = [_message(one) for one in _dicts(found if isinstance(found, list) else [found])]
            (talk.sent if event.name.endswith("prompt") else talk.said).extend(told)
        else:
            continue
        talk.known = True


def _body(event: SpanEvent) -> dict[str, Any]:
    """What an event says: the body of a log record, JSON in one attribute, or the attributes themselves."""
    body = event.body if event.body is not None else decoded(event.attributes.get("gen_ai.event.content"))
    return body if isinstance(body, dict) else event.attributes


def _message(said: dict[str, Any]) -> Message:
    """A message of any convention as role and parts; ``finish_reason`` stays."""
    role = text(said.get("role")) or "unknown"
    if isinstance(said.get("parts"), list):
        message = {"role": role, "parts": _dicts(said["parts"])}
    else:
        message = {"role": role, "parts": _old_parts(said, role)}
    reason = said.get("finish_reason")
    return message | ({"finish_reason": reason} if isinstance(reason, str) else {})


def _old_parts(said: dict[str, Any], role: str) -> list[dict[str, Any]]:
    """Content and tool calls as providers' chat APIs write them."""
    content = decoded(said.get("content"))
    if role == "tool":
        given = text(said.get("id")) or text(said.get("tool_call_id"))
        answer = {"type": "tool_call_response", "id": given, "name": text(said.get("name"))}
        return [answer if content is None else answer | {"response": content}]
    blocks = content if isinstance(content, list) and all(isinstance(one, dict) for one in content) else None
    parts = [_old_part(one) for one in ([said.get("content")] if blocks is None else blocks) if one is not None]
    for call in _dicts(decoded(said.get("tool_calls"))):
        inner = call["function"] if isinstance(call.get("function"), dict) else call
        parts.append({"type": "tool_call", "id": call.get("id"), "name": inner.get("name")})
        if inner.get("arguments") is not None:
            parts[-1]["arguments"] = inner["arguments"]
    return parts


def _old_part(said: Any) -> dict[str, Any]:
    """One piece of content; blocks that providers call otherwise get the names of today's convention."""
    if not isinstance(said, dict):
        return {"type": "text", "content": said if isinstance(said, str) else str(said)}
    if isinstance(said.get("text"), str):
        return {"type": "text", "content": said["text"]}
    tool = said["toolUse"] if isinstance(said.get("toolUse"), dict) else said if said.get("type") == "tool_use" else {}
    if tool:
        given = tool.get("toolUseId") or tool.get("id")
        return {"type": "tool_call", "id": given, "name": tool.get("name"), "arguments": tool.get("input")}
    result = said["toolResult"] if isinstance(said.get("toolResult"), dict) else {}
    if not result and said.get("type") == "tool_result":
        result = said
    if result:
        given = result.get("toolUseId") or result.get("tool_use_id")
        return {"type": "tool_call_response", "id": given, "response": result.get("content")}
    return said


def _of_provider(talk: Talk, request: Any, response: Any) -> None:
    """Messages in what Logfire keeps of a provider's client: the request as it was sent, and the answer's message."""
    if isinstance(request, dict) and isinstance(request.get("messages"), list):
        talk.sent = [_message(one) for one in _dicts(request["messages"])]
        talk.known = True
    if isinstance(response, dict) and isinstance(response.get("message"), dict):
        talk.said = [_message({"role": "assistant"} | response["message"])]
        talk.known = True


def _numbered(attributes: dict[str, Any], prefix: str) -> list[Message]:
    """Messages in attributes ``PREFIX.N.role``, ``.content``, ``.tool_calls.M.name``, ``.id``, ``.arguments``."""
    found: list[Message] = []
    for number in range(_MAX_NUMBERED):
        head = f"{prefix}.{number}."
        said: dict[str, Any] = {key: attributes.get(head + key) for key in ("role", "content", "tool_call_id")}
        calls: list[dict[str, Any]] = []
        while len(calls) < _MAX_NUMBERED and f"{head}tool_calls.{len(calls)}.name" in attributes:
            place = f"{head}tool_calls.{len(calls)}."
            calls.append({key: attributes.get(place + key) for key in ("id", "name", "arguments")})
        if said["role"] is None and said["content"] is None and not calls:
            break
        role = said["role"] or ("assistant" if prefix.endswith("completion") else "user")
        reason = attributes.get(head + "finish_reason")
        found.append(_message(said | {"role": role, "tool_calls": calls, "finish_reason": reason}))
    return found


def _parts(messages: list[Message]) -> list[dict[str, Any]]:
    return [part for message in messages for part in message["parts"]]


def _dicts(said: Any) -> list[dict[str, Any]]:
    """The objects in a list; anything else holds none."""
    return [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
