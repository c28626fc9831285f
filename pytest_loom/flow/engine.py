"""Running a flow's code under a Run: on a loop of its own if it is async, directly if it is not, until it ends.

The async forms run the flow in a thread, and the bodies of its effects on the loop of whoever awaits: so one engine
serves both, and what a fixture opened on the caller's loop can be used by steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import msgspec

from pytest_loom.errors import LoomError, RecordingError
from pytest_loom.flow.asking import wait_event
from pytest_loom.flow.branches import Branch, carried, here, task_factory
from pytest_loom.flow.context import context_for
from pytest_loom.flow.failures import error_payload
from pytest_loom.flow.imports import on_import
from pytest_loom.flow.loop import FlowLoop
from pytest_loom.flow.named import itself
from pytest_loom.flow.run import Run
from pytest_loom.flow.turns import Stop
from pytest_loom.flow.values import encode
from pytest_loom.fold import branch_order

T = TypeVar("T")

SEAMS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "langchain_core": "langchain",
    "pydantic_ai": "pydantic_ai",
    "agents": "openai_agents",
}
"""Packages whose model clients are recorded at their own seam, and the module of ``flow/seams`` that knows how."""

_seam_lock = threading.RLock()
_seam_users: dict[str, int] = {}
_seam_undo: dict[str, Callable[[], None]] = {}
MAX_TEARDOWN = 20
THREADS_LEFT = 5.0
"""Seconds that a run waits at its end for a thread that its code started and left."""


@contextmanager
def patched(effects: Sequence[str] = ()) -> Iterator[None]:
    """What a run needs of the rest of the process: threads carried, named functions and model clients recorded."""
    with ExitStack() as stack:
        stack.enter_context(carried())
        used: list[str] = []
        stack.callback(_leave_seams, used)

        def enter(package: str) -> Callable[[Any], None]:
            def action(_: Any) -> None:
                _enter_seam(package)
                used.append(package)

            return action

        stack.enter_context(on_import({package: enter(package) for package in SEAMS}))
        if effects:
            from pytest_loom.flow.named import named_effects

            stack.enter_context(named_effects(effects))
        yield


def _enter_seam(package: str) -> None:
    import importlib

    with _seam_lock:
        if not _seam_users.get(package):
            _seam_undo[package] = importlib.import_module(f"pytest_loom.flow.seams.{SEAMS[package]}").install()
        _seam_users[package] = _seam_users.get(package, 0) + 1


def _leave_seams(packages: list[str]) -> None:
    with _seam_lock:
        for package in packages:
            _seam_users[package] -= 1
            if not _seam_users[package]:
                _seam_undo.pop(package)()


def execute(run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Run the flow's code until it ends or goes no further, and record how; gives the last event's type, or "".

    Raises the run's error, if it has one, and what is no ordinary exception (KeyboardInterrupt, …).
    """
    run_code = _execute_async if run.flow.is_async else _execute_sync
    try:
        outcome = run_code(run, args, kwargs)
    finally:
        run.untrace()
    return _finish(run, *outcome)


Outcome = tuple[bool, Any, BaseException | None]
"""Whether the code ended by itself, what it returned, and what it raised."""


