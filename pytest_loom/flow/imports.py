"""When module X is imported, do Y: how a package that a run may or may not use is prepared without importing it.

A finder at the head of ``sys.meta_path`` asks the other finders for the modules that somebody waits for, and calls
the actions right after such a module has run, before the code that imports it sees it. Without an open block there
is no finder.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]


@contextmanager
def on_import(actions: Mapping[str, Action]) -> Iterator[None]:
    """Call the action once for each named module (``{"grpc._channel": action}``): now, or when it is imported.

    A module that is in ``sys.modules`` is handled at once, any other right after it has been imported while the
    block runs. Blocks may nest, overlap and belong to different threads; each calls its own actions. What an action
    raises comes out of the block's start, or of the import. No lock is held during an action, so it may import; one
    that another thread has begun when the block ends still finishes.
    """
    waiting = dict(actions)
    with _lock:
        if not _waiting:
            sys.meta_path.insert(0, _finder)
        _waiting.append(waiting)
    try:
        for name in actions:
            module = sys.modules.get(name)
            if module is not None:
                _act(waiting, name, module)
        yield
    finally:
        with _lock:
            _waiting[:] = [other for other in _waiting if other is not waiting]
            waiting.clear()
            if not _waiting:
                sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _finder]


def _act(waiting: dict[str, Action], name: str, module: ModuleType) -> None:
    action = waiting.pop(name, None)  # one step, so that of two threads one gets it
    if action is not None:
        action(module)


class _Finder:
    """Finds nothing itself: lets the other finders find, and gives what they found a loader that tells."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(fullname in waiting for waiting in tuple(_waiting)):
            return None
        for finder in tuple(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if finder is not self and find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """The real loader in all but one thing: after the module has run, the actions are called."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        # Some loaders look at spec.loader here, and a module that is made keeps the spec.
        spec.loader = self._real
        create = getattr(self._real, "create_module", None)
        module: ModuleType | None = create(spec) if create else None
        spec.loader = self  # type: ignore[assignment]
        return module

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module knows its real loader only: inspect, pkgutil and importlib.resources ask for it.
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        module.__loader__ = self._real
        self._real.exec_module(module)
        name = module.__spec__.name if module.__spec__ is not None else module.__name__
        for waiting in tuple(_waiting):
            _act(waiting, name, sys.modules.get(name, module))


_lock = threading.Lock()
_waiting: list[dict[str, Action]] = []  # of each open block: the actions not called yet
_finder = _Finder()
