"""Writing what a trace tells of model and tool calls, so that these mean the same whatever the format is.

Ids of calls come up again in many formats (a mock that always says ``call_1``, a provider that counts anew), so they
are unique in a log only with a number where one is taken. A result belongs to the oldest open call of its id.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.log.event import LogBuilder
from pytest_loom.sources.shape import Malformed

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(?:([Zz])|([+-]\d\d):?(\d\d))?", re.ASCII)
_MOST_SECONDS = 1e11
"""A greater number of seconds since the epoch is one of milliseconds."""


def moment(value: Any) -> int | str:
    """A recorded time as a log has it: RFC 3339 text, or milliseconds since the epoch; 0 where none is told.

    Numbers are seconds or, where these would lie in the far future, milliseconds. Text without a time zone is UTC.
    Raises Malformed for anything else.
    """
    if value is None or value == "":
        return 0
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < 1e15:
        return round(value if abs(value) > _MOST_SECONDS else value * 1000)
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Malformed(f"{printable(str(value), 40)} is no moment")
    zone = f"{found[4]}:{found[5]}" if found[4] else "Z"
    return f"{found[1]}T{found[2]}{zone}"


def milliseconds(at: int | str) -> float:
    """A moment, as ``moment`` gives it, as a number to compare. Raises Malformed for a date that there is not."""
    if isinstance(at, int):
        return float(at)
    try:
        return datetime.fromisoformat(at).timestamp() * 1000
    except (ValueError, OverflowError):
        raise Malformed(f"{printable(at)} is no moment") from None


class Calls:
    """The log of a trace under construction; ``at`` and ``line`` are when and where the next event was recorded."""

    def __init__(self, builder: LogBuilder) -> None:
        self.builder = builder
        self.at: int | str = 0
        self.line = 0
        self.namespace: str | None = None
        self.models = 0
        self._taken: dict[str, int] = {}
        self._open: dict[str, list[tuple[str, str]]] = {}

    def add(self, event_type: str, payload: dict[str, Any], *, at: int | str | None = None) -> None:
        """Append one event."""
        moment = self.at if at is None else at
        self.builder.add(event_type, payload, timestamp=moment, line=self.line, namespace=self.namespace)

    def unique(self, given: str) -> str:
        """An id that nothing else of this log has: the given one, or that with a number."""
        count = self._taken.get(given, 0) + 1
        call_id = given if count == 1 else f"{given}#{count}"
        while call_id in self._taken:
            count += 1
            call_id = f"{given}#{count}"
        self._taken[given] = count
        self._taken.setdefault(call_id, 1)
        return call_id

    def asks(self, model: str, request: Any, given: str = "") -> str:
        """A model is asked. Returns the call's id."""
        self.models += 1
        call_id = self.unique(given or f"model-{self.models}")
        self.add("MODEL_REQUESTED", {"callId": call_id, "model": model or "unknown", "request": request})
        return call_id

    def calls(self, name: str, args: Any, given: str = "") -> str:
        """A tool is called. Returns the call's id."""
        call_id = self.unique(given or f"call-{len(self._taken) + 1}")
        self._open.setdefault(given, []).append((call_id, name))
        self.add("TOOL_REQUESTED", {"callId": call_id, "name": name, "args": {} if args is None else args})
        return call_id

    def close(self, given: str) -> dict[str, Any] | None:
        """The ``callId`` and ``name`` of the oldest open call of that id, which ends with this; None without one."""
        waiting = self._open.get(given)
        if not waiting:
            return None
        call_id, name = waiting.pop(0)
        if not waiting:
            del self._open[given]
        return {"callId": call_id, "name": name}

    @property
    def is_waiting(self) -> bool:
        """Whether a tool call has no answer yet."""
        return bool(self._open)
