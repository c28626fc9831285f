"""Run today's workflow on a recorded Temporal history with the SDK's own Replayer: nothing is run but the workflow.

To be called under the guard, in this process, so that breakpoints and coverage see the workflow's code. What comes of
it is the recorded run with what today's code does otherwise: the names and the inputs of what it asks for, the lengths
of its timers, its result. ``deploy.temporal`` asks the same in a process that can be killed.
"""

from __future__ import annotations

from typing import Any

from pytest_loom.errors import FlowError, ReplayDivergence, Unsupported, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.log.origin import origin_of
from pytest_loom.sources.temporal.replayer import Replays
from pytest_loom.sources.temporal.settings import class_and_settings, flows_of

_KEY = "it"


def replayed_run(log: Log, flow: Any) -> Log:
    """The log of today's ``flow``, a workflow class or a Replayer, on the recorded answers.

    Raises ReplayDivergence, naming the event and the line, where the code does not come to the end of the record;
    Unsupported for a history that the SDK cannot read and for an imported golden, which has none, FlowError where the
    Replayer does not know the workflow.
    """
    if origin_of(log):
        raise Unsupported(
            "a golden that was imported from Temporal has no history, and only from that is a workflow's code replayed",
            path=log.path,
            execution_id=log.execution_id,
            hint='Replay the history itself: load_log("histories/NAME.json"), as temporal workflow show --output json'
            " writes it.",
        )
    held = flows_of(flow)
    if held is not None:
        if log.workflow_id not in held:
            raise FlowError(f"the Replayer has no workflow {printable(log.workflow_id)}", path=log.path)
        flow = held[log.workflow_id]
    length = log.events[0].payload.get("temporal", {}).get("historyLength", 0)
    known = class_and_settings(flow)
    if known is None:
        raise FlowError(f"{printable(repr(flow), 100)} is no workflow class", path=log.path)
    replays = Replays({_KEY: known}, under_sandbox=False)
    try:
        answer = replays.run({"flow": _KEY, "path": log.path, "run": log.execution_id, "length": length})
    finally:
        replays.close()
    if answer["outcome"] == "unreadable":
        raise Unsupported(f"the SDK cannot replay this history: {printable(answer['message'], 300)}", path=log.path)
    if answer["outcome"] != "passed":
        raise _diverged(log, answer)
    return _candidate(log, answer)


def _diverged(log: Log, answer: dict[str, Any]) -> ReplayDivergence:
    if answer.get("instead") or answer.get("recorded"):
        recorded, instead = printable(answer["recorded"]) or "nothing more", printable(answer["instead"]) or "nothing"
        said = f"event {answer['event']}: {recorded} was recorded, today's code asks for {instead}"
        unheard = answer.get("unheard")
        if unheard and not answer["instead"]:
            lost = "cannot be read by its handler" if unheard["why"] else "has no handler"
            said += f"; the signal {printable(unheard['signal'])} (event {unheard['event']}) {lost} today"
    else:
        kind = f"{printable(answer['type'])}: " if answer.get("type") else ""
        said = f"today's code does not replay it: {kind}{printable(answer['message'], 400)}"
    at = f" ({printable(answer['line'], 300)})" if answer.get("line") else ""
    return ReplayDivergence(
        said + at,
        path=log.path,
        line=answer.get("event") or 0,
        execution_id=log.execution_id,
        step=answer.get("step", ""),
        hint='Keep the old way for runs that were started on it: if workflow.patched("NAME-OF-THE-CHANGE").',
    )


def _candidate(log: Log, answer: dict[str, Any]) -> Log:
    changed: dict[int, dict[str, Any]] = {}
    for change in answer["changes"]:
        key, value = change["what"], change["today"]
        if key == "timer":
            key, value = "timeoutMs", change["milliseconds"]
        elif key == "options":
            continue  # in the SDK's words, and about how a step is carried out
        changed.setdefault(change["event"], {})[key] = value
    renamed = {str(event): name for event, name in answer["renamed"]}
    builder = LogBuilder(log.execution_id, log.workflow_id, path=log.path)
    for event in log.events:
        payload = dict(event.payload)
        if event.line in changed:
            payload |= {key: value for key, value in changed[event.line].items() if key in payload}
        if payload.get("callId") in renamed:
            payload["stepId"] = renamed[payload["callId"]]
        builder.add(event.event_type, payload, timestamp=event.timestamp, line=event.line)
    return builder.log(source=log.source, engine="journal")
