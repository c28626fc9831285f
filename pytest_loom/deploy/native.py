"""Native flows are code: what they would do to a waiting run is told by replaying them against its log.

No effect runs, and nothing live: up to the frontier everything is answered from the log (DESIGN section 6, settled
points). Where today's code asks something else there, a resume of the run is refused; where it would go on and do
something else in silence, ``flow.hazards`` knows it, and a resume is refused for that too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.approvals import from_hazard
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import LiveCallError, LogError, LoomError, ReplayDivergence, printable
from pytest_loom.flow.api import replay
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.hazards import hazards
from pytest_loom.log.event import Log

_CODES = {"input-contract": "input-contract", "output-type": "output-contract", "state-type": "state-type"}
_REFUSED = "A resume of this run on today's code is refused."


def replayed(log: Log, flow: Any, yesterday: Contract | None = None) -> Iterator[Finding]:
    """What a replay of today's flow against an unfinished run finds. Raises LogError for a log that cannot be read."""
    if not isinstance(flow, Flow) or not log.state.in_flight:
        return
    outcome = _replay(log, flow)
    if isinstance(outcome, Log):
        yield from (from_hazard(log, hazard) for hazard in hazards(log, flow, outcome))
        return
    where = _last_place(outcome)
    if isinstance(outcome, ReplayDivergence):
        lines = [line.strip() for line in outcome.what.replace("the golden run", "this run").splitlines()]
        yield finding(
            log,
            _code(log, outcome),
            f"{'; '.join(lines)}. {_REFUSED}",
            _way_out(log, outcome),
            step=outcome.step or None,
        )
        yield from _inserted(log, outcome, yesterday)
    elif isinstance(outcome, LiveCallError):
        message = f"{outcome.what} ({where}): what is no effect is done again each time the run is resumed."
        yield finding(log, "effect-repeated", message, "Make it a step.", step=outcome.step or None)
    else:
        message = f"today's code cannot go over what was recorded: {outcome.what}"
        yield finding(log, "replay-diverged", message, outcome.hint, step=outcome.step or None)


def _code(log: Log, problem: ReplayDivergence) -> str:
    """Which finding a divergence is: what became of the place where the run waits goes before what else differs."""
    if problem.kind in _CODES:
        return _CODES[problem.kind]
    waits = {wait.sequence: wait for wait in log.state.suspensions}
    if problem.kind == "left-over" and any(one["sequence"] in waits for one in problem.candidates):
        return "frontier-missing"
    expected, asked = problem.expected, problem.asked
    if expected is not None and asked is not None and expected["kind"] == "gate":
        if asked["kind"] == "gate":
            return "answer-misrouted"
        wait = waits.get(expected["sequence"])
        if wait is not None and asked["kind"] == "tool" and asked["name"] in _asked_for(wait.pending):
            return "approval-bypassed"  # what somebody was asked about is done without the answer
    return "replay-diverged"


def _asked_for(pending: Any) -> set[Any]:
    calls = pending if isinstance(pending, list) else [pending]
    return {call.get("name") for call in calls if isinstance(call, dict)}


def _way_out(log: Log, problem: ReplayDivergence) -> str:
    keep = "Keep what has run as it is and change only what comes after, or let the old code finish these runs."
    if problem.kind == "input-contract":
        return problem.hint
    if problem.expected is None or problem.expected["sequence"] < 2:
        return keep
    at = problem.expected["sequence"] - 1
    return (
        f"{keep} Or have a person confirm that it goes on differently from there:\n"
        f"  resume(fork(log, {at}, confirmed_by=…), flow)"
    )


def _inserted(log: Log, problem: ReplayDivergence, yesterday: Contract | None) -> Iterator[Finding]:
    """The step that is new before the point where the run waits, as the cause of a divergence.

    Where it stands in for a gate, the gate may be what is gone: then yesterday's contract has to say that it is new.
    """
    asked = problem.asked
    if problem.expected is not None and problem.expected["kind"] == "gate" and yesterday is None:
        return
    if problem.kind in ("step-added", "occurrence-added") and asked is not None and asked["kind"] in ("step", "tool"):
        name = str(asked["name"])
        known = {frame.step_id for frame in log.state.frames.values()} | {call.name for call in log.state.calls}
        if yesterday is not None:
            known |= {*(yesterday.steps or ()), *(yesterday.tools or ())}
        if name not in known:
            yield finding(
                log,
                "step-inserted",
                f"today's code does {printable(name)} before the point where this run waits; when the run was started"
                " it did not.",
                "Put the new step behind the gate, or do it only for runs that were started on the new version.",
                step=name,
            )


def _replay(log: Log, flow: Flow[..., Any]) -> Log | LoomError:
    found: list[Log | LoomError] = []

    def run() -> None:
        try:
            found.append(replay(log, flow))
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
    if isinstance(found[0], LogError):
        raise found[0]
    return found[0]


def _last_place(problem: LoomError) -> str:
    return f"{problem.path}:{problem.line}" if problem.path and problem.line else problem.path
