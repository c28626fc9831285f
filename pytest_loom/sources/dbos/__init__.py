"""DBOS system databases as logs, without dbos: SQLite files and PostgreSQL, of DBOS 2.x and 3.x.

A workflow is a run. Nothing is unpickled: ``pickles.py`` shows what a pickle says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.share import Share
from pytest_loom.sources.databases import SCHEMES, NotMine, has_tables, masked
from pytest_loom.sources.dbos import tables
from pytest_loom.sources.dbos.mapping import to_log

__all__ = ["DBOSSource", "source"]

_TABLES = ("workflow_status", "operation_outputs")
"""Every system database has them."""


class DBOSSource:
    """Reads the system database of DBOS."""

    name = "dbos"
    engine: Engine = "journal"
    live = True
    suffixes = (".sqlite", ".sqlite3", ".db")
    schemes = SCHEMES

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether it is a SQLite database with DBOS's tables."""
        return has_tables(path, head, *_TABLES)

    def read(self, path: Path, share: Share | None = None) -> Iterator[Log | LogError]:
        """Every workflow of the file, or of a share of it, one at a time."""
        try:
            for rows in tables.read_file(path, share):
                yield to_log(rows, str(path))
        except LogError as error:
            error.path = error.path or str(path)
            yield error

    def read_address(self, address: str, share: Share | None = None) -> Iterator[Log | LogError]:
        """Every workflow of a PostgreSQL database, or of a share, one at a time; the password is in no text.

        Raises NotMine where DBOS has no tables in it.
        """
        name = masked(address)
        try:
            for rows in tables.read_address(address, share):
                yield to_log(rows, name)
        except NotMine as error:
            error.path = error.path or name
            raise
        except LogError as error:
            error.path = error.path or name
            yield error

    read_share = read
    read_address_share = read_address


source = DBOSSource()
