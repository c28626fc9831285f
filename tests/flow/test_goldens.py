"""Recordings made on Python 3.11 (``goldens/``) replay on every Python, and made anew they are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_loom import diff_runs, load_log, record, replay
from pytest_loom.flow.normal import same_recording

NAMES = ["rich", "threads"]
ACROSS = """
import sys
import golden_flows
from pytest_loom import diff_runs, load_log, replay, write_log
from pytest_loom.flow.normal import same_recording
for name, flow in golden_flows.FLOWS.items():
    log = golden_flows.recorded(name)
    write_log(log, f"{sys.argv[2]}/{name}.loom.jsonl")
    other = load_log(f"{sys.argv[1]}/{name}.loom.jsonl")
    assert diff_runs(other, replay(other, flow), compare="all") == [], name
    assert same_recording(golden_flows.comparable(other), golden_flows.comparable(log)), name
print("same")
"""


def others() -> list[str]:
    """Other Pythons that have pytest-loom: LOOM_PYTHONS lists them, as PATH lists folders."""
    return [one for one in os.environ.get("LOOM_PYTHONS", "").split(os.pathsep) if one]


def run(python: str, *arguments: str) -> str:
    """What ``ACROSS`` says on a Python."""
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parent.parent}"}
    done = subprocess.run(
        [python, "-W", "error", "-c", ACROSS, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_of_another_python_replays(golden_flows: ModuleType, name: str) -> None:
    """What 3.11 recorded, today's Python does again in everything: values of all types, branches, threads, gates."""
    golden = load_log(golden_flows.GOLDENS / f"{name}.loom.jsonl")
    candidate = replay(golden, golden_flows.FLOWS[name])
    assert diff_runs(golden, candidate, compare="all") == []
    assert candidate.state.status == "completed"


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_made_anew_is_the_same(golden_flows: ModuleType, name: str) -> None:
    """Recorded again on any Python, nothing differs from the golden but ids and times."""
    golden = load_log(golden_flows.GOLDENS / f"{name}.loom.jsonl")
    again = golden_flows.recorded(name)
    assert same_recording(golden_flows.comparable(golden), golden_flows.comparable(again))


def test_what_changed_is_not_the_same(golden_flows: ModuleType) -> None:
    """A golden does not pass for the recording of a run that was asked something else."""
    golden = load_log(golden_flows.GOLDENS / "threads.loom.jsonl")
    other = record(golden_flows.threads, {"numbers": [1, 2, 4]}, events=[("Go", 7)])
    assert len(golden) == len(other)
    assert not same_recording(golden, other)


@pytest.mark.skipif(not others(), reason="needs other Pythons that have pytest-loom: name them in LOOM_PYTHONS")
def test_across_pythons(golden_flows: ModuleType, tmp_path: Path) -> None:
    """What one Python recorded replays on the other, both ways, and recorded there it is the same."""
    here = tmp_path / "here"
    here.mkdir()
    assert run(sys.executable, str(golden_flows.GOLDENS), str(here)) == "same"
    for number, python in enumerate(others()):
        there = tmp_path / str(number)
        there.mkdir()
        assert run(python, str(here), str(there)) == "same"
        assert run(sys.executable, str(there), str(here)) == "same"
