"""What schemas do not show of Pydantic AI's waiting calls: the framework itself is asked, with no tool and no model.

Each waiting call is approved in a copy of the process (``apart``) and followed up to its tool, which is not called, and
to the model, which is not asked. That shows what code decides: validators, aliases, ``prepare`` functions, filters and
toolsets that a run brings up. Only a plain refusal counts. What needs dependencies, a server or the network cannot be
told this way; then what the schemas show stands.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.apart import Unanswered, apart, missed
from pytest_loom.deploy.deferred import NOT_CARRIED_OUT, waiting_calls
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.flow.seams.shared import patch_family
from pytest_loom.log.event import Log

_slow: dict[int, Any] = {}
"""Agents that did not come back in time once: they are not asked again, run by run."""

_OVERRULED = ("tool-args", "tool-missing")
"""What the framework knows better than schemas do."""


def shadowed(log: Log, agent: Any, yesterday: Contract | None, found: list[Finding]) -> list[Finding]:
    """``found``, the findings of the schemas, corrected by what today's ``agent`` really does with each waiting call.

    Anything else than a live Pydantic AI agent, and a run in which no call waits for an approval, leaves them as they
    are. Takes as long as a start of the agent, at most ``apart.TIMEOUT`` seconds.
    """
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(agent).__mro__}
    calls = list(waiting_calls(log, yesterday))
    if ("pydantic_ai", "AbstractAgent") not in kinds or not calls:
        return found
    if any(item.code == "gate-changed" for item in found):
        return found  # approving it is an error, whatever else there is
    if id(agent) in _slow:
        return found
    messages, waiting = messages_of(log), _last_calls(log)
    asked = [call["callId"] for call in calls]
    _warm_up()
    try:
        answers = apart(lambda: asyncio.run(_approved(agent, messages, [call in asked for call in waiting])))
    except Unanswered as problem:
        if problem.slow:
            _slow[id(agent)] = agent
        return found
    kept = list(found)
    for call, answer in zip(waiting, answers, strict=False):
        name = answer["name"]
        if call not in asked:
            continue
        if answer["fate"] == "carried-out":
            kept = [item for item in kept if item.step != name or item.code not in _OVERRULED or not _breaks(item)]
        elif answer["fate"] == "refused" and not any(item.step == name and _breaks(item) for item in kept):
            kept.append(_refusal(log, name, answer["text"]))
    return kept


@functools.cache
def _warm_up() -> None:
    """Load here, once, what every child would load anew."""
    for module in ("pydantic_ai.models.function", "anyio._backends._asyncio"):
        importlib.import_module(module)
    with suppress(ImportError):
        importlib.import_module("genai_prices.data")
    importlib.import_module("pydantic_ai.messages").ModelMessagesTypeAdapter.validate_python([])


def messages_of(log: Log) -> list[dict[str, Any]]:
    """The history as the framework reads it, put together again from a log that this source made."""
    messages: list[dict[str, Any]] = []
    returns: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for event in log.events:
        payload = event.payload if event.event_type.startswith(("MODEL_", "TOOL_")) else {}
        if event.event_type == "MODEL_REQUESTED":
            messages.append({"kind": "request", **payload.get("request", {})})
        elif event.event_type == "MODEL_COMPLETED":
            response = payload.get("response", {})
            messages.append(
                {"kind": "response", "parts": response.get("parts", []), "model_name": payload.get("model")}
            )
            returns, names = [], {}
        elif event.event_type == "TOOL_REQUESTED":
            names[payload["callId"]] = payload["name"]
        elif event.event_type in ("TOOL_COMPLETED", "TOOL_FAILED"):
            returns.append({"callId": payload["callId"], "name": payload["name"]})
    if returns:  # what has been answered by now is not asked again: how it was answered makes no difference
        given = _given_ids(messages[-1]["parts"], list(names))
        parts = [
            {
                "part_kind": "tool-return",
                "tool_name": item["name"],
                "content": "",
                "tool_call_id": given.get(item["callId"], item["callId"]),
            }
            for item in returns
        ]
        messages.append({"kind": "request", "parts": parts})
    return messages


def _given_ids(parts: list[dict[str, Any]], ids: list[str]) -> dict[str, str]:
    """From the ids of a log, which are unique, to those that the framework gave."""
    calls = [part.get("tool_call_id") for part in parts if part.get("part_kind") == "tool-call"]
    return {mine: str(given) for mine, given in zip(ids, calls, strict=False) if given}


def _last_calls(log: Log) -> list[str]:
    """The ids of the calls of the last response that nothing has answered, in their order."""
    found: list[str] = []
    for event in log.events:
        if event.event_type == "MODEL_COMPLETED":
            found = []
        elif event.event_type == "TOOL_REQUESTED":
            found.append(event.payload["callId"])
        elif event.event_type in ("TOOL_COMPLETED", "TOOL_FAILED") and event.payload["callId"] in found:
            found.remove(event.payload["callId"])
    return found


def _breaks(item: Finding) -> bool:
    return item.severity == "breaking"


def _refusal(log: Log, name: str, text: str) -> Finding:
    shown = printable(name)
    unknown = text.startswith("Unknown tool name") or "is not available yet" in text[:300]
    return finding(
        log,
        "tool-missing" if unknown else "tool-args",
        f"{shown} waits to be approved. Asked without running it, today's agent does not carry it out:"
        f" {printable(text, 300)} {NOT_CARRIED_OUT}",
        f"Keep {shown} callable as it was shown until these runs are over: look at what prepares its definition and at"
        " what validates its arguments.",
        step=name,
    )


# In the child.


class _Untouchable:
    """Stands for the dependencies of a run, which nobody has here: what code decides by them, it cannot decide."""

    touched = False

    def __getattribute__(self, name: str) -> Any:
        _Untouchable.touched = True
        raise AttributeError(f"a shadow resume has no dependencies, so no {name}")

    def _touch(self, *args: Any) -> Any:
        _Untouchable.touched = True
        raise TypeError("a shadow resume has no dependencies")

    __bool__ = __eq__ = __lt__ = __gt__ = __len__ = __iter__ = __contains__ = __getitem__ = __call__ = _touch
    __hash__ = __str__ = __repr__ = __int__ = __float__ = _touch


async def _approved(agent: Any, history: list[dict[str, Any]], asked: list[bool]) -> list[dict[str, str]]:
    """Approve the waiting calls of a history: for each, ``fate`` and ``text``, in the order of the response.

    ``asked`` says of each whether it waits for an approval; the others get a result, as if from outside. ``fate``:
    ``carried-out`` where its tool would have been called, ``refused`` where the model would have been told something
    else, ``open`` where neither happened.
    """
    tools = importlib.import_module("pydantic_ai.tools")
    adapter = importlib.import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    model = importlib.import_module("pydantic_ai.models.function").FunctionModel
    messages = adapter.validate_python(history)
    answered = {
        part.tool_call_id for message in messages[-1:] for part in message.parts if part.part_kind == "tool-return"
    }
    last = next(message for message in reversed(messages) if message.kind == "response")
    waiting = [part for part in last.parts if part.part_kind == "tool-call" and part.tool_call_id not in answered]
    reached: set[str] = set()
    _patch_toolsets(reached)
    results = tools.DeferredToolResults(
        approvals={part.tool_call_id: True for part, approve in zip(waiting, asked, strict=True) if approve},
        calls={part.tool_call_id: "" for part, approve in zip(waiting, asked, strict=True) if not approve},
    )
    refused: dict[str, str] = {}
    try:
        async with agent.iter(
            message_history=messages, deferred_tool_results=results, model=model(_no_model), deps=_Untouchable()
        ) as run:
            async for node in run:
                if type(node).__name__ == "ModelRequestNode":
                    refused = {
                        part.tool_call_id: str(part.content)
                        for part in node.request.parts
                        if part.part_kind == "retry-prompt" or getattr(part, "outcome", "") in ("retried", "failed")
                    }
                    break
    except Exception:  # whatever it was, it came after what was reached
        refused = {}
    if _Untouchable.touched or missed:
        refused = {}  # it may be for want of these
    return [_fate(part, reached, refused) for part in waiting]


def _fate(part: Any, reached: set[str], refused: dict[str, str]) -> dict[str, str]:
    answer = {"name": part.tool_name, "fate": "open", "text": ""}
    if part.tool_call_id in reached:
        answer["fate"] = "carried-out"
    elif part.tool_call_id in refused:
        answer |= {"fate": "refused", "text": refused[part.tool_call_id]}
    return answer


def _no_model(messages: Any, info: Any) -> Iterator[Any]:
    raise RuntimeError("a shadow resume asks no model")


def _patch_toolsets(reached: set[str]) -> None:
    """No tool runs: where a toolset would call one, the call is noted."""
    toolsets = importlib.import_module("pydantic_ai.toolsets")
    passing = (toolsets.WrapperToolset, toolsets.CombinedToolset, toolsets.ExternalToolset)

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        async def call_tool(self: Any, name: str, tool_args: Any, ctx: Any, tool: Any) -> str:
            reached.add(ctx.tool_call_id)
            return ""

        return call_tool

    def skip(cls: type) -> bool:
        inside = any(base.__name__ in ("DynamicToolset", "OutputToolset") for base in cls.__mro__)
        return inside or issubclass(cls, passing)

    patch_family(toolsets.AbstractToolset, {"call_tool": wrap}, skip=skip)
