"""``resume_as``: ADR 0056 sentence by sentence, and what is refused."""

from __future__ import annotations

import copy
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

from pytest_loom import (
    PINNED_EVENT_TYPES,
    Context,
    Event,
    Flow,
    FlowError,
    Log,
    LogBuilder,
    LoomError,
    ReplayDivergence,
    Scrubber,
    SyncContext,
    arecord,
    diff_runs,
    flow,
    fork,
    known_event_types,
    load_log,
    record,
    replay,
    replay_as_fixture,
    resume,
    step,
    tool,
    write_log,
)
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.resolve import contract_of
from pytest_loom.errors import StateMigrationError
from pytest_loom.resume.resume_as import aresume_as, resume_as

Mode = Literal["async", "sync"]
LIVE: list[str] = []
"""What really ran, in order."""


@pytest.fixture(params=["async", "sync"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Runs the test with async flows and with sync ones."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    LIVE.clear()
    yield
    LIVE.clear()


class OldCase(pydantic.BaseModel):
    id: str
    amount: str


class Case(pydantic.BaseModel):
    id: str
    cents: int
    currency: str = "EUR"


class Answer(pydantic.BaseModel):
    by: str


@step
def assess(case: Any) -> str:
    """Says that it ran, and with what."""
    LIVE.append(f"assess {said(case)}")
    return "ok"


@step
def book(case: Any, by: str) -> str:
    """Says that it ran, and with what."""
    LIVE.append(f"book {said(case)} {by}")
    return f"{said(case)} by {by}"


def said(case: Any) -> str:
    """A case on one line."""
    return case.model_dump_json() if isinstance(case, pydantic.BaseModel) else json.dumps(case)


def refund_of(mode: Mode, kind: type[Any], *, version: str = "2.0.0", steps: Any = (assess, book)) -> Flow[..., Any]:
    """The flow in one of its two forms, with its input of a type: assess, wait for a human, book."""
    first, last = steps
    declared: dict[str, Any] = {
        "id": "refund",
        "version": version,
        "steps": [first, last],
        "gates": {"Approved": Answer},
    }

    async def body(ctx: Context, case: Any) -> Any:
        await ctx.run(first, case)
        answer = await ctx.suspend("Approved", correlation_key=case.id, kind="approval", timeout=timedelta(days=2))
        return await ctx.run(last, case, answer.by)

    def sync_body(ctx: SyncContext, case: Any) -> Any:
        ctx.run(first, case)
        answer = ctx.suspend("Approved", correlation_key=case.id, kind="approval", timeout=timedelta(days=2))
        return ctx.run(last, case, answer.by)

    chosen: Callable[..., Any] = body if mode == "async" else sync_body
    chosen.__annotations__["case"] = kind
    return flow(**declared)(chosen)


def waiting(mode: Mode) -> Log:
    """A run of the old flow that waits for its human."""
    log = record(refund_of(mode, OldCase, version="1.0.0"), {"id": "c1", "amount": "49.99"}, execution_id="run-1")
    assert log.state.status == "suspended"
    LIVE.clear()
    return log


def to_cents(old: Any) -> Any:
    """The transform: yesterday's amount as today's cents."""
    return {"id": old["id"], "cents": round(float(old["amount"]) * 100)}


def lines(log: Log) -> list[tuple[Any, ...]]:
    """Everything that a log says, but when."""
    return [(e.sequence, e.event_type, e.branch, e.namespace, bytes(e.raw)) for e in log.events]


def kinds(log: Log) -> list[str]:
    """The types of the events, in order."""
    return [event.event_type for event in log.events]


def refused(log: Log, today: Any, expected: type[Exception] = StateMigrationError, **how: Any) -> str:
    """What a refusal says; the log is as it was then, and nothing ran."""
    before, state = lines(log), copy.deepcopy(log.state.facts())
    with pytest.raises(expected) as caught:
        resume_as(log, today, **how)
    assert lines(log) == before
    assert replay_as_fixture(log).facts() == state
    assert LIVE == []
    return str(caught.value)


def run_python(code: str, *args: object) -> str:
    """What a program prints that another process runs."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FLOWS = """
import sys
from pydantic import BaseModel
from pytest_loom import Context, SyncContext, flow, load_log, resume, step

class Case(BaseModel):
    id: str
    cents: int
    currency: str = "EUR"

class Answer(BaseModel):
    by: str

@step
def assess(case: Case) -> str:
    print("assess ran")
    return "ok"

@step
def book(case: Case, by: str) -> str:
    print("book ran")
    return f"{case.model_dump_json()} by {by}"

@flow(id="refund", version="2.0.0", steps=[assess, book], gates={"Approved": Answer})
async def a_refund(ctx: Context, case: Case) -> str:
    print("handed", case.model_dump_json())
    await ctx.run(assess, case)
    answer = await ctx.suspend("Approved", correlation_key=case.id, kind="approval")
    return await ctx.run(book, case, answer.by)

@flow(id="refund", version="2.0.0", steps=[assess, book], gates={"Approved": Answer})
def s_refund(ctx: SyncContext, case: Case) -> str:
    print("handed", case.model_dump_json())
    ctx.run(assess, case)
    answer = ctx.suspend("Approved", correlation_key=case.id, kind="approval")
    return ctx.run(book, case, answer.by)

refund = a_refund if sys.argv[2] == "async" else s_refund
"""


class TestDecision1:
    """The state contract carrier is the recorded input; the transform's outcome is durable."""

    def test_applied_to_the_folded_input(self, mode: Mode) -> None:
        """transformState is applied at migration time to the folded `_input`."""
        log, given = waiting(mode), []

        def transform(old: Any) -> Any:
            given.append(old)
            return to_cents(old)

        resume_as(log, refund_of(mode, Case), transform_state=transform)
        assert given[0] == log.state.variables["_input"] == {"id": "c1", "amount": "49.99"}

    def test_prior_migration(self, mode: Mode) -> None:
        """A prior migration may already have replaced the folded input: a second transform gets the first's outcome."""

        class Third(pydantic.BaseModel):
            id: str
            total: dict[str, int]

        given = []

        def again(old: Any) -> Any:
            given.append(old)
            return {"id": old["id"], "total": {old["currency"]: old["cents"]}}

        once = resume_as(waiting(mode), refund_of(mode, Case), transform_state=to_cents)
        third = refund_of(mode, Third, version="3.0.0")
        twice = resume_as(once, third, transform_state=again, event="Approved", payload={"by": "Ann"})
        assert given[0] == {"id": "c1", "cents": 4999, "currency": "EUR"}
        assert twice.state.variables["_output"] == '{"id":"c1","total":{"EUR":4999}} by Ann'
        versions = [(e["fromVersion"], e["toVersion"]) for e in twice.state.variables["_migrations"]]
        assert versions == [("1.0.0", "2.0.0"), ("2.0.0", "3.0.0")]
        assert kinds(twice).count("EXECUTION_MIGRATED") == 2
        assert lines(replay(twice, third)) == lines(twice)

    def test_recorded_as_migrated_input(self, mode: Mode) -> None:
        """The result is recorded on the existing EXECUTION_MIGRATED event as an optional migratedInput field."""
        log = waiting(mode)
        migrated = resume_as(log, refund_of(mode, Case), transform_state=to_cents)
        assert lines(migrated)[:-1] == lines(log)
        event = migrated.events[-1]
        assert event.event_type == "EXECUTION_MIGRATED"
        payload = event.payload
        assert payload == {
            "strategy": "replay-check",
            "fromHash": log.state.manifest["contractFingerprint"],
            "toHash": fingerprint(contract_of(refund_of(mode, Case))),
            "fromVersion": "1.0.0",
            "toVersion": "2.0.0",
            "migratedInput": {"id": "c1", "cents": 4999, "currency": "EUR"},
        }

    def test_function_is_not_durable(self, mode: Mode) -> None:
        """The function is never durable; the outcome is."""
        today = refund_of(mode, Case)
        once = resume_as(waiting(mode), today, transform_state=to_cents, event="Approved", payload={"by": "Ann"})
        again = resume_as(
            waiting(mode), today, transform_state=lambda o: to_cents(o), event="Approved", payload={"by": "Ann"}
        )
        assert lines(once) == lines(again)
        assert "to_cents" not in "".join(bytes(event.raw).decode() for event in once.events)

    def test_replay_never_runs_the_transform(self, mode: Mode) -> None:
        """Replay folds the recorded value; it never re-runs the transform, and no effect."""
        calls = []

        def transform(old: Any) -> Any:
            calls.append(old)
            return to_cents(old)

        today = refund_of(mode, Case)
        log = resume_as(waiting(mode), today, transform_state=transform, event="Approved", payload={"by": "Ann"})
        ran, count = list(LIVE), len(calls)
        candidate = replay(log, today)
        assert lines(candidate) == lines(log)
        assert diff_runs(log, candidate, compare="all") == []
        assert lines(replay(candidate, today)) == lines(log)
        assert (LIVE, len(calls)) == (ran, count)

    def test_one_fact(self, mode: Mode) -> None:
        """The migration is one durable fact: one event, before what answers the wait."""
        log = resume_as(
            waiting(mode), refund_of(mode, Case), transform_state=to_cents, event="Approved", payload={"by": "Ann"}
        )
        assert kinds(log)[4:] == [
            "EXECUTION_MIGRATED",
            "Approved",
            "EXECUTION_RESUMED",
            "STEP_STARTED",
            "STEP_COMPLETED",
            "EXECUTION_COMPLETED",
        ]

    @pytest.mark.parametrize("outcome", [Case(id="c1", cents=4999), {"id": "c1", "cents": "4999"}])
    def test_parse_of_a_type(self, outcome: Any) -> None:
        """A transform is typically a type's parse: an instance is recorded as a dict is."""
        log = resume_as(waiting("async"), refund_of("async", Case), transform_state=lambda old: outcome)
        assert log.state.variables["_input"] == {"id": "c1", "cents": 4999, "currency": "EUR"}

    def test_several_inputs(self) -> None:
        """A flow with several inputs is migrated by a dict of them, and from one."""

        @flow(id="two", version="1", gates={"Go": Any})
        def two(ctx: SyncContext, name: str, count: int) -> str:
            ctx.suspend("Go")
            return ""

        @flow(id="two", version="2", gates={"Go": Any})
        def today(ctx: SyncContext, name: str, counts: list[int], note: str = "-") -> str:
            ctx.suspend("Go")
            return f"{name} {counts} {note}"

        log = record(two, {"name": "n", "count": 3})
        told = refused(log, today)
        assert '"counts": old["count"],  # list[int]; recorded: 3.' in told
        done = resume_as(
            log, today, transform_state=lambda old: {"name": old["name"], "counts": [old["count"]]}, event="Go"
        )
        assert done.state.variables["_output"] == "n [3] -"


class TestDecision2:
    """The fold replaces `_input`; every resume path reads the fold."""

    def test_fold(self, mode: Mode) -> None:
        """The handler sets variables._input when migratedInput is present and stamps stateMigrated on its entry."""
        state = replay_as_fixture(resume_as(waiting(mode), refund_of(mode, Case), transform_state=to_cents))
        assert state.variables["_input"] == {"id": "c1", "cents": 4999, "currency": "EUR"}
        (entry,) = state.variables["_migrations"]
        assert entry["stateMigrated"] is True

    def test_no_stamp_without_a_transform(self, mode: Mode) -> None:
        """A migration of code alone leaves `_input`, and is not stamped."""
        log = waiting(mode)
        state = resume_as(log, refund_of(mode, OldCase)).state
        assert state.variables["_input"] == log.state.variables["_input"]
        (entry,) = state.variables["_migrations"]
        assert "stateMigrated" not in entry

    def test_every_path(self, mode: Mode) -> None:
        """resume() and resumeAs() prefer the folded `_input` over the raw EXECUTION_STARTED payload."""
        today = refund_of(mode, Case)
        migrated = resume_as(waiting(mode), today, transform_state=to_cents)
        plain = resume(migrated, today, event="Approved", payload={"by": "Ann"})
        again = resume_as(migrated, today, event="Approved", payload={"by": "Ann"})
        assert plain.state.variables["_output"] == again.state.variables["_output"]
        assert plain.state.variables["_output"] == '{"id":"c1","cents":4999,"currency":"EUR"} by Ann'
        assert LIVE == ['book {"id":"c1","cents":4999,"currency":"EUR"} Ann'] * 2

    def test_later_plain_resume_in_another_process(self, mode: Mode, tmp_path: Path) -> None:
        """A later plain resume() — different process, no transform in sight — hands the runner the migrated input."""
        path = tmp_path / "run.loom.jsonl"
        write_log(waiting(mode), path)
        resume_as(load_log(path), refund_of(mode, Case), transform_state=to_cents, path=path)
        code = FLOWS + (
            "log = resume(load_log(sys.argv[1]), refund, event='Approved', payload={'by': 'Bo'}, path=sys.argv[1])\n"
            "print(log.state.variables['_output'])\n"
        )
        told = run_python(code, path, mode).splitlines()
        assert "assess ran" not in told
        assert set(told[:-2]) == {'handed {"id":"c1","cents":4999,"currency":"EUR"}'}
        assert told[-2:] == ["book ran", '{"id":"c1","cents":4999,"currency":"EUR"} by Bo']
        assert load_log(path).state.status == "completed"

    @pytest.mark.parametrize("began", [False, True], ids=["before-the-step", "within-the-step"])
    def test_hand_crafted_history(self, mode: Mode, tmp_path: Path, began: bool) -> None:
        """Migration fact recorded, deploy crashed before its own resume ran: another process resumes plainly."""
        builder = LogBuilder("run-7", "refund")
        old = {"id": "c7", "amount": "1.00"}
        events: list[tuple[str, dict[str, Any]]] = [
            ("EXECUTION_STARTED", {"input": old, "manifest": {"flowVersion": "1.0.0"}}),
            ("STEP_STARTED", {"stepId": "assess", "input": old, "attempt": 1}),
            ("STEP_COMPLETED", {"stepId": "assess", "output": "ok"}),
            ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "correlationKey": "c7"}),
            ("Approved", {"by": "Cy"}),
            ("EXECUTION_RESUMED", {"eventType": "Approved", "correlationKey": "c7", "payload": {"by": "Cy"}}),
        ]
        if began:
            booked = {"stepId": "book", "input": {"args": [old, "Cy"], "kwargs": {}}, "attempt": 1}
            events.append(("STEP_STARTED", booked))
        events.append(("EXECUTION_MIGRATED", {"strategy": "replay-check", "migratedInput": {"id": "c7", "cents": 100}}))
        for number, (kind, payload) in enumerate(events):
            builder.add(kind, payload, timestamp=number)
        path = tmp_path / "run.loom.jsonl"
        write_log(builder.log(), path)
        code = FLOWS + (
            "log = resume(load_log(sys.argv[1]), refund)\n"
            "print(log.state.variables['_output'])\n"
            "from pytest_loom import diff_runs, replay\n"
            "print(diff_runs(log, replay(log, refund), compare='all'))\n"
        )
        told = run_python(code, path, mode).splitlines()
        assert told.count("book ran") == 1
        assert "assess ran" not in told
        assert '{"id":"c7","cents":100,"currency":"EUR"} by Cy' in told
        assert told[-1] == "[]"

    def test_nothing_but_the_migration(self, mode: Mode) -> None:
        """With no event the migration alone is recorded: no code goes on, and the wait stays."""
        log = waiting(mode)
        migrated = resume_as(log, refund_of(mode, Case), transform_state=to_cents)
        assert kinds(migrated) == [*kinds(log), "EXECUTION_MIGRATED"]
        assert migrated.state.status == "suspended"
        assert LIVE == []


