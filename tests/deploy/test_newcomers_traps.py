"""What a newcomer fell into: calls that nobody was shown, a policy that silences everything, advice that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pytest_loom import (
    ApprovalError,
    Context,
    Flow,
    FlowError,
    Log,
    StateMigrationError,
    check_resume,
    flow,
    fork,
    record,
    resume,
    resume_as,
    simulate_deploy,
    step,
    tool,
)

PAID: list[int] = []


@dataclass
class Order:
    """What is asked."""

    id: str
    cents: int = 0


@dataclass
class Renamed:
    """The same, with another name for the sum behind a default."""

    id: str
    amount: int = 0


@step
async def assess(id: str, sum: int) -> str:
    """Recorded work."""
    return "fine"


@tool(approval=True, permissions=["bank:pay"])
async def pay(order: str, cents: int) -> str:
    """What somebody agrees to."""
    PAID.append(cents)
    return f"paid {cents}"


def made(
    *,
    version: str = "1.0.0",
    factor: int = 1,
    shown: dict[str, Any] | None = None,
    gate: str = "Agreed",
    case: type[Any] = Order,
    asks: bool = True,
) -> Flow[..., Any]:
    """The flow with one thing changed."""

    async def order(ctx: Context, case: Any) -> str:
        cents = case.cents if isinstance(case, Order) else case.amount
        await ctx.run(assess, case.id, cents)
        args = {"order": case.id, "cents": cents}
        pending = {"name": "pay", "args": shown or args} if asks else None
        if await ctx.suspend(gate, kind="approval", pending=pending):
            return str(await ctx.call(pay, order=case.id, cents=cents * factor))
        return "no"

    order.__annotations__["case"] = case
    return flow(id="order", version=version, steps=[assess], tools=[pay], gates={gate: bool})(order)


@pytest.fixture
def waiting() -> Log:
    """A run that waits for its approval."""
    log = record(made(), Order("o1", 40))
    PAID.clear()
    return log


def test_a_call_that_nobody_was_shown_is_not_made(waiting: Log) -> None:
    """What runs after the answer is what was agreed to, or nothing."""
    with pytest.raises(ApprovalError) as refused:
        resume(waiting, made(factor=100), event="Agreed", payload=True)
    assert not PAID
    assert "nobody was shown" in str(refused.value)
    assert '"cents": 40' in str(refused.value)
    assert '"cents": 4000' in str(refused.value)
    assert resume(waiting, made(), event="Agreed", payload=True).state.variables["_output"] == "paid 40"


def test_where_nothing_was_shown_the_flow_alone_knows(waiting: Log) -> None:
    """A gate that shows no call binds none."""
    log = record(made(asks=False, factor=2), Order("o1", 40), events=[("Agreed", True)])
    assert log.state.variables["_output"] == "paid 80"


def test_nobody_is_shown_a_call_that_cannot_be_made() -> None:
    """Arguments in pending that the tool does not take end the run before anybody is asked."""
    with pytest.raises(FlowError, match=r"gate Agreed would show a call of tool pay that cannot be made"):
        record(made(shown={"order": "o1", "amount": 40}), Order("o1", 40))


def test_a_worker_that_fits_todays_code_pins_nothing(waiting: Log) -> None:
    """Its runs cannot be told from today's: the findings stand, and the report says so."""
    policy = {"worker": [{"flow": "order", "version": "1.*"}]}
    report = simulate_deploy([waiting], made(gate="Confirmed"), policy=policy)
    assert not report.ok
    assert any("fits today's code as well" in note for note in report.notes)
    report = simulate_deploy([waiting], made(gate="Confirmed", version="2.0.0"), policy=policy)
    assert (report.ok, report.runs[0].verdict) == (True, "pin")
    assert [found.hint for found in report.findings] == ["Nothing: that worker goes on with it."] * len(report.findings)
    assert not any("will be resumed by today's code" in found.message for found in report.findings)


def test_a_pattern_that_fits_nothing_is_said(waiting: Log) -> None:
    """High risk that is misspelt would fail open without a word."""
    rules = [{"tool": "payy", "allow": ["resume"]}]
    policy = {"risk": {"high": ["permission:bank.*", "permission:bank:*"]}, "rule": rules}
    notes = simulate_deploy([waiting], made(), policy=policy).notes
    assert [note.split("'")[1] for note in notes] == ["permission:bank.*", "payy"]


def test_a_lost_input_is_told_before_what_it_leads_to(waiting: Log) -> None:
    """The field that got another name is the cause; that a step is asked otherwise only follows, and needs no fork."""
    today = made(case=Renamed)
    decision = check_resume(waiting, today)
    assert (decision.verdict, decision.findings[-1].code) == ("reject", "input-contract")
    assert "resume_as" in decision.next_step
    with pytest.raises(StateMigrationError):
        resume(waiting, today, event="Agreed", payload=True)
    carried = {"id": "o1", "amount": 40}
    done = resume_as(waiting, today, transform_state=lambda old: carried, event="Agreed", payload=True)
    assert done.state.variables["_output"] == "paid 40"


def test_a_renamed_gate_can_be_asked_anew(waiting: Log) -> None:
    """What the hint says to type brings the run to today's gate."""
    today = made(gate="Confirmed")
    decision = check_resume(waiting, today)
    line = next(line for line in decision.next_step.splitlines() if "fork(" in line)
    space: dict[str, Any] = {"log": waiting, "flow": today, "fork": fork, "resume": resume}
    exec(line.strip(), space)
    assert space["asked"].state.suspension.on == "Confirmed"
    assert resume(space["asked"], today, event="Confirmed", payload=True).state.status == "completed"


def test_what_only_adds_something_needs_no_new_number(waiting: Log) -> None:
    """A contract that gained an optional argument is no drift, and no number is said to have stood still."""

    @tool(name="pay", approval=True, permissions=["bank:pay"])
    async def wider(order: str, cents: int, memo: str | None = None) -> str:
        return "paid"

    async def order(ctx: Context, case: Order) -> str:
        await ctx.run(assess, case.id, case.cents)
        args = {"order": case.id, "cents": case.cents}
        await ctx.suspend("Agreed", kind="approval", pending={"name": "pay", "args": args})
        return str(await ctx.call(wider, **args))

    today = flow(id="order", version="1.0.0", steps=[assess], tools=[wider], gates={"Agreed": bool})(order)
    report = simulate_deploy([waiting], today, contract=made())
    assert report.ok
    assert [changed.unmoved for changed in report.changed] == [[]]
    assert {found.code for found in report.findings} == {"suspended-carryover"}
