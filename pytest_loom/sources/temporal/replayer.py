"""Temporal's own Replayer, for all workflow classes and all histories of a simulation, in a process of its own.

To be made in a child that can be killed (``deploy.shadow``): the SDK hangs on what it does not expect, and nothing
inside of its loop frees it. One Replayer serves all histories of a class, with the application's modules passed
through its sandbox, so that a history costs milliseconds; one history of each class also goes through the sandbox as
production has it, which says what today's code may not touch. Nothing is printed and no activity runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.log.files import read_document
from pytest_loom.sources.temporal.commands import (
    asked_for,
    beyond,
    changes,
    command_name,
    event_in_words,
    event_name,
    first_difference,
    given,
    in_words,
    pairs,
    renamed,
)
from pytest_loom.sources.temporal.history import ENDS, Run, parse_history
from pytest_loom.sources.temporal.messages import (
    core_message,
    failure_facts,
    is_deadlock,
    is_nondeterminism,
    named_event,
)
from pytest_loom.sources.temporal.raw import decoded_at, news_from, raw_events, with_news
from pytest_loom.sources.temporal.settings import Settings
from pytest_loom.sources.temporal.types import schema_of
from pytest_loom.sources.temporal.watch import Command, Seen, Watch, is_theirs

_TO_END = 5.0
_RESTRICTED = "RestrictedWorkflowAccessError"


class Replays:
    """What today's workflow classes do on recorded histories.

    ``flows`` are the classes with their settings, by a key of the caller's; ``run`` takes ``{"flow", "path", "run",
    "length"}``: that key, the history file, and which of its runs, by execution id and number of events. ``{"ready"}``
    shows that it works.
    """

    def __init__(self, flows: dict[str, tuple[type, Settings]], *, under_sandbox: bool = True) -> None:
        self.flows = flows
        self.under_sandbox = under_sandbox
        self.loop = asyncio.new_event_loop()
        self.runtime: Any = _silent_runtime()
        self.sessions: dict[tuple[str, bool], _Session] = {}
        self.strict: dict[str, bool] = {}
        self.file: tuple[tuple[str, int, int], list[Run | LogError]] = (("", 0, 0), [])

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the SDK and the code say: ``{"outcome": "passed" | "diverged" | "raised" | "unreadable", …}``."""
        asyncio.set_event_loop(self.loop)
        if "ready" in request:
            return self._ready()
        found = self._run(request)
        if isinstance(found, str):
            return {"outcome": "unreadable", "message": found}
        return self.loop.run_until_complete(self._replay(request["flow"], found))

    def _ready(self) -> dict[str, Any]:
        """One replay of next to nothing."""
        from pytest_loom.sources.temporal.probe import Probe, history

        (run,) = parse_history(json.dumps(history()).encode())
        if isinstance(run, LogError):
            raise run
        return self.loop.run_until_complete(_Session(Probe, Settings(), self.runtime, strict=False).replay(run))

    def _run(self, request: dict[str, Any]) -> Run | str:
        path = Path(request["path"])
        facts = path.stat()
        known = (str(path), facts.st_mtime_ns, facts.st_size)
        if self.file[0] != known:  # several runs lie in one file
            self.file = (known, list(parse_history(read_document(path), str(path))))
        runs = [run for run in self.file[1] if isinstance(run, Run)]
        fitting = [run for run in runs if len(run.events) == request["length"]]
        named = [run for run in fitting if request["run"] in (_run_id(run), _workflow_id(run))]
        if named or len(fitting) == 1:
            return (named or fitting)[0]
        return "the file does not hold this run any more"

    async def _replay(self, key: str, run: Run) -> dict[str, Any]:
        strict = self.strict.get(key, False)
        answer = await self._replay_in(key, run, strict=strict)
        if not self.under_sandbox or key in self.strict or answer["outcome"] != "passed":
            return answer
        self.strict[key] = False
        if not self.flows[key][1].has_sandbox:
            return answer
        under = await self._replay_in(key, run, strict=True)
        await self._close((key, True))
        if under["outcome"] == "raised" and _RESTRICTED in under["all"]:
            self.strict[key] = True
            return under
        return answer

    async def _replay_in(self, key: str, run: Run, *, strict: bool) -> dict[str, Any]:
        session = self.sessions.get((key, strict))
        if session is None:
            session = self.sessions[key, strict] = _Session(*self.flows[key], self.runtime, strict=strict)
        try:
            return await session.replay(run)
        except Exception as problem:  # the worker is of no use any more
            self.sessions.pop((key, strict), None)
            return _raised_outside(problem)

    def close(self) -> None:
        """End the SDK's workers, and the loop."""
        for key in list(self.sessions):
            self.loop.run_until_complete(self._close(key))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        self.runtime = None

    async def _close(self, key: tuple[str, bool]) -> None:
        session = self.sessions.pop(key, None)
        if session is not None:
            await session.close()


