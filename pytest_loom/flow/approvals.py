"""Pending approvals: is what somebody was shown still what today's code and tools would do? (DESIGN section 5)

An approval holds for exactly the call that was shown. Two things can be asked before it is answered: whether the call
means the same to today's tool, and whether today's code, replayed up to the wait, still asks for that call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

from pytest_loom.contract.pending import Problem, pending_problems, standing_problems
from pytest_loom.errors import MigrationError, printable
from pytest_loom.evals.paths import Rules, format_path
from pytest_loom.evals.values import MISSING, short, walk
from pytest_loom.log.event import Event
from pytest_loom.log.migrations import chain, migrate
from pytest_loom.state import Call, ExecutionState, Suspension

if TYPE_CHECKING:  # pydantic takes a while to import, and a run without approvals needs none of it
    from pytest_loom.contract.model import Contract, ToolContract

SHOWN = ("toolSchema", "toolSchemaVersion", "permissions")
"""What a pending call says of the tool as it was when it was shown, beside ``callId``, ``name`` and ``args``."""

KEEP_KEY = "Derive the key as before for what has been begun: a new way of deriving it is for new runs."
_ASKED = ("approval", "event")
"""Kinds of waits for somebody's word. A log that does not say for what it waits says event."""
_BOUND = ("permissions", "version")
_LISTED = 4
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class PendingCall:
    """One tool call that somebody was asked about, or agreed to, and that has not run.

    ``tool`` is the tool as it was then, as far as the log says; ``wait`` the wait that it belongs to, None for a call
    that was under way when the run was cut off. ``standing``: an "always approve", which holds for calls to come.
    ``approval``: somebody agrees to it, or did: then no migration may make another call of it. ``args`` is MISSING
    where the log has none; ``unread`` are parts of what was shown that cannot be read; ``asked_at`` is the event of the
    wait in which somebody was asked about it.
    """

    name: str
    args: Any
    tool: ToolContract
    wait: Suspension | None
    sequence: int
    idempotency_key: str | None = None
    standing: bool = False
    approval: bool = True
    unread: tuple[str, ...] = ()
    asked_at: int | None = None


@dataclass(frozen=True)
class Hazard:
    """Why a run may not simply go on. ``code`` is a finding code; ``name`` is the step's, the tool's or the gate's.

    ``message`` says what was recorded, what today's code says and what would happen, ``hint`` what to do. ``sequence``
    is the event that it is about. ``only_on``: the event that has to come for it to do harm; None for any.
    """

    code: str
    severity: Literal["breaking", "warning"]
    name: str
    message: str
    sequence: int
    hint: str
    only_on: str | None = None


def pending_calls(state: ExecutionState) -> Iterator[PendingCall]:
    """Every call that waits for an answer, was approved and cut off, or may run under a standing approval."""
    asked = {str(call.call_id): call for call in state.calls if call.kind == "tool"}
    waiting: set[str] = set()
    for wait in state.suspensions:
        for item in _items(wait.pending):
            call_id = str(item["callId"]) if "callId" in item else None
            call = asked.get(call_id) if call_id is not None else None
            if call is not None:
                waiting.add(str(call.call_id))
            if "callId" in item or "name" in item:
                yield _pending(item, call, wait)
    yield from _agreed(state)
    for key, call in asked.items():
        if _is_standing(call.approval):
            yield _call(call, state, standing=True)
        if call.status == "requested" and key not in waiting:
            yield _call(call, state)


def _agreed(state: ExecutionState) -> Iterator[PendingCall]:
    """Calls that somebody agreed to right before the run was cut off, so that nothing has begun since.

    What an answer means, its flow alone knows: it may have been a no, and is asked again all the same.
    """
    if state.answered is None:
        return
    began = max((frame.event.sequence for frame in state.frames.values()), default=0)
    began = max([began, *(call.request_event.sequence for call in state.calls)])
    wait, answer = state.answered
    if state.in_flight and answer > began and not any(other.sequence > answer for other in state.waits):
        for item in _items(wait.pending):
            if isinstance(item.get("name"), str) and "args" in item:
                yield _pending(item, None, wait)


def unshown_call(events: Iterable[Event], name: str, args: Any) -> Any:
    """The arguments of ``name`` that were shown last, where a call with ``args`` was shown to nobody; else None.

    None too where no wait showed any call of it: how somebody agrees then, the flow alone knows.
    """
    shown: list[Any] = []
    for event in events:
        if event.event_type == "EXECUTION_SUSPENDED":
            items = _items(event.payload.get("pending"))
            shown += [item["args"] for item in items if item.get("name") == name and "args" in item]
    return shown[-1] if shown and all(_given(one) != _given(args) for one in shown) else None


