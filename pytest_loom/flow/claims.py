"""Which recorded branch a concurrent branch of today's code is.

Ordinarily the one with its own number: both count in the order in which branches are created. But libraries start
tasks and threads of their own, now more and now fewer of them, and those count too. So a branch whose first effect is
not that of its number may be a later or an earlier one that begins so, as long as branches keep their order: two that
changed places are a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_loom.flow.history import Effect, EffectKind

if TYPE_CHECKING:
    from pytest_loom.flow.branches import Branch
    from pytest_loom.flow.run import Run


def claim(
    run: Run, branch: Branch, kind: EffectKind, name: str, asked: bytes, again: Callable[[], bytes] | None
) -> None:
    """Settle, at the first effect of a concurrent branch, which recorded branch it is."""
    parent, number, history = branch.parent, branch.number, run.history
    if parent is None or history is None or number in parent.claims:
        return

    def begins_so(effects: list[Effect]) -> bool:
        first = effects[0]
        return first.kind == kind and first.name == name and run.same(first, asked, again)

    own = run.recorded(parent.numbered(number))
    if own and number not in parent.claimed and begins_so(own):
        parent.claims[number] = number
        parent.claimed.add(number)
        return
    recorded, taken = history.children(parent.place), parent.claimed
    for other in recorded:
        if (
            other not in taken
            and _in_order(parent.claims, number, other)
            and begins_so(run.recorded(parent.numbered(other)))
        ):
            parent.claims[number] = other
            parent.claimed.add(other)
            branch.settle(other)
            return
    if number in taken and not run.replaying:  # another has its number: what this one does gets a number of its own
        branch.settle(max([*recorded, *taken, number]) + number)
    parent.claims[number] = int(branch.place[1].rpartition("/")[2]) if branch.place[1] else number
    parent.claimed.add(parent.claims[number])


def _in_order(claims: dict[int, int], number: int, recorded: int) -> bool:
    return all((mine < number) == (theirs < recorded) for mine, theirs in claims.items())
