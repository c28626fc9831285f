"""Native flows: what ``@flow``, ``@step``, ``@tool`` and ``Context`` promise, recorded, replayed and resumed."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from pytest_loom import (
    Context,
    Flow,
    FlowError,
    Log,
    LogError,
    LoomError,
    ReplayDivergence,
    StepError,
    SyncContext,
    arecord,
    areplay,
    aresume,
    current_step,
    diff_runs,
    flow,
    load_log,
    record,
    replay,
    resume,
    step,
    tool,
)
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.resolve import contract_of
from pytest_loom.flow import seam

Mode = Literal["async", "sync"]

LIVE: list[str] = []
"""What really ran, in order."""


@pytest.fixture(params=["async", "sync"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Runs the test with an async flow and with a sync one."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    LIVE.clear()
    yield
    LIVE.clear()


def output(log: Log) -> Any:
    """What a completed run gave."""
    assert log.state.status == "completed", (log.state.status, log.state.variables)
    return log.state.variables["_output"]


def kinds(log: Log) -> list[str]:
    """The types of the events, in order."""
    return [event.event_type for event in log.events]


def replayed(log: Log, today: Any) -> Log:
    """The candidate of code that did not change: the same in everything, and nothing ran."""
    before = list(LIVE)
    candidate = replay(log, today)
    assert before == LIVE
    assert diff_runs(log, candidate, compare="all") == []
    assert sorted(kinds(candidate)) == sorted(kinds(log))
    return candidate


@dataclass
class Case:
    id: str
    amount: Decimal


class Verdict(pydantic.BaseModel):
    ok: bool
    limit: Decimal = Decimal(0)


class Approval(pydantic.BaseModel):
    by: str
    cents: int = 0


@step
async def assess(case: Case) -> Verdict:
    """Says that it ran."""
    LIVE.append("assess")
    return Verdict(ok=case.amount < 100, limit=case.amount)


@step
def book(case: Case, *, by: str = "robot") -> str:
    """Says that it ran."""
    LIVE.append("book")
    return f"{case.id} by {by}"


@step(id="note")
def note_it(text: str) -> str:
    """Says that it ran."""
    LIVE.append(f"note {text}")
    return text


@flow(id="refund", version="1.0.0", steps=[assess, book], gates={"ApprovalGranted": Approval})
async def refund(ctx: Context, case: Case) -> str:
    """Assess, wait for a human, book."""
    verdict = await ctx.run(assess, case)
    assert isinstance(verdict, Verdict)
    answer = await ctx.suspend("ApprovalGranted", correlation_key=case.id, timeout=timedelta(hours=24), kind="approval")
    return await ctx.run(book, case, by=answer.by)


@flow(id="refund", version="1.0.0", steps=[assess, book], gates={"ApprovalGranted": Approval})
def sync_refund(ctx: SyncContext, case: Case) -> str:
    """The same as a sync flow, with an async step."""
    verdict = ctx.run(assess, case)
    assert isinstance(verdict, Verdict)
    answer = ctx.suspend("ApprovalGranted", correlation_key=case.id, timeout=timedelta(hours=24), kind="approval")
    return ctx.run(book, case, by=answer.by)


def refund_of(mode: Mode) -> Flow[..., Any]:
    """The flow in one of its two forms."""
    return refund if mode == "async" else sync_refund


CASE = {"id": "c1", "amount": "12.50"}


def flow_of(mode: Mode, body: Callable[..., Any], **declared: Any) -> Flow[..., Any]:
    """A flow of either kind from an async body: a sync flow drives that body itself, since nothing in it waits."""
    if mode == "async":

        @flow(id=body.__name__, **declared)
        async def async_flow(ctx: Context) -> Any:
            return await body(ctx)

        return async_flow

    class Plain:
        """Calls of a sync Context that may be awaited."""

        def __init__(self, ctx: SyncContext) -> None:
            self._ctx = ctx

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._ctx, name)
            if name not in ("run", "call", "suspend"):
                return found

            async def awaited(*args: Any, **kwargs: Any) -> Any:
                return found(*args, **kwargs)

            return awaited

    @flow(id=body.__name__, **declared)
    def sync_flow(ctx: SyncContext) -> Any:
        driven = body(Plain(ctx))
        try:
            driven.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("the body waited")

    return sync_flow


class TestDeclared:
    def test_run_from_start_to_end(self, mode: Mode) -> None:
        """A flow is recorded up to its gate, resumed to its end, and replays as it was, typed all the way."""
        today = refund_of(mode)
        waiting = record(today, CASE)
        assert waiting.state.status == "suspended"
        wait = waiting.state.suspension
        assert wait is not None
        assert (wait.events, wait.kind, wait.correlation_key) == (["ApprovalGranted"], "approval", "c1")
        replayed(waiting, today)
        done = resume(waiting, today, event="ApprovalGranted", payload={"by": "ann", "cents": 1250})
        assert output(done) == "c1 by ann"
        assert LIVE == ["assess", "book"]
        assert [event.raw for event in done.events[: len(waiting.events)]] == [event.raw for event in waiting.events]
        replayed(done, today)

    def test_log_is_what_the_design_says(self, mode: Mode) -> None:
        """The events of a run are the kernel's, with their fields."""
        log = record(refund_of(mode), CASE, events=[("ApprovalGranted", {"by": "ann"})], execution_id="x1")
        assert [(event.event_type, event.sequence) for event in log.events] == [
            ("EXECUTION_STARTED", 1),
            ("STEP_STARTED", 2),
            ("STEP_COMPLETED", 3),
            ("EXECUTION_SUSPENDED", 4),
            ("ApprovalGranted", 5),
            ("EXECUTION_RESUMED", 6),
            ("STEP_STARTED", 7),
            ("STEP_COMPLETED", 8),
            ("EXECUTION_COMPLETED", 9),
        ]
        payloads = [event.payload for event in log.events]
        manifest = {"flowVersion": "1.0.0", "contractFingerprint": fingerprint(contract_of(refund_of(mode)))}
        assert payloads[0] == {"input": {"id": "c1", "amount": "12.50"}, "manifest": manifest}
        assert payloads[1] == {
            "stepId": "assess",
            "input": {"id": "c1", "amount": "12.50"},
            "attempt": 1,
            "idempotencyKey": "x1/assess",
        }
        assert payloads[2]["output"] == {"ok": True, "limit": "12.50"}
        assert payloads[3]["timeoutMs"] == 24 * 3600 * 1000
        assert payloads[4] == {"by": "ann", "cents": 0}
        assert payloads[5]["eventType"] == "ApprovalGranted"
        assert payloads[5]["payload"] == {"by": "ann", "cents": 0}
        assert payloads[6]["input"] == {"args": [{"id": "c1", "amount": "12.50"}], "kwargs": {"by": "ann"}}
        assert {event.execution_id for event in log.events} == {"x1"}

    @pytest.mark.parametrize("given", [{"id": "c1", "amount": "x"}, {"id": "c1"}, 7, None])
    def test_input_is_validated(self, mode: Mode, given: Any) -> None:
        """An input that does not fit the annotation is refused before anything runs."""
        with pytest.raises(FlowError, match="does not fit flow refund"):
            record(refund_of(mode), given)
        assert LIVE == []

    def test_several_inputs_by_name(self) -> None:
        """A flow with several inputs takes a dict of them, each parsed, and those left out by default."""
        seen: list[Any] = []

        @flow(id="several")
        async def several(ctx: Context, case: Case, at: datetime, times: int = 2) -> int:
            seen.append((case, at, times))
            return times

        log = record(several, {"case": CASE, "at": "2026-01-02T03:04:05Z"})
        replayed(log, several)
        assert seen == [(Case("c1", Decimal("12.50")), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 2)] * 2

    def test_async_forms(self) -> None:
        """The async forms do the same from inside a running loop, and step bodies run on that loop."""

        async def main() -> None:
            loops: list[Any] = []

            @step
            async def where(text: str) -> str:
                loops.append(asyncio.get_running_loop())
                return text

            @flow(id="where", steps=[where], gates={"Go": str})
            async def wheres(ctx: Context) -> Any:
                first = await ctx.run(where, "a")
                return first + await ctx.suspend("Go") + await ctx.run(where, "b")

            waiting = await arecord(wheres)
            log = await aresume(waiting, wheres, event="Go", payload="+")
            assert output(log) == "a+b"
            assert loops == [asyncio.get_running_loop()] * 2
            assert diff_runs(log, await areplay(log, wheres), compare="all") == []
            assert len(loops) == 2
            with pytest.raises(LoomError, match="arecord"):
                record(wheres)

        asyncio.run(main())

    def test_contract_is_data(self) -> None:
        """What a flow declares is its contract, without running it."""
        contract = contract_of(refund)
        assert contract.workflow_id == "refund"
        assert contract.version == "1.0.0"
        assert list(contract.steps or {}) == ["assess", "book"]
        assert list(contract.gates or {}) == ["ApprovalGranted"]
        assert LIVE == []


