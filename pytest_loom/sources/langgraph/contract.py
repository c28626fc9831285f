"""What a LangGraph graph promises to its waiting threads, as contract JSON: read off the live object, nothing run.

Steps are nodes, those of subgraphs by path (``writer/review``), ``__start__`` where a graph begins. ``joins`` are named
as LangGraph names the channel of a join (``join:a+b:target``), for that name is what a waiting thread depends on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from types import FunctionType
from typing import Any

from pytest_loom.errors import FlowError, Unsupported
from pytest_loom.sources.langgraph import code
from pytest_loom.sources.langgraph.tools import tools_of

ANYWHERE = "*"
_END = "__end__"
_PRIVATE = ("__", "branch:", "join:", "start:")
_MAX_LEVELS = 12


def contract_of_graph(flow: Any) -> dict[str, Any]:
    """The contract of a compiled graph, a StateGraph, an entrypoint of the functional API or an agent, as JSON data.

    Raises Unsupported where it is none of these, FlowError where a StateGraph cannot be compiled.
    """
    graph = compiled(flow)
    steps: dict[str, Any] = {}
    joins: dict[str, list[str]] = {}
    tools: dict[str, Any] = {}
    _collect(graph, "", steps, joins, tools, ())
    found: dict[str, Any] = {
        "workflowId": str(getattr(graph, "name", "") or "LangGraph"),
        "engine": "checkpoint",
        "steps": steps,
        "joins": joins,
        "tools": tools,
    }
    if getattr(graph, "builder", None) is not None:
        found["stateSchema"] = state_schema(graph)
        found["reducers"] = reducers(graph)
    return found


def contract_of_object(value: Any) -> dict[str, Any] | None:
    """Like ``contract_of_graph``; None for any other object of LangGraph or LangChain."""
    try:
        return contract_of_graph(value)
    except Unsupported:
        return None


def compiled(flow: Any) -> Any:
    """The graph that runs: of a StateGraph the compiled one, of one with a configuration bound to it the graph."""
    for _ in range(5):
        if _is_graph(flow):
            return flow
        if callable(getattr(flow, "compile", None)) and hasattr(flow, "waiting_edges"):
            try:
                flow = flow.compile()
            except Exception as problem:
                raise FlowError(f"the graph does not compile: {type(problem).__name__}: {problem}") from problem
        elif getattr(flow, "bound", None) is not None:
            flow = flow.bound
        else:
            break
    kind = type(flow)
    raise Unsupported(
        f"no contract can be read from an object of {kind.__module__}.{kind.__qualname__}",
        hint="Give a compiled graph, a StateGraph, an entrypoint or an agent made by create_agent.",
    )


def _is_graph(value: Any) -> bool:
    parts = isinstance(getattr(value, "nodes", None), dict) and isinstance(getattr(value, "channels", None), dict)
    return parts and callable(getattr(value, "invoke", None))


def subgraphs(node: Any) -> list[Any]:
    """The graphs that a node runs inside itself, as far as LangGraph itself finds them."""
    found = [graph for graph in getattr(node, "subgraphs", None) or () if _is_graph(graph)]
    bound = getattr(node, "bound", None)
    return [bound] if not found and _is_graph(bound) else found


def _collect(
    graph: Any, path: str, steps: dict[str, Any], joins: dict[str, Any], tools: dict[str, Any], around: tuple[int, ...]
) -> None:
    if id(graph) in around or len(around) > _MAX_LEVELS:
        return
    after = _edges(graph)
    for name, node in graph.nodes.items():
        place = f"{path}{name}"
        functions = code.functions_of(node.bound) if not subgraphs(node) else []
        step: dict[str, Any] = {"next": sorted(after[name])} if after is not None else {}
        if name != "__start__":
            step["asks"] = _asks(graph, name, node, functions)
            reads, writes = code.keys_of([*functions, *_routers(graph, name)])
            if reads is not None and writes is not None and functions:
                step["reads"], step["writes"] = sorted(reads), sorted(writes)
            if after is not None and ANYWHERE not in after[name] and not after[name] and code.goes_anywhere(functions):
                step["next"] = [ANYWHERE]
            tools.update(tools_of(node.bound, functions, tools))
        steps[place] = step
        for inner in subgraphs(node)[:1]:
            _collect(inner, f"{place}/", steps, joins, tools, (*around, id(graph)))
    builder = getattr(graph, "builder", None)
    for sources, target in getattr(builder, "waiting_edges", None) or ():
        joins[f"{path}join:{'+'.join(sources)}:{target}"] = list(sources)


def _asks(graph: Any, name: str, node: Any, functions: list[FunctionType]) -> bool:
    for stops in (graph.interrupt_before_nodes, graph.interrupt_after_nodes):
        if stops == "*" or name in (stops or ()):
            return True
    own = [getattr(getattr(node.bound, part, None), "__self__", None) for part in ("func", "afunc")]
    for item in own:
        rules = getattr(item, "interrupt_on", None)
        if isinstance(rules, dict):
            return bool(rules) and getattr(item, "interrupt_mode", "") != "per_call"
    if hasattr(node.bound, "tools_by_name"):
        inside = list(code.inner_objects(node.bound))
        return any(getattr(item, "interrupt_mode", "") == "per_call" and item.interrupt_on for item in inside)
    return code.asks(function for function in functions if not code.is_library(function))


def _routers(graph: Any, name: str) -> list[FunctionType]:
    """The functions that decide where a node leads."""
    branches = getattr(getattr(graph, "builder", None), "branches", None) or {}
    return [
        function
        for branch in (branches.get(name) or {}).values()
        for function in code.functions_of(getattr(branch, "path", None))
    ]


def _edges(graph: Any) -> dict[str, set[str]] | None:
    """Which nodes may follow each; None for a graph that was not built from edges."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        return {name: set() for name in graph.nodes} if len(graph.nodes) == 1 else None
    found: dict[str, set[str]] = {name: set() for name in graph.nodes}
    for source, target in builder.edges:
        found.setdefault(source, set()).add(target)
    for sources, target in builder.waiting_edges:
        for source in sources:
            found.setdefault(source, set()).add(target)
    for source, branches in builder.branches.items():
        for branch in branches.values():
            ends = getattr(branch, "ends", None)
            found.setdefault(source, set()).update(ends.values() if ends else [ANYWHERE])
    for name, spec in builder.nodes.items():
        ends = getattr(spec, "ends", None)
        found.setdefault(name, set()).update(ends or ())
        if not ends and code.goes_anywhere(code.functions_of(getattr(spec, "runnable", None))):
            found[name].add(ANYWHERE)
    return {name: targets - {_END} for name, targets in found.items()}


