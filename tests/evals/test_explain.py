"""The text of a failed assertion: the whole text, as a tired engineer sees it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from textwrap import dedent
from typing import Any

import pytest

from pytest_loom import MISSING, Difference, Log, diff_runs
from pytest_loom.evals.explain import explain
from pytest_loom.evals.paths import Rules

MakeRun = Callable[..., Log]

STEPS: list[Any] = [
    ("inspect", {"case": "c-17", "amount": 100}),
    ("assess", {"score": 0.91, "verdict": "refund"}),
    ("pay", {"charge": "ch_1"}),
    ("notify", {"sent": True}),
]
OUTPUT = {"amount": 100, "note": "refunded"}
GOLDEN = "tests/logs/refund.loom.jsonl"
NODE = "pytest tests/test_refund.py::test_golden --snapshot-update"


def changed(**outputs: Any) -> list[Any]:
    """The golden steps, some with another output."""
    return [(name, outputs.get(name, output)) for name, output in STEPS]


def text(golden: Log, candidate: Log, **options: Any) -> str:
    """The whole explanation."""
    return "\n".join(explain(diff_runs(golden, candidate), **options)) + "\n"


@pytest.fixture
def golden(make_run: MakeRun) -> Log:
    """A completed run of four steps, as read from a file."""
    return make_run(STEPS, output=OUTPUT, path=GOLDEN)


class TestTheFourTexts:
    """What the failing ``assert diff_runs(golden, candidate) == []`` shows in the four usual cases."""

    def test_a_changed_step(self, make_run: MakeRun, golden: Log) -> None:
        """Which step, which value, how it was and is; how to accept it, and how to ignore it."""
        candidate = make_run(changed(assess={"score": 0.42, "verdict": "refuse"}), output=OUTPUT)
        assert text(golden, candidate, accept=NODE) == dedent("""\
            refund/run-1: 2 differences from the golden run, in step assess
            golden: tests/logs/refund.loom.jsonl
            to accept the new run: pytest tests/test_refund.py::test_golden --snapshot-update
            step assess
              output.score    0.91 -> 0.42
              output.verdict  "refund" -> "refuse"
            to ignore what may vary: ignore=["assess.output.score", "assess.output.verdict"]
            """)

    def test_a_missing_step(self, make_run: MakeRun, golden: Log) -> None:
        """A step that no longer runs is said to, with what it used to give; that is nothing to ignore."""
        candidate = make_run(STEPS[:-1], output=OUTPUT)
        assert text(golden, candidate, accept=NODE) == dedent("""\
            refund/run-1: 1 difference from the golden run, in step notify
            golden: tests/logs/refund.loom.jsonl
            to accept the new run: pytest tests/test_refund.py::test_golden --snapshot-update
            step notify
              missing  {"sent": true} -> the step did not run
            """)

    def test_a_changed_final_output(self, make_run: MakeRun, golden: Log) -> None:
        """The outcome comes first, value by value."""
        candidate = make_run(STEPS, output={"amount": 250, "note": "refunded", "fee": 2})
        assert text(golden, candidate, accept=NODE) == dedent("""\
            refund/run-1: 2 differences from the golden run, in the outcome
            golden: tests/logs/refund.loom.jsonl
            to accept the new run: pytest tests/test_refund.py::test_golden --snapshot-update
            outcome
              output.amount  100 -> 250
              output.fee     absent -> 2
            to ignore what may vary: ignore=["output.amount"]
            """)

    def test_a_changed_status(self, make_run: MakeRun, golden: Log) -> None:
        """A run that now fails: the status, the lost output, the error, and the step where it began."""
        error = {"type": "ValueError", "message": "no rates for XYZ"}
        candidate = make_run([*STEPS[:2], {"failed": "pay", "error": error}], status="failed", error=error)
        assert text(golden, candidate, accept=NODE) == dedent("""\
            refund/run-1: 5 differences from the golden run, in the outcome and 2 steps
            golden: tests/logs/refund.loom.jsonl
            to accept the new run: pytest tests/test_refund.py::test_golden --snapshot-update
            outcome
              status  completed -> failed
              output  {"amount": 100, "note": "refunded"} -> absent
              error   absent -> {"type": "ValueError", "message": "no rates for XYZ"}
            step pay
              output
                golden     {"charge": "ch_1"}
                candidate  absent, the step failed: ValueError: no rates for XYZ
            step notify
              missing  {"sent": true} -> the step did not run
            """)


def test_the_verdict_stands_in_what_pytest_leaves(make_run: MakeRun, golden: Log) -> None:
    """However much changed, the first 8 lines and 640 characters say the run, the size, the file and the outcome."""
    candidate = make_run(
        [(name, "something else altogether, and long" * 9) for name in "abcdefgh"], status="failed", error={"type": "E"}
    )
    lines = list(islice(explain(diff_runs(golden, candidate)), 8))
    assert lines[:4] == [
        "refund/run-1: 15 differences from the golden run, in the outcome and 12 steps",
        "golden: tests/logs/refund.loom.jsonl",
        "outcome",
        "  status  completed -> failed",
    ]
    assert len("\n".join(lines)) <= 640


def test_the_other_kinds_read_as_sentences(make_run: MakeRun) -> None:
    """Moved and extra steps, tools, waits, decisions and inputs, each in its place."""
    tool = ("TOOL_REQUESTED", {"callId": "1", "name": "charge", "args": {"n": 1}})
    other_tool = ("TOOL_REQUESTED", {"callId": "1", "name": "charge", "args": {"n": 2}})
    decided = ("DECISION_RECORDED", {"key": "rate", "value": 1})
    waits = ("EXECUTION_SUSPENDED", {"on": "Granted", "kind": "approval", "pending": {"n": 1}})
    one = make_run([("a", 1, {"q": 1}), ("b", 1), ("c", 1)], status="suspended", events=[tool, decided, waits])
    other = make_run(
        [("b", 1), ("c", 1), ("a", 1, {"q": 2}), ("d", 1)],
        status="suspended",
        events=[
            other_tool,
            ("DECISION_RECORDED", {"key": "rate", "value": 2}),
            ("EXECUTION_SUSPENDED", {"on": "Granted", "kind": "approval", "pending": {"n": 2}}),
        ],
    )
    assert list(explain(diff_runs(one, other, compare="all"))) == [
        "refund/run-1: 6 differences from the golden run, in the outcome, 2 steps, tool charge and decisions",
        "outcome",
        "  waits for Granted.pending.n  1 -> 2",
        "step a",
        "  input.q  1 -> 2",
        "  moved    first -> after c",
        "step d",
        "  new  the step did not run -> 1",
        "tool charge",
        "  args.n  1 -> 2",
        "decisions",
        "  rate  1 -> 2",
        "to ignore what may vary: ignore=[",
        '    "suspension.Granted.pending.n",',
        '    "a.input.q",',
        '    "charge.args.n",',
        '    "decision.rate",',
        "]",
    ]


def test_long_texts_show_where_they_begin_to_differ(make_run: MakeRun) -> None:
    """Two long texts that differ late are shown from a little before there."""
    start = "The customer asked for a refund within the fourteen days that the law grants. "
    one, other = (
        make_run(output={"why": f"{start}Pay {amount} EUR within two days, and a fee."}) for amount in (100, 250)
    )
    assert list(explain(diff_runs(one, other)))[1:5] == [
        "outcome",
        "  output.why",
        '    golden     "…the law grants. Pay 100 EUR within two days, and a fee."',
        '    candidate  "…the law grants. Pay 250 EUR within two days, and a fee."',
    ]


@pytest.mark.parametrize("status", ["failed", "completed"])
def test_a_key_called_error_is_told_from_the_error_of_the_run(make_run: MakeRun, status: str) -> None:
    """The path "error" of an output difference is the run's error where a run failed, else a key of its output."""
    sides = [{"type": "E", "message": message} for message in ("a", "b")]
    outputs = [{"output": {"error": side}} if status == "completed" else {"error": side} for side in sides]
    shown = list(explain(diff_runs(*(make_run(status=status, **output) for output in outputs))))
    name = "error.message" if status == "failed" else "output.error.message"
    assert shown[2] == f'  {name}  "a" -> "b"'
    assert shown[3] == f'to ignore what may vary: ignore=["{name}"]'


