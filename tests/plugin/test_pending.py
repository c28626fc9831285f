"""Candidates for review: when one is kept beside its golden, when it is gone again, and that it is nobody's log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_loom import load_log
from pytest_loom.log.candidates import Candidate, candidates
from pytest_loom.sources import find_files
from tests.plugin.conftest import Desk

PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR
GOLDEN = "logs/a.loom.jsonl"
NEW = "logs/a.loom.jsonl.new"
COMPARE = """
@pytest.mark.loom("logs/a.loom.jsonl")
def test_it(loom_golden):
    assert diff_runs(loom_golden, shop.run({0!r})) == []
"""
SECRET = "sk-proj-" + "a1B2c3D4" * 6


def waiting(desk: Desk, name: str = NEW) -> list[Candidate]:
    """What waits for review."""
    found = candidates(desk.path / name)
    assert all(isinstance(one, Candidate) for one in found)
    return [one for one in found if isinstance(one, Candidate)]


def test_a_failed_comparison_keeps_its_candidate(shop: Desk) -> None:
    """What the test compared is kept as accepting would write it, with test and rules; the golden stands."""
    shop.write_test(COMPARE.format(5).replace('jsonl")', "jsonl\", ignore=['**.at'], tolerance={'abs': 1})"))
    before = (shop.path / GOLDEN).read_bytes()
    assert shop() == FAILED
    assert (shop.path / GOLDEN).read_bytes() == before
    (one,) = waiting(shop)
    assert (one.golden, one.log.execution_id, one.facts.test) == (shop.path / GOLDEN, "r-1", "test_it.py::test_it")
    assert one.facts.rules.rules["ignore"] == ["**.at"]
    assert one.facts.rules.tolerance == {"abs": 1}
    assert shop.section[1:] == ["1 candidate waits for review beside the golden (*.new): pytest-loom review"]
    assert load_log(shop.path / NEW).state.variables["_output"] == 5
    kept = one.log
    assert shop("--loom-update") == PASSED
    assert load_log(shop.path / GOLDEN).events == kept.events
    assert not (shop.path / NEW).exists()


def test_it_is_gone_when_the_test_passes(shop: Desk) -> None:
    """A test that passes again lets go of its own candidate, and of no other test's."""
    shop.write_test(COMPARE.format(5))
    shop()
    shop.write_test(COMPARE.format("done"), "test_other.py")
    assert shop("test_other.py") == PASSED
    assert len(waiting(shop)) == 1
    shop.write_test(COMPARE.format("done"))
    assert shop("test_it.py") == PASSED
    assert not (shop.path / NEW).exists()
    assert shop.section == []


def test_a_newer_candidate_takes_the_place(shop: Desk) -> None:
    """Each failure keeps what it compared last; a failure for another reason leaves what was there."""
    for output in (5, 6):
        shop.write_test(COMPARE.format(output))
        assert shop() == FAILED
    assert [one.log.state.variables["_output"] for one in waiting(shop)] == [6]
    shop.write_test(COMPARE.format("done") + "    assert 0\n")
    assert shop() == FAILED
    assert len(waiting(shop)) == 1


def test_runs_of_one_file_wait_side_by_side(shop: Desk) -> None:
    """A golden with several runs has one file of candidates, whose runs come and go one by one."""
    shop.log(GOLDEN, "r-2", "assess", append=True)
    body = """
@pytest.mark.loom("logs/a.loom.jsonl")
def test_it(loom_golden):
    today = shop.run({!r}, execution_id=loom_golden.execution_id)
    assert diff_runs(loom_golden, today) == [] or loom_golden.execution_id == {!r}
"""
    shop.write_test(body.format(5, ""))
    assert shop() == FAILED
    assert [one.log.execution_id for one in waiting(shop)] == ["r-1", "r-2"]
    assert "2 candidates wait for review" in shop.section[1]
    shop.write_test(body.format(5, "r-1"))
    assert shop() == FAILED
    assert [one.log.execution_id for one in waiting(shop)] == ["r-2"]


