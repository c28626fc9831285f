"""How paths are written, and which paths a pattern matches."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loom.evals.paths import Node, Path, Rules, format_name, format_path, parse_pattern

segments = st.one_of(
    st.text(), st.sampled_from(["id", "usage", "a.b", "x-y", "0", "*", "**", "#2"]), st.integers(0, 30)
)


def matches(pattern: str, path: Path) -> bool:
    """Whether the pattern ends exactly where the path does."""
    node: Node | None = Rules([pattern]).start
    for segment in path:
        node = node.next(segment) if node is not None else None
    return node is not None and node.ignored


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", "b", 0, "c"), "a.b[0].c"),
        ((0, 1), "[0][1]"),
        (("a.b", "c"), '["a.b"].c'),
        (("a", "x-y"), 'a["x-y"]'),
        (("a", ""), 'a[""]'),
        (("a", "0"), 'a["0"]'),
        (("ä", 'q"'), 'ä["q\\""]'),
        (("a", "\u202eevil"), 'a["\\u202eevil"]'),
    ],
)
def test_a_path_is_written_plainly(path: Path, text: str) -> None:
    """Keys with dots, indexes in brackets, and whatever is no plain identifier quoted as JSON."""
    assert format_path(path) == text


@given(st.lists(segments, min_size=1).map(tuple))
def test_a_written_path_is_a_pattern_for_that_path(path: Path) -> None:
    """What a report shows can be pasted into ignore=."""
    assert parse_pattern(format_path(path)) == path
    assert format_path(path).isprintable()


@pytest.mark.parametrize(
    "name", ["assess", "poll#2", "refund-check", "payments.charge", "a b", "*", "a\nb", "x[0]", ""]
)
def test_a_written_name_is_a_pattern_for_that_name(name: str) -> None:
    """Step names are written bare where possible, quoted where not."""
    assert parse_pattern(format_name(name)) == (name,)
    assert format_name("poll#2") == "poll#2"
    assert format_name("refund-check") == "refund-check"


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("assess.output.score", ("assess", "output", "score"), True),
        ("assess.output.score", ("assess", "output"), False),
        ("assess.output.score", ("assess", "output", "score", "x"), False),
        ("*.usage", ("assess", "usage"), True),
        ("*.usage", ("usage",), False),
        ("*.usage", ("a", "b", "usage"), False),
        ("**.id", ("id",), True),
        ("**.id", ("a", 0, "b", "id"), True),
        ("**.id", ("a", "id", "b"), False),
        ("a.**.b", ("a", "b"), True),
        ("a.**.b", ("a", "x", 3, "b"), True),
        ("a.**", ("a",), True),
        ("**", (), True),
        ("**.a.**.b", ("x", "a", "a", "b", "c", "b"), True),
        ("items[*].id", ("items", 7, "id"), True),
        ("items[0]", ("items", 0), True),
        ("items[0]", ("items", 1), False),
        ("items[0]", ("items", "0"), False),
        ("items.0", ("items", 0), False),
        ("items.0", ("items", "0"), True),
        ('["a.b"].c', ("a.b", "c"), True),
        ('["*"]', ("x",), False),
        ('["*"]', ("*",), True),
        ("[0].x", (0, "x"), True),
    ],
)
def test_a_pattern_matches(pattern: str, path: Path, expected: bool) -> None:
    """``*`` is one segment, ``**`` any number, an index a segment, everything else itself."""
    assert matches(pattern, path) is expected


def naive(parts: tuple[Any, ...], path: Path) -> bool:
    """Whether the parts match the path, by trying everything."""
    if not parts:
        return not path
    head, rest = getattr(parts[0], "value", parts[0]), parts[1:]
    if head == "**":
        return any(naive(rest, path[skipped:]) for skipped in range(len(path) + 1))
    return bool(path) and (head == "*" or head == path[0]) and naive(rest, path[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "[0]", "[*]"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "c", 0, 1]), max_size=6).map(tuple),
)
def test_patterns_match_as_by_trying_everything(parts: list[str], path: Path) -> None:
    """The automaton agrees with a search through all ways to match."""
    pattern = "".join(part if part[0] == "[" else f".{part}" for part in parts).removeprefix(".")
    assert matches(pattern, path) is naive(parse_pattern(pattern), path)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a*",
        "*a",
        "***",
        "a[",
        "a[x]",
        "a[-1]",
        "a[1",
        'a["x]',
        "a b",
        "a]",
        "a.[0]",
        "a'b",
        '["\\x"]',
    ],
)
def test_another_form_is_refused_by_name(pattern: str) -> None:
    """A pattern that is not understood is a ValueError that quotes it and shows what patterns look like."""
    with pytest.raises(ValueError, match=r"path pattern .* items\[\*\]\.id") as caught:
        Rules([pattern])
    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ignore": "a.b"}, "ignore takes a list of path patterns"),
        ({"ignore": [3]}, "not 3"),
        ({"ignore": None}, "ignore takes a list"),
        ({"unordered": "items"}, "unordered takes a list"),
        ({"comparators": {"a": "b"}}, "comparator for 'a' is not callable"),
        ({"comparators": {"a*": bool}}, r"path pattern 'a\*'"),
        ({"tolerance": 0.1}, "tolerance is"),
        ({"tolerance": {}}, "tolerance is"),
        ({"tolerance": {"absolute": 1}}, "tolerance is"),
        ({"tolerance": {"abs": -1}}, "tolerance 'abs'"),
        ({"tolerance": {"rel": math.nan}}, "tolerance 'rel'"),
        ({"tolerance": {"rel": math.inf}}, "tolerance 'rel'"),
        ({"tolerance": {"rel": True}}, "tolerance 'rel'"),
        ({"tolerance": {"rel": "1"}}, "tolerance 'rel'"),
    ],
)
def test_a_rule_of_the_wrong_shape_is_refused_by_name(wrong: dict[str, Any], said: str) -> None:
    """Rules that cannot be meant are a ValueError that names them."""
    with pytest.raises(ValueError, match=said):
        Rules(**wrong)


def test_the_first_matching_comparator_counts() -> None:
    """Comparators are tried in the order given."""

    def first(golden: object, candidate: object) -> bool:
        return True

    def second(golden: object, candidate: object) -> bool:
        return True

    start = Rules(comparators={"*.b": first, "a.b": second, "a.c": second}).start
    assert start is not None
    a = start.next("a")
    assert a is not None
    b, c = a.next("b"), a.next("c")
    assert b is not None
    assert c is not None
    assert (b.comparator, c.comparator) == (first, second)


def test_without_patterns_there_is_nothing_to_walk() -> None:
    """No pattern, no automaton: the common case pays nothing."""
    assert Rules().start is None
    assert Rules(tolerance={"abs": 1}).start is None
