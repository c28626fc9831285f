# ruff: noqa: E501
"""A saved thread replayed on today's graph: recorded answers, no model, no tool, nothing live."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytest_loom import areplay, diff_runs, load_log, replay
from pytest_loom.errors import LiveCallError, ReplayDivergence, Unsupported
from pytest_loom.log.event import Log
from tests.engines.langgraph.changes import APPS, CHANGES, HEAD
from tests.engines.langgraph.conftest import Bench, needs_langgraph

pytestmark = [needs_langgraph, pytest.mark.filterwarnings("ignore")]  # what libraries warn of is their business

LINE = (
    HEAD
    + """
import socket
class S(TypedDict, total=False):
    city: str
    log: Annotated[list[str], operator.add]
def look(s): return {"log": ["looked at " + s["city"]]}
def ask(s):
    name = interrupt({"field": "name"})
    age = interrupt({"field": "age"})
    return {"log": [f"{name} {age}"]}
def keep(s): return {"log": ["kept"]}
g = StateGraph(S)
for node in (look, ask, keep): g.add_node(node.__name__, node)
g.add_edge(START, "look"); g.add_edge("look", "ask"); g.add_edge("ask", "keep"); g.add_edge("keep", END)
flows = {"line": g.compile()}
"""
)

AGENT = (
    HEAD
    + '''
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
DONE = []
class S(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
@tool
def weigh(item: str) -> str:
    """w"""
    DONE.append(item); return item + " weighs 3 kg"
class M(BaseChatModel):
    @property
    def _llm_type(self): return "m"
    def _generate(self, messages, stop=None, run_manager=None, **k):
        DONE.append("model")
        found = [m for m in messages if isinstance(m, ToolMessage)]
        r = AIMessage(content=found[-1].content) if found and messages[-1] is found[-1] else AIMessage(content="", tool_calls=[{"name": "weigh", "args": {"item": w}, "id": f"{w}{len(messages)}"} for w in ("pear", "fig")])
        return ChatResult(generations=[ChatGeneration(message=r)])
def agent(s): return {"messages": [M().invoke(s["messages"])]}
def further(s): return "tools" if s["messages"][-1].tool_calls else END
g = StateGraph(S)
g.add_node("agent", agent); g.add_node("tools", ToolNode([weigh]))
g.add_edge(START, "agent"); g.add_conditional_edges("agent", further, ["tools", END]); g.add_edge("tools", "agent")
flows = {"agent": g.compile()}
'''
)
HELLO = {"messages": [("user", "weigh")]}


def done() -> list[str]:
    """What models and tools of the application did since it was loaded."""
    import sys

    return list(sys.modules["loom_app"].DONE)


def run(bench: Bench, text: str, given: Any, answers: list[Any] | None = None) -> Log:
    """A recorded thread."""
    return load_log(bench.store(text, given, answers=answers))


def today(bench: Bench, text: str, *changes: tuple[str, str]) -> Any:
    """Today's graph."""
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return next(iter(bench.flows(text).values()))


@pytest.mark.parametrize("answers", [[], ["Ada"], ["Ada", 36], ["yes", "yes"]])
def test_the_same_graph_does_the_same(bench: Bench, answers: list[Any]) -> None:
    """A thread that waits, was answered once, or ran to its end is equal to its replay on the graph that wrote it."""
    log = run(bench, LINE, {"city": "Rom"}, answers)
    candidate = replay(log, today(bench, LINE))
    assert diff_runs(log, candidate, compare="all") == []
    assert candidate.state.status == log.state.status == ("completed" if len(answers) == 2 else "suspended")


def test_what_was_answered_last_is_told_last(bench: Bench) -> None:
    """Of a node that asked twice the log has both answers, and the second as the answer to the second question."""
    log = run(bench, LINE, {"city": "Rom"}, ["Ada", 36])
    told = [event.payload for event in log.events if event.event_type == "InterruptAnswered"]
    assert [(one["earlier"], one["answer"]) for one in told] == [(["Ada"], 36)]


def test_a_changed_node_shows(bench: Bench) -> None:
    """A node is today's code: what it writes otherwise is a difference."""
    log = run(bench, LINE, {"city": "Rom"}, ["Ada"])
    found = diff_runs(log, replay(log, today(bench, LINE, ("looked at", "seen"))))
    assert any("seen Rom" in str(one) for one in found)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('g.add_edge("look", "ask")', 'g.add_node("new", keep); g.add_edge("look", "new"); g.add_edge("new", "ask")', "runs new"),
        ('g.add_edge("look", "ask")', 'g.add_edge("look", "keep")', "runs keep|does not ask"),
        ('g.add_edge("keep", END)', 'g.add_edge("keep", "look")', "runs look"),
        ('g.add_edge("ask", "keep")', 'g.add_edge("ask", END)', "does not run keep"),
        ('    age = interrupt({"field": "age"})', "    age = 1", "does not ask .*age"),
        ("    return {\"log\": [f\"{name}", "    interrupt({\"field\": \"town\"})\n    return {\"log\": [f\"{name}", "asks .*town.* in ask"),
        ('s["city"]', 's["town"]', "stops: KeyError"),
    ],
)  # fmt: skip
def test_a_changed_way_diverges(bench: Bench, before: str, after: str, says: str) -> None:
    """A node that is new, gone or runs again, and a question that was not asked, or not answered, are divergences."""
    log = run(bench, LINE, {"city": "Rom"}, ["Ada", 36])
    with pytest.raises(ReplayDivergence, match=says):
        replay(log, today(bench, LINE, (before, after)))


