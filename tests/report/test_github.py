"""Workflow commands of GitHub Actions: few, on the right line, and none that a log made."""

from __future__ import annotations

import re

import pytest

from pytest_loom import DeployReport
from pytest_loom.report.github import MOST, annotation_lines, inert
from tests.report.conftest import found, hostile, report_of


def lines(report: DeployReport, *, ok: bool | None = None, not_judged: int = 0, logs: int = 3) -> list[str]:
    """The commands for a report."""
    numbers = {"logs": logs, "not_judged": not_judged}
    return list(annotation_lines(report, ok=report.ok if ok is None else ok, extra=numbers))


def read(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner reads it: its name, its properties and its message."""
    match = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line)
    assert match is not None, line
    escapes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def plain(text: str, *names: str) -> str:
        for name in names:
            text = text.replace(name, escapes[name])
        return text

    properties = dict(pair.split("=", 1) for pair in match[2].split(","))
    return (
        match[1],
        {key: plain(value, "%0D", "%0A", "%3A", "%2C", "%25") for key, value in properties.items()},
        plain(match[3], "%0D", "%0A", "%25"),
    )


def test_one_for_a_cause() -> None:
    """An error on the log's own line, with what would happen, what to do, to whom; a warning for what is to be seen."""
    report = report_of(
        found(5, "suspended-carryover", "warning", step=None, message="It waits: 100 %."),
        *(found(number, hint="Ask again:\n  resume(log)") for number in range(1, 5)),
    )
    assert [read(line) for line in lines(report)] == [
        (
            "error",
            {"file": "app/logs/1.loom.jsonl", "line": "3", "title": "step-removed: refund, step assess, 4 runs"},
            "It would run again.\nAsk again:\n  resume(log)\nr-1 in app/logs/1.loom.jsonl:3\n"
            "r-2 in app/logs/2.loom.jsonl:3\nr-3 in app/logs/3.loom.jsonl:3\nand 1 more",
        ),
        (
            "warning",
            {"file": "app/logs/5.loom.jsonl", "line": "3", "title": "suspended-carryover: refund"},
            "It waits: 100 %.\nKeep it.\nr-5 in app/logs/5.loom.jsonl:3",
        ),
    ]


def test_at_most_ten_of_each() -> None:
    """GitHub shows ten; the tenth says how many causes there are besides."""
    report = report_of(*(found(n, f"code-{n:02}", "breaking" if n % 2 else "warning") for n in range(60)))
    kinds = [line.split(" ")[0] for line in lines(report)]
    assert (kinds.count("::error"), kinds.count("::warning"), MOST) == (10, 10, 10)
    assert read(lines(report)[9])[2] == "21 more causes of this weight are in the report"
    exactly = report_of(*(found(n, f"code-{n:02}") for n in range(MOST)))
    assert [read(line)[2].startswith("It would") for line in lines(exactly)] == [True] * MOST


def test_what_nobody_has_to_look_at() -> None:
    """Neither what somebody accepted nor what is only information is an annotation, nor is a green report."""
    assert lines(report_of(found(acknowledged="ann"), found(2, "x", "info"))) == []
    assert lines(report_of()) == []


def test_what_was_not_judged() -> None:
    """A red job has an annotation that says why, also where nothing was found: at the settings, among the ten."""
    kind, where, said = read(lines(report_of(), ok=False, not_judged=2)[0])
    assert (kind, where["file"], said) == (
        "error",
        "pyproject.toml",
        "NOT JUDGED: 2 of 3 log files, see the failed tests",
    )
    report = report_of(*(found(n, f"code-{n:02}") for n in range(10)))
    assert len(lines(report, ok=False, not_judged=1)) == MOST


def test_text_of_a_log_stays_in_its_command() -> None:
    """Neither a new line nor a colon, comma or per cent in a name ends a command or makes another."""
    (line,) = lines(report_of(hostile(source="logs/a,b:c%.loom.jsonl")))
    assert "\n" not in line
    assert "\r" not in line
    name, properties, said = read(line)
    assert (name, properties["file"], sorted(properties)) == (
        "error",
        "app/logs/a,b:c%.loom.jsonl",
        ["file", "line", "title"],
    )
    assert "::error::a%b,c:d" in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", ": :error::x"),
        ("    ::add-mask::x", "    : :add-mask::x"),
        ("a\n  ::stop-commands::x\nb", "a\n  : :stop-commands::x\nb"),
        ("see ##[error]x and ##[add-mask]y", "see ## [error]x and ## [add-mask]y"),
        ("a::b, a ::c", "a::b, a ::c"),
        (":: ", ": : "),
    ],
)
def test_inert_text(text: str, shown: str) -> None:
    """What is printed of a log is no command to the runner, which looks for one at the start of each line."""
    assert inert(text) == shown
