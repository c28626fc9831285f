"""pydantic-graph's persistence of 1.x as a log: a step a node, the state before each, and the node that comes next.

``FileStatePersistence`` writes a list of snapshots. What ``Graph.iter_from_persistence`` goes on with is the first one
whose status is ``created``; a node that was ``running`` when its process died is never picked up again by itself.
"""

from __future__ import annotations

from typing import Any

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.pydantic_ai.documents import Malformed, Part, Record, read_or_error
from pytest_loom.sources.pydantic_ai.messages import UNKNOWN_FLOW

_NOTICE = (
    "a persistence file does not name its graph: it is judged by the only flow there is, or the one it is mapped to"
)


def graph_log(record: Record) -> Log | LogError:
    """The log of a persistence file; never raises."""
    return read_or_error(record, _log)


def _log(record: Record) -> Log:
    builder = LogBuilder(record.execution_id, UNKNOWN_FLOW, path=record.path)
    snapshots = [Part(value, number, "it") for number, value in enumerate(record.value, 1)]
    timestamp: int | str = next((moment for one in snapshots if (moment := one.moment("start_ts", "ts"))), 0)
    frontier: Part | None = None
    last = ""

    def add(event_type: str, payload: dict[str, Any], number: int) -> None:
        builder.add(event_type, payload, timestamp=timestamp, line=number)

    for snapshot in snapshots:
        number = snapshot.number
        timestamp = snapshot.moment("start_ts", "ts") or timestamp
        kind = snapshot.text("kind")
        if number == 1:
            first = snapshot.value.get("state")
            add("EXECUTION_STARTED", {"input": first, "manifest": {"framework": "pydantic_graph"}}, number)
        add("STATE_SNAPSHOT", {"state": snapshot.value.get("state")}, number)
        if kind == "end":
            result = snapshot.value.get("result")
            if not isinstance(result, dict):
                raise Malformed("the end has no result", number)
            add("EXECUTION_COMPLETED", {"output": result.get("data")}, number)
            continue
        if kind != "node":
            raise Malformed(f"its kind is {kind!r}, neither node nor end", number)
        node = Part(snapshot.value.get("node"), number, "its node")
        name = node.text("node_id")
        if not name:
            raise Malformed("its node has no node_id", number)
        given = {key: value for key, value in node.value.items() if key != "node_id"}
        last = snapshot.text("status")
        facts = {"stepId": name, "callId": snapshot.text("id") or f"{name}:{number}"}
        if last == "created" or last == "pending":
            frontier = frontier if frontier is not None and frontier.text("status") == "created" else snapshot
        elif last in ("running", "success", "error"):
            add("STEP_STARTED", facts | {"input": given, "attempt": 1}, number)
            if last == "success":
                add("STEP_COMPLETED", facts | {"attempt": 1}, number)
            elif last == "error":
                error = {"type": "Exception", "message": f"node {name} raised"}
                add("STEP_FAILED", facts | {"error": error, "attempt": 1, "willRetry": False}, number)
        else:
            raise Malformed(f"its status is {last!r}", number)
    if frontier is not None:
        node = Part(frontier.value.get("node"), frontier.number, "its node")
        pending = {
            "callId": frontier.text("id") or f"{node.text('node_id')}:{frontier.number}",
            "node": node.text("node_id"),
            "args": {key: value for key, value in node.value.items() if key != "node_id"},
        }
        wait = {"on": node.text("node_id"), "kind": "breakpoint", "pending": pending}
        add("EXECUTION_SUSPENDED", wait, frontier.number)
    elif last == "error" and snapshots[-1].text("kind") == "node":
        error = {"type": "Exception", "message": "its last node raised"}
        add("EXECUTION_FAILED", {"error": error}, snapshots[-1].number)
    return builder.log(source="pydantic_ai", engine="checkpoint", notices=[_NOTICE])
