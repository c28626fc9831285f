"""``loom-import.json`` beside imported goldens: from where, with what, and at which state of the code they were taken.

One entry an import, told by its sources and filters: importing again replaces its own. ``capturedAt`` is all that
differs between two imports of the same.
"""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_loom.errors import LoomError
from pytest_loom.log.files import locked, write_atomically
from pytest_loom.sources import SIDECAR

_PACKAGES = {
    "dbos": ("dbos",),
    "langgraph": ("langgraph", "langgraph-checkpoint", "langchain-core"),
    "openai-agents": ("openai-agents",),
    "pydantic_ai": ("pydantic-ai", "pydantic-ai-slim", "pydantic-graph"),
    "temporal": ("temporalio",),
}
"""By the source of a run: the packages whose versions say what wrote it, or would read it here."""

_MAX_BYTES = 64 * 1024 * 1024


def write_sidecar(folder: Path, entry: dict[str, Any]) -> Path:
    """Put an import's entry among those of the folder. Raises LoomError where a file that is none of ours is there."""
    path = folder / SIDECAR
    with locked(path):
        entries = [one for one in _entries(path) if _identity(one) != _identity(entry)]
        entries = sorted([*entries, entry], key=_identity)
        text = json.dumps({"schema": 1, "imports": entries}, indent=2, sort_keys=True, ensure_ascii=False)
        write_atomically(path, f"{text}\n".encode("utf-8", "replace"))
    return path


def versions(sources: set[str]) -> dict[str, str]:
    """The versions of pytest-loom and of the packages of these sources, as far as they are installed here."""
    names = ["pytest-loom", *(name for source in sorted(sources) for name in _PACKAGES.get(source, ()))]
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def python_version() -> str:
    """The version of Python."""
    return platform.python_version()


def _identity(entry: dict[str, Any]) -> str:
    return json.dumps([entry.get("sources"), entry.get("asked")], sort_keys=True)


def _entries(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        with path.open("rb") as stream:
            data = json.loads(stream.read(_MAX_BYTES))
        entries = data["imports"]
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        hint = "Take it away, or restore it: it is never overwritten unread."
        raise LoomError("this is not what an import writes", path=str(path), hint=hint) from None
    return entries
