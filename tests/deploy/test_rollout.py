"""``simulate_rollout`` beside what really happens: forward on the new code, rolled back, resumed with the old."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import (
    Contract,
    Log,
    LogBuilder,
    LogError,
    LoomError,
    SyncContext,
    flow,
    migration,
    record,
    resume,
    simulate_rollout,
    step,
    upcaster,
    write_log,
)
from pytest_loom.deploy.rollout import RolloutReport, RolloutRow
from pytest_loom.log.migrations import isolated_migrations
from pytest_loom.log.upcast import isolated_upcasters

Run = Callable[..., Log]


@dataclass
class Case:
    """What the flow is asked."""

    id: str


@dataclass
class RegionCase:
    """The same, with a field more that may be left out."""

    id: str
    region: str = "eu"


@dataclass
class Found:
    """What a step gives."""

    risk: str = "high"


@dataclass
class FoundMore:
    """The same and more."""

    risk: str = "high"
    why: str = "a guess"


@dataclass
class FoundLevel:
    """The same under another name."""

    level: str = "high"


@dataclass
class Answer:
    """What comes through the first gate."""

    agreed: bool


@dataclass
class LooseAnswer:
    """Today's answer may be a text."""

    agreed: bool | str


def made(
    version: str,
    *,
    case: type[Any] = Case,
    found: type[Any] = Found,
    answer: type[Any] = Answer,
    last_gate: str = "Confirmed",
    note: bool = False,
    state: int | None = None,
    ask: type[Any] = str,
) -> Any:
    """A flow with two gates: assess, ask, look closer, save, ask again, book."""

    def work(what: Any) -> Any:
        return found()

    work.__annotations__ = {"what": ask, "return": found}
    assess, look = step(id="assess")(work), step(id="look")(work)

    @step
    def notify() -> None:
        """Something new."""

    @step
    def book(text: str) -> str:
        """The end of it."""
        return f"booked {text}"

    def refund(ctx: SyncContext, case: Any) -> str:
        asked = case.id if ask is str else ask(case.id)
        ctx.run(assess, asked)
        ctx.suspend("Approved", kind="approval")
        if note:
            ctx.run(notify)
        (word,) = list(vars(ctx.run(look, asked)).values())[:1]
        if state is not None:
            ctx.snapshot({f"word_{state}": word})
        ctx.suspend(last_gate, kind="approval")
        return ctx.run(book, f"{case.id} {ctx.state[f'word_{state}'] if state is not None else word}")

    refund.__annotations__.update({"case": case, "ctx": SyncContext})
    steps: list[Any] = [assess, look, book, *([notify] if note else [])]
    versions = {} if state is None else {"state": state}
    gates = {"Approved": answer, last_gate: bool}
    return flow(id="refund", version=version, steps=steps, gates=gates, versions=versions)(refund)


@dataclass
class Deploy:
    """A deploy that may have to be taken back, and whether it can be: ``back``."""

    new: Any
    back: bool
    old: Any = field(default_factory=lambda: made("1"))
    answer: Any = field(default_factory=lambda: {"agreed": True})
    code: str = ""
    inverse: Callable[[Any], Any] | None = None
    migrates: bool = False
    upcasts: bool = False

    @contextlib.contextmanager
    def registered(self, *, new: bool) -> Iterator[None]:
        """What the workers of a deploy have registered: upcasters the new ones only, a migration with both ways all."""
        with isolated_upcasters(), isolated_migrations():
            if self.migrates and (new or self.inverse is not None):
                migration("state", from_version=1, inverse=self.inverse)(lambda state: {"word_2": state["word_1"]})
            if self.upcasts and new:
                upcaster("STEP_COMPLETED", from_version=1)(dict)
            yield


