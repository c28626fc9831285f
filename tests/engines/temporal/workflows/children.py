"""Histories with child workflows: one that is waited for after a reset, one with memos, one among much else."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow

RESET = "ResetWorkflowWithChild"
MEMO = "MemoEncodingWorkflowJSON"
MUCH = "smorgasbord"
SOON = timedelta(seconds=30)


@workflow.defn(name=RESET)
class Parent:
    """The run was reset before the child was started; the child gives the result."""

    @workflow.run
    async def run(self) -> str:
        child_id = f"{workflow.info().run_id}_8"
        said: str = await workflow.execute_child_workflow(
            "TestChildWorkflow", "CHILD INPUT", id=child_id, result_type=str
        )
        return said


@workflow.defn(name=RESET)
class ChildRenamed:
    """Another workflow type for the child."""

    @workflow.run
    async def run(self) -> str:
        child_id = f"{workflow.info().run_id}_8"
        said: str = await workflow.execute_child_workflow("OtherChild", "CHILD INPUT", id=child_id, result_type=str)
        return said


@workflow.defn(name=RESET)
class ChildGone:
    """The child's work is done by an activity."""

    @workflow.run
    async def run(self) -> str:
        said: str = await workflow.execute_activity(
            "child", "CHILD INPUT", result_type=str, start_to_close_timeout=SOON
        )
        return said


@workflow.defn(name=RESET)
class ChildResultRetyped:
    """The child's result is read as a number."""

    @workflow.run
    async def run(self) -> int:
        child_id = f"{workflow.info().run_id}_8"
        number: int = await workflow.execute_child_workflow(
            "TestChildWorkflow", "CHILD INPUT", id=child_id, result_type=int
        )
        return number


@workflow.defn(name=RESET)
class ChildAskedOtherwise:
    """The child gets another input."""

    @workflow.run
    async def run(self) -> str:
        child_id = f"{workflow.info().run_id}_8"
        said: str = await workflow.execute_child_workflow("TestChildWorkflow", "OTHER", id=child_id, result_type=str)
        return said


class Memo:
    """What the versions of the second workflow share."""

    async def child(self, value: str) -> str:
        said: str = await workflow.execute_child_workflow(
            "MemoChildWorkflowJSON",
            id="019c54fd-11cf-7334-9bdf-08b7f8b83c06_5",
            memo={"test-memo-key": value},
            result_type=str,
        )
        return said


@workflow.defn(name=MEMO)
class Memos(Memo):
    @workflow.run
    async def run(self, value: str) -> str:
        said = await self.child(value)
        workflow.upsert_memo({"parent-memo-key": "parent-test-value"})
        return said


@workflow.defn(name=MEMO)
class MemoForgotten(Memo):
    """No memo is written."""

    @workflow.run
    async def run(self, value: str) -> str:
        return await self.child(value)


@workflow.defn(name=MEMO)
class MemoFirst(Memo):
    """The memo is written before the child is started."""

    @workflow.run
    async def run(self, value: str) -> str:
        workflow.upsert_memo({"parent-memo-key": "parent-test-value"})
        return await self.child(value)


@workflow.defn(name=MEMO)
class MemoOther(Memo):
    """Another value in the memo."""

    @workflow.run
    async def run(self, value: str) -> str:
        said = await self.child(value)
        workflow.upsert_memo({"parent-memo-key": "other"})
        return said


class Much:
    """The third workflow: two activities, a timer, a child that is signalled and a local activity, all at once."""

    started = False
    child_id = "3e74e356-25a4-4e0f-b477-eb83679117a1"

    async def child(self, signal: str) -> None:
        child = await workflow.start_child_workflow("signalTarget", id=self.child_id)
        await child.signal(signal)
        await child

    async def all(self, seconds: float = 1, signal: str = "unblock", local: bool = True) -> None:
        options = {"schedule_to_close_timeout": timedelta(seconds=10)}
        echo: Any = workflow.execute_local_activity("echo", "local-activity", **options) if local else asyncio.sleep(0)
        await asyncio.gather(
            workflow.execute_activity("fakeProgress", args=[100, 10], start_to_close_timeout=SOON),
            workflow.execute_activity(
                "queryOwnWf", {"type": "query", "name": "step"}, start_to_close_timeout=SOON, result_type=int
            ),
            workflow.sleep(seconds),
            self.child(signal),
            echo,
            workflow.wait_condition(lambda: self.started),
        )


@workflow.defn(name=MUCH)
class Smorgasbord(Much):
    @workflow.run
    async def run(self, iteration: int) -> None:
        await self.all()

    @workflow.signal(name="activityStarted")
    def activity_started(self) -> None:
        self.started = True


@workflow.defn(name=MUCH)
class OtherTimer(Much):
    """Another length of the timer, and a query."""

    @workflow.run
    async def run(self, iteration: int) -> None:
        await self.all(seconds=5)

    @workflow.signal(name="activityStarted")
    def activity_started(self) -> None:
        self.started = True

    @workflow.query
    def step(self) -> int:
        return 1


@workflow.defn(name=MUCH)
class OtherChildSignal(Much):
    """The child gets a signal of another name."""

    @workflow.run
    async def run(self, iteration: int) -> None:
        await self.all(signal="go")

    @workflow.signal(name="activityStarted")
    def activity_started(self) -> None:
        self.started = True


@workflow.defn(name=MUCH)
class NoLocalActivity(Much):
    """The local activity is gone."""

    @workflow.run
    async def run(self, iteration: int) -> None:
        await self.all(local=False)

    @workflow.signal(name="activityStarted")
    def activity_started(self) -> None:
        self.started = True


@workflow.defn(name=MUCH)
class NoSignal(Much):
    """Nobody hears that the activity started."""

    @workflow.run
    async def run(self, iteration: int) -> None:
        await self.all()
