"""Temporal payloads as plain JSON values.

``json/plain`` is decoded, ``binary/null`` is null, everything else stays opaque with all of its bytes:
``{"$type": encoding, "$via": "temporal.payload", "$value": base64}`` plus the payload's other metadata
(``messageType``, ``encryption-key-id``, …). Nothing is ever revived from it. What Temporal's UI decoded before the
download is taken as it stands.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import msgspec

from pytest_loom.log.event import too_deep
from pytest_loom.sources.temporal.enums import generic_name
from pytest_loom.sources.temporal.protojson import Fields, Malformed, camel, kind_of

MAX_DEPTH = 128
"""Nesting that a history, and each payload in it, may have; protobuf parsers stop at 100."""

VIA = "temporal.payload"

_ENCODING = re.compile(r"[a-z]+/[a-z0-9.+-]+")
_PAYLOAD_KEYS = frozenset({"metadata", "data", "externalPayloads", "external_payloads"})
_PAYLOADS_MESSAGE = "temporal.api.common.v1.Payloads"

_ENCODINGS = {
    base64.b64encode(name.encode()).decode(): name
    for name in ("json/plain", "binary/null", "binary/plain", "json/protobuf", "binary/protobuf")
}
"""As they are written nearly always."""

_decode_json = msgspec.json.Decoder().decode


def payload(value: Any) -> Any:
    """One Payload message as a plain value; anything else is a value that the UI decoded, and stays."""
    if not isinstance(value, dict) or not value.keys() <= _PAYLOAD_KEYS:
        return value
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return value
    written = metadata.get("encoding")
    if not isinstance(written, str) or not written:
        return value
    encoding = _ENCODINGS.get(written) or _metadata_text(written)
    if encoding == "binary/null":
        return None
    data = value.get("data")
    if data is not None and not isinstance(data, str):
        return data
    data = data or ""
    raw = _bytes(data)
    if encoding == "json/plain":
        if raw is None:
            return data
        # Where the tool decoded the metadata it may have decoded the data, too: text that is no JSON is the value.
        decoded = _json(raw, data if _ENCODING.fullmatch(written) else _FAILED)
        if decoded is not _FAILED:
            return decoded
    return _opaque(encoding, metadata, data if raw is None else base64.b64encode(raw).decode(), value)


_FAILED = object()


def _json(raw: bytes, otherwise: Any) -> Any:
    try:
        value = _decode_json(raw)
    except (ValueError, RecursionError):  # NaN, lone surrogates: JSON of a kind that is no JSON
        return otherwise
    deep = raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and too_deep(value, MAX_DEPTH)
    return otherwise if deep else value


def _opaque(encoding: str, metadata: dict[str, Any], data: Any, message: dict[str, Any]) -> dict[str, Any]:
    opaque = {"$type": encoding, "$via": VIA, "$value": data}
    for name, item in sorted(metadata.items()):
        if name != "encoding":
            opaque.setdefault(name, _metadata_text(item))
    external = message.get("externalPayloads") or message.get("external_payloads")
    if external:
        opaque["externalPayloads"] = canonical(external)
    return opaque


def _metadata_text(value: Any) -> Any:
    """A metadata value (bytes as base64) as text, e.g. ``json/plain``; unchanged where it is no text."""
    if not isinstance(value, str):
        return value
    if _ENCODING.fullmatch(value.strip()):  # a tool has decoded the metadata already
        return value.strip()
    raw = _bytes(value)
    try:
        return value if raw is None else raw.decode().strip()
    except UnicodeDecodeError:
        return value


def _bytes(text: str) -> bytes | None:
    """Base64 of either alphabet, padded or not; None where it is not base64."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        pass
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def opaque_bytes(value: Any) -> bytes | None:
    """The bytes of a payload that was kept opaque; None for any other value."""
    if isinstance(value, dict) and value.get("$via") == VIA and isinstance(value.get("$value"), str):
        return _bytes(value["$value"])
    return None


def payload_list(value: Any) -> list[Any]:
    """A Payloads message as plain values; a value that the UI put in its place is the only one."""
    if value is None or value == {}:
        return []
    if isinstance(value, dict) and "payloads" in value and len(value) == 1:
        value = value["payloads"]
        if value is None:
            return []
    if isinstance(value, list):
        return [payload(item) for item in value]
    return [payload(value)]


def payload_map(fields: Fields, name: str, inner: str) -> dict[str, Any]:
    """A field that maps names to payloads, like ``memo.fields``: names as they are, values plain."""
    if fields.raw(name) is None:
        return {}
    value = fields.message(name).raw(inner)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{fields.name}.{name}.{inner} is {kind_of(value)}, not an object")
    return {key: payload(item) for key, item in sorted(value.items())}


def unwrap(value: Any) -> Any:
    """The plain values inside a Payloads message that was itself made a payload (Go's MutableSideEffect)."""
    raw = opaque_bytes(value)
    if raw is None or value.get("$type") != "json/protobuf" or value.get("messageType") != _PAYLOADS_MESSAGE:
        return value
    message = _json(raw, _FAILED)
    return value if message is _FAILED else result(payload_list(message))


def arguments(values: list[Any]) -> Any:
    """Arguments as a log says them: none is null, one is itself, several are ``{"args", "kwargs"}``."""
    return result(values) if len(values) < 2 else {"args": values, "kwargs": {}}


def result(values: list[Any]) -> Any:
    """A result as a log says it: none is null, one is itself, several are a list."""
    return values if len(values) > 1 else values[0] if values else None


def canonical(value: Any) -> Any:
    """A message that is not known here, in one form however it was written.

    Keys in camelCase, defaults left out, int64 text as numbers, enum values in Pascal, payloads plain.
    """
    if isinstance(value, dict):
        plain = payload(value)
        if plain is not value:
            return plain
        fields = {camel(key): canonical(item) for key, item in value.items()}
        return {key: item for key, item in sorted(fields.items()) if not _is_default(item)}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, str):
        return int(value) if _is_number(value) else generic_name(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 19 and str(int(text)) == text


def _is_default(value: Any) -> bool:
    return value is None or value == "0s" or (not isinstance(value, float) and not value)
