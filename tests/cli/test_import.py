"""``pytest-loom import``: what comes out, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_loom import load_log, load_logs
from pytest_loom.cli.output import ERROR, FINDING, OK
from pytest_loom.errors import LogError
from pytest_loom.sources import find_files
from tests.cli.conftest import DAY, START, Desk, made

TEMPORAL = Path(__file__).parents[1] / "sources" / "temporal_history.json"


def test_a_file_becomes_a_golden(desk: Desk) -> None:
    """The golden lies in its flow's folder under the run's name, which is printed, and is the same run."""
    desk.log("one", made("order-17"))
    done = desk("import", "runs/one.loom.jsonl", "-o", "goldens")
    assert (done.status, done.out) == (OK, "goldens/refund/order-17.loom.jsonl\n")
    assert done.err == "1 run read: 1 new\n"
    log = load_log(desk.folder / "goldens/refund/order-17.loom.jsonl")
    assert log.state.variables["_output"] == "paid"
    assert list(log.state.frames) == ["assess", "pay"]


def test_folders_globs_and_files_at_once(desk: Desk) -> None:
    """Several sources of every kind are read in one go, other formats by their own source."""
    desk.log("a", made("a"))
    desk.log("b", made("b"))
    done = desk("import", "runs", "runs/*.jsonl", TEMPORAL, "-o", "goldens", "--json")
    assert done.status == OK
    assert {one["file"] for one in done.json["imported"]} >= {"refund/a.loom.jsonl", "refund/b.loom.jsonl"}
    assert done.json["read"] == 5
    assert [one["change"] for one in done.json["imported"]].count("the same as another") == 2


def test_importing_twice_gives_the_same_bytes(desk: Desk) -> None:
    """A second import changes no golden, says so, and its sidecar differs in the date alone."""
    desk.log("one", made())
    desk("import", "runs", "-o", "goldens")
    before, sidecar = desk.goldens(), json.loads((desk.folder / "goldens/loom-import.json").read_text())
    done = desk("import", "runs", "-o", "goldens")
    again = json.loads((desk.folder / "goldens/loom-import.json").read_text())
    assert done.err == "1 run read: 1 unchanged\n"
    assert desk.goldens() == before
    for one in (sidecar, again):
        one["imports"][0].pop("capturedAt")
    assert again == sidecar


def test_goldens_imported_again_stay_as_they_are(desk: Desk) -> None:
    """What is imported is in its normal form already: a second import of it writes the same files."""
    desk.log("one", made("0b1f7a52-6f0e-4c1e-9d0a-1f3f5f2a2001"))
    desk.log("two", made("order-17", steps=["assess"], waits="Approved"))
    desk("import", "runs", TEMPORAL, "-o", "goldens")
    desk("import", "goldens", "-o", "again")
    assert desk.goldens("again") == desk.goldens()


def test_another_golden_in_its_place_is_left_alone(desk: Desk) -> None:
    """A golden with other content is refused by name, exit status 1; with --force it is replaced."""
    desk.log("one", made("order-17"))
    desk("import", "runs", "-o", "goldens")
    before = desk.goldens()
    desk.log("one", made("order-17", steps=["assess", "check", "pay"]))
    done = desk("import", "runs", "-o", "goldens")
    assert done.status == FINDING
    assert "goldens/refund/order-17.loom.jsonl" in done.err
    assert "--force" in done.err
    assert desk.goldens() == before
    done = desk("import", "runs", "-o", "goldens", "--force")
    assert (done.status, done.err) == (OK, "1 run read: 1 replaced\n")
    assert desk.goldens() != before


def test_a_broken_log_stops_no_other(desk: Desk) -> None:
    """Broken logs are named with file and line, exit status 1; what is whole is imported."""
    desk.log("good", made("good"))
    broken = desk.log("bad", made("bad"))
    broken.write_bytes(broken.read_bytes().replace(b'"sequence":3', b'"sequence":4'))
    (desk.folder / "runs" / "cut.loom.jsonl").write_text('{"executionId": "x"')
    done = desk("import", "runs", "-o", "goldens", "--json")
    assert done.status == FINDING
    assert not done.json["ok"]
    assert [one["file"] for one in done.json["imported"]] == ["refund/good.loom.jsonl"]
    assert {(one["path"], one["line"]) for one in done.json["errors"]} == {
        ("runs/bad.loom.jsonl", 3),
        ("runs/cut.loom.jsonl", 1),
    }
    assert "runs/bad.loom.jsonl:3" in done.err
    assert "Traceback" not in done.err
    assert all(line.startswith("pytest-loom: ") for line in done.err.splitlines()[:-1])


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("import",),
        ("import", "runs"),
        ("import", "nowhere", "-o", "goldens"),
        ("import", "*.nothing", "-o", "goldens"),
        ("import", "nobody://user:s3cret@host/db", "-o", "goldens"),
        ("import", "runs", "-o", "goldens", "--newest", "0"),
        ("import", "runs", "-o", "goldens", "--since", "yesterday"),
        ("import", "runs", "-o", "goldens", "--max-bytes", "much"),
        ("import", "runs", "-o", "goldens", "--scrub", "("),
        ("import", "runs", "-o", "goldens", "--flows", "no_such_module:flows"),
        ("import", "runs", "-o", "runs/one.loom.jsonl"),
        ("export",),
    ],
)
def test_wrong_usage(desk: Desk, words: tuple[str, ...]) -> None:
    """What makes no sense ends with status 2 and says why, without a traceback, a password, or a golden."""
    desk.log("one", made())
    done = desk(*words)
    assert done.status == ERROR
    assert done.err
    assert "Traceback" not in done.err
    assert "s3cret" not in done.err + done.out
    assert not (desk.folder / "goldens").exists()


def test_the_sidecar_says_where_goldens_come_from(desk: Desk) -> None:
    """It has the sources, what was left out, versions and the runs; a second import of others adds its entry."""
    desk.log("a", made("a"))
    desk.log("b", made("b", waits="Approved"))
    desk("import", "runs", "-o", "goldens", "--in-flight")
    desk("import", "runs/a.loom.jsonl", "-o", "goldens")
    said = json.loads((desk.folder / "goldens/loom-import.json").read_text())
    one, two = sorted(said["imports"], key=lambda entry: -entry["read"])
    assert one["sources"] == ["runs"]
    assert one["leftOut"] == {"not in flight": 1}
    assert one["runs"] == {"refund/b.loom.jsonl": "b"}
    assert one["python"].startswith("3.")
    assert "pytest-loom" in one["packages"]
    assert two["runs"] == {"refund/a.loom.jsonl": "a"}


def test_the_sidecar_is_no_log(desk: Desk) -> None:
    """Neither a folder nor a glob takes it for a log."""
    desk.log("a", made("a"))
    desk("import", "runs", "-o", "goldens")
    for source in ("goldens", "goldens/*", "goldens/**/*"):
        names = {file.name for file in find_files(source) if file.is_file()} if source != "goldens/*" else set()
        assert "loom-import.json" not in names
    with pytest.raises(LogError, match="no file matches"):
        find_files("goldens/*.json")


def test_a_sidecar_of_somebody_else_is_kept(desk: Desk) -> None:
    """A file of that name that is none of ours is not overwritten."""
    desk.log("a", made("a"))
    (desk.folder / "goldens").mkdir()
    (desk.folder / "goldens/loom-import.json").write_text("[]")
    done = desk("import", "runs", "-o", "goldens")
    assert done.status == ERROR
    assert (desk.folder / "goldens/loom-import.json").read_text() == "[]"


def test_git_is_asked_where_there_is_a_repository(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sidecar has revision and dirty flag in a repository; outside of one git is not even run."""
    desk.log("a", made("a"))
    monkeypatch.setenv("PATH", str(desk.folder))
    (desk.folder / "git").write_text("#!/bin/sh\ntouch git-was-run\n")
    (desk.folder / "git").chmod(0o755)
    desk("import", "runs", "-o", "goldens")
    assert not (desk.folder / "git-was-run").exists()
    monkeypatch.undo()
    monkeypatch.chdir(desk.folder)
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "runs"), (*who, "commit", "-qm", "runs")):
        subprocess.run(["git", *words], check=True, timeout=60)
    for dirty in (False, True):
        if dirty:
            desk.log("a", made("a", steps=["other"]))
        desk("import", "runs", "-o", "goldens", "--force")
        (entry,) = json.loads((desk.folder / "goldens/loom-import.json").read_text())["imports"]
        assert len(entry["git"]["revision"]) == 40
        assert entry["git"]["dirty"] is dirty


