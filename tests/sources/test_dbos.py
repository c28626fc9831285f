"""DBOS system databases as logs, without dbos: layouts, operations, damage, and that nothing in a store is obeyed."""

from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import hashlib
import json
import os
import pickle
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import simulate_deploy
from pytest_loom.deploy.decide import Today
from pytest_loom.deploy.simulate import simulate_share
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.log.share import Share
from pytest_loom.sources import LogStream, iter_file, iter_wanted, load_logs, source_of
from pytest_loom.sources.dbos import mapping
from pytest_loom.sources.dbos.pickles import MAX_NESTING, read_pickle
from pytest_loom.sources.dbos.recorded import recorded
from pytest_loom.sources.dbos.revive import Unknown, Untold, revived

SHARED = Path(os.environ["LOOM_CASES"]) if "LOOM_CASES" in os.environ else None
needs_corpus = pytest.mark.skipif(SHARED is None, reason="LOOM_CASES does not name the folder with the shared corpus")

FIRST = """
CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO dbos_migrations VALUES (1);
CREATE TABLE workflow_status (workflow_uuid TEXT PRIMARY KEY, status TEXT, name TEXT, output TEXT, error TEXT,
    executor_id TEXT, created_at INTEGER, updated_at INTEGER, application_version TEXT, class_name TEXT,
    config_name TEXT, recovery_attempts INTEGER, queue_name TEXT, inputs TEXT);
CREATE TABLE operation_outputs (workflow_uuid TEXT, function_id INTEGER, function_name TEXT, output TEXT, error TEXT,
    child_workflow_id TEXT, PRIMARY KEY (workflow_uuid, function_id));
CREATE TABLE notifications (destination_uuid TEXT, topic TEXT, message TEXT, created_at_epoch_ms INTEGER,
    message_uuid TEXT);
CREATE TABLE workflow_events (workflow_uuid TEXT, key TEXT, value TEXT);
"""
"""The tables as DBOS 2.0 makes them, less what is not read."""


def pickled(value: Any, protocol: int | None = None) -> str:
    """A value as DBOS stores it."""
    return base64.b64encode(pickle.dumps(value, protocol)).decode()


class Store:
    """A database in the layout of DBOS 2.0, filled by hand."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.connection = sqlite3.connect(file)
        self.connection.executescript(FIRST)

    def run(self, run_id: str, *operations: tuple[Any, ...], args: Any = ("A-1",), **facts: Any) -> None:
        """A workflow with its operations: number, name, output, and as far as there are any error and child."""
        row = {"workflow_uuid": run_id, "status": "PENDING", "name": "flow", "created_at": 1000, "updated_at": 2000}
        row |= {"inputs": pickled({"args": args, "kwargs": {}}), "application_version": "1", **facts}
        marks = ", ".join("?" * len(row))
        self.connection.execute(f"INSERT INTO workflow_status ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        for operation in operations:
            values = [run_id, *operation, *[None] * (5 - len(operation))]
            columns = "workflow_uuid, function_id, function_name, output, error, child_workflow_id"
            query = f"INSERT INTO operation_outputs ({columns}) VALUES (?, ?, ?, ?, ?, ?)"
            self.connection.execute(query, values)
        self.connection.commit()

    def mail(self, name: str, topic: str, message: Any) -> None:
        """A message that nobody has read."""
        row = (name, topic, pickled(message), 1500, f"{name}-{topic}")
        self.connection.execute("INSERT INTO notifications VALUES (?, ?, ?, ?, ?)", row)
        self.connection.commit()

    def logs(self) -> dict[str, Log]:
        """What is read of it."""
        self.connection.close()
        return {log.execution_id: log for log in load_logs(self.file)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty database."""
    return Store(tmp_path / "system.sqlite")


def kinds(log: Log) -> list[str]:
    """The event types of a log."""
    return [event.event_type for event in log]


# What operations mean ------------------------------------------------------------------------------------------------


