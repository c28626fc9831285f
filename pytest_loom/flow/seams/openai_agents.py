"""The seam of the OpenAI Agents SDK (``openai-agents``, the module ``agents``): models and function tools.

Models are taken at the ``Model`` interface, ``get_response`` and ``stream_response`` of every class that implements it.
Function tools (MCP tools are among them) are taken where the runner invokes one, with its timeout and its own handling
of errors. An agent that serves as a tool is no effect: its own model and tool calls are recorded, so that its code is
today's in replay too. The runner's loop, handoffs, guardrails and hooks are ordinary code of the run.

* model request: instructions, input, settings, tools, handoffs, output type, and what continues a conversation;
* model answer: ``{"output": [item], "usage", "response_id"}``; streamed, one ``{"event"}`` each;
* tool: the arguments as the model gave them, parsed; what it gave back.

The SDK's tracing goes on while recording, in a thread that is no part of the run. A replay sends no traces.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from pytest_loom.errors import Unsupported
from pytest_loom.flow import seam
from pytest_loom.flow.seams.shared import (
    closing,
    compact,
    dump_result,
    error_loader,
    in_one_task,
    load_result,
    outside,
    patch_family,
    replaying,
    returned,
    shown,
    undo_all,
    wire,
)
from pytest_loom.flow.values import plain

PACKAGE = "agents"
_ERRORS = "agents.exceptions"
_ANSWER = "the model's answer"


def install() -> Callable[[], None]:
    """Patch the Agents SDK, which is imported already; what is returned undoes it. Another ``agents`` is left alone."""
    if not hasattr(sys.modules.get(PACKAGE), "FunctionTool"):
        return lambda: None
    model = importlib.import_module("agents.models.interface").Model
    wraps = {"get_response": _get_response, "stream_response": _stream_response}
    tracing = importlib.import_module("agents.tracing.processors").BatchTraceProcessor
    traced = dict.fromkeys(("on_trace_start", "on_trace_end", "on_span_start", "on_span_end", "force_flush"), _trace)
    return undo_all([_patch_tools(), patch_family(model, wraps), patch_family(tracing, traced)])


def _trace(original: Any) -> Callable[..., Any]:
    def trace(self: Any, *args: Any) -> Any:
        if not seam.in_run():
            return original(self, *args)
        return None if replaying() else outside(original, self, *args)

    return trace


# Models


def _get_response(original: Any) -> Callable[..., Any]:
    async def get_response(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run():
            return await original(self, *args, **kwargs)
        return await seam.acall(
            "model",
            _name(self),
            _asked(*args, **kwargs),
            lambda: original(self, *args, **kwargs),
            wire(_ANSWER, _dump_response, _load_response, error_loader(_ERRORS, by=type(self))),
            usage=_usage,
        )

    return get_response


def _stream_response(original: Any) -> Callable[..., Any]:
    async def stream_response(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        def plainly() -> Any:
            return original(self, *args, **kwargs)

        if seam.in_run():
            as_data = wire(_ANSWER, _dump_event, _load_event, error_loader(_ERRORS, by=type(self)))
            found: Any = await seam.astream(
                "model", _name(self), _asked(*args, **kwargs), lambda: in_one_task(plainly), as_data
            )
        else:
            found = plainly()
        async with closing(found) as events:
            async for event in events:
                yield event

    return stream_response


def _name(model: Any) -> str:
    name = getattr(model, "model", None)
    return str(name) if name else type(model).__name__


def _asked(
    system_instructions: Any = None,
    input: Any = None,
    model_settings: Any = None,
    tools: Any = (),
    output_schema: Any = None,
    handoffs: Any = (),
    tracing: Any = None,
    **others: Any,
) -> dict[str, Any]:
    """What a model is asked, by the parameters of ``Model.get_response``; tracing is not part of it."""
    return compact(
        instructions=system_instructions,
        input=shown(input),
        settings=_settings(model_settings),
        tools=[_tool(tool) for tool in tools or ()],
        output=_output(output_schema),
        handoffs=[
            compact(name=each.tool_name, description=each.tool_description, schema=shown(each.input_json_schema))
            for each in handoffs or ()
        ],
        **{key: shown(value) for key, value in others.items()},
    )


def _settings(settings: Any) -> Any:
    found = shown(settings)
    extra = found.get("extra_args") if isinstance(found, dict) else None
    if isinstance(extra, dict) and str(extra.get("prompt_cache_key", "")).startswith("agents-sdk:"):
        extra = {key: value for key, value in extra.items() if key != "prompt_cache_key"}  # another in every run
        found = compact(**{**found, "extra_args": extra})
    return found


def _tool(tool: Any) -> Any:
    if not hasattr(tool, "params_json_schema"):
        return {"type": type(tool).__name__, **shown(tool)}  # a hosted tool: its own settings
    return compact(name=tool.name, description=tool.description, schema=shown(tool.params_json_schema))


def _output(schema: Any) -> Any:
    if schema is None or schema.is_plain_text():
        return None
    return compact(name=schema.name(), schema=shown(schema.json_schema()))


def _usage(response: Any) -> Any:
    usage = response.usage
    return {name: getattr(usage, name) for name in ("requests", "input_tokens", "output_tokens", "total_tokens")}


def _dump_item(item: Any) -> Any:
    """An item or event of the Responses API: only what was set, so that it comes back with the same fields."""
    if isinstance(item, dict):
        return plain(item, _ANSWER)
    return item.model_dump(mode="json", exclude_unset=True, warnings=False)


def _load_as(kind: Any, data: Any) -> Any:
    """As the SDK itself reads answers: by the type that the data says, without refusing what it does not know."""
    return importlib.import_module("openai._models").construct_type(type_=kind, value=data)


def _dump_response(response: Any) -> Any:
    usage = _usage_adapter().dump_python(response.usage, mode="json", warnings=False)
    found = compact(
        output=[_dump_item(item) for item in response.output], usage=usage, response_id=response.response_id
    )
    for name in ("request_id", "raw_usage"):
        if getattr(response, name, None) is not None:
            found[name] = plain(getattr(response, name), _ANSWER)
    return found


def _load_response(data: Any) -> Any:
    items = importlib.import_module("agents.items")
    output = [_load_as(items.TResponseOutputItem, item) for item in data.get("output", ())]
    usage = _usage_adapter().validate_python(data["usage"])
    others = {name: data[name] for name in ("request_id", "raw_usage") if name in data}
    return items.ModelResponse(output=output, usage=usage, response_id=data.get("response_id"), **others)


def _usage_adapter() -> Any:
    from pydantic import TypeAdapter

    usage: Any = importlib.import_module("agents.usage").Usage
    return TypeAdapter(usage)


def _dump_event(event: Any) -> Any:
    """An event, and what the SDK has noted on its response outside of the fields."""
    found = {"event": _dump_item(event)}
    for name, attribute in _notes().items():
        value = getattr(getattr(event, "response", None), attribute, None)
        if value is not None:
            found[name] = plain(value, _ANSWER)
    return found


def _load_event(data: Any) -> Any:
    event = _load_as(importlib.import_module("agents.items").TResponseStreamEvent, data["event"])
    for name, attribute in _notes().items():
        if name in data:
            object.__setattr__(event.response, attribute, data[name])
    return event


def _notes() -> dict[str, str]:
    raw_usage = getattr(importlib.import_module("agents.usage"), "_RAW_USAGE_ATTRIBUTE", "_raw_usage")
    return {"request_id": "_request_id", "raw_usage": raw_usage}


# Tools


def _patch_tools() -> Callable[[], None]:
    """Patch the place where the runner invokes a function tool: one function in one module."""
    runner = importlib.import_module("agents.run_internal.tool_execution")
    for name in ("_invoke_function_tool_with_metadata", "invoke_function_tool"):
        if original := getattr(runner, name, None):
            setattr(runner, name, _invoke(original))
            return lambda: setattr(runner, name, original)
    raise Unsupported(
        "this version of openai-agents invokes its tools in a place that is not known",
        hint="Use a version that pytest-loom's extra for openai-agents allows.",
    )


def _invoke(original: Any) -> Callable[..., Any]:
    async def invoke(*, function_tool: Any, context: Any, arguments: str) -> Any:
        def live() -> Any:
            return original(function_tool=function_tool, context=context, arguments=arguments)

        if not seam.in_run() or getattr(function_tool, "_is_agent_tool", False):
            return await live()
        return await seam.acall("tool", function_tool.name, _arguments(arguments), live, _tool_wire(function_tool))

    return invoke


def _arguments(arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments or "{}")
    except ValueError:  # what the model wrote is for the tool to judge
        found = arguments
    return found if isinstance(found, dict) else {"input": found}


def _function(invoke: Any) -> Any:
    """The application's function behind a function tool; anything else where there is none."""
    wrapped = getattr(invoke, "_get_wrapped_callable", None)
    if callable(wrapped):
        return wrapped()
    within = getattr(invoke, "_invoke_tool_impl", invoke)  # earlier versions do not tell
    return inspect.getclosurevars(within).nonlocals.get("the_func") if inspect.isfunction(within) else None


def _tool_wire(tool: Any) -> seam.Wire[Any]:
    """The wire of what the invocation gives: the tool's output or, in newer versions, a result that holds it."""
    where = f"tool {tool.name}: what it gave"
    tools = importlib.import_module("agents.tool")
    result_type = getattr(tools, "_FunctionToolInvocationResult", None)
    function = _function(tool.on_invoke_tool)
    annotation = returned(function) if inspect.isroutine(function) else Any
    names = ("ToolOutputText", "ToolOutputImage", "ToolOutputFileContent")
    known = {name: kind for name in names if (kind := getattr(tools, name, None)) is not None}

    def dump(result: Any) -> Any:
        if result_type is None:
            return dump_result(result, annotation, where, known)
        if result.is_sdk_generated_error:
            return {"$type": "str", "$via": "error", "$value": result.output}
        return dump_result(result.output, annotation, where, known)

    def load(data: Any) -> Any:
        failed = isinstance(data, dict) and data.get("$via") == "error"
        output = data["$value"] if failed else load_result(data, annotation, where, known)
        return output if result_type is None else result_type(output, is_sdk_generated_error=failed)

    return wire(where, dump, load, error_loader(_ERRORS, by=function))
