"""``loom_snapshot``: what a run came to, as a short text kept by syrupy (``__snapshots__/<test file>/<test>.loomrun``).

Golden logs are not kept so: a summary is derived and cheap, a recording is not. Imported by the fixture only, since
this module needs syrupy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.data import SnapshotCollection, SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from pytest_loom.errors import LoomError, printable
from pytest_loom.evals.align import align, script
from pytest_loom.log.event import Log
from pytest_loom.log.files import write_atomically
from pytest_loom.plugin.guard import GUARD
from pytest_loom.plugin.options import SETTINGS, SUFFIX
from pytest_loom.state import ExecutionState

MAX_NAME = 120
"""Characters that the name of a test may take in a file name; Windows allows 260 for the whole path."""

MAX_SHOWN = 300
"""Characters of one changed line that a failure shows, around the first one that differs."""

_VOLATILE = frozenset({"clock", "now", "random", "uuid"})
_UNSAFE = re.compile(r'[\\/?*:|"<>]')
_NUMBER = re.compile(r"(\d{1,18})", re.ASCII)


def make_snapshot(request: pytest.FixtureRequest) -> LoomSnapshot:
    """What the fixture ``loom_snapshot`` gives to a test: compares equal to a Log or an ExecutionState.

    Fails the test, in one line, where syrupy is not at work.
    """
    guard = request.config.stash.get(GUARD, None)
    snapshot = request.getfixturevalue("snapshot") if guard is not None else None
    if guard is None or not isinstance(snapshot, SnapshotAssertion):
        pytest.fail(
            "loom_snapshot needs syrupy: install syrupy 7, leave out `-p no:syrupy`, "
            "and have no other fixture named `snapshot`",
            pytrace=False,
        )
    guard.asserted.clear()
    return LoomSnapshot(
        session=snapshot.session,
        extension_class=RunSummaryExtension,
        test_location=snapshot.test_location,
        update_snapshots=request.config.stash[SETTINGS].update,
        update_new_snapshots_only=snapshot.update_new_snapshots_only,
    )


def summarize(run: Log | ExecutionState) -> str:
    """The run in lines, one fact a line, the same text for runs that did the same.

    Says: workflow, status, open waits, output or error, then each step and decision by name. Left out: the
    execution's id (in values too, from 8 characters on), times, clock and random values, and, where the run has
    concurrent branches, the order of steps.
    Raises TypeError for anything but a Log or an ExecutionState, LogError where the log cannot be folded.
    """
    state = _state_of(run)
    lines = [f"workflow: {state.workflow_id}", f"status: {state.status}"]
    lines += sorted(f"waits for: {', '.join(wait.events)} ({wait.kind})" for wait in state.suspensions)
    for name in ("output", "error", "reason"):
        if f"_{name}" in state.variables:
            lines.append(f"{name}: {_json(state.variables[f'_{name}'])}")
    for key in _in_order(state):
        frame = state.frames[key]
        tries = f" after {frame.attempts} attempts" if frame.attempts > 1 else ""
        outcome = {"completed": f" {_json(frame.output)}", "failed": f" {_json(frame.error)}"}.get(frame.status, "")
        lines.append(f"step {key}: {frame.status}{tries}{outcome}")
    for key in sorted(state.decisions, key=_natural):
        volatile = key.rpartition("/")[2].partition("#")[0] in _VOLATILE
        lines.append(f"decision {key}: {'(left out)' if volatile else _json(state.decisions[key])}")
    text = "".join(f"{_one_line(line)}\n" for line in lines)
    return _without_id(text, state.execution_id)


def file_name(name: str) -> str:
    """``name`` as a file name (without suffix) that no other name gets, on every file system.

    A name that had to be changed or cut ends in ``~`` and 8 digits of its hash, so ``x[a/b]`` and ``x[a:b]`` stay two.
    """
    safe = "".join(char if char.isprintable() else "_" for char in _UNSAFE.sub("_", name))
    if safe == name and len(name.encode()) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    # syrupy warns about a name that does not begin with the test's, so a long identifier stays whole.
    identifier = len(safe.partition("[")[0].encode())
    room = min(max(MAX_NAME - 9, identifier), 200)
    return f"{safe.encode()[:room].decode(errors='ignore')}~{digest}"


def difference(received: str, kept: str) -> Iterator[str]:
    """A verdict, then every changed line, ``-`` as kept and ``+`` as received. Never raises."""
    try:
        if kept:
            yield from _changed(kept.splitlines(), received.splitlines())
        else:
            yield "The run came to (--snapshot-update accepts it):"
            yield from (f"+ {line}" for line in received.splitlines())
    except Exception as problem:  # syrupy would show its own internals in place of the failed assertion
        yield f"The run is not what the snapshot says; the difference cannot be shown: {problem!r}"


class RunSummaryExtension(SingleFileSnapshotExtension):
    """Keeps one summary a file. syrupy reads and writes them, but never looks for unused ones: see guard.py."""

    file_extension = SUFFIX
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_: Any) -> str:
        """The text of the run: what is equal is equal in every byte, so an update never leaves anything stale."""
        return summarize(data)

    def diff_lines(self, serialized_data: str | bytes, snapshot_data: str | bytes) -> Iterator[str]:
        """Received first; syrupy gives ``""`` as the snapshot where there is none."""
        return difference(_text(serialized_data), _text(snapshot_data))

    def discover_snapshots(self, **_: Any) -> SnapshotCollections:
        """Nothing: what syrupy does not find, it neither calls unused nor deletes."""
        return SnapshotCollections()

    def delete_snapshots(self, *, snapshot_location: str, snapshot_names: set[str]) -> None:
        """Refuse, whoever asks: only the guard knows whether a run could tell that a file is unused."""

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: int | str = 0) -> str:
        """The test's name and the assertion's, safe as a file name and distinct."""
        suffix = f"[{index}]" if isinstance(index, str) else f".{index}" if index else ""
        return file_name(f"{test_location.snapshot_name}{suffix}")

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """By folder: the file's own name may be a hash."""
        return str(Path(snapshot_location).parent) == cls.dirname(test_location=test_location)

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, name_order: dict[str, int] | None = None
    ) -> None:
        """Write as one act: an interrupt leaves the old file or the new one."""
        (snapshot,) = snapshot_collection
        write_atomically(Path(snapshot_collection.location), str(snapshot.data).encode())


