"""Closing an account: ask its owner, who has not been seen for a year, and obey."""

from __future__ import annotations

import os

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def find_owner(account: str) -> str:
    outside(f"look up {account}")
    return "ada@example.org"


@step
async def delete(account: str) -> None:
    outside(f"delete {account}")


@step
async def keep(account: str) -> None:
    outside(f"keep {account}")


@flow(id="account", version="1.0.0", steps=[find_owner, delete, keep], gates={"OwnerSaid": bool})
async def account(ctx: Context, number: str) -> str:
    owner = await ctx.run(find_owner, number)
    question = f"{owner}: shall we keep account {number}?"
    if await ctx.suspend("OwnerSaid", correlation_key=number, kind="question", pending={"ask": question}):
        await ctx.run(keep, number)
        return "kept"
    await ctx.run(delete, number)
    return "deleted"


flows = {"account": account}
