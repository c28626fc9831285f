"""Since which contract change a cause is there."""

from __future__ import annotations

from typing import Any

from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.report.since import change_of, since_lines


def change(part: Any, name: str, detail: str, effect: Any = "breaking", path: str = "") -> ContractChange:
    """One change of a contract."""
    return ContractChange(part, name, path, "changed", effect, detail)


GONE = change("step", "assess", "step assess is gone")
STATE = change("state", "", "note is gone", path="note")
CHANGED = ChangedContract("refund", "1" * 16, "2" * 16, (GONE, STATE, change("step", "pay", "words", "cosmetic")), 2)


def test_the_change_of_the_same_name() -> None:
    """Of all changes of the flow it is the one about the step that the cause names."""
    assert list(since_lines("step-removed", "refund", "assess", [CHANGED])) == [
        "contract 11111111 -> 22222222: step assess is gone"
    ]


def test_the_change_of_the_part() -> None:
    """A state's finding names no step of the contract: the changes of the state may be the cause."""
    assert list(since_lines("state-key-lost", "refund", None, [CHANGED])) == [
        "contract 11111111 -> 22222222: note is gone"
    ]


def test_what_is_not_told() -> None:
    """Another flow, another step and a change of words are no cause; neither is a guess."""
    assert list(since_lines("step-removed", "order", "assess", [CHANGED])) == []
    assert list(since_lines("step-removed", "refund", "pay", [CHANGED])) == []
    assert list(since_lines("replay-diverged", "refund", None, [CHANGED])) == []


def test_a_contract_by_name() -> None:
    """As far as they are known: the versions, and when the old one was captured; what a log says stays on its line."""
    told = ChangedContract("refund", "1" * 16, "2" * 16, (), 1, "1.2\n.0", "2.0.0", "2026-01-31T10:00:00Z")
    assert change_of(told) == "contract 11111111 (1.2\\n.0, captured 2026-01-31 10:00 UTC) -> 22222222 (2.0.0)"


def test_many_changes_are_cut() -> None:
    """The first three of them, and a number."""
    many = ChangedContract("refund", "1" * 16, "2" * 16, tuple(change("state", "", f"c{n}") for n in range(9)), 1)
    (line,) = since_lines("state-type", "refund", None, [many])
    assert line.endswith(": c0; c1; c2; and 6 more")
