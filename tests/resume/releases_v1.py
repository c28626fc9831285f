"""Last week's code, kept beside the tests: ``python releases_v1.py FOLDER`` records the logs that they read.

A process of its own, so that nothing of today's (its upcasters above all) is in what it writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pytest_loom import Context, flow, record, step, tool


@step
async def build(commit: str) -> str:
    """Build an image."""
    return f"image-{commit}"


@tool(version=1, approval=True, permissions=["cluster:write"])
def deploy(env: str) -> str:
    """Roll out."""
    return f"deployed to {env}"


@flow(
    id="release",
    version="1",
    versions={"state": 2},
    steps=[build],
    tools=[deploy],
    gates={"Opened": None, "Approved": bool, "Checked": None},
)
async def release(ctx: Context, commit: str) -> str:
    """Build; wait for the change window; deploy to staging, which is checked, then to prod. Each deploy is approved."""
    image = await ctx.run(build, commit)
    ctx.snapshot({"image": image, "env": "staging"})
    await ctx.suspend("Opened")
    for env in ("staging", "prod"):
        ctx.snapshot({"image": image, "env": env})
        pending = {"callId": f"deploy-{env}", "name": "deploy", "args": {"env": env}}
        await ctx.suspend("Approved", correlation_key=env, kind="approval", pending=pending)
        await ctx.call(deploy, env=env)
        await ctx.suspend("Checked", correlation_key=env)
    return f"{image} is live"


OPENED: tuple[str, Any] = ("Opened", None)
APPROVED: tuple[str, Any] = ("Approved", True)
CHECKED: tuple[str, Any] = ("Checked", None)
RUNS = {"window": [], "deployed": [OPENED, APPROVED], "approval": [OPENED, APPROVED, CHECKED]}
"""File: what the run was answered before it waits."""

if __name__ == "__main__":
    for name, events in RUNS.items():
        record(release, "9f2c", events=events, execution_id=name, path=Path(sys.argv[1]) / f"{name}.loom.jsonl")
