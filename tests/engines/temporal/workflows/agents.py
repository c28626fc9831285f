"""Agents whose model calls and tools are activities: a weather agent in two frameworks, here as plain workflows."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from temporalio import workflow

TOOLS = "ToolsWorkflow"
WEATHER = "WeatherAgent"
SOON = timedelta(seconds=30)

SETTINGS = (
    "temperature top_p frequency_penalty presence_penalty tool_choice parallel_tool_calls truncation max_tokens"
    " reasoning metadata store include_usage extra_query extra_body extra_headers extra_args"
)


def request(items: list[Any], instructions: str = "You are a helpful agent.") -> dict[str, Any]:
    """What the model is asked."""
    arguments = {
        "title": "get_weather_args",
        "type": "object",
        "properties": {"city": {"title": "City", "type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    tool = {
        "name": "get_weather",
        "description": "Get the weather for a given city.",
        "params_json_schema": arguments,
        "strict_json_schema": True,
    }
    return {
        "model_name": None,
        "system_instructions": instructions,
        "input": items,
        "model_settings": dict.fromkeys(SETTINGS.split()),
        "tools": [tool],
        "output_schema": None,
        "handoffs": [],
        "tracing": 1,
        "previous_response_id": None,
        "prompt": None,
    }


async def call(activity: str, *args: Any) -> Any:
    return await workflow.execute_activity(activity, args=args, start_to_close_timeout=SOON)


async def converse(question: str, *, tool: str = "get_weather", **asking: str) -> str:
    """Ask the model, run the tools that it asks for, until it answers with a text."""
    items: list[Any] = [{"content": question, "role": "user"}]
    while True:
        answer = await call("invoke_model_activity", request(items, **asking))
        wanted = [item for item in answer["output"] if item["type"] == "function_call"]
        if not wanted:
            text: str = answer["output"][0]["content"][0]["text"]
            return text
        for item in wanted:
            found = await call(tool, item["arguments"])
            shown = ", ".join(f"{name}={value!r}" for name, value in found.items())
            output = {"call_id": item["call_id"], "output": f"Weather({shown})", "type": "function_call_output"}
            items += [item, output]


@workflow.defn(name=TOOLS)
class Tools:
    @workflow.run
    async def run(self, question: str) -> str:
        return await converse(question)


@workflow.defn(name=TOOLS)
class OtherPrompt:
    """The model is instructed in other words; its recorded answers are used all the same."""

    @workflow.run
    async def run(self, question: str) -> str:
        return await converse(question, instructions="You are a weather bureau.")


@workflow.defn(name=TOOLS)
class ToolRenamed:
    """The tool's activity has another name."""

    @workflow.run
    async def run(self, question: str) -> str:
        return await converse(question, tool="weather_of")


@workflow.defn(name=TOOLS)
class NoTools:
    """The first answer of the model is taken for the last."""

    @workflow.run
    async def run(self, question: str) -> str:
        answer = await call("invoke_model_activity", request([{"content": question, "role": "user"}]))
        return json.dumps(answer)


@workflow.defn(name=TOOLS)
class Moderated:
    """A guardrail looks at the question first."""

    @workflow.run
    async def run(self, question: str) -> str:
        await call("moderate", question)
        return await converse(question)


@workflow.defn(name=TOOLS)
class ModeratedPatched:
    """The guardrail behind a patch."""

    @workflow.run
    async def run(self, question: str) -> str:
        if workflow.patched("guardrail"):
            await call("moderate", question)
        return await converse(question)


async def forecast(question: str, model: str, *, tool: str = "get_weather", city: str | None = None) -> Any:
    """The other framework's agent: which tool is called with what is in the model's answer too."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": question}]}]
    while True:
        answers = await call("invoke_model", {"model": model, "contents": contents})
        wanted = [part["functionCall"] for part in answers[0]["content"]["parts"] if part.get("functionCall")]
        if not wanted:
            return answers[0]
        for item in wanted:
            found = await call(tool, city or item["args"]["city"])
            contents.append({"role": "tool", "parts": [{"text": found}]})


@workflow.defn(name=WEATHER)
class Weather:
    """The steps of that history; what its framework sends to the model is not rebuilt."""

    @workflow.run
    async def run(self, question: str, model: str) -> Any:
        return await forecast(question, model)


@workflow.defn(name=WEATHER)
class WeatherElsewhere:
    """The tool is asked for another city than the model wanted."""

    @workflow.run
    async def run(self, question: str, model: str) -> Any:
        return await forecast(question, model, city="Newark")


@workflow.defn(name=WEATHER)
class WeatherToolRenamed:
    """The tool's activity has another name."""

    @workflow.run
    async def run(self, question: str, model: str) -> Any:
        return await forecast(question, model, tool="weather_of")


@workflow.defn(name=WEATHER)
class WeatherArgumentAdded:
    """The run needs one argument more than was recorded."""

    @workflow.run
    async def run(self, question: str, model: str, language: str) -> Any:
        return await forecast(f"{question} ({language})", model)