DEPLOYS: dict[str, Callable[[], Deploy]] = {
    "unchanged": lambda: Deploy(made("1"), back=True),
    "another version, the same contract": lambda: Deploy(made("2"), back=True),
    "a key more in what a step gives": lambda: Deploy(made("2", found=FoundMore), back=True),
    "another key in what a step gives": lambda: Deploy(made("2", found=FoundLevel), back=False, code="output-contract"),
    "a step more": lambda: Deploy(made("2", note=True), back=False, code="step-removed"),
    "another gate": lambda: Deploy(made("2", last_gate="ConfirmedNow"), back=False, code="gate-removed"),
    "a wider answer": lambda: Deploy(
        made("2", answer=LooseAnswer), back=False, answer={"agreed": "later"}, code="gate-changed"
    ),
    "an input with a key more": lambda: Deploy(made("2", case=RegionCase), back=True),
    "a step asked with a key more": lambda: Deploy(
        made("2", case=RegionCase, ask=RegionCase), back=False, old=made("1", ask=Case), code="replay-diverged"
    ),
    "a state with a way back": lambda: Deploy(
        made("2", state=2),
        back=True,
        old=made("1", state=1),
        migrates=True,
        inverse=lambda state: {"word_1": state["word_2"]},
    ),
    "a state without": lambda: Deploy(
        made("2", state=2), back=False, old=made("1", state=1), migrates=True, code="schema-unknown"
    ),
    "a newer kind of event": lambda: Deploy(made("2"), back=False, upcasts=True, code="schema-unknown"),
}


@pytest.mark.parametrize("name", DEPLOYS)
def test_the_report_says_what_really_becomes_of_a_rollback(name: str) -> None:
    """A run goes forward on the new code to its second gate; the old code takes it back where the report says so."""
    deploy = DEPLOYS[name]()
    with deploy.registered(new=False):
        waiting = record(deploy.old, {"id": "c1"}, execution_id="r-1")
        whole = ended(resume(waiting, deploy.old, event="Approved", payload={"agreed": True}), deploy.old)
    with deploy.registered(new=True):
        report = simulate_rollout([waiting], deploy.old, deploy.new)
        assert (report.rows[0].on_old, report.rollback_ok) == ("resume", deploy.back)
        carried = [] if report.rows[0].on_new not in ("resume", "upcast", "migrate") else [waiting]
        started = record(deploy.new, {"id": "c1"}, execution_id="r-2")
        forward = [resume(log, deploy.new, event="Approved", payload=deploy.answer) for log in (started, *carried)]
    with deploy.registered(new=False):
        if deploy.back:
            for log in forward:
                assert ended(log, deploy.old) == whole
        else:
            with pytest.raises(LoomError):
                ended(forward[0], deploy.old)
            assert deploy.code in {found.code for found in report.findings if found.severity == "breaking"}
    first = str(report).splitlines()[0]
    assert first.startswith("rollback is safe" if deploy.back else "ROLLBACK NOT SAFE")
    assert max(map(len, str(report).splitlines())) <= 80


def ended(log: Log, old: Any) -> Any:
    """What the old code makes of a run that waits at the second gate."""
    return resume(log, old, event="Confirmed", payload=True).state.variables["_output"]


def contract(*steps: str, **parts: Any) -> Contract:
    """A contract of refund with these steps."""
    return Contract.model_validate({"workflowId": "refund", "steps": {step: {} for step in steps}, **parts})


OLD, NEW = contract("assess", "pay"), contract("assess", "pay")


