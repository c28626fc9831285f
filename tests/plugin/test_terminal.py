"""What a deploy simulation prints, at 80 columns, word for word: it has to be understood in ten seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
RENAMED = "loom_flows=app:renamed"
PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED


def printed(desk: Desk) -> str:
    """The run's output from the first failure (else from pytest-loom's section) up to pytest's last line."""
    lines = desk.result.outlines
    begins = ("= FAILURES =", "= ERRORS =", "= pytest-loom")
    start = next((number for number, line in enumerate(lines) if any(begin in line for begin in begins)), len(lines))
    return "\n".join(["", *lines[start:-1], ""])


def test_green(desk: Desk) -> None:
    """All is well, and one run is on its way."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.log("logs/b.loom.jsonl", "r-2", "assess", status="running")
    assert desk(SIM) == PASSED
    assert (
        printed(desk)
        == """
================ pytest-loom: deploy simulation of 2 log files =================
no breaking change found for 2 runs, 1 of them unfinished
"""
    )


@pytest.mark.parametrize("option", ["-q", "-v"])
def test_green_quiet_and_verbose(desk: Desk, option: str) -> None:
    """The verdict is there at every verbosity."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    assert desk(SIM, option) == PASSED
    assert (
        printed(desk)
        == """
================= pytest-loom: deploy simulation of 1 log file =================
no breaking change found for 1 run, none of them unfinished
"""
    )


def test_red(desk: Desk) -> None:
    """One log is red: its failure says what would break, the section for whom, what to do, and the verdict."""
    desk.log("logs/a.loom.jsonl", "r-1", "pay")
    desk.log("logs/b.loom.jsonl", "refund-4999", "assess", "pay", status="suspended")
    assert desk(SIM, "-o", RENAMED) == FAILED
    assert (
        printed(desk)
        == """
=================================== FAILURES ===================================
___________________________ b.loom.jsonl::deploy-sim ___________________________
step-removed: refund, step assess
  step assess has run, but today's refund has no such step: its recorded result
  is orphaned and the work would be done again, live. Was it renamed to
  assess_risk?
================ pytest-loom: deploy simulation of 2 log files =================
breaking  step-removed  refund, step assess
  step assess has run, but today's refund has no such step: its recorded result
  is orphaned and the work would be done again, live. Was it renamed to
  assess_risk?
    refund-4999  logs/b.loom.jsonl
  -> Keep the step id assess, or let the old code finish these runs, or finish
     them by hand. If the step is there, what loom_flows says is out of date.
warning  suspended-carryover  refund
  waits for Approved (approval) and will be resumed by today's code.
    refund-4999  logs/b.loom.jsonl
  -> Look whether what it waits for still means the same to today's code.
what to paste for each way out: -v, or --loom-report=report.html
NOT SAFE TO DEPLOY: 1 of 2 runs would break, 1 warning
=========================== short test summary info ============================
FAILED logs/b.loom.jsonl::deploy-sim - Failed: step-removed: refund, step assess
"""
    )


def test_red_quiet(desk: Desk) -> None:
    """-q leaves out what is only worth a look."""
    desk.log("logs/a.loom.jsonl", "r-1", "pay", status="suspended")
    desk.log("logs/b.loom.jsonl", "r-2", flow="order")
    assert desk(SIM, "-q") == FAILED
    assert (
        printed(desk)
        == """
=================================== FAILURES ===================================
___________________________ b.loom.jsonl::deploy-sim ___________________________
flow-missing: order
  today's code has no flow order: its unfinished runs are stranded, nothing will
  pick them up.
================ pytest-loom: deploy simulation of 2 log files =================
breaking  flow-missing  order
  today's code has no flow order: its unfinished runs are stranded, nothing will
  pick them up.
    r-2  logs/b.loom.jsonl
  -> Keep order registered until its runs are over, or register it under its old
     id.
NOT SAFE TO DEPLOY: 1 of 2 runs would break, 1 warning
=========================== short test summary info ============================
FAILED logs/b.loom.jsonl::deploy-sim - Failed: flow-missing: order
"""
    )


