"""Every Pydantic AI file of the corpus: calls, what waits and the status are what the framework's own reader says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources import iter_file

pydantic_ai: Any = pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")


def items(path: Path) -> Log | LogError:
    """The one log, or the refusal, of a file."""
    (item,) = iter_file(path)
    return item


def facts(log: Log) -> dict[str, Any]:
    """What a log says of a history, in the terms of ``expected``."""
    state = log.state
    pending = [call["callId"] for wait in state.suspensions for call in wait.pending]
    return {
        "calls": [(call.call_id, call.name, call.args) for call in state.calls if call.kind == "tool"],
        "models": sum(call.kind == "model" for call in state.calls),
        "pending": pending,
        "status": state.status,
        "runs": state.manifest.get("runIds", []),
    }


def expected(path: Path) -> dict[str, Any]:
    """The same as pydantic_ai reads it: ``ModelMessagesTypeAdapter``, with the call ids unique as they are here."""
    ModelResponse = pydantic_ai.messages.ModelResponse
    messages = pydantic_ai.messages.ModelMessagesTypeAdapter.validate_json(path.read_bytes())
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    calls = [part for message in responses for part in message.tool_calls]
    returned = {
        part.tool_call_id
        for message in messages
        for part in message.parts
        if part.part_kind in ("tool-return", "retry-prompt")
    }
    last = messages[-1]
    waiting = [part.tool_call_id for part in responses[-1].tool_calls if part.tool_call_id not in returned]
    runs = [message.run_id for message in messages if message.run_id]
    ended = isinstance(last, ModelResponse) and not last.tool_calls
    return {
        "calls": [(part.tool_call_id, part.tool_name, part.args_as_dict()) for part in calls],
        "models": len(responses),
        "pending": waiting,
        "status": "suspended" if waiting else "completed" if ended else "running",
        "runs": list(dict.fromkeys(runs)),
    }


def test_every_history_is_what_the_framework_reads(cases: Path) -> None:
    """Tool calls, model calls, pending calls and the status of every history, those of the matrix among them."""
    histories = [
        *cases.glob("corpus/pydantic_ai/v*/history_*.json"),
        *cases.glob("matrix/cases/pydantic_ai/*/store/*.json"),
    ]
    for path in histories:
        log = items(path)
        assert isinstance(log, Log), log
        assert facts(log) == expected(path), path
        assert (log.execution_id, log.engine) == (path.stem, "checkpoint")
    print(f"compared {len(histories)} histories with ModelMessagesTypeAdapter")
    assert len(histories) > 10


def test_every_deferred_request_is_what_the_framework_reads(cases: Path) -> None:
    """Approvals and external calls of a kept DeferredToolRequests are pending, each as what it is."""
    from pydantic import TypeAdapter

    files = list(cases.glob("corpus/pydantic_ai/v*/deferred_tool_requests.json"))
    for path in files:
        log = items(path)
        assert isinstance(log, Log), log
        requests = TypeAdapter(pydantic_ai.DeferredToolRequests).validate_json(path.read_bytes())
        wanted = [
            {"callId": call.tool_call_id, "name": call.tool_name, "args": call.args_as_dict(), "kind": kind}
            for kind, calls in (("approval", requests.approvals), ("external", requests.calls))
            for call in calls
        ]
        assert [call for wait in log.state.suspensions for call in wait.pending] == wanted
    assert len(files) == 2


@pytest.mark.parametrize(
    ("name", "status", "frames", "frontier"),
    [
        ("completed", "completed", {"Load": "completed", "Charge": "completed"}, None),
        ("suspended", "suspended", {"Load": "completed"}, "Charge"),
    ],
)
def test_graph_persistence(cases: Path, name: str, status: str, frames: dict[str, str], frontier: str | None) -> None:
    """A graph's nodes are steps; the one that was created is what ``iter_from_persistence`` goes on with."""
    path = cases / "corpus" / "pydantic_ai" / "graph_v1" / f"{name}.json"
    log = items(path)
    assert isinstance(log, Log), log
    assert log.state.status == status
    assert {key: frame.status for key, frame in log.state.frames.items()} == frames
    assert (log.state.suspension and log.state.suspension.on) == frontier
    assert log.state.state == json.loads(path.read_bytes())[-1]["state"]


def test_every_other_file_is_refused_with_its_reason(cases: Path) -> None:
    """What is no run is named; nothing of the corpus is passed over in silence."""
    refused = {}
    for path in sorted(cases.glob("corpus/pydantic_ai/**/*.json")):
        item = items(path)
        if isinstance(item, LogError):
            refused[path.relative_to(cases / "corpus" / "pydantic_ai").as_posix()] = item.what
    assert list(refused) == ["v1/VERSIONS.json", "v2/VERSIONS.json"]
    assert all("not a log that any source knows" in what for what in refused.values())
