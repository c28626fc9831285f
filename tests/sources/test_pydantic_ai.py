"""The Pydantic AI source on small files written by hand: what each shape means, and that damage is named as damage."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import load_log, load_logs
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources.pydantic_ai import source

AT = "2026-11-30T10:00:00Z"


def prompt(text: str, run: str = "run-1") -> dict[str, Any]:
    """A request with what a user said."""
    part = {"content": text, "timestamp": AT, "part_kind": "user-prompt"}
    return {"parts": [part], "timestamp": AT, "kind": "request", "run_id": run, "conversation_id": "talk-1"}


def call(name: str, args: Any, call_id: str) -> dict[str, Any]:
    """A tool call of a response."""
    return {"tool_name": name, "args": args, "tool_call_id": call_id, "part_kind": "tool-call"}


def response(*parts: dict[str, Any], run: str = "run-1", **more: Any) -> dict[str, Any]:
    """A model's response."""
    usage = {"input_tokens": 3, "output_tokens": 4}
    return {
        "parts": list(parts),
        "usage": usage,
        "model_name": "fake",
        "timestamp": AT,
        "kind": "response",
        "run_id": run,
        **more,
    }


def answer(name: str, content: Any, call_id: str, **more: Any) -> dict[str, Any]:
    """What came back from a tool."""
    return {"tool_name": name, "content": content, "tool_call_id": call_id, "part_kind": "tool-return", **more}


def request(*parts: dict[str, Any], run: str = "run-1", **more: Any) -> dict[str, Any]:
    """A request with what tools gave back."""
    return {"parts": list(parts), "timestamp": AT, "kind": "request", "run_id": run, **more}


def text(content: str) -> dict[str, Any]:
    """What the model said."""
    return {"content": content, "part_kind": "text"}


WAITING = [prompt("refund A-17"), response(call("refund", {"cents": 4999}, "c1"))]


def one(tmp_path: Path, document: Any, name: str = "run.json") -> Log:
    """The one log of a document in a file."""
    file = tmp_path / name
    file.write_text(json.dumps(document))
    return load_log(file)


def said(log: Log, *kinds: str) -> list[dict[str, Any]]:
    """The payloads of the events of some kinds."""
    return [event.payload for event in log.events if event.event_type in kinds]


def test_a_history_is_a_checkpoint_log_named_after_its_file(tmp_path: Path) -> None:
    """The run's id is the file's name, its aliases stand in the manifest, and its engine never re-runs work."""
    log = one(tmp_path, WAITING, "stay-Ada.json")
    assert (log.execution_id, log.workflow_id, log.source, log.engine) == (
        "stay-Ada",
        "unknown",
        "pydantic_ai",
        "checkpoint",
    )
    assert log.state.manifest == {
        "framework": "pydantic_ai",
        "conversationIds": ["talk-1"],
        "runIds": ["run-1"],
    }
    assert log.state.variables["_input"] == "refund A-17"


def test_what_nothing_answered_yet_waits(tmp_path: Path) -> None:
    """The calls of the last response without a return are pending, joined to their requests by callId."""
    log = one(
        tmp_path,
        [
            prompt("go"),
            response(call("look", '{"x": 1}', "a"), call("pay", {"amount": 5}, "b")),
            request(answer("look", "seen", "a")),
        ],
    )
    assert log.state.status == "suspended"
    (wait,) = log.state.suspensions
    assert (wait.kind, wait.on) == ("approval", "DeferredToolResults")
    assert wait.pending == [{"callId": "b", "name": "pay", "args": {"amount": 5}}]
    assert [(item.name, item.args, item.status) for item in log.state.calls if item.kind == "tool"] == [
        ("look", {"x": 1}, "completed"),
        ("pay", {"amount": 5}, "requested"),
    ]


def test_an_answer_in_a_later_run_ends_a_wait(tmp_path: Path) -> None:
    """A return that another run brought was waited for: suspended and resumed; a denial is a failed call."""
    log = one(
        tmp_path,
        [
            *WAITING,
            request(answer("refund", "no", "c1", outcome="denied"), run="run-2"),
            response(text("sorry"), run="run-2"),
        ],
    )
    assert log.state.status == "completed"
    assert log.state.variables["_output"] == "sorry"
    assert [wait.kind for wait in log.state.waits] == ["approval"]
    assert said(log, "DeferredToolResults") == [{"results": {"c1": "denied"}}]
    assert said(log, "TOOL_FAILED")[0]["error"] == {"type": "ToolDenied", "message": "no"}


def test_a_call_id_that_comes_up_again_is_another_call(tmp_path: Path) -> None:
    """Providers count calls anew in each response: an answer belongs to the response before it."""
    log = one(
        tmp_path,
        [
            prompt("go"),
            response(call("look", {"x": 1}, "call_0")),
            request(answer("look", "one", "call_0")),
            response(call("look", {"x": 2}, "call_0")),
        ],
    )
    assert [(item.call_id, item.status) for item in log.state.calls if item.kind == "tool"] == [
        ("call_0", "completed"),
        ("call_0#2", "requested"),
    ]
    assert log.state.suspensions[0].pending[0]["callId"] == "call_0#2"


