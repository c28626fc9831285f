"""Shadow resume of an agents' run: what structure cannot show is asked of the SDK, apart and with nothing run.

The SDK loads the run on today's agent, in a copy of the process that can do nothing to the world. What it refuses is
said in its own words; what the application's own validators refuse is found here too. No tool and no model is run.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from pytest_loom.deploy import apart
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log
from pytest_loom.log.origin import origin_of

_LOADERS = {"openai-agents": "pytest_loom.sources.openai_agents.shadow"}
"""By the name of a log's source: our module whose ``loaded(path, flow)`` says what the SDK makes of a run."""

_REFUSED = (
    ("unknown", "schema-unknown", "Deploy with the SDK that wrote these runs, or a newer one."),
    ("error", "frontier-missing", "Let the old code finish these runs, or restore what the SDK misses."),
)


def not_asked(log: Log) -> str:
    """What to say of an imported run that its SDK would have been asked about; "" for any other."""
    if log.source not in _LOADERS or not origin_of(log) or not log.state.in_flight:
        return ""
    return (
        f"unfinished runs imported from {log.source} are judged by what their logs say: only the engine's own record"
        " can be loaded by the SDK itself, so what only that refuses is not found"
    )


def shadowed(log: Log, flow: Any) -> Iterator[Finding]:
    """What the SDK says of an unfinished run on today's flow: refused, a question lost, arguments refused.

    Says nothing where it cannot be asked: another engine, a flow that is data, code that hangs or reaches out.
    """
    module = _LOADERS.get(log.source)
    if module is None or not log.state.in_flight or log.live or not hasattr(type(flow), "as_tool"):
        return
    if origin_of(log):
        return  # an imported run: the SDK reads its own record only (``not_asked``)
    loaded = importlib.import_module(module).loaded

    def ask() -> Any:
        said = loaded(log.path, flow)
        return {} if apart.missed and "invalid" in said else said  # a rule that hung on the environment tells nothing

    try:
        said = apart.apart(ask)
    except apart.Unanswered:
        return
    for key, code, hint in _REFUSED:
        if key in said:
            what = f"the SDK that is installed refuses to load this run: {printable(said[key], 400)}"
            yield finding(log, code, what, hint)
            return
    invalid = said.get("invalid", {})
    for wait in log.state.suspensions:
        for call in wait.pending if isinstance(wait.pending, list) else []:
            call_id, name = str(call.get("callId")).rpartition("/")[2], str(call.get("name"))
            if call_id not in said.get("pending", [call_id]):
                yield finding(
                    log,
                    "frontier-missing",
                    f"waits for a decision about {printable(name)}, and the SDK does not show that question any more"
                    " when it loads the run on today's agent: no answer would reach it.",
                    "Keep the agent that asks, and its tools, as they were until these runs are over.",
                    step=name,
                )
            elif call_id in invalid and call.get("decision") != "rejected":
                why = printable(invalid[call_id], 400)
                yield finding(
                    log,
                    "approval-stale" if call.get("decision") == "approved" else "tool-args",
                    f"{printable(name)} waits with arguments that today's tool refuses: {why}. The SDK only tells the"
                    " model that the tool failed, and the run looks finished.",
                    "Keep taking the arguments that were shown, or ask for the approval anew.",
                    step=name,
                )
