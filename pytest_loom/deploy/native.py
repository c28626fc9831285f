"""Native flows are code: what they would do to a waiting run is told by replaying them against its log.

No effect runs, and nothing live: up to the frontier everything is answered from the log (DESIGN section 6, settled
points). Where today's code asks something else there, a resume of the run is refused; where it would go on and do
something else in silence, ``flow.hazards`` knows it, and a resume is refused for that too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.approvals import from_hazard
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import LiveCallError, LogError, LoomError, ReplayDivergence, printable
from pytest_loom.flow.api import rehearse, replay
from pytest_loom.flow.definition import Flow, Step, closure_of
from pytest_loom.flow.hazards import hazards, lost_input
from pytest_loom.flow.history import History
from pytest_loom.flow.inputs import flow_at
from pytest_loom.log.event import Log

_CODES = {
    "input-contract": "input-contract",
    "output-type": "output-contract",
    "state-type": "state-type",
    "gate-left": "gate-changed",
}
_REFUSED = "A resume of this run on today's code is refused."


def replayed(log: Log, flow: Any, yesterday: Contract | None = None) -> Iterator[Finding]:
    """What a replay of today's flow against an unfinished run finds. Raises LogError for a log that cannot be read."""
    if not isinstance(flow, Flow) or not log.state.in_flight:
        return
    lost = list(lost_input(flow, History(log)))
    if lost:
        yield from (from_hazard(log, hazard) for hazard in lost)
        return
    outcome = replay_of(log, flow)
    if isinstance(outcome, Log):
        yield from (from_hazard(log, hazard) for hazard in hazards(log, flow, outcome))
        if log.state.manifest.get("contractFingerprint") != flow.fingerprint:  # else a crash came between two waits
            yield from _also_waits(log, outcome)
        yield from _passed_by(log, flow, yesterday)
        return
    where = _last_place(outcome)
    if isinstance(outcome, ReplayDivergence):
        lines = [line.strip() for line in outcome.what.replace("the golden run", "this run").splitlines()]
        yield finding(
            log,
            _code(log, outcome, yesterday),
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


def _code(log: Log, problem: ReplayDivergence, yesterday: Contract | None) -> str:
    """Which finding a divergence is: what became of the place where the run waits goes before what else differs."""
    if problem.kind in _CODES:
        return _CODES[problem.kind]
    waits = {wait.sequence: wait for wait in log.state.suspensions}
    expected, asked = problem.expected, problem.asked
    if problem.kind == "left-over" and any(one["sequence"] in waits for one in problem.candidates):
        return "frontier-missing" if asked is None else "answer-misrouted"
    if expected is not None and asked is not None and expected["kind"] == "gate":
        if asked["kind"] == "gate":
            return "answer-misrouted"
        wait = waits.get(expected["sequence"])
        if wait is not None and asked["kind"] == "tool" and str(asked["name"]) in _asked_for(wait.pending):
            return "approval-bypassed"  # what somebody was asked about is done without the answer
        if wait is not None and yesterday is not None and asked["name"] in {*(yesterday.steps or ())}:
            return "frontier-missing"  # it goes past where the run waits, to what came after
    return "replay-diverged"


def _asked_for(pending: Any) -> set[str]:
    calls = pending if isinstance(pending, list) else [pending]
    return {str(call["name"]) for call in calls if isinstance(call, dict) and "name" in call}


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


def _also_waits(log: Log, candidate: Log) -> Iterator[Finding]:
    """Gates at which today's code waits beside those at which the run waits."""
    known = {(wait.branch, *wait.events) for wait in log.state.suspensions}
    for wait in candidate.state.suspensions if known else ():
        if (wait.branch, *wait.events) not in known:
            name = " or ".join(printable(event) for event in wait.events)
            yield finding(
                log,
                "step-inserted",
                f"today's code also waits for {name} here, for which nobody was asked when this run began to wait: it"
                " goes on only once that has come too.",
                f"Ask for {name} when the run is resumed, or wait for it in runs that are started from now on only.",
                step=wait.events[0],
            )


def _passed_by(log: Log, flow: Flow[..., Any], yesterday: Contract | None) -> Iterator[Finding]:
    """Steps that are new inside of one that this run has behind it: that is answered as a whole, and asks for none."""
    if yesterday is None or yesterday.steps is None:
        return
    for frame in log.state.frames.values():
        part = flow_at(flow, frame.namespace)
        outer = part.steps.get(frame.step_id)
        if frame.status != "completed" or not isinstance(outer, Step) or not outer.takes_context:
            continue
        for name, step in part.steps.items():
            if name not in yesterday.steps and _names(outer.fn, step):
                yield finding(
                    log,
                    "step-inserted",
                    f"today's {printable(frame.step_id)} also runs {printable(name)}, and this run has"
                    f" {printable(frame.key)} behind it: it is answered as a whole, so {printable(name)} is never run.",
                    "Where it has to be made up for, do that behind the gate, for runs that were started before.",
                    step=name,
                )


def _names(fn: Any, step: object) -> bool:
    """Whether a function's code names a step, as a global or as what it got from the function around it."""
    code = getattr(fn, "__code__", None)
    known = {**getattr(fn, "__globals__", {}), **closure_of(fn)}
    return any(known.get(name) is step for name in (*code.co_names, *code.co_freevars)) if code is not None else False


def replay_of(log: Log, flow: Flow[..., Any]) -> Log | LoomError:
    """What today's code writes up to the frontier, or why it does not get there. Raises LogError."""
    return _apart(lambda: rehearse(log, flow))


def replayed_leniently(log: Log, flow: Flow[..., Any]) -> Log:
    """What today's code writes as far as it fits the log, then how it does not (``on_divergence="record"``).

    Raises what ``replay`` raises.
    """
    found = _apart(lambda: replay(log, flow, on_divergence="record"))
    if isinstance(found, LoomError):
        raise found
    return found


def _apart(work: Callable[[], Log]) -> Log | LoomError:
    """What ``work`` gives or raises; away from an event loop that is running, since the flow has one of its own."""
    found: list[Log | LoomError] = []

    def run() -> None:
        try:
            found.append(work())
        except LoomError as error:
            found.append(error)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run()
    else:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    if isinstance(found[0], LogError):
        raise found[0]
    return found[0]


def _last_place(problem: LoomError) -> str:
    return f"{problem.path}:{problem.line}" if problem.path and problem.line else problem.path
