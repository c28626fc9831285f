"""Upcasters: older events raised to today's version when they are read, closed by default (DESIGN section 5)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import (
    PINNED_EVENT_TYPES,
    Context,
    Event,
    Log,
    LogBuilder,
    LogError,
    SyncContext,
    UnknownSchemaVersion,
    Unsupported,
    flow,
    load_log,
    record,
    replay,
    replay_as_fixture,
    resume,
    step,
    tool,
    write_log,
)
from pytest_loom.errors import UpcastError
from pytest_loom.flow.history import History
from pytest_loom.log.upcast import (
    current_version,
    isolated_upcasters,
    registered,
    upcast_event,
    upcast_events,
    upcaster,
)

Payload = dict[str, Any]
CALL = {"callId": "c1", "name": "deploy", "args": {"env": "prod"}}


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    """No test sees another's upcasters."""
    with isolated_upcasters():
        yield


def log_of(*entries: tuple[str, Payload, int]) -> Log:
    """A log with those kinds, payloads and versions, each on a line of its own of ``a.loom.jsonl``."""
    builder = LogBuilder("run-1", "refund", path="a.loom.jsonl")
    for line, (kind, payload, version) in enumerate([("EXECUTION_STARTED", {"input": 1}, 1), *entries], 1):
        builder.add(kind, payload, timestamp=line, line=line, event_version=version)
    return builder.log()


def one(version: int = 1, kind: str = "TOOL_REQUESTED", payload: Payload = CALL) -> Event:
    """The event of line 2."""
    return log_of((kind, payload, version)).events[1]


def to_v2(payload: Payload) -> Payload:
    """``env`` is called ``environment``."""
    return {**payload, "args": {"environment": payload["args"]["env"]}}


def to_v3(payload: Payload) -> Payload:
    """A region, which every older call meant."""
    return {**payload, "args": {**payload["args"], "region": "eu"}}


def same(payload: Payload) -> Payload:
    """Nothing to do."""
    return payload


