"""The text that ``loom_snapshot`` keeps of a run, its file names, and what a failed comparison shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loom.errors import LogError
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.plugin.snapshot import MAX_NAME, MAX_SHOWN, difference, file_name, summarize

STARTED = ("EXECUTION_STARTED", {"input": {"amount": 5}})


def log_of(*events: tuple[str, dict[str, Any]], execution_id: str = "run-0001-abcdef", at: int = 1_000) -> Log:
    """A log of the given kinds and payloads."""
    made = LogBuilder(execution_id, "refund")
    for offset, (kind, payload) in enumerate([STARTED, *events]):
        made.add(kind, payload, timestamp=at + offset)
    return made.log()


def step(name: str, output: Any) -> list[tuple[str, dict[str, Any]]]:
    """The two events of a step that went well."""
    return [("STEP_STARTED", {"stepId": name}), ("STEP_COMPLETED", {"stepId": name, "output": output})]


class TestSummary:
    def test_one_line_for_each_fact(self) -> None:
        """A finished run: workflow, status, output, then steps with tries, outputs and errors, then decisions."""
        log = log_of(
            *step("assess", {"z": 1, "a": [True, None, "é"]}),
            ("STEP_STARTED", {"stepId": "pay"}),
            ("STEP_FAILED", {"stepId": "pay", "error": {"type": "E", "message": "no"}, "willRetry": True}),
            *step("pay", "paid"),
            ("STEP_STARTED", {"stepId": "mail"}),
            ("STEP_FAILED", {"stepId": "mail", "error": {"type": "E", "message": "gone"}}),
            ("STEP_STARTED", {"stepId": "log"}),
            ("DECISION_RECORDED", {"key": "route", "value": "fast"}),
            ("EXECUTION_COMPLETED", {"output": {"ok": True}}),
        )
        assert summarize(log).splitlines() == [
            "workflow: refund",
            "status: completed",
            'output: {"ok": true}',
            'step assess: completed {"a": [true, null, "é"], "z": 1}',
            'step pay: completed after 2 attempts "paid"',
            'step mail: failed {"message": "gone", "type": "E"}',
            "step log: running",
            'decision route: "fast"',
        ]

    @pytest.mark.parametrize(
        ("event", "lines"),
        [
            (("EXECUTION_FAILED", {"error": {"type": "E"}}), ["status: failed", 'error: {"type": "E"}']),
            (("EXECUTION_CANCELLED", {"reason": "asked"}), ["status: cancelled", 'reason: "asked"']),
            (
                ("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "correlationKey": "k-1"}),
                ["status: suspended", "waits for: Approved (approval)"],
            ),
            (
                ("EXECUTION_SUSPENDED", {"on": ["Yes", "No"], "kind": "question"}),
                ["status: suspended", "waits for: Yes, No (question)"],
            ),
        ],
    )
    def test_how_a_run_ended_or_what_it_waits_for(self, event: tuple[str, dict[str, Any]], lines: list[str]) -> None:
        """Failures, cancellations and open waits have their line; correlation keys, which are ids, are left out."""
        assert summarize(log_of(event)).splitlines() == ["workflow: refund", *lines]

    def test_a_state_is_the_same_as_its_log(self) -> None:
        """A log and its folded state give one text."""
        log = log_of(*step("assess", 1))
        assert summarize(log.state) == summarize(log)

    def test_ids_and_times_make_no_difference(self) -> None:
        """Another id, also where values quote it, and other times, clocks and random values: the same bytes."""

        def made(name: str, at: int) -> str:
            return summarize(
                log_of(
                    *step("assess", {"key": f"{name}:assess", name: 1, "text": f"line\n{name} is done"}),
                    ("DECISION_RECORDED", {"key": "now", "value": at}),
                    ("DECISION_RECORDED", {"key": "now", "value": at + 1}),
                    ("DECISION_RECORDED", {"key": "uuid", "value": f"u-{at}"}),
                    execution_id=name,
                    at=at,
                )
            )

        text = made("run-0001-abcdef", 1_000)
        assert text == made("run-0002-ghijkl", 2_000)
        assert "run-0001" not in text
        assert '"text": "line\\n<execution> is done"' in text

    def test_an_id_is_replaced_only_where_it_is_one(self) -> None:
        """A short id, or a longer word that contains the id, is left as it stands."""
        assert 'step a: completed "7 of 7"' in summarize(log_of(*step("a", "7 of 7"), execution_id="7"))
        assert 'completed "xrun-0001-abcdefy"' in summarize(log_of(*step("a", "xrun-0001-abcdefy")))

    def test_the_order_in_which_steps_happened_makes_no_difference(self) -> None:
        """In concurrent branches, that is, which start in any order; else steps stand as they were started."""

        def run(*steps: str) -> str:
            builder = LogBuilder("run-0001-abcdef", "refund")
            for number, name in enumerate(steps):
                for kind, value in step(name, 0):
                    builder.add(kind, value, timestamp=number, branch=name if concurrent else None)
            return summarize(builder.log())

        concurrent = True
        assert run("parse", "fetch") == run("fetch", "parse")
        concurrent = False
        assert run("parse", "fetch") != run("fetch", "parse")
        lines = run("poll", "parse", *["poll"] * 10).splitlines()
        assert [line.partition(":")[0] for line in lines[2:]] == [
            "step poll",
            "step parse",
            *(f"step poll#{n}" for n in range(2, 12)),
        ]

    @pytest.mark.parametrize("value", ["a\u2028b\u202ec\x1b[31m", "\U000e0001", "x\r\ny", "9" * 5000])
    def test_values_from_a_log_cannot_forge_a_line(self, value: Any) -> None:
        """Line breaks, control characters and text-direction marks are written as escapes; every text can be stored."""
        text = summarize(log_of(*step(f"s {value}", value)))
        assert text.isascii()
        assert len(text.splitlines()) == 3
        assert all(line.isprintable() for line in text.splitlines())

    @pytest.mark.parametrize("value", [{"a": 1}, None, "run", [1]])
    def test_anything_but_a_run_is_refused(self, value: Any) -> None:
        """The error says what was given and what is wanted."""
        with pytest.raises(TypeError, match=f"a Log or an ExecutionState, not {type(value).__name__}"):
            summarize(value)

    def test_a_log_that_cannot_be_folded_says_so(self) -> None:
        """The log's own error comes through."""
        with pytest.raises(LogError, match="STEP_STARTED does not have its shape"):
            summarize(log_of(("STEP_STARTED", {})))


