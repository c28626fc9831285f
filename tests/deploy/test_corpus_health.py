"""The corpus check: what no recorded run comes by, flows without a run, and how old the newest is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogBuilder, simulate_deploy
from pytest_loom.contract.model import Contract
from pytest_loom.deploy.corpus_health import CorpusHealth
from pytest_loom.deploy.report import DeployReport
from pytest_loom.log.write import encode_events

DAY = 24 * 3600 * 1000
NOW = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp() * 1000)
REFUND = {
    "workflowId": "refund",
    "steps": {"assess": {}, "pay": {}, "__start__": {}},
    "gates": {"Approved": {}, "Escalated": {}},
    "tools": {"wire": {}},
    "agents": {"front": {"tools": {"search": {}}}},
}


def run(
    *steps: str, execution_id: str = "r-1", flow: str = "refund", wait: str = "", pending: Any = None, day: int = 0
) -> Log:
    """A run that has done these steps and waits, so many days ago."""
    made = LogBuilder(execution_id, flow)
    at = NOW - day * DAY
    made.add("EXECUTION_STARTED", {"input": 1}, timestamp=at)
    for name in steps:
        made.add("STEP_STARTED", {"stepId": name}, timestamp=at)
        made.add("STEP_COMPLETED", {"stepId": name, "output": 1}, timestamp=at)
    if wait:
        made.add("EXECUTION_SUSPENDED", {"on": wait, "pending": pending}, timestamp=at)
    else:
        made.add("EXECUTION_COMPLETED", {}, timestamp=at)
    return made.log()


def notes(corpus: CorpusHealth, **options: Any) -> list[str]:
    """What is said of a corpus."""
    return list(corpus.notes(now_ms=NOW, **options))


def simulated(logs: Iterable[Log] | Path, **flows: Any) -> DeployReport:
    """The report of a simulation."""
    return simulate_deploy(logs, {"refund": REFUND, **flows})


def test_what_no_run_comes_by() -> None:
    """Steps, gates and tools of today that are on no recorded run are named, and shrink with each run."""
    first = simulated([run("assess")]).corpus
    assert notes(first) == ["no recorded run of refund comes by step pay, gate Approved, Escalated, tool search, wire"]
    call = [{"name": "wire", "args": {}}]
    both = simulated([run("assess"), run("pay", wait="Approved", pending=call)]).corpus
    assert notes(both) == ["no recorded run of refund comes by gate Escalated, tool search"]


def test_a_whole_corpus_says_nothing() -> None:
    """Where every path is recorded there is nothing to say."""
    only = {"workflowId": "refund", "steps": {"assess": {}}}
    assert notes(simulate_deploy([run("assess")], {"refund": only}).corpus) == []


def test_a_flow_without_a_run() -> None:
    """A flow of today of which no run is recorded could change in any way."""
    corpus = simulated([run("assess", "pay")]).corpus
    corpus.promise("payout", Contract.model_validate({"workflowId": "payout", "steps": {"tell": {}}}))
    assert notes(corpus)[0] == "no run of payout is recorded: whatever changes there, this simulation is green"


def test_age() -> None:
    """The newest run of a flow counts, where somebody said how old is too old."""
    corpus = simulated([run("assess", "pay", day=200), run("assess", day=91)]).corpus
    assert corpus.flows["refund"].age_days(NOW) == 91
    assert notes(corpus, max_age_days=90)[-1] == (
        "the newest run of refund is of 2026-08-31, 91 days ago: record some anew"
    )
    assert len(notes(corpus, max_age_days=91)) == 1
    assert len(notes(corpus)) == 1


def test_long_lists_are_cut() -> None:
    """Four names of a kind, and how many more: a corpus that begins must not fill the screen."""
    many = {"workflowId": "refund", "steps": {f"step{number}": {} for number in range(9)}}
    (note,) = notes(simulate_deploy([run("assess")], {"refund": many}).corpus)
    assert note == "no recorded run of refund comes by step step0, step1, step2, step3 and 5 more"


@pytest.mark.parametrize("forward", [True, False])
def test_parts_add_up_in_any_order(forward: bool) -> None:
    """What one part of a corpus comes by is come by, and the newest run of all parts counts."""
    parts = [simulated([run("assess", day=5)]), simulated([run("pay", wait="Approved", day=9)])]
    whole = DeployReport.merge(parts if forward else reversed(parts))
    again = DeployReport.unpacked(whole.packed()).corpus
    assert notes(again) == ["no recorded run of refund comes by gate Escalated, tool search, wire"]
    flow = again.flows["refund"]
    assert (flow.runs, flow.in_flight, flow.age_days(NOW)) == (2, 1, 5)
    assert again.as_dict() == simulated([run("pay", wait="Approved", day=9), run("assess", day=5)]).corpus.as_dict()


def test_finished_runs_that_nobody_looked_at() -> None:
    """Of a live store only unfinished runs are judged: then what is missing cannot be told, and how old it is can."""
    done = run("assess", day=3)
    store = Log(done.events, path="runs.db", live=True)
    corpus = simulated([store, run("assess", wait="Approved", day=8)]).corpus
    assert notes(corpus) == []
    assert notes(corpus, max_age_days=7)[0].startswith("the newest run of refund is of 2026-11-22")


def test_runs_that_are_alike_count(tmp_path: Path) -> None:
    """Of many runs of one kind only the first are read: all are counted, and the newest is known."""
    logs = [run("assess", execution_id=f"run-{number:05}", day=400 - number) for number in range(300)]
    path = tmp_path / "many.loom.jsonl"
    path.write_bytes(b"".join(encode_events(log.events) for log in logs))
    flow = simulated(path).corpus.flows["refund"]
    assert flow.runs == 300
    assert flow.age_days(NOW) == 101
    assert flow.missing["step"] == {"pay"}


def test_a_step_of_a_sub_flow_is_known_by_its_path() -> None:
    """Contracts of graphs name it so."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {}, timestamp=NOW)
    made.add("STEP_COMPLETED", {"stepId": "review"}, timestamp=NOW, namespace="writer")
    today = {"workflowId": "refund", "engine": "checkpoint", "steps": {"writer/review": {}, "ask": {}, "send": {}}}
    made.add(
        "CheckpointFrontier",
        {"pending": [{"node": "ask", "namespace": "", "status": "waiting"}], "calls": [{"name": "wire"}]},
        timestamp=NOW,
    )
    log = made.log(source="some", engine="checkpoint")
    corpus = simulate_deploy([log], {"refund": {**today, "tools": {"wire": {}}}}).corpus
    assert notes(corpus) == ["no recorded run of refund comes by step send"]


def test_a_signal_that_was_sent_is_a_gate_that_was_come_by() -> None:
    """A history of Temporal says what was sent, not what is awaited; a query is never recorded."""
    kinds = {"approve": "signal", "remind": "update", "cancel": "signal", "status": "query", "*": "signal"}
    flow = {"workflowId": "refund", "gates": {name: {"kind": kind} for name, kind in kinds.items()}}
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {"input": 1}, timestamp=NOW)
    made.add("approve", {"kind": "signal", "name": "approve", "input": "ada"}, timestamp=NOW)
    made.add("remind", {"kind": "update", "name": "remind", "id": "u-1", "input": None}, timestamp=NOW)
    made.add("EXECUTION_COMPLETED", {}, timestamp=NOW)
    found = simulated([made.log(source="temporal")], refund=flow).corpus
    assert notes(found) == ["no recorded run of refund comes by gate cancel"]
