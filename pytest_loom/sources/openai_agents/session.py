"""Conversations in an ``SQLiteSession`` database as logs, one a session, read without leaving a trace.

Tables: agent_sessions(session_id, created_at, updated_at), agent_messages(id, session_id, message_data, created_at).
A function call without its output is one that waits: the SDK writes the call when it interrupts.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_loom.contract.resolve import UNNAMED
from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.openai_agents.calls import Call, call_of, said_text
from pytest_loom.sources.openai_agents.runstate import APPROVAL
from pytest_loom.sources.shape import Malformed, document, table, text

_MAX_MESSAGE = 32 * 1024 * 1024
_TABLES = {
    "agent_sessions": {"session_id"},
    "agent_messages": {"id", "session_id", "message_data", "created_at"},
}


def looks_like_session(path: Path, head: bytes) -> bool:
    """Whether the file is an SQLite database with the tables of a session."""
    if not head.startswith(b"SQLite format 3\0"):
        return False
    try:
        with _opened(path) as database:
            return all(columns <= _columns(database, name) for name, columns in _TABLES.items())
    except sqlite3.Error:
        return False


def session_logs(path: Path) -> Iterator[Log | LogError]:
    """Each session of the database as a log, or what is wrong with it."""
    try:
        with _opened(path) as database:
            names = [row[0] for row in database.execute("SELECT session_id FROM agent_sessions ORDER BY rowid")]
            for name in names:
                yield _log(database, name, path)
    except sqlite3.Error as problem:
        yield LogError(f"the session database cannot be read: {printable(str(problem))}", path=str(path))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, read-only. Without a write-ahead log beside it nothing else may be touched, so it is immutable."""
    wal = Path(f"{path}-wal")
    mode = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    database = sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)
    try:
        database.text_factory = bytes
        database.execute("PRAGMA query_only = 1")
        yield database
    finally:
        database.close()


def _columns(database: sqlite3.Connection, name: str) -> set[str]:
    rows = database.execute("SELECT name FROM pragma_table_info(?)", (name,))
    return {row[0].decode(errors="replace") for row in rows}


def _log(database: sqlite3.Connection, name: Any, path: Path) -> Log | LogError:
    shown = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    where: dict[str, Any] = {"path": str(path), "execution_id": shown or "unknown"}
    rows = database.execute(
        "SELECT id, length(message_data), message_data, created_at FROM agent_messages WHERE session_id = ?"
        " ORDER BY id",
        (name.decode() if isinstance(name, bytes) else name,),
    )
    line = 0
    try:
        builder = LogBuilder(shown or "unknown", UNNAMED, path=str(path))
        open_calls: dict[str, Call] = {}
        last: dict[str, Any] = {}
        for turn, (number, size, data, created) in enumerate(rows, 1):
            line = number if isinstance(number, int) else 0
            if isinstance(size, int) and size > _MAX_MESSAGE:
                raise Malformed("a message is larger than 32 MiB")
            item = table(document(bytes(data) if isinstance(data, bytes) else str(data).encode()), "a message")
            moment = _moment(created)
            if not builder.events:
                builder.add("EXECUTION_STARTED", {"input": _asked(item)}, timestamp=moment, line=line)
            _write(builder, item, open_calls, turn, moment, line)
            last = item
        if not builder.events:
            builder.add("EXECUTION_STARTED", {"input": None}, timestamp=0)
        moment = builder.events[-1].timestamp
        if open_calls:
            waits = {"on": APPROVAL, "kind": "approval", "pending": [call.facts() for call in open_calls.values()]}
            builder.add("EXECUTION_SUSPENDED", waits, timestamp=moment, line=line)
        elif last.get("role") == "assistant" or last.get("type") == "message":
            builder.add("EXECUTION_COMPLETED", {"output": said_text([last])}, timestamp=moment, line=line)
    except Malformed as problem:
        return LogError(f"not a readable session: message {line}: {problem}", line=line, **where)
    except LogError as error:
        return error
    return builder.log(source="openai-agents", engine="checkpoint", live=True)


def _asked(item: dict[str, Any]) -> Any:
    return item.get("content") if item.get("role") == "user" else None


def _write(
    builder: LogBuilder, item: dict[str, Any], open_calls: dict[str, Call], turn: int, moment: int | str, line: int
) -> None:
    call = call_of(item, "")
    kind = text(item.get("type"))
    if call is not None:
        if call.call_id in open_calls:
            raise Malformed(f"two calls have the id {printable(call.call_id)}")
        open_calls[call.call_id] = call
        builder.add("TOOL_REQUESTED", call.facts(), timestamp=moment, line=line)
    elif kind.endswith(("_output", "_response")) and text(item.get("call_id") or item.get("approval_request_id")):
        call_id = text(item.get("call_id") or item.get("approval_request_id"))
        asked = open_calls.pop(call_id, None)
        facts = {"callId": call_id, "name": asked.name if asked else "unknown", "output": item.get("output")}
        builder.add("TOOL_COMPLETED", facts, timestamp=moment, line=line)
    elif item.get("role") == "assistant" or kind == "message":
        builder.add("MODEL_REQUESTED", {"callId": f"m{turn}", "model": "unknown"}, timestamp=moment, line=line)
        builder.add("MODEL_COMPLETED", {"callId": f"m{turn}", "response": [item]}, timestamp=moment, line=line)
    elif turn > 1:
        builder.add("SessionMessage", {"item": item}, timestamp=moment, line=line)


def _moment(created: Any) -> int | str:
    """SQLite's ``CURRENT_TIMESTAMP`` is UTC without saying so."""
    said = created.decode(errors="replace") if isinstance(created, bytes) else created
    if isinstance(said, str) and len(said) == 19:
        return f"{said.replace(' ', 'T')}Z"
    return 0
