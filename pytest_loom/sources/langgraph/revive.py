"""Saved values as objects of today's application again, for a shadow resume only.

LangGraph would import what the store names and call it. Here only classes are built that the application has loaded
itself and that are plain holders of data: pydantic models, dataclasses, named tuples, enums, and some of the standard
library. Whatever else stays what it is in the log, as LangGraph leaves a class that it does not find as plain data.
"""

from __future__ import annotations

import base64
import enum
import sys
from dataclasses import is_dataclass
from typing import Any

from pytest_loom.sources.langgraph.values import is_typed

_STANDARD = {
    "datetime.datetime",
    "datetime.date",
    "datetime.time",
    "datetime.timedelta",
    "datetime.timezone",
    "decimal.Decimal",
    "uuid.UUID",
    "builtins.set",
    "builtins.frozenset",
    "collections.deque",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib.WindowsPath",
    "ipaddress.IPv4Address",
    "ipaddress.IPv6Address",
    "zoneinfo.ZoneInfo",
    "langgraph.types.Send",
    "langgraph.types.Interrupt",
}
"""Classes that are not of the kinds above and do nothing but hold a value."""


def revived(value: Any) -> Any:
    """A value of the log as the application would get it."""
    if isinstance(value, list):
        return [revived(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not is_typed(value):
        return {key: revived(item) for key, item in value.items()}
    try:
        return _built(value["$type"], str(value["$via"]), value["$value"])
    except Exception:  # a class of today that does not take yesterday's fields: LangGraph hands over plain data too
        return revived(value["$value"])


def _built(name: str, via: str, content: Any) -> Any:
    if via == "base64":
        return base64.b64decode(content)
    if name == "builtins.float":
        return float(content)
    if via == "items":
        return {_hashable(revived(key)): revived(item) for key, item in content}
    inner = revived(content)
    cls = _class(name)
    if cls is None:
        return inner
    if via == "pydantic" and hasattr(cls, "model_validate"):
        try:
            return cls.model_validate(inner)
        except ValueError:  # pydantic's own is one
            return cls.model_construct(**inner)
    if via == "pydantic1" and isinstance(inner, dict):
        return cls(**inner)
    if via == "kwargs" or (via == "lc" and isinstance(inner, dict)):
        return cls(**inner)
    if via == "args":
        return cls(*inner)
    if via.startswith("method:") and name.startswith("datetime."):
        return cls.fromisoformat(inner) if via == "method:fromisoformat" else inner
    return cls(inner) if via == "call" else inner


def _class(name: str) -> Any:
    """The class of that name, where the application has loaded it and it only holds data; else None."""
    module, _, label = name.rpartition(".")
    loaded = sys.modules.get(module)
    cls = vars(loaded).get(label) if loaded is not None else None
    if not isinstance(cls, type):
        return None
    holds = name in _STANDARD or issubclass(cls, enum.Enum) or is_dataclass(cls) or hasattr(cls, "model_fields")
    return cls if holds or (issubclass(cls, tuple) and hasattr(cls, "_fields")) else None


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value
