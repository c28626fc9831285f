"""Run today's graph on a recorded thread, in memory: people, models and tools answer as they were recorded.

To be called under the guard. What a node does besides asking a chat model, or a tool for a call of a model, is its own
code and runs; so does a tool that asks somebody itself, since its question is today's. The checkpoints that LangGraph
makes are read as those of a store are.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools.base import BaseTool
from langgraph.types import Command
from langsmith.run_helpers import tracing_context

from pytest_loom.errors import LoomError, ReplayDivergence, Unsupported, printable
from pytest_loom.log.event import Log
from pytest_loom.sources.langgraph import code
from pytest_loom.sources.langgraph.contract import compiled, subgraphs
from pytest_loom.sources.langgraph.mapping import to_log
from pytest_loom.sources.langgraph.recorded import Question, Step, Turn, is_a_models, recorded, with_ids_of
from pytest_loom.sources.langgraph.revive import revived
from pytest_loom.sources.langgraph.saver import KeepingSaver
from pytest_loom.sources.langgraph.thread import read_thread

_LEVELS = 12


def replayed_run(log: Log, flow: Any) -> Log:
    """The log of today's graph on the recorded inputs and answers, up to its end or to where it waits.

    Raises ReplayDivergence where today's graph runs, asks or calls what was not recorded, or not what was; Unsupported
    where the log does not hold all that a replay needs.
    """
    run = _Run(log)
    graph = compiled(flow)
    if not hasattr(graph, "builder"):
        raise Unsupported("an entrypoint of the functional API cannot be replayed", path=log.path)
    run.prepare(graph)
    token = _active.set(run)
    try:
        with _answering(), tracing_context(enabled=False):
            run.go()
    except LoomError:
        raise
    except Exception as problem:
        if run.asked:
            raise run.asked[0] from problem
        raise run.diverged(f"stops: {type(problem).__name__}: {printable(str(problem))}") from problem
    finally:
        _active.reset(token)
    found = to_log(read_thread(log.execution_id, *run.saver.rows()), log.path)
    if not isinstance(found, Log):
        raise found
    return with_ids_of(log, found)


class _Work:
    """One run of a node."""

    def __init__(self, step: Step) -> None:
        self.step, self.left = step, list(step.answers)


_active: ContextVar[_Run | None] = ContextVar("loom_langgraph_run", default=None)
_work: ContextVar[_Work | None] = ContextVar("loom_langgraph_work", default=None)


class _Run:
    """Today's graph on its way over the record. Nodes may run in several threads."""

    def __init__(self, log: Log) -> None:
        self.log, self.record = log, recorded(log)
        self.saver = KeepingSaver()
        self.lock = threading.Lock()
        self.asked: list[LoomError] = []
        self.begun: dict[str, Step] = {}
        self.taken: dict[str, Question] = {}
        self.used: set[str] = set()
        self.is_async = False
        facts = {
            key: value
            for key, value in self.record.facts.items()
            if isinstance(value, (str, int, float)) and not key.startswith(("checkpoint_", "langgraph_"))
        }
        count = sum(map(len, self.record.steps.values()))
        place = {**facts, "thread_id": log.execution_id}
        self.config = {"configurable": place, "metadata": facts, "callbacks": [], "recursion_limit": count + 25}

    def diverged(self, what: str) -> ReplayDivergence:
        """Today's graph does something else; kept also where the graph's own code swallows it."""
        error = ReplayDivergence(
            f"today's graph {what}",
            path=self.log.path,
            execution_id=self.log.execution_id,
            hint="Record the run anew where the change is meant; finish waiting threads on the old code.",
        )
        self.asked.append(error)
        return error

    def prepare(self, graph: Any) -> None:
        """A copy of the graph, whose nodes are watched. The graph itself stays as it is."""
        self.is_async = _is_async(graph, ())
        self.graph = copy.copy(graph)
        self.graph.checkpointer, self.graph.cache = self.saver, None
        self.graph.nodes = {name: node if name == "__start__" else _watched(node, name)
                            for name, node in graph.nodes.items()}  # fmt: skip

    def go(self) -> None:
        """All turns. Raises the first ReplayDivergence."""
        for turn in self.record.turns:
            self._do("invoke", revived(turn.given))
            while (further := self._next(turn)) is not _DONE:
                self._do("invoke", further)
            if turn.questions:
                asks = printable(str(turn.questions[0][0].value))
                raise self.diverged(f"does not ask {asks}, as the recorded run did")
            fewer = next((one for one in self.taken.values() if one.answers), None)
            if fewer is not None:
                raise self.diverged(f"does not ask {printable(str(fewer.value))} after the answer before it")
        gone = next((step for steps in self.record.steps.values() for step in steps), None)
        if gone is not None:
            known = "" if gone.node in self.graph.nodes else ": there is no such node any more"
            raise self.diverged(f"does not run {printable(gone.node)}, as the recorded run did{known}")

    def _do(self, name: str, *args: Any) -> Any:
        if self.is_async:
            found = asyncio.run(getattr(self.graph, f"a{name}")(*args, self.config))
        else:
            found = getattr(self.graph, name)(*args, self.config)
        if self.asked:
            raise self.asked[0]
        return found

    def _next(self, turn: Turn) -> Any:
        """What the run is continued with: the answers to its questions, None after a breakpoint, or _DONE."""
        state = self._do("get_state")
        tasks = [task for task in state.tasks if task.interrupts and not self.saver.has_finished(task.id)]
        questions = [(task, one) for task in tasks for one in task.interrupts]
        given: dict[str, Any] = {}
        for task, one in questions:
            question = self._question(turn, task, self.saver.plain(one.value))
            if question.answers:
                question.last = question.answers.pop(0)
                given[one.id] = revived(question.last)
        if given:
            return Command(resume=given if len(questions) > 1 else next(iter(given.values())))
        if not questions and state.next and any(self.record.steps.get(name) for name in state.next):
            return None
        return _DONE

    def _question(self, turn: Turn, task: Any, value: Any) -> Question:
        """The recorded question that is this one: of the same task, else the same, else the next."""
        question = self.taken.get(task.id)
        if question is None and turn.questions:
            batch = turn.questions[0]
            question = next((one for one in batch if one.value == value), batch[0])
            batch.remove(question)
            turn.questions = [one for one in turn.questions if one]
            self.taken[task.id] = question
            question.was_other = question.value != value
        elif question is not None and not question.answers and question.was_other and question.value == value:
            question.was_other, question.answers = False, [] if question.waits else [question.last]
        if question is None or not (question.answers or question.waits):
            where, asks = printable(task.name), printable(str(value))
            raise self.diverged(f"asks {asks} in {where}, which nobody answered in the recorded run")
        return question

    def starts(self, node: str, given: Any, config: Any) -> _Work:
        """A node is about to run, for the first time or again with an answer."""
        key = str(config["configurable"].get("checkpoint_ns"))
        with self.lock:
            step = self.begun.get(key)
            if step is None:
                steps = self.record.steps.get(node)
                if not steps:
                    raise self.diverged(f"runs {printable(node)}, which the recorded run did not")
                sent = [one for one in steps if one.given is not None]
                same = self.saver.plain(given) if sent and len(steps) > 1 else None
                step = next((one for one in sent if one.given == same), steps[0])
                self.begun[key] = steps.pop(next(at for at, one in enumerate(steps) if one is step))
        return _Work(step)

    def ends(self, work: _Work, tools: Any) -> None:
        """A node has run. Raises ReplayDivergence where it asked for less than was recorded."""
        node = printable(work.step.node)
        if any(is_a_models(message) for message in work.left):
            raise self.diverged(f"does not ask the model in {node} as often as the recorded run did")
        given = (call for call in _calls_answered(work.step.output))
        for call_id in given if tools is not None else ():
            name = str(self.record.tools[call_id].get("name") or "")
            if call_id not in self.used and name and name not in tools:
                raise self.diverged(f"does not call {printable(name)} in {node}: there is no such tool any more")

    def answer(self) -> ChatResult:
        """What a model said."""
        work = _work.get()
        with self.lock:
            if work is None:
                raise self.diverged("asks a model while it chooses the next node: such answers are not in a store")
            if not work.left:
                raise self.diverged(
                    f"asks a model in {printable(work.step.node)} for an answer that is not in the record: only"
                    " messages that a node wrote, and only those of nodes that have finished, are"
                )
            message = AIMessage.model_validate(revived(work.left.pop(0)))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def result(self, tool: Any, call_id: str) -> ToolMessage:
        """What a tool gave."""
        with self.lock:
            fields = self.record.tools.get(call_id)
            if fields is None:
                raise self.diverged(f"calls {printable(str(tool.name))}, which the recorded run did not")
            if str(fields.get("name") or tool.name) != tool.name:
                raise self.diverged(f"calls {printable(str(tool.name))} for a call of {printable(str(fields['name']))}")
            self.used.add(call_id)
        return ToolMessage.model_validate(revived(fields))


