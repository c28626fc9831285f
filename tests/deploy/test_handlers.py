"""Signals, updates and queries beside today's handlers, for runs of Temporal: contracts as data, histories as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_loom import Contract, Log, check_resume, simulate_deploy
from pytest_loom.deploy.handlers import asked_otherwise, by_contract, misread
from pytest_loom.deploy.report import Finding
from pytest_loom.sources.temporal import source

Spec = tuple[str, dict[str, Any]]


def plain(*values: Any) -> dict[str, Any]:
    """A Payloads message of JSON values."""
    return {"payloads": [_payload("json/plain", json.dumps(value)) for value in values]}


def _payload(encoding: str, data: str) -> dict[str, Any]:
    return {
        "metadata": {"encoding": base64.b64encode(encoding.encode()).decode()},
        "data": base64.b64encode(data.encode()).decode(),
    }


def start(**attributes: Any) -> Spec:
    """The first event of a run."""
    return "WorkflowExecutionStarted", {
        "workflowType": {"name": "Loan"},
        "originalExecutionRunId": "run-1",
        "workflowId": "loan-1",
        **attributes,
    }


def task(**attributes: Any) -> list[Spec]:
    """A workflow task that was completed."""
    return [
        ("WorkflowTaskScheduled", {}),
        ("WorkflowTaskStarted", {}),
        ("WorkflowTaskCompleted", attributes),
    ]


def signal(name: str, *values: Any) -> Spec:
    """A signal that came."""
    return "WorkflowExecutionSignaled", {"signalName": name, "input": plain(*values)}


def update(name: str, *values: Any, id: str = "u1") -> Spec:
    """An update that was accepted."""
    request = {"meta": {"updateId": id}, "input": {"name": name, "args": plain(*values)}}
    return "WorkflowExecutionUpdateAccepted", {"protocolInstanceId": id, "acceptedRequest": request}


TIMER: Spec = ("TimerStarted", {"timerId": "1", "startToFireTimeout": "90s"})


def run(*specs: Spec, first: Spec | None = None) -> Log:
    """The log of a history."""
    events: list[dict[str, Any]] = []
    for number, (kind, attributes) in enumerate([first or start(), *specs], 1):
        key = f"{kind[0].lower()}{kind[1:]}EventAttributes"
        moment = f"2026-01-01T00:00:{number:02d}Z"
        events.append({"eventId": str(number), "eventTime": moment, "eventType": kind, key: attributes})
    (log,) = source.read(Path("run.json"), json.dumps({"events": events}).encode())
    assert isinstance(log, Log), log
    return log


def contract(**gates: Any) -> Contract:
    """Today's or yesterday's workflow with these handlers: ``name=kind`` or ``name=(kind, schema)``."""
    made = {}
    for name, told in gates.items():
        kind, schema = told if isinstance(told, tuple) else (told, None)
        made[name] = {"kind": kind, "payloadSchema": schema}
    return Contract.model_validate({"workflowId": "Loan", "engine": "journal", "gates": made})


def told(found: Iterator[Finding]) -> list[tuple[str, str, str | None]]:
    """Findings in short."""
    return [(one.code, one.severity, one.step) for one in found]


class TestUnread:
    def test_an_unread_signal_without_a_handler(self) -> None:
        """It arrived after the last workflow task; nothing today takes it: the run waits for ever."""
        log = run(*task(), signal("decide", "yes"))
        (found,) = by_contract(log, contract(set_decision="signal"), None)
        assert (found.code, found.severity, found.step) == ("gate-removed", "breaking", "decide")
        assert "event 5: the signal decide lies unread" in found.message
        assert found.message.endswith("Was it renamed to set_decision?")
        assert list(by_contract(log, contract(decide="signal"), None)) == []

    def test_a_handler_of_another_kind_or_for_any_name(self) -> None:
        """An update of that name does not take a signal; a dynamic handler takes all of its kind."""
        log = run(*task(), signal("decide", "yes"))
        assert told(by_contract(log, contract(decide="update"), None)) == [("gate-removed", "breaking", "decide")]
        assert told(by_contract(log, contract(**{"*": "signal"}), None)) == []
        assert told(by_contract(log, contract(**{"*": "update"}), None)) == [("gate-removed", "breaking", "decide")]

    def test_a_signal_that_yesterday_did_not_take_either(self) -> None:
        """Somebody sent what nobody ever read: today's code changes nothing about that."""
        log = run(*task(), signal("stray"), TIMER)
        assert told(by_contract(log, contract(decide="signal"), contract(decide="signal"))) == []

    def test_an_accepted_update_that_is_not_completed(self) -> None:
        """Its handler is gone: on replay it would be rejected. One that is completed is over."""
        done: Spec = ("WorkflowExecutionUpdateCompleted", {"meta": {"updateId": "u1"}, "outcome": {"success": {}}})
        log = run(*task(), update("reprice", 5), TIMER)
        assert told(by_contract(log, contract(), None)) == [("gate-removed", "breaking", "reprice")]
        assert told(by_contract(run(*task(), update("reprice", 5), done, TIMER), contract(), None)) == []

    def test_an_idle_run_whose_only_handler_was_renamed_or_removed(self) -> None:
        """What yesterday's contract had is what the run may wait for."""
        log, yesterday = run(*task()), contract(decide="signal")
        assert told(by_contract(log, contract(set_decision="signal"), yesterday)) == [
            ("gate-removed", "breaking", "decide")
        ]
        assert told(by_contract(log, contract(), yesterday)) == [("gate-removed", "breaking", "decide")]
        assert told(by_contract(log, contract(decide="signal", more="signal"), yesterday)) == []
        assert told(by_contract(log, contract(set_decision="signal"), None)) == []

    def test_a_run_on_a_timer_is_sent_signals_too(self) -> None:
        """A wait with a deadline is a timer in the history; a renamed handler is missed there as well."""
        log, yesterday = run(*task(), TIMER), contract(decide="signal")
        assert told(by_contract(log, contract(set_decision="signal"), yesterday)) == [
            ("gate-removed", "breaking", "decide")
        ]

    def test_what_the_run_was_sent_already_is_a_warning(self) -> None:
        """It may have what it needs; another one that is gone may still be needed."""
        log, yesterday = run(signal("pause"), *task()), contract(approve="signal", pause="signal")
        assert told(by_contract(log, contract(approve="signal"), yesterday)) == [("gate-removed", "warning", "pause")]
        assert told(by_contract(log, contract(pause="signal"), yesterday)) == [("gate-removed", "breaking", "approve")]

    def test_what_the_run_was_sent_before_where_no_contract_is_kept(self) -> None:
        """Breaking only where nothing is left to wait for, or where it looks renamed."""
        log = run(signal("approve_item", 1), *task())
        assert told(by_contract(log, contract(), None)) == [("gate-removed", "breaking", "approve_item")]
        assert told(by_contract(log, contract(approve_items="signal"), None)) == [
            ("gate-removed", "breaking", "approve_item")
        ]
        assert told(by_contract(log, contract(finish="signal"), None)) == [("gate-removed", "warning", "approve_item")]
        assert told(by_contract(run(signal("approve_item", 1), *task(), TIMER), contract(), None)) == []

    def test_a_query_that_is_gone_hurts_who_asks(self) -> None:
        """A warning: the run itself goes on."""
        yesterday = contract(status="query", decide="signal")
        (found,) = by_contract(run(*task()), contract(decide="signal"), yesterday)
        assert (found.severity, found.step) == ("warning", "status")

    def test_runs_that_are_over_and_logs_of_others(self) -> None:
        """Nothing reaches a finished run; only Temporal's logs say what a signal is."""
        over = run(signal("decide"), *task(), ("WorkflowExecutionCompleted", {}))
        assert told(by_contract(over, contract(), contract(decide="signal"))) == []
        log = run(*task(), signal("decide"))
        log.source = "loom"
        assert told(by_contract(log, contract(), None)) == []


