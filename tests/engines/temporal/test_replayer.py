"""Temporal's Replayer in a process of its own: what it finds, how it says so, and what cannot stop it."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import diff_runs, load_log, replay, simulate_deploy
from pytest_loom.deploy import temporal
from pytest_loom.deploy.report import Finding
from pytest_loom.errors import FlowError, ReplayDivergence, Unsupported
from tests.engines.temporal.command import simulate
from tests.engines.temporal.histories import Building, History, payload, write

pytest.importorskip("temporalio", reason="needs the extra temporal")
if not hasattr(os, "fork"):
    pytest.skip("the Replayer runs in a copy of the process", allow_module_level=True)

from pytest_loom.sources.temporal import probe
from tests.engines.temporal.workflows import replayed as app

ORDER = {"item": "chair", "amount": 3}
LINES = Path(app.__file__).read_text().splitlines()


def line_of(text: str, after: str = "") -> int:
    """The line of the workflows' file that holds ``text``, the first after the one that holds ``after``."""
    start = next((number for number, line in enumerate(LINES) if after in line), 0)
    return next(number for number, line in enumerate(LINES, 1) if number > start and text in line)


def shop(upto: str = "end", run_id: str = "run-1") -> History:
    """A run of the shop: up to its ``quote``'s ``result``, its ``charge``, the charge's result (``paid``), its end."""
    at = Building("Shop", ORDER, run_id=run_id)
    at.task()
    quote = at.activity("quote", ORDER)
    if upto == "quote":
        return at.history
    at.done(quote, {"price": 40, "currency": "EUR"})
    if upto == "result":
        return at.history
    at.task()
    charge = at.activity("charge", "chair", 120)
    if upto == "charge":
        return at.history
    at.done(charge, 7)
    if upto == "paid":
        return at.history
    at.task()
    at.completed(7)
    return at.history


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Any]:
    """What a simulation finds of one history on a flow, beside that the run waits."""

    def find(history: History, flow: Any) -> list[Finding]:
        path = write(history, tmp_path / "history.json")
        report = simulate_deploy(str(path), flow)
        return [finding for finding in report.findings if finding.code != "suspended-carryover"]

    yield find
    temporal.close()


@pytest.mark.parametrize("upto", ["quote", "result", "charge", "paid", "end"])
def test_unchanged_code_is_silent(found: Any, upto: str) -> None:
    """Wherever the run stands, what is news to it included."""
    assert found(shop(upto), app.Shop) == []


def test_a_divergence_is_said_in_words(found: Any) -> None:
    """The event, the step, what was recorded, what the code did instead, its line, and code to paste."""
    (finding,) = found(shop(), app.Renamed)
    assert (finding.code, finding.severity, finding.step) == ("replay-diverged", "breaking", "quote")
    place = f"replayed.py:{line_of('execute_activity(name')}"
    assert finding.message.startswith("event 5 recorded the activity quote; today's code asks for the activity offer")
    assert place in finding.message
    assert "Activity type of scheduled event 'quote' does not match" in finding.message
    assert 'if workflow.patched("' in finding.hint
    assert "# the activity offer" in finding.hint
    assert "# the activity quote" in finding.hint


def test_an_inserted_timer(found: Any) -> None:
    """A timer has no name; its length is said."""
    (finding,) = found(shop("charge"), app.SleepsFirst)
    assert "event 5 recorded the activity quote; today's code asks for a timer of 1 minute instead" in finding.message
    assert f"replayed.py:{line_of('workflow.sleep')}" in finding.message


def test_code_that_asks_for_nothing(found: Any) -> None:
    """What is left out is named, with the line at which the code waits instead."""
    (finding,) = found(shop(), app.Waits)
    wait = line_of("wait_condition", "class Waits")
    assert "event 5 recorded the activity quote; today's code does not ask for it; it waits at" in finding.message
    assert f"replayed.py:{wait}" in finding.message


def test_code_that_ends_the_run(found: Any) -> None:
    """An end is a command like others."""
    (finding,) = found(shop("charge"), app.GivesUp)
    assert "today's code asks for the end of the run, with an error instead" in finding.message


