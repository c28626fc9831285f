"""Events, logs and the builder: what they hold, and that nobody can change history through them."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec
import pytest

from pytest_loom import Event, Log, LogBuilder, LogError


def event(timestamp: int | str = 1000, raw: bytes = b"{}", **changes: Any) -> Event:
    """An event of execution ``a``, read from line 7 of a file."""
    fields: dict[str, Any] = {
        "execution_id": "a",
        "workflow_id": "refund",
        "sequence": 1,
        "timestamp": timestamp,
        "event_type": "Noted",
        "schema_version": "1.15.0",
        "raw": msgspec.Raw(raw),
        "path": "logs/a.loom.jsonl",
        "line": 7,
    }
    return Event(**(fields | changes))


class TestEvent:
    def test_the_payload_is_decoded_anew_each_time(self) -> None:
        """Changing what one got does not change history."""
        one = event(raw=b'{"a":[1]}')
        one.payload["a"].append(2)
        assert one.payload == {"a": [1]}

    def test_an_event_cannot_be_changed(self) -> None:
        """History is append-only."""
        with pytest.raises(AttributeError):
            event().sequence = 2  # type: ignore[misc]

    @pytest.mark.parametrize("raw", [b"[]", b"null", b"1", b'"a"', b"", b"{", b'{"a":1e999}', b"[" * 9999])
    def test_a_payload_that_is_no_object_is_an_error_with_its_place(self, raw: bytes) -> None:
        """Whoever asks late is told file, line and execution all the same."""
        with pytest.raises(
            LogError, match=r"logs/a\.loom\.jsonl:7, execution a: event 1: the payload of Noted"
        ) as caught:
            _ = event(raw=raw).payload
        assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("logs/a.loom.jsonl", 7, "a")

    @pytest.mark.parametrize(("depth", "read"), [(1, True), (498, True), (501, False), (900, False)])
    def test_payloads_may_be_nested_500_deep(self, depth: int, read: bool) -> None:
        """Lists and objects count alike; brackets in texts, and lists beside each other, do not."""
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            text = opening * depth + b'"' + b"[{" * 900 + b'\\""' + closing * depth
            one = event(raw=b'{"x":' + text + b',"y":[' + b"[[]]," * 900 + b"0]}")
            if read:
                assert list(one.payload) == ["x", "y"]
            else:
                with pytest.raises(LogError, match="nested more than 500 deep"):
                    _ = one.payload

    @pytest.mark.parametrize(
        ("timestamp", "expected"),
        [
            (0, 0),
            (1_700_000_000_123, 1_700_000_000_123),
            (-1000, -1000),
            ("1970-01-01T00:00:01Z", 1000),
            ("1970-01-01t00:00:01z", 1000),
            ("1970-01-01T00:00:01.5Z", 1500),
            ("1970-01-01T00:00:01.123456789Z", 1123.456),
            ("1970-01-01T01:00:01+01:00", 1000),
            ("1969-12-31T23:59:59-00:00", -1000),
            (
                "0001-01-01T00:00:00+23:59",
                (datetime(1, 1, 1) - datetime(1970, 1, 1)).total_seconds() * 1000 - 86_340_000,
            ),
        ],
    )
    def test_times_are_milliseconds_since_the_epoch(self, timestamp: int | str, expected: float) -> None:
        """A timestamp is such a number already, or RFC 3339 text (DESIGN section 3)."""
        assert math.isclose(event(timestamp).time_ms, expected)

    @pytest.mark.parametrize(
        "timestamp", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", 10**400]
    )
    def test_a_time_that_is_none_is_an_error_with_its_place(self, timestamp: int | str) -> None:
        """A local time without a zone could be any of 38 hours, so it is none."""
        with pytest.raises(LogError) as caught:
            _ = event(timestamp).time_ms
        assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("logs/a.loom.jsonl", 7, "a")


class TestLog:
    def test_a_log_without_events_is_none(self) -> None:
        """Identity and status come from events."""
        with pytest.raises(LogError, match="at least one event"):
            Log([])

    def test_identity_is_that_of_the_first_event(self) -> None:
        """ADR 0008: executionId and workflowId are seeded from the first envelope."""
        log = Log([event(execution_id="x", workflow_id="y")])
        assert (log.execution_id, log.workflow_id, len(log), list(log)) == ("x", "y", 1, list(log.events))

    def test_the_state_is_folded_once(self) -> None:
        """Asking twice gives the same object."""
        log = Log([event()])
        assert log.state is log.state

    def test_its_short_form_is_one_printable_line(self) -> None:
        """Names come from logs, so they are escaped and cut."""
        log = Log([event(execution_id="x\n\x1b[31m" + "y" * 500)])
        assert repr(log).isprintable()
        assert len(repr(log)) < 300


class TestLogBuilder:
    def test_it_counts_sequences_and_encodes_payloads(self) -> None:
        """A source says what happened and when; the envelope is made."""
        builder = LogBuilder("a", "refund", path="x.json")
        builder.add("EXECUTION_STARTED", {"input": {"é": [1, None]}}, timestamp=5, line=3)
        builder.add("Noted", {}, timestamp="2026-01-01T00:00:00Z", branch="0", namespace="sub", event_version=2)
        log = builder.log(source="mine", engine="checkpoint", live=True, notices=["careful"])
        first, second = log.events
        assert (first.sequence, first.timestamp, first.line, first.path) == (1, 5, 3, "x.json")
        assert first.payload == {"input": {"é": [1, None]}}
        assert (second.sequence, second.branch, second.namespace, second.event_version) == (2, "0", "sub", 2)
        assert {e.schema_version for e in log} == {"1.15.0"}
        assert (log.path, log.source, log.engine, log.live, log.notices) == (
            "x.json",
            "mine",
            "checkpoint",
            True,
            ("careful",),
        )

    def test_a_log_that_was_taken_does_not_grow(self) -> None:
        """The builder may go on; what was handed out stays."""
        builder = LogBuilder("a", "refund")
        builder.add("Noted", {}, timestamp=1)
        log = builder.log()
        builder.add("Noted", {}, timestamp=2)
        assert len(log) == 1

    def test_numbers_of_any_size_are_kept(self) -> None:
        """JSON knows no limit, and foreign logs hold such numbers."""
        builder = LogBuilder("a", "refund")
        assert builder.add("Noted", {"big": 2**80, "small": 5e-324}, timestamp=1).payload == {
            "big": 2**80,
            "small": 5e-324,
        }

    @pytest.mark.parametrize("name", ["STEP_DREAMT", "EXECUTION_", "TOOL_CALLED"])
    def test_it_refuses_kernel_kinds_that_do_not_exist(self, name: str) -> None:
        """An application event cannot take the kernel's prefixes."""
        with pytest.raises(LogError, match=f"{name} is not a kernel event"):
            LogBuilder("a", "refund").add(name, {}, timestamp=1)

    @pytest.mark.parametrize(
        "value", [object(), {(1, 2): 3}, "\ud800", {1, object()}], ids=["object", "key", "surrogate", "set"]
    )
    def test_it_refuses_what_json_cannot_say(self, value: Any) -> None:
        """A source that meets such a value gets a LogError with its place, not a crash."""
        with pytest.raises(LogError, match="cannot be said in JSON") as caught:
            LogBuilder("a", "refund", path="x.json").add("Noted", {"value": value}, timestamp=1, line=9)
        assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("x.json", 9, "a")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_it_refuses_numbers_that_json_does_not_have(self, value: float) -> None:
        """They would turn into null without a word; a real null is kept."""
        with pytest.raises(LogError, match="cannot be said in JSON"):
            LogBuilder("a", "refund").add("Noted", {"value": [None, {"x": value}]}, timestamp=1)
        assert LogBuilder("a", "refund").add("Noted", {"value": None}, timestamp=1).payload == {"value": None}

    def test_it_refuses_values_nested_without_end(self) -> None:
        """A value that contains itself is no JSON either."""
        value: list[Any] = []
        value.append(value)
        with pytest.raises(LogError, match="cannot be said in JSON"):
            LogBuilder("a", "refund").add("Noted", {"value": value}, timestamp=1)


def test_where_an_event_was_read_is_no_part_of_it() -> None:
    """Two readings of the same event are equal, whatever the file and line; other content is not."""
    one, other = (LogBuilder("run-1", "refund", path=path) for path in ("a.jsonl", "b.jsonl"))
    first = one.add("Noted", {"a": 1}, timestamp=1, line=1)
    assert first == other.add("Noted", {"a": 1}, timestamp=1, line=2)
    assert hash(first) == hash(other.events[0])
    assert first != other.add("Noted", {"a": 1}, timestamp=1)


@pytest.mark.parametrize(("payload", "timestamp"), [([1], 1), ("a", 1), ({}, 1.5), ({}, None), ({}, True)])
def test_the_builder_refuses_what_no_event_can_hold(payload: Any, timestamp: Any) -> None:
    """At once, where the caller is, rather than when the log is folded or written."""
    with pytest.raises(LogError, match=r"is not an object|a timestamp is"):
        LogBuilder("run-1", "refund").add("Noted", payload, timestamp=timestamp)
