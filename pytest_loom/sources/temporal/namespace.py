"""The histories that a query finds in a Temporal namespace, one at a time, through temporalio's client.

``temporal://host:7233/namespace?query=WorkflowType%3D%22Refund%22``: the query is Temporal's own list filter, every
run of the namespace without one. ``&tls=1`` connects with TLS; the API key is in the environment, TEMPORAL_API_KEY, as
for Temporal's own command line. Histories are read as the server has them: nothing is decoded by a codec.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from pytest_loom.errors import LogError, Unsupported, printable

SCHEMES = ("temporal",)
DEFAULT_NAMESPACE = "default"
_KNOWN = {"query", "tls"}
_EXAMPLE = "temporal://localhost:7233/default?query=WorkflowType%3D%22Refund%22"


def masked(address: str) -> str:
    """The address without what may be secret in it: host, namespace and query."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return "temporal://…"
    query = parse_qs(parts.query).get("query", [""])[0]
    return f"temporal://{host}{port}{parts.path}" + (f"?{urlencode({'query': query})}" if query else "")


def read_histories(address: str) -> Iterator[str]:
    """Each history as JSON text. Raises LogError where they cannot be had, Unsupported without temporalio."""
    target, namespace, query, tls = _parsed(address)
    try:
        client_class = importlib.import_module("temporalio.client").Client
    except ImportError:
        raise Unsupported(
            "reading a Temporal namespace needs temporalio", hint="pip install 'pytest-loom[temporal]'"
        ) from None
    key = os.environ.get("TEMPORAL_API_KEY")
    options: dict[str, Any] = {"api_key": key} if key else {}
    loop = asyncio.new_event_loop()
    try:
        client = loop.run_until_complete(
            client_class.connect(target, namespace=namespace, tls=tls or bool(key), **options)
        )
        histories = client.list_workflows(query or None).map_histories()
        while (history := loop.run_until_complete(anext(histories, None))) is not None:
            yield history.to_json()
    except Exception as problem:  # temporalio's errors have no common base: a refused connection is a RuntimeError
        if isinstance(problem, LogError | Unsupported):
            raise
        text = " ".join(str(problem).split())
        text = text.replace(key, "***") if key else text
        raise LogError(
            f"the namespace cannot be read: {type(problem).__name__}: {printable(text, 300)}",
            path=masked(address),
            hint="Look at host, port, namespace and query; TLS is ?tls=1, the API key TEMPORAL_API_KEY.",
        ) from None
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _parsed(address: str) -> tuple[str, str, str, bool]:
    """Host and port, namespace, query and whether to use TLS. Raises LogError."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as problem:
        raise LogError(f"this is no address: {problem}", hint=f"Like {_EXAMPLE}") from None
    said = parse_qs(parts.query)
    odd = said.keys() - _KNOWN
    if not host or odd or parts.username or parts.password:
        what = f"the address has {printable(min(odd))}, which is not known" if odd else "the address names no host"
        what = "an address of Temporal holds no user and password" if parts.username or parts.password else what
        raise LogError(what, path=masked(address), hint=f"Like {_EXAMPLE}")
    namespace = unquote(parts.path.strip("/")) or DEFAULT_NAMESPACE
    return f"{host}:{port or 7233}", namespace, said.get("query", [""])[0], said.get("tls", [""])[0] in ("1", "true")
