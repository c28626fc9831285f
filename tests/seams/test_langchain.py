"""The seam of langchain_core: chat models and tools are recorded, and replayed when a live one would explode."""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
import pytest

import pytest_loom
from pytest_loom.errors import ReplayDivergence


def core(name: str) -> Any:
    """A module of langchain_core."""
    return pytest.importorskip(f"langchain_core.{name}", reason="needs langchain-core")


models: Any = core("language_models")
fakes = core("language_models.fake_chat_models")
messages, outputs, tools = core("messages"), core("outputs"), core("tools")
AIMessage, AIMessageChunk = messages.AIMessage, messages.AIMessageChunk
HumanMessage, ToolMessage = messages.HumanMessage, messages.ToolMessage
Document: Any = core("documents").Document

if TYPE_CHECKING:
    from tests.seams.fake_servers import FakeServer

USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


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


class Chat(models.BaseChatModel):  # type: ignore[misc]
    """A model of one's own: it asks for each bound tool once, then it answers with how often it was asked."""

    world: Any
    temperature: float = 0.5

    @property
    def _llm_type(self) -> str:
        return "chat-test"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """As langchain's own models do."""
        return self.bind(tools=tools, **kwargs)

    def _message(self, asked: list[Any], offered: Any) -> Any:
        text = self.world.call("model")
        calls = []
        if offered and not isinstance(asked[-1], ToolMessage):
            calls = [
                {"name": offered[0].name, "args": {"city": "Köln"}, "id": f"call-{uuid.uuid4()}", "type": "tool_call"}
            ]
        return AIMessage(
            content="" if calls else text,
            tool_calls=calls,
            usage_metadata=USAGE,
            response_metadata={"finish": "stop", "ratio": 0.25},
        )

    def _generate(
        self, messages: list[Any], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        message = self._message(messages, kwargs.get("tools"))
        return outputs.ChatResult(
            generations=[outputs.ChatGeneration(message=message)], llm_output={"model": "chat-test-1"}
        )


class AsyncChat(Chat):
    """The same with methods of its own for async and streams."""

    async def _agenerate(
        self, messages: list[Any], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        return super()._generate(messages, stop, run_manager, **kwargs)

    def _stream(
        self, messages: list[Any], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[Any]:
        first, last = self.world.call("model").split(" ")
        yield outputs.ChatGenerationChunk(message=AIMessageChunk(content=first + " "))
        yield outputs.ChatGenerationChunk(message=AIMessageChunk(content=last), generation_info={"finish": "stop"})
        yield outputs.ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=USAGE))

    async def _astream(
        self, messages: list[Any], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        for chunk in self._stream(messages, stop, run_manager, **kwargs):
            yield chunk


@pytest.fixture
def world() -> World:
    """See ``World``."""
    return World()


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

    async def aflow(_: None) -> None:
        kept.append(await body())

    def flow(_: None) -> None:
        kept.append(body())

    return aflow if inspect.iscoroutinefunction(body) else flow


def asked(body: Callable[[], Any]) -> list[dict[str, Any]]:
    """What a flow asks models for, and tools, when it is recorded."""
    log = pytest_loom.record(keeping(body, []), None)
    assert log.state.status == "completed", log.state.variables.get("_error")
    return [
        {"asked": event.payload.get("request", event.payload.get("args"))}
        for event in log.events
        if event.event_type in ("MODEL_REQUESTED", "TOOL_REQUESTED")
    ]


def make_weather(world: World) -> Any:
    """A tool of an application."""

    def weather(city: str) -> str:
        """The weather of a city."""
        return world.call(f"weather in {city}")

    return tools.tool(weather)


def agent(model: Any, tools: list[Any], question: str) -> list[Any]:
    """The loop of an agent."""
    bound, messages = model.bind_tools(tools), [HumanMessage(question)]
    while True:
        messages.append(bound.invoke(messages))
        if not messages[-1].tool_calls:
            return messages
        messages += [tools[0].invoke(call) for call in messages[-1].tool_calls]


async def aagent(model: Any, tools: list[Any], question: str) -> list[Any]:
    """The same, async."""
    bound, messages = model.bind_tools(tools), [HumanMessage(question)]
    while True:
        messages.append(await bound.ainvoke(messages))
        if not messages[-1].tool_calls:
            return messages
        messages += [await tools[0].ainvoke(call) for call in messages[-1].tool_calls]


class TestModels:
    def test_invoke(self, world: World, twice: Any) -> None:
        """A message comes back with its text, tool calls, usage, metadata and id."""
        found = twice(lambda: Chat(world=world).invoke("hi"))
        assert type(found.replayed) is AIMessage
        assert found.replayed.content == "model 1"
        assert found.replayed.usage_metadata == USAGE
        assert found.replayed.response_metadata["ratio"] == 0.25
        assert found.replayed.id == found.live.id

    def test_log(self, world: World, twice: Any) -> None:
        """The log says what was asked and answered as data, names the model, and has the tokens used."""
        found = twice(lambda: Chat(world=world).invoke([HumanMessage("hi", id="m1")], stop=["."]))
        (question,), (answer,) = found.events("MODEL_REQUESTED"), found.events("MODEL_COMPLETED")
        assert question["model"] == "chat-test"
        assert question["request"] == {
            "messages": [{"type": "human", "content": "hi"}],
            "stop": ["."],
            "parameters": {"temperature": 0.5},
        }
        assert answer["response"]["generations"][0]["message"]["data"]["content"] == "model 1"
        assert answer["usage"] == USAGE

    @pytest.mark.parametrize("kind", [Chat, AsyncChat])
    def test_ainvoke(self, world: World, twice: Any, kind: Any) -> None:
        """An async call is recorded once, whether the model is async itself or langchain runs it in a thread."""

        async def flow() -> Any:
            return await kind(world=world).ainvoke("hi")

        found = twice(flow)
        assert found.replayed.content == "model 1"
        assert len(found.events("MODEL_REQUESTED")) == 1

    def test_stream(self, world: World, twice: Any) -> None:
        """A streamed answer comes back in the same chunks."""
        found = twice(lambda: list(AsyncChat(world=world).stream("hi")))
        assert [chunk.content for chunk in found.replayed][:2] == ["model ", "1"]
        assert {type(chunk) for chunk in found.replayed} == {AIMessageChunk}
        (answer,) = found.events("MODEL_COMPLETED")
        assert len(answer["response"]["stream"]) == len(found.replayed)

    @pytest.mark.parametrize("kind", [fakes.FakeListChatModel, AsyncChat])
    def test_astream(self, world: World, twice: Any, kind: Any) -> None:
        """An async stream comes back in the same chunks, langchain's own fake among them."""
        model = kind(world=world) if kind is AsyncChat else kind(responses=["model 1"])

        async def flow() -> Any:
            return [chunk async for chunk in model.astream("hi")]

        assert "".join(chunk.content for chunk in twice(flow).replayed) == "model 1"

    def test_left_early(self, world: World, twice: Any) -> None:
        """A stream that the flow leaves early is replayed as far as it was read."""

        def flow() -> Any:
            stream = AsyncChat(world=world).stream("hi")
            first = next(stream)
            stream.close()
            return first

        assert twice(flow).replayed.content == "model "

    def test_broken_off(self, world: World, twice: Any) -> None:
        """A stream that breaks off gives the same chunks before it raises the same."""

        class Broken(AsyncChat):
            def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
                yield next(super()._stream(*args, **kwargs))
                raise ConnectionError("gone")

        async def flow() -> Any:
            chunks: list[Any] = []

            async def read() -> None:
                async for chunk in Broken(world=world).astream("hi"):
                    chunks.append(chunk)  # noqa: PERF401

            with pytest.raises(ConnectionError, match="gone"):
                await read()
            return chunks

        assert [chunk.content for chunk in twice(flow).replayed] == ["model "]

    def test_batch(self, world: World, twice: Any) -> None:
        """Several questions at once are replayed, each with its own answer."""

        def flow() -> Any:
            return [message.id for message in Chat(world=world).batch(["one", "two", "three"])]

        found = twice(flow)
        assert len(set(found.replayed)) == 3
        assert len(found.events("MODEL_REQUESTED")) == 3

    def test_parallel(self, world: World, twice: Any) -> None:
        """Chains that run at the same time are told apart, whichever asked first."""
        runnables = core("runnables")

        def slowly(text: str) -> str:
            if world.open:
                time.sleep(0.2)
            return text

        def flow() -> Any:
            slow = runnables.RunnableLambda(slowly) | fakes.FakeListChatModel(responses=["slow"])
            both = runnables.RunnableParallel(a=slow, b=fakes.FakeListChatModel(responses=["fast"]))
            return [message.content for message in both.invoke("hi").values()]

        assert twice(flow).replayed == ["slow", "fast"]

    def test_callbacks(self, world: World, twice: Any) -> None:
        """Callbacks of today's code hear of the tokens in replay too."""

        class Tokens(core("callbacks").BaseCallbackHandler):  # type: ignore[misc]
            def __init__(self) -> None:
                self.heard: list[str] = []

            def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
                self.heard.append(token)

        def flow() -> Any:
            tokens = Tokens()
            list(AsyncChat(world=world).stream("hi", config={"callbacks": [tokens]}))
            return tokens.heard

        assert twice(flow).replayed[:2] == ["model ", "1"]

    def test_class_made_in_the_run(self, world: World, twice: Any) -> None:
        """A model class that the flow itself defines is recorded as any other."""

        def flow() -> Any:
            class Late(Chat):
                def _generate(self, *args: Any, **kwargs: Any) -> Any:
                    return super()._generate(*args, **kwargs)

            return Late(world=world).invoke("hi")

        found = twice(flow)
        assert found.replayed.content == "model 1"
        assert len(found.events("MODEL_REQUESTED")) == 1

    def test_cache(self, world: World, twice: Any) -> None:
        """langchain's cache neither hides a call from the recording nor a recorded one from the replay."""
        set_cache = core("globals").set_llm_cache
        set_cache(core("caches").InMemoryCache())
        try:
            Chat(world=world).invoke("hi")
            found = twice(lambda: Chat(world=world).invoke("hi"))
            assert Chat(world=world).invoke("hi").content == "model 1"
        finally:
            set_cache(None)
        assert found.replayed.content == "model 2"

    def test_structured_output(self, world: World, twice: Any) -> None:
        """A pydantic object that the model put beside its text comes back as one, for whom it was asked."""

        class Structured(Chat):
            def _generate(self, *args: Any, **kwargs: Any) -> Any:
                result = super()._generate(*args, **kwargs)
                result.generations[0].message.additional_kwargs["parsed"] = City(name="Köln")
                return result

        found = twice(lambda: Structured(world=world).invoke("hi", response_format=City))
        assert found.replayed.additional_kwargs["parsed"] == City(name="Köln")
        assert found.events("MODEL_REQUESTED")[0]["request"]["parameters"]["response_format"]["title"] == "City"

    @pytest.mark.filterwarnings("ignore:The `")  # older versions use methods that pydantic calls deprecated
    def test_tracing(self, world: World, twice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where LangSmith's tracing is on, a recording is traced and a replay is not."""
        tracers = core("tracers.langchain")
        langsmith = pytest.importorskip("langsmith", reason="needs langsmith")
        traced: list[str] = []
        monkeypatch.setattr(tracers, "get_client", lambda: object())
        monkeypatch.setattr(tracers.LangChainTracer, "_persist_run_single", lambda self, run: traced.append("start"))
        monkeypatch.setattr(tracers.LangChainTracer, "_update_run_single", lambda self, run: traced.append("end"))

        def flow() -> Any:
            with langsmith.tracing_context(enabled=True):
                return Chat(world=world).invoke("hi")

        twice(flow)
        assert traced == ["start", "end"]

    def test_outside(self, world: World, twice: Any) -> None:
        """Outside of a run models and tools are as ever."""
        twice(lambda: Chat(world=world).invoke("hi"))
        with pytest.raises(AssertionError, match="live: model"):
            Chat(world=world).invoke("hi")
        assert fakes.GenericFakeChatModel(messages=iter([AIMessage("hello")])).invoke("hi").content == "hello"
        assert not hasattr(Chat._generate, "__wrapped__")


class TestTools:
    def test_agent(self, world: World, twice: Any) -> None:
        """An agent's loop is replayed: tool call, the tool's message, final answer."""
        found = twice(lambda: agent(Chat(world=world), [make_weather(world)], "weather?"))
        assert [type(message) for message in found.replayed] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
        assert found.replayed[2].content == "weather in Köln 2"
        assert found.replayed[2].tool_call_id == found.replayed[1].tool_calls[0]["id"]
        (call,) = found.events("TOOL_REQUESTED")
        assert (call["name"], call["args"]) == ("weather", {"city": "Köln"})
        assert [event.event_type for event in found.log.events if "_REQ" in event.event_type] == [
            "MODEL_REQUESTED",
            "TOOL_REQUESTED",
            "MODEL_REQUESTED",
        ]

    def test_async_agent(self, world: World, twice: Any) -> None:
        """The same of an async agent, whose sync tool runs in a thread."""

        async def flow() -> Any:
            return await aagent(AsyncChat(world=world), [make_weather(world)], "weather?")

        found = twice(flow)
        assert [message.content for message in found.replayed] == ["weather?", "", "weather in Köln 2", "model 3"]

    def test_requests(self) -> None:
        """Two recordings of the same ask the same, though call ids differ; the tools' schemas are part of it."""

        def flow() -> Any:
            world = World()
            return agent(Chat(world=world), [make_weather(world)], "weather?")

        first = asked(flow)
        assert first == asked(flow)
        assert first[0]["asked"]["tools"][0]["function"]["description"] == "The weather of a city."
        assert first[2]["asked"]["messages"][1]["tool_calls"] == [
            {"name": "weather", "args": {"city": "Köln"}, "id": "call_1", "type": "tool_call"}
        ]
        assert first[2]["asked"]["messages"][2]["tool_call_id"] == "call_1"

    def test_values(self, world: World, twice: Any) -> None:
        """What a tool gives comes back as what its annotation says; an injected argument is not recorded."""

        def city(name: str, secret: Annotated[str, tools.InjectedToolArg]) -> City:
            """A city."""
            return City(name=world.call(name))

        found = twice(lambda: tools.tool(city).invoke({"name": "Köln", "secret": "s"}))
        assert found.replayed == City(name="Köln 1")
        assert found.events("TOOL_REQUESTED")[0]["args"] == {"name": "Köln"}

    def test_artifact(self, world: World, twice: Any) -> None:
        """A ToolMessage keeps its artifact, documents too."""

        def search(query: str) -> Any:
            """Search."""
            return world.call(query), [Document("found", metadata={"page": 1})]

        searching = tools.tool(response_format="content_and_artifact")(search)
        call = {"name": "search", "args": {"query": "q"}, "id": "c1", "type": "tool_call"}
        assert twice(lambda: searching.invoke(call)).replayed.artifact == [Document("found", metadata={"page": 1})]

    def test_errors(self, world: World, twice: Any) -> None:
        """A tool's exception is raised again as its own class; one that the tool handles comes back as its message."""

        def breaks(city: str) -> str:
            """Breaks."""
            raise tools.ToolException(world.call("no"))

        broken = tools.tool(breaks)

        def flow() -> Any:
            with pytest.raises(tools.ToolException, match="no 1") as caught:
                broken.invoke({"city": "Köln"})
            broken.handle_tool_error = True
            try:
                message = broken.invoke({"name": "breaks", "args": {"city": "x"}, "id": "c1", "type": "tool_call"})
            finally:
                broken.handle_tool_error = False
            return type(caught.value), message

        kind, message = twice(flow).replayed
        assert kind is tools.ToolException
        assert (message.content, message.status) == ("no 2", "error")

    def test_unfit_arguments(self, world: World, twice: Any) -> None:
        """Arguments that do not fit are refused by today's code, as they were when recording."""

        def flow() -> Any:
            with pytest.raises(pydantic.ValidationError) as caught:
                make_weather(world).invoke({"town": "Köln"})
            return [error["loc"] for error in caught.value.errors()]

        found = twice(flow)
        assert found.replayed == [("city",)]
        assert not found.events("TOOL_REQUESTED")


class TestDivergence:
    @pytest.mark.parametrize(
        "today",
        [
            lambda world, weather: agent(Chat(world=world), [weather], "the weather?"),
            lambda world, weather: agent(Chat(world=world, temperature=0.7), [weather], "weather?"),
            lambda world, weather: agent(Chat(world=world), [described(weather)], "weather?"),
        ],
        ids=["prompt", "parameter", "tool"],
    )
    def test_changed(self, world: World, today: Any) -> None:
        """A changed prompt, a changed parameter of the model and a changed tool are noticed."""
        weather = make_weather(world)
        log = pytest_loom.record(keeping(lambda: agent(Chat(world=world), [weather], "weather?"), []), None)
        with pytest.raises(ReplayDivergence):
            pytest_loom.replay(log, keeping(lambda: today(world, weather), []))

    def test_changed_argument(self, world: World) -> None:
        """A tool that today's code calls with another argument is noticed."""
        weather = make_weather(world)
        log = pytest_loom.record(keeping(lambda: weather.invoke({"city": "Köln"}), []), None)
        with pytest.raises(ReplayDivergence, match="city"):
            pytest_loom.replay(log, keeping(lambda: weather.invoke({"city": "Bonn"}), []))


def described(weather: Any) -> Any:
    """A tool with another description."""
    return weather.model_copy(update={"description": "Something else."})


class TestOpenAI:
    @pytest.mark.parametrize("method", ["invoke", "stream"])
    def test_one_recording(self, server: FakeServer, method: str) -> None:
        """A model that runs on the openai package is recorded once, here, and replayed when its server is gone."""
        langchain_openai = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
        kept: list[Any] = []

        def flow(url: str) -> None:
            model = langchain_openai.ChatOpenAI(base_url=f"{url}/v1", api_key="sk-secret", model="gpt-test")
            found = getattr(model, method)("hi")
            kept.append(found if method == "invoke" else list(found))

        log = pytest_loom.record(flow, server.url)
        server.stop()
        pytest_loom.replay(log, flow)
        assert kept[0] == kept[1]
        (question,) = [event.payload for event in log.events if event.event_type == "MODEL_REQUESTED"]
        assert question["model"] == "gpt-test"
        assert question["request"]["messages"] == [{"type": "human", "content": "hi"}]

    def test_error(self, server: FakeServer) -> None:
        """An error of the SDK below comes back as its own class, with its status."""
        langchain_openai = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
        openai = pytest.importorskip("openai", reason="needs openai")
        server.fail_with = [429]
        kept: list[Any] = []

        def flow(url: str) -> None:
            model = langchain_openai.ChatOpenAI(base_url=f"{url}/v1", api_key="sk", model="gpt-test", max_retries=0)
            with pytest.raises(openai.RateLimitError) as caught:
                model.invoke("hi")
            kept.append((str(caught.value), caught.value.status_code, caught.value.response.status_code))

        log = pytest_loom.record(flow, server.url)
        server.stop()
        pytest_loom.replay(log, flow)
        assert kept[0] == kept[1]
