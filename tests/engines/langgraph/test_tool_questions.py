"""Questions that tools ask inside a tool node: matched by position, in the tool that asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_loom import simulate_deploy
from tests.engines.langgraph.conftest import Bench, needs_langgraph

pytestmark = [needs_langgraph, pytest.mark.filterwarnings("ignore")]

APP = '''
from typing import Annotated, TypedDict
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

class State(TypedDict):
    messages: Annotated[list, add_messages]

@tool
def ask_expert(query: str) -> str:
    """Ask a person who knows."""
    said = interrupt({"query": query})
    return said["data"]

@tool
def book(hotel: str) -> str:
    """Book a room."""
    said = interrupt(f"Book {hotel}?")
    return said

def chatbot(state: State):
    if isinstance(state["messages"][-1], ToolMessage):
        return {"messages": [AIMessage("done")]}
    call = {"name": "ask_expert", "args": {"query": "which one?"}, "id": "c1"}
    return {"messages": [AIMessage("", tool_calls=[call])]}

builder = StateGraph(State)
builder.add_node("chatbot", chatbot)
builder.add_node("tools", ToolNode([ask_expert, book]))
builder.add_conditional_edges("chatbot", tools_condition)
builder.add_edge("tools", "chatbot")
builder.add_edge(START, "chatbot")
flows = {"help": builder.compile()}
'''
CHANGES = {
    "as it was": ("", "", None),
    "other words for nobody": ("Ask a person who knows.", "Ask somebody.", None),
    "one more question in another tool": ('said = interrupt(f"B', 'interrupt("sure?"); said = interrupt(f"B', None),
    "a question before it": ("said = interrupt({", 'interrupt("sure?"); said = interrupt({', "answer-misrouted"),
    "a question after it": ('return said["data"]', 'interrupt("sure?"); return said["data"]', None),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_question_that_moved_inside_a_tool(tmp_path: Path, change: str) -> None:
    """A question that comes before the open one gets its answer; elsewhere it is none of its business."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    bench = Bench(tmp_path)
    store = tmp_path / "threads.sqlite"
    graph: Any = bench.flows(APP)["help"]
    with SqliteSaver.from_conn_string(str(store)) as saver:
        kept = graph.builder.compile(checkpointer=saver)
        kept.invoke({"messages": [("user", "help")]}, {"configurable": {"thread_id": "help-1"}})
    was, now, code = CHANGES[change]
    report = simulate_deploy(store, bench.flows(APP.replace(was, now) if was else APP))
    found = [one.code for one in report.findings if one.severity == "breaking"]
    assert found == ([code] if code else [])
