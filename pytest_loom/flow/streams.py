"""Streams as effects: what they give piece by piece is recorded and replayed in order. In a sync and an async form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec

from pytest_loom.errors import FlowError
from pytest_loom.flow import diverge
from pytest_loom.flow.branches import Branch
from pytest_loom.flow.failures import error_payload
from pytest_loom.flow.history import Effect
from pytest_loom.flow.perform import (
    Asked,
    Live,
    away,
    cancelled_here,
    checked,
    raised,
    replay_end,
    replay_start,
    was_cancelled,
)
from pytest_loom.flow.run import Run
from pytest_loom.flow.turns import Parked, Stop
from pytest_loom.flow.values import encode
from pytest_loom.log.event import UNDECODABLE, Event

_ROUNDS = 25
"""How often the loop goes round before code that asks beyond the end of a stream is not about to be cancelled."""


def pieces_of(effect: Effect, asked: Asked) -> list[tuple[Event | None, bytes]]:
    """The recorded pieces of a stream as JSON text, each with the event that brought it, where there is one."""
    if asked.kind == "step":
        read = msgspec.json.Decoder(_Chunk).decode
        events = [event for event in effect.between or () if event.event_type == "STEP_PROGRESS"]
        last = max((i for i, e in enumerate(effect.between or ()) if e.event_type == "STEP_STARTED"), default=-1)
        if last >= 0:  # only the pieces of the last attempt count
            events = [event for event in (effect.between or [])[last:] if event.event_type == "STEP_PROGRESS"]
        return [(event, bytes(read(event.raw).chunk)) for event in events]
    if not effect.output or effect.outcome != "completed":
        data = msgspec.json.decode(effect.output) if effect.output else {}
        return [(None, encode(piece)) for piece in data.get("stream", [])] if isinstance(data, dict) else []
    return [(None, bytes(piece)) for piece in msgspec.json.decode(effect.output, type=_Stream).stream]


def closed_early(effect: Effect, asked: Asked) -> bool:
    """Whether the recorded run wanted no more of a stream before that was over."""
    text = effect.end.raw if asked.kind == "step" and effect.end is not None else effect.output
    if not text or bytes(text).lstrip()[:1] != b"{":
        return False
    return msgspec.json.decode(text, type=_Closed).closed is True


class _Chunk(msgspec.Struct):
    chunk: msgspec.Raw


class _Stream(msgspec.Struct):
    stream: list[msgspec.Raw] = []


class _Closed(msgspec.Struct):
    closed: Any = None


class _Pieces:
    """The pieces of a live stream as they come, recorded when it ends, fails or is closed early.

    Where it is closed early, ``"closed": true`` says so: there may have been more.
    """

    def __init__(self, going: Live) -> None:
        self.going = going
        self.info = going.begin()
        self.seen: list[Any] = []
        self.is_over = False
        self.closed: dict[str, bool] = {}

    def closing(self) -> None:
        """Nobody wants more of it; what its source does about that is recorded as its end."""
        self.closed = {"closed": True}

    def piece(self, value: Any) -> Any:
        raw = self.going.dumped(value)
        self.going.piece(value)
        self.seen.append(msgspec.Raw(raw))
        return self.going.asked.load(raw)

    def end(self) -> None:
        """The stream is over."""
        if self.is_over:
            return
        self.is_over = True
        going = self.going
        if going.run.stopping:  # nothing is recorded any more, and a finalizer may ask
            return
        if going.asked.kind == "step":
            going.emit("STEP_COMPLETED", {**going.named, "output": self.seen, **self.closed})
        else:
            kind = going.asked.kind
            field_name = "output" if kind == "tool" else "response"
            said = {"callId": going.call_id, field_name: {"stream": self.seen, **self.closed}}
            going.emit(f"{kind.upper()}_COMPLETED", said)

    def fail(self, problem: BaseException) -> None:
        if self.is_over or not checked(problem, self.going.run):
            return
        self.is_over = True
        going = self.going
        error = error_payload(problem)
        if going.asked.error_data is not None and isinstance(problem, Exception):
            data = going.asked.error_data(problem)
            error = {**error, "data": data} if data is not None else error
        if going.asked.kind == "step":
            facts = {**going.named, "error": error, "attempt": going.attempt, "willRetry": False, **self.closed}
            going.emit("STEP_FAILED", facts)
        else:
            facts = {"callId": going.call_id, "error": {**error, "stream": self.seen, **self.closed}}
            going.emit(f"{going.asked.kind.upper()}_FAILED", facts)


def start_stream(branch: Branch, asked: Asked) -> tuple[Effect | None, _Pieces | None]:
    """Match or record the request of a stream: gives the recorded effect, or where to record a live one."""
    run = branch.run
    effect = run.take(branch, asked.kind, asked.name, asked.request, asked.again)
    if effect is not None and effect.outcome != "open":
        if run.mode == "resume":
            branch.next_key(asked.name)
        replay_start(run, branch, effect, asked)
        return effect, None
    if run.replaying:
        if effect is not None:
            replay_start(run, branch, effect, asked)
            replay_end(run, effect)
        run.note_wait(branch, None, effect)
        return None, None
    return None, _Pieces(Live(branch, asked, effect, streams=True))


class _Replayed(Iterator[Any]):
    """A recorded stream: its pieces one by one, and then how it ended; the candidate's events follow it."""

    def __init__(self, run: Run, effect: Effect, asked: Asked) -> None:
        self.run = run
        self.effect = effect
        self.asked = asked
        try:
            self.left = pieces_of(effect, asked)[::-1]
            self.closed = closed_early(effect, asked)
        except (TypeError, *UNDECODABLE) as problem:
            run.fail((effect.end or effect.start).error(f"the pieces of a stream cannot be read: {problem}"))
            raise Stop from None
        self.count = len(self.left)
        self.events = effect.events[1:][::-1]
        self.is_over = False

    async def turn(self) -> None:
        """Wait until what comes next is next."""
        if self.left:
            event = self.left[-1][0]
            if event is not None and self.run.concurrent:
                await self.run.reach(event.sequence)
                self.run.wake()
        elif not self.is_over:
            if was_cancelled(self.effect):
                try:
                    await cancelled_here(self.run)
                finally:
                    self.end()
            await self.run.turn(self.effect)
            for _ in range(_ROUNDS if self.closed and self.run.concurrent else 0):
                await asyncio.sleep(0)  # a sibling's failure, say, ended the recorded reader here

    def __next__(self) -> Any:
        if self.is_over:
            raise StopIteration
        if not self.left:
            if self.closed:
                self.run.fail(diverge.read_on(self.run, self.effect, self.count))
                raise Stop
            self.end()
            if self.effect.outcome == "failed":
                raise raised(self.run, self.effect, self.asked)
            raise StopIteration
        event, raw = self.left.pop()
        while event is not None and self.events:
            told = self.events.pop()
            self.tell(told)
            if told is event:
                break
        try:
            return self.asked.load(raw)
        except (ValueError, TypeError, FlowError) as problem:
            self.run.fail(diverge.unfit(self.run, self.effect, problem))
            raise Stop from None

    def tell(self, event: Event) -> None:
        """The candidate log has this event too."""
        if self.run.replaying:
            self.run.recorder.events.append(event)

    def close(self, cancelled: bool = False) -> None:
        """Nobody wants more of it; ``cancelled``: since the task that read it was. The recorded run has to agree."""
        if self.is_over:
            return
        self.end()
        run, effect = self.run, self.effect
        if run.stopping or run.cut_short:
            return
        failed = effect.outcome == "failed" and not was_cancelled(effect)
        if self.left or (failed and not self.closed):
            if run.replaying and not (self.closed and cancelled):
                run.fail(diverge.unread(run, effect, self.count - len(self.left), self.count))
        elif failed:  # by being closed
            raise raised(run, effect, self.asked)

    def end(self) -> None:
        """It is over."""
        if not self.is_over:
            self.is_over = True
            self.run.gave(self.effect)
            while self.events:
                self.tell(self.events.pop())


