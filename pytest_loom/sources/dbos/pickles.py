"""Pickled values as plain data: nothing is unpickled, imported or called.

``pickletools`` tells the instructions of a pickle one by one; here they are carried out on data alone. What a pickle
would import stays a name, what it would call stays a name with its arguments:
``{"$type": "module.Class", "$via": "pickle", "$value": {"args": [..], "state": ..}}``, either left out where there is
none. What JSON cannot say otherwise is ``$via`` ``items`` (tuples, sets, mappings whose keys are no texts), ``base64``,
``text`` (numbers) or ``call`` and ``method:fromisoformat`` (a few values of the standard library); what cannot be read
is ``opaque``, with its size and digest.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import pickletools
import struct
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

MAX_TEXT = 64 * 1024 * 1024
MAX_NESTING = 100
"""How deep a value may be nested before it is kept opaque."""

MAX_NODES = 200_000
"""How many values one pickle may come to: it can name a part of itself many times over."""

_KEYS = frozenset({"$type", "$via", "$value"})
_MARK = object()


class Unreadable(ValueError):
    """A pickle cannot be shown as data. The text says why."""


class _Node:
    """A value of a pickle that is no scalar: ``kind`` is list, tuple, dict, set, frozenset, global or object."""

    __slots__ = ("content", "kind", "name", "state")

    def __init__(self, kind: str, content: list[Any], name: str = "") -> None:
        self.kind = kind
        self.content = content
        self.name = name
        self.state: Any = _MARK


def typed(name: str, via: str, value: Any) -> dict[str, Any]:
    """A value that JSON cannot say."""
    return {"$type": name, "$via": via, "$value": value}


def is_typed(value: Any) -> bool:
    """Whether ``value`` stands for a value that JSON cannot say."""
    return isinstance(value, dict) and value.keys() == _KEYS and isinstance(value["$type"], str)


def opaque(name: str, text: str, reason: str) -> dict[str, Any]:
    """What is told of a value that is not read."""
    data = text.encode("utf-8", "surrogatepass")
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "reason": reason}
    return typed(name, "opaque", facts)


def read_pickle(text: str) -> Any:
    """The value of a pickle in base64 as JSON data; what cannot be read is opaque. Never raises."""
    try:
        if len(text) > MAX_TEXT:
            raise Unreadable(f"it is longer than {MAX_TEXT} bytes")
        data = base64.b64decode(text, validate=True)
        return _Json().of(_run(data), 0)
    except Unreadable as problem:
        return opaque("pickle", text, str(problem))
    except (binascii.Error, UnicodeError) as problem:
        return opaque("pickle", text, f"it is no base64: {problem}")
    except Exception as problem:  # pickletools raises what comes up
        return opaque("pickle", text, f"it is damaged: {type(problem).__name__}")


# The instructions ----------------------------------------------------------------------------------------------------


def _run(data: bytes) -> Any:
    """What a pickle builds. Raises Unreadable, and whatever a damaged one makes pickletools raise."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    for code, argument, _ in pickletools.genops(data):
        name = code.name
        if name in ("PROTO", "FRAME"):
            continue
        if name == "STOP":
            (value,) = stack
            return value
        if name in _SCALARS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_Node(_EMPTY[name], []))
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in _BUILDERS:
            _BUILDERS[name](stack, argument)
        else:
            raise Unreadable(f"it uses {name}")
    raise Unreadable("it has no end")


def _marked(stack: list[Any]) -> list[Any]:
    """What was put on the stack since the last mark, taken off with it."""
    for index in range(len(stack) - 1, -1, -1):
        if stack[index] is _MARK:
            found = stack[index + 1 :]
            del stack[index:]
            return found
    raise Unreadable("it has no mark")


def _node(value: Any, *kinds: str) -> _Node:
    if not isinstance(value, _Node) or value.kind not in kinds:
        raise Unreadable("it adds to what is no container")
    return value


def _add(stack: list[Any], items: list[Any]) -> None:
    """Append to the list, dict or set on top; to an object that fills itself so, too."""
    target = _node(stack[-1], "list", "dict", "set", "object")
    if target.kind == "object":
        raise Unreadable(f"it fills a {target.name}")
    target.content.extend(items)


def _tuple(count: int) -> Callable[[list[Any], Any], None]:
    def build(stack: list[Any], _: Any) -> None:
        items = stack[-count:]
        if len(items) < count or _MARK in items:
            raise Unreadable("it has too few values")
        del stack[-count:]
        stack.append(_Node("tuple", items))

    return build


def _of_mark(kind: str) -> Callable[[list[Any], Any], None]:
    def build(stack: list[Any], _: Any) -> None:
        stack.append(_Node(kind, _marked(stack)))

    return build


def _append(stack: list[Any], _: Any) -> None:
    item = stack.pop()
    _add(stack, [item])


def _setitem(stack: list[Any], _: Any) -> None:
    value = stack.pop()
    key = stack.pop()
    _add(stack, [key, value])


def _items(stack: list[Any], _: Any) -> None:
    items = _marked(stack)
    _add(stack, items)


def _global(stack: list[Any], argument: Any) -> None:
    stack.append(_Node("global", [], ".".join(str(argument).split(" "))))


def _stack_global(stack: list[Any], _: Any) -> None:
    label = stack.pop()
    module = stack.pop()
    if not isinstance(label, str) or not isinstance(module, str):
        raise Unreadable("it names a global by what is no text")
    stack.append(_Node("global", [], f"{module}.{label}"))


def _reduce(stack: list[Any], _: Any) -> None:
    given = _node(stack.pop(), "tuple")
    made = _node(stack.pop(), "global")
    stack.append(_Node("object", given.content, made.name))


