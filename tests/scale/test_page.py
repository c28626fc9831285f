"""docs/scale.md is true: its corpus is made, its commands and scripts are run, its numbers held against the code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_loom.deploy.parts import LARGE
from pytest_loom.deploy.rows import IN_MEMORY
from pytest_loom.deploy.unchanged import SMALL
from pytest_loom.log.read import WHOLE_FILE
from tests.pages import BLOCKS, PAGES, assert_shows, line, printed, run, write

PAGE = PAGES["docs/scale.md"]
TAKEN = {
    "project": ("scale-app", "scale-logs", "scale-settings"),
    "test_the_command": ("scale-command", "scale-report"),
    "test_more_cores": ("scale-xdist", "scale-jobs"),
    "test_an_executor": ("scale-executor", "scale-executor-output"),
    "script": ("scale-dask",),  # by tests/scale/test_dask.py
    "test_more_machines": ("scale-shards",),
}
"""Which test runs or compares which blocks."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The page's corpus with its flows and settings."""
    for name in ("scale-app", "scale-settings"):
        write(name, tmp_path)
    printed("scale-logs", tmp_path)
    return tmp_path


def test_the_command(project: Path) -> None:
    """It says what the page shows."""
    done = run(line("scale-command"), project)
    assert done.returncode == 1, done.stderr
    assert_shows(BLOCKS["scale-report"].text, done.stdout)


def test_more_cores(project: Path) -> None:
    """Workers of pytest-xdist and processes of the command write the same bytes as one session."""
    run(line("scale-command"), project)
    alone = (project / "loom.json").read_bytes()
    for command in (f"{line('scale-xdist')} -p xdist.plugin", line("scale-jobs")):
        (project / "loom.json").unlink()
        done = run(command, project)
        assert done.returncode == 1, done.stdout + done.stderr
        assert (project / "loom.json").read_bytes() == alone


def script(name: str, project: Path) -> str:
    """What a script of the page prints, its own folder the first on the path."""
    write(name, project)
    file = BLOCKS[name].text.partition("\n")[0].removeprefix("# ")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, file]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_executor(project: Path) -> None:
    """The script prints what the page shows."""
    assert script("scale-executor", project) == BLOCKS["scale-executor-output"].text


def test_more_machines(project: Path) -> None:
    """The shards, merged, are what one job writes."""
    run(line("scale-command"), project)
    *shards, merge = BLOCKS["scale-shards"].text.splitlines()
    for command in (*shards, merge):
        assert run(command, project).returncode in (0, 1)
    summary = json.loads((project / "merged.json").read_bytes())["summary"]
    assert (summary["runs"], summary["logs"]) == (4000, 8)
    assert (project / "merged.json").read_bytes() == (project / "loom.json").read_bytes()


def test_numbers() -> None:
    """What the page says of sizes is what the code has."""
    assert f"more than {SMALL // 1024} KB" in PAGE
    assert f"a file of {LARGE // 1024**2} MB or more" in PAGE
    assert f"the first {IN_MEMORY:,} are in memory" in PAGE
    assert f"Files of up to {WHOLE_FILE // 1024**2} MB" in PAGE
