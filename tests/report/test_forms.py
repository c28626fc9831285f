"""The forms of a report: told by the suffix, written as one act, the same bytes in whatever order things were found."""

from __future__ import annotations

import importlib
import os
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport
from pytest_loom.deploy import rows
from pytest_loom.deploy.lineage import Named
from pytest_loom.report.forms import FORMS, form_of, write_report
from tests.report.conftest import changed, found, hostile, report_of, waiting

NUMBERS: dict[str, Any] = {"logs": 3, "not_judged": 0}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("report.json", "json"),
        ("out/report.md", "markdown"),
        ("report.sarif", "sarif"),
        ("report.sarif.json", "sarif"),
        ("gl.gitlab.json", "gitlab"),
        ("report.xls", None),
        ("json", None),
        ("report.md.txt", None),
    ],
)
def test_the_suffix_tells_the_form(name: str, form: str | None) -> None:
    """The longest suffix counts, and one that means nothing is no form."""
    assert form_of(Path(name)) == form


def test_no_form(tmp_path: Path) -> None:
    """Writing what has no form is an error that names those that there are, and writes nothing."""
    with pytest.raises(ValueError, match=r"one of \.gitlab\.json, .*\.md"):
        write_report(DeployReport(), tmp_path / "report.xls", ok=True, extra={})
    assert not (tmp_path / "report.xls").exists()


@pytest.mark.parametrize("suffix", FORMS)
class TestEveryForm:
    def test_the_same_for_the_same_runs(self, tmp_path: Path, folder: Path, suffix: str) -> None:
        """Neither the order in which workers found things nor the hour shows, nor does the folder of this machine."""
        findings = [found(number, f"code-{number % 7}", step=f"s{number % 3}") for number in range(60)]
        runs = [waiting(number, a="resume", b="fork") for number in range(60)]
        written = []
        for order in (1, 2):
            random.Random(order).shuffle(findings)
            random.Random(order).shuffle(runs)
            notes = ["b", "a"] if order == 1 else ["a", "b"]
            report = report_of(*findings, runs=60, notes=notes, changed=[changed("step s is gone")])
            report.run_rows += runs
            write_report(report, tmp_path / f"{order}{suffix}", ok=False, extra=NUMBERS)
            written.append((tmp_path / f"{order}{suffix}").read_bytes())
        assert written[0] == written[1]
        assert not any(str(place).encode() in written[0] for place in (tmp_path, folder.parent))

    def test_more_than_fits_into_memory(self, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Findings that went to a temporary file are reported as those in memory are, to the byte."""
        written = []
        for number, bound in enumerate((1000, 10)):
            monkeypatch.setattr(rows, "IN_MEMORY", bound)
            report = report_of(*(found(number, step=f"s{number % 4}") for number in range(200)))
            write_report(report, tmp_path / f"{number}{suffix}", ok=False, extra=NUMBERS)
            written.append((tmp_path / f"{number}{suffix}").read_bytes())
        assert written[0] == written[1]

    def test_the_folder_is_made_and_the_file_replaced(self, tmp_path: Path, suffix: str) -> None:
        """A report goes into a folder that is not there yet, and takes the place of the last one as a whole."""
        path = tmp_path / "out" / "reports" / f"report{suffix}"
        for report in (report_of(found()), report_of()):
            write_report(report, path, ok=report.ok, extra=NUMBERS)
        assert b"step-removed" not in path.read_bytes() or suffix.startswith(".sarif"), "SARIF lists all rules"
        assert os.listdir(path.parent) == [path.name]

    def test_one_that_cannot_be_written(self, tmp_path: Path, suffix: str) -> None:
        """Where it cannot be written an OSError says so, and nothing half-written stays."""
        (tmp_path / "file").write_text("in the way")
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(OSError, match="file"):
            write_report(report_of(), tmp_path / "file" / f"report{suffix}", ok=True, extra=NUMBERS)
        assert sorted(os.listdir(tmp_path)) == before

    def test_one_that_fails_half_way(self, tmp_path: Path, suffix: str) -> None:
        """An error on the way leaves the last report as it was."""
        path = tmp_path / f"report{suffix}"
        path.write_text("the last one")
        report = report_of()
        report.notes = [1]  # type: ignore[list-item]  # which no writer can say
        report.finding_rows._last.append(object())  # type: ignore[arg-type]
        with pytest.raises((AttributeError, TypeError)):
            write_report(report, path, ok=True, extra=NUMBERS)
        assert path.read_text() == "the last one"
        assert len(list(tmp_path.glob(f"*report{suffix}*"))) == 1


@pytest.mark.parametrize("suffix", sorted(FORMS.keys() - {".json"}))
def test_hostile_text(tmp_path: Path, suffix: str) -> None:
    """Whatever a log put into a name, the file can be written and read as UTF-8, without control characters."""
    write_report(report_of(hostile()), tmp_path / f"report{suffix}", ok=False, extra=NUMBERS)
    text = (tmp_path / f"report{suffix}").read_text(encoding="utf-8")
    assert [char for char in text if not char.isprintable() and char != "\n"] == []


def test_every_form_has_its_writer() -> None:
    """Each entry of the table names a module with a function of that name, and lists longer suffixes first."""
    for form in FORMS.values():
        module = importlib.import_module(f"pytest_loom.report.{form}")
        assert callable(getattr(module, f"write_{form}"))
    suffixes = list(FORMS)
    assert not any(long.endswith(short) for n, short in enumerate(suffixes) for long in suffixes[n + 1 :])


@pytest.mark.parametrize("form", ["report.md", "report.sarif"])
def test_what_the_runs_together_tell(tmp_path: Path, form: str) -> None:
    """A note that only all runs together give, as which patch is still needed, is in the forms that have notes."""
    report = report_of()
    report.lineage.patches["refund", "faster", "version 2"] = Named(3, ["r-1"])
    report.lineage.open["refund"] = Named(3, ["r-1"])
    write_report(report, tmp_path / form, ok=True, extra=NUMBERS)
    assert "unfinished runs are on version 2 (3)" in (tmp_path / form).read_text()
