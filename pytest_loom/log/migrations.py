"""Migrations: a saved state, plan or tool argument carried from one version to another (DESIGN section 5, seed 003).

    @migration("state", from_version=2, inverse=to_v2)
    def to_v3(state):
        return {**state, "currency": "EUR"}

    migration("tool:pay", from_version=1)(rename("amount", "cents"))

Each version has one migration to a next one; they chain, and back through their inverses. Fails closed: a gap, and a
migration that raises, is not pure, does not round trip or finds no lossless way (``raise Unsupported(reason)``) are an
error, and nothing is filled in. For a run's state that is StateMigrationError, ADR 0056's word for a state that cannot
be carried to today's shape; for plans and tool arguments it is its base, MigrationError.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pytest_loom.errors import MigrationError, StateMigrationError, printable
from pytest_loom.log.pure import Place, Refused, chain_text, first_difference, plain_copy, run_pure, version_text

Version = int | str
"""What a state, plan or tool schema says of itself. Compared exactly: 3 and "3" are two versions."""

Function = Callable[[Any], Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Migration:
    """One step of a chain: ``function`` takes a value from ``from_version`` to ``to_version``.

    ``inverse`` takes it back, None where there is no way back. ``backwards`` is set where this is the inverse of the
    step that was registered at ``place``.
    """

    what: str
    from_version: Version
    to_version: Version
    function: Function
    inverse: Function | None
    place: Place
    backwards: bool = False

    def turned(self) -> Migration | None:
        """The same step the other way."""
        if self.inverse is None:
            return None
        return Migration(
            self.what, self.to_version, self.from_version, self.inverse, self.function, self.place, not self.backwards
        )

    def __str__(self) -> str:
        inverse = "the inverse of " if self.backwards else ""
        ends = (self.to_version, self.from_version) if self.backwards else (self.from_version, self.to_version)
        return f"{inverse}the migration of {_name(self.what)} {_from_to(*ends)} ({self.place})"


_migrations: dict[str, dict[Version, Migration]] = {}


def migration(
    what: str, *, from_version: Version, to_version: Version | None = None, inverse: Function | None = None
) -> Callable[[F], F]:
    """Register a function from values of version ``from_version`` to ``to_version`` (by default the next number).

    ``what`` is "state", "plan" or "tool:NAME" (that tool's arguments). The function and its ``inverse``, from the new
    value back to the old one, get a copy and must be pure: each is run twice, the results are compared, and so is the
    input with what it was. They give plain JSON data, never None, and raise ``Unsupported(reason)`` where there is no
    lossless way. Without ``inverse`` that of a change from ``pytest_loom.resume.helpers`` is taken.

    Raises MigrationError where that version has a migration already, ValueError or TypeError for arguments that cannot
    be meant.
    """
    if not isinstance(what, str) or not (what in ("state", "plan") or (what.startswith("tool:") and what != "tool:")):
        raise ValueError(f'a migration is for "state", "plan" or "tool:NAME", not {what!r}')
    if not _is_version(from_version) or not (to_version is None or _is_version(to_version)):
        raise TypeError(f"a version is a whole number or a text, not {from_version!r} or {to_version!r}")
    if to_version is not None:
        end: Version = to_version
    elif isinstance(from_version, int):
        end = from_version + 1
    else:
        raise ValueError(f'after "{from_version}" comes no next number: say to_version as well')
    if end == from_version:
        raise ValueError(f"a migration from {from_version!r} to itself changes nothing")

    def register(function: F) -> F:
        back = inverse if inverse is not None else getattr(function, "inverse", None)
        for part in (function, back):
            if part is not None and (
                not callable(part) or inspect.iscoroutinefunction(part) or inspect.isgeneratorfunction(part)
            ):
                raise TypeError(f"{part!r} is no plain function from value to value")
        place = Place.here(function)
        steps = _migrations.setdefault(what, {})
        other = steps.get(from_version)
        if other is not None and not other.place.is_again(place):
            raise MigrationError(
                f"two migrations take {_name(what)} from version {version_text(from_version)}: "
                f"{other.place} and {place}",
                hint="One version leads to one next version: remove one. The way back is the inverse of the way there.",
            )
        steps[from_version] = Migration(what, from_version, end, function, back, place)
        return function

    return register


def registered() -> list[Migration]:
    """All migrations, by what they are for and in the order of their registration."""
    return [step for _, steps in sorted(_migrations.items()) for step in steps.values()]


@contextmanager
def isolated_migrations() -> Iterator[None]:
    """Start with no migration, and forget at the end those registered within: for tests."""
    global _migrations
    before, _migrations = _migrations, {}
    try:
        yield
    finally:
        _migrations = before


def chain(what: str, from_version: Any, to_version: Any) -> list[Migration] | None:
    """The migrations that lead from one version to another, in order; [] between equal ones, None without a way."""
    if not (_is_version(from_version) and _is_version(to_version)):
        return None
    steps, end = _walk(what, from_version, to_version)
    if end == to_version:
        return steps
    steps, end = _walk(what, to_version, from_version)
    if end != from_version:
        return None
    turned = [step.turned() for step in reversed(steps)]
    found = [step for step in turned if step is not None]
    return found if len(found) == len(turned) else None


def migrate(what: str, value: Any, from_version: Any, to_version: Any, *, verify: bool = True) -> Any:
    """``value`` in another version: a new value, by the chain of registered migrations; ``value`` stays as it is.

    With ``verify`` each step that has an inverse is also taken back and compared: what does not round trip was not
    lossless. Raises StateMigrationError for "state" and MigrationError for the rest, showing the chain, where there is
    no chain between the two versions, where a step fails its proof, and where the value is not plain JSON data.
    """
    steps = chain(what, from_version, to_version)
    if steps is None:
        raise _no_chain(what, from_version, to_version)
    try:
        result = plain_copy(value, _root(what))
    except Refused as problem:
        raise _error(what)(f"{_name(what)} to be migrated holds {problem.what}", hint=problem.hint) from None
    for number, step in enumerate(steps):
        before = result
        try:
            result = run_pure(step.function, before, _root(what))
        except Refused as problem:
            raise _failed(step, steps, number, problem.what, problem.hint) from problem.__cause__
        if verify and step.inverse is not None:
            _check_round_trip(step, step.inverse, steps, number, before, result)
    return result


def _check_round_trip(
    step: Migration, inverse: Function, steps: list[Migration], number: int, before: Any, result: Any
) -> None:
    hint = "What cannot be taken back was not lossless: mend the two ways, or register one without an inverse."
    try:
        again = run_pure(inverse, result, _root(step.what))
    except Refused as problem:
        what = f"does not round trip: the way back {problem.what}"
        raise _failed(step, steps, number, what, hint) from problem.__cause__
    path = first_difference(before, again, _root(step.what))
    if path is not None:
        raise _failed(step, steps, number, f"does not round trip: taken back, {path} is not what it was", hint)


def _walk(what: str, start: Version, goal: Version) -> tuple[list[Migration], Version]:
    """The steps from one version on, up to the goal or to where there are no more; and the version they end at."""
    steps: list[Migration] = []
    known = _migrations.get(what, {})
    at, seen = start, {start}
    while at != goal and at in known and known[at].to_version not in seen:
        steps.append(known[at])
        at = known[at].to_version
        seen.add(at)
    return steps, at


def _failed(step: Migration, steps: list[Migration], number: int, what: str, hint: str) -> MigrationError:
    versions: list[Any] = [steps[0].from_version, *(each.to_version for each in steps)]
    versions[number + 1] = None
    return _error(step.what)(f"{step} {what} ({_shown(versions)})", hint=hint)


def _no_chain(what: str, start: Any, goal: Any) -> MigrationError:
    """Why nothing leads from one version to another: one is no version, or an inverse or a migration is missing."""
    error = _error(what)
    for version in (start, goal):
        if not _is_version(version):
            said = f"has the version {version_text(version)}, which is neither a whole number nor a text"
            return error(
                f"{_name(what)} {'says no version' if version is None else said}",
                hint="Without a version nothing is known of it, and nothing is guessed.",
            )
    up, end = _walk(what, goal, start)
    if end == start:  # there is a way, but only from the goal to here
        versions: list[Any] = [start, *(step.from_version for step in reversed(up))]
        number, step = next(found for found in enumerate(reversed(up)) if found[1].inverse is None)
        versions[number + 1] = None
        return error(
            f"{step} has no inverse, so nothing leads back ({_shown(versions)})",
            hint="Give it an inverse where there is a lossless one; else let the newer code finish the run.",
        )
    steps, end = _walk(what, start, goal)
    if isinstance(end, int) and isinstance(goal, int) and end > goal:
        versions = [start, *(step.to_version for step in steps), None, goal]
        return error(
            f"no migration takes {_name(what)} back {_from_to(end, goal)} ({_shown(versions)})",
            hint="Newer code wrote it: let that finish the run, or register a way back with "
            f'@migration("{printable(what)}", from_version={end}, to_version={goal}); nothing is guessed.',
        )
    versions = [start, *(step.to_version for step in steps), None, *_leading_to(what, goal)]
    target, arguments = goal, f"from_version={end!r}, to_version={goal!r}"
    if isinstance(end, int) and isinstance(goal, int) and end < goal:
        target, arguments = end + 1, f"from_version={end}"
    return error(
        f"no migration takes {_name(what)} {_from_to(end, target)} ({_shown(versions)})",
        hint=f'Register one with @migration("{printable(what)}", {printable(arguments)}), or let the code that wrote '
        "it finish the run; nothing is guessed.",
    )


def _leading_to(what: str, goal: Version) -> list[Version]:
    """The versions that lead to a goal, the farthest first and the goal last."""
    versions = [goal]
    while True:
        before = [step.from_version for step in _migrations.get(what, {}).values() if step.to_version == versions[0]]
        if len(before) != 1 or before[0] in versions:
            return versions
        versions.insert(0, before[0])


def _shown(versions: list[Any]) -> str:
    return f"chain: {chain_text(versions, lambda version: version is None)}"


def _from_to(start: Version, end: Version) -> str:
    return f"from version {version_text(start)} to {version_text(end)}"


def _error(what: str) -> type[MigrationError]:
    return StateMigrationError if what == "state" else MigrationError


def _name(what: str) -> str:
    return f"the arguments of {printable(what[5:])}" if what.startswith("tool:") else printable(what)


def _root(what: str) -> str:
    """What paths into the value begin with."""
    return "args" if what.startswith("tool:") else what


def _is_version(version: object) -> bool:
    return isinstance(version, (int, str)) and not isinstance(version, bool)
