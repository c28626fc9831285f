"""What the reader accepts, and how: order, positions, encodings, compression, versions, memory."""

from __future__ import annotations

import gzip
import itertools
import random
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, load_log, load_logs

MakeLine = Callable[..., bytes]
MakeRun = Callable[..., list[bytes]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the test's log goes."""
    return tmp_path / "a.loom.jsonl"


def shuffled(runs: Iterable[list[bytes]], seed: int, *, window: int = 1000) -> list[bytes]:
    """The lines of all runs, at most ``window`` of them open at a time, each run's own in order."""
    chosen = random.Random(seed)
    waiting = [list(run) for run in runs]
    current: list[list[bytes]] = []
    mixed = []
    while waiting or current:
        while waiting and len(current) < window:
            current.append(waiting.pop(0))
        one = chosen.choice(current)
        mixed.append(one.pop(0))
        if not one:
            current.remove(one)
    return mixed


def texts(log: Log) -> list[tuple[Any, ...]]:
    """What a log says, event by event."""
    return [(e.execution_id, e.workflow_id, e.sequence, e.event_type, e.payload) for e in log.events]


@pytest.mark.usefixtures("passes")
class TestReading:
    def test_a_log_has_its_events_in_order_with_decoded_envelopes(self, file: Path, run: MakeRun) -> None:
        """The envelope fields are those of DESIGN section 3, the payload is the JSON that was written."""
        file.write_bytes(b"".join(run("run-1")))
        log = load_log(file)
        assert (log.execution_id, log.workflow_id, log.path, log.source, log.engine, log.live, log.notices) == (
            "run-1",
            "refund",
            str(file),
            "loom",
            "journal",
            False,
            (),
        )
        assert texts(log) == [
            ("run-1", "refund", 1, "EXECUTION_STARTED", {"input": {"run": "run-1"}}),
            ("run-1", "refund", 2, "STEP_STARTED", {"stepId": "step0"}),
            ("run-1", "refund", 3, "STEP_COMPLETED", {"stepId": "step0", "output": {"of": "run-1", "text": "£ 0"}}),
            ("run-1", "refund", 4, "EXECUTION_COMPLETED", {"output": "run-1"}),
        ]

    def test_absent_envelope_fields_have_their_defaults(self, file: Path, line: MakeLine) -> None:
        """eventVersion is 1, branch and namespace are None, nothing is ignorable unless it says so."""
        file.write_bytes(line(1))
        event = load_log(file).events[0]
        assert (event.event_version, event.branch, event.namespace, event.ignorable) == (1, None, None, False)
        assert (event.timestamp, event.schema_version) == (1_700_000_000_000, "1.15.0")

    def test_optional_envelope_fields_are_read(self, file: Path, line: MakeLine) -> None:
        """eventVersion, branch, namespace, ignorable and RFC 3339 timestamps are kept as written."""
        more = {
            "eventVersion": 3,
            "branch": "0/1",
            "namespace": "sub",
            "ignorable": True,
            "timestamp": "2026-01-02T03:04:05Z",
        }
        file.write_bytes(line(1, **more))
        event = load_log(file).events[0]
        assert (event.event_version, event.branch, event.namespace, event.ignorable) == (3, "0/1", "sub", True)
        assert event.timestamp == "2026-01-02T03:04:05Z"

    def test_fields_that_no_schema_knows_yet_are_ignored(self, file: Path, line: MakeLine) -> None:
        """A newer MINOR may add optional envelope fields, whatever they are called."""
        file.write_bytes(line(1, schemaVersion="1.99.7", traceId={"a": [1]}, **{" line": 7, " path": "/etc/passwd"}))
        event = load_log(file).events[0]
        assert (event.schema_version, event.line, event.path) == ("1.99.7", 1, str(file))

    def test_an_unknown_kernel_kind_that_is_ignorable_is_kept(self, file: Path, line: MakeLine) -> None:
        """A newer MINOR may add a kind as long as it is marked ignorable; it still counts in the sequence."""
        file.write_bytes(line(1) + line(2, "STEP_DREAMT", schemaVersion="1.16.0", ignorable=True) + line(3))
        assert [event.event_type for event in load_log(file)] == ["Noted", "STEP_DREAMT", "Noted"]

    def test_of_a_key_that_stands_twice_the_last_one_counts(self, file: Path, line: MakeLine) -> None:
        """JSON leaves repeated keys open; envelope and payload agree with every common decoder."""
        text = line(1).replace(b'"payload":{}', b'"payload":{"a":1,"a":2},"workflowId":"other"')
        file.write_bytes(text)
        log = load_log(file)
        assert (log.workflow_id, log.events[0].payload) == ("other", {"a": 2})

    def test_executions_may_interleave_and_keep_their_own_order(self, file: Path, run: MakeRun) -> None:
        """Each execution of a mixed file is a log of its own, complete and in order."""
        runs = {name: run(name, steps=3) for name in ("a", "b", "c")}
        file.write_bytes(b"".join(shuffled(runs.values(), 5)))
        logs = {log.execution_id: log for log in load_logs(file)}
        assert sorted(logs) == ["a", "b", "c"]
        for name, lines in runs.items():
            file.write_bytes(b"".join(lines))
            assert texts(logs[name]) == texts(load_log(file))

    def test_every_event_knows_its_line(self, file: Path, run: MakeRun) -> None:
        """Positions are those of the file, also where executions interleave and lines are blank."""
        one, two = run("a"), run("b")
        file.write_bytes(b"\n" + b"".join(itertools.chain(*zip(one, two, [b"\n"] * 4, strict=True))))
        logs = {log.execution_id: [event.line for event in log] for log in load_logs(file)}
        assert logs == {"a": [2, 5, 8, 11], "b": [3, 6, 9, 12]}

    def test_lines_are_counted_across_blocks(self, file: Path, run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file is read in blocks; no line is lost, split or misnumbered where one ends."""
        monkeypatch.setattr("pytest_loom.log.files._BLOCK", 100)
        lines = run("a", steps=30)
        file.write_bytes(b"".join(lines))
        log = load_log(file)
        assert [(event.sequence, event.line) for event in log] == [(n, n) for n in range(1, 63)]

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda data: data.rstrip(b"\n"), id="no newline at the end"),
            pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="CRLF"),
            pytest.param(lambda data: data.replace(b"\n", b"\n\n \t\n"), id="blank lines"),
            pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="UTF-8 byte order mark"),
            pytest.param(lambda data: data.replace(b'":', b'" : ').replace(b"{", b" { "), id="spaces"),
            pytest.param(gzip.compress, id="gzip"),
            pytest.param(lambda data: gzip.compress(data[:300]) + gzip.compress(data[300:]), id="gzip in two members"),
            pytest.param(lambda data: gzip.compress(data) + b"\0" * 64, id="gzip padded with zeros"),
        ],
    )
    @pytest.mark.parametrize("name", ["a.loom.jsonl", "a.loom.jsonl.gz", "a.jsonl", "a.log"])
    def test_harmless_differences_in_form_change_nothing(
        self, tmp_path: Path, run: MakeRun, name: str, change: Callable[[bytes], bytes]
    ) -> None:
        """Line ends, blank lines, spaces, a byte order mark, and compression whatever the file's name says."""
        plain, other = tmp_path / "plain.loom.jsonl", tmp_path / name
        data = b"".join(run("a", steps=2))
        plain.write_bytes(data)
        other.write_bytes(change(data))
        assert texts(load_log(other)) == texts(load_log(plain))


@pytest.mark.usefixtures("passes")
class TestPartial:
    """An unfinished recording, ``*.partial``: its last line may be cut."""

    def test_a_cut_last_line_is_left_out_with_a_notice(self, tmp_path: Path, run: MakeRun) -> None:
        """The cut event was never acknowledged, so every prefix of a recording is a valid log."""
        lines = run("a", steps=2)
        data = b"".join(lines[:5])
        file = tmp_path / "a.loom.jsonl.partial"
        for cut in range(len(data) + 1, len(data) + len(lines[5])):
            file.write_bytes(b"".join(lines)[:cut])
            log = load_log(file)
            assert len(log) == (6 if cut == len(data) + len(lines[5]) - 1 else 5)
            assert len(log.notices) == 1
            assert "last line" in log.notices[0]

    def test_a_bad_line_that_is_not_the_last_is_an_error(self, tmp_path: Path, run: MakeRun, read_all: Any) -> None:
        """Only what was never acknowledged may be dropped."""
        lines = run("a", steps=2)
        file = tmp_path / "a.loom.jsonl.partial"
        file.write_bytes(b"".join([*lines[:2], lines[2][:50] + b"\n", *lines[3:]]))
        (error,) = read_all(file)
        assert (error.line, error.execution_id) == (3, "a")

    def test_a_recording_of_nothing_but_a_cut_line_is_an_error(
        self, tmp_path: Path, run: MakeRun, read_all: Any
    ) -> None:
        """There is no log in it, and a test must not pass on nothing."""
        file = tmp_path / "a.loom.jsonl.partial"
        file.write_bytes(run("a")[0][:50])
        (error,) = read_all(file)
        assert "no event" in str(error)


class TestLargeFiles:
    def test_both_ways_of_reading_give_the_same_logs(
        self, file: Path, run: MakeRun, read_all: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file over WHOLE_FILE bytes is walked twice; that changes when logs come, not what they say."""
        for seed in range(12):
            runs = [run(f"run-{n}", steps=random.Random(seed + n).randrange(6)) for n in range(9)]
            file.write_bytes(b"".join(shuffled(runs, seed, window=1 + seed)))
            monkeypatch.undo()
            small = sorted(texts(log) for log in read_all(file))
            monkeypatch.setattr("pytest_loom.log.read.WHOLE_FILE", 1000)
            monkeypatch.setattr("pytest_loom.log.files._BLOCK", 700)
            assert sorted(texts(log) for log in read_all(file)) == small

    def test_executions_whose_ids_have_one_hash_are_still_told_apart(
        self, file: Path, run: MakeRun, read_all: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The index of a large file goes by hash; a collision may delay a log, never mix or cut one."""
        monkeypatch.setattr("pytest_loom.log.read.WHOLE_FILE", 0)
        monkeypatch.setattr("pytest_loom.log.read.hash", lambda name: len(name), raising=False)
        runs = [run(name, steps=3) for name in ("aa", "bb", "c", "dd")]
        file.write_bytes(b"".join(shuffled(runs, 3, window=2)))
        logs = read_all(file)
        assert sorted(log.execution_id for log in logs) == ["aa", "bb", "c", "dd"]
        assert {len(log) for log in logs} == {8}

    @pytest.mark.parametrize("mix", ["one after another", "eight at a time", "one small run beside all others"])
    def test_memory_follows_the_longest_run_not_the_file(
        self, file: Path, line: MakeLine, monkeypatch: pytest.MonkeyPatch, mix: str
    ) -> None:
        """A corpus larger than memory can be walked log by log."""
        text = "x" * 2000
        runs = [[line(n, payload={"text": text}, run=f"run-{r}") for n in range(1, 11)] for r in range(500)]
        if mix == "one small run beside all others":
            runs = [[*run[:5], line(n, run="slow"), *run[5:]] for n, run in enumerate(runs, 1)]
            lines = [text for run in runs for text in run]
        else:
            lines = shuffled(runs, 1, window=8 if mix == "eight at a time" else 1)
        file.write_bytes(b"".join(lines))
        del runs, lines
        assert file.stat().st_size > 10_000_000
        monkeypatch.setattr("pytest_loom.log.read.WHOLE_FILE", 200_000)
        monkeypatch.setattr("pytest_loom.log.files._BLOCK", 64 * 1024)
        tracemalloc.start()
        try:
            assert sum(len(log) for log in load_logs(file)) == (5500 if "beside" in mix else 5000)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 1_500_000

    def test_a_log_is_handed_out_before_the_rest_is_read(
        self, file: Path, run: MakeRun, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first of many logs does not wait for the last."""
        monkeypatch.setattr("pytest_loom.log.read.WHOLE_FILE", 0)
        monkeypatch.setattr("pytest_loom.log.files._BLOCK", 2000)
        file.write_bytes(b"".join(itertools.chain(*(run(f"run-{n}") for n in range(500)))))
        reads = 0
        line_blocks = load_logs.__globals__["read_head"].__globals__["line_blocks"]

        def counted(*args: Any) -> Any:
            nonlocal reads
            for block in line_blocks(*args):
                reads += 1
                yield block

        monkeypatch.setattr("pytest_loom.log.read.line_blocks", counted)
        logs = load_logs(file)
        next(logs)
        first = reads
        assert len(list(logs)) == 499
        assert reads - first > first / 3
