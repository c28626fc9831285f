"""The seam of the anthropic package: the real client is recorded against a server, and replayed when that is gone."""

from __future__ import annotations

import base64
import importlib
import inspect
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

import pytest_loom

anthropic: Any = pytest.importorskip("anthropic", reason="needs the anthropic package")

if TYPE_CHECKING:
    from tests.seams.conftest import Bench, Twice
    from tests.seams.fake_servers import FakeServer

ASK: dict[str, Any] = {
    "model": "claude-test",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hi"}],
}
TOOL = {"name": "weather", "description": "", "input_schema": {"type": "object", "properties": {}}}
TEXT = "Hello from the sërver\u2028."
ARGUMENTS = {"city": "Köln", "unit": "C"}


class Weather(pydantic.BaseModel):
    city: str
    degrees: float


@pytest.fixture(params=["Anthropic", "AsyncAnthropic"])
def client_class(request: pytest.FixtureRequest) -> str:
    """The sync and the async client."""
    name: str = request.param
    return name


@pytest.fixture
def run(bench: Bench, client_class: str) -> Any:
    """Run a scenario with a client that retries twice."""

    def make(url: str) -> Any:
        return getattr(anthropic, client_class)(base_url=url, api_key="sk-secret", max_retries=2)

    return lambda scenario: bench(make, scenario)


def same(twice: Twice) -> Any:
    """The live result, having checked that the replayed one is of the same type and says the same."""
    live, replayed = twice.live, twice.replayed
    assert type(live) is type(replayed)
    assert live == replayed
    if isinstance(live, pydantic.BaseModel):
        assert live.model_dump() == replayed.model_dump()
    return live


class TestMessages:
    def test_answer(self, run: Any, bench: Bench) -> None:
        """An answer comes back as a Message that says what the live one said."""
        twice = run(lambda client: bench.got(client.messages.create(**ASK)))
        live = same(twice)
        assert type(live) is anthropic.types.Message
        assert live.content[0].text == TEXT
        assert twice.replayed._request_id == live._request_id == "req_1"

    def test_log(self, run: Any, bench: Bench) -> None:
        """The log says what was asked and answered as data, names the model and has the tokens used, but no secret."""
        twice = run(lambda client: bench.got(client.messages.create(**ASK)))
        (asked,), (answered,) = twice.events("MODEL_REQUESTED"), twice.events("MODEL_COMPLETED")
        assert asked["model"] == "claude-test"
        assert asked["request"] == {"path": "/v1/messages", "body": ASK}
        assert answered["response"]["body"]["content"][0]["text"] == TEXT
        assert answered["usage"] == {"input_tokens": 7, "output_tokens": 1}
        assert "sk-secret" in str(bench.server.requests[0][2])
        assert "secret" not in twice.text

    def test_tools(self, run: Any, bench: Bench) -> None:
        """An agent's loop is replayed: tool use, its result sent with the answer's own content, final answer."""

        async def scenario(client: Any) -> Any:
            first = await bench.got(client.messages.create(**ASK, tools=[TOOL]))
            use = first.content[0]
            result = {"type": "tool_result", "tool_use_id": use.id, "content": "weather: fine"}
            said = [
                *ASK["messages"],
                {"role": "assistant", "content": first.content},
                {"role": "user", "content": [result]},
            ]
            last = await bench.got(client.messages.create(**{**ASK, "messages": said}, tools=[TOOL]))
            return type(use), use.name, use.input, last.content[0].text

        twice = run(scenario)
        assert same(twice)[1:] == ("weather", ARGUMENTS, TEXT)
        asked = [asked["request"]["body"] for asked in twice.events("MODEL_REQUESTED")]
        assert asked == [body for _, body, _ in bench.server.requests]
        assert asked[1]["messages"][1]["content"][0]["input"] == ARGUMENTS

    def test_stream(self, run: Any, bench: Bench) -> None:
        """A streamed answer comes back as the SDK's stream, of equal events, and is in the log by event."""

        async def scenario(client: Any) -> Any:
            stream = await bench.got(client.messages.create(**ASK, stream=True))
            assert isinstance(stream, anthropic.Stream | anthropic.AsyncStream)
            return await bench.every(stream)

        twice = run(scenario)
        assert "".join(event.delta.text for event in same(twice) if event.type == "content_block_delta") == TEXT
        assert [type(event) for event in twice.live] == [type(event) for event in twice.replayed]
        head, *events = twice.events("MODEL_COMPLETED")[0]["response"]["stream"]
        assert head["status"] == 200
        assert [event["event"] for event in events][:3] == ["message_start", "content_block_start", "ping"]
        assert events[0]["data"]["message"]["model"] == "claude-test"

    def test_stream_helper(self, run: Any, bench: Bench) -> None:
        """``messages.stream`` gives its text and its final message."""

        async def scenario(client: Any) -> Any:
            async with bench.inside(client.messages.stream(**ASK)) as stream:
                text = "".join(await bench.every(stream.text_stream))
                return text, await bench.got(stream.get_final_message()), stream.response.headers["request-id"]

        twice = run(scenario)
        text, message, request_id = same(twice)
        assert text == message.content[0].text == TEXT
        assert message.usage.output_tokens == 1
        assert request_id == "req_1"

    def test_stream_helper_with_tools(self, run: Any, bench: Bench) -> None:
        """``messages.stream`` puts the input of a tool use together."""

        async def scenario(client: Any) -> Any:
            async with bench.inside(client.messages.stream(**ASK, tools=[TOOL])) as stream:
                kinds = [event.type for event in await bench.every(stream)]
                return kinds, (await bench.got(stream.get_final_message())).content[0].input

        kinds, given = same(run(scenario))
        assert "input_json" in kinds
        assert given == ARGUMENTS

    def test_stream_that_is_left_early(self, run: Any, bench: Bench) -> None:
        """An application that leaves a stream early does so in replay as well."""

        async def scenario(client: Any) -> Any:
            async with bench.inside(client.messages.stream(**ASK)) as stream:
                texts = aiter(stream.text_stream) if hasattr(stream.text_stream, "__aiter__") else stream.text_stream
                return await bench.got(anext(texts) if hasattr(texts, "__anext__") else next(texts))

        assert same(run(scenario)) == TEXT[:9]

    def test_structured(self, run: Any, bench: Bench) -> None:
        """``messages.parse`` gives the application's own type."""
        if not hasattr(anthropic.resources.Messages, "parse"):
            pytest.skip("this version of anthropic has no messages.parse")
        twice = run(lambda client: bench.got(client.messages.parse(**ASK, output_format=Weather)))
        assert twice.live.parsed_output == twice.replayed.parsed_output == Weather(city="Köln", degrees=21.5)

    def test_beta(self, run: Any, bench: Bench) -> None:
        """The beta messages are recorded like the others; that a version of the SDK adds ?beta=true does not count."""
        twice = run(lambda client: bench.got(client.beta.messages.create(**ASK)))
        assert type(same(twice)) is anthropic.types.beta.BetaMessage
        assert twice.events("MODEL_REQUESTED")[0]["request"]["path"] == "/v1/messages"


