"""pytest-loom's hooks: the worked example of each is run as it stands, and what a wrong implementation does."""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING

import pytest

from pytest_loom.plugin import hookspecs

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
REPORT = "--loom-report=report.json"
PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
HOOKS = [name for name in vars(hookspecs) if name.startswith("pytest_loom_")]


def example(hook: str) -> str:
    """The code below ``Example::`` in the docstring of a hook."""
    text = inspect.getdoc(getattr(hookspecs, hook)) or ""
    return textwrap.dedent(text.partition("Example::\n")[2])


def test_each_hook_has_an_example() -> None:
    """There are these hooks, and each shows how it is used."""
    assert HOOKS == [
        "pytest_loom_sources",
        "pytest_loom_flows",
        "pytest_loom_checks",
        "pytest_loom_scrub",
        "pytest_loom_scorers",
        "pytest_loom_report",
    ]
    assert all(f"def {hook}(" in example(hook) for hook in HOOKS)


class TestExamples:
    def test_scrub(self, desk: Desk) -> None:
        """What the hook takes out of a value never reaches the recording."""
        desk.write("conftest.py", example("pytest_loom_scrub"))
        desk.write(
            "desk.py",
            "from typing import Any\nfrom pytest_loom import Context, flow, step\n@step\n"
            "def greet(order: dict[str, Any]) -> str:\n    return 'sent'\n@flow(id='f', steps=[greet])\n"
            "async def f(ctx: Context) -> str:\n"
            "    return await ctx.run(greet, {'customer': {'name': 'Ada Lovelace'}})\n",
        )
        desk.write("test_it.py", "import desk\ndef test_it(loom):\n    loom.record(desk.f, path='f.loom.jsonl')\n")
        assert desk("--loom-update") == PASSED
        text = (desk.path / "f.loom.jsonl").read_text()
        assert ("Ada Lovelace" in text, "<scrubbed:name>" in text) == (False, True)
        assert desk() == PASSED

    def test_sources(self, desk: Desk) -> None:
        """A reader of one's own format: its files are logs, in a simulation and elsewhere."""
        desk.write("conftest.py", example("pytest_loom_sources"))
        desk.write("logs/day.orders.json", '[{"id": "o-1", "input": {}, "at": 5}, {"id": "o-2", "input": {}, "at": 6}]')
        desk.ini("loom_logs = logs")
        assert desk(SIM, REPORT) == FAILED
        assert [(found["code"], found["execution_id"]) for found in desk.report["findings"]] == [
            ("flow-missing", "o-1"),
            ("flow-missing", "o-2"),
        ]
        desk.write(
            "test_it.py",
            "import pytest\n\n@pytest.mark.loom('logs')\ndef test_it(loom_golden):\n    assert loom_golden\n",
        )
        assert desk("-v") == PASSED
        desk.result.stdout.fnmatch_lines(["*test_it[[]o-1] PASSED*", "*test_it[[]o-2] PASSED*"])

    def test_flows(self, desk: Desk) -> None:
        """Today's flows from a runtime object, before what loom_flows says."""
        desk.write("conftest.py", example("pytest_loom_flows"))
        desk.write("shop/__init__.py", "")
        desk.write(
            "shop/runtime.py",
            "class Runtime:\n    def get_flow(self, workflow_id, version=None):\n"
            "        return {'workflowId': workflow_id, 'steps': {'of_the_hook': {}}}\n\nruntime = Runtime()\n",
        )
        desk.log("logs/a.loom.jsonl", "r-1", "of_the_hook")
        assert desk(SIM, "-o", "loom_flows=nowhere:flows") == PASSED
        desk.write("test_it.py", "def test_it(loom_flows):\n    assert loom_flows.get_flow('x')\n")
        assert desk("-o", "loom_flows=") == PASSED

    def test_checks(self, desk: Desk) -> None:
        """A check of one's own: its finding is in the report beside the built-in ones."""
        desk.write("conftest.py", example("pytest_loom_checks"))
        for number, amount in enumerate((10_000, 10_001)):
            made = desk.log(f"logs/{number}.loom.jsonl", f"r-{number}", "assess", status="running")
            made.write_text(made.read_text().replace('"order":1', f'"amount":{amount}'))
        assert desk(SIM, REPORT) == PASSED
        assert [(found["code"], found["execution_id"]) for found in desk.report["findings"]] == [
            ("refund-limit", "r-1")
        ]

    def test_scorers(self, desk: Desk) -> None:
        """A scorer that every loom.score(run) applies."""
        desk.write("conftest.py", example("pytest_loom_scorers"))
        desk.log("logs/a.loom.jsonl", "r-1", output={"answer": "yes, please"})
        desk.log("logs/b.loom.jsonl", "r-2", output={"answer": "yes"})
        desk.write(
            "test_it.py",
            "import pytest\n\n@pytest.mark.loom('logs/*.loom.jsonl')\ndef test_it(loom, loom_golden):\n"
            "    assert list(loom.score(loom_golden)) == ['polite']\n",
        )
        assert desk() == FAILED
        assert desk.counts == {"passed": 1, "failed": 1}
        desk.result.stdout.fnmatch_lines(["1 of 1 score is too low:", "  polite: 0*"])

    def test_report(self, desk: Desk) -> None:
        """What was found, once, when all is over."""
        desk.write("conftest.py", example("pytest_loom_report"))
        desk.log("logs/a.loom.jsonl", "r-1", "gone")
        desk.log("logs/b.loom.jsonl", "r-2", "gone")
        assert desk(SIM) == FAILED
        assert (desk.path / "broken.txt").read_text() == "r-1\nr-2\n"