class TestRows:
    def test_each_run_on_both(self, run: Run) -> None:
        """What the old code and what the new code would do, each with its reasons; data cannot say what is written."""
        logs = [run("r-1", "assess", status="suspended"), run("r-2", "pay", status="running"), run("r-3", "assess")]
        report = simulate_rollout(logs, OLD, contract("pay"))
        rows = [(row.execution_id, row.status, row.on_old, row.on_new, row.after_rollback) for row in report.rows]
        assert rows == [("r-1", "suspended", "resume", "fork", None), ("r-2", "running", "resume", "resume", None)]
        assert [found.code for found in report.rows[0].found_on_new] == ["step-removed"]
        assert [found.code for found in report.findings] == ["step-removed"]
        assert (report.ok, report.rollback_ok) == (False, True)

    def test_the_other_way_round(self, run: Run) -> None:
        """A run that only the new code takes is told, too: an old worker may pick it up at any time."""
        report = simulate_rollout(run("r-1", "note", status="running"), OLD, contract("assess", "pay", "note"))
        assert (report.rows[0].on_old, report.rows[0].on_new, report.ok) == ("fork", "resume", False)

    def test_a_run_that_stays_on_its_worker(self) -> None:
        """What a policy keeps on the old worker the new code never writes."""
        old, new = made("1"), made("2", found=FoundLevel)
        log = record(old, {"id": "c1"})
        policy = {"worker": [{"flow": "refund", "version": "1"}]}
        row = simulate_rollout(log, old, new, policy=policy).rows[0]
        assert (row.on_old, row.on_new, row.after_rollback) == ("resume", "pin", None)

    def test_what_only_the_new_code_would_write(self) -> None:
        """The replay on the new code is judged on the old: a state that it saves in its own version has no way back."""

        def saving(version: int) -> Any:
            def refund(ctx: SyncContext, case: Case) -> str:
                ctx.snapshot({f"id_{version}": case.id})
                return str(ctx.suspend("Approved"))

            refund.__annotations__.update({"case": Case, "ctx": SyncContext})
            return flow(id="refund", version=str(version), gates={"Approved": bool}, versions={"state": version})(
                refund
            )

        with isolated_migrations():
            migration("state", from_version=1)(lambda state: {"id_2": state["id_1"]})
            report = simulate_rollout(record(saving(1), {"id": "c1"}), saving(1), saving(2))
        (row,) = report.rows
        assert (row.on_old, row.on_new, row.after_rollback) == ("resume", "migrate", "reject")
        assert [found.code for found in row.found_after_rollback] == ["schema-unknown"]
        assert report.structure == []  # which would say the same once more
        assert str(report).startswith("ROLLBACK NOT SAFE: 1 of 1 unfinished run could not go back\n")

    def test_a_log_that_cannot_be_read(self, tmp_path: Path, run: Run) -> None:
        """It is a row that nobody takes, in whatever direction, and hides none of the others."""
        write_log(run("r-1", "assess", status="running"), tmp_path / "a.loom.jsonl")
        (tmp_path / "b.loom.jsonl").write_text("{\n")
        report = simulate_rollout(tmp_path, OLD, NEW)
        assert [(row.status, row.on_old, row.on_new, row.after_rollback) for row in report.rows] == [
            ("running", "resume", "resume", None),
            ("unreadable", "reject", "reject", "reject"),
        ]
        assert (report.ok, report.rollback_ok) == (False, False)

    def test_nothing_to_judge(self, run: Run, tmp_path: Path) -> None:
        """An empty corpus is an error, and what is no log is told at once."""
        with pytest.raises(LogError, match="no log to simulate"):
            simulate_rollout([], OLD, NEW)
        with pytest.raises(TypeError, match="logs holds a str, not only Logs"):
            simulate_rollout(["a"], OLD, NEW)  # type: ignore[list-item]  # the point of this test

    def test_a_run_of_neither_contract(self, run: Run) -> None:
        """The contract of the old code is not taken for that of a run which names another one."""
        other = contract("assess", gates={"Approved": {"payloadSchema": {"type": "integer"}}})
        texts = contract("assess", "pay", gates={"Approved": {"payloadSchema": {"type": "string"}}})
        named = run("r-1", "assess", status="suspended", manifest={"contractFingerprint": "of nobody's"})
        unnamed = run("r-2", "assess", status="suspended")
        rows = simulate_rollout([named, unnamed], other, texts).rows
        assert [row.on_new for row in rows] == ["resume", "manual"]
        assert simulate_rollout(named, other, texts, contract=other).rows[0].on_new == "manual"


