"""What many runs of Temporal tell together: patches and chains, and that parts add up in any order."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pytest_loom import Log, LogBuilder, simulate_deploy
from pytest_loom.deploy.lineage import Lineage
from pytest_loom.deploy.report import DeployReport
from pytest_loom.report.json import read_json, write_json
from pytest_loom.report.ways import ways_of

FLOW = {"workflowId": "Loan", "engine": "journal"}


def run(name: str, *patches: str | tuple[str, Any], before: str = "", after: str = "", over: bool = False) -> Log:
    """A run with markers: a name, or a name and "deprecated" or a version."""
    made = LogBuilder(name, "Loan")
    made.add("EXECUTION_STARTED", {"temporal": {"continuedExecutionRunId": before} if before else {}}, timestamp=0)
    for told in patches:
        patch, how = told if isinstance(told, tuple) else (told, "plain")
        payload = {"key": f"patch:{patch}", "value": how if isinstance(how, int) else True}
        made.add("DECISION_RECORDED", payload | ({"deprecated": True} if how == "deprecated" else {}), timestamp=1)
    if after:
        made.add("EXECUTION_CONTINUED", {"newExecutionId": after, "input": None}, timestamp=2)
    elif over:
        made.add("EXECUTION_COMPLETED", {}, timestamp=2)
    else:
        made.add("EXECUTION_SUSPENDED", {"on": "*", "kind": "event"}, timestamp=2)
    return made.log(source="temporal")


def notes(*logs: Log, today: dict[str, str] | None = None) -> list[str]:
    """What is said of these runs."""
    seen = Lineage()
    for log in logs:
        seen.see(log, today)
    return seen.notes()


class TestPatches:
    def test_a_patch_stays_as_long_as_a_run_has_no_marker(self) -> None:
        """Such a run may be on the old way."""
        assert notes(run("a", "fraud"), run("b")) == [
            "patch fraud of Loan: 1 run of 2 that are unfinished have no marker of it and may be on the old way:"
            " workflow.patched has to stay"
        ]

    def test_it_may_be_deprecated_once_all_have_one(self) -> None:
        """The runs that need it still are named, and those that are over do not count."""
        told = notes(run("a", "fraud"), run("b", "fraud"), run("c", over=True), today={"fraud": "patched"})
        assert told == [
            "patch fraud of Loan: every unfinished run has its marker, so workflow.patched may become"
            " workflow.deprecate_patch; 2 runs still need that (a, b)"
        ]

    def test_a_deprecated_one_is_needed_or_may_be_deleted(self) -> None:
        """A marker that is not deprecated needs the call; a deprecated one needs nothing."""
        today = {"fraud": "deprecated"}
        assert notes(run("a", "fraud"), run("b", ("fraud", "deprecated")), today=today) == [
            "patch fraud of Loan: deprecate_patch is still needed by 1 run (a)"
        ]
        assert notes(run("a", ("fraud", "deprecated")), today=today) == [
            "patch fraud of Loan: no unfinished run needs it any more, so it may be deleted"
        ]
        (told,) = notes(run("a", ("fraud", "deprecated")), run("b"), today=today)
        assert told.endswith("workflow.patched has to come back for them")

    def test_one_that_today_s_code_does_not_name(self) -> None:
        """Needed by a plain marker, by a deprecated one not."""
        assert notes(run("a", "fraud"), today={}) == [
            "patch fraud of Loan, which the module of today's class does not name, is needed by 1 run (a)"
        ]
        assert notes(run("a", ("fraud", "deprecated")), today={}) == []

    def test_versions_of_other_sdks(self) -> None:
        """Go and Java count up; which versions are in use is told."""
        assert notes(run("a", ("fee", 1)), run("b", ("fee", 2)), run("c")) == [
            "patch fee of Loan: unfinished runs are on version 1 (1), 2 (1), and 1 run without its marker"
        ]


class TestChains:
    def test_a_whole_chain(self) -> None:
        """Runs that continue each other are one chain."""
        told = notes(run("a", after="b"), run("b", before="a", after="c"), run("c", before="b"), run("x"))
        assert told == ["continued as new: 3 runs in 1 chain, none of them with a gap"]

    def test_missing_links_are_named(self) -> None:
        """What is not here is told from whichever side it is missed."""
        (told,) = notes(run("a", after="b"), run("d", before="c"))
        assert told == (
            "continued as new: 2 runs in 2 chains; a continues as b, which is not here;"
            " d continues c, which is not here"
        )


def test_parts_add_up_to_the_same_in_any_order(tmp_path: Path) -> None:
    """In memory, between processes and as files; words of one part are not kept beside those of the whole."""
    logs = [run("a", "fraud", after="b"), run("b", before="a"), run("c", "fraud"), run("d", before="z")]
    whole = simulate_deploy(logs, FLOW)
    assert len(whole.all_notes()) == len(whole.notes) + 2
    for order in itertools.permutations(logs):
        parts = [DeployReport.unpacked(simulate_deploy([log], FLOW).packed()) for log in order]
        assert DeployReport.merge(parts).lineage.as_dict() == whole.lineage.as_dict()
    reports = []
    for number, log in enumerate(logs):
        path = tmp_path / f"{number}.json"
        write_json(simulate_deploy([log], FLOW), path, ok=True, extra={})
        reports.append(read_json(path)[0])
    assert sorted(DeployReport.merge(reports).all_notes()) == sorted(whole.all_notes())


class TestContinuedInput:
    def found(self, *, pinned: bool = False, **facts: Any) -> list[tuple[str, str]]:
        """What is found of a run that continued with an order of yesterday's shape."""
        made = LogBuilder("a", "Loan")
        made.add("EXECUTION_STARTED", {"manifest": {"pinnedTo": "loans:7"} if pinned else {}}, timestamp=0)
        made.add("EXECUTION_CONTINUED", {"newExecutionId": "b", "input": {"amount": 5}, **facts}, timestamp=1)
        takes = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
        report = simulate_deploy([made.log(source="temporal")], FLOW | {"inputSchema": takes})
        return [(found.code, found.severity) for found in report.findings]

    def test_what_the_next_run_begins_with(self) -> None:
        """It is today's code that reads it."""
        assert self.found() == [("input-contract", "breaking")]
        assert self.found(input={"cents": 5}) == []
        assert self.found(workflowType="Other") == []

    def test_a_pinned_run_hands_its_version_on(self) -> None:
        """Unless it asks to be moved up at that point."""
        assert self.found(pinned=True) == []
        assert self.found(pinned=True, initialVersioningBehavior="AutoUpgrade") == [("input-contract", "breaking")]


def test_an_input_that_is_lost_has_a_way_out_that_temporal_has() -> None:
    """A run of Temporal is taken over by no ``resume_as``: the old name is read, or the old code finishes it."""
    made = LogBuilder("a", "Loan")
    made.add("EXECUTION_STARTED", {"input": {"note": "gift"}}, timestamp=0)
    made.add("EXECUTION_SUSPENDED", {"on": "*", "kind": "event"}, timestamp=2)
    schema = {"type": "object", "properties": {"remark": {"type": "string", "default": ""}}}
    report = simulate_deploy(made.log(source="temporal"), {"Loan": {**FLOW, "inputSchema": schema}})
    (found,) = [found for found in report.findings if found.code == "input-contract"]
    ways = [found.hint, *(way.code for way in ways_of([found]))]
    assert "worker versioning, pinned" in found.hint
    assert not any("resume_as" in way for way in ways)
    assert any("old_name: str" in way for way in ways)
