"""The public names: all of them import, nothing else does, and the design's are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pytest_loom

DESIGN_NAMES = {
    "load_log",
    "load_logs",
    "write_log",
    "replay_as_fixture",
    "recorded_step_outputs",
    "diff_runs",
    "Difference",
    "MISSING",
    "score_run",
    "Score",
    "simulate_deploy",
    "simulate_rollout",
    "DeployReport",
    "Finding",
    "Contract",
    "contract_of",
    "Event",
    "Log",
    "ExecutionState",
    "LoomError",
    "LogError",
    "UnknownSchemaVersion",
    "Unsupported",
    "known_event_types",
    "PINNED_EVENT_TYPES",
    "flow",
    "step",
    "tool",
    "Context",
    "record",
    "arecord",
    "replay",
    "areplay",
    "resume",
    "aresume",
    "fork",
    "afork",
    "rerun_step",
    "resume_as",
    "aresume_as",
    "upcaster",
    "migration",
    "StateMigrationError",
    "UpcastError",
    "ReplayDivergence",
    "LiveCallError",
    "StepError",
}
"""Of DESIGN sections 3 to 6, what is there so far."""


@pytest.mark.parametrize("name", pytest_loom.__all__)
def test_every_public_name_imports(name: str) -> None:
    """Names load on first use; a wrong home would show only then."""
    value = getattr(pytest_loom, name)
    assert value is getattr(pytest_loom, name)
    assert getattr(value, "__name__", name).removeprefix("pytest_loom.") == name
    assert name in dir(pytest_loom)


def test_the_names_of_the_design_are_public() -> None:
    """DESIGN section 6 fixes them."""
    assert set(pytest_loom.__all__) >= DESIGN_NAMES


def test_every_class_and_function_says_what_it_is_for() -> None:
    """help() is the first documentation that one reads."""
    for name in pytest_loom.__all__:
        value = getattr(pytest_loom, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("first", ["", "import pytest_loom.flow; ", "from pytest_loom import record; "])
def test_flow_is_the_decorator_whatever_was_imported_before(first: str) -> None:
    """The room of the package that is called ``flow`` too can be used as the decorator."""
    code = f"{first}from pytest_loom import flow; print(flow(id='f')(lambda ctx: 1).id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["f"]


@pytest.mark.parametrize("first", ["", "import pytest_loom.log.migrations; ", "from pytest_loom import migrate; "])
def test_resume_is_the_function_whatever_was_imported_before(first: str) -> None:
    """The same for the room that is called ``resume``."""
    code = (
        f"{first}from pytest_loom import Context, flow, record, resume\n"
        "@flow(gates={'Go': bool})\nasync def f(ctx: Context):\n    return await ctx.suspend('Go')\n"
        "print(resume(record(f), f, event='Go', payload=True).state.status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["completed"]


@pytest.mark.parametrize("name", ["Nothing", "load", "__wrapped__", "log_"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    """As for any module, so that hasattr and tools that probe work."""
    assert not hasattr(pytest_loom, name)
    with pytest.raises(AttributeError, match=f"module 'pytest_loom' has no attribute '{name}'"):
        getattr(pytest_loom, name)


def test_a_star_import_gives_the_public_names() -> None:
    """``__all__`` is true in a fresh process, where nothing is loaded yet."""
    code = "from pytest_loom import *; import pytest_loom as p; print(set(p.__all__) <= set(globals()), p.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", pytest_loom.__version__]