class TestDecision3:
    """Absent or failing transform: explicit, nothing appended."""

    def test_no_transform(self, mode: Mode) -> None:
        """No transform: byte-identical to before, which is a plain resume and the fact that code was migrated."""
        today = refund_of(mode, OldCase)
        plain = resume(waiting(mode), today, event="Approved", payload={"by": "Ann"})
        as_today = resume_as(waiting(mode), today, event="Approved", payload={"by": "Ann"})
        migrated = [event for event in as_today.events if event.event_type == "EXECUTION_MIGRATED"]
        assert [sorted(event.payload) for event in migrated] == [
            ["fromHash", "fromVersion", "strategy", "toHash", "toVersion"]
        ]
        rest = [line[1:] for line in lines(as_today) if line[1] != "EXECUTION_MIGRATED"]
        assert rest == [line[1:] for line in lines(plain)]

    def test_log_that_never_migrates(self, mode: Mode) -> None:
        """A log that never migrates state replays byte-identically."""
        today = refund_of(mode, OldCase, version="1.0.0")
        log = resume(waiting(mode), today, event="Approved", payload={"by": "Ann"})
        assert lines(replay(log, today)) == lines(log)
        assert "_migrations" not in log.state.variables

    def test_throwing(self, mode: Mode) -> None:
        """A throwing transform refuses the migration with a typed StateMigrationError before any event is appended."""
        told = refused(waiting(mode), refund_of(mode, Case), transform_state=lambda old: old["cents"])
        assert "transform_state raised KeyError: 'cents'" in told
        assert 'recorded: {"id": "c1", "amount": "49.99"}' in told
        assert "Nothing was appended" in told

    def test_cause(self) -> None:
        """The transform's own exception is the cause, with its traceback."""
        with pytest.raises(StateMigrationError) as caught:
            resume_as(waiting("async"), refund_of("async", Case), transform_state=lambda old: old["cents"])
        assert isinstance(caught.value.__cause__, KeyError)

    def test_none(self, mode: Mode) -> None:
        """A transform returning None (undefined) refuses the migration."""
        told = refused(waiting(mode), refund_of(mode, Case), transform_state=lambda old: None)
        assert "transform_state returned None" in told
        assert "Nothing was appended" in told

    def test_mutating(self, mode: Mode) -> None:
        """A transform that changes its argument refuses the migration, whatever it returns."""

        def transform(old: Any) -> Any:
            old["cents"] = round(float(old.pop("amount")) * 100)
            return old

        told = refused(waiting(mode), refund_of(mode, Case), transform_state=transform)
        assert "transform_state changed the value that it was given, at input" in told
        assert "{**old, 'key': value}" in told

    def test_not_deterministic(self, mode: Mode) -> None:
        """A transform that gives something else the second time refuses the migration, and is told where."""
        numbers = itertools.count()
        told = refused(
            waiting(mode), refund_of(mode, Case), transform_state=lambda old: {"id": old["id"], "cents": next(numbers)}
        )
        assert "transform_state gave two different results for one input, at input.cents" in told

    @pytest.mark.parametrize(
        "outcome", [{"id": "c1"}, {"id": "c1", "cents": "many"}, 5, [], {"id": "c1", "cents": object()}]
    )
    def test_rejected(self, outcome: Any) -> None:
        """A transform that returns what the flow's input type rejects refuses the migration."""
        told = refused(waiting("async"), refund_of("async", Case), transform_state=lambda old: outcome)
        assert "what transform_state returned is no input of today's flow" in told
        assert "today: refund 2.0.0 takes Case (id: string, cents: integer, currency: string)" in told

    def test_unrecordable(self) -> None:
        """A transform whose outcome no log can hold refuses the migration, though any input is taken."""

        @flow(id="refund", gates={"Go": Any})
        def anything(ctx: SyncContext, case: Any) -> None:
            ctx.suspend("Go")

        told = refused(record(anything, 1), anything, transform_state=lambda old: iter([1]))
        assert "is no input" in told

    def test_async_transform(self) -> None:
        """A transform that would have to be awaited refuses the migration."""

        async def transform(old: Any) -> Any:
            return to_cents(old)

        assert "it is async" in refused(waiting("async"), refund_of("async", Case), transform_state=transform)

    def test_validator_that_breaks(self) -> None:
        """An input type whose validator breaks on the recorded input refuses it, rather than to crash."""

        class Odd(pydantic.BaseModel):
            id: str

            @pydantic.model_validator(mode="before")
            @classmethod
            def _look(cls, data: Any) -> Any:
                return {"id": data["name"]}

        assert "its type raised KeyError" in refused(waiting("async"), refund_of("async", Odd))
        assert "the input's type raised KeyError" in refused(
            waiting("async"), refund_of("async", Odd), transform_state=lambda old: {}
        )

    def test_no_file_is_touched(self, mode: Mode, tmp_path: Path) -> None:
        """Refused, the execution is untouched: its file has the same bytes, and no other file appears."""
        path = tmp_path / "run.loom.jsonl"
        write_log(waiting(mode), path)
        before = path.read_bytes()
        log, today = load_log(path), refund_of(mode, Case)
        transforms: list[Any] = [None, lambda old: None, lambda old: old["no"], lambda old: {}]
        for transform in transforms:
            told = refused(log, today, transform_state=transform, path=path, event="Approved", payload={"by": "A"})
            assert f"{path}:1" in told
        refused(log, today, LoomError, transform_state=to_cents, path=path, event="Approved", payload={"to": "A"})
        refused(log, today, LoomError, transform_state=to_cents, path=path, event="Denied", payload={"by": "A"})
        refused(log, today, LoomError, transform_state=to_cents, path=path, payload={"by": "A"})
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == [path.name]


