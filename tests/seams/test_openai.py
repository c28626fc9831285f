"""The seam of the openai package: the real client is recorded against a server, and replayed when that is gone."""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

import pytest_loom

openai: Any = pytest.importorskip("openai", reason="needs the openai package")

if TYPE_CHECKING:
    from tests.seams.conftest import Bench, Twice
    from tests.seams.fake_servers import FakeServer

HI = [{"role": "user", "content": "hi"}]
WEATHER = {"name": "weather", "description": "", "strict": True, "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": WEATHER}
RESPONSE_TOOL = {"type": "function", **WEATHER}
TEXT = "Hello from the sërver\u2028."
ARGUMENTS = {"city": "Köln", "unit": "C"}


class Weather(pydantic.BaseModel):
    city: str
    degrees: float


@pytest.fixture(params=["OpenAI", "AsyncOpenAI"])
def client_class(request: pytest.FixtureRequest) -> str:
    """The sync and the async client."""
    name: str = request.param
    return name


@pytest.fixture
def run(bench: Bench, client_class: str) -> Any:
    """Run a scenario with a client that retries twice."""

    def make(url: str) -> Any:
        return getattr(openai, client_class)(base_url=f"{url}/v1", api_key="sk-secret", max_retries=2)

    return lambda scenario: bench(make, scenario)


def same(twice: Twice) -> Any:
    """The live result, having checked that the replayed one is of the same type and says the same."""
    live, replayed = twice.live, twice.replayed
    assert type(live) is type(replayed)
    assert live == replayed
    if isinstance(live, pydantic.BaseModel):
        assert live.model_dump() == replayed.model_dump()
    return live


