"""Which run, and which concurrent branch of it, the running code belongs to.

Branches are numbered in the order in which they were created: by asyncio tasks (gather, TaskGroup, create_task),
threads and thread pools. A context variable carries the branch, so code outside the run is not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_loom.flow.history import Effect, Place
    from pytest_loom.flow.run import Run

here: contextvars.ContextVar[Branch | None] = contextvars.ContextVar("pytest_loom_branch", default=None)
"""The branch that the running code is; None outside runs and inside the live body of an effect."""

_WAIT_FOR = asyncio.wait_for.__code__
_lock = threading.RLock()
_runs = 0
_undo: list[Callable[[], None]] = []


class Branch:
    """One line of execution within a run: its place, and how far it has come in what was recorded for that place."""

    __slots__ = ("children", "claimed", "claims", "counts", "effects", "highest", "number", "order", "outer", "parent",
                 "parked", "place", "position", "run", "snapshots", "step", "stops")  # fmt: skip

    def __init__(self, run: Run, place: Place) -> None:
        self.run = run
        self.place = place
        self.effects: list[Effect] = run.recorded(place)
        self.position = 0
        self.snapshots = 0
        self.children = 0
        self.parent: Branch | None = None
        self.number = 0
        self.claims: dict[int, int] = {}
        """Of its concurrent branches that asked for something: their number, and that of the recorded branch."""
        self.claimed: set[int] = set()
        self.order: list[int] = []
        """Those that claimed, in order; ``highest`` is the highest recorded branch that they claimed up to each."""
        self.highest: list[int] = []
        self.counts: dict[str, int] = {}
        self.step = ""
        self.parked = False
        self.outer: Branch | None = None
        self.stops = 0

    def child(self) -> Branch:
        """The next concurrent branch."""
        with _lock:
            self.children += 1
            number = self.children
        self.run.concurrent = True
        branch = Branch(self.run, self.numbered(number))
        branch.parent, branch.number = self, number
        return branch

    def numbered(self, number: int) -> Place:
        """The place of one of its concurrent branches."""
        namespace, path = self.place
        return (namespace, f"{path}/{number}" if path else str(number))

    def settle(self, number: int) -> None:
        """This is the recorded branch of another number."""
        assert self.parent is not None
        self.place = self.parent.numbered(number)
        self.effects = self.run.recorded(self.place)

    def inside(self, key: str) -> Branch:
        """The branch within a sub-flow or a step that runs steps of its own.

        Where that is in a concurrent branch, the name says in which: both number their own branches from 1.
        """
        namespace, path = self.place
        if path:
            key = f"{path.replace('/', '.')}:{key}"
        inner = Branch(self.run, (f"{namespace}/{key}" if namespace else key, path))
        inner.outer = self
        return inner

    def park(self, parked: bool = True) -> None:
        """It goes no further, whatever its code catches: neither does what it is within."""
        branch: Branch | None = self
        while branch is not None:
            branch.parked = parked
            branch = branch.outer

    def next_key(self, name: str) -> str:
        """The key of the next occurrence of an effect in this branch: ``poll``, then ``poll#2``."""
        count = self.counts.get(name, 0) + 1
        self.counts[name] = count
        return name if count == 1 else f"{name}#{count}"


def task_factory(
    loop: asyncio.AbstractEventLoop, coro: Any, context: contextvars.Context | None = None, **options: Any
) -> asyncio.Task[Any]:
    """Make a task that is a branch of its own, where the code that makes it belongs to a run."""
    parent = context.get(here) if context is not None else here.get()
    if parent is None or _in_wait_for():
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context, **options)
        if parent is not None:
            parent.run.tasks.add(task)
        return task
    branch = parent.child()
    context = context if context is not None else contextvars.copy_context()
    context.run(here.set, branch)
    task = asyncio.Task(coro, loop=loop, context=context, **options)
    parent.run.tasks.add(task)
    return task


def _in_wait_for() -> bool:
    """Whether a task is made by ``asyncio.wait_for``: up to Python 3.11 it makes one, later it does not.

    What it waits for goes on in the branch that waits, on either.
    """
    if sys.version_info >= (3, 12):
        return False
    frame: Any = sys._getframe(2)
    for _ in range(4):
        if frame is None:
            return False
        if frame.f_code is _WAIT_FOR:
            return True
        frame = frame.f_back
    return False


@contextmanager
def carried() -> Iterator[None]:
    """While the block runs, threads and thread pools that a run's code starts are branches of that run."""
    global _runs
    with _lock:
        _runs += 1
        if _runs == 1:
            _undo.append(_patch(ThreadPoolExecutor, "submit", _submit))
            _undo.append(_patch(threading.Thread, "start", _start))
            _undo.append(_patch(asyncio, "as_completed", _as_completed))
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if not _runs:
                while _undo:
                    _undo.pop()()


def _as_completed(original: Any, fs: Any, /, **options: Any) -> Any:
    """``asyncio.as_completed`` makes tasks out of a set of coroutines, so in any order; here in the order given."""
    return original([asyncio.ensure_future(each) for each in fs] if here.get() is not None else fs, **options)


def _patch(owner: Any, name: str, wrapper: Callable[..., Any]) -> Callable[[], None]:
    original = owner.__dict__[name]

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(owner, name, method)
    return lambda: setattr(owner, name, original)


def _submit(original: Any, pool: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    parent = here.get()
    if parent is None:
        return original(pool, fn, *args, **kwargs)  # type: ignore[no-any-return]
    run, branch = parent.run, parent.child()
    context = contextvars.copy_context()
    context.run(here.set, branch)
    brought = _brought(fn)
    if brought is not None:  # the function runs in a context that it brings along
        with contextlib.suppress(RuntimeError):  # it runs elsewhere already
            brought.run(here.set, branch)
    given: Future[Any] = Future()  # the caller's: whoever waits for it is told before the thread counts as ended
    given.set_running_or_notify_cancel()  # whether it could still be cancelled would be chance

    def over(done: Future[Any]) -> None:
        problem = CancelledError() if done.cancelled() else done.exception()
        given.set_exception(problem) if problem is not None else given.set_result(done.result())
        run.thread_ended(branch.place[1])

    token = here.set(None)  # a worker thread that the pool starts is nobody's branch
    try:
        run.threads += 1
        run.shuffled = True
        future: Future[Any] = original(pool, context.run, fn, *args, **kwargs)
    except BaseException:
        run.threads -= 1
        raise
    finally:
        here.reset(token)
    future.add_done_callback(over)
    return given


def _brought(fn: Callable[..., Any]) -> contextvars.Context | None:
    """The context that a function brings along: ``partial(copy_context().run, work)``, as asyncio.to_thread does."""
    if not isinstance(fn, functools.partial):
        return None
    owner = getattr(fn.func, "__self__", None)
    return owner if isinstance(owner, contextvars.Context) else None


def _start(original: Any, thread: threading.Thread) -> None:
    parent = here.get()
    if parent is None:
        original(thread)
        return
    run, branch = parent.run, parent.child()
    context = contextvars.copy_context()
    context.run(here.set, branch)
    work = thread.run

    def carried_run() -> None:
        try:
            context.run(work)
        except BaseException as problem:
            if not run.is_stop(problem):
                raise
        finally:
            run.thread_ended(branch.place[1])

    thread.run = carried_run  # type: ignore[method-assign]
    run.threads += 1
    run.shuffled = True
    run.started.append(thread)
    token = here.set(None)
    try:
        original(thread)
    except BaseException:
        run.threads -= 1
        raise
    finally:
        here.reset(token)
