"""Last week's releases: ``deploy`` took an ``env``, and the saved state was in version 2."""

from __future__ import annotations

from typing import TypedDict

from pydantic import BaseModel

from pytest_loom import Context, flow, step, tool


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
    env: str


@step
async def build(commit: str) -> str:
    """Build the image; in real life a call to the registry."""
    return f"desk:{commit}"


@tool(version=1, approval=True, permissions=["cluster:write"])
def deploy(env: str) -> str:
    """Roll the image out; there is one region only."""
    return f"deployed to {env}"


@flow(
    id="release",
    version="1.0.0",
    versions={"state": 2},
    steps=[build],
    tools=[deploy],
    gates={"WindowOpened": None, "DeployDecided": Decision, "Checked": None},
)
async def release(ctx: Context, request: Request) -> str:
    """Build, wait for the change window, then deploy to staging and to prod; a human agrees to each deploy."""
    image = await ctx.run(build, request.commit)
    ctx.snapshot(State(image=image, env="staging"))
    await ctx.suspend("WindowOpened")
    for env in ("staging", "prod"):
        ctx.snapshot(State(image=image, env=env))
        call = {"callId": f"deploy-{env}", "name": "deploy", "args": {"env": env}}
        decision: Decision = await ctx.suspend("DeployDecided", correlation_key=env, kind="approval", pending=call)
        if not decision.approved:
            return f"stopped before {env} by {decision.by}"
        await ctx.call(deploy, env=env)
        await ctx.suspend("Checked", correlation_key=env)
    return f"{image} is live"
