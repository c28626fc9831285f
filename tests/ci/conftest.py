"""A place in which the scripts of CI files run as a CI runner runs them: bash, a checkout, and nothing from outside."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.pages import ROOT

SHIM = """#!/bin/sh
case "$1 $2" in "-m pip") printf '%s\\n' "$*" >> {log}; exit 0;; esac
exec {python} "$@"
"""
"""In place of ``python``: packages are not installed, but said."""

GH = """#!{python}
import json, os, sys
words = sys.argv[1:]
file = next((word.partition("@")[2] for word in words if word.startswith("body=@")), None)
text = open(file, encoding="utf-8").read() if file else None
with open({log!r}, "a", encoding="utf-8") as log:
    log.write(json.dumps({{"words": words, "body": text, "token": os.environ.get("GH_TOKEN")}}) + "\\n")
if "--paginate" in words:
    print(os.environ.get("COMMENTS", ""), end="")
sys.exit(int(os.environ.get("GH_STATUS", "0")))
"""
"""In place of GitHub's command line: writes down what it is asked."""


class Runner:
    """Runs scripts in ``checkout``, a copy of example_project under git's name; ``installed`` and ``asked`` say what
    pip and gh were told."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.temp = folder / "runner temp"
        self.bin = folder / "bin"
        for made in (self.temp, self.bin):
            made.mkdir()
        ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
        shutil.copytree(ROOT / "example_project", self.checkout, ignore=ignore)
        (self.checkout / ".git").mkdir()
        self.summary, self.output = self.temp / "summary.md", self.temp / "output"
        python = shlex.quote(sys.executable)
        self.pip_log, self.gh_log = self.temp / "pip.log", self.temp / "gh.log"
        self.write("python", SHIM.format(log=shlex.quote(str(self.pip_log)), python=python))
        self.write("gh", GH.format(log=str(self.gh_log), python=sys.executable))
        self.write("pytest-loom", f'#!/bin/sh\nexec {python} -m pytest_loom "$@"\n')

    def write(self, name: str, text: str) -> None:
        """A program in front of all others."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        """What a runner sets, and no plugin but those that an installation of pytest-loom brings."""
        loose = ("PYTEST_", "LOOM_", "GITHUB_", "CI")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(loose)}
        return clean | {
            "CI": "true",
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p pytest_loom.plugin -p syrupy -p no:cacheprovider",
            "RUNNER_TEMP": str(self.temp),
            **more,
        }

    def github(self, **more: str) -> dict[str, str]:
        """The environment of a step of GitHub Actions."""
        facts = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(self.checkout), "GITHUB_REPOSITORY": "ann/refunds"}
        facts |= {"GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_OUTPUT": str(self.output)}
        return self.environment(**facts, **more)

    def run(self, script: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a script as GitHub's ``shell: bash`` does."""
        file = self.temp / "script.sh"
        file.write_text(script)
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)]
        return subprocess.run(
            command, cwd=self.checkout, env=dict(environment), capture_output=True, text=True, timeout=120
        )

    @property
    def outputs(self) -> dict[str, Path]:
        """What the step said to those that follow it."""
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return {name: Path(value) for name, _, value in (line.partition("=") for line in lines)}


def filled(text: str, values: Mapping[str, str]) -> str:
    """A script with the expressions of GitHub filled in; one that is not among the values is a KeyError."""
    return re.sub(r"\$\{\{ *(.*?) *\}\}", lambda match: values[match[1]], text)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner with a checkout of its own."""
    assert shutil.which("bash"), "the scripts of CI files are run by bash"
    return Runner(tmp_path)


V2: dict[str, Any] = {"args": "-o loom_flows=refund_desk_v2.contracts:flows"}
"""The version of the example that breaks runs."""
