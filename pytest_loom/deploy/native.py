"""Native flows are code: what they would do to a waiting run is told by replaying them against its log.

No effect runs, and nothing live: up to the frontier everything is answered from the log (DESIGN section 6, settled
points). Where today's code asks something else there, a resume of the run is refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import LiveCallError, LogError, LoomError, ReplayDivergence
from pytest_loom.flow.api import replay
from pytest_loom.flow.definition import Flow
from pytest_loom.log.event import Log

_CODES = {"input-contract": "input-contract", "output-type": "output-contract"}


def replayed(log: Log, flow: Any) -> Iterator[Finding]:
    """What a replay of today's flow against an unfinished run finds. Raises LogError for a log that cannot be read."""
    if not isinstance(flow, Flow) or not log.state.in_flight:
        return
    problem = _problem(log, flow)
    if problem is None:
        return
    where = _last_place(problem)
    if isinstance(problem, ReplayDivergence):
        code = _CODES.get(problem.kind, "replay-diverged")
        lines = [line.strip() for line in problem.what.splitlines()]
        message = f"{'; '.join(lines)}. A resume of this run on today's code is refused."
        hint = "Keep what has run as it is and change only what comes after, or let the old code finish these runs."
    elif isinstance(problem, LiveCallError):
        code = "effect-repeated"
        message = f"{problem.what} ({where}): what is no effect is done again each time the run is resumed."
        hint = "Make it a step."
    else:
        code = "replay-diverged"
        message = f"today's code cannot go over what was recorded: {problem.what}"
        hint = problem.hint
    yield finding(log, code, message, hint, step=problem.step or None)


def _problem(log: Log, flow: Flow[..., Any]) -> LoomError | None:
    found: list[LoomError | LogError | None] = []

    def run() -> None:
        try:
            replay(log, flow)
            found.append(None)
        except LoomError as error:
            found.append(error)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run()
    else:  # called in async code: the flow has a loop of its own
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    problem = found[0] if found else None
    if isinstance(problem, LogError):
        raise problem
    return problem


def _last_place(problem: LoomError) -> str:
    return f"{problem.path}:{problem.line}" if problem.path and problem.line else problem.path
