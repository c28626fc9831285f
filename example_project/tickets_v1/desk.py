"""Last week's desk: the front hands a ticket over, and each refund waits for a person."""

from __future__ import annotations

from agents import Agent, function_tool


@function_tool(needs_approval=True)
def refund(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"{cents} cents for {order} are on their way"


refunds = Agent(name="refunds", instructions="Refund what arrived broken.", tools=[refund])
front = Agent(name="front", instructions="Hand the ticket to whom it concerns.", handoffs=[refunds])
