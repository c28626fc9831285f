"""What a Temporal history records about the worker: build, deployment, SDK. It becomes the log's manifest."""

from __future__ import annotations

from typing import Any

from pytest_loom.sources.temporal.enums import VERSIONING_BEHAVIOR, enum_name
from pytest_loom.sources.temporal.history import Run
from pytest_loom.sources.temporal.protojson import Fields, Malformed

_TOLD_BY = frozenset({"WorkflowExecutionStarted", "WorkflowTaskCompleted"})
_NEWER = frozenset(
    {
        *("deploymentVersion", "deployment", "inheritedPinnedVersion", "workerDeploymentVersion", "workerVersion"),
        *("workerVersioningId", "inheritedBuildId", "sourceVersionStamp", "workerDeploymentName"),
        "versioningBehavior",
    }
)
_OF_WORKER = _NEWER | {"binaryChecksum"}
"""The fields that tell of the worker; most events have none of them, and old ones the last alone."""
_VERSIONING = frozenset(
    {"versioningBehavior", "versioningOverride", "unsetVersioningOverride", "inheritedPinnedVersion"}
)
_PINNING = _TOLD_BY | {"WorkflowExecutionOptionsUpdated"}


def manifest_of(run: Run) -> dict[str, Any]:
    """``runtimeBuild``, ``deployment``, ``versioningBehavior`` and ``sdk`` as the last task that tells them has them.

    ``pinnedTo`` names the worker deployment version on which the run stays. Only what is recorded; ``sdk`` is
    ``{"name", "version", "coreUsedFlags", "langUsedFlags"}``, the flags summed over the run, since each is written once
    and holds from then on.
    """
    manifest: dict[str, Any] = {}
    sdk: dict[str, Any] = {}
    flags: dict[str, set[int]] = {"coreUsedFlags": set(), "langUsedFlags": set()}
    for event in run.events:
        if event.kind not in _TOLD_BY:
            continue
        try:
            if event.attributes.has_any(_OF_WORKER):
                manifest |= _worker(event.attributes)
            if event.attributes.raw("sdkMetadata") is None:
                continue
            metadata = event.attributes.message("sdkMetadata")
            told = {"name": metadata.text("sdkName"), "version": metadata.text("sdkVersion")}
            sdk |= {name: value for name, value in told.items() if value}
            for name, seen in flags.items():
                seen.update(metadata.integers(name))
        except Malformed as problem:
            problem.event_id = event.event_id
            raise
    sdk |= {name: sorted(seen) for name, seen in flags.items() if seen}
    pinned = _pinned_to(run)
    return manifest | ({"pinnedTo": pinned} if pinned else {}) | ({"sdk": sdk} if sdk else {})


def _pinned_to(run: Run) -> str:
    """The version that the server keeps the run on: what an operator set goes before what the worker's code says.

    A run that another one pinned (its parent, or the one that it continues) is pinned until a worker says otherwise.
    """
    told, override = "", None
    for event in run.events:
        fields = event.attributes
        if event.kind not in _PINNING or not fields.has_any(_VERSIONING):
            continue
        if fields.raw("inheritedPinnedVersion") is not None:
            told = _version(fields.message("inheritedPinnedVersion"))
        if event.kind == "WorkflowTaskCompleted" and fields.raw("versioningBehavior") is not None:
            behavior = enum_name(fields.raw("versioningBehavior"), VERSIONING_BEHAVIOR, fields.name)
            worker = _worker(fields)
            name = f"{worker.get('deployment', '')}:{worker.get('runtimeBuild', '')}".strip(":")
            told = (name or "its worker") if behavior == "Pinned" else ""
        if fields.flag("unsetVersioningOverride"):
            override = None
        if fields.raw("versioningOverride") is not None:
            override = _override(fields.message("versioningOverride"))
    return told if override is None else override


def _override(fields: Fields) -> str:
    """The version that an override pins to, in the form of today and in that of 2024; "" for one to auto-upgrade."""
    pinned = fields.message("pinned").message("version")
    if fields.raw("pinned") is not None:
        return _version(pinned)
    if enum_name(fields.raw("behavior"), VERSIONING_BEHAVIOR, fields.name) == "Pinned":
        return fields.text("pinnedVersion") or _worker(fields).get("runtimeBuild", "") or "its worker"
    return ""


def _version(fields: Fields) -> str:
    return f"{fields.text('deploymentName')}:{fields.text('buildId')}".strip(":") or "its worker"


def _worker(fields: Fields) -> dict[str, Any]:
    """Build id and deployment out of any of the fields that have held them over the years, the newest first."""
    if fields.raw("binaryChecksum") and not fields.has_any(_NEWER):
        return {"runtimeBuild": fields.text("binaryChecksum")}
    version, deployment = fields.message("deploymentVersion"), fields.message("deployment")
    pinned = fields.message("inheritedPinnedVersion")
    builds = (
        version.text("buildId"),
        deployment.text("buildId"),
        fields.text("workerDeploymentVersion"),
        fields.message("workerVersion").text("buildId"),
        fields.message("workerVersioningId").text("workerBuildId"),
        fields.text("binaryChecksum"),
        pinned.text("buildId"),
        fields.text("inheritedBuildId"),
        fields.message("sourceVersionStamp").text("buildId"),
    )
    deployments = (
        version.text("deploymentName"),
        fields.text("workerDeploymentName"),
        deployment.text("seriesName"),
        pinned.text("deploymentName"),
    )
    told = {
        "runtimeBuild": next(filter(None, builds), ""),
        "deployment": next(filter(None, deployments), ""),
        "versioningBehavior": enum_name(fields.raw("versioningBehavior"), VERSIONING_BEHAVIOR, fields.name),
    }
    return {name: value for name, value in told.items() if value}


def reset_run_id(run: Run) -> str:
    """The id of the run that a reset made out of an older one; ``""`` where there was no reset.

    Such a run keeps the older one's ``originalExecutionRunId``, which seeds its random numbers.
    """
    ids = [event.attributes.text("newRunId") for event in run.events if event.kind == "WorkflowTaskFailed"]
    return next((run_id for run_id in reversed(ids) if run_id), "")
