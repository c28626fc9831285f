"""example_project as its users run it: green today, red on the broken version, able to notice and accept a change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import load_log
from pytest_loom.flow.normal import same_recording

EXAMPLE = Path(__file__).resolve().parent.parent / "example_project"
V2 = ("-o", "loom_flows=refund_desk_v2.contracts:flows")
RUNS = {
    "refund-approved": ("refund-1001", "completed"),
    "refund-declined": ("refund-1002", "completed"),
    "refund-waiting": ("refund-1003", "suspended"),
    "refund-retried": ("refund-1004", "completed"),
    "refund-crashed": ("refund-1005", "running"),
    "chargeback-polling": ("chargeback-1006", "suspended"),
}


class Project:
    """A copy of the example in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "example_project"
        shutil.copytree(EXAMPLE, self.path, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))

    def python(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run this interpreter, with no more plugins than a user of the example has."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST_", "LOOM_")) and name != "CI"
        }
        clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        clean["PYTHONDONTWRITEBYTECODE"] = "1"  # or Python takes the bytecode of what a file was a moment ago
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=folder or self.path.parent, env=clean, capture_output=True, text=True, timeout=120
        )

    def pytest(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run pytest on the example from the folder above it, as the README does."""
        plugins = ("-p", "pytest_loom.plugin", "-p", "syrupy", "-p", "no:cacheprovider")
        return self.python("-m", "pytest", *plugins, "example_project", *options)

    def change(self, name: str, old: str, new: str) -> None:
        """Change a file of the application."""
        file = self.path / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def logs(self) -> dict[str, bytes]:
        """Every golden log's bytes, by the name of its file."""
        return {file.name: file.read_bytes() for file in sorted((self.path / "tests" / "logs").rglob("*.json*"))}

    def recordings(self) -> dict[str, bytes]:
        """What ``loom.record`` wrote, by folder and name."""
        folder = self.path / "tests" / "logs"
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.glob("test_*/*")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The example, free to be changed."""
    return Project(tmp_path)


def report(project: Project) -> dict[str, Any]:
    """The report that the last run wrote."""
    data: dict[str, Any] = json.loads((project.path.parent / "report.json").read_bytes())
    return data


def numbers(data: dict[str, Any]) -> tuple[int, int]:
    """How many runs were looked at, and how many of them are not over."""
    return data["summary"]["runs"], data["summary"]["in_flight"]


def test_green(project: Project) -> None:
    """Today's code passes every test and may be deployed, while five runs are on their way."""
    run = project.pytest("--loom-deploy-sim", "--loom-report=report.json")
    assert run.returncode == 0, run.stdout
    assert (report(project)["ok"], *numbers(report(project))) == (True, 12, 5)
    assert {found["code"] for found in report(project)["findings"]} == {"suspended-carryover"}


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "two workers"])
def test_red_with_version_2(project: Project, workers: tuple[str, ...]) -> None:
    """The renamed step is found in every refund, the missing flow in the chargeback, with and without pytest-xdist."""
    run = project.pytest("--loom-deploy-sim", "--loom-report=report.json", *V2, *workers)
    assert run.returncode == 1
    assert "NOT SAFE TO DEPLOY: 7 of 12 runs would break" in run.stdout
    assert "Was it renamed to assess_risk?" in " ".join(run.stdout.split())
    breaking = [found for found in report(project)["findings"] if found["severity"] == "breaking"]
    assert Counter((found["code"], found["workflow_id"], found["step"]) for found in breaking) == {
        ("flow-missing", "chargeback", None): 1,
        ("step-removed", "refund", "assess"): 6,
    }


def test_green_on_two_workers(project: Project) -> None:
    """pytest-xdist changes nothing about the verdict."""
    run = project.pytest("--loom-deploy-sim", "--loom-report=report.json", "-p", "xdist", "-n", "2")
    assert run.returncode == 0, run.stdout
    assert (report(project)["ok"], *numbers(report(project))) == (True, 12, 5)


