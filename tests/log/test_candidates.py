"""Files of candidates: what is kept of a run for review, and what a damaged or hostile file can do."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import LogBuilder, load_log, load_logs, write_log
from pytest_loom.errors import LogError
from pytest_loom.log.candidates import (
    Candidate,
    Facts,
    accept,
    candidate_file,
    candidates,
    compared,
    drop,
    golden_of,
    keep,
)
from pytest_loom.log.event import Log


def run(execution_id: str = "r-1", output: Any = "done") -> Log:
    """A run with an output."""
    builder = LogBuilder(execution_id, "refund")
    builder.add("EXECUTION_STARTED", {"input": 1}, timestamp=1)
    builder.add("EXECUTION_COMPLETED", {"output": output}, timestamp=2)
    return builder.log()


def whole(file: Path) -> list[Candidate]:
    """The candidates of a file, none of which is damaged."""
    found = candidates(file)
    assert all(isinstance(one, Candidate) for one in found)
    return [one for one in found if isinstance(one, Candidate)]


@pytest.mark.parametrize("name", ["a.loom.jsonl", "a.loom.jsonl.gz", "a.jsonl"])
def test_kept_and_read_again(tmp_path: Path, name: str) -> None:
    """A candidate comes back with its run, test and rules, and the file is a log that anybody can read."""
    golden = write_log(run(), tmp_path / name)
    rules = compared({"ignore": ("**.id",), "compare": ["output"], "unordered": True, "comparators": ["a.b"]})
    file = keep(golden, run(output="new"), Facts("t.py::test", rules))
    assert file == candidate_file(golden)
    assert golden_of(file) == golden
    (one,) = whole(file)
    assert one.log.events == run(output="new").events
    assert one.facts == Facts("t.py::test", rules)
    assert one.facts.rules.rules == {
        "ignore": ["**.id"],
        "compare": ["output"],
        "tolerance": None,
        "unordered": True,
    }
    assert load_log(file).state.variables["_output"] == "new"


def test_one_candidate_an_execution(tmp_path: Path) -> None:
    """A newer one takes the place of the same execution's; the others stay; the file goes with the last of them."""
    golden = tmp_path / "a.loom.jsonl"
    for name, output in (("r-1", 1), ("r-2", 2), ("r-1", 3)):
        keep(golden, run(name, output), Facts(f"t.py::test[{name}]"))
    assert {one.log.execution_id: one.log.state.variables["_output"] for one in whole(candidate_file(golden))} == {
        "r-2": 2,
        "r-1": 3,
    }
    assert not drop(golden, "r-3")
    assert not drop(golden, "r-1", test="t.py::other")
    assert drop(golden, "r-1", test="t.py::test[r-1]")
    assert [one.facts.test for one in whole(candidate_file(golden))] == ["t.py::test[r-2]"]
    assert drop(golden, "r-2", test="t.py::test[r-2]@group")
    assert not candidate_file(golden).exists()
    assert not drop(golden, "r-2")


def test_accepting(tmp_path: Path) -> None:
    """The candidate takes its execution's place in the golden, other runs stay as they are, and it waits no more."""
    golden = tmp_path / "a.loom.jsonl"
    parts = [write_log(run(name), tmp_path / "part.jsonl").read_bytes() for name in ("r-1", "r-2")]
    golden.write_bytes(b"".join(parts))
    keep(golden, run("r-2", "new"), Facts("t"))
    keep(golden, run("r-3", "more"), Facts("t"))
    for one in whole(candidate_file(golden)):
        accept(one)
    assert [log.state.variables["_output"] for log in load_logs(golden)] == ["done", "new", "more"]
    assert b"candidate" not in golden.read_bytes()
    assert not candidate_file(golden).exists()


def test_a_payload_that_speaks_of_candidates(tmp_path: Path) -> None:
    """What a run itself calls a candidate is its own business."""
    golden = tmp_path / "a.loom.jsonl"
    keep(golden, run(output={"candidate": {"test": "evil"}, "a": ',"candidate":{}'}), Facts("mine"))
    assert [one.facts.test for one in whole(candidate_file(golden))] == ["mine"]


@pytest.mark.parametrize(
    "field",
    [
        '"candidate":5',
        '"candidate":{"test":5}',
        '"candidate":{"rules":{"ignore":"a"}}',
        '"candidate":{"rules":{"compare":5}}',
        '"candidate":{"rules":{"tolerance":{"abs":"x"}}}',
        '"candidate":{"rules":{"unordered":5}}',
        '"candidate":' + "[" * 5_000,
    ],
)
def test_facts_that_are_none(tmp_path: Path, field: str) -> None:
    """A file whose facts have another shape is an error with its line; it is left as it is until it is replaced."""
    golden = tmp_path / "a.loom.jsonl"
    file = keep(golden, run(), Facts("t"))
    text = file.read_text().replace('"candidate":{"test":"t"}', field)
    file.write_text(text)
    (error,) = candidates(file)
    assert isinstance(error, LogError)
    assert (error.path, error.line) == (str(file), 1)
    assert not drop(golden, "r-1")
    assert file.read_text() == text
    keep(golden, run(output="new"), Facts("t"))
    assert len(whole(file)) == 1


def test_damage(tmp_path: Path) -> None:
    """A cut line spoils its own run; a file that is none is an error."""
    golden = tmp_path / "a.loom.jsonl"
    file = keep(golden, run("r-1"), Facts("t"))
    keep(golden, run("r-2"), Facts("t"))
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-1], lines[-1].replace("timestamp", "timestamps")]))
    kinds = [type(one) for one in candidates(file)]
    assert kinds == [Candidate, LogError]
    file.write_bytes(b"\0" * 100)
    assert [type(one) for one in candidates(file)] == [LogError]


def test_links(tmp_path: Path) -> None:
    """Nothing is read, written or accepted through a link."""
    golden = tmp_path / "a.loom.jsonl"
    (tmp_path / "mine.txt").write_text("mine")
    candidate_file(golden).symlink_to(tmp_path / "mine.txt")
    with pytest.raises(LogError, match="link"):
        keep(golden, run(), Facts("t"))
    assert [type(one) for one in candidates(candidate_file(golden))] == [LogError]
    candidate_file(golden).unlink()
    (one,) = whole(keep(golden, run(), Facts("t")))
    golden.symlink_to(tmp_path / "mine.txt")
    with pytest.raises(LogError, match="link"):
        accept(one)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def _keep_many(folder: str, number: int) -> None:
    golden = Path(folder) / "a.loom.jsonl"
    for turn in range(10):
        keep(golden, run(f"r-{number}-{turn}"), Facts("t"))
        drop(golden, f"r-{number}-{turn - 1}")


def test_processes_side_by_side(tmp_path: Path) -> None:
    """Processes that keep and drop at once lose nothing of each other's."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_keep_many, args=(str(tmp_path), number)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    left = {one.log.execution_id for one in whole(candidate_file(tmp_path / "a.loom.jsonl"))}
    assert left == {f"r-{number}-9" for number in range(4)}
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["a.loom.jsonl.new"]'
