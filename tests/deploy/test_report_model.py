"""The report model: finding codes, verdicts, what counts as ok, and the plain data that crosses process borders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport, Finding, Log, LogBuilder, load_log, simulate_deploy, write_log
from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import BREAKING, WARNING, RunResult, finding, verdict_of, versions_of

Run = Callable[..., Log]


def found(code: str, severity: Any = "breaking", **other: Any) -> Finding:
    """A finding of that code."""
    facts: dict[str, Any] = {"workflow_id": "refund", "execution_id": "r-1", "step": None}
    return Finding(code, severity, **{**facts, "message": "m", "hint": "h", "source": "s", **other})


class TestCodes:
    def test_the_pinned_set(self) -> None:
        """Codes are a promise to those who gate on them: none disappears or changes its side."""
        assert set(BREAKING) == {
            *("flow-missing", "step-removed", "frontier-missing", "gate-removed", "gate-changed", "answer-misrouted"),
            *("input-contract", "output-contract", "state-key-lost", "state-type", "reducer-changed", "tool-missing"),
            *("tool-args", "approval-stale", "approval-bypassed", "effect-repeated", "replay-diverged", "join-broken"),
            *("schema-unknown", "upcast-missing", "migration-missing", "log-unreadable"),
        }
        assert {
            "suspended-carryover",
            "contract-drift",
            "contract-unknown",
            "step-inserted",
            "flow-ambiguous",
        } == WARNING

    def test_the_severity_is_the_codes(self, run: Run) -> None:
        """A known code brings its severity; a code of one's own has to name one."""
        log = run("r-1")
        assert finding(log, "flow-missing", "m", "h").severity == "breaking"
        assert finding(log, "suspended-carryover", "m", "h").severity == "warning"
        assert finding(log, "mine", "m", "h", severity="info", step="s").step == "s"
        with pytest.raises(ValueError, match="'mine' is not a finding code of pytest-loom: give its severity"):
            finding(log, "mine", "m", "h")

    def test_a_finding_names_its_run(self, run: Run) -> None:
        """Flow, run and file come from the log."""
        made = finding(run("r-7", flow="order"), "flow-missing", "m", "h")
        assert (made.workflow_id, made.execution_id, made.source) == ("order", "r-7", "r-7.loom.jsonl")

    def test_a_finding_names_its_line(self, tmp_path: Path) -> None:
        """The line of the log that tells of the step last; else the one where the run stands; none without lines."""
        made = LogBuilder("r-1", "refund")
        made.add("EXECUTION_STARTED", {}, timestamp=0)
        for step in ("assess", "assess", "pay"):
            made.add("STEP_STARTED", {"stepId": step}, timestamp=1)
            made.add("STEP_COMPLETED", {"stepId": step, "output": 1}, timestamp=2)
        write_log(made.log(), tmp_path / "r.loom.jsonl")
        log = load_log(tmp_path / "r.loom.jsonl")
        lines = {
            step: finding(log, "step-removed", "m", "h", step=step).line for step in ("assess#2", "pay", "no", None)
        }
        assert lines == {"assess#2": 5, "pay": 7, "no": 7, None: 7}
        assert finding(log, "step-removed", "m", "h", step="pay").as_dict()["line"] == 7
        in_memory = finding(made.log(), "step-removed", "m", "h")
        assert (in_memory.line, "line" in in_memory.as_dict()) == (None, False)

    @pytest.mark.parametrize(("manifest", "line"), [({}, None), ({"source": "temporal"}, 1)])
    def test_lines_of_other_engines(self, manifest: dict[str, str], line: int | None) -> None:
        """What another source counts is no line; an imported run lies in a file of ours, where it is one."""
        made = LogBuilder("r-1", "refund", path="history")
        made.add("EXECUTION_STARTED", {"manifest": manifest}, timestamp=0, line=1)
        log = made.log(source="temporal")
        assert finding(log, "flow-missing", "m", "h").line == line


class TestVerdict:
    @pytest.mark.parametrize(
        ("codes", "verdict"),
        [
            ([], "resume"),
            (["approval-stale"], "reapprove"),
            (["approval-stale", "step-removed"], "fork"),
            (["step-removed", "tool-missing", "approval-stale"], "manual"),
            (["tool-missing", "log-unreadable"], "reject"),
            (["of-your-own"], "manual"),
        ],
    )
    def test_the_worst_counts(self, codes: list[str], verdict: str) -> None:
        """In the order reject, manual, fork, reapprove; a breaking code of one's own asks for a human."""
        assert verdict_of(found(code) for code in codes) == verdict

    def test_warnings_ask_for_nothing(self) -> None:
        """A run with warnings and infos only is resumed."""
        assert verdict_of([found("suspended-carryover", "warning"), found("mine", "info")]) == "resume"


