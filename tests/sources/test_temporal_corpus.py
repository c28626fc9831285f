"""The Temporal source on real histories of many SDKs, servers and years: every file, against the corpus's counts."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import diff_runs
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources import load_logs
from pytest_loom.sources.temporal import Run, parse_history, source

REFUSED: dict[str, str] = {}
"""Files that are rightly refused, with the reason; none so far."""

STATUS = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "failed",
    "canceled": "cancelled",
    "terminated": "cancelled",
    "continued_as_new": "continued",
}

Row = tuple[Path, bytes, dict[str, str]]


@pytest.fixture(scope="module")
def corpus(cases: Path) -> Path:
    """The folder of real histories."""
    return cases / "corpus" / "temporal"


@pytest.fixture(scope="module")
def rows(corpus: Path) -> list[Row]:
    """Every history file with its content, decompressed, and its line of the manifest."""
    found: list[Row] = []
    with (corpus / "MANIFEST.tsv").open(encoding="utf-8") as manifest:
        for row in csv.DictReader(manifest, delimiter="\t"):
            path = corpus / row["repo"].split("/")[1] / row["path"]
            path = path if path.exists() else path.with_suffix("")  # upstream packs it, the corpus does not always
            data = path.read_bytes()
            found.append((path, gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data, row))
    return found


def one(path: Path, data: bytes) -> Log:
    """The one log in a file."""
    (log,) = source.read(path, data)
    if isinstance(log, LogError):
        raise log
    return log


def said(log: Log) -> list[tuple[str, dict[str, Any]]]:
    """All that a log says, less identity and time."""
    return [(event.event_type, event.payload) for event in log.events]


def test_every_file_is_read(corpus: Path, rows: list[Row]) -> None:
    """Each history file of the corpus is found, sniffed and read as one log; refusals are named above."""
    listed = {path for path, _, _ in rows}
    found = {path for path in corpus.rglob("*") if path.is_file() and path.name.endswith((".json", ".json.gz"))}
    assert found == listed
    refused = []
    for path, data, _ in rows:
        assert source.sniff(path, data[: 64 * 1024]), path
        refused += [str(error) for error in source.read(path, data) if isinstance(error, LogError)]
    print(f"walked {len(rows)} Temporal histories, {len(refused)} refused")
    assert len(refused) == len(REFUSED), refused
    assert rows


def test_the_registry_reads_the_folder(corpus: Path, rows: list[Row]) -> None:
    """load_logs on the folder gives a Temporal log for every file."""
    logs = list(load_logs(corpus))
    assert len(logs) == len(rows)
    assert {log.source for log in logs} == {"temporal"}


def counts(log: Log) -> dict[str, int]:
    """What the manifest counts, counted from the log's events."""
    steps = Counter(payload["kind"] for kind, payload in said(log) if kind == "STEP_STARTED")
    waits = Counter(payload["kind"] for kind, payload in said(log) if kind == "EXECUTION_SUSPENDED")
    kinds = Counter(kind for kind, _ in said(log))
    arrived = Counter(
        payload.get("kind") for kind, payload in said(log) if not kind.startswith(("STEP_", "EXECUTION_"))
    )
    return {
        "acts": steps["activity"],
        "timers": waits["timer"],
        "signals": arrived["signal"],
        "updates": arrived["update"],
        "children": steps["childWorkflow"],
        "can": kinds["EXECUTION_CONTINUED"],
        "nexus": steps["nexus"],
        "wftfail": kinds["WorkflowTaskFailed"],
    }


def test_counts_are_those_of_the_manifest(rows: list[Row]) -> None:
    """Events, activities, timers, signals, updates, children, continuations, Nexus and failed tasks are all there."""
    wrong = []
    for path, data, row in rows:
        (run,) = parse_history(data)
        assert isinstance(run, Run), path
        got = {"events": len(run.events), **counts(one(path, data))}
        wrong += [f"{path}: {name} {value}, not {row[name]}" for name, value in got.items() if str(value) != row[name]]
    assert wrong == []


def expected_status(recorded: str) -> str:
    """The folded status for a status of the manifest, such as ``completed`` or ``open[timer:1,activity:2]``."""
    if not recorded.startswith("open["):
        return STATUS[recorded]
    return "suspended" if re.search(r"timer|signal/condition", recorded) else "running"


def test_the_folded_status_is_what_the_last_events_say(rows: list[Row]) -> None:
    """A run that ended folds to how it ended, an open one to running or to suspended by what is open."""
    wrong = []
    for path, data, row in rows:
        log = one(path, data)
        if log.state.status != expected_status(row["status"]):
            wrong.append(f"{path}: {log.state.status}, recorded as {row['status']}")
        assert log.workflow_id == (row["workflow"] or "unknown"), path
    assert wrong == []


# A writer of our own: the same histories, written in another way.

