"""A log file that is unchanged since the last session is not judged again: pytest's cache keeps what was said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import Desk

SIM = ("--loom-deploy-sim", "--loom-report=report.json")
PASSED, FAILED = int(pytest.ExitCode.OK), int(pytest.ExitCode.TESTS_FAILED)
NOT_JUDGED = "conftest.py", "import pytest_loom.deploy.simulate as s\ns._take = None\n"
"""With this, whatever is judged fails."""


@pytest.fixture
def large(desk: Desk) -> Desk:
    """Two log files that are large enough to be kept, the second with a waiting run and one that is broken."""
    for name in ("a", "b"):
        desk.log(f"logs/{name}.loom.jsonl", "r-1", output="x" * 200_000)
    desk.log("logs/b.loom.jsonl", "r-2", status="suspended", append=True)
    desk.log("logs/b.loom.jsonl", "r-3", "gone", append=True)
    return desk


def kept(desk: Desk) -> list[Path]:
    """The reports in pytest's cache."""
    return sorted((desk.path / ".pytest_cache").rglob("*.report"))


def said(desk: Desk) -> Any:
    """What report.json says."""
    return desk.report


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_the_second_session_says_the_same_and_judges_nothing(large: Desk, workers: tuple[str, ...]) -> None:
    """The same report and the same failure, though nothing could be judged; --cache-clear forgets it."""
    plugins = ("xdist.plugin",) if workers else ()
    if workers:
        pytest.importorskip("xdist")
    assert large.apart(*SIM, *workers, plugins=plugins, cache=True) == FAILED
    before = said(large), large.section
    assert len(kept(large)) == 2
    large.write(*NOT_JUDGED)
    assert large.apart(*SIM, *workers, plugins=plugins, cache=True) == FAILED
    assert (said(large), large.section) == before
    assert large.apart(*SIM, *workers, "--cache-clear", plugins=plugins, cache=True) == FAILED
    assert "'NoneType' object is not callable" in large.result.stdout.str()


def test_a_changed_file_is_judged(large: Desk) -> None:
    """One file more run, the other known: only the one is judged."""
    assert large(*SIM, cache=True) == FAILED
    large.log("logs/a.loom.jsonl", "r-9", "lost", append=True)
    assert large(*SIM, cache=True) == FAILED
    assert {found["execution_id"] for found in said(large)["findings"]} == {"r-2", "r-3", "r-9"}


def test_without_the_cache_plugin(large: Desk) -> None:
    """Then there is no cache, and no error."""
    assert large(*SIM) == FAILED
    before = said(large)
    assert kept(large) == []
    assert large(*SIM) == FAILED
    assert said(large) == before


def test_acknowledged_since(large: Desk) -> None:
    """What was accepted between the sessions counts, though the file is not judged again."""
    assert large(*SIM, cache=True) == FAILED
    large.write(
        "acks.toml",
        '[[ack]]\ncode = "step-removed"\nflow = "refund"\nowner = "ada"\nreason = "known"\nexpires = 2999-01-01\n',
    )
    large.ini("loom_acks = acks.toml")
    assert large(*SIM, cache=True) == PASSED
    assert said(large)["summary"]["acknowledged"] == 1
    assert len(kept(large)) == 2


@pytest.mark.parametrize(
    "hook",
    [
        "def pytest_loom_checks(config):\n    return [lambda log, contract: ()]\n",
        "class Mine:\n    name, engine, live, suffixes = 'mine', 'journal', False, ('.mine',)\n"
        "    def sniff(self, path, head): return False\n"
        "def pytest_loom_sources(config):\n    return [Mine()]\n",
        "from pytest_loom import upcaster\n"
        "@upcaster('STEP_COMPLETED', from_version=1)\ndef raised(payload): return payload\n",
    ],
    ids=["checks", "sources", "upcaster"],
)
def test_code_of_the_users_own(large: Desk, hook: str) -> None:
    """What may look at anything, or change what is read, is asked each time."""
    large.write("conftest.py", hook)
    large.apart(*SIM, cache=True)
    assert kept(large) == []
    large.write("conftest.py", "")
    large.apart(*SIM, cache=True)
    assert len(kept(large)) == 2


def test_capturing_contracts(large: Desk) -> None:
    """A simulation that captures contracts looks which flows the runs ask for, so that it judges."""
    assert large(*SIM, "--loom-update", cache=True) == FAILED
    assert kept(large) == []


def test_a_cache_that_cannot_be_written(large: Desk) -> None:
    """Nothing is kept, and nothing fails for that."""
    (large.path / "nowhere").write_text("a file")
    large.ini("cache_dir = nowhere")
    assert large.apart(*SIM, cache=True) == FAILED
    assert len(said(large)["findings"]) == 2
