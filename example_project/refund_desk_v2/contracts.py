"""Version 2's flows; payouts are as before."""

from __future__ import annotations

from typing import Any

from refund_desk.payout import payout
from refund_desk_v2.desk import FLOWS

flows: dict[str, Any] = {
    flow_id: {"workflowId": flow_id, "steps": {step.__name__: {} for step in flow.steps}}
    for flow_id, flow in FLOWS.items()
}
flows[payout.id] = payout
