"""Where a finding is in the repository: the log's own line, else what was captured of the flow, else the settings.

Forms that other tools read name files from the root of the repository, wherever pytest was started.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from pytest_loom.contract.store import folder_name
from pytest_loom.deploy.report import DeployReport, Finding
from pytest_loom.errors import printable

_ROOTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Environment variables in which GitHub and GitLab name the folder of the checkout."""

_SETTINGS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_CONTRACTS = "loom-contracts"
_BY_LINE = (".jsonl", ".partial")
"""How files end of which a number behind their name is that of a line."""

_MAX_SETTINGS = 1_000_000


class Place(NamedTuple):
    """A line of a file; ``path`` is relative to the root of the repository, with slashes."""

    path: str
    line: int


class Places:
    """Where the findings of a report are; made where the report is written, in the folder that sources start from."""

    def __init__(self, report: DeployReport) -> None:
        self.here = os.path.realpath(os.getcwd())
        self.root = root_of(self.here)
        self._was = {changed.workflow_id: changed.was for changed in report.changed}
        self._settings: Place | None = None

    def of(self, found: Finding) -> Place:
        """The log's line where the log is a file of the repository; else the flow's contract, else the settings."""
        name, line = _split(found)
        path = self._relative(name)
        return Place(path, line) if path is not None else self._contract(found.workflow_id) or self.settings()

    def shown(self, found: Finding) -> str:
        """The source as people read it: no folder of this machine in it."""
        name, line = _split(found)
        path = self.named(name)
        return printable(f"{path}:{line}" if line > 1 else path, 200)

    def named(self, source: str) -> str:
        """A file or an address as people read it."""
        path = self._relative(source)
        if path is None:
            path = source if "://" in source else "/".join(Path(source).parts[-2:])
        return printable(path, 200)

    def said(self, text: str) -> str:
        """A message without the folders of this machine: files of the repository from its root."""
        return text.replace(os.path.join(self.root, ""), "") if len(self.root) > 1 else text

    def settings(self) -> Place:
        """The line of pytest's settings that names today's flows: the place of what has no other."""
        if self._settings is None:
            files = [Path(folder, name) for folder in (self.here, self.root) for name in _SETTINGS]
            found = (
                Place(path, line) for file in files if (path := self._relative(str(file))) and (line := _set(file))
            )
            self._settings = next(found, Place("pyproject.toml", 1))
        return self._settings

    def _contract(self, workflow_id: str) -> Place | None:
        was = self._was.get(workflow_id, "")
        file = Path(self.here, _CONTRACTS, folder_name(workflow_id), f"{was}.json")
        path = self._relative(str(file)) if was and file.is_file() else None
        return Place(path, 1) if path is not None else None

    def _relative(self, name: str) -> str | None:
        """A file's path from the root of the repository; None for one elsewhere, and for what is no file."""
        if not name or "://" in name:
            return None
        try:
            path = os.path.relpath(os.path.join(self.here, name), self.root)
        except ValueError:  # on another drive of Windows
            return None
        inside = not os.path.isabs(path) and path.split(os.sep)[0] != os.pardir
        return Path(path).as_posix() if inside and path != os.curdir else None


def root_of(here: str) -> str:
    """The folder that a repository's paths start from, as CI says it, else as git has it, else ``here``."""
    named = [os.path.realpath(os.environ[name]) for name in _ROOTS if os.environ.get(name)]
    above = [here, *map(str, Path(here).parents)]
    said = (folder for folder in named if folder in above)
    return next(said, None) or next((folder for folder in above if os.path.lexists(os.path.join(folder, ".git"))), here)


def _split(found: Finding) -> tuple[str, int]:
    """The file and the line of a finding's source; line 1 where none is known."""
    match = re.fullmatch(r"(..+):([0-9]{1,9})", found.source, re.S)
    name, line = (match[1], int(match[2])) if match and "://" not in match[1] else (found.source, found.line or 1)
    return name, max(line, 1) if name.endswith(_BY_LINE) else 1


def _set(file: Path) -> int:
    """The line of a file of settings that says loom_flows; 1 where it says nothing, 0 where there is no such file."""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            lines = stream.read(_MAX_SETTINGS).splitlines()
    except (OSError, ValueError):
        return 0
    return next((number for number, line in enumerate(lines, 1) if line.lstrip().startswith("loom_flows")), 1)
