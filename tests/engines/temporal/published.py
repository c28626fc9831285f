"""Published histories, and what has to be said of each on versions of its workflow: the table of one test.

The workflows are in ``workflows/``; the first version of each case is the code that its history describes.
"""

from __future__ import annotations

from typing import NamedTuple

SILENT = "silent"  # the Replayer takes it, and nothing may be said of it but that it waits
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
            "OtherChildSignal": CAUGHT,
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
        {"Failed": PASSES, "FailedSeldom": PASSES, "FailureCaught": FAILS, "FailureMended": FAILS},
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