class TestChain:
    def test_a_v1_event_is_upcast_and_reduces_to_the_expected_state(self) -> None:
        """Seed 003, second fixture: v1 and v2 events fold as v3 ones would, step by step along the chain."""
        upcaster("TOOL_REQUESTED", from_version=2)(to_v3)
        upcaster("TOOL_REQUESTED", from_version=1)(to_v2)
        third = {"environment": "prod", "region": "eu"}
        logs = [
            log_of(("TOOL_REQUESTED", {**CALL, "args": args}, version))
            for version, args in ((1, {"env": "prod"}), (2, {"environment": "prod"}), (3, third))
        ]
        assert [log.state.calls[0].args for log in logs] == [third, third, third]
        assert logs[0].state == logs[1].state == logs[2].state
        assert logs[0].state.calls[0].request_event.event_version == current_version("TOOL_REQUESTED") == 3

    def test_only_the_kinds_that_have_upcasters_are_raised(self) -> None:
        """Other kinds stay at version 1, and their events are the very objects of the log."""
        upcaster("TOOL_REQUESTED", from_version=1)(to_v2)
        log = log_of(("TOOL_REQUESTED", CALL, 1), ("TOOL_REQUESTED", CALL, 2), ("Noted", {}, 1))
        events = upcast_events(log.events)
        assert [event.event_version for event in events] == [1, 2, 2, 1]
        assert [event is was for event, was in zip(events, log.events, strict=True)] == [True, False, True, True]
        assert (events[1].path, events[1].line, events[1].sequence) == ("a.loom.jsonl", 2, 2)

    def test_without_upcasters_the_events_are_handed_on(self) -> None:
        """A project that has none pays nothing: not even a list is made."""
        log = log_of(("TOOL_REQUESTED", CALL, 1))
        assert upcast_events(log.events) is log.events
        assert upcast_event(log.events[1]) is log.events[1]

    def test_an_applications_own_events_are_upcast_as_well(self) -> None:
        """They fold into ``received`` in today's version."""
        upcaster("ApprovalGranted", from_version=1)(lambda payload: {"by": payload["who"]})
        (received,) = log_of(("ApprovalGranted", {"who": "Ann"}, 1)).state.received
        assert (received.payload, received.event_version) == ({"by": "Ann"}, 2)

    def test_history_stays_as_it_was_recorded(self, tmp_path: Path) -> None:
        """Neither the file nor ``log.events`` changes by folding, and writing the log gives the old bytes."""
        upcaster("TOOL_REQUESTED", from_version=1)(to_v2)
        file = tmp_path / "a.loom.jsonl"
        write_log(log_of(("TOOL_REQUESTED", CALL, 1)), file)
        before = file.read_bytes()
        log = load_log(file)
        raws = [bytes(event.raw) for event in log.events]
        assert log.state.calls[0].args == {"environment": "prod"}
        assert History(log).all().__next__().input == b'{"environment":"prod"}'
        assert [bytes(event.raw) for event in log.events] == raws
        assert [event.event_version for event in log.events] == [1, 1]
        write_log(log, tmp_path / "again.loom.jsonl")
        assert file.read_bytes() == (tmp_path / "again.loom.jsonl").read_bytes() == before

    def test_values_that_an_upcaster_passes_on_stay_as_they_were_written(self) -> None:
        """Large numbers, 1.0 and the order of keys survive."""
        upcaster("Noted", from_version=1)(same)
        raw = b'{"z":123456789012345678901234567890,"a":[1.0,-0.0,1],"m":{"\\u00fc":"\\ud83d\\ude80"}}'
        event = msgspec.structs.replace(one(kind="Noted", payload={}), raw=msgspec.Raw(raw))
        assert (
            bytes(upcast_event(event).raw)
            == '{"z":123456789012345678901234567890,"a":[1.0,-0.0,1],"m":{"ü":"🚀"}}'.encode()
        )

    def test_what_an_upcaster_keeps_is_not_shared_between_events(self) -> None:
        """A default that is one object in the upcaster's module is a value of its own in each event."""
        default: list[int] = []
        upcaster("Noted", from_version=1)(lambda payload: {"tags": default})
        first, second = (upcast_event(one(kind="Noted", payload={})) for _ in range(2))
        first.payload["tags"].append(1)
        assert second.payload == {"tags": []}


class TestGaps:
    @pytest.mark.parametrize(
        ("known", "version", "missing", "shown"),
        [
            ((1, 3), 1, "2 to 3", "1 -> 2 -> ? -> 4"),
            ((3,), 1, "1 to 2", "1 -> ? -> 4"),
            ((2, 3), 1, "1 to 2", "1 -> ? -> 3 -> 4"),
            ((1, 2, 900_000_000), 2, "3 to 4", "2 -> 3 -> ? -> 900000001"),
        ],
    )
    def test_a_gap_fails_closed_and_shows_the_chain(
        self, known: tuple[int, ...], version: int, missing: str, shown: str
    ) -> None:
        """File, line, execution, kind and versions are named, and what to type."""
        for number in known:
            upcaster("TOOL_REQUESTED", from_version=number)(same)
        with pytest.raises(UpcastError) as caught:
            replay_as_fixture(log_of(("TOOL_REQUESTED", CALL, version)))
        text = str(caught.value)
        assert text.startswith(
            "a.loom.jsonl:2, execution run-1: event 2: no upcaster takes TOOL_REQUESTED from version "
            f"{missing} (chain: {shown})\n"
        )
        assert f'@upcaster("TOOL_REQUESTED", from_version={missing[0]})' in text
        assert isinstance(caught.value, LogError)

    def test_a_gap_that_no_event_has_to_cross_is_no_problem(self) -> None:
        """An event that is past it folds."""
        for number in (1, 3):
            upcaster("TOOL_REQUESTED", from_version=number)(same)
        assert upcast_event(one(3)).event_version == 4


