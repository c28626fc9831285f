"""Mutants of today's flows: which promises are changed, and whether runs of a corpus turn red where one is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_loom import Context, Log, LogBuilder, contract_of, flow, record, resume, step, tool
from pytest_loom.contract.model import Contract
from pytest_loom.deploy.flow_mutants import MOST, OPERATORS, flow_mutants
from pytest_loom.deploy.flow_trials import LOOK, Trial, try_mutants
from pytest_loom.flow.definition import Flow

OBJECT = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
WHOLE = {
    "workflowId": "refund",
    "engine": "journal",
    "inputSchema": OBJECT,
    "stateSchema": OBJECT,
    "steps": {"assess": {"outputSchema": {"type": "string"}}, "pay": {}},
    "gates": {"Approved": {"payloadSchema": {"type": "boolean"}}},
    "tools": {"wire": {"schema": OBJECT, "approval": True, "permissions": ["bank"]}},
}


def waiting(*steps: str, pending: Any = None, execution_id: str = "r-1") -> Log:
    """A run that has done these steps and waits for its approval, or for that of a call."""
    made = LogBuilder(execution_id, "refund")
    made.add("EXECUTION_STARTED", {"input": {"order": "A-17"}}, timestamp=1)
    for name in steps:
        made.add("STEP_STARTED", {"stepId": name}, timestamp=2)
        made.add("STEP_COMPLETED", {"stepId": name, "output": "done"}, timestamp=3)
    made.add("EXECUTION_SUSPENDED", {"on": "Approved", "kind": "approval", "pending": pending}, timestamp=4)
    return made.log()


def finished(*steps: str) -> Log:
    """A run that has done these steps and is over."""
    made = LogBuilder("r-2", "refund")
    made.add("EXECUTION_STARTED", {"input": {"order": "A-17"}}, timestamp=1)
    for name in steps:
        made.add("STEP_COMPLETED", {"stepId": name, "output": "done"}, timestamp=3)
    made.add("EXECUTION_COMPLETED", {}, timestamp=5)
    return made.log()


def tried(logs: Iterable[Log], flows: Any, **rules: Any) -> dict[str, Trial]:
    """What became of each mutant, by operator and target."""
    given = {"contract": None, "scope": "auto", "policy": None, "checks": (), **rules}
    found = try_mutants(logs, flows, **given)
    return {name.partition(" ")[2]: trial for name, trial in found.items()}


def survivors(trials: Mapping[str, Trial]) -> dict[str, str]:
    """What survived, and what to do about it."""
    return {name: one.ask for name, one in trials.items() if not one.noticed and not one.excuse}


def test_every_operator_has_its_turn() -> None:
    """Of a contract that says everything each operator makes mutants, and none of them is the contract itself."""
    contract = Contract.model_validate(WHOLE)
    made = flow_mutants(contract, contract)
    assert {mutant.operator for mutant in made} == set(OPERATORS)
    assert len({mutant.name for mutant in made}) == len(made)
    assert all(mutant.flow != contract for mutant in made)
    assert {mutant.what for mutant in made} >= {
        "step assess is called assess_mutant",
        "step pay is gone",
        "gate Approved is called ApprovedMutant",
        "tool wire is gone",
        "tool wire takes one more argument, mutant",
        "tool wire may touch one thing more, mutant",
        "tool wire asks for no approval any more",
        "its input has to have a key mutant",
        "the result of step assess has to have a key mutant",
        "the answer to Approved has to have a key mutant",
    }


def test_what_a_contract_does_not_say_is_not_changed() -> None:
    """A part that is absent is not checked, so that no mutant of it could be noticed."""
    only = Contract.model_validate({"workflowId": "refund", "steps": {"assess": {}}})
    assert {mutant.operator for mutant in flow_mutants(only, only)} == {"rename-step", "remove-step"}


def test_large_flows_are_sampled() -> None:
    """So many mutants of an operator and no more."""
    many = Contract.model_validate({"workflowId": "refund", "steps": {f"s{n}": {} for n in range(3 * MOST)}})
    assert len(flow_mutants(many, many)) == 2 * MOST


def test_runs_turn_red_where_they_are_hurt() -> None:
    """A run that waits with a call and one step behind it notices whatever it depends on, and nothing else."""
    call = {"callId": "c", "name": "wire", "args": {"order": "A-17"}, "toolSchema": OBJECT, "permissions": ["bank"]}
    trials = tried([waiting("assess", pending=call)], {"refund": WHOLE})
    assert {name for name, one in trials.items() if one.noticed} == {
        "rename-step assess",
        "remove-step assess",
        "rename-gate Approved",
        "remove-tool wire",
        "widen-tool wire arguments",
        "widen-tool wire permissions",
        "narrow-schema input",
        "narrow-schema output assess",
    }
    assert survivors(trials) == {
        "rename-step pay": "Record a run that comes by step pay, and name its log in loom_logs.",
        "remove-step pay": "Record a run that comes by step pay, and name its log in loom_logs.",
    }


def test_what_no_run_shows_survives_with_advice() -> None:
    """Finished runs stand for those that pass their steps; for gates and tools somebody has to wait there."""
    assert survivors(tried([finished("assess", "pay")], {"refund": WHOLE})) == {
        "rename-gate Approved": "Record a run that waits at Approved, and name its log in loom_logs.",
        **dict.fromkeys(
            (
                "remove-tool wire",
                "widen-tool wire arguments",
                "widen-tool wire permissions",
                "widen-tool wire approval",
            ),
            "Record a run that waits for the approval of a call of wire, and name its log in loom_logs.",
        ),
    }


def test_reasons_why_nobody_has_to_notice() -> None:
    """What no resume reads, and what nobody could know, is equivalent, and each says why."""
    call = {"callId": "c", "name": "wire", "args": {"order": "A-17"}}
    trials = tried([waiting(pending=call)], {"refund": WHOLE})
    said = {name: one.excuse for name, one in trials.items() if one.excuse}
    assert set(said) == {
        "widen-tool wire approval",
        "narrow-schema output assess",
        "narrow-schema answer Approved",
        "narrow-schema state",
    }
    assert said["widen-tool wire approval"].startswith("the question is saved with the run")
    assert "loom_contracts" in said["narrow-schema answer Approved"]


def test_a_kept_contract_shows_a_narrower_answer() -> None:
    """Once yesterday's contract is there, an answer that today's gate would refuse is noticed."""
    trials = tried([waiting()], {"refund": WHOLE}, contract=Contract.model_validate(WHOLE))
    assert trials["narrow-schema answer Approved"].noticed


def test_what_is_broken_today_is_no_proof() -> None:
    """A run that is red already, for that very reason, does not notice a mutant."""
    today = {**WHOLE, "steps": {"pay": {}}, "gates": {"Other": {}}}
    trials = tried([waiting("assess")], {"refund": today})
    assert not trials["rename-gate Other"].noticed


def test_acknowledged_and_allowed_findings_notice_nothing() -> None:
    """What somebody accepted does not turn a simulation red: it says where to look."""
    accept_all = lambda findings: [one.as_acknowledged("mia") for one in findings]  # noqa: E731  # one use
    trials = tried([waiting("assess")], {"refund": WHOLE}, accepted=accept_all)
    assert not any(one.noticed for one in trials.values())
    assert trials["rename-step assess"].ask == (
        "1 run comes by it, and none is broken: look at loom_policy and loom_acks."
    )
    policy = {"rule": [{"flow": "refund", "allow": ["fork", "resume", "manual"]}]}
    assert not tried([waiting("assess")], {"refund": WHOLE}, policy=policy)["rename-step assess"].noticed


def test_parts_of_a_corpus_add_up() -> None:
    """A mutant that one part notices is noticed, and a reason counts only for the whole."""
    mine = tried([finished("assess")], {"refund": WHOLE})["rename-gate Approved"]
    theirs = tried([waiting()], {"refund": WHOLE})["rename-gate Approved"]
    whole = replace(mine)
    whole.add(theirs)
    assert (mine.noticed, theirs.noticed, whole.noticed) == (False, True, True)
    quiet = tried([finished("assess")], {"refund": WHOLE})["narrow-schema output assess"]
    assert quiet.excuse
    open_run = replace(quiet, open=1, judged=1, passed=1)
    quiet.add(open_run)
    assert not quiet.excuse


def test_so_many_runs_and_no_more_are_judged() -> None:
    """A mutant that nothing notices does not cost a judgement of every run of a large corpus."""
    policy = {"rule": [{"flow": "refund", "allow": ["fork", "resume", "manual"]}]}
    logs = [waiting("assess", execution_id=f"r-{number}") for number in range(LOOK + 20)]
    one = tried(logs, {"refund": WHOLE}, policy=policy)["rename-step assess"]
    assert (one.judged, one.passed) == (LOOK, LOOK + 20)


@step
async def look(order: str) -> int:
    """Look an order up."""
    return 4999


@tool(version=1)
def screen(order: str) -> bool:
    """Whether it may be paid."""
    return True


@step
async def pay(cents: int) -> str:
    """Pay it back."""
    return "paid"


@flow(id="shop", steps=[look, pay], tools=[screen], gates={"Agreed": bool})
async def shop(ctx: Context, order: str) -> str:
    """Look, screen, ask, pay."""
    cents = await ctx.run(look, order)
    await ctx.call(screen, order=order)
    if await ctx.suspend("Agreed"):
        return await ctx.run(pay, cents)
    return "no"


@pytest.fixture(scope="module")
def recorded() -> tuple[Log, Log]:
    """One run of the shop that waits, and one that is over."""
    waits = record(shop, "A-17")
    return waits, resume(waits, shop, event="Agreed", payload=True)


def test_a_flow_that_is_code_is_replayed(recorded: tuple[Log, Log]) -> None:
    """A step, gate or tool that is not declared any more is met by a replay, with and without a finding by its name."""
    trials = tried(recorded, shop)
    assert survivors(trials) == {}
    assert {name for name, one in trials.items() if one.noticed} == {
        "rename-step look",
        "remove-step look",
        "rename-step pay",
        "remove-step pay",
        "rename-gate Agreed",
        "remove-tool screen",
        "narrow-schema input",
        "narrow-schema output look",
    }
    assert trials["narrow-schema output pay"].excuse == "no unfinished run has such a value: nothing reads it again"
    assert survivors(tried(recorded[1:], shop))["remove-tool screen"] == (
        "Record a run that waits after a call of screen, and name its log in loom_logs."
    )


def test_a_flow_is_not_changed_by_its_mutants(recorded: tuple[Log, Log]) -> None:
    """The mutants are copies: today's flow has its declarations and its fingerprint as before."""
    before = (shop.fingerprint, list(shop.steps), list(shop.tools), list(shop.gates), look.id)
    made = flow_mutants(contract_of(shop), shop)
    tried(recorded, shop)
    assert (shop.fingerprint, list(shop.steps), list(shop.tools), list(shop.gates), look.id) == before
    changed = [mutant.flow for mutant in made if isinstance(mutant.flow, Flow)]
    assert len(changed) == 6
    assert all(one.fingerprint != shop.fingerprint for one in changed)


