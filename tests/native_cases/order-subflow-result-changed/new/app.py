"""Orders: a sub-flow works out the price, the customer agrees, and the order is shipped for that price."""

from __future__ import annotations

import os

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def reserve(item: str) -> int:
    outside(f"reserve {item}")
    return 1250


@step
async def ship(item: str, cents: int) -> str:
    outside(f"ship {item} for {cents}")
    return f"shipped {item}"


@flow(id="quote", steps=[reserve])
async def quote(ctx: Context, item: str) -> int:
    cents = await ctx.run(reserve, item)
    return cents + 500


@flow(id="order", version="1.0.0", steps=[quote, ship], gates={"CustomerSaid": bool})
async def order(ctx: Context, item: str) -> str:
    cents = await ctx.run(quote, item)
    if not await ctx.suspend("CustomerSaid", correlation_key=item, kind="question"):
        return "cancelled"
    return await ctx.run(ship, item, cents)


flows = {"order": order}
