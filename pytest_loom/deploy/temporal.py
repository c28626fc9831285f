"""Temporal workflows are code: what they would do to a recorded run is told by the SDK's own Replayer.

Finished runs are replayed too, since a kept history stands for the runs that are on its way; an unfinished one is
replayed to its very end, news included that no worker has seen yet. The Replayer runs in a process of its own
(``sources.temporal.replayer``) that is killed where it does not answer: then that is the finding.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.commands import Asked, compare_commands
from pytest_loom.deploy.handlers import asked_otherwise, by_contract, handlers_gone, misread
from pytest_loom.deploy.report import Finding, Severity, finding
from pytest_loom.deploy.shadow import NoAnswer, Worker
from pytest_loom.deploy.temporal_signals import lost_signals, unheard, waits_unheard
from pytest_loom.deploy.temporal_values import STUCK, at, changed_values, lost_results, short, waiting
from pytest_loom.deploy.values import input_read
from pytest_loom.errors import printable
from pytest_loom.log.event import Log
from pytest_loom.log.origin import origin_of
from pytest_loom.sources.temporal.settings import Settings, class_and_settings

SECONDS = 20.0
"""How long one history may take, and a second more for every so many events."""
_EVENTS_A_SECOND = 300
_BUSY = (
    "the SDK is at work in this very process (a client, a worker or a test server), which cannot be copied: run the"
    " simulation in a process of its own, pytest --loom-deploy-sim without the tests that start it"
)

_REPLAYER = "pytest_loom.sources.temporal.replayer:Replays"
_Known = tuple[type, Settings]
_FINISH = "let the workers that have the old code finish these runs (worker versioning, pinned)"


def replayed(log: Log, flow: Any, contract: Contract, yesterday: Contract | None = None) -> Iterator[Finding]:
    """What a replay of today's workflow class on a Temporal history finds.

    Of a flow that is data, and of an imported run, which has no history (``is_unreplayed``), what its handlers tell.
    """
    if log.source != "temporal":
        return
    known = class_and_settings(flow)
    if known is None or origin_of(log):
        yield from by_contract(log, contract, yesterday)
        if known is not None and not log.state.in_flight:
            yield from input_read(log, contract, yesterday)
        return
    if not hasattr(os, "fork"):
        why = "was not replayed on today's code: this system cannot copy a process, so only its structure was checked."
        yield finding(log, "replay-diverged", why, "Run the simulation on Linux or macOS.", severity="info")
        return
    started = log.events[0].payload.get("temporal", {})
    length = started.get("historyLength", 0)
    request = {"path": log.path, "run": log.execution_id, "length": length}
    seconds = SECONDS + length / _EVENTS_A_SECOND
    try:
        answer = _ask(known, request, seconds)
    except NoAnswer as problem:
        slow = "in time" in str(problem)
        yield _no_answer(log, f"{problem}{f' ({seconds:.0f} s are allowed for this history)' if slow else ''}")
        return
    if answer["outcome"] == "hung":
        yield _no_answer(log, f"the workflow's code does not yield{at(answer)}: {printable(answer['message'], 300)}")
    elif answer.get("live"):
        yield _live(log, answer)
    elif answer["outcome"] == "unreadable":
        yield _unreadable(log, answer)
    elif answer["outcome"] == "diverged":
        yield unheard(log, answer) if waits_unheard(answer, yesterday) else _diverged(log, answer)
    elif answer["outcome"] == "raised":
        yield _raised(log, answer)
    else:
        apart = compare_commands(log, [Asked(kind, name, short(line)) for kind, name, line in answer["asked"]])
        yield from apart or _beyond(log, answer)
        yield from changed_values(log, answer["changes"])
        yield from lost_results(log, answer)
        signals = list(lost_signals(log, answer, yesterday))
        yield from signals
        told = {found.step for found in signals}
        for check in (handlers_gone, misread, asked_otherwise):
            yield from (found for found in check(log, contract, yesterday) if found.step not in told)
        if not log.state.in_flight:
            yield from input_read(log, contract, yesterday)


def is_unreplayed(log: Log, flow: Any) -> bool:
    """Whether the run could have been replayed on ``flow`` but for its history, which an imported run has not."""
    return log.source == "temporal" and bool(origin_of(log)) and class_and_settings(flow) is not None


# The process ---------------------------------------------------------------------------------------------------------


class _Process:
    """The one process in which all workflow classes are replayed, by the key that it knows each by."""

    worker: Worker | None = None
    flows: dict[str, _Known] = {}  # noqa: RUF012
    served = 0


def _ask(flow: _Known, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The process's answer. What may be another history's or a busy machine's fault is asked once more, afresh."""
    for last in (False, True):
        worker = _worker_for(flow)  # a failure to start is no history's fault
        fresh = not _Process.served
        _Process.served += 1
        try:
            answer = worker.ask(request | {"flow": _key(flow)}, seconds)
        except NoAnswer as problem:
            close()
            if last or fresh or "in time" in str(problem):
                raise
            continue
        if answer["outcome"] != "hung":
            return answer
        close()
        if last:
            return answer
    raise AssertionError("the loop above returns or raises")


