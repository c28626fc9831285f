"""Simulations in parts: the same report by any executor, in any number of parts."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import FlowError, LogError, LoomError, simulate_deploy, upcaster
from pytest_loom.deploy import parts as module
from pytest_loom.deploy.parts import Part, chosen, corpus_of, parts_of
from pytest_loom.deploy.report import DeployReport
from pytest_loom.log import read
from pytest_loom.log.share import Share
from pytest_loom.log.upcast import isolated_upcasters
from pytest_loom.log.write import encode_events
from tests.deploy.conftest import make_run

TODAY: dict[str, Any] = {"refund": {"workflowId": "refund", "steps": {"assess": {}, "pay": {}}}}


def get_flow(workflow_id: str, version: str | None = None) -> Any:
    """A resolver that another process can import."""
    return TODAY.get(workflow_id)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One large file of many runs and some small ones; a third of the runs has a step that is gone."""
    monkeypatch.setattr(module, "LARGE", 4000)
    for name, numbers in {"large": range(60), "a": range(60, 62), "b": range(62, 66)}.items():
        runs = [make_run(f"r-{n:03}", "assess", *(["gone"] if n % 3 == 0 else []), status="suspended") for n in numbers]
        (tmp_path / f"{name}.loom.jsonl").write_bytes(b"".join(encode_events(run.events) for run in runs))
    return tmp_path