class TestChat:
    def test_answer(self, run: Any, bench: Bench) -> None:
        """An answer comes back as a ChatCompletion that says what the live one said, down to what no field is for."""
        twice = run(lambda client: bench.got(client.chat.completions.create(model="gpt-test", messages=HI)))
        live = same(twice)
        assert type(live) is openai.types.chat.ChatCompletion
        assert live.choices[0].message.content == TEXT
        assert twice.replayed.x_vendor == {"kept": True}
        assert twice.replayed._request_id == live._request_id == "req_1"

    def test_log(self, run: Any, bench: Bench) -> None:
        """The log says what was asked and answered as data, names the model, and has the tokens used."""
        twice = run(lambda client: bench.got(client.chat.completions.create(model="gpt-test", messages=HI)))
        (asked,), (answered,) = twice.events("MODEL_REQUESTED"), twice.events("MODEL_COMPLETED")
        assert asked["model"] == "gpt-test"
        assert asked["request"] == {"path": "/chat/completions", "body": {"model": "gpt-test", "messages": HI}}
        assert answered["response"]["body"]["choices"][0]["message"]["content"] == TEXT
        assert answered["response"]["status"] == 200
        assert answered["usage"] == {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}

    def test_no_secrets(self, run: Any, bench: Bench) -> None:
        """Neither the key nor a cookie of the server goes into the log: no request header does, and few others do."""
        twice = run(lambda client: bench.got(client.chat.completions.create(model="gpt-test", messages=HI)))
        assert "Bearer sk-secret" in bench.server.requests[0][2].values()
        assert "secret" not in twice.text
        assert "authorization" not in twice.text.lower()
        assert set(twice.events("MODEL_COMPLETED")[0]["response"]["headers"]) == {
            "content-type",
            "request-id",
            "x-request-id",
        }

    def test_tools(self, run: Any, bench: Bench) -> None:
        """An agent's loop is replayed: tool call, its result sent with the message itself, final answer."""

        async def scenario(client: Any) -> Any:
            said: list[Any] = list(HI)
            ask = client.chat.completions.create
            first = await bench.got(ask(model="gpt-test", messages=said, tools=[CHAT_TOOL]))
            call = first.choices[0].message.tool_calls[0]
            said += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "weather: fine"}]
            last = await bench.got(ask(model="gpt-test", messages=said, tools=[CHAT_TOOL]))
            return type(call), call.function.name, call.function.arguments, last.choices[0].message.content

        twice = run(scenario)
        _, name, arguments, text = same(twice)
        assert (name, json.loads(arguments), text) == ("weather", ARGUMENTS, TEXT)
        asked = [asked["request"]["body"] for asked in twice.events("MODEL_REQUESTED")]
        assert asked == [body for _, body, _ in bench.server.requests]
        assert asked[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "weather"

    def test_stream(self, run: Any, bench: Bench) -> None:
        """A streamed answer comes back as the SDK's stream, of equal chunks."""

        async def scenario(client: Any) -> Any:
            stream = await bench.got(client.chat.completions.create(model="gpt-test", messages=HI, stream=True))
            assert isinstance(stream, openai.Stream | openai.AsyncStream)
            return await bench.every(stream), stream.response.headers["x-request-id"]

        twice = run(scenario)
        chunks, request_id = same(twice)
        assert {type(chunk) for chunk in twice.replayed[0]} == {openai.types.chat.ChatCompletionChunk}
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TEXT
        assert request_id == "req_1"
        head, *events, end = twice.events("MODEL_COMPLETED")[0]["response"]["stream"]
        assert head["status"] == 200
        assert [event["data"]["object"] for event in events] == ["chat.completion.chunk"] * len(chunks)
        assert end == {"data": "[DONE]"}

    def test_stream_that_is_left_early(self, run: Any, bench: Bench) -> None:
        """An application that leaves a stream early does so in replay as well; closing it is the end of the answer."""

        async def scenario(client: Any) -> Any:
            stream = await bench.got(client.chat.completions.create(model="gpt-test", messages=HI, stream=True))
            chunks = []
            if hasattr(stream, "__aiter__"):
                async for chunk in stream:
                    chunks.append(chunk)
                    if len(chunks) == 2:
                        break
            else:
                chunks = [next(stream), next(stream)]
            await bench.got(stream.close())
            await bench.got(client.responses.create(model="gpt-test", input="hi"))
            return chunks

        twice = run(scenario)
        assert [chunk.choices[0].delta.content for chunk in same(twice)] == ["", TEXT[:9]]
        kinds = [event.event_type for event in twice.log.events if event.event_type.startswith("MODEL_")]
        assert kinds == ["MODEL_REQUESTED", "MODEL_COMPLETED"] * 2

    def test_stream_helper(self, run: Any, bench: Bench) -> None:
        """``chat.completions.stream`` gives its events and puts a tool call's arguments together."""
        if not hasattr(openai.resources.chat.Completions, "stream"):
            pytest.skip("this version of openai has no chat.completions.stream")

        async def scenario(client: Any) -> Any:
            manager = client.chat.completions.stream(model="gpt-test", messages=HI, tools=[CHAT_TOOL])
            async with bench.inside(manager) as stream:
                kinds = [event.type for event in await bench.every(stream)]
                final = await bench.got(stream.get_final_completion())
                return kinds, final.choices[0].message.tool_calls[0].function.arguments

        kinds, arguments = same(run(scenario))
        assert "tool_calls.function.arguments.done" in kinds
        assert json.loads(arguments) == ARGUMENTS

    def test_structured(self, run: Any, bench: Bench) -> None:
        """``chat.completions.parse`` gives the application's own type."""
        if not hasattr(openai.resources.chat.Completions, "parse"):
            pytest.skip("this version of openai has no chat.completions.parse")
        twice = run(
            lambda client: bench.got(
                client.chat.completions.parse(model="gpt-test", messages=HI, response_format=Weather)
            )
        )
        live, replayed = twice.live.choices[0].message.parsed, twice.replayed.choices[0].message.parsed
        assert live == replayed == Weather(city="Köln", degrees=21.5)
        assert twice.events("MODEL_REQUESTED")[0]["request"]["body"]["response_format"]["type"] == "json_schema"


class TestResponses:
    def test_answer(self, run: Any, bench: Bench) -> None:
        """An answer of the responses API comes back as a Response."""
        twice = run(lambda client: bench.got(client.responses.create(model="gpt-test", input="hi")))
        live = same(twice)
        assert type(live) is openai.types.responses.Response
        assert live.output_text == twice.replayed.output_text == TEXT
        assert twice.events("MODEL_COMPLETED")[0]["usage"]["total_tokens"] == 8

    def test_tools(self, run: Any, bench: Bench) -> None:
        """A function call of the responses API comes back with its arguments."""
        ask = {"model": "gpt-test", "input": "hi", "tools": [RESPONSE_TOOL]}
        call = same(run(lambda client: bench.got(client.responses.create(**ask)))).output[0]
        assert (call.type, json.loads(call.arguments)) == ("function_call", ARGUMENTS)

    def test_stream(self, run: Any, bench: Bench) -> None:
        """Events of a streamed response come back as their types, and by name in the log."""

        async def scenario(client: Any) -> Any:
            ask = {"model": "gpt-test", "input": "hi", "tools": [RESPONSE_TOOL], "stream": True}
            return await bench.every(await bench.got(client.responses.create(**ask)))

        twice = run(scenario)
        same(twice)
        assert [type(event).__name__ for event in twice.replayed][::4] == [
            "ResponseCreatedEvent",
            "ResponseOutputItemDoneEvent",
        ]
        recorded = twice.events("MODEL_COMPLETED")[0]["response"]["stream"]
        assert recorded[1]["event"] == recorded[1]["data"]["type"] == "response.created"

    def test_stream_helper(self, run: Any, bench: Bench) -> None:
        """``responses.stream`` gives its final response."""

        async def scenario(client: Any) -> Any:
            async with bench.inside(client.responses.stream(model="gpt-test", input="hi")) as stream:
                await bench.every(stream)
                return await bench.got(stream.get_final_response())

        assert same(run(scenario)).output_text == TEXT

    def test_structured(self, run: Any, bench: Bench) -> None:
        """``responses.parse`` gives the application's own type."""
        ask = {"model": "gpt-test", "input": "hi", "text_format": Weather}
        twice = run(lambda client: bench.got(client.responses.parse(**ask)))
        assert twice.live.output_parsed == twice.replayed.output_parsed == Weather(city="Köln", degrees=21.5)


class TestOtherEndpoints:
    @pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}], ids=["base64", "float"])
    def test_embeddings(self, run: Any, bench: Bench, options: dict[str, Any]) -> None:
        """Embeddings come back as numbers, whichever way the SDK asked for them."""
        twice = run(lambda client: bench.got(client.embeddings.create(model="embed-test", input="hi", **options)))
        assert same(twice).data[0].embedding == [1.5, -0.25, 3.0]

    def test_list(self, run: Any, bench: Bench) -> None:
        """A request without a body is an effect too, named by its path."""

        async def scenario(client: Any) -> Any:
            return await bench.every(await bench.got(client.models.list()))

        twice = run(scenario)
        assert [model.id for model in same(twice)] == ["gpt-test"]
        (asked,) = twice.events("MODEL_REQUESTED")
        assert (asked["model"], asked["request"]) == ("/models", {"method": "GET", "path": "/models"})

    def test_extra_body_and_query(self, run: Any, bench: Bench) -> None:
        """What is added to the body or the query of a request is part of what was asked."""
        more = {"extra_body": {"top": 1}, "extra_query": {"tenant": "a"}}
        twice = run(lambda client: bench.got(client.chat.completions.create(model="gpt-test", messages=HI, **more)))
        (asked,) = twice.events("MODEL_REQUESTED")
        assert asked["request"]["body"] == {"model": "gpt-test", "messages": HI, "top": 1}
        assert asked["request"]["query"] == {"tenant": "a"}

    def test_extra_headers(self, run: Any, bench: Bench) -> None:
        """Headers that the application adds reach the server, and not the log."""
        more = {"extra_headers": {"X-Tenant": "team-a"}}
        twice = run(lambda client: bench.got(client.chat.completions.create(model="gpt-test", messages=HI, **more)))
        assert "team-a" in bench.server.requests[0][2].values()
        assert "team-a" not in twice.text


