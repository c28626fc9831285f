"""A LangGraph thread as a Loom log.

Steps are the nodes that ran, in the order of the checkpoints on the way to the newest one; what other branches of a
thread (time travel) did is only counted. Where the thread stands is told twice: as EXECUTION_SUSPENDED or
EXECUTION_COMPLETED, and as one application event ``CheckpointFrontier`` with all that a deploy check asks for
(its payload is described in ``pytest_loom.deploy.checkpoint``).
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from pytest_loom.contract.resolve import UNNAMED
from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.langchain_messages import MessageCalls
from pytest_loom.sources.langgraph.calls import open_calls
from pytest_loom.sources.langgraph.frontier import Task, current, due_tasks, frontier, names_of, questions_of
from pytest_loom.sources.langgraph.standing import (
    NOT_NODES,
    OWN,
    asked,
    distinct,
    facts_of,
    frontier_facts,
    is_private,
    state_of,
    waits,
    with_approval,
)
from pytest_loom.sources.langgraph.thread import INTERRUPT, NO_TASK, RESUME, RETURN, Checkpoint, Thread

_FLOW_KEYS = ("graph_id", "langgraph_graph_id", "assistant_id", "langgraph_assistant_id")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An assistant of LangGraph's server that somebody made: its graph is named beside it, or not at all."""

_LAST = 4
"""So many of the last checkpoints are looked at for what writes do to a value."""


def to_log(thread: Thread, path: str = "") -> Log | LogError:
    """The thread as a log, or what is wrong with it; never raises."""
    root = thread.namespaces.get("")
    if not root:
        inner = ", ".join(printable(name) for name in list(thread.namespaces)[:3])
        what = f"the thread has checkpoints of subgraphs only ({inner})" if inner else "the thread has no checkpoint"
        return LogError(what, path=path, execution_id=thread.thread_id)
    try:
        return _Mapping(thread, path).log()
    except LogError as error:
        return error
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        return LogError(f"the thread cannot be read: {problem}", path=path, execution_id=thread.thread_id)


def flow_of(thread: Thread) -> str:
    """The graph that the thread's own metadata names, newest checkpoint first, or ``unknown``."""
    for checkpoint in reversed(thread.namespaces.get("", [])):
        for key in _FLOW_KEYS:
            name = checkpoint.metadata.get(key)
            if isinstance(name, str) and name and not _UUID.fullmatch(name):
                return name
    return UNNAMED


