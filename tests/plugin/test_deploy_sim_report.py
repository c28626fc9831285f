"""What a session makes of ``--loom-deploy-sim``: verdicts, scope, acknowledged findings, reports, no trace."""

from __future__ import annotations

import json
import os
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
REPORT = "--loom-report=report.json"
PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR
STRATEGIES = ("compatible-window", "pinned-workers", "explicit-migration", "fail-closed")
TEST = "def test_plain():\n    pass\n"


class TestJudgement:
    def test_a_broken_log_beside_good_ones(self, three: Desk) -> None:
        """A damaged file is red by name and line, and the others are judged."""
        with (three.path / "logs/a.loom.jsonl").open("a") as stream:
            stream.write('{"executionId": "r-1", "workfl')
        three.write("logs/d.loom.jsonl", "")
        assert three(SIM, REPORT) == FAILED
        assert three.counts == {"failed": 3, "passed": 2}
        assert [(found["code"], found["source"]) for found in three.report["findings"]] == [
            ("log-unreadable", "logs/d.loom.jsonl"),
            ("log-unreadable", "logs/a.loom.jsonl:5"),
            ("step-removed", "logs/b.loom.jsonl"),
        ]

    def test_a_failure_stands_alone(self, three: Desk) -> None:
        """The failed item says what would break and where, without our own code; the rest is in the section."""
        assert three(SIM) == FAILED
        lines = three.result.outlines
        start = next(number for number, line in enumerate(lines) if "b.loom.jsonl::deploy-sim ___" in line)
        assert lines[start + 1 : start + 5] == [
            "step-removed: refund, step gone",
            "  step gone has run, but today's refund has no such step: its recorded result is",
            "  orphaned and the work would be done again, live.",
            "================ pytest-loom: deploy simulation of 3 log files =================",
        ]

    def test_a_teardown_that_fails(self, three: Desk) -> None:
        """A log whose fixtures break afterwards has failed, so the report is not ok although nothing was found."""
        three.ini("loom_logs = logs/a.*")
        three.write(
            "conftest.py",
            "import app, pytest\n\n@pytest.fixture\ndef loom_flows():\n    yield app.flows\n"
            "    raise RuntimeError('late')\n",
        )
        assert three(SIM, REPORT) == FAILED
        assert three.report["ok"] is False

    def test_only_warnings(self, desk: Desk) -> None:
        """A run that waits is worth a look, and the session passes."""
        desk.log("logs/a.loom.jsonl", "r-1", "assess", status="suspended")
        assert desk(SIM, REPORT) == PASSED
        assert (desk.report["ok"], desk.report["summary"]["warnings"]) == (True, 1)
        assert desk.report["runs"] == [
            {
                "execution_id": "r-1",
                "workflow_id": "refund",
                "status": "suspended",
                "verdict": "resume",
                "source": "logs/a.loom.jsonl",
                "strategies": dict.fromkeys(STRATEGIES, "resume"),
            }
        ]

    @pytest.mark.parametrize(
        ("scope", "runs"), [("auto", ["r-2", "r-3"]), ("all", ["r-2", "r-3"]), ("in-flight", ["r-3"])]
    )
    def test_scope_of_kept_files(self, three: Desk, scope: str, runs: list[str]) -> None:
        """All runs of a kept file count, unless only the unfinished ones are asked for."""
        three.log("logs/c.loom.jsonl", "r-3", "gone", status="running")
        assert three(SIM, REPORT, f"--loom-scope={scope}") == FAILED
        assert [found["execution_id"] for found in three.report["findings"]] == runs

    @pytest.mark.parametrize(
        ("scope", "status", "runs"),
        [("auto", FAILED, ["r-2"]), ("all", FAILED, ["r-1", "r-2"]), ("in-flight", FAILED, ["r-2"])],
    )
    def test_scope_of_a_live_store(self, desk: Desk, scope: str, status: int, runs: list[str]) -> None:
        """Of a running store only unfinished runs count, unless all are asked for."""
        live_store(desk, {"r-1": "completed", "r-2": "running"})
        assert desk(SIM, REPORT, f"--loom-scope={scope}") == status
        assert [found["execution_id"] for found in desk.report["findings"]] == runs

    def test_a_live_store_without_unfinished_runs(self, desk: Desk) -> None:
        """Nothing in flight is green, and said."""
        live_store(desk, {"r-1": "completed", "r-2": "completed"})
        assert desk(SIM, REPORT) == PASSED
        assert (desk.report["ok"], desk.report["summary"]["runs"], desk.report["summary"]["out_of_scope"]) == (
            True,
            0,
            2,
        )
        assert desk.section[1] == "no unfinished run, so nothing can break, 2 finished left out"


