"""The seam that the ``openai`` and ``anthropic`` packages share: one generator (Stainless) writes both clients.

What is patched is ``request`` of their ``SyncAPIClient`` and ``AsyncAPIClient``: every endpoint goes through it, it
gets the request as data, and the SDK's retries happen inside it, so a call is one effect however often it was
retried. A live call asks the SDK for the raw response, as ``with_raw_response`` does. What goes into the log is data:

* request: ``{"path", "body"}``, with ``"method"`` and ``"query"`` where they say more (a GET, query parameters);
* answer: ``{"status", "headers", "body"}``; of the headers only the content type and the request id are kept;
* streamed answer: a first piece ``{"status", "headers"}``, then ``{"event", "data"}`` for each server-sent event;
* refused request: ``{"status", "headers", "body"}`` of the server's answer, beside the error's type and message.

Both have ``"retries"`` too where the SDK had to retry. From that data, live and in replay alike, an HTTP response is
rebuilt which the SDK parses itself. So what comes back has the SDK's own types, with structured outputs, the stream
helpers, ``with_raw_response``, ``with_streaming_response`` and the error classes. No request header and no host is
recorded or compared.

Not recorded, so live while recording and refused by the guard in replay: uploads (files, raw content), binary answers
(audio, file contents, results of batches) and websockets (realtime).
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import functools
import importlib
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, NotRequired, TypedDict, get_origin
from urllib.parse import urlsplit

import msgspec

from pytest_loom.errors import LogError, RecordingError
from pytest_loom.flow import seam
from pytest_loom.flow.guard import opened

RAW_HEADER = "X-Stainless-Raw-Response"
OVERRIDE_HEADER = "____stainless_override_cast_to"
KEPT_HEADERS = ("content-type", "request-id", "x-request-id")


def install(package: str, before_live: Callable[[Any], None] = lambda client: None) -> Callable[[], None]:
    """Patch the clients of ``package`` ("openai" or "anthropic"), which is imported already; the result undoes it.

    ``before_live`` gets the client before each live call; what it raises is the call's error.
    """
    base = importlib.import_module(f"{package}._base_client")
    sync_request, async_request = base.SyncAPIClient.request, base.AsyncAPIClient.request

    with contextlib.suppress(Exception), opened():  # what it says of the machine, it asks other programs once
        base.platform_headers(importlib.import_module(package).__version__, platform=None)

    @functools.wraps(sync_request)
    def request(client: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run() or not _recordable(cast_to, options):
            return sync_request(client, cast_to, options, *args, **kwargs)
        if hasattr(client, "_copy_and_prepare"):  # it reads what can be read only once: files, iterators
            options = client._copy_and_prepare(options)
        call = _Call(package, client, cast_to, options, **kwargs)

        def raw() -> Any:
            before_live(client)
            return sync_request(client, cast_to, call.options_for_raw(), *args, **kwargs)

        if call.stream:
            pieces: Any = seam.stream("model", call.name, call.asked, lambda: _pieces(client, raw()), call.wire)
            return call.parse(call.response(next(pieces, None), call.byte_stream(pieces)))
        answer = seam.call("model", call.name, call.asked, lambda: _answer(raw()), call.wire, usage=_usage)
        return call.parse(call.response(answer))

    @functools.wraps(async_request)
    async def arequest(client: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run() or not _recordable(cast_to, options):
            return await async_request(client, cast_to, options, *args, **kwargs)
        if hasattr(client, "_copy_and_prepare"):
            options = await client._copy_and_prepare(options)
        call = _Call(package, client, cast_to, options, **kwargs)

        async def raw() -> Any:
            before_live(client)
            return await async_request(client, cast_to, call.options_for_raw(), *args, **kwargs)

        async def live() -> Answer:
            return _answer(await raw())

        async def live_stream() -> AsyncIterator[Head | Piece]:
            return _apieces(client, await raw())

        if call.stream:
            pieces: Any = await seam.astream("model", call.name, call.asked, live_stream, call.wire)
            return await call.parse(call.response(await anext(pieces, None), call.async_byte_stream(pieces)))
        answer = await seam.acall("model", call.name, call.asked, live, call.wire, usage=_usage)
        return await call.parse(call.response(answer))

    base.SyncAPIClient.request, base.AsyncAPIClient.request = request, arequest

    def undo() -> None:
        base.SyncAPIClient.request, base.AsyncAPIClient.request = sync_request, async_request

    return undo


class Head(TypedDict):
    """How an answer begins: ``retries`` says how often the SDK had asked before, if it had."""

    status: int
    headers: dict[str, str]
    retries: NotRequired[int]


class Answer(Head):
    """A whole answer. A body that is no JSON object or array is text."""

    body: str | dict[str, Any] | list[Any]


class Piece(TypedDict):
    """A server-sent event. Data that is no JSON object or array is text."""

    event: NotRequired[str]
    data: str | dict[str, Any] | list[Any]


class _Call:
    """One request of a client: what is recorded of it, and how a recorded answer becomes the SDK's own again."""

    def __init__(
        self, package: str, client: Any, cast_to: Any, options: Any, *, stream: bool = False, stream_cls: Any = None
    ) -> None:
        self.sdk, self.base = importlib.import_module(package), importlib.import_module(f"{package}._base_client")
        self.httpx = _httpx_of(client)
        self.client, self.cast_to, self.options = client, cast_to, options
        self.stream, self.stream_cls = stream, stream_cls
        self.headers = dict(options.headers) if isinstance(options.headers, Mapping) else {}
        self.asked = _asked(options)
        body = self.asked.get("body")
        model = body.get("model") if isinstance(body, dict) else None
        self.name: str = model if isinstance(model, str) else self.asked["path"]
        self.wire: seam.Wire[Any] = seam.Wire(
            dump=lambda answer: answer,
            load=_load_piece if stream else _load_answer,
            dump_error=_dump_error,
            load_error=self.load_error,
        )
        self._retries = 0

    def options_for_raw(self) -> Any:
        """The options that make the SDK give its wrapper of the response, neither parsed nor, if streamed, read."""
        return self.options.model_copy(update={"headers": {**self.headers, RAW_HEADER: "raw"}})

    def response(self, answer: Any, stream: Any = None) -> Any:
        """The HTTP response that ``answer`` was, its body being ``stream`` where that is given."""
        if answer is None or "status" not in answer:
            raise LogError("a recorded stream does not begin with its status and headers", hint="Record the run anew.")
        self._retries = answer.get("retries", 0)
        response = self.httpx.Response(
            answer["status"],
            headers=[(name.encode(), value.encode()) for name, value in answer["headers"].items()],
            request=self._request(),
            **({"content": _text(answer["body"]).encode()} if stream is None else {"stream": stream}),
        )
        response.encoding = "utf-8"
        response.elapsed = datetime.timedelta(0)
        return response

    def parse(self, response: Any) -> Any:
        """What the SDK makes of ``response`` for the caller; of an async client, what is to be awaited for it."""
        parser = copy.copy(self.client)
        # The rebuilt stream is text, also where the live one is not (Bedrock).
        parser._make_sse_decoder = functools.partial(self.base.BaseClient._make_sse_decoder, parser)
        return parser._process_response(
            cast_to=self.cast_to,
            options=self.options,
            response=response,
            stream=self.stream,
            stream_cls=self.stream_cls,
            retries_taken=self._retries,
        )

    def load_error(self, name: str, message: str, data: Any) -> Exception | None:
        """The exception that a recorded one was, or None where it is not this package's (see ``seam.Wire``)."""
        if data is not None:
            try:
                response = self.response(_load_answer(data))
            except ValueError:  # edited: nothing that the SDK could make an error of
                return None
            refused: Exception = self.client._make_status_error_from_response(response)
            return refused
        kind = name.rpartition(".")[2]
        if kind == "APITimeoutError":
            timeout: Exception = self.sdk.APITimeoutError(request=self._request())
            return timeout
        if kind == "APIConnectionError":
            connection: Exception = self.sdk.APIConnectionError(message=message, request=self._request())
            return connection
        # A stream that broke off: the SDK expects the error of the HTTP library.
        broken = {each.__name__: each for each in _subclasses(self.httpx.TransportError)}.get(kind)
        return None if broken is None else broken(message, request=self._request())

    def byte_stream(self, pieces: Any) -> Any:
        """The body of a rebuilt streamed response, made from the pieces as they come."""

        def frames(_: Any) -> Iterator[bytes]:
            for piece in pieces:
                yield _frame(piece)
                if _is_last(piece):
                    return

        members = {"__iter__": frames, "close": lambda _: pieces.close()}
        return type("ByteStream", (self.httpx.SyncByteStream,), members)()

    def async_byte_stream(self, pieces: Any) -> Any:
        """``byte_stream`` of an async client."""

        async def frames(_: Any) -> AsyncIterator[bytes]:
            async for piece in pieces:
                yield _frame(piece)
                if _is_last(piece):
                    return

        members = {"__aiter__": frames, "aclose": lambda _: pieces.aclose()}
        return type("AsyncByteStream", (self.httpx.AsyncByteStream,), members)()

    def _request(self) -> Any:
        mode = {RAW_HEADER: self.headers[RAW_HEADER]} if RAW_HEADER in self.headers else {}
        return self.httpx.Request(self.options.method, str(self.client._prepare_url(self.options.url)), headers=mode)


