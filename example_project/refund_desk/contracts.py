"""Today's flows as plain data, for the deploy simulation (``loom_flows`` in pyproject.toml)."""

from __future__ import annotations

from refund_desk.desk import FLOWS

flows = {
    flow_id: {"workflowId": flow_id, "steps": {step.__name__: {} for step in flow.steps}}
    for flow_id, flow in FLOWS.items()
}
