"""The same run in two formats is the same run: recorded with the real libraries and fake models, then compared.

Each maker runs one application once and keeps it twice. The first log is the golden, the second the candidate.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_loom import diff_runs, load_log, score_run
from pytest_loom.evals.scorers import trajectory_match
from pytest_loom.log.event import Log

PATH = ["status", "step-missing", "step-extra", "tool-args"]
"""What is compared between two formats: docs/traces.md."""

Maker = Callable[[Path, int, bool], tuple[Path, Path]]
"""Folder, cents of the refund, whether somebody approves it -> the same run in two files."""


def agents_run(folder: Path, cents: int, approved: bool) -> tuple[Path, Path]:
    """OpenAI Agents SDK: a run state, and the exported trace of the run."""
    sdk: Any = pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")
    if not hasattr(sdk, "FunctionTool"):
        pytest.skip("needs openai-agents, and this is another package named agents")
    told: Any = importlib.import_module("openai.types.responses")

    def call(call_id: str, name: str, **args: Any) -> Any:
        return told.ResponseFunctionToolCall(
            type="function_call", id=f"fc_{call_id}", call_id=call_id, name=name, arguments=json.dumps(args)
        )

    text = told.ResponseOutputText(type="output_text", text="done", annotations=[])
    last = told.ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
    turns = iter([[call("c1", "lookup", order="A-17")], [call("c2", "refund", order="A-17", cents=cents)], [last]])

    class Fake(sdk.Model):  # type: ignore[misc]
        async def get_response(self, *_: Any, **asked: Any) -> Any:
            given = asked["input"]
            items = [{"role": "user", "content": given}] if isinstance(given, str) else given
            with sdk.generation_span(input=list(items), model="fake") as span:
                output = next(turns)
                span.span_data.output = [item.model_dump() for item in output]
                return sdk.ModelResponse(output=output, usage=sdk.Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    class Keep(sdk.tracing.TracingProcessor):  # type: ignore[misc]
        def __init__(self) -> None:
            self.spans: list[Any] = []

        def on_trace_start(self, trace: Any) -> None:
            self.spans.append(trace.export())

        def on_trace_end(self, trace: Any) -> None: ...

        def on_span_start(self, span: Any) -> None: ...

        def on_span_end(self, span: Any) -> None:
            self.spans.append(span.export())

        def shutdown(self, *_: Any, **__: Any) -> None: ...

        def force_flush(self) -> None: ...

    @sdk.function_tool  # type: ignore[untyped-decorator]
    def lookup(order: str) -> str:
        return "paid 4999"

    @sdk.function_tool(needs_approval=True)  # type: ignore[untyped-decorator]
    def refund(order: str, cents: int) -> str:
        return f"refunded {cents}"

    kept = Keep()
    sdk.set_trace_processors([kept])
    sdk.set_tracing_disabled(False)
    try:
        agent = sdk.Agent(name="support", model=Fake(), tools=[lookup, refund])
        result = asyncio.run(sdk.Runner.run(agent, "refund A-17", run_config=sdk.RunConfig(workflow_name="desk")))
        if approved:
            state = result.to_state()
            state.approve(state.get_interruptions()[0])
            result = asyncio.run(sdk.Runner.run(agent, state))
    finally:
        sdk.set_trace_processors([])
        sdk.set_tracing_disabled(True)
    golden, candidate = folder / "run.json", folder / "spans.json"
    golden.write_text(json.dumps(result.to_state().to_json()))
    candidate.write_text(json.dumps(kept.spans))
    return golden, candidate


def graph_run(folder: Path, cents: int, approved: bool) -> tuple[Path, Path]:
    """LangGraph: a thread in a checkpoint store, and LangSmith's run trees of it."""
    for needed in ("langgraph.checkpoint.sqlite", "langchain", "langsmith"):
        pytest.importorskip(needed, reason="needs the extra: pip install pytest-loom[langgraph] langchain")
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.tools import tool
    from langchain_core.tracers import LangChainTracer
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode
    from langgraph.types import Command, interrupt
    from langsmith import Client

    @tool  # type: ignore[untyped-decorator]
    def lookup(order: str) -> str:
        """Look an order up."""
        return "paid 4999"

    @tool  # type: ignore[untyped-decorator]
    def refund(order: str, cents: int) -> str:
        """Pay an order back."""
        return f"refunded {cents}"

    def call(call_id: str, name: str, **args: Any) -> Any:
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": call_id}])

    said = [call("c1", "lookup", order="A-17"), call("c2", "refund", order="A-17", cents=cents), AIMessage("done")]
    model = GenericFakeChatModel(messages=iter(said))

    def agent(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def approve(state: Any) -> Any:
        return Command(goto="tools" if interrupt({"question": "sure?"}) else END)

    def weigh(state: Any) -> Any:
        return {}

    def route(state: Any) -> str:
        calls = state["messages"][-1].tool_calls
        return "report" if not calls else "approve" if calls[0]["name"] == "refund" else "tools"

    def where(state: Any) -> Any:
        return END

    inner = StateGraph(MessagesState).add_node("weigh", weigh).add_edge(START, "weigh").compile()
    builder: Any = StateGraph(MessagesState)
    builder.add_node("intake", inner).add_node("agent", agent).add_node("tools", ToolNode([lookup, refund]))
    builder.add_node("approve", approve, destinations=("tools", END)).add_node("report", weigh)
    builder.add_edge(START, "intake").add_edge("intake", "agent").add_edge("tools", "agent")
    builder.add_conditional_edges("agent", route, ["tools", "approve", "report"])
    builder.add_conditional_edges("report", where, [END])

    class Quiet(Client):  # type: ignore[misc]
        def create_run(self, *_: Any, **__: Any) -> None: ...

        def update_run(self, *_: Any, **__: Any) -> None: ...

    class Keep(LangChainTracer):  # type: ignore[misc]
        def _persist_run(self, run: Any) -> None:
            trees.append(tree(run))

    def tree(run: Any) -> dict[str, Any]:
        fields = json.loads(run.model_dump_json(exclude={"child_runs", "parent_run", "client"}))
        return {**fields, "child_runs": [tree(child) for child in run.child_runs]}

    trees: list[dict[str, Any]] = []
    nowhere = SimpleNamespace(headers={}, mount=lambda *_: None, close=lambda: None)
    client = Quiet(api_url="http://127.0.0.1:9", api_key="none", session=nowhere, auto_batch_tracing=False)
    golden, candidate = folder / "threads.sqlite", folder / "runs.json"
    with SqliteSaver.from_conn_string(str(golden)) as saver:
        graph = builder.compile(checkpointer=saver)
        for given in [{"messages": [HumanMessage("refund A-17")]}, Command(resume=True)][: 2 if approved else 1]:
            config = {"configurable": {"thread_id": "t1"}, "callbacks": [Keep(client=client, project_name="desk")]}
            graph.invoke(given, config)
    candidate.write_text(json.dumps(trees))
    return golden, candidate


def model_run(folder: Path, cents: int, approved: bool) -> tuple[Path, Path]:
    """Pydantic AI: a message history, and the spans of its own instrumentation as OTLP JSON."""
    pai: Any = pytest.importorskip("pydantic_ai", reason="needs the extra: pip install pytest-loom[pydantic-ai]")
    export: Any = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.common.trace_encoder",
        reason="needs opentelemetry-sdk and opentelemetry-exporter-otlp-proto-common",
    )
    printed: Any = importlib.import_module("google.protobuf.json_format")
    tracing: Any = importlib.import_module("opentelemetry.sdk.trace")
    exporting: Any = importlib.import_module("opentelemetry.sdk.trace.export")
    memory: Any = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    messages: Any = importlib.import_module("pydantic_ai.messages")
    models: Any = importlib.import_module("pydantic_ai.models.function")
    settings: Any = importlib.import_module("pydantic_ai.models.instrumented").InstrumentationSettings

    turns = iter(
        [
            messages.ModelResponse([messages.ToolCallPart("lookup", {"order": "A-17"}, tool_call_id="c1")]),
            messages.ModelResponse(
                [messages.ToolCallPart("refund", {"order": "A-17", "cents": cents}, tool_call_id="c2")]
            ),
            messages.ModelResponse([messages.TextPart("done")]),
        ]
    )
    spans, provider = memory.InMemorySpanExporter(), tracing.TracerProvider()
    provider.add_span_processor(exporting.SimpleSpanProcessor(spans))
    agent = pai.Agent(
        models.FunctionModel(lambda *_: next(turns)),
        name="support",
        output_type=[str, pai.DeferredToolRequests],
    )
    agent.instrument = settings(tracer_provider=provider)

    @agent.tool_plain  # type: ignore[untyped-decorator]
    def lookup(order: str) -> str:
        return "paid 4999"

    @agent.tool_plain(requires_approval=True)  # type: ignore[untyped-decorator]
    def refund(order: str, cents: int) -> str:
        return f"refunded {cents}"

    result = asyncio.run(agent.run("refund A-17"))
    if approved:
        decided = pai.DeferredToolResults(approvals={"c2": True})
        result = asyncio.run(agent.run(message_history=result.all_messages(), deferred_tool_results=decided))
    golden, candidate = folder / "history.json", folder / "spans.json"
    golden.write_bytes(result.all_messages_json())
    candidate.write_text(printed.MessageToJson(export.encode_spans(spans.get_finished_spans())))
    return golden, candidate


