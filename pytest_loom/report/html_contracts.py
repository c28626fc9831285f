"""What an HTML report shows of contracts that changed: each change, and both contracts side by side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.errors import printable
from pytest_loom.evals.align import align
from pytest_loom.report.plain import one_line
from pytest_loom.report.since import when

_CHANGES = 200
_LINES = 600
"""How many lines of two contracts are shown side by side."""

_CONTEXT = 3
_EFFECTS = ("breaking", "unknown", "additive", "cosmetic")


def contract_entries(changed: Iterable[ChangedContract]) -> Iterator[dict[str, Any]]:
    """The contracts that changed, all of it text to be escaped, the one with the most runs first."""
    for one in sorted(changed, key=lambda one: (-one.runs, one.workflow_id, one.was)):
        changes = sorted(one.changes, key=lambda change: _EFFECTS.index(change.effect))
        yield {
            "flow": printable(one.workflow_id),
            "was": _called(one.was, one.was_version, one.captured_at),
            "now": _called(one.now, one.now_version, None),
            "runs": f"{one.runs:,} unfinished run{'' if one.runs == 1 else 's'}",
            "unmoved": ", ".join(printable(number) for number in one.unmoved),
            "changes": [
                {
                    "effect": change.effect,
                    "part": " ".join(printable(part, 80) for part in (change.part, change.name) if part),
                    "detail": one_line(change.detail),
                }
                for change in changes[:_CHANGES]
            ],
            "more": max(0, len(changes) - _CHANGES),
            "lines": list(_sides(one.old, one.new)) if one.old is not None and one.new is not None else [],
        }


def _called(fingerprint: str, version: str | None, captured: str | None) -> str:
    parts = [printable(version, 40)] if version is not None else []
    parts += [f"captured {when(captured)}"] if captured is not None else []
    return f"{printable(fingerprint[:8])}{f' ({chr(44).join(parts)})' if parts else ''}".replace(",", ", ")


def _sides(old: dict[str, Any], new: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The lines of two contracts side by side, those that are the same left out but for a few around each change."""
    rows = list(_paired(_lines(old), _lines(new)))
    near = {
        other
        for number, row in enumerate(rows)
        if row["gone"] or row["added"]
        for other in range(number - _CONTEXT, number + _CONTEXT + 1)
    }
    gap = shown = 0
    for number, row in enumerate(rows):
        if number not in near or shown >= _LINES:
            gap += 1
            continue
        if gap:
            yield {"gap": gap}
        gap = 0
        shown += 1
        yield {"gap": 0, **row}
    if gap:
        yield {"gap": gap}


def _paired(old: list[str], new: list[str]) -> Iterator[dict[str, Any]]:
    here = there = 0
    for mine, theirs in [*align(old, new), (len(old), len(new))]:
        gone, added = old[here:mine], new[there:theirs]
        for number in range(max(len(gone), len(added))):
            row = {"gone": number < len(gone), "added": number < len(added)}
            yield row | {"old": gone[number] if row["gone"] else "", "new": added[number] if row["added"] else ""}
        if mine < len(old):
            yield {"gone": False, "added": False, "old": old[mine], "new": new[theirs]}
        here, there = mine + 1, theirs + 1


def _lines(contract: dict[str, Any]) -> list[str]:
    text = json.dumps(contract, indent=2, sort_keys=True, ensure_ascii=False)
    return [printable(line, 400) for line in text.splitlines()]
