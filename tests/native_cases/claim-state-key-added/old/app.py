"""Insurance claims: the run keeps its state, and whoever decides sees a page that is made from it."""

from __future__ import annotations

import os
from typing import Any

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def estimate(claim: str) -> int:
    outside(f"estimate {claim}")
    return 310000


@step
async def settle(claim: str, cents: int) -> str:
    outside(f"settle {claim}: {cents}")
    return f"settled {claim}"


@flow(
    id="claim",
    version="1.0.0",
    steps=[estimate, settle],
    gates={"ClaimDecided": bool},
    versions={"state": 2},
)
async def claim(ctx: Context, number: str) -> str:
    cents = await ctx.run(estimate, number)
    ctx.snapshot({"claim": number, "damage": cents})
    if await ctx.suspend("ClaimDecided", correlation_key=number, kind="approval"):
        return await ctx.run(settle, number, cents)
    return "refused"


def page(state: dict[str, Any]) -> str:
    """What whoever decides is shown of the saved state."""
    return f"Claim {state['claim']}: {state['damage'] / 100:.2f} EUR"


flows = {"claim": claim}
