"""Which contracts changed under unfinished runs: each pair of contracts is compared once, however many runs are on it.

Seed 003's second question is what a change does whose version number did not move: the report names that number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from pytest_loom.contract.changes import ContractChange, compare_contracts
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import Contract

_TURNED = frozenset({"wider-number", "default-changed", "format"})
"""Changes under which all is still read, and may mean another thing."""


@dataclass
class ChangedContract:
    """What changed from the contract that runs were started on to today's (``compare_contracts``).

    ``was`` and ``now`` are fingerprints, ``runs`` is how many unfinished runs are on the old one. As far as they say
    it: the versions of both, and when the old one was captured. ``old`` and ``new`` are both as JSON data, where the
    simulation was told to keep them.
    """

    workflow_id: str
    was: str
    now: str
    changes: tuple[ContractChange, ...]
    runs: int = 0
    was_version: str | None = None
    now_version: str | None = None
    captured_at: str | None = None
    old: dict[str, Any] | None = None
    new: dict[str, Any] | None = None

    @property
    def unmoved(self) -> list[str]:
        """The version numbers that should have moved and did not."""
        return list(dict.fromkeys(str(change.version) for change in self.drifted))

    @property
    def drifted(self) -> list[ContractChange]:
        """The changes that a number should have told: what only adds something hurts no run, and needs none."""
        said = [change for change in self.changes if change.version is not None]
        return [change for change in said if change.effect != "additive" or change.kind in _TURNED]

    def as_dict(self) -> dict[str, Any]:
        """The change as ``report.json`` holds it."""
        facts = {
            "workflow_id": self.workflow_id,
            "was": self.was,
            "now": self.now,
            "runs": self.runs,
            "unmoved": self.unmoved,
            "changes": [asdict(change) for change in self.changes],
        }
        return facts | {name: value for name in _ALSO if (value := getattr(self, name)) is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChangedContract:
        """The change that ``as_dict`` made plain."""
        changes = tuple(
            change if isinstance(change, ContractChange) else ContractChange(**change) for change in data["changes"]
        )
        also = {name: data[name] for name in _ALSO if name in data}
        return cls(data["workflow_id"], data["was"], data["now"], changes, data["runs"], **also)


_ALSO = ("was_version", "now_version", "captured_at", "old", "new")


class Compared:
    """Pairs of yesterday's and today's contracts, as they come up; a pair is known by its two objects."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[int, int], tuple[Contract, Contract, ChangedContract]] = {}

    def pair(
        self,
        yesterday: Contract,
        today: Contract,
        print_of_today: str,
        captured_at: Callable[[Contract], datetime | None] = lambda _: None,
    ) -> ChangedContract:
        """What changed between the two; the same object each time. ``captured_at`` says when the old one was kept."""
        key = (id(yesterday), id(today))
        if key not in self._pairs:
            was = fingerprint(yesterday)
            changes = tuple(compare_contracts(yesterday, today)) if was != print_of_today else ()
            at = captured_at(yesterday)
            when = None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            changed = ChangedContract(
                yesterday.workflow_id, was, print_of_today, changes, 0, yesterday.version, today.version, when
            )
            self._pairs[key] = (yesterday, today, changed)  # which keeps the objects, so that no other has their id
        return self._pairs[key][2]

    def counts(self) -> list[int]:
        """How many runs each pair has by now, in the order in which they came up."""
        return [changed.runs for _, _, changed in self._pairs.values()]

    def count(self, runs: Iterable[int]) -> None:
        """Add so many runs to each pair, in that order."""
        for (_, _, changed), more in zip(self._pairs.values(), runs, strict=False):
            changed.runs += more

    def with_runs(self, *, whole: bool = False) -> list[ChangedContract]:
        """The changes that unfinished runs have to live with; ``whole`` with the contracts themselves."""
        found = [pair for pair in self._pairs.values() if pair[2].runs and pair[2].was != pair[2].now]
        return merged(
            replace(changed, old=_data(yesterday), new=_data(today)) if whole else changed
            for yesterday, today, changed in found
        )


def merged(found: Iterable[ChangedContract]) -> list[ChangedContract]:
    """One entry for each pair of fingerprints, with the runs of all of them."""
    known: dict[tuple[str, str, str], ChangedContract] = {}
    for one in found:
        key = (one.workflow_id, one.was, one.now)
        runs = one.runs + (known[key].runs if key in known else 0)
        known[key] = replace(known.get(key, one), runs=runs)
    return list(known.values())


_LARGE = 1 << 18
"""Bytes of JSON up to which a contract is kept whole."""


def _data(contract: Contract) -> dict[str, Any] | None:
    data = contract.model_dump(by_alias=True, exclude_none=True)
    return data if len(msgspec.json.encode(data)) <= _LARGE else None
