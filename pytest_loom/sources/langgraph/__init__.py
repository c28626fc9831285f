"""LangGraph checkpoint stores as logs, without langgraph: SQLite files of every layout, and PostgreSQL.

A thread is a run. ``LangGraphSource(decrypt=...)`` reads what LangGraph's EncryptedSerializer wrote, too.

Threads that are over are read like others, also where a simulation asks for unfinished ones only: no column says that a
thread is over. It is when no channel was written that some node has not seen, which only the decoded checkpoint and the
writes beside it tell (``frontier``), in every namespace; a query that guessed it would lose waiting runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.share import Share
from pytest_loom.sources.databases import SCHEMES, NotMine, has_marks, masked
from pytest_loom.sources.langgraph import postgres
from pytest_loom.sources.langgraph.mapping import to_log
from pytest_loom.sources.langgraph.sqlite import read_rows
from pytest_loom.sources.langgraph.thread import CheckpointRow, WriteRow, read_thread
from pytest_loom.sources.langgraph.values import Decrypt, Undecodable

__all__ = ["LangGraphSource", "source"]

_MARK = b"checkpoint_ns"
"""A column that every store has had since LangGraph 0.2."""


class LangGraphSource:
    """Reads the checkpoints of ``SqliteSaver``. ``decrypt(tag, data)`` may open values whose tag ends in ``+aes``."""

    name = "langgraph"
    engine: Engine = "checkpoint"
    live = True
    suffixes = (".sqlite", ".sqlite3", ".db")
    schemes = SCHEMES

    def __init__(self, decrypt: Decrypt | None = None) -> None:
        self.decrypt = decrypt

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether it is a SQLite database whose schema, or the log of what is not yet moved into it, has the tables."""
        return has_marks(path, head, _MARK)

    def read(self, path: Path, share: Share | None = None) -> Iterator[Log | LogError]:
        """Every thread of the store, or of a share of it, one at a time."""
        name = str(path)
        try:
            for item in read_rows(path, share):
                yield item if isinstance(item, LogError) else self.log(*item, name)
        except LogError as error:
            yield error

    def read_address(self, address: str, share: Share | None = None) -> Iterator[Log | LogError]:
        """Every thread of a PostgreSQL store, or of a share, one at a time; the password is in no text.

        Raises NotMine where LangGraph has no tables in it.
        """
        name = masked(address)
        try:
            for item in postgres.read_rows(address, share):
                yield self.log(*item, name)
        except NotMine as error:
            error.path = error.path or name
            raise
        except LogError as error:
            error.path = error.path or name
            yield error

    read_share = read
    read_address_share = read_address

    def log(self, thread_id: str, rows: list[CheckpointRow], writes: list[WriteRow], path: str) -> Log | LogError:
        """One thread as a log."""
        try:
            return to_log(read_thread(thread_id, rows, writes, self.decrypt), path)
        except Undecodable as problem:
            return LogError(f"{problem}", path=path, execution_id=thread_id)


source = LangGraphSource()
