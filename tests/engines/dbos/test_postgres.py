"""DBOS's PostgreSQL database, written by the real library into a real server that the tests start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import simulate_deploy
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.log.share import Share
from pytest_loom.sources import OutOfScope, Wanted, iter_address, load_logs
from pytest_loom.sources.databases import postgres
from tests.engines.conftest import needs_postgres
from tests.engines.dbos.changes import APPS, CHANGES, changed
from tests.engines.dbos.conftest import PROCESS, Bench, needs_dbos

pytestmark = [needs_dbos, needs_postgres, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="session")
def address(server: str, bench: Bench) -> str:
    """A database in which a run of the claims waits with unread mail, written by the real DBOS."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE desk")
    found = server.replace("/postgres", "/desk")
    folder = bench.fresh()
    (folder / "desk_app.py").write_text(APPS["claim"])
    env = {**os.environ, "DESK_DATABASE": found, "DESK_EFFECTS": str(folder / "effects.log")}
    for arguments in (["start", "claim", '["C-1"]'], ["send", json.dumps([["approval", "ada"]])]):
        run = [sys.executable, str(PROCESS), *arguments]
        done = subprocess.run(run, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return found


def test_a_run_is_read_as_from_sqlite(address: str, bench: Bench) -> None:
    """The same application gives the same log from both databases, but for ids and times; counts are the server's."""
    import psycopg

    (log,) = load_logs(address)
    (other,) = load_logs(str(bench.store("claim", (("approval", "ada"),))))
    assert [event.event_type for event in log] == [event.event_type for event in other]
    assert (log.state.variables, log.state.status) == (other.state.variables, "suspended")
    assert {key: frame.output for key, frame in log.state.frames.items()} == {
        key: frame.output for key, frame in other.state.frames.items()
    }
    with psycopg.connect(address) as connection:
        rows = connection.execute("SELECT function_name FROM dbos.operation_outputs ORDER BY function_id").fetchall()
    assert [frame.step_id for frame in log.state.frames.values()] == [name for (name,) in rows if name != "DBOS.sleep"]


def test_a_change_is_found_in_a_postgres_database(address: str, bench: Bench) -> None:
    """What loses the run is found by the address; the password is in no text."""
    for name in ("nothing", "a step renamed", "the topic renamed, mail waits", "the version raised"):
        change = CHANGES[name]
        report = simulate_deploy(address, bench.flows(changed(change)))
        broken = [found for found in report.findings if found.severity == "breaking"]
        assert [found.code for found in broken] == ([change.code] if change.lost else []), name
        assert "s3cret" not in str(report.as_dict())
        assert all(found.source.startswith("postgresql://loom@127.0.0.1:") for found in broken)


def test_workflows_that_are_over_are_counted_and_not_read(address: str, bench: Bench) -> None:
    """The server is asked for those that are not, with a share and without."""
    import psycopg

    copied = "workflow_uuid, status, name, created_at, updated_at"
    query = f"INSERT INTO dbos.workflow_status ({copied}) SELECT %s, 'SUCCESS', name, created_at, updated_at"
    with psycopg.connect(address, autocommit=True) as connection:
        for number in range(6):
            connection.execute(f"{query} FROM dbos.workflow_status WHERE workflow_uuid = 'run-1'", (f"over-{number}",))
    flows = bench.flows(changed(CHANGES["nothing"]))
    try:
        report = simulate_deploy(address, flows)
        assert (report.in_flight, report.examined, report.skipped) == (1, 1, 6)
        parts = [list(iter_address(address, Share(number, 3), Wanted("auto"))) for number in range(3)]
        assert sum(item.runs for items in parts for item in items if isinstance(item, OutOfScope)) == 6
        assert [item.execution_id for items in parts for item in items if isinstance(item, Log)] == ["run-1"]
        assert len(list(iter_address(address, None, Wanted("all")))) == 7
    finally:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DELETE FROM dbos.workflow_status WHERE status = 'SUCCESS'")


def test_a_database_that_holds_both_gives_both(address: str, server: str) -> None:
    """Threads of LangGraph and workflows of DBOS in one database are both read; one of neither says so."""
    import psycopg

    checkpoint = {"v": 4, "id": "1", "ts": "2026-01-01T00:00:00+00:00", "channel_values": {}, "channel_versions": {}}
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id text, checkpoint_ns text, checkpoint_id text,"
            " parent_checkpoint_id text, type text, checkpoint jsonb, metadata jsonb)"
        )
        connection.execute(
            "CREATE TABLE checkpoint_writes (thread_id text, checkpoint_ns text, checkpoint_id text, task_id text,"
            " task_path text, idx int, channel text, type text, blob bytea)"
        )
        connection.execute(
            "CREATE TABLE checkpoint_blobs (thread_id text, checkpoint_ns text, channel text, version text, type text,"
            " blob bytea)"
        )
        connection.execute(
            "INSERT INTO checkpoints VALUES ('t1', '', '1', NULL, NULL, %s, '{}')",
            (json.dumps({**checkpoint, "versions_seen": {}}),),
        )
    try:
        assert sorted((log.source, log.execution_id) for log in load_logs(address)) == [
            ("dbos", "run-1"),
            ("langgraph", "t1"),
        ]
    finally:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP TABLE checkpoints, checkpoint_writes, checkpoint_blobs")
    with pytest.raises(LogError, match="no tables of langgraph or dbos") as caught:
        list(load_logs(f"{server.replace('/postgres', '/template1')}"))
    assert "s3cret" not in str(caught.value)


def test_nothing_can_be_written(address: str) -> None:
    """The connection is read-only: even a statement that would write is refused by the server."""
    with pytest.raises(LogError, match="read-only"), postgres(address, "dbos") as (connection, _):
        connection.execute("DELETE FROM dbos.notifications")


def test_a_schema_of_another_name(address: str, tmp_path: Path) -> None:
    """The tables may be in a schema that the address names; where it is wrong, that is said."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ALTER SCHEMA dbos RENAME TO desk")
    try:
        logs: list[Any] = list(load_logs(f"{address}?schema=desk"))
        assert [log.execution_id for log in logs] == ["run-1"]
        with pytest.raises(LogError, match="schema"):
            list(load_logs(address))
    finally:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ALTER SCHEMA desk RENAME TO dbos")
