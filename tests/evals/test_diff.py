"""diff_runs: what counts as a difference between two runs, and how it is told."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loom import MISSING, Difference, Log, LogBuilder, LogError, diff_runs
from pytest_loom.evals.diff import DEFAULT, KINDS, Differences
from pytest_loom.log.event import MAX_DEPTH, Golden

MakeRun = Callable[..., Log]
Rewrite = Callable[[Log, Callable[[Any], str]], Log]

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=3)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
step_names = st.sampled_from(["poll", "assess", "pay"])
entries = st.one_of(
    st.tuples(step_names, values, values),
    st.builds(lambda name, message: {"failed": name, "error": {"message": message}}, step_names, values),
    st.builds(lambda name: {"started": name}, step_names),
)
ERROR = {"type": "ValueError", "message": "boom"}


def otherwise(rnd: random.Random) -> Callable[[Any], str]:
    """Another JSON writer: other key order, spaces, number format and escapes."""

    def write(value: Any) -> str:
        space = rnd.choice(["", " ", "\n\t"])
        if isinstance(value, dict):
            items = rnd.sample(sorted(value.items()), len(value))
            return "{" + f",{space}".join(f"{text(key)}:{space}{write(item)}" for key, item in items) + space + "}"
        if isinstance(value, list):
            return "[" + f",{space}".join(map(write, value)) + space + "]"
        if isinstance(value, str):
            return text(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer():
            return rnd.choice([f"{int(value)}", f"{int(value)}.0", f"{int(value)}e0", f"{int(value)}.000e+0"])
        return json.dumps(value)

    def text(value: str) -> str:
        return '"' + "".join(escaped(char) if rnd.random() < 0.3 else plain(char) for char in value) + '"'

    def escaped(char: str) -> str:
        units = char.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))

    def plain(char: str) -> str:
        return json.dumps(char, ensure_ascii=False)[1:-1]

    return write


def kinds(differences: list[Difference]) -> list[tuple[str, str, str]]:
    """Kind, step and path of each."""
    return [(each.kind, each.step, each.path) for each in differences]


class TestSame:
    @given(st.lists(entries, max_size=6), values, st.randoms(use_true_random=False))
    def test_another_serialisation_is_no_difference(
        self, make_run: MakeRun, rewritten: Rewrite, steps: list[Any], output: Any, rnd: random.Random
    ) -> None:
        """Key order, spaces, 1 or 1.0 and escapes never make a difference, in any kind."""
        golden = make_run(steps, output=output, events=[("DECISION_RECORDED", {"key": "now", "value": output})])
        again = rewritten(golden, otherwise(rnd))
        assert diff_runs(golden, again, compare="all") == []
        assert diff_runs(again, golden, compare="all", ignore=["nothing.here"], tolerance={"abs": 0}) == []

    @given(st.lists(entries, max_size=5), st.lists(entries, max_size=5), values, values)
    def test_swapping_the_runs_swaps_the_sides(
        self, make_run: MakeRun, steps: list[Any], others: list[Any], output: Any, other_output: Any
    ) -> None:
        """Golden and candidate are told the same way: nothing is seen from one side only."""
        names = {"step-missing": "step-extra", "step-extra": "step-missing"}
        one, other = make_run(steps, output=output), make_run(others, output=other_output)
        there = [(d.kind, repr(d.golden), repr(d.candidate)) for d in diff_runs(one, other)]
        back = [(names.get(d.kind, d.kind), repr(d.candidate), repr(d.golden)) for d in diff_runs(other, one)]
        assert sorted(there) == sorted(back)

    @given(st.lists(entries, max_size=5), st.lists(entries, max_size=5), values, values)
    def test_nothing_found_means_nothing_changed(
        self, make_run: MakeRun, steps: list[Any], others: list[Any], output: Any, other_output: Any
    ) -> None:
        """[] exactly where outcome, step keys, step statuses and outputs are equal by value."""

        def facts(log: Log) -> str:
            frames = {
                key: [frame.status, frame.output if frame.status == "completed" else None]
                for key, frame in sorted(log.state.frames.items())
            }
            return exact([log.state.variables["_output"], frames])

        def exact(value: Any) -> str:
            if isinstance(value, dict):
                return str(sorted((key, exact(item)) for key, item in value.items()))
            if isinstance(value, list):
                return str([exact(item) for item in value])
            return repr(int(value) if isinstance(value, float) and value.is_integer() else value)

        one, other = make_run(steps, output=output), make_run(others, output=other_output)
        assert (diff_runs(one, other) == []) is (facts(one) == facts(other))


class TestOutcome:
    def test_comes_first_and_leaf_by_leaf(self, make_run: MakeRun) -> None:
        """Output leaves before steps, each with its path."""
        golden = make_run([("assess", 1)], output={"amount": 100, "lines": [{"id": 1}], "a.b": 0})
        candidate = make_run([("assess", 2)], output={"amount": 250, "lines": [{"id": 2}], "a.b": 1})
        assert diff_runs(golden, candidate) == [
            Difference("output", "", "amount", 100, 250),
            Difference("output", "", "lines[0].id", 1, 2),
            Difference("output", "", '["a.b"]', 0, 1),
            Difference("step-output", "assess", "", 1, 2),
        ]

    def test_a_failure_shows_as_status_lost_output_and_error(self, make_run: MakeRun) -> None:
        """All that a failed run says is told, the error under the path "error"."""
        assert diff_runs(make_run(output={"a": 1}), make_run(status="failed", error=ERROR)) == [
            Difference("status", "", "", "completed", "failed"),
            Difference("output", "", "", {"a": 1}, MISSING),
            Difference("output", "", "error", MISSING, ERROR),
        ]

    @pytest.mark.parametrize(("status", "path"), [("failed", "error.message"), ("cancelled", "reason.message")])
    def test_two_runs_that_ended_alike_are_compared_by_why(self, make_run: MakeRun, status: str, path: str) -> None:
        """An error's or a reason's parts count as output, and can be ignored by their path."""
        golden = make_run(status=status, error=ERROR)
        candidate = make_run(status=status, error={**ERROR, "message": "bang"})
        assert diff_runs(golden, candidate) == [Difference("output", "", path, "boom", "bang")]
        assert diff_runs(golden, candidate, ignore=[path]) == []

    def test_a_continued_run_is_compared_by_what_it_hands_on(self, make_run: MakeRun) -> None:
        """Continue-as-new: the next input counts, the next run's id does not."""
        golden, candidate = make_run(status="continued", output={"n": 1}), make_run(status="continued", output={"n": 2})
        assert diff_runs(golden, candidate) == [Difference("output", "", "continued.n", 1, 2)]

    def test_no_output_is_not_null(self, make_run: MakeRun) -> None:
        """A run that completed without an output differs from one that completed with null."""
        golden = make_run(status="running", events=[("EXECUTION_COMPLETED", {})])
        assert diff_runs(golden, make_run(output=None)) == [Difference("output", "", "", MISSING, None)]

    def test_deep_values_do_not_crash(self, make_run: MakeRun) -> None:
        """As deep as a log may be nested a change is one difference; deeper it is an error that says so."""

        def nested(depth: int, leaf: int) -> Log:
            return make_run(output=json.loads("[" * depth + str(leaf) + "]" * depth))

        (found,) = diff_runs(nested(MAX_DEPTH, 1), nested(MAX_DEPTH, 2))
        assert (found.golden, found.candidate) == (1, 2)
        with pytest.raises(LogError, match="nested"):
            diff_runs(nested(900, 1), nested(900, 2))


