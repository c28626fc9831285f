"""Code objects that hand a call on: put into a function's ``__code__``, every reference to that function follows.

``from app import complete``, ``TOOLS = [search]``, ``partial(complete)`` and bound methods all hold the function object
itself, so replacing a module's attribute would miss them. A trampoline has the parameters, the free variables, the
kind (plain, coroutine, generator, async generator), the name and the first line of the code whose place it takes:
``inspect.signature``, ``inspect.iscoroutinefunction``, ``inspect.getsource`` and the texts of TypeErrors stay right.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import AsyncGenerator, Callable
from types import CodeType
from typing import Any

_HOOK = "<hook>"
_PLAIN = """
    hook = "<hook>"
    return hook({values})
"""
_COROUTINE = """
    hook = "<hook>"
    return await hook({values})
"""
_GENERATOR = """
    hook = "<hook>"
    return (yield from hook({values}))
"""
_ASYNC_GENERATOR = """
    hook = "<hook>"
    walk = hook({values})
    await walk.start()
    while walk.going:
        try:
            sent = yield walk.item
        except BaseException as error:
            await walk.throw(error)
        else:
            await walk.send(sent)
"""


def trampoline(code: CodeType, hook: Callable[..., Any]) -> CodeType:
    """Code that calls ``hook`` with the values of all parameters of ``code``, in the order of ``co_varnames``.

    The hook gives what ``code`` would: its result, an awaitable of it, a generator, or (async generator) a ``Walk``.
    """
    flags = code.co_flags
    body = _PLAIN
    if flags & inspect.CO_ASYNC_GENERATOR:
        body = _ASYNC_GENERATOR
    elif flags & inspect.CO_COROUTINE:
        body = _COROUTINE
    elif flags & inspect.CO_GENERATOR:
        body = _GENERATOR
    is_async = flags & (inspect.CO_ASYNC_GENERATOR | inspect.CO_COROUTINE)
    count = parameter_count(code)
    cells = ", ".join(f"c{index}" for index in range(len(code.co_freevars)))
    source = (
        f"def outer({cells}):\n"
        f"  {'async ' if is_async else ''}def inner({_parameters(code)}):\n"
        + (f"    nonlocal {cells}\n" if cells else "")
        + body.format(values=", ".join(f"p{index}" for index in range(count)))
    )
    tree = ast.parse(source)
    for node in ast.walk(tree):  # all on the first line: tracebacks and coverage tools shall see none of the body run
        if isinstance(node, (ast.expr, ast.stmt, ast.excepthandler, ast.arg)):
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    made = _inner(_inner(compile(tree, code.co_filename, "exec", dont_inherit=True)))
    return made.replace(
        co_consts=tuple(hook if constant == _HOOK else constant for constant in made.co_consts),
        co_varnames=(*code.co_varnames[:count], *made.co_varnames[count:]),
        co_freevars=code.co_freevars,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )


def parameter_count(code: CodeType) -> int:
    """How many parameters there are, ``*args`` and ``**kwargs`` included."""
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def arguments(code: CodeType, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values that a trampoline handed on, as ``args`` and ``kwargs`` for a call of ``code``."""
    positional, total = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    args, kwargs = values[:positional], dict(zip(code.co_varnames[positional:total], values[positional:], strict=False))
    rest = list(values[total:])
    if code.co_flags & inspect.CO_VARARGS:
        args += rest.pop(0)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= rest.pop(0)
    return args, kwargs


def _parameters(code: CodeType) -> str:
    """The parameters as p0, p1, … in the order of ``co_varnames``, which has ``*args`` after the keyword-only ones."""
    names = [f"p{index}" for index in range(parameter_count(code))]
    positional, total = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    parts, rest = names[:positional], names[total:]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        parts.append(f"*{rest.pop(0)}")
    elif code.co_kwonlyargcount:
        parts.append("*")
    parts += names[positional:total]
    parts += [f"**{name}" for name in rest]
    return ", ".join(parts)


def _inner(code: CodeType) -> CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))


class Walk:
    """An async generator, driven by a trampoline: what ``yield from`` does, which async generators lack."""

    def __init__(self, generator: AsyncGenerator[Any, Any]) -> None:
        self.generator = generator
        self.item: Any = None
        self.going = True

    async def start(self) -> None:
        """Go to the first item."""
        await self.send(None)

    async def send(self, value: Any) -> None:
        """Go on after a yield that gave ``value``."""
        await self._step(self.generator.asend(value))

    async def throw(self, error: BaseException) -> None:
        """Go on after a yield that raised ``error``; raises what the generator makes of it."""
        if isinstance(error, GeneratorExit):
            await self.generator.aclose()
            raise error
        await self._step(self.generator.athrow(error))

    async def _step(self, step: Any) -> None:
        try:
            self.item = await step
        except StopAsyncIteration:
            self.going = False