class TestUnknownVersions:
    @pytest.mark.parametrize("kind", ["TOOL_REQUESTED", "Noted"])
    @pytest.mark.parametrize("with_upcaster", [True, False])
    def test_a_newer_version_fails_closed(self, kind: str, with_upcaster: bool) -> None:
        """Seed 003, fourth fixture: fold and History refuse an unknown version, and nothing is filled in."""
        if with_upcaster:
            upcaster(kind, from_version=1)(same)
        today = 2 if with_upcaster else 1
        log = log_of((kind, CALL, 7))
        for read in (replay_as_fixture, History):
            with pytest.raises(UnknownSchemaVersion) as caught:
                read(log)
            assert str(caught.value).startswith(
                f"a.loom.jsonl:2, execution run-1: event 2: {kind} has version 7, and today's newest is {today}\n"
            )
        assert log.events[1].payload == CALL

    @pytest.mark.parametrize("version", [0, -1, -(2**70)])
    def test_versions_count_from_one(self, version: int) -> None:
        """Anything below is no version, and no upcaster is asked."""
        upcaster("Noted", from_version=1)(lambda payload: pytest.fail("asked"))
        with pytest.raises(UnknownSchemaVersion, match="versions count from 1"):
            upcast_event(one(version, "Noted"))

    def test_an_ignorable_kind_of_a_newer_kernel_is_left_alone(self) -> None:
        """Whatever its version: the fold leaves it out, as it does version 1 of it."""
        later = msgspec.structs.replace(one(), event_type="STEP_POSTPONED", event_version=3, ignorable=True)
        log = log_of()
        assert replay_as_fixture(Log([*log.events, later])).calls == []
        with pytest.raises(UnknownSchemaVersion, match="STEP_POSTPONED is not known"):
            replay_as_fixture(Log([*log.events, msgspec.structs.replace(later, ignorable=False)]))


def changes_its_input(payload: Payload) -> Payload:
    """Adds to what it was given."""
    payload["args"]["region"] = "eu"
    return payload


def empties_its_input(payload: Payload) -> Payload:
    """Puts into what it was given a thing that JSON cannot say."""
    payload["args"]["env"] = math.nan
    return {}


def turns_its_input(payload: Payload) -> Payload:
    """Changes nothing but the order of keys."""
    payload["callId"] = payload.pop("callId")
    return dict(sorted(payload.items()))


COUNTER = itertools.count()


def counts(payload: Payload) -> Payload:
    """Another number each time."""
    return {**payload, "args": {"id": next(COUNTER)}}


def turns(payload: Payload) -> Payload:
    """Another order of keys each time."""
    items = list(payload.items())
    return dict(items if next(COUNTER) % 2 else reversed(items))


def half_true(payload: Payload) -> Payload:
    """1 and true, which Python takes for equal."""
    return {**payload, "args": [True, 1][next(COUNTER) % 2]}


def raises(payload: Payload) -> Payload:
    """A mistake."""
    raise ValueError("a\nb")


def gives_up(payload: Payload) -> Payload:
    """No lossless way."""
    raise Unsupported("the ticket is not known")


def nested(payload: Payload) -> Payload:
    """A value that holds itself."""
    payload = {**payload, "args": []}
    payload["args"].append(payload)
    return payload


def gives(args: Any) -> Callable[[Payload], Payload]:
    """An upcaster that gives those args."""
    return lambda payload: {**payload, "args": args}


