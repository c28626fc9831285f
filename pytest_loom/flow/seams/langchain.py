"""The seam of ``langchain_core``: chat models and tools.

Chat models are taken where langchain asks the model itself: ``_generate``, ``_agenerate``, ``_stream`` and ``_astream``
of every class. So callbacks, output parsers, retries and fallbacks are today's code in replay too. A tool is taken as
a whole (``run``, ``arun``): its callbacks and its error handling are part of what it gave back.

* model request: messages (without their ids), the model's own parameters, tools and whatever else was bound;
* model answer: ``{"generations": [{"message", "info"}], "output"}``; streamed, one ``{"message", "info"}`` a chunk;
* tool: its arguments without injected ones; what it gave back, a ToolMessage marked as one.

A message to which the model gave no id gets one here, so that it is the same in replay.
"""

from __future__ import annotations

import copy
import importlib
import typing
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from pytest_loom.flow import seam
from pytest_loom.flow.seams import langchain_around
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
from pytest_loom.flow.values import plain, type_name

PACKAGE = "langchain_core"
_ERRORS = ("langchain_core.exceptions", "langchain_core.tools.base")
"""Modules with exceptions of langchain's own."""
_SAID_ELSEWHERE = frozenset({"model", "model_name", "_type", "stream", "streaming", "responses"})
"""Parameters of a model that are its name, how it is asked, or (langchain's fakes) all that it will ever answer."""


def install() -> Callable[[], None]:
    """Patch langchain_core, which is imported already; what is returned undoes it."""
    chat = importlib.import_module("langchain_core.language_models.chat_models").BaseChatModel
    # From where it is defined: langchain_core.tools loads its names on first use, and keeps them.
    tool = importlib.import_module("langchain_core.tools.base").BaseTool
    events = {"_stream_chat_model_events": _stream(_event_wire), "_astream_chat_model_events": _astream(_event_wire)}
    answers = {"_generate": _generate, "_agenerate": _agenerate, "_stream": _stream(_chunk_wire),
               "_astream": _astream(_chunk_wire)}  # fmt: skip
    return undo_all(
        [
            patch_family(chat, {**answers, **events}),
            patch_family(tool, {"run": _run, "arun": _arun}),
            langchain_around.install(),
        ]
    )


