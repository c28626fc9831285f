"""What changed from one contract to the next, whom it would hurt, and which version number should have said so.

Seed 003 asks what happens when a schema's meaning changes and its version number does not: ``drift`` shows it. What
moves the fingerprint is a change that is not ``cosmetic``, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from pytest_loom.contract.fingerprint import schema_digest
from pytest_loom.contract.model import AgentContract, Contract, GateContract, StepContract, ToolContract
from pytest_loom.contract.nodes import Budget, Undecided, canonical, node_of, read
from pytest_loom.contract.pending import tool_problems
from pytest_loom.contract.schema import SchemaChange, compare_schemas
from pytest_loom.errors import FlowError, printable

ContractPart = Literal[
    "step", "gate", "tool", "agent", "input", "output", "state", "reducer", "join", "versions", "engine"
]
Effect = Literal["breaking", "additive", "cosmetic", "unknown"]

_NO_NUMBER = ("said", "unsaid", "restated", "version", "cosmetic")
"""Kinds that no number has to move for: nothing else is promised, or a tool's own number is what moved."""
_LOST = ("removed", "ignored", "renamed")
_TO_READERS: dict[str, bool | None] = {"ignored": False, "default-changed": False, "format": False, "required": None}
"""Kinds that are judged otherwise by who reads what a flow gives: a key with a default is mostly given all the same."""

_MORE = "there may be more tools than those that are listed"

_T = TypeVar("_T")
_Change = tuple[str, str, Effect, str]
"""Path, kind, effect, detail."""
_Named = tuple[ContractPart, str, _Change]


@dataclass(frozen=True)
class ContractChange:
    """One change of a contract.

    ``part`` and ``name`` say of what: a step's id, a gate's event, the name of a tool, agent, state key or version, the
    target of a join; "" for a part that there is one of, and for all steps (gates, …) together. ``path`` is the place
    inside the schema, "" for the whole; a step has two schemas, so there it begins with ``input`` or ``output``, and an
    agent's begins with the name of its tool or handoff. Names are as the contract has them: print them through
    ``printable``.

    ``kind``: added, removed, changed (of a reducer, join or engine), approval, external, permissions, version,
    cosmetic, what ``compare_schemas`` says, restated (a schema says the same in another way), said or unsaid (only one
    of the contracts speaks of it, so it is not checked). ``effect``: ``breaking`` where something from before is
    refused, lost or taken for something else, ``unknown`` where that cannot be told, ``cosmetic`` where the fingerprint
    of that part is the same. ``detail``: one sentence, safe to print.

    ``version``: the number in a run's manifest that should have moved and did not (``stateSchemaVersion``,
    ``toolSchemaVersions.NAME``, ``flowVersion``); None where it moved, where none is kept and where none has to move.
    """

    part: ContractPart
    name: str
    path: str
    kind: str
    effect: Effect
    detail: str
    version: str | None = None


def compare_contracts(old: Contract, new: Contract) -> list[ContractChange]:
    """What changed from ``old`` to ``new``; [] where nothing did. The flow's own id and version are not compared.

    What was written under the old contract is read under the new one: input, state, what steps took and gave, answers
    to gates (they are still to come, but who sends one knows the old schema) and approved arguments of tools. Only the
    flow's output is still to be written, and who waits for it knows the old schema.

    Never raises for a schema that cannot be followed: that is a change of kind ``undecided``. Raises FlowError where
    the contract's versions are not JSON data.
    """
    return [
        ContractChange(part, name, *change, version=_unmoved(part, name, change[1], old, new))
        for part, name, change in _changes(old, new)
    ]


def drift(old: Contract, new: Contract) -> list[ContractChange]:
    """The changes that a version number should have told and did not: the same number, another fingerprint."""
    return [change for change in compare_contracts(old, new) if change.version is not None]


