"""Notes on the corpus at the end of a deploy simulation: what no recorded run comes by, and how old they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

PASSED, USAGE = pytest.ExitCode.OK, pytest.ExitCode.USAGE_ERROR
SIM = "--loom-deploy-sim"
LOGS = ("-o", "loom_logs=logs/*.jsonl")


def lines(desk: Desk) -> list[str]:
    """The lines of the simulation's section, without its title."""
    found = desk.result.outlines
    start = next(number for number, line in enumerate(found) if "= pytest-loom: deploy simulation" in line)
    after = (number for number in range(start + 1, len(found)) if found[number].startswith("="))
    end = next(after, len(found) - 1)
    return found[start + 1 : end]


def test_the_corpus_is_looked_at(desk: Desk) -> None:
    """Where loom_logs says what the corpus is, a simulation says what it lacks; -q does not."""
    desk.write(
        "app.py", "step = {'assess': {}, 'pay': {}}\nflows = {n: {'workflowId': n, 'steps': step} for n in 'ab'}\n"
    )
    desk.log("logs/a.loom.jsonl", "r-1", "assess", flow="a")
    assert desk(SIM, *LOGS, "-o", "loom_max_age=90") == PASSED
    assert lines(desk) == [
        "note: no run of b is recorded: whatever changes there, this simulation is green",
        "note: no recorded run of a comes by step pay",
        *(line for line in lines(desk) if "newest run of a is of 1970-01-01" in line),
        "no breaking change found for 1 run, none of them unfinished",
    ]
    assert desk(SIM, *LOGS, "-q") == PASSED
    assert len(lines(desk)) == 1
    assert desk(SIM) == PASSED
    assert len(lines(desk)) == 1


def test_a_part_of_the_corpus_cannot_tell(desk: Desk) -> None:
    """Shards and selections do not see what others do."""
    desk.log("logs/a.loom.jsonl", "r-1", "assess")
    desk.log("logs/b.loom.jsonl", "r-2", "assess")
    assert desk(SIM, *LOGS, "logs/a.loom.jsonl") == PASSED
    assert not any("comes by" in line for line in lines(desk))
    assert desk(SIM, *LOGS, "--loom-shard=1/2") == PASSED
    assert not any("comes by" in line for line in lines(desk))


@pytest.mark.parametrize("days", ["0", "-3", "a week", "nan"])
def test_a_number_of_days(desk: Desk, days: str) -> None:
    """loom_max_age is a number of days or nothing."""
    assert desk("-o", f"loom_max_age={days}") == USAGE
    desk.result.stderr.fnmatch_lines([f"*loom_max_age: '{days}' is no number of days*"])
