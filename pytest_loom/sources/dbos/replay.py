"""Replay of a recorded run of DBOS: today's workflow over the recorded answers, by the DBOS that is installed.

No step is run; where today's code asks for another operation than the recorded one, that is the divergence.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_loom.errors import ReplayDivergence, Unsupported, printable
from pytest_loom.log.event import Event, Log, LogBuilder
from pytest_loom.sources.dbos.recorded import Record, recorded
from pytest_loom.sources.dbos.shadow import Shadow

_ENDS = ("EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED")


def replayed_run(log: Log, flow: Any) -> Log:
    """The candidate: what was recorded, with the end to which today's workflow comes with it.

    Raises ReplayDivergence where it does something else, Unsupported where it cannot be told what it does.
    """
    record = recorded(log)
    if record is None:
        raise Unsupported("its arguments cannot be read", path=log.path, execution_id=log.execution_id)
    with _put_back():
        shadow = Shadow(flow)
        try:
            said = shadow.run({"record": record.as_dict()})
        finally:
            shadow.close()
    return _candidate(log, record, said)


def _candidate(log: Log, record: Record, said: dict[str, Any]) -> Log:
    outcome, end = said["outcome"], log.events[-1].event_type
    is_over = end in _ENDS
    left = [number for number in record.later(said["last"]) if not record.is_timer_of_wait(number)]
    if outcome == "untold":
        what = "today's code looks into a value that the record does not hold as plain data"
        raise Unsupported(what, path=log.path, execution_id=log.execution_id)
    if outcome == "differs":
        raise _diverged(log, said, f"asks for {printable(said['name'])} as operation {said['id']}", said["recorded"])
    if outcome in ("raises", "refused") and (left or end != "EXECUTION_FAILED"):
        raise _diverged(log, said, f"raises {printable(str(said['error']), 500)}", "")
    if outcome in ("steps", "waits", "timer") and is_over:
        raise _diverged(log, said, f"goes on with {printable(said['name'])}", "")
    if outcome == "ends" and (left or not is_over):
        raise _diverged(log, said, "comes to its end", record.operations[left[0]]["name"] if left else "")
    builder = LogBuilder(log.execution_id, log.workflow_id)
    for event in log.events[:-1] if is_over else log.events:
        _add(builder, event, event.payload)
    if outcome == "ends":
        builder.add("EXECUTION_COMPLETED", {"output": said["output"]}, timestamp=log.events[-1].timestamp)
    elif is_over:
        kind, _, message = str(said["error"]).partition(": ")
        error = {"type": kind, "message": message}
        builder.add("EXECUTION_FAILED", {"error": error}, timestamp=log.events[-1].timestamp)
    return builder.log(source=log.source, engine=log.engine)


def _add(builder: LogBuilder, event: Event, payload: dict[str, Any]) -> None:
    builder.add(event.event_type, payload, timestamp=event.timestamp, branch=event.branch, namespace=event.namespace)


def _diverged(log: Log, said: dict[str, Any], what: str, then: str) -> ReplayDivergence:
    line = f" ({said['line'].replace(chr(92), '/').rpartition('/')[2]})" if said.get("line") else ""
    instead = f"; the record has {printable(then)}" if then else "; the recorded run did not"
    return ReplayDivergence(
        f"today's code {what}{printable(line)}{instead}",
        path=log.path,
        execution_id=log.execution_id,
        step=then,
        hint="Record the run anew where the change is meant; finish waiting runs on the old code.",
    )


@contextmanager
def _put_back() -> Iterator[None]:
    """Leave the DBOS of this process as it was."""
    inner: Any = importlib.import_module("dbos._dbos")
    params: Any = importlib.import_module("dbos._utils").GlobalParams
    registry = inner._get_or_create_dbos_registry()
    before = inner._dbos_global_instance, registry.dbos, registry.pollers
    names = [name for name in ("app_version", "executor_id", "app_name") if hasattr(params, name)]
    values = [getattr(params, name) for name in names]
    try:
        yield
    finally:
        inner._dbos_global_instance, registry.dbos, registry.pollers = before
        for name, value in zip(names, values, strict=True):
            setattr(params, name, value)
