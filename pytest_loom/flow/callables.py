"""What is known of a callable without calling it, and copies of it: for ``named``, which puts others in its place."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any


def signatures(function: Any) -> Iterator[inspect.Signature]:
    """What its callers see (``functools.wraps`` shows the wrapped function's), then one that takes every call."""
    options: dict[str, Any] = {}
    if sys.version_info >= (3, 14):
        import annotationlib

        options["annotation_format"] = annotationlib.Format.STRING
    with contextlib.suppress(ValueError, TypeError):
        yield inspect.signature(function, **options)
    if isinstance(function, types.FunctionType):
        bare = types.FunctionType(function.__code__, {}, "bare", function.__defaults__, function.__closure__)
        bare.__kwdefaults__ = function.__kwdefaults__
        yield inspect.signature(bare)
    yield inspect.signature(lambda *args, **kwargs: None)


def bind(
    signatures: list[inspect.Signature], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[inspect.Signature, dict[str, Any]]:
    """The first of the signatures that takes these arguments, and what each parameter gets, defaults included."""
    for signature in signatures:
        with contextlib.suppress(TypeError):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return signature, bound.arguments
    raise AssertionError("the last signature takes every call")


def base(function: Any) -> Any:
    """The function underneath partials, bound methods and decorators that say what they wrap."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def kind(function: Any) -> str:
    """``awaitable`` (a coroutine function), ``stream`` (a generator), ``async_stream``, or "" for a plain one."""
    if inspect.iscoroutinefunction(function):
        return "awaitable"
    if inspect.isasyncgenfunction(function):
        return "async_stream"
    return "stream" if inspect.isgeneratorfunction(function) else ""


def return_annotation(function: Any) -> Any:
    """The return annotation as a type; Any where there is none or a name in it is not known in its module."""
    if not isinstance(function, types.FunctionType):
        return Any
    options: dict[str, Any] = {}
    if sys.version_info >= (3, 14):
        import annotationlib

        options["format"] = annotationlib.Format.FORWARDREF
    try:
        closure = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
        said = inspect.get_annotations(function, **options).get("return", Any)

        def holder() -> None: ...

        holder.__annotations__ = {"return": said}
        found = typing.get_type_hints(holder, function.__globals__, closure, include_extras=True)["return"]
    except Exception:
        return Any
    return None if found is type(None) else found


def copied(function: types.FunctionType) -> types.FunctionType:
    """The same function once more, to be called while the code of ``function`` is another."""
    code, scope = function.__code__, function.__globals__
    made = types.FunctionType(code, scope, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
    made.__dict__.update(function.__dict__)
    with contextlib.suppress(NameError):  # annotations that are not known yet
        made.__annotations__ = function.__annotations__
    return made


def blank(function: Any) -> types.FunctionType:
    """A function of the same kind, name and attributes as a callable that has no Python code."""

    def plain_one(*args: Any, **kwargs: Any) -> Any: ...

    async def awaitable_one(*args: Any, **kwargs: Any) -> Any: ...

    def stream_one(*args: Any, **kwargs: Any) -> Any:
        yield

    async def async_stream_one(*args: Any, **kwargs: Any) -> Any:
        yield

    kinds = {"": plain_one, "awaitable": awaitable_one, "stream": stream_one, "async_stream": async_stream_one}
    made: Any = functools.update_wrapper(kinds[kind(function)], function)
    for key in dir(function):
        if not key.startswith("__") and not hasattr(made, key):
            setattr(made, key, getattr(function, key))
    return typing.cast(types.FunctionType, made)