class TestFileName:
    @pytest.mark.parametrize("name", ["test_a", "TestA.test_b[x-1]", "test_a[x].2", "test_é"])
    def test_a_harmless_name_stays(self, name: str) -> None:
        """Most tests' files are named as the test is."""
        assert file_name(name) == name

    def test_names_that_differ_in_unsafe_characters_stay_distinct(self) -> None:
        """Characters that file systems refuse are replaced, and a hash of the true name is added."""
        names = [f"test_a[{part}]" for part in ("a/b", "a\\b", "a:b", "a?b", "a_b", "ab", "a\tb", "a\udc80b")]
        made = [file_name(name) for name in names]
        assert len(set(made)) == len(names)
        assert made[0].startswith("test_a[a_b]~")

    @given(st.lists(st.text(max_size=400).map("test_a[{}]".format), min_size=2, max_size=2, unique=True))
    def test_any_two_names_are_two_files(self, names: list[str]) -> None:
        """Whatever the parameters: safe characters only, not too long, never the same file."""
        made = [file_name(name) for name in names]
        assert made[0] != made[1]
        assert all(len(name.encode()) <= MAX_NAME for name in made)
        assert not any(set(name) & set('\\/?*:|"<>') or not name.isprintable() for name in made)

    def test_a_long_test_name_stays_whole(self) -> None:
        """syrupy tells by the first identifier which test a snapshot is of, and warns where it cannot."""
        name = "test_" + "x" * 140
        assert file_name(f"{name}[{'y' * 300}]").startswith(f"{name}~")
        assert len(file_name("test_" + "x" * 400)) == 209


def shown(received: Sequence[str], kept: Sequence[str]) -> list[str]:
    """The lines of the difference of two summaries."""
    return list(difference("".join(f"{line}\n" for line in received), "".join(f"{line}\n" for line in kept)))


class TestDifference:
    def test_every_changed_line_and_no_other(self) -> None:
        """Changed facts stand side by side, however far apart they are; what is equal is not shown."""
        kept = [f"step s{number}: completed {number}" for number in range(2_000)]
        received = list(kept)
        received[3] = "step s3: failed 3"
        received[1990] = "step s1990: completed 0"
        del received[1000]
        received.append("decision x: 1")
        assert shown(received, kept) == [
            "The run is not what the snapshot says (- snapshot, + this run; --snapshot-update accepts it):",
            "- step s3: completed 3",
            "+ step s3: failed 3",
            "- step s1000: completed 1000",
            "- step s1990: completed 1990",
            "+ step s1990: completed 0",
            "+ decision x: 1",
        ]

    def test_waits_are_told_apart(self) -> None:
        """Of several open waits only the one that is new or gone is shown."""
        kept = ["status: suspended", "waits for: A (approval)", "waits for: B (approval)"]
        assert shown([kept[0], kept[2]], kept)[1:] == ["- waits for: A (approval)"]

    def test_a_missing_snapshot_shows_the_run(self) -> None:
        """syrupy gives an empty text where there is no snapshot yet: then the whole summary is new."""
        assert shown(["workflow: a", "status: b"], []) == [
            "The run came to (--snapshot-update accepts it):",
            "+ workflow: a",
            "+ status: b",
        ]

    def test_a_long_line_is_cut_around_the_change(self) -> None:
        """The first character that differs is always among those shown."""
        kept, received = (
            f"step a: completed {json.dumps('x' * 5_000 + word + 'y' * 5_000)}" for word in ("old", "new")
        )
        _, minus, plus = shown([received], [kept])
        assert "old" in minus
        assert "new" in plus
        assert max(len(minus), len(plus)) <= MAX_SHOWN + 4

    def test_other_line_ends_are_named(self) -> None:
        """A file whose last line end is gone differs, though no line does."""
        assert list(difference("a\n", "a")) == [
            "The run is what the snapshot says, but the file ends its lines otherwise."
        ]

    def test_nothing_is_raised(self) -> None:
        """Where the texts are none, the difference says so instead of taking the assertion down."""
        assert "cannot be shown" in list(difference(None, "x"))[-1]  # type: ignore[arg-type]  # on purpose
