"""What a thread's log says to a replay: the inputs, the answers of people, models and tools, and which nodes ran."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pytest_loom.errors import Unsupported, printable
from pytest_loom.log.event import Log
from pytest_loom.sources.langgraph.calls import typed_values
from pytest_loom.sources.langgraph.values import is_typed

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The id that LangGraph itself gives a message that has none: it is no model's."""

_ASKED_IDS = ("run-", "lc_run-")
"""How ids begin that langchain gives to a model's answers."""


@dataclass(slots=True)
class Question:
    """The last that a node asked. ``answers`` are those given to its task, in order; ``waits``: it asks still.

    ``last`` is the answer given last, ``was_other`` says that the node asked something else before. Then the last
    answer may stand for two: a store does not tell an answer that was given twice in a row from one.
    """

    value: Any
    answers: list[Any]
    waits: bool = False
    last: Any = None
    was_other: bool = False


@dataclass(slots=True)
class Step:
    """A node that ran, or (``waits``) was under way. ``answers`` are new messages of a model among its writes."""

    node: str
    given: Any = None
    output: Any = None
    waits: bool = False
    answers: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """An input and the questions that came after it, those of one superstep together."""

    given: Any
    questions: list[list[Question]] = field(default_factory=list)


@dataclass(slots=True)
class Recorded:
    """All of it. ``tools``: the first message of a tool for each id of a call. ``facts``: the thread's metadata."""

    turns: list[Turn]
    steps: dict[str, list[Step]]
    tools: dict[str, dict[str, Any]]
    facts: dict[str, Any]


def recorded(log: Log) -> Recorded:
    """What can be replayed of a thread. Raises Unsupported with the reason where that is not all of it."""

    def refuse(reason: str) -> Unsupported:
        return Unsupported(f"the thread cannot be replayed: {reason}", path=log.path, execution_id=log.execution_id)

    if log.notices:
        raise refuse("; ".join(map(printable, log.notices)))
    found = Recorded([], {}, {}, {})
    steps: list[Step] = []
    opened: dict[Any, Any] = {}
    pending = None
    together = False
    for event in log.events:
        said: Any = event.payload
        if event.namespace:
            continue  # what a subgraph did, its node does again
        if event.event_type == "EXECUTION_STARTED":
            if "input" not in said:
                raise refuse("its first input is not in the store")
            found.facts = (said.get("manifest") or {}).get("metadata") or {}
            found.turns.append(Turn(said["input"]))
        elif event.event_type == "StateUpdated":
            raise refuse("its state was changed from outside (update_state)")
        elif event.event_type == "InputReceived":
            if together:
                raise refuse("something else was said in place of the answer to a question")
            found.turns.append(Turn(said["input"]))
            together = False
        elif event.event_type == "EXECUTION_SUSPENDED":
            opened[said.get("correlationKey")] = (said.get("pending") or {}).get("question")
            pending = said
        elif event.event_type == "InterruptAnswered":
            answers = [*said.get("earlier", ()), said["answer"]]
            _put(found.turns[-1], [Question(opened.get(said["correlationKey"]), answers)], together)
            together = True
        elif event.event_type == "STEP_STARTED":
            together = False
            steps.append(Step(str(said["stepId"]), said.get("input")))
        elif event.event_type == "STEP_COMPLETED":
            steps[-1].output = said.get("output")
        elif event.event_type == "CheckpointFrontier":
            tasks = [task for task in said["pending"] if task["status"] != "finished"]
            if any(task["namespace"] for task in said["pending"]):
                raise refuse("it waits inside a subgraph, whose finished steps are kept only in part")
            if any(task["kind"] == "call" for task in said["pending"]):
                raise refuse("it is one of the functional API, whose tasks are not kept apart from their entrypoint")
            if tasks and (pending is None or pending.get("kind") not in ("question", "approval")):
                raise refuse(
                    "it stopped without a question (at a breakpoint, or by an error), which is not in the graph"
                )
            steps += [Step(str(task["node"]), waits=True) for task in tasks]
            last = [Question(one["value"], list(one["answers"]), not one["answered"]) for one in said["interrupts"]]
            _put(found.turns[-1], last, False)
    givens = [[turn.given, [one.answers for batch in turn.questions for one in batch]] for turn in found.turns]
    if any(one["$via"] == "opaque" for one in typed_values([givens, [step.given for step in steps]])):
        raise refuse("an input or an answer is pickled or encrypted")
    seen = {str(message["$value"].get("id")) for message in _messages([turn.given for turn in found.turns])}
    for step in steps:
        found.steps.setdefault(step.node, []).append(step)
        for message in _messages(step.output):
            fields, kind = message["$value"], message["$type"].rpartition(".")[2]
            if kind == "ToolMessage":
                found.tools.setdefault(str(fields.get("tool_call_id")), fields)
            elif kind in ("AIMessage", "AIMessageChunk") and str(fields.get("id")) not in seen:
                step.answers.append(fields)
        seen |= {str(message["id"]) for message in step.answers if message.get("id")}
        named = [message for message in step.answers if not _UUID.fullmatch(str(message.get("id") or _NO_ID))]
        step.answers = named or step.answers
    return found


_NO_ID = "00000000-0000-0000-0000-000000000000"


def is_a_models(message: dict[str, Any]) -> bool:
    """Whether a recorded message was certainly made by a chat model, not by a node's own code."""
    return str(message.get("id")).startswith(_ASKED_IDS)


def with_ids_of(log: Log, candidate: Log) -> Log:
    """The candidate, its messages with the ids that LangGraph made up for the same messages of the record."""
    known: dict[str, deque[Any]] = {}
    for event in log.events:
        for message in _messages(event.payload) if event.event_type != "CheckpointFrontier" else ():
            known.setdefault(_said(message), deque()).append(message["$value"].get("id"))
    events = []
    for event in candidate.events:
        payload = event.payload
        for message in _messages(payload) if event.event_type != "CheckpointFrontier" else ():
            ids, mine = known.get(_said(message)), message["$value"].get("id")
            if ids:
                theirs = ids.popleft()
                if all(one is None or _UUID.fullmatch(str(one)) for one in (mine, theirs)):
                    message["$value"]["id"] = theirs
        events.append(msgspec.structs.replace(event, raw=msgspec.Raw(msgspec.json.encode(payload))))
    kept: dict[str, Any] = {"path": candidate.path, "source": candidate.source, "notices": candidate.notices}
    return Log(events, engine=candidate.engine, **kept)


def _said(message: dict[str, Any]) -> str:
    """A message without its id."""
    fields = {key: value for key, value in message["$value"].items() if key != "id"}
    return json.dumps([message["$type"], fields], sort_keys=True, default=str)


def _put(turn: Turn, questions: list[Question], together: bool) -> None:
    if together:
        turn.questions[-1] += questions
    elif questions:
        turn.questions.append(questions)


def _messages(value: Any) -> Iterator[dict[str, Any]]:
    """Every saved message, in order."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if is_typed(item):
            if item["$type"].endswith("Message") or item["$type"].endswith("MessageChunk"):
                if isinstance(item["$value"], dict):
                    yield item
                continue
            item = item["$value"]
        if isinstance(item, dict):
            waiting += reversed(item.values())
        elif isinstance(item, list):
            waiting += reversed(item)
