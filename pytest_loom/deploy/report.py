"""What a deploy simulation found: findings, the verdict of each run, and the whole report."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any, Literal

import msgspec

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.changed import ChangedContract, merged
from pytest_loom.deploy.corpus_health import CorpusHealth
from pytest_loom.deploy.lineage import Lineage
from pytest_loom.deploy.rows import Kind, Packed, Rows
from pytest_loom.errors import printable
from pytest_loom.log.event import Log
from pytest_loom.log.origin import origin_of
from pytest_loom.resume.policy import FINE, Verdict

Severity = Literal["breaking", "warning", "info"]

BREAKING: dict[str, Verdict] = {
    "flow-missing": "reject",
    "schema-unknown": "reject",
    "log-unreadable": "reject",
    "upcast-missing": "reject",
    "migration-missing": "reject",
    "input-contract": "reject",
    "output-contract": "manual",
    "gate-removed": "manual",
    "gate-changed": "manual",
    "answer-misrouted": "manual",
    "tool-missing": "manual",
    "state-key-lost": "manual",
    "state-type": "manual",
    "reducer-changed": "manual",
    "step-removed": "fork",
    "frontier-missing": "fork",
    "replay-diverged": "fork",
    "join-broken": "fork",
    "effect-repeated": "fork",
    "approval-stale": "reapprove",
    "approval-bypassed": "reapprove",
    "tool-args": "reapprove",
}
"""Every breaking finding code, and what has to be done with a run that has it (DESIGN section 6, settled points)."""

WARNING = frozenset({"suspended-carryover", "contract-drift", "contract-unknown", "step-inserted", "flow-ambiguous"})
"""Codes that a person should look at, and that never make a simulation fail."""

IDLE = "policy: the pattern "
"""How a note begins that says of a part of a policy that no run of the simulation needed it."""

_VERSIONS = frozenset({"flowVersion", "contractFingerprint", "runtimeBuild", "stateSchemaVersion", "planSchemaVersion"})
_LONG, _MANY = 100, 100
_PIECE = 1 << 20
WORST_FIRST: tuple[Verdict, ...] = ("reject", "manual", "fork", "reapprove", "pin", "migrate", "upcast", "resume")
"""The verdicts, in the order in which one of a run goes before another."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a deploy simulation: what today's code would do to one recorded run.

    ``code`` is from DESIGN section 8, ``message`` says what happened and what would happen, ``hint`` what to do,
    ``source`` where the run was read (file, or file:line). ``acknowledged`` is who accepted it, why and until when,
    ``version`` the flow's version that the run was started on, where it says so, ``line`` the line of the log that
    tells of the step, or of where the run stands, where the log has an event a line. ``engine`` is ``native`` for a
    flow of pytest-loom's own, else the source that read the run; ``recorded`` is what the log says at that place, and
    ``today`` what today's contract has there (``deploy.facts``): facts beside what was found, so they do not tell two
    findings apart.
    """

    code: str
    severity: Severity
    workflow_id: str
    execution_id: str
    step: str | None
    message: str
    hint: str
    source: str
    acknowledged: str | None = None
    version: str | None = None
    line: int | None = None
    engine: str | None = field(default=None, compare=False)
    recorded: str | None = field(default=None, compare=False)
    today: str | None = field(default=None, compare=False)

    @property
    def blocks(self) -> bool:
        """Whether it makes the simulation fail."""
        return self.severity == "breaking" and self.acknowledged is None

    def as_acknowledged(self, by: str) -> Finding:
        """The same finding, accepted by somebody until a date."""
        return replace(self, acknowledged=by)

    def as_dict(self) -> dict[str, Any]:
        """The finding as ``report.json`` holds it."""
        facts: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "workflow_id": self.workflow_id,
            "execution_id": self.execution_id,
            "step": self.step,
            "message": self.message,
            "hint": self.hint,
            "source": self.source,
        }
        also = {
            "acknowledged": self.acknowledged,
            "version": self.version,
            "line": self.line,
            "engine": self.engine,
            "recorded": self.recorded,
            "today": self.today,
        }
        facts.update([pair for pair in also.items() if pair[1] is not None])
        return facts


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run of the simulation: where it stands, and what to do with it.

    ``strategies``: what each way to deploy would make of it (``deploy.strategies``); {} for a run that is over.
    ``manifest``: the versions that it was started on (``versions_of``). On request (``deploy.timeline``): ``at``, when
    it last did something, in UTC, and for a few runs ``timeline``, what it did beside what today's code does.
    """

    execution_id: str
    workflow_id: str
    status: str
    verdict: Verdict
    source: str
    strategies: dict[str, Verdict] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    at: str | None = field(default=None, compare=False)
    timeline: dict[str, Any] | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The run as ``report.json`` holds it."""
        facts: dict[str, Any] = {
            "execution_id": self.execution_id,
            "workflow_id": self.workflow_id,
            "status": self.status,
            "verdict": self.verdict,
            "source": self.source,
        }
        also = {
            "strategies": self.strategies,
            "manifest": self.manifest,
            "at": self.at,
            "timeline": self.timeline,
        }
        return facts | {name: value for name, value in also.items() if value}


_SEVERE_FIRST = {"breaking": 0, "warning": 1, "info": 2}


def _finding_order(found: Finding) -> tuple[Any, ...]:
    about = (found.code, found.step or "", found.message, found.hint)
    return (found.execution_id, found.source, _SEVERE_FIRST[found.severity], found.workflow_id, *about)


def _run_order(run: RunResult) -> tuple[str, ...]:
    return (run.execution_id, run.source, run.workflow_id, run.status, run.verdict)


def _finding_kind(found: Finding) -> Kind:
    return ("acknowledged" if found.acknowledged is not None else found.severity, found.code)


def _run_kind(run: RunResult) -> Kind:
    return (run.verdict, *chain.from_iterable(run.strategies.items()))


class _Head(msgspec.Struct):
    """The first line of a packed report."""

    facts: dict[str, Any]
    findings: Packed
    runs: Packed


class DeployReport:
    """The outcome of ``simulate_deploy``: ``ok``, ``findings``, ``runs`` (unfinished ones and those with findings).

    ``examined`` counts the runs in scope, ``in_flight`` the unfinished ones among them, ``skipped`` those out of scope;
    ``notes`` say what was not looked at, and why; ``contracts`` are today's, of the workflows that runs asked for;
    ``changed`` is how yesterday's that unfinished runs are on differ from them; ``unheld`` counts, by the source that
    read them, finished runs in scope that nothing holds against today's code. However many findings and runs there
    are, only so many of them are in memory (``finding_rows``, ``run_rows``).
    """

    def __init__(
        self,
        findings: Iterable[Finding] = (),
        runs: Iterable[RunResult] = (),
        examined: int = 0,
        in_flight: int = 0,
        skipped: int = 0,
        notes: Iterable[str] = (),
        changed: Iterable[ChangedContract] = (),
    ) -> None:
        self.finding_rows = Rows(Finding, _finding_order, findings, _finding_kind)
        self.run_rows = Rows(RunResult, _run_order, runs, _run_kind)
        self.examined = examined
        self.in_flight = in_flight
        self.skipped = skipped
        self.notes = list(notes)
        self.contracts: dict[str, Contract] = {}
        self.changed = list(changed)
        self.unheld: Counter[str] = Counter()
        self.lineage = Lineage()
        self.corpus = CorpusHealth()
        self.mutants: dict[str, Any] | None = None

    def all_notes(self) -> list[str]:
        """``notes``, and what the runs together tell (``derived_notes``)."""
        return [*self.notes, *self.derived_notes()]

    def derived_notes(self) -> list[str]:
        """What the runs together tell: ``unheld`` and ``lineage``."""
        return [*(_unheld(source, runs) for source, runs in sorted(self.unheld.items())), *self.lineage.notes()]

    @property
    def findings(self) -> Sequence[Finding]:
        """What was found, run by run."""
        return self.finding_rows

    @property
    def runs(self) -> Sequence[RunResult]:
        """The unfinished runs, and those with findings."""
        return self.run_rows

    @property
    def ok(self) -> bool:
        """No breaking finding, but for acknowledged ones."""
        return not any(state == "breaking" for state, _ in self.finding_rows.kinds)

    def summary(self) -> dict[str, int]:
        """The numbers that ``report.json`` and the terminal show; an acknowledged finding is counted as that only."""
        kinds: Counter[str] = Counter()
        for (state, _), count in self.finding_rows.kinds.items():
            kinds[state] += count
        return {
            "runs": self.examined,
            "in_flight": self.in_flight,
            "out_of_scope": self.skipped,
            "breaking": kinds["breaking"],
            "acknowledged": kinds["acknowledged"],
            "warnings": kinds["warning"],
            "infos": kinds["info"],
        }

    def hurt(self) -> int:
        """How many runs have a finding that makes the simulation fail."""
        if self.ok:
            return 0
        blocking = (found for found in self.finding_rows.in_order() if found.blocks)
        return sum(
            len({found.source for found in group})
            for _, group in groupby(blocking, key=lambda found: found.execution_id)
        )

    def strategies(self) -> dict[str, dict[str, int]]:
        """How many unfinished runs each strategy lets go on, hands to a person, and strands; {} without such a run."""
        table: dict[str, dict[str, int]] = {}
        for (_, *ways), runs in self.run_rows.kinds.items():
            for strategy, verdict in zip(ways[::2], ways[1::2], strict=True):
                row = table.setdefault(strategy, {"go_on": 0, "need_a_person": 0, "stranded": 0})
                row["go_on" if verdict in FINE else "stranded" if verdict == "reject" else "need_a_person"] += runs
        return table

    @classmethod
    def merge(cls, reports: Iterable[DeployReport]) -> DeployReport:
        """One report of what parts of a simulation found, one part at a time.

        Associative and commutative: whichever way parts are put together, the same is written (``write_json``).
        """
        whole = cls()
        for part in reports:
            whole.add(part)
        return whole

    def add(self, other: DeployReport) -> None:
        """Take over what another part of the same simulation found."""
        self.finding_rows += other.finding_rows
        self.run_rows += other.run_rows
        if self.examined and other.examined:  # what is idle in one part may be used in another
            both = {*self.notes} & {*other.notes}
            self.notes = [note for note in self.notes if note in both or not note.startswith(IDLE)]
            more = [note for note in other.notes if note in both or not note.startswith(IDLE)]
        else:
            more = other.notes
        self.notes += [note for note in more if note not in self.notes]
        self.examined += other.examined
        self.in_flight += other.in_flight
        self.skipped += other.skipped
        self.contracts = {**self.contracts, **other.contracts}
        self.changed = merged([*self.changed, *other.changed])
        self.unheld += other.unheld
        self.lineage.add(other.lineage)
        self.corpus.add(other.corpus)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain JSON data, to cross process borders."""
        rows = {"findings": [found.as_dict() for found in self.findings], "runs": [run.as_dict() for run in self.runs]}
        return rows | self._beside_rows()

    def _beside_rows(self) -> dict[str, Any]:
        """What is in it beside its rows."""
        return {
            "examined": self.examined,
            "in_flight": self.in_flight,
            "skipped": self.skipped,
            "notes": self.notes,
            "changed": [changed.as_dict() for changed in self.changed],
            **({"unheld": dict(self.unheld)} if self.unheld else {}),
            **({"lineage": self.lineage.as_dict()} if self.lineage else {}),
            "corpus": self.corpus.as_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeployReport:
        """The report that ``as_dict`` made plain."""
        made = cls(
            findings=(Finding(**found) for found in data["findings"]),
            runs=(RunResult(**run) for run in data["runs"]),
            examined=data["examined"],
            in_flight=data["in_flight"],
            skipped=data["skipped"],
            notes=data["notes"],
            changed=[ChangedContract.from_dict(changed) for changed in data["changed"]],
        )
        made.unheld = Counter(data.get("unheld", {}))
        if "lineage" in data:
            made.lineage = Lineage.from_dict(data["lineage"])
        if "corpus" in data:
            made.corpus = CorpusHealth.from_dict(data["corpus"])
        return made

    def packed(self) -> bytes:
        """The report in few bytes: the parts of a large simulation are held until all of them are there."""
        (findings, found), (runs, ran) = self.finding_rows.packed(), self.run_rows.packed()
        squeezed = zlib.compressobj(1)
        head = msgspec.json.encode(_Head(self._beside_rows(), findings, runs)) + b"\n"
        pieces = [squeezed.compress(piece) for piece in chain([head], found, ran)]
        return b"".join([*pieces, squeezed.flush()])

    @classmethod
    def unpacked(cls, data: bytes) -> DeployReport:
        """The report that ``packed`` made small. Raises ValueError or zlib.error for other bytes."""
        stream = _Inflated(data)
        head = msgspec.json.decode(stream.line(), type=_Head)
        made = cls.from_dict({"findings": [], "runs": [], **head.facts})
        for rows, facts in ((made.finding_rows, head.findings), (made.run_rows, head.runs)):
            rows.unpack(facts, stream.pieces(sum(facts.chunks) + facts.last))
        return made

    def __repr__(self) -> str:
        numbers = ", ".join(f"{value} {name}" for name, value in self.summary().items() if value)
        return f"<DeployReport {'ok' if self.ok else 'NOT ok'}: {numbers}>"


def _unheld(source: str, runs: int) -> str:
    many = "1 finished run" if runs == 1 else f"{runs} finished runs"
    are = f"of {printable(source)} {'is' if runs == 1 else 'are'}"
    return f"{many} {are} not held against today's code, since nothing resumes what is over: a test does, with replay"


class _Inflated:
    """Compressed bytes, read piece by piece."""

    def __init__(self, data: bytes) -> None:
        self._inflate = zlib.decompressobj()
        self._data = data
        self._held = b""

    def _more(self) -> bool:
        """Whether there is more in hand than before."""
        found = self._inflate.decompress(self._data, _PIECE)
        self._data = self._inflate.unconsumed_tail
        self._held += found
        return bool(found)

    def line(self) -> bytes:
        """Everything up to the next newline."""
        while b"\n" not in self._held and self._more():
            pass
        found, _, self._held = self._held.partition(b"\n")
        return found

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next so many bytes, or all that there are."""
        while size and (self._held or self._more()):
            piece = self._held[:size]
            self._held = self._held[size:]
            size -= len(piece)
            yield piece


def finding(
    log: Log, code: str, message: str, hint: str, *, step: str | None = None, severity: Severity | None = None
) -> Finding:
    """A finding about ``log``. The severity is that of the code; a check of your own names its own."""
    if severity is None:
        if code not in BREAKING and code not in WARNING:
            raise ValueError(f"{code!r} is not a finding code of pytest-loom: give its severity")
        severity = "breaking" if code in BREAKING else "warning"
    version = versions_of(log.state.manifest).get("flowVersion")
    version = None if version is None else str(version)
    frame = log.state.frames.get(step or "")
    told = frame.event if frame else log.state.last_event
    by_line = log.source == "loom" or origin_of(log)  # others count events, messages or nothing
    line = (told.line or None) if by_line else None
    where = (log.workflow_id, log.execution_id, step)
    return Finding(code, severity, *where, message, hint, log.path, None, version, line)


def versions_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The versions that a run's manifest names (DESIGN section 5): what is short enough to be one, nothing else."""
    found = {name: value for name, value in manifest.items() if name in _VERSIONS and _is_version(value)}
    tools = manifest.get("toolSchemaVersions")
    if isinstance(tools, dict) and 0 < len(tools) <= _MANY and all(map(_is_version, tools.values())):
        found["toolSchemaVersions"] = tools
    return found


def _is_version(value: object) -> bool:
    return len(str(value)) <= _LONG if isinstance(value, (str, int)) else False


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """What to do with a run: the worst of what its findings ask for; ``resume`` without any."""
    asked = {BREAKING.get(found.code, "manual") for found in findings if found.severity == "breaking"}
    return next((verdict for verdict in WORST_FIRST if verdict in asked), "resume")
