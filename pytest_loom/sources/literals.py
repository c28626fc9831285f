"""Plain data that Python showed as text (``repr``), read back: the text is parsed, nothing in it is called."""

from __future__ import annotations

import ast
import json
from typing import Any

from pytest_loom.sources.toolcalls import NOTHING

_MAX_SHOWN = 64 * 1024


def literal(said: str) -> Any:
    """Plain data that Python shows as ``said``, or the text itself where it is none."""
    if said.lstrip()[:1] not in ("{", "["):
        return said
    found = plain(parsed(said.strip()))
    return said if found is NOTHING else found


def parsed(shown: str) -> ast.AST:
    """The syntax tree of an expression; an empty one where it is none, or too large."""
    try:
        return ast.parse(shown, mode="eval").body if len(shown) <= _MAX_SHOWN else ast.Module([], [])
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ast.Module([], [])


def plain(tree: ast.AST) -> Any:
    """The value of a literal as JSON data, NOTHING where it is none."""
    try:
        return json.loads(json.dumps(ast.literal_eval(tree), allow_nan=False))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return NOTHING
