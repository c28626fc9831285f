"""The log of a history as what a replay needs: each answer of the model, and what became of the calls in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pytest_loom.errors import Unsupported
from pytest_loom.log.event import Event, Log

_OUTCOMES = {"ToolFailed": "failed", "ModelRetry": "retried", "ToolDenied": "denied", "Interrupted": "interrupted"}
_FINAL = "Final result processed."


@dataclass
class Call:
    """A recorded tool call. ``outcome``: open, success, failed, retried, denied or interrupted.

    ``given_id`` is the id that the provider gave, unique in its answer only. ``waited``: somebody had to decide;
    ``kind``: approval or external, "" where it was not kept. ``refused``: the framework, not the tool, sent it back.
    """

    name: str
    given_id: str
    line: int
    outcome: str = "open"
    content: Any = None
    waited: bool = False
    kind: str = ""

    @property
    def refused(self) -> bool:
        """Whether its arguments did not validate, or there was no such tool."""
        return not isinstance(self.content, str) or self.content.startswith("Unknown tool name")

    @property
    def final(self) -> bool:
        """Whether it was the output of its run."""
        return bool(self.content == _FINAL)


@dataclass
class Turn:
    """An answer of the model: the ``prompts`` new in its request, the answer as JSON, and its tool calls."""

    prompts: list[Any]
    response: dict[str, Any]
    calls: list[Call] = field(default_factory=list)
    prompts_after: list[Any] = field(default_factory=list)

    def call(self, given_id: str) -> Call | None:
        """The call with a provider's id."""
        return next((call for call in self.calls if call.given_id == given_id), None)


def turns_of(log: Log) -> list[Turn]:
    """The answers of a history in their order. Raises Unsupported where it does not tell what a replay needs."""
    turns: list[Turn] = []
    calls: dict[str, Call] = {}
    request: dict[str, Any] = {}
    for event in log.events:
        payload, kind = event.payload, event.event_type
        if kind == "MODEL_REQUESTED":
            request = payload.get("request", {})
            if not turns:
                _check_start(log, request)
        elif kind == "MODEL_COMPLETED":
            turns.append(Turn(_prompts(request), _response(payload)))
        elif kind == "TOOL_REQUESTED" and turns:
            call = _call(log, turns[-1], event)
            turns[-1].calls.append(call)
            calls[payload["callId"]] = call
        elif kind in ("TOOL_COMPLETED", "TOOL_FAILED") and payload["callId"] in calls:
            _answer(log, calls[payload["callId"]], payload)
        elif kind == "EXECUTION_SUSPENDED":
            if payload.get("on") == "ModelContinuation":
                raise Unsupported("a run that the provider has suspended cannot be replayed", path=log.path)
            for item in payload.get("pending", ()):
                if item["callId"] in calls:
                    calls[item["callId"]].waited = True
                    calls[item["callId"]].kind = item.get("kind", "")
        elif kind == "UserPrompt" and turns:
            turns[-1].prompts_after.append(payload.get("content"))
    if not turns:
        raise Unsupported(
            "it holds no answer of a model, so it cannot be replayed",
            path=log.path,
            execution_id=log.execution_id,
            hint="Keep result.all_messages_json() of the run, beside its deferred requests if it waits.",
        )
    return turns


def _check_start(log: Log, request: dict[str, Any]) -> None:
    kinds = {part.get("part_kind") for part in request.get("parts", ()) if isinstance(part, dict)}
    if kinds - {"system-prompt", "user-prompt"} or not (kinds or request.get("instructions")):
        raise Unsupported(
            "the history begins in the middle of a run, so it cannot be replayed",
            path=log.path,
            execution_id=log.execution_id,
            hint="Keep all messages of a run: result.all_messages_json().",
        )


def _prompts(request: dict[str, Any]) -> list[Any]:
    parts = [part for part in request.get("parts", ()) if isinstance(part, dict)]
    return [part.get("content") for part in parts if part.get("part_kind") == "user-prompt"]


def _response(payload: dict[str, Any]) -> dict[str, Any]:
    response = payload.get("response", {})
    message = {"parts": response.get("parts", []), "model_name": payload.get("model")}
    if "finishReason" in response:
        message["finish_reason"] = response["finishReason"]
    if "usage" in payload:
        message["usage"] = payload["usage"]
    return message


def _call(log: Log, turn: Turn, event: Event) -> Call:
    parts = [part for part in turn.response["parts"] if part.get("part_kind") == "tool-call"]
    given = parts[len(turn.calls)].get("tool_call_id") if len(turn.calls) < len(parts) else None
    if not given:
        raise Unsupported(
            "a tool call has no id in the messages, so what came back cannot be given to it",
            path=log.path,
            line=event.line,
            execution_id=log.execution_id,
        )
    return Call(event.payload["name"], given, event.line)


def _answer(log: Log, call: Call, payload: dict[str, Any]) -> None:
    error = payload.get("error")
    if error is None:
        call.outcome, call.content = "success", payload.get("output")
        return
    call.outcome, text = _OUTCOMES.get(error.get("type"), "failed"), error.get("message", "")
    if call.outcome == "interrupted":
        raise Unsupported("a run that was cut off in a tool cannot be replayed", path=log.path, line=call.line)
    call.content = text
    if call.outcome == "retried" and text.startswith("["):
        try:
            call.content = json.loads(text)  # what did not validate, as a list
        except ValueError:
            call.content = text
