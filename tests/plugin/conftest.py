"""A project with recorded runs, and pytest runs in it that load nothing but pytest-loom unless told so.

Plugins are not loaded by themselves in these runs (PYTEST_DISABLE_PLUGIN_AUTOLOAD), and pytest-loom is named by its
module: so it is the same whether it is installed as a package or lies on the path.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import pkgutil
from pathlib import Path
from typing import Any

import pytest

# Whatever a run within this process imports for the first time is thrown away after it, so it is imported here.
import pytest_loom
from pytest_loom import LogBuilder
from pytest_loom.flow.engine import patched
from pytest_loom.log.write import encode_events

for _name in pytest_loom.__all__:
    getattr(pytest_loom, _name)
for _module in pkgutil.walk_packages(pytest_loom.__path__, "pytest_loom."):
    with contextlib.suppress(ModuleNotFoundError):  # what runs inside a framework needs its extra
        importlib.import_module(_module.name)

APP = """
def flow(name, *steps):
    return {"workflowId": name, "steps": {step: {} for step in steps}}

flows = {"refund": flow("refund", "assess", "pay")}
renamed = {"refund": flow("refund", "assess_risk", "pay")}
"""
HEAD = "import pytest, shop\nfrom pytest_loom import diff_runs, load_log, simulate_deploy\n\n"
SHOP = """
from pytest_loom import LogBuilder

def run(output="done", steps=("assess",), execution_id="today"):
    made = LogBuilder(execution_id, "refund")
    made.add("EXECUTION_STARTED", {"input": {"order": 1}}, timestamp=5)
    for step in steps:
        made.add("STEP_STARTED", {"stepId": step}, timestamp=6)
        made.add("STEP_COMPLETED", {"stepId": step, "output": output}, timestamp=7)
    made.add("EXECUTION_COMPLETED", {"output": output}, timestamp=8)
    return made.log()
"""

_TIMES = itertools.count(1_700_000_000, 10)


class Desk:
    """A project in a folder of its own: ``desk("--loom-deploy-sim")`` runs pytest there, ``result`` is what came."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.result: pytest.RunResult

    def write(self, name: str, text: str) -> Path:
        """Make a file of the project."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        now = next(_TIMES)  # one of its own, or Python takes the bytecode of what the file was a moment ago
        os.utime(path, (now, now))
        return path

    def write_test(self, body: str, name: str = "test_it.py") -> Path:
        """Make a test file that imports pytest, the project's ``shop`` and the functions of pytest-loom."""
        return self.write(name, HEAD + body)

    def ini(self, *lines: str) -> None:
        """The configuration: the app's flows, importable, and further lines."""
        self.write("pytest.ini", "\n".join(["[pytest]", "pythonpath = .", "loom_flows = app:flows", *lines]))

    def log(
        self,
        name: str,
        execution_id: str = "r-1",
        *steps: str,
        flow: str = "refund",
        status: str = "completed",
        output: Any = "done",
        append: bool = False,
    ) -> Path:
        """Write the log of one run to a file of the project, in addition to what is in it with ``append``."""
        made = LogBuilder(execution_id, flow)
        made.add("EXECUTION_STARTED", {"input": {"order": 1}}, timestamp=0)
        for step in steps or ("assess",):
            made.add("STEP_STARTED", {"stepId": step}, timestamp=1)
            made.add("STEP_COMPLETED", {"stepId": step, "output": output}, timestamp=2)
        if status == "completed":
            made.add("EXECUTION_COMPLETED", {"output": output}, timestamp=3)
        elif status == "suspended":
            made.add("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval"}, timestamp=3)
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if append else "wb") as stream:
            stream.write(encode_events(made.events))
        return path

    @property
    def unfolded(self) -> str:
        """What pytest printed, on one line: where it is folded depends on how long the names of folders are."""
        return " ".join(self.result.stdout.str().split())

    def __call__(self, *options: str, cache: bool = False) -> int:
        """Run pytest within this process; its exit status."""
        self.result = self.pytester.runpytest_inprocess(*_options(options, cache=cache))
        return int(self.result.ret)

    def apart(self, *options: str, plugins: tuple[str, ...] = (), cache: bool = False) -> int:
        """Run pytest in a process of its own, with other plugins; its exit status."""
        others = [part for plugin in plugins for part in ("-p", plugin)]
        self.result = self.pytester.runpytest_subprocess(*others, *_options(options, cache=cache))
        return int(self.result.ret)

    @property
    def counts(self) -> dict[str, int]:
        """How many tests passed, failed, …"""
        return self.result.parseoutcomes()

    @property
    def report(self) -> Any:
        """The content of report.json."""
        return json.loads((self.path / "report.json").read_bytes())

    @property
    def section(self) -> list[str]:
        """The lines of pytest-loom's own section, its title first."""
        lines = self.result.outlines
        start = next((number for number, line in enumerate(lines) if "= pytest-loom" in line), len(lines))
        end = next((number for number in range(start + 1, len(lines)) if lines[number].startswith("=")), len(lines))
        return lines[start:end]

    def files(self) -> list[str]:
        """Every file of the project, less what Python and the harness leave behind."""
        found = [path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file()]
        return sorted(
            path.as_posix()
            for path in found
            if "__pycache__" not in path.parts and path.as_posix() not in ("stdout", "stderr")
        )


def _options(options: tuple[str, ...], *, cache: bool) -> list[str]:
    return ["-p", "pytest_loom.plugin", *(() if cache else ("-p", "no:cacheprovider")), *options]


@pytest.fixture
def desk(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A project with an application ``app`` (``flows``, and ``renamed`` that breaks them) and no log."""
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    with patched():  # what a run imports of packages that are there is imported here, so that it stays
        made = Desk(pytester)
    made.write("app.py", APP)
    made.ini()
    return made


@pytest.fixture
def three(desk: Desk) -> Desk:
    """Three log files, one of them with a step that today's refund does not have, and a test."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.log("logs/b.loom.jsonl", "r-2", "assess", "gone")
    desk.log("logs/c.loom.jsonl", "r-3", "pay")
    desk.write("test_plain.py", "def test_plain():\n    pass\n")
    return desk


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """A golden log, and a module ``shop`` whose runs can be told what to come to."""
    desk.write("shop.py", SHOP)
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    return desk