def prepare(flows: Iterable[Any]) -> None:
    """Start the process now, with these flows, as long as the SDK is not at work in this one.

    Tests that start a client or a test server may come before the simulation. Does nothing where no flow is a workflow.
    """
    known = [one for one in map(class_and_settings, flows) if one is not None]
    if not known or not hasattr(os, "fork"):
        return
    _Process.flows |= {_key(one): one for one in known}
    with suppress(NoAnswer):  # which is said once a history is there
        _worker_for(known[0])


def _worker_for(flow: _Known) -> Worker:
    """The process, made anew where it is gone, is another's, or does not know the class."""
    key = _key(flow)
    if _Process.worker is not None and (_Process.worker.owner != os.getpid() or key not in _Process.flows):
        close()
    if _Process.worker is None:
        _Process.flows = {**_Process.flows, **_all_classes(), key: flow}
        _Process.worker, _Process.served = _started(_Process.flows), 0
    return _Process.worker


def _started(flows: dict[str, _Known]) -> Worker:
    """A process in which the SDK works. A copy of one in which it is at work itself hangs or crashes, sooner or later.

    Raises NoAnswer.
    """
    if _at_work():
        raise NoAnswer(_BUSY)
    worker = Worker(flows, _REPLAYER)
    try:
        worker.ask({"ready": True}, SECONDS)
    except NoAnswer as problem:
        worker.close()
        raise NoAnswer(f"the SDK does not start in a copy of this process ({problem})") from None
    return worker


def _at_work() -> bool:
    """Whether the SDK's threads run in this process: those of a client, a worker or a test server."""
    try:
        tasks = [Path("/proc/self/task", task, "comm").read_text() for task in os.listdir("/proc/self/task")]
    except OSError:
        return False  # not Linux, or a thread that has just ended: then the first answer tells
    return any(name.startswith("tokio-rt") for name in tasks)


def _key(flow: _Known) -> str:
    return ":".join(str(id(part)) for part in flow)


def _all_classes() -> dict[str, _Known]:
    """Every workflow class that a loaded module holds, so that one process does for all of them."""
    found = {}
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            known = class_and_settings(value) if isinstance(value, type) else None
            if known is not None:
                found[_key(known)] = known
    return found


@atexit.register
def close() -> None:
    """End the process. Happens by itself when this one ends."""
    worker, _Process.worker = _Process.worker, None
    if worker is not None:
        worker.close()


# Findings ------------------------------------------------------------------------------------------------------------


def _no_answer(log: Log, why: str) -> Finding:
    return finding(
        log,
        "replay-diverged",
        f"could not be replayed on today's code: {why}. Whether the run would go on is not known.",
        "Replay this history by itself to see where it stops:"
        f"\n  pytest_loom.replay(pytest_loom.load_log({log.path!r}), {printable(log.workflow_id)})",
    )


def _live(log: Log, answer: dict[str, Any]) -> Finding:
    what = printable(str(answer["live"][0]), 200)
    return finding(
        log,
        "effect-repeated",
        f"today's code, or the data converter or codec that it is given, reaches out while the history is replayed:"
        f" {what}{at(answer)}. A replay must not, and what a workflow does by itself is done again at every replay.",
        "Do it in an activity. A codec that asks a key service is replaced for tests, in the Replayer that loom_flows"
        " names, by one that has its keys at hand.",
    )


def _unreadable(log: Log, answer: dict[str, Any]) -> Finding:
    what, hint = f"cannot be replayed: {printable(answer['message'], 300)}.", "Download the history once more."
    if answer.get("decoded"):
        what = (
            f"cannot be replayed: the payloads of event {answer['decoded']} were decoded before the download, and the"
            " SDK reads them only as they were written."
        )
        hint = (
            "Download it without decoding: temporal workflow show --workflow-id ID --output json, or the web UI with"
            " decoding switched off."
        )
    elif answer.get("encoding"):
        what = (
            f"cannot be replayed: its payloads are encoded ({printable(answer['message'], 200)}), and no codec is set."
        )
        hint = (
            "Have loom_flows name a temporalio.worker.Replayer that has the application's data converter:"
            "\n  replayer = Replayer(workflows=[…], data_converter=DataConverter(payload_codec=…))"
        )
    return finding(log, "log-unreadable", what, hint)


