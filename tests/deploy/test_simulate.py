"""``simulate_deploy``: which recorded runs would today's flows strand or break (ADR 0008)."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_loom import (
    Contract,
    FlowError,
    LiveCallError,
    Log,
    LogBuilder,
    LogError,
    LoomError,
    UnknownSchemaVersion,
    Unsupported,
    check_resume,
    load_logs,
    record,
    simulate_deploy,
    write_log,
)
from pytest_loom.deploy.report import DeployReport, Finding, finding
from pytest_loom.report.json import read_json, write_json

Run = Callable[..., Log]
TODAY: dict[str, Any] = {"refund": {"workflowId": "refund", "steps": {"assess": {}, "pay": {}}}}


def said(report: DeployReport) -> list[tuple[str, str, str, str | None]]:
    """Code, severity, run and step of each finding."""
    return [(found.code, found.severity, found.execution_id, found.step) for found in report.findings]


def test_a_plain_function_is_never_taken_for_a_resolver() -> None:
    """The function whose runs were recorded does real work when it is called; a simulation calls nothing."""
    calls: list[str] = []

    def agent(question: str) -> str:
        calls.append(question)
        return question

    log = record(agent, "why")
    assert calls.pop() == "why"
    for flows in (agent, {log.workflow_id: agent}):
        report = simulate_deploy([log], flows)
        assert (report.ok, report.findings, calls) == (True, [], [])


def test_a_resolver_that_calls_out_is_refused() -> None:
    """Looking a flow up is no reason to reach the network, and swallowing the refusal does not help."""

    def look_up(workflow_id: str) -> None:
        with contextlib.suppress(Exception):
            socket.create_connection(("127.0.0.1", 9), timeout=1)

    log = record(abs, -1)
    with pytest.raises(LiveCallError, match="while today's flow is looked up"):
        simulate_deploy([log], look_up)


class TestWhatADeployDoes:
    """The verification list of ADR 0008."""

    def test_an_identical_deploy_passes(self, run: Run) -> None:
        """Code that has all that a finished run used: ok, no finding, and the run is not listed."""
        report = simulate_deploy([run("r-1", "assess", "pay")], TODAY)
        assert (report.ok, report.findings, report.runs, report.examined, report.in_flight) == (True, [], [], 1, 0)

    def test_a_removed_flow_is_breaking(self, run: Run) -> None:
        """A flow that is gone strands its runs."""
        report = simulate_deploy([run("r-1", "assess", flow="chargeback", status="suspended")], TODAY)
        assert said(report) == [("flow-missing", "breaking", "r-1", None)]
        assert not report.ok
        assert [(r.execution_id, r.status, r.verdict) for r in report.runs] == [("r-1", "suspended", "reject")]
        assert "no flow chargeback" in report.findings[0].message

    def test_a_renamed_step_is_breaking(self, run: Run) -> None:
        """A step that already ran and is not in today's flow; the message asks whether the nearest one is meant."""
        renamed = {"refund": {"workflowId": "refund", "steps": {"assess_risk": {}, "pay": {}}}}
        report = simulate_deploy([run("r-1", "assess", "pay")], renamed)
        assert said(report) == [("step-removed", "breaking", "r-1", "assess")]
        assert not report.ok
        assert "Was it renamed to assess_risk?" in report.findings[0].message
        assert [r.verdict for r in report.runs] == ["fork"]

    def test_a_suspended_run_is_a_warning(self, run: Run) -> None:
        """A run that waits will be resumed by the new code: worth a look, and no reason to fail."""
        report = simulate_deploy([run("r-1", "assess", status="suspended")], TODAY)
        assert said(report) == [("suspended-carryover", "warning", "r-1", None)]
        assert report.ok
        assert "waits for Approved (approval)" in report.findings[0].message
        assert [(r.status, r.verdict) for r in report.runs] == [("suspended", "resume")]

    def test_a_running_run_is_listed_and_silent(self, run: Run) -> None:
        """A run that crashed or is under way is unfinished; nothing speaks against it."""
        report = simulate_deploy([run("r-1", "assess", status="running")], TODAY)
        assert (report.ok, report.findings, report.in_flight) == (True, [], 1)
        assert [(r.status, r.verdict) for r in report.runs] == [("running", "resume")]

    def test_what_has_changed_beside_the_runs_is_silent(self, run: Run) -> None:
        """A new flow, a step that no run has used, steps in another order: no finding."""
        steps: dict[str, Any] = {"pay": {}, "notify": {}, "assess": {}}
        flows = {"refund": {"workflowId": "refund", "steps": steps}, "other": {"workflowId": "other"}}
        assert simulate_deploy([run("r-1", "assess", "pay")], flows).findings == []