def test_a_live_call_is_refused(bench: Bench) -> None:
    """A node that reaches for the network gets nowhere, also where it swallows that."""
    log = run(bench, LINE, {"city": "Rom"})
    live = "try: socket.create_connection(('127.0.0.1', 9))\n    except Exception: pass\n    return {"
    with pytest.raises(LiveCallError):
        replay(log, today(bench, LINE, ('def look(s): return {"log', f'def look(s):\n    {live}"log')))


def test_models_and_tools_answer_from_the_record(bench: Bench) -> None:
    """An agent's loop gives the same messages, and neither its model nor its tool runs; the graph stays as it is."""
    log = run(bench, AGENT, HELLO)
    graph = today(bench, AGENT)
    nodes, bound = dict(graph.nodes), graph.nodes["agent"].bound
    assert diff_runs(log, replay(log, graph), compare="all") == []
    assert done() == []
    assert graph.nodes == nodes
    assert graph.nodes["agent"].bound is bound
    assert graph.checkpointer is None
    changed = replay(log, today(bench, AGENT, ("weighs 3", "weighs 4"), ("content=found", "content='?'+found")))
    assert diff_runs(log, changed, compare="all") == []  # as recorded, whatever they would say today


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def agent(s): return", "async def agent(s): return"),
        ("M().invoke(", "list(M().stream("),
        ("def weigh", "async def weigh"),
    ],
)
def test_async_and_streams(bench: Bench, before: str, after: str) -> None:
    """Nodes and tools that are async, and models that are streamed, are answered the same way, also in async code."""
    log = run(bench, AGENT, HELLO)
    changes = [(before, after)]
    if "async def agent" in after:
        changes.append(("M().invoke(", "await M().ainvoke("))
    if "stream" in after:
        changes = [('M().invoke(s["messages"])', 'list(M().stream(s["messages"]))[0]')]
    graph = today(bench, AGENT, *changes)
    assert diff_runs(log, replay(log, graph), compare="all") == []
    assert diff_runs(log, asyncio.run(areplay(log, graph)), compare="all") == []
    assert done() == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([("def agent(s): return", 'def agent(s):\n    M().invoke(s["messages"])\n    return')], "asks a model in agent"),
        ([("def further(s): return", 'def further(s):\n    M().invoke(s["messages"])\n    return')], "chooses the next"),
        ([('M().invoke(s["messages"])', 'AIMessage(content="no", tool_calls=[])')], "does not ask the model in agent"),
        ([("def weigh", "def heft"), ("ToolNode([weigh])", "ToolNode([heft])")], "does not call weigh in tools"),
        ([("def agent(s): return", 'def agent(s):\n    weigh.invoke({"name": "weigh", "args": {"item": "x"}, "id": "x1", "type": "tool_call"})\n    return')], "calls weigh, which"),
    ],
)  # fmt: skip
def test_changed_calls_diverge(bench: Bench, changes: list[tuple[str, str]], says: str) -> None:
    """Calls of models and tools that were not recorded, and recorded ones that are left over, are divergences."""
    log = run(bench, AGENT, HELLO)
    with pytest.raises(ReplayDivergence, match=says):
        replay(log, today(bench, AGENT, *changes))
    assert done() == []


def test_an_answer_before_a_wait_is_not_in_the_record(bench: Bench) -> None:
    """Of a node that asked its model and then a person, nothing was kept: that is said, and the model does not run."""
    asks = AGENT.replace(
        "def agent(s): return {", 'def agent(s):\n    m = M().invoke(s["messages"]); interrupt("ok?"); return {'
    )
    asks = asks.replace('[M().invoke(s["messages"])]', "[m]")
    open_one = run(bench, asks, HELLO)
    with pytest.raises(ReplayDivergence, match="not in the record"):
        replay(open_one, today(bench, asks))
    answered = run(bench, asks, HELLO, ["yes", "yes"])
    assert diff_runs(answered, replay(answered, today(bench, asks)), compare="all") == []
    assert done() == []


