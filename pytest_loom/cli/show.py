"""``pytest-loom show LOG``: what happened in a run, how it stood after an event, and the rounds of a step's loop."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from pytest_loom.cli.output import FINDING, OK, Output
from pytest_loom.cli.runs import add_flows, error_facts, facts_of, one_of, runs_of, use_flows
from pytest_loom.cli.timeline import WIDTH, between, duration, rows, shown
from pytest_loom.errors import LogError, LoomError, printable
from pytest_loom.evals.paths import Rules, format_path
from pytest_loom.evals.values import MISSING, short, walk
from pytest_loom.fold import frames_told
from pytest_loom.log.event import Event, Log
from pytest_loom.state import ExecutionState, Frame

_CHANGED = 3
_LISTED = 1_000
"""How many runs of a place are listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("log", metavar="LOG", help="a file of runs; or a folder, a glob or the address of a store")
    parser.add_argument("--run", metavar="ID", help="which run, where there are several: its id, or how it begins")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--at", type=int, metavar="N", help="how the run stood after event N, instead of the timeline")
    what.add_argument(
        "--step", metavar="KEY", help="the rounds of one step: poll for all of them, poll#2 for the second"
    )
    add_flows(parser)


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Show a run. Gives 1 where its log is broken, or one of several; raises LogError for no run."""
    use_flows(arguments)
    runs = runs_of(arguments.log)
    if arguments.run is None and arguments.at is None and arguments.step is None:
        first = list(islice(runs, 2))
        if len(first) > 1:
            return _list(chain(first, runs), out)
        runs = iter(first)
    log = one_of(runs, arguments.log, arguments.run)
    if arguments.at is not None:
        return _at(log, arguments.at, out)
    if arguments.step is not None:
        return _step(log, arguments.step, out)
    return _timeline(log, out)


def _list(runs: Iterator[Log | LogError], out: Output) -> int:
    """Which runs there are."""
    found: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for item in islice(runs, _LISTED):
        if isinstance(item, LogError):
            out.error(item)
            errors.append(error_facts(item))
            continue
        facts = facts_of(item)
        found.append(facts)
        status = facts["status"] or "broken"
        name = printable(item.execution_id, 200)  # the last, since it is what --run is given
        out.line(f"{status:9}  {len(item):>5} events  {printable(item.workflow_id, 22):22}  {name}")
    more = sum(1 for _ in runs)
    if more:
        out.note(f"and {more} more")
    out.note("Several runs: --run ID shows one of them.")
    out.result({"ok": not errors, "schema": 1, "runs": found, "notListed": more, "errors": errors})
    return FINDING if errors else OK


def _timeline(log: Log, out: Output) -> int:
    problem: LogError | None = None
    frames: Mapping[int, Frame] = {}
    try:
        frames = frames_told(log)
    except LogError as error:
        problem = error
    _head(log, out)
    if not out.as_json:
        for text, style in rows(log, frames):
            out.line(text, style)
    facts = facts_of(log)
    data: dict[str, Any] = {"ok": facts["status"] is not None, "schema": 1, "run": facts}
    if out.as_json:
        data["timeline"] = [_facts(event, frames) for event in log.events]
        data["errors"] = [] if problem is None else [error_facts(problem)]
    out.result(data)
    for notice in log.notices:
        out.note(f"note: {notice}")
    if problem is not None and data["ok"]:
        out.note("note: the rounds of steps are not told apart, since old events are not raised to today's version:")
        out.note(f"{problem.what}. What does that may be in the module of today's flows: --flows MODULE:ATTR")
    elif problem is not None:
        out.error(problem)
    return OK if data["ok"] else FINDING


def _head(log: Log, out: Output, how: str = "") -> None:
    facts = facts_of(log)
    name = f"{printable(log.workflow_id, 30)} {printable(log.execution_id, 40)}"
    out.line(f"{name}: {how or facts['status'] or 'its log is broken'}", "bold")
    took = between(log.events[0], log.events[-1])
    out.line(
        f"{len(log)} events{f' in {took}' if took else ''}, {log.engine}{f', {log.path}' if log.path else ''}", "dim"
    )


def _facts(event: Event, frames: Mapping[int, Frame]) -> dict[str, Any]:
    """An event, for programs. ``payload`` is None where it cannot be read."""
    try:
        payload: Any = event.payload
    except LogError:
        payload = None
    frame = frames.get(event.sequence)
    return {
        "sequence": event.sequence,
        "timestamp": event.timestamp,
        "eventType": event.event_type,
        "step": None if frame is None else frame.key,
        "branch": event.branch,
        "namespace": event.namespace,
        "line": event.line or None,
        "payload": payload,
    }


def _at(log: Log, number: int, out: Output) -> int:
    """How a run stood after an event."""
    before = [event for event in log.events if event.sequence <= number]
    if not before or number > log.events[-1].sequence:
        raise LoomError(
            f"there is no event {number}", path=log.path, execution_id=log.execution_id,
            hint=f"The run has events 1 to {log.events[-1].sequence}.",
        )  # fmt: skip
    cut = Log(before, path=log.path, source=log.source, engine=log.engine, live=log.live)
    state = cut.state
    _head(cut, out, f"{state.status} after event {number} of {log.events[-1].sequence}")
    for line in _state_lines(state):
        out.line(line)
    out.result({"ok": True, "schema": 1, "run": facts_of(log), "at": number, "state": state.facts()})
    return OK


def _state_lines(state: ExecutionState) -> Iterator[str]:
    for name, value in state.variables.items():
        yield _row(name.removeprefix("_"), value)
    for name, value in (("state", state.state), ("plan", state.plan)):
        if value is not None:
            yield _row(name, value)
    if state.frames:
        yield "steps"
        width = min(max(len(printable(key, 30)) for key in state.frames), 30)
        for key, frame in state.frames.items():
            yield _row(f"  {printable(key, 30):{width}}  {_standing(frame)}", _came_to(frame))
    if state.calls:
        yield "calls"
        for call in state.calls:
            what = call.output if call.status == "completed" else call.error if call.status == "failed" else call.args
            yield _row(f"  {call.kind} {printable(call.name, 30)} {call.status}", what)
    if state.suspensions:
        yield "waits for"
        for wait in state.suspensions:
            limit = f", within {duration(wait.timeout_ms)}" if wait.timeout_ms is not None else ""
            on = printable(" or ".join(wait.events), 30)
            yield _row(f"  {on} ({wait.kind}{limit}), since event {wait.sequence}", wait.pending)
    if state.decisions:
        yield "decided"
        for key, value in state.decisions.items():
            yield _row(f"  {printable(key, 30)}", value)
    if state.received:
        yield "received"
        for event in state.received:
            yield _row(f"  {printable(event.event_type, 30)}", event.payload)


def _row(name: str, value: Any) -> str:
    room = WIDTH - max(len(name), 10) - 2
    return f"{name:10}  {shown(value, max(room, 8))}" if value is not None else name


def _standing(frame: Frame) -> str:
    tries = f", {frame.attempts} attempts" if frame.attempts > 1 else ""
    retry = ", to be tried again" if frame.status == "failed" and frame.will_retry else ""
    return f"{frame.status}{tries}{retry}"


def _came_to(frame: Frame) -> Any:
    return frame.output if frame.status == "completed" else frame.error if frame.status == "failed" else frame.input


def _step(log: Log, key: str, out: Output) -> int:
    """The rounds of one step, or one of them."""
    frames = frames_told(log)
    rounds: dict[str, list[Event]] = {}
    for event in log.events:
        frame = frames.get(event.sequence)
        if frame is not None and key in (frame.key, frame.step_id):
            rounds.setdefault(frame.key, []).append(event)
    if not rounds:
        steps = dict.fromkeys(printable(frame.step_id, 40) for frame in frames.values())
        names = ", ".join(islice(steps, 10)) or "none"
        raise LoomError(
            f"the run has no step {printable(key)}", path=log.path, execution_id=log.execution_id,
            hint=f"Its steps: {names}.",
        )  # fmt: skip
    _head(log, out)
    before: Frame | None = None
    found = []
    for name, events in rounds.items():
        frame = log.state.frames[name]
        found.append(_round_facts(frame, events))
        if not out.as_json:
            _show_round(frame, before, events, out)
        before = frame
    out.result({"ok": True, "schema": 1, "run": facts_of(log), "step": key, "rounds": found})
    return OK


def _show_round(frame: Frame, before: Frame | None, events: list[Event], out: Output) -> None:
    first, last = events[0], events[-1]
    where = f"event {first.sequence}" if first is last else f"events {first.sequence} to {last.sequence}"
    took = between(first, last)
    chunks = f", {len(frame.chunk_events)} pieces" if frame.chunk_events else ""
    told = f"{printable(frame.key, 40)}  {_standing(frame)}{chunks}  {where}{f', {took}' if took else ''}"
    out.line(told, "red" if frame.status == "failed" else "bold")
    for name in ("input", "output", "error"):
        value = getattr(frame, name)
        if value is None:
            continue
        was = None if before is None else getattr(before, name)
        changes = list(islice(walk(was, value, Rules(())), _CHANGED + 1)) if was is not None else []
        if was is not None and not changes:
            out.line(f"  {name:6}  as the round before")
        elif changes and len(changes) <= _CHANGED and all(path for path, _, _ in changes):
            out.lines(_change(name, *change) for change in changes)
        else:
            out.line(f"  {name:6}  {short(value, WIDTH - 10)}")


def _change(name: str, path: Any, was: Any, now: Any) -> str:
    place = printable(format_path(path), 30)
    room = (WIDTH - 16 - len(place)) // 2
    one, other = ("absent" if value is MISSING else short(value, room) for value in (was, now))
    return f"  {name:6}  {place}: {one} -> {other}"


def _round_facts(frame: Frame, events: list[Event]) -> dict[str, Any]:
    return {
        "key": frame.key,
        "status": frame.status,
        "attempts": frame.attempts,
        "events": [event.sequence for event in events],
        "input": frame.input,
        "output": frame.output,
        "error": frame.error,
        "chunks": frame.chunks,
    }