MAKERS: list[Maker] = [agents_run, graph_run, model_run]


def pair(make: Maker, folder: Path, cents: int = 4999, *, approved: bool = True) -> tuple[Log, Log]:
    """The two logs of one run."""
    folder.mkdir(exist_ok=True)
    golden, candidate = make(folder, cents, approved)
    return load_log(golden), load_log(candidate)


@pytest.mark.parametrize("approved", [True, False], ids=["over", "waits"])
@pytest.mark.parametrize("make", MAKERS)
def test_one_run_in_two_formats_is_the_same(make: Maker, approved: bool, tmp_path: Path) -> None:
    """Status, steps and tool calls with their arguments agree, and so do the paths, whichever is the golden."""
    golden, candidate = pair(make, tmp_path, approved=approved)
    assert golden.state.status == ("completed" if approved else "suspended")
    assert [call.name for call in golden.state.calls if call.kind == "tool"] == ["lookup", "refund"]
    assert diff_runs(golden, candidate, compare=PATH) == []
    assert diff_runs(candidate, golden, compare=PATH) == []
    scorers = {"steps": trajectory_match(candidate), "tools": trajectory_match(candidate, over="tools")}
    assert all(score.passed for score in score_run(golden.state, scorers).values())


@pytest.mark.parametrize("make", MAKERS)
def test_a_changed_argument_is_found(make: Maker, tmp_path: Path) -> None:
    """A run that pays back another sum differs in that argument, and its path matches no longer."""
    golden, _ = pair(make, tmp_path / "one")
    _, candidate = pair(make, tmp_path / "other", cents=1)
    (found,) = diff_runs(golden, candidate, compare=PATH)
    assert (found.kind, found.step, found.path, found.golden, found.candidate) == (
        "tool-args",
        "refund",
        "cents",
        4999,
        1,
    )
    (score,) = score_run(candidate.state, [trajectory_match(golden, over="tools")]).values()
    assert not score.passed


