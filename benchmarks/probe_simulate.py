"""One measurement in a process of its own: ``python -m benchmarks.probe_simulate WHAT PATH KIND ROUNDS``.

``times``: the best of so many rounds each, in turn, of the bare msgspec scan and of the simulation (processor time).
``peak``: the simulation once, and the most memory that it took. ``warm``: the simulation as a pytest item has it, the
first time and the second. ``workers``: one process and two. Prints the numbers as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.corpus import contract
from benchmarks.measure import peak_mib
from pytest_loom import Event, simulate_deploy
from pytest_loom.deploy import unchanged
from pytest_loom.deploy.decide import Today
from pytest_loom.deploy.report import DeployReport
from pytest_loom.deploy.simulate import simulate_share
from pytest_loom.resume.policy import Policy
from pytest_loom.sources import LogStream, iter_wanted

BLOCK = 64 * 1024 * 1024


def scan(path: Path) -> None:
    """The limit: msgspec decodes the envelopes, payloads stay raw; nothing is checked, grouped or judged.

    So much at once as is read as a whole, since no corpus of any size fits into memory.
    """
    decode = msgspec.json.Decoder(Event).decode_lines
    gc.disable()
    rest = b""
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            cut = block.rfind(b"\n") + 1
            decode(rest + block[:cut])
            rest = block[cut:]
    gc.enable()


def simulate(path: Path, kind: str) -> None:
    """Every run held against today's contract."""
    assert simulate_deploy(path, contract(kind)).ok


def seconds(work: Callable[[], object]) -> float:
    """What it takes of the processor."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def times(path: Path, kind: str, rounds: int) -> dict[str, float]:
    """The best of each, in turn, so that whatever else the machine does hits both alike."""
    both = [(seconds(lambda: scan(path)), seconds(lambda: simulate(path, kind))) for _ in range(rounds)]
    return {"scan": min(one for one, _ in both), "simulate": min(other for _, other in both)}


def peak(path: Path, kind: str, rounds: int) -> dict[str, float]:
    """The most memory in MiB, and how much of it was taken before the first run was read."""
    import pytest_loom.plugin.items  # noqa: F401  # as much as a session has loaded

    before = peak_mib()
    simulate(path, kind)
    return {"peak": peak_mib(), "before": before}


def workers(path: Path, kind: str, rounds: int) -> dict[str, float]:
    """Real seconds of one process, and of two side by side, which are there when it begins."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        simulate_deploy(path, contract(kind), executor=executor)
        found = {"one": float("inf"), "two": float("inf")}
        for _ in range(rounds):
            for name, more in {"one": {}, "two": {"executor": executor}}.items():
                begun = time.perf_counter()
                assert simulate_deploy(path, contract(kind), **more).ok  # type: ignore[arg-type]
                found[name] = min(found[name], time.perf_counter() - begun)
    return found


def warm(path: Path, kind: str, rounds: int) -> dict[str, float]:
    """A session without a report of the file, one with it, and one for which the file has to be hashed."""

    def session(folder: Path) -> None:
        def judged(today: Today) -> DeployReport:
            logs = LogStream(lambda wanted: iter_wanted(path, wanted))
            return simulate_share(logs, today, checks=(), **rules)

        unchanged.report_of(path, None, contract(kind), folder, simulate=judged, **rules)

    rules: dict[str, Any] = {"contract": None, "scope": "auto", "policy": Policy()}
    unchanged._own()
    found: dict[str, float] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            taken = {"first": seconds(lambda: session(Path(name))), "second": seconds(lambda: session(Path(name)))}
            path.touch()
            taken["touched"] = seconds(lambda: session(Path(name)))
        found = {key: min(value, found.get(key, value)) for key, value in taken.items()}
    return found


PROBES = {"times": times, "peak": peak, "warm": warm, "workers": workers}

if __name__ == "__main__":
    what, where, name, number = sys.argv[1:]
    print(json.dumps(PROBES[what](Path(where), name, int(number))))
