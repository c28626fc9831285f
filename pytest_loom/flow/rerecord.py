"""A golden that was recorded anew, in the words of the old one: what did not change is the same bytes.

Otherwise every line of the file would be new, since every time and every random id is, and whoever reviews the change
would have to find the one line that matters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from pytest_loom.flow.normal import chance_forms
from pytest_loom.log.event import Event, Log

_SHORTEST = 12
"""Characters that a value of chance has at least to be known again in other values."""


def like(new: Log, old: Log) -> Log:
    """``new`` with the times, and the values of ``ctx.now()``, ``ctx.uuid()`` and ``ctx.random()``, of ``old``.

    An event has the time of its counterpart in the old log (the same kind and name, counted by branch), else of the
    event before it. Both logs have the same execution id.
    """
    swaps = list(_swaps(new, old))
    times: dict[Any, list[Any]] = defaultdict(list)
    for event, key in _keyed(old):
        times[key].append(event.timestamp)
    seen: Counter[Any] = Counter()
    last: int | str = old.events[0].timestamp
    events = []
    for event, key in _keyed(new):
        known = times.get(key, [])
        if seen[key] < len(known):
            last = known[seen[key]]
        seen[key] += 1
        raw = bytes(event.raw)
        for today, before in swaps:
            raw = raw.replace(today, before)
        events.append(msgspec.structs.replace(event, timestamp=last, raw=msgspec.Raw(raw)))
    return Log(events, path=new.path, source=new.source, engine=new.engine, notices=new.notices)


def _keyed(log: Log) -> Iterator[tuple[Event, Any]]:
    for event in log.events:
        payload = event.payload
        name = next((payload[part] for part in ("stepId", "callId", "key", "on") if part in payload), "")
        yield event, (event.namespace, event.branch, event.event_type, str(name))


def _swaps(new: Log, old: Log) -> Iterator[tuple[bytes, bytes]]:
    """Values of chance in each form in which they may stand in a payload: today's, and the old recording's."""
    before: dict[Any, list[list[bytes]]] = defaultdict(list)
    for place, forms in chance_forms(old.events):
        before[place].append(forms)
    for place, forms in chance_forms(new.events):
        known = before[place].pop(0) if before[place] else []
        if len(known) == len(forms) and known != forms and min(map(len, known + forms)) >= _SHORTEST:
            yield from zip(forms, known, strict=True)
