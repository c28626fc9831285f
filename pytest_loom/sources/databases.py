"""Databases of engines, opened without writing a byte: SQLite files, and PostgreSQL by address, fit for a read replica.

A SQLite file without a write-ahead log is opened as immutable: SQLite then takes no lock and makes no side file. With
one (the application runs, or was killed), what is committed in it counts, and reading it would touch ``-shm``: so the
file and its log are copied to a private folder first.

PostgreSQL is read in one read-only transaction, which sees the store as it was at one moment; no statement may take
longer than ``STATEMENT_SECONDS``. psycopg is imported when an address is read.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pytest_loom.errors import LogError, Unsupported, printable

SCHEMES = ("postgres", "postgresql")
STATEMENT_SECONDS = 60
CONNECT_SECONDS = 15
_TRIES = 3
_MAX_VALUE = 1 << 30


class NotMine(LogError):
    """The database has no tables of the engine that was looked for."""


@contextmanager
def sqlite_file(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the database in a file; texts come as bytes.

    Raises LogError where it cannot be opened, is damaged, or was changed while it was read.
    """
    with ExitStack() as stack:
        before = _stamp(path)
        try:
            connection = _open(path, stack)
            stack.callback(connection.close)
            yield connection
        except sqlite3.Error as problem:
            raise LogError(f"the database cannot be read: {problem}", path=str(path)) from None
        except OSError as problem:
            raise LogError(f"cannot be read: {problem.strerror}", path=str(path)) from None
        if _side(path, "-wal") is None and _stamp(path) != before:
            raise LogError("was changed while it was read", path=str(path), hint="Read it again, or read a copy.")


def _open(path: Path, stack: ExitStack) -> sqlite3.Connection:
    journals = [side for side in ("-wal", "-journal") if _side(path, side) is not None]
    if not journals:
        return _immutable(path)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loom-store-")))
    copy = folder / "store.sqlite"
    for _ in range(_TRIES):
        before = _stamp(path)
        shutil.copyfile(path, copy)
        for side in journals:
            shutil.copyfile(f"{path}{side}", f"{copy}{side}")
        if _stamp(path) == before:
            return _configured(sqlite3.connect(copy, check_same_thread=False))
    raise LogError("is being written all the time", path=str(path), hint="Read a copy or a backup of it.")


def _immutable(path: Path) -> sqlite3.Connection:
    address = f"file:{urllib.parse.quote(str(path.resolve()))}?mode=ro&immutable=1"
    return _configured(sqlite3.connect(address, uri=True, check_same_thread=False))


def _configured(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.text_factory = bytes
    if hasattr(connection, "setlimit"):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def _side(path: Path, suffix: str) -> Path | None:
    """A side file, where there is something in it."""
    side = Path(f"{path}{suffix}")
    try:
        return side if side.stat().st_size else None
    except OSError:
        return None


def _stamp(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The names of a table's columns; none where it is missing or no table."""
    return {row[1].decode() for row in connection.execute(f"PRAGMA table_info({table})")}


def has_marks(path: Path, head: bytes, *marks: bytes) -> bool:
    """Whether it is a SQLite file whose schema, or the log of what is not yet moved into it, has all of the words."""
    if not head.startswith(b"SQLite format 3\0"):
        return False
    start = head + _start_of(Path(f"{path}-wal"))
    return all(mark in start for mark in marks)


def has_tables(path: Path, head: bytes, *tables: str) -> bool:
    """The same for tables, wherever in the file its schema stands: what of it is in the file is asked of SQLite."""
    if has_marks(path, head, *(table.encode() for table in tables)):
        return True
    if not head.startswith(b"SQLite format 3\0"):
        return False
    try:
        with closing(_immutable(path)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error:
        return False
    return {table.encode() for table in tables} <= {name for (name,) in names}


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(1 << 20)
    except OSError:
        return b""


def masked(address: str) -> str:
    """The address without its password and without options, which may hold one."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"{printable(address.partition('://')[0])}://…"
    user = f"{parts.username}@" if parts.username else ""
    return urlunsplit((parts.scheme, f"{user}{host}{port}", parts.path, "", ""))


@contextmanager
def postgres(address: str, extra: str) -> Iterator[tuple[Any, str]]:
    """A connection to the database at an address, and the schema that ``?schema=NAME`` asks for, as ``"NAME".``.

    Raises LogError where it cannot be had, without the password in any text; Unsupported, which names ``extra``, where
    psycopg is not installed.
    """
    try:
        import psycopg
    except ImportError:
        raise Unsupported(
            "reading a PostgreSQL store needs psycopg", hint=f"pip install 'pytest-loom[{extra}]'"
        ) from None
    target, schema = _without_schema(address)
    options = f"-c statement_timeout={STATEMENT_SECONDS * 1000} -c default_transaction_read_only=on"
    try:
        with psycopg.connect(
            target, options=options, connect_timeout=CONNECT_SECONDS, application_name="pytest-loom"
        ) as found:
            found.read_only = True
            found.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield found, schema
    except psycopg.Error as problem:
        raise LogError(f"the database cannot be read: {_cause(problem, address)}", path=masked(address)) from None


def _without_schema(address: str) -> tuple[str, str]:
    found = re.search(r"[?&]schema=([A-Za-z_][A-Za-z0-9_$]*)", address)
    if found is None:
        return address, ""
    target = address.replace(found[0], "?" if found[0].startswith("?") else "", 1)
    return target.replace("?&", "?").rstrip("?"), f'"{found[1]}".'


def _cause(problem: Exception, address: str) -> str:
    """What the driver says, without the password."""
    text = " ".join(str(problem).split())
    password = urlsplit(address).password if "@" in address else None
    return printable(text.replace(password, "***") if password else text, 300)
