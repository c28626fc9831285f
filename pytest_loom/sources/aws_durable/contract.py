"""What can be said of a durable function without running it: that it is one. Its steps are what its code calls.

So it is not looked at as data but asked: ``replay`` has the SDK go over what was recorded.
"""

from __future__ import annotations

from typing import Any

_DECORATOR = "aws_durable_execution_sdk_python.execution"


def contract_of_object(flow: Any) -> dict[str, Any] | None:
    """The contract JSON of a function decorated with ``@durable_execution``; None for anything else.

    Lambda calls the function as it is deployed; the code does not know that name, so it is registered under it.
    """
    if not is_durable(flow):
        return None
    return {"workflowId": str(getattr(flow, "__name__", "handler")), "engine": "journal"}


def is_durable(flow: Any) -> bool:
    """Whether a function is the handler that the SDK's decorator made."""
    return getattr(flow, "__globals__", {}).get("__name__") == _DECORATOR and hasattr(flow, "__wrapped__")
