"""OpenTelemetry traces of agents as logs: every convention, contents that were not captured, and hostile files."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import load_log, load_logs, simulate_deploy
from pytest_loom.errors import LogError
from pytest_loom.log.event import Log
from pytest_loom.sources.otel import source

T = 1_796_000_000_000_000_000
ARGS = {"order": "A-17"}


def value(said: Any) -> dict[str, Any]:
    """An AnyValue."""
    if isinstance(said, bool):
        return {"boolValue": said}
    if isinstance(said, int):
        return {"intValue": str(said)}
    if isinstance(said, float):
        return {"doubleValue": said}
    if isinstance(said, list):
        return {"arrayValue": {"values": [value(one) for one in said]}}
    if isinstance(said, dict):
        return {"kvlistValue": {"values": attributes(said)}}
    return {"stringValue": said}


def attributes(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Attributes as OTLP writes them."""
    return [{"key": key, "value": value(one)} for key, one in said.items()]


def span(number: int, parent: int | None, at: int, said: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A span that begins and ends at so many milliseconds, two apart."""
    found = {
        "traceId": f"{1:032x}",
        "spanId": f"{number:016x}",
        "name": more.pop("name", "span"),
        "startTimeUnixNano": str(T + at * 1_000_000),
        "endTimeUnixNano": str(T + (at + more.pop("lasts", 2)) * 1_000_000),
        "attributes": attributes(said),
        "status": more.pop("status", {}),
    }
    events = more.pop("events", [])
    found["events"] = [{"name": name, "attributes": attributes(one)} for name, one in events]
    return found | ({"parentSpanId": f"{parent:016x}"} if parent else {}) | more


def request(*spans: Any, **more: Any) -> dict[str, Any]:
    """An export request."""
    resource = {"attributes": attributes({"service.name": "desk", "service.version": "1.2"})}
    scoped = {"scope": {"name": "tests"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}], **more}


def saved(folder: Path, *requests: Any, name: str = "spans.json") -> Path:
    """A file with export requests, one a line."""
    path = folder / name
    path.write_text("\n".join(json.dumps(one) for one in requests))
    return path


def said(kind: str, **more: Any) -> dict[str, Any]:
    """The attributes of an operation."""
    return {"gen_ai.operation.name": kind} | {key.replace("__", "."): one for key, one in more.items()}


def call(name: str = "lookup", given: str = "c1", args: Any = None) -> dict[str, Any]:
    """A tool call as today's convention writes it."""
    return {"type": "tool_call", "id": given, "name": name, "arguments": ARGS if args is None else args}


def message(role: str, *parts: Any) -> dict[str, Any]:
    """A message of today's convention."""
    return {"role": role, "parts": [{"type": "text", "content": one} if isinstance(one, str) else one for one in parts]}


USER = message("user", "refund A-17")
OUTPUT = [message("assistant", call())]
FUNCTION = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": json.dumps(ARGS)}}
AGENT = span(1, None, 0, said("invoke_agent", gen_ai__agent__name="support"), lasts=100)
TOOL = said("execute_tool", gen_ai__tool__name="lookup", gen_ai__tool__call__id="c1")
RAN = TOOL | {"gen_ai.tool.call.arguments": json.dumps(ARGS), "gen_ai.tool.call.result": "paid"}
BODY = {"message": {"role": "assistant", "tool_calls": [FUNCTION]}, "index": 0, "finish_reason": "tool_calls"}

CONVENTIONS: dict[str, tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]] = {
    "text": ({"gen_ai.input.messages": json.dumps([USER]), "gen_ai.output.messages": json.dumps(OUTPUT)}, []),
    "structured": ({"gen_ai.input.messages": [USER], "gen_ai.output.messages": OUTPUT}, []),
    "details": (
        {},
        [
            (
                "gen_ai.client.inference.operation.details",
                {"gen_ai.input.messages": [USER], "gen_ai.output.messages": OUTPUT},
            )
        ],
    ),
    "events": ({}, [("gen_ai.user.message", {"content": "refund A-17"}), ("gen_ai.choice", BODY)]),
    "events with text": (
        {},
        [
            ("gen_ai.user.message", {"content": json.dumps([{"text": "refund A-17"}])}),
            (
                "gen_ai.choice",
                {"message": json.dumps([{"toolUse": {"toolUseId": "c1", "name": "lookup", "input": ARGS}}])},
            ),
        ],
    ),
    "events with one attribute": (
        {},
        [
            ("gen_ai.user.message", {"gen_ai.event.content": json.dumps({"content": "refund A-17"})}),
            ("gen_ai.choice", {"gen_ai.event.content": json.dumps(BODY)}),
        ],
    ),
    "contents of 1.27": (
        {},
        [
            ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps([{"role": "user", "content": "refund A-17"}])}),
            (
                "gen_ai.content.completion",
                {"gen_ai.completion": json.dumps([{"role": "assistant", "content": "", "tool_calls": [FUNCTION]}])},
            ),
        ],
    ),
    "attribute of Pydantic AI's version 1": (
        {
            "events": json.dumps(
                [
                    {"event.name": "gen_ai.user.message", "role": "user", "content": "refund A-17"},
                    {"event.name": "gen_ai.choice", **BODY},
                ]
            )
        },
        [],
    ),
    "provider's client of Logfire": (
        {
            "request_data": json.dumps({"messages": [{"role": "user", "content": "refund A-17"}]}),
            "response_data": json.dumps({"message": {"role": "assistant", "tool_calls": [FUNCTION]}}),
        },
        [],
    ),
    "numbered": (
        {
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "refund A-17",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.tool_calls.0.id": "c1",
            "gen_ai.completion.0.tool_calls.0.name": "lookup",
            "gen_ai.completion.0.tool_calls.0.arguments": json.dumps(ARGS),
        },
        [],
    ),
}


