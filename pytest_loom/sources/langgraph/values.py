"""LangGraph's saved values as plain data: nothing is imported, called or unpickled on the store's word.

LangGraph writes msgpack with extensions that name a module, a class and its arguments. Each becomes
``{"$type": "module.Class", "$via": how it would be built, "$value": its arguments}``. ``$via`` is one of ``call`` (one
argument), ``args``, ``kwargs``, ``method:NAME``, ``pydantic``, ``pydantic1``, ``numpy``, ``delta`` (a snapshot of a
delta channel), ``lc`` (LangChain's own JSON envelope), ``items`` (a mapping whose keys are no texts), ``base64``,
``text`` (a float that JSON cannot say), ``opaque`` (encrypted, pickled or damaged: only its size and digest are told).
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

Decrypt = Callable[[str, bytes], "bytes | None"]
"""Given a type tag that ends in ``+aes`` and the bytes: the plain bytes of the type before the ``+``, or None."""

MAX_NESTING = 150
"""How deep a value may be nested before it is kept opaque."""

_VIA = {0: "call", 1: "args", 2: "kwargs", 4: "pydantic1", 5: "pydantic"}
_METHOD, _NUMPY, _DELTA = 3, 6, 7
_KEYS = frozenset({"$type", "$via", "$value"})


class Undecodable(ValueError):
    """A value is not what its tag says."""


def decode_value(tag: str | None, data: bytes | None, decrypt: Decrypt | None = None) -> Any:
    """The value of a blob with its type tag as JSON data; what cannot be read is opaque. Never raises."""
    if tag in (None, "null", "empty") or data is None:
        return None
    try:
        return decode_strictly(str(tag), bytes(data), decrypt)
    except Undecodable as problem:
        return opaque(str(tag), bytes(data), str(problem))


def decode_strictly(tag: str, data: bytes, decrypt: Decrypt | None = None) -> Any:
    """Like ``decode_value``, but raises Undecodable for what is damaged, pickled, or encrypted."""
    tag, data = opened(tag, data, decrypt)
    if tag in ("bytes", "bytearray"):
        return typed("builtins." + tag, "base64", base64.b64encode(data).decode())
    if tag == "msgpack":
        return plain(unpacked(data, 0))
    if tag == "json":
        return from_json(data)
    raise Undecodable(f"values of type {tag} are not read")


def opened(tag: str, data: bytes, decrypt: Decrypt | None) -> tuple[str, bytes]:
    """The tag and bytes after decryption, where there was something to decrypt. Raises Undecodable."""
    name, _, cipher = tag.partition("+")
    if not cipher:
        return tag, data
    found = decrypt(tag, data) if decrypt is not None else None
    if found is None:
        raise Undecodable("it is encrypted")
    return name, found


def from_json(data: bytes | str) -> Any:
    """JSON text of a store, with LangChain's envelopes as ``$type``. Raises Undecodable."""
    try:
        return plain(_enveloped(msgspec.json.decode(data), 0))
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise Undecodable(f"it is no JSON: {problem}") from None


def typed(name: str, via: str, value: Any) -> dict[str, Any]:
    """A value that JSON cannot say."""
    return {"$type": name, "$via": via, "$value": value}


def is_typed(value: Any) -> bool:
    """Whether ``value`` stands for a value that JSON cannot say."""
    return isinstance(value, dict) and value.keys() == _KEYS and isinstance(value["$type"], str)


def opaque(tag: str, data: bytes, reason: str) -> dict[str, Any]:
    """What is told of bytes that are not read."""
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "reason": reason}
    return typed(tag, "opaque", facts)


def plain(value: Any, depth: int = 0) -> Any:
    """Decoded msgpack as JSON data. Raises Undecodable where it is nested too deep."""
    kind = type(value)
    if kind in (str, int, bool) or value is None:
        return value
    if depth > MAX_NESTING:
        raise Undecodable(f"it is nested more than {MAX_NESTING} deep")
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: plain(item, depth + 1) for key, item in value.items()}
        return typed("builtins.dict", "items", [[plain(k, depth + 1), plain(v, depth + 1)] for k, v in value.items()])
    if kind is list or kind is tuple:
        return [plain(item, depth + 1) for item in value]
    if kind is float:
        return value if math.isfinite(value) else typed("builtins.float", "text", repr(value))
    if kind in (bytes, bytearray, memoryview):
        return typed("builtins.bytes", "base64", base64.b64encode(value).decode())
    if isinstance(value, datetime):
        return typed("datetime.datetime", "method:fromisoformat", value.isoformat())
    return typed(f"{kind.__module__}.{kind.__qualname__}", "text", str(value))


def unpacked(data: bytes | memoryview, depth: int) -> Any:
    """msgpack with LangGraph's extensions. Raises Undecodable."""
    if depth > MAX_NESTING:
        raise Undecodable(f"it is nested more than {MAX_NESTING} deep")

    def extension(code: int, content: memoryview) -> Any:
        return _extension(code, unpacked(content, depth + 1))

    try:
        return msgspec.msgpack.decode(data, ext_hook=extension)
    except Undecodable:
        raise
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError, OverflowError) as problem:
        raise Undecodable(f"it is no msgpack: {problem}") from None


def _extension(code: int, content: Any) -> Any:
    """One extension. Its content is ``[module, name, value]``, with the method's name where it has one."""
    if code == _DELTA:
        return typed("langgraph.checkpoint.serde.types._DeltaSnapshot", "delta", content)
    if not isinstance(content, list) or len(content) < 3:
        return typed(f"msgpack.ext{code}", "args", content)
    if code == _NUMPY:
        return typed("numpy.ndarray", "numpy", content)
    module, name, value = content[:3]
    if not isinstance(module, str) or not isinstance(name, str):
        return typed(f"msgpack.ext{code}", "args", content)
    if code == _METHOD:
        method = content[3] if len(content) > 3 else ""
        return typed(f"{module}.{name}", f"method:{method}", value)
    return typed(f"{module}.{name}", _VIA.get(code, f"ext{code}"), value)


def _enveloped(value: Any, depth: int) -> Any:
    """JSON with LangChain's constructor envelopes (``{"lc": 1 | 2, "type": "constructor", "id": [..]}``) as $type."""
    if depth > MAX_NESTING:
        raise Undecodable(f"it is nested more than {MAX_NESTING} deep")
    if isinstance(value, list):
        return [_enveloped(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("lc") in (1, 2) and value.get("type") == "constructor" and isinstance(value.get("id"), list):
        arguments = value.get("kwargs") or value.get("args") or {}
        name = ".".join(str(part) for part in value["id"])
        return typed(name, "lc", _enveloped(arguments, depth + 1))
    return {key: _enveloped(item, depth + 1) for key, item in value.items()}
