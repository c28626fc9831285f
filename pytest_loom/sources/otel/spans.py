"""What a span of an agent says: which operation it is, of whom, with what, and how it ended.

By the GenAI semantic conventions (``gen_ai.operation.name``), else by OpenLLMetry's ``traceloop.span.kind``, else by
what Pydantic AI's first instrumentation versions wrote.
"""

from __future__ import annotations

from typing import Any, Literal

from pytest_loom.sources.langchain_messages import Brought, brought_by, messages_in
from pytest_loom.sources.literals import literal
from pytest_loom.sources.otel.messages import decoded, talk_of, texts_in
from pytest_loom.sources.otel.otlp import Span
from pytest_loom.sources.shape import arguments, text
from pytest_loom.sources.toolcalls import NOTHING

Kind = Literal["agent", "workflow", "step", "model", "tool", "created", ""]

_OPERATIONS: dict[str, Kind] = {
    "chat": "model",
    "generate_content": "model",
    "text_completion": "model",
    "embeddings": "model",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "invoke_workflow": "workflow",
    "create_agent": "created",
    "retrieval": "step",
}
_TRACELOOP: dict[str, Kind] = {"workflow": "workflow", "agent": "agent", "task": "step", "tool": "tool"}
_BESIDE = "traceloop.association.properties."
_DEFERRED = ("ApprovalRequired", "CallDeferred", "GraphInterrupt", "NodeInterrupt")
"""Exceptions that stop a tool until somebody decides: spans of older versions carry them as errors."""


def kind_of(span: Span) -> Kind:
    """Which operation a span is; "" for one that has nothing to do with agents, or is only there while it runs."""
    said = span.attributes
    if said.get("logfire.span_type") == "pending_span":
        return ""
    operation, traceloop = text(said.get("gen_ai.operation.name")), text(said.get("traceloop.span.kind"))
    if operation in _OPERATIONS or traceloop in _TRACELOOP:
        return _OPERATIONS[operation] if operation in _OPERATIONS else _TRACELOOP[traceloop]
    if operation:
        return ""
    if "gen_ai.tool.name" in said:
        return "tool"
    if "pydantic_ai.all_messages" in said or "all_messages_events" in said:
        return "agent"
    return "model" if "llm.request.type" in said or "gen_ai.request.model" in said else ""


def name_of(span: Span, kind: Kind) -> str:
    """Of which agent, workflow, step, tool or model a span is."""
    keys = {
        "agent": ("gen_ai.agent.name", "agent_name"),
        "created": ("gen_ai.agent.name", "agent_name"),
        "workflow": ("gen_ai.workflow.name",),
        "tool": ("gen_ai.tool.name",),
        "model": ("gen_ai.request.model", "gen_ai.response.model", "model_name"),
    }.get(kind, ())
    found = [
        text(span.attributes.get(key)) for key in (*keys, *(() if kind == "model" else ("traceloop.entity.name",)))
    ]
    operation = text(span.attributes.get("gen_ai.operation.name"))
    named = span.name.removeprefix(f"{operation} ") if operation else span.name
    return next((one for one in found if one), "") or ("" if kind == "model" else named) or "unknown"


def is_twin(span: Span, around: Span) -> bool:
    """Whether a span tells again what the one around it tells: two instrumentations see the same call."""
    kind, other = kind_of(span), kind_of(around)
    scopes = ("agent", "workflow")
    if kind == "model":
        return other == "model"
    if kind == "tool":
        ids = {tool_id(span), tool_id(around)} - {""}
        return other == "tool" and len(ids) < 2 and name_of(span, kind) == name_of(around, other)
    return kind in scopes and other in scopes and name_of(span, kind) == name_of(around, other)


def conversation_of(span: Span) -> str:
    """The conversation or thread that a span names, "" for none."""
    keys = ("gen_ai.conversation.id", f"{_BESIDE}thread_id", f"{_BESIDE}session_id")
    return next((found for key in keys if (found := text(span.attributes.get(key)))), "")


def place_of(span: Span) -> tuple[str, str]:
    """The node of a LangGraph graph in which a span is, and the node's namespace; "" for none."""
    node, namespace = (span.attributes.get(f"{_BESIDE}langgraph_{key}") for key in ("node", "checkpoint_ns"))
    return text(node), text(namespace)


