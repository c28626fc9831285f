"""The seam of ``pydantic_ai``: models and tools.

Models are taken at ``Model.request`` and ``Model.request_stream`` of every class that answers itself; wrappers and
fallbacks around one are today's code in replay too. Tools are taken at ``call_tool`` of every toolset that runs them
itself, function tools and MCP tools among them; prefixes, filters and approvals around one are today's code as well.
Output tools are no effects.

* model request: messages, settings and what the agent says of tools and output; without timestamps and the ids of
  runs, and with tool calls numbered, so that the same run asks the same;
* model answer: pydantic_ai's own JSON of a ``ModelResponse``; streamed, ``{"opened"}``, then ``{"event"}`` each, at
  last ``{"response"}``;
* tool: its validated arguments; what it gave back.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any

from pytest_loom.errors import RecordingError
from pytest_loom.flow import seam
from pytest_loom.flow.seams.shared import (
    closing,
    compact,
    dump_result,
    error_loader,
    in_one_task,
    load_result,
    numbered,
    patch_family,
    returned,
    shown,
    undo_all,
    wire,
)

PACKAGE = "pydantic_ai"
_ERRORS = "pydantic_ai.exceptions"
_ANSWER = "the model's answer"
_PER_RUN = frozenset({"timestamp", "run_id", "conversation_id", "metadata"})
_OPENED = ("model_name", "provider_name", "provider_url", "timestamp", "canonical_system")
"""What is known of a streamed response before its first event."""


def install() -> Callable[[], None]:
    """Patch pydantic_ai, which is imported already; what is returned undoes it."""
    model = importlib.import_module("pydantic_ai.models").Model
    toolset = importlib.import_module("pydantic_ai.toolsets").AbstractToolset
    requests = {"request": _request, "request_stream": _request_stream, "count_tokens": _count_tokens}
    return undo_all(
        [
            patch_family(model, requests, skip=_asks_another),
            patch_family(toolset, {"call_tool": _call_tool}, skip=_runs_no_tool),
        ]
    )


def _asks_another(cls: Any) -> bool:
    """Whether a model class only passes requests on to other models."""
    wrapper = importlib.import_module("pydantic_ai.models.wrapper").WrapperModel
    fallback = importlib.import_module("pydantic_ai.models.fallback").FallbackModel
    return issubclass(cls, (wrapper, fallback)) or not getattr(cls, "_answers_requests_itself", True)


def _runs_no_tool(cls: Any) -> bool:
    """Whether a toolset class only passes calls on to other toolsets, or has tools that are none."""
    toolsets = importlib.import_module("pydantic_ai.toolsets")
    others = {"DynamicToolset", "OutputToolset"}
    inside = any(each.__name__ in others and each.__module__.startswith("pydantic_ai.") for each in cls.__mro__)
    return inside or issubclass(cls, (toolsets.WrapperToolset, toolsets.CombinedToolset, toolsets.ExternalToolset))


# Models


def _request(original: Any) -> Callable[..., Any]:
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run():
            return await original(self, *args, **kwargs)
        return await seam.acall(
            "model",
            self.model_name,
            _asked(self, *args, **kwargs),
            lambda: original(self, *args, **kwargs),
            wire(_ANSWER, _dump_response, _load_response, error_loader(_ERRORS, by=type(self))),
            usage=lambda response: _dump_response(response).get("usage"),
        )

    return request


def _count_tokens(original: Any) -> Callable[..., Any]:
    async def count_tokens(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run():
            return await original(self, *args, **kwargs)
        usage = _usages()
        return await seam.acall(
            "model",
            self.model_name,
            {"count": "tokens", **_asked(self, *args, **kwargs)},
            lambda: original(self, *args, **kwargs),
            wire(_ANSWER, lambda found: _dump(usage, found), lambda data: _load(usage, data), error_loader(_ERRORS)),
        )

    return count_tokens


def _request_stream(original: Any) -> Callable[..., Any]:
    @asynccontextmanager
    async def request_stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if not seam.in_run():
            async with original(self, *args, **kwargs) as stream:
                yield stream
            return

        async def opened() -> AsyncIterator[Any]:
            async with original(self, *args, **kwargs) as stream, closing(_pieces(stream)) as pieces:
                async for piece in pieces:
                    yield piece

        as_data = wire(_ANSWER, _dump_piece, _load_piece, error_loader(_ERRORS, by=type(self)))
        request = {"stream": True, **_asked(self, *args, **kwargs)}
        found: Any = await seam.astream("model", self.model_name, request, lambda: in_one_task(opened), as_data)
        async with closing(found) as pieces:
            yield _stream_class()(_third(*args, **kwargs), await anext(pieces), pieces)

    return request_stream


def _third(messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None) -> Any:
    return model_request_parameters


def _asked(
    model: Any, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
) -> dict[str, Any]:
    """What a model is asked, by the parameters of ``Model.request``."""
    settings = {**(model.settings or {}), **(model_settings or {})}
    said = [_said(_dump(_messages(), message)) for message in messages]
    return compact(
        messages=numbered(said, frozenset({"tool_call_id"}), opaque=frozenset({"args", "content"})),
        settings=shown(settings),
        parameters=shown(model_request_parameters),
    )


def _said(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what the model does not see, or what is another in every run."""
    parts = [
        {key: value for key, value in part.items() if key not in _PER_RUN and value is not None}
        for part in message.get("parts", ())
    ]
    return compact(kind=message.get("kind"), instructions=message.get("instructions"), parts=parts)


