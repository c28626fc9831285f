"""docs/mutation.md is true: its commands are run, its output compared, its numbers and words held against the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_loom.deploy import flow_mutants, flow_trials
from pytest_loom.evals import mutants
from pytest_loom.evals.operators import OPERATORS
from pytest_loom.plugin import mutate
from tests.pages import BLOCKS, PAGES, ROOT, assert_shows, line, run, write

PAGE = PAGES["docs/mutation.md"]
TAKEN = {
    "test_a_survivor_and_its_end": ("mutation-command", "mutation-report", "mutation-test", "mutation-green"),
    "test_notes_on_the_corpus": ("mutation-corpus", "mutation-corpus-notes"),
}
"""Which test runs or compares which blocks."""


@pytest.fixture
def greeter(tmp_path: Path) -> Path:
    """The README's own project, recorded."""
    for name in ("own-settings", "own-test", "own-application"):
        write(name, tmp_path)
    assert run(line("own-record"), tmp_path).returncode == 0
    return tmp_path


def test_a_survivor_and_its_end(greeter: Path) -> None:
    """The README's test misses what the page says; with the page's test nothing survives."""
    weak = run(line("mutation-command"), greeter)
    assert weak.returncode == 1
    assert_shows(BLOCKS["mutation-report"].text, weak.stdout)
    write("mutation-test", greeter)
    strong = run(line("mutation-command"), greeter)
    assert strong.returncode == 0, strong.stdout
    assert_shows(BLOCKS["mutation-green"].text, strong.stdout)


def test_notes_on_the_corpus(tmp_path: Path) -> None:
    """The example's corpus lacks what the page says, and its runs are as old."""
    shutil.copytree(ROOT / "example_project", tmp_path / "example_project")
    done = run(line("mutation-corpus"), tmp_path)
    assert done.returncode == 0
    shown = BLOCKS["mutation-corpus-notes"].text.replace("[...]\n", "\n").splitlines()
    printed = done.stdout.splitlines()
    assert all(any(said.startswith(wanted.rstrip()) for said in printed) for wanted in shown)


def test_the_operators() -> None:
    """Both tables list every operator that there is, and no other."""
    table = re.findall(r"^\| (`[^|]*`) \|", PAGE, re.M)
    named = [name for cell in table for name in re.findall(r"`([\w-]+)`", cell)]
    assert named == [*OPERATORS, *flow_mutants.OPERATORS]


def test_the_numbers() -> None:
    """The limits are those of the code."""
    text = " ".join(PAGE.split())
    assert f"at most {mutants.MOST} of an operator for a log and {flow_mutants.MOST} for a flow" in text
    assert f"a test runs with {mutate.MOST_OF_A_TEST} at most, each for {mutate.LIMIT_S:g} seconds" in text
    assert f"{flow_trials.LOOK} of a file are judged" in text
