"""Structural simulation: beside the bare scan of the same bytes, its memory, its growth, two workers, the second time.

Runs of 20 events. Each figure is that of processes of its own, in processor time, the best of some rounds; that of two
workers is real time, which only an idle machine can give.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.corpus import EVENTS_A_RUN, KINDS, write_runs
from benchmarks.measure import milliseconds
from benchmarks.probe_simulate import PROBES

FEW, MANY = 10_000, 100_000
AT_BOTH = ("finished", "a third waiting")
ROUNDS = 3
AIM = 3.0
WARM_AIM = 0.1
WORKERS_AIM = 1.5


Probe = Callable[[str, Path, str], dict[str, float]]


def apart(what: str, path: Path, kind: str, rounds: int = ROUNDS) -> dict[str, float]:
    """What a process of its own measures."""
    command = [sys.executable, "-m", "benchmarks.probe_simulate", what, str(path), kind, str(rounds)]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


@pytest.fixture
def probe(measuring: bool) -> Probe:
    """The same; in this process, where nothing is measured."""
    return apart if measuring else lambda what, path, kind: PROBES[what](path, kind, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_simulation_beside_the_scan(
    kind: str, tmp_path: Path, probe: Probe, sized: Callable[[int, int], int], row: Callable[..., None]
) -> None:
    """The ratio to the scan, and that neither it nor what a run costs grows with the number of runs."""
    smaller = 0.0
    for runs, path in corpora(kind, tmp_path, sized):
        size = path.stat().st_size / 1e6
        took = probe("times", path, kind)
        row(
            f"a deploy simulated of {runs:,} runs, {kind}, {size:,.0f} MB",
            f"{milliseconds(took['simulate'])}, {size / took['simulate']:.0f} MB/s",
            f"scan {milliseconds(took['scan'])}",
            f"{took['simulate'] / took['scan']:.2f} times (aim: ≤ {AIM:g})",
            f"{took['simulate'] / runs / smaller:.2f}" if smaller else "",
        )
        smaller = took["simulate"] / runs


@pytest.mark.parametrize("kind", AT_BOTH)
def test_memory(kind: str, tmp_path: Path, sized: Callable[[int, int], int], row: Callable[..., None]) -> None:
    """What a process takes at most, and that it hardly grows."""
    smaller = 0.0
    for runs, path in corpora(kind, tmp_path, sized):
        memory = apart("peak", path, kind, 1)
        row(
            f"memory peak of a process that simulates {runs:,} runs, {kind}",
            f"{memory['peak']:.0f} MiB",
            f"before the first run {memory['before']:.0f} MiB",
            f"{memory['peak'] - memory['before']:+.0f} MiB",
            f"{memory['peak'] / smaller:.2f} in all" if smaller else "",
        )
        smaller = memory["peak"]


def corpora(kind: str, folder: Path, sized: Callable[[int, int], int]) -> Iterator[tuple[int, Path]]:
    """A corpus, and of some kinds one of ten times the size, one after the other."""
    for runs in dict.fromkeys((sized(FEW, 40), sized(MANY, 40)) if kind in AT_BOTH else (sized(FEW, 40),)):
        path = write_runs(folder / f"{runs}.loom.jsonl", runs * EVENTS_A_RUN, kind)
        yield runs, path
        path.unlink()


@pytest.mark.parametrize("kind", ["finished", "a third waiting", "waiting"])
def test_the_second_time(
    kind: str, tmp_path: Path, probe: Probe, sized: Callable[[int, int], int], row: Callable[..., None]
) -> None:
    """A file that is unchanged, known by its times, or by its bytes, where its speed is that of SHA-256."""
    runs = sized(MANY, 400)
    path = write_runs(tmp_path / "runs.loom.jsonl", runs * EVENTS_A_RUN, kind)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    took = probe("warm", path, kind)
    for name, what, aim in (
        ("second", "unchanged", f" (aim: < {WARM_AIM:g})"),
        ("touched", "touched, so that it is hashed", ""),
    ):
        row(
            f"a second time: {runs:,} runs, {kind}, {what}",
            milliseconds(took[name]),
            f"the first time {milliseconds(took['first'])}",
            f"{took[name] / took['first']:.3f}{aim}",
        )


@pytest.mark.parametrize("files", [8, 1])
def test_two_workers(
    files: int, tmp_path: Path, probe: Probe, sized: Callable[[int, int], int], row: Callable[..., None]
) -> None:
    """Files that are dealt out, and one that is divided, which both have to read."""
    runs = sized(MANY, 80)
    for number in range(files):
        write_runs(tmp_path / f"{number}.loom.jsonl", runs * EVENTS_A_RUN // files, "finished")
    took = probe("workers", tmp_path, "finished")
    aim = f" (aim: ≥ {WORKERS_AIM}, idle machine)" if files > 1 else ""
    row(
        f"two workers: {runs:,} runs, finished, in {files} file{'s' if files > 1 else ''} (real time)",
        milliseconds(took["two"]),
        f"one {milliseconds(took['one'])}",
        f"{took['one'] / took['two']:.2f} times as fast{aim}",
    )
