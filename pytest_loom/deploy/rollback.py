"""The way back, by structure: what the new code may write from now on that the old code refuses or takes for less.

A replay shows what the new code writes up to where runs stand today; what it writes after that, and in runs that are
started on it, only the contracts tell. They are compared the other way round: written under the new, read by the old.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_loom.contract.changes import ContractChange, compare_contracts
from pytest_loom.contract.model import Contract
from pytest_loom.deploy.report import BREAKING, Finding, Severity
from pytest_loom.errors import printable
from pytest_loom.log.migrations import chain

READ_FIRST = (
    "Deploy what reads it first, and what writes it once no worker is left that does not read it; or keep new workers"
    " for the runs that the new code has touched."
)
_INVERSE = "Give the migration an inverse where there is a lossless one. Else: "

_ONLY_NEW = {"step": "step-removed", "gate": "gate-removed", "tool": "tool-missing"}
_CODES = {
    "input": "input-contract",
    "gate": "gate-changed",
    "reducer": "reducer-changed",
    "join": "join-broken",
    "engine": "replay-diverged",
}
_NOT_CHECKED = ("said", "unsaid")
_STILL_READ = ("ignored", "default-changed", "format")
_LOST = ("ignored", "removed", "renamed")


@dataclass(frozen=True)
class Side:
    """One deploy's contract of a workflow; ``is_code``: its flow is at hand, so a run is replayed on it."""

    contract: Contract
    is_code: bool


def way_back(old: Side, new: Side) -> Iterator[Finding]:
    """What speaks against a rollback of one workflow, whichever runs there are; nothing where the contracts agree."""
    yield from _saved(old.contract, new.contract)
    changes = compare_contracts(new.contract, old.contract)
    filled = {_object(change) for change in changes if change.kind.startswith("added")}
    for change in changes:
        told = _judged(change, old, new, renamed=change.kind == "ignored" and _object(change) in filled)
        if told is not None:
            code, severity = told
            yield _finding(new.contract, code, severity, change)


def _saved(old: Contract, new: Contract) -> Iterator[Finding]:
    """State and plan in a newer version, which only an inverse migration takes back."""
    for what in ("state", "plan"):
        was, now = ((one.versions or {}).get(what) for one in (old, new))
        if was is None or now is None or was == now or chain(what, now, was) is not None:
            continue
        text = (
            f"the new code saves the {what} in version {printable(repr(now))}, the old code reads"
            f" {printable(repr(was))}, and no inverse migration leads back: a run that has saved it could not go on"
        )
        is_newer = isinstance(was, int) and isinstance(now, int) and now > was
        code, hint = "schema-unknown" if is_newer else "migration-missing", f"{_INVERSE}{READ_FIRST}"
        yield Finding(code, "breaking", new.workflow_id, "", what, f"{text}.", hint, "")


def _object(change: ContractChange) -> tuple[str, str, str]:
    """The object that a changed key is in."""
    return change.part, change.name, change.path.rpartition(".")[0]


def _judged(change: ContractChange, old: Side, new: Side, *, renamed: bool) -> tuple[str, Severity] | None:
    """Which finding a change from the new contract back to the old one is; None where nobody would notice.

    ``renamed``: a key that is not read any more, where another one is filled in: most likely its new name.
    """
    part, kind = change.part, change.kind
    journal = (old.contract.engine or "journal") == "journal"
    if part in ("versions", "output") or kind in _NOT_CHECKED:
        return None  # saved versions are told by their migrations; an output ends its run
    if part == "step" and kind == "removed":
        return ("step-removed" if journal else "frontier-missing"), "breaking"
    if part == "step" and not journal:
        return None  # a checkpoint engine never reads finished work again
    if part == "step" and change.path.partition(".")[0].partition("[")[0] == "input":
        moved = kind in _LOST or kind == "retyped" or kind.startswith(("added", "required"))
        asked_otherwise = moved or change.effect in ("breaking", "unknown")
        # Only native flows hold what was asked then against what is asked now.
        return ("replay-diverged", "breaking") if old.is_code and asked_otherwise else None
    if part == "state" and _versions(old.contract) != _versions(new.contract):
        return None
    if change.effect in ("additive", "cosmetic"):
        return None
    if part == "tool" and kind in ("permissions", "version", "approval"):
        return ("approval-bypassed" if kind == "approval" else "approval-stale"), "breaking"
    severity: Severity = "breaking" if change.effect == "breaking" else "warning"
    if kind in _STILL_READ and part != "tool" and not renamed:
        severity = "warning"
    if part == "state":
        return ("state-key-lost" if kind in _LOST else "state-type"), severity
    if kind == "removed" and change.path == "" and part in _ONLY_NEW:
        return _ONLY_NEW[part], severity
    return _CODES.get(part, "tool-args" if part == "tool" else "output-contract"), severity


def _versions(contract: Contract) -> object:
    return (contract.versions or {}).get("state")


def _finding(contract: Contract, code: str, severity: Severity, change: ContractChange) -> Finding:
    assert code in BREAKING
    if change.kind == "removed" and change.path == "" and change.part in _ONLY_NEW:
        text = (
            f"{change.part} {printable(change.name)} is in the new code only: a run that has come to it there could not"
            " go on with the old code"
        )
    else:
        text = f"what the new code may write, read by the old code: {change.detail}"
    return Finding(code, severity, contract.workflow_id, "", change.name or None, f"{text}.", READ_FIRST, "")
