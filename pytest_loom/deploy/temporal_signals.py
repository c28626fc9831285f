"""Signals of a Temporal run that reach nobody, as a replay on today's code has seen it.

The SDK keeps a signal without a handler for one that may come, and drops one that its handler cannot read, with no more
than a line in the worker's log. What the code should have done then, it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.handlers import gate_of
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.deploy.temporal_values import STUCK, at, waiting
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

_OLD_FORM = "Let the handler take the old form too, until these runs are over."


def waits_unheard(answer: dict[str, Any], yesterday: Contract | None) -> bool:
    """Whether the code waits where its record goes on, and a signal that came before that reached no handler.

    Not one that the code before had no handler for either, as far as its contract is kept.
    """
    if not answer["unheard"] or not answer["recorded"] or answer["instead"]:
        return False
    if yesterday is None or yesterday.gates is None:
        return True
    return gate_of(yesterday, "signal", answer["unheard"]["signal"]) is not None


def unheard(log: Log, answer: dict[str, Any]) -> Finding:
    """That signal, as the cause of the divergence."""
    name, why = printable(answer["unheard"]["signal"]), printable(answer["unheard"]["why"], 300)
    gone = f"today's {printable(log.workflow_id)} has no handler for it"
    lost = f"today's handler cannot read it, so that the SDK drops it: {why}" if why else gone
    return finding(
        log,
        "gate-changed" if why else "gate-removed",
        f"event {answer['unheard']['event']}: the signal {name} was sent to this run, and {lost}. So the code still"
        f" waits{at(answer)}, where event {answer['event']} recorded {printable(answer['recorded'])}. {STUCK}"
        f" (Temporal: {printable(answer['message'], 400)})",
        _OLD_FORM if why else f"{_handler(name)}\nWhere no code ever took it: if workflow.patched(…) for the change.",
        step=answer["unheard"]["signal"],
    )


def lost_signals(log: Log, answer: dict[str, Any], yesterday: Contract | None) -> Iterator[Finding]:
    """Signals that reach nobody: without a handler they are kept for one for ever, and unreadable ones are dropped."""
    for name, why in answer["dropped"]:
        signal = printable(name)
        yield finding(
            log,
            "gate-changed",
            f"today's handler of {signal} cannot read what was sent to this run: {printable(why, 300)}. The SDK drops"
            " the signal and says so only in the worker's log: the run goes on as if nobody had answered.",
            _OLD_FORM,
            step=name,
        )
    if not log.state.in_flight:
        return
    for name in answer["unread"]:
        signal, news = printable(name), _arrived(log, name) >= answer["news"] > 0
        gates = None if yesterday is None else yesterday.gates
        if gates is not None and name not in gates and not news:
            continue
        sure = news or gates is not None
        yield finding(
            log,
            "gate-removed",
            f"the signal {signal} has been sent to this run, and today's {printable(log.workflow_id)} has no handler"
            f" for it{waiting(answer)}: the SDK keeps it for a handler that never comes, and what it should do never"
            " happens.",
            _handler(signal),
            step=name,
            severity="breaking" if sure else "warning",
        )


def _handler(signal: str) -> str:
    keep = f"Keep a handler for {signal} beside the new one until these runs are over:"
    return f'{keep}\n  @workflow.signal(name="{signal}")'


def _arrived(log: Log, name: str) -> int:
    """The id of the last event with which a signal of that name arrived."""
    return max((event.line for event in log.events if event.payload.get("name") == name), default=0)
