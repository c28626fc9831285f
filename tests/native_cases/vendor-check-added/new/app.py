"""New vendors: checks run side by side, then two managers sign, each for an office of its own."""

from __future__ import annotations

import asyncio
import os

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def credit(vendor: str) -> int:
    outside(f"credit of {vendor}")
    return 71


@step
async def registry(vendor: str) -> str:
    outside(f"registry entry of {vendor}")
    return "active"


@step
async def sanctions(vendor: str) -> bool:
    outside(f"sanctions list: {vendor}")
    return True


@step
async def open_account(vendor: str, offices: str) -> str:
    outside(f"open an account for {vendor} with {offices}")
    return f"{vendor}: {offices}"


@flow(id="vendor", version="1.0.0", steps=[credit, registry, sanctions, open_account], gates={"Signed": bool})
async def vendor(ctx: Context, name: str) -> str:
    score, entry, clean = await asyncio.gather(ctx.run(credit, name), ctx.run(registry, name), ctx.run(sanctions, name))
    if score < 50 or entry != "active" or not clean:
        return "rejected"
    offices = ["berlin", "porto"]
    signed = await asyncio.gather(
        *(ctx.suspend("Signed", correlation_key=office, kind="approval") for office in offices)
    )
    willing = [office for office, yes in zip(offices, signed, strict=True) if yes]
    return await ctx.run(open_account, name, " and ".join(willing))


flows = {"vendor": vendor}
