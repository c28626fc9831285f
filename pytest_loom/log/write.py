"""Writing ``*.loom.jsonl``: atomically, the same bytes for the same log, other executions of the file untouched."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.log.event import Event, Log
from pytest_loom.log.files import locked, write_atomically
from pytest_loom.log.read import check_events, read_block, read_jsonl
from pytest_loom.log.schema import is_newer_minor

SUFFIXES = (".jsonl", ".jsonl.gz")


class _Line(msgspec.Struct, omit_defaults=True, rename="camel"):
    """An event as it is written: the envelope in a fixed order, defaults left out."""

    execution_id: str
    workflow_id: str
    sequence: int
    timestamp: int | str
    event_type: str
    schema_version: str
    event_version: int = 1
    branch: str | None = None
    namespace: str | None = None
    ignorable: bool = False
    payload: msgspec.Raw = msgspec.Raw(b"")


def write_log(log: Log, path: str | os.PathLike[str]) -> Path:
    """Write one log to ``path`` (``.jsonl`` or ``.jsonl.gz``) as one act, and return the path.

    Whatever the file held before is replaced. Raises LogError where the log could not be read back: events that are
    not contiguous, or that a newer MINOR wrote, whose fields this version would lose.
    """
    target = Path(path)
    _store(target, encode_events(log.events))
    return target


def replace_log(log: Log, path: str | os.PathLike[str], *, execution_id: str | None = None) -> Path:
    """Write one execution into a file that may hold others: those stay as they are, in their order.

    ``execution_id`` is the identity under which it is kept (the golden's, so that accepting a new recording does not
    rename it); its own by default. Safe against a second process that does the same at the same time. Raises LogError,
    changing nothing, where the file that is there cannot be read.
    """
    target = Path(path)
    identity = execution_id or log.execution_id
    events = [msgspec.structs.replace(event, execution_id=identity) for event in log.events]
    with locked(target):
        kept: list[Log] = []
        if target.exists():
            for other in read_jsonl(target):
                if isinstance(other, LogError):
                    raise other
                kept.append(other)
        parts = [encode_events(events if other.execution_id == identity else other.events) for other in kept]
        if all(other.execution_id != identity for other in kept):
            parts.append(encode_events(events))
        _store(target, b"".join(parts))
    return target


def encode_events(events: Iterable[Event]) -> bytes:
    """The lines of a log. Raises LogError where they could not be read back as the same events."""
    events = list(events)
    lines = [line_of(event) for event in events]
    try:
        data = msgspec.json.Encoder().encode_lines(lines)
    except (TypeError, ValueError, RecursionError) as problem:
        raise _unwritable(events[0], str(problem)) from None
    back = read_block(data, 1, data.count(b"\n"), "")
    for event, line, again in zip(events, lines, back, strict=False):
        if isinstance(again, LogError):
            raise _unwritable(event, again.what)
        if line_of(again) != line or event.execution_id != events[0].execution_id:
            raise _unwritable(event, "it would read back as another event")
    check_events(events)
    for event in events:
        if is_newer_minor(event.schema_version):
            raise event.error(
                f"schema {event.schema_version} is newer than this pytest-loom's: writing it would lose fields",
                hint="Upgrade pytest-loom, or copy the file as it is.",
            )
    return data


def _unwritable(event: Event, why: str) -> LogError:
    return event.error(f"cannot be written: {why}")


def line_of(event: Event) -> _Line:
    """An event as it is written."""
    # One event, one line. JSON has line ends only between its tokens, so that a space says the same.
    raw = bytes(event.raw).strip().replace(b"\r", b" ").replace(b"\n", b" ")
    return _Line(
        execution_id=event.execution_id,
        workflow_id=event.workflow_id,
        sequence=event.sequence,
        timestamp=event.timestamp,
        event_type=event.event_type,
        schema_version=event.schema_version,
        event_version=event.event_version,
        branch=event.branch,
        namespace=event.namespace,
        ignorable=event.ignorable,
        payload=msgspec.Raw(raw),
    )


def _store(target: Path, data: bytes) -> None:
    if not target.name.endswith(SUFFIXES):
        raise LogError("a log is written to *.loom.jsonl or *.loom.jsonl.gz", path=str(target))
    if target.name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    write_atomically(target, data)