VERBOSE = """
breaking  step-removed  refund, step assess, 4 runs
  step assess has run, but today's refund has no such step: its recorded result
  is orphaned and the work would be done again, live. Was it renamed to
  assess_risk?
    r-0  logs/0.loom.jsonl
      step assess completed, event 3 of 4
    r-1  logs/1.loom.jsonl
      step assess completed, event 3 of 4
    r-2  logs/2.loom.jsonl
      step assess completed, event 3 of 4
    r-3  logs/3.loom.jsonl
      step assess completed, event 3 of 4
  today: refund (contract be019b8b) has no step assess, but assess_risk, pay
  on resume: The recorded result is not used, and the work is done a second
    time.
  -> Keep the step id assess, or let the old code finish these runs, or finish
     them by hand. If the step is there, what loom_flows says is out of date.
  patch: Keep the step's id, in the code and in its contract:
       "steps": {"assess": {}, …}  # of "refund"
  accept: Accept it until a day, in the file of loom_acks:
       [[ack]]
       code = "step-removed"
       flow = "refund"
       step = "assess"
       owner = "you@example.org"
       reason = "why it may be"
       expires = YYYY-MM-DD
NOT SAFE TO DEPLOY: 4 of 4 runs would break
"""


def test_red_verbose(desk: Desk) -> None:
    """-v names every run, says what was recorded and what today's code has, and what to paste for each way out."""
    for number in range(4):
        desk.log(f"logs/{number}.loom.jsonl", f"r-{number}", "assess")
    assert desk(SIM, "-v", "-o", RENAMED, "--tb=no", "-r", "N") == FAILED
    assert printed(desk).partition("====\n")[2] == VERBOSE[1:]


@pytest.mark.parametrize(("option", "painted"), [("--color=yes", True), ("--color=no", False)])
def test_colour(desk: Desk, option: str, painted: bool) -> None:
    """Where pytest uses colours, the words that weigh have one, and nothing else."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess", status="suspended")
    assert desk(SIM, option, "-o", RENAMED) == FAILED
    words = ["breaking", "warning", "NOT SAFE TO DEPLOY"]
    section = "\n".join(desk.result.outlines).partition("deploy simulation of 1 log file ==")[2]
    lines = [line for line in section.splitlines() if line.partition("\x1b[0m")[0].lstrip("\x1b[0123456789m") in words]
    assert len(lines) == (3 if painted else 0)
    assert ("\x1b" in section.partition("short test summary")[0]) is painted


def test_only_warnings(desk: Desk) -> None:
    """Runs that wait are shown, those that wait for the same together."""
    for number in range(5):
        desk.log(f"logs/{number}.loom.jsonl", f"r-{number}", "assess", status="suspended")
    assert desk(SIM) == PASSED
    assert (
        printed(desk)
        == """
================ pytest-loom: deploy simulation of 5 log files =================
warning  suspended-carryover  refund, 5 runs
  waits for Approved (approval) and will be resumed by today's code.
    r-0  logs/0.loom.jsonl
    r-1  logs/1.loom.jsonl
    r-2  logs/2.loom.jsonl
    and 2 more (all are in the report: --loom-report=report.json)
  -> Look whether what it waits for still means the same to today's code.
no breaking change found for 5 runs, 5 of them unfinished, 5 warnings
"""
    )


def test_no_unfinished_run(desk: Desk) -> None:
    """Nothing in flight where only that counts is green, and said."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.log("logs/b.loom.jsonl", "r-2", "assess")
    assert desk(SIM, "--loom-scope=in-flight") == PASSED
    assert (
        printed(desk)
        == """
================ pytest-loom: deploy simulation of 2 log files =================
no unfinished run, so nothing can break, 2 finished left out
"""
    )


