"""Where a thread would go on: its pending tasks by namespace, as the store alone tells them.

LangGraph decides it anew on each resume: a node is due when a channel that triggers it was written after the node last
saw it. Since version 3 of the format such a channel is called ``branch:to:NODE`` and so names the node; before, it may
be called after the node that wrote it, and then only today's edges tell who is due (``trigger`` without ``node``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_loom.sources.langgraph.thread import ERROR, INTERRUPT, NO_TASK, RESUME, RETURN, TASKS, Checkpoint, Thread

Status = Literal["waiting", "failed", "finished", "ready"]


@dataclass(slots=True)
class Task:
    """One task of the step that is due. ``node`` is "" where only today's edges tell it (``trigger``).

    ``names`` is the path of node names of the namespace around it. ``waiting``: it asked a question; ``failed``: it
    raised; ``finished``: its result is saved and it is not run again; ``ready``: nothing was saved of it.
    """

    node: str
    kind: Literal["pull", "push", "call"]
    trigger: str
    checkpoint: Checkpoint
    names: tuple[str, ...]
    task_id: str = ""
    status: Status = "ready"
    error: str = ""
    argument: Any = None
    questions: list[dict[str, Any]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    writes: list[tuple[str, Any]] = field(default_factory=list)


def names_of(namespace: str) -> tuple[str, ...]:
    """The node names of a namespace (``writer:<task>|review:<task>``), outermost first."""
    return tuple(part.partition(":")[0] for part in namespace.split("|") if part) if namespace else ()


def frontier(thread: Thread) -> list[Task]:
    """The tasks that are due, of the thread itself first, then those of its subgraphs that are under way."""
    return list(_due(thread, "", 0))


def current(thread: Thread, namespace: str) -> Checkpoint | None:
    """The newest checkpoint of a namespace: where it stands."""
    found = thread.namespaces.get(namespace)
    return thread.decoded(found[-1]) if found else None


def _due(thread: Thread, namespace: str, depth: int) -> Iterator[Task]:
    checkpoint = current(thread, namespace)
    if checkpoint is None or depth > 20:
        return
    tasks = due_tasks(checkpoint)
    yield from tasks
    prefix = f"{namespace}|" if namespace else ""
    for inner in thread.namespaces:
        if inner == namespace or not inner.startswith(prefix) or "|" in inner[len(prefix) :]:
            continue
        parents = thread.namespaces[inner][-1].metadata.get("parents")
        parent = parents.get(namespace) if isinstance(parents, dict) else None
        if parent in (None, checkpoint.checkpoint_id) and _is_inside(inner[len(prefix) :], tasks):
            yield from _due(thread, inner, depth + 1)


def _is_inside(segment: str, tasks: list[Task]) -> bool:
    """Whether a namespace's last segment (``node:task``) is that of a task that is not finished."""
    node, _, task_id = segment.partition(":")
    around = [task for task in tasks if task.node in ("", node) and task.status != "finished"]
    known = [task.task_id for task in around if task.task_id]
    return bool(around) and (not task_id or task_id in known or len(known) < len(around))


def due_tasks(checkpoint: Checkpoint) -> list[Task]:
    """The tasks of the step that follows a checkpoint."""
    if checkpoint.opaque:
        return _told_by_writes(checkpoint)
    names = names_of(checkpoint.namespace)
    tasks = [Task(node, "push", TASKS, checkpoint, names, argument=argument) for node, argument in sends_of(checkpoint)]
    for index, task in enumerate(tasks):
        task.task_id = _hashed(checkpoint, task.node, "__pregel_push", [str(index)])
    for node, trigger in dict(_triggered(checkpoint)).items():
        tasks.append(Task(node, "pull", trigger, checkpoint, names))
    _join_writes(tasks, checkpoint)
    return tasks


def sends_of(checkpoint: Checkpoint) -> list[tuple[str, Any]]:
    """The Sends of a checkpoint that are still to be run: target and argument."""
    values = checkpoint.values or {}
    found = values.get(TASKS) or checkpoint.sends
    return [(send["$value"][0], send["$value"][1]) for send in found if _is_send(send)]


def _is_send(value: Any) -> bool:
    arguments = value.get("$value") if isinstance(value, dict) else None
    if not isinstance(arguments, list) or len(arguments) < 2 or not isinstance(arguments[0], str):
        return False
    return str(value.get("$type", "")).endswith(".Send")


def barrier_names(channel: str) -> tuple[tuple[str, ...], str] | None:
    """The sources and the target that the name of a join's channel (``join:a+b:target``) says, or None."""
    if not channel.startswith("join:") or channel.count(":") < 2:
        return None
    sources, _, target = channel.removeprefix("join:").rpartition(":")
    return tuple(sources.split("+")), target