_DONE = object()


class _Watched(Runnable[Any, Any]):
    """A node whose runs are told to the replay."""

    def __init__(self, inner: Any, node: str) -> None:
        self.inner, self.node, self.name = inner, node, getattr(inner, "name", None)
        self.tools = getattr(inner, "tools_by_name", None)

    @contextlib.contextmanager
    def _watching(self, given: Any, config: Any) -> Iterator[None]:
        run = _active.get()
        assert run is not None
        work = run.starts(self.node, given, config)
        if self.tools is not None:
            _refuse_more_than_messages(run, work.step)
        token = _work.set(work)
        try:
            yield
        finally:
            _work.reset(token)
        run.ends(work, self.tools)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        with self._watching(input, config):
            return self.inner.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        with self._watching(input, config):
            return await self.inner.ainvoke(input, config, **kwargs)


def _watched(node: Any, name: str) -> Any:
    found = copy.copy(node)
    found.__dict__.pop("node", None)
    found.bound, found.retry_policy = _Watched(node.bound, name), None
    if hasattr(found, "cache_policy"):
        found.cache_policy = None
    return found


def _is_async(graph: Any, around: tuple[int, ...]) -> bool:
    """Whether a node, also of a graph inside, has no synchronous way to run."""
    if id(graph) in around or len(around) > _LEVELS:
        return False
    return any(
        (getattr(node.bound, "func", True) is None and getattr(node.bound, "afunc", None) is not None)
        or any(
            getattr(tool, "func", True) is None for tool in (getattr(node.bound, "tools_by_name", None) or {}).values()
        )
        or any(_is_async(inner, (*around, id(graph))) for inner in subgraphs(node))
        for node in graph.nodes.values()
    )


