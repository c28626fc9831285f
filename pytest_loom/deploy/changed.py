"""Which contracts changed under unfinished runs: each pair of contracts is compared once, however many runs are on it.

Seed 003's second question is what a change does whose version number did not move: the report names that number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from pytest_loom.contract.changes import ContractChange, compare_contracts
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import Contract

_TURNED = frozenset({"wider-number", "default-changed", "format"})
"""Changes under which all is still read, and may mean another thing."""


@dataclass
class ChangedContract:
    """What changed from the contract that runs were started on to today's (``compare_contracts``).

    ``was`` and ``now`` are fingerprints, ``runs`` is how many unfinished runs are on the old one.
    """

    workflow_id: str
    was: str
    now: str
    changes: tuple[ContractChange, ...]
    runs: int = 0

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
        return {
            "workflow_id": self.workflow_id,
            "was": self.was,
            "now": self.now,
            "runs": self.runs,
            "unmoved": self.unmoved,
            "changes": [asdict(change) for change in self.changes],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChangedContract:
        """The change that ``as_dict`` made plain."""
        changes = tuple(
            change if isinstance(change, ContractChange) else ContractChange(**change) for change in data["changes"]
        )
        return cls(data["workflow_id"], data["was"], data["now"], changes, data["runs"])


class Compared:
    """Pairs of yesterday's and today's contracts, as they come up; a pair is known by its two objects."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[int, int], tuple[Contract, Contract, ChangedContract]] = {}

    def pair(self, yesterday: Contract, today: Contract, print_of_today: str) -> ChangedContract:
        """What changed between the two; the same object each time."""
        key = (id(yesterday), id(today))
        if key not in self._pairs:
            was = fingerprint(yesterday)
            changes = tuple(compare_contracts(yesterday, today)) if was != print_of_today else ()
            changed = ChangedContract(yesterday.workflow_id, was, print_of_today, changes)
            self._pairs[key] = (yesterday, today, changed)  # which keeps the objects, so that no other has their id
        return self._pairs[key][2]

    def counts(self) -> list[int]:
        """How many runs each pair has by now, in the order in which they came up."""
        return [changed.runs for _, _, changed in self._pairs.values()]

    def count(self, runs: Iterable[int]) -> None:
        """Add so many runs to each pair, in that order."""
        for (_, _, changed), more in zip(self._pairs.values(), runs, strict=False):
            changed.runs += more

    def with_runs(self) -> list[ChangedContract]:
        """The changes that unfinished runs have to live with."""
        return merged(changed for _, _, changed in self._pairs.values() if changed.runs and changed.was != changed.now)


def merged(found: Iterable[ChangedContract]) -> list[ChangedContract]:
    """One entry for each pair of fingerprints, with the runs of all of them."""
    known: dict[tuple[str, str, str], ChangedContract] = {}
    for one in found:
        key = (one.workflow_id, one.was, one.now)
        runs = one.runs + (known[key].runs if key in known else 0)
        known[key] = ChangedContract(*key, one.changes, runs)
    return list(known.values())
