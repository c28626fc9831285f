"""Recorded values beside today's schemas: the input, what steps gave, the saved state (DESIGN section 8).

Flows that are code read them with their own types, by a replay; what is known of them as data is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pytest_loom.contract.model import Contract
from pytest_loom.contract.pending import Problem, value_problems
from pytest_loom.contract.quick import Fit, fitting
from pytest_loom.deploy.approvals import OWN_RULES
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.flow.carried import carried, saved_states
from pytest_loom.log.event import Event, Log
from pytest_loom.state import Frame

_READABLE = {
    "temporal": "Keep the old field beside the new one, with a default, until these runs are over (or have your data"
    " converter read the old name), or let the workers that have the old code finish these runs (worker versioning,"
    " pinned).",
    "": "Keep the input readable (an optional field, an alias), or migrate it: resume_as(log, flow,"
    " transform_state=…).",
}
"""What to do, by the source of the run: only a log of ours can be taken over with another input."""

_TYPES = frozenset({"retyped", "narrowed", "newly-required", "undecided"})
_LISTED = 4
_MANY = 10_000
_fitting: dict[tuple[int, int], tuple[Any, Any, Fit]] = {}


def recorded_input(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The run's input is not one that today's flow takes (journal engines: the code is run again from it)."""
    if log.source != "dbos" and _is_journal(log, contract):  # DBOS checks no types, and its arguments are by place
        yield from input_read(log, contract, yesterday)


def input_read(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The same of any run, also of one that is over and stands for others that are not."""
    if contract.input_schema is None or "_input" not in log.state.raw_variables:
        return
    old = None if yesterday is None or "_migrations" in log.state.raw_variables else yesterday.input_schema
    raw = log.state.raw_variables["_input"]
    if isinstance(raw, msgspec.Raw) and fits(old, contract.input_schema, bytes(raw)):
        return
    found = problems(old, contract.input_schema, log.state.variables["_input"])
    if found:
        yield finding(
            log,
            "input-contract",
            f"its recorded input does not fit today's {printable(contract.workflow_id)}: {said(found)}.",
            _READABLE.get(log.source, _READABLE[""]),
        )


def continued_input(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A run of Temporal has continued as new: what the next run begins with is read by today's code, as it stands.

    Unless that is another workflow, or the next run stays on the version to which this one is pinned.
    """
    last = log.state.last_event
    if log.source != "temporal" or contract.input_schema is None or last.event_type != "EXECUTION_CONTINUED":
        return
    next_run = last.payload
    stays = log.state.manifest.get("pinnedTo") is not None and next_run.get("initialVersioningBehavior") is None
    if stays or next_run.get("workflowType") not in (None, contract.workflow_id) or is_sealed(next_run.get("input")):
        return
    found = value_problems(yesterday and yesterday.input_schema, contract.input_schema, next_run.get("input"))
    if found:
        name = printable(str(next_run.get("newExecutionId") or "the next run"))
        yield finding(
            log,
            "input-contract",
            f"it has continued as new, and the input that it hands to {name} does not fit today's"
            f" {printable(contract.workflow_id)}: {said(found)}. Each worker that picks that run up fails on it.",
            "Keep the input readable (an optional field, an alias) until these chains are over.",
        )


def recorded_outputs(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """What a step gave is not what today's code reads of it (journal engines: it is answered from the log)."""
    if not _is_journal(log, contract) or contract.steps is None:
        return
    for frame, old, new in _given(log, contract, yesterday):
        if fits(old, new, bytes(frame.raw_output)):
            continue
        found = problems(old, new, frame.output)
        if found:
            yield finding(
                log,
                "output-contract",
                f"the recorded result of step {printable(frame.key)} does not fit today's: {said(found)}.",
                "Keep it readable (an optional field, an alias), or let the old code finish these runs.",
                step=frame.step_id,
            )


def fits(old: Any, new: Any, value: bytes) -> bool:
    """Whether a value that is JSON text has no problem for certain: without looking closely, which takes 200 times as
    long."""
    known = _fitting.get((id(old), id(new)))
    if known is None:
        if len(_fitting) > _MANY:
            _fitting.clear()
        known = _fitting[id(old), id(new)] = (old, new, fitting([(old, new)]))  # no other object gets their ids
    return known[2]([value])


def problems(old: Any, new: Any, value: Any) -> list[Problem]:
    """What is wrong with a recorded value under today's schema, as far as it can be read here."""
    return [] if is_sealed(value) else value_problems(old, new, value)


def read_values(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[tuple[Event, str, Any, Any]]:
    """What ``recorded_input`` and ``recorded_outputs`` look at: a field of an event's payload, and both schemas."""
    if not _is_journal(log, contract):
        return
    event = log.state.variable_events.get("_input")
    if contract.input_schema is not None and event is not None and "_migrations" not in log.state.raw_variables:
        yield event, "input", yesterday and yesterday.input_schema, contract.input_schema
    for frame, old, new in _given(log, contract, yesterday):
        yield frame.event, "output", old, new


def _given(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[tuple[Frame, Any, Any]]:
    """The steps whose results today's contract has a schema for, with yesterday's and today's."""
    for frame in log.state.frames.values():
        step = (contract.steps or {}).get(frame.step_id)
        if step is None or step.output_schema is None or frame.status != "completed" or frame.chunk_events:
            continue
        old = (yesterday.steps or {}).get(frame.step_id) if yesterday is not None else None
        yield frame, old and old.output_schema, step.output_schema


def recorded_state(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """The saved state, in today's version, is not what today's schema of it reads (state-key-lost, state-type)."""
    state = log.state
    if not state.in_flight or contract.state_schema is None or state.state is None:
        return
    if state.manifest.get("framework") in OWN_RULES:
        return
    saved = saved_states(log).get(None)
    if saved is None:
        return  # it is a sub-flow's, which has a contract of its own
    part = next((part for part in carried(log, contract.versions or {}) if part.what == "state"), None)
    if part is not None and part.error is not None:
        return  # which is told by its own code
    is_moved = part is not None and part.from_version != part.to_version
    value = saved.payload.get("state") if part is None else part.value
    old = None if yesterday is None or is_moved else yesterday.state_schema
    for code, found in _by_code(value_problems(old, contract.state_schema, value)).items():
        yield finding(
            log,
            code,
            f"its saved state does not fit today's: {said(found)}.",
            'Say how it is carried over, @migration("state", from_version=…), and raise its version; or keep the key.',
            step=found[0].path or None,
        )


def _by_code(found: list[Problem]) -> dict[str, list[Problem]]:
    codes: dict[str, list[Problem]] = {}
    for problem in found:
        codes.setdefault("state-type" if problem.kind in _TYPES else "state-key-lost", []).append(problem)
    return codes


def _is_journal(log: Log, contract: Contract) -> bool:
    """Whether the run goes on by running code again against its log, and the contract is all that is known of that."""
    return log.state.in_flight and (contract.engine or log.engine) == "journal"


def is_sealed(value: Any) -> bool:
    """Whether a value is one, or holds one as an argument, that only the application's own codec can read."""
    if not isinstance(value, dict):
        return False
    if value.get("$via") == "temporal.payload":
        return True
    arguments = value.get("args")
    return isinstance(arguments, list) and any(map(is_sealed, arguments))


def said(problems: list[Problem]) -> str:
    """What is wrong, in one sentence."""
    more = f" and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
    return "; ".join(problem.detail for problem in problems[:_LISTED]) + more