def test_what_the_red_report_says_is_true(project: Project) -> None:
    """Resumed by version 2, the waiting refund is assessed a second time, as the finding says; by version 1 not."""
    script = """
import sys
from importlib import import_module
from pytest_loom import LogBuilder, load_log
from refund_desk.runtime import Clock, Desk
from refund_desk.shop import Shop

past = load_log("tests/logs/refund-waiting.loom.jsonl")
desk = Desk(import_module(sys.argv[1]).FLOWS, Shop(), Clock())
desk.notes[past.execution_id] = LogBuilder(past.execution_id, past.workflow_id)
desk.notes[past.execution_id].events += past.events
desk.answer(past.execution_id, "RefundDecided", {"approved": True, "by": "mia"})
later = desk.log(past.execution_id).events[len(past) :]
print(*[event.payload["stepId"] for event in later if event.event_type == "STEP_STARTED"])
"""
    resumed = {
        module: project.python("-c", script, module, folder=project.path).stdout.split()
        for module in ("refund_desk.desk", "refund_desk_v2.desk")
    }
    assert resumed == {"refund_desk.desk": ["pay", "notify"], "refund_desk_v2.desk": ["assess_risk", "pay", "notify"]}


def test_goldens_are_made_anew_byte_for_byte(project: Project, tmp_path: Path) -> None:
    """make_logs.py gives the committed files, each in the shape that its name says."""
    made = tmp_path / "made"
    run = project.python("make_logs.py", str(made), folder=project.path)
    assert run.returncode == 0, run.stderr
    committed = {file.name: file.read_bytes() for file in (project.path / "tests" / "logs").glob("*.loom.jsonl")}
    assert {file.name: file.read_bytes() for file in made.iterdir()} == committed
    states = {name: load_log(made / f"{name}.loom.jsonl").state for name in RUNS}
    assert {name: (state.execution_id, state.status) for name, state in states.items()} == RUNS
    assert len(committed) == len(RUNS)
    assert states["refund-retried"].frames["pay"].attempts == 2
    assert states["refund-crashed"].frames["pay"].status == "running"
    assert list(states["chargeback-polling"].frames) == ["contest", "poll", "poll#2", "poll#3"]
    assert states["refund-approved"].duration_ms > 47 * 3600 * 1000


def test_yesterdays_logs_are_made_anew(project: Project, tmp_path: Path) -> None:
    """Last week's code records what is committed as yesterday's runs, ids and times aside."""
    run = project.python("make_yesterday.py", str(tmp_path / "made"), folder=project.path)
    assert run.returncode == 0, run.stderr
    committed = EXAMPLE / "tests" / "logs" / "yesterday"
    made = {file.name: load_log(file) for file in (tmp_path / "made").iterdir()}
    assert made.keys() == {file.name for file in committed.iterdir()}
    assert all(same_recording(log, load_log(committed / name)) for name, log in made.items())


def test_yesterdays_runs_are_red_for_the_one_that_has_to_be_asked_again(project: Project) -> None:
    """A simulation lets the migrated runs pass, and stops at the approval of what deploy no longer is."""
    run = project.pytest(
        "--loom-deploy-sim", "-o", "loom_logs=tests/logs/yesterday/*.loom.jsonl", "--loom-report=report.json"
    )
    assert run.returncode == 1
    assert {one["execution_id"]: one["verdict"] for one in report(project)["runs"]} == {
        "release-41": "migrate",
        "release-42": "migrate",
        "release-43": "reapprove",
    }


def test_a_changed_behaviour_is_told_and_can_be_accepted(project: Project) -> None:
    """A letter in other words fails the goldens with that step's text; --snapshot-update rewrites just those files."""
    project.change("refund_desk/desk.py", "your refund was", "the refund is")
    before = project.logs()
    run = project.pytest("-vv")
    assert run.returncode == 1
    for line in (
        "refund/refund-1004: 1 difference from the golden run, in step notify",
        'golden "Order 1004: your refund was paid."',
        'candidate "Order 1004: the refund is paid."',
        "--snapshot-update",
    ):
        assert line in " ".join(run.stdout.split())
    after = project.logs()
    assert {name: data for name, data in after.items() if not name.endswith(".new")} == before, (
        "goldens stay as they are"
    )
    assert {name.removesuffix(".new") for name in after.keys() - before.keys()} == {
        "refund-approved.loom.jsonl",
        "refund-declined.loom.jsonl",
        "refund-retried.loom.jsonl",
    }, "candidates wait for review"

    accepted = project.pytest("--snapshot-update")
    assert accepted.returncode == 0, accepted.stdout
    changed = {name for name, data in project.logs().items() if data != before[name]}
    assert changed == {"refund-approved.loom.jsonl", "refund-declined.loom.jsonl", "refund-retried.loom.jsonl"}
    assert all(name in accepted.stdout for name in changed)
    assert project.logs().keys() == before.keys()
    again = project.pytest("--loom-deploy-sim")
    assert again.returncode == 0, again.stdout