FLOWS = """
from pytest_loom import step, flow
@step
def assess(order): return "done"
@flow(id="refund", version="1", steps=[assess])
def refund(ctx, order): return ctx.run(assess, order)
flows = {"refund": refund}
"""


def test_contracts_are_captured_with_flows(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """--flows captures today's contracts where loom_contracts has them, names them in the sidecar and in each run."""
    (desk.folder / "import_flows_app.py").write_text(FLOWS)
    (desk.folder / "pytest.ini").write_text("[pytest]\nloom_contracts = kept\n")
    monkeypatch.syspath_prepend(desk.folder)
    desk.log("a", made("a"))
    assert desk("import", "runs", "-o", "goldens", "--flows", "import_flows_app:flows").status == OK
    (kept,) = (desk.folder / "kept" / "refund").glob("*.json")
    (entry,) = json.loads((desk.folder / "goldens/loom-import.json").read_text())["imports"]
    assert entry["contracts"]["refund"]["fingerprint"] == kept.stem
    assert entry["contracts"]["refund"]["contract"]["version"] == "1"
    (log,) = load_logs(desk.folder / "goldens")
    assert log.state.manifest["capturedContract"] == kept.stem


def test_other_logs_below_the_goldens_are_not_read_again(desk: Desk) -> None:
    """A folder that holds the goldens too is read without them."""
    desk.log("a", made("a"))
    desk("import", "runs", "-o", "runs/goldens")
    done = desk("import", "runs", "-o", "runs/goldens")
    assert done.err == "1 run read: 1 unchanged\n"


def test_the_module_and_the_pipe(desk: Desk) -> None:
    """``python -m pytest_loom`` does the same, shows no progress in a pipe, and bears a reader who leaves."""
    for number in range(3):
        desk.log(str(number), made(f"order-{number}", given=number))
    command = [sys.executable, "-m", "pytest_loom", "import", "runs", "-o", "goldens"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == OK, done.stderr
    assert done.stdout.split() == [f"goldens/refund/order-{number}.loom.jsonl" for number in range(3)]
    assert done.stderr == "3 runs read: 3 new\n"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*command, "--json"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_the_console_script_is_this_command(desk: Desk) -> None:
    """The script that the package installs is the same main."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"pytest-loom": "pytest_loom.cli:main"}


def test_help_and_version(desk: Desk) -> None:
    """Both end with status 0 and say what is asked."""
    assert desk("--help").status == OK
    done = desk("import", "--help")
    assert (done.status, "--one-per-path" in done.out) == (OK, True)
    assert desk("--version").out.startswith("pytest-loom ")


def test_times_start_anew(desk: Desk) -> None:
    """A golden begins at the fixed start, and its durations are those of the run."""
    desk.log("a", made("a", start=START + 5 * DAY))
    desk("import", "runs", "-o", "goldens")
    (log,) = load_logs(desk.folder / "goldens")
    assert [event.timestamp for event in log][:3] == [946_684_800_000, 946_684_801_000, 946_684_801_000]
    assert log.events[-1].timestamp == 946_684_803_000


def test_a_log_of_a_newer_application_is_imported(desk: Desk) -> None:
    """What needs an upcaster of the application is none of the import's business: the events are kept as they are."""
    file = desk.log("a", made("a", waits="Approved"))
    text = file.read_bytes().replace(b'"schemaVersion":"1.15.0",', b'"schemaVersion":"1.15.0","eventVersion":2,')
    file.write_bytes(text)
    done = desk("import", "runs", "-o", "goldens", "--in-flight")
    assert (done.status, done.err) == (OK, "1 run read: 1 new\n")
    assert b'"eventVersion":2' in desk.goldens()["refund/a.loom.jsonl"]
