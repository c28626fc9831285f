"""Yesterday's runs on today's code. The logs in logs/yesterday were recorded by releases_v1 (make_yesterday.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_loom import (
    ApprovalError,
    Log,
    StateMigrationError,
    check_resume,
    fork,
    load_log,
    migrate,
    record,
    recorded_step_outputs,
)
from pytest_loom.plugin.facade import Loom
from releases.flow import release

YES = {"approved": True, "by": "mia"}
PROD = {"environment": "prod", "region": "eu-central", "change_ticket": "CHG-43"}


YESTERDAY = Path(__file__).parent / "logs" / "yesterday"
RELEASES = {"at-window": 41, "at-check": 42, "at-approval": 43}
"""The number of the release that each of them is of."""


def last_call(run: Log) -> dict[str, Any]:
    """What the last tool was called with."""
    args: dict[str, Any] = run.state.calls[-1].args
    return args


@pytest.mark.loom("logs/yesterday/*.loom.jsonl")
def test_what_last_week_recorded(loom_golden: Log) -> None:
    """What last week's code was asked, did and showed: all that follows builds on it, and today's cannot make it."""
    state = loom_golden.state
    number = RELEASES[Path(loom_golden.path).name.partition(".")[0]]
    assert state.variables["_input"] == {"number": number, "commit": f"9f{number}"}
    assert recorded_step_outputs(loom_golden) == {"build": f"desk:9f{number}"}
    shown = [wait.pending["args"] for wait in state.waits if wait.pending is not None]
    assert shown == [{"env": "staging"}, {"env": "prod"}][: len(shown)]
    assert {call.output for call in state.calls} <= {"deployed to staging"}


@pytest.mark.loom("logs/yesterday/at-window.loom.jsonl")
def test_a_checkpoint_of_version_2_is_migrated(loom: Loom, loom_golden: Log) -> None:
    """The saved state becomes, losslessly, what today's code would have saved itself, and the run goes on with it."""
    assert check_resume(loom_golden, release).verdict == "migrate"
    saved, version = loom_golden.state.state, loom_golden.state.state_schema_version
    today = migrate("state", saved, version, 3)
    assert today == record(release, loom_golden.state.variables["_input"]).state.state
    assert migrate("state", today, 3, 2) == saved
    later = loom.resume(loom_golden, release, event="WindowOpened")
    (wait,) = later.state.suspensions
    assert wait.pending["args"] == {"environment": "staging", "region": "eu-central", "change_ticket": None}


@pytest.mark.loom("logs/yesterday/at-check.loom.jsonl")
def test_an_event_of_version_1_is_upcast(loom: Loom, loom_golden: Log) -> None:
    """The deploy that was done under the old arguments is read under today's, and is not done again."""
    assert b'"args":{"env":"staging"}' in Path(loom_golden.path).read_bytes()
    assert last_call(loom_golden) == {"environment": "staging", "region": "eu-central", "change_ticket": None}
    decision = check_resume(loom_golden, release)
    assert "TOOL_REQUESTED is read in version 2, upcast from 1" in decision.reasons
    asked = loom.resume(loom_golden, release, event="Checked")
    assert len(asked.state.calls) == 1
    assert asked.state.suspensions[0].correlation_key == "prod"


@pytest.mark.loom("logs/yesterday/at-approval.loom.jsonl")
def test_a_wider_tool_is_asked_for_again(loom: Loom, loom_golden: Log) -> None:
    """Who was shown {"env": "prod"} has not agreed to a region, a ticket and one more permission."""
    assert check_resume(loom_golden, release).verdict == "reapprove"
    with pytest.raises(ApprovalError, match="Nothing was appended"):
        loom.resume(loom_golden, release, event="DeployDecided", payload=YES)

    asked = loom.resume(fork(loom_golden, loom_golden.state.suspensions[0].sequence - 1), release)
    assert asked.state.suspensions[0].pending["args"] == PROD
    deployed = loom.resume(asked, release, event="DeployDecided", payload=YES)
    assert last_call(deployed) == PROD


def test_an_unknown_version_is_refused(loom: Loom, tmp_path: Path) -> None:
    """A state of a version that today's code does not know, as after a rollback: nothing is read, nothing filled in."""
    newer = tmp_path / "newer.loom.jsonl"
    text = (YESTERDAY / "at-window.loom.jsonl").read_text(encoding="utf-8")
    newer.write_text(text.replace('"stateSchemaVersion":2', '"stateSchemaVersion":4'), encoding="utf-8")
    run = load_log(newer)
    decision = check_resume(run, release)
    assert (decision.verdict, decision.findings[0].code) == ("reject", "schema-unknown")
    with pytest.raises(StateMigrationError, match="from version 4 to 3"):
        loom.resume(run, release, event="WindowOpened")
    assert run.state.state == {"image": "desk:9f41", "env": "staging"}