def test_a_dropped_approval_is_told(project: Project) -> None:
    """A higher limit would pay the waiting refund without asking: the golden that waits says so."""
    project.change("refund_desk/shop.py", "> 50_000", "> 95_000")
    run = project.pytest("-k", "refunds_are_as_recorded", "-vv")
    assert run.returncode == 1
    assert "1 failed, 4 passed" in run.stdout
    assert "status suspended -> completed" in " ".join(run.stdout.split())


def test_contracts_are_made_of_the_code(project: Project) -> None:
    """A step that is missing among a flow's declared ones is an error at once, so the contract cannot lag behind."""
    project.change("refund_desk/desk.py", "(inspect, assess, pay, notify)", "(inspect, assess, pay)")
    run = project.pytest("--loom-deploy-sim")
    assert run.returncode == 1
    assert "notify is not among the steps that the flow declares" in run.stdout
    assert "step notify has run, but today's refund has no such step" in " ".join(run.stdout.split())


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "two workers"])
def test_recordings_are_made_anew(project: Project, workers: tuple[str, ...]) -> None:
    """Without its recording a test fails and says what makes it; made anew, all but ids and times is as committed."""
    committed = project.recordings()
    assert len(committed) == 9
    for name in committed:
        (project.path / "tests" / "logs" / name).unlink()
    missing = project.pytest("-m", "not loom", "-k", "answers or approved", *workers)
    assert missing.returncode == 1
    assert "test_flows.py::test_approved --snapshot-update" in missing.stdout
    assert project.recordings() == {}
    run = project.pytest("-m", "not loom", "--snapshot-update", *workers)
    assert run.returncode == 0, run.stdout
    assert "accepted 9 golden logs" in run.stdout
    made = project.recordings()
    assert made.keys() == committed.keys()
    folder = Path("example_project/tests/logs")
    for name in made:
        again, golden = (load_log(base / folder / name) for base in (project.path.parent, EXAMPLE.parent))
        assert same_recording(again, golden), name


def test_recording_again_leaves_the_files_alone(project: Project) -> None:
    """What did not change is recorded anew without a changed byte."""
    before = project.recordings()
    run = project.pytest("--snapshot-update")
    assert run.returncode == 0, run.stdout
    assert "accepted" not in run.stdout
    assert project.recordings() == before


def test_nothing_runs_in_a_replay(project: Project) -> None:
    """With a bank, a model and tools that would fail at once, payouts and agent are replayed as before."""
    for name, line in {
        "payout.py": '    return f"receipt-{order.seller}"',
        "helpdesk.py": '    return f"refund-{order}"',
    }.items():
        project.change(f"refund_desk/{name}", line, '    raise OSError("called")')
    project.change(
        "refund_desk/helpdesk.py", "    order = re.search", '    raise OSError("called")\n    order = re.search'
    )
    run = project.pytest(
        "-k", "flows or helpdesk", "--deselect", "example_project/tests/test_flows.py::test_had_the_human_said_no"
    )
    assert run.returncode == 0, run.stdout
    before = project.recordings()
    live = project.pytest("-k", "helpdesk", "--snapshot-update")
    assert "4 failed" in live.stdout
    assert project.recordings() == before, "of a test that failed nothing is kept"


