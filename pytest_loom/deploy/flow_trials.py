"""Recorded runs held against mutants of today's flows: which mutants would a deploy simulation let pass?

What parts of a corpus tell adds up (``Trial.add``); only the whole says whether a mutant that nobody noticed has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.contract.store import Contracts, load_contracts
from pytest_loom.deploy.checks import Check
from pytest_loom.deploy.corpus_health import called, gates_passed, steps_passed, tools_passed
from pytest_loom.deploy.decide import Judge, Today
from pytest_loom.deploy.flow_mutants import FlowMutant, flow_mutants
from pytest_loom.deploy.report import Finding
from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log
from pytest_loom.resume.policy import Policy, load_policy

LOOK = 50
"""How many runs that a mutant is about are judged under it, in one part of the corpus."""

Accepted = Callable[[Sequence[Finding]], Iterable[Finding]]
"""Findings with those acknowledged that somebody accepted."""


@dataclass
class Trial:
    """What became of one mutant of a flow: how many runs are about it, stand at it and were judged under it.

    ``kept``: whether contracts of yesterday are. For the rest see FlowMutant.
    """

    flow: str
    operator: str
    what: str
    part: str
    target: str
    asks: bool
    is_code: bool
    engine: str
    kept: bool
    noticed: bool = False
    judged: int = 0
    passed: int = 0
    open: int = 0

    def add(self, other: Trial) -> None:
        """Take over what another part of the corpus says."""
        self.noticed |= other.noticed
        self.judged += other.judged
        self.passed += other.passed
        self.open += other.open

    @property
    def excuse(self) -> str:
        """Why nobody has to notice it; "" where there is no such reason."""
        if self.part == "step" and self.engine == "checkpoint" and not self.asks and not self.open:
            stands = "behind where every recorded run stands" if self.passed else "where no recorded run stands"
            return f"a step {stands}: this engine runs what is due, and nothing that is finished"
        if self.operator == "widen-tool" and self.what.endswith("any more") and self.open:
            return "the question is saved with the run, and its answer is obeyed whatever the tool says today"
        if self.part == "tool" and not self.open and not self.is_code and not self.asks:
            return "nobody is asked about its calls, and one that is answered is not made again"
        if self.part == "answer" and not self.kept:
            return (
                "no contract of yesterday is kept (loom_contracts): nothing says what shape an answer was asked for in"
            )
        if self.part in ("input", "output", "state") and not self.open:
            return "no unfinished run has such a value: nothing reads it again"
        return ""

    @property
    def ask(self) -> str:
        """What to do so that it is noticed."""
        target = printable(self.target)
        if self.judged and self.open:
            return f"{_runs(self.judged, 'stand')} there, and none is broken: look at loom_policy and loom_acks."
        if self.part == "step" and self.engine != "checkpoint":
            if self.passed:
                return f"{_runs(self.passed, 'come')} by it, and none is broken: look at loom_policy and loom_acks."
            return f"Record a run that comes by step {target}, and name its log in loom_logs."
        waits = "waits at"
        if self.part == "tool":
            waits = "waits after a call of" if self.is_code else "waits for the approval of a call of"
        return f"Record a run that {waits} {target}, and name its log in loom_logs."


def _runs(number: int, verb: str) -> str:
    return f"1 run {verb}s" if number == 1 else f"{number} runs {verb}"


def try_mutants(
    items: Iterable[Log | LogError],
    flows: Any,
    *,
    contract: Any,
    scope: str,
    policy: Any,
    checks: Iterable[Check],
    accepted: Accepted = list,
) -> dict[str, Trial]:
    """Hold runs against mutants of the flows that they belong to; what came of each, by a name of its own.

    The arguments are those of ``simulate_deploy``; ``accepted`` acknowledges findings. Raises what that raises.
    """
    kept = None if contract is None else load_contracts(contract)
    trials = _Trials(flows, kept, load_policy(policy), tuple(checks), accepted)
    for log in items:
        if isinstance(log, Log):
            try:
                out_of_scope = not log.state.in_flight and (scope == "in-flight" or (scope == "auto" and log.live))
                if not out_of_scope and log.engine != "trace":
                    trials.see(log)
            except LogError:
                continue  # which the simulation itself has told
    return trials.found


class _Trials:
    def __init__(
        self, flows: Any, kept: Contracts | None, policy: Policy, checks: tuple[Check, ...], accepted: Accepted
    ) -> None:
        self.today = Today(flows)
        self.rules = (kept, policy, checks)
        self.accepted = accepted
        self.real = Judge(self.today, *self.rules)
        self.found: dict[str, Trial] = {}
        self._mutants: dict[tuple[str, str], list[tuple[FlowMutant, Judge, Trial]]] = {}
        self._as_data: dict[tuple[str, str], Judge] = {}

    def see(self, log: Log) -> None:
        """One run beside every mutant that is about it and that nobody has noticed yet."""
        decision = self.real.decide(log)
        version = log.state.manifest.get("flowVersion")
        today = self.today.of(decision.workflow_id, version if isinstance(version, str) else None)
        if today is None:
            return
        contract, flow, print_of_today = today
        key = (decision.workflow_id, print_of_today)
        if key not in self._mutants:
            self._mutants[key] = list(self._made(key, contract, flow, log))
        about = _About(log)
        broken: dict[bool, set[tuple[str, str | None]]] = {True: self._broken(decision.findings)}
        for mutant, judge, trial in self._mutants[key]:
            if trial.noticed or not about.concerns(mutant):
                continue
            trial.passed += 1
            trial.open += about.stands_at(mutant)
            if trial.judged >= LOOK:
                continue
            trial.judged += 1
            if mutant.is_code not in broken:
                broken[False] = self._broken(self._data(key, contract).decide(log).findings)
            trial.noticed = not self._broken(judge.decide(log).findings) <= broken[mutant.is_code]

    def _made(
        self, key: tuple[str, str], contract: Contract, flow: Any, log: Log
    ) -> Iterator[tuple[FlowMutant, Judge, Trial]]:
        for mutant in flow_mutants(contract, flow):
            judge = Judge(self._with(key, mutant.flow), *self.rules)
            trial = Trial(
                key[0],
                mutant.operator,
                mutant.what,
                mutant.part,
                mutant.target,
                mutant.asks,
                mutant.is_code,
                contract.engine or log.engine,
                self.rules[0] is not None,
            )
            yield mutant, judge, self.found.setdefault(f"{key[1]} {mutant.name}", trial)

    def _data(self, key: tuple[str, str], contract: Contract) -> Judge:
        """What is broken today already, judged as data: of that a mutant judged as data has to be told."""
        if key not in self._as_data:
            self._as_data[key] = Judge(self._with(key, contract), *self.rules)
        return self._as_data[key]

    def _with(self, key: tuple[str, str], flow: Any) -> Today:
        """Today's flows, with another in the place of one."""

        def get_flow(workflow_id: str, version: str | None) -> Any:
            found = self.today.of(workflow_id, version)
            if found is None:
                return None
            return flow if (workflow_id, found[2]) == key else found[1]

        today = Today(get_flow)
        today.named = self.today.named
        return today

    def _broken(self, findings: Sequence[Finding]) -> set[tuple[str, str | None]]:
        return {(found.code, found.step) for found in self.accepted(findings) if found.blocks}


