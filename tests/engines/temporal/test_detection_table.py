"""What each kind of change does to a run at each point of its path, by the real Replayer and by the deploy simulation.

The workflow is quote, pause, wait for an approval, charge. The columns are where a run stands: C completed, T on its
timer, S waiting for the signal, A with the last activity under way. Two more hold what has arrived and no workflow task
has seen, which the Replayer does not look at: Q the first activity's result, G the signal, R the last result.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import contract_of, load_logs, simulate_deploy
from pytest_loom.deploy.report import DeployReport, Finding
from tests.engines.temporal.histories import Building, History, write
from tests.engines.temporal.replayer import ask, workflow_class

pytest.importorskip("temporalio", reason="needs the extra temporal")

FINE, FAILS = "pass", "fail"
"""What the Replayer does."""

SILENT = "silent"  # nothing may be said but that the run waits
GREEN = "green"  # nothing breaking; what differs may be said
WARNED = "warned"  # a warning, nothing breaking
CAUGHT = "caught"  # breaking
CAPTURED = "captured"  # breaking where yesterday's contract is at hand, without it nothing breaking

ORDER = {"item": "chair", "amount": 3}

Kind = Callable[[Building], None]


def check(history: Building) -> None:
    """The activity that a patch, its deprecation or its removal puts first."""
    history.done(history.activity("check", "chair"), True)
    history.task()


def unmarked(history: Building) -> None:
    """A run that is older than the patch."""


def marked(history: Building) -> None:
    """A run that was started with the patch."""
    history.patch("check")
    check(history)


def deprecated(history: Building) -> None:
    """A run that was started when the patch was deprecated."""
    history.patch("check", deprecated=True)
    check(history)


def run_at(state: str, name: str, kind: Kind = unmarked, flags: dict[str, Any] | None = None) -> History:
    """The history of a run of workflow ``name`` that stands at ``state``."""
    at = Building(name, ORDER, flags=flags, run_id=f"{name}-{kind.__name__}-{state}{'-unflagged' if flags else ''}")
    at.task()
    kind(at)
    quote = at.activity("quote", "chair", 3)
    at.done(quote, {"price": 40})
    if state == "Q":
        return at.history
    at.task()
    timer = at.timer("30s")
    if state == "T":
        return at.history
    at.fired(timer)
    at.task()
    if state == "S":
        return at.history
    at.signal("approve", "ada")
    if state == "G":
        return at.history
    at.task()
    charge = at.activity("charge", {"item": "chair", "price": 40})
    if state == "A":
        return at.history
    at.done(charge, "paid")
    if state == "R":
        return at.history
    at.task()
    at.completed("paid")
    return at.history


ALL = ("C", "T", "S", "A")
Cell = tuple[str, str]


def everywhere(replayer: str, ours: str) -> dict[str, Cell]:
    """The same at each of the four points."""
    return dict.fromkeys(ALL, (replayer, ours))


def each(**cells: tuple[str, str]) -> dict[str, Cell]:
    """Cells by their state."""
    return cells


REFUSED = everywhere(FAILS, CAUGHT)
HARMLESS = everywhere(FINE, GREEN)
OLD_SDK = {"sdkName": "temporal-python", "sdkVersion": "1.0.0"}

TABLE: list[tuple[str, Kind, dict[str, Any] | None, dict[str, Cell]]] = [
    # the class in workflows/quotes.py, the kind of log, the SDK's flags, and by state what both say
    ("Quoting", unmarked, None, everywhere(FINE, SILENT)),
    ("Quoting", unmarked, None, each(Q=(FINE, SILENT), G=(FINE, SILENT), R=(FINE, SILENT))),
    ("Quoting", unmarked, OLD_SDK, everywhere(FINE, SILENT)),
    ("ActivityRenamed", unmarked, None, REFUSED),
    ("ActivityRenamed", unmarked, OLD_SDK, everywhere(FINE, CAUGHT)),
    ("InsertedFirst", unmarked, None, REFUSED),
    ("Reordered", unmarked, None, REFUSED),
    ("Unapproved", unmarked, None, {**HARMLESS, "S": (FINE, CAUGHT)}),
    ("InsertedAtWait", unmarked, None, {**REFUSED, "T": (FINE, GREEN), "S": (FINE, CAUGHT)}),
    ("SleepsAtWait", unmarked, None, {**REFUSED, "T": (FINE, GREEN), "S": (FINE, CAUGHT)}),
    ("WaitTimed", unmarked, None, {**everywhere(FINE, SILENT), "S": (FINE, WARNED)}),
    ("WaitTimed", unmarked, None, each(Q=(FINE, SILENT), G=(FINE, SILENT), R=(FINE, SILENT))),
    ("WaitTimedOutside", unmarked, None, {**everywhere(FINE, SILENT), "S": (FINE, WARNED)}),
    ("EndsAtWait", unmarked, None, {**REFUSED, "T": (FINE, GREEN), "S": (FINE, CAUGHT)}),
    ("InputChanged", unmarked, None, everywhere(FINE, WARNED)),
    ("ArityChanged", unmarked, None, everywhere(FINE, WARNED)),
    (
        "ChargedThousandfold",
        unmarked,
        None,
        each(C=(FINE, WARNED), T=(FINE, GREEN), S=(FINE, GREEN), A=(FINE, WARNED)),
    ),
    ("OptionsChanged", unmarked, None, HARMLESS),
    ("TimerLonger", unmarked, None, HARMLESS),
    ("TimerRemoved", unmarked, None, REFUSED),
    ("SamePath", unmarked, None, everywhere(FINE, SILENT)),
    ("ResultDoubled", unmarked, None, {**HARMLESS, "C": (FINE, WARNED)}),
    ("RaisesAtEnd", unmarked, None, {**HARMLESS, "C": (FAILS, CAUGHT)}),
    ("RaisesBug", unmarked, None, {**HARMLESS, "C": (FAILS, CAUGHT)}),
    ("RaisesBug", unmarked, None, each(R=(FINE, CAUGHT))),
    (
        "LastRemoved",
        unmarked,
        None,
        each(C=(FAILS, CAUGHT), T=(FINE, GREEN), S=(FINE, GREEN), A=(FAILS, CAUGHT)),
    ),
    ("Appended", unmarked, None, {**everywhere(FINE, SILENT), "C": (FAILS, CAUGHT)}),
    (
        "SignalRenamed",
        unmarked,
        None,
        each(C=(FAILS, CAUGHT), T=(FINE, CAPTURED), S=(FINE, CAPTURED), A=(FAILS, CAUGHT), G=(FINE, CAUGHT)),
    ),
    (
        "SignalRemoved",
        unmarked,
        None,
        each(C=(FAILS, CAUGHT), T=(FINE, CAPTURED), S=(FINE, CAPTURED), A=(FAILS, CAUGHT), G=(FINE, CAUGHT)),
    ),
    ("SignalRetyped", unmarked, None, each(C=(FAILS, CAUGHT), A=(FAILS, CAUGHT), G=(FINE, CAUGHT))),
    ("SignalDynamic", unmarked, None, {**HARMLESS, "G": (FINE, GREEN)}),
    ("UpdateRemoved", unmarked, None, each(T=(FINE, CAPTURED), S=(FINE, CAPTURED))),
    ("QueryRemoved", unmarked, None, HARMLESS),
    ("FieldRequired", unmarked, None, REFUSED),
    ("FieldRetyped", unmarked, None, REFUSED),
    ("FieldAdded", unmarked, None, HARMLESS),
    ("FieldDropped", unmarked, None, HARMLESS),
    ("FieldRenamed", unmarked, None, everywhere(FINE, CAUGHT)),
    ("ResultFieldRequired", unmarked, None, REFUSED),
    ("ResultFieldRequired", unmarked, None, each(Q=(FINE, CAUGHT))),
    ("LastResultRetyped", unmarked, None, {**HARMLESS, "C": (FAILS, CAUGHT), "R": (FINE, CAUGHT)}),
    ("Patched", unmarked, None, HARMLESS),
    ("Patched", marked, None, HARMLESS),
    ("PatchDeprecated", marked, None, HARMLESS),
    ("PatchDeprecated", deprecated, None, HARMLESS),
    ("PatchDeprecated", unmarked, None, REFUSED),
    ("PatchRemoved", unmarked, None, REFUSED),
    ("PatchRemoved", marked, None, REFUSED),
    ("PatchRemoved", deprecated, None, HARMLESS),
]

Where = tuple[str, str, bool, str]
"""A cell: class, kind of log, whether it has the SDK's flags, state."""

