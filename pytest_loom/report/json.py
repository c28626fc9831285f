"""``report.json``: the whole deploy report for machines, written as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from pytest_loom.deploy.report import DeployReport
from pytest_loom.log.files import replacing

SCHEMA = 1


def write_json(report: DeployReport, path: Path, *, ok: bool, extra: dict[str, int]) -> None:
    """Write ``{"ok", "schema", "summary", "contracts", "findings", "runs"}`` atomically.

    ``ok`` is the verdict of the whole session, which is never better than the report's; ``extra`` adds numbers to the
    summary, beside which it has how many runs each strategy lets go on, hands to a person, and strands.
    """
    with replacing(path) as stream:
        for piece in _pieces(report, ok=ok and report.ok, extra=extra):
            stream.write(piece)


def _pieces(report: DeployReport, *, ok: bool, extra: dict[str, int]) -> Iterator[bytes]:
    summary = {**report.summary(), **extra, "strategies": report.strategies()}
    head = msgspec.json.encode({"ok": ok, "schema": SCHEMA, "summary": summary})
    yield head[:-1] + b',\n"contracts": ['
    yield from _items(changed.as_dict() for changed in report.changed)
    yield b'],\n"findings": ['
    yield from _items(found.as_dict() for found in report.findings)
    yield b'],\n"runs": ['
    yield from _items(run.as_dict() for run in report.runs)
    yield b"]}\n"


def _items(items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    separator = b"\n"
    for item in items:
        yield separator + msgspec.json.encode(item)
        separator = b",\n"
