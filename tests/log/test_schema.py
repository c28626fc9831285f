"""The event schema: the pinned kinds, who owns a name, and which versions are read."""

from __future__ import annotations

import msgspec
import pytest

from pytest_loom import PINNED_EVENT_TYPES, SCHEMA_VERSION, Log, LogBuilder, known_event_types
from pytest_loom.fold import _HANDLERS
from pytest_loom.log.schema import KERNEL_PREFIXES, is_kernel_type, is_newer_minor, schema_problem


def test_the_kernel_kinds_of_major_1_are_pinned() -> None:
    """A kind never disappears or changes meaning within a MAJOR: this list only ever grows, with ignorable kinds."""
    assert sorted(PINNED_EVENT_TYPES) == [
        "DECISION_RECORDED",
        "EXECUTION_CANCELLED",
        "EXECUTION_COMPLETED",
        "EXECUTION_CONTINUED",
        "EXECUTION_FAILED",
        "EXECUTION_FORKED",
        "EXECUTION_MIGRATED",
        "EXECUTION_RESUMED",
        "EXECUTION_STARTED",
        "EXECUTION_SUSPENDED",
        "MODEL_COMPLETED",
        "MODEL_FAILED",
        "MODEL_REQUESTED",
        "PLAN_RECORDED",
        "STATE_SNAPSHOT",
        "STEP_COMPLETED",
        "STEP_FAILED",
        "STEP_PROGRESS",
        "STEP_STARTED",
        "TOOL_COMPLETED",
        "TOOL_FAILED",
        "TOOL_REQUESTED",
    ]


def test_every_pinned_kind_is_known_and_folded() -> None:
    """A kind that is read without being folded would be dropped silently."""
    assert known_event_types() >= PINNED_EVENT_TYPES
    assert set(_HANDLERS) == known_event_types()


def test_the_schema_continues_looms_numbering() -> None:
    """ADR 0056 brought 1.15.0; what this package writes says so."""
    assert SCHEMA_VERSION == "1.15.0"
    assert KERNEL_PREFIXES == ("EXECUTION_", "STEP_", "TOOL_", "MODEL_", "DECISION_", "STATE_", "PLAN_")


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("STEP_STARTED", True),
        ("STEP_DREAMT", True),
        ("PLAN_B", True),
        ("ApprovalGranted", False),
        ("TIMEOUT", False),
        ("STEPS_DONE", False),
        ("step_started", False),
        ("MY_STEP_STARTED", False),
        ("STEP", False),
        ("", False),
    ],
)
def test_a_kernel_prefix_makes_a_name_the_kernels(name: str, kernel: bool) -> None:
    """All others are application events, which fold into ``received``."""
    assert is_kernel_type(name) is kernel


@pytest.mark.parametrize("version", ["1.15.0", "1.0.0", "1.0.9", "1.16.0", "1.999999999.0", "1.15.7"])
def test_every_minor_of_this_major_is_read(version: str) -> None:
    """A MINOR only adds: older ones lack optional things, newer ones have some that are not known."""
    assert schema_problem(version) is None


@pytest.mark.parametrize(
    "version", ["2.0.0", "0.15.0", "10.15.0", "", "1", "1.15", "1.15.0.1", "v1.15.0", "1.15.0\n", "١.15.0"]
)
def test_any_other_version_is_a_problem(version: str) -> None:
    """Another MAJOR may mean something else by the same words; what is no version at all is not guessed."""
    problem = schema_problem(version)
    assert problem is not None
    assert problem.isprintable()


@pytest.mark.parametrize(
    ("version", "newer"),
    [("1.15.0", False), ("1.15.9", False), ("1.9.0", False), ("1.16.0", True), ("1.100.0", True)],
)
def test_a_newer_minor_may_carry_fields_that_writing_would_lose(version: str, newer: bool) -> None:
    """Versions compare as numbers, and a PATCH adds nothing."""
    assert is_newer_minor(version) is newer


PINNED_FOLD = (
    '{"execution_id":"run-1","workflow_id":"refund","status":"suspended","sequence":6,"variable'
    's":{"_input":{"cents":2},"_migrations":[{"strategy":"replay-check","stateMigrated":true}]}'
    ',"frames":{"assess":{"status":"completed","input":1,"output":2,"error":null,"attempts":1,"'
    'chunks":[]}},"calls":[],"suspensions":[{"on":"Approved","kind":"approval","correlation_key'
    '":null,"timeout_ms":null,"pending":{"name":"pay"},"sequence":6,"branch":null}],"state":{"a'
    '":1},"plan":null,"decisions":{},"received":[],"manifest":{"flowVersion":"1"}}'
)


def test_an_additive_minor_leaves_every_old_fold_as_it_is() -> None:
    """A log without what a later MINOR added folds to the very bytes that it folded to before (ADR 0056)."""
    made = LogBuilder("run-1", "refund")
    made.add("EXECUTION_STARTED", {"input": {"cents": 1}, "manifest": {"flowVersion": "1"}}, timestamp=1)
    made.add("STEP_STARTED", {"stepId": "assess", "input": 1}, timestamp=2)
    made.add("STEP_COMPLETED", {"stepId": "assess", "output": 2}, timestamp=3)
    made.add("STATE_SNAPSHOT", {"stateSchemaVersion": 1, "state": {"a": 1}}, timestamp=4)
    made.add("EXECUTION_MIGRATED", {"strategy": "replay-check", "migratedInput": {"cents": 2}}, timestamp=5)
    made.add("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "pending": {"name": "pay"}}, timestamp=6)
    old = made.log()
    # Whatever a MINOR adds, a log that does not have it folds to these bytes.
    for version in ("1.0.0", "1.15.0", "1.99.0"):
        log = Log([msgspec.structs.replace(event, schema_version=version) for event in old.events])
        assert msgspec.json.encode(log.state.facts()).decode() == PINNED_FOLD
