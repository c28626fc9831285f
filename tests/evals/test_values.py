"""Comparing two values: the exact walk, against a naive one."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loom.evals.paths import Path, Rules
from pytest_loom.evals.values import MISSING, agree, key_of, same, short, walk

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 0.0, 1.0, -0.0, "", "0", "True", 2**53, 2.0**53, 2**53 + 1]),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
)
keys = st.sampled_from(["a", "b", "a.b", "id", ""])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
NOTHING = object()


def _both(inner: Any) -> Any:
    """Pairs of containers that have something in common; lists are of the same length on both sides."""
    one_sided = inner | st.tuples(values, st.just(NOTHING)) | st.tuples(st.just(NOTHING), values)
    return st.one_of(
        st.lists(inner, max_size=4).map(lambda pairs: ([one for one, _ in pairs], [other for _, other in pairs])),
        st.dictionaries(keys, one_sided, max_size=4).map(
            lambda pairs: tuple(
                {key: pair[side] for key, pair in pairs.items() if pair[side] is not NOTHING} for side in (0, 1)
            )
        ),
    )


pairs = st.recursive(st.tuples(leaves, leaves) | values.map(lambda value: (value, value)), _both, max_leaves=12)


def naive_same(one: Any, other: Any) -> bool:
    """Equality as the rule says it, by recursion."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(naive_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(naive_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def naive_paths(one: Any, other: Any, path: Path = ()) -> set[Path]:
    """Where two values differ, by recursion, for lists of the same length."""
    if isinstance(one, dict) and isinstance(other, dict):
        found: set[Path] = set()
        for key in {*one, *other}:
            if key in one and key in other:
                found |= naive_paths(one[key], other[key], (*path, key))
            else:
                found.add((*path, key))
        return found
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return set().union(*(naive_paths(one[i], other[i], (*path, i)) for i in range(len(one))))
    return set() if naive_same(one, other) else {path}


def nested(depth: int, leaf: Any, *, lists: bool = True) -> Any:
    """A value nested so deep."""
    value = leaf
    for _ in range(depth):
        value = [value] if lists else {"k": value}
    return value


class TestSame:
    @given(pairs)
    def test_is_equality_by_value(self, pair: tuple[Any, Any]) -> None:
        """Numbers by value, True is not 1, dicts in any order, lists in theirs."""
        assert same(*pair) is naive_same(*pair)

    @given(pairs)
    def test_equal_keys_are_equal_values(self, pair: tuple[Any, Any]) -> None:
        """key_of gives the same text exactly for the same values."""
        one, other = (key_of(value, Rules()) for value in pair)
        assert (one == other) is naive_same(*pair)


