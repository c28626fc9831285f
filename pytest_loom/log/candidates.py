"""Candidates that wait for review: what a failed test would have its golden be, in GOLDEN.new beside the golden.

Such a file is a log like any other, with one run for each execution of the golden that came out otherwise. The first
event of each run has one more field in its envelope, ``candidate``, which readers of logs pass over: the test, and the
rules by which it compares. The file is plain text, also beside a packed golden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.log.event import UNDECODABLE, Log
from pytest_loom.log.files import CANDIDATES, line_blocks, locked, open_log, write_atomically
from pytest_loom.log.read import read_jsonl
from pytest_loom.log.write import encode_events, replace_log

SUFFIX = ".new"
_FIELD = b',"candidate":'


class Compared(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a test compares: arguments of ``diff_runs``. Of comparators only the paths are known."""

    ignore: list[str] = []
    compare: list[str] | Literal["all"] | None = None
    tolerance: dict[str, float] | None = None
    unordered: list[str] | bool = []
    comparators: list[str] = []

    @property
    def rules(self) -> dict[str, Any]:
        """The arguments, those apart that are not said."""
        said = {"ignore": self.ignore, "tolerance": self.tolerance, "unordered": self.unordered or []}
        return said if self.compare is None else {**said, "compare": self.compare}


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a candidate beside its run."""

    test: str = ""
    rules: Compared = Compared()


class Candidate(msgspec.Struct):
    """One run that waits for review: the golden that it would replace, and the test that made it."""

    golden: Path
    log: Log
    facts: Facts


class _Envelope(msgspec.Struct, rename="camel"):
    execution_id: Annotated[str, msgspec.Meta(min_length=1)]
    candidate: Facts | None = None


def candidate_file(golden: Path) -> Path:
    """Where the candidates of a golden are."""
    return golden.with_name(golden.name + SUFFIX)


def golden_of(file: Path) -> Path:
    """The golden of a file of candidates."""
    return file.with_name(file.name.removesuffix(SUFFIX))


def is_candidate_file(name: str) -> bool:
    """Whether a file is called as one of candidates."""
    return name.endswith(CANDIDATES)


def keep(golden: Path, log: Log, facts: Facts) -> Path:
    """Keep a run for review in place of an earlier one of its execution; safe against other processes that do so.

    Raises OSError or LogError where it cannot be written.
    """
    file = candidate_file(golden)
    with locked(file):
        others = _others(file, log.execution_id)
        _write(file, [*others, (log, facts)])
    return file


def drop(golden: Path, execution_id: str, *, test: str | None = None) -> bool:
    """Let go of the candidate of an execution, with ``test`` only where that test made it. Whether there was one.

    A file that is damaged is left as it is.
    """
    file = candidate_file(golden)
    if not file.exists():
        return False
    with locked(file):
        found = candidates(file)
        if any(isinstance(one, LogError) for one in found):
            return False
        runs = [one for one in found if isinstance(one, Candidate)]
        left = [one for one in runs if not _is_meant(one, execution_id, test)]
        if len(left) == len(runs):
            return False
        _write(file, [(one.log, one.facts) for one in left])
        return True


def accept(candidate: Candidate) -> None:
    """Make a candidate the golden, and let go of it. Raises LogError or OSError, having changed nothing."""
    if candidate.golden.is_symlink():
        raise LogError("a link is in the golden's place; nothing is written through it", path=str(candidate.golden))
    replace_log(candidate.log, candidate.golden)
    drop(candidate.golden, candidate.log.execution_id)


def candidates(file: Path) -> list[Candidate | LogError]:
    """What waits in a file: candidates, and LogErrors for runs that are damaged."""
    if file.is_symlink():
        return [LogError("this is a link; candidates are never read through one", path=str(file))]
    golden = golden_of(file)
    try:
        facts = _facts(file)
    except LogError as error:
        return [error]
    return [
        item if isinstance(item, LogError) else Candidate(golden, item, facts.get(item.execution_id, Facts()))
        for item in read_jsonl(file)
    ]


def _is_meant(one: Candidate, execution_id: str, test: str | None) -> bool:
    """The id of a test may have the name of a group of pytest-xdist behind it, which is no part of it."""
    if one.log.execution_id != execution_id:
        return False
    return test is None or _without_group(test) == _without_group(one.facts.test)


def _without_group(test: str) -> str:
    return re.sub(r"@[^@\[\]:/]*$", "", test)


def _others(file: Path, execution_id: str) -> list[tuple[Log, Facts]]:
    """The candidates of other executions that are whole: what is damaged waits for nobody."""
    found = candidates(file) if file.exists() else []
    whole = [one for one in found if isinstance(one, Candidate)]
    return [(one.log, one.facts) for one in whole if one.log.execution_id != execution_id]


def _write(file: Path, runs: list[tuple[Log, Facts]]) -> None:
    if file.is_symlink():
        raise LogError("a link is in the candidate's place; nothing is written through it", path=str(file))
    if not runs:
        file.unlink(missing_ok=True)
        return
    parts = []
    for log, facts in runs:
        first, rest = encode_events(log.events).split(b"\n", 1)
        parts.append(first[:-1] + _FIELD + msgspec.json.encode(facts) + b"}\n" + rest)
    write_atomically(file, b"".join(parts))


def _facts(file: Path) -> dict[str, Facts]:
    """By execution, what its first event says beside the run."""
    found: dict[str, Facts] = {}
    decode = msgspec.json.Decoder(_Envelope).decode
    with open_log(file) as stream:
        for first, _, block in line_blocks(stream, file):
            for number, line in enumerate(block.split(b"\n"), first):
                if _FIELD[1:] not in line:
                    continue
                try:
                    envelope = decode(line)
                except UNDECODABLE as problem:
                    what = f"the line does not say of what it is a candidate: {problem}"
                    raise LogError(what, path=str(file), line=number) from None
                if envelope.candidate is not None:
                    found.setdefault(envelope.execution_id, envelope.candidate)
    return found


def compared(rules: Mapping[str, Any]) -> Compared:
    """Arguments of ``diff_runs`` as they are kept."""
    compare, unordered = rules.get("compare"), rules.get("unordered", ())
    tolerance = rules.get("tolerance")
    return Compared(
        ignore=list(_texts(rules.get("ignore", ()))),
        compare="all" if compare == "all" else None if compare is None else list(map(str, compare)),
        tolerance=None if tolerance is None else {str(name): float(value) for name, value in tolerance.items()},
        unordered=True if unordered is True else list(_texts(unordered)),
        comparators=list(map(str, rules.get("comparators") or ())),
    )


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(map(str, value))
