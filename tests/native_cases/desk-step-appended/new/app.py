"""A desk hands each call to a sub-flow, which has the tool, asks for its approval and makes it."""

from __future__ import annotations

import os
from typing import Any

from pytest_loom import Context, flow, step, tool


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def propose(ticket: str) -> dict[str, Any]:
    outside(f"ask the model about {ticket}")
    return {"order": "o-17", "amount": 4999}


@tool(version=1, approval=True, permissions=["payments"])
async def refund(order: str, amount: int) -> str:
    outside(f"refund {order}: {amount}")
    return f"refunded {order}"


@flow(id="guarded", tools=[refund], gates={"CallDecided": bool})
async def guarded(ctx: Context, args: dict[str, Any]) -> str:
    pending = {"callId": "call-1", "name": "refund", "args": args}
    if not await ctx.suspend("CallDecided", kind="approval", pending=pending):
        return "nothing done"
    return await ctx.call(refund, **args)


@step
async def file_ticket(ticket: str, outcome: str) -> str:
    outside(f"file {ticket}")
    return outcome


@flow(id="desk", version="1.0.0", steps=[propose, guarded, file_ticket])
async def desk(ctx: Context, ticket: str) -> str:
    outcome = await ctx.run(guarded, await ctx.run(propose, ticket))
    return await ctx.run(file_ticket, ticket, outcome)


flows = {"desk": desk}
