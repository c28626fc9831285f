"""A support agent that needs nobody's approval: a model proposes a tool call, and it is made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pytest_loom import Context, flow, step, tool


@dataclass
class Proposal:
    name: str
    version: int
    args: dict[str, Any]


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@tool(version=1, permissions=["mail"])
async def remind(customer: str, days: int) -> str:
    outside(f"remind {customer} in {days} days")
    return f"{customer} will be reminded"


@step
async def propose(ticket: str) -> Proposal:
    outside(f"ask the model about {ticket}")
    return Proposal("remind", 1, {"customer": "c-8", "days": 14})


@step
async def close(ticket: str, outcome: str) -> str:
    outside(f"close {ticket}: {outcome}")
    return f"{ticket}: {outcome}"


@flow(id="agent", version="1.0.0", steps=[propose, close], tools=[remind])
async def agent(ctx: Context, ticket: str) -> str:
    call = await ctx.run(propose, ticket)
    outcome = await ctx.call(remind, **call.args)
    return await ctx.run(close, ticket, outcome)


flows = {"agent": agent}
