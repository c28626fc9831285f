"""The live-call guard: while a run is replayed, every way out is closed, and each attempt to leave is kept.

One audit hook (``sys.addaudithook``, PEP 578: it cannot be removed, so outside blocks it is one comparison) sees what
Python code does to the world: sockets and name lookups, programs, files, SQLite. What raises no audit event is
wrapped while a block is open: sending over a socket that is connected already (a pool's), ``multiprocessing``,
asyncio's lookups (they happen in a thread), and ``clients.py``'s clients that bypass Python's sockets. Who is judged is
a ContextVar's say, so other threads and tests go on unhindered; a new thread is judged where it was given the run's
context.

Reading files is always allowed, and so are already open files, devices like ``/dev/null``, compiled modules, and the
files of ``logging`` handlers. ``time.sleep`` returns at once in a run: replay never waits for recorded time. The
error may be swallowed, or arrive in an ExceptionGroup (anyio): what counts is ``Guard.calls``.

What cannot be caught:

- C, C++ and Rust code that opens sockets or files itself and is not in ``clients.py`` (DuckDB, Polars, PyArrow, GDBM,
  SQLite's ATTACH), and anything called through ``ctypes`` or ``cffi``.
- Clients in ``clients.py`` that were connected before the block, except grpc and temporalio, whose calls are caught;
  names of C functions and classes that were bound before it: ``from pyodbc import connect``.
- What is received, not asked for, over a connection opened before; TLS that is not Python's ``ssl`` (pyOpenSSL).
- Files, pipes and shared memory opened before the block; ``os.mkfifo``, ``os.mknod``, ``os.memfd_create``, named
  semaphores. ``os.open(relative, flags, dir_fd=...)`` is judged as if relative to the working directory.
- Work handed to somebody else: a thread, process or event loop from before the block that the run only talks to
  through a queue; subinterpreters from before it; code that empties its context (``contextvars.Context().run``).
- A reference to ``time.sleep`` that is held elsewhere than in a module under the name ``sleep`` (a default argument, an
  alias) really waits; so do ``Event.wait``, ``queue.get`` and ``select`` with a timeout.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from pytest_loom.errors import LiveCallError, printable
from pytest_loom.flow import clients, judges
from pytest_loom.flow.addresses import Allowed, plain
from pytest_loom.flow.imports import on_import

LIMIT = 20
"""So many refused calls of one block are ordinary errors; from the next one on it is Refused."""

_FINALIZE = weakref.finalize.__call__.__code__


class Refused(BaseException):
    """Raised in place of a LiveCallError (``error``) after LIMIT of them: code that retries for ever must end."""

    def __init__(self, error: LiveCallError) -> None:
        super().__init__(f"{error}\n  {LIMIT} live calls were refused before this one, so the run is stopped.")
        self.error = error


@dataclass(eq=False)
class Guard:
    """What a closed block saw. ``calls`` are all refused calls, in order: also those whose error the code swallowed.

    ``slept`` is how many seconds of ``time.sleep`` were skipped. The rest is the arguments of ``closed``.
    """

    allowed: Allowed
    writable: tuple[str, ...]
    step: Callable[[], str]
    outer: Guard | None = field(repr=False)
    calls: list[LiveCallError] = field(default_factory=list)
    slept: float = 0.0
    ended: bool = False
    during: str = "during replay"
    hint: str = "Make it an effect (a @step, or a name in loom_effects){otherwise}, or record the run again."

    def refuse(self, deed: str, otherwise: str = "") -> NoReturn:
        """Keep and raise the error about ``deed`` ("connect to x:443"); ``otherwise`` is what else to do about it."""
        function, path, line = judges.caller()
        error = LiveCallError(
            f"{printable(function)} tried to {plain(deed)} {self.during}",
            path=path,
            line=line,
            step=self.step(),
            hint=self.hint.replace("{otherwise}", plain(otherwise)),
        )
        self.calls.append(error)
        if len(self.calls) > LIMIT:
            raise Refused(error)
        raise error


@contextmanager
def closed(
    *,
    allow: Iterable[str] = (),
    writable: Iterable[Path] = (),
    step: Callable[[], str] = str,
    during: str = Guard.during,
    hint: str = Guard.hint,
    everywhere: bool = False,
) -> Iterator[Guard]:
    """Every way out is closed for code of this context until the block ends; ``everywhere``: for every thread's code,
    in a process that does nothing else.

    ``allow`` lists "host" and "host:port" (which may also be looked up), "unix:/path" (a socket, or those in a
    folder), "loopback", and packages of ``clients.CLIENTS`` ("grpc"). ``writable`` are folders or files that may be
    written. ``step()`` names the step in progress, ``during`` and ``hint`` say in messages when it was, and what to do
    ("{otherwise}" stands for what else can be done about this call). Of nested blocks the innermost alone decides and
    counts. Raises LoomError for an entry of ``allow`` that is none of this.
    """
    guard = Guard(
        Allowed([allow] if isinstance(allow, str) else allow),
        tuple(os.path.realpath(folder) for folder in writable),
        step,
        active(),
        during=during,
        hint=hint,
    )
    global _everywhere
    _open()
    token = _active.set(guard)
    if everywhere:
        _everywhere = guard
    try:
        yield guard
    finally:
        guard.ended = True
        _everywhere = None if _everywhere is guard else _everywhere
        with suppress(ValueError):  # it ends in another context, as a fixture may: being marked ends it everywhere
            _active.reset(token)
        _close()


@contextmanager
def opened() -> Iterator[None]:
    """Lift the guard for code of this context until the block ends: for what the engine itself writes."""
    token = _active.set(None)
    try:
        yield
    finally:
        _active.reset(token)


def active() -> Guard | None:
    """The guard that judges the caller's code; None where all is allowed."""
    guard = _active.get() or _everywhere
    while guard is not None and guard.ended:  # a task or thread that outlived its block
        guard = guard.outer
    return guard


