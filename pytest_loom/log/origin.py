"""Where an imported run came from: its manifest says which source read it, and how that engine resumes.

A golden log is a file of ours, whatever wrote the run. Names in it are data: only known ones count (``sources.loom``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pytest_loom.log.event import Event, Log

SOURCE, ENGINE, CONTRACT = "source", "engine", "capturedContract"
"""What the manifest of an imported run says: its source, its engine, the fingerprint of the contract that it was on."""


def origin_of(log: Log) -> str:
    """The source that an imported run was read from; "" for a run that was not imported.

    The engine's own record of an imported run is not at hand: only what its log says can be judged.
    """
    said = _manifest(log.events[0]).get(SOURCE)
    return said if isinstance(said, str) else ""


def with_origin(log: Log, facts: Mapping[str, str]) -> Log:
    """The run with ``facts`` in its manifest. Raises LogError where its first payload cannot be decoded.

    How far a Temporal run's code has seen (``seenTo``) counts its history's events before, and the log's from then on.
    """
    first = log.events[0]
    if not facts or first.event_type != "EXECUTION_STARTED":
        return log
    payload = first.payload
    manifest = payload.get("manifest")
    temporal = payload.get("temporal")
    seen = temporal.get("seenTo") if isinstance(temporal, dict) else None
    if SOURCE in facts and not origin_of(log) and isinstance(temporal, dict) and isinstance(seen, int):
        payload["temporal"] = {**temporal, "seenTo": sum(event.line <= seen for event in log.events)}
    payload["manifest"] = {**(manifest if isinstance(manifest, dict) else {}), **facts}
    event = msgspec.structs.replace(first, raw=msgspec.Raw(msgspec.json.encode(payload)))
    return Log([event, *log.events[1:]], path=log.path, source=log.source, engine=log.engine, live=log.live,
               notices=log.notices)  # fmt: skip


def said_origin(event: Event) -> tuple[Any, Any]:
    """What the first event of a log says of its source and engine, (None, None) where it says nothing."""
    manifest = _manifest(event)
    return manifest.get(SOURCE), manifest.get(ENGINE)


def may_say(text: bytes) -> bool:
    """Whether a payload has to be decoded to see if it says where its run came from."""
    return b'"source"' in text


def _manifest(event: Event) -> dict[str, Any]:
    if event.event_type != "EXECUTION_STARTED" or not may_say(bytes(event.raw)):
        return {}
    manifest = event.payload.get("manifest")
    return manifest if isinstance(manifest, dict) else {}
