"""Make the logs of yesterday anew, with yesterday's code: ``python make_yesterday.py [FOLDER]``.

It imports nothing of today's: what today's code registers would be in what it writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pytest_loom import record
from releases_v1.flow import release

OPENED: tuple[str, Any] = ("WindowOpened", None)
YES: tuple[str, Any] = ("DeployDecided", {"approved": True, "by": "mia"})
CHECKED: tuple[str, Any] = ("Checked", None)

RUNS = {
    "at-window": (41, []),
    "at-check": (42, [OPENED, YES]),
    "at-approval": (43, [OPENED, YES, CHECKED]),
}
"""File: number of the release, and what it was answered."""


def make_logs(folder: Path) -> None:
    """Let last week's code run each release up to where it waits."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (number, events) in RUNS.items():
        path = folder / f"{name}.loom.jsonl"
        record(
            release,
            {"number": number, "commit": f"9f{number}"},
            path=path,
            execution_id=f"release-{number}",
            events=events,
        )


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "tests" / "logs" / "yesterday")
