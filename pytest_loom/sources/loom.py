"""pytest-loom's own format as a source: ``*.loom.jsonl``, one event a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.read import read_jsonl
from pytest_loom.log.share import Share


class LoomSource:
    """Reads ``*.jsonl`` and ``*.jsonl.gz`` whose lines are events, and unfinished recordings (``*.partial``)."""

    name = "loom"
    engine: Engine = "journal"
    live = False
    suffixes = (".jsonl", ".jsonl.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Its own suffix is enough (then damage is named as damage); another file has to look like events."""
        named = path.name.removesuffix(".partial").removesuffix(".gz")
        if named.endswith(".loom.jsonl"):
            return True
        return all(field in head for field in (b'"executionId"', b'"eventType"', b'"sequence"'))

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """Each execution of the file, or what is wrong with it."""
        return read_jsonl(path)

    def read_share(self, path: Path, share: Share) -> Iterator[Log | LogError]:
        """The same for the executions of one share."""
        return read_jsonl(path, share)


source = LoomSource()
