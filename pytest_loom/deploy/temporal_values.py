"""What Temporal's Replayer does not look at: values that today's code makes, or reads, otherwise in silence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pytest_loom.contract.pending import value_problems
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

STUCK = "Each worker that picks the run up fails its workflow task, again and again: it is stuck until the code fits."


def changed_values(log: Log, changes: list[dict[str, Any]]) -> Iterator[Finding]:
    """What differs from the record in a replay that passed: values, and what holds for new runs only.

    ``changes`` are those of ``sources.temporal.commands``.
    """
    quiet: list[str] = []
    for change in changes:
        where, step = f"event {change['event']}", printable(change["step"])
        place, *values = _apart(change["recorded"], change["today"])
        was, now = ("nothing" if value is _NOTHING else printable(repr(value), 120) for value in values)
        if change["what"] in ("timer", "options"):
            quiet.append(f"{where} ({step or 'timer'}): {was} was recorded, today's code says {now}")
        elif not _extends(change["recorded"], change["today"]):
            what = {"input": f"is given to {step or 'the next run'}", "output": "is the run's result"}
            yield finding(
                log,
                "replay-diverged",
                f"{where}: {printable(place) or 'the value'} is {was} in the record, and {now} by today's code; it"
                f" {what.get(change['what'], 'is how the run ends')}{at(change)}. Temporal does not compare values.",
                "What has been done stays as it is recorded; look whether the change is meant for runs on their way.",
                step=change["step"] or None,
                severity="warning",
            )
    if quiet:
        more = f" (and {len(quiet) - 3} more)" if len(quiet) > 3 else ""
        yield finding(
            log,
            "contract-drift",
            f"what has been asked for keeps its settings: {'; '.join(quiet[:3])}{more}.",
            "Nothing to do: runs that come there later go by today's code.",
            severity="info",
        )


_NOTHING = object()


def _apart(recorded: Any, today: Any, path: str = "") -> tuple[str, Any, Any]:
    """The first place where two values differ, and what each has there; what was only added is no difference."""
    if isinstance(recorded, dict) and isinstance(today, dict):
        for key, value in recorded.items():
            inner = f"{path}.{key}" if path else str(key)
            if key not in today:
                return inner, value, _NOTHING
            if not _extends(value, today[key]):
                return _apart(value, today[key], inner)
    if isinstance(recorded, list) and isinstance(today, list) and len(recorded) == len(today):
        for place, (value, other) in enumerate(zip(recorded, today, strict=True)):
            if not _extends(value, other):
                return _apart(value, other, f"{path}[{place}]")
    return path, recorded, today


def _extends(recorded: Any, today: Any) -> bool:
    """Whether a value is the recorded one with more keys."""
    if isinstance(recorded, dict) and isinstance(today, dict):
        return all(key in today and _extends(value, today[key]) for key, value in recorded.items())
    if isinstance(recorded, list) and isinstance(today, list):
        return len(recorded) == len(today) and all(map(_extends, recorded, today))
    return type(recorded) is type(today) and bool(recorded == today)


def lost_results(log: Log, answer: dict[str, Any]) -> Iterator[Finding]:
    """Results of which a key is not read any more, and stands by another name with a default: a silent loss.

    ``answer`` has the JSON schema of what each result is decoded to (``types``), by the event that asked (``returns``).
    That it can be decoded at all, the replay has shown.
    """
    told: set[str] = set()
    for event in log.events:
        call = event.payload.get("callId")
        if event.event_type != "STEP_COMPLETED" or call not in answer["returns"]:
            continue
        step = str(event.payload.get("stepId"))
        schema = answer["types"][answer["returns"][call]]
        lost = [found for found in value_problems(None, schema, event.payload.get("output")) if found.kind == "renamed"]
        if lost and step not in told:
            told.add(step)
            yield finding(
                log,
                "output-contract",
                f"event {event.line}: the recorded result of {printable(step)} is not read as it was: {lost[0].detail}."
                " The SDK says nothing.",
                "Keep reading the old name too until these runs are over, or let the old code finish them.",
                step=step,
            )


def at(answer: dict[str, Any]) -> str:
    """`` (file:line)`` of an answer, or "" where it is not known."""
    return f" ({short(answer['line'])})" if answer.get("line") else ""


def waiting(answer: dict[str, Any]) -> str:
    """Where the code waits, as the end of a sentence."""
    line = answer.get("line") or answer.get("waitsAt")
    return f"; it waits at {short(line)}" if line else ""


def short(line: str) -> str:
    """``file:line``, as seen from where we are."""
    here = os.getcwd() + os.sep
    return printable(line.removeprefix(here), 300)