@pytest.mark.parametrize(
    ("environment", "said", "kept"),
    [
        ("true", "", False),
        ("1", "auto", False),
        ("true", "always", True),
        ("false", "", True),
        ("", "auto", True),
        ("", "never", False),
    ],
)
def test_not_in_ci_unless_asked(
    shop: Desk, monkeypatch: pytest.MonkeyPatch, environment: str, said: str, kept: bool
) -> None:
    """Where the variable CI is set nothing is kept, unless loom_pending asks for it."""
    monkeypatch.setenv("CI", environment)
    shop.write_test(COMPARE.format(5))
    assert shop("-o", f"loom_pending={said}") == FAILED
    assert (shop.path / NEW).exists() == kept


def test_a_setting_that_makes_no_sense(shop: Desk) -> None:
    """loom_pending has three values, and any other is a usage error."""
    assert shop("-o", "loom_pending=yes") == USAGE


@pytest.mark.parametrize(
    "body",
    [
        "    assert diff_runs(loom_golden, shop.run(5)) != []\n",
        "    assert diff_runs(loom_golden, shop.run('done')) == []\n    assert 0\n",
        "    assert diff_runs(loom_golden, shop.run(5)) + diff_runs(loom_golden, shop.run(6)) == []\n",
        "    diff_runs(loom_golden, shop.run(5))\n    pytest.skip('later')\n",
        "    diff_runs(loom_golden, shop.run(5))\n    pytest.xfail('known')\n",
        "    assert diff_runs(load_log('logs/a.loom.jsonl'), shop.run(5)) == []\n",
        "    from pytest_loom import fork\n    assert diff_runs(loom_golden, fork(shop.run(5), 2)) == []\n",
    ],
    ids=["meant-to-differ", "another-reason", "two-runs", "skipped", "xfailed", "no-golden", "forked"],
)
def test_when_there_is_no_candidate(shop: Desk, body: str) -> None:
    """Nothing is kept where no run was compared in vain, where it could be either of two, and where failing is fine."""
    shop.write_test(COMPARE.format(5).rpartition("    assert")[0] + body)
    shop()
    assert not (shop.path / NEW).exists()
    assert shop.section == []


def test_a_replay_that_could_not_go_on_is_no_candidate(shop: Desk) -> None:
    """The record of a divergence is not a run that anybody could accept; a replay that went through is one."""
    shop.write(
        "greeter.py",
        "from pytest_loom import flow, step\n\n@step\ndef say(name):\n    return f'Hi {name}'\n\n"
        "@flow(id='greet', steps=[say])\ndef greet(ctx, name: str):\n    return ctx.run(say, name + EXTRA) + END\n\n"
        "EXTRA = ''\nEND = '.'\n",
    )
    shop.write_test("from greeter import greet\n\ndef test_hi(loom):\n    loom.record(greet, 'Ada')\n", "test_hi.py")
    assert shop("test_hi.py", "--loom-update") == PASSED
    golden = "logs/test_hi/test_hi.loom.jsonl"
    greeter = (shop.path / "greeter.py").read_text()
    shop.write("greeter.py", greeter.replace("EXTRA = ''", "EXTRA = '?'"))
    assert shop("test_hi.py") == FAILED
    assert not (shop.path / f"{golden}.new").exists()
    shop.write("greeter.py", greeter.replace("END = '.'", "END = '!'"))
    assert shop("test_hi.py") == FAILED
    (one,) = waiting(shop, f"{golden}.new")
    assert one.log.state.variables["_output"] == "Hi Ada!"
    assert one.facts.rules.compare == "all"
    (shop.path / golden).write_bytes(b"")
    (shop.path / golden).unlink()
    from pytest_loom.log.candidates import accept

    accept(one)
    assert shop("test_hi.py") == PASSED


def test_secrets_are_not_kept(shop: Desk) -> None:
    """A candidate is written without its secrets, by the rules that recordings go through."""
    shop.write_test(COMPARE.format({"key": SECRET, "mine": "EMP-123"}))
    assert shop("-o", r"loom_scrub=re:EMP-\d+") == FAILED
    text = (shop.path / NEW).read_text()
    assert (SECRET in text, "EMP-123" in text, "<scrubbed:" in text) == (False, False, True)


