"""The table of strategies, each cell confirmed by really resuming a run that way (seed 003).

"Really" means: with registered upcasters and migrations and with kept workers only, and for what needs a person, with
what that person does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_loom import (
    Flow,
    Log,
    LogBuilder,
    LoomError,
    SyncContext,
    check_resume,
    flow,
    fork,
    migration,
    record,
    resume,
    resume_as,
    simulate_deploy,
    step,
    tool,
    upcaster,
)
from pytest_loom.deploy.decide import Judged
from pytest_loom.deploy.report import finding
from pytest_loom.deploy.strategies import strategies
from pytest_loom.flow.carried import Carried
from pytest_loom.log.migrations import isolated_migrations
from pytest_loom.log.upcast import isolated_upcasters
from pytest_loom.resume.policy import FINE, Worker

WINDOW, PINNED, EXPLICIT, CLOSED = "compatible-window", "pinned-workers", "explicit-migration", "fail-closed"
ONE_BACK = 1
"""N of the compatible window in these tests."""


@dataclass
class Case:
    """What the flow is asked."""

    id: str
    cents: int = 4999


@dataclass
class RegionCase:
    """What it is asked today."""

    id: str
    cents: int
    region: str


@dataclass
class Risk:
    """What assess gave in version 1."""

    risk: str


@dataclass
class Level:
    """What it gives in version 2."""

    level: str


@dataclass
class Score:
    """What it gives in version 3."""

    score: str


@step(id="pay")
def pay(text: str) -> str:
    """The work behind the gate: what comes of it is the flow's output."""
    return f"paid {text}"


def made(
    body: Callable[..., Any],
    version: str,
    *steps: Any,
    gate: str = "Approved",
    tools: Any = (),
    state: int | None = None,
    case: type[Any] = Case,
) -> Flow[..., Any]:
    """A version of the refund flow."""
    body.__annotations__["case"] = case
    body.__annotations__["ctx"] = SyncContext
    versions = {} if state is None else {"state": state}
    return flow(id="refund", version=version, steps=[*steps, pay], gates={gate: bool}, tools=tools, versions=versions)(
        body
    )


def assessing(kind: type[Any], version: str, *, name: str = "assess", gate: str = "Approved", case: type = Case) -> Any:
    """Assess, ask, pay: with another type of what assess gives, another name for it or for the gate."""

    def assess(case: Any) -> Any:
        return kind("high")

    assess.__annotations__.update({"case": case, "return": kind})
    declared = step(id=name)(assess)

    def refund(ctx: SyncContext, case: Any) -> str:
        found = ctx.run(declared, case)
        agreed = ctx.suspend(gate, kind="approval")
        (word,) = vars(found).values()
        return ctx.run(pay, f"{case.id} {case.cents} {word} {agreed}")

    return made(refund, version, declared, gate=gate, case=case)


def keeping(state: int, version: str) -> Any:
    """Snapshot, ask, pay by what was kept: the key is another one in each version of the state."""
    key = f"cents_{state}"

    def refund(ctx: SyncContext, case: Any) -> str:
        ctx.snapshot({key: case.cents})
        ctx.suspend("Approved", kind="approval")
        return ctx.run(pay, f"{case.id} {ctx.state[key]}")

    return made(refund, version, state=state)


def asking(version: str, *permissions: str) -> Any:
    """Ask for the call of a tool, and make it."""

    @tool(approval=True, permissions=list(permissions))
    def transfer(cents: int) -> str:
        return f"moved {cents}"

    def refund(ctx: SyncContext, case: Any) -> str:
        args = {"cents": case.cents}
        if ctx.suspend("Approved", kind="approval", pending={"callId": "c1", "name": "transfer", "args": args}):
            return ctx.run(pay, ctx.call(transfer, **args))
        return "no"

    return made(refund, version, tools=[transfer])