def live_store(desk: Desk, runs: dict[str, str]) -> None:
    """A store with a source of its own, whose runs use a step that is gone."""
    desk.write("runs.store", json.dumps(runs))
    desk.ini("loom_logs = *.store")
    desk.write(
        "conftest.py",
        """
import json
from pytest_loom import LogBuilder

class Store:
    name, engine, live, suffixes = "store", "journal", True, (".store",)

    def sniff(self, path, head):
        return path.name.endswith(".store")

    def read(self, path):
        for execution_id, status in json.loads(path.read_text()).items():
            made = LogBuilder(execution_id, "refund", path=str(path))
            made.add("EXECUTION_STARTED", {}, timestamp=0)
            made.add("STEP_STARTED", {"stepId": "gone"}, timestamp=1)
            if status == "completed":
                made.add("EXECUTION_COMPLETED", {}, timestamp=2)
            yield made.log()

def pytest_loom_sources(config):
    return [Store()]
""",
    )


class TestAcknowledged:
    @staticmethod
    def acks(desk: Desk, days: int, **other: str) -> None:
        """Acknowledge the step that is gone, until some days from now."""
        facts = {"code": "step-removed", "flow": "refund", "owner": "ann", "reason": "by hand", **other}
        lines = [f'{key} = "{value}"' for key, value in facts.items()]
        desk.write("acks.toml", "\n".join(["[[ack]]", *lines, f"expires = {date.today() + timedelta(days)}"]))
        desk.ini("loom_acks = acks.toml")

    def test_until_tomorrow(self, three: Desk) -> None:
        """The session passes; the finding stays visible in the terminal and in the report."""
        self.acks(three, 1)
        assert three(SIM, REPORT) == PASSED
        (found,) = three.report["findings"]
        assert found["severity"] == "breaking"
        assert found["acknowledged"].startswith("ann until ")
        assert three.report["summary"] == {**three.report["summary"], "breaking": 0, "acknowledged": 1}
        assert three.section[1] == "acknowledged  step-removed  refund, step gone"

    def test_until_today(self, three: Desk) -> None:
        """On its date the finding is red again, and says why."""
        self.acks(three, 0)
        assert three(SIM, REPORT) == FAILED
        assert "Acknowledged by ann until" in three.report["findings"][0]["message"]
        assert "acknowledged" not in three.report["findings"][0]

    def test_another_finding_is_still_red(self, three: Desk) -> None:
        """An acknowledgement covers what it names and nothing else."""
        self.acks(three, 9, step="gone")
        three.log("logs/a.loom.jsonl", "r-1", "lost")
        assert three(SIM, REPORT) == FAILED
        assert [("acknowledged" in found) for found in three.report["findings"]] == [False, True]

    @pytest.mark.parametrize("text", ["[[ack]]\ncode = 1\n", "[[ack]", None], ids=["shape", "syntax", "missing"])
    def test_a_malformed_file(self, three: Desk, text: str | None) -> None:
        """It is one error at the start, before any log is judged, and not one for each log."""
        three.ini("loom_acks = acks.toml")
        if text is not None:
            three.write("acks.toml", text)
        assert three(SIM) == USAGE
        (line,) = [line for line in three.result.errlines if line.startswith("ERROR")]
        assert line.startswith(f"ERROR: loom_acks: {three.path}/acks.toml: ")
        three.result.stdout.no_fnmatch_line("*collected*")

    def test_the_file_is_not_read_without_need(self, three: Desk) -> None:
        """Only a simulation has findings to acknowledge."""
        three.ini("loom_acks = nowhere.toml")
        assert three() == PASSED