class TestReport:
    def test_what_is_ok(self) -> None:
        """Only a breaking finding that nobody accepted makes a report fail."""
        others = [found("x", "warning"), found("x", "info"), found("x", acknowledged="ann until 2027-01-31: known")]
        report = DeployReport(findings=others, examined=3, in_flight=1, skipped=2)
        assert report.ok
        assert report.summary() == {
            "runs": 3,
            "in_flight": 1,
            "out_of_scope": 2,
            "breaking": 0,
            "acknowledged": 1,
            "warnings": 1,
            "infos": 1,
        }
        report.finding_rows.append(found("x"))
        assert (report.ok, report.summary()["breaking"]) == (False, 1)

    def test_an_acknowledged_warning_is_counted_once(self) -> None:
        """The numbers of the summary do not overlap: whoever adds them up gets the number of findings."""
        report = DeployReport(findings=[found("x", "warning", acknowledged="ann"), found("x", "info")])
        numbers = report.summary()
        assert sum(numbers[name] for name in ("breaking", "acknowledged", "warnings", "infos")) == 2

    def test_parts_add_up(self) -> None:
        """Reports of several files (or workers) make one, in the order given."""
        one = DeployReport([found("a")], [RunResult("r-1", "f", "completed", "fork", "s")], 2, 1, 3)
        two = DeployReport([found("b")], [RunResult("r-2", "f", "running", "resume", "s")], 5, 1, 0)
        one.add(two)
        assert [f.code for f in one.findings] == ["a", "b"]
        assert [r.execution_id for r in one.runs] == ["r-1", "r-2"]
        assert (one.examined, one.in_flight, one.skipped) == (7, 2, 3)

    def test_contracts_of_parts_are_counted_together(self) -> None:
        """Runs on the same old contract, in several files, are one entry with all of them."""
        report = DeployReport()
        for now, runs in (("2b", 1), ("3c", 2), ("2b", 4)):
            report.add(DeployReport(changed=[ChangedContract("f", "1a", now, (), runs)]))
        assert [(one.now, one.runs) for one in report.changed] == [("2b", 5), ("3c", 2)]

    def test_plain_data_and_back(self) -> None:
        """as_dict is JSON data that from_dict makes into an equal report, acknowledgements included."""
        findings = [found("a", step="pay"), found("b", "warning", acknowledged="ann")]
        runs = [
            RunResult("r-1", "f", "completed", "fork", "s"),
            RunResult("r-2", "f", "running", "pin", "s", {"a": "pin"}),
        ]
        changed = [ChangedContract("f", "1a", "2b", (ContractChange("gate", "Go", "", "added", "additive", "new"),), 2)]
        report = DeployReport(findings, runs, 2, 1, 3, changed=changed)
        plain = json.loads(json.dumps(report.as_dict()))
        assert DeployReport.from_dict(plain).as_dict() == plain
        assert DeployReport.unpacked(report.packed()).as_dict() == plain

    def test_what_each_strategy_makes_of_the_runs(self) -> None:
        """Runs that go on, that need a person and that are stranded, by strategy, over all parts of a simulation."""
        ways: list[dict[str, Any]] = [
            *({"window": verdict, "closed": "fork"} for verdict in ("resume", "upcast", "migrate", "pin")),
            *({"window": verdict, "closed": "reject"} for verdict in ("reapprove", "fork", "manual", "reject")),
        ]
        report = DeployReport()
        for number, way in enumerate(ways):
            run = RunResult(f"r-{number}", "f", "running", "resume", "s", way)
            report.add(DeployReport.from_dict(json.loads(json.dumps(DeployReport(runs=[run]).as_dict()))))
        report.run_rows.append(RunResult("over", "f", "completed", "fork", "s"))
        assert report.strategies() == {
            "window": {"go_on": 4, "need_a_person": 3, "stranded": 1},
            "closed": {"go_on": 0, "need_a_person": 4, "stranded": 4},
        }
        assert DeployReport().strategies() == {}

    def test_the_keys_of_a_finding(self) -> None:
        """The keys that report.json promises; acknowledged is there only where somebody did."""
        keys = ["code", "severity", "workflow_id", "execution_id", "step", "message", "hint", "source"]
        assert list(found("a").as_dict()) == keys
        assert list(found("a").as_acknowledged("ann").as_dict()) == [*keys, "acknowledged"]

    def test_its_repr_says_how_it_is(self) -> None:
        """What a debugger shows: the verdict and the numbers that are not 0."""
        assert repr(DeployReport([found("a")], examined=3)) == "<DeployReport NOT ok: 3 runs, 1 breaking>"
        assert repr(DeployReport(examined=1, in_flight=1)) == "<DeployReport ok: 1 runs, 1 in_flight>"


def test_a_run_is_shown_with_the_versions_it_was_started_on() -> None:
    """What is no version, or too long for one, is left out: a manifest is a log's word."""
    told = {
        "flowVersion": "1.2.0",
        "contractFingerprint": "0123",
        "stateSchemaVersion": 2,
        "toolSchemaVersions": {"pay": 1},
        "sdk": {"name": "x"},
    }
    hostile = {"flowVersion": "x" * 500, "runtimeBuild": ["b"], "toolSchemaVersions": {"pay": {}}}
    assert versions_of(told) == {name: value for name, value in told.items() if name != "sdk"}
    assert versions_of(hostile) == {}
    builder = LogBuilder("r-1", "f")
    builder.add("EXECUTION_STARTED", {"manifest": told}, timestamp=0)
    report = simulate_deploy([builder.log()], {"f": {"workflowId": "f", "steps": {}}, "g": {"workflowId": "g"}})
    assert report.runs[0].as_dict()["manifest"] == versions_of(told)
    gone = simulate_deploy([builder.log()], {}).findings[0]
    assert gone.as_dict()["version"] == "1.2.0"
