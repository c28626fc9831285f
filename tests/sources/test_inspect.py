"""Inspect AI's logs: the corpus against counts of the raw JSON, each generation's way to write, and what is refused."""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogError, diff_runs, load_log
from pytest_loom.sources import iter_file
from pytest_loom.sources.inspect_ai import source
from tests.sources.wrong_types import spoiled

Json = dict[str, Any]
CONTAINERS = ("init", "solvers", "scorers", "tool", "handoff", "subtask")
REFUSED: dict[str, str] = {}
"""Files of the corpus that are rightly refused, with the reason; none so far."""

SPEC = {
    "task": "refunds",
    "task_id": "T1",
    "created": "2026-01-05T10:00:00+00:00",
    "model": "mock/model",
    "dataset": {},
}


def raw_samples(path: Path) -> Iterator[Json]:
    """The samples of a file, read without our reader."""
    if path.suffix == ".json":
        yield from json.loads(path.read_bytes())["samples"]
        return
    module: Any = zipfile if sys.version_info >= (3, 14) else importlib.import_module("backports.zstd.zipfile")
    with module.ZipFile(path) as file:
        for name in file.namelist():
            if name.startswith("samples/"):
                yield json.loads(file.read(name))


def files(cases: Path) -> list[Path]:
    """Every Inspect log of the corpus."""
    folders = (cases / "corpus" / "inspect_ai", cases / "corpus" / "trajectories" / "inspect-logs")
    return [path for folder in folders for path in sorted(folder.iterdir())]


def event(kind: str, second: int, **facts: Any) -> Json:
    """An event of a sample at that second."""
    return {"event": kind, "timestamp": f"2026-01-05T10:00:{second:02}+00:00", **facts}


def sample(*events: Json, **facts: Any) -> Json:
    """A sample with these events."""
    return {"id": 1, "epoch": 1, "input": "refund A-17", "events": list(events), **facts}


def whole(*samples: Json) -> Json:
    """A log with these samples, as Inspect writes one."""
    return {"version": 2, "status": "success", "eval": SPEC, "samples": list(samples)}


def read(*samples: Json, folder: Path) -> Log:
    """The log of the first sample."""
    path = folder / "log.json"
    path.write_text(json.dumps(whole(*samples)), encoding="utf-8")
    found = next(iter_file(path))
    assert isinstance(found, Log), found
    return found


def tools(log: Log) -> list[tuple[str, Any, str, Any]]:
    """Name, arguments, status and output of each tool call."""
    return [(call.name, call.args, call.status, call.output) for call in log.state.calls if call.kind == "tool"]


class TestCorpus:
    def test_every_sample_is_read_with_all_that_it_did(self, cases: Path) -> None:
        """Steps, model and tool calls, in order, as a plain count of the JSON has them."""
        refused = []
        for path in files(cases):
            found = list(iter_file(path))
            refused += [path.name for item in found if isinstance(item, LogError)]
            logs = [item for item in found if isinstance(item, Log)]
            samples = list(raw_samples(path))
            assert len(logs) == len(samples)
            for log, raw in zip(logs, samples, strict=True):
                events = raw["events"]
                spans = [
                    one["name"] for one in events if one["event"] == "span_begin" and one["type"] not in CONTAINERS
                ]
                spans += [one["name"] for one in events if one["event"] == "step" and one["action"] == "begin"]
                assert [frame.step_id for frame in log.state.frames.values()] == spans
                called = [(one["function"], one["arguments"]) for one in events if one["event"] == "tool"]
                assert [(name, args) for name, args, *_ in tools(log)] == called
                models = [call for call in log.state.calls if call.kind == "model"]
                assert len(models) == sum(one["event"] == "model" for one in events)
                assert log.state.status == ("failed" if raw.get("error") else "completed")
                assert log.engine == "trace"
                assert log.notices == ()
        assert set(refused) == set(REFUSED)

    def test_the_same_run_in_both_formats_is_the_same(self, cases: Path) -> None:
        """The corpus has one task recorded as ``.json`` and as ``.eval``: no difference in steps, calls and outcome."""
        first, second = (load_log(path) for path in files(cases)[:2])
        assert diff_runs(first, second, compare="all") == []
        assert tools(first) == tools(second) != []

    def test_attachments_stand_where_they_are_referred_to(self, cases: Path) -> None:
        """No reference is left in the corpus's logs, and the system prompt of a run is in its first request."""
        for path in files(cases):
            for item in iter_file(path):
                assert isinstance(item, Log)
                assert not any(b"attachment://" in bytes(event.raw) for event in item.events)
        popular = next(path for path in files(cases) if path.name == "log_streaming.eval")
        log = next(item for item in iter_file(popular) if isinstance(item, Log))
        (asked,) = [event.payload for event in log.events if event.event_type == "MODEL_REQUESTED"]
        assert "EXERCISE" in asked["request"]["messages"][0]["content"]

    def test_pooled_messages_are_told_once_each(self, cases: Path) -> None:
        """What a model was told is told with the first call that it was told in."""
        path = next(path for path in files(cases) if "deduplication" in path.name)
        (raw,) = raw_samples(path)
        log = load_log(path)
        asked = [event.payload["request"]["messages"] for event in log.events if event.event_type == "MODEL_REQUESTED"]
        assert [len(messages) for messages in asked] == [1, 2, 2, 2, 2, 2]
        told = [message["id"] for messages in asked for message in messages]
        assert told == [message["id"] for message in raw["message_pool"]]


