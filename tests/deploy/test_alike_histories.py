"""Temporal histories that are alike are judged once, and the report is the same as if each had been judged."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, simulate_deploy
from pytest_loom.deploy.decide import Today
from pytest_loom.deploy.simulate import simulate_share
from pytest_loom.log.share import Share
from pytest_loom.sources import LogStream, Wanted, iter_wanted
from pytest_loom.sources.temporal import source
from pytest_loom.sources.temporal.alike import HistoryTemplate
from tests.deploy.test_alike import both

HISTORY = Path(__file__).parent.parent / "sources" / "temporal_history.json"
_DATA = re.compile(r'"data": ?"([A-Za-z0-9+/=]+)"')
_IDS = re.compile(r'("(?:workflowId|originalExecutionRunId|firstExecutionRunId|runId|requestId|identity)": ?")([^"]+)"')
_TIMES = re.compile(r'"(20\d\d)(-\d\d-\d\dT[^"]{9,20}Z)"')


pytestmark = pytest.mark.usefixtures("eager")


def payloads(*values: Any) -> dict[str, Any]:
    """A Payloads message."""
    encoding = base64.b64encode(b"json/plain").decode()
    return {
        "payloads": [
            {"metadata": {"encoding": encoding}, "data": base64.b64encode(json.dumps(value).encode()).decode()}
            for value in values
        ]
    }


def history(number: int, *, order: Any = None, result: Any = "ok", over: bool = True) -> str:
    """A run of one activity: finished, or with another activity that is at work."""
    name = f"order-{number}"
    started = {
        "workflowType": {"name": "Order"},
        "workflowId": name,
        "originalExecutionRunId": f"run-{number}",
        "identity": f"{number}@host",
        "input": payloads({"order": number} if order is None else order),
    }

    def activity(task: int, kind: str, given: Any) -> tuple[str, dict[str, Any]]:
        facts = {"activityId": str(task), "activityType": {"name": kind}, "input": payloads(given)}
        return "ACTIVITY_TASK_SCHEDULED", {**facts, "workflowTaskCompletedEventId": str(task)}

    events: list[tuple[str, dict[str, Any]]] = [
        ("WORKFLOW_EXECUTION_STARTED", started),
        ("WORKFLOW_TASK_SCHEDULED", {}),
        ("WORKFLOW_TASK_STARTED", {"scheduledEventId": "2", "requestId": f"r-{number}"}),
        ("WORKFLOW_TASK_COMPLETED", {"scheduledEventId": "2", "startedEventId": "3"}),
        activity(4, "charge", number),
        ("ACTIVITY_TASK_STARTED", {"scheduledEventId": "5"}),
        ("ACTIVITY_TASK_COMPLETED", {"scheduledEventId": "5", "startedEventId": "6", "result": payloads(result)}),
        ("WORKFLOW_TASK_SCHEDULED", {}),
        ("WORKFLOW_TASK_STARTED", {"scheduledEventId": "8", "requestId": f"s-{number}"}),
        ("WORKFLOW_TASK_COMPLETED", {"scheduledEventId": "8", "startedEventId": "9"}),
        ("WORKFLOW_EXECUTION_COMPLETED", {"result": payloads(result)}) if over else activity(10, "ship", [number]),
    ]
    return json.dumps(
        {
            "events": [
                {
                    "eventId": str(place),
                    "eventTime": f"2026-03-0{1 + number % 9}T10:00:{place:02}Z",
                    "eventType": f"EVENT_TYPE_{kind}",
                    "taskId": str(1000 * number + place),
                    f"{_attributes(kind)}EventAttributes": attributes,
                }
                for place, (kind, attributes) in enumerate(events, 1)
            ]
        }
    )


def _attributes(kind: str) -> str:
    first, *rest = kind.lower().split("_")
    return first + "".join(word.capitalize() for word in rest)


def written(folder: Path, *texts: str) -> Path:
    """A folder of these histories."""
    for number, text in enumerate(texts):
        (folder / f"{number:04}.json").write_text(text, encoding="utf-8")
    return folder


ORDER = {"workflowId": "Order", "steps": {"charge": {}, "ship": {}}}


def test_finished_runs(tmp_path: Path, hits: list[str]) -> None:
    """Other ids, times, workers and values make no difference: only the first one is read the long way."""
    texts = [history(number, result={"paid": [number]}) for number in range(1, 8)]
    report = both(written(tmp_path, *texts), {"Order": ORDER}, scope="all")
    assert report.examined == 7
    assert hits == [f"run-{number}" for number in range(2, 8)]


@pytest.mark.parametrize("steps", [{"charge": {}, "ship": {}}, {"charge": {}}, {"ship": {}}, {}])
def test_runs_in_flight(tmp_path: Path, hits: list[str], steps: dict[str, Any]) -> None:
    """What is said of one is said of each by its own name, file and event."""
    texts = [history(number, over=False) for number in range(1, 6)]
    report = both(written(tmp_path, *texts), {"Order": {"workflowId": "Order", "steps": steps}})
    assert report.in_flight == 5
    assert len(hits) == 4
    assert {found.execution_id for found in report.findings} in (set(), {f"run-{number}" for number in range(1, 6)})
    assert report.ok == ("charge" in steps and "ship" in steps)


def test_values_are_held_against_todays_schemas(tmp_path: Path, hits: list[str]) -> None:
    """A run whose own input or result does not fit is told, wherever it stands among those that do."""
    number, text = {"type": "number"}, {"type": "string"}
    flow = {
        "workflowId": "Order",
        "inputSchema": {"type": "object", "properties": {"order": number}},
        "steps": {"charge": {"outputSchema": text}, "ship": {}},
    }
    texts = [
        history(n, order={"order": "x" if n == 5 else n}, result=n if n == 3 else "ok", over=False) for n in range(1, 8)
    ]
    report = both(written(tmp_path, *texts), {"Order": flow})
    assert {found.execution_id for found in report.findings} == {"run-3", "run-5"}
    assert "run-2" in hits


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ACTIVITY_TASK_STARTED", "ACTIVITY_TASK_CANCEL_REQUESTED"),
        ('"charge"', '"charges"'),
        ('"Order"', '"Orders"'),
        ('"eventId": "3"', '"eventId": "12"'),
        ('"2026-03-03T10:00:05Z"', '"2026-02-31T10:00:05Z"'),
        ('"2026-03-03T10:00:05Z"', '"2026-03-03T25:00:05Z"'),
        ('"run-2"', '"order-2"'),
        ('"run-2"', '""'),
        ('"run-2"', '"run\\n-2"'),
        ('"run-2"', '"ru\u00f1-2"'),
        ('"data": "Im9rIg=="', '"data": "Im9rIg="'),
        ('"data": "Im9rIg=="', '"data": "bm8="'),
        ('"data": "Im9rIg=="', '"data": "TmFO"'),
        ('"data": "Im9rIg=="', f'"data": "{base64.b64encode(b"[" * 200 + b"]" * 200).decode()}"'),
        ('"events"', '"event"'),
        ("}]}", "}]"),
        ("}]}", '}], "nextPageToken": "more"}'),
        ("}]}", "}]}{}"),
        ('"scheduledEventId": "5"', '"scheduledEventId": "6"'),
        ('"taskId": "2002"', '"taskId": "x"'),
    ],
)
@pytest.mark.parametrize("over", [True, False], ids=["over", "in flight"])
def test_a_history_that_is_not_alike(tmp_path: Path, old: str, new: str, over: bool) -> None:
    """Whatever else is different in it, and whatever is broken: it is judged for itself."""
    second = history(2, over=over)
    assert old in second or "2026-03-03" in old
    texts = [history(1, over=over), second.replace(old, new), history(3, over=over), history(1, over=over)]
    both(written(tmp_path, *texts), {"Order": ORDER})


def test_what_today_needs_of_patches_and_chains(tmp_path: Path) -> None:
    """Markers of patches and links to other runs are no values: their counts are those of each run."""
    base = json.loads(history(1, over=False))
    marker = {"markerName": "core_patch", "workflowTaskCompletedEventId": "4"}
    texts = []
    for number, patch in enumerate(["new-way", "new-way", "other", "new-way"]):
        one = json.loads(json.dumps(base).replace("run-1", f"run-{number}"))
        details = {**marker, "details": {"patch-data": payloads({"id": patch, "deprecated": False})}}
        one["events"].append(
            {
                "eventId": "12",
                "eventTime": "2026-03-02T10:00:12Z",
                "eventType": "EVENT_TYPE_MARKER_RECORDED",
                "taskId": "12",
                "markerRecordedEventAttributes": details,
            }
        )
        texts.append(json.dumps(one))
    linked = []
    for number in (7, 8):  # with no input, so that nothing is read that tells them apart
        one = json.loads(history(number, over=False))
        started = one["events"][0]["workflowExecutionStartedEventAttributes"]
        del started["input"]
        linked.append(json.dumps(one).replace('"workflowId"', '"continuedExecutionRunId": "run-1", "workflowId"'))
    report = both(written(tmp_path, *texts, *linked), {"Order": ORDER})
    assert report.lineage.linked == 2
    assert {key[1]: runs.count for key, runs in report.lineage.patches.items()} == {"new-way": 3, "other": 1}


def _share_of(folder: Path, share: Share, wanted: Wanted | None) -> Iterator[Any]:
    for file in sorted(folder.glob("*.json")):
        yield from iter_wanted(file, wanted, share)


def test_shares_of_a_folder(tmp_path: Path, hits: list[str]) -> None:
    """Each run is in one share, alike or not."""
    folder = written(tmp_path, *(history(number, over=False) for number in range(1, 12)))
    whole = simulate_deploy(folder, {"Order": ORDER})
    hits.clear()
    runs: list[str] = []
    for number in range(3):
        stream = LogStream(functools.partial(_share_of, folder, Share(number, 3)))
        part = simulate_share(stream, Today({"Order": ORDER}), contract=None, scope="all", policy=None, checks=())
        runs += [run.execution_id for run in part.runs]
    assert sorted(runs) == sorted(run.execution_id for run in whole.runs)
    assert len(hits) == 8


def copies(text: str) -> Iterator[str]:
    """The history, and as it would be for other orders: other ids and times, and values of the same kind."""
    yield text
    yield _copy(text, 1, values=False)
    yield _copy(text, 2)
    yield _copy(text, 3)


def _copy(text: str, number: int, *, values: bool = True) -> str:
    other = _IDS.sub(lambda match: f'{match[1]}{match[2]}-{number}"', text)
    other = _TIMES.sub(lambda match: f'"{int(match[1]) + number}{match[2]}"', other)
    return _DATA.sub(lambda match: f'"data": "{_another(match[1], number)}"', other) if values else other


def _another(data: str, number: int) -> str:
    try:
        text = base64.b64decode(data, validate=True).decode()
    except ValueError:
        return data
    more = re.sub(r"(?<![\w.\\-])([1-9][0-9]{0,5})(?![\w.])", lambda match: str(int(match[1]) + number), text)
    return base64.b64encode(more.encode()).decode()


def contracts(log: Log) -> Iterator[dict[str, Any]]:
    """Contracts of the flow of a run: all of its steps, half of them, and one whose schemas fit no value."""
    steps = list(dict.fromkeys(event.payload["stepId"] for event in log.events if event.event_type == "STEP_STARTED"))
    for names in (steps, steps[::2]):
        yield {"workflowId": log.workflow_id, "steps": {name: {} for name in names}}
    whole = {"type": "integer"}
    strict = {name: {"outputSchema": whole} for name in steps}
    yield {"workflowId": log.workflow_id, "inputSchema": whole, "steps": strict}


def test_the_corpus(cases: Path, tmp_path: Path, hits: list[str]) -> None:
    """Real histories, copied under other names and with other values: the same report, against any contract."""
    files = sorted((cases / "corpus" / "temporal").rglob("*.json"))
    taken = 0
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        found = list(source.read(file))
        if len(text) > 15_000 or len(found) != 1 or not isinstance(found[0], Log):
            continue
        folder = tmp_path / str(taken)
        folder.mkdir()
        taken += 1
        written(folder, *copies(text))
        for flow in contracts(found[0]):
            both(folder, {found[0].workflow_id: flow})
    assert taken > 60
    assert len(hits) > taken


def test_a_real_history_is_taken_apart(hits: list[str]) -> None:
    """A template has holes for what code was given and gave."""
    text = HISTORY.read_bytes()
    (log,) = source.read(HISTORY)
    assert isinstance(log, Log)
    template = HistoryTemplate.of(text, log, over=False)
    assert template is not None
    assert template.holes() == {(2, "input"), (11, "input"), (18, "output")}