class TestSteps:
    def test_missing_and_extra_steps_come_where_they_happened(self, make_run: MakeRun) -> None:
        """Golden order, extra steps after the step that came before them."""
        golden = make_run([("a", 1), ("b", 2), ("c", 3)])
        candidate = make_run([("x", 0), ("a", 1), ("y", 8), ("z", 9), ("c", 4)])
        assert diff_runs(golden, candidate) == [
            Difference("step-extra", "x", "", MISSING, 0),
            Difference("step-extra", "y", "", MISSING, 8),
            Difference("step-extra", "z", "", MISSING, 9),
            Difference("step-missing", "b", "", 2, MISSING),
            Difference("step-output", "c", "", 3, 4),
        ]

    def test_as_many_turns_are_compared_turn_by_turn(self, make_run: MakeRun) -> None:
        """The second turn of one run is the second turn of the other."""
        golden, candidate = make_run([("poll", 1), ("poll", 2)]), make_run([("poll", 2), ("poll", 1)])
        assert kinds(diff_runs(golden, candidate)) == [("step-output", "poll", ""), ("step-output", "poll#2", "")]

    def test_branches_pair_by_key_whichever_came_first(self) -> None:
        """The order in which concurrent branches happened to run is no difference, unless it is asked for."""

        def run(*branches: str, dropped: int = -1) -> Log:
            builder = LogBuilder("r", "w")
            for branch in branches:
                for turn in range(3):
                    if turn != dropped:
                        payload = {"stepId": "poll", "output": [branch, turn]}
                        builder.add("STEP_COMPLETED", payload, timestamp=1, branch=branch)
            return builder.log()

        assert diff_runs(run("1", "2"), run("2", "1")) == []
        assert len(diff_runs(run("1", "2"), run("2", "1"), compare="all")) == 3
        assert kinds(diff_runs(run("1", "2"), run("2", "1", dropped=1))) == [
            ("step-missing", "poll#2", ""),
            ("step-missing", "poll#5", ""),
        ]

    @pytest.mark.parametrize("options", [{}, {"tolerance": {"abs": 0.1}}, {"ignore": ["poll.noise"]}])
    def test_a_dropped_turn_is_one_difference(self, make_run: MakeRun, options: dict[str, Any]) -> None:
        """With one turn less, the other turns pair with what they were, under the same rules as everything else."""
        noise = 0.01 if options else 0
        golden = make_run([("poll", {"n": turn, "noise": 0}) for turn in range(300)])
        turns: list[Any] = [("poll", {"n": turn, "noise": noise}) for turn in range(300) if turn != 150]
        found = diff_runs(golden, make_run(turns), **options)
        assert found == [Difference("step-missing", "poll#151", "", {"n": 150, "noise": 0}, MISSING)]
        found = diff_runs(make_run(turns), golden, **options)
        assert found == [Difference("step-extra", "poll#151", "", MISSING, {"n": 150, "noise": 0})]
        turns[0], turns[-1] = ("poll", "first"), ("poll", "last")
        assert kinds(diff_runs(golden, make_run(turns), **options)) == [
            ("step-output", "poll", ""),
            ("step-missing", "poll#151", ""),
            ("step-output", "poll#300", ""),
        ]

    def test_changed_turns_beside_a_dropped_one_pair_in_order(self, make_run: MakeRun) -> None:
        """A changed turn is compared with what it was, under its golden key."""
        golden = make_run([("poll", {"n": turn}) for turn in range(6)])
        candidate = make_run([("poll", {"n": turn}) for turn in (0, 2, 33, 4, 5)])
        assert diff_runs(golden, candidate) == [
            Difference("step-missing", "poll#2", "", {"n": 1}, MISSING),
            Difference("step-output", "poll#4", "n", 3, 33),
        ]

    @pytest.mark.parametrize(
        ("golden", "candidate", "default", "asked"),
        [
            (("s", 5), {"failed": "s", "error": ERROR}, ("step-output", 5, MISSING), ("step-error", MISSING, ERROR)),
            ({"failed": "s", "error": ERROR}, ("s", 5), ("step-output", MISSING, 5), ("step-error", ERROR, MISSING)),
            (("s", 5), {"started": "s"}, ("step-output", 5, MISSING), ("step-output", 5, MISSING)),
            ({"started": "s"}, ("s", 5), ("step-output", MISSING, 5), ("step-output", MISSING, 5)),
            (
                {"failed": "s", "error": ERROR},
                {"started": "s"},
                ("step-output", ERROR, MISSING),
                ("step-error", ERROR, MISSING),
            ),
        ],
    )
    def test_a_step_that_ended_otherwise_is_never_silent(
        self, make_run: MakeRun, golden: Any, candidate: Any, default: tuple[str, Any, Any], asked: tuple[str, Any, Any]
    ) -> None:
        """Completed, failed, never ended: another end shows in the default set, even where the output is ignored."""
        one, other = make_run([golden]), make_run([candidate])
        for compare, (kind, mine, theirs) in ((DEFAULT, default), ("all", asked)):
            for ignore in ([], ["s.output"], ["s.output", "s.input"]):
                found = diff_runs(one, other, compare=compare, ignore=ignore)
                assert found == [Difference(kind, "s", "", mine, theirs)]
        assert diff_runs(one, other, ignore=["s"]) == []
        without_errors = diff_runs(one, other, compare="all", ignore=["s.error"])
        assert without_errors == [Difference("step-output", "s", "", *default[1:])]

    def test_two_failures_are_compared_on_request(self, make_run: MakeRun) -> None:
        """Errors of steps that failed in both runs are step-error, which the default set leaves out."""
        golden = make_run([{"failed": "s", "error": ERROR}])
        candidate = make_run([{"failed": "s", "error": {**ERROR, "message": "bang"}}])
        assert diff_runs(golden, candidate) == []
        found = diff_runs(golden, candidate, compare=["step-error"])
        assert found == [Difference("step-error", "s", "message", "boom", "bang")]
        assert diff_runs(golden, candidate, compare=["step-error"], ignore=["s.error.message"]) == []

    def test_inputs_are_compared_on_request(self, make_run: MakeRun) -> None:
        """What a step was given is step-input."""
        golden, candidate = make_run([("s", 1, {"q": 1})]), make_run([("s", 1, {"q": 2})])
        assert diff_runs(golden, candidate) == []
        assert diff_runs(golden, candidate, compare=["step-input"]) == [Difference("step-input", "s", "q", 1, 2)]
        assert diff_runs(golden, candidate, compare="all", ignore=["s.input.q"]) == []

    def test_the_fewest_moved_steps_are_told_on_request(self, make_run: MakeRun) -> None:
        """One step that moved is one difference, told by the step before it in either run."""
        golden = make_run([(name, 1) for name in "abcde"])
        candidate = make_run([(name, 1) for name in "bcdae"])
        assert diff_runs(golden, candidate) == []
        assert diff_runs(golden, candidate, compare=["step-order"]) == [Difference("step-order", "a", "", None, "d")]
        assert diff_runs(candidate, golden, compare=["step-order"]) == [Difference("step-order", "a", "", "d", None)]
        assert diff_runs(golden, candidate, compare="all", ignore=["a"]) == []

    def test_added_and_dropped_steps_move_nothing(self, make_run: MakeRun) -> None:
        """Order is judged over the steps that both runs have."""
        golden, candidate = make_run([("a", 1), ("b", 1), ("c", 1)]), make_run([("x", 1), ("a", 1), ("c", 1)])
        assert diff_runs(golden, candidate, compare=["step-order"]) == []

    @given(st.permutations(["a", "b", "c", "d", "e"]), st.permutations(["a", "b", "c", "d", "e"]))
    def test_which_steps_moved_does_not_depend_on_the_side(
        self, make_run: MakeRun, one: list[str], other: list[str]
    ) -> None:
        """Swapping the runs tells the same steps moved, the other way round."""
        golden, candidate = make_run([(name, 1) for name in one]), make_run([(name, 1) for name in other])
        there = diff_runs(golden, candidate, compare=["step-order"])
        back = diff_runs(candidate, golden, compare=["step-order"])
        assert {(d.step, d.golden, d.candidate) for d in there} == {(d.step, d.candidate, d.golden) for d in back}
        assert bool(there) is (one != other)


