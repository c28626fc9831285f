"""LangSmith's run trees as logs: every way in which runs are written, graphs and chains, waits, and hostile files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import load_log, load_logs, simulate_deploy
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources.langsmith import source

ARGS = {"order": "A-17"}
TRACEBACK = "Traceback (most recent call last):\n  File x, line 1, in y\n"


def run(number: int, kind: str, name: str, *children: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A run that begins and ends in the second of its number."""
    found = {
        "id": f"00000000-0000-0000-0000-{number:012d}",
        "name": name,
        "run_type": kind,
        "start_time": f"2026-11-30T09:00:{number % 60:02d}.100000",
        "end_time": f"2026-11-30T09:00:{number % 60:02d}.200000",
        "trace_id": "00000000-0000-0000-0000-000000000001",
        "inputs": more.pop("inputs", {}),
        "outputs": more.pop("outputs", None),
        "error": more.pop("error", None),
        "extra": more.pop("extra", {}) | {"metadata": more.pop("metadata", {})},
    }
    return found | more | {"child_runs": list(children)}


def node(number: int, name: str, *children: dict[str, Any], inside: str = "", **more: Any) -> dict[str, Any]:
    """The run of a node of a graph."""
    place = {"langgraph_node": name, "langgraph_checkpoint_ns": f"{inside}{name}:{number}", "langgraph_step": number}
    return run(number, "chain", name, *children, metadata=place, **more)


def helper(number: int, name: str, around: dict[str, Any]) -> dict[str, Any]:
    """A function inside a node, whose metadata it inherits."""
    return run(number, "chain", name, metadata=around["extra"]["metadata"])


def ai(given: str = "c1", message_id: str = "m1", name: str = "lookup", **args: Any) -> dict[str, Any]:
    """A model's message that asks for a tool call."""
    calls = [{"name": name, "args": args or ARGS, "id": given, "type": "tool_call"}]
    return {"type": "ai", "content": "", "id": message_id, "tool_calls": calls}


def answer(given: str = "c1", content: str = "paid", **more: Any) -> dict[str, Any]:
    """The message that answers it."""
    return {"type": "tool", "content": content, "tool_call_id": given, "name": "lookup", "id": f"t-{given}"} | more


def flat(tree: dict[str, Any]) -> list[dict[str, Any]]:
    """Each run of a tree, children with their parent's id."""
    found = [{key: value for key, value in tree.items() if key != "child_runs"}]
    for child in tree["child_runs"]:
        found += flat(child | {"parent_run_id": tree["id"]})
    return found


def saved(folder: Path, what: Any, name: str = "runs.json") -> Path:
    """A file with what is given as JSON."""
    path = folder / name
    path.write_text(what if isinstance(what, str) else json.dumps(what))
    return path


def calls(log: Log) -> list[tuple[str, Any, str, Any]]:
    """The tool calls of a log."""
    return [(one.name, one.args, one.status, one.output) for one in log.state.calls if one.kind == "tool"]


def graph() -> dict[str, Any]:
    """A graph of an agent, its tools and a subgraph."""
    said = {"generations": [[{"message": {"lc": 1, "type": "constructor", "id": ["AIMessage"], "kwargs": ai()}}]]}
    usage = {"llm_output": {"token_usage": {"total_tokens": 7}}}
    model = run(3, "llm", "Fake", outputs=said | usage, metadata={"ls_model_name": "m-1"}, inputs={"messages": []})
    agent = node(2, "agent", model, outputs={"messages": [ai()]})
    agent["child_runs"] += [helper(4, "route", agent), helper(5, "agent", agent)]
    tool = run(7, "tool", "lookup", inputs={"input": str(ARGS)}, outputs={"output": answer()})
    tools = node(6, "tools", tool, outputs={"messages": [answer()]})
    inner = node(9, "weigh", inside="check:8|", outputs={"output": None})
    check = node(8, "check", inner, outputs={"grams": 3})
    state = {"messages": [ai(), answer()], "grams": 3}
    return run(1, "chain", "desk", agent, tools, check, inputs={"messages": []}, outputs=state)


