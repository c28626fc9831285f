"""The world around the desk, faked: orders, a model, a bank with test cards that misbehave on purpose, the mail."""

from __future__ import annotations

from collections import Counter
from typing import Any

ORDERS = {
    "1001": {"order": "1001", "cents": 129900, "card": "visa", "claim": "arrived broken"},
    "1002": {"order": "1002", "cents": 249900, "card": "visa", "claim": "never arrived"},
    "1003": {"order": "1003", "cents": 89900, "card": "visa", "claim": "not as described"},
    "1004": {"order": "1004", "cents": 1900, "card": "slow", "claim": "wrong size"},
    "1005": {"order": "1005", "cents": 2900, "card": "power-cut", "claim": "wrong colour"},
    "1006": {"order": "1006", "cents": 45900, "card": "visa", "claim": "not my purchase"},
}


class BankTimeout(Exception):
    """The bank did not answer in time; it is worth another try."""


class PowerCut(BaseException):
    """The desk's own machine dies."""


class Shop:
    """Knows the orders and counts the calls, so that a test card can misbehave the first time only."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def ask_model(self, order: dict[str, Any]) -> dict[str, str]:
        """Stands for a call of a language model."""
        risk = "high" if order["cents"] > 50_000 else "low"
        return {"risk": risk, "reason": f"{order['cents'] / 100:.2f} EUR, {order['claim']}"}

    def transfer(self, order: dict[str, Any]) -> str:
        """Send the money back; gives a receipt."""
        self.calls[order["order"]] += 1
        if order["card"] == "slow" and self.calls[order["order"]] == 1:
            raise BankTimeout("no answer within 30 s")
        if order["card"] == "power-cut":
            raise PowerCut
        return f"receipt-{order['order']}"

    def ask_scheme(self, order_id: str) -> str:
        """What the card scheme says about a contested payment: it takes its time."""
        self.calls[order_id] += 1
        return "open" if self.calls[order_id] < 4 else "won"
