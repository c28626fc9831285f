"""``Context``: what flow code asks the run for. Everything that comes from outside goes through it."""

from __future__ import annotations

import inspect
import random as _random
import uuid as _uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

import msgspec

from pytest_loom.errors import FlowError, RecordingError, printable
from pytest_loom.flow import diverge
from pytest_loom.flow.branches import Branch, here
from pytest_loom.flow.definition import Flow, Step, Tool, resolved_hints
from pytest_loom.flow.history import Effect
from pytest_loom.flow.nested import (
    answered_whole,
    begin_subflow,
    end_subflow,
    nested_key,
    run_nested,
    run_nested_sync,
    subflow_asked,
)
from pytest_loom.flow.perform import Asked, aperform, perform
from pytest_loom.flow.quick import SLOWLY, UNSAID, quickly, said
from pytest_loom.flow.run import Run
from pytest_loom.flow.streams import AsyncStream, SyncStream
from pytest_loom.flow.turns import Parked, Stop
from pytest_loom.flow.values import Codec, codec_for, encode, plain

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_UUID = codec_for(_uuid.UUID, "ctx.uuid()")
_NOW = codec_for(datetime, "ctx.now()")
_RANDOM = codec_for(float, "ctx.random()")
_SUSPENSION_KINDS = ("approval", "question", "timer", "event", "breakpoint", "crash")


