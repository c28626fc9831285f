"""How today's code reads what last week's releases have saved. Whatever is not named here is refused."""

from __future__ import annotations

from typing import Any

from pytest_loom import migration, upcaster
from pytest_loom.resume.helpers import add, compose, rename

FIRST_REGION = "eu-central"
"""There was no other while deploys had no region: true of every older run, so it is no guess."""

migration("state", from_version=2)(compose(rename("env", "environment"), add("region", FIRST_REGION)))


@upcaster("TOOL_REQUESTED", from_version=1)
def deploy_has_a_region(payload: dict[str, Any]) -> dict[str, Any]:
    """What has been deployed was deployed to the one region, without a ticket. What still waits is not touched."""
    if payload["name"] != "deploy":
        return payload
    args = {"environment": payload["args"]["env"], "region": FIRST_REGION, "change_ticket": None}
    return {**payload, "args": args}
