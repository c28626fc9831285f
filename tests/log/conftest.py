"""Log files for the tests of the log room: lines made from a few words, and what reading a file gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogError, load_logs

MakeLine = Callable[..., bytes]
MakeRun = Callable[..., list[bytes]]
ReadAll = Callable[[Path], list[Log | LogError]]

ABSENT = object()


def _line(
    sequence: Any, event_type: str = "Noted", payload: Any = None, *, run: str = "run-1", **changes: Any
) -> bytes:
    envelope = {
        "executionId": run,
        "workflowId": "refund",
        "sequence": sequence,
        "timestamp": 1_700_000_000_000,
        "eventType": event_type,
        "schemaVersion": "1.15.0",
        "payload": {} if payload is None else payload,
    }
    envelope |= changes
    kept = {name: value for name, value in envelope.items() if value is not ABSENT}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _run(run: str = "run-1", steps: int = 1) -> list[bytes]:
    events: list[tuple[str, Any]] = [("EXECUTION_STARTED", {"input": {"run": run}})]
    for step in range(steps):
        events.append(("STEP_STARTED", {"stepId": f"step{step}"}))
        events.append(("STEP_COMPLETED", {"stepId": f"step{step}", "output": {"of": run, "text": f"£ {step}"}}))
    events.append(("EXECUTION_COMPLETED", {"output": run}))
    return [_line(number, kind, payload, run=run) for number, (kind, payload) in enumerate(events, 1)]


def _read_all(path: Path) -> list[Log | LogError]:
    logs = load_logs(path)
    found: list[Log | LogError] = []
    while True:
        try:
            found.append(next(logs))
        except StopIteration:
            return found
        except LogError as error:
            found.append(error)


@pytest.fixture(scope="session")
def line() -> MakeLine:
    """``line(3, "STEP_STARTED", {...}, run="a", timestamp=...)`` as bytes; a field given as ``absent`` is left out."""
    return _line


@pytest.fixture(scope="session")
def run() -> MakeRun:
    """``run("a", steps=2)``: the lines of a run with two steps, six of them."""
    return _run


@pytest.fixture(scope="session")
def read_all() -> ReadAll:
    """Everything that ``load_logs`` gives for a file: logs, and the errors that it raises in between."""
    return _read_all


@pytest.fixture(scope="session")
def absent() -> object:
    """Stands for an envelope field that is left out."""
    return ABSENT


@pytest.fixture(params=["one pass", "two passes"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs the test with both ways of reading: in memory, and as files are read that are too large for that."""
    if request.param == "two passes":
        monkeypatch.setattr("pytest_loom.log.read.WHOLE_FILE", 0)
    return str(request.param)