class TestWalk:
    @given(pairs)
    def test_finds_the_paths_of_a_naive_walk(self, pair: tuple[Any, Any]) -> None:
        """The differing paths are those that recursion finds, each once, with the values found there."""
        found = list(walk(*pair, Rules()))
        assert len(found) == len({path for path, _, _ in found})
        assert {path for path, _, _ in found} == naive_paths(*pair)
        for path, *sides in found:
            for whole, shown in zip(pair, sides, strict=True):
                value = whole
                for segment in path[:-1]:
                    value = value[segment]
                present = not path or not isinstance(value, dict) or path[-1] in value
                assert shown is (value[path[-1]] if path and present else value if present else MISSING)

    @given(values, values)
    def test_finds_nothing_exactly_for_the_same(self, one: Any, other: Any) -> None:
        """No difference means the same, also where lists have other lengths; agree says the same."""
        assert (not list(walk(one, other, Rules()))) is naive_same(one, other) is agree(one, other, Rules())

    @given(values, values)
    def test_swapping_the_sides_swaps_the_sides(self, one: Any, other: Any) -> None:
        """What was golden is candidate and the other way round, nothing more and nothing less."""
        there = sorted((repr(mine), repr(theirs)) for _, mine, theirs in walk(one, other, Rules()))
        back = sorted((repr(theirs), repr(mine)) for _, mine, theirs in walk(other, one, Rules()))
        assert there == back

    @pytest.mark.parametrize(
        ("golden", "candidate", "expected"),
        [
            ([1, 2, 3], [0, 1, 2, 3], [((0,), MISSING, 0)]),
            ([1, 2, 3], [1, 3], [((1,), 2, MISSING)]),
            ([1, 2, 3], [1, 9, 3], [((1,), 2, 9)]),
            ([1, 2], [2, 1], [((0,), 1, 2), ((1,), 2, 1)]),
            ([], [None], [((0,), MISSING, None)]),
            ([True, 2], [1, 1, 2], [((0,), True, 1), ((1,), MISSING, 1)]),
            ({"a": None}, {}, [(("a",), None, MISSING)]),
            ({"a": {"b": 1}}, {"c": {"b": 1}}, [(("a",), {"b": 1}, MISSING), (("c",), MISSING, {"b": 1})]),
            ({}, [], [((), {}, [])]),
            (MISSING, None, [((), MISSING, None)]),
            (1, "1", [((), 1, "1")]),
            (
                [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}],
                [{"id": 2, "v": "B"}],
                [((0,), {"id": 1, "v": "a"}, MISSING), ((1, "v"), "b", "B")],
            ),
            (
                [{"sku": "x", "n": 1}],
                [{"sku": "w", "n": 7}, {"sku": "x", "n": 2}, {"sku": "y", "n": 8}],
                [((0,), MISSING, {"sku": "w", "n": 7}), ((0, "n"), 1, 2), ((2,), MISSING, {"sku": "y", "n": 8})],
            ),
        ],
    )
    def test_tells_what_changed_in_a_list(self, golden: Any, candidate: Any, expected: Any) -> None:
        """An item put in front is one difference, a changed item is found beside added and dropped ones."""
        assert list(walk(golden, candidate, Rules())) == expected

    @given(st.lists(leaves, max_size=8), st.lists(leaves, max_size=8))
    def test_lists_of_other_lengths_keep_all_that_can_stay(self, one: list[Any], other: list[Any]) -> None:
        """As many items go or come as the lengths differ, and no common item is called changed in vain."""
        if len(one) == len(other):
            other = [*other, None]
        found = list(walk(one, other, Rules()))
        assert sum(theirs is MISSING for _, _, theirs in found) - sum(mine is MISSING for _, mine, _ in found) == len(
            one
        ) - len(other)
        kept = len(one) - sum(mine is not MISSING for _, mine, _ in found)
        table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
        for i, mine in enumerate(one):
            for j, theirs in enumerate(other):
                table[i + 1][j + 1] = (
                    table[i][j] + 1 if naive_same(mine, theirs) else max(table[i][j + 1], table[i + 1][j])
                )
        assert kept == table[-1][-1]

    @pytest.mark.parametrize("lists", [True, False])
    def test_no_nesting_is_too_deep(self, lists: bool) -> None:
        """Values nested 5,000 deep are compared without a crash, and a change at the bottom is found."""
        one, other = nested(5_000, 1, lists=lists), nested(5_000, 2, lists=lists)
        assert same(one, nested(5_000, 1.0, lists=lists))
        ((path, mine, theirs),) = walk(one, other, Rules())
        assert (len(path), mine, theirs) == (5_000, 1, 2)
        ((path, _, _),) = walk([one], [other, one], Rules())
        assert path == (0,)
        assert list(walk([one, other], [other], Rules(unordered=True)))
        assert short(one) == "[" * 59 + "…" or not lists

    def test_a_big_list_with_scattered_changes_costs_no_more_than_its_size(self) -> None:
        """20,000 items, one dropped and 1 % changed: exactly those are told."""
        golden: list[Any] = [{"id": i, "v": "x" * (i % 7)} for i in range(20_000)]
        candidate = [item if item["id"] % 100 else {**item, "v": 0} for item in golden if item["id"] != 10_050]
        found = list(walk(golden, candidate, Rules()))
        changed = [((i, "v"), golden[i]["v"], 0) for i in range(0, 20_000, 100)]
        assert found == [*changed[:101], ((10_050,), golden[10_050], MISSING), *changed[101:]]


