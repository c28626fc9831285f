"""One sample of an evaluation as a log: what its solvers and scorers, its models and its tools did.

Every span is a step, but for those that Inspect opens around all samples (init, solvers, scorers) and around what an
event of its own tells (tools, subtasks). Before spans there were ``step`` events, and sub-events inside of the tool or
subtask that they belong to. An event stands where it began; when it ended is a time of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.calls import Calls, milliseconds, moment
from pytest_loom.sources.chat import Chat, error_of, plain_text
from pytest_loom.sources.inspect_ai.pools import Pools
from pytest_loom.sources.shape import Malformed, listed, table, tables, text

_ITS_OWN = frozenset({"init", "solvers", "scorers", "tool", "handoff", "subtask"})
"""Types of spans and steps that are no steps of the task."""

_UNTOLD = frozenset(
    (
        *("sample_init", "state", "store", "sandbox", "info", "logger", "score_edit"),
        *("anchor", "branch", "checkpoint", "compaction", "review"),
    )
)
"""Events about the evaluation rather than about what the sample's agent did."""


def sample_log(sample: dict[str, Any], header: dict[str, Any], path: Path, number: int) -> Log | LogError:
    """The log of a sample, or what is wrong with it; ``number`` counts the samples of the file from 1."""
    name = f"sample {number}"
    try:
        spec = table(header.get("eval"), "eval")
        name = _identity(sample, spec, number)
        return _Sample(sample, spec, LogBuilder(name, text(spec.get("task")) or "task", path=str(path))).log()
    except Malformed as problem:
        return LogError(f"not a readable sample: {problem}", path=str(path), execution_id=name)
    except LogError as error:
        return error


def _identity(sample: dict[str, Any], spec: dict[str, Any], number: int) -> str:
    """The sample's own id, which all logs have that say when they were written; else where it stands in the task."""
    own = text(sample.get("uuid"))
    task = text(spec.get("task_id")) or text(spec.get("task")) or "task"
    return own or f"{task}/{sample.get('id', number)}/{sample.get('epoch', 1)}"


