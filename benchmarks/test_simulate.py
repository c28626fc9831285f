"""Structural simulation: beside the bare scan of the same bytes, its memory, its growth, and the second time.

10,000 runs (200,000 events); ``LOOM_BENCH_RUNS=100000`` measures ten times as many beside them. Each figure is that of
processes of its own, in processor time, the best of some rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.corpus import EVENTS_A_RUN, KINDS, write_runs

RUNS = 10_000
MORE = int(os.environ.get("LOOM_BENCH_RUNS", "0"))
ROUNDS = 3
AIM = 3.0
WARM_AIM = 0.1


def probe(what: str, path: Path, kind: str, rounds: int) -> dict[str, float]:
    """What a process of its own measures."""
    command = [sys.executable, "-m", "benchmarks.probe_simulate", what, str(path), kind, str(rounds)]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_simulation_beside_the_scan(kind: str, tmp_path: Path, measuring: bool, figure: Callable[[str], None]) -> None:
    """The ratio to the scan, and that neither it nor the memory grows with the number of runs."""
    sizes = (RUNS, MORE) if MORE else (RUNS,)
    for runs in sizes if measuring else (40,):
        path = write_runs(tmp_path / f"{runs}.loom.jsonl", runs * EVENTS_A_RUN, kind)
        size = path.stat().st_size / 1e6
        took = probe("times", path, kind, ROUNDS if measuring else 1)
        memory = probe("peak", path, kind, 1)
        figure(
            f"{runs:7,} runs {kind:30} {size:6.0f} MB: scan {size / took['scan']:4.0f} MB/s, simulation"
            f" {size / took['simulate']:4.0f} MB/s, x{took['simulate'] / took['scan']:.2f} of the scan (aim: at most"
            f" x{AIM:g}), peak {memory['peak']:.0f} MiB, of that {memory['before']:.0f} MiB before the first run"
        )
        path.unlink()


@pytest.mark.parametrize("kind", ["finished", "a third waiting"])
def test_the_second_time(kind: str, tmp_path: Path, measuring: bool, figure: Callable[[str], None]) -> None:
    """A file that is unchanged, known by its times or by its bytes."""
    runs = (MORE or RUNS) if measuring else 400
    path = write_runs(tmp_path / "runs.loom.jsonl", runs * EVENTS_A_RUN, kind)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    took = probe("warm", path, kind, ROUNDS if measuring else 1)
    figure(
        f"{runs:7,} runs {kind:30} the first time {took['first']:.2f} s, unchanged {took['second']:.3f} s"
        f" (x{took['second'] / took['first']:.3f}, aim: less than x{WARM_AIM:g}), touched, so that it is hashed,"
        f" {took['touched']:.3f} s (x{took['touched'] / took['first']:.3f})"
    )