def test_steps_and_their_ends(store: Store) -> None:
    """Steps come by number with what they gave or raised; the run's own end is its status."""
    error = pickled(ValueError("gateway 503"))
    store.run("r1", (1, "load", pickled({"n": 1})), (2, "pay", None, error), status="ERROR", error=error)
    store.run("r2", status="SUCCESS", output=pickled(7), args=(1, 2))
    store.run("r3", status="CANCELLED", args=())
    store.run("r4", status="MAX_RECOVERY_ATTEMPTS_EXCEEDED", recovery_attempts=51)
    logs = store.logs()
    frames = logs["r1"].state.frames
    assert {key: (frame.status, frame.output) for key, frame in frames.items()} == {
        "load": ("completed", {"n": 1}),
        "pay": ("failed", None),
    }
    assert frames["pay"].error == {"type": "ValueError", "message": "gateway 503"}
    assert [log.state.status for log in logs.values()] == ["failed", "completed", "cancelled", "failed"]
    assert [log.state.variables.get("_input") for log in logs.values()] == [
        "A-1",
        {"args": [1, 2], "kwargs": {}},
        None,
        "A-1",
    ]
    assert logs["r2"].state.variables["_output"] == 7
    assert logs["r4"].state.variables["_error"]["message"] == "51 attempts to recover it"
    assert all(log.engine == "journal" and log.live and log.source == "dbos" for log in logs.values())


def test_a_wait_is_a_timeout_with_a_gap_before_it(store: Store) -> None:
    """A receive that waits has only its timeout's row; unread mail is there as events; a plain sleep is a timer."""
    store.run("r1", (1, "load", pickled(1)), (3, "DBOS.sleep", pickled(9e9)))
    store.mail("r1", "approve", "yes")
    store.mail("r1", "__null__topic__", "psst")
    store.run("r2", (1, "load", pickled(1)), (2, "DBOS.sleep", pickled(9e9)))
    logs = store.logs()
    (wait,) = logs["r1"].state.suspensions
    assert (wait.on, wait.kind, wait.correlation_key) == ("*", "event", "2")
    assert [(event.event_type, event.payload["topic"]) for event in logs["r1"].state.received] == [
        ("approve", "approve"),
        ("message", None),
    ]
    (timer,) = logs["r2"].state.suspensions
    assert (timer.on, timer.kind) == ("TimerFired", "timer")
    record = recorded(logs["r1"])
    assert record is not None
    assert record.waits_at == 2
    assert {number: operation["name"] for number, operation in record.operations.items()} == {
        1: "load",
        3: "DBOS.sleep",
    }
    assert [letter["topic"] for letter in record.mail] == ["approve", None]


def test_a_wait_that_is_over(store: Store) -> None:
    """A message, a timeout and a timer that are past are waits that were ended; the run goes on after them."""
    store.run(
        "r1",
        (1, "DBOS.recv", pickled("yes")),
        (2, "DBOS.sleep", pickled(5.0)),
        (3, "DBOS.recv", pickled(None)),
        (4, "DBOS.sleep", pickled(6.0)),
        (5, "DBOS.sleep", pickled(7.0)),
        (6, "done", pickled(1)),
    )
    log = store.logs()["r1"]
    assert not log.state.suspensions
    resumed = [event.payload["eventType"] for event in log if event.event_type == "EXECUTION_RESUMED"]
    assert resumed == ["DBOS.recv", "TIMEOUT", "TimerFired"]
    record = recorded(log)
    assert record is not None
    assert record.operations[1]["output"] == "yes"
    assert sorted(record.operations) == [1, 2, 3, 4, 5, 6]
    assert record.waits_at is None


def test_children_patches_and_forks(store: Store) -> None:
    """A child is a step from its start to its result; a patch is a decision; a fork names what it was forked from."""
    store.connection.execute("ALTER TABLE workflow_status ADD COLUMN forked_from TEXT")
    store.run(
        "r1",
        (1, "DBOS.patch-check", None),
        (2, "child", None, None, "r1-2"),
        (3, "DBOS.getResult", pickled("clear"), None, "r1-2"),
        (4, "child", None, None, "r1-4"),
        forked_from="r0",
    )
    store.run("r1-2", status="SUCCESS", name="child", output=pickled("clear"))
    store.run("r1-4", name="child")
    log = store.logs()["r1"]
    frames = log.state.frames
    assert {key: (frame.status, frame.output) for key, frame in frames.items()} == {
        "child": ("completed", "clear"),
        "child#2": ("running", None),
    }
    assert log.state.decisions == {"DBOS.patch-check": True}
    assert log.state.variables["_forked"]["parentExecutionId"] == "r0"
    started = [event.payload for event in log if event.event_type == "STEP_STARTED"]
    assert [(one["kind"], one["childExecutionId"], one["child"]["status"]) for one in started] == [
        ("childWorkflow", "r1-2", "SUCCESS"),
        ("childWorkflow", "r1-4", "PENDING"),
    ]


