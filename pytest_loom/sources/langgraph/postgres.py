"""The rows of a LangGraph PostgreSQL store, one thread at a time, fit for a read replica.

A server-side cursor hands over a few checkpoints at a time. Values are fetched for the checkpoints that need them: the
last ones of each namespace in full, of older ones only LangGraph's own small channels. psycopg is imported when an
address is read (``pip install pytest-loom[langgraph-postgres]``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pytest_loom.log.share import Share
from pytest_loom.sources.databases import NotMine, postgres
from pytest_loom.sources.langgraph.sqlite import ThreadRows
from pytest_loom.sources.langgraph.thread import CheckpointRow, WriteRow

_AT_ONCE = 200
_IN_FULL = 5
"""So many of the last checkpoints of a namespace have all of their values fetched."""

_CHECKPOINTS = """
SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint::text, metadata::text
FROM {schema}checkpoints {where} ORDER BY thread_id, checkpoint_ns, checkpoint_id"""
_SHARE = """
WHERE ('x' || substr(md5(thread_id), 1, 8))::bit(32)::bigint BETWEEN {begin} AND {end}"""
_WRITES = """
SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx, channel, type, blob
FROM {schema}checkpoint_writes WHERE thread_id = %s ORDER BY checkpoint_ns, checkpoint_id, task_id, idx"""
_BLOBS = """
SELECT checkpoint_ns, channel, version, type, blob FROM {schema}checkpoint_blobs
WHERE thread_id = %s AND (channel LIKE 'branch:%%' OR channel LIKE 'join:%%' OR channel LIKE 'start:%%'
    OR channel LIKE '\\_\\_%%' OR (checkpoint_ns, channel, version) IN (
        SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])))"""


def read_rows(address: str, share: Share | None = None) -> Iterator[ThreadRows]:
    """Each thread of the store, or of a share of it, that ``address`` names (``postgresql://user:password@host/database``).

    ``?schema=NAME`` reads the tables of another schema. Raises LogError where the store cannot be had, Unsupported
    where psycopg is not installed.
    """
    with postgres(address, "langgraph-postgres") as (connection, schema):
        yield from _threads(connection, schema, share)


def _threads(connection: Any, schema: str, share: Share | None) -> Iterator[ThreadRows]:
    where = "" if share is None else _SHARE.format(begin=share.begin, end=share.end - 1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT to_regclass(%s), to_regclass(%s)", (f"{schema}checkpoints", f"{schema}checkpoint_writes")
        )
        tables = cursor.fetchone()
        if None in tables:
            raise NotMine(
                "it has no tables of LangGraph (checkpoints, checkpoint_writes)",
                hint="Is the schema right? ?schema=NAME",
            )
        cursor.execute(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'task_path'",
            (f"{schema}checkpoint_writes",),
        )
        path = "task_path" if cursor.fetchone()[0] else "''"
    with connection.cursor(name="loom_checkpoints") as stream:
        stream.itersize = _AT_ONCE
        stream.execute(_CHECKPOINTS.format(schema=schema, where=where))
        thread: str | None = None
        found: list[Any] = []
        for row in stream:
            if thread is not None and row[0] != thread:
                yield _rows(connection, schema, path, thread, found)
                found = []
            thread = row[0]
            found.append(row)
        if thread is not None:
            yield _rows(connection, schema, path, thread, found)


def _rows(connection: Any, schema: str, path: str, thread: str, checkpoints: list[Any]) -> ThreadRows:
    versions = [_versions(row[4]) for row in checkpoints]
    last: dict[str, list[int]] = {}
    for index, row in enumerate(checkpoints):
        last.setdefault(row[1], []).append(index)
    wanted = {
        (checkpoints[index][1], channel, version)
        for indexes in last.values()
        for index in indexes[-_IN_FULL:]
        for channel, version in versions[index].items()
    }
    with connection.cursor(binary=True) as cursor:
        columns = [list(column) for column in zip(*wanted, strict=True)] or [[], [], []]
        cursor.execute(_BLOBS.format(schema=schema), (thread, *columns))
        blobs = {(ns, channel, version): (tag, blob) for ns, channel, version, tag, blob in cursor}
        cursor.execute(_WRITES.format(schema=schema, path=path), (thread,))
        writes = [WriteRow(*row) for row in cursor]
    rows = []
    for row, known in zip(checkpoints, versions, strict=True):
        _, namespace, checkpoint_id, parent, text, metadata = row
        values = {
            channel: blobs[namespace, channel, version]
            for channel, version in known.items()
            if (namespace, channel, version) in blobs
        }
        rows.append(CheckpointRow(namespace, checkpoint_id, parent, "json", text.encode(), metadata, values))
    return thread, rows, writes


class _Versions(msgspec.Struct):
    channel_versions: dict[str, Any] = {}


_read_versions = msgspec.json.Decoder(_Versions).decode


def _versions(text: str) -> dict[str, str]:
    try:
        return {channel: str(version) for channel, version in _read_versions(text).channel_versions.items()}
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError):
        return {}  # which is told when the checkpoint is read
