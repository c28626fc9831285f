"""Published histories with the workflows that their commands describe, changed in ways that break them and that do not.

Every line of the table is checked twice: by the real Replayer, whose word the table only repeats, and by the deploy
simulation, which has to agree with it where it is right, and to see more where it is blind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_loom import contract_of, load_logs, simulate_deploy
from pytest_loom.deploy.report import Finding
from tests.engines.temporal.histories import counted, cut, write
from tests.engines.temporal.replayer import ask, events_of, workflow_class

pytest.importorskip("temporalio", reason="needs the extra temporal")

SILENT = "silent"  # the Replayer takes it, and nothing may be said of it
PASSES = "passes"  # the Replayer takes it, and so does the simulation; it may say what differs, as long as it is green
WARNED = "warned"  # the Replayer takes it; the simulation is green, and has to say that a value differs
FAILS = "fails"  # both refuse it
CAUGHT = "caught"  # the Replayer takes it, but the run would be hurt: the simulation has to refuse it

PYTHON, GO, TS = "sdk-python/tests", "sdk-go/test/replaytests", "sdk-typescript/packages/test/history_files"
NET = "sdk-dotnet/tests/Temporalio.Tests/Worker/Histories"
MUCH = "sdk-typescript/contrib/interceptors-opentelemetry/src/__tests__/history_files/otel_smorgasbord_1_13_2.json"
LOAN = "edu-versioning-python-code/exercises/version-workflow/solution/tests/history_for_original_execution.json"


class Case(NamedTuple):
    """One history and what is to be said of it on each version of its workflow.

    ``at``: the history is cut behind this event, where the run stood once. ``counted``: timers get Python's ids.
    ``contract``: the simulation also gets the contract of the first version, as it would have been captured.
    """

    file: str
    module: str
    says: dict[str, str]
    at: int = 0
    counted: bool = False
    contract: bool = False


CASES = [
    Case(
        LOAN,
        "loans",
        {
            "Faithful": SILENT,
            "ThankedLast": FAILS,
            "ThankedLastPatched": PASSES,
            "ThankedLastDeprecated": FAILS,
            "OtherOptions": PASSES,
            "NoPause": FAILS,
            "ChargeRenamed": FAILS,
            "ChargedInCents": WARNED,
            "ResultReworded": WARNED,
            "FinalReceipt": FAILS,
            "ReceiptTyped": FAILS,
            "BranchRequired": FAILS,
            "MailRenamed": CAUGHT,
            "CurrencyAdded": PASSES,
        },
    ),
    Case(  # an activity is under way
        LOAN,
        "loans",
        {
            "Faithful": SILENT,
            "ThankedLast": FAILS,
            "ThankedLastPatched": PASSES,
            "ResultReworded": PASSES,
            "FinalReceipt": PASSES,
            "ChargeRenamed": FAILS,
            "MailRenamed": CAUGHT,
        },
        at=12,
    ),
    Case(  # an activity is done, and no workflow task has seen its result
        LOAN,
        "loans",
        {"Faithful": SILENT, "OtherOptions": PASSES, "ReceiptTyped": CAUGHT, "CurrencyAdded": PASSES},
        at=13,
    ),
    Case(  # a timer is running
        LOAN,
        "loans",
        {
            "Faithful": SILENT,
            "OtherOptions": PASSES,
            "NoPause": FAILS,
            "ChargedInCents": WARNED,
            "ResultReworded": PASSES,
            "FinalReceipt": PASSES,
            "BranchRequired": FAILS,
        },
        at=17,
    ),
    Case(
        f"{PYTHON}/worker/test_replayer_complete_history.json",
        "greetings",
        {
            "Hello": SILENT,
            "HelloRenamed": CAUGHT,
            "HelloTwice": FAILS,
            "HelloLater": FAILS,
            "HelloLoud": WARNED,
            "HelloRefused": FAILS,
            "HelloPatient": PASSES,
            "HelloRetyped": FAILS,
        },
    ),
    Case(
        f"{PYTHON}/worker/test_replayer_event_tracing_alternate.json",
        "greetings",
        {
            "Signalled": SILENT,
            "SignalRenamed": FAILS,
            "SignalRetyped": FAILS,
            "ThreeSignals": FAILS,
            "SignalAsync": PASSES,
        },
    ),
    Case(  # a result and two signals have arrived, and no workflow task has seen them
        f"{PYTHON}/worker/test_replayer_event_tracing_alternate.json",
        "greetings",
        {
            "Signalled": SILENT,
            "SignalRenamed": CAUGHT,
            "SignalRetyped": CAUGHT,
            "ThreeSignals": PASSES,
            "SignalAsync": PASSES,
        },
        at=10,
    ),
    Case(
        f"{PYTHON}/worker/test_replayer_event_tracing_double_sig_at_start_single_batch.json",
        "tracing",
        {
            "Faithful": SILENT,
            "UpdateRenamed": FAILS,
            "UpdateRetyped": FAILS,
            "UpdateValidated": PASSES,
            "ActivityFirst": FAILS,
            "TimerLonger": PASSES,
        },
    ),
    Case(  # the update is over, the timer still runs
        f"{PYTHON}/worker/test_replayer_event_tracing_double_sig_at_start_single_batch.json",
        "tracing",
        {"Faithful": SILENT, "UpdateRenamed": FAILS, "UpdateValidated": PASSES, "TimerLonger": PASSES},
        at=18,
    ),
    Case(
        f"{PYTHON}/contrib/openai_agents/histories/tools-workflow-history.json",
        "agents",
        {
            "Tools": SILENT,
            "OtherPrompt": WARNED,
            "ToolRenamed": FAILS,
            "NoTools": FAILS,
            "Moderated": FAILS,
            "ModeratedPatched": PASSES,
        },
    ),
    Case(  # the tool runs
        f"{PYTHON}/contrib/openai_agents/histories/tools-workflow-history.json",
        "agents",
        {"Tools": SILENT, "OtherPrompt": WARNED, "ToolRenamed": FAILS, "ModeratedPatched": PASSES},
        at=12,
    ),
    Case(
        f"{PYTHON}/contrib/google_adk_agents/histories/single_agent.json",
        "agents",
        {"Weather": PASSES, "WeatherElsewhere": WARNED, "WeatherToolRenamed": FAILS, "WeatherArgumentAdded": FAILS},
    ),
    Case(
        f"{GO}/update_with_protocol_message_command.json",
        "updates",
        {
            "Sleeping": SILENT,
            "ShutdownRenamed": FAILS,
            "UpdateAtOnce": FAILS,
            "UpdateGone": FAILS,
            "UpdateToo": PASSES,
        },
        counted=True,
    ),
    Case(  # a signal has arrived, and no workflow task has seen it
        f"{GO}/update_with_protocol_message_command.json",
        "updates",
        {"Sleeping": SILENT, "ShutdownRenamed": CAUGHT, "UpdateToo": PASSES},
        at=13,
        counted=True,
    ),
    Case(  # nothing is open: the run waits for its signal
        f"{GO}/update_with_protocol_message_command.json",
        "updates",
        {"Sleeping": SILENT, "ShutdownRenamed": CAUGHT, "UpdateGone": FAILS, "UpdateToo": PASSES},
        at=11,
        counted=True,
        contract=True,
    ),
    Case(
        f"{GO}/non_deterministic_update.json",
        "updates",
        {"Finishing": SILENT, "FinishingBefore": FAILS, "FinishingByActivity": FAILS},
        counted=True,
    ),
    Case(
        f"{NET}/update-after-complete.post-dotnet-flag.json",
        "updates",
        {
            "LocalActivity": SILENT,
            "LocalActivityRenamed": FAILS,
            "LocalActivityRemote": FAILS,
            "LocalActivityReworded": WARNED,
        },
    ),
    Case(
        f"{GO}/reset-workflow-before-child-init.json",
        "children",
        {
            "Parent": SILENT,
            "ChildRenamed": CAUGHT,
            "ChildGone": FAILS,
            "ChildResultRetyped": FAILS,
            "ChildAskedOtherwise": WARNED,
        },
    ),
    Case(  # the child has ended, and no workflow task has seen it
        f"{GO}/reset-workflow-before-child-init.json",
        "children",
        {"Parent": SILENT, "ChildResultRetyped": CAUGHT, "ChildGone": FAILS},
        at=13,
    ),
    Case(
        f"{GO}/memo-json.json",
        "children",
        {"Memos": SILENT, "MemoForgotten": FAILS, "MemoFirst": FAILS, "MemoOther": PASSES},
    ),
    Case(
        MUCH,
        "children",
        {
            "Smorgasbord": SILENT,
            "OtherTimer": PASSES,
            "OtherChildSignal": PASSES,
            "NoLocalActivity": FAILS,
            "NoSignal": FAILS,
        },
    ),
    Case(
        f"{GO}/continue-as-new.json",
        "endings",
        {"Continued": SILENT, "NotContinued": FAILS, "ContinuedLater": FAILS, "ContinuedRetyped": FAILS},
    ),
    Case(
        f"{GO}/cancel-activity-completion-before-workflow-task-started.json",
        "endings",
        {"Cancelled": SILENT, "CancelIgnored": FAILS, "CancelledOtherInput": WARNED, "CancelledByTimer": FAILS},
    ),
    Case(
        "features/features/activity/retry_on_error/history/history.go.v1.5.0.json",
        "endings",
        {"Failed": SILENT, "FailedSeldom": PASSES, "FailureCaught": FAILS, "FailureMended": FAILS},
    ),
    Case(
        f"{NET}/multi-complete-fail-before.post-dotnet-flag.json",
        "endings",
        {"SignalFails": SILENT, "SignalIgnored": FAILS, "SignalFailsOtherwise": PASSES},
    ),
    Case(  # a run that waits on a timer
        f"{GO}/unhandled_cmd_timer_cancel.json",
        "waiting",
        {"Timer": SILENT, "TimerShort": PASSES, "TimerHeeds": FAILS, "TimerPolls": FAILS},
        counted=True,
    ),
    Case(
        f"{TS}/lang_flags_replay_correctly_1_11_2.json",
        "waiting",
        {"Race": SILENT, "RaceLonger": PASSES, "RaceActivityFirst": FAILS, "RaceUncancelled": FAILS},
    ),
    Case(
        "temporal-ruby/examples/spec/replay/histories/signal_with_start.json",
        "waiting",
        {
            "WantedSignal": SILENT,
            "WantedDynamic": PASSES,
            "AnySignal": WARNED,
            "WantedRenamed": FAILS,
            "WantedAudited": FAILS,
        },
    ),
    Case(  # one signal came, the run waits for the other
        "temporal-ruby/examples/spec/replay/histories/signal_with_start.json",
        "waiting",
        {"WantedSignal": SILENT, "WantedDynamic": PASSES, "WantedRenamed": CAUGHT, "WantedAudited": PASSES},
        at=9,
        contract=True,
    ),
    Case(
        f"{TS}/cancel_fake_progress_history.json",
        "waiting",
        {"Cancelling": SILENT, "NeverCancelling": FAILS, "CancellingRaises": FAILS, "CancellingUnheard": FAILS},
    ),
]

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
    severities = {finding.severity for finding in findings}
    assert ("breaking" in severities) == (says in {FAILS, CAUGHT}), told or "nothing was found"
    if says == WARNED:
        assert "warning" in severities, told or "nothing was found"
    if says == SILENT:
        assert not severities & {"breaking", "warning"}, told


SIMULATION = """
    from tests.engines.temporal.workflows import loans
    flows = {{"loans": loans.{version}}}
