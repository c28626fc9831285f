"""``record(path=...)``, ``resume(path=...)``: the file grows event by event, and gets its name when all went well."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import (
    LogError,
    LoomError,
    RecordingError,
    SyncContext,
    diff_runs,
    flow,
    load_log,
    load_logs,
    record,
    replay,
    resume,
    step,
    tool,
    write_log,
)
from pytest_loom.flow import recorder
from pytest_loom.flow.definition import Flow

SECRET = "sk-proj-Abcdefghij0123456789Abcdefghij0123456789Abcdefghij"


@step
def echo(value: Any) -> Any:
    """Give it back."""
    return value


@step
def fail(value: str) -> None:
    """Fail with it."""
    raise ValueError(f"cannot use {value}")


@step
def stream(value: str) -> Iterator[str]:
    """Give pieces of which one holds it."""
    yield "piece"
    yield f"and {value}"


@step
def lose() -> str:
    """Give something that is no text."""
    return object()  # type: ignore[return-value]


@tool
def ask(value: str) -> str:
    """A tool."""
    return value


@flow(id="three", steps=[echo], gates={"Go": dict[str, str]})
def three(ctx: SyncContext, name: str) -> list[Any]:
    """Three steps, and a gate after the second."""
    first, second = ctx.run(echo, name), ctx.run(echo, "zwei \U0001f9f5")
    answer = ctx.suspend("Go")
    return [first, second, answer, ctx.run(echo, 3)]


GO = ("Go", {"by": "Ada"})


def partial_of(path: Path) -> Path:
    """The file that grows."""
    return path.with_name(path.name.removesuffix(".gz") + ".partial")


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bytes]:
    """What the only file in the test's folder that grows holds, after each write."""
    seen: list[bytes] = []
    write = recorder._write

    def writing(file: int, data: bytes) -> None:
        write(file, data)
        seen.extend(path.read_bytes() for path in tmp_path.glob("*.partial"))

    monkeypatch.setattr(recorder, "_write", writing)
    return seen


@pytest.mark.parametrize("name", ["run.loom.jsonl", "run.loom.jsonl.gz", "run.jsonl"])
def test_the_file_grows_event_by_event(tmp_path: Path, snapshots: list[bytes], name: str) -> None:
    """Every state of the file is a log that can be read, one event longer; at the end it has the name asked for."""
    path = tmp_path / name
    log = record(three, "Ada", path=path, events=[GO])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert load_log(path).events == log.events
    assert (gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()) == snapshots[-1]
    assert len(snapshots) == len(log) - 1  # an answer is two events, written as one
    for number, (before, after) in enumerate(zip([b"", *snapshots], snapshots, strict=False)):
        assert after.startswith(before)
        partial = tmp_path / f"{number}-{partial_of(path).name}"
        partial.write_bytes(after)
        prefix = load_log(partial)
        assert prefix.events == log.events[: len(prefix)]
        assert "unfinished" in prefix.notices[0]
        partial.write_bytes(after[:-7])
        if before:
            torn = load_log(partial)
            assert torn.events == log.events[: len(torn)]
            assert len(prefix) - 1 == len(torn)


def test_an_unfinished_recording_is_no_golden(tmp_path: Path) -> None:
    """A directory's logs are those that have their name; an unfinished one is read where it is asked for."""
    record(three, "Ada", path=tmp_path / "done.loom.jsonl")
    record(three, "Bob", path=tmp_path / "begun.loom.jsonl", execution_id="begun")
    (tmp_path / "begun.loom.jsonl").rename(tmp_path / "begun.loom.jsonl.partial")
    assert [Path(log.path).name for log in load_logs(tmp_path)] == ["done.loom.jsonl"]
    assert [Path(log.path).name for log in load_logs(tmp_path / "*.loom.jsonl")] == ["done.loom.jsonl"]
    assert load_log(tmp_path / "begun.loom.jsonl.partial").execution_id == "begun"
    assert next(load_logs(tmp_path / "begun.loom.jsonl.partial")).execution_id == "begun"