class TestStructure:
    """What the contracts say, for the workflows that have a log here."""

    @staticmethod
    def told(run: Run, old: Contract, new: Contract) -> list[tuple[str, str, str | None]]:
        """Code, severity and step of what a finished run brings up."""
        return [
            (found.code, found.severity, found.step)
            for found in simulate_rollout(run("r-1", "assess"), old, new).findings
        ]

    def schema(self, **properties: str) -> dict[str, Any]:
        """An object whose keys are all required."""
        parts = {name: {"type": kind} for name, kind in properties.items()}
        return {"type": "object", "properties": parts, "required": sorted(parts)}

    def test_a_checkpoint_engine(self, run: Run) -> None:
        """It never reads finished work again, but a new step may be where a run stands."""
        gives = {"outputSchema": self.schema(a="string")}, {"outputSchema": self.schema(b="integer")}
        old, new = (contract("assess", engine="checkpoint", steps={"assess": one}) for one in gives)
        assert self.told(run, old, new) == []
        more = contract("assess", engine="checkpoint", steps={"assess": gives[0], "note": {}})
        assert self.told(run, old, more) == [("frontier-missing", "breaking", "note")]

    @pytest.mark.parametrize(
        ("part", "told"),
        [
            ({"inputSchema": {"a": "integer"}}, [("input-contract", "breaking", None)]),
            ({"inputSchema": {"a": "string", "b": "string"}}, [("input-contract", "warning", None)]),
            (
                {"stateSchema": {"b": "string"}},
                [("state-key-lost", "breaking", None), ("state-type", "breaking", None)],
            ),
            ({"outputSchema": {"b": "string"}}, []),
        ],
    )
    def test_whole_schemas(self, run: Run, part: dict[str, Any], told: Any) -> None:
        """What is refused is breaking, what is dropped a warning; an output ends its run, so nobody reads it."""
        ((name, properties),) = part.items()
        old, new = (contract("assess", **{name: self.schema(**one)}) for one in ({"a": "string"}, properties))
        assert sorted(set(self.told(run, old, new)), key=str) == sorted(told, key=str)

    def test_a_tool(self, run: Run) -> None:
        """A call that was approved under the new tool must be one that the old tool makes as it was shown."""
        one = {"pay": {"schema": self.schema(cents="integer"), "version": 1}}
        two = {"pay": {"schema": self.schema(cents="integer", to="string"), "version": 2}, "mail": {}}
        told = self.told(run, contract("assess", tools=one), contract("assess", tools=two))
        assert sorted(told, key=str) == [
            ("approval-stale", "breaking", "pay"),
            ("tool-args", "breaking", "pay"),
            ("tool-missing", "breaking", "mail"),
        ]

    def test_a_plan_of_another_version(self, run: Run) -> None:
        """A plan has its own version, and needs its own way back."""
        old, new = (contract("assess", versions={"plan": number}) for number in (1, 2))
        assert self.told(run, old, new) == [("schema-unknown", "breaking", "plan")]
        assert self.told(run, new, old) == [("migration-missing", "breaking", "plan")]

    def test_kinds_of_events_of_which_no_run_says_anything(self, run: Run) -> None:
        """A newer version of a gate's event that no run has yet is worth a look; one that old runs have is known."""
        gated = contract("assess", gates={"Approved": {}})
        with isolated_upcasters():
            upcaster("Approved", from_version=1)(dict)
            upcaster("Nobodys", from_version=1)(dict)
            assert self.told(run, gated, gated) == [("schema-unknown", "warning", "Approved")]
            waiting = LogBuilder("r-1", "refund")
            waiting.add("EXECUTION_STARTED", {}, timestamp=0)
            waiting.add("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval"}, timestamp=1)
            waiting.add("Approved", {}, timestamp=2, event_version=2)
            assert simulate_rollout(waiting.log(), gated, gated).structure == []


class TestText:
    def test_runs_of_one_kind_are_one_line(self) -> None:
        """The verdict on a rollback first, then what becomes of how many runs of which flow."""
        rows = [RolloutRow(f"r-{n}", "refund", "suspended", "resume", "resume", "resume") for n in range(3)]
        rows.append(RolloutRow("r-9", "order", "running", "resume", "fork", None))
        assert str(RolloutReport(rows, notes=["order says nothing of its steps"])).splitlines() == [
            "rollback is safe: the old code reads what the new writes (4 unfinished runs)",
            "1 of 4 unfinished runs would not go on with the new code",
            "  runs  flow                          on old      on new      after a rollback",
            "     3  refund                        resume      resume      resume",
            "     1  order                         resume      fork        -",
            "note: order says nothing of its steps",
        ]

    def test_names_from_logs_stay_on_their_line(self) -> None:
        """Control characters and endless names cannot forge or flood the terminal."""
        name = "x\nrollback is safe\x1b[2J\u2028" + "y" * 5_000
        rows = [RolloutRow(name, f"{name}{n}", "suspended", "resume", "resume", None) for n in range(40)]
        lines = str(RolloutReport(rows)).split("\n")
        assert all(line.isprintable() and len(line) <= 85 for line in lines)
        assert len(lines) == 13

    def test_no_run(self) -> None:
        """Without an unfinished run only the contracts were judged, and that is what is said."""
        assert str(RolloutReport()) == "rollback is safe: the old code reads what the new writes (no unfinished run)"