class _Call:
    """One call of a model's own method, as it was made."""

    def __init__(self, model: Any, messages: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.stop = args[0] if args else kwargs.get("stop")
        self.run_manager = args[1] if len(args) > 1 else kwargs.get("run_manager")
        self.bound = {key: value for key, value in kwargs.items() if key not in ("stop", "run_manager")}
        self.name, self.request = _asked(model, messages, self.stop, self.bound)
        self.load_error = error_loader(*_ERRORS, by=type(model))
        self.message_id = f"lc_run--{getattr(self.run_manager, 'run_id', None) or uuid.uuid4()}"

    def named(self, result: Any) -> Any:
        """A model's result, its messages with an id."""
        for index, generation in enumerate(result.generations):
            if generation.message.id is None:
                generation.message.id = f"{self.message_id}-{index}"
        return result

    def named_chunk(self, chunk: Any) -> Any:
        """A piece of a stream (a chunk, or an event, which stays as it is), its message with an id."""
        message = getattr(chunk, "message", None)
        if message is not None and message.id is None:
            message.id = self.message_id
        return chunk

    def last_chunk(self, chunk: Any) -> Any:
        """The empty piece that closes a stream, or None where ``chunk`` did. langchain's own has an id of its own."""
        message: Any = getattr(chunk, "message", None)
        if getattr(message, "chunk_position", "last") is not None:
            return None
        content: Any = "" if isinstance(message.content, str) else []
        return type(chunk)(message=type(message)(content=content, chunk_position="last", id=self.message_id))


def _generate(original: Any) -> Callable[..., Any]:
    def generate(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run():
            return original(self, messages, *args, **kwargs)
        call = _Call(self, messages, args, kwargs)

        def live() -> Any:
            return call.named(original(self, messages, *args, **kwargs))

        return seam.call("model", call.name, call.request, live, _result_wire(call), usage=_usage)

    return generate


def _agenerate(original: Any) -> Callable[..., Any]:
    async def agenerate(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run():
            return await original(self, messages, *args, **kwargs)
        call = _Call(self, messages, args, kwargs)

        async def live() -> Any:
            return call.named(await original(self, messages, *args, **kwargs))

        return await seam.acall("model", call.name, call.request, live, _result_wire(call), usage=_usage)

    return agenerate


def _stream(wire_for: Callable[[_Call], seam.Wire[Any]]) -> Callable[[Any], Callable[..., Any]]:
    def wrap(original: Any) -> Callable[..., Any]:
        def stream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
            if not seam.in_run():
                return original(self, messages, *args, **kwargs)
            call = _Call(self, messages, args, kwargs)

            def live() -> Iterator[Any]:
                chunk = None
                for chunk in original(self, messages, *args, **kwargs):
                    yield call.named_chunk(chunk)
                if (last := call.last_chunk(chunk)) is not None:
                    yield last

            return seam.stream("model", call.name, call.request, live, wire_for(call))

        return stream

    return wrap


def _astream(wire_for: Callable[[_Call], seam.Wire[Any]]) -> Callable[[Any], Callable[..., Any]]:
    def wrap(original: Any) -> Callable[..., Any]:
        async def astream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            if not seam.in_run():
                async with closing(original(self, messages, *args, **kwargs)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            call = _Call(self, messages, args, kwargs)

            async def named() -> AsyncIterator[Any]:
                chunk = None
                async for chunk in original(self, messages, *args, **kwargs):
                    yield call.named_chunk(chunk)
                if (last := call.last_chunk(chunk)) is not None:
                    yield last

            def live() -> Any:
                return in_one_task(named)

            found: Any = await seam.astream("model", call.name, call.request, live, wire_for(call))
            async with closing(found) as chunks:
                async for chunk in chunks:
                    yield chunk

        return astream

    return wrap


# What a model is asked


def _asked(model: Any, messages: Any, stop: Any, kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The model's name and the request as plain data."""
    name = model._get_ls_params(stop=stop, **kwargs).get("ls_model_name") or model._llm_type
    parameters = {**(model._identifying_params or {}), **kwargs}
    tools = parameters.pop("tools", None)
    request = compact(
        messages=numbered([_said(message) for message in messages], frozenset({"id", "tool_call_id", "tool_use_id"}),
                          opaque=frozenset({"args", "input"})),
        tools=[_tool(tool) for tool in tools] if isinstance(tools, (list, tuple)) else shown(tools),
        stop=stop,
        parameters=shown({key: part for key, part in parameters.items() if key not in _SAID_ELSEWHERE}),
    )  # fmt: skip
    return str(name), request


def _said(message: Any) -> dict[str, Any]:
    """A message as the model sees it."""
    unsaid = {"id", "type", "content", "response_metadata", "usage_metadata", "artifact"}
    dumped = message.model_dump(exclude_defaults=True, exclude=unsaid)
    return {"type": message.type, "content": shown(message.content), **shown({k: v for k, v in dumped.items() if v})}


def _tool(tool: Any) -> Any:
    if isinstance(tool, dict):
        return shown(tool)
    convert = importlib.import_module("langchain_core.utils.function_calling").convert_to_openai_tool
    try:
        return convert(tool)
    except Exception:  # not a tool of langchain's: shown as what it is
        return shown(tool)


# What a model answers


def _result_wire(call: _Call) -> seam.Wire[Any]:
    outputs = importlib.import_module("langchain_core.outputs")

    def dump(result: Any) -> Any:
        generations = [_dump_generation(generation) for generation in result.generations]
        return compact(generations=generations, output=plain(result.llm_output, "the model's output"))

    def load(data: Any) -> Any:
        generations = [
            _load_generation(outputs.ChatGeneration, part, call.bound) for part in data.get("generations", ())
        ]
        return outputs.ChatResult(generations=generations, llm_output=data.get("output"))

    return wire("the model's answer", dump, load, call.load_error)


def _chunk_wire(call: _Call) -> seam.Wire[Any]:
    chunk = importlib.import_module("langchain_core.outputs").ChatGenerationChunk

    def load(data: Any) -> Any:
        return _load_generation(chunk, data, call.bound)

    return wire("the model's answer", _dump_generation, load, call.load_error)


def _event_wire(call: _Call) -> seam.Wire[Any]:
    where = "the model's event"
    return wire(where, lambda event: plain(event, where), lambda data: data, call.load_error)


def _dump_generation(generation: Any) -> dict[str, Any]:
    return compact(
        message=_dump_message(generation.message), info=plain(generation.generation_info, "the model's generation info")
    )


def _load_generation(kind: Any, data: Any, kwargs: dict[str, Any]) -> Any:
    message = _load_message(data["message"])
    asked, parsed = kwargs.get("response_format"), message.additional_kwargs.get("parsed")
    if isinstance(parsed, dict) and isinstance(asked, type) and hasattr(asked, "model_validate"):
        message.additional_kwargs["parsed"] = asked.model_validate(parsed)
    return kind(message=message, generation_info=data.get("info"))


def _dump_message(message: Any) -> dict[str, Any]:
    data = {
        "content": message.content,
        **message.model_dump(exclude_defaults=True, exclude={"type", "content", "artifact"}),
    }
    return {"type": message.type, "data": plain(data, "the message")}


def _load_message(data: Any) -> Any:
    """A message of one of langchain's own types; the log names no class."""
    return importlib.import_module("langchain_core.messages").messages_from_dict([data])[0]


def _usage(result: Any) -> Any:
    for generation in result.generations:
        if found := getattr(generation.message, "usage_metadata", None):
            return plain(found, "the usage")
    return plain((result.llm_output or {}).get("token_usage"), "the usage")


# Tools


def _run(original: Any) -> Callable[..., Any]:
    def run(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run() or _is_unfit(self, tool_input, kwargs):
            return original(self, tool_input, *args, **kwargs)
        return seam.call(
            "tool",
            self.name,
            _arguments(self, tool_input),
            lambda: original(self, tool_input, *args, **kwargs),
            _tool_wire(self),
        )

    return run


def _arun(original: Any) -> Callable[..., Any]:
    async def arun(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run() or _is_unfit(self, tool_input, kwargs):
            return await original(self, tool_input, *args, **kwargs)
        return await seam.acall(
            "tool",
            self.name,
            _arguments(self, tool_input),
            lambda: original(self, tool_input, *args, **kwargs),
            _tool_wire(self),
        )

    return arun


def _is_unfit(tool: Any, tool_input: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the tool refuses its arguments: then none of its own code runs, and today's code is to say so."""
    try:
        tool._to_args_and_kwargs(copy.copy(tool_input), kwargs.get("tool_call_id"))
    except Exception:
        return True
    return False


def _arguments(tool: Any, tool_input: Any) -> dict[str, Any]:
    if not isinstance(tool_input, dict):
        return {"input": shown(tool_input)}
    if hasattr(tool, "_filter_injected_args"):
        visible = tool._filter_injected_args(tool_input)
    else:  # before langchain-core 1: only what the model is told of
        told = getattr(tool.tool_call_schema, "model_fields", tool_input)
        visible = {key: value for key, value in tool_input.items() if key in told}
    return {str(key): shown(value) for key, value in visible.items()}


def _tool_wire(tool: Any) -> seam.Wire[Any]:
    """The wire of what a tool gives: a message for the model, or (called without a call id) the value itself."""
    where = f"tool {tool.name}: what it gave"
    message_type = importlib.import_module("langchain_core.messages").BaseMessage
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)._run
    annotation = returned(function)
    content, artifact = annotation, Any
    if getattr(tool, "response_format", "") == "content_and_artifact":
        parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else ()
        content, artifact = parts if len(parts) == 2 else (Any, Any)

    def dump(value: Any) -> Any:
        if isinstance(value, message_type):
            data = _dump_message(value)
            if getattr(value, "artifact", None) is not None:
                data["artifact"] = dump_result(value.artifact, artifact, where, _documents())
            return {"$type": type_name(type(value)), "$via": "message", "$value": data}
        if isinstance(value, list) and value and all(isinstance(part, message_type) for part in value):
            return [dump(part) for part in value]
        return dump_result(value, content, where, _documents())

    def load(data: Any) -> Any:
        if isinstance(data, list) and data and all(_is_message(part) for part in data):
            return [load(part) for part in data]
        if not _is_message(data):
            return load_result(data, content, where, _documents())
        message = _load_message(data["$value"])
        if "artifact" in data["$value"]:
            message.artifact = load_result(data["$value"]["artifact"], artifact, where, _documents())
        return message

    return wire(where, dump, load, error_loader(*_ERRORS, by=function))


def _is_message(data: Any) -> bool:
    return isinstance(data, dict) and data.get("$via") == "message" and isinstance(data.get("$value"), dict)


def _documents() -> dict[str, Any]:
    """Retrievers give documents as artifacts, and their functions seldom say so."""
    document: Any = importlib.import_module("langchain_core.documents").Document
    return {"Document": document, "Documents": list[document]}
