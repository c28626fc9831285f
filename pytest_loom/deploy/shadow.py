"""A process of its own in which today's code is asked what it would do with a waiting run, and that can be killed.

It is forked from this one, so that it has today's flow as it is, and does nothing else: the live-call guard is on for
all of its threads, and it is cut off as ``apart`` cuts off a copy that lives for one question. Here one process serves
the runs of a flow one after the other; where it does not answer in time, it is killed, and the next run gets a new one.
What runs in it is the framework's own: ``_SHADOWS``.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import select
import signal
import struct
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from typing import Any

import msgspec

from pytest_loom.deploy.apart import cut_loose, missed, shut

SECONDS = 10.0
"""How long a run may take to answer; most take some milliseconds."""

_SHADOWS = dict.fromkeys(("langgraph", "langchain_core"), "pytest_loom.sources.langgraph.shadow:Shadow")
"""What runs in the process, by the package that the flow comes from: made with the flow, then ``run(request)``."""

_MAX_WORKERS = 4
_MAX_ANSWER = 64 * 1024 * 1024


class NoAnswer(Exception):
    """The process did not answer, or cannot be had here. The text says why."""


def shadow_of(
    flow: Any, request: dict[str, Any], *, seconds: float = SECONDS, target: str | None = None
) -> dict[str, Any] | None:
    """What today's flow does with the run of ``request``; None where there is no shadow for such flows.

    ``target`` is what runs in the process, where the flow's own type does not tell.

    Raises NoAnswer where it did not come to an end.
    """
    target = target or _SHADOWS.get(type(flow).__module__.partition(".")[0])
    if target is None or not hasattr(os, "fork"):
        return None
    worker = _workers.get(id(flow))
    if worker is None:
        while len(_workers) >= _MAX_WORKERS:
            _workers.pop(next(iter(_workers))).close()
        worker = _workers[id(flow)] = Worker(flow, target)
    try:
        return worker.ask(request, seconds)
    except NoAnswer:
        _workers.pop(id(flow), None)
        worker.close()
        raise


class Worker:
    """The process of one flow. ``flow`` is held, so that its id stays its own."""

    def __init__(self, flow: Any, target: str) -> None:
        self.flow = flow
        self.owner = os.getpid()
        request_read, self.requests = os.pipe()
        self.answers, answer_write = os.pipe()
        tempfile.gettempdir()  # finds its folder by writing to it, once, which the child cannot
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other threads may hold locks for ever in the copy: then it is killed
            self.pid = os.fork()
        if not self.pid:
            _live(flow, target, request_read, answer_write, (self.requests, self.answers))
        os.close(request_read)
        os.close(answer_write)

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises NoAnswer."""
        deadline = time.monotonic() + seconds
        data = msgspec.json.encode(request)
        try:
            _send(self.requests, data, deadline)
            (size,) = struct.unpack("!Q", _receive(self.answers, 8, deadline))
            if size > _MAX_ANSWER:
                raise NoAnswer("its answer is too long")
            answer = msgspec.json.decode(_receive(self.answers, size, deadline))
        except OSError as problem:
            raise NoAnswer(f"its process ended: {problem.strerror}") from None
        if not isinstance(answer, dict):
            raise NoAnswer("its answer has not the shape of one")
        if "failed" in answer:
            raise NoAnswer(str(answer["failed"]))
        return answer

    def close(self) -> None:
        """End the process."""
        if os.getpid() != self.owner or not self.pid:
            return
        for handle in (self.requests, self.answers):
            with suppress(OSError):
                os.close(handle)
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(self.pid, 0)
        self.pid = 0


_workers: dict[int, Worker] = {}


@atexit.register
def close_shadows() -> None:
    """End all processes. Happens by itself when this one ends."""
    while _workers:
        _workers.popitem()[1].close()


def _left(deadline: float) -> float | None:
    return None if deadline == float("inf") else max(0.0, deadline - time.monotonic())


def _send(handle: int, data: bytes, deadline: float) -> None:
    view = memoryview(struct.pack("!Q", len(data)) + data)
    os.set_blocking(handle, False)
    while view:
        if not select.select([], [handle], [], _left(deadline))[1]:
            raise NoAnswer("it did not come to an end in time")
        view = view[os.write(handle, view[: 1 << 16]) :]


def _receive(handle: int, size: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while size:
        if not select.select([handle], [], [], _left(deadline))[0]:
            raise NoAnswer("it did not come to an end in time")
        part = os.read(handle, min(size, 1 << 20))
        if not part:
            raise NoAnswer("its process ended by itself")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


# In the process of its own -------------------------------------------------------------------------------------------


def _live(flow: Any, target: str, requests: int, answers: int, others: tuple[int, ...]) -> None:
    """The life of the process: it never returns to where it was forked."""
    status = 1
    try:
        for handle in others:
            os.close(handle)
        cut_loose(requests, answers)
        shut()
        gc.freeze()  # what has threads in the parent may wait for them for ever when it is collected here
        _quiet()
        _serve(flow, target, requests, answers)
        status = 0
    finally:
        os._exit(status)


def _quiet() -> None:
    import logging

    logging.disable(logging.CRITICAL)  # a handler may send what it is given
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    sys.dont_write_bytecode = True


def _serve(flow: Any, target: str, requests: int, answers: int) -> None:
    from pytest_loom.flow import guard

    module, _, name = target.partition(":")
    made = getattr(importlib.import_module(module), name)
    hint = "Nothing live runs in a shadow."
    with guard.closed(during="during a shadow resume", hint=hint, everywhere=True) as closed:
        shadow: Any = None
        while True:
            try:
                (size,) = struct.unpack("!Q", _receive(requests, 8, float("inf")))
                request = msgspec.json.decode(_receive(requests, size, float("inf")))
            except (NoAnswer, struct.error):
                return
            closed.calls.clear()
            missed.clear()
            try:
                shadow = shadow or made(flow)
                answer = shadow.run(request)
                answer["live"] = [str(call.what) for call in closed.calls]
                answer["missed"] = bool(missed)
            except BaseException as problem:
                answer = {"failed": f"{type(problem).__name__}: {problem}"[:500]}
            try:
                data = msgspec.json.encode(answer)
            except (TypeError, ValueError, RecursionError) as problem:
                data = msgspec.json.encode({"failed": f"its answer cannot be said in JSON: {problem}"})
            view = memoryview(struct.pack("!Q", len(data)) + data)
            while view:
                view = view[os.write(answers, view) :]
