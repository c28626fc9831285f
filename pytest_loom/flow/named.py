"""Effects by dotted name (``loom_effects``): functions of an application that is not edited for it.

``named_effects(["myapp.llm:complete", "myapp.tools:*", "myapp.client:Client.fetch"])`` makes each an effect of
whatever run calls it. Not the attribute is replaced but the code of the function object (see ``trampoline``), so that
every reference to it follows, whoever holds it. What has no Python code (``time:time``, a ``functools.cache``, a
partial) is replaced by a stand-in: see ``named_effects`` for what that misses.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import types
import typing
from collections import abc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from pytest_loom.errors import FlowError, RecordingError
from pytest_loom.flow.callables import base, bind, blank, copied, kind, return_annotation, signatures
from pytest_loom.flow.targets import ANY_OWNER, Target, resolve
from pytest_loom.flow.trampoline import Walk, arguments, trampoline
from pytest_loom.flow.values import codec_for, plain

_SCALARS = (str, int, float, bool, bytes, type(None))
_ABSENT = object()
# Who calls the standard library for their own sake: what they ask the clock is not what the application asked.
_MACHINERY = frozenset(
    {"_pytest", "anyio", "asyncio", "concurrent", "logging", "pytest_loom", "queue", "selectors", "threading"}
)

_lock = threading.RLock()
_hooks: dict[int, _Hook] = {}  # by the id of the function, and of its stand-in
_quiet: ContextVar[bool] = ContextVar("pytest_loom_named_quiet", default=False)


@contextmanager
def named_effects(names: Iterable[str]) -> Iterator[None]:
    """While the block runs, each named callable is an effect of whatever run calls it; outside a run it is itself.

    A name is ``module:function``, ``module:Class.method``, ``module:object.method``, or ``module:*`` for every public
    function that the module defines (no methods, nothing it imports). The module is imported. The step's id is the
    name as given; its input is the arguments by parameter name, defaults included, without ``self`` and ``cls``; its
    output follows the return annotation. A method that a class inherits is its base's: it is named for all subclasses.
    Blocks may be nested and run in several threads; the first name of a function counts until its block ends.

    A callable without Python code is replaced by a stand-in where it was named and in the globals of every module that
    holds it. That misses references in lists, dicts, partials, defaults and closures made before, and calls made by C
    code. Calls of the standard library from event loops, thread pools and logging are left alone.

    Not recorded: what a named function does while it runs live, and what a method keeps on ``self``. A generator is
    recorded from its first ``next()`` on; it cannot be sent values and returns none. A plain function that wraps a
    coroutine or generator (``functools.wraps``), or is annotated to return one, is taken to return that.

    Raises FlowError for a name that does not exist, matches nothing, or is nothing that can be recorded; a call raises
    RecordingError for arguments or results that no log can hold, and where the call changed its arguments.
    """
    with ExitStack() as stack:
        with _lock:
            for target in [target for name in names for target in resolve(name)]:
                _put(target, stack)
        yield


def itself(function: Any) -> Any:
    """``function`` without its recording, whether or not something names it: for an engine that starts a run by it."""
    hook = _hooks.get(id(function))
    return hook.live if hook is not None else function


def _put(target: Target, stack: ExitStack) -> None:
    hook = _hooks.get(id(target.function)) or _Hook(target.function)
    hook.targets = (*hook.targets, target)
    stack.callback(_drop, hook, target)
    hook.place(target)


def _drop(hook: _Hook, target: Target) -> None:
    with _lock:
        hook.targets = tuple(other for other in hook.targets if other is not target)
        if not hook.targets:
            hook.undo.close()


@contextmanager
def _in_quiet() -> Iterator[None]:
    """What the recording itself calls is no effect, even if it is named (``json:dumps``)."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # closed by the garbage collector, in another context
            _quiet.reset(token)