class _Base:
    """What the sync and the async Context have in common."""

    def __init__(self, run: Run, flow: Flow[..., Any]) -> None:
        self._run = run
        self._flow = flow
        self._state: Any = None

    def _branch(self) -> Branch:
        branch = here.get()
        if branch is None or branch.run is not self._run:
            raise FlowError(
                f"the Context of flow {self._flow.id} is used outside of its run",
                hint="A step's body cannot use it, unless the step takes the Context as its first parameter.",
            )
        if self._run.stopping or branch.parked:
            raise self._run.stop(branch)
        return branch

    def _refuse(self, what: str, hint: str) -> Stop:
        """A mistake in the flow ends the run at once, whatever its code catches."""
        self._run.fail(FlowError(what, execution_id=self._run.recorder.execution_id, hint=hint))
        return Stop()

    def _declared(self, step: Any) -> Any:
        known = self._flow.steps.get(getattr(step, "id", ""))
        if known is not step:
            name = getattr(step, "id", None) or getattr(step, "__qualname__", repr(step))
            if not isinstance(step, (Step, Flow)):
                raise self._refuse(f"{printable(str(name))} is no step", "Decorate it with @step, and declare it.")
            raise self._refuse(
                f"flow {self._flow.id} runs step {printable(str(name))}, which it does not declare",
                f"Add it: @flow(id={self._flow.id!r}, steps=[…, {step.fn.__name__}]).",
            )
        return step

    @property
    def execution_id(self) -> str:
        """The identity of the run."""
        return self._run.recorder.execution_id

    def decide(self, key: str, fn: Callable[[], T]) -> T:
        """The outcome of ``fn()``, recorded: replay and resume give the same again without calling it."""
        if inspect.iscoroutinefunction(fn):
            raise self._refuse(f"ctx.decide({key!r}) got a coroutine function", "decide is a plain call: use a step.")
        annotation = Any
        if inspect.isfunction(fn) and fn.__name__ != "<lambda>":
            annotation = resolved_hints(fn, {}).get("return", Any)
        return self._decision(key, fn, codec_for(annotation, f"decision {key}: the value"))  # type: ignore[no-any-return]

    def now(self) -> datetime:
        """The time, in UTC, recorded."""
        return self._decision("now", lambda: datetime.now(UTC), _NOW)  # type: ignore[no-any-return]

    def uuid(self) -> _uuid.UUID:
        """A random UUID, recorded."""
        return self._decision("uuid", _uuid.uuid4, _UUID)  # type: ignore[no-any-return]

    def random(self) -> float:
        """A random number in [0, 1), recorded."""
        return self._decision("random", _random.random, _RANDOM)  # type: ignore[no-any-return]

    def _decision(self, key: str, make: Callable[[], Any], codec: Codec) -> Any:
        run, branch = self._run, self._branch()
        effect = run.take(branch, "decision", key, b"")
        if effect is not None:
            if run.replaying:
                run.recorder.events.append(effect.start)
            try:
                return codec.load_raw(effect.output) if effect.output else None
            except ValueError as problem:
                run.fail(diverge.unfit(run, effect, problem))
                raise Stop from None
        if run.replaying:
            run.note_wait(branch, None, None)
            run.cut_short = run.loop is not None
            raise Parked
        token = here.set(None)
        try:
            value = make()
        finally:
            here.reset(token)
        try:
            raw = encode(codec.dump(value))
        except RecordingError as error:
            error.execution_id = self.execution_id
            run.fail(error)
            raise Stop from None
        run.recorder.emit(("DECISION_RECORDED", {"key": key, "value": msgspec.Raw(raw)}, branch.place))
        return codec.load_raw(raw)

    def snapshot(self, state: Any) -> None:
        """Record the flow's state, under today's version of it (``@flow(versions={"state": …})``)."""
        run, branch = self._run, self._branch()
        try:
            data = plain(state, f"flow {self._flow.id}: the state")
        except RecordingError as error:
            run.fail(error)
            raise Stop from None
        self._state = state
        payload: dict[str, Any] = {"state": data}
        if self._flow.versions.get("state") is not None:
            payload = {"stateSchemaVersion": self._flow.versions["state"], **payload}
        recorded = run.history.snapshots.get(branch.place, []) if run.history is not None else []
        branch.snapshots += 1
        if branch.snapshots <= len(recorded):
            event = recorded[branch.snapshots - 1]
            if not run.replaying:
                return
            raw = run.recorder.scrubbed(encode(payload))
            if bytes(event.raw) == raw:
                run.recorder.events.append(event)
                return
        run.recorder.emit(("STATE_SNAPSHOT", payload, branch.place))

    @property
    def state(self) -> Any:
        """The state as the run last recorded it with ``snapshot``; None before."""
        return self._state

    # Requests ---------------------------------------------------------------------------------------------------

    def _step(self, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked:
        where = f"step {step.id}: the input"

        def canonical() -> bytes:
            return self._said(args, kwargs, where)

        try:
            request = said(args[0]) if len(args) == 1 and not kwargs else canonical()
        except UNSAID:
            request = canonical()
        output = self._output(step)
        return Asked(
            "step", step.id, request, output.load_raw, output.dump, canonical,
            retries=step.retries, backoff=step.backoff,
        )  # fmt: skip

    def _output(self, part: Step[..., Any] | Tool[..., Any] | Flow[..., Any]) -> Codec:
        """How what a part gives is recorded. An annotation that nothing is known of ends the run."""
        try:
            return part.output
        except FlowError as error:
            self._run.fail(error)
            raise Stop from None

    def _said(self, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> bytes:
        """Arguments as they are recorded: one as itself, several as ``{"args", "kwargs"}``, none as nothing."""
        try:
            if len(args) == 1 and not kwargs:
                return encode(plain(args[0], where))
            if not args and not kwargs:
                return b""
            return encode({"args": plain(list(args), where), "kwargs": plain(kwargs, where)})
        except RecordingError as error:
            error.execution_id = self.execution_id
            self._run.fail(error)
            raise Stop from None

    def _tool(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> Asked:
        if self._flow.tools.get(getattr(tool, "id", "")) is not tool:
            name = getattr(tool, "id", None) or getattr(tool, "__qualname__", repr(tool))
            raise self._refuse(
                f"flow {self._flow.id} calls tool {printable(str(name))}, which it does not declare",
                "Decorate it with @tool, and add it: @flow(…, tools=[…]).",
            )
        try:
            bound = tool.signature.bind(**arguments)
        except TypeError as problem:
            raise self._refuse(
                f"tool {tool.id} cannot be called so: {problem}", "Give its arguments by name."
            ) from None
        try:
            request = encode(plain(dict(bound.arguments), f"tool {tool.id}: the arguments"))
        except RecordingError as error:
            self._run.fail(error)
            raise Stop from None
        facts: dict[str, Any] = {}
        if tool.version is not None:
            facts["toolSchemaVersion"] = tool.version
        if tool.approval:
            from pytest_loom.flow.contract import arguments_schema

            facts["approval"] = True
            facts["toolSchema"] = arguments_schema(tool)
        output = self._output(tool)
        return Asked("tool", tool.id, request, output.load_raw, output.dump, facts=facts)

    def _wait(
        self, event: str, correlation_key: str | None, timeout: timedelta | float | None, kind: str, pending: Any
    ) -> dict[str, Any]:
        if event not in self._flow.gates:
            raise self._refuse(
                f"flow {self._flow.id} waits for {printable(event)}, which it does not declare",
                f"Add it: @flow(…, gates={{{event!r}: TypeOfItsPayload}}).",
            )
        if kind not in _SUSPENSION_KINDS:
            raise self._refuse(f"a wait of kind {kind!r}", f"Kinds are {', '.join(_SUSPENSION_KINDS)}.")
        wait: dict[str, Any] = {"on": event, "kind": kind}
        if correlation_key is not None:
            wait["correlationKey"] = str(correlation_key)
        if timeout is not None:
            seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
            wait["timeoutMs"] = int(seconds * 1000)
        if pending is not None:
            try:
                wait["pending"] = plain(pending, f"gate {event}: pending")
            except RecordingError as error:
                self._run.fail(error)
                raise Stop from None
        return wait

    def _gate(self, branch: Branch, wait: dict[str, Any]) -> Effect | None:
        key = wait.get("correlationKey")
        return self._run.take(branch, "gate", wait["on"], b"" if key is None else encode(key))

    def _came(self, effect: Effect, wait: dict[str, Any]) -> Any:
        """What came through a gate. Raises TimeoutError where nothing did in time."""
        run = self._run
        if run.replaying:
            run.recorder.events.append(wait_event(run, effect, wait))
            run.recorder.events.extend(effect.between or ())
            run.recorder.events.append(effect.end)  # type: ignore[arg-type]
        if effect.outcome == "failed":
            raise TimeoutError(f"nothing came through gate {wait['on']} in time")
        try:
            return gate_payload(self._flow.gate(wait["on"]), effect.output)
        except ValueError as problem:
            run.fail(diverge.unfit(run, effect, problem))
            raise Stop from None


def gate_payload(codec: Codec, raw: bytes) -> Any:
    """The payload of a gate's event as its type. An event's payload is an object: another value stands in "value"."""
    return codec.load_raw(raw) if raw else None


def wait_event(run: Run, effect: Effect, wait: dict[str, Any]) -> Any:
    """The event of a wait as today's code says it: the recorded one where nothing is different."""
    raw = run.recorder.scrubbed(encode(wait))
    if bytes(effect.start.raw) == raw:
        return effect.start
    recorded = effect.start.payload
    today = msgspec.json.decode(raw)
    same = {name: value for name, value in recorded.items() if name in today or value is not None}
    return effect.start if same == today else msgspec.structs.replace(effect.start, raw=msgspec.Raw(raw))


class Context(_Base):
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
        await run.turn(effect)
        return self._came(effect, wait)


class SyncContext(_Base):
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
