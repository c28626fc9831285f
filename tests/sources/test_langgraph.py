"""LangGraph stores as logs, without langgraph: layouts, formats, damage, and that nothing in a store is obeyed."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.log.share import Share
from pytest_loom.sources import iter_file, load_logs, source_of
from pytest_loom.sources.langgraph import LangGraphSource
from pytest_loom.sources.langgraph.values import decode_value

CORPUS = Path(os.environ["LOOM_CASES"], "corpus", "langgraph") if "LOOM_CASES" in os.environ else None
needs_corpus = pytest.mark.skipif(CORPUS is None, reason="LOOM_CASES does not name the folder with the shared corpus")

NEW = (
    "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path TEXT, idx, channel, type, value)"
)
OLD = "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value)"
TABLE = (
    "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint,"
    " metadata, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))"
)

# What get_state of the library that wrote each store says: status, the steps that ran, what is next, open questions.
STORES: dict[str, dict[str, tuple[str, list[str], list[str], list[Any]]]] = {
    "a_react_completed": {"react-1": ("completed", ["agent", "tools", "agent#2", "tools#2", "agent#3"], [], [])},
    "b2_two_interrupts_one_answered": {"form-1": ("suspended", [], ["form"], [{"field": "age"}])},
    "b4_approved_completed": {"appr-done": ("completed", ["agent", "approve", "execute"], [], [])},
    "c2_parallel_one_failed": {"fail-2": ("suspended", ["left", "right"], ["right"], [])},
    "c_failed_node": {"fail-1": ("suspended", ["ok", "boom"], ["boom"], [])},
    "d_fanout": {
        "fan-1": ("completed", ["plan", "work", "work#2", "work#3", "reduce"], [], []),
        "fan-2-two-interrupts": ("suspended", [], ["finance", "legal"], [{"ask": "finance"}, {"ask": "legal"}]),
    },
    "e_subgraph_interrupted": {
        "sub-1": ("suspended", ["write"], ["review", "writer"], [{"review": "draft about looms"}])
    },
    "f_schema_v1": {"schema-1": ("suspended", ["load"], ["wait"], [{"pay?": 4999}])},
    "h_functional_api": {
        "func-1": ("suspended", ["flow.task"], ["flow"], [{"pay": 42}]),
        "func-done": ("completed", ["flow", "fetch", "pay"], [], []),
    },
}
NEWEST: dict[str, dict[str, tuple[str, list[str], list[str], list[Any]]]] = {
    "b3_interrupt_before": {"bp-1": ("suspended", ["agent", "approve"], ["execute"], [])},
    "i_interrupt_before_key_removed": {"k1": ("suspended", ["first"], ["last"], [])},
    "j_durability_exit": {"exit-1": ("completed", ["a", "b", "c"], [], [])},
    "k_update_state_and_fork": {"fork-1": ("completed", ["a", "b", "c"], [], [])},
}
FIRST: dict[str, dict[str, tuple[str, list[str], list[str], list[Any]]]] = {
    # A format-1 store names no next node after an edge; what follows "ok" is for today's edges to say.
    "c_failed_node": {"fail-1": ("suspended", ["ok", "unknown"], [""], [])},
}


def _logs(path: Path) -> dict[str, Log]:
    return {log.execution_id: log for log in load_logs(path)}


def _frontier(log: Log) -> dict[str, Any]:
    return next(event.payload for event in reversed(log.events) if event.event_type == "CheckpointFrontier")


def _cases() -> list[Any]:
    found = []
    for folder, stores in (("", {**STORES, **NEWEST}), ("v04", STORES), ("v02", {**STORES, **FIRST})):
        found += [
            pytest.param(f"{folder}/{name}".strip("/"), threads, id=f"{folder}{name}")
            for name, threads in stores.items()
        ]
    return found


@needs_corpus
@pytest.mark.parametrize(("name", "threads"), _cases())
def test_every_store_is_read_as_the_library_reads_it(
    name: str, threads: dict[str, tuple[str, list[str], list[str], list[Any]]]
) -> None:
    """Status, steps, what is next and the open questions of each thread, in all three generations of the format."""
    assert CORPUS is not None
    logs = _logs(CORPUS / f"{name}.sqlite")
    assert logs.keys() == threads.keys()
    for thread, (status, steps, following, questions) in threads.items():
        facts = _frontier(logs[thread])
        assert logs[thread].state.status == status
        assert sorted(logs[thread].state.frames) == sorted(steps)
        open_tasks = [item for item in facts["pending"] if item["status"] != "finished"]
        assert sorted(item["node"] for item in open_tasks) == following
        asked = [item["value"] for item in facts["interrupts"] if item["leaf"] and not item["answered"]]
        assert sorted(asked, key=json.dumps) == questions
        assert logs[thread].live
        assert logs[thread].engine == "checkpoint"


@needs_corpus
def test_the_shares_of_a_store_are_the_store() -> None:
    """Each thread comes once, with the same events, however many workers divide the store."""
    assert CORPUS is not None
    for path in CORPUS.rglob("*.sqlite"):
        whole = {item.execution_id: item for item in iter_file(path)}
        shares = [list(iter_file(path, Share(number, 3))) for number in range(3)]
        found = {item.execution_id: item for share in shares for item in share}
        assert sum(map(len, shares)) == len(found) == len(whole)
        for name, item in whole.items():
            assert not isinstance(item, Log) or item.events == getattr(found[name], "events", None)


@needs_corpus
def test_a_store_is_left_alone() -> None:
    """Reading makes no side file and changes no byte."""
    assert CORPUS is not None
    files = sorted(CORPUS.glob("*"))
    before = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()]
    for path in CORPUS.glob("*.sqlite"):
        list(load_logs(path))
    assert sorted(CORPUS.glob("*")) == files
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()] == before


@needs_corpus
def test_a_hostile_store_does_nothing() -> None:
    """A value that names os.mkdir stays a name: LangGraph's own reader would call it."""
    assert CORPUS is not None
    marker = Path("/tmp/loom_hostile_marker")
    assert not marker.exists()
    (log,) = load_logs(CORPUS / "x_hostile_ext.sqlite")
    text = json.dumps([event.payload for event in log.events])
    assert "mkdir" in text
    assert not marker.exists()


