"""Writing: whole or not at all, the same bytes for the same log, nothing that could not be read back."""

from __future__ import annotations

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_loom import Event, Log, LogBuilder, LogError, load_log, load_logs, write_log
from pytest_loom.log.files import write_atomically
from pytest_loom.log.write import replace_log

MakeLine = Callable[..., bytes]
MakeRun = Callable[..., list[bytes]]


def made(run: str = "a", note: str = "first", events: int = 3) -> Log:
    """A log made in memory."""
    builder = LogBuilder(run, "refund")
    builder.add("EXECUTION_STARTED", {"input": {"note": note}}, timestamp=1)
    for number in range(events):
        builder.add("Noted", {"n": number, "note": note}, timestamp=f"2026-01-01T00:00:0{number % 10}Z", branch="0/1")
    return builder.log()


def texts(log: Log) -> list[Any]:
    """Everything that is written of a log."""
    return [
        (e.execution_id, e.workflow_id, e.sequence, e.timestamp, e.event_type, e.schema_version, e.event_version)
        for e in log.events
    ] + [(e.branch, e.namespace, e.ignorable, e.payload) for e in log.events]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the log goes."""
    return tmp_path / "logs" / "a.loom.jsonl"


class TestRoundTrip:
    @pytest.mark.parametrize("name", ["a.loom.jsonl", "a.jsonl", "a.loom.jsonl.gz"])
    def test_what_is_written_is_read_back(self, tmp_path: Path, name: str) -> None:
        """Every field of every event, and the path comes back for chaining."""
        path = tmp_path / "new" / "folder" / name
        log = made(events=20)
        assert write_log(log, str(path)) == path
        assert texts(load_log(path)) == texts(log)
        assert not path.read_bytes().startswith(b"\x1f\x8b") or name.endswith(".gz")

    def test_what_was_read_is_written_back_unchanged(self, file: Path, run: MakeRun) -> None:
        """Reading and writing a canonical file gives the same bytes, payloads untouched."""
        file.parent.mkdir()
        data = b"".join(run("a", steps=3)).replace(b'"text"', b'"text" : 1.50e+1, "\\u00e9"')
        file.write_bytes(data)
        assert write_log(load_log(file), file).read_bytes() == data

    def test_every_envelope_field_survives(self, file: Path, line: MakeLine) -> None:
        """Also the optional ones, and an unknown kind that is ignorable."""
        file.parent.mkdir()
        more = {"eventVersion": 4, "branch": "0", "namespace": "sub", "ignorable": True, "schemaVersion": "1.3.0"}
        file.write_bytes(
            line(1, "STEP_DREAMT", {"a": [1, {"b": None}]}, **more) + line(2, timestamp="2026-01-01T00:00:00Z")
        )
        before = texts(load_log(file))
        assert texts(load_log(write_log(load_log(file), file))) == before

    def test_a_file_is_lines_of_json_with_the_fields_of_the_design(self, file: Path) -> None:
        """Anybody can read it: one object a line, defaults left out, a newline at the end."""
        lines = write_log(made(events=1), file).read_bytes().split(b"\n")
        assert lines.pop() == b""
        assert [list(json.loads(text)) for text in lines] == [
            ["executionId", "workflowId", "sequence", "timestamp", "eventType", "schemaVersion", "payload"],
            ["executionId", "workflowId", "sequence", "timestamp", "eventType", "schemaVersion", "branch", "payload"],
        ]

    @pytest.mark.parametrize("name", ["a.loom.jsonl", "a.loom.jsonl.gz"])
    def test_the_same_log_gives_the_same_bytes(self, tmp_path: Path, name: str) -> None:
        """A golden in version control changes only when the run does: no time, no name in it."""
        one = write_log(made(), tmp_path / name).read_bytes()
        os.utime(tmp_path / name, (1, 1))
        time.sleep(1.1 if name.endswith(".gz") else 0)  # gzip's own stamp counts seconds
        (tmp_path / "other").mkdir()
        assert write_log(made(), tmp_path / "other" / f"x{name}").read_bytes() == one

    def test_a_payload_of_several_lines_becomes_one(self, file: Path) -> None:
        """Pretty-printed payloads keep their meaning to the last digit."""
        raw = msgspec.Raw(b'{\n  "a": 1e400,\n  "b": 12345678901234567890123,\r\n  "c": "\\n"\n}')
        event = msgspec.structs.replace(made(events=0).events[0], raw=raw)
        write_log(Log([event]), file)
        (text,) = file.read_bytes().splitlines()
        assert json.loads(text)["payload"] == {"a": float("inf"), "b": 12345678901234567890123, "c": "\n"}
        assert b"1e400" in text
        assert len(load_log(file)) == 1


class TestRefusals:
    """What could not be read back is not written, and the file that was there stays."""

    @staticmethod
    def event(**changes: Any) -> Event:
        """The only event of a log, changed."""
        return msgspec.structs.replace(made(events=0).events[0], **changes)

    @pytest.fixture
    def old(self, file: Path) -> bytes:
        """What stands in the file before."""
        return write_log(made("old"), file).read_bytes()

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"raw": msgspec.Raw(b"[]")}, "not an object"),
            ({"raw": msgspec.Raw(b"")}, "cannot be written"),
            ({"raw": msgspec.Raw(b"{")}, "cannot be written"),
            ({"raw": msgspec.Raw(b'{"a":"\xff"}')}, "cannot be written"),
            ({"raw": msgspec.Raw(b"{}}\n{")}, "cannot be written"),
            ({"raw": msgspec.Raw(b'{},"sequence":1,"branch":"forged"')}, "another event"),
            ({"raw": msgspec.Raw(b'{"a":"' + b"\\ud800" + b'"}')}, "cannot be written"),
            ({"sequence": 2}, "head is missing"),
            ({"sequence": 0}, "cannot be written"),
            ({"sequence": "1"}, "cannot be written"),
            ({"sequence": 2**80}, "cannot be written"),
            ({"execution_id": ""}, "cannot be written"),
            ({"execution_id": "\ud800"}, "cannot be written"),
            ({"workflow_id": None}, "cannot be written"),
            ({"timestamp": 1.5}, "cannot be written"),
            ({"timestamp": object()}, "cannot be written"),
            ({"event_type": "STEP_DREAMT"}, "STEP_DREAMT is not known"),
            ({"schema_version": "2.0.0"}, "another major"),
            ({"schema_version": "new"}, "MAJOR.MINOR.PATCH"),
            ({"schema_version": "1.16.0"}, "writing it would lose fields"),
        ],
    )
    def test_an_event_that_would_not_read_back(
        self, file: Path, old: bytes, changes: dict[str, Any], said: str
    ) -> None:
        """The error names the event; a newer MINOR is refused because its fields would be lost."""
        with pytest.raises(LogError, match=said):
            write_log(Log([self.event(**changes)]), file)
        assert file.read_bytes() == old
        assert [path.name for path in file.parent.iterdir()] == [file.name]

    def test_events_with_a_gap(self, file: Path, old: bytes) -> None:
        """A log is complete or it is none."""
        with pytest.raises(LogError, match="event 2 is missing"):
            write_log(Log([made().events[0], made().events[2]]), file)
        assert file.read_bytes() == old

    def test_events_of_two_executions(self, file: Path, old: bytes) -> None:
        """A log is one execution's."""
        with pytest.raises(LogError, match="cannot be written"):
            write_log(Log([made("a").events[0], made("b").events[1]]), file)
        assert file.read_bytes() == old

    @pytest.mark.parametrize(
        "name", ["a.json", "a.loom", "a.gz", "jsonl", "a.loom.jsonl.partial", "a.loom.jsonl.bz2", "a.JSONL"]
    )
    def test_a_name_that_would_not_be_found_again(self, tmp_path: Path, name: str) -> None:
        """Logs are found by their suffix, so they are written under it."""
        for write in (write_log, replace_log):
            with pytest.raises(LogError, match=r"\*\.loom\.jsonl"):
                write(made(), tmp_path / name)
        assert list(tmp_path.iterdir()) == []


