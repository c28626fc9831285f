"""Yesterday's run on today's code: policies, ``resume_as``, and changes to build migrations from (seed 003).

The package has the name of the function beside it (``from pytest_loom import resume``): so it can be called as it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``resume(log, flow, …)``: see ``pytest_loom.flow.api.resume``."""
        from pytest_loom.flow.api import resume

        return resume(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
