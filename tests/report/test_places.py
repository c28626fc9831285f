"""Where a finding is in the repository: the paths that GitHub, GitLab and code scanning know files by."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_loom.report.places import Place, Places, root_of
from tests.report.conftest import changed, found, report_of


def place(source: str, line: int | None = 3) -> Place:
    """The place of a finding with that source."""
    return Places(report_of()).of(found(source=source, line=line))


class TestLogs:
    def test_the_logs_own_line(self) -> None:
        """A log is named from the root of the repository, though pytest was started below it."""
        assert place("logs/1.loom.jsonl") == ("app/logs/1.loom.jsonl", 3)

    def test_a_line_in_the_source(self) -> None:
        """A log that cannot be read names its bad line behind the file, and that is the line."""
        assert place("logs/1.loom.jsonl:17", None) == ("app/logs/1.loom.jsonl", 17)

    @pytest.mark.parametrize("source", ["logs/history.json:13", "threads.sqlite", "logs/1.loom.jsonl.gz"])
    def test_files_that_have_no_such_lines(self, source: str) -> None:
        """Where numbers count events, or the file is no text, the place is the file."""
        name = source.partition(":")[0]
        assert place(source) == (f"app/{name}", 1)

    def test_an_absolute_path(self, folder: Path) -> None:
        """A log in another folder of the repository is found by its whole path as well."""
        assert place(str(folder.parent / "other" / "1.loom.jsonl")) == ("other/1.loom.jsonl", 3)


class TestRoots:
    @pytest.mark.parametrize("name", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
    def test_as_ci_says(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """CI's folder of the checkout goes before what git has."""
        monkeypatch.setenv(name, str(folder))
        assert place("logs/1.loom.jsonl") == ("logs/1.loom.jsonl", 3)

    def test_a_checkout_elsewhere(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where pytest runs outside of the folder that CI names, git counts."""
        monkeypatch.setenv("GITHUB_WORKSPACE", str(folder / "elsewhere"))
        assert root_of(str(folder)) == str(folder.parent)

    def test_no_repository(self, folder: Path) -> None:
        """Without any, paths start from where pytest was started."""
        (folder.parent / ".git").rmdir()
        assert root_of(str(folder)) == str(folder)


class TestLogsElsewhere:
    ELSEWHERE = ("postgresql://db.example.org/runs", "/elsewhere/1.loom.jsonl", "../../1.loom.jsonl", "", "..")

    @pytest.mark.parametrize("source", ELSEWHERE)
    def test_the_contract_that_was_captured(self, source: str, folder: Path) -> None:
        """A run that is in no file of the repository is placed at the contract that it was started on."""
        report = report_of(changed=[changed("gone")])
        contract = folder / "loom-contracts" / "refund" / f"{'1' * 16}.json"
        contract.parent.mkdir(parents=True)
        contract.write_text("{}")
        assert Places(report).of(found(source=source)) == (f"app/loom-contracts/refund/{'1' * 16}.json", 1)
        assert Places(report).of(found(source=source, workflow_id="other")).path == "pyproject.toml"

    @pytest.mark.parametrize("source", ELSEWHERE)
    def test_the_setting_that_names_the_flows(self, source: str, folder: Path) -> None:
        """Without one it is placed where the settings name today's flows, nearest first."""
        (folder.parent / "pytest.ini").write_text("[pytest]\nloom_flows = far:flows\n")
        assert place(source) == ("pytest.ini", 2)
        (folder / "pyproject.toml").write_text('[project]\nname = "app"\n\n[tool.pytest]\nloom_flows = "app:flows"\n')
        assert place(source) == ("app/pyproject.toml", 5)

    def test_no_settings(self) -> None:
        """A repository without settings still has a place, since the forms need one."""
        assert place("postgresql://db/runs") == ("pyproject.toml", 1)

    @pytest.mark.parametrize(
        ("source", "shown"),
        [
            ("postgresql://db.example.org/runs", "postgresql://db.example.org/runs"),
            ("/home/ann/build-77/logs/1.loom.jsonl", "logs/1.loom.jsonl:3"),
            ("logs/1.loom.jsonl", "app/logs/1.loom.jsonl:3"),
        ],
    )
    def test_as_people_read_it(self, source: str, shown: str) -> None:
        """No folder of this machine is shown, so that the same runs give the same text on each."""
        assert Places(report_of()).shown(found(source=source)) == shown


def test_messages_name_no_folder_of_this_machine(folder: Path) -> None:
    """What a message says of a file of the repository is said from its root."""
    places = Places(report_of())
    assert places.said(f"raised ({folder}/app.py:3) and {folder.parent}/x.py") == "raised (app/app.py:3) and x.py"
