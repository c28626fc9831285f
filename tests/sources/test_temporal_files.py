"""Temporal history files: shapes, spellings, damage, and telling them from other JSON."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources.temporal import parse_history, source

RICH: list[dict[str, Any]] = json.loads(Path(__file__).with_name("temporal_history.json").read_text("utf-8"))["events"]
"""A hand-made history with most kinds of events in it."""


def whole() -> list[dict[str, Any]]:
    """RICH, for the caller to change."""
    return copy.deepcopy(RICH)


def events(*kinds: str, run: str = "run-1", **attributes: Any) -> list[dict[str, Any]]:
    """A small history: a start, then these kinds, all of them with these attributes."""
    start = {"workflowType": {"name": "Order"}, "originalExecutionRunId": run}
    made = [{"eventId": 1, "eventType": "WorkflowExecutionStarted", "workflowExecutionStartedEventAttributes": start}]
    for number, kind in enumerate(kinds, 2):
        key = f"{kind[0].lower()}{kind[1:]}EventAttributes"
        made.append({"eventId": number, "eventType": kind, key: attributes})
    return made


def read(document: Any) -> list[Log | LogError]:
    """What the source makes of a file with this content."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return list(source.read(Path("history.json"), data))


def told(document: Any) -> list[tuple[str, dict[str, Any]]]:
    """What the one log in a document says."""
    (log,) = read(document)
    assert isinstance(log, Log), log
    return [(event.event_type, event.payload) for event in log.events]


def error_of(document: Any) -> LogError:
    """The refusal of a document."""
    (error,) = read(document)
    assert isinstance(error, LogError), error
    return error


def runs_of(document: Any) -> list[str]:
    """The execution ids of the logs in a document."""
    return [item.execution_id for item in read(document) if isinstance(item, Log)]


END = "WorkflowExecutionCompleted"
TIMER = "TimerStarted"

SHAPES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "events": lambda made: {"events": made},
    "list of one batch": lambda made: [{"events": made}],
    "list of batches of one run": lambda made: [{"events": made[:5]}, {"events": made[5:]}],
    "list of pages": lambda made: [
        {"history": {"events": made[:4]}, "nextPageToken": "x"},
        {"history": {"events": made[4:]}, "nextPageToken": None},
    ],
    "history": lambda made: {"history": {"events": made}, "rawHistory": [], "nextPageToken": "", "archived": False},
    "bare list": lambda made: made,
    "descending": lambda made: {"events": made[::-1]},
    "descending list": lambda made: made[::-1],
    "descending pages": lambda made: [{"events": made[7:][::-1]}, {"events": made[:7][::-1]}],
    "view model of the UI": lambda made: [
        {**event, "attributes": {"type": "x"}, "id": event["eventId"], "name": "n", "timestamp": "2022-07-01 UTC"}
        for event in made
    ],
    "int ids": lambda made: {
        "events": [{**event, "eventId": int(event["eventId"]), "taskId": int(event["taskId"])} for event in made]
    },
    "snake_case": lambda made: {"events": [snake(event) for event in made]},
    "with defaults written out": lambda made: {
        "events": [
            {**event, "version": "0", "workerMayIgnore": False, "links": [], "userMetadata": None} for event in made
        ]
    },
}