class TestRawResponses:
    def test_raw(self, run: Any, bench: Bench) -> None:
        """``with_raw_response`` gives headers, status, the parsed answer and how often the SDK had to retry."""
        bench.server.fail_with = [529]

        async def scenario(client: Any) -> Any:
            raw = await bench.got(client.messages.with_raw_response.create(**ASK))
            return raw.status_code, raw.headers["request-id"], raw.retries_taken, await bench.got(raw.parse())

        status, request_id, retries, parsed = same(run(scenario))
        assert (status, request_id, retries) == (200, "req_2", 1)
        assert parsed.content[0].text == TEXT

    def test_streaming(self, run: Any, bench: Bench) -> None:
        """``with_streaming_response`` gives the lines of a stream as the server sent them."""

        async def scenario(client: Any) -> Any:
            manager = client.messages.with_streaming_response.create(**ASK, stream=True)
            async with bench.inside(manager) as response:
                return await bench.every(response.iter_lines())

        assert same(run(scenario))[0] == "event: message_start"


class TestErrors:
    def test_retries_are_one_effect(self, run: Any, bench: Bench) -> None:
        """However often the SDK retries, the model was asked once."""
        bench.server.fail_with = [529, 429]
        twice = run(lambda client: bench.got(client.messages.create(**ASK)))
        assert same(twice).content[0].text == TEXT
        assert twice.calls == 3
        assert len(twice.events("MODEL_REQUESTED")) == len(twice.events("MODEL_COMPLETED")) == 1

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize(
        ("status", "name"), [(400, "BadRequestError"), (429, "RateLimitError"), (500, "InternalServerError")]
    )
    def test_refused(self, run: Any, bench: Bench, status: int, name: str, stream: bool) -> None:
        """A refused request raises the SDK's own error again, with all that it tells, when the request is made."""
        bench.server.fail_with = [status] * 3

        async def scenario(client: Any) -> Any:
            with pytest.raises(anthropic.APIStatusError) as caught:
                await bench.got(client.messages.create(**ASK, stream=stream))
            error = caught.value
            return type(error).__name__, error.status_code, error.body, str(error), error.request_id

        twice = run(scenario)
        told = same(twice)
        assert told[:2] == (name, status)
        assert told[2]["error"]["message"] == f"refused with {status}"
        assert len(twice.events("MODEL_FAILED")) == 1

    def test_no_connection(self, run: Any, bench: Bench) -> None:
        """A server that cannot be reached is recorded as the SDK's error, and raised again."""
        bench.server.stop()

        async def scenario(client: Any) -> Any:
            ask = client.with_options(max_retries=0).messages.create
            with pytest.raises(anthropic.APIConnectionError) as caught:
                await bench.got(ask(**ASK))
            return type(caught.value), str(caught.value)

        assert same(run(scenario)) == (anthropic.APIConnectionError, "Connection error.")

    def test_stream_that_breaks_off(self, run: Any, bench: Bench) -> None:
        """A stream that broke off gives the same events and then the same error."""
        bench.server.cut = True

        async def scenario(client: Any) -> Any:
            stream = await bench.got(client.messages.create(**ASK, stream=True))
            events: list[Any] = []
            error: Exception | None = None
            try:
                if hasattr(stream, "__aiter__"):
                    async for event in stream:
                        events.append(event)  # noqa: PERF401
                else:
                    events.extend(stream)
            except Exception as caught:
                error = caught
            return type(error).__name__, str(error), events

        name, _, events = same(run(scenario))
        assert name == "RemoteProtocolError"
        assert events