def _arguments(run: Run, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args if run.flow.plain else (context_for(run, run.flow), *args)


def _held(code: Callable[[], Any]) -> Generator[tuple[Any, BaseException | None], None, None]:
    """What code gives or raises, out of a generator: which exception it was handling when it ended goes with that.

    Code that is ended in the middle of its own handlers would otherwise leave its exception behind, as the context of
    all that the thread raises later.
    """
    try:
        value = code()
    except BaseException as problem:
        yield None, problem
    else:
        yield value, None


def _execute_sync(run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    token = here.set(Branch(run, (None, None)))
    held = _held(lambda: itself(run.flow.fn)(*_arguments(run, args), **kwargs))
    try:
        value, problem = next(held)
        outcome: Outcome = (not isinstance(problem, Stop), value, problem)
    finally:
        held.close()
        here.reset(token)
    for thread in run.started:
        thread.join()
    if run.parked or run.at_frontier:  # whatever its code made of it
        outcome = (False, None, None) if outcome[2] is None or isinstance(outcome[2], Exception | Stop) else outcome
    if outcome[0]:
        for stream in run.streams:
            stream.close()
    return outcome


def _execute_async(run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise LoomError(
            "this form runs an event loop of its own, and one is running here already",
            hint="In async code await the other form: arecord, areplay, aresume.",
        )
    loop = FlowLoop(run.idle)
    run.loop = loop
    try:
        return loop.run_until_complete(_main(run, loop, args, kwargs))
    finally:
        run.loop = None
        with contextlib.suppress(RuntimeError):
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _main(run: Run, loop: FlowLoop, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    run.concluded = loop.create_future()
    context = contextvars.copy_context()
    context.run(here.set, Branch(run, (None, None)))
    made = context.run(lambda: itself(run.flow.fn)(*_arguments(run, args), **kwargs))
    task: asyncio.Task[Any] = asyncio.Task(made, loop=loop, context=context)
    run.tasks.add(task)
    run.root = task
    loop.set_task_factory(task_factory)
    while True:
        await asyncio.wait({task, run.concluded}, return_when=asyncio.FIRST_COMPLETED)
        if task.done() or run.error is not None or not run.cancels_next():
            break
        run.concluded = loop.create_future()
        task.cancel()
    ended = task.done() and run.error is None
    if ended and not task.cancelled() and isinstance(task.exception(), Stop):
        ended = False
    if ended:
        for stream in run.streams:
            with contextlib.suppress(Exception):
                await stream.aclose() if hasattr(stream, "aclose") else stream.close()
    else:
        run.stopping = True
    await _tear_down(run)
    if not ended:
        return (False, None, None)
    try:
        problem = task.exception()
    except asyncio.CancelledError as cancelled:
        return (True, None, cancelled)
    return (True, None, problem) if problem is not None else (True, task.result(), None)


async def _tear_down(run: Run) -> None:
    """End every task of the run that has not ended: parked branches, and what their code left behind."""
    for _ in range(MAX_TEARDOWN):
        left = [task for task in run.tasks if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        left = [task for task in left if not task.done()]
        if left and run.live:
            await asyncio.wait(left, timeout=1)
    for thread in run.started:  # what outlives its run would do so beyond the guard
        thread.join(THREADS_LEFT)
    for task in run.tasks:
        if task.done() and not task.cancelled():
            task.exception()  # seen: asyncio need not warn of it


def _finish(run: Run, ended: bool, value: Any, problem: BaseException | None) -> str:
    recorder = run.recorder
    if run.error is not None:
        raise run.error
    if problem is not None and not isinstance(problem, (Exception, asyncio.CancelledError, Stop)):
        if not _only_stops(problem):
            raise problem
        ended = False
    if not ended:
        for error in run.unrecorded.values():
            raise error
        _suspend(run)
        return ""
    place = (None, None)
    if problem is None:
        try:
            event = ("EXECUTION_COMPLETED", {"output": run.flow.output_data(value)}, place)
        except RecordingError as error:
            error.execution_id = recorder.execution_id
            raise
    elif isinstance(problem, asyncio.CancelledError):
        event = ("EXECUTION_CANCELLED", {"reason": str(problem.args[0]) if problem.args else "cancelled"}, place)
    else:
        run.raised = problem
        event = ("EXECUTION_FAILED", {"error": error_payload(problem)}, place)
    recorded = run.history.log.events[-1] if run.replaying and run.history is not None else None
    if recorded is not None and recorded.event_type == event[0]:
        said = recorder.scrubbed(encode(event[1]))
        if event[0] == "EXECUTION_CANCELLED" or bytes(recorded.raw) == said or _same(recorded.raw, said):
            recorder.events.append(recorded)
            return event[0]
    recorder.emit(event)
    return event[0]


def _same(one: Any, other: bytes) -> bool:
    """Whether two texts say the same, whatever the order of their keys."""
    sort = msgspec.json.Encoder(order="sorted").encode
    return sort(msgspec.json.decode(one)) == sort(msgspec.json.decode(other))


def _only_stops(problem: BaseException) -> bool:
    """Whether an exception (or a group of them) only says that the run goes no further."""
    if isinstance(problem, BaseExceptionGroup):
        return problem.split(lambda part: isinstance(part, (Stop, asyncio.CancelledError)))[1] is None
    return isinstance(problem, Stop)


def _suspend(run: Run) -> None:
    """Every branch has come to a gate: say so, branch by branch."""
    recorder = run.recorder
    waits = sorted(run.parked, key=lambda wait: (wait[0].place[0] or "", branch_order(wait[0].place[1]), wait[1]["on"]))
    news: list[Any] = []
    for branch, wait, effect in waits:
        if effect is None:
            news.append(("EXECUTION_SUSPENDED", wait, branch.place))
        elif run.replaying:
            recorder.events.append(wait_event(run, effect, wait))
            recorder.events.extend(effect.between or ())
    if news:
        recorder.emit(*news)


async def in_thread(work: Callable[[], T], run_of: Callable[[], Run | None]) -> T:
    """``work()`` in a thread of its own, with this context; cancelling this cancels the flow, and waits for its end."""
    loop = asyncio.get_running_loop()
    done: Future[T] = Future()
    context = contextvars.copy_context()

    def body() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as problem:
            done.set_exception(problem)

    thread = threading.Thread(target=body, name="pytest-loom flow", daemon=True)
    thread.start()
    waiter = asyncio.wrap_future(done, loop=loop)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        run = run_of()
        if run is not None:
            run.cancel()
        with contextlib.suppress(BaseException):
            await waiter
        raise