def test_json_serializers_are_read(store: Store) -> None:
    """DBOS's portable JSON and a serializer of the user's own that writes JSON; what is neither is opaque."""
    for table in ("workflow_status", "operation_outputs"):
        store.connection.execute(f"ALTER TABLE {table} ADD COLUMN serialization TEXT")
    inputs = json.dumps({"positionalArgs": ["A-1"], "namedArgs": {"n": 2}})
    store.run("r1", (1, "load", '{"cents": 4999}'), inputs=inputs, serialization="portable_json")
    store.run("r2", (1, "load", "<xml/>"), serialization="my_xml", inputs="<xml/>")
    store.connection.execute("UPDATE operation_outputs SET serialization = 'my_xml'")
    store.connection.commit()
    logs = store.logs()
    assert logs["r1"].state.variables["_input"] == {"args": ["A-1"], "kwargs": {"n": 2}}
    assert logs["r1"].state.frames["load"].output == {"cents": 4999}
    output = logs["r2"].state.frames["load"].output
    assert (output["$type"], output["$via"]) == ("my_xml", "opaque")
    assert recorded(logs["r2"]) is None


# Damage, and what is left alone --------------------------------------------------------------------------------------


def test_one_bad_row_hides_no_other(store: Store) -> None:
    """A workflow that cannot be read is an error that names it; the others are read, and damaged values are opaque."""
    store.run("r1", ("one", "load", pickled(1)))
    store.run("r2", (1, "load", "not base64!"), (2, None, pickled(2)))
    store.run("r3", inputs="garbage", name=None, created_at="yesterday")
    store.connection.close()
    found = list(iter_file(store.file))
    errors = [item for item in found if isinstance(item, LogError)]
    assert [error.execution_id for error in errors] == ["r1"]
    assert "number" in str(errors[0])
    logs = {log.execution_id: log for log in found if isinstance(log, Log)}
    assert logs.keys() == {"r2", "r3"}
    assert logs["r2"].state.frames["load"].output["$via"] == "opaque"
    assert logs["r3"].workflow_id == "unknown"
    assert all(log.state.in_flight for log in logs.values())


