"""Runs that are alike are judged once, and the report is the same to the byte as if each had been judged."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import Context, Contract, Log, contract_of, flow, load_logs, record, simulate_deploy, step
from pytest_loom.deploy import alike as memo
from pytest_loom.deploy import facts
from pytest_loom.deploy.decide import Today
from pytest_loom.deploy.report import DeployReport, Finding, finding
from pytest_loom.deploy.simulate import simulate_share
from pytest_loom.deploy.timeline import Timelines
from pytest_loom.log import alike, read, texts
from pytest_loom.log.share import Share
from pytest_loom.log.upcast import isolated_upcasters, upcaster
from pytest_loom.sources import LogStream, iter_file, iter_wanted

Lines = list[dict[str, Any]]


class Each:
    """The logs of a file one by one, as an iterator of the user's own: nothing is known of them but what they are."""

    def __init__(self, path: Path) -> None:
        self._logs = load_logs(path)

    def __iter__(self) -> Iterator[Log]:
        return self

    def __next__(self) -> Log:
        return next(self._logs)


def told(report: DeployReport) -> dict[str, Any]:
    """All that a report says."""
    return {**report.as_dict(), "contracts": {name: one.model_dump() for name, one in report.contracts.items()}}


def both(path: Path, flows: Any, **rules: Any) -> DeployReport:
    """The report of a file, once it is proven that it is the same without what is remembered of other runs."""
    report = simulate_deploy(path, flows, **rules)
    assert told(report) == told(simulate_deploy(Each(path), flows, **rules))
    return report


def run(name: str, *events: tuple[str, Any], **envelope: Any) -> Lines:
    """The lines of a run of ``refund``."""
    return [
        {
            "executionId": name,
            "workflowId": "refund",
            "sequence": number,
            "timestamp": 1_700_000_000_000 + number,
            "eventType": kind,
            "schemaVersion": "1.15.0",
            **envelope,
            "payload": payload,
        }
        for number, (kind, payload) in enumerate(events, 1)
    ]


def written(path: Path, *runs: Lines) -> Path:
    """A file of these runs."""
    lines = [json.dumps(line, separators=(",", ":")) for one in runs for line in one]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def waiting(name: str, amount: Any = 1, **manifest: Any) -> Lines:
    """A run that waits for an answer."""
    return run(
        name,
        ("EXECUTION_STARTED", {"input": {"order": name, "amount": amount}, "manifest": manifest}),
        ("STEP_STARTED", {"stepId": "assess", "callId": f"c-{name}", "input": name}),
        ("STEP_COMPLETED", {"stepId": "assess", "callId": f"c-{name}", "output": {"risk": amount}}),
        ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "correlationKey": name}),
    )


def finished(name: str, amount: Any = 1, **manifest: Any) -> Lines:
    """The same run, once it was answered and is over."""
    events = [(line["eventType"], line["payload"]) for line in waiting(name, amount, **manifest)]
    return run(
        name,
        *events,
        ("Approved", {"by": name}),
        ("EXECUTION_RESUMED", {"eventType": "Approved", "correlationKey": name, "payload": {"by": name}}),
        ("STEP_STARTED", {"stepId": "pay", "input": amount}),
        ("STEP_COMPLETED", {"stepId": "pay", "output": [amount, name]}),
        ("EXECUTION_COMPLETED", {"output": {"paid": amount}}),
    )


def pairs(count: int) -> list[Lines]:
    """So many waiting runs, each with a finished one beside it."""
    return [kind(f"{kind.__name__}-{n}", n) for n in range(count) for kind in (waiting, finished)]


RISK = {"type": "object", "properties": {"risk": {"type": "integer"}}, "required": ["risk"]}
TODAY: dict[str, Any] = {
    "workflowId": "refund",
    "steps": {"assess": {}, "pay": {}},
    "gates": {"Approved": {}},
}


