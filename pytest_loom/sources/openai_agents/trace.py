"""Exported trace spans as logs, one a trace, for comparing runs: agents are steps, generations model calls.

Shapes: a list of exported traces and spans (``Trace.export()``, ``Span.export()``), one of them a line, or the
``{"data": […]}`` that is sent to a collector. A trace is no run that could be resumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.openai_agents.runstate import DEFAULT_WORKFLOW
from pytest_loom.sources.shape import Malformed, arguments, document, table, tables, text

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
            yield _log(trace_id, traces.get(trace_id, {}), list(found.values()), path)
        except Malformed as problem:
            what = f"not a readable trace: {problem}"
            yield LogError(what, path=str(path), execution_id=trace_id)
        except LogError as error:
            yield error


def _entries(data: bytes) -> list[dict[str, Any]]:
    try:
        whole = document(data)
    except Malformed:
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].lstrip().startswith(b"{"):
            raise
        whole = [document(line) for line in lines]
    if isinstance(whole, dict):
        whole = whole["data"] if isinstance(whole.get("data"), list) else [whole]
    return tables(whole, "the export")


def _log(trace_id: str, trace: dict[str, Any], spans: list[dict[str, Any]], path: Path) -> Log:
    workflow = text(trace.get("workflow_name"))
    roots = [table(span.get("span_data"), "span_data") for span in spans]
    agents = [text(root.get("name")) for root in roots if root.get("type") == "agent"]
    named = "" if workflow == DEFAULT_WORKFLOW else workflow
    builder = LogBuilder(trace_id, named or (agents[0] if agents else "") or workflow or "unknown", path=str(path))
    spans.sort(key=lambda span: (text(span.get("started_at")), text(span.get("ended_at"))))
    asked = next((root.get("input") for root in map(_data, spans) if root.get("type") == "generation"), None)
    aliases = [text(trace.get("group_id"))] if text(trace.get("group_id")) else []
    metadata = table(trace.get("metadata"), "trace metadata")
    manifest = {"agents": list(dict.fromkeys(agents)), "aliases": aliases, "metadata": metadata}
    started = {"input": asked, "manifest": {key: value for key, value in manifest.items() if value}}
    builder.add("EXECUTION_STARTED", started, timestamp=_moment(spans[0].get("started_at")) if spans else 0)
    moments: list[tuple[str, int, str, dict[str, Any]]] = []
    for number, span in enumerate(spans):
        begun, ended = _span(span, number)
        moments += [(text(span.get("started_at")), number, *one) for one in begun]
        moments += [(text(span.get("ended_at")), number, *one) for one in ended]
    moments.sort(key=lambda one: one[0])  # stable: what starts and ends at one moment stays in order
    for moment, _, kind, payload in moments:
        builder.add(kind, payload, timestamp=_moment(moment))
    last = builder.events[-1].timestamp
    failed = [span for span in spans if span.get("parent_id") is None and span.get("error")]
    if failed:
        builder.add("EXECUTION_FAILED", {"error": _error(failed[0])}, timestamp=last)
    elif spans:
        builder.add("EXECUTION_COMPLETED", {"output": _output(spans)}, timestamp=last)
    return builder.log(source="openai-agents", engine="checkpoint")


_Told = list[tuple[str, dict[str, Any]]]


def _data(span: dict[str, Any]) -> dict[str, Any]:
    return table(span.get("span_data"), "span_data")


def _span(span: dict[str, Any], number: int) -> tuple[_Told, _Told]:
    """What a span says when it begins, and when it ends."""
    data, call_id = _data(span), text(span.get("id")) or f"span-{number}"
    kind, name = text(data.get("type")), text(data.get("name")) or "unknown"
    end: tuple[str, dict[str, Any]]
    failed = span.get("error") is not None
    if kind == "agent":
        head = {"stepId": name, "callId": call_id}
        end = ("STEP_FAILED", head | {"error": _error(span)}) if failed else ("STEP_COMPLETED", head)
        return [("STEP_STARTED", head)], [end]
    if kind in ("generation", "response"):
        model = text(data.get("model")) or "unknown"
        request = {"callId": call_id, "model": model, "request": data.get("input")}
        answer = {"callId": call_id, "response": data.get("output"), "usage": data.get("usage")}
        end = ("MODEL_FAILED", {"callId": call_id, "error": _error(span)}) if failed else ("MODEL_COMPLETED", answer)
        return [("MODEL_REQUESTED", request)], [end]
    if kind == "function":
        request = {"callId": call_id, "name": name, "args": arguments(data.get("input"))}
        if failed:
            return [("TOOL_REQUESTED", request)], [("TOOL_FAILED", {"callId": call_id, "error": _error(span)})]
        output = data.get("output")
        done = [] if output is None else [("TOOL_COMPLETED", {"callId": call_id, "name": name, "output": output})]
        return [("TOOL_REQUESTED", request)], done  # without an output it waited for approval
    if kind == "handoff":
        facts = {"from": data.get("from_agent"), "to": data.get("to_agent")}
        return [], [("AgentHandoff", facts)]
    if kind == "guardrail":
        return [], [("GuardrailChecked", {"name": name, "triggered": data.get("triggered")})]
    return [], []


def _output(spans: list[dict[str, Any]]) -> Any:
    answers = [data.get("output") for data in map(_data, spans) if data.get("type") == "generation"]
    return answers[-1] if answers else None


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
