"""Histories of waits: a timer set again, a timer against an activity, one signal of two, a cancelled activity."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, is_cancelled_exception

TIMER = "TimerWf"
RACE = "langFlagsReplayCorrectly"
WANTED = "SignalWithStartWorkflow"
PROGRESS = "cancelFakeProgress"
SOON = timedelta(seconds=60)


@workflow.defn(name=TIMER)
class Timer:
    """The timer is set again and again; who asks to cancel it is not heard."""

    @workflow.run
    async def run(self, nanoseconds: int) -> None:
        while True:
            pause = asyncio.ensure_future(workflow.sleep(nanoseconds / 1e9))
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(pause)
            await pause


@workflow.defn(name=TIMER)
class TimerShort:
    """The timer takes as many milliseconds."""

    @workflow.run
    async def run(self, nanoseconds: int) -> None:
        while True:
            pause = asyncio.ensure_future(workflow.sleep(nanoseconds / 1e12))
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(pause)
            await pause


@workflow.defn(name=TIMER)
class TimerHeeds:
    """The request to cancel ends the run."""

    @workflow.run
    async def run(self, nanoseconds: int) -> None:
        while True:
            await workflow.sleep(nanoseconds / 1e9)


@workflow.defn(name=TIMER)
class TimerPolls:
    """An activity between two timers."""

    @workflow.run
    async def run(self, nanoseconds: int) -> None:
        while True:
            pause = asyncio.ensure_future(workflow.sleep(nanoseconds / 1e9))
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(pause)
            await pause
            await workflow.execute_activity("poll", start_to_close_timeout=SOON)


@workflow.defn(name=RACE)
class Race:
    """An activity against a timer: the activity wins, the timer is cancelled."""

    @workflow.run
    async def run(self) -> None:
        timer = asyncio.create_task(workflow.sleep(10))
        await asyncio.sleep(0)
        await workflow.execute_activity("noopActivity", start_to_close_timeout=SOON)
        timer.cancel()


@workflow.defn(name=RACE)
class RaceLonger:
    """Another timer, another timeout."""

    @workflow.run
    async def run(self) -> None:
        timer = asyncio.create_task(workflow.sleep(3600))
        await asyncio.sleep(0)
        await workflow.execute_activity("noopActivity", schedule_to_close_timeout=timedelta(hours=1))
        timer.cancel()


@workflow.defn(name=RACE)
class RaceActivityFirst:
    """The activity is started before the timer."""

    @workflow.run
    async def run(self) -> None:
        activity = workflow.start_activity("noopActivity", start_to_close_timeout=SOON)
        timer = asyncio.create_task(workflow.sleep(10))
        await activity
        timer.cancel()


@workflow.defn(name=RACE)
class RaceUncancelled:
    """The timer is waited for."""

    @workflow.run
    async def run(self) -> None:
        timer = asyncio.create_task(workflow.sleep(10))
        await asyncio.sleep(0)
        await workflow.execute_activity("noopActivity", start_to_close_timeout=SOON)
        await timer


class Wanted:
    """What the versions of the third workflow share: signals of any name are kept, the wanted one ends the wait."""

    def __init__(self) -> None:
        self.received: dict[str, int] = {}

    async def until(self, name: str) -> int:
        await workflow.wait_condition(lambda: name in self.received)
        return self.received[name]


@workflow.defn(name=WANTED)
class WantedSignal(Wanted):
    @workflow.run
    async def run(self, name: str) -> int:
        number = await self.until(name)
        await workflow.execute_activity("HelloWorldActivity", "expected signal", start_to_close_timeout=SOON)
        return number

    @workflow.signal
    def hit(self, number: int) -> None:
        self.received["hit"] = number

    @workflow.signal
    def miss(self, number: int) -> None:
        self.received["miss"] = number


@workflow.defn(name=WANTED)
class WantedDynamic(Wanted):
    """One handler for all names."""

    @workflow.run
    async def run(self, name: str) -> int:
        number = await self.until(name)
        await workflow.execute_activity("HelloWorldActivity", "expected signal", start_to_close_timeout=SOON)
        return number

    @workflow.signal(dynamic=True)
    def any_signal(self, name: str, args: Sequence[RawValue]) -> None:
        self.received[name] = workflow.payload_converter().from_payload(args[0].payload, int)


@workflow.defn(name=WANTED)
class AnySignal(Wanted):
    """The first signal ends the wait, whatever it is called."""

    @workflow.run
    async def run(self, name: str) -> int:
        await workflow.wait_condition(lambda: bool(self.received))
        await workflow.execute_activity("HelloWorldActivity", "expected signal", start_to_close_timeout=SOON)
        return 1

    @workflow.signal
    def hit(self, number: int) -> None:
        self.received["hit"] = number

    @workflow.signal
    def miss(self, number: int) -> None:
        self.received["miss"] = number


@workflow.defn(name=WANTED)
class WantedRenamed(Wanted):
    """The wanted signal has no handler any more."""

    @workflow.run
    async def run(self, name: str) -> int:
        number = await self.until(name)
        await workflow.execute_activity("HelloWorldActivity", "expected signal", start_to_close_timeout=SOON)
        return number

    @workflow.signal
    def struck(self, number: int) -> None:
        self.received["hit"] = number

    @workflow.signal
    def miss(self, number: int) -> None:
        self.received["miss"] = number


@workflow.defn(name=WANTED)
class WantedAudited(Wanted):
    """One more activity when the greeting is done."""

    @workflow.run
    async def run(self, name: str) -> int:
        number = await self.until(name)
        await workflow.execute_activity("HelloWorldActivity", "expected signal", start_to_close_timeout=SOON)
        await workflow.execute_activity("Audit", number, start_to_close_timeout=SOON)
        return number

    @workflow.signal
    def hit(self, number: int) -> None:
        self.received["hit"] = number

    @workflow.signal
    def miss(self, number: int) -> None:
        self.received["miss"] = number


class Progress:
    """What the versions of the fourth workflow share: a signal says that the activity has begun."""

    def __init__(self) -> None:
        self.begun = False

    def start(self) -> workflow.ActivityHandle[None]:
        return workflow.start_activity(
            "fakeProgress",
            start_to_close_timeout=SOON,
            heartbeat_timeout=timedelta(seconds=3),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


@workflow.defn(name=PROGRESS)
class Cancelling(Progress):
    """The activity is cancelled as soon as it has begun, and its cancellation is waited for."""

    @workflow.run
    async def run(self) -> None:
        activity = self.start()
        await workflow.wait_condition(lambda: self.begun)
        activity.cancel()
        try:
            await activity
        except ActivityError as error:
            if not is_cancelled_exception(error):
                raise

    @workflow.signal(name="activityStarted")
    def activity_started(self) -> None:
        self.begun = True


@workflow.defn(name=PROGRESS)
class NeverCancelling(Progress):
    """The activity is left alone."""

    @workflow.run
    async def run(self) -> None:
        activity = self.start()
        await workflow.wait_condition(lambda: self.begun)
        await activity

    @workflow.signal(name="activityStarted")
    def activity_started(self) -> None:
        self.begun = True


@workflow.defn(name=PROGRESS)
class CancellingRaises(Progress):
    """The cancellation fails the run."""

    @workflow.run
    async def run(self) -> None:
        activity = self.start()
        await workflow.wait_condition(lambda: self.begun)
        activity.cancel()
        await activity

    @workflow.signal(name="activityStarted")
    def activity_started(self) -> None:
        self.begun = True


@workflow.defn(name=PROGRESS)
class CancellingUnheard(Progress):
    """Nobody hears that the activity has begun."""

    @workflow.run
    async def run(self) -> None:
        activity = self.start()
        await workflow.wait_condition(lambda: self.begun)
        activity.cancel()
