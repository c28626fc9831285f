"""From what users have (a resolver, a mapping, one flow, a JSON file) to the Contract of one workflow."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.errors import FlowError, Unsupported, printable

Resolver = Callable[[str, str | None], Any]
"""Given a workflow id and the version that a run's manifest names (or None): today's flow, or None."""

UNNAMED = "unknown"
"""The workflow of a run whose record does not say to which flow it belongs."""

_FRAMEWORKS = {
    "aws_durable_execution_sdk_python": "pytest_loom.sources.aws_durable.contract",  # what its decorator made
    "agents": "pytest_loom.sources.openai_agents.contract",
    "langchain_core": "pytest_loom.sources.langgraph.contract",  # a graph with a configuration bound to it
    "langgraph": "pytest_loom.sources.langgraph.contract",
    "pydantic_ai": "pytest_loom.sources.pydantic_ai.contract",
    "pydantic_graph": "pytest_loom.sources.pydantic_ai.contract",
}
"""Where the contract of a framework's live object is read: the root of its class's module, and our module for it.

That one has ``contract_of_object(object) -> dict | None``: contract JSON, or None where it is none of its objects.
"""

_MARKED = {
    "__temporal_workflow_definition": "pytest_loom.sources.temporal.contract",
    "dbos_func_decorator_info": "pytest_loom.sources.dbos.contract",
}
"""The same for what a framework only marks, by the attribute: a class or a function of the application.

That module also has ``own_name(object) -> str | None``: what the engine calls it in its records, and under which it
looks for it again, whatever it is listed as; and, where there are such, ``is_dynamic(object)``: it runs under any name.
"""

_LISTS = {"temporalio": "pytest_loom.sources.temporal.settings"}
"""Where a framework's own object that holds several flows is read (a Replayer), by the root of its class's module.

That module has ``flows_of(object) -> dict | None``: the flows by name, None where it is none of its objects.
"""

_SHAPES = "a flow declared with @flow, a Contract, its JSON as a dict or as the path of a .json file"


def contract_of(flow: Any) -> Contract:
    """The contract of ``flow``: one made by ``@flow``, a Contract, contract JSON as a mapping, the path of its file, or
    a framework's own object.

    Raises FlowError where it has the shape but not the content, Unsupported where no contract can be read from it.
    """
    if isinstance(flow, Contract):
        return flow
    if hasattr(type(flow), "__loom_contract__"):
        return _validated(flow.__loom_contract__(), f"flow {flow.id}")
    if isinstance(flow, (str, os.PathLike)):
        return _validated(_read_json(Path(flow)), str(flow))
    if isinstance(flow, Mapping):
        return _validated(flow, "a contract given as a mapping")
    kind = flow if isinstance(flow, type) else type(flow)
    data = _of_framework(flow)
    if data is not None:
        return _validated(data, f"the contract of {kind.__qualname__}")
    what = "the class" if isinstance(flow, type) else "an object of"
    raise Unsupported(
        f"no contract can be read from {what} {kind.__module__}.{kind.__qualname__}",
        hint=f"Give {_SHAPES}.",
    )


def contract_as(flow: Any, workflow_id: str) -> Contract:
    """The contract of a flow that is registered as ``workflow_id``.

    A framework's object is called as it is registered: the name that it gives itself may change, or not be there.
    Raises what ``contract_of`` raises.
    """
    contract = contract_of(flow)
    if contract.workflow_id == workflow_id or not _is_of_framework(flow) or own_name(flow) is not None:
        return contract
    return contract.model_copy(update={"workflow_id": workflow_id})


def named_flows(flows: Any) -> dict[str, Any]:
    """The flows that can be listed, by id: those of a mapping, or the one that there is; {} for what is to be asked."""
    flows = _listed(flows)
    if callable(getattr(flows, "get_flow", None)):
        return {}
    if isinstance(flows, Mapping) and not isinstance(flows.get("workflowId"), str):
        return {own_name(flow) or str(name): flow for name, flow in flows.items()}
    known = isinstance(flows, (Contract, Mapping, str, os.PathLike)) or hasattr(type(flows), "__loom_contract__")
    return {contract_of(flows).workflow_id: flows} if known or _is_of_framework(flows) else {}


def _listed(flows: Any) -> Any:
    """``flows`` as a mapping where a framework's own object holds them, alone or among others; else as they are."""
    if isinstance(flows, Mapping):
        held = [(name, _held_by(flow)) for name, flow in flows.items()]
        if any(found is not None for _, found in held):
            return {key: flow for name, found in held for key, flow in (found or {name: flows[name]}).items()}
        return flows
    return _held_by(flows) or flows


def _held_by(flow: Any) -> dict[str, Any] | None:
    module = _LISTS.get(type(flow).__module__.partition(".")[0])
    found: dict[str, Any] | None = None if module is None else importlib.import_module(module).flows_of(flow)
    return found


def own_name(flow: Any) -> str | None:
    """What the flow's engine calls it, where that engine looks for it by that name alone: Temporal and DBOS."""
    marked = _marked(flow)
    name: str | None = None if marked is None else marked.own_name(flow)
    return name


