"""Style two: what did each run come to, in a few lines that a reviewer reads?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_loom import Log


@pytest.mark.loom("logs/*.loom.jsonl")
def test_every_run_comes_to_the_same(loom_golden: Log, loom_snapshot: object, rerun: Callable[[Log], Log]) -> None:
    """The summaries lie in __snapshots__; --snapshot-update writes them anew."""
    candidate = rerun(loom_golden)
    assert candidate == loom_snapshot