class _About:
    """What one run has to do with a mutant."""

    def __init__(self, log: Log) -> None:
        state = log.state
        self.in_flight = state.in_flight
        self.has_state = state.state is not None
        self.passed = {"step": steps_passed(log), "gate": gates_passed(log), "tool": tools_passed(log)}
        at: set[tuple[str, str]] = set()
        if state.in_flight:
            at |= {("gate", event) for wait in state.suspensions for event in wait.events}
            at |= {("tool", name) for wait in state.suspensions for name in called(wait.pending)}
            at |= {("tool", call.name) for call in state.calls if call.status == "requested"}
            at |= {("step", frame.step_id) for frame in state.frames.values() if frame.status == "running"}
            if log.engine == "checkpoint":
                from pytest_loom.deploy.checkpoint import frontier_of, items, place

                frontier = frontier_of(log)
                at |= {("tool", str(call.get("name"))) for call in items(frontier, "calls")}
                at |= {("step", place(one)) for one in (*items(frontier, "pending"), *items(frontier, "sends"))}
        self.at = at

    def concerns(self, mutant: FlowMutant) -> bool:
        """Whether the run may notice the mutant."""
        if mutant.part in self.passed:
            return mutant.target in self.passed[mutant.part]
        if mutant.part == "output":
            return self.in_flight and mutant.target in self.passed["step"]
        if mutant.part == "answer":
            return mutant.target in self.passed["gate"]
        return self.in_flight and (mutant.part != "state" or self.has_state)

    def stands_at(self, mutant: FlowMutant) -> bool:
        """Whether the run is not over, and what the mutant is about is still to come for it."""
        if mutant.part == "tool" and mutant.is_code:
            return self.in_flight
        if mutant.part in ("step", "gate", "tool", "answer"):
            return ("gate" if mutant.part == "answer" else mutant.part, mutant.target) in self.at
        return self.in_flight
