"""Today's durable function against an execution that waits: our findings beside what the SDK really does on resume.

The truth is the SDK as it is, given the recorded operations and a service that takes everything: which effects it
carries out, and how the invocation ends. The simulation runs none.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, contract_of, load_log, simulate_deploy
from pytest_loom.sources.aws_durable.replay import operations_of

sdk: Any = pytest.importorskip(
    "aws_durable_execution_sdk_python", reason="needs the extra: pip install pytest-loom[aws-durable]"
)
config: Any = importlib.import_module("aws_durable_execution_sdk_python.config")
Handler = Callable[[Any, Any], Any]
EFFECTS: list[str] = []


def do(name: str, value: Any = "x") -> Callable[[Any], Any]:
    """The body of a step: an effect."""

    def body(_: Any) -> Any:
        EFFECTS.append(name)
        return value

    return body


def made(body: Callable[[Any, Any], Any]) -> Handler:
    """A durable function."""
    handler: Handler = sdk.durable_execution(body)
    return handler


def order(
    first: str = "reserve",
    gate: str = "approval",
    *,
    early: bool = False,
    asks: bool = True,
    notify: bool = False,
    key: str = "hold",
    wait: str = "cooldown",
    appended: bool = False,
    swapped: bool = False,
) -> Handler:
    """The function that the corpus's execution was recorded with, and changes to it."""

    def body(event: Any, context: Any) -> Any:
        if early:
            context.step(do("early"), name="early")
        hold = context.step(do(first, {"hold": "H1"}), name=first)
        if swapped:
            context.wait(config.Duration.from_seconds(1), name=wait)
        callback = context.create_callback(name=gate)
        if not swapped:
            context.wait(config.Duration.from_seconds(1), name=wait)
        if notify:
            context.step(do("notify"), name="notify")
        answer = callback.result() if asks else "yes"
        charged = context.step(do("charge", f"{hold[key]} {event['order']}"), name="charge")
        if appended:
            context.step(do("mail"), name="mail")
        return [answer, charged]

    return made(body)


CHANGES: dict[str, tuple[Handler, set[str]]] = {
    "nothing": (order(), set()),
    "a step is renamed": (order(first="hold"), {"replay-diverged"}),
    "the callback is renamed": (order(gate="consent"), {"replay-diverged"}),
    "the timer is renamed": (order(wait="pause"), {"replay-diverged"}),
    "a step is inserted ahead": (order(early=True), {"replay-diverged"}),
    "callback and timer change places": (order(swapped=True), {"replay-diverged"}),
    "a step is appended": (order(appended=True), set()),
    "the answer is not waited for": (order(asks=False), {"frontier-missing"}),
    "a result is read otherwise, behind the wait": (order(key="id"), set()),
    "a step comes before the wait": (order(notify=True), {"step-inserted"}),
}


@pytest.fixture
def waiting(cases: Path) -> Log:
    """An execution that waits for its callback."""
    return load_log(cases / "corpus" / "aws_durable" / "suspended_callback.json")


def truth(handler: Handler, operations: list[dict[str, Any]]) -> tuple[str, str, list[str]]:
    """What the SDK itself makes of a resume: status, error, and the effects that it carries out."""
    service = importlib.import_module("aws_durable_execution_sdk_python.lambda_service")
    execution = importlib.import_module("aws_durable_execution_sdk_python.execution")

    class Service:
        """Takes every checkpoint; a callback that is made has an id."""

        def checkpoint(self, durable_execution_arn: str, checkpoint_token: str, updates: Any, client_token: Any) -> Any:
            """What the service answers."""
            news = [
                {"Id": one.operation_id, "Type": one.operation_type.value, "Status": "STARTED", "Name": one.name,
                 "SubType": one.sub_type, "CallbackDetails": {"CallbackId": "new"}}
                for one in updates if one.action.value == "START" and one.operation_type.value == "CALLBACK"
            ]  # fmt: skip
            return service.CheckpointOutput.from_dict(
                {"CheckpointToken": "t", "NewExecutionState": {"Operations": news, "NextMarker": None}}
            )

        def get_execution_state(self, *_args: Any, **_options: Any) -> Any:
            """No further page."""
            return service.StateOutput()

    class Context:
        """What Lambda tells."""

        aws_request_id = function_name = invoked_function_arn = "x"
        function_version, memory_limit_in_mb = "1", 128
        log_group_name = log_stream_name = client_context = identity = tenant_id = None

        def get_remaining_time_in_millis(self) -> int:
            """Enough."""
            return 60_000

    EFFECTS.clear()
    state = execution.InitialExecutionState.from_dict({"Operations": operations, "NextMarker": ""})
    given = execution.DurableExecutionInvocationInputWithClient(
        durable_execution_arn="a/execution",
        checkpoint_token="t",
        initial_execution_state=state,
        service_client=Service(),
    )
    output = handler(given, Context())
    error = output.get("Error") or {}
    return output["Status"], str(error.get("ErrorType", "")).rpartition(".")[2], list(EFFECTS)