class _Mapping:
    """One thread on its way to a log."""

    def __init__(self, thread: Thread, path: str) -> None:
        self.thread = thread
        self.builder = LogBuilder(thread.thread_id or "unknown", flow_of(thread), path=path)
        self.moment: int | str = 0
        self.notices: list[str] = []
        self.names: tuple[str, ...] = ()
        self.calls = MessageCalls(lambda event_type, payload: self.add(event_type, payload, self.names))
        self.inside = {name.rpartition("|")[2]: name for name in thread.namespaces if name}

    def add(self, event_type: str, payload: dict[str, Any], namespace: tuple[str, ...] = ()) -> None:
        self.builder.add(event_type, payload, timestamp=self.moment, namespace="/".join(namespace) or None)

    def log(self) -> Log:
        root = self.thread.namespaces[""]
        lineage = _lineage(root)
        self.at(lineage[0])
        first = self.thread.decoded(lineage[0])
        manifest = {
            "framework": "langgraph",
            "format": f"checkpoint {first.v}" if first.v else "",
            "metadata": facts_of(lineage[-1].metadata),
        }
        started: dict[str, Any] = {"manifest": {key: value for key, value in manifest.items() if value}}
        if (first.values or {}).get("__start__") is not None or "__start__" in (first.values or {}):
            started["input"] = (first.values or {})["__start__"]
        self.add("EXECUTION_STARTED", started)
        self.calls.known(started.get("input"))
        self.steps(lineage, ())
        abandoned = len(root) - len(lineage)
        if abandoned:
            self.notices.append(f"{abandoned} checkpoints are on other branches of the thread and were left out")
        self.stand()
        return self.builder.log(source="langgraph", engine="checkpoint", live=True, notices=self.notices)

    def at(self, checkpoint: Checkpoint) -> None:
        """Events from here on happened when the checkpoint was made."""
        if checkpoint.timestamp:
            self.moment = checkpoint.timestamp

    def steps(self, lineage: list[Checkpoint], names: tuple[str, ...], *, asks: bool = True) -> None:
        """The steps between the checkpoints of one namespace."""
        if not names:
            self.ran(None, lineage[0], names)
        for before, after in itertools.pairwise(lineage):
            if after.source in ("update", "fork"):
                self.at(after)
                self.add("StateUpdated", {"source": after.source, "step": after.step}, names)
            else:
                if asks:
                    self.answered(before, names)
                self.at(after)
                if after.source == "input":
                    self.add("InputReceived", {"input": (self.thread.decoded(after).values or {}).get("__start__")})
                self.ran(before, after, names)

    def answered(self, checkpoint: Checkpoint, names: tuple[str, ...]) -> None:
        """The questions that were asked in the step after a checkpoint, and the answers that they were given."""
        answers = _answers(checkpoint)
        for write in checkpoint.writes:
            if write.channel != INTERRUPT:
                continue
            for question in questions_of(write.value):
                key = str(question.get("id") or write.task_id)
                self.add("EXECUTION_SUSPENDED", asked(question, key), names)
                *earlier, answer = answers[write.task_id]
                told = {"correlationKey": key, "answer": answer} | ({"earlier": earlier} if earlier else {})
                self.add("InterruptAnswered", told, names)
                resumed = {"eventType": "InterruptAnswered", "correlationKey": key, "payload": {"answer": answer}}
                self.add("EXECUTION_RESUMED", resumed, names)

    def ran(self, before: Checkpoint | None, after: Checkpoint, names: tuple[str, ...]) -> None:
        """The nodes that ran between two checkpoints: their writes, or only their names where those were not kept."""
        seen = before.seen if before is not None else {}
        changed = {node for node, versions in after.seen.items() if versions != seen.get(node)} - NOT_NODES
        order = sorted(changed, key=lambda node: (max(map(str, after.seen[node].values()), default=""), node))
        done: set[str] = set()
        if before is not None:
            tasks = self.tasks_of(before)
            called = iter(_names_of_calls(tasks, [node for node in after.seen if node in changed]))
            for task in tasks:
                node = task.node or (order[0] if len(order) == 1 else "")
                if task.kind == "call":
                    node = next(called)
                if node in NOT_NODES or not task.writes or (not node and task.status != "finished"):
                    continue
                done.add(node)
                self.step(node or "unknown", task, names)
        for node in order:
            if node not in done:
                self.step(node, None, names)

    def tasks_of(self, checkpoint: Checkpoint) -> list[Task]:
        """The tasks that ran after a checkpoint. Its values are decoded and let go again: there may be many."""
        tasks = due_tasks(self.thread.decoded(checkpoint))
        checkpoint.values = None if not checkpoint.opaque else {}
        return tasks

    def step(self, node: str, task: Task | None, names: tuple[str, ...]) -> None:
        head: dict[str, Any] = {"stepId": node}
        if task is not None and task.task_id:
            head["callId"] = task.task_id
        started = dict(head)
        if task is not None and task.kind == "push":
            started["input"] = task.argument
        self.add("STEP_STARTED", started, names)
        completed = dict(head)
        if task is not None:
            since, inside = self.calls.count, self.inside.pop(f"{node}:{task.task_id}", None)
            if inside is not None:
                self.inner_steps(self.thread.namespaces[inside][-1], asks=False)  # its questions are its node's
            completed["output"] = _output(task.writes)
            self.names = names
            self.calls.heard([value for _, value in task.writes], since)
        self.add("STEP_COMPLETED", completed, names)

    def stand(self) -> None:
        """Where the thread stands now."""
        tasks = frontier(self.thread)
        here = current(self.thread, "")
        assert here is not None
        self.at(here)
        open_tasks = [task for task in tasks if task.status != "finished"]
        checkpoints = distinct(task.checkpoint for task in tasks)
        for checkpoint in reversed([item for item in checkpoints if item is not here]):
            self.inner_steps(checkpoint)
        for checkpoint in [*reversed([item for item in checkpoints if item is not here]), here]:
            if not checkpoint.opaque:
                self.add("STATE_SNAPSHOT", {"state": state_of(checkpoint)}, names_of(checkpoint.namespace))
        if here.opaque:
            self.notices.append(
                f"the checkpoints cannot be read: {here.opaque}; what the columns beside them say is told"
            )
        inner = {task.names for task in open_tasks}
        leaves = [task for task in open_tasks if (*task.names, task.node) not in inner]
        for task in tasks:
            if task.status == "finished" and task.node not in NOT_NODES and not task.names:
                self.step(task.node or _call_name(task), task, task.names)
        for task in leaves:
            if task.status == "failed":
                self.failed(task)
        calls = open_calls(state_of(here))
        for task in leaves if len(leaves) == 1 and leaves[0].names else []:
            calls += open_calls(state_of(task.checkpoint))
        calls = with_approval(calls, leaves)
        if any(task.node != "__start__" for task in leaves):
            for wait in waits(leaves, calls):
                self.add("EXECUTION_SUSPENDED", wait)
        elif leaves:
            self.add("EXECUTION_SUSPENDED", {"on": "__start__", "kind": "crash"})
        else:
            self.add("EXECUTION_COMPLETED", {"output": _output_of(here)})
        self.add("CheckpointFrontier", frontier_facts(here, tasks, leaves, [here, *checkpoints], calls, self.folds()))

    def inner_steps(self, checkpoint: Checkpoint, *, asks: bool = True) -> None:
        """What a subgraph did, with the questions that were answered in it where it is under way."""
        lineage = _lineage(self.thread.namespaces[checkpoint.namespace])
        moment, self.moment = self.moment, self.moment
        self.steps(lineage, names_of(checkpoint.namespace), asks=asks)
        self.thread.decoded(checkpoint)
        self.moment = moment

    def folds(self) -> dict[str, str]:
        """What recorded writes did to keys of the state in the last steps: ``added`` to a value, or ``replaced`` it."""
        found: dict[str, str] = {}
        lineage = _lineage(self.thread.namespaces[""])
        for before, after in itertools.pairwise(lineage[-_LAST:]):
            if after.source != "loop" or before.opaque:
                continue
            old, new = self.thread.decoded(before).values or {}, self.thread.decoded(after).values or {}
            writes: dict[str, list[Any]] = {}
            for write in before.writes:
                if not write.is_control and not is_private(write.channel, after):
                    writes.setdefault(write.channel, []).append(write.value)
            for key, values in writes.items():
                if key in old and key in new and old[key]:
                    how = _fold(old[key], values, new[key])
                    if how:
                        found[key] = how
        return found

    def failed(self, task: Task) -> None:
        name, _, rest = task.error.partition("(")
        error = {"type": name if name.isidentifier() else "Exception", "message": rest.rstrip(")") or task.error}
        head = {"stepId": task.node or "unknown", "callId": task.task_id}
        self.add("STEP_STARTED", head, task.names)
        self.add("STEP_FAILED", {**head, "error": error, "willRetry": True}, task.names)