PREFIXES = {
    "retryState": "RETRY_STATE_",
    "timeoutType": "TIMEOUT_TYPE_",
    "parentClosePolicy": "PARENT_CLOSE_POLICY_",
    "workflowIdReusePolicy": "WORKFLOW_ID_REUSE_POLICY_",
    "initiator": "CONTINUE_AS_NEW_INITIATOR_",
    "kind": "TASK_QUEUE_KIND_",
    "cause": "WORKFLOW_TASK_FAILED_CAUSE_",
    "eventType": "EVENT_TYPE_",
}
USER_DATA = ("payloads", "fields", "indexedFields", "details", "data", "metadata", "input", "result")
ABSENT: tuple[Any, ...] = (None, "", "0s", False)


def respelt(value: str, prefix: str) -> str:
    """The other spelling of an enum value."""
    if value.startswith(prefix):
        return "".join(word.capitalize() for word in value.removeprefix(prefix).split("_"))
    return prefix + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", value).upper()


def rewritten(value: Any, rng: random.Random, key: str = "", event: str = "") -> Any:
    """A message as another tool would write it: other key order, enum spelling and id types, defaults in or out."""
    if isinstance(value, dict):
        if key in USER_DATA:
            return {name: rewritten_payload(value[name]) for name in shuffled(value, rng)}
        kept = {name: inner for name, inner in value.items() if not any(inner is absent for absent in ABSENT)}
        kept = {name: inner for name, inner in kept.items() if inner not in ("", "0s")}
        if key.endswith("EventAttributes"):
            kept |= {"identity": None, "header": {}, "retryPolicy": kept.get("retryPolicy")}
        return {name: rewritten(kept[name], rng, name, event or key) for name in shuffled(kept, rng)}
    if isinstance(value, list):
        return value if key in USER_DATA else [rewritten(item, rng, key, event) for item in value]
    if key in PREFIXES and isinstance(value, str) and (key != "cause" or event.startswith("workflowTaskFailed")):
        return respelt(value, PREFIXES[key])
    if key in ("eventId", "taskId", "version", "attempt") or key.endswith("EventId"):
        return str(value) if isinstance(value, int) else int(value)
    return value


def rewritten_payload(value: Any) -> Any:
    """A Payload with its keys turned round and its base64 in the alphabet for URLs, less the padding."""
    if isinstance(value, dict) and isinstance(value.get("data"), str) and "metadata" in value:
        raw = base64.b64decode(value["data"])
        return {"data": base64.urlsafe_b64encode(raw).decode().rstrip("="), "metadata": value["metadata"]}
    return value


def shuffled(value: dict[str, Any], rng: random.Random) -> list[str]:
    """The keys in another order."""
    return rng.sample(sorted(value), len(value))


def raw_events(document: Any) -> list[dict[str, Any]]:
    """The events of a corpus file, whatever its shape."""
    if isinstance(document, list):
        return raw_events(document[0]) if "events" in document[0] else document
    return raw_events(document["history"]) if "history" in document else document["events"]


def other_shapes(events: list[dict[str, Any]]) -> Iterator[Any]:
    """The same events wrapped in every way."""
    half = len(events) // 2
    yield {"events": events}
    yield [{"events": events}]
    yield [{"events": events[:half]}, {"events": events[half:]}]
    yield {"nextPageToken": None, "history": {"events": events[::-1]}}
    yield events[::-1]


def test_the_same_history_written_by_another_tool_gives_the_same_log(rows: list[Row]) -> None:
    """Key order, enum spelling, id types, defaults, shape and order of events make no difference at all."""
    rng = random.Random(20)
    shapes = 0
    for path, data, _ in rows:
        log = one(path, data)
        events = [rewritten(event, rng) for event in raw_events(json.loads(data))]
        for document in other_shapes(events):
            again = one(path, json.dumps(document).encode())
            assert said(again) == said(log), path
            assert [event.timestamp for event in again.events] == [event.timestamp for event in log.events], path
            assert again.execution_id == log.execution_id
            shapes += 1
        assert diff_runs(log, again, compare="all") == [], path
    print(f"compared {shapes} rewritten histories")
    assert shapes == 5 * len(rows)


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: its holder and its key."""
    found: list[tuple[Any, Any]] = []
    level = [value]
    while level:
        holder = level.pop()
        for key, inner in holder.items() if isinstance(holder, dict) else enumerate(holder):
            found.append((holder, key))
            if isinstance(inner, dict | list):
                level.append(inner)
    return found


def test_no_damage_to_a_real_history_crashes_the_reader(rows: list[Row]) -> None:
    """With any one node replaced or taken away, the outcome is a log that folds, or a LogError."""
    rng = random.Random(7)
    outcomes: Counter[str] = Counter()
    for path, data, _ in rows:
        for _ in range(4):
            document = json.loads(data)
            holder, key = rng.choice(nodes(document))
            wrong: Any = rng.choice(
                [None, 0, -7, 1.5, 10**25, True, "", "x", [], [{}], {}, {"payloads": 5}, "take away"]
            )
            if wrong == "take away":
                del holder[key]
            else:
                holder[key] = wrong
            for item in source.read(path, json.dumps(document).encode()):
                outcomes[type(item).__name__] += 1
                if isinstance(item, Log):
                    assert item.state.events == len(item.events)
    print(f"outcomes of damage: {dict(outcomes)}")
    assert outcomes["Log"] > 50
    assert outcomes["LogError"] > 50