class _Session:
    """One Replayer, to which histories are fed one after the other."""

    def __init__(self, flow: type, settings: Settings, runtime: Any, *, strict: bool) -> None:
        from temporalio.worker import Replayer

        self.codec = getattr(settings.config.get("data_converter"), "payload_codec", None)
        self.name = getattr(vars(flow)["__temporal_workflow_definition"], "name", None) or "unknown"
        self.watch = Watch(copies=settings.rewrites)
        config = {name: value for name, value in settings.config.items() if name in _parameters(Replayer)}
        for name in ("workflow_runner", "unsandboxed_workflow_runner"):
            runner = settings.runner(name)
            config[name] = self.watch.around(runner if strict else _passing_through(runner))
        config |= {"workflows": [flow], "runtime": runtime, "workflow_task_executor": _Threads()}
        config["interceptors"] = [self.watch.interceptor(), *config.get("interceptors", ())]
        config |= {"build_id": config.get("build_id") or "pytest-loom"}
        self.replayer = Replayer(**config)
        self.replayer.plugins = settings.plugins  # which have set up the configuration already
        self.schemas: dict[Any, Any] = {}
        self.histories: asyncio.Queue[Any] = asyncio.Queue()
        self.results: Any = None
        self.context: Any = None

    async def replay(self, run: Run) -> dict[str, Any]:
        from temporalio.client import WorkflowHistory

        events, ahead_from = with_news(run, raw_events(run, self.name))
        try:
            document = msgspec.json.encode({"events": events}).decode()  # of a dict the SDK makes a deep copy first
            history = WorkflowHistory.from_json(_workflow_id(run) or "unknown", document)
        except Exception as problem:
            return _unreadable(run, f"the SDK cannot read it ({type(problem).__name__}: {problem})")
        if self.results is None:
            self.context = self.replayer.workflow_replay_iterator(self._fed())
            self.results = await self.context.__aenter__()
        with self.watch.watching(ahead_from) as seen:
            self.histories.put_nowait(history)
            failure = (await anext(self.results)).replay_failure
        recorded = list(history.events)[: len(run.events)]
        return await self._answer(run, recorded, seen, failure)

    async def _fed(self) -> AsyncIterator[Any]:
        while True:
            yield await self.histories.get()

    async def _answer(self, run: Run, recorded: list[Any], seen: Seen, problem: Exception | None) -> dict[str, Any]:
        asked = [one for one in given(seen.commands, recorded) if not _is_ahead(self.watch, one.task)]
        if problem is None:
            return {
                "outcome": "passed",
                "asked": asked_for(asked),
                "renamed": renamed(recorded, asked),
                "beyond": _beyond(run, recorded, asked, waits=seen.waits_for_condition),
                **self._returns(recorded, asked),
                "changes": [change async for change in self._changes(recorded, asked)],
                "unread": dict(seen.unread),
                "dropped": seen.dropped,
                "news": news_from(run),
                "waitsAt": seen.waits_at,
            }
        text = str(problem)
        if seen.failure is not None and not is_nondeterminism(text):
            facts = failure_facts(seen.failure, is_theirs)
            if "Unknown payload encoding" in facts["all"] or "Failed decoding arguments" in facts["all"]:
                at = decoded_at(run)
                if at or "Unknown payload encoding" in facts["all"]:
                    return _unreadable(run, facts["message"])
            done = {"outcome": "raised", **facts, "about": _about(seen), "event": seen.task}
            return done | {"ahead": _is_ahead(self.watch, seen.task)}
        message = core_message(text)
        if is_deadlock(text):
            return {"outcome": "hung", "message": message, "line": seen.waits_at}
        if not is_nondeterminism(text):
            return {"outcome": "raised", "type": "", "message": message, "all": message, "line": "", "through": []}
        facts = _divergence(recorded, asked, seen, message)
        return {"outcome": "diverged", "message": message, "unheard": _unheard(run, seen, facts["event"]), **facts}

    def _returns(self, recorded: list[Any], asked: list[Any]) -> dict[str, Any]:
        """``returns``: by the id of the event that asked, the place in ``types`` of the answer's JSON schema."""
        returns: dict[str, int] = {}
        types: list[Any] = []
        for event, command in pairs(recorded, asked):
            if command.returns is None or event_name(event) != command_name(command):
                continue
            schema = self.schemas.get(command.returns)
            if schema is None:
                schema = schema_of(command.returns) or {}
                schema = schema if "properties" in str(schema) else {}  # in a plain value no key can be lost
                self.schemas[command.returns] = schema
            if schema:
                if schema not in types:
                    types.append(schema)
                returns[str(event.event_id)] = types.index(schema)
        return {"returns": returns, "types": types}

    async def _changes(self, recorded: list[Any], asked: list[Any]) -> AsyncIterator[dict[str, Any]]:
        if self.codec is None:
            for change in changes(recorded, asked, lambda items: items):
                yield change
            return
        encoded: list[list[Any]] = []

        def note(items: list[Any]) -> list[Any]:
            encoded.append(items)
            return items

        list(changes(recorded, asked, note))
        plain = iter([await self.codec.decode(items) for items in encoded])
        for change in changes(recorded, asked, lambda items: next(plain)):
            yield change

    async def close(self) -> None:
        """End the SDK's worker."""
        if self.context is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self.context.__aexit__(None, None, None), _TO_END)


