"""``record``, ``replay``, ``resume`` and their async forms: running flows with a log at hand (DESIGN section 6)."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec

from pytest_loom.errors import (
    FlowError,
    LiveCallError,
    LoomError,
    RecordingError,
    ReplayDivergence,
    printable,
)
from pytest_loom.evals.diff import Differences, diff_runs
from pytest_loom.evals.paths import Rules
from pytest_loom.evals.values import MISSING
from pytest_loom.flow import diverge, guard
from pytest_loom.flow.carried import refuse_uncarried
from pytest_loom.flow.contract import gates_of, manifest
from pytest_loom.flow.definition import Flow, flow_of
from pytest_loom.flow.engine import execute, in_thread, patched
from pytest_loom.flow.failures import error_payload
from pytest_loom.flow.hazards import lost_input, refuse_first, refuse_hazards
from pytest_loom.flow.history import Effect, History
from pytest_loom.flow.inputs import flow_at, given, recorded_input
from pytest_loom.flow.perform import Host, current_step
from pytest_loom.flow.recorder import Recorder, Scrubs, as_recorded, put_back
from pytest_loom.flow.run import Run
from pytest_loom.flow.saved import replay_saved, replays
from pytest_loom.flow.values import why_not
from pytest_loom.log.event import Event, Log
from pytest_loom.log.scrub import DEFAULT as SCRUB

Events = Iterable[tuple[str, Any]]
OnDivergence = Literal["raise", "record"]
Emitted = tuple[str, dict[str, Any], tuple[str | None, str | None]]
"""An event to append: its type, its payload and its place."""

_PRELUDE = frozenset({"EXECUTION_STARTED", "EXECUTION_MIGRATED", "EXECUTION_FORKED"})


def record(
    flow: Any,
    input: Any = MISSING,
    *,
    path: str | os.PathLike[str] | None = None,
    execution_id: str | None = None,
    events: Events = (),
    effects: Sequence[str] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """Run a flow live and give the log of what it did: completed, failed or suspended.

    ``flow``: one made by ``@flow``, or any callable, whose effects are the functions named in ``effects``
    (``"module:function"``, ``"module:*"``) and the model clients that it calls. ``input`` is validated against the
    flow's annotation; a flow with several inputs takes a dict of them. ``events``: what to answer each time the run
    waits, ``(event, payload)`` in order. With a ``path`` the log is appended to ``PATH.partial`` as it happens, each
    prefix a valid log, and renamed when the run was recorded whole. ``scrub`` takes secrets out before anything is
    kept (None: nothing is).

    Raises FlowError where the input does not fit or the flow does what it does not declare, RecordingError for a value
    that would not come back as what it was.
    """
    return _record(flow, input, path, execution_id, events, effects, scrub, Host(), [])


async def arecord(
    flow: Any,
    input: Any = MISSING,
    *,
    path: str | os.PathLike[str] | None = None,
    execution_id: str | None = None,
    events: Events = (),
    effects: Sequence[str] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """``record`` for async code: the bodies of steps run on the caller's loop, the flow itself in a thread."""
    host, runs = Host(asyncio.get_running_loop()), list[Run]()
    return await in_thread(
        lambda: _record(flow, input, path, execution_id, events, effects, scrub, host, runs), lambda: _last(runs)
    )