class TestFlows:
    """Whatever has or gives today's flows."""

    @pytest.mark.parametrize(
        "flows",
        [
            pytest.param(TODAY, id="mapping"),
            pytest.param(TODAY["refund"], id="one-as-json"),
            pytest.param(Contract.model_validate(TODAY["refund"]), id="one-contract"),
            pytest.param({"refund": Contract.model_validate(TODAY["refund"])}, id="mapping-of-contracts"),
            pytest.param(TODAY.get, id="builtin-callable"),
            pytest.param(lambda workflow_id: TODAY[workflow_id], id="callable-that-raises-KeyError"),
            pytest.param(lambda workflow_id, version=None: TODAY.get(workflow_id), id="callable-with-version"),
        ],
    )
    def test_every_shape_gives_the_same_report(self, run: Run, flows: Any) -> None:
        """A known flow is held against its runs, and None or KeyError means that the flow is missing."""
        report = simulate_deploy([run("r-1", "assess", "gone"), run("r-2", flow="lost")], flows)
        assert [found[0] for found in said(report)] == ["step-removed", "flow-missing"]

    def test_a_resolver_is_asked_with_the_version_of_the_manifest(self, run: Run) -> None:
        """An object with get_flow gets the flow version that the run was started on, and each pair only once."""
        asked: list[tuple[str, str | None]] = []

        class Runtime:
            def get_flow(self, workflow_id: str, version: str | None = None) -> Any:
                asked.append((workflow_id, version))
                return TODAY["refund"]

        logs = [run(f"r-{n}", "assess", manifest={"flowVersion": "1.2.0"}) for n in range(3)] + [run("r-9", "assess")]
        assert simulate_deploy(logs, Runtime()).ok
        assert asked == [("refund", "1.2.0"), ("refund", None)]

    def test_a_contract_file(self, run: Run, tmp_path: Path) -> None:
        """The path of a contract's JSON will do, alone and in a mapping."""
        file = tmp_path / "refund.json"
        file.write_text(json.dumps(TODAY["refund"]))
        for flows in (file, str(file), {"refund": file}):
            assert said(simulate_deploy([run("r-1", "gone")], flows)) == [("step-removed", "breaking", "r-1", "gone")]

    def test_a_resolver_that_raises_is_an_error(self, run: Run) -> None:
        """Any exception but KeyError is told with the flow's name: it must not look like a missing flow."""

        def get_flow(workflow_id: str) -> Any:
            raise ConnectionError("no registry")

        with pytest.raises(FlowError, match="asking for today's flow refund raised ConnectionError: no registry"):
            simulate_deploy([run("r-1")], get_flow)

    @pytest.mark.parametrize(
        ("flow", "error", "text"),
        [
            pytest.param(object(), Unsupported, "today's flow refund: no contract can be read", id="no-contract"),
            pytest.param({"workflowId": "refund", "stepz": {}}, FlowError, "stepz", id="misspelt-part"),
            pytest.param("nowhere.json", FlowError, "cannot be read", id="no-such-file"),
        ],
    )
    def test_a_flow_without_a_contract_is_an_error(
        self, run: Run, flow: Any, error: type[LoomError], text: str
    ) -> None:
        """The error names the flow that is meant, and says what is wrong with it."""
        with pytest.raises(error, match=text) as caught:
            simulate_deploy([run("r-1")], {"refund": flow})
        assert "today's flow refund" in caught.value.what

    def test_a_contract_on_which_nothing_is_said(self, run: Run) -> None:
        """A part that the contract does not have is not checked."""
        assert simulate_deploy([run("r-1", "anything")], {"workflowId": "refund"}).findings == []