def _unmoved(part: ContractPart, name: str, kind: str, old: Contract, new: Contract) -> str | None:
    """The number that should have moved: the part's own where either contract says one, else the flow's."""
    if kind in _NO_NUMBER or part == "versions":
        return None
    numbers: list[tuple[str, Any, Any]] = [("flowVersion", old.version, new.version)]
    if part == "state":
        was, now = ((one.versions or {}).get("state") for one in (old, new))
        numbers.insert(0, ("stateSchemaVersion", was, now))
    if part == "tool" and old.tools and new.tools and name in old.tools and name in new.tools:
        numbers.insert(0, (f"toolSchemaVersions.{name}", _tool_version(old, name), _tool_version(new, name)))
    for number, was, now in numbers:
        if was is not None or now is not None:
            return number if _is_same(was, now) else None
    return None


def _tool_version(contract: Contract, name: str) -> Any:
    tool = (contract.tools or {})[name]
    said = (contract.versions or {}).get("tools")
    return said.get(name) if tool.version is None and isinstance(said, Mapping) else tool.version


def _changes(old: Contract, new: Contract) -> Iterator[_Named]:
    yield from _whole("input", old.input_schema, new.input_schema)
    yield from _whole("output", old.output_schema, new.output_schema)
    yield from _whole("state", old.state_schema, new.state_schema)
    keys, steps = _declared(old.state_schema), None if old.steps is None else set(old.steps)
    yield from _parts("reducer", old.reducers, new.reducers, _reducer, added=lambda key: _beside(key, keys))
    yield from _parts("step", old.steps, new.steps, _step)
    yield from _parts("gate", old.gates, new.gates, _gate)
    yield from _parts("join", old.joins, new.joins, _join, added=lambda target: _beside(target, steps))
    yield from _parts("tool", old.tools, new.tools, _tool)
    yield from _parts("agent", old.agents, new.agents, _agent)
    if bool(old.more_tools) != bool(new.more_tools):
        yield "tool", "", ("", "changed", "unknown", _MORE if new.more_tools else f"no longer: {_MORE}")
    yield from _parts("versions", old.versions, new.versions, _number, removed="unknown")
    for change in _said("the engine", old.engine, new.engine):
        yield "engine", "", change
    if old.engine and new.engine and old.engine != new.engine:
        yield "engine", "", ("", "changed", "breaking", f"the engine was {old.engine} and is {new.engine}")


def _whole(part: Literal["input", "output", "state"], old: Any, new: Any) -> Iterator[_Named]:
    """The changes of the one schema of its kind."""
    subject = f"the {part}"
    for change in _schema(subject, old, new, still_to_come=part == "output") or _words(subject, old, new):
        yield part, "", change


def _parts(
    part: ContractPart,
    old: Mapping[str, _T] | None,
    new: Mapping[str, _T] | None,
    compare: Callable[[str, _T, _T], list[_Change]],
    *,
    added: Callable[[str], Effect] = lambda name: "additive",
    removed: Effect = "breaking",
) -> Iterator[_Named]:
    """The changes of parts that have names; ``compare`` takes what to call one, and the old and the new of it."""
    noun = "version" if part == "versions" else part
    if old is None or new is None:
        for change in _said(f"{noun}s", old, new):
            yield part, "", change
        return
    for name in sorted({*old, *new}):
        subject = f"{noun} {printable(name)}"
        if name not in new:
            yield part, name, ("", "removed", removed, f"{subject} is gone")
        elif name not in old:
            yield part, name, ("", "added", added(name), f"{subject} is new")
        else:
            for change in compare(subject, old[name], new[name]) or _words(subject, old[name], new[name]):
                yield part, name, change


