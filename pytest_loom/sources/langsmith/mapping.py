"""Run trees as logs: the run at the top is the execution, nodes of graphs (else chains) its steps.

A run is a thread where the run at the top names one (``thread_id``, ``session_id`` or ``conversation_id`` in its
metadata), else a trace: a thread that waited and went on is one log, as in LangGraph's own store. A node that stopped
to ask is told as the wait, and as a step when it is through. Nothing is resumed from a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.langchain_messages import MessageCalls, brought_by, messages_in, says
from pytest_loom.sources.langgraph.calls import requests_in
from pytest_loom.sources.langgraph.standing import asked
from pytest_loom.sources.langsmith.failures import error_of, is_control, is_interrupt, questions_of
from pytest_loom.sources.langsmith.runs import Run, runs_of, unwrapped
from pytest_loom.sources.literals import literal
from pytest_loom.sources.shape import Malformed, text
from pytest_loom.sources.toolcalls import NOTHING, ToolCall
from pytest_loom.sources.tree import walk

_FLOW_KEYS = ("graph_id", "langgraph_graph_id", "assistant_id", "langgraph_assistant_id")
_COMMAND = {"graph", "update", "resume", "goto"}
_ANSWER = "InterruptAnswered"
"""What a question waits for, called as in the log of LangGraph's own store."""


@dataclass
class _Top:
    """A run with none above it, and the walk through what is under it."""

    run: Run
    walk: list[tuple[bool, Run]]


def tree_logs(data: bytes, path: Path) -> Iterator[Log | LogError]:
    """Each thread or trace of a file as a log, or what is wrong with it."""
    executions: dict[str, list[_Top]] = {}
    try:
        for top in _tops(runs_of(data)):
            thread = next((run.thread for _, run in top.walk[:2] if run.thread), "")
            executions.setdefault(thread or top.run.trace_id or top.run.run_id, []).append(top)
    except Malformed as problem:
        yield LogError(f"not a readable run tree: {problem}", path=str(path))
        return
    for execution_id, tops in executions.items():
        tops.sort(key=lambda top: top.run.start)
        try:
            yield _Execution(execution_id, tops, path).log()
        except LogError as error:
            yield error
        except (Malformed, ValueError, OverflowError, RecursionError) as problem:
            what = f"not a readable run tree: {printable(str(problem))}"
            yield LogError(what, path=str(path), execution_id=execution_id)


def _tops(runs: dict[str, Run]) -> Iterator[_Top]:
    parents = {run_id: run.parent_id for run_id, run in runs.items()}
    top: _Top | None = None
    for begins, run_id in walk(parents, {run_id: run.start for run_id, run in runs.items()}):
        top = top or _Top(runs[run_id], [])
        top.walk.append((begins, runs[run_id]))
        if runs[run_id] is top.run and not begins:
            yield top
            top = None


