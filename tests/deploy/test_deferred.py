"""Waiting calls of Pydantic AI: what breaks them, and the many changes that do not, with and without a contract."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom.contract.model import Contract
from pytest_loom.deploy import deferred
from pytest_loom.deploy.report import Finding
from pytest_loom.log.event import Log, LogBuilder

ARGS = {"order": "A-17", "cents": 4999}
PROPERTIES = {"order": {"type": "string"}, "cents": {"type": "integer"}}


def waiting(kind: str | None = None, args: Any = ARGS, framework: str = "pydantic_ai") -> Log:
    """A run in which ``look`` is done and ``refund`` waits."""
    builder = LogBuilder("run-1", "desk")
    call = {"callId": "b", "name": "refund", "args": args}
    events: list[tuple[str, dict[str, Any]]] = [
        ("EXECUTION_STARTED", {"input": "go", "manifest": {"framework": framework}}),
        ("TOOL_REQUESTED", {"callId": "a", "name": "look", "args": {}}),
        ("TOOL_COMPLETED", {"callId": "a", "name": "look", "output": "seen"}),
        ("TOOL_REQUESTED", call),
        (
            "EXECUTION_SUSPENDED",
            {"on": "DeferredToolResults", "kind": "approval", "pending": [call | ({"kind": kind} if kind else {})]},
        ),
    ]
    for event_type, payload in events:
        builder.add(event_type, payload, timestamp=0)
    return builder.log(source="pydantic_ai", engine="checkpoint")


def tool(properties: Any = PROPERTIES, required: Any = ("order", "cents"), **more: Any) -> dict[str, Any]:
    """A tool as an agent's contract lists it."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"schema": schema, "approval": True, **more}


def contract(**more: Any) -> Contract:
    """A contract of the agent."""
    return Contract.model_validate({"workflowId": "desk", "engine": "checkpoint", **more})


YESTERDAY = contract(tools={"refund": tool(), "look": tool({}, ())})


def judged(today: Contract, yesterday: Contract | None = YESTERDAY, log: Log | None = None) -> list[Finding]:
    """What all checks find."""
    run = log or waiting()
    return [found for check in deferred.CHECKS for found in check(run, today, yesterday)]


def codes(*args: Any, **kwargs: Any) -> list[tuple[str, str]]:
    """Codes and severities of what they find."""
    return [(found.code, found.severity) for found in judged(*args, **kwargs)]


@pytest.mark.parametrize("yesterday", [YESTERDAY, None], ids=["contract", "bare"])
@pytest.mark.parametrize(
    ("today", "code"),
    [
        ({"look": tool({}, ())}, "tool-missing"),
        (
            {"refund": tool({"order": {"type": "string"}, "amount": {"type": "integer"}}, ("order", "amount"))},
            "tool-args",
        ),
        ({"refund": tool({**PROPERTIES, "reason": {"type": "string"}}, ("order", "cents", "reason"))}, "tool-args"),
        ({"refund": tool({**PROPERTIES, "cents": {"type": "integer", "maximum": 2500}})}, "tool-args"),
        ({"refund": tool({**PROPERTIES, "order": {"enum": ["A", "B"]}})}, "tool-args"),
        ({"refund": tool({"order": {"type": "string"}}, ("order",))}, "tool-args"),
        ({"refund": tool(external=True)}, "gate-changed"),
    ],
)
def test_what_would_not_be_carried_out(today: Any, code: str, yesterday: Contract | None) -> None:
    """A tool that is gone or external, or arguments that do not validate: found with and without a contract."""
    found = judged(contract(tools=today), yesterday)
    assert {one.code for one in found} == {code}
    assert all(one.severity == "breaking" and one.step == "refund" for one in found)


@pytest.mark.parametrize("yesterday", [YESTERDAY, None], ids=["contract", "bare"])
@pytest.mark.parametrize(
    "today",
    [
        {"refund": tool()},
        {"refund": tool(approval=False)},
        {
            "refund": tool(
                {"cents": {"type": ["integer", "null"]}, "order": {"type": "string", "description": "its id"}}
            )
        },
        {"refund": tool({**PROPERTIES, "memo": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}})},
        {"refund": tool({**PROPERTIES, "cents": {"type": "integer", "maximum": 90000}}), "other": tool()},
    ],
)
def test_what_is_carried_out_as_before(today: Any, yesterday: Contract | None) -> None:
    """A dropped approval, words, order, other tools, a new argument that is null, a wider type: nothing is said."""
    assert codes(contract(tools=today), yesterday) == []


def test_a_default_that_nobody_was_shown_is_a_warning() -> None:
    """It is one only where the contract shows that the argument is new."""
    today = contract(tools={"refund": tool({**PROPERTIES, "express": {"type": "boolean", "default": True}})})
    assert codes(today) == [("approval-stale", "warning")]
    assert codes(today, None) == []


def test_a_tool_that_means_another_now_has_to_be_approved_anew() -> None:
    """What would run, but not as it was shown, is a stale approval."""
    before = contract(tools={"refund": tool(version=1)})
    euros = tool({**PROPERTIES, "cents": {"type": "number"}})
    assert codes(contract(tools={"refund": tool(version=2)}), before) == [("approval-stale", "breaking")]
    assert codes(contract(tools={"refund": euros})) == [("approval-stale", "breaking")]


def test_a_result_from_outside_is_taken_whatever_became_of_the_tool() -> None:
    """Calls for other systems are answered by a result and need no tool: the requests or the contract tell them."""
    renamed = tool({"to": {"type": "string"}}, ("to",))
    for today in (
        contract(tools={}),
        contract(tools={"refund": tool(external=True)}),
        contract(tools={"refund": renamed}),
    ):
        assert codes(today, None, waiting("external")) == []
        assert codes(today, contract(tools={"refund": tool(external=True)})) == []


def test_an_approval_that_is_known_to_be_one_is_not_said_to_be_doubtful() -> None:
    """Only where neither the requests nor a contract say what a call waits for, the message says so."""
    today = contract(tools={"refund": tool(external=True)})
    assert "does not say" in judged(today, None)[0].message
    assert "does not say" not in judged(today, None, waiting("approval"))[0].message
    assert "does not say" not in judged(today)[0].message


def test_what_cannot_be_listed_is_not_missing() -> None:
    """Where a run may bring up more tools, or no contract lists any, a tool that is not listed is no finding."""
    assert codes(contract(tools={}, moreTools=True)) == []
    assert codes(contract()) == []


def test_the_new_name_of_a_tool_is_guessed_among_new_tools_only() -> None:
    """A tool that was there before is not what the missing one is called now."""
    (found,) = judged(contract(tools={"look": tool({}, ()), "refund_order": tool()}))
    assert "Was it renamed to refund_order?" in found.message
    (found,) = judged(contract(tools={"look": tool({}, ())}), None, waiting())
    assert "renamed" not in found.message


def test_other_frameworks_and_arguments_that_are_no_object_are_left_alone() -> None:
    """The rules are this framework's; arguments that are no object were the model's slip under the old code too."""
    gone = contract(tools={})
    assert codes(gone, None, waiting(framework="another")) == []
    assert codes(contract(tools={"refund": tool()}), None, waiting(args="{broken")) == []