class TestEvents:
    def test_a_call_ends_when_it_was_completed(self, tmp_path: Path) -> None:
        """What a tool's own agent does comes before the tool is done, though it is written down behind it."""
        outer = event(
            "tool", 1, id="a", function="delegate", arguments={}, result="ok", completed="2026-01-05T10:00:09Z"
        )
        inner = event("tool", 2, id="b", function="look", arguments={}, result=1, completed="2026-01-05T10:00:03Z")
        log = read(sample(outer, inner), folder=tmp_path)
        kinds = [(one.event_type, one.payload["callId"]) for one in log.events if one.event_type.startswith("TOOL")]
        assert kinds == [
            ("TOOL_REQUESTED", "a"),
            ("TOOL_REQUESTED", "b"),
            ("TOOL_COMPLETED", "b"),
            ("TOOL_COMPLETED", "a"),
        ]

    def test_failed_pending_and_repeated_calls(self, tmp_path: Path) -> None:
        """An error is a failure, a pending call has no end, and an id that comes up again gets a number."""
        facts = {"function": "pay", "arguments": {"cents": 5}}
        log = read(
            sample(
                event("tool", 1, id="x", error={"type": "timeout", "message": "too slow"}, **facts),
                event("tool", 2, id="x", result="paid", **facts),
                event("tool", 3, id="y", pending=True, **facts),
            ),
            folder=tmp_path,
        )
        assert [(call.call_id, call.status) for call in log.state.calls] == [
            ("x", "failed"),
            ("x#2", "completed"),
            ("y", "requested"),
        ]
        assert log.state.calls[0].error == {"type": "timeout", "message": "too slow"}

    def test_a_model_that_failed(self, tmp_path: Path) -> None:
        """The error of a model call is told, and its usage where it has one."""
        output = {"choices": [{"message": {"role": "assistant", "content": "hi"}}], "usage": {"total_tokens": 7}}
        log = read(
            sample(
                event("model", 1, model="m", input=[], output={"choices": []}, error="429"),
                event("model", 2, model="m", input=[{"role": "user", "content": "x"}], output=output),
            ),
            folder=tmp_path,
        )
        assert [(call.status, call.error or call.usage) for call in log.state.calls] == [
            ("failed", {"type": "ModelError", "message": "429"}),
            ("completed", {"total_tokens": 7}),
        ]

    def test_spans_are_steps_but_for_inspects_own(self, tmp_path: Path) -> None:
        """A solver, an agent and a span of one's own are steps; what is open around them all is none."""
        spans = [
            ("init", "init"),
            ("solvers", None),
            ("plan", "solver"),
            ("web", "agent"),
            ("mine", None),
            ("t", "tool"),
        ]
        events = [event("span_begin", 1, id=str(n), name=name, type=kind) for n, (name, kind) in enumerate(spans)]
        ends = [event("span_end", 2, id=str(n)) for n in reversed(range(len(spans)))]
        log = read(sample(*events, *ends), folder=tmp_path)
        assert {key: frame.status for key, frame in log.state.frames.items()} == dict.fromkeys(
            ("plan", "web", "mine"), "completed"
        )

    def test_steps_and_sub_events_of_2024(self, tmp_path: Path) -> None:
        """Before spans there were steps in pairs, and what a subtask or tool did stood inside of it."""
        inner = event("tool", 3, id="in", function="look", arguments={}, result=1)
        log = read(
            sample(
                event("step", 1, action="begin", type="solver", name="plan"),
                event("subtask", 2, name="search", input={"q": 1}, result=[2], events=[inner]),
                event("step", 4, action="end", type="solver", name="plan"),
                transcript={},
            ),
            folder=tmp_path,
        )
        frames = log.state.frames
        assert (list(frames), frames["search"].input, frames["search"].output) == (["plan", "search"], {"q": 1}, [2])
        assert [name for name, *_ in tools(log)] == ["look"]

    def test_a_sample_without_events_is_told_by_its_messages(self, tmp_path: Path) -> None:
        """The oldest logs have only the conversation: the calls in it are the same."""
        call = {"id": "c1", "function": "refund", "arguments": {"cents": 5}, "type": "function"}
        messages = [
            {"role": "user", "content": "refund A-17"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "done", "tool_call_id": "c1"},
            {"role": "assistant", "content": "refunded"},
        ]
        log = read(sample(messages=messages, output={"completion": "refunded"}), folder=tmp_path)
        assert tools(log) == [("refund", {"cents": 5}, "completed", "done")]
        assert (log.state.status, log.state.variables["_output"]) == ("completed", "refunded")

    def test_a_log_of_the_first_version(self, tmp_path: Path) -> None:
        """Early in 2024 a log had other dates, no ids, and a tool's error in its message."""
        messages = [
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": "pay", "arguments": {}}]},
            {"role": "tool", "content": "", "tool_error": "closed", "tool_call_id": "c"},
        ]
        old = {"task": "refunds", "run_at": "2024-03-01T10:00:00", "model": "m"}
        path = tmp_path / "log.json"
        path.write_text(json.dumps({"version": 1, "eval": old, "samples": [sample(messages=messages)]}))
        log = load_log(path)
        assert [(call.name, call.status) for call in log.state.calls[1:]] == [("pay", "failed")]

    def test_scores_approvals_and_people(self, tmp_path: Path) -> None:
        """What else counts is an event of its own; an error of the sample is how the run ended."""
        log = read(
            sample(
                event("approval", 1, call={"id": "c", "function": "pay"}, approver="human", decision="reject"),
                event("input", 2, input="yes", input_ansi="yes"),
                event("score", 3, score={"value": "I", "answer": "no"}, scorer="match"),
                event("telepathy", 4),
                error={"message": "out of money"},
            ),
            folder=tmp_path,
        )
        assert [(one.event_type, one.payload) for one in log.state.received] == [
            ("ApprovalDecided", {"callId": "c", "name": "pay", "decision": "reject", "approver": "human"}),
            ("UserPrompt", {"content": "yes"}),
            ("RunScored", {"value": "I", "answer": "no", "scorer": "match"}),
        ]
        assert log.state.variables["_error"]["message"] == "out of money"
        assert log.notices == ("events of a kind that is not known are left out: telepathy",)

    def test_runs_are_told_apart(self, tmp_path: Path) -> None:
        """By the sample's own id, or in older logs by task, sample and epoch; the task is the flow."""
        newer, older = sample(uuid="U1"), sample(epoch=2, id="s")
        path = tmp_path / "log.json"
        path.write_text(json.dumps(whole(newer, older)), encoding="utf-8")
        found = [(item.execution_id, item.workflow_id) for item in iter_file(path) if isinstance(item, Log)]
        assert found == [("U1", "refunds"), ("T1/s/2", "refunds")]

    def test_numbers_that_are_none(self, tmp_path: Path) -> None:
        """Inspect writes NaN and Infinity, which are no JSON: they are told as texts."""
        path = tmp_path / "log.json"
        text = json.dumps(whole(sample(event("score", 1, score={"value": float("nan")}))))
        path.write_text(text, encoding="utf-8")
        assert load_log(path).state.received[0].payload["value"] == "NaN"