def patches_of(flow: Any) -> dict[str, str] | None:
    """The patches that a flow's code names, where its engine has such; None where that cannot be told."""
    told: Callable[[Any], dict[str, str] | None] = getattr(_marked(flow), "patches_of", lambda flow: None)
    return told(flow)


def _is_dynamic(flow: Any) -> bool:
    """Whether its engine takes it for every name that it knows no other flow for."""
    return bool(getattr(_marked(flow), "is_dynamic", lambda flow: False)(flow))


def _marked(flow: Any) -> Any:
    """Our module for what a framework only marked, None for anything else. Looks at the object's own attributes."""
    for mark, module in _MARKED.items():
        if mark in getattr(flow, "__dict__", ()):
            return importlib.import_module(module)
    return None


def _is_of_framework(flow: Any) -> bool:
    return _of_framework(flow) is not None


def _of_framework(flow: Any) -> dict[str, Any] | None:
    """The contract JSON of a framework's own object, None for anything else."""
    marked = _marked(flow)
    if marked is not None:
        told: dict[str, Any] | None = marked.contract_of_object(flow)
        return told
    kind = flow if isinstance(flow, type) else type(flow)
    modules = [*(base.__module__ for base in kind.__mro__), str(getattr(flow, "__globals__", {}).get("__name__"))]
    for root in dict.fromkeys(module.partition(".")[0] for module in modules):
        if root in _FRAMEWORKS:
            data: dict[str, Any] | None = importlib.import_module(_FRAMEWORKS[root]).contract_of_object(flow)
            if data is not None:
                return data
    return None


def resolver_of(flows: Any) -> Resolver:
    """One way to ask, whatever ``flows`` is: an object with ``get_flow``, the bare callable, a mapping, or one flow.

    A resolver says that a flow is missing by None or KeyError. Raises FlowError for anything else.
    """
    flows = _listed(flows)
    get_flow = getattr(flows, "get_flow", None)
    if callable(get_flow):
        return _asking(get_flow)
    if hasattr(type(flows), "__loom_contract__"):
        return lambda workflow_id, version: flows if workflow_id == flows.id else None
    if isinstance(flows, Contract) or (isinstance(flows, Mapping) and isinstance(flows.get("workflowId"), str)):
        only = contract_of(flows)
        return lambda workflow_id, version: only if workflow_id == only.workflow_id else None
    if isinstance(flows, Mapping):
        named = {name: flow for flow in flows.values() if (name := own_name(flow)) is not None}
        dynamic = next(filter(_is_dynamic, flows.values()), None)
        return lambda asked, version: (
            named[asked] if asked in named else _recorded_alone(flows.get(asked, dynamic), asked)
        )
    if isinstance(flows, (str, os.PathLike)):
        return resolver_of(contract_of(flows))
    if _is_of_framework(flows):
        own = contract_of(flows).workflow_id
        return lambda workflow_id, version: flows if workflow_id == own or _is_dynamic(flows) else None
    if callable(flows) and not isinstance(flows, type):
        return _asking(flows)
    raise FlowError(
        f"flows cannot be a {type(flows).__qualname__}",
        hint=f"Give a mapping of ids to flows, an object with get_flow(workflow_id, version=None), or {_SHAPES}.",
    )


def _recorded_alone(flow: Any, workflow_id: str) -> Any:
    """``flow``, or, where it is the plain function that the run is a recording of, all that can be said of it: its id.

    Such a function is called by nobody but its application: taken for a resolver, it would do its work.
    """
    name = f"{getattr(flow, '__module__', '')}:{getattr(flow, '__qualname__', '')}"
    return {"workflowId": workflow_id} if name == workflow_id else flow


def _asking(get_flow: Callable[..., Any]) -> Resolver:
    """Call a resolver in the form it has: with the version by name, by place, or not at all."""
    try:
        parameters = list(inspect.signature(get_flow).parameters.values())
    except (TypeError, ValueError):
        parameters = []  # a builtin without a signature takes the id alone
    by_name = any(
        (p.name == "version" and p.kind is not p.POSITIONAL_ONLY) or p.kind is p.VAR_KEYWORD for p in parameters
    )
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    second = placed[1] if len(placed) > 1 else None
    by_place = any(p.kind is p.VAR_POSITIONAL for p in parameters) or (
        second is not None and (second.default is second.empty or second.name in ("version", "v"))
    )

    def ask(workflow_id: str, version: str | None) -> Any:
        if _recorded_alone(get_flow, workflow_id) is not get_flow:
            return _recorded_alone(get_flow, workflow_id)
        try:
            if by_name:
                return get_flow(workflow_id, version=version)
            return get_flow(workflow_id, version) if by_place else get_flow(workflow_id)
        except KeyError:
            return None

    return ask


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as problem:
        raise FlowError(f"the contract cannot be read: {problem.strerror}", path=str(path)) from None
    except (ValueError, RecursionError) as problem:
        raise FlowError(f"the contract is not JSON: {problem}", path=str(path)) from None


def _validated(data: Any, origin: str) -> Contract:
    from pydantic import ValidationError

    try:
        return Contract.model_validate(data)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "contract"
        raise FlowError(
            f"{origin} is not a contract: {printable(where)}: {first['msg']}",
            hint="Keys are workflowId, version, engine, steps, gates, tools, …; all but workflowId are optional.",
        ) from None