@pytest.mark.parametrize(
    ("history", "status", "output"),
    [
        ([prompt("hi"), response(text("hello "), text("you"))], "completed", "hello you"),
        ([prompt("hi")], "running", None),
        ([prompt("hi"), response(text("he"), state="interrupted")], "running", None),
        ([prompt("hi"), response(text("he"), state="suspended")], "suspended", None),
        (
            [
                prompt("hi"),
                response(call("final_result", {"n": 3}, "z"), call("pay", {}, "y")),
                request(answer("final_result", "Final result processed.", "z")),
            ],
            "completed",
            {"n": 3},
        ),
        (
            [
                prompt("hi"),
                response(call("look", {}, "a")),
                request(
                    {"content": "again", "tool_name": "look", "tool_call_id": "a", "part_kind": "retry-prompt"},
                ),
            ],
            "running",
            None,
        ),
        ([*WAITING, request(state="interrupted")], "running", None),
    ],
)
def test_where_a_history_stands(tmp_path: Path, history: Any, status: str, output: Any) -> None:
    """A text, an output tool, a cut-off answer, a request under way, a provider's pause: each is told from the rest."""
    state = one(tmp_path, history).state
    assert (state.status, state.variables.get("_output")) == (status, output)


def test_requests_beside_a_history_say_what_each_call_waits_for(tmp_path: Path) -> None:
    """In an object of the application's own, approvals and calls for other systems are told apart."""
    history = [prompt("go"), response(call("pay", {"amount": 5}, "b"), call("ship", {"to": "Ada"}, "c"))]
    asked = {"approvals": [call("pay", {"amount": 5}, "b")], "calls": [call("ship", {"to": "Ada"}, "c")]}
    log = one(tmp_path, {"id": "order-7", "messages": history, "pending": asked})
    assert log.execution_id == "run"
    assert [(item["callId"], item["kind"]) for item in log.state.suspensions[0].pending] == [
        ("b", "approval"),
        ("c", "external"),
    ]
    whole = {"output": asked, "_state": {"message_history": history}}
    assert one(tmp_path, whole).state.suspensions == log.state.suspensions


def test_requests_alone_are_a_run_that_waits(tmp_path: Path) -> None:
    """A DeferredToolRequests without its history still says what is pending."""
    log = one(tmp_path, {"calls": [call("ship", {"to": "Ada"}, "c")], "approvals": [], "metadata": {}})
    (wait,) = log.state.suspensions
    assert (wait.kind, wait.pending) == (
        "event",
        [{"callId": "c", "name": "ship", "args": {"to": "Ada"}, "kind": "external"}],
    )


def test_several_runs_in_one_file_have_a_name_each(tmp_path: Path) -> None:
    """Runs are named by their own id, by their key, or by their place; a part of another list is no run."""
    done = [prompt("hi"), response(text("hello"))]
    file = tmp_path / "talks.json"
    for document, names in (
        ([{"id": "a", "messages": WAITING}, {"messages": done}], ["a", "talks#2"]),
        ({"ada": WAITING, "bob": done}, ["ada", "bob"]),
        (
            {"rows": [{"conversation_id": "x", "history": done}, {"conversation_id": "x", "history": WAITING}]},
            ["x", "x#2"],
        ),
        ({"all": [*WAITING, *done], "new": done}, ["talks"]),
    ):
        file.write_text(json.dumps(document))
        assert [log.execution_id for log in load_logs(file)] == names


def test_a_broken_run_hides_no_other(tmp_path: Path) -> None:
    """Of several runs in a file, the damaged one is an error that names it, and the others are logs."""
    broken = [prompt("hi"), {"parts": "none", "kind": "response"}]
    file = tmp_path / "talks.json"
    file.write_text(json.dumps({"bad": broken, "good": WAITING}))
    error, log = list(source.read(file))
    assert isinstance(error, LogError)
    assert isinstance(log, Log)
    assert (error.execution_id, error.line, log.execution_id) == ("bad", 2, "good")
    assert "message 2: parts is text, not a list" in str(error)


SNAPSHOTS: list[dict[str, Any]] = [
    {
        "state": {"amount": 0},
        "node": {"node_id": "Load"},
        "start_ts": AT,
        "duration": 0.1,
        "status": "success",
        "kind": "node",
        "id": "Load:1",
    },
    {
        "state": {"amount": 4999},
        "node": {"cents": 4999, "node_id": "Charge"},
        "start_ts": None,
        "duration": None,
        "status": "created",
        "kind": "node",
        "id": "Charge:2",
    },
]


def test_a_graph_waits_before_the_node_that_was_created(tmp_path: Path) -> None:
    """Nodes that ran are steps, the state before the next one is the run's state, and that node is the frontier."""
    state = one(tmp_path, SNAPSHOTS).state
    assert {key: frame.status for key, frame in state.frames.items()} == {"Load": "completed"}
    assert state.state == {"amount": 4999}
    assert (state.suspensions[0].kind, state.suspensions[0].on) == ("breakpoint", "Charge")
    assert state.suspensions[0].pending == {"callId": "Charge:2", "node": "Charge", "args": {"cents": 4999}}