class TestWaitsWithoutAName:
    """Engines that do not record what a run waits for: ``on`` is ``*``."""

    @staticmethod
    def notes(today: dict[str, Any], *, kept: Any = None, on: str = "*") -> list[str]:
        """The notes of a simulation of two runs that wait."""
        logs = []
        for name in ("r-1", "r-2"):
            made = LogBuilder(name, "refund")
            made.add("EXECUTION_STARTED", {"input": {}}, timestamp=0)
            made.add("EXECUTION_SUSPENDED", {"on": on, "kind": "event"}, timestamp=1)
            logs.append(made.log())
        return simulate_deploy(logs, {"workflowId": "refund", "steps": {}, **today}, contract=kept).notes

    def test_is_said_once_for_each_flow(self) -> None:
        """Green is not all clear where only yesterday's contract shows a renamed signal: a note, and what to type."""
        (note,) = self.notes({"gates": {"decision": {}}})
        assert note == (
            "what waiting runs of refund wait for is not recorded: that it was renamed is seen only beside the contract"
            " of the code that is deployed. Capture that on that code, and commit it:\n"
            "  pytest --loom-deploy-sim --snapshot-update -k deploy-sim"
        )

    def test_silent_where_it_tells_nothing_new(self) -> None:
        """A contract is kept, the log names what is awaited, today's contract cannot, or takes any signal."""
        kept = {"workflowId": "refund", "gates": {"approval": {}}}
        assert self.notes({"gates": {"approval": {}}}, kept=kept) == []
        assert self.notes({"gates": {"approval": {}}}, on="approval") == []
        assert self.notes({}) == []
        assert self.notes({"gates": {"*": {}}}) == []


class TestScope:
    """A kept file stands for runs at every point of its path; in a live store only unfinished runs count."""

    @pytest.mark.parametrize(
        ("scope", "live", "judged"),
        [
            ("auto", False, ["completed", "failed", "cancelled", "continued", "suspended", "running"]),
            ("auto", True, ["suspended", "running"]),
            ("all", True, ["completed", "failed", "cancelled", "continued", "suspended", "running"]),
            ("in-flight", False, ["suspended", "running"]),
        ],
    )
    def test_which_runs_count(self, run: Run, scope: Any, live: bool, judged: list[str]) -> None:
        """Runs out of scope are counted, and neither judged nor listed."""
        every = ["completed", "failed", "cancelled", "continued", "suspended", "running"]
        report = simulate_deploy(
            [run(status, "gone", status=status, live=live) for status in every], TODAY, scope=scope
        )
        assert [found.execution_id for found in report.findings if found.code == "step-removed"] == judged
        assert [r.execution_id for r in report.runs] == judged
        assert (report.examined, report.skipped, report.in_flight) == (len(judged), 6 - len(judged), 2)

    def test_a_live_store_without_unfinished_runs_is_green(self, run: Run) -> None:
        """Nothing in flight: ok, and the runs that were left out are counted."""
        report = simulate_deploy([run("r-1", "gone", live=True)], TODAY)
        assert (report.ok, report.examined, report.skipped) == (True, 0, 1)

    def test_a_trace_is_not_judged(self, run: Run) -> None:
        """What an observer wrote down is resumed by nobody: that is said, and it is no finding."""
        report = simulate_deploy([run("r-1", "gone", status="suspended", engine="trace", source="otel")], TODAY)
        assert (report.ok, report.findings, report.examined, report.skipped) == (True, [], 0, 1)
        assert any("otel" in note and "trace" in note for note in report.notes)
        with pytest.raises(Unsupported, match="nothing resumes it"):
            check_resume(run("r-1", engine="trace"), TODAY)

    def test_an_unknown_scope(self, run: Run) -> None:
        """A misspelt scope must not mean another one."""
        with pytest.raises(ValueError, match="scope 'inflight' is none of auto, all, in-flight"):
            simulate_deploy([run()], TODAY, scope="inflight")  # type: ignore[arg-type]  # the point of this test


class TestFinishedRunsOfOtherEngines:
    """Where an engine's contract has no steps, nothing is asked of its runs that are over."""

    TODAY: ClassVar[dict[str, Any]] = {"workflowId": "refund", "inputSchema": {}}

    def test_is_said_with_their_number(self, run: Run, tmp_path: Path) -> None:
        """Green is no proof for them: a note, the same from shards put together, through JSON too."""
        said = "finished runs of dbos are not held against today's code, since nothing resumes what is over:"
        parts = [simulate_deploy([run(name, source="dbos")], self.TODAY) for name in ("r-1", "r-2")]
        assert parts[0].derived_notes() == [
            said.replace("finished runs of dbos are", "1 finished run of dbos is") + HOW
        ]
        for number, part in enumerate(parts):
            write_json(part, tmp_path / f"{number}.json", ok=True, extra={})
        read = [read_json(tmp_path / f"{number}.json")[0] for number in range(2)]
        assert DeployReport.merge(read).derived_notes() == [f"2 {said}{HOW}"]
        packed = [DeployReport.unpacked(part.packed()) for part in parts]
        assert DeployReport.merge(packed).derived_notes() == [f"2 {said}{HOW}"]

    def test_silent_where_something_is_asked(self, run: Run) -> None:
        """Of their steps, by a check of one's own, of a run that waits; and where the run is not looked at."""
        look = [lambda log, contract: ()]
        assert simulate_deploy([run("r-1", source="dbos")], {**self.TODAY, "steps": {}}).derived_notes() == []
        assert simulate_deploy([run("r-1", source="dbos")], self.TODAY, checks=look).derived_notes() == []
        assert simulate_deploy([run("r-1", source="dbos", status="suspended")], self.TODAY).derived_notes() == []
        assert simulate_deploy([run("r-1", source="dbos", live=True)], self.TODAY).derived_notes() == []


