"""What the guard (``guard.py``) makes of each audit event: whether it leads out, and how to say so.

A judge is called with the guard in force and the event's arguments, and calls ``guard.refuse`` or returns. The events
are those of the table "Audit events" in Python's documentation, as of 3.14; what is not in ``JUDGES`` is no way out,
or comes with an event that is (``urllib.Request`` with ``socket.connect``, ``shutil.copyfile`` with ``open``).
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qs

from pytest_loom.flow import clients
from pytest_loom.flow.addresses import host_name, is_loopback, is_numeric

if TYPE_CHECKING:
    from pytest_loom.flow.guard import Guard

_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def _frames() -> Iterator[FrameType]:
    """The frames of the caller's stack outside pytest_loom, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_HERE):
            yield frame
        frame = frame.f_back


def caller() -> tuple[str, str, int]:
    """Who made the call, ``(function, file, line)``: the innermost frame of the application, if it has one there."""
    innermost: FrameType | None = None
    for frame in _frames():
        innermost = innermost or frame
        file = frame.f_code.co_filename
        if not file.startswith((_STDLIB, "<")) and not any(part in file for part in _PACKAGES):
            innermost = frame
            break
    if innermost is None:
        return "somebody", "", 0
    return innermost.f_code.co_qualname, innermost.f_code.co_filename, innermost.f_lineno


# --- The network ---


def _connect(guard: Guard, sock: Any, address: Any) -> None:
    try:
        _address(guard, "connect to", address)
    except BaseException:
        sock.close()  # socket.create_connection and its copies close only after an OSError
        raise


def _address(guard: Guard, verb: str, address: Any) -> None:
    if isinstance(address, str | bytes | bytearray):
        path = os.fsdecode(bytes(address) if isinstance(address, bytearray) else address)
        path = "@" + path[1:] if path.startswith("\0") else path  # Linux's abstract sockets, as its tools write them
        if path and not guard.allowed.socket(path):
            _not_socket(guard, verb, path)
    elif isinstance(address, tuple) and len(address) > 1 and isinstance(address[0], str | bytes | bytearray):
        host, port = host_name(address[0]), address[1]
        if not guard.allowed.place(host, port) and not (is_loopback(host) and _is_pair()):
            _not_place(guard, verb, host, port)
    elif address is not None:  # None: over a connection that is there already, which sending has judged
        guard.refuse(f"{verb} {address!r}")


def _not_place(guard: Guard, verb: str, host: str, port: int | None, through: str = "") -> NoReturn:
    host = host.rpartition("@")[2]  # urllib takes "user:password@host" for a host
    place = (f"[{host}]" if ":" in host else host or "*") + (f":{port}" if port else "")
    guard.refuse(f"{verb} {place}{through}", f', or allow it (loom_allow = {place}, or allow=["{place}"])')


def _not_socket(guard: Guard, verb: str, path: str, through: str = "") -> NoReturn:
    guard.refuse(
        f"{verb} the socket {path}{through}", f', or allow it (loom_allow = unix:{path}, or allow=["unix:{path}"])'
    )


def _is_pair() -> bool:
    """Whether this is ``socket.socketpair``: on Windows it connects to itself, and every event loop has one."""
    caller = next(_frames(), None)
    return caller is not None and caller.f_code.co_filename == socket.__file__ and "pair" in caller.f_code.co_name


def look_up(guard: Guard, host: Any, port: Any = None, *_: Any) -> None:
    """Judge the search for a name's addresses; an address itself asks nobody."""
    name = host_name(host)
    number = int(port) if str(port).isdigit() else None
    if name and not is_numeric(name) and not guard.allowed.place(name, number or None):
        verb = "connect to" if number else "look up the address of"
        _not_place(guard, verb, name, number)


def look_back(guard: Guard, address: Any) -> None:
    """Judge the search for an address's name."""
    name = host_name(address[0] if isinstance(address, tuple) else address)
    if not guard.allowed.place(name, None):
        _not_place(guard, "look up the name of", name, None)


