"""What the source of an application says, where a workflow alone does not tell: names that are read, texts it holds.

The application is what is loaded from the folder of the workflow's module, and below it. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import enum
import inspect
import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any


def reads_attribute(flow: Any, name: str) -> bool:
    """Whether the application's code has ``x.name`` anywhere; True where there is no source to be had."""
    trees = [tree for _, tree in _parts(flow)]
    return (
        not trees
        or None in trees
        or any(isinstance(node, ast.Attribute) and node.attr == name for tree in trees for node in ast.walk(tree))
    )


def can_say(flow: Any, text: str) -> bool:
    """Whether the application may come to a text: it stands there, is held by a module, or can be put together.

    True where there is no source to be had.
    """
    parts = list(_parts(flow))
    if not parts or any(tree is None for _, tree in parts):
        return True
    return any(text in _held(module) or _makes(tree, text) for module, tree in parts)


def _parts(flow: Any) -> Iterator[tuple[ModuleType, Any]]:
    code = getattr(inspect.unwrap(flow), "__code__", None)
    folder = os.path.dirname(os.path.abspath(getattr(code, "co_filename", ""))) + os.sep
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if (
            isinstance(file, str)
            and os.path.abspath(file).startswith(folder)
            and "site-packages" not in file[len(folder) :]
        ):
            yield module, _tree(os.path.abspath(file), _changed(file))


def _changed(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=256)
def _tree(file: str, changed: int) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _held(module: ModuleType) -> set[str]:
    """The texts that a module's variables hold, by themselves or in a list, a dict or an enum."""
    found: set[str] = set()
    for value in list(vars(module).values()):
        if isinstance(value, type) and issubclass(value, enum.Enum):
            items: list[Any] = [member.value for member in value]
        elif isinstance(value, dict):
            items = [*value, *value.values()]
        else:
            items = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
        found.update(item for item in items if isinstance(item, str))
    return found


def _makes(tree: ast.Module, text: str) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value == text:
            return True
        if isinstance(node, ast.JoinedStr):
            pieces = [piece.value if isinstance(piece, ast.Constant) else None for piece in node.values]
            if re.fullmatch("".join(".*" if one is None else re.escape(str(one)) for one in pieces), text, re.DOTALL):
                return True
        joins = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod))
        calls = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("format", "join", "replace")
        if (joins or calls) and any(piece in text for piece in _pieces(node)):
            return True
    return False


def _pieces(node: ast.AST) -> Iterator[str]:
    """The literal parts of a text that is put together."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield from (piece for piece in re.split(r"%\w|\{[^}]*\}", inner.value) if len(piece) > 1)
