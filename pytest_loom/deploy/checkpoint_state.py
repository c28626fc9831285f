"""Whether the saved state still fits: its keys, their types, and how writes are put together (reducers)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_loom.contract.binding import Fact, bind
from pytest_loom.contract.model import Contract
from pytest_loom.contract.nodes import Undecided
from pytest_loom.deploy.checkpoint import ANYWHERE, START, applies, frontier_of, items, place, reachable
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import FlowError, printable
from pytest_loom.log.event import Log

_NOTHING: tuple[Any, ...] = (None, "", [], {}, False)


def state_key_lost(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A saved value has no key in today's state: the engine drops it without a word.

    That hurts where today's code still wants it: it names the old key, or reads a new one that would have to hold it
    and that nothing fills any more in this run. A key that nobody misses may go.
    """
    known = _keys(contract)
    state = log.state.state if applies(log, contract) else None
    if known is None or not isinstance(state, dict):
        return
    for key, value in state.items():
        if key in known or value in _NOTHING or not _was_read(key, yesterday):
            continue
        steps = _steps_to_come(log, contract)
        wanted = sorted(name for name, step in steps.items() if key in (step.reads or ()))
        heirs = _heirs(key, value, state, contract, yesterday, steps)
        if not wanted and not heirs:
            continue
        then = (
            f"today's code reads {printable(heirs[0])} instead, which has no value in this run"
            if heirs
            else f"today's {printable(wanted[0])} still asks for it"
        )
        yield finding(
            log,
            "state-key-lost",
            f"the saved state holds {printable(key)} = {_shown(value)}, which today's"
            f" {printable(contract.workflow_id)} has no key for: the value is dropped without an error, and {then}.",
            f"Keep {printable(key)} beside the new key until these runs are over, or move the value with update_state.",
            step=key,
        )


def _was_read(key: str, yesterday: Contract | None) -> bool:
    """Whether yesterday's code may have wanted a key: what nobody ever read is not missed."""
    steps = (yesterday.steps or {}) if yesterday is not None else {}
    told = [step for name, step in steps.items() if name.rpartition("/")[2] != START]
    return not told or any(step.reads is None or key in step.reads for step in told)


def _keys(contract: Contract) -> Mapping[str, Any] | None:
    """The keys of today's state with their schemas; None where it may hold others as well, or is not told."""
    schema = contract.state_schema
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
        return None
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _steps_to_come(log: Log, contract: Contract) -> dict[str, Any]:
    pending = [place(item) for item in items(frontier_of(log), "pending") if item.get("status") != "finished"]
    steps = contract.steps or {}
    reach = reachable(contract, pending)
    if ANYWHERE in reach or not reach & steps.keys():
        return dict(steps)
    return {name: step for name, step in steps.items() if name in reach}


def _heirs(
    key: str, value: Any, state: dict[str, Any], contract: Contract, yesterday: Contract | None, steps: dict[str, Any]
) -> list[str]:
    """Today's keys that look like the lost one under another name: read, never filled, and of a type that takes it."""
    before = _keys(yesterday) if yesterday is not None else None
    read = {name for step in steps.values() for name in step.reads or ()}
    written = {name for step in steps.values() for name in step.writes or ()}
    found = []
    for name, schema in (_keys(contract) or {}).items():
        has_value = name in state and state[name] not in _NOTHING
        if has_value or name not in read or (before is not None and name in before):
            continue
        grows = name in (contract.reducers or {}) and isinstance(value, (list, dict))
        if (grows or name not in written) and _takes(_within(schema, contract), value):
            found.append(name)
    return found