def test_acknowledged(desk: Desk) -> None:
    """What somebody accepted stays in sight, with who and why."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.ini("loom_acks = acks.toml")
    desk.write(
        "acks.toml",
        '[[ack]]\ncode = "step-removed"\nflow = "refund"\nowner = "ann@example.org"\nreason = "finished by hand"\n'
        "expires = 9999-01-31\n",
    )
    assert desk(SIM, "-o", RENAMED) == PASSED
    assert (
        printed(desk)
        == """
================= pytest-loom: deploy simulation of 1 log file =================
acknowledged  step-removed  refund, step assess
  step assess has run, but today's refund has no such step: its recorded result
  is orphaned and the work would be done again, live. Was it renamed to
  assess_risk?
    r-1  logs/a.loom.jsonl
      acknowledged by ann@example.org until 9999-01-31: finished by hand
  -> Keep the step id assess, or let the old code finish these runs, or finish
     them by hand. If the step is there, what loom_flows says is out of date.
no breaking change found for 1 run, none of them unfinished, 1 acknowledged
"""
    )


def test_an_acknowledgement_that_nothing_needs(desk: Desk) -> None:
    """A misspelt code, or one whose trouble is over, is noted after a whole simulation."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.ini("loom_acks = acks.toml")
    ack = '[[ack]]\ncode = "step-remvoed"\nflow = "refund"\nowner = "ann"\nreason = "later"\nexpires = 9999-01-31\n'
    desk.write("acks.toml", ack)
    assert desk(SIM) == PASSED
    assert "note: loom_acks: no finding is step-remvoed of flow refund" in printed(desk)
    desk.log("logs/b.loom.jsonl", "r-2", "assess")
    assert desk(SIM, "-k", "a.loom") == PASSED
    assert "note:" not in printed(desk)


def test_a_flow_that_says_nothing_of_its_steps(desk: Desk) -> None:
    """What was not looked at is said: it must not pass for what was found to be in order."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.write("bare.py", "flows = {'refund': {'workflowId': 'refund'}}\n")
    assert desk(SIM, "-o", "loom_flows=bare:flows") == PASSED
    assert "note: today's refund says nothing of its steps, so they were not looked at" in printed(desk)


RAISED = "AttributeError: module 'app' has no attribute 'Flows' (shop.py:3)"
FIFTY = """
breaking  step-removed  refund, step assess, 50 runs
  step assess has run, but today's refund has no such step: its recorded result
  is orphaned and the work would be done again, live. Was it renamed to
  assess_risk?
    r-00  logs/{0}.loom.jsonl
    r-01  logs/{1}.loom.jsonl
    r-02  logs/{2}.loom.jsonl
    and 47 more (all are in the report: --loom-report=report.json)
  -> Keep the step id assess, or let the old code finish these runs, or finish
     them by hand. If the step is there, what loom_flows says is out of date.
"""


def test_fifty_runs_of_one_file(desk: Desk) -> None:
    """One cause in one file is one paragraph: the number, and three of the runs."""
    for number in range(50):
        desk.log("logs/all.loom.jsonl", f"r-{number:02}", "assess", append=True)
    assert desk(SIM, "-o", RENAMED) == FAILED
    assert printed(desk) == (
        """
=================================== FAILURES ===================================
__________________________ all.loom.jsonl::deploy-sim __________________________
step-removed: refund, step assess, 50 runs
  step assess has run, but today's refund has no such step: its recorded result
  is orphaned and the work would be done again, live. Was it renamed to
  assess_risk?
================= pytest-loom: deploy simulation of 1 log file ================="""
        + FIFTY.format("all", "all", "all")
        + """\
what to paste for each way out: -v, or --loom-report=report.html
NOT SAFE TO DEPLOY: 50 of 50 runs would break
=========================== short test summary info ============================
FAILED logs/all.loom.jsonl::deploy-sim - Failed: step-removed: refund, step a...
"""
    )


def test_fifty_files(desk: Desk) -> None:
    """One cause over many files is one paragraph in pytest-loom's section."""
    for number in range(50):
        desk.log(f"logs/{number:02}.loom.jsonl", f"r-{number:02}", "assess")
    assert desk(SIM, "-o", RENAMED, "--tb=no", "-r", "N") == FAILED
    assert printed(desk) == (
        """
================ pytest-loom: deploy simulation of 50 log files ================"""
        + FIFTY.format("00", "01", "02")
        + "what to paste for each way out: -v, or --loom-report=report.html\n"
        "NOT SAFE TO DEPLOY: 50 of 50 runs would break\n"
    )


