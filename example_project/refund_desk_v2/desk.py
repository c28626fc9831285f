"""Version 2: ``assess`` is called ``assess_risk`` now, and ``chargeback`` has moved out to another team."""

from __future__ import annotations

from typing import Any

from refund_desk.desk import DAY, inspect, notify, pay
from refund_desk.runtime import Flow, Run
from refund_desk.shop import Shop


def assess_risk(shop: Shop, order: dict[str, Any]) -> dict[str, str]:
    """Let the model say how risky the refund is."""
    return shop.ask_model(order)


def refund(run: Run, request: dict[str, str]) -> dict[str, Any]:
    """As before."""
    order = run.step(inspect, request["order"])
    if run.step(assess_risk, order)["risk"] == "high":
        decision = run.wait("RefundDecided", kind="approval", correlationKey=order["order"], timeoutMs=7 * DAY)
        if not decision["approved"]:
            run.step(notify, {"order": order["order"], "outcome": "declined"})
            return {"outcome": "declined", "by": decision["by"]}
    payment = run.step(pay, order, tries=3)
    run.step(notify, {"order": order["order"], "outcome": "paid"})
    return {"outcome": "paid", **payment}


FLOWS = {"refund": Flow(refund, (inspect, assess_risk, pay, notify))}