@pytest.fixture(params=["processes", "threads"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """An executor of two workers."""
    if request.param == "threads":
        with ThreadPoolExecutor(2) as threads:
            yield threads
        return
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        yield processes


def plain(report: DeployReport) -> Any:
    """What is in a report, whatever the order."""
    data = report.as_dict()
    data["findings"] = sorted(data["findings"], key=str)
    data["runs"] = sorted(data["runs"], key=str)
    return data


@pytest.mark.parametrize("flows", [TODAY, get_flow], ids=["contracts", "resolver"])
def test_the_same_report(corpus: Path, executor: Executor, flows: Any) -> None:
    """With an executor as without: every run is judged once, contracts are known, notes are the same."""
    alone = simulate_deploy(corpus, flows)
    beside = simulate_deploy(corpus, flows, executor=executor)
    assert plain(beside) == plain(alone)
    assert (alone.summary()["runs"], alone.summary()["breaking"]) == (66, 22)
    assert beside.contracts.keys() == alone.contracts.keys() == {"refund"}


def test_how_a_corpus_is_divided(corpus: Path) -> None:
    """Stores and large files are divided among the workers, small files are not, and the small ones come last."""
    files = sorted(corpus.iterdir())
    found = parts_of(files, ["postgresql://x/y"], 2)
    names = [(Path(part.place).name, part.share) for part in found]
    both = [Share(0, 2), Share(1, 2)]
    assert names == [
        *(("y", share) for share in both),
        *(("large.loom.jsonl", share) for share in both),
        ("b.loom.jsonl", None),
        ("a.loom.jsonl", None),
    ]
    assert parts_of(files, [], 1)[0] == Part(str(corpus / "large.loom.jsonl"))


def test_files_that_make_one_workers_part_stay_whole(corpus: Path) -> None:
    """Two large files for two workers, or two shards, are dealt out: whoever judges a share reads all of the file."""
    large = corpus / "large.loom.jsonl"
    (corpus / "other.loom.jsonl").write_bytes(large.read_bytes())
    files = sorted(corpus.iterdir())
    assert {part.share for part in parts_of(files, [], 2)} == {None}
    shards = [chosen(files, Share(number, 2)) for number in range(2)]
    assert [sum(path.name[0] in "lo" for path, _ in shard) for shard in shards] == [1, 1]
    assert sorted(path for shard in shards for path, _ in shard) == files
    assert {part.share for part in parts_of(files, [], 3)} == {None, *(Share(number, 3) for number in range(3))}


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shards_are_the_corpus(corpus: Path, of: int) -> None:
    """Each small file is in one shard, a large one in all of them, where there are several."""
    files = sorted(corpus.iterdir())
    shards = [chosen(files, Share(number, of)) for number in range(of)]
    small = [path.name for shard in shards for path, share in shard if share is None]
    assert sorted(small) == ["a.loom.jsonl", "b.loom.jsonl", *(["large.loom.jsonl"] if of == 1 else [])]
    divided = [share for shard in shards for path, share in shard if share]
    assert divided == [Share(number, of) for number in range(of) if of > 1]


def test_a_corpus_is_known_by_its_files(corpus: Path, tmp_path: Path) -> None:
    """Another file or another size is another corpus; where it lies makes no difference."""
    files = sorted(corpus.iterdir())
    before = corpus_of(files, corpus)
    assert before == corpus_of(list(reversed(files)), corpus) != corpus_of(files[1:], corpus)
    with files[0].open("a") as stream:
        stream.write("\n")
    assert corpus_of(files, corpus) != before
    assert corpus_of([], corpus) == ""


def test_what_cannot_be_given_away(corpus: Path, executor: Executor) -> None:
    """Flows that live in this process only, and logs that are here already, are refused by name."""
    with pytest.raises(FlowError, match="an executor cannot be given these flows"):
        simulate_deploy(corpus, lambda workflow_id: TODAY.get(workflow_id), executor=executor)
    with pytest.raises(TypeError, match="a path, a glob or an address"):
        simulate_deploy([make_run()], TODAY, executor=executor)
    with pytest.raises(LogError):
        simulate_deploy(corpus / "none*", TODAY, executor=executor)


def test_what_is_registered_here_only(corpus: Path) -> None:
    """An upcaster that the workers do not know would give another verdict there: it is an error."""
    with isolated_upcasters(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        upcaster("Note", from_version=1)(lambda payload: payload)
        with pytest.raises(LoomError, match="do not know the upcaster of Note from version 1"):
            simulate_deploy(corpus, TODAY, executor=processes)


def test_only_so_many_parts_wait(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are handed over as others are done, so that reports do not pile up."""
    monkeypatch.setattr(module, "AT_ONCE", 1)
    submitted: list[int] = []
    lock = threading.Lock()

    class Noting(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            with lock:
                submitted.append(1)
            future = super().submit(*args, **kwargs)
            future.add_done_callback(lambda _: submitted.pop())
            assert len(submitted) <= 2
            return future

    with Noting(2) as executor:
        assert plain(simulate_deploy(corpus, TODAY, executor=executor)) == plain(simulate_deploy(corpus, TODAY))


def test_an_idle_pattern_of_a_policy_is_idle_everywhere(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A pattern that some part's runs need is not called idle in the whole."""
    one = DeployReport(examined=1, notes=["policy: the pattern 'pay*' (a rule) fits no tool", "x"])
    two = DeployReport(examined=1, notes=["y"])
    nothing = DeployReport(notes=["z"])
    for order in ([one, two, nothing], [nothing, two, one]):
        assert sorted(DeployReport.merge(order).notes) == ["x", "y", "z"]
    assert "policy" in DeployReport.merge([nothing, one]).notes[-2]


def test_reports_cross_processes() -> None:
    """A report is pickled whole, its contracts too."""
    report = simulate_deploy([make_run("r-1", "gone", status="suspended")], TODAY)
    again = pickle.loads(pickle.dumps(report))
    assert (plain(again), again.contracts) == (plain(report), report.contracts)


def test_large_files_are_read_by_share(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file too large for memory a part decodes its own runs only."""
    monkeypatch.setattr(read, "WHOLE_FILE", 100)
    with ThreadPoolExecutor(2) as threads:
        assert plain(simulate_deploy(corpus, TODAY, executor=threads)) == plain(simulate_deploy(corpus, TODAY))
