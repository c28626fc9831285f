"""One effect: answered from the log where it was recorded, else run live and recorded. In a sync and an async form."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pytest_loom.errors import ApprovalError, FlowError, RecordingError
from pytest_loom.evals.values import short
from pytest_loom.flow import diverge
from pytest_loom.flow.approvals import unshown_call
from pytest_loom.flow.branches import Branch, here
from pytest_loom.flow.failures import CANCELLED, error_payload, revived
from pytest_loom.flow.history import Effect, EffectKind
from pytest_loom.flow.run import FIELD, Run
from pytest_loom.flow.turns import Parked, Stop
from pytest_loom.flow.values import encode

Payload = dict[str, Any]


@dataclass(frozen=True)
class StepInfo:
    """What a step's body may want to know of itself.

    ``idempotency_key`` is the same for every attempt, also after a crash: give it to whatever must happen once.
    ``attempt`` counts from 1.
    """

    key: str
    attempt: int
    idempotency_key: str


step_info: contextvars.ContextVar[StepInfo | None] = contextvars.ContextVar("pytest_loom_step", default=None)


def current_step() -> StepInfo | None:
    """The step or tool call whose body runs now, or None outside of one."""
    return step_info.get()


@dataclass
class Asked:
    """What code asks for: an effect by kind and name, with how its request and answer are said in JSON."""

    kind: EffectKind
    name: str
    request: bytes
    load: Callable[[bytes], Any]
    dump: Callable[[Any], Any]
    again: Callable[[], bytes] | None = None
    raises: Callable[[dict[str, Any]], BaseException] | None = None
    error_data: Callable[[Exception], Any] | None = None
    usage: Callable[[Any], Any] | None = None
    retries: int = 0
    backoff: float = 0
    facts: Payload = field(default_factory=dict)

    @property
    def canonical(self) -> bytes:
        """The request as it is written into the log."""
        return self.again() if self.again is not None else self.request


async def awaited(live: Callable[[], Any]) -> Any:
    """What ``live()`` gives; where that is awaitable, what it comes to."""
    value = live()
    return await value if inspect.isawaitable(value) else value


class Host:
    """Where the bodies of effects run: where the flow does, or on the loop of whoever awaits the run."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        self._runners: dict[int, asyncio.Runner] = {}

    async def acall(self, live: Callable[[], Any]) -> Any:
        """Run a body from async flow code."""
        if self.loop is None:
            return await awaited(live)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(awaited(live), self.loop))

    def call(self, live: Callable[[], Any]) -> Any:
        """Run a body from sync flow code."""
        if self.loop is not None:
            return asyncio.run_coroutine_threadsafe(awaited(live), self.loop).result()
        value = live()
        if not inspect.isawaitable(value):
            return value
        runner = self._runners.get(threading.get_ident())
        if runner is None:
            runner = self._runners[threading.get_ident()] = asyncio.Runner()
        return runner.run(awaited(lambda: value))

    def close(self) -> None:
        """Close the loops that async bodies of a sync flow ran on."""
        runners, self._runners = self._runners, {}
        for runner in runners.values():
            with contextlib.suppress(RuntimeError):
                runner.close()


@contextmanager
def away(run: Run, info: StepInfo) -> Iterator[None]:
    """The live body of an effect: what it does is its own business."""
    token, told = here.set(None), step_info.set(info)
    run.live += 1
    try:
        yield
    finally:
        run.live -= 1
        step_info.reset(told)
        here.reset(token)


# From the log -------------------------------------------------------------------------------------------------------


async def aanswer(branch: Branch, effect: Effect, asked: Asked) -> Any:
    """The recorded answer, when its turn comes. Raises what the recorded effect raised."""
    run = branch.run
    replay_start(run, branch, effect, asked)
    if was_cancelled(effect):
        try:
            await cancelled_here(run)
        finally:
            run.gave(effect)
            replay_end(run, effect)
    await run.turn(effect)
    return answered(run, effect, asked)


def answer(branch: Branch, effect: Effect, asked: Asked) -> Any:
    """The recorded answer, at once."""
    run = branch.run
    replay_start(run, branch, effect, asked)
    run.thread_turn(branch, effect)
    return answered(run, effect, asked)


def answered(run: Run, effect: Effect, asked: Asked) -> Any:
    """What an effect that was asked for gives."""
    replay_end(run, effect)
    if effect.between is not None and effect.kind == "step":
        tries = sum(event.event_type == "STEP_FAILED" for event in effect.between) + 1
        if tries > asked.retries + 1:
            run.fail(diverge.retries(run, effect, tries, asked.retries + 1))
            raise Stop
    if effect.outcome == "completed":
        try:
            return asked.load(effect.output) if effect.output else None
        except (ValueError, TypeError, FlowError) as problem:
            run.fail(diverge.unfit(run, effect, problem))
            raise Stop from None
    raise raised(run, effect, asked)


