"""The deploy report for a terminal, as plain expected text: what a tired engineer has to understand in ten seconds."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loom import DeployReport, Finding
from pytest_loom.contract.changes import ContractChange
from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import RunResult
from pytest_loom.report.text import (
    causes,
    contract_lines,
    finding_lines,
    full_lines,
    strategy_lines,
    verdict_line,
    weight,
)


def found(number: int = 1, code: str = "step-removed", severity: Any = "breaking", **other: Any) -> Finding:
    """A finding about refund run r-NUMBER."""
    facts: dict[str, Any] = {"workflow_id": "refund", "execution_id": f"r-{number}", "step": "assess"}
    facts |= {"message": "It would run again.", "hint": "Keep it.", "source": f"logs/{number}.loom.jsonl", **other}
    return Finding(code, severity, **facts)


def text(*findings: Finding, **options: Any) -> str:
    """The lines as one text."""
    return "\n".join(finding_lines(findings, **options))


class TestVerdict:
    @pytest.mark.parametrize(
        ("report", "line"),
        [
            (
                DeployReport([found(), found(2), found(2, step="pay")], examined=7),
                "NOT SAFE TO DEPLOY: 2 of 7 runs would break",
            ),
            (DeployReport([found()], examined=1), "NOT SAFE TO DEPLOY: 1 of 1 run would break"),
            (
                DeployReport([found(), found(2, severity="warning")], examined=2, skipped=4),
                "NOT SAFE TO DEPLOY: 1 of 2 runs would break, 1 warning, 4 finished left out",
            ),
            (
                DeployReport([found(severity="warning"), found(2, severity="warning")], examined=7, in_flight=4),
                "no breaking change found for 7 runs, 4 of them unfinished, 2 warnings",
            ),
            (DeployReport(examined=1), "no breaking change found for 1 run, none of them unfinished"),
            (DeployReport(skipped=3), "no unfinished run, so nothing can break, 3 finished left out"),
            (
                DeployReport([found(acknowledged="ann")], examined=2, in_flight=1),
                "no breaking change found for 2 runs, 1 of them unfinished, 1 acknowledged",
            ),
        ],
    )
    def test_one_line(self, report: DeployReport, line: str) -> None:
        """May this be deployed, how many runs say so, and what else there is to look at."""
        assert verdict_line(report) == line


class TestFindings:
    def test_one(self) -> None:
        """How bad, which code, where; what would happen; to whom; what to do."""
        assert text(found()) == (
            "breaking  step-removed  refund, step assess\n"
            "  It would run again.\n"
            "    r-1  logs/1.loom.jsonl\n"
            "  -> Keep it."
        )

    def test_many_runs_with_one_cause(self) -> None:
        """Fifty runs of one cause are one paragraph: the number, three of them, and where the others are."""
        assert text(*(found(number) for number in range(1, 51))) == (
            "breaking  step-removed  refund, step assess, 50 runs\n"
            "  It would run again.\n"
            "    r-1  logs/1.loom.jsonl\n"
            "    r-2  logs/2.loom.jsonl\n"
            "    r-3  logs/3.loom.jsonl\n"
            "    and 47 more (all are in the report: --loom-report=report.json)\n"
            "  -> Keep it."
        )

    def test_the_worst_first(self) -> None:
        """Breaking (what was accepted after what was not) before warning before info, as found or not."""
        found_ = [found(1, "a", "info"), found(2, "b", "warning"), found(5, "d", acknowledged="ann"), found(3, "c")]
        found_.append(found(4, "b", "warning", step=None))
        heads = [line for line in finding_lines(found_) if not line.startswith(" ")]
        assert heads == [
            "breaking  c  refund, step assess",
            "acknowledged  d  refund, step assess",
            "warning  b  refund, step assess",
            "warning  b  refund",
            "info  a  refund, step assess",
        ]

    def test_what_differs_within_a_cause_is_said_with_the_run(self) -> None:
        """Runs of one cause may wait for different things: the head is the first one's, the others say their own."""
        assert text(found(), found(2, message="It waits for Paid."), found(3)) == (
            "breaking  step-removed  refund, step assess, 3 runs\n"
            "  It would run again.\n"
            "    r-1  logs/1.loom.jsonl\n"
            "    r-2  logs/2.loom.jsonl\n"
            "      It waits for Paid.\n"
            "    r-3  logs/3.loom.jsonl\n"
            "  -> Keep it."
        )

    def test_acknowledged(self) -> None:
        """A cause that is acknowledged for all its runs says so at its head; else only the runs that are."""
        accepted = found(acknowledged="ann until 2027-01-31: finished by hand")
        assert text(accepted) == (
            "acknowledged  step-removed  refund, step assess\n"
            "  It would run again.\n"
            "    r-1  logs/1.loom.jsonl\n"
            "      acknowledged by ann until 2027-01-31: finished by hand\n"
            "  -> Keep it."
        )
        assert text(accepted, found(2)).splitlines()[0] == "breaking  step-removed  refund, step assess, 2 runs"

    def test_what_is_red_is_shown_before_what_was_accepted(self) -> None:
        """Of one cause, the three runs that are shown are such as nobody has accepted, if there are any."""
        accepted = [found(number, acknowledged="ann") for number in range(1, 4)]
        shown = text(*accepted, found(4))
        assert "    r-4  logs/4.loom.jsonl\n" in shown
        assert "    and 1 more (" in shown

    def test_long_text_is_wrapped(self) -> None:
        """Sentences keep to 80 columns, and go on below where they began."""
        lines = text(found(message="word " * 40, hint="do this " * 20)).splitlines()
        assert all(len(line) <= 80 for line in lines)
        assert [line[:5] for line in lines[1:4]] == ["  wor"] * 3
        assert [line[:5] for line in lines[-3:]] == ["  -> ", "     ", "     "]

    def test_a_log_without_a_run(self) -> None:
        """A file that cannot be read at all has neither flow nor run: that is said, too."""
        broken = found(code="log-unreadable", workflow_id="", execution_id="", step=None)
        assert text(broken).splitlines()[0] == "breaking  log-unreadable  unknown flow"
        assert text(broken).splitlines()[2] == "    (no execution named)  logs/1.loom.jsonl"

    def test_names_from_logs_stay_on_their_line(self) -> None:
        """Control characters and endless names of a log cannot forge or flood the terminal."""
        name = "x\nSAFE TO DEPLOY\x1b[2J\u2028" + "y" * 5_000
        hostile = found(workflow_id=name, execution_id=name, step=name, source=name, acknowledged=name)
        shown = text(hostile)
        assert all(line.isprintable() for line in shown.split("\n"))
        assert not any(line.startswith("SAFE") for line in shown.split("\n"))
        assert max(len(line) for line in shown.split("\n")) < 400

    def test_nothing(self) -> None:
        """No finding, no line."""
        assert list(finding_lines([])) == []

    def test_no_more_causes_than_a_screen_has_room_for(self) -> None:
        """Ten thousand runs that break in a hundred ways: the first causes, and how many more there are."""
        many = [found(number, step=f"step-{number % 100}") for number in range(10_000)]
        lines = list(finding_lines(many, most=12))
        assert sum(line.startswith("breaking") for line in lines) == 12
        assert lines[-1] == "and 88 more causes (-v shows all of them)"
        assert len(lines) < 100

    def test_since_which_contract_change(self) -> None:
        """Where contracts are kept, a cause says which change of them is its own."""
        assert text(found(), changed=[CHANGED]) == (
            "breaking  step-removed  refund, step assess\n"
            "  It would run again.\n"
            "    r-1  logs/1.loom.jsonl\n"
            "  since contract 11111111 -> 22222222: step assess is gone\n"
            "  -> Keep it."
        )


