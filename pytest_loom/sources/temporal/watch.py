"""What today's workflow code asks for while the SDK replays it: every command, with the line that asked for it.

``Watch`` stands around the SDK's workflow runner (its public interface) and sees each activation and what came of it.
The line, and signals that nobody takes, are read from the SDK's own instance, where it has what is looked for; without
that they are left out.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import temporalio
from temporalio.worker import (
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowOutboundInterceptor,
    WorkflowRunner,
)

_NOT_THEIRS = (os.path.dirname(temporalio.__file__) + os.sep, os.path.dirname(os.__file__) + os.sep, "<")
_WAIT_CONDITION = "workflow_wait_condition"
_THEIRS = ("site-packages", "dist-packages")
"""Below the standard library's folder, and yet not part of it."""


@dataclass
class Command:
    """One command of the code: its ``kind`` and ``message`` in SDK Core's protobuf, and where it was asked for.

    ``task`` is the id of the event with which the workflow task began, ``returns`` the type that the code has its
    answer decoded to, None where it says none.
    """

    kind: str
    message: Any
    line: str
    task: int
    returns: Any = None


@dataclass
class Seen:
    """What was seen of one replay.

    ``failure``: of the activation that failed, as the SDK's Failure message, with its ``jobs``. ``waits_at``: the line
    at which the code waited last, ``waits_for_condition``: in ``workflow.wait_condition`` itself. ``unread``: signals
    without a handler, by name. ``dropped``: signals whose handler could not take them: name and why. The rest is of the
    activation that goes on.
    """

    commands: list[Command] = field(default_factory=list)
    task: int = 0
    failure: Any = None
    jobs: list[Any] = field(default_factory=list)
    waits_at: str = ""
    waits_for_condition: bool = False
    unread: dict[str, int] = field(default_factory=dict)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    returns: dict[str, list[Any]] = field(default_factory=dict)
    instance: Any = None


class Watch:
    """The notes of the replay that is going on. ``ahead_from``: from this event on, the code is ahead of its record."""

    def __init__(self, copies: bool) -> None:
        self.copies = copies
        self.ahead_from = 0
        self.seen = Seen()

    @contextmanager
    def watching(self, ahead_from: int) -> Iterator[Seen]:
        """A replay: its notes, on a fresh page."""
        self.ahead_from = ahead_from
        self.seen = Seen()
        with _hooked(self):
            yield self.seen

    def around(self, runner: WorkflowRunner) -> WorkflowRunner:
        """The same runner, watched."""
        return _Runner(self, runner)

    def interceptor(self) -> Interceptor:
        """What notes the types that answers are decoded to."""
        watch = self

        class Outbound(_Outbound):
            noted = watch

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(Outbound(outbound))

        return _Interceptor(Inbound)

    def activated(self, activation: Any, completion: Any) -> None:
        """Note what came of an activation; where the code is ahead of its record, keep it from SDK Core."""
        seen = self.seen
        seen.task = activation.history_length
        if completion.HasField("failed"):
            seen.failure, seen.jobs = completion.failed.failure, list(activation.jobs)
            return
        lines = iter(seen.lines)
        for command in completion.successful.commands:
            kind = command.WhichOneof("variant") or ""
            message = getattr(command, kind, None)
            if self.copies and message is not None:  # a codec will encode it where it stands
                message = type(message).FromString(message.SerializeToString())
            returns = seen.returns.get(kind)
            seen.commands.append(
                Command(kind, message, next(lines, ""), seen.task, returns.pop(0) if returns else None)
            )
        seen.waits_at, seen.waits_for_condition = _waits_at(seen.instance)
        buffered = getattr(seen.instance, "_buffered_signals", {})
        if buffered or seen.unread:
            seen.unread = {name: len(jobs) for name, jobs in buffered.items()}
        if self.ahead_from and seen.task >= self.ahead_from:
            del completion.successful.commands[:]


class _Interceptor(Interceptor):
    def __init__(self, kind: type[WorkflowInboundInterceptor]) -> None:
        self.kind = kind

    def workflow_interceptor_class(self, input: Any) -> type[WorkflowInboundInterceptor]:
        return self.kind