def test_a_recording_killed_before_it_got_its_name_is_whole(tmp_path: Path) -> None:
    """There is nothing to resume, and the error says how it gets its name."""
    path = tmp_path / "run.loom.jsonl"
    resume(record(three, "Ada"), three, event="Go", payload=GO[1], path=path)
    path.rename(partial_of(path))
    log = load_log(partial_of(path))
    assert log.state.status == "completed"
    with pytest.raises(LoomError, match=r"write_log\(log, path\) gives it its name"):
        resume(log, three, path=path)
    assert load_log(write_log(log, path)).events == log.events


def test_resume_goes_on_in_a_file_of_its_own(tmp_path: Path, snapshots: list[bytes]) -> None:
    """The history is in the new file from its first moment on, and the one that was there changes only at the end."""
    path = tmp_path / "run.loom.jsonl"
    waiting = record(three, "Ada", path=path)
    before = path.read_bytes()
    snapshots.clear()
    log = resume(load_log(path), three, event="Go", payload=GO[1], path=path)
    assert load_log(path).events == log.events
    assert log.events[: len(waiting)] == waiting.events
    assert snapshots[0] == b""  # not a part of the history: it comes as one act
    assert all(state.startswith(before) for state in snapshots[1:])
    assert [file.name for file in tmp_path.iterdir()] == ["run.loom.jsonl"]
    assert diff_runs(log, replay(log, three), compare="all") == []


@pytest.mark.parametrize("cut", [0, 1, 9])
def test_resume_keeps_what_an_unfinished_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    """Resumed into its own file, the events of an unfinished recording are never written anew, so never at risk."""
    path = tmp_path / "run.loom.jsonl"
    record(three, "Ada", path=path)
    partial = path.rename(partial_of(path))
    data = partial.read_bytes()
    torn = data[:-1] if cut == 1 else data + b'{"executionId":"'[:cut]
    partial.write_bytes(torn)
    written: list[bytes] = []
    write = recorder._write

    def writing(file: int, data: bytes) -> None:
        written.append(bytes(data))
        write(file, data)

    monkeypatch.setattr(recorder, "_write", writing)
    log = resume(load_log(partial), three, event="Go", payload=GO[1], path=path)
    assert log.state.status == "completed"
    assert load_log(path).events == log.events
    assert path.read_bytes().startswith(data)
    assert b"".join(written) == path.read_bytes()[len(data) - (cut == 1) :]


def test_a_failed_run_is_recorded_whole(tmp_path: Path) -> None:
    """A flow that raises has a log like any other, under the name asked for."""

    @flow(id="failing", steps=[fail])
    def failing(ctx: SyncContext) -> None:
        ctx.run(fail, "it")

    log = record(failing, path=tmp_path / "run.loom.jsonl")
    assert log.state.status == "failed"
    assert load_log(tmp_path / "run.loom.jsonl").events == log.events


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_what_cannot_be_recorded_leaves_the_golden(tmp_path: Path, suffix: str) -> None:
    """A recording that ends in a RecordingError changes nothing of the golden; what it did can be looked at."""

    @flow(id="losing", steps=[echo, lose])
    def losing(ctx: SyncContext) -> None:
        ctx.run(echo, "first")
        ctx.run(lose)

    path = tmp_path / f"run.loom.jsonl{suffix}"
    record(three, "Ada", path=path)
    before = path.read_bytes()
    with pytest.raises(RecordingError, match="lose"):
        record(losing, path=path)
    assert path.read_bytes() == before
    assert load_log(partial_of(path)).events[-1].payload["stepId"] == "lose"


def test_an_input_that_does_not_fit_touches_no_file(tmp_path: Path) -> None:
    """A flow that cannot begin leaves no file behind."""
    with pytest.raises(LoomError, match="does not fit"):
        record(three, 3, path=tmp_path / "run.loom.jsonl")
    assert not list(tmp_path.iterdir())


def test_other_names_are_refused(tmp_path: Path) -> None:
    """A path that no reader would take for a log is refused before anything runs."""
    with pytest.raises(LogError, match=r"\*\.loom\.jsonl"):
        record(three, "Ada", path=tmp_path / "run.json")
    assert not list(tmp_path.iterdir())


def test_folders_are_made(tmp_path: Path) -> None:
    """The folder of a recording need not exist."""
    record(three, "Ada", path=tmp_path / "a" / "b" / "run.loom.jsonl")
    assert load_log(tmp_path / "a" / "b" / "run.loom.jsonl").workflow_id == "three"