class TestRawResponses:
    def test_raw(self, run: Any, bench: Bench) -> None:
        """``with_raw_response`` gives headers, status, text, the parsed answer and how often the SDK had to retry."""
        bench.server.fail_with = [503]

        async def scenario(client: Any) -> Any:
            ask = client.chat.completions.with_raw_response.create
            raw = await bench.got(ask(model="gpt-test", messages=HI))
            parsed = await bench.got(raw.parse())
            return type(raw), raw.status_code, raw.headers["x-request-id"], raw.retries_taken, raw.text, parsed

        _, status, request_id, retries, _, parsed = same(run(scenario))
        assert (status, request_id, retries) == (200, "req_2", 1)
        assert parsed.choices[0].message.content == TEXT

    def test_streaming(self, run: Any, bench: Bench) -> None:
        """``with_streaming_response`` gives the lines of a stream as the server sent them."""

        async def scenario(client: Any) -> Any:
            ask = client.chat.completions.with_streaming_response.create
            async with bench.inside(ask(model="gpt-test", messages=HI, stream=True)) as response:
                return [json.loads(line[6:]) for line in await bench.every(response.iter_lines()) if line[6:7] == "{"]

        chunks = same(run(scenario))
        assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}

    def test_streaming_of_a_whole_answer(self, run: Any, bench: Bench) -> None:
        """``with_streaming_response`` of an answer that is no stream can be parsed as well."""

        async def scenario(client: Any) -> Any:
            ask = client.chat.completions.with_streaming_response.create
            async with bench.inside(ask(model="gpt-test", messages=HI)) as response:
                return await bench.got(response.parse())

        assert same(run(scenario)).choices[0].message.content == TEXT


