"""What can be seen in a node's code without running it: whether it asks, which keys it names, which tools it holds.

Only reads code objects and source text of today's own functions; what cannot be seen is None, never a guess.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_DEPTH = 4
_LIBRARIES = ("langgraph", "langchain", "langchain_core")


def functions_of(runnable: Any, depth: int = 0) -> list[FunctionType]:
    """The Python functions that a node runs: those of a RunnableCallable, of each part of a sequence, of a partial."""
    if depth > 6 or runnable is None:
        return []
    if isinstance(runnable, FunctionType):
        return [inspect.unwrap(runnable)] if isinstance(inspect.unwrap(runnable), FunctionType) else [runnable]
    if isinstance(runnable, MethodType):
        return functions_of(runnable.__func__, depth + 1)
    if isinstance(runnable, functools.partial):
        inner = [part for part in (runnable.func, *runnable.args) if callable(part)]
        return [found for part in inner for found in functions_of(part, depth + 1) if not is_library(found)]
    found: list[FunctionType] = []
    for name in ("func", "afunc", "bound", "runnable"):
        found += functions_of(getattr(runnable, name, None), depth + 1)
    for part in getattr(runnable, "steps", None) or ():
        found += functions_of(part, depth + 1)
    if not found and not isinstance(runnable, type):
        found = functions_of(vars(type(runnable)).get("__call__"), depth + 1)
        found = [function for function in found if not is_library(function)]
    return list(dict.fromkeys(found))


def is_library(function: Any) -> bool:
    """Whether a function is LangGraph's or LangChain's own: it changes with the library, not with the application."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] in _LIBRARIES


def with_helpers(functions: Iterable[FunctionType]) -> list[FunctionType]:
    """The functions and those of the same package that they call by name, some levels deep."""
    found: dict[FunctionType, int] = {}
    waiting = [(function, 0) for function in functions]
    while waiting:
        function, depth = waiting.pop()
        if function in found or depth > _DEPTH:
            continue
        found[function] = depth
        root = (function.__module__ or "").partition(".")[0]
        for _, value in referred(function):
            value = value.__func__ if isinstance(value, MethodType) else value
            if type(value).__name__ == "_TaskFunction":
                value = getattr(value, "func", None)
            if isinstance(value, FunctionType) and (value.__module__ or "").partition(".")[0] == root:
                waiting.append((inspect.unwrap(value) if _plain(value) else value, depth + 1))
    return list(found)


def _plain(function: FunctionType) -> bool:
    return isinstance(inspect.unwrap(function), FunctionType)


def referred(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The objects that a function names: globals, what it closes over, and attributes of modules."""
    names = _names(function.__code__)
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, ModuleType):
            for other in names:
                inner = vars(value).get(other)
                if inner is not None:
                    yield other, inner
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _names(code: CodeType) -> list[str]:
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += _names(constant)
    return list(dict.fromkeys(found))


def asks(functions: Iterable[FunctionType]) -> bool:
    """Whether the code of a node, or a helper of it, refers to LangGraph's ``interrupt``."""
    return any(
        _is_named(value, "langgraph.types", "interrupt")
        for function in with_helpers(functions)
        for _, value in referred(function)
    )


def goes_anywhere(functions: Iterable[FunctionType]) -> bool:
    """Whether a node decides itself where to go on: it makes a Command. Agents' own nodes declare where they lead."""
    return any(
        _is_named(value, "langgraph.types", "Command")
        for function in with_helpers(function for function in functions if not is_library(function))
        for _, value in referred(function)
    )


_OUTSIDE = frozenset(
    {
        "configurable",
        "config",
        "context",
        "runtime",
        "environ",
        "getenv",
        "get_config",
        "get_runtime",
        "get_store",
        "store",
    }
)


def uses_outside(functions: list[FunctionType]) -> bool:
    """Whether a node looks at what the caller or the machine gives it, which a log does not hold."""
    for function in with_helpers(functions):
        words = {*_names(function.__code__), *_texts(function.__code__), *function.__code__.co_varnames}
        if words & _OUTSIDE:
            return True
    return False


def _is_named(value: Any, module: str, name: str) -> bool:
    return getattr(value, "__module__", None) == module and getattr(value, "__name__", None) == name


def keys_of(functions: list[FunctionType]) -> tuple[set[str] | None, set[str] | None]:
    """The keys that the code of a node reads, and those that it writes; None where its source is not to be had.

    Read: ``state["key"]``, ``state.get("key")``, ``state.key``. Written: the keys of dicts that it makes.
    """
    if any(is_library(function) for function in functions):
        return None, None
    reads: set[str] = set()
    writes: set[str] = set()
    for function in with_helpers(functions):
        tree = _tree(function.__code__)
        if tree is None:
            return None, None
        asked = {id(inner) for node in ast.walk(tree) if _asks_here(node) for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict) and id(node) in asked:
                continue
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                (reads if isinstance(node.ctx, ast.Load) else writes).add(str(node.slice.value))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                reads.add(node.attr)
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop", "setdefault"):
                    reads |= {str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant)}
                if isinstance(node.func, ast.Name) and node.func.id == "getattr":
                    reads |= {str(arg.value) for arg in node.args[1:2] if isinstance(arg, ast.Constant)}
                writes |= {keyword.arg for keyword in node.keywords if keyword.arg}
            elif isinstance(node, ast.Dict):
                writes |= {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
    return reads, writes


ANY = {"$any": True}
"""In a sketch of a question: a part that only running the code tells."""


def questions_in(functions: list[FunctionType]) -> list[Any]:
    """Sketches of the questions that the code of a node asks, in the order of its lines; [] where that is not told."""
    found: list[Any] = []
    for function in functions:
        tree = _tree(function.__code__)
        calls = [node for node in ast.walk(tree) if _asks_here(node)] if tree is not None else []
        for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):  # type: ignore[attr-defined]
            arguments = call.args  # type: ignore[attr-defined]
            found.append(_sketch(arguments[0]) if arguments else ANY)
    return found


