"""What a waiting run asks today, beside what a person was asked then: the findings of a shadow resume.

Structure alone cannot show that a question is gone, that others come before it, that it turned, or that finished work
would be done again. ``shadowed`` has the waiting node run once, by itself, in a process of its own (``shadow``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.checkpoint import ANYWHERE, applies, frontier_of, items, place, ran_steps, reachable
from pytest_loom.deploy.questions import Answered, compare_questions
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.deploy.shadow import NoAnswer, shadow_of
from pytest_loom.errors import printable
from pytest_loom.log.event import Log

_OWN_ERRORS = frozenset({"KeyError", "AttributeError", "TypeError", "IndexError", "NameError", "UnboundLocalError"})
"""What code raises that does not get what it expects. The old code came to its question with the same state."""

_REFUSES_STATE = "ValidationError"


def shadowed(log: Log, flow: Any, contract: Contract) -> Iterator[Finding]:
    """What a shadow resume of an unfinished run on today's flow finds; nothing where the flow has no shadow.

    Where it cannot be had, or comes to no end, nothing is said: the structural checks stand.
    """
    facts = frontier_of(log) if applies(log, contract) else {}
    if not facts.get("checkpoints") or not facts.get("readable", True):
        return
    request = {
        "thread": log.execution_id,
        "frontier": facts,
        "states": _states(log),
        "routers": _routers(facts, contract),
    }
    try:
        seen = shadow_of(flow, request)
    except NoAnswer:
        return
    if seen is None:
        return
    yield from _refused(log, contract, facts, seen)
    yield from _repeated(log, contract, facts, seen)
    yield from _stopped_again(log, contract, facts, seen)
    yield from _asked(log, contract, facts, seen)
    yield from _lost_routes(log, contract, facts, seen)


def _states(log: Log) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event in log.events:
        if event.event_type == "STATE_SNAPSHOT":
            found[event.namespace or ""] = event
    return {namespace: event.payload.get("state") for namespace, event in found.items()}


def _routers(facts: dict[str, Any], contract: Contract) -> list[str]:
    """The steps that may still come and whose code decides where to go on."""
    pending = [place(item) for item in items(facts, "pending") if item.get("status") != "finished"]
    steps = contract.steps or {}
    reach = reachable(contract, pending)
    if ANYWHERE in reach:  # how far it goes is not known: only what the run stands at is asked
        reach = set(pending)
    return sorted(name for name in reach if name in steps)


def _refused(log: Log, contract: Contract, facts: dict[str, Any], seen: dict[str, Any]) -> Iterator[Finding]:
    """The saved state is not taken at all, or the node fails on it before it comes to its question."""
    if seen.get("refused") == _REFUSES_STATE and not seen.get("started"):
        yield finding(
            log,
            "state-type",
            f"today's {printable(contract.workflow_id)} refuses the saved state: {printable(seen['problem'], 200)}.",
            "Give new keys a default, and keep reading the old types, until these runs are over.",
        )
    states = _states(log).values()
    saved = {key for state in states if isinstance(state, dict) for key in state}
    declared = contract.state_schema.get("properties") if isinstance(contract.state_schema, dict) else None
    for error in items(seen, "errors"):
        key, own = error.get("key"), error["type"] in _OWN_ERRORS
        about_state = own and key and (key in saved) != (key in (declared or ()))
        elsewhere = error["place"] in (seen.get("usesOutside") or ()) or seen.get("live") or seen.get("missed")
        if about_state or (not elsewhere and (own or error["type"] == _REFUSES_STATE)):
            is_type = error["type"] in (_REFUSES_STATE, "TypeError")
            yield finding(
                log,
                "state-type" if is_type else "state-key-lost",
                f"today's {printable(error['place'])} raises {error['type']} ({printable(error['message'])}) on the"
                " saved state, before it comes to its question: the run would stick there.",
                "Read what was saved as well as the new form, until these runs are over.",
                step=error["place"],
            )


def _repeated(log: Log, contract: Contract, facts: dict[str, Any], seen: dict[str, Any]) -> Iterator[Finding]:
    """Work that is finished and whose result is saved would be done again."""
    pending = items(facts, "pending")
    open_places = {place(item) for item in pending if item.get("status") != "finished"}
    done = {place(item) for item in pending if item.get("status") == "finished" and item.get("kind") != "call"}
    if not seen.get("finished"):  # then nothing went on from where the run stands: what starts was done before
        done |= ran_steps(facts)
    again = [item for item in items(seen, "started") if item.get("place") in done - open_places]
    for name in dict.fromkeys(str(item["place"]) for item in again):
        yield finding(
            log,
            "effect-repeated",
            f"step {printable(name)} is finished and its result is saved, but today's library does not find it there:"
            f" {printable(name)} would run again.",
            "Let the code that wrote the run finish it, or check that running it twice does no harm.",
            step=name,
        )
    recorded = sum(1 for item in pending if item.get("kind") == "call" and item.get("status") == "finished")
    calls = items(seen, "calls")
    found = sum(1 for call in calls if call.get("recorded"))
    anew = [str(call.get("name")) for call in calls if not call.get("recorded")]
    if anew and found < recorded:
        yield finding(
            log,
            "effect-repeated",
            f"{recorded} task result{'s are' if recorded > 1 else ' is'} saved, and today's code finds"
            f" {found or 'none'} of them by name and place: {printable(anew[0])} would run although its work is done,"
            " and what comes after it again.",
            "Keep the names and the order of the tasks that these runs have passed; add new ones after them.",
            step=anew[0],
        )


def _stopped_again(log: Log, contract: Contract, facts: dict[str, Any], seen: dict[str, Any]) -> Iterator[Finding]:
    """A step that is due never starts: a breakpoint before it stops the run on every resume."""
    started = {str(item.get("place")) for item in items(seen, "started")}
    for item in items(facts, "pending"):
        name = place(item)
        open_leaf = item.get("leaf") and item.get("status") != "finished" and item.get("kind") == "pull"
        if not open_leaf or item.get("namespace") or name not in (seen.get("due") or ()) or name in started:
            continue
        if seen.get("problem") or name.startswith("__") or any(other.startswith(f"{name}/") for other in started):
            continue
        yield finding(
            log,
            "gate-changed",
            f"{printable(name)} is due, and today's {printable(contract.workflow_id)} stops before it again on each"
            " resume, without a word: a run counts as changed at its breakpoint where a saved key has no channel.",
            "Keep the key that was removed from the state until these runs are over.",
            step=name,
        )


def _asked(log: Log, contract: Contract, facts: dict[str, Any], seen: dict[str, Any]) -> Iterator[Finding]:
    """The question that is open, beside what today's code asks in its place."""
    started = {str(item.get("place")) for item in items(seen, "started")}
    failed = {str(item.get("place")) for item in items(seen, "errors")}
    anew = any(not call.get("recorded") for call in items(seen, "calls"))
    told: set[str] = set()
    only = next(iter(contract.steps)) if contract.steps and len(contract.steps) == 1 else ""
    for item in items(facts, "interrupts"):
        name = place(item) or only
        if item.get("answered") or not item.get("leaf") or name in told or name in failed or seen.get("live"):
            continue
        told.add(name)
        same_place = [
            one for one in items(facts, "interrupts") if (place(one) or only) == name and not one.get("answered")
        ]
        if name not in started:
            inside = any(not one.get("answered") for one in items(seen, "asked"))
            if not inside and any(name.startswith(f"{outer}/") for outer in seen.get("finished", ())):
                yield _bypassed(log, item, name.rpartition("/")[0])
            continue  # else it is a matter of structure
        today = [one for one in items(seen, "asked") if _names(str(one.get("place"))) == name]
        if len(same_place) > 1:
            yield from _several(log, name, same_place, today)
            continue
        answered = item.get("answers") if isinstance(item.get("answers"), list) else []
        if not any(not one.get("answered") for one in today):
            step = (contract.steps or {}).get(name)
            goes_on = name in seen.get("finished", ()) or bool(seen.get("tools"))
            if goes_on or (anew and step is not None and step.asks is False):
                yield _bypassed(log, item, name)
            continue
        shown = Answered(item.get("value"), len(answered or ()))
        again = [one.get("value") for one in items(seen, "again") if _names(str(one.get("place"))) == name]
        sketches = (seen.get("sketches") or {}).get(name)
        for code, severity, text in compare_questions(shown, [one.get("value") for one in today], sketches, again):
            yield _differs(log, name, code, severity, text)