def noting(version: str) -> Any:
    """Today's flow with one more step behind the gate."""

    def refund(ctx: SyncContext, case: Any) -> str:
        found = ctx.run(assess, case)
        agreed = ctx.suspend("Approved", kind="approval")
        ctx.run(note)
        return ctx.run(pay, f"{case.id} {case.cents} {found.risk} {agreed}")

    @step
    def assess(case: Case) -> Risk:
        return Risk("high")

    @step
    def note() -> None:
        """Something new."""

    return made(refund, version, assess, note)


def renamed(old: str, new: str) -> Callable[[Any], Any]:
    """An upcaster of what assess gave: its key has another name."""

    def raised(payload: Any) -> Any:
        if payload["stepId"] != "assess":
            return payload
        return {**payload, "output": {new: payload["output"][old]}}

    return raised


def moved(number: int) -> Callable[[Any], Any]:
    """A migration of the state from a version to the next."""
    return lambda state: {f"cents_{number + 1}": state[f"cents_{number}"]}


@dataclass
class Cause:
    """What a deploy changed: the flow then and today, what is registered today, and what a person would do.

    ``before``: the event before which a person would branch off; None for the end of the run.
    """

    old: Any
    new: Any
    upcasts: list[tuple[str, str]] = field(default_factory=list)
    migrations: list[int] = field(default_factory=list)
    before: str | None = None
    gate: str = "Approved"
    transform: Callable[[Any], Any] | None = None
    broken: bool = False

    def run(self) -> Log:
        """A run of the old code that waits for its approval."""
        with isolated_upcasters(), isolated_migrations():
            log = record(self.old, {"id": "c1", "cents": 4999}, execution_id="r-1")
        assert log.state.status == "suspended"
        if not self.broken:
            return log
        builder = LogBuilder("r-1", "refund")
        builder.add("EXECUTION_STARTED", {"input": {"id": "c1"}}, timestamp=0)
        builder.add("STEP_STARTED", {"stepId": 7}, timestamp=1)
        return builder.log()

    def output(self) -> Any:
        """What the old code would have made of it."""
        with isolated_upcasters(), isolated_migrations():
            return resume(self.run(), self.old, event="Approved", payload=True).state.variables["_output"]

    @contextlib.contextmanager
    def registered(self, window: int | None = None) -> Iterator[None]:
        """Today's upcasters and migrations: all, or those for the last ``window`` versions."""
        with isolated_upcasters(), isolated_migrations():
            steps = list(enumerate(self.upcasts, 1))
            for number, (old, new) in steps if window is None else steps[-window:]:
                upcaster("STEP_COMPLETED", from_version=number)(renamed(old, new))
            for number in self.migrations if window is None else self.migrations[-window:]:
                migration("state", from_version=number)(moved(number))
            yield

    def flows(self, *, kept: bool) -> Callable[..., Any]:
        """Today's resolver: with the old worker, if that is ``kept``."""

        def get_flow(workflow_id: str, version: str | None = None) -> Any:
            return self.old if kept and version == self.old.version else self.new

        return get_flow


NEXT = [("risk", "level"), ("level", "score")]
GONE = Cause(assessing(Risk, "1"), None)
CAUSES: dict[str, Cause] = {
    "unchanged": Cause(assessing(Risk, "1"), assessing(Risk, "1")),
    "one more step to come": Cause(assessing(Risk, "1"), noting("2")),
    "changed under one number": Cause(assessing(Risk, "1"), noting("1")),
    "event upcast": Cause(assessing(Risk, "1"), assessing(Level, "2"), upcasts=NEXT[:1]),
    "event upcast beyond the window": Cause(assessing(Risk, "1"), assessing(Score, "3"), upcasts=NEXT),
    "state migrated": Cause(keeping(1, "1"), keeping(2, "2"), migrations=[1]),
    "state migrated beyond the window": Cause(keeping(1, "1"), keeping(3, "3"), migrations=[1, 2]),
    "migration missing": Cause(keeping(1, "1"), keeping(2, "2"), before="STATE_SNAPSHOT"),
    "step renamed": Cause(assessing(Risk, "1"), assessing(Risk, "2", name="assess_risk"), before="STEP_STARTED"),
    "gate renamed": Cause(
        assessing(Risk, "1"),
        assessing(Risk, "2", gate="ApprovedNow"),
        before="EXECUTION_SUSPENDED",
        gate="ApprovedNow",
    ),
    "input changed": Cause(
        assessing(Risk, "1"),
        assessing(Risk, "2", case=RegionCase),
        transform=lambda old: {**old, "region": "eu"},
    ),
    "permission widened": Cause(
        asking("1", "payments.write"), asking("2", "payments.write", "payments.all"), before="EXECUTION_SUSPENDED"
    ),
    "flow gone": GONE,
    "unreadable": Cause(assessing(Risk, "1"), assessing(Risk, "1"), broken=True),
}

