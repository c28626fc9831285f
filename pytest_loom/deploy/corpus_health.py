"""Is the corpus neither empty nor stale? What of today's contracts recorded runs come by, and how old the newest is.

A simulation can only speak of what was recorded: a flow without a run, a gate that no run ever came to, a tool that
none called may change in any way, and it is green. What is said here are notes, never findings: no run is hurt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log

PARTS = ("step", "gate", "tool")
"""What a run can come by."""

_ANY_NAME = "*"
_START = "__start__"  # where a graph begins, which is no step of its own
_DAY_MS = 24 * 3600 * 1000
_SHOWN = 4


@dataclass
class FlowCorpus:
    """The recorded runs of one flow: how many, how many of them unfinished, when the newest went on last.

    ``promised`` are the steps, gates and tools of today's contract, ``missing`` those that no run came by.
    """

    runs: int = 0
    in_flight: int = 0
    newest_ms: float | None = None
    promised: dict[str, set[str]] = field(default_factory=lambda: {part: set() for part in PARTS})
    missing: dict[str, set[str]] = field(default_factory=lambda: {part: set() for part in PARTS})

    def promise(self, contract: Contract) -> None:
        """Note what a contract of the flow has."""
        for part, names in parts_of(contract).items():
            self.missing[part] |= names - self.promised[part]
            self.promised[part] |= names

    def see(self, log: Log) -> None:
        """Take one run into account. Raises LogError where it cannot be read."""
        time = log.events[-1].time_ms
        self.runs += 1
        self.in_flight += log.state.in_flight
        self.newest_ms = time if self.newest_ms is None else max(self.newest_ms, time)
        for part, look in _LOOKS.items():
            if self.missing[part]:  # what was seen once needs no second look: there may be a million runs
                look(log, self.missing[part])

    def add(self, other: FlowCorpus) -> None:
        """Take over what was seen in another part of the corpus."""
        self.runs += other.runs
        self.in_flight += other.in_flight
        self.newest_ms = max((one for one in (self.newest_ms, other.newest_ms) if one is not None), default=None)
        for part in PARTS:
            passed = [one.promised[part] - one.missing[part] for one in (self, other)]
            self.promised[part] |= other.promised[part]
            self.missing[part] = self.promised[part] - passed[0] - passed[1]

    def age_days(self, now_ms: float) -> float | None:
        """How long ago the newest run went on last; None without a run."""
        return None if self.newest_ms is None else max(0.0, (now_ms - self.newest_ms) / _DAY_MS)


class CorpusHealth:
    """The corpus, flow by flow. What parts of a simulation saw adds up in any order.

    ``left_out`` counts the finished runs of live stores, at which a simulation does not look: where there are some,
    nobody knows what no run came by.
    """

    def __init__(self) -> None:
        self.flows: dict[str, FlowCorpus] = {}
        self.left_out = 0

    def promise(self, workflow_id: str, contract: Contract) -> FlowCorpus:
        """Note that there is such a flow today, whether or not it has a run."""
        flow = self.flows.setdefault(workflow_id, FlowCorpus())
        flow.promise(contract)
        return flow

    def see(self, log: Log, workflow_id: str, contract: Contract | None) -> None:
        """Take a run into account that was judged as one of a flow; nothing where it cannot be read."""
        if contract is None:
            return
        flow = self.flows.get(workflow_id)
        if flow is None or not flow.runs:
            flow = self.promise(workflow_id, contract)
        try:
            flow.see(log)
        except LogError:
            return

    def see_alike(self, seen: CorpusHealth, runs: int, newest: float | None) -> None:
        """Take runs into account that are like one seen; ``newest`` (ms) is when one of them went on last, where that
        is told: else all of them did when that one did."""
        self.left_out += seen.left_out * runs
        for name, like in seen.flows.items():
            flow = self.flows[name]
            flow.runs += runs
            flow.in_flight += like.in_flight * runs
            times = [time for time in (newest, flow.newest_ms) if time is not None]
            flow.newest_ms = max(times, default=None)

    def add(self, other: CorpusHealth) -> None:
        """Take over what was seen in another part of the corpus."""
        self.left_out += other.left_out
        for name, flow in other.flows.items():
            self.flows.setdefault(name, FlowCorpus()).add(flow)

    def as_dict(self) -> dict[str, Any]:
        """The corpus as plain JSON data: ``{"left_out", "flows": {name: {"runs", "newest_ms", "missing", …}}}``."""
        flows = {
            name: {
                "runs": flow.runs,
                "in_flight": flow.in_flight,
                "newest_ms": flow.newest_ms,
                "promised": {part: sorted(flow.promised[part]) for part in PARTS},
                "missing": {part: sorted(flow.missing[part]) for part in PARTS},
            }
            for name, flow in sorted(self.flows.items())
        }
        return {"left_out": self.left_out, "flows": flows}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CorpusHealth:
        """The corpus that ``as_dict`` made plain."""
        made = cls()
        made.left_out = data["left_out"]
        for name, facts in data["flows"].items():
            flow = made.flows[name] = FlowCorpus(facts["runs"], facts["in_flight"], facts["newest_ms"])
            flow.promised = {part: set(facts["promised"][part]) for part in PARTS}
            flow.missing = {part: set(facts["missing"][part]) for part in PARTS}
        return made

    def notes(self, *, max_age_days: float | None = None, now_ms: float | None = None) -> Iterator[str]:
        """What a green simulation does not speak of, a line each, fit to be printed.

        A flow is stale where its newest run is older than ``max_age_days``; ``now_ms`` is the time by default.
        """
        now = datetime.now(UTC).timestamp() * 1000 if now_ms is None else now_ms
        never = sorted(name for name, flow in self.flows.items() if not flow.runs)
        if never and not self.left_out:
            yield f"no run of {_listed(never)} is recorded: whatever changes there, this simulation is green"
        for name, flow in sorted(self.flows.items()):
            missing = [f"{part} {_listed(sorted(flow.missing[part]))}" for part in PARTS if flow.missing[part]]
            if flow.runs and missing and not self.left_out:
                yield f"no recorded run of {printable(name)} comes by {', '.join(missing)}"
            age = flow.age_days(now)
            if max_age_days is not None and age is not None and age > max_age_days:
                day = datetime.fromtimestamp((flow.newest_ms or 0) / 1000, UTC).date()
                yield f"the newest run of {printable(name)} is of {day}, {age:.0f} days ago: record some anew"


def max_age_of(text: str) -> float | None:
    """The setting ``loom_max_age``: a number of days, None where it is not set. Raises ValueError."""
    if not text.strip():
        return None
    days = float(text)
    if not 0 < days < 100_000:
        raise ValueError(text)
    return days


def parts_of(contract: Contract) -> dict[str, set[str]]:
    """The steps, gates and tools that a contract names and a run can come by, its agents' tools included.

    A query leaves nothing in a run, and a handler of any name is no event that a run could lack.
    """
    tools = {*(contract.tools or ()), *(name for one in (contract.agents or {}).values() for name in one.tools or ())}
    steps = {step for step in contract.steps or () if step.rpartition("/")[2] != _START}
    gates = {
        name
        for name, gate in (contract.gates or {}).items()
        if gate.kind != "query" and not (gate.kind and name.endswith(_ANY_NAME))
    }
    return {"step": steps, "gate": gates, "tool": tools}


def steps_passed(log: Log) -> set[str]:
    """The steps that a run began or stands at, those of a sub-flow by name and by path. Raises LogError."""
    frames = log.state.frames.values()
    steps = {frame.step_id for frame in frames}
    if any(frame.namespace for frame in frames):
        steps |= {f"{frame.namespace}/{frame.step_id}" for frame in frames if frame.namespace}
    if log.engine == "checkpoint":
        from pytest_loom.deploy.checkpoint import frontier_of, items, place, ran_steps  # which knows reports

        frontier = frontier_of(log)
        steps |= {place(item) for item in (*items(frontier, "pending"), *items(frontier, "sends"))}
        steps |= ran_steps(frontier)
    return steps


def gates_passed(log: Log) -> set[str]:
    """The events that a run waits for or waited for, or was sent: some logs do not say what was waited for.

    Raises LogError.
    """
    gates = {event for wait in log.state.waits for event in wait.events}
    if log.state.received:
        from pytest_loom.deploy.handlers import messages  # which knows reports

        gates |= {name for sent in messages(log) for name in (sent.name, f"{sent.kind}:{sent.name}")}
    return gates


def tools_passed(log: Log) -> set[str]:
    """The tools that a run called, or that somebody was shown a call of. Raises LogError."""
    tools = {call.name for call in log.state.calls if call.kind == "tool"}
    tools |= {name for wait in log.state.waits for name in called(wait.pending)}
    if log.engine == "checkpoint":
        from pytest_loom.deploy.checkpoint import frontier_of, items

        tools |= {str(call.get("name")) for call in items(frontier_of(log), "calls")}
    return tools


def called(pending: Any) -> Iterator[str]:
    """The names of the calls that a wait shows."""
    for call in pending if isinstance(pending, list) else [pending]:
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            yield call["name"]


def _look_at_steps(log: Log, missing: set[str]) -> None:
    missing.difference_update(log.state.frames)
    if log.engine == "checkpoint" or any("/" in name for name in missing):
        missing -= steps_passed(log)


def _look_at_gates(log: Log, missing: set[str]) -> None:
    if log.state.waits or log.state.received:
        missing -= gates_passed(log)


def _look_at_tools(log: Log, missing: set[str]) -> None:
    if log.state.calls or log.state.waits or log.engine == "checkpoint":
        missing -= tools_passed(log)


_LOOKS = {"step": _look_at_steps, "gate": _look_at_gates, "tool": _look_at_tools}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(printable(name) for name in names[:_SHOWN]) + more
