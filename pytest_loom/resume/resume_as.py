"""``resume_as``: going on with a run as another version of its flow, its input migrated on the way (ADR 0056)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from pytest_loom.contract.resolve import resolver_of
from pytest_loom.errors import FlowError, LoomError, ReplayDivergence, StateMigrationError, printable
from pytest_loom.flow.api import go_on, may_resume, refuse_if_over
from pytest_loom.flow.definition import Flow, flow_of
from pytest_loom.flow.engine import in_thread
from pytest_loom.flow.fit import Transform, check_fit, misfit, transformed
from pytest_loom.flow.history import History
from pytest_loom.flow.perform import Host
from pytest_loom.flow.recorder import Recorder, Scrubs
from pytest_loom.flow.run import Run
from pytest_loom.log.event import Log
from pytest_loom.log.scrub import DEFAULT as SCRUB

Strategy = Literal["replay-check", "pinned"]


def resume_as(
    log: Log,
    flow: Any,
    *,
    transform_state: Transform | None = None,
    strategy: Strategy = "replay-check",
    event: str | None = None,
    payload: Any = None,
    correlation_key: str | None = None,
    path: str | os.PathLike[str] | None = None,
    effects: Sequence[str] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """Go on with a run as today's version of its flow: history, one EXECUTION_MIGRATED, and what followed.

    ``transform_state`` turns the input that the run has (plain data; what an earlier migration made of it, else what
    it started with) into the input that today's flow takes: a dict or an instance, as for ``record``. Its outcome is
    recorded, the function never is, so a later plain ``resume`` needs no transform. Steps that were done before are
    answered from the log although today's input asks them otherwise: done is done.

    With an ``event`` (and its ``payload``) the wait for it is answered, as in ``resume``; without one the migration
    alone is recorded. ``strategy`` "replay-check": ``flow`` is today's, and must do what was recorded. "pinned":
    ``flow`` may be a resolver, which is asked for the version that the run is on; a flow of another version, or whose
    contract has another fingerprint than the log names, is refused. With a ``path`` it is written as ``record`` does.

    Raises StateMigrationError where the input does not fit the flow and no transform is given, and where a transform
    raises, returns None or what the flow does not take, changes its argument, or is not deterministic;
    ReplayDivergence where today's code does not do what was recorded; FlowError where the pinned flow cannot be had;
    LoomError where the run is over or does not wait for the event. Nothing is appended then, and no file touched.
    """
    return _resume_as(
        log, flow, transform_state, strategy, event, payload, correlation_key, path, effects, scrub, Host(), []
    )


async def aresume_as(
    log: Log,
    flow: Any,
    *,
    transform_state: Transform | None = None,
    strategy: Strategy = "replay-check",
    event: str | None = None,
    payload: Any = None,
    correlation_key: str | None = None,
    path: str | os.PathLike[str] | None = None,
    effects: Sequence[str] = (),
    scrub: Scrubs | None = SCRUB,
) -> Log:
    """``resume_as`` for async code."""
    host, runs = Host(asyncio.get_running_loop()), list[Run]()
    return await in_thread(
        lambda: _resume_as(
            log, flow, transform_state, strategy, event, payload, correlation_key, path, effects, scrub, host, runs
        ),
        lambda: runs[-1] if runs else None,
    )


def _resume_as(
    log: Log,
    flow: Any,
    transform: Transform | None,
    strategy: Strategy,
    event: str | None,
    payload: Any,
    correlation_key: str | None,
    path: str | os.PathLike[str] | None,
    effects: Sequence[str],
    scrub: Scrubs | None,
    host: Host,
    runs: list[Run],
) -> Log:
    if not isinstance(log, Log):
        raise TypeError(f"resume_as takes a Log, not a {type(log).__name__}; load_log(path) reads one")
    if strategy not in ("replay-check", "pinned"):
        raise ValueError(f'strategy is "replay-check" or "pinned", not {strategy!r}')
    refuse_if_over(log)
    today = _pinned(log, flow) if strategy == "pinned" else flow_of(flow)
    migrated = _migrated(log, today, transform, strategy, scrub)
    try:
        news = may_resume(migrated, today, event, payload, correlation_key, effects, scrub, host)
    except ReplayDivergence as divergence:
        divergence.hint = _way_out(strategy, divergence.kind == "argument-changed" and transform is None)
        raise
    if event is not None:
        return go_on(migrated, today, news, path, effects, scrub, host, runs)
    recorder = Recorder(log.execution_id, log.workflow_id, events=migrated.events, path=path)
    try:
        recorder.accept()
        return recorder.log()
    finally:
        recorder.close()


def _migrated(
    log: Log, flow: Flow[..., Any], transform: Transform | None, strategy: Strategy, scrub: Scrubs | None
) -> Log:
    """The log with its migration as one more event, in memory."""
    history = History(log)
    said: dict[str, Any] = {"strategy": strategy}
    facts = {
        "fromVersion": _on(log, "toVersion", "flowVersion"),
        "toVersion": flow.version,
        "fromHash": _on(log, "toHash", "contractFingerprint"),
        "toHash": flow.fingerprint,
    }
    said.update({name: value for name, value in facts.items() if value is not None})
    if transform is None:
        check_fit(flow, history)
    else:
        said["migratedInput"] = msgspec.Raw(transformed(flow, history, transform))
    recorder = Recorder(log.execution_id, log.workflow_id, events=log.events, scrub=scrub)
    recorder.emit(("EXECUTION_MIGRATED", said, (None, None)))
    migrated = Log(
        recorder.events, path=log.path, source=log.source, engine=log.engine, live=log.live, notices=log.notices
    )
    if transform is not None:
        why = misfit(flow, History(migrated))
        if why is not None:
            raise StateMigrationError(
                f"what transform_state returned does not fit once its secrets are taken out: {why}",
                path=log.path,
                execution_id=log.execution_id,
                hint="Nothing was appended: the run is as it was. Annotate what is scrubbed as text, or give another "
                "scrub=, which leaves it in.",
            )
    return migrated


def _on(log: Log, migrated: str, started: str) -> Any:
    """What the run is on: what its last migration says (field ``migrated``), else its manifest (``started``)."""
    state = log.state
    for entry in reversed(state.raw_variables.get("_migrations", ())):
        if entry.get(migrated) is not None:
            return entry[migrated]
    return state.manifest.get(started)


def _pinned(log: Log, flow: Any) -> Flow[..., Any]:
    """The flow in the version that the run is on. Raises FlowError where it cannot be had, or is not that version."""
    version, recorded = _on(log, "toVersion", "flowVersion"), _on(log, "toHash", "contractFingerprint")
    where: dict[str, Any] = {"path": log.path, "execution_id": log.execution_id}
    shown = f"{printable(log.workflow_id)}{f' {printable(str(version))}' if version is not None else ''}"
    found = flow
    if not (isinstance(flow, Flow) or (callable(flow) and _is_itself(flow, log))):
        found = resolver_of(flow)(log.workflow_id, version)
    if found is None:
        raise FlowError(
            f"there is no flow {shown}, which the run is pinned to",
            hint="Nothing was appended: the run is as it was. Keep that version registered while runs are on it, or "
            'check whether today\'s code does the same: strategy="replay-check".',
            **where,
        )
    found = flow_of(found)
    if version is not None and found.version != version:
        raise FlowError(
            f"the run is pinned to {shown}, and the flow at hand is version {printable(str(found.version))}",
            hint="Nothing was appended: the run is as it was. Give a resolver that has the version, "
            'get_flow(workflow_id, version), or check the flow at hand: strategy="replay-check".',
            **where,
        )
    today = found.fingerprint
    if recorded is not None and today is not None and recorded != today:
        raise FlowError(
            f"the flow at hand says that it is {shown}, and has another contract than the one that the run is pinned "
            f"to\n    recorded: {printable(str(recorded))}\n    today: {today}",
            hint="Nothing was appended: the run is as it was. Steps, gates, tools or types were changed under one "
            "version. Raise the version of the changed flow and keep the old one registered, or check the flow at "
            'hand: strategy="replay-check".',
            **where,
        )
    return found


def _is_itself(flow: Any, log: Log) -> bool:
    """Whether a callable is the plain flow of this run, not a resolver of flows: a flow is never just called."""
    try:
        return flow_of(flow).id == log.workflow_id
    except LoomError:
        return False


def _way_out(strategy: Strategy, is_asked_otherwise: bool) -> str:
    """What to do about a divergence; ``is_asked_otherwise``: a step's arguments differ, and no input was migrated."""
    nothing = "Nothing was appended: the run is as it was."
    if is_asked_otherwise:
        return (
            f"{nothing} If the difference comes from the type of the flow's input, migrate the input: what was done "
            "with the old one then stands. Where the recorded input fits as it is:\n"
            "  resume_as(log, flow, transform_state=lambda old: old)"
        )
    if strategy == "pinned":
        return (
            f"{nothing} The flow at hand is the pinned version by name, but does not do what was recorded: find the "
            "code that recorded it."
        )
    return (
        f"{nothing} A transform changes the input, never what was done: let today's code still do that for this run, "
        "under the same names, or let the run end on the code that it is on:\n"
        '  resume_as(log, get_flow, strategy="pinned", event=…, payload=…)'
    )
