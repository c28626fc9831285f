"""What the real Temporal Replayer says of many (history, workflow class) pairs, asked in a process that can be killed.

Run as a script it reads a JSON list of ``[history file, "module:Class"]`` from standard input and prints a JSON list of
answers: null where the Replayer takes the history, else the error. ``ask`` runs it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]

SECONDS = 120
"""How long all answers together may take before the process is killed; usually it is two or three."""


def ask(pairs: Sequence[tuple[Path, str]]) -> list[str | None]:
    """The Replayer's error for each history and workflow class (``module:Class``), None where it raises none."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__],
        input=json.dumps([[str(path), name] for path, name in pairs]),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[str | None] = json.loads(done.stdout.rsplit("\n", 1)[-1])
    return answers


def workflow_class(name: str) -> Any:
    """The workflow class called ``module:Class``."""
    module, _, qualified = name.partition(":")
    return getattr(importlib.import_module(module), qualified)


def events_of(path: Path) -> dict[str, Any]:
    """A history in the shape that the SDK reads, whatever shape the file has."""
    document = json.loads(path.read_text())
    while isinstance(document, list):
        document = document[0] if "events" in document[0] else {"events": document}
    found: dict[str, Any] = document.get("history", document)
    return found


async def _answers(pairs: Sequence[tuple[str, str]]) -> list[str | None]:
    client: Any = importlib.import_module("temporalio.client")
    worker: Any = importlib.import_module("temporalio.worker")
    answers: list[str | None] = []
    for path, name in pairs:
        history = client.WorkflowHistory.from_json("replayed", events_of(Path(path)))
        replayer = worker.Replayer(
            workflows=[workflow_class(name)],
            workflow_runner=worker.UnsandboxedWorkflowRunner(),
            build_id="today",
        )
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        failure = result.replay_failure
        answers.append(None if failure is None else f"{type(failure).__name__}: {failure}")
    return answers


if __name__ == "__main__":
    found = asyncio.run(_answers(json.load(sys.stdin)))
    print("\n" + json.dumps(found), end="", flush=True)
    os._exit(0)  # the SDK's threads may still run Python code while the interpreter is taken down, and crash it