@pytest.mark.parametrize("change", CHANGES)
def test_findings_are_what_a_resume_really_does(change: str, waiting: Log) -> None:
    """Where the SDK ends the execution, or does what nobody agreed to, there is a breaking finding, and else none."""
    handler, expected = CHANGES[change]
    status, error, effects = truth(handler, operations_of(waiting))
    breaks = error == "NonDeterministicExecutionError" or "charge" in effects
    assert (status == "FAILED") == (error != "")
    EFFECTS.clear()
    report = simulate_deploy([waiting], {"test-function": handler})
    found = {item.code for item in report.findings} - {"suspended-carryover"}
    assert EFFECTS == []
    assert found == expected
    assert report.ok is not breaks


def test_a_divergence_says_what_was_recorded_and_what_is_asked(waiting: Log) -> None:
    """Both operations are named, with what differs, and how the execution would end."""
    (item,) = [one for one in simulate_deploy([waiting], {"test-function": order(first="hold")}).findings if one.step]
    assert item.step == "reserve"
    assert "recorded was step reserve, and today's code asks for step hold in its place (another name)" in item.message
    assert "NonDeterministicExecutionError" in item.message
    assert "Keep what has run as it is" in item.hint


def test_code_that_cannot_go_over_the_record(waiting: Log) -> None:
    """A result that today's code reads otherwise, ahead of the wait, ends the execution."""

    def body(event: Any, context: Any) -> Any:
        hold = context.step(do("reserve"), name="reserve")
        return hold["reference"]

    handler = made(body)
    assert truth(handler, operations_of(waiting))[:2] == ("FAILED", "KeyError")
    (item,) = simulate_deploy([waiting], {"test-function": handler}).findings[-1:]
    assert item.code == "replay-diverged"
    assert "KeyError: 'reference'" in item.message


def test_live_work_outside_of_steps(waiting: Log) -> None:
    """What code does beside its steps is done again at each resume: it is caught, and not done."""

    def body(event: Any, context: Any) -> Any:
        importlib.import_module("socket").create_connection(("127.0.0.1", 9), timeout=1)

    codes = {item.code for item in simulate_deploy([waiting], {"test-function": made(body)}).findings}
    assert "effect-repeated" in codes