class TestUndeclared:
    @pytest.mark.parametrize("what", ["step", "tool", "gate", "bare function", "kind"])
    @pytest.mark.parametrize("caught", [Exception, BaseException])
    def test_is_an_error_at_once(self, mode: Mode, what: str, caught: type[BaseException]) -> None:
        """What a flow does not declare ends the recording with an error, even if the flow's code catches everything."""

        @step
        def other() -> int:
            LIVE.append("other")
            return 1

        @tool
        def wrench() -> int:
            LIVE.append("wrench")
            return 1

        async def careless(ctx: Any) -> Any:
            try:
                if what == "step":
                    await ctx.run(other)
                elif what == "tool":
                    await ctx.call(wrench)
                elif what == "gate":
                    await ctx.suspend("Nowhere")
                elif what == "kind":
                    await ctx.suspend("Go", kind="holiday")
                else:
                    await ctx.run(len, [])
            except caught:
                pass
            return "fine"

        with pytest.raises(FlowError):
            record(flow_of(mode, careless, steps=[note_it], gates={"Go": str}))
        assert LIVE == []

    def test_a_step_of_the_same_name_is_another(self, mode: Mode) -> None:
        """A step counts by what it is, not by what it is called."""

        @step(id="note")
        def impostor(text: str) -> str:
            LIVE.append("impostor")
            return text

        async def confused(ctx: Any) -> Any:
            return await ctx.run(impostor, "x")

        with pytest.raises(FlowError, match="note"):
            record(flow_of(mode, confused, steps=[note_it]))
        assert LIVE == []

    def test_declarations_are_checked(self) -> None:
        """Kernel names as gates, ids declared twice and undecorated steps are refused when the flow is declared."""

        @step(id="note")
        def again(text: str) -> str:
            return text

        def body(ctx: Context) -> None: ...

        def streams() -> Iterator[int]:
            yield 1

        for wrong_step in (body, streams):
            with pytest.raises(FlowError, match="cannot be tried again"):
                step(retries=1)(wrong_step)
        with pytest.raises(FlowError, match="never negative"):
            step(retries=-1)(len)

        for wrong in (
            {"gates": {"STEP_DONE": str}},
            {"gates": {"TIMEOUT": str}},
            {"steps": [note_it, again]},
            {"steps": [len]},
            {"tools": [note_it]},
        ):
            with pytest.raises(FlowError):
                flow(id="wrong", **wrong)(body)


class TestGates:
    def test_payload_that_does_not_fit_appends_nothing(self, mode: Mode) -> None:
        """A payload is parsed before it is appended: one that does not fit is refused, and the run still waits."""
        today = refund_of(mode)
        waiting = record(today, CASE)
        before = list(waiting.events)
        for wrong in ({}, {"by": 7}, {"by": "ann", "cents": "many"}, "ann", None):
            with pytest.raises(LoomError, match="does not fit gate ApprovalGranted"):
                resume(waiting, today, event="ApprovalGranted", payload=wrong)
        assert list(waiting.events) == before
        assert LIVE == ["assess"]
        assert output(resume(waiting, today, event="ApprovalGranted", payload={"by": "bo"})) == "c1 by bo"

    def test_wrong_event_and_key(self, mode: Mode) -> None:
        """An event that the run does not wait for, a wrong key and a payload without an event are refused."""
        waiting = record(refund_of(mode), CASE)
        for options in (
            {"event": "ApprovalDenied", "payload": {}},
            {"event": "ApprovalGranted", "payload": {"by": "ann"}, "correlation_key": "c2"},
            {"payload": {"by": "ann"}},
        ):
            with pytest.raises(LoomError):
                resume(waiting, refund_of(mode), **options)

    def test_what_is_over_is_not_resumed(self, mode: Mode) -> None:
        """A finished run refuses resume."""
        done = record(refund_of(mode), CASE, events=[("ApprovalGranted", {"by": "ann"})])
        with pytest.raises(LoomError, match="completed"):
            resume(done, refund_of(mode))
        with pytest.raises(LoomError, match="completed"):
            resume(done, refund_of(mode), event="ApprovalGranted", payload={"by": "ann"})

    @pytest.mark.parametrize("times", [1, 5])
    def test_in_a_row(self, mode: Mode, times: int) -> None:
        """Any number of waits in a row resumes in turn, the same event too, and steps in between run once."""

        async def asking(ctx: Any) -> list[int]:
            found = []
            for number in range(times):
                await ctx.run(note_it, str(number))
                found.append(await ctx.suspend("Number"))
            return found

        today = flow_of(mode, asking, steps=[note_it], gates={"Number": int})
        log = record(today)
        for number in range(times):
            assert log.state.status == "suspended"
            replayed(log, today)
            log = resume(log, today, event="Number", payload=number * 10)
        assert output(log) == [number * 10 for number in range(times)]
        assert [f"note {number}" for number in range(times)] == LIVE
        replayed(log, today)

    def test_two_in_a_row_without_a_step_between(self, mode: Mode) -> None:
        """Two waits right after one another take two answers, whatever the payloads are."""

        async def asking(ctx: Any) -> list[Any]:
            return [await ctx.suspend("Go", correlation_key="a"), await ctx.suspend("Go", correlation_key="b")]

        today = flow_of(mode, asking, gates={"Go": dict[str, int] | None})
        log = record(today, events=[("Go", None), ("Go", {"n": 1})])
        assert output(log) == [None, {"n": 1}]
        replayed(log, today)

    @pytest.mark.parametrize("payload", [0, "", None, False, [], {}, {"value": 1}, {"on": "Go"}, 1.5, [1, None]])
    def test_any_payload(self, mode: Mode, payload: Any) -> None:
        """Falsy payloads and plain values come through a gate as they are."""

        async def asking(ctx: Any) -> Any:
            return {"came": await ctx.suspend("Go")}

        today = flow_of(mode, asking, gates={"Go": Any})
        log = resume(record(today), today, event="Go", payload=payload)
        assert output(log) == {"came": payload}
        replayed(log, today)

    def test_timeout_raises(self, mode: Mode) -> None:
        """The event TIMEOUT ends a wait that has a timeout: the flow sees TimeoutError, in replay too."""

        async def waiting(ctx: Any) -> str:
            try:
                await ctx.suspend("Go", timeout=2.5)
            except TimeoutError:
                return await ctx.run(note_it, "too late")  # type: ignore[no-any-return]
            return "in time"

        today = flow_of(mode, waiting, steps=[note_it], gates={"Go": str})
        log = record(today)
        assert log.events[-1].payload["timeoutMs"] == 2500
        late = resume(log, today, event="TIMEOUT")
        assert output(late) == "too late"
        replayed(late, today)
        in_time = resume(log, today, event="Go", payload="x")
        assert output(in_time) == "in time"

    def test_no_timeout_without_one(self, mode: Mode) -> None:
        """A wait without a timeout is not ended by TIMEOUT."""

        async def waiting(ctx: Any) -> Any:
            return await ctx.suspend("Go")

        today = flow_of(mode, waiting, gates={"Go": str})
        with pytest.raises(LoomError, match="timeout"):
            resume(record(today), today, event="TIMEOUT")

    @pytest.mark.parametrize("first", ["Legal", "Finance"])
    @pytest.mark.parametrize("spread", ["gather", "TaskGroup"])
    def test_open_at_once(self, first: str, spread: str) -> None:
        """Concurrent gates are all open at once; each is resumed by its own event, in any order."""

        async def ask(ctx: Context, event: str) -> str:
            answer = await ctx.suspend(event)
            return await ctx.run(note_it, f"{event} {answer}")

        @flow(id="both", steps=[note_it], gates={"Legal": str, "Finance": str})
        async def both(ctx: Context) -> list[str]:
            if spread == "gather":
                return list(await asyncio.gather(ask(ctx, "Legal"), ask(ctx, "Finance")))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(ctx, event)) for event in ("Legal", "Finance")]
            return [task.result() for task in tasks]

        log = record(both)
        assert [wait.events for wait in log.state.suspensions] == [["Legal"], ["Finance"]]
        second = "Finance" if first == "Legal" else "Legal"
        log = resume(log, both, event=first, payload="yes")
        assert log.state.status == "suspended"
        assert [wait.events for wait in log.state.suspensions] == [[second]]
        replayed(log, both)
        log = resume(log, both, event=second, payload="no")
        said = {first: "yes", second: "no"}
        assert output(log) == [f"Legal {said['Legal']}", f"Finance {said['Finance']}"]
        assert sorted(LIVE) == sorted(f"note {event} {answer}" for event, answer in said.items())
        replayed(log, both)

    def test_same_event_told_apart_by_key(self) -> None:
        """Waits for the same event are told apart by their key; without one, the answer is refused."""

        @flow(id="votes", gates={"Vote": bool})
        async def votes(ctx: Context) -> list[bool]:
            return list(
                await asyncio.gather(*(ctx.suspend("Vote", correlation_key=name) for name in ("ann", "bo", "cy")))
            )

        log = record(votes)
        with pytest.raises(LoomError, match="correlation_key"):
            resume(log, votes, event="Vote", payload=True)
        for name, vote in (("bo", False), ("cy", True), ("ann", True)):
            log = resume(log, votes, event="Vote", payload=vote, correlation_key=name)
        assert output(log) == [True, False, True]
        replayed(log, votes)

    def test_same_event_without_keys(self) -> None:
        """Waits for the same event without keys are answered in the order of their branches."""

        @flow(id="votes", gates={"Vote": int})
        async def votes(ctx: Context) -> list[int]:
            return list(await asyncio.gather(*(ctx.suspend("Vote") for _ in range(3))))

        log = record(votes, events=[("Vote", 1), ("Vote", 2), ("Vote", 3)])
        assert output(log) == [1, 2, 3]
        replayed(log, votes)

    def test_other_branches_go_on_while_one_waits(self) -> None:
        """A branch that waits does not stop the others; they are not run again when it is resumed."""

        async def work(ctx: Context) -> str:
            await asyncio.sleep(0)
            return await ctx.run(note_it, "a") + await ctx.run(note_it, "b")

        @flow(id="mixed", steps=[note_it], gates={"Go": str})
        async def mixed(ctx: Context) -> list[str]:
            return list(await asyncio.gather(ctx.suspend("Go"), work(ctx)))

        log = record(mixed)
        assert LIVE == ["note a", "note b"]
        log = resume(log, mixed, event="Go", payload="!")
        assert output(log) == ["!", "ab"]
        assert LIVE == ["note a", "note b"]
        replayed(log, mixed)

    def test_given_up_by_a_timer_of_the_flow(self) -> None:
        """A wait that the flow gives up on by a timer of its own is no wait of the run, in replay neither."""
        seconds = [0.01]

        @flow(id="impatient", steps=[note_it], gates={"Go": str})
        async def impatient(ctx: Context) -> Any:
            try:
                return await asyncio.wait_for(ctx.suspend("Go"), seconds[0])
            except TimeoutError:
                first = await ctx.run(note_it, "gave up")
                return first + await ctx.suspend("Go")

        log = record(impatient)
        assert [wait.events for wait in log.state.suspensions] == [["Go"]]
        seconds[0] = 3600.0
        replayed(log, impatient)
        log = resume(log, impatient, event="Go", payload="!")
        assert output(log) == "gave up!"
        replayed(log, impatient)

    @pytest.mark.parametrize("how", ["TaskGroup", "gather", "FIRST_COMPLETED"])
    def test_given_up_with_its_branch(self, how: str) -> None:
        """A wait in a branch that is cancelled, since another one failed or was first, is no wait of the run."""

        @step
        async def other() -> str:
            LIVE.append("other")
            await asyncio.sleep(0)
            if how != "FIRST_COMPLETED":
                raise ValueError("other")
            return "first"

        @flow(id="racing", steps=[other, note_it], gates={"Go": str})
        async def racing(ctx: Context) -> Any:
            try:
                if how == "TaskGroup":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(ctx.suspend("Go"))
                        group.create_task(ctx.run(other))
                elif how == "gather":
                    await asyncio.gather(ctx.suspend("Go"), ctx.run(other))
                else:
                    tasks = [asyncio.create_task(ctx.suspend("Go")), asyncio.create_task(ctx.run(other))]
                    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in pending:
                        task.cancel()
                    return [task.result() for task in done]
            except (ValueError, ExceptionGroup):
                return await ctx.run(note_it, "failed")

        log = record(racing)
        assert output(log) == (["first"] if how == "FIRST_COMPLETED" else "failed")
        assert "EXECUTION_SUSPENDED" not in kinds(log)
        replayed(log, racing)
        for length in range(1, len(log.events)):
            assert output(resume(Log(log.events[:length]), racing)) == output(log)

    def test_finally_blocks_of_a_waiting_flow_change_nothing(self, mode: Mode) -> None:
        """What a flow's finally block would do is not done, and not recorded, while the run only waits."""

        async def careful(ctx: Any) -> str:
            try:
                return await ctx.suspend("Go")  # type: ignore[no-any-return]
            finally:
                await ctx.run(note_it, "cleanup")

        today = flow_of(mode, careful, steps=[note_it], gates={"Go": str})
        log = record(today)
        assert LIVE == []
        assert kinds(log) == ["EXECUTION_STARTED", "EXECUTION_SUSPENDED"]
        log = resume(log, today, event="Go", payload="x")
        assert output(log) == "x"
        assert LIVE == ["note cleanup"]
        replayed(log, today)

    def test_swallowed_by_a_flow_that_catches_everything(self, mode: Mode) -> None:
        """A flow whose code catches everything still waits: it does not complete, and records nothing more."""

        async def greedy(ctx: Any) -> str:
            try:
                return await ctx.suspend("Go")  # type: ignore[no-any-return]
            except BaseException:
                await ctx.run(note_it, "swallowed")
            return "done"

        today = flow_of(mode, greedy, steps=[note_it], gates={"Go": str})
        log = record(today)
        assert log.state.status == "suspended"
        assert LIVE == []
        assert output(resume(log, today, event="Go", payload="x")) == "x"