class TestClients:
    def test_no_key(self, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """A replay needs no API key."""

        def flow(url: str) -> str:
            with anthropic.Anthropic(base_url=url) as client:
                text: str = client.messages.create(**ASK).content[0].text
                return text

        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        log = pytest_loom.record(flow, server.url)
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        assert pytest_loom.replay(log, flow).state.variables["_output"] == TEXT
        assert len(server.requests) == 1

    def test_wire_that_is_no_text(self, server: FakeServer) -> None:
        """A client that reads streams its own way, as for Bedrock, does so once: what is rebuilt is text."""
        streaming: Any = importlib.import_module("anthropic._streaming")

        class Decoder:
            def iter_bytes(self, raw: Iterator[bytes]) -> Iterator[Any]:
                yield from streaming.SSEDecoder().iter_bytes([b"".join(raw).replace(b"Hello", b"Hello, hello")])

        def flow(url: str) -> str:
            with anthropic.Anthropic(base_url=url, api_key="k") as client:
                client._make_sse_decoder = Decoder
                with client.messages.stream(**ASK) as stream:
                    text: str = stream.get_final_text()
                    return text

        log = pytest_loom.record(flow, server.url)
        assert pytest_loom.replay(log, flow).state.variables["_output"] == f"Hello, hello{TEXT[5:]}"

    def test_middleware(self, server: FakeServer) -> None:
        """Middleware of a client belongs to the live call: it is not run in replay."""
        if "middleware" not in inspect.signature(anthropic.Anthropic).parameters:
            pytest.skip("this version of anthropic has no middleware")
        seen: list[bool] = []

        def middleware(request: Any, call_next: Any) -> Any:
            seen.append(request.stream)
            return call_next(request)

        def flow(url: str) -> list[str]:
            with anthropic.Anthropic(base_url=url, api_key="k", middleware=[middleware]) as client:
                whole = client.messages.create(**ASK).content[0].text
                with client.messages.stream(**ASK) as stream:
                    return [whole, stream.get_final_text()]

        log = pytest_loom.record(flow, server.url)
        assert pytest_loom.replay(log, flow).state.variables["_output"] == [TEXT, TEXT]
        assert seen == [False, True]

    def test_file_in_a_message(self, server: FakeServer) -> None:
        """A file that the SDK reads into a message is read once, and recorded as it was sent."""
        if not hasattr(anthropic.Anthropic, "_copy_and_prepare"):
            pytest.skip("this version of anthropic reads no files into messages")

        def flow(url: str) -> str:
            source = {"type": "base64", "media_type": "image/png", "data": io.BytesIO(b"picture")}
            said = [{"role": "user", "content": [{"type": "image", "source": source}]}]
            with anthropic.Anthropic(base_url=url, api_key="k") as client:
                text: str = client.messages.create(**{**ASK, "messages": said}).content[0].text
                return text

        log = pytest_loom.record(flow, server.url)
        sent = base64.b64encode(b"picture").decode()
        assert server.requests[0][1]["messages"][0]["content"][0]["source"]["data"] == sent
        asked = next(event.payload for event in log.events if event.event_type == "MODEL_REQUESTED")
        assert asked["request"]["body"] == server.requests[0][1]
        assert pytest_loom.replay(log, flow).state.variables["_output"] == TEXT
