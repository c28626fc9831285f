"""A support agent that needs nobody's approval: a model proposes a tool call, and it is made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pytest_loom import Context, flow, migrate, migration, step, tool


@dataclass
class Proposal:
    name: str
    version: int
    args: dict[str, Any]


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@tool(version=2, permissions=["mail"])
async def remind(customer: str, hours: int) -> str:
    outside(f"remind {customer} in {hours // 24} days")
    return f"{customer} will be reminded"


@migration("tool:remind", from_version=1)
def in_hours(args: dict[str, Any]) -> dict[str, Any]:
    """Version 2 counts hours."""
    return {"customer": args["customer"], "hours": args["days"] * 24}


@step
async def propose(ticket: str) -> Proposal:
    outside(f"ask the model about {ticket}")
    return Proposal("remind", 2, {"customer": "c-8", "hours": 336})


@step
async def close(ticket: str, outcome: str) -> str:
    outside(f"close {ticket}: {outcome}")
    return f"{ticket}: {outcome}"


@flow(id="agent", version="1.0.0", steps=[propose, close], tools=[remind])
async def agent(ctx: Context, ticket: str) -> str:
    call = await ctx.run(propose, ticket)
    args = migrate("tool:remind", call.args, call.version, remind.version)
    outcome = await ctx.call(remind, **args)
    return await ctx.run(close, ticket, outcome)


flows = {"agent": agent}
