"""A durable function of AWS Lambda is code: what it would do to a waiting execution, the SDK tells by replaying it.

In a copy of this process that can do nothing to the world (``apart``). On resume the engine looks each operation up by
its place and holds the code to its name, type and parent; anything else ends the execution as FAILED. What the engine
does not check is told from the same replay: a wait that today's code does not come to any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_loom.deploy import apart
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.flow import guard
from pytest_loom.log.event import Log
from pytest_loom.sources.aws_durable.contract import is_durable
from pytest_loom.sources.aws_durable.replay import operations_of, replayed

_KEEP = "Keep what has run as it is and change only what comes after, or let the old code finish these executions."
_OF_AN_OPERATION = "aws_durable_execution_sdk_python.exceptions."


def shadowed(log: Log, flow: Any) -> Iterator[Finding]:
    """What a replay of today's function against an unfinished execution finds. Raises LogError for an unreadable log.

    Says nothing of another engine's runs, and nothing where the replay itself does not come to an end.
    """
    if log.source != "aws-durable" or not log.state.in_flight or not is_durable(flow):
        return
    if any("are not in the history" in notice for notice in log.notices):
        return  # what was answered is not known
    operations = operations_of(log)

    def ask() -> Any:
        hint = "What is no step is done again each time the execution is resumed: make it a step."
        with guard.closed(during="while the execution was replayed", hint=hint, everywhere=True) as closed:
            said = replayed(flow, operations)
        return said | {"live": [call.what for call in closed.calls]}

    try:
        said = apart.apart(ask)
    except apart.Unanswered:
        return
    if said["live"]:
        what = f"{printable(said['live'][0], 400)}: what is no step is done again each time the execution is resumed."
        yield finding(log, "effect-repeated", what, "Make it a step.")
    elif said["mismatch"] is not None:
        yield _diverged(log, said["mismatch"])
    elif said["status"] == "FAILED" and not said["new"] and not said["error"]["type"].startswith(_OF_AN_OPERATION):
        error = f"{printable(said['error']['type'])}: {printable(said['error']['message'], 300)}"
        what = f"today's code cannot go over what was recorded: {error}. Resumed, the execution would end as FAILED."
        yield finding(log, "replay-diverged", what, _KEEP)
    else:
        yield from _passed(log, said)


def _diverged(log: Log, mismatch: dict[str, Any]) -> Finding:
    then, now = mismatch["then"], mismatch["now"]
    parts = [key for key in ("type", "subType", "name", "parentId") if then.get(key) != now.get(key)]
    what = (
        f"recorded was {_shown(then)}, and today's code asks for {_shown(now)} in its place (another"
        f" {', '.join(parts)}). Resumed, the execution would end as FAILED: NonDeterministicExecutionError."
    )
    return finding(log, "replay-diverged", what, _KEEP, step=then.get("name") or None)


def _passed(log: Log, said: dict[str, Any]) -> Iterator[Finding]:
    """Waits of the run that today's code does not come to, and work that is new before them."""
    waits = [wait for wait in log.state.suspensions if wait.correlation_key is not None]
    if not waits:
        return
    name, new = printable(waits[0].events[0]), ", ".join(_shown(one) for one in said["new"][:3])
    is_reached = any(wait.correlation_key in said["reached"] for wait in waits)
    if not is_reached and (said["status"] == "SUCCEEDED" or said["endless"]):
        after = f" (after {new}, which is new)" if new else ""
        yield finding(
            log,
            "frontier-missing",
            f"waits for {name}, and today's code goes on without it{after}: whatever the answer is, nobody reads it.",
            f"Have the code wait for {name}, or let the old code finish these executions.",
            step=waits[0].events[0],
        )
    elif new:
        what = f"today's code does {new} before it waits for {name}; when this execution began to wait it did not."
        yield finding(log, "step-inserted", what, "Put the new work behind the wait.", step=said["new"][0].get("name"))


def _shown(operation: dict[str, Any]) -> str:
    kind = str(operation.get("subType") or operation.get("type", "")).lower()
    return f"{printable(kind)} {printable(operation.get('name') or 'without a name')}"