class TestReports:
    def test_several(self, three: Desk) -> None:
        """Each --loom-report is written, with the same content, and its path is shown."""
        assert three(SIM, "--loom-report=one.json", "--loom-report", "out/two.json") == FAILED
        one, two = ((three.path / name).read_bytes() for name in ("one.json", "out/two.json"))
        assert one == two
        assert three.section[-2:] == ["report: one.json", "report: out/two.json"]

    def test_what_is_in_it(self, three: Desk) -> None:
        """The schema of DESIGN section 7, with what this session has found."""
        assert three(SIM, REPORT) == FAILED
        report = three.report
        assert list(report) == ["ok", "schema", "summary", "notes", "contracts", "findings", "runs"]
        assert (report["ok"], report["schema"]) == (False, 1)
        assert report["summary"] == {
            "runs": 3,
            "in_flight": 0,
            "out_of_scope": 0,
            "breaking": 1,
            "acknowledged": 0,
            "warnings": 0,
            "infos": 0,
            "logs": 3,
            "not_judged": 0,
            "strategies": {},
        }
        assert [(run["execution_id"], run["status"], run["verdict"]) for run in report["runs"]] == [
            ("r-2", "completed", "fork")
        ]

    def test_what_was_deployed_before(self, desk: Desk) -> None:
        """Beside a captured contract the changes are shown once, and what each strategy makes of the runs."""
        for number in (1, 2):
            desk.log(f"logs/{number}.loom.jsonl", f"r-{number}", "assess", status="suspended")
        assert desk(SIM, "--snapshot-update", "-p", "syrupy") == PASSED
        desk.ini("loom_flows = app:renamed")
        desk.write("pytest.ini", (desk.path / "pytest.ini").read_text().replace("loom_flows = app:flows\n", ""))
        assert desk(SIM, REPORT) == FAILED
        (changed,) = desk.report["contracts"]
        assert (changed["workflow_id"], changed["runs"], changed["unmoved"]) == ("refund", 2, [])
        assert [change["detail"] for change in changed["changes"] if change["effect"] == "breaking"] == [
            "step assess is gone"
        ]
        assert desk.report["summary"]["strategies"] == {
            "compatible-window": {"go_on": 0, "need_a_person": 2, "stranded": 0},
            "pinned-workers": {"go_on": 0, "need_a_person": 0, "stranded": 2},
            "explicit-migration": {"go_on": 0, "need_a_person": 2, "stranded": 0},
            "fail-closed": {"go_on": 0, "need_a_person": 2, "stranded": 0},
        }
        assert [line for line in desk.section if line.startswith("contract ")] == [
            f"contract  refund {changed['was'][:8]} -> {changed['now'][:8]}, 2 unfinished runs"
        ]
        start = desk.section.index("strategies for 2 unfinished runs:")
        assert [line.split() for line in desk.section[start + 2 : start + 6]] == [
            [name, *map(str, row.values())] for name, row in desk.report["summary"]["strategies"].items()
        ]
        assert desk(SIM, "-q") == FAILED
        assert not any(line.startswith(("contract ", "strategies ")) for line in desk.section)

    def test_an_unknown_suffix(self, three: Desk) -> None:
        """The form is told by the suffix: one that means nothing is a usage error before anything runs."""
        assert three(SIM, "--loom-report=report.xls") == USAGE
        three.result.stderr.fnmatch_lines(
            ["ERROR: --loom-report=report.xls: the form is told by the suffix, one of *.json, .md, *"]
        )

    def test_one_that_cannot_be_written(self, desk: Desk) -> None:
        """A session whose report could not be written is not green: whoever reads it would see an old one."""
        desk.log("logs/a.loom.jsonl")
        assert desk(SIM, "--loom-report=/proc/none/report.json") == FAILED
        assert desk.section[-1].startswith("ERROR: the report /proc/none/report.json could not be written: ")

    def test_without_a_simulation(self, three: Desk) -> None:
        """There is nothing to report on: whoever waits for the file is told so at once."""
        assert three(REPORT) == USAGE
        three.result.stderr.fnmatch_lines(
            ["*--loom-report writes what a deploy simulation found*--loom-deploy-sim too"]
        )
        assert not (three.path / "report.json").exists()

    def test_a_usage_error_is_not_green(self, three: Desk) -> None:
        """A run that never began must not leave the green report of an earlier one standing."""
        three.write("report.json", '{"ok": true}')
        assert three(SIM, REPORT, "no_such_folder") == USAGE
        assert three.report["ok"] is False

    def test_collection_errors_are_not_green(self, three: Desk) -> None:
        """A test file that does not import interrupts the session: no log is judged, and the report says so."""
        three.write("test_broken.py", "import no_such_module\n")
        three.ini("loom_logs = logs/a.*")
        assert three(SIM, REPORT) == pytest.ExitCode.INTERRUPTED
        assert (three.report["ok"], three.report["summary"]["not_judged"]) == (False, 1)
        assert three(SIM, REPORT, "--continue-on-collection-errors") == FAILED
        assert (three.report["ok"], three.report["summary"]["not_judged"]) == (True, 0)

    def test_an_interrupt_is_not_green(self, three: Desk) -> None:
        """Ctrl-C after some logs leaves the others unjudged."""
        three.ini("loom_logs = logs/a.*\n    logs/c.*")
        three.write(
            "conftest.py",
            "def pytest_runtest_setup(item):\n    if 'c.loom' in item.nodeid:\n        raise KeyboardInterrupt\n",
        )
        assert three.apart(SIM, REPORT) == pytest.ExitCode.INTERRUPTED
        assert (three.report["ok"], three.report["summary"]["logs"], three.report["summary"]["not_judged"]) == (
            False,
            2,
            1,
        )