def replay(
    log: Log,
    flow: Any,
    *,
    on_divergence: OnDivergence = "raise",
    ignore: Iterable[str] = (),
    effects: Sequence[str] = (),
    allow: Iterable[str] = (),
    writable: Iterable[str | os.PathLike[str]] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """Run today's code against a recorded log: the candidate, to be compared with ``diff_runs``. Nothing is live.

    Every effect is answered from the log, each recorded one once. ``ignore``: paths of arguments that differ on every
    run (``pay.input.request_id``, ``**.timestamp``). ``on_divergence="record"`` goes on where the answer is
    unambiguous, and ends the candidate as failed where it is not, instead of raising. ``allow`` and ``writable`` open
    the guard for local services and folders. ``effects`` as in ``record``. A run that was recorded up to a gate, or
    whose recording was cut off, is replayed up to there. A saved run of the OpenAI Agents SDK takes today's agent, a
    thread of LangGraph today's graph.

    Raises ReplayDivergence at the first point where today's code does something else, LiveCallError where it tries to
    reach the outside world (also where its own code swallowed that), LogError for a log that cannot be read.
    """
    return _replay(log, flow, on_divergence, ignore, effects, allow, writable, scrub, Host(), [])


async def areplay(
    log: Log,
    flow: Any,
    *,
    on_divergence: OnDivergence = "raise",
    ignore: Iterable[str] = (),
    effects: Sequence[str] = (),
    allow: Iterable[str] = (),
    writable: Iterable[str | os.PathLike[str]] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """``replay`` for async code."""
    host, runs = Host(asyncio.get_running_loop()), list[Run]()
    return await in_thread(
        lambda: _replay(log, flow, on_divergence, ignore, effects, allow, writable, scrub, host, runs),
        lambda: _last(runs),
    )


def resume(
    log: Log,
    flow: Any,
    *,
    event: str | None = None,
    payload: Any = None,
    correlation_key: str | None = None,
    path: str | os.PathLike[str] | None = None,
    effects: Sequence[str] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """Go on with a run: history plus what followed, as a new log. The given log is not changed.

    ``event`` and its ``payload`` answer a wait (``correlation_key`` says which, where several wait for the same
    event); the payload is parsed as the gate's type first. The event ``TIMEOUT`` ends a wait that had a timeout.
    Without an event the run goes on after a crash: what was finished is answered from the log, a step that had begun
    is run again under the same idempotency key. With a ``path`` it is written as ``record`` does.

    Today's code is replayed against the history first; raises ReplayDivergence where it does not fit, LoomError where
    the run is over or does not wait for this event, or the payload does not fit. Nothing is appended then.
    """
    return _resume(log, flow, event, payload, correlation_key, path, effects, scrub, Host(), [])


async def aresume(
    log: Log,
    flow: Any,
    *,
    event: str | None = None,
    payload: Any = None,
    correlation_key: str | None = None,
    path: str | os.PathLike[str] | None = None,
    effects: Sequence[str] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """``resume`` for async code."""
    host, runs = Host(asyncio.get_running_loop()), list[Run]()
    return await in_thread(
        lambda: _resume(log, flow, event, payload, correlation_key, path, effects, scrub, host, runs),
        lambda: _last(runs),
    )


def baseline(log: Log, flow: Any, *, ignore: Iterable[str] = (), effects: Sequence[str] = ()) -> Differences:
    """What replay itself changes: the golden replayed on the code that recorded it, compared in everything.

    [] means that a difference of today's code is today's code's. Anything else says that the flow is not
    deterministic: it does something from outside that does not go through its Context.
    """
    ignored = list(ignore)
    bare = Log(log.events, path=log.path, source=log.source, engine=log.engine)
    candidate = replay(bare, flow, on_divergence="record", ignore=ignored, effects=effects)
    return diff_runs(bare, candidate, compare="all", ignore=ignored)


# Recording ----------------------------------------------------------------------------------------------------------


def _record(
    flow: Any,
    input: Any,
    path: str | os.PathLike[str] | None,
    execution_id: str | None,
    events: Events,
    effects: Sequence[str],
    scrub: Scrubs | None,
    host: Host,
    runs: list[Run],
) -> Log:
    flow = flow_of(flow)
    args, kwargs, raw = given(flow, input)
    recorder = Recorder(execution_id or uuid.uuid4().hex, flow.id, scrub=scrub, path=path)
    try:
        started: dict[str, Any] = {"input": msgspec.Raw(raw)} if raw else {}
        facts = manifest(flow)
        if facts:
            started["manifest"] = facts
        recorder.emit(("EXECUTION_STARTED", started, (None, None)))
        run = _new_run(Run(flow, recorder, mode="record"), host, runs)
        with patched(effects):
            execute(run, args, kwargs)
            for number, (event, payload) in enumerate(events, 1):
                log = recorder.log()
                if log.state.status != "suspended":
                    raise LoomError(
                        f"answer {number} of the recording, {printable(event)}, was never asked for:"
                        f" the run is {log.state.status}",
                        execution_id=log.execution_id,
                        hint="Leave it out of events.",
                    )
                history = History(log)
                wait = _wait_for(history, event, None)
                recorder.emit(*_answer(flow, wait, event, payload))
                _leg(flow, recorder, History(recorder.log()), host, runs)
        recorder.accept()
        return recorder.log(notices=_notices(runs))
    finally:
        recorder.close()
        host.close()


def _notices(runs: list[Run]) -> list[str]:
    """Where the code of the last run failed, if it did: a log holds what, and no line."""
    raised = runs[-1].raised if runs else None
    return [f"today's code raised {diverge.raised_where(raised)}"] if raised is not None else []


def _new_run(run: Run, host: Host, runs: list[Run]) -> Run:
    run.host = host
    run.recorder.on_failure = run.fail
    runs.append(run)
    return run


def _leg(flow: Flow[..., Any], recorder: Recorder, history: History, host: Host, runs: list[Run]) -> None:
    """Run the flow again from the start, answered from history, and live from where that ends."""
    args, kwargs = recorded_input(flow, history)
    execute(_new_run(Run(flow, recorder, mode="resume", history=history), host, runs), args, kwargs)


def _last(runs: list[Run]) -> Run | None:
    return runs[-1] if runs else None


# Replaying ----------------------------------------------------------------------------------------------------------


def _replay(
    log: Log,
    flow: Any,
    on_divergence: OnDivergence,
    ignore: Iterable[str],
    effects: Sequence[str],
    allow: Iterable[str],
    writable: Iterable[str | os.PathLike[str]],
    scrub: Scrubs | None,
    host: Host,
    runs: list[Run],
    *,
    rehearsing: bool = False,
) -> Log:
    if not isinstance(log, Log):
        raise TypeError(f"replay takes a Log, not a {type(log).__name__}; load_log(path) reads one")
    if on_divergence not in ("raise", "record"):
        raise ValueError(f'on_divergence is "raise" or "record", not {on_divergence!r}')
    if replays(log, flow):
        return replay_saved(log, flow, on_divergence=on_divergence, allow=allow, writable=writable)
    flow = flow_of(flow)
    history = History(log)
    history.open_ended = history.open_ended or rehearsing
    lenient = on_divergence == "record"
    recorder = Recorder(log.execution_id, log.workflow_id, scrub=scrub)
    recorder.replaying = True
    begun = next((index for index, event in enumerate(log.events) if event.event_type not in _PRELUDE), len(log))
    first = begun or 1
    recorder.events.extend(log.events[:first])
    run = Run(flow, recorder, mode="replay", history=history, rules=Rules(ignore), lenient=lenient)
    run.rehearsing = rehearsing
    _new_run(run, host, runs)
    try:
        args, kwargs = recorded_input(flow, history)
        with ExitStack() as stack:
            stack.enter_context(patched(effects))
            folders = [Path(folder) for folder in writable]
            closed = stack.enter_context(guard.closed(allow=allow, writable=folders, step=_step_now))
            try:
                execute(run, args, kwargs)
            finally:
                live = _live_call(closed.calls)
                if live is not None:
                    raise live.with_traceback(None) from None
        left = run.left_over() if not (lenient or run.cut_short) else []
        if left:
            raise diverge.left_over(run, left) from run.raised
    except ReplayDivergence as divergence:
        if not lenient:
            raise
        error = {**error_payload(divergence), "type": "ReplayDivergence", "message": divergence.what}
        error.pop("args", None)
        recorder.emit(("EXECUTION_FAILED", {"error": error}, (None, None)))
    finally:
        host.close()
    if run.shuffled or run.concurrent:
        recorder.events = as_recorded(recorder.events, log.events)
    later = [index for index, event in enumerate(log.events) if event.event_type in _PRELUDE and index >= first]
    recorder.events = put_back(recorder.events, log.events, later)
    return recorder.log(notices=_notices([run]))


def _live_call(calls: list[LiveCallError]) -> LiveCallError | None:
    return calls[0] if calls else None


def _step_now() -> str:
    info = current_step()
    return info.key if info is not None else ""


# Resuming -----------------------------------------------------------------------------------------------------------


def _resume(
    log: Log,
    flow: Any,
    event: str | None,
    payload: Any,
    correlation_key: str | None,
    path: str | os.PathLike[str] | None,
    effects: Sequence[str],
    scrub: Scrubs | None,
    host: Host,
    runs: list[Run],
) -> Log:
    flow = flow_of(flow)
    refuse_if_over(log)
    news = may_resume(log, flow, event, payload, correlation_key, effects, scrub, host)
    return go_on(log, flow, news, path, effects, scrub, host, runs)


def may_resume(
    log: Log,
    flow: Flow[..., Any],
    event: str | None,
    payload: Any,
    correlation_key: str | None,
    effects: Sequence[str],
    scrub: Scrubs | None,
    host: Host,
) -> list[Emitted]:
    """What is to be appended before the run goes on, once today's code was replayed against its history."""
    history = History(log)
    news: list[Emitted]
    if event is not None:
        news = _answer(flow, _wait_for(history, event, correlation_key), event, payload)
    elif payload is not None:
        raise LoomError("a payload needs the event that it comes with", hint="resume(log, flow, event=…, payload=…)")
    else:
        news = _half_answered(flow, history)
    refuse_uncarried(log, flow)
    refuse_first(log, lost_input(flow, history), event)
    candidate = rehearse(log, flow, effects=effects, scrub=scrub, host=host)
    refuse_hazards(log, flow, candidate, answered=event)
    return news


def rehearse(
    log: Log,
    flow: Any,
    *,
    effects: Sequence[str] = (),
    scrub: Scrubs | None = SCRUB,
    host: Host | None = None,
) -> Log:
    """A replay of an unfinished run as ``resume`` makes it before it goes on; raises what ``replay`` raises.

    Where its waits are all that is open, a run that crashed cannot be told from one that rests: so today's code may do
    more than what was recorded, and nothing else. Timers of its own run out while it waits at a gate.
    """
    return _replay(log, flow, "raise", (), effects, (), (), scrub, host or Host(), [], rehearsing=True)


def go_on(
    log: Log,
    flow: Flow[..., Any],
    news: list[Emitted],
    path: str | os.PathLike[str] | None,
    effects: Sequence[str],
    scrub: Scrubs | None,
    host: Host,
    runs: list[Run],
) -> Log:
    """Run the flow live from where the history ends: history, the news, and what follows."""
    recorder = Recorder(log.execution_id, log.workflow_id, events=log.events, scrub=scrub, path=path)
    try:
        if news:
            recorder.emit(*news)
        history = History(recorder.log() if news else log)
        with patched(effects):
            _leg(flow, recorder, history, host, runs)
        recorder.accept()
        return recorder.log()
    finally:
        recorder.close()
        host.close()


def refuse_if_over(log: Log) -> None:
    """Raise LoomError for a run that is over."""
    state = log.state
    if not state.in_flight:
        whole = "This recording is whole: write_log(log, path) gives it its name. "
        raise LoomError(
            f"the run is {state.status}: what is over is not resumed",
            path=log.path,
            execution_id=log.execution_id,
            hint=f"{whole if log.path.endswith('.partial') else ''}"
            "fork(log, at_sequence) makes a new run from a point before its end.",
        )


def _wait_for(history: History, event: str, correlation_key: str | None) -> Effect:
    """The open wait that an event answers. Raises LoomError where there is none, or more than one."""
    log = history.log
    waits = history.open_waits
    names = sorted({printable(wait.name) for wait in waits})
    where: dict[str, Any] = {"path": log.path, "execution_id": log.execution_id}
    if not waits:
        raise LoomError(f"the run waits for nothing, so {printable(event)} answers nothing", **where)
    if event == "TIMEOUT":
        fitting = [wait for wait in waits if wait.start.payload.get("timeoutMs") is not None]
        if not fitting:
            raise LoomError(f"no wait of the run has a timeout (it waits for {', '.join(names)})", **where)
    else:
        fitting = [wait for wait in waits if event in wait.name.split("|")]
        if not fitting:
            raise LoomError(f"the run waits for {', '.join(names)}, not for {printable(event)}", **where)
    if correlation_key is not None:
        keys = [wait.detail for wait in fitting]
        fitting = [wait for wait in fitting if wait.detail == str(correlation_key)]
        if not fitting:
            said = ", ".join(printable(str(key)) for key in keys)
            raise LoomError(
                f"no wait for {printable(event)} has the key {printable(str(correlation_key))} (there is {said})",
                **where,
            )
    if len({wait.detail for wait in fitting}) > 1 and event != "TIMEOUT":
        said = ", ".join(printable(str(wait.detail)) for wait in fitting)
        raise LoomError(
            f"{len(fitting)} branches wait for {printable(event)}, with the keys {said}",
            hint="Say which: resume(…, correlation_key=…).",
            **where,
        )
    return fitting[0]


def _answer(flow: Flow[..., Any], wait: Effect, event: str, payload: Any) -> list[Emitted]:
    """The events that answer a wait. Raises LoomError where the payload does not fit the gate: nothing is appended."""
    keyed = {"correlationKey": wait.detail} if wait.detail is not None else {}
    if event == "TIMEOUT":
        said = {"eventType": "TIMEOUT", **keyed, "payload": {"on": wait.name}}
        return [("EXECUTION_RESUMED", said, wait.place)]
    data = gate_data(flow_at(flow, wait.place[0]), event, payload, wait.start.execution_id)
    said = {"eventType": event, **keyed, "payload": data}
    own = data if isinstance(data, dict) else {} if data is None else {"value": data}
    return [(event, own, (None, None)), ("EXECUTION_RESUMED", said, wait.place)]


def gate_data(flow: Flow[..., Any], event: str, payload: Any, execution_id: str = "") -> Any:
    """What comes through a gate as plain data. Raises LoomError where it does not fit, or there is no such gate."""
    gates = gates_of(flow)
    if event not in gates:
        raise FlowError(
            f"flow {flow.id} has no gate {printable(event)}, for which the run waits",
            execution_id=execution_id,
            hint=f"Declare it: @flow(…, gates={{{event!r}: TypeOfItsPayload}}).",
        )
    try:
        return gates[event].dump(gates[event].parse(payload))
    except (ValueError, RecordingError) as problem:
        why = problem.what if isinstance(problem, LoomError) else why_not(problem)
        raise LoomError(
            f"the payload does not fit gate {printable(event)}: {why}",
            execution_id=execution_id,
            hint="Nothing was appended. Give what the gate's annotation says.",
        ) from None


def _half_answered(flow: Flow[..., Any], history: History) -> list[Any]:
    """What completes an answer of which a crash left only the application's event."""
    came = (event for event in reversed(history.log.events) if event.event_type != "EXECUTION_MIGRATED")
    last: Event = next(came, history.log.events[-1])
    for wait in history.open_waits:
        if last.event_type in wait.name.split("|"):
            payload = last.payload
            if set(payload) == {"value"}:
                try:
                    return _answer(flow, wait, last.event_type, payload["value"])[1:]
                except LoomError:
                    pass
            return _answer(flow, wait, last.event_type, payload)[1:]
    return []
