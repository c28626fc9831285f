"""Today's releases: ``deploy`` takes environment, region and change ticket, and the saved state is in version 3.

What last week's runs have saved is read by ``releases.versions``, which has to be imported with the flow.
"""

from __future__ import annotations

from typing import TypedDict

from pydantic import BaseModel

import releases.versions  # noqa: F401  # registers how older runs are read
from pytest_loom import Context, flow, step, tool

REGION = "eu-central"


class Request(BaseModel):
    """Which release, of which commit."""

    number: int
    commit: str


class Decision(BaseModel):
    """A human's answer."""

    approved: bool
    by: str


class State(TypedDict):
    """What a release keeps of itself."""

    image: str
    environment: str
    region: str


@step
async def build(commit: str) -> str:
    """Build the image; in real life a call to the registry."""
    return f"desk:{commit}"


@tool(version=2, approval=True, permissions=["cluster:write", "tickets:write"])
def deploy(environment: str, region: str, change_ticket: str | None) -> str:
    """Roll the image out to one region, and note it in the change ticket."""
    return f"deployed to {environment} in {region}" + (f" for {change_ticket}" if change_ticket else "")


@flow(
    id="release",
    version="2.0.0",
    versions={"state": 3},
    steps=[build],
    tools=[deploy],
    gates={"WindowOpened": None, "DeployDecided": Decision, "Checked": None},
)
async def release(ctx: Context, request: Request) -> str:
    """As before; a deploy to prod names its change ticket, which has the number of the release."""
    image = await ctx.run(build, request.commit)
    ctx.snapshot(State(image=image, environment="staging", region=REGION))
    await ctx.suspend("WindowOpened")
    for environment in ("staging", "prod"):
        ctx.snapshot(State(image=image, environment=environment, region=REGION))
        ticket = f"CHG-{request.number}" if environment == "prod" else None
        args = {"environment": ctx.state["environment"], "region": ctx.state["region"], "change_ticket": ticket}
        call = {"callId": f"deploy-{environment}", "name": "deploy", "args": args}
        decision: Decision = await ctx.suspend(
            "DeployDecided", correlation_key=environment, kind="approval", pending=call
        )
        if not decision.approved:
            return f"stopped before {environment} by {decision.by}"
        await ctx.call(deploy, **args)
        await ctx.suspend("Checked", correlation_key=environment)
    return f"{image} is live in {ctx.state['region']}"