def tool_id(span: Span) -> str:
    """The id of a tool's call as the model gave it, "" where the span does not say."""
    brought = _brought(entity(span, "output"))
    return text(span.attributes.get("gen_ai.tool.call.id")) or (brought.given_id if brought else "")


def tool_args(span: Span) -> Any:
    """What a tool was called with; NOTHING where it was not kept."""
    if (found := entity(span, "input")) is not NOTHING:
        return _called_with(found)
    for key in ("gen_ai.tool.call.arguments", "tool_arguments"):
        if span.attributes.get(key) is not None:
            return arguments(span.attributes[key])
    told = next((event for event in span.events if event.name == "gen_ai.tool.message"), None)
    return NOTHING if told is None else arguments(told.attributes.get("content", NOTHING))


def tool_output(span: Span) -> Any:
    """What a tool gave back; NOTHING where it was not kept."""
    found = entity(span, "output")
    for key in ("gen_ai.tool.call.result", "tool_response") if found is NOTHING else ():
        if span.attributes.get(key) is not None:
            return decoded(span.attributes[key])
    if found is not NOTHING:
        brought = _brought(found)
        return found if brought is None else brought.content
    told = next((event for event in span.events if event.name == "gen_ai.choice"), None)
    return NOTHING if told is None else decoded(told.attributes.get("message", NOTHING))


def entity(span: Span, side: Literal["input", "output"]) -> Any:
    """What OpenLLMetry wrote beside a workflow, agent, task or tool; NOTHING where it did not.

    Its instrumentation of LangChain puts values into an object with tags and metadata beside them.
    """
    if span.attributes.get(f"traceloop.entity.{side}") is None:
        return NOTHING
    found = decoded(span.attributes[f"traceloop.entity.{side}"])
    if isinstance(found, dict) and "kwargs" in found and side == "output":
        return next((found[key] for key in ("outputs", "output") if key in found), found)
    wrapped = isinstance(found, dict) and {"inputs", "tags", "metadata"} <= found.keys() and "input_str" not in found
    return found["inputs"] if wrapped else found


def output_of(span: Span) -> Any:
    """What an agent or workflow gave back; NOTHING where it was not kept."""
    if "final_result" in span.attributes:
        return decoded(span.attributes["final_result"])
    if (found := entity(span, "output")) is not NOTHING:
        return found
    said = texts_in(talk_of(span).said, "assistant")
    return said[-1] if said else NOTHING


def usage_of(span: Span) -> dict[str, Any] | None:
    """The tokens of a model call, by what they were used for."""
    prefix = "gen_ai.usage."
    found = {key.removeprefix(prefix): value for key, value in span.attributes.items() if key.startswith(prefix)}
    return found or None


def error_of(span: Span) -> dict[str, Any] | None:
    """How a span failed as ``{"type", "message"}``, None where it did not."""
    kind = text(span.attributes.get("error.type"))
    if not span.failed and not kind:
        return None
    thrown = [event.attributes for event in span.events if event.name == "exception"]
    last = thrown[-1] if thrown else {}
    return {
        "type": text(last.get("exception.type")) or kind or "SpanError",
        "message": text(last.get("exception.message")) or span.message or "the span failed",
    }


def is_deferral(error: dict[str, Any]) -> bool:
    """Whether an error only says that somebody has to decide before it goes on."""
    return error["type"].rpartition(".")[2] in _DEFERRED


def _brought(output: Any) -> Brought | None:
    """The message with which a tool of LangChain answers its call."""
    found = (brought_by(message) for message in messages_in(output))
    return next((one for one in found if one is not None), None)


def _called_with(said: Any) -> Any:
    """The arguments in what OpenLLMetry wrote of a call: of LangChain's tools, or of a decorated function."""
    if not isinstance(said, dict):
        return said
    if isinstance(said.get("inputs"), dict):
        return said["inputs"]
    if "input_str" in said:
        return literal(said["input_str"]) if isinstance(said["input_str"], str) else said["input_str"]
    return said["kwargs"] if said.get("args") == [] and isinstance(said.get("kwargs"), dict) else said