@pytest.mark.usefixtures("eager")
class TestWhatIsAlike:
    """Which runs are told by another one."""

    def test_finished_and_waiting_runs(self, tmp_path: Path, hits: list[str]) -> None:
        """Runs that differ in ids, times and values: all but the first of each kind."""
        path = written(tmp_path / "r.jsonl", *pairs(5))
        report = both(path, TODAY)
        assert len(hits) == 8
        assert (report.examined, report.in_flight, len(report.findings)) == (10, 5, 5)
        assert [found.execution_id for found in report.findings] == [f"waiting-{n}" for n in range(5)]

    @pytest.mark.parametrize("scope", ["auto", "all", "in-flight"])
    def test_every_scope(self, tmp_path: Path, hits: list[str], scope: Any) -> None:
        """A finished run that is out of scope is skipped by its text."""
        path = written(tmp_path / "r.jsonl", *pairs(4))
        both(path, TODAY, scope=scope)
        assert len(hits) == 6

    def test_a_finding_is_told_of_each(self, tmp_path: Path, hits: list[str]) -> None:
        """What was found of the first run is found of those like it, under their own names."""
        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}", n) for n in range(5)))
        report = both(path, {**TODAY, "steps": {"assess": {}}})
        assert {(found.code, found.execution_id) for found in report.findings} == {
            ("step-removed", f"r-{n}") for n in range(5)
        }
        assert len(hits) == 4

    def test_facts_beside_a_finding(self, tmp_path: Path, hits: list[str]) -> None:
        """What stands beside a finding is that of each run; so is when it last did something, where that is asked."""
        runs = [waiting(f"r-{n}", n) for n in range(5)]
        for number, one in enumerate(runs):
            for line in one:
                line["timestamp"] += number * 86_400_000
        path = written(tmp_path / "r.jsonl", *runs)
        today = {**TODAY, "steps": {"pay": {}}}
        report = both(path, today)
        recorded = {found.recorded for found in report.findings if found.code == "step-removed"}
        assert (recorded, len(hits)) == ({"step assess completed, event 3 of 4"}, 4)
        for logs in (path, Each(path)):
            shown = simulate_deploy(logs, today, timelines=Timelines()).runs
            assert [one.at and one.at[:10] for one in shown] == [f"2023-11-{14 + n}" for n in range(5)]

    def test_several_files_and_compressed_ones(self, tmp_path: Path, hits: list[str]) -> None:
        """What is known from one file is known in the next; a finding names its own file."""
        for number in range(4):
            path = written(tmp_path / f"{number}.loom.jsonl", waiting(f"r-{number}", number))
            if number % 2:
                path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
        report = both(tmp_path, TODAY)
        assert len(hits) == 3
        assert len({found.source for found in report.findings}) == 4

    @pytest.mark.parametrize("whole", [0, read.WHOLE_FILE])
    def test_interleaved_runs(
        self, tmp_path: Path, hits: list[str], monkeypatch: pytest.MonkeyPatch, whole: int
    ) -> None:
        """Executions whose lines are mixed, beside others that are not, in a small and in a large file."""
        monkeypatch.setattr(read, "WHOLE_FILE", whole)
        monkeypatch.setattr(texts, "WHOLE_FILE", whole)
        mixed = [line for lines in itertools.zip_longest(*(finished(f"m-{n}", n) for n in range(5))) for line in lines]
        path = written(tmp_path / "r.jsonl", finished("a"), mixed, finished("b"), waiting("c"), waiting("d"))
        report = both(path, {**TODAY, "steps": {"pay": {}}})
        assert len(hits) == 7
        assert len({found.execution_id for found in report.findings}) == 9

    @pytest.mark.parametrize("whole", [0, read.WHOLE_FILE])
    def test_a_share_of_a_file(
        self, tmp_path: Path, hits: list[str], monkeypatch: pytest.MonkeyPatch, whole: int
    ) -> None:
        """Shares are the same runs as without, mixed ones too."""
        monkeypatch.setattr(read, "WHOLE_FILE", whole)
        monkeypatch.setattr(texts, "WHOLE_FILE", whole)
        mixed = [line for lines in zip(*(finished(f"m-{n}", n) for n in range(9)), strict=True) for line in lines]
        path = written(tmp_path / "r.jsonl", *pairs(9), mixed, finished("last"))
        rules: dict[str, Any] = {"contract": None, "scope": "all", "policy": None}
        seen = []
        for number in range(3):
            share = Share(number, 3)
            quick = LogStream(lambda wanted, share=share: iter_wanted(path, wanted, share))  # type: ignore[misc]
            each = LogStream(lambda wanted, share=share: iter_file(path, share))  # type: ignore[misc]
            report = simulate_share(quick, Today({**TODAY, "steps": {}}), checks=(), **rules)
            assert told(report) == told(simulate_share(each, Today({**TODAY, "steps": {}}), checks=(), **rules))
            seen += [found.execution_id for found in report.runs]
        assert len(seen) == len({*seen}) == 28
        assert len(hits) > 15

    def test_a_run_that_says_that_it_was_imported(self, tmp_path: Path, hits: list[str]) -> None:
        """An imported run is judged as one of its engine; where that is said is decoded, and only there."""
        runs = [waiting(f"r-{n}", n) for n in range(3)]
        runs += [waiting(f"i-{n}", n, source="temporal", engine="journal") for n in range(3)]
        runs += [waiting(f"s-{n}", {"source": n}) for n in range(3)]
        path = written(tmp_path / "r.jsonl", *runs)
        text = path.read_bytes().replace(b'{"source":2}', b'{"source":1e999}', 1)
        path.write_bytes(text)
        report = both(path, TODAY)
        assert [f.execution_id for f in report.findings if f.code == "log-unreadable"] == ["s-2"]
        assert hits == ["r-1", "r-2", "s-1"]

    def test_runs_over_the_edge_of_a_block(self, tmp_path: Path, hits: list[str], monkeypatch: Any) -> None:
        """Where the file is cut for reading makes no difference."""
        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}", "ä" * n) for n in range(20)))
        for size in (1, 700, 5000):
            monkeypatch.setattr("pytest_loom.log.files._BLOCK", size)
            hits.clear()
            both(path, TODAY)
            assert len(hits) == 19

    def test_the_last_line_without_its_end(self, tmp_path: Path) -> None:
        """A file whose last line has no newline, or is cut off, is read as ever."""
        path = written(tmp_path / "r.jsonl", *(waiting(f"r-{n}") for n in range(3)))
        text = path.read_bytes()
        for cut in (1, 2, 40):
            path.write_bytes(text[:-cut])
            both(path, TODAY)

    def test_timelines(self, tmp_path: Path, hits: list[str], monkeypatch: Any) -> None:
        """The runs that are shown in full are the same: it takes more runs that are read to tell others by them."""
        monkeypatch.setattr(alike, "_FIRST", 8)
        path = written(tmp_path / "r.jsonl", *pairs(20))
        today = {**TODAY, "steps": {"pay": {}}}
        reports = [simulate_deploy(one, today, timelines=Timelines()) for one in (path, Each(path))]
        assert told(reports[0]) == told(reports[1])
        assert sum(one.timeline is not None for one in reports[0].runs) == 4
        assert len(hits) > 20

    def test_it_takes_many_runs_to_make_one(self, tmp_path: Path, hits: list[str], monkeypatch: Any) -> None:
        """As long as few runs look alike, each is read."""
        monkeypatch.undo()
        monkeypatch.setattr(memo.Memo, "enter", lambda *_: hits.append("hit"))
        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}") for n in range(8)))
        simulate_deploy(path, TODAY)
        assert hits == []


