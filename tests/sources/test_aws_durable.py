"""AWS durable executions: states and histories, counted in the raw JSON, as a resume would find them, and damaged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogError, diff_runs, load_log, simulate_deploy
from pytest_loom.sources.aws_durable import source
from tests.sources.wrong_types import spoiled

Json = dict[str, Any]
ARN = "arn:aws:lambda:eu-west-1:123456789012:function:orders:7/durable-execution/order-17/0b1c"
WORK = {"STEP", "CONTEXT", "CHAINED_INVOKE"}


@pytest.fixture(scope="module")
def folder(cases: Path) -> Path:
    """The folder of durable executions."""
    return cases / "corpus" / "aws_durable"


def place(step: int, parent: str = "") -> str:
    """The id of an operation: a hash of its place in its context."""
    return hashlib.blake2b(f"{parent}-{step}".encode() if parent else str(step).encode()).hexdigest()[:64]


def operation(step: int, kind: str, status: str = "SUCCEEDED", parent: str = "", at: int = 0, **facts: Any) -> Json:
    """An operation as a state lists it; ``at`` is when it started, in seconds."""
    started = 1_796_000_000 + at + step
    found: Json = {"Id": place(step, parent), "Type": kind, "Status": status, "StartTimestamp": started}
    found |= {"ParentId": parent} if parent else {}
    found |= {"EndTimestamp": started + 0.5} if status not in ("STARTED", "READY", "PENDING") else {}
    return found | facts


def state(*operations: Json, status: str = "STARTED") -> Json:
    """A state of an execution with these operations."""
    root = {"Id": "e1", "Type": "EXECUTION", "Status": status, "StartTimestamp": 1_796_000_000}
    return {
        "DurableExecutionArn": ARN,
        "Operations": [root | {"ExecutionDetails": {"InputPayload": "[1]"}}, *operations],
    }


def events(*entries: tuple[str, Json]) -> Json:
    """A history of these events."""
    found = []
    for number, (kind, facts) in enumerate(entries, 1):
        stamp = f"2026-01-05T10:00:{number:02}.5+00:00"
        found.append({"EventType": kind, "EventId": number, "EventTimestamp": stamp, **facts})
    return {"Events": found}


def read(value: Any, path: Path) -> Log:
    """The log of a document."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return load_log(path)


class TestCorpus:
    def test_every_file_is_read_with_all_of_its_operations(self, folder: Path) -> None:
        """Steps, waits and callbacks as the raw JSON counts them."""
        for path in folder.glob("*.json"):
            raw = json.loads(path.read_bytes())
            log = load_log(path)
            if "Operations" in raw:
                steps = [one["Name"] for one in raw["Operations"] if one["Type"] in WORK]
                waits = sum(one["Type"] in ("WAIT", "CALLBACK") for one in raw["Operations"])
            else:
                steps = [one["Name"] for one in raw["Events"] if one["EventType"] == "StepStarted"]
                waits = sum(one["EventType"] in ("WaitStarted", "CallbackStarted") for one in raw["Events"])
            assert [frame.step_id for frame in log.state.frames.values()] == steps
            assert sum(one.event_type == "EXECUTION_SUSPENDED" for one in log.events) == waits
            assert (log.engine, log.source) == ("journal", "aws-durable")

    def test_a_run_that_waits(self, folder: Path) -> None:
        """It waits for its callback, and no longer for the timer that is over."""
        log = load_log(folder / "suspended_callback.json")
        (wait,) = log.state.suspensions
        assert (log.workflow_id, log.state.status, wait.on, wait.kind) == (
            "test-function",
            "suspended",
            "approval",
            "event",
        )
        assert log.state.frames["reserve"].output == {"hold": "H1"}

    def test_the_state_and_the_history_of_a_run_agree(self, folder: Path) -> None:
        """Both tell the same steps, waits and outcome; the history keeps data back, and says so."""
        one, other = load_log(folder / "completed.json"), load_log(folder / "history_completed.json")
        kinds = [[event.event_type for event in log.events] for log in (one, other)]
        assert kinds[0] == kinds[1]
        assert {item.kind for item in diff_runs(one, other)} == {"step-output"}  # which the history has not
        assert "are not in the history" in other.notices[0]