async def _pieces(stream: Any) -> AsyncGenerator[dict[str, Any], None]:
    """A stream as it is recorded: what is known when it opens, the model's own events, the whole response."""
    yield {"opened": {name: getattr(stream, name, None) for name in _OPENED}}
    known = None
    async for event in stream:
        if event.event_kind in ("part_end", "final_result"):
            continue  # made anew by what reads the stream
        usage = _usage_of(stream)
        yield {"event": event, **({} if usage == known else {"usage": usage})}
        known = usage
    yield {"response": stream.get()}


def _usage_of(stream: Any) -> Any:
    """A copy of the usage so far; before pydantic_ai 2 it was a method."""
    usage = stream.usage() if inspect.ismethod(stream.usage) else stream.usage
    return _load(_usages(), _dump(_usages(), usage))


@lru_cache(maxsize=1)
def _stream_class() -> Any:
    """The class of a stream made from pieces, live and in replay alike."""
    base: Any = importlib.import_module("pydantic_ai.models").StreamedResponse

    class RecordedStream(base):  # type: ignore[misc]
        """A response as it came in pieces."""

        def __init__(self, parameters: Any, first: dict[str, Any], pieces: Any) -> None:
            super().__init__(model_request_parameters=parameters)
            self._facts = first["opened"]
            self._pieces = pieces
            self._whole: Any = None
            self.canonical_system = self._facts.get("canonical_system")

        async def _get_event_iterator(self) -> AsyncIterator[Any]:
            parts: dict[int, Any] = {}
            async for piece in self._pieces:
                if "usage" in piece:
                    self._usage = piece["usage"]
                if "response" in piece:
                    self._finish(piece["response"])
                    continue
                event = piece["event"]
                if event.event_kind == "part_start":
                    parts[event.index] = event.part
                elif event.event_kind == "part_delta" and event.index in parts:
                    parts[event.index] = event.delta.apply(parts[event.index])
                if getattr(event, "index", None) in parts:
                    self._parts_manager.handle_part(vendor_part_id=event.index, part=parts[event.index])
                yield event

        def _finish(self, response: Any) -> None:
            self._whole = response
            self._usage = response.usage
            for name in ("provider_response_id", "provider_details", "finish_reason", "state", "failed_attempts"):
                if hasattr(response, name):
                    setattr(self, name, getattr(response, name))

        def get(self) -> Any:
            """The response so far, or the whole one."""
            return super().get() if self._whole is None else self._whole

        async def close_stream(self) -> None:
            """Ask for no more of it."""
            await self._pieces.aclose()

        model_name = property(lambda self: self._facts["model_name"])
        provider_name = property(lambda self: self._facts["provider_name"])
        provider_url = property(lambda self: self._facts["provider_url"])
        timestamp = property(lambda self: self._facts["timestamp"])

    return RecordedStream


# Values


@lru_cache(maxsize=8)
def _adapter(module: str, name: str) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    kind: Any = getattr(importlib.import_module(module), name)
    return TypeAdapter(list[kind], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))


def _usages() -> Any:
    return _adapter("pydantic_ai.usage", "RequestUsage")


def _messages() -> Any:
    return importlib.import_module("pydantic_ai.messages").ModelMessagesTypeAdapter


def _dump(adapter: Any, value: Any) -> Any:
    """``value`` as pydantic_ai itself writes it. The adapters are those of lists of such values."""
    return adapter.dump_python([value], mode="json", warnings=False)[0]


def _load(adapter: Any, data: Any) -> Any:
    return adapter.validate_json(json.dumps([data]))[0]


def _dump_response(response: Any) -> Any:
    return {key: part for key, part in _dump(_messages(), response).items() if part is not None}


