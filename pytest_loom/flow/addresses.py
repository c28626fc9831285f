"""Which places the guard (``guard.py``) lets a run reach: the entries of its ``allow``, as data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from pytest_loom.errors import LoomError, printable

_ENTRY = re.compile(
    r"\[(?P<v6>[^\]/@\s]+)\](:(?P<v6port>\d+))?"
    r"|(?P<host>[^\s:/@\[\]]+)(:(?P<port>\d+))?"
    r"|(?P<bare>[0-9A-Fa-f.]*(:[0-9A-Fa-f.]*){2,})"
)
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}|::1|localhost")
_NUMERIC = re.compile(r"\d{1,3}(\.\d{1,3}){3}|[0-9a-f.]*(:[0-9a-f.]*){2,}")
_PASSWORD = re.compile(r"(://)[^/\s]*@|[^\s/@\"'\[]*:[^\s/@]*@")
_SECRET = re.compile(r"(\w*(?:pass|pwd|secret|token|key|auth|credential)\w*)(\s*[=:]\s*)('[^']*'|[^\s&;,]+)", re.I)


class Allowed:
    """Parsed entries: "host", "host:port", "[ipv6]:port", "unix:/path", "loopback"; LoomError for anything else.

    A name stands for the addresses that it was looked up to have, too (``note``).
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self.names: set[tuple[str, int | None]] = set()
        self.sockets: list[str] = []
        self.loopback = False
        self.addresses: dict[str, set[str]] = {"localhost": {"127.0.0.1", "::1"}}
        for entry in entries:
            match = _ENTRY.fullmatch(entry)
            if entry == "loopback":
                self.loopback = True
            elif entry.startswith("unix:"):
                self.sockets.append(entry.removeprefix("unix:"))
            elif match is not None:
                port = match["port"] or match["v6port"]
                name = match["host"] or match["v6"] or match["bare"]
                self.names.add((host_name(name), int(port) if port else None))
            else:
                raise LoomError(
                    f"this entry of allow is no address: {plain(entry)}",
                    hint='Write "host", "host:port", "[ipv6]:port", "unix:/path" or "loopback".',
                )

    def place(self, host: str, port: int | None) -> bool:
        """Whether ``host`` may be reached at ``port``, or (None) be looked up."""
        if self.loopback and _LOOPBACK.fullmatch(host):
            return True
        return any(
            (port is None or only in (None, port)) and (host == name or host in self.addresses.get(name, ()))
            for name, only in self.names
        )

    def socket(self, path: str) -> bool:
        """Whether the AF_UNIX socket ``path`` may be reached: it is named, or lies in a folder that is."""
        path = os.path.normpath(path)
        return any(path == name or path.startswith(name.rstrip("/") + "/") for name in self.sockets)

    def note(self, host: Any, answer: Any) -> None:
        """Take in what ``socket.getaddrinfo``, ``gethostbyname`` or ``gethostbyname_ex`` answered about ``host``."""
        name = host_name(host)
        if not any(name == known for known, _ in self.names):
            return
        if isinstance(answer, str):
            found = [answer]
        elif isinstance(answer, tuple):
            found = answer[2]
        else:
            found = [entry[4][0] for entry in answer]
        self.addresses.setdefault(name, set()).update(map(host_name, found))


def host_name(host: Any) -> str:
    """One spelling of a host: a name in small letters; an address without its zone or its IPv6 dress."""
    text = os.fsdecode(bytes(host)) if isinstance(host, bytes | bytearray) else str(host or "")
    return text.lower().rstrip(".").partition("%")[0].removeprefix("::ffff:")


def is_numeric(host: str) -> bool:
    """Whether ``host`` is an address already, so that looking it up asks nobody."""
    return _NUMERIC.fullmatch(host) is not None


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine by its own name for itself."""
    return _LOOPBACK.fullmatch(host) is not None


def plain(text: str) -> str:
    """``text`` fit to be printed: on one line, of bounded length, passwords masked."""
    return printable(_SECRET.sub(r"\1\2***", _PASSWORD.sub(r"\1***@", text)), 200)