def _step(subject: str, old: StepContract, new: StepContract) -> list[_Change]:
    found: list[_Change] = []
    for side, was, now in (
        ("input", old.input_schema, new.input_schema),
        ("output", old.output_schema, new.output_schema),
    ):
        for path, kind, effect, detail in _schema(f"{subject}, {side}", was, now):
            joint = "." if path and not path.startswith("[") else ""
            found.append((f"{side}{joint}{path}", kind, effect, detail))
    if old.next is not None and new.next is not None and set(old.next) != set(new.next):
        lost = set(old.next) - set(new.next)
        led, leads = (printable(", ".join(sorted(set(one)))) or "the end" for one in (old.next, new.next))
        found.append(("", "changed", "unknown" if lost else "additive", f"{subject} led to {led} and leads to {leads}"))
    if None not in (old.asks, new.asks) and old.asks != new.asks:
        how = ("asked", "does not any more") if old.asks else ("did not ask", "does now")
        found.append(("", "changed", "unknown", f"{subject} {how[0]} a person and {how[1]}"))
    return found


def _gate(subject: str, old: GateContract, new: GateContract) -> list[_Change]:
    if old.kind and new.kind and old.kind != new.kind:
        return [("", "changed", "breaking", f"{subject} was a {old.kind} and is a {new.kind}")]
    return _schema(subject, old.payload_schema, new.payload_schema) + _said(f"{subject}, kind", old.kind, new.kind)


def _tool(subject: str, old: ToolContract, new: ToolContract) -> list[_Change]:
    found = _schema(subject, old.schema_, new.schema_)
    for problem in tool_problems(old, new):
        found.append(("", problem.kind, "breaking", f"{subject}: {problem.detail}"))
    if old.permissions is not None and new.permissions is not None:
        lost = sorted(set(old.permissions) - set(new.permissions))
        names = ", ".join(printable(name) for name in lost)
        if lost:
            found.append(("", "permissions", "additive", f"{subject}: the tool may no longer use: {names}"))
    if (old.approval, new.approval) == (True, False):
        found.append(("", "approval", "breaking", f"{subject} no longer asks for approval"))
    if (old.approval, new.approval) == (False, True):
        found.append(("", "approval", "additive", f"{subject} asks for approval now"))
    if bool(old.external) != bool(new.external):
        how = "comes from outside of the run now" if new.external else "is made by the run itself now"
        found.append(("", "external", "breaking", f"{subject}: its result {how}"))
    for name in ("version", "approval", "permissions"):
        found += _said(f"{subject}, {name}", getattr(old, name), getattr(new, name))
    return found


def _agent(subject: str, old: AgentContract, new: AgentContract) -> list[_Change]:
    found: list[_Change] = []
    for _, name, (path, kind, effect, detail) in _parts("tool", old.tools, new.tools, _tool):
        joint = "." if path and name and not path.startswith("[") else ""
        found.append((f"{name}{joint}{path}", kind, effect, f"{subject}, {detail}"))
    for _, name, (_, kind, effect, detail) in _parts("step", old.handoffs, new.handoffs, _handoff):
        found.append((name, kind, effect, f"{subject}, handoff: {detail}"))
    for path, kind, effect, detail in _schema(
        f"{subject}, output", old.output_schema, new.output_schema, still_to_come=True
    ):
        joint = "." if path and not path.startswith("[") else ""
        found.append((f"output{joint}{path}", kind, effect, detail))
    found += _said(f"{subject}, guardrails", old.input_guardrails, new.input_guardrails)
    if old.input_guardrails is not None and new.input_guardrails is not None:
        was, now = set(old.input_guardrails), set(new.input_guardrails)
        found += [
            (name, "removed", "breaking", f"{subject}: guardrail {printable(name)} is gone")
            for name in sorted(was - now)
        ]
        found += [
            (name, "added", "additive", f"{subject}: guardrail {printable(name)} is new") for name in sorted(now - was)
        ]
    if old.more_tools != new.more_tools:
        has = "has tools that cannot be listed now" if new.more_tools else "has no more tools that cannot be listed"
        found.append(("", "changed", "unknown", f"{subject} {has}"))
    return found


def _handoff(subject: str, old: str, new: str) -> list[_Change]:
    what = f"{subject} led to {printable(old)} and leads to {printable(new)}"
    return [] if old == new else [("", "changed", "breaking", what)]


