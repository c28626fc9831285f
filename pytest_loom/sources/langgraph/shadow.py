"""Shadow resume: run only the node that waits, on a copy in memory, and see what it asks today.

``Shadow(flow)`` prepares today's graph once, in a process that is thrown away: every node is watched, and those that
were not waiting do not run. ``run(request)`` sets a thread up as its log has it and continues it without a new answer:
the node runs again with the answers that are recorded and comes to the question that is open, or does something else.
No tool, no model, no task of the functional API runs; their being asked for is what is told.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import types
from typing import Any

import langgraph.func
import langgraph.types
from langchain_core.runnables import Runnable
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Send

from pytest_loom.sources.langgraph import code
from pytest_loom.sources.langgraph.contract import compiled, subgraphs
from pytest_loom.sources.langgraph.revive import revived
from pytest_loom.sources.langgraph.saver import FrozenSaver
from pytest_loom.sources.langgraph.values import plain

_LEVELS = 12


class Stopped(GraphBubbleUp):
    """Raised in place of work that a shadow does not do."""


class Watch:
    """What is seen during one run. Nodes may run in several threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset(set(), 0)

    def reset(self, allowed: set[str], limit: int) -> None:
        """Begin anew: only the nodes at ``allowed`` places may run, and only ``limit`` times in all."""
        self.allowed, self.limit = allowed, limit
        self.started: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.finished: list[str] = []
        self.errors: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.tools: list[str] = []

    def starts(self, place: str, config: Any) -> None:
        """A node is about to run. Raises GraphInterrupt where it may not."""
        metadata = (config or {}).get("metadata") or {}
        runs = place in self.allowed
        with self.lock:
            self.started.append({"place": place, "step": metadata.get("langgraph_step"), "runs": runs})
            self.limit -= runs
            if not runs or self.limit < 0:
                raise GraphInterrupt(())


watch = Watch()


class _Watched(Runnable[Any, Any]):
    """A node that tells when it starts and how it ends."""

    def __init__(self, inner: Any, place: str) -> None:
        self.inner, self.place, self.name = inner, place, getattr(inner, "name", None)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        watch.starts(self.place, config)
        try:
            result = self.inner.invoke(input, config, **kwargs)
        except GraphBubbleUp:
            raise
        except BaseException as problem:
            watch.errors.append(_error(self.place, problem))
            raise Stopped from None
        watch.finished.append(self.place)
        return result

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        watch.starts(self.place, config)
        try:
            result = await self.inner.ainvoke(input, config, **kwargs)
        except GraphBubbleUp:
            raise
        except BaseException as problem:
            watch.errors.append(_error(self.place, problem))
            raise Stopped from None
        watch.finished.append(self.place)
        return result


def _hold(tool: Any) -> None:
    """A tool that does not ask anybody itself does not run: its being called is told."""
    parts = [name for name in ("func", "coroutine") if getattr(tool, name, None) is not None]
    parts = parts or ["_run", "_arun"]
    functions = [found for name in parts for found in code.functions_of(getattr(tool, name, None))]
    if code.asks(function for function in functions if not code.is_library(function)):
        return

    def held(*_: Any, **__: Any) -> Any:
        watch.tools.append(str(tool.name))
        raise Stopped

    async def held_later(*_: Any, **__: Any) -> Any:
        held()

    for name in parts:
        object.__setattr__(tool, name, held_later if name in ("coroutine", "_arun") else held)


def _error(place: str, problem: BaseException) -> dict[str, Any]:
    frames = []
    trace = problem.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    key = problem.args[0] if isinstance(problem, KeyError) and problem.args else getattr(problem, "name", None)
    return {
        "place": place,
        "type": type(problem).__name__,
        "message": str(problem)[:300],
        "key": key if isinstance(key, str) else None,
        "module": str(frames[-1]) if frames else "",
    }