ANSWER = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
RENAMED = {"type": "object", "properties": {"approved": {"type": "boolean", "default": False}}}


class TestMisread:
    def test_a_recorded_signal_that_today_does_not_fit(self) -> None:
        """Each replay decodes it anew: one that cannot be decoded is dropped without an error."""
        log = run(*task(), signal("decide", {"ok": True}))
        (found,) = misread(log, contract(decide=("signal", {"type": "string"})), None)
        assert (found.code, found.severity, found.step) == ("gate-changed", "breaking", "decide")
        assert "drops such a signal" in found.message
        assert list(misread(log, contract(decide=("signal", ANSWER)), None)) == []

    def test_a_field_renamed_behind_a_default(self) -> None:
        """It decodes, and what was said is lost: worse than an error."""
        log = run(*task(), signal("decide", {"ok": True}))
        (found,) = misread(log, contract(decide=("signal", RENAMED)), None)
        assert "ok is true, which today's type does not read; it has approved instead" in found.message

    def test_updates_and_several_arguments(self) -> None:
        """An update's arguments count too, each in its place."""
        two = {
            "type": "object",
            "properties": {"args": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}},
            "required": ["args"],
        }
        log = run(*task(), update("reprice", "a", "b"), TIMER)
        (found,) = misread(log, contract(reprice=("update", two)), None)
        assert "such an update fails" in found.message
        assert list(misread(run(*task(), update("reprice", "a", 2)), contract(reprice=("update", two)), None)) == []

    def test_encrypted_payloads_are_not_judged(self) -> None:
        """Only the application's codec can read them."""
        secret: Spec = (
            "WorkflowExecutionSignaled",
            {"signalName": "decide", "input": {"payloads": [_payload("binary/encrypted", "…")]}},
        )
        assert list(misread(run(*task(), secret), contract(decide=("signal", ANSWER)), None)) == []


