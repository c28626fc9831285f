"""Exported trace spans as logs, one a trace, for comparing runs: a step is one turn of an agent, as in a run state.

Shapes: a list of exported traces and spans (``Trace.export()``, ``Span.export()``), one of them a line, or the
``{"data": […]}`` that is sent to a collector. A turn begins with a model's call (a generation or response span) and
has the tool calls after it. Spans of functions know no call ids: they are found by tool and arguments. Nothing is
resumed from a trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.langchain_messages import wanted_in
from pytest_loom.sources.openai_agents.calls import call_of, said_text
from pytest_loom.sources.openai_agents.runstate import APPROVAL, DEFAULT_WORKFLOW
from pytest_loom.sources.shape import Malformed, arguments, documents, table, tables, text
from pytest_loom.sources.toolcalls import NOTHING, ToolCall, ToolCalls
from pytest_loom.sources.tree import walk

_SPAN = re.compile(rb'"object"\s*:\s*"trace\.span"')
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)")


def looks_like_trace(head: bytes) -> bool:
    """Whether a file begins like exported traces or spans."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return start in (b"[", b"{") and _SPAN.search(head) is not None


def trace_logs(data: bytes, path: Path) -> Iterator[Log | LogError]:
    """Each trace of the file as a log, or what is wrong with it."""
    try:
        entries = _entries(data)
    except Malformed as problem:
        yield LogError(f"not a readable trace export: {problem}", path=str(path))
        return
    traces: dict[str, dict[str, Any]] = {}
    spans: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in entries:
        if entry.get("object") == "trace" and text(entry.get("id")):
            traces[entry["id"]] = entry
            spans.setdefault(entry["id"], {})
        elif entry.get("object") == "trace.span" and text(entry.get("trace_id")):
            spans.setdefault(entry["trace_id"], {})[text(entry.get("id")) or str(len(spans))] = entry
    for trace_id, found in spans.items():
        try:
            yield _log(trace_id, traces.get(trace_id, {}), found, path)
        except Malformed as problem:
            what = f"not a readable trace: {problem}"
            yield LogError(what, path=str(path), execution_id=trace_id)
        except LogError as error:
            yield error


def _entries(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for whole, _ in documents(data):
        if isinstance(whole, dict):
            whole = whole["data"] if isinstance(whole.get("data"), list) else [whole]
        found += tables(whole, "the export")
    return found


def _log(trace_id: str, trace: dict[str, Any], spans: dict[str, dict[str, Any]], path: Path) -> Log:
    workflow = text(trace.get("workflow_name"))
    datas = [_data(span) for span in spans.values()]
    agents = [text(data.get("name")) for data in datas if data.get("type") == "agent"]
    named = "" if workflow == DEFAULT_WORKFLOW else workflow
    builder = LogBuilder(trace_id, named or (agents[0] if agents else "") or workflow or "unknown", path=str(path))
    group = text(trace.get("group_id"))
    metadata = table(trace.get("metadata"), "trace metadata")
    manifest = {"agents": list(dict.fromkeys(agents)), "aliases": [group] if group else [], "metadata": metadata}
    order = list(walk({key: text(span.get("parent_id")) for key, span in spans.items()}, _starts(spans)))
    inputs = (_data(spans[key]).get("input") for begins, key in order if begins and _is_model(spans[key]))
    started = {"input": next(inputs, None), "manifest": {key: value for key, value in manifest.items() if value}}
    first = spans[order[0][1]].get("started_at") if order else None
    builder.add("EXECUTION_STARTED", started, timestamp=_moment(first))
    if order:
        _Turns(builder, spans).write(order)
    return builder.log(source="openai-agents", engine="trace")


def _starts(spans: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {key: (text(span.get("started_at")), text(span.get("ended_at"))) for key, span in spans.items()}


@dataclass
class _Turn:
    """A turn: what its model said and asked for (``is_told`` where the trace has that), how many calls it waits for."""

    head: dict[str, Any]
    said: str | None = None
    is_told: bool = False
    calls: list[ToolCall] = field(default_factory=list)
    waits: int = 0

    def done(self) -> dict[str, Any]:
        """The payload of STEP_COMPLETED."""
        if not self.is_told:
            return self.head
        calls = [{key: value for key, value in call.facts().items() if key != "callId"} for call in self.calls]
        return self.head | {"output": {"text": self.said, "calls": calls}}


class _Turns:
    """The spans of a trace on their way to a log."""

    def __init__(self, builder: LogBuilder, spans: dict[str, dict[str, Any]]) -> None:
        self.builder = builder
        self.spans = spans
        self.moment: int | str = 0
        self.calls = ToolCalls(self.add)
        self.running: dict[str, ToolCall] = {}  # by span
        self.agent = "unknown"  # the name of the last one that began
        self.turns: dict[str, _Turn] = {}  # the turn that is under way, by the span of its agent
        self.left: dict[str, _Turn] = {}  # turns whose agent ended before a call was answered, by its id
        self.said: str | None = None  # the text of the last answer of a model
        self.agents = _agents_around(spans)
        asked = {self.agents[key] for key, span in spans.items() if _is_model(span)}
        self.without_turns = {key for key, span in spans.items() if _kind(span) == "agent"} - asked

    def add(self, event_type: str, payload: dict[str, Any]) -> None:
        self.builder.add(event_type, payload, timestamp=self.moment)

    def write(self, order: list[tuple[bool, str]]) -> None:
        """All events after the first."""
        for begins, key in order:
            span = self.spans[key]
            kind = _kind(span)
            self.moment = _moment(span.get("started_at" if begins else "ended_at"))
            if kind == "agent":
                (self.agent_begins if begins else self.agent_ends)(key, span)
            elif _is_model(span):
                (self.model_begins if begins else self.model_ends)(key, span)
            elif kind == "function":
                (self.function_begins if begins else self.function_ends)(key, span)
            elif not begins:
                self.noted(kind, _data(span))
        for key in list(self.turns):
            self.ends(key, None)
        failed = [span for span in self.spans.values() if span.get("parent_id") is None and span.get("error")]
        waiting = [call for call in self.calls.all_open() if call.call_id in self.left]
        pending = [call.facts() | {"kind": "function"} for call in waiting]
        if failed:
            self.add("EXECUTION_FAILED", {"error": _error(failed[0])})
        elif pending:
            self.add("EXECUTION_SUSPENDED", {"on": APPROVAL, "kind": "approval", "pending": pending})
        else:
            self.add("EXECUTION_COMPLETED", {} if self.said is None else {"output": self.said})

    def agent_begins(self, key: str, span: dict[str, Any]) -> None:
        self.agent = text(_data(span).get("name")) or "unknown"
        if key in self.without_turns:
            self.add("STEP_STARTED", {"stepId": self.agent, "callId": key})

    def agent_ends(self, key: str, span: dict[str, Any]) -> None:
        if key in self.turns:
            self.ends(key, span.get("error") and _error(span))
        elif key in self.without_turns:
            head = {"stepId": text(_data(span).get("name")) or "unknown", "callId": key}
            failed = span.get("error") is not None
            self.add("STEP_FAILED" if failed else "STEP_COMPLETED", head | ({"error": _error(span)} if failed else {}))

    def ends(self, agent: str, error: dict[str, Any] | None) -> None:
        """The last turn of an agent is over, unless its calls wait for somebody."""
        turn = self.turns.pop(agent)
        if error is not None:
            self.add("STEP_FAILED", turn.head | {"error": error})
        elif waiting := [call for call in turn.calls if call.status == "open"]:
            turn.waits = len(waiting)
            self.left |= {call.call_id: turn for call in waiting}
        else:
            self.add("STEP_COMPLETED", turn.done())

    def answered(self, call: ToolCall, output: Any) -> None:
        """A call was answered, perhaps after its agent had ended: somebody decided, and the turn is over now."""
        self.calls.answered(call, output)
        turn = self.left.pop(call.call_id, None)
        if turn is not None:
            turn.waits -= 1
            if not turn.waits:
                self.add("STEP_COMPLETED", turn.done())

    def model_begins(self, key: str, span: dict[str, Any]) -> None:
        agent, data = self.agents[key], _data(span)
        items = data.get("input")
        for item in items if isinstance(items, list) else ():
            self.answers(item)
        if agent in self.turns:
            self.add("STEP_COMPLETED", self.turns.pop(agent).done())
        name = text(_data(self.spans[agent]).get("name")) if agent else self.agent
        turn = _Turn({"stepId": name or "unknown", "callId": key})
        self.turns[agent] = turn
        self.add("STEP_STARTED", turn.head)
        self.add("MODEL_REQUESTED", {"callId": key, "model": _model(data), "request": data.get("input")})

    def model_ends(self, key: str, span: dict[str, Any]) -> None:
        data, turn = _data(span), self.turns.get(self.agents[key])
        if span.get("error") is not None:
            self.add("MODEL_FAILED", {"callId": key, "error": _error(span)})
            return
        answer = {"callId": key, "response": data.get("output"), "usage": data.get("usage")}
        self.add("MODEL_COMPLETED", answer)
        if turn is None or not isinstance(data.get("output"), list):
            return  # of a response, only its id is exported
        items = tables(data["output"], "the output of a generation")
        self.said = turn.said = _text(items)
        turn.is_told = True
        for item in items:
            call = call_of(item, "")
            asked = [(call.call_id, call.name, call.args, call.kind)] if call is not None else []
            asked += [(one.given_id, one.name, one.args, "function") for one in wanted_in(item)]
            for given_id, name, args, kind in asked:
                turn.calls.append(self.calls.asked(given_id, name, args, kind=kind, agent=turn.head["stepId"]))

    def answers(self, item: Any) -> None:
        """What a request to the model brings back for a call that no span ran: a handoff, or a server's own tool."""
        if not isinstance(item, dict):
            return
        given_id = text(item.get("call_id")) if text(item.get("type")).endswith("_output") else ""
        given_id = given_id or (text(item.get("tool_call_id")) if item.get("role") == "tool" else "")
        waiting = self.calls.waiting(given_id, "") if given_id else None
        if waiting is not None:
            self.answered(waiting, item.get("output", item.get("content")))

    def function_begins(self, key: str, span: dict[str, Any]) -> None:
        data = _data(span)
        args = NOTHING if data.get("input") is None else arguments(data["input"])
        before, turn = self.calls.count, self.turns.get(self.agents[key])
        call = self.calls.ran("", text(data.get("name")) or "unknown", args, kind="function")
        self.running[key] = call
        if turn is not None and self.calls.count > before:
            turn.calls.append(call)

    def function_ends(self, key: str, span: dict[str, Any]) -> None:
        call, output = self.running.pop(key), _data(span).get("output")
        if span.get("error") is not None:
            self.calls.failed(call, _error(span))
        elif output is None:
            call.started = False  # it waits for approval
        else:
            self.answered(call, output)

    def noted(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "handoff":
            self.add("AgentHandoff", {"from": data.get("from_agent"), "to": data.get("to_agent")})
        elif kind == "guardrail":
            self.add("GuardrailChecked", {"name": text(data.get("name")), "triggered": data.get("triggered")})


def _agents_around(spans: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The span of the agent around each span, "" for none. Parents are known to make no circle."""
    found: dict[str, str] = {}
    for key in spans:
        way: list[str] = []
        one = key
        while one not in found:
            way.append(one)
            parent = text(spans[one].get("parent_id"))
            if parent not in spans or _kind(spans[parent]) == "agent":
                found[one] = parent if parent in spans else ""
            else:
                one = parent
        for step in way:
            found.setdefault(step, found[one])
    return found


def _data(span: dict[str, Any]) -> dict[str, Any]:
    return table(span.get("span_data"), "span_data")


def _kind(span: dict[str, Any]) -> str:
    return text(_data(span).get("type"))


def _is_model(span: dict[str, Any]) -> bool:
    return _kind(span) in ("generation", "response")


def _model(data: dict[str, Any]) -> str:
    return text(data.get("model")) or "unknown"


def _text(items: list[dict[str, Any]]) -> str | None:
    """What a model says to the user, in either of the APIs' shapes; None for nothing."""
    plain = [item["content"] for item in items if item.get("type") is None and isinstance(item.get("content"), str)]
    return said_text(items) if not plain else "".join(plain)


def _error(span: dict[str, Any]) -> dict[str, Any]:
    said = span.get("error")
    message = text(said.get("message")) if isinstance(said, dict) else text(said)
    return {"type": "SpanError", "message": message or "the span failed"}


def _moment(said: Any) -> int | str:
    if said in ("", None):
        return 0
    if not isinstance(said, str) or not _MOMENT.fullmatch(said):
        raise Malformed(f"{printable(str(said))} is no RFC 3339 moment")
    return said
