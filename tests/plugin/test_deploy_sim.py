"""``--loom-deploy-sim``: one test item per log file, how the items are chosen, and what the session makes of them."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
REPORT = "--loom-report=report.json"
PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR
A, B, C = (f"logs/{name}.loom.jsonl::deploy-sim" for name in "abc")
TEST = "def test_plain():\n    pass\n"


@pytest.fixture
def three(desk: Desk) -> Desk:
    """Three log files, one of them with a step that today's refund does not have, and a test."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.log("logs/b.loom.jsonl", "r-2", "assess", "gone")
    desk.log("logs/c.loom.jsonl", "r-3", "pay")
    desk.write("test_plain.py", TEST)
    return desk


def collected(desk: Desk) -> list[str]:
    """The node ids that a ``--collect-only -q`` run has printed."""
    return [line for line in desk.result.outlines if "::" in line or line == "loom-deploy-sim"]


IMPORTED = (
    "import pathlib\nmark = pathlib.Path('imported.txt')\n"
    "mark.write_text((mark.read_text() if mark.exists() else '') + 'once ')\n"
)
"""Application code that leaves a trace each time it is imported."""


class TestItems:
    def test_one_item_for_each_file(self, three: Desk) -> None:
        """A file is an item, however many runs are in it; each run of it is judged."""
        three.log("logs/a.loom.jsonl", "r-9", "lost", append=True)
        assert three("--collect-only", "-q", SIM) == PASSED
        assert collected(three) == [A, B, C, "test_plain.py::test_plain"]
        assert three(SIM, REPORT) == FAILED
        assert three.counts == {"failed": 2, "passed": 2}
        assert [found["execution_id"] for found in three.report["findings"]] == ["r-9", "r-2"]

    def test_without_the_flag_there_are_none(self, three: Desk) -> None:
        """Logs are no tests unless asked for."""
        assert three() == PASSED
        assert three.counts == {"passed": 1}

    def test_compressed_logs_and_other_formats(self, desk: Desk) -> None:
        """By default every *.loom.jsonl and *.loom.jsonl.gz counts; other files do where loom_logs names them."""
        desk.log("logs/a.loom.jsonl")
        desk.write("logs/history.json", json.dumps({"events": []}))
        desk("--collect-only", "-q", SIM)
        assert collected(desk) == [A]
        desk.ini("loom_logs =", "    logs/*.json")
        desk("--collect-only", "-q", SIM)
        assert collected(desk) == ["logs/history.json::deploy-sim"]

    @pytest.mark.parametrize(
        ("options", "ids"),
        [
            ([A], [A]),
            (["logs/a.loom.jsonl"], [A]),
            ([A, C], [A, C]),
            (["logs/a.loom.jsonl", "test_plain.py"], [A, "test_plain.py::test_plain"]),
            (["logs"], [A, B, C]),
            (["test_plain.py"], ["test_plain.py::test_plain", A, B, C]),
            (["test_plain.py::test_plain"], ["test_plain.py::test_plain"]),
            (["-k", "b.loom"], [B]),
            (["-k", "deploy-sim and not b.loom"], [A, C]),
            (["--deselect", B], [A, C, "test_plain.py::test_plain"]),
            (["--deselect", "logs/b.loom.jsonl"], [A, C, "test_plain.py::test_plain"]),
            (["--ignore=logs/b.loom.jsonl"], [A, C, "test_plain.py::test_plain"]),
            (["--ignore=logs"], ["test_plain.py::test_plain", "loom-deploy-sim"]),
            (["--ignore-glob=*a.loom.jsonl", "test_plain.py"], ["test_plain.py::test_plain", B, C]),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith(("-", "l", "t")) else "",
    )
    def test_how_they_are_chosen(self, three: Desk, options: list[str], ids: list[str]) -> None:
        """By node id, by file, by folder, by -k and --deselect; logs elsewhere join unless tests or logs were named."""
        three("--collect-only", "-q", SIM, *options)
        assert collected(three) == ids

    def test_a_log_without_the_flag_is_no_test(self, three: Desk) -> None:
        """Naming a log file without --loom-deploy-sim collects nothing, as with any other file that is no test."""
        assert three("logs/a.loom.jsonl") == USAGE

    def test_a_log_that_loom_logs_does_not_name(self, three: Desk) -> None:
        """The command line may name any log, also one that the settings leave out."""
        three.ini("loom_logs = logs/a.loom.jsonl")
        three("--collect-only", "-q", SIM, "logs/b.loom.jsonl")
        assert collected(three) == [B]

    def test_stopping_at_the_first_failure(self, three: Desk) -> None:
        """With -x the logs after it are not judged, and the report says that it is not the whole."""
        assert three(SIM, REPORT, "-x") == FAILED
        assert three.counts == {"passed": 1, "failed": 1}
        assert (three.report["ok"], three.report["summary"]["logs"], three.report["summary"]["not_judged"]) == (
            False,
            3,
            1,
        )

    def test_logs_that_were_never_reached_are_not_green(self, three: Desk) -> None:
        """A test that fails before them under -x leaves the logs unjudged: no finding, and yet not ok."""
        three.ini("loom_logs = logs/a.loom.jsonl")
        three.write("aaa/test_first.py", "def test_fails():\n    assert 0\n")
        assert three(SIM, REPORT, "-x") == FAILED
        assert three.counts == {"failed": 1}
        assert (three.report["ok"], three.report["findings"], three.report["summary"]["not_judged"]) == (False, [], 1)
        assert three.section[-2] == "NOT JUDGED: 1 of 1 log file, see the failures above"

    def test_last_failed(self, three: Desk) -> None:
        """--lf runs the logs anew that were red."""
        assert three(SIM, cache=True) == FAILED
        assert three(SIM, "--lf", cache=True) == FAILED
        assert three.counts == {"failed": 1}
        three.log("logs/b.loom.jsonl", "r-2", "assess")
        assert three(SIM, "--lf", cache=True) == PASSED
        assert three.counts == {"passed": 1}

    def test_only_collecting_writes_nothing(self, three: Desk) -> None:
        """--collect-only judges nothing, so that there is neither a verdict nor a report file."""
        before = three.files()
        assert three(SIM, REPORT, "--collect-only") == PASSED
        assert three.files() == before
        assert three.section == []

    def test_the_slowest(self, three: Desk) -> None:
        """--durations knows the items like any other test."""
        three(SIM, "--durations=0", "-vv")
        three.result.stdout.re_match_lines([rf".*call +{A}"])


class TestWhereLogsLie:
    def test_elsewhere_below_the_root(self, three: Desk) -> None:
        """Logs beside the named folder of tests are added; logs in it are not there twice."""
        three.write("tests/test_more.py", TEST)
        three.log("tests/logs/d.loom.jsonl")
        three("--collect-only", "-q", SIM, "tests")
        assert collected(three) == ["tests/logs/d.loom.jsonl::deploy-sim", "tests/test_more.py::test_plain", A, B, C]

    def test_above_the_root(self, three: Desk) -> None:
        """loom_logs may point out of the project; paths start from the configuration file."""
        three.write("sub/pytest.ini", "[pytest]\npythonpath = ..\nloom_flows = app:flows\nloom_logs = ../logs/a.*\n")
        three.write("sub/test_sub.py", TEST)
        assert three("-c", "sub/pytest.ini", "--rootdir=sub", "sub", SIM, REPORT) == PASSED
        assert three.counts == {"passed": 2}
        assert three.report["summary"]["runs"] == 1

    def test_absolute(self, three: Desk) -> None:
        """loom_logs takes absolute paths."""
        three.ini(f"loom_logs = {three.path}/logs/a.*")
        assert three(SIM, REPORT) == PASSED
        assert three.report["summary"]["logs"] == 1

    def test_in_a_folder_that_pytest_does_not_walk(self, desk: Desk) -> None:
        """norecursedirs is about tests: a log that loom_logs names counts wherever it lies, and its conftest.py too."""
        desk.ini("loom_logs =", "    build/*.loom.jsonl", "    .hidden/*.loom.jsonl")
        desk.log("build/a.loom.jsonl", "r-1", "assess")
        desk.log(".hidden/b.loom.jsonl", "r-2", "gone")
        desk.write("build/test_not_this.py", "def test_not_this():\n    assert 0\n")
        assert desk(SIM, REPORT) == FAILED
        assert desk.counts == {"passed": 1, "failed": 1}
        assert [found["source"] for found in desk.report["findings"]] == [".hidden/b.loom.jsonl"]

    def test_named_but_missing(self, desk: Desk) -> None:
        """A file that loom_logs names literally has to be there: else it counts as a log that cannot be read."""
        desk.log("logs/a.loom.jsonl")
        desk.ini("loom_logs =", "    logs/a.loom.jsonl", "    logs/z.loom.jsonl")
        assert desk(SIM, REPORT) == FAILED
        assert [(found["code"], found["source"]) for found in desk.report["findings"]] == [
            ("log-unreadable", "logs/z.loom.jsonl")
        ]

    @pytest.mark.parametrize(
        "name", ["a[1].loom.jsonl", "a::b.loom.jsonl", "a b.loom.jsonl", "-a.loom.jsonl", "é.loom.jsonl"]
    )
    def test_strange_names(self, desk: Desk, name: str) -> None:
        """What a file is called must not decide whether it counts, in or outside of what is collected."""
        desk.log(f"logs/{name}")
        desk.write("tests/test_plain.py", TEST)
        for options in ([], ["tests"]):
            assert desk(SIM, REPORT, *options) == PASSED
            assert desk.counts == {"passed": 2}
            assert desk.report["summary"]["runs"] == 1

    def test_a_link_is_a_file_of_its_own(self, desk: Desk) -> None:
        """A symbolic link to a log is judged under its own name."""
        desk.log("store/a.loom.jsonl", "r-1", "gone")
        (desk.path / "logs").mkdir()
        (desk.path / "logs" / "today.loom.jsonl").symlink_to(desk.path / "store" / "a.loom.jsonl")
        desk.ini("loom_logs = logs/*.loom.jsonl")
        assert desk(SIM, REPORT) == FAILED
        assert [found["source"] for found in desk.report["findings"]] == ["logs/today.loom.jsonl"]

    def test_another_working_directory(self, three: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """Patterns start from the configuration file wherever pytest is started; messages from where one stands."""
        monkeypatch.chdir(three.path / "logs")
        assert three(SIM, "--loom-report=report.json") == FAILED
        report = json.loads((three.path / "logs" / "report.json").read_text())
        assert [found["source"] for found in report["findings"]] == ["b.loom.jsonl"]


class TestFlows:
    @pytest.mark.parametrize("options", [[], ["test_plain.py"]], ids=["walked", "elsewhere"])
    @pytest.mark.parametrize("folder", ["logs", "logs/deeper"])
    def test_a_conftest_beside_the_logs(self, desk: Desk, options: list[str], folder: str) -> None:
        """A loom_flows fixture in the folder of a log, or above it, is that log's, and no other's."""
        desk.log("logs/deeper/a.loom.jsonl", "r-1", "assess")
        desk.log("other/b.loom.jsonl", "r-2", "assess")
        desk.write("test_plain.py", TEST)
        override = "import pytest\n\n@pytest.fixture\ndef loom_flows():\n    import app\n    return app.renamed\n"
        desk.write(f"{folder}/conftest.py", override)
        assert desk(SIM, REPORT, *options) == FAILED
        assert [found["source"] for found in desk.report["findings"]] == ["logs/deeper/a.loom.jsonl"]

    @pytest.mark.parametrize("folder", ["tests", "tests/build"])
    def test_a_conftest_of_a_hidden_folder(self, desk: Desk, folder: str) -> None:
        """A conftest.py counts for the logs of its folder where pytest does not go on its own, too."""
        desk.ini("loom_logs = tests/build/*.loom.jsonl")
        desk.log("tests/build/a.loom.jsonl", "r-1", "assess")
        desk.write(f"{folder}/conftest.py", "import pytest\n\n@pytest.fixture\ndef loom_flows():\n    return {}\n")
        assert desk(SIM, REPORT) == FAILED
        assert [found["code"] for found in desk.report["findings"]] == ["flow-missing"]

    def test_a_conftest_above_the_root(self, desk: Desk) -> None:
        """A log outside of the root directory has the conftest.py of its own folder, if pytest may look there."""
        desk.write("sub/pytest.ini", "[pytest]\npythonpath = ..\nloom_logs = ../logs/*.jsonl\n")
        desk.write("sub/test_sub.py", TEST)
        desk.log("logs/a.loom.jsonl", "r-1", "assess")
        desk.write("logs/conftest.py", "import pytest\n\n@pytest.fixture\ndef loom_flows():\n    return {}\n")
        options = ["-c", "sub/pytest.ini", "--rootdir=sub", "--confcutdir=.", "sub"]
        assert desk(SIM, REPORT, *options) == FAILED
        assert [found["code"] for found in desk.report["findings"]] == ["flow-missing"]

    @pytest.mark.parametrize("options", [[], ["test_plain.py"]], ids=["walked", "elsewhere"])
    def test_a_conftest_that_breaks(self, three: Desk, options: list[str]) -> None:
        """A conftest.py beside the logs that does not import is a collection error as any other, and not green."""
        three.write("logs/conftest.py", "import no_such_module\n")
        assert three(SIM, REPORT, *options) == pytest.ExitCode.INTERRUPTED
        assert three.counts == {"errors": 1}
        assert three.report["ok"] is False

    def test_a_fixture_that_builds_on_the_setting(self, desk: Desk) -> None:
        """An override may take what the setting gives and change it."""
        desk.log("logs/a.loom.jsonl", "r-1", "extra")
        desk.write(
            "conftest.py",
            "import app, pytest\n\n@pytest.fixture\ndef loom_flows(loom_flows):\n"
            "    return {**loom_flows, 'refund': app.flow('refund', 'extra')}\n",
        )
        assert desk(SIM) == PASSED

    def test_a_fixture_needs_no_setting(self, desk: Desk) -> None:
        """Where a fixture has the flows, a setting that is missing or wrong is nobody's business."""
        desk.log("logs/a.loom.jsonl")
        desk.write("conftest.py", "import app, pytest\n\n@pytest.fixture\ndef loom_flows():\n    return app.flows\n")
        for setting in ("", "no_such_module:flows"):
            assert desk(SIM, "-o", f"loom_flows={setting}") == PASSED

    def test_several_applications(self, desk: Desk) -> None:
        """Lines of GLOB = module:attr: the first whose glob matches the log's path, absolute or from the ini file."""
        desk.log("logs/new/a.loom.jsonl", "r-1", "assess_risk")
        desk.log("logs/old/b.loom.jsonl", "r-2", "assess")
        desk.log("logs/c.loom.jsonl", "r-3", "assess_risk")
        desk.write(
            "pytest.ini",
            "[pytest]\npythonpath = .\nloom_flows =\n    logs/new/* = app:renamed\n"
            f"    {desk.path}/logs/old/* = app:flows\n"
            "    *.jsonl=app:renamed\n",
        )
        assert desk(SIM) == PASSED
        assert desk.counts == {"passed": 3}

    def test_a_log_that_no_line_is_for(self, desk: Desk) -> None:
        """It is one failure with the names of the logs, and the others are judged."""
        desk.log("logs/new/a.loom.jsonl")
        desk.log("logs/old/b.loom.jsonl")
        desk.log("logs/old/c.loom.jsonl")
        desk.write(
            "pytest.ini", "[pytest]\npythonpath = .\nloom_flows =\n    logs/new/* = app:flows\n    x/* = app:flows\n"
        )
        assert desk(SIM, REPORT) == FAILED
        assert desk.counts == {"passed": 1, "failed": 1}
        desk.result.stdout.fnmatch_lines(
            [
                "deploy simulation: no line of loom_flows is for these logs.",
                "  Not judged, therefore: logs/old/b.loom.jsonl, logs/old/c.loom.jsonl",
            ]
        )
        assert (desk.report["ok"], desk.report["summary"]["logs"], desk.report["summary"]["not_judged"]) == (
            False,
            3,
            2,
        )


class TestThatCannotBegin:
    @pytest.mark.parametrize(
        ("source", "target", "says", "hint"),
        [
            (
                "import json\n\nx = undefined\n",
                "shop:flows",
                "raised NameError: name 'undefined' is*shop.py:3)",
                "Try: python -c*",
            ),
            ("def f(:\n", "shop:flows", "raised SyntaxError: *shop.py:1)", "Try: python -c 'import shop'"),
            ("import no_such_thing\n", "shop:flows", "raised ModuleNotFoundError: *shop.py:1)", "Try: python -c*"),
            ("raise SystemExit(3)\n", "shop:flows", "raised SystemExit: 3 (*shop.py:1)", "Try: python -c*"),
            ("", "no_such_app:flows", "raised ModuleNotFoundError: No module named 'no_such_app'", "Is the folder of*"),
            ("flows = {}\n", "shop:flow", "has no flow (*shop.py)", "Did you mean flows?"),
            ("runtime = 1\n", "shop:runtime.flows", "has no flows (*shop.py)", "Name today's flows, *"),
        ],
        ids=["name", "syntax", "import", "exit", "module", "attribute", "deep-attribute"],
    )
    def test_an_app_that_does_not_import(self, three: Desk, source: str, target: str, says: str, hint: str) -> None:
        """One failure for all logs, with the line that raised and what to do; the other tests run; nothing is green."""
        three.write("shop.py", source)
        assert three(SIM, REPORT, "-o", f"loom_flows={target}") == FAILED
        assert three.counts == {"failed": 1, "passed": 1}
        three.result.stdout.fnmatch_lines(
            [
                f"deploy simulation: loom_flows = {target}: *{says.replace('[', '[[]')}",
                f"  {hint}",
                "  Not judged, therefore: logs/a.loom.jsonl, logs/b.loom.jsonl, logs/c.loom.jsonl",
            ]
        )
        three.result.stdout.no_fnmatch_line("*Traceback*")
        assert (three.report["ok"], three.report["findings"]) == (False, [])
        assert three.report["summary"]["not_judged"] == 3

    def test_it_is_imported_once(self, three: Desk) -> None:
        """An import that fails is not tried again for each log: it may be slow, or have effects."""
        three.write("shop.py", f"{IMPORTED}raise RuntimeError('down')\n")
        assert three(SIM, "-o", "loom_flows=shop:flows") == FAILED
        assert (three.path / "imported.txt").read_text() == "once "

    def test_it_is_not_imported_without_need(self, three: Desk) -> None:
        """Without --loom-deploy-sim, or where no log is among the selected tests, the application is left alone."""
        three.write("shop.py", IMPORTED)
        assert three("-o", "loom_flows=shop:flows") == PASSED
        assert three(SIM, "-o", "loom_flows=shop:flows", "test_plain.py::test_plain") == PASSED
        assert three(SIM, "-o", "loom_flows=shop:flows", "-k", "test_plain") == PASSED
        assert not (three.path / "imported.txt").exists()

    def test_one_of_two_applications(self, desk: Desk) -> None:
        """The logs of the other application are judged."""
        desk.log("logs/new/a.loom.jsonl", "r-1", "assess")
        desk.log("logs/old/b.loom.jsonl", "r-2", "gone")
        desk.write(
            "pytest.ini", "[pytest]\npythonpath = .\nloom_flows =\n    *new* = nowhere:flows\n    *old* = app:flows\n"
        )
        assert desk(SIM, REPORT) == FAILED
        assert desk.counts == {"failed": 2}
        assert [found["source"] for found in desk.report["findings"]] == ["logs/old/b.loom.jsonl"]
        assert (
            desk.section[-2]
            == "NOT SAFE TO DEPLOY: 1 of 1 run would break; NOT JUDGED: 1 of 2 log files, see the failures above"
        )

    def test_flows_that_nobody_named(self, three: Desk) -> None:
        """loom_flows not set and no fixture: one readable failure that says what to set."""
        assert three(SIM, REPORT, "-o", "loom_flows=") == FAILED
        assert three.counts == {"failed": 1, "passed": 1}
        three.result.stdout.fnmatch_lines(
            [
                "deploy simulation: loom_flows is not set: against which code should recorded runs be held?",
                '  Set loom_flows = "module:attr" in pytest\'s configuration, or override the loom_flows fixture.',
            ]
        )
        three.result.stdout.no_fnmatch_line("*Traceback*")
        assert three.report["ok"] is False

    def test_a_fixture_that_raises(self, three: Desk) -> None:
        """A broken loom_flows fixture is an error of each log, and no log counts as judged."""
        three.write(
            "conftest.py", "import pytest\n\n@pytest.fixture\ndef loom_flows():\n    raise RuntimeError('down')\n"
        )
        assert three(SIM, REPORT) == FAILED
        assert three.counts == {"errors": 3, "passed": 1}
        assert (three.report["ok"], three.report["summary"]["not_judged"]) == (False, 3)
        assert three.section[-2] == "NOT JUDGED: 3 of 3 log files, see the failures above"

    def test_flows_of_no_known_shape(self, three: Desk) -> None:
        """What loom_flows names has to be flows; the failure says what can be given, without our own traceback."""
        three.write("shop.py", "flows = 7\n")
        assert three(SIM, REPORT, "-o", "loom_flows=shop:flows") == FAILED
        three.result.stdout.fnmatch_lines(
            ["deploy simulation: not judged: flows cannot be a int", "  Give a mapping *"]
        )
        three.result.stdout.no_fnmatch_line("*pytest_loom/*py:*")
        assert (three.report["ok"], three.report["summary"]["not_judged"]) == (False, 3)

    def test_no_log_at_all(self, desk: Desk) -> None:
        """An empty corpus is one failure and a report that is not ok, never a green run."""
        desk.write("test_plain.py", TEST)
        assert desk(SIM, REPORT) == FAILED
        assert desk.counts == {"failed": 1, "passed": 1}
        desk.result.stdout.fnmatch_lines(
            [
                f"deploy simulation: no log found (the default, every *.loom.jsonl, below {desk.path}).",
                "  An empty corpus proves nothing, so it is an error.",
                '  Set loom_logs = ["tests/logs/*.loom.jsonl"] in pytest\'s configuration to where your logs are.',
            ]
        )
        assert (desk.report["ok"], desk.report["findings"], desk.report["summary"]["logs"]) == (False, [], 0)
        assert desk(SIM, "-k", "test_plain") == FAILED, "what was never found cannot be left out"

    def test_no_log_and_no_test(self, desk: Desk) -> None:
        """Exit status 1, not the 5 of a run without tests."""
        assert desk(SIM) == FAILED
        assert desk.counts == {"failed": 1}

    def test_a_pattern_that_matches_nothing_among_others(self, desk: Desk) -> None:
        """It is noted, since it may be a typing error, and is no failure."""
        desk.log("logs/a.loom.jsonl")
        desk.ini("loom_logs =", "    logs/*.loom.jsonl", "    recordings/*.loom.jsonl")
        assert desk(SIM) == PASSED
        assert "note: loom_logs recordings/*.loom.jsonl matches no file" in desk.section

    def test_nothing_selected(self, three: Desk) -> None:
        """Leaving all logs out is the user's choice, but a report of nothing that was asked for is not green."""
        assert three(SIM, "-k", "test_plain") == PASSED
        assert three.section[1:] == ["nothing was judged: no log file was among the selected tests"]
        assert three(SIM, REPORT, "-k", "test_plain") == FAILED
        assert (three.report["ok"], three.report["summary"]["logs"]) == (False, 0)


class TestJudgement:
    def test_a_broken_log_beside_good_ones(self, three: Desk) -> None:
        """A damaged file is red by name and line, and the others are judged."""
        with (three.path / "logs/a.loom.jsonl").open("a") as stream:
            stream.write('{"executionId": "r-1", "workfl')
        three.write("logs/d.loom.jsonl", "")
        assert three(SIM, REPORT) == FAILED
        assert three.counts == {"failed": 3, "passed": 2}
        assert [(found["code"], found["source"]) for found in three.report["findings"]] == [
            ("log-unreadable", "logs/a.loom.jsonl:5"),
            ("step-removed", "logs/b.loom.jsonl"),
            ("log-unreadable", "logs/d.loom.jsonl"),
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
        from datetime import date, timedelta

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
        assert list(report) == ["ok", "schema", "summary", "findings", "runs"]
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
        }
        assert [(run["execution_id"], run["status"], run["verdict"]) for run in report["runs"]] == [
            ("r-2", "completed", "fork")
        ]

    def test_an_unknown_suffix(self, three: Desk) -> None:
        """The form is told by the suffix: one that means nothing is a usage error before anything runs."""
        assert three(SIM, "--loom-report=report.xls") == USAGE
        three.result.stderr.fnmatch_lines(
            ["ERROR: --loom-report=report.xls: the form is told by the suffix, one of .json"]
        )

    def test_one_that_cannot_be_written(self, desk: Desk) -> None:
        """A session whose report could not be written is not green: whoever reads it would see an old one."""
        desk.log("logs/a.loom.jsonl")
        assert desk(SIM, "--loom-report=/proc/none/report.json") == FAILED
        assert desk.section[-1].startswith("ERROR: the report /proc/none/report.json could not be written: ")

    def test_without_a_simulation(self, three: Desk) -> None:
        """There is nothing to report on, so no file is written."""
        assert three(REPORT) == PASSED
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

    def test_junit(self, three: Desk) -> None:
        """One testcase for each log; its numbers are a property that holds JSON text."""
        assert three(SIM, "--junitxml=junit.xml") == FAILED
        cases = [
            case for case in ET.parse(three.path / "junit.xml").iter("testcase") if case.get("name") == "deploy-sim"
        ]
        assert [case.get("classname") for case in cases] == [
            "logs.a.loom.jsonl",
            "logs.b.loom.jsonl",
            "logs.c.loom.jsonl",
        ]
        facts: list[Any] = []
        for case in cases:
            (item,) = case.iter("property")
            assert item.get("name") == "loom"
            facts.append(json.loads(item.get("value") or ""))
        assert [(fact["ok"], fact["runs"], fact["breaking"]) for fact in facts] == [
            (True, 1, 0),
            (False, 1, 1),
            (True, 1, 0),
        ]
        (failure,) = [element for case in cases for element in case.iter("failure")]
        assert "step gone has run" in (failure.text or "")


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
        "from pytest_loom.sources import loom\nreal = loom.LoomSource.read\n\ndef read(self, path):\n"
        "    open('opened.txt', 'a').write(f'{path}\\n')\n    return real(self, path)\n\nloom.LoomSource.read = read\n",
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
