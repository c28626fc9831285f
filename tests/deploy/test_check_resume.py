"""check_resume: the eight verdicts, each with its reasons and next step, in the order of the pipeline (seed 003)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pytest_loom import Contract, FlowError, Log, LogBuilder, check_resume, fork, migration, resume, upcaster
from pytest_loom.deploy.decide import ResumeDecision
from pytest_loom.log.migrations import isolated_migrations
from pytest_loom.log.upcast import isolated_upcasters

SCHEMA = {"type": "object", "properties": {"env": {"type": "string"}}, "required": ["env"]}
TODAY: dict[str, Any] = {
    "workflowId": "release",
    "version": "2",
    "engine": "journal",
    "steps": {"build": {}},
    "gates": {"Approved": {"payloadSchema": {"type": "object"}}},
    "tools": {"deploy": {"schema": SCHEMA, "version": 1, "permissions": ["cluster"]}},
}
SHOWN = {
    "callId": "c-1",
    "name": "deploy",
    "args": {"env": "prod"},
    "toolSchema": SCHEMA,
    "toolSchemaVersion": 1,
    "permissions": ["cluster"],
}


@pytest.fixture(autouse=True)
def own_registries() -> Iterator[None]:
    """Each test registers its own migrations and upcasters."""
    with isolated_migrations(), isolated_upcasters():
        yield


def contract(**parts: Any) -> Contract:
    """Today's contract with other parts."""
    return Contract.model_validate({**TODAY, **parts})


