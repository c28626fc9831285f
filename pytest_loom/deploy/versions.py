"""Versions in a deploy simulation: saved state and plan, and the contract that a run was started on (DESIGN section 5).

Four numbers say what was saved; the fingerprint says whether they tell the truth: the same number with another
fingerprint is ``contract-drift``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_loom.contract.changes import ContractChange
from pytest_loom.contract.model import Contract
from pytest_loom.contract.store import Contracts
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.flow.carried import carried
from pytest_loom.log.event import Log

_LISTED = 4
_CAPTURE = (
    "Capture contracts with each deploy, and commit them:\n  pytest --loom-deploy-sim --snapshot-update -k deploy-sim"
)


def saved_versions(log: Log, contract: Contract) -> Iterator[Finding]:
    """Saved state and plans that cannot be carried to today's version (migration-missing, schema-unknown)."""
    if not log.state.in_flight:
        return
    for part in carried(log, contract.versions or {}):
        if part.error is not None:
            code = "schema-unknown" if part.unknown else "migration-missing"
            yield finding(
                log,
                code,
                f"{part.error.what}. Resumed all the same, the run would read it by guessing.",
                part.error.hint,
                step=part.what,
            )


def contract_drift(
    log: Log, contract: Contract, print_of_today: str, changed: ChangedContract | None
) -> Iterator[Finding]:
    """The run says that it is on today's version, and today's contract is another one (a warning).

    ``changed``: what changed since the run's own contract, where that is kept. Where it is not, nobody can say whether
    the change matters: then it is only mentioned.
    """
    manifest = log.state.manifest
    named, version = manifest.get("contractFingerprint"), manifest.get("flowVersion")
    if named == print_of_today:
        return
    name = printable(contract.workflow_id)
    hint = "Raise that number when the contract changes: then it says which runs are on which."
    if changed is not None:
        found = changed.drifted
        if found:
            numbers = ", ".join(changed.unmoved)
            what = f"the contract of {name} changed and its {numbers} did not: {_listed(found)}"
            yield finding(log, "contract-drift", f"{what}.", hint)
    elif named is not None and version is not None and version == contract.version:
        what = (
            f"the run was started on {name} {printable(str(version))} with contract {printable(str(named))}, and"
            f" today's {printable(str(version))} has another one, {print_of_today}"
        )
        keep = f"Contracts are not kept here, so what changed cannot be said. {_CAPTURE}"
        yield finding(log, "contract-drift", f"{what}.", f"{hint} {keep}", severity="info")


def contract_unknown(log: Log, kept: Contracts) -> Iterator[Finding]:
    """Contracts are kept, and the one that the run was started on is not among them (a warning)."""
    named = log.state.manifest.get("contractFingerprint")
    if isinstance(named, str) and not kept.knows(log.workflow_id, named):
        yield finding(
            log,
            "contract-unknown",
            f"was started on contract {printable(named)}, which is not among those that are kept: what changed since"
            " then is told only as far as the log shows it.",
            _CAPTURE,
        )


def _listed(changes: list[ContractChange]) -> str:
    said = [change.detail for change in changes]
    more = f" and {len(said) - _LISTED} more" if len(said) > _LISTED else ""
    return "; ".join(said[:_LISTED]) + more