_active: ContextVar[Guard | None] = ContextVar("loom_guard", default=None)
_everywhere: Guard | None = None
_lock = threading.RLock()
_blocks = 0
_hooked = False
_waiting = ExitStack()
_undo: list[Callable[[], None]] = []


def _open() -> None:
    global _blocks, _hooked
    with _lock:
        if not _hooked:
            tempfile.gettempdir()  # finds its folder by writing to it, once: not in somebody's run
            sys.addaudithook(_hook)
            _hooked = True
        _blocks += 1
        try:
            if _blocks == 1:
                _waiting.enter_context(on_import(_wrappings()))
        except BaseException:
            _close()
            raise


def _close() -> None:
    global _blocks
    with _lock:
        _blocks -= 1
        if not _blocks:
            _waiting.close()
            while _undo:
                _undo.pop()()


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _blocks:
        return
    judge = judges.JUDGES.get(event)
    if judge is None:
        return
    guard = active()
    if guard is None:
        return
    try:
        judge(guard, *args)
    except (LiveCallError, Refused):
        if not _cleans_up():
            raise
        guard.calls.pop()


def _cleans_up() -> bool:
    """Whether the garbage collector, which runs when it likes, cleans up after somebody (a temporary folder)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _FINALIZE:
        frame = frame.f_back
    return frame is not None


_table: tuple[object, dict[str, Callable[[ModuleType], None]]] = (None, {})
"""``_wrappings`` of this table of clients."""


def _wrappings() -> dict[str, Callable[[ModuleType], None]]:
    """What raises no audit event: module -> what wraps its names, once it is imported."""
    global _table
    if _table[0] is clients.CLIENTS:
        return _table[1]
    table: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {
        "socket": [
            *(
                (f"socket.{name}", _judged(judges.sending))
                for name in ("send", "sendall", "sendfile", "sendmsg", "sendto")
            ),
            *((name, _once(_noted)) for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex")),
        ],
        "ssl": [("SSLSocket.send", _judged(judges.sending)), ("SSLSocket.write", _judged(judges.sending))],
        "asyncio.base_events": [
            ("BaseEventLoop.getaddrinfo", _once(_awaited_look_up)),
            (
                "BaseEventLoop.getnameinfo",
                _judged(lambda guard, _, address, *__, **___: judges.look_back(guard, address)),
            ),
        ],
        "multiprocessing.process": [("BaseProcess.start", _judged(judges.do("start a process")))],
        "multiprocessing.util": [("spawnv_passfds", _judged(judges.do("start a process")))],
        "_interpreters": [("create", _judged(judges.do("start a subinterpreter")))],
        "_xxsubinterpreters": [("create", _judged(judges.do("start a subinterpreter")))],
    }
    for module, names in clients.CLIENTS.items():
        table[module] = [(name, _judged(partial(judges.client, module, name))) for name in names]
    _table = clients.CLIENTS, {"time": _wrap_sleep, **{name: partial(_wrap, names) for name, names in table.items()}}
    return _table[1]


def _wrap(names: list[tuple[str, Callable[[Any], Any]]], module: ModuleType) -> None:
    with _lock:
        if _blocks:  # an import may end after the last block has
            _undo.extend(clients.replace(module, dotted, make) for dotted, make in names)


_sleepers: tuple[int, list[ModuleType]] = (0, [])
"""Modules that took ``sleep`` for themselves, looked for when there were so many modules."""


def _wrap_sleep(time: ModuleType) -> None:
    """No sleep of a run waits, nor one that a module took for itself (``from time import sleep``)."""
    global _sleepers
    original = time.sleep
    if _sleepers[0] != len(sys.modules):
        modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
        took = [module for module in modules if module is not time and vars(module).get("sleep") is original]
        _sleepers = (len(sys.modules), took)
    _wrap([("sleep", _sleep)], time)
    for module in _sleepers[1]:
        if vars(module).get("sleep") is original:
            _wrap([("sleep", _sleep)], module)


def _once(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Remember what was made of the last original: block after block it is the same one."""
    known: list[Any] = [None, None]

    def made(original: Any) -> Any:
        if known[0] is not original:
            known[:] = original, make(original)
        return known[1]

    return made


