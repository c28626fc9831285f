"""The flows of the desk and their steps."""

from __future__ import annotations

from typing import Any

from refund_desk.runtime import Flow, Run
from refund_desk.shop import ORDERS, Shop

DAY = 24 * 3600 * 1000
"""In milliseconds."""


def inspect(shop: Shop, order_id: str) -> dict[str, Any]:
    """Look the order up."""
    return ORDERS[order_id]


def assess(shop: Shop, order: dict[str, Any]) -> dict[str, str]:
    """Let the model say how risky the refund is."""
    return shop.ask_model(order)


def pay(shop: Shop, order: dict[str, Any]) -> dict[str, Any]:
    """Send the money back."""
    return {"cents": order["cents"], "receipt": shop.transfer(order)}


def notify(shop: Shop, letter: dict[str, str]) -> str:
    """Write to the customer."""
    return f"Order {letter['order']}: your refund was {letter['outcome']}."


def refund(run: Run, request: dict[str, str]) -> dict[str, Any]:
    """Pay a claim back, after a human's decision where the model sees a high risk."""
    order = run.step(inspect, request["order"])
    if run.step(assess, order)["risk"] == "high":
        decision = run.wait("RefundDecided", kind="approval", correlationKey=order["order"], timeoutMs=7 * DAY)
        if not decision["approved"]:
            run.step(notify, {"order": order["order"], "outcome": "declined"})
            return {"outcome": "declined", "by": decision["by"]}
    payment = run.step(pay, order, tries=3)
    run.step(notify, {"order": order["order"], "outcome": "paid"})
    return {"outcome": "paid", **payment}


def contest(shop: Shop, order_id: str) -> dict[str, str]:
    """Send our evidence to the card scheme."""
    return {"order": order_id, "case": f"case-{order_id}"}


def poll(shop: Shop, case: dict[str, str]) -> str:
    """Ask the card scheme how the case stands."""
    return shop.ask_scheme(case["order"])


def chargeback(run: Run, request: dict[str, str]) -> dict[str, str]:
    """Contest a payment that the customer took back, and ask once a day until it is decided."""
    case = run.step(contest, request["order"])
    while (standing := run.step(poll, case)) == "open":
        run.wait("NextDay", kind="timer", timeoutMs=DAY)
    return {"outcome": standing}


FLOWS = {
    "refund": Flow(refund, (inspect, assess, pay, notify)),
    "chargeback": Flow(chargeback, (contest, poll)),
}
