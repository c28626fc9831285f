"""Where a LangGraph thread stands, as data: the payload of ``CheckpointFrontier`` and what is waited for.

What the parts mean is said in ``pytest_loom.deploy.checkpoint``, where the checks that read them are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_loom.sources.langgraph.calls import is_approval, requests_in, types_in
from pytest_loom.sources.langgraph.frontier import Task, barrier_names, barrier_seen, names_of, sends_of
from pytest_loom.sources.langgraph.thread import Checkpoint

OWN = ("__", "branch:", "join:", "start:")
"""How the names of LangGraph's own channels begin."""

NOT_NODES = frozenset({"__start__", "__input__", "__interrupt__"})


def distinct(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints, each once, in their order."""
    return list({id(checkpoint): checkpoint for checkpoint in checkpoints}.values())


def facts_of(metadata: dict[str, Any]) -> dict[str, Any]:
    """What the caller put beside a checkpoint, without LangGraph's own."""
    return {key: value for key, value in metadata.items() if key not in ("writes", "parents", "source", "step")}


def is_private(channel: str, checkpoint: Checkpoint) -> bool:
    """Whether a channel is LangGraph's own, not a key of the state."""
    if channel.startswith(OWN):
        return True
    return checkpoint.v < 3 and channel in checkpoint.seen and (checkpoint.values or {}).get(channel) == channel


def state_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The keys of the state with their values."""
    values = checkpoint.values or {}
    return {key: value for key, value in values.items() if not is_private(key, checkpoint)}


def asked(question: dict[str, Any], key: str) -> dict[str, Any]:
    """The EXECUTION_SUSPENDED of one question."""
    kind = "approval" if is_approval(question.get("value")) else "question"
    return {
        "on": "InterruptAnswered",
        "kind": kind,
        "correlationKey": key,
        "pending": {"question": question.get("value")},
    }


def waits(leaves: list[Task], calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """EXECUTION_SUSPENDED for each question that is open, else one for what stopped."""
    found: list[dict[str, Any]] = []
    for task in leaves:
        for question in task.questions if task.status == "waiting" else []:
            wait = asked(question, str(question.get("id") or task.task_id))
            wait["pending"] |= {"step": task.node, "answered": task.answers} | ({"calls": calls} if calls else {})
            found.append(wait)
    if found:
        return found
    stopped = [task for task in leaves if task.status == "failed"]
    kind = "crash" if stopped else "breakpoint"
    return [{"on": task.node or task.trigger or "unknown", "kind": kind} for task in stopped or leaves[:1]]


def with_approval(calls: list[dict[str, Any]], leaves: list[Task]) -> list[dict[str, Any]]:
    """The open calls, those marked that a question which is open asks for leave for."""
    asked = [
        request
        for task in leaves
        if task.status == "waiting"
        for question in task.questions
        for request in requests_in(question.get("value"))
    ]
    found = []
    for call in calls:
        match = next((request for request in asked if request["name"] == call["name"]), None)
        if match is not None:
            asked.remove(match)
        found.append(call | ({"approval": True} if match is not None else {}))
    return found + [{"callId": "", **request, "approval": True} for request in asked]


def frontier_facts(
    here: Checkpoint,
    tasks: list[Task],
    leaves: list[Task],
    checkpoints: list[Checkpoint],
    calls: list[dict[str, Any]],
    folds: dict[str, str],
) -> dict[str, Any]:
    """The payload of ``CheckpointFrontier``."""
    checkpoints = distinct(checkpoints)
    state = state_of(here)
    return {
        "engine": "langgraph",
        "format": here.v,
        "readable": not here.opaque,
        "pending": [_pending(task, task in leaves) for task in tasks],
        "interrupts": [
            {
                "id": str(question.get("id") or ""),
                "node": task.node,
                "namespace": "/".join(task.names),
                "taskId": task.task_id,
                "value": question.get("value"),
                "answers": task.answers,
                "answered": task.status != "waiting",
                "leaf": task in leaves,
            }
            for task in tasks
            for question in task.questions
        ],
        "sends": [
            {"node": node, "namespace": "/".join(names_of(item.namespace)), "arg": argument}
            for item in checkpoints
            for node, argument in sends_of(item)
        ],
        "writes": [
            {"node": task.node, "namespace": "/".join(task.names), "channel": channel}
            for task in tasks
            if task.status == "finished" and task.kind != "call"
            for channel, _ in task.writes
        ],
        "barriers": [
            {
                "channel": channel,
                "namespace": "/".join(names_of(item.namespace)),
                "sources": list((barrier_names(channel) or ((), ""))[0]),
                "target": (barrier_names(channel) or ((), ""))[1],
                "seen": barrier_seen((item.values or {}).get(channel)),
            }
            for item in checkpoints
            for channel in item.versions
            if barrier_names(channel) is not None
        ],
        "unheard": []
        if tasks
        else sorted(key for key in here.seen if (here.values or {}).get(key) == key and here.v < 3),
        "ran": {"/".join(names_of(item.namespace)): sorted(set(item.seen) - NOT_NODES) for item in checkpoints},
        "types": {key: sorted(types_in(value)) for key, value in state.items() if types_in(value)},
        "calls": calls,
        "asksAgain": True,
        "folds": folds,
        "checkpoints": [_raw(item) for item in checkpoints] if leaves else [],
    }


def _pending(task: Task, is_leaf: bool) -> dict[str, Any]:
    facts = {
        "node": task.node,
        "namespace": "/".join(task.names),
        "kind": task.kind,
        "trigger": task.trigger,
        "taskId": task.task_id,
        "status": task.status,
        "leaf": is_leaf,
    }
    return facts | ({"error": task.error} if task.error else {})


def _raw(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a shadow resume needs to set the thread up again. The state's keys are in the STATE_SNAPSHOT before it."""
    values = checkpoint.values or {}
    return {
        "namespace": checkpoint.namespace,
        "id": checkpoint.checkpoint_id,
        "parentId": checkpoint.parent_id,
        "v": checkpoint.v,
        "ts": checkpoint.timestamp,
        "metadata": facts_of(checkpoint.metadata)
        | {"source": checkpoint.source, "step": checkpoint.step, "parents": checkpoint.metadata.get("parents") or {}},
        "versions": checkpoint.versions,
        "seen": checkpoint.seen,
        "sends": checkpoint.sends,
        "values": {key: value for key, value in values.items() if is_private(key, checkpoint)},
        "writes": [[write.task_id, write.channel, write.value, write.path] for write in checkpoint.writes],
    }
