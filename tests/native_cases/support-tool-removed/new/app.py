"""A support agent: a model proposes a tool call, a person approves just that call, and it is made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

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
    return Proposal("voucher", {"order": "o-17", "amount": 4999})


@tool(version=1, approval=True, permissions=["mail"])
async def voucher(order: str, amount: int) -> str:
    outside(f"voucher for {order}: {amount} cents")
    return f"voucher for {order}"


TOOLS = {made.id: made for made in (voucher,)}


@flow(
    id="support",
    version="1.0.0",
    steps=[propose],
    tools=[voucher],
    gates={"CallDecided": bool},
)
async def support(ctx: Context, ticket: str) -> str:
    call = await ctx.run(propose, ticket)
    pending = {"callId": "call-1", "name": call.name, "args": call.args}
    if not await ctx.suspend("CallDecided", correlation_key=ticket, kind="approval", pending=pending):
        return "nothing done"
    return str(await ctx.call(TOOLS[call.name], **call.args))


flows = {"support": support}
