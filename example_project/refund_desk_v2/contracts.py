"""Version 2's flows as plain data."""

from __future__ import annotations

from refund_desk_v2.desk import FLOWS

flows = {
    flow_id: {"workflowId": flow_id, "steps": {step.__name__: {} for step in flow.steps}}
    for flow_id, flow in FLOWS.items()
}
