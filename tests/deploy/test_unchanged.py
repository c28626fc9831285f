"""Reports of unchanged files are kept, and never of one where anything that can change a verdict has changed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogBuilder, flow, record, write_log
from pytest_loom.contract.store import load_contracts
from pytest_loom.deploy import unchanged
from pytest_loom.deploy.decide import Today
from pytest_loom.deploy.report import DeployReport
from pytest_loom.deploy.simulate import simulate_share
from pytest_loom.log.migrations import isolated_migrations, migration
from pytest_loom.log.share import Share
from pytest_loom.log.upcast import isolated_upcasters, upcaster
from pytest_loom.resume.policy import load_policy
from pytest_loom.sources import LogStream, iter_wanted, register_source, unregister_source
from pytest_loom.sources.loom import LoomSource

TODAY: dict[str, Any] = {"workflowId": "refund", "steps": {"assess": {}}, "gates": {"Approved": {}}}


class Corpus:
    """A log file, a folder for reports, and how often the file was judged."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "runs.jsonl"
        self.cache = folder / "cache"
        self.cache.mkdir()
        self.judged = 0

    def write(self, *steps: str, waiting: bool = False, age: float = 60) -> None:
        """Write a run of each step, so long ago."""
        lines = []
        for number, step in enumerate(steps):
            made = LogBuilder(f"r-{number}", "refund")
            made.add("EXECUTION_STARTED", {"input": 1}, timestamp=1)
            made.add("STEP_STARTED", {"stepId": step}, timestamp=2)
            made.add("STEP_COMPLETED", {"stepId": step, "output": 1}, timestamp=3)
            end = ("EXECUTION_SUSPENDED", {"on": "Approved"}) if waiting else ("EXECUTION_COMPLETED", {"output": 1})
            made.add(*end, timestamp=4)
            write_log(made.log(), self.path.with_name("one.jsonl"))
            lines.append(self.path.with_name("one.jsonl").read_text())
        self.path.write_text("".join(lines))
        self.last_written(age)

    def last_written(self, age: float) -> None:
        """Have the file be so many seconds old."""
        at = time.time_ns() - int(age * 1e9)
        os.utime(self.path, ns=(at, at))

    def report(self, flows: Any = TODAY, *, share: Share | None = None, **rules: Any) -> DeployReport:
        """What is said of it."""
        kept = rules.pop("contract", None)
        facts: dict[str, Any] = {
            "contract": None if kept is None else load_contracts(kept),
            "scope": rules.pop("scope", "auto"),
            "policy": load_policy(rules.pop("policy", None)),
        }
        assert not rules

        def simulate(today: Today) -> DeployReport:
            self.judged += 1
            return simulate_share(LogStream(lambda w: iter_wanted(self.path, w, share)), today, checks=(), **facts)

        return unchanged.report_of(self.path, share, flows, self.cache, simulate=simulate, **facts)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """An empty corpus; files may be small, and a change of state (which no test can date back) does not count."""
    monkeypatch.setattr(unchanged, "SMALL", 0)
    facts = unchanged._facts

    def without_state(file: Path) -> list[int] | None:
        found = facts(file)
        return None if found is None else [*found[:4], found[3]]

    monkeypatch.setattr(unchanged, "_facts", without_state)
    return Corpus(tmp_path)


def told(report: DeployReport) -> Any:
    """All that a report says."""
    return report.as_dict()


def test_an_unchanged_file_is_judged_once(corpus: Corpus) -> None:
    """The second time the report is the same, findings and all, and nothing is judged or read."""
    corpus.write("assess", "gone", waiting=True)
    first = corpus.report()
    assert first.findings
    corpus.path.chmod(0)  # whoever reads it now cannot
    try:
        assert told(corpus.report()) == told(first)
    finally:
        corpus.path.chmod(0o600)
    assert corpus.judged == 1


