"""One simulation divided: among the workers of pytest-xdist, and among CI jobs whose reports are merged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_loom.errors import LoomError
from pytest_loom.report.json import write_json
from pytest_loom.report.merge import merge_files
from tests.plugin.conftest import Desk

SIM = "--loom-deploy-sim"
REPORT = "--loom-report=report.json"
PASSED, FAILED, USAGE, NOTHING = 0, 1, 4, 5
SMALL = "import pytest_loom.deploy.parts\npytest_loom.deploy.parts.LARGE = {}\n"


@pytest.fixture
def many(desk: Desk) -> Desk:
    """Three small files and one that is large here; a quarter of the runs has a step that is gone."""
    for number in range(40):
        name = "large" if number < 30 else f"small-{number % 3}"
        steps = ("assess", "gone") if number % 4 == 0 else ("assess",)
        desk.log(f"logs/{name}.loom.jsonl", f"r-{number:02}", *steps, status="suspended", append=True)
    desk.write("conftest.py", SMALL.format(10_000))
    return desk


def test_the_workers_of_xdist_divide_a_large_file(many: Desk) -> None:
    """A part for each worker, one title, and a report that is the same to the byte as that of one process."""
    assert many(SIM, REPORT) == FAILED
    alone = (many.path / "report.json").read_bytes()
    assert many.counts == {"failed": 3, "passed": 1}
    assert many.apart(SIM, REPORT, "-n", "2", plugins=("xdist.plugin",)) == FAILED
    assert (many.path / "report.json").read_bytes() == alone
    assert many.counts == {"failed": 4, "passed": 1}
    assert many.section[0].strip("= ") == "pytest-loom: deploy simulation of 4 log files"
    lines = many.result.outlines
    assert any("large.loom.jsonl::deploy-sim[2-of-2]" in line for line in lines)
    assert any("NOT SAFE TO DEPLOY: 10 of 40 runs" in line for line in lines)


@pytest.mark.parametrize("of", [1, 2, 3])
def test_shards_merge_to_the_whole(many: Desk, of: int) -> None:
    """CI jobs side by side find what one finds, to the byte, and in any order."""
    assert many(SIM, "--loom-report=whole.json") == FAILED
    whole = (many.path / "whole.json").read_bytes()
    paths = []
    for number in range(1, of + 1):
        many(SIM, f"--loom-shard={number}/{of}", f"--loom-report={number}.json")
        paths.append(many.path / f"{number}.json")
    for order in (paths, paths[::-1]):
        report, ok, numbers = merge_files(order)
        write_json(report, many.path / "merged.json", ok=ok, extra=numbers)
        assert (many.path / "merged.json").read_bytes() == whole


def test_a_shard_without_runs_is_green(desk: Desk) -> None:
    """More jobs than files: those that have nothing to do say so, whether or not there are other tests."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess", "gone")
    codes = [desk(SIM, f"--loom-shard={number}/3", f"--loom-report={number}.json") for number in (1, 2, 3)]
    assert sorted(codes) == [PASSED, PASSED, FAILED]
    empty = next(number for number, code in enumerate(codes, 1) if code == PASSED)
    desk(SIM, f"--loom-shard={empty}/3")
    assert desk.section[1:] == ["nothing to judge: all recorded runs are in other shards"]
    data = json.loads((desk.path / f"{empty}.json").read_bytes())
    assert (data["ok"], data["summary"]["runs"], data["summary"]["shard"]) == (True, 0, f"{empty}/3")


def test_no_log_at_all_is_still_an_error(desk: Desk) -> None:
    """A shard of nothing proves nothing."""
    assert desk(SIM, "--loom-shard=1/2") == FAILED


@pytest.mark.parametrize("text", ["3", "0/2", "3/2", "a/b", "1/", "1/2/3", "-1/2", "1/99999999", "²/3"])
def test_what_is_no_shard(three: Desk, text: str) -> None:
    """A shard that makes no sense is a usage error, and judges nothing."""
    assert three(SIM, f"--loom-shard={text}") == USAGE
    assert "--loom-shard" in three.result.stderr.str()


def test_a_shard_needs_a_simulation(three: Desk) -> None:
    """Without a simulation there is nothing to divide."""
    assert three("--loom-shard=1/2") == USAGE


class TestMerge:
    @pytest.fixture
    def shards(self, many: Desk) -> list[Path]:
        """The reports of three shards."""
        for number in (1, 2, 3):
            many(SIM, f"--loom-shard={number}/3", f"--loom-report={number}.json")
        return [many.path / f"{number}.json" for number in (1, 2, 3)]

    def test_a_missing_shard(self, shards: list[Path]) -> None:
        """A part that nobody judged is named."""
        with pytest.raises(LoomError, match="no report of shard 2/3"):
            merge_files([shards[0], shards[2]])

    def test_a_shard_that_comes_twice(self, shards: list[Path]) -> None:
        """The same part is not counted twice."""
        with pytest.raises(LoomError, match="shard 1/3 is in"):
            merge_files([*shards, shards[0]])

    def test_shards_of_something_else(self, many: Desk, shards: list[Path]) -> None:
        """Jobs that saw other files do not make a whole, nor do shards of another number, or none."""
        many.log("logs/new.loom.jsonl", "r-99", "assess")
        many(SIM, "--loom-shard=3/3", "--loom-report=3.json")
        with pytest.raises(LoomError, match="saw different log files"):
            merge_files(shards)
        many(SIM, "--loom-shard=2/2", "--loom-report=2.json")
        many(SIM, "--loom-shard=1/2", "--loom-report=1.json")
        with pytest.raises(LoomError, match="different"):
            merge_files(shards)
        many(SIM, "--loom-report=3.json")
        with pytest.raises(LoomError, match="some are not"):
            merge_files(shards)

    def test_reports_of_no_shard(self, three: Desk) -> None:
        """Batch jobs that each simulate logs of their own are simply added up."""
        three(SIM, "--loom-report=1.json", "logs/a.loom.jsonl")
        three(SIM, "--loom-report=2.json", "logs/b.loom.jsonl")
        report, ok, numbers = merge_files([three.path / "1.json", three.path / "2.json"])
        assert (ok, report.summary()["runs"], numbers) == (False, 2, {"logs": 2, "not_judged": 0})
