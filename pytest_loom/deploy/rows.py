"""Rows of a report that may be many: the first ones in memory, all others in a temporary file.

A simulation of a million runs holds no more of them than one of twenty thousand. The file has no name, so that nothing
is left behind whatever ends the process.
"""

from __future__ import annotations

import heapq
import itertools
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, TypeVar

import msgspec

T = TypeVar("T")

IN_MEMORY = 20_000
"""How many rows are kept as objects."""

_BLOCK = 1 << 13


class Rows(Sequence[T]):
    """Rows of one dataclass: what a list of them is used for, without a bound on their number.

    ``key`` is the order of ``in_order``. Iterating gives the rows as they were added, and, once there are more than
    ``IN_MEMORY``, in that order.
    """

    def __init__(self, kind: type[T], key: Callable[[T], Any], rows: Iterable[T] = ()) -> None:
        self.kind = kind
        self.key = key
        self._last: list[T] = []
        self._chunks: list[tuple[int, int]] = []
        self._file: IO[bytes] | None = None
        self._count = 0
        self.extend(rows)

    def like(self, rows: Iterable[T]) -> Rows[T]:
        """Other rows of the same kind, in the same order."""
        return Rows(self.kind, self.key, rows)

    def append(self, row: T) -> None:
        """Add one row."""
        self._last.append(row)
        self._count += 1
        if len(self._last) > IN_MEMORY:
            self._spill()

    def extend(self, rows: Iterable[T]) -> None:
        """Add rows."""
        for row in rows:
            self.append(row)

    def __iadd__(self, rows: Iterable[T]) -> Rows[T]:
        self.extend(rows)
        return self

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return iter(self._last) if self._file is None else self.in_order()

    def __getitem__(self, index: Any) -> Any:
        if self._file is None or not isinstance(index, int):
            return (self._last if self._file is None else list(self))[index]
        position = index if index >= 0 else self._count + index
        if not 0 <= position < self._count:
            raise IndexError("there is no such row")
        return next(itertools.islice(self.in_order(), position, None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Rows, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._last) if self._file is None else f"<{self._count} rows of {self.kind.__name__}>"

    def __reduce__(self) -> Any:
        return (Rows, (self.kind, self.key, list(self)))

    def in_order(self) -> Iterator[T]:
        """The rows sorted by ``key``, a block of each chunk in memory at a time."""
        chunks = [self._chunk(begin, end) for begin, end in self._chunks]
        return heapq.merge(*chunks, sorted(self._last, key=self.key), key=self.key)

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="pytest-loom-")  # noqa: SIM115  # lives as long as the rows
            weakref.finalize(self, self._file.close)
        begin = self._file.seek(0, os.SEEK_END)
        encoder = msgspec.json.Encoder()
        for row in sorted(self._last, key=self.key):
            self._file.write(encoder.encode(row) + b"\n")
        self._file.flush()
        self._chunks.append((begin, self._file.tell()))
        self._last = []

    def _chunk(self, begin: int, end: int) -> Iterator[T]:
        """The rows of one sorted part of the file."""
        assert self._file is not None
        decoder = msgspec.json.Decoder(self.kind)
        rest = b""
        while begin < end:
            self._file.seek(begin)  # other parts are read in turn
            block = self._file.read(min(_BLOCK, end - begin))
            if not block:
                raise OSError("the temporary file of the report was cut short")
            begin += len(block)
            *lines, rest = (rest + block).split(b"\n")
            yield from map(decoder.decode, lines)
