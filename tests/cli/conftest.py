"""The command line in a folder of its own, and runs to import."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_loom import LogBuilder, write_log
from pytest_loom.cli import main
from pytest_loom.log.event import Log

START = 1_764_500_000_000
DAY = 86_400_000


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its outcome, where ``--json`` was given."""
        data: dict[str, Any] = json.loads(self.out)
        return data


class Desk:
    """A folder in which commands are run."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    def __call__(self, *words: object) -> Done:
        """Run ``pytest-loom`` with these words."""
        status = main([str(word) for word in words])
        out, err = self.capsys.readouterr()
        return Done(status, out, err)

    def log(self, name: str, log: Log) -> Path:
        """Write a log below the folder ``runs``."""
        return write_log(log, self.folder / "runs" / f"{name}.loom.jsonl")

    def goldens(self, folder: str = "goldens") -> dict[str, bytes]:
        """Every file below a folder but the sidecar, by its path."""
        place = self.folder / folder
        files = (file for file in place.rglob("*") if file.is_file() and file.name != "loom-import.json")
        return {file.relative_to(place).as_posix(): file.read_bytes() for file in sorted(files)}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, capsys)


def made(
    execution_id: str = "run-1",
    *,
    flow: str = "refund",
    steps: Iterable[str] = ("assess", "pay"),
    waits: str = "",
    given: Any = None,
    start: int = START,
    more: Iterable[tuple[str, dict[str, Any]]] = (),
) -> Log:
    """A run of these steps, a second each, that is over or (``waits``) waits for an event."""
    builder = LogBuilder(execution_id, flow)
    moment = start
    builder.add("EXECUTION_STARTED", {"input": given if given is not None else {"order": 17}}, timestamp=moment)
    for step in steps:
        moment += 1000
        builder.add("STEP_STARTED", {"stepId": step}, timestamp=moment)
        builder.add("STEP_COMPLETED", {"stepId": step, "output": "done"}, timestamp=moment)
    for kind, payload in more:
        moment += 1000
        builder.add(kind, payload, timestamp=moment)
    if waits:
        builder.add("EXECUTION_SUSPENDED", {"on": waits, "kind": "approval"}, timestamp=moment + 1000)
    else:
        builder.add("EXECUTION_COMPLETED", {"output": "paid"}, timestamp=moment + 1000)
    return builder.log()
