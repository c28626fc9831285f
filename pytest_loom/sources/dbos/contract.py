"""What a DBOS workflow function promises to the runs that wait for it: its contract as data, read off the function.

``steps`` are left out: which steps a workflow runs is decided by its code, which a deploy simulation has DBOS replay.
``gates`` are the topics on which its own code receives, where all of them can be read off its source.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pytest_loom.sources.dbos.mapping import event_name
from pytest_loom.sources.dbos.version import application_of

_TEMPORARY = "<temp>."
"""What DBOS puts before the name of a step that is run without a workflow."""

_RECEIVES = ("recv", "recv_async")
_DEPTH = 4


def own_name(flow: Any) -> str | None:
    """The name under which DBOS registered a workflow function, and looks for it again; None for a step."""
    original = getattr(flow, "__orig_func", None)
    name = getattr(original, "dbos_function_name", None) or getattr(flow, "dbos_function_name", None)
    return name if original is not None and isinstance(name, str) and not name.startswith(_TEMPORARY) else None


def contract_of_object(flow: Any) -> dict[str, Any] | None:
    """The contract JSON of a workflow function; None where ``flow`` is a step."""
    name = own_name(flow)
    if name is None:
        return None
    contract: dict[str, Any] = {"workflowId": name, "engine": "journal", "inputSchema": _input_schema(flow)}
    topics, complete = topics_of(flow)
    if complete:
        contract["gates"] = {event_name(topic): {} for topic in sorted(topics, key=str)}
    version = application_of(flow).version
    return contract | ({"version": version} if version else {})


def signature_of(flow: Any) -> inspect.Signature | None:
    """What the workflow takes, without the instance or class of a method; None where that cannot be told."""
    try:
        found = inspect.signature(inspect.unwrap(flow))
    except (TypeError, ValueError):
        return None
    info = getattr(flow, "dbos_func_decorator_info", None)
    kind = getattr(getattr(info, "func_type", None), "name", "")
    if kind in ("Instance", "Class"):
        found = found.replace(parameters=list(found.parameters.values())[1:])
    return found


def _input_schema(flow: Any) -> dict[str, Any]:
    """A JSON Schema of the arguments by name. DBOS itself checks only whether the function can be called with them."""
    signature = signature_of(flow)
    if signature is None:
        return {}
    try:
        hints = inspect.get_annotations(inspect.unwrap(flow), eval_str=True)
    except Exception:  # an annotation that names what is not there
        hints = {}
    properties: dict[str, Any] = {}
    required = []
    definitions: dict[str, Any] = {}
    is_open = False
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            is_open = True
            continue
        schema = _schema(hints[name]) if name in hints else {}
        definitions |= schema.pop("$defs", {})
        properties[name] = schema
        if parameter.default is parameter.empty:
            required.append(name)
    found = {"type": "object", "properties": properties, "required": required, "additionalProperties": is_open}
    return {**found, "$defs": definitions} if definitions else found


def _schema(kind: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    try:
        return dict(TypeAdapter(kind).json_schema())
    except Exception:  # pydantic has no schema for it
        return {}


def topics_of(flow: Any) -> tuple[set[str | None], bool]:
    """The topics on which the workflow's code receives, and whether these are all: None is the one without a name.

    A topic that is put together when the code runs, or a call that cannot be followed, makes the list incomplete.
    """
    topics: set[str | None] = set()
    complete = True
    for part in _followed(flow):
        if part is None:
            complete = False
            continue
        tree, names = part
        for call in filter(_is_receive, ast.walk(tree)):
            said = _topic(call, names)  # type: ignore[arg-type]  # a call, as asked
            complete &= said is not _UNKNOWN
            topics |= set() if said is _UNKNOWN else {said}  # type: ignore[arg-type]
    return topics, complete


def may_call(flow: Any, step: str) -> bool:
    """Whether the workflow's code may still come to a step of that name; True wherever that cannot be told."""
    last = step.rpartition(".")[2]
    for part in _followed(flow):
        if part is None:
            return True
        tree, names = part
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and not isinstance(node.func, (ast.Name, ast.Attribute)):
                return True
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _is_local(node.func.id, names):
                return True
            if isinstance(node, ast.Constant) and node.value == step:
                return True
            if isinstance(node, (ast.Name, ast.Attribute)):
                name = node.id if isinstance(node, ast.Name) else node.attr
                if name == last or getattr(_value(node, names), "dbos_function_name", None) == step:
                    return True
    return False


