"""What SDKs put into MarkerRecorded events: local activities, patches and versions, side effects.

Each SDK family has its own layout (sources: sdk-core ``protos/mod.rs``, sdk-go ``internal_command_state_machine.go``,
sdk-java ``LocalActivityMarkerUtils``, ``VersionMarkerUtils``, ``MutableSideEffectStateMachine``). A marker that cannot
be read, for instance because its details are encrypted, is None here and kept whole by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_loom.sources.temporal.payloads import arguments, opaque_bytes, payload_list, result, unwrap
from pytest_loom.sources.temporal.protojson import Fields, Malformed, kind_of

Details = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class LocalActivity:
    """A local activity as its marker tells it: one try that ended, well or badly.

    ``facts`` are further payload fields of its STEP_STARTED; only Java records the input. ``backoff`` says that a
    failed try is to be repeated after a timer.
    """

    name: str
    activity_id: str
    attempt: int
    backoff: bool
    output: Any
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """A recorded choice: ``key`` like ``patch:ID`` or ``sideEffect:ID``."""

    key: str
    value: Any
    facts: dict[str, Any] = field(default_factory=dict)


def read_details(fields: Fields) -> Details:
    """The marker's details: name to plain values."""
    details = fields.raw("details")
    if details is None:
        return {}
    if not isinstance(details, dict):
        raise Malformed(f"{fields.name}.details is {kind_of(details)}, not an object")
    return {name: payload_list(value) for name, value in sorted(details.items())}


def read_marker(name: str, details: Details, ordinal: int) -> LocalActivity | Decision | None:
    """What a marker means, None where it is not known or cannot be read.

    ``ordinal`` counts the run's side effects, for those that have no id of their own.
    """
    reader = _READERS.get(name)
    return reader(details, ordinal) if reader else None


def _local_activity(details: Details, ordinal: int) -> LocalActivity | None:
    if "type" in details:  # Java; before 1.17 its result was called data
        name, activity_id = _first(details, "type"), _first(details, "activityId")
        meta = _first(details, "meta")
        meta = meta if isinstance(meta, dict) else {}
        attempt, backoff = meta.get("atpt"), meta.get("backoff")
        output = _either(details, "result", "data")
        facts = {"input": arguments(details["input"])} if "input" in details else {}
    else:  # Core and Go
        data = _first(details, "data")
        data = data if isinstance(data, dict) else {}
        name, activity_id = _either(data, "activity_type", "ActivityType"), _either(data, "activity_id", "ActivityID")
        attempt, backoff = _either(data, "attempt", "Attempt"), _either(data, "backoff", "Backoff")
        output = details.get("result")
        facts = {}
    if not isinstance(name, str) or not name:
        return None
    return LocalActivity(
        name=name,
        activity_id=activity_id if isinstance(activity_id, str) else "",
        attempt=attempt if type(attempt) is int and 0 < attempt < 2**31 else 1,
        backoff=bool(any(backoff.values()) if isinstance(backoff, dict) else backoff),
        output=result(output or []),
        facts=facts,
    )


def _core_patch(details: Details, ordinal: int) -> Decision | None:
    data = _first(details, "patch-data")
    if isinstance(data, dict):
        patch, deprecated = data.get("id"), data.get("deprecated") is True
    else:  # before 2023: bytes, and one byte for the boolean
        patch, flag = _plain_text(_first(details, "patch_id")), _first(details, "deprecated")
        raw = opaque_bytes(flag)
        deprecated = flag is True if raw is None else raw[:1] not in (b"", b"\0")
    if not isinstance(patch, str) or not patch:
        return None
    return Decision(f"patch:{patch}", True, {"deprecated": True} if deprecated else {})


def _version(details: Details, ordinal: int) -> Decision | None:
    change, version = _either(details, "change-id", "changeId"), _first(details, "version")
    change = result(change) if isinstance(change, list) else None
    if not isinstance(change, str) or type(version) is not int:
        return None
    return Decision(f"patch:{change}", version)


def _side_effect(details: Details, ordinal: int) -> Decision | None:
    if "data" not in details:
        return None
    recorded = _either(details, "side-effect-id", "sideEffectId")
    name = result(recorded) if recorded else None
    if not isinstance(name, str | int):  # Java has no id, an encrypted one is of no use: its place in the run names it
        name = ordinal
    return Decision(f"sideEffect:{name}", result(details["data"]))


def _mutable_side_effect(details: Details, ordinal: int) -> Decision | None:
    recorded = _either(details, "side-effect-id", "id")
    name = result(recorded) if recorded else None
    if not isinstance(name, str | int) or "data" not in details:
        return None
    data = details["data"]
    value = unwrap(data[1]) if "side-effect-id" in details and len(data) == 2 else result(data)  # Go repeats the id
    return Decision(f"sideEffect:{name}", value)


_READERS = {
    "core_local_activity": _local_activity,
    "LocalActivity": _local_activity,
    "core_patch": _core_patch,
    "Version": _version,
    "SideEffect": _side_effect,
    "MutableSideEffect": _mutable_side_effect,
}


KNOWN_MARKERS = frozenset(_READERS)


def _first(details: Details, name: str) -> Any:
    values = details.get(name)
    return values[0] if values else None


def _either(values: dict[str, Any], one: str, other: str) -> Any:
    return values[one] if one in values else values.get(other)


def _plain_text(value: Any) -> Any:
    raw = opaque_bytes(value)
    if raw is None:
        return value
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
