"""Waiting graphs of pydantic-graph: a node, a field or a state key that is gone, and what does not matter."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom.contract.model import Contract
from pytest_loom.deploy import graphs
from pytest_loom.log.event import Log, LogBuilder

STATE = {"order": "A-17", "amount": 4999}
FIELDS = {"cents": {"type": "integer"}}


def waiting(*, status: str = "created") -> Log:
    """A graph that has done ``Load`` and goes on with ``Charge``."""
    builder = LogBuilder("run-1", "shop")
    pending = {"callId": "Charge:2", "node": "Charge", "args": {"cents": 4999}}
    events: list[tuple[str, dict[str, Any]]] = [
        ("EXECUTION_STARTED", {"input": STATE, "manifest": {"framework": "pydantic_graph"}}),
        ("STATE_SNAPSHOT", {"state": {**STATE, "amount": 0}}),
        ("STEP_STARTED", {"stepId": "Load", "callId": "Load:1", "input": {}, "attempt": 1}),
        ("STEP_COMPLETED", {"stepId": "Load", "callId": "Load:1", "attempt": 1}),
        ("STATE_SNAPSHOT", {"state": STATE}),
    ]
    if status == "created":
        events.append(("EXECUTION_SUSPENDED", {"on": "Charge", "kind": "breakpoint", "pending": pending}))
    for event_type, payload in events:
        builder.add(event_type, payload, timestamp=0)
    return builder.log(source="pydantic_ai", engine="checkpoint")


def schema(properties: Any, *required: str) -> dict[str, Any]:
    """A dataclass's schema."""
    return {"type": "object", "properties": properties, "required": list(required)}


def contract(*, nodes: tuple[str, ...] = ("Load", "Charge"), fields: Any = None, state: Any = None) -> Contract:
    """Today's graph."""
    charge = schema(FIELDS, "cents") if fields is None else fields
    steps = {name: {"inputSchema": charge if name == "Charge" else schema({})} for name in nodes}
    kept = schema({"order": {"type": "string"}, "amount": {"type": "integer", "default": 0}}, "order")
    data = {"workflowId": "shop", "engine": "checkpoint", "steps": steps, "stateSchema": state or kept}
    return Contract.model_validate(data)


def codes(today: Contract, log: Log | None = None) -> list[tuple[str, str]]:
    """What all checks find."""
    run = log or waiting()
    found = [one for check in graphs.CHECKS for one in check(run, today, None)]
    return [(one.code, one.severity) for one in found]


@pytest.mark.parametrize("nodes", [("Load", "Bill"), ("Fetch", "Charge")])
def test_every_node_of_the_file_has_to_be_there(nodes: tuple[str, ...]) -> None:
    """The framework validates the whole file: a finished node that is gone breaks a run as much as the next one."""
    assert codes(contract(nodes=nodes)) == [("frontier-missing", "breaking")]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (
            schema({"amount": {"type": "integer"}}, "amount"),
            [("state-key-lost", "warning"), ("state-type", "breaking")],
        ),
        (schema({"amount": {"type": "integer", "default": 0}}), [("state-key-lost", "breaking")]),
        (schema({"cents": {"type": "string"}}, "cents"), [("state-type", "breaking")]),
        (schema({}), [("state-key-lost", "warning")]),
        (schema({**FIELDS, "currency": {"type": "string", "default": "EUR"}}, "cents"), []),
    ],
)
def test_the_fields_of_the_next_node(fields: Any, found: Any) -> None:
    """A field renamed behind a default is dropped in silence; one that is required makes the file unreadable."""
    assert sorted(codes(contract(fields=fields))) == found


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (schema({"order": {"type": "string"}, "cents": {"type": "integer", "default": 0}}, "order"), "state-key-lost"),
        (schema({"order": {"type": "integer"}, "amount": {"type": "integer"}}), "state-type"),
        (schema({"order": {}, "amount": {}, "customer": {"type": "string"}}, "customer"), "state-type"),
    ],
)
def test_the_state(state: Any, found: str) -> None:
    """A key that is lost under another name, retyped or newly required is said once, not once a snapshot."""
    assert codes(contract(state=state)) == [(found, "breaking")]


def test_what_fits_or_does_not_wait_is_left_alone() -> None:
    """New keys with defaults are benign; a graph that does not wait is not loaded again."""
    wider = schema({"order": {}, "amount": {}, "notes": {"type": "array", "default": []}}, "order")
    assert codes(contract(nodes=("Ship", "Load", "Charge"), state=wider)) == []
    assert codes(contract(nodes=()), waiting(status="running")) == []
