"""A tiny durable runtime: it notes what a run does, so that the run can go on after a wait or a crash.

Work that is noted as done is never done again: the flow's code runs from the top, and its finished steps answer from
the notes. Many applications have something like this, or use an engine that does it for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from pytest_loom import Log, LogBuilder, recorded_step_outputs
from refund_desk.shop import BankTimeout, Shop

Step = Callable[[Shop, Any], Any]


class Flow(NamedTuple):
    """The code of a flow, and the steps that it may take."""

    code: Callable[[Run, Any], Any]
    steps: tuple[Step, ...]


class Waiting(Exception):
    """The run has to wait for an event from outside."""


class Clock:
    """Counts one second for each look at it, so that every run is the same each time."""

    def __init__(self, now: int = 1_767_258_000_000) -> None:  # 2026-01-01, 09:00 UTC
        self.now = now

    def __call__(self) -> int:
        """Milliseconds since the epoch."""
        self.now += 1000
        return self.now


class Desk:
    """Starts runs, and resumes them when their event arrives. ``notes`` stands for its database."""

    def __init__(self, flows: dict[str, Flow], shop: Shop, clock: Callable[[], int]) -> None:
        self.flows, self.shop, self.clock = flows, shop, clock
        self.notes: dict[str, LogBuilder] = {}

    def start(self, flow_id: str, run_id: str, request: Any) -> None:
        """Begin a run; it goes as far as it can."""
        self.notes[run_id] = LogBuilder(run_id, flow_id)
        self.note(run_id, "EXECUTION_STARTED", input=request)
        self._go_on(run_id, request)

    def answer(self, run_id: str, event: str, payload: dict[str, Any]) -> None:
        """Hand an event to a waiting run, which goes on from there."""
        self.note(run_id, event, **payload)
        self.note(run_id, "EXECUTION_RESUMED", eventType=event, payload=payload)
        self._go_on(run_id, self.log(run_id).state.variables["_input"])

    def log(self, run_id: str) -> Log:
        """What was noted about a run, as pytest-loom reads it."""
        return self.notes[run_id].log()

    def note(self, run_id: str, event_type: str, **payload: Any) -> None:
        """Write down one event of a run."""
        self.notes[run_id].add(event_type, payload, timestamp=self.clock())

    def _go_on(self, run_id: str, request: Any) -> None:
        flow = self.flows[self.notes[run_id].workflow_id]
        try:
            output = flow.code(Run(self, run_id, flow), request)
        except Waiting:
            return
        except Exception as problem:
            self.note(run_id, "EXECUTION_FAILED", error=_told(problem))
        else:
            self.note(run_id, "EXECUTION_COMPLETED", output=output)


class Run:
    """What a flow's code works with: ``step`` does a piece of work once, ``wait`` waits for an event."""

    def __init__(self, desk: Desk, run_id: str, flow: Flow) -> None:
        past = desk.log(run_id)
        self.desk, self.run_id, self.flow = desk, run_id, flow
        self.done = recorded_step_outputs(past)
        self.answers = [event.payload for event in past.state.received]
        self.times: Counter[str] = Counter()

    def step(self, work: Step, subject: Any, *, tries: int = 1) -> Any:
        """The result of ``work``: the noted one where there is one, else it is done now."""
        assert work in self.flow.steps, f"{work.__name__} is not among the steps that the flow declares"
        step = work.__name__
        self.times[step] += 1
        key = step if self.times[step] == 1 else f"{step}#{self.times[step]}"
        if key in self.done:
            return self.done[key]
        attempt = 0
        while True:
            attempt += 1
            self._note("STEP_STARTED", stepId=step, attempt=attempt, input=subject)
            try:
                output = work(self.desk.shop, subject)
            except BankTimeout as problem:
                again = attempt < tries
                self._note("STEP_FAILED", stepId=step, attempt=attempt, error=_told(problem), willRetry=again)
                if not again:
                    raise
            else:
                self._note("STEP_COMPLETED", stepId=step, attempt=attempt, output=output)
                return output

    def wait(self, event: str, **facts: Any) -> dict[str, Any]:
        """The payload of the next event, once it is there."""
        if self.answers:
            return self.answers.pop(0)
        self._note("EXECUTION_SUSPENDED", on=event, **facts)
        raise Waiting(event)

    def _note(self, event_type: str, **payload: Any) -> None:
        self.desk.note(self.run_id, event_type, **payload)


def _told(problem: Exception) -> dict[str, str]:
    return {"type": type(problem).__name__, "message": str(problem)}
