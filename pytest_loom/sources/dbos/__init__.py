"""DBOS system databases as logs, without dbos: SQLite files and PostgreSQL, of DBOS 2.x and 3.x.

A workflow is a run. Nothing is unpickled: ``pickles.py`` shows what a pickle says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.share import Share
from pytest_loom.sources import OutOfScope, Wanted
from pytest_loom.sources.databases import SCHEMES, NotMine, has_tables, masked
from pytest_loom.sources.dbos import tables
from pytest_loom.sources.dbos.mapping import to_log

__all__ = ["DBOSSource", "source"]

_ALL = Wanted("all")

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
        return self.read_wanted(path, _ALL, share)

    def read_address(self, address: str, share: Share | None = None) -> Iterator[Log | LogError]:
        """Every workflow of a PostgreSQL database, or of a share, one at a time; the password is in no text.

        Raises NotMine where DBOS has no tables in it.
        """
        return self.read_address_wanted(address, _ALL, share)

    def read_wanted(self, path: Path, wanted: Wanted, share: Share | None) -> Iterator[Any]:
        """The same for a simulation: workflows that are over are not read where they are out of scope."""
        try:
            for rows in tables.read_file(path, share, unfinished=wanted.scope != "all"):
                yield rows if isinstance(rows, OutOfScope) else to_log(rows, str(path))
        except LogError as error:
            error.path = error.path or str(path)
            yield error

    def read_address_wanted(self, address: str, wanted: Wanted, share: Share | None) -> Iterator[Any]:
        """The same for a database."""
        name = masked(address)
        try:
            for rows in tables.read_address(address, share, unfinished=wanted.scope != "all"):
                yield rows if isinstance(rows, OutOfScope) else to_log(rows, name)
        except NotMine as error:
            error.path = error.path or name
            raise
        except LogError as error:
            error.path = error.path or name
            yield error

    read_share = read
    read_address_share = read_address


source = DBOSSource()