def calls(log: Log) -> list[tuple[str, Any, str, Any]]:
    """The tool calls of a log."""
    return [(one.name, one.args, one.status, one.output) for one in log.state.calls if one.kind == "tool"]


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_tells_the_same_run(convention: str, tmp_path: Path) -> None:
    """Wherever the messages stand: the user's words are the input, the model's calls are asked for, and run once."""
    extra, events = CONVENTIONS[convention]
    model = span(
        2, 1, 1, said("chat", gen_ai__request__model="m", gen_ai__usage__input_tokens=5) | extra, events=events
    )
    log = load_log(saved(tmp_path, request(AGENT, model, span(3, 1, 4, RAN))))
    assert (log.workflow_id, log.execution_id, log.engine, log.source) == ("support", f"{1:032x}", "trace", "otel")
    assert log.state.variables["_input"] == "refund A-17"
    assert calls(log) == [("lookup", ARGS, "completed", "paid")]
    (model_call,) = [one for one in log.state.calls if one.kind == "model"]
    assert (model_call.name, model_call.usage, model_call.status) == ("m", {"input_tokens": 5}, "completed")
    assert log.notices == ()
    assert (log.events[0].timestamp, log.events[-1].timestamp) == (T // 1_000_000, T // 1_000_000 + 100)


def test_messages_in_log_records(tmp_path: Path) -> None:
    """Events that are log records belong to their span, in the same file or line."""
    place = {"traceId": f"{1:032x}", "spanId": f"{2:016x}"}
    records = [
        {**place, "eventName": "gen_ai.user.message", "body": value({"content": "refund A-17"})},
        {**place, "attributes": attributes({"event.name": "gen_ai.choice"}), "body": value(BODY)},
    ]
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    path = saved(tmp_path, request(AGENT, span(2, 1, 1, said("chat"))), logs, name="all.jsonl")
    assert calls(load_log(path)) == [("lookup", ARGS, "requested", None)]


def test_what_is_told_in_which_order(tmp_path: Path) -> None:
    """Agents and workflow nodes below the top are steps; what ran at once is told in order of start."""
    spans = [
        span(1, None, 0, said("invoke_workflow", gen_ai__workflow__name="returns"), lasts=100),
        span(5, 1, 30, said("invoke_agent", gen_ai__agent__name="writer"), lasts=5),
        span(3, 1, 10, said("invoke_agent", gen_ai__agent__name="checker"), lasts=60),
        span(4, 3, 40, RAN),
        span(2, 1, 1, said("create_agent", gen_ai__agent__name="checker")),
        span(6, 1, 90, said("retrieval"), name="retrieval orders"),
        span(7, 1, 95, said("embeddings", gen_ai__request__model="e")),
        span(8, 1, 96, {"http.request.method": "GET"}),
    ]
    log = load_log(saved(tmp_path, request(*spans)))
    assert (log.workflow_id, list(log.state.frames)) == ("returns", ["checker", "writer", "orders"])
    assert [(one.kind, one.name) for one in log.state.calls] == [("tool", "lookup"), ("model", "e")]
    kinds = [event.event_type for event in log.events]
    assert kinds[1:6] == ["AgentCreated", "STEP_STARTED", "TOOL_REQUESTED", "TOOL_COMPLETED", "STEP_COMPLETED"]
    assert log.state.manifest["agents"] == ["checker", "writer"]
    assert (log.state.manifest["service"], log.state.manifest["serviceVersion"]) == ("desk", "1.2")


def test_errors(tmp_path: Path) -> None:
    """A span with an error failed, with the exception's words where there are any; the top's error is the run's."""
    thrown = [("exception", {"exception.type": "TimeoutError", "exception.message": "too slow"})]
    failed = {"code": "STATUS_CODE_ERROR", "message": "it broke"}
    top = span(1, None, 0, said("invoke_agent"), status={"code": 2, "message": "it broke"}, lasts=100)
    spans = [
        top,
        span(2, 1, 1, said("chat", error__type="429")),
        span(3, 1, 4, RAN, status=failed, events=thrown),
        span(4, 1, 8, said("invoke_agent", gen_ai__agent__name="inner"), status=failed),
    ]
    state = load_log(saved(tmp_path, request(*spans))).state
    assert state.status == "failed"
    assert state.variables["_error"] == {"type": "SpanError", "message": "it broke"}
    assert [one.error for one in state.calls] == [
        {"type": "429", "message": "the span failed"},
        {"type": "TimeoutError", "message": "too slow"},
    ]
    assert state.frames["inner"].error == {"type": "SpanError", "message": "it broke"}


def test_a_run_in_two_traces_is_one_log(tmp_path: Path) -> None:
    """Traces of one conversation are one run: it waited for a call's result, and went on with it."""
    talk = {"gen_ai.conversation.id": "talk-1"}
    other = {"traceId": f"{2:032x}"}
    answer = message("tool", {"type": "tool_call_response", "id": "c1", "response": "paid"})
    first = said("chat") | {"gen_ai.output.messages": OUTPUT}
    second = said("chat") | {
        "gen_ai.input.messages": [answer],
        "gen_ai.output.messages": [message("assistant", "done")],
    }
    agent = said("invoke_agent", gen_ai__agent__name="support") | talk
    lines = [
        request(span(7, 6, 201, second, **other)),
        request(span(1, None, 0, agent, lasts=9), span(6, None, 200, agent, lasts=9, **other)),
        request(span(2, 1, 1, first)),
    ]
    log = load_log(saved(tmp_path, *lines, name="spans.jsonl"))
    assert (log.execution_id, log.workflow_id, list(log.state.frames)) == ("talk-1", "support", [])
    assert log.state.manifest["aliases"] == [f"{1:032x}", f"{2:032x}"]
    assert (log.state.status, log.state.variables["_output"]) == ("completed", "done")
    assert [wait.on for wait in log.state.waits] == ["ToolResults"]
    assert calls(log) == [("lookup", ARGS, "completed", "paid")]


def test_a_run_that_waits(tmp_path: Path) -> None:
    """Calls that nothing answered are what the run waits for, unless it says what it gave."""
    model = span(2, 1, 1, said("chat") | {"gen_ai.output.messages": OUTPUT})
    log = load_log(saved(tmp_path, request(AGENT, model)))
    assert log.state.suspension is not None
    assert log.state.suspension.pending == [{"callId": "c1", "name": "lookup", "args": ARGS}]
    top = span(1, None, 0, said("invoke_agent") | {"final_result": "4999"}, lasts=100)
    state = load_log(saved(tmp_path, request(top, model))).state
    assert (state.status, state.variables["_output"]) == ("completed", "4999")


def test_contents_that_were_not_captured(tmp_path: Path) -> None:
    """Without contents, steps and calls are told all the same, arguments and results are absent, and it is said."""
    log = load_log(saved(tmp_path, request(AGENT, span(2, 1, 1, said("chat")), span(3, 1, 4, TOOL))))
    (tool,) = [event for event in log.events if event.event_type == "TOOL_REQUESTED"]
    assert tool.payload == {"callId": "c1", "name": "lookup"}
    assert log.state.variables.get("_input") is None
    (notice,) = log.notices
    assert "1 of 1 model calls without messages" in notice
    assert "1 of 1 tool calls without arguments" in notice


def test_openllmetry_of_a_graph(tmp_path: Path) -> None:
    """Tasks are steps where they are nodes of the graph; LangChain's wrapping is taken off."""
    beside = "traceloop.association.properties."

    def task(name: str, node: str, namespace: str, **more: Any) -> dict[str, Any]:
        place = {f"{beside}langgraph_node": node, f"{beside}langgraph_checkpoint_ns": namespace}
        kind = {"traceloop.span.kind": "task", "traceloop.entity.name": name, "gen_ai.operation.name": "execute_task"}
        return kind | place | {f"traceloop.entity.{key}": json.dumps(one) for key, one in more.items()}

    wrapped: dict[str, Any] = {"input_str": str(ARGS), "tags": [], "metadata": {}, "inputs": None}
    given = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"]}
    given["kwargs"] = {"content": "paid", "type": "tool", "tool_call_id": "c1"}
    tool = said("execute_tool", gen_ai__tool__name="lookup") | {"gen_ai.tool.call.arguments": json.dumps(wrapped)}
    tool |= {"traceloop.entity.input": json.dumps(wrapped)}
    tool |= {"traceloop.entity.output": json.dumps({"output": given, "kwargs": {}})}
    stopped = {"status": {"code": 2}, "events": [("exception", {"exception.type": "langgraph.errors.GraphInterrupt"})]}
    graph = {"traceloop.span.kind": "workflow", "traceloop.entity.name": "Graph", f"{beside}thread_id": "t1"}
    spans = [
        span(1, None, 0, said("invoke_agent", gen_ai__agent__name="Graph"), lasts=90),
        span(2, 1, 1, graph | {"gen_ai.operation.name": "invoke_agent"}, lasts=80),
        span(3, 2, 2, task("agent", "agent", "agent:1"), lasts=10),
        span(4, 3, 3, said("chat") | {"gen_ai.output.messages": OUTPUT}),
        span(5, 3, 6, task("route", "agent", "agent:1")),
        span(6, 2, 20, task("tools", "tools", "tools:1", output={"outputs": {"x": 1}, "kwargs": {}}), lasts=10),
        span(7, 6, 21, tool),
        span(8, 2, 40, task("approve", "approve", "approve:1"), **stopped),
    ]
    log = load_log(saved(tmp_path, request(*spans)))
    assert (log.execution_id, log.workflow_id) == ("t1", "Graph")
    assert [(frame.key, frame.output) for frame in log.state.frames.values()] == [("agent", None), ("tools", {"x": 1})]
    assert calls(log) == [("lookup", ARGS, "completed", "paid")]
    assert [(wait.on, wait.kind, wait.pending) for wait in log.state.waits] == [
        ("InterruptAnswered", "question", {"step": "approve"})
    ]


def test_two_instrumentations_of_one_call_are_one(tmp_path: Path) -> None:
    """A span directly inside one of the same model, tool or agent tells it again: once, with what either knows."""
    spans = [
        span(1, None, 0, said("invoke_agent", gen_ai__agent__name="support"), lasts=90),
        span(2, 1, 1, said("invoke_agent", gen_ai__agent__name="support"), lasts=80),
        span(3, 2, 2, said("chat"), lasts=9),
        span(4, 3, 3, {"http.route": "/"}, lasts=7),
        span(5, 4, 4, said("chat", gen_ai__request__model="m") | {"gen_ai.output.messages": OUTPUT}),
        span(6, 2, 20, TOOL, lasts=9),
        span(7, 6, 21, said("execute_tool", gen_ai__tool__name="lookup") | {"gen_ai.tool.call.result": "paid"}),
        span(8, 2, 40, said("execute_tool", gen_ai__tool__name="lookup"), lasts=9),
        span(9, 8, 41, said("execute_tool", gen_ai__tool__name="other")),
    ]
    log = load_log(saved(tmp_path, request(*spans)))
    assert list(log.state.frames) == []
    assert [(one.kind, one.name) for one in log.state.calls] == [
        ("model", "m"),
        ("tool", "lookup"),
        ("tool", "lookup"),
        ("tool", "other"),
    ]
    assert calls(log)[0] == ("lookup", ARGS, "completed", "paid")


def test_decorated_functions(tmp_path: Path) -> None:
    """OpenLLMetry's decorators: the workflow is the run, a task a step, a tool a call, with what they took and gave."""

    def entity(kind: str, name: str, took: Any, gave: Any) -> dict[str, Any]:
        head = {"traceloop.span.kind": kind, "traceloop.entity.name": name}
        return head | {"traceloop.entity.input": json.dumps(took), "traceloop.entity.output": json.dumps(gave)}

    spans = [
        span(1, None, 0, entity("workflow", "returns", {"args": ["A-17"], "kwargs": {}}, {"paid": 1}), lasts=50),
        span(2, 1, 1, entity("task", "assess", {"args": [], "kwargs": {"x": 1}}, {"ok": True})),
        span(3, 1, 5, entity("tool", "lookup", {"args": [], "kwargs": ARGS}, ["paid"])),
    ]
    log = load_log(saved(tmp_path, request(*spans)))
    assert (log.workflow_id, log.state.variables["_output"]) == ("returns", {"paid": 1})
    assert log.state.frames["assess"].output == {"ok": True}
    assert calls(log) == [("lookup", ARGS, "completed", ["paid"])]


def test_every_spelling_of_otlp_is_read(tmp_path: Path) -> None:
    """Ids in base64, names of enums, snake_case and gzip tell the same run as the specification's own spelling."""
    model = span(2, 1, 1, said("chat") | {"gen_ai.output.messages": OUTPUT})
    plain = json.dumps(request(AGENT, model, span(3, 1, 4, RAN)))
    golden = tmp_path / "a.json"
    golden.write_text(plain)
    snake = re.sub(r'"(\w+)":', lambda found: f'"{re.sub("(?=[A-Z])", "_", found[1]).lower()}":', plain)
    snake = snake.replace(f'"{1:032x}"', '"AAAAAAAAAAAAAAAAAAAAAQ=="').replace(f'"{1:016x}"', '"AAAAAAAAAAE="')
    other = tmp_path / "b.json.gz"
    other.write_bytes(gzip.compress(snake.encode()))
    assert list(load_log(golden)) == list(load_log(other))
    assert load_log(other).execution_id == f"{1:032x}"


def test_traces_of_one_file_do_not_mix(tmp_path: Path) -> None:
    """Spans of several traces interleave, some lines apart: each trace is a run, those without agents are none."""
    others = [{"traceId": f"{number:032x}"} for number in (2, 3)]
    lines = [
        request(span(2, 1, 1, RAN)),
        request(span(1, None, 0, {"http.route": "/"}, **others[0]), span(9, None, 5, RAN, **others[1])),
        request(AGENT),
    ]
    logs = list(load_logs(saved(tmp_path, *lines, name="spans.jsonl")))
    assert [(log.execution_id[-1], log.workflow_id) for log in logs] == [("1", "support"), ("3", "desk")]
    assert [len(calls(log)) for log in logs] == [1, 1]


@pytest.mark.parametrize(
    ("spans", "what"),
    [
        ([span(1, 2, 0, RAN), span(2, 1, 0, RAN)], "its own ancestor"),
        ([span(1, 1, 0, RAN)], "its own ancestor"),
        ([span(1, None, 0, RAN), span(1, None, 0, TOOL)], "two different spans"),
        ([span(1, None, 0, RAN) | {"spanId": ""}], "no id"),
        ([span(1, None, 0, RAN) | {"traceId": 7}], "traceId"),
        ([span(1, None, 0, RAN) | {"startTimeUnixNano": "yesterday"}], "nanoseconds"),
        ([span(1, None, 0, RAN) | {"endTimeUnixNano": -1}], "nanoseconds"),
        ([span(1, None, 0, RAN) | {"attributes": {"a": 1}}], "attributes"),
        ([span(1, None, 0, RAN) | {"attributes": [{"value": {}}]}], "no key"),
        ([span(1, None, 0, RAN) | {"attributes": [{"key": "a", "value": {"intValue": 2**70}}]}], "64 bits"),
        ([span(1, None, 0, RAN) | {"status": "bad"}], "status"),
        ([span(1, None, 0, RAN) | {"events": [3]}], "events"),
        ([7], "spans"),
        ([span(1, None, 0, {"http.route": "/"})], "GenAI semantic conventions"),
    ],
)
def test_what_is_no_trace_is_refused(spans: list[Any], what: str, tmp_path: Path) -> None:
    """A span that has not its shape, or cannot be where it says, is a LogError that names the file."""
    path = saved(tmp_path, request(*spans))
    with pytest.raises(LogError, match=what) as caught:
        load_log(path)
    assert caught.value.path == str(path)


def test_a_span_that_was_sent_twice_counts_once(tmp_path: Path) -> None:
    """Exporters may send again; what is only there while a span runs is no span of its own."""
    pending = span(8, 1, 0, said("invoke_agent") | {"logfire.span_type": "pending_span"})
    path = saved(tmp_path, request(AGENT, span(3, 1, 4, RAN), pending), request(span(3, 1, 4, RAN)))
    log = load_log(path)
    assert (len(calls(log)), list(log.state.frames)) == (1, [])


def test_a_torn_line_is_named(tmp_path: Path) -> None:
    """A cut last line is an error that names it, and nothing is made of the rest."""
    path = saved(tmp_path, request(AGENT), request(span(2, 1, 1, RAN)), name="spans.jsonl")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(LogError, match="line 2"):
        load_log(path)


def test_deep_and_long_traces_end(tmp_path: Path) -> None:
    """Thousands of spans inside each other, or one after the other, are read as they are."""
    agents = [said("invoke_agent", gen_ai__agent__name=f"a{number}") for number in range(3000)]
    deep = [span(number + 1, number, number, one) for number, one in enumerate(agents)]
    assert len(load_log(saved(tmp_path, request(*deep))).state.frames) == 2999
    long = [span(number + 2, 1, number, TOOL) for number in range(3000)]
    assert len(calls(load_log(saved(tmp_path, request(AGENT, *long))))) == 3000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
WHOLE = request(AGENT, span(2, 1, 1, said("chat") | CONVENTIONS["numbered"][0]), span(3, 1, 4, RAN))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_a_log_or_a_log_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever stands in any place of a trace: logs that fold, or LogErrors, and nothing else."""
    document = json.loads(json.dumps(WHOLE))
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        one = waiting.pop()
        for key, inner in one.items() if isinstance(one, dict) else enumerate(one):
            places.append((one, key))
            waiting += [inner] if isinstance(inner, dict | list) else []
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(JSON)
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_text(json.dumps(document))
    for item in source.read(path):
        assert isinstance(item, Log | LogError)
        assert not isinstance(item, Log) or item.state.status


def test_nothing_is_judged_for_a_deploy(tmp_path: Path) -> None:
    """A trace is no run that waits for a deploy: nothing is found in it."""
    path = saved(tmp_path, request(AGENT, span(2, 1, 1, said("chat") | {"gen_ai.output.messages": OUTPUT})))
    assert simulate_deploy(str(path), {}, scope="all").findings == []


def test_the_corpus(cases: Path) -> None:
    """Every trace of the corpus is read; runs, models and tool calls are as many as a walk of the raw file counts."""
    files = sorted((cases / "corpus" / "otel_genai").glob("*.json*"))
    assert files
    for path in files:
        raw = json.loads(path.read_bytes())
        logs = list(load_logs(path))
        spans = [one for group in raw["resourceSpans"] for scoped in group["scopeSpans"] for one in scoped["spans"]]
        told = [{one["key"]: one["value"].get("stringValue", "") for one in span["attributes"]} for span in spans]
        models = [one for one in told if one.get("gen_ai.operation.name") == "chat"]
        asked = {
            part["id"]
            for one in models
            for said in json.loads(one["gen_ai.output.messages"])
            for part in said["parts"]
            if part["type"] == "tool_call"
        }
        ran = {one["gen_ai.tool.call.id"] for one in told if one.get("gen_ai.operation.name") == "execute_tool"}
        ours = [one for log in logs for one in log.state.calls]
        assert len([one for one in ours if one.kind == "model"]) == len(models), path.name
        assert {one.call_id for one in ours if one.kind == "tool"} == asked | ran, path.name
        assert {one.call_id for one in ours if one.kind == "tool" and one.status == "completed"} == ran, path.name
        assert [frame for log in logs for frame in log.state.frames] == [], path.name
