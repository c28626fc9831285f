"""What pytest-loom costs a suite: unused beside pytest-recording, one loom test among 200, a replay of 20 effects.

Whole pytest processes, interleaved, so that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from benchmarks.measure import milliseconds, session
from benchmarks.test_replay import sync_flow
from pytest_loom import record, write_log

ROUNDS = 13
SUITE = 200
EFFECTS = 20
AIM_MS = 1
OURS = ("-p", "pytest_loom.plugin")
RECORDING = ("-p", "pytest_recording.plugin")
EMPTY = "def test_empty_{}(): pass\n"
REPLAY = """
from benchmarks.test_replay import sync_flow

def test_replay_{}(loom):
    loom.replay(loom.load("golden.loom.jsonl"), sync_flow)
"""


def medians(folder: Path, ways: Mapping[str, tuple[str, ...]], rounds: int) -> dict[str, float]:
    """The median processor seconds of each session, in turn; the first of each only warms caches."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1 if rounds > 1 else 1):
        for name, options in ways.items():
            seconds = session(folder, *options)
            if number or rounds < 2:
                taken[name].append(seconds)
    return {name: statistics.median(found) for name, found in taken.items()}


def test_the_plugin_unused(tmp_path: Path, measuring: bool, row: Callable[..., None]) -> None:
    """One empty test, with no plugin, with ours, and with pytest-recording where that is installed."""
    (tmp_path / "test_empty.py").write_text(EMPTY.format(1))
    ways: dict[str, tuple[str, ...]] = {"bare": (), "loom": OURS}
    if find_spec("pytest_recording"):
        ways["recording"] = RECORDING
    took = medians(tmp_path, ways, ROUNDS if measuring else 1)
    bare, ours = took["bare"], took["loom"] - took["bare"]
    beside = f"bare pytest {milliseconds(bare)}"
    ratio = f"{took['loom'] / bare:.3f} times"
    if "recording" in took:
        beside += f", pytest-recording {(took['recording'] - bare) * 1000:+.1f} ms"
        ratio += f", pytest-recording {took['recording'] / bare:.3f} (aim: no more)"
    row("start-up, plugin unused", f"{ours * 1000:+.1f} ms", beside, ratio)


def test_in_a_suite(tmp_path: Path, measuring: bool, row: Callable[..., None]) -> None:
    """200 empty tests; one of them, then all, replay a golden of 20 effects instead."""
    write_log(record(sync_flow, EFFECTS), tmp_path / "golden.loom.jsonl")
    suite = SUITE if measuring else 3
    for name, replays in {"none": 0, "one": 1, "all": suite}.items():
        texts = [(REPLAY if number < replays else EMPTY).format(number) for number in range(suite)]
        (tmp_path / f"test_{name}.py").write_text("".join(texts))
    ways = {name: (*OURS, f"test_{name}.py") for name in ("none", "one", "all")}
    took = medians(tmp_path, ways, 5 if measuring else 1)
    row(
        f"one loom test in a suite of {suite}",
        f"{(took['one'] - took['none']) * 1000:+.0f} ms",
        f"{suite} empty tests {milliseconds(took['none'])}",
        f"{took['one'] / took['none']:.2f} times, what it imports included",
    )
    each, empty = (took["all"] - took["one"]) / (suite - 1), took["none"] / suite
    row(
        f"a test that replays {EFFECTS} effects",
        f"{each * 1000:+.2f} ms",
        f"an empty test, pytest's share included: {empty * 1000:.2f} ms",
        f"{each * 1000:+.2f} ms (aim: ≤ +{AIM_MS})",
    )
