"""docs/ci.md is true: its workflows, commands and settings are run on the example, its words held against the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from pytest_loom.cli import _COMMANDS
from pytest_loom.report.forms import FORMS
from pytest_loom.report.json import write_json
from pytest_loom.report.markdown import LIMIT, MARKER
from pytest_loom.report.merge import merge_files
from tests.ci.conftest import V2, Runner, filled
from tests.ci.test_action import ACTION, SIMULATE
from tests.ci.test_pre_commit import HOOKS
from tests.pages import BLOCKS, PAGES, assert_shows, line, printed, write

PAGE = PAGES["docs/ci.md"]
TAKEN = {
    "test_the_command": ("ci-command",),
    "test_the_action": ("ci-github-action",),
    "test_steps_of_ones_own": ("ci-github-steps",),
    "test_gitlab": ("ci-gitlab",),
    "test_junit": ("ci-junit", "ci-junit-output"),
    "test_shards": ("ci-shards", "ci-shards-gitlab"),
    "test_acknowledgements": ("ci-acks-setting", "ci-acks"),
    "test_contracts_of_the_deploy": ("ci-capture",),
    "test_hooks": ("ci-pre-commit",),
}
"""Which test runs or compares which blocks."""

JUNIT = "--junitxml=junit.xml"


def parsed(name: str) -> Any:
    """The YAML of a block."""
    return yaml.safe_load(BLOCKS[name].text)


def scripts(job: Any) -> list[str]:
    """What a job of GitHub Actions runs itself."""
    return [step["run"] for step in job["steps"] if "run" in step]


def break_flows(runner: Runner) -> None:
    """Let the settings name the version of the example that breaks runs."""
    file = runner.checkout / "pyproject.toml"
    file.write_text(file.read_text().replace("refund_desk.contracts", "refund_desk_v2.contracts"))


def test_the_command(runner: Runner) -> None:
    """The first command writes what it names, in all of the forms that the table lists."""
    done = runner.run(line("ci-command"), runner.environment())
    assert done.returncode == 0, done.stdout
    assert all((runner.checkout / name).is_file() for name in ("loom.md", "loom.sarif", "junit.xml"))
    table = set(re.findall(r"^\| `\*(\.[\w.]+)` \|", PAGE, re.M))
    assert table <= set(FORMS), "a form that is not there"
    assert {*FORMS.values()} == {FORMS[suffix] for suffix in table}
    assert f"at most {LIMIT // 1000} kB" in PAGE
    assert f"`{MARKER} -->`" in PAGE


def test_the_action(runner: Runner) -> None:
    """The workflow gives the action inputs that it has, and code scanning a file that it writes."""
    (job,) = parsed("ci-github-action")["jobs"].values()
    (ours,) = (step for step in job["steps"] if "pytest-loom" in step.get("uses", ""))
    assert set(ours["with"]) == set(ACTION["inputs"])
    environment = runner.github(INSTALL=ours["with"]["install"], ARGS=ours["with"]["args"])
    assert runner.run(SIMULATE["run"], environment).returncode == 0
    assert runner.pip_log.read_text() == "-m pip install -r requirements.txt\n"
    upload = job["steps"][-1]
    file = f"steps.{ours['id']}.outputs.sarif"
    assert filled(upload["with"]["sarif_file"], {file: str(runner.outputs["sarif"])}) == str(runner.outputs["sarif"])
    assert f"!cancelled() && {file}" in upload["if"]


def test_steps_of_ones_own(runner: Runner) -> None:
    """The steps install, simulate and fill the summary, which a red simulation does not keep from being filled."""
    (job,) = parsed("ci-github-steps")["jobs"].values()
    install, simulate, summary = scripts(job)
    break_flows(runner)
    assert [runner.run(one, runner.github()).returncode for one in (install, simulate, summary)] == [0, 1, 0]
    assert job["steps"][-1]["if"] == "${{ !cancelled() }}"
    assert runner.summary.read_text().splitlines()[1].startswith("## NOT SAFE TO DEPLOY")


def test_gitlab(runner: Runner) -> None:
    """The script writes the artifacts that GitLab is told to read; severities are as the page says."""
    (job,) = parsed("ci-gitlab").values()
    break_flows(runner)
    environment = runner.environment(CI_PROJECT_DIR=str(runner.checkout), GITLAB_CI="true")
    statuses = [runner.run(one, environment).returncode for one in job["script"]]
    assert (statuses, job["artifacts"]["when"]) == ([0, 1], "always")
    assert all((runner.checkout / file).is_file() for file in job["artifacts"]["reports"].values())
    issues = json.loads((runner.checkout / job["artifacts"]["reports"]["codequality"]).read_bytes())
    assert all((runner.checkout / issue["location"]["path"]).is_file() for issue in issues)
    severities = {issue["check_name"]: issue["severity"] for issue in issues}
    assert severities == {"step-removed": "blocker", "flow-missing": "blocker", "suspended-carryover": "minor"}
    assert "A breaking cause is a `blocker`, a warning `minor`, what somebody accepted `info`." in PAGE


def test_junit(runner: Runner) -> None:
    """The script reads the XML of a run of the example and prints what the page shows."""
    environment = runner.environment()
    command = f"python -m pytest -k deploy-sim --loom-deploy-sim {V2['args']} {JUNIT}"
    assert runner.run(command, environment).returncode == 1
    assert_shows(BLOCKS["ci-junit-output"].text, printed("ci-junit", runner.checkout))


def test_shards(runner: Runner) -> None:
    """The parts, on GitHub and GitLab alike, are merged to what one job finds."""
    jobs = parsed("ci-shards")["jobs"]
    break_flows(runner)
    shards = jobs["part"]["strategy"]["matrix"]["shard"]
    install, simulate = scripts(jobs["part"])
    assert runner.run(install, runner.github()).returncode == 0
    codes = [runner.run(filled(simulate, {"matrix.shard": str(one)}), runner.github()).returncode for one in shards]
    assert set(codes) <= {0, 1}
    assert 1 in codes
    parts = sorted(runner.checkout.glob("loom-*.json"))
    assert len(parts) == len(shards)
    whole = "python -m pytest -k deploy-sim --loom-deploy-sim --loom-report=whole.json --loom-report=whole.md"
    runner.run(whole, runner.github())
    report, ok, numbers = merge_files(parts)
    write_json(report, runner.checkout / "merged.json", ok=ok, extra=numbers)
    assert (runner.checkout / "merged.json").read_bytes() == (runner.checkout / "whole.json").read_bytes()
    for part in parts:
        environment = runner.environment(CI_NODE_INDEX=part.stem[-1], CI_NODE_TOTAL=str(len(shards)))
        before = part.read_bytes()
        runner.run(line("ci-shards-gitlab"), environment)
        assert part.read_bytes() == before
    _, merge, summary = scripts(jobs["whole"])
    if "merge" in _COMMANDS:  # else the command is on its way
        assert runner.run(merge, runner.github()).returncode == 1
        assert (runner.checkout / "loom.md").read_bytes() == (runner.checkout / "whole.md").read_bytes()
        assert runner.run(summary, runner.github()).returncode == 0


def test_acknowledgements(runner: Runner) -> None:
    """The setting names the file of the page, which takes the weight off one of the two causes."""
    break_flows(runner)
    setting = BLOCKS["ci-acks-setting"].text.splitlines()[-1]
    file = runner.checkout / "pyproject.toml"
    file.write_text(file.read_text().replace("[tool.pytest.ini_options]\n", f"[tool.pytest.ini_options]\n{setting}\n"))
    write("ci-acks", runner.checkout)
    assert runner.run(line("ci-command"), runner.environment()).returncode == 1
    text = (runner.checkout / "loom.md").read_text()
    assert text.splitlines()[1].startswith("## NOT SAFE TO DEPLOY: 1 of 12 runs would break, ")
    assert "6 acknowledged" in text
    assert "acknowledged by mia@&#8203;example.org until 2099-12-31: the open ones are finished by hand" in text


def test_contracts_of_the_deploy(runner: Runner) -> None:
    """The command keeps today's contracts and writes nothing else; the Markdown report gives the same command."""
    before = {file for file in runner.checkout.rglob("*") if file.is_file()}
    done = runner.run(line("ci-capture"), runner.environment())
    assert done.returncode == 0, done.stdout
    new = {file.relative_to(runner.checkout) for file in runner.checkout.rglob("*") if file.is_file()} - {
        file.relative_to(runner.checkout) for file in before
    }
    assert new
    assert {Path(file).parts[0] for file in new} == {"loom-contracts"}
    runner.run(line("ci-command"), runner.environment())
    assert line("ci-capture") in (runner.checkout / "loom.md").read_text().splitlines()


def test_hooks() -> None:
    """The configuration names the hooks that there are."""
    (repo,) = parsed("ci-pre-commit")["repos"]
    assert [hook["id"] for hook in repo["hooks"]] == list(HOOKS)