def _keys(graph: Any) -> Iterator[tuple[str, Any]]:
    for name, channel in graph.channels.items():
        if not name.startswith(_PRIVATE):
            yield name, channel


def reducers(graph: Any) -> dict[str, str]:
    """The name of what puts writes to a key together, for each key that has it."""
    found = {}
    for name, channel in _keys(graph):
        operator = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
        if operator is not None:
            module = getattr(operator, "__module__", None) or type(operator).__module__
            label = getattr(operator, "__qualname__", None) or type(operator).__qualname__
            found[name] = f"{module}.{label}"
        elif type(channel).__name__ == "Topic":
            found[name] = "langgraph.channels.Topic"
    return found


def state_schema(graph: Any) -> dict[str, Any]:
    """The keys of the state with their types as JSON Schemas: other keys are not kept. Only classes are required."""
    from pydantic import TypeAdapter

    adapters = []
    properties: dict[str, Any] = {}
    for name, channel in _keys(graph):
        properties[name] = {}
        kind = getattr(channel, "typ", None)
        if kind is None or _is_library_type(kind):
            continue
        try:
            adapter = TypeAdapter(kind)
            adapter.json_schema()
        except Exception:  # a type's own hooks may raise anything; then nothing is said of its key
            continue
        adapters.append((name, "validation", adapter))
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if adapters:
        each, shared = TypeAdapter.json_schemas(adapters)  # type: ignore[arg-type]
        properties |= {str(name): found for (name, _), found in each.items()}
        schema |= shared
        schema.pop("title", None)
    required = _required(getattr(graph.builder, "state_schema", None))
    if required:
        schema["required"] = required
    return schema


def _is_library_type(kind: Any) -> bool:
    """Messages and the like change with the library that they come from, not with the application."""
    text = repr(kind)
    return "langchain_core." in text or "langgraph." in text


def _required(schema: Any) -> list[str]:
    """The keys without a default, of a state that is a class: it is made anew for each node, and refuses gaps."""
    if not isinstance(schema, type):
        return []
    model = getattr(schema, "model_fields", None)
    if isinstance(model, dict):
        return sorted(name for name, field in model.items() if field.is_required())
    if is_dataclass(schema):
        return sorted(
            item.name
            for item in fields(schema)
            if item.default is MISSING and item.default_factory is MISSING and item.init
        )
    return []