def _recordable(cast_to: Any, options: Any) -> bool:
    """Whether request and answer are JSON or text. An upload or a binary answer is not recorded."""
    headers = options.headers if isinstance(options.headers, Mapping) else {}
    asked_for = headers.get(OVERRIDE_HEADER, cast_to)
    kind = get_origin(asked_for) or asked_for
    # HttpxBinaryResponseContent, BinaryAPIResponse, StreamedBinaryAPIResponse, JSONLDecoder and their async forms
    names: list[str] = [each.__name__ for each in kind.__mro__] if inspect.isclass(kind) else []
    binary = any("Binary" in name or "JSONL" in name for name in names)
    content = getattr(options, "content", None)
    return not (binary or options.files or content is not None or isinstance(options.json_data, bytes))


def _asked(options: Any) -> dict[str, Any]:
    """The request as data: the host is left out, so that any server is the same."""
    url = urlsplit(options.url)
    body = options.json_data
    if options.extra_json is not None:
        body = {**(body or {}), **options.extra_json}
    query = {key: value for key, value in (options.params or {}).items() if type(value).__name__ != "Omit"}
    asked = {
        "method": method if (method := options.method.upper()) != "POST" else None,
        # With a body, a query in the URL is the SDK's own (?beta=true), and not every version of it has one.
        "path": f"{url.path}?{url.query}" if url.query and body is None else url.path,
        "query": query or None,
        "body": body,
    }
    plain: dict[str, Any] = json.loads(json.dumps({k: v for k, v in asked.items() if v is not None}, default=_plain))
    return plain


