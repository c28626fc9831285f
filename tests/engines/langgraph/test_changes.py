"""Changes of LangGraph applications while a run waits: what a deploy simulation finds, through the real library."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pytest_loom import simulate_deploy
from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import contract_as
from pytest_loom.sources import load_logs
from tests.engines.langgraph.changes import APPS, CHANGES, HEAD, Change
from tests.engines.langgraph.conftest import Bench, needs_langgraph

pytestmark = [needs_langgraph, pytest.mark.filterwarnings("ignore")]  # what libraries warn of is their business


def _versions(change: Change) -> tuple[str, str]:
    old = new = HEAD + APPS[change.app]
    for before, after in change.replace:
        assert before in new
        new = new.replace(before, after)
    return old, new


def _store(bench: Bench, change: Change) -> Path:
    old, _ = _versions(change)
    return bench.store(old, change.input, answers=change.answers, env=change.env)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_change_gives_the_findings_that_it_deserves(
    change: Change, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each harmful change is found by name, each harmless one is silent; no effect runs, the store stays as it is."""
    effects = tmp_path / "effects.log"
    old, new = _versions(change)
    store = _store(bench, change)
    monkeypatch.setenv("EFFECTS_LOG", str(effects))
    name, graph = next(iter(bench.flows(old).items()))
    yesterday = contract_as(graph, name)
    flows = bench.flows(new)
    yesterday = yesterday.model_copy(update={"workflow_id": next(iter(flows))})
    before = hashlib.sha256(store.read_bytes()).hexdigest()
    report = simulate_deploy(load_logs(store), flows, contract=yesterday)
    assert sorted({found.code for found in report.findings if found.severity == "breaking"}) == change.codes
    assert report.in_flight == 1
    assert not effects.exists()
    assert hashlib.sha256(store.read_bytes()).hexdigest() == before
    assert sorted(path.name for path in store.parent.glob(f"{store.name}*")) == [store.name]


@pytest.mark.parametrize("app", sorted({change.app for change in CHANGES}))
def test_an_application_that_did_not_change_finds_its_own_runs_fine(app: str, bench: Bench) -> None:
    """The version that wrote a run has nothing against it: no breaking finding, no warning about its question."""
    change = next(change for change in CHANGES if change.app == app)
    old, _ = _versions(change)
    report = simulate_deploy(load_logs(_store(bench, change)), bench.flows(old))
    ignored = {"suspended-carryover"} | ({"gate-changed"} if "datetime" in old else set())
    assert [found for found in report.findings if found.code not in ignored] == []


@pytest.mark.parametrize("app", sorted({change.app for change in CHANGES}))
def test_the_log_stands_where_the_library_says_that_the_thread_stands(app: str, bench: Bench) -> None:
    """Pending nodes and open questions of the log are those of LangGraph's own get_state."""
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    change = next(change for change in CHANGES if change.app == app)
    store = _store(bench, change)
    graph = next(iter(bench.flows(_versions(change)[0]).values()))
    connection = sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    graph.checkpointer = SqliteSaver(connection)
    graph.checkpointer.is_setup = True
    snapshot = graph.get_state({"configurable": {"thread_id": "t1"}})
    connection.close()
    (log,) = load_logs(store)
    facts = log.events[-1].payload
    pending = [item for item in facts["pending"] if not item["namespace"] and item["status"] != "finished"]
    open_nodes = [item["node"] for item in pending]
    assert sorted(open_nodes) == sorted(snapshot.next)
    asked = [item["id"] for item in facts["interrupts"] if not item["answered"] and not item["namespace"]]
    assert sorted(asked) == sorted(item.id for task in snapshot.tasks for item in task.interrupts)
    state = snapshot.values if isinstance(snapshot.values, dict) else {}
    assert log.state.state.keys() <= state.keys()  # which adds empty lists, and what finished siblings wrote
    assert log.state.status == "suspended"


def test_a_contract_does_not_move_when_code_only_moves(bench: Bench) -> None:
    """The order of definition, the module and names of functions do not count; where a node leads does."""
    from pytest_loom.contract.fingerprint import fingerprint

    text = HEAD + APPS["chain"]
    moved = text.replace('g.add_edge("a","b"); g.add_edge("b","c")', 'g.add_edge("b","c"); g.add_edge("a","b")')
    moved = moved.replace("def a(s)", "def first(s)").replace('g.add_node("a",a)', 'g.add_node("a",first)')
    led = text.replace('g.add_edge("b","c")', 'g.add_edge("b","c"); g.add_edge("a","c")')
    prints = [fingerprint(contract_as(bench.flows(one)["chain"], "chain")) for one in (text, moved, led)]
    assert prints[0] == prints[1] != prints[2]