def _given(args: Any) -> Any:
    """Arguments without those that are null: one that is left out says the same."""
    return {key: value for key, value in args.items() if value is not None} if isinstance(args, dict) else args


def stale_calls(state: ExecutionState, contract: Contract, yesterday: Contract | None = None) -> Iterator[Hazard]:
    """The pending calls that do not mean the same to today's tools; nothing where the contract says no tools.

    ``yesterday``, the contract that the run was started on, fills in what the log does not say of a tool.
    """
    if contract.tools is None:
        return
    open_at = {wait.sequence for wait in state.suspensions}
    for call in pending_calls(state):
        shown = _as_shown(call, state, yesterday)
        name = printable(call.name)
        what = "waits for an approval" if call.wait and call.wait.sequence in open_at else "was approved"
        what = "was approved for good" if call.standing else what
        today = contract.tools.get(call.name)
        if today is None and not _was_tool(call, shown, state, contract):
            continue
        if call.unread:
            text = f"{f'tool {name}' if name else 'a call'} {what}, and what was shown of it cannot be read:"
            text += f" {', '.join(call.unread)}. What an answer would agree to is not known."
            yield Hazard("approval-stale", "breaking", call.name, text, call.sequence, _ask_again(call))
            continue
        if today is None:
            then = "an approval would run nothing, or something else"
            text = f"tool {name} {what}, and today's {printable(contract.workflow_id)} has no such tool: {then}."
            yield Hazard("tool-missing", "breaking", call.name, text, call.sequence, _ask_again(call))
            continue
        if call.standing:
            yield from _stale(call, f"tool {name} {what}", standing_problems(shown, today))
        elif call.approval:
            yield from _stale(call, f"tool {name} {what}", pending_problems(shown, today, _args(call)))
        else:
            yield from _unapproved(call, shown, today)


def migrated_calls(
    state: ExecutionState, contract: Contract, yesterday: Contract | None = None
) -> Iterator[tuple[PendingCall, Any, Any]]:
    """The pending calls that nobody was asked about and that a migration carries to today's tool, with the versions."""
    for call in pending_calls(state):
        today = (contract.tools or {}).get(call.name)
        if today is not None and not call.approval and not call.unread:
            shown = _as_shown(call, state, yesterday)
            if _differ(shown, today) and chain(f"tool:{call.name}", shown.version, today.version) is not None:
                yield call, shown.version, today.version


def _was_tool(call: PendingCall, shown: ToolContract, state: ExecutionState, contract: Contract) -> bool:
    """Whether what waits was a tool of the flow, rather than a name that its code gave to something else.

    What a recording of today's form says of the tools in a pending call tells; of others it is believed.
    """
    if shown.schema_ is not None or shown.version is not None or call.wait is None:
        return True
    is_call = call.args is not MISSING or "name" in call.unread  # a name alone may be anything's
    return is_call and bool(contract.tools) and "contractFingerprint" not in state.manifest


def _args(call: PendingCall) -> Any:
    return {} if call.args is MISSING else call.args


def _unapproved(call: PendingCall, shown: ToolContract, today: ToolContract) -> Iterator[Hazard]:
    """A call that was under way, or waits for something else than somebody's word: its arguments may be migrated."""
    args, what = _args(call), f"a call of tool {printable(call.name)} is not over"
    if _differ(shown, today):
        try:
            args = migrate(f"tool:{call.name}", args, shown.version, today.version)
        except MigrationError as error:
            text = f"{what}, and its arguments are of another version than today's: {error.what}."
            yield Hazard("migration-missing", "breaking", call.name, text, call.sequence, error.hint)
            return
        shown = today.model_copy(update={"schema_": None})  # what the migration made has to fit as it is
    same = shown.model_copy(update={"version": today.version, "permissions": today.permissions})
    yield from _stale(call, what, pending_problems(same, today, args))


def _differ(shown: ToolContract, today: ToolContract) -> bool:
    return shown.version is not None and today.version is not None and shown.version != today.version


def changed_waits(recorded: ExecutionState, candidate: ExecutionState) -> Iterator[Hazard]:
    """Where today's code, replayed up to the frontier, asks for something else than what was recorded there."""
    today = {(wait.branch, *wait.events, wait.correlation_key): wait for wait in candidate.suspensions}
    for was in recorded.suspensions:
        now = today.get((was.branch, *was.events, was.correlation_key))
        if now is None:
            continue
        if was.pending is not None and was.pending != now.pending:
            yield from _changed(was, now)
        if was.timeout_ms is not None and now.timeout_ms is None:
            gate = printable(" or ".join(was.events))
            hint = "Keep the timeout, and what is done when it comes, for the runs that wait."
            message = (
                f"the wait for {gate} ends by itself after {was.timeout_ms / 1000:g} s, and today's code gives it no"
                " time: what it does not handle makes the run fail when the time is up."
            )
            yield Hazard("gate-changed", "breaking", was.events[0], message, was.sequence, hint, only_on="TIMEOUT")


