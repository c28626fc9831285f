"""Rows of a report that may be many: the first ones in memory, all others in a temporary file.

A simulation of a million runs holds no more of them than one of twenty thousand. The file has no name, so that nothing
is left behind whatever ends the process. Rows that go from one report to another (of a part to the whole, out of the
cache, from a worker) go as the bytes that they are in the file, and are not read on the way.
"""

from __future__ import annotations

import heapq
import itertools
import os
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, TypeVar

import msgspec

T = TypeVar("T")

IN_MEMORY = 20_000
"""How many rows are kept as objects."""

_BLOCK = 1 << 13
_COPIED = 1 << 20

Kind = tuple[str, ...]
"""What rows are counted by."""


class Packed(msgspec.Struct):
    """What is in the bytes of ``Rows.packed``: so many sorted chunks of so many bytes, and those in no chunk."""

    chunks: list[int]
    last: int
    count: int
    kinds: list[tuple[list[str], int]]


class Rows(Sequence[T]):
    """Rows of one dataclass: what a list of them is used for, without a bound on their number.

    ``key`` is the order of ``in_order``. Iterating gives the rows as they were added, and, once there are more than
    ``IN_MEMORY``, in that order. ``kinds`` counts them by what ``kind_of`` says of each.
    """

    def __init__(
        self,
        kind: type[T],
        key: Callable[[T], Any],
        rows: Iterable[T] = (),
        kind_of: Callable[[T], Kind] = lambda row: (),
    ) -> None:
        self.kind = kind
        self.key = key
        self.kind_of = kind_of
        self.kinds: Counter[Kind] = Counter()
        self._last: list[T] = []
        self._chunks: list[tuple[int, int]] = []
        self._file: IO[bytes] | None = None
        self._count = 0
        self.extend(rows)

    def like(self, rows: Iterable[T]) -> Rows[T]:
        """Other rows of the same kind, in the same order."""
        return Rows(self.kind, self.key, rows, self.kind_of)

    def append(self, row: T) -> None:
        """Add one row."""
        self.kinds[self.kind_of(row)] += 1
        self._count += 1
        self._last.append(row)
        if len(self._last) > IN_MEMORY:
            self._spill()

    def extend(self, rows: Iterable[T]) -> None:
        """Add rows."""
        is_alike = isinstance(rows, Rows) and (rows.key, rows.kind_of) == (self.key, self.kind_of)
        if is_alike and isinstance(rows, Rows) and rows._file is not None:
            facts, pieces = rows.packed()
            self.unpack(facts, pieces)
            return
        for row in rows:
            self.append(row)

    def packed(self) -> tuple[Packed, Iterator[bytes]]:
        """What ``unpack`` takes: the facts about the rows' bytes, and these bytes in pieces."""
        last = b"".join(msgspec.json.encode(row) + b"\n" for row in self._last)
        kinds = [(list(kind), count) for kind, count in sorted(self.kinds.items())]
        facts = Packed([end - begin for begin, end in self._chunks], len(last), self._count, kinds)
        chunks = (piece for begin, end in self._chunks for piece in self._bytes(begin, end, _COPIED))
        return facts, itertools.chain(chunks, [last])

    def unpack(self, facts: Packed, pieces: Iterable[bytes]) -> None:
        """Add the rows of another one, whose order is the same."""
        total = sum(facts.chunks)
        left, last = total, b""
        for piece in pieces:
            if left:
                self._at_end().write(piece[:left])
            last += piece[left:]
            left -= min(left, len(piece))
        if left or len(last) != facts.last:
            raise ValueError("rows of a report are cut short")
        begin = self._at_end().tell() - total if total else 0
        for size in facts.chunks:
            self._chunks.append((begin, begin + size))
            begin += size
        decoder = msgspec.json.Decoder(self.kind)
        self._last += map(decoder.decode, last.split(b"\n")[:-1])
        self.kinds.update({tuple(kind): count for kind, count in facts.kinds})
        self._count += facts.count
        if len(self._last) > IN_MEMORY:
            self._spill()

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
        facts, pieces = self.packed()
        return _unpacked, (self.kind, self.key, self.kind_of, facts, b"".join(pieces))

    def in_order(self) -> Iterator[T]:
        """The rows sorted by ``key``, a block of each chunk in memory at a time."""
        chunks = [self._chunk(begin, end) for begin, end in self._chunks]
        return heapq.merge(*chunks, sorted(self._last, key=self.key), key=self.key)

    def _at_end(self) -> IO[bytes]:
        """The temporary file, where more is written."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="pytest-loom-")  # noqa: SIM115  # lives as long as the rows
            weakref.finalize(self, self._file.close)
        self._file.seek(0, os.SEEK_END)
        return self._file

    def _spill(self) -> None:
        file = self._at_end()
        begin = file.tell()
        encoder = msgspec.json.Encoder()
        for row in sorted(self._last, key=self.key):
            file.write(encoder.encode(row) + b"\n")
        file.flush()
        self._chunks.append((begin, file.tell()))
        self._last = []

    def _chunk(self, begin: int, end: int) -> Iterator[T]:
        """The rows of one sorted part of the file."""
        decoder = msgspec.json.Decoder(self.kind)
        rest = b""
        for block in self._bytes(begin, end, _BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            yield from map(decoder.decode, lines)

    def _bytes(self, begin: int, end: int, size: int) -> Iterator[bytes]:
        """A part of the file in blocks of that size."""
        assert self._file is not None
        while begin < end:
            self._file.seek(begin)  # other parts are read in turn
            block = self._file.read(min(size, end - begin))
            if not block:
                raise OSError("the temporary file of the report was cut short")
            begin += len(block)
            yield block


def _unpacked(
    kind: type[T], key: Callable[[T], Any], kind_of: Callable[[T], Kind], facts: Packed, data: bytes
) -> Rows[T]:
    made: Rows[T] = Rows(kind, key, kind_of=kind_of)
    made.unpack(facts, [data])
    return made
