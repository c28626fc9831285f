"""Today's graph. Since last week: a finished node has another name, and a letter is written after the payment."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    """What a thread keeps."""

    order: str
    cents: int
    approved: bool
    notes: Annotated[list[str], operator.add]
    letter: str


def look_at_parcel(state: State) -> State:
    """Look at the parcel."""
    return {"cents": 4999, "notes": ["the box is torn"]}


def decide(state: State) -> State:
    """Ask a person."""
    return {"approved": interrupt({"refund": state["order"], "cents": state["cents"]})}


def pay(state: State) -> State:
    """Give the money back, or not."""
    return {"notes": [f"{state['cents']} cents are on their way" if state["approved"] else "declined"]}


def write_letter(state: State) -> State:
    """Tell the customer."""
    return {"letter": "; ".join(state["notes"])}


def graph_with(decide: Any, *, name: str = "decide") -> Any:
    """The graph whose node ``name`` is this function."""
    builder = StateGraph(State)
    builder.add_node(look_at_parcel)
    builder.add_node(name, decide)
    builder.add_node(pay)
    builder.add_node(write_letter)
    builder.add_edge(START, "look_at_parcel")
    builder.add_edge("look_at_parcel", name)
    builder.add_edge(name, "pay")
    builder.add_edge("pay", "write_letter")
    builder.add_edge("write_letter", END)
    return builder.compile()


graph = graph_with(decide)