def test_the_parts_of_a_contract_are_read_off_the_graph(bench: Bench) -> None:
    """Nodes with where they lead and whether they ask, subgraphs by path, joins, reducers, tools with approval."""
    graph = contract_as(bench.flows(HEAD + APPS["fan_in"])["par"], "par")
    assert isinstance(graph, Contract)
    assert graph.engine == "checkpoint"
    assert graph.joins == {"join:a+b:join": ("a", "b")}
    assert graph.reducers == {"log": "_operator.add"}
    steps = graph.steps or {}
    assert (steps["b"].asks, steps["a"].asks, steps["b"].next) == (True, False, ("join",))
    inner = contract_as(bench.flows(HEAD + APPS["subgraph"])["sub"], "sub").steps or {}
    assert inner["writer/review"].asks is True
    assert inner["writer/__start__"].next == ("write",)
    agent = contract_as(bench.flows(HEAD + APPS["agent"])["lc"], "lc").tools or {}
    assert {name: tool.approval for name, tool in agent.items()} == {"refund": True, "email": True}
    assert "amount_cents" in agent["refund"].schema_["properties"]  # type: ignore[index]


def test_runs_that_name_no_flow_are_judged_by_the_flow_that_they_fit(bench: Bench) -> None:
    """With several flows it is the one that has the run's steps; where none has, that is said."""
    change = next(change for change in CHANGES if change.app == "chain")
    flows = bench.flows(HEAD + APPS["chain"]) | bench.flows(HEAD + APPS["routes"])
    report = simulate_deploy(load_logs(_store(bench, change)), flows)
    assert {(found.code, found.workflow_id) for found in report.findings} == {("suspended-carryover", "chain")}
    others = bench.flows(HEAD + APPS["routes"]) | bench.flows(HEAD + APPS["functional"])
    report = simulate_deploy(load_logs(_store(bench, change)), others)
    assert ("flow-ambiguous", "warning") in [(found.code, found.severity) for found in report.findings]


def test_a_node_that_never_ends_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shadow resume that hangs is killed, and the next run is asked in a new process."""
    from pytest_loom.deploy import shadow

    change = next(change for change in CHANGES if change.app == "chain")
    endless = HEAD + APPS["chain"].replace("def b(s):", "def b(s):\n    while True: pass")
    flows = bench.flows(endless)
    monkeypatch.setattr(shadow, "SECONDS", 1.0)
    monkeypatch.setattr(shadow.shadow_of, "__kwdefaults__", {"seconds": 1.0, "target": None})
    for _ in range(2):
        report = simulate_deploy(load_logs(_store(bench, change)), flows)
        assert {found.code for found in report.findings} == {"suspended-carryover"}


def test_a_shadow_has_no_secrets_and_no_way_out(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shadow resume the environment is empty, and neither files nor sockets nor programs can be had."""
    change = next(change for change in CHANGES if change.app == "chain")
    leak = tmp_path / "leak"
    tries = (
        "def b(s):\n"
        "    import socket, subprocess, threading\n"
        f"    def run():\n        open({str(leak)!r}, 'w').write('x')\n"
        "    t = threading.Thread(target=run); t.start(); t.join()\n"
        f"    for deed in (lambda: os.mkdir({str(leak) + '.d'!r}), lambda: subprocess.run(['touch', {str(leak)!r}]),\n"
        "                 lambda: socket.create_connection(('127.0.0.1', 9)), lambda: open('x', 'w')):\n"
        "        try: deed()\n"
        "        except Exception: pass\n"
    )
    monkeypatch.setenv("LOOM_SECRET", "s3cret")
    text = HEAD + APPS["chain"].replace("def b(s):\n", tries).replace(
        '{"ask":"b?"}', '{"ask":os.environ.get("LOOM_SECRET")}'
    )
    simulate_deploy(load_logs(_store(bench, change)), bench.flows(text))
    assert not list(tmp_path.iterdir())
