"""File names for runs: readable, the same each time, and safe whatever the ids in the data say."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

SUFFIX = ".loom.jsonl"
_LONGEST = 80
_RESERVED = re.compile(
    r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|loom-contracts|__snapshots__|__pycache__|node_modules"
)
"""Names that Windows keeps for itself, and folders in which logs are never looked for."""


def readable(text: str) -> str:
    """``text`` as a name of letters, digits, ".", "_" and "-"; one that had to be changed ends in a hash of it."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
    cut = name[:_LONGEST].strip("-.")
    if cut == text and not _RESERVED.fullmatch(cut.lower()):
        return cut
    return f"{cut or 'run'}-{short_hash(text)}"


def short_hash(text: str) -> str:
    """Eight hex digits for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Names:
    """Names below ``folder``, no two of which are one file on a disk that does not tell capitals from small letters."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._taken: dict[str, dict[str, str]] = {}

    def of(self, workflow_id: str, wanted: str, identity: str) -> Path:
        """The file of a run: its flow's folder and the name that is ``wanted``.

        ``identity`` tells it from another run of that name; the same one gets the same file again.
        """
        inner = self._free(self.folder, readable(workflow_id), "", workflow_id)
        return self.folder / inner / self._free(self.folder / inner, readable(wanted), SUFFIX, identity)

    def _free(self, folder: Path, name: str, suffix: str, identity: str) -> str:
        taken = self._taken.setdefault(str(folder), {})
        if not taken:
            there = os.listdir(folder) if folder.is_dir() else []
            taken.update({one.lower(): f"on disk: {one}" for one in there})
        number = 1
        candidate = f"{name}{suffix}"
        while True:
            owner = taken.get(candidate.lower())
            if owner in (None, identity, f"on disk: {candidate}"):
                taken[candidate.lower()] = identity
                return candidate
            more = "" if number == 1 else f"-{number}"
            candidate = f"{name}-{short_hash(identity)}{more}{suffix}"
            number += 1