def snake(value: Any) -> Any:
    """Message keys as protobuf's own names; the keys of maps stay."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    maps = ("details", "fields", "indexedFields", "metadata")
    return {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower(): (
            {name: snake(item) for name, item in inner.items()} if key in maps else snake(inner)
        )
        for key, inner in value.items()
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_log(shape: str) -> None:
    """However a tool wrapped, ordered or spelt a history, the log is the same, and sniffing knows it."""
    document = SHAPES[shape](whole())
    assert told(document) == told({"events": whole()})
    assert source.sniff(Path("x.json"), json.dumps(document).encode())


NUMBERS = {
    "WorkflowExecutionStarted": 1,
    "WorkflowExecutionCompleted": 2,
    "WorkflowTaskScheduled": 5,
    "WorkflowTaskStarted": 6,
    "WorkflowTaskCompleted": 7,
    "ActivityTaskScheduled": 10,
    "ActivityTaskStarted": 11,
    "ActivityTaskFailed": 13,
    "TimerStarted": 17,
    "TimerFired": 18,
    "MarkerRecorded": 25,
    "WorkflowExecutionSignaled": 26,
    "StartChildWorkflowExecutionInitiated": 29,
    "SignalExternalWorkflowExecutionInitiated": 37,
    "ExternalWorkflowExecutionSignaled": 39,
    "UpsertWorkflowSearchAttributes": 40,
    "WorkflowExecutionUpdateAccepted": 41,
    "WorkflowExecutionUpdateCompleted": 43,
    "WorkflowPropertiesModified": 46,
    "NexusOperationScheduled": 48,
}
SPELLINGS: dict[str, Callable[[str], Any]] = {
    "EVENT_TYPE_": lambda kind: "EVENT_TYPE_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).upper(),
    "Pascal": lambda kind: kind,
    "number": NUMBERS.__getitem__,
    "number as text": lambda kind: str(NUMBERS[kind]),
}


def kind_of(event: dict[str, Any]) -> str:
    """The Pascal name of an event's type, by its attributes."""
    key = next(key for key in event if key.endswith("EventAttributes"))
    return key[0].upper() + key[1:].removesuffix("EventAttributes")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_event_types_gives_the_same_log(spelling: str) -> None:
    """Event types are known by their old Pascal names, their EVENT_TYPE_ names and their numbers."""
    document = {"events": [{**event, "eventType": SPELLINGS[spelling](kind_of(event))} for event in whole()]}
    assert told(document) == told({"events": whole()})
    assert source.sniff(Path("x.json"), json.dumps(document).encode())


def test_enum_values_inside_events_are_one_in_every_spelling() -> None:
    """RETRY_STATE_…, its Pascal name and its number are one value."""
    variants = []
    for retry, timeout in (
        ("RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED", "TIMEOUT_TYPE_HEARTBEAT"),
        ("MaximumAttemptsReached", "Heartbeat"),
        (4, 4),
    ):
        made = whole()
        failed = made[8]["activityTaskFailedEventAttributes"]
        failed["retryState"] = retry
        failed["failure"]["cause"] = {"timeoutFailureInfo": {"timeoutType": timeout}}
        variants.append(told({"events": made}))
    assert variants[0] == variants[1] == variants[2]


def test_several_runs_in_one_file_are_several_logs() -> None:
    """Every run gives a log, whether lists separate them or not, in ascending or descending order."""
    one, two = events(END), events(TIMER, run="run-2")
    assert runs_of([{"events": one}, {"events": two[::-1]}]) == ["run-1", "run-2"]
    assert runs_of([*one, *two]) == ["run-1", "run-2"]
    assert runs_of([*one, *two][::-1]) == ["run-2", "run-1"]


def test_a_broken_run_does_not_spoil_the_others() -> None:
    """One run with a gap is a LogError, the other a log."""
    error, log = read([{"events": [event for event in whole() if event["eventId"] != "7"]}, {"events": events(END)}])
    assert isinstance(error, LogError)
    assert isinstance(log, Log)


def test_lines_are_temporal_event_ids() -> None:
    """An event of the log points at the history event that it comes from, as Temporal's own tools number it."""
    (log,) = read({"events": whole()})
    assert isinstance(log, Log)
    assert [event.line for event in log.events] == [1, 5, 6, 7, 9, 10, 11, 11, *range(12, 19), 18, *range(19, 22)]
    assert {event.path for event in log.events} == {"history.json"}


def without(made: list[dict[str, Any]], *ids: int) -> dict[str, Any]:
    """A document that lacks some events."""
    return {"events": [event for event in made if int(event["eventId"]) not in ids]}


def changed(position: int, **fields: Any) -> dict[str, Any]:
    """A document with an event that has other fields."""
    made = whole()
    made[position] |= fields
    return {"events": made}


