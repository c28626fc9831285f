"""The fixtures ``loom`` and ``loom_flows``: what they give to a test, and what they say where they cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED


class TestLoom:
    def test_load(self, shop: Desk) -> None:
        """A path is looked up from the folder of the configuration, wherever the test and the shell are."""
        shop.write_test(
            "def test_it(loom):\n    assert loom.load('logs/a.loom.jsonl').execution_id == 'r-1'\n",
            "tests/test_it.py",
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(shop.path / "tests")
            assert shop() == PASSED

    def test_load_says_what_is_wrong(self, shop: Desk) -> None:
        """A damaged file is the LogError of load_log."""
        shop.write("logs/b.loom.jsonl", "")
        shop.write_test(
            "def test_it(loom):\n    with pytest.raises(ValueError, match='the file is empty'):\n"
            "        loom.load('logs/b.loom.jsonl')\n",
        )
        assert shop() == PASSED

    @pytest.mark.parametrize("golden", ["loom_golden", "loom.load('logs/a.loom.jsonl')"], ids=["golden", "loaded"])
    def test_the_markers_rules_apply(self, shop: Desk, golden: str) -> None:
        """diff compares under the marker's rules, whether the golden is the marker's or not; given ones add to them."""
        shop.write_test(
            "@pytest.mark.loom('logs/a.loom.jsonl', ignore=['output'])\ndef test_it(loom, loom_golden):\n"
            f"    golden = {golden}\n    today = shop.run('changed')\n"
            "    assert [d.kind for d in loom.diff(golden, today)] == ['step-output']\n"
            "    assert loom.diff(golden, today, ignore=['assess.output']) == []\n"
            "    assert loom.diff(golden, today, compare=['status']) == []\n"
            "    assert len(loom.diff(golden, shop.run(steps=('assess', 'pay')))) == 1\n",
        )
        assert shop() == PASSED

    def test_each_rule_reaches_the_comparison(self, shop: Desk) -> None:
        """Every rule that the marker takes is one of diff_runs, and does there what it says."""
        shop.log("logs/a.loom.jsonl", "r-1", "assess", output={"n": 100, "l": [1, 2], "t": "a"})
        shop.write_test(
            "def same(golden, today):\n    return golden.lower() == today.lower()\n\n"
            "@pytest.mark.loom('logs/a.loom.jsonl', tolerance={'abs': 1}, unordered=True, comparators={'**.t': same},\n"
            "    compare=['output', 'step-output'])\n"
            "def test_it(loom_golden):\n"
            "    today = shop.run({'n': 100.5, 'l': [2, 1], 't': 'A'}, ('assess', 'pay'))\n"
            "    assert diff_runs(loom_golden, today) == []\n"
            "    assert len(diff_runs(loom_golden, shop.run({'n': 102, 'l': [2, 9], 't': 'B'}))) >= 6\n",
        )
        assert shop() == PASSED

    def test_what_a_failed_comparison_says(self, shop: Desk) -> None:
        """The verdict, the golden's file, what changed by step, and the command that accepts it for this very test."""
        shop.write_test(
            "@pytest.mark.loom('logs/a.loom.jsonl')\nclass TestIt:\n"
            "    def test_it(self, loom_golden):\n        assert diff_runs(loom_golden, shop.run('changed')) == []\n\n"
            "    def test_turned(self, loom_golden):\n"
            "        assert [] == diff_runs(loom_golden, shop.run('changed'))\n\n"
            "@pytest.mark.loom(ignore=['x'])\ndef test_loaded(loom):\n"
            "    assert loom.diff(loom.load('logs/a.loom.jsonl'), shop.run('changed')) == []\n",
        )
        assert shop() == FAILED
        for name in ("test_it", "test_turned"):
            shop.result.stdout.fnmatch_lines(
                [
                    "E*refund/r-1: 2 differences from the golden run, in the outcome and step assess",
                    "E*golden: logs/a.loom.jsonl",
                    f"E*to accept the new run: pytest test_it.py::TestIt::{name} --loom-update",
                    "E*outcome",
                    'E*output  "done" -> "changed"',
                    "E*step assess",
                ]
            )
        assert sum("to accept" in line for line in shop.result.outlines) == 2, (
            "a log that was only loaded is not accepted"
        )

    def test_two_logs_are_not_compared_by_equality(self, shop: Desk) -> None:
        """assert golden == candidate fails with the way to compare them."""
        shop.write_test("def test_it(loom):\n    assert loom.load('logs/a.loom.jsonl') == shop.run()\n")
        assert shop() == FAILED
        shop.result.stdout.fnmatch_lines(
            ["E*two logs are never equal*", "E*write assert diff_runs(golden, candidate) == [[][]]"]
        )

    def test_scores(self, shop: Desk) -> None:
        """Scorers of the call, of the marker and of the hook, over a log or its state; each comes back by name."""
        shop.write("conftest.py", "def pytest_loom_scorers(config):\n    return {'hook': lambda state: 3}\n")
        shop.write_test(
            "def two(state):\n    return 2\n\n"
            "@pytest.mark.loom(scorers={'marker': lambda state: 1.5})\ndef test_it(loom):\n"
            "    run = shop.run()\n"
            "    for scores in (loom.score(run, [two]), loom.score(run.state, {'two': two})):\n"
            "        assert {name: scores[name].value for name in scores} == {'hook': 3, 'marker': 1.5, 'two': 2}\n"
            "    assert list(loom.score(run)) == ['hook', 'marker']\n",
        )
        assert shop() == PASSED

    def test_scores_that_are_too_low(self, shop: Desk) -> None:
        """A score under its threshold, and one that did not pass, fail the test with name, value and reason."""
        shop.write_test(
            "from pytest_loom import Score\n\n"
            "@pytest.mark.loom(thresholds={'steps': 2, 'late': 9})\ndef test_it(loom):\n"
            "    loom.score(shop.run(), {'steps': lambda s: Score(1, reason='one step'), 'late': lambda s: 8,\n"
            "        'ok': lambda s: True, 'not_ok': lambda s: False}, thresholds={'late': 8})\n",
        )
        assert shop() == FAILED
        shop.result.stdout.fnmatch_lines(
            ["2 of 4 scores are too low:", "  steps: 1, wanted 2 (one step)", "  not_ok: 0"], consecutive=True
        )

    def test_no_scorer_at_all(self, shop: Desk) -> None:
        """A score of nothing would be a test that cannot fail."""
        shop.write_test("def test_it(loom):\n    loom.score(shop.run())\n")
        assert shop() == FAILED
        shop.result.stdout.fnmatch_lines(["no scorer was given, and none proves nothing"])

    def test_a_threshold_for_no_scorer(self, shop: Desk) -> None:
        """A misspelt threshold would be one that is never missed."""
        shop.write_test(
            "@pytest.mark.loom(thresholds={'stepz': 2})\ndef test_it(loom):\n"
            "    loom.score(shop.run(), {'steps': lambda state: 1})\n",
        )
        assert shop() == FAILED
        shop.result.stdout.fnmatch_lines(["thresholds name scorers that do not exist: stepz (there are: steps)"])

    def test_a_threshold_overrides_a_verdict(self, shop: Desk) -> None:
        """With a threshold the number counts: a scorer that says no at 0.8 is good enough where 0.7 is asked for."""
        shop.write_test(
            "from pytest_loom import Score\n\ndef test_it(loom):\n"
            "    scores = loom.score(shop.run(), {'x': lambda s: Score(0.8, passed=False)}, thresholds={'x': 0.7})\n"
            "    assert scores['x'].value == 0.8\n",
        )
        assert shop() == PASSED

    def test_simulate_deploy(self, shop: Desk) -> None:
        """Against the configured flows, the fixture's or given ones, with the checks of the hook."""
        shop.write(
            "conftest.py",
            "from pytest_loom.deploy.report import finding\n\n"
            "def look(log, contract):\n    yield finding(log, 'look', 'm', 'h', severity='info')\n\n"
            "def pytest_loom_checks(config):\n    return [look]\n",
        )
        shop.write_test(
            "import app\n\ndef codes(report):\n    return [found.code for found in report.findings]\n\n"
            "def test_configured(loom):\n    assert codes(loom.simulate_deploy('logs/*.loom.jsonl')) == ['look']\n\n"
            "def test_given(loom):\n"
            "    assert codes(loom.simulate_deploy([shop.run()], app.renamed)) == ['step-removed', 'look']\n"
            "    assert codes(loom.simulate_deploy(shop.run(), {})) == ['flow-missing']\n"
            "    assert loom.simulate_deploy('logs', app.renamed, scope='in-flight').ok\n\n"
            "class TestOverridden:\n    @pytest.fixture\n    def loom_flows(self):\n        return {}\n\n"
            "    def test_it(self, loom):\n"
            "        assert codes(loom.simulate_deploy('logs/a.loom.jsonl')) == ['flow-missing']\n",
        )
        assert shop() == PASSED
        assert shop.counts == {"passed": 3}


