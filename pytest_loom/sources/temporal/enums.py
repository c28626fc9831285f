"""Temporal's enums: number, ``SCREAMING_SPELLING`` and PascalSpelling of one value brought to the Pascal name.

Numbers and names are those of temporalio/api, temporal/api/enums/v1. Zero (Unspecified) is the empty text.
"""

from __future__ import annotations

import re

from pytest_loom.sources.temporal.protojson import Malformed, kind_of


class Enum:
    """One enum: its Pascal ``names`` by number, and ``spellings``, from every way to write one to its name."""

    __slots__ = ("names", "prefixes", "spellings")

    def __init__(self, prefixes: str, names: str) -> None:
        self.prefixes = tuple(prefixes.split())
        self.names = ("", *names.split())
        self.spellings: dict[object, str] = {None: "", "": "", "Unspecified": ""}
        for number, name in enumerate(self.names):
            screaming = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name or "Unspecified").upper()
            ways = (name, str(number), screaming, *(prefix + screaming for prefix in self.prefixes))
            self.spellings.update(dict.fromkeys(ways, name))


EVENT_TYPE = Enum(
    "EVENT_TYPE_",
    "WorkflowExecutionStarted WorkflowExecutionCompleted WorkflowExecutionFailed WorkflowExecutionTimedOut "
    "WorkflowTaskScheduled WorkflowTaskStarted WorkflowTaskCompleted WorkflowTaskTimedOut WorkflowTaskFailed "
    "ActivityTaskScheduled ActivityTaskStarted ActivityTaskCompleted ActivityTaskFailed ActivityTaskTimedOut "
    "ActivityTaskCancelRequested ActivityTaskCanceled TimerStarted TimerFired TimerCanceled "
    "WorkflowExecutionCancelRequested WorkflowExecutionCanceled RequestCancelExternalWorkflowExecutionInitiated "
    "RequestCancelExternalWorkflowExecutionFailed ExternalWorkflowExecutionCancelRequested MarkerRecorded "
    "WorkflowExecutionSignaled WorkflowExecutionTerminated WorkflowExecutionContinuedAsNew "
    "StartChildWorkflowExecutionInitiated StartChildWorkflowExecutionFailed ChildWorkflowExecutionStarted "
    "ChildWorkflowExecutionCompleted ChildWorkflowExecutionFailed ChildWorkflowExecutionCanceled "
    "ChildWorkflowExecutionTimedOut ChildWorkflowExecutionTerminated SignalExternalWorkflowExecutionInitiated "
    "SignalExternalWorkflowExecutionFailed ExternalWorkflowExecutionSignaled UpsertWorkflowSearchAttributes "
    "WorkflowExecutionUpdateAccepted WorkflowExecutionUpdateRejected WorkflowExecutionUpdateCompleted "
    "WorkflowPropertiesModifiedExternally ActivityPropertiesModifiedExternally WorkflowPropertiesModified "
    "WorkflowExecutionUpdateAdmitted NexusOperationScheduled NexusOperationStarted NexusOperationCompleted "
    "NexusOperationFailed NexusOperationCanceled NexusOperationTimedOut NexusOperationCancelRequested "
    "WorkflowExecutionOptionsUpdated NexusOperationCancelRequestCompleted NexusOperationCancelRequestFailed "
    "WorkflowExecutionPaused WorkflowExecutionUnpaused WorkflowExecutionTimeSkippingTransitioned",
)

