"""The checks for engines that resume from a saved state: does today's code still have what a waiting run needs?

Such an engine never runs finished work again, so only the frontier counts, and what flows into it (DESIGN section 8).
The source of a log says what that is in one application event, the last of its kind in the log counting:

``CheckpointFrontier``, payload (all but ``pending`` optional):

- ``pending``: ``[{node, namespace, status, leaf, kind?, trigger?}]``: what would run next. ``node`` is a step of the
  contract ("" where the store does not name it, then ``trigger`` is the step that it follows), ``namespace`` the path
  of sub-flows around it (``writer/review``), ``status`` is waiting (it asked), failed, ready, or finished (its result
  is saved beside the state and not yet part of it). ``leaf`` is false for a node that waits for one inside it.
- ``interrupts``: ``[{id, node, namespace, value, answers, answered, leaf}]``: the questions that were asked, with the
  answers that the same node was given before.
- ``calls``: ``[{callId, name, args, schema?, approval?, version?}]``: tool calls that are not answered. ``schema`` and
  ``version`` are the tool's when the call was shown, ``approval`` whether it waits for a person's leave.
  ``asksAgain``: the code asks again on resume, so that an approval which it does not ask for is none.
- ``sends``: ``[{node, namespace}]``: steps that were asked for by name. ``writes``: ``[{node, namespace, channel}]``:
  what finished siblings wrote. ``barriers``: ``[{channel, namespace, sources, target, seen}]``: joins and which of
  their sources have arrived. ``ran``: ``{namespace: [steps that ran]}``.
- ``types``: ``{state key: ["module.Class"]}``; ``folds``: ``{state key: "added" | "replaced"}``: what recorded writes
  did to the value; ``checkpoints``: what a shadow resume of that engine needs.

The state itself is the log's last STATE_SNAPSHOT. A contract names the steps of a sub-flow by path
(``writer/review``); ``__start__`` stands for where a (sub-)flow begins. A check is a pure function
``(log, today's contract, yesterday's contract or None) -> findings``; ``CHECKS`` lists them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from pytest_loom.contract.model import Contract, StepContract
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Event, Log

FRONTIER = "CheckpointFrontier"
START = "__start__"
ANYWHERE = "*"
"""In ``next``: where a step goes on is decided while it runs."""

Check = Callable[[Log, Contract, "Contract | None"], Iterable[Finding]]


def frontier_of(log: Log) -> dict[str, Any]:
    """The payload of the log's last CheckpointFrontier; {} where there is none. It is shared: nobody may change it."""
    for event in reversed(log.events):
        if event.event_type == FRONTIER:
            return _payload(event)
    return {}


@lru_cache(maxsize=4)
def _payload(event: Event) -> dict[str, Any]:
    """The payload of an event, decoded once for all the checks of a run."""
    return event.payload