class TestProof:
    @pytest.mark.parametrize(
        ("function", "what"),
        [
            (raises, r"raised ValueError: a\nb"),
            (gives_up, "says that there is no lossless way: the ticket is not known"),
            (lambda payload: None, "returned None"),
            (lambda payload: [payload], "returned a list, not an object"),
            (lambda payload: "text", "returned a str, not an object"),
            (changes_its_input, "changed the value that it was given, at payload.args.region"),
            (empties_its_input, "changed the value that it was given, at payload.args.env"),
            (turns_its_input, "changed the value that it was given, in the order of its keys"),
            (counts, "gave two different results for one input, at payload.args.id"),
            (turns, "gave two different results for one input, in the order of its keys"),
            (half_true, "gave two different results for one input, at payload.args"),
            (gives([{"a": (1, 2)}]), "gave a tuple at payload.args[0].a, which is not plain JSON data"),
            (gives({"x y": {1}}), "gave a set at payload.args['x y'], which"),
            (gives(math.inf), "gave inf at payload.args, which JSON cannot say"),
            (gives([math.nan]), "gave nan at payload.args[0], which JSON cannot say"),
            (gives("\ud800"), "at payload.args, which JSON cannot say"),
            (gives({1: 2}), "gave the key 1 at payload.args, which is no text"),
            (gives({"\ud800": 2}), "at payload.args, which is no text"),
            (gives(b"bytes"), "gave a bytes at payload.args"),
            (nested, "gave something nested more than 500 deep in payload"),
        ],
    )
    def test_what_is_not_pure_or_not_plain_fails_closed(self, function: Callable[[Payload], Any], what: str) -> None:
        """The upcaster, its place, what it did and where, and the chain up to it; the cause is kept."""
        upcaster("TOOL_REQUESTED", from_version=1)(to_v2)
        upcaster("TOOL_REQUESTED", from_version=2)(function)
        upcaster("TOOL_REQUESTED", from_version=3)(to_v3)
        with pytest.raises(UpcastError) as caught:
            replay_as_fixture(log_of(("TOOL_REQUESTED", CALL, 1)))
        text = str(caught.value)
        assert text.startswith(
            "a.loom.jsonl:2, execution run-1: event 2: the upcaster of TOOL_REQUESTED from version 2 to 3 "
            f"({function.__qualname__}, {__file__}:"
        )
        assert what in text
        assert "(chain: 1 -> 2 -> ? -> 4)\n" in text
        assert (type(caught.value.__cause__) is ValueError) == (function is raises)

    def test_a_result_that_is_no_payload_of_its_kind_is_an_error_of_the_event(self) -> None:
        """An upcaster that leaves out what the kind needs does not get by: nothing is filled in."""
        upcaster("TOOL_REQUESTED", from_version=1)(lambda payload: {"args": {}})
        with pytest.raises(LogError, match=r"a\.loom\.jsonl:2, execution run-1: event 2: .*does not have its shape"):
            replay_as_fixture(log_of(("TOOL_REQUESTED", CALL, 1)))

    def test_a_payload_that_cannot_be_decoded_is_no_upcasters_fault(self) -> None:
        """The log is damaged, and says where."""
        upcaster("Noted", from_version=1)(lambda payload: pytest.fail("asked"))
        damaged = msgspec.structs.replace(one(kind="Noted"), raw=msgspec.Raw(b"[1]"))
        with pytest.raises(LogError, match=r"a\.loom\.jsonl:2, .*is not an object"):
            upcast_event(damaged)


