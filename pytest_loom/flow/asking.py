"""What the sync and the async Context have in common: how requests are said, decisions, snapshots, gates."""

from __future__ import annotations

import inspect
import random as _random
import uuid as _uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar

import msgspec

from pytest_loom.errors import FlowError, RecordingError, StateMigrationError, printable
from pytest_loom.flow import diverge
from pytest_loom.flow.approvals import without_tool
from pytest_loom.flow.branches import Branch, here
from pytest_loom.flow.carried import todays_state
from pytest_loom.flow.contract import arguments_schema, shown_tool
from pytest_loom.flow.definition import Flow, Step, Tool, resolved_hints
from pytest_loom.flow.history import Effect
from pytest_loom.flow.perform import Asked
from pytest_loom.flow.quick import UNSAID, said
from pytest_loom.flow.run import Run
from pytest_loom.flow.turns import Parked, Stop
from pytest_loom.flow.values import Codec, codec_for, encode, plain
from pytest_loom.log.event import Event

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_UUID = codec_for(_uuid.UUID, "ctx.uuid()")
_NOW = codec_for(datetime, "ctx.now()")
_RANDOM = codec_for(float, "ctx.random()")
_SUSPENSION_KINDS = ("approval", "question", "timer", "event", "breakpoint", "crash")


class ContextBase:
    """What the sync and the async Context have in common."""

    def __init__(self, run: Run, flow: Flow[..., Any]) -> None:
        self._run = run
        self._flow = flow
        self._state: Any = None
        self._saved: Event | None = None

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
            below = run.unasked_below(branch)
            if below is not None:
                run.fail(diverge.before(run, branch, key, below))
                raise Stop
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
        self._state, self._saved = state, None
        payload: dict[str, Any] = {"state": data}
        if self._flow.versions.get("state") is not None:
            payload = {"stateSchemaVersion": self._flow.versions["state"], **payload}
        recorded = run.history.snapshots.get(branch.place, []) if run.history is not None else []
        branch.snapshots += 1
        if branch.snapshots <= len(recorded):
            event = recorded[branch.snapshots - 1]
            same = bytes(event.raw) == run.recorder.scrubbed(encode(payload))
            if same and run.replaying:
                run.recorder.events.append(event)
            elif not same:
                self._saved = event
            if same or not run.replaying:
                return
        run.recorder.emit(("STATE_SNAPSHOT", payload, branch.place))

    @property
    def state(self) -> Any:
        """The state as the run last recorded it with ``snapshot``; None before.

        In a run that goes on it is what was recorded then. Where today's code snapshots something else, that is carried
        to today's version by the registered migrations, and read as an instance of what today's code snapshots.
        """
        if self._saved is None:
            return self._state
        run, event = self._run, self._saved
        payload = event.payload
        try:
            today = self._flow.versions.get("state")
            data = todays_state(payload["state"], payload.get("stateSchemaVersion"), today)
            return codec_for(type(self._state), f"flow {self._flow.id}: the state").load(data)
        except StateMigrationError as error:
            error.path, error.line, error.execution_id = event.path, event.line, self.execution_id
            run.fail(error)
        except ValueError as problem:
            run.fail(diverge.unfit_state(run, event, problem))
        raise Stop

    # Requests ---------------------------------------------------------------------------------------------------

    def _step(self, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked:
        where = f"step {step.id}: the input"

        def canonical() -> bytes:
            return self._said(args, kwargs, where)

        try:
            request = said(args[0]) if len(args) == 1 and not kwargs else canonical()
            if b'"kwargs"' in request:
                request = canonical()
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
        """Arguments as they are recorded: one as itself, several as ``{"args", "kwargs"}``, none as nothing.

        One that looks like several is written like them: no two calls are recorded alike.
        """
        try:
            if len(args) == 1 and not kwargs:
                only = plain(args[0], where)
                return encode({"args": [only], "kwargs": {}} if is_several(only) else only)
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
                wait["pending"] = self._bound(plain(pending, f"gate {event}: pending"))
            except RecordingError as error:
                self._run.fail(error)
                raise Stop from None
        return wait

    def _bound(self, pending: Any) -> Any:
        """What waits, each call of a declared tool with what the tool is like when it is shown."""
        if isinstance(pending, list):
            return [self._bound(item) for item in pending]
        tool = self._flow.tools.get(str(pending.get("name"))) if isinstance(pending, dict) else None
        return pending if tool is None else {**shown_tool(tool), **pending}

    def _gate(self, branch: Branch, wait: dict[str, Any]) -> Effect | None:
        key = wait.get("correlationKey")
        effect = self._run.take(branch, "gate", wait["on"], b"" if key is None else encode(key))
        if effect is None and not self._run.replaying:
            self._check_shown(wait)
        return effect

    def _check_shown(self, wait: dict[str, Any]) -> None:
        """Nobody is to be shown a call that cannot be made."""
        pending = wait.get("pending")
        for item in pending if isinstance(pending, list) else [pending]:
            if not isinstance(item, dict) or not isinstance(item.get("args"), dict):
                continue
            tool = self._flow.tools.get(str(item.get("name")))
            if tool is None:
                continue
            try:
                tool.signature.bind(**item["args"])
            except TypeError as problem:
                raise self._refuse(
                    f"gate {wait['on']} would show a call of tool {tool.id} that cannot be made: {problem}",
                    "Give in pending the arguments that the tool is called with after the answer.",
                ) from None

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


def is_several(data: Any) -> bool:
    """Whether the recorded input of a step is that of a call with other than one argument."""
    return isinstance(data, dict) and data.keys() == {"args", "kwargs"}


def gate_payload(codec: Codec, raw: bytes) -> Any:
    """The payload of a gate's event as its type. An event's payload is an object: another value stands in "value"."""
    return codec.load_raw(raw) if raw else None


def wait_event(run: Run, effect: Effect, wait: dict[str, Any]) -> Any:
    """The event of a wait as today's code says it: the recorded one where nothing is different."""
    raw = run.recorder.scrubbed(encode(wait))
    if bytes(effect.start.raw) == raw:
        return effect.start
    recorded, today = effect.start.payload, msgspec.json.decode(raw)
    shown = recorded.get("pending")
    if shown is not None and without_tool(shown) == without_tool(today.get("pending")):
        today["pending"] = shown
    same = {name: value for name, value in recorded.items() if name in today or value is not None}
    return effect.start if same == today else msgspec.structs.replace(effect.start, raw=msgspec.Raw(raw))
