"""The operators of ``evals.mutants``: the ways in which a golden log is changed, one thing at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import Any

import msgspec

from pytest_loom.errors import printable
from pytest_loom.evals.effects import Effect
from pytest_loom.evals.paths import Path, format_path
from pytest_loom.evals.tamper import MAX_LEAVES, all_other, leaves, other, with_leaf
from pytest_loom.evals.values import short
from pytest_loom.log.event import Event, Log

_ALL = 'compare="all" in the marker, or in diff_runs.'
_HOW_IT_ENDS = "Compare how the run ends: assert diff_runs(golden, candidate) == []."

ASK: dict[str, str] = {
    "drop-step": "Compare which steps ran: assert diff_runs(golden, candidate) == [].",
    "swap-steps": f"Compare in which order: {_ALL}",
    "change-output": _HOW_IT_ENDS,
    "change-output of a step": "Compare it, where the candidate's step ran anew: assert diff_runs(golden, candidate) =="
    " []. A replay gives back what is recorded, so run the step's body: assert rerun_step(golden, key, step) == [].",
    "change-output of a tool": "A replay gives back what is recorded. Where nothing goes by it, run the tool itself:"
    " assert tool(**call.args) == call.output, for the calls of golden.state.calls.",
    "change-output of a model": "A replay gives back what is recorded, and nothing goes by this part of it: ignore=[…]"
    " it where that is right, else assert on it (golden.state.calls).",
    "change-input": "Run today's code on what was asked: loom.record, loom.replay, or the input of the golden.",
    "change-input of a step": f"Compare what steps are asked: {_ALL}",
    "change-input of a model": "Replay the golden (loom.replay): what a model is asked is compared there.",
    "change-argument": f"Compare what tools are called with: {_ALL}",
    "change-answer": "Let today's code go by the answer: loom.replay the golden, and compare what it comes to.",
    "drop-suspension": f"Compare where the run waited: {_ALL}",
    "drop-answer": _HOW_IT_ENDS,
    "change-status": _HOW_IT_ENDS,
}
"""What to assert where a mutant of an operator survives."""

OPERATORS = tuple(name for name in ASK if " " not in name)
"""The operators' names."""

_ENDS = ("EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED", "EXECUTION_CONTINUED")
_MADE_ANEW = frozenset({"clock", "now", "random", "uuid"})


@dataclass(frozen=True)
class Mutant:
    """One change of a log. ``name`` is the same in every run, ``what`` says it in words fit to be printed.

    ``events`` makes the changed log's events; ``about`` is what the change is about, of which there may be more, and
    ``ask`` what to assert where nobody noticed.
    ``excuse``: why nobody has to notice it, where that is known beforehand.
    """

    operator: str
    name: str
    what: str
    about: str
    events: Callable[[], list[Event]]
    excuse: str = ""

    @property
    def ask(self) -> str:
        """What to assert so that it is noticed."""
        kind = self.about.partition(" ")[0]
        return ASK.get(f"{self.operator} of a {kind}", ASK[self.operator])


