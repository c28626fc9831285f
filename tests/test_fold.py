"""The fold: what every kind of event does to a run's state (DESIGN sections 3 and 4)."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import (
    PINNED_EVENT_TYPES,
    ExecutionState,
    Log,
    LogBuilder,
    LogError,
    UnknownSchemaVersion,
    recorded_step_outputs,
    replay_as_fixture,
)
from pytest_loom.fold import MANY, MAX_WAITS, occurrence_keys

Entry = tuple[Any, ...]
"""``(kind, payload)`` or ``(kind, payload, branch)`` or ``(kind, payload, branch, namespace)``."""

STARTED = ("EXECUTION_STARTED", {"input": {"order": 7}})
BAD = {"type": "ValueError", "message": "no"}


def log_of(*entries: Entry) -> Log:
    """A log with those events, each on a line of its own of ``a.loom.jsonl``."""
    builder = LogBuilder("run-1", "refund", path="a.loom.jsonl")
    for number, (kind, payload, *place) in enumerate(entries, 1):
        branch, namespace = (*place, None, None)[:2]
        builder.add(kind, payload, timestamp=1000 + number, line=number, branch=branch, namespace=namespace)
    return builder.log()


def fold(*entries: Entry) -> ExecutionState:
    """The state after those events."""
    return replay_as_fixture(log_of(*entries))


def start(step: str, branch: str | None = None, **more: Any) -> Entry:
    """A step starts."""
    return ("STEP_STARTED", {"stepId": step, **more}, branch)


def done(step: str, output: Any = None, branch: str | None = None, **more: Any) -> Entry:
    """A step completes."""
    return ("STEP_COMPLETED", {"stepId": step, "output": output, **more}, branch)


def failed(step: str, branch: str | None = None, *, again: bool = False, **more: Any) -> Entry:
    """A step fails, for good or to be tried again."""
    return ("STEP_FAILED", {"stepId": step, "error": BAD, "willRetry": again, **more}, branch)


def wait(on: Any, kind: str = "event", **more: Any) -> Entry:
    """The run waits."""
    return ("EXECUTION_SUSPENDED", {"on": on, "kind": kind, **more})


def resume(event: str | None, payload: Any = None, **more: Any) -> Entry:
    """The run goes on."""
    return ("EXECUTION_RESUMED", {"eventType": event, "payload": payload, **more})


def outputs(state: ExecutionState) -> dict[str, Any]:
    """Each step's output by key, in the order of the frames."""
    return {key: frame.output for key, frame in state.frames.items()}


class TestStatus:
    @pytest.mark.parametrize(
        ("entries", "status", "in_flight"),
        [
            ([], "running", True),
            ([start("a")], "running", True),
            ([wait("X")], "suspended", True),
            ([wait("X"), resume("X")], "running", True),
            ([wait("X"), wait("Y"), resume("X")], "suspended", True),
            ([("EXECUTION_COMPLETED", {"output": 1})], "completed", False),
            ([("EXECUTION_FAILED", {"error": BAD})], "failed", False),
            ([("EXECUTION_CANCELLED", {"reason": "terminated"})], "cancelled", False),
            ([("EXECUTION_CONTINUED", {"newExecutionId": "run-2"})], "continued", False),
            ([wait("X"), ("EXECUTION_CANCELLED", {})], "cancelled", False),
            ([failed("a")], "running", True),
            ([("ApprovalGranted", {})], "running", True),
        ],
    )
    def test_it_is_what_the_last_events_say(self, entries: list[Entry], status: str, in_flight: bool) -> None:
        """Only the ending events end a run; a failed step or an application event does not."""
        state = fold(STARTED, *entries)
        assert (state.status, state.in_flight) == (status, in_flight)

    def test_identity_and_sequence_come_from_the_envelopes(self) -> None:
        """ADR 0008: the first envelope seeds the identity; payloads have none."""
        state = fold(("Noted", {"executionId": "other", "workflowId": "other"}), STARTED)
        assert (state.execution_id, state.workflow_id) == ("run-1", "refund")
        assert (state.sequence, state.events, state.duration_ms) == (2, 2, 1)

    def test_a_run_that_is_over_waits_for_nothing(self) -> None:
        """Open waits die with the run."""
        state = fold(STARTED, wait("X"), ("EXECUTION_FAILED", {"error": BAD}))
        assert (state.suspensions, state.suspension) == ([], None)


class TestVariables:
    @pytest.mark.parametrize(
        ("entry", "variable", "value"),
        [
            (("EXECUTION_COMPLETED", {"output": {"a": [1, None]}}), "_output", {"a": [1, None]}),
            (("EXECUTION_COMPLETED", {"output": None}), "_output", None),
            (("EXECUTION_FAILED", {"error": BAD}), "_error", BAD),
            (
                ("EXECUTION_FAILED", {"error": {"type": "TimeoutError", "message": ""}}),
                "_error",
                {"type": "TimeoutError", "message": ""},
            ),
            (("EXECUTION_CANCELLED", {"reason": "by hand"}), "_reason", "by hand"),
            (("EXECUTION_CONTINUED", {"newExecutionId": "run-2", "input": 5}), "_continued_as", "run-2"),
            (("EXECUTION_CONTINUED", {"newExecutionId": "run-2", "input": 5}), "_continued_input", 5),
            (
                ("EXECUTION_FORKED", {"parentExecutionId": "run-0", "atSequence": 4, "confirmedBy": "mia"}),
                "_forked",
                {"parentExecutionId": "run-0", "atSequence": 4, "confirmedBy": "mia"},
            ),
        ],
    )
    def test_endings_and_forks_leave_their_facts(self, entry: Entry, variable: str, value: Any) -> None:
        """Beside the input, which stays."""
        state = fold(STARTED, entry)
        assert state.variables[variable] == value
        assert state.variables["_input"] == {"order": 7}

    def test_what_the_log_does_not_have_is_not_there(self) -> None:
        """An absent output is something else than a null one."""
        assert fold(("EXECUTION_STARTED", {}), ("EXECUTION_COMPLETED", {})).variables == {}

    def test_a_fork_is_a_run_that_goes_on(self) -> None:
        """Its history is the parent's up to the fork."""
        state = fold(STARTED, wait("X"), ("EXECUTION_FORKED", {"parentExecutionId": "run-0", "atSequence": 2}))
        assert (state.status, [w.on for w in state.suspensions]) == ("suspended", ["X"])

    def test_the_manifest_is_the_starting_events(self) -> None:
        """DESIGN section 5: which versions ran."""
        manifest = {"flowVersion": "1.2.0", "stateSchemaVersion": 3, "toolSchemaVersions": {"pay": 2}}
        assert fold(("EXECUTION_STARTED", {"input": 1, "manifest": manifest})).manifest == manifest
        assert fold(STARTED).manifest == {}
        assert fold(("EXECUTION_STARTED", {"manifest": None})).manifest == {}


