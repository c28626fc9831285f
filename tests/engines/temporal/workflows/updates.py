"""Histories of updates: one that sleeps, one that ends its run, one with a local activity in it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow

SLEEPING = "UpdateWorkflow"
FINISHING = "NonDeterministicUpdate"
LOCAL = "CoroutinesAfterCompleteWorkflow"
SOON = timedelta(seconds=30)


class Ended:
    """What the versions of the first workflow share: a signal or an update says that the run is over."""

    def __init__(self) -> None:
        self.over = False

    async def wait(self) -> None:
        await workflow.wait_condition(lambda: self.over)


@workflow.defn(name=SLEEPING)
class Sleeping(Ended):
    """The update sleeps as many nanoseconds as it is told; the run goes on until it is shut down."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.update
    async def update(self, nanoseconds: int) -> None:
        await workflow.sleep(nanoseconds / 1e9)

    @workflow.signal
    def shutdown(self, reason: str | None) -> None:
        self.over = True


@workflow.defn(name=SLEEPING)
class ShutdownRenamed(Ended):
    """The signal that ends the run is called otherwise."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.update
    async def update(self, nanoseconds: int) -> None:
        await workflow.sleep(nanoseconds / 1e9)

    @workflow.signal
    def stop(self, reason: str | None) -> None:
        self.over = True


@workflow.defn(name=SLEEPING)
class UpdateAtOnce(Ended):
    """The update no longer sleeps."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.update
    async def update(self, nanoseconds: int) -> None:
        return None

    @workflow.signal
    def shutdown(self, reason: str | None) -> None:
        self.over = True


@workflow.defn(name=SLEEPING)
class UpdateGone(Ended):
    """No update any more."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.signal
    def shutdown(self, reason: str | None) -> None:
        self.over = True


@workflow.defn(name=SLEEPING)
class UpdateToo(Ended):
    """A second update and a query, which no run has asked for."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.update
    async def update(self, nanoseconds: int) -> None:
        await workflow.sleep(nanoseconds / 1e9)

    @workflow.update
    async def rename(self, name: str) -> str:
        return name

    @workflow.query
    def ended(self) -> bool:
        return self.over

    @workflow.signal
    def shutdown(self, reason: str | None) -> None:
        self.over = True


@workflow.defn(name=FINISHING)
class Finishing(Ended):
    """The run is over when its update is."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.update
    async def update(self) -> None:
        await workflow.sleep(1)
        self.over = True


@workflow.defn(name=FINISHING)
class FinishingBefore(Ended):
    """The run is over before the update has slept."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.update
    async def update(self) -> None:
        self.over = True
        await workflow.sleep(1)


@workflow.defn(name=FINISHING)
class FinishingByActivity(Ended):
    """The update runs an activity where it slept."""

    @workflow.run
    async def run(self) -> None:
        await self.wait()

    @workflow.update
    async def update(self) -> None:
        await workflow.execute_activity("rest", start_to_close_timeout=SOON)
        self.over = True


@workflow.defn(name=LOCAL)
class LocalActivity(Ended):
    """An update and a local activity after the run is done, in one workflow task."""

    @workflow.run
    async def run(self) -> str:
        await self.wait()
        return "complete-workflow"

    @workflow.update(name="DoUpdate")
    async def do_update(self) -> str:
        await workflow.execute_local_activity("SomeActivity", start_to_close_timeout=SOON)
        self.over = True
        return "complete-update"


@workflow.defn(name=LOCAL)
class LocalActivityRenamed(Ended):
    """Another local activity."""

    @workflow.run
    async def run(self) -> str:
        await self.wait()
        return "complete-workflow"

    @workflow.update(name="DoUpdate")
    async def do_update(self) -> str:
        await workflow.execute_local_activity("OtherActivity", start_to_close_timeout=SOON)
        self.over = True
        return "complete-update"


@workflow.defn(name=LOCAL)
class LocalActivityRemote(Ended):
    """An ordinary activity where a local one was."""

    @workflow.run
    async def run(self) -> str:
        await self.wait()
        return "complete-workflow"

    @workflow.update(name="DoUpdate")
    async def do_update(self) -> str:
        await workflow.execute_activity("SomeActivity", start_to_close_timeout=SOON)
        self.over = True
        return "complete-update"


@workflow.defn(name=LOCAL)
class LocalActivityReworded(Ended):
    """The run and its update end with other words."""

    @workflow.run
    async def run(self) -> str:
        await self.wait()
        await asyncio.sleep(0)
        return "done"

    @workflow.update(name="DoUpdate")
    async def do_update(self) -> str:
        await workflow.execute_local_activity("SomeActivity", start_to_close_timeout=SOON)
        self.over = True
        return "updated"