def _diverged(log: Log, answer: dict[str, Any]) -> Finding:
    event = f"event {answer['event']}" if answer["event"] else "an event"
    recorded = f"{event} recorded {printable(answer['recorded'])}" if answer["recorded"] else event
    if not answer["recorded"] and answer["instead"]:
        said = f"today's code asks for {printable(answer['instead'])}{at(answer)}, and nothing like it was recorded"
    elif answer["instead"]:
        said = f"{recorded}; today's code asks for {printable(answer['instead'])} instead{at(answer)}"
    elif answer["recorded"]:
        said = f"{recorded}; today's code does not ask for it{waiting(answer)}"
    else:
        said = f"today's code does not do what {event} recorded{waiting(answer)}"
    return finding(
        log,
        "replay-diverged",
        f"{said}. {STUCK} (Temporal: {printable(answer['message'], 400)})",
        _patch(answer),
        step=answer["step"] or None,
    )


def _beyond(log: Log, answer: dict[str, Any]) -> Iterator[Finding]:
    """More is asked for than was recorded, in workflow tasks that are over: the code does not wait where the run does.

    The Replayer lets it pass. A worker sends it with the next workflow task, whatever that brings.
    """
    more = answer["beyond"]
    if more is None or not log.state.in_flight:
        return
    if more["beside"]:
        yield finding(
            log,
            "replay-diverged",
            f"today's code asks for {printable(more['what'])}{at(more)} beside what this run waits for, and the"
            " recorded code did not. The run goes on with the signal or update that ends its wait. The timer starts"
            " only with the run's next workflow task, where that does not end the wait: as long as nothing comes, the"
            " run does not time out.",
            "Nothing, where that may be. Where these runs have to time out, too, send each a signal that changes"
            " nothing: its timer starts with that.",
            severity="warning",
        )
        return
    yield finding(
        log,
        "replay-diverged",
        f"today's code asks for {printable(more['what'])}{at(more)} where the recorded code asked for nothing more, and"
        " the run waits: it goes on without what the run waits for, or does this before it. The run is not stuck, and"
        " nothing fails: a worker does it late, with the run's next signal, timer or other workflow task, whatever that"
        " brings.",
        "Keep the wait, and put what is new behind it; or do it only in runs that come there later:"
        '\n  if workflow.patched("NAME-OF-THE-CHANGE"):'
        f"\nOr {_FINISH}.",
        step=more["step"] or None,
    )


def _patch(answer: dict[str, Any]) -> str:
    old = printable(answer["recorded"]) or "what was recorded"
    new = printable(answer["instead"]) or "today's code"
    return (
        "Keep the old way for runs that were started on it, until they are over:"
        '\n  if workflow.patched("NAME-OF-THE-CHANGE"):'
        f"\n      …  # {new}"
        "\n  else:"
        f"\n      …  # {old}"
        f"\nOr {_FINISH}, or give the changed workflow a new type and keep the old one."
    )


def _raised(log: Log, answer: dict[str, Any]) -> Finding:
    error = f"{printable(answer['type'])}: {printable(answer['message'], 300)}" if answer["type"] else ""
    error = (error or printable(answer["message"], 300)).rstrip(".")  # a sentence of ours goes on
    through, about = answer["through"], printable(answer.get("about", ""), 200)
    news = " It is news that no worker has seen yet." if answer.get("ahead") else ""
    if "_make_workflow_input" in through:
        return finding(
            log,
            "input-contract",
            f"today's {printable(log.workflow_id)} cannot read the input that this run was started with: {error}."
            f" {STUCK}",
            f"Give new fields a default and keep reading the old form until these runs are over, or {_FINISH}.",
        )
    if "Failed decoding arguments" in answer["all"]:
        return finding(
            log,
            "output-contract",
            f"today's code cannot read the recorded answer of {about or 'a step'}: {error}.{news} {STUCK}",
            f"Give new fields a default and keep reading the old form until these runs are over, or {_FINISH}.",
            step=about.partition(", ")[0] or None,
        )
    if "RestrictedWorkflowAccessError" in answer["all"]:
        return finding(
            log,
            "replay-diverged",
            f"today's code uses what the workflow sandbox refuses{at(answer)}: {error}. {STUCK}",
            "Use workflow.now(), workflow.uuid4(), workflow.random() or an activity; or pass the module through.",
        )
    if answer["type"] == "LiveCallError":
        return _live(log, answer | {"live": [answer["message"]]})
    missed = answer.get("missed")
    asks = " The code asked for environment variables that a simulation does not have." if missed else ""
    severity: Severity = "warning" if missed else "breaking"
    handed = f" when it is given {about}" if about and about != "input" else ""
    return finding(
        log,
        "replay-diverged",
        f"today's code raises {error}{handed}{at(answer)}.{news}{asks} {STUCK}",
        f"Mend the code, or {_FINISH}. An error that shall end the run has to be an ApplicationError.",
        severity=severity,
    )
