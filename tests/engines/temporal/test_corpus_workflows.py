"""Published histories with the workflows that their commands describe, changed in ways that break them and that do not.

Every line of the table is checked twice: by the real Replayer, whose word the table only repeats, and by the deploy
simulation, which has to agree with it where it is right, and to see more where it is blind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_loom import contract_of, load_logs, simulate_deploy
from pytest_loom.deploy.report import Finding
from tests.engines.temporal.command import simulate
from tests.engines.temporal.histories import counted, cut, write
from tests.engines.temporal.published import CASES, CAUGHT, FAILS, LOAN, SILENT, WARNED, Case
from tests.engines.temporal.replayer import ask, events_of, workflow_class

pytest.importorskip("temporalio", reason="needs the extra temporal")

ROWS = [(case, version) for case in CASES for version in case.says]

Row = tuple[Case, str]
Key = tuple[str, int, str]


def name_of(row: Row) -> str:
    """How a row is called in the test's id."""
    case, version = row
    at = f"@{case.at}" if case.at else ""
    return f"{Path(case.file).stem}{at}-{version}-{case.says[version]}"


def key_of(row: Row) -> Key:
    """A row as the key of what was found."""
    return row[0].file, row[0].at, row[1]


def class_of(row: Row) -> str:
    """The row's workflow class as ``module:Class``."""
    return f"tests.engines.temporal.workflows.{row[0].module}:{row[1]}"


@pytest.fixture(scope="module")
def histories(cases: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Key, Path]:
    """The history of each row: the file itself, or one cut or counted anew."""
    folder = tmp_path_factory.mktemp("histories")
    paths: dict[Key, Path] = {}
    for number, case in enumerate(CASES):
        path = cases / "corpus" / "temporal" / case.file
        if case.at or case.counted:
            history = events_of(path)
            history = cut(history, case.at) if case.at else history
            history = counted(history) if case.counted else history
            path = write(history, folder / f"{number}-{path.name}")
        paths |= {key_of((case, version)): path for version in case.says}
    return paths


@pytest.fixture(scope="module")
def replayed(histories: dict[Key, Path]) -> dict[Key, str | None]:
    """What the real Replayer says of each row, asked at once."""
    answers = ask([(histories[key_of(row)], class_of(row)) for row in ROWS])
    return dict(zip(map(key_of, ROWS), answers, strict=True))


@pytest.fixture(scope="module")
def simulated(histories: dict[Key, Path]) -> dict[Key, list[Finding]]:
    """What a simulation finds for each row; one simulation takes one version of every workflow."""
    found: dict[Key, list[Finding]] = {}
    for rows in rounds():
        flows = {workflow_name(row): workflow_class(class_of(row)) for row in rows}
        before = {workflow_name(row): contract_of(workflow_class(first_of(row))) for row in rows if row[0].contract}
        logs = [log for row in rows for log in load_logs(histories[key_of(row)])]
        report = simulate_deploy(logs, flows, scope="all", contract=before or None)
        assert report.ok == (not any(finding.severity == "breaking" for finding in report.findings))
        for row in rows:
            path = str(histories[key_of(row)])
            found[key_of(row)] = [finding for finding in report.findings if finding.source.startswith(path)]
    return found


def rounds() -> Iterator[list[Row]]:
    """The rows in as few simulations as can be: in each, a workflow has one version, and a history stands once."""
    left = list(ROWS)
    while left:
        taken: dict[str, str] = {}
        contract = left[0][0].contract
        rows = [
            row
            for row in left
            if row[0].contract == contract and taken.setdefault(workflow_name(row), class_of(row)) == class_of(row)
        ]
        yield rows
        left = [row for row in left if row not in rows]


def workflow_name(row: Row) -> str:
    """The workflow type of a row's class."""
    name: str = workflow_class(class_of(row)).__temporal_workflow_definition.name
    return name


def first_of(row: Row) -> str:
    """The class that wrote the row's history."""
    return class_of((row[0], next(iter(row[0].says))))


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_replayer_says_what_the_table_says(row: Row, replayed: dict[Key, str | None]) -> None:
    """The table only repeats what Temporal's own Replayer does with a history and a version of its workflow."""
    error = replayed[key_of(row)]
    assert (error is not None) == (row[0].says[row[1]] == FAILS), error or "it passes"


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_simulation_agrees(row: Row, simulated: dict[Key, list[Finding]]) -> None:
    """The simulation refuses what the Replayer refuses and what the Replayer is blind to, and nothing else."""
    says = row[0].says[row[1]]
    findings = simulated[key_of(row)]
    told = "\n".join(f"{finding.severity} {finding.code} {finding.step}: {finding.message}" for finding in findings)
    severities = {finding.severity for finding in findings if finding.code != "suspended-carryover"}
    assert ("breaking" in severities) == (says in {FAILS, CAUGHT}), told or "nothing was found"
    if says == WARNED:
        assert "warning" in severities, told or "nothing was found"
    if says == SILENT:
        assert not severities & {"breaking", "warning"}, told


@pytest.mark.parametrize(
    ("version", "passes"), [("Faithful", True), ("ThankedLast", False), ("ThankedLastPatched", True)]
)
def test_the_command_line_agrees(tmp_path: Path, cases: Path, version: str, passes: bool) -> None:
    """``pytest --loom-deploy-sim`` is green with the loan's own code and its patched change, red with the bare one."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "loan.json").write_text((cases / "corpus" / "temporal" / LOAN).read_text())
    app = f"from tests.engines.temporal.workflows.loans import {version}\nflows = {{'loan': {version}}}"
    status, report = simulate(tmp_path, app)
    assert (status, report["ok"]) == ((0, True) if passes else (1, False))
    codes = {finding["code"] for finding in report["findings"] if finding["severity"] == "breaking"}
    assert codes == (set() if passes else {"replay-diverged"})


def test_every_kind_of_run_is_there(cases: Path) -> None:
    """The table has runs that completed, failed, were cancelled, went on as new ones, and that wait for each thing."""
    ends = set()
    for case in CASES:
        events = events_of(cases / "corpus" / "temporal" / case.file)["events"]
        last = events[case.at - 1 if case.at else -1]["eventType"].removeprefix("EVENT_TYPE_")
        ends.add(last.replace("_", "").lower())
    wanted = ("completed", "failed", "canceled", "continuedasnew")
    assert {f"workflowexecution{end}" for end in wanted} | {"timerstarted", "activitytaskstarted"} <= ends
    assert len({case.file for case in CASES}) >= 20
