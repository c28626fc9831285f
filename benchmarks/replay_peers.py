"""The work that test_replay.py replays, and the peers that replay it: each records into a file and replays from it.

A peer is used as its own documentation shows it, in the fastest form it offers: plain functions rather than
coroutines, JSON rather than YAML, no sandbox. None is needed: what is not installed is skipped by name.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

Work = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class World:
    """What the live function and its caller do: changed by a test to see what a replay notices."""

    calls: int = 0  # how often the live function was called
    live: int = 0  # what live answers have on top of the recorded ones
    changed: int = -1  # the effect whose arguments are other than the recorded ones


WORLD = World()


def arguments(number: int) -> dict[str, Any]:
    """What an effect is asked: about 350 bytes of JSON, other for every number."""
    amount = 4_900 if number != WORLD.changed else 490_000
    return {
        "order": f"order-{number:08d}",
        "customer": {
            "id": number,
            "name": "Ada Lovelace",
            "address": {"street": "12 Mill Lane", "city": "London", "zip": "W1"},
        },
        "lines": [
            {"sku": f"sku-{number}-1", "count": 2, "price": amount, "tags": ["fragile", "gift"]},
            {"sku": f"sku-{number}-2", "count": 1, "price": 1_250, "tags": []},
        ],
        "options": {"currency": "EUR", "express": True, "note": None, "discount": 0.125, "channel": "web"},
    }


def answer(number: int) -> dict[str, Any]:
    """What an effect gives: about 350 bytes of JSON."""
    return {
        "status": "authorised",
        "score": number + WORLD.live,
        "reference": f"ref-{number:08d}",
        "amount": {"value": 11_050, "currency": "EUR"},
        "reasons": [
            {"code": "address", "weight": 0.25, "text": "the address was seen in orders before"},
            {"code": "amount", "weight": 0.5, "text": "the amount is usual for this customer"},
        ],
        "usage": {"input_tokens": 812, "output_tokens": 64, "model": {"name": "judge", "version": 3}},
    }


def work(request: dict[str, Any]) -> dict[str, Any]:
    """The effect itself, which no replay may call."""
    WORLD.calls += 1
    return answer(request["customer"]["id"])


def run(effect: Work, effects: int) -> int:
    """The program that is recorded and replayed: calls the effect, and sums up what it answers."""
    total = 0
    for number in range(effects):
        total += effect(arguments(number))["score"]
    return total


@dataclass(frozen=True)
class Peer:
    """One row of the table. ``replay`` goes from the file to the finished replay and gives what the run gave."""

    name: str
    package: str  # what is to be installed, since others import by the same name too
    checks: bool  # whether a replay fails where an effect's arguments are not the recorded ones
    record: Callable[[Path, int], object]
    replay: Callable[[Path, int], int]


def peers() -> list[Peer]:
    """Every peer, installed or not."""
    return [
        Peer("loom-harness", "loom-harness", True, record_loom_harness, replay_loom_harness),
        Peer("agentcassette, strict", "agentcassette", True, record_agentcassette, replay_agentcassette_strict),
        Peer("agentcassette", "agentcassette", False, record_agentcassette, replay_agentcassette),
        Peer("frozentrace, strict", "frozentrace", True, record_frozentrace, replay_frozentrace),
        Peer("agenttape", "agenttape", True, record_agenttape, replay_agenttape),
        TEMPORAL,
    ]


def record_loom_harness(path: Path, effects: int) -> None:
    """Its write-ahead journal; its saved trace takes as long."""
    loom = import_module("loom")
    recorder = loom.Recorder.record()
    recorder.journal = loom.Journal(str(path))
    recorder.journal.start({}, [])
    run(lambda request: recorder.run("tool:work", request, lambda: work(request)), effects)
    recorder.journal.close()


def replay_loom_harness(path: Path, effects: int) -> int:
    """Strict, which is its default."""
    loom = import_module("loom")
    recorder = loom.Recorder.replay(loom.Journal.read(str(path))[1])
    return run(lambda request: recorder.run("tool:work", request, lambda: work(request)), effects)


def record_agentcassette(path: Path, effects: int) -> None:
    """One JSON cassette, for both of its rows."""
    agentcassette = import_module("agentcassette")
    with agentcassette.record(path):
        run(agentcassette.intercept(work), effects)


def replay_agentcassette(path: Path, effects: int, strict: bool = False) -> int:
    """Its default serves the n-th answer whatever is asked, and collects what differed."""
    agentcassette = import_module("agentcassette")
    with agentcassette.replay(path, strict=strict):
        return run(agentcassette.intercept(work), effects)


def replay_agentcassette_strict(path: Path, effects: int) -> int:
    """Strict raises at the first call that differs."""
    return replay_agentcassette(path, effects, strict=True)


def record_frozentrace(path: Path, effects: int) -> None:
    """One JSON trace, each call with a hash of its arguments."""
    frozentrace = import_module("frozentrace")
    with frozentrace.record(str(path)):
        run(frozentrace.intercept(work), effects)


def replay_frozentrace(path: Path, effects: int) -> int:
    """Strict adds to its lookup by arguments that every recorded call is asked for."""
    frozentrace = import_module("frozentrace")
    with frozentrace.replay(str(path), strict=True):
        return run(frozentrace.intercept(work), effects)


def record_agenttape(path: Path, effects: int) -> None:
    """One JSON cassette; its other defaults (redaction, frozen clock) as they are."""
    agenttape = import_module("agenttape")
    with agenttape.use_cassette(path, mode="record", format="json"):
        run(agenttape.tool(work), effects)


def replay_agenttape(path: Path, effects: int) -> int:
    """A JSON cassette: its YAML takes several times as long."""
    agenttape = import_module("agenttape")
    with agenttape.use_cassette(path, mode="none", format="json"):
        return run(agenttape.tool(work), effects)


class TemporalRun:
    """The same program as a Temporal workflow."""

    finished: list[int] = []  # noqa: RUF012 - what the replayed workflows gave, since the Replayer does not say

    async def run(self, effects: int) -> int:
        """Call the effect as an activity, one after the other."""
        workflow = import_module("temporalio.workflow")
        total = 0
        for number in range(effects):
            given = await workflow.execute_activity(
                "work", arguments(number), start_to_close_timeout=timedelta(minutes=1)
            )
            total += given["score"]
        self.finished.append(total)
        return total


def record_temporal(path: Path, effects: int) -> None:
    """The history that a server keeps of that workflow. Only a server can record one, so it is written here."""
    events: list[dict[str, Any]] = []

    def payloads(value: object) -> dict[str, Any]:
        data = base64.b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()
        return {"payloads": [{"metadata": {"encoding": base64.b64encode(b"json/plain").decode()}, "data": data}]}

    def add(kind: str, **attributes: object) -> str:
        number = str(len(events) + 1)
        words = kind.title().replace("_", "")
        events.append(
            {
                "eventId": number,
                "eventTime": f"2024-01-01T00:00:00.{int(number):09d}Z",
                "eventType": f"EVENT_TYPE_{kind}",
                "taskId": str(1_000_000 + int(number)),
                f"{words[0].lower()}{words[1:]}EventAttributes": attributes,
            }
        )
        return number

    def workflow_task() -> str:
        scheduled = add("WORKFLOW_TASK_SCHEDULED", taskQueue={"name": "bench"}, startToCloseTimeout="10s")
        started = add("WORKFLOW_TASK_STARTED", scheduledEventId=scheduled)
        return add(
            "WORKFLOW_TASK_COMPLETED",
            scheduledEventId=scheduled,
            startedEventId=started,
            sdkMetadata={"coreUsedFlags": [1, 2, 3], "langUsedFlags": [1]} if len(events) < 4 else {},
        )

    add(
        "WORKFLOW_EXECUTION_STARTED",
        workflowType={"name": "TemporalRun"},
        taskQueue={"name": "bench"},
        input=payloads(effects),
        workflowTaskTimeout="10s",
        originalExecutionRunId="bench",
    )
    for number in range(effects):
        asked = workflow_task()
        scheduled = add(
            "ACTIVITY_TASK_SCHEDULED",
            activityId=str(number + 1),
            activityType={"name": "work"},
            taskQueue={"name": "bench"},
            input=payloads(arguments(number)),
            workflowTaskCompletedEventId=asked,
        )
        started = add("ACTIVITY_TASK_STARTED", scheduledEventId=scheduled)
        add(
            "ACTIVITY_TASK_COMPLETED",
            result=payloads(work(arguments(number))),
            scheduledEventId=scheduled,
            startedEventId=started,
        )
    asked = workflow_task()
    add("WORKFLOW_EXECUTION_COMPLETED", result=payloads(sum(range(effects))), workflowTaskCompletedEventId=asked)
    path.write_text(json.dumps({"events": events}))


def replay_temporal(path: Path, effects: int) -> int:
    """Its Replayer without the sandbox, which would import the workflow's module anew."""
    client, worker, workflow = (import_module(f"temporalio.{name}") for name in ("client", "worker", "workflow"))
    if not hasattr(TemporalRun, "__temporal_workflow_definition"):
        workflow.run(TemporalRun.run)
        workflow.defn(TemporalRun)
    replayer = worker.Replayer(
        workflows=[TemporalRun], workflow_runner=worker.UnsandboxedWorkflowRunner(), build_id="bench"
    )
    history = client.WorkflowHistory.from_json("bench", path.read_text())
    asyncio.run(replayer.replay_workflow(history))
    return TemporalRun.finished.pop()


TEMPORAL = Peer("Temporal Replayer", "temporalio", False, record_temporal, replay_temporal)