def test_an_exception_in_the_code(found: Any) -> None:
    """Its type, its words and its line; also where it is raised on news only."""
    (finding,) = found(shop("charge"), app.Raises)
    assert finding.code == "replay-diverged"
    assert "today's code raises KeyError: 'no tax for EUR'" in finding.message
    assert f"replayed.py:{line_of('raise KeyError')}" in finding.message
    assert found(shop("quote"), app.Raises) == []
    (finding,) = found(shop("result"), app.Raises)
    assert "It is news that no worker has seen yet." in finding.message


def test_a_result_that_cannot_be_read(found: Any) -> None:
    """Also one that no worker has seen yet, which the SDK's own replay passes."""
    for upto in ("result", "charge", "end"):
        (finding,) = found(shop(upto), app.NeedsMore)
        assert (finding.code, finding.step) == ("output-contract", "quote")
        assert "cannot read the recorded answer of quote" in finding.message
    assert found(shop("quote"), app.NeedsMore) == []


def test_a_result_that_is_read_in_part(found: Any) -> None:
    """A field that has another name and a default loses what was recorded, and nothing says so."""
    (finding,) = found(shop("charge"), app.OtherName)
    assert (finding.code, finding.severity, finding.step) == ("output-contract", "breaking", "quote")
    assert 'currency is "EUR", which today\'s type does not read; it has currency_code instead' in finding.message


def test_values_are_compared(found: Any) -> None:
    """Inputs and results that today's code makes otherwise are warnings, with the place where they differ."""
    charge, end = found(shop(), app.Dearer)
    assert {charge.severity, end.severity} == {"warning"}
    assert "event 11: args[1] is 120 in the record, and 12000 by today's code" in charge.message
    assert "event 17: the value is 7 in the record, and 14 by today's code; it is the run's result" in end.message


def test_a_signal_that_nobody_has_read_yet(found: Any) -> None:
    """It waits for a handler that is gone, or its handler cannot take it: the SDK is silent about both."""
    desk = Building("Desk")
    desk.task()
    desk.signal("decide", "yes")
    assert found(desk.history, app.Desk) == []
    (finding,) = found(desk.history, app.DeskRenamed)
    assert (finding.code, finding.severity, finding.step) == ("gate-removed", "breaking", "decide")
    (finding,) = found(desk.history, app.DeskOfObjects)
    assert (finding.code, finding.step) == ("gate-changed", "decide")
    assert "cannot read what was sent to this run" in finding.message


def test_what_the_sandbox_refuses(found: Any) -> None:
    """Modules are passed through for speed; the sandbox as production has it is asked once for each class."""
    for run_id in ("run-1", "run-2"):
        (finding,) = found(shop("charge", run_id), app.ReadsTheClock)
        assert finding.code == "replay-diverged"
        assert "uses what the workflow sandbox refuses" in finding.message
        assert ".." not in finding.message.replace("...", "")
        assert "datetime.datetime.now" in finding.message


def test_code_that_does_something_itself(found: Any) -> None:
    """Nothing is written, and that it would be is told."""
    (finding,) = found(shop("charge"), app.Writes)
    assert finding.code == "effect-repeated"
    assert not (Path(app.__file__).parent / "written").exists()


