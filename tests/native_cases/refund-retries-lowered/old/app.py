"""Refunds: look the order up, assess the claim, ask a person, pay, write to the customer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from pydantic import BaseModel

from pytest_loom import Context, current_step, flow, step


@dataclass
class Case:
    order: str
    cents: int


@dataclass
class Assessment:
    risk: str
    limit: int


class Decision(BaseModel):
    approved: bool
    by: str


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step(retries=2)
async def inspect(order: str) -> str:
    this = current_step()
    if this is not None and this.attempt < 3:
        raise ConnectionError("the shop is busy")
    outside(f"look up {order}")
    return "arrived broken"


@step
async def assess(order: str, claim: str) -> Assessment:
    outside(f"ask the model about {order}: {claim}")
    return Assessment("high", 5000)


@step
async def freeze(order: str) -> None:
    outside(f"freeze {order}")


@step
async def pay(order: str, cents: int) -> str:
    outside(f"pay {order} {cents}")
    return f"receipt-{order}"


@step
async def notify(order: str, outcome: str) -> None:
    outside(f"write about {order}: {outcome}")


@flow(
    id="refund",
    version="1.0.0",
    steps=[inspect, assess, freeze, pay, notify],
    gates={"RefundDecided": Decision},
)
async def refund(ctx: Context, case: Case) -> str:
    claim = await ctx.run(inspect, case.order)
    assessment = await ctx.run(assess, case.order, claim)
    if assessment.risk == "fraud":
        await ctx.run(freeze, case.order)
        return "frozen"
    try:
        decision = await ctx.suspend(
            "RefundDecided", correlation_key=case.order, kind="approval", timeout=timedelta(days=2)
        )
    except TimeoutError:
        await ctx.run(notify, case.order, "on hold")
        return "on hold"
    if not decision.approved:
        await ctx.run(notify, case.order, f"declined by {decision.by}")
        return "declined"
    receipt = await ctx.run(pay, case.order, min(case.cents, assessment.limit))
    await ctx.run(notify, case.order, f"paid, {receipt}")
    return receipt


flows = {"refund": refund}
