"""Histories on which the Replayer hangs, or says nothing that helps: each ends in a clear finding, and in time.

They are simulated in a process of their own, so that a hang is a failed test.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("temporalio", reason="needs the extra temporal")

from tests.engines.temporal.command import simulate
from tests.engines.temporal.histories import History, write
from tests.engines.temporal.test_detection_table import run_at

APP = """
    from tests.engines.temporal.workflows.quotes import ActivityRenamed, Quoting
    from tests.engines.temporal.workflows.quotes_data import FieldRequired
    flows = [Quoting, ActivityRenamed, FieldRequired]
    flows = {flow.__name__: flow for flow in flows}
"""


def without(history: History, kind: str) -> History:
    """The history without its second event of a kind, numbered as before."""
    events = history["events"]
    gone = [event for event in events if event["eventType"].endswith(kind)][1]
    return {"events": [event for event in events if event is not gone]}


def decoded(history: History) -> History:
    """The history as the web UI shows it: values where payloads were."""
    return json.loads(json.dumps(history), object_hook=_value)  # type: ignore[no-any-return]


def _value(node: dict[str, Any]) -> Any:
    if set(node) == {"metadata", "data"}:
        return json.loads(base64.b64decode(node["data"]))
    return node


def encrypted(history: History) -> History:
    """The history with every payload sealed, as a codec does it."""
    return json.loads(json.dumps(history), object_hook=_sealed)  # type: ignore[no-any-return]


def _sealed(node: dict[str, Any]) -> Any:
    if set(node) != {"metadata", "data"}:
        return node
    metadata = {"encoding": "YmluYXJ5L2VuY3J5cHRlZA==", "encryption-key-id": "a2V5LTE="}
    return {"metadata": metadata, "data": base64.b64encode(bytes(range(128, 160))).decode()}


def first(history: History, count: int) -> History:
    """The first events only."""
    return {"events": history["events"][:count]}


def broken() -> dict[str, History]:
    """Every broken history, by what is wrong with it."""
    whole = run_at("C", "Quoting")
    renamed = run_at("C", "ActivityRenamed")
    return {
        "empty": {"events": []},
        "headless": {"events": whole["events"][1:]},
        "gap-in-tasks": without(whole, "WORKFLOW_TASK_COMPLETED"),
        "gap-in-activities": without(whole, "ACTIVITY_TASK_COMPLETED"),
        "descending": {"events": run_at("S", "Quoting")["events"][::-1]},
        "descending-renamed": {"events": renamed["events"][::-1]},
        "decoded": decoded(run_at("A", "Quoting")),
        "decoded-renamed": decoded(renamed),
        "encrypted": encrypted(whole),
        "encrypted-waiting": encrypted(run_at("S", "Quoting")),
        "only-started": first(run_at("T", "Quoting"), 1),
        "only-started-required": first(run_at("T", "FieldRequired"), 1),
        "unfinished-task": first(run_at("T", "Quoting"), 3),
        "sound": run_at("T", "Quoting"),
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What one simulation of all of them finds, by file name."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "store").mkdir()
    histories = broken()
    for name, history in histories.items():
        write(history, folder / "store" / f"{name}.json")
    _, report = simulate(folder, APP)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in histories}
    for finding in report["findings"]:
        if finding["code"] == "suspended-carryover":
            continue
        found[Path(finding["source"].partition(".json")[0]).name].append(finding)
    return found


Report = dict[str, list[dict[str, Any]]]


def breaking(findings: list[dict[str, Any]]) -> list[str]:
    """The codes of the breaking ones."""
    return [finding["code"] for finding in findings if finding["severity"] == "breaking"]


def words(findings: list[dict[str, Any]]) -> str:
    """All that they say."""
    return "\n".join(f"{finding['message']} {finding['hint']}" for finding in findings).lower()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("empty", "no events"),
        ("headless", "what came before is missing"),
        ("gap-in-tasks", "is missing"),
        ("gap-in-activities", "is missing"),
    ],
)
def test_a_history_with_a_gap_is_unreadable(report: Report, name: str, said: str) -> None:
    """A history without events, without its beginning or with a hole is refused by name of what is missing."""
    assert breaking(report[name]) == ["log-unreadable"]
    assert said in words(report[name])


def test_a_descending_history_is_read_in_order(report: Report) -> None:
    """The web UI downloads newest first; such a file is judged like any other."""
    assert report["descending"] == []
    assert breaking(report["descending-renamed"])


def test_a_decoded_history_is_judged_or_refused(report: Report) -> None:
    """A history whose payloads the web UI decoded never passes with a renamed activity, and is no riddle otherwise."""
    assert breaking(report["decoded-renamed"])
    assert not breaking(report["decoded"]) or "decoded" in words(report["decoded"])


@pytest.mark.parametrize("name", ["encrypted", "encrypted-waiting"])
def test_an_encrypted_history_needs_its_codec(report: Report, name: str) -> None:
    """Without the codec that seals the payloads nobody can say what the code would do, and that is said."""
    assert report[name]
    assert "encrypted" in words(report[name]) or "codec" in words(report[name])


def test_a_run_that_has_not_begun(report: Report) -> None:
    """A run before its first workflow task has nothing to replay, but its input already has to fit today's code."""
    assert report["only-started"] == []
    assert report["unfinished-task"] == []
    assert breaking(report["only-started-required"])


def test_a_broken_history_hides_no_other(report: Report) -> None:
    """A sound history between the broken ones passes."""
    assert report["sound"] == []
