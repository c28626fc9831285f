"""What a run has saved, its state and its plan, in today's versions: by registered migrations or not at all (seed 003).

A version that is not known is refused, and nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_loom.errors import MigrationError
from pytest_loom.log.event import Log
from pytest_loom.log.migrations import chain, migrate


@dataclass(frozen=True)
class Carried:
    """One saved value: ``what`` is "state" or "plan", ``value`` what it is in today's version.

    ``error`` says why it cannot be carried there; ``unknown`` that its version is not known, or newer than today's.
    """

    what: str
    from_version: Any
    to_version: Any
    value: Any
    error: MigrationError | None = None
    unknown: bool = False


def carried(log: Log, versions: Mapping[str, Any]) -> Iterator[Carried]:
    """The run's state and plan, as far as it has them and ``versions`` says what today's version of them is."""
    state = log.state
    for what, value, version in (
        ("state", state.state, state.state_schema_version),
        ("plan", state.plan, state.plan_schema_version),
    ):
        today = versions.get(what)
        if today is None or value is None:
            continue
        version = state.manifest.get(f"{what}SchemaVersion") if version is None else version
        if version == today and type(version) is type(today):
            yield Carried(what, version, today, value)
            continue
        try:
            yield Carried(what, version, today, migrate(what, value, version, today))
        except MigrationError as error:
            error.path, error.execution_id = log.path, log.execution_id
            yield Carried(what, version, today, value, error, _is_unknown(what, version, today))


def refuse_uncarried(log: Log, versions: Mapping[str, Any]) -> None:
    """Raise the MigrationError (for a state StateMigrationError) of what cannot be carried to today's version."""
    for part in carried(log, versions):
        if part.error is not None:
            raise part.error


def todays_state(value: Any, version: Any, today: Any) -> Any:
    """A recorded state in today's version; as it is where the flow says none. Raises StateMigrationError."""
    return value if today is None or version == today else migrate("state", value, version, today)


def _is_unknown(what: str, version: Any, today: Any) -> bool:
    if isinstance(version, bool) or not isinstance(version, (int, str)):
        return True  # it says none, or something that is none
    is_newer = isinstance(version, int) and isinstance(today, int) and version > today
    return is_newer and chain(what, version, today) is None
