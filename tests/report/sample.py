"""A deploy that goes wrong, as large as one likes: what the tests of reports and their screenshots show.

A shop renamed a step of its refunds and changed what an approval says, dropped its chargebacks, raised a version that
a worker is not kept for, and asks its payouts for another sum. Captured contracts tell since when.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_loom import DeployReport, Log, LogBuilder, SyncContext, contract_of, flow, record, simulate_deploy, step
from pytest_loom.contract.store import capture
from pytest_loom.deploy.timeline import Timelines

JANUARY = 1_767_258_000_000  # 2026-01-01 09:00 UTC
MINUTE = 60_000


@step
def fetch_rate(currency: str) -> float:
    """A step of the payouts."""
    return {"EUR": 1.0, "USD": 0.9}[currency]


@step
def transfer(cents: int, to: str) -> str:
    """Another one."""
    return f"transfer of {cents} to {to}"


@flow(id="payout", version="3.0.0", steps=[fetch_rate, transfer], gates={"PayoutDecided": dict})
def payout_of_yesterday(ctx: SyncContext, order: dict[str, Any]) -> str:
    """What payouts were started on."""
    rate = ctx.run(fetch_rate, order["currency"])
    sent = ctx.run(transfer, round(order["cents"] * rate), order["seller"])
    ctx.suspend("PayoutDecided", kind="approval")
    return sent


@flow(id="payout", version="3.0.0", steps=[fetch_rate, transfer], gates={"PayoutDecided": dict})
def payout(ctx: SyncContext, order: dict[str, Any]) -> str:
    """What they are today: a fee is taken off."""
    rate = ctx.run(fetch_rate, order["currency"])
    sent = ctx.run(transfer, round(order["cents"] * rate) - 150, order["seller"])
    ctx.suspend("PayoutDecided", kind="approval")
    return sent


def _answer(**properties: str) -> dict[str, Any]:
    fields = {name: {"type": kind} for name, kind in properties.items()}
    return {"payloadSchema": {"type": "object", "properties": fields, "required": list(fields)}}


YESTERDAY: dict[str, dict[str, Any]] = {
    "refund": {
        "workflowId": "refund",
        "version": "1.2.0",
        "steps": {"inspect": {}, "assess": {}, "pay": {}, "notify": {}},
        "gates": {"RefundDecided": _answer(approved="boolean", amount_cents="integer", by="string")},
    },
    "order": {"workflowId": "order", "version": "4.1.0", "steps": {"reserve": {}, "pack": {}}, "gates": {"Paid": {}}},
    "chargeback": {"workflowId": "chargeback", "version": "1.0.0", "steps": {"poll": {}}, "gates": {"NextDay": {}}},
}
TODAY: dict[str, Any] = {
    "refund": {
        "workflowId": "refund",
        "version": "1.3.0",
        "steps": {"inspect": {}, "assess_risk": {}, "pay": {}, "notify": {}},
        "gates": {"RefundDecided": _answer(approved="boolean", amount="number", by="string")},
    },
    "order": YESTERDAY["order"],
    "payout": payout,
}


def runs(count: int, *, hostile: str = "") -> Iterator[Log]:
    """So many runs: half of them orders that nothing is wrong with, refunds in two states, some chargebacks.

    ``hostile`` is put into every name and value that a log chooses freely.
    """
    for number in range(count):
        kind = number % 20
        if kind < 10:
            yield _run(f"order-{number}{hostile}", "order", ["reserve"], "Paid", "event", number, hostile)
        elif kind < 13:
            yield _run(f"refund-{number}{hostile}", "refund", ["inspect", "assess"], None, "", number, hostile)
        elif kind < 19:
            steps = ["inspect"] if kind < 16 else ["inspect", "assess"]
            yield _run(f"refund-{number}{hostile}", "refund", steps, "RefundDecided", "approval", number, hostile)
        else:
            yield _run(f"chargeback-{number}{hostile}", "chargeback", ["poll"], "NextDay", "timer", number, hostile)
    for number in range(4):
        order = {"currency": "USD", "cents": 7_450, "seller": f"summit-{number}{hostile}"}
        log = record(payout_of_yesterday, order, execution_id=f"payout-{number}{hostile}")
        events = [replace(event, timestamp=JANUARY + event.sequence * MINUTE) for event in log.events]
        yield Log(events, path=f"logs/payouts/{number}.loom.jsonl")


def _run(name: str, of: str, steps: list[str], waits: str | None, kind: str, number: int, hostile: str) -> Log:
    log = LogBuilder(name, of, path=f"logs/{of}/day-{number % 31 + 1:02}.loom.jsonl")
    at = JANUARY + number % 31 * 24 * 60 * MINUTE + number % 480 * MINUTE
    manifest = {"flowVersion": YESTERDAY[of]["version"]}
    order = {"order": f"A-{number}{hostile}", "amount_cents": 4_999, "reason": "arrived broken"}
    log.add("EXECUTION_STARTED", {"input": order, "manifest": manifest}, timestamp=at)
    for done, step_id in enumerate(steps):
        start = at + (2 * done + 1) * MINUTE
        log.add("STEP_STARTED", {"stepId": step_id, "input": order}, timestamp=start)
        output = {"risk": "low", "score": 0.12, "notes": [f"checked {step_id}{hostile}", "no former claim"]}
        log.add("STEP_COMPLETED", {"stepId": step_id, "output": output}, timestamp=start + MINUTE)
    if waits is not None:
        pending = {"question": f"Refund 49.99 of order A-{number}?{hostile}"} if kind == "approval" else None
        payload: dict[str, Any] = {"on": waits, "kind": kind}
        log.add("EXECUTION_SUSPENDED", payload | ({"pending": pending} if pending else {}), timestamp=at + 9 * MINUTE)
    return log.log()


def report_of(count: int, folder: Path, *, hostile: str = "") -> DeployReport:
    """The report of the simulation; contracts are captured in ``folder``."""
    for contract in (*YESTERDAY.values(), payout_of_yesterday):
        capture(folder, contract_of(contract), datetime(2025, 12, 19, 16, 30, tzinfo=UTC))
    return simulate_deploy(runs(count, hostile=hostile), TODAY, contract=folder, timelines=Timelines())
