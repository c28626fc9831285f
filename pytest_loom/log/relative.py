"""Times of a run, counted from its start: the same run of another day says the same.

A run begins at ``EPOCH``; every duration stays. What the run's framework wrote down of its own times in payloads moves
with them: a time, as text or as a number since 1970, that lies between the run's start and its end. What was put into
the run is data and stays, and so does all that a flow of one's own recorded: its code computes with what it was told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pytest_loom.log.event import Event
from pytest_loom.log.tokens import TOKEN

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""When an imported run begins."""

_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_EPOCH_US = (EPOCH - _ZERO) // _MICRO
_AROUND_US = 60_000_000
"""Clocks differ: so far outside of a run's own times another machine may have written one."""
_MOMENT = re.compile(
    rb"(?<![0-9])(\d{4}-\d\d-\d\d)([Tt ])(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|z|[+-]\d\d:\d\d)?(?![0-9:.])"
)
_SINCE_1970 = re.compile(rb"\d{10}(?:\.\d+)?|\d{13}(?:\.\d+)?|\d{16}|\d{19}")
_UNITS = {10: 1_000_000, 13: 1_000, 16: 1}
"""Microseconds in what a number counts, by how many digits it has before the point."""


def relative_times(events: Sequence[Event]) -> list[int | str]:
    """The timestamps of the events, counted from ``EPOCH``, each in the form it had.

    Raises LogError for one that is none.
    """
    start = _micros(events[0])
    return [_as_written(event, _micros(event) - start + _EPOCH_US) for event in events]


def relative_payloads(events: Sequence[Event], texts: Sequence[bytes], given: bytes) -> list[bytes]:
    """The payloads with the run's own times moved as ``relative_times`` moves those of the events.

    ``given`` is the text of what was put into the run: a time that stands there is data.
    """
    moments = [_micros(event) for event in events]
    start, end = moments[0], max(moments)
    if start <= 0:
        return list(texts)  # it does not say when
    first, last, delta = min(moments) - _AROUND_US, end + _AROUND_US, _EPOCH_US - start
    data = frozenset(match[0] for match in _MOMENT.finditer(given)) | frozenset(_SINCE_1970.findall(given))

    def moment(match: re.Match[bytes]) -> bytes:
        found = None if match[0] in data else _text_micros(match)
        return match[0] if found is None or not first <= found <= last else _moved(match, delta)

    def replaced(token: re.Match[bytes]) -> bytes:
        text = token[0]
        if text[:1] == b'"':
            return _MOMENT.sub(moment, text)
        return text if text in data else _moved_number(text, start, first, last)

    return [TOKEN.sub(replaced, text) for text in texts]


def _micros(event: Event) -> int:
    """The timestamp in microseconds since 1970. Raises LogError."""
    if isinstance(event.timestamp, int):
        _ = event.time_ms
        return event.timestamp * 1000
    _ = event.time_ms  # says what is wrong with it
    return (datetime.fromisoformat(event.timestamp.replace("z", "Z")) - _ZERO) // _MICRO


def _as_written(event: Event, micros: int) -> int | str:
    if isinstance(event.timestamp, int):
        return micros // 1000
    try:
        moment = _ZERO + timedelta(microseconds=micros)
    except OverflowError:
        raise event.error("the timestamp is out of range") from None
    return moment.isoformat().replace("+00:00", "Z")


def _text_micros(match: re.Match[bytes]) -> int | None:
    zone = (match[5] or b"Z").upper()
    text = b"%sT%s.%s%s" % (match[1], match[3], (match[4] or b"0")[:6].ljust(6, b"0"), zone)
    try:
        return (datetime.fromisoformat(text.decode()) - _ZERO) // _MICRO
    except (ValueError, OverflowError):
        return None


def _moved(match: re.Match[bytes], delta: int) -> bytes:
    """A time as text, moved: with the separator, the digits and the offset that it had."""
    digits = match[4] or b""
    local = datetime.fromisoformat(f"{match[1].decode()}T{match[3].decode()}") + timedelta(
        microseconds=delta + int(digits[:6].ljust(6, b"0"))
    )
    fraction = b"%06d" % local.microsecond + digits[6:]
    if not digits and local.microsecond:
        local = local.replace(microsecond=0)  # it was written to the second
    head = f"{local:%Y-%m-%d}".encode() + match[2] + f"{local:%H:%M:%S}".encode()
    return head + (b"." + fraction[: len(digits)] if digits else b"") + (match[5] or b"")


def _moved_number(text: bytes, start: int, first: int, last: int) -> bytes:
    """A number of seconds, milliseconds or microseconds since 1970, moved where it is one."""
    if _SINCE_1970.fullmatch(text) is None:
        return text
    whole, point, fraction = text.partition(b".")
    unit = _UNITS.get(len(whole))
    if unit is None or not first <= int(whole) * unit <= last:
        return text
    scale = 10 ** len(fraction)
    moved = int(whole) * scale + int(fraction or b"0") + (_EPOCH_US - start) * scale // unit
    return b"%d" % (moved // scale) + (point + b"%0*d" % (len(fraction), moved % scale) if point else b"")