class _Threads(ThreadPoolExecutor):
    """Threads in which the guard of whoever asks holds too."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return super().submit(copy_context().run, fn, *args, **kwargs)


def _divergence(recorded: list[Any], asked: list[Any], seen: Seen, message: str) -> dict[str, Any]:
    """Where the code parted from its record, by comparing both; by Core's message where that shows no difference."""
    place = first_difference(recorded, asked)
    at = named_event(message)
    facts: dict[str, Any] = {"event": at, "recorded": "", "instead": "", "step": "", "line": seen.waits_at}
    if place is None:
        return facts
    if place.event is not None:
        facts |= {"event": place.event.event_id, "recorded": event_in_words(place.event)}
        facts["step"] = event_name(place.event)
    if place.command is not None:
        facts |= {"instead": in_words(place.command.kind, place.command.message), "line": place.command.line}
        facts["line"] = place.command.line or _raised_at(place.command) or seen.waits_at
    return facts


def _unheard(run: Run, seen: Seen, before: int) -> dict[str, Any] | None:
    """The last signal before an event that no handler took, with ``why`` it was dropped, "" where there is none."""
    why = dict.fromkeys(seen.unread, "") | dict(seen.dropped)
    for event in reversed(run.events):
        if event.kind == "WorkflowExecutionSignaled" and (not before or event.event_id < before):
            name = event.attributes.text("signalName")
            if name in why:
                return {"event": event.event_id, "signal": name, "why": why[name]}
    return None


