"""The forms of a report as a session writes them: files by suffix, annotations of GitHub Actions, JUnit XML."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR
NAMES = ("report.json", "report.md", "report.sarif", "out/report.gitlab.json")
REPORTS = tuple(f"--loom-report={name}" for name in NAMES)


class TestFiles:
    def test_several_reports_in_one_run(self, three: Desk) -> None:
        """Each file has the form of its suffix, and all of them say the same."""
        assert three(SIM, *REPORTS) == FAILED
        written = {name: (three.path / name).read_text() for name in NAMES}
        assert json.loads(written["report.json"])["summary"]["breaking"] == 1
        assert written["report.md"].splitlines()[1] == "## NOT SAFE TO DEPLOY: 1 of 3 runs would break"
        (run,) = json.loads(written["report.sarif"])["runs"]
        (issue,) = json.loads(written["out/report.gitlab.json"])
        (result,) = run["results"]
        physical = result["locations"][0]["physicalLocation"]
        assert (result["ruleId"], issue["check_name"]) == ("step-removed", "step-removed")
        assert (physical["artifactLocation"]["uri"], physical["region"]["startLine"]) == ("logs/b.loom.jsonl", 5)
        assert issue["location"] == {"path": "logs/b.loom.jsonl", "lines": {"begin": 5}}
        assert [line for line in three.section if line.startswith("report: ")] == [
            f"report: {name.replace('/', os.sep)}" for name in NAMES
        ]

    def test_the_line_that_is_named(self, three: Desk) -> None:
        """The line of every form is the one of the log that tells of the step."""
        three(SIM, "--loom-report=report.json")
        (found,) = three.report["findings"]
        line = (three.path / found["source"]).read_text().splitlines()[found["line"] - 1]
        event = json.loads(line)
        assert (event["eventType"], event["payload"]["stepId"]) == ("STEP_COMPLETED", "gone")

    @pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
    def test_the_same_with_workers(self, three: Desk, workers: tuple[str, ...]) -> None:
        """pytest-xdist changes no byte of any form."""
        assert three.apart(SIM, *REPORTS, *workers, plugins=("xdist.plugin",)) == FAILED
        written = [(three.path / name).read_bytes() for name in NAMES]
        assert three(SIM, *REPORTS) == FAILED
        assert [(three.path / name).read_bytes() for name in NAMES] == written

    @pytest.mark.parametrize("suffix", ["json", "md", "sarif", "gitlab.json"])
    def test_one_that_cannot_be_written(self, desk: Desk, suffix: str) -> None:
        """It is said and the session is not green, while the other reports are written."""
        desk.log("logs/a.loom.jsonl")
        bad = f"/proc/none/report.{suffix}"
        assert desk(SIM, f"--loom-report={bad}", "--loom-report=report.json") == FAILED
        assert desk.section[-1].startswith(f"ERROR: the report {bad} could not be written: ")
        assert desk.report["summary"]["runs"] == 1

    def test_what_was_not_judged(self, three: Desk) -> None:
        """Where a test could not judge its log no form is green, though nothing was found."""
        three.ini("loom_logs = logs/a.*")
        three.write("conftest.py", "import pytest\n\n@pytest.fixture\ndef loom_flows():\n    raise OSError\n")
        assert three(SIM, *REPORTS) == FAILED
        said = "NOT JUDGED: 1 of 1 log file, see the failed tests"
        assert f"## {said}\n" in (three.path / "report.md").read_text()
        (run,) = json.loads((three.path / "report.sarif").read_bytes())["runs"]
        assert run["invocations"][0]["executionSuccessful"] is False
        (issue,) = json.loads((three.path / "out/report.gitlab.json").read_bytes())
        assert (issue["description"], issue["location"]["path"]) == (said, "pytest.ini")


class TestAnnotations:
    @pytest.fixture(autouse=True)
    def _on_github(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")

    @staticmethod
    def commands(desk: Desk) -> list[str]:
        """The lines of the output that the runner takes for commands."""
        return [line for line in desk.result.outlines if re.match(r"\s*::", line)]

    def test_in_the_terminal_summary(self, three: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error stands on the log's own line, named from the folder of the checkout."""
        monkeypatch.setenv("GITHUB_WORKSPACE", str(three.path.parent))
        assert three(SIM) == FAILED
        (command,) = self.commands(three)
        place = f"file={three.path.name}/logs/b.loom.jsonl,line=5"
        assert command.startswith(f"::error {place},title=step-removed%3A refund%2C step gone::step gone has run, but ")

    @pytest.mark.parametrize("options", [(), ("-q",), ("-qq",), ("-s",), ("--tb=no",), ("--color=yes",)])
    def test_whatever_is_shown(self, three: Desk, options: tuple[str, ...]) -> None:
        """Neither quiet nor coloured nor uncaptured output changes a command."""
        assert three(SIM, *options) == FAILED
        (command,) = self.commands(three)
        assert command.startswith("::error file=")

    def test_in_the_controller_of_xdist(self, three: Desk) -> None:
        """With workers the controller says it, once."""
        assert three.apart(SIM, "-n", "2", plugins=("xdist.plugin",)) == FAILED
        assert len(self.commands(three)) == 1

    def test_elsewhere(self, three: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """Outside of GitHub, and without a simulation, there is no command."""
        assert three() == PASSED
        assert self.commands(three) == []
        monkeypatch.delenv("GITHUB_ACTIONS")
        assert three(SIM) == FAILED
        assert self.commands(three) == []

    def test_one_for_a_cause(self, desk: Desk) -> None:
        """Fifty runs of one cause are one error, and what only waits is one warning."""
        for number in range(50):
            desk.log("logs/a.loom.jsonl", f"r-{number}", "assess", "gone", append=True)
        desk.log("logs/b.loom.jsonl", "r-w", "assess", status="suspended")
        assert desk(SIM) == FAILED
        assert [command.split(" ")[0] for command in self.commands(desk)] == ["::error", "::warning"]
        assert "%2C 50 runs::" in self.commands(desk)[0]

    def test_a_session_that_is_not_green(self, three: Desk) -> None:
        """A red job that found nothing says why, at the settings."""
        three.ini("loom_logs = none/*.loom.jsonl")
        assert three(SIM) == FAILED
        (command,) = self.commands(three)
        assert command == "::error file=pytest.ini,line=3,title=pytest-loom::NOT JUDGED: no log file was judged"

    def test_a_log_cannot_command(self, desk: Desk) -> None:
        """Text of a log at the start of a line, in failures and in the report, is no command to the runner."""
        name = "::add-mask::secret ##[error]x"
        desk.log("logs/a.loom.jsonl", name, "assess", name, flow="refund")
        desk.log("logs/b.loom.jsonl", name, "assess", "assess\n::debug::x", flow=name)
        assert desk(SIM, "-vv") == FAILED
        assert all(command.startswith("::error file=") for command in self.commands(desk))
        ours = [line for line in desk.result.outlines if "deploy-sim" not in line and not line.startswith("::error")]
        assert not any("##[" in line for line in ours)
        assert any("## [error]x" in line for line in ours)


class TestJUnit:
    @staticmethod
    def facts(desk: Desk) -> dict[str, Any]:
        """The property of each simulation, by the classname of its testcase."""
        found = {}
        for case in ET.parse(desk.path / "junit.xml").iter("testcase"):
            values = [item.get("value") for item in case.iter("property") if item.get("name") == "loom"]
            if "deploy-sim" in str(case.get("name")):
                (value,) = values
                found[str(case.get("classname"))] = json.loads(str(value))
            else:
                assert values == []
        return found

    def test_the_whole_property(self, three: Desk) -> None:
        """Verdict, numbers, verdicts of runs and codes, of each log file in the real XML."""
        three.log("logs/a.loom.jsonl", "r-9", "assess", status="suspended", append=True)
        assert three(SIM, "--junitxml=junit.xml") == FAILED
        facts = self.facts(three)
        assert list(facts) == ["logs.a.loom.jsonl", "logs.b.loom.jsonl", "logs.c.loom.jsonl"]
        none = {"runs": 1, "in_flight": 0, "out_of_scope": 0, "breaking": 0}
        none |= {"acknowledged": 0, "warnings": 0, "infos": 0}
        assert facts == {
            "logs.a.loom.jsonl": {
                **{"schema": 1, "ok": True, "verdict": "resume"},
                **none,
                **{"runs": 2, "in_flight": 1, "warnings": 1},
                "verdicts": {"resume": 1},
                "codes": {"suspended-carryover": 1},
            },
            "logs.b.loom.jsonl": {
                **{"schema": 1, "ok": False, "verdict": "fork"},
                **none,
                "breaking": 1,
                "verdicts": {"fork": 1},
                "codes": {"step-removed": 1},
            },
            "logs.c.loom.jsonl": {
                **{"schema": 1, "ok": True, "verdict": "resume"},
                **none,
                "verdicts": {},
                "codes": {},
            },
        }
        (failure,) = ET.parse(three.path / "junit.xml").iter("failure")
        assert "step gone has run" in (failure.text or "")

    @pytest.mark.parametrize("family", ["xunit1", "xunit2"])
    def test_the_same_with_workers_and_in_each_family(self, three: Desk, family: str) -> None:
        """What workers send to the controller is the same text, in both families of the XML."""
        three(SIM, "--junitxml=junit.xml")
        alone = self.facts(three)
        options = ("--junitxml=junit.xml", "-o", f"junit_family={family}", "-n", "2")
        assert three.apart(SIM, *options, plugins=("xdist.plugin",)) == FAILED
        assert self.facts(three) == alone

    def test_what_somebody_accepted(self, three: Desk) -> None:
        """An acknowledged finding is a number; its code is not among those that count, and the log is ok."""
        three.write(
            "acks.toml",
            '[[ack]]\ncode = "step-removed"\nflow = "refund"\nowner = "ann"\nreason = "r"\nexpires = 2999-01-01\n',
        )
        three.ini("loom_acks = acks.toml", "loom_logs = logs/b.*")
        assert three(SIM, "--junitxml=junit.xml") == PASSED
        (facts,) = self.facts(three).values()
        assert (facts["ok"], facts["acknowledged"], facts["breaking"], facts["codes"]) == (True, 1, 0, {})

    def test_what_could_not_be_judged(self, three: Desk) -> None:
        """A check that raises, and flows that cannot be imported, are not judged: as a property as well."""
        three.write("conftest.py", "def pytest_loom_checks(config):\n    return [lambda log, contract: 1 / 0]\n")
        three.ini("loom_logs = logs/a.*")
        assert three(SIM, "--junitxml=junit.xml") == FAILED
        not_judged = {"schema": 1, "ok": False, "verdict": "not-judged"}
        assert list(self.facts(three).values()) == [{**not_judged, "logs": 1}]
        (three.path / "conftest.py").unlink()
        assert three(SIM, "--junitxml=junit.xml", "-o", "loom_logs=logs/*", "-o", "loom_flows=none:flows") == FAILED
        assert list(self.facts(three).values()) == [{**not_judged, "logs": 3}]

    def test_odd_names(self, desk: Desk) -> None:
        """Names that XML cannot hold are escaped by JSON, and come back as they were."""
        desk.write(
            "conftest.py",
            "from pytest_loom import finding\n\ndef odd(log, contract):\n"
            "    yield finding(log, 'a\\x00\\u2028é<&\"', 'm', 'h', severity='info')\n\n"
            "def pytest_loom_checks(config):\n    return [odd]\n",
        )
        desk.log("logs/a.loom.jsonl")
        assert desk(SIM, "--junitxml=junit.xml") == PASSED
        (facts,) = self.facts(desk).values()
        assert facts["codes"] == {'a\x00\u2028é<&"': 1}


def test_reports_are_written_from_where_pytest_was_started(three: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the root of the project files are named from there, and paths in the forms from the repository."""
    (three.path / ".git").mkdir()
    monkeypatch.chdir(three.path / "logs")
    assert three(SIM, "--loom-report=report.md", "--rootdir=..", "-c", "../pytest.ini") == FAILED
    text = (Path.cwd() / "report.md").read_text()
    assert "- `r-2` in `logs/b.loom.jsonl:5`\n" in text
    assert str(three.path) not in text
