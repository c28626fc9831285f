"""Replay of runs that another engine saved: its own code goes over the recorded answers, under the guard."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

from pytest_loom.errors import Unsupported
from pytest_loom.flow import guard
from pytest_loom.log.event import Log

_REPLAYERS = {
    "dbos": ("pytest_loom.sources.dbos.replay", ("dbos_func_decorator_info",)),
    "langgraph": ("pytest_loom.sources.langgraph.replay", ("add_conditional_edges", "with_config")),
    "openai-agents": ("pytest_loom.sources.openai_agents.replay", ("as_tool",)),
    "pydantic_ai": ("pytest_loom.sources.pydantic_ai.replay", ("override",)),
    "temporal": (
        "pytest_loom.sources.temporal.replay",
        ("__temporal_workflow_definition", "workflow_replay_iterator"),
    ),
}
"""By the name of a log's source: our module with ``replayed_run(log, flow) -> Log``, and what its flows have one of."""


def replays(log: Log, flow: Any) -> bool:
    """Whether the run is another engine's that can be replayed on ``flow``."""
    _, marks = _REPLAYERS.get(log.source, ("", ()))
    return any(hasattr(flow, mark) for mark in marks)


def replay_saved(
    log: Log,
    flow: Any,
    *,
    on_divergence: str = "raise",
    allow: Iterable[str] = (),
    writable: Iterable[str | os.PathLike[str]] = (),
) -> Log:
    """The candidate: today's ``flow`` on the recorded run; the arguments are those of ``replay``.

    Raises what its engine's ``replayed_run`` raises, LiveCallError where the code tries to reach the world, and
    Unsupported for ``on_divergence="record"``: such a run has no effects of its own that could be gone on from.
    """
    if on_divergence != "raise":
        raise Unsupported("a saved run of another engine is replayed up to the first divergence only", path=log.path)
    run = importlib.import_module(_REPLAYERS[log.source][0]).replayed_run

    def closed() -> Log:
        with guard.closed(allow=allow, writable=map(Path, writable)) as seen:
            try:
                found: Log = run(log, flow)
            finally:
                if seen.calls:  # whatever the engine made of it
                    raise seen.calls[0].with_traceback(None) from None
        return found

    if not _in_async_code():
        return closed()
    with ThreadPoolExecutor(1) as pool:  # called in async code: the run has a loop of its own
        return pool.submit(copy_context().run, closed).result()


def _in_async_code() -> bool:
    """Asked apart from the run: what that raises is not to be shown as raised while this was handled."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