@pytest.mark.usefixtures("eager")
class TestWhatIsNot:
    """What makes a run one to be read, since its verdict may be another."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("workflowId", "other"),
            ("sequence", 9),
            ("schemaVersion", "2.0.0"),
            ("eventVersion", 2),
            ("branch", "1"),
            ("namespace", "sub"),
            ("eventType", "STEP_UNKNOWN"),
            ("executionId", "r-other"),
            ("timestamp", "no time"),
            ("payload", []),
        ],
    )
    def test_another_envelope(self, tmp_path: Path, field: str, value: Any) -> None:
        """Every field of every envelope counts."""
        for at in range(9):
            other = finished("r-3")
            other[at][field] = value
            path = written(tmp_path / "r.jsonl", finished("r-1"), finished("r-2"), other, finished("r-4"))
            assert both(path, TODAY).examined >= 4

    @pytest.mark.parametrize(
        ("at", "payload"),
        [
            (1, {"stepId": "gone", "callId": "x"}),
            (2, {"stepId": "assess", "callId": "another", "output": 1}),
            (2, {"stepId": "assess", "callId": "c-r-3", "output": 1, "attempt": "two"}),
            (3, {"on": "Approved", "kind": "gate", "correlationKey": "r-3"}),
            (3, {"on": ["Approved", "Refused"], "kind": "approval", "correlationKey": "r-3"}),
            (5, {"eventType": "Approved", "correlationKey": "another", "payload": {}}),
            (5, {"eventType": "Approved", "correlationKey": "r-3", "payload": {"correlationKey": "r-3"}}),
            (7, {"stepId": "pay"}),
            (8, {"output": 1, "error": "no"}),
        ],
    )
    def test_another_payload(self, tmp_path: Path, at: int, payload: dict[str, Any]) -> None:
        """What is no value counts."""
        other = finished("r-3")
        other[at]["payload"] = payload
        for runs in ([other, finished("r-4")], [other[:4], waiting("r-4")]):
            both(written(tmp_path / "r.jsonl", waiting("r-1"), finished("r-2"), *runs), TODAY)

    @pytest.mark.parametrize(
        "value",
        [
            '1,"stepId":"gone"',
            '{"a":1},"attempt":2',
            "1e999",
            '"\\ud83d"',
            '"\\ud83d\\ude00"',
            '"\x01"',
            "[" * 500 + "]" * 500,
            "[" * 490 + "]" * 490,
            "[" * 20_000 + "]" * 20_000,
            "{}}",
            "nul",
            "",
            '"ä"',
            " 7 ",
            "\u2028",
        ],
    )
    def test_a_value_that_is_none(self, tmp_path: Path, value: str) -> None:
        """A hole takes one JSON value and no more; what could not be read is said as ever."""
        for contract in (TODAY, {**TODAY, "steps": {"assess": {"outputSchema": RISK}, "pay": {}}, "inputSchema": {}}):
            for at, kind in ((at, kind) for at in range(9) for kind in (waiting, finished) if at < len(kind(""))):
                text = ""
                for number in range(4):
                    for line in kind(f"r-{number}"):
                        field = {"output", "input", "payload", "by"} & line["payload"].keys()
                        said = json.dumps(line, separators=(",", ":"))
                        if number == 3 and line["sequence"] == at + 1 and field:
                            name = field.pop()
                            before = json.dumps(line["payload"][name], separators=(",", ":"))
                            said = said.replace(f'"{name}":{before}', f'"{name}":{value}')
                        text += said + "\n"
                path = tmp_path / "r.jsonl"
                path.write_bytes(text.encode())
                both(path, contract)

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        """A value that is not UTF-8 is damage, wherever it stands."""
        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}", "xyz") for n in range(4)))
        path.write_bytes(b"xy\xff".join(path.read_bytes().rsplit(b"xyz", 1)))
        both(path, TODAY)

    def test_a_value_that_today_refuses(self, tmp_path: Path, hits: list[str]) -> None:
        """Each run's own values are held against today's schemas; those that fit are told by the text."""
        contract = {**TODAY, "steps": {"assess": {"outputSchema": RISK}, "pay": {}}}
        amounts = [1, 2, "much", 3, None, 4]
        path = written(tmp_path / "r.jsonl", *(waiting(f"r-{n}", amount) for n, amount in enumerate(amounts)))
        report = both(path, contract)
        assert [f.execution_id for f in report.findings if f.code == "output-contract"] == ["r-2", "r-4"]
        assert hits == ["r-1", "r-3", "r-5"]

    def test_an_input_that_today_refuses(self, tmp_path: Path, hits: list[str]) -> None:
        """The same for the input."""
        schema = {"type": "object", "properties": {"amount": {"type": "integer", "maximum": 9}}}
        path = written(tmp_path / "r.jsonl", *(waiting(f"r-{n}", n * 5) for n in range(4)))
        report = both(path, {**TODAY, "inputSchema": schema})
        assert [f.execution_id for f in report.findings if f.code == "input-contract"] == ["r-2", "r-3"]
        assert hits == ["r-1"]

    def test_a_state_that_is_read(self, tmp_path: Path, hits: list[str]) -> None:
        """Saved state is read in a waiting run, so that it has to be the same; once the run is over, nobody asks."""

        def saving(name: str, cents: Any, over: bool) -> Lines:
            lines = waiting(name) if not over else finished(name)
            events = [(line["eventType"], line["payload"]) for line in lines]
            return run(name, events[0], ("STATE_SNAPSHOT", {"state": {"cents": cents}}), *events[1:])

        contract = {**TODAY, "stateSchema": {"type": "object", "properties": {"cents": {"type": "integer"}}}}
        for over, expected in ((False, ["r-1"]), (True, ["r-1", "r-2", "r-3"])):
            hits.clear()
            cents = [1, 1, "many", 2]
            path = written(tmp_path / "r.jsonl", *(saving(f"r-{n}", one, over) for n, one in enumerate(cents)))
            report = both(path, contract)
            assert [f.execution_id for f in report.findings if f.code == "state-type"] == (["r-2"] if not over else [])
            assert hits == expected

    def test_a_call_that_waits_is_read(self, tmp_path: Path, hits: list[str]) -> None:
        """The arguments of a call that somebody is asked about are looked at in each run."""

        def asking(name: str, cents: Any) -> Lines:
            call = {"callId": name, "name": "pay", "args": {"cents": cents}}
            return run(
                name,
                ("EXECUTION_STARTED", {"input": name}),
                ("TOOL_REQUESTED", call),
                ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "pending": call}),
            )

        schema = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
        contract = {**TODAY, "tools": {"pay": {"schema": schema}}}
        path = written(tmp_path / "r.jsonl", *(asking(f"r-{n}", cents) for n, cents in enumerate([1, 1, "many", 2])))
        report = both(path, contract)
        assert [f.execution_id for f in report.findings if f.severity == "breaking"] == ["r-2"]
        assert hits == []

    def test_a_fact_that_tells_a_value(self, tmp_path: Path, hits: list[str], monkeypatch: Any) -> None:
        """Facts do not tell two findings apart, and are of each run all the same: one that reads a value is not told
        of others."""
        plain = facts.recorded_at

        def telling(log: Log, step: str | None) -> tuple[str, str]:
            recorded, part = plain(log, step)
            return f"{recorded}, ordered {log.events[0].payload.get('input')}", part

        monkeypatch.setattr(facts, "recorded_at", telling)
        path = written(tmp_path / "r.jsonl", *(waiting(f"r-{n}", n) for n in range(4)))
        assert len({found.recorded for found in both(path, {**TODAY, "steps": {"pay": {}}}).findings}) > 4
        assert hits == []

    def test_checks_of_the_users_own(self, tmp_path: Path, hits: list[str]) -> None:
        """A check may look at anything: each run is shown to it."""

        def check(log: Log, contract: Contract) -> Iterator[Finding]:
            if log.execution_id == "r-3":
                yield finding(log, "odd", "is odd", "", severity="breaking")

        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}") for n in range(5)))
        report = both(path, TODAY, checks=[check])
        assert [found.execution_id for found in report.findings] == ["r-3"]
        assert hits == []

    def test_ids_that_are_equal_elsewhere(self, tmp_path: Path, hits: list[str]) -> None:
        """Which ids are the same and which are not says what belongs together: here, whether two waits are one."""

        def asking(name: str, *keys: str) -> Lines:
            waits = [("EXECUTION_SUSPENDED", {"on": "Approved", "correlationKey": key}) for key in keys]
            return run(name, ("EXECUTION_STARTED", {"input": 1}), *waits)

        path = written(tmp_path / "r.jsonl", asking("1", "a", "b"), asking("2", "c", "d"), asking("3", "e", "e"))
        more = ["1 more" in found.message for found in both(path, TODAY).findings]
        assert (more, hits) == ([True, True, False], ["2"])

    def test_an_answer_that_says_for_what_it_is(self, tmp_path: Path, hits: list[str]) -> None:
        """An answer's own words may name the wait that it ends; then they are no mere value."""

        def answered(name: str, answer: dict[str, Any]) -> Lines:
            return run(
                name,
                ("EXECUTION_STARTED", {"input": 1}),
                ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "correlationKey": "a"}),
                ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "question", "correlationKey": "b"}),
                ("EXECUTION_RESUMED", {"eventType": "Approved", "payload": answer}),
            )

        answers: list[dict[str, Any]] = [
            {"by": 1},
            {"by": 2},
            {"correlationKey": "b"},
            {"by": 1, "correlationKey": "b"},
        ]
        path = written(tmp_path / "r.jsonl", *(answered(f"{n}", answer) for n, answer in enumerate(answers)))
        left = ["question" in found.message for found in both(path, TODAY).findings]
        assert (left, hits) == ([True, True, False, False], ["1"])

    def test_an_error_that_is_none(self, tmp_path: Path) -> None:
        """The error of a failure is an object or null; anything else is damage."""
        runs = []
        for number, error in enumerate([None, None, "no", {"type": "E"}, 1]):
            failed = ("STEP_FAILED", {"stepId": "pay", "error": error})
            runs.append(run(f"r-{number}", ("EXECUTION_STARTED", {"input": 1}), failed))
        report = both(written(tmp_path / "r.jsonl", *runs), TODAY)
        assert [found.execution_id for found in report.findings if found.code == "log-unreadable"] == ["r-2", "r-4"]

    @pytest.mark.parametrize(
        "what",
        [
            lambda log: log.execution_id,
            lambda log: str(log.events[0].timestamp),
            lambda log: log.state.frames["assess"].call_id,
            lambda log: log.state.received[0].payload["by"],
            lambda log: str(log.state.frames["pay"].output),
            lambda log: log.path,
        ],
        ids=["id", "time", "call", "answer", "result", "path"],
    )
    def test_what_a_new_check_reads(
        self, tmp_path: Path, hits: list[str], monkeypatch: pytest.MonkeyPatch, what: Callable[[Log], str]
    ) -> None:
        """A built-in check that nobody told the memory about is shown each run where it looks at what differs."""

        def check(log: Log, contract: Contract) -> Iterator[Finding]:
            yield finding(log, "step-removed", what(log), "")

        monkeypatch.setattr("pytest_loom.deploy.decide.FINISHED_TOO", (check,))
        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}", n) for n in range(4)))
        both(path, TODAY)
        assert hits == []

    def test_what_a_new_check_reads_of_a_value_with_a_schema(
        self, tmp_path: Path, hits: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same where a value is held against today's schema already."""

        def check(log: Log, contract: Contract) -> Iterator[Finding]:
            if log.state.frames["assess"].output["risk"] == 2:
                yield finding(log, "step-removed", "two", "")

        monkeypatch.setattr("pytest_loom.deploy.decide.BUILT_IN", (check,))
        contract = {**TODAY, "steps": {"assess": {"outputSchema": RISK}, "pay": {}}}
        report = both(written(tmp_path / "r.jsonl", *(waiting(f"r-{n}", n) for n in range(4))), contract)
        assert [found.execution_id for found in report.findings] == ["r-2"]
        assert hits == []

    def test_upcasters(self, tmp_path: Path, hits: list[str]) -> None:
        """An upcaster is code and sees every payload, even where it is registered only as a flow is looked up."""
        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}", n) for n in range(4)))
        other = [{**line, "workflowId": "other"} for line in finished("o")]
        path = written(tmp_path / "r.jsonl", *(finished(f"r-{n}") for n in range(3)), other, *pairs(3))

        def resolver(workflow_id: str) -> Any:
            if workflow_id == "other":

                @upcaster("STEP_COMPLETED", from_version=1)
                def raised(payload: dict[str, Any]) -> dict[str, Any]:
                    return {**payload, "stepId": "renamed"}

            return {**TODAY, "workflowId": workflow_id}

        reports = []
        for logs in (path, Each(path)):
            with isolated_upcasters():
                reports.append(told(simulate_deploy(logs, resolver)))
        assert reports[0] == reports[1]
        assert len(reports[0]["findings"]) > 9
        assert hits == ["r-1", "r-2"]