def _several(log: Log, name: str, stored: list[dict[str, Any]], today: list[dict[str, Any]]) -> Iterator[Finding]:
    """One step that waits many times over (work that was sent out): each question has to be asked again."""
    asked_now = [one.get("value") for one in today if not one.get("answered")]
    if len(asked_now) < len(stored):
        yield _bypassed(log, stored[0], name)
        return
    for item in stored:
        if item.get("value") in asked_now:
            continue
        shown = Answered(item.get("value"), len(item.get("answers") or ()))
        closest = min(
            (compare_questions(shown, [value] * (shown.index + 1)) for value in asked_now),
            key=lambda found: (any(severity == "breaking" for _, severity, _ in found), len(found)),
        )
        for code, severity, text in closest:
            yield _differs(log, name, code, severity, text)
        if closest:
            return


def _names(namespace: str) -> str:
    return "/".join(part.partition(":")[0] for part in namespace.split("|") if part and not part.isdigit())


def _bypassed(log: Log, item: dict[str, Any], name: str) -> Finding:
    return finding(
        log,
        "approval-bypassed",
        f"somebody was asked {_shown(item.get('value'))} and did not answer yet; today's {printable(name)} does not ask"
        " it any more and goes on at once: whatever is answered, a rejection included, is not heard.",
        "Keep asking until these runs are answered, or let the old code finish them.",
        step=name,
    )


