"""A pytest run that uses no loom feature must not pay for pytest-loom: what may and may not be imported.

Each test looks into a process of its own, at its very end: one unguarded line in a late hook is enough to undo all
laziness (hypothesis learnt that in its terminal summary; the manner of these tests is theirs).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "deepdiff",
    "msgspec",
    "pydantic",
    "pytest_loom.contract",
    "pytest_loom.deploy",
    "pytest_loom.evals",
    "pytest_loom.flow",
    "pytest_loom.fold",
    "pytest_loom.log",
    "pytest_loom.report",
    "pytest_loom.resume",
    "pytest_loom.sources",
)

WATCH = """
import atexit, json, os, pathlib, sys

@atexit.register
def write_what_was_imported():
    name = os.environ.get("PYTEST_XDIST_WORKER", "main") + ".modules.json"
    (pathlib.Path(__file__).parent / name).write_text(json.dumps(sorted(sys.modules)))
"""

PASSING = "def test_plain(tmp_path):\n    assert [1, 2] == [1, 2]\n"
FAILING = "def test_plain(tmp_path):\n    assert {'a': [1, 2]} == {'a': [1, 3]}\n"


def heavy_among(modules: set[str]) -> list[str]:
    """The modules that belong to something heavy, whichever part of it was imported."""
    return sorted(module for module in modules if any(f"{module}.".startswith(f"{name}.") for name in HEAVY))


def python(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter in ``folder``, without what an outer pytest run left in the environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LOOM_"))}
    return subprocess.run(
        [sys.executable, *args], cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=120
    )


def modules_after_pytest(
    folder: Path, *args: str, test: str = PASSING, status: int = 0, **environment: str
) -> set[str]:
    """Run pytest on one test that knows nothing of loom; what that process had imported when it ended."""
    (folder / "conftest.py").write_text(WATCH)
    (folder / "test_plain.py").write_text(test)
    # langsmith, which comes with langchain, has a plugin of its own that imports pydantic in every run.
    run = python(folder, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", *args, **environment)
    assert run.returncode == status, run.stdout + run.stderr
    return set(json.loads((folder / "main.modules.json").read_text()))


def test_importing_the_package_imports_nothing_heavy(tmp_path: Path) -> None:
    """``import pytest_loom`` alone loads neither a dependency nor our own core, nor pytest."""
    run = python(tmp_path, "-c", "import json, sys, pytest_loom; print(json.dumps(sorted(sys.modules)))")
    assert run.returncode == 0, run.stderr
    modules = set(json.loads(run.stdout))
    assert heavy_among(modules) == []
    assert sorted(modules & {"pytest", "_pytest", "syrupy", "asyncio"}) == []


def test_the_names_of_the_package_load_on_first_use(tmp_path: Path) -> None:
    """Every public name can be had from the package although importing it loaded none of them."""
    program = "import pytest_loom\nfor name in pytest_loom.__all__: getattr(pytest_loom, name)\nprint('all there')"
    run = python(tmp_path, "-c", program)
    assert (run.returncode, run.stdout) == (0, "all there\n"), run.stderr


@pytest.mark.parametrize(
    ("args", "test", "status"),
    [
        pytest.param((), PASSING, 0, id="passing"),
        pytest.param(("-vv", "-rA", "--durations=3"), PASSING, 0, id="verbose"),
        pytest.param((), FAILING, 1, id="failing-assertion"),
        pytest.param(("--junitxml=junit.xml",), FAILING, 1, id="junit"),
        pytest.param(("--collect-only",), PASSING, 0, id="collect-only"),
        pytest.param(("--fixtures",), PASSING, 0, id="list-of-fixtures"),
        pytest.param(("--snapshot-update",), PASSING, 0, id="snapshot-update"),
        pytest.param(("-p", "no:syrupy"), PASSING, 0, id="without-syrupy"),
        pytest.param(("-k", "nothing_of_that_name"), PASSING, 5, id="nothing-selected"),
    ],
)
def test_an_unused_plugin_imports_nothing_heavy(tmp_path: Path, args: tuple[str, ...], test: str, status: int) -> None:
    """From start-up to exit of a run without any loom feature, no dependency and none of our core is imported."""
    modules = modules_after_pytest(tmp_path, *args, test=test, status=status)
    assert "pytest_loom.plugin" in modules, "pytest-loom is not installed here, so this run says nothing about it"
    assert heavy_among(modules) == []


def test_logs_lying_about_are_not_opened(tmp_path: Path) -> None:
    """A golden log beside the tests costs nothing in a run that does not use it."""
    (tmp_path / "golden.loom.jsonl").write_text('{"executionId": "e1"}\n')
    (tmp_path / "other.jsonl").write_text("{}\n")
    (tmp_path / "history.json").write_text('{"events": []}\n')
    modules = modules_after_pytest(tmp_path)
    assert "pytest_loom.plugin" in modules, "pytest-loom is not installed here, so this run says nothing about it"
    assert heavy_among(modules) == []


def test_xdist_workers_import_nothing_heavy_either(tmp_path: Path) -> None:
    """With ``-n 2``, neither the controller nor a worker pays."""
    pytest.importorskip("xdist")
    controller = modules_after_pytest(tmp_path, "-n", "2")
    workers = [set(json.loads(file.read_text())) for file in tmp_path.glob("gw*.modules.json")]
    assert [len(workers), all("pytest_loom.plugin" in modules for modules in (controller, *workers))] == [2, True]
    assert heavy_among(controller.union(*workers)) == []


def test_the_plugin_adds_only_itself_to_a_bare_run(tmp_path: Path) -> None:
    """Against pytest without plugins, ours adds its own few modules and nothing from elsewhere, not even syrupy."""
    bare = modules_after_pytest(tmp_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    added = modules_after_pytest(tmp_path, "-p", "pytest_loom.plugin", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1") - bare
    foreign = sorted(name for name in added if name.split(".")[0] not in {"pytest_loom", *sys.stdlib_module_names})
    assert foreign == []
    assert "pytest_loom.plugin" in added
    assert heavy_among(added) == []


def test_asking_for_the_public_names_needs_no_models(tmp_path: Path) -> None:
    """Whoever records and replays imports no models of pydantic before one is needed."""
    code = "import sys; from pytest_loom import flow, load_log, replay, step; print('pydantic.main' in sys.modules)"
    done = python(tmp_path, "-c", code)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