@pytest.mark.usefixtures("eager")
def test_yesterdays_contract_is_that_of_each_run(tmp_path: Path, hits: list[str]) -> None:
    """Which contract a run was started on hangs on what it says, or on when it last did something."""
    old = {**TODAY, "gates": {"Approved": {"payloadSchema": {"type": "integer"}}}}
    new = {**TODAY, "gates": {"Approved": {"payloadSchema": {"type": "string"}}}}
    kept = tmp_path / "kept"
    for at, contract in (("1970-01-01T00:00:01Z", old), ("2023-11-14T22:13:30Z", new)):
        from pytest_loom.contract.fingerprint import fingerprint

        print_of = fingerprint(contract_of(contract))
        data = {"capturedAt": at, "fingerprint": print_of, "contract": contract_of(contract).model_dump(by_alias=True)}
        (kept / "refund").mkdir(parents=True, exist_ok=True)
        (kept / "refund" / f"{print_of}.json").write_text(json.dumps(data))
    runs = []
    for number in range(8):
        lines = waiting(f"r-{number}")
        for line in lines:
            line["timestamp"] += 20_000 * (number % 2)
        runs.append(lines)
    report = both(written(tmp_path / "r.jsonl", *runs), new, contract=kept)
    assert [f.execution_id for f in report.findings if f.code == "gate-changed"] == ["r-0", "r-2", "r-4", "r-6"]
    assert [changed.runs for changed in report.changed] == [4]
    assert len(hits) == 6