class SyncStream(Iterator[Any]):
    """A recorded or live stream of sync code. Closing it early is recorded as its end."""

    def __init__(self, branch: Branch, asked: Asked, live: Callable[[], Any]) -> None:
        self._run = branch.run
        self._run.streams.append(self)
        effect, self._pieces = start_stream(branch, asked)
        self._source: Iterator[Any]
        if effect is not None:
            self._source = _Replayed(self._run, effect, asked)
        elif self._pieces is None:
            raise Parked
        else:
            self._source = iter(self._ask(live))

    def _ask(self, call: Callable[[], Any]) -> Any:
        assert self._pieces is not None
        try:
            with away(self._run, self._pieces.info):
                return call()
        except StopIteration:
            raise
        except BaseException as problem:
            self._pieces.fail(problem)
            raise

    def __next__(self) -> Any:
        if self._pieces is None:
            return next(self._source)
        try:
            value = self._ask(lambda: next(self._source))
        except StopIteration:
            self._pieces.end()
            raise
        return self._pieces.piece(value)

    def close(self) -> None:
        """Want no more of it."""
        if isinstance(self._source, _Replayed):
            self._source.close()
        close = getattr(self._source, "close", None)
        if self._pieces is not None and not self._pieces.is_over:
            self._pieces.closing()
            if close is not None:
                self._ask(close)
            self._pieces.end()


