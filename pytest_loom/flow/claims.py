"""Which recorded branch a concurrent branch of today's code is.

Ordinarily the one with its own number: both count in the order in which branches are created. But libraries start
tasks and threads of their own, now more and now fewer of them, and those count too. So a branch whose first effect is
not that of its number may be a later or an earlier one that begins so, as long as branches keep their order: two that
changed places are a change.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING

from pytest_loom.flow.history import Effect, EffectKind, History

if TYPE_CHECKING:
    from pytest_loom.flow.branches import Branch
    from pytest_loom.flow.run import Run


def claim(
    run: Run, branch: Branch, kind: EffectKind, name: str, asked: bytes, again: Callable[[], bytes] | None
) -> None:
    """Settle, at the first effect of a concurrent branch, which recorded branch it is."""
    parent = branch.parent
    if parent is not None and run.history is not None and branch.number not in parent.claims:
        with run.lock:
            _settle(run, run.history, parent, branch, kind, name, asked, again)


def _settle(
    run: Run,
    history: History,
    parent: Branch,
    branch: Branch,
    kind: EffectKind,
    name: str,
    asked: bytes,
    again: Callable[[], bytes] | None,
) -> None:
    number = branch.number

    def begins_so(effects: list[Effect]) -> bool:
        first = effects[0]
        return first.kind == kind and first.name == name and run.same(first, asked, again)

    own = run.recorded(parent.numbered(number))
    if own and number not in parent.claimed and begins_so(own):
        _claimed(parent, number, number)
        return
    recorded, taken = history.children(parent.place), parent.claimed
    low, high = _between(parent, number)
    for index in range(bisect_right(recorded, low), bisect_left(recorded, high)):
        other = recorded[index]
        if other not in taken and begins_so(run.recorded(parent.numbered(other))):
            _claimed(parent, number, other)
            branch.settle(other)
            return
    if number in taken and not run.replaying:  # another has its number: what this one does gets a number of its own
        branch.settle(max([*recorded, *taken, number]) + number)
    _claimed(parent, number, int(branch.place[1].rpartition("/")[2]) if branch.place[1] else number)


def _claimed(parent: Branch, number: int, recorded: int) -> None:
    """Note which recorded branch a branch is."""
    parent.claims[number] = recorded
    parent.claimed.add(recorded)
    if not parent.order or number > parent.order[-1]:  # the usual case: one after the other
        parent.highest.append(max([recorded, *parent.highest[-1:]]))
        parent.order.append(number)
        return
    insort(parent.order, number)
    parent.highest = list(accumulate((parent.claims[mine] for mine in parent.order), max))


def _between(parent: Branch, number: int) -> tuple[int, int]:
    """The recorded branches above and below which one has to be, so that it keeps its place among the others."""
    index = bisect_left(parent.order, number)
    low = parent.highest[index - 1] if index else -1
    return low, min((parent.claims[mine] for mine in parent.order[index:]), default=sys.maxsize)