class TestErrors:
    def test_retries_are_one_effect(self, run: Any, bench: Bench) -> None:
        """However often the SDK retries, the model was asked once."""
        bench.server.fail_with = [500, 429]
        twice = run(lambda client: bench.got(client.chat.completions.create(model="gpt-test", messages=HI)))
        assert same(twice).choices[0].message.content == TEXT
        assert twice.calls == 3
        assert len(twice.events("MODEL_REQUESTED")) == len(twice.events("MODEL_COMPLETED")) == 1
        assert not twice.events("MODEL_FAILED")

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize(
        ("status", "name"), [(400, "BadRequestError"), (429, "RateLimitError"), (500, "InternalServerError")]
    )
    def test_refused(self, run: Any, bench: Bench, status: int, name: str, stream: bool) -> None:
        """A refused request raises the SDK's own error again, with all that it tells, when the request is made."""
        bench.server.fail_with = [status] * 3

        async def scenario(client: Any) -> Any:
            with pytest.raises(openai.APIStatusError) as caught:
                await bench.got(client.chat.completions.create(model="gpt-test", messages=HI, stream=stream))
            error = caught.value
            response = error.response.json()
            return (
                type(error).__name__,
                str(error),
                error.status_code,
                error.body,
                error.code,
                error.request_id,
                response,
            )

        twice = run(scenario)
        told = same(twice)
        assert (told[0], told[2], told[4]) == (name, status, "refused")
        assert told[3]["message"] == f"refused with {status}"
        assert len(twice.events("MODEL_FAILED")) == 1

    def test_no_connection(self, run: Any, bench: Bench) -> None:
        """A server that cannot be reached is recorded as the SDK's error, and raised again."""
        bench.server.stop()

        async def scenario(client: Any) -> Any:
            ask = client.with_options(max_retries=0).chat.completions.create
            with pytest.raises(openai.APIConnectionError) as caught:
                await bench.got(ask(model="gpt-test", messages=HI))
            return type(caught.value), str(caught.value)

        assert same(run(scenario)) == (openai.APIConnectionError, "Connection error.")

    def test_stream_that_breaks_off(self, run: Any, bench: Bench) -> None:
        """A stream that broke off gives the same chunks and then the same error."""
        bench.server.cut = True

        async def scenario(client: Any) -> Any:
            stream = await bench.got(client.chat.completions.create(model="gpt-test", messages=HI, stream=True))
            chunks: list[Any] = []
            error: Exception | None = None
            try:
                if hasattr(stream, "__aiter__"):
                    async for chunk in stream:
                        chunks.append(chunk)  # noqa: PERF401
                else:
                    chunks.extend(stream)
            except Exception as caught:
                error = caught
            return type(error).__name__, str(error), chunks

        name, _, chunks = same(run(scenario))
        assert name in ("APIConnectionError", "RemoteProtocolError")  # since 3.0, before
        assert chunks


