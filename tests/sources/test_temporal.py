"""What a Temporal history means in Loom's words: the rules of temporal_rules.txt, and what needs more than a rule."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources.temporal import source

Spec = tuple[str, dict[str, Any]]
"""One event of a history: its kind and its attributes."""

START: Spec = (
    "WorkflowExecutionStarted",
    {"workflowType": {"name": "Order"}, "originalExecutionRunId": "run-1", "workflowId": "order-7"},
)
TASK: tuple[Spec, ...] = (
    ("WorkflowTaskScheduled", {"attempt": 1}),
    ("WorkflowTaskStarted", {"scheduledEventId": "2"}),
    ("WorkflowTaskCompleted", {"scheduledEventId": "2", "startedEventId": "3"}),
)
ACTIVITY: Spec = ("ActivityTaskScheduled", {"activityId": "a1", "activityType": {"name": "charge"}})
TIMER: Spec = ("TimerStarted", {"timerId": "t1", "startToFireTimeout": "90s"})
SIGNAL: Spec = ("WorkflowExecutionSignaled", {"signalName": "s"})
DONE: Spec = ("WorkflowExecutionCompleted", {})
FAILED = {"message": "io", "applicationFailureInfo": {"type": "IOError"}}


def b64(data: str | bytes) -> str:
    """Bytes as protobuf JSON has them."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def encoded(encoding: str, data: str | bytes | None = None, **metadata: str) -> dict[str, Any]:
    """One Payload message."""
    message: dict[str, Any] = {
        "metadata": {name: b64(text) for name, text in {"encoding": encoding, **metadata}.items()}
    }
    return message if data is None else {**message, "data": b64(data)}


def plain(value: Any) -> dict[str, Any]:
    """A json/plain Payload."""
    return encoded("json/plain", json.dumps(value))


def many(*values: Any) -> dict[str, Any]:
    """A Payloads message of json/plain values."""
    return {"payloads": [plain(value) for value in values]}


def marker(name: str, details: dict[str, Any], failure: Any = None) -> Spec:
    """A MarkerRecorded event."""
    return ("MarkerRecorded", {"markerName": name, "details": details, "failure": failure})


def events(*specs: Spec) -> list[dict[str, Any]]:
    """HistoryEvents numbered from 1, one a second, as today's tools spell them."""
    return [
        {
            "eventId": str(number),
            "eventTime": f"2026-01-01T00:00:{number:02d}Z",
            "eventType": "EVENT_TYPE_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).upper(),
            f"{kind[0].lower()}{kind[1:]}EventAttributes": attributes,
        }
        for number, (kind, attributes) in enumerate(specs, 1)
    ]


def log_of(document: Any, name: str = "history.json") -> Log:
    """The one log in a file with this content."""
    (log,) = source.read(Path(name), json.dumps(document).encode())
    if isinstance(log, LogError):
        raise log
    return log


def told(*specs: Spec) -> list[Spec]:
    """What the log says about a history of START and these events, after its first event."""
    log = log_of({"events": events(START, *specs)})
    return [(event.event_type, event.payload) for event in log.events[1:]]


