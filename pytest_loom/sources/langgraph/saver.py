"""Checkpointers in memory: one holds a thread as its log has it, one keeps what a replay writes as a store's rows."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver

from pytest_loom.sources.langgraph.revive import revived
from pytest_loom.sources.langgraph.thread import CheckpointRow, WriteRow
from pytest_loom.sources.langgraph.values import decode_value

_NO_TASK, _RESUME = "00000000-0000-0000-0000-000000000000", "__resume__"


class FrozenSaver(BaseCheckpointSaver[str]):
    """``checkpoints`` are the entries of the frontier, each with the keys of the state among its ``values``.

    What is written into it is gone with it.
    """

    def __init__(self, thread_id: str, checkpoints: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self.thread_id = thread_id
        self.saved = {item["namespace"]: item for item in checkpoints}
        self.newer: dict[str, tuple[Any, Any]] = {}
        self.written: dict[tuple[str, str], list[tuple[str, str, Any]]] = {}

    def _config(self, namespace: str, checkpoint_id: str) -> Any:
        place = {"thread_id": self.thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        return {"configurable": place}

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """Where a namespace stands: what was saved, or what was put since."""
        namespace = config["configurable"].get("checkpoint_ns", "")
        if namespace in self.newer:
            newer, metadata = self.newer[namespace]
            kept = self.written.get((namespace, newer["id"]), [])
            return CheckpointTuple(self._config(namespace, newer["id"]), newer, metadata, None, list(kept))
        item = self.saved.get(namespace)
        if item is None:
            return None
        checkpoint: Any = {
            "v": item["v"],
            "id": item["id"],
            "ts": item["ts"],
            "channel_values": revived(item["values"]),
            "channel_versions": dict(item["versions"]),
            "versions_seen": {node: dict(seen) for node, seen in item["seen"].items()},
            "updated_channels": None,
        }
        if item["v"] < 4:
            checkpoint["pending_sends"] = revived(item["sends"])
        mine = {write[0] for write in item["writes"] if write[1] == _RESUME and write[0] != _NO_TASK}
        writes = [
            (task, channel, revived(value))
            for task, channel, value, _ in item["writes"]
            if task != _NO_TASK or not mine  # an answer that a task has taken is not given again
        ]
        writes += self.written.get((namespace, item["id"]), [])
        parent = self._config(namespace, item["parentId"]) if item.get("parentId") else None
        here = self._config(namespace, item["id"])
        return CheckpointTuple(here, checkpoint, item["metadata"], parent, writes)

    def list(self, config: Any, **_: Any) -> Iterator[CheckpointTuple]:
        """The one checkpoint of a namespace."""
        found = self.get_tuple(config) if config is not None else None
        if found is not None:
            yield found

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Keep a checkpoint until this object goes."""
        namespace = config["configurable"].get("checkpoint_ns", "")
        self.newer[namespace] = (checkpoint, metadata)
        return self._config(namespace, checkpoint["id"])

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Keep writes until this object goes."""
        place = config["configurable"]
        kept = self.written.setdefault((place.get("checkpoint_ns", ""), place.get("checkpoint_id", "")), [])
        kept += [(task_id, channel, value) for channel, value in writes]

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """See get_tuple."""
        return self.get_tuple(config)

    async def alist(self, config: Any, **_: Any) -> AsyncIterator[CheckpointTuple]:
        """See list."""
        for item in self.list(config):
            yield item

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """See put."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """See put_writes."""
        self.put_writes(config, writes, task_id, task_path)

    def get_next_version(self, current: Any, channel: Any = None) -> str:
        """The version after one, as the SQLite and PostgreSQL savers count."""
        number = 0 if current is None else current if isinstance(current, int) else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.random():016}"


class KeepingSaver(InMemorySaver):
    """LangGraph's own, which also keeps what it is given as the rows of a store."""

    def __init__(self) -> None:
        super().__init__()
        self.checkpoints: dict[tuple[str, str], CheckpointRow] = {}
        self.given: dict[tuple[Any, ...], WriteRow] = {}

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Keep a checkpoint."""
        place = config["configurable"]
        tag, data = self.serde.dumps_typed(checkpoint)
        facts = get_checkpoint_metadata(config, metadata)
        key = (place.get("checkpoint_ns", ""), checkpoint["id"])
        self.checkpoints[key] = CheckpointRow(*key, place.get("checkpoint_id"), tag, data, facts)
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Keep writes, as the SQLite and PostgreSQL savers do: only what is about a task is replaced."""
        place = config["configurable"]
        home = (place.get("checkpoint_ns", ""), place["checkpoint_id"])
        replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        for index, (channel, value) in enumerate(writes):
            number = WRITES_IDX_MAP.get(channel, index)
            key = (*home, task_id, number)
            if replaces or key not in self.given:
                self.given[key] = WriteRow(*home, task_id, task_path, number, channel, *self.serde.dumps_typed(value))
        super().put_writes(config, writes, task_id, task_path)

    def rows(self) -> tuple[list[CheckpointRow], list[WriteRow]]:
        """Everything, in the order of a store's primary keys."""
        return [self.checkpoints[key] for key in sorted(self.checkpoints)], [self.given[k] for k in sorted(self.given)]

    def has_finished(self, task_id: str) -> bool:
        """Whether a task has written something of its own."""
        return any(key[2] == task_id and (key[3] >= 0) for key in self.given)

    def plain(self, value: Any) -> Any:
        """A value as a log would have it."""
        return decode_value(*self.serde.dumps_typed(value))