def test_what_pytest_loom_does_not_write_has_no_candidate(shop: Desk) -> None:
    """A golden in another format is never rewritten, so nothing waits for it."""
    messages = [
        {
            "parts": [{"content": "hi", "part_kind": "user-prompt", "timestamp": "2026-01-01T00:00:00Z"}],
            "kind": "request",
        }
    ]
    shop.write("logs/b.json", json.dumps(messages))
    shop.write_test(COMPARE.format(5).replace("a.loom.jsonl", "b.json"))
    assert shop() == FAILED
    assert [name for name in shop.files() if name.endswith(".new")] == []


def test_a_folder_that_cannot_be_written_to(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test fails for its own reason, and no candidate is promised."""
    shop.write_test(COMPARE.format(5))
    shop.write(
        "conftest.py",
        "import pytest_loom.log.candidates\n\ndef no(*args):\n    raise PermissionError(13, 'no')\n\n"
        "pytest_loom.log.candidates.write_atomically = no\n",
    )
    monkeypatch.setattr("pytest_loom.log.candidates.write_atomically", None)  # restored after the test
    assert shop() == FAILED
    assert shop.counts == {"failed": 1}
    assert shop.section == []


def test_candidates_are_no_logs(shop: Desk) -> None:
    """No glob, folder or marker takes a candidate for a recorded run."""
    shop.write_test(COMPARE.format(5).replace("a.loom.jsonl", "a*"))
    assert shop() == FAILED
    assert (shop.path / NEW).exists()
    for pattern in ("logs", "logs/*", "logs/a*", "**/*"):
        files = find_files(pattern, root=shop.path)
        assert Path(NEW).name not in {file.name for file in files}
    assert shop("--loom-deploy-sim", "-k", "deploy-sim") == PASSED
    assert shop.counts == {"passed": 1, "deselected": 1}
    assert shop("--loom-deploy-sim", "-k", "deploy-sim", "-o", "loom_logs=logs/*") == PASSED
    assert shop("--loom-update") == PASSED
    assert [name for name in shop.files() if name.endswith(".new")] == []


def test_workers_side_by_side(shop: Desk) -> None:
    """Under pytest-xdist all candidates of one file are there, whichever worker came first, and are told of once."""
    for number in range(2, 21):
        shop.log(GOLDEN, f"r-{number}", "assess", append=True)
    body = """
@pytest.mark.loom("logs/a.loom.jsonl")
def test_it(loom_golden):
    assert diff_runs(loom_golden, shop.run({!r}, execution_id=loom_golden.execution_id)) == []
"""
    shop.write_test(body.format(5))
    assert shop.apart("-n", "3", plugins=("xdist.plugin",)) == FAILED
    assert len(waiting(shop)) == 20
    assert "20 candidates wait for review" in shop.section[1]
    shop.write_test(body.format("done"))
    assert shop.apart("-n", "3", plugins=("xdist.plugin",)) == PASSED
    assert not (shop.path / NEW).exists()


def test_what_is_accepted_is_shown(shop: Desk) -> None:
    """--snapshot-update names the first differences of each golden, of every kind; -q the goldens alone."""
    steps = ("assess", *(f"step-{number}" for number in range(9)))
    shop.write_test(COMPARE.format(5).replace("run(5)", f"run(5, steps={steps!r})"))
    assert shop("--loom-update") == PASSED
    assert shop.section[2:] == [
        "  logs/a.loom.jsonl (changed)",
        "    outcome",
        '      output  "done" -> 5',
        "    step assess",
        '      output  "done" -> 5',
        "    step step-0",
        "      new  the step did not run -> 5",
        "    ... and 8 more differences, in 8 steps",
    ]
    shop.write_test(COMPARE.format(6).replace("run(6)", f"run(6, steps={steps!r})"))
    assert shop("--loom-update", "-q") == PASSED
    assert [line for line in shop.section[1:] if line.startswith(" ")] == ["  logs/a.loom.jsonl (changed)"]