class _Execution:
    """One execution on its way to a log."""

    def __init__(self, execution_id: str, tops: list[_Top], path: Path) -> None:
        self.tops = tops
        named = (text(run.metadata.get(key)) for top in tops for _, run in top.walk[:2] for key in _FLOW_KEYS)
        self.builder = LogBuilder(execution_id, next(filter(None, named), tops[0].run.name), path=str(path))
        self.moment, self.line = 0, 0
        self.calls = MessageCalls(self.add)
        self.running: dict[str, ToolCall] = {}
        self.nodes: list[tuple[Run, int]] = []  # those that run, each with the count of calls before it
        self.begun: set[str] = set()
        self.places: set[tuple[str, str]] = set()  # of the nodes that run
        self.graphs: set[str] = set()
        self.stopped: list[Run] = []  # the nodes of the trace that stopped to ask
        self.around: set[str] = set()  # the nodes around those
        self.open: list[str] = []  # the keys of the questions that are open
        self.silent = self.models = 0

    def add(self, event_type: str, payload: dict[str, Any]) -> None:
        self.builder.add(event_type, payload, timestamp=self.moment, line=self.line)

    def at(self, run: Run, *, ends: bool) -> None:
        self.moment = int(run.end if ends and run.end is not None else run.start)
        self.line = run.line

    def log(self) -> Log:
        first = self.tops[0].run
        self.at(first, ends=False)
        started: dict[str, Any] = {"manifest": self.manifest()}
        if first.inputs is not None:
            started["input"] = first.inputs
        self.add("EXECUTION_STARTED", started)
        self.calls.known(first.inputs)
        for number, top in enumerate(self.tops):
            self.at(top.run, ends=False)
            if number:
                self.goes_on(top.run)
            self.stopped = []
            below = [run for begins, run in top.walk if begins]
            self.graphs = {run.parent_id for run in below if run.node and run.name == run.node}
            for begins, run in top.walk:
                self.at(run, ends=not begins)
                self.run(run, begins=begins, is_top=run is top.run)
            self.waits(top.run)
        self.end(self.tops[-1].run)
        return self.builder.log(source="langsmith", engine="trace", notices=self.notices())

    def manifest(self) -> dict[str, Any]:
        first = self.tops[0].run
        traces = [top.run.trace_id or top.run.run_id for top in self.tops]
        manifest = {"aliases": list(dict.fromkeys(traces)), "project": text(first.said.get("session_name"))}
        return {key: value for key, value in manifest.items() if value}

    def run(self, run: Run, *, begins: bool, is_top: bool) -> None:
        """What a run says where it begins, or where it ends."""
        if run.kind in ("llm", "embedding"):
            (self.model_begins if begins else self.model_ends)(run)
        elif run.kind == "tool":
            (self.tool_begins if begins else self.tool_ends)(run)
        elif run.kind == "retriever" or (run.kind == "chain" and self.is_step(run, is_top)):
            (self.step_begins if begins else self.step_ends)(run)

    def is_step(self, run: Run, is_top: bool) -> bool:
        """Whether a chain is a step: in a graph its nodes are, not the functions inside them."""
        if run.run_id in self.begun:
            return True
        if run.node:
            return run.name == run.node and run.place not in self.places
        return not is_top and run.run_id not in self.graphs

    def step_begins(self, run: Run) -> None:
        self.nodes.append((run, self.calls.count))
        self.begun.add(run.run_id)
        if run.kind == "chain":
            self.places.add(run.place)
        if not is_interrupt(run.error):
            head: dict[str, Any] = {"stepId": run.name, "callId": run.run_id}
            is_told = not run.node and run.inputs is not None  # a node takes the whole state
            self.add("STEP_STARTED", head | {"input": run.inputs} if is_told else head)

    def step_ends(self, run: Run) -> None:
        _, since = self.nodes.pop()
        if run.kind == "chain":
            self.places.discard(run.place)
        if is_interrupt(run.error):
            if run.run_id not in self.around:
                self.stopped.append(run)
            self.around.update(outer.run_id for outer, _ in self.nodes[-1:])
            return
        if run.node:
            self.calls.heard(run.outputs, since)
        head: dict[str, Any] = {"stepId": run.name, "callId": run.run_id}
        if run.error and not is_control(run.error):
            self.add("STEP_FAILED", head | {"error": error_of(run.error)})
        elif run.end is not None:
            self.add("STEP_COMPLETED", head | {"output": _output(run)})

    def model_begins(self, run: Run) -> None:
        self.models += 1
        self.silent += not run.inputs and not run.outputs
        request: dict[str, Any] = {"callId": run.run_id, "model": _model(run)}
        self.add("MODEL_REQUESTED", request | ({"request": run.inputs} if run.inputs else {}))

    def model_ends(self, run: Run) -> None:
        facts: dict[str, Any] = {"callId": run.run_id}
        usage = _usage(run)
        facts |= {} if usage is None else {"usage": usage}
        if run.error:
            self.add("MODEL_FAILED", facts | {"error": error_of(run.error)})
            return
        if run.end is not None:
            said = [message for found in messages_in(run.outputs) if (message := says(found)) is not None]
            response = said or run.outputs
            self.add("MODEL_COMPLETED", facts | ({"response": response} if response else {}))
        self.calls.heard(run.outputs, since=self.calls.count)

    def tool_begins(self, run: Run) -> None:
        args = run.inputs if isinstance(run.inputs, dict) else NOTHING
        if isinstance(args, dict) and args.keys() == {"input"} and isinstance(args["input"], str):
            args = literal(args["input"])  # what older versions of LangChain wrote
        brought = [found for message in messages_in(run.outputs) if (found := brought_by(message)) is not None]
        given_id = text(run.extra.get("tool_call_id")) or next((one.given_id for one in brought), "")
        self.running[run.run_id] = self.calls.ran(given_id, run.name, args or NOTHING)

    def tool_ends(self, run: Run) -> None:
        call = self.running.pop(run.run_id)
        if is_interrupt(run.error):
            call.started = False
        elif run.error and not is_control(run.error):
            self.calls.failed(call, error_of(run.error))
        elif run.end is not None:
            for message in messages_in(run.outputs):
                found = brought_by(message)
                if found is not None and found.given_id == call.given_id:
                    self.calls.bring(call, found)
                    return
            self.calls.answered(call, NOTHING if run.outputs is None else unwrapped(run.outputs))

    def waits(self, top: Run) -> None:
        """The questions that are open after a trace."""
        waiting = [call.facts() for call in self.calls.all_open()]
        for node in self.stopped:
            for question in questions_of(node.error):
                key = str(question.get("id") or node.run_id)
                told = asked(question, key)
                requests = [request["name"] for request in requests_in(question.get("value"))]
                calls = [call | ({"approval": True} if call["name"] in requests else {}) for call in waiting]
                told["pending"] |= {"step": node.name, "answered": []} | ({"calls": calls} if calls else {})
                self.at(top, ends=True)
                self.add("EXECUTION_SUSPENDED", told)
                self.open.append(key)

    def goes_on(self, top: Run) -> None:
        """The thread goes on in another trace: with an answer, or with something new."""
        said = unwrapped(top.inputs)
        said = said["input"] if isinstance(said, dict) and said.keys() == {"input"} else said
        if self.open and isinstance(said, dict) and said.keys() >= _COMMAND:
            answer = said["resume"]
            keyed = isinstance(answer, dict) and bool(answer.keys() & set(self.open))
            for key in self.open if not keyed else [key for key in self.open if key in answer]:
                told = {"answer": answer[key] if keyed else answer}
                self.add(_ANSWER, {"correlationKey": key} | told)
                self.add("EXECUTION_RESUMED", {"eventType": _ANSWER, "correlationKey": key, "payload": told})
                self.open = [other for other in self.open if other != key]
        else:
            self.add("InputReceived", {"input": top.inputs})

    def end(self, top: Run) -> None:
        """How the execution stands."""
        self.at(top, ends=True)
        if top.error and not is_interrupt(top.error):
            self.add("EXECUTION_FAILED", {"error": error_of(top.error)})
        elif not self.open and top.end is not None and not top.error:
            self.add("EXECUTION_COMPLETED", {} if top.outputs is None else {"output": unwrapped(top.outputs)})

    def notices(self) -> list[str]:
        missing = [f"{self.silent} of {self.models} model calls without messages"] if self.silent else []
        if self.calls.without_args:
            missing.append(f"{self.calls.without_args} of {self.calls.count} tool calls without arguments")
        return [f"contents were not kept in this trace: {', '.join(missing)}"] if missing else []


def _output(run: Run) -> Any:
    """What a step gave; of a node what it wrote, as LangGraph's own store tells it."""
    output = unwrapped(run.outputs)
    if not run.node:
        return output
    if isinstance(output, dict) and output.keys() == _COMMAND:
        output = output["update"]
    return {} if output is None else output


def _model(run: Run) -> str:
    given = run.extra.get("invocation_params")
    params = given if isinstance(given, dict) else {}
    found = (run.metadata.get("ls_model_name"), params.get("model"), params.get("model_name"), run.name)
    return next((name for name in found if isinstance(name, str) and name), "unknown")


def _usage(run: Run) -> Any:
    """The tokens of a model call, where any of the places says them."""
    outputs = run.outputs if isinstance(run.outputs, dict) else {}
    inner = outputs["llm_output"] if isinstance(outputs.get("llm_output"), dict) else {}
    said = (message.get("usage_metadata") for message in messages_in(run.outputs))
    found = [outputs.get("usage_metadata"), inner.get("token_usage"), outputs.get("usage"), *said]
    return next((one for one in found if one), None)
