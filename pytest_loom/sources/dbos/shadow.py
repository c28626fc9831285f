"""Today's workflow on a recorded run, by the rules of the DBOS that is installed: in a process of its own.

DBOS itself runs the workflow, on a system database in memory that holds what was recorded; so which number an operation
takes, what its name has to be, what a patch does and how a child's result comes is decided by DBOS. The first operation
that is not in the record ends the run: no step, no transaction and no child workflow is ever run, and nothing waits.

Only three things are put in place of DBOS's own: the look-up of what is recorded under a number, which ends the run
where there is nothing; receiving, which waits for nothing; and waiting for a child. Where the record has later
operations still, such an operation is answered by a value that nobody may look into, to see whether they fit.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import importlib.metadata
import inspect
import itertools
import json
import pickle
import sqlite3
from collections.abc import Iterator
from typing import Any

from pytest_loom.sources.dbos.mapping import NULL_TOPIC, PORTABLE
from pytest_loom.sources.dbos.pickles import read_pickle
from pytest_loom.sources.dbos.recorded import PATCH, TIMER
from pytest_loom.sources.dbos.revive import Unknown, Untold, revived
from pytest_loom.sources.dbos.version import computed
from pytest_loom.sources.dbos.watch import Stop, Watch

_numbers = itertools.count(1)


class Shadow:
    """Holds the DBOS of the process; ``run`` replays one run on the flow."""

    def __init__(self, flow: Any) -> None:
        self.flow = flow
        self.url = f"file:/loom{next(_numbers)}?vfs=memdb"
        self.dbos = _launched(f"sqlite:///{self.url}&uri=true")
        self.loop = asyncio.new_event_loop()
        self.store = sqlite3.connect(self.url, uri=True, check_same_thread=False)

    def close(self) -> None:
        """End it, where the process lives on."""
        self.store.close()
        self.loop.close()
        _dbos("").DBOS.destroy()

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """What today's workflow does on the record of ``request`` (``Record.as_dict``), as JSON data.

        Without a record: the versions that DBOS may compute for an application called ``name``.
        """
        if "record" not in request:
            return {"computed": sorted(computed(self.flow, request["name"]))}
        record = request["record"]
        self._fill(record)
        watch = Watch(self.dbos._sys_db, record, _body(self.flow))
        with watch.installed(), _transactions(watch):
            try:
                output = self._go(record, watch)
            except Stop:
                pass
            except Untold:
                watch.end("untold")
            except BaseException as problem:
                watch.end(
                    "raises", error=f"{type(problem).__name__}: {problem}"[:1000], line=_raised_at(problem, watch)
                )
            else:
                watch.end("ends", output=read_pickle(_pickled(output)))
        return watch.answer

    def _go(self, record: dict[str, Any], watch: Watch) -> Any:
        function = self.dbos._registry.workflow_info_map.get(record["workflow"], self.flow)
        try:
            args, kwargs = _taken(record, function)
        except Exception as problem:
            watch.end("refused", error=f"{type(problem).__name__}: {problem}"[:1000])
            return None
        with _dbos("").SetWorkflowID(record["id"]), _user(record["facts"]):
            made = function(*self._instance(record["facts"], function), *args, **kwargs)
            if inspect.iscoroutine(made):
                watch.coroutine = made
                made = self._await(made)
            return made

    def _await(self, coroutine: Any) -> Any:
        """Run it on the loop of all runs: one that is closed takes DBOS's threads with it."""
        try:
            return self.loop.run_until_complete(_awaited(coroutine))
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.wait(left, timeout=1))

    def _instance(self, facts: dict[str, Any], function: Any) -> list[Any]:
        """What DBOS puts before the arguments: the configured instance or the class."""
        registry = self.dbos._registry
        if facts.get("instance") is not None:
            return [registry.instance_info_map[f"{facts['className']}/{facts['instance']}"]]
        if facts.get("className") is not None:
            info = _dbos("_registrations").get_func_info(function)
            if info is None or info.func_type.name != "Static":
                return [registry.class_info_map[facts["className"]]]
        return []

    def _fill(self, record: dict[str, Any]) -> None:
        """Put the record into the database."""
        tables = ("operation_outputs", "notifications", "workflow_status", "workflow_input", "workflow_output")
        for table in tables:
            if self._columns(table):
                self.store.execute(f"DELETE FROM {table}")
        last = max((one["id"] for one in record["operations"]), default=0)
        for one in record["operations"]:
            row = {"workflow_uuid": record["id"], "function_id": one["id"], "function_name": one["name"]}
            row["child_workflow_id"] = one.get("child")
            if "raised" in one:
                row["error"], row["serialization"] = _error(one)
            elif not one["name"].startswith(PATCH) and not (one.get("child") and one["name"] != "DBOS.getResult"):
                output = one.get("output")
                if one["name"] == TIMER and one["id"] < last:
                    output = 1.0  # it is over: what comes after it is recorded
                row["output"], row["serialization"] = _value(output, one.get("serialization"))
            self._insert("operation_outputs", row)
        for number, letter in enumerate(record["mail"]):
            text, serialization = _value(letter["message"], letter["serialization"])
            row = {"message_uuid": f"loom-{number}", "destination_uuid": record["id"], "message": text}
            row |= {"topic": NULL_TOPIC if letter["topic"] is None else letter["topic"], "serialization": serialization}
            self._insert("notifications", row | {"created_at_epoch_ms": number + 1})
        for name, child in record["children"].items():
            row = {"workflow_uuid": name, "status": child["status"], "name": child["name"], "created_at": 1}
            row |= {"updated_at": 1, "executor_id": "another", "recovery_attempts": 1}
            outcome: dict[str, Any] = {}
            if "raised" in child:
                outcome["error"], row["serialization"] = _error(child)
            elif "output" in child:
                outcome["output"], row["serialization"] = _value(child["output"], None)
            self._insert("workflow_status", row | outcome)
            if outcome and self._columns("workflow_output"):
                self._insert("workflow_output", {"workflow_uuid": name, **outcome})
        self.store.commit()

    def _columns(self, table: str) -> set[str]:
        return {row[1] for row in self.store.execute(f"PRAGMA table_info({table})")}

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        known = self._columns(table)
        row = {name: value for name, value in row.items() if name in known and value is not None}
        marks = ", ".join("?" * len(row))
        self.store.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def _launched(url: str) -> Any:
    """A DBOS of our own: on a database in memory, with none of its threads running."""
    package, inner = _dbos(""), _dbos("_dbos")
    own: dict[str, Any] = {
        "name": "pytest-loom",
        "system_database_url": url,
        "application_version": "pytest-loom",
        "executor_id": "local",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
    if importlib.metadata.version("dbos").startswith("2."):
        own["application_database_url"] = url.replace("/loom", "/loom-application")
        own["enable_patching"] = True
    inner._dbos_global_instance = None
    inner._get_or_create_dbos_registry().pollers = []
    threads = inner.threading
    inner.threading = _NoThreads(threads)
    try:
        made: Any = package.DBOS(config=own)
        package.DBOS.launch()
    finally:
        inner.threading = threads
    return made


def _dbos(name: str) -> Any:
    """A module of the installed DBOS."""
    return importlib.import_module(f"dbos.{name}" if name else "dbos")


@contextlib.contextmanager
def _transactions(watch: Watch) -> Iterator[None]:
    """Until the block ends, no transaction of DBOS 2.x is run: each asks the watch."""
    kind = getattr(_dbos("_core"), "ApplicationDatabase", None)
    if kind is None:
        yield
        return
    original = vars(kind)["check_transaction_execution"]

    def check(session: Any, workflow_id: str, function_id: int, function_name: str) -> Any:
        return watch.transaction(workflow_id, function_id, function_name)

    kind.check_transaction_execution = staticmethod(check)
    try:
        yield
    finally:
        kind.check_transaction_execution = original


def _taken(record: dict[str, Any], function: Any) -> tuple[Any, dict[str, Any]]:
    """The recorded arguments, as DBOS hands them over: checked where the workflow asks for that."""
    args, kwargs = tuple(revived(record["args"])), revived(record["kwargs"])
    validate = getattr(_dbos("_registrations").get_func_info(function), "validate_args", None)
    if validate is not None:
        args, kwargs = validate(args, kwargs)
    elif record["facts"].get("serialization") == PORTABLE:
        coerce = getattr(_dbos("_core"), "coerce_portable_args_to_hints", None)
        if coerce is not None:
            inputs = coerce(function, {"args": args, "kwargs": kwargs})
            args, kwargs = inputs["args"], inputs["kwargs"]
    return args, kwargs


class _NoThreads:
    """``threading`` for DBOS's launch: whatever runs beside workflows is not started."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    class Thread:
        """A thread that never runs."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.daemon = True

        def start(self) -> None:
            """Not done."""

        def is_alive(self) -> bool:
            """It never is."""
            return False

        def join(self, timeout: float | None = None) -> None:
            """There is nothing to wait for."""


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


@contextlib.contextmanager
def _user(facts: dict[str, Any]) -> Iterator[None]:
    if facts.get("user") is None:
        yield
        return
    roles = json.loads(facts["roles"]) if facts.get("roles") else None
    with _dbos("_context").DBOSContextSetAuth(facts["user"], roles):
        yield


def _value(value: Any, serialization: str | None) -> tuple[str, str]:
    """A recorded value as DBOS stores it, with the name of the way."""
    if serialization == PORTABLE:
        return json.dumps(value), PORTABLE
    return _pickled(revived(value)), "py_pickle"


def _error(operation: dict[str, Any]) -> tuple[str, str]:
    if operation.get("serialization") == PORTABLE:
        return json.dumps(operation["raised"]), PORTABLE
    problem = revived(operation["raised"])
    if not isinstance(problem, BaseException):
        problem = Unknowable()
    return _pickled(problem), "py_pickle"


class Unknowable(Exception):
    """Stands for a recorded exception of a class that is not to be had."""


def _pickled(value: Any) -> str:
    try:
        data = pickle.dumps(value)
    except Exception:
        data = pickle.dumps(Unknown())
    return base64.b64encode(data).decode()


def _body(flow: Any) -> Any:
    return getattr(inspect.unwrap(flow), "__code__", None)


def _raised_at(problem: BaseException, watch: Watch) -> str:
    """The workflow's line that an exception passed."""
    trace = problem.__traceback__
    found = ""
    while trace is not None:
        if trace.tb_frame.f_code is watch.body:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
