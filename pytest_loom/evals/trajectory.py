"""Matching the path of a run against a reference path, in the four modes of LangChain's agentevals.

Their definitions (https://github.com/langchain-ai/agentevals): ``strict`` the same calls in the same order,
``unordered`` the same calls in any order, ``superset`` at least the reference's calls, ``subset`` none beyond them.
Two things are done more strictly: the arguments are always compared as (actual, reference), in ``subset`` too, and
calls are matched so that the most fit, not first come first served, so the order of calls cannot spoil a match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from pytest_loom.errors import printable
from pytest_loom.evals.align import assign, match_keys
from pytest_loom.evals.paths import Rules
from pytest_loom.evals.values import MISSING, key_of, same, short
from pytest_loom.log.event import Log
from pytest_loom.state import ExecutionState

Mode = Literal["strict", "unordered", "subset", "superset"]
Over = Literal["steps", "tools"]
ArgsMode = Literal["exact", "ignore", "subset", "superset"]
ArgsMatcher = Callable[[Any, Any], bool]
Reference = Log | ExecutionState | Iterable[str | tuple[str, Any]]

_EXACT = Rules()


class Move(NamedTuple):
    """One step or tool call: its name and what it was given (MISSING where the reference does not say)."""

    name: str
    args: Any

    def __str__(self) -> str:
        return printable(self.name) if self.args is MISSING else f"{printable(self.name)}({short(self.args)})"


def moves(run: Reference, over: Over = "steps") -> list[Move]:
    """The path of a run, in order of their start: step ids and inputs, or tool names and arguments."""
    if isinstance(run, Log):
        run = run.state
    if isinstance(run, ExecutionState):
        if over == "steps":
            return [Move(frame.step_id, frame.input) for frame in run.frames.values()]
        return [Move(call.name, call.args) for call in run.calls if call.kind == "tool"]
    if isinstance(run, str) or not isinstance(run, Iterable):
        raise ValueError(f"a reference is a Log, an ExecutionState or a list of names or (name, args), not {run!r}")
    return [_move(entry) for entry in run]


def match_problem(
    actual: Sequence[Move],
    reference: Sequence[Move],
    mode: Mode,
    args: ArgsMode | ArgsMatcher = "exact",
    overrides: Mapping[str, ArgsMode | ArgsMatcher] | None = None,
) -> str:
    """Why the path does not match the reference path, "" where it does.

    ``args`` says how arguments compare: ``exact``; ``ignore``; ``subset``, each of the call's is the reference's;
    ``superset``, each of the reference's is the call's; or a function (actual, reference) -> bool. ``overrides`` says
    otherwise for some names. Raises ValueError naming a mode that it does not know.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode {mode!r} is none of {', '.join(get_args(Mode))}")
    matcher = _matcher(args)
    special = {name: _matcher(how) for name, how in (overrides or {}).items()}

    def fits(i: int, j: int) -> bool:
        mine, wanted = actual[i], reference[j]
        if mine.name != wanted.name:
            return False
        return wanted.args is MISSING or bool(special.get(mine.name, matcher)(mine.args, wanted.args))

    if mode == "strict":
        return _strict_problem(actual, reference, fits)
    pairs = _assigned(actual, reference, fits)
    problems = []
    if mode != "subset":
        lost = set(range(len(reference))) - set(pairs.values())
        problems += [f"missing {reference[j]}" for j in sorted(lost)[:3]]
    if mode != "superset":
        problems += [f"not in the reference: {actual[i]}" for i in range(len(actual)) if i not in pairs][:3]
    return "; ".join(problems)


def _strict_problem(actual: Sequence[Move], reference: Sequence[Move], fits: Callable[[int, int], bool]) -> str:
    for index in range(max(len(actual), len(reference))):
        if index >= len(reference):
            return f"{index + 1}: {actual[index]} comes after the end of the reference"
        if index >= len(actual):
            return f"{index + 1}: missing {reference[index]}"
        if not fits(index, index):
            return f"{index + 1}: expected {reference[index]}, got {actual[index]}"
    return ""


def _assigned(actual: Sequence[Move], reference: Sequence[Move], fits: Callable[[int, int], bool]) -> dict[int, int]:
    """The most pairs of an actual and a reference call, name by name, from those with equal arguments on."""
    have, want = ([f"{move.name!r} {key_of(move.args, _EXACT)}" for move in path] for path in (actual, reference))
    equal = {i: j for i, j in match_keys(have, want).items() if fits(i, j)}
    pairs: dict[int, int] = {}
    for name in dict.fromkeys(move.name for move in actual):
        mine = [i for i, move in enumerate(actual) if move.name == name]
        wanted = [j for j, move in enumerate(reference) if move.name == name]
        rank = {j: place for place, j in enumerate(wanted)}
        known = {place: rank[equal[i]] for place, i in enumerate(mine) if i in equal}
        found = assign(len(mine), len(wanted), lambda i, j: fits(mine[i], wanted[j]), known)  # noqa: B023
        pairs.update((mine[i], wanted[j]) for i, j in found.items())
    return pairs


def _move(entry: object) -> Move:
    if isinstance(entry, str):
        return Move(entry, MISSING)
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str):
        from pydantic_core import to_jsonable_python

        return Move(entry[0], to_jsonable_python(entry[1]))
    raise ValueError(f"an entry of a reference is a name or (name, args), not {entry!r}")


def _matcher(how: ArgsMode | ArgsMatcher) -> ArgsMatcher:
    if callable(how):
        return how
    if how not in _MATCHERS:
        raise ValueError(f"args {how!r} is none of {', '.join(_MATCHERS)}, nor a function")
    return _MATCHERS[how]


def _within(part: Any, whole: Any) -> bool:
    """Whether each named value of ``part`` is the same in ``whole``; what has no names has to be the same."""
    if not isinstance(part, dict) or not isinstance(whole, dict):
        return same(part, whole)
    return all(key in whole and same(value, whole[key]) for key, value in part.items())


_MATCHERS: dict[str, ArgsMatcher] = {
    "exact": same,
    "ignore": lambda actual, reference: True,
    "subset": _within,
    "superset": lambda actual, reference: _within(reference, actual),
}