def saved(graph: Any, *calls: Any) -> Log:
    """The log of a thread to which these inputs were given; where one is a function, of the ids of open questions."""
    from pytest_loom.sources.langgraph.mapping import to_log
    from pytest_loom.sources.langgraph.saver import KeepingSaver
    from pytest_loom.sources.langgraph.thread import read_thread

    config: Any = {"configurable": {"thread_id": "t1"}}
    graph.checkpointer = saver = KeepingSaver()
    for given in calls:
        tasks = graph.get_state(config).tasks if callable(given) else ()
        graph.invoke(given([one for task in tasks for one in task.interrupts]) if callable(given) else given, config)
    log = to_log(read_thread("t1", *saver.rows()))
    assert isinstance(log, Log)
    return log


def test_several_turns(bench: Bench) -> None:
    """A conversation is replayed input by input."""
    log = saved(today(bench, AGENT), HELLO, HELLO, HELLO)
    assert diff_runs(log, replay(log, today(bench, AGENT)), compare="all") == []
    assert done() == []


@pytest.mark.parametrize("app", ["fan_out", "fan_in_2"])
@pytest.mark.parametrize("count", [1, 2])
def test_questions_beside_each_other(bench: Bench, app: str, count: int) -> None:
    """Of questions that are open at once each gets its own answer, and those without one stay open."""
    from langgraph.types import Command

    text = HEAD + APPS[app]
    given = next(one for one in CHANGES if one.app == app).input

    def answers(questions: list[Any]) -> Any:
        return Command(resume={one.id: f"answer {at}" for at, one in enumerate(questions[-count:])})

    log = saved(today(bench, text), given, answers)
    assert log.state.status == ("completed" if count == 2 else "suspended")
    assert diff_runs(log, replay(log, today(bench, text)), compare="all") == []


def test_an_input_in_place_of_an_answer(bench: Bench) -> None:
    """Which node asked in vain is not in the log: such a thread is refused."""
    log = saved(today(bench, LINE), {"city": "Rom"}, {"city": "Ulm"})
    with pytest.raises(Unsupported, match="in place of the answer"):
        replay(log, today(bench, LINE))


def test_a_changed_state_is_refused(bench: Bench) -> None:
    """What ``update_state`` did is nobody's code."""
    graph = today(bench, LINE)
    saved(graph, {"city": "Rom"})
    graph.update_state({"configurable": {"thread_id": "t1"}}, {"city": "Ulm"})
    from pytest_loom.sources.langgraph.mapping import to_log
    from pytest_loom.sources.langgraph.thread import read_thread

    log = to_log(read_thread("t1", *graph.checkpointer.rows()))
    assert isinstance(log, Log)
    with pytest.raises(Unsupported, match="update_state"):
        replay(log, today(bench, LINE))


def test_tools_that_give_more_than_a_message(bench: Bench) -> None:
    """A tool's command is not in the record as such: refused, and the tool does not run."""
    changes = [
        ("(item: str) -> str", "(item: str, runtime: ToolRuntime)"),
        ('return item + " weighs 3 kg"', 'return Command(update={"note": ["x"], "messages": [ToolMessage(item, tool_call_id=runtime.tool_call_id)]})'),
        ("import ToolNode", "import ToolNode, ToolRuntime"),
        ("class S(TypedDict):", "class S(TypedDict):\n    note: Annotated[list[str], operator.add]"),
    ]  # fmt: skip
    log = saved(today(bench, AGENT, *changes), HELLO)
    assert "pear" in done()
    with pytest.raises(Unsupported, match="tools in tools wrote note"):
        replay(log, today(bench, AGENT, *changes))
    assert done() == []


@pytest.mark.parametrize(
    ("app", "answers"),
    [
        ("agent", [{"decisions": [{"type": "approve"}, {"type": "approve"}]}]),
        ("agent", []),
        ("fan_out", []),
        ("fan_in", ["yes"]),
        ("subgraph", ["fine"]),
        ("asking_tool", ["yes"]),
        ("classes", []),
    ],
)
def test_applications(bench: Bench, app: str, answers: list[Any]) -> None:
    """Agents of langchain, sends, joins, finished subgraphs, tools that ask, and values of classes replay as they ran."""
    change = next(one for one in CHANGES if one.app == app)
    log = run(bench, HEAD + APPS[app], change.input, [*(change.answers or []), *answers])
    assert diff_runs(log, replay(log, today(bench, HEAD + APPS[app])), compare="all") == []


@pytest.mark.parametrize(
    ("app", "says"), [("subgraph", "subgraph"), ("functional", "functional API"), ("breakpoint", "breakpoint")]
)
def test_what_cannot_be_replayed_is_said(bench: Bench, app: str, says: str) -> None:
    """A thread of which the store does not hold enough is refused with the reason."""
    change = next(one for one in CHANGES if one.app == app)
    log = run(bench, HEAD + APPS[app], change.input, change.answers)
    with pytest.raises(Unsupported, match=says):
        replay(log, today(bench, HEAD + APPS[app]))


def test_going_on_after_a_divergence_is_refused(bench: Bench) -> None:
    """As for other engines' runs."""
    with pytest.raises(Unsupported):
        replay(run(bench, LINE, {"city": "Rom"}), today(bench, LINE), on_divergence="record")
