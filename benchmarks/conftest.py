"""The table of a benchmark run: each test enters its rows, and all are printed together at the end, as Markdown.

``python -m pytest benchmarks`` measures; with ``--benchmark-disable`` everything runs once, only to see that it runs.
``LOOM_BENCH_SCALE=0.1`` takes corpora of a tenth of the size, 10 of ten times the size.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from typing import NamedTuple

import pytest


class Row(NamedTuple):
    """What was measured, with which outcome, beside what, and in which ratio, with the aim where there is one.

    ``growth`` is what the same costs for each event, effect or run at the larger size, as a multiple of the smaller.
    """

    what: str
    ours: str
    beside: str = ""
    ratio: str = ""
    growth: str = ""


ROWS = pytest.StashKey[list[Row]]()
HEAD = Row("what", "pytest-loom", "beside", "ratio", "growth")


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Call it with the cells of a Row to have it in the table."""
    rows = request.config.stash.setdefault(ROWS, [])
    return lambda *cells: rows.append(Row(*cells))


def is_measuring(config: pytest.Config) -> bool:
    """Whether real measurements are taken (many rounds, large inputs), rather than everything run through once."""
    return not config.getoption("benchmark_disable", False)


@pytest.fixture
def measuring(request: pytest.FixtureRequest) -> bool:
    """Whether to take real measurements."""
    return is_measuring(request.config)


@pytest.fixture(scope="session")
def sized(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """``sized(number, few)``: so many, scaled; only a few where nothing is measured."""
    scale = float(os.environ.get("LOOM_BENCH_SCALE", "1"))
    return lambda number, few: max(few, int(number * scale)) if is_measuring(request.config) else few


def pytest_configure(config: pytest.Config) -> None:
    """One table is enough: pytest-benchmark's own are shown with ``-v``."""
    config.option.benchmark_quiet = True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    rows = config.stash.get(ROWS, [])
    if rows:
        terminalreporter.section("benchmarks")
        machine = f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        terminalreporter.write_line(f"{machine}{'' if is_measuring(config) else '; run through once, not measured'}\n")
        for cells in (HEAD, ("---",) * len(HEAD), *rows):
            terminalreporter.write_line(f"| {' | '.join(cells)} |")