def raised(run: Run, effect: Effect, asked: Asked) -> BaseException:
    """The exception that a failed effect ended with."""
    facts = msgspec.json.decode(effect.output) if effect.output else {}
    if asked.raises is not None:
        return asked.raises(facts if isinstance(facts, dict) else {})
    return revived(facts, run.flow.fn, run.key_of(effect))


def was_cancelled(effect: Effect) -> bool:
    """Whether the recorded run itself cancelled an effect: a timeout, a failed sibling."""
    if effect.outcome != "failed" or not effect.output:
        return False
    facts = msgspec.json.decode(effect.output)
    return isinstance(facts, dict) and facts.get("type") == CANCELLED


async def cancelled_here(run: Run) -> None:
    """The recorded run cancelled this effect: wait for today's code to do so too."""
    assert run.loop is not None
    run.cancels_expected += 1
    try:
        await run.loop.create_future()
    finally:
        run.cancels_expected -= 1


def replay_start(run: Run, branch: Branch, effect: Effect, asked: Asked) -> None:
    """In replay, the candidate log says that the effect began, with what today's code asks."""
    if not run.replaying:
        return
    if effect.input == asked.request or run.before_migration(effect):
        run.recorder.events.append(effect.start)
        return
    canonical = run.recorder.scrubbed(asked.canonical, FIELD.get(effect.kind, ""))
    if effect.input == canonical or effect.kind not in FIELD:
        run.recorder.events.append(effect.start)
        return
    payload = effect.start.payload
    payload[FIELD[effect.kind]] = msgspec.Raw(canonical)
    run.recorder.events.append(msgspec.structs.replace(effect.start, raw=msgspec.Raw(encode(payload))))


def replay_end(run: Run, effect: Effect) -> None:
    """In replay, the candidate log says how the effect ended, as it was recorded."""
    if run.replaying:
        if effect.between is not None:
            run.recorder.events.extend(effect.between)
        if effect.end is not None:
            run.recorder.events.append(effect.end)


# Live ---------------------------------------------------------------------------------------------------------------


class Live:
    """The events of one live effect."""

    def __init__(self, branch: Branch, asked: Asked, effect: Effect | None, *, streams: bool = False) -> None:
        self.run = branch.run
        self.branch = branch
        self.asked = asked
        self.key = branch.next_key(asked.name)
        namespace, path = branch.place
        self.call_id = "/".join(part for part in (namespace, path, self.key) if part)
        self.idempotency_key = f"{self.run.recorder.execution_id}/{self.call_id}"
        self.named: Payload = {"stepId": asked.name}
        if streams:  # two may be read in turn by one branch
            self.named["callId"] = self.call_id
        self.attempt = 0
        if effect is not None:  # begun before a crash
            self.attempt = sum(event.event_type == effect.start.event_type for event in effect.events)

    def begin(self) -> StepInfo:
        """One more attempt."""
        self.attempt += 1
        asked = self.asked
        said = msgspec.Raw(asked.canonical)
        if asked.facts.get("approval"):
            self.check_shown()
        payload: Payload
        if asked.kind == "step":
            payload = {**self.named, **({"input": said} if said else {}), "attempt": self.attempt}
            self.emit("STEP_STARTED", {**payload, "idempotencyKey": self.idempotency_key})
        elif asked.kind == "tool":
            payload = {"callId": self.call_id, "name": asked.name, "args": said}
            self.emit("TOOL_REQUESTED", {**payload, "idempotencyKey": self.idempotency_key, **asked.facts})
        else:
            self.emit("MODEL_REQUESTED", {"callId": self.call_id, "model": asked.name, "request": said, **asked.facts})
        return StepInfo(self.key, self.attempt, self.idempotency_key)

    def check_shown(self) -> None:
        """A call of a tool that asks for approval has to be one that somebody was shown, where any was shown."""
        asked, recorder = self.asked, self.run.recorder
        args = recorder.scrubbed(asked.canonical, FIELD[asked.kind])
        shown = unshown_call(recorder.events, asked.name, msgspec.json.decode(args))
        if shown is not None:
            self.run.fail(
                ApprovalError(
                    f"tool {asked.name} is called with what nobody was shown\n    shown: {short(shown, 200)}"
                    f"\n    now: {short(msgspec.json.decode(args), 200)}",
                    execution_id=recorder.execution_id,
                    step=self.key,
                    hint="Nothing was run. Call it as it was shown in pending, or ask again for the call as it is.",
                )
            )
            raise Stop

    def done(self, value: Any) -> Any:
        """The effect is over; gives the value as replay will give it."""
        asked = self.asked
        raw = self.dumped(value)
        if asked.kind == "step":
            self.emit("STEP_COMPLETED", {**self.named, "output": msgspec.Raw(raw)})
        elif asked.kind == "tool":
            self.emit("TOOL_COMPLETED", {"callId": self.call_id, "output": msgspec.Raw(raw)})
        else:
            usage = asked.usage(value) if asked.usage is not None else None
            also = {"usage": usage} if usage is not None else {}
            self.emit("MODEL_COMPLETED", {"callId": self.call_id, "response": msgspec.Raw(raw), **also})
        return asked.load(raw)

    def dumped(self, value: Any) -> bytes:
        """A value as JSON text. Raises Stop, with the run failed, where the log could not give it back."""
        try:
            return encode(self.asked.dump(value))
        except (RecordingError, FlowError) as error:
            error.execution_id, error.step = self.run.recorder.execution_id, self.key
            self.run.fail(error)
            raise Stop from None

    def piece(self, value: Any) -> None:
        """A stream gave a piece."""
        if self.asked.kind == "step":
            self.emit("STEP_PROGRESS", {**self.named, "chunk": msgspec.Raw(self.dumped(value))})

    def failed(self, problem: BaseException) -> float | None:
        """The attempt failed; gives the seconds to wait before the next one, or None where there is none."""
        asked = self.asked
        error = error_payload(problem)
        if asked.error_data is not None and isinstance(problem, Exception):
            data = asked.error_data(problem)
            error = {**error, "data": data} if data is not None else error
        again = isinstance(problem, Exception) and self.attempt <= asked.retries
        if asked.kind == "step":
            facts = {**self.named, "error": error, "attempt": self.attempt, "willRetry": again}
            self.emit("STEP_FAILED", facts)
        else:
            self.emit(f"{asked.kind.upper()}_FAILED", {"callId": self.call_id, "error": error})
        return asked.backoff * 2.0 ** (self.attempt - 1) if again else None

    def emit(self, event_type: str, payload: Payload) -> None:
        """Record one of its events."""
        if self.run.stopping:
            raise Stop
        self.run.recorder.emit((event_type, payload, self.branch.place))


