"""Imports of what means harm: ids that are paths, secrets in every corner, names that are one file, a kill midway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_loom import LogBuilder, load_log, load_logs
from pytest_loom.cli.names import Names, readable
from pytest_loom.cli.output import FINDING, OK
from tests.cli.conftest import START, Desk, made

HOSTILE = (
    "../../evil",
    "/etc/passwd",
    "..",
    ".",
    "a/../../b",
    "C:\\windows\\system32",
    "con",
    "NUL.txt",
    "-rf",
    ".hidden",
    "line\nbreak",
    "\x1b[2Jclear",
    "nul\0byte",
    "‮drowssap",
    "x" * 5000,
    "🦊" * 200,
    "loom-contracts",
    "__snapshots__",
    "a.loom.jsonl",
    "store-wal",
    "%2e%2e%2f",
    "$(touch pwned)",
)
SECRETS = (
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWx0123456789",
    "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "hunter2hunter2hunter2",
    "s3cretS3cret99",
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_ids_are_no_paths(desk: Desk, hostile: str) -> None:
    """Whatever a run and its flow are called, the golden lies one folder below the output, and is read again there."""
    (desk.folder / "inside").mkdir()
    desk.log("one", made(hostile, flow=hostile))
    before = {path for path in desk.folder.rglob("*") if "goldens" not in path.parts}
    assert desk("import", "runs", "-o", "inside/goldens").status == OK
    (name,) = desk.goldens("inside/goldens")
    assert name.count("/") == 1
    assert all(len(part) < 120 and part.isascii() and part.isprintable() for part in name.split("/"))
    after = {path for path in desk.folder.rglob("*") if "goldens" not in path.parts}
    assert after == before
    (log,) = load_logs(desk.folder / "inside/goldens")
    assert log.workflow_id == hostile


def test_names_that_are_one_file_elsewhere(desk: Desk) -> None:
    """Runs and flows that differ in capitals alone get names that differ otherwise too; so do names on the disk."""
    for number, (flow, run) in enumerate((("refund", "A-1"), ("refund", "a-1"), ("Refund", "A-1"), ("refund", "b/c"))):
        desk.log(str(number), made(run, flow=flow, given=number))
    assert desk("import", "runs", "-o", "goldens").status == OK
    names = list(desk.goldens())
    assert len(names) == 4
    assert len({name.lower() for name in names}) == 4
    assert len({name.partition("/")[0].lower() for name in names}) == 2
    (desk.folder / "disk" / "refund").mkdir(parents=True)
    (desk.folder / "disk" / "refund" / "a-1.loom.jsonl").write_text("")
    assert Names(desk.folder / "disk").of("refund", "A-1", "x").name != "A-1.loom.jsonl"
    assert Names(desk.folder / "disk").of("refund", "a-1", "x").name == "a-1.loom.jsonl"


def test_names_that_were_changed_stay_apart() -> None:
    """Two ids that make the same plain name are told apart by a hash; a plain one stays as it is."""
    assert readable("order-17_b.c") == "order-17_b.c"
    assert readable("a/b") != readable("a:b")
    assert len(readable("x" * 1000)) < 100


def _planted() -> bytes:
    builder = LogBuilder(f"run of {SECRETS[0]}", f"flow-{SECRETS[1]}")
    started: dict[str, Any] = {"input": {"password": SECRETS[2], "note": f"use {SECRETS[0]}"}}
    builder.add("EXECUTION_STARTED", started | {"manifest": {"metadata": {"token": SECRETS[1]}}}, timestamp=START)
    call = {"callId": SECRETS[1], "name": "login", "args": {"text": json.dumps({"api_key": SECRETS[2]})}}
    builder.add("TOOL_REQUESTED", call, timestamp=START, branch=f"b-{SECRETS[0]}", namespace=SECRETS[1])
    builder.add(f"Said {SECRETS[0]}", {SECRETS[1]: f"INTERNAL:{SECRETS[3]}"}, timestamp=START)
    lines = [msgspec.json.encode(_line(event)) for event in builder.log()]
    return b"\n".join(lines) + b"\n"


def _line(event: Any) -> dict[str, Any]:
    names = {"branch": event.branch, "namespace": event.namespace}
    head = {"executionId": event.execution_id, "workflowId": event.workflow_id, "sequence": event.sequence}
    tail = {"timestamp": event.timestamp, "eventType": event.event_type, "schemaVersion": event.schema_version}
    return head | tail | {key: value for key, value in names.items() if value} | {"payload": event.payload}


@pytest.mark.parametrize("by", ["option", "setting"])
def test_no_secret_is_written(desk: Desk, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets in payloads, names, ids and file names are in no golden, no sidecar, no temporary file, and not shown."""
    (desk.folder / "runs").mkdir()
    (desk.folder / "runs" / f"{SECRETS[0]}.loom.jsonl").write_bytes(_planted())
    (desk.folder / "runs" / "bad.loom.jsonl").write_bytes(_planted().replace(b'"sequence":2', b'"sequence":7'))
    monkeypatch.setenv("TMPDIR", str(desk.folder / "tmp"))
    (desk.folder / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    seen: list[bytes] = []
    write = Path.write_bytes

    def watched(path: Path, data: bytes) -> int:
        seen.append(data)
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", watched)
    words = ["--scrub", "INTERNAL:[A-Za-z0-9]+"] if by == "option" else []
    if by == "setting":
        (desk.folder / "pytest.ini").write_text("[pytest]\nloom_scrub =\n    re:INTERNAL:[A-Za-z0-9]+\n")
    done = desk("import", "runs", f"postgresql://user:{SECRETS[2]}@127.0.0.1:9/db", "-o", "goldens", *words)
    assert done.status == FINDING
    texts = [path.read_bytes() for path in (desk.folder / "goldens").rglob("*") if path.is_file()]
    assert len(texts) == 2
    names = [str(path).encode() for path in (desk.folder / "goldens").rglob("*")]
    assert seen
    for secret in SECRETS:
        assert secret.encode() not in b"".join([*texts, *names, *seen]), secret
        assert secret not in done.out + done.err, secret


def test_a_kill_midway_leaves_whole_files(desk: Desk) -> None:
    """Killed while it writes, an import leaves goldens that are whole, or none; the next one completes it."""
    for number in range(100):
        desk.log(f"{number:03}", made(f"order-{number:03}", given="x" * 20_000))
    command = [sys.executable, "-m", "pytest_loom", "import", "runs", "-o", "goldens"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until and len(list(Path("goldens").rglob("*.loom.jsonl"))) < 10:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    found = list(Path("goldens").rglob("*.loom.jsonl"))
    assert len(found) >= 10
    for file in found:
        assert load_log(file).state.status == "completed"
    done = desk("import", "runs", "-o", "goldens")
    assert done.status == OK
    assert len(list(load_logs("goldens"))) == 100


def test_a_link_in_the_output_is_not_another_golden(desk: Desk) -> None:
    """A golden's place that is taken by a link is refused, also with --force, and what it points to is untouched."""
    desk.log("one", made("order-17"))
    (desk.folder / "goldens/refund").mkdir(parents=True)
    (desk.folder / "secret.txt").write_text("mine")
    (desk.folder / "goldens/refund/order-17.loom.jsonl").symlink_to(desk.folder / "secret.txt")
    assert desk("import", "runs", "-o", "goldens").status == FINDING
    assert desk("import", "runs", "-o", "goldens", "--force").status == FINDING
    assert (desk.folder / "secret.txt").read_text() == "mine"
    (desk.folder / "secret.txt").unlink()
    assert desk("import", "runs", "-o", "goldens", "--force").status == FINDING
    assert not (desk.folder / "secret.txt").exists()


def test_names_of_sources_that_nobody_knows(desk: Desk) -> None:
    """A manifest can name known sources and engines only: anything else is a log of one's own, with a notice."""
    for name, engine, source in (
        ("langgraph", "checkpoint", "langgraph"),
        ("os.system", "journal", "loom"),
        ("langgraph", "evil", "loom"),
        (["langgraph"], {"a": 1}, "loom"),
    ):
        builder = LogBuilder("a", "f")
        said = {"input": 1, "manifest": {"source": name, "engine": engine}}
        builder.add("EXECUTION_STARTED", said, timestamp=START)
        (log,) = load_logs(desk.log("one", builder.log()))
        assert log.source == source
        assert log.engine == ("checkpoint" if source == "langgraph" else "journal")
        assert bool(log.notices) == (source == "loom")
