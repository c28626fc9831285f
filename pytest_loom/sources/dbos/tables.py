"""The rows of a DBOS system database, one workflow at a time: SQLite files and PostgreSQL, of DBOS 2.x and 3.x alike.

DBOS adds columns and tables from version to version, and moves some: what a database has is asked of it, and what it
does not have is None. So each row is a dictionary by DBOS's own names of columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pytest_loom.log.share import Share, key_of
from pytest_loom.sources import OutOfScope
from pytest_loom.sources.databases import NotMine, columns, postgres, sqlite_file

Row = dict[str, Any]

OVER = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
"""The statuses of workflows that are over."""

DEFAULT_SCHEMA = '"dbos".'
_AT_ONCE = 200
"""So many workflows have their rows fetched together."""

_STATUS = (
    *("workflow_uuid", "status", "name", "class_name", "config_name", "executor_id", "application_version"),
    *("application_name", "recovery_attempts", "queue_name", "forked_from", "parent_workflow_id", "serialization"),
    *("created_at", "updated_at", "completed_at", "inputs", "output", "error", "authenticated_user"),
    *("authenticated_roles", "workflow_deadline_epoch_ms", "delay_until_epoch_ms", "deduplication_id"),
)
_NEEDED = frozenset({"workflow_uuid", "status", "name"})
_PARTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "operation_outputs": (
        "workflow_uuid",
        (
            *("workflow_uuid", "function_id", "function_name", "output", "error", "child_workflow_id"),
            *("started_at_epoch_ms", "completed_at_epoch_ms", "serialization"),
        ),
        "function_id",
    ),
    "workflow_input": ("workflow_uuid", ("workflow_uuid", "inputs"), "workflow_uuid"),
    "workflow_output": ("workflow_uuid", ("workflow_uuid", "output", "error"), "workflow_uuid"),
    "notifications": (
        "destination_uuid",
        (
            *("destination_uuid", "message_uuid", "topic", "message", "created_at_epoch_ms", "serialization"),
            *("consumed", "consumed_by_function_id"),
        ),
        "created_at_epoch_ms",
    ),
    "workflow_events_history": (
        "workflow_uuid",
        ("workflow_uuid", "function_id", "key", "value", "serialization"),
        "function_id",
    ),
    "streams": ("workflow_uuid", ("workflow_uuid", "function_id", "key", "value", "serialization"), "function_id"),
}
"""By table: the column that names the workflow, the columns that are read, and the order."""


@dataclass
class Rows:
    """All that is stored of one workflow. ``children``: the status and outcome of the workflows that it started."""

    status: Row
    operations: list[Row] = field(default_factory=list)
    notifications: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    streams: list[Row] = field(default_factory=list)
    children: dict[str, Row] = field(default_factory=dict)
    migration: int | None = None


class Database(Protocol):
    """What is asked of a database of either kind. ``key`` is a run's place among the shares, in SQL."""

    key: str

    def columns(self, table: str) -> set[str]:
        """The columns of a table; none where it is missing."""

    def stream(self, query: str) -> Iterator[Sequence[Any]]:
        """The rows of a query without arguments, a few at a time."""

    def among(self, query: str, ids: list[str]) -> list[Sequence[Any]]:
        """The rows of a query in which ``{ids}`` stands for the list."""

    def name(self, table: str) -> str:
        """The table as a query names it."""


def read_file(path: Path, share: Share | None = None, *, unfinished: bool = False) -> Iterator[Rows | OutOfScope]:
    """The workflows of a SQLite file, or of a share of it. Raises LogError."""
    with sqlite_file(path) as connection:
        yield from workflows(_SQLite(connection), share, unfinished)


def read_address(address: str, share: Share | None = None, *, unfinished: bool = False) -> Iterator[Rows | OutOfScope]:
    """The workflows, or a share, of the PostgreSQL database at ``address``; ``?schema=NAME`` where it is not ``dbos``.

    Raises LogError, and NotMine where there are no tables of DBOS.
    """
    with postgres(address, "dbos") as (connection, schema):
        yield from workflows(_Postgres(connection, schema or DEFAULT_SCHEMA), share, unfinished)


def workflows(database: Database, share: Share | None, unfinished: bool) -> Iterator[Rows | OutOfScope]:
    """Each workflow with its rows, by id. Raises NotMine where the tables are not those of DBOS.

    ``unfinished``: those that are over by their status are only counted, whatever else is wrong with them.
    """
    known = database.columns("workflow_status")
    if not known >= _NEEDED or "function_id" not in database.columns("operation_outputs"):
        raise NotMine(
            "it has no tables of DBOS (workflow_status, operation_outputs)",
            hint="Is the schema right? ?schema=NAME",
        )
    migration = None
    if "version" in database.columns("dbos_migrations"):
        numbers = [row[0] for row in database.stream(f"SELECT version FROM {database.name('dbos_migrations')}")]
        migration = max((number for number in numbers if isinstance(number, int)), default=None)
    parts = {table: (part, database.columns(table)) for table, part in _PARTS.items()}
    batch: list[Row] = []
    statuses = database.name("workflow_status")
    own = "1 = 1" if share is None else f"{database.key} BETWEEN {share.begin} AND {share.end - 1}"
    if unfinished:
        over = f"status IN ({', '.join(repr(status) for status in OVER)})"
        ((count,),) = database.stream(f"SELECT count(*) FROM {statuses} WHERE {own} AND {over}")
        if count:
            yield OutOfScope(count)
        own = f"{own} AND (status IS NULL OR NOT {over})"
    query = f"SELECT {_selected(_STATUS, known)} FROM {statuses} WHERE {own} ORDER BY workflow_uuid"
    for row in database.stream(query):
        batch.append(_row(_STATUS, row))
        if len(batch) == _AT_ONCE:
            yield from _with_parts(database, batch, parts, migration)
            batch = []
    yield from _with_parts(database, batch, parts, migration)