@step
def assess(order: str) -> int:
    """A step."""
    return len(order)


@flow(id="desk", version="1", steps=[assess], gates={"Approved": bool})
async def desk(ctx: Context, order: str) -> bool:
    """A flow that is code."""
    await ctx.run(assess, order)
    answer: bool = await ctx.suspend("Approved", correlation_key=order)
    return answer


@pytest.mark.usefixtures("eager")
def test_flows_that_are_code(tmp_path: Path, hits: list[str]) -> None:
    """A waiting run of one is replayed, each by itself; a finished one is judged by its structure, once."""
    from pytest_loom import resume, write_log

    logs = [record(desk, f"order-{n}", execution_id=f"w-{n}") for n in range(4)]
    done = [resume(log, desk, event="Approved", payload=True) for log in logs]
    for kind, made, expected in (("waiting", logs, 0), ("done", done, 3)):
        hits.clear()
        parts = []
        for number, log in enumerate(made):
            write_log(log, tmp_path / f"{number}.loom.jsonl")
            parts.append((tmp_path / f"{number}.loom.jsonl").read_bytes())
        path = tmp_path / f"{kind}.jsonl"
        path.write_bytes(b"".join(parts))
        both(path, {"desk": desk})
        assert len(hits) == expected


# Generated runs ------------------------------------------------------------------------------------------------------

