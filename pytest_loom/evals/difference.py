"""One difference between two runs, the list of them, and the differences of two recorded values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pytest_loom.errors import printable
from pytest_loom.evals.paths import Node, Rules, format_path, is_ignored
from pytest_loom.evals.values import MISSING, short, walk
from pytest_loom.log.event import Event, Log, decode

DEFAULT = ("status", "output", "step-output", "step-missing", "step-extra")
"""What ``diff_runs`` compares unless told otherwise: Loom's five kinds."""

KINDS = (*DEFAULT, "step-input", "step-order", "step-error", "tool-args", "suspension", "decision")
"""Everything that ``diff_runs`` can compare; ``compare="all"`` asks for it."""

_sorted_text = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True)
class Difference:
    """One thing in which a candidate run differs from its golden run.

    ``kind`` is one of KINDS; ``step`` the golden step's key (the candidate's for step-extra), the tool's for tool-args,
    "" for the run itself; ``path`` is ``a.b[0].c`` inside the value, "" for all of it. ``golden`` and ``candidate`` are
    the two values as JSON data, MISSING on the side that has none. For step-order they are the key of the step before
    it in either run, None for the first step. Hashable where its values are.
    """

    kind: str
    step: str
    path: str
    golden: Any
    candidate: Any

    def __str__(self) -> str:
        place = " ".join(printable(part) for part in (self.kind, self.step, self.path) if part)
        return f"{place}: {short(self.golden)} -> {short(self.candidate)}"


class Differences(list[Difference]):
    """The differences of two runs as an ordinary list, which also knows the two logs so that a report can name them."""

    def __init__(self, golden: Log, candidate: Log, found: Iterable[Difference] = ()) -> None:
        super().__init__(found)
        self.golden = golden
        self.candidate = candidate


def leaves(
    kind: str,
    step: str,
    golden: Any,
    candidate: Any,
    events: Sequence[Event],
    rules: Rules,
    node: Node | None,
    *,
    prefix: tuple[str, ...] = (),
) -> Iterator[Difference]:
    """The differences of two values that are JSON text as recorded (b"" where there is none), one a leaf.

    ``events`` are the two events that hold them; LogError names one that cannot be decoded.
    """
    if golden == candidate or is_ignored(node):
        return
    one, other = decoded(golden, events[0]), decoded(candidate, events[1])
    if _same_text(one, other):
        return
    for path, mine, theirs in walk(one, other, rules, node):
        yield Difference(kind, step, format_path((*prefix, *path)), mine, theirs)


def decoded(raw: Any, event: Event) -> Any:
    """A recorded value as plain data, MISSING where the log has none."""
    if isinstance(raw, msgspec.Raw):
        return decode(raw, event) if len(raw) else MISSING
    return MISSING if raw == b"" else raw


def _same_text(golden: Any, candidate: Any) -> bool:
    """Whether two values are the same once keys are sorted: quick to tell, but 1 and 1.0 have other texts."""
    if golden is MISSING or candidate is MISSING:
        return False
    try:
        return _sorted_text(golden) == _sorted_text(candidate)
    except RecursionError:
        return False
