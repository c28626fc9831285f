"""Figures of a benchmark run: each test says its lines, and all are printed together at the end.

``python -m pytest benchmarks`` measures; with ``--benchmark-disable`` everything runs once, only to see that it runs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Call it with one line of text to have it printed at the end of the run."""
    return request.config.stash.setdefault(FIGURES, []).append


@pytest.fixture
def measuring(request: pytest.FixtureRequest) -> bool:
    """Whether to take real measurements (many rounds, large inputs) rather than only to run through once."""
    return not request.config.getoption("benchmark_disable", False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the figures."""
    lines = config.stash.get(FIGURES, [])
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