def checkpoint(*names: str, status: str = "waiting") -> Log:
    """A run of an engine that resumes from a saved state: it ran ``look`` and stands at these."""
    made = LogBuilder("r-1", "graph")
    made.add("EXECUTION_STARTED", {"input": {}}, timestamp=1)
    made.add("EXECUTION_SUSPENDED", {"on": "Answered", "kind": "question"}, timestamp=2)
    pending = [{"node": name, "namespace": "", "status": status, "leaf": True, "kind": "pull"} for name in names]
    made.add("CheckpointFrontier", {"pending": pending, "ran": {"": ["look"]}}, timestamp=3)
    return made.log(source="some", engine="checkpoint")


GRAPH = {
    "workflowId": "graph",
    "engine": "checkpoint",
    "steps": {
        "__start__": {"next": ["look"]},
        "look": {"next": ["ask"]},
        "ask": {"next": ["sign"], "asks": True},
        "sign": {"next": ["pay"], "asks": True},
        "pay": {"next": []},
    },
}


def test_a_step_behind_the_frontier_is_equivalent() -> None:
    """An engine that runs finished work never again does not mind another name for it; a step that asks has to wait."""
    trials = tried([checkpoint("ask")], {"graph": GRAPH})
    assert {name for name, one in trials.items() if one.noticed} == {"rename-step ask", "remove-step ask"}
    assert {name: one.excuse.partition(":")[0] for name, one in trials.items() if one.excuse} == {
        "rename-step look": "a step behind where every recorded run stands",
        "remove-step look": "a step behind where every recorded run stands",
        "rename-step pay": "a step where no recorded run stands",
        "remove-step pay": "a step where no recorded run stands",
    }
    assert survivors(trials) == dict.fromkeys(
        ("rename-step sign", "remove-step sign"), "Record a run that waits at sign, and name its log in loom_logs."
    )


