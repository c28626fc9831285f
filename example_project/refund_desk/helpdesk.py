"""An agent that answers customers: a loop around a model and three tools. It knows nothing of pytest-loom.

No network here: ``complete`` stands in for the HTTP call to a paid model, with a few rules in its place, and the tools
for the shop's systems. The test replays the agent with none of them called, as it would with real ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from refund_desk.shop import ORDERS

PROMPT = "You answer the customers of a web shop. Use the tools. Refund what arrived broken or in the wrong size."
MAX_TURNS = 5


def complete(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Ask the model for its next move: ``{"tool", "arguments"}`` or ``{"text"}``. In real life an HTTP call."""
    order = re.search(r"\d{4}", messages[1]["content"])
    if order is None:
        return {"text": "Which order is it about?"}
    said = [json.loads(message["content"]) for message in messages if message["role"] == "tool"]
    if not said:
        return {"tool": "find_order", "arguments": {"order": order[0]}}
    if said[0] is None:
        return {"text": f"There is no order {order[0]}."}
    if said[0]["claim"] in ("arrived broken", "wrong size"):
        if len(said) == 1:
            return {"tool": "refund", "arguments": {"order": order[0], "cents": said[0]["cents"]}}
        return {"text": f"I am sorry. You get {said[0]['cents'] / 100:.2f} EUR back ({said[1]})."}
    if len(said) == 1:
        return {"tool": "hand_over", "arguments": {"order": order[0], "why": said[0]["claim"]}}
    return {"text": f"A colleague will look into it: {said[1]}."}


def find_order(order: str) -> dict[str, Any] | None:
    """Look an order up. In real life a query to the shop's database."""
    return ORDERS.get(order)


def refund(order: str, cents: int) -> str:
    """Start a refund; gives its number. In real life money moves."""
    return f"refund-{order}"


def hand_over(order: str, why: str) -> str:
    """Give the case to a human; gives the ticket's number."""
    return f"ticket-{order}"


TOOLS: dict[str, Callable[..., Any]] = {"find_order": find_order, "refund": refund, "hand_over": hand_over}


def answer(question: str) -> str:
    """What the customer reads, after as many turns as the model needs."""
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    for _ in range(MAX_TURNS):
        said = complete(messages)
        if "text" in said:
            return str(said["text"])
        result = TOOLS[said["tool"]](**said["arguments"])
        messages.append({"role": "assistant", "content": json.dumps(said)})
        messages.append({"role": "tool", "content": json.dumps(result)})
    raise RuntimeError(f"no answer after {MAX_TURNS} turns")