def tool(name: str, args: Any, number: int = 0) -> tuple[str, dict[str, Any]]:
    """The event of a tool call."""
    return "TOOL_REQUESTED", {"callId": f"c{number}", "name": name, "args": args}


class TestOnRequest:
    def test_tool_arguments(self, make_run: MakeRun) -> None:
        """Calls pair by name and arguments first, then by name; what has no partner is one difference."""
        golden = make_run(events=[tool("find", {"q": 1}, 1), tool("pay", {"n": 100}, 2), tool("mail", {"to": "a"}, 3)])
        candidate = make_run(events=[tool("find", {"q": 1}, 1), tool("log", {}, 2), tool("pay", {"n": 250}, 3)])
        assert diff_runs(golden, candidate) == []
        assert diff_runs(golden, candidate, compare=["tool-args"]) == [
            Difference("tool-args", "log", "", MISSING, {}),
            Difference("tool-args", "pay", "n", 100, 250),
            Difference("tool-args", "mail", "", {"to": "a"}, MISSING),
        ]
        ignore = ["pay.args.n", "mail", "log"]
        assert diff_runs(golden, candidate, compare=["tool-args"], ignore=ignore) == []
        assert diff_runs(golden, candidate, compare=["tool-args"], ignore=["pay.n", "mail", "log"]) == []

    def test_one_more_tool_call_is_one_difference(self, make_run: MakeRun) -> None:
        """A call put in front does not shift the others, and its key counts like a step's."""
        golden = make_run(events=[tool("find", {"q": n}, n) for n in range(5)])
        candidate = make_run(events=[tool("find", {"q": n}, n) for n in range(-1, 5)])
        assert diff_runs(golden, candidate, compare=["tool-args"]) == [
            Difference("tool-args", "find", "", MISSING, {"q": -1})
        ]
        assert diff_runs(golden, candidate, compare=["tool-args"], ignore=["find.args.q"]) == [
            Difference("tool-args", "find#6", "", MISSING, {"q": 4})
        ]

    def test_open_waits(self, make_run: MakeRun) -> None:
        """What a run waits for, of what kind, and what it showed; a wait is named by its event."""

        def waiting(on: Any, kind: str, pending: Any) -> Log:
            wait = {"on": on, "kind": kind, "pending": pending, "correlationKey": str(random.random())}
            return make_run(status="suspended", events=[("EXECUTION_SUSPENDED", wait)])

        golden = waiting("Granted", "approval", {"args": {"n": 1}})
        assert diff_runs(golden, waiting("Granted", "approval", {"args": {"n": 1}}), compare="all") == []
        assert diff_runs(golden, waiting("Granted", "question", {"args": {"n": 2}}), compare=["suspension"]) == [
            Difference("suspension", "", "Granted.kind", "approval", "question"),
            Difference("suspension", "", "Granted.pending.args.n", 1, 2),
        ]
        other = waiting(["Granted", "Denied"], "approval", None)
        assert kinds(diff_runs(golden, other, compare=["suspension"])) == [
            ("suspension", "", "Granted"),
            ("suspension", "", '["Granted|Denied"]'),
        ]
        assert diff_runs(golden, other, compare=["suspension"], ignore=["suspension"]) == []
        assert diff_runs(golden, other, compare=["suspension"], ignore=["suspension.*"]) == []

    def test_decisions(self, make_run: MakeRun) -> None:
        """Recorded decisions by key; a name means all its occurrences."""

        def deciding(*values: Any) -> Log:
            return make_run(events=[("DECISION_RECORDED", {"key": "rate", "value": value}) for value in values])

        golden, candidate = deciding(1, {"a": 2}), deciding(5, {"a": 3}, 7)
        assert diff_runs(golden, candidate) == []
        assert diff_runs(golden, candidate, compare=["decision"]) == [
            Difference("decision", "", "rate", 1, 5),
            Difference("decision", "", '["rate#2"].a', 2, 3),
            Difference("decision", "", '["rate#3"]', MISSING, 7),
        ]
        assert diff_runs(golden, candidate, compare=["decision"], ignore=["decision.rate"]) == []
        assert kinds(diff_runs(golden, candidate, compare=["decision"], ignore=["decision.rate#2"])) == [
            ("decision", "", "rate"),
            ("decision", "", '["rate#3"]'),
        ]

    def test_compare_names_exactly_what_is_compared(self, make_run: MakeRun) -> None:
        """A kind that is not named is not told."""
        golden, candidate = make_run([("s", 1)], output=1), make_run([("s", 2), ("t", 1)], output=2)
        for kind in DEFAULT:
            assert {each.kind for each in diff_runs(golden, candidate, compare=[kind])} <= {kind}
        assert {each.kind for each in diff_runs(golden, candidate, compare=["output", "step-extra"])} == {
            "output",
            "step-extra",
        }

    @pytest.mark.parametrize(
        ("compare", "said"),
        [(["outputs"], "'outputs' is not a kind"), ("status", "list of kinds"), ([], "nothing"), (3, "list of kinds")],
    )
    def test_an_unknown_kind_is_refused_by_name(self, make_run: MakeRun, compare: Any, said: str) -> None:
        """A misspelt kind is a ValueError, not a diff that finds nothing."""
        with pytest.raises(ValueError, match=said):
            diff_runs(make_run(), make_run(), compare=compare)

    def test_bad_rules_are_refused_though_the_runs_are_equal(self, make_run: MakeRun) -> None:
        """A wrong pattern or tolerance is said at once, not on the day that something differs."""
        for wrong in (
            {"ignore": ["a*"]},
            {"tolerance": {"abs": -1}},
            {"unordered": ["["]},
            {"comparators": {"": bool}},
        ):
            with pytest.raises(ValueError, match=r"path pattern|tolerance"):
                diff_runs(make_run(), make_run(), **wrong)