CHANGED = ChangedContract(
    "refund",
    "1" * 16,
    "2" * 16,
    (ContractChange("step", "assess", "", "removed", "breaking", "step assess is gone"),),
    2,
)


class TestFull:
    """What -v shows."""

    def test_one(self) -> None:
        """Beside what is always there: what was recorded, what today has, what a resume does, and what to paste."""
        recorded = "step assess completed, event 3 of 4"
        one = found(recorded=recorded, today="refund 2 has no step assess", version="1.0.0", engine="native")
        shown = full_lines([one], changed=[CHANGED])
        assert "\n".join(shown) == (
            "breaking  step-removed  refund 1.0.0, step assess\n"
            "  It would run again.\n"
            "    r-1  logs/1.loom.jsonl\n"
            "  recorded: step assess completed, event 3 of 4\n"
            "  today: refund 2 has no step assess\n"
            "  on resume: The recorded result is not used, and the work is done a second\n"
            "    time.\n"
            "  since contract 11111111 -> 22222222: step assess is gone\n"
            "  -> Keep it.\n"
            "  patch: Give the step its id back, whatever the function is called:\n"
            '       @step(id="assess")\n'
            "  pin: Keep a worker of that version, and name it in the file of loom_policy:\n"
            "       [[worker]]\n"
            '       flow = "refund"\n'
            '       version = "1.0.0"\n'
            "  accept: Accept it until a day, in the file of loom_acks:\n"
            "       [[ack]]\n"
            '       code = "step-removed"\n'
            '       flow = "refund"\n'
            '       step = "assess"\n'
            '       owner = "you@example.org"\n'
            '       reason = "why it may be"\n'
            "       expires = YYYY-MM-DD"
        )

    def test_every_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All runs of a cause are named, each with its own facts, however many there are: few are in memory."""
        monkeypatch.setattr("pytest_loom.deploy.rows.IN_MEMORY", 100)
        many = [found(number, step=f"step-{number % 3}", recorded=f"event {number}") for number in range(1_000)]
        lines = list(full_lines(found for found in many))
        assert sum(line.startswith("    r-") for line in lines) == 1_000
        assert lines.count("      event 7") == 1
        heads = [line for line in lines if line.startswith("breaking")]
        assert heads == [f"breaking  step-removed  refund, step step-{n}, {334 - (n > 0)} runs" for n in range(3)]

    def test_the_same_causes_where_they_are_without_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where causes are put together because there are too many, each run is still told once."""
        monkeypatch.setattr("pytest_loom.report.text._CAUSES", 5)
        many = [found(number, step=f"step-{number}", workflow_id=f"flow-{number % 20}") for number in range(100)]
        lines = list(full_lines(many))
        assert sum(line.startswith("    r-") for line in lines) == 100
        assert sum(line.startswith("breaking") for line in lines) == 11

    def test_names_from_logs_stay_on_their_line(self) -> None:
        """Facts and lines to paste cannot forge a line of the terminal either."""
        name = "x\nSAFE TO DEPLOY\x1b[2J\u2028" + "y" * 5_000
        hostile = found(workflow_id=name, step=name, recorded=name, today=name, version=name, execution_id=name)
        assert all(line.isprintable() and not line.startswith("SAFE") for line in full_lines([hostile, found()]))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("breaking  step-removed  refund", "breaking"),
        ("NOT SAFE TO DEPLOY: 1 of 2 runs would break", "NOT SAFE TO DEPLOY"),
        ("no breaking change found for 1 run", "no breaking change found"),
        ("  breaking: step assess is gone", ""),
        ("breakingly named", ""),
        ("note: breaking", ""),
    ],
)
def test_what_is_painted(line: str, word: str) -> None:
    """Only a word that weighs, at the very beginning of a line that begins with words of ours."""
    assert weight(line) == word


