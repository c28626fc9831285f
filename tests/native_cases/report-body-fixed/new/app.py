"""The weekly report: figures are fetched side by side, then mailed. The stored run was killed on the way."""

from __future__ import annotations

import asyncio
import os

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def sales(week: int) -> int:
    outside(f"sales of week {week}")
    return 91000


@step
async def returns(week: int) -> int:
    outside(f"returns of week {week}")
    return {30: 4000}.get(week, 0)  # from the table of weeks, not of days


@step
async def mail(week: int, total: int) -> str:
    outside(f"mail week {week}: {total}")
    return f"week {week}: {total}"


@flow(id="report", version="1.0.0", steps=[sales, returns, mail])
async def report(ctx: Context, week: int) -> str:
    sold, returned = await asyncio.gather(ctx.run(sales, week), ctx.run(returns, week))
    return await ctx.run(mail, week, sold - returned)


flows = {"report": report}
