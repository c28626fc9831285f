"""``--loom-mutate``: which mutants of their goldens tests notice, and what is said of those that none does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loom.plugin import mutate

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR
MUTATE = "--loom-mutate"
WEAK = """
@pytest.mark.loom("logs/a.loom.jsonl")
def test_it(loom_golden):
    assert diff_runs(loom_golden, shop.run()) == []
"""
ASSERTS_INPUT = "    assert loom_golden.state.variables['_input'] == {'order': 1}\n"
STRONG = WEAK + ASSERTS_INPUT
NO_FLOWS = ("-o", "loom_flows=")
"""Without flows nothing is simulated: then this is about goldens alone."""


def mutants(desk: Desk) -> list[str]:
    """The lines of the section about mutants, its title first."""
    lines = desk.result.outlines
    start = next((number for number, line in enumerate(lines) if "= pytest-loom: mutants" in line), len(lines))
    end = next((number for number in range(start + 1, len(lines)) if lines[number].startswith("=")), len(lines))
    return lines[start:end]


def test_nothing_survives(shop: Desk) -> None:
    """Every change of the golden is noticed: the section is a table and one line."""
    shop.write_test(STRONG)
    assert shop(MUTATE, *NO_FLOWS) == PASSED
    assert mutants(shop) == [
        "============================= pytest-loom: mutants =============================",
        "                       mutants      killed    survived  equivalent",
        "drop-step                    1           1           -           -",
        "change-output                2           2           -           -",
        "change-input                 1           1           -           -",
        "change-status                1           1           -           -",
        "no mutant of 5 survived",
    ]


def test_a_survivor_is_said_in_words(shop: Desk) -> None:
    """What was changed, in which golden, who looked and passed, and what to assert; the run fails."""
    shop.write_test(WEAK)
    assert shop(MUTATE, *NO_FLOWS) == FAILED
    assert mutants(shop)[-8:] == [
        "change-status                1           1           -           -",
        "SURVIVED  1 mutant: change-input",
        "  logs/a.loom.jsonl: the run was asked order 2 instead of 1",
        "  looked and passed:",
        "    test_it.py::test_it",
        "  -> Run today's code on what was asked: loom.record, loom.replay, or the input",
        "     of the golden.",
        "1 of 5 mutants SURVIVED",
    ]
    assert shop.counts == {"passed": 1}


def test_a_deleted_assertion_is_told(shop: Desk) -> None:
    """Without its comparison a test notices nothing: all mutants survive, and the test is blind."""
    shop.write_test(WEAK.replace("assert diff_runs", "diff_runs"))
    assert shop(MUTATE, *NO_FLOWS) == FAILED
    assert mutants(shop)[-4:] == [
        "BLIND  1 test passed with every mutant of the goldens used:",
        "  test_it.py::test_it, 5 mutants",
        "  -> Assert something about the golden, or take it out of the test.",
        "5 of 5 mutants SURVIVED; 1 test is blind",
    ]


def test_one_test_that_sees_is_enough(shop: Desk) -> None:
    """A mutant is killed by any of the tests that use the golden; one that sees none of them is blind all the same."""
    shop.write_test(STRONG + WEAK.replace("test_it", "test_too").replace("assert diff_runs", "diff_runs"))
    assert shop(MUTATE, *NO_FLOWS) == FAILED
    assert "  test_it.py::test_too, 5 mutants" in mutants(shop)
    assert mutants(shop)[-1] == "no mutant of 5 survived; 1 test is blind"


def test_only_the_selected_tests_are_asked(shop: Desk) -> None:
    """What -k leaves out cannot notice anything, and tests without a golden are run once."""
    shop.write_test(STRONG + WEAK.replace("test_it", "test_too") + "def test_plain():\n    print('PLAIN')\n")
    assert shop(MUTATE, *NO_FLOWS, "-k", "too or plain", "-s") == FAILED
    assert mutants(shop)[-1] == "1 of 5 mutants SURVIVED"
    assert shop.result.stdout.str().count("PLAIN") == 1


def test_what_the_marker_ignores_is_equivalent(shop: Desk) -> None:
    """A path that the rules leave out on purpose is listed with the rule, and nobody has to notice it."""
    shop.write_test(STRONG.replace('.jsonl"', '.jsonl", ignore=["output", "assess.output"]'))
    assert shop(MUTATE, *NO_FLOWS) == PASSED
    assert mutants(shop)[-5:] == [
        "equivalent  change-output, 2: the tests leave it out on purpose:",
        "  ignore=['output', 'assess.output']",
        '    logs/a.loom.jsonl: step assess gave "mutant" instead of "done"',
        "    and 1 more (-v shows them)",
        "no mutant of 5 survived, 2 equivalent",
    ]


def test_what_diff_runs_is_told_to_ignore_counts_too(shop: Desk) -> None:
    """Rules in the test's body are rules."""
    shop.write_test(STRONG.replace("run())", "run(), ignore=['output', 'assess.output'])"))
    assert shop(MUTATE, *NO_FLOWS) == PASSED
    assert mutants(shop)[-1] == "no mutant of 5 survived, 2 equivalent"


