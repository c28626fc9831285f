"""Screening a customer: one step that runs the checks, then a person decides, then the account is opened."""

from __future__ import annotations

import os

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def sanctions(name: str) -> bool:
    outside(f"sanctions list: {name}")
    return True


@step
async def screen(ctx: Context, name: str) -> bool:
    return await ctx.run(sanctions, name)


@step
async def open_account(name: str) -> str:
    outside(f"open an account for {name}")
    return f"account of {name}"


@flow(id="screening", version="1.0.0", steps=[sanctions, screen, open_account], gates={"Decided": bool})
async def screening(ctx: Context, name: str) -> str:
    clean = await ctx.run(screen, name)
    if await ctx.suspend("Decided", correlation_key=name, kind="approval", pending={"clean": clean}):
        return await ctx.run(open_account, name)
    return "rejected"


flows = {"screening": screening}
