"""Spans as logs: the agent or workflow at the top is the run itself, those below it are its steps.

A run is a conversation (``gen_ai.conversation.id``) where the span at the top names one, else a trace: so a run that
waited and went on in another trace is one log. A model's calls are told when it answers, in the order in which it asked
for them; what runs and answers them is found by their id. Nothing is resumed from a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.langchain_messages import MessageCalls
from pytest_loom.sources.otel import spans as look
from pytest_loom.sources.otel.messages import answers_in, asked_in, history_of, talk_of, texts_in
from pytest_loom.sources.otel.otlp import Span, spans_of
from pytest_loom.sources.shape import Malformed, arguments, text
from pytest_loom.sources.toolcalls import NOTHING, ToolCall
from pytest_loom.sources.tree import walk

DEFERRED_RESULTS = "DeferredToolResults"
"""What a run of Pydantic AI waits for, called as in the log of its message history."""

ANSWER = "InterruptAnswered"
"""What a thread of LangGraph waits for, called as in the log of its own store."""

TOOL_RESULTS = "ToolResults"
"""What a run waits for that ended with calls that nothing answered."""


@dataclass
class _Top:
    """A span with nothing of agents above it, and the walk through what is under it."""

    span: Span
    walk: list[tuple[bool, Span]]


def trace_logs(data: bytes, path: Path) -> Iterator[Log | LogError]:
    """Each run in an export, or what is wrong with it."""
    try:
        traces = spans_of(data)
    except Malformed as problem:
        yield LogError(f"not readable OTLP JSON: {problem}", path=str(path))
        return
    runs: dict[tuple[str, str], list[_Top]] = {}
    for trace_id, spans in traces.items():
        try:
            for top in _tops(spans):
                talk = next((one for _, span in top.walk if (one := look.conversation_of(span))), "")
                runs.setdefault(("conversation", talk) if talk else ("trace", trace_id), []).append(top)
        except Malformed as problem:
            yield LogError(f"not a readable trace: {problem}", path=str(path), execution_id=trace_id)
    for (kind, run_id), tops in runs.items():
        tops.sort(key=lambda top: top.span.start)
        try:
            yield _Run(run_id, tops, path, is_conversation=kind == "conversation").log()
        except LogError as error:
            yield error
        except (Malformed, ValueError, OverflowError, RecursionError) as problem:
            what = f"not a readable trace: {printable(str(problem))}"
            yield LogError(what, path=str(path), execution_id=run_id)
    if traces and not runs:
        yield LogError(
            "none of its spans tells of an agent, a model or a tool (GenAI semantic conventions)",
            path=str(path),
            hint="Export the spans of the agents' instrumentation too.",
        )


def _tops(spans: dict[str, Span]) -> Iterator[_Top]:
    """The spans of agents that have no other such span above them, each with all under it. Raises Malformed."""
    parents = {span_id: span.parent_id for span_id, span in spans.items()}
    top: _Top | None = None
    around: list[Span] = []
    twins: set[str] = set()
    for begins, span_id in walk(parents, {span_id: span.start for span_id, span in spans.items()}):
        span = spans[span_id]
        if not look.kind_of(span) or span_id in twins:
            continue
        if begins and around and look.is_twin(span, around[-1]):
            twins.add(span_id)
            around[-1].attributes = span.attributes | around[-1].attributes
            around[-1].events += span.events
            continue
        top = top or _Top(span, [])
        top.walk.append((begins, span))
        if begins:
            around.append(span)
        elif around.pop() is top.span:
            yield top
            top = None


class _Run:
    """One run on its way to a log."""

    def __init__(self, run_id: str, tops: list[_Top], path: Path, *, is_conversation: bool) -> None:
        self.tops = tops
        kinds = [look.kind_of(top.span) for top in tops]
        names = {look.name_of(top.span, kind) for top, kind in zip(tops, kinds, strict=True)}
        alone = len(tops) == 1 or (is_conversation and len(names) == 1)
        self.is_own = alone and all(kind in ("agent", "workflow") for kind in kinds)
        first = tops[0].span
        flow = names.pop() if self.is_own else text(first.resource.get("service.name")) or "unknown"
        self.builder = LogBuilder(run_id, flow, path=str(path))
        self.moment = first.start
        self.line = first.line
        self.calls = MessageCalls(self.add)
        self.running: dict[str, ToolCall] = {}  # by span
        self.places: set[tuple[str, str]] = set()  # of the nodes that run
        self.steps: dict[str, int] = {}  # the spans of the steps that run, with the count of calls before each
        self.stopped: list[str] = []  # the steps of this part that stopped to ask
        self.turn: list[ToolCall] = []  # what the model's last answer asked for
        self.said: list[str] = []  # the texts of the model's last answer
        self.models = self.silent = 0

    def add(self, event_type: str, payload: dict[str, Any]) -> None:
        self.builder.add(event_type, payload, timestamp=self.moment, line=self.line)

    def at(self, span: Span, *, ends: bool) -> None:
        self.moment, self.line = span.end if ends else span.start, span.line

    def log(self) -> Log:
        started: dict[str, Any] = {"manifest": self.manifest()}
        asked = self.input()
        if asked is not NOTHING:
            started["input"] = asked
        self.add("EXECUTION_STARTED", started)
        for number, top in enumerate(self.tops):
            if number and (waits := self.waits(self.tops[number - 1].span)) is not None:
                self.add("EXECUTION_SUSPENDED", waits)
                self.at(top.span, ends=False)
                self.add(waits["on"], {})
                self.add("EXECUTION_RESUMED", {"eventType": waits["on"], "payload": {}})
            self.stopped = []
            for begins, span in top.walk:
                self.at(span, ends=not begins)
                self.span(span, begins=begins, is_own=self.is_own and span is top.span)
        self.end()
        return self.builder.log(source="otel", engine="trace", notices=self.notices())

    def manifest(self) -> dict[str, Any]:
        spans = [span for top in self.tops for begins, span in top.walk if begins]
        agents = [look.name_of(span, "agent") for span in spans if look.kind_of(span) == "agent"]
        resource = self.tops[0].span.resource
        manifest = {
            "agents": list(dict.fromkeys(agents)),
            "aliases": list(dict.fromkeys(top.span.trace_id for top in self.tops)),
            "instrumentation": list(dict.fromkeys(span.scope for span in spans if span.scope)),
            "service": text(resource.get("service.name")),
            "serviceVersion": text(resource.get("service.version")),
        }
        return {key: value for key, value in manifest.items() if value}

    def input(self) -> Any:
        """What the run was asked: the first thing that the user says in it."""
        top = self.tops[0]
        if self.is_own and (found := look.entity(top.span, "input")) is not NOTHING:
            return found
        for begins, span in top.walk:
            if begins and look.kind_of(span) in ("model", "agent"):
                talk = talk_of(span)
                said = texts_in(talk.sent, "user")
                if said or talk.known:
                    return said[0] if said else NOTHING
        return NOTHING

    def span(self, span: Span, *, begins: bool, is_own: bool) -> None:
        """What a span says where it begins, or where it ends."""
        kind = look.kind_of(span)
        if kind == "model":
            (self.model_begins if begins else self.model_ends)(span)
        elif kind == "tool":
            (self.tool_begins if begins else self.tool_ends)(span)
        elif kind == "created" and not begins:
            self.add("AgentCreated", {"name": look.name_of(span, kind)})
        elif kind in ("agent", "workflow", "step"):
            (self.scope_begins if begins else self.scope_ends)(span, kind, is_own=is_own)

    def scope_begins(self, span: Span, kind: look.Kind, *, is_own: bool) -> None:
        name = look.name_of(span, kind)
        if not is_own and self.is_step(span, kind, name):
            self.steps[span.span_id] = self.calls.count
            node = look.place_of(span)
            self.places.add(node)
            error = look.error_of(span)
            if error is None or not look.is_deferral(error):
                given = NOTHING if node[0] else look.entity(span, "input")  # a node takes the whole state
                head = {"stepId": name, "callId": span.span_id}
                self.add("STEP_STARTED", head if given is NOTHING else head | {"input": given})

    def is_step(self, span: Span, kind: look.Kind, name: str) -> bool:
        """Whether it is a step of its own, and not a function inside a node."""
        node = look.place_of(span)
        return kind != "step" or not node[0] or (name == node[0] and node not in self.places)

    def scope_ends(self, span: Span, kind: look.Kind, *, is_own: bool) -> None:
        self.answers(history_of(span))
        since = self.steps.pop(span.span_id, None)
        if since is None:
            return
        node, error = look.place_of(span), look.error_of(span)
        self.places.discard(node)
        head: dict[str, Any] = {"stepId": look.name_of(span, kind), "callId": span.span_id}
        if error is not None and look.is_deferral(error):
            self.stopped.append(head["stepId"])
        elif error is not None:
            self.add("STEP_FAILED", head | {"error": error})
        elif span.ended:
            output = look.output_of(span)
            if node[0]:
                self.calls.heard(output, since)
            self.add("STEP_COMPLETED", head if output is NOTHING else head | {"output": output})

    def model_begins(self, span: Span) -> None:
        talk = talk_of(span)
        self.answers(talk.sent)
        self.models += 1
        self.silent += not talk.known
        asked: dict[str, Any] = {"callId": span.span_id, "model": look.name_of(span, "model")}
        if talk.sent or talk.instructions is not None:
            asked["request"] = {"messages": talk.sent}
            if talk.instructions is not None:
                asked["request"]["instructions"] = talk.instructions
        self.add("MODEL_REQUESTED", asked)

    def model_ends(self, span: Span) -> None:
        said = talk_of(span).said
        facts: dict[str, Any] = {"callId": span.span_id}
        usage = look.usage_of(span)
        facts |= {} if usage is None else {"usage": usage}
        if (error := look.error_of(span)) is not None:
            self.add("MODEL_FAILED", facts | {"error": error})
        elif span.ended:
            self.add("MODEL_COMPLETED", facts | ({"response": said} if said else {}))
        self.turn = [self.calls.asked(one.given_id, one.name, one.args) for one in asked_in(said)]
        self.said = texts_in(said, "assistant")

    def tool_begins(self, span: Span) -> None:
        name = look.name_of(span, "tool")
        self.running[span.span_id] = self.calls.ran(look.tool_id(span), name, look.tool_args(span))

    def tool_ends(self, span: Span) -> None:
        call = self.running.pop(span.span_id)
        if (error := look.error_of(span)) is not None:
            if look.is_deferral(error):
                call.started = False
            else:
                self.calls.failed(call, error)
        elif span.ended:
            self.calls.answered(call, look.tool_output(span))

    def answers(self, messages: list[dict[str, Any]]) -> None:
        """What comes back from tools that no span tells of: refused, done elsewhere, or by the framework itself."""
        for answer in answers_in(messages):
            call = self.calls.waiting(answer.given_id, answer.name)
            if call is not None:
                self.calls.answered(call, answer.output)

    def waits(self, top: Span) -> dict[str, Any] | None:
        """What the run waits for after the span at its top, as the payload of EXECUTION_SUSPENDED; None for nothing."""
        if self.stopped:
            return {"on": ANSWER, "kind": "question", "pending": {"step": self.stopped[0]}}
        output = look.output_of(top)
        kinds = _deferred(output)
        if look.error_of(top) is not None or not top.ended or (output is not NOTHING and kinds is None):
            return None
        for given_id, (name, args, _) in (kinds or {}).items():
            if given_id not in self.calls.given:
                self.turn.append(self.calls.asked(given_id, name, args))
        open_calls = [call for call in self.turn if call.status == "open"]
        if not open_calls:
            return None
        pending = [call.facts() for call in open_calls]
        if kinds is None:
            return {"on": TOOL_RESULTS, "kind": "event", "pending": pending}
        told = [kinds[call.given_id][2] if call.given_id in kinds else "" for call in open_calls]
        pending = [one | ({"kind": kind} if kind else {}) for one, kind in zip(pending, told, strict=True)]
        is_external = all(kind == "external" for kind in told)
        return {"on": DEFERRED_RESULTS, "kind": "event" if is_external else "approval", "pending": pending}

    def end(self) -> None:
        """How the run stands."""
        top = self.tops[-1].span
        self.at(top, ends=True)
        error = look.error_of(top)
        if error is not None and not look.is_deferral(error):
            self.add("EXECUTION_FAILED", {"error": error})
        elif (waits := self.waits(top)) is not None:
            self.add("EXECUTION_SUSPENDED", waits)
        elif top.ended and error is None:
            output = look.output_of(top) if self.is_own else NOTHING
            if output is NOTHING and self.said:
                output = self.said[-1]
            self.add("EXECUTION_COMPLETED", {} if output is NOTHING else {"output": output})

    def notices(self) -> list[str]:
        """That contents were not captured, where so: what is not there cannot differ."""
        missing = []
        if self.silent:
            missing.append(f"{self.silent} of {self.models} model calls without messages")
        if self.calls.without_args:
            missing.append(f"{self.calls.without_args} of {self.calls.count} tool calls without arguments")
        if not missing:
            return []
        return [f"contents were not captured in this trace: {', '.join(missing)}; these are not compared"]


def _deferred(output: Any) -> dict[str, tuple[str, Any, str]] | None:
    """The calls in a ``DeferredToolRequests``: name, arguments and kind of each by id; None where it is none."""
    if not isinstance(output, dict) or not {"calls", "approvals"} <= output.keys():
        return None
    found: dict[str, tuple[str, Any, str]] = {}
    for key, kind in (("approvals", "approval"), ("calls", "external")):
        for call in output[key] if isinstance(output[key], list) else ():
            if isinstance(call, dict) and text(call.get("tool_name")) and text(call.get("tool_call_id")):
                args = arguments(call["args"]) if call.get("args") is not None else {}
                found[call["tool_call_id"]] = (call["tool_name"], args, kind)
    return found
