"""Mutants of a golden log: each is the log with one thing changed that a test which looks would notice.

Which ones there are follows from the log alone, so that every run makes the same. At most MOST of an operator are
made; which, a hash of what they are decides, each step having its turn before any has a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from pytest_loom.errors import LogError, printable
from pytest_loom.evals.diff import diff_runs
from pytest_loom.evals.effects import effects_of
from pytest_loom.evals.operators import MAKERS, Mutant
from pytest_loom.log.event import Log

__all__ = ["MOST", "Mutant", "equivalent", "is_sampled", "mutants_of", "mutated"]

MOST = 16
"""How many mutants an operator makes of one log."""

MOST_SEEN = 10_000
"""How many it chooses from."""


def mutants_of(log: Log) -> list[Mutant]:
    """The mutants of a log, operator by operator. Raises LogError where the log cannot be read."""
    effects = effects_of(log.events)
    found: list[Mutant] = []
    for make in MAKERS:
        found += _chosen(islice(make(log, effects), MOST_SEEN))
    return found


def is_sampled(log: Log) -> bool:
    """Whether the log has steps, tools and models of which there is no mutant, because there are so many."""
    return len({effect.about for effect in effects_of(log.events)}) > MOST


def mutated(log: Log, mutant: Mutant) -> Log | None:
    """The log as the mutant has it, numbered anew; None where it would be no log."""
    try:
        events = [
            event if event.sequence == number else msgspec.structs.replace(event, sequence=number)
            for number, event in enumerate(mutant.events(), 1)
        ]
        made = Log(events, path=log.path, source=log.source, engine=log.engine, live=log.live, notices=log.notices)
        _ = made.state
    except LogError:
        return None
    return made


def equivalent(log: Log, mutant: Mutant, rules: Iterable[Mapping[str, Any]]) -> str:
    """Why nobody has to notice a mutant; "" where there is no such reason.

    ``rules`` are those (arguments of ``diff_runs``) that tests compare the golden under.
    """
    changed = mutated(log, mutant)
    golden = Log(log.events, path=log.path, source=log.source, engine=log.engine)
    if mutant.excuse or changed is None or not diff_runs(golden, changed, compare="all"):
        return mutant.excuse
    for one in rules:
        left_out = {name: value for name, value in one.items() if name != "compare" and value}
        if left_out and not diff_runs(golden, changed, compare="all", **left_out):
            said = printable(", ".join(f"{name}={_said(value)}" for name, value in left_out.items()), 200)
            return f"the tests leave it out on purpose: {said}"
    return ""


def _said(value: Any) -> str:
    return repr(dict.fromkeys(value, "…") if isinstance(value, Mapping) else value)


def _chosen(candidates: Iterable[Mutant]) -> list[Mutant]:
    """At most MOST, in the log's order: the first of everything, then the second, each kind of thing in hash order."""
    all_of_them = list({one.name: one for one in candidates}.values())
    if len(all_of_them) <= MOST:
        return all_of_them
    groups: dict[str, list[Mutant]] = {}
    for one in all_of_them:
        groups.setdefault(one.about, []).append(one)
    ranked = [
        (rank, _digest(one.name), one.name)
        for group in groups.values()
        for rank, one in enumerate(sorted(group, key=lambda one: _digest(one.name)))
    ]
    kept = {name for _, _, name in sorted(ranked)[:MOST]}
    return [one for one in all_of_them if one.name in kept]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