def _judged(judge: Callable[..., None]) -> Callable[[Any], Any]:
    """What makes, of a function, one that asks ``judge(guard, *args, **kwargs)`` first."""

    @_once
    def make(original: Any) -> Any:
        @functools.wraps(original)
        def judged(*args: Any, **kwargs: Any) -> Any:
            guard = active()
            if guard is not None:
                judge(guard, *args, **kwargs)
            return original(*args, **kwargs)

        return judged

    return make


def _noted(original: Any) -> Any:
    @functools.wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        answer = original(*args, **kwargs)
        guard = active()
        if guard is not None:
            guard.allowed.note(args[0] if args else kwargs.get("host"), answer)
        return answer

    return noted


def _awaited_look_up(original: Any) -> Any:
    """asyncio looks names up in a thread, where no caller can be named: judge it where it is asked for."""

    @functools.wraps(original)
    async def getaddrinfo(loop: Any, host: Any, port: Any, **options: Any) -> Any:
        guard = active()
        if guard is None:
            return await original(loop, host, port, **options)
        judges.look_up(guard, host, port)
        answer = await original(loop, host, port, **options)
        guard.allowed.note(host, answer)
        return answer

    return getaddrinfo


def _sleep(original: Any) -> Any:
    @functools.wraps(original)
    def sleep(seconds: Any, /) -> None:
        guard = active()
        if guard is None or seconds < 0:
            original(seconds)
            return
        guard.slept += seconds
        original(0)  # lets other threads run: whoever polls waits for one

    return sleep