def test_why_a_step_gave_nothing_is_said_only_of_the_same_occurrence(make_run: MakeRun) -> None:
    """Where a loop ran another number of times, a key does not tell which turn it was."""
    failed = {"failed": "poll", "error": {"type": "E", "message": "m"}}
    assert "the step failed: E: m" in text(make_run([("poll", 1)]), make_run([failed]))
    assert "the step never ended" in text(make_run([("poll", 1)]), make_run([{"started": "poll"}]))
    assert "the step failed" not in text(
        make_run([("poll", 1), ("poll", 2), ("poll", 3)]), make_run([failed, ("poll", 2)])
    )


def test_the_ignore_snippet_says_each_place_once_and_works(make_run: MakeRun) -> None:
    """Turns of a loop and items of a list are generalised, names quoted where needed; pasted, it finds nothing."""
    steps = [("poll", {"items": [{"id": 1}, {"id": 2}]})] * 3 + [("a.b", {"x y": {"id": 1}}), ("once", [1, 2])]
    others = [("poll", {"items": [{"id": 8}, {"id": 9}]})] * 3 + [("a.b", {"x y": {"id": 7}}), ("once", [1, 3])]
    found = diff_runs(make_run(steps, output={"t": 1}), make_run(others, output={"t": 2}))
    lines = list(explain(found))
    at = lines.index("to ignore what may vary: ignore=[")
    assert lines[at:] == [
        "to ignore what may vary: ignore=[",
        '    "output.t",',
        '    "poll.output.items[*].id",',
        '    "[\\"a.b\\"].output[\\"x y\\"].id",',
        '    "once.output[1]",',
        "]",
    ]
    patterns = eval("\n".join(lines[at:]).partition("=")[2])
    Rules(patterns)
    assert diff_runs(found.golden, found.candidate, ignore=patterns) == []


