"""Plain JSON data looked at with suspicion: what has to have a shape is asked for, and anything else is Malformed."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pytest_loom.log.event import too_deep

MAX_DEPTH = 200
"""How deep a document may nest; what it holds is nested further in the log's payloads."""


class Malformed(Exception):
    """A document is not what it says it is; the text says where and why, and holds no value out of it."""


def document(data: bytes) -> Any:
    """JSON text as plain data. Raises Malformed where it is damaged or nests too deep."""
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError:
        raise Malformed(f"it nests deeper than {MAX_DEPTH} levels") from None
    except ValueError as problem:
        raise Malformed(f"it is not JSON ({problem})") from None
    if too_deep(found, MAX_DEPTH):
        raise Malformed(f"it nests deeper than {MAX_DEPTH} levels")
    return found


def documents(data: bytes) -> list[tuple[Any, int]]:
    """A JSON document, or one a line, each with its line. Raises Malformed, naming the line where there are several."""
    try:
        return [(document(data), 1)]
    except Malformed:
        lines = [(line, number) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
        if len(lines) < 2 or not all(line.lstrip().startswith(b"{") for line, _ in lines[:2]):
            raise
    found = []
    for line, number in lines:
        try:
            found.append((document(line), number))
        except Malformed as problem:
            raise Malformed(f"line {number}: {problem}") from None
    return found


def table(value: Any, where: str) -> dict[str, Any]:
    """``value`` as an object; absent (None) is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{where} is not an object")
    return value


def listed(value: Any, where: str) -> list[Any]:
    """``value`` as a list; absent (None) is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{where} is not a list")
    return value


def tables(value: Any, where: str) -> list[dict[str, Any]]:
    """``value`` as a list of objects."""
    return [table(one, f"an entry of {where}") for one in listed(value, where)]


def text(value: Any) -> str:
    """``value`` where it is a text, else ""."""
    return value if isinstance(value, str) else ""


def arguments(value: Any) -> Any:
    """The arguments of a call as data: models write them as JSON text, which may be damaged and is then kept."""
    if not isinstance(value, str):
        return value
    try:
        found = msgspec.json.decode(value) if value.strip() else {}
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        return value
    return value if too_deep(found, MAX_DEPTH) else found
