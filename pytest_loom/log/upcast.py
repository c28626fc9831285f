"""Upcasters: recorded events of an older version, raised to today's when they are read (DESIGN section 5, seed 003).

    @upcaster("TOOL_REQUESTED", from_version=1)
    def with_region(payload):
        return {**payload, "args": {**payload["args"], "region": "eu"}}

takes a payload of version 1 and gives one of version 2; they chain. History is never rewritten: files and
``log.events`` stay as recorded, and whoever reads them for meaning goes over ``upcast_events``. Fails closed: a chain
with a gap, and an upcaster that raises, is not pure or finds no lossless way (``raise Unsupported(reason)``) are an
UpcastError. A version *newer* than today's is UnknownSchemaVersion: no upcaster could help, only newer code knows it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from pytest_loom.errors import LogError, UnknownSchemaVersion, UpcastError, printable
from pytest_loom.log.event import Event, read_anew
from pytest_loom.log.pure import Place, Refused, chain_text, plain_text, run_pure
from pytest_loom.log.schema import is_kernel_type, known_event_types

Payload = dict[str, Any]
F = TypeVar("F", bound=Callable[[Payload], Payload])


@dataclass(frozen=True)
class Upcaster:
    """One registered upcaster: payloads of ``kind`` from version ``from_version`` to the next."""

    kind: str
    from_version: int
    function: Callable[[Payload], Payload]
    place: Place


_upcasters: dict[str, dict[int, Upcaster]] = {}
_today: dict[str, int] = {}


def upcaster(kind: str, *, from_version: int) -> Callable[[F], F]:
    """Register a function from the payload of version ``from_version`` of an event kind to that of the next version.

    ``kind`` is a kernel kind or an application event. The function gets a copy of the payload and must be pure: it is
    run twice on each event, the results are compared, and so is its input with what it was. The result is a dict of
    plain JSON data. It raises ``Unsupported(reason)`` where the older payload cannot be mapped without loss.

    Today's version of the kind is the highest ``from_version`` plus one. Raises UpcastError where that version of the
    kind has an upcaster already, ValueError or TypeError for arguments that cannot be meant.
    """
    if not isinstance(kind, str) or not kind:
        raise TypeError(f'an upcaster is for a kind of event, such as "TOOL_REQUESTED", not {kind!r}')
    if is_kernel_type(kind) and kind not in known_event_types():
        raise ValueError(f"there is no kernel event {printable(kind)}")
    if isinstance(from_version, bool) or not isinstance(from_version, int) or from_version < 1:
        raise ValueError(f"from_version is a whole number from 1 on, not {from_version!r}")

    def register(function: F) -> F:
        _plain_function(function)
        place = Place.here(function)
        steps = _upcasters.setdefault(kind, {})
        other = steps.get(from_version)
        if other is not None and not other.place.is_again(place):
            raise UpcastError(
                f"{printable(kind)} has two upcasters from version {from_version}: {other.place} and {place}",
                hint="One version leads to one next version: remove one, or give it the from_version that it is for.",
            )
        steps[from_version] = Upcaster(kind, from_version, function, place)
        _today[kind] = max(steps) + 1
        read_anew()
        return function

    return register


def registered() -> list[Upcaster]:
    """All upcasters, by kind and version."""
    return [steps[version] for _, steps in sorted(_upcasters.items()) for version in sorted(steps)]


def has_upcasters() -> bool:
    """Whether there is any."""
    return bool(_today)


@contextmanager
def isolated_upcasters() -> Iterator[None]:
    """Start with no upcaster, and forget at the end those registered within: for tests."""
    global _upcasters, _today
    before = _upcasters, _today
    _upcasters, _today = {}, {}
    read_anew()
    try:
        yield
    finally:
        _upcasters, _today = before
        read_anew()


def current_version(kind: str) -> int:
    """Today's version of an event kind: what its upcasters lead to, 1 without any. New events are written in it."""
    return _today.get(kind, 1)


def upcast_events(events: Sequence[Event]) -> Sequence[Event]:
    """The events in today's versions; those that are so already are the same objects.

    Raises UpcastError or UnknownSchemaVersion as ``upcast_event`` does.
    """
    today = _today
    if not today and not [event for event in events if event.event_version != 1]:
        return events  # without upcasters one look at each version is all that it costs
    return [event if event.event_version == today.get(event.event_type, 1) else upcast_event(event) for event in events]


def upcast_event(event: Event) -> Event:
    """The event in today's version of its kind, in memory; itself where it is so already.

    Raises UpcastError, naming file, line, execution and the chain, where there is no pure way to today's version;
    UnknownSchemaVersion where the version is newer than today's, or is none.
    """
    kind, version, today = event.event_type, event.event_version, current_version(event.event_type)
    if version == today or (is_kernel_type(kind) and kind not in known_event_types()):
        return event  # what is to be done about a kind that is not known, the fold says
    if version < 1 or version > today:
        raise _unknown(event, today)
    steps = _upcasters[kind]
    payload = event.payload
    for number in range(version, today):
        step = steps.get(number)
        if step is None:
            raise _gap(event, number, steps)
        try:
            payload = run_pure(step.function, payload, "payload")
            if not isinstance(payload, dict):
                raise Refused(f"returned a {type(payload).__name__}, not an object (a dict)", "Return the new payload.")
        except Refused as problem:
            what = f"the upcaster of {printable(kind)} from version {number} to {number + 1} ({step.place})"
            shown = _chain(version, steps, broken=number)
            raise event.error(f"{what} {problem.what} ({shown})", hint=problem.hint, kind=UpcastError) from (
                problem.__cause__
            )
    return msgspec.structs.replace(event, event_version=today, raw=msgspec.Raw(plain_text(payload, "payload")))


def _unknown(event: Event, today: int) -> LogError:
    kind, version = printable(event.event_type), event.event_version
    if version < 1:
        what, hint = f"{kind} has version {version}, and versions count from 1", "Nothing is guessed."
    else:
        what = f"{kind} has version {version}, and today's newest is {today}"
        hint = (
            "Read it with the code that wrote it; nothing is guessed. If today's code knows that version, what "
            f'registers @upcaster("{kind}", from_version={version - 1}) is not imported here.'
        )
    return event.error(what, hint=hint, kind=UnknownSchemaVersion)


def _gap(event: Event, number: int, steps: dict[int, Upcaster]) -> LogError:
    kind = printable(event.event_type)
    return event.error(
        f"no upcaster takes {kind} from version {number} to {number + 1} ({_chain(event.event_version, steps)})",
        hint=f'Register one with @upcaster("{kind}", from_version={number}), or let the code that wrote the run '
        "finish it; nothing is guessed.",
        kind=UpcastError,
    )


def _chain(start: int, steps: dict[int, Upcaster], broken: int = 0) -> str:
    """``chain: 1 -> 2 -> ? -> 4``: from ``start`` to today's version, ? for what no (working) upcaster leads to."""
    leading = {version for version in steps if version >= start}
    versions = {start, start + 1}.union(*({version, version + 1} for version in leading))
    reached = {start, *(version + 1 for version in leading if version != broken)}
    return f"chain: {chain_text(sorted(versions), lambda version: version not in reached)}"


def _plain_function(function: object) -> None:
    if not callable(function):
        raise TypeError(f"{function!r} is no function")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{function!r} is async or a generator; a plain function from payload to payload is needed")
