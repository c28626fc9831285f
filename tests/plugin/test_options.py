"""Flags and settings: what they take, and that one which makes no sense is one usage error before anything runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
REPORT = "--loom-report=report.json"
PASSED, FAILED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR


class TestUsage:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--loom-scope=everything"], "*argument --loom-scope: invalid choice: 'everything'*"),
            (
                ["--loom-report=report.pdf"],
                "ERROR: --loom-report=report.pdf: the form is told by the suffix, one of *.json, *",
            ),
            (["--loom-report=md"], "ERROR: --loom-report=md: the form is told by the suffix*"),
            (["--loom-report=report"], "ERROR: --loom-report=report: the form is told by the suffix, one of *"),
            (["-o", "loom_flows=app"], "ERROR: loom_flows: 'app' is not module:attr"),
            (["-o", "loom_flows=:flows"], "ERROR: loom_flows: ':flows' is not module:attr"),
            (["-o", "loom_flows=app:"], "ERROR: loom_flows: 'app:' is not module:attr"),
            (
                ["-o", "loom_flows=a:b\nc:d"],
                "ERROR: loom_flows: 'a:b' is not module:attr, and several lines have to be *",
            ),
            (["-o", "loom_flows=*.jsonl = app"], "ERROR: loom_flows: '[*].jsonl = app' is not module:attr"),
        ],
        ids=["scope", "suffix", "another-form", "no-suffix", "no-attribute", "no-module", "empty", "lines", "glob"],
    )
    def test_what_makes_no_sense(self, desk: Desk, options: list[str], says: str) -> None:
        """It is said with the setting's name, and no test runs."""
        desk.write("test_plain.py", "def test_plain():\n    pass\n")
        assert desk(*options) == USAGE
        desk.result.stderr.fnmatch_lines([says])
        desk.result.stdout.no_fnmatch_line("*collected*")

    def test_the_flags_are_explained(self, desk: Desk) -> None:
        """pytest --help has a group of ours with each flag and setting."""
        assert desk("--help") == PASSED
        text = desk.result.stdout.str()
        for name in (
            "--loom-deploy-sim",
            "--loom-scope",
            "--loom-report",
            "--loom-update",
            "loom_logs",
            "loom_flows",
            "loom_acks",
        ):
            assert name in text
        assert "pytest-loom: the recorded log is the fixture" in text


FILES = [
    pytest.param(
        "pyproject.toml",
        '[tool.pytest.ini_options]\npythonpath = ["."]\nloom_logs = ["logs/*.loom.jsonl"]\nloom_flows = "app:flows"\n'
        'loom_acks = "acks.toml"\n',
        id="pyproject",
    ),
    pytest.param(
        "tox.ini",
        "[pytest]\npythonpath = .\nloom_logs =\n    logs/*.loom.jsonl\n    # a comment\nloom_flows = app:flows\n"
        "loom_acks = acks.toml\n",
        id="ini",
    ),
]
if int(pytest.__version__.split(".")[0]) >= 9:  # pytest 8 does not read [tool.pytest]
    FILES.append(
        pytest.param(
            "pyproject.toml",
            '[tool.pytest]\npythonpath = ["."]\nloom_logs = ["logs/*.loom.jsonl"]\nloom_flows = "app:flows"\n'
            'loom_acks = "acks.toml"\nstrict = true\n',
            id="native",
        )
    )


