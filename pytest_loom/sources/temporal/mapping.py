"""A Temporal run as a Loom log: what each history event means in Loom's words.

Steps are activities, local activities, child workflows, Nexus operations, and signals or cancellations sent out; a
timer is a suspension; signals, updates and whatever else came from outside are application events; patches, versions
and side effects are decisions. Workflow tasks are left out: they say when code ran, not what happened. Every event's
``line`` is the Temporal event id.
"""

from __future__ import annotations

from pathlib import PurePath

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.temporal import arrivals, lifecycle, notes, steps
from pytest_loom.sources.temporal.history import ENDS, Run, log_error
from pytest_loom.sources.temporal.protojson import Fields, Malformed
from pytest_loom.sources.temporal.writer import Writer

WAIT_FOR_ANYTHING = "*"
"""What an idle run waits for: a signal, an update or a condition. A history does not say which."""

_HANDLERS = {**lifecycle.HANDLERS, **steps.HANDLERS, **arrivals.HANDLERS, **notes.HANDLERS}

_DROPPED = frozenset(
    {
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "WorkflowTaskTimedOut",
        "ChildWorkflowExecutionStarted",
        "NexusOperationStarted",
    }
)
"""The server's bookkeeping. What a workflow task tells about its worker is in the manifest."""

_TASKS = frozenset(f"WorkflowTask{how}" for how in ("Scheduled", "Started", "Completed", "TimedOut", "Failed"))


def to_log(run: Run, path: str = "") -> Log | LogError:
    """The run as a Log, or what is wrong with it; never raises."""
    started = run.events[0].attributes
    execution_id = ""
    try:
        execution_id = _execution_id(started, path)
        flow = started.named("workflowType")
        writer = Writer(run, LogBuilder(execution_id, flow or "unknown", path=path))
        if not flow:
            writer.notice("flow", "the history does not name its workflow type")
        _write(writer)
    except Malformed as problem:
        return log_error(problem, path, execution_id)
    return writer.builder.log(source="temporal", engine="journal", notices=list(writer.notices.values()))


def _execution_id(started: Fields, path: str) -> str:
    said = started.text("originalExecutionRunId") or started.text("workflowId")
    return said or PurePath(path).name.removesuffix(".gz").removesuffix(".json") or "unknown"


def _write(writer: Writer) -> None:
    task_seen = False
    for event in writer.run.events:
        writer.event = event
        writer.timestamp = event.timestamp or writer.timestamp
        kind = event.kind
        if kind not in _DROPPED:
            try:
                _HANDLERS.get(kind, notes.other)(writer, event.attributes)
            except Malformed as problem:
                problem.event_id = problem.event_id or event.event_id
                raise
        if kind in _TASKS:
            task_seen, writer.news = True, kind != "WorkflowTaskCompleted"
    if writer.event.kind in ENDS:
        return
    if writer.run.partial:
        writer.notice("page", "the file is one page of a longer history: what follows is not in it")
    elif not writer.news:
        _wait(writer, task_seen)


def _wait(writer: Writer, task_seen: bool) -> None:
    """Say that a run with nothing to do waits, where no open step, timer or pause says so already."""
    if writer.steps or writer.timers or writer.paused:
        return
    backoff = writer.run.events[0].attributes.milliseconds("firstWorkflowTaskBackoff")
    if backoff > 0 and not task_seen:
        wait = {"on": "WorkflowTaskScheduled", "kind": "timer", "timeoutMs": backoff}
        writer.add("EXECUTION_SUSPENDED", wait)
    else:
        writer.add("EXECUTION_SUSPENDED", {"on": WAIT_FOR_ANYTHING, "kind": "event"})
