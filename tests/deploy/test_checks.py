"""The built-in checks, each as the pure function that it is: a log and today's contract in, findings out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_loom import Contract, Log, LogBuilder
from pytest_loom.deploy.approvals import calls_waiting
from pytest_loom.deploy.checks import BUILT_IN, gate_changed, gate_removed, step_removed, suspended_carryover
from pytest_loom.deploy.versions import saved_versions

Run = Callable[..., Log]


def contract(*steps: str, **parts: Any) -> Contract:
    """Today's refund flow with these steps."""
    return Contract.model_validate({"workflowId": "refund", "steps": {step: {} for step in steps}, **parts})


def log_of(*events: tuple[str, dict[str, Any]], **facts: Any) -> Log:
    """A log of the given kinds and payloads."""
    made = LogBuilder("r-1", "refund")
    for at, (kind, payload) in enumerate([("EXECUTION_STARTED", {}), *events]):
        made.add(kind, payload, timestamp=at, **facts)
    return made.log()


def wait(on: Any, kind: str = "approval", **more: Any) -> tuple[str, dict[str, Any]]:
    """A suspension."""
    return "EXECUTION_SUSPENDED", {"on": on, "kind": kind, **more}


class TestStepRemoved:
    def test_each_step_once(self, run: Run) -> None:
        """A step of a loop that is gone is one finding, however often it ran; the others are findings of their own."""
        log = run("r-1", "poll", "assess", "poll", "poll", "pay")
        assert [found.step for found in step_removed(log, contract("assess"))] == ["poll", "pay"]

    def test_what_it_says(self, run: Run) -> None:
        """What happened, what would happen, and the way out."""
        (found,) = step_removed(run("r-1", "assess"), contract("charge"))
        assert found.message == (
            "step assess has run, but today's refund has no such step: its recorded result is orphaned and the work"
            " would be done again, live."
        )
        assert found.hint == (
            "Keep the step id assess, or let the old code finish these runs, or finish them by hand."
            " If the step is there, what loom_flows says is out of date."
        )
        assert (found.code, found.severity, found.source) == ("step-removed", "breaking", "r-1.loom.jsonl")

    def test_a_step_that_had_only_begun(self) -> None:
        """A step that failed or never ended counts too: it had effects, perhaps."""
        log = log_of(
            ("STEP_STARTED", {"stepId": "pay"}),
            ("STEP_FAILED", {"stepId": "pay", "error": {}}),
            ("STEP_STARTED", {"stepId": "mail"}),
        )
        said = [found.message.partition(",")[0] for found in step_removed(log, contract("assess"))]
        assert said == ["step pay was started (failed)", "step mail was started (running)"]

    def test_a_checkpoint_engine_never_runs_finished_work_again(self, run: Run) -> None:
        """There a finished step may be renamed freely; the contract's word on the engine comes before the log's."""
        checkpoint = run("r-1", "assess", engine="checkpoint")
        assert list(step_removed(checkpoint, contract("other"))) == []
        assert list(step_removed(run("r-1", "assess"), contract("other", engine="checkpoint"))) == []
        assert len(list(step_removed(checkpoint, contract("other", engine="journal")))) == 1

    def test_a_contract_that_does_not_speak_of_steps(self, run: Run) -> None:
        """A part that is absent is not checked; one that is there and empty is."""
        assert list(step_removed(run("r-1", "assess"), Contract(workflow_id="refund"))) == []
        assert len(list(step_removed(run("r-1", "assess"), contract()))) == 1

    def test_the_steps_of_a_sub_flow_are_not_the_flows(self) -> None:
        """A step in a namespace belongs to another contract."""
        log = log_of(("STEP_STARTED", {"stepId": "inner"}), namespace="child")
        assert list(step_removed(log, contract("assess"))) == []

    def test_a_step_of_a_branch_is_a_step(self) -> None:
        """Concurrent branches are the flow's own: their steps have to be there."""
        log = log_of(("STEP_STARTED", {"stepId": "inner"}), branch="0/1")
        assert [found.step for found in step_removed(log, contract("assess"))] == ["inner"]

    def test_hostile_names_stay_on_their_line(self, run: Run) -> None:
        """A name out of a log cannot forge a line of the report, nor flood it; the finding keeps the true name."""
        name = "pay\n\x1b[31mall is well\u2028" + "x" * 5_000
        (found,) = step_removed(run("r-1", name), contract("pay"))
        assert found.message.isprintable()
        assert found.hint.isprintable()
        assert len(found.message) < 500
        assert found.step == name


class TestSuspendedCarryover:
    @pytest.mark.parametrize(
        ("events", "text"),
        [
            ([wait("Approved")], "waits for Approved (approval) and will be resumed by today's code."),
            ([wait(["Yes", "No"], "question")], "waits for Yes or No (question) and will"),
            ([wait("Approved"), wait("Noon", "timer")], "waits for Approved (approval) and 1 more and will"),
            ([wait("*", "event")], "waits for a signal, an update or a condition and will"),
        ],
    )
    def test_what_it_waits_for(self, events: list[tuple[str, dict[str, Any]]], text: str) -> None:
        """One warning a run, which says what the run waits for."""
        (found,) = suspended_carryover(log_of(*events), contract())
        assert (found.code, found.severity) == ("suspended-carryover", "warning")
        assert found.message.startswith(text)

    @pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "continued", "running"])
    def test_only_a_waiting_run(self, run: Run, status: str) -> None:
        """A run that is over, or that nothing has to answer, is not carried over."""
        assert list(suspended_carryover(run("r-1", status=status), contract())) == []

    def test_a_run_that_was_answered(self) -> None:
        """A wait that is over is none."""
        log = log_of(wait("Approved"), ("Approved", {}), ("EXECUTION_RESUMED", {"eventType": "Approved"}))
        assert list(suspended_carryover(log, contract())) == []


def test_the_built_in_checks() -> None:
    """What every simulation asks, in this order."""
    assert list(BUILT_IN[:6]) == [
        step_removed,
        gate_removed,
        gate_changed,
        saved_versions,
        calls_waiting,
        suspended_carryover,
    ]
