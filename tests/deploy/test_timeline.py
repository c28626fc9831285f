"""What a few runs did beside what today's code makes of it: bounded, scrubbed, and the first divergence in sight."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_loom import Finding, Log, LogBuilder, SyncContext, contract_of, flow, record, simulate_deploy, step
from pytest_loom.deploy.report import DeployReport
from pytest_loom.deploy.timeline import MAX_ROWS, MAX_TEXT, Timelines, timeline
from pytest_loom.log.scrub import scrubber_of


@step
def assess(cents: int) -> int:
    """One step."""
    return cents + 1


@step
def pay(cents: int) -> int:
    """Another."""
    return cents


@step
def tell(cents: int) -> int:
    """And one that only today's code may have."""
    return cents


def made(body: Any) -> Any:
    """A flow with these steps and one gate."""
    return flow(id="refund", steps=[assess, pay, tell], gates={"Go": dict})(body)


def of_yesterday(ctx: SyncContext, cents: int) -> int:
    """What the runs were started on."""
    paid = ctx.run(pay, ctx.run(assess, cents))
    ctx.suspend("Go")
    return paid


def told(log: Log, today: Any) -> dict[str, Any]:
    """The timeline of the run, beside today's flow."""
    (run,) = simulate_deploy([log], today, timelines=Timelines()).runs
    assert run.timeline is not None
    return run.timeline


def sides(data: dict[str, Any]) -> list[tuple[str, str]]:
    """What was recorded, and what today's code makes of it."""
    return [(f"{row['kind']} {row.get('name')}", row.get("today", "")) for row in data["rows"]]


class TestBesideAReplay:
    """Today's flow is code: it is replayed against the log."""

    def test_the_same(self) -> None:
        """Every effect, in order, with what went in and came out; and no divergence."""
        data = told(record(made(of_yesterday), 1), made(of_yesterday))
        assert sides(data) == [
            ("run started", "same"),
            ("step assess", "same"),
            ("step pay", "same"),
            ("gate Go", "same"),
        ]
        assert data["rows"][1]["was"] == [["input", "1"], ["output", "2"]]
        assert (data["first"], data["events"]) == (None, 6)
        assert data["rows"][3]["status"] == "event, waits"

    def test_it_stops(self) -> None:
        """Where today's code asks something else, that is the first divergence, and what comes after is not reached."""

        def fee(ctx: SyncContext, cents: int) -> int:
            paid = ctx.run(pay, ctx.run(assess, cents) - 1)
            ctx.suspend("Go")
            return paid

        data = told(record(made(of_yesterday), 1), made(fee))
        assert sides(data)[1:] == [("step assess", "same"), ("step pay", "stops"), ("gate Go", "later")]
        assert data["first"] == 2
        assert data["rows"][2]["codes"] == ["replay-diverged"]
        assert (
            data["rows"][2]["said"] == "Step pay is asked something else than in this run; input: recorded 2, today 1"
        )

    def test_what_only_today_does(self) -> None:
        """A run that crashed before its gate: the wait is today's code's own, and it is shown beside nothing."""

        def waits_at_once(ctx: SyncContext, cents: int) -> int:
            ctx.suspend("Go")
            return cents

        today = made(waits_at_once)
        log = Log(record(made(of_yesterday), 1).events[:1])
        data = timeline(log, [], contract_of(today), today)
        assert sides(data) == [("run started", "same"), ("gate Go", "new")]
        assert data["first"] == 1
        assert "at" not in data["rows"][1]

    def test_code_that_cannot_be_replayed(self) -> None:
        """Today's code breaks on its own: that is said, and its contract stands beside the log."""

        def broken(ctx: SyncContext, cents: int) -> int:
            open("/etc/passwd", "a").close()
            return cents

        data = told(record(made(of_yesterday), 1), made(broken))
        assert "could not be replayed" in data["how"]
        assert sides(data)[1] == ("step assess", "declared")


def journal(*events: tuple[str, dict[str, Any]]) -> Log:
    """A run of an application that writes its log itself."""
    log = LogBuilder("r-1", "refund")
    log.add("EXECUTION_STARTED", {"input": 1}, timestamp=0)
    for kind, payload in events:
        log.add(kind, payload, timestamp=60_000)
    return log.log()


ASSESS = ("STEP_COMPLETED", {"stepId": "assess", "output": {"risk": "low"}})
WAITS = ("EXECUTION_SUSPENDED", {"on": "Go", "kind": "approval", "pending": {"name": "pay", "args": {"cents": 5}}})


