"""A loan that is paid back in periods: thank the customer, then charge and pause once per period (121 events)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

NAME = "LoanProcessingWorkflow"
SOON = timedelta(seconds=5)
PAUSE = timedelta(seconds=3)


@dataclass
class Loan:
    customer_id: str
    name: str
    email_address: str
    amount: int
    number_of_periods: int


@dataclass
class Charge:
    customer_id: str
    amount: int
    period_number: int
    number_of_periods: int


@dataclass
class Receipt:
    """What an activity returns in one of the changes; the recorded result is a text."""

    text: str
    number: int


@activity.defn
async def send_thank_you_to_customer(loan: Loan) -> str:
    raise NotImplementedError


@activity.defn
async def charge_customer(charge: Charge) -> str:
    raise NotImplementedError


@activity.defn(name="bill_customer")
async def bill_customer(charge: Charge) -> str:
    raise NotImplementedError


@activity.defn(name="charge_customer")
async def charge_with_receipt(charge: Charge) -> Receipt:
    raise NotImplementedError


@activity.defn
async def send_final_receipt(loan: Loan) -> str:
    raise NotImplementedError


async def thank(loan: Loan) -> None:
    await workflow.execute_activity(send_thank_you_to_customer, loan, start_to_close_timeout=SOON)


def charge_of(loan: Loan, period: int) -> Charge:
    return Charge(loan.customer_id, loan.amount, period, loan.number_of_periods)


async def charge(loan: Loan, period: int) -> None:
    await workflow.execute_activity(charge_customer, charge_of(loan, period), start_to_close_timeout=SOON)


async def pay_back(loan: Loan) -> str:
    total = 0
    for period in range(1, loan.number_of_periods + 1):
        await charge(loan, period)
        total += loan.amount
        await workflow.sleep(PAUSE)
    return f"Loan for customer {loan.customer_id} has been full paid(total={total})"


@workflow.defn(name=NAME)
class Faithful:
    @workflow.run
    async def run(self, loan: Loan) -> str:
        await thank(loan)
        return await pay_back(loan)


@workflow.defn(name=NAME)
class ThankedLast:
    """The change of the course, without a patch: the customer is thanked when all is paid."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        paid = await pay_back(loan)
        await thank(loan)
        return paid


@workflow.defn(name=NAME)
class ThankedLastPatched:
    """The same change behind a patch: runs that are older than it go the old way."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        moved = workflow.patched("thank-last")
        if not moved:
            await thank(loan)
        paid = await pay_back(loan)
        if moved:
            await thank(loan)
        return paid


@workflow.defn(name=NAME)
class ThankedLastDeprecated:
    """The patch deprecated too early: runs without its marker are still there."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        workflow.deprecate_patch("thank-last")
        paid = await pay_back(loan)
        await thank(loan)
        return paid


@workflow.defn(name=NAME)
class OtherOptions:
    """Longer timeouts, another task queue and pauses of a month: nothing of it is compared on replay."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        await workflow.execute_activity(
            send_thank_you_to_customer, loan, schedule_to_close_timeout=timedelta(hours=1), task_queue="mail"
        )
        total = 0
        for period in range(1, loan.number_of_periods + 1):
            await charge(loan, period)
            total += loan.amount
            await workflow.sleep(timedelta(days=30))
        return f"Loan for customer {loan.customer_id} has been full paid(total={total})"


@workflow.defn(name=NAME)
class NoPause:
    """The timer between the charges is gone."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        await thank(loan)
        for period in range(1, loan.number_of_periods + 1):
            await charge(loan, period)
        return "paid"


@workflow.defn(name=NAME)
class ChargeRenamed:
    """Charging is another activity type."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        await thank(loan)
        for period in range(1, loan.number_of_periods + 1):
            await workflow.execute_activity(bill_customer, charge_of(loan, period), start_to_close_timeout=SOON)
            await workflow.sleep(PAUSE)
        return "paid"


@workflow.defn(name=NAME)
class ChargedInCents:
    """The activity is asked for a hundred times the amount that was recorded."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        await thank(loan)
        for period in range(1, loan.number_of_periods + 1):
            cents = Charge(loan.customer_id, loan.amount * 100, period, loan.number_of_periods)
            await workflow.execute_activity(charge_customer, cents, start_to_close_timeout=SOON)
            await workflow.sleep(PAUSE)
        return f"Loan for customer {loan.customer_id} has been full paid(total={loan.amount * loan.number_of_periods})"


@workflow.defn(name=NAME)
class ResultReworded:
    """The same steps with another result."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        await thank(loan)
        return (await pay_back(loan)).upper()


@workflow.defn(name=NAME)
class FinalReceipt:
    """One more activity when all is paid."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        await thank(loan)
        paid = await pay_back(loan)
        await workflow.execute_activity(send_final_receipt, loan, start_to_close_timeout=SOON)
        return paid


@workflow.defn(name=NAME)
class ReceiptTyped:
    """Charging gives a receipt; the recorded results are texts."""

    @workflow.run
    async def run(self, loan: Loan) -> str:
        await thank(loan)
        total = 0
        for period in range(1, loan.number_of_periods + 1):
            await workflow.execute_activity(charge_with_receipt, charge_of(loan, period), start_to_close_timeout=SOON)
            total += loan.amount
            await workflow.sleep(PAUSE)
        return f"Loan for customer {loan.customer_id} has been full paid(total={total})"


@dataclass
class LoanWithBranch(Loan):
    """A new field that no recorded input has."""

    branch: str


@workflow.defn(name=NAME)
class BranchRequired:
    """The input needs a field that was not recorded."""

    @workflow.run
    async def run(self, loan: LoanWithBranch) -> str:
        await thank(loan)
        return await pay_back(loan)


@dataclass
class LoanMailRenamed:
    """``email_address`` is called ``email`` and has a default."""

    customer_id: str
    name: str
    amount: int
    number_of_periods: int
    email: str = ""


@workflow.defn(name=NAME)
class MailRenamed:
    """A field of the input renamed behind a default: the address of each recorded loan is lost without a word."""

    @workflow.run
    async def run(self, loan: LoanMailRenamed) -> str:
        same = Loan(loan.customer_id, loan.name, loan.email, loan.amount, loan.number_of_periods)
        await thank(same)
        return await pay_back(same)


@dataclass
class LoanWithCurrency(Loan):
    """A new field with a default."""

    currency: str = "EUR"


@workflow.defn(name=NAME)
class CurrencyAdded:
    """The input has a new field with a default, and the activities take what they took."""

    @workflow.run
    async def run(self, loan: LoanWithCurrency) -> str:
        same = Loan(loan.customer_id, loan.name, loan.email_address, loan.amount, loan.number_of_periods)
        await thank(same)
        return await pay_back(same)
