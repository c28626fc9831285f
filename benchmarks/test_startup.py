"""What pytest-loom costs a run that does not use it: whole pytest processes with and without it, interleaved."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

ROUNDS = 13
AIM_MS = 5


# pytest looks for plugins in every run, so both sides do; each plugin that it would find but ours is turned off.
OTHERS_OFF = [f"-pno:{plugin.name}" for plugin in entry_points(group="pytest11") if plugin.name != "loom"]
OURS_OFF = "-pno:loom"


def milliseconds(folder: Path, *args: str) -> float:
    """How long one pytest process takes on one empty test, with no plugin but ours."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Python's default, or every process would compile the plugin anew and the figure would tell of the compiler.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OTHERS_OFF, *args]
    begun = time.perf_counter()
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    taken = (time.perf_counter() - begun) * 1000
    assert run.returncode == 0, run.stdout + run.stderr
    return taken


def test_startup_with_the_plugin_unused(tmp_path: Path, measuring: bool, figure: Callable[[str], None]) -> None:
    """Bare pytest against pytest with our plugin loaded and unused: the medians' difference and ratio."""
    (tmp_path / "test_empty.py").write_text("def test_empty():\n    pass\n")
    rounds = ROUNDS if measuring else 1
    milliseconds(tmp_path)  # the first only warms caches
    bare, loom = [], []
    for _ in range(rounds):  # interleaved, so that whatever else the machine does hits both alike
        bare.append(milliseconds(tmp_path, OURS_OFF))
        loom.append(milliseconds(tmp_path))
    before, after = statistics.median(bare), statistics.median(loom)
    figure(
        f"start-up, plugin unused: {after - before:+.1f} ms, x{after / before:.3f} of bare pytest "
        f"({before:.0f} ms, median of {rounds}; best rounds {min(loom) - min(bare):+.1f} ms; aim: at most +{AIM_MS} ms)"
    )