class Shadow:
    """Today's graph, prepared to be asked about many threads."""

    def __init__(self, flow: Any) -> None:
        self.graph = compiled(flow)
        self.places: set[str] = set()
        self.is_async = False
        self.routers: dict[str, list[Any]] = {}
        self.questions: dict[str, list[Any]] = {}
        self.tool_questions: dict[str, list[list[Any]]] = {}
        self.uses_outside: set[str] = set()
        self._watch(self.graph, "", ())
        keeps = inspect.signature(self.graph.stream).parameters
        self.options = {"durability": "exit"} if "durability" in keeps else {}  # nothing is written on the way
        _watch_questions()
        _watch_tasks()

    def _watch(self, graph: Any, path: str, around: tuple[int, ...]) -> None:
        if id(graph) in around or len(around) > _LEVELS:
            return
        graph.cache = None
        for name, node in graph.nodes.items():
            place = f"{path}{name}"
            self.places.add(place)
            inner = subgraphs(node)
            for one in inner[:1]:
                self._watch(one, f"{place}/", (*around, id(graph)))
            if name == "__start__" or (inner and inner[0] is node.bound):
                continue
            bound = node.bound
            if getattr(bound, "func", True) is None and getattr(bound, "afunc", None) is not None:
                self.is_async = True
            functions = code.functions_of(bound)
            self.questions[place] = code.questions_in(functions)
            self.tool_questions[place] = _asked_by_tools(bound)
            if code.uses_outside(functions):
                self.uses_outside.add(place)
            for tool in (getattr(bound, "tools_by_name", None) or {}).values():
                _hold(tool)
            node.bound = _Watched(bound, place)
            node.__dict__.pop("node", None)
            node.retry_policy = None
            if hasattr(node, "cache_policy"):
                node.cache_policy = None
        branches = getattr(getattr(graph, "builder", None), "branches", None) or {}
        for source, found in branches.items():
            self.routers[f"{path}{source}"] = [(branch, graph) for branch in found.values()]

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """What today's graph does with the thread: see the module. Never raises for what the graph does."""
        frontier = request["frontier"]
        checkpoints = _checkpoints(request)
        pending = frontier.get("pending") or []
        waiting = {_place(item) for item in pending if item["status"] == "waiting"}
        if "" in waiting and len(self.graph.nodes) == 1:  # the one entrypoint of the functional API
            waiting |= set(self.graph.nodes)
        config = _config(request["thread"], checkpoints)
        found: dict[str, Any] = {"problem": "", "due": []}
        saver = FrozenSaver(request["thread"], checkpoints)
        self.graph.checkpointer = saver
        watch.reset(waiting, 50)
        self._go_on(config, found)
        names = {_place(item) for item in pending if item["status"] != "finished" and not item.get("namespace")}
        if not names <= {item["place"] for item in watch.started}:
            found["due"] = self._due(saver, config)
        found |= {
            "started": list(watch.started),
            "asked": list(watch.asked),
            "finished": list(watch.finished),
            "errors": list(watch.errors),
            "calls": list(watch.calls),
            "tools": list(watch.tools),
        }
        shown = [item.get("value") for item in frontier.get("interrupts") or []]
        if any(item["value"] not in shown for item in found["asked"] if not item["answered"]):
            self.graph.checkpointer = FrozenSaver(request["thread"], checkpoints)
            watch.reset(waiting, 50)
            self._go_on(config, {})
            found["again"] = list(watch.asked)  # what differs from the first time is made while asking
        found["sketches"] = {
            place: self.questions.get(place) or _of_that(self.tool_questions.get(place, []), shown) for place in waiting
        }
        found["usesOutside"] = sorted(waiting & self.uses_outside)
        found["routes"] = self._routes(request.get("routers") or [], checkpoints)
        return found

    def _go_on(self, config: dict[str, Any], found: dict[str, Any]) -> None:
        """Resume without a new answer."""
        try:
            self._do("invoke", None, config, **self.options)
        except GraphBubbleUp:
            pass
        except Exception as problem:
            if not watch.errors:
                found["problem"] = f"{type(problem).__name__}: {problem}"[:300]
                found["refused"] = type(problem).__name__

    def _due(self, saver: FrozenSaver, config: dict[str, Any]) -> list[str]:
        """What LangGraph itself says would run next."""
        saver.newer.clear()
        saver.written.clear()
        try:
            return list(self._do("get_state", config).next)
        except Exception:  # what is wrong with the state has been seen already
            return []

    def _do(self, name: str, *args: Any, **options: Any) -> Any:
        if not self.is_async:
            return getattr(self.graph, name)(*args, **options)
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(getattr(self.graph, f"a{name}")(*args, **options))
        finally:
            loop.close()

    def _routes(self, places: list[str], checkpoints: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Where the routers of these places lead, going by the saved state alone."""
        found = []
        for place in places:
            namespace = place.rpartition("/")[0]
            item = next((one for one in checkpoints if _names(one["namespace"]) == namespace), None)
            if item is None:
                continue
            for branch, graph in self.routers.get(place, []):
                try:
                    state = _state_for(graph, item["values"])
                    function = next(iter(code.functions_of(branch.path)))
                    if inspect.iscoroutinefunction(function) or len(inspect.signature(function).parameters) != 1:
                        continue
                    result = function(state)
                except Exception:  # it needs what the node before would have given it
                    continue
                results = result if isinstance(result, (list, tuple)) else [result]
                names = [one.node if isinstance(one, Send) else one for one in results]
                ends = getattr(branch, "ends", None)
                found.append(
                    {
                        "place": place,
                        "to": [name for name in names if isinstance(name, str)],
                        "known": [str(key) for key in ends] if ends else sorted(graph.nodes),
                    }
                )
        return found


def _asked_by_tools(bound: Any) -> list[list[Any]]:
    """The questions of each tool of a tool node that asks any."""
    tools = (getattr(bound, "tools_by_name", None) or {}).values()
    parts = [[getattr(tool, "func", None), getattr(tool, "coroutine", None)] for tool in tools]
    asked = [code.questions_in([one for part in both for one in code.functions_of(part)]) for both in parts]
    return [questions for questions in asked if questions]


def _of_that(asked: list[list[Any]], shown: list[Any]) -> list[Any]:
    """The questions of the one tool that may have asked what was shown; [] where several may, or none."""
    found = [
        questions
        for questions in asked
        if any(sketch != code.ANY and _may_be(sketch, value) for sketch in questions for value in shown)
    ]
    return found[0] if len(found) == 1 else []


def _may_be(sketch: Any, value: Any) -> bool:
    """Whether a question may be what its sketch says."""
    if sketch == code.ANY:
        return True
    if isinstance(sketch, dict) and isinstance(value, dict):
        return sketch.keys() == value.keys() and all(_may_be(part, value[key]) for key, part in sketch.items())
    if isinstance(sketch, list) and isinstance(value, list):
        return len(sketch) == len(value) and all(map(_may_be, sketch, value))
    return bool(sketch == value)


def _checkpoints(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The checkpoints with the keys of the state put back among their values."""
    states = request["states"]
    return [
        {**item, "values": {**item["values"], **states.get(_names(item["namespace"]), {})}}
        for item in request["frontier"].get("checkpoints") or []
    ]


def _names(namespace: str) -> str:
    return "/".join(part.partition(":")[0] for part in namespace.split("|") if part)


def _place(item: dict[str, Any]) -> str:
    return f"{item['namespace']}/{item['node']}" if item.get("namespace") else str(item.get("node"))


def _config(thread: str, checkpoints: list[dict[str, Any]]) -> dict[str, Any]:
    """What the caller configured, as far as LangGraph kept it beside the checkpoint."""
    metadata: dict[str, Any] = next((item["metadata"] for item in checkpoints if not item["namespace"]), {})
    kept = {
        key: value
        for key, value in metadata.items()
        if isinstance(value, (str, int, float, bool))
        and key not in ("source", "step", "checkpoint_id", "checkpoint_ns")
    }
    return {"configurable": {**kept, "thread_id": thread}, "callbacks": [], "recursion_limit": 25}


def _state_for(graph: Any, values: dict[str, Any]) -> Any:
    state = {key: revived(value) for key, value in values.items() if key in graph.channels and not key.startswith("__")}
    schema = getattr(graph.builder, "state_schema", None)
    is_class = isinstance(schema, type) and not issubclass(schema, dict) and not hasattr(schema, "__total__")
    return schema(**state) if is_class and schema is not None else state


def _watch_questions() -> None:
    """See every call of ``interrupt``, wherever its name was bound: the function itself gets other code."""
    function: Any = langgraph.types.interrupt
    if hasattr(function, "__loom_original__"):
        return
    original = types.FunctionType(
        function.__code__, function.__globals__, "interrupt", function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__

    def asked(*args: Any, **kwargs: Any) -> Any:
        value = args[0] if args else kwargs.get("value")
        fact = {"place": _here(), "value": _plain(value), "answered": True}
        with watch.lock:
            watch.asked.append(fact)
        try:
            return original(*args, **kwargs)
        except GraphInterrupt:
            fact["answered"] = False
            raise

    vars(langgraph.types)["__loom_asked__"] = asked
    function.__loom_original__ = original
    function.__kwdefaults__ = None
    function.__defaults__ = None
    function.__code__ = _stand_in.__code__


def _stand_in(*args: Any, **kwargs: Any) -> Any:
    return __loom_asked__(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821  # a name in langgraph.types


def _here() -> str:
    """The task that runs: its namespace, which ends in its id."""
    from langgraph.config import get_config

    try:
        return str(get_config()["configurable"].get("checkpoint_ns", ""))
    except Exception:  # asked outside of a run; LangGraph itself will say so
        return ""


def _watch_tasks() -> None:
    """Tasks of the functional API do not run: one without a recorded result is told, and stops the entrypoint."""
    kind: Any = getattr(langgraph.func, "_TaskFunction", None)
    if kind is None or hasattr(kind, "__loom_original__"):
        return
    original = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = self.func
        fact = {"name": str(getattr(function, "__name__", "?")), "recorded": True}
        with watch.lock:
            watch.calls.append(fact)
        self.func = _unrun(function, fact)
        try:
            return original(self, *args, **kwargs)
        finally:
            self.func = function

    kind.__loom_original__ = original
    kind.__call__ = call


def _unrun(function: Any, fact: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*args: Any, **kwargs: Any) -> Any:
            fact["recorded"] = False
            raise Stopped

        return later

    @functools.wraps(function)
    def never(*args: Any, **kwargs: Any) -> Any:
        fact["recorded"] = False
        raise Stopped

    return never


def _plain(value: Any) -> Any:
    """A question as the log would have it, as far as that matters for comparing it."""
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump())
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    try:
        return plain(value)
    except ValueError:
        return str(value)