def state_type(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A saved value is not of the type that today's state declares; no engine converts it."""
    known = _keys(contract)
    state = log.state.state if applies(log, contract) else None
    if known is None or not isinstance(state, dict):
        return
    before = (_keys(yesterday) if yesterday is not None else None) or {}
    for key, value in state.items():
        if key not in known or value is None:
            continue
        now = _facts(_within(known[key], contract), value)
        if now is None:
            continue
        refused = [fact for fact in now.values() if fact.kind == "refused"]
        was = _facts(_within(before[key], yesterday), value) if key in before and yesterday is not None else None
        if refused and (was is None or not any(fact.kind == "refused" for fact in was.values())):
            yield finding(
                log,
                "state-type",
                f"the saved state holds {printable(key)} = {_shown(value)}, which {refused[0].note} to today's"
                f" {printable(contract.workflow_id)}: it would be used as it is, or refused.",
                "Take both types until these runs are over, or convert the value with update_state.",
                step=key,
            )
        elif was is not None and was.get(()) != now.get(()) and now.get((), Fact("")).kind == "value":
            yield finding(
                log,
                "contract-drift",
                f"{printable(key)} was read as {was[()].text} and is read as {now[()].text} now; the saved"
                f" {_shown(value)} fits both, but may not mean the same (another unit?).",
                "Look whether the saved number still means what today's code takes it for.",
                step=key,
            )
    for key in _required(contract):
        if key not in state:
            yield finding(
                log,
                "state-type",
                f"today's {printable(contract.workflow_id)} requires {printable(key)} in its state, and this run has"
                " none: the state is refused on resume.",
                f"Give {printable(key)} a default.",
                step=key,
            )


def _required(contract: Contract) -> list[str]:
    schema = contract.state_schema
    required = schema.get("required") if isinstance(schema, dict) else None
    return [str(key) for key in required] if isinstance(required, list) else []


def _within(schema: Any, contract: Contract | None) -> Any:
    """The schema of one key, with the definitions that stand beside all of them."""
    whole = contract.state_schema if contract is not None else None
    if isinstance(whole, dict) and isinstance(schema, dict) and "$defs" in whole and "$defs" not in schema:
        return {**schema, "$defs": whole["$defs"]}
    return schema


def _facts(schema: Any, value: Any) -> dict[Any, Fact] | None:
    """What the schema makes of a saved value; None where that cannot be told."""
    bare = _bare(value)
    if bare is _UNTOLD:
        return None
    try:
        return bind(schema, bare)
    except (Undecided, FlowError, RecursionError):
        return None


_UNTOLD = object()


def _bare(value: Any) -> Any:
    """A saved value as JSON would say it: an object's fields for the object; other classes are not judged here."""
    if isinstance(value, dict):
        if value.keys() == {"$type", "$via", "$value"}:
            return _UNTOLD
        found = {key: _bare(item) for key, item in value.items()}
        return _UNTOLD if any(item is _UNTOLD for item in found.values()) else found
    if isinstance(value, list):
        members = [_bare(item) for item in value]
        return _UNTOLD if any(item is _UNTOLD for item in members) else members
    return value


def _takes(schema: Any, value: Any) -> bool:
    facts = _facts(schema, value)
    return facts is None or not any(fact.kind == "refused" for fact in facts.values())


def reducer_changed(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """Writes to a key used to be added to its value and now replace it, or the other way round.

    Told by yesterday's contract, or by what recorded writes did to the value (``folds``). Another reducer in the place
    of one is no finding: what it does cannot be seen from its name.
    """
    known = _keys(contract)
    state = log.state.state if applies(log, contract) else None
    if known is None or contract.reducers is None or not isinstance(state, dict):
        return
    folds = frontier_of(log).get("folds")
    folds = folds if isinstance(folds, dict) else {}
    before = yesterday.reducers if yesterday is not None else None
    steps = _steps_to_come(log, contract)
    written = {name for step in steps.values() for name in step.writes or ()}
    all_told = all(step.writes is not None for step in steps.values())
    for key, value in state.items():
        if key not in known or value in _NOTHING or (all_told and key not in written):
            continue
        now = key in contract.reducers
        was = key in before if before is not None else {"added": True, "replaced": False}.get(str(folds.get(key)))
        if was is None or was == now:
            continue
        what = (
            "writes to it were added to its value; today each write replaces it, and what was saved is gone"
            if was
            else "writes to it replaced its value; today each is put together with it by a reducer"
        )
        yield finding(
            log,
            "reducer-changed",
            f"the saved state holds {printable(key)} = {_shown(value)}: {what}.",
            f"Keep how {printable(key)} is put together, or use another key for the new way.",
            step=key,
        )


def _shown(value: Any) -> str:
    return printable(repr(value), 60)


CHECKS = (state_key_lost, state_type, reducer_changed)
