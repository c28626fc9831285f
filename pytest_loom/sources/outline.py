"""Telling JSON formats apart by the keys at the beginning of a file, and by where these keys stand.

A word in a text proves nothing: traces and messages quote other formats. So sources ask for keys in their places.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_LEVELS = 5
"""How deep the keys are listed: formats differ near the top."""

_MAX_KEY = 80
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.|\\\Z)*+)(?:"(\s*:)?|\Z)|[{}\[\]]', re.DOTALL)
"""A string (with the colon that makes it a key) or a bracket. Possessive and closed by the end, so it is one pass."""


@lru_cache(maxsize=2)  # every source asks about one file in turn
def outline(head: bytes) -> frozenset[str]:
    """The keys of a JSON text that begins with ``head``, by their place: ``eval.task_id``, ``Events[].Id``.

    Several documents one after another (JSON lines) give the keys of all. Empty for what does not begin as JSON.
    """
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] not in (b"{", b"["):
        return frozenset()
    found: set[str] = set()
    places: list[str | None] = [""]  # None below MAX_LEVELS, where nothing is listed
    key = ""
    for token in _TOKEN.finditer(head):
        sign = token[0][:1]
        if sign == b'"':
            if token[2] is not None and places[-1] is not None:
                key = token[1][:_MAX_KEY].decode(errors="replace")
                found.add(f"{places[-1]}{key}")
        elif sign in b"{[":
            outer = places[-1]
            if outer is None or len(places) > MAX_LEVELS:
                places.append(None)
            elif sign == b"{":
                places.append(f"{outer}{key}." if key else outer)
            else:
                places.append(f"{outer}{key}[].")
            key = ""
        else:
            if len(places) > 1:
                places.pop()
            key = ""
    return frozenset(found)
