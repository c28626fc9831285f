"""Make the golden logs anew: ``python make_logs.py [FOLDER]``. The same code gives the same bytes."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from pytest_loom import write_log
from refund_desk.desk import DAY, FLOWS
from refund_desk.runtime import Clock, Desk
from refund_desk.shop import PowerCut, Shop

HOUR = DAY // 24

YES = ("RefundDecided", {"approved": True, "by": "mia"})
NO = ("RefundDecided", {"approved": False, "by": "jon"})
NEXT_DAY: tuple[str, dict[str, object]] = ("NextDay", {})

RUNS = {
    "refund-approved": ("refund", "1001", [(47 * HOUR, YES)]),
    "refund-declined": ("refund", "1002", [(3 * HOUR, NO)]),
    "refund-waiting": ("refund", "1003", []),
    "refund-retried": ("refund", "1004", []),
    "refund-crashed": ("refund", "1005", []),
    "chargeback-polling": ("chargeback", "1006", [(DAY, NEXT_DAY), (DAY, NEXT_DAY)]),
}
"""File: flow, order, and which answers came after how long."""


def make_logs(folder: Path) -> None:
    """Let the desk work, and write down each run."""
    for name, (flow_id, order, answers) in RUNS.items():
        clock = Clock()
        desk = Desk(FLOWS, Shop(), clock)
        run_id = f"{flow_id}-{order}"
        with contextlib.suppress(PowerCut):
            desk.start(flow_id, run_id, {"order": order})
            for later, (event, payload) in answers:
                clock.now += later
                desk.answer(run_id, event, payload)
        write_log(desk.log(run_id), folder / f"{name}.loom.jsonl")


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "tests" / "logs")
