"""What a log of DBOS says of the run, put together again for a replay: operations by number, mail, arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_loom.log.event import Log

TIMER = "DBOS.sleep"
WAITS = ("DBOS.recv", "DBOS.getEvent")
PATCH = "DBOS.patch-"


@dataclass
class Record:
    """A run: its operations by number (``name``, ``output`` or ``raised``, ``child``, ``serialization``).

    ``waits_at`` is the operation that is under way and has a timeout, ``mail`` what came and was not read;
    ``children`` is how the workflows that it started stand: ``status`` and ``output`` or ``raised``.
    """

    execution_id: str
    workflow_id: str
    args: list[Any]
    kwargs: dict[str, Any]
    manifest: dict[str, Any]
    operations: dict[int, dict[str, Any]] = field(default_factory=dict)
    mail: list[dict[str, Any]] = field(default_factory=list)
    children: dict[str, dict[str, Any]] = field(default_factory=dict)
    waits_at: int | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What DBOS says of the run beside its operations."""
        found = self.manifest.get("dbos")
        return found if isinstance(found, dict) else {}

    def later(self, number: int) -> list[int]:
        """The recorded operations after ``number``."""
        return [one for one in sorted(self.operations) if one > number]

    def is_timer_of_wait(self, number: int) -> bool:
        """Whether it is the timeout of a receive, which takes the number before it."""
        before = self.operations.get(number - 1)
        is_timer = self.operations[number]["name"] == TIMER
        return is_timer and number > 1 and (before is None or before["name"] in WAITS)

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON data, to cross process borders."""
        return {
            "id": self.execution_id,
            "workflow": self.workflow_id,
            "args": self.args,
            "kwargs": self.kwargs,
            "facts": self.facts,
            "operations": [{"id": number, **operation} for number, operation in sorted(self.operations.items())],
            "mail": self.mail,
            "children": self.children,
        }


def recorded(log: Log) -> Record | None:
    """The record of a run of DBOS; None where its input cannot be told."""
    first = log.events[0].payload
    places, names = arguments(first.get("input"))
    if places is None or names is None:
        return None
    manifest = first.get("manifest")
    found = Record(log.execution_id, log.workflow_id, places, names, manifest if isinstance(manifest, dict) else {})
    for event in log.events[1:]:
        payload = event.payload
        done = payload.get("operation")
        if isinstance(done, dict) and isinstance(done.get("id"), int) and isinstance(done.get("name"), str):
            _add(found, event.event_type, payload, done)
        child = payload.get("child")
        if isinstance(child, dict) and isinstance(payload.get("childExecutionId"), str):
            found.children[payload["childExecutionId"]] = {"name": payload.get("stepId"), **child}
        timer = payload.get("timer")
        if isinstance(timer, dict) and isinstance(timer.get("id"), int):
            found.operations[timer["id"]] = {"name": TIMER, "output": timer.get("wakesAt")}
        if payload.get("unread") is True and payload.get("kind") == "message":
            found.mail.append({name: payload.get(name) for name in ("topic", "message", "serialization")})
    for number in sorted(found.operations):
        if found.is_timer_of_wait(number) and number - 1 not in found.operations:
            found.waits_at = number - 1
    return found


def arguments(value: Any) -> tuple[list[Any] | None, dict[str, Any] | None]:
    """The arguments that an input stands for; None where it is one that could not be read."""
    if value is None:
        return [], {}
    if isinstance(value, dict) and value.keys() == {"args", "kwargs"}:
        return value["args"], value["kwargs"]
    if isinstance(value, dict) and value.get("$via") == "opaque":
        return None, None
    return [value], {}


def _add(found: Record, event_type: str, payload: dict[str, Any], done: dict[str, Any]) -> None:
    operation: dict[str, Any] = {"name": done["name"], "serialization": done.get("serialization")}
    if "child" in done:
        operation["child"] = done["child"]
    if event_type == "STEP_FAILED":
        operation["raised"] = payload.get("raised")
        operation["error"] = payload.get("error")
    elif event_type == "EXECUTION_RESUMED":
        operation["output"] = payload.get("payload")
    elif event_type == "EXECUTION_SUSPENDED":
        operation["output"] = payload.get("wakesAt")
    else:
        operation["output"] = payload.get("output")
    found.operations[done["id"]] = operation
