"""A message history as a log: model calls, tool calls with what came back, and the calls that wait for somebody.

A tool call belongs to the response that made it and is answered by what follows before the next response: providers
use the same call id again, so ids are unique in a log only with a number where one comes up again. What waits are the
calls of the last response that nothing has answered. Whether one waits for an approval or for a result from outside
is only told by the ``DeferredToolRequests`` that the run ended with, where they were kept.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.pydantic_ai.documents import Malformed, Part, Record, kind_of, read_or_error

UNKNOWN_FLOW = "unknown"
ANSWER = "DeferredToolResults"
"""The event that ends the wait of deferred calls, called as what ``agent.run`` takes."""

_FINAL = "Final result processed."
"""What the framework writes as the return of the output tool call that ended a run."""

_RETURNS = ("tool-return", "retry-prompt")
_FAILED = {"failed": "ToolFailed", "retried": "ModelRetry", "denied": "ToolDenied", "interrupted": "Interrupted"}
_NOTICE = (
    "a history does not name its agent: it is judged by the only flow that there is, or by the one it is mapped to"
)


def history_log(record: Record) -> Log | LogError:
    """The log of a history, or of deferred requests alone; never raises."""
    return read_or_error(record, lambda record: _History(record).log())


class _Call:
    """A tool call of the last response: its id in the log, and how it was made."""

    def __init__(self, call_id: str, part: Part, run_id: str) -> None:
        self.call_id = call_id
        self.given_id = part.text("tool_call_id")
        self.name = part.text("tool_name")
        self.args = arguments(part.value.get("args"))
        self.run_id = run_id
        self.number = part.number


class _History:
    def __init__(self, record: Record) -> None:
        self.record = record
        self.builder = LogBuilder(record.execution_id, UNKNOWN_FLOW, path=record.path)
        self.messages = [Part(value, number, "it") for number, value in enumerate(record.value, 1)]
        self.timestamp: int | str = 0
        self.number = 0
        self.open: list[_Call] = []
        self.used: dict[str, int] = {}
        self.models = 0
        self.unsent: list[Part] = []
        self.answers: list[tuple[_Call, dict[str, Any]]] = []

    def log(self) -> Log:
        self.timestamp = next((moment for part in self.messages if (moment := _moment(part))), 0)
        self.add("EXECUTION_STARTED", self.start())
        for message in self.messages:
            self.number = message.number
            self.timestamp = _moment(message) or self.timestamp
            kind = message.text("kind")
            if kind == "request":
                self.request(message)
            elif kind == "response":
                self.response(message)
            else:
                raise Malformed(f"its kind is {kind!r}, neither request nor response", message.number)
        self.end()
        return self.builder.log(source="pydantic_ai", engine="checkpoint", notices=[_NOTICE])

    def add(self, event_type: str, payload: dict[str, Any]) -> None:
        self.builder.add(event_type, payload, timestamp=self.timestamp, line=self.number)

    def start(self) -> dict[str, Any]:
        manifest: dict[str, Any] = {"framework": "pydantic_ai"}
        for name, key in (("conversationIds", "conversation_id"), ("runIds", "run_id")):
            ids = [message.text(key) for message in self.messages]
            manifest[name] = list(dict.fromkeys([text for text in (*ids, self.beside(key)) if text]))
        first = next((message for message in self.messages if message.text("kind") == "request"), None)
        prompts = [] if first is None else _prompts(first)
        payload: dict[str, Any] = {"manifest": {key: value for key, value in manifest.items() if value}}
        if prompts:
            payload["input"] = prompts[0] if len(prompts) == 1 else prompts
        return payload

    def beside(self, key: str) -> str:
        value = self.record.around.get(key)
        return value if isinstance(value, str) else ""

    def request(self, message: Part) -> None:
        parts = [Part(value, message.number, "a part") for value in message.items("parts")]
        run_id = message.text("run_id")
        returns = [part for part in parts if part.text("part_kind") in _RETURNS]
        answered = [(call, part) for part in returns if (call := self.answered(part)) is not None]
        late = [(call, part) for call, part in answered if run_id and call.run_id and run_id != call.run_id]
        if late:  # another run brought the answers: in between, the calls waited for somebody
            self.suspend([call for call, _ in late], {})
            results = {call.call_id: part.text("outcome") or "success" for call, part in late}
            self.add(ANSWER, {"results": results})
            self.add("EXECUTION_RESUMED", {"eventType": ANSWER, "payload": {"results": results}})
        for call, part in answered:
            self.answer(call, part)
        if message is not self.messages[0] and (prompts := _prompts(message)):
            self.add("UserPrompt", {"content": prompts[0] if len(prompts) == 1 else prompts})
        self.unsent.append(message)

    def answered(self, part: Part) -> _Call | None:
        given = part.text("tool_call_id")
        found = [call for call in self.open if given and call.given_id == given]
        if not found and not given:
            found = [call for call in self.open if call.name == part.text("tool_name")]
        if not found:
            return None  # an answer to nothing that is open: the framework leaves such ones out as well
        self.open.remove(found[0])
        return found[0]

    def answer(self, call: _Call, part: Part) -> None:
        content, outcome = part.value.get("content"), part.text("outcome") or "success"
        if part.text("part_kind") == "retry-prompt":
            outcome = "retried"
        facts = {"callId": call.call_id, "name": call.name}
        if outcome in _FAILED:
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            self.add("TOOL_FAILED", facts | {"error": {"type": _FAILED[outcome], "message": text}})
        else:
            self.add("TOOL_COMPLETED", facts | {"output": content})
        self.answers.append((call, part.value))

    def response(self, message: Part) -> None:
        parts = [Part(value, message.number, "a part") for value in message.items("parts")]
        self.models += 1
        call_id, model = f"model-{self.models}", message.text("model_name") or "unknown"
        self.add("MODEL_REQUESTED", {"callId": call_id, "model": model, "request": self.sent()})
        response = {"parts": [part.value for part in parts]}
        if finish := message.text("finish_reason"):
            response["finishReason"] = finish  # type: ignore[assignment]
        facts = {"callId": call_id, "model": model, "response": response}
        if message.value.get("usage") is not None:
            facts["usage"] = message.value["usage"]
        self.add("MODEL_COMPLETED", facts)
        self.open, self.answers = [], []
        for part in parts:
            if part.text("part_kind") == "tool-call":
                self.call(part, message.text("run_id"))

    def sent(self) -> dict[str, Any]:
        """What is new in a request to the model: all that came before it is in the log already."""
        new = {"parts": [part for message in self.unsent for part in message.items("parts")]}
        instructions = [text for message in self.unsent if (text := message.text("instructions"))]
        self.unsent = []
        return new | ({"instructions": instructions[-1]} if instructions else {})

    def call(self, part: Part, run_id: str) -> _Call:
        if not part.text("tool_name"):
            raise Malformed("a tool call has no tool_name", part.number)
        given = part.text("tool_call_id") or f"call-{len(self.used) + 1}"
        call_id, count = given, self.used.get(given, 0)
        while call_id in self.used:
            count += 1
            call_id = f"{given}#{count}"
        self.used[given] = max(count, 1)
        self.used.setdefault(call_id, 1)
        call = _Call(call_id, part, run_id)
        self.add("TOOL_REQUESTED", {"callId": call.call_id, "name": call.name, "args": call.args})
        self.open.append(call)
        return call

    def end(self) -> None:
        """Where the run stands: over, waiting for somebody, or on its way to the model."""
        kinds = self.kinds()
        last = self.messages[-1] if self.messages else None
        state = "" if last is None else last.text("state")
        if last is not None and last.text("kind") == "request" and (state == "interrupted" or self.final()):
            self.open = []  # what is not answered by now never will be
        if self.open:
            self.suspend(self.open, kinds)
        elif last is None:
            raise Malformed("it holds no call that waits")
        elif state == "suspended":
            self.add("EXECUTION_SUSPENDED", {"on": "ModelContinuation", "kind": "event"})
        elif (final := self.final()) is not None:
            self.add("EXECUTION_COMPLETED", {"output": final.args})
        elif last.text("kind") == "response" and state != "interrupted":
            self.add("EXECUTION_COMPLETED", {"output": _output(last)})

    def final(self) -> _Call | None:
        """The call of the output tool with which the run ended, if it ended so."""
        found = (call for call, part in self.answers if part.get("content") == _FINAL)
        return next(found, None)

    def kinds(self) -> dict[str, str]:
        """For what each call waits, by the requests that were kept; calls that only those know are added."""
        kinds: dict[str, str] = {}
        requests = self.record.requests or {}
        for key, kind in (("approvals", "approval"), ("calls", "external")):
            listed = requests.get(key)
            for value in listed if isinstance(listed, list) else ():
                part = Part(value, self.number, f"one of the {key}")
                given = part.text("tool_call_id")
                known = given in self.used and bool(given)
                call = next((call for call in self.open if known and call.given_id == given), None)
                if call is None and not known:
                    call = self.call(part, "")
                if call is not None:
                    kinds[call.call_id] = kind
        return kinds

    def suspend(self, calls: list[_Call], kinds: dict[str, str]) -> None:
        pending = []
        for call in calls:
            item = {"callId": call.call_id, "name": call.name, "args": call.args}
            pending.append(item | ({"kind": kinds[call.call_id]} if call.call_id in kinds else {}))
        external = bool(pending) and all(item.get("kind") == "external" for item in pending)
        wait = {"on": ANSWER, "kind": "event" if external else "approval", "pending": pending}
        self.add("EXECUTION_SUSPENDED", wait)


def arguments(args: Any) -> Any:
    """A call's arguments as the framework reads them: a JSON text is decoded, none are an empty object."""
    if args is None or args == "":
        return {}
    if isinstance(args, str):
        try:
            decoded = msgspec.json.decode(args)
        except (ValueError, RecursionError):
            return args  # the model's slip: the framework would ask it again
        return decoded if isinstance(decoded, dict) else args
    if not isinstance(args, dict):
        raise Malformed(f"the args of a tool call are {kind_of(args)}, neither an object nor JSON text")
    return args


def _moment(message: Part) -> str:
    """When a message was sent; older ones say so in their parts only."""
    found = message.moment("timestamp")
    if found or not isinstance(message.value.get("parts"), list):
        return found
    parts = [Part(value, message.number, "a part") for value in message.value["parts"] if isinstance(value, dict)]
    return next((moment for part in parts if (moment := part.moment("timestamp"))), "")


def _prompts(message: Part) -> list[Any]:
    """What the user said in a request."""
    parts = [value for value in message.items("parts") if isinstance(value, dict)]
    return [value.get("content") for value in parts if value.get("part_kind") == "user-prompt"]


def _output(message: Part) -> Any:
    """What a run that ended with a text gave back."""
    texts = [
        value.get("content")
        for value in message.items("parts")
        if isinstance(value, dict) and value.get("part_kind") == "text"
    ]
    return "".join(text for text in texts if isinstance(text, str)) if texts else None