SHAPES: dict[str, Any] = {
    "a tree": lambda tree: json.dumps(tree),
    "a list of trees": lambda tree: json.dumps([tree]),
    "a flat list": lambda tree: json.dumps(flat(tree)[::-1]),
    "one a line": lambda tree: "\n".join(map(json.dumps, flat(tree))),
    "an answer of the API": lambda tree: json.dumps({"runs": flat(tree), "cursors": {}}),
    "what clients send": lambda tree: json.dumps(
        {
            "post": [one | {"end_time": None, "outputs": None} for one in flat(tree)],
            "patch": [{key: one[key] for key in ("id", "end_time", "outputs")} for one in flat(tree)],
        }
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_tells_the_same_run(shape: str, tmp_path: Path) -> None:
    """Nodes are steps, those of a subgraph too, functions inside them none; each call is told once."""
    log = load_log(saved(tmp_path, SHAPES[shape](graph())))
    assert (log.execution_id[-1], log.workflow_id, log.engine, log.source) == ("1", "desk", "trace", "langsmith")
    assert [(frame.key, frame.status) for frame in log.state.frames.values()] == [
        ("agent", "completed"),
        ("tools", "completed"),
        ("check", "completed"),
        ("weigh", "completed"),
    ]
    assert (log.state.frames["check"].output, log.state.frames["weigh"].output) == ({"grams": 3}, {})
    assert calls(log) == [("lookup", ARGS, "completed", "paid")]
    (model,) = [one for one in log.state.calls if one.kind == "model"]
    assert (model.name, model.usage) == ("m-1", {"total_tokens": 7})
    assert log.state.variables["_output"]["grams"] == 3
    assert log.events[0].time_ms == 1796029201100
    assert log.notices == ()


def test_gzip(tmp_path: Path) -> None:
    """A compressed file is read too."""
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress(SHAPES["one a line"](graph()).encode()))
    assert len(load_log(path).state.frames) == 4


def test_chains_without_a_graph(tmp_path: Path) -> None:
    """Traced functions are steps with what they took and gave, retrievers too; parsers and prompts are not told."""
    function = {"name": "lookup", "arguments": json.dumps(ARGS)}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]}
    tree = run(
        1,
        "chain",
        "pipeline",
        run(2, "prompt", "ChatPromptTemplate"),
        run(3, "retriever", "orders", inputs={"query": "A-17"}, outputs={"documents": []}),
        run(4, "chain", "assess", run(5, "llm", "gpt", outputs={"choices": [{"message": message}]}), inputs={"x": 1}),
        run(6, "tool", "lookup", inputs=ARGS, outputs={"output": 7}),
        outputs={"output": "done"},
    )
    tree["child_runs"][2]["outputs"] = {"output": "fine"}
    log = load_log(saved(tmp_path, tree))
    frames = log.state.frames
    assert [(one.key, one.input, one.output) for one in frames.values()] == [
        ("orders", {"query": "A-17"}, {"documents": []}),
        ("assess", {"x": 1}, "fine"),
    ]
    assert calls(log) == [("lookup", ARGS, "completed", 7)]
    assert log.state.variables["_output"] == "done"


def test_a_thread_that_waited_is_one_log(tmp_path: Path) -> None:
    """Traces of a thread are one run: the question of the first, its answer in the second, its node one step."""
    shown = "GraphInterrupt((Interrupt(value={'question': 'sure?', 'cents': 4999}, id='q1'),))" + TRACEBACK
    asking = node(3, "approve", run(4, "llm", "Fake", outputs={"messages": [ai()]}), error=shown, outputs={})
    first = run(1, "chain", "Graph", node(2, "agent", outputs={"n": 1}), asking, metadata={"thread_id": "t1"})
    command: dict[str, Any] = {"graph": None, "update": None, "resume": "yes", "goto": []}
    second = run(20, "chain", "Graph", node(21, "approve", outputs={"output": command}), inputs={"input": command})
    second |= {"trace_id": second["id"], "extra": {"metadata": {"thread_id": "t1"}}, "outputs": {"n": 1}}
    waiting = load_log(saved(tmp_path, first, "one.json"))
    assert list(waiting.state.frames) == ["agent"]
    wait = waiting.state.suspension
    assert wait is not None
    assert (wait.on, wait.kind, wait.correlation_key) == ("InterruptAnswered", "question", "q1")
    assert wait.pending["question"] == {"question": "sure?", "cents": 4999}
    assert (wait.pending["step"], [one["name"] for one in wait.pending["calls"]]) == ("approve", ["lookup"])
    log = load_log(saved(tmp_path, [second, first]))
    assert (log.execution_id, log.state.status, list(log.state.frames)) == ("t1", "completed", ["agent", "approve"])
    assert log.state.frames["approve"].output == {}
    (answered,) = [event.payload for event in log.events if event.event_type == "InterruptAnswered"]
    assert answered == {"correlationKey": "q1", "answer": "yes"}
    assert len(log.state.manifest["aliases"]) == 2


