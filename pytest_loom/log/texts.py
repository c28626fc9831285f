"""Reading ``*.loom.jsonl`` for a simulation: runs that are like one that is known are told by their text alone.

A first pass sees whose the lines are, a second one takes run after run: what its ``Book`` knows is handed out as a
``Hit``, all else is read as ``read_jsonl`` reads it. Memory follows the longest run; files up to ``WHOLE_FILE`` are
kept between the passes. A file with any line that is not one plain value is left to ``read_jsonl`` altogether, so that
what is said of damage, and in which order, is the same.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from gzip import GzipFile
from itertools import compress, islice
from operator import ne, not_
from pathlib import Path
from typing import IO, NamedTuple

from pytest_loom.errors import LogError
from pytest_loom.log.alike import Alike, Book, Hit, Template
from pytest_loom.log.event import UNDECODABLE, Log
from pytest_loom.log.files import BOM, line_blocks, open_log
from pytest_loom.log.read import (
    WHOLE_FILE,
    Changed,
    FileFacts,
    Group,
    check_unchanged,
    decode_heads,
    facts_of,
    finish,
    is_one_a_line,
    read_block,
    read_jsonl,
    repeated,
    stretches_of,
)
from pytest_loom.log.share import Share


class Text(NamedTuple):
    """A run that was read the long way, with its text, and what may be made of the two."""

    log: Log
    text: bytes
    template: type[Alike] = Template


@dataclass
class _Index:
    """Who stands where: for each stretch of lines of one execution the hash of its id, and how many lines it has.

    ``others`` says of each, where only a share is wanted, whether it is outside of that. ``blocks`` are the file's,
    with their numbers of lines, where it is small enough to keep them.
    """

    facts: FileFacts
    owners: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("I"))
    others: array[int] = field(default_factory=lambda: array("b"))
    blocks: list[tuple[int, bytes]] | None = field(default_factory=list)


def read_texts(path: Path, book: Book, share: Share | None = None) -> Iterator[Log | LogError | Text | Hit]:
    """Every execution of one ``.jsonl`` file, or of the share, in the order of ``read_jsonl``: as a Hit where ``book``
    knows it."""
    try:
        index = _index(path, share)
        if index is None:
            yield from read_jsonl(path, share)
            return
        yield from _walk(index, path, book)
    except LogError as error:
        if share is None or share.holds(error.execution_id) or isinstance(error, Changed):
            yield error


def _index(path: Path, share: Share | None) -> _Index | None:
    """The first pass; None where a line is not one plain value, or the file cannot be read: ``read_jsonl`` says why."""
    current = ""
    size = 0
    holds = None if share is None else lru_cache(1 << 16)(share.holds)  # lines of few runs come among each other
    try:
        with open_log(path) as stream:
            index = _Index(facts_of(stream))
            if not isinstance(stream, GzipFile) and index.facts[2] > WHOLE_FILE + len(BOM):
                index.blocks = None  # which would turn out later
            for _, lines, block in line_blocks(stream, path):
                try:
                    heads = decode_heads(block)
                except UNDECODABLE:
                    return None
                if not is_one_a_line(block, len(heads), lines):
                    return None
                size += len(block)
                if index.blocks is not None:
                    index.blocks.append((lines, block))
                    if size > WHOLE_FILE:
                        index.blocks = None
                names = [head.execution_id for head in heads]
                starts = [0, *compress(range(1, lines), map(ne, names, islice(names, 1, None)))]
                sizes = [1] * lines
                if len(starts) < lines:  # else each line is another's than the one before
                    sizes = [end - start for start, end in zip(starts, [*starts[1:], lines], strict=True)]
                    names = [names[start] for start in starts]
                if names[0] == current:
                    index.counts[-1] += sizes.pop(0)
                    del names[0]
                index.owners.extend(map(hash, names))
                index.counts.extend(sizes)
                if holds is not None:
                    index.others.extend(map(not_, map(holds, names)))
                current = heads[-1].execution_id
    except LogError:
        return None
    return index if index.owners else None


def _walk(index: _Index, path: Path, book: Book) -> Iterator[Log | LogError | Text | Hit]:
    """The second pass."""
    scattered = repeated(index.owners)
    with ExitStack() as stack:
        stream = None if index.blocks is not None else stack.enter_context(open_log(path))
        blocks = _kept(index) if stream is None else _again(index, path, stream)
        yield from _mixed(index, scattered, blocks, path, book) if scattered else _in_turn(index, blocks, path, book)


def _in_turn(
    index: _Index, blocks: Iterator[tuple[int, bytes]], path: Path, book: Book
) -> Iterator[Log | LogError | Text | Hit]:
    """Executions whose lines are all together."""
    reading = _Reading(blocks, path)
    line = 1
    for place, count in enumerate(index.counts):
        numbers = range(line, line + count)
        line += count
        is_others = index.others and index.others[place]
        found = reading.take(numbers, None if is_others else book)
        if isinstance(found, Hit):
            yield found
        elif not is_others:
            yield from _long_way([_Piece(numbers, found)], path)


def _mixed(
    index: _Index, scattered: set[int], blocks: Iterator[tuple[int, bytes]], path: Path, book: Book
) -> Iterator[Log | LogError | Text | Hit]:
    """Executions among each other, each of which waits for its last line.

    In a file that is kept they come in the order of their first lines, else of their last ones, as in ``read_jsonl``.
    """
    left = Counter(owner for owner in index.owners if owner in scattered) if index.blocks is None else None
    waiting: dict[int, tuple[list[bytes], list[int]]] = {}
    others = index.others
    lines: list[bytes] = []
    at, number, uncut = 0, 1, 0
    for place, (owner, count) in enumerate(zip(index.owners, index.counts, strict=True)):
        while at + count > len(lines):
            block = next(blocks)[1].split(b"\n")
            if block[-1]:  # the file does not end with a newline
                uncut = number + len(lines) - at + len(block) - 1
            else:
                del block[-1]
            lines, at = lines[at:] + block, 0
        if not others or not others[place]:
            found = waiting.get(owner)
            if found is None:
                found = waiting[owner] = ([], [])
            if count == 1:
                found[0].append(lines[at])
                found[1].append(number)
            else:
                found[0].extend(lines[at : at + count])
                found[1].extend(range(number, number + count))
            if left is not None:
                if owner in scattered:
                    left[owner] -= 1
                if not left[owner]:
                    yield from _joined(*waiting.pop(owner), uncut, path, book)
        at += count
        number += count
    for texts, numbers in waiting.values():
        yield from _joined(texts, numbers, uncut, path, book)


class _Piece(NamedTuple):
    numbers: range
    text: bytes


def _joined(
    lines: list[bytes], numbers: list[int], uncut: int, path: Path, book: Book
) -> Iterator[Log | LogError | Text | Hit]:
    """An execution whose lines came in pieces. ``uncut`` is the number of a line that ends without a newline."""
    text = b"\n".join(lines) + (b"" if numbers[-1] == uncut else b"\n")
    hit = book.find(text, 0, str(path), numbers) if _is_utf8(text) else None
    if hit is not None and hit.end == len(text):
        yield hit
        return
    pieces = []
    at = 0
    for line, number in zip(lines, numbers, strict=True):
        end = at + len(line) + (number != uncut)
        pieces.append(_Piece(range(number, number + 1), text[at:end]))
        at = end
    yield from _long_way(pieces, path)


def _long_way(pieces: list[_Piece], path: Path) -> Iterator[Log | LogError | Text]:
    """An execution, or whatever its lines are, as ``read_jsonl`` gives it."""
    groups: dict[str, Group] = {}
    for piece in pieces:
        for name, items in stretches_of(read_block(piece.text, piece.numbers.start, len(piece.numbers), str(path))):
            groups.setdefault(name, Group(name)).take(items)
    for group in groups.values():
        found = finish(group, path)
        if isinstance(found, Log) and len(groups) == 1:
            yield Text(found, pieces[0].text if len(pieces) == 1 else b"".join(piece.text for piece in pieces))
        else:
            yield found


class _Reading:
    """The file's text as it goes by, block by block."""

    def __init__(self, blocks: Iterator[tuple[int, bytes]], path: Path) -> None:
        self._path = str(path)
        self._text = b""
        self._at = 0
        self._is_ascii = True
        self._blocks = blocks

    def take(self, numbers: range, book: Book | None) -> Hit | bytes:
        """The next lines: as the run that they are, where ``book`` knows it, else their text."""
        lines = len(numbers)
        if book is not None:
            hit = book.find(self._text, self._at, self._path, numbers)
            if hit is not None and (self._is_ascii or _is_utf8(self._text[self._at : hit.end])):
                self._at = hit.end
                return hit
        end = self._end(lines)
        if end:
            text = self._text[self._at : end]
            self._at = end
            return text
        text = self._over_the_edge(lines)
        hit = None if book is None else book.find(text, 0, self._path, numbers)
        return hit if hit is not None and hit.end == len(text) and _is_utf8(text) else text

    def _end(self, lines: int) -> int:
        """Where the next lines end; 0 where not all of them are in this block."""
        at = self._at
        for _ in range(lines):
            at = self._text.find(b"\n", at) + 1
            if not at:
                return 0
        return at

    def _over_the_edge(self, lines: int) -> bytes:
        """Lines that begin in this block and end in another one, which is the current one then."""
        parts = [self._text[self._at :]]
        lines -= parts[0].count(b"\n")
        while True:
            count, self._text = next(self._blocks, (lines, b""))
            self._at = 0
            if count >= lines:
                self._at = self._end(lines) or len(self._text)
                self._is_ascii = self._text.isascii()
                parts.append(self._text[: self._at])
                return b"".join(parts)
            parts.append(self._text)
            lines -= count


def _kept(index: _Index) -> Iterator[tuple[int, bytes]]:
    """The blocks that were kept, each let go as the next one is asked for."""
    blocks, index.blocks = index.blocks or [], []
    blocks.reverse()
    while blocks:
        yield blocks.pop()


def _again(index: _Index, path: Path, stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The blocks of a file that is read a second time. Raises LogError where it is not the same any more."""
    for _, lines, block in line_blocks(stream, path):
        check_unchanged(stream, index.facts, path)
        yield lines, block


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