class _Sample:
    def __init__(self, sample: dict[str, Any], spec: dict[str, Any], builder: LogBuilder) -> None:
        older = table(sample.get("transcript"), "transcript")  # of 2024
        self.sample = sample
        self.spec = spec
        self.calls = Calls(builder)
        self.pools = Pools(sample, older)
        self.events = tables(sample.get("events") or older.get("events"), "events")
        self.open: dict[str, str] = {}  # steps under way, by the span's id
        self.begun: list[tuple[str, str]] = []  # steps of the time before spans: stepId and callId
        self.ends: list[tuple[float, int, int | str, str, dict[str, Any]]] = []
        self.numbered = 0
        self.unknown: set[str] = set()

    def log(self) -> Log:
        first = next((at for event in self.events if (at := moment(event.get("timestamp")))), 0)
        self.calls.at = first or moment(self.sample.get("started_at")) or moment(self.spec.get("created"))
        started = {"input": self.pools.resolved(self.sample.get("input")), "manifest": self.manifest()}
        self.calls.add("EXECUTION_STARTED", started)
        if self.events:
            self.tell(self.events)
            self.flush()
        else:
            Chat(self.calls).tell(self.pools.resolved(self.messages()))
        self.end()
        notices = []
        if self.unknown:
            notices = [f"events of a kind that is not known are left out: {printable(', '.join(sorted(self.unknown)))}"]
        return self.calls.builder.log(source="inspect", engine="trace", notices=notices)

    def manifest(self) -> dict[str, Any]:
        facts = {
            "framework": "inspect_ai",
            "task": self.spec.get("task"),
            "taskVersion": self.spec.get("task_version"),
            "model": self.spec.get("model"),
            "evalId": self.spec.get("eval_id") or self.spec.get("run_id"),
            "sampleId": self.sample.get("id"),
            "epoch": self.sample.get("epoch"),
            "revision": self.spec.get("revision"),
            "packages": self.spec.get("packages"),
        }
        return {key: value for key, value in facts.items() if value is not None}

    def messages(self) -> list[dict[str, Any]]:
        refs = self.sample.get("message_refs")
        found = self.pools.new_messages(refs) if refs is not None else self.sample.get("messages")
        return tables(found, "messages")

    # The events ---------------------------------------------------------------------------------------------------

    def tell(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            self.numbered += 1
            kind = text(event.get("event"))
            self.calls.at = moment(event.get("timestamp")) or self.calls.at
            self.flush(milliseconds(self.calls.at))
            self.calls.line = self.numbered
            handler = _HANDLERS.get(kind)
            if handler is not None:
                handler(self, event)
            elif kind not in _UNTOLD:
                self.unknown.add(kind or "without a name")

    def later(self, event: dict[str, Any], kind: str, payload: dict[str, Any]) -> None:
        """Tell how something ended when the events have come to that time."""
        at = moment(event.get("completed")) or self.calls.at
        heapq.heappush(self.ends, (milliseconds(at), self.numbered, at, kind, payload))

    def flush(self, until: float = float("inf")) -> None:
        while self.ends and self.ends[0][0] <= until:
            _, number, at, kind, payload = heapq.heappop(self.ends)
            self.calls.line = number
            self.calls.add(kind, payload, at=at)
        self.calls.line = self.numbered

    def begin(self, name: str, value: Any = None) -> str:
        call_id = self.calls.unique(f"{name}:{self.numbered}")
        facts = {"stepId": name, "callId": call_id}
        self.calls.add("STEP_STARTED", facts if value is None else facts | {"input": value})
        return call_id

    def span_begin(self, event: dict[str, Any]) -> None:
        name, kind = text(event.get("name")), text(event.get("type"))
        if name and (kind or name) not in _ITS_OWN and (name not in _ITS_OWN or kind not in ("", name)):
            self.open[text(event.get("id"))] = f"{name}\n{self.begin(name)}"

    def span_end(self, event: dict[str, Any]) -> None:
        found = self.open.pop(text(event.get("id")), None)
        if found is not None:
            name, _, call_id = found.rpartition("\n")
            self.calls.add("STEP_COMPLETED", {"stepId": name, "callId": call_id})

    def step(self, event: dict[str, Any]) -> None:
        name = text(event.get("name"))
        if text(event.get("action")) == "begin":
            if name and text(event.get("type")) not in _ITS_OWN:
                self.begun.append((name, self.begin(name)))
        elif self.begun and self.begun[-1][0] == name:
            name, call_id = self.begun.pop()
            self.calls.add("STEP_COMPLETED", {"stepId": name, "callId": call_id})

    def subtask(self, event: dict[str, Any]) -> None:
        name = text(event.get("name")) or "subtask"
        call_id = self.begin(name, self.pools.resolved(event.get("input")))
        self.tell(tables(event.get("events"), "events"))
        output = self.pools.resolved(event.get("result"))
        self.later(event, "STEP_COMPLETED", {"stepId": name, "callId": call_id, "output": output})

    def model(self, event: dict[str, Any]) -> None:
        request = {"messages": self.pools.new_messages(event.get("input_refs"), event.get("input"))}
        call_id = self.calls.asks(text(event.get("model")), request, text(event.get("uuid")))
        if event.get("error"):
            error = {"type": "ModelError", "message": text(event.get("error")) or "it failed"}
            self.later(event, "MODEL_FAILED", {"callId": call_id, "error": error})
        elif not event.get("pending"):
            output = table(event.get("output"), "output")
            answer = {"callId": call_id, "response": self.pools.resolved(output.get("choices"))}
            self.later(event, "MODEL_COMPLETED", answer | {"usage": output.get("usage")})

    def tool(self, event: dict[str, Any]) -> None:
        name, args = text(event.get("function")) or "unknown", self.pools.resolved(event.get("arguments"))
        given = text(event.get("id"))
        self.calls.calls(name, args, given)
        facts = self.calls.close(given) or {}
        self.tell(tables(event.get("events"), "events"))
        if event.get("error"):
            self.later(event, "TOOL_FAILED", facts | {"error": error_of(self.pools.resolved(event["error"]))})
        elif event.get("failed"):
            self.later(event, "TOOL_FAILED", facts | {"error": {"type": "Error", "message": "it failed"}})
        elif not event.get("pending"):
            self.later(event, "TOOL_COMPLETED", facts | {"output": self.pools.resolved(event.get("result"))})

    def approval(self, event: dict[str, Any]) -> None:
        call = table(event.get("call"), "call")
        facts = {"callId": call.get("id"), "name": call.get("function"), "decision": event.get("decision")}
        self.calls.add("ApprovalDecided", facts | {"approver": event.get("approver")})

    def input(self, event: dict[str, Any]) -> None:
        self.calls.add("UserPrompt", {"content": self.pools.resolved(event.get("input"))})

    def score(self, event: dict[str, Any]) -> None:
        score = table(event.get("score"), "score")
        facts = {"value": score.get("value"), "answer": self.pools.resolved(score.get("answer"))}
        self.calls.add("RunScored", facts | {"scorer": event.get("scorer")})

    def limit(self, event: dict[str, Any]) -> None:
        self.calls.add("LimitReached", {"type": event.get("type"), "message": event.get("message")})

    def error(self, event: dict[str, Any]) -> None:
        """The error that ends a sample is told at its end."""

    def end(self) -> None:
        """How it ended: an error, or what the model said last."""
        self.calls.at = moment(self.sample.get("completed_at")) or self.calls.builder.events[-1].timestamp
        error = self.sample.get("error")
        if error:
            message = text(table(error, "error").get("message")) or "it failed"
            self.calls.add("EXECUTION_FAILED", {"error": {"type": "SampleError", "message": message}})
            return
        output = table(self.sample.get("output"), "output")
        said = text(output.get("completion")) or _completion(listed(output.get("choices"), "choices"))
        self.calls.add("EXECUTION_COMPLETED", {"output": self.pools.resolved(said)})


def _completion(choices: list[Any]) -> str | None:
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    return plain_text(table(first.get("message"), "message").get("content"))


_HANDLERS: dict[str, Callable[[_Sample, dict[str, Any]], None]] = {
    "span_begin": _Sample.span_begin,
    "span_end": _Sample.span_end,
    "step": _Sample.step,
    "subtask": _Sample.subtask,
    "model": _Sample.model,
    "tool": _Sample.tool,
    "approval": _Sample.approval,
    "input": _Sample.input,
    "score": _Sample.score,
    "sample_limit": _Sample.limit,
    "interrupt": _Sample.limit,
    "error": _Sample.error,
}