SCALARS = [
    "1",
    "2",
    '"a"',
    '"b"',
    "null",
    "true",
    "{}",
    "[]",
    '{"risk":1}',
    '{"risk":"x"}',
    "1e999",
    '"\\ud83d"',
    '"ä"',
]
NAMES = ["assess", "pay", "gone"]
PAYLOADS: list[tuple[str, list[str]]] = [
    ("STEP_STARTED", ['"stepId":NAME', '"callId":ID', '"input":VALUE', '"attempt":1', '"idempotencyKey":ID']),
    ("STEP_COMPLETED", ['"stepId":NAME', '"callId":ID', '"output":VALUE', '"input":VALUE']),
    ("STEP_FAILED", ['"stepId":NAME', '"error":{"type":"E","message":VALUE}', '"willRetry":true']),
    ("STEP_PROGRESS", ['"stepId":NAME', '"chunk":VALUE']),
    ("TOOL_REQUESTED", ['"callId":ID', '"name":NAME', '"args":VALUE', '"approval":VALUE']),
    ("TOOL_COMPLETED", ['"callId":ID', '"output":VALUE']),
    ("MODEL_REQUESTED", ['"callId":ID', '"model":NAME', '"request":VALUE']),
    ("MODEL_COMPLETED", ['"callId":ID', '"model":NAME', '"response":VALUE', '"usage":{"n":VALUE}']),
    ("DECISION_RECORDED", ['"key":NAME', '"value":VALUE']),
    ("STATE_SNAPSHOT", ['"state":VALUE', '"stateSchemaVersion":1']),
    ("PLAN_RECORDED", ['"plan":VALUE', '"planSchemaVersion":1']),
    ("EXECUTION_SUSPENDED", ['"on":NAME', '"correlationKey":ID', '"pending":{"callId":ID,"name":NAME,"args":VALUE}']),
    ("EXECUTION_SUSPENDED", ['"on":NAME', '"kind":"approval"', '"correlationKey":ID']),
    ("EXECUTION_RESUMED", ['"eventType":NAME', '"correlationKey":ID', '"payload":VALUE']),
    ("assess", ['"by":VALUE']),
    ("EXECUTION_COMPLETED", ['"output":VALUE']),
    ("EXECUTION_FAILED", ['"error":{"type":"E","message":VALUE}']),
    ("EXECUTION_MIGRATED", ['"strategy":NAME', '"migratedInput":VALUE']),
    ("EXECUTION_CONTINUED", ['"newExecutionId":ID', '"input":VALUE']),
]
SCHEMAS: list[Any] = [None, True, {"type": "integer"}, {"type": ["string", "null"]}, RISK]


