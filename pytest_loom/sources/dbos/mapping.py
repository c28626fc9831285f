"""A DBOS workflow's rows as a log: what it did by operation, what it waits for, what came for it.

DBOS numbers a workflow's operations as its code asks for them. Each event that ends one has
``operation: {"id", "name", "serialization"}``, and a wait has ``timer: {"id", "wakesAt"}``: from these the record can
be put together again (``recorded.py``). A receive that waits has no row of its own yet, only that of its timeout: its
topic is nowhere, so its wait is on ``*``.
"""

from __future__ import annotations

import json
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import MAX_DEPTH, Log, LogBuilder, too_deep
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.sources.dbos.pickles import opaque, read_pickle, typed
from pytest_loom.sources.dbos.tables import OVER, Row, Rows

NULL_TOPIC = "__null__topic__"
UNNAMED = "unknown"
PORTABLE, PICKLE = "portable_json", "py_pickle"
_MAX_JSON = 64 * 1024 * 1024
_WAITS = {"DBOS.recv": "event", "DBOS.getEvent": "event"}
_PATCH = "DBOS.patch-"


def to_log(rows: Rows, path: str) -> Log | LogError:
    """One workflow as a log; what is wrong with it as a LogError."""
    status = rows.status
    execution_id = status["workflow_uuid"]
    if not isinstance(execution_id, str) or not execution_id:
        return LogError("a row of workflow_status has no workflow id", path=path)
    try:
        return _Writer(rows, path).log()
    except LogError as error:
        error.path, error.execution_id = error.path or path, error.execution_id or execution_id
        return error


