"""action.yml: its scripts, run as a runner of GitHub Actions runs them, on a project that is green and on a red one."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_loom.report.markdown import MARKER
from tests.ci.conftest import V2, Runner
from tests.pages import ROOT

ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SIMULATE, COMMENT = (step for step in ACTION["runs"]["steps"] if "run" in step)


def test_what_an_action_needs() -> None:
    """A name, documented inputs with defaults, outputs of the step that is there, bash for every script."""
    assert ACTION["runs"]["using"] == "composite"
    assert list(ACTION["inputs"]) == ["python-version", "install", "args", "comment"]
    assert all(one["description"] and "default" in one for one in ACTION["inputs"].values())
    forms = {one["value"] for one in ACTION["outputs"].values()}
    assert forms == {f"${{{{ steps.{SIMULATE['id']}.outputs.{form} }}}}" for form in ("md", "sarif", "json")}
    assert [step["shell"] for step in (SIMULATE, COMMENT)] == ["bash", "bash"]


def test_no_input_becomes_a_part_of_a_script() -> None:
    """Inputs reach scripts through the environment, where they are no code."""
    for step in (SIMULATE, COMMENT):
        assert "${{" not in step["run"]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def simulate(runner: Runner, *, install: str = "", args: str = "") -> Any:
    """Run the step that simulates."""
    assert set(SIMULATE["env"]) == {"INSTALL", "ARGS"}
    return runner.run(SIMULATE["run"], runner.github(INSTALL=install, ARGS=args))


class TestSimulate:
    def test_green(self, runner: Runner) -> None:
        """The step passes, the summary is the Markdown report, and every form is there for the steps that follow."""
        done = simulate(runner)
        assert done.returncode == 0, done.stdout + done.stderr
        assert runner.summary.read_text().startswith(MARKER)
        assert list(runner.outputs) == ["md", "sarif", "json"]
        assert json.loads(runner.outputs["json"].read_bytes())["ok"] is True
        assert not runner.pip_log.exists()

    def test_red(self, runner: Runner) -> None:
        """The step fails with pytest's status once the summary is written; annotations name files of the checkout."""
        done = simulate(runner, **V2)
        assert done.returncode == 1, done.stdout + done.stderr
        assert runner.summary.read_text().splitlines()[1].startswith("## NOT SAFE TO DEPLOY: 7 of 12 runs")
        errors = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
        files = [match[1] for line in errors if (match := re.search(r"file=([^,]+)", line))]
        assert len(files) == 2
        assert all((runner.checkout / file).is_file() for file in files)
        assert runner.outputs["sarif"].is_file()

    def test_words(self, runner: Runner) -> None:
        """Quotes in args hold words together; nothing in them is expanded or run."""
        args = "-k deploy-sim -o 'loom_logs=tests/logs/*.loom.jsonl\nnone/$(touch ran)/*' \"--deselect=`touch ran`\""
        done = simulate(runner, args=args)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(runner.outputs["json"].read_bytes())["summary"]["logs"] == 6
        assert not list(runner.checkout.rglob("ran"))

    def test_installing(self, runner: Runner) -> None:
        """What is to be installed is given to pip word by word."""
        assert simulate(runner, install="-r 'my requirements.txt' .[test]", args="-k nothing").returncode == 5
        assert runner.pip_log.read_text() == "-m pip install -r my requirements.txt .[test]\n"

    @pytest.mark.parametrize("args", ["--loom-scope=none", "'an open quote", "--no-such-option"])
    def test_usage_errors(self, runner: Runner, args: str) -> None:
        """What pytest or the shell's rules do not take fails the step, with nothing that looks like a report."""
        done = simulate(runner, args=args)
        assert done.returncode not in (0, 1) or "No closing quotation" in done.stderr
        assert done.returncode != 0
        assert runner.outputs == {}
        assert not runner.summary.exists()

    def test_twice_in_a_job(self, runner: Runner) -> None:
        """The files of the first use are still there after the second."""
        simulate(runner)
        first = runner.outputs
        runner.output.unlink()
        simulate(runner, **V2)
        assert runner.outputs["json"] != first["json"]
        assert json.loads(first["json"].read_bytes())["ok"] is True


class TestComment:
    @staticmethod
    def comment(runner: Runner, **more: str) -> tuple[Any, list[dict[str, Any]]]:
        """Run the step that comments; what it printed, and what it asked GitHub."""
        report = runner.temp / "report.md"
        report.write_text(f"{MARKER} -->\n## Fine\n")
        assert set(COMMENT["env"]) == {"GH_TOKEN", "NUMBER", "REPORT"}
        done = runner.run(COMMENT["run"], runner.github(GH_TOKEN="token", NUMBER="12", REPORT=str(report), **more))
        assert done.returncode == 0, done.stderr
        return done, [json.loads(line) for line in runner.gh_log.read_text().splitlines()]

    def test_the_first(self, runner: Runner) -> None:
        """Where there is none of ours a comment is made, of the whole report."""
        _, (looked, made) = self.comment(runner)
        assert looked["words"][:3] == ["api", "--paginate", "repos/ann/refunds/issues/12/comments"]
        assert made["words"][:5] == ["api", "--silent", "--method", "POST", "repos/ann/refunds/issues/12/comments"]
        assert made["body"] == f"{MARKER} -->\n## Fine\n"
        assert {looked["token"], made["token"]} == {"token"}

    def test_the_next(self, runner: Runner) -> None:
        """The first comment of ours is brought up to date, and no other is made."""
        _, asked = self.comment(runner, COMMENTS="17\n18\n")
        assert [one["words"][3:5] for one in asked[1:]] == [["PATCH", "repos/ann/refunds/issues/comments/17"]]

    def test_which_is_ours(self, runner: Runner) -> None:
        """Only a bot's comment that begins with the marker is ever written over."""
        _, asked = self.comment(runner)
        (choice,) = (word for word in asked[0]["words"] if "select" in word)
        assert '.user.type == "Bot"' in choice
        assert f'startswith("{MARKER}")' in choice

    def test_without_the_permission(self, runner: Runner) -> None:
        """A job of a fork may not comment: that is a warning, and the verdict stays what it is."""
        done, _ = self.comment(runner, GH_STATUS="1")
        assert done.stdout.startswith("::warning title=pytest-loom::No comment was written.")

    def test_when(self) -> None:
        """Only where it is asked for, in a pull request, and after a red simulation too."""
        assert COMMENT["if"] == (
            "${{ !cancelled() && inputs.comment == 'true' && github.event.pull_request && steps.simulate.outputs.md }}"
        )


def test_the_scripts_are_those_of_the_oldest_bash() -> None:
    """macOS has bash 3.2: no mapfile, no associative arrays, no ${name,,}."""
    for step in (SIMULATE, COMMENT):
        assert not re.search(r"mapfile|readarray|declare -A|,,\}|\^\^\}|\|&", step["run"])
        assert shlex.split(step["run"], comments=True)
    assert Path(ROOT / "action.yml").read_bytes().count(b"\r") == 0
