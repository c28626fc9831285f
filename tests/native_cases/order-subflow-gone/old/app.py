"""Orders: a sub-flow asks the customer for consent, then the order is shipped."""

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
async def offer(item: str, cents: int) -> None:
    outside(f"offer {item} for {cents}")


@step
async def ship(item: str) -> str:
    outside(f"ship {item}")
    return f"shipped {item}"


@flow(id="consent", steps=[offer], gates={"CustomerSaid": bool})
async def consent(ctx: Context, item: str, cents: int) -> bool:
    await ctx.run(offer, item, cents)
    said: bool = await ctx.suspend("CustomerSaid", correlation_key=item, kind="question")
    return said


@flow(id="order", version="1.0.0", steps=[reserve, consent, ship])
async def order(ctx: Context, item: str) -> str:
    cents = await ctx.run(reserve, item)
    if not await ctx.run(consent, item, cents):
        return "cancelled"
    return await ctx.run(ship, item)


flows = {"order": order}
