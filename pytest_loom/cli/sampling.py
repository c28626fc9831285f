"""Which runs of a source are imported: filters that look at one run, and samples that compare runs."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_loom.errors import LoomError, UnknownSchemaVersion, UpcastError
from pytest_loom.fold import branch_order
from pytest_loom.log.event import Log
from pytest_loom.log.upcast import current_version

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_LONGEST_LOOP = 32
"""So many steps in a row may make up one round of a loop."""


@dataclass(slots=True)
class Candidate:
    """A run that may be imported: where its text waits, and all that samples ask. ``seen``: time of its last event."""

    order: int
    text: Path
    size: int
    events: int
    flow: str
    status: str
    was: str
    alias: str
    name: str
    links: dict[str, str]
    seen: float
    path: str = ""

    def drop(self) -> None:
        """Let go of its text."""
        self.text.unlink(missing_ok=True)


@dataclass
class Wanted:
    """What was asked for. ``counts`` says how many runs each filter and sample left out."""

    flows: list[str] = field(default_factory=list)
    in_flight: bool = False
    since: float | None = None
    until: float | None = None
    newest: int | None = None
    one_per_path: bool = False
    limit: int | None = None
    max_bytes: int | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def takes(self, log: Log, status: str) -> bool:
        """Whether a run passes the filters; counts it where not."""
        reason = self._left_out(log, status)
        self.counts[reason] += bool(reason)
        return not reason

    def _left_out(self, log: Log, status: str) -> str:
        if self.flows and not any(fnmatchcase(log.workflow_id, pattern) for pattern in self.flows):
            return "another flow"
        if self.in_flight and status not in IN_FLIGHT:
            return "not in flight"
        if self.since is None and self.until is None:
            return ""
        last = log.events[-1].time_ms
        if last <= 0:
            return "no time recorded"
        return "" if (self.since or 0) <= last <= (self.until or float("inf")) else "outside of the time"


class Sample:
    """The runs chosen so far. What is certainly not chosen is let go at once, so that only the chosen take up room."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.paths: dict[str, Candidate] = {}
        self.newest: dict[str, list[tuple[float, int, Candidate]]] = {}
        self.all: list[Candidate] = []

    @property
    def is_full(self) -> bool:
        """Whether no further run can be chosen."""
        free = self.wanted.newest is None and not self.wanted.one_per_path
        return free and self.wanted.limit is not None and len(self.all) >= self.wanted.limit

    def add(self, run: Candidate) -> None:
        """Choose between a run and those before it: the shortest of each path, then the newest of each flow."""
        if self.wanted.one_per_path:
            other = self.paths.get(run.path)
            if other is not None:
                self.wanted.counts["a path that is there already"] += 1
                run, loser = (run, other) if run.events < other.events else (other, run)
                loser.drop()
            self.paths[run.path] = run
        elif self.wanted.newest is not None:
            self._push(run)
        else:
            self.all.append(run)

    def _push(self, run: Candidate) -> None:
        heap = self.newest.setdefault(run.flow, [])
        heapq.heappush(heap, (run.seen, run.order, run))
        if len(heap) > (self.wanted.newest or 0):
            heapq.heappop(heap)[2].drop()
            self.wanted.counts["older"] += 1

    def chosen(self) -> Iterator[Candidate]:
        """The runs that are imported, in the order of the source."""
        if self.wanted.one_per_path:
            paths = sorted(self.paths.values(), key=lambda run: run.order)
            if self.wanted.newest is None:
                self.all = paths
            else:
                for run in paths:
                    self._push(run)
        if self.wanted.newest is not None:
            self.all = [run for heap in self.newest.values() for _, _, run in heap]
        left = self.wanted.max_bytes
        for number, run in enumerate(sorted(self.all, key=lambda run: run.order)):
            if self.wanted.limit is not None and number >= self.wanted.limit:
                self.wanted.counts["over the limit"] += 1
                run.drop()
            elif left is not None and run.size > left:
                self.wanted.counts["over the budget"] += 1
                run.drop()
            else:
                left = None if left is None else left - run.size
                yield run


def status_of(log: Log) -> str:
    """How a run stands. Raises LogError where its log is broken.

    Events of a newer version than is known are the application's: what upcasts them need not be loaded here. Such a run
    stands as its last event of that kind says.
    """
    try:
        state = log.state
        for event in state.received:
            _ = event.payload
        return state.status
    except (UpcastError, UnknownSchemaVersion):
        if all(event.event_version <= current_version(event.event_type) for event in log.events):
            raise
    kinds = [event.event_type for event in log.events if event.event_type in _STANDS]
    return _STANDS[kinds[-1]] if kinds else "running"


def path_of(log: Log, status: str) -> str:
    """The way that a run took through its flow: flow, status, and its steps, tools and gates, each loop once.

    Branches are told apart and put in an order of their own: which of them came first is no other path.
    """
    lanes: dict[tuple[str, str], list[str]] = {}
    for event in log.events:
        key = _NAMED.get(event.event_type)
        if key is not None:
            said = event.payload.get(key)
            lane = lanes.setdefault((event.namespace or "", event.branch or ""), [])
            lane.append(f"{event.event_type[:4]} {said}")
    order = sorted(lanes, key=lambda lane: (lane[0], branch_order(lane[1]), lane[1]))
    return repr((log.workflow_id, status, [(lane, without_loops(lanes[lane])) for lane in order]))


IN_FLIGHT = ("running", "suspended")
_STANDS = {
    "EXECUTION_SUSPENDED": "suspended",
    "EXECUTION_RESUMED": "running",
    "EXECUTION_COMPLETED": "completed",
    "EXECUTION_FAILED": "failed",
    "EXECUTION_CANCELLED": "cancelled",
    "EXECUTION_CONTINUED": "continued",
}
_NAMED = {"STEP_STARTED": "stepId", "TOOL_REQUESTED": "name", "EXECUTION_SUSPENDED": "on"}


def without_loops(items: Iterable[str]) -> list[str]:
    """The items with every block that follows upon itself taken once: A B A B C is A B C."""
    found: list[str] = []
    for item in items:
        found.append(item)
        for size in range(1, min(_LONGEST_LOOP, len(found) // 2) + 1):
            if found[-size:] == found[-2 * size : -size]:
                del found[-size:]
                break
    return found


def moment(text: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float:
    """``7d``, ``12h``, ``30m``, ``2w`` (so long ago) or RFC 3339, in ms since the epoch. Raises LoomError."""
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if ago:
        return (now() - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])).timestamp() * 1000
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = datetime.min
    if found.tzinfo is None:
        raise LoomError(
            f"{text!r} is no time", hint="Give RFC 3339 with a time zone (2026-11-30T12:00:00Z), or like 7d, 12h, 30m."
        )
    return found.timestamp() * 1000


def size(text: str) -> int:
    """``500K``, ``20M``, ``1G`` or a plain number of bytes. Raises LoomError."""
    match = re.fullmatch(r"(\d{1,12})([KMG]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise LoomError(f"{text!r} is no size", hint="Give bytes, or like 500K, 20M, 1G.")
    return int(match[1]) * _SIZES[match[2].upper()]
