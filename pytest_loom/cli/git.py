"""What git says of a folder, where there is a repository: its state, and what it ignores."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

_GIT_SECONDS = 10


def git_state(folder: Path) -> dict[str, Any] | None:
    """``{"revision", "dirty"}`` of the repository that ``folder`` is in; None where there is none, or git says nothing.

    git runs only where there is a repository, without a shell, and not for long; what a repository's own configuration
    would have it run is switched off.
    """
    if not _in_repository(folder):
        return None
    revision = _git(folder, "rev-parse", "HEAD")
    if revision is None:
        return None
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision.strip(), "dirty": None if status is None else bool(status.strip())}


def is_ignored(file: Path) -> bool | None:
    """Whether git ignores a file, which need not be there; None where there is no repository, or no git."""
    folder = file.absolute().parent
    if not _in_repository(folder) or _git(folder, "rev-parse", "--git-dir") is None:
        return None
    return _git(folder, "check-ignore", "--no-index", "--", file.name) is not None


def _git(folder: Path, *words: str) -> str | None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _in_repository(folder: Path) -> bool:
    return any(os.path.lexists(parent / ".git") for parent in (folder, *folder.parents))
