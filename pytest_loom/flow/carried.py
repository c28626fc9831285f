"""What a run has saved, its state and its plan, in today's versions: by registered migrations or not at all (seed 003).

A version that is not known is refused, and nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_loom.errors import MigrationError, printable
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.inputs import flow_at
from pytest_loom.log.event import Event, Log
from pytest_loom.log.migrations import chain, migrate
from pytest_loom.log.upcast import upcast_events


@dataclass(frozen=True)
class Carried:
    """One saved value: ``what`` is "state" or "plan", ``value`` what it is in today's version.

    ``namespace`` is the sub-flow whose state it is, ``saved`` the event that saved a state. ``error`` says why it
    cannot be carried there; ``unknown`` that its version is not known, or newer than today's.
    """

    what: str
    from_version: Any
    to_version: Any
    value: Any
    error: MigrationError | None = None
    unknown: bool = False
    namespace: str | None = None
    saved: Event | None = None

    @property
    def name(self) -> str:
        """How it is called where it is told of: ``state``, ``state of child#2``."""
        return self.what if self.namespace is None else f"{self.what} of {printable(self.namespace)}"


def carried(log: Log, versions: Mapping[str, Any]) -> Iterator[Carried]:
    """The run's own state and plan, as far as it has them and ``versions`` says what today's version of them is."""
    state = log.state
    if state.state is not None and versions.get("state") is not None:
        event = saved_states(log).get(None)
        if event is not None:
            yield from _state_in(log, event, versions)
    today = versions.get("plan")
    if today is not None and state.plan is not None:
        yield _carried(log, "plan", state.plan, state.plan_schema_version, today)


def carried_below(log: Log, flow: Flow[..., Any]) -> Iterator[Carried]:
    """The states that a native flow's sub-flows have saved, each in the version that its own flow says."""
    if log.state.state is not None:
        for namespace, event in saved_states(log).items():
            if namespace is not None:
                yield from _state_in(log, event, flow_at(flow, namespace).versions)


def saved_states(log: Log) -> dict[str | None, Event]:
    """The event that last saved a state, by sub-flow; None is the flow itself."""
    return {event.namespace: event for event in upcast_events(log.events) if event.event_type == "STATE_SNAPSHOT"}


def refuse_uncarried(log: Log, flow: Flow[..., Any]) -> None:
    """Raise the MigrationError (for a state StateMigrationError) of what cannot be carried to today's version."""
    for part in (*carried(log, flow.versions), *carried_below(log, flow)):
        if part.error is not None:
            raise part.error


def _state_in(log: Log, event: Event, versions: Mapping[str, Any]) -> Iterator[Carried]:
    """The state that an event saved, where today's version of it is said."""
    payload, today = event.payload, versions.get("state")
    if today is not None and payload.get("state") is not None:
        found = _carried(log, "state", payload["state"], payload.get("stateSchemaVersion"), today)
        yield replace(found, namespace=event.namespace, saved=event)


def _carried(log: Log, what: str, value: Any, version: Any, today: Any) -> Carried:
    version = log.state.manifest.get(f"{what}SchemaVersion") if version is None else version
    if version == today and type(version) is type(today):
        return Carried(what, version, today, value)
    try:
        return Carried(what, version, today, migrate(what, value, version, today))
    except MigrationError as error:
        error.path, error.execution_id = log.path, log.execution_id
        return Carried(what, version, today, value, error, _is_unknown(what, version, today))


def todays_state(value: Any, version: Any, today: Any) -> Any:
    """A recorded state in today's version; as it is where the flow says none. Raises StateMigrationError."""
    return value if today is None or version == today else migrate("state", value, version, today)


def _is_unknown(what: str, version: Any, today: Any) -> bool:
    if isinstance(version, bool) or not isinstance(version, (int, str)):
        return True  # it says none, or something that is none
    is_newer = isinstance(version, int) and isinstance(today, int) and version > today
    return is_newer and chain(what, version, today) is None