BROKEN: dict[str, tuple[Any, int, str]] = {
    "no events": ({"events": []}, 0, "it has no events"),
    "no list of events": ({}, 0, "it has no events"),
    "nothing in the answer": ({"history": None}, 0, "it has no events"),
    "events that are no list": ({"events": {"a": 1}}, 0, '"events" is an object, not a list'),
    "history that is no object": ({"history": []}, 0, '"history" is a list, not an object'),
    "text": ("hello", 0, "it is text, not a history"),
    "not JSON": (b'{"events": [', 0, "it is not JSON"),
    "NaN": (b'{"events": [NaN]}', 0, "it is not JSON"),
    "nothing": (b"", 0, "it is not JSON"),
    "binary history": ({"history": None, "rawHistory": [{"data": "x"}]}, 0, "only rawHistory"),
    "too deep": (b"[" * 300 + b"]" * 300, 0, "deeper than 128 levels"),
    "far too deep": (b"[" * 100_000, 0, "deeper than 128 levels"),
    "a gap": (without(whole(), 7), 7, "event 7: this event is missing: event 6 is followed by event 8"),
    "a gap in descending order": ({"events": without(whole(), 7)["events"][::-1]}, 7, "this event is missing"),
    "a lost beginning": (without(whole(), 1, 2), 3, "event 3: the history begins with this event"),
    "a doubled event": ({"events": [*whole(), whole()[4]]}, 5, "event 5: this event id occurs twice"),
    "another first event": (changed(0, eventType="TimerFired"), 1, "has to be WorkflowExecutionStarted"),
    "an end before the end": ({"events": events(END, END)}, 2, "ends the run, and yet an event follows"),
    "an event that is no object": ({"events": [*whole(), 5]}, 0, "entry 22 of the events is a number, not an object"),
    "no event id": (changed(3, eventId=None), 0, "entry 4 of the events has no eventId"),
    "an event id that is none": (changed(3, eventId="x"), 0, "entry 4 of the events: event.eventId holds 'x'"),
    "an event id that is true": (changed(3, eventId=True), 0, "entry 4 of the events: event.eventId is a boolean"),
    "no event type": (changed(3, eventType=None), 4, "it has no eventType"),
    "an event type that is none": (changed(3, eventType=[]), 4, "eventType is a list"),
    "a time that is none": (changed(3, eventTime="yesterday"), 4, "event.eventTime holds 'yesterday'"),
    "a time outside the calendar": (changed(3, eventTime="2026-02-30T00:00:00Z"), 4, "not within the calendar"),
    "attributes that are no object": (
        changed(8, activityTaskFailedEventAttributes=[]),
        9,
        "activityTaskFailedEventAttributes is a list, not an object",
    ),
    "an end of nothing": (
        {"events": events("ActivityTaskCompleted", scheduledEventId="1")},
        2,
        "belongs to event 1, which is no open step of kind activity",
    ),
    "a timer of nothing": (
        {"events": events("TimerFired", startedEventId="9")},
        2,
        "belongs to event 9, which is no open timer",
    ),
    "a step closed as another kind": (
        {"events": events("NexusOperationScheduled", "ActivityTaskCompleted", scheduledEventId=2)},
        3,
        "belongs to event 2, which is no open step of kind activity",
    ),
    "an activity without a name": (
        {"events": events("ActivityTaskScheduled")},
        2,
        "activityTaskScheduledEventAttributes has no activityType",
    ),
    "a duration that is none": (
        {"events": events(TIMER, startToFireTimeout="soon")},
        2,
        "holds 'soon', not a duration",
    ),
    "runs that cannot be told apart": (
        {"events": [*events(TIMER)[1:], *events(END), *events(TIMER)]},
        0,
        "it holds 2 runs",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_history_is_refused_by_name(name: str) -> None:
    """A refusal says what is wrong, at which event, and what to do; nothing is raised."""
    document, line, what = BROKEN[name]
    error = error_of(document)
    assert what in error.what
    assert (error.path, error.line) == ("history.json", line)
    assert error.hint


def test_an_error_in_a_run_names_the_run() -> None:
    """Once the run is known, an error names it beside file and event."""
    error = error_of({"events": events("TimerFired", startedEventId="9")})
    assert str(error).startswith("history.json:2, execution run-1: not a readable Temporal history: event 2: ")


def test_files_are_read_from_disk_and_unpacked(tmp_path: Path) -> None:
    """Without its content at hand the source opens the file itself, gzip included; an absent one is a LogError."""
    data = json.dumps({"events": whole()}).encode()
    packed = tmp_path / "run.json.gz"
    packed.write_bytes(gzip.compress(data))
    (log,) = source.read(packed)
    assert isinstance(log, Log)
    assert log.path == str(packed)
    (error,) = source.read(tmp_path / "none.json")
    assert isinstance(error, LogError)


STRANGERS = {
    "a Loom log": '{"executionId": "a", "eventType": "EXECUTION_STARTED", "sequence": 1}',
    "OTLP": '{"resourceSpans": [{"scopeSpans": [{"spans": []}]}]}',
    "an agent's state": '{"$schemaVersion": "1.0", "current_turn": 1, "events": [], "model_responses": []}',
    "messages that quote a history": json.dumps({"messages": [{"content": json.dumps({"events": whole()})}]}),
    "a trace that embeds a history": json.dumps({"outputs": {"tool": {"events": whole()}}}),
    "messages": '[{"kind": "request", "parts": []}]',
    "a durable function": '{"Events": [{"EventType": "ExecutionStarted", "EventId": 1}]}',
    "Amazon SWF": json.dumps(
        {
            "events": [
                {
                    "eventId": 1,
                    "eventType": "WorkflowExecutionStarted",
                    "workflowExecutionStartedEventAttributes": {"taskList": {"name": "t"}},
                }
            ]
        }
    ),
    "events of something else": '{"events": [{"eventType": "click", "eventId": 1}]}',
    "an empty list among other things": '{"events": [], "spans": []}',
    "an empty list": "[]",
    "an empty object": "{}",
    "text": '"events"',
    "an endless string": '{"' + '\\"' * 30_000 + "\\",
    "an endless nest": "[" * 65_536,
    "nothing": "",
}


@pytest.mark.parametrize("name", STRANGERS)
def test_sniffing_leaves_other_json_alone(name: str) -> None:
    """JSON that is no Temporal history is not claimed, even where it quotes one."""
    assert not source.sniff(Path("x.json"), STRANGERS[name].encode())


@pytest.mark.parametrize(
    "head",
    [
        json.dumps({"events": whole()})[:300],
        json.dumps({"nextPageToken": None, "history": {"events": whole()}})[:300],
        '{"events": []}',
        '[{"events": []}]',
        '{"history": {"events": []}, "nextPageToken": ""}',
        '\ufeff {"events": [{"workflowExecutionStartedEventAttributes": {"input": {"payloads": [{"data": "AAAA',
        '{"events": [{"event_id": 1, "event_type": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"',
    ],
)
def test_sniffing_needs_only_the_beginning(head: str) -> None:
    """The first bytes tell a history, also where they end in the middle, and an empty one is claimed to be refused."""
    assert source.sniff(Path("x.json"), head.encode())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every node of a JSON document."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at the end of the path."""
    if not path:
        return value
    first, *rest = path
    changed = copy.copy(document)
    changed[first] = replaced(document[first], tuple(rest), value)
    return changed


WRONG: tuple[Any, ...] = (None, 0, -1, 2.5, 10**30, float("nan"), True, "", "x", "\x00\u2028", [], [None], {}, {"a": 1})


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_no_node_of_a_history_can_crash_the_reader(wrong: Any) -> None:
    """Whatever stands in the place of whichever part, the outcome is a log that folds, or a LogError."""
    document = {"events": whole()}
    seen = {Log: 0, LogError: 0}
    for path in places(document):
        for item in read(replaced(document, path, wrong)):
            seen[type(item)] += 1
            if isinstance(item, Log):
                assert item.state.status in {"running", "suspended", "completed"}
                assert all(isinstance(event.payload, dict) for event in item.events)
            else:
                assert str(item)
    assert seen[LogError] > 0
    assert seen[Log] > 0 or wrong != wrong  # NaN is no JSON anywhere


def test_a_cut_file_is_refused_wherever_it_is_cut() -> None:
    """A download that broke off is a LogError, never a shorter run."""
    data = json.dumps({"events": whole()}).encode()
    for end in range(0, len(data) - 1, 97):
        assert "it is not JSON" in error_of(data[:end]).what


def test_the_raw_events_can_be_counted() -> None:
    """parse_history gives each run's events as they stand, workflow tasks included."""
    (run,) = parse_history(json.dumps({"events": whole()}).encode())
    assert not isinstance(run, LogError)
    assert [event.kind for event in run.events] == [kind_of(event) for event in whole()]