class TestRules:
    def test_tolerance_is_for_numbers_only(self) -> None:
        """A bool is no number, and text never comes near."""
        rules = Rules(tolerance={"abs": 1.5})
        assert agree({"n": 1}, {"n": 2.5}, rules)
        assert not agree({"n": 1}, {"n": 2.6}, rules)
        assert not agree(True, False, rules)
        assert not agree(True, 1, rules)
        assert not agree("1", "2", rules)
        assert not agree(10**400, 1.0, rules)

    def test_relative_tolerance_is_symmetric(self) -> None:
        """As in math.isclose, a share of the larger number."""
        rules = Rules(tolerance={"rel": 0.1})
        assert agree(90, 100, rules)
        assert agree(100, 90, rules)
        assert not agree(89, 100, rules)

    def test_a_list_is_aligned_under_the_tolerance(self) -> None:
        """A dropped measurement is one difference though all the others moved a little."""
        golden = [1.0, 5.0, 9.0, 13.0]
        rules = Rules(tolerance={"abs": 0.1})
        assert list(walk(golden, [1.01, 9.01, 13.01], rules)) == [((1,), 5.0, MISSING)]
        assert list(walk([50, 1.0, 5.0, 9.0, 70], [60, 5.01, 9.01, 80], rules)) == [
            ((0,), 50, 60),
            ((1,), 1.0, MISSING),
            ((4,), 70, 80),
        ]

    def test_ignored_values_do_not_matter_wherever_they_are(self) -> None:
        """Ids below any depth are passed over, missing or changed, and nothing beside them is."""
        rules = Rules(["**.id"])
        golden: dict[str, Any] = {"id": 1, "a": [{"id": 2, "v": 1}, {"id": 3, "v": 2}]}
        assert list(walk(golden, {"a": [{"v": 1}, {"id": 9, "v": 2}]}, rules, rules.start)) == []
        assert list(walk(golden, {"a": [{"id": 9, "v": 2}]}, rules, rules.start)) == [
            (("a", 0), golden["a"][0], MISSING)
        ]

    def test_an_ignored_index_is_left_out_on_both_sides(self) -> None:
        """The first item may be anything or missing; the others align as ever."""
        rules = Rules(["[0]"])
        assert agree([1, 2, 3], [9, 2, 3], rules, rules.start)
        assert not agree([1, 2, 3], [2, 3], rules, rules.start)
        assert list(walk([1, 2, 3], [9, 8, 2, 3], rules, rules.start)) == [((1,), MISSING, 8)]

    def test_a_comparator_judges_the_whole_value(self) -> None:
        """It sees both values, is not asked about equal or absent ones, and nothing below it is compared."""
        asked = []

        def near(golden: Any, candidate: Any) -> bool:
            asked.append((golden, candidate))
            return bool(golden["n"] == candidate["n"])

        rules = Rules(comparators={"*": near})
        golden = {"a": {"n": 1, "t": 5}, "b": {"n": 1}, "c": {"n": 1}, "d": {"n": 1}}
        candidate = {"a": {"n": 1, "t": 6}, "b": {"n": 2}, "c": {"n": 1.0}}
        found = list(walk(golden, candidate, rules, rules.start))
        assert found == [(("b",), {"n": 1}, {"n": 2}), (("d",), {"n": 1}, MISSING)]
        assert asked == [(golden["a"], candidate["a"]), (golden["b"], candidate["b"])]

    def test_a_comparator_that_raises_says_where(self) -> None:
        """The exception is the comparator's own, with a note on what it was asked."""
        rules = Rules(comparators={"a": lambda golden, candidate: golden < candidate})
        with pytest.raises(TypeError) as caught:
            list(walk({"a": 1}, {"a": "x"}, rules, rules.start))
        assert caught.value.__notes__ == ['in a comparator at a: 1, "x"']

    @given(st.lists(values, max_size=5).flatmap(lambda items: st.tuples(st.just(items), st.permutations(items))))
    def test_an_unordered_list_is_a_multiset(self, pair: tuple[list[Any], list[Any]]) -> None:
        """Any permutation is the same, nested lists included; one item more is one difference."""
        rules = Rules(unordered=True)
        assert agree(*pair, rules, rules.start)
        assert agree([[1, 2], [[3, 4], 5]], [[5, [4, 3]], [2, 1]], rules, rules.start)
        assert [path for path, _, _ in walk(pair[0], [*pair[1], "new"], rules, rules.start)] == [(len(pair[0]),)]

    def test_an_unordered_list_counts_and_finds_the_changed_item(self) -> None:
        """Repetitions count, and the item that changed is compared with what it became."""
        rules = Rules(unordered=["tags"])
        assert not agree({"tags": [1, 1, 2]}, {"tags": [1, 2, 2]}, rules, rules.start)
        assert not agree({"other": [1, 2]}, {"other": [2, 1]}, rules, rules.start)
        golden = {"tags": [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}]}
        candidate = {"tags": [{"id": 3, "v": "c"}, {"id": 2, "v": "B"}, {"id": 1, "v": "A"}]}
        assert list(walk(golden, candidate, rules, rules.start)) == [
            (("tags", 0, "v"), "a", "A"),
            (("tags", 1, "v"), "b", "B"),
        ]

    def test_an_unordered_list_with_a_tolerance_pairs_as_many_as_it_can(self) -> None:
        """Taking the first that is near would leave one over."""
        rules = Rules(tolerance={"abs": 0.06}, unordered=True)
        assert agree([1.05, 1.0], [1.05, 1.1], rules, rules.start)


class TestMissing:
    def test_is_one_and_stays_one(self) -> None:
        """Copies and pickles are the same object, and it shows its name."""
        assert copy.deepcopy(MISSING) is MISSING
        assert pickle.loads(pickle.dumps(MISSING)) is MISSING
        assert type(MISSING)() is MISSING
        assert repr(MISSING) == "MISSING"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (MISSING, "MISSING"),
        (None, "null"),
        ({"a": [1, 2.5, True, {}], "b": "x"}, '{"a": [1, 2.5, true, {}], "b": "x"}'),
        ("ä\n\u202e", '"ä\\n\\u202e"'),
        ("x" * 100, '"' + "x" * 58 + "…"),
        ([1] * 100, "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1…"),
    ],
)
def test_a_value_is_shown_on_one_short_line(value: Any, text: str) -> None:
    """As JSON, cut to sixty characters, with nothing that a terminal would obey."""
    assert short(value) == text