class TestTraces:
    def test_a_plain_run_writes_nothing(self, three: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither a simulation nor a run with goldens leaves a file of ours in the project."""
        three.write(
            "test_golden.py",
            "import pytest\n\n@pytest.mark.loom('logs/a.loom.jsonl')\ndef test_it(loom, loom_golden):\n"
            "    assert loom.diff(loom_golden, loom_golden) == []\n",
        )
        before = three.files()
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        assert three.apart(SIM) == FAILED
        assert three.files() == before

    def test_a_read_only_project(self, three: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where nothing can be written, all works that has no reason to write."""
        three.write("conftest.py", READ_ONLY)
        three.write(
            "test_golden.py",
            "import pytest\n\n@pytest.mark.loom('logs/a.loom.jsonl')\ndef test_it(loom, loom_golden):\n"
            "    assert loom.diff(loom_golden, loom_golden) == []\n",
        )
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        assert three.apart(SIM) == FAILED
        assert three.counts == {"failed": 1, "passed": 4}


READ_ONLY = """
import builtins, errno, os, pathlib, tempfile

def refuse(*args, **options):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))

def pytest_configure(config):
    real = builtins.open
    def guarded(file, mode="r", *args, **options):
        if set(mode) & set("wax+") and str(file) != os.devnull:
            refuse()
        return real(file, mode, *args, **options)
    builtins.open = guarded
    for name in ("mkdir", "makedirs", "replace", "rename"):
        setattr(os, name, refuse)
    tempfile.mkstemp = refuse
"""


def test_a_folder_of_logs_is_walked_once(desk: Desk) -> None:
    """Logs outside of what was named cost one look at their folder, not one for each of them."""
    for number in range(10):
        desk.log(f"logs/{number}.loom.jsonl")
    desk.write("test_plain.py", TEST)
    desk.write(
        "conftest.py",
        "def pytest_collect_file(file_path):\n    with open('looked.txt', 'a') as stream:\n"
        "        stream.write(f'{file_path.name}\\n')\n",
    )
    assert desk(SIM, "test_plain.py") == PASSED
    looked = (desk.path / "looked.txt").read_text().split()
    assert sorted(name for name in looked if name.endswith(".loom.jsonl")) == [
        f"{number}.loom.jsonl" for number in range(10)
    ]


def test_ten_logs_are_opened_once_each(desk: Desk) -> None:
    """A log is read when its item runs, and not while tests are collected."""
    for number in range(10):
        desk.log(f"logs/{number}.loom.jsonl")
    desk.write(
        "conftest.py",
        "from pytest_loom.sources import loom\nreal = loom.LoomSource.read_wanted\n\ndef read(self, path, *more):\n"
        "    open('opened.txt', 'a').write(f'{path}\\n')\n    return real(self, path, *more)\n\n"
        "loom.LoomSource.read_wanted = read\n",
    )
    assert desk.apart(SIM, "--collect-only") == PASSED
    assert not (desk.path / "opened.txt").exists()
    assert desk.apart(SIM) == PASSED
    assert sorted((desk.path / "opened.txt").read_text().split()) == [
        os.path.join("logs", f"{number}.loom.jsonl") for number in range(10)
    ]


def test_paths_are_those_of_the_platform(desk: Desk) -> None:
    """The source of a finding is a path that can be opened from where pytest was started."""
    file = desk.log("logs/a.loom.jsonl", "r-1", "gone")
    assert desk(SIM, REPORT) == FAILED
    assert (desk.path / Path(desk.report["findings"][0]["source"])).samefile(file)
