"""What a run did, effect by effect, beside what today's code makes of it: for a few example runs of each cause.

A timeline is plain JSON data, small and safe to show: at most ``MAX_ROWS`` rows and ``MAX_TEXT`` characters of payload,
scrubbed and printable, with the first divergence among them.

    {"events": 1204, "how": "today's code was replayed against the log", "first": 17, "rows": [
        {"at": 5, "time": "2026-01-31T10:00:00Z", "kind": "step", "name": "assess", "status": "completed",
         "was": [["input", "{…}"], ["output", "{…}"]], "today": "differs", "said": "…", "now": [["input", "{…}"]],
         "codes": ["replay-diverged"]},
        {"gap": 900}, …]}

``first`` is the number of the row at which today's code does something else, None where none is known. ``today`` is
``same``, ``differs``, ``gone``, ``stops``, ``new``, ``later`` (it comes after that), ``kept`` (it is finished, and not
run again), ``declared`` (today's contract has it) or left out where it is not known what today's code does there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.facts import place_of, rfc3339
from pytest_loom.deploy.native import replayed_leniently
from pytest_loom.deploy.report import Finding
from pytest_loom.errors import LogError, LoomError, printable
from pytest_loom.evals.align import align
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.recorder import Scrubs, without_secrets
from pytest_loom.log.event import UNDECODABLE, Event, Log
from pytest_loom.log.scrub import DEFAULT
from pytest_loom.state import ExecutionState

EXAMPLES = 3
"""How many runs of each cause are shown in full."""

MAX_CAUSES = {"breaking": 50, "warning": 20}
"""Of how many causes of each weight."""

MAX_ROWS = 200
MAX_TEXT = 64 * 1024
_MAX_PART = 4_000
_MAX_RAW = 1 << 20
_ENDS = 10
_AROUND = MAX_ROWS - 2 * _ENDS

_RUN = {
    "EXECUTION_STARTED": "input",
    "EXECUTION_MIGRATED": "",
    "EXECUTION_FORKED": "",
    "EXECUTION_CONTINUED": "input",
    "EXECUTION_COMPLETED": "output",
    "EXECUTION_FAILED": "error",
    "EXECUTION_CANCELLED": "reason",
}
"""Events that are a row of their own, and which part of their payload is shown ("" all of it)."""

_SAVED = {
    "STATE_SNAPSHOT": ("state", "state"),
    "PLAN_RECORDED": ("plan", "plan"),
    "DECISION_RECORDED": ("decision", "value"),
}
_DIVERGED = frozenset({"differs", "gone", "stops", "new"})


_Texts = list[list[str]]
"""Names of parts, each with its text."""


@dataclass
class _Row:
    """One effect; ``events`` are the sequences of those that told of it, ``parts`` what it took and gave, as JSON."""

    kind: str
    name: str
    status: str
    events: list[int]
    time: str | None
    parts: list[tuple[str, bytes]]
    namespace: str = ""
    today: str = ""
    said: str = ""
    now: list[tuple[str, bytes]] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.kind} {self.name}"


class Timelines:
    """Chooses the example runs of each cause as a simulation comes by them, and makes their timelines.

    ``scrub`` takes secrets out of what is shown.
    """

    def __init__(self, scrub: Scrubs = DEFAULT, each: int = EXAMPLES) -> None:
        self.scrub = scrub
        self.each = each
        self._seen: Counter[tuple[str, str, str, str | None]] = Counter()
        self._causes: Counter[str] = Counter()

    def of(self, log: Log, findings: Sequence[Finding], contract: Contract | None, flow: Any) -> dict[str, Any] | None:
        """The timeline of a run, where it is among the first of one of its causes; else None."""
        wanted = [self._wants(found) for found in findings]  # each of them is counted
        if not any(wanted):
            return None
        try:
            return timeline(log, findings, contract, flow, self.scrub)
        except LogError:
            return None

    def _wants(self, found: Finding) -> bool:
        key = (found.severity, found.code, found.workflow_id, found.step)
        if key not in self._seen:
            if self._causes[found.severity] >= MAX_CAUSES.get(found.severity, 0):
                return False
            self._causes[found.severity] += 1
        self._seen[key] += 1
        return self._seen[key] <= self.each


def timeline(
    log: Log, findings: Sequence[Finding], contract: Contract | None, flow: Any, scrub: Scrubs = DEFAULT
) -> dict[str, Any]:
    """The timeline of one run, beside today's contract (None: the flow is gone) and flow. Raises LogError."""
    rows = _rows(log)
    how = _beside(rows, log, contract, flow)
    if isinstance(how, list):
        rows, how = how, "today's code was replayed against the log, and nothing was run"
    _flag(rows, log, findings)
    breaking = {found.code for found in findings if found.severity == "breaking"}
    diverged = (number for number, row in enumerate(rows) if row.today in _DIVERGED or breaking & {*row.codes})
    first = next(diverged, None)
    return _plain(rows, first, scrub) | {"events": len(log), "how": how}


# What was recorded --------------------------------------------------------------------------------------------------


