"""Declaring flows: ``@flow``, ``@step`` and ``@tool``, so that what a flow may run is data and needs no execution."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pytest_loom.errors import FlowError, printable
from pytest_loom.flow.values import Codec, codec_for, plain
from pytest_loom.log.schema import is_kernel_type

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

_SHOUTED = re.compile(r"[A-Z0-9]+(_[A-Z0-9]+)*_?")
_CONTEXTS = ("Context", "SyncContext")


class _Declared(Generic[P, R]):
    """What steps, tools and flows have in common: a function, and what its annotations say."""

    noun = "function"

    def __init__(self, fn: Callable[P, R], local_names: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.is_async = inspect.iscoroutinefunction(fn)
        self.is_stream = inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn)
        self.is_async_stream = inspect.isasyncgenfunction(fn)
        self._local_names = local_names

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The bare function: nothing is recorded."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.noun} {printable(self.__dict__.get('id') or self.fn.__qualname__)}>"

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The function's signature."""
        return inspect.signature(self.fn)

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """The function's annotations as types. Raises FlowError where one cannot be resolved."""
        return resolved_hints(self.fn, self._local_names)

    def annotation(self, name: str) -> Any:
        """What a parameter (or "return") is annotated with; Any where nothing is said."""
        found = self.hints.get(name, Any)
        return None if found is type(None) else found


