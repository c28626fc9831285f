"""pytest-loom: the recorded log of a durable run is the test fixture.

Everything public is importable from here. Names load on first use, so that a pytest run which uses no loom feature
pays for none of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_loom.contract.model import Contract as Contract
    from pytest_loom.contract.resolve import contract_of as contract_of
    from pytest_loom.deploy.decide import ResumeDecision as ResumeDecision
    from pytest_loom.deploy.decide import check_resume as check_resume
    from pytest_loom.deploy.report import DeployReport as DeployReport
    from pytest_loom.deploy.report import Finding as Finding
    from pytest_loom.deploy.report import finding as finding
    from pytest_loom.deploy.rollout import RolloutReport as RolloutReport
    from pytest_loom.deploy.rollout import simulate_rollout as simulate_rollout
    from pytest_loom.deploy.simulate import simulate_deploy as simulate_deploy
    from pytest_loom.errors import ApprovalError as ApprovalError
    from pytest_loom.errors import FlowError as FlowError
    from pytest_loom.errors import LiveCallError as LiveCallError
    from pytest_loom.errors import LogError as LogError
    from pytest_loom.errors import LoomError as LoomError
    from pytest_loom.errors import MigrationError as MigrationError
    from pytest_loom.errors import RecordingError as RecordingError
    from pytest_loom.errors import ReplayDivergence as ReplayDivergence
    from pytest_loom.errors import ScoreError as ScoreError
    from pytest_loom.errors import StateMigrationError as StateMigrationError
    from pytest_loom.errors import StepError as StepError
    from pytest_loom.errors import UnknownSchemaVersion as UnknownSchemaVersion
    from pytest_loom.errors import Unsupported as Unsupported
    from pytest_loom.errors import UpcastError as UpcastError
    from pytest_loom.evals.diff import MISSING as MISSING
    from pytest_loom.evals.diff import Difference as Difference
    from pytest_loom.evals.diff import diff_runs as diff_runs
    from pytest_loom.evals.score import Score as Score
    from pytest_loom.evals.score import ascore_run as ascore_run
    from pytest_loom.evals.score import score_run as score_run
    from pytest_loom.flow.api import arecord as arecord
    from pytest_loom.flow.api import areplay as areplay
    from pytest_loom.flow.api import aresume as aresume
    from pytest_loom.flow.api import baseline as baseline
    from pytest_loom.flow.api import record as record
    from pytest_loom.flow.api import replay as replay
    from pytest_loom.flow.api import resume as resume
    from pytest_loom.flow.context import Context as Context
    from pytest_loom.flow.context import SyncContext as SyncContext
    from pytest_loom.flow.definition import Flow as Flow
    from pytest_loom.flow.definition import Step as Step
    from pytest_loom.flow.definition import Tool as Tool
    from pytest_loom.flow.definition import flow as flow
    from pytest_loom.flow.definition import step as step
    from pytest_loom.flow.definition import tool as tool
    from pytest_loom.flow.fork import afork as afork
    from pytest_loom.flow.fork import arerun_step as arerun_step
    from pytest_loom.flow.fork import fork as fork
    from pytest_loom.flow.fork import rerun_step as rerun_step
    from pytest_loom.flow.perform import StepInfo as StepInfo
    from pytest_loom.flow.perform import current_step as current_step
    from pytest_loom.fold import recorded_step_outputs as recorded_step_outputs
    from pytest_loom.fold import replay_as_fixture as replay_as_fixture
    from pytest_loom.log.event import Event as Event
    from pytest_loom.log.event import Log as Log
    from pytest_loom.log.event import LogBuilder as LogBuilder
    from pytest_loom.log.migrations import migrate as migrate
    from pytest_loom.log.migrations import migration as migration
    from pytest_loom.log.schema import PINNED_EVENT_TYPES as PINNED_EVENT_TYPES
    from pytest_loom.log.schema import SCHEMA_VERSION as SCHEMA_VERSION
    from pytest_loom.log.schema import known_event_types as known_event_types
    from pytest_loom.log.scrub import Scrubber as Scrubber
    from pytest_loom.log.upcast import upcaster as upcaster
    from pytest_loom.log.write import write_log as write_log
    from pytest_loom.resume.resume_as import aresume_as as aresume_as
    from pytest_loom.resume.resume_as import resume_as as resume_as
    from pytest_loom.sources import load_log as load_log
    from pytest_loom.sources import load_logs as load_logs
    from pytest_loom.state import ExecutionState as ExecutionState
    from pytest_loom.state import Frame as Frame
    from pytest_loom.state import Suspension as Suspension

__version__ = "0.1.0"

_HOMES = {
    "pytest_loom.contract.model": ("Contract",),
    "pytest_loom.contract.resolve": ("contract_of",),
    "pytest_loom.deploy.decide": ("ResumeDecision", "check_resume"),
    "pytest_loom.deploy.report": ("DeployReport", "Finding", "finding"),
    "pytest_loom.deploy.rollout": ("RolloutReport", "simulate_rollout"),
    "pytest_loom.deploy.simulate": ("simulate_deploy",),
    "pytest_loom.errors": (
        "ApprovalError",
        "FlowError",
        "LiveCallError",
        "LogError",
        "LoomError",
        "MigrationError",
        "RecordingError",
        "ReplayDivergence",
        "ScoreError",
        "StateMigrationError",
        "StepError",
        "UnknownSchemaVersion",
        "Unsupported",
        "UpcastError",
    ),
    "pytest_loom.evals.diff": ("MISSING", "Difference", "diff_runs"),
    "pytest_loom.evals.score": ("Score", "ascore_run", "score_run"),
    "pytest_loom.flow.api": (
        "arecord",
        "areplay",
        "aresume",
        "baseline",
        "record",
        "replay",
        "resume",
    ),
    "pytest_loom.flow.context": (
        "Context",
        "SyncContext",
    ),
    "pytest_loom.flow.definition": (
        "Flow",
        "Step",
        "Tool",
        "flow",
        "step",
        "tool",
    ),
    "pytest_loom.flow.fork": (
        "afork",
        "arerun_step",
        "fork",
        "rerun_step",
    ),
    "pytest_loom.flow.perform": (
        "StepInfo",
        "current_step",
    ),
    "pytest_loom.log.scrub": ("Scrubber",),
    "pytest_loom.fold": ("recorded_step_outputs", "replay_as_fixture"),
    "pytest_loom.log.event": ("Event", "Log", "LogBuilder"),
    "pytest_loom.log.schema": ("PINNED_EVENT_TYPES", "SCHEMA_VERSION", "known_event_types"),
    "pytest_loom.log.upcast": ("upcaster",),
    "pytest_loom.log.write": ("write_log",),
    "pytest_loom.log.migrations": ("migrate", "migration"),
    "pytest_loom.resume.resume_as": ("aresume_as", "resume_as"),
    "pytest_loom.sources": ("load_log", "load_logs"),
    "pytest_loom.state": ("ExecutionState", "Frame", "Suspension"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # one list of names, kept in _HOMES


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