@pytest.mark.parametrize("scope", ["auto", "in-flight", "all"])
@pytest.mark.parametrize("share", [None, Share(1, 3)], ids=["whole", "share"])
def test_workflows_that_are_over_are_not_read_where_nobody_asks(
    store: Store, monkeypatch: pytest.MonkeyPatch, scope: Any, share: Share | None
) -> None:
    """The database is asked for unfinished ones; the report counts the others as if they had been read."""
    statuses = ["PENDING", "ENQUEUED", "DELAYED", "SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
    for number in range(28):
        store.run(f"r{number:02}", (1, "load", pickled(1)), status=statuses[number % 7])
    store.connection.execute("UPDATE workflow_status SET status = NULL WHERE workflow_uuid = 'r00'")
    store.connection.commit()
    store.connection.close()
    read: list[str] = []
    to_log = mapping.to_log

    def noting(rows: Any, path: str) -> Any:
        read.append(rows.status["workflow_uuid"])
        return to_log(rows, path)

    monkeypatch.setattr("pytest_loom.sources.dbos.to_log", noting)
    rules: dict[str, Any] = {"contract": None, "scope": scope, "policy": None, "checks": ()}
    flows = {"flow": {"workflowId": "flow", "steps": {}}}
    ways = (lambda wanted: iter_wanted(store.file, wanted, share), lambda wanted: iter_file(store.file, share))
    reports = [simulate_share(LogStream(way), Today(flows), **rules).as_dict() for way in ways]
    assert reports[0] == reports[1]
    mine = [f"r{number:02}" for number in range(28) if share is None or share.holds(f"r{number:02}")]
    unfinished = [name for name in mine if int(name[1:]) % 7 < 3]
    assert read == [*(mine if scope == "all" else unfinished), *mine]
    assert reports[0]["in_flight"] == len(unfinished)
    assert reports[0]["skipped"] == (0 if scope == "all" else len(mine) - len(unfinished))


def test_a_database_in_which_all_is_over(store: Store) -> None:
    """There is no run to judge, which is said and green; an empty one is an error as ever."""
    store.run("r1", status="SUCCESS")
    store.connection.close()
    report = simulate_deploy(store.file, {"flow": {"workflowId": "flow"}})
    assert (report.ok, report.examined, report.skipped) == (True, 0, 1)
    with contextlib.closing(sqlite3.connect(store.file)) as connection:
        connection.execute("DELETE FROM workflow_status")
        connection.commit()
    report = simulate_deploy(store.file, {"flow": {"workflowId": "flow"}})
    assert [found.code for found in report.findings] == ["log-unreadable"]


def test_a_store_in_use_is_read_with_its_log_and_left_alone(store: Store) -> None:
    """What is committed to the write-ahead log counts, and neither the file nor one beside it is touched."""
    store.connection.execute("PRAGMA journal_mode=WAL")
    store.run("r1", (1, "load", pickled(1)))

    def digests() -> dict[str, str]:
        files = store.file.parent.iterdir()
        return {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if not file.name.endswith("-shm")
        }

    before = digests()
    assert "system.sqlite-wal" in before
    assert [log.execution_id for log in load_logs(store.file)] == ["r1"]
    assert digests() == before
    assert source_of(store.file).name == "dbos"
    store.connection.close()


def test_a_schema_far_into_the_file_is_found(tmp_path: Path) -> None:
    """The source knows a database by its tables, wherever their definition stands."""
    file = tmp_path / "big.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE other (text)")
        connection.executemany("INSERT INTO other VALUES (?)", [("x" * 4000,)] * 600)
        for number in range(40):
            connection.execute(f"CREATE TABLE filler_{number} (text /* {'y' * 3000} */)")
        connection.executescript(FIRST)
    assert source_of(file).name == "dbos"
    assert b"workflow_status" not in file.read_bytes()[:65536]


# Pickles -------------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    """An enum of the application."""

    RED = "red"


@dataclasses.dataclass
class Order:
    """A dataclass of the application."""

    number: str
    cents: int
    lines: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    """One with slots."""

    number: str


Point = collections.namedtuple("Point", "x y")


class Refused(Exception):
    """An exception of the application that wants two arguments."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)
        self.code = code


PLAIN: list[Any] = [
    *(None, True, 0, -1, 1 << 70, 1.5, "text", b"bytes", bytearray(b"more")),
    [1, [2, {"three": (4, 5)}]],
    {"a": {1, 2}, "b": frozenset({3}), 4: "four", (5, 6): None},
    {"$type": "os.system", "$via": "call", "$value": "forged"},
    datetime.datetime(2026, 11, 30, 12, 30, 15, 123456),
    datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC),
    datetime.date(2026, 11, 30),
    datetime.timedelta(days=2, seconds=3),
    decimal.Decimal("49.99"),
    uuid.UUID(int=7),
    Colour.RED,
    Order("A-1", 4999, ("x", "y")),
    [Slotted("A-1")],
    Point(1, 2),
]


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_values_come_back_as_they_were(value: Any, protocol: int) -> None:
    """What holds data only is read as JSON data, and is the same object again where it is revived."""
    data = read_pickle(pickled(value, protocol))
    json.dumps(data)
    again = revived(data)
    assert (again, type(again)) == (value, type(value))


def test_exceptions_come_back_without_their_code_being_run() -> None:
    """A recorded exception is raised by its own class again, its arguments and attributes as they were."""
    problem = revived(read_pickle(pickled(Refused(3, "no"))))
    assert isinstance(problem, Refused)
    assert (problem.args, problem.code) == ((3, "no"), 3)


class Hostile:
    """What a pickle may call, if somebody unpickles it."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


class Watcher:
    """A class whose instances do something when they go."""

    gone: list[str] = []

    def __del__(self) -> None:
        Watcher.gone.append("gone")