def _differs(log: Log, name: str, code: str, severity: Any, text: str) -> Finding:
    hint = {
        "answer-misrouted": "Answers are matched by position: keep the order of the questions that these runs have"
        " passed, and add new ones after them.",
        "approval-stale": "Ask again: what was shown is not what today's code would do.",
    }.get(code, "Look whether an answer to the old question is still right for the new one.")
    return finding(log, code, f"{text[0].upper()}{text[1:]}", hint, step=name, severity=severity)


def _lost_routes(log: Log, contract: Contract, facts: dict[str, Any], seen: dict[str, Any]) -> Iterator[Finding]:
    """The saved state says where to go on, and today's flow has no such step."""
    states = _states(log)
    steps = contract.steps or {}
    pending = [place(item) for item in items(facts, "pending") if item.get("status") != "finished"]
    reach = reachable(contract, pending) & steps.keys() or set(pending)
    for route in items(seen, "routes"):
        name = str(route.get("place"))
        before = {step for step in reach if ANYWHERE not in reachable(contract, [name]) or step == name} | {name}
        state = states.get(name.rpartition("/")[0])
        for target in route.get("to") or ():
            if target in (route.get("known") or ()) or target.startswith("__"):
                continue
            keys = [key for key, value in state.items() if value == target] if isinstance(state, dict) else []
            fixed = [
                key for key in keys if not any(_may_write(steps.get(step), key) for step in before & {*pending, name})
            ]
            if fixed:
                yield finding(
                    log,
                    "frontier-missing",
                    f"the saved state says {printable(fixed[0])} = {printable(target)}, by which {printable(name)} goes"
                    f" on, and today's {printable(contract.workflow_id)} leads nowhere by that name: the run would end"
                    " there, and look finished.",
                    f"Keep {printable(target)} as a step, or map the old name to the new one, until these runs are"
                    " over.",
                    step=target,
                )


def _may_write(step: Any, key: str) -> bool:
    """Whether a step may set a key; unknown code may."""
    return step is None or step.writes is None or key in step.writes


def _shown(value: Any) -> str:
    return printable(repr(value), 100)