class TestMigration:
    """ADR 0056: the outcome of a state migration is durable, and every resume path reads the folded input."""

    def test_a_migrated_input_replaces_the_recorded_one(self) -> None:
        """And its audit entry says so, without repeating it."""
        facts = {"strategy": "replay-check", "fromVersion": "1", "toVersion": "2", "fromHash": "a", "toHash": "b"}
        state = fold(STARTED, ("EXECUTION_MIGRATED", {**facts, "migratedInput": {"order": "7"}}))
        assert state.variables["_input"] == {"order": "7"}
        assert state.variables["_migrations"] == [{**facts, "stateMigrated": True}]

    def test_a_migration_of_code_alone_keeps_the_input(self) -> None:
        """Absent is not null: nothing is replaced and nothing stamped."""
        state = fold(STARTED, ("EXECUTION_MIGRATED", {"strategy": "pinned"}))
        assert state.variables["_input"] == {"order": 7}
        assert state.variables["_migrations"] == [{"strategy": "pinned"}]

    @pytest.mark.parametrize("value", [None, False, 0, "", []])
    def test_an_empty_migrated_input_is_one(self, value: Any) -> None:
        """Whatever the transform gave is what the flow gets."""
        state = fold(STARTED, ("EXECUTION_MIGRATED", {"strategy": "pinned", "migratedInput": value}))
        assert state.variables["_input"] == value
        assert state.variables["_migrations"][0]["stateMigrated"] is True

    def test_later_migrations_replace_earlier_ones(self) -> None:
        """Each is applied to what the one before left; the audit keeps all."""
        migrated = [("EXECUTION_MIGRATED", {"strategy": "pinned", "migratedInput": n}) for n in (1, 2)]
        state = fold(STARTED, *migrated, wait("X"), resume("X"))
        assert state.variables["_input"] == 2
        assert len(state.variables["_migrations"]) == 2
        assert state.status == "running"

    def test_the_stamp_is_the_folds_word(self) -> None:
        """A log cannot claim a migration of state that it does not hold."""
        state = fold(STARTED, ("EXECUTION_MIGRATED", {"strategy": "pinned", "stateMigrated": True}))
        assert state.variables["_migrations"] == [{"strategy": "pinned"}]


class TestSteps:
    def test_a_step_has_input_output_and_attempts(self) -> None:
        """A completed step of one try."""
        state = fold(STARTED, start("a", input={"x": 1}), done("a", [1, 2]))
        frame = state.frames["a"]
        assert (frame.key, frame.step_id, frame.status, frame.attempts) == ("a", "a", "completed", 1)
        assert (frame.input, frame.output, frame.error, frame.will_retry, frame.chunks) == (
            {"x": 1},
            [1, 2],
            None,
            False,
            [],
        )

    def test_a_step_may_be_running_or_failed(self) -> None:
        """A failure keeps its error; what is not recorded is None."""
        state = fold(STARTED, start("a"), start("b"), failed("b"))
        assert (state.frames["a"].status, state.frames["a"].output, state.frames["a"].input) == ("running", None, None)
        assert (state.frames["b"].status, state.frames["b"].error, state.frames["b"].output) == ("failed", BAD, None)

    def test_the_pieces_of_a_stream_are_kept_in_order(self) -> None:
        """STEP_PROGRESS belongs to the step that runs."""
        pieces = [("STEP_PROGRESS", {"stepId": "a", "chunk": piece}) for piece in ("x", {"y": 1}, None)]
        state = fold(
            STARTED, start("a"), *pieces, done("a", 1), start("a"), ("STEP_PROGRESS", {"stepId": "a", "chunk": 2})
        )
        assert state.frames["a"].chunks == ["x", {"y": 1}, None]
        assert state.frames["a#2"].chunks == [2]

    def test_an_end_without_a_start_is_a_step_all_the_same(self) -> None:
        """Some engines record results only; what such an event carries counts."""
        state = fold(STARTED, done("a", 1, input=5), done("a", 2), failed("b", attempt=3))
        assert outputs(state) == {"a": 1, "a#2": 2, "b": None}
        assert [frame.attempts for frame in state.frames.values()] == [1, 1, 3]
        assert state.frames["a"].input == 5

    def test_branch_namespace_and_call_id_are_kept(self) -> None:
        """Where in the flow the step ran."""
        state = fold(STARTED, ("STEP_STARTED", {"stepId": "a", "callId": 7}, "0/1", "sub"))
        frame = state.frames["a"]
        assert (frame.branch, frame.namespace, frame.call_id) == ("0/1", "sub", 7)

    def test_recorded_outputs_are_those_of_completed_steps(self) -> None:
        """ADR 0008's recordedStepOutputs, by key."""
        log = log_of(
            STARTED, start("a"), done("a", 1), start("a"), done("a", None), start("b"), failed("b"), start("c")
        )
        assert recorded_step_outputs(log) == {"a": 1, "a#2": None}


