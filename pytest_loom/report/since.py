"""Since which contract change a cause is there: the changes that are about the same step, gate, tool or part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.errors import printable

_PARTS = {
    "input-contract": ("input",),
    "output-contract": ("output", "step"),
    "state-key-lost": ("state",),
    "state-type": ("state",),
    "reducer-changed": ("reducer",),
    "join-broken": ("join",),
}
"""Codes that are about a part of the contract rather than about what they name as the step."""

_SHOWN = 3
_SHORT = 8


def since(
    code: str, flow: str, step: str | None, changed: Iterable[ChangedContract]
) -> Iterator[tuple[ChangedContract, list[ContractChange]]]:
    """The changed contracts of a flow, each with its changes that may be what broke the runs of a cause."""
    parts = _PARTS.get(code, ())
    for one in changed:
        if one.workflow_id != flow:
            continue
        real = [change for change in one.changes if change.effect != "cosmetic"]
        named = [change for change in real if step is not None and step in (change.name, change.path.split(".")[0])]
        found = named or [change for change in real if change.part in parts]
        if found:
            yield one, found


def since_lines(code: str, flow: str, step: str | None, changed: Iterable[ChangedContract]) -> Iterator[str]:
    """The same as sentences: from which contract to which, and what is another there."""
    for one, changes in since(code, flow, step, changed):
        more = f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        yield f"{change_of(one)}: {'; '.join(change.detail for change in changes[:_SHOWN])}{more}"


def change_of(changed: ChangedContract) -> str:
    """``contract 1a2b3c4d (1.2.0, captured 2026-01-31) -> 5e6f7a8b (2.0.0)``."""
    was = [printable(part, 40) for part in (changed.was_version,) if part is not None]
    was += [f"captured {when(changed.captured_at)}"] if changed.captured_at is not None else []
    now = f" ({printable(changed.now_version, 40)})" if changed.now_version is not None else ""
    told = f" ({', '.join(was)})" if was else ""
    return f"contract {changed.was[:_SHORT]}{told} -> {changed.now[:_SHORT]}{now}"


def when(moment: str) -> str:
    """A time in UTC as RFC 3339 has it, to the minute, for people."""
    day, t, time = printable(moment, 40).partition("T")
    return f"{day} {time[:5]} UTC" if t else day
