"""Acknowledged findings: somebody accepted one, for a reason and until a date (``loom_acks``).

They stay visible and turn red again on their date.

    [[ack]]
    code = "step-removed"
    flow = "refund"              # "*" is every flow
    step = "assess"              # optional
    execution = "refund-4999"    # optional
    owner = "ann@example.org"
    reason = "these runs are finished by hand"
    expires = 2027-01-31
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated

import msgspec

from pytest_loom.deploy.report import Finding
from pytest_loom.errors import LoomError, printable

_Said = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Ack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One acknowledged finding. ``expires`` is the day on which it counts again."""

    code: _Said
    flow: _Said
    owner: _Said
    reason: _Said
    expires: date
    step: str | None = None
    execution: str | None = None

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of this finding."""
        return (
            self.code == finding.code
            and self.flow in ("*", finding.workflow_id)
            and self.step in (None, finding.step)
            and self.execution in (None, finding.execution_id)
        )


class _File(msgspec.Struct, forbid_unknown_fields=True):
    ack: list[Ack] = []


def load_acks(path: Path) -> list[Ack]:
    """The acknowledgements in a TOML file. Raises LoomError naming the file where it is not of that shape."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File).ack
    except OSError as problem:
        raise LoomError(f"the acknowledged findings cannot be read: {problem.strerror}", path=str(path)) from None
    except ValueError as problem:
        raise LoomError(
            f"not a list of acknowledged findings: {problem}",
            path=str(path),
            hint="Each [[ack]] has code, flow, owner, reason and expires (a date); step and execution may be left out.",
        ) from None


def acknowledge(findings: Iterable[Finding], acks: Iterable[Ack], today: date) -> Iterator[Finding]:
    """The findings, with those that somebody accepted marked so; one whose date has come says that too."""
    acks = list(acks)
    return (_acknowledged(finding, acks, today) for finding in findings)


def _acknowledged(finding: Finding, acks: list[Ack], today: date) -> Finding:
    covering = [ack for ack in acks if ack.covers(finding)]
    if not covering:
        return finding
    ack = max(covering, key=lambda ack: ack.expires)
    owner, reason = printable(ack.owner), printable(ack.reason)
    if today < ack.expires:
        return finding.as_acknowledged(f"{owner} until {ack.expires}: {reason}")
    return replace(finding, message=f"{finding.message} (Acknowledged by {owner} until {ack.expires}, which has come.)")
