"""A JSON Schema in few words: ``{order: string, cents?: integer}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_loom.errors import printable

_DEEP = 4
_MANY = 12


def signature(schema: Any, limit: int = 300) -> str:
    """A schema as a type, cut to ``limit`` characters; "" for none. Whatever is no schema is "?"."""
    return "" if schema is None else printable(_said(schema, schema, 0), limit)


def _said(schema: Any, root: Any, depth: int) -> str:
    if isinstance(schema, bool):
        return "anything" if schema else "nothing"
    if not isinstance(schema, Mapping):
        return "?"
    if depth > _DEEP:
        return "…"
    if "$ref" in schema:
        return _referred(schema["$ref"], root, depth)
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return _joined([json.dumps(value)[:40] for value in values[:_MANY]]) if isinstance(values, list) else "?"
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return _joined([_said(one, root, depth + 1) for one in schema[word][:_MANY]])
    if isinstance(schema.get("allOf"), list):
        return " & ".join(_said(one, root, depth + 1) for one in schema["allOf"][:_MANY])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _joined([_said({**schema, "type": one}, root, depth + 1) for one in kind[:_MANY]])
    if kind == "array" or "items" in schema:
        return f"[{_said(schema.get('items', True), root, depth + 1)}]"
    if kind == "object" or "properties" in schema:
        return _object(schema, root, depth)
    named = schema.get("format") or kind
    return str(named) if named else "anything"


def _object(schema: Mapping[str, Any], root: Any, depth: int) -> str:
    parts = schema.get("properties")
    if not isinstance(parts, Mapping) or not parts:
        more = schema.get("additionalProperties")
        return f"{{any: {_said(more, root, depth + 1)}}}" if isinstance(more, Mapping) else "object"
    needed = schema.get("required")
    needed = needed if isinstance(needed, list) else []
    said = [
        f"{name}{'' if name in needed else '?'}: {_said(part, root, depth + 1)}"
        for name, part in list(parts.items())[:_MANY]
    ]
    return f"{{{', '.join([*said, '…'] if len(parts) > _MANY else said)}}}"


def _referred(name: Any, root: Any, depth: int) -> str:
    """What a reference within the schema points to; its name where it is elsewhere, or too deep."""
    found = root
    for part in str(name).removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    if found is None or depth >= _DEEP:
        return str(name).rpartition("/")[2]
    return _said(found, root, depth + 1)


def _joined(parts: list[str]) -> str:
    return " | ".join(dict.fromkeys(parts))
