"""What would go wrong in silence if a native run went on with today's code, though a replay of it finds nothing.

``resume`` refuses such a run, and a deploy simulation reports it, from the same list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_loom.errors import ApprovalError, LoomError, ReplayDivergence, StateMigrationError, printable
from pytest_loom.evals.paths import format_path
from pytest_loom.evals.values import short
from pytest_loom.flow.approvals import Hazard, changed_waits, stale_calls
from pytest_loom.flow.carried import carried, carried_below, saved_states
from pytest_loom.flow.definition import Flow, Step
from pytest_loom.flow.fit import sketch
from pytest_loom.flow.history import Effect, History
from pytest_loom.flow.inputs import flow_at
from pytest_loom.flow.lost import hidden, renamed_input
from pytest_loom.log.event import Event, Log

_ERRORS: dict[str, type[LoomError]] = {
    "input-contract": StateMigrationError,
    "output-contract": ReplayDivergence,
    "replay-diverged": ReplayDivergence,
    "state-key-lost": StateMigrationError,
    "state-type": StateMigrationError,
}


def hazards(log: Log, flow: Flow[..., Any], candidate: Log) -> Iterator[Hazard]:
    """What speaks against going on; ``candidate`` is the replay of the run on today's code.

    What today's tools make of pending calls is told by ``stale_calls``.
    """
    history = History(log)
    yield from _lost_outputs(flow, history)
    yield from _lost_answers(flow, history)
    yield from _changed_subflows(log, flow, candidate)
    yield from _uncarried(log, flow)
    yield from _changed_states(log, flow, history, candidate)
    yield from changed_waits(log.state, candidate.state)


def refuse_hazards(log: Log, flow: Flow[..., Any], candidate: Log, *, answered: str | None) -> None:
    """Raise for the first hazard that speaks against going on with the event ``answered``; nothing is appended then."""
    from pytest_loom.contract.resolve import contract_of

    stale = () if flow.plain else stale_calls(log.state, contract_of(flow))
    refuse_first(log, (*hazards(log, flow, candidate), *stale), answered)


def refuse_first(log: Log, found: Iterable[Hazard], answered: str | None) -> None:
    """Raise for the first of some hazards that speaks against going on with the event ``answered``."""
    for hazard in found:
        if hazard.severity == "breaking" and hazard.only_on in (None, answered):
            raise _ERRORS.get(hazard.code, ApprovalError)(
                hazard.message,
                path=log.path,
                line=log.events[hazard.sequence - 1].line,
                execution_id=log.execution_id,
                step="" if hazard.code == "input-contract" else hazard.name,
                hint=f"Nothing was appended: the run is as it was. {hazard.hint}",
            )


def lost_input(flow: Flow[..., Any], history: History) -> Iterator[Hazard]:
    """The run's input, where a field of it got another name: told whatever a replay on it would come to.

    What a migration to this contract made of it stands.
    """
    migrations = history.log.state.raw_variables.get("_migrations", ())
    if history.migrated and migrations and migrations[-1].get("toHash") == flow.fingerprint:
        return
    found = renamed_input(flow, history)
    if found is not None:
        lost, filled = found
        message = (
            f"the recorded {printable(lost)} would be dropped, and {filled} filled with its default: today's flow"
            f" {flow.id} would run on what nobody gave it"
        )
        hint = f"Say what the input is today:\n{sketch(flow, history)}"
        yield Hazard("input-contract", "breaking", flow.id, message, 1, hint)


def _answered(history: History, kind: str) -> Iterator[tuple[Effect, Event]]:
    """The recorded effects of a kind that have an answer, with the event that gave it."""
    for effect in history.all():
        if effect.kind == kind and effect.outcome == "completed" and effect.output and effect.end is not None:
            yield effect, effect.end


def _lost_outputs(flow: Flow[..., Any], history: History) -> Iterator[Hazard]:
    """Recorded results of steps, where a field got another name."""
    for effect, end in _answered(history, "step"):
        step = flow_at(flow, effect.place[0]).steps.get(effect.name)
        if not isinstance(step, Step) or step.is_stream:
            continue
        found = hidden(step.output, effect.value)
        if found is not None:
            key, (lost, filled) = history.key(effect), found
            message = (
                f"the recorded result of step {printable(key)} has {printable(lost)}, which today's type does not"
                f" read, and {filled} would be its default: what was found out would be lost without a word"
            )
            hint = "Let today's type read the old name too (an alias), or upcast STEP_COMPLETED."
            yield Hazard("output-contract", "breaking", key, message, end.sequence, hint)


def _lost_answers(flow: Flow[..., Any], history: History) -> Iterator[Hazard]:
    """Answers that came through a gate, where a field got another name."""
    for effect, end in _answered(history, "gate"):
        part, name = flow_at(flow, effect.place[0]), end.payload.get("eventType")
        found = hidden(part.gate(name), effect.value) if name in part.gates else None
        if found is not None:
            lost, filled = found
            message = (
                f"the answer that came through gate {printable(str(name))} has {printable(lost)}, which today's type"
                f" does not read, and {filled} would be its default: what somebody said would be lost without a word"
            )
            hint = "Let today's type read the old name too (an alias)."
            yield Hazard("gate-changed", "breaking", str(name), message, end.sequence, hint)


def _changed_subflows(log: Log, flow: Flow[..., Any], candidate: Log) -> Iterator[Hazard]:
    """Sub-flows that are over, and give something else when today's code runs over them again."""
    today = candidate.state.frames
    for key, frame in log.state.frames.items():
        if frame.status != "completed" or not isinstance(flow_at(flow, frame.namespace).steps.get(frame.step_id), Flow):
            continue
        now = today.get(key)
        if now is not None and (now.status, now.output) != ("completed", frame.output):
            gives = f"gives {short(now.output, 40)}" if now.status == "completed" else f"is {now.status}"
            message = (
                f"sub-flow {printable(key)} was over and gave {short(frame.output, 40)}; today's code goes over it"
                f" again and it {gives}: what came after was done with the other"
            )
            hint = "Let it give for this run what it gave, or let the run end on the code that it is on."
            yield Hazard("replay-diverged", "breaking", key, message, frame.event.sequence, hint)


