"""Run today's agent on a recorded run: models answer as they were recorded, and no tool runs.

To be called under the guard. A run state has no model requests and no arguments that were not the model's, so what is
compared is what today's code makes of the answers: turns, handoffs, which calls wait for a person.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, ReplayDivergence, Unsupported, printable
from pytest_loom.log.event import Log
from pytest_loom.sources.openai_agents.contract import reachable
from pytest_loom.sources.openai_agents.runstate import run_state_log


def replayed_run(log: Log, agent: Any) -> Log:
    """The log of today's agent on the recorded run's input and answers.

    Raises ReplayDivergence where today's agent asks for what was not recorded, or cannot go on from an answer;
    Unsupported where the run waits inside an agent that works as a tool, whose answers the outer run does not hold.
    """
    if any(event.namespace for event in log.events):
        raise Unsupported("a run that waits inside an agent that works as a tool cannot be replayed", path=log.path)
    outputs = {
        call.call_id: call.output for call in log.state.calls if call.kind == "tool" and call.status != "requested"
    }
    answers = [call.output for call in log.state.calls if call.kind == "model"]
    asked: list[ReplayDivergence] = []
    with _answering(agent, answers, outputs, log, asked):
        try:
            state = asyncio.run(_run(agent, log, outputs))
        except ReplayDivergence:
            raise
        except Exception as problem:
            if asked:
                raise asked[0] from problem
            raise _diverged(
                log, f"today's agent stops: {type(problem).__name__}: {printable(str(problem))}"
            ) from problem
    if asked:
        raise asked[0]
    state["trace"] = {"workflow_name": log.workflow_id}
    found = run_state_log(json.dumps(state).encode(), Path(f"{log.execution_id}.json"))
    if isinstance(found, LogError):
        raise found
    return found


async def _run(agent: Any, log: Log, outputs: dict[Any, Any]) -> Any:
    """From the input to the end, or to where calls wait that were not answered."""
    sdk = importlib.import_module("agents")
    turns = max(10, 2 + sum(call.kind == "model" for call in log.state.calls))
    config = sdk.RunConfig(tracing_disabled=True)
    result = await sdk.Runner.run(agent, log.state.variables.get("_input"), max_turns=turns, run_config=config)
    while result.interruptions and all(item.call_id in outputs for item in result.interruptions):
        state = result.to_state()
        for item in state.get_interruptions():
            state.approve(item)
        result = await sdk.Runner.run(agent, state, run_config=config)
    return result.to_state().to_json()


@contextlib.contextmanager
def _answering(
    agent: Any, answers: list[Any], outputs: dict[Any, Any], log: Log, asked: list[ReplayDivergence]
) -> Iterator[None]:
    """The agents and their tools, answering from the record while the block lasts."""
    model = _model(answers, log, asked)
    undo: list[tuple[Any, str, Any]] = []

    def put(thing: Any, name: str, value: Any) -> None:
        undo.append((thing, name, getattr(thing, name)))
        setattr(thing, name, value)

    try:
        for one in reachable(agent).values():
            put(one, "model", model)
            put(one, "mcp_servers", [])
            for tool in one.tools:
                if hasattr(tool, "on_invoke_tool"):
                    put(tool, "on_invoke_tool", _invoker(str(tool.name), outputs, log, asked))
        yield
    finally:
        for thing, name, value in reversed(undo):
            setattr(thing, name, value)


def _invoker(name: str, outputs: dict[Any, Any], log: Log, asked: list[ReplayDivergence]) -> Any:
    async def invoke(context: Any, given: str) -> Any:
        call_id = getattr(context, "tool_call_id", None)
        if call_id in outputs:
            return outputs[call_id]
        asked.append(_diverged(log, f"today's agent runs {printable(name)}, which the recorded run did not"))
        raise asked[-1]

    return invoke


def _model(answers: list[Any], log: Log, asked: list[ReplayDivergence]) -> Any:
    from pydantic import TypeAdapter, ValidationError

    sdk: Any = importlib.import_module("agents")
    base: Any = sdk.Model
    kind: Any = importlib.import_module("openai.types.responses").ResponseOutputItem
    items: Any = TypeAdapter(kind)
    left = list(answers)

    def revived(item: Any) -> Any:
        try:
            return items.validate_python(item)
        except ValidationError:
            return item

    class Recorded(base):  # type: ignore[misc]
        """Says what was recorded."""

        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            """The next answer."""
            if not left:
                asked.append(
                    _diverged(log, f"today's agent asks its model more often than the {len(answers)} times recorded")
                )
                raise asked[-1]
            output = [revived(item) for item in left.pop(0) or []]
            return sdk.ModelResponse(output=output, usage=sdk.Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            """Not used: a saved run is run on without a stream."""
            raise NotImplementedError

    return Recorded()


def _diverged(log: Log, what: str) -> ReplayDivergence:
    return ReplayDivergence(
        what,
        path=log.path,
        execution_id=log.execution_id,
        hint="Record the run anew where the change is meant; finish waiting runs on the old code.",
    )
