"""pytest-loom beside the plugins that people have: each test runs pytest in a process of its own with one of them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
REPORT = "--loom-report=report.json"
PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def five(desk: Desk) -> Desk:
    """Five log files of which two are red and one waits, and a golden test."""
    for number, (step, status) in enumerate(
        [
            ("assess", "completed"),
            ("gone", "completed"),
            ("pay", "suspended"),
            ("lost", "running"),
            ("pay", "completed"),
        ]
    ):
        desk.log(f"logs/{number}.loom.jsonl", f"r-{number}", step, status=status)
    desk.write(
        "test_golden.py",
        "import pytest\n\n@pytest.mark.loom('logs/*.loom.jsonl')\ndef test_it(loom_golden):\n"
        "    assert loom_golden.events\n",
    )
    return desk


class TestXdist:
    def test_the_report_is_the_same(self, five: Desk) -> None:
        """With two workers every byte of the report, and pytest-loom's own lines, are as with none."""
        pytest.importorskip("xdist")
        assert five.apart(SIM, REPORT) == FAILED
        alone, section = (five.path / "report.json").read_bytes(), five.section
        assert five.apart(SIM, REPORT, "-n", "2", plugins=("xdist",)) == FAILED
        assert five.counts == {"failed": 2, "passed": 8}
        assert (five.path / "report.json").read_bytes() == alone
        assert five.section == section

    def test_a_worker_that_crashes(self, five: Desk) -> None:
        """What a dead worker was judging is not judged: not ok, whatever the others and its replacement found."""
        pytest.importorskip("xdist")
        five.write(
            "conftest.py",
            "import app, os, pytest\n\n@pytest.fixture\ndef loom_flows(request):\n"
            "    if request.path.name == '0.loom.jsonl':\n        os._exit(3)\n    return app.flows\n",
        )
        five.log("build/hidden.loom.jsonl", "r-9", "pay")
        five.write("tests/test_plain.py", "def test_plain():\n    pass\n")
        five.ini("loom_logs =", "    logs/0.*", "    logs/2.*", "    build/*")
        assert five.apart(SIM, REPORT, "-n", "2", "tests", plugins=("xdist",)) == FAILED
        report = five.report
        assert (report["ok"], report["summary"]["logs"], report["summary"]["not_judged"]) == (False, 3, 1)
        assert [found["code"] for found in report["findings"]] == ["suspended-carryover"]
        assert "NOT JUDGED: 1 of 3 log files, see the failures above" in five.section

    def test_what_cannot_begin_is_one_failure(self, five: Desk) -> None:
        """Two workers that cannot import the application make one failure, not two."""
        pytest.importorskip("xdist")
        assert five.apart(SIM, REPORT, "-n", "2", "-o", "loom_flows=nowhere:flows", plugins=("xdist",)) == FAILED
        assert five.counts == {"failed": 1, "passed": 5}
        assert (five.report["ok"], five.report["summary"]["not_judged"]) == (False, 5)

    def test_logs_elsewhere_and_a_chosen_one(self, five: Desk) -> None:
        """Workers find the logs outside of what is named just as one process does, and keep to those named by hand."""
        pytest.importorskip("xdist")
        five.write("tests/test_plain.py", "def test_plain():\n    pass\n")
        assert five.apart(SIM, REPORT, "-n", "2", "tests", plugins=("xdist",)) == FAILED
        assert five.report["summary"]["logs"] == 5
        chosen = "logs/4.loom.jsonl::deploy-sim"
        assert five.apart(SIM, REPORT, "-n", "2", chosen, plugins=("xdist",)) == PASSED
        assert five.report["summary"]["logs"] == 1

    def test_loadgroup(self, five: Desk) -> None:
        """Node ids that pytest-xdist has added a group to are still known as simulations."""
        pytest.importorskip("xdist")
        five.write(
            "conftest.py",
            "import pytest\n\ndef pytest_itemcollected(item):\n    item.add_marker(pytest.mark.xdist_group('one'))\n",
        )
        assert five.apart(SIM, REPORT, "-n", "2", "--dist", "loadgroup", plugins=("xdist",)) == FAILED
        assert (five.report["summary"]["logs"], five.report["summary"]["not_judged"]) == (5, 0)

    def test_without_xdist(self, five: Desk) -> None:
        """Hooks of pytest-xdist are optional: a run that blocks it works."""
        assert five.apart(SIM, "-p", "no:xdist") == FAILED
        assert five.counts == {"failed": 2, "passed": 8}


