"""Clients that leave Python without Python's sockets, and how a name in a module is replaced for a while.

The guard (``guard.py``) cannot see a C, Rust or Cython core open a connection, so it wraps the places in this table
where such a client goes out. They are as deep in the package as Python reaches, because a deep name is looked up at
the call: ``from psycopg2 import connect`` made long before is caught too. Nothing here imports any of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

CLIENTS: Mapping[str, tuple[str, ...]] = {
    "MySQLdb.connections": ("Connection.__init__",),
    "confluent_kafka": ("Producer.__init__", "Consumer.__init__"),
    "confluent_kafka.admin": ("AdminClient.__init__",),
    "confluent_kafka.deserializing_consumer": ("DeserializingConsumer.__init__",),
    "confluent_kafka.serializing_producer": ("SerializingProducer.__init__",),
    "curl_cffi.aio": ("AsyncCurl.add_handle",),
    "curl_cffi.curl": ("Curl.perform",),
    # A channel connects with its first call only, and is often made when a module is imported: calls are what counts.
    "grpc._channel": (
        "_UnaryUnaryMultiCallable.__call__",
        "_UnaryUnaryMultiCallable.with_call",
        "_UnaryUnaryMultiCallable.future",
        "_UnaryStreamMultiCallable.__call__",
        "_SingleThreadedUnaryStreamMultiCallable.__call__",
        "_StreamUnaryMultiCallable.__call__",
        "_StreamUnaryMultiCallable.with_call",
        "_StreamUnaryMultiCallable.future",
        "_StreamStreamMultiCallable.__call__",
        "Channel.subscribe",
    ),
    "grpc.aio._channel": (
        "UnaryUnaryMultiCallable.__call__",
        "UnaryStreamMultiCallable.__call__",
        "StreamUnaryMultiCallable.__call__",
        "StreamStreamMultiCallable.__call__",
        "Channel.channel_ready",
    ),
    "oracledb.connection": ("Connection.__init__", "AsyncConnection.__init__"),
    "psycopg.connection": ("Connection._connect_gen",),
    "psycopg.connection_async": ("AsyncConnection._connect_gen",),
    "psycopg2": ("_connect",),
    "pycares": ("Channel.getaddrinfo", "Channel.gethostbyname", "Channel.query", "Channel.search"),
    "pycurl": ("Curl.perform", "CurlMulti.perform", "CurlMulti.socket_action"),
    "pymssql": ("connect",),
    "pyodbc": ("connect",),
    "temporalio.bridge.client": ("Client.connect", "Client.call"),
    "tls_client.sessions": ("Session.execute_request",),
    "uvloop": (
        "Loop.create_connection",
        "Loop.create_datagram_endpoint",
        "Loop.create_server",
        "Loop.create_unix_connection",
        "Loop.create_unix_server",
        "Loop.getaddrinfo",
        "Loop.getnameinfo",
        "Loop.sock_connect",
        "Loop.subprocess_exec",
        "Loop.subprocess_shell",
    ),
    "zmq.sugar.socket": ("Socket.bind", "Socket.connect"),
}
"""Module -> what to wrap in it. A name that a version of the package does not have is left out."""

PORTS: Mapping[str, int] = {"MySQLdb": 3306, "oracledb": 1521, "psycopg": 5432, "psycopg2": 5432, "pymssql": 1433}
"""Package -> the port it connects to when none is said."""

_WORDS = re.compile(r"(\w+)\s*=\s*('(?:\\.|[^'\\])*'|[^\s;]*)")
_PLACE = re.compile(r"([^\s:/,@]+)(?::(\d+))?(?:/.*)?")


def target(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, int | None] | None:
    """Where a client's call goes, ``(host or socket path, port)``, as far as its arguments say it plainly.

    Understood are ``host=``/``server=`` and ``port=``, URLs, libpq's ``host=X port=5432`` and ``host:port``. None:
    it is not known, so nothing that is allowed by its address covers it.
    """
    host = kwargs.get("host") or kwargs.get("server")
    if isinstance(host, str):
        return host, _port(kwargs.get("port"))
    named = [kwargs.get(name) for name in ("url", "dsn", "conninfo", "addr")]
    texts = [(text, args[at + 1 : at + 2]) for at, text in enumerate(args) if isinstance(text, str)]
    texts += [(text, ()) for text in named if isinstance(text, str)]
    texts.sort(key=lambda found: "://" not in found[0])  # a URL says more than another word
    if not texts:
        return None
    text, after = texts[0]
    if "://" in text:
        return _of_url(text)
    if "=" in text:
        words = {key: value.strip("'") for key, value in _WORDS.findall(text)}
        place = words.get("hostaddr") or words.get("host")
        return (place, _port(words.get("port"))) if place else None
    match = _PLACE.fullmatch(text)
    return (match[1], _port(match[2] or (after[0] if after else None))) if match else None


def _of_url(text: str) -> tuple[str, int | None] | None:
    try:
        url = urlsplit(text)
        if url.scheme == "ipc":
            return text.partition("://")[2], None
        if not url.hostname or {"host", "hostaddr"} & parse_qs(url.query).keys():
            return None
        return url.hostname, url.port
    except ValueError:
        return None


def _port(value: Any) -> int | None:
    return int(value) if str(value).isascii() and str(value).isdigit() else None


def replace(module: ModuleType, dotted: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    """Put ``make(original)`` in the place of ``module.dotted``; returns what undoes it.

    Methods of any kind stay what they are. A class of C that cannot be changed gives way to a subclass. Nothing
    happens where there is no such name. The undo leaves a place alone where somebody else has put something since.
    """
    *path, name = dotted.split(".")
    owners: list[Any] = [module]
    for part in path:
        owners.append(getattr(owners[-1], part, None))
    owner = owners[-1]
    raw = _raw(owner, name)
    if owner is None or raw is None:
        return lambda: None
    new = type(raw)(make(raw.__func__)) if isinstance(raw, classmethod | staticmethod) else make(raw)
    try:
        return _put(owner, name, new)
    except TypeError:
        subclass = type(owner.__name__, (owner,), {name: new, "__module__": owner.__module__})
        return _put(owners[-2], path[-1], subclass)


def _raw(owner: Any, name: str) -> Any:
    """What stands under a name, as ``inspect.getattr_static`` finds it, a good deal faster where it stands plainly."""
    for place in owner.__mro__ if isinstance(owner, type) else (owner,):
        names = getattr(place, "__dict__", {})
        if name in names:
            return names[name]
    return inspect.getattr_static(owner, name, None)


def _put(owner: Any, name: str, new: Any) -> Callable[[], None]:
    own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, new)

    def undo() -> None:
        if vars(owner).get(name) is not new:
            return
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)

    return undo