@pytest.mark.parametrize(
    "shown",
    [
        "GraphInterrupt((Interrupt(value=<object at 0x1>, id='q1'),))",
        "GraphInterrupt((Interrupt(value=open('/etc/passwd').read(), id='q1'),))",
        "GraphInterrupt((Interrupt(value=" + "[" * 500 + ", id='q1'),))",
        "GraphInterrupt(" + "-" * 60_000 + "1)",
        "GraphInterrupt(" + "x" * 200_000,
        "GraphInterrupt((Interrupt(value={1: {2}}, id='q1'),))",
        "NodeInterrupt()",
    ],
)
def test_a_question_that_is_no_plain_data(shown: str, tmp_path: Path) -> None:
    """Whatever an interrupt shows, the run waits, nothing of it is run, and what is no plain data is left out."""
    log = load_log(saved(tmp_path, run(1, "chain", "Graph", node(2, "approve", error=shown + TRACEBACK))))
    assert log.state.suspension is not None
    assert log.state.suspension.pending["question"] is None
    assert log.state.suspension.correlation_key in ("q1", "00000000-0000-0000-0000-000000000002")


def test_an_interrupt_inside_a_subgraph_is_told_once(tmp_path: Path) -> None:
    """The node that asks is told, not those around it; what was done beside it stays done."""
    shown = "GraphInterrupt((Interrupt(value='sure?', id='q1'),))" + TRACEBACK
    done = node(3, "weigh", inside="check:2|", outputs={"n": 1})
    asks = node(4, "ask", inside="check:2|", error=shown)
    log = load_log(saved(tmp_path, run(1, "chain", "Graph", node(2, "check", done, asks, error=shown))))
    assert list(log.state.frames) == ["weigh"]
    assert [wait.pending["step"] for wait in log.state.suspensions] == ["ask"]


def test_errors(tmp_path: Path) -> None:
    """Nodes, tools and models that failed did so with the exception's own words; a Command to the parent did not."""
    boom = "ValueError('no order')" + TRACEBACK
    tree = run(
        1,
        "chain",
        "Graph",
        node(2, "agent", run(3, "llm", "Fake", error="plain words"), run(4, "tool", "lookup", error=boom), error=boom),
        node(5, "hand_over", error="ParentCommand(Command(goto='x'))" + TRACEBACK),
        error=boom,
    )
    state = load_log(saved(tmp_path, tree)).state
    error = {"type": "ValueError", "message": "'no order'"}
    assert (state.status, state.variables["_error"]) == ("failed", error)
    assert [one.error for one in state.calls] == [{"type": "Exception", "message": "plain words"}, error]
    assert [(one.key, one.status) for one in state.frames.values()] == [("agent", "failed"), ("hand_over", "completed")]


def test_echoes_and_repeats(tmp_path: Path) -> None:
    """A message that is passed on, or came with the input, asks for nothing new; an id used again does."""
    old = ai("c0", "m0")
    tree = run(
        1,
        "chain",
        "Graph",
        node(2, "agent", outputs={"messages": [old, ai("c1", "m1")]}),
        node(3, "copy", outputs={"messages": [ai("c1", "m1"), answer("c1")]}),
        node(4, "agent", outputs={"messages": [ai("c1", "m2"), ai("c1", "m3", order="B-2")]}),
        node(5, "tools", outputs={"messages": [answer("c1", "it broke", status="error")]}),
        inputs={"messages": [old]},
    )
    log = load_log(saved(tmp_path, tree))
    assert [(one.call_id, one.args, one.status) for one in log.state.calls] == [
        ("c1", ARGS, "completed"),
        ("c1#2", ARGS, "requested"),
        ("c1#3", {"order": "B-2"}, "failed"),
    ]


def test_a_run_that_did_not_end(tmp_path: Path) -> None:
    """Without an end, the run and its step are still running."""
    tree = run(1, "chain", "Graph", node(2, "agent"))
    tree["end_time"] = tree["child_runs"][0]["end_time"] = None
    state = load_log(saved(tmp_path, tree)).state
    assert (state.status, state.frames["agent"].status) == ("running", "running")


def test_contents_that_were_hidden(tmp_path: Path) -> None:
    """Where inputs and outputs were hidden, what is known is told, and the rest is said to be missing."""
    tree = run(1, "chain", "Graph", run(2, "llm", "Fake"), run(3, "tool", "lookup", inputs=None))
    log = load_log(saved(tmp_path, tree))
    assert calls(log) == [("lookup", None, "completed", None)]
    assert "1 of 1 model calls without messages, 1 of 1 tool calls without arguments" in log.notices[0]