def _changed(was: Suspension, now: Suspension) -> Iterator[Hazard]:
    gate = printable(" or ".join(was.events))
    shown, today = list(_items(was.pending)), list(_items(now.pending))
    if not any("name" in item for item in (*shown, *today)):
        if now.pending is None:
            return
        found = list(walk(without_tool(was.pending), without_tool(now.pending), Rules(), None))
        if found:
            text = (
                f"the question at {gate} was {short(was.pending, 100)}, and today's code asks "
                f"{short(now.pending, 100)}: an answer to the one would be taken for an answer to the other."
            )
            severity: Literal["breaking", "warning"] = "warning" if all(map(_is_wording, found)) else "breaking"
            yield Hazard("answer-misrouted", severity, was.events[0], text, was.sequence, _again(was.sequence))
        return
    shown, today = _without_common(shown, today)
    for item, other in zip_longest(shown, today, fillvalue=_NOTHING):
        if other.get("name") != item.get("name"):
            then, asks = _called(item), _called(other)
            text = f"{gate} was asked for {then}, and today's code asks for {asks} there instead."
            name = str(item.get("name", other.get("name")))
            yield Hazard("approval-stale", "breaking", name, text, was.sequence, _again(was.sequence))
            continue
        yield from _asked_otherwise(gate, str(item.get("name")), item, other, was)


def _called(item: Mapping[str, Any]) -> str:
    """A pending item in a few words."""
    if "name" in item:
        return f"a call of {printable(str(item['name']))}"
    return "nothing" if item is _NOTHING else short(item, 60)


def _is_wording(difference: tuple[Any, Any, Any]) -> bool:
    """Whether it is prose that differs, or what was not said before, rather than what code goes by."""
    _, was, now = difference
    prose = [isinstance(one, str) and any(char.isspace() for char in one) for one in (was, now)]
    return any(prose) or (was is MISSING and now is None)


