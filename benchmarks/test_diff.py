"""diff_runs on logs of 10 k events, equal and changed in several ways, beside DeepDiff on the same decoded events.

diff_runs is given logs that nobody has folded yet, so folding both is part of its time; DeepDiff gets the events
already decoded. Each diff is checked for what it finds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from benchmarks.measure import in_turn, milliseconds
from pytest_loom import Event, Log, LogBuilder, diff_runs
from pytest_loom.log.write import encode_events

EVENTS = 10_000
KINDS = ("equal", "re-serialised", "one leaf changed", "1 % changed", "one turn inserted", "one turn dropped")
BESIDE = ("equal", "one leaf changed", "1 % changed", "one turn inserted")
SCAN_AIM, DEEPDIFF_AIM = 1.5, 100


def run(events: int, kind: str) -> Log:
    """A run whose steps go round four ids, with nested outputs of about 300 bytes."""
    builder = LogBuilder("run-1", "refund")
    builder.add("EXECUTION_STARTED", {"input": {"order": "o-1"}}, timestamp=0)
    for turn in range((events - 2) // 2):
        if kind == "one turn dropped" and turn == events // 4:
            continue
        if kind == "one turn inserted" and turn == events // 4:
            builder.add("STEP_STARTED", {"stepId": "step-9", "input": {"turn": -1}}, timestamp=turn)
            builder.add("STEP_COMPLETED", {"stepId": "step-9", "output": {"verdict": "new"}}, timestamp=turn)
        output = {
            "verdict": "ok" if turn % 3 else "review",
            "score": turn / 7,
            "lines": [{"sku": f"s-{turn}-{line}", "n": line, "tags": ["a", "b"]} for line in range(3)],
            "usage": {"input_tokens": turn, "output_tokens": 7, "model": {"name": "m", "version": 3}},
        }
        if (kind == "1 % changed" and turn % 100 == 50) or (kind == "one leaf changed" and turn == events // 4):
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
def logs(sized: Callable[[int, int], int]) -> dict[str, Log]:
    """The golden log and its candidates, made once; the last two are equal ones of a tenth of the events."""
    events = sized(EVENTS, 200)
    made = {kind: run(events, kind) for kind in ("golden", *KINDS)}
    return made | {kind: run(events // 10, kind) for kind in ("short golden", "short equal")}


@pytest.fixture(scope="module")
def best() -> dict[str, float]:
    """The best time of each measurement, in seconds."""
    return {}


def found(kind: str, events: int) -> int:
    """How many differences there are to be found."""
    return {"1 % changed": events // 200}.get(kind, 0 if kind in ("equal", "re-serialised") else 1)


@pytest.mark.benchmark(group="diff of 10 k events", timer=time.process_time)
@pytest.mark.parametrize("kind", KINDS)
def test_diff_runs(benchmark: Any, logs: dict[str, Log], best: dict[str, float], kind: str) -> None:
    """Two logs that are not folded yet: fold both, and find exactly what changed."""

    def fresh() -> tuple[tuple[Log, Log], dict[str, Any]]:
        return (Log(logs["golden"].events), Log(logs[kind].events)), {}

    differences = benchmark.pedantic(diff_runs, setup=fresh, rounds=7, warmup_rounds=1)
    assert abs(len(differences) - found(kind, len(logs["golden"]))) <= 1
    if benchmark.stats is not None:
        best[kind] = benchmark.stats.stats.min


@pytest.mark.benchmark(group="diff of 10 k events", timer=time.process_time)
@pytest.mark.parametrize("kind", BESIDE)
def test_deepdiff(benchmark: Any, logs: dict[str, Log], best: dict[str, float], kind: str) -> None:
    """The same events, already decoded, given to DeepDiff: once, as it takes seconds."""
    from deepdiff import DeepDiff

    golden, candidate = ([{"type": e.event_type, **e.payload} for e in logs[name].events] for name in ("golden", kind))
    difference = benchmark.pedantic(DeepDiff, args=(golden, candidate), rounds=1)
    if kind != "one turn inserted":  # for which it finds every event behind it
        assert len(difference.get("values_changed", ())) == found(kind, len(logs["golden"]))
    if benchmark.stats is not None:
        best[f"DeepDiff {kind}"] = benchmark.stats.stats.min


def test_ratios(best: dict[str, float], logs: dict[str, Log], measuring: bool, row: Callable[..., None]) -> None:
    """How many times faster diff_runs is; equal ones also beside the scan of both, and beside a tenth of the events."""
    pairs = {size: (logs[f"{size}golden"], logs[f"{size}equal"]) for size in ("", "short ")}
    texts = [encode_events(log.events) for log in pairs[""]]
    decode = msgspec.json.Decoder(Event).decode_lines
    equal = in_turn(
        {
            "scan": lambda: [decode(text) for text in texts],
            **{f"{size}diff": partial(fresh_diff, *pair) for size, pair in pairs.items()},
        },
        7 if measuring else 1,
    )
    events = len(logs["golden"])
    row(
        f"`diff_runs` of {events:,} events, equal, folding included",
        milliseconds(equal["diff"]),
        f"msgspec scan of both {milliseconds(equal['scan'])}",
        f"{equal['diff'] / equal['scan']:.2f} times (aim: ≤ {SCAN_AIM})",
        f"{equal['diff'] / equal['short diff'] / 10:.2f}",
    )
    for kind in [kind for kind in KINDS if kind in best]:
        slow = best.get(f"DeepDiff {kind}")
        row(
            f"`diff_runs` of {events:,} events, {kind}",
            milliseconds(best[kind]),
            "" if slow is None else f"DeepDiff {milliseconds(slow)}",
            "" if slow is None else f"{slow / best[kind]:.0f} times faster (aim: ≥ {DEEPDIFF_AIM})",
        )


def fresh_diff(one: Log, other: Log) -> None:
    """Two equal logs that nobody has folded."""
    assert diff_runs(Log(one.events), Log(other.events)) == []
