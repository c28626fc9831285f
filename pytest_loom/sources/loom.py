"""pytest-loom's own format as a source: ``*.loom.jsonl``, one event a line.

A run that was imported says in its manifest which source it was read from, and counts as one of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from pytest_loom.errors import LogError, printable
from pytest_loom.log.alike import Hit
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.origin import said_origin
from pytest_loom.log.read import read_jsonl
from pytest_loom.log.share import Share
from pytest_loom.log.texts import Text, read_texts

if TYPE_CHECKING:
    from pytest_loom.sources import Wanted


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
        for item in read_jsonl(path):
            yield item if isinstance(item, LogError) else _as_imported(item)

    def read_wanted(self, path: Path, wanted: Wanted, share: Share | None) -> Iterator[Log | LogError | Text | Hit]:
        """The same, with runs that are known already told by their text alone."""
        for item in read_jsonl(path, share) if wanted.book is None else read_texts(path, wanted.book, share):
            if isinstance(item, Text):
                log = _as_imported(item.log)
                yield log if isinstance(log, LogError) else item
            else:
                yield _as_imported(item) if isinstance(item, Log) else item

    def read_share(self, path: Path, share: Share) -> Iterator[Log | LogError]:
        """The same for the executions of one share."""
        for item in read_jsonl(path, share):
            yield item if isinstance(item, LogError) else _as_imported(item)


def _as_imported(log: Log) -> Log | LogError:
    """The run with the source and engine that an import wrote down: names that are known, nothing else."""
    try:
        name, engine = said_origin(log.events[0])
    except LogError as error:
        return error
    if name is None and engine is None:
        return log
    from pytest_loom.sources import sources

    if engine in get_args(Engine) and any(name == one.name for one in sources()):
        log.source, log.engine = name, engine
    else:
        shown = printable(f"{name}, {engine}")
        log.notices += (f"its manifest names a source that is not known ({shown}): it is read as a log of one's own",)
    return log


source = LoomSource()