class TestStrategies:
    @staticmethod
    def lines(*ways: dict[str, Any]) -> list[str]:
        """The table for runs of which each strategy makes this."""
        runs = [RunResult(f"r-{n}", "refund", "suspended", "resume", "s", way) for n, way in enumerate(ways)]
        return list(strategy_lines(DeployReport(runs=runs)))

    def test_the_table(self) -> None:
        """Each strategy, and how many runs it lets go on, hands to a person and strands: six lines of 80 columns."""
        one = {"compatible-window": "upcast", "pinned-workers": "pin", "explicit-migration": "upcast"}
        two = dict.fromkeys(one, "reject")
        lines = self.lines({**one, "fail-closed": "fork"}, {**two, "fail-closed": "reapprove"}, {})
        assert lines == [
            "strategies for 2 unfinished runs:",
            "                           go on   need a person    stranded",
            "  compatible-window            1               0           1",
            "  pinned-workers               1               0           1",
            "  explicit-migration           1               0           1",
            "  fail-closed                  0               2           0",
        ]
        assert max(map(len, lines)) <= 80

    @pytest.mark.parametrize("ways", [[], [{}], [{"a": "resume", "b": "resume"}, {}]])
    def test_where_there_is_nothing_to_choose(self, ways: list[dict[str, Any]]) -> None:
        """Runs that simply go on, whatever the strategy, need no table; nor do those that are over."""
        assert self.lines(*ways) == []

    @pytest.mark.parametrize("way", [{"a": "resume", "b": "pin"}, {"a": "fork", "b": "fork"}])
    def test_where_there_is(self, way: dict[str, Any]) -> None:
        """Strategies that differ, and a run that does not simply go on, are worth the table."""
        assert self.lines({"a": "resume", "b": "resume"}, way)[0] == "strategies for 2 unfinished runs:"