class TestClients:
    def test_sync_flow(self, server: FakeServer) -> None:
        """A flow that is a plain function is recorded and replayed too."""

        def flow(url: str) -> str:
            with openai.OpenAI(base_url=f"{url}/v1", api_key="k") as client:
                answer: str = client.responses.create(model="gpt-test", input="hi").output_text
                return answer

        log = pytest_loom.record(flow, server.url)
        server.stop()
        assert pytest_loom.replay(log, flow).state.variables["_output"] == log.state.variables["_output"] == TEXT

    def test_own_http_client(self, server: FakeServer) -> None:
        """A client on an HTTP library of the application's choice gets that library's responses."""
        httpx = pytest.importorskip("httpx", reason="needs httpx, which not every version of openai installs")

        def flow(url: str) -> list[str]:
            http = httpx.Client(trust_env=False)
            with openai.OpenAI(base_url=f"{url}/v1", api_key="k", http_client=http) as client:
                raw = client.chat.completions.with_raw_response.create(model="gpt-test", messages=HI)
                assert isinstance(raw.http_response, httpx.Response)
                stream = client.chat.completions.create(model="gpt-test", messages=HI, stream=True)
                return [raw.parse().id, *(chunk.id for chunk in stream)]

        log = pytest_loom.record(flow, server.url)
        assert log.state.variables["_output"][:2] == ["chatcmpl-1", "chatcmpl-2"]
        assert pytest_loom.replay(log, flow).state.variables["_output"] == log.state.variables["_output"]
        assert len(server.requests) == 2

    def test_any_server(self, server: FakeServer) -> None:
        """Where the API is does not count: what was recorded at one address is replayed at another, or at Azure."""
        made = {
            "here": lambda: openai.OpenAI(base_url=f"{server.url}/v1", api_key="k"),
            "azure": lambda: openai.AzureOpenAI(azure_endpoint="https://x.invalid", api_version="1", api_key="k"),
        }
        use = "here"

        def flow(_: str) -> str:
            with made[use]() as client:
                answer: str = client.chat.completions.create(model="gpt-test", messages=HI).choices[0].message.content
                return answer

        log = pytest_loom.record(flow, "")
        use = "azure"
        assert pytest_loom.replay(log, flow).state.variables["_output"] == TEXT

    @pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI"])
    def test_no_key(self, server: FakeServer, monkeypatch: pytest.MonkeyPatch, bench: Bench, name: str) -> None:
        """A replay needs no API key; a recording without one is refused by the call, and outside by the client."""
        azure = {"azure_endpoint": server.url, "api_version": "1"} if "Azure" in name else {}
        caught: list[Exception] = []

        async def flow(url: str) -> str:
            async with bench.inside(getattr(openai, name)(**azure)) as client:
                try:
                    answer = await bench.got(client.chat.completions.create(model="gpt-test", messages=HI))
                except Exception as error:
                    caught.append(error)
                    raise
                text: str = answer.choices[0].message.content
                return text

        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        if azure:
            monkeypatch.delenv("OPENAI_BASE_URL")
        for key in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
            monkeypatch.setenv(key, "k")
        log = pytest_loom.record(flow, server.url)
        for key in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
            monkeypatch.delenv(key)
        assert pytest_loom.replay(log, flow).state.variables["_output"] == TEXT
        assert not caught

        assert pytest_loom.record(flow, server.url).state.status == "failed"
        assert isinstance(caught[0], openai.OpenAIError)
        assert "OPENAI_API_KEY" in str(caught[0])
        with pytest.raises(openai.OpenAIError):
            getattr(openai, name)(**azure)
        assert len(server.requests) == 1

    def test_undone(self, server: FakeServer) -> None:
        """After a run the SDK is as it was."""
        clients = importlib.import_module("openai._base_client")
        before = (
            clients.SyncAPIClient.request,
            clients.AsyncAPIClient.request,
            openai.OpenAI.__init__,
            openai.AsyncAzureOpenAI.__init__,
        )
        seen: list[Any] = []

        def flow(_: str) -> None:
            seen.append(clients.SyncAPIClient.request)

        pytest_loom.record(flow, "")
        assert seen != [before[0]]
        assert before == (
            clients.SyncAPIClient.request,
            clients.AsyncAPIClient.request,
            openai.OpenAI.__init__,
            openai.AsyncAzureOpenAI.__init__,
        )

    def test_binary(self, server: FakeServer) -> None:
        """Binary answers are not recorded: the call passes while recording, and is refused in replay."""

        def flow(url: str) -> int:
            with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
                speech = client.audio.speech.create(model="tts", voice="x", input="hi")
                return len(speech.content)

        log = pytest_loom.record(flow, server.url)
        assert log.state.variables["_output"] == 4
        assert not [event for event in log.events if event.event_type.startswith("MODEL_")]
        with pytest.raises(pytest_loom.LiveCallError):
            pytest_loom.replay(log, flow)