class TestState:
    def test_names_times_and_values(self, tmp_path: Path) -> None:
        """The ARN tells function, version and execution; typed values become plain ones."""
        typed = '{"t":"m","v":{"a":{"t":"l","v":[{"t":"i","v":1},{"t":"d","v":"1.5"}]},"t":{"t":"s","v":"x"}}}'
        log = read(
            state(
                operation(1, "STEP", Name="one", StepDetails={"Result": typed, "Attempt": 2}),
                operation(2, "STEP", Name="two", StepDetails={"Result": "not json"}),
                status="SUCCEEDED",
            )
            | {"Result": '"done"'},
            tmp_path / "x.json",
        )
        state_ = log.state
        assert (log.execution_id, log.workflow_id, state_.manifest["functionVersion"]) == (ARN, "orders", "7")
        assert state_.frames["one"].output == {"a": [1, "1.5"], "t": "x"}
        assert (state_.frames["one"].attempts, state_.frames["two"].output) == (2, "not json")
        assert (state_.variables["_input"], state_.variables["_output"], state_.status) == ([1], "done", "completed")

    def test_contexts_are_namespaces(self, tmp_path: Path) -> None:
        """What runs inside of a child context stands under its name; ``wait_for_callback`` waits for its own name."""
        box, asked = place(1), {"CallbackId": "c"}
        log = read(
            state(
                operation(1, "CONTEXT", "STARTED", Name="approval", SubType="WaitForCallback"),
                operation(1, "CALLBACK", "STARTED", box, 1, Name="approval create callback id", CallbackDetails=asked),
                operation(2, "STEP", "SUCCEEDED", box, 1, Name="approval submitter", StepDetails={}),
            ),
            tmp_path / "x.json",
        )  # fmt: skip
        assert log.state.suspensions[0].on == "approval"
        assert {key: frame.namespace for key, frame in log.state.frames.items()} == {
            "approval": None,
            "approval submitter": "approval",
        }

    @pytest.mark.parametrize(
        ("status", "frame", "retried"),
        [
            ("FAILED", "failed", False),
            ("PENDING", "failed", True),
            ("STARTED", "running", False),
            ("READY", "running", False),
        ],
    )
    def test_how_a_step_stands(self, status: str, frame: str, retried: bool, tmp_path: Path) -> None:
        """A failure for good, one that is tried again, and work under way."""
        details = {"Attempt": 1, "Error": {"ErrorType": "ValueError", "ErrorMessage": "no"}}
        log = read(state(operation(1, "STEP", status, Name="one", StepDetails=details)), tmp_path / "x.json")
        found = log.state.frames["one"]
        assert (found.status, found.will_retry) == (frame, retried)
        if frame == "failed":
            assert found.error == {"type": "ValueError", "message": "no"}

    def test_what_lambda_is_invoked_with(self, tmp_path: Path) -> None:
        """The event of an invocation holds the state, and is read the same."""
        whole = state(operation(1, "STEP", Name="one", StepDetails={"Result": "1"}))
        event = {"DurableExecutionArn": ARN, "InitialExecutionState": {"Operations": whole["Operations"]}}
        assert read(event, tmp_path / "x.json").state.frames["one"].output == 1


class TestHistory:
    def test_retries_timeouts_and_ends(self, tmp_path: Path) -> None:
        """Each try of a step is told; a callback that timed out is answered by a timeout."""
        step, back = {"Id": "s", "Name": "pay", "SubType": "Step"}, {"Id": "c", "Name": "ok", "SubType": "Callback"}
        error = {"Payload": {"ErrorType": "E", "ErrorMessage": "m"}}
        again = {"Error": error, "RetryDetails": {"CurrentAttempt": 1, "NextAttemptDelaySeconds": 5}}
        log = read(
            events(
                ("ExecutionStarted", {"Id": "e", "ExecutionStartedDetails": {"Input": {"Payload": '{"a": 1}'}}}),
                ("StepStarted", step),
                ("StepFailed", step | {"StepFailedDetails": again}),
                ("InvocationCompleted", {}),
                ("StepStarted", step),
                ("StepSucceeded", step | {"StepSucceededDetails": {"Result": {"Payload": "2"}}}),
                ("CallbackStarted", back | {"CallbackStartedDetails": {"CallbackId": "x"}}),
                ("CallbackTimedOut", back | {"CallbackTimedOutDetails": {}}),
                ("ExecutionFailed", {"Id": "e", "ExecutionFailedDetails": {"Error": error}}),
            ),
            tmp_path / "x.json",
        )  # fmt: skip
        frame = log.state.frames["pay"]
        assert (frame.attempts, frame.output, frame.status) == (2, 2, "completed")
        assert (log.state.status, log.state.variables["_error"]) == ("failed", {"type": "E", "message": "m"})
        assert [one.event_type for one in log.state.received] == ["TIMEOUT"]
        assert log.state.variables["_input"] == {"a": 1}