def test_hostile_pickles_do_nothing(store: Store, tmp_path: Path) -> None:
    """Calls, imports and finalizers in a store stay words; what is deep, endless or huge is opaque."""
    ran = tmp_path / "ran"
    nested: Any = [1]
    for _ in range(MAX_NESTING * 3):
        nested = [nested]
    wide: Any = [1]
    for _ in range(64):
        wide = [wide, wide]
    own: list[Any] = []
    own.append(own)
    hostile = [
        pickled(Hostile(os.system, f"touch {ran}")),
        pickled(Hostile(exec, f"open({str(ran)!r}, 'w')")),
        pickled({"args": (Hostile(os.mkdir, str(ran)),), "kwargs": {}}),
        pickled(Hostile(eval, "1")),
        base64.b64encode(b"c__main__\nnothing\n(tR.").decode(),
        base64.b64encode(b"cno.such.module\nthing\n.").decode(),
        base64.b64encode(b"\x80\x02\x82\x01.").decode(),
        base64.b64encode(b"\x80\x04B\xff\xff\xff\x7f.").decode(),
        base64.b64encode(b"(((((((((.").decode(),
        base64.b64encode(b"0.").decode(),
        base64.b64encode(b"I" + b"9" * 100000 + b"\n.").decode(),
        pickled(Watcher()),
        *(pickled(nested), pickled(wide), pickled(own)),
        *("", "====", "\x00", "é"),
    ]
    Watcher.gone.clear()
    for number, text in enumerate(hostile):
        store.run(f"r{number:02}", (1, "load", text), (2, "fail", None, text), inputs=text)
    logs = store.logs()
    assert len(logs) == len(hostile)
    for log in logs.values():
        assert log.state.in_flight
        recorded(log)
        output = revived(log.state.frames["load"].output)
        assert isinstance(output, (Unknown, list, dict, int)), output
    assert not ran.exists()
    assert not Watcher.gone


def test_nobody_looks_into_what_is_not_known() -> None:
    """A value that could not be read may be handed on and printed; a decision on it ends the replay."""
    value = Unknown()
    assert "not in the record" in f"{value} {value!r} {value:>3}"
    assert isinstance(pickle.loads(pickle.dumps([value]))[0], Unknown)
    for look in (bool, len, iter, hash, lambda one: one.field, lambda one: one["key"], lambda one: one == 1):
        with pytest.raises(Untold):
            look(value)


# The corpus ----------------------------------------------------------------------------------------------------------


def stores() -> list[Path]:
    """Every shared database."""
    if SHARED is None:
        return []
    return sorted([*SHARED.glob("corpus/dbos/*.sqlite"), *SHARED.glob("matrix/cases/dbos/*/store/*.sqlite")])


@needs_corpus
@pytest.mark.parametrize("file", [pytest.param(file, id=f"{file.parent.parent.name}-{file.stem}") for file in stores()])
def test_shared_databases_are_read_whole(file: Path) -> None:
    """As many runs, steps, unread messages and ends are read as SQL counts in the file itself."""
    logs = list(load_logs(file))
    address = f"file:{file}?mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:

        def count(query: str, *arguments: Any) -> Any:
            return connection.execute(query, arguments).fetchone()[0]

        assert len(logs) == count("SELECT count(*) FROM workflow_status")
        for log in logs:
            run = log.execution_id
            own = "FROM operation_outputs WHERE workflow_uuid = ? AND function_name"
            others = count(f"SELECT count(*) {own} IN ('DBOS.sleep', 'DBOS.recv', 'DBOS.getResult')", run)
            patches = count(f"SELECT count(*) {own} LIKE 'DBOS.patch-%'", run)
            total = count("SELECT count(*) FROM operation_outputs WHERE workflow_uuid = ?", run)
            assert len(log.state.frames) == total - others - patches
            assert len(log.state.decisions) == patches
            failed = count("SELECT count(*) FROM operation_outputs WHERE workflow_uuid = ? AND error IS NOT NULL", run)
            assert sum(frame.status == "failed" for frame in log.state.frames.values()) == failed
            unread = count("SELECT count(*) FROM notifications WHERE destination_uuid = ? AND NOT consumed", run)
            assert sum(event.payload.get("unread", False) for event in log.state.received) == unread
            status = count("SELECT status FROM workflow_status WHERE workflow_uuid = ?", run)
            ends = {"SUCCESS": "completed", "ERROR": "failed"}
            assert log.state.status == ends.get(status, "suspended")
            record = recorded(log)
            assert record is not None
            assert len(record.operations) == total
            assert "opaque" not in json.dumps([event.payload for event in log])