class TestScope:
    def test_a_conftest_speaks_for_its_folder(self, desk: Desk) -> None:
        """Checks and flows of a conftest.py in a folder hold for the logs in it."""
        desk.log("logs/new/a.loom.jsonl", "r-1", "assess")
        desk.log("logs/old/b.loom.jsonl", "r-2", "assess")
        desk.write(
            "logs/old/conftest.py",
            "import app\nfrom pytest_loom.deploy.report import finding\n\ndef pytest_loom_flows(config, log_path):\n"
            "    return app.renamed\n\ndef look(log, contract):\n"
            "    yield finding(log, 'look', 'm', 'h', severity='info')\n\n"
            "def pytest_loom_checks(config):\n    return [look]\n",
        )
        assert desk(SIM, REPORT) == FAILED
        assert [(found["code"], found["execution_id"]) for found in desk.report["findings"]] == [
            ("step-removed", "r-2"),
            ("look", "r-2"),
        ]

    def test_flows_by_path(self, desk: Desk) -> None:
        """pytest_loom_flows gets the log's path, and None from it leaves the setting to speak."""
        desk.log("logs/a.loom.jsonl", "r-1", "assess")
        desk.log("logs/b.loom.jsonl", "r-2", "assess_risk")
        desk.write(
            "conftest.py",
            "import app\n\ndef pytest_loom_flows(config, log_path):\n"
            "    return app.renamed if log_path.name == 'b.loom.jsonl' else None\n",
        )
        assert desk(SIM) == PASSED

    def test_a_source_is_forgotten_after_the_session(self, desk: Desk) -> None:
        """Sources are registered for one session, so that another one in this process does not have them."""
        desk.write("conftest.py", example("pytest_loom_sources"))
        desk.write("logs/day.orders.json", '[{"id": "o-1", "input": {}, "at": 5}]')
        desk.ini("loom_logs = logs/*.json")
        desk(SIM, REPORT)
        assert [found["code"] for found in desk.report["findings"]] == ["flow-missing"]
        desk.write("conftest.py", "")
        desk(SIM, REPORT)
        assert [found["code"] for found in desk.report["findings"]] == ["log-unreadable"]


class TestThatFail:
    def test_a_check_that_raises(self, desk: Desk) -> None:
        """It must not look like one that found nothing: the log is red and not judged, the others are."""
        desk.log("logs/a.loom.jsonl", "r-1", "assess")
        desk.log("logs/b.loom.jsonl", "r-2", "gone")
        desk.write(
            "conftest.py",
            "from pytest_loom.deploy.report import finding\n\ndef picky(log, contract):\n"
            "    if log.execution_id == 'r-1':\n        yield log.state.variables['_input']['amount']\n\n"
            "def pytest_loom_checks(config):\n    return [picky]\n",
        )
        assert desk(SIM, REPORT) == FAILED
        assert desk.counts == {"failed": 2}
        assert [found["execution_id"] for found in desk.report["findings"]] == ["r-2"]
        assert (desk.report["ok"], desk.report["summary"]["not_judged"]) == (False, 1)
        assert (
            "deploy simulation: not judged: logs/a.loom.jsonl, execution r-1: the check picky raised KeyError: 'amount'"
            f" ({desk.path}/conftest.py:5) Mend the check: as long as it raises, nothing is said about these runs."
        ) in desk.unfolded
        desk.result.stdout.no_fnmatch_line("*pytest_loom/*.py:*")

    def test_flows_that_raise(self, desk: Desk) -> None:
        """One failure for all logs, which names the line of the hook."""
        for name in "ab":
            desk.log(f"logs/{name}.loom.jsonl")
        desk.write("conftest.py", "def pytest_loom_flows(config, log_path):\n    raise RuntimeError('down')\n")
        assert desk(SIM, REPORT) == FAILED
        assert desk.counts == {"failed": 1}
        assert "deploy simulation: the pytest_loom_flows hook raised RuntimeError: down (" in desk.unfolded
        assert "conftest.py:2) It has to return today's flows" in desk.unfolded
        assert "Not judged, therefore: logs/a.loom.jsonl, logs/b.loom.jsonl" in desk.unfolded
        assert desk.report["ok"] is False

    def test_a_report_hook_that_raises(self, desk: Desk) -> None:
        """The session is red and says where it raised; report.json is written all the same."""
        desk.log("logs/a.loom.jsonl")
        desk.write("conftest.py", "def pytest_loom_report(config, report):\n    raise RuntimeError('down')\n")
        assert desk(SIM, REPORT) == FAILED
        assert desk.counts == {"passed": 1}
        assert desk.report["ok"] is True
        desk.result.stdout.fnmatch_lines(
            ["ERROR: the pytest_loom_report hook raised RuntimeError: down (*conftest.py:2)"]
        )
        desk.result.stdout.no_fnmatch_line("*INTERNALERROR*")

    def test_a_misspelt_hook(self, desk: Desk) -> None:
        """pytest itself refuses a hook that does not exist."""
        desk.log("logs/a.loom.jsonl")
        desk.write("conftest.py", "def pytest_loom_check(config):\n    return []\n")
        assert desk.apart(SIM) != PASSED
        desk.result.stdout.fnmatch_lines(["*unknown hook 'pytest_loom_check'*"])


def test_a_source_that_breaks(desk: Desk) -> None:
    """A reader that raises is its author's to mend: the log is red, and no green simulation comes of it."""
    desk.write("conftest.py", example("pytest_loom_sources"))
    desk.write("logs/day.orders.json", '[{"id": "o-1"}]')
    desk.ini("loom_logs = logs/*.json")
    assert desk(SIM, REPORT) == FAILED
    assert desk.counts == {"failed": 1}
    (found,) = desk.report["findings"]
    assert found["code"] == "log-unreadable"
    assert "KeyError: 'input'" in found["message"]
