"""A server on loopback that speaks as much of the APIs of OpenAI and Anthropic as the tests of their seams need.

It is no model: the request says what comes. With tools it asks for the first of them, once; with a JSON schema it
answers in JSON; else it says hello. Ids count up, so an answer that was recorded is told from one that was not.
"""

from __future__ import annotations

import base64
import itertools
import json
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ARGUMENTS = {"city": "Köln", "unit": "C"}
STRUCTURED = {"city": "Köln", "degrees": 21.5}
WORDS = ["Hello ", "from the ", "sërver\u2028."]
VECTOR = [0.5, -1.25, 2.0]

Event = tuple[str | None, Any]
"""An event of a stream: its name, if it has one, and its data (text as it is, anything else as JSON)."""


class FakeServer:
    """``url`` is where it listens while the ``with`` block runs; ``requests`` is what came, as (path, body, headers).

    ``fail_with`` holds status codes for the next requests, one each. ``cut`` breaks streams off before their end.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.fail_with: list[int] = []
        self.cut = False
        self.ids = itertools.count(1)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Be gone: nobody listens any more. May be called again."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer

    def do_GET(self) -> None:
        self.fake.requests.append((self.path, None, dict(self.headers)))
        self._json(
            200, {"object": "list", "data": [{"id": "gpt-test", "object": "model", "created": 1, "owned_by": "x"}]}
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.fake.requests.append((self.path, body, dict(self.headers)))
        if self.fake.fail_with:
            status = self.fake.fail_with.pop(0)
            error = {"type": "test_error", "message": f"refused with {status}", "code": "refused", "param": None}
            return self._json(status, {"type": "error", "error": error}, {"retry-after-ms": "1"})
        if self.path.endswith("/audio/speech"):
            return self._send(200, "audio/mpeg", b"\xff\xfb\x90\x00")
        number, endpoint = next(self.fake.ids), self.path.partition("?")[0].rpartition("/")[2]
        answer: Any = {
            "completions": _completion,
            "responses": _response,
            "embeddings": _embedding,
            "messages": _message,
        }
        whole = answer[endpoint](number, body)
        if not body.get("stream"):
            return self._json(200, whole)
        parts = {"completions": _completion_events, "responses": _response_events, "messages": _message_events}
        return self._stream(parts[endpoint](whole))

    def _json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, "application/json", json.dumps(body).encode(), headers)

    def _stream(self, events: Iterator[Event]) -> None:
        text = ""
        for name, data in events:
            text += f"event: {name}\n" if name else ""
            text += f"data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}\n\n"
        content = text.encode()
        if self.fake.cut:
            self._send(200, "text/event-stream", content[: len(content) // 2], {"Content-Length": str(len(content))})
        else:
            self._send(200, "text/event-stream; charset=utf-8", content)

    def _send(self, status: int, content_type: str, content: bytes, headers: dict[str, str] | None = None) -> None:
        number = len(self.fake.requests)
        ids = {"x-request-id": f"req_{number}", "request-id": f"req_{number}", "set-cookie": "session=secret"}
        self.send_response(status)
        for name, value in {"Content-Type": content_type, **ids, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _wants_tool(body: dict[str, Any]) -> str | None:
    """The tool to ask for: the first one, unless its result is among the messages already."""
    said = body.get("messages") or body.get("input") or []
    if not body.get("tools") or (not isinstance(said, str) and "weather" in json.dumps(said[1:])):
        return None
    tool = body["tools"][0]
    name: str = tool["function"]["name"] if "function" in tool else tool["name"]
    return name


def _text_of(structured: bool) -> str:
    return json.dumps(STRUCTURED, ensure_ascii=False) if structured else "".join(WORDS)


def _completion(number: int, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if tool := _wants_tool(body):
        call = {"name": tool, "arguments": json.dumps(ARGUMENTS, ensure_ascii=False)}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": call}]
    else:
        message["content"] = _text_of("response_format" in body)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000 + number,
        "model": f"{body['model']}-2024",
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if tool else "stop", "logprobs": None}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": number, "total_tokens": 7 + number},
        "x_vendor": {"kept": True},
    }


def _completion_events(whole: dict[str, Any]) -> Iterator[Event]:
    choice = whole["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if message["content"] else None}]
    for call in message.get("tool_calls", ()):
        text = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "index": 0, "function": {**call["function"], "arguments": ""}}]})
        deltas += ({"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in (text[:5], text[5:]))
    deltas += ({"content": part} for part in _parts(message["content"]))
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for delta in deltas:
        yield None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield None, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield None, {**head, "choices": [], "usage": whole["usage"]}
    yield None, "[DONE]"


def _response(number: int, body: dict[str, Any]) -> dict[str, Any]:
    if tool := _wants_tool(body):
        arguments = json.dumps(ARGUMENTS, ensure_ascii=False)
        item: dict[str, Any] = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": tool,
        }
        item |= {"arguments": arguments, "status": "completed"}
    else:
        part = {"type": "output_text", "text": _text_of("text" in body), "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000 + number,
        "model": body["model"],
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": number,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7 + number,
        },
    }


def _response_events(whole: dict[str, Any]) -> Iterator[Event]:
    item = whole["output"][0]
    at = {"output_index": 0, "item_id": item["id"]}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    ]
    if item["type"] == "function_call":
        begun = {**item, "arguments": "", "status": "in_progress"}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]},
            {
                "type": "response.function_call_arguments.done",
                **at,
                "name": item["name"],
                "arguments": item["arguments"],
            },
        ]
    else:
        at["content_index"] = 0
        begun = {**item, "content": [], "status": "in_progress"}
        part = item["content"][0]
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            *(
                {"type": "response.output_text.delta", **at, "delta": word, "logprobs": []}
                for word in _parts(part["text"])
            ),
            {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []},
            {"type": "response.content_part.done", **at, "part": part},
        ]
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}


def _embedding(number: int, body: dict[str, Any]) -> dict[str, Any]:
    vector: Any = [part + number for part in VECTOR]
    if body.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    data = [{"object": "embedding", "index": 0, "embedding": vector}]
    return {"object": "list", "data": data, "model": body["model"], "usage": {"prompt_tokens": 3, "total_tokens": 3}}


def _message(number: int, body: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if tool := _wants_tool(body):
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": ARGUMENTS})
    else:
        structured = "output_config" in body or "output_format" in body
        content.append({"type": "text", "text": _text_of(structured), "citations": None})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": number},
    }


def _message_events(whole: dict[str, Any]) -> Iterator[Event]:
    block = whole["content"][0]
    if block["type"] == "tool_use":
        text = json.dumps(block["input"], ensure_ascii=False)
        begun: dict[str, Any] = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in ("", text[:5], text[5:])]
    else:
        begun = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": whole["usage"]["output_tokens"]},
        },
        {"type": "message_stop"},
    ]
    for event in events:
        yield event["type"], event


def _parts(text: str | None) -> list[str]:
    """``text`` in pieces of some words each."""
    return [text[at : at + 9] for at in range(0, len(text), 9)] if text else []