def expand(value: Any) -> Any:
    """The messages that a rule's shorthands stand for."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$payloads" in value:
        return many(*value["$payloads"])
    return plain(value["$payload"]) if "$payload" in value else {key: expand(item) for key, item in value.items()}


def read_rules() -> dict[str, tuple[list[Spec], list[Spec]]]:
    """The rules of temporal_rules.txt: name to history events and log events."""
    rules: dict[str, tuple[list[Spec], list[Spec]]] = {}
    for line in Path(__file__).with_name("temporal_rules.txt").read_text("utf-8").splitlines():
        sign, _, rest = line.partition(" ")
        if sign == "#":
            history, log = rules[rest] = ([], [])
        elif sign in ("<", ">"):
            kind, _, attributes = rest.partition(" {")
            spec = (kind, json.loads("{" + attributes if attributes else "{}"))
            (history if sign == "<" else log).append(spec)
    return rules


RULES = read_rules()
ENDS = ("Failed", "TimedOut", "Canceled", "Terminated", "ContinuedAsNew")


@pytest.mark.parametrize("name", RULES)
def test_each_history_event_is_told_in_loom_words(name: str) -> None:
    """Every kind of history event becomes exactly the log events that say the same."""
    history, expected = RULES[name]
    specs = [(kind, expand(attributes)) for kind, attributes in history]
    if specs[-1][0] not in {f"WorkflowExecution{how}" for how in ENDS}:
        specs, expected = [*specs, DONE], [*expected, ("EXECUTION_COMPLETED", {"output": None})]
    assert told(*specs) == expected


def test_an_encrypted_marker_is_kept_whole_and_said() -> None:
    """A marker whose details cannot be read stays as an application event, with a notice."""
    secret = {"payloads": [encoded("binary/encrypted", b"\x01\x02")]}
    log = log_of({"events": events(START, marker("LocalActivity", {"data": secret, "result": secret}), DONE)})
    opaque = {"$type": "binary/encrypted", "$via": "temporal.payload", "$value": b64(b"\x01\x02")}
    assert log.events[1].payload == {"name": "LocalActivity", "details": {"data": opaque, "result": opaque}}
    assert "event 2: the LocalActivity marker cannot be read" in log.notices[0]


def test_a_local_activity_that_backs_off_is_one_step_with_two_tries() -> None:
    """A try repeated after a timer belongs to the same step, so the fold counts two attempts of one frame."""
    first = {"activity_type": "la", "activity_id": "1", "attempt": 1, "backoff": {"seconds": 5, "nanos": 0}}
    second = {"activity_type": "la", "activity_id": "2", "attempt": 2, "backoff": None}
    log = log_of(
        {
            "events": events(
                START,
                marker("core_local_activity", {"data": many(first)}, FAILED),
                TIMER,
                ("TimerFired", {"timerId": "t1", "startedEventId": "3"}),
                marker("core_local_activity", {"data": many(second), "result": many("ok")}),
                DONE,
            )
        }
    )
    assert [event.payload["willRetry"] for event in log.events if event.event_type == "STEP_FAILED"] == [True]
    assert [(frame.key, frame.attempts, frame.output) for frame in log.state.frames.values()] == [("la", 2, "ok")]


def test_timers_that_run_side_by_side_end_each_for_itself() -> None:
    """A timer that fires or is canceled ends its own wait and no other."""
    other = ("TimerStarted", {"timerId": "t2", "startToFireTimeout": "1s"})
    canceled = ("TimerCanceled", {"timerId": "t1", "startedEventId": "2"})
    state = log_of({"events": events(START, TIMER, other, canceled)}).state
    assert [(wait.correlation_key, wait.timeout_ms) for wait in state.suspensions] == [("t2", 1000)]


def test_unpausing_a_run_that_was_not_paused_ends_no_wait() -> None:
    """A stray unpause is told, and an open timer stays open."""
    log = log_of({"events": events(START, TIMER, ("WorkflowExecutionUnpaused", {}))})
    assert log.events[-1].event_type == "WorkflowExecutionUnpaused"
    assert [wait.correlation_key for wait in log.state.suspensions] == ["t1"]


def test_identity_input_and_manifest_of_a_run() -> None:
    """The run id is the execution, the workflow type the flow; the manifest says what the worker's tasks recorded."""
    start = {
        **START[1],
        "input": many(1),
        "firstExecutionRunId": "run-0",
        "continuedExecutionRunId": "run-0",
        "parentWorkflowExecution": {"workflowId": "parent", "runId": "p"},
        "taskQueue": {"name": "q", "kind": "Normal"},
        "workflowRunTimeout": "0s",
        "workflowTaskTimeout": "10.000s",
        "retryPolicy": {"backoffCoefficient": 2.0, "maximumAttempts": 3, "initialInterval": "0.000000001s"},
        "attempt": 1,
        "identity": "me",
        "memo": {"fields": {"m": plain(1)}},
        "searchAttributes": {"indexedFields": {"S": plain("s")}},
        "lastCompletionResult": many(0),
    }
    first = ("WorkflowTaskCompleted", {"sdkMetadata": {"sdkName": "temporal-python", "langUsedFlags": [2]}})
    second = (
        "WorkflowTaskCompleted",
        {
            "binaryChecksum": "old",
            "deploymentVersion": {"deploymentName": "shop", "buildId": "b2"},
            "versioningBehavior": "VERSIONING_BEHAVIOR_PINNED",
            "sdkMetadata": {"sdkVersion": "1.35.0", "coreUsedFlags": [2, 1], "langUsedFlags": [1]},
        },
    )
    log = log_of({"events": events(("WorkflowExecutionStarted", start), *TASK[:2], first, *TASK[:2], second, DONE)})
    assert (log.execution_id, log.workflow_id, log.source, log.engine) == ("run-1", "Order", "temporal", "journal")
    assert log.events[0].payload == {
        "input": 1,
        "manifest": {
            "runtimeBuild": "b2",
            "deployment": "shop",
            "versioningBehavior": "Pinned",
            "pinnedTo": "shop:b2",
            "sdk": {
                "name": "temporal-python",
                "version": "1.35.0",
                "coreUsedFlags": [1, 2],
                "langUsedFlags": [1, 2],
            },
        },
        "temporal": {
            "workflowId": "order-7",
            "runId": "run-1",
            "firstExecutionRunId": "run-0",
            "continuedExecutionRunId": "run-0",
            "parentWorkflowId": "parent",
            "parentRunId": "p",
            "attempt": 1,
            "historyLength": 8,
            "seenTo": 7,
            "options": {
                "taskQueue": "q",
                "workflowTaskTimeout": "10s",
                "retryPolicy": {"initialInterval": "0.000000001s", "backoffCoefficient": 2, "maximumAttempts": 3},
            },
            "memo": {"m": 1},
            "searchAttributes": {"S": "s"},
            "lastCompletionResult": 0,
        },
    }


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"originalExecutionRunId": "r", "workflowId": "w"}, "r"),
        ({"workflowId": "w"}, "w"),
        ({}, "my.run"),
    ],
)
def test_the_execution_id_falls_back_to_workflow_id_and_file_name(attributes: dict[str, Any], expected: str) -> None:
    """Histories without a run id are told by workflow id, else by the name of their file."""
    document = {"events": events(("WorkflowExecutionStarted", attributes))}
    log = log_of(document, "logs/my.run.json.gz")
    assert log.execution_id == expected
    assert log.workflow_id == "unknown"
    assert log.notices == ("the history does not name its workflow type",)


