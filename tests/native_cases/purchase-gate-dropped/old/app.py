"""Purchases: legal and finance are asked at the same time, and both have to agree."""

from __future__ import annotations

import asyncio
import os

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def order(item: str) -> str:
    outside(f"order {item}")
    return f"order of {item}"


@step
async def announce(item: str) -> None:
    outside(f"announce {item}")


@flow(
    id="purchase",
    version="1.0.0",
    steps=[order, announce],
    gates={"LegalAgreed": bool, "FinanceAgreed": bool},
)
async def purchase(ctx: Context, item: str) -> str:
    agreed = await asyncio.gather(
        ctx.suspend("LegalAgreed", correlation_key=item, kind="approval"),
        ctx.suspend("FinanceAgreed", correlation_key=item, kind="approval"),
    )
    if not all(agreed):
        return "rejected"
    number = await ctx.run(order, item)
    await ctx.run(announce, item)
    return number


flows = {"purchase": purchase}