class TestStepKeys:
    def test_a_loop_counts_its_rounds(self) -> None:
        """The first is the id itself, then #2, #3."""
        rounds: list[Entry] = []
        for n in range(1, 4):
            rounds += [start("poll"), done("poll", n)]
        assert outputs(fold(STARTED, *rounds)) == {"poll": 1, "poll#2": 2, "poll#3": 3}

    def test_a_step_after_one_that_failed_for_good_is_the_next(self) -> None:
        """Only willRetry makes the next start the same occurrence."""
        state = fold(STARTED, start("a"), failed("a"), start("a"), done("a", 1))
        assert [(f.key, f.status, f.attempts) for f in state.frames.values()] == [
            ("a", "failed", 1),
            ("a#2", "completed", 1),
        ]

    def test_a_retry_is_the_same_occurrence(self) -> None:
        """A STEP_STARTED after STEP_FAILED with willRetry (DESIGN, settled points)."""
        tries = [
            start("a", input=1),
            failed("a", again=True),
            start("a"),
            failed("a", again=True),
            start("a"),
            done("a", 5),
        ]
        state = fold(STARTED, *tries, start("a"), done("a", 6))
        assert outputs(state) == {"a": 5, "a#2": 6}
        assert [f.attempts for f in state.frames.values()] == [3, 1]
        assert (state.frames["a"].error, state.frames["a"].input, state.frames["a"].will_retry) == (None, 1, False)

    def test_a_step_that_waits_for_its_retry_says_so(self) -> None:
        """Its last error stands, also while the next try runs."""
        state = fold(STARTED, start("a"), failed("a", again=True))
        assert (state.frames["a"].status, state.frames["a"].will_retry, state.frames["a"].error) == (
            "failed",
            True,
            BAD,
        )
        state = fold(STARTED, start("a"), failed("a", again=True), start("a"))
        assert (state.frames["a"].status, state.frames["a"].will_retry, state.frames["a"].error) == (
            "running",
            False,
            BAD,
        )

    @pytest.mark.parametrize(
        ("tries", "attempts"),
        [
            ([start("a"), failed("a", again=True), failed("a", again=True), done("a", 1)], 3),
            ([start("a"), failed("a", again=True), done("a", 1)], 2),
            ([start("a", attempt=1), start("a", attempt=2), done("a", 1)], 2),
            ([start("a", attempt=4), done("a", 1)], 4),
            ([start("a"), done("a", 1, attempt=3)], 3),
            (
                [
                    start("a", attempt=1),
                    failed("a", again=True, attempt=1),
                    start("a", attempt=2),
                    done("a", 1, attempt=2),
                ],
                2,
            ),
        ],
    )
    def test_tries_are_counted_also_where_events_are_missing(self, tries: list[Entry], attempts: int) -> None:
        """By the attempt that an event names, else by its starts and failures; it stays one occurrence."""
        state = fold(STARTED, *tries)
        assert [(f.key, f.attempts) for f in state.frames.values()] == [("a", attempts)]

    def test_a_step_that_a_crash_interrupted_is_started_again(self) -> None:
        """After a resume the start of a step that was running is another try of it."""
        state = fold(STARTED, start("a"), resume(None), start("a"), done("a", 1), start("a"), done("a", 2))
        assert outputs(state) == {"a": 1, "a#2": 2}
        assert state.frames["a"].attempts == 2

    def test_a_step_that_outlived_a_resume_just_ends(self) -> None:
        """Another branch may have waited meanwhile; nothing was started again."""
        state = fold(STARTED, start("a", "0"), wait("X"), resume("X"), done("a", 1, "0"))
        assert outputs(state) == {"a": 1}
        assert state.frames["a"].attempts == 1

    def test_two_crashes_are_three_tries(self) -> None:
        """Each resume interrupts what ran."""
        state = fold(STARTED, start("a"), resume(None), start("a"), resume(None), start("a"), done("a", 1))
        assert [(f.key, f.attempts) for f in state.frames.values()] == [("a", 3)]

    def test_identical_steps_at_once_end_in_the_order_of_their_starts(self) -> None:
        """Without a callId nothing else tells them apart."""
        state = fold(
            STARTED, start("a", input=1), start("a", input=2), done("a", "x"), start("a", input=3), done("a", "y")
        )
        assert [(f.key, f.input, f.output, f.status) for f in state.frames.values()] == [
            ("a", 1, "x", "completed"),
            ("a#2", 2, "y", "completed"),
            ("a#3", 3, None, "running"),
        ]

    def test_another_try_may_have_a_call_id_of_its_own(self) -> None:
        """After a failure that is to be retried the next start is the next try, unless it says it is a first one."""
        first = [start("a", callId="p"), failed("a", callId="p", again=True)]
        for again in (start("a", callId="q", attempt=2), start("a", callId="q")):
            state = fold(STARTED, *first, again, done("a", 1, callId="q"))
            assert [(f.key, f.attempts, f.output) for f in state.frames.values()] == [("a", 2, 1)]
        other = fold(STARTED, *first, start("a", callId="q", attempt=1), done("a", 1, callId="q"))
        assert [(f.key, f.attempts, f.status) for f in other.frames.values()] == [
            ("a", 1, "failed"),
            ("a#2", 1, "completed"),
        ]

    @pytest.mark.parametrize("field", ["callId", "branch", "namespace"])
    @pytest.mark.parametrize("ends", [False, True])
    def test_an_optional_field_on_one_side_only(self, field: str, ends: bool) -> None:
        """The end of the only step that it can mean is that step's end; two that it may mean are not mixed up."""

        def event(kind: str, said: bool, **more: Any) -> tuple[Any, ...]:
            envelope = {field: "x"} if said and field != "callId" else {}
            return (kind, {"stepId": "a", **more, **({"callId": "x"} if said and field == "callId" else {})}, envelope)

        builder = LogBuilder("run-1", "refund")
        for kind, payload, envelope in (
            ("EXECUTION_STARTED", {}, {}),
            event("STEP_STARTED", not ends, input=1),
            event("STEP_COMPLETED", ends, output=2),
        ):
            builder.add(kind, payload, timestamp=1, **envelope)
        frames = replay_as_fixture(builder.log()).frames
        assert [(f.key, f.input, f.output, f.status) for f in frames.values()] == [("a", 1, 2, "completed")]

    @pytest.mark.parametrize(("open_at_once", "found"), [(MANY, True), (MANY + 1, False)])
    def test_how_many_steps_an_end_is_looked_up_among(self, open_at_once: int, found: bool) -> None:
        """A log may not make each of its events look through all that is open, so there is a bound."""
        others = [start(f"s{number}", callId=str(number)) for number in range(open_at_once - 1)]
        state = fold(STARTED, *others, start("a", callId="x"), done("a", 1))
        assert (state.frames["a"].status == "completed") is found
        assert len(state.frames) == open_at_once + (not found)

    def test_the_same_work_started_again_after_a_crash(self) -> None:
        """An equal idempotency key says that it is the same work, though no resume stands between."""
        again = start("a", idempotencyKey="k")
        state = fold(STARTED, again, again, done("a", 1))
        assert [(f.key, f.attempts, f.status) for f in state.frames.values()] == [("a", 2, "completed")]

    def test_identical_steps_at_once_are_told_apart_by_call_id(self) -> None:
        """In whatever order they end; the key counts their starts."""
        state = fold(
            STARTED,
            start("a", callId="p"),
            start("a", callId="q"),
            ("STEP_PROGRESS", {"stepId": "a", "callId": "q", "chunk": 1}),
            done("a", "of q", callId="q"),
            failed("a", callId="p", again=True),
            start("a", callId="r", attempt=1),
            start("a", callId="p"),
            done("a", "of p", callId="p"),
        )
        assert outputs(state) == {"a": "of p", "a#2": "of q", "a#3": None}
        assert [f.attempts for f in state.frames.values()] == [2, 1, 1]
        assert state.frames["a#2"].chunks == [1]

    def test_one_call_id_at_different_steps_is_not_one_call(self) -> None:
        """Ids are only unique within a step for some engines."""
        state = fold(
            STARTED, start("a", callId=1), start("b", callId=1), done("b", "b", callId=1), done("a", "a", callId=1)
        )
        assert outputs(state) == {"a": "a", "b": "b"}

    def test_a_retry_beside_an_identical_step_goes_to_the_one_that_failed(self) -> None:
        """The one that runs ends first, the one that waits for its retry is started again."""
        state = fold(
            STARTED,
            start("a", input=1),
            start("a", input=2),
            failed("a", again=True),  # the first
            done("a", "second"),
            start("a"),
            done("a", "first"),
        )
        assert outputs(state) == {"a": "first", "a#2": "second"}
        assert [f.attempts for f in state.frames.values()] == [2, 1]

    def test_identical_steps_that_a_crash_interrupted_are_each_started_again(self) -> None:
        """Once each, in their order; one more start is one more occurrence."""
        state = fold(
            STARTED,
            *(start("a", input=n) for n in (1, 2)),
            resume(None),
            *(start("a", input=n) for n in (1, 2, 3)),
            *(done("a", n) for n in (1, 2, 3)),
        )
        assert outputs(state) == {"a": 1, "a#2": 2, "a#3": 3}
        assert [f.attempts for f in state.frames.values()] == [2, 2, 1]

    def test_occurrences_are_counted_by_branch_path_then_by_order(self) -> None:
        """So keys do not move when branches run in another order; 2 comes before 10, a parent before its children."""
        branches = ["10", "2", None, "2/1", "2/0", "0"]
        events: list[Entry] = [STARTED]
        for branch in branches:
            events += [start("a", branch), done("a", branch or "root", branch)]
        assert dict(sorted(outputs(fold(*events)).items())) == {
            "a": "root",
            "a#2": "0",
            "a#3": "2",
            "a#4": "2/0",
            "a#5": "2/1",
            "a#6": "10",
        }

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(seed=st.integers(0, 2**32), loops=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def test_keys_do_not_depend_on_how_branches_interleave(self, seed: int, loops: list[int]) -> None:
        """Effects are keyed by branch, step and occurrence, never by the order in which they happened to finish."""
        scripts: list[list[Entry]] = []
        for branch, rounds in enumerate(loops):
            script: list[Entry] = []
            for n in range(rounds):
                script += [start("a", str(branch)), failed("a", str(branch), again=True), start("a", str(branch))]
                script += [done("a", f"{branch}.{n}", str(branch))]
                script += [("DECISION_RECORDED", {"key": "k", "value": f"{branch}.{n}"}, str(branch))]
            scripts.append(script)
        one_by_one = fold(STARTED, *(event for script in scripts for event in script))
        chosen = random.Random(seed)
        rest = [list(script) for script in scripts]
        mixed: list[Entry] = []
        while any(rest):
            mixed.append(chosen.choice([script for script in rest if script]).pop(0))
        state = fold(STARTED, *mixed)
        assert outputs(state) == outputs(one_by_one)
        assert state.decisions == one_by_one.decisions

    def test_one_step_may_run_in_several_branches_and_namespaces_at_once(self) -> None:
        """Each end finds the start of its own place."""
        places = [("0", None), ("1", None), (None, None), (None, "sub"), ("0", "sub")]
        starts = [("STEP_STARTED", {"stepId": "a", "input": str(place)}, *place) for place in places]
        ends = [("STEP_COMPLETED", {"stepId": "a", "output": str(place)}, *place) for place in reversed(places)]
        state = fold(STARTED, *starts, *ends)
        assert len(state.frames) == 5
        assert all(frame.input == frame.output for frame in state.frames.values())

    @pytest.mark.parametrize(
        ("names", "keys"),
        [
            (["a", "a", "a#2"], {"a", "a#2", "a#2#2"}),
            (["a#2", "a", "a"], {"a#2", "a", "a#3"}),
            (["a#2", "a#3", "a", "a", "a"], {"a#2", "a#3", "a", "a#4", "a#5"}),
        ],
    )
    def test_a_step_that_is_really_called_a_2_loses_nobodys_place(self, names: list[str], keys: set[str]) -> None:
        """No two occurrences share a key, so that none is overwritten."""
        events = [event for number, name in enumerate(names) for event in (start(name), done(name, number))]
        state = fold(STARTED, *events)
        assert set(state.frames) == keys
        assert sorted(outputs(state).values()) == list(range(len(names)))

    def test_many_identical_steps_at_once_keep_their_order(self) -> None:
        """A fan-out of thousands is folded like one of two."""
        count = 4000
        state = fold(STARTED, *(start("a", input=n) for n in range(count)), *(done("a", n) for n in range(count)))
        assert len(state.frames) == count
        assert all(frame.input == frame.output for frame in state.frames.values())
        assert state.frames[f"a#{count}"].input == count - 1

    def test_occurrence_keys_are_given_in_the_order_asked_for(self) -> None:
        """Whoever numbers other things (calls, waits) by the same rule."""
        pairs: Iterable[tuple[str, str | None]] = [("a", "1"), ("b", None), ("a", "0"), ("a", "x"), ("a", "0")]
        assert occurrence_keys(pairs) == ["a#3", "b", "a", "a#4", "a#2"]


class TestCalls:
    def test_a_tool_call_has_its_request_and_its_answer(self) -> None:
        """Joined by callId, in the order of the requests."""
        state = fold(
            STARTED,
            (
                "TOOL_REQUESTED",
                {"callId": "c1", "name": "pay", "args": {"cents": 5}, "approval": True, "toolSchemaVersion": 2},
                "0",
            ),
            ("TOOL_REQUESTED", {"callId": "c2", "name": "mail", "args": {}}),
            ("TOOL_FAILED", {"callId": "c2", "error": BAD}),
            ("TOOL_COMPLETED", {"callId": "c1", "output": "ok"}, "0"),
            ("TOOL_REQUESTED", {"callId": 3, "name": "look"}),
        )
        pay, mail, look = state.calls
        assert (pay.kind, pay.name, pay.status, pay.args, pay.output, pay.error) == (
            "tool",
            "pay",
            "completed",
            {"cents": 5},
            "ok",
            None,
        )
        assert (pay.approval, pay.tool_schema_version, pay.branch) == (True, 2, "0")
        assert (mail.name, mail.status, mail.error, mail.output) == ("mail", "failed", BAD, None)
        assert (look.call_id, look.status, look.args) == (3, "requested", None)

    def test_a_model_call_has_request_response_and_usage(self) -> None:
        """A tool call and a model call may share a callId."""
        state = fold(
            STARTED,
            ("MODEL_REQUESTED", {"callId": "c1", "model": "m-1", "request": {"messages": []}}),
            ("TOOL_REQUESTED", {"callId": "c1", "name": "pay"}),
            ("MODEL_COMPLETED", {"callId": "c1", "response": "hi", "usage": {"input_tokens": 3}}),
            ("MODEL_REQUESTED", {"callId": "c2", "model": "m-1"}),
            ("MODEL_FAILED", {"callId": "c2", "error": BAD}),
        )
        first, tool, second = state.calls
        assert (first.kind, first.name, first.status) == ("model", "m-1", "completed")
        assert (first.args, first.output, first.usage) == ({"messages": []}, "hi", {"input_tokens": 3})
        assert (tool.status, second.status, second.error, second.usage) == ("requested", "failed", BAD, None)

    def test_an_answer_after_a_failure_counts(self) -> None:
        """The same call may be tried again."""
        asked = ("TOOL_REQUESTED", {"callId": "c1", "name": "pay", "args": 1})
        state = fold(
            STARTED,
            asked,
            ("TOOL_FAILED", {"callId": "c1", "error": BAD}),
            ("TOOL_COMPLETED", {"callId": "c1", "output": 2}),
        )
        (call,) = state.calls
        assert (call.status, call.args, call.output, call.error) == ("completed", 1, 2, None)

    def test_an_answer_without_a_request_is_a_call_all_the_same(self) -> None:
        """Some engines record results only."""
        (call,) = fold(STARTED, ("TOOL_COMPLETED", {"callId": "c1", "name": "pay", "output": 2})).calls
        assert (call.name, call.status, call.args, call.output) == ("pay", "completed", None, 2)


class TestSuspensions:
    def test_a_wait_has_what_was_recorded_of_it(self) -> None:
        """Event, kind, key, time limit, and what is pending."""
        pending = [{"callId": "c1", "name": "pay"}]
        state = fold(
            STARTED,
            ("EXECUTION_SUSPENDED", wait("X", "approval", correlationKey=17, timeoutMs=500, pending=pending)[1], "0"),
        )
        (found,) = state.suspensions
        assert state.suspension is found
        assert (found.on, found.events, found.kind, found.correlation_key) == ("X", ["X"], "approval", "17")
        assert (found.timeout_ms, found.pending, found.sequence, found.branch) == (500, pending, 2, "0")

    @pytest.mark.parametrize("kind", ["approval", "question", "timer", "event", "breakpoint", "crash"])
    def test_the_kinds_are_those_of_the_design(self, kind: str) -> None:
        """Each is kept as it is."""
        suspension = fold(STARTED, wait("X", kind)).suspension
        assert suspension is not None
        assert suspension.kind == kind

    def test_waits_that_are_open_at_once_end_each_by_its_own_event(self) -> None:
        """In any order; the first that is still open comes first."""
        events = [STARTED, wait("A"), wait("B"), wait("C")]
        assert [w.on for w in fold(*events).suspensions] == ["A", "B", "C"]
        assert [w.on for w in fold(*events, resume("B")).suspensions] == ["A", "C"]
        assert [w.on for w in fold(*events, resume("B"), resume("A")).suspensions] == ["C"]
        assert fold(*events, resume("C"), resume("B"), resume("A")).suspensions == []

    def test_any_number_of_waits_in_a_row_is_resumed_in_turn(self) -> None:
        """ADR 0056's last consequence: Loom itself replays only the first."""
        events: list[Entry] = [STARTED]
        for n in range(5):
            events.append(wait("X", correlationKey=str(n)))
            state = fold(*events)
            assert [w.correlation_key for w in state.suspensions] == [str(n)]
            events += [("X", {"n": n}), resume("X", {"n": n})]
            assert fold(*events).status == "running"
        assert [event.payload for event in fold(*events).received] == [{"n": n} for n in range(5)]

    def test_one_event_for_several_waits_goes_by_its_correlation_key(self) -> None:
        """Whether the resume itself or the event's payload has it; without one the oldest is meant."""
        events = [STARTED, wait("X", correlationKey="a"), wait("X", correlationKey="b"), wait("X", correlationKey="7")]

        def left(*more: Entry) -> list[str | None]:
            return [w.correlation_key for w in fold(*events, *more).suspensions]

        assert left(resume("X", correlationKey="b")) == ["a", "7"]
        assert left(resume("X", {"correlationKey": "b"})) == ["a", "7"]
        assert left(resume("X", {"correlationKey": 7})) == ["a", "b"]
        assert left(resume("X", {})) == ["b", "7"]

    def test_a_wait_for_one_of_several_events_ends_by_any(self) -> None:
        """An approval is granted or denied."""
        events = [STARTED, wait(["Granted", "Denied"], "approval"), wait("Other")]
        suspension = fold(*events).suspension
        assert suspension is not None
        assert suspension.events == ["Granted", "Denied"]
        assert [w.on for w in fold(*events, resume("Denied")).suspensions] == ["Other"]

    @pytest.mark.parametrize(
        ("payload", "left"),
        [
            ({"on": "B"}, ["A", "C"]),
            ({"correlationKey": "c"}, ["A", "B"]),
            ({}, ["A", "C"]),
            (None, ["A", "C"]),
        ],
        ids=["named", "by key", "the one with a limit", "no payload"],
    )
    def test_a_timeout_ends_the_wait_that_it_is_about(self, payload: Any, left: list[str]) -> None:
        """A timeout is the event TIMEOUT (settled points); it never ends a wait without a limit while one has it."""
        events = [STARTED, wait("A"), wait("B", timeoutMs=5), wait("C", correlationKey="c", timeoutMs=9)]
        state = fold(*events, ("TIMEOUT", {}), resume("TIMEOUT", payload))
        assert [w.on for w in state.suspensions] == left
        assert [event.event_type for event in state.received] == ["TIMEOUT"]

    def test_a_resume_without_an_event_ends_the_oldest_wait(self) -> None:
        """A restore after a crash: nothing arrived."""
        assert [w.on for w in fold(STARTED, wait("crash", "crash"), wait("B"), resume(None)).suspensions] == ["B"]

    def test_the_only_wait_ends_whatever_the_event_is_called(self) -> None:
        """The engine went on, so it does not wait any more."""
        assert fold(STARTED, wait("TimerFired", "timer"), resume("TimerCanceled")).status == "running"

    def test_of_several_waits_none_ends_by_an_event_of_none(self) -> None:
        """Which one it ended is not guessed."""
        assert len(fold(STARTED, wait("A"), wait("B"), resume("C")).suspensions) == 2

    def test_a_wait_that_is_recorded_again_is_one_wait(self) -> None:
        """A flow that is re-run up to its gate suspends at it anew."""
        state = fold(STARTED, wait("A", correlationKey="1"), wait("B"), resume("B"), wait("A", correlationKey="1"))
        assert [(w.on, w.sequence) for w in state.suspensions] == [("A", 5)]
        state = fold(STARTED, wait("A"), wait("B"), wait("A", timeoutMs=5))
        assert [(w.on, w.sequence, w.timeout_ms) for w in state.suspensions] == [("B", 3, None), ("A", 4, 5)]
        state = fold(STARTED, ("EXECUTION_SUSPENDED", {"on": "A", "kind": "event"}, "0"), wait("A"))
        assert len(state.suspensions) == 2

    def test_waits_without_end_are_refused(self) -> None:
        """A log is untrusted: work per event stays bounded."""
        events = [wait(f"E{n}") for n in range(MAX_WAITS + 1)]
        with pytest.raises(LogError, match=f"more than {MAX_WAITS} waits") as caught:
            fold(STARTED, *events)
        assert caught.value.line == MAX_WAITS + 2


class TestRecords:
    def test_the_last_snapshot_is_the_state(self) -> None:
        """With the version that migrations start from."""
        state = fold(
            STARTED,
            ("STATE_SNAPSHOT", {"stateSchemaVersion": 2, "state": {"n": 1}}),
            ("STATE_SNAPSHOT", {"stateSchemaVersion": 3, "state": {"n": 2}}),
            ("PLAN_RECORDED", {"planSchemaVersion": 1, "plan": ["a"]}),
        )
        assert (state.state, state.state_schema_version) == ({"n": 2}, 3)
        assert (state.plan, state.plan_schema_version) == (["a"], 1)

    def test_decisions_are_kept_by_key_and_occurrence(self) -> None:
        """Also clock, uuid and random; in concurrent branches counted by branch."""
        state = fold(
            STARTED,
            ("DECISION_RECORDED", {"key": "now", "value": 3}, "1"),
            ("DECISION_RECORDED", {"key": "now", "value": 1}),
            ("DECISION_RECORDED", {"key": "now", "value": 2}, "0"),
            ("DECISION_RECORDED", {"key": "route", "value": None}),
        )
        assert state.decisions == {"now": 1, "now#2": 2, "now#3": 3, "route": None}

    def test_application_events_are_received_in_order(self) -> None:
        """Whatever is not the kernel's, whole."""
        state = fold(STARTED, ("Approved", {"by": "mia"}), ("note_taken", {}), ("Approved", {"by": "jon"}))
        assert [(e.event_type, e.payload) for e in state.received] == [
            ("Approved", {"by": "mia"}),
            ("note_taken", {}),
            ("Approved", {"by": "jon"}),
        ]


class TestUnknownKinds:
    @staticmethod
    def strange(*, ignorable: bool) -> Log:
        """A log with a kernel kind of a future MINOR."""
        log = log_of(STARTED, ("Noted", {"stepId": "a"}), ("EXECUTION_COMPLETED", {"output": 1}))
        events = list(log.events)
        events[1] = msgspec.structs.replace(events[1], event_type="STEP_DREAMT", ignorable=ignorable)
        return Log(events, path=log.path)

    def test_a_kernel_kind_that_is_not_known_fails_closed(self) -> None:
        """What it does to a run cannot be guessed (DESIGN section 4)."""
        with pytest.raises(UnknownSchemaVersion, match="STEP_DREAMT is not known") as caught:
            replay_as_fixture(self.strange(ignorable=False))
        assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("a.loom.jsonl", 2, "run-1")

    def test_one_that_is_marked_ignorable_is_passed_over(self) -> None:
        """It is no application event either."""
        state = replay_as_fixture(self.strange(ignorable=True))
        assert (state.status, state.received, state.frames) == ("completed", [], {})


WRONG: list[tuple[str, Any]] = [
    ("EXECUTION_STARTED", {"manifest": []}),
    ("EXECUTION_STARTED", {"manifest": "1"}),
    ("STEP_STARTED", {}),
    ("STEP_STARTED", {"stepId": 5}),
    ("STEP_STARTED", {"stepId": None}),
    ("STEP_STARTED", {"stepId": "a", "attempt": "1"}),
    ("STEP_STARTED", {"stepId": "a", "attempt": 1.5}),
    ("STEP_STARTED", {"stepId": "a", "callId": []}),
    ("STEP_STARTED", {"stepId": "a", "callId": True}),
    ("STEP_COMPLETED", {"output": 1}),
    ("STEP_COMPLETED", {"stepId": {"a": 1}, "output": 1}),
    ("STEP_FAILED", {"error": BAD}),
    ("STEP_FAILED", {"stepId": "a", "error": "boom"}),
    ("STEP_FAILED", {"stepId": "a", "error": [BAD]}),
    ("STEP_FAILED", {"stepId": "a", "error": BAD, "willRetry": "yes"}),
    ("STEP_FAILED", {"stepId": "a", "error": BAD, "willRetry": 1}),
    ("STEP_PROGRESS", {"stepId": "a"}),
    ("STEP_PROGRESS", {"chunk": 1}),
    ("TOOL_REQUESTED", {"name": "pay"}),
    ("TOOL_REQUESTED", {"callId": "c1"}),
    ("TOOL_REQUESTED", {"callId": "c1", "name": None}),
    ("TOOL_REQUESTED", {"callId": {}, "name": "pay"}),
    ("TOOL_COMPLETED", {"output": 1}),
    ("TOOL_COMPLETED", {"callId": None, "output": 1}),
    ("TOOL_FAILED", {"error": BAD}),
    ("TOOL_FAILED", {"callId": "c1", "error": 5}),
    ("MODEL_REQUESTED", {"model": "m"}),
    ("MODEL_REQUESTED", {"callId": "c1"}),
    ("MODEL_REQUESTED", {"callId": "c1", "model": ["m"]}),
    ("MODEL_COMPLETED", {"response": 1}),
    ("MODEL_FAILED", {"callId": "c1", "error": "boom"}),
    ("STATE_SNAPSHOT", {"stateSchemaVersion": 1}),
    ("PLAN_RECORDED", {"planSchemaVersion": 1}),
    ("DECISION_RECORDED", {"value": 1}),
    ("DECISION_RECORDED", {"key": 5, "value": 1}),
    ("EXECUTION_SUSPENDED", {}),
    ("EXECUTION_SUSPENDED", {"on": "X", "kind": None}),
    ("EXECUTION_SUSPENDED", {"on": "X", "kind": "nap"}),
    ("EXECUTION_SUSPENDED", {"kind": "event"}),
    ("EXECUTION_SUSPENDED", {"on": None, "kind": "event"}),
    ("EXECUTION_SUSPENDED", {"on": ["X", 5], "kind": "event"}),
    ("EXECUTION_SUSPENDED", {"on": "X", "kind": "event", "timeoutMs": "5"}),
    ("EXECUTION_SUSPENDED", {"on": "X", "kind": "event", "correlationKey": {}}),
    ("EXECUTION_RESUMED", {"eventType": 5}),
    ("EXECUTION_RESUMED", {"eventType": "X", "correlationKey": []}),
    ("EXECUTION_MIGRATED", {"strategy": 5}),
    ("EXECUTION_FORKED", {"atSequence": 1}),
    ("EXECUTION_FORKED", {"parentExecutionId": "a"}),
    ("EXECUTION_FORKED", {"parentExecutionId": "a", "atSequence": "1"}),
    ("EXECUTION_CONTINUED", {"input": 1}),
    ("EXECUTION_CONTINUED", {"newExecutionId": None}),
    ("EXECUTION_FAILED", {"error": "boom"}),
    ("EXECUTION_FAILED", {"error": 0}),
]


class TestWaitsAtOnce:
    def test_a_resume_ends_the_wait_of_its_own_branch(self) -> None:
        """Two branches wait for the same event."""
        builder = LogBuilder("run-1", "refund")
        for kind, payload, branch in (
            ("EXECUTION_STARTED", {}, None),
            ("EXECUTION_SUSPENDED", {"on": "A", "kind": "approval"}, "0"),
            ("EXECUTION_SUSPENDED", {"on": "A", "kind": "approval"}, "1"),
            ("EXECUTION_RESUMED", {"eventType": "A"}, "1"),
        ):
            builder.add(kind, payload, timestamp=1, branch=branch)
        state = replay_as_fixture(builder.log())
        assert [wait.branch for wait in state.suspensions] == ["0"]
        assert [wait.branch for wait in state.waits] == ["0", "1"]

    def test_a_wait_recorded_again_is_one_wait_and_the_youngest(self) -> None:
        """Answered ones stay among all waits; the one that was re-recorded while open does not stand twice."""
        gate = ("EXECUTION_SUSPENDED", {"on": "A", "kind": "approval"})
        state = fold(STARTED, gate, ("EXECUTION_RESUMED", {"eventType": "A"}), gate, gate)
        assert [wait.sequence for wait in state.waits] == [2, 5]
        assert [wait.sequence for wait in state.suspensions] == [5]

    def test_two_calls_that_wait_for_the_same_event_are_two_waits(self) -> None:
        """One approval leaves the other call waiting."""
        waits = [("EXECUTION_SUSPENDED", {"on": "A", "kind": "approval", "pending": {"callId": c}}) for c in ("p", "q")]
        assert len(fold(STARTED, *waits).suspensions) == 2
        state = fold(STARTED, *waits, ("EXECUTION_RESUMED", {"eventType": "A"}))
        assert (state.status, len(state.suspensions)) == ("suspended", 1)

    def test_a_null_is_as_good_as_nothing(self) -> None:
        """Some writers write every optional field."""
        state = fold(STARTED, ("STEP_FAILED", {"stepId": "a", "error": None, "willRetry": None, "attempt": None}))
        assert state.frames["a"].will_retry is False


class TestWrongShapes:
    @pytest.mark.parametrize(
        ("kind", "payload"), WRONG, ids=[f"{kind} {json.dumps(payload)}" for kind, payload in WRONG]
    )
    def test_a_payload_that_has_not_its_kinds_shape_is_an_error_with_its_place(self, kind: str, payload: Any) -> None:
        """File, line and execution; nothing is folded from a guess."""
        with pytest.raises(LogError, match=f"event 2: the .*{kind}") as caught:
            fold(STARTED, (kind, payload))
        assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("a.loom.jsonl", 2, "run-1")
        assert not isinstance(caught.value, UnknownSchemaVersion)

    def test_what_a_log_may_leave_unsaid(self) -> None:
        """A wait of no kind waits for an event, a resume by no event ends the wait, a migration needs no strategy."""
        waiting = fold(STARTED, ("EXECUTION_SUSPENDED", {"on": "X"}))
        assert [(wait.on, wait.kind) for wait in waiting.suspensions] == [("X", "event")]
        state = fold(
            STARTED,
            ("EXECUTION_SUSPENDED", {"on": "X"}),
            ("EXECUTION_RESUMED", {"payload": {}}),
            ("EXECUTION_MIGRATED", {"migratedInput": 1}),
        )
        assert (state.status, state.variables["_input"]) == ("running", 1)
        assert state.variables["_migrations"] == [{"stateMigrated": True}]

    @pytest.mark.parametrize("kind", sorted(PINNED_EVENT_TYPES))
    @pytest.mark.parametrize("raw", [b"[]", b"null", b"5", b'"a"', b"{", b"", b"\xff", b"[" * 100_000])
    def test_no_payload_of_any_kind_crashes_the_fold(self, kind: str, raw: bytes) -> None:
        """What is no object, or no JSON, is a LogError for every kind."""
        events = list(log_of(STARTED, ("Noted", {})).events)
        events[1] = msgspec.structs.replace(events[1], event_type=kind, raw=msgspec.Raw(raw))
        with pytest.raises(LogError) as caught:
            replay_as_fixture(Log(events))
        assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("a.loom.jsonl", 2, "run-1")

    @pytest.mark.parametrize(
        ("kind", "field"),
        [
            ("EXECUTION_STARTED", "manifest"),
            ("TOOL_REQUESTED", "approval"),
            ("EXECUTION_SUSPENDED", "pending"),
            ("EXECUTION_RESUMED", "payload"),
            ("EXECUTION_MIGRATED", "migratedInput"),
            ("EXECUTION_FORKED", "confirmedBy"),
            ("STATE_SNAPSHOT", "state"),
            ("PLAN_RECORDED", "plan"),
            ("DECISION_RECORDED", "value"),
        ],
    )
    def test_values_that_the_fold_keeps_decoded_are_not_nested_too_deeply(self, kind: str, field: str) -> None:
        """Comparing and printing them later would break down instead."""
        needed = {
            "callId": 1,
            "name": "t",
            "on": "X",
            "kind": "event",
            "eventType": "X",
            "strategy": "pinned",
            "key": "k",
        }
        deep: Any = {}
        for _ in range(600):
            deep = {"a": deep}
        payload = {**needed, "parentExecutionId": "run-0", "atSequence": 1, field: deep}
        with pytest.raises(LogError, match="nested more than 500 deep") as caught:
            fold(STARTED, (kind, payload))
        assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("a.loom.jsonl", 2, "run-1")

    @pytest.mark.parametrize("kind", sorted(PINNED_EVENT_TYPES))
    def test_the_shapes_of_the_design_fold(self, kind: str) -> None:
        """Each kind with every field of its row in DESIGN section 3, and one that a newer MINOR may add."""
        payload = {
            "input": 1, "manifest": {}, "stepId": "a", "callId": "c1", "idempotencyKey": "i", "output": 1, "error": BAD,
            "attempt": 1, "willRetry": False, "chunk": 1, "name": "pay", "args": {}, "toolSchemaVersion": 1,
            "toolSchema": {}, "approval": True, "model": "m", "request": {}, "response": {}, "usage": {},
            "stateSchemaVersion": 1, "state": {}, "planSchemaVersion": 1, "plan": {}, "key": "k", "value": 1, "on": "X",
            "kind": "event", "correlationKey": "k", "timeoutMs": 5, "pending": {}, "eventType": "X", "payload": {},
            "strategy": "pinned", "fromVersion": "1", "toVersion": "2", "fromHash": "a", "toHash": "b",
            "migratedInput": 1, "parentExecutionId": "run-0", "atSequence": 1, "confirmedBy": "mia",
            "newExecutionId": "run-2", "reason": "why", "addedLater": {},
        }  # fmt: skip
        assert fold(STARTED, (kind, payload)).sequence == 2


FIELDS = sorted(
    {name for _, payload in WRONG for name in payload}
    | {"input", "args", "request", "response", "usage", "approval", "pending", "chunk", "reason", "idempotencyKey"}
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
LIKELY = st.sampled_from(["a", "X", "TIMEOUT", 1, BAD, {}, None, True, ["X", "Y"], "event", "approval", {"on": "X"}])
EVENTS = st.tuples(
    st.sampled_from([*sorted(PINNED_EVENT_TYPES), "Noted", "TIMEOUT"]),
    st.dictionaries(st.sampled_from(FIELDS), LIKELY | VALUES, max_size=8),
    st.sampled_from([None, "", "0", "1", "0/1", "x", "/", "0.1"]),
    st.sampled_from([None, "sub"]),
)


class TestAnyPayload:
    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    @given(entries=st.lists(EVENTS, min_size=1, max_size=12))
    def test_any_events_fold_or_are_log_errors(self, entries: list[Entry]) -> None:
        """Nothing else comes out of a log, and a state that does come out can be asked for everything."""
        log = log_of(*entries)
        try:
            state = replay_as_fixture(log)
        except LogError as error:
            place = (error.path, error.execution_id, error.line > 0)
            assert place == ("a.loom.jsonl", "run-1", True)
            return
        assert state == replay_as_fixture(log)
        starts = sum(kind.startswith("STEP_") for kind, *_ in entries)
        assert len(state.frames) <= starts
        assert [frame.key for frame in state.frames.values()] == list(state.frames)
        assert (state.status == "suspended") <= bool(state.suspensions)
        assert state.in_flight or not state.suspensions


class TestLateDecoding:
    """Values stay bytes until somebody asks; what is wrong with them is found then, with its own place."""

    @staticmethod
    def damaged(state_of: list[Entry], line: int, field: str) -> ExecutionState:
        """The state of those events, where one field of one line is a number that nobody can hold."""
        events = list(log_of(*state_of).events)
        payload = events[line - 1].payload
        text = json.dumps(payload | {field: "BAD"}).replace('"BAD"', "1e999")
        events[line - 1] = msgspec.structs.replace(events[line - 1], raw=msgspec.Raw(text.encode()))
        return replay_as_fixture(Log(events))

    STEP = (
        STARTED,
        start("a", input=1),
        ("STEP_PROGRESS", {"stepId": "a", "chunk": 1}),
        failed("a", again=True),
        start("a"),
        done("a", 1),
    )
    CALL: tuple[Entry, ...] = (
        STARTED,
        ("TOOL_REQUESTED", {"callId": 1, "name": "t", "args": 1}),
        ("TOOL_COMPLETED", {"callId": 1, "output": 1, "usage": 1}),
        ("Noted", {}),
    )

    @pytest.mark.parametrize(
        ("events", "line", "field", "ask"),
        [
            (STEP, 2, "input", lambda s: s.frames["a"].input),
            (STEP, 3, "chunk", lambda s: s.frames["a"].chunks),
            (STEP, 6, "output", lambda s: s.frames["a"].output),
            (CALL, 2, "args", lambda s: s.calls[0].args),
            (CALL, 3, "output", lambda s: s.calls[0].output),
            (CALL, 3, "usage", lambda s: s.calls[0].usage),
            (STEP, 1, "input", lambda s: s.variables),
            ((STARTED, ("EXECUTION_COMPLETED", {}), ("Noted", {})), 2, "output", lambda s: s.variables),
            ((STARTED, ("EXECUTION_CANCELLED", {}), ("Noted", {})), 2, "reason", lambda s: s.variables),
            (
                (STARTED, ("EXECUTION_CONTINUED", {"newExecutionId": "b"}), ("Noted", {})),
                2,
                "input",
                lambda s: s.variables,
            ),
        ],
    )
    def test_the_error_names_the_line_that_holds_the_value(
        self, events: list[Entry], line: int, field: str, ask: Any
    ) -> None:
        """Not the last line of the log, nor of the step."""
        state = self.damaged(list(events), line, field)
        for look in (ask, lambda state: state.facts()):
            with pytest.raises(LogError, match="cannot be decoded") as caught:
                look(state)
            assert (caught.value.path, caught.value.line, caught.value.execution_id) == ("a.loom.jsonl", line, "run-1")


class TestPurity:
    EVENTS = (
        STARTED,
        start("a", "1", input={"x": 1}),
        start("a", "0"),
        done("a", {"y": [1]}, "0"),
        ("TOOL_REQUESTED", {"callId": "c", "name": "pay", "args": {"p": 1}}),
        ("DECISION_RECORDED", {"key": "k", "value": 1}),
        ("STATE_SNAPSHOT", {"stateSchemaVersion": 1, "state": {"s": 1}}),
        ("EXECUTION_MIGRATED", {"strategy": "pinned", "migratedInput": {"m": 1}}),
        wait("X", "approval", pending={"q": 1}),
        ("Noted", {"n": 1}),
    )

    def test_folding_twice_gives_equal_states(self) -> None:
        """Deterministic, and independent of what was done with the first state."""
        log = log_of(*self.EVENTS)
        first = replay_as_fixture(log)
        for value in (first.variables["_input"], first.state, first.frames["a"].output, first.received[0].payload):
            value["changed"] = True
        second = replay_as_fixture(log)
        assert second == replay_as_fixture(log_of(*self.EVENTS))
        assert second.variables["_input"] == {"m": 1}
        assert second != first

    def test_how_a_payload_is_written_does_not_matter(self) -> None:
        """Other key order, spaces and escapes: the same facts."""
        log = log_of(*self.EVENTS)
        events = [
            msgspec.structs.replace(
                e, raw=msgspec.Raw(json.dumps(dict(reversed(e.payload.items())), indent=3).encode())
            )
            for e in log.events
        ]
        assert replay_as_fixture(Log(events)) == replay_as_fixture(log)

    @pytest.mark.parametrize(
        "change",
        [
            ("EXECUTION_STARTED", {"input": {"order": 8}}),
            ("STEP_COMPLETED", {"stepId": "b", "output": 1}),
            ("DECISION_RECORDED", {"key": "k", "value": 2}),
            ("Noted", {"n": 2}),
            ("EXECUTION_SUSPENDED", {"on": "Y", "kind": "event"}),
        ],
    )
    def test_states_that_say_something_else_are_not_equal(self, change: Entry) -> None:
        """Equality is by what is folded."""
        assert fold(*self.EVENTS, change) != fold(*self.EVENTS, ("Noted", {"n": 1}))

    def test_the_log_is_left_as_it_was(self) -> None:
        """A golden is not changed by being looked at."""
        log = log_of(*self.EVENTS)
        before = [(e.sequence, e.event_type, bytes(e.raw)) for e in log]
        log.state.facts()
        assert [(e.sequence, e.event_type, bytes(e.raw)) for e in log] == before

    def test_short_forms_are_printable(self) -> None:
        """Ids come from logs."""
        state = fold(STARTED, start("a\n\x1b[31m"), ("TOOL_REQUESTED", {"callId": 1, "name": "b\r"}))
        frame = next(iter(state.frames.values()))
        assert all(repr(item).isprintable() for item in (state, frame, state.calls[0]))

    def test_errors_of_the_fold_cross_process_borders(self) -> None:
        """Workers report what they find."""
        with pytest.raises(LogError) as caught:
            fold(STARTED, ("STEP_STARTED", {}))
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.line) == (str(caught.value), 2)