def resolved_hints(fn: Callable[..., Any], local_names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of ``fn`` as types, also where it is defined inside another function."""
    closure = closure_of(fn)
    try:
        return typing.get_type_hints(fn, localns={**local_names, **closure}, include_extras=True)
    except Exception as problem:
        raise FlowError(
            f"the annotations of {fn.__qualname__} cannot be resolved: {printable(str(problem))}",
            hint="What an annotation names has to be importable in the function's module.",
        ) from None


def closure_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """What a function holds of the functions around it, by name."""
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None) or ()
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        with contextlib.suppress(ValueError):  # not filled yet
            found[name] = cell.cell_contents
    return found


class Step(_Declared[P, R]):
    """A unit of recorded work (``@step``). Calling it runs the bare function; ``ctx.run(step, …)`` records it."""

    noun = "step"

    def __init__(
        self,
        fn: Callable[P, R],
        local_names: Mapping[str, Any],
        *,
        id: str | None,
        version: str | int | None,
        retries: int,
        backoff: float | timedelta,
    ) -> None:
        super().__init__(fn, local_names)
        self.id = id or fn.__name__
        self.version = version
        self.retries = retries
        self.backoff = backoff.total_seconds() if isinstance(backoff, timedelta) else float(backoff)
        if retries < 0 or self.backoff < 0:
            raise FlowError(f"step {self.id}: retries and backoff are numbers of tries and of seconds, never negative")
        if retries and (self.is_stream or self.takes_context):
            what = "streams" if self.is_stream else "runs steps of its own"
            raise FlowError(
                f"step {self.id} {what}, so it cannot be tried again as a whole",
                hint="Give the retries to smaller steps.",
            )

    @functools.cached_property
    def takes_context(self) -> bool:
        """Whether the first parameter is the Context, so that the step may run steps of its own."""
        first = next(iter(self.signature.parameters.values()), None)
        if first is None:
            return False
        said = first.annotation
        name = said if isinstance(said, str) else getattr(said, "__name__", "")
        return name.rpartition(".")[2] in _CONTEXTS or (said is first.empty and first.name == "ctx")

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether the step neither streams nor runs steps of its own."""
        return not (self.is_stream or self.takes_context)

    @functools.cached_property
    def output(self) -> Codec:
        """How the step's result (a streaming step's pieces) goes into the log."""
        annotation = self.annotation("return")
        if self.is_stream:
            annotation = item_type(annotation)
        return codec_for(annotation, f"step {self.id}: the {'piece' if self.is_stream else 'result'}")


class Tool(_Declared[P, R]):
    """A tool that flows call with ``ctx.call(tool, **arguments)`` (``@tool``)."""

    noun = "tool"

    def __init__(
        self,
        fn: Callable[P, R],
        local_names: Mapping[str, Any],
        *,
        name: str | None,
        version: str | int | None,
        approval: bool,
        permissions: Iterable[str],
    ) -> None:
        super().__init__(fn, local_names)
        self.id = name or fn.__name__
        self.version = version
        self.approval = approval
        self.permissions = tuple(permissions)

    @functools.cached_property
    def output(self) -> Codec:
        """How the tool's result goes into the log."""
        return codec_for(self.annotation("return"), f"tool {self.id}: the result")


class Flow(_Declared[P, R]):
    """Code that runs executions (``@flow``), with everything it may run declared.

    ``steps`` and ``tools`` by id, ``gates`` as event name to the annotation of its payload, ``versions`` as
    ``{"state": …, "plan": …}``. A plain callable is a flow too (``flow_of``): it takes no Context, and its effects are
    the functions and model clients that it calls.
    """

    noun = "flow"

    def __init__(
        self,
        fn: Callable[P, R],
        local_names: Mapping[str, Any],
        *,
        id: str,
        version: str | None = None,
        steps: Iterable[Step[..., Any] | Flow[..., Any]] = (),
        gates: Mapping[str, Any] | None = None,
        tools: Iterable[Tool[..., Any]] = (),
        versions: Mapping[str, Any] | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__(fn, local_names)
        self.id = id
        self.version = version
        self.plain = plain
        self.steps: dict[str, Step[..., Any] | Flow[..., Any]] = {}
        for part in steps:
            if not isinstance(part, (Step, Flow)):
                raise FlowError(f"flow {id}: steps has {part!r}, which is no step", hint="Decorate it with @step.")
            self._declare(self.steps, part.id, part)
        self.tools: dict[str, Tool[..., Any]] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise FlowError(f"flow {id}: tools has {tool!r}, which is no tool", hint="Decorate it with @tool.")
            self._declare(self.tools, tool.id, tool)
        self.gates = dict(gates or {})
        for event in self.gates:
            if not event or event == "TIMEOUT" or (is_kernel_type(event) and _SHOUTED.fullmatch(event)):
                raise FlowError(
                    f"flow {id}: a gate cannot be called {printable(event)!r}: that name is the kernel's",
                    hint="Name it after the application's own event, such as ApprovalGranted.",
                )
        self.versions = dict(versions or {})
        if self.is_stream:
            raise FlowError(f"flow {id} is a generator; a flow returns its output", hint="Let a step stream.")

    def _declare(self, into: dict[str, Any], name: str, part: Any) -> None:
        if into.setdefault(name, part) is not part:
            raise FlowError(
                f"flow {self.id} declares {printable(name)} twice", hint="Give one of them another id: @step(id=…)."
            )

    @functools.cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """What the flow takes as input: its parameters after the Context."""
        found = list(self.signature.parameters.values())
        if not self.plain and not found:
            raise FlowError(f"flow {self.id} has to take the Context first: def {self.fn.__name__}(ctx, …)")
        return found if self.plain else found[1:]

    @functools.cached_property
    def input(self) -> Codec:
        """How the one input of the flow goes into the log."""
        parameters = self.parameters
        annotation = self.annotation(parameters[0].name) if len(parameters) == 1 else Any
        return codec_for(annotation, f"flow {self.id}: the input")

    @functools.cached_property
    def input_parts(self) -> dict[str, Codec]:
        """How each input goes into the log where the flow takes several."""
        return {
            part.name: codec_for(self.annotation(part.name), f"flow {self.id}: the input {part.name}")
            for part in self.parameters
        }

    @functools.cached_property
    def output(self) -> Codec:
        """How the flow's output goes into the log."""
        return codec_for(self.annotation("return"), f"flow {self.id}: the output")

    def output_data(self, value: Any) -> Any:
        """The flow's output as plain data. Nobody reads it back as a value, so it only has to be said in JSON."""
        return plain(value, f"flow {self.id}: the output")

    def gate(self, event: str) -> Codec:
        """How the payload of a gate's event goes into the log."""
        return codec_for(self.gates[event], f"gate {event}: the payload")

    @functools.cached_property
    def fingerprint(self) -> str | None:
        """The fingerprint of its contract; None for a plain callable, which declares none, and where it has none."""
        from pytest_loom.contract.fingerprint import fingerprint
        from pytest_loom.contract.resolve import contract_of

        if self.plain:
            return None
        try:
            return fingerprint(contract_of(self))
        except FlowError:  # an annotation that no schema can say: whoever asks for the contract is told
            return None

    def __loom_contract__(self) -> dict[str, Any]:
        """The flow's contract as data."""
        from pytest_loom.flow.contract import contract_data

        return contract_data(self)


def flow_of(flow: Any) -> Flow[..., Any]:
    """``flow`` as a Flow: one made by ``@flow``, or any callable, whose effects are what it calls.

    Raises FlowError for anything else.
    """
    if isinstance(flow, Flow):
        return flow
    if isinstance(flow, (Step, Tool, type)) or not callable(flow):
        raise FlowError(
            f"{flow!r} is no flow", hint="Give a function decorated with @flow, or a plain function or coroutine."
        )
    fn = flow if inspect.isroutine(flow) else flow.__call__
    base = inspect.unwrap(fn.func if isinstance(fn, functools.partial) else fn)
    name = f"{getattr(base, '__module__', '?')}:{getattr(base, '__qualname__', type(flow).__qualname__)}"
    return Flow(fn, {}, id=name, plain=True)


def item_type(annotation: Any) -> Any:
    """What a generator yields, by its return annotation."""
    arguments = typing.get_args(annotation)
    return arguments[0] if arguments else Any


def _callers_names(fn: Callable[..., Any], depth: int = 2) -> dict[str, Any]:
    """The local names where a decorator is used, for annotations of functions defined inside functions."""
    return dict(sys._getframe(depth).f_locals) if "<locals>" in fn.__qualname__ else {}


@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *, id: str | None = None, version: str | int | None = None, retries: int = 0, backoff: float | timedelta = 0
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,
    version: str | int | None = None,
    retries: int = 0,
    backoff: float | timedelta = 0,
) -> Any:
    """Declare a step: a unit of work whose outcome is recorded instead of re-run.

    ``id`` is the function's name by default. ``retries``: how often a failure is tried again, after ``backoff``
    seconds, doubled each time; every attempt is recorded. May be sync or async, or a generator whose pieces are
    recorded in order.
    """

    def declare(function: Callable[..., Any], depth: int = 2) -> Step[..., Any]:
        names = _callers_names(function, depth)
        return Step(function, names, id=id, version=version, retries=retries, backoff=backoff)

    return declare(fn, 3) if fn is not None else declare


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    version: str | int | None = None,
    approval: bool = False,
    permissions: Iterable[str] = (),
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str | int | None = None,
    approval: bool = False,
    permissions: Iterable[str] = (),
) -> Any:
    """Declare a tool: ``version`` is its meaning-version, ``approval`` whether a person has to agree first,
    ``permissions`` what it may touch.
    """

    def declare(function: Callable[..., Any], depth: int = 2) -> Tool[..., Any]:
        names = _callers_names(function, depth)
        return Tool(function, names, name=name, version=version, approval=approval, permissions=permissions)

    return declare(fn, 3) if fn is not None else declare


def flow(
    *,
    id: str | None = None,
    version: str | None = None,
    steps: Iterable[Step[..., Any] | Flow[..., Any]] = (),
    gates: Mapping[str, Any] | None = None,
    tools: Iterable[Tool[..., Any]] = (),
    versions: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Declare a flow: ``fn(ctx, input)``, sync or async, and everything that it may run.

    ``id`` is the function's name by default; waiting runs are found by it, so a function that may be renamed has one.
    ``steps``: steps and sub-flows; ``gates``: event name to the type of its payload; ``versions``: today's versions of
    the state and the plan. Raises FlowError for a gate that has a kernel name and for an id that is declared twice.
    """

    return declare_flow(id=id, version=version, steps=steps, gates=gates, tools=tools, versions=versions)


def declare_flow(**declared: Any) -> Callable[[Callable[..., Any]], Any]:
    """What ``flow`` gives: the decorator."""

    def declare(function: Callable[..., Any]) -> Flow[..., Any]:
        if not callable(function):
            raise FlowError(f"@flow decorates a function, not {function!r}")
        declared["id"] = declared.get("id") or function.__name__
        return Flow(function, _callers_names(function), **declared)

    return declare