class TestGovernance:
    def test_kinds(self) -> None:
        """No change to knownEventTypes() / PINNED_EVENT_TYPES: the migration is an existing kind."""
        assert "EXECUTION_MIGRATED" in known_event_types()
        assert "EXECUTION_MIGRATED" in PINNED_EVENT_TYPES

    def test_field_is_read_only_when_present(self) -> None:
        """An EXECUTION_MIGRATED that another engine wrote, without the field, changes no input; null is an input."""
        cases: list[tuple[dict[str, Any], Any]] = [
            ({"strategy": "pinned"}, 1),
            ({"migratedInput": None}, None),
            ({}, 1),
        ]
        for payload, expected in cases:
            builder = LogBuilder("x", "refund")
            builder.add("EXECUTION_STARTED", {"input": 1}, timestamp=0)
            builder.add("EXECUTION_MIGRATED", payload, timestamp=1)
            assert builder.log().state.variables["_input"] == expected


class TestConsequences:
    def test_suspended_gate_crosses_a_deploy(self, mode: Mode) -> None:
        """A suspended human gate crossing a contract-evolving deploy migrates with a transform."""
        log = resume_as(
            waiting(mode), refund_of(mode, Case), transform_state=to_cents, event="Approved", payload={"by": "Ann"}
        )
        assert log.state.status == "completed"
        assert log.state.variables["_output"] == '{"id":"c1","cents":4999,"currency":"EUR"} by Ann'
        assert LIVE == ['book {"id":"c1","cents":4999,"currency":"EUR"} Ann']

    def test_suspended_gate_without_a_transform(self, mode: Mode) -> None:
        """It refuses explicitly without one: what was recorded, what today takes, and a transform that gets it over."""
        told = refused(waiting(mode), refund_of(mode, Case), event="Approved", payload={"by": "Ann"})
        assert "the recorded input does not fit today's flow refund: cents: Field required" in told
        assert 'recorded: {"id": "c1", "amount": "49.99"}' in told
        assert "today: refund 2.0.0 takes Case (id: string, cents: integer, currency: string)" in told
        assert "Without a transform the run cannot go on as refund 2.0.0. Nothing was appended" in told
        sketch = re.search(r"def to_today.*?\n      }\n|def to_today.*?}\n", told, re.S)
        assert sketch is not None
        names: dict[str, Any] = {}
        exec(re.sub(r"(?m)^      ", "", "      " + sketch.group()), names)
        assert names["to_today"]({"id": "c1", "amount": "5"}) == {"id": "c1", "cents": "5"}
        assert "resume_as(log, flow, transform_state=to_today)" in told

    def test_renamed_under_a_default(self, mode: Mode) -> None:
        """A field that got another name is not filled with its default behind one's back, unless one says so."""

        class Renamed(pydantic.BaseModel):
            id: str
            cents: int = 0

        told = refused(waiting(mode), refund_of(mode, Renamed))
        assert "the recorded amount would be dropped, and cents filled with its default" in told
        said_so = resume_as(waiting(mode), refund_of(mode, Renamed), transform_state=lambda old: old)
        assert said_so.state.variables["_input"] == {"id": "c1", "cents": 0}

    def test_renamed_within(self) -> None:
        """The same inside of a list of objects; the path is named."""

        class Old(pydantic.BaseModel):
            id: str
            parts: list[dict[str, int]]

        class Part(pydantic.BaseModel):
            cents: int = 0

        class New(pydantic.BaseModel):
            id: str
            parts: list[Part]

        log = record(refund_of("sync", Old), {"id": "c1", "parts": [{"cents": 1}, {"amount": 2}]})
        LIVE.clear()
        assert "the recorded parts[1].amount would be dropped, and parts[1].cents" in refused(
            log, refund_of("sync", New)
        )

    def test_benign_changes_need_no_transform(self) -> None:
        """A new field with a default, a field that is gone, and a name that an alias still reads are no misfit."""

        class More(OldCase):
            note: str = ""

        class Less(pydantic.BaseModel):
            id: str

        class Aliased(pydantic.BaseModel):
            id: str
            total: str = pydantic.Field(default="0", validation_alias=pydantic.AliasChoices("total", "amount"))

        def of(kind: type[Any]) -> Flow[..., Any]:
            def body(ctx: SyncContext, case: Any) -> str:
                ctx.suspend("Approved")
                return said(case)

            body.__annotations__["case"] = kind
            return flow(id="refund", gates={"Approved": Answer})(body)

        log = record(of(OldCase), {"id": "c1", "amount": "5"})
        for kind, handed in (
            (More, '{"id":"c1","amount":"5","note":""}'),
            (Less, '{"id":"c1"}'),
            (Aliased, '{"id":"c1","total":"5"}'),
        ):
            done = resume_as(log, of(kind), event="Approved", payload={"by": "A"})
            assert done.state.variables["_output"] == handed

    def test_replay_check_guards_the_steps(self, mode: Mode) -> None:
        """replay-check still guards step-shape compatibility: another step than was done refuses."""

        @step
        def judge(case: Any) -> str:
            LIVE.append("judge")
            return "ok"

        told = refused(
            waiting(mode), refund_of(mode, Case, steps=(judge, book)), ReplayDivergence, transform_state=to_cents
        )
        assert "judge" in told
        assert "assess" in told
        assert "Nothing was appended" in told
        assert 'strategy="pinned"' in told
        assert "--snapshot-update" not in told

    def test_replay_check_without_an_event(self, mode: Mode, tmp_path: Path) -> None:
        """The check is made too where only the migration is to be recorded, and writes no file when it fails."""

        @step
        def judge(case: Any) -> str:
            return "ok"

        path = tmp_path / "x.loom.jsonl"
        today = refund_of(mode, Case, steps=(judge, book))
        refused(waiting(mode), today, ReplayDivergence, transform_state=to_cents, path=path)
        assert list(tmp_path.iterdir()) == []

    def test_arguments_are_compared_without_a_migration(self, mode: Mode) -> None:
        """Where the input was not migrated, what a step was asked is compared; a transform says that it stands."""

        class More(OldCase):
            note: str = ""

        today = refund_of(mode, More)
        told = refused(waiting(mode), today, ReplayDivergence, event="Approved", payload={"by": "Ann"})
        assert 'note: recorded absent, today ""' in told
        assert "transform_state=lambda old: old" in told
        said_so = resume_as(
            waiting(mode), today, transform_state=lambda old: old, event="Approved", payload={"by": "Ann"}
        )
        assert said_so.state.status == "completed"

    def test_arguments_after_the_migration_are_compared(self, mode: Mode) -> None:
        """What is asked after the migration is compared again in replay."""
        log = resume_as(
            waiting(mode), refund_of(mode, Case), transform_state=to_cents, event="Approved", payload={"by": "Ann"}
        )

        class Dearer(Case):
            @property
            def is_dear(self) -> bool:
                return True

            @pydantic.model_validator(mode="after")
            def _more(self) -> Dearer:
                object.__setattr__(self, "cents", self.cents + 1)
                return self

        with pytest.raises(ReplayDivergence, match="book") as caught:
            replay(log, refund_of(mode, Dearer))
        assert caught.value.kind == "argument-changed"

    def test_gate_keeps_its_key(self, mode: Mode) -> None:
        """A transform that moves the key under which a run waits would lose its answer: that is a divergence."""
        told = refused(
            waiting(mode),
            refund_of(mode, Case),
            ReplayDivergence,
            transform_state=lambda old: {**to_cents(old), "id": "c1/2"},
        )
        assert "Approved" in told

    def test_two_gates(self, mode: Mode) -> None:
        """Two sequential gates replay past the first on a later resume, migrated before, between or after."""

        async def body(ctx: Context, case: Case) -> str:
            one = await ctx.suspend("Approved")
            two = await ctx.suspend("Approved")
            return f"{case.cents} {one.by} {two.by}"

        def sync_body(ctx: SyncContext, case: Case) -> str:
            one, two = ctx.suspend("Approved"), ctx.suspend("Approved")
            return f"{case.cents} {one.by} {two.by}"

        def of(kind: type[Any], version: str) -> Flow[..., Any]:
            chosen: Callable[..., Any] = body if mode == "async" else sync_body
            chosen.__annotations__["case"] = kind
            return flow(id="gates", version=version, gates={"Approved": Answer})(chosen)

        for migrate_at in (0, 1):
            log = record(of(OldCase, "1"), {"id": "c1", "amount": "0.07"})
            for number, by in enumerate(["Ann", "Bo"]):
                today = of(Case if number >= migrate_at else OldCase, "2" if number >= migrate_at else "1")
                if number == migrate_at:
                    log = resume_as(log, today, transform_state=to_cents, event="Approved", payload={"by": by})
                else:
                    log = resume(log, today, event="Approved", payload={"by": by})
            assert log.state.variables["_output"] == "7 Ann Bo"
            assert lines(replay(log, today)) == lines(log)