class TestContract:
    """A contract as data: names and order, which the engine checks on resume."""

    def codes(self, log: Log, **steps: Json) -> set[str]:
        """The breaking findings of a deploy with these steps and the gate ``approval``."""
        contract = {"workflowId": "test-function", "engine": "journal", "steps": steps, "gates": {"approval": {}}}
        return {item.code for item in simulate_deploy([log], contract).findings if item.severity == "breaking"}

    def test_what_runs_wait_for_and_have_done(self, folder: Path) -> None:
        """The same names are fine; a step or a gate that is gone is not."""
        log = load_log(folder / "suspended_callback.json")
        assert self.codes(log, reserve={}, charge={}) == set()
        assert self.codes(log, hold={}, charge={}) == {"step-removed"}
        gone = {"workflowId": "test-function", "engine": "journal", "gates": {"consent": {}}}
        assert {item.code for item in simulate_deploy([log], gone).findings if item.severity == "breaking"} == {
            "gate-removed"
        }

    def test_another_order(self, tmp_path: Path) -> None:
        """Which step follows which is told by ``next``: what was recorded in between, or in another order, diverges."""
        log = read(
            state(
                operation(1, "STEP", Name="reserve"),
                operation(2, "STEP", Name="charge"),
                operation(3, "CALLBACK", "STARTED", Name="approval", CallbackDetails={"CallbackId": "c"}),
            )
            | {"DurableExecutionArn": ARN.replace("orders", "test-function")},
            tmp_path / "x.json",
        )
        assert self.codes(log, reserve={"next": ["charge"]}, charge={"next": []}) == set()
        assert self.codes(log, reserve={"next": ["*"]}, charge={}) == set()
        assert self.codes(log, reserve={"next": ["check"]}, check={"next": ["charge"]}, charge={}) == {
            "replay-diverged"
        }
        assert self.codes(log, charge={"next": ["reserve"]}, reserve={"next": []}) == {"replay-diverged"}


STARTS = events(("StepStarted", {"Id": "a"}), ("StepStarted", {"Id": "b"}))["Events"]
DAMAGED: list[tuple[Any, str]] = [
    ({"DurableExecutionArn": ARN, "Operations": []}, "it holds no operation"),
    (state() | {"NextMarker": "x"}, "it is only a page"),
    (state(operation(1, "STEP"), operation(1, "STEP")), "operation 3 has the id of another"),
    (state(operation(1, "STEP", "DREAMING")), "has the status DREAMING"),
    (state(operation(1, "WISH")), "an operation of type WISH"),
    (state(operation(1, "STEP", Id=None)), "has no Id"),
    (state(operation(1, "STEP", StartTimestamp="soon")), "soon is no moment"),
    (state(operation(1, "CONTEXT", parent=place(1)) | {"Id": place(1)}), "lies in more than 100 contexts"),
    (events(("StepSucceeded", {"Id": "s"})), "ends an operation that did not start"),
    (events(("StepStarted", {"Id": "s"}), ("WaitSucceeded", {"Id": "s"})), "ends an operation that did not start"),
    (events(("WaitStarted", {"Id": "s"}), ("WaitStarted", {"Id": "s"})), "starts an operation anew"),
    ({"Events": STARTS[::-1]}, "in the order of EventId"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "words"), DAMAGED)
def test_damage_is_named(value: Any, words: str, tmp_path: Path) -> None:
    """What cannot have been an execution is refused, and why is said."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    (item,) = source.read(path)
    assert isinstance(item, LogError)
    assert words in item.what


def test_wrong_types_never_crash(folder: Path, tmp_path: Path) -> None:
    """Any value in place of any other gives a log or a LogError."""
    path = tmp_path / "x.json"
    names = ("DurableExecutionArn", "StartInput", "Operations", "Events", "Result")
    raws = [json.loads((folder / f"{name}.json").read_bytes()) for name in ("suspended_callback", "history_completed")]
    goods = [{key: raw[key] for key in names if key in raw} for raw in raws]
    for whole in goods:
        for broken in spoiled(whole):
            path.write_text(json.dumps(broken), encoding="utf-8")
            for item in source.read(path):
                assert isinstance(item, LogError) or item.state
