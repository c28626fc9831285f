"""What a run's record says was asked for, beside what today's code asks for, in order: Temporal's replay compares less.

SDK Core compares types of activities only where the history says that the worker did so too (``sdkMetadata``, core flag
1): in histories of older SDKs, and in fixtures from which that was taken, a renamed activity gets the other's result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

KINDS = {
    "activity": "the activity",
    "childWorkflow": "the child workflow",
    "nexus": "the Nexus operation",
    "signalExternal": "the signal to another workflow,",
    "cancelExternal": "the cancellation of another workflow,",
    "timer": "a timer",
}
"""What is compared. A local activity is recorded when it ends, so its place tells nothing."""


class Asked(NamedTuple):
    """One thing that code asked its engine for.

    ``kind`` is a key of ``KINDS``; ``name`` the step id that a log has (``signalExternal:NAME``), "" for a timer;
    ``place`` is where: ``event 5``, or a file and line, "" where that is not known.
    """

    kind: str
    name: str
    place: str = ""


def recorded(log: Log) -> Iterator[Asked]:
    """What the run asked for, in order."""
    for event in log.events:
        if event.event_type == "STEP_STARTED":
            payload = event.payload
            if payload.get("kind") in KINDS:
                yield Asked(payload["kind"], str(payload.get("stepId")), f"event {event.line}")
        elif event.event_type == "EXECUTION_SUSPENDED" and event.payload.get("on") == "TimerFired":
            yield Asked("timer", "", f"event {event.line}")


def compare_commands(log: Log, commands: Iterable[Asked]) -> list[Finding]:
    """Where today's code asks for something else than was recorded, in a replay that the engine itself let pass.

    ``commands``: all that today's code asked for in that replay, in order, without what it took back in the same
    workflow task. It may be ahead of an unfinished run. Where only names differ, each of them is told once; else the
    first place, behind which nothing matches.
    """
    was = list(recorded(log))
    now = [command for command in commands if command.kind in KINDS]
    pairs = list(zip(was, now, strict=False))
    apart = [(old, new) for old, new in pairs if (old.kind, old.name) != (new.kind, new.name)]
    if not apart:
        if len(now) >= len(was):
            return []
        return [_diverged(log, was[len(now)], None)]
    only_names = len(now) >= len(was) and all(old.kind == new.kind for old, new in apart)
    renamed = {old.name: new.name for old, new in apart}
    if only_names and all(renamed.get(old.name, old.name) == new.name for old, new in pairs):
        first = {old.name: (old, new) for old, new in reversed(apart)}
        return [_diverged(log, *first[name]) for name in dict.fromkeys(old.name for old, _ in apart)]
    return [_diverged(log, *apart[0])]


def _diverged(log: Log, old: Asked, new: Asked | None) -> Finding:
    does = "asks for nothing more" if new is None else f"asks for {_shown(new)}{f' ({new.place})' if new.place else ''}"
    then = "" if new is None or old.kind != new.kind else " The SDK gives it the recorded result of the other, unasked."
    return finding(
        log,
        "replay-diverged",
        f"{printable(old.place)}: {_shown(old)} was asked for, and today's code {printable(does, 400)} there.{then}",
        "Keep the name under which it is registered (@activity.defn(name=…)), or make the change only for new runs:"
        " if workflow.patched(…).",
        step=old.name or None,
    )


def _shown(asked: Asked) -> str:
    return f"{KINDS[asked.kind]} {printable(asked.name)}" if asked.name else KINDS[asked.kind]