def test_an_edited_prompt_is_told_and_can_be_accepted(project: Project) -> None:
    """Another prompt fails each answer at its first question to the model; recorded anew, only those files change."""
    project.change("refund_desk/helpdesk.py", "You answer", "Today you answer")
    before = project.recordings()
    run = project.pytest("-k", "helpdesk")
    assert run.returncode == 1
    assert "4 failed" in run.stdout
    assert 'today "Today you answer the customers' in run.stdout
    assert project.recordings() == before, "a plain run must write nothing"
    accepted = project.pytest("--snapshot-update")
    assert accepted.returncode == 0, accepted.stdout
    after = project.recordings()
    assert {name for name in after if after[name] != before[name]} == {
        name for name in before if name.startswith("test_helpdesk/")
    }
    assert project.pytest().returncode == 0


def test_a_call_past_the_tools_is_refused(project: Project) -> None:
    """An agent that reaches out on its own is caught, though it swallows the error and answers as before."""
    peek = """    try:
        __import__("socket").create_connection(("127.0.0.1", 9))
    except Exception:
        pass
    for _ in range(MAX_TURNS):"""
    project.change("refund_desk/helpdesk.py", "    for _ in range(MAX_TURNS):", peek)
    run = project.pytest("-k", "helpdesk")
    assert run.returncode == 1
    assert "4 failed" in run.stdout
    assert "LiveCallError" in run.stdout
    assert "answer tried to connect to 127.0.0.1:9 during replay" in run.stdout


def test_a_payout_that_does_not_ask_any_more_is_told(project: Project) -> None:
    """A higher limit would pay high sums without a human: the recordings that wait for one say so."""
    project.change("refund_desk/payout.py", "amount > LIMIT", "amount > 2 * LIMIT")
    run = project.pytest("-k", "test_approved and not every")
    assert run.returncode == 1
    assert "where the golden run had gate PayoutDecided" in run.stdout


def test_no_mutant_survives(project: Project) -> None:
    """Whatever is changed in the goldens and in today's flows, a test or the simulation notices; no file is touched."""
    before = {file: file.read_bytes() for file in project.path.rglob("*") if file.is_file()}
    run = project.pytest("--loom-mutate", "--loom-report=report.json")
    assert run.returncode == 0, run.stdout
    mutants = report(project)["mutants"]
    assert (mutants["survivors"], mutants["blind_tests"], mutants["unsteady_tests"]) == ([], [], [])
    idle = {name for name, row in mutants["operators"].items() if not row["killed"]}
    assert idle == {"widen-tool"}, "nobody is asked about the one tool of a flow that waits"
    assert {one["operator"] for one in mutants["equivalent"]} == {"swap-steps", "widen-tool", "narrow-schema"}
    assert {file: file.read_bytes() for file in project.path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    ("file", "assertion", "survives"),
    [
        ("test_goldens.py", ', compare="all"', "change-input"),
        ("test_flows.py", "            assert rerun_step(loom_golden, work.id, work) == []\n", "change-output"),
        (
            "test_yesterday.py",
            '    assert {call.output for call in state.calls} <= {"deployed to staging"}\n',
            "change-output",
        ),
    ],
)
def test_a_deleted_assertion_lets_mutants_survive(project: Project, file: str, assertion: str, survives: str) -> None:
    """A test that looks at less is told, with what it does not see any more."""
    project.change(f"tests/{file}", assertion, "            pass\n" if assertion.startswith("     ") else "")
    run = project.pytest("--loom-mutate", "--loom-report=report.json", "-k", "not scores")
    assert run.returncode == 1, run.stdout
    survivors = report(project)["mutants"]["survivors"]
    assert {one["operator"] for one in survivors} >= {survives}
    assert any(f"tests/{file}::" in nodeid for one in survivors for nodeid in one["looked"])
    assert "SURVIVED" in run.stdout


def test_a_test_that_asserts_nothing_is_told(project: Project) -> None:
    """Where other tests notice all the same, the one whose assertion is gone is called blind."""
    project.change("tests/test_snapshots.py", "assert candidate == loom_snapshot", "assert candidate")
    run = project.pytest("--loom-mutate", "--loom-report=report.json", "--snapshot-warn-unused")
    assert run.returncode == 1, run.stdout
    blind = report(project)["mutants"]["blind_tests"]
    assert len(blind) == 6
    assert all("test_every_run_comes_to_the_same" in nodeid for nodeid in blind)