class TestIgnore:
    steps = [
        ("poll", {"id": 1, "v": 1}),
        ("poll", {"id": 2, "v": 1}),
        ("assess", {"usage": {"n": 1}, "items": [{"id": 1}]}),
    ]
    others = [("poll", {"id": 8, "v": 1}), ("poll", {"id": 9, "v": 1}), ("assess", {"usage": {}, "items": [{"id": 2}]})]

    @pytest.mark.parametrize(
        ("ignore", "left"),
        [
            (["poll"], [("assess", "usage.n"), ("assess", "items[0].id")]),
            (["poll.output.id"], [("assess", "usage.n"), ("assess", "items[0].id")]),
            (["poll.id"], [("assess", "usage.n"), ("assess", "items[0].id")]),
            (["poll#2"], [("poll", "id"), ("assess", "usage.n"), ("assess", "items[0].id")]),
            (["poll#1.id"], [("poll#2", "id"), ("assess", "usage.n"), ("assess", "items[0].id")]),
            (["*.usage"], [("poll", "id"), ("poll#2", "id"), ("assess", "items[0].id")]),
            (["*.output.usage"], [("poll", "id"), ("poll#2", "id"), ("assess", "items[0].id")]),
            (["**.id"], [("assess", "usage.n")]),
            (["**.items[*].id"], [("poll", "id"), ("poll#2", "id"), ("assess", "usage.n")]),
            (["assess.items[0]", "*.id"], [("assess", "usage.n")]),
            (["assess.items[1]", "*.id"], [("assess", "usage.n"), ("assess", "items[0].id")]),
            (["*"], []),
            (["**"], []),
            (["*.output"], []),
            (["*.input"], [("poll", "id"), ("poll#2", "id"), ("assess", "usage.n"), ("assess", "items[0].id")]),
            (
                ["output", "status"],
                [("poll", "id"), ("poll#2", "id"), ("assess", "usage.n"), ("assess", "items[0].id")],
            ),
        ],
    )
    def test_a_pattern_hides_what_it_names_and_nothing_else(
        self, make_run: MakeRun, ignore: list[str], left: list[tuple[str, str]]
    ) -> None:
        """Patterns with and without the field, for all occurrences or one, and everything below a path."""
        found = diff_runs(make_run(self.steps), make_run(self.others), ignore=ignore)
        assert [(each.step, each.path) for each in found] == left

    def test_a_step_by_name_is_ignored_wholly(self, make_run: MakeRun) -> None:
        """Missing, extra, moved or repeated: an ignored step is not there, and the others pair as if it were not."""
        golden = make_run([("noise", 1), ("poll", 1), ("poll", 2), ("poll", 3), ("pay", 1)])
        candidate = make_run([("poll", 1), ("poll", 3), ("pay", 1), ("noise", 1), ("noise", 2)])
        assert diff_runs(golden, candidate, compare="all", ignore=["noise", "poll#2"]) == [
            Difference("step-missing", "poll#3", "", 3, MISSING)
        ]
        assert diff_runs(golden, candidate, compare="all", ignore=["noise", "poll"]) == []

    def test_names_with_dots_are_quoted(self, make_run: MakeRun) -> None:
        """A step called a.b is matched by ["a.b"], not by a.b."""
        golden, candidate = make_run([("a.b", {"c": 1})]), make_run([("a.b", {"c": 2})])
        assert diff_runs(golden, candidate, ignore=["a.b.c", "a.b"]) != []
        assert diff_runs(golden, candidate, ignore=['["a.b"].output.c']) == []

    @given(st.lists(entries, max_size=4), st.lists(entries, max_size=4), values, values)
    def test_ignoring_only_takes_away(
        self, make_run: MakeRun, steps: list[Any], others: list[Any], output: Any, other_output: Any
    ) -> None:
        """With a step ignored, the rest of the result is what it is without that step in the logs."""
        one, other = make_run(steps, output=output), make_run(others, output=other_output)

        def without(side: list[Any]) -> list[Any]:
            return [
                entry
                for entry in side
                if (entry[0] if isinstance(entry, tuple) else entry.get("failed", entry.get("started"))) != "pay"
            ]

        expected = diff_runs(make_run(without(steps), output=output), make_run(without(others), output=other_output))
        assert diff_runs(one, other, ignore=["pay"]) == expected


