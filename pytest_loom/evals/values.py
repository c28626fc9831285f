"""Comparing two recorded values exactly: which leaves differ, and where.

Values are plain JSON data. Numbers are equal by value (1 == 1.0), but True is not 1 and null is not absent. Nothing
here recurses along a value, so no nesting is too deep. DeepDiff is asked one thing only, and rarely: which items of a
list that changed its length belong together. Its own diff calls True and 1 equal, aligns lists by position, and needs
seconds for what is equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any, Final

from pytest_loom.errors import printable
from pytest_loom.evals.align import Pair, Row, align_by, match_keys, script
from pytest_loom.evals.nearest import nearest, nearest_in_order
from pytest_loom.evals.paths import Node, Path, Rules, Segment, format_path, is_ignored


class _Missing:
    """Stands for a value that one side does not have; null is a value."""

    _the_one: _Missing | None = None

    def __new__(cls) -> _Missing:
        if cls._the_one is None:
            cls._the_one = super().__new__(cls)
        return cls._the_one

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""Stands for a value that one side does not have (None is JSON's null, which is a value)."""

_MAX_KEY_DEPTH = 64


def same(golden: Any, candidate: Any) -> bool:
    """Whether two JSON values are the same: by value, whatever their key order and number format."""
    todo = [(golden, candidate)]
    while todo:
        one, other = todo.pop()
        kind = type(one)
        if kind is dict:
            if type(other) is not dict or one.keys() != other.keys():
                return False
            todo += [(value, other[key]) for key, value in one.items()]
        elif kind is list:
            if type(other) is not list or len(one) != len(other):
                return False
            todo += zip(one, other, strict=True)
        elif not _same_leaf(one, other):
            return False
    return True


def walk(
    golden: Any, candidate: Any, rules: Rules, node: Node | None = None, *, quick: bool = False
) -> Iterator[tuple[Path, Any, Any]]:
    """Each difference of two values under the rules, as (path, golden, candidate), in golden order.

    One a leaf; what only one side has is one difference at its root, with MISSING on the other side. Lists of the
    same length are compared item by item; others are aligned, and a pair's index is the golden one.
    ``node`` is where the rules' patterns stand before the first segment. ``quick`` is for asking whether there is any
    difference: lists are then not aligned, so the differences beyond the first say little.
    """
    todo: list[tuple[Path, Any, Any, Node | None]] = [((), golden, candidate, node)]
    while todo:
        path, one, other, node = todo.pop()
        if node is not None:
            if node.ignored:
                continue
            if node.comparator is not None and one is not MISSING and other is not MISSING:
                if not same(one, other) and not _asked(node, path, one, other):
                    yield path, one, other
                continue
        if type(one) is dict and type(other) is dict:
            keys = [key for key, value in one.items() if other.get(key, MISSING) is not value]
            keys += [key for key in other if key not in one]
            todo += [
                ((*path, key), one.get(key, MISSING), other.get(key, MISSING), _below(node, key))
                for key in reversed(keys)
            ]
        elif type(one) is list and type(other) is list:
            for i, j in reversed(_rows(one, other, rules, node, quick)):
                index = i if i is not None else j
                assert index is not None
                todo.append(((*path, index), _item(one, i), _item(other, j), _below(node, index)))
        elif not _same_leaf(one, other, rules):
            yield path, one, other


def agree(golden: Any, candidate: Any, rules: Rules, node: Node | None = None) -> bool:
    """Whether two values are the same under the rules."""
    return next(walk(golden, candidate, rules, node, quick=True), None) is None


def key_of(value: Any, rules: Rules, node: Node | None = None, depth: int = 0) -> str:
    """A text that is equal for values that agree under the rules.

    Where ``rules.exact``, values of another text do not agree and (down to a depth) values of the same text do;
    with a tolerance or comparators, the same text only says that they may.
    """
    if node is not None and (node.ignored or node.comparator is not None):
        return "?"
    if isinstance(value, dict):
        if depth > _MAX_KEY_DEPTH:
            return "{"
        items = ((key, child, None if node is None else node.next(key)) for key, child in value.items())
        kept = [f"{key!r}:{key_of(child, rules, at, depth + 1)}" for key, child, at in items if not (at and at.ignored)]
        return "{" + ",".join(sorted(kept)) + "}"
    if isinstance(value, list):
        if depth > _MAX_KEY_DEPTH:
            return "["
        places = ((child, None if node is None else node.next(i)) for i, child in enumerate(value))
        kept = [key_of(child, rules, at, depth + 1) for child, at in places if not (at and at.ignored)]
        if node is not None and node.unordered:
            kept.sort()
        return "[" + ",".join(kept) + "]"
    if type(value) is float and value.is_integer():
        value = int(value)
    return "0" if rules.tolerant and type(value) in (int, float) else repr(value)


