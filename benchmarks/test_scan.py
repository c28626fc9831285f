"""Reading, folding and simulating 100 k events, beside the limit (a bare msgspec scan) and beside json.loads."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.corpus import contract, write_runs
from benchmarks.measure import milliseconds
from pytest_loom import Event, load_logs, simulate_deploy

EVENTS = 100_000
SIZES = ("a tenth", "all")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory, sized: Callable[[int, int], int]) -> dict[str, Path]:
    """100 k events in one file, and a tenth of them in another."""
    folder = tmp_path_factory.mktemp("corpus")
    sizes = zip(SIZES, (sized(EVENTS // 10, 100), sized(EVENTS, 1000)), strict=True)
    return {size: write_runs(folder / f"{size}.loom.jsonl", events) for size, events in sizes}


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


MEASURED = {
    scan: "the limit: a bare msgspec scan",
    read: "read and check",
    fold: "read, check and fold",
    simulate: "simulate a deploy",
    standard_library: "`json.loads` of each line",
}
AIMS = {fold: 4, simulate: 3}
Best = dict[tuple[Callable[[Path], None], str], float]


@pytest.mark.benchmark(group="100 k events", timer=time.process_time)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("work", MEASURED, ids=lambda work: str(work.__name__))
def test_events(benchmark: Any, corpora: dict[str, Path], size: str, work: Callable[[Path], None], best: Best) -> None:
    """Each does its work on the same files."""
    benchmark.pedantic(work, args=(corpora[size],), rounds=7, warmup_rounds=1)
    if benchmark.stats is not None:
        best[work, size] = benchmark.stats.stats.min


def test_ratios(best: Best, corpora: dict[str, Path], row: Callable[..., None]) -> None:
    """The ratios to the limit, and to the tenth of the events."""
    few, all_of = SIZES
    events = corpora[all_of].read_bytes().count(b"\n")
    for work, what in MEASURED.items():
        if {(work, few), (work, all_of), (scan, all_of)} <= best.keys():
            taken, limit = best[work, all_of], best[scan, all_of]
            aim = f" (aim: ≤ {AIMS[work]})" if work in AIMS else ""
            row(
                f"{events:,} events: {what}",
                milliseconds(taken),
                "" if work is scan else f"scan {milliseconds(limit)}",
                "" if work is scan else f"{taken / limit:.2f} times{aim}",
                f"{taken / best[work, few] / 10:.2f}",
            )


@pytest.fixture(scope="module")
def best() -> Best:
    """The best round of each, in seconds."""
    return {}