def _without_common(
    shown: list[Mapping[str, Any]], today: list[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Two lists of calls without those that are in both: in which order they stand is nothing to a reader."""
    left, rest = [], list(today)
    for item in shown:
        same = next((other for other in rest if without_tool(other) == without_tool(item)), None)
        if same is None:
            left.append(item)
        else:
            rest.remove(same)
    return left, rest


def _asked_otherwise(
    gate: str, name: str, item: Mapping[str, Any], other: Mapping[str, Any], was: Suspension
) -> Iterator[Hazard]:
    found = [
        (path, then, now)
        for path, then, now in walk(item.get("args"), other.get("args"), Rules(), None)
        if not (then is MISSING and now is None)
    ]
    if found:
        lines = [
            f"{format_path(path) or 'args'} was {_said(then)}, today {_said(now)}"
            for path, then, now in found[:_LISTED]
        ]
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        added = all(then is MISSING for _, then, _ in found)
        text = (
            f"{gate} was asked for {printable(name)}, and today's code asks it with other arguments:"
            f" {'; '.join(lines)}{more}. Nobody was shown that call."
        )
        yield Hazard("tool-args", "warning" if added else "breaking", name, text, was.sequence, _again(was.sequence))
    key, today = item.get("idempotencyKey"), other.get("idempotencyKey")
    if key is not None and today is not None and key != today:
        text = (
            f"the idempotency key of {printable(name)} was {short(key)}, and today's code derives {short(today)}:"
            " what was begun under the old key would be done once more."
        )
        yield Hazard("effect-repeated", "breaking", name, text, was.sequence, KEEP_KEY)


def without_tool(pending: Any) -> Any:
    """What waits, without what is said of the tool as it was: what is left is what today's code has to ask again."""
    if isinstance(pending, list):
        return [without_tool(item) for item in pending]
    if isinstance(pending, dict):
        return {key: value for key, value in pending.items() if key not in SHOWN}
    return pending


def _again(wait: int) -> str:
    """How somebody is asked again: by the code of today, from just before the wait on, which is event ``wait``."""
    return (
        "Ask again, with the call as it is today, in a fork of the run, and close the old question:\n"
        f"  asked = resume(fork(log, {wait - 1}), flow)"
    )


def _ask_again(call: PendingCall) -> str:
    """The same for a call; one that nobody was asked about is let go, and made again as today's code does."""
    if call.standing:
        return "Withdraw the standing approval, so that somebody is asked before the tool runs again."
    if call.asked_at is not None:
        return _again(call.asked_at)
    return (
        "Find out whether it was carried out, and make it again in a fork, as it is today, if it was not:\n"
        f"  resume(fork(log, {call.sequence - 1}), flow)"
    )


def _items(pending: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(pending, list):
        for item in pending:
            yield from _items(item)
    elif isinstance(pending, dict):
        yield pending


def _pending(item: Mapping[str, Any], call: Call | None, wait: Suspension) -> PendingCall:
    facts = {**(call.request_event.payload if call is not None else {}), **item}
    args = item.get("args", call.args if call is not None else MISSING)
    asked = wait.kind in _ASKED or bool(facts.get("approval"))
    name, key = facts.get("name"), _text(facts.get("idempotencyKey"))
    unread = _unread(facts) if isinstance(name, str) else ("name", *_unread(facts))
    at = wait.sequence
    return PendingCall(_text(name) or "", args, _tool(facts), wait, at, key, approval=asked, unread=unread, asked_at=at)


def _call(call: Call, state: ExecutionState, *, standing: bool = False) -> PendingCall:
    facts, sequence, agreed = call.request_event.payload, call.request_event.sequence, bool(call.approval)
    before = [wait.sequence for wait in state.waits if wait.sequence < sequence]
    asked_at = before[-1] if before and agreed and not standing else None
    key, unread = _text(facts.get("idempotencyKey")), _unread(facts)
    return PendingCall(call.name, call.args, _tool(facts), None, sequence, key, standing, agreed, unread, asked_at)


def _unread(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is said of a tool as it was, and is nothing that can be said of one: it is not taken for unsaid."""
    version, permissions = facts.get("toolSchemaVersion"), facts.get("permissions")
    odd = []
    if version is not None and (isinstance(version, bool) or not isinstance(version, (str, int))):
        odd.append("toolSchemaVersion")
    if permissions is not None and not _is_texts(permissions):
        odd.append("permissions")
    return tuple(odd)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _tool(facts: Mapping[str, Any]) -> ToolContract:
    """The tool as the log says that it was. Unchecked: a schema out of a log that is none is told as undecided."""
    from pytest_loom.contract.model import ToolContract

    version, permissions = facts.get("toolSchemaVersion"), facts.get("permissions")
    return ToolContract.model_construct(
        schema_=facts.get("toolSchema"),
        version=version if isinstance(version, (str, int)) else None,
        approval=None,
        permissions=tuple(permissions) if permissions is not None and _is_texts(permissions) else None,
    )


def _as_shown(call: PendingCall, state: ExecutionState, yesterday: Contract | None) -> ToolContract:
    """The tool as it was shown: what the call says, then the run's manifest, then the contract of that day."""
    from pytest_loom.contract.model import ToolContract

    said = state.manifest.get("toolSchemaVersions")
    versions: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    kept = (yesterday.tools or {}).get(call.name) if yesterday is not None else None
    version = call.tool.version if call.tool.version is not None else versions.get(call.name)
    found: dict[str, Any] = {
        "schema_": call.tool.schema_ if call.tool.schema_ is not None else kept and kept.schema_,
        "version": version if version is not None else kept and kept.version,
        "approval": kept and kept.approval,
        "permissions": call.tool.permissions if call.tool.permissions is not None else kept and kept.permissions,
    }
    return ToolContract.model_construct(**found)


def _stale(call: PendingCall, what: str, problems: list[Problem]) -> Iterator[Hazard]:
    groups: dict[tuple[str, Literal["breaking", "warning"]], list[str]] = {}
    for problem in problems:
        code = "approval-stale" if problem.kind in _BOUND or call.standing else "tool-args"
        severity: Literal["breaking", "warning"] = "breaking" if problem.verdict == "reapprove" else "warning"
        groups.setdefault((code, severity), []).append(problem.detail)
    for (code, severity), details in groups.items():
        more = f"; and {len(details) - _LISTED} more" if len(details) > _LISTED else ""
        then = "It is not the call that was shown." if call.approval else "It would be another call."
        then = then if severity == "breaking" else "Nobody was shown that."
        text = f"{what}, and today: {'; '.join(details[:_LISTED])}{more}. {then}"
        yield Hazard(code, severity, call.name, text, call.sequence, _ask_again(call))


def _is_standing(approval: Any) -> bool:
    """Whether a recorded approval was given for good."""
    return approval == "always" or (isinstance(approval, dict) and approval.get("always") is True)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _said(value: Any) -> str:
    return "nothing" if value is MISSING else short(value, 60)
