"""``--loom-mutate`` and the flows of today: simulations judge mutants of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
MUTATE = "--loom-mutate"


def lines(desk: Desk, title: str) -> list[str]:
    """The lines of one section, without its title."""
    found = desk.result.outlines
    start = next(number for number, line in enumerate(found) if f"= pytest-loom: {title}" in line)
    after = (number for number in range(start + 1, len(found)) if found[number].startswith("="))
    end = next(after, len(found) - 1)
    return found[start + 1 : end]


def test_flows_are_mutated_where_they_are_set(desk: Desk) -> None:
    """With loom_flows set the flag simulates as well; each step that a run passes is missed when it is gone."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.log("logs/b.loom.jsonl", "r-2", "pay")
    assert desk(MUTATE) == PASSED
    assert lines(desk, "mutants") == [
        "                       mutants      killed    survived  equivalent",
        "rename-step                  2           2           -           -",
        "remove-step                  2           2           -           -",
        "no mutant of 4 survived",
    ]


def test_a_step_that_no_run_passes(desk: Desk) -> None:
    """Nothing turns red when it changes: that is a survivor, with what to record."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    assert desk(MUTATE, "--loom-report=report.json") == FAILED
    assert lines(desk, "mutants")[3:] == [
        "SURVIVED  2 mutants: rename-step, remove-step",
        "  flow refund: step pay is called pay_mutant",
        "  flow refund: step pay is gone",
        "  -> Record a run that comes by step pay, and name its log in loom_logs.",
        "2 of 4 mutants SURVIVED",
    ]
    assert [one["subject"] for one in desk.report["mutants"]["survivors"]] == ["flow refund", "flow refund"]
    assert desk.report["ok"]


def test_what_is_accepted_notices_nothing(desk: Desk) -> None:
    """An acknowledgement for everything would hide everything: the mutants show it."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess", "pay")
    ack = '[[ack]]\ncode = "step-removed"\nflow = "*"\nowner = "mia"\nreason = "fine"\nexpires = 2999-12-31\n'
    desk.write("acks.toml", ack)
    assert desk(MUTATE, "-o", "loom_acks=acks.toml") == FAILED
    section = lines(desk, "mutants")
    assert section[-1] == "4 of 4 mutants SURVIVED"
    assert "    logs/a.loom.jsonl::deploy-sim" in section
    assert "  -> 1 run comes by it, and none is broken: look at loom_policy and loom_acks." in section


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_a_mutant_is_noticed_by_any_file(desk: Desk, workers: tuple[str, ...]) -> None:
    """What one log file does not show another does, also where workers judge them."""
    for number in range(4):
        desk.log(f"logs/{number}.loom.jsonl", f"r-{number}", "assess" if number % 2 else "pay")
    assert desk.apart(MUTATE, *workers, plugins=("xdist",)) == PASSED
    assert lines(desk, "mutants")[-1] == "no mutant of 4 survived"


def test_a_broken_deploy_is_red_all_the_same(desk: Desk) -> None:
    """What is broken today is told as ever; mutants neither hide it nor count it."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess", "pay", "gone")
    assert desk(MUTATE) == FAILED
    assert lines(desk, "mutants")[-1] == "no mutant of 4 survived"
    assert "NOT SAFE TO DEPLOY: 1 of 1 run would break" in lines(desk, "deploy simulation")
