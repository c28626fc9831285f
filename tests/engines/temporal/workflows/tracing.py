"""Signals before the first workflow task, a timer, an activity and an update, all noted in a trace."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow

NAME = "SignalsActivitiesTimersUpdatesTracingWorkflow"
SOON = timedelta(seconds=30)


class Tracing:
    """What the versions share: each piece of work notes where it is."""

    def __init__(self) -> None:
        self.trace: list[str] = []

    def note(self, what: str) -> None:
        self.trace.append(what)

    async def stop(self, what: str) -> None:
        """Note twice, and let all else go on between."""
        self.note(f"{what}-1")
        await workflow.wait_condition(lambda: True)
        self.note(f"{what}-2")

    async def signalled(self, name: str) -> None:
        self.note(f"sig-{name}-sync")
        await self.stop(f"sig-{name}")

    async def updated(self, name: str) -> None:
        self.note(f"update-{name}-sync")
        await self.stop(f"update-{name}")

    async def timer(self, pause: float = 0.1) -> None:
        self.note("timer-sync")
        await workflow.sleep(pause)
        await self.stop("timer")

    async def act(self) -> None:
        self.note("act-sync")
        await workflow.execute_activity("say_hello", "Enchi", start_to_close_timeout=SOON)
        await self.stop("act")


@workflow.defn(name=NAME)
class Faithful(Tracing):
    @workflow.run
    async def run(self) -> list[str]:
        await asyncio.gather(self.timer(), self.act())
        return self.trace

    @workflow.signal
    async def dosig(self, name: str) -> None:
        await self.signalled(name)

    @workflow.update
    async def doupdate(self, name: str) -> None:
        await self.updated(name)


@workflow.defn(name=NAME)
class UpdateRenamed(Tracing):
    """The accepted update has no handler any more."""

    @workflow.run
    async def run(self) -> list[str]:
        await asyncio.gather(self.timer(), self.act())
        return self.trace

    @workflow.signal
    async def dosig(self, name: str) -> None:
        await self.signalled(name)

    @workflow.update
    async def do_update(self, name: str) -> None:
        await self.updated(name)


@workflow.defn(name=NAME)
class UpdateRetyped(Tracing):
    """The update takes a number; the recorded argument is a text."""

    @workflow.run
    async def run(self) -> list[str]:
        await asyncio.gather(self.timer(), self.act())
        return self.trace

    @workflow.signal
    async def dosig(self, name: str) -> None:
        await self.signalled(name)

    @workflow.update
    async def doupdate(self, number: int) -> None:
        await self.updated(str(number))


@workflow.defn(name=NAME)
class UpdateValidated(Tracing):
    """A validator in front of the update; an accepted update is not validated again."""

    @workflow.run
    async def run(self) -> list[str]:
        await asyncio.gather(self.timer(), self.act())
        return self.trace

    @workflow.signal
    async def dosig(self, name: str) -> None:
        await self.signalled(name)

    @workflow.update
    async def doupdate(self, name: str) -> None:
        await self.updated(name)

    @doupdate.validator
    def check(self, name: str) -> None:
        if name == "1":
            raise ValueError("no such update")


@workflow.defn(name=NAME)
class ActivityFirst(Tracing):
    """The activity is started before the timer."""

    @workflow.run
    async def run(self) -> list[str]:
        await asyncio.gather(self.act(), self.timer())
        return self.trace

    @workflow.signal
    async def dosig(self, name: str) -> None:
        await self.signalled(name)

    @workflow.update
    async def doupdate(self, name: str) -> None:
        await self.updated(name)


@workflow.defn(name=NAME)
class TimerLonger(Tracing):
    """The timer takes an hour; a recorded timer keeps its length."""

    @workflow.run
    async def run(self) -> list[str]:
        await asyncio.gather(self.timer(3600), self.act())
        return self.trace

    @workflow.signal
    async def dosig(self, name: str) -> None:
        await self.signalled(name)

    @workflow.update
    async def doupdate(self, name: str) -> None:
        await self.updated(name)