def _drop_step(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    for effect in effects:
        gone = frozenset(effect.at)
        yield Mutant(
            "drop-step",
            f"drop-step {effect.kind} {effect.key}",
            f"{effect.shown} was left out",
            effect.about,
            partial(_without, log, gone),
        )


def _swap_steps(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    """Neighbours of one branch; where there are none, two that ran side by side."""
    gates = {index for index, event in enumerate(log.events) if event.event_type.startswith("EXECUTION_")}
    places: dict[tuple[str | None, str | None], list[Effect]] = {}
    for effect in effects:
        places.setdefault((effect.branch, effect.namespace), []).append(effect)
    pairs = [pair for place in places.values() for pair in pairwise(place)]
    pairs = [(one, two) for one, two in pairs if one.at[-1] < two.at[0]]
    beside = [(one, two) for one, two in pairwise(effects) if None not in (one.branch, two.branch)]
    excuse = "" if pairs else "the two ran side by side, and their order means nothing"
    for one, two in pairs or beside[:1]:
        span = range(one.at[0], max(one.at[-1], two.at[-1]) + 1)
        if gates.isdisjoint(span) and not _alike(log, one, two):
            yield Mutant(
                "swap-steps",
                f"swap-steps {one.key} {two.key}",
                f"{two.shown} came before {one.shown}",
                one.about,
                partial(_swapped, log, one, two, span),
                excuse,
            )


def _alike(log: Log, one: Effect, two: Effect) -> bool:
    """Whether nobody could tell which of the two came first."""
    first, second = ([bytes(log.events[index].raw) for index in effect.at] for effect in (one, two))
    return one.name == two.name and first == second


def _swapped(log: Log, one: Effect, two: Effect, span: range) -> list[Event]:
    """The second one's events before the first one's; what lies between stays between, and time goes on as it did."""
    moved = [*one.at, *two.at]
    between = [index for index in span if index not in set(moved)]
    order = [*range(span.start), *two.at, *between, *one.at, *range(span.stop, len(log.events))]
    return [
        msgspec.structs.replace(log.events[index], timestamp=log.events[place].timestamp)
        for place, index in enumerate(order)
    ]


def _change_output(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    for effect in effects:
        last = effect.at[-1]
        for field in ("output", "response", "error"):
            if log.events[last].event_type.endswith(("_COMPLETED", "_FAILED")):
                yield from _changes(log, "change-output", [last], (field,), f"{effect.shown} gave", effect.about)
    for index, event in enumerate(log.events):
        if event.event_type in _ENDS:
            for field in ("output", "error"):
                yield from _changes(log, "change-output", [index], (field,), "the run came to", "")
        elif event.event_type == "DECISION_RECORDED":
            key = str(event.payload.get("key"))
            if key not in _MADE_ANEW:
                yield from _changes(
                    log, "change-output", [index], ("value",), f"decision {printable(key)} was", f"decision {key}"
                )


def _change_input(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    starts = [index for index, event in enumerate(log.events) if event.event_type == "EXECUTION_STARTED"]
    yield from _changes(log, "change-input", starts[:1], ("input",), "the run was asked", "")
    for effect in effects:
        asked = [index for index in effect.at if log.events[index].event_type in ("STEP_STARTED", "MODEL_REQUESTED")]
        field = "request" if effect.kind == "model" else "input"
        yield from _changes(log, "change-input", asked, (field,), f"{effect.shown} was asked", effect.about)


def _change_argument(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    for effect in effects:
        if effect.kind == "tool" and log.events[effect.at[0]].event_type == "TOOL_REQUESTED":
            called = f"{effect.shown} was called with"
            yield from _changes(log, "change-argument", effect.at[:1], ("args",), called, effect.about)
    for index, event in enumerate(log.events):
        if event.event_type == "EXECUTION_SUSPENDED" and isinstance(event.payload.get("pending"), dict | list):
            pending = event.payload["pending"]
            shown = f"at {_gate(event)} was shown"
            several = range(len(pending)) if isinstance(pending, list) else [None]
            for number in several:
                place = ("pending", "args") if number is None else ("pending", number, "args")
                yield from _changes(log, "change-argument", [index], place, shown, f"gate {_gate(event)}")


def _change_answer(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    """All of an answer is changed at once: which part of it the code goes by, nobody here knows."""
    for index, event in enumerate(log.events):
        if event.event_type != "EXECUTION_RESUMED" or event.payload.get("eventType") in (None, "TIMEOUT"):
            continue
        answer = event.payload.get("payload")
        if next(leaves(answer), None) is None or (isinstance(answer, dict | list) and not answer):
            continue
        gate = printable(str(event.payload["eventType"]))
        new = all_other(answer)
        changes = {index: _with(event, ("payload",), new)}
        before = log.events[index - 1]
        if before.event_type == event.payload["eventType"] and before.payload == answer:
            changes[index - 1] = msgspec.structs.replace(before, raw=msgspec.Raw(msgspec.json.encode(new)))
        yield Mutant(
            "change-answer",
            f"change-answer {event.sequence}",
            f"{gate} was answered {short(new)} instead of {short(answer)}",
            gate,
            partial(_replaced, log, changes),
        )


def _drop_suspension(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    for index, event, answered in _waits(log):
        gone = {index} if answered is None else {index, answered, answered - 1}
        if answered is not None and log.events[answered - 1].event_type.startswith("EXECUTION_"):
            gone.discard(answered - 1)  # no event of the application stands before it: the time ran out
        gone.add(index)
        yield Mutant(
            "drop-suspension",
            f"drop-suspension {event.sequence}",
            f"the run did not wait for {_gate(event)}",
            _gate(event),
            partial(_without, log, frozenset(gone)),
        )


def _drop_answer(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    """Nobody answered: the run waits where it then went on."""
    for index, event, answered in _waits(log):
        if answered is not None:
            yield Mutant(
                "drop-answer",
                f"drop-answer {event.sequence}",
                f"nobody answered {_gate(event)}, and the run still waits",
                _gate(event),
                partial(_without, log, frozenset(range(index + 1, len(log)))),
            )


def _waits(log: Log) -> Iterator[tuple[int, Event, int | None]]:
    """Each wait, and where it was answered. Two waits that are open at once are told apart by event and key."""
    open_waits: list[tuple[int, Event]] = []
    for index, event in enumerate(log.events):
        if event.event_type == "EXECUTION_SUSPENDED":
            open_waits.append((index, event))
        elif event.event_type == "EXECUTION_RESUMED" and open_waits:
            said = event.payload
            fitting = [
                one
                for one in open_waits
                if said.get("eventType") in _events_of(one[1])
                and said.get("correlationKey") in (None, one[1].payload.get("correlationKey"))
            ]
            found = (fitting or open_waits)[0]
            open_waits.remove(found)
            yield (*found, index)
    yield from ((index, event, None) for index, event in open_waits)


def _events_of(wait: Event) -> list[str]:
    on = wait.payload.get("on")
    return [str(one) for one in on] if isinstance(on, list) else [str(on)]


def _gate(wait: Event) -> str:
    return " or ".join(map(printable, _events_of(wait)))


def _change_status(log: Log, effects: list[Effect]) -> Iterator[Mutant]:
    was = log.state.status
    now, kind, payload = "completed", "EXECUTION_COMPLETED", '{"output":null}'
    if was == "completed":
        now, kind = "failed", "EXECUTION_FAILED"
        payload = '{"error":{"type":"builtins.RuntimeError","message":"mutant"}}'
    end = msgspec.structs.replace(
        log.events[-1],
        event_type=kind,
        event_version=1,
        branch=None,
        namespace=None,
        raw=msgspec.Raw(payload.encode()),
    )
    events = [*(event for event in log.events if event.event_type not in _ENDS), end]
    yield Mutant("change-status", "change-status", f"the run was {now} instead of {was}", "", lambda: events)


def _changes(log: Log, operator: str, indices: list[int], field: Path, words: str, about: str) -> Iterator[Mutant]:
    """A mutant for each leaf of one field of a payload, which is changed in all these events that have the same."""
    if not indices:
        return
    value = _at(log.events[indices[-1]].payload, field)
    for path, was in islice(leaves(value), MAX_LEAVES):
        new = other(was)
        place = (*field, *path)
        where = printable(format_path(path))
        yield Mutant(
            operator,
            f"{operator} {log.events[indices[-1]].sequence} {format_path(place)}",
            f"{words} {f'{where} ' if where else ''}{short(new)} instead of {short(was)}",
            about,
            partial(_with_leaves, log, indices, place, was, new),
        )


def _with_leaves(log: Log, indices: list[int], place: Path, was: Any, new: Any) -> list[Event]:
    events = list(log.events)
    for index in indices:
        if _at(events[index].payload, place) == was:
            events[index] = _with(events[index], place, new)
    return events


def _without(log: Log, gone: frozenset[int]) -> list[Event]:
    return [event for index, event in enumerate(log.events) if index not in gone]


def _replaced(log: Log, changes: Mapping[int, Event]) -> list[Event]:
    return [changes.get(index, event) for index, event in enumerate(log.events)]


def _at(value: Any, path: Path) -> Any:
    """What stands at a path, None where there is no such place."""
    for segment in path:
        try:
            value = value[segment]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _with(event: Event, path: Path, new: Any) -> Event:
    return msgspec.structs.replace(event, raw=msgspec.Raw(msgspec.json.encode(with_leaf(event.payload, path, new))))


MAKERS: tuple[Callable[[Log, list[Effect]], Iterator[Mutant]], ...] = (
    _drop_step,
    _swap_steps,
    _change_output,
    _change_input,
    _change_argument,
    _change_answer,
    _drop_suspension,
    _drop_answer,
    _change_status,
)