class _Outbound(WorkflowOutboundInterceptor):
    noted: Watch

    def _note(self, kind: str, returns: Any) -> None:
        self.noted.seen.returns.setdefault(kind, []).append(returns)

    def start_activity(self, input: Any) -> Any:
        self._note("schedule_activity", input.ret_type)
        return super().start_activity(input)

    def start_local_activity(self, input: Any) -> Any:
        self._note("schedule_local_activity", input.ret_type)
        return super().start_local_activity(input)

    async def start_child_workflow(self, input: Any) -> Any:
        self._note("start_child_workflow_execution", input.ret_type)
        return await super().start_child_workflow(input)


class _Runner(WorkflowRunner):
    def __init__(self, watch: Watch, runner: WorkflowRunner) -> None:
        self.watch = watch
        self.runner = runner

    def prepare_workflow(self, defn: Any) -> None:
        self.runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(self.watch, self.runner.create_instance(det))

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        self.runner.set_worker_level_failure_exception_types(types)


class _Instance(WorkflowInstance):
    def __init__(self, watch: Watch, instance: WorkflowInstance) -> None:
        self.watch = watch
        self.instance = instance

    def activate(self, act: Any) -> Any:
        self.watch.seen.lines.clear()
        self.watch.seen.returns.clear()
        completion = self.instance.activate(act)
        if not any(job.HasField("remove_from_cache") for job in act.jobs):
            self.watch.activated(act, completion)
        return completion

    def get_serialization_context(self, command_info: Any) -> Any:
        return self.instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self.instance.get_external_store_context(command_info)

    def get_info(self) -> Any:
        return self.instance.get_info()

    def get_thread_id(self) -> int | None:
        thread: int | None = self.instance.get_thread_id()
        return thread


def is_theirs(filename: str) -> bool:
    """Whether a file is the application's, and not the SDK's, ours or Python's."""
    if filename.startswith(_NOT_THEIRS[0]) or filename == __file__ or filename.startswith("<"):
        return False
    return not filename.startswith(_NOT_THEIRS[1]) or any(part in filename for part in _THEIRS)


def _line_of(frame: FrameType | None) -> str:
    """The application's line that led to ``frame``."""
    while frame is not None:
        if is_theirs(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _waits_at(instance: Any) -> tuple[str, bool]:
    """The innermost line of the application at which the workflow's main task waits; whether it does for a condition.

    That is seen in the SDK's own method, of which the chain of waits has a frame; ``asyncio.wait_for`` of Python 3.11
    has what it waits for in a task of its own.
    """
    task = getattr(instance, "_primary_task", None)
    waiting = None if task is None or task.done() else task.get_coro()
    line, condition = "", False
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None)
        inner: Any = None
        if frame is not None:
            name, file = frame.f_code.co_name, frame.f_code.co_filename
            line = f"{file}:{frame.f_lineno}" if is_theirs(file) else line
            condition |= name == _WAIT_CONDITION and file.startswith(_NOT_THEIRS[0])
            inner = frame.f_locals.get("fut") if name == "wait_for" else None
        waiting = inner.get_coro() if isinstance(inner, asyncio.Task) else getattr(waiting, "cr_await", None)
    return line, condition


@contextmanager
def _hooked(watch: Watch) -> Iterator[None]:
    """Have the SDK's workflow instance tell what its interface does not, as long as the block lasts."""
    from temporalio.worker import _workflow_instance as sdk

    kind: Any = sdk._WorkflowInstanceImpl
    made, add = kind.__init__, getattr(kind, "_add_command", None)
    decode = getattr(kind, "_process_handler_args", None)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        watch.seen.instance = self

    def _add_command(self: Any) -> Any:
        watch.seen.lines.append(_line_of(sys._getframe(1)))
        return add(self)  # type: ignore[misc]

    def _process_handler_args(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return decode(self, *args, **kwargs)  # type: ignore[misc]
        except Exception as problem:
            watch.seen.dropped.append((str(args[0]), _said(problem)))
            raise

    kind.__init__ = __init__
    if add is not None:
        kind._add_command = _add_command
    if decode is not None:
        kind._process_handler_args = _process_handler_args
    try:
        yield
    finally:
        kind.__init__ = made
        if add is not None:
            kind._add_command = add
        if decode is not None:
            kind._process_handler_args = decode


def _said(problem: BaseException) -> str:
    """An exception with what caused it, in one line."""
    cause = problem.__cause__
    return f"{type(problem).__name__}: {problem}" if cause is None else _said(cause)
