"""What only many runs of Temporal together tell: which patches are still needed, and whether chains are whole.

Counted run by run, and the same however a simulation is divided: parts are added in any order.

A patch lives in three phases (Temporal's patching docs): ``workflow.patched(id)`` as long as a run may be on the old
way, ``workflow.deprecate_patch(id)`` as long as a run has a marker that is not deprecated, then nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.log.event import Log

_NAMED = 3
_PATCH = "patch:"


class Named:
    """How many runs, and the first of them by id: enough to look at some."""

    def __init__(self, count: int = 0, ids: Iterable[str] = ()) -> None:
        self.count = count
        self.ids = sorted(set(ids))[:_NAMED]

    def __add__(self, other: Named) -> Named:
        return Named(self.count + other.count, [*self.ids, *other.ids])

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.ids) else ""
        return ", ".join(printable(one, 60) for one in self.ids) + more


class Lineage:
    """The counts. ``patches``: (workflow, patch, how) to the unfinished runs, where how is ``plain``, ``deprecated``
    or ``version N``; ``open``: all unfinished runs of a workflow; ``today``: what today's code does with a patch.
    ``edges``: links between runs of a chain of which one end is here. ``unreplayed``: imported runs, by contract.
    """

    def __init__(self) -> None:
        self.patches: dict[tuple[str, str, str], Named] = {}
        self.open: dict[str, Named] = {}
        self.today: dict[str, dict[str, str]] = {}
        self.edges: dict[tuple[str, str], int] = {}
        self.linked = 0
        self.joined = 0
        self.unreplayed = 0

    def __bool__(self) -> bool:
        return bool(self.patches or self.linked or self.unreplayed)

    def see(self, log: Log, today: Mapping[str, str] | None, *, unreplayed: bool = False) -> None:
        """Count one run in. ``today``: the patches that today's code names, None where that is not known.

        ``unreplayed``: today's code is at hand, and was not replayed, since the run has no history.
        """
        self._chain(log)
        self.unreplayed += unreplayed
        if not log.state.in_flight:
            return
        flow, one = log.workflow_id, Named(1, [log.execution_id])
        self.open[flow] = self.open.get(flow, Named()) + one
        if today is not None:
            self.today[flow] = dict(today)
        if any(key.startswith(_PATCH) for key in log.state.decisions):
            for patch, how in _markers(log).items():
                self.patches[flow, patch, how] = self.patches.get((flow, patch, how), Named()) + one

    def _chain(self, log: Log) -> None:
        first, last = log.events[0], log.state.last_event
        before = None
        if b"continuedExecutionRunId" in bytes(first.raw):
            facts = first.payload.get("temporal")
            before = facts.get("continuedExecutionRunId") if isinstance(facts, dict) else None
        after = last.payload.get("newExecutionId") if last.event_type == "EXECUTION_CONTINUED" else None
        if before or after:
            self.linked += 1
        if isinstance(before, str) and before:
            self._claim((before, log.execution_id), 1)
        if isinstance(after, str) and after:
            self._claim((log.execution_id, after), 2)

    def _claim(self, edge: tuple[str, str], end: int) -> None:
        """One end of a link is here: 1 the later run, 2 the earlier one. With both it is whole, and forgotten."""
        both = self.edges.pop(edge, 0) | end
        if both == 3:
            self.joined += 1
        else:
            self.edges[edge] = both

    def add(self, other: Lineage) -> None:
        """Take over what another part of the same simulation counted."""
        for key, runs in other.patches.items():
            self.patches[key] = self.patches.get(key, Named()) + runs
        for flow, runs in other.open.items():
            self.open[flow] = self.open.get(flow, Named()) + runs
        self.today |= other.today
        self.linked += other.linked
        self.joined += other.joined
        self.unreplayed += other.unreplayed
        for edge, end in other.edges.items():
            self._claim(edge, end)

    def see_alike(self, other: Lineage, execution_id: str) -> None:
        """Count in a run that is like the one run that ``other`` saw."""
        one = Named(1, [execution_id])
        for key in other.patches:
            self.patches[key] = self.patches.get(key, Named()) + one
        for flow in other.open:
            self.open[flow] = self.open.get(flow, Named()) + one
        self.today |= other.today

    def is_like(self, other: Lineage) -> bool:
        """Whether each saw one run, in no chain, of which the same is to be said."""
        mine, theirs = [(*one.patches, *one.open) for one in (self, other)]
        return mine == theirs and self.today == other.today and not (self.linked or other.linked)

    def as_dict(self) -> dict[str, Any]:
        """The counts as plain JSON data, in one order."""
        return {
            "patches": [[*key, runs.count, runs.ids] for key, runs in sorted(self.patches.items())],
            "open": [[flow, runs.count, runs.ids] for flow, runs in sorted(self.open.items())],
            "today": {flow: dict(sorted(patches.items())) for flow, patches in sorted(self.today.items())},
            "edges": [[*edge, end] for edge, end in sorted(self.edges.items())],
            "linked": self.linked,
            "joined": self.joined,
            "unreplayed": self.unreplayed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Lineage:
        """The counts that ``as_dict`` made plain."""
        made = cls()
        made.patches = {(flow, patch, how): Named(n, ids) for flow, patch, how, n, ids in data["patches"]}
        made.open = {flow: Named(n, ids) for flow, n, ids in data["open"]}
        made.today = data["today"]
        made.edges = {(earlier, later): end for earlier, later, end in data["edges"]}
        made.linked, made.joined = data["linked"], data["joined"]
        made.unreplayed = int(data.get("unreplayed", 0))
        return made

    def notes(self) -> list[str]:
        """What is to be said, a line each."""
        found = [self._patch(flow, patch) for flow, patch in dict.fromkeys(key[:2] for key in sorted(self.patches))]
        return [*self._goldens(), *filter(None, found), *self._chains()]

    def _goldens(self) -> list[str]:
        if not self.unreplayed:
            return []
        return [
            f"today's code was not replayed on {_runs(self.unreplayed)} imported from Temporal, judged by contract: a"
            " golden has no history. Name the histories themselves (histories/*.json) in loom_logs"
        ]

    def _patch(self, flow: str, patch: str) -> str:
        hows = {how: runs for (one, other, how), runs in self.patches.items() if (one, other) == (flow, patch)}
        plain, deprecated = hows.pop("plain", Named()), hows.pop("deprecated", Named())
        name, total = f"patch {printable(patch)} of {printable(flow)}", self.open[flow].count
        if hows:  # Go and Java count versions up
            told = ", ".join(f"{how.removeprefix('version ')} ({hows[how].count})" for how in sorted(hows))
            return f"{name}: unfinished runs are on version {told}{_without(total, hows)}"
        without = total - plain.count - deprecated.count
        today = self.today.get(flow, {}).get(patch, "gone") if flow in self.today else ""
        if today == "gone":
            named = "which the module of today's class does not name"
            return f"{name}, {named}, is needed by {_runs(plain.count)} ({plain})" if plain.count else ""
        if without:
            stay = "has to stay" if today != "deprecated" else "has to come back for them"
            return (
                f"{name}: {_runs(without)} of {total} that are unfinished have no marker of it and may be on the old"
                f" way: workflow.patched {stay}"
            )
        if plain.count and today == "deprecated":
            return f"{name}: deprecate_patch is still needed by {_runs(plain.count)} ({plain})"
        if plain.count:
            return (
                f"{name}: every unfinished run has its marker, so workflow.patched may become workflow.deprecate_patch;"
                f" {_runs(plain.count)} still need that ({plain})"
            )
        return f"{name}: no unfinished run needs it any more, so it may be deleted"

    def _chains(self) -> list[str]:
        if not self.linked:
            return []
        chains = self.linked - self.joined
        lost = sorted(self.edges.items())
        parts = [
            f"{printable(earlier, 60)} continues as {printable(later, 60)}, which is not here"
            if end == 2
            else f"{printable(later, 60)} continues {printable(earlier, 60)}, which is not here"
            for (earlier, later), end in lost[:_NAMED]
        ]
        more = [f"and {len(lost) - _NAMED} more such"] if len(lost) > _NAMED else []
        missing = f"; {'; '.join([*parts, *more])}" if lost else ", none of them with a gap"
        return [f"continued as new: {_runs(self.linked)} in {chains} chain{'' if chains == 1 else 's'}{missing}"]


def _markers(log: Log) -> dict[str, str]:
    """What the run recorded of each patch."""
    found: dict[str, str] = {}
    for event in log.events:
        if event.event_type == "DECISION_RECORDED":
            payload = event.payload
            key, value = payload.get("key"), payload.get("value")
            if isinstance(key, str) and key.startswith(_PATCH):
                plain = "deprecated" if payload.get("deprecated") is True else "plain"
                found[key.removeprefix(_PATCH)] = f"version {value}" if type(value) is int else plain
    return found


def _without(total: int, hows: Mapping[str, Named]) -> str:
    rest = total - sum(runs.count for runs in hows.values())
    return f", and {_runs(rest)} without its marker" if rest > 0 else ""


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