class AsyncStream(AsyncIterator[Any]):
    """A recorded or live stream of async code. Closing it early is recorded as its end."""

    def __init__(self, branch: Branch, asked: Asked, live: Callable[[], Any]) -> None:
        self._branch = branch
        self._run = branch.run
        self._run.streams.append(self)
        self._asked = asked
        self._live = live
        self._pieces: _Pieces | None = None
        self._source: Any = None
        self._is_async = False
        self._task: asyncio.Task[Any] | None = None

    async def begin(self) -> AsyncStream:
        """Match or record the request."""
        if self._source is not None:
            return self
        effect, self._pieces = start_stream(self._branch, self._asked)
        self._task = asyncio.current_task()
        if effect is not None:
            self._source = _Replayed(self._run, effect, self._asked)
        elif self._pieces is None:
            await self._forever()
        else:
            source = await self._ask(self._live)
            self._is_async = hasattr(source, "__anext__") or hasattr(source, "__aiter__")
            self._source = source.__aiter__() if self._is_async else iter(source)
        return self

    async def _forever(self) -> None:
        assert self._run.loop is not None
        await self._run.loop.create_future()

    async def _ask(self, call: Callable[[], Any]) -> Any:
        assert self._pieces is not None
        try:
            with away(self._run, self._pieces.info):
                return await self._run.host.acall(call)
        except (StopIteration, StopAsyncIteration):
            raise
        except BaseException as problem:
            self._pieces.fail(problem)
            raise

    async def __anext__(self) -> Any:
        if self._source is None:
            await self.begin()
        if self._pieces is None:
            await self._source.turn()
            try:
                return next(self._source)
            except StopIteration:
                raise StopAsyncIteration from None
        done = object()
        value = await self._ask(lambda: self._next(done))
        if value is done:
            self._pieces.end()
            raise StopAsyncIteration
        return self._pieces.piece(value)

    async def _next(self, done: object) -> Any:
        if not self._is_async:
            return next(self._source, done)
        try:
            return await self._source.__anext__()
        except StopAsyncIteration:
            return done

    async def aclose(self) -> None:
        """Want no more of it."""
        if isinstance(self._source, _Replayed):
            self._source.close(self._task is not None and self._task.cancelling() > 0)
        if self._pieces is not None and not self._pieces.is_over and self._source is not None:
            self._pieces.closing()
            close = getattr(self._source, "aclose", None) or getattr(self._source, "close", None)
            if close is not None:
                await self._ask(close)
            self._pieces.end()

    def __await__(self) -> Any:
        """All pieces as a list."""
        return self._all().__await__()

    async def _all(self) -> list[Any]:
        return [piece async for piece in self]
