"""One workflow (quote, pause, wait for an approval, charge) and changes of its steps, every one under its own name.

``Quoting`` is the code that wrote the histories; the other classes say in their first line what was changed. As each is
a workflow type by itself, one simulation judges them all. The changes of handlers, data and patches: ``quotes_data``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

SOON = timedelta(seconds=60)


@dataclass
class Order:
    item: str
    amount: int


@dataclass
class Quote:
    price: int


@dataclass
class Payment:
    item: str
    price: int


async def do(name: str, *args: Any, result: type | None = None, **options: Any) -> Any:
    options = options or {"start_to_close_timeout": SOON}
    return await workflow.execute_activity(name, args=args, result_type=result, **options)


class Approved:
    """What all versions share: who approved, and the steps as they were recorded."""

    def __init__(self) -> None:
        self.approver: str | None = None

    async def quote(self, item: str, amount: int) -> Quote:
        quote: Quote = await do("quote", item, amount, result=Quote)
        return quote

    async def wait(self) -> None:
        await workflow.sleep(30)
        await workflow.wait_condition(lambda: self.approver is not None)

    async def charge(self, item: str, price: int) -> str:
        paid: str = await do("charge", Payment(item, price), result=str)
        return paid

    async def usual(self, order: Order) -> str:
        quote = await self.quote(order.item, order.amount)
        await self.wait()
        return await self.charge(order.item, quote.price)


class Hears:
    """The signal as it was."""

    @workflow.signal
    def approve(self, by: str) -> None:
        self.approver = by


class Answers:
    """The query as it was."""

    @workflow.query
    def approved(self) -> bool:
        return self.approver is not None


class Reminds:
    """The update as it was."""

    @workflow.update
    def remind(self, by: str) -> str:
        return by


class Signalled(Approved, Hears, Answers, Reminds):
    """Those that hear the signal, and answer the query and the update, as it was."""


@workflow.defn
class Quoting(Signalled):
    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


# What is done in the recorded part


@workflow.defn
class ActivityRenamed(Signalled):
    """The first activity has another name."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await do("price", order.item, order.amount, result=Quote)
        await self.wait()
        return await self.charge(order.item, quote.price)


@workflow.defn
class InsertedFirst(Signalled):
    """An activity before all others."""

    @workflow.run
    async def run(self, order: Order) -> str:
        await do("check", order.item)
        return await self.usual(order)


@workflow.defn
class Unapproved(Signalled):
    """Nobody is waited for: charged as soon as the pause is over."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await self.quote(order.item, order.amount)
        await workflow.sleep(30)
        return await self.charge(order.item, quote.price)


@workflow.defn
class InsertedAtWait(Signalled):
    """An activity right before the approval is waited for."""

    async def wait(self) -> None:
        await workflow.sleep(30)
        await do("check", "chair")
        await workflow.wait_condition(lambda: self.approver is not None)

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


@workflow.defn
class WaitTimed(Signalled):
    """The approval is waited for with a timeout."""

    async def wait(self) -> None:
        await workflow.sleep(30)
        await workflow.wait_condition(lambda: self.approver is not None, timeout=timedelta(days=3))

    @workflow.signal
    def note(self) -> None:
        pass

    @workflow.signal
    async def look(self) -> None:
        await do("look")

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


@workflow.defn
class WaitTimedOutside(Signalled):
    """The same, with asyncio's own."""

    async def wait(self) -> None:
        await workflow.sleep(30)
        await asyncio.wait_for(workflow.wait_condition(lambda: self.approver is not None), 3 * 86400)

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


@workflow.defn
class SleepsAtWait(Signalled):
    """A pause right before the approval is waited for."""

    async def wait(self) -> None:
        await workflow.sleep(30)
        await workflow.sleep(timedelta(days=3))
        await workflow.wait_condition(lambda: self.approver is not None)

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


@workflow.defn
class EndsAtWait(Signalled):
    """Over as soon as the pause is."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await self.quote(order.item, order.amount)
        await workflow.sleep(30)
        return f"offered for {quote.price}"


@workflow.defn
class Reordered(Signalled):
    """Charged first, quoted last."""

    @workflow.run
    async def run(self, order: Order) -> str:
        paid = await self.charge(order.item, 0)
        await self.wait()
        await self.quote(order.item, order.amount)
        return paid


@workflow.defn
class InputChanged(Signalled):
    """The first activity is asked for another item."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await self.quote(order.item.upper(), order.amount)
        await self.wait()
        return await self.charge(order.item, quote.price)


@workflow.defn
class ArityChanged(Signalled):
    """The first activity gets an argument less."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await do("quote", order.item, result=Quote)
        await self.wait()
        return await self.charge(order.item, quote.price)


@workflow.defn
class ChargedThousandfold(Signalled):
    """The last activity charges a thousand times the price."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await self.quote(order.item, order.amount)
        await self.wait()
        return await self.charge(order.item, quote.price * 1000)


@workflow.defn
class OptionsChanged(Signalled):
    """Other timeouts, retries and a task queue."""

    @workflow.run
    async def run(self, order: Order) -> str:
        options: dict[str, Any] = {
            "schedule_to_close_timeout": timedelta(hours=2),
            "retry_policy": RetryPolicy(maximum_attempts=3),
            "task_queue": "slow",
        }
        quote = await do("quote", order.item, order.amount, result=Quote, **options)
        await self.wait()
        paid: str = await do("charge", Payment(order.item, quote.price), result=str, **options)
        return paid


@workflow.defn
class TimerLonger(Signalled):
    """The pause is a day."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await self.quote(order.item, order.amount)
        await workflow.sleep(timedelta(days=1))
        await workflow.wait_condition(lambda: self.approver is not None)
        return await self.charge(order.item, quote.price)


@workflow.defn
class TimerRemoved(Signalled):
    """No pause."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await self.quote(order.item, order.amount)
        await workflow.wait_condition(lambda: self.approver is not None)
        return await self.charge(order.item, quote.price)


@workflow.defn
class SamePath(Signalled):
    """A branch on the clock and on chance that goes the old way for every recorded run."""

    @workflow.run
    async def run(self, order: Order) -> str:
        if workflow.now().year > 3000 or workflow.random().random() > 1:
            await do("archive", order.item)
        return await self.usual(order)


# What is done at the end


@workflow.defn
class ResultDoubled(Signalled):
    """Another result."""

    @workflow.run
    async def run(self, order: Order) -> str:
        return 2 * await self.usual(order)


@workflow.defn
class RaisesAtEnd(Signalled):
    """It fails where it completed."""

    @workflow.run
    async def run(self, order: Order) -> str:
        await self.usual(order)
        raise ApplicationError("no more orders")


@workflow.defn
class RaisesBug(Signalled):
    """A bug at its end."""

    @workflow.run
    async def run(self, order: Order) -> str:
        await self.usual(order)
        raise ValueError("a bug")


@workflow.defn
class LastRemoved(Signalled):
    """Nothing is charged."""

    @workflow.run
    async def run(self, order: Order) -> str:
        await self.quote(order.item, order.amount)
        await self.wait()
        return "paid"


@workflow.defn
class Appended(Signalled):
    """One more activity at the end."""

    @workflow.run
    async def run(self, order: Order) -> str:
        paid = await self.usual(order)
        await do("mail", order.item)
        return paid
