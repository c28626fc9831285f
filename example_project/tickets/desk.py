"""Today's desk. Since last week: other words, a memo on the refund, and one more agent. Nobody who waits is hurt."""

from __future__ import annotations

from typing import Any

from agents import Agent, function_tool


@function_tool(needs_approval=True)
def refund(order: str, cents: int, memo: str | None = None) -> str:
    """Give a customer the money back."""
    return f"{cents} cents for {order} are on their way" + (f" ({memo})" if memo else "")


def desk(refund: Any) -> Agent:
    """The front of a desk that refunds with this tool."""
    refunds = Agent(name="refunds", instructions="Refund what arrived broken. Be kind.", tools=[refund])
    parcels = Agent(name="parcels", instructions="Find out where a parcel is.")
    return Agent(name="front", instructions="Hand the ticket to who knows.", handoffs=[parcels, refunds])


front = desk(refund)