def sending(guard: Guard, sock: Any, *_: Any, **__: Any) -> None:
    """Judge what goes out over a connected socket by its peer: a pool's connection may be older than the block."""
    try:
        peer = sock.getpeername()
    except OSError:  # not connected: whoever names an address is judged by it
        return
    if peer and not (sys.platform == "win32" and is_loopback(host_name(peer[0]))):  # there a socketpair looks so
        _address(guard, "send to", peer)


def client(module: str, dotted: str, guard: Guard, *args: Any, **kwargs: Any) -> None:
    """Judge a call of ``clients.CLIENTS``."""
    package = module.partition(".")[0]
    if guard.allowed.place(package.lower(), -1) or (
        len(args) > 1 and isinstance(args[1], str) and args[1].startswith("inproc://")
    ):
        return  # ZeroMQ's inproc stays in the process
    target = clients.target(args, kwargs)
    if target is None:
        method = getattr(args[0], "_method", None) if args else None  # grpc's
        what = os.fsdecode(method) if isinstance(method, str | bytes) else f"{module}.{dotted}"
        guard.refuse(
            f"call {what} through {package}", f', or allow it (loom_allow = {package}, or allow=["{package}"])'
        )
    host, port = target[0], target[1] or clients.PORTS.get(package, -1)
    if host.startswith("/"):
        if not guard.allowed.socket(host):
            _not_socket(guard, "connect to", host, f" through {package}")
    elif not guard.allowed.place(host_name(host), port):
        _not_place(guard, "connect to", host_name(host), port if port > 0 else None, f" through {package}")


# --- Programs ---


def _program(guard: Guard, program: Any = None, argv: Any = (), *_: Any) -> None:
    if isinstance(argv, str | bytes | os.PathLike):  # Windows' command line
        argv = os.fsdecode(argv).split()
    words = [os.fsdecode(word) for word in argv or ()]
    if len(words) > 2 and words[1] == "-c" and os.path.basename(words[0]) in ("sh", "bash"):
        _shell(guard, words[2])
    guard.refuse(f"start the program {os.fsdecode(program) if program else ' '.join(words[:1])}")


def _shell(guard: Guard, command: Any) -> NoReturn:
    first = (os.fsdecode(command).split() or [""])[0]  # the rest may be secret, and so may an assignment
    guard.refuse(f"run a shell command ({first} ...)" if "=" not in first else "run a shell command")


def _kill(guard: Guard, pid: int, signal: int) -> None:
    if signal and pid != os.getpid():
        guard.refuse(f"send signal {signal} to process {pid}")


def do(deed: str) -> Callable[..., None]:
    """What refuses ``deed``, whatever the arguments."""

    def judge(guard: Guard, *_: Any, **__: Any) -> None:
        guard.refuse(deed)

    return judge


# --- Files ---

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DEVICES = {os.devnull, *(f"/dev/{name}" for name in ("null", "zero", "full", "tty", "stdout", "stderr"))}
_COMPILED = re.compile(r"__pycache__|.*\.pyc(\.\d+)?")


def _file(guard: Guard, path: Any, mode: Any, flags: Any) -> None:
    if (isinstance(flags, int) and flags & _WRITING) or (isinstance(mode, str) and set(mode) & set("wax+")):
        _change(guard, "write to", path, follow=True)


def _change(guard: Guard, verb: str, path: Any, folder: Any = None, *, follow: bool = False) -> None:
    """Judge a change of ``path`` (relative to the open ``folder``, if any); ``follow``: of what a link points to."""
    if not isinstance(path, str | bytes | os.PathLike):  # a number: it is open already
        return
    name = os.fsdecode(path)
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(name):
        with suppress(OSError):
            name = os.path.join(_folder(folder), name)
    if name in _DEVICES or name.startswith(("/dev/fd/", "/dev/pts/", "/proc/self/fd/")):
        return
    parent, base = os.path.split(os.path.abspath(name))
    if _COMPILED.fullmatch(base) or os.path.basename(parent) == "__pycache__":
        return
    real = os.path.realpath(name) if follow else os.path.join(os.path.realpath(parent), base)
    allowed = (*guard.writable, os.path.realpath(sys.pycache_prefix)) if sys.pycache_prefix else guard.writable
    if any(real == top or real.startswith(os.path.join(top, "")) for top in allowed):
        return
    if verb == "make the folder" and os.path.lexists(name):  # makedirs(exist_ok=True): nothing would change
        return
    if any(frame.f_code is logging.Handler.handle.__code__ for frame in _frames()):  # first record, or rollover
        return
    guard.refuse(f"{verb} {name}", ", or write below the test's tmp_path (or what writable=[...] of replay names)")