def test_what_cannot_begin(desk: Desk) -> None:
    """An application that does not import: the line that raised, and what to type."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.write("shop.py", "import app\n\nflows = app.Flows\n")
    assert desk(SIM, "-o", "loom_flows=shop:flows") == FAILED
    assert (
        printed(desk)
        == f"""
=================================== FAILURES ===================================
_______________________________ loom-deploy-sim ________________________________
deploy simulation: loom_flows = shop:flows: importing shop raised
    {RAISED}
  Try: python -c 'import shop'
  Not judged, therefore: logs/a.loom.jsonl
================= pytest-loom: deploy simulation of 1 log file =================
NOT JUDGED: 1 of 1 log file, see the failures above
=========================== short test summary info ============================
FAILED loom-deploy-sim - Failed: deploy simulation: loom_flows = shop:flows: ...
"""
    )


def test_a_broken_log(desk: Desk) -> None:
    """A log that cannot be read: what is wrong, in which line, and what it means for the deploy."""
    with desk.log("logs/a.loom.jsonl", "r-1", "assess", status="running").open("a") as stream:
        stream.write('{"executionId": "r-1", "workflowId": "ref')
    assert desk(SIM) == FAILED
    assert (
        printed(desk)
        == """
=================================== FAILURES ===================================
___________________________ a.loom.jsonl::deploy-sim ___________________________
log-unreadable: unknown flow
  the last line is cut off: this event was not written whole. Whether this run
  survives the deploy cannot be told.
    logs/a.loom.jsonl:4
================= pytest-loom: deploy simulation of 1 log file =================
breaking  log-unreadable  unknown flow
  the last line is cut off: this event was not written whole. Whether this run
  survives the deploy cannot be told.
    r-1  logs/a.loom.jsonl:4
  -> The writer died there. Restore the file, or delete that line if the event
     was never acknowledged.
what to paste for each way out: -v, or --loom-report=report.html
NOT SAFE TO DEPLOY: 1 of 1 run would break
=========================== short test summary info ============================
FAILED logs/a.loom.jsonl::deploy-sim - Failed: log-unreadable: unknown flow
"""
    )


def test_accepted_and_unused_goldens(desk: Desk) -> None:
    """Outside of a simulation the section is about goldens."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.log("logs/b.loom.jsonl", "r-2", "assess")
    desk.write(
        "test_it.py",
        "import pytest\nfrom pytest_loom import diff_runs, load_log\n\n@pytest.mark.loom('logs/a.loom.jsonl')\n"
        "def test_it(loom_golden, loom):\n    other = loom.load('other.loom.jsonl')\n"
        "    assert diff_runs(loom_golden, other) == []\n",
    )
    desk.log("other.loom.jsonl", "r-9", "pay")
    assert desk("--loom-update") == PASSED
    assert (
        printed(desk)
        == """
================================= pytest-loom ==================================
accepted 1 golden log; look at the change before you commit it:
  logs/a.loom.jsonl (changed: no step assess any more, which runs on their way may still have)
    step pay
      new  the step did not run -> "done"
    step assess
      missing  "done" -> the step did not run
1 golden log is used by no test (pytest-loom never deletes one):
  logs/b.loom.jsonl
"""
    )


def test_a_run_without_anything_of_ours(desk: Desk) -> None:
    """Who uses no loom feature sees nothing of pytest-loom."""
    desk.write("test_plain.py", "def test_plain():\n    pass\n")
    assert desk("-v") == PASSED
    assert printed(desk) == "\n"
    about = ("platform ", "rootdir: ", "plugins: ")  # name paths and plugins, whatever they are called
    assert not [line for line in desk.result.outlines if "loom" in line and not line.startswith(about)]