def _answers(checkpoint: Checkpoint) -> dict[str, list[Any]]:
    """What each task that asked was answered, in order; at least one, None where nothing was kept.

    A task that asked several times has its own answers up to its last question; the one to that is often kept only as
    an answer to the run as a whole: savers do not replace what a task wrote when it ends.
    """
    whole = [write.value for write in checkpoint.writes if write.task_id == NO_TASK and write.channel == RESUME]
    found: dict[str, list[Any]] = {write.task_id: [] for write in checkpoint.writes if write.channel == INTERRUPT}
    for write in checkpoint.writes:
        if write.channel == RESUME and write.task_id in found:
            found[write.task_id] = list(write.value) if isinstance(write.value, list) else [write.value]
    if whole and not any(answers[-1:] == whole[-1:] for answers in found.values()):
        for answers in [own for own in found.values() if not own] or (list(found.values()) if len(found) == 1 else []):
            answers.append(whole[-1])
    return {task: answers or [None] for task, answers in found.items()}


def _names_of_calls(tasks: list[Task], changed: list[str]) -> list[str]:
    """The names of the functional API's calls, which a store tells only once the entrypoint is through."""
    calls = [task for task in tasks if task.kind == "call"]
    names = [node for node in changed if node not in {task.node for task in tasks}]
    if len(names) == 1 or len(names) == len(calls):
        return names * (len(calls) if len(names) == 1 else 1)
    return [_call_name(task) for task in calls]


def _call_name(task: Task) -> str:
    return f"{'entrypoint' if task.trigger in ('', '__start__') else task.trigger}.task"


def _fold(old: Any, writes: list[Any], new: Any) -> str:
    """Whether writes were added to a value, or the only one replaced it; "" where it may be either or neither."""
    if len(writes) == 1 and new == writes[0] and new != old:
        return "replaced"
    if isinstance(old, list) and isinstance(new, list) and len(new) > len(old) and new[: len(old)] == old:
        return "added"
    numbers = [old, new, *writes]
    if all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in numbers):
        return "added" if new == old + sum(writes) and new not in (old, *writes) else ""
    return ""


def _lineage(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints on the way to the newest one, oldest first."""
    known = {checkpoint.checkpoint_id: checkpoint for checkpoint in checkpoints}
    way = [checkpoints[-1]]
    while (parent := known.get(way[-1].parent_id or "")) is not None and len(way) <= len(checkpoints):
        way.append(parent)
    return way[::-1]


def _output(writes: list[tuple[str, Any]]) -> Any:
    returned = [value for channel, value in writes if channel in (RETURN, "__end__")]
    if returned:
        return returned[-1]
    return {channel: value for channel, value in writes if not channel.startswith(OWN) and value != channel}


def _output_of(checkpoint: Checkpoint) -> Any:
    values = checkpoint.values or {}
    return values["__end__"] if "__end__" in values else state_of(checkpoint)
