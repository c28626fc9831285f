"""``report.json``: the whole deploy report for machines, written as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import DeployReport, Finding, RunResult
from pytest_loom.errors import LoomError
from pytest_loom.log.files import replacing

SCHEMA = 1


def write_json(report: DeployReport, path: Path, *, ok: bool, extra: Mapping[str, Any]) -> None:
    """Write ``{"ok", "schema", "summary", "notes", "contracts", "findings", "runs"}`` atomically.

    ``ok`` is the verdict of the whole session, which is never better than the report's; ``extra`` adds numbers to the
    summary, beside which it has how many runs each strategy lets go on, hands to a person, and strands. The same
    findings give the same bytes, in whatever order and by however many workers they were found.
    """
    with replacing(path) as stream:
        stream.writelines(json_pieces(report, ok=ok, extra=extra))


def read_json(path: Path) -> tuple[DeployReport, bool, dict[str, Any]]:
    """What ``write_json`` wrote: the report, ``ok`` and ``extra``. Raises LoomError where the file is none such."""
    try:
        data = msgspec.json.decode(path.read_bytes())
        if data["schema"] != SCHEMA:
            raise LoomError(f"a report of schema {data['schema']!r}, this version reads {SCHEMA}", path=str(path))
        said = msgspec.convert(data, _Said)
        counts = {field: _count(said.summary[name]) for field, name in _COUNTS.items()}
        lineage = {"lineage": data["lineage"]} if "lineage" in data else {}
        lineage |= {"unheld": {str(name): _count(runs) for name, runs in data.get("unheld", {}).items()}}
        empty: dict[str, Any] = {"findings": [], "runs": [], "changed": []}
        report = DeployReport.from_dict({**empty, "notes": said.notes, **counts, **lineage})
        report.finding_rows += said.findings
        report.run_rows += said.runs
        derived = set(report.derived_notes())
        report.notes = [note for note in report.notes if note not in derived]
        report.changed = [ChangedContract.from_dict(msgspec.structs.asdict(changed)) for changed in said.contracts]
        own = report.summary().keys() | {"strategies"}
        extra = {name: value for name, value in said.summary.items() if name not in own}
        return report, said.ok, extra
    except OSError as problem:
        raise LoomError(f"the report cannot be read: {problem.strerror}", path=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise LoomError(f"not a report of pytest-loom: {problem}", path=str(path)) from None


class _Changed(msgspec.Struct):
    workflow_id: str
    was: str
    now: str
    runs: int
    changes: list[ContractChange]
    was_version: str | None = None
    now_version: str | None = None
    captured_at: str | None = None
    old: dict[str, Any] | None = None
    new: dict[str, Any] | None = None


class _Said(msgspec.Struct):
    """What a report has to be: it may come from elsewhere, and be broken or meant to do harm."""

    ok: bool
    summary: dict[str, Any]
    notes: list[str]
    contracts: list[_Changed]
    findings: list[Finding]
    runs: list[RunResult]


def _count(value: Any) -> int:
    count: int = msgspec.convert(value, Annotated[int, msgspec.Meta(ge=0, le=2**53)])
    return count


_COUNTS = {"examined": "runs", "in_flight": "in_flight", "skipped": "out_of_scope"}


def json_pieces(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> Iterator[bytes]:
    """What ``write_json`` writes, piece by piece."""
    ok = ok and report.ok
    summary = {**report.summary(), **dict(sorted(extra.items())), "strategies": report.strategies()}
    head = {"ok": ok, "schema": SCHEMA, "summary": summary, "notes": sorted(report.all_notes())}
    head |= {"unheld": dict(sorted(report.unheld.items()))} if report.unheld else {}
    head |= {"lineage": report.lineage.as_dict()} if report.lineage else {}
    head |= {"mutants": report.mutants} if report.mutants is not None else {}
    yield msgspec.json.encode(head)[:-1] + b',\n"contracts": ['
    changed = sorted(report.changed, key=lambda one: (one.workflow_id, one.was, one.now))
    yield from _items(one.as_dict() for one in changed)
    yield b'],\n"findings": ['
    yield from _items(found.as_dict() for found in report.finding_rows.in_order())
    yield b'],\n"runs": ['
    yield from _items(run.as_dict() for run in report.run_rows.in_order())
    yield b"]}\n"


def _items(items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    separator = b"\n"
    for item in items:
        yield separator + msgspec.json.encode(item)
        separator = b",\n"
