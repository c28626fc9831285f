"""diff_runs on logs of 10 k events, equal and with 1 % changed, beside DeepDiff on the same decoded events.

diff_runs is given logs that nobody has folded yet, so folding both is part of its time; DeepDiff gets the events
already decoded. Each diff is checked for what it finds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pytest_loom import Log, LogBuilder, diff_runs

EVENTS = 10_000
KINDS = ("equal", "re-serialised", "1 % changed", "one turn dropped")


def run(events: int, kind: str) -> Log:
    """A run whose steps go round four ids, with nested outputs of about 300 bytes."""
    builder = LogBuilder("run-1", "refund")
    builder.add("EXECUTION_STARTED", {"input": {"order": "o-1"}}, timestamp=0)
    for turn in range((events - 2) // 2):
        if kind == "one turn dropped" and turn == events // 4:
            continue
        output = {
            "verdict": "ok" if turn % 3 else "review",
            "score": turn / 7,
            "lines": [{"sku": f"s-{turn}-{line}", "n": line, "tags": ["a", "b"]} for line in range(3)],
            "usage": {"input_tokens": turn, "output_tokens": 7, "model": {"name": "m", "version": 3}},
        }
        if kind == "1 % changed" and turn % 100 == 50:
            output["verdict"] = "refused"
        builder.add("STEP_STARTED", {"stepId": f"step-{turn % 4}", "input": {"turn": turn}}, timestamp=turn)
        builder.add("STEP_COMPLETED", {"stepId": f"step-{turn % 4}", "output": output}, timestamp=turn)
    builder.add("EXECUTION_COMPLETED", {"output": {"ok": True}}, timestamp=events)
    if kind != "re-serialised":
        return builder.log()
    rewritten = [
        msgspec.structs.replace(event, raw=msgspec.Raw(json.dumps(event.payload, sort_keys=True).encode()))
        for event in builder.events
    ]
    return Log(rewritten)


@pytest.fixture(scope="module")
def logs(request: pytest.FixtureRequest) -> dict[str, Log]:
    """The golden log and its candidates, made once; a hundredth of the size where nothing is measured."""
    small = request.config.getoption("benchmark_disable", False)
    return {kind: run(EVENTS // (100 if small else 1), kind) for kind in ("golden", *KINDS)}


@pytest.fixture(scope="module")
def best() -> dict[str, float]:
    """The best time of each measurement, in seconds."""
    return {}


def found(kind: str, events: int) -> int:
    """How many differences there are to be found."""
    return {"1 % changed": events // 200, "one turn dropped": 1}.get(kind, 0)


@pytest.mark.benchmark(group="diff of 10 k events")
@pytest.mark.parametrize("kind", KINDS)
def test_diff_runs(benchmark: Any, logs: dict[str, Log], best: dict[str, float], kind: str) -> None:
    """Two logs that are not folded yet: fold both, and find exactly what changed."""

    def fresh() -> tuple[tuple[Log, Log], dict[str, Any]]:
        return (Log(logs["golden"].events), Log(logs[kind].events)), {}

    differences = benchmark.pedantic(diff_runs, setup=fresh, rounds=7, warmup_rounds=1)
    assert abs(len(differences) - found(kind, len(logs["golden"]))) <= 1
    if benchmark.stats is not None:
        best[kind] = benchmark.stats.stats.min


@pytest.mark.benchmark(group="diff of 10 k events")
@pytest.mark.parametrize("kind", ["equal", "1 % changed"])
def test_deepdiff(benchmark: Any, logs: dict[str, Log], best: dict[str, float], kind: str) -> None:
    """The same events, already decoded, given to DeepDiff: once, as it takes seconds."""
    from deepdiff import DeepDiff

    golden, candidate = ([{"type": e.event_type, **e.payload} for e in logs[name].events] for name in ("golden", kind))
    difference = benchmark.pedantic(DeepDiff, args=(golden, candidate), rounds=1)
    assert len(difference.get("values_changed", ())) == found(kind, len(logs["golden"]))
    if benchmark.stats is not None:
        best[f"DeepDiff {kind}"] = benchmark.stats.stats.min


def test_ratios(best: dict[str, float], figure: Callable[[str], None]) -> None:
    """How many times faster diff_runs is, as lines."""
    for kind in [kind for kind in KINDS if kind in best]:
        line = f"diff of 10 k events, {kind}: {best[kind] * 1000:.0f} ms"
        slow = best.get(f"DeepDiff {kind}")
        if slow is not None:
            line += f", x{slow / best[kind]:.0f} faster than DeepDiff with {slow * 1000:.0f} ms (aim: x100)"
        figure(line)