def test_a_link_is_followed(tmp_path: Path) -> None:
    """Where the path is a symbolic link, the file that it names gets the recording."""
    target = tmp_path / "elsewhere.loom.jsonl"
    record(three, "Ada", path=target)
    path = tmp_path / "run.loom.jsonl"
    path.symlink_to(target)
    log = record(three, "Bob", path=path)
    assert path.is_symlink()
    assert load_log(target).events == log.events


# Secrets ------------------------------------------------------------------------------------------------------------


@flow(id="secretive", steps=[echo, fail, stream], tools=[ask], gates={"Go": dict[str, str]})
def secretive(ctx: SyncContext, config: dict[str, str]) -> dict[str, Any]:
    """A secret in every place where one may be."""
    key = config["key"]
    found: dict[str, Any] = {"echo": ctx.run(echo, {"header": f"Bearer {key}", "text": f"key {key}"})}
    found["decided"] = ctx.decide("key", lambda: key)
    try:
        ctx.run(fail, key)
    except ValueError as problem:
        found["problem"] = str(problem)
    found["pieces"] = list(ctx.stream(stream, key))
    found["tool"] = ctx.call(ask, value=key)
    ctx.snapshot({"key": key})
    found["answer"] = ctx.suspend("Go", correlation_key=key, pending={"question": f"use {key}?"})
    raise RuntimeError(f"gave up with {key}")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_no_secret_is_ever_on_disk(tmp_path: Path, snapshots: list[bytes], suffix: str) -> None:
    """Wherever a secret turns up, it is in no state of the file, not even for a moment; the run still replays."""
    path = tmp_path / f"run.loom.jsonl{suffix}"
    log = record(secretive, {"key": SECRET}, path=path, events=[("Go", {"token": SECRET})])
    assert log.state.status == "failed"
    assert len(snapshots) > 12
    assert all(SECRET.encode() not in state for state in snapshots)
    whole = snapshots[-1].decode()
    for place in ("STEP_PROGRESS", "STEP_FAILED", "TOOL_REQUESTED", "STATE_SNAPSHOT", "DECISION_RECORDED", "Go"):
        assert place in whole
    assert whole.count("<scrubbed:") > 12
    again = load_log(path)
    assert diff_runs(again, replay(again, secretive), compare="all") == []


def test_without_scrubbing_it_is_as_it_was(tmp_path: Path, snapshots: list[bytes]) -> None:
    """``scrub=None`` keeps everything: so the test above looks where secrets would be."""
    record(secretive, {"key": SECRET}, path=tmp_path / "run.loom.jsonl", events=[("Go", {"t": SECRET})], scrub=None)
    assert snapshots[-1].count(SECRET.encode()) > 12


# Several at once, and disks that refuse -----------------------------------------------------------------------------


def blocked(started: threading.Event, go_on: threading.Event) -> Flow[..., Any]:
    """A flow that says when it is in the middle of its step, and waits there."""

    @step
    def wait() -> int:
        started.set()
        assert go_on.wait(60)
        return 1

    @flow(id="blocked", steps=[echo, wait])
    def waits(ctx: SyncContext) -> list[Any]:
        return [ctx.run(echo, "first"), ctx.run(wait)]

    return waits