def _raised_at(command: Command) -> str:
    """The line that raised, for the end of a run by an error."""
    failed = command.kind == "fail_workflow_execution"
    return str(failure_facts(command.message.failure, is_theirs)["line"]) if failed else ""


def _beyond(run: Run, recorded: list[Any], asked: list[Command], *, waits: bool) -> dict[str, Any] | None:
    """What the code of an unfinished run asks for where the recorded code asked for nothing more, and waited.

    ``waits``: it waits for a condition itself. ``beside`` the wait is a timer that is all that it asks for then.
    """
    if run.partial or run.events[-1].kind in ENDS:
        return None
    more = beyond(recorded, asked)
    if more is None:
        return None
    beside = waits and all(one.kind == "start_timer" for one in asked[asked.index(more) :])
    return {"what": in_words(more.kind, more.message), "step": command_name(more), "line": more.line, "beside": beside}


def _is_ahead(watch: Watch, task: int) -> bool:
    return bool(watch.ahead_from) and task >= watch.ahead_from


def _about(seen: Seen) -> str:
    """What was handed to the code when it failed: ``input``, ``result of NAME``, ``signal NAME``, …"""
    told = []
    for job in seen.jobs:
        kind = job.WhichOneof("variant")
        message = getattr(job, kind)
        if kind == "initialize_workflow":
            told.append("input")
        elif kind in ("resolve_activity", "resolve_child_workflow_execution"):
            told += [_name(command) for command in seen.commands if _is_answer(command, kind, message.seq)]
        elif kind == "signal_workflow":
            told.append(f"signal {message.signal_name}")
        elif kind == "do_update":
            told.append(f"update {message.name}")
    return ", ".join(dict.fromkeys(told))


_ANSWERED = {
    "schedule_activity": "resolve_activity",
    "schedule_local_activity": "resolve_activity",
    "start_child_workflow_execution": "resolve_child_workflow_execution",
}


def _is_answer(command: Any, kind: str, seq: int) -> bool:
    return _ANSWERED.get(command.kind) == kind and command.message.seq == seq


def _name(command: Any) -> str:
    message = command.message
    return str(getattr(message, "activity_type", "") or getattr(message, "workflow_type", ""))


def _unreadable(run: Run, why: str) -> dict[str, Any]:
    at = decoded_at(run)
    return {"outcome": "unreadable", "decoded": at, "message": why, "encoding": "Unknown payload encoding" in why}


def _raised_outside(problem: Exception) -> dict[str, Any]:
    """The Replayer itself could not do its work: a workflow that cannot be set up, an interceptor that raises."""
    cause: BaseException = problem
    while cause.__cause__ is not None:
        cause = cause.__cause__
    said = f"{type(cause).__name__}: {cause}"
    return {
        "outcome": "raised",
        "type": type(cause).__name__,
        "message": str(cause)[:600],
        "outer": str(problem)[:600],
        "all": said[:600],
        "line": "",
        "through": [],
        "about": "",
        "event": 0,
    }


def _run_id(run: Run) -> str:
    return run.events[0].attributes.text("originalExecutionRunId")


def _workflow_id(run: Run) -> str:
    return run.events[0].attributes.text("workflowId")


def _passing_through(runner: Any) -> Any:
    """The runner with every module passed through its sandbox, where it has one."""
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner
    return dataclasses.replace(runner, restrictions=runner.restrictions.with_passthrough_all_modules())


def _silent_runtime() -> Any:
    """The SDK's threads, that say nothing. They end when the last who knows of it does."""
    from temporalio.runtime import Runtime, TelemetryConfig

    return Runtime(telemetry=TelemetryConfig(logging=None))


def _parameters(kind: Any) -> set[str]:
    """What this version of the SDK takes."""
    return set(inspect.signature(kind).parameters)