def test_a_reset_run_names_its_own_run_id() -> None:
    """A reset run keeps the first run's id as its key; the id that the reset gave it is told beside that."""
    first = ("WorkflowTaskFailed", {"cause": "ResetWorkflow", "baseRunId": "run-1", "newRunId": "run-5"})
    reset = ("WorkflowTaskFailed", {"cause": "ResetWorkflow", "baseRunId": "run-5", "newRunId": "run-9"})
    log = log_of({"events": events(START, *TASK[:2], first, *TASK[:2], reset, DONE)})
    assert log.execution_id == "run-1"
    assert log.events[0].payload["temporal"]["runId"] == "run-9"
    assert log.events[2].payload == {"cause": "ResetWorkflow", "baseRunId": "run-5", "newRunId": "run-9"}


PAYLOADS: dict[str, tuple[Any, Any]] = {
    "json": (plain({"a": [1, 2.5, None]}), {"a": [1, 2.5, None]}),
    "json with a newline after the encoding": (encoded("json/plain\n", "1"), 1),
    "json without base64 padding": ({"metadata": {"encoding": "anNvbi9wbGFpbg"}, "data": "MQ"}, 1),
    "url-safe base64": (
        {"metadata": {"encoding": b64("json/plain")}, "data": base64.urlsafe_b64encode(b'"??>>"').decode()},
        "??>>",
    ),
    "null": (encoded("binary/null"), None),
    "null with a newline": (encoded("binary/null\n"), None),
    "bytes": (
        encoded("binary/plain", b"\xff\x00"),
        {"$type": "binary/plain", "$via": "temporal.payload", "$value": b64(b"\xff\x00")},
    ),
    "protobuf": (
        encoded("json/protobuf", "{}", messageType="a.B"),
        {"$type": "json/protobuf", "$via": "temporal.payload", "$value": b64("{}"), "messageType": "a.B"},
    ),
    "encrypted": (
        {
            "metadata": {"encoding": b64("binary/encrypted"), "encryption-key-id": b64("k1")},
            "data": b64(b"\x00\x01"),
        },
        {
            "$type": "binary/encrypted",
            "$via": "temporal.payload",
            "$value": b64(b"\x00\x01"),
            "encryption-key-id": "k1",
        },
    ),
    "stored elsewhere": (
        {**encoded("json/external", "k"), "externalPayloads": [{"sizeBytes": "12"}]},
        {
            "$type": "json/external",
            "$via": "temporal.payload",
            "$value": b64("k"),
            "externalPayloads": [{"sizeBytes": 12}],
        },
    ),
    "JSON that is none": (
        encoded("json/plain", "NaN"),
        {"$type": "json/plain", "$via": "temporal.payload", "$value": b64("NaN")},
    ),
    "JSON that is too deep": (
        encoded("json/plain", "[" * 200 + "]" * 200),
        {"$type": "json/plain", "$via": "temporal.payload", "$value": b64("[" * 200 + "]" * 200)},
    ),
    "no data": (
        encoded("binary/protobuf", None, messageType="a.B"),
        {"$type": "binary/protobuf", "$via": "temporal.payload", "$value": "", "messageType": "a.B"},
    ),
    "decoded by the UI": ({"ID": "x", "n": [1]}, {"ID": "x", "n": [1]}),
    "decoded by the UI, text": ("1656707332859456300", "1656707332859456300"),
    "decoded by the UI, data only": ({"metadata": {"encoding": b64("json/plain")}, "data": {"a": 1}}, {"a": 1}),
    "decoded by the UI, text data only": (
        {"metadata": {"encoding": b64("json/plain")}, "data": "hi there"},
        "hi there",
    ),
    "decoded by the UI, metadata too": ({"metadata": {"encoding": "json/plain"}, "data": "hello"}, "hello"),
    "value that only looks like a payload": (
        {"metadata": {"a": "b"}, "data": "c"},
        {"metadata": {"a": "b"}, "data": "c"},
    ),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_payloads_are_decoded_or_kept_whole(name: str) -> None:
    """json/plain is decoded, null is null, everything else keeps its encoding and all of its bytes."""
    message, expected = PAYLOADS[name]
    ended = ("WorkflowExecutionCompleted", {"result": {"payloads": [message]}})
    assert told(ended) == [("EXECUTION_COMPLETED", {"output": expected})]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({}, None),
        ({"payloads": None}, None),
        ({"payloads": [plain(1)]}, 1),
        ({"payloads": [encoded("binary/null")]}, None),
        ({"payloads": [plain(1), plain(2)]}, {"args": [1, 2], "kwargs": {}}),
        ([1, 2], {"args": [1, 2], "kwargs": {}}),
        ({"decoded": "whole"}, {"decoded": "whole"}),
    ],
)
def test_arguments_are_written_like_those_of_native_flows(given: Any, expected: Any) -> None:
    """No argument is null, one is itself, several are args and kwargs."""
    signal = ("WorkflowExecutionSignaled", {"signalName": "s", "input": given})
    assert told(signal, DONE)[0][1]["input"] == expected