HOW = " a test does, with replay"


class TestLogs:
    """Where the logs come from, and what becomes of those that cannot be read."""

    def test_no_log_is_an_error(self, tmp_path: Path) -> None:
        """An empty corpus is never a green simulation: no log, no file, an empty folder."""
        with pytest.raises(LogError, match="no log to simulate"):
            simulate_deploy([], TODAY)
        with pytest.raises(LogError, match="no file matches this pattern"):
            simulate_deploy(str(tmp_path / "*.loom.jsonl"), TODAY)
        with pytest.raises(LogError, match="no log in this directory"):
            simulate_deploy(tmp_path, TODAY)

    def test_one_log_and_a_path_will_do(self, run: Run, tmp_path: Path) -> None:
        """A Log, a file, a glob and a folder mean the runs that are in them."""
        log = run("r-1", "gone")
        file = write_log(log, tmp_path / "a.loom.jsonl")
        for logs in (log, file, str(tmp_path / "*.jsonl"), tmp_path):
            assert said(simulate_deploy(logs, TODAY)) == [("step-removed", "breaking", "r-1", "gone")]

    def test_something_else_than_logs(self) -> None:
        """Paths in a list, or events, are told apart from logs at once."""
        with pytest.raises(TypeError, match="logs holds a str, not only Logs"):
            simulate_deploy(["a.loom.jsonl"], TODAY)  # type: ignore[list-item]  # the point of this test

    def test_one_bad_log_never_hides_the_others(self, run: Run, tmp_path: Path) -> None:
        """Every log after a broken one is judged, and the broken one is a breaking finding with its place."""
        write_log(run("r-1", "gone"), tmp_path / "a.loom.jsonl")
        (tmp_path / "b.loom.jsonl").write_text('{"executionId": "r-2", "workflowId"\n{"executionId": "r-2"}\n')
        (tmp_path / "c.loom.jsonl").touch()
        write_log(run("r-4", "lost"), tmp_path / "d.loom.jsonl")
        report = simulate_deploy(load_logs(tmp_path), TODAY)
        assert said(report) == [
            ("step-removed", "breaking", "r-1", "gone"),
            ("log-unreadable", "breaking", "r-2", None),
            ("log-unreadable", "breaking", "", None),
            ("step-removed", "breaking", "r-4", "lost"),
        ]
        assert [found.source for found in report.findings[1:3]] == [
            f"{tmp_path / 'b.loom.jsonl'}:1",
            str(tmp_path / "c.loom.jsonl"),
        ]
        assert report.examined == 4
        assert [(r.status, r.verdict) for r in report.runs[1:3]] == [("unreadable", "reject")] * 2

    def test_a_log_of_a_newer_version(self, run: Run, tmp_path: Path) -> None:
        """Another major version and an unknown kernel kind are refused as schema-unknown, the others are judged."""
        file = write_log(run("r-1"), tmp_path / "a.loom.jsonl")
        line = file.read_text().splitlines()[0]
        (tmp_path / "b.loom.jsonl").write_text(line.replace('"1.15.0"', '"2.0.0"') + "\n")
        (tmp_path / "c.loom.jsonl").write_text(line.replace("EXECUTION_STARTED", "STEP_TELEPORTED") + "\n")
        report = simulate_deploy(tmp_path, TODAY)
        assert [(found.code, Path(found.source).name) for found in report.findings] == [
            ("schema-unknown", "b.loom.jsonl:1"),
            ("schema-unknown", "c.loom.jsonl:1"),
        ]
        assert report.examined == 3

    def test_a_log_that_cannot_be_folded(self, run: Run) -> None:
        """A payload of the wrong shape is found while folding: the finding names the run, and it is not lost."""
        made = LogBuilder("r-1", "refund", path="r-1.loom.jsonl")
        made.add("EXECUTION_STARTED", {}, timestamp=0)
        made.add("STEP_STARTED", {"stepId": 7}, timestamp=1)
        report = simulate_deploy([made.log(), run("r-2")], TODAY)
        assert [(f.code, f.workflow_id, f.execution_id) for f in report.findings] == [
            ("log-unreadable", "refund", "r-1")
        ]
        assert report.examined == 2

    def test_an_iterator_that_raises_goes_on(self, run: Run) -> None:
        """A LogError out of the iterator is a finding of its own; the hint of the error is kept."""

        class Stream:
            def __init__(self) -> None:
                self.items: list[Any] = [
                    run("r-1"),
                    UnknownSchemaVersion("kind X", hint="Upgrade."),
                    run("r-2", "gone"),
                ]

            def __iter__(self) -> Iterator[Log]:
                return self

            def __next__(self) -> Log:
                if not self.items:
                    raise StopIteration
                item = self.items.pop(0)
                if isinstance(item, LogError):
                    raise item
                assert isinstance(item, Log)
                return item

        report = simulate_deploy(Stream(), TODAY)
        assert [found.code for found in report.findings] == ["schema-unknown", "step-removed"]
        assert report.findings[0].hint == "Upgrade."


