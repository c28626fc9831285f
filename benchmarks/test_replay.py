"""Replays of 20, 1,000 and 10,000 recorded effects, ours beside the peers, all in one run.

Measured for everybody alike: one process, from the recorded file on disk to the finished replay, the collector on and
just run, rounds of all taken in turn, the best round of each. It is processor time, all threads', since a replay waits
for nothing and a busy machine would only add noise. Temporal's Replayer takes a minute and more at the larger size:
there it has its turn only if the environment variable LOOM_BENCH_TEMPORAL says with how many effects.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay_peers import TEMPORAL, WORLD, Peer, arguments, peers, work
from pytest_loom import Context, SyncContext, flow, load_log, record, replay, step, write_log

SIZES = (20, 1_000, 10_000)
ROUNDS = 15
PATIENCE = 3  # seconds after which a peer gets no further round at a size
AIM = 1.3  # what an effect may cost more at the larger size
PEAK_AIM = 60  # MiB over the bare interpreter
PEAK = """
import sys
from benchmarks.measure import peak_mib
bare = peak_mib()
from benchmarks.replay_peers import arguments, work
from pytest_loom import flow, load_log, replay, step

answer = step(id="work")(work)

@flow(id="bench", version="1", steps=[answer])
def bench(ctx, effects):
    return sum(ctx.run(answer, arguments(number))["score"] for number in range(effects))

assert replay(load_log(sys.argv[1]), bench).events[-1].payload["output"] == sum(range(int(sys.argv[2])))
print(peak_mib(), bare)
"""


@step(id="work")
async def async_work(request: dict[str, Any]) -> dict[str, Any]:
    """The effect as a coroutine."""
    return work(request)


@step(id="work")
def sync_work(request: dict[str, Any]) -> dict[str, Any]:
    """The effect as a plain function."""
    return work(request)


@flow(id="bench", version="1", steps=[async_work])
async def async_flow(ctx: Context, effects: int) -> int:
    """The same program as the peers': asks, and sums up the answers."""
    total = 0
    for number in range(effects):
        total += (await ctx.run(async_work, arguments(number)))["score"]
    return total


@flow(id="bench", version="1", steps=[sync_work])
def sync_flow(ctx: SyncContext, effects: int) -> int:
    """The same as a plain function."""
    total = 0
    for number in range(effects):
        total += ctx.run(sync_work, arguments(number))["score"]
    return total


def ours(name: str, program: Any) -> Peer:
    """Our row for one form of flow."""

    def replayed(path: Path, effects: int) -> int:
        last = replay(load_log(path.with_suffix(".loom.jsonl")), program).events[-1]
        given = last.payload["output"]
        assert isinstance(given, int)
        return given

    def recorded(path: Path, effects: int) -> None:
        write_log(record(program, effects), path.with_suffix(".loom.jsonl"))

    return Peer(name, "pytest-loom", True, recorded, replayed)


OURS = [ours("ours, async flow", async_flow), ours("ours, sync flow", sync_flow)]
ROWS = [*OURS, *peers()]


def absent(peer: Peer) -> str:
    """Why a peer cannot be measured; "" if it can."""
    if peer in OURS:
        return ""
    try:
        version(peer.package)
    except PackageNotFoundError:
        return f"{peer.package} is not installed"
    return ""