def _folder(number: int) -> str:
    """The path of an open folder."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(number, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{number}")


def _changes(verb: str, *places: tuple[int, int | None]) -> Callable[..., None]:
    """Judge an event by its arguments: pairs of where a path is and where the folder is that it is relative to."""

    def judge(guard: Guard, *args: Any) -> None:
        for path, folder in places:
            _change(guard, verb, args[path], None if folder is None else args[folder], follow=verb == "cut")

    return judge


def _database(guard: Guard, database: Any) -> None:
    name = os.fsdecode(database)
    if name.startswith("file:"):
        path, _, query = name.removeprefix("file:").partition("?")
        said = parse_qs(query)
        if said.get("mode", [""])[-1] in ("ro", "memory") or said.get("immutable") == ["1"]:
            return
        if said.get("vfs") == ["memdb"]:
            return  # of this process, in memory
        name = re.sub(r"^//[^/]*", "", path)
    if name not in ("", ":memory:"):
        _change(guard, "open (for writing) the database", name, follow=True)


# --- All of it ---

JUDGES: dict[str, Callable[..., None]] = {
    "socket.connect": _connect,
    "socket.bind": lambda guard, _, address: _address(guard, "listen on", address),
    "socket.sendto": lambda guard, _, address: _address(guard, "send to", address),
    "socket.sendmsg": lambda guard, _, address: _address(guard, "send to", address),
    "socket.getaddrinfo": look_up,
    "socket.gethostbyname": look_up,
    "socket.gethostbyaddr": look_back,
    "socket.getnameinfo": look_back,
    "socket.sethostname": do("rename this machine"),
    "subprocess.Popen": _program,
    "_winapi.CreateProcess": _program,
    "os.exec": _program,
    "os.posix_spawn": _program,
    "os.spawn": lambda guard, _, program, *rest: _program(guard, program, *rest),
    "os.startfile": _program,
    "os.system": _shell,
    "os.fork": do("fork a process"),
    "os.forkpty": do("fork a process"),
    "pty.spawn": lambda guard, argv: _program(guard, None, argv),
    "os.kill": _kill,
    "os.killpg": lambda guard, group, signal: _kill(guard, -group, signal),
    "sys.remote_exec": do("run code in another process"),
    "open": _file,
    "sqlite3.connect": _database,
    "os.remove": _changes("remove", (0, 1)),
    "os.rmdir": _changes("remove the folder", (0, 1)),
    "shutil.rmtree": _changes("remove the folder", (0, 1)),
    "os.mkdir": _changes("make the folder", (0, 2)),
    "os.rename": _changes("rename", (0, 2), (1, 3)),
    "os.truncate": _changes("cut", (0, None)),
    "os.link": _changes("make the link", (1, 3)),
    "os.symlink": _changes("make the link", (1, 2)),
    "os.chmod": _changes("change the mode of", (0, 2)),
    "os.chown": _changes("change the owner of", (0, 3)),
    "os.utime": _changes("change the times of", (0, 3)),
    "os.chflags": _changes("change the flags of", (0, None)),
    "os.setxattr": _changes("change the attributes of", (0, None)),
    "os.removexattr": _changes("change the attributes of", (0, None)),
    **{
        f"winreg.{name}": do("change the registry")
        for name in ("CreateKey", "DeleteKey", "DeleteValue", "LoadKey", "SaveKey", "SetValue")
    },
}
