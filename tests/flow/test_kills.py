"""A recording that is killed (SIGKILL) at any of its events leaves a valid prefix, from which ``resume`` goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


def kills(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """What ``killed.py`` saw, one dict a kill."""
    program = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), arguments[0], str(folder), *arguments[1:]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_ends(found: list[dict[str, Any]], *, most: int) -> None:
    """Each run ended as one that nobody killed, replays, and did nothing again that was recorded as finished.

    ``most``: how often an effect may have happened that was not recorded yet when the process was killed.
    """
    for kill in found:
        assert kill["kept"], kill
        assert not kill["differences"], kill
        assert not kill["replays"], kill
        assert not kill["again"], kill
        assert kill["kinds"] == found[0]["kinds"], kill
        assert kill["most"] <= most, kill


@pytest.mark.parametrize("flow", ["tasks", "threads"])
def test_killed_at_any_write_it_goes_on(tmp_path: Path, flow: str) -> None:
    """Killed after or within any write, the file holds the events before it, and the run ends as it would have."""
    found = kills(tmp_path, flow)
    events = {(number, share): kill["events"] for kill in found for number, share in [kill["kill"]]}
    writes = max(number for number, _ in events)
    assert writes > 30
    assert [events[1, share] for share in (0.0, 0.5, 1.0)] == [0, 0, 1]
    for number in range(2, writes + 1):
        assert events[number, 1.0] > events[number - 1, 1.0]
        assert events[number - 1, 1.0] <= events[number, 0.5] < events[number, 1.0]
    assert found[-1]["finished"] > 8
    check_ends(found, most=2)


def test_killed_again_while_it_goes_on(tmp_path: Path) -> None:
    """A recording that was killed, and killed again anywhere while it was resumed, is still resumed to its end."""
    found = kills(tmp_path, "tasks", "twice")
    assert len(found) > 15
    assert min(kill["events"] for kill in found) > 15  # what was on disk is never lost again
    check_ends(found, most=3)