CELLS: dict[Where, Cell] = {
    (name, kind.__name__, flags is None, state): cell
    for name, kind, flags, cells in TABLE
    for state, cell in cells.items()
}
KINDS: dict[str, Kind] = {"unmarked": unmarked, "marked": marked, "deprecated": deprecated}


def id_of(where: Where) -> str:
    """How a cell is called in the test's id."""
    name, kind, flagged, state = where
    return f"{name}-{kind}{'' if flagged else '-unflagged'}-{state}"


def class_of(name: str) -> str:
    """A class of the table as ``module:Class``."""
    module = "tests.engines.temporal.workflows.quotes"
    return f"{module}:{name}" if hasattr(importlib.import_module(module), name) else f"{module}_data:{name}"


def flow(name: str) -> Any:
    """A class of the table."""
    return workflow_class(class_of(name))


Store = dict[Where, Path]
Found = dict[Where, list[Finding]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The history of each cell, as a file."""
    folder = tmp_path_factory.mktemp("quotes")
    made: Store = {}
    for number, (name, kind, flagged, state) in enumerate(CELLS):
        history = run_at(state, name, KINDS[kind], None if flagged else OLD_SDK)
        made[name, kind, flagged, state] = write(history, folder / f"{number}-{name}.json")
    return made


@pytest.fixture(scope="module")
def replayed(store: Store) -> dict[Where, str | None]:
    """What the real Replayer says of all of them."""
    answers = ask([(path, class_of(name)) for (name, *_), path in store.items()])
    return dict(zip(store, answers, strict=True))


def simulate(store: Store, **more: Any) -> Found:
    """What one simulation of all of them finds, by cell."""
    flows = {name: flow(name) for name, *_ in TABLE}
    logs = [log for path in store.values() for log in load_logs(path)]
    report = simulate_deploy(logs, flows, scope="all", **more)
    return {where: found_in(report, path) for where, path in store.items()}


def found_in(report: DeployReport, path: Path) -> list[Finding]:
    """The findings about one file."""
    return [finding for finding in report.findings if finding.source.startswith(str(path))]


@pytest.fixture(scope="module")
def simulated(store: Store) -> Found:
    """The findings without a contract."""
    return simulate(store)


@pytest.fixture(scope="module")
def captured(store: Store) -> Found:
    """The findings beside the contract of the code that wrote the histories."""
    before = contract_of(flow("Quoting"))
    return simulate(store, contract={name: before.model_copy(update={"workflow_id": name}) for name, *_ in TABLE})


@pytest.mark.parametrize("where", CELLS, ids=id_of)
def test_the_replayer(where: Where, replayed: dict[Where, str | None]) -> None:
    """What the Replayer says of the change, which the table only repeats."""
    error = replayed[where]
    assert (FINE if error is None else FAILS) == CELLS[where][0], error or "it passes"


@pytest.mark.parametrize("where", CELLS, ids=id_of)
def test_the_simulation(where: Where, simulated: Found) -> None:
    """The simulation says no less than the Replayer, sees what that is blind to, and lets harmless changes pass."""
    says = CELLS[where][1]
    assert_says(GREEN if says == CAPTURED else says, simulated[where])


@pytest.mark.parametrize("where", CELLS, ids=id_of)
def test_the_simulation_beside_a_contract(where: Where, captured: Found) -> None:
    """With yesterday's contract it also sees a handler that went while a run waits for what it hears."""
    says = {CAPTURED: CAUGHT, SILENT: GREEN}.get(CELLS[where][1], CELLS[where][1])
    if where[0] == "QueryRemoved" and where[3] in "TS":
        says = WARNED
    assert_says(says, captured[where])


def assert_says(says: str, findings: list[Finding]) -> None:
    """That the findings are what one word of the table stands for."""
    told = "\n".join(f"{finding.severity} {finding.code} {finding.step}: {finding.message}" for finding in findings)
    severities = {finding.severity for finding in findings if finding.code != "suspended-carryover"}
    assert ("breaking" in severities) == (says == CAUGHT), told or "nothing was found"
    if says == WARNED:
        assert "warning" in severities, told or "nothing was found"
    if says == SILENT:
        assert not severities & {"warning", "breaking"}, told


def test_a_workflow_type_that_is_gone(tmp_path: Path) -> None:
    """A run whose workflow type nobody registers is stranded, wherever it stands; the Replayer refuses it too."""
    paths = [write(run_at(state, "Offering"), tmp_path / f"{state}.json") for state in ALL]
    assert all(ask([(path, class_of("Quoting")) for path in paths]))
    report = simulate_deploy(str(tmp_path / "*.json"), {"quotes": flow("Quoting")}, scope="all")
    assert [found.code for path in paths for found in found_in(report, path)] == ["flow-missing"] * 4