class TestPinned:
    def test_asks_for_the_version_of_the_log(self, mode: Mode) -> None:
        """The version-aware registry is asked for the version that the log's manifest pins."""
        asked = []
        flows = {version: refund_of(mode, OldCase, version=version) for version in ("1.0.0", "2.0.0")}

        def get_flow(workflow_id: str, version: str | None) -> Any:
            asked.append((workflow_id, version))
            return flows[version or ""]

        log = resume_as(waiting(mode), get_flow, strategy="pinned", event="Approved", payload={"by": "Ann"})
        assert asked == [("refund", "1.0.0")]
        assert log.state.status == "completed"
        migrated = next(event for event in log.events if event.event_type == "EXECUTION_MIGRATED").payload
        assert (migrated["strategy"], migrated["fromVersion"], migrated["toVersion"]) == ("pinned", "1.0.0", "1.0.0")

    def test_composes_with_a_transform(self, mode: Mode) -> None:
        """transformState composes with pinned-version resumption, and a migrated run is pinned to what it became."""
        today = refund_of(mode, Case)
        flows = {"1.0.0": refund_of(mode, OldCase, version="1.0.0"), "2.0.0": today}

        class Registry:
            def get_flow(self, workflow_id: str, version: str | None = None) -> Any:
                return flows.get(version or "")

        fixed = resume_as(
            waiting(mode), Registry(), strategy="pinned", transform_state=lambda old: {**old, "amount": "50.00"}
        )
        assert fixed.state.variables["_input"] == {"id": "c1", "amount": "50.00"}
        migrated = resume_as(fixed, today, transform_state=to_cents)
        done = resume_as(migrated, Registry(), strategy="pinned", event="Approved", payload={"by": "Ann"})
        assert done.state.variables["_output"] == '{"id":"c1","cents":5000,"currency":"EUR"} by Ann'

    def test_version_that_is_gone(self, mode: Mode) -> None:
        """A version that the registry does not have any more is refused."""
        told = refused(waiting(mode), lambda workflow_id, version: None, FlowError, strategy="pinned")
        assert "there is no flow refund 1.0.0, which the run is pinned to" in told

    def test_other_version(self, mode: Mode) -> None:
        """A flow of another version than the pinned one is refused, also from a mapping that knows no versions."""
        for flows in (refund_of(mode, OldCase), {"refund": refund_of(mode, OldCase)}):
            told = refused(waiting(mode), flows, FlowError, strategy="pinned")
            assert "pinned to refund 1.0.0, and the flow at hand is version 2.0.0" in told

    def test_hash(self, mode: Mode) -> None:
        """Hash pinning: a flow whose contract is another one than the log names, under the same version, is refused."""
        same = refund_of(mode, OldCase, version="1.0.0")
        pinned = resume_as(waiting(mode), same, strategy="pinned")
        known = pinned.events[-1].payload["toHash"]
        again = resume_as(pinned, refund_of(mode, OldCase, version="1.0.0"), strategy="pinned")
        assert again.events[-1].payload["fromHash"] == known == again.events[-1].payload["toHash"]

        class More(OldCase):
            note: str = ""

        told = refused(pinned, refund_of(mode, More, version="1.0.0"), FlowError, strategy="pinned")
        assert "another contract than the one that the run is pinned to" in told
        assert f"recorded: {known}" in told

    def test_hash_of_the_manifest(self) -> None:
        """The fingerprint in the log's manifest pins a run that was never migrated."""
        today = refund_of("sync", OldCase, version="1.0.0")
        builder = LogBuilder("x", "refund")
        facts = {"flowVersion": "1.0.0", "contractFingerprint": "0123456789abcdef"}
        builder.add("EXECUTION_STARTED", {"input": {"id": "1", "amount": "1"}, "manifest": facts}, timestamp=0)
        assert "recorded: 0123456789abcdef" in refused(builder.log(), today, FlowError, strategy="pinned")
        checked = resume_as(builder.log(), today).events[-1].payload
        assert checked["fromHash"] == "0123456789abcdef" != checked["toHash"]

    def test_plain_function_is_not_called_as_a_resolver(self) -> None:
        """A plain function that is the run's own flow is no resolver: it is not called with an id."""
        log = record(plain_flow, 3)
        half = Log(log.events[:1])
        assert kinds(resume_as(half, plain_flow, strategy="pinned")) == ["EXECUTION_STARTED", "EXECUTION_MIGRATED"]


