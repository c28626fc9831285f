"""Small changes to build migrations from: each knows its inverse where there is one, and loses nothing silently.

    migration("state", from_version=2)(compose(add("currency", "EUR"), rename("order.amount", "order.cents")))

A path such as ``order.amount`` goes through objects. A change raises ``Unsupported`` where what it is to act on is not
there, or is there already: no change fills in or overwrites anything that it does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_loom.errors import Unsupported, printable
from pytest_loom.log.pure import Refused, first_difference, plain_copy

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Change:
    """A pure function from an object to an object, with its way back (None where there is none)."""

    name: str
    forth: Function
    back: Function | None = None

    def __call__(self, value: Any) -> Any:
        """The changed value; the one given stays as it is."""
        return self.forth(value)

    @property
    def inverse(self) -> Change | None:
        """The change that takes the new value back to the old one."""
        return None if self.back is None else Change(f"the way back of {self.name}", self.back, self.forth)

    def __str__(self) -> str:
        return self.name


def add(path: str, default: Any) -> Change:
    """A new key with a value that is right for every older one; plain JSON data.

    Back, the key is removed, but only where it still has that value: the older version cannot say another.
    """
    try:
        kept = plain_copy(default, "default")
    except Refused as problem:
        raise ValueError(f"add({path!r}): {problem.what}") from None

    def remove(value: Any) -> Any:
        rest, item = _taken(value, path)
        if first_difference(item, kept, path) is not None:
            raise Unsupported(f"{printable(path)} is not its default, and the older version has no place for it")
        return rest

    return Change(f"add({path!r})", lambda value: _put(value, path, plain_copy(kept, "default")), remove)


def rename(old: str, new: str) -> Change:
    """A key under another name, or in another object that is there already; its value stays as it is."""

    def moved(value: Any, source: str, target: str) -> Any:
        rest, item = _taken(value, source)
        return _put(rest, target, item)

    return Change(
        f"rename({old!r}, {new!r})", lambda value: moved(value, old, new), lambda value: moved(value, new, old)
    )


def retype(path: str, function: Function, inverse: Function | None = None) -> Change:
    """A key whose value becomes ``function(value)``; ``inverse`` takes such a value back."""

    def changed(value: Any, by: Function) -> Any:
        return _edit(value, path, lambda inner, key: {**inner, key: by(_item(inner, key, path))})

    back = None if inverse is None else (lambda value: changed(value, inverse))
    return Change(f"retype({path!r})", lambda value: changed(value, function), back)


def split(
    path: str,
    *into: str,
    by: Callable[[Any], Sequence[Any]] | None = None,
    inverse: Callable[..., Any] | None = None,
) -> Change:
    """One key into several: ``by(value)`` gives their values in order, ``inverse(*values)`` the one value again.

    Without ``by`` the value is an object with just these keys (their last segments), which come out of it; the inverse
    follows.
    """
    if by is None:
        by, inverse = _fields(path, into), _gathered(into)
    return Change(f"split({path!r})", _splitting(path, into, by), _merging(into, path, inverse) if inverse else None)


def merge(
    paths: Sequence[str],
    into: str,
    function: Callable[..., Any] | None = None,
    inverse: Callable[[Any], Sequence[Any]] | None = None,
) -> Change:
    """Several keys into one: ``function(*values)`` gives its value, ``inverse(value)`` the values again, in order.

    Without ``function`` they become an object with their last segments as keys; the inverse follows.
    """
    if function is None:
        function, inverse = _gathered(paths), _fields(into, paths)
    back = _splitting(into, paths, inverse) if inverse is not None else None
    return Change(f"merge({list(paths)!r}, {into!r})", _merging(paths, into, function), back)


def compose(*changes: Function) -> Change:
    """Changes one after the other; back in reverse order, where each of them has a way back."""
    backs: list[Any] = [getattr(change, "inverse", None) for change in reversed(changes)]

    def run(value: Any, parts: Sequence[Function]) -> Any:
        for part in parts:
            value = part(value)
        return value

    back = None if None in backs else (lambda value: run(value, backs))
    name = f"compose({', '.join(getattr(change, '__name__', str(change)) for change in changes)})"
    return Change(name, lambda value: run(value, changes), back)


# ---------------------------------------------------------------------------------------------------------------------


def _splitting(path: str, into: Sequence[str], by: Callable[[Any], Sequence[Any]]) -> Function:
    def change(value: Any) -> Any:
        rest, item = _taken(value, path)
        items = list(by(item))
        if len(items) != len(into):
            raise Unsupported(f"{printable(path)} became {len(items)} values for {len(into)} keys")
        for target, each in zip(into, items, strict=True):
            rest = _put(rest, target, each)
        return rest

    return change


def _merging(paths: Sequence[str], into: str, function: Callable[..., Any]) -> Function:
    def change(value: Any) -> Any:
        items = []
        for path in paths:
            value, item = _taken(value, path)
            items.append(item)
        return _put(value, into, function(*items))

    return change


def _last_segments(paths: Sequence[str]) -> list[str]:
    names = [path.rpartition(".")[2] for path in paths]
    if len(set(names)) != len(names):
        raise ValueError(f"two of {', '.join(paths)} end with the same key: say by a function what becomes of them")
    return names


def _gathered(paths: Sequence[str]) -> Callable[..., Any]:
    names = _last_segments(paths)
    return lambda *items: dict(zip(names, items, strict=True))


def _fields(path: str, into: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    names = _last_segments(into)

    def fields(value: Any) -> Sequence[Any]:
        if not isinstance(value, dict) or set(value) != set(names):
            raise Unsupported(f"{printable(path)} is not an object with just {', '.join(names)}")
        return [value[name] for name in names]

    return fields


def _edit(value: Any, path: str, change: Callable[[dict[str, Any], str], dict[str, Any]]) -> Any:
    """A copy of the objects on the way to ``path``, the innermost one changed."""
    *outer, key = path.split(".")
    return _edit_in(value, outer, lambda inner: change(inner, key), path)


def _edit_in(value: Any, outer: list[str], change: Function, path: str) -> Any:
    if not isinstance(value, dict):
        raise Unsupported(f"there is no object around {printable(path)}")
    if not outer:
        return change(value)
    return {**value, outer[0]: _edit_in(_item(value, outer[0], path), outer[1:], change, path)}


def _item(value: dict[str, Any], key: str, path: str) -> Any:
    if key not in value:
        raise Unsupported(f"there is no {printable(key)} for {printable(path)}")
    return value[key]


def _taken(value: Any, path: str) -> tuple[Any, Any]:
    """The value without what is at ``path``, and that."""
    found: list[Any] = []

    def without(inner: dict[str, Any], key: str) -> dict[str, Any]:
        found.append(_item(inner, key, path))
        return {name: item for name, item in inner.items() if name != key}

    return _edit(value, path, without), found[0]


def _put(value: Any, path: str, item: Any) -> Any:
    """The value with a new key at ``path``."""

    def with_item(inner: dict[str, Any], key: str) -> dict[str, Any]:
        if key in inner:
            raise Unsupported(f"{printable(path)} is there already, and is not overwritten")
        return {**inner, key: item}

    return _edit(value, path, with_item)