@needs_corpus
def test_values_of_every_kind_become_data() -> None:
    """Pydantic models, dataclasses, enums, moments, decimals, sets and ids are named, never built."""
    assert CORPUS is not None
    (log,) = load_logs(CORPUS / "g_rich_types_interrupted.sqlite")
    kinds = {kind for kinds in _frontier(log)["types"].values() for kind in kinds}
    assert {"myapp_types.Order", "datetime.datetime", "decimal.Decimal", "uuid.UUID", "builtins.set"} <= kinds


# Stores made here ---------------------------------------------------------------------------------------------------


def _checkpoint(number: int, values: dict[str, Any], versions: dict[str, Any], seen: dict[str, Any]) -> bytes:
    return msgspec.msgpack.encode(
        {
            "v": 4,
            "ts": f"2026-01-01T00:00:0{number}+00:00",
            "id": f"1f1ec9f2-90b0-6dbf-bfff-45e75cac1ad{number}",
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": seen,
        }
    )


def _store(path: Path, writes: str = NEW, *, tag: str = "msgpack", wal: bool = False) -> sqlite3.Connection:
    """A store with one thread that ran ``load`` and waits in ``ask``."""
    connection = sqlite3.connect(path)
    if wal:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(TABLE)
    connection.execute(writes)
    first = _checkpoint(0, {"x": 1, "branch:to:load": None}, {"branch:to:load": "1", "x": "1"}, {})
    values = {"x": 2, "branch:to:ask": None}
    second = _checkpoint(
        1, values, {"branch:to:load": "2", "branch:to:ask": "2", "x": "2"}, {"load": {"branch:to:load": "1"}}
    )
    ids = [f"1f1ec9f2-90b0-6dbf-bfff-45e75cac1ad{number}" for number in (0, 1)]
    for number, (data, parent) in enumerate(((first, None), (second, ids[0]))):
        metadata = json.dumps({"source": "loop", "step": number, "parents": {}})
        row = ("t1", "", ids[number], parent, tag, data, metadata.encode())
        connection.execute("INSERT INTO checkpoints VALUES (?,?,?,?,?,?,?)", row)
    question = msgspec.msgpack.encode([{"value": "go?", "id": "q1"}])
    inner = msgspec.msgpack.encode(["langgraph.types", "Interrupt", {"value": "go?", "id": "q1"}])
    question = msgspec.msgpack.encode([msgspec.msgpack.Ext(2, inner)])
    path_of = ("~__pregel_pull, ask",) if writes == NEW else ()
    row = ("t1", "", ids[1], "task-1", *path_of, -3, "__interrupt__", "msgpack", question)
    connection.execute(f"INSERT INTO writes VALUES ({','.join('?' * len(row))})", row)
    connection.commit()
    return connection


