"""Matching two sequences: checked against slow and obvious answers."""

from __future__ import annotations

from functools import cache
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from pytest_loom.evals.align import BUDGET, align, align_by, assign, longest_increasing, match_keys, script

letters = st.lists(st.sampled_from("abcd"), max_size=12)


def lcs_length(a: list[str], b: list[str]) -> int:
    """The length of a longest common subsequence, by the textbook recursion."""

    @cache
    def best(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return 0
        if a[i] == b[j]:
            return 1 + best(i + 1, j + 1)
        return max(best(i + 1, j), best(i, j + 1))

    return best(0, 0)


class TestAlign:
    @given(letters, letters)
    def test_finds_a_longest_common_subsequence(self, a: list[str], b: list[str]) -> None:
        """The pairs have equal keys, increase on both sides, and there are as many as can be."""
        pairs = align(a, b)
        assert [a[i] for i, _ in pairs] == [b[j] for _, j in pairs]
        assert pairs == sorted(set(pairs))
        assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs) == lcs_length(a, b)

    @given(letters, letters)
    def test_swapping_the_sides_swaps_the_pairs(self, a: list[str], b: list[str]) -> None:
        """Which side is called golden does not change what pairs."""
        assert align(b, a) == [(j, i) for i, j in align(a, b)]

    @given(letters, letters)
    def test_a_refused_pair_never_pairs(self, a: list[str], b: list[str]) -> None:
        """What confirm refuses is not paired, though the keys are equal."""
        assert all((i + j) % 2 for i, j in align(a, b, lambda i, j: bool((i + j) % 2)))

    def test_one_dropped_turn_of_a_long_loop_is_one(self) -> None:
        """10,000 turns with one dropped and 1 % changed: all that are equal pair, at their shifted places."""
        golden = [str(turn) for turn in range(10_000)]
        candidate = [key if turn % 100 else f"changed {key}" for turn, key in enumerate(golden) if turn != 5_050]
        pairs = align(golden, candidate)
        assert pairs == [(i, i - (i > 5_050)) for i in range(10_000) if i % 100 and i != 5_050]

    def test_beyond_the_budget_the_pairs_are_still_a_common_subsequence(self) -> None:
        """A reversed and repeated sequence, far beyond what a round may spend, gives valid pairs and ends."""
        a = [str(i) for i in range(4 * BUDGET)]
        b = a[::-1] + a
        pairs = align(a, b)
        assert pairs
        assert all(a[i] == b[j] for i, j in pairs)
        assert pairs == sorted(pairs)
        assert len({j for _, j in pairs}) == len({i for i, _ in pairs}) == len(pairs)

    @given(letters, letters)
    def test_dear_keys_are_only_computed_between_the_common_ends(self, a: list[str], b: list[str]) -> None:
        """align_by finds as much as align, and asks for no key of the common start."""
        asked: list[int] = []

        def key(i: int) -> str:
            asked.append(i)
            return a[i]

        pairs = align_by(len(a), len(b), lambda i, j: a[i] == b[j], key, b.__getitem__, exact=True)
        assert len(pairs) == lcs_length(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        if a and b and a[0] == b[0]:
            assert 0 not in asked

    def test_inexact_keys_are_confirmed(self) -> None:
        """Where equal keys only mean "perhaps", align_by asks whether the two items agree."""
        a, b = [1.0, 5.0, 9.0], [5.001, 9.0]
        pairs = align_by(3, 2, lambda i, j: abs(a[i] - b[j]) < 0.1, lambda i: "number", lambda j: "number", exact=False)
        assert pairs == [(1, 0), (2, 1)]


class TestScript:
    @given(letters, letters)
    def test_every_index_comes_once(self, a: list[str], b: list[str]) -> None:
        """A script holds each index of both sides exactly once, in order."""
        rows = script(align(a, b), len(a), len(b))
        assert [i for i, _ in rows if i is not None] == list(range(len(a)))
        assert [j for _, j in rows if j is not None] == list(range(len(b)))

    def test_a_replaced_block_pairs_in_order(self) -> None:
        """Two items replaced by three: first with first, second with second, and one new."""
        assert script([(0, 0), (3, 4)], 4, 5) == [(0, 0), (1, 1), (2, 2), (None, 3), (3, 4)]

    def test_a_replaced_block_pairs_as_told(self) -> None:
        """pair_up decides, and what it leaves out is gone or new at its place."""
        rows = script([], 2, 3, lambda gone, new: [(0, 1)])
        assert rows == [(None, 0), (0, 1), (1, None), (None, 2)]


@given(st.permutations(range(7)))
def test_longest_increasing_is_the_longest(numbers: list[int]) -> None:
    """What is kept increases, and no longer increasing subsequence exists."""
    kept = [number for index, number in enumerate(numbers) if index in longest_increasing(numbers)]
    assert kept == sorted(kept)
    assert len(kept) == lcs_length([str(number) for number in numbers], [str(number) for number in range(7)])


class TestAssign:
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4))), st.integers(0, 5), st.integers(0, 5))
    def test_finds_as_many_pairs_as_there_can_be(self, edges: list[tuple[int, int]], n: int, m: int) -> None:
        """No index twice, only pairs that fit, and as many as the best of all permutations."""
        found = assign(n, m, lambda i, j: (i, j) in edges)
        assert len(set(found.values())) == len(found)
        assert all((i, j) in edges for i, j in found.items())
        columns = [*range(m), *[-1] * n]
        best = max(sum((i, j) in edges for i, j in enumerate(order)) for order in set(permutations(columns, n)))
        assert len(found) == best

    def test_known_pairs_are_rearranged_where_that_gives_more(self) -> None:
        """A first guess that stands in the way is changed."""
        fits = {(0, 0), (0, 1), (1, 0)}
        assert assign(2, 2, lambda i, j: (i, j) in fits, {0: 0}) == {0: 1, 1: 0}

    def test_every_way_to_rearrange_is_tried(self) -> None:
        """The first partner to be freed is stuck, the second can move on."""
        fits = {(0, 0), (1, 1), (1, 2), (2, 0), (2, 1)}
        assert assign(3, 3, lambda i, j: (i, j) in fits) == {0: 0, 1: 2, 2: 1}

    def test_equal_keys_pair_in_any_order_unless_refused(self) -> None:
        """match_keys pairs multisets, and finds the way round a refusal."""
        assert match_keys(["a", "b", "a"], ["b", "a", "c"]) == {0: 1, 1: 0}
        assert match_keys(["a", "a"], ["a", "a"], lambda i, j: (i, j) != (1, 1)) == {0: 1, 1: 0}
