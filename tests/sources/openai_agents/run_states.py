"""Run states as the OpenAI Agents SDK writes them (openai-agents 0.24, schema 1.21), built small."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


def call(name: str, call_id: str, **args: Any) -> Json:
    """A function call as a model's response holds it."""
    arguments = json.dumps(args)
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}


def message(text: str, message_id: str = "msg_1") -> Json:
    """A message as a model's response holds it."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": message_id, "role": "assistant", "status": "completed", "content": content}


def item(kind: str, raw: Json, agent: str = "desk", **more: Any) -> Json:
    """A run item."""
    return {"type": kind, "raw_item": raw, "agent": {"name": agent}, **more}


def answered(call_id: str, output: str, agent: str = "desk") -> Json:
    """The run item of a finished call."""
    raw = {"type": "function_call_output", "call_id": call_id, "output": output}
    return item("tool_call_output_item", raw, agent, output=output)


def response(*output: Json) -> Json:
    """A model response."""
    return {"usage": {"requests": 1}, "output": list(output), "response_id": None}


SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["order", "cents"],
    "additionalProperties": False,
}
LOOK, PAY = call("look", "c1", order="A"), call("pay", "c2", order="A", cents=4999)


def waiting(**changes: Any) -> Json:
    """A run that looked something up and waits for the approval of a payment."""
    approval = item("tool_approval_item", PAY, tool_name="pay")
    items = [item("tool_call_item", LOOK), answered("c1", "paid"), item("tool_call_item", PAY), approval]
    state: Json = {
        "$schemaVersion": "1.21",
        "current_turn": 2,
        "current_agent": {"name": "desk"},
        "original_input": "order A",
        "model_responses": [response(LOOK), response(PAY)],
        "context": {
            "usage": {},
            "approvals": {},
            "tool_invocations": {
                "c1": {"type": "function_call", "executed": True, "completed": True},
                "c2": {"type": "function_call", "executed": False, "completed": False},
            },
            "context": {},
        },
        "max_turns": 10,
        "generated_items": items,
        "session_items": items,
        "current_step": {"type": "next_step_interruption", "data": {"interruptions": [approval]}},
        "last_processed_response": {
            "new_items": [item("tool_call_item", PAY)],
            "functions": [{"tool_call": PAY, "tool": {"name": "pay", "paramsJsonSchema": SCHEMA}}],
            "handoffs": [],
            "interruptions": [approval],
        },
        "trace": {"object": "trace", "id": "trace_1", "workflow_name": "refunds", "group_id": "g1"},
    }
    return state | changes