def _with_parts(database: Database, batch: list[Row], parts: Any, migration: int | None) -> Iterator[Rows]:
    if not batch:
        return
    found = {str(row["workflow_uuid"]): Rows(row, migration=migration) for row in batch}
    by_table = {table: _part(database, table, part, list(found)) for table, part in parts.items()}
    for table in ("workflow_input", "workflow_output"):  # which 3.x split off
        for row in by_table[table]:
            status = found[str(row["workflow_uuid"])].status
            status |= {name: value for name, value in row.items() if value is not None}
    for row in by_table["operation_outputs"]:
        found[str(row["workflow_uuid"])].operations.append(row)
    for row in by_table["notifications"]:
        found[str(row["destination_uuid"])].notifications.append(row)
    for row in by_table["workflow_events_history"]:
        found[str(row["workflow_uuid"])].events.append(row)
    for row in by_table["streams"]:
        found[str(row["workflow_uuid"])].streams.append(row)
    _add_children(database, list(found.values()), parts)
    yield from found.values()


def _add_children(database: Database, batch: list[Rows], parts: Any) -> None:
    """What became of the workflows that those of the batch started."""
    wanted = {str(row["child_workflow_id"]) for one in batch for row in one.operations if row["child_workflow_id"]}
    if not wanted:
        return
    known = database.columns("workflow_status")
    query = f"SELECT {_selected(_STATUS, known)} FROM {database.name('workflow_status')} WHERE workflow_uuid IN {{ids}}"
    rows = [_row(_STATUS, row) for row in database.among(query, sorted(wanted))]
    found = {str(row["workflow_uuid"]): row for row in rows}
    for row in _part(database, "workflow_output", parts["workflow_output"], list(found)):
        found[str(row["workflow_uuid"])] |= {name: value for name, value in row.items() if value is not None}
    for one in batch:
        ids = {str(row["child_workflow_id"]) for row in one.operations if row["child_workflow_id"]}
        one.children = {name: found[name] for name in sorted(ids & found.keys())}


def _part(database: Database, table: str, part: Any, ids: list[str]) -> list[Row]:
    (key, names, order), known = part
    if key not in known or not ids:
        return []
    query = (
        f"SELECT {_selected(names, known)} FROM {database.name(table)} WHERE {key} IN {{ids}}"
        f" ORDER BY {key}, {order if order in known else key}"
    )
    return [_row(names, row) for row in database.among(query, ids)]


def _selected(names: tuple[str, ...], known: set[str]) -> str:
    return ", ".join(name if name in known else "NULL" for name in names)


def _row(names: tuple[str, ...], values: Sequence[Any]) -> Row:
    return dict(zip(names, map(_text, values), strict=True))


def _text(value: Any) -> Any:
    return bytes(value).decode(errors="replace") if isinstance(value, (bytes, memoryview)) else value


class _SQLite:
    """A SQLite file."""

    key = "loom_key(workflow_uuid)"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        connection.create_function("loom_key", 1, lambda run: key_of(str(_text(run))), deterministic=True)

    def columns(self, table: str) -> set[str]:
        return columns(self.connection, table)

    def stream(self, query: str) -> Iterator[Sequence[Any]]:
        yield from self.connection.execute(query)

    def among(self, query: str, ids: list[str]) -> list[Sequence[Any]]:
        found: list[Sequence[Any]] = []
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            found += self.connection.execute(query.format(ids=f"({marks})"), some).fetchall()
        return found

    def name(self, table: str) -> str:
        return table


class _Postgres:
    """A PostgreSQL database."""

    key = "('x' || substr(md5(workflow_uuid), 1, 8))::bit(32)::bigint"

    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self.schema = schema
        self._columns: dict[str, set[str]] = {}

    def columns(self, table: str) -> set[str]:
        if table not in self._columns:
            with self.connection.cursor() as cursor:
                cursor.execute(
                    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0"
                    " AND NOT attisdropped",
                    (self.name(table),),
                )
                self._columns[table] = {row[0] for row in cursor}
        return self._columns[table]

    def stream(self, query: str) -> Iterator[Sequence[Any]]:
        with self.connection.cursor(name="loom_dbos") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(query)
            yield from cursor

    def among(self, query: str, ids: list[str]) -> list[Sequence[Any]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query.format(ids="(SELECT unnest(%s::text[]))"), (ids,))
            return list(cursor)

    def name(self, table: str) -> str:
        return f"{self.schema}{table}"
