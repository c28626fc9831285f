"""Which recorded runs are meant: those that a command is given, else those that ``loom_logs`` names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_loom.cli.settings import Settings
from pytest_loom.errors import LogError
from pytest_loom.sources import find_files, is_address, readers_of

DEFAULT_LOGS = ("**/*.loom.jsonl", "**/*.loom.jsonl.gz")
"""Where ``loom_logs`` is not set; the plugin has the same."""


def places_of(sources: Iterable[str]) -> list[str]:
    """The files and addresses of sources that were typed. Raises LogError for one that is not there."""
    found: dict[str, None] = {}
    for source in sources:
        if is_address(source):
            readers_of(source)
            found[source] = None
            continue
        files = find_files(source)
        if files == [Path(source)] and not Path(source).exists():
            raise LogError("there is no such file or folder", path=source)
        found.update(dict.fromkeys(map(shown, files)))
    return list(found)


def configured(settings: Settings) -> Iterator[tuple[str, list[str]]]:
    """Each pattern of ``loom_logs`` with the files that it matches, or the address that it is."""
    for pattern in settings.lines("loom_logs") or DEFAULT_LOGS:
        try:
            yield pattern, [pattern] if is_address(pattern) else [*map(shown, find_files(pattern, root=settings.base))]
        except LogError:
            yield pattern, []


def shown(file: Path) -> str:
    """A file as it is called from here where it lies below, else by its whole path."""
    path, here = os.path.abspath(file), os.path.join(os.getcwd(), "")
    return path.removeprefix(here)