def test_no_file_is_changed(shop: Desk) -> None:
    """Goldens and all else stay as they are, byte for byte."""
    shop.write_test(WEAK)
    before = {name: (shop.path / name).read_bytes() for name in shop.files()}
    shop(MUTATE, *NO_FLOWS)
    assert {name: (shop.path / name).read_bytes() for name in shop.files()} == before


@pytest.mark.parametrize("beside", ["--loom-update", "--loom-live", "--loom-shard=1/2", "--pdb"])
def test_what_does_not_go_together(shop: Desk, beside: str) -> None:
    """Mutants are never accepted, let out, judged by half a corpus or debugged."""
    shop.write_test(STRONG)
    assert shop(MUTATE, beside) == USAGE
    shop.result.stderr.fnmatch_lines([f"*--loom-mutate: {beside.partition('=')[0]}*do not go together*"])


def test_nothing_to_mutate_is_an_error(shop: Desk) -> None:
    """No mutant at all proves nothing."""
    shop.write_test("def test_plain():\n    pass\n")
    assert shop(MUTATE, *NO_FLOWS) == FAILED
    assert mutants(shop)[1:] == [
        "NOTHING WAS MUTATED: no test that passed uses a golden, and no flow was held against a log"
    ]
    assert shop(MUTATE, *NO_FLOWS, "--collect-only") == PASSED


@pytest.mark.parametrize("body", ["assert 0", "pytest.skip('no')", "pytest.xfail('no')"])
def test_tests_that_do_not_pass_are_not_asked(shop: Desk, body: str) -> None:
    """A failed test would seem to notice everything, and what a skipped one would is not known."""
    shop.write_test(f"RAN = 'IT ' + 'RAN'\n{STRONG}    print(RAN)\n    {body}\n")
    shop(MUTATE, *NO_FLOWS, "-s")
    assert shop.result.stdout.str().count("IT RAN") == 1


def test_a_test_that_cannot_run_twice_is_not_asked(shop: Desk) -> None:
    """It would seem to notice everything: it says so, and its golden counts as used by nobody."""
    shop.write_test(f"{STRONG}    assert not RAN\n    RAN.append(1)\nRAN = []\n")
    assert shop(MUTATE, *NO_FLOWS) == FAILED
    assert "note: test_it.py::test_it fails when it is run again, so it was not asked" in mutants(shop)


def test_fixtures_around_a_test_stand_as_they_stood(shop: Desk) -> None:
    """A module's fixture is made once and not torn down between mutants; a test's own is made for each run."""
    shop.write_test(
        """
@pytest.fixture(scope="module")
def store():
    print("OPENED")
    yield
    print("CLOSED")

@pytest.fixture
def fresh(store, tmp_path, capsys, caplog):
    (tmp_path / "a").touch(exist_ok=False)
    yield
    print("DONE")
"""
        + STRONG.replace("loom_golden)", "loom_golden, fresh)", 1)
        + "def test_last(store):\n    print('LAST')\n"
    )
    assert shop(MUTATE, *NO_FLOWS, "-s") == PASSED
    printed = [word for word in shop.result.stdout.str().replace(".", "").split() if word.isupper()]
    assert [word for word in printed if word in ("OPENED", "DONE", "LAST", "CLOSED")] == [
        "OPENED",
        *["DONE"] * 7,  # as it is, once more as it is, and with five mutants
        "LAST",
        "CLOSED",
    ]