@pytest.mark.parametrize("make", [agents_run, model_run])
def test_what_a_run_gave_agrees_too(make: Maker, tmp_path: Path) -> None:
    """Where both formats keep plain values, outputs of the run and of its steps agree as well."""
    golden, candidate = pair(make, tmp_path)
    assert diff_runs(golden, candidate, compare=[*PATH, "output", "step-output"]) == []


@pytest.mark.parametrize("make", [graph_run, model_run])
def test_what_a_run_waits_for_agrees_too(make: Maker, tmp_path: Path) -> None:
    """The same question, or the same calls, are open in both formats."""
    golden, candidate = pair(make, tmp_path, approved=False)
    assert golden.state.suspensions[0].on == candidate.state.suspensions[0].on
    assert golden.state.suspensions[0].correlation_key == candidate.state.suspensions[0].correlation_key
    if make is graph_run:
        assert diff_runs(golden, candidate, compare=["suspension"]) == []


def test_steps_and_calls_of_a_graph_are_known(tmp_path: Path) -> None:
    """Nodes, those of a subgraph too, in both formats; a node that stopped to ask is one step when it is through."""
    nodes = ["intake", "weigh", "agent", "tools", "agent#2", "approve", "tools#2", "agent#3", "report"]
    for log in pair(graph_run, tmp_path):
        assert list(log.state.frames) == nodes
        assert [(call.name, call.output) for call in log.state.calls if call.kind == "tool"] == [
            ("lookup", "paid 4999"),
            ("refund", "refunded 4999"),
        ]
