"""Histories that end otherwise than by a result: continued as new, cancelled, failed by an activity or by a signal."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

CONTINUED = "ContinueAsNewWorkflow"
CANCELLED = "CancelActivityCompletionBeforeWorkflowTaskStarted"
FAILED = "Workflow"
SIGNALLED = "CoroutinesAfterCompleteWorkflow"
SOON = timedelta(seconds=30)


@workflow.defn(name=CONTINUED)
class Continued:
    """It goes on as a new run once."""

    @workflow.run
    async def run(self, again: bool) -> str:
        if again:
            workflow.continue_as_new(False)
        return "done"


@workflow.defn(name=CONTINUED)
class NotContinued:
    """It ends where it went on."""

    @workflow.run
    async def run(self, again: bool) -> str:
        return "done"


@workflow.defn(name=CONTINUED)
class ContinuedLater:
    """A timer before it goes on."""

    @workflow.run
    async def run(self, again: bool) -> str:
        if again:
            await workflow.sleep(60)
            workflow.continue_as_new(False)
        return "done"


@workflow.defn(name=CONTINUED)
class ContinuedRetyped:
    """The argument is a list of words."""

    @workflow.run
    async def run(self, again: list[str]) -> str:
        if again:
            workflow.continue_as_new(again[1:])
        return "done"


def greet(whom: str) -> workflow.ActivityHandle[str]:
    return workflow.start_activity(
        "helloworldActivity", whom, activity_id="custom-activity-id", result_type=str, start_to_close_timeout=SOON
    )


@workflow.defn(name=CANCELLED)
class Cancelled:
    """The request to cancel and the activity's result come together; the result is heeded no more."""

    @workflow.run
    async def run(self) -> str:
        return await asyncio.shield(greet("world"))


@workflow.defn(name=CANCELLED)
class CancelIgnored:
    """The request to cancel is not heeded: the run completes."""

    @workflow.run
    async def run(self) -> str:
        try:
            return await asyncio.shield(greet("world"))
        except asyncio.CancelledError:
            return "never mind"


@workflow.defn(name=CANCELLED)
class CancelledOtherInput:
    """The activity greets somebody else."""

    @workflow.run
    async def run(self) -> str:
        return await asyncio.shield(greet("moon"))


@workflow.defn(name=CANCELLED)
class CancelledByTimer:
    """A timer where the activity was."""

    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(60)


@workflow.defn(name=FAILED)
class Failed:
    """The activity fails for good, and the run with it."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            "AlwaysFailActivity",
            start_to_close_timeout=SOON,
            retry_policy=RetryPolicy(maximum_attempts=5),
        )


@workflow.defn(name=FAILED)
class FailedSeldom:
    """The activity may be tried more often: the recorded failure stays one."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            "AlwaysFailActivity",
            start_to_close_timeout=SOON,
            retry_policy=RetryPolicy(maximum_attempts=50),
        )


@workflow.defn(name=FAILED)
class FailureCaught:
    """The failure is caught, the run completes."""

    @workflow.run
    async def run(self) -> None:
        try:
            await workflow.execute_activity("AlwaysFailActivity", start_to_close_timeout=SOON)
        except ActivityError:
            return


@workflow.defn(name=FAILED)
class FailureMended:
    """The failure is answered by another activity."""

    @workflow.run
    async def run(self) -> None:
        try:
            await workflow.execute_activity("AlwaysFailActivity", start_to_close_timeout=SOON)
        except ActivityError:
            await workflow.execute_activity("Mend", start_to_close_timeout=SOON)


@workflow.defn(name=SIGNALLED)
class SignalFails:
    """A signal's handler fails the run."""

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: False)
        return "complete-workflow"

    @workflow.signal(name="DoErroringSignal")
    async def erroring(self, after: bool) -> None:
        raise ApplicationError("Intentional error from signal")


@workflow.defn(name=SIGNALLED)
class SignalIgnored:
    """The handler does nothing."""

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: False)
        return "complete-workflow"

    @workflow.signal(name="DoErroringSignal")
    async def erroring(self, after: bool) -> None:
        return None


@workflow.defn(name=SIGNALLED)
class SignalFailsOtherwise:
    """The handler fails the run with another message."""

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: False)
        return "complete-workflow"

    @workflow.signal(name="DoErroringSignal")
    async def erroring(self, after: bool) -> None:
        raise ApplicationError("on purpose", type="Intended")