@st.composite
def shapes(draw: st.DrawFn) -> list[str]:
    """The lines of a run with VALUE, NAME and ID in them."""
    manifest = draw(st.sampled_from(["", ',"manifest":{"flowVersion":"1"}', ',"manifest":{"stateSchemaVersion":1}']))
    lines = [f'"eventType":"EXECUTION_STARTED","schemaVersion":"1.15.0","payload":{{"input":VALUE{manifest}}}']
    for kind, fields in draw(st.lists(st.sampled_from(PAYLOADS), min_size=1, max_size=6)):
        kept = [field for field in fields if field is fields[0] or draw(st.integers(0, 3))]
        lines.append(f'"eventType":"{kind}","schemaVersion":"1.15.0","payload":{{{",".join(kept)}}}')
    for marker in ("NAME",):
        lines = [_filled(line, marker, lambda: draw(st.sampled_from(NAMES))) for line in lines]
    return lines


def _filled(line: str, marker: str, value: Callable[[], str]) -> str:
    """A line with something in each place of a marker."""
    first, *rest = line.split(marker)
    return first + "".join(f'"{value()}"{part}' if marker != "VALUE" else value() + part for part in rest)


def variants(shape: list[str], chance: random.Random, name: str) -> list[str]:
    """A run of that shape: values and ids are drawn, and now and then something else is other than it should be."""
    lines = []
    ids = chance.sample(["k1", "k2", "k3", "k4", name], 5)
    for number, line in enumerate(shape, 1):
        line = _filled(line, "VALUE", lambda: chance.choice(SCALARS[:9]))
        line = _filled(line, "ID", lambda: chance.choice(ids[:2]))
        head = f'"executionId":"{name}","workflowId":"refund","sequence":{number},"timestamp":{chance.randint(0, 99)}'
        lines.append(f"{{{head},{line}}}")
    if chance.random() < 0.3:
        at = chance.randrange(len(lines))
        before, after = chance.choice(
            [
                *((one, other) for one in SCALARS[:5] for other in SCALARS),
                ('"schemaVersion"', '"branch":"1","schemaVersion"'),
                (',"output"', ', "output"'),
                ('"callId":', '"callId2":'),
                ('"sequence":2', '"sequence":3'),
                ("EXECUTION_COMPLETED", "EXECUTION_CANCELLED"),
                ('"1.15.0"', '"1.14.0"'),
                ("assess", "pay"),
                ('"timestamp":', '"timestamp":-'),
            ]
        )
        lines[at] = lines[at].replace(before, after, 1)
    return lines


