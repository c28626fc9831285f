"""Matching two sequences: what stayed, what is gone, what is new, what moved.

Logs repeat few keys, so longest-block-first (difflib) degenerates on them; this is Myers' greedy O(ND) algorithm with
a bound on D. All functions take plain sequences and give plain index pairs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Pair = tuple[int, int]
Row = tuple[int | None, int | None]
"""One row of a script: both indexes of a pair, or one side alone (gone or new)."""

BUDGET = 256
"""Edits that one round of Myers may spend. A round that runs out keeps its furthest path, and the next starts there."""

MAX_WORK = 4_000_000
"""Items times budget of one alignment, roughly: very long sequences get a smaller budget (a second at worst)."""

MAX_ASKED = 1_000_000
"""Pairs that ``assign`` may ask about."""


def align(
    golden: Sequence[str], candidate: Sequence[str], confirm: Callable[[int, int], bool] | None = None
) -> list[Pair]:
    """Index pairs of a longest common subsequence of two key sequences, increasing on both sides.

    Keys that differ never pair; ``confirm(i, j)`` may refuse a pair of equal keys. Exact while the sequences differ in
    at most BUDGET of the items whose keys occur on both sides (fewer where there are tens of thousands), else a good
    common subsequence. Swapping the arguments swaps the pairs.
    """
    if (len(golden), list(golden)) > (len(candidate), list(candidate)):
        flipped = None if confirm is None else lambda j, i: confirm(i, j)
        return [(i, j) for j, i in _align(candidate, golden, flipped)]
    return _align(golden, candidate, confirm)


def align_by(
    n: int,
    m: int,
    agree: Callable[[int, int], bool],
    golden_key: Callable[[int], str],
    candidate_key: Callable[[int], str],
    *,
    exact: bool,
) -> list[Pair]:
    """``align`` for items whose keys are dear: asked for only between the common start and the common end.

    ``exact`` says that items with equal keys agree; else ``agree`` is asked about each such pair, once.
    """
    shorter = min(n, m)
    start = next((i for i in range(shorter) if not agree(i, i)), shorter)
    end = next((k for k in range(shorter - start) if not agree(n - k - 1, m - k - 1)), shorter - start)
    asked: dict[Pair, bool] = {}

    def confirm(i: int, j: int) -> bool:
        if (i, j) not in asked:
            asked[i, j] = agree(start + i, start + j)
        return asked[i, j]

    middle = align(
        [golden_key(i) for i in range(start, n - end)],
        [candidate_key(j) for j in range(start, m - end)],
        None if exact else confirm,
    )
    return [
        *((i, i) for i in range(start)),
        *((start + i, start + j) for i, j in middle),
        *((n - k, m - k) for k in range(end, 0, -1)),
    ]


def match_keys(
    golden: Sequence[str], candidate: Sequence[str], confirm: Callable[[int, int], bool] | None = None
) -> dict[int, int]:
    """The most pairs of equal keys in any order, as ``{golden index: candidate index}``, no index used twice.

    ``confirm(i, j)`` may refuse a pair of equal keys.
    """
    here: dict[str, list[int]] = {}
    there: dict[str, list[int]] = {}
    for keys, places in ((golden, here), (candidate, there)):
        for index, key in enumerate(keys):
            places.setdefault(key, []).append(index)
    pairs: dict[int, int] = {}
    for key, left in here.items():
        right = there.get(key, [])
        if confirm is None:
            pairs.update(zip(left, right, strict=False))
        else:
            found = assign(len(left), len(right), lambda i, j: confirm(left[i], right[j]))  # noqa: B023
            pairs.update((left[i], right[j]) for i, j in found.items())
    return pairs


def script(
    pairs: Sequence[Pair], n: int, m: int, pair_up: Callable[[range, range], list[Pair]] | None = None
) -> list[Row]:
    """Every index of both sides once, in order: the pairs, and between them what is gone or new.

    Where something was replaced, ``pair_up(golden, candidate)`` says which items of the two ranges belong together,
    increasing on both sides; by default the first with the first, and so on.
    """
    rows: list[Row] = []
    x = y = 0
    for i, j in [*pairs, (n, m)]:
        if x < i and y < j:
            replaced = pair_up(range(x, i), range(y, j)) if pair_up else zip(range(x, i), range(y, j), strict=False)
            for k, l in replaced:  # noqa: E741
                rows += [(gone, None) for gone in range(x, k)]
                rows += [(None, new) for new in range(y, l)]
                rows.append((k, l))
                x, y = k + 1, l + 1
        rows += [(gone, None) for gone in range(x, i)]
        rows += [(None, new) for new in range(y, j)]
        if i < n or j < m:
            rows.append((i, j))
        x, y = i + 1, j + 1
    return rows


def longest_increasing(numbers: Sequence[int]) -> set[int]:
    """Indexes of a longest strictly increasing subsequence: what stayed in order; all others moved."""
    tails: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for index, number in enumerate(numbers):
        place = bisect_left(tails, number)
        before.append(holders[place - 1] if place else -1)
        if place == len(tails):
            tails.append(number)
            holders.append(index)
        else:
            tails[place], holders[place] = number, index
    kept: set[int] = set()
    index = holders[-1] if holders else -1
    while index >= 0:
        kept.add(index)
        index = before[index]
    return kept


def assign(n: int, m: int, fits: Callable[[int, int], bool], known: Mapping[int, int] | None = None) -> dict[int, int]:
    """The most pairs (i, j) with ``fits(i, j)`` in which no index is used twice, as ``{i: j}``.

    Taking the first that fits is not enough where "fits" is not transitive (a tolerance, a subset of arguments), so
    pairs are rearranged along augmenting paths. ``known`` are pairs that are known to fit, to start from. Each pair is
    asked about once, and at most MAX_ASKED are; beyond that none fits.
    """
    asked: dict[Pair, bool] = {}

    def fit(i: int, j: int) -> bool:
        if (i, j) not in asked and len(asked) < MAX_ASKED:
            asked[i, j] = fits(i, j)
        return asked.get((i, j), False)

    partner = dict(known or {})
    owner = {j: i for i, j in partner.items()}
    free = [j for j in range(m) if j not in owner]
    for i in range(n):
        if i not in partner:
            place = next((place for place, j in enumerate(free) if fit(i, j)), None)
            if place is not None:
                partner[i] = free[place]
                owner[free.pop(place)] = i
    for root in [i for i in range(n) if i not in partner] if free else ():
        _augment(root, range(m), fit, partner, owner)
    return partner


def _augment(
    root: int, columns: Iterable[int], fit: Callable[[int, int], bool], partner: dict[int, int], owner: dict[int, int]
) -> None:
    """Give ``root`` a partner by rearranging others, breadth first, where that is possible."""
    reached: dict[int, int] = {}
    left = list(columns)
    queue = [root]
    for i in queue:
        there = [j for j in left if fit(i, j)]
        reached.update(dict.fromkeys(there, i))
        left = [j for j in left if j not in reached]
        for j in there:
            if j in owner:
                queue.append(owner[j])
                continue
            while True:
                i = reached[j]
                before = partner.get(i)
                partner[i], owner[j] = j, i
                if before is None:
                    return
                j = before


def _align(a: Sequence[str], b: Sequence[str], confirm: Callable[[int, int], bool] | None) -> list[Pair]:
    def agree(i: int, j: int) -> bool:
        return a[i] == b[j] and (confirm is None or confirm(i, j))

    pairs: list[Pair] = []
    left: Sequence[int] = range(len(a))
    right: Sequence[int] = range(len(b))
    while left and right:
        # A key that occurs on one side only cannot pair: what is left without those is short, the result the same.
        there, here = {b[j] for j in right}, {a[i] for i in left}
        left, right = [i for i in left if a[i] in there], [j for j in right if b[j] in here]
        budget = max(32, min(BUDGET, MAX_WORK // (len(left) + len(right) + 1)))
        x, y = _round(left, right, agree, budget, pairs)
        left, right = left[x:], right[y:]
    return pairs


def _round(
    left: Sequence[int], right: Sequence[int], agree: Callable[[int, int], bool], budget: int, pairs: list[Pair]
) -> Pair:
    """Myers from the start until the end of both or of the budget: adds the pairs, returns how far it came."""
    n, m = len(left), len(right)
    middle = budget + 1
    furthest = [0] * (2 * budget + 3)
    trace: list[list[int]] = []
    best_x = best_y = best_d = 0
    for d in range(budget + 1):
        trace.append(furthest.copy())
        for k in range(-d + 2 * max(0, d - m), d - 2 * max(0, d - n) + 1, 2):
            below, above = furthest[middle + k - 1], furthest[middle + k + 1]
            x = above if k == -d or (k != d and below < above) else below + 1
            y = x - k
            while x < n and y < m and agree(left[x], right[y]):
                x += 1
                y += 1
            furthest[middle + k] = x
            if best_x + best_y < x + y and x <= n and y <= m:
                best_x, best_y, best_d = x, y, d
        if best_x == n and best_y == m:
            break
    found = [(left[x], right[y]) for x, y in _backtrack(trace[: best_d + 1], best_x, best_y)]
    pairs += reversed(found)
    return best_x, best_y


def _backtrack(trace: Sequence[Sequence[int]], x: int, y: int) -> Iterator[Pair]:
    """The diagonals of the path to (x, y), from its end to its start."""
    middle = len(trace[0]) // 2
    for d in range(len(trace) - 1, -1, -1):
        furthest = trace[d]
        k = x - y
        below, above = furthest[middle + k - 1], furthest[middle + k + 1]
        down = k == -d or (k != d and below < above)
        back_x = above if down else below
        back_y = back_x - (k + 1 if down else k - 1)
        if d == 0:
            back_x = back_y = 0
        while x > back_x and y > back_y:
            x -= 1
            y -= 1
            yield x, y
        x, y = back_x, back_y