def _uncarried(log: Log, flow: Flow[..., Any]) -> Iterator[Hazard]:
    """The states of sub-flows that nothing carries to today's version; the flow's own is told by its contract."""
    for part in carried_below(log, flow):
        if part.error is not None and part.saved is not None:
            code = "schema-unknown" if part.unknown else "migration-missing"
            message = f"{part.error.what}. Resumed all the same, {part.name} would be read by guessing"
            yield Hazard(code, "breaking", part.name, message, part.saved.sequence, part.error.hint)


def _changed_states(log: Log, flow: Flow[..., Any], history: History, candidate: Log) -> Iterator[Hazard]:
    """The states that were recorded last, in today's version, beside those that today's code keeps at that point."""
    if log.state.state is None:
        return
    todays = History(candidate).snapshots
    parts = {part.namespace: part for part in (*carried(log, flow.versions), *carried_below(log, flow)) if part.saved}
    for namespace, event in saved_states(log).items():
        place = (event.namespace, event.branch)
        number = [one.sequence for one in history.snapshots[place]].index(event.sequence)
        if number < len(todays.get(place, ())) and (namespace not in parts or parts[namespace].error is None):
            was = parts[namespace].value if namespace in parts else event.payload.get("state")
            version = flow_at(flow, namespace).versions.get("state")
            yield from _changed_state(was, todays[place][number].payload.get("state"), event.sequence, version)


def _changed_state(was: Any, now: Any, sequence: int, version: Any) -> Iterator[Hazard]:
    if was is None or now is None or was == now:
        return
    hint = (
        "What was recorded stands, so today's code would read that. Raise the state's version, and say how the old one"
        f' is carried over: versions={{"state": …}} (it is {version!r} now) and @migration("state", from_version=…).'
    )
    for path, lost, new in _renamed_keys(was, now, ()):
        name = format_path((*path, lost))
        message = (
            f"the recorded state has {printable(name)} ({short(_at(was, (*path, lost)), 40)}), where today's code keeps"
            f" {printable(format_path((*path, new)))}: what was saved would not be found"
        )
        yield Hazard("state-key-lost", "breaking", name, message, sequence, hint)
    for path, one, other in _retyped(was, now, ()):
        name = format_path(path) or "state"
        message = (
            f"the recorded state has {short(one, 40)} at {printable(name)}, where today's code keeps"
            f" {short(other, 40)}: another type"
        )
        yield Hazard("state-type", "breaking", name, message, sequence, hint)


Path = tuple[str | int, ...]


def _renamed_keys(was: Any, now: Any, path: Path) -> Iterator[tuple[Path, str, str]]:
    """Objects that lost a key and got another: their path, the key that is gone, and one that is new."""
    for here, one, other in _objects(was, now, path):
        lost, new = [key for key in one if key not in other], [key for key in other if key not in one]
        yield from ((here, key, new[0]) for key in lost if new)


def _retyped(was: Any, now: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """Values that are of another JSON type, null aside."""
    for here, one, other in _objects(was, now, path):
        for key in one.keys() & other.keys():
            if None not in (one[key], other[key]) and _kind(one[key]) is not _kind(other[key]):
                yield (*here, key), one[key], other[key]
    if not path and None not in (was, now) and _kind(was) is not _kind(now):
        yield path, was, now


def _objects(was: Any, now: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any], Mapping[str, Any]]]:
    """Every two objects that stand at the same place, lists aside: how long those are says nothing."""
    if isinstance(was, dict) and isinstance(now, dict):
        yield path, was, now
        for key in was:
            if key in now:
                yield from _objects(was[key], now[key], (*path, key))


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