def _calls_answered(output: Any) -> Iterator[str]:
    """The ids of the calls whose results a tool node wrote."""
    for value in output.values() if isinstance(output, dict) else ():
        for item in value if isinstance(value, list) else [value]:
            fields = item.get("$value") if isinstance(item, dict) else None
            if isinstance(fields, dict) and fields.get("tool_call_id"):
                yield str(fields["tool_call_id"])


def _refuse_more_than_messages(run: _Run, step: Step) -> None:
    """Tools may give commands; a record has the updates of all of them together, and where they led in no way."""
    for key, value in step.output.items() if isinstance(step.output, dict) else ():
        if not list(_calls_answered({key: value})):
            error = Unsupported(
                f"tools in {printable(step.node)} wrote {printable(str(key))}: which of them, is not in the record",
                path=run.log.path,
                execution_id=run.log.execution_id,
            )
            run.asked.append(error)
            raise error


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Chat models and tools of every class answer the replay that is under way in their context."""
    undo: list[tuple[type, str, Any]] = []

    def put(base: type, name: str, make: Callable[[Any], Any]) -> None:
        waiting = [base]
        seen: set[type] = set()
        while waiting:
            cls = waiting.pop()
            if cls in seen:
                continue
            seen.add(cls)
            waiting += cls.__subclasses__()
            if name in vars(cls):
                undo.append((cls, name, vars(cls)[name]))
                setattr(cls, name, make(vars(cls)[name]))

    try:
        put(BaseChatModel, "_generate", _generate)
        put(BaseChatModel, "_agenerate", _agenerate)
        put(BaseChatModel, "_should_stream", _should_stream)
        put(BaseTool, "run", _run)
        put(BaseTool, "arun", _arun)
        yield
    finally:
        for cls, name, value in reversed(undo):
            setattr(cls, name, value)


def _generate(original: Any) -> Any:
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = _active.get()
        return original(self, *args, **kwargs) if run is None else run.answer()

    return generate


def _agenerate(original: Any) -> Any:
    async def agenerate(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = _active.get()
        return await original(self, *args, **kwargs) if run is None else run.answer()

    return agenerate


def _should_stream(original: Any) -> Any:
    def should_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if _active.get() is None else False

    return should_stream


def _of_a_call(tool: Any, kwargs: dict[str, Any]) -> Any:
    """The id of the call that a tool is to answer from the record; None where it runs."""
    functions = [getattr(tool, name, None) for name in ("func", "coroutine", "_run", "_arun")]
    own = [found for one in functions for found in code.functions_of(one) if not code.is_library(found)]
    return None if code.asks(own) else kwargs.get("tool_call_id")


def _run(original: Any) -> Any:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        active, call_id = _active.get(), _of_a_call(self, kwargs)
        if active is None or call_id is None:
            return original(self, *args, **kwargs)
        return active.result(self, str(call_id))

    return run


def _arun(original: Any) -> Any:
    async def arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        active, call_id = _active.get(), _of_a_call(self, kwargs)
        if active is None or call_id is None:
            return await original(self, *args, **kwargs)
        return active.result(self, str(call_id))

    return arun
