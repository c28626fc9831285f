"""Single values as SDKs read them: pydantic's lax mode decides which text is a number, a date or a UUID.

Patterns run in pydantic's own engine, which takes linear time: schemas and values come from logs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

FORMATS = frozenset(
    {"date", "date-time", "time", "duration", "uuid", "uuid1", "uuid3", "uuid4", "uuid5", "uuid6", "uuid7", "uuid8"}
    | {"ipv4", "ipv6", "ipv4network", "ipv6network", "ipv4interface", "ipv6interface", "ipvanyaddress"}
    | {"uri", "path", "file-path", "directory-path", "binary", "base64url", "json-string", "password", "regex"}
    | {"multi-host-uri", "ipvanynetwork", "ipvanyinterface", "base64", "decimal"}
)
"""Formats under which a text becomes something else than a text in the code (pydantic's types). Others are words."""


def natural(value: Any) -> str:
    """The type that a JSON value has by itself."""
    names = {dict: "object", list: "array", str: "text", bool: "boolean", int: "integer", float: "number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def scalar(kind: str, form: str | None, value: Any) -> tuple[str | None, Any, int]:
    """What a value is read as under a type (None: it does not fit), the value then, and how loosely it fits."""
    if kind == "null":
        return ("null" if value is None else None), value, 0
    if value is None or isinstance(value, (dict, list)):
        return None, value, 0
    if kind == "string":
        if form in FORMATS:
            fits, _ = validated(str(form), value)
            return (str(form) if fits else None), value, 2
        if isinstance(value, str) and form == "email" and not matches(r"^[^@\s]+@[^@\s]+\.[^@\s]+$", value):
            return None, value, 0
        return ("text" if isinstance(value, str) else None), value, 0
    if kind not in ("integer", "number", "boolean"):
        return None, value, 0
    own = natural(value)
    if own == kind:
        return kind, value, 0
    fits, coerced = validated(kind, value)
    return (kind if fits else None), coerced, 1 if kind == "number" and own == "integer" else 2


def validated(name: str, value: Any) -> tuple[bool, Any]:
    """Whether pydantic takes ``value`` for a JSON type or a format, and what it makes of it."""
    from pydantic import ValidationError

    validator = _validator(name)
    if validator is None:
        return isinstance(value, str), value
    try:
        return True, validator(value)
    except (ValidationError, ValueError, RecursionError):
        return False, value


@lru_cache(maxsize=64)
def _validator(name: str) -> Callable[[Any], Any] | None:
    """pydantic's validator for a JSON type or format; None for those that would look at the disk or mean no type."""
    import datetime
    import decimal
    import ipaddress
    import uuid

    from pydantic import UUID1, UUID3, UUID4, UUID5, AnyUrl, TypeAdapter

    kinds: dict[str, Any] = {
        "integer": int,
        "number": float,
        "boolean": bool,
        "date": datetime.date,
        "date-time": datetime.datetime,
        "time": datetime.time,
        "duration": datetime.timedelta,
        "uuid": uuid.UUID,
        "uuid1": UUID1,
        "uuid3": UUID3,
        "uuid4": UUID4,
        "uuid5": UUID5,
        "ipv4": ipaddress.IPv4Address,
        "ipv6": ipaddress.IPv6Address,
        "ipv4network": ipaddress.IPv4Network,
        "ipv6network": ipaddress.IPv6Network,
        "uri": AnyUrl,
        "decimal": decimal.Decimal,
    }
    return TypeAdapter(kinds[name]).validate_python if name in kinds else None


@lru_cache(maxsize=512)
def _pattern(pattern: str) -> Callable[[Any], Any] | None:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).validate_python
    except (SchemaError, ValueError):
        return None


def matches(pattern: str, text: str) -> bool | None:
    """Whether ``text`` matches, by pydantic's linear-time engine; None where that does not know the pattern."""
    from pydantic import ValidationError

    validator = _pattern(pattern) if len(pattern) < 2000 else None
    if validator is None:
        return None
    try:
        validator(text)
    except ValidationError:
        return False
    return True