def decoded(text: Any, serialization: Any) -> Any:
    """A stored value as JSON data; what is neither JSON nor a pickle in base64 is opaque. Never raises."""
    if text is None:
        return None
    if not isinstance(text, str):
        return typed("value", "text", str(text))
    if serialization in (None, "", PICKLE):
        return read_pickle(text)
    try:
        if len(text) > _MAX_JSON:
            raise ValueError("too long")
        value = json.loads(text, parse_constant=lambda name: typed("builtins.float", "text", name))
    except (ValueError, RecursionError):
        return opaque(str(serialization), text, "it is no JSON")
    if too_deep(value, MAX_DEPTH // 2):
        return opaque(str(serialization), text, "it is nested too deep")
    return value


def error_of(text: Any, serialization: Any) -> dict[str, Any]:
    """A stored exception as ``{"type", "message"}``, with ``value``, what it was stored as."""
    value = decoded(text, serialization)
    kind, message = "Exception", ""
    if isinstance(value, dict) and value.keys() >= {"$type", "$value"}:
        kind = str(value["$type"]).removeprefix("builtins.")
        content = value["$value"] if isinstance(value["$value"], dict) else {}
        arguments = content.get("args") if value["$via"] == "pickle" else None
        message = ", ".join(map(str, arguments)) if isinstance(arguments, list) else str(content.get("reason", ""))
    elif isinstance(value, dict):  # a portable one
        kind, message = str(value.get("name", kind)), str(value.get("message", ""))
    elif isinstance(value, str):
        message = value
    return {"type": kind, "message": message, "value": value}


def arguments_of(status: Row) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments that a workflow was started with; None where they cannot be told."""
    value = decoded(status["inputs"], status["serialization"])
    if not isinstance(value, dict):
        return None
    places, names = value.get("args", value.get("positionalArgs")), value.get("kwargs", value.get("namedArgs"))
    if isinstance(places, dict) and places.get("$type") == "builtins.tuple":
        places = places["$value"]
    if places is None and names is None:
        return None
    places, names = [] if places is None else places, {} if names is None else names
    return (places, names) if isinstance(places, list) and isinstance(names, dict) else None


def topic_of(row: Row) -> str | None:
    """The topic of a message; None for the one without a name."""
    return None if row["topic"] in (None, NULL_TOPIC) else str(row["topic"])


class _Writer:
    """One workflow on its way to a log."""

    def __init__(self, rows: Rows, path: str) -> None:
        self.rows = rows
        self.status = rows.status
        name = self.status["name"]
        self.builder = LogBuilder(self.status["workflow_uuid"], name if name and isinstance(name, str) else UNNAMED)
        self.builder.path = path
        self.time = _time(self.status["created_at"], 0)
        self.operations = {self._number(row): row for row in rows.operations}
        self.over = self.status["status"] in OVER
        self.read: set[Any] = set()
        self.notices: list[str] = []

    def _number(self, row: Row) -> int:
        number = row["function_id"]
        if not isinstance(number, int) or isinstance(number, bool):
            raise LogError(f"an operation of it has the number {printable(str(number))!r}")
        return number

    def log(self) -> Log:
        """The whole log. Raises LogError."""
        self._start()
        for number in sorted({*self.operations, *self._waiting()}):
            row = self.operations.get(number)
            if row is None:
                self._wait(number)
            elif not self._is_timer_of_wait(number):
                self._operation(number, row)
        for row in self.rows.notifications:
            if row["message_uuid"] not in self.read and not row["consumed"]:
                self._message(row)
        self._end()
        return self.builder.log(source="dbos", engine="journal", live=True, notices=self.notices)

    def add(self, event_type: str, payload: dict[str, Any], when: Any = None, line: int = 0) -> None:
        """Append an event; without a time of its own it has that of the one before."""
        self.time = _time(when, self.time)
        self.builder.add(event_type, payload, timestamp=self.time, line=line)

    # The parts -------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        status = self.status
        given = arguments_of(status)
        if given is None:
            value = decoded(status["inputs"], status["serialization"])
        elif len(given[0]) == 1 and not given[1] and not _is_several(given[0][0]):
            value = given[0][0]
        elif given[0] or given[1]:
            value = {"args": given[0], "kwargs": given[1]}
        else:
            value = None
        self.add("EXECUTION_STARTED", {"input": value, "manifest": self._manifest()}, status["created_at"])
        if status["forked_from"]:
            created = _time(status["created_at"], 0)
            copied = [row for row in self.rows.operations if 0 < _time(row["completed_at_epoch_ms"], 0) <= created]
            parent = {"parentExecutionId": str(status["forked_from"]), "atSequence": len(copied) + 1}
            self.add("EXECUTION_FORKED", parent)

    def _manifest(self) -> dict[str, Any]:
        status = self.status
        facts = {
            "status": status["status"],
            "migration": self.rows.migration,
            "applicationName": status["application_name"],
            "executor": status["executor_id"],
            "recoveryAttempts": status["recovery_attempts"],
            "queue": status["queue_name"],
            "className": status["class_name"],
            "instance": status["config_name"],
            "parent": status["parent_workflow_id"],
            "forkedFrom": status["forked_from"],
            "serialization": status["serialization"],
            "deadline": status["workflow_deadline_epoch_ms"],
            "user": status["authenticated_user"],
            "roles": status["authenticated_roles"],
        }
        told = {name: value for name, value in facts.items() if value not in (None, "")}
        version = status["application_version"]
        return {"framework": "dbos", "dbos": told} | ({"flowVersion": str(version)} if version else {})

    def _child(self, name: str) -> dict[str, Any]:
        """How a child workflow stands: DBOS looks there when the parent asks for its result, again on a replay."""
        row = self.rows.children.get(name)
        if row is None:
            return {}
        outcome: dict[str, Any] = {"status": row["status"]}
        if row["error"] is not None:
            outcome["raised"] = decoded(row["error"], row["serialization"])
        elif row["status"] == "SUCCESS":
            outcome["output"] = decoded(row["output"], row["serialization"])
        return {"child": outcome}

    def _waiting(self) -> list[int]:
        """The operations that are under way and have a timeout, which is recorded under the next number."""
        if self.over or not self.operations:
            return []
        return [
            number - 1
            for number, row in self.operations.items()
            if row["function_name"] == "DBOS.sleep" and number > 1 and number - 1 not in self.operations
        ]

    def _is_timer_of_wait(self, number: int) -> bool:
        """Whether a sleep is the timeout of a receive, which takes the number before it."""
        if self.operations[number]["function_name"] != "DBOS.sleep":
            return False
        before = self.operations.get(number - 1)
        return (before is None and number > 1) or (before is not None and before["function_name"] in _WAITS)

    def _wait(self, number: int) -> None:
        timer = self._timer(number + 1)
        row = self.operations[number + 1]
        wait = {"on": "*", "kind": "event", "correlationKey": str(number), **self._timeout(row)}
        self.add("EXECUTION_SUSPENDED", wait | timer, row["started_at_epoch_ms"], number)

    def _timer(self, number: int) -> dict[str, Any]:
        row = self.operations.get(number)
        if row is None or row["function_name"] != "DBOS.sleep":
            return {}
        return {"timer": {"id": number, "wakesAt": decoded(row["output"], row["serialization"])}}

    def _timeout(self, row: Row | None) -> dict[str, Any]:
        wakes = None if row is None else decoded(row["output"], row["serialization"])
        if row is None or not isinstance(wakes, (int, float)):
            return {}
        started = row["started_at_epoch_ms"] or self.status["created_at"]
        return {"timeoutMs": max(0, int(wakes * 1000) - _time(started, 0))}

    def _operation(self, number: int, row: Row) -> None:
        name = str(row["function_name"] or "")
        done = {"id": number, "name": name}
        if row["serialization"]:
            done["serialization"] = str(row["serialization"])
        if name.startswith(_PATCH):
            self.add(
                "DECISION_RECORDED",
                {"key": name, "value": True, "kind": "patch", "operation": done},
                row["started_at_epoch_ms"],
                number,
            )
        elif name == "DBOS.sleep":
            self._sleep(number, row, done)
        elif name in _WAITS:
            self._received(number, row, done)
        else:
            self._step(number, row, done)

    def _sleep(self, number: int, row: Row, done: dict[str, Any]) -> None:
        key = {"correlationKey": str(number)}
        wakes = decoded(row["output"], row["serialization"])
        wait = {"on": "TimerFired", "kind": "timer", **key, **self._timeout(row), "operation": done, "wakesAt": wakes}
        self.add("EXECUTION_SUSPENDED", wait, row["started_at_epoch_ms"], number)
        if self.over or number < max(self.operations):
            self.add("TimerFired", key, wakes * 1000 if isinstance(wakes, (int, float)) else None, number)
            self.add("EXECUTION_RESUMED", {"eventType": "TimerFired", **key}, None, number)

    def _received(self, number: int, row: Row, done: dict[str, Any]) -> None:
        """A receive, or a look at another workflow's event, that is over."""
        message = next((one for one in self.rows.notifications if one["consumed_by_function_id"] == number), None)
        if row["function_name"] != "DBOS.recv":
            message = None
        topic = None if message is None else topic_of(message)
        name = str(done["name"]) if message is None else event_name(topic)
        key = {"correlationKey": str(number)}
        timer = self._timer(number + 1)
        timeout = self._timeout(self.operations.get(number + 1)) if timer else {}
        self.add(
            "EXECUTION_SUSPENDED",
            {"on": name, "kind": "event", **key, **timeout, **timer},
            row["started_at_epoch_ms"],
            number,
        )
        value = decoded(row["output"], row["serialization"])
        ended = {"payload": value, "operation": done, **key}
        if message is not None:
            self._message(message)
        elif value is not None:
            self.add(name, {"kind": "message", "message": value}, row["completed_at_epoch_ms"], number)
        kind = "TIMEOUT" if message is None and value is None else name
        self.add("EXECUTION_RESUMED", {"eventType": kind, **ended}, row["completed_at_epoch_ms"], number)

    def _message(self, row: Row) -> None:
        self.read.add(row["message_uuid"])
        topic = topic_of(row)
        facts = {
            "kind": "message",
            "topic": topic,
            "message": decoded(row["message"], row["serialization"]),
            "messageId": str(row["message_uuid"]),
        }
        if not row["consumed"]:
            facts["unread"] = True
            if row["serialization"]:
                facts["serialization"] = str(row["serialization"])
        self.add(event_name(topic), facts, row["created_at_epoch_ms"])

    def _step(self, number: int, row: Row, done: dict[str, Any]) -> None:
        """A step, a child workflow, or one of DBOS's own operations."""
        name, child = str(done["name"]), row["child_workflow_id"]
        started = {"stepId": name or UNNAMED, "callId": str(number), "kind": "step", **self._facts(number, name)}
        outcome: dict[str, Any] = {"stepId": name or UNNAMED, "callId": str(number), "operation": done}
        if child:
            done["child"] = str(child)
        if child and name == "DBOS.getResult":
            begun = next(
                (
                    (one, other)
                    for one, other in self.operations.items()
                    if other["child_workflow_id"] == child and other["function_name"] != name and one < number
                ),
                None,
            )
            taken = [one for one, other in self.operations.items() if _is_result(other, child) and one < number]
            if begun is not None and not taken:  # it ends the step that the child's start began
                outcome |= {"stepId": str(begun[1]["function_name"]) or UNNAMED, "callId": str(begun[0])}
                started = {}
        elif child and row["error"] is None:
            started |= {"kind": "childWorkflow", "childExecutionId": str(child), "operation": done}
            started |= self._child(str(child))
            self.add("STEP_STARTED", started, row["started_at_epoch_ms"], number)
            return
        if started:
            self.add("STEP_STARTED", started, row["started_at_epoch_ms"], number)
        if row["error"] is not None:
            error = error_of(row["error"], row["serialization"])
            outcome |= {"error": {name: error[name] for name in ("type", "message")}, "raised": error["value"]}
            self.add("STEP_FAILED", outcome | {"willRetry": False}, row["completed_at_epoch_ms"], number)
        else:
            outcome |= {"output": decoded(row["output"], row["serialization"])}
            self.add("STEP_COMPLETED", outcome, row["completed_at_epoch_ms"], number)

    def _facts(self, number: int, name: str) -> dict[str, Any]:
        """What is recorded of an operation's input: only that of events and streams is."""
        table = {"DBOS.setEvent": self.rows.events}.get(name, self.rows.streams if "Stream" in name else [])
        row = next((one for one in table if one["function_id"] == number), None)
        if row is None:
            return {}
        return {"input": {"key": row["key"], "value": decoded(row["value"], row["serialization"])}}

    def _end(self) -> None:
        status, serialization = self.status["status"], self.status["serialization"]
        when = self.status["completed_at"] or self.status["updated_at"]
        if status == "SUCCESS":
            self.add("EXECUTION_COMPLETED", {"output": decoded(self.status["output"], serialization)}, when)
        elif status == "ERROR":
            error = error_of(self.status["error"], serialization)
            self.add("EXECUTION_FAILED", {"error": {name: error[name] for name in ("type", "message")}}, when)
        elif status == "CANCELLED":
            self.add("EXECUTION_CANCELLED", {"reason": "cancelled"}, when)
        elif status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            tried = self.status["recovery_attempts"]
            error = {"type": "MaxRecoveryAttemptsExceeded", "message": f"{tried} attempts to recover it"}
            self.add("EXECUTION_FAILED", {"error": error}, when)


def event_name(topic: str | None) -> str:
    """The application event of a message: it can neither be empty nor forge a kernel event."""
    if not topic:
        return "message"
    return f"message:{topic}" if is_kernel_type(topic) else topic


def _is_several(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"args", "kwargs"}


def _is_result(row: Row, child: Any) -> bool:
    return bool(row["function_name"] == "DBOS.getResult" and row["child_workflow_id"] == child)


def _time(value: Any, otherwise: int) -> int:
    """Whole milliseconds since the epoch."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1 << 53:
        return otherwise
    return int(value)
