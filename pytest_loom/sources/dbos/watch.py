"""Stands between DBOS and its database while a run is replayed: decides what is in the record, and where it ends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import inspect
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pytest_loom.sources.dbos.recorded import PATCH, TIMER, WAITS
from pytest_loom.sources.dbos.revive import MARK, Unknown

_SECONDS = 2.0
"""How long it is waited for branches that run at the same time to ask for what they have in the record."""

_GUESS = """INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output)
VALUES (:run, :number, :name, :output)"""


class Stop(BaseException):
    """The run has come to where it would go on live."""


UNKNOWN = base64.b64encode(pickle.dumps(Unknown())).decode()


class Watch:
    """Stands between DBOS and its database while one run is replayed, and says what came of it."""

    def __init__(self, database: Any, record: dict[str, Any], body: Any) -> None:
        self.database = database
        self.id = record["id"]
        self.body = body
        self.record = record
        self.recorded = {one["id"]: one for one in record["operations"]}
        self.mail = [letter["topic"] for letter in record["mail"]]
        self.seen: set[int] = set()
        self.timers: set[int] = set()
        self.topics: list[str | None] = []
        self.guesses: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {}
        self.coroutine: Any = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Until the block ends, the database asks here."""
        wrapped = {
            "_check_operation_execution_txn": self._checking,
            "record_get_result": self._taking_result,
            "recv": self._receiving,
            "recv_async": self._receiving_async,
            "await_workflow_result": self._awaiting,
            "await_workflow_result_async": self._awaiting,
            "patch": self._patching,
            "deprecate_patch": self._patching,
            "get_checkpoint_name": self._patching,
        }
        for name, wrap in wrapped.items():
            if hasattr(self.database, name):
                setattr(self.database, name, wrap(getattr(self.database, name)))
        try:
            yield
        finally:
            for name in wrapped:
                vars(self.database).pop(name, None)

    def end(self, outcome: str, **facts: Any) -> None:
        """Say how the run ended; the first word counts."""
        if not self.answer:
            last = max(self.seen, default=0)
            self.answer = {"outcome": outcome, "last": last, "topics": self.topics, "guesses": self.guesses, **facts}
            self.answer.setdefault("line", "")

    def stop(self, outcome: str, **facts: Any) -> Any:
        """End the run here."""
        self._let_others_ask(facts.get("id"))
        self.end(outcome, line=self.line(), **facts)
        raise Stop

    def line(self) -> str:
        """Where the workflow's own code stands, as file:line."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self.body:
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        awaited = self.coroutine
        while awaited is not None:
            if getattr(awaited, "cr_code", None) is self.body and awaited.cr_frame is not None:
                return f"{awaited.cr_code.co_filename}:{awaited.cr_frame.f_lineno}"
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        return ""

    # What DBOS asks --------------------------------------------------------------------------------------------------

    def _checking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def check(workflow_id: str, function_id: int, function_name: str, *args: Any, **kwargs: Any) -> Any:
            if workflow_id != self.id:
                return self.stop("steps", id=None, name=function_name)
            if self.answer:
                raise Stop
            self.seen.add(function_id)
            try:
                found = original(workflow_id, function_id, function_name, *args, **kwargs)
            except Exception as problem:
                if type(problem).__name__ != "DBOSUnexpectedStepError":
                    raise
                self.end(
                    "differs",
                    id=function_id,
                    name=function_name,
                    recorded=self.recorded[function_id]["name"],
                    line=self.line(),
                )
                raise Stop from None
            if found is not None:
                return self._known(function_id, function_name, found)
            if function_name in WAITS or function_id in self.timers:
                return self._wait(function_id, function_name)
            self._unknown(function_id, function_name, args[0] if args else kwargs["conn"])
            return original(workflow_id, function_id, function_name, *args, **kwargs)

        return check

    def _known(self, number: int, name: str, found: Any) -> Any:
        """What is recorded, unless it is a timer that is still running."""
        wakes = self.recorded.get(number, {}).get("output")
        is_last = name == TIMER and number not in self.timers and number == max(self.recorded)
        if is_last and isinstance(wakes, (int, float)) and wakes > time.time():
            return self.stop("timer", id=number, name=name)
        return found

    def _wait(self, number: int, name: str) -> Any:
        if number in self.timers or name == "DBOS.recv":
            return None  # receiving has seen to it
        if number + 1 in self.recorded:
            self.timers.add(number + 1)
            self.database.check_operation_execution(self.id, number + 1, TIMER)
        return self.stop("waits", id=number, name=name)

    def _unknown(self, number: int, name: str, connection: Any) -> None:
        """Not in the record: the end, or, where more is recorded, a value that may be handed on only."""
        if not any(one > number for one in self.recorded):
            self.stop("steps", id=number, name=name)
        self.guesses.append({"id": number, "name": name, "line": self.line()})
        if name in self.database_workflows():
            self.stop("untold", id=number, name=name)
        text: Any = importlib.import_module("sqlalchemy").text
        row = {"run": self.id, "number": number, "name": name, "output": UNKNOWN}
        connection.execute(text(_GUESS), row)

    def database_workflows(self) -> set[str]:
        """The names under which child workflows would be started."""
        registry: Any = importlib.import_module("dbos._dbos")._get_or_create_dbos_registry()
        return set(registry.workflow_info_map)

    def _patching(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def patched(*, workflow_id: str, function_id: int, **kwargs: Any) -> Any:
            if self.answer:
                raise Stop
            found = original(workflow_id=workflow_id, function_id=function_id, **kwargs)
            if workflow_id == self.id and (found is True or found == kwargs.get("patch_name", object())):
                self.seen.add(function_id)
                if function_id not in self.recorded and any(one > function_id for one in self.recorded):
                    name = str(kwargs.get("patch_name", "DBOS.patch"))
                    self.guesses.append({"id": function_id, "name": name, "line": self.line()})
            return found

        return patched

    def _taking_result(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def taking(*args: Any, **kwargs: Any) -> Any:
            current: Any = importlib.import_module("dbos._context").get_local_dbos_context
            context = kwargs.get("ctx") or (args[4] if len(args) > 4 else None) or current()
            found = original(*args, **kwargs)
            if context is not None and context.workflow_id == self.id:
                number = context.function_id
                self.seen.add(number)
                if number not in self.recorded and any(one > number for one in self.recorded):
                    self.guesses.append({"id": number, "name": "DBOS.getResult", "line": self.line()})
            return found

        return taking

    def transaction(self, workflow_id: str, number: int, name: str) -> dict[str, Any]:
        """What is recorded of a transaction of DBOS 2.x: it is in the application's database, and not read."""
        if self.answer:
            raise Stop
        self.seen.add(number)
        if workflow_id != self.id or not any(one > number for one in self.recorded):
            self.stop("steps", id=number, name=name)
        return {"output": UNKNOWN, "error": None, "serialization": None}

    def _before_receiving(self, original: Callable[..., Any], args: Any, kwargs: Any) -> None:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        number, timer, topic = given["function_id"], given["timeout_function_id"], given.get("topic")
        if self.answer:
            raise Stop
        self.timers.add(timer)
        self.database.check_operation_execution(self.id, number, "DBOS.recv")
        if number in self.recorded:
            return
        if isinstance(topic, str) and MARK in topic:
            self.stop("untold", id=number, name="DBOS.recv")
        self.topics.append(topic)
        if timer in self.recorded or topic not in self.mail:
            self.database.check_operation_execution(self.id, timer, TIMER)
        if topic not in self.mail:
            self.stop("waits", id=number, name="DBOS.recv", topic=topic)
        self.mail.remove(topic)

    def _receiving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def receive(*args: Any, **kwargs: Any) -> Any:
            self._before_receiving(original, args, kwargs)
            return original(*args, **kwargs)

        return receive

    def _receiving_async(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def receive(*args: Any, **kwargs: Any) -> Any:
            self._before_receiving(original, args, kwargs)
            return await original(*args, **kwargs)

        return receive

    def _awaiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(workflow_id: str, *args: Any, **kwargs: Any) -> Any:
            if self.answer:
                raise Stop
            child = self.record["children"].get(workflow_id)
            if child is None or child["status"] in ("PENDING", "ENQUEUED", "DELAYED"):
                self.stop("waits", id=None, name="DBOS.getResult", child=workflow_id)
            return original(workflow_id, *args, **kwargs)

        return wait

    def _let_others_ask(self, number: int | None) -> None:
        """Where branches run at the same time: wait until those before this one have asked for what is theirs."""
        if self.coroutine is None:
            return
        until = time.monotonic() + _SECONDS
        ours = {one for one in self.recorded if (number is None or one < number) and not self._is_passed(one)}
        while not self.answer and not ours <= self.seen and time.monotonic() < until:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop()
                return  # the loop itself stands here: nobody else can ask
            threading.Event().wait(0.005)  # the guard lets no sleep wait

    def _is_passed(self, number: int) -> bool:
        """Whether DBOS asks for it in another way, or not at all."""
        name = self.recorded[number]["name"]
        return name in (TIMER, "DBOS.getResult") or name.startswith(PATCH)
