"""Pending calls that nobody was asked about may be migrated; what somebody was shown never is (seed 003)."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import Contract, Log, LogBuilder, Unsupported, check_resume, migration
from pytest_loom.log.migrations import isolated_migrations

OLD = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
NEW = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}


def pending(kind: str | None, **said: Any) -> Log:
    """A run with a call of version 1 of ``pay``: one that waits for something, or was cut off (None)."""
    builder = LogBuilder("r1", "shop")
    builder.add("EXECUTION_STARTED", {"manifest": {"toolSchemaVersions": {"pay": 1}}}, timestamp=0)
    call = {"callId": "c1", "name": "pay", "args": {"amount": 4999}, "toolSchema": OLD, **said}
    builder.add("TOOL_REQUESTED", call, timestamp=1)
    if kind is not None:
        wait = {"on": "Go", "kind": kind, "pending": {"callId": "c1"}}
        builder.add("EXECUTION_SUSPENDED", wait, timestamp=2)
    return builder.log()


def today(version: int = 2) -> Contract:
    """Today's contract: pay takes cents."""
    tools = {"pay": {"schema": NEW, "version": version}}
    return Contract.model_validate({"workflowId": "shop", "tools": tools, "gates": {"Go": {}}, "steps": {}})


@pytest.mark.parametrize("kind", ["timer", "crash", None])
def test_a_call_that_nobody_was_asked_about_is_migrated(kind: str | None) -> None:
    """A registered migration carries its arguments to today's tool, and the verdict says so."""
    with isolated_migrations():
        migration("tool:pay", from_version=1)(lambda args: {"cents": args["amount"]})
        decision = check_resume(pending(kind), today())
    assert decision.verdict == "migrate"
    assert any("call of pay is carried from version 1 to 2" in reason for reason in decision.reasons)


@pytest.mark.parametrize("kind", ["timer", None])
def test_without_a_migration_it_is_rejected(kind: str | None) -> None:
    """Nothing leads from the recorded version to today's: nothing is guessed."""
    decision = check_resume(pending(kind), today())
    assert decision.verdict == "reject"
    assert [found.code for found in decision.findings if found.severity == "breaking"] == ["migration-missing"]
    assert '@migration("tool:pay", from_version=1)' in decision.next_step


def test_a_migration_that_finds_no_way_rejects() -> None:
    """A migration that says Unsupported is no way."""

    def no_way(_: Any) -> Any:
        raise Unsupported("the unit is not known")

    with isolated_migrations():
        migration("tool:pay", from_version=1)(no_way)
        decision = check_resume(pending(None), today())
    assert (decision.verdict, "the unit is not known" in decision.reasons[0]) == ("reject", True)


def test_what_the_migration_makes_has_to_fit() -> None:
    """Arguments that today's tool refuses after their migration are told."""
    with isolated_migrations():
        migration("tool:pay", from_version=1)(lambda args: {"cents": "many"})
        decision = check_resume(pending(None), today())
    assert (decision.verdict, decision.findings[0].code) == ("reapprove", "tool-args")


@pytest.mark.parametrize("kind", ["approval", "event"])
def test_an_approval_is_never_migrated(kind: str) -> None:
    """What somebody was shown is asked again, whatever migrations there are."""
    with isolated_migrations():
        migration("tool:pay", from_version=1)(lambda args: {"cents": args["amount"]})
        decision = check_resume(pending(kind), today())
    assert decision.verdict == "reapprove"


def test_an_approved_call_that_was_cut_off_is_never_migrated() -> None:
    """It had been agreed to in its old shape."""
    with isolated_migrations():
        migration("tool:pay", from_version=1)(lambda args: {"cents": args["amount"]})
        decision = check_resume(pending(None, approval=True), today())
    assert decision.verdict == "reapprove"
