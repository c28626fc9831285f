"""What the tests of flows share: the flows whose recordings are kept."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import pytest_loom
import pytest_loom.flow.api


@pytest.fixture(autouse=True)
def flow_is_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for the name first, ``pytest_loom.flow`` is the package here: tests reach into it by this name."""
    monkeypatch.setitem(vars(pytest_loom), "flow", sys.modules["pytest_loom.flow"])


@pytest.fixture(scope="session")
def golden_flows() -> Iterator[ModuleType]:
    """The module ``golden_flows.py`` under its own name, which stands in the recordings."""
    spec = importlib.util.spec_from_file_location("golden_flows", Path(__file__).with_name("golden_flows.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden_flows"] = module  # dataclasses look their annotations up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["golden_flows"]


@pytest.fixture(autouse=True)
def no_exception_left_behind() -> Iterator[None]:
    """Code that a run ended in the middle of its handlers leaves nothing behind in the thread that ran it."""
    yield
    assert sys.exc_info()[0] is None