def barrier_seen(value: Any) -> list[str]:
    """Which sources a join has seen, of the saved value of its channel."""
    if isinstance(value, dict) and isinstance(value.get("$value"), list):
        value = value["$value"]
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], bool):  # waits for the end as well
        return barrier_seen(value[0])
    return sorted(str(item) for item in value) if isinstance(value, list) else []


def _triggered(checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    """Who is due by which channel; "" and the channel where the store does not name who."""
    values, seen = checkpoint.values or {}, checkpoint.seen
    for channel, version in checkpoint.versions.items():
        if channel not in values:
            continue
        node = ""
        if channel.startswith("branch:to:"):
            node = channel.removeprefix("branch:to:")
        elif channel.startswith("start:"):
            node = channel.removeprefix("start:")
        elif channel.startswith("branch:") and channel.count(":") == 3:
            node = channel.rpartition(":")[2]
        elif (barrier := barrier_names(channel)) is not None:
            if set(barrier_seen(values[channel])) < set(barrier[0]):
                continue
            node = barrier[1]
        elif channel == "__start__":
            node = _of_start(checkpoint)
            if not node:
                yield "", channel
                continue
        elif checkpoint.v < 3 and channel in seen and values[channel] == channel:
            yield from _after_mark(checkpoint, channel, version)
            continue
        else:
            continue
        known = seen.get(node, {}).get(channel)
        if known is None or _later(version, known):
            yield node, channel


def _after_mark(checkpoint: Checkpoint, mark: str, version: Any) -> Iterator[tuple[str, str]]:
    """Who is due after a node that left its mark, in formats before 3. Nobody listens to the mark of a last node.

    Who listened before listens again; else it is only known that somebody does where something of it was saved.
    """
    listeners = [node for node, seen in checkpoint.seen.items() if mark in seen]
    for node in listeners:
        if _later(version, checkpoint.seen[node][mark]):
            yield node, mark
    if not listeners and any(write.task_id != NO_TASK for write in checkpoint.writes):
        yield "", mark


def _later(version: Any, known: Any) -> bool:
    try:
        return bool(version > known)
    except TypeError:
        return str(version) > str(known)


def _of_start(checkpoint: Checkpoint) -> str:
    """Who takes the input: a graph's own ``__start__``, or the entrypoint of the functional API; "" is one unnamed."""
    for write in checkpoint.writes:
        kind, _, node = write.path.partition(", ")
        if kind == "~__pregel_pull" and node and node != "__start__":
            return node
    named = _named_by_question(checkpoint.writes)
    is_entrypoint = any(write.channel in (INTERRUPT, RETURN, ERROR) for write in checkpoint.writes)
    return named or ("" if is_entrypoint else "__start__")


def _named_by_question(writes: Iterable[Any]) -> str:
    for write in writes:
        if write.channel == INTERRUPT:
            for question in questions_of(write.value):
                place = question.get("ns")
                if isinstance(place, list) and place and isinstance(place[-1], str):
                    return place[-1].partition(":")[0]
    return ""


def questions_of(value: Any) -> list[dict[str, Any]]:
    """The fields of each Interrupt in the value of an ``__interrupt__`` write."""
    found = value if isinstance(value, list) else [value]
    return [item["$value"] for item in found if isinstance(item, dict) and isinstance(item.get("$value"), dict)]


def _join_writes(tasks: list[Task], checkpoint: Checkpoint) -> None:
    """Give each task what was written by it: found by path, by the hash that its id is, or by elimination."""
    groups: dict[str, list[Any]] = {}
    for write in checkpoint.writes:
        if write.task_id != NO_TASK and write.path.rpartition("~")[2].count("__input__") == 0:
            groups.setdefault(write.task_id, []).append(write)
    calls = [task_id for task_id, writes in groups.items() if any(w.channel == RETURN for w in writes)]
    left: list[str] = []
    for task_id, writes in groups.items():
        if task_id not in calls:
            task = _owner(tasks, checkpoint, task_id, writes)
            if task is None:
                left.append(task_id)
            else:
                _settle(task, task_id, writes)
    unclaimed = [task for task in tasks if task.status == "ready" and not task.writes]
    if len(left) == 1 and len(unclaimed) == 1:
        _settle(unclaimed[0], left[0], groups[left[0]])
        left = []
    for task_id in left:
        if not any(write.is_control for write in groups[task_id]) and checkpoint.source in ("update", "fork"):
            continue  # what update_state wrote belongs to the step before
        node = node_of_writes(groups[task_id]) or _named_by_question(groups[task_id])
        lost = Task(node, "pull", "", checkpoint, names_of(checkpoint.namespace))
        _settle(lost, task_id, groups[task_id])
        tasks.append(lost)
    for task_id in calls:
        owner = next((task for task in tasks if f"~__pregel_pull, {task.node}," in groups[task_id][0].path), None)
        around = owner.node if owner else tasks[0].node if len(tasks) == 1 else ""
        call = Task("", "call", around, checkpoint, names_of(checkpoint.namespace))
        _settle(call, task_id, groups[task_id])
        tasks.append(call)
    whole = [write.value for write in checkpoint.writes if write.task_id == NO_TASK and write.channel == RESUME]
    waiting = [task for task in tasks if task.status == "waiting"]
    if whole and len(waiting) == 1 and not waiting[0].answers:
        waiting[0].answers = whole


def node_of_writes(writes: list[Any]) -> str:
    """The node that the path of a task names, or ""."""
    kind, _, node = writes[0].path.partition(", ")
    return node if kind == "~__pregel_pull" else ""


def _owner(tasks: list[Task], checkpoint: Checkpoint, task_id: str, writes: list[Any]) -> Task | None:
    node = node_of_writes(writes)
    if node:
        return next((task for task in tasks if task.node == node and task.kind == "pull"), None)
    kind, _, rest = writes[0].path.partition(", ")
    pushes = [task for task in tasks if task.kind == "push"]
    if kind == "~__pregel_push":
        digits = rest.partition(",")[0].strip()
        return pushes[int(digits)] if digits.isdigit() and int(digits) < len(pushes) else None
    for task in tasks:
        if task.task_id == task_id:
            return task
    for task in tasks:
        if task.kind == "pull" and task.node and task_id in _possible_ids(checkpoint, task):
            return task
    named = _named_by_question(writes)
    return next((task for task in tasks if task.node == named and not task.writes), None) if named else None


def _possible_ids(checkpoint: Checkpoint, task: Task) -> Iterator[str]:
    """The ids that a task of this node may have: the hash is over the channels that can trigger it."""
    joins = sorted(name for name in checkpoint.versions if (barrier_names(name) or ((), ""))[1] == task.node)
    own = f"branch:to:{task.node}"
    for triggers in dict.fromkeys([(task.trigger,), (own,), tuple(sorted({own, *joins})), tuple(joins)]):
        yield _hashed(checkpoint, task.node, "__pregel_pull", list(triggers))


def _hashed(checkpoint: Checkpoint, node: str, kind: str, rest: list[str]) -> str:
    """The id of a task as LangGraph makes it: a hash over where it stands; "" where that hash is not at hand."""
    try:
        base = bytes.fromhex(checkpoint.checkpoint_id.replace("-", ""))
    except ValueError:
        return ""
    place = f"{checkpoint.namespace}|{node}" if checkpoint.namespace else node
    data = base + "".join([place, str(checkpoint.step + 1), node, kind, *rest]).encode()
    if checkpoint.v > 1:
        try:
            from xxhash import xxh3_128_hexdigest
        except ImportError:  # comes with LangGraph; without it paths and elimination have to do
            return ""
        digest = xxh3_128_hexdigest(data)
    else:
        digest = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _settle(task: Task, task_id: str, writes: list[Any]) -> None:
    task.task_id = task_id
    task.node = task.node or node_of_writes(writes) or (_named_by_question(writes) if task.kind != "call" else "")
    for write in writes:
        if write.channel == INTERRUPT:
            task.questions += questions_of(write.value)
        elif write.channel == RESUME:
            task.answers += write.value if isinstance(write.value, list) else [write.value]
        elif write.channel == ERROR:
            task.error = write.value if isinstance(write.value, str) else str(write.value)
        elif not write.is_control:
            task.writes.append((write.channel, write.value))
    if task.writes:
        task.status = "finished"
    elif task.error:
        task.status = "failed"
    elif task.questions:
        task.status = "waiting"


def _told_by_writes(checkpoint: Checkpoint) -> list[Task]:
    """The tasks of a checkpoint that cannot be read: those that wrote something, by the path beside it."""
    groups: dict[str, list[Any]] = {}
    for write in checkpoint.writes:
        if write.task_id != NO_TASK:
            groups.setdefault(write.task_id, []).append(write)
    tasks = []
    for task_id, writes in groups.items():
        task = Task(node_of_writes(writes), "pull", "", checkpoint, names_of(checkpoint.namespace))
        _settle(task, task_id, writes)
        if task.status in ("waiting", "failed") or any(write.channel == INTERRUPT for write in writes):
            task.status = task.status if task.status == "failed" else "waiting"
            tasks.append(task)
    return tasks