def checked(problem: BaseException, run: Run) -> bool:
    """Whether an exception out of a live body belongs to the flow, rather than to pytest-loom itself."""
    if isinstance(problem, (Stop, KeyboardInterrupt, SystemExit, GeneratorExit)):
        return False
    if isinstance(problem, RecordingError):
        run.fail(problem)
        return False
    return True


async def aperform(branch: Branch, asked: Asked, live: Callable[[], Any]) -> Any:
    """One effect of async code: from the log, else by awaiting or calling ``live`` and recording what comes."""
    run = branch.run
    effect = run.take(branch, asked.kind, asked.name, asked.request, asked.again)
    if effect is not None and effect.outcome != "open":
        if run.mode == "resume":
            branch.next_key(asked.name)
        return await aanswer(branch, effect, asked)
    if run.replaying:
        if effect is not None:
            replay_start(run, branch, effect, asked)
            replay_end(run, effect)
        await run.park(branch, None, effect)
    going = Live(branch, asked, effect)
    while True:
        info = going.begin()
        try:
            with away(run, info):
                value = await run.host.acall(live)
        except BaseException as problem:
            if not checked(problem, run):
                raise
            wait = going.failed(problem)
            if wait is None:
                raise
            if wait:
                with away(run, info):
                    await asyncio.sleep(wait)
        else:
            return going.done(value)


def perform(branch: Branch, asked: Asked, live: Callable[[], Any]) -> Any:
    """One effect of sync code: from the log, else by calling ``live`` and recording what comes."""
    run = branch.run
    effect = run.take(branch, asked.kind, asked.name, asked.request, asked.again)
    if effect is not None and effect.outcome != "open":
        if run.mode == "resume":
            branch.next_key(asked.name)
        return answer(branch, effect, asked)
    if run.replaying:
        if effect is not None:
            replay_start(run, branch, effect, asked)
            replay_end(run, effect)
        run.note_wait(branch, None, effect)
        raise Parked
    going = Live(branch, asked, effect)
    while True:
        info = going.begin()
        try:
            with away(run, info):
                value = run.host.call(live)
        except BaseException as problem:
            if not checked(problem, run):
                raise
            wait = going.failed(problem)
            if wait is None:
                raise
            if wait:
                time.sleep(wait)
        else:
            return going.done(value)


async def aenter(branch: Branch, asked: Asked, effect: Effect | None, body: Callable[[], Awaitable[Any]]) -> Any:
    """Run the body of a step that runs steps, live: the body stays the run's own code."""
    going = Live(branch, asked, effect)
    told = step_info.set(going.begin())
    try:
        value = await body()
    except BaseException as problem:
        if checked(problem, branch.run):
            going.failed(problem)
        raise
    finally:
        step_info.reset(told)
    return going.done(value)


def enter(branch: Branch, asked: Asked, effect: Effect | None, body: Callable[[], Any]) -> Any:
    """The same for sync code."""
    going = Live(branch, asked, effect)
    told = step_info.set(going.begin())
    try:
        value = body()
    except BaseException as problem:
        if checked(problem, branch.run):
            going.failed(problem)
        raise
    finally:
        step_info.reset(told)
    return going.done(value)