CHANGES: dict[str, Callable[[Corpus], dict[str, Any]]] = {
    "the file": lambda corpus: corpus.write("assess", "gone") or {},  # type: ignore[func-returns-value]
    "the file, in as many bytes": lambda corpus: corpus.write("assess", "assesz") or {},  # type: ignore[func-returns-value]
    "today's contract": lambda corpus: {"flows": {**TODAY, "steps": {}}},
    "today's flow is gone": lambda corpus: {"flows": {"other": {"workflowId": "other"}}},
    "another flow is there too": lambda corpus: {"flows": {"refund": TODAY, "refunds": {"workflowId": "refunds"}}},
    "yesterday's contract": lambda corpus: {"contract": {**TODAY, "version": "0"}},
    "the policy": lambda corpus: {"policy": {"rule": [{"flow": "*", "allow": ["pin"]}]}},
    "the scope": lambda corpus: {"scope": "in-flight"},
    "the share": lambda corpus: {"share": Share(0, 2)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_it_is_judged_anew(corpus: Corpus, change: str) -> None:
    """Each thing that a verdict hangs on, changed alone; and changed back it is known again."""
    corpus.write("assess", "assess")
    flows = {"refund": TODAY}
    before = told(corpus.report(flows))
    text = corpus.path.read_bytes()
    rules = CHANGES[change](corpus)
    after = told(corpus.report(rules.pop("flows", flows), **rules))
    assert corpus.judged == 2
    (corpus.path.parent / "fresh").mkdir()
    fresh = Corpus(corpus.path.parent / "fresh")
    fresh.path = corpus.path
    rules = CHANGES[change](corpus)
    assert told(fresh.report(rules.pop("flows", flows), **rules)) == after
    corpus.path.write_bytes(text)
    corpus.last_written(60)
    assert told(corpus.report(flows)) == before


def test_this_packages_own_code(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of ours, of Python or of what reads values judges anew."""
    corpus.write("assess")
    corpus.report()
    monkeypatch.setattr(unchanged, "_own", lambda: "other")
    corpus.report()
    assert corpus.judged == 2


def test_its_own_code_is_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One letter in any module of the package makes another word of it."""
    package = shutil.copytree(Path(unchanged.__file__).parent.parent, tmp_path / "pytest_loom")
    monkeypatch.setattr(unchanged, "__file__", str(package / "deploy" / "unchanged.py"))
    before = unchanged._own.__wrapped__()
    assert before == unchanged._own.__wrapped__() == unchanged._own()
    (package / "log" / "read.py").write_text("# other\n")
    assert unchanged._own.__wrapped__() != before


class TestHowAFileIsKnown:
    """By its bytes; without reading it only where no write can have been missed."""

    def test_a_file_that_was_just_written(self, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
        """A write in the same moment could have the same time: it is hashed each time, until it has been quiet."""
        corpus.write("assess", age=0)
        hashed: list[Path] = []
        content = unchanged._content
        monkeypatch.setattr(unchanged, "_content", lambda file: hashed.append(file) or content(file))  # type: ignore[func-returns-value]
        corpus.report()
        assert (corpus.judged, len(hashed)) == (1, 2)
        corpus.report()
        assert (corpus.judged, len(hashed)) == (1, 3)

    def test_a_write_in_the_same_moment_is_seen(self, corpus: Corpus) -> None:
        """Other bytes under the same size and the same times, written right after it was judged."""
        corpus.write("assess", age=0)
        facts = corpus.path.stat()
        assert corpus.report().ok
        corpus.path.write_bytes(corpus.path.read_bytes().replace(b'"assess"', b'"assesz"'))
        os.utime(corpus.path, ns=(facts.st_mtime_ns, facts.st_mtime_ns))
        assert not corpus.report().ok

    def test_times_that_were_set_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who writes and sets the time of the write back leaves a trace in the time of the change of state."""
        monkeypatch.setattr(unchanged, "SMALL", 0)
        monkeypatch.setattr(unchanged, "_QUIET_NS", 0)
        corpus = Corpus(tmp_path)
        corpus.write("assess")
        time.sleep(0.05)
        facts = corpus.path.stat()
        assert corpus.report().ok
        corpus.path.write_bytes(corpus.path.read_bytes().replace(b'"assess"', b'"assesz"'))
        os.utime(corpus.path, ns=(facts.st_mtime_ns, facts.st_mtime_ns))
        assert not corpus.report().ok

    def test_a_file_that_is_copied(self, corpus: Corpus) -> None:
        """The same bytes under the same name are the same file, whenever they came there (a fresh checkout)."""
        corpus.write("assess")
        corpus.report()
        text = corpus.path.read_bytes()
        corpus.path.unlink()
        corpus.path.write_bytes(text)
        corpus.report()
        assert corpus.judged == 1

    def test_a_file_that_changes_while_it_is_judged(self, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody knows which bytes were judged: that report is not kept."""
        corpus.write("assess")
        by_data = unchanged._is_by_data

        def writing(report: DeployReport, today: Today) -> bool:
            corpus.write("gone", age=30)
            return by_data(report, today)

        monkeypatch.setattr(unchanged, "_is_by_data", writing)
        assert corpus.report().ok
        monkeypatch.setattr(unchanged, "_is_by_data", by_data)
        assert not corpus.report().ok

    def test_large_files_are_hashed_in_pieces(self, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every piece counts, and their order."""
        monkeypatch.setattr(unchanged, "_PIECE", 10)
        seen = set()
        for text in (
            b"a" * 10 + b"b" * 10 + b"c",
            b"b" * 10 + b"a" * 10 + b"c",
            b"a" * 10 + b"b" * 10 + b"d",
            b"a" * 21,
        ):
            corpus.path.write_bytes(text)
            seen.add(unchanged._content(corpus.path))
        assert len(seen) == 4


class TestWhatCodeHadASayIn:
    """No hash covers what code can reach."""

    def test_unfinished_runs_of_flows_that_are_code(self, corpus: Corpus) -> None:
        """They are replayed each time; finished runs are judged by structure, and are kept."""

        @flow(id="desk", gates={"Approved": bool})
        async def desk(ctx: Any) -> bool:
            answer: bool = await ctx.suspend("Approved")
            return answer

        waits = record(desk, execution_id="w")
        for log, expected in ((waits, 2), (finished(waits), 3)):
            write_log(log, corpus.path)
            corpus.last_written(60)
            corpus.report({"desk": desk})
            corpus.report({"desk": desk})
            assert corpus.judged == expected

    def test_upcasters(self, corpus: Corpus) -> None:
        """An upcaster may be registered as a flow is looked up, even as a kept report is."""
        corpus.write("assess")
        corpus.report(lambda workflow_id: TODAY)

        def resolver(workflow_id: str) -> Any:
            @upcaster("STEP_COMPLETED", from_version=1)
            def raised(payload: dict[str, Any]) -> dict[str, Any]:
                return {**payload, "stepId": "renamed"}

            return TODAY

        for _ in range(2):
            with isolated_upcasters():
                corpus.report(resolver)
        assert corpus.judged == 3

    def test_migrations(self, corpus: Corpus) -> None:
        """So may a migration."""
        corpus.write("assess")
        with isolated_migrations():

            @migration("state", from_version=1)
            def raised(state: Any) -> Any:
                return state

            corpus.report()
            corpus.report()
        assert corpus.judged == 2

    def test_registered_sources(self, corpus: Corpus) -> None:
        """And a source may read anything."""

        class Mine(LoomSource):
            name = "mine"

        corpus.write("assess")
        corpus.report()
        mine = Mine()
        register_source(mine)
        try:
            corpus.report()
        finally:
            unregister_source(mine)
        assert corpus.judged == 2

    def test_other_formats(self, corpus: Corpus) -> None:
        """What another source reads is judged each time: it may hang on more than the file."""
        for path in (Path(__file__).parent.parent / "sources" / "temporal_history.json", Path(__file__)):
            corpus.judged = 0
            corpus.path = path
            corpus.report()
            corpus.report()
            assert corpus.judged == 2


def finished(log: Log) -> Log:
    """The run, once it is over."""
    made = LogBuilder(log.execution_id, log.workflow_id)
    for event in log.events[:1]:
        made.add(event.event_type, event.payload, timestamp=1)
    made.add("EXECUTION_COMPLETED", {"output": True}, timestamp=2)
    return made.log()


class TestWhatIsInTheFolder:
    """Files that are damaged, foreign, or too many."""

    @pytest.mark.parametrize(
        "damage",
        [
            lambda text: b"",
            lambda text: text[:-1],
            lambda text: text + b"\0",
            lambda text: b"another report\n" + text.split(b"\n", 1)[1],
            lambda text: text.replace(b'"size"', b'"sizf"'),
            lambda text: text.replace(b'"content":"', b'"content":"0'),
            lambda text: b"\n\n\n",
            lambda text: b"\xff" * 500,
        ],
        ids=["empty", "cut", "longer", "head", "entry", "content", "lines", "bytes"],
    )
    def test_damage(self, corpus: Corpus, damage: Callable[[bytes], bytes]) -> None:
        """What is not whole counts as not there, and is written anew."""
        corpus.write("gone")
        before = told(corpus.report())
        (kept,) = corpus.cache.iterdir()
        kept.write_bytes(damage(kept.read_bytes()))
        corpus.path.touch()  # so that the bytes have to tell
        corpus.last_written(30)
        assert told(corpus.report()) == before
        assert corpus.judged == 2
        assert told(corpus.report()) == before
        assert corpus.judged == 2

    def test_a_folder_that_cannot_be_written(self, corpus: Corpus) -> None:
        """Then nothing is kept, and nothing is wrong."""
        corpus.write("assess")
        corpus.cache.rmdir()
        corpus.cache.write_text("no folder")
        assert corpus.report().ok
        assert corpus.report().ok
        assert corpus.judged == 2

    def test_the_oldest_make_room(self, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
        """The folder does not grow without end: what nobody has asked for longest goes first."""
        corpus.write("assess")
        corpus.report()
        (first,) = corpus.cache.iterdir()
        monkeypatch.setattr(unchanged, "MAX_FOLDER", 3 * first.stat().st_size + 200)
        for number in range(6):
            os.utime(first, ns=(time.time_ns(), time.time_ns() + number))
            corpus.report(share=Share(0, number + 2))
        assert sum(path.stat().st_size for path in corpus.cache.iterdir()) <= unchanged.MAX_FOLDER
        assert first.exists()

    def test_small_files_are_not_kept(self, tmp_path: Path) -> None:
        """A small file is judged as fast as it is looked up."""
        corpus = Corpus(tmp_path)
        corpus.write("assess")
        corpus.report()
        assert list(corpus.cache.iterdir()) == []

    def test_a_report_that_is_too_large(self, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not kept."""
        monkeypatch.setattr(unchanged, "MAX_REPORT", 10)
        corpus.write("assess")
        corpus.report()
        assert list(corpus.cache.iterdir()) == []


def test_questions_that_have_no_answer(corpus: Corpus) -> None:
    """Flows that cannot be asked any more are asked by the simulation itself, which says what is wrong."""
    corpus.write("assess")
    corpus.report(lambda workflow_id: TODAY)

    def broken(workflow_id: str) -> Any:
        raise RuntimeError("no")

    with pytest.raises(Exception, match="RuntimeError: no"):
        corpus.report(broken)


def test_what_is_asked_of_a_kept_report_leaves_no_trace(corpus: Corpus) -> None:
    """Where the kept report does not hold, the simulation says nothing of flows that only that one had asked for."""
    corpus.write("assess")
    corpus.report({"refund": {"workflowId": "refund"}})
    other = corpus.path.read_text().replace('"refund"', '"refumd"')
    corpus.path.write_text(other)
    corpus.last_written(30)
    flows = {"refund": {"workflowId": "refund"}, "refumd": {**TODAY, "workflowId": "refumd"}}
    first = corpus.report(flows)
    assert first.notes == []
    assert list(first.contracts) == ["refumd"]
