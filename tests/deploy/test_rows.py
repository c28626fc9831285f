"""Rows of a report: like a list, however many there are."""

from __future__ import annotations

import json
import pickle
import random
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy import rows as module
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import DeployReport, Finding, RunResult
from pytest_loom.deploy.rows import Rows
from pytest_loom.errors import LoomError
from pytest_loom.report.json import read_json, write_json
from pytest_loom.report.text import finding_lines, verdict_line


def found(number: int, code: str = "step-removed", *, step: str | None = None) -> Finding:
    """A finding of run ``number``."""
    return Finding(code, "breaking", "refund", f"r-{number:07}", step, "gone — it is", "put it back", "store.sqlite")


def ran(number: int) -> RunResult:
    """Run ``number``."""
    ways = {"compatible-window": "resume", "fail-closed": "fork"}
    return RunResult(f"r-{number:07}", "refund", "suspended", "resume", "store.sqlite", ways, {"flowVersion": 1})  # type: ignore[arg-type]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Only so many rows are kept in memory."""
    monkeypatch.setattr(module, "IN_MEMORY", 7)
    return 7


@pytest.mark.usefixtures("small")
class TestRows:
    def test_few_come_as_they_were_added(self) -> None:
        """Up to the bound they are a list."""
        rows = DeployReport([found(2), found(1)]).finding_rows
        assert rows == [found(2), found(1)]
        assert (rows[0], rows[-1], rows[:1]) == (found(2), found(1), [found(2)])
        assert repr(rows) == repr([found(2), found(1)])

    def test_many_come_in_order_and_complete(self) -> None:
        """Beyond it they come sorted, each of them once, as often as they are asked for."""
        numbers = list(range(100))
        random.Random(3).shuffle(numbers)
        rows = DeployReport(map(found, numbers)).finding_rows
        assert len(rows) == 100
        assert list(rows) == list(rows) == [found(number) for number in range(100)]
        assert (rows[0], rows[99], rows[-1], rows[3:5]) == (found(0), found(99), found(99), [found(3), found(4)])
        with pytest.raises(IndexError):
            rows[100]
        assert "100 rows" in repr(rows)
        assert found(50) in rows
        assert rows != [found(1)]

    def test_two_at_a_time(self) -> None:
        """Two readers of the same rows do not disturb each other, and rows may be added afterwards."""
        rows = DeployReport(runs=map(ran, range(30))).run_rows
        assert all(one == two for one, two in zip(rows, rows, strict=True))
        rows += [ran(30)]
        assert [row.execution_id for row in rows] == [ran(number).execution_id for number in range(31)]

    def test_to_another_process(self) -> None:
        """An executor gets them back whole."""
        report = DeployReport(map(found, range(30)), map(ran, range(30)), 30, 30)
        again = pickle.loads(pickle.dumps(report))
        assert again.as_dict() == report.as_dict()

    @pytest.mark.parametrize("rows", [3, 7, 8, 30])
    def test_packed(self, rows: int) -> None:
        """In few bytes it is the same report, to which more can be added; the numbers are counted on."""
        report = DeployReport(map(found, range(rows)), map(ran, range(rows)), rows, rows)
        again = DeployReport.unpacked(report.packed())
        assert again.as_dict() == report.as_dict()
        again.add(DeployReport([found(99, "gate-removed")], [ran(99)], 1, 1))
        again.add(report)
        assert (len(again.findings), len(again.runs), again.summary()["breaking"]) == (2 * rows + 1,) * 3
        names = [found.execution_id for found in (*report.findings, *report.findings)]
        assert sorted(found.execution_id for found in again.findings) == sorted([*names, "r-0000099"])
        assert again.strategies()["fail-closed"] == {"go_on": 0, "need_a_person": 2 * rows + 1, "stranded": 0}

    def test_in_another_order(self) -> None:
        """Rows that are put in another order are sorted anew."""
        report = DeployReport(map(found, range(30)))
        backwards = Rows(Finding, lambda one: -int(one.execution_id[2:]), report.finding_rows)
        assert list(backwards.in_order()) == [found(number) for number in range(29, -1, -1)]

    def test_packed_and_cut(self) -> None:
        """A part of it is no report."""
        data = DeployReport(map(found, range(30))).packed()
        with pytest.raises(ValueError, match="cut short"):
            DeployReport.unpacked(data[:-20])

    def test_packed_beyond_memory(self) -> None:
        """What is packed and added is never there as a whole."""
        report = DeployReport(map(found, range(20_000)))
        data = report.packed()
        tracemalloc.start()
        whole = DeployReport()
        for _ in range(3):
            whole.add(DeployReport.unpacked(data))
        assert len(whole.packed()) < 4 * len(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(whole.findings) == 60_000
        assert peak < 10 * 1024 * 1024

    def test_odd_text(self) -> None:
        """What stands in a log cannot break the file."""
        odd = [Finding("x", "info", "a\nb", f'{n}\u2028\x00"', None, "m\\n", "h", "s") for n in range(20)]
        assert sorted(map(repr, DeployReport(odd).findings)) == sorted(map(repr, odd))


def test_memory_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the rows take no more memory."""
    monkeypatch.setattr(module, "IN_MEMORY", 1000)

    def peak(count: int) -> int:
        tracemalloc.start()
        report = DeployReport(map(found, range(count)), map(ran, range(count)))
        assert (report.hurt(), len(report.runs)) == (count, count)
        assert "".join(finding_lines(report.findings)).count("r-000000") == 3
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(30_000) < 3 * peak(3_000)


parts = st.lists(
    st.tuples(
        st.lists(st.integers(0, 50), max_size=15),
        st.lists(st.integers(0, 50), max_size=15),
        st.lists(st.sampled_from(["one", "two", "three"]), max_size=2, unique=True),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(parts=parts, seed=st.integers(0, 2**32))
def test_merged_in_any_order(parts: list[tuple[list[int], list[int], list[str], int]], seed: int) -> None:
    """Parts of a simulation give the same bytes, however they are put together."""
    change = ContractChange("gate", "Go", "", "added", "additive", "new")
    monkeypatch = pytest.MonkeyPatch()
    folder = Path(tempfile.mkdtemp())

    def made() -> list[DeployReport]:
        return [
            DeployReport(
                map(found, findings), map(ran, runs), len(runs), len(runs), 1, notes,
                [ChangedContract("f", "1a", "2b", (change,), count)] if count else [],
            )
            for findings, runs, notes, count in parts
        ]  # fmt: skip

    def written(report: DeployReport, name: str) -> bytes:
        write_json(report, folder / name, ok=True, extra={"logs": 3, "not_judged": 0})
        return (folder / name).read_bytes()

    with monkeypatch.context() as patch:
        patch.setattr(module, "IN_MEMORY", 9)
        straight = written(DeployReport.merge(made()), "a.json")
        mixed = made()
        random.Random(seed).shuffle(mixed)
        half = len(mixed) // 2
        nested = DeployReport.merge([DeployReport.merge(mixed[half:]), DeployReport.merge(mixed[:half])])
        assert written(nested, "b.json") == straight
        again, ok, extra = read_json(folder / "a.json")
        assert (ok, extra) == (json.loads(straight)["ok"], {"logs": 3, "not_judged": 0})
        assert written(again, "c.json") == straight
    assert DeployReport.merge([]).summary()["runs"] == 0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "not a report"),
        ("[]", "not a report"),
        ('{"schema": 2}', "schema 2"),
        ('{"schema": 1, "ok": true}', "not a report"),
        ('{"schema": 1, "ok": true, "summary": {}, "findings": 3, "runs": [], "notes": []}', "not a report"),
    ],
)
def test_no_report(tmp_path: Path, text: str, what: str) -> None:
    """What is no report is said by name."""
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(LoomError, match=what):
        read_json(tmp_path / "report.json")
    with pytest.raises(LoomError, match="cannot be read"):
        read_json(tmp_path / "none.json")


def test_steps_without_number() -> None:
    """Where every run has a step of its own, the causes still fit in memory and on a screen."""
    report = DeployReport([found(number, step=f"step-{number}") for number in range(5000)])
    assert verdict_line(report).startswith("NOT SAFE TO DEPLOY: 5000 of 0 runs")
    lines = list(finding_lines(report.findings, shown=1))
    assert sum(line.startswith("breaking") for line in lines) == 1001
    assert any("and 3999 more" in line for line in lines)