class TestLoomFlows:
    def test_what_it_gives(self, shop: Desk) -> None:
        """In an ordinary test, what the setting names."""
        shop.write_test("import app\n\ndef test_it(loom_flows):\n    assert loom_flows is app.flows\n")
        assert shop() == PASSED

    @pytest.mark.parametrize(
        ("flows", "says"),
        [
            ("", "loom_flows is not set: against which code should recorded runs be held?"),
            ("nowhere:flows", "loom_flows = nowhere:flows: importing nowhere raised ModuleNotFoundError: *"),
            ("a/* = app:flows\n    b/* = app:renamed", "loom_flows names several applications."),
        ],
        ids=["unset", "missing", "several"],
    )
    def test_where_there_are_none(self, shop: Desk, flows: str, says: str) -> None:
        """The test that asks fails with the reason and what to do, and without our own traceback."""
        shop.write("pytest.ini", f"[pytest]\npythonpath = .\nloom_flows =\n    {flows}\n")
        shop.write_test("def test_it(loom_flows):\n    pass\n\ndef test_beside():\n    pass\n")
        assert shop() == FAILED
        assert shop.counts == {"errors": 1, "passed": 1}
        shop.result.stdout.fnmatch_lines([says])
        shop.result.stdout.no_fnmatch_line("*Traceback*")
