"""Reading, folding and simulating 100 k events, beside the limit (a bare msgspec scan) and beside json.loads."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.corpus import contract, write_runs
from pytest_loom import Event, load_logs, simulate_deploy

EVENTS = 100_000


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """100 k events in one file; a hundredth of that where nothing is measured."""
    small = request.config.getoption("benchmark_disable", False)
    return write_runs(tmp_path_factory.mktemp("corpus") / "runs.loom.jsonl", EVENTS // (100 if small else 1))


def scan(path: Path) -> None:
    """The limit: msgspec decodes the envelopes, payloads stay raw, and nothing is checked or grouped."""
    gc.disable()
    try:
        msgspec.json.Decoder(Event).decode_lines(path.read_bytes())
    finally:
        gc.enable()


def read(path: Path) -> None:
    """Every run as a checked Log."""
    for log in load_logs(path):
        assert log.events


def fold(path: Path) -> None:
    """Every run folded."""
    for log in load_logs(path):
        assert log.state.frames


def simulate(path: Path) -> None:
    """Every run held against today's contract."""
    assert simulate_deploy(path, contract()).ok


def standard_library(path: Path) -> None:
    """What a script would do: json.loads on each line."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            json.loads(line)


MEASURED = (scan, read, fold, simulate, standard_library)
AIMS = {"fold": "aim: at most x4", "simulate": "aim: at most x3"}


@pytest.mark.benchmark(group="100 k events")
@pytest.mark.parametrize("work", MEASURED, ids=lambda work: str(work.__name__))
def test_100k_events(benchmark: Any, corpus: Path, work: Callable[[Path], None], best: dict[str, float]) -> None:
    """Each does its work on the same file; pytest-benchmark's table shows them side by side."""
    benchmark.pedantic(work, args=(corpus,), rounds=7, warmup_rounds=1)
    if benchmark.stats is not None:
        best[work.__name__] = benchmark.stats.stats.min


def test_ratios(best: dict[str, float], figure: Callable[[str], None]) -> None:
    """The ratios to the limit, as lines."""
    for name in [name for name in best if name != "scan" and "scan" in best]:
        aim = f" ({AIMS[name]})" if name in AIMS else ""
        figure(f"100 k events, {name}: x{best[name] / best['scan']:.2f} of the bare msgspec scan{aim}")


@pytest.fixture(scope="module")
def best() -> dict[str, float]:
    """The best round of each, in seconds."""
    return {}
