"""Run code of the application apart: in a forked child that can be killed, and that can do nothing to the world.

For shadow resumes, which ask a framework what it would do next. The child is a copy of this process, so that live
objects (an agent, a compiled graph) need not be found again by name; what it does to them stays with it. In it the
live-call guard is closed, the operating system lets no file grow, the environment holds no secrets, and nothing is
printed. Where there is no fork (Windows) nothing is run.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import stat
import sys
import sysconfig
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pytest_loom.flow import guard

TIMEOUT = 10.0
"""Seconds after which a child is killed."""

MAX_ANSWER = 16 * 1024 * 1024

_KEPT = (
    *(
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "TMPDIR",
        "SYSTEMROOT",
        "PYTHONHASHSEED",
        "USER",
        "LOGNAME",
        "SHELL",
        "PWD",
    ),
    *("TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
    *("CI", "CONTINUOUS_INTEGRATION", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "CIRCLECI", "BUILDKITE", "TRAVIS"),
)
"""What of the environment a child may see: where it is and how it prints, which libraries ask for at every turn.

A library that hides its banner in CI asks for ``CI``; taken away, that would pass for a decision made for want of it.
"""

_SWITCHES = ("", "0", "1", "true", "false", "yes", "no", "on", "off")
"""Values that hide no secret: whatever has one is kept too."""


_LOOKING_UP = (os.__file__, Mapping.get.__code__.co_filename)

missed: list[str] = []
"""In a child: the variables that code looked up in the environment, and that it was not given.

Those that were there before, whoever asks, and any other that the application's own code asks for: it may well be set
where that runs.
"""


class Unanswered(Exception):
    """The child did not come back with an answer; the text says why. ``slow``: it was killed for taking too long."""

    def __init__(self, why: str, *, slow: bool = False) -> None:
        super().__init__(why)
        self.slow = slow


def apart(work: Callable[[], Any], *, timeout: float = TIMEOUT) -> Any:
    """What ``work()`` returns, which has to be JSON data, from a child process.

    Raises Unanswered where it raised, tried to reach the world, took longer than ``timeout`` seconds or died.
    """
    if not hasattr(os, "fork"):
        raise Unanswered("this system cannot copy a process")
    tempfile.gettempdir()  # finds its folder by writing to it, once, which the child cannot
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other threads may hold locks for ever in the copy: then it is killed
        child = os.fork()
    if child == 0:
        _answer(work, reading, writing)
    os.close(writing)
    try:
        answer = _read(reading, time.monotonic() + timeout)
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(child, 0)
    if answer is None:
        raise Unanswered(f"it took longer than {timeout:g} seconds", slow=True)
    try:
        said = json.loads(answer)
    except ValueError:
        raise Unanswered("its process died") from None
    if "problem" in said:
        raise Unanswered(said["problem"])
    return said["value"]


def _read(stream: int, deadline: float) -> bytes | None:
    """All that comes until the other end is closed; None where that takes too long."""
    found = b""
    while len(found) <= MAX_ANSWER:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            return None
        block = os.read(stream, 65536)
        if not block:
            return found
        found += block
    return b""


def _answer(work: Callable[[], Any], reading: int, writing: int) -> NoReturn:
    """The child: do the work, write what came of it, and end without any of the cleaning up that the parent will do."""
    code = 1
    try:
        os.close(reading)
        cut_loose(writing)
        shut()
        try:
            with guard.closed(during="while it was asked what it would do next") as closed:
                value = work()
            said = {"problem": str(closed.calls[0].what)} if closed.calls else {"value": value}
        except BaseException as problem:
            said = {"problem": f"{type(problem).__name__}: {problem}"[:2000]}
        _write(writing, json.dumps(said).encode("utf-8", "backslashreplace"))
        code = 0
    finally:
        os._exit(code)


def cut_loose(*own: int) -> None:
    """Have everything that was open and is shared with the parent lead nowhere: it would see what is done to it.

    An event loop that ends takes its sockets out of its epoll, which is the parent's as well; a client that is thrown
    away says goodbye to its server.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/dev/fd"):
        number = int(name)
        if number < 3 or number in (*own, nowhere):
            continue
        with contextlib.suppress(OSError):
            facts = os.fstat(number)
            kind = stat.S_IFMT(facts.st_mode)
            if kind == stat.S_IFSOCK and _is_pair(number):
                _open_pair(number)
            elif kind in (stat.S_IFSOCK, stat.S_IFIFO) or (kind == stat.S_IFREG and _is_writable(number)):
                os.dup2(nowhere, number, inheritable=False)
            elif not kind and hasattr(select, "epoll"):  # an epoll, or the like
                with contextlib.closing(select.epoll()) as fresh:
                    os.dup2(fresh.fileno(), number, inheritable=False)
    os.close(nowhere)


def _is_pair(number: int) -> bool:
    """Whether a socket is half of a pair, by which a process wakes itself: nobody outside has the other half."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
        return one.family == getattr(socket, "AF_UNIX", None) and not one.getsockname() and not one.getpeername()
    return False


def _open_pair(number: int) -> None:
    """A fresh pair in place of one that is shared: a library that lives on in the copy (tokio) still listens to it."""
    one, other = socket.socketpair()
    one.setblocking(os.get_blocking(number))
    os.dup2(one.fileno(), number, inheritable=False)
    one.close()
    other.detach()  # stays open, so that the one half never comes to an end


def _is_writable(number: int) -> bool:
    import fcntl

    return bool(fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR))


def shut() -> None:
    """Nothing is printed, no file grows, and the environment has nothing worth taking."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdin, sys.stdout, sys.stderr = (open(stream, mode, closefd=False) for stream, mode in enumerate("rww"))  # noqa: SIM115
    _empty_environment()
    for name in ("SIGINT", "SIGTERM", "SIGALRM"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then such a write is an error, and not the end
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _empty_environment() -> None:
    """Take away what may be secret, and note who asks for it: what code then decides, it decides for want of it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith("PYTEST_") or value.lower() in _SWITCHES
    }
    gone = os.environ.keys() - kept.keys()
    os.environ.clear()
    os.environ.update(kept)
    kind = type(os.environ)
    original = kind.__getitem__

    libraries = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})

    def look_up(self: Any, key: Any) -> Any:
        try:
            return original(self, key)
        except KeyError:
            frames = (frame.f_code.co_filename for frame, _ in traceback.walk_stack(sys._getframe(1)))
            asking = next((file for file in frames if not file.startswith("<") and file not in _LOOKING_UP), "")
            if key in gone or not asking.startswith(libraries):
                missed.append(key)
            raise

    kind.__getitem__ = look_up  # type: ignore[method-assign]


def _write(stream: int, data: bytes) -> None:
    while data:
        data = data[os.write(stream, data) :]