TABLE: dict[str, tuple[str, str, str, str, str]] = {
    # cause: window, pinned where the old worker is kept, pinned where it is not, explicit migration, fail closed
    "unchanged": ("resume", "resume", "resume", "resume", "resume"),
    "one more step to come": ("resume", "pin", "reject", "resume", "resume"),
    "changed under one number": ("resume", "reject", "reject", "resume", "resume"),
    "event upcast": ("upcast", "pin", "reject", "upcast", "fork"),
    "event upcast beyond the window": ("reject", "pin", "reject", "upcast", "fork"),
    "state migrated": ("migrate", "pin", "reject", "migrate", "fork"),
    "state migrated beyond the window": ("reject", "pin", "reject", "migrate", "fork"),
    "migration missing": ("reject", "pin", "reject", "reject", "fork"),
    "step renamed": ("fork", "pin", "reject", "fork", "fork"),
    "gate renamed": ("manual", "pin", "reject", "manual", "fork"),
    "input changed": ("reject", "pin", "reject", "reject", "fork"),
    "permission widened": ("reapprove", "pin", "reject", "reapprove", "fork"),
    "flow gone": ("reject", "pin", "reject", "reject", "reject"),
    "unreadable": ("reject", "reject", "reject", "reject", "reject"),
}
CELLS = [
    pytest.param(name, strategy, kept, row[place], id=f"{name}-{strategy}{'-kept' if kept else ''}")
    for name, row in TABLE.items()
    for place, (strategy, kept) in enumerate(
        [(WINDOW, False), (PINNED, True), (PINNED, False), (EXPLICIT, False), (CLOSED, False)]
    )
    if not (name == "changed under one number" and kept)  # a resolver has one flow for one number
]


@pytest.mark.parametrize(("name", "strategy", "kept", "cell"), CELLS)
def test_each_cell_is_what_really_happens(name: str, strategy: str, kept: bool, cell: str) -> None:
    """Where the table says that a run goes on it does, to the old code's output; where it says no it is refused."""
    cause = CAUSES[name]
    log = cause.run()
    with cause.registered():
        report = simulate_deploy([log], cause.flows(kept=kept), policy={"window": ONE_BACK})
        assert report.runs[0].strategies[strategy] == cell
    with cause.registered(ONE_BACK if strategy == WINDOW else None):
        if cell in FINE:
            assert directly(cause, log, strategy, kept).state.variables["_output"] == cause.output()
            return
        if strategy == CLOSED:  # what it lets go on by itself is what nothing was found about, not what would go on
            decision = check_resume(log, cause.new or {}, policy={"rule": [{"allow": ["resume"]}]})
            assert not decision.ok or any(found.code == "contract-drift" for found in decision.findings)
        else:
            with pytest.raises(LoomError):
                directly(cause, log, strategy, kept)
    with cause.registered():
        if cell in ("fork", "reapprove"):
            assert by_a_person(cause, log).state.variables["_output"] == cause.output()
        elif strategy == CLOSED:
            with pytest.raises((LoomError, TypeError)):
                by_a_person(cause, log)


def directly(cause: Cause, log: Log, strategy: str, kept: bool) -> Log:
    """The run resumed as a strategy does it, by nobody's hand."""
    answer: dict[str, Any] = {"event": "Approved", "payload": True}
    if strategy == PINNED and kept:
        with isolated_upcasters(), isolated_migrations():  # the old worker knows nothing of what is registered today
            return resume_as(log, cause.flows(kept=True), strategy="pinned", **answer)
    if strategy == PINNED:
        return resume_as(log, cause.flows(kept=kept), strategy="pinned", **answer)
    if cause.new is None:
        return resume_as(log, cause.flows(kept=False), strategy="pinned", **answer)  # which finds no flow
    return resume(log, cause.new, **answer)


