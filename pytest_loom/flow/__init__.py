"""Flows: code that runs executions, recorded once and replayed against today's code (DESIGN section 6).

The package has the name of the decorator that it is for (``from pytest_loom import flow``): so it can be called as it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``@flow(id=…, …)``: see ``pytest_loom.flow.definition.flow``."""
        from pytest_loom.flow.definition import declare_flow

        return declare_flow(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
