"""Checks for waiting graphs of pydantic-graph 1.x: can the persistence file be loaded, and does it mean the same?

Measured on 1.107. The whole file is validated when a graph goes on, so that every node in it, finished ones too, has to
be a node of today's graph, with fields and states that fit; else the run cannot be loaded at all. What today's
dataclasses do not know is dropped without a word, and what is new in them is filled in by its default.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pytest_loom.contract.binding import Fact, Path, bind
from pytest_loom.contract.model import Contract
from pytest_loom.contract.nodes import Undecided, shown_path
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import FlowError, printable
from pytest_loom.log.event import Log

FRAMEWORK = "pydantic_graph"


def nodes_there(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """Every node of the file has to be one of today's graph."""
    if contract.steps is None or not _waits(log):
        return
    nodes = {frame.step_id: "is done" for frame in log.state.frames.values()}
    nodes |= {str(pending["node"]): "comes next" for pending in _frontier(log)}
    for node, stands in nodes.items():
        if node in contract.steps:
            continue
        name = printable(node)
        near = difflib.get_close_matches(
            node, [other for other in contract.steps if other not in nodes], n=1, cutoff=0.4
        )
        renamed = f" Was it renamed to {printable(near[0])}?" if near else ""
        yield finding(
            log,
            "frontier-missing",
            f"node {name} {stands}, and today's {printable(contract.workflow_id)} has no such node: the persistence"
            f" file is validated as a whole, so the run cannot be loaded.{renamed}",
            f"Keep the node {name} in the graph (get_node_id keeps a name) until these runs are over.",
            step=node,
        )


def fields_fit(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The fields of every node have to validate, and those of the node that comes next have to be read."""
    if contract.steps is None or not _waits(log):
        return
    given = [(frame.step_id, frame.input, False) for frame in log.state.frames.values()]
    given += [(str(pending["node"]), pending.get("args"), True) for pending in _frontier(log)]
    for node, fields, is_next in given:
        step = contract.steps.get(node)
        if step is not None:
            yield from _fit(log, step.input_schema, fields, f"node {printable(node)}", node, is_next)


def state_fits(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The state before every node has to validate, and the last one has to be read."""
    if contract.state_schema is None or not _waits(log):
        return
    states = [event.payload.get("state") for event in log.events if event.event_type == "STATE_SNAPSHOT"]
    step = next((str(pending["node"]) for pending in _frontier(log)), None)
    seen: set[str] = set()
    for number, state in enumerate(states, 1):
        for found in _fit(log, contract.state_schema, state, "the state", step, number == len(states)):
            if found.message not in seen:
                seen.add(found.message)
                yield found


def _fit(log: Log, schema: Any, value: Any, what: str, step: str | None, is_last: bool) -> Iterator[Finding]:
    """What is refused of a value, and, where the run goes on with it, what is dropped."""
    if schema is None:
        return
    try:
        facts = bind(schema, value)
    except (Undecided, FlowError, RecursionError):
        return
    for path, fact in facts.items():
        where = printable(shown_path(path) or "as a whole")
        if fact.kind == "refused":
            yield finding(
                log,
                "state-type",
                f"{what}: {where} {printable(fact.note)}, so the persistence file does not validate and the run cannot"
                " be loaded.",
                "Give it a default or a type that reads what is saved, or convert the files before the deploy.",
                step=step,
            )
        elif fact.kind == "ignored" and is_last:
            filled = _filled_in_its_place(path, facts)
            yield finding(
                log,
                "state-key-lost",
                f"{what}: {where} is saved, and nothing of today reads it: it is dropped without a word"
                + (f", and {filled} instead." if filled else "."),
                "Keep the name, or read both (Field(validation_alias=AliasChoices(...))).",
                step=step,
                severity=None if filled else "warning",
            )


def _filled_in_its_place(path: Path, facts: dict[Path, Fact]) -> str:
    """What is new beside a key that is lost: it may be the same under another name."""
    new = [
        (other, fact)
        for other, fact in facts.items()
        if other[:-1] == path[:-1] and fact.kind in ("default", "null", "absent")
    ]
    names = [str(other[-1]) for other, _ in new]
    if not names:
        return ""
    best = (difflib.get_close_matches(str(path[-1]), names, n=1, cutoff=0) or names)[0]
    fact = new[names.index(best)][1]
    value = {"default": fact.text, "null": "null"}.get(fact.kind, "its default")
    return f"{printable(best)} is {printable(value)}"


def _waits(log: Log) -> bool:
    return log.state.status == "suspended" and log.state.manifest.get("framework") == FRAMEWORK


def _frontier(log: Log) -> Iterator[dict[str, Any]]:
    for wait in log.state.suspensions:
        if isinstance(wait.pending, dict) and isinstance(wait.pending.get("node"), str):
            yield wait.pending


CHECKS = (nodes_there, fields_fit, state_fits)
"""All of them: functions ``(log, today's contract, yesterday's or None) -> findings``."""