def recorded(peer: Peer, folder: Path, effects: int) -> Path:
    """A file with a recorded run of so many effects; from then on a live answer would differ from a recorded one."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{effects}.json"
    WORLD.calls = WORLD.live = 0
    peer.record(path, effects)
    assert WORLD.calls == effects
    WORLD.calls, WORLD.live = 0, 1
    return path


@pytest.fixture(autouse=True)
def _world() -> None:
    """Every test begins with the world as it was recorded."""
    WORLD.calls, WORLD.live, WORLD.changed = 0, 0, -1


@pytest.mark.parametrize("peer", ROWS, ids=lambda peer: peer.name)
def test_answers_come_from_the_recording(peer: Peer, tmp_path: Path) -> None:
    """A replay gives what was recorded and calls nothing live; one changed argument fails it if the table says so."""
    if reason := absent(peer):
        pytest.skip(reason)
    path = recorded(peer, tmp_path / "files", 20)
    assert peer.replay(path, 20) == sum(range(20))
    WORLD.changed = 10
    if peer.checks:
        with pytest.raises(Exception, match=r"(?i)differ|diverge|match|miss"):
            peer.replay(path, 20)
    else:
        assert peer.replay(path, 20) == sum(range(20))
    assert WORLD.calls == 0


def seconds(peer: Peer, path: Path, effects: int) -> float:
    """What one replay takes of the processor, from the file on."""
    gc.collect()
    begun = time.process_time()
    total = peer.replay(path, effects)
    taken = time.process_time() - begun
    assert total == sum(range(effects))
    assert WORLD.calls == 0
    return taken


def size(peer: Peer, effects: int) -> int:
    """How many effects a peer gets where the others get so many; 0: none."""
    if peer is TEMPORAL and effects > SIZES[1]:
        return int(os.environ.get("LOOM_BENCH_TEMPORAL", "0"))
    return effects


def measure(effects: int, folder: Path, rounds: int) -> dict[str, float]:
    """What an effect costs each peer that is here, in microseconds: the best of its rounds."""
    running = [peer for peer in ROWS if not absent(peer) and size(peer, effects)]
    files = {peer: recorded(peer, folder / peer.name, size(peer, effects)) for peer in running}
    spent = dict.fromkeys(running, 0.0)
    best: dict[str, float] = {}
    for _ in range(rounds):
        for peer in running:
            if spent[peer] < PATIENCE:
                taken = seconds(peer, files[peer], size(peer, effects))
                spent[peer] += taken
                best[peer.name] = min(best.get(peer.name, taken), taken)
    return {peer.name: best[peer.name] / size(peer, effects) * 1e6 for peer in running}


def test_replay_beside_the_peers(
    tmp_path: Path, measuring: bool, sized: Callable[[int, int], int], row: Callable[..., None]
) -> None:
    """A row for everybody at each size: effects a second, beside ours, and what an effect costs in a longer run."""
    sizes = [sized(effects, few) for effects, few in zip(SIZES, (2, 10, 20), strict=True)]
    costs = [measure(effects, tmp_path, ROUNDS if measuring else 1) for effects in sizes]
    for number, effects in enumerate(sizes):
        ours = max(costs[number][peer.name] for peer in OURS)
        rivals = [costs[number][peer.name] for peer in peers() if peer.checks and peer.name in costs[number]]
        for peer in ROWS:
            what = f"replay {effects:,} effects, file to finish: {peer.name}{'' if peer.checks else ' (compares none)'}"
            if peer.name not in costs[number]:
                row(what, "", absent(peer) or "not run")
                continue
            cost = costs[number][peer.name]
            before = costs[number - 1].get(peer.name) if number else None
            growth = "" if before is None else f"{cost / before:.2f}"
            speed = f"{1e6 / cost:,.0f} effects/s"
            if peer not in OURS:
                row(what, "", speed, f"ours {cost / ours:.1f} times as fast", growth)
            else:
                ratio = f"{min(rivals) / cost:.1f} times the next that compares (aim: > 1)" if rivals else ""
                row(what, speed, "", ratio, f"{growth} (aim: ≤ {AIM})" if number == 2 else growth)


def test_peak(tmp_path: Path, sized: Callable[[int, int], int], row: Callable[..., None]) -> None:
    """The most memory that a process takes to load and replay, over what the bare interpreter has."""
    for effects in (sized(1_000, 10), sized(10_000, 20)):
        path = recorded(OURS[0], tmp_path, effects)
        command = [sys.executable, "-c", PEAK, str(path.with_suffix(".loom.jsonl")), str(effects)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peak, bare = map(float, done.stdout.split())
        row(
            f"memory peak of a process that replays {effects:,} effects",
            f"{peak:.0f} MiB",
            f"bare interpreter {bare:.0f} MiB",
            f"{peak - bare:+.0f} MiB (aim: ≤ +{PEAK_AIM})",
        )
