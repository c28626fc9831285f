"""The seam of the OpenAI Agents SDK: runs are recorded, and replayed when a live model or tool would explode."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

import pytest_loom
from pytest_loom.errors import ReplayDivergence
from pytest_loom.flow import seam

agents: Any = pytest.importorskip("agents", reason="needs openai-agents")
if not hasattr(agents, "FunctionTool"):
    pytest.skip("needs openai-agents, and this is another package named agents", allow_module_level=True)

openai: Any = pytest.importorskip("openai", reason="needs openai")
types: Any = pytest.importorskip("openai.types.responses", reason="needs openai")
usages: Any = pytest.importorskip("openai.types.responses.response_usage", reason="needs openai")

if TYPE_CHECKING:
    from tests.seams.fake_servers import FakeServer


class City(pydantic.BaseModel):
    name: str


class World:
    """What is live: calls are counted while it is open, and forbidden once it is not."""

    def __init__(self) -> None:
        self.open = True
        self.calls: list[str] = []

    def call(self, what: str) -> str:
        """A live call, which says the how manieth it is."""
        assert self.open, f"live: {what}"
        self.calls.append(what)
        return f"{what} {len(self.calls)}"


class FakeModel(agents.Model):  # type: ignore[misc]
    """It calls each of its tools once, one a turn, then it answers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = "fake-1"
        self.ids = itertools.count(1)

    def _output(self, input: Any, tools: Any) -> Any:
        done = sum(item.get("type") == "function_call" for item in input) if isinstance(input, list) else 0
        text = self.world.call("model")
        if done < len(tools):
            arguments = json.dumps(
                {}
                if tools[done].name == "broken"
                else {"input": "Köln"}
                if "ask" in tools[done].name
                else {"name": "Köln"}
            )
            return types.ResponseFunctionToolCall(
                id="__fake_id__",
                call_id=f"c{next(self.ids)}",
                type="function_call",
                name=tools[done].name,
                arguments=arguments,
            )
        content = types.ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
        return types.ResponseOutputMessage(
            id="m1", type="message", role="assistant", content=[content], status="completed"
        )

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """The answer at once."""
        usage = agents.Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
        return agents.ModelResponse(output=[self._output(input, tools)], usage=usage, response_id="r1")

    async def stream_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """The answer in pieces."""
        output = self._output(input, tools)
        if output.type == "message":
            for index, word in enumerate(output.content[0].text.split(" ")):
                yield types.ResponseTextDeltaEvent(
                    type="response.output_text.delta", delta=word, content_index=0, item_id="m1", output_index=0,
                    sequence_number=index, logprobs=[],
                )  # fmt: skip
        usage = types.ResponseUsage(
            input_tokens=3, output_tokens=2, total_tokens=5,
            input_tokens_details=usages.InputTokensDetails.model_construct(cached_tokens=0, cache_write_tokens=0),
            output_tokens_details=usages.OutputTokensDetails(reasoning_tokens=0),
        )  # fmt: skip
        response = types.Response(
            id="r1", created_at=1.0, model="fake-1", object="response", output=[output], tool_choice="auto", tools=[],
            parallel_tool_calls=False, usage=usage,
        )  # fmt: skip
        response._request_id = "req-1"
        yield types.ResponseCompletedEvent(type="response.completed", response=response, sequence_number=9)


@pytest.fixture
def world() -> World:
    """See ``World``."""
    return World()


def make_city(world: World) -> Any:
    """A tool of an application."""

    def city(name: str) -> City:
        """A city."""
        return City(name=world.call(name))

    return agents.function_tool(city)


def make_agent(world: World, **changes: Any) -> Any:
    """An agent with one tool."""
    facts = {"name": "guide", "instructions": "Be brief.", "model": FakeModel(world), "tools": [make_city(world)]}
    return agents.Agent(**{**facts, **changes})


class Twice:
    """What a flow gave ``live`` and ``replayed``, and the golden ``log``."""

    def __init__(self, log: pytest_loom.Log, live: Any, replayed: Any) -> None:
        self.log, self.live, self.replayed = log, live, replayed

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The payloads of the golden log's events of one kind."""
        return [event.payload for event in self.log.events if event.event_type == kind]


@pytest.fixture
def twice(world: World) -> Callable[[Callable[[], Any]], Twice]:
    """Record a flow, close the world, replay the flow; both results must be equal and of the same types."""

    def run(body: Callable[[], Any]) -> Twice:
        kept: list[Any] = []
        flow = keeping(body, kept)
        log = pytest_loom.record(flow, None)
        assert kept, f"recording failed: {log.state.variables.get('_error')}"
        calls = len(world.calls)
        world.open = False
        pytest_loom.replay(log, flow)
        live, replayed = kept
        assert live == replayed
        assert repr(live) == repr(replayed)
        assert len(world.calls) == calls
        return Twice(log, live, replayed)

    return run