def test_failure_attributes_hidden_in_a_payload_are_found() -> None:
    """Where message and stack trace were encoded but not encrypted, they are what the error says."""
    hidden = {"message": "real", "stack_trace": "here"}
    failure = {
        "message": "Encoded failure",
        "encodedAttributes": plain(hidden),
        "applicationFailureInfo": {"type": "E"},
    }
    payload = told(("WorkflowExecutionFailed", {"failure": failure}))[-1][1]
    assert payload["error"] == {"type": "E", "message": "real"}
    assert payload["failure"] == {"type": "E", "message": "real", "stackTrace": "here"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z"),
        ("2026-01-01T00:00:01.000Z", "2026-01-01T00:00:01Z"),
        ("2026-01-01T00:00:01.264854600Z", "2026-01-01T00:00:01.264854600Z"),
        ("2026-01-01T00:00:01.5+01:00", "2025-12-31T23:00:01.500Z"),
        ({"seconds": "1767225601", "nanos": 5000}, "2026-01-01T00:00:01.000005Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        (None, 0),
    ],
)
def test_times_are_written_as_protobuf_writes_them(written: Any, expected: Any) -> None:
    """A time keeps its nanoseconds and is UTC; a history without times has none to give."""
    made = events(START, DONE)
    made[0]["eventTime"] = written
    event = log_of({"events": made}).events[0]
    assert event.timestamp == expected
    assert isinstance(event.time_ms, float)