def _plain(value: Any) -> Any:
    """What JSON has no word for, as the SDKs send it: a message of an earlier answer is a pydantic model."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, datetime.date):  # datetimes are dates
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return list(value)
    raise TypeError(f"a request to a model holds a {type(value).__name__}, which JSON cannot say")


def _head(response: Any, retries: int = 0) -> Head:
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    head: Head = {"status": response.status_code, "headers": headers}
    return {**head, "retries": retries} if retries else head


def _answer(raw: Any) -> Answer:
    """A complete answer as data; ``raw`` is the SDK's wrapper of the response."""
    response = raw.http_response
    try:
        text = response.content.decode(response.encoding or "utf-8")
    except (UnicodeDecodeError, LookupError):
        raise RecordingError(
            f"the answer of {response.request.url.path} is no text ({response.headers.get('content-type')})",
            hint="Make the call inside a step: then the step's outcome is recorded, and not the call.",
        ) from None
    return {**_head(response, raw.retries_taken), "body": _data(text)}


def _pieces(client: Any, raw: Any) -> Iterator[Head | Piece]:
    """A streamed answer as data, each piece as soon as it is there."""
    response = raw.http_response
    try:
        yield _head(response, raw.retries_taken)
        for event in client._make_sse_decoder().iter_bytes(response.iter_bytes()):
            yield _piece(event)
    finally:
        response.close()


async def _apieces(client: Any, raw: Any) -> AsyncIterator[Head | Piece]:
    response = raw.http_response
    try:
        yield _head(response, raw.retries_taken)
        async for event in client._make_sse_decoder().aiter_bytes(response.aiter_bytes()):
            yield _piece(event)
    finally:
        await response.aclose()


def _piece(event: Any) -> Piece:
    data = _data(event.data)
    return {"data": data} if event.event is None else {"event": event.event, "data": data}


def _frame(piece: Piece) -> bytes:
    lines = [f"event: {piece['event']}"] if "event" in piece else []
    lines += [f"data: {line}" for line in _text(piece["data"]).split("\n")]
    return "\n".join([*lines, "", ""]).encode()


def _is_last(piece: Piece) -> bool:
    """Whether nothing comes after a piece. Some versions of the SDK close a stream there, some read it to its end."""
    return piece.get("data") == "[DONE]"


def _data(text: str) -> Any:
    """``text`` as JSON where it is an object or an array; anything else stays text, so that ``_text`` undoes this."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text


def _text(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data)


def _usage(answer: Answer) -> Any:
    body = answer["body"]
    return body.get("usage") if isinstance(body, dict) else None


def _dump_error(error: Exception) -> Any:
    """The server's answer, if ``error`` is the SDK's word for one; None for any other."""
    response = getattr(error, "response", None)
    if not hasattr(error, "status_code") or response is None:
        return None
    return {**_head(response), "body": _data(response.text)}


def _load_answer(data: Any) -> Any:
    return msgspec.convert(data, Answer)


def _load_piece(data: Any) -> Any:
    return msgspec.convert(data, Head if isinstance(data, dict) and "status" in data else Piece)


def _httpx_of(client: Any) -> Any:
    """The HTTP library under ``client``: httpx, or its successor httpx2."""
    names = (each.__module__.partition(".")[0] for each in type(client._client).__mro__)
    return importlib.import_module(next(name for name in names if name in ("httpx", "httpx2")))


def _subclasses(kind: Any) -> Iterator[Any]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
