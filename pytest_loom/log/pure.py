"""Purity is proven, not trusted: functions from plain JSON data to plain JSON data, run twice and compared.

What upcasters (this room) and migrations (``pytest_loom.resume``) share: the proof, the place where a function was
registered, and how a chain of versions is shown.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import msgspec

from pytest_loom.errors import LoomError, Unsupported, printable
from pytest_loom.log.event import MAX_DEPTH

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_Path = tuple[Any, ...]
"""``()`` for the whole value, else ``(path of what holds it, key or index)``."""

HONEST = "Mend it; where there is no lossless way, let it raise Unsupported(reason): nothing is guessed."
PURE = "The same input must give the same result each time: no clock, chance, counter or outside world."
COPY = "Build a new value instead, such as {**old, 'key': value}; what was recorded is never changed."
JSON = "Return objects with text keys, lists, text, finite numbers, true, false and null only."
NO_WAY = "Let the code that wrote it finish the run, or go on by hand; nothing was filled in."


class Refused(Exception):
    """A function failed its proof: ``what`` goes on from its name ("raised ValueError: no"), ``hint`` says what to do.

    Never leaves pytest-loom: upcasters and migrations make their own error of it.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@dataclass(frozen=True)
class Place:
    """Where a function was registered: its name, and the file and line of the registration."""

    name: str
    path: str
    line: int
    code: CodeType

    @classmethod
    def here(cls, function: object) -> Place:
        """The place of whoever called the caller of this."""
        frame = sys._getframe(2)
        name = getattr(function, "__qualname__", None) or str(function)
        return cls(name, frame.f_code.co_filename, frame.f_lineno, frame.f_code)

    def is_again(self, other: Place) -> bool:
        """Whether it is the same line of the same file, run anew (a module that was reloaded or imported twice)."""
        return (self.path, self.line) == (other.path, other.line) and self.code is not other.code

    def __str__(self) -> str:
        return f"{printable(self.name)}, {printable(self.path, 4096)}:{self.line}"


def run_pure(function: Callable[[Any], Any], value: Any, name: str) -> Any:
    """What ``function`` makes of ``value``, which is plain JSON data called ``name`` in messages; a value of its own.

    Raises Refused where the function raises, changes its input, gives something else the second time, or gives
    something that is not plain JSON data or is None.
    """
    before = plain_text(value, name)
    results = [_run_once(function, before, name) for _ in range(2)]
    first, second = (_decode(text) for text in results)
    if results[0] != results[1]:
        raise Refused(f"gave two different results for one input{_at(first, second, name)}", PURE)
    if first is None:
        raise Refused("returned None", HONEST)
    return first


def plain_text(value: Any, name: str) -> bytes:
    """``value`` as JSON text. Raises Refused naming the path of what JSON cannot say, or would say otherwise."""
    todo: list[tuple[Any, _Path, int]] = [(value, (), 0)]
    while todo:
        part, path, depth = todo.pop()
        kind = type(part)
        if kind is dict or kind is list:
            if depth >= MAX_DEPTH:
                raise Refused(f"something nested more than {MAX_DEPTH} deep in {name}", JSON)
            pairs: Iterable[tuple[Any, Any]] = part.items() if kind is dict else enumerate(part)
            for key, item in pairs:
                if kind is dict and (type(key) is not str or not _is_text(key)):
                    raise Refused(f"the key {printable(repr(key))} at {_shown(path, name)}, which is no text", JSON)
                todo.append((item, (path, key), depth + 1))
        elif (kind is float and not math.isfinite(part)) or (kind is str and not _is_text(part)):
            raise Refused(f"{printable(repr(part))} at {_shown(path, name)}, which JSON cannot say", JSON)
        elif part is not None and kind not in (str, int, float, bool):
            raise Refused(
                f"a {printable(kind.__qualname__)} at {_shown(path, name)}, which is not plain JSON data", JSON
            )
    return _encode(value)


def plain_copy(value: Any, name: str) -> Any:
    """A deep copy of plain JSON data. Raises Refused as ``plain_text`` does."""
    return _decode(plain_text(value, name))


def first_difference(one: Any, other: Any, name: str) -> str | None:
    """The path of a place at which two JSON values differ, however their keys are ordered; None where they are equal.

    1, 1.0 and true are three different values.
    """
    todo: list[tuple[Any, Any, _Path]] = [(one, other, ())]
    while todo:
        left, right, path = todo.pop()
        if type(left) is not type(right):
            return _shown(path, name)
        if isinstance(left, dict):
            for key in [*left, *right]:
                if key not in left or key not in right:
                    return _shown((path, key), name)
            todo += [(left[key], right[key], (path, key)) for key in left]
        elif isinstance(left, list):
            if len(left) != len(right):
                return _shown(path, name)
            todo += [(a, b, (path, index)) for index, (a, b) in enumerate(zip(left, right, strict=True))]
        elif left != right or (isinstance(left, float) and str(left) != str(right)):  # 0.0 and -0.0
            return _shown(path, name)
    return None


def chain_text(versions: Iterable[Any], unknown: Callable[[Any], bool]) -> str:
    """``1 -> 2 -> ? -> 4``: the versions in order, with one "?" for those in a row that cannot be reached."""
    shown: list[str] = []
    for version in versions:
        text = "?" if unknown(version) else version_text(version)
        if text != "?" or shown[-1:] != ["?"]:
            shown.append(text)
    return " -> ".join(shown)


def version_text(version: Any) -> str:
    """A version as messages show it: a number bare, a text in quotes, since 3 and "3" are two versions."""
    return printable(f'"{version}"' if isinstance(version, str) else str(version))


def _run_once(function: Callable[[Any], Any], before: bytes, name: str) -> bytes:
    given = _decode(before)
    try:
        result = function(given)
    except Unsupported as reason:
        raise Refused(f"says that there is no lossless way: {_message(reason)}", NO_WAY) from reason
    except Exception as problem:
        raise Refused(f"raised {type(problem).__name__}: {_message(problem)}", HONEST) from problem
    try:
        after = plain_text(given, name)
    except Refused:
        after = b""
    if after != before:
        raise Refused(f"changed the value that it was given{_at(_decode(before), given, name)}", COPY)
    try:
        return plain_text(result, name)
    except Refused as problem:
        raise Refused(f"gave {problem.what}", problem.hint) from None


def _message(problem: Exception) -> str:
    try:
        return printable(problem.what if isinstance(problem, LoomError) else str(problem), 300)
    except Exception:  # its own text cannot be had, and that must not hide it
        return "(no text)"


def _at(one: Any, other: Any, name: str) -> str:
    path = first_difference(one, other, name)
    return f", at {path}" if path is not None else ", in the order of its keys"


def _is_text(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:  # half a character
        return False


def _shown(path: _Path, name: str) -> str:
    parts: list[str] = []
    while path:
        path, key = path
        is_plain = isinstance(key, str) and key.isidentifier()
        parts.append(f".{key}" if is_plain else f"[{key!r}]")
    return printable(name + "".join(reversed(parts)), 300)