def test_summaries_for_people_are_kept() -> None:
    """What the code said about a step or a timer in its user metadata stays with it."""
    made = events(START, TIMER)
    made[1]["userMetadata"] = {"summary": plain("wait for stock")}
    assert log_of({"events": made}).events[1].payload["summary"] == "wait for stock"


def test_an_unknown_event_is_kept_and_said() -> None:
    """An event of a newer server is an application event; one that must not be ignored is noticed, too."""
    new = ("BrandNewThing", {"someId": "7", "kind": "TASK_QUEUE_KIND_STICKY", "empty": "", "identity": "me"})
    made = events(START, new, new, DONE)
    made[1]["workerMayIgnore"] = True
    made[2]["eventType"] = 99
    log = log_of({"events": made})
    attributes = {"someId": 7, "kind": "Sticky"}
    assert [(event.event_type, event.payload) for event in log.events[1:3]] == [
        ("BrandNewThing", {"attributes": attributes, "workerMayIgnore": True}),
        ("BrandNewThing", {"attributes": attributes, "workerMayIgnore": False}),
    ]
    assert len(log.notices) == 1
    assert "event 3 is of the kind BrandNewThing" in log.notices[0]


def test_an_unknown_event_cannot_forge_a_kernel_event() -> None:
    """An event type that reads like one of the log's own kinds is told apart."""
    made = events(START, ("X", {}), DONE)
    made[1]["eventType"] = "STEP_Completed"
    assert log_of({"events": made}).events[1].event_type == "temporal:STEP_Completed"


OPEN_ENDS: dict[str, tuple[list[Spec], str, list[str]]] = {
    "waits after its workflow task": ([*TASK], "suspended", ["*"]),
    "has not even a workflow task": ([], "suspended", ["*"]),
    "has a workflow task in flight": ([*TASK[:2]], "running", []),
    "has a workflow task that failed": ([*TASK[:2], ("WorkflowTaskFailed", {"cause": 1})], "running", []),
    "runs an activity": ([*TASK, ACTIVITY], "running", []),
    "sleeps": ([*TASK, TIMER], "suspended", ["TimerFired"]),
    "sleeps while an activity runs": ([*TASK, TIMER, ACTIVITY], "suspended", ["TimerFired"]),
    "has unread mail": ([*TASK, SIGNAL], "running", []),
    "has an unread result": ([*TASK, ACTIVITY, ("ActivityTaskCompleted", {"scheduledEventId": "5"})], "running", []),
    "has read its mail": ([SIGNAL, *TASK], "suspended", ["*"]),
    "canceled its timer": ([*TASK, TIMER, ("TimerCanceled", {"startedEventId": "5"})], "suspended", ["*"]),
    "answered an update": ([*TASK, ("WorkflowExecutionUpdateAccepted", {})], "suspended", ["*"]),
    "is paused": ([*TASK, ("WorkflowExecutionPaused", {})], "suspended", ["WorkflowExecutionUnpaused"]),
}


@pytest.mark.parametrize("name", OPEN_ENDS)
def test_a_run_that_is_not_over_says_what_it_waits_for(name: str) -> None:
    """An idle run is suspended; one with work or news for its code is running."""
    specs, status, waits = OPEN_ENDS[name]
    state = log_of({"events": events(START, *specs)}).state
    assert (state.status, [wait.on for wait in state.suspensions]) == (status, waits)


def test_a_delayed_start_waits_for_its_time() -> None:
    """A run that is started with a delay (cron, retry) is asleep until its first workflow task."""
    start = ("WorkflowExecutionStarted", {**START[1], "firstWorkflowTaskBackoff": "60s"})
    (wait,) = log_of({"events": events(start)}).state.suspensions
    assert (wait.on, wait.kind, wait.timeout_ms) == ("WorkflowTaskScheduled", "timer", 60000)


def test_a_first_page_does_not_claim_to_know_the_end() -> None:
    """A file that says that more follows is not taken for a run that waits."""
    log = log_of({"history": {"events": events(START, *TASK)}, "nextPageToken": "abc"})
    assert log.state.status == "running"
    assert log.notices == ("the file is one page of a longer history: what follows is not in it",)