def plain_flow(number: int) -> int:
    """Any callable is a flow."""
    if not isinstance(number, int):
        raise TypeError(number)
    return number + 1


class TestRest:
    def test_terminal(self, mode: Mode) -> None:
        """A run that is over is refused."""
        done = resume(waiting(mode), refund_of(mode, OldCase, version="1.0.0"), event="Approved", payload={"by": "Ann"})
        LIVE.clear()
        told = refused(done, refund_of(mode, Case), LoomError, transform_state=to_cents)
        assert "the run is completed" in told

    def test_strategy(self) -> None:
        """Any other strategy is a mistake of the caller."""
        with pytest.raises(ValueError, match="replay-check"):
            resume_as(waiting("sync"), refund_of("sync", Case), strategy="hope")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="takes a Log"):
            resume_as("x.loom.jsonl", refund_of("sync", Case))  # type: ignore[arg-type]

    def test_with_a_path(self, mode: Mode, tmp_path: Path) -> None:
        """With a path the history, the migration and what followed are in the file, and nothing beside it."""
        path = tmp_path / "run.loom.jsonl"
        log = resume_as(
            waiting(mode),
            refund_of(mode, Case),
            transform_state=to_cents,
            event="Approved",
            payload={"by": "A"},
            path=path,
        )
        assert lines(load_log(path)) == lines(log)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    def test_killed_while_it_goes_on(self, mode: Mode, tmp_path: Path) -> None:
        """The migration is on disk before the first effect runs: what a kill leaves is resumed without a transform."""
        path, seen = tmp_path / "run.loom.jsonl", []

        @step(id="book")
        def dies(case: Any, by: str) -> str:
            seen.append(path.with_name("run.loom.jsonl.partial").read_bytes())
            return "booked"

        resume_as(
            waiting(mode),
            refund_of(mode, Case, steps=(assess, dies)),
            transform_state=to_cents,
            event="Approved",
            payload={"by": "A"},
            path=path,
        )
        left = tmp_path / "left.loom.jsonl"
        left.write_bytes(seen[0])
        log = load_log(left)
        assert "EXECUTION_MIGRATED" in kinds(log)
        assert resume(log, refund_of(mode, Case)).state.variables["_output"].endswith("by A")

    def test_crashed_run(self, mode: Mode) -> None:
        """A run that crashed within a step migrates too; the step is done again with today's input, under its key."""
        done = resume(waiting(mode), refund_of(mode, OldCase, version="1.0.0"), event="Approved", payload={"by": "Ann"})
        LIVE.clear()
        crashed = Log(done.events[:7])
        assert kinds(crashed)[-1] == "STEP_STARTED"
        today = refund_of(mode, Case)
        log = resume(resume_as(crashed, today, transform_state=to_cents), today)
        assert LIVE == ['book {"id":"c1","cents":4999,"currency":"EUR"} Ann']
        starts = [e.payload["idempotencyKey"] for e in log.events if e.event_type == "STEP_STARTED"][1:]
        assert len(starts) == 2
        assert len(set(starts)) == 1
        assert lines(replay(log, today)) == lines(log)

    def test_half_an_answer(self, mode: Mode) -> None:
        """An answer of which a crash left only the application's event is still taken after a migration."""
        done = resume(waiting(mode), refund_of(mode, OldCase, version="1.0.0"), event="Approved", payload={"by": "Ann"})
        LIVE.clear()
        half = Log(done.events[:5])
        assert kinds(half)[-1] == "Approved"
        today = refund_of(mode, Case)
        log = resume(resume_as(half, today, transform_state=to_cents), today)
        assert log.state.variables["_output"] == '{"id":"c1","cents":4999,"currency":"EUR"} by Ann'

    def test_timeout(self, mode: Mode) -> None:
        """The event TIMEOUT ends a wait after a migration as it does before."""
        log = resume_as(waiting(mode), refund_of(mode, Case), transform_state=to_cents, event="TIMEOUT")
        assert log.state.status == "failed"
        assert log.state.variables["_error"]["type"] == "TimeoutError"

    def test_fork_of_a_migrated_run(self, mode: Mode) -> None:
        """A fork from after the migration has the migrated input; it stays where it was when replayed."""
        today = refund_of(mode, Case)
        migrated = resume_as(waiting(mode), today, transform_state=to_cents)
        other = fork(migrated, len(migrated))
        assert resume(other, today, event="Approved", payload={"by": "A"}).state.status == "completed"
        assert kinds(replay(other, today)) == kinds(other)

    def test_secrets(self, mode: Mode) -> None:
        """Secrets in what a transform returns are taken out before it is recorded."""

        class Secret(Case):
            password: str = ""

        today = refund_of(mode, Secret)
        log = resume_as(waiting(mode), today, transform_state=lambda old: {**to_cents(old), "password": "hunter22"})
        assert b"hunter22" not in b"".join(bytes(event.raw) for event in log.events)
        assert log.state.variables["_input"]["cents"] == 4999

    def test_secret_that_does_not_fit_any_more(self) -> None:
        """A secret whose stand-in the input type rejects refuses the migration."""

        class Secret(Case):
            pin: int

        told = refused(
            waiting("async"),
            refund_of("async", Secret),
            transform_state=lambda old: {**to_cents(old), "pin": 1234},
            scrub=Scrubber(keys=["pin"]),
        )
        assert "once its secrets are taken out" in told

    def test_concurrent_branches(self) -> None:
        """Branches that asked with the old input are answered each with its own result."""

        @step
        async def look(case: Any, number: int) -> int:
            LIVE.append("look")
            return number * 10

        import asyncio

        def of(kind: type[Any], version: str) -> Flow[..., Any]:
            async def body(ctx: Context, case: Any) -> Any:
                found = await asyncio.gather(*(ctx.run(look, case, number) for number in range(3)))
                await ctx.suspend("Approved")
                return found

            body.__annotations__["case"] = kind
            return flow(id="fan", version=version, steps=[look], gates={"Approved": Answer})(body)

        log = record(of(OldCase, "1"), {"id": "c1", "amount": "1"})
        LIVE.clear()
        today = of(Case, "2")
        done = resume_as(log, today, transform_state=to_cents, event="Approved", payload={"by": "A"})
        assert done.state.variables["_output"] == [0, 10, 20]
        assert LIVE == []
        assert sorted(kinds(replay(done, today))) == sorted(kinds(done))
        assert diff_runs(done, replay(done, today), compare="all") == []

    def test_tools(self) -> None:
        """A tool call that was made with the old input is answered too."""

        @tool
        def quote(case: dict[str, Any]) -> str:
            LIVE.append("quote")
            return "9"

        def of(kind: type[Any], version: str) -> Flow[..., Any]:
            def body(ctx: SyncContext, case: Any) -> Any:
                price = ctx.call(quote, case=case.model_dump())
                ctx.suspend("Approved")
                return price

            body.__annotations__["case"] = kind
            return flow(id="quoted", version=version, tools=[quote], gates={"Approved": Answer})(body)

        log = record(of(OldCase, "1"), {"id": "c1", "amount": "1"})
        LIVE.clear()
        done = resume_as(log, of(Case, "2"), transform_state=to_cents, event="Approved", payload={"by": "A"})
        assert done.state.variables["_output"] == "9"
        assert LIVE == []

    def test_flow_that_takes_no_input_any_more(self) -> None:
        """A flow without its input cannot be handed one: the way out is a parameter that takes it still."""

        @flow(id="refund", version="2.0.0", steps=[assess, book], gates={"Approved": Answer})
        def bare(ctx: SyncContext) -> None:
            ctx.suspend("Approved")

        told = refused(waiting("sync"), bare)
        assert "it takes no input any more" in told
        assert "def bare(ctx, _old=None)" in told

    def test_run_without_input(self) -> None:
        """A run that was started without an input hands None to the transform."""

        @flow(id="refund", gates={"Approved": Answer})
        def bare(ctx: SyncContext) -> None:
            ctx.suspend("Approved")

        @flow(id="refund", gates={"Approved": Answer})
        def today(ctx: SyncContext, case: Case) -> int:
            ctx.suspend("Approved")
            return case.cents

        log = record(bare)
        assert "recorded: no input" in refused(log, today)
        given = []

        def transform(old: Any) -> Any:
            given.append(old)
            return {"id": "c1", "cents": 1}

        done = resume_as(log, today, transform_state=transform, event="Approved", payload={"by": "A"})
        assert given[0] is None
        assert done.state.variables["_output"] == 1

    @pytest.mark.asyncio
    async def test_async_form(self, mode: Mode) -> None:
        """aresume_as does the same on the caller's loop."""
        log = await arecord(refund_of(mode, OldCase, version="1.0.0"), {"id": "c1", "amount": "49.99"})
        today = refund_of(mode, Case)
        with pytest.raises(StateMigrationError, match="Field required"):
            await aresume_as(log, today, event="Approved", payload={"by": "Ann"})
        done = await aresume_as(log, today, transform_state=to_cents, event="Approved", payload={"by": "Ann"})
        assert done.state.variables["_output"] == '{"id":"c1","cents":4999,"currency":"EUR"} by Ann'

    def test_words_of_a_log_are_printed_safely(self) -> None:
        """Names out of a log cannot forge lines of a message, nor code of the sketched transform."""
        builder = LogBuilder("x", "refund")
        odd = 'a"]\nimport os\x1b[31m'
        builder.add("EXECUTION_STARTED", {"input": {"id": "1", odd: "v\n\x1b[0m"}}, timestamp=0)
        told = refused(builder.log(), refund_of("sync", Case))
        assert "\x1b" not in told
        assert not any(line.strip().startswith("import os") for line in told.splitlines())


def test_events_are_events() -> None:
    """The migration is an event as any other: its identity and number follow from the log."""
    migrated = resume_as(waiting("sync"), refund_of("sync", Case), transform_state=to_cents)
    event = migrated.events[-1]
    assert isinstance(event, Event)
    assert (event.execution_id, event.workflow_id, event.sequence) == ("run-1", "refund", 5)