class TestDamage:
    @pytest.mark.parametrize(
        ("facts", "words"),
        [
            ({"events": [1]}, "an entry of events is not an object"),
            ({"events": [{"event": "model", "timestamp": "yesterday"}]}, "yesterday is no moment"),
            ({"events": [{"event": "model", "timestamp": "2026-02-31T00:00:00Z"}]}, "is no moment"),
            ({"events": [event("model", 1, input_refs=[[0]])]}, "an entry of input_refs is not two numbers"),
            ({"attachments": [1]}, "attachments is not an object"),
            ({"events": [event("model", 1, output=3)]}, "output is not an object"),
        ],
    )
    def test_a_damaged_sample_is_named_and_hides_no_other(self, facts: Json, words: str, tmp_path: Path) -> None:
        """What is wrong is said with the sample's id, and the next sample is read."""
        path = tmp_path / "log.json"
        path.write_text(json.dumps(whole({**sample(uuid="bad"), **facts}, sample(uuid="good"))), encoding="utf-8")
        broken, good = list(iter_file(path))
        assert isinstance(broken, LogError)
        assert (words in broken.what, broken.execution_id) == (True, "bad")
        assert isinstance(good, Log)

    def test_references_cannot_blow_a_sample_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One attachment that is referred to again and again is bounded, and ranges of a pool are told once."""
        monkeypatch.setattr("pytest_loom.sources.inspect_ai.pools.MAX_DOCUMENT", 1000)
        calls = [event("tool", 1, id=str(n), function="f", arguments={"a": "attachment://x"}) for n in range(20)]
        path = tmp_path / "log.json"
        path.write_text(json.dumps(whole(sample(*calls, attachments={"x": "y" * 100}))), encoding="utf-8")
        with pytest.raises(LogError, match="its attachments come to more than"):
            load_log(path)
        refs = [event("model", 1, input_refs=[[0, 10**9]] * 500, output={}) for _ in range(50)]
        log = read(sample(*refs, events_data={"messages": [{"role": "user"}] * 100, "calls": []}), folder=tmp_path)
        assert sum(len(one.payload["request"]["messages"]) for one in log.events if "request" in one.payload) == 100

    def test_a_log_without_samples_says_so(self, tmp_path: Path) -> None:
        """An evaluation that ended before its first sample is no empty success."""
        path = tmp_path / "log.json"
        path.write_text(json.dumps(whole()), encoding="utf-8")
        with pytest.raises(LogError, match="it has no samples"):
            load_log(path)

    def test_wrong_types_never_crash(self, tmp_path: Path) -> None:
        """Any value in place of any other gives a log or a LogError, never another exception."""
        good = sample(
            event("span_begin", 1, id="s", name="plan", type="solver"),
            event("model", 2, model="m", input=[], input_refs=[[0, 1]], output={"choices": [], "usage": {}}),
            event("tool", 3, id="t", function="f", arguments={}, result="attachment://a", error=None),
            event("subtask", 4, name="n", input={}, result=1, events=[]),
            event("step", 5, action="begin", type="x", name="y"),
            event("approval", 6, call={}, decision="approve"),
            event("score", 7, score={}),
            attachments={"a": "b"},
            events_data={"messages": [{}], "calls": []},
            output={"completion": "", "choices": [{"message": {"content": "x"}}]},
            error=None,
        )
        path = tmp_path / "log.json"

        for broken in spoiled(good):
            path.write_text(json.dumps(whole(broken)), encoding="utf-8")
            for item in source.read(path):
                assert isinstance(item, LogError) or item.state


def test_zstandard_is_asked_for_by_name(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anything that reads zstandard the log is refused, and the extra is what to type next."""
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    path = next(path for path in files(cases) if path.suffix == ".eval")
    with pytest.raises(LogError) as caught:
        load_log(path)
    assert "zstandard" in caught.value.what
    assert "pip install 'pytest-loom[inspect]'" in caught.value.hint
