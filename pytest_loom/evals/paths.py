"""Paths into recorded values: how they are written, the patterns that match them, and what a pattern asks for.

A path is a tuple of keys and list indexes, ``("output", "items", 0, "id")``, written ``output.items[0].id``; a key
that is not a plain identifier is written ``["a.b"]``. In a pattern ``*`` is any one segment and ``**`` any number of
them, none included. Patterns become one small automaton, walked along with the value: one lookup a segment.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Literal

from pytest_loom.errors import printable

Segment = str | int
Path = tuple[Segment, ...]
Comparator = Callable[[Any, Any], bool]


class Wild(Enum):
    """The two wildcards of a pattern."""

    ONE = "*"
    ANY = "**"


Part = str | int | Wild

_TOKEN = re.compile(
    r"""(?P<any>\*\*) | (?P<one>\*) | (?P<name>[^\s.*\[\]"'\\]+)
        | \[(?P<index>\d{1,18}|\*)\] | \[(?P<quoted>"(?:[^"\\]|\\.)*")\]""",
    re.VERBOSE | re.ASCII,
)


def format_path(path: Iterable[Segment]) -> str:
    """``a.b[0]["c.d"]`` for a path; "" for the whole value. What it gives is also a pattern for that path."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif segment.isidentifier():
            text += f".{segment}" if text else segment
        else:
            text += f"[{json.dumps(segment, ensure_ascii=not segment.isprintable())}]"
    return text


def format_name(name: str) -> str:
    """A step, tool or decision name as the first segment of a pattern: bare wherever a pattern can read it bare."""
    match = _TOKEN.fullmatch(name)
    return name if match is not None and match["name"] is not None and name.isprintable() else format_path((name,))


def parse_pattern(pattern: object) -> tuple[Part, ...]:
    """The parts of a pattern. Raises ValueError naming a pattern that has another form."""
    if not isinstance(pattern, str):
        raise ValueError(f"a path pattern is text like 'assess.output.score', not {pattern!r}")
    parts: list[Part] = []
    at = 0
    while at < len(pattern):
        dotted = bool(parts) and pattern[at] == "."
        if parts and not dotted and pattern[at] != "[":
            raise _bad(pattern, f"{printable(pattern[at:], 20)!r} follows without a dot; a wildcard is a whole segment")
        match = _TOKEN.match(pattern, at + dotted)
        if match is None or (dotted and pattern[at + 1] == "["):
            raise _bad(pattern, f"nothing is understood from {printable(pattern[at:], 20)!r} on")
        at = match.end()
        if match["any"]:
            parts.append(Wild.ANY)
        elif match["one"] or match["index"] == "*":
            parts.append(Wild.ONE)
        elif match["index"]:
            parts.append(int(match["index"]))
        elif match["quoted"]:
            parts.append(_unquoted(pattern, match["quoted"]))
        else:
            parts.append(match["name"])
    if not parts:
        raise _bad(pattern, "it is empty")
    return tuple(parts)


def _unquoted(pattern: str, quoted: str) -> str:
    try:
        name = json.loads(quoted)
    except ValueError:
        raise _bad(pattern, f"{printable(quoted, 20)} is not a JSON string") from None
    assert isinstance(name, str)
    return name


def _bad(pattern: str, why: str) -> ValueError:
    return ValueError(
        f"path pattern {printable(pattern)!r}: {why}. "
        'Patterns look like assess.output.score, *.usage, **.id, items[*].id, items[0] or ["a.b"].c'
    )


class Node:
    """A place that a path has reached, and what the patterns that end there ask for.

    ``ignored`` leaves out this value and all below it, ``comparator`` judges it, ``unordered`` makes a list a multiset.
    """

    __slots__ = ("_moves", "_other", "_positions", "_rules", "comparator", "ignored", "unordered")

    def __init__(self, rules: Rules, positions: frozenset[tuple[int, int]]) -> None:
        self._rules = rules
        self._positions = positions
        self._moves: dict[Segment, Node | None] | None = None
        self._other: Node | None = None
        ends = sorted(pattern for pattern, at in positions if at == len(rules.patterns[pattern][1]))
        uses = [rules.patterns[pattern][0] for pattern in ends]
        self.ignored = "ignore" in uses
        self.unordered = "unordered" in uses
        self.comparator: Comparator | None = next((use for use in uses if not isinstance(use, str)), None)

    def next(self, segment: Segment) -> Node | None:
        """The place one key or index further; None where no pattern can match any more."""
        if self._moves is None:
            self._moves = self._learn()
        return self._moves.get(segment, self._other)

    def _learn(self) -> dict[Segment, Node | None]:
        waiting = [(pattern, at, self._rules.part(pattern, at)) for pattern, at in self._positions]
        stay = [(pattern, at) for pattern, at, part in waiting if part is Wild.ANY]
        free = stay + [(pattern, at + 1) for pattern, at, part in waiting if part is Wild.ONE]
        self._other = self._rules.node(free)
        return {
            name: self._rules.node(free + [(pattern, at + 1) for pattern, at, part in waiting if part == name])
            for name in {part for _, _, part in waiting if isinstance(part, (str, int))}
        }


def is_ignored(node: Node | None) -> bool:
    """Whether a pattern leaves this place out."""
    return node is not None and node.ignored


class Rules:
    """Everything that decides whether two values count as the same, compiled once.

    ``start`` is the Node before the first segment, None without patterns. ``patterns`` holds (use, parts), where a use
    is "ignore", "unordered" or a comparator. Raises ValueError naming a pattern, tolerance or comparator it cannot use.
    """

    def __init__(
        self,
        ignore: Iterable[str] = (),
        tolerance: Mapping[str, float] | None = None,
        comparators: Mapping[str, Comparator] | None = None,
        unordered: Iterable[str] | Literal[True] = (),
    ) -> None:
        self.patterns: list[tuple[Literal["ignore", "unordered"] | Comparator, tuple[Part, ...]]] = []
        self.patterns += [("ignore", parse_pattern(pattern)) for pattern in pattern_list("ignore", ignore)]
        for pattern, comparator in (comparators or {}).items():
            if not callable(comparator):
                raise ValueError(f"the comparator for {pattern!r} is not callable: {comparator!r}")
            self.patterns.append((comparator, parse_pattern(pattern)))
        lists = ("**",) if unordered is True else pattern_list("unordered", unordered)
        self.patterns += [("unordered", parse_pattern(pattern)) for pattern in lists]
        self.absolute, self.relative = _tolerance(tolerance)
        self.tolerant = tolerance is not None
        self._nodes: dict[frozenset[tuple[int, int]], Node] = {}
        self.start = self.node([(pattern, 0) for pattern in range(len(self.patterns))])
        self.exact = not self.tolerant and not comparators
        """Whether "same" is an equivalence, so that equal keys are equal values."""
        self.distances = 400
        """How many more times DeepDiff may be asked how near two items are: it costs about a millisecond each."""

    def part(self, pattern: int, at: int) -> Part | None:
        """The part of a pattern at a position, None at its end."""
        parts = self.patterns[pattern][1]
        return parts[at] if at < len(parts) else None

    def node(self, positions: Iterable[tuple[int, int]]) -> Node | None:
        """The one Node for a set of positions in patterns, None for the empty set."""
        reached: set[tuple[int, int]] = set()
        for pattern, at in positions:
            reached.add((pattern, at))
            while self.part(pattern, at) is Wild.ANY:
                at += 1
                reached.add((pattern, at))
        key = frozenset(reached)
        if not key:
            return None
        if key not in self._nodes:
            self._nodes[key] = Node(self, key)
        return self._nodes[key]

    def union(self, nodes: Iterable[Node | None]) -> Node | None:
        """The place where several ways of writing the same path meet."""
        return self.node(position for node in nodes if node is not None for position in node._positions)

    def named(self, name: str, key: str, start: Node | None) -> Node | None:
        """The place of an occurrence: ``poll`` names each ``poll#n``, ``poll#2`` that one, ``poll#1`` the first."""
        if start is None:
            return None
        return self.union(start.next(alias) for alias in {name, key if key != name else f"{name}#1"})

    def field(self, owner: Node | None, field: str) -> Node | None:
        """The place of a step's or tool's field, whose name a pattern may leave out."""
        return None if owner is None else self.union((owner.next(field), owner))

    def close(self, golden: float, candidate: float) -> bool:
        """Whether two numbers count as the same (math.isclose where there is a tolerance)."""
        if golden == candidate or not self.tolerant:
            return golden == candidate
        try:
            return math.isclose(golden, candidate, rel_tol=self.relative, abs_tol=self.absolute)
        except OverflowError:
            return False


def pattern_list(name: str, patterns: object) -> list[str]:
    """The patterns given as the argument ``name``. Raises ValueError for what is no list, a single text above all."""
    if isinstance(patterns, (str, bytes, Mapping)) or not isinstance(patterns, Iterable):
        raise ValueError(f"{name} takes a list of path patterns, {name}=[...], not {patterns!r}")
    return list(patterns)


def _tolerance(tolerance: object) -> tuple[float, float]:
    if tolerance is None:
        return 0.0, 0.0
    if not isinstance(tolerance, Mapping) or not tolerance or not set(tolerance) <= {"abs", "rel"}:
        raise ValueError(f'tolerance is {{"abs": number}}, {{"rel": number}} or both, not {tolerance!r}')
    for name, value in tolerance.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"tolerance {name!r} is a number that is not negative, not {value!r}")
    return float(tolerance.get("abs", 0.0)), float(tolerance.get("rel", 0.0))
