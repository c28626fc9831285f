"""What langchain does around models and tools that a run must not depend on: caches, threads, traces.

* Its caches of answers are not asked inside a run: whether one is warm must not decide what a recording holds.
* Work that it gives to its thread pool (batches, parallel chains, the tools of an agent) is a branch of its own.
* LangSmith's tracing goes on while recording, in threads that are no part of the run. A replay sends no traces.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import Context
from typing import Any

from pytest_loom.flow import seam
from pytest_loom.flow.branches import here
from pytest_loom.flow.seams.shared import outside, patch_family, replaying, undo_all


def install() -> Callable[[], None]:
    """Patch langchain_core, which is imported already; what is returned undoes it."""
    cache = importlib.import_module("langchain_core.caches").BaseCache
    pool = importlib.import_module("langchain_core.runnables.config").ContextThreadPoolExecutor
    unasked = {"lookup": _unasked, "update": _unasked, "alookup": _aunasked, "aupdate": _aunasked}
    return undo_all(
        [patch_family(cache, unasked), patch_family(pool, {"submit": _submit, "map": _map}), _patch_tracing()]
    )


def _unasked(original: Any) -> Callable[..., Any]:
    def nothing(self: Any, *args: Any, **kwargs: Any) -> Any:
        return None if seam.in_run() else original(self, *args, **kwargs)

    return nothing


def _aunasked(original: Any) -> Callable[..., Any]:
    async def nothing(self: Any, *args: Any, **kwargs: Any) -> Any:
        return None if seam.in_run() else await original(self, *args, **kwargs)

    return nothing


def _submit(original: Any) -> Callable[..., Any]:
    """Work for langchain's pool is a branch of its own. langchain would run it in a copy of its caller's context."""

    def submit(self: Any, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not seam.in_run():
            return original(self, func, *args, **kwargs)
        context = getattr(func, "__self__", None)
        if not isinstance(context, Context):
            return ThreadPoolExecutor.submit(self, func, *args, **kwargs)
        if args and getattr(args[0], "__name__", "") == "wait":  # for a stream's next piece: as often as it happens
            return outside(original, self, func, *args, **kwargs)

        def work() -> Any:  # langgraph brings a copy of the context itself
            context.run(here.set, here.get())
            return func(*args, **kwargs)

        return ThreadPoolExecutor.submit(self, work)

    return submit


def _map(original: Any) -> Callable[..., Any]:
    def submit_each(self: Any, fn: Any, *iterables: Any, **kwargs: Any) -> Any:
        return (Executor.map if seam.in_run() else original)(self, fn, *iterables, **kwargs)

    return submit_each


def _patch_tracing() -> Callable[[], None]:
    """Whether LangSmith's tracing is on is asked in each call of a model, tool or chain."""
    tracers = importlib.import_module("langchain_core.tracers.langchain")
    context: Any = importlib.import_module("langchain_core.tracers.context")
    askers = [context, importlib.import_module("langchain_core.callbacks.manager")]
    real = context._tracing_v2_is_enabled

    def is_enabled() -> Any:
        found = real()
        if not found or not seam.in_run():
            return found
        if replaying():
            return False
        outside(tracers.get_client)  # made once, and it starts threads
        return found

    def put(function: Any) -> None:
        for module in askers:
            if hasattr(module, "_tracing_v2_is_enabled"):
                module._tracing_v2_is_enabled = function

    put(is_enabled)
    return lambda: put(real)