@st.composite
def contracts(draw: st.DrawFn) -> dict[str, Any]:
    """A contract of today's or yesterday's."""
    steps = draw(st.lists(st.sampled_from(NAMES), unique=True))
    made: dict[str, Any] = {
        "workflowId": "refund",
        "version": draw(st.sampled_from(["1", "2"])),
        "steps": {name: {"outputSchema": draw(st.sampled_from(SCHEMAS))} for name in steps},
        "gates": {name: {"payloadSchema": draw(st.sampled_from(SCHEMAS))} for name in NAMES[: draw(st.integers(0, 3))]},
        "tools": {name: {"schema": draw(st.sampled_from(SCHEMAS)), "approval": True} for name in steps},
        "inputSchema": draw(st.sampled_from(SCHEMAS)),
        "stateSchema": draw(st.sampled_from(SCHEMAS)),
        "versions": draw(st.sampled_from([{}, {"state": 1}, {"state": 2, "plan": 1}])),
    }
    return {name: value for name, value in made.items() if value is not None and draw(st.integers(0, 3))} | {
        "workflowId": "refund"
    }


@given(
    st.lists(shapes(), min_size=1, max_size=3),
    contracts(),
    st.none() | contracts(),
    st.sampled_from(["all", "in-flight"]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_memory_of_runs_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    kinds: list[list[str]],
    today: dict[str, Any],
    yesterday: dict[str, Any] | None,
    scope: Any,
    chance: random.Random,
) -> None:
    """Whatever runs there are, and whatever they are held against: the report is the same, to the byte."""
    runs = [variants(chance.choice(kinds), chance, f"run-{number}") for number in range(12)]
    if chance.random() < 0.3:
        runs = [[line for lines in itertools.zip_longest(*runs, fillvalue="") for line in lines if line]]
    path = tmp_path_factory.getbasetemp() / "generated.jsonl"
    path.write_text("".join(line + "\n" for lines in runs for line in lines), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "_FIRST", 1)
        patch.setattr(alike, "_SHARE", 0)
        both(path, today, contract=yesterday, scope=scope)
