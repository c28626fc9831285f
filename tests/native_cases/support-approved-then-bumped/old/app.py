"""A support agent: a model proposes a tool call, a person approves just that call, and it is made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from pytest_loom import Context, flow, step, tool


@dataclass
class Proposal:
    name: str
    args: dict[str, Any]


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def propose(ticket: str) -> Proposal:
    outside(f"ask the model about {ticket}")
    return Proposal("refund", {"order": "o-17", "amount": 4999, "to": "card"})


@tool(version=1, approval=True, permissions=["payments", "mail"])
async def refund(order: str, amount: int, to: Literal["card", "bank"]) -> str:
    """``amount`` is in cents."""
    outside(f"refund {order}: {amount} cents to {to}")
    return f"refunded {order}"


@tool(version=1, approval=True, permissions=["mail"])
async def voucher(order: str, amount: int) -> str:
    outside(f"voucher for {order}: {amount} cents")
    return f"voucher for {order}"


TOOLS = {made.id: made for made in (refund, voucher)}


@flow(
    id="support",
    version="1.0.0",
    steps=[propose],
    tools=[refund, voucher],
    gates={"CallDecided": bool},
)
async def support(ctx: Context, ticket: str) -> str:
    call = await ctx.run(propose, ticket)
    pending = {"callId": "call-1", "name": call.name, "args": call.args}
    if not await ctx.suspend("CallDecided", correlation_key=ticket, kind="approval", pending=pending):
        return "nothing done"
    return str(await ctx.call(TOOLS[call.name], **call.args))


flows = {"support": support}