def test_two_processes_cannot_record_to_one_file(tmp_path: Path) -> None:
    """The second one gets an error that names the file, and the first one's recording is whole."""
    path = tmp_path / "run.loom.jsonl"
    started, go_on = threading.Event(), threading.Event()
    waits = blocked(started, go_on)
    first = threading.Thread(target=record, args=[waits], kwargs={"path": path, "execution_id": "first"})
    first.start()
    try:
        assert started.wait(60)
        before = partial_of(path).read_bytes()
        code = (
            "import sys; from pytest_loom import *\n"
            "try: record(flow(id='f')(lambda ctx: None), path=sys.argv[1])\n"
            "except LogError as problem: print(problem)"
        )
        other = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, str(path)], capture_output=True, text=True, check=False
        )
        assert "another recording to this file is going on" in other.stdout, other.stderr
        assert "run.loom.jsonl.partial" in other.stdout
        with pytest.raises(LogError, match="another recording"):
            record(three, "Ada", path=path)  # within one process, too
        assert partial_of(path).read_bytes() == before
    finally:
        go_on.set()
        first.join()
    assert load_log(path).execution_id == "first"
    assert load_log(path).state.status == "completed"
    record(three, "Ada", path=path, execution_id="second")
    assert load_log(path).execution_id == "second"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_recording_that_ends_just_then_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Opened a moment before another recording got its name, the file that is finished by then stays as it is."""
    path = tmp_path / f"run.loom.jsonl{suffix}"
    partial = partial_of(path)
    lock = recorder._lock
    ended: list[bytes] = []

    def locking(file: int) -> bool:
        if not ended:  # the other one ends here
            partial.write_bytes(b"a finished log")
            if suffix:
                partial.unlink()
            else:
                os.replace(partial, path)
            ended.append(b"a finished log")
        elif len(ended) == 1 and not suffix:
            ended.append(path.read_bytes())
        return lock(file)

    monkeypatch.setattr(recorder, "_lock", locking)
    log = record(three, "Ada", path=path)
    assert set(ended) == {b"a finished log"}  # also after ours had been opened
    assert load_log(path).events == log.events


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file cannot be made, the error names it and says why, and no step has run."""
    ran: list[int] = []

    @step
    def once() -> None:
        ran.append(1)

    @flow(id="once", steps=[once])
    def runs(ctx: SyncContext) -> None:
        ctx.run(once)

    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LogError, match="cannot be written") as caught:
        record(runs, path=tmp_path / "file" / "run.loom.jsonl")
    assert caught.value.path.endswith("run.loom.jsonl")
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        if not os.access(folder, os.W_OK):  # root may write anywhere
            with pytest.raises(LogError, match="Permission denied"):
                record(runs, path=folder / "run.loom.jsonl")
            assert not list(folder.iterdir())
    finally:
        folder.chmod(0o700)

    def refused(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pytest_loom.flow.recorder.os.open", refused)
    with pytest.raises(LogError, match="Permission denied"):
        record(runs, path=tmp_path / "run.loom.jsonl")
    assert not ran


@pytest.mark.parametrize("room", [2, 3, 4])
def test_a_full_disk_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """A run whose events cannot be written goes no further, whatever its code catches; the prefix can be resumed."""
    done: list[int] = []

    @step
    def work(number: int) -> int:
        done.append(number)
        return number

    @flow(id="stubborn", steps=[work])
    def stubborn(ctx: SyncContext) -> int:
        number = 0
        while number < 3:
            try:
                number = ctx.run(work, number + 1)
            except Exception:
                done.append(-1)
        return number

    write = recorder._write
    writes = 0

    def full(file: int, data: bytes) -> None:
        nonlocal writes
        writes += 1
        if writes > room:
            write(file, data[:10])
            raise OSError(28, "No space left on device")
        write(file, data)

    path = tmp_path / "run.loom.jsonl"
    monkeypatch.setattr(recorder, "_write", full)
    with pytest.raises(LogError, match="No space left on device"):
        record(stubborn, path=path)
    assert len(done) < 6
    monkeypatch.setattr(recorder, "_write", write)
    assert not path.exists()
    before = load_log(partial_of(path))
    assert len(before) == room
    log = resume(before, stubborn, path=path)
    assert log.state.variables["_output"] == 3
    assert load_log(path).events == log.events


def test_an_event_that_could_not_be_read_back_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value larger than a line of a log may be is an error while recording, which names the step and the size."""
    monkeypatch.setattr(recorder, "MAX_EVENT", 2 * 1024**2)

    @flow(id="large", steps=[echo])
    def large(ctx: SyncContext, megabytes: int) -> str:
        return str(ctx.run(echo, "x" * megabytes * 1024**2))

    assert record(large, 1).state.status == "completed"
    with pytest.raises(RecordingError, match="echo has 3 MiB"):
        record(large, 3, path=tmp_path / "run.loom.jsonl")
    assert len(load_log(tmp_path / "run.loom.jsonl.partial")) == 1


def test_a_recording_replaces_what_was_left_unfinished(tmp_path: Path) -> None:
    """A new recording begins anew, whatever an earlier one left; a whole log is never mixed with it."""
    path = tmp_path / "run.loom.jsonl"
    partial_of(path).write_bytes(write_log(record(three, "Bob"), tmp_path / "other.jsonl").read_bytes() * 3)
    log = record(three, "Ada", path=path)
    assert load_log(path).events == log.events
    assert not partial_of(path).exists()