def test_several_traces_in_one_file(tmp_path: Path) -> None:
    """Runs of traces that interleave come apart; a run whose parent was not kept is a trace of its own."""
    one, other = run(1, "chain", "one", run(2, "tool", "lookup")), run(11, "chain", "other", run(12, "tool", "pay"))
    other |= {"trace_id": other["id"]}
    runs = [*flat(one), *flat(other)]
    lone = run(30, "tool", "lone", parent_run_id="gone", trace_id=None)
    lines = "\n".join(json.dumps(entry) for entry in [runs[3], runs[0], lone, runs[1], runs[2]])
    logs = list(load_logs(saved(tmp_path, lines, "runs.jsonl")))
    assert sorted((log.workflow_id, [name for name, *_ in calls(log)]) for log in logs) == [
        ("lone", ["lone"]),
        ("one", ["lookup"]),
        ("other", ["pay"]),
    ]


BASE = run(1, "chain", "Graph")


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ([BASE | {"parent_run_id": BASE["id"]}], "its own ancestor"),
        ([BASE | {"parent_run_id": "b"}, BASE | {"id": "b", "parent_run_id": BASE["id"]}], "its own ancestor"),
        ([BASE, BASE | {"name": "other"}], "two different runs"),
        ([BASE | {"id": None}], "no id"),
        ([BASE | {"id": 7}], "no text"),
        ([BASE | {"start_time": None}], "no start_time"),
        ([BASE | {"start_time": "yesterday"}], "no time"),
        ([BASE | {"end_time": 1e300}], "no time"),
        ([BASE | {"extra": 3}], "extra"),
        ([BASE | {"extra": {"metadata": []}}], "metadata"),
        ([BASE | {"child_runs": {}}], "child_runs"),
        ([BASE, 7], "the export"),
    ],
)
def test_what_is_no_tree_is_refused(document: Any, what: str, tmp_path: Path) -> None:
    """A run that has not its shape, or cannot be where it says, is a LogError that names the file."""
    path = saved(tmp_path, document)
    with pytest.raises(LogError, match=what) as caught:
        load_log(path)
    assert caught.value.path == str(path)


def test_a_torn_line_is_named(tmp_path: Path) -> None:
    """A cut last line is an error that names it."""
    path = saved(tmp_path, SHAPES["one a line"](graph())[:-20], "runs.jsonl")
    with pytest.raises(LogError, match="line 9"):
        load_log(path)


def test_deep_and_long_trees_end(tmp_path: Path) -> None:
    """Thousands of runs inside each other, or beside each other, are read as they are."""
    deep = [
        run(number, "chain", "x") | {"parent_run_id": f"00000000-0000-0000-0000-{number - 1:012d}"}
        for number in range(1, 3000)
    ]
    path = saved(tmp_path, deep)
    assert len(load_log(path).state.frames) == 2998


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_a_log_or_a_log_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever stands in any place of a tree: logs that fold, or LogErrors, and nothing else."""
    document = json.loads(json.dumps(graph()))
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        one = waiting.pop()
        for key, inner in one.items() if isinstance(one, dict) else enumerate(one):
            places.append((one, key))
            waiting += [inner] if isinstance(inner, dict | list) else []
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(JSON)
    path = tmp_path_factory.getbasetemp() / "damaged-runs.json"
    path.write_text(json.dumps(document))
    for item in source.read(path):
        assert isinstance(item, Log | LogError)
        assert not isinstance(item, Log) or item.state.status


def test_nothing_is_judged_for_a_deploy(tmp_path: Path) -> None:
    """A trace is no run that waits for a deploy: nothing is found in it."""
    assert simulate_deploy(str(saved(tmp_path, graph())), {}, scope="all").findings == []


def test_the_corpus(cases: Path) -> None:
    """Every tree of the corpus is read; steps, waits and tool calls are as many as a walk of the raw file counts."""
    files = sorted((cases / "corpus" / "langsmith").glob("*.json*"))
    assert files
    for path in files:
        raw = json.loads(path.read_bytes())
        runs = flat(raw)
        nodes = [one for one in runs if one["extra"].get("metadata", {}).get("langgraph_node") == one["name"]]
        asked = {
            call["id"]
            for one in nodes
            for message in (one["outputs"] or {}).get("messages", [])
            for call in message.get("tool_calls") or []
        }
        stopped = [one["name"] for one in nodes if (one["error"] or "").startswith("GraphInterrupt")]
        log = load_log(path)
        assert [frame.step_id for frame in log.state.frames.values()] == [
            one["name"] for one in nodes if one["name"] not in stopped
        ], path.name
        assert {one.call_id for one in log.state.calls if one.kind == "tool"} == asked, path.name
        assert [wait.pending["step"] for wait in log.state.suspensions] == stopped, path.name
        assert all(wait.pending["question"]["tool"] == "refund" for wait in log.state.suspensions)
