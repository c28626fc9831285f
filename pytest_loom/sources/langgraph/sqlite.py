"""The rows of a LangGraph SQLite store, one thread at a time, without writing a byte beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.share import Share, key_of
from pytest_loom.sources.databases import columns, sqlite_file
from pytest_loom.sources.langgraph.thread import CheckpointRow, WriteRow

ThreadRows = tuple[str, list[CheckpointRow], list[WriteRow]]


def read_rows(path: Path, share: Share | None = None) -> Iterator[ThreadRows | LogError]:
    """Each thread of the store, or of a share of it, in the order of the primary key, one in memory at a time.

    Raises LogError where the store cannot be opened, or was changed while it was read.
    """
    with sqlite_file(path) as connection:
        yield from _threads(connection, path, share)


def _threads(connection: sqlite3.Connection, path: Path, share: Share | None) -> Iterator[ThreadRows | LogError]:
    known, written = columns(connection, "checkpoints"), columns(connection, "writes")
    if not {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint"} <= known:
        raise LogError(
            "its table checkpoints is not that of a LangGraph store from 0.2 on",
            path=str(path),
            hint="Stores of LangGraph 0.1 have no namespaces: let LangGraph 0.2 write the waiting threads anew.",
        )
    order = "thread_id, checkpoint_ns, checkpoint_id"
    head = ", ".join(name if name in known else "NULL" for name in ("parent_checkpoint_id", "type"))
    metadata = "metadata" if "metadata" in known else "NULL"
    where = ""
    if share is not None:
        connection.create_function("loom_key", 1, lambda thread: key_of(_text(thread)), deterministic=True)
        where = f"WHERE loom_key(thread_id) >= {share.begin} AND loom_key(thread_id) < {share.end}"
    rows = connection.execute(
        f"SELECT {order}, {head}, checkpoint, {metadata} FROM checkpoints {where} ORDER BY {order}"
    )
    if {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "value"} <= written:
        task_path = "task_path" if "task_path" in written else "''"
        fields = f"task_id, {task_path}, idx, channel, {'type' if 'type' in written else 'NULL'}, value"
        others = connection.execute(f"SELECT {order}, {fields} FROM writes {where} ORDER BY {order}, task_id, idx")
    else:
        others = iter(())  # type: ignore[assignment]  # before there were writes
    waiting = next(others, None)
    thread: bytes | None = None
    found: list[CheckpointRow] = []
    for row in rows:
        if thread is not None and row[0] != thread:
            writes, waiting = _writes_of(thread, others, waiting)
            yield _text(thread), found, writes
            found = []
        thread = row[0]
        found.append(
            CheckpointRow(
                _text(row[1]), _text(row[2]), _text(row[3]) or None, _text(row[4]) or None, _blob(row[5]), row[6]
            )
        )
    if thread is not None:
        writes, _ = _writes_of(thread, others, waiting)
        yield _text(thread), found, writes


def _writes_of(
    thread: bytes, rows: Iterator[tuple[object, ...]], waiting: tuple[object, ...] | None
) -> tuple[list[WriteRow], tuple[object, ...] | None]:
    """The writes of a thread, with the first row of the next one. Both queries are in the same order."""
    found: list[WriteRow] = []
    while waiting is not None and _key(waiting[0]) <= _key(thread):
        if waiting[0] == thread:
            _, ns, checkpoint, task, path, index, channel, tag, value = waiting
            number = index if isinstance(index, int) else 0
            found.append(
                WriteRow(
                    _text(ns),
                    _text(checkpoint),
                    _text(task),
                    _text(path),
                    number,
                    _text(channel),
                    _text(tag),
                    _blob(value),
                )
            )
        waiting = next(rows, None)
    return found, waiting


def _key(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)


def _blob(value: object) -> bytes:
    return value if isinstance(value, bytes) else b"" if value is None else str(value).encode()