class TestRuns:
    def test_concurrent_calls(self, server: FakeServer) -> None:
        """Calls that went on at once, some of them streams, are each answered with their own."""

        async def flow(url: str) -> list[list[str]]:
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client:

                async def ask(number: int) -> list[str]:
                    said = [{"role": "user", "content": f"question {number}"}]
                    answer = await client.chat.completions.create(model="m", messages=said, stream=number % 2 == 1)
                    return [chunk.id async for chunk in answer] if number % 2 else [answer.id]

                return list(await asyncio.gather(*map(ask, range(6))))

        async def both() -> tuple[pytest_loom.Log, pytest_loom.Log]:
            log = await pytest_loom.arecord(flow, server.url)
            server.stop()
            return log, await pytest_loom.areplay(log, flow)

        log, candidate = asyncio.run(both())
        assert log.state.status == "completed"
        assert len({answers[0] for answers in log.state.variables["_output"]}) == 6
        assert pytest_loom.diff_runs(log, candidate, compare="all") == []

    def test_another_question(self, server: FakeServer) -> None:
        """An answer is not given to another question: where today's code asks something else is said."""
        said = "hi"

        def flow(url: str) -> str:
            with openai.OpenAI(base_url=f"{url}/v1", api_key="k") as client:
                text: str = client.responses.create(model="gpt-test", input=said).output_text
                return text

        log = pytest_loom.record(flow, server.url)
        said = "ho"
        with pytest.raises(pytest_loom.ReplayDivergence, match=r'body\.input: recorded "hi", today "ho"'):
            pytest_loom.replay(log, flow)

    @pytest.mark.parametrize(
        ("stream", "written", "edited"),
        [
            (False, '"status":200', '"status":"fine"'),
            (False, '"body":{"id"', '"other":{"id"'),
            (True, '"headers":{', '"headers":[],"other":{'),
        ],
    )
    def test_edited_answer(self, edited_run: Any, stream: bool, written: str, edited: str) -> None:
        """An answer that somebody gave another shape is refused with pytest-loom's own word for it."""
        with pytest.raises(pytest_loom.LoomError):
            edited_run(stream, written, edited)

    @pytest.mark.parametrize("edited", ['"stream":[],"other":[{', '"stream":[{"data":""},{'])
    def test_edited_stream(self, edited_run: Any, edited: str) -> None:
        """A stream that somebody took the beginning from is no stream any more, and not the one that was read."""
        with pytest.raises(pytest_loom.ReplayDivergence) as caught:
            edited_run(True, '"stream":[{', edited)
        assert caught.value.kind == "stream"

    def test_edited_error(self, edited_run: Any, server: FakeServer) -> None:
        """A refusal that somebody gave another shape still fails the candidate, if not as the SDK's own error."""
        server.fail_with = [400]
        candidate = edited_run(False, '"status":400', '"status":"bad"')
        assert candidate.state.status == "failed"
        assert "refused with 400" in candidate.state.variables["_error"]["message"]


@pytest.fixture
def edited_run(server: FakeServer, tmp_path: Path) -> Any:
    """Replay a run whose log has another text in the place of one."""

    def replayed(stream: bool, written: str, edited: str) -> pytest_loom.Log:
        def flow(url: str) -> None:
            with openai.OpenAI(base_url=f"{url}/v1", api_key="k") as client:
                client.responses.create(model="gpt-test", input="hi", stream=stream)

        path = tmp_path / "run.loom.jsonl"
        pytest_loom.record(flow, server.url, path=path)
        text = path.read_text(encoding="utf-8")
        assert written in text
        path.write_text(text.replace(written, edited), encoding="utf-8")
        return pytest_loom.replay(pytest_loom.load_log(path), flow)

    return replayed
