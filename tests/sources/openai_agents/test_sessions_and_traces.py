"""Session databases and trace exports of the OpenAI Agents SDK as logs, without the SDK."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from run_states import LOOK, PAY, message  # type: ignore[import-not-found]

from pytest_loom import load_log
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources.openai_agents import source


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A session database as the SDK makes it, in WAL mode, with one conversation that waits and one that is over."""
    path = tmp_path / "sessions.sqlite"
    con = sqlite3.connect(path)
    con.execute("PRAGMA journal_mode = WAL")
    con.execute("CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP)")
    con.execute(
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,"
        " message_data TEXT NOT NULL, created_at TIMESTAMP)"
    )
    talk: dict[str, list[Any]] = {
        "waits": [
            {"role": "user", "content": "pay A"},
            LOOK,
            {"type": "function_call_output", "call_id": "c1", "output": "paid"},
            PAY,
        ],
        "over": [{"role": "user", "content": "hi"}, message("hello")],
        "empty": [],
        "torn": [{"role": "user", "content": "x"}, "{"],
    }
    for name, messages in talk.items():
        con.execute("INSERT INTO agent_sessions VALUES (?, '2026-11-30 09:25:20', '2026-11-30 09:25:20')", (name,))
        for one in messages:
            text = one if isinstance(one, str) else json.dumps(one)
            con.execute(
                "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)",
                (name, text, "2026-11-30 09:25:20"),
            )
    con.commit()
    con.close()
    return path


def test_sessions(database: Path) -> None:
    """Each session is a log; a call without output waits; a damaged one is named and hides no other."""
    items = list(source.read(database))
    logs = {log.execution_id: log for log in items if isinstance(log, Log)}
    assert {name: log.state.status for name, log in logs.items()} == {
        "waits": "suspended",
        "over": "completed",
        "empty": "running",
    }
    assert [one["name"] for one in logs["waits"].state.suspensions[0].pending] == ["pay"]
    assert logs["waits"].events[0].timestamp == "2026-11-30T09:25:20Z"
    assert all(log.live for log in logs.values())
    assert [(error.execution_id, error.line) for error in items if isinstance(error, LogError)] == [("torn", 8)]


def test_reading_sessions_leaves_no_trace(database: Path) -> None:
    """No side file appears, and the database stays as it was."""
    before = {path.name: path.read_bytes() for path in database.parent.iterdir()}
    list(source.read(database))
    assert {path.name: path.read_bytes() for path in database.parent.iterdir()} == before


def test_another_database_is_no_session(tmp_path: Path) -> None:
    """A database without the tables is left to other sources."""
    path = tmp_path / "x.sqlite"
    con = sqlite3.connect(path)
    con.execute("CREATE TABLE agent_sessions (a)")
    con.commit()
    con.close()
    assert not source.sniff(path, path.read_bytes()[:1000])


def span(kind: str, number: int, **data: Any) -> dict[str, Any]:
    """An exported span; the first one is around the others."""
    times = {"started_at": f"2026-11-30T09:25:2{number}+00:00", "ended_at": f"2026-11-30T09:25:3{number}+00:00"}
    head: dict[str, Any] = {"object": "trace.span", "id": f"span_{number}", "trace_id": "trace_1"}
    head |= {"parent_id": "span_0" if number else None, **times}
    return head | {"span_data": {"type": kind, **data}, "error": data.pop("error", None)}


SPANS = [
    {"object": "trace", "id": "trace_1", "workflow_name": "refunds", "group_id": "g1", "metadata": {"app": "1.2"}},
    span("agent", 0, name="desk"),
    span("generation", 1, model="m", input=[{"role": "user", "content": "A"}], output=[LOOK], usage={"n": 1}),
    span("function", 2, name="look", input='{"order": "A"}', output="paid"),
    span("function", 3, name="pay", input='{"order": "A"}', output=None),
    span("handoff", 4, from_agent="desk", to_agent="till"),
]


def saved(text: str, folder: Path) -> Path:
    """The text in a file."""
    path = folder / "spans.jsonl"
    path.write_text(text)
    return path


@pytest.mark.parametrize("shape", ["list", "data", "lines"])
def test_traces(shape: str, tmp_path: Path) -> None:
    """Turns are steps, functions tool calls, one without an output waits, in every shape that spans are exported in."""
    text = "\n".join(map(json.dumps, SPANS))
    text = {"list": json.dumps(SPANS), "data": json.dumps({"data": SPANS}), "lines": text}[shape]
    log = load_log(saved(text, tmp_path))
    assert (log.execution_id, log.workflow_id, log.state.status) == ("trace_1", "refunds", "suspended")
    assert list(log.state.frames) == ["desk"]
    assert [(one.kind, one.name, one.status) for one in log.state.calls] == [
        ("model", "m", "completed"),
        ("tool", "look", "completed"),
        ("tool", "pay", "requested"),
    ]


@pytest.mark.parametrize("changed", [{"started_at": "yesterday"}, {"span_data": 7}, {"started_at": 12}])
def test_a_damaged_trace_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    """A span that has not its shape is a LogError."""
    with pytest.raises(LogError):
        load_log(saved(json.dumps([SPANS[0], SPANS[1] | changed]), tmp_path))