class TestBesideAContract:
    """Today's flow is data: what it has is known, and nothing else."""

    def test_a_step_that_is_gone(self) -> None:
        """It is the first divergence; what the contract has is said to be still there."""
        log = journal(ASSESS, ("STEP_COMPLETED", {"stepId": "notify"}), WAITS)
        data = told(log, {"workflowId": "refund", "steps": {"notify": {}}, "gates": {"Go": {}}})
        assert sides(data) == [
            ("run started", ""),
            ("step assess", "gone"),
            ("step notify", "declared"),
            ("gate Go", "declared"),
        ]
        assert (data["first"], data["rows"][1]["codes"]) == (1, ["step-removed"])

    def test_every_kind_of_effect(self) -> None:
        """Steps, calls, gates and their answers, decisions, saved states, and how it ended, in the order they began."""
        log = journal(
            ("STEP_STARTED", {"stepId": "assess", "input": 1}),
            ("TOOL_REQUESTED", {"callId": "c", "name": "look_up", "args": {"q": 1}}),
            ("TOOL_COMPLETED", {"callId": "c", "output": 2}),
            ("MODEL_REQUESTED", {"callId": "m", "model": "gpt", "request": {}}),
            ("MODEL_COMPLETED", {"callId": "m", "response": "yes"}),
            ("STEP_FAILED", {"stepId": "assess", "error": {"type": "E", "message": "no"}}),
            ("DECISION_RECORDED", {"key": "now", "value": 5}),
            ("STATE_SNAPSHOT", {"state": {"a": 1}}),
            WAITS,
            ("Go", {"ok": True}),
            ("EXECUTION_RESUMED", {"eventType": "Go", "payload": {"ok": True}}),
            ("EXECUTION_SUSPENDED", {"on": "More", "kind": "event", "timeoutMs": 5}),
            ("EXECUTION_RESUMED", {"eventType": "TIMEOUT"}),
            ("EXECUTION_FAILED", {"error": {"type": "E", "message": "no"}}),
        )
        data = timeline(log, [], None, None)
        assert [name for name, _ in sides(data)] == [
            "run started",
            "step assess",
            "tool look_up",
            "model gpt",
            "decision now",
            "state None",
            "gate Go",
            "answer Go",
            "gate More",
            "answer TIMEOUT",
            "run failed",
        ]
        assert [row.get("was") for row in data["rows"]][1:4] == [
            [["input", "1"], ["error", '{\n  "type": "E",\n  "message": "no"\n}']],
            [["args", '{\n  "q": 1\n}'], ["output", "2"]],
            [["request", "{}"], ["response", "yes"]],
        ]
        assert data["how"] == "today's code has no such flow"

    def test_a_finding_about_no_place(self) -> None:
        """It is about where the run stands."""
        log = journal(ASSESS, WAITS)
        found = [Finding("own", "breaking", "refund", "r-1", None, "m", "h", "s")]
        data = timeline(log, found, None, None)
        assert (data["first"], data["rows"][2]["codes"]) == (2, ["own"])

    def test_an_engine_that_never_runs_finished_work_again(self) -> None:
        """What is finished is kept, whatever today's graph calls it."""
        data = told(journal(ASSESS, WAITS), {"workflowId": "refund", "engine": "checkpoint", "steps": {"other": {}}})
        assert sides(data)[1] == ("step assess", "kept")