def test_code_that_asks_for_what_a_simulation_does_not_have(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is kept from it: that it then fails is no proof, and not passed over either."""
    monkeypatch.setenv("PRICE_OF_TODAY", "40")
    (finding,) = found(shop("quote"), app.AsksTheEnvironment)
    assert (finding.severity, "environment variables" in finding.message) == ("warning", True)


@pytest.mark.parametrize(
    ("flow", "why"),
    [(app.Spins, "does not yield"), (app.Holds, "did not come to an end in time"), (app.Dies, "ended by itself")],
)
def test_what_hangs_or_dies_is_said_and_stops_nothing(
    found: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flow: Any, why: str
) -> None:
    """A hang costs its timeout; the process is made anew for the next history."""
    monkeypatch.setattr(temporal, "SECONDS", 6.0)
    begin = time.monotonic()
    (finding,) = found(shop("charge"), flow)
    assert (finding.code, finding.severity) == ("replay-diverged", "breaking")
    assert "could not be replayed" in finding.message
    assert why in finding.message
    assert time.monotonic() - begin < 60
    assert found(shop(), app.Shop) == []


def test_what_sdk_core_hangs_for_want_of_is_filled_in(found: Any) -> None:
    """A task queue and times say nothing of the run; histories that were cut down by hand lack them."""
    history = shop()
    del history["events"][0]["workflowExecutionStartedEventAttributes"]["taskQueue"]
    for event in history["events"]:
        del event["eventTime"]
    assert found(history, app.Shop) == []


def test_one_process_for_all_classes_and_histories(found: Any) -> None:
    """It knows every class that is loaded when it is made."""
    found(shop(), app.Shop)
    process = temporal._Process.worker
    desk = Building("Desk")
    desk.task()
    found(desk.history, app.Desk)
    found(shop("charge"), app.Renamed)
    assert temporal._Process.worker is process


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    """Each is replayed, and told by its own id; a file that was written anew is read anew."""
    path = tmp_path / "runs.json"
    write([shop("charge", "run-1"), shop("charge", "run-2")], path)  # type: ignore[arg-type]
    report = simulate_deploy(str(path), app.Renamed)
    assert {finding.execution_id for finding in report.findings if finding.severity == "breaking"} == {"run-1", "run-2"}
    write(shop("charge", "run-3"), path)
    assert simulate_deploy(str(path), app.Shop).ok
    temporal.close()


# The application's own settings --------------------------------------------------------------------------------------


def replayer(flow: Any, codec: Any = None) -> Any:
    """The application's Replayer."""
    worker, converter = (importlib.import_module(f"temporalio.{name}") for name in ("worker", "converter"))
    data_converter = converter.DataConverter.default
    if codec is not None:
        data_converter = dataclasses.replace(data_converter, payload_codec=codec)
    return worker.Replayer(workflows=[flow], data_converter=data_converter)


class Backwards:
    """A codec that seals each payload by turning it round."""

    async def encode(self, payloads: Any) -> Any:
        """Sealed payloads."""
        kind = type(payloads[0])
        return [
            kind(metadata={"encoding": b"binary/backwards"}, data=one.SerializeToString()[::-1]) for one in payloads
        ]

    async def decode(self, payloads: Any) -> Any:
        """What they were."""
        return [type(one).FromString(one.data[::-1]) for one in payloads]


class FromAfar(Backwards):
    """A codec that asks a key service."""

    async def decode(self, payloads: Any) -> Any:
        """Asks first."""
        import socket

        socket.create_connection(("keys.example", 443))
        return await super().decode(payloads)


def sealed(value: Any) -> Any:
    """The history with each payload sealed."""
    if isinstance(value, list):
        return [sealed(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"metadata", "data"}:
        return {key: sealed(item) for key, item in value.items()}
    message: Any = importlib.import_module("temporalio.api.common.v1").Payload()
    protobuf: Any = importlib.import_module("google.protobuf.json_format")
    protobuf.ParseDict(value, message)
    return protobuf.MessageToDict(asyncio.run(Backwards().encode([message]))[0])


def test_a_replayer_brings_its_codec(found: Any) -> None:
    """Given as the flows, alone or among others; recorded and new values are compared as they are underneath."""
    history = sealed(shop())
    (finding,) = found(history, app.Shop)
    assert finding.code == "log-unreadable"
    assert "Unknown payload encoding binary/backwards" in finding.message
    assert "Replayer(workflows" in finding.hint
    assert found(history, replayer(app.Shop, Backwards())) == []
    assert found(history, {"temporal": replayer(app.Shop, Backwards()), "other": {"workflowId": "other"}}) == []
    charge, end = found(history, replayer(app.Dearer, Backwards()))
    assert "args[1] is 120 in the record, and 12000 by today's code" in charge.message
    assert "7 in the record" in end.message


def test_a_codec_that_calls_out_is_refused(found: Any) -> None:
    """Nothing is reached, and the finding says what to give instead."""
    (finding,) = found(sealed(shop()), replayer(app.Raises, FromAfar()))
    assert finding.code == "effect-repeated"
    assert "keys.example:443" in finding.message
    assert "has its keys at hand" in finding.hint


def test_a_dynamic_workflow_needs_a_resolver(found: Any) -> None:
    """It has no name by which a Replayer's list could hold it; a resolver says for which it stands."""
    with pytest.raises(FlowError, match="has no name of its own"):
        found(shop(), replayer(app.Anything))
    assert found(shop(), lambda name: app.Anything) == []


# Question 1: still the same? -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("upto", ["quote", "result", "charge", "end"])
def test_a_replay_of_unchanged_code_is_the_golden_run(tmp_path: Path, upto: str) -> None:
    """No difference of any kind; also by a Replayer, and in async code."""
    log = load_log(write(shop(upto), tmp_path / "history.json"))
    assert diff_runs(log, replay(log, app.Shop), compare="all") == []
    assert diff_runs(log, replay(log, replayer(app.Shop)), compare="all") == []

    async def inside() -> Any:
        return replay(log, app.Shop)

    assert diff_runs(log, asyncio.run(inside())) == []


def test_a_replay_shows_what_is_made_otherwise(tmp_path: Path) -> None:
    """The result, and on request the inputs of steps."""
    log = load_log(write(shop(), tmp_path / "history.json"))
    candidate = replay(log, app.Dearer)
    (output,) = diff_runs(log, candidate)
    assert (output.kind, output.golden, output.candidate) == ("output", 7, 14)
    inputs = [one for one in diff_runs(log, candidate, compare="all") if one.kind == "step-input"]
    assert [(one.step, one.golden, one.candidate) for one in inputs] == [("charge", 120, 12000)]


def test_a_replay_that_diverges_says_where(tmp_path: Path) -> None:
    """The event, both commands and the code's line."""
    log = load_log(write(shop(), tmp_path / "history.json"))
    with pytest.raises(ReplayDivergence) as raised:
        replay(log, app.Renamed)
    assert "event 5: the activity quote was recorded, today's code asks for the activity offer" in str(raised.value)
    assert (raised.value.step, raised.value.line) == ("quote", 5)
    with pytest.raises(ReplayDivergence, match="KeyError"):
        replay(log, app.Raises)
    with pytest.raises(FlowError, match="has no workflow Shop"):
        replay(log, replayer(app.Desk))
    sealed_log = load_log(write(sealed(shop()), tmp_path / "sealed.json"))
    with pytest.raises(Unsupported, match="Unknown payload encoding"):
        replay(sealed_log, app.Waits)


def test_a_simulation_after_a_replay_in_this_process(found: Any, tmp_path: Path) -> None:
    """The SDK's threads are not in the copy, and what they hold open is no reason to hang."""
    log = load_log(write(shop(), tmp_path / "golden.json"))
    replay(log, app.Shop)
    assert found(shop(), app.Shop) == []


def test_nothing_is_left_in_the_sdk(tmp_path: Path) -> None:
    """What tells the lines is taken out again: other workflows of the same process run as ever."""
    sdk: Any = importlib.import_module("temporalio.worker._workflow_instance")
    before = dict(vars(sdk._WorkflowInstanceImpl))
    replay(load_log(write(shop(), tmp_path / "history.json")), app.Shop)
    assert dict(vars(sdk._WorkflowInstanceImpl)) == before
    assert payload(None)["metadata"]


def test_a_process_in_which_the_sdk_is_at_work_is_not_copied(found: Any) -> None:
    """Such a copy would hang or crash; it is said at once, with what to do."""
    runtime: Any = importlib.import_module("temporalio.runtime")
    at_work = runtime.Runtime(telemetry=runtime.TelemetryConfig(logging=None))
    if not Path("/proc/self/task").is_dir():
        pytest.skip("this system does not tell the threads of a process")
    until = time.monotonic() + 20
    while not temporal._at_work() and time.monotonic() < until:
        time.sleep(0.01)  # its threads take their names as they begin
    (finding,) = found(shop(), app.Shop)
    assert "the SDK is at work in this very process" in finding.message
    assert "in a process of its own" in finding.message
    del at_work
    assert found(shop(), app.Shop) == []


def test_tests_that_use_the_sdk_may_come_first(tmp_path: Path) -> None:
    """In one session with tests that start the SDK, the simulation has its process from before they began."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a.json").write_text(json.dumps(probe.history()))
    app = """
    from temporalio import workflow
    @workflow.defn(name="pytest-loom-probe")
    class Probe:
        @workflow.run
        async def run(self) -> None:
            pass
    flows = {"probe": Probe}
    """
    (tmp_path / "test_first.py").write_text(
        "from temporalio.runtime import Runtime, TelemetryConfig\n"
        "def test_first():\n"
        "    global kept\n"
        "    kept = Runtime(telemetry=TelemetryConfig())\n"
    )
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.hookimpl(trylast=True)\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items.sort(key=lambda item: 'deploy-sim' in item.nodeid)\n"
    )
    code, report = simulate(tmp_path, app)
    assert (code, report["findings"]) == (0, [])
    assert report["summary"]["runs"] == 1