def keeping(body: Callable[[], Any], kept: list[Any]) -> Any:
    """A flow that keeps what ``body`` gives."""

    async def flow(_: None) -> None:
        kept.append(await body())

    return flow


def shown(result: Any) -> Any:
    """All of a run's result that an application may look at."""
    items = [(type(item).__name__, item.raw_item, getattr(item, "output", None)) for item in result.new_items]
    return result.final_output, items, result.raw_responses, result.context_wrapper.usage


class TestRuns:
    def test_run(self, world: World, twice: Any) -> None:
        """An agent's run is replayed: tool call, the tool's own value, final answer, and usage."""

        async def flow() -> Any:
            return shown(await agents.Runner.run(make_agent(world), "which city?"))

        final, items, responses, usage = twice(flow).replayed
        assert final == "model 3"
        assert [name for name, _, _ in items] == ["ToolCallItem", "ToolCallOutputItem", "MessageOutputItem"]
        assert items[1][2] == City(name="Köln 2")
        assert type(responses[0].output[0]) is types.ResponseFunctionToolCall
        assert (usage.requests, usage.total_tokens) == (2, 10)

    def test_log(self, world: World, twice: Any) -> None:
        """The log says what models and tools were asked and what they answered, as data."""

        async def flow() -> Any:
            settings = agents.ModelSettings(temperature=0.5)
            return shown(await agents.Runner.run(make_agent(world, model_settings=settings), "which city?"))

        found = twice(flow)
        first, second = found.events("MODEL_REQUESTED")
        assert first["model"] == "fake-1"
        assert first["request"]["instructions"] == "Be brief."
        assert first["request"]["settings"] == {"temperature": 0.5}
        assert first["request"]["tools"][0]["name"] == "city"
        assert first["request"]["tools"][0]["schema"]["required"] == ["name"]
        assert [item.get("type") for item in second["request"]["input"]][1:] == [
            "function_call",
            "function_call_output",
        ]
        assert found.events("MODEL_COMPLETED")[1]["response"]["output"][0]["content"][0]["text"] == "model 3"
        assert found.events("MODEL_COMPLETED")[1]["usage"]["total_tokens"] == 5
        assert [(call["name"], call["args"]) for call in found.events("TOOL_REQUESTED")] == [("city", {"name": "Köln"})]
        assert found.events("TOOL_COMPLETED")[0]["output"] == {"name": "Köln 2"}

    def test_streamed(self, world: World, twice: Any) -> None:
        """A streamed run gives the same events, and the same result."""

        async def flow() -> Any:
            result = agents.Runner.run_streamed(make_agent(world), "which city?")
            raw = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
            return raw, shown(result)

        found = twice(flow)
        raw, (final, _, responses, _) = found.replayed
        assert final == "model 3"
        assert [event.delta for event in raw if type(event) is types.ResponseTextDeltaEvent] == ["model", "3"]
        assert [response.request_id for response in responses] == ["req-1", "req-1"]
        assert len(found.events("MODEL_COMPLETED")[1]["response"]["stream"]) == 3

    def test_class_made_in_the_run(self, world: World, twice: Any) -> None:
        """A model class that the flow itself defines is recorded as any other."""

        async def flow() -> Any:
            class Late(FakeModel):
                async def get_response(self, *args: Any, **kwargs: Any) -> Any:
                    return await super().get_response(*args, **kwargs)

            return shown(await agents.Runner.run(make_agent(world, model=Late(world)), "which city?"))

        found = twice(flow)
        assert found.replayed[0] == "model 3"
        assert len(found.events("MODEL_REQUESTED")) == 2

    def test_agent_as_tool(self, world: World, twice: Any) -> None:
        """An agent that serves as a tool is recorded by its own calls, so that its code is today's in replay."""

        async def flow() -> Any:
            inner = make_agent(world, name="inner").as_tool("ask_inner", "Ask the inner agent.")
            return shown(await agents.Runner.run(make_agent(world, tools=[inner]), "which city?"))

        found = twice(flow)
        assert [call["name"] for call in found.events("TOOL_REQUESTED")] == ["city"]
        assert len(found.events("MODEL_REQUESTED")) == 4
        assert found.replayed[3].requests == 4

    def test_handoff(self, world: World, twice: Any) -> None:
        """A handoff is today's code; the model is told of it."""

        async def flow() -> Any:
            other = make_agent(world, name="other", tools=[])
            return shown(await agents.Runner.run(make_agent(world, tools=[], handoffs=[other]), "which city?"))

        assert twice(flow).events("MODEL_REQUESTED")[0]["request"]["handoffs"][0]["name"] == "transfer_to_other"

    def test_errors(self, world: World, twice: Any) -> None:
        """What the SDK tells the model of a tool's exception comes back; a model's exception is raised again."""

        def broken() -> City:
            """Breaks."""
            raise ValueError(world.call("no"))

        class Failing(FakeModel):
            async def get_response(self, *args: Any, **kwargs: Any) -> Any:
                raise agents.ModelBehaviorError(self.world.call("bad"))

        async def flow() -> Any:
            result = await agents.Runner.run(make_agent(world, tools=[agents.function_tool(broken)]), "go")
            with pytest.raises(agents.ModelBehaviorError, match="bad") as caught:
                await agents.Runner.run(make_agent(world, model=Failing(world)), "go")
            return shown(result), caught.value.message

        (_, items, _, _), message = twice(flow).replayed
        assert items[1][2].startswith("An error occurred while running the tool")
        assert message == "bad 4"

    def test_timeout(self, world: World, twice: Any) -> None:
        """What the SDK says of a tool that took too long comes back, without the wait."""

        async def city(name: str) -> City:
            """Slow."""
            world.call("slow")
            await asyncio.sleep(5)
            raise AssertionError

        async def flow() -> Any:
            return shown(
                await agents.Runner.run(make_agent(world, tools=[agents.function_tool(timeout=0.01)(city)]), "go")
            )

        assert "timed out" in twice(flow).replayed[1][1][2]

    def test_outside(self, world: World, twice: Any) -> None:
        """Outside of a run models and tools are as ever."""
        before = FakeModel.get_response

        async def flow() -> Any:
            return shown(await agents.Runner.run(make_agent(world), "which city?"))

        twice(flow)
        assert FakeModel.get_response is before
        with pytest.raises(AssertionError, match="live: model"):
            asyncio.run(agents.Runner.run(make_agent(world), "which city?"))

    def test_tracing(self, world: World, twice: Any) -> None:
        """A recording is traced, in a thread that is no part of the run; a replay sends no traces."""
        processors = pytest.importorskip("agents.tracing.processors", reason="needs openai-agents")
        sent: list[Any] = []

        class Exporter:
            def export(self, items: list[Any]) -> None:
                assert not seam.in_run()
                sent.extend(items)

        async def flow() -> Any:
            with agents.trace("whole"):
                return shown(await agents.Runner.run(make_agent(world), "which city?"))

        processor = processors.BatchTraceProcessor(Exporter())
        agents.set_tracing_disabled(False)  # which other tests of this process may have done
        agents.set_trace_processors([processor])
        try:
            log = pytest_loom.record(keeping(flow, []), None)
            processor.force_flush()
            recorded = len(sent)
            pytest_loom.replay(log, keeping(flow, []))
            processor.force_flush()
        finally:
            agents.set_trace_processors([processors.default_processor()])
            agents.set_tracing_disabled(True)
            processor.shutdown()
        assert recorded > 3
        assert len(sent) == recorded


