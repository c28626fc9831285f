"""``pytest-loom review``: what waits is shown, accepted, rejected, skipped, with a terminal and without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_loom import load_log
from pytest_loom.cli.output import ERROR, FINDING, OK
from pytest_loom.log.candidates import Facts, candidate_file, compared, keep
from pytest_loom.log.event import Log
from tests.cli.conftest import Desk, Done, made
from tests.cli.test_show import ESCAPES


def done_by(output: Any, execution_id: str = "order-17") -> Log:
    """A run that came to another output."""
    log = made(execution_id)
    text = [bytes(event.raw).replace(b'"paid"', f'"{output}"'.encode()) for event in log.events]
    return Log([msgspec.structs.replace(e, raw=msgspec.Raw(raw)) for e, raw in zip(log.events, text, strict=True)])


def waits(desk: Desk, name: str, output: Any = "refused", test: str = "t.py::test", **rules: Any) -> Path:
    """A golden with a candidate beside it."""
    golden = desk.log(name, made("order-17"))
    keep(golden, done_by(output), Facts(test, compared(rules)))
    return golden


def output_of(golden: Path) -> Any:
    """What the run of a golden came to."""
    return load_log(golden).state.variables["_output"]


class Typing:
    """A terminal at which somebody types answers."""

    def __init__(self, *answers: str) -> None:
        self.answers = iter(answers)
        self.asked = 0

    def input(self, prompt: str) -> str:
        """The next answer; the end of the input after the last."""
        self.asked += 1
        try:
            return next(self.answers)
        except StopIteration:
            raise EOFError from None


@pytest.fixture
def typed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run ``review`` while somebody types these answers."""

    def run(*answers: str, words: tuple[str, ...] = ()) -> Done:
        typing = Typing(*answers)
        monkeypatch.setattr("builtins.input", typing.input)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        return desk("review", *words)

    return run


def test_nothing_waits(desk: Desk) -> None:
    """Without candidates there is nothing to do, and the status says so."""
    desk.log("one", made())
    done = desk("review")
    assert (done.status, done.out, done.err) == (OK, "", "nothing waits for review\n")


def test_one_by_one(desk: Desk, typed: Any) -> None:
    """Each is shown as a failed test explains it, and done with as is answered; what is skipped waits on."""
    goldens = [waits(desk, name) for name in "abc"]
    done = typed("a", "r", "s")
    assert done.status == FINDING
    assert [output_of(golden) for golden in goldens] == ["refused", "paid", "paid"]
    assert [candidate_file(golden).exists() for golden in goldens] == [False, False, True]
    lines = done.out.splitlines()
    assert lines[:6] == [
        "[1 of 3] t.py::test",
        "  refund/order-17: 1 difference from the golden run, in the outcome",
        "  golden: runs/a.loom.jsonl",
        "  candidate: runs/a.loom.jsonl.new",
        "  outcome",
        '    output  "paid" -> "refused"',
    ]
    assert "accepted: runs/a.loom.jsonl (order-17)" in lines
    assert "rejected: runs/b.loom.jsonl (order-17)" in lines
    assert done.err == "1 candidate waits for review: pytest-loom review\n"


def test_quitting(desk: Desk, typed: Any) -> None:
    """``q`` and the end of the input leave the rest as it is; other answers are asked again."""
    goldens = [waits(desk, name) for name in "ab"]
    for answers in (("q",), ("", "x", "?"), ()):
        done = typed(*answers)
        assert done.status == FINDING
        assert [output_of(golden) for golden in goldens] == ["paid", "paid"]
        assert "2 candidates wait" in done.err


def test_what_to_ignore(desk: Desk, typed: Any) -> None:
    """``i`` prints the paths for the marker, those that are ignored already among them, and asks again."""
    golden = waits(desk, "a", ignore=["**.id"])
    done = typed("i", "r")
    assert '    ignore=["**.id", "output"]' in done.out.splitlines()
    assert "t.py::test" in done.out
    assert (done.status, output_of(golden)) == (OK, "paid")
    golden = desk.log("b", made("order-17"))
    keep(golden, made("order-17", steps=["assess", "check", "pay"]), Facts("t"))
    done = typed("i", "s", words=("runs/b.loom.jsonl",))
    assert "Nothing here is a value that may vary" in done.out


def test_the_rules_of_the_test(desk: Desk) -> None:
    """What the test ignores is no difference here, and one that is no longer different is dropped."""
    waits(desk, "a", ignore=["output"])
    done = desk("review", "--list")
    assert (done.status, "no longer different, and dropped: runs/a.loom.jsonl" in done.out) == (OK, True)
    assert not (desk.folder / "runs/a.loom.jsonl.new").exists()
    waits(desk, "b", compare=["nothing"], comparators=["output"])
    done = desk("review", "--list")
    assert '"paid" -> "refused"' in done.out
    assert "by functions of its own" in done.out