def _reducer(subject: str, old: str, new: str) -> list[_Change]:
    if old.rpartition(".")[2] == new.rpartition(".")[2]:
        return []  # at most moved to another module
    return [("", "changed", "breaking", f"{subject} was {printable(old)} and is {printable(new)}")]


def _join(subject: str, old: tuple[str, ...], new: tuple[str, ...]) -> list[_Change]:
    if sorted(old) == sorted(new):
        return []
    was, now = (printable(", ".join(sorted(sources))) or "nothing" for sources in (old, new))
    return [("", "changed", "breaking", f"{subject} waited for {was} and waits for {now}")]


def _number(subject: str, old: Any, new: Any) -> list[_Change]:
    was, now = canonical(old), canonical(new)
    return [] if was == now else [("", "version", "unknown", f"{subject} was {printable(was)} and is {printable(now)}")]


def _schema(subject: str, old: Any, new: Any, *, still_to_come: bool = False) -> list[_Change]:
    """The changes of one schema. ``still_to_come``: data is written under the new one, and read under the old."""
    if old is None or new is None:
        return _said(subject, old, new)
    digests = {_digest(old), _digest(new)}
    if _is_same(old, new) or (len(digests) == 1 and None not in digests):
        return []
    changes = compare_schemas(old, new)
    if not changes:
        return [("", "restated", "additive", f"{subject} says the same in another way")]
    effects = _to_readers(changes, old, new) if still_to_come else [_effect(one.breaking) for one in changes]
    return [
        (one.path, one.kind, effect, f"{subject}{', ' if one.path else ''}{one.path}: {one.detail}")
        for one, effect in zip(changes, effects, strict=True)
    ]


def _to_readers(changes: list[SchemaChange], old: Any, new: Any) -> list[Effect]:
    """What each change means where data is written under ``new`` and read under ``old``: what the way back says there.

    What is no longer given is missed, even where it might always have been left out.
    """
    back: dict[str, list[bool | None]] = {}
    for change in compare_schemas(new, old):
        back.setdefault(change.path, []).append(_TO_READERS.get(change.kind, change.breaking))
    every = [answer for answers in back.values() for answer in answers]
    found: list[Effect] = []
    for change in changes:
        answers = [True] if change.kind in _LOST else back.get(change.path, every)
        found.append(_effect(True if True in answers else None if None in answers else False))
    return found


def _effect(breaking: bool | None) -> Effect:
    return "unknown" if breaking is None else "breaking" if breaking else "additive"


def _said(subject: str, old: Any, new: Any) -> list[_Change]:
    """A change where one contract speaks of something and the other does not."""
    if (old is None) == (new is None):
        return []
    if old is None:
        return [("", "said", "unknown", f"{subject}: the old contract does not speak of it, so it is not checked")]
    return [("", "unsaid", "unknown", f"{subject}: the new contract does not speak of it, so it is not checked")]


def _words(subject: str, old: Any, new: Any) -> list[_Change]:
    """For a part that promises the same: whether it does so in the same words."""
    return [] if _is_same(old, new) else [("", "cosmetic", "cosmetic", f"{subject}: only words or order differ")]


def _is_same(old: Any, new: Any) -> bool:
    """Whether two parts are the same JSON."""
    if old is new:
        return True
    try:
        one, other = (canonical(side.model_dump() if isinstance(side, BaseModel) else side) for side in (old, new))
    except FlowError:
        return False
    return one == other


def _digest(schema: Any) -> str | None:
    """A schema's part of the fingerprint; None where it has none."""
    try:
        return schema_digest(schema)
    except (FlowError, RecursionError):
        return None


def _declared(schema: Any) -> set[str] | None:
    """The keys that a state has; None where that cannot be told."""
    try:
        return None if schema is None else set(read(node_of(schema), Budget()).properties)
    except Undecided:
        return None


def _beside(name: str, known: set[str] | None) -> Effect:
    """What it means that a state key has a reducer now, or a step a join: harmless only where that is new itself."""
    return "unknown" if known is None else "breaking" if name in known else "additive"