def _newobj_ex(stack: list[Any], _: Any) -> None:
    named = _node(stack.pop(), "dict")
    if named.content:
        raise Unreadable("it makes an object with named arguments")
    _reduce(stack, None)


def _build(stack: list[Any], _: Any) -> None:
    state = stack.pop()
    made = _node(stack[-1], "object")
    made.state = state


def _pop(stack: list[Any], _: Any) -> None:
    stack.pop()


def _pop_mark(stack: list[Any], _: Any) -> None:
    _marked(stack)


def _dup(stack: list[Any], _: Any) -> None:
    stack.append(stack[-1])


_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_LIST": "list", "EMPTY_TUPLE": "tuple", "EMPTY_DICT": "dict", "EMPTY_SET": "set"}
_SCALARS = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)
_BUILDERS: dict[str, Callable[[list[Any], Any], None]] = {
    "TUPLE": _of_mark("tuple"),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "LIST": _of_mark("list"),
    "DICT": _of_mark("dict"),
    "FROZENSET": _of_mark("frozenset"),
    "APPEND": _append,
    "APPENDS": _items,
    "SETITEM": _setitem,
    "SETITEMS": _items,
    "ADDITEMS": _items,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "NEWOBJ": _reduce,
    "NEWOBJ_EX": _newobj_ex,
    "BUILD": _build,
    "POP": _pop,
    "POP_MARK": _pop_mark,
    "DUP": _dup,
}
"""All that a value of plain data, of dataclasses, models and exceptions is built with; nothing else is carried out."""


# As JSON -------------------------------------------------------------------------------------------------------------


class _Json:
    """Turns what was built into JSON data. Counts, so that no pickle comes to more than it may."""

    def __init__(self) -> None:
        self.left = MAX_NODES
        self.open: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        """``value`` as JSON data. Raises Unreadable."""
        self.left -= 1
        if self.left < 0:
            raise Unreadable(f"it comes to more than {MAX_NODES} values")
        if not isinstance(value, _Node):
            return scalar(value)
        if depth > MAX_NESTING:
            raise Unreadable(f"it is nested more than {MAX_NESTING} deep")
        if id(value) in self.open:
            raise Unreadable("it holds itself")
        self.open.add(id(value))
        try:
            return self._container(value, depth + 1)
        finally:
            self.open.discard(id(value))

    def _container(self, value: _Node, depth: int) -> Any:
        if value.kind == "global":
            return typed(value.name, "pickle", {})
        if value.kind == "object":
            return self._object(value, depth)
        if value.kind == "dict":
            return self._dict(value.content, depth)
        items = [self.of(item, depth) for item in value.content]
        return items if value.kind == "list" else typed(f"builtins.{value.kind}", "items", items)

    def _dict(self, content: list[Any], depth: int) -> Any:
        if len(content) % 2:
            raise Unreadable("a key of it has no value")
        pairs = list(zip(content[::2], content[1::2], strict=True))
        if all(type(key) is str and type(scalar(key)) is str for key, _ in pairs):
            found = {key: self.of(item, depth) for key, item in pairs}
            if found.keys() != _KEYS:
                return found
        return typed("builtins.dict", "items", [[self.of(key, depth), self.of(item, depth)] for key, item in pairs])

    def _object(self, value: _Node, depth: int) -> Any:
        known = _KNOWN.get(value.name)
        if known is not None and value.state is _MARK and not any(isinstance(item, _Node) for item in value.content):
            try:
                return known(value.name, value.content)
            except (TypeError, ValueError):
                pass
        facts: dict[str, Any] = {}
        if value.content:
            facts["args"] = [self.of(item, depth) for item in value.content]
        if value.state is not _MARK and value.state is not None:
            facts["state"] = self.of(value.state, depth)
        if value.name == "uuid.UUID" and isinstance(facts.get("state"), dict):
            number = value.state.content[value.state.content.index("int") + 1]
            if isinstance(number, int) and 0 <= number < 1 << 128:
                return typed(value.name, "call", f"{number:032x}")
        return typed(value.name, "pickle", facts)


def scalar(value: Any) -> Any:
    """A number, text or bytes as JSON data."""
    if value is None or type(value) is bool:
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else typed("builtins.int", "text", f"{value:#x}")
    if isinstance(value, float):
        return value if math.isfinite(value) else typed("builtins.float", "text", repr(value))
    if isinstance(value, (bytes, bytearray)):
        return typed(f"builtins.{type(value).__name__}", "base64", base64.b64encode(value).decode())
    if not isinstance(value, str):
        raise Unreadable("it ends with what is no value")
    try:
        value.encode()
    except UnicodeEncodeError:
        return typed("builtins.str", "base64", base64.b64encode(value.encode("utf-8", "surrogatepass")).decode())
    return value


def _datetime(name: str, content: list[Any]) -> Any:
    """Ten bytes, as ``datetime.datetime`` packs itself, without a time zone."""
    (data,) = content
    year, month, day, hour, minute, second, micros = struct.unpack("!HBBBBB3s", data)
    moment = datetime(year, month & 0x7F, day, hour, minute, second, int.from_bytes(micros, "big"), fold=month >> 7)
    return typed(name, "method:fromisoformat", moment.isoformat())


def _date(name: str, content: list[Any]) -> Any:
    (data,) = content
    return typed(name, "method:fromisoformat", date(*struct.unpack("!HBB", data)).isoformat())


def _call(name: str, content: list[Any]) -> Any:
    (text,) = content
    return typed(name, "call", str(text))


_KNOWN: dict[str, Callable[[str, list[Any]], Any]] = {
    "datetime.datetime": _datetime,
    "datetime.date": _date,
    "decimal.Decimal": _call,
}
"""Values of the standard library that are told as people write them."""