"""


@pytest.mark.parametrize(
    ("version", "passes"), [("Faithful", True), ("ThankedLast", False), ("ThankedLastPatched", True)]
)
def test_the_command_line_agrees(pytester: pytest.Pytester, cases: Path, version: str, passes: bool) -> None:
    """``pytest --loom-deploy-sim`` is green with the loan's own code and its patched change, red with the bare one."""
    history = (cases / "corpus" / "temporal" / LOAN).read_text()
    (pytester.mkdir("store") / "loan.json").write_text(history)
    pytester.makepyfile(app=SIMULATION.format(version=version))
    pytester.makeini("[pytest]\nloom_logs = store/*\nloom_flows = app:flows\n")
    pytester.syspathinsert(Path(__file__).parents[3])
    result = pytester.runpytest_subprocess("--loom-deploy-sim", "-p", "no:cacheprovider", timeout=120)
    assert (result.ret == 0) == passes
    if not passes:
        result.stdout.fnmatch_lines(["*replay-diverged*"])


def test_every_kind_of_run_is_there(cases: Path) -> None:
    """The table is varied: runs that completed, failed, were cancelled, went on as new ones, and wait for each thing."""
    ends = set()
    for case in CASES:
        events = events_of(cases / "corpus" / "temporal" / case.file)["events"]
        last = events[case.at - 1 if case.at else -1]["eventType"].removeprefix("EVENT_TYPE_")
        ends.add(last.replace("_", "").lower())
    wanted = ("completed", "failed", "canceled", "continuedasnew")
    assert {f"workflowexecution{end}" for end in wanted} | {"timerstarted", "activitytaskstarted"} <= ends
    assert len({case.file for case in CASES}) >= 20
