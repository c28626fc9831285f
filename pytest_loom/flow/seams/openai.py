"""The ``openai`` package: every JSON call of its clients (chat, responses, embeddings) is an effect of kind "model".

How it is recorded and what is not supported: see ``stainless``. Azure and other servers (``base_url``) are the same.

``OpenAI()`` refuses to be made without an API key, which a replay has no use for. So within a run a client is made all
the same, and a live call of it is refused instead. A client that is made elsewhere, when a module is imported, still
needs something in OPENAI_API_KEY.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from typing import Any

from pytest_loom.flow import seam
from pytest_loom.flow.seams import stainless

PACKAGE = "openai"
NO_KEY = "no-api-key"
CLIENTS = ("OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI")


def install() -> Callable[[], None]:
    """Patch ``openai``, which is imported already; what is returned undoes it."""
    sdk = importlib.import_module(PACKAGE)

    def needs_key(client: Any) -> None:
        if getattr(client, "api_key", None) == NO_KEY:
            raise sdk.OpenAIError("No API key: pass api_key=... or set OPENAI_API_KEY. Only a replay can do without.")

    undo = contextlib.ExitStack()
    undo.callback(stainless.install(PACKAGE, needs_key))
    for name in CLIENTS:
        undo.callback(_let_be_made_without_key(getattr(sdk, name), sdk.OpenAIError))
    return undo.close


def _let_be_made_without_key(client_class: Any, refusal: type[Exception]) -> Callable[[], None]:
    original = client_class.__init__

    @functools.wraps(original)
    def init(client: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(client, *args, **kwargs)
        except refusal:
            if not seam.in_run() or kwargs.get("api_key") is not None:
                raise
        else:
            return
        original(client, *args, **{**kwargs, "api_key": NO_KEY})  # fails the same way, if it was not for the key

    client_class.__init__ = init

    def undo() -> None:
        client_class.__init__ = original

    return undo