class TestRequests:
    def test_same(self) -> None:
        """Two recordings of the same ask the same, the SDK's own key of the prompt cache notwithstanding."""

        def requests() -> Any:
            world = World()

            class Cached(FakeModel):
                def _supports_default_prompt_cache_key(self) -> bool:
                    return True

            async def flow(_: None) -> None:
                await agents.Runner.run(make_agent(world, model=Cached(world)), "which city?")

            log = pytest_loom.record(flow, None)
            return [event.payload for event in log.events if event.event_type == "MODEL_REQUESTED"]

        first = requests()
        assert len(first) == 2
        assert first == requests()

    @pytest.mark.parametrize(
        "changes",
        [
            {"instructions": "Be long."},
            {"model_settings": agents.ModelSettings(temperature=0.7)},
            {"output_type": City},
            {"tools": []},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_changed(self, world: World, changes: dict[str, Any]) -> None:
        """Changed instructions, settings, output and tools are noticed."""

        async def flow(_: None) -> None:
            await agents.Runner.run(make_agent(world), "which city?")

        async def today(_: None) -> None:
            await agents.Runner.run(make_agent(world, **changes), "which city?")

        log = pytest_loom.record(flow, None)
        with pytest.raises(ReplayDivergence):
            pytest_loom.replay(log, today)


class TestOpenAI:
    @pytest.mark.parametrize("model", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
    @pytest.mark.parametrize("streamed", [False, True])
    def test_one_recording(self, server: FakeServer, model: str, streamed: bool) -> None:
        """The SDK's own models are recorded once, here, and replayed when their server is gone."""
        kept: list[Any] = []

        async def flow(url: str) -> None:
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0) as client:
                agent = agents.Agent(name="guide", model=getattr(agents, model)("gpt-test", client))
                if streamed:
                    result = agents.Runner.run_streamed(agent, "hi")
                    events = [each.data async for each in result.stream_events() if each.type == "raw_response_event"]
                else:
                    result, events = await agents.Runner.run(agent, "hi"), []
                kept.append((result.final_output, result.raw_responses, events))

        log = pytest_loom.record(flow, server.url)
        assert kept, f"recording failed: {log.state.variables.get('_error')}"
        server.stop()
        pytest_loom.replay(log, flow)
        assert kept[0] == kept[1]
        (question,) = [event.payload for event in log.events if event.event_type == "MODEL_REQUESTED"]
        assert (question["model"], question["request"]["input"]) == ("gpt-test", [{"role": "user", "content": "hi"}])
