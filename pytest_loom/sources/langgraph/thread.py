"""One LangGraph thread as its rows say: checkpoints by namespace, and the writes that belong to each.

Stores hand over ``CheckpointRow`` and ``WriteRow`` with undecoded blobs; ``read_thread`` makes a Thread of them. Only
the newest checkpoint of a namespace has its channel values decoded: the older ones tell order, versions and writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from pytest_loom.sources.langgraph.values import (
    Decrypt,
    Undecodable,
    decode_value,
    from_json,
    opened,
    plain,
    unpacked,
)

INTERRUPT, RESUME, ERROR, RETURN, TASKS = "__interrupt__", "__resume__", "__error__", "__return__", "__pregel_tasks"
NO_TASK = "00000000-0000-0000-0000-000000000000"
"""The task of an answer that was given to the run as a whole."""

_CONTROL = frozenset({INTERRUPT, RESUME, ERROR, "__scheduled__", "__error_source_node__"})
"""What is written about a task rather than by it."""


class CheckpointRow(NamedTuple):
    """A row of ``checkpoints``. ``values``: blobs that PostgreSQL keeps in a table of their own, by channel."""

    namespace: str
    checkpoint_id: str
    parent_id: str | None
    tag: str | None
    data: bytes
    metadata: Any
    values: dict[str, tuple[str | None, bytes | None]] | None = None


class WriteRow(NamedTuple):
    """A row of ``writes`` (or ``checkpoint_writes``)."""

    namespace: str
    checkpoint_id: str
    task_id: str
    path: str
    number: int
    channel: str
    tag: str | None
    data: bytes | None


@dataclass(slots=True)
class Write:
    """What a task wrote into a channel."""

    task_id: str
    path: str
    index: int
    channel: str
    value: Any

    @property
    def is_control(self) -> bool:
        """Whether it says something about the task (a question, an answer, an error) instead of being its output."""
        return self.channel in _CONTROL


@dataclass(slots=True)
class Checkpoint:
    """One checkpoint. ``values`` is None where they were not decoded; ``opaque`` says why nothing in it can be read."""

    namespace: str
    checkpoint_id: str
    parent_id: str | None
    metadata: dict[str, Any]
    v: int = 0
    timestamp: str = ""
    versions: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Any] | None = None
    sends: list[Any] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    opaque: str = ""

    @property
    def step(self) -> int:
        """The number of the superstep that made it: -1 for an input."""
        step = self.metadata.get("step")
        return step if isinstance(step, int) else -1

    @property
    def source(self) -> str:
        """``input``, ``loop``, ``update`` or ``fork``."""
        return str(self.metadata.get("source") or "loop")


@dataclass(slots=True)
class Thread:
    """A thread: its namespaces, each with its checkpoints in order of their ids (which is that of their making)."""

    thread_id: str
    namespaces: dict[str, list[Checkpoint]]
    decrypt: Decrypt | None = None
    rows: dict[tuple[str, str], CheckpointRow] = field(default_factory=dict)

    def decoded(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint with its values decoded."""
        if checkpoint.values is None:
            row = self.rows[checkpoint.namespace, checkpoint.checkpoint_id]
            _fill(checkpoint, row, self.decrypt, values=True)
            if checkpoint.v < 4 and not checkpoint.sends:
                checkpoint.sends = self._sent_before(checkpoint)
        return checkpoint

    def _sent_before(self, checkpoint: Checkpoint) -> list[Any]:
        """What the step before sent out: PostgreSQL keeps it with that step's writes until format 4."""
        found = [item for item in self.namespaces[checkpoint.namespace] if item.checkpoint_id == checkpoint.parent_id]
        return [write.value for item in found for write in item.writes if write.channel == TASKS]


class _Head(msgspec.Struct):
    """A checkpoint without its values."""

    v: int = 0
    ts: str = ""
    channel_versions: dict[str, Any] = {}
    versions_seen: dict[str, dict[str, Any]] = {}
    channel_values: msgspec.Raw = msgspec.Raw(b"")
    pending_sends: msgspec.Raw = msgspec.Raw(b"")


_head_of_msgpack = msgspec.msgpack.Decoder(_Head).decode
_head_of_json = msgspec.json.Decoder(_Head).decode


def read_thread(
    thread_id: str, rows: list[CheckpointRow], writes: list[WriteRow], decrypt: Decrypt | None = None
) -> Thread:
    """The thread of these rows, which come in order of namespace and checkpoint id. Raises Undecodable."""
    namespaces: dict[str, list[Checkpoint]] = {}
    index: dict[tuple[str, str], Checkpoint] = {}
    thread = Thread(thread_id, namespaces, decrypt)
    for row in rows:
        checkpoint = Checkpoint(row.namespace, row.checkpoint_id, row.parent_id, _metadata(row.metadata))
        _fill(checkpoint, row, decrypt, values=False)
        namespaces.setdefault(row.namespace, []).append(checkpoint)
        index[row.namespace, row.checkpoint_id] = checkpoint
        thread.rows[row.namespace, row.checkpoint_id] = row
    for write in writes:
        owner = index.get((write.namespace, write.checkpoint_id))
        if owner is not None:
            value = decode_value(write.tag, write.data, decrypt)
            owner.writes.append(Write(write.task_id, write.path, write.number, write.channel, value))
    for checkpoint in index.values():
        checkpoint.writes.sort(key=lambda write: (write.path, write.task_id, write.index))
    return thread


def _metadata(data: Any) -> dict[str, Any]:
    found = data
    if isinstance(data, (bytes, str)):
        try:
            found = from_json(data) if data else {}
        except Undecodable:
            found = {}
    return found if isinstance(found, dict) else {}


def _fill(checkpoint: Checkpoint, row: CheckpointRow, decrypt: Decrypt | None, *, values: bool) -> None:
    try:
        tag, data = opened(row.tag or "msgpack", row.data, decrypt)
    except Undecodable as problem:
        checkpoint.opaque, checkpoint.values = str(problem), {}
        return
    if tag not in ("msgpack", "json"):
        checkpoint.opaque, checkpoint.values = f"it is saved as {tag}, which is not read", {}
        return
    try:
        head = _head_of_msgpack(data) if tag == "msgpack" else _head_of_json(data)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise Undecodable(f"checkpoint {checkpoint.checkpoint_id} cannot be decoded: {problem}") from None
    checkpoint.v, checkpoint.timestamp = head.v, head.ts
    checkpoint.versions, checkpoint.seen = head.channel_versions, head.versions_seen
    if not values:
        return
    found = _part(head.channel_values, tag)
    checkpoint.values = found if isinstance(found, dict) else {}
    for channel, (blob_tag, blob) in (row.values or {}).items():
        if blob_tag != "empty":
            checkpoint.values[channel] = decode_value(blob_tag, blob, decrypt)
    sends = _part(head.pending_sends, tag)
    checkpoint.sends = sends if isinstance(sends, list) else []


def _part(raw: msgspec.Raw, tag: str) -> Any:
    data = bytes(raw)
    if not data:
        return None
    return from_json(data) if tag == "json" else plain(unpacked(data, 0))