class TestRerunfailures:
    def test_a_finding_is_counted_once(self, five: Desk) -> None:
        """A red log that is run again is one finding and one listed run; each of its testcases has one property."""
        pytest.importorskip("pytest_rerunfailures")
        assert five.apart(SIM, REPORT, "--reruns=2", "--junitxml=j.xml", plugins=("rerunfailures",)) == FAILED
        assert five.counts == {"failed": 2, "passed": 8, "rerun": 4}
        assert [found["code"] for found in five.report["findings"]].count("step-removed") == 2
        assert five.report["summary"]["runs"] == 5
        cases = [case for case in ET.parse(five.path / "j.xml").iter("testcase") if case.get("name") == "deploy-sim"]
        assert {len(list(case.iter("property"))) for case in cases} == {1}

    def test_a_log_that_is_judged_in_the_end(self, five: Desk) -> None:
        """Flows that could be had at the second try make the log judged, and what had failed before is forgotten."""
        pytest.importorskip("pytest_rerunfailures")
        five.ini("loom_logs = logs/0.*")
        five.write(
            "conftest.py",
            "import app, pytest\n\ntries = []\n\n@pytest.fixture\ndef loom_flows():\n    tries.append(1)\n"
            "    if len(tries) == 1:\n        raise RuntimeError('down')\n    return app.flows\n",
        )
        assert five.apart(SIM, REPORT, "--reruns=1", plugins=("rerunfailures",)) == PASSED
        assert (five.report["ok"], five.report["summary"]["not_judged"]) == (True, 0)


def test_randomly(five: Desk) -> None:
    """Items in random order, and reseeding around each: the report is in the order of the node ids, as without."""
    pytest.importorskip("pytest_randomly")
    assert five.apart(SIM, REPORT) == FAILED
    plain = five.report
    assert five.apart(SIM, REPORT, "--randomly-seed=3", plugins=("randomly",)) == FAILED
    five.result.stdout.fnmatch_lines(["Using --randomly-seed=3"])
    assert five.report == plain


@pytest.mark.parametrize("blocked", ["terminal", "cacheprovider", "syrupy", "randomly", "junitxml", "logging"])
def test_without_a_plugin(five: Desk, blocked: str) -> None:
    """Nothing of ours needs a plugin that can be left out."""
    assert five.apart(SIM, REPORT, "-p", f"no:{blocked}") == FAILED
    assert [found["code"] for found in five.report["findings"]].count("step-removed") == 2
    assert five.result.stderr.lines == []


def test_warnings_are_errors(five: Desk) -> None:
    """Nothing of ours warns: -W error changes nothing, with syrupy there, and in the workers of pytest-xdist."""
    pytest.importorskip("xdist")
    assert five.apart(SIM, REPORT, "-W", "error", "-p", "syrupy", "-n", "2", plugins=("xdist",)) == FAILED
    assert five.counts == {"failed": 2, "passed": 8}


def test_strict_configuration(five: Desk) -> None:
    """The marker and the settings are declared: strict markers, strict settings and unique parameter ids are fine."""
    five.ini("addopts = --strict-markers --strict-config", "loom_logs = logs/*.loom.jsonl")
    assert five.apart(SIM) == FAILED
    assert five.counts == {"failed": 2, "passed": 8}


ASYNC = """
import pytest

def steps(state):
    return len(state.frames)

async def finished(state):
    return state.status == "completed"

@pytest.mark.{mark}
@pytest.mark.loom("logs/0.loom.jsonl", thresholds={{"steps": 1}})
async def test_it(loom, loom_golden):
    scores = await loom.ascore(loom_golden, {{"steps": steps, "finished": finished}})
    assert (scores["steps"].value, scores["finished"].passed) == (1.0, True)
    assert loom.diff(loom_golden, loom_golden) == []

@pytest.mark.{mark}
@pytest.mark.loom("logs/0.loom.jsonl", thresholds={{"steps": 2}})
async def test_too_low(loom, loom_golden):
    await loom.ascore(loom_golden, {{"steps": steps}})
"""


@pytest.mark.parametrize(
    ("plugin", "module", "mark"), [("asyncio", "pytest_asyncio", "asyncio"), ("anyio", "anyio", "anyio")]
)
def test_async_tests(five: Desk, plugin: str, module: str, mark: str) -> None:
    """An async test has the same fixtures, and awaits async scorers."""
    pytest.importorskip(module)
    five.write("test_golden.py", ASYNC.format(mark=mark))
    five.write("conftest.py", "import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n")
    advice = "ignore:The configuration option"  # that some versions of pytest-asyncio give
    assert five.apart("-W", "error", "-W", advice, "-p", plugin) == FAILED
    assert five.counts == {"failed": 1, "passed": 1}
    five.result.stdout.fnmatch_lines(["1 of 1 score is too low:", "  steps: 1, wanted 2*"])


def test_a_simulation_beside_syrupys_snapshots(five: Desk) -> None:
    """A simulation neither touches syrupy's snapshots nor is touched by --snapshot-update."""
    five.write("test_golden.py", "def test_it(snapshot):\n    assert {'a': 1} == snapshot\n")
    assert five.apart("--snapshot-update", plugins=("syrupy",)) == PASSED
    before = five.files()
    assert five.apart(SIM, REPORT, "--snapshot-update", plugins=("syrupy",)) == FAILED
    written = [name for name in five.files() if name not in before]
    assert written.pop() == "report.json"
    assert written
    assert all(name.startswith("loom-contracts/") for name in written)
    assert json.loads((five.path / "report.json").read_text())["summary"]["runs"] == 5
