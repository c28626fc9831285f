"""``Context``: what flow code asks the run for. Everything that comes from outside goes through it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from pytest_loom.flow.asking import ContextBase
from pytest_loom.flow.branches import Branch, here
from pytest_loom.flow.definition import Flow, Step, Tool
from pytest_loom.flow.nested import (
    answered_whole,
    begin_subflow,
    end_subflow,
    nested_key,
    run_nested,
    run_nested_sync,
    subflow_asked,
)
from pytest_loom.flow.perform import aperform, perform
from pytest_loom.flow.quick import SLOWLY, quickly
from pytest_loom.flow.run import Run
from pytest_loom.flow.streams import AsyncStream, SyncStream
from pytest_loom.flow.turns import Parked

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Context(ContextBase):
    """What an async flow gets as its first argument."""

    @overload
    def run(
        self, step: Step[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self, step: Step[Concatenate[Context, P], Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self, step: Flow[Concatenate[Context, P], Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(  # type: ignore[overload-overlap]  # a stream is awaitable too
        self, step: Step[P, AsyncIterator[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncStream: ...
    @overload
    def run(self, step: Step[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...
    def run(self, step: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a declared step (or sub-flow) as a recorded effect: ``await ctx.run(assess, case)``.

        A streaming step is iterated (``async for piece in ctx.run(write, topic)``); awaited, it gives the list of its
        pieces.
        """
        if type(step) is Step and not step.is_stream and self._flow.steps.get(step.id) is step:
            return self._run_step(step, args, kwargs)
        step = self._declared(step)
        if isinstance(step, Flow):
            return self._run_flow(step, args, kwargs)
        return AsyncStream(self._branch(), self._step(step, args, kwargs), lambda: step.fn(*args, **kwargs))

    def stream(self, step: Step[P, AsyncIterator[T]], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """The pieces of a streaming step, recorded in order (the same as ``run`` with one)."""
        found = self.run(step, *args, **kwargs)
        if not isinstance(found, AsyncStream):
            raise self._refuse(f"step {step.id} does not stream", "A streaming step is a generator.")
        return found

    async def _run_step(self, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = self._run
        branch = self._branch()
        if step.takes_context:
            return await self._run_nested(branch, step, args, kwargs)
        if run.replaying and len(args) == 1 and not kwargs:
            found = quickly(run, branch, step, args[0])
            if found is not SLOWLY:
                return found
        asking = self._step(step, args, kwargs)
        return await aperform(branch, asking, lambda: step.fn(*args, **kwargs))

    async def _run_nested(
        self, branch: Branch, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A step that runs steps of its own: answered as a whole, or entered."""
        run, asked = self._run, self._step(step, args, kwargs)
        inner = branch.inside(nested_key(branch, step.id))

        async def body() -> Any:
            token = here.set(inner)
            try:
                value = step.fn(Context(run, self._flow), *args, **kwargs)
                return await value if inspect.isawaitable(value) else value
            finally:
                here.reset(token)

        return await run_nested(branch, inner, asked, body)

    async def _run_flow(self, flow: Flow[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A sub-flow: its code runs always, its effects are recorded under its own namespace."""
        run, branch = self._run, self._branch()
        self._output(flow)
        asked = subflow_asked(flow, self._said(args, kwargs, f"flow {flow.id}: the input"))
        inner = branch.inside(nested_key(branch, flow.id))
        effect = begin_subflow(run, branch, asked)
        if run.replaying and effect is None:
            await run.park(branch, None, None)
        token = here.set(inner)
        try:
            made = flow.fn(context_for(run, flow), *args, **kwargs)
            value = await made if inspect.isawaitable(made) else made
        except Exception as problem:
            end_subflow(run, branch, asked, effect, problem=problem)
            raise
        finally:
            here.reset(token)
        return end_subflow(run, branch, asked, effect, value=value)

    async def call(self, tool: Tool[..., Any], /, **arguments: Any) -> Any:
        """Call a declared tool as a recorded effect."""
        branch = self._branch()
        asked = self._tool(tool, arguments)
        return await aperform(branch, asked, lambda: tool.fn(**arguments))

    async def suspend(
        self,
        event: str,
        *,
        correlation_key: str | None = None,
        timeout: timedelta | float | None = None,
        kind: str = "event",
        pending: Any = None,
    ) -> Any:
        """Wait durably for an event (a declared gate); gives its payload as the gate's type.

        ``timeout`` (a timedelta, or seconds): TimeoutError is raised when the run is resumed with the event TIMEOUT.
        ``kind``: approval, question, timer, event, breakpoint or crash. ``pending``: what waits, one tool call
        ``{"callId", "name", "args"}`` or a list of them, or a question.
        """
        run, branch = self._run, self._branch()
        wait = self._wait(event, correlation_key, timeout, kind, pending)
        effect = self._gate(branch, wait)
        if effect is None or effect.outcome == "open":
            await run.park(branch, wait, effect)
        assert effect is not None
        await run.rest(effect)
        return self._came(effect, wait)


class SyncContext(ContextBase):
    """What a sync flow gets as its first argument: the same as Context, with plain calls."""

    @overload
    def run(self, step: Step[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def run(self, step: Step[Concatenate[SyncContext, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def run(self, step: Flow[Concatenate[SyncContext, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def run(self, step: Step[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def run(self, step: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a declared step (or sub-flow) as a recorded effect; a streaming step gives an iterator."""
        branch = self._branch()
        plain_step = type(step) is Step and self._flow.steps.get(step.id) is step and step.is_plain
        if plain_step and self._run.replaying and len(args) == 1 and not kwargs:
            found = quickly(self._run, branch, step, args[0])
            if found is not SLOWLY:
                return found
        step = self._declared(step)
        if isinstance(step, Flow):
            return self._run_flow(branch, step, args, kwargs)
        asked = self._step(step, args, kwargs)
        if step.is_async_stream:
            raise self._refuse(f"step {step.id} streams asynchronously", "A sync flow needs a plain generator.")
        if step.is_stream:
            return SyncStream(branch, asked, lambda: step.fn(*args, **kwargs))
        if step.takes_context:
            inner = branch.inside(nested_key(branch, step.id))

            def body() -> Any:
                token = here.set(inner)
                try:
                    return step.fn(SyncContext(self._run, self._flow), *args, **kwargs)
                finally:
                    here.reset(token)

            if answered_whole(branch, inner, asked):
                return perform(branch, asked, body)
            return run_nested_sync(branch, asked, body)
        return perform(branch, asked, lambda: step.fn(*args, **kwargs))

    def stream(self, step: Step[P, Iterator[T]], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        """The pieces of a streaming step, recorded in order."""
        return self.run(step, *args, **kwargs)

    def _run_flow(self, branch: Branch, flow: Flow[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = self._run
        if flow.is_async:
            raise self._refuse(f"sub-flow {flow.id} is async, flow {self._flow.id} is not", "Make both async.")
        self._output(flow)
        asked = subflow_asked(flow, self._said(args, kwargs, f"flow {flow.id}: the input"))
        inner = branch.inside(nested_key(branch, flow.id))
        effect = begin_subflow(run, branch, asked)
        if run.replaying and effect is None:
            run.note_wait(branch, None, None)
            raise Parked
        token = here.set(inner)
        try:
            value = flow.fn(SyncContext(run, flow), *args, **kwargs)
        except Exception as problem:
            end_subflow(run, branch, asked, effect, problem=problem)
            raise
        finally:
            here.reset(token)
        return end_subflow(run, branch, asked, effect, value=value)

    def call(self, tool: Tool[..., Any], /, **arguments: Any) -> Any:
        """Call a declared tool as a recorded effect."""
        branch = self._branch()
        return perform(branch, self._tool(tool, arguments), lambda: tool.fn(**arguments))

    def suspend(
        self,
        event: str,
        *,
        correlation_key: str | None = None,
        timeout: timedelta | float | None = None,
        kind: str = "event",
        pending: Any = None,
    ) -> Any:
        """Wait durably for an event (a declared gate); gives its payload as the gate's type."""
        run, branch = self._run, self._branch()
        wait = self._wait(event, correlation_key, timeout, kind, pending)
        effect = self._gate(branch, wait)
        if effect is None or effect.outcome == "open":
            run.note_wait(branch, wait, effect)
            raise Parked
        run.thread_turn(branch, effect)
        return self._came(effect, wait)


def context_for(run: Run, flow: Flow[..., Any]) -> Context | SyncContext:
    """The Context that a flow gets."""
    return Context(run, flow) if flow.is_async else SyncContext(run, flow)