def _load_response(data: Any) -> Any:
    return _load(_messages(), data)


def _dump_piece(piece: dict[str, Any]) -> dict[str, Any]:
    if "response" in piece:
        return {"response": _dump_response(piece["response"])}
    if "opened" in piece:
        facts = {name: fact for name, fact in piece["opened"].items() if fact is not None}
        timestamp = facts.pop("timestamp", None)
        return {"opened": {**facts, **({} if timestamp is None else {"timestamp": timestamp.isoformat()})}}
    found = {"event": _dump(_adapter("pydantic_ai.messages", "ModelResponseStreamEvent"), piece["event"])}
    return found | ({"usage": _dump(_usages(), piece["usage"])} if "usage" in piece else {})


def _load_piece(data: dict[str, Any]) -> dict[str, Any]:
    if "response" in data:
        return {"response": _load_response(data["response"])}
    if "opened" in data:
        facts = dict.fromkeys(_OPENED) | data["opened"]
        return {
            "opened": facts | {"timestamp": datetime.fromisoformat(facts["timestamp"]) if facts["timestamp"] else None}
        }
    found = {"event": _load(_adapter("pydantic_ai.messages", "ModelResponseStreamEvent"), data["event"])}
    return found | ({"usage": _load(_usages(), data["usage"])} if "usage" in data else {})


# Tools


def _call_tool(original: Any) -> Callable[..., Any]:
    async def call_tool(self: Any, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        if not seam.in_run():
            return await original(self, name, tool_args, ctx, tool)
        shown_name = getattr(ctx, "tool_name", None) or name
        return await seam.acall(
            "tool",
            shown_name,
            {key: shown(value) for key, value in tool_args.items()},
            lambda: original(self, name, tool_args, ctx, tool),
            _tool_wire(shown_name, tool),
        )

    return call_tool


def _tool_wire(name: str, tool: Any) -> seam.Wire[Any]:
    """The wire of what a tool gives: a value by its function's annotation, a ToolReturn, or content (images, ...)."""
    where = f"tool {name}: what it gave"
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    function = getattr(schema, "function", None)
    annotation = Any if function is None else returned(function)
    messages = importlib.import_module("pydantic_ai.messages")
    names = ("BinaryContent", "ImageUrl", "AudioUrl", "VideoUrl", "DocumentUrl")
    files = {name: kind for name in names if (kind := getattr(messages, name, None)) is not None}

    def dump(value: Any) -> Any:
        if not isinstance(value, messages.ToolReturn):
            try:
                return dump_result(value, annotation, where, files)
            except RecordingError:
                found = _part(messages, value)
                if not _kept(value, _content(found)):
                    raise
                return {"$type": "content", "$via": "message", "$value": found}
        found = _dump(_adapter("pydantic_ai.messages", "ToolReturn"), value)
        back = _load(_adapter("pydantic_ai.messages", "ToolReturn"), found)
        if not all(
            _kept(getattr(value, name), getattr(back, name)) for name in ("return_value", "content", "metadata")
        ):
            raise RecordingError(f"{where} is a ToolReturn that would not come back", hint="Let it hold plain data.")
        return {"$type": "ToolReturn", "$via": "message", "$value": found}

    def load(data: Any) -> Any:
        if isinstance(data, dict) and data.get("$via") == "message":
            value = data.get("$value")
            whole = data.get("$type") == "ToolReturn"
            return _load(_adapter("pydantic_ai.messages", "ToolReturn"), value) if whole else _content(value)
        return load_result(data, annotation, where, files)

    return wire(where, dump, load, error_loader(_ERRORS, by=function))


def _part(messages: Any, value: Any) -> Any:
    part = messages.ToolReturnPart(tool_name="tool", content=value, tool_call_id="call")
    found = _dump(_messages(), messages.ModelRequest(parts=[part]))["parts"][0]
    return {key: value for key, value in found.items() if value is not None and key != "timestamp"}


def _content(found: Any) -> Any:
    return _load(_messages(), {"kind": "request", "parts": [found]}).parts[0].content


def _kept(value: Any, back: Any) -> bool:
    """Whether what comes back is what it was. Files come back as the more special class (an image), with their id."""
    if isinstance(value, dict):
        return (
            isinstance(back, dict)
            and value.keys() == back.keys()
            and all(_kept(value[key], back[key]) for key in value)
        )
    if isinstance(value, (list, tuple)):
        return type(value) is type(back) and len(value) == len(back) and all(map(_kept, value, back))
    if type(value).__module__ == "pydantic_ai.messages":
        return isinstance(back, type(value))
    return type(value) is type(back) and bool(value == back)
