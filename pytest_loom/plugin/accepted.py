"""How a run becomes a golden: under its name and in its words, and what is said of the change that is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_loom.errors import printable

if TYPE_CHECKING:
    from pytest_loom.log.event import Log

_SHOWN = 3
"""How many differences of an accepted golden are shown."""


def as_golden(run: Log, golden: Log | None, identity: str) -> Log:
    """A run as it is written in place of a golden: under its name, and in its words where nothing changed."""
    made = renamed(run, identity)
    if golden is not None and golden.execution_id == identity:
        from pytest_loom.flow.rerecord import like

        made = like(made, golden)
    return made


def renamed(log: Log, identity: str) -> Log:
    """The run under the name of its golden, so that recording again what did not change gives the same."""
    import msgspec

    from pytest_loom.log.event import Log

    old, new = (msgspec.json.encode(name)[1:-1] for name in (log.execution_id, identity))
    events = [
        msgspec.structs.replace(
            event,
            execution_id=identity,
            raw=msgspec.Raw(bytes(event.raw).replace(old, new)) if len(old) >= 16 else event.raw,
        )
        for event in log.events
    ]
    return Log(events, path=log.path, engine=log.engine)


def summary(golden: Log | None, run: Log) -> str:
    """What accepting a run does, in a few words."""
    what = "new" if golden is None else _changed(golden, run)
    if run.state.status == "failed":
        error = run.state.variables.get("_error") or {}
        what += f"; the run failed: {printable(str(error.get('type')))}: {printable(str(error.get('message')), 60)}"
    return what


def differences(golden: Log | None, made: Log, rules: Mapping[str, Any]) -> list[str]:
    """What accepting changes, in lines, the first differences of all kinds, whatever the test compares."""
    from pytest_loom.evals.diff import diff_runs
    from pytest_loom.evals.explain import changes
    from pytest_loom.log.event import Log

    if golden is None:
        return []
    found = diff_runs(Log(golden.events), made, **{**rules, "compare": "all"})
    return list(changes(found, limit=_SHOWN, width=76))


def _changed(golden: Log, candidate: Log) -> str:
    """What accepting does, with a word on steps that runs on their way still have and today's golden has not."""
    new = {frame.step_id for frame in candidate.state.frames.values()}
    gone = dict.fromkeys(frame.step_id for frame in golden.state.frames.values() if frame.step_id not in new)
    if not gone:
        return "changed"
    steps = "step" if len(gone) == 1 else "steps"
    return f"changed: no {steps} {', '.join(map(printable, gone))} any more, which runs on their way may still have"
