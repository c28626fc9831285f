"""Errors: they say what, where and what next, cross process borders, and cannot be used to forge output."""

from __future__ import annotations

import copy
import pickle

import pytest

from pytest_loom.errors import (
    FlowError,
    LiveCallError,
    LogError,
    LoomError,
    MigrationError,
    RecordingError,
    ReplayDivergence,
    ScoreError,
    StateMigrationError,
    StepError,
    UnknownSchemaVersion,
    Unsupported,
    UpcastError,
    folded,
    printable,
)

EVERY = [
    FlowError,
    LiveCallError,
    LogError,
    LoomError,
    MigrationError,
    RecordingError,
    ReplayDivergence,
    ScoreError,
    StateMigrationError,
    StepError,
    UnknownSchemaVersion,
    Unsupported,
    UpcastError,
]


class TestLoomError:
    def test_every_error_is_a_loom_error(self) -> None:
        """``except LoomError`` catches what we raise on purpose; a LogError is a ValueError as well."""
        assert all(issubclass(kind, LoomError) for kind in EVERY)
        assert issubclass(UnknownSchemaVersion, LogError)
        assert issubclass(LogError, ValueError)

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            ({}, "broken"),
            ({"path": "a.jsonl"}, "a.jsonl: broken"),
            ({"path": "a.jsonl", "line": 3}, "a.jsonl:3: broken"),
            ({"line": 3}, "broken"),
            ({"execution_id": "run-1"}, "execution run-1: broken"),
            (
                {"path": "a.jsonl", "line": 3, "execution_id": "run-1", "step": "pay", "hint": "Mend it."},
                "a.jsonl:3, execution run-1, step pay: broken\n  Mend it.",
            ),
        ],
    )
    def test_its_text_says_where_as_far_as_it_is_known(self, facts: dict[str, object], expected: str) -> None:
        """File and line first, in the form that editors open; the hint on a line of its own."""
        assert str(LogError("broken", **facts)) == expected  # type: ignore[arg-type]

    @pytest.mark.parametrize("kind", EVERY)
    def test_it_pickles_and_copies_with_everything_it_knows(self, kind: type[LoomError]) -> None:
        """pytest-xdist and executors carry errors between processes."""
        error = kind("broken", path="a.jsonl", line=3, execution_id="run-1", step="pay", hint="Mend it.")
        error.add_note("seen twice")
        copies = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
        for again in [*copies, copy.copy(error), copy.deepcopy(error)]:
            assert type(again) is kind
            assert (str(again), again.args) == (str(error), ("broken",))
            assert vars(again) == vars(error)
            assert again.__notes__ == ["seen twice"]

    def test_names_out_of_logs_and_files_are_printable(self) -> None:
        """Neither an execution's id nor a step's nor a file's name forges a line, or stops a terminal."""
        error = LogError(
            "broken", path="a\n\udc80.jsonl", line=1, execution_id="x\r\x1b[31m", step="\u2028\u202e" + "y" * 999
        )
        assert error.where.isprintable()
        assert len(error.where) < 400
        str(error).encode("utf-8")


class TestPrintable:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain text", "plain text"),
            ("Zürich 🚀 日本", "Zürich 🚀 日本"),
            ("a\nb\r\tc\0", "a\\nb\\r\\tc\\x00"),
            ("\x1b[31mred", "\\x1b[31mred"),
            ("\u2028\u2029\x85", "\\u2028\\u2029\\x85"),
            ("\u202eevil\u200b", "\\u202eevil\\u200b"),
            ("\ud800", "\\ud800"),
            ("", ""),
        ],
    )
    def test_control_characters_are_escaped_and_letters_are_not(self, text: str, shown: str) -> None:
        """Line breaks, colours, direction marks and lone surrogates are shown, not obeyed."""
        assert printable(text) == shown

    def test_it_is_cut_to_the_limit(self) -> None:
        """A megabyte of a name does not fill the screen, escaped or not."""
        assert printable("x" * 120) == "x" * 120
        assert printable("x" * 121) == "x" * 119 + "…"
        assert len(printable("\n" * 1_000_000)) == 120
        assert printable("abcdef", 4) == "abc…"


def test_lines_of_a_terminals_width() -> None:
    """What an error says is folded between words only, deeper than the line itself; a name stays in one piece."""
    said = f"loom_flows = a:b: {'word ' * 12}{'long-name' * 10}\n  Did you mean c?"
    lines = folded(said).splitlines()
    assert lines[-1] == "  Did you mean c?"
    assert lines[-2] == f"    {'long-name' * 10}"
    assert " ".join(" ".join(lines).split()) == " ".join(said.split())
    assert all(len(line) <= 80 for line in lines[:-2])


def test_a_hint_of_a_divergence_is_folded_between_words() -> None:
    """What is to be typed has no break at a hyphen."""
    error = ReplayDivergence(
        "it differs", hint='Keep the old way: if workflow.patched("the-name-of-the-change-as-it-is-called").'
    )
    assert '"the-name-of-the-change-as-it-is-called"' in str(error)
