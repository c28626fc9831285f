"""LangGraph's PostgreSQL store, written by the real PostgresSaver into a real server that the tests start."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import simulate_deploy
from pytest_loom.errors import LogError
from pytest_loom.log.share import Share
from pytest_loom.sources import iter_address, load_logs
from tests import pages
from tests.engines.conftest import needs_postgres
from tests.engines.langgraph.changes import APPS, HEAD
from tests.engines.langgraph.conftest import Bench, needs_langgraph

SAVER = importlib.util.find_spec("psycopg") and importlib.util.find_spec("langgraph.checkpoint.postgres")

pytestmark = [
    needs_langgraph,
    needs_postgres,
    pytest.mark.skipif(not SAVER, reason="needs langgraph-checkpoint-postgres and psycopg"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def store(server: str, bench: Bench) -> str:
    """A store in which threads of several applications wait, written by the real saver."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(server) as saver:
        saver.setup()
        for app, given in (("chain", {"x": 1}), ("subgraph", {"topic": "looms"}), ("fan_out", {"title": "t"})):
            graph = next(iter(bench.flows(HEAD + APPS[app]).values()))
            graph.checkpointer = saver
            graph.invoke(given, {"configurable": {"thread_id": app}, "metadata": {"graph_id": app}})
    return server


def test_a_thread_is_read_as_from_sqlite(store: str, bench: Bench) -> None:
    """The same application gives the same log from both stores, but for ids and times."""
    logs = {log.execution_id: log for log in load_logs(store)}
    assert logs.keys() == {"chain", "subgraph", "fan_out"}
    assert {log.workflow_id for log in logs.values()} == logs.keys()
    for app, given in (("chain", {"x": 1}), ("subgraph", {"topic": "looms"}), ("fan_out", {"title": "t"})):
        (other,) = load_logs(bench.store(HEAD + APPS[app], given))
        assert [(event.event_type, event.namespace) for event in logs[app]] == [
            (event.event_type, event.namespace) for event in other
        ]
        assert logs[app].state.state == other.state.state
        assert logs[app].state.status == "suspended"


def test_a_change_is_found_in_a_postgres_store(store: str, bench: Bench) -> None:
    """A renamed waiting node is found by the store's address; the password is in no text."""
    text = HEAD + APPS["chain"].replace('"b"', '"reviewed"')
    flows = {
        "chain": bench.flows(text)["chain"],
        "subgraph": bench.flows(HEAD + APPS["subgraph"])["sub"],
        "fan_out": bench.flows(HEAD + APPS["fan_out"])["send"],
    }
    report = simulate_deploy(store, flows)
    broken = [found for found in report.findings if found.severity == "breaking"]
    assert [(found.code, found.execution_id) for found in broken] == [("frontier-missing", "chain")]
    assert "s3cret" not in str(report.as_dict())
    assert broken[0].source.startswith("postgresql://loom@127.0.0.1:")


def test_the_shares_of_a_store_are_the_store(store: str) -> None:
    """The server gives each worker its threads, by the key that we compute for SQLite as well."""
    whole = {log.execution_id: log for log in load_logs(store)}
    for of in (2, 5):
        found: dict[int, list[Any]] = {number: list(iter_address(store, Share(number, of))) for number in range(of)}
        for number, logs in found.items():
            assert all(Share(number, of).holds(log.execution_id) for log in logs)
            assert all(log.events == whole[log.execution_id].events for log in logs)
        assert sorted(log.execution_id for logs in found.values() for log in logs) == sorted(whole)


def test_a_store_that_cannot_be_had_says_so_without_the_password(server: str) -> None:
    """A wrong database, a wrong password and an empty database are errors that name the address, masked."""
    for address in (
        server.replace("/postgres", "/nowhere"),
        server.replace("s3cret", "wr0ng"),
        server + "?schema=other",
    ):
        with pytest.raises(LogError) as caught:
            list(load_logs(address))
        assert "s3cret" not in str(caught.value)
        assert "wr0ng" not in str(caught.value)
        assert "postgresql://loom@" in str(caught.value)


def test_reading_writes_nothing(store: str) -> None:
    """The connection is read-only: even a statement that would write is refused by the server."""
    from pytest_loom.sources.databases import postgres

    with pytest.raises(LogError, match="read-only"), postgres(store, "dbos") as (connection, _):
        connection.execute("DELETE FROM checkpoints")


def test_the_command_of_the_page(server: str, tmp_path: Path) -> None:
    """The page's graph waits in a server; its command reads it by the address, whose password nothing shows."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE page")
    address = server.replace("/postgres", "/page")
    for name in ("langgraph-application", "langgraph-settings"):
        pages.write(name, tmp_path)
    desk = tmp_path / "desk.py"
    made: dict[str, Any] = {}
    exec(compile(desk.read_text(), "desk.py", "exec", dont_inherit=True), made)
    with PostgresSaver.from_conn_string(address) as saver:
        saver.setup()
        graph = made["builder"].compile(checkpointer=saver)
        graph.invoke({"order": "A-17"}, {"configurable": {"thread_id": "ticket-17"}})
    command = pages.line("langgraph-postgres").replace("$DATABASE_URL", address)
    done = pages.run(command, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 of them unfinished" in done.stdout
    assert "s3cret" not in done.stdout
    for old, new in (("def ask(", "def human("), ("(assess, ask, pay)", "(assess, human, pay)"), ('"ask"', '"human"')):
        pages.change(desk, old, new)
    done = pages.run(command, tmp_path)
    assert done.returncode == 1
    assert "frontier-missing" in done.stdout
    assert "s3cret" not in done.stdout


def test_import_by_an_address(server: str, tmp_path: Path) -> None:
    """The import page's command makes a golden of the thread that waits in a server; its password is in no file."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE imported")
    address = server.replace("/postgres", "/imported")
    pages.write("langgraph-application", tmp_path)
    made: dict[str, Any] = {}
    exec(compile((tmp_path / "desk.py").read_text(), "desk.py", "exec", dont_inherit=True), made)
    with PostgresSaver.from_conn_string(address) as saver:
        saver.setup()
        graph = made["builder"].compile(checkpointer=saver)
        graph.invoke({"order": "A-17"}, {"configurable": {"thread_id": "ticket-17"}})
    done = pages.run(pages.line("import-store").replace("$DATABASE_URL", address), tmp_path)
    assert (done.returncode, done.stdout) == (0, "goldens/unknown/ticket-17.loom.jsonl\n"), done.stderr
    files = [path for folder in ("goldens", "loom-contracts") for path in (tmp_path / folder).rglob("*.json*")]
    assert len(files) == 3
    for path in files:
        assert b"s3cret" not in path.read_bytes()
    assert b"postgresql://loom@127.0.0.1" in (tmp_path / "goldens" / "loom-import.json").read_bytes()
    report = simulate_deploy(tmp_path / "goldens", {"desk": made["graph"]})
    assert report.ok
    assert {found.code for found in report.findings} == {"suspended-carryover"}
