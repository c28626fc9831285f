"""Captured contracts: one file for each contract that was ever deployed, so that today's can be held against them.

``FOLDER/<workflow>/<fingerprint>.json`` holds ``{"capturedAt": RFC 3339, "fingerprint": text, "contract": {...}}``.
A file is written once and never again: accepting a change cannot erase the evidence (DESIGN section 7). Files are
untrusted: bounded, and refused with their name where they are not what they say.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import contract_of
from pytest_loom.errors import FlowError, printable

MAX_BYTES = 8 * 1024 * 1024
"""Bytes that the file of one contract may have."""
MAX_FILES = 10_000
"""Contracts that one folder may hold."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_NAME_LIMIT = 80
_KEYS = {"capturedAt", "fingerprint", "contract"}
_HINT = "Restore the file from version control, or take it away: what was captured is evidence, and never edited."
_SOURCES = "the folder of captured contracts, a .json file, a Contract, or a mapping of workflow ids to contracts"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Captured:
    """A contract that is kept, its fingerprint, when it was captured and its file (each None where there is none)."""

    contract: Contract
    fingerprint: str
    captured_at: datetime | None = None
    path: Path | None = None


def folder_name(workflow_id: str) -> str:
    """The name of a workflow's folder: its id, percent-encoded. Different ids never share one, on any disk.

    Capitals, separators, dots at the ends and names that Windows reserves are encoded; a long id is cut, and told by a
    hash behind a ``~``, which is in no other name.
    """
    data = workflow_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02x}" for byte in data)
    if name.startswith(".") or _RESERVED.fullmatch(name):
        name = f"%{ord(name[0]):02x}{name[1:]}"
    if name.endswith("."):
        name = f"{name[:-1]}%2e"
    if not name or len(name) > _NAME_LIMIT:
        name = f"{name[:_NAME_LIMIT]}~{hashlib.sha256(data).hexdigest()[:32]}"
    return name


def capture(folder: Path, contract: Contract, now: datetime) -> Path | None:
    """Keep ``contract`` in ``folder`` as one that is deployed ``now``; None where it is kept already.

    The file comes into being whole, once, whoever else writes it at the same time. Raises FlowError where the contract
    has no fingerprint or the file cannot be written.
    """
    said = fingerprint(contract)
    path = folder / folder_name(contract.workflow_id) / f"{said}.json"
    data = {
        "capturedAt": now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "fingerprint": said,
        "contract": contract.model_dump(by_alias=True, exclude_none=True),
    }
    text = json.dumps(data, indent=2, sort_keys=True) + "\n"
    try:
        return None if path.exists() or not _written(path, text.encode()) else path
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        hint = "The folder of captured contracts has to be one that can be written to."
        raise FlowError(f"the contract cannot be written: {reason}", path=str(path), hint=hint) from None


def _written(path: Path, data: bytes) -> bool:
    """Write a file that is not there yet, as one act. Whether this call did."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write_new(temporary, data)
        try:
            os.link(temporary, path)
        except (
            OSError
        ):  # there now, or a disk without hard links: there a crash may leave a part, but never over another
            return _write_new(path, data)
        return True
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write_new(path: Path, data: bytes) -> bool:
    try:
        stream = path.open("xb")
    except FileExistsError:
        return False
    try:
        with stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return True


class Contracts:
    """Contracts that are kept, by workflow (``load_contracts``). Files are read when their workflow is asked for."""

    def __init__(self, given: Iterable[Captured] = (), folder: Path | None = None) -> None:
        self._given = _by_workflow(given)
        self._folder = folder
        self._known: dict[str, list[Captured]] = {}

    def kept(self, workflow_id: str) -> list[Captured]:
        """All contracts of a workflow, the oldest first; those without a date come before the others.

        Raises FlowError where a file is damaged, or of another workflow.
        """
        if workflow_id not in self._known:
            found = [*self._given.get(workflow_id, ()), *self._loose.get(workflow_id, ())]
            if self._folder is not None:
                found += [_of(_read(path), workflow_id) for path in _files(self._folder / folder_name(workflow_id))]
            self._known[workflow_id] = sorted(found, key=age_of)
        return list(self._known[workflow_id])

    def of(self, workflow_id: str, fingerprint: str | None, last_event_ms: float | None) -> Contract | None:
        """The contract that a run was on, as far as that can be told; None where none is kept for its workflow.

        The one of ``fingerprint``, which the run's manifest names; else the newest that was captured before the run's
        last event (``last_event_ms``, since the epoch); else the oldest.
        """
        kept = self.kept(workflow_id)
        for one in kept:
            if one.fingerprint == fingerprint:
                return one.contract
        if last_event_ms is not None:
            before = [one for one in kept if age_of(one) <= last_event_ms]
            kept = before[-1:] or kept
        return kept[0].contract if kept else None

    def knows(self, workflow_id: str, fingerprint: str) -> bool:
        """Whether a contract of this fingerprint is kept for the workflow."""
        return any(one.fingerprint == fingerprint for one in self.kept(workflow_id))

    @cached_property
    def digest(self) -> str:
        """All that is kept, in one word."""
        digest = hashlib.sha256()
        given = (one for _, each in sorted(self._given.items()) for one in each)
        for one in given:
            digest.update(f"{one.captured_at} {one.contract.model_dump_json()}\0".encode())
        folders = [] if self._folder is None else [self._folder, *sorted(map(Path, _folders(self._folder)))]
        for path in (path for folder in folders for path in _files(folder)):
            with contextlib.suppress(OSError):  # whoever reads it says so
                digest.update(f"{path.relative_to(folders[0])}\0".encode() + path.read_bytes())
        return digest.hexdigest()

    @cached_property
    def _loose(self) -> dict[str, list[Captured]]:
        """What lies in the folder itself, named by hand: only its content says of which workflow it is."""
        return {} if self._folder is None else _by_workflow(_read(path) for path in _files(self._folder))


def load_contracts(source: Any) -> Contracts:
    """The contracts that were captured, or written down otherwise.

    ``source``: a Contract, a flow that has one, its JSON as a mapping, a mapping of workflow ids to any of these or to
    lists of them (the oldest first), a captured file, a file of plain contract JSON, or a folder of such files, as
    ``capture`` lays them out or side by side. Plain contracts have no date, and count as older than any that has one.

    Raises FlowError where it is none of these; a folder's files are only read, and judged, when they are asked for.
    """
    if isinstance(source, Contracts):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.exists():
            raise FlowError("there are no contracts: no such file or folder", path=str(path), hint=f"Give {_SOURCES}.")
        return Contracts(folder=path) if path.is_dir() else Contracts([_read(path)])
    is_json = isinstance(source, Mapping) and isinstance(source.get("workflowId"), str)
    if is_json or isinstance(source, Contract) or hasattr(type(source), "__loom_contract__"):
        return Contracts([_plain(source)])
    if isinstance(source, Mapping):
        return Contracts(
            _of(_plain(one), workflow_id)
            for workflow_id, value in source.items()
            for one in (value if isinstance(value, (list, tuple)) else [value])
        )
    raise FlowError(f"contracts cannot be a {type(source).__qualname__}", hint=f"Give {_SOURCES}.")


def every(path: Path) -> Iterator[Captured | FlowError]:
    """The contracts of a file, or of a folder and its workflows' folders; FlowErrors for files that are damaged."""
    files = [path]
    if path.is_dir():
        folders = sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
        files = [file for folder in (path, *folders) for file in _files(folder)]
    for file in files:
        try:
            yield _read(file)
        except FlowError as error:
            yield error


