"""``--loom-deploy-sim``: one test item per log file, how they are chosen, and what is said where they cannot begin."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
REPORT = "--loom-report=report.json"
PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR
A, B, C = (f"logs/{name}.loom.jsonl::deploy-sim" for name in "abc")
TEST = "def test_plain():\n    pass\n"


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
        assert [found["execution_id"] for found in three.report["findings"]] == ["r-2", "r-9"]

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
        assert three.section[-2] == "NOT JUDGED: 1 of 1 log file, since the run stopped early, see above"

    def test_a_test_that_cannot_be_collected(self, three: Desk) -> None:
        """Nothing is run then: all logs are counted as not judged, also those that could not begin for one cause."""
        three.write("test_first.py", "from app import renamed_since\n")
        said = "log files, since the run stopped early, see above"
        for flows, verdict in (("app:flows", f"NOT JUDGED: 3 of 3 {said}"), ("app:gone", f"NOT JUDGED: 3 of 3 {said}")):
            three(SIM, REPORT, "-o", f"loom_flows={flows}")
            assert three.counts == {"errors": 1}
            assert verdict in three.unfolded
            assert "deploy simulation of 3 log files" in three.section[0]
            assert three.report["summary"]["not_judged"] == 3

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
        logs = "logs/a.loom.jsonl, logs/b.loom.jsonl, logs/c.loom.jsonl"
        said = f"*deploy simulation: loom_flows = {target}: *{says}*{hint} Not judged, therefore: {logs}*"
        assert fnmatchcase(three.unfolded, said.replace("[", "[[]"))
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
        assert desk.section[-3:-1] == [
            "NOT SAFE TO DEPLOY: 1 of 1 run would break; NOT JUDGED: 1 of 2 log files, see",
            "  the failures above",
        ]

    def test_flows_that_nobody_named(self, three: Desk) -> None:
        """loom_flows not set and no fixture: one readable failure that says what to set."""
        assert three(SIM, REPORT, "-o", "loom_flows=") == FAILED
        assert three.counts == {"failed": 1, "passed": 1}
        three.result.stdout.fnmatch_lines(
            [
                "deploy simulation: loom_flows is not set: against which code should recorded",
                "    runs be held?",
                '  Set loom_flows = "module:attr" in pytest\'s configuration, or override the',
                "      loom_flows fixture.",
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
        hint = 'Set loom_logs = ["tests/logs/*.loom.jsonl"] in pytest\'s configuration to where your logs are.'
        assert (
            f"deploy simulation: no log found (the default, every *.loom.jsonl, below {desk.path})."
            f" An empty corpus proves nothing, so it is an error. {hint}"
        ) in desk.unfolded
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
