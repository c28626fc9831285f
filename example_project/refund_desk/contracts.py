"""Today's flows, for the deploy simulation (``loom_flows`` in pyproject.toml): plain data, or declared with @flow."""

from __future__ import annotations

from typing import Any

from refund_desk.desk import FLOWS
from refund_desk.payout import payout
from releases.flow import release

flows: dict[str, Any] = {
    flow_id: {"workflowId": flow_id, "steps": {step.__name__: {} for step in flow.steps}}
    for flow_id, flow in FLOWS.items()
}
flows[payout.id] = payout
flows[release.id] = release
