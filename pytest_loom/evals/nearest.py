"""Which changed items of two lists belong together: DeepDiff's distance decides, within bounds.

A distance costs 0.1 to 5 ms, so DeepDiff is asked only about few and small items, and only so often in one diff
(``Rules.distances``); beyond that the first pairs with the first. What is reported about a pair never comes from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pytest_loom.evals.align import Pair
from pytest_loom.evals.paths import Rules

_MAX_PAIRS = 64
_MAX_ITEM = 64
_MAX_DEPTH = 16


def nearest_in_order(golden: Sequence[Any], candidate: Sequence[Any], rules: Rules) -> list[Pair]:
    """Index pairs of items that belong together, as many as the shorter side has, increasing on both sides."""
    if len(golden) > len(candidate):
        return [(i, j) for j, i in nearest_in_order(candidate, golden, rules)]
    costs = None if len(golden) == len(candidate) else _distances(golden, candidate, rules)
    return [(i, i) for i in range(len(golden))] if costs is None else _cheapest(costs)


def nearest(golden: Sequence[Any], candidate: Sequence[Any], rules: Rules) -> list[Pair]:
    """Index pairs of items that belong together, as many as the shorter side has, in any order: nearest first."""
    costs = _distances(golden, candidate, rules)
    if costs is None:
        return [(i, i) for i in range(min(len(golden), len(candidate)))]
    # Ties go by i + j, then by |i - j|: the same pairs whichever side is called golden.
    ranked = sorted((cost, i + j, abs(i - j), i, j) for i, row in enumerate(costs) for j, cost in enumerate(row))
    taken: dict[int, int] = {}
    used: set[int] = set()
    for _, _, _, i, j in ranked:
        if i not in taken and j not in used:
            taken[i] = j
            used.add(j)
    return sorted(taken.items())


def _cheapest(costs: list[list[float]]) -> list[Pair]:
    """Every row with one column, in order, at the least total cost; there are at least as many columns as rows."""
    n, m = len(costs), len(costs[0])
    best = [[0.0] * (m + 1)] + [[float("inf")] * (m + 1) for _ in range(n)]
    for i in range(1, n + 1):
        for j in range(i, m + 1):
            best[i][j] = min(best[i][j - 1], best[i - 1][j - 1] + costs[i - 1][j - 1])
    pairs: list[Pair] = []
    i, j = n, m
    while i:
        while best[i][j - 1] <= best[i][j]:
            j -= 1
        i, j = i - 1, j - 1
        pairs.append((i, j))
    return pairs[::-1]


def _distances(golden: Sequence[Any], candidate: Sequence[Any], rules: Rules) -> list[list[float]] | None:
    """How far each golden item is from each candidate item (0 to 1), or None where that would cost too much."""
    asked = len(golden) * len(candidate)
    if not 1 < asked <= min(_MAX_PAIRS, rules.distances) or not all(map(_is_small, [*golden, *candidate])):
        return None
    rules.distances -= asked
    return [[_distance(one, other) for other in candidate] for one in golden]


def _distance(one: Any, other: Any) -> float:
    from deepdiff import DeepDiff

    # DeepDiff's distance depends on the side; ordering the two makes it the same both ways.
    if msgspec.json.encode(one) > msgspec.json.encode(other):
        one, other = other, one
    try:
        return float(DeepDiff(one, other, get_deep_distance=True).get("deep_distance", 0.0))
    except Exception:  # a hint for pairing must never fail a diff
        return 1.0


def _is_small(value: Any) -> bool:
    size = 0
    level = [value]
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            size += 1 + (len(item) // 64 if isinstance(item, str) else 0)
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        if size + len(below) > _MAX_ITEM:
            return False
        if not below:
            return True
        level = below
    return False
