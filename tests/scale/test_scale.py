"""A large corpus from end to end: simulated under a memory ceiling, killed midway, resumed, sharded, merged, compared.

``LOOM_SCALE`` says of how many runs of about 2 kB (5,000 without it): 100,000 is what CI takes, 1,000,000 are 2 GB.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import STEPS, write_corpus

RUNS = int(os.environ.get("LOOM_SCALE", "5000"))
FILES = 10
CEILING = 256
"""MiB that a session may take, however many runs there are."""

FAILED, INTERRUPTED = 1, 2
APP = f"""
import os, signal

def get_flow(workflow_id, version=None):
    if workflow_id == os.environ.get("STOP_AT"):  # the run in the middle of one file is of this flow
        os.kill(os.getpid(), getattr(signal, os.environ["STOP_BY"]))
    steps = {{f"step-{{number}}": {{}} for number in range({STEPS})}}
    return {{"workflowId": workflow_id, "steps": steps, "gates": {{"Approved": {{}}}}}}
"""
CONFTEST = """
import resource
from pathlib import Path
import pytest_loom.deploy.simulate as module

judge = module.simulate_share

def judged(*args, **rules):
    with open("judged.txt", "a") as file:
        file.write("x")
    return judge(*args, **rules)

module.simulate_share = judged

def pytest_unconfigure(config):
    status = Path("/proc/self/status")  # as ru_maxrss counts what the process was before it became this one
    if status.exists():
        peak = next(int(line.split()[1]) for line in status.open() if line.startswith("VmHWM"))
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path("peak.txt").write_text(str(peak))
"""


class Project:
    """An application with its recorded runs, and the sessions that simulate them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.output = ""
        (path / "logs").mkdir()
        write_corpus(path / "logs", RUNS, FILES)
        (path / "app.py").write_text(APP)
        (path / "conftest.py").write_text(CONFTEST)
        (path / "pytest.ini").write_text("[pytest]\nloom_logs = logs/*.loom.jsonl\nloom_flows = app:get_flow\n")

    def simulate(self, cache: str, *options: str, stop_by: str = "") -> int:
        """One session with a cache of its own; ``stop_by`` is the signal that hits it in the middle of the seventh
        file. Gives its exit status."""
        for name in ("judged.txt", "peak.txt"):
            (self.path / name).unlink(missing_ok=True)
        words = ["pytest", "-p", "pytest_loom.plugin", "-o", f"cache_dir={cache}", "--loom-deploy-sim", *options]
        stop = {"STOP_AT": "refund-6", "STOP_BY": stop_by} if stop_by else {}
        status = self.run(*words, **stop)
        if (self.path / "peak.txt").exists():
            assert int((self.path / "peak.txt").read_text()) / 1024 < CEILING
        return status

    def run(self, *words: str, **more: str) -> int:
        """A process of Python in the project's folder."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
        environment = {**clean, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **more}
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=self.path, env=environment, capture_output=True, text=True
        )
        self.output = done.stdout + done.stderr
        return done.returncode

    def read(self, name: str) -> Any:
        """A report."""
        return json.loads((self.path / name).read_bytes())

    @property
    def judged(self) -> int:
        """How many files, or parts of files, the last session judged."""
        return len((self.path / "judged.txt").read_text())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The corpus, and ``whole.json``, the report that one undisturbed session writes."""
    made = Project(tmp_path_factory.mktemp("scale"))
    assert made.simulate("whole", "--loom-report=whole.json") == FAILED, made.output
    yield made
    shutil.rmtree(made.path)


def test_every_run_is_judged(project: Project) -> None:
    """The report counts each run once, and tells of each that waits or has lost its step."""
    summary = project.read("whole.json")["summary"]
    assert (summary["runs"], summary["in_flight"], summary["breaking"]) == (RUNS, RUNS // 100, RUNS // 1000)
    assert len(project.read("whole.json")["runs"]) == RUNS // 100


@pytest.mark.parametrize("by", ["SIGKILL", "SIGINT"])
def test_an_interrupted_session_goes_on(project: Project, by: str) -> None:
    """What was judged before the end of a session is not judged again, and the report is that of an undisturbed one."""
    report = project.path / f"{by}.json"
    status = project.simulate(by, f"--loom-report={report.name}", stop_by=by)
    assert project.judged == 7
    if by == "SIGKILL":
        assert status == -signal.SIGKILL
        assert not report.exists()
    else:  # what is known by then is told, and it is no green
        assert status == INTERRUPTED, project.output
        summary = project.read(report.name)["summary"]
        assert (summary["runs"], summary["not_judged"]) == (6 * RUNS // FILES, FILES - 6)
        assert not project.read(report.name)["ok"]
        assert "NOT JUDGED: 4 of 10 log files" in " ".join(project.output.split()), project.output
    assert project.simulate(by, f"--loom-report={report.name}") == FAILED, project.output
    assert project.judged == FILES - 6
    assert report.read_bytes() == (project.path / "whole.json").read_bytes()


def test_shards_are_the_whole(project: Project) -> None:
    """Three shards, one of which at least was killed and went on, merge to the same bytes in any order."""
    parts, killed = [], 0
    for number in (1, 2, 3):
        parts.append(f"part-{number}.json")
        options = (f"--loom-shard={number}/3", f"--loom-report={parts[-1]}")
        if project.simulate("shards", *options, stop_by="SIGKILL") == -signal.SIGKILL:
            killed += 1
            assert project.simulate("shards", *options) == FAILED, project.output
    assert killed
    whole = (project.path / "whole.json").read_bytes()
    for order in (parts, parts[::-1]):
        assert project.run("pytest_loom", "merge", *order, "--report=merged.json") == FAILED, project.output
        assert (project.path / "merged.json").read_bytes() == whole


def test_processes_say_the_same(project: Project) -> None:
    """Two processes side by side write the same report as one session of pytest."""
    project.run("pytest_loom", "simulate", "--jobs=2", "--report=beside.json")
    assert project.read("beside.json") == project.read("whole.json"), project.output
