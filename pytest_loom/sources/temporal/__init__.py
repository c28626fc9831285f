"""Temporal event histories as logs, without temporalio: JSON files of every shape and age, raw or decoded by the UI.

The runs of a namespace are read through temporalio's client, by an address (``namespace``).

``parse_history`` gives the events of each run, ``to_log`` makes a run a log, ``source`` is both behind one interface.
The ``line`` of a log's event, and of an error, is the id of the Temporal event it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_loom.errors import LogError
from pytest_loom.log.alike import Hit
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.log.share import Share
from pytest_loom.log.texts import Text
from pytest_loom.sources.temporal import namespace
from pytest_loom.sources.temporal.alike import HistoryTemplate, find
from pytest_loom.sources.temporal.history import HistoryEvent, Run, parse_history
from pytest_loom.sources.temporal.mapping import to_log
from pytest_loom.sources.temporal.sniff import looks_like_history

if TYPE_CHECKING:
    from pytest_loom.sources import Wanted

__all__ = ["HistoryEvent", "Run", "TemporalSource", "parse_history", "source", "to_log"]


class TemporalSource:
    """Reads the histories that ``temporal workflow show``, the web UI, the server and the SDKs write as JSON."""

    name = "temporal"
    engine: Engine = "journal"
    live = False
    takes_data = True
    suffixes = (".json", ".json.gz")
    schemes = namespace.SCHEMES
    masked = staticmethod(namespace.masked)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin a Temporal history, an empty one included."""
        return looks_like_history(head)

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Log | LogError]:
        """Each run of the file, or what is wrong with it; ``data`` is its decompressed content, if that is at hand."""
        name = str(path)
        content = _content(path, data)
        if isinstance(content, LogError):
            yield content
            return
        for run in parse_history(content, name):
            yield run if isinstance(run, LogError) else to_log(run, name)

    def read_wanted(
        self, path: Path, wanted: Wanted, share: Share | None, data: bytes | None = None
    ) -> Iterator[Log | LogError | Text | Hit]:
        """The same; a file with one history that is like one that is known is told by its text alone."""
        content = _content(path, data)
        if isinstance(content, LogError):
            yield content
            return
        book = wanted.book
        hit = None if book is None else find(book, content, str(path))
        if hit is not None:
            yield from () if share is not None and not share.holds(hit.execution_id) else (hit,)
            return
        items = [item for item in self.read(path, content) if share is None or share.holds(item.execution_id)]
        alone = items[0] if len(items) == 1 else None
        if book is not None and isinstance(alone, Log):
            yield Text(alone, content, HistoryTemplate)
        else:
            yield from items

    def read_address(self, address: str) -> Iterator[Log | LogError]:
        """Every run that a query finds in a namespace (``temporal://host:7233/namespace?query=…``), one at a time."""
        name = namespace.masked(address)
        try:
            for history in namespace.read_histories(address):
                for item in self.read(Path(name), history.encode()):
                    place = getattr(item, "path", "")
                    if isinstance(item, Log):
                        item.live, item.path = True, name
                    elif place:
                        item.path = name
                    yield item
        except LogError as error:
            error.path = error.path or name
            yield error


def _content(path: Path, data: bytes | None) -> bytes | LogError:
    """The decompressed content of a file, where it is not at hand, or why it cannot be read."""
    try:
        return read_document(path) if data is None else data
    except LogError as error:
        return error


source = TemporalSource()