class TestRetries:
    def test_attempts_are_recorded(self, mode: Mode) -> None:
        """Each attempt is recorded; replay gives the last one's answer and waits for no backoff."""
        tries: list[int] = []

        @step(retries=3, backoff=0.001)
        def flaky(text: str) -> str:
            info = current_step()
            assert info is not None
            tries.append(info.attempt)
            if len(tries) < 3:
                raise ConnectionError(f"try {len(tries)}")
            return text

        async def trying(ctx: Any) -> Any:
            return await ctx.run(flaky, "x")

        today = flow_of(mode, trying, steps=[flaky])
        log = record(today)
        assert output(log) == "x"
        assert tries == [1, 2, 3]
        assert kinds(log)[1:-1] == [
            "STEP_STARTED", "STEP_FAILED", "STEP_STARTED", "STEP_FAILED", "STEP_STARTED", "STEP_COMPLETED",
        ]  # fmt: skip
        assert [event.payload["willRetry"] for event in log.events if event.event_type == "STEP_FAILED"] == [True, True]
        frame = log.state.frames["flaky"]
        assert (list(log.state.frames), frame.attempts) == (["flaky"], 3)
        replayed(log, today)
        assert tries == [1, 2, 3]

    def test_backoff_is_not_waited_for_in_replay(self, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
        """A recorded hour between two attempts takes no time in replay."""
        slept: list[float] = []

        @step(retries=1, backoff=timedelta(hours=1))
        def flaky() -> str:
            LIVE.append("flaky")
            if len(LIVE) == 1:
                raise ConnectionError("once")
            return "x"

        async def trying(ctx: Any) -> Any:
            return await ctx.run(flaky)

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        today = flow_of(mode, trying, steps=[flaky])
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", slept.append)
            patch.setattr(asyncio, "sleep", sleep)
            log = record(today)
        assert slept == [3600.0]
        replayed(log, today)
        assert slept == [3600.0]

    def test_that_run_out(self, mode: Mode) -> None:
        """When all attempts failed, the flow gets the last failure."""

        @step(retries=2)
        def flaky() -> str:
            LIVE.append("flaky")
            raise ConnectionError(f"try {len(LIVE)}")

        async def trying(ctx: Any) -> Any:
            try:
                await ctx.run(flaky)
            except ConnectionError as problem:
                return str(problem)

        today = flow_of(mode, trying, steps=[flaky])
        log = record(today)
        assert output(log) == "try 3"
        assert [event.payload["willRetry"] for event in log.events if event.event_type == "STEP_FAILED"] == [
            True,
            True,
            False,
        ]
        replayed(log, today)


class TestDecisions:
    def test_are_recorded(self, mode: Mode) -> None:
        """The clock, ids, numbers and decisions are the recorded ones in replay and after a resume."""
        seen: list[Any] = []

        def coin() -> UUID:
            LIVE.append("coin")
            return UUID(int=len(LIVE))

        async def deciding(ctx: Any) -> Any:
            found = (ctx.now(), ctx.uuid(), ctx.random(), ctx.decide("coin", coin), ctx.decide("list", lambda: [1]))
            seen.append(found)
            return await ctx.suspend("Go")

        today = flow_of(mode, deciding, gates={"Go": int})
        log = resume(record(today), today, event="Go", payload=1)
        replayed(log, today)
        assert len({repr(found) for found in seen}) == 1
        now, made, number, decided, listed = seen[0]
        assert isinstance(now, datetime)
        assert now.tzinfo is not None
        assert isinstance(made, UUID)
        assert 0 <= number < 1
        assert decided == UUID(int=1)
        assert listed == [1]
        assert LIVE == ["coin"]

    def test_of_one_key_twice(self, mode: Mode) -> None:
        """A decision made twice under one key has two outcomes, in order."""
        numbers = iter(range(100))

        async def deciding(ctx: Any) -> Any:
            return [ctx.decide("n", lambda: next(numbers)) for _ in range(3)]

        today = flow_of(mode, deciding)
        log = record(today)
        assert output(replayed(log, today)) == [0, 1, 2]

    def test_that_raise_are_not_recorded(self, mode: Mode) -> None:
        """A decision that raises is the flow's own failure, live; nothing is recorded for it."""

        def no() -> int:
            raise RuntimeError("no")

        async def deciding(ctx: Any) -> Any:
            return ctx.decide("n", no)

        log = record(flow_of(mode, deciding))
        assert log.state.status == "failed"
        assert kinds(log) == ["EXECUTION_STARTED", "EXECUTION_FAILED"]


class TestNested:
    def test_steps_within_a_step(self, mode: Mode) -> None:
        """A step that takes the Context runs steps of its own; replay answers it as a whole."""
        if mode == "async":

            @step
            async def both(ctx: Context, text: str) -> str:
                LIVE.append("both")
                return await ctx.run(note_it, f"{text}1") + await ctx.run(note_it, f"{text}2")
        else:

            @step
            def both(ctx: SyncContext, text: str) -> str:
                LIVE.append("both")
                return ctx.run(note_it, f"{text}1") + ctx.run(note_it, f"{text}2")

        async def outer(ctx: Any) -> str:
            one = await ctx.run(both, "a")
            return one + await ctx.run(both, "b") + await ctx.run(note_it, "end")  # type: ignore[no-any-return]

        today = flow_of(mode, outer, steps=[both, note_it])
        log = record(today)
        assert output(log) == "a1a2b1b2end"
        assert [event.namespace for event in log.events if event.payload.get("stepId") == "note"] == [
            *["both"] * 4,
            *["both#2"] * 4,
            None,
            None,
        ]
        before = list(LIVE)
        replayed(log, today)
        assert before == LIVE

    def test_with_a_gate_inside(self, mode: Mode) -> None:
        """A step that runs steps may wait; it is entered again on resume, and what it finished is not run again."""
        if mode == "async":

            @step
            async def asking(ctx: Context, text: str) -> str:
                first = await ctx.run(note_it, text)
                answer: str = await ctx.suspend("Go")
                return first + answer + await ctx.run(note_it, "after")
        else:

            @step
            def asking(ctx: SyncContext, text: str) -> str:
                first = ctx.run(note_it, text)
                return first + ctx.suspend("Go") + ctx.run(note_it, "after")  # type: ignore[no-any-return]

        async def outer(ctx: Any) -> str:
            return await ctx.run(asking, "a")  # type: ignore[no-any-return]

        today = flow_of(mode, outer, steps=[asking, note_it], gates={"Go": str})
        log = record(today)
        assert log.state.status == "suspended"
        replayed(log, today)
        log = resume(log, today, event="Go", payload="+")
        assert output(log) == "a+after"
        assert LIVE == ["note a", "note after"]
        replayed(log, today)

    def test_that_fails(self, mode: Mode) -> None:
        """A step that runs steps and fails is recorded and raised again as a whole."""
        if mode == "async":

            @step
            async def failing(ctx: Context) -> str:
                await ctx.run(note_it, "a")
                raise ValueError("inside")
        else:

            @step
            def failing(ctx: SyncContext) -> str:
                ctx.run(note_it, "a")
                raise ValueError("inside")

        async def outer(ctx: Any) -> str:
            try:
                return await ctx.run(failing)  # type: ignore[no-any-return]
            except ValueError as problem:
                return f"caught {problem}"

        today = flow_of(mode, outer, steps=[failing, note_it])
        log = record(today)
        assert output(log) == "caught inside"
        replayed(log, today)


class TestSubFlows:
    def test_run_their_code(self, mode: Mode) -> None:
        """A sub-flow's effects are recorded under its namespace; its own declarations count."""

        async def child_body(ctx: Any, text: str) -> str:
            return await ctx.run(note_it, text)  # type: ignore[no-any-return]

        child = _child(mode, child_body, steps=[note_it])

        async def parent(ctx: Any) -> str:
            return await ctx.run(child, "a") + await ctx.run(child, "b")  # type: ignore[no-any-return]

        today = flow_of(mode, parent, steps=[child])
        log = record(today)
        assert output(log) == "ab"
        assert [event.namespace for event in log.events if event.event_type == "STEP_STARTED"] == [
            None,
            "child",
            None,
            "child#2",
        ]
        replayed(log, today)

    def test_with_a_gate(self, mode: Mode) -> None:
        """A sub-flow's gate is resumed through its parent."""

        async def child_body(ctx: Any, text: str) -> str:
            return text + await ctx.suspend("Go")  # type: ignore[no-any-return]

        child = _child(mode, child_body, gates={"Go": str})

        async def parent(ctx: Any) -> str:
            return await ctx.run(child, "a") + await ctx.run(child, "b")  # type: ignore[no-any-return]

        today = flow_of(mode, parent, steps=[child])
        log = record(today)
        replayed(log, today)
        with pytest.raises(LoomError, match="does not fit gate"):
            resume(log, today, event="Go", payload=1)
        log = resume(log, today, event="Go", payload="1")
        replayed(log, today)
        log = resume(log, today, event="Go", payload="2")
        assert output(log) == "a1b2"
        replayed(log, today)

    def test_gates_of_the_same_name(self, mode: Mode) -> None:
        """A sub-flow's gate has its own type, whatever its parent or another sub-flow means by that name."""

        async def child_body(ctx: Any, text: str) -> str:
            return text + await ctx.suspend("Go")  # type: ignore[no-any-return]

        child = _child(mode, child_body, gates={"Go": str})

        async def parent(ctx: Any) -> Any:
            return [await ctx.suspend("Go"), await ctx.run(child, "a"), await ctx.suspend("Go")]

        today = flow_of(mode, parent, steps=[child], gates={"Go": int})
        log = record(today)
        for payload, wrong in ((1, "x"), ("one", 1), (2, "y")):
            with pytest.raises(LoomError, match="does not fit gate Go"):
                resume(log, today, event="Go", payload=wrong)
            log = resume(log, today, event="Go", payload=payload)
        assert output(log) == [1, "aone", 2]
        replayed(log, today)

    def test_that_fails(self, mode: Mode) -> None:
        """A sub-flow's failure is recorded, and its parent may catch it."""

        async def child_body(ctx: Any, text: str) -> str:
            await ctx.run(note_it, text)
            raise LookupError("inside")

        child = _child(mode, child_body, steps=[note_it])

        async def parent(ctx: Any) -> str:
            try:
                return await ctx.run(child, "a")  # type: ignore[no-any-return]
            except LookupError as problem:
                return await ctx.run(note_it, f"caught {problem}")  # type: ignore[no-any-return]

        today = flow_of(mode, parent, steps=[child, note_it])
        log = record(today)
        assert output(log) == "caught inside"
        assert "STEP_FAILED" in kinds(log)
        replayed(log, today)

    def test_in_parallel_branches(self) -> None:
        """Sub-flows with gates run at once, and each is resumed on its own."""

        @flow(id="child", steps=[note_it], gates={"Go": str})
        async def child(ctx: Context, text: str) -> str:
            answer = await ctx.suspend("Go", correlation_key=text)
            return await ctx.run(note_it, text + answer)

        @flow(id="parent", steps=[child])
        async def parent(ctx: Context) -> list[str]:
            return await asyncio.gather(*(ctx.run(child, text) for text in "abc"))

        log = record(parent)
        assert [wait.correlation_key for wait in log.state.suspensions] == ["a", "b", "c"]
        for text in "cab":
            replayed(log, parent)
            log = resume(log, parent, event="Go", payload=text.upper(), correlation_key=text)
        assert output(log) == ["aA", "bB", "cC"]
        assert LIVE == ["note cC", "note aA", "note bB"]
        replayed(log, parent)

    def test_undeclared_is_an_error(self, mode: Mode) -> None:
        """A sub-flow has to be declared, and declares its own steps."""

        async def child_body(ctx: Any, text: str) -> str:
            return await ctx.run(note_it, text)  # type: ignore[no-any-return]

        child = _child(mode, child_body)

        async def parent(ctx: Any) -> Any:
            return await ctx.run(child, "a")

        with pytest.raises(FlowError, match="flow parent runs step child"):
            record(flow_of(mode, parent))
        with pytest.raises(FlowError, match="flow child runs step note"):
            record(flow_of(mode, parent, steps=[child, note_it]))


def _child(mode: Mode, body: Callable[..., Any], **declared: Any) -> Flow[..., Any]:
    """A sub-flow of either kind, with one text as its input."""
    if mode == "async":

        @flow(id="child", **declared)
        async def child(ctx: Context, text: str) -> str:
            return await body(ctx, text)  # type: ignore[no-any-return]

        return child

    @flow(id="child", **declared)
    def sync_child(ctx: SyncContext, text: str) -> str:
        return flow_of("sync", lambda plain: body(plain, text)).fn(ctx)  # type: ignore[no-any-return]

    return sync_child


class TestConcurrency:
    def test_first_completed(self) -> None:
        """asyncio.wait for the first of several gives in replay the one that was first while recording."""
        gates = [asyncio.Event() for _ in range(3)]

        @step
        async def race(number: int) -> int:
            LIVE.append("race")
            if number != 1:
                await gates[number].wait()
            return number

        @flow(id="racing", steps=[race])
        async def racing(ctx: Context) -> int:
            tasks = [asyncio.create_task(ctx.run(race, number)) for number in range(3)]
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            return done.pop().result()

        log = record(racing)
        assert output(log) == 1
        replayed(log, racing)

    def test_as_completed(self) -> None:
        """as_completed gives in replay the order of the recording."""
        order = [2, 0, 1]
        ended: list[int] = []

        @step
        async def job(number: int) -> int:
            while order[len(ended)] != number:
                await asyncio.sleep(0)
            ended.append(number)
            return number

        @flow(id="jobs", steps=[job])
        async def jobs(ctx: Context) -> list[int]:
            return [await task for task in asyncio.as_completed([ctx.run(job, number) for number in range(3)])]

        log = record(jobs)
        assert output(log) == order
        replayed(log, jobs)

    def test_wait_for_in_time(self) -> None:
        """What ends in time under wait_for is an ordinary effect of the branch that waits."""

        @flow(id="patient", steps=[note_it])
        async def patient(ctx: Context) -> str:
            one = await asyncio.wait_for(ctx.run(note_it, "a"), 60)
            async with asyncio.timeout(60):
                return one + await ctx.run(note_it, "b")

        log = record(patient)
        assert output(log) == "ab"
        assert {event.branch for event in log.events} == {None}
        replayed(log, patient)

    @pytest.mark.parametrize("how", ["wait_for", "timeout"])
    def test_step_that_takes_too_long(self, how: str) -> None:
        """A step that its flow cancelled is cancelled again in replay, without waiting for the timeout."""
        begun = threading.Event()

        @step
        async def slow() -> str:
            LIVE.append("slow")
            begun.set()
            await asyncio.Event().wait()
            return "never"

        seconds = [0.01]

        @flow(id="impatient", steps=[slow, note_it])
        async def impatient(ctx: Context) -> str:
            try:
                if how == "wait_for":
                    return await asyncio.wait_for(ctx.run(slow), seconds[0])
                async with asyncio.timeout(seconds[0]):
                    return await ctx.run(slow)
            except TimeoutError:
                return await ctx.run(note_it, "gave up")

        log = record(impatient)
        assert output(log) == "gave up"
        seconds[0] = 3600.0
        replayed(log, impatient)

    def test_sibling_failure_in_a_task_group(self) -> None:
        """A failing branch cancels its siblings while recording and in replay, and the group says so."""
        begun = asyncio.Event()

        @step
        async def slow() -> str:
            LIVE.append("slow")
            begun.set()
            await asyncio.Event().wait()
            return "never"

        @step
        async def bad() -> str:
            LIVE.append("bad")
            await begun.wait()
            raise ValueError("bad")

        @flow(id="group", steps=[slow, bad, note_it])
        async def group(ctx: Context) -> str:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(ctx.run(slow))
                    tasks.create_task(ctx.run(bad))
            except* ValueError as problems:
                await ctx.run(note_it, str(len(problems.exceptions)))
            return "done"

        log = record(group)
        assert output(log) == "done"
        replayed(log, group)

    def test_sibling_that_just_made_it(self) -> None:
        """A branch whose step ended at the same moment as its sibling failed keeps its answer in replay."""

        @step
        async def one(number: int) -> int:
            LIVE.append("one")
            await asyncio.sleep(0)
            if number == 1:
                raise ValueError(number)
            return number

        @flow(id="close", steps=[one, note_it])
        async def close(ctx: Context) -> str:
            tasks: list[asyncio.Task[int]] = []
            try:
                async with asyncio.TaskGroup() as group:
                    tasks += [group.create_task(ctx.run(one, number)) for number in range(4)]
            except* ValueError:
                pass
            ended = [task.result() for task in tasks if not task.cancelled() and not task.exception()]
            return await ctx.run(note_it, str(ended))

        log = record(close)
        assert output(log) == "[0, 2, 3]"
        replayed(log, close)

    def test_flow_that_fails_while_a_sibling_runs(self) -> None:
        """gather raises its first failure; the sibling that went on is as it was in replay."""
        begun = asyncio.Event()

        @step
        async def slow() -> str:
            begun.set()
            await asyncio.sleep(0)
            return "slow"

        @step
        async def bad() -> str:
            await begun.wait()
            raise ValueError("bad")

        @flow(id="gathered", steps=[slow, bad])
        async def gathered(ctx: Context) -> list[str]:
            return list(await asyncio.gather(ctx.run(slow), ctx.run(bad)))

        log = record(gathered)
        assert log.state.status == "failed"
        assert log.events[-1].payload["error"] == {"type": "ValueError", "message": "bad"}
        replayed(log, gathered)

    def test_nested_branches(self) -> None:
        """Branches within branches keep their answers, and are named by the order in which they were made."""

        async def pair(ctx: Context, name: str) -> list[str]:
            return list(await asyncio.gather(ctx.run(note_it, f"{name}1"), ctx.run(note_it, f"{name}2")))

        @flow(id="tree", steps=[note_it])
        async def tree(ctx: Context) -> list[list[str]]:
            return list(await asyncio.gather(pair(ctx, "a"), pair(ctx, "b")))

        log = record(tree)
        assert output(log) == [["a1", "a2"], ["b1", "b2"]]
        places = {event.payload["input"]: event.branch for event in log.events if event.event_type == "STEP_STARTED"}
        assert places == {"a1": "1/1", "a2": "1/2", "b1": "2/1", "b2": "2/2"}
        replayed(log, tree)

    def test_task_that_is_never_awaited(self) -> None:
        """A task that the flow leaves behind is ended with it, and replay agrees."""

        @flow(id="careless", steps=[note_it])
        async def careless(ctx: Context) -> str:
            task = asyncio.create_task(ctx.run(note_it, "a"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await ctx.run(note_it, "b")
            del task
            return "done"

        log = record(careless)
        assert output(log) == "done"
        replayed(log, careless)

    def test_own_queues_and_locks(self) -> None:
        """Producer and consumer over a queue and a lock of the flow's own replay as they ran."""

        @flow(id="queued", steps=[note_it])
        async def queued(ctx: Context) -> list[str]:
            queue: asyncio.Queue[str | None] = asyncio.Queue(1)
            lock = asyncio.Lock()
            found: list[str] = []

            async def produce() -> None:
                for text in "abc":
                    async with lock:
                        await queue.put(await ctx.run(note_it, text))
                await queue.put(None)

            async def consume() -> None:
                while (text := await queue.get()) is not None:
                    found.append(await ctx.run(note_it, f"got {text}"))

            await asyncio.gather(produce(), consume())
            return found

        log = record(queued)
        assert output(log) == ["got a", "got b", "got c"]
        replayed(log, queued)

    def test_many_branches_and_few_at_a_time(self) -> None:
        """Branches that wait for one another by a semaphore, a lock and an event come in the recorded order again."""

        @step
        async def slow(number: int) -> int:
            for _ in range(number * 7 % 13):
                await asyncio.sleep(0)
            return number

        @flow(id="many", steps=[slow])
        async def many(ctx: Context) -> int:
            some, one, all_made = asyncio.Semaphore(10), asyncio.Lock(), asyncio.Event()

            async def work(number: int) -> int:
                await all_made.wait()
                async with some:
                    found = await ctx.run(slow, number)
                    async with one:
                        return found + await ctx.run(slow, number + 1)

            tasks = [asyncio.create_task(work(number)) for number in range(60)]
            all_made.set()
            return sum(await asyncio.gather(*tasks))

        log = record(many)
        candidate = replayed(log, many)
        assert [bytes(event.raw) for event in candidate.events] == [bytes(event.raw) for event in log.events]

    def test_shielded_work_goes_on(self) -> None:
        """What a flow shields from its own timeout goes on, and its answer comes after the timeout in replay too."""
        late = asyncio.Event()

        @step
        async def slow() -> str:
            LIVE.append("slow")
            await late.wait()
            return "slow"

        @step
        async def release() -> None:
            LIVE.append("release")
            late.set()

        @flow(id="shielding", steps=[slow, release])
        async def shielding(ctx: Context) -> str:
            task = asyncio.create_task(ctx.run(slow))
            try:
                return await asyncio.wait_for(asyncio.shield(task), 0.01)
            except TimeoutError:
                await ctx.run(release)
                return "late " + await task

        log = record(shielding)
        assert output(log) == "late slow"
        replayed(log, shielding)

    def test_threads_that_wait_for_gates(self) -> None:
        """Threads of a sync flow wait at gates of their own, and each is resumed by its own event."""

        @flow(id="votes", steps=[note_it], gates={"Vote": str})
        def votes(ctx: SyncContext) -> list[str]:
            def vote(name: str) -> str:
                first = ctx.run(note_it, name)
                return f"{first} {ctx.suspend('Vote', correlation_key=name)}"

            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(vote, ["ann", "bo"]))

        log = record(votes)
        assert [wait.correlation_key for wait in log.state.suspensions] == ["ann", "bo"]
        for name in ("bo", "ann"):
            replayed(log, votes)
            log = resume(log, votes, event="Vote", payload="yes", correlation_key=name)
        assert output(log) == ["ann yes", "bo yes"]
        assert sorted(LIVE) == ["note ann", "note bo"]
        replayed(log, votes)

    def test_sleeping_flow_does_not_wait_in_replay(self) -> None:
        """A flow's own asyncio.sleep passes at once in replay."""
        seconds = [0.001]

        @flow(id="sleepy", steps=[note_it])
        async def sleepy(ctx: Context) -> str:
            await asyncio.sleep(seconds[0])
            one = await ctx.run(note_it, "a")
            await asyncio.gather(asyncio.sleep(seconds[0]), asyncio.sleep(seconds[0] * 2))
            return one + await ctx.run(note_it, "b")

        log = record(sleepy)
        seconds[0] = 86_400.0
        replayed(log, sleepy)

    @pytest.mark.parametrize("how", ["pool", "map", "threads", "to_thread", "run_in_executor"])
    def test_threads(self, how: str) -> None:
        """Work that a flow hands to threads is recorded as branches, and replays from the log."""

        @flow(id="threaded", steps=[note_it])
        def sync_threaded(ctx: SyncContext) -> list[str]:
            def work(text: str) -> str:
                return ctx.run(note_it, text) + ctx.run(note_it, text * 2)

            if how == "threads":
                found: dict[str, str] = {}
                threads = [
                    threading.Thread(target=lambda text=text: found.update({text: work(text)})) for text in "abc"
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                return [found[text] for text in "abc"]
            with ThreadPoolExecutor(2) as pool:
                if how == "map":
                    return list(pool.map(work, "abc"))
                return [future.result() for future in [pool.submit(work, text) for text in "abc"]]

        @flow(id="threaded", steps=[note_it])
        async def threaded(ctx: Context) -> list[str]:
            def work(text: str) -> str:
                return text * 3

            if how == "to_thread":
                tripled = await asyncio.gather(*(asyncio.to_thread(work, text) for text in "abc"))
            else:
                loop = asyncio.get_running_loop()
                tripled = await asyncio.gather(*(loop.run_in_executor(None, work, text) for text in "abc"))
            return [await ctx.run(note_it, text) for text in tripled]

        today: Flow[..., Any] = threaded if how in ("to_thread", "run_in_executor") else sync_threaded
        log = record(today)
        expected = ["aaa", "bbb", "ccc"]
        assert output(log) == expected
        before = list(LIVE)
        candidate = replay(log, today)
        assert before == LIVE
        assert diff_runs(log, candidate, compare="all") == []


class TestStreams:
    def test_pieces_in_order(self, mode: Mode) -> None:
        """A streaming step's pieces are recorded one by one, and replayed in order without running it."""
        today = _streaming(mode, take=99, fail=False)
        log = record(today)
        assert output(log) == ["0", "1", "2"]
        assert [event.payload["chunk"] for event in log.events if event.event_type == "STEP_PROGRESS"] == [0, 1, 2]
        assert log.state.frames["count"].output == [0, 1, 2]
        replayed(log, today)

    def test_early_break(self, mode: Mode) -> None:
        """A consumer that stops early has recorded what it saw, and the generator was closed."""
        today = _streaming(mode, take=2, fail=False)
        log = record(today)
        assert output(log) == ["0", "1"]
        assert "closed" in LIVE
        assert log.state.frames["count"].status == "completed"
        replayed(log, today)

    def test_failure_midway(self, mode: Mode) -> None:
        """A stream that fails after some pieces gives them and the failure again."""
        today = _streaming(mode, take=99, fail=True)
        log = record(today)
        assert output(log) == ["0", "1", "2", "ValueError: broken"]
        assert log.state.frames["count"].status == "failed"
        replayed(log, today)

    @pytest.mark.parametrize(
        ("recorded", "today", "said"),
        [
            (99, 1, "reads 1 piece of the stream of step count, the golden run read all 3"),
            (2, 1, "reads 1 piece of the stream of step count, the golden run read all 2"),
            (1, 99, "reads on in the stream of step count, which the golden run closed after 1 piece"),
            (3, 99, "reads on in the stream of step count, which the golden run closed after 3 pieces"),
        ],
    )
    def test_read_to_another_piece(self, mode: Mode, recorded: int, today: int, said: str) -> None:
        """Code that reads a stream further than recorded, or not so far, is a divergence."""
        log = record(_streaming(mode, take=recorded, fail=False))
        LIVE.clear()
        with pytest.raises(ReplayDivergence) as caught:
            replay(log, _streaming(mode, take=today, fail=False))
        assert caught.value.kind == "stream"
        assert said in caught.value.what
        assert LIVE == []

    def test_not_read_to_its_failure(self, mode: Mode) -> None:
        """Code that has all pieces of a stream, but does not see any more that it failed, is a divergence."""
        log = record(_streaming(mode, take=99, fail=True))
        with pytest.raises(ReplayDivergence, match="3 pieces and then its failure") as caught:
            replay(log, _streaming(mode, take=3, fail=True))
        assert caught.value.kind == "stream"

    def test_the_end_itself_need_not_be_asked_for(self, mode: Mode) -> None:
        """Code that knows the last piece, and stops there, has read as much as code that was told of the end."""
        replay(record(_streaming(mode, take=99, fail=False)), _streaming(mode, take=3, fail=False))

    def test_resumed_and_read_on(self, mode: Mode) -> None:
        """A resume does not give a stream that was cut short for a whole one either."""
        log = record(_streaming(mode, take=1, fail=False))
        with pytest.raises(ReplayDivergence, match="reads on"):
            resume(Log(log.events[:-1]), _streaming(mode, take=99, fail=False))

    @pytest.mark.parametrize("kind", ["tool", "model"])
    def test_of_tools_and_models(self, kind: Any) -> None:
        """The streams of tools and models are compared in the same way, and say when they were closed early."""
        wire: seam.Wire[Any] = seam.Wire(dump=lambda value: value, load=lambda data: data)

        def reading(take: int) -> Flow[..., Any]:
            @flow(id="asking")
            def asking(ctx: SyncContext) -> list[int]:
                return list(itertools.islice(seam.stream(kind, "count", {}, lambda: iter(range(3)), wire), take))

            return asking

        whole, cut = record(reading(99)), record(reading(2))
        assert whole.state.calls[0].output == {"stream": [0, 1, 2]}
        assert cut.state.calls[0].output == {"stream": [0, 1], "closed": True}
        replayed(whole, reading(99))
        replayed(cut, reading(2))
        for log, take in ((whole, 2), (cut, 99), (cut, 1)):
            with pytest.raises(ReplayDivergence) as caught:
                replay(log, reading(take))
            assert caught.value.kind == "stream"

    def test_pieces_that_are_none(self) -> None:
        """A log whose stream has no pieces in it is an error that names the event."""
        wire: seam.Wire[Any] = seam.Wire(dump=lambda value: value, load=lambda data: data)

        @flow(id="asking")
        def asking(ctx: SyncContext) -> list[int]:
            return list(seam.stream("tool", "count", {}, lambda: iter(range(3)), wire))

        log = record(asking)
        events = [
            msgspec.structs.replace(event, raw=msgspec.Raw(bytes(event.raw).replace(b"[0,1,2]", b"1")))
            for event in log.events
        ]
        with pytest.raises(LogError, match="event 3: the pieces of a stream cannot be read"):
            replay(Log(events), asking)

    def test_closed_by_a_siblings_failure(self) -> None:
        """A reader that a failed sibling ended between two pieces is ended there again: that is no change."""

        @step
        async def count() -> AsyncIterator[int]:
            LIVE.append("count")
            for number in itertools.count():
                yield number

        @step
        async def failing() -> None:
            await asyncio.sleep(0)
            raise ValueError("failed")

        @flow(id="siblings", steps=[count, failing])
        async def siblings(ctx: Context) -> str:
            async def reading() -> None:
                async for _ in ctx.stream(count):
                    await asyncio.sleep(0)

            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(reading())
                    group.create_task(ctx.run(failing))
            except* ValueError:
                pass
            return "over"

        replayed(record(siblings), siblings)

    def test_a_source_that_fails_when_it_is_closed(self) -> None:
        """What a generator raises at being closed, its reader gets again in a replay."""

        @step
        def count() -> Iterator[int]:
            LIVE.append("count")
            try:
                yield 1
                yield 2
            finally:
                raise ValueError("not closed")

        @flow(id="closing", steps=[count])
        def closing(ctx: SyncContext) -> str:
            stream: Any = ctx.stream(count)
            next(stream)
            try:
                stream.close()
            except ValueError as problem:
                return str(problem)
            return "closed"

        log = record(closing)
        assert output(log) == "not closed"
        replayed(log, closing)

    def test_typed_pieces(self, mode: Mode) -> None:
        """Pieces come back as what the generator's annotation says."""
        seen: list[Any] = []

        @step
        async def amounts() -> AsyncIterator[Money]:
            yield Money({"amount": Decimal("1.10")})

        @step(id="amounts")
        def sync_amounts() -> Iterator[Money]:
            yield Money({"amount": Decimal("1.10")})

        if mode == "async":

            @flow(id="typed", steps=[amounts])
            async def typed(ctx: Context) -> None:
                seen.append([piece async for piece in ctx.stream(amounts)])
        else:

            @flow(id="typed", steps=[sync_amounts])
            def typed(ctx: SyncContext) -> None:
                seen.append(list(ctx.stream(sync_amounts)))

        replayed(record(typed), typed)
        assert seen == [[{"amount": Decimal("1.10")}]] * 2
        assert type(seen[1][0]["amount"]) is Decimal

    def test_two_at_once(self) -> None:
        """Two streams that are read in turn by one branch keep their own pieces."""

        @step
        async def count(start: int) -> AsyncIterator[int]:
            LIVE.append("count")
            for number in range(start, start + 2):
                yield number

        @flow(id="zipped", steps=[count])
        async def zipped(ctx: Context) -> list[int]:
            one, two = ctx.stream(count, 0), ctx.stream(count, 10)
            found = []
            for _ in range(2):
                found += [await anext(one), await anext(two)]
            return found

        log = record(zipped)
        assert output(log) == [0, 10, 1, 11]
        candidate = replay(log, zipped)
        assert diff_runs(log, candidate, compare="all") == []
        assert LIVE == ["count", "count"]

    @pytest.mark.parametrize("beside", [False, True])
    def test_with_effects_in_between(self, beside: bool) -> None:
        """What is done with each piece while the stream goes on replays in that order, beside another branch too."""

        @step
        async def count() -> AsyncIterator[int]:
            LIVE.append("count")
            for number in range(3):
                await asyncio.sleep(0)
                yield number

        @flow(id="between", steps=[count, note_it])
        async def between(ctx: Context) -> list[str]:
            async def reading() -> list[str]:
                return [await ctx.run(note_it, f"got {piece}") async for piece in ctx.stream(count)]

            async def patient() -> list[str]:
                async with asyncio.timeout(3600):
                    found = [await ctx.run(note_it, f"beside {number}") for number in range(3)]
                    await asyncio.sleep(0)
                    return found

            if beside:
                return [text for texts in await asyncio.gather(reading(), patient()) for text in texts]
            return await reading()

        log = record(between)
        assert output(log)[:3] == ["got 0", "got 1", "got 2"]
        candidate = replayed(log, between)
        assert [bytes(event.raw) for event in candidate.events] == [bytes(event.raw) for event in log.events]

    def test_cancelled_midway(self) -> None:
        """A stream that its flow gave up on gives its pieces again, and is given up on again, without waiting."""
        seconds = [0.01]

        @step
        async def count() -> AsyncIterator[int]:
            LIVE.append("count")
            yield 1
            yield 2
            await asyncio.Event().wait()

        @flow(id="giving-up", steps=[count, note_it])
        async def giving_up(ctx: Context) -> str:
            try:
                async with asyncio.timeout(seconds[0]):
                    async for piece in ctx.stream(count):
                        await ctx.run(note_it, str(piece))
            except TimeoutError:
                return await ctx.run(note_it, "gave up")
            return "never"

        log = record(giving_up)
        assert output(log) == "gave up"
        seconds[0] = 3600.0
        replayed(log, giving_up)

    def test_awaited_as_a_list(self) -> None:
        """A streaming step that is awaited gives all its pieces."""

        @step
        async def count() -> AsyncIterator[int]:
            yield 1
            yield 2

        @flow(id="listed", steps=[count])
        async def listed(ctx: Context) -> Any:
            return await ctx.run(count)

        log = record(listed)
        assert output(log) == [1, 2]
        replayed(log, listed)


class Money(TypedDict):
    amount: Decimal


def _streaming(mode: Mode, take: int, fail: bool) -> Flow[..., Any]:
    """A flow that reads up to ``take`` pieces of a stream of three."""

    @step(id="count")
    async def count(upto: int) -> AsyncIterator[int]:
        LIVE.append("count")
        try:
            for number in range(upto):
                yield number
            if fail:
                raise ValueError("broken")
        finally:
            LIVE.append("closed")

    @step(id="count")
    def sync_count(upto: int) -> Iterator[int]:
        LIVE.append("count")
        try:
            yield from range(upto)
            if fail:
                raise ValueError("broken")
        finally:
            LIVE.append("closed")

    if mode == "async":

        @flow(id="streaming", steps=[count])
        async def streaming(ctx: Context) -> list[str]:
            found: list[str] = []
            try:
                async for piece in ctx.stream(count, 3):
                    found.append(str(piece))
                    if len(found) == take:
                        break
            except ValueError as problem:
                found.append(f"ValueError: {problem}")
            return found

        return streaming

    @flow(id="streaming", steps=[sync_count])
    def sync_streaming(ctx: SyncContext) -> list[str]:
        found: list[str] = []
        try:
            for piece in ctx.stream(sync_count, 3):
                found.append(str(piece))
                if len(found) == take:
                    break
        except ValueError as problem:
            found.append(f"ValueError: {problem}")
        return found

    return sync_streaming


class TestCancellation:
    @pytest.mark.parametrize(("cleanup", "patience"), [(False, None), (True, None), (False, 3600)])
    def test_of_the_whole_run(self, tmp_path: Path, cleanup: bool, patience: float | None) -> None:
        """A cancelled recording leaves a valid log that ends with EXECUTION_CANCELLED and replays so."""
        path = tmp_path / "long.loom.jsonl"
        found: list[Any] = []

        async def main() -> None:
            begun = asyncio.Event()

            @step
            async def slow(text: str) -> str:
                LIVE.append("slow")
                begun.set()
                await asyncio.Event().wait()
                return text

            @flow(id="long", steps=[slow, note_it])
            async def long(ctx: Context) -> str:
                await ctx.run(note_it, "a")
                try:
                    return await asyncio.wait_for(ctx.run(slow, "b"), patience)
                except asyncio.CancelledError:
                    if cleanup:
                        await ctx.run(note_it, "cleanup")
                    raise

            found.append(long)
            task = asyncio.create_task(arecord(long, path=path))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        log = load_log(path)
        assert log.events[-1].event_type == "EXECUTION_CANCELLED"
        assert log.state.status == "cancelled"
        replayed(log, found[0])

    def test_of_itself(self) -> None:
        """A flow that raises CancelledError is recorded as cancelled, not as failed."""

        @flow(id="quitting", steps=[note_it])
        async def quitting(ctx: Context) -> str:
            await ctx.run(note_it, "a")
            raise asyncio.CancelledError("enough")

        log = record(quitting)
        assert log.state.status == "cancelled"
        assert log.events[-1].payload == {"reason": "enough"}
        replayed(log, quitting)


class Elsewhere(Exception):
    """Hidden from the flows of this module by being reached only through a closure (see below)."""


class Shaped(Exception):
    """An exception whose constructor takes something else than its text."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class TestExceptions:
    @pytest.mark.parametrize(
        "raised",
        [
            ValueError("no"),
            KeyError("key"),
            KeyError(7),
            OSError(2, "No such file", "a.txt"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
            ZeroDivisionError(),
            ExceptionGroup("several", [ValueError(1), ExceptionGroup("inner", [KeyError("k")])]),
            Shaped(7, reason="odd"),
            TimeoutError("late"),
            AssertionError("said"),
            RuntimeError("two", "arguments"),
            ValueError({"not": "plain"}),
        ],
        ids=repr,
    )
    def test_come_back_as_their_type(self, mode: Mode, raised: Exception) -> None:
        """Exceptions that are builtins or known to the flow's module are raised again with type, text and arguments."""
        seen: list[Exception] = []

        @step
        def failing() -> None:
            LIVE.append("failing")
            raise raised

        async def catching(ctx: Any) -> str:
            try:
                await ctx.run(failing)
            except Exception as problem:
                seen.append(problem)
                return f"{type(problem).__qualname__}: {problem}"
            return "nothing"

        if mode == "sync":

            @flow(id="catching", steps=[failing])
            def today(ctx: SyncContext) -> str:
                try:
                    ctx.run(failing)
                except Exception as problem:
                    seen.append(problem)
                    return f"{type(problem).__qualname__}: {problem}"
                return "nothing"
        else:

            @flow(id="catching", steps=[failing])
            async def today(ctx: Context) -> str:
                return await catching(ctx)

        log = record(today)
        assert output(log) == f"{type(raised).__qualname__}: {raised}"
        replayed(log, today)
        assert type(seen[1]) is type(raised)
        assert str(seen[1]) == str(raised)
        if all(isinstance(part, (str, int)) for part in raised.args):
            assert seen[1].args == raised.args
        if isinstance(raised, FileNotFoundError):
            assert isinstance(seen[1], FileNotFoundError)
            assert (seen[1].errno, seen[1].strerror, seen[1].filename) == (2, "No such file", raised.filename)

    def test_unknown_ones_have_a_stand_in(self, mode: Mode) -> None:
        """A class that the flow's module does not refer to comes back as StepError, naming it; nothing is imported."""
        hidden = type("Hidden", (Exception,), {"__module__": "somewhere.else"})
        seen: list[Exception] = []

        @step
        def failing() -> None:
            LIVE.append("failing")
            raise hidden("what")

        async def catching(ctx: Any) -> None:
            try:
                await ctx.run(failing)
            except Exception as problem:
                seen.append(problem)

        today = flow_of(mode, catching, steps=[failing])
        log = record(today)
        assert type(seen[0]) is hidden
        replay(log, today)
        stand_in = seen[1]
        assert isinstance(stand_in, StepError)
        assert (stand_in.type, stand_in.message, stand_in.step) == ("somewhere.else.Hidden", "what", "failing")

    def test_uncaught_ones_fail_the_run(self, mode: Mode) -> None:
        """record of a flow that raises gives the failed log, and its replay is the same failure."""

        async def failing(ctx: Any) -> None:
            await ctx.run(note_it, "a")
            raise Shaped(1, reason="mine")

        today = flow_of(mode, failing, steps=[note_it])
        log = record(today)
        assert log.state.status == "failed"
        assert log.events[-1].payload["error"]["message"] == "1: mine"
        assert log.events[-1].payload["error"]["type"].endswith(".Shaped")
        replayed(log, today)

    def test_keyboard_interrupt_is_not_an_effect(self, mode: Mode) -> None:
        """KeyboardInterrupt in a step's body goes to whoever records."""

        @step
        def interrupted() -> None:
            raise KeyboardInterrupt

        async def today(ctx: Any) -> None:
            await ctx.run(interrupted)

        with pytest.raises(KeyboardInterrupt):
            record(flow_of(mode, today, steps=[interrupted]))


class TestCrashes:
    def test_every_prefix_goes_on(self, mode: Mode) -> None:
        """From every prefix of a log, resume without an event goes on, and runs each finished step no second time."""
        keys: dict[str, set[str]] = {}

        @step(id="one")
        def one(text: str) -> str:
            info = current_step()
            assert info is not None
            keys.setdefault("one", set()).add(info.idempotency_key)
            LIVE.append("one")
            return text

        @step(id="two", retries=2)
        def two(text: str) -> str:
            info = current_step()
            assert info is not None
            keys.setdefault("two", set()).add(info.idempotency_key)
            LIVE.append("two")
            if info.attempt == 1:
                raise ConnectionError("once")
            return text * 2

        @tool
        def buy(item: str) -> str:
            info = current_step()
            assert info is not None
            keys.setdefault("buy", set()).add(info.idempotency_key)
            LIVE.append("buy")
            return item

        async def working(ctx: Any) -> list[Any]:
            found = [await ctx.run(one, "a")]
            found.append(ctx.decide("coin", lambda: 5))
            found.append(await ctx.run(two, "b"))
            found.append(await ctx.call(buy, item="c"))
            found.append(await ctx.suspend("Go"))
            found.append(await ctx.run(one, "d"))
            return found

        today = flow_of(mode, working, steps=[one, two], tools=[buy], gates={"Go": int})
        whole = record(today, events=[("Go", 7)], execution_id="x")
        expected = ["a", 5, "bb", "c", 7, "d"]
        assert output(whole) == expected
        for length in range(1, len(whole.events)):
            prefix = Log(whole.events[:length])
            finished = [frame.step_id for frame in prefix.state.frames.values() if frame.status == "completed"]
            bought = any(event.event_type == "TOOL_COMPLETED" for event in prefix.events)
            LIVE.clear()
            if prefix.state.status == "suspended" and prefix.events[-1].event_type != "Go":
                log = prefix
            else:
                log = resume(prefix, today)
            if log.state.status == "suspended":
                log = resume(log, today, event="Go", payload=7)
            assert output(log) == expected, length
            assert LIVE.count("one") == 2 - finished.count("one"), length
            assert LIVE.count("buy") == (0 if bought else 1), length
            assert ("two" in LIVE) == ("two" not in finished), length
            replayed(log, today)
        assert keys == {"one": {"x/one", "x/one#2"}, "two": {"x/two"}, "buy": {"x/buy"}}

    def test_concurrent_branches_go_on(self) -> None:
        """A crash in the middle of concurrent branches loses no finished step of any branch."""

        async def branch(ctx: Context, name: str) -> str:
            found = ""
            for number in range(3):
                found += await ctx.run(note_it, f"{name}{number}")
                await asyncio.sleep(0)
            return found

        @flow(id="parallel", steps=[note_it])
        async def parallel(ctx: Context) -> list[str]:
            return list(await asyncio.gather(branch(ctx, "a"), branch(ctx, "b")))

        whole = record(parallel)
        for length in range(1, len(whole.events)):
            prefix = Log(whole.events[:length])
            finished = {f"note {frame.output}" for frame in prefix.state.frames.values() if frame.status == "completed"}
            LIVE.clear()
            candidate = replay(prefix, parallel)
            assert LIVE == []
            if len(finished) < 6:
                assert diff_runs(prefix, candidate, compare="all") == []
            log = resume(prefix, parallel)
            assert output(log) == ["a0a1a2", "b0b1b2"]
            assert not finished & set(LIVE)
            assert len(LIVE) == len(set(LIVE))
            replayed(log, parallel)

    def test_nested_steps_and_sub_flows_go_on(self, mode: Mode) -> None:
        """A crash within a step that runs steps, or within a sub-flow, loses nothing that had finished."""
        if mode == "async":

            @step
            async def both(ctx: Context, text: str) -> str:
                return await ctx.run(note_it, f"{text}1") + await ctx.run(note_it, f"{text}2")
        else:

            @step
            def both(ctx: SyncContext, text: str) -> str:
                return ctx.run(note_it, f"{text}1") + ctx.run(note_it, f"{text}2")

        async def child_body(ctx: Any, text: str) -> str:
            return await ctx.run(note_it, text) + await ctx.run(note_it, text * 2)  # type: ignore[no-any-return]

        child = _child(mode, child_body, steps=[note_it])

        async def outer(ctx: Any) -> str:
            return await ctx.run(both, "a") + await ctx.run(child, "c") + await ctx.run(note_it, "end")  # type: ignore[no-any-return]

        today = flow_of(mode, outer, steps=[both, child, note_it])
        whole = record(today)
        for length in range(1, len(whole.events)):
            prefix = Log(whole.events[:length])
            finished = {
                f"note {event.payload['output']}"
                for event in prefix.events
                if event.event_type == "STEP_COMPLETED" and event.payload["stepId"] == "note"
            }
            replay(prefix, today)
            LIVE.clear()
            log = resume(prefix, today)
            assert output(log) == "a1a2cccend", length
            assert not finished & set(LIVE), length
            replayed(log, today)

    def test_streams_go_on(self, mode: Mode) -> None:
        """A stream that was cut off by a crash is asked for again, and its old pieces do not count."""
        today = _streaming(mode, take=99, fail=False)
        whole = record(today)
        for length in range(1, len(whole.events)):
            prefix = Log(whole.events[:length])
            replay(prefix, today)
            log = resume(prefix, today)
            assert output(log) == ["0", "1", "2"], length
            replayed(log, today)

    def test_an_answer_of_which_half_was_written(self, mode: Mode) -> None:
        """A crash between a gate's event and EXECUTION_RESUMED loses no answer, and the answer counts once."""
        today = refund_of(mode)
        whole = record(today, CASE, events=[("ApprovalGranted", {"by": "ann"})])
        assert whole.events[4].event_type == "ApprovalGranted"
        log = resume(Log(whole.events[:5]), today)
        assert output(log) == "c1 by ann"
        assert kinds(log).count("ApprovalGranted") == 1
        replayed(log, today)


class TestOutsideTheRun:
    def test_context_in_a_plain_step_is_refused(self, mode: Mode) -> None:
        """A step's body that uses the flow's Context, without taking one, fails with a clear error."""
        held: list[Any] = []

        @step
        def sneaky() -> str:
            return str(held[0].now())

        async def outer(ctx: Any) -> Any:
            held.append(getattr(ctx, "_ctx", ctx))
            return await ctx.run(sneaky)

        log = record(flow_of(mode, outer, steps=[sneaky]))
        assert log.state.status == "failed"
        assert "takes the Context" in str(log.events[-1].payload) or "used outside of its run" in str(
            log.events[-1].payload
        )

    def test_snapshot_and_state(self, mode: Mode) -> None:
        """ctx.snapshot records the state under today's version of it."""

        async def saving(ctx: Any) -> Any:
            ctx.snapshot({"n": 1})
            await ctx.suspend("Go")
            ctx.snapshot({"n": 2})
            return ctx.state

        today = flow_of(mode, saving, gates={"Go": int}, versions={"state": 3, "plan": 1})
        log = record(today, events=[("Go", 1)])
        assert output(log) == {"n": 2}
        saved = [event.payload for event in log.events if event.event_type == "STATE_SNAPSHOT"]
        assert saved == [
            {"stateSchemaVersion": 3, "state": {"n": 1}},
            {"stateSchemaVersion": 3, "state": {"n": 2}},
        ]
        manifest = log.events[0].payload["manifest"]
        assert manifest.pop("contractFingerprint") == fingerprint(contract_of(today))
        assert manifest == {"stateSchemaVersion": 3, "planSchemaVersion": 1}
        replayed(log, today)

    def test_bare_calls_record_nothing(self) -> None:
        """Calling a step or flow directly runs the bare function."""
        assert book(Case("c", Decimal(1)), by="me") == "c by me"
        assert asyncio.run(assess(Case("c", Decimal(1)))).ok
        assert current_step() is None

    def test_tool_events(self, mode: Mode) -> None:
        """A tool call writes TOOL_ events with its version, and its schema where a person has to agree."""

        @tool(version="2", approval=True, permissions=["money"])
        def transfer(to: str, amount: int = 1) -> Decimal:
            LIVE.append("transfer")
            return Decimal(amount)

        seen: list[Any] = []

        async def buying(ctx: Any) -> None:
            seen.append(await ctx.call(transfer, to="ann", amount=3))

        today = flow_of(mode, buying, tools=[transfer])
        log = record(today, execution_id="x")
        asked = log.events[1].payload
        schema = asked.pop("toolSchema")
        assert asked == {
            "callId": "transfer",
            "name": "transfer",
            "args": {"to": "ann", "amount": 3},
            "idempotencyKey": "x/transfer",
            "toolSchemaVersion": "2",
            "approval": True,
        }
        assert list(schema["properties"]) == ["to", "amount"]
        replayed(log, today)
        assert seen == [Decimal(3), Decimal(3)]
        assert LIVE == ["transfer"]