class TestContracts:
    @staticmethod
    def change(effect: Any, detail: str, version: str | None = None) -> ContractChange:
        """A change of that effect."""
        return ContractChange("step", "s", "", "k", effect, detail, version)

    def test_what_changed_and_whom_it_hurts(self) -> None:
        """The two contracts, the runs between them, the worst first, words as a number, and what should have moved."""
        changes = (
            self.change("additive", "step note is new", "flowVersion"),
            *(self.change("breaking", f"step s{n} is gone", "flowVersion") for n in range(5)),
            self.change("unknown", "the input: it cannot be told", "flowVersion"),
            self.change("breaking", "the state, cents: it is gone", "stateSchemaVersion"),
            self.change("cosmetic", "step s: only words or order differ"),
        )
        changed = ChangedContract("refund", "3912a7de00000000", "4d48429a00000000", changes, 3)
        assert list(contract_lines(DeployReport(changed=[changed]))) == [
            "contract  refund 3912a7de -> 4d48429a, 3 unfinished runs",
            "  breaking: step s0 is gone; step s1 is gone; step s2 is gone; and 3 more",
            "  unknown: the input: it cannot be told",
            "  additive: step note is new",
            "  cosmetic: 1",
            "  flowVersion, stateSchemaVersion should have moved",
        ]

    def test_one_that_needs_no_more(self) -> None:
        """Where the numbers moved and nothing breaks there is little to say; hostile names stay on their line."""
        changed = ChangedContract("re\nfund", "1a", "2b", (self.change("additive", "step note is new"),), 1)
        head, line = contract_lines(DeployReport(changed=[changed]))
        assert (head.isprintable(), head.endswith(" 1a -> 2b, 1 unfinished run")) == (True, True)
        assert line == "  additive: step note is new"


def test_flows_without_number() -> None:
    """Where every run is of a flow of its own, the causes are still bounded: the rest is one of many flows."""
    some = causes((found(number, workflow_id=f"f-{number}", step=f"s-{number}") for number in range(5000)), 1)
    assert (len(some), len({cause.key for cause in some}), max(cause.count for cause in some)) == (2001, 2001, 3000)