def _is_local(name: str, names: dict[str, Any]) -> bool:
    """Whether a name stands for what is known only when the code runs."""
    return names.get(name, _UNKNOWN) is _UNKNOWN and not hasattr(builtins, name)


def _followed(flow: Any) -> Iterator[tuple[ast.Module, dict[str, Any]] | None]:
    """The source of the workflow and of the plain functions that it calls, also in other modules, each with what its
    names stand for; None for a call that cannot be followed, or a function without source."""
    todo: list[tuple[Any, dict[str, Any], int]] = [(inspect.unwrap(flow), {}, 0)]
    seen: list[tuple[Any, dict[str, Any]]] = []
    while todo:
        function, given, depth = todo.pop()
        if (function, given) in seen:
            continue
        seen.append((function, given))
        tree = _source(function)
        if tree is None:
            yield None
            continue
        names = _globals(function) | given
        yield tree, names
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and not _is_receive(node)):
            if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") in ("self", "cls"):
                yield None
            elif (inner := _helper(_value(call.func, names))) is not None:
                if depth < _DEPTH:
                    todo.append((inner, _handed(call, inner, names), depth + 1))
                else:
                    yield None


def _is_receive(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RECEIVES


_UNKNOWN = object()


def _source(function: Any) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return None


def _topic(call: ast.Call, names: dict[str, Any]) -> object:
    """The topic of a receive: a text, None, or ``_UNKNOWN``."""
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg in ("topic", None))]
    if not given:
        return None
    value = _value(given[0], names)
    value = value.value if isinstance(value, enum.Enum) and isinstance(value, str) else value
    return value if value is None or isinstance(value, str) else _UNKNOWN


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """What a constant, a name, a part of a module, an enum or a dict stands for, else ``_UNKNOWN``; nothing is run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, _UNKNOWN)
    if isinstance(node, ast.Attribute):
        whole = _value(node.value, names)
        if isinstance(whole, enum.Enum) and node.attr in ("value", "name"):
            return whole._value_ if node.attr == "value" else whole._name_
        if isinstance(whole, enum.EnumMeta):
            return whole.__members__.get(node.attr, _UNKNOWN)
        return vars(whole).get(node.attr, _UNKNOWN) if isinstance(whole, (ModuleType, type)) else _UNKNOWN
    if isinstance(node, ast.Subscript):
        whole, key = _value(node.value, names), _value(node.slice, names)
        return whole.get(key, _UNKNOWN) if type(whole) is dict and isinstance(key, (str, int)) else _UNKNOWN
    return _UNKNOWN


def _handed(call: ast.Call, function: Any, names: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that they have in the function: those that are texts, or are left out."""
    try:
        places = {word.arg: word.value for word in call.keywords if word.arg is not None}
        bound = inspect.signature(function).bind_partial(*call.args, **places)
    except (TypeError, ValueError):
        return {}
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        node = bound.arguments.get(name)
        value = _value(node, names) if isinstance(node, ast.expr) else parameter.default if node is None else _UNKNOWN
        found[name] = value if value is None or isinstance(value, str) else _UNKNOWN
    return found


def _helper(found: Any) -> Any:
    """A plain Python function of the application that the code calls: it is part of the workflow. None for others."""
    if not inspect.isfunction(found) or hasattr(found, "dbos_function_name"):
        return None
    root = found.__module__.partition(".")[0]
    return None if root in sys.stdlib_module_names or root == "dbos" else found


def _globals(function: Any) -> dict[str, Any]:
    found: dict[str, Any] = dict(getattr(function, "__globals__", {}))
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
