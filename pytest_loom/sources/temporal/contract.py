"""What a ``@workflow.defn`` class promises to the runs that wait for it: its contract as data. Nothing of it is run.

Steps are what the code does when it runs, so they are not told; what the class declares is: its name, what it takes
and gives, its handlers, how it is versioned. ``gates`` hold signals, updates and queries by name, with what they are
called with (``types.arguments_schema``). A handler of any name is the gate ``*``, and so is code that sets handlers
while it runs.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

from pytest_loom.sources.temporal.types import arguments_schema, schema_of

ANY_NAME = "*"

_MARK = "__temporal_workflow_definition"
_SETTERS = {
    "signal": {"set_signal_handler", "set_dynamic_signal_handler"},
    "update": {"set_update_handler", "set_dynamic_update_handler"},
}
_PHASES = {"patched": "patched", "deprecate_patch": "deprecated"}
_BEHAVIORS = {1: "Pinned", 2: "AutoUpgrade"}


def own_name(flow: Any) -> str | None:
    """The registered workflow type; None for a dynamic workflow, which runs under any name, and for other objects."""
    name = getattr(_definition(flow), "name", None)
    return name if isinstance(name, str) else None


def is_dynamic(flow: Any) -> bool:
    """Whether it is a workflow that runs under every name for which there is no other one."""
    definition = _definition(flow)
    return definition is not None and definition.name is None


def contract_of_object(flow: Any) -> dict[str, Any] | None:
    """The contract JSON of a workflow class, or of its run method; None where ``flow`` is neither."""
    definition = _definition(flow)
    if definition is None:
        return None
    contract: dict[str, Any] = {"workflowId": definition.name or ANY_NAME, "engine": "journal"}
    takes = None if definition.name is None else _arguments(definition.run_fn, definition.arg_types)
    gives = None if definition.ret_type is None else schema_of(definition.ret_type)
    contract |= {} if takes is None else {"inputSchema": takes}
    contract |= {} if gives is None else {"outputSchema": gives}
    contract["gates"] = dict(_gates(definition))
    behavior = _BEHAVIORS.get(int(definition.versioning_behavior or 0))
    return contract if behavior is None else contract | {"versions": {"versioningBehavior": behavior}}


@lru_cache(maxsize=256)
def patches_of(flow: Any) -> dict[str, str] | None:
    """The patches that the text of the class names: ``patched`` or ``deprecated``; None where a name is not plain text.

    Looks at the classes that it is made of and at the functions beside them, not at other classes.
    """
    definition = _definition(flow)
    found: dict[str, str] = {}
    for base in definition.cls.__mro__ if definition is not None else ():
        module = sys.modules.get(base.__module__)
        if module is None or base is object:
            continue
        try:
            tree = ast.parse(inspect.getsource(module))
        except (OSError, TypeError, SyntaxError):
            return None
        parts = [part for part in tree.body if not isinstance(part, ast.ClassDef) or part.name == base.__qualname__]
        for call in (node for part in parts for node in ast.walk(part) if isinstance(node, ast.Call)):
            called = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if called not in _PHASES:
                continue
            if not call.args or not isinstance(call.args[0], ast.Constant):
                return None
            if _PHASES[called] == "patched" or call.args[0].value not in found:
                found[str(call.args[0].value)] = _PHASES[called]
    return None if definition is None else found


def _definition(flow: Any) -> Any:
    return getattr(flow, "__dict__", {}).get(_MARK)


def _gates(definition: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The handlers by name; where two kinds share one, the later by ``kind:name``."""
    taken: set[str] = set()
    set_later = _set_by_code(definition.cls)
    for kind in ("signal", "update", "query"):
        handlers = dict(getattr(definition, {"query": "queries"}.get(kind, f"{kind}s")))
        if kind in set_later:
            handlers.setdefault(None, None)
        for name in sorted(handlers, key=lambda name: name or ""):
            key = name or ANY_NAME
            key = f"{kind}:{key}" if key in taken else key
            taken.add(key)
            gate: dict[str, Any] = {"kind": kind}
            if name is not None and kind != "query":
                schema = _arguments(handlers[name].fn, handlers[name].arg_types)
                gate |= {} if schema is None else {"payloadSchema": schema}
            yield key, gate


def _arguments(function: Any, hints: list[Any] | None) -> dict[str, Any] | None:
    """The schema of what a method is called with; None where it takes any number of arguments."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(one.kind not in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters):
        return None
    required = sum(one.default is one.empty for one in parameters)
    if hints is None or len(hints) != len(parameters):
        hints = [None] * len(parameters)
    return arguments_schema([Any if hint is None else hint for hint in hints], required)


@lru_cache(maxsize=256)
def _set_by_code(cls: type) -> frozenset[str]:
    """For which kinds the class, or what stands beside it in its modules, sets handlers while it runs."""
    names: set[str] = set()
    for base in cls.__mro__:
        names |= _named(base)
    for module in {base.__module__ for base in cls.__mro__} - {"builtins"}:
        for thing in list(vars(sys.modules.get(module, object)).values()):
            if getattr(thing, "__module__", None) == module and _definition(thing) is None:
                names |= _named(thing)
    return frozenset(kind for kind, setters in _SETTERS.items() if setters & names)


def _named(thing: Any) -> set[str]:
    """The names that the code of a function, or of a class's methods, uses."""
    found: set[str] = set()
    parts = list(vars(thing).values()) if isinstance(thing, type) else [thing]
    todo = [getattr(getattr(part, "__func__", part), "__code__", None) for part in parts]
    while todo:
        code = todo.pop()
        if isinstance(code, CodeType):
            found.update(code.co_names)
            todo += code.co_consts
    return found
