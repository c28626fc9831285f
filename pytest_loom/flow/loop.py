"""The event loop that an async flow runs on: it knows when nothing can go on, and can let time pass at once.

A flow that waits for a gate, or replays, has to be told apart from one that is busy; and replay never waits for
recorded time. Both are seen at the one place where an event loop would go to sleep.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

Idle = Callable[[float | None], bool]
"""Asked before the loop sleeps, with the seconds to its next timer (None: there is none): whether there is news."""


class FlowLoop(asyncio.SelectorEventLoop):
    """An event loop with an idle callback and a clock that can be put forward."""

    def __init__(self, idle: Idle) -> None:
        self.skipped = 0.0
        super().__init__(_Selector(idle))

    def time(self) -> float:
        """The loop's clock, in seconds: the real one plus what was skipped."""
        return super().time() + self.skipped


class _Selector(selectors.DefaultSelector):
    def __init__(self, idle: Idle) -> None:
        super().__init__()
        self._idle = idle

    def select(self, timeout: float | None = None) -> list[Any]:
        """Ready events; before it would sleep, the run is asked whether it has something to do instead."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if ready or self._idle(timeout):
            return ready
        return super().select(timeout)
