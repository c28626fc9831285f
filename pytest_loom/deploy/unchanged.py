"""Log files that are unchanged since they were judged, and so is all that can change a verdict: the report is kept.

What is kept is the report of one file (or of a share of it), under everything that it hangs on: the file's bytes, its
name, today's and yesterday's contracts, policy and scope, this package's own code, Python and the libraries that read
values. Today's flows are asked anew each time, and have to answer each question that the simulation asked with the same
contract. Nothing is kept that code had a say in, for no hash covers what code can reach: checks of the user's own,
registered sources, upcasters and migrations, and unfinished runs of flows that are code. Nor of a store.

The bytes are known by their SHA-256. A stale green would be worse than a slow one, so a file is trusted to be what it
was without being read only as git trusts its index: device, inode, size, and the times of its last write and of its
last change of state, to the nanosecond, are those that it had when it was hashed, and both lay two seconds back by
then, so that no later write can have got the same time (FAT, the coarsest, counts in two seconds). The second of these
times is the system's own: who sets the other one back leaves a trace there. Where there is none (Windows) a file is
always hashed, which takes about a tenth of judging it. What this cannot see is a program that goes on writing through a
mapping of the file that it held while that was hashed.

Files are written as one act, and what is damaged or somebody else's counts as not there.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pydantic_core

from pytest_loom.contract.model import Contract
from pytest_loom.contract.store import Contracts
from pytest_loom.deploy.decide import Today
from pytest_loom.deploy.report import DeployReport
from pytest_loom.errors import LogError, LoomError
from pytest_loom.flow.definition import Flow
from pytest_loom.log.files import write_atomically
from pytest_loom.log.migrations import registered as migrations
from pytest_loom.log.share import Share
from pytest_loom.log.upcast import has_upcasters
from pytest_loom.resume.policy import Policy
from pytest_loom.sources import has_registered, source_of

SMALL = 256 * 1024
"""A file with fewer bytes is judged as fast as it is looked up."""

MAX_REPORT = 8 * 1024 * 1024
MAX_FOLDER = 64 * 1024 * 1024
"""Bytes of one report that is kept, and of all together: the oldest make room."""

_QUIET_NS = 2_000_000_000
_PIECE = 4 * 1024 * 1024
_HEAD = b"pytest-loom report 1\n"
_DATA = (Contract, Mapping, str, os.PathLike)


class _Entry(msgspec.Struct):
    """What is known of a report beside it. ``facts`` are the file's; None where they do not prove anything.

    ``asked``: workflow id, version, and the digest of the contract that today's flows answered with (None: no flow).
    """

    size: int
    content: str
    facts: list[int] | None
    asked: list[tuple[str, str | None, str | None]]
    body: str


def report_of(
    file: Path,
    share: Share | None,
    flows: Any,
    folder: Path,
    *,
    contract: Contracts | None,
    scope: str,
    policy: Policy,
    simulate: Callable[[Today], DeployReport],
) -> DeployReport:
    """The report of a file: the one that is kept in ``folder`` where nothing has changed, else what ``simulate`` gives.

    ``simulate`` takes today's flows, and asks no checks but the built-in ones.
    """
    today = Today(flows)
    facts = _facts(file)
    if facts is None or facts[2] < SMALL or _has_code():
        return simulate(today)
    place = folder / f"{_name(file, share, today, contract, scope, policy)}.report"
    kept = _kept(place, file, facts, Today(flows))  # questions leave traces, which belong to no other simulation
    if kept is not None:
        return kept
    was_quiet = _is_quiet(facts)
    before = None if was_quiet else _content(file)  # else a write might have the same time as the one before it
    report = simulate(today)
    if not _is_by_data(report, today) or _has_code() or not _is_ours(file):
        return report
    begun = time.time_ns()
    content = _content(file)
    if content is None or _facts(file) != facts or (not was_quiet and before != content):
        return report
    body = report.packed()
    asked = [(*question, _answer(today, *question)) for question in today.questions()]
    proof = facts if _is_quiet(facts, begun) else None
    entry = _Entry(facts[2], content, proof, asked, hashlib.sha256(body).hexdigest())
    if len(body) <= MAX_REPORT:
        with suppress(OSError):  # a cache that cannot be written is none
            write_atomically(place, _HEAD + msgspec.json.encode(entry) + b"\n" + body)
            _make_room(folder)
    return report


def _kept(place: Path, file: Path, facts: list[int], today: Today) -> DeployReport | None:
    """The report that is kept, where all that it hangs on is as it was."""
    try:
        with place.open("rb") as stream:
            text = stream.read(MAX_REPORT + 1024 * 1024)
        head, line, body = text.split(b"\n", 2)
        entry = msgspec.json.decode(line, type=_Entry)
    except (OSError, ValueError):
        return None
    if head + b"\n" != _HEAD or hashlib.sha256(body).hexdigest() != entry.body or entry.size != facts[2]:
        return None
    if entry.facts != facts and _content(file) != entry.content:
        return None
    for workflow_id, version, answer in entry.asked:
        if _answer(today, workflow_id, version) != answer:
            return None
    if _has_code():
        return None
    try:
        report = DeployReport.unpacked(body)
    except Exception:  # whoever wrote that, it is no report of ours
        return None
    if not _is_by_data(report, today):
        return None
    with suppress(OSError):
        os.utime(place)  # the oldest are those that nobody has asked for
    return report


def _is_ours(file: Path) -> bool:
    """Whether it is a log of our own format, so that the report hangs on nothing but this file."""
    try:
        return source_of(file).name == "loom"
    except LogError:
        return False


def _has_code() -> bool:
    """Whether something is registered that may look at anything."""
    return has_upcasters() or bool(migrations()) or has_registered()


def _is_by_data(report: DeployReport, today: Today) -> bool:
    """Whether no code had a say: flows are data, or none of the runs was one to be replayed."""
    code = [flow for flow in today.asked() if not isinstance(flow, _DATA)]
    return not code or (not report.in_flight and all(isinstance(flow, Flow) for flow in code))


def _answer(today: Today, workflow_id: str, version: str | None) -> str | None:
    """What today's flows say to a question, in one word; "" where they cannot be asked."""
    try:
        found = today.of(workflow_id, version)
    except LoomError:
        return ""
    return None if found is None else hashlib.sha256(found[0].model_dump_json().encode()).hexdigest()


