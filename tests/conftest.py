"""What all tests share: pytest's own test harness and the folder of shared cases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session", autouse=True)
def _no_xdist_worker() -> Iterator[None]:
    """A pytest that a test starts is no xdist worker, even where the test itself runs in one (syrupy asks this way)."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder that LOOM_CASES names; the test is skipped where it is not set, and fails where it names nothing."""
    named = os.environ.get("LOOM_CASES")
    if not named:
        pytest.skip("needs the shared cases: set LOOM_CASES to their folder")
    folder = Path(named)
    assert folder.is_dir(), f"LOOM_CASES names {named}, which is no folder"
    return folder
