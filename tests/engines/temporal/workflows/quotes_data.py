"""The workflow of ``quotes`` with changes of what it is asked, of the data it is given, and of patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio import activity, workflow
from temporalio.common import RawValue

from tests.engines.temporal.workflows.quotes import (
    SOON,
    Answers,
    Approved,
    Hears,
    Order,
    Payment,
    Quote,
    Reminds,
    Signalled,
    do,
)


@dataclass
class QuoteInCurrency(Quote):
    """A result class with a new field that has no default."""

    currency: str


@dataclass
class OrderForCustomer(Order):
    """A new field without a default."""

    customer: str


@dataclass
class OrderOfText:
    """The amount is a text."""

    item: str
    amount: str


@dataclass
class OrderWithNote(Order):
    """A new field with a default."""

    note: str = ""


@dataclass
class OrderWithoutAmount:
    """A field dropped."""

    item: str


@dataclass
class OrderOfGoods:
    """``item`` renamed to ``goods``, with a default."""

    amount: int
    goods: str = "nothing"


@dataclass
class Approval:
    """What the signal takes in one of the changes."""

    by: str
    level: int


@activity.defn(name="quote")
async def quote_in_currency(item: str, amount: int) -> QuoteInCurrency:
    raise NotImplementedError


# What a run is asked from outside


@workflow.defn
class SignalRenamed(Approved, Answers, Reminds):
    """The signal is called ``confirm``."""

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)

    @workflow.signal
    def confirm(self, by: str) -> None:
        self.approver = by


@workflow.defn
class SignalRemoved(Approved, Answers, Reminds):
    """No signal any more."""

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


@workflow.defn
class SignalRetyped(Approved, Answers, Reminds):
    """The signal takes an object; what was sent is a text, and dropped."""

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)

    @workflow.signal
    def approve(self, approval: Approval) -> None:
        self.approver = approval.by


@workflow.defn
class SignalDynamic(Approved, Answers, Reminds):
    """One handler for signals of every name."""

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)

    @workflow.signal(dynamic=True)
    def any_signal(self, name: str, args: Sequence[RawValue]) -> None:
        self.approver = workflow.payload_converter().from_payload(args[0].payload, str)


@workflow.defn
class UpdateRemoved(Approved, Hears, Answers):
    """No update any more."""

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


@workflow.defn
class QueryRemoved(Approved, Hears, Reminds):
    """No query any more."""

    @workflow.run
    async def run(self, order: Order) -> str:
        return await self.usual(order)


# What is recorded of inputs and results


@workflow.defn
class FieldRequired(Signalled):
    """The input has a new field without a default."""

    @workflow.run
    async def run(self, order: OrderForCustomer) -> str:
        return await self.usual(order)


@workflow.defn
class FieldRetyped(Signalled):
    """The input's amount is a text."""

    @workflow.run
    async def run(self, order: OrderOfText) -> str:
        return await self.usual(Order(order.item, int(order.amount)))


@workflow.defn
class FieldAdded(Signalled):
    """The input has a new field with a default."""

    @workflow.run
    async def run(self, order: OrderWithNote) -> str:
        return await self.usual(Order(order.item, order.amount))


@workflow.defn
class FieldDropped(Signalled):
    """The input has a field less; the activity gets what was always the same."""

    @workflow.run
    async def run(self, order: OrderWithoutAmount) -> str:
        return await self.usual(Order(order.item, 3))


@workflow.defn
class FieldRenamed(Signalled):
    """A field of the input renamed behind a default: each recorded item becomes nothing."""

    @workflow.run
    async def run(self, order: OrderOfGoods) -> str:
        return await self.usual(Order(order.goods, order.amount))


@workflow.defn
class ResultFieldRequired(Signalled):
    """The first activity's result class has a new field without a default."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await workflow.execute_activity(
            quote_in_currency, args=[order.item, order.amount], start_to_close_timeout=SOON
        )
        await self.wait()
        return await self.charge(order.item, quote.price)


@workflow.defn
class LastResultRetyped(Signalled):
    """The last activity's result is a number."""

    @workflow.run
    async def run(self, order: Order) -> str:
        quote = await self.quote(order.item, order.amount)
        await self.wait()
        return str(await do("charge", Payment(order.item, quote.price), result=int))


# Patches


@workflow.defn
class Patched(Signalled):
    """A check first, behind a patch."""

    @workflow.run
    async def run(self, order: Order) -> str:
        if workflow.patched("check"):
            await do("check", order.item)
        return await self.usual(order)


@workflow.defn
class PatchDeprecated(Signalled):
    """The patch is deprecated: the check comes first for all."""

    @workflow.run
    async def run(self, order: Order) -> str:
        workflow.deprecate_patch("check")
        await do("check", order.item)
        return await self.usual(order)


@workflow.defn
class PatchRemoved(Signalled):
    """The patch is gone: the check comes first for all."""

    @workflow.run
    async def run(self, order: Order) -> str:
        await do("check", order.item)
        return await self.usual(order)