def test_code_that_never_comes_back(waiting: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that hangs is stopped, and the simulation goes on."""
    monkeypatch.setattr("pytest_loom.deploy.apart.TIMEOUT", 0.5)
    monkeypatch.setattr("pytest_loom.deploy.durable.apart.apart.__kwdefaults__", {"timeout": 0.5})

    def body(event: Any, context: Any) -> Any:
        while True:
            pass

    assert simulate_deploy([waiting], {"test-function": made(body)}).ok


def nested(name: str = "item", *, branches: int = 2, inner: str = "ship") -> Handler:
    """A function with parallel branches, a child context and ``wait_for_callback``."""

    def branch(number: int) -> Callable[[Any], Any]:
        return lambda context: context.step(do(f"{name}-{number}", number), name=f"{name}-{number}")

    def child(context: Any) -> Any:
        context.step(do(inner), name=inner)
        return context.wait_for_callback(lambda callback_id, _: EFFECTS.append(callback_id), name="signed")

    def body(event: Any, context: Any) -> Any:
        context.parallel([branch(number) for number in range(branches)], name="items")
        return context.run_in_child_context(child, name="delivery")

    return made(body)


def test_contexts_and_branches(tmp_path: Path) -> None:
    """What stands in child contexts and parallel branches is held to name and place as well."""
    log = load_log(_recorded(nested(), tmp_path))
    assert log.state.status == "suspended"
    assert [wait.on for wait in log.state.suspensions] == ["signed"]
    spaces = {frame.step_id: frame.namespace for frame in log.state.frames.values()}
    assert spaces["ship"] == "delivery"
    for handler, ok in ((nested(), True), (nested(inner="send"), False), (nested(branches=1), True)):
        EFFECTS.clear()
        assert simulate_deploy([log], {log.workflow_id: handler}).ok is ok
        assert EFFECTS == []


def _recorded(handler: Handler, folder: Path) -> Path:
    """An execution of ``handler`` as far as it goes, as the SDK checkpoints it."""
    service: Any = importlib.import_module("aws_durable_execution_sdk_python.lambda_service")
    execution: Any = importlib.import_module("aws_durable_execution_sdk_python.execution")
    found: dict[str, dict[str, Any]] = {}
    ends = {"SUCCEED": "SUCCEEDED", "FAIL": "FAILED", "START": "STARTED"}
    details = {"STEP": "StepDetails", "CONTEXT": "ContextDetails"}

    class Service:
        """Keeps what is checkpointed."""

        def checkpoint(self, durable_execution_arn: str, checkpoint_token: str, updates: Any, client_token: Any) -> Any:
            """What the service answers: how the operations stand now."""
            news = []
            for update in updates:
                kind, key = update.operation_type.value, update.operation_id
                one = found.setdefault(key, {"Id": key, "Type": kind, "StartTimestamp": 1_796_000_000 + len(found)})
                named = {"Name": update.name, "SubType": update.sub_type, "ParentId": update.parent_id}
                one |= {name: value for name, value in named.items() if value}
                one["Status"] = ends[update.action.value]
                if one["Status"] != "STARTED":
                    one["EndTimestamp"] = 1_796_000_100
                if kind == "CALLBACK":
                    one["CallbackDetails"] = {"CallbackId": f"cb-{key[:6]}"}
                elif kind in details and update.action.value == "SUCCEED":
                    one[details[kind]] = {"Result": update.payload}
                news.append(one)
            return service.CheckpointOutput.from_dict(
                {"CheckpointToken": "t", "NewExecutionState": {"Operations": news, "NextMarker": None}}
            )

        def get_execution_state(self, *_args: Any, **_options: Any) -> Any:
            """No further page."""
            return service.StateOutput()

    root = {"Id": "execution", "Type": "EXECUTION", "Status": "STARTED", "ExecutionDetails": {"InputPayload": "{}"}}
    state = execution.InitialExecutionState.from_dict({"Operations": [root], "NextMarker": ""})
    given = execution.DurableExecutionInvocationInputWithClient(
        durable_execution_arn="a/execution",
        checkpoint_token="t",
        initial_execution_state=state,
        service_client=Service(),
    )
    assert handler(given, None)["Status"] == "PENDING"
    path = folder / "state.json"
    arn = "arn:aws:lambda:eu-west-1:1:function:delivery:1/durable-execution/x/1"
    path.write_text(json.dumps({"DurableExecutionArn": arn, "Operations": [root, *found.values()]}), encoding="utf-8")
    return path


def test_its_contract(waiting: Log) -> None:
    """A durable function is known as one, under the name that it is deployed as."""
    contract = contract_of(order())
    assert (contract.engine, contract.steps) == ("journal", None)
    missing = simulate_deploy([waiting], {"another": order()})
    assert [item.code for item in missing.findings if item.severity == "breaking"] == ["flow-missing"]