class TestRulesReachEveryValue:
    def test_tolerance_comparators_and_unordered(self, make_run: MakeRun) -> None:
        """All three work on steps and on the outcome, by the same paths."""
        golden = make_run([("rate", {"x": 1.0, "tags": ["a", "b"], "when": "10:00"})], output={"x": 2.0})
        candidate = make_run([("rate", {"x": 1.001, "tags": ["b", "a"], "when": "10:07"})], output={"x": 2.001})
        assert len(diff_runs(golden, candidate)) == 5
        assert (
            diff_runs(
                golden,
                candidate,
                tolerance={"rel": 0.01},
                comparators={"rate.when": lambda golden, candidate: golden[:3] == candidate[:3]},
                unordered=["rate.output.tags"],
            )
            == []
        )
        assert kinds(diff_runs(golden, candidate, unordered=True, tolerance={"abs": 0.01})) == [
            ("step-output", "rate", "when")
        ]


class TestResult:
    def test_is_a_list_that_knows_its_logs(self, make_run: MakeRun) -> None:
        """Equal to [] when empty, an ordinary list else, with the two logs at hand."""
        golden, candidate = make_run([("s", 1)]), make_run([("s", 2)])
        found = diff_runs(golden, candidate)
        assert isinstance(found, Differences)
        assert found == list(found) == [Difference("step-output", "s", "", 1, 2)]
        assert (found.golden, found.candidate) == (golden, candidate)
        assert diff_runs(golden, golden) == []

    def test_a_golden_that_a_test_holds_brings_its_rules(self, make_run: MakeRun) -> None:
        """What the marker says counts, what the call says goes before it, and ignored paths add up."""
        golden, candidate = make_run([("s", {"a": 1, "b": 1})]), make_run([("s", {"a": 2, "b": 2})])
        golden.golden = Golden({"ignore": ["s.a"]})
        assert kinds(diff_runs(golden, candidate)) == [("step-output", "s", "b")]
        assert diff_runs(golden, candidate, ignore=["s.b"]) == []
        with pytest.raises(ValueError, match="list of path patterns"):
            diff_runs(golden, candidate, ignore="s.b")
        golden.golden = Golden({"comparators": {"*.a": lambda golden, candidate: True}, "tolerance": {"abs": 9}})
        assert diff_runs(golden, candidate) == []
        differs = {"s.a": lambda golden, candidate: False}
        assert kinds(diff_runs(golden, candidate, comparators=differs)) == [("step-output", "s", "a")]
        assert kinds(diff_runs(golden, candidate, tolerance={"abs": 0})) == [("step-output", "s", "b")]
        golden.golden = Golden({"compare": ["status"]})
        assert diff_runs(golden, candidate) == []
        assert len(diff_runs(golden, candidate, compare="all")) == 2

    def test_a_changed_candidate_is_accepted_where_the_test_runs_to_accept(self, make_run: MakeRun) -> None:
        """Then nothing differs any more; an unchanged candidate is not written anew."""
        golden, candidate = make_run([("s", 1)]), make_run([("s", 2)])
        accepted: list[Log] = []
        golden.golden = Golden({}, accepted.append)
        assert diff_runs(golden, make_run([("s", 1)])) == []
        assert accepted == []
        assert diff_runs(golden, candidate) == []
        assert accepted == [candidate]

    def test_a_difference_is_a_plain_value(self) -> None:
        """Frozen, hashable where its values are, picklable, MISSING included."""
        difference = Difference("output", "", "a", 1, MISSING)
        assert pickle.loads(pickle.dumps(difference)) == difference
        assert hash(difference) == hash(Difference("output", "", "a", 1, MISSING))
        with pytest.raises(FrozenInstanceError):
            difference.kind = "status"  # type: ignore[misc]
        with pytest.raises(TypeError):
            hash(Difference("output", "", "a", [1], MISSING))

    @pytest.mark.parametrize(
        ("difference", "text"),
        [
            (Difference("status", "", "", "completed", "failed"), 'status: "completed" -> "failed"'),
            (
                Difference("step-output", "pay#2", "a[0]", {"x": 1}, MISSING),
                'step-output pay#2 a[0]: {"x": 1} -> MISSING',
            ),
            (Difference("step-extra", "a\x1b[31m\n", "", MISSING, None), r"step-extra a\x1b[31m\n: MISSING -> null"),
        ],
    )
    def test_a_difference_reads_on_one_line(self, difference: Difference, text: str) -> None:
        """Kind, place and both values, without control characters."""
        assert str(difference) == text

    def test_the_kinds_are_those_of_the_design(self) -> None:
        """The names that users write are fixed."""
        assert (
            (*DEFAULT, *KINDS[5:])
            == KINDS
            == (
                "status",
                "output",
                "step-output",
                "step-missing",
                "step-extra",
                "step-input",
                "step-order",
                "step-error",
                "tool-args",
                "suspension",
                "decision",
            )
        )

    def test_a_path_instead_of_a_log_is_a_readable_error(self, make_run: MakeRun) -> None:
        """The usual slip, a file name, is answered with how to read one."""
        with pytest.raises(TypeError, match="load_log"):
            diff_runs("golden.loom.jsonl", make_run())  # type: ignore[arg-type]

    def test_a_damaged_payload_is_an_error_though_both_logs_have_it(self, make_run: MakeRun) -> None:
        """Equal bytes do not hide a log that cannot be folded."""
        log = make_run([("s", 1)])
        broken = Log([*log.events[:-1], msgspec.structs.replace(log.events[-1], raw=msgspec.Raw(b"[1]"))])
        with pytest.raises(LogError):
            diff_runs(broken, broken)