class TestRegistering:
    def test_two_for_one_version_are_an_error_that_names_both(self) -> None:
        """Which of the two is meant cannot be told; the first stays."""
        upcaster("Noted", from_version=1)(to_v2)
        with pytest.raises(UpcastError) as caught:
            upcaster("Noted", from_version=1)(to_v3)
        first, second = str(caught.value).split(":", 1)[0], str(caught.value)
        assert first.startswith("Noted has two upcasters from version 1")
        assert second.count(f"{__file__}:") == 2
        assert ("to_v2, " in second, "to_v3, " in second) == (True, True)
        assert [step.function for step in registered()] == [to_v2]

    def test_one_line_that_registers_twice_is_an_error_too(self) -> None:
        """A loop or a factory that forgets to count."""

        def make(function: Callable[[Payload], Payload]) -> None:
            upcaster("Noted", from_version=1)(function)

        make(to_v2)
        with pytest.raises(UpcastError, match="two upcasters"):
            make(to_v3)

    def test_a_module_may_be_loaded_again(self) -> None:
        """Reloaded, or imported under a second name: it is the same upcaster, and the newest counts."""
        text = (
            "from pytest_loom.log.upcast import upcaster\n\n"
            "@upcaster('Noted', from_version=1)\ndef raised(payload):\n    return {'name': __name__}\n"
        )
        for name in ("app.casts", "casts"):
            exec(compile(text, "/app/casts.py", "exec"), {"__name__": name})
        assert upcast_event(one(kind="Noted")).payload == {"name": "casts"}
        assert [str(step.place) for step in registered()] == ["raised, /app/casts.py:3"]

    @pytest.mark.parametrize(
        ("kind", "version", "error"),
        [
            ("", 1, TypeError),
            (None, 1, TypeError),
            ("TOOL_REQESTED", 1, ValueError),
            ("Noted", 0, ValueError),
            ("Noted", True, ValueError),
            ("Noted", "1", ValueError),
        ],
    )
    def test_what_cannot_be_meant_is_refused_at_once(self, kind: Any, version: Any, error: type[Exception]) -> None:
        """A misspelt kernel kind would never be asked; versions are numbers from 1 on."""
        with pytest.raises(error):
            upcaster(kind, from_version=version)
        assert registered() == []

    def test_async_functions_and_generators_are_refused(self) -> None:
        """They do not give a payload when they are called."""

        async def later(payload: Payload) -> Payload:
            return payload

        def pieces(payload: Payload) -> Iterator[Payload]:
            yield payload

        mistakes: list[Any] = [later, pieces, "to_v2"]
        for function in mistakes:
            with pytest.raises(TypeError):
                upcaster("Noted", from_version=1)(function)
        assert (registered(), current_version("Noted")) == ([], 1)

    def test_isolation_is_undone_whatever_happens(self) -> None:
        """What was registered before is hidden within and there again afterwards; what came within is gone."""
        upcaster("Noted", from_version=1)(same)

        def within() -> None:
            with isolated_upcasters():
                assert (registered(), current_version("Noted")) == ([], 1)
                upcaster("Noted", from_version=4)(same)
                upcaster("Other", from_version=1)(same)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            within()
        assert [(step.kind, step.from_version) for step in registered()] == [("Noted", 1)]
        assert (current_version("Noted"), current_version("Other")) == (2, 1)


@tool
def deploy(environment: str) -> str:
    """Today's tool."""
    return f"deployed {environment}"


@flow(id="release", version="2", gates={"Approved": bool}, tools=[deploy])
def release(ctx: SyncContext, environment: str) -> str:
    """Today's flow: asks, then deploys."""
    done = ctx.call(deploy, environment=environment)
    ctx.suspend("Approved")
    return str(done)


def yesterdays(log: Log) -> Log:
    """The log as yesterday's code wrote it, when the argument was called ``env``."""
    return Log(
        [
            msgspec.structs.replace(event, raw=msgspec.Raw(bytes(event.raw).replace(b'"environment"', b'"env"')))
            for event in log.events
        ]
    )