def test_names_change_wherever_they_stand() -> None:
    """A step of another name is led to by it, joins and handoffs name it, and a sub-flow's steps are its own."""
    contract = Contract.model_validate(
        {
            "workflowId": "graph",
            "engine": "checkpoint",
            "steps": {
                "__start__": {"next": ["a", "b"]},
                "a": {"next": ["c"]},
                "b": {"next": ["c"]},
                "c": {},
                "c/inner": {"next": ["inner2"]},
                "c/inner2": {},
            },
            "joins": {"join:a+b:c": ["a", "b"]},
            "agents": {"a": {"handoffs": {"to_b": "b"}}, "b": {"tools": {"wire": {}}, "handoffs": {}}},
        }
    )
    made = {mutant.name: mutant.flow for mutant in flow_mutants(contract, contract)}
    renamed = made["rename-step b"]
    assert renamed.steps["__start__"].next == ("a", "b_mutant")
    assert renamed.joins == {"join:a+b_mutant:c": ("a", "b_mutant")}
    assert renamed.agents["a"].handoffs == {"to_b": "b_mutant"}
    assert list(renamed.agents) == ["a", "b_mutant"]
    assert made["rename-step c/inner2"].steps["c/inner"].next == ("inner2_mutant",)
    assert "rename-step c" not in made
    assert made["remove-tool b/wire"].agents["b"].tools == {}
    assert contract.joins == {"join:a+b:c": ("a", "b")}


def test_runs_out_of_scope_are_left_out() -> None:
    """In scope are the runs of a simulation and no others."""
    trials = tried([finished("assess")], {"refund": WHOLE}, scope="in-flight")
    assert trials == {}