def _name(file: Path, share: Share | None, today: Today, contract: Contracts | None, scope: str, policy: Policy) -> str:
    """One word for all that a report hangs on but the file's bytes and the answers of today's flows."""
    facts = [
        os.path.abspath(file),
        os.fspath(file),
        list(share or ()),
        list(today.named),
        None if contract is None else contract.digest,
        scope,
        msgspec.json.encode(policy).decode(),
        _own(),
    ]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


@functools.cache
def _own() -> str:
    """This package's code, Python and the libraries that values are read with, in one word."""
    digest = hashlib.sha256(f"{sys.version} {msgspec.__version__} {pydantic_core.__version__}".encode())
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"\0{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _facts(file: Path) -> list[int] | None:
    """What the file system says of a file, which tells whether it is the same."""
    try:
        facts = file.stat()
    except (OSError, ValueError):
        return None
    return [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]


def _is_quiet(facts: list[int], at: int | None = None) -> bool:
    """Whether nothing was written for so long that the next write cannot have the same time."""
    return os.name == "posix" and max(facts[3:]) + _QUIET_NS < (time.time_ns() if at is None else at)


def _content(file: Path) -> str | None:
    """The digest of a file's bytes: of the digests of its pieces, which are made side by side."""
    digest = hashlib.sha256()
    try:
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
            for piece in threads.map(functools.partial(_piece, file), range(0, file.stat().st_size, _PIECE)):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()


def _piece(file: Path, begin: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(begin)
        return hashlib.sha256(stream.read(_PIECE)).digest()


def _make_room(folder: Path) -> None:
    """Take away the oldest reports until the rest is small enough."""
    found = []
    for entry in os.scandir(folder):
        with suppress(OSError):
            facts = entry.stat()
            found.append((facts.st_mtime_ns, facts.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= MAX_FOLDER:
            return
        with suppress(OSError):
            os.unlink(path)
        total -= size