def _rows(log: Log) -> list[_Row]:
    """The effects of a run, in the order in which they began."""
    state = log.state
    rows = [*_steps(state, log), *_calls(state), *_waits(state, log)]
    rows += [row for event in log.events if (row := _single(event)) is not None]
    rows += [
        _Row("answer", event.event_type, "came", [event.sequence], rfc3339(event), [("payload", bytes(event.raw))])
        for event in state.received
    ]
    return sorted(rows, key=lambda row: row.events[0])


def _steps(state: ExecutionState, log: Log) -> Iterable[_Row]:
    for key, frame in state.frames.items():
        first = frame.input_event or frame.event
        events = [first.sequence, *([frame.event.sequence] if frame.event is not first else [])]
        parts = [
            ("input", bytes(frame.raw_input)),
            ("output", bytes(frame.raw_output)),
            ("error", bytes(frame.raw_error)),
        ]
        status = "failed, to be tried again" if frame.will_retry else frame.status
        yield _Row("step", key, status, events, rfc3339(first), parts, frame.namespace or "")


def _calls(state: ExecutionState) -> Iterable[_Row]:
    for call in state.calls:
        first = call.request_event
        events = [first.sequence, *([call.event.sequence] if call.event is not first else [])]
        asked, answer = ("args", "output") if call.kind == "tool" else ("request", "response")
        parts = [(asked, bytes(call.raw_args)), (answer, bytes(call.raw_output)), ("error", bytes(call.raw_error))]
        yield _Row(call.kind, call.name, call.status, events, rfc3339(first), parts)


def _waits(state: ExecutionState, log: Log) -> Iterable[_Row]:
    is_open = {wait.sequence for wait in state.suspensions}
    for wait in state.waits:
        if not 0 < wait.sequence <= len(log):
            continue
        event = log.events[wait.sequence - 1]
        parts = [("pending", msgspec.json.encode(wait.pending))] if wait.pending is not None else []
        status = f"{wait.kind}, waits" if wait.sequence in is_open else f"{wait.kind}, done"
        yield _Row("gate", " or ".join(wait.events), status, [wait.sequence], rfc3339(event), parts)


def _single(event: Event) -> _Row | None:
    """The row of an event that stands for itself."""
    kind = event.event_type
    if kind in _SAVED:
        what, part = _SAVED[kind]
        payload = event.payload
        name = str(payload.get("key", "")) if what == "decision" else ""
        return _Row(what, name, "saved", [event.sequence], rfc3339(event), _picked(payload, part))
    if kind in _RUN:
        name = kind.removeprefix("EXECUTION_").lower()
        return _Row("run", name, "", [event.sequence], rfc3339(event), _picked(event.payload, _RUN[kind]))
    if kind == "EXECUTION_RESUMED" and event.payload.get("eventType") == "TIMEOUT":
        return _Row("answer", "TIMEOUT", "came", [event.sequence], rfc3339(event), [])
    return None


def _picked(payload: dict[str, Any], part: str) -> list[tuple[str, bytes]]:
    value = payload.get(part) if part else payload
    return [] if value is None else [(part or "payload", msgspec.json.encode(value))]


# What today's code makes of it --------------------------------------------------------------------------------------


def _beside(rows: list[_Row], log: Log, contract: Contract | None, flow: Any) -> str | list[_Row]:
    """How today's side was found, its words put into the rows; other rows, where today's code was replayed."""
    if contract is None:
        return "today's code has no such flow"
    if isinstance(flow, Flow) and log.state.in_flight:
        try:
            return _merged(rows, _rows(replayed_leniently(log, flow)))
        except LoomError as problem:
            _by_contract(rows, log, contract)
            return (
                f"today's code could not be replayed ({printable(problem.what, 300)}): its contract is beside the log"
            )
    _by_contract(rows, log, contract)
    if (contract.engine or log.engine) == "checkpoint":
        return "this engine never runs again what is finished: what waits is held against today's code"
    return "today's contract is beside the log: which code would run is not known further than it says"


def _by_contract(rows: list[_Row], log: Log, contract: Contract) -> None:
    if (contract.engine or log.engine) != "journal":
        for row in rows:
            row.today = "kept" if row.kind in ("step", "tool", "model") and row.status == "completed" else ""
        return
    tools = None if contract.more_tools else contract.tools
    parts: dict[str, Any] = {"step": contract.steps, "tool": tools, "gate": contract.gates}
    for row in rows:
        known = parts.get(row.kind)
        if known is None or row.namespace:
            continue
        if {row.name, row.name.partition("#")[0], *row.name.split(" or ")} & {*known}:
            row.today = "declared"
        elif row.kind != "gate":  # one that is over need not be there
            row.today, row.said = "gone", f"today's contract has no {row.kind} of this name"