def test_without_a_terminal(desk: Desk) -> None:
    """Somebody has to be asked, or the answer be given: --list, --accept-all, --reject-all."""
    goldens = [waits(desk, name) for name in "ab"]
    done = desk("review")
    assert (done.status, "--accept-all" in done.err, done.out) == (ERROR, True, "")
    assert desk("review", "--json").status == ERROR
    done = desk("review", "--list", "--json")
    assert (done.status, done.json["waiting"]) == (FINDING, 2)
    assert done.json["candidates"][0] == {
        "golden": "runs/a.loom.jsonl",
        "executionId": "order-17",
        "test": "t.py::test",
        "what": "waits",
        "differences": [{"kind": "output", "step": "", "path": "", "golden": "paid", "candidate": "refused"}],
    }
    done = desk("review", "--accept-all", "runs/a.loom.jsonl")
    assert (done.status, [output_of(golden) for golden in goldens]) == (OK, ["refused", "paid"])
    done = desk("review", "--reject-all")
    assert (done.status, [output_of(golden) for golden in goldens]) == (OK, ["refused", "paid"])
    assert not candidate_file(goldens[1]).exists()
    assert desk("review", "--accept-all", "--reject-all").status == ERROR


def test_which_are_meant(desk: Desk) -> None:
    """A golden, its file of candidates, a folder, or without any the project of the configuration."""
    for name in ("a", "deep/b", ".hidden/c", "__pycache__/d"):
        waits(desk, name)
    for words, count in (
        (("runs/a.loom.jsonl",), 1),
        (("runs/deep/b.loom.jsonl.new",), 1),
        (("runs", "runs/deep", "runs/a.loom.jsonl"), 2),
        ((), 2),
        (("runs/.hidden",), 1),
    ):
        assert desk("review", "--list", "--json", *words).json["waiting"] == count, words
    assert desk("review", "--list", "nowhere").status == ERROR
    assert desk("review", "--list", "runs/deep/none.loom.jsonl").status == ERROR


def test_a_golden_that_is_gone(desk: Desk) -> None:
    """A candidate whose golden is gone is shown as a new one, and accepting it makes the golden."""
    golden = waits(desk, "a")
    golden.unlink()
    done = desk("review", "--list")
    assert "there is no golden yet: runs/a.loom.jsonl" in done.out
    assert desk("review", "--accept-all").status == OK
    assert output_of(golden) == "refused"


def test_damaged_files(desk: Desk) -> None:
    """A damaged candidate or golden is named, changes nothing, and hides no other; links are not followed."""
    broken, golden, fine = (waits(desk, name) for name in "abc")
    file = candidate_file(broken)
    file.write_bytes(file.read_bytes()[:-30])
    golden.write_bytes(golden.read_bytes()[:-30])
    (desk.folder / "runs/d.loom.jsonl.new").symlink_to(candidate_file(fine))
    done = desk("review", "--accept-all")
    assert done.status == FINDING
    assert [line.split(":")[1].strip() for line in done.err.splitlines()] == [
        "runs/a.loom.jsonl.new",
        "runs/d.loom.jsonl.new",
        "runs/b.loom.jsonl",
    ]
    assert "Traceback" not in done.err
    assert (output_of(broken), output_of(fine)) == ("paid", "refused")


def test_candidates_that_git_would_take(desk: Desk) -> None:
    """Where a repository does not ignore candidates, a line for .gitignore is given."""
    waits(desk, "a")
    assert ".gitignore" not in desk("review", "--list").err
    subprocess.run(["git", "init", "-q"], cwd=desk.folder, check=True)
    assert "Put into .gitignore: *.jsonl.new" in desk("review", "--list").err
    (desk.folder / ".gitignore").write_text("*.jsonl.new\n*.jsonl.gz.new\n")
    assert ".gitignore" not in desk("review", "--list").err


def test_what_a_candidate_says_cannot_reach_the_terminal(desk: Desk, typed: Any) -> None:
    """Tests, paths and values of a file of candidates are shown escaped."""
    golden = desk.log("a", made(ESCAPES, flow=ESCAPES))
    new = made(ESCAPES, flow=ESCAPES, steps=[ESCAPES], given=ESCAPES)
    rules = compared({"ignore": [ESCAPES.replace("[", "")], "comparators": [ESCAPES], "compare": "all"})
    keep(golden, new, Facts(ESCAPES, rules))
    for done in (desk("review", "--list"), typed("i", "s")):
        assert done.status == FINDING
        assert all(line.isprintable() for line in (done.out + done.err).split("\n"))


def test_at_a_real_terminal(desk: Desk) -> None:
    """Typed at a terminal of its own, an answer is taken, and there are colours; with NO_COLOR there are none."""
    pty = pytest.importorskip("pty", reason="Windows has no such terminals")
    for colours in (True, False):
        golden = waits(desk, "a")
        environment = {**os.environ, "TERM": "xterm"} | ({} if colours else {"NO_COLOR": "1"})
        master, slave = pty.openpty()
        command = [sys.executable, "-m", "pytest_loom", "review"]
        process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        seen = b""
        os.write(master, b"a\n")
        while True:
            try:
                block = os.read(master, 4096)
            except OSError:
                break
            if not block:
                break
            seen += block
        assert process.wait(timeout=60) == OK, seen
        os.close(master)
        assert output_of(golden) == "refused"
        assert (b"\x1b[1m[1 of 1]" in seen) == colours
        assert (b"\x1b[" in seen) == colours