def test_a_test_that_a_mutant_keeps_going(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended after a while, and that counts as noticed."""
    monkeypatch.setattr(mutate, "LIMIT_S", 0.3)
    shop.write_test(
        STRONG.replace(
            "    assert diff", "    while loom_golden.state.status == 'failed':\n        pass\n    assert diff"
        )
    )
    assert shop(MUTATE, *NO_FLOWS) == PASSED
    assert mutants(shop)[-1] == "no mutant of 5 survived"


def test_recordings_and_loaded_logs_are_goldens(desk: Desk) -> None:
    """``loom.record`` replays mutants of its golden, each call its own, and ``loom.load`` gives mutants."""
    desk.write(
        "till.py",
        """
from pytest_loom import Context, flow, step

@step
async def pay(cents: int) -> str:
    return f"receipt {cents}"

@flow(id="till", steps=[pay])
async def till(ctx: Context, cents: int) -> bool:
    await ctx.run(pay, cents)
    return True
""",
    )
    desk.log("logs/other.loom.jsonl", "r-9")
    desk.write(
        "test_till.py",
        """
from till import till

def test_it(loom):
    loom.record(till, 1)
    loom.record(till, 2)
    assert loom.load("logs/other.loom.jsonl").state.status == "completed"
""",
    )
    assert desk("--loom-update") == PASSED
    assert desk(MUTATE, *NO_FLOWS) == FAILED
    section = mutants(desk)
    assert "  logs/other.loom.jsonl: step assess was left out" in section
    assert '  logs/test_till/test_it-2.loom.jsonl: step pay gave "mutant" instead of' in section
    assert '  logs/test_till/test_it.loom.jsonl: step pay gave "mutant" instead of "receipt' in section
    assert not any("step pay was" in line for line in section)
    assert section[-1] == "6 of 17 mutants SURVIVED"


def test_the_report_holds_the_mutants(shop: Desk) -> None:
    """report.json says the same for machines, and only where mutants were made."""
    shop.write_test(WEAK)
    options = ("--loom-deploy-sim", "--loom-report=report.json")
    assert shop(*options) == PASSED
    assert "mutants" not in shop.report
    assert shop(MUTATE, *options) == FAILED
    (asked,) = (one for one in shop.report["mutants"]["survivors"] if one["operator"] == "change-input")
    assert asked == {
        "operator": "change-input",
        "subject": "logs/a.loom.jsonl",
        "execution_id": "r-1",
        "what": "the run was asked order 2 instead of 1",
        "looked": ["test_it.py::test_it"],
        "assert": "Run today's code on what was asked: loom.record, loom.replay, or the input of the golden.",
    }
    assert shop.report["mutants"]["operators"]["drop-step"] == {
        "mutants": 1,
        "killed": 1,
        "survived": 0,
        "equivalent": 0,
    }


def test_the_same_with_workers_snapshots_and_async_tests(shop: Desk) -> None:
    """pytest-xdist, syrupy and pytest-asyncio change nothing: the same mutants fare the same, no snapshot fails."""
    for number in range(4):
        shop.log(f"logs/{number}.loom.jsonl", f"run-{number}")
    shop.write_test(
        """
@pytest.mark.asyncio
@pytest.mark.loom("logs/[0-9].loom.jsonl")
async def test_async(loom, loom_golden):
    assert diff_runs(loom_golden, shop.run()) == []

@pytest.mark.loom("logs/*.loom.jsonl")
def test_summary(loom_golden, loom_snapshot):
    assert loom_golden == loom_snapshot
"""
    )
    plugins = ("syrupy", "pytest_asyncio.plugin", "xdist")
    quiet = ("-W", "ignore", "-o", "asyncio_mode=strict")
    assert shop.apart("--snapshot-update", *quiet, plugins=plugins) == PASSED
    found: list[Any] = []
    for workers in ((), ("-n", "2")):
        assert shop.apart(MUTATE, "--loom-report=report.json", *quiet, *workers, plugins=plugins) == FAILED
        shop.result.stdout.fnmatch_lines(["*snapshots passed*"])
        assert "failed" not in shop.result.stdout.str().replace("was failed", "")
        found.append(shop.report["mutants"])
    assert json.dumps(found[0]) == json.dumps(found[1])
    assert {one["what"] for one in found[0]["survivors"]} >= {"the run was asked order 2 instead of 1"}


def test_a_fixture_that_fails_at_its_end_fails_once(shop: Desk) -> None:
    """What goes wrong when a module is torn down is told of its last test, as without mutants."""
    fixture = "@pytest.fixture(scope='module')\ndef store():\n    yield\n    assert 0, 'not closed'\n"
    shop.write_test(fixture + STRONG.replace("loom_golden)", "loom_golden, store)", 1))
    assert shop(MUTATE, *NO_FLOWS) == FAILED
    assert shop.counts == {"passed": 1, "errors": 1}
    shop.write_test(fixture + STRONG.replace("loom_golden)", "loom_golden, store)", 1) + "def test_last():\n    pass\n")
    shop(MUTATE, *NO_FLOWS)
    assert shop.counts == {"passed": 2, "errors": 1}


def test_github_takes_nothing_for_a_command(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a log says cannot be a command to the runner of GitHub."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shop.log("logs/a.loom.jsonl", "r-1", "assess", output="x " * 20 + "::error::pwned")
    shop.write_test(WEAK.replace("assert diff_runs(loom_golden, shop.run()) == []", "loom_golden.state"))
    shop(MUTATE, *NO_FLOWS)
    assert "pwned" in " ".join(mutants(shop))
    assert not any(line.lstrip().startswith("::") for line in mutants(shop))