def _merged(rows: list[_Row], today: list[_Row]) -> list[_Row]:
    """Both sides in one: what pairs, what only the log has, what only today's code does."""
    last = today[-1]
    stopped = last.kind == "run" and last.name == "failed" and b'"ReplayDivergence"' in last.parts[0][1]
    why = _why(last.parts[0][1]) if stopped else ""
    today = today[:-1] if stopped else today
    merged: list[_Row] = []
    here = there = 0
    for mine, theirs in [*align([row.key for row in rows], [row.key for row in today]), (len(rows), len(today))]:
        merged += [_alone(row) for row in today[there:theirs]]
        for row in rows[here:mine]:
            row.today, row.said = ("later", "") if stopped else ("gone", "today's code does not do this")
            if stopped and why:
                row.today, row.said, why = "stops", why, ""
            merged.append(row)
        if mine < len(rows):
            merged.append(_pair(rows[mine], today[theirs]))
        here, there = mine + 1, theirs + 1
    if why:
        merged.append(_Row("run", "stops", "", [rows[-1].events[-1]], rows[-1].time, [], today="stops", said=why))
    return merged


def _why(error: bytes) -> str:
    lines = [line.strip() for line in str(json.loads(error).get("message", "")).splitlines()]
    return "; ".join(lines).replace("the golden run", "this run")


def _alone(row: _Row) -> _Row:
    row.today, row.said, row.now, row.parts = "new", "only today's code does this", row.parts, []
    row.events = []
    return row


def _pair(row: _Row, other: _Row) -> _Row:
    row.today = "same"
    theirs = dict(other.parts)
    changed = [name for name, value in row.parts if name in theirs and not _is_same(value, theirs[name])]
    if changed:
        row.today, row.said = "differs", f"another {' and '.join(changed)}"
        row.now = [(name, theirs[name]) for name in changed]
    return row


def _is_same(one: bytes, other: bytes) -> bool:
    try:
        return one == other or bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except UNDECODABLE:
        return False


def _flag(rows: list[_Row], log: Log, findings: Iterable[Finding]) -> None:
    """Mark the rows that findings are about; a finding about no row is about where the run stands."""
    waits = log.state.suspensions
    stands = waits[0].sequence if waits else rows[-1].events[-1] if rows and rows[-1].events else 0
    for found in findings:
        event, _ = place_of(log, found.step)
        at = stands if event is None else event.sequence
        row = next((row for row in rows if at in row.events), rows[-1] if rows else None)
        if row is not None and found.code not in row.codes and found.severity != "info":
            row.codes.append(found.code)


# As data ------------------------------------------------------------------------------------------------------------


def _plain(rows: list[_Row], first: int | None, scrub: Scrubs) -> dict[str, Any]:
    """The rows that are shown, as JSON data, with as much of their payloads as there is room for."""
    count = len(rows)
    middle = count - 1 if first is None else first
    begin = max(_ENDS, min(middle - _AROUND * 2 // 3, count - _ENDS - _AROUND))
    chosen = [
        *range(min(_ENDS, count)),
        *range(begin, min(begin + _AROUND, count)),
        *range(max(0, count - _ENDS), count),
    ]
    shown = sorted({number for number in chosen if number < count})
    room = MAX_TEXT
    texts: dict[int, list[_Texts]] = {}
    for number in sorted(shown, key=lambda number: abs(number - middle)):  # what is far away goes first
        texts[number] = [_texts(side, scrub, room) for side in (rows[number].parts, rows[number].now)]
        room -= sum(len(text) for side in texts[number] for _, text in side)
    plain: list[dict[str, Any]] = []
    at = None
    before = -1
    for number in shown:
        if number > before + 1:
            plain.append({"gap": number - before - 1})
        if number == first:
            at = len(plain)
        plain.append(_data(rows[number], *texts[number], said=_said(rows[number].said, scrub)))
        before = number
    return {"first": at, "rows": plain}


def _data(row: _Row, was: _Texts, now: _Texts, *, said: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "at": row.events[0] if row.events else None,
        "time": row.time if row.events else None,
        "kind": row.kind,
        "name": printable(row.name),
        "status": printable(row.status),
        "was": was,
        "today": row.today,
        "said": said,
        "now": now,
        "codes": row.codes,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def _texts(parts: Iterable[tuple[str, bytes]], scrub: Scrubs, room: int) -> _Texts:
    return [[name, text] for name, raw in parts if (text := _text(raw, name, scrub, room))]


def _said(text: str, scrub: Scrubs) -> str:
    """Words about a row, which may quote its payload, on one line."""
    clean = json.loads(scrub.raw(msgspec.json.encode(text))) if text else ""
    return printable(" ".join(str(clean).split()), 600)


def _text(raw: bytes, field: str, scrub: Scrubs, room: int) -> str:
    """A payload to be read: scrubbed, set out over lines, printable, and cut; "" where there is none."""
    if not raw:
        return ""
    if len(raw) > _MAX_RAW or room <= 0:
        return f"({len(raw):,} bytes, left out)"
    try:
        value = msgspec.json.decode(without_secrets(scrub, raw, field))
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    except (*UNDECODABLE, LogError):
        return "(cannot be read)"
    limit = min(_MAX_PART, room)
    lines = [printable(line, limit) for line in text[: limit + 1].split("\n")]
    shown = "\n".join(lines)
    return shown if len(text) <= limit else f"{shown[:limit]}…\n({len(text):,} characters in all)"
