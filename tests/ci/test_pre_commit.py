""".pre-commit-hooks.yaml: its commands, run as pre-commit runs them, on the files that it would choose."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from pytest_loom.cli import _COMMANDS
from tests.ci.conftest import Runner
from tests.pages import ROOT

HOOKS: Any = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def run(runner: Runner, hook: str, *files: str) -> subprocess.CompletedProcess[str]:
    """Run a hook's command."""
    command = " ".join([HOOKS[hook]["entry"], *map(str, files)])
    return runner.run(command, runner.environment())


def test_what_a_hook_needs() -> None:
    """An id, a name, a command, how it is to be run, and for which files."""
    assert list(HOOKS) == ["loom-deploy-sim", "loom-scan"]
    for hook in HOOKS.values():
        assert {"id", "name", "description", "entry", "language", "files"} <= hook.keys()


@pytest.mark.parametrize(
    ("hook", "chosen", "left"),
    [
        (
            "loom-deploy-sim",
            [
                "app/flows.py",
                "logs/a.loom.jsonl",
                "a.loom.jsonl.gz",
                "pyproject.toml",
                "x/pytest.ini",
                "loom-acks.toml",
            ],
            ["README.md", "a.jsonl", "uv.lock", "data.json", "xpyproject.toml"],
        ),
        (
            "loom-scan",
            ["logs/a.loom.jsonl", "a.loom.jsonl.gz", "__snapshots__/x.loomrun"],
            ["app.py", "a.jsonl", "x.partial"],
        ),
    ],
)
def test_which_files(hook: str, chosen: list[str], left: list[str]) -> None:
    """A hook runs for the files that can change its verdict, and for no other (pre-commit searches the pattern)."""
    pattern = HOOKS[hook]["files"]
    assert [name for name in chosen + left if re.search(pattern, name)] == chosen


def test_a_simulation(runner: Runner) -> None:
    """The command judges the recorded runs and nothing else: green as it is, red where a step was renamed."""
    assert HOOKS["loom-deploy-sim"]["pass_filenames"] is False
    done = run(runner, "loom-deploy-sim")
    assert done.returncode == 0, done.stdout
    assert "no breaking change found for 12 runs" in done.stdout
    assert "12 passed" in done.stdout
    settings = runner.checkout / "pyproject.toml"
    settings.write_text(settings.read_text().replace("refund_desk.contracts", "refund_desk_v2.contracts"))
    done = run(runner, "loom-deploy-sim")
    assert done.returncode == 1
    assert "NOT SAFE TO DEPLOY: 7 of 12 runs" in done.stdout


def test_a_scan(runner: Runner) -> None:
    """The command is one of pytest-loom's; a golden without secrets passes, one with a key fails."""
    words = HOOKS["loom-scan"]["entry"].split()
    assert words == ["pytest-loom", "scan"]
    if "scan" not in _COMMANDS:
        return  # the command is on its way
    clean = "tests/logs/refund-waiting.loom.jsonl"
    done = run(runner, "loom-scan", clean)
    assert done.returncode == 0, done.stdout + done.stderr
    log = (runner.checkout / clean).read_text()
    leaky = runner.checkout / "leaky.loom.jsonl"
    leaky.write_text(log.replace('"order":', '"key":"sk-proj-' + "a1B2c3D4" * 6 + '","order":', 1))
    assert leaky.read_text() != log
    assert run(runner, "loom-scan", clean, "leaky.loom.jsonl").returncode == 1
