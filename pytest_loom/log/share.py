"""A share of a large log: the runs whose keys lie in one range of many, so that workers and machines divide the work.

The key of a run is a hash of its id, so that shares are alike in size whatever the ids look like, and that a run
belongs to one share and to no other however a live store changes meanwhile. PostgreSQL can compute it too.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

KEYS = 2**32
MAX_SHARDS = 10_000
"""Into how many shares people may divide."""


class Share(NamedTuple):
    """The share ``number`` (from 0) of ``of`` equal ones."""

    number: int
    of: int

    @property
    def begin(self) -> int:
        """The first key of its range."""
        return -(-self.number * KEYS // self.of)

    @property
    def end(self) -> int:
        """The first key behind its range."""
        return -(-(self.number + 1) * KEYS // self.of)

    def holds(self, execution_id: str) -> bool:
        """Whether a run is in it. What belongs to no run (a broken file) is in the first share."""
        return self.begin <= key_of(execution_id) < self.end if execution_id else not self.number

    def part(self, other: Share) -> Share:
        """The share ``other`` of this share."""
        return Share(self.number * other.of + other.number, self.of * other.of)


def share_of(text: str) -> Share:
    """``K/N``, as people write it: the K-th of N shares, counted from 1. Raises ValueError."""
    number, slash, of = text.partition("/")
    if not (slash and number.isascii() and of.isascii() and number.isdecimal() and of.isdecimal()):
        raise ValueError("it has to be K/N, such as 3/64")
    if not 1 <= int(number) <= int(of) <= MAX_SHARDS:
        raise ValueError(f"K goes from 1 to N, and N to {MAX_SHARDS}")
    return Share(int(number) - 1, int(of))


def key_of(execution_id: str) -> int:
    """The key of a run: the first four bytes of its id's MD5, as a number."""
    digest = hashlib.md5(execution_id.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")