def log_of(*, manifest: dict[str, Any] | None = None, state: Any = None, ends: str = "", version: int = 1) -> Log:
    """A run of release that built, saved its state and waits for an approval."""
    made = LogBuilder("r-1", "release", path="r.loom.jsonl")
    made.add("EXECUTION_STARTED", {"input": {}, "manifest": manifest or {}}, timestamp=1, line=1)
    made.add("STEP_STARTED", {"stepId": "build"}, timestamp=2, line=2)
    made.add("STEP_COMPLETED", {"stepId": "build", "output": {"n": 1}}, timestamp=3, line=3, event_version=version)
    if state is not None:
        made.add("STATE_SNAPSHOT", state, timestamp=4, line=4)
    made.add("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "pending": SHOWN}, timestamp=5, line=5)
    if ends:
        made.add(ends, {}, timestamp=6, line=6)
    return made.log()


def codes(decision: ResumeDecision) -> list[str]:
    """What was found beside that the run waits."""
    return [found.code for found in decision.findings if found.code != "suspended-carryover"]


class TestVerdicts:
    def test_resume(self) -> None:
        """Nothing changed: the run goes on, and the next step is what to type."""
        decision = check_resume(log_of(), contract())
        assert (decision.verdict, decision.ok, codes(decision)) == ("resume", True, [])
        assert decision.next_step == "resume(log, flow, event='Approved', payload=…)"
        assert str(decision).startswith("release r-1: resume\n")

    def test_upcast(self) -> None:
        """An event of an older version is read through the chain, and it is said which."""
        upcaster("STEP_COMPLETED", from_version=1)(lambda payload: {**payload, "output": [payload["output"]]})
        decision = check_resume(log_of(), contract())
        assert (decision.verdict, decision.ok) == ("upcast", True)
        assert "STEP_COMPLETED is read in version 2, upcast from 1" in decision.reasons

    def test_migrate(self) -> None:
        """A saved state of an older version is carried, and it is said from where to where."""
        migration("state", from_version=2)(lambda state: {**state, "currency": "EUR"})
        log = log_of(state={"stateSchemaVersion": 2, "state": {"cents": 1}})
        decision = check_resume(log, contract(versions={"state": 3}))
        assert (decision.verdict, decision.ok) == ("migrate", True)
        assert "the state is carried from version 2 to 3" in decision.reasons

    def test_pin_by_policy(self) -> None:
        """A worker that is kept takes its own runs, whatever today's code would do to them."""
        policy = {"worker": [{"flow": "release", "version": "1.*"}]}
        log = log_of(manifest={"flowVersion": "1.4"})
        decision = check_resume(log, contract(steps={}), policy=policy)
        assert (decision.verdict, decision.ok) == ("pin", True)
        assert decision.next_step.endswith("release 1.*.")
        assert [found.severity for found in decision.findings if found.code == "step-removed"] == ["info"]
        other = check_resume(log_of(manifest={"flowVersion": "2.0"}), contract(steps={}), policy=policy)
        assert other.verdict == "fork"

    def test_pin_by_the_registry(self) -> None:
        """A registry that still has the version of the run, beside a newer one, is asked for exactly that."""
        old, new = contract(version="1"), contract(version="2", steps={})
        asked = []

        def get_flow(workflow_id: str, version: str | None = None) -> Contract:
            asked.append(version)
            return old if version == "1" else new

        assert check_resume(log_of(manifest={"flowVersion": "1"}), get_flow).verdict == "pin"
        assert "1" in asked
        assert check_resume(log_of(manifest={"flowVersion": "2"}), get_flow).verdict == "fork"

    def test_reapprove(self) -> None:
        """A tool that may touch more is asked about again: what was shown, what it is today, and the command."""
        wider = {"deploy": {**TODAY["tools"]["deploy"], "permissions": ["cluster", "payments"]}}
        decision = check_resume(log_of(), contract(tools=wider))
        assert (decision.verdict, decision.ok, codes(decision)) == ("reapprove", False, ["approval-stale"])
        assert "may now also use payments" in decision.reasons[0]
        assert "fork(log, 3)" in decision.next_step

    def test_fork(self) -> None:
        """A step that has run and is gone: the work would be done again."""
        decision = check_resume(log_of(), contract(steps={}))
        assert (decision.verdict, decision.ok, codes(decision)) == ("fork", False, ["step-removed"])
        assert "recorded result is orphaned" in decision.reasons[0]

    def test_manual(self) -> None:
        """A gate that is gone: the answer would reach nobody."""
        decision = check_resume(log_of(), contract(gates={"Granted": {}}))
        assert (decision.verdict, decision.ok, codes(decision)) == ("manual", False, ["gate-removed"])
        assert decision.next_step

    def test_reject(self) -> None:
        """A flow that is gone: nothing will pick the run up."""
        decision = check_resume(log_of(), {"other": contract(workflowId="other")})
        assert (decision.verdict, decision.ok, codes(decision)) == ("reject", False, ["flow-missing"])
        assert "Keep release registered" in decision.next_step

    @pytest.mark.parametrize("ends", ["EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED"])
    def test_a_run_that_is_over(self, ends: str) -> None:
        """There is nothing to resume, whatever changed; a step that is gone is still said."""
        decision = check_resume(log_of(ends=ends), contract(tools={}, gates={}, versions={"state": 9}))
        assert (decision.verdict, codes(decision)) == ("resume", [])
        assert "there is nothing to resume" in decision.reasons[-1]
        assert decision.next_step == "Nothing: the run is over."


class TestUnknownVersions:
    @pytest.mark.parametrize("version", [None, 9, "3", True, 2.5, [3]])
    def test_of_the_state(self, version: Any) -> None:
        """A version that is not known, or newer, fails closed; the log stays as it is and nothing is filled in."""
        migration("state", from_version=2)(lambda state: {**state, "currency": "EUR"})
        facts = {} if version is None else {"stateSchemaVersion": version}
        log = log_of(state={**facts, "state": {"cents": 1}})
        before = [bytes(event.raw) for event in log.events]
        decision = check_resume(log, contract(versions={"state": 3}))
        assert decision.verdict == "reject"
        assert set(codes(decision)) <= {"schema-unknown", "migration-missing", "log-unreadable"}
        assert [bytes(event.raw) for event in log.events] == before
        assert decision.judged.migrated == []

    def test_of_the_schema(self) -> None:
        """A newer MAJOR may mean something else by the same words."""
        log = log_of()
        newer = [msgspec.structs.replace(event, schema_version="2.0.0") for event in log.events]
        decision = check_resume(Log(newer), contract())
        assert (decision.verdict, codes(decision)) == ("reject", ["schema-unknown"])

    def test_of_an_event(self) -> None:
        """An event version from the future, or one that no upcaster leads from."""
        assert codes(check_resume(log_of(version=5), contract())) == ["schema-unknown"]
        upcaster("STEP_COMPLETED", from_version=2)(lambda payload: payload)
        decision = check_resume(log_of(), contract())
        assert (decision.verdict, codes(decision)) == ("reject", ["upcast-missing"])
        assert '@upcaster("STEP_COMPLETED", from_version=1)' in decision.next_step

    def test_an_upcaster_that_cannot_do_it_without_loss(self) -> None:
        """What is declared unsupported is rejected with its reason, not guessed."""
        from pytest_loom import Unsupported

        @upcaster("STEP_COMPLETED", from_version=1)
        def lossy(payload: dict[str, Any]) -> dict[str, Any]:
            raise Unsupported("the currency was not written down")

        decision = check_resume(log_of(), contract())
        assert (decision.verdict, codes(decision)) == ("reject", ["upcast-missing"])
        assert "the currency was not written down" in decision.reasons[0]

    def test_state_folds_anew_when_an_upcaster_comes_later(self) -> None:
        """A log that was looked at before is read in today's versions once they are registered."""
        log = log_of()
        assert log.state.frames["build"].output == {"n": 1}
        upcaster("STEP_COMPLETED", from_version=1)(lambda payload: {**payload, "output": "upcast"})
        assert log.state.frames["build"].output == "upcast"
        assert check_resume(log, contract()).verdict == "upcast"


class TestTwoThingsAtOnce:
    """What is told when more than one thing is wrong: the verdict of what comes first in the pipeline."""

    def test_unreadable_before_all(self) -> None:
        """A log that cannot be read is not judged any further."""
        log = Log([*log_of().events[:2], *log_of().events[3:]])
        decision = check_resume(log, contract(steps={}, gates={}))
        assert (decision.verdict, codes(decision)) == ("reject", ["log-unreadable"])

    def test_no_flow_before_versions(self) -> None:
        """Without a flow there is nothing that a state could be carried to."""
        log = log_of(state={"stateSchemaVersion": 1, "state": {}})
        assert codes(check_resume(log, {})) == ["flow-missing"]

    def test_versions_before_pending_calls(self) -> None:
        """Both are told; what cannot be migrated decides."""
        log = log_of(state={"stateSchemaVersion": 1, "state": {}})
        wider = {"deploy": {**TODAY["tools"]["deploy"], "version": 2}}
        decision = check_resume(log, contract(versions={"state": 2}, tools=wider))
        assert decision.verdict == "reject"
        assert codes(decision) == ["migration-missing", "approval-stale"]
        assert '@migration("state", from_version=1' in decision.next_step

    def test_a_gate_before_a_step(self) -> None:
        """An answer that reaches nobody is worse than work that is done again."""
        decision = check_resume(log_of(), contract(steps={}, gates={}))
        assert (decision.verdict, sorted(codes(decision))) == ("manual", ["gate-removed", "step-removed"])

    def test_a_step_before_an_approval(self) -> None:
        """Asking again does not help where the work would be done again."""
        decision = check_resume(log_of(), contract(steps={}, tools={"deploy": {"version": 2}}))
        assert (decision.verdict, sorted(codes(decision))) == ("fork", ["approval-stale", "step-removed"])

    def test_migrate_before_upcast(self) -> None:
        """A run that needs both is migrated; both reasons are said."""
        upcaster("STEP_COMPLETED", from_version=1)(lambda payload: payload)
        migration("state", from_version=1)(lambda state: state)
        log = log_of(state={"stateSchemaVersion": 1, "state": {"a": 1}})
        decision = check_resume(log, contract(versions={"state": 2}))
        assert decision.verdict == "migrate"
        assert (
            len([reason for reason in decision.reasons if "from version 1" in reason or "upcast from" in reason]) == 2
        )


class TestArguments:
    def test_anything_that_is_a_flow(self) -> None:
        """A contract, its JSON, a mapping, a resolver; anything else is a mistake of the caller."""
        for today in (contract(), TODAY, {"release": contract()}, lambda workflow_id, version=None: contract()):
            assert check_resume(log_of(), today).verdict == "resume"
        with pytest.raises(FlowError):
            check_resume(log_of(), 5)
        with pytest.raises(TypeError, match="takes a Log"):
            check_resume("r.loom.jsonl", contract())  # type: ignore[arg-type]

    def test_nothing_is_appended(self) -> None:
        """It decides, and does nothing."""
        log = log_of()
        before = list(log.events)
        check_resume(log, contract(steps={}))
        assert log.events == before

    def test_hostile_names_stay_on_their_line(self) -> None:
        """A name out of a log cannot forge a line of the decision."""
        made = LogBuilder("r\nrelease r-2: resume", "release\x1b[31m")
        made.add(
            "EXECUTION_SUSPENDED", {"on": "A\nB", "kind": "approval", "pending": {**SHOWN, "name": "x\ny"}}, timestamp=1
        )
        text = str(check_resume(made.log(), {"release\x1b[31m": {**TODAY, "workflowId": "release\x1b[31m"}}))
        assert "\x1b" not in text
        assert not any(line.startswith("release r-2") for line in text.splitlines())

    def test_it_is_exported(self) -> None:
        """The functions that its next steps name are in the package."""
        assert callable(resume)
        assert callable(fork)
