"""A shop and a desk, changed in the ways that a replay finds out; what hangs or kills its process is here too."""

from __future__ import annotations

import collections.abc
import datetime
import itertools
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

MINUTE = timedelta(minutes=1)
if TYPE_CHECKING:
    from collections.abc import Sequence
else:  # what the SDK compares a dynamic workflow's annotation with: older ones with that of typing
    Sequence = getattr(workflow, "Sequence", collections.abc.Sequence)


@dataclass
class Order:
    item: str
    amount: int


@dataclass
class NamedOrder:
    item: str
    amount: int
    customer: str


@dataclass
class Quote:
    price: int
    currency: str = "EUR"


@dataclass
class QuoteByOtherName:
    price: int
    currency_code: str = "EUR"


async def quoted(order: Order, name: str = "quote", kind: Any = Quote) -> Any:
    return await workflow.execute_activity(name, order, result_type=kind, start_to_close_timeout=MINUTE)


async def charged(order: Order, price: int) -> int:
    charge: int = await workflow.execute_activity(
        "charge", args=[order.item, price], result_type=int, start_to_close_timeout=MINUTE
    )
    return charge


@workflow.defn(name="Shop")
class Shop:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await quoted(order)
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class Renamed:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await quoted(order, "offer")
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class Dearer:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await quoted(order)
        return await charged(order, quote.price * order.amount * 100) * 2


@workflow.defn(name="Shop")
class OtherName:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await quoted(order, kind=QuoteByOtherName)
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class SleepsFirst:
    @workflow.run
    async def run(self, order: Order) -> int:
        await workflow.sleep(MINUTE)
        quote = await quoted(order)
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class Raises:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await quoted(order)
        raise KeyError(f"no tax for {quote.currency}")


@workflow.defn(name="Shop")
class GivesUp:
    @workflow.run
    async def run(self, order: Order) -> int:
        raise ApplicationError("out of stock")


@workflow.defn(name="Shop")
class Waits:
    @workflow.run
    async def run(self, order: Order) -> int:
        await workflow.wait_condition(lambda: False)
        return 0


@workflow.defn(name="Shop")
class Spins:
    @workflow.run
    async def run(self, order: Order) -> int:
        while True:
            pass


@workflow.defn(name="Shop")
class Holds:
    """Keeps the interpreter to itself, so that nothing in the process can end it."""

    @workflow.run
    async def run(self, order: Order) -> int:
        return sum(itertools.repeat(0))


@workflow.defn(name="Shop")
class Dies:
    @workflow.run
    async def run(self, order: Order) -> int:
        os._exit(3)


@workflow.defn(name="Shop")
class ReadsTheClock:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await quoted(order)
        return await charged(order, quote.price * order.amount + 0 * datetime.datetime.now().year)


@workflow.defn(name="Shop")
class Writes:
    @workflow.run
    async def run(self, order: Order) -> int:
        os.mkdir(os.path.join(os.path.dirname(__file__), "written"))
        return 0


@workflow.defn(name="Shop")
class AsksTheEnvironment:
    @workflow.run
    async def run(self, order: Order) -> int:
        return int(os.environ["PRICE_OF_TODAY"])


@workflow.defn(name="Shop")
class NeedsMore:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await workflow.execute_activity("quote", order, result_type=Order, start_to_close_timeout=MINUTE)
        return await charged(order, quote.amount)


@workflow.defn
class Desk:
    """Waits for a decision that arrives as a signal."""

    def __init__(self) -> None:
        self.decision = ""

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self.decision != "")
        return self.decision

    @workflow.signal
    def decide(self, decision: str) -> None:
        self.decision = decision


@workflow.defn(name="Desk")
class DeskOfObjects(Desk):
    @workflow.run
    async def run(self) -> str:
        return await super().run()

    @workflow.signal
    def decide(self, decision: Order) -> None:  # type: ignore[override]
        self.decision = decision.item


@workflow.defn(name="Desk")
class DeskRenamed:
    def __init__(self) -> None:
        self.decision = ""

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self.decision != "")
        return self.decision

    @workflow.signal
    def resolve(self, decision: str) -> None:
        self.decision = decision


@workflow.defn(dynamic=True)
class Anything:
    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> int:
        order = workflow.payload_converter().from_payload(args[0].payload, Order)
        quote = await quoted(order)
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class Patched:
    @workflow.run
    async def run(self, order: Order) -> int:
        if workflow.patched("offers"):
            await quoted(order, "offer")
        quote = await quoted(order)
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class DeprecatedPatch:
    @workflow.run
    async def run(self, order: Order) -> int:
        workflow.deprecate_patch("offers")
        await quoted(order, "offer")
        quote = await quoted(order)
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class AsksAChild:
    @workflow.run
    async def run(self, order: Order) -> int:
        child: int = await workflow.execute_child_workflow("Quoting", order, id="quoting", result_type=int)
        return child


@workflow.defn(name="Shop")
class GoesOnAnew:
    @workflow.run
    async def run(self, order: Order) -> int:
        workflow.continue_as_new(order)


@workflow.defn(name="Shop")
class AsksHere:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote: Quote = await workflow.execute_local_activity(
            "quote", order, result_type=Quote, start_to_close_timeout=MINUTE
        )
        return await charged(order, quote.price * order.amount)


@workflow.defn(name="Shop")
class ChargesOnly:
    @workflow.run
    async def run(self, order: Order) -> int:
        return await charged(order, 120)


@workflow.defn(name="Shop")
class AsksTwo:
    @workflow.run
    async def run(self, order: Order) -> int:
        quote = await quoted(order)
        paid = await charged(order, quote.price * order.amount)
        await quoted(order, "thank")
        return paid


@workflow.defn(name="Shop")
class NeedsACustomer:
    @workflow.run
    async def run(self, order: NamedOrder) -> int:
        return 0
