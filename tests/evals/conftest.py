"""Logs for the tests of the evals room, made from a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import settings

from pytest_loom.log.event import Event, Log, LogBuilder

# The same examples on every run and machine, and no complaint that a busy machine is slow.
settings.register_profile("loom", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("loom")

MakeRun = Callable[..., Log]


Entry = tuple[Any, ...] | dict[str, Any]
"""``(id, output)`` or ``(id, output, input)``: completed; ``{"failed": id, "error": ...}``; ``{"started": id}``."""


def _step(builder: LogBuilder, entry: Entry) -> None:
    if isinstance(entry, tuple):
        name, output, *given = entry
        builder.add("STEP_STARTED", {"stepId": name, **({"input": given[0]} if given else {})}, timestamp=2)
        builder.add("STEP_COMPLETED", {"stepId": name, "output": output}, timestamp=3)
    elif "failed" in entry:
        builder.add("STEP_STARTED", {"stepId": entry["failed"]}, timestamp=2)
        builder.add("STEP_FAILED", {"stepId": entry["failed"], "error": entry["error"]}, timestamp=3)
    else:
        builder.add("STEP_STARTED", {"stepId": entry["started"]}, timestamp=2)


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """``make_run([("assess", output), ...], output=...)`` as a Log; ``events`` adds any others before the end."""

    def make(
        steps: Iterable[Entry] = (),
        *,
        output: Any = None,
        status: str = "completed",
        error: Any = None,
        events: Iterable[tuple[str, dict[str, Any]]] = (),
        path: str = "",
        workflow: str = "refund",
    ) -> Log:
        builder = LogBuilder("run-1", workflow, path=path)
        builder.add("EXECUTION_STARTED", {"input": {}}, timestamp=1)
        for entry in steps:
            _step(builder, entry)
        for event_type, payload in events:
            builder.add(event_type, payload, timestamp=4)
        ends = {
            "completed": ("EXECUTION_COMPLETED", {"output": output}),
            "failed": ("EXECUTION_FAILED", {"error": error}),
            "cancelled": ("EXECUTION_CANCELLED", {"reason": error}),
            "continued": ("EXECUTION_CONTINUED", {"newExecutionId": "run-2", "input": output}),
        }
        if status in ends:
            builder.add(*ends[status], timestamp=1000)
        return builder.log()

    return make


@pytest.fixture(scope="session")
def rewritten() -> Callable[[Log, Callable[[Any], str]], Log]:
    """The same log with every payload written again by another JSON writer."""

    def rewrite(log: Log, write: Callable[[Any], str]) -> Log:
        events: list[Event] = [
            msgspec.structs.replace(event, raw=msgspec.Raw(write(event.payload).encode())) for event in log.events
        ]
        return Log(events, path=log.path)

    return rewrite