@pytest.mark.parametrize(
    ("status", "folded", "frame"), [("running", "running", "running"), ("error", "failed", "failed")]
)
def test_a_node_that_ran_last_is_not_waited_for(tmp_path: Path, status: str, folded: str, frame: str) -> None:
    """A node that was running when its process died is never picked up again; one that raised ended the run."""
    state = one(tmp_path, [SNAPSHOTS[0], {**SNAPSHOTS[1], "status": status}]).state
    assert (state.status, state.frames["Charge"].status) == (folded, frame)


def test_a_graph_that_came_to_its_end_is_over(tmp_path: Path) -> None:
    """The end's result is the output."""
    end = {"state": {"amount": 1}, "result": {"data": "ok"}, "ts": AT, "kind": "end", "id": "end:3"}
    state = one(tmp_path, [SNAPSHOTS[0], end]).state
    assert (state.status, state.variables["_output"]) == ("completed", "ok")


@pytest.mark.parametrize(
    "document",
    [
        {"pydantic-ai-slim": "2.68.0"},
        {"kind": "request"},
        [{"role": "user", "parts": [{"text": "hi"}]}],
        [{"role": "user", "content": "hi"}],
        {"events": [{"eventId": "1", "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"}]},
        {"calls": [], "name": "phone list"},
    ],
)
def test_other_json_is_not_taken(tmp_path: Path, document: Any) -> None:
    """Files of other makers, and messages of other SDKs, are left to others."""
    assert not source.sniff(tmp_path / "x.json", json.dumps(document).encode())


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    """A torn history is ours, and an error."""
    file = tmp_path / "torn.json"
    file.write_text(json.dumps(WAITING)[:-40])
    with pytest.raises(LogError, match="not JSON"):
        load_log(file)


HOSTILE: dict[str, bytes] = {
    "deep": b'[{"kind":"request","parts":[{"part_kind":"user-prompt","content":' + b"[" * 100_000,
    "deep and whole": json.dumps([prompt("x"), response(call("t", {"x": 1}, "a"))])
    .replace('{"x": 1}', '{"x":' + "[" * 900 + "]" * 900 + "}")
    .encode(),
    "huge number": b'[{"kind":"request","parts":[{"part_kind":"user-prompt","content":' + b"9" * 6000 + b"}]}]",
    "infinite": b'[{"kind":"request","parts":[{"part_kind":"user-prompt","content":1e999}]}]',
    "half a character": b'[{"kind":"request","parts":[{"part_kind":"user-prompt","content":"\\ud800"}]}]',
    "two call ids alike": json.dumps(
        [prompt("x"), response(call("t", {}, "a"), call("t", {}, "a"), call("t", {}, "a#2"))]
    ).encode(),
    "no tool name": json.dumps([prompt("x"), response({"part_kind": "tool-call", "args": {}})]).encode(),
    "another kind": json.dumps([prompt("x"), {"kind": "telegram", "parts": []}]).encode(),
    "part is text": json.dumps([prompt("x"), {"kind": "request", "parts": ["part_kind"]}]).encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_gives_a_log_that_folds_or_an_error(tmp_path: Path, name: str) -> None:
    """Depth, numbers, halves of characters and equal ids neither hang nor crash the reader."""
    for item in source.read(tmp_path / "x.json", HOSTILE[name]):
        if isinstance(item, Log):
            try:
                ids = [one.call_id for one in item.state.calls]
            except LogError:
                continue
            assert len(ids) == len(set(ids))
        else:
            assert not str(item).startswith("Traceback")


def places(value: Any) -> list[tuple[Any, Any]]:
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


def test_no_damage_crashes_the_reader(tmp_path: Path) -> None:
    """With any one value replaced or taken away, the outcome is a log that folds, or a LogError."""
    rng = random.Random(5)
    asked = {"approvals": [call("refund", {"cents": 4999}, "c1")], "calls": []}
    history = [*WAITING, request(answer("refund", "no", "c1"), run="run-2"), response(text("done"), run="run-2")]
    outcomes: Counter[str] = Counter()
    for document in (history, {"messages": WAITING, "pending": asked}, SNAPSHOTS):
        for _ in range(400):
            damaged: Any = copy.deepcopy(document)
            holder, key = rng.choice(places(damaged))
            wrong: Any = rng.choice([None, 0, -7, 1.5, 10**25, True, "", "x", [], [{}], {}, "take away"])
            if wrong == "take away":
                del holder[key]
            else:
                holder[key] = wrong
            for item in source.read(tmp_path / "x.json", json.dumps(damaged).encode()):
                outcomes[type(item).__name__] += 1
                if isinstance(item, Log):
                    assert item.state.events == len(item.events)
    assert outcomes["Log"] > 100
    assert outcomes["LogError"] > 100
