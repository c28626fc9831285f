"""The ``anthropic`` package: every JSON call of its clients (messages, beta, batches) is an effect of kind "model".

How it is recorded and what is not supported: see ``stainless``. A client can be made without an API key, so a replay
needs none.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_loom.flow.seams import stainless

PACKAGE = "anthropic"


def install() -> Callable[[], None]:
    """Patch ``anthropic``, which is imported already; what is returned undoes it."""
    return stainless.install(PACKAGE)