class LoomSnapshot(SnapshotAssertion):
    """syrupy's assertion, for runs only: short in tracebacks, and sure that one name means one run."""

    def __call__(self, *, name: str | None = None) -> LoomSnapshot:  # type: ignore[override]  # the rest has no meaning
        """Give the next assertion a name of its own, which becomes part of the file's name."""
        super().__call__(name=name)
        return self

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        state = _state_of(other)
        location = self.extension.get_location(test_location=self.test_location, index=self.index)
        name = self.name
        guard = self.session.pytest_session.config.stash[GUARD]
        update = self.update_snapshots
        repeated = location in guard.asserted
        guard.use(location)
        self.update_snapshots = update and not repeated  # syrupy would overwrite what it has just accepted
        try:
            same = super().__eq__(state)
        finally:
            self.update_snapshots = update
        if repeated and update and not same:
            raise LoomError(
                f"two different runs are compared with the snapshot {printable(name)!r} in one test",
                hint="Give each its own: assert log == loom_snapshot(name=...).",
            )
        return same

    __hash__ = None  # type: ignore[assignment]  # compared by value

    def __repr__(self) -> str:
        return "<loom_snapshot>"


def _state_of(run: object) -> ExecutionState:
    __tracebackhide__ = True
    if isinstance(run, Log):
        return run.state
    if isinstance(run, ExecutionState):
        return run
    raise TypeError(f"loom_snapshot compares runs: give it a Log or an ExecutionState, not {type(run).__name__}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _one_line(text: str) -> str:
    return text if text.isprintable() else printable(text, 12 * len(text))  # an escape has up to 10 characters


def _in_order(state: ExecutionState) -> list[str]:
    """Step keys as they were started; by name where branches ran at the same time, since their order means nothing."""
    if any(frame.branch for frame in state.frames.values()):
        return sorted(state.frames, key=_natural)
    return list(state.frames)


def _natural(key: str) -> tuple[list[Any], str]:
    """``poll#2`` before ``poll#10``."""
    return [int(part) if index % 2 else part for index, part in enumerate(_NUMBER.split(key))], key


def _without_id(text: str, execution_id: str) -> str:
    """Short ids are left alone: "1" is too likely to be something else."""
    if len(execution_id) < 8:
        return text
    written = re.escape(_one_line(_json(execution_id)[1:-1]))
    return re.sub(rf"(?:(?<!\w)|(?<=\\[nrt])){written}(?!\w)", "<execution>", text)


def _text(data: str | bytes) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def _changed(kept: list[str], received: list[str]) -> Iterator[str]:
    if kept == received:
        yield "The run is what the snapshot says, but the file ends its lines otherwise."
        return
    yield "The run is not what the snapshot says (- snapshot, + this run; --snapshot-update accepts it):"
    pairs = align([_fact(line) for line in kept], [_fact(line) for line in received])
    for i, j in script(pairs, len(kept), len(received)):
        old = "" if i is None else kept[i]
        new = "" if j is None else received[j]
        if old != new:
            at = _first_difference(old, new)
            if i is not None:
                yield f"- {_cut(old, at)}"
            if j is not None:
                yield f"+ {_cut(new, at)}"


def _fact(line: str) -> str:
    """What a line is about: there is one line for each step and decision, and any number of waits."""
    return line if line.startswith("waits for") else line.partition(": ")[0]


def _first_difference(old: str, new: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _cut(line: str, at: int) -> str:
    """At most MAX_SHOWN characters of the line, those around ``at``."""
    start = max(0, min(at - MAX_SHOWN // 3, len(line) - MAX_SHOWN))
    end = start + MAX_SHOWN
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
