"""Last week's graph: a parcel is looked at, a person decides, the money goes back."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    """What a thread keeps."""

    order: str
    cents: int
    approved: bool
    notes: Annotated[list[str], operator.add]


def inspect(state: State) -> State:
    """Look at the parcel."""
    return {"cents": 4999, "notes": ["the box is torn"]}


def decide(state: State) -> State:
    """Ask a person."""
    return {"approved": interrupt({"refund": state["order"], "cents": state["cents"]})}


def pay(state: State) -> State:
    """Give the money back, or not."""
    return {"notes": [f"{state['cents']} cents are on their way" if state["approved"] else "declined"]}


builder = StateGraph(State)
builder.add_node(inspect)
builder.add_node(decide)
builder.add_node(pay)
builder.add_edge(START, "inspect")
builder.add_edge("inspect", "decide")
builder.add_edge("decide", "pay")
builder.add_edge("pay", END)
