"""How things are measured: best of rounds taken in turn, processor time where nothing is waited for, real peaks."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least processor seconds of each, taken in turn, so that whatever else the machine does hits all alike."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, work in ways.items():
            begun = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - begun)
    return best


def peak_mib() -> float:
    """The most memory that this process had. Linux counts in ru_maxrss what its parent had, too, so it is asked."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.open() if line.startswith("VmHWM")) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1024**2 if sys.platform == "darwin" else most / 1024


def session(folder: Path, *options: str) -> float:
    """One pytest process with no plugin but those that the options name: its processor seconds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Python's default, or every process would compile the plugins anew and the figure would tell of the compiler.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    root = str(Path(__file__).parent.parent)  # the tests of a session may import what is here
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.returncode == 0, run.stdout + run.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def milliseconds(seconds: float) -> str:
    """As people read it."""
    return f"{seconds * 1000:,.0f} ms" if seconds >= 0.0995 else f"{seconds * 1000:,.1f} ms"