RETRY_STATE = Enum(
    "RETRY_STATE_ RETRY_STATUS_",
    "InProgress NonRetryableFailure Timeout MaximumAttemptsReached RetryPolicyNotSet InternalServerError "
    "CancelRequested",
)
TIMEOUT_TYPE = Enum("TIMEOUT_TYPE_", "StartToClose ScheduleToStart ScheduleToClose Heartbeat")
INITIATOR = Enum("CONTINUE_AS_NEW_INITIATOR_", "Workflow Retry CronSchedule")
INITIATOR.spellings["Decider"] = "Workflow"  # its name before 1.0
PARENT_CLOSE_POLICY = Enum("PARENT_CLOSE_POLICY_", "Terminate Abandon RequestCancel")
ID_REUSE_POLICY = Enum(
    "WORKFLOW_ID_REUSE_POLICY_", "AllowDuplicate AllowDuplicateFailedOnly RejectDuplicate TerminateIfRunning"
)
VERSIONING_BEHAVIOR = Enum("VERSIONING_BEHAVIOR_", "Pinned AutoUpgrade")
CONTINUED_BEHAVIOR = Enum("CONTINUE_AS_NEW_VERSIONING_BEHAVIOR_", "AutoUpgrade UseRampingVersion")
UPDATE_ORIGIN = Enum("UPDATE_ADMITTED_EVENT_ORIGIN_ UPDATE_REQUESTED_EVENT_ORIGIN_", "Reapply")
ERROR_CATEGORY = Enum("APPLICATION_ERROR_CATEGORY_", "Benign")
HANDLER_RETRY = Enum("NEXUS_HANDLER_ERROR_RETRY_BEHAVIOR_", "Retryable NonRetryable")
START_CHILD_CAUSE = Enum("START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_", "WorkflowAlreadyExists NamespaceNotFound")
EXTERNAL_CAUSE = Enum(
    "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_ CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_",
    "ExternalWorkflowExecutionNotFound NamespaceNotFound SignalCountLimitExceeded",
)
TASK_FAILED_CAUSE = Enum(
    "WORKFLOW_TASK_FAILED_CAUSE_",
    "UnhandledCommand BadScheduleActivityAttributes BadRequestCancelActivityAttributes BadStartTimerAttributes "
    "BadCancelTimerAttributes BadRecordMarkerAttributes BadCompleteWorkflowExecutionAttributes "
    "BadFailWorkflowExecutionAttributes BadCancelWorkflowExecutionAttributes "
    "BadRequestCancelExternalWorkflowExecutionAttributes BadContinueAsNewAttributes StartTimerDuplicateId "
    "ResetStickyTaskQueue WorkflowWorkerUnhandledFailure BadSignalWorkflowExecutionAttributes "
    "BadStartChildExecutionAttributes ForceCloseCommand FailoverCloseCommand BadSignalInputSize ResetWorkflow "
    "BadBinary ScheduleActivityDuplicateId BadSearchAttributes NonDeterministicError "
    "BadModifyWorkflowPropertiesAttributes PendingChildWorkflowsLimitExceeded PendingActivitiesLimitExceeded "
    "PendingSignalsLimitExceeded PendingRequestCancelLimitExceeded BadUpdateWorkflowExecutionMessage "
    "UnhandledUpdate BadScheduleNexusOperationAttributes PendingNexusOperationsLimitExceeded "
    "BadRequestCancelNexusOperationAttributes FeatureDisabled GrpcMessageTooLarge PayloadsTooLarge "
    "ExternalStorageFailure",
)

_SCREAMING = re.compile(
    "(EVENT_TYPE|RETRY_STATE|TIMEOUT_TYPE|CONTINUE_AS_NEW_INITIATOR|CONTINUE_AS_NEW_VERSIONING_BEHAVIOR|PARENT_CLOSE_POLICY"
    "|WORKFLOW_ID_REUSE_POLICY|WORKFLOW_ID_CONFLICT_POLICY|VERSIONING_BEHAVIOR|TASK_QUEUE_KIND|WORKFLOW_TASK_FAILED_CAUSE)_"
    "([A-Z0-9_]+)"
)
"""Values of the enums that stand in messages which are not read field by field."""


def enum_name(value: object, table: Enum, where: str) -> str:
    """The Pascal name of an enum value however it is spelt; ``""`` for Unspecified and absent.

    A value that is not in the table is kept, as newer servers have more: a number as its digits, a SCREAMING name in
    Pascal. Raises Malformed for what is neither text nor a whole number.
    """
    if type(value) is int and 0 <= value < 2**31:
        value = str(value)
    elif value is not None and type(value) is not str:
        raise Malformed(f"{where} is {kind_of(value)}, not the name of an enum value")
    known = table.spellings.get(value)
    if known is not None or value is None:
        return known or ""
    prefix = next((prefix for prefix in table.prefixes if value.startswith(prefix)), "")
    return pascal(value[len(prefix) :]) if value.isupper() else value


def generic_name(text: str) -> str:
    """The Pascal name where ``text`` is a SCREAMING value of a common enum, else the text itself."""
    match = _SCREAMING.fullmatch(text)
    if match is None:
        return text
    return "" if match[2] == "UNSPECIFIED" else pascal(match[2])


def pascal(screaming: str) -> str:
    """``TIMED_OUT`` as ``TimedOut``."""
    return "".join(word.capitalize() for word in screaming.split("_"))
