"""Pays the sellers out: a flow declared with @flow, which pytest-loom itself can run, record, replay and resume.

The books, the sanctions list and the bank are faked; in real life each would be a call over the network.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from pydantic import BaseModel

from pytest_loom import Context, current_step, flow, step, tool
from refund_desk.shop import BankTimeout

LIMIT = Decimal(5000)
SOLD = {"harbour": Decimal("812.40"), "north": Decimal("96.10"), "summit": Decimal("7450.00")}
CLAIMED = {"harbour": Decimal("42.50"), "summit": Decimal("150.00")}


@dataclass(frozen=True)
class Statement:
    """What is asked for: pay this seller what was sold up to a day."""

    seller: str
    until: date


@dataclass(frozen=True)
class Transfer:
    """An order to the bank."""

    seller: str
    amount: Decimal
    reference: UUID
    ordered: datetime


@dataclass(frozen=True)
class Paid:
    """What became of it."""

    outcome: str
    amount: Decimal
    receipt: str = ""


class Decision(BaseModel):
    """A human's answer, as it comes in from outside."""

    approved: bool
    by: str


@step
async def sales(seller: str, until: date) -> Decimal:
    """What the seller sold."""
    return SOLD[seller]


@step
async def claims(seller: str) -> Decimal:
    """What customers want back from the seller."""
    return CLAIMED.get(seller, Decimal(0))


@tool(version=1)
def screen(seller: str) -> bool:
    """Whether the sanctions list is silent about the seller."""
    return seller != "north"


@step(retries=2)
async def transfer(order: Transfer) -> str:
    """Send the money; the bank knows a second try by its key. Its first answer is late where the sum is odd."""
    this = current_step()
    if this is not None and this.attempt == 1 and order.amount % 1:
        raise BankTimeout("no answer within 30 s")
    return f"receipt-{order.seller}"


@step
async def tell(seller: str, outcome: str, amount: Decimal) -> str:
    """Write to the seller."""
    return f"Dear {seller}, your payout of {amount} EUR: {outcome}."


@flow(
    id="payout",
    version="1.0.0",
    steps=[sales, claims, transfer, tell],
    tools=[screen],
    gates={"PayoutDecided": Decision},
)
async def payout(ctx: Context, statement: Statement) -> Paid:
    """Pay what was sold less what is claimed; a human decides about high sums and listed sellers, within two days."""
    seller = statement.seller
    sold, claimed, clean = await asyncio.gather(
        ctx.run(sales, seller, statement.until), ctx.run(claims, seller), ctx.call(screen, seller=seller)
    )
    amount = sold - claimed
    outcome, receipt = "paid", ""
    if amount > LIMIT or not clean:
        outcome = await decided(ctx, seller)
    if outcome == "paid":
        receipt = await ctx.run(transfer, Transfer(seller, amount, ctx.uuid(), ctx.now()))
    await ctx.run(tell, seller, outcome, amount)
    return Paid(outcome, amount, receipt)


async def decided(ctx: Context, seller: str) -> str:
    """What the human says, or that nobody did."""
    try:
        decision: Decision = await ctx.suspend(
            "PayoutDecided", correlation_key=seller, kind="approval", timeout=timedelta(days=2)
        )
    except TimeoutError:
        return "on hold, nobody decided"
    return "paid" if decision.approved else f"declined by {decision.by}"