def test_only_so_many_are_shown_and_the_rest_is_counted(make_run: MakeRun) -> None:
    """A thousand changes do not fill the screen; what is left out is said."""
    found = diff_runs(make_run([("poll", turn) for turn in range(1000)]), make_run([("poll", -1)] * 1000))
    lines = list(explain(found, limit=5))
    assert lines[0] == "refund/run-1: 1000 differences from the golden run, in 1000 steps"
    assert lines[11] == "... and 995 more differences, in 995 steps"
    assert lines[12:] == ['to ignore what may vary: ignore=["poll.output"]']


def test_what_logs_say_cannot_forge_lines(make_run: MakeRun) -> None:
    """Control characters in names, values, keys and errors are shown escaped."""
    evil = "x\x1b[2J\n\u202e"
    one = make_run([(evil, {evil: evil}), ("s", 1)], workflow=evil, path=f"a{evil}.loom.jsonl")
    other = make_run([(evil, {evil: "y"}), {"failed": "s", "error": {"type": evil, "message": evil}}], workflow=evil)
    for line in explain(diff_runs(one, other), accept=f"t.py::t[{evil}]"):
        assert line.isprintable()


def test_a_plain_list_is_explained_too() -> None:
    """Without logs there is no run to name; everything else is the same, and nothing is nothing."""
    assert list(explain([Difference("output", "", "a", 1, MISSING)])) == [
        "1 difference from the golden run, in the outcome",
        "outcome",
        "  output.a  1 -> absent",
    ]
    assert list(explain([])) == ["no difference"]


def test_what_to_type_stands_in_what_pytest_leaves(make_run: MakeRun) -> None:
    """pytest cuts an explanation after 8 lines: the command that accepts comes before the differences."""
    lines = text(make_run(output=1), make_run(output=2), accept="pytest t.py --snapshot-update").splitlines()
    assert "to accept the new run: pytest t.py --snapshot-update" in lines[:3]


def test_deep_paths_stay_short(make_run: MakeRun) -> None:
    """A change 300 levels down takes a line of the usual width."""
    one: Any = 1
    other: Any = 2
    for _ in range(300):
        one, other = {"k": one}, {"k": other}
    lines = list(explain(diff_runs(make_run(output=one), make_run(output=other))))
    assert max(map(len, lines[:4])) <= 80
    assert lines[2:5] == ["  output" + ".k" * 35 + ".…", "    golden     1", "    candidate  2"]


def test_lines_are_made_as_they_are_asked_for(make_run: MakeRun) -> None:
    """The first line of a big diff does not wait for the others."""
    found = diff_runs(make_run([("poll", turn) for turn in range(50)]), make_run([("poll", -1)] * 50))
    lines = explain(found)
    assert next(lines).startswith("refund/run-1: 50 differences")
    found.clear()
    assert len(list(lines)) < 5


def test_an_equal_diff_imports_no_deepdiff() -> None:
    """DeepDiff is loaded only where items of a list have to be told apart."""
    code = dedent("""\
        import sys
        from pytest_loom import LogBuilder, diff_runs
        from pytest_loom.evals.explain import explain

        def run(output):
            builder = LogBuilder("r", "w")
            builder.add("EXECUTION_COMPLETED", {"output": output}, timestamp=1)
            return builder.log()

        list(explain(diff_runs(run([1, {"a": 2}]), run([1, {"a": 3}]))))
        assert "deepdiff" not in sys.modules and "pydantic" not in sys.modules and "pytest" not in sys.modules
        list(explain(diff_runs(run([{"a": 2, "b": 1}]), run([{"a": 0, "b": 5}, {"a": 3, "b": 1}]))))
        assert "deepdiff" in sys.modules
        """)
    subprocess.run([sys.executable, "-c", code], check=True)