class _Hook:
    """One callable that is named: what its trampoline calls. ``live`` is the callable itself, ``undo`` ends it."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.targets: tuple[Target, ...] = ()
        self.undo = ExitStack()
        self.signatures = list(signatures(function))
        is_python = isinstance(function, types.FunctionType)
        self.stand_in = function if is_python else blank(function)
        self.code = self.stand_in.__code__
        self.is_plain = not kind(self.stand_in)
        self.live = copied(function) if is_python else function
        swapped = trampoline(self.code, self)
        for key in {id(function), id(self.stand_in)}:
            _hooks[key] = self
            self.undo.callback(_hooks.pop, key)
        self.stand_in.__code__ = swapped
        self.undo.callback(self._give_back, swapped)

    def _give_back(self, swapped: types.CodeType) -> None:
        if self.stand_in.__code__ is swapped:  # else somebody else has changed it since, and theirs stays
            self.stand_in.__code__ = self.code

    def place(self, target: Target) -> None:
        """Put the stand-in where the target was named, and into the globals of every module that holds the same."""
        if self.stand_in is self.function:
            return
        owner, attribute, stand_in = target.owner, target.attribute, target.wrap(self.stand_in)
        if isinstance(owner, types.ModuleType):
            _exchange(self.function, self.stand_in)
            self.undo.callback(_exchange, self.stand_in, self.function)
        before = getattr(owner, "__dict__", {}).get(attribute, _ABSENT)
        try:
            setattr(owner, attribute, stand_in)
        except (AttributeError, TypeError):
            raise FlowError(
                f"effect {target.name}: it cannot be replaced, since it is part of a class or object made in C",
                hint="Call it from a function of your own and name that.",
            ) from None
        self.undo.callback(_restore, owner, attribute, before)

    def __call__(self, *values: Any) -> Any:
        """What the trampoline returns: the callable itself outside a run, its recorded answer inside."""
        args, kwargs = arguments(self.code, values)
        target = self._asked(args)
        if target is None:
            result = self.live(*args, **kwargs)
        else:
            with _in_quiet():
                result = getattr(self, f"_{self.answer}")(_Call(self, target, args, kwargs))
        return Walk(result) if self.code.co_flags & inspect.CO_ASYNC_GENERATOR else result

    def _asked(self, args: tuple[Any, ...]) -> Target | None:
        """As what the call is recorded, or None."""
        if _quiet.get():
            return None
        from pytest_loom.flow import seam

        if not seam.in_run():
            return None
        target = next((one for one in self.targets if one.only is ANY_OWNER or (args and args[0] is one.only)), None)
        if target is not None and self.is_plain and _package(target.name) in sys.stdlib_module_names:
            caller = sys._getframe(2).f_back  # this, the hook, the trampoline
            if caller is not None and _package(str(caller.f_globals.get("__name__"))) in _MACHINERY:
                return None
        return target

    @functools.cached_property
    def answer(self) -> str:
        """How it answers: the name of one of the methods below."""
        return self._returns[0]

    @functools.cached_property
    def annotation(self) -> Any:
        """The type of its answer, or of one piece of it."""
        return self._returns[1]

    @functools.cached_property
    def _returns(self) -> tuple[str, Any]:
        said = return_annotation(base(self.function))
        origin, parts = typing.get_origin(said) or said, typing.get_args(said)
        first = parts[0] if parts else Any
        way = kind(self.live) or kind(base(self.function))
        if way == "":
            if origin in (abc.Awaitable, abc.Coroutine):
                return "awaitable", parts[-1] if parts else Any
            way = {
                abc.Iterator: "stream",
                abc.Generator: "stream",
                abc.AsyncIterator: "async_stream",
                abc.AsyncGenerator: "async_stream",
            }.get(origin, "value")
        elif way == "awaitable" and origin in (abc.AsyncIterator, abc.AsyncGenerator, abc.AsyncIterable):
            way = "awaited_stream"
        return way, first if "stream" in way else said

    def _value(self, call: _Call) -> Any:
        return call.seam.call("step", call.name, call.request, call.value, call.wire("result"))

    async def _awaitable(self, call: _Call) -> Any:
        with _in_quiet():
            return await call.seam.acall("step", call.name, call.request, call.awaited, call.wire("result"))

    def _stream(self, call: _Call) -> Iterator[Any]:
        return _pieces(call, call.seam.stream("step", call.name, call.request, call.pieces, call.wire("piece")))

    async def _async_stream(self, call: _Call) -> AsyncGenerator[Any, None]:
        with _in_quiet():
            opened = await call.seam.astream("step", call.name, call.request, call.async_pieces, call.wire("piece"))
        async with contextlib.aclosing(_async_pieces(call, opened)) as pieces:
            async for piece in pieces:
                yield piece

    async def _awaited_stream(self, call: _Call) -> AsyncGenerator[Any, None]:
        with _in_quiet():
            opened = await call.seam.astream("step", call.name, call.request, call.opened, call.wire("piece"))
        return _async_pieces(call, opened)


class _Call:
    """One call inside a run: what it is asked, as data, and the ways to run it live."""

    def __init__(self, hook: _Hook, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        from pytest_loom.flow import seam  # here, since what is below the seam may import this module

        self.seam = seam
        self.hook, self.name = hook, target.name
        self.args, self.kwargs = args, kwargs
        self.given: dict[str, Any] = {}
        self.request: dict[str, Any] = {}
        signature, given = bind(hook.signatures, args, kwargs)
        for parameter in signature.parameters.values():
            value = given.get(parameter.name, _ABSENT)
            if target.method and parameter is next(iter(signature.parameters.values())):
                value = value[1:] if parameter.kind is parameter.VAR_POSITIONAL else _ABSENT
            if value is _ABSENT or (parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and not value):
                continue
            try:
                self.request[parameter.name] = self._plain(parameter.name, value)
                self.given[parameter.name] = value
            except RecordingError:
                if value is not parameter.default:  # a default such as a client says nothing about the call
                    self.request[parameter.name] = value  # the seam refuses it, and ends the run

    def _plain(self, parameter: str, value: Any) -> Any:
        return plain(value, f"step {self.name}: the argument {parameter}")

    def wire(self, what: str) -> Any:
        """How the result, or a piece of it, goes into the log."""
        codec = codec_for(self.hook.annotation, f"step {self.name}: the {what}")
        return self.seam.Wire(dump=codec.dump, load=codec.load)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raises RecordingError where the arguments are others after the call: replay would not change them."""
        try:
            yield
        except Exception:
            self._compare()
            raise
        self._compare()

    def _compare(self) -> None:
        for parameter, value in self.given.items():
            if not isinstance(value, _SCALARS) and self._plain(parameter, value) != self.request[parameter]:
                raise RecordingError(
                    f"step {self.name}: its argument {parameter} was changed while it ran; replay would not change it",
                    hint="Let it return what it changes instead, or name a function that leaves its arguments alone.",
                )

    def _live(self) -> Any:
        return self.hook.live(*self.args, **self.kwargs)

    def value(self) -> Any:
        """The live result of a function."""
        with self.unchanged():
            result = self._live()
        if isinstance(result, (Awaitable, abc.Iterator, AsyncIterator)):
            if inspect.iscoroutine(result):
                result.close()
            raise self._other(f"returned a {type(result).__name__}", "Annotate it to return that")
        return result

    async def awaited(self) -> Any:
        """The live result of a coroutine."""
        with self.unchanged():
            result = self._live()
            if inspect.isawaitable(result):
                return await result
        raise self._other(f"returned a {type(result).__name__} where it wraps a coroutine", "Name the coroutine")

    def pieces(self) -> Generator[Any, None, None]:
        """The live pieces of a generator."""
        with self.unchanged():
            returned = yield from self._live()
        if returned is not None:
            raise self._other("is a generator that returns a value", "Let it yield that too")

    def async_pieces(self) -> AsyncGenerator[Any, None]:
        """The live pieces of an async generator."""
        return self._each(self._live())

    async def opened(self) -> AsyncGenerator[Any, None]:
        """The live pieces of a coroutine that returns an async iterator."""
        with self.unchanged():
            return self._each(await self._live())

    async def _each(self, pieces: Any) -> AsyncGenerator[Any, None]:
        try:
            with self.unchanged():
                async for piece in pieces:
                    yield piece
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()

    def refuse_sent(self, sent: Any) -> None:
        """A generator in a log only gives: the run ends, whatever its code catches."""
        if sent is not None:
            from pytest_loom.flow.branches import here

            error = self._other("was sent a value", "Name the functions that it calls")
            branch = here.get()
            if branch is not None:
                branch.run.fail(error)
            raise error

    def _other(self, why: str, hint: str) -> RecordingError:
        what = f"step {self.name} {why}, which no log can hold"
        return RecordingError(what, hint=f"{hint}, or take it off the list.")


def _pieces(call: _Call, opened: Any) -> Generator[Any, Any, None]:
    try:
        while True:
            with _in_quiet():
                piece = next(opened, _ABSENT)
            if piece is _ABSENT:
                return
            call.refuse_sent((yield piece))
    finally:
        with _in_quiet():
            opened.close()


async def _async_pieces(call: _Call, opened: Any) -> AsyncGenerator[Any, Any]:
    try:
        while True:
            with _in_quiet():
                piece = await anext(opened, _ABSENT)
            if piece is _ABSENT:
                return
            call.refuse_sent((yield piece))
    finally:
        with _in_quiet():
            await opened.aclose()


def _package(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]


def _exchange(old: Any, new: Any) -> None:
    """Put ``new`` into every module global that is ``old``."""
    for module in list(sys.modules.values()):
        scope = getattr(module, "__dict__", None)
        if type(scope) is dict:
            for key, value in list(scope.items()):
                if value is old:
                    scope[key] = new


def _restore(owner: Any, attribute: str, before: Any) -> None:
    if before is _ABSENT:
        delattr(owner, attribute)
    else:
        setattr(owner, attribute, before)