def _by_workflow(found: Iterable[Captured]) -> dict[str, list[Captured]]:
    kept: dict[str, list[Captured]] = {}
    for one in found:
        kept.setdefault(one.contract.workflow_id, []).append(one)
    return kept


def age_of(one: Captured) -> float:
    """When a contract was captured, in ms since the epoch."""
    return float("-inf") if one.captured_at is None else (one.captured_at - _EPOCH) / timedelta(milliseconds=1)


def _plain(data: Any, path: Path | None = None) -> Captured:
    contract = contract_of(data)
    return Captured(contract, fingerprint(contract), path=path)


def _of(one: Captured, workflow_id: str) -> Captured:
    """``one``, where it is the workflow's."""
    if one.contract.workflow_id != workflow_id:
        raise FlowError(
            f"this is a contract of {printable(one.contract.workflow_id)}, kept as one of {printable(workflow_id)}",
            path="" if one.path is None else str(one.path),
            hint="Each workflow's contracts are kept under its own id.",
        )
    return one


def _folders(folder: Path) -> list[str]:
    """The folders of workflows."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir()]
    return []


def _files(folder: Path) -> list[Path]:
    """The contracts in a folder by name; [] where it is not there."""
    found: list[Path] = []
    try:
        for path in folder.iterdir():
            if path.suffix == ".json" and not path.name.startswith(".") and not path.is_dir():
                found.append(path)
            if len(found) > MAX_FILES:
                raise FlowError(f"more than {MAX_FILES} contracts in one folder", path=str(folder), hint=_HINT)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise FlowError(f"the folder cannot be read: {problem.strerror}", path=str(folder)) from None
    return sorted(found)


def _read(path: Path) -> Captured:
    """The contract in a file, captured or plain. Raises FlowError, naming the file, where there is none."""
    try:
        data = _json(path)
        return _captured(data, path) if "contract" in data else _plain(_contract(data), path)
    except FlowError as problem:
        raise FlowError(problem.what, path=str(path), hint=problem.hint or _HINT) from None


def _captured(data: dict[str, Any], path: Path) -> Captured:
    odd = data.keys() ^ _KEYS
    if odd:
        raise FlowError(f"this is no captured contract: {printable(min(odd))} is missing, or does not belong there")
    found = _plain(_contract(data["contract"]), path)
    said = data["fingerprint"]
    if said != found.fingerprint:
        shown = printable(str(said))
        raise FlowError(f"the file says fingerprint {shown}, and its contract has {found.fingerprint}: one was changed")
    if re.fullmatch("[0-9a-f]{16}", path.stem) and path.stem != said:
        raise FlowError(f"the file holds the contract {said}, so it is not the one that its name says")
    try:
        captured_at = datetime.fromisoformat(data["capturedAt"])
    except (TypeError, ValueError):
        captured_at = datetime.min
    if captured_at.tzinfo is None:
        raise FlowError(f"capturedAt is no RFC 3339 time: {printable(str(data['capturedAt']))}")
    return replace(found, captured_at=captured_at)


def _json(path: Path) -> dict[str, Any]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FlowError("this is not an ordinary file")
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise FlowError(f"the contract cannot be read: {reason}") from None
    if len(text) > MAX_BYTES:
        raise FlowError(f"a contract of more than {MAX_BYTES // 1024**2} MiB")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise FlowError(f"the contract is not JSON: {printable(str(problem))}") from None
    if not isinstance(data, dict):
        raise FlowError("the file holds no contract, which is an object")
    return data


def _contract(data: Any) -> Contract:
    """Contract JSON that was read from a file, where a text names no other."""
    try:
        return Contract.model_validate(data)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = printable(".".join(map(str, first["loc"])))
        raise FlowError(f"this is no contract: {f'{place}: ' if place else ''}{first['msg']}") from None