def _sketch(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool, type(None))):
        return node.value
    if isinstance(node, ast.Dict):
        return {
            str(key.value) if isinstance(key, ast.Constant) else "$any": _sketch(value)
            for key, value in zip(node.keys, node.values, strict=True)
        }
    return [_sketch(item) for item in node.elts] if isinstance(node, (ast.List, ast.Tuple)) else ANY


def _asks_here(node: ast.AST) -> bool:
    """Whether it is a call of ``interrupt``: what is in it is a question, not a write."""
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id == "interrupt")
        or (isinstance(node.func, ast.Attribute) and node.func.attr == "interrupt")
    )


@functools.lru_cache(maxsize=1024)
def _tree(code: CodeType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, ValueError, IndentationError):
        return None


def held_by(function: FunctionType, wanted: Callable[[Any], bool]) -> Iterator[Any]:
    """The objects of a kind that a function names, itself or in a list, tuple or mapping."""
    for _, value in referred(function):
        if wanted(value):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if wanted(item))
        elif isinstance(value, Mapping):
            yield from (item for item in value.values() if wanted(item))


def mappings_of_functions(function: FunctionType) -> Iterator[Mapping[str, FunctionType]]:
    """Mappings of names to plain functions that a function names, where it also speaks of tool calls."""
    words = {*_names(function.__code__), *_texts(function.__code__)}
    if not words & {"tool_calls", "tool_call"}:
        return
    for _, value in referred(function):
        if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
            plain = {key: inspect.unwrap(item) for key, item in value.items() if isinstance(item, FunctionType)}
            if len(plain) == len(value):
                yield {key: item for key, item in plain.items() if isinstance(item, FunctionType)}


def _texts(code: CodeType) -> set[str]:
    found: set[str] = set()
    for constant in code.co_consts:
        if isinstance(constant, str):
            found.add(constant)
        elif isinstance(constant, CodeType):
            found |= _texts(constant)
    return found


def inner_objects(runnable: Any, limit: int = 400) -> Iterator[Any]:
    """The objects that a runnable is made of: methods' instances, closures, partials, some levels deep."""
    seen: set[int] = set()
    waiting: list[tuple[Any, int]] = [(runnable, 0)]
    while waiting and len(seen) < limit:
        item, depth = waiting.pop()
        if id(item) in seen or depth > 6:
            continue
        seen.add(id(item))
        if isinstance(item, MethodType):
            waiting += [(item.__self__, depth + 1)]
            yield item.__self__
        elif isinstance(item, functools.partial):
            waiting += [(part, depth + 1) for part in (item.func, *item.args, *item.keywords.values())]
        elif isinstance(item, FunctionType):
            for cell in item.__closure__ or ():
                try:
                    waiting.append((cell.cell_contents, depth + 1))
                except ValueError:
                    continue
        elif isinstance(item, (list, tuple)):
            waiting += [(part, depth + 1) for part in item[:50]]
        elif not isinstance(item, type):
            yield item
            for name in ("func", "afunc", "bound", "_wrap_tool_call", "_awrap_tool_call"):
                inner = getattr(item, name, None)
                if inner is not None:
                    waiting.append((inner, depth + 1))