class TestConfiguration:
    @pytest.mark.parametrize(("name", "text"), FILES)
    def test_every_file_that_pytest_reads(self, desk: Desk, name: str, text: str) -> None:
        """Logs, flows and acknowledgements, from pyproject.toml in either spelling and from an ini file."""
        (desk.path / "pytest.ini").unlink()
        desk.write(name, text)
        desk.log("logs/a.loom.jsonl", "r-1", "gone")
        desk.log("other/b.loom.jsonl", "r-2", "gone")
        desk.write(
            "acks.toml",
            '[[ack]]\ncode = "step-removed"\nflow = "*"\nowner = "ann"\nreason = "known"\nexpires = 9999-01-01\n',
        )
        assert desk(SIM, REPORT) == PASSED
        assert (desk.report["summary"]["logs"], desk.report["summary"]["acknowledged"]) == (1, 1)

    def test_several_applications_in_toml(self, desk: Desk) -> None:
        """Lines of GLOB = module:attr are one text of several lines."""
        (desk.path / "pytest.ini").unlink()
        desk.write(
            "pyproject.toml",
            '[tool.pytest.ini_options]\npythonpath = ["."]\nloom_flows = """\nlogs/a.* = app:flows\n'
            'logs/b.* = app:renamed\n"""\n',
        )
        desk.log("logs/a.loom.jsonl", "r-1", "assess")
        desk.log("logs/b.loom.jsonl", "r-2", "assess_risk")
        assert desk(SIM) == PASSED

    def test_without_any_file(self, desk: Desk) -> None:
        """Without a configuration everything starts from the root directory, and -o does for settings."""
        (desk.path / "pytest.ini").unlink()
        desk.log("logs/a.loom.jsonl", "r-1", "assess")
        assert desk.apart(SIM, REPORT, "-o", "loom_flows=app:flows") == PASSED
        assert desk.report["summary"]["logs"] == 1

    def test_a_setting_on_the_command_line(self, desk: Desk) -> None:
        """-o replaces what the file says."""
        desk.log("logs/a.loom.jsonl", "r-1", "assess")
        assert desk(SIM, "-o", "loom_flows=app:renamed") == FAILED
        assert desk(SIM, "-o", "loom_flows=app:flows") == PASSED

    def test_logs_and_flows_are_named_in_the_header(self, desk: Desk) -> None:
        """The header says what is going to be held against what, and says nothing without a simulation."""
        desk.log("logs/a.loom.jsonl")
        desk(SIM)
        assert "loom: deploy simulation of 1 log file against app:flows" in desk.result.outlines
        desk(SIM, "-o", "loom_flows=")
        assert "loom: deploy simulation of 1 log file against the loom_flows fixture" in desk.result.outlines
        desk()
        desk.result.stdout.no_fnmatch_line("loom:*")

    def test_a_relative_report_is_written_where_one_stands(self, desk: Desk) -> None:
        """--loom-report is a path of the shell, unlike the settings, which belong to their file."""
        desk.log("logs/a.loom.jsonl")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(desk.path / "logs")
            desk(SIM, REPORT)
        assert (desk.path / "logs/report.json").exists()

    def test_log_patterns(self, desk: Desk) -> None:
        """A file, a glob, a folder and a path from above: each log once, however often it is named."""
        desk.log("logs/a.loom.jsonl")
        desk.log("logs/deep/b.loom.jsonl", "r-2")
        patterns = [
            "logs/a.loom.jsonl",
            "logs/*.jsonl",
            "logs",
            "**/*.loom.jsonl",
            f"{desk.path}/logs/deep/../a.loom.jsonl",
        ]
        desk.ini("loom_logs =", *(f"    {pattern}" for pattern in patterns))
        assert desk(SIM, REPORT) == PASSED
        assert desk.report["summary"]["logs"] == 2


def test_an_application_beside_the_configuration_is_found(desk: Desk) -> None:
    """Also by the bare ``pytest`` command, which unlike ``python -m pytest`` does not look where it was started."""
    desk.write("pytest.ini", "[pytest]\nloom_flows = beside:flows\n")
    desk.write("beside.py", "flows = {'refund': {'workflowId': 'refund'}}\n")
    desk.log("logs/a.loom.jsonl")
    elsewhere = "sys.path[:] = [path for path in sys.path if path not in ('', os.getcwd())]"
    entry = f"import os, sys, pytest; {elsewhere}; sys.exit(pytest.main(sys.argv[1:]))"
    plugins = ("-p", "pytest_loom.plugin", "-p", "no:cacheprovider", "--import-mode=importlib")
    desk.pytester.run(sys.executable, "-c", entry, *plugins, "--loom-deploy-sim").assert_outcomes(passed=1)
