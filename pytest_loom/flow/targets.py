"""What the names in ``loom_effects`` mean: ``module:function``, ``module:Class.method``, ``module:object.method``,
``module:*``.

The names are the user's own configuration, so their modules are imported.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import inspect
import pkgutil
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pytest_loom.errors import FlowError, printable

ANY_OWNER = object()
_MISSING = object()
_CACHE = type(functools.cache(lambda: None))


@dataclass(eq=False)
class Target:
    """One callable by its name.

    ``function`` is the object to intercept; ``owner`` and ``attribute`` say where it was found; ``method``: its first
    argument is ``self`` or ``cls``, and has to be ``only`` unless that is ANY_OWNER; ``wrap`` makes of a stand-in what
    belongs into a class (``staticmethod``).
    """

    name: str
    function: Any
    owner: Any
    attribute: str
    method: bool = False
    only: Any = ANY_OWNER
    wrap: Callable[[Any], Any] = field(default=lambda stand_in: stand_in)


def resolve(name: str) -> list[Target]:
    """The callables that one name stands for. Raises FlowError naming what does not exist or cannot be recorded."""
    module_name, colon, path = name.partition(":")
    parts = path.split(".")
    if not colon or not all(part.isidentifier() for part in module_name.split(".")) or not all(parts):
        start, _, end = name.rpartition(".")
        hint = f"Did you mean {start}:{end}?" if start and not colon else "Such as myapp.llm:complete or myapp.tools:*."
        _refuse(name, "is no name of the form module:function, module:Class.method or module:*", hint)
    module = _import(name, module_name)
    if path == "*":
        return _all_of(name, module)
    owner: Any = None
    value: Any = module
    shown = module_name
    for part in parts:
        owner, value = value, _attribute(name, value, part, shown)
        shown += f".{part}" if ":" in shown else f":{part}"
    return [_target(name, owner, parts[-1], value)]


def _import(name: str, module_name: str) -> types.ModuleType:
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as problem:
        gone = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if gone is None or not f"{module_name}.".startswith(f"{gone}."):
            raise FlowError(
                f"effect {printable(name)}: importing {module_name} raised {type(problem).__name__}: "
                f"{printable(str(problem), 200)}",
                hint=f"Try: python -c 'import {module_name}'",
            ) from problem
        raise FlowError(
            f"effect {printable(name)}: there is no module {gone}",
            hint=_near(gone, _siblings(gone)) or f"Is the folder of {gone} importable? Set pythonpath for pytest.",
        ) from None


def _siblings(module_name: str) -> list[str]:
    parent = module_name.rpartition(".")[0]
    if not parent:
        return [found.name for found in pkgutil.iter_modules()]
    package = importlib.import_module(parent)
    return [f"{parent}.{found.name}" for found in pkgutil.iter_modules(getattr(package, "__path__", ()))]


def _attribute(name: str, owner: Any, attribute: str, shown: str) -> Any:
    found: Any = inspect.getattr_static(owner, attribute, _MISSING) if isinstance(owner, type) else _MISSING
    if found is _MISSING:
        try:
            found = getattr(owner, attribute)
        except AttributeError:
            known = [key for key in dir(owner) if callable(inspect.getattr_static(owner, key, None)) and key[0] != "_"]
            raise FlowError(
                f"effect {printable(name)}: {printable(shown)} has no {printable(attribute)}",
                hint=_near(attribute, known) or f"It has {', '.join(known[:8]) or 'nothing to call'}.",
            ) from None
    return found


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=3)
    return f"Did you mean {' or '.join(near)}?" if near else ""


def _all_of(name: str, module: types.ModuleType) -> list[Target]:
    found: dict[int, Target] = {}
    for key, value in list(vars(module).items()):
        is_function = isinstance(value, (types.FunctionType, _CACHE)) and value.__module__ == module.__name__
        if not is_function or key.startswith("_") or _makes_context_manager(value):
            continue
        if id(value) not in found:
            found[id(value)] = _target(f"{module.__name__}:{key}", module, key, value)
    if not found:
        raise FlowError(
            f"effect {printable(name)}: {module.__name__} defines no public function",
            hint="What a module imports is named by the module that defines it; methods are named one by one.",
        )
    return list(found.values())


def _target(name: str, owner: Any, attribute: str, value: Any) -> Target:
    in_class = isinstance(owner, type)
    wrap: Callable[[Any], Any] | None = None
    function, method, only = value, in_class, ANY_OWNER
    if isinstance(value, (staticmethod, classmethod)):
        function, method, wrap = value.__func__, isinstance(value, classmethod), type(value)
    elif isinstance(value, types.MethodType) and isinstance(value.__func__, types.FunctionType):
        function, method, only = value.__func__, True, value.__self__
    elif isinstance(value, type):
        methods = [key for key, part in vars(value).items() if inspect.isroutine(part) and not key.startswith("_")]
        shown = ", ".join(f"{name}.{key}" for key in methods[:4])
        _refuse(name, "is a class", f"Name its methods: {shown}." if methods else "Name the function that makes it.")
    elif type(value).__module__.partition(".")[0] == "pytest_loom":
        _refuse(name, f"is {value!r}, which is recorded already", "Take it off the list.")
    elif not callable(value) or isinstance(value, functools.partialmethod):
        _refuse(name, f"is a {type(value).__name__}, not a function", "Name the function or method that does the work.")
    elif not isinstance(value, types.FunctionType):
        call = inspect.getattr_static(type(value), "__call__", None)
        if isinstance(call, types.FunctionType):
            function, method, only = call, True, value
        elif in_class and not hasattr(type(value), "__get__"):  # unlike a stand-in it takes no self
            method, wrap = False, staticmethod
    if _makes_context_manager(function):
        _refuse(name, "makes a context manager, which no log can hold", "Name the functions that it calls.")
    if isinstance(function, types.FunctionType) and function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:
        _refuse(name, "is a generator made a coroutine by types.coroutine", "Name the async function that awaits it.")
    found = Target(name, function, owner, attribute, method, only)
    if wrap is not None:
        found.wrap = wrap
    return found


def _makes_context_manager(function: Any) -> bool:
    """Whether it was decorated with ``contextlib.contextmanager`` or ``asynccontextmanager``."""
    return isinstance(function, types.FunctionType) and function.__globals__ is vars(contextlib)


def _refuse(name: str, why: str, hint: str) -> NoReturn:
    raise FlowError(f"effect {printable(name)} {why}", hint=hint)
