"""OTLP JSON taken apart: the spans of each trace, with their attributes as plain data and their log records as events.

The encoding is protobuf's JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids in hexadecimal,
enums as numbers. Generic protobuf printers write ids in base64, enums by name and fields as ``snake_case``: read too.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.sources.shape import Malformed, documents, listed, table, tables, text

_HEX = re.compile(r"[0-9a-fA-F]{16}|[0-9a-fA-F]{32}")
_SNAKE = re.compile(r"(?<!^)(?=[A-Z])")
_MAX_NANO = 2**63 - 1
_NO_IDS = ("", "0" * 16, "0" * 32)


@dataclass(frozen=True)
class SpanEvent:
    """Something that was noted during a span: its name, attributes, and the body of a log record (None for none)."""

    name: str
    attributes: dict[str, Any]
    body: Any = None


@dataclass
class Span:
    """One span: who it is, when (ms since the epoch, 0 where it does not say), what it says and how it ended.

    ``failed`` is the status; ``ended`` is False for one that was exported while it ran.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    ended: bool
    attributes: dict[str, Any]
    events: list[SpanEvent]
    failed: bool
    message: str
    scope: str
    resource: dict[str, Any] = field(default_factory=dict)
    line: int = 0


def spans_of(data: bytes) -> dict[str, dict[str, Span]]:
    """Every span of a file by trace and span id, traces in order of appearance.

    The file is one export request, or one a line. Raises Malformed naming the line; an exporter that sent a span twice
    is forgiven, two spans with one id are not.
    """
    found: dict[str, dict[str, Span]] = {}
    records: list[tuple[str, str, SpanEvent]] = []
    for whole, line in documents(data):
        try:
            request = table(whole, "the export")
            for span in _spans(request, line):
                known = found.setdefault(span.trace_id, {}).setdefault(span.span_id, span)
                if known is not span and (known.name, known.attributes) != (span.name, span.attributes):
                    raise Malformed(f"two different spans have the id {printable(span.span_id)}")
            records += _log_records(request)
        except Malformed as problem:
            raise Malformed(f"line {line}: {problem}" if line > 1 else str(problem)) from None
    for trace_id, span_id, event in records:
        if span_id in found.get(trace_id, {}):
            found[trace_id][span_id].events.append(event)
    return found


def _get(value: dict[str, Any], name: str) -> Any:
    """A field in either spelling."""
    found = value.get(name)
    return value.get(_SNAKE.sub("_", name).lower()) if found is None else found


def _spans(request: dict[str, Any], line: int) -> Iterator[Span]:
    for group in tables(_get(request, "resourceSpans"), "resourceSpans"):
        resource = attributes_of(_get(table(_get(group, "resource"), "a resource"), "attributes"))
        for scoped in tables(_get(group, "scopeSpans"), "scopeSpans"):
            scope = text(table(_get(scoped, "scope"), "a scope").get("name"))
            for said in tables(_get(scoped, "spans"), "spans"):
                yield _span(said, scope, resource, line)


def _span(said: dict[str, Any], scope: str, resource: dict[str, Any], line: int) -> Span:
    trace_id, span_id = _id(_get(said, "traceId"), "traceId"), _id(_get(said, "spanId"), "spanId")
    if not trace_id or not span_id:
        raise Malformed("a span has no id, or no trace")
    start, end = _nano(_get(said, "startTimeUnixNano")), _nano(_get(said, "endTimeUnixNano"))
    status = table(said.get("status"), "a status")
    events = [
        SpanEvent(text(event.get("name")), attributes_of(event.get("attributes")))
        for event in tables(said.get("events"), "the events of a span")
    ]
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id(_get(said, "parentSpanId"), "parentSpanId"),
        name=text(said.get("name")),
        start=start // 1_000_000,
        end=(end or start) // 1_000_000,
        ended=bool(end),
        attributes=attributes_of(said.get("attributes")),
        events=events,
        failed=status.get("code") in (2, "2", "STATUS_CODE_ERROR"),
        message=text(status.get("message")),
        scope=scope,
        resource=resource,
        line=line,
    )


def _log_records(request: dict[str, Any]) -> Iterator[tuple[str, str, SpanEvent]]:
    """Log records that belong to a span: where instrumentations write messages as events."""
    for group in tables(_get(request, "resourceLogs"), "resourceLogs"):
        for scoped in tables(_get(group, "scopeLogs"), "scopeLogs"):
            for said in tables(_get(scoped, "logRecords"), "logRecords"):
                attributes = attributes_of(said.get("attributes"))
                name = text(_get(said, "eventName")) or text(attributes.get("event.name"))
                body = value_of(said["body"]) if isinstance(said.get("body"), dict) else None
                place = _id(_get(said, "traceId"), "traceId"), _id(_get(said, "spanId"), "spanId")
                yield *place, SpanEvent(name, attributes, body)


def _id(said: Any, where: str) -> str:
    """An id in hexadecimal; "" where there is none."""
    if said is None or said in _NO_IDS:
        return ""
    if not isinstance(said, str):
        raise Malformed(f"{where} is no text")
    if _HEX.fullmatch(said):
        return said.lower()
    try:
        raw = base64.b64decode(said, validate=True)
    except ValueError:
        return said
    return raw.hex() if len(raw) in (8, 16) else said


def _nano(said: Any) -> int:
    """Nanoseconds since the epoch: 64 bits, which JSON writes as text."""
    if said in (None, ""):
        return 0
    if isinstance(said, str) and said.isascii() and said.isdigit() and len(said) < 20:
        said = int(said)
    if isinstance(said, bool) or not isinstance(said, int) or not 0 <= said <= _MAX_NANO:
        raise Malformed("a time is no count of nanoseconds")
    return said


def attributes_of(said: Any) -> dict[str, Any]:
    """A list of ``{"key", "value"}`` as a dict."""
    found: dict[str, Any] = {}
    for entry in tables(said, "attributes"):
        key = entry.get("key")
        if not isinstance(key, str):
            raise Malformed("an attribute has no key")
        found[key] = value_of(table(entry.get("value"), "the value of an attribute"))
    return found


def value_of(said: dict[str, Any]) -> Any:
    """An AnyValue as plain data; bytes stay base64, a float that JSON cannot say stays text."""
    for name in ("stringValue", "boolValue", "bytesValue", "doubleValue"):
        if (found := _get(said, name)) is not None:
            if isinstance(found, (dict, list)):
                raise Malformed(f"a {name} is none")
            return found
    if (found := _get(said, "intValue")) is not None:
        if isinstance(found, str) and re.fullmatch(r"-?[0-9]{1,19}", found):
            found = int(found)
        if isinstance(found, bool) or not isinstance(found, int) or abs(found) > _MAX_NANO:
            raise Malformed("an intValue is no whole number of 64 bits")
        return found
    if (found := _get(said, "arrayValue")) is not None:
        values = listed(table(found, "an arrayValue").get("values"), "an arrayValue")
        return [value_of(table(value, "a value")) for value in values]
    if (found := _get(said, "kvlistValue")) is not None:
        return attributes_of(table(found, "a kvlistValue").get("values"))
    return None
