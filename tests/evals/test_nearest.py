"""Which changed items belong together: DeepDiff's one job, and its bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom.evals.nearest import nearest, nearest_in_order
from pytest_loom.evals.paths import Rules

items = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3) | st.text(max_size=2), max_size=5
)


@settings(max_examples=30)
@given(items, items)
def test_all_of_the_shorter_side_get_a_partner_the_same_both_ways(one: list[Any], other: list[Any]) -> None:
    """As many pairs as can be, no index twice, in order where asked, and swapped when the sides are."""
    for find in (nearest, nearest_in_order):
        pairs = find(one, other, Rules())
        assert len(pairs) == len({i for i, _ in pairs}) == len({j for _, j in pairs}) == min(len(one), len(other))
        assert sorted(find(other, one, Rules())) == sorted((j, i) for i, j in pairs)
    assert [j for _, j in nearest_in_order(one, other, Rules())] == sorted(
        j for _, j in nearest_in_order(one, other, Rules())
    )


def test_the_nearest_pair() -> None:
    """Items that share most are taken together, though others stand in between."""
    golden = [{"sku": "a", "n": 1, "note": "x"}, {"sku": "b", "n": 2, "note": "y"}]
    candidate = [{"sku": "b", "n": 3, "note": "y"}, {"sku": "z", "k": 0}, {"sku": "a", "n": 9, "note": "x"}]
    assert nearest(golden, candidate, Rules()) == [(0, 2), (1, 0)]
    assert nearest_in_order(golden[:1], candidate, Rules()) == [(0, 2)]
    assert nearest_in_order(golden[1:], candidate, Rules()) == [(0, 0)]


@pytest.mark.parametrize(
    "golden",
    [[{"k": 1}] * 50, [["x"] * 200], ["x" * 10_000], [json.loads("[" * 40 + "]" * 40)]],
    ids=["many", "wide", "long", "deep"],
)
def test_what_would_cost_much_pairs_in_order(golden: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepDiff is not asked about many, wide, long or deep items."""
    monkeypatch.setitem(sys.modules, "deepdiff", None)
    candidate = [{"other": 1}, *golden]
    assert nearest_in_order(golden, candidate, Rules()) == [(i, i) for i in range(len(golden))]
    assert nearest(golden, candidate, Rules()) == [(i, i) for i in range(len(golden))]


def test_one_diff_asks_only_so_often() -> None:
    """When the allowance of a diff is used up, pairs are taken in order."""
    rules = Rules()
    golden, candidate = [{"a": 1, "b": 1}], [{"c": 5}, {"a": 1, "b": 2}]
    results = [nearest_in_order(golden, candidate, rules) for _ in range(300)]
    assert results[0] == [(0, 1)]
    assert results[-1] == [(0, 0)]
    assert rules.distances >= 0


def test_the_result_does_not_depend_on_the_hash_seed() -> None:
    """Two processes with other string hashes pair the same."""
    code = dedent("""\
        import random
        from pytest_loom.evals.nearest import nearest
        from pytest_loom.evals.paths import Rules
        rnd = random.Random(7)
        def items(n):
            return [{rnd.choice("abcd"): rnd.choice(["x", "y", 1, None]) for _ in range(4)} for _ in range(n)]
        print([nearest(items(4), items(6), Rules()) for _ in range(8)])
        """)
    shown = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1