def items(facts: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """The entries of one part of the frontier, without what has not their shape."""
    found = facts.get(part)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def place(item: dict[str, Any]) -> str:
    """The step id of an entry's node: its namespace and its name."""
    node, namespace = str(item.get("node") or ""), str(item.get("namespace") or "")
    return f"{namespace}/{node}" if namespace else node


def applies(log: Log, contract: Contract) -> bool:
    """Whether the run is unfinished, and its log says where it would go on from its saved state."""
    return log.engine == "checkpoint" and log.state.in_flight and bool(frontier_of(log))


def frontier_missing(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A run would go on at a step that today's flow does not have: engines then do nothing, without a word."""
    if contract.steps is None or not applies(log, contract):
        return
    facts = frontier_of(log)
    said: set[str] = set()
    for item in items(facts, "pending"):
        if item.get("kind") == "call":
            continue  # is known by its place in code, not by its name
        name = place(item)
        if not item.get("node"):
            yield from _after_unknown(log, contract, item)
        elif name not in said and _is_missing(name, contract):
            said.add(name)
            yield _missing(log, contract, item, name)
    for item in items(facts, "sends"):
        name = place(item)
        if name not in said and _is_missing(name, contract):
            said.add(name)
            yield finding(
                log,
                "frontier-missing",
                f"work was sent to step {printable(name)}, which today's {printable(contract.workflow_id)} does not"
                f" have: it would be dropped without an error, and what waits for it never comes."
                f"{_near(name, contract)}",
                _KEEP.format(printable(name)),
                step=name,
            )


_KEEP = (
    "Keep {0}, with the edges that lead on from it, as a step beside the new one until these runs are over, or let the"
    " old code finish them."
)


def _is_missing(name: str, contract: Contract) -> bool:
    """Whether a step is gone. Of a sub-flow whose steps today's contract does not tell nothing is known."""
    steps = contract.steps or {}
    if name in steps or name.rpartition("/")[2] == START:
        return False
    namespace = name.rpartition("/")[0]
    return not namespace or any(step.startswith(f"{namespace}/") for step in steps) or namespace not in steps


def _missing(log: Log, contract: Contract, item: dict[str, Any], name: str) -> Finding:
    flow = printable(contract.workflow_id)
    shown = printable(name)
    outer = name.rpartition("/")[0]
    if item.get("status") == "finished":
        what = (
            f"step {shown} is finished, but its result is not yet part of the saved state, and today's {flow} has no"
            " such step: the result would be discarded."
        )
    else:
        state = {"waiting": "waits in", "failed": "failed in"}.get(str(item.get("status")), "would go on at")
        then = (
            f"the sub-flow would end there and {printable(outer)} go on without it: what was to be asked or done"
            " there is skipped."
            if outer and not _is_missing(outer, contract)
            else "a resume would do nothing, raise nothing, and the run would look finished."
        )
        what = f"the run {state} step {shown}, which today's {flow} does not have: {then}"
    return finding(log, "frontier-missing", f"{what}{_near(name, contract)}", _KEEP.format(shown), step=name)


def _after_unknown(log: Log, contract: Contract, item: dict[str, Any]) -> Iterator[Finding]:
    """An old store names the step before only: who is due is for today's edges to say."""
    trigger = str(item.get("trigger") or "")
    namespace = str(item.get("namespace") or "")
    name = f"{namespace}/{trigger}" if namespace else trigger
    if trigger in ("", START):  # whatever takes the input today takes it
        return
    step = (contract.steps or {}).get(name)
    if step is None or step.next == ():
        lost = "does not have" if step is None else "lets nothing follow"
        yield finding(
            log,
            "frontier-missing",
            f"the run waits for what follows step {printable(name)}, which today's {printable(contract.workflow_id)}"
            f" {lost}: a resume would do nothing, raise nothing, and the run would look finished."
            + (_near(name, contract) if step is None else ""),
            _KEEP.format(printable(name)),
            step=name,
        )


def _near(name: str, contract: Contract) -> str:
    names = [step for step in contract.steps or {} if step.rpartition("/")[2] != START]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f" Was it renamed to {printable(near[0])}?" if near else ""


def join_broken(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A join that today's flow waits for can never be complete in this run, or its marks have another name."""
    if contract.joins is None or contract.steps is None or not applies(log, contract):
        return
    facts = frontier_of(log)
    stored = {_named(item): item for item in items(facts, "barriers")}
    written = {
        (f"{item.get('namespace')}/" if item.get("namespace") else "") + str(item.get("channel")): item
        for item in items(facts, "writes")
        if str(item.get("channel")).startswith("join:")
    }
    for name, item in {**stored, **written}.items():
        arrived = item.get("seen") or ([item["node"]] if name in written else [])
        if name not in contract.joins and arrived and not _is_spent(item):
            yield finding(
                log,
                "join-broken",
                f"{' and '.join(printable(str(source)) for source in arrived)} already arrived at the join"
                f" {printable(name)}, which today's {printable(contract.workflow_id)} does not have (its name comes"
                " from the order of its sources): the mark is lost, and what follows the join would never run.",
                "Keep the join's sources, their order and their names until these runs are over.",
                step=str(item.get("target") or name.rpartition(":")[2]),
            )
    reach = reachable(contract, [place(item) for item in items(facts, "pending") if item.get("status") != "finished"])
    done = ran_steps(facts)
    for name, sources in contract.joins.items():
        namespace = name.rpartition("/")[0] if "/" in name.partition(":")[0] else ""
        full = [f"{namespace}/{source}" if namespace else source for source in sources]
        if name in stored or name in written or ANYWHERE in reach:
            continue
        late = [source for source in full if source in done and source not in reach]
        coming = [source for source in full if source in reach]
        if late and coming:
            target = name.rpartition(":")[2]
            yield finding(
                log,
                "join-broken",
                f"today's {printable(contract.workflow_id)} lets {printable(target)} wait for"
                f" {' and '.join(printable(source) for source in full)}, but {printable(late[0])} ran before there was"
                " such a join: it will not arrive again, and what follows the join would never run.",
                "Let the old code finish these runs, or keep the edge as it was beside the join.",
                step=target,
            )


def _named(item: dict[str, Any]) -> str:
    namespace = str(item.get("namespace") or "")
    return f"{namespace}/{item.get('channel')}" if namespace else str(item.get("channel"))


def _is_spent(item: dict[str, Any]) -> bool:
    """Whether a join has nothing in it: it was passed already, or nobody arrived."""
    return "seen" in item and not item["seen"]


def ran_steps(facts: dict[str, Any]) -> set[str]:
    """The ids of the steps that ran in this run."""
    ran = facts.get("ran")
    found: set[str] = set()
    for namespace, names in ran.items() if isinstance(ran, dict) else ():
        found |= {f"{namespace}/{name}" if namespace else str(name) for name in names}
    return found


def reachable(contract: Contract, starts: Iterable[str]) -> set[str]:
    """Every step that can still run from ``starts``, them included; ``*`` among them where that is not known."""
    steps = contract.steps or {}
    found: set[str] = set()
    waiting = [start for start in starts if start]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        step = steps.get(name)
        if step is None:
            continue
        if step.next is None or ANYWHERE in step.next:
            found.add(ANYWHERE)
            continue
        namespace = name.rpartition("/")[0]
        waiting += [f"{namespace}/{after}" if namespace else after for after in step.next]
        if namespace and not step.next:
            waiting.append(namespace)  # the end of a sub-flow is the end of its step
        waiting += [f"{name}/{START}"] if f"{name}/{START}" in steps else []
    return found


def step_inserted(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A step that asks a person stands before where the run waits, and this run never passed it: it is not asked."""
    if contract.steps is None or not applies(log, contract):
        return
    facts = frontier_of(log)
    done = ran_steps(facts)
    pending = [place(item) for item in items(facts, "pending") if item.get("node")]
    asking = [name for name, step in contract.steps.items() if step.asks]
    known = set(yesterday.steps or {}) if yesterday is not None else set()
    for name in asking:
        if name in done or name in pending or name in known or any(one.startswith(f"{name}/") for one in pending):
            continue
        skipped = [one for one in pending if one in contract.steps and _must_pass(contract, name, one)]
        if skipped:
            yield finding(
                log,
                "step-inserted",
                f"today's {printable(contract.workflow_id)} asks at {printable(name)} before it comes to"
                f" {printable(skipped[0])}, where this run stands already: {printable(name)} is never asked for it.",
                "Decide whether these runs may go on under the rules that they were started under.",
                step=name,
            )


def _must_pass(contract: Contract, gate: str, step: str) -> bool:
    """Whether every way from the beginning to ``step`` leads through ``gate``, of the same (sub-)flow or one around."""
    namespace = gate.rpartition("/")[0]
    inside = f"{namespace}/" if namespace else ""
    if not step.startswith(inside):
        return False
    target = inside + step[len(inside) :].partition("/")[0]
    start = f"{inside}{START}"
    steps = dict(contract.steps or {})
    if start not in steps or target == gate:
        return False
    steps[gate] = StepContract(next=())
    around = reachable(contract.model_copy(update={"steps": steps}), [start])
    return target not in around and ANYWHERE not in around and target in reachable(contract, [start])


CHECKS: tuple[Check, ...] = (frontier_missing, join_broken, step_inserted)
"""The checks of this file; ``checkpoint_state`` and ``checkpoint_calls`` have theirs."""