class TestChecksOfYourOwn:
    """Checks beside the built-in ones."""

    def test_what_a_check_finds_counts(self, run: Run) -> None:
        """A finding of severity breaking makes the simulation fail, with the verdict manual; a warning does not."""

        def no_refunds(log: Log, contract: Contract) -> Iterator[Finding]:
            yield finding(log, "limit", "over the limit", "ask", severity="breaking")

        def look(log: Log, contract: Contract) -> list[Finding]:
            return [finding(log, "look", "look here", "look", severity="info")]

        report = simulate_deploy([run("r-1")], TODAY, checks=[look])
        assert (report.ok, [found.code for found in report.findings]) == (True, ["look"])
        report = simulate_deploy([run("r-1")], TODAY, checks=[look, no_refunds])
        assert (report.ok, [found.code for found in report.findings]) == (False, ["look", "limit"])
        assert [r.verdict for r in report.runs] == ["manual"]

    @pytest.mark.parametrize("answer", [None, [None], ["text"], 7], ids=repr)
    def test_a_check_that_yields_something_else(self, run: Run, answer: Any) -> None:
        """What is no finding is an error that names the check, and is not passed over."""
        with pytest.raises(LoomError, match=r"the check .*strange raised TypeError"):
            simulate_deploy([run("r-1")], TODAY, checks=[strange_check(answer)])

    @pytest.mark.parametrize("field", [{"severity": "fatal"}, {"step": 7}, {"line": "3"}], ids=str)
    def test_a_finding_that_no_report_can_hold(self, run: Run, field: dict[str, Any]) -> None:
        """One with a severity of its own, say, is refused where it is made, not where the report is written."""

        def odd(log: Log, contract: Contract) -> Iterator[Finding]:
            yield replace(finding(log, "odd", "odd", "", severity="info"), **field)

        with pytest.raises(LoomError, match=rf"the check .*odd raised ValidationError: .*{next(iter(field))}"):
            simulate_deploy([run("r-1")], TODAY, checks=[odd])

    def test_a_check_that_raises(self, run: Run) -> None:
        """It must not look like one that found nothing: the error names the check, its line and the run."""

        def picky(log: Log, contract: Contract) -> Iterator[Finding]:
            assert log.state.variables["_input"]["amount"] > 0
            yield from ()

        with pytest.raises(LoomError) as caught:
            simulate_deploy([run("r-1")], TODAY, checks=[picky])
        assert "picky raised KeyError: 'amount'" in caught.value.what
        assert f"({__file__}:{picky.__code__.co_firstlineno + 1})" in caught.value.what
        assert (caught.value.execution_id, caught.value.path) == ("r-1", "r-1.loom.jsonl")

    def test_a_check_that_cannot_read_the_log(self, run: Run) -> None:
        """A LogError out of a check is about the log: a finding, and the other logs are judged."""

        def careful(log: Log, contract: Contract) -> Iterator[Finding]:
            if log.execution_id == "r-1":
                raise log.events[0].error("torn")
            yield from ()

        report = simulate_deploy([run("r-1"), run("r-2", "gone")], TODAY, checks=[careful])
        assert said(report) == [
            ("log-unreadable", "breaking", "r-1", None),
            ("step-removed", "breaking", "r-2", "gone"),
        ]


def strange_check(answer: Any) -> Any:
    """A check that gives ``answer``."""

    def strange(log: Log, contract: Contract) -> Any:
        return answer

    return strange