@pytest.mark.parametrize("writes", [OLD, NEW], ids=["before 3.1", "since 3.1"])
def test_both_layouts_of_the_writes_table_are_read(tmp_path: Path, writes: str) -> None:
    """Without a path beside a write, the task is found by elimination."""
    _store(tmp_path / "s.sqlite", writes).close()
    (log,) = load_logs(tmp_path / "s.sqlite")
    assert log.state.status == "suspended"
    assert log.state.suspension is not None
    assert log.state.suspension.pending["question"] == "go?"
    assert [item["node"] for item in _frontier(log)["pending"]] == ["ask"]
    assert log.state.state == {"x": 2}


def test_what_is_only_in_the_write_ahead_log_counts(tmp_path: Path) -> None:
    """A killed application leaves its last runs in the -wal file: they are read, and no file beside it changes."""
    connection = _store(tmp_path / "live.sqlite", wal=True)
    copy = tmp_path / "copy"
    copy.mkdir()
    for suffix in ("", "-wal"):
        (copy / f"s.sqlite{suffix}").write_bytes((tmp_path / f"live.sqlite{suffix}").read_bytes())
    connection.close()
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert source_of(copy / "s.sqlite").name == "langgraph"
    (log,) = load_logs(copy / "s.sqlite")
    assert log.execution_id == "t1"
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_what_is_encrypted_stays_closed_until_somebody_opens_it(tmp_path: Path) -> None:
    """Of an encrypted store the waiting task is told by the columns; a hook may open the values."""
    _store(tmp_path / "s.sqlite", tag="msgpack+aes").close()
    (log,) = load_logs(tmp_path / "s.sqlite")
    assert log.state.status == "suspended"
    assert "encrypted" in log.notices[0]
    assert [item["node"] for item in _frontier(log)["pending"]] == ["ask"]
    opened = LangGraphSource(decrypt=lambda tag, data: data)
    (clear,) = opened.read(tmp_path / "s.sqlite")
    assert isinstance(clear, Log)
    assert clear.state.state == {"x": 2}


def test_pickled_values_are_never_loaded() -> None:
    """A pickle is told by its size and digest."""
    value = decode_value("pickle", b"cos\nsystem\n(S'touch x'\ntR.")
    assert value["$via"] == "opaque"
    assert value["$value"]["bytes"] == 26


DAMAGED = {
    "nothing": b"",
    "no type": b"\xc1",
    "deep": b"\x91" * 5000,
    "of another kind": b"\xc7\x03\x05abc",
    "cut off": b"\xdc\xff\xff\x01",
    "noise": bytes(range(255, 191, -1)),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=list(DAMAGED))
def test_damaged_values_are_opaque(data: bytes) -> None:
    """Whatever bytes there are, a value comes back and nothing is raised."""
    json.dumps(decode_value("msgpack", data))


def test_a_damaged_checkpoint_hides_no_other_thread(tmp_path: Path) -> None:
    """One thread that cannot be decoded is an error that names it; the next one is read."""
    connection = _store(tmp_path / "s.sqlite")
    row = ("t0", "", "1f1ec9f2-90b0-6dbf-bfff-45e75cac1ad0", None, "msgpack", b"\xc1\xc1", b"{}")
    connection.execute("INSERT INTO checkpoints VALUES (?,?,?,?,?,?,?)", row)
    connection.commit()
    connection.close()
    broken, whole = iter_file(tmp_path / "s.sqlite")
    assert isinstance(broken, LogError)
    assert broken.execution_id == "t0"
    assert isinstance(whole, Log)


def test_a_graph_names_its_flow_where_its_metadata_does(tmp_path: Path) -> None:
    """The server's graph_id is the flow; a made assistant's id is not."""
    for name, metadata in (
        ("refund", {"graph_id": "refund"}),
        ("unknown", {"assistant_id": "fe096781-5601-53d2-b2f6-0d3403f7e9ca"}),
    ):
        connection = _store(tmp_path / f"{name}.sqlite")
        connection.execute("UPDATE checkpoints SET metadata = ?", (json.dumps({"step": 1, **metadata}).encode(),))
        connection.commit()
        connection.close()
        (log,) = load_logs(tmp_path / f"{name}.sqlite")
        assert log.workflow_id == name


def test_another_database_is_not_taken_for_a_store(tmp_path: Path) -> None:
    """A SQLite file of somebody else is refused by name."""
    connection = sqlite3.connect(tmp_path / "other.sqlite")
    connection.execute("CREATE TABLE users (name)")
    connection.close()
    with pytest.raises(LogError, match="no source knows this SQLite database"):
        list(load_logs(tmp_path / "other.sqlite"))