class TestTodaysCode:
    def test_yesterdays_run_replays_and_goes_on_and_its_history_stays(self) -> None:
        """Replay and resume see today's shape; the events that were there are the same bytes in the new log."""
        old = yesterdays(record(release, "prod"))
        assert b'"env"' in b"".join(bytes(event.raw) for event in old.events)
        upcaster("TOOL_REQUESTED", from_version=1)(to_v2)
        candidate = replay(old, release)
        assert candidate.state == old.state
        whole = resume(old, release, event="Approved", payload=True)
        assert whole.events[: len(old)] == old.events
        assert whole.state.variables["_output"] == "deployed prod"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "stepId": st.sampled_from(["a", "b"]) | JSON,
        "callId": st.sampled_from(["1", 2]) | JSON,
        "name": st.just("deploy") | JSON,
        "args": JSON,
        "input": JSON,
        "output": JSON,
        "error": st.just({"type": "ValueError", "message": "no"}) | JSON,
        "on": st.sampled_from(["X", "Y"]) | JSON,
        "kind": st.sampled_from(["approval", "event"]) | JSON,
        "eventType": st.sampled_from(["X", "Y"]) | JSON,
        "key": st.text(max_size=2),
        "value": JSON,
        "state": JSON,
        "stateSchemaVersion": JSON,
    },
)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([*sorted(PINNED_EVENT_TYPES), "Noted", "X", "STEP_POSTPONED"]),
        FIELDS,
        st.sampled_from([1, 1, 1, 1, 2, 2, 3, 3, 0, 9]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def generated(entries: list[tuple[str, Payload, int, bool]]) -> Log:
    """A log of anything: kinds, fields and versions as they come."""
    return Log(
        [
            Event(
                execution_id="run-1",
                workflow_id="refund",
                sequence=number,
                timestamp=number,
                event_type=kind,
                schema_version="1.15.0",
                event_version=version,
                ignorable=ignorable,
                raw=msgspec.Raw(msgspec.json.encode(payload)),
            )
            for number, (kind, payload, version, ignorable) in enumerate(entries, 1)
        ]
    )


def outcome(log: Log) -> Any:
    """What folding gives: all its facts as JSON text, or the error's kind and text."""
    try:
        return msgspec.json.encode(replay_as_fixture(log).facts())
    except LogError as error:
        return type(error), str(error)


class TestGeneratedLogs:
    @given(ENTRIES)
    @settings(max_examples=200, deadline=None)
    def test_folding_upcast_logs_is_total_and_deterministic(
        self, entries: list[tuple[str, Payload, int, bool]]
    ) -> None:
        """Every log gives a state or a LogError, the same each time, and stays as it is; upcasting again is nothing."""
        with isolated_upcasters():
            upcaster("STEP_COMPLETED", from_version=1)(lambda payload: {**payload, "output": [payload.get("output")]})
            upcaster("STEP_COMPLETED", from_version=2)(same)
            upcaster("EXECUTION_SUSPENDED", from_version=2)(lambda payload: {"on": "X", **payload})
            upcaster("TOOL_REQUESTED", from_version=1)(to_v2)
            upcaster("Noted", from_version=1)(lambda payload: {"was": payload})
            log = generated(entries)
            before = [(event.event_version, bytes(event.raw)) for event in log.events]
            first = outcome(log)
            assert outcome(generated(entries)) == first
            assert [(event.event_version, bytes(event.raw)) for event in log.events] == before
            if isinstance(first, bytes):
                raised = upcast_events(log.events)
                assert [event.event_version for event in raised if event.event_type in PINNED_EVENT_TYPES] == [
                    current_version(event.event_type) for event in raised if event.event_type in PINNED_EVENT_TYPES
                ]
                assert upcast_events(raised) == raised
                assert outcome(Log(raised)) == first


class TestWhatIsWritten:
    def test_new_events_are_of_todays_version(self) -> None:
        """A run that is resumed writes today's shape, and says so: its own upcaster does not touch it again."""

        @step
        def assess(case: str) -> str:
            return f"{case} ok"

        @flow(id="f", steps=[assess], gates={"Go": bool})
        async def f(ctx: Context, case: str) -> str:
            await ctx.suspend("Go")
            return await ctx.run(assess, case)

        waiting = record(f, "a")
        with isolated_upcasters():
            upcaster("STEP_COMPLETED", from_version=1)(lambda payload: {**payload, "output": payload["output"] + "!"})
            done = resume(waiting, f, event="Go", payload=True)
            assert [event.event_version for event in done if event.event_type == "STEP_COMPLETED"] == [2]
            assert done.state.frames["assess"].output == "a ok"
            assert replay(done, f).state.variables["_output"] == "a ok"

    def test_the_input_is_upcast_for_replay_too(self) -> None:
        """The flow is run with what the fold says that its input was."""

        @flow(id="f")
        async def f(ctx: Context, case: dict[str, str]) -> str:
            return case["name"]

        log = record(f, {"name": "ada"})
        with isolated_upcasters():

            @upcaster("EXECUTION_STARTED", from_version=1)
            def renamed(payload: dict[str, Any]) -> dict[str, Any]:
                return {**payload, "input": {"name": payload["input"]["name"].upper()}}

            candidate = replay(log, f)
            assert candidate.state.variables["_output"] == "ADA"