class TestBounds:
    def test_a_long_run(self) -> None:
        """The beginning, the end, and what is around the divergence; the rest is numbers."""
        steps: list[tuple[str, dict[str, Any]]] = [("STEP_COMPLETED", {"stepId": f"s-{n}"}) for n in range(5_000)]
        steps[3_000] = ASSESS
        contract = {"workflowId": "refund", "steps": {f"s-{number}": {} for number in range(5_000)}}
        data = told(journal(*steps), contract)
        rows = data["rows"]
        assert len([row for row in rows if "gap" not in row]) <= MAX_ROWS
        assert sum(row.get("gap", 1) for row in rows) == 5_001
        assert rows[data["first"]]["name"] == "assess"
        assert (rows[0]["name"], rows[-1]["name"]) == ("started", "s-4999")

    def test_large_payloads(self) -> None:
        """What is near the divergence is shown before what is far from it, and all of it has a bound."""
        steps = [("STEP_COMPLETED", {"stepId": f"s-{number}", "output": "x" * 3_000}) for number in range(150)]
        steps[100] = ("STEP_COMPLETED", {"stepId": "assess", "output": "y" * 3_000})
        contract = {"workflowId": "refund", "steps": {f"s-{number}": {} for number in range(150)}}
        data = told(journal(*steps), contract)
        texts = [text for row in data["rows"] for _, text in row.get("was", ())]
        assert sum(map(len, texts)) < MAX_TEXT + 150 * 40
        (at_divergence,) = [text for _, text in data["rows"][data["first"]]["was"]]
        assert at_divergence == "y" * 3_000
        assert texts[1] == "(3,002 bytes, left out)"

    @pytest.mark.parametrize("size", [10_000, 2_000_000])
    def test_one_large_payload(self, size: int) -> None:
        """It is cut, and says how large it is; an endless one is not even read."""
        data = timeline(journal(("STEP_COMPLETED", {"stepId": "a", "output": "x" * size})), [], None, None)
        ((_, text),) = data["rows"][1]["was"]
        assert len(text) < 5_000
        assert f"{size:,} characters in all" in text or "bytes, left out" in text

    def test_three_runs_of_each_cause(self) -> None:
        """Of many runs of one cause the first three have a timeline, and so of each other cause."""
        logs = []
        for number in range(20):
            log = LogBuilder(f"r-{number:02}", "refund")
            log.add("STEP_COMPLETED", {"stepId": "a" if number % 2 else "b"}, timestamp=0)
            logs.append(log.log())
        report = simulate_deploy(logs, {"workflowId": "refund", "steps": {}}, timelines=Timelines())
        assert [run.execution_id for run in report.runs if run.timeline is not None] == [f"r-{n:02}" for n in range(6)]
        assert all(run.timeline is None for run in simulate_deploy(logs, {"workflowId": "refund", "steps": {}}).runs)

    def test_causes_without_number(self) -> None:
        """Where every run has a cause of its own, only so many timelines are made."""
        logs = []
        for number in range(100):
            log = LogBuilder(f"r-{number:02}", "refund")
            log.add("STEP_COMPLETED", {"stepId": f"s-{number}"}, timestamp=0)
            logs.append(log.log())
        report = simulate_deploy(logs, {"workflowId": "refund", "steps": {}}, timelines=Timelines())
        assert sum(run.timeline is not None for run in report.runs) == 50

    def test_over_process_borders(self) -> None:
        """A timeline is plain data: it goes where the report goes."""
        report = simulate_deploy([journal(ASSESS)], {"workflowId": "refund", "steps": {}}, timelines=Timelines())
        again = DeployReport.unpacked(report.packed())
        assert again.runs[0].timeline == report.runs[0].timeline
        assert json.loads(json.dumps(again.runs[0].as_dict()))["timeline"]["first"] == 1


class TestUntrusted:
    def test_secrets(self) -> None:
        """What a log of another writer holds is scrubbed, by the project's own rules too."""
        output = {"api_key": "sk-abcdefghijklmnopqrstuvwx", "note": "EMP-1234", "name": "Ada"}
        log = journal(("STEP_COMPLETED", {"stepId": "assess", "output": output}))
        data = timeline(log, [], None, None, scrubber_of([r"re:EMP-\d+"], [_nameless]))
        text = json.dumps(data)
        assert "sk-abc" not in text
        assert "EMP-1234" not in text
        assert "Ada" not in text
        assert "<scrubbed:" in text

    def test_names_and_values(self) -> None:
        """Control characters, marks that turn text around and line breaks of any kind are shown as what they are."""
        evil = "x\n\x1b[2J\u202e\u2028</script><!--"
        log = journal((f"Go{evil}", {"value": evil}), ("STEP_COMPLETED", {"stepId": evil, "output": evil}))
        data = timeline(log, [], None, None)
        for row in data["rows"]:
            assert all(str(row.get(name, "x")).isprintable() for name in ("name", "status", "said"))
            for _, text in row.get("was", ()):
                assert all(line.isprintable() for line in text.split("\n"))

    def test_a_log_that_cannot_be_read(self) -> None:
        """It has no timeline, and the simulation goes on."""
        log = journal(("DECISION_RECORDED", {"key": "k", "value": 1}))
        bad = Log([*log.events[:-1], _spoilt(log.events[-1])])
        report = simulate_deploy([bad], {}, timelines=Timelines())
        assert [run.timeline for run in report.runs] == [None]


def _nameless(path: str, value: Any) -> Any:
    return "<scrubbed:name>" if path == "output.name" else value


def _spoilt(event: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(event, raw=msgspec.Raw(b'{"key": "k", "value": }'))