def test_a_gate_that_is_no_longer_passed_is_a_changed_suspension() -> None:
    """An approval that was asked for and given, and is now skipped or another: the run ends the same all the same."""

    def run(*gates: str) -> Log:
        builder = LogBuilder("run-1", "refund")
        builder.add("EXECUTION_STARTED", {}, timestamp=1)
        for gate in gates:
            builder.add("EXECUTION_SUSPENDED", {"on": gate, "kind": "approval"}, timestamp=1)
            builder.add(gate, {}, timestamp=1)
            builder.add("EXECUTION_RESUMED", {"eventType": gate, "payload": {}}, timestamp=1)
        builder.add("EXECUTION_COMPLETED", {"output": 1}, timestamp=1)
        return builder.log()

    assert diff_runs(run("Granted"), run("Granted"), compare="all") == []
    assert [(d.kind, d.path, d.candidate) for d in diff_runs(run("Granted"), run(), compare="all")] == [
        ("suspension", "Granted", MISSING)
    ]
    assert [d.path for d in diff_runs(run("Granted"), run("Other"), compare=["suspension"])] == ["Granted", "Other"]


class TestTheSameEvents:
    """Logs with the same events are compared without folding both."""

    def test_the_second_one_is_not_folded(self, make_run: MakeRun) -> None:
        """What has to be equal is not worked out."""
        candidate = make_run([("assess", 1, 2)])
        assert diff_runs(make_run([("assess", 1, 2)]), candidate) == []
        assert candidate._state is None

    def test_what_cannot_be_folded_is_said(self) -> None:
        """Two logs that are broken alike are no equal runs."""
        builder = LogBuilder("r-1", "refund")
        builder.add("EXECUTION_STARTED", {"input": 1}, timestamp=0)
        builder.add("STEP_STARTED", {"stepId": 5}, timestamp=0)
        with pytest.raises(LogError):
            diff_runs(builder.log(), Log(list(builder.events)))

    @pytest.mark.parametrize(
        ("event", "change"),
        [
            (1, {"raw": msgspec.Raw(b'{"stepId":"pay","input":2}')}),
            (2, {"event_type": "STEP_PROGRESS"}),
            (0, {"event_version": 7}),
        ],
        ids=["payload", "kind", "version"],
    )
    def test_one_that_is_another_is_seen(self, make_run: MakeRun, event: int, change: dict[str, Any]) -> None:
        """Each part of an event that alone makes another run of it."""
        golden = make_run([("assess", 1, 2)])
        events = list(make_run([("assess", 1, 2)]).events)
        events[event] = msgspec.structs.replace(events[event], **change)
        try:
            found: list[Any] = diff_runs(golden, Log(events), compare="all")
        except LogError as problem:
            found = [problem]
        assert found != []
