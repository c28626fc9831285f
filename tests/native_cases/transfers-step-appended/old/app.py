"""Transfers: a person approves the call that a step then makes; there is no @tool in this application."""

from __future__ import annotations

import os

from pytest_loom import SyncContext, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
def balance(account: str) -> int:
    outside(f"balance of {account}")
    return 70000


@step
def transfer(account: str, cents: int) -> str:
    outside(f"transfer {cents} from {account}")
    return f"{cents} transferred"


@flow(id="transfers", version="1.0.0", steps=[balance, transfer], gates={"Approved": bool})
def transfers(ctx: SyncContext, account: str) -> str:
    args = {"account": account, "cents": ctx.run(balance, account) // 2}
    pending = {"callId": "t-1", "name": "transfer", "args": args}
    if not ctx.suspend("Approved", correlation_key=account, kind="approval", pending=pending):
        return "left alone"
    return ctx.run(transfer, **args)


flows = {"transfers": transfers}
