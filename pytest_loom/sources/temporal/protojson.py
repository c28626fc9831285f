"""Protobuf JSON as the tools of ten years wrote it, read the way a protobuf parser reads it.

Absent, null and the default are one; a number may be text; keys may be camelCase or snake_case. What no parser would
take raises Malformed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pytest_loom.errors import printable

_DURATION = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_LENGTHS = frozenset({20, 24, 27, 30})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_WHOLE_SECONDS = re.compile(r"[1-9]\d{0,11}s", re.ASCII)
_NO_TIME = ("", "0s")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?", re.ASCII)


class Malformed(ValueError):
    """A part of a history that cannot be read: ``what`` is wrong, at which event (0 where that is not known)."""

    def __init__(self, what: str, *, event_id: int = 0, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.event_id = event_id
        self.hint = hint


def kind_of(value: object) -> str:
    """What a JSON value is, in words for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def camel(key: str) -> str:
    """``history_size_bytes`` as ``historySizeBytes``; a camelCase key as it is."""
    if "_" not in key:
        return key
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


class Fields:
    """One protobuf message out of JSON. Every getter gives the default where the field is absent or null.

    ``name`` is how messages call it. Raises Malformed where the value is not an object, and each getter where the
    field does not have its type.
    """

    __slots__ = ("_values", "name")

    def __init__(self, value: object, name: str) -> None:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise Malformed(f"{name} is {kind_of(value)}, not an object")
        self.name = name
        if "_" in "".join(value):
            value = {camel(key): field for key, field in value.items() if field is not None}
        self._values: dict[str, Any] = value

    def __iter__(self) -> Iterator[str]:
        return (key for key, field in self._values.items() if field is not None)

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of the fields may be set."""
        return not names.isdisjoint(self._values)

    def raw(self, name: str) -> Any:
        """The field as JSON gave it, None where absent."""
        return self._values.get(name)

    def text(self, name: str) -> str:
        """A string field. A number is taken for its digits: ids are written both ways."""
        value = self._values.get(name)
        if value is None:
            return ""
        if type(value) is str:
            return value
        if type(value) is int and -(2**63) <= value < 2**63:
            return str(value)
        raise self._wrong(name, value, "text")

    def named(self, name: str) -> str:
        """The name in a message that holds just a name (a type, a task queue), or that name alone."""
        value = self._values.get(name)
        if type(value) is dict and type(value.get("name")) is str:
            told: str = value["name"]
            return told
        return self.text(name) if isinstance(value, str) else self.message(name).text("name")

    def integer(self, name: str) -> int:
        """An int32 or int64 field, written as a number or as text."""
        value = self._values.get(name)
        if value is None:
            return 0
        if type(value) is str and _INTEGER.fullmatch(value):
            value = int(value)
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int and -(2**63) <= value < 2**63:
            return value
        raise self._wrong(name, value, "a whole number")

    def number(self, name: str) -> int | float:
        """A double field; whole numbers as int, so that 2 and 2.0 are one."""
        value = self._values.get(name)
        if value is None:
            return 0
        if type(value) is str and _NUMBER.fullmatch(value):
            value = float(value)
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int or type(value) is float:
            return value
        raise self._wrong(name, value, "a number")

    def flag(self, name: str) -> bool:
        """A bool field."""
        value = self._values.get(name)
        if value is None or type(value) is bool:
            return value is True
        raise self._wrong(name, value, "a boolean")

    def message(self, name: str) -> Fields:
        """A message field; an empty message where absent."""
        value = self._values.get(name)
        return NOTHING if value is None else Fields(value, f"{self.name}.{name}")

    def texts(self, name: str) -> list[str]:
        """A repeated string field."""
        value = self._values.get(name)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        raise self._wrong(name, value, "a list of texts")

    def integers(self, name: str) -> list[int]:
        """A repeated integer field."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, value, "a list")
        if all(type(item) is int and 0 <= item < 2**31 for item in value):
            return value
        return [Fields({"item": item}, f"{self.name}.{name}").integer("item") for item in value]

    def nanoseconds(self, name: str) -> int:
        """A Duration field in nanoseconds: ``"1.5s"`` or ``{"seconds", "nanos"}``."""
        value = self._values.get(name)
        if value is None or value in _NO_TIME:
            return 0
        if isinstance(value, dict):
            parts = self.message(name)
            return parts.integer("seconds") * 10**9 + parts.integer("nanos")
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise self._wrong(name, value, 'a duration like "10s"')
        total = int(match[2]) * 10**9 + int((match[3] or "").ljust(9, "0"))
        return -total if match[1] else total

    def milliseconds(self, name: str) -> int | float:
        """A Duration field in milliseconds."""
        return _whole(self.nanoseconds(name) / 10**6)

    def duration(self, name: str) -> str:
        """A Duration field as protobuf JSON writes it, without needless digits; ``""`` for none."""
        value = self._values.get(name)
        if type(value) is str and _WHOLE_SECONDS.fullmatch(value):
            return value
        total = self.nanoseconds(name)
        if not total:
            return ""
        seconds, nanos = divmod(abs(total), 10**9)
        fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
        return f"{'-' if total < 0 else ''}{seconds}{fraction}s"

    def timestamp(self, name: str) -> str | None:
        """A Timestamp field as protobuf JSON writes it (UTC, 0, 3, 6 or 9 digits); None where absent."""
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, dict):
            parts = self.message(name)
            return self._written(name, parts.integer("seconds"), parts.integer("nanos"))
        match = _TIMESTAMP.fullmatch(value) if type(value) is str else None
        if match is None:
            raise self._wrong(name, value, 'a time like "2024-02-29T20:38:38.001Z"')
        day, clock, fraction, zone = match.groups()
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}" if zone in "Zz" else f"{day}T{clock}{zone}")
        except ValueError:
            raise self._wrong(name, value, "within the calendar") from None
        if zone in "Zz":
            return f"{day}T{clock}{_fraction(fraction or '')}"
        return self._written(name, (moment - _EPOCH) // timedelta(seconds=1), int((fraction or "").ljust(9, "0")))

    def _written(self, name: str, seconds: int, nanos: int) -> str:
        try:
            moment = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            raise self._wrong(name, seconds, "within the calendar") from None
        if not 0 <= nanos < 10**9:
            raise self._wrong(name, nanos, "within the calendar")
        return moment.isoformat()[:19] + _fraction(f"{nanos:09d}")

    def _wrong(self, name: str, value: object, wanted: str) -> Malformed:
        held = f"holds {printable(value, 40)!r}" if isinstance(value, str) else f"is {kind_of(value)}"
        return Malformed(f"{self.name}.{name} {held}, not {wanted}")


NOTHING = Fields({}, "nothing")
"""A message that is absent. Its name is never shown: where nothing is, nothing is wrong."""


def utc_time(text: Any) -> str:
    """A Timestamp in UTC as protobuf JSON writes it; "" for one written in another way, and for anything else."""
    try:
        datetime.fromisoformat(text)
        if text[-1] != "Z" or text[10] != "T" or text[19] not in ".Z" or len(text) not in _LENGTHS:
            return ""
    except (ValueError, TypeError, IndexError):
        return ""
    return text if text[-4:] != "000Z" or len(text) == 20 else f"{text[:19]}{_fraction(text[20:-1])}"


def _fraction(digits: str) -> str:
    """Digits after the full stop as protobuf JSON writes them: none, three, six or nine."""
    kept = digits.rstrip("0")
    return f".{kept.ljust(-(-len(kept) // 3) * 3, '0')}Z" if kept else "Z"


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() else value
