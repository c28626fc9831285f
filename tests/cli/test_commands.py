"""What all commands have in common: help, JSON, pipes, colours, how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.cli import _COMMANDS, main
from pytest_loom.cli.output import ERROR, FINDING, OK, Output
from pytest_loom.log.candidates import Facts, keep
from tests.cli.conftest import Desk, made
from tests.cli.test_show import polling

WORDS: dict[str, tuple[str, ...]] = {
    "show": ("runs/one.loom.jsonl",),
    "diff": ("runs/one.loom.jsonl", "runs/two.loom.jsonl"),
    "contract": ("show", "contract.json"),
    "import": ("runs", "-o", "goldens"),
    "review": ("--list",),
    "scan": ("runs",),
    "scrub": ("runs", "--check"),
    "simulate": ("runs", "--flows", "loom_commands_app:flows"),
    "merge": ("report.json",),
    "doctor": (),
}
"""Of each command words that work in the folder ``busy``."""


@pytest.fixture
def busy(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A folder in which every command has something to say."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    desk.log("one", made("order-17", given={"note": "grün 🦊"}, waits="Approved"))
    keep(desk.log("two", polling()), made("order-17"), Facts("t"))
    contract = {"workflowId": "refund", "steps": {"assess": {}}}
    (desk.folder / "contract.json").write_text(json.dumps(contract))
    (desk.folder / "loom_commands_app.py").write_text(f"flows = {{'refund': {contract!r}}}\n")
    assert desk("simulate", "runs", "--flows", "loom_commands_app:flows", "--report", "report.json").status == FINDING
    return desk


def test_every_command_is_tried_here() -> None:
    """A new command has its words in this file."""
    assert list(WORDS) == list(_COMMANDS)


@pytest.mark.parametrize("words", [(), *((name,) for name in _COMMANDS), ("contract", "show"), ("contract", "diff")])
def test_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The help of every command says what it is for, in lines of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words, "--help"]) == OK
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "?." not in shown
    if not words:
        assert all(sum(line.startswith(f"    {name} ") for line in shown.splitlines()) == 1 for name in _COMMANDS)
        assert len(shown.splitlines()) <= 24, "one screen"


def test_the_version_and_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """``--version`` says it, and a call without a command is wrong usage."""
    assert main(["--version"]) == OK
    assert capsys.readouterr().out.startswith("pytest-loom ")
    assert main([]) == ERROR
    assert main(["--json"]) == ERROR


@pytest.mark.parametrize("command", _COMMANDS)
def test_json_everywhere(busy: Desk, command: str) -> None:
    """With ``--json`` every command says its outcome as one object, and the status as it does without."""
    plain = busy(command, *WORDS[command])
    done = busy(command, *WORDS[command], "--json")
    assert done.status == plain.status
    assert done.json["ok"] == (done.status == OK)
    assert done.json["schema"] == 1
    assert plain.out != done.out


def apart(busy: Desk, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "pytest_loom", *words]
    return subprocess.run(command, cwd=busy.folder, env={**os.environ, **environment}, capture_output=True, timeout=60)


def test_output_that_is_no_utf8(busy: Desk) -> None:
    """Where the output takes ASCII alone, JSON is still JSON, and text is escaped."""
    done = apart(busy, "show", "runs/one.loom.jsonl", "--json", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (OK, b"")
    assert json.loads(done.stdout)["timeline"][0]["payload"]["input"] == {"note": "grün 🦊"}
    done = apart(busy, "show", "runs/one.loom.jsonl", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == OK
    assert b"gr\\xfcn" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
def test_names_of_files_that_are_no_utf8(busy: Desk) -> None:
    """A file whose name is no text is read all the same, and its name is escaped."""
    name = os.fsencode(busy.folder) + b"/runs/\xff.loom.jsonl"
    Path(os.fsdecode(name)).write_bytes((busy.folder / "runs/one.loom.jsonl").read_bytes())
    for words in (
        ("scan", "runs"),
        ("show", "runs"),
        ("scan", "runs", "--json"),
        ("doctor",),
        ("import", "runs", "-o", "x"),
    ):
        done = apart(busy, *words)
        assert b"Traceback" not in done.stderr, words
        if "--json" in words:
            json.loads(done.stdout)


@pytest.mark.parametrize("command", ["show", "diff", "simulate", "doctor"])
def test_pipes_have_no_colours_and_no_progress(busy: Desk, command: str) -> None:
    """Into a pipe nothing but text is written."""
    done = apart(busy, command, *WORDS[command])
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"\r" not in done.stdout + done.stderr


def test_when_there_are_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At a terminal lines have colours, unless NO_COLOR says otherwise or the terminal is dumb."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for environment, painted in (
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": ""}, True),
    ):
        with monkeypatch.context() as patched:
            patched.setenv("TERM", "xterm")
            patched.delenv("NO_COLOR", raising=False)
            for name, value in environment.items():
                patched.setenv(name, value)
            Output().line("text", "red")
            assert ("\x1b[31m" in capsys.readouterr().out) == painted


def test_progress_at_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What a long work is at is seen on a terminal alone, and gone before something else is said."""
    out = Output()
    out.progress("1 read")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    out.progress("2 read \x1b[2J")
    out.line("done")
    shown = capsys.readouterr()
    assert shown.out == "done\n"
    assert shown.err.startswith("\r2 read \\x1b[2J")
    assert shown.err.endswith("\r")


def test_no_command_for_github(busy: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a step of GitHub Actions nothing that a log says is taken for a command."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    busy.log("evil", made("::error::owned", flow="::stop-commands::x", steps=["##[error]x"]))
    for words in (("show", "runs/evil.loom.jsonl"), ("diff", "runs/evil.loom.jsonl", "runs/two.loom.jsonl")):
        done = busy(*words)
        assert not any(line.lstrip().startswith("::") for line in (done.out + done.err).splitlines())
        assert "##[" not in done.out + done.err


def test_an_interrupt(busy: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a command with a word and the status of shells."""

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_loom.cli.scan.files_of", interrupted)
    done = busy("scan", "runs")
    assert (done.status, done.err) == (130, "pytest-loom: stopped\n")
