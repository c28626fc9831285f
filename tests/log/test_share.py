"""Shares of a log: every run is in one of them, and in no other."""

from __future__ import annotations

import gzip
import hashlib
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loom import Log, LogError
from pytest_loom.log import read
from pytest_loom.log.share import KEYS, Share, key_of
from pytest_loom.sources import iter_file

LINE = (
    '{{"executionId":"{run}","workflowId":"w","sequence":{n},"timestamp":{n},"eventType":"{kind}",'
    '"schemaVersion":"1.15.0","payload":{{}}}}'
)


def lines_of(runs: int, *, mixed: bool) -> list[str]:
    """The lines of so many runs of three events, one after the other or all through each other, in order by run."""
    kinds = ("EXECUTION_STARTED", "Note", "EXECUTION_COMPLETED")
    per_run = {f"run-{number}": list(enumerate(kinds, 1)) for number in range(runs)}
    order = [name for name in per_run for _ in kinds]
    if mixed:
        random.Random(7).shuffle(order)
    return [LINE.format(run=name, n=(event := per_run[name].pop(0))[0], kind=event[1]) for name in order]


@given(of=st.integers(1, 200), run=st.text(max_size=20))
def test_a_run_is_in_one_share(of: int, run: str) -> None:
    """Shares cover all keys and never overlap; what is of no run is the first one's."""
    shares = [Share(number, of) for number in range(of)]
    assert [share.end for share in shares[:-1]] == [share.begin for share in shares[1:]]
    assert (shares[0].begin, shares[-1].end) == (0, KEYS)
    assert sum(share.holds(run) for share in shares) == 1
    assert [share.holds("") for share in shares] == [True, *[False] * (of - 1)]


@given(number=st.integers(0, 6), other=st.integers(0, 4))
def test_a_share_of_a_share(number: int, other: int) -> None:
    """The parts of a share are that share."""
    share = Share(number, 7)
    parts = [share.part(Share(one, 5)) for one in range(5)]
    assert (parts[0].begin, parts[-1].end) == (share.begin, share.end)
    assert parts[other].of == 35


def test_keys_do_not_move() -> None:
    """The key is what PostgreSQL computes: the first eight hex digits of the MD5."""
    assert key_of("thread-1") == int(hashlib.md5(b"thread-1").hexdigest()[:8], 16)
    counts = Counter(key_of(f"run-{number}") * 4 // KEYS for number in range(4000))
    assert min(counts.values()) > 900


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("mixed", [False, True], ids=["apart", "mixed"])
@pytest.mark.parametrize("form", ["plain", "gz", "blank-lines", "no-newline"])
def test_the_shares_of_a_file_are_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, mixed: bool, large: bool
) -> None:
    """Each run comes whole and once, with its own lines, whatever the file is like."""
    if large:
        monkeypatch.setattr(read, "WHOLE_FILE", 100)
    monkeypatch.setattr("pytest_loom.log.files._BLOCK", 1000)
    text = "\n".join(lines_of(60, mixed=mixed)) + ("" if form == "no-newline" else "\n")
    if form == "blank-lines":
        text = text.replace("\n", "\n\n", 20)
    path = tmp_path / ("a.loom.jsonl.gz" if form == "gz" else "a.loom.jsonl")
    path.write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode())
    whole = {log.execution_id: log for log in iter_file(path) if isinstance(log, Log)}
    assert len(whole) == 60
    found = [[log for log in iter_file(path, Share(number, 4)) if isinstance(log, Log)] for number in range(4)]
    assert all(found)
    parts = [log for share in found for log in share]
    assert len(parts) == 60
    for log in parts:
        assert log.events == whole[log.execution_id].events
        assert [event.line for event in log.events] == [event.line for event in whole[log.execution_id].events]


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_what_is_wrong_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """A run's own damage is told by its share, a line that is nobody's by the first."""
    if large:
        monkeypatch.setattr(read, "WHOLE_FILE", 100)
    lines = lines_of(20, mixed=False)
    lines[4] = lines[4].replace('"sequence":2', '"sequence":7')
    path = tmp_path / "a.loom.jsonl"

    def told() -> list[str]:
        shares = [list(iter_file(path, Share(number, 4))) for number in range(4)]
        return [item.execution_id for share in shares for item in share if isinstance(item, LogError)]

    path.write_text("\n".join(lines) + "\n")
    assert told() == ["run-1"]
    path.write_text("\n".join([*lines, "nothing"]) + "\n")
    assert told() == [""]
    path.write_text("what is this")
    assert told() == [""]


def test_a_file_that_changes_is_told_by_every_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads it while it changes says so, first share or not."""
    monkeypatch.setattr(read, "WHOLE_FILE", 100)
    path = tmp_path / "a.loom.jsonl"
    path.write_text("\n".join(lines_of(30, mixed=False)) + "\n")
    items = iter_file(path, Share(3, 4))
    assert isinstance(next(items), Log)
    with path.open("a") as stream:
        stream.write("\n")
    assert "changed while it was read" in str(list(items)[-1])
