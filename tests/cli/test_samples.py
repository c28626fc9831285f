"""Which runs of a source are imported: filters, samples and budgets, with one run in memory at a time."""

from __future__ import annotations

import gc
import json
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.cli import importing, sampling
from pytest_loom.cli.output import OK
from pytest_loom.cli.sampling import moment, size, without_loops
from pytest_loom.errors import LoomError
from pytest_loom.log.event import Log
from tests.cli.conftest import DAY, START, Desk, made


@pytest.fixture
def corpus(desk: Desk) -> Desk:
    """Six runs of two flows, a day apart; two of them wait."""
    desk.log("1", made("r1", start=START))
    desk.log("2", made("r2", start=START + DAY, steps=["assess", "assess", "pay"]))
    desk.log("3", made("r3", start=START + 2 * DAY, steps=["assess"], waits="Approved"))
    desk.log("4", made("r4", start=START + 3 * DAY, steps=["assess"], waits="Refused"))
    desk.log("5", made("r5", start=START + 4 * DAY, flow="returns"))
    desk.log("6", made("r6", start=START + 5 * DAY, flow="returns", given={"much": "x" * 5000}))
    return desk


def date(day: int) -> str:
    """The day of the corpus, at noon before its run."""
    return (datetime.fromtimestamp(START / 1000, UTC) + timedelta(days=day, hours=-1)).isoformat()


@pytest.mark.parametrize(
    ("words", "runs", "left_out"),
    [
        ((), "123456", {}),
        (("--in-flight",), "34", {"not in flight": 4}),
        (("--flow", "ret*"), "56", {"another flow": 4}),
        (("--flow", "returns", "--flow", "refund"), "123456", {}),
        (("--newest", "1"), "46", {"older": 4}),
        (("--newest", "2", "--flow", "refund"), "34", {"another flow": 2, "older": 2}),
        (("--one-per-path",), "1345", {"a path that is there already": 2}),
        (("--one-per-path", "--newest", "1"), "45", {"a path that is there already": 2, "older": 2}),
        (("--limit", "2"), "12", {}),
        (("--one-per-path", "--limit", "2"), "13", {"a path that is there already": 2, "over the limit": 2}),
        (("--max-bytes", "4K", "--flow", "returns"), "5", {"another flow": 4, "over the budget": 1}),
        (("--since", date(2)), "3456", {"outside of the time": 2}),
        (("--since", date(1), "--until", date(3)), "23", {"outside of the time": 4}),
    ],
)
def test_what_is_taken(corpus: Desk, words: tuple[str, ...], runs: str, left_out: dict[str, int]) -> None:
    """Each filter and sample takes what its words say, and what it left out is counted."""
    done = corpus("import", "runs", "-o", "goldens", "--json", *words)
    assert done.status == OK
    assert [one["executionId"][1:] for one in done.json["imported"]] == list(runs)
    assert done.json["leftOut"] == left_out
    for reason in left_out:
        assert reason in done.err


def test_one_per_path_keeps_the_shortest(desk: Desk) -> None:
    """Of runs that took one path the one with the fewest events is kept, though it came last."""
    desk.log("1", made("long", steps=["a", "b", "a", "b", "a", "b", "c"]))
    desk.log("2", made("short", steps=["a", "b", "c"]))
    desk.log("3", made("other", steps=["a", "c", "b"]))
    done = desk("import", "runs", "-o", "goldens", "--one-per-path", "--json")
    assert [one["executionId"] for one in done.json["imported"]] == ["short", "other"]


def test_runs_without_a_time_are_in_no_span(desk: Desk) -> None:
    """A run that does not say when it was is left out where a time is asked for, and counted as that."""
    desk.log("1", made("a", start=-10_000))
    done = desk("import", "runs", "-o", "goldens", "--since", "7d", "--json")
    assert done.json["leftOut"] == {"no time recorded": 1}


@pytest.mark.parametrize(
    ("items", "found"),
    [("ABABAC", "ABAC"), ("AAAA", "A"), ("ABCABCABC", "ABC"), ("ABC", "ABC"), ("", ""), ("AABB", "AB")],
)
def test_loops_count_once(items: str, found: str) -> None:
    """A block of steps that follows upon itself is one."""
    assert "".join(without_loops(items)) == found


def test_times_and_sizes() -> None:
    """Both are taken in the forms that the help names, and refused in others."""
    now = datetime(2026, 11, 30, tzinfo=UTC)
    assert moment("7d", lambda: now) == datetime(2026, 11, 23, tzinfo=UTC).timestamp() * 1000
    assert moment("2026-11-30T01:00:00+01:00") == now.timestamp() * 1000
    assert (size("17"), size("2K"), size("3M"), size("1g")) == (17, 2048, 3 * 1024**2, 1024**3)
    for call, text in ((moment, "2026-11-30"), (moment, "7 days"), (size, "-1"), (size, "1.5M")):
        with pytest.raises(LoomError):
            call(text)


def test_one_run_is_in_memory_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source of many runs is never held: when a run is read, those before the last one are gone."""
    seen: list[weakref.ref[Any]] = []
    alive: list[int] = []

    class Weak(Log):
        __slots__ = ("__weakref__",)

    def many(place: Path) -> Any:
        for number in range(60):
            log = made(f"order-{number}", given=number)
            one = Weak(log.events, path=str(place))
            seen.append(weakref.ref(one))
            gc.collect()
            alive.append(sum(ref() is not None for ref in seen))
            yield one

    desk.log("one", made())
    monkeypatch.setattr(importing, "iter_file", many)
    done = desk("import", "runs", "-o", "goldens", "--newest", "3", "--json")
    assert [one["executionId"] for one in done.json["imported"]] == ["order-57", "order-58", "order-59"]
    assert max(alive) <= 3


def test_what_is_not_chosen_takes_no_room(corpus: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a run that a later one replaces is let go at once."""
    folders: list[int] = []
    add = sampling.Sample.add

    def watched(sample: sampling.Sample, run: sampling.Candidate) -> None:
        add(sample, run)
        folders.append(len(list(run.text.parent.iterdir())))

    monkeypatch.setattr(sampling.Sample, "add", watched)
    corpus("import", "runs", "-o", "goldens", "--newest", "1")
    assert folders == [1, 1, 1, 1, 2, 2]
    said = json.loads((corpus.folder / "goldens/loom-import.json").read_text())
    assert said["imports"][0]["asked"] == {"newest": 1}