def by_a_person(cause: Cause, log: Log) -> Log:
    """The run branched off where a person says so, asked again where the branch asks again, and answered."""
    at = [event.sequence for event in log.events if event.event_type == cause.before]
    branch = fork(log, (at[0] if at else len(log.events) + 1) - 1, confirmed_by="ann")
    if cause.transform is not None:
        return resume_as(branch, cause.new, transform_state=cause.transform, event=cause.gate, payload=True)
    asked = branch if branch.state.suspensions else resume(branch, cause.new)
    return resume(asked, cause.new, event=cause.gate, payload=True)


class TestWhatItIsTold:
    """The rules, on what was seen of a run, without one."""

    @pytest.mark.parametrize(
        ("window", "upcasts", "verdict"),
        [(2, [("X", 1, 3)], "upcast"), (1, [("X", 1, 3)], "reject"), (0, [("X", 2, 3)], "reject"), (0, [], "resume")],
    )
    def test_the_window_counts_versions(self, window: int, upcasts: Any, verdict: str) -> None:
        """The oldest event decides; a window of none reads today's version only."""
        assert strategies(Judged(upcasts=upcasts), window)[WINDOW] == verdict

    def test_numbers_are_as_far_apart_as_they_say(self) -> None:
        """One migration over two versions, and one back, are two versions far."""
        for was, now in ((1, 3), (3, 1)):
            judged = Judged(migrated=[Carried("plan", was, now, {})])
            assert [strategies(judged, window)[WINDOW] for window in (1, 2)] == ["reject", "migrate"]

    @pytest.mark.parametrize(("what", "kind"), [("state", "state"), ("call of pay", "tool:pay")])
    def test_texts_are_as_far_apart_as_their_migrations(self, what: str, kind: str) -> None:
        """Between versions that are no numbers the steps of the chain count."""
        judged = Judged(migrated=[Carried(what, "a", "c", {})])
        with isolated_migrations():
            migration(kind, from_version="a", to_version="b")(dict)
            migration(kind, from_version="b", to_version="c")(dict)
            assert [strategies(judged, window)[WINDOW] for window in (1, 2)] == ["reject", "migrate"]
        assert strategies(judged, 99)[WINDOW] == "reject"

    def test_the_old_worker_of_a_policy(self) -> None:
        """A worker that is kept has the run pinned, whatever today's code would say, unless it is of today's."""
        worker = Worker(flow="refund", version="1")
        assert strategies(Judged(worker=worker, same=None), 1)[PINNED] == "pin"
        assert strategies(Judged(worker=worker, same=False), 1)[PINNED] == "pin"
        assert strategies(Judged(worker=worker, same=True), 1)[PINNED] == "resume"

    def test_a_run_that_names_no_version(self) -> None:
        """Nothing routes it elsewhere, so today's worker gets it."""
        assert set(strategies(Judged(), 1).values()) == {"resume"}

    @pytest.mark.parametrize(
        ("code", "severity", "closed"),
        [
            ("suspended-carryover", "warning", "resume"),
            ("flow-ambiguous", "warning", "fork"),
            ("mine", "info", "resume"),
            ("mine", "breaking", "fork"),
            ("schema-unknown", "breaking", "reject"),
        ],
    )
    def test_fail_closed(self, code: str, severity: Any, closed: str) -> None:
        """Whatever was found but that the run waits is for a person; what cannot be read is for nobody."""
        builder = LogBuilder("r-1", "refund")
        builder.add("EXECUTION_STARTED", {}, timestamp=0)
        found = finding(builder.log(), code, "m", "h", severity=severity)
        assert strategies(Judged(findings=[found]), 1)[CLOSED] == closed

    def test_a_run_that_is_over(self) -> None:
        """There is nothing to go on with."""
        assert strategies(Judged(in_flight=False), 1) == {}
