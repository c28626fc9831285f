"""Code that swallows everything, in a loop: what ends it when raising the end of the run again and again does not.

``while True: try: … except BaseException: continue`` catches whatever is raised within the ``try``. It does not catch
what is raised at a line of its own handler, or of its loop; so that is where the end of the run is raised then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

MAX_SWALLOWED = 100
"""How often one branch may ask for something after its run has ended, before it is ended in this way."""

_MAX_SKIPPED = 50
_ENGINE = "pytest_loom.flow.engine"
_NOT_ITS_OWN = ("pytest_loom.", "asyncio.", "threading", "concurrent.", "contextlib")


def end_soon(tries: int, make: Callable[[], BaseException]) -> None:
    """Raise ``make()`` at one of the next lines of the code that calls: each try at a later one, as the first ones may
    lie within another ``try``.
    """
    left = tries % _MAX_SKIPPED

    def on_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                raise make()
        return on_line

    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module == _ENGINE:
            break
        if not module.startswith(_NOT_ITS_OWN):
            frame.f_trace = on_line
        frame = frame.f_back
    sys.settrace(lambda frame, event, arg: None)
