"""The event schema: which kernel kinds exist and which schema versions are understood (DESIGN section 3).

The numbering continues Loom's own (ADR 0056 brought 1.15.0). A kind never disappears or changes meaning
within a MAJOR; a test pins the set.
"""

from __future__ import annotations

import re

from pytest_loom.errors import printable

SCHEMA_VERSION = "1.15.0"
"""The schema version that this package writes."""

KERNEL_PREFIXES = ("EXECUTION_", "STEP_", "TOOL_", "MODEL_", "DECISION_", "STATE_", "PLAN_")
"""Event types that start so belong to the kernel; an application cannot have one."""

PINNED_EVENT_TYPES = frozenset(
    {
        "EXECUTION_STARTED",
        "EXECUTION_SUSPENDED",
        "EXECUTION_RESUMED",
        "EXECUTION_MIGRATED",
        "EXECUTION_FORKED",
        "EXECUTION_CONTINUED",
        "EXECUTION_COMPLETED",
        "EXECUTION_FAILED",
        "EXECUTION_CANCELLED",
        "STEP_STARTED",
        "STEP_PROGRESS",
        "STEP_COMPLETED",
        "STEP_FAILED",
        "TOOL_REQUESTED",
        "TOOL_COMPLETED",
        "TOOL_FAILED",
        "MODEL_REQUESTED",
        "MODEL_COMPLETED",
        "MODEL_FAILED",
        "STATE_SNAPSHOT",
        "PLAN_RECORDED",
        "DECISION_RECORDED",
    }
)
"""The kernel kinds of MAJOR 1. Pinned: none is ever removed or given another meaning."""

_MAJOR = SCHEMA_VERSION.split(".", 1)[0]
_VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})", re.ASCII)


def known_event_types() -> frozenset[str]:
    """The kernel event kinds that this version can fold."""
    return PINNED_EVENT_TYPES


def is_kernel_type(event_type: str) -> bool:
    """Whether the name belongs to the kernel, known or not; all others are application events."""
    return event_type.startswith(KERNEL_PREFIXES)


def schema_problem(version: str) -> str | None:
    """Why a log of this schema version cannot be read, or None where it can.

    A newer MINOR only adds optional things, so it reads; another MAJOR may mean something else by the same words.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return f"schemaVersion {printable(version)!r} is not MAJOR.MINOR.PATCH"
    if match[1] != _MAJOR:
        return (
            f"schemaVersion {version} has another major version than the {SCHEMA_VERSION} that this pytest-loom reads"
        )
    return None


def is_newer_minor(version: str) -> bool:
    """Whether the version may carry optional fields that this package does not know."""
    return tuple(int(part) for part in version.split(".")[:2]) > tuple(
        int(part) for part in SCHEMA_VERSION.split(".")[:2]
    )
