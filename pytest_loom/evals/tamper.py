"""Another value of the same kind for a recorded one: what a mutant of a log has in its place.

Of the same kind, so that it is noticed because somebody compares it, not because it cannot be read.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from pytest_loom.evals.paths import Path

MAX_LEAVES = 200
"""How many leaves of one value are looked at."""

WORD = "mutant"


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The leaves of JSON data with their paths, an empty container being one; null says nothing and is left out."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif value is not None:
        yield path, value


def other(value: Any) -> Any:
    """Another value of the same kind: the opposite, the next number, the next day, another word."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if value + 1 != value else value / 2
    if isinstance(value, str):
        return _other_text(value)
    return {WORD: True} if isinstance(value, dict) else [WORD] if isinstance(value, list) else WORD


def _other_text(text: str) -> str:
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", text, re.ASCII):
        last = int(text[-1])
        return text[:-1] + str(last - 1 if last else 1)
    for kind in (date, datetime):
        try:
            return (kind.fromisoformat(text) + timedelta(days=1)).isoformat()
        except (ValueError, OverflowError):
            continue
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text):
        return str(uuid.UUID(int=uuid.UUID(text).int ^ 1))
    return WORD if text != WORD else f"{WORD} 2"


def with_leaf(value: Any, path: Path, new: Any) -> Any:
    """The value with another one at ``path``; what is not on the way there is shared."""
    if not path:
        return new
    copy: Any = value.copy()
    copy[path[0]] = with_leaf(value[path[0]], path[1:], new)
    return copy


def all_other(value: Any) -> Any:
    """The value with each of its leaves changed."""
    if isinstance(value, dict) and value:
        return {key: all_other(inner) for key, inner in value.items()}
    if isinstance(value, list) and value:
        return [all_other(inner) for inner in value]
    return value if value is None else other(value)