class TestAskedOtherwise:
    def test_who_answers_knows_the_old_shape(self) -> None:
        """Breaking for the only handler, a warning where the run may wait for another one."""
        yesterday = contract(decide=("signal", ANSWER))
        today = contract(decide=("signal", {"type": "string"}))
        assert told(asked_otherwise(run(*task()), today, yesterday)) == [("gate-changed", "breaking", "decide")]
        more = contract(decide=("signal", ANSWER), pause=("signal", None))
        assert told(asked_otherwise(run(*task()), today, more)) == [("gate-changed", "warning", "decide")]
        assert told(asked_otherwise(run(*task()), yesterday, yesterday)) == []
        assert told(asked_otherwise(run(*task(), TIMER), today, yesterday)) == []

    def test_a_new_field_with_a_default_is_silent(self) -> None:
        """An old answer is read as it was."""
        wider = {**ANSWER, "properties": {**ANSWER["properties"], "note": {"type": "string", "default": ""}}}  # type: ignore[dict-item]
        today, yesterday = contract(decide=("signal", wider)), contract(decide=("signal", ANSWER))
        assert told(asked_otherwise(run(*task()), today, yesterday)) == []


class TestPinned:
    def verdict(self, log: Log) -> tuple[str, list[str]]:
        """What is decided about a run whose signal is gone."""
        decision = check_resume(log, contract(other="signal"))
        return decision.verdict, [found.severity for found in decision.findings]

    def test_a_pinned_run_stays_on_its_version(self) -> None:
        """By its worker's code, by an operator, or by what it continues: today's code never sees it."""
        sent = signal("decide")
        version = {"deploymentName": "loans", "buildId": "7"}
        by_code = run(*task(versioningBehavior="VERSIONING_BEHAVIOR_PINNED", deploymentVersion=version), sent)
        assert self.verdict(by_code) == ("pin", ["info"])
        assert by_code.state.manifest["pinnedTo"] == "loans:7"
        override = {"pinned": {"version": version, "behavior": "PINNED_OVERRIDE_BEHAVIOR_PINNED"}}
        assert self.verdict(run(*task(), sent, first=start(versioningOverride=override)))[0] == "pin"
        assert self.verdict(run(*task(), sent, first=start(inheritedPinnedVersion=version)))[0] == "pin"
        moved: Spec = ("WorkflowExecutionOptionsUpdated", {"versioningOverride": override})
        assert self.verdict(run(*task(), moved, sent))[0] == "pin"

    def test_one_that_upgrades_is_judged(self) -> None:
        """Auto-upgrade is today's code; an override that was taken back leaves what the code says."""
        sent = signal("decide")
        assert self.verdict(run(*task(versioningBehavior=2), sent)) == ("manual", ["breaking"])
        override = {"pinned": {"version": {"buildId": "7"}}}
        back: Spec = ("WorkflowExecutionOptionsUpdated", {"unsetVersioningOverride": True})
        assert self.verdict(run(*task(), back, sent, first=start(versioningOverride=override)))[0] == "manual"
        auto = start(versioningOverride={"autoUpgrade": True})
        assert self.verdict(run(*task(versioningBehavior="Pinned"), sent, first=auto))[0] == "manual"

    def test_a_pinned_run_of_a_flow_that_is_gone(self) -> None:
        """Its old worker still has the flow."""
        log = run(*task(versioningBehavior="Pinned", deploymentVersion={"buildId": "7"}))
        report = simulate_deploy([log], {"Other": contract()})
        assert report.ok
        assert [found.severity for found in report.findings] == ["info"]


def test_a_workflow_type_that_is_gone_names_one_like_it() -> None:
    """The name that it may have now is the first thing to look at."""
    (found, *_) = simulate_deploy([run(*task())], {"HouseLoan": contract(), "Mail": contract()}).findings
    assert found.code == "flow-missing"
    assert "Was it renamed to HouseLoan?" in found.message
