"""Spans and runs name their parents: here they become a walk through the tree, each with what is under it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.sources.shape import Malformed


def walk(parents: Mapping[str, str], starts: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Every id twice: (True, id) where it begins, (False, id) after all that is under it.

    What has the same parent comes in order of ``starts``, then as given, and one after the other though it ran at the
    same time: so the order does not depend on what finished first. Something whose parent is not there ("" or one that
    was not kept) is a root. Raises Malformed where something is its own ancestor.
    """
    below: dict[str, list[str]] = {"": []}
    for one, parent in parents.items():
        below.setdefault(parent if parent in parents else "", []).append(one)
    for children in below.values():
        children.sort(key=lambda one: starts[one], reverse=True)
    waiting = [(True, one) for one in below[""]]
    seen = 0
    while waiting:
        begins, one = waiting.pop()
        yield begins, one
        if begins:
            seen += 1
            waiting.append((False, one))
            waiting += [(True, child) for child in below.get(one, ())]
    if seen < len(parents):
        raise Malformed(f"{_in_circle(parents)} is its own ancestor")


def _in_circle(parents: Mapping[str, str]) -> str:
    """One of those that are their own ancestors."""
    settled: set[str] = set()
    for start in parents:
        way: dict[str, None] = {}
        one = start
        while one in parents and one not in settled and one not in way:
            way[one] = None
            one = parents[one]
        if one in way:
            return printable(one)
        settled.update(way)
    return "one"