_BEFORE = 20


def apart(one: Any, other: Any, limit: int) -> tuple[Any, Any]:
    """Of two texts, one longer than ``limit``, what begins shortly before they differ; other values as they are."""
    if isinstance(one, str) and isinstance(other, str) and max(len(one), len(other)) > limit:
        pairs = enumerate(zip(one, other, strict=False))
        at = next((index for index, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
        start = max(0, at - _BEFORE)
        one, other = (("…" if start else "") + text[start:] for text in (one, other))
    return one, other


def short(value: Any, limit: int = 60) -> str:
    """A value as JSON on one line of at most ``limit`` characters, fit to be printed; MISSING as itself."""
    pieces: list[str] = []
    todo: list[tuple[bool, Any]] = [(False, value)]
    room = limit
    while todo and room >= 0:
        is_text, item = todo.pop()
        if isinstance(item, (dict, list)):
            # Each item takes a character at least, so the first ones are enough.
            opening, closing = ("{", "}") if isinstance(item, dict) else ("[", "]")
            parts: list[tuple[bool, Any]] = [(True, opening)]
            for index, entry in enumerate(islice(item, limit + 1)):
                parts += [(True, ", ")] if index else []
                if isinstance(item, dict):
                    parts += [(False, entry), (True, ": "), (False, item[entry])]
                else:
                    parts.append((False, entry))
            todo += reversed([*parts, (True, closing)])
            continue
        if is_text or item is MISSING:
            text = str(item)
        else:
            text = json.dumps(item[: limit + 1] if isinstance(item, str) else item, ensure_ascii=False)
        pieces.append(text)
        room -= len(text)
    return printable("".join(pieces), limit)


def _same_leaf(golden: Any, candidate: Any, rules: Rules | None = None) -> bool:
    kind, other = type(golden), type(candidate)
    if kind is other and kind is not float and kind is not int:
        return bool(golden == candidate)
    if (kind is int or kind is float) and (other is int or other is float):
        return rules.close(golden, candidate) if rules else bool(golden == candidate)
    return False


def _item(items: list[Any], index: int | None) -> Any:
    return MISSING if index is None else items[index]


def _asked(node: Node, path: Path, golden: Any, candidate: Any) -> bool:
    assert node.comparator is not None
    try:
        return bool(node.comparator(golden, candidate))
    except Exception as problem:
        problem.add_note(f"in a comparator at {format_path(path) or 'the value'}: {short(golden)}, {short(candidate)}")
        raise


def _rows(golden: list[Any], candidate: list[Any], rules: Rules, node: Node | None, quick: bool) -> list[Row]:
    """Which items of two lists belong together, each index once; ``quick`` is for whether anything differs at all."""
    left: Sequence[int] = range(len(golden))
    right: Sequence[int] = range(len(candidate))
    if node is not None:
        left = [i for i in left if not is_ignored(node.next(i))]
        right = [j for j in right if not is_ignored(node.next(j))]
    multiset = node is not None and node.unordered
    if not multiset and (quick or len(left) == len(right)):
        return list(zip_longest(left, right))

    def golden_key(i: int) -> str:
        return key_of(golden[left[i]], rules, _below(node, left[i]))

    def candidate_key(j: int) -> str:
        return key_of(candidate[right[j]], rules, _below(node, right[j]))

    def fits(i: int, j: int) -> bool:
        return agree(golden[left[i]], candidate[right[j]], rules, _below(node, left[i]))

    def pair_up(gone: Sequence[int], new: Sequence[int]) -> list[Pair]:
        find = nearest if multiset else nearest_in_order
        found = find([golden[left[i]] for i in gone], [candidate[right[j]] for j in new], rules)
        return [(gone[i], new[j]) for i, j in found]

    if multiset:
        pairs = match_keys(
            [golden_key(i) for i in range(len(left))],
            [candidate_key(j) for j in range(len(right))],
            None if rules.exact else fits,
        )
        gone = [i for i in range(len(left)) if i not in pairs]
        taken = set(pairs.values())
        new = [j for j in range(len(right)) if j not in taken]
        if not quick:
            pairs |= pair_up(gone, new)
        taken = set(pairs.values())
        rows: list[Row] = [(i, pairs.get(i)) for i in range(len(left))]
        rows += [(None, j) for j in range(len(right)) if j not in taken]
    else:
        aligned = align_by(len(left), len(right), fits, golden_key, candidate_key, exact=rules.exact)
        rows = script(aligned, len(left), len(right), pair_up)
    return [(None if i is None else left[i], None if j is None else right[j]) for i, j in rows]


def _below(node: Node | None, segment: Segment) -> Node | None:
    return None if node is None else node.next(segment)
