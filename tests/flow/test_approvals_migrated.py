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


def answered(event: str) -> Log:
    """A run that was cut off right after the wait for an approval of ``pay`` was over."""
    builder = LogBuilder("r1", "shop")
    builder.add("EXECUTION_STARTED", {}, timestamp=0)
    call = {"name": "pay", "args": {"amount": 4999}, "toolSchema": OLD, "toolSchemaVersion": 1}
    builder.add("EXECUTION_SUSPENDED", {"on": "Go", "kind": "approval", "timeoutMs": 5, "pending": call}, timestamp=1)
    builder.add("EXECUTION_RESUMED", {"eventType": event, "payload": {"on": "Go"}}, timestamp=2)
    return builder.log()


def test_a_timeout_is_nobodys_agreement() -> None:
    """An approval that came right before the crash is asked again; one whose time ran out was never given."""
    assert check_resume(answered("Go"), today()).verdict == "reapprove"
    assert check_resume(answered("TIMEOUT"), today()).verdict == "resume"


def test_the_way_out_names_the_point_to_fork_from() -> None:
    """A call that was agreed to is asked again from before its question; another is made again from before itself."""
    builder = LogBuilder("r1", "shop")
    builder.add("EXECUTION_STARTED", {}, timestamp=0)
    builder.add("EXECUTION_SUSPENDED", {"on": "Go", "kind": "approval"}, timestamp=1)
    builder.add("EXECUTION_RESUMED", {"eventType": "Go"}, timestamp=2)
    call = {"callId": "c1", "name": "pay", "args": {"amount": 4999}, "toolSchema": OLD, "approval": True}
    builder.add("TOOL_REQUESTED", call, timestamp=3)
    assert "fork(log, 1)" in check_resume(builder.log(), today()).next_step
    with isolated_migrations():
        migration("tool:pay", from_version=1)(lambda args: {"cents": "many"})
        assert "fork(log, 1)" in check_resume(pending(None), today()).next_step


def test_a_standing_approval_is_withdrawn() -> None:
    """There is no question to ask again from: the grant itself has to go."""
    assert "Withdraw the standing approval" in check_resume(pending(None, approval="always"), today()).next_step