class TestAtomicity:
    @pytest.mark.parametrize("broken", ["os.replace", "os.fsync", "pytest_loom.log.files.os.fdopen", "os.chmod"])
    @pytest.mark.parametrize("problem", [OSError("disk full"), KeyboardInterrupt()])
    def test_a_crash_leaves_the_old_file_and_nothing_else(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, broken: str, problem: BaseException
    ) -> None:
        """Whatever fails before the replacement, there is no half file and no litter."""
        old = write_log(made("a", "old"), file).read_bytes()

        def fail(*_: Any, **__: Any) -> Any:
            raise problem

        monkeypatch.setattr(broken, fail)
        if broken == "os.chmod" and isinstance(problem, OSError):
            write_log(made("a", "new"), file)  # a file system without permissions is no reason to fail
            monkeypatch.undo()
            assert texts(load_log(file)) == texts(made("a", "new"))
            return
        with pytest.raises(type(problem)):
            write_log(made("a", "new"), file)
        monkeypatch.undo()
        assert file.read_bytes() == old
        assert [path.name for path in file.parent.iterdir()] == [file.name]

    def test_a_writer_that_is_killed_leaves_a_whole_file(self, file: Path) -> None:
        """SIGKILL at any moment: the old log or the new one stands there, never a part."""
        if sys.platform == "win32":
            pytest.skip("needs SIGKILL")
        code = (
            "import sys; from pytest_loom.log.files import write_atomically; from pathlib import Path\n"
            "path = Path(sys.argv[1]); one, two = (bytes([c]) * 3_000_000 for c in b'ab')\n"
            "write_atomically(path, one); print('ready', flush=True)\n"
            "while True: write_atomically(path, two); write_atomically(path, one)\n"
        )
        for wait in (0.01, 0.023, 0.037, 0.051):
            with subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()
                time.sleep(wait)
                process.send_signal(signal.SIGKILL)
            data = file.read_bytes()
            assert len(data) == 3_000_000
            assert data in (b"a" * 3_000_000, b"b" * 3_000_000)

    def test_a_reader_beside_a_writer_sees_whole_files_only(self, file: Path) -> None:
        """Replacing is one act for whoever reads at the same time; the old file stays readable while it is open."""
        write_atomically(file, b"a" * 100_000)
        with file.open("rb") as reader:
            half = reader.read(50_000)
            write_atomically(file, b"b" * 100_000)
            assert half + reader.read() == b"a" * 100_000
        assert file.read_bytes() == b"b" * 100_000

    def test_permissions_of_a_file_are_kept(self, file: Path) -> None:
        """A golden that the team may write stays so."""
        write_log(made(), file)
        file.chmod(0o664)
        write_log(made("b"), file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o664

    def test_a_new_file_has_the_usual_permissions(self, file: Path) -> None:
        """The umask decides, as it does for any file, not the private mode of temporary files."""
        before = os.umask(0o027)
        try:
            write_log(made(), file)
        finally:
            os.umask(before)
        assert stat.S_IMODE(file.stat().st_mode) == 0o640

    def test_a_symbolic_link_stays_one(self, tmp_path: Path, file: Path) -> None:
        """What it points to is replaced, in its own folder; a link to nothing makes the file."""
        for target in (tmp_path / "real" / "x.loom.jsonl", tmp_path / "gone" / "y.loom.jsonl"):
            link = tmp_path / f"{target.stem}-link.loom.jsonl"
            link.symlink_to(target)
            if target.parent.name == "real":
                write_log(made("old"), target)
            write_log(made("new"), link)
            assert link.is_symlink()
            assert load_log(target).execution_id == "new"
            assert [path.name for path in target.parent.iterdir()] == [target.name]

    def test_a_long_name_leaves_room_for_the_temporary_one(self, tmp_path: Path) -> None:
        """Names up to the file system's limit can be written."""
        for name in ("x" * 240, "é" * 120):
            path = tmp_path / f"{name}.loom.jsonl"
            if len(os.fsencode(path.name)) <= 255:
                assert load_log(write_log(made(), path)).execution_id == "a"


class TestReplaceLog:
    """Accepting one execution of a file that may hold several."""

    def test_the_other_executions_stay_as_they_are_and_where_they_are(self, file: Path, run: MakeRun) -> None:
        """Only the lines of the accepted run change."""
        file.parent.mkdir()
        runs = {name: b"".join(run(name)) for name in ("a", "b", "c")}
        file.write_bytes(b"".join(runs.values()))
        replace_log(made("b", "new"), file)
        assert [log.execution_id for log in load_logs(file)] == ["a", "b", "c"]
        assert texts(next(log for log in load_logs(file) if log.execution_id == "b")) == texts(made("b", "new"))
        data = file.read_bytes()
        assert data.startswith(runs["a"])
        assert data.endswith(runs["c"])

    def test_a_new_execution_comes_last(self, file: Path) -> None:
        """Also into a file that is not there yet."""
        for name in ("a", "b", "c"):
            replace_log(made(name), file)
        assert [log.execution_id for log in load_logs(file)] == ["a", "b", "c"]

    def test_it_is_kept_under_the_identity_that_is_asked_for(self, file: Path) -> None:
        """Accepting a new recording does not rename the golden."""
        replace_log(made("a", "old"), file)
        replace_log(made("run-of-today", "new"), file, execution_id="a")
        log = load_log(file)
        assert (log.execution_id, log.events[0].payload) == ("a", {"input": {"note": "new"}})

    def test_interleaved_executions_are_kept(self, file: Path, run: MakeRun) -> None:
        """They come out one after another, complete."""
        file.parent.mkdir()
        file.write_bytes(b"".join(b"".join(pair) for pair in zip(run("a"), run("b"), strict=True)))
        replace_log(made("c"), file)
        assert {log.execution_id: len(log) for log in load_logs(file)} == {"a": 4, "b": 4, "c": 4}

    def test_compressed_files_stay_compressed(self, tmp_path: Path) -> None:
        """The suffix says how it is written."""
        path = tmp_path / "a.loom.jsonl.gz"
        replace_log(made("a"), path)
        replace_log(made("b"), path)
        assert gzip.decompress(path.read_bytes()).count(b"\n") == 8
        assert [log.execution_id for log in load_logs(path)] == ["a", "b"]

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"{}\n", id="not a log"),
            pytest.param(b"", id="empty"),
            pytest.param(b'{"executionId":"b","workf', id="torn"),
        ],
    )
    def test_a_file_that_cannot_be_read_is_not_overwritten(self, file: Path, content: bytes) -> None:
        """What is in it might be somebody's, so the error stands and nothing changes."""
        file.parent.mkdir()
        file.write_bytes(content)
        with pytest.raises(LogError):
            replace_log(made("a"), file)
        assert file.read_bytes() == content
        assert [path.name for path in file.parent.iterdir()] == [file.name]

    def test_a_damaged_neighbour_is_not_dropped(self, file: Path, run: MakeRun) -> None:
        """Rewriting without it would lose the only evidence."""
        file.parent.mkdir()
        content = b"".join(run("a") + run("b")[:2] + run("b")[3:])
        file.write_bytes(content)
        with pytest.raises(LogError, match="execution b"):
            replace_log(made("a"), file)
        assert file.read_bytes() == content

    def test_two_processes_lose_nothing_of_each_other(self, file: Path) -> None:
        """xdist workers accept executions of one file at the same time."""
        code = (
            "import sys, time\nfrom pytest_loom import LogBuilder\nfrom pytest_loom.log import write\n"
            "store = write._store; write._store = lambda *args: (time.sleep(0.01), store(*args))\n"  # widens the race
            "print('ready', flush=True); sys.stdin.readline()\n"
            "for n in range(10):\n"
            "    builder = LogBuilder(f'{sys.argv[2]}-{n}', 'refund')\n"
            "    builder.add('Noted', {}, timestamp=n)\n"
            "    write.replace_log(builder.log(), sys.argv[1])\n"
        )
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(file), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for name in ("one", "two")
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            process.communicate(timeout=60)
            assert process.returncode == 0
        assert sorted(log.execution_id for log in load_logs(file)) == sorted(
            f"{name}-{n}" for name in ("one", "two") for n in range(10)
        )
        assert [path.name for path in file.parent.iterdir()] == [file.name]
