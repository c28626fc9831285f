"""What a recorded run did, put so that today's code can be answered from it.

Every branch (and sub-flow) has its own list of effects, in the order in which they began; and there is one order in
which answers came, so that replay wakes concurrent branches as the recorded run did.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Literal

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.flow.values import encode
from pytest_loom.fold import occurrence_keys
from pytest_loom.log.event import UNDECODABLE, Event, Log, check_depth, check_places, decode
from pytest_loom.log.payloads import (
    ABSENT,
    read_answer,
    read_model_requested,
    read_resumed,
    read_started,
    read_step,
    read_suspended,
    read_tool_requested,
)
from pytest_loom.log.schema import is_kernel_type
from pytest_loom.log.upcast import upcast_event, upcast_events

EffectKind = Literal["step", "tool", "model", "decision", "gate"]
Place = tuple[str | None, str | None]
"""Namespace and branch."""


class Effect(msgspec.Struct, eq=False, gc=False):
    """One recorded effect. ``outcome`` is "open" while the log does not tell how it ended.

    ``input`` and ``output`` are JSON text (empty: absent), ``output`` an error's where it failed. ``place`` is where it
    happened, ``start`` the event that began it, ``end`` the one that told how it ended, ``between`` those in between
    (failed attempts, a stream's pieces, a gate's answer). ``order`` is its place among all answers, -1 without one.
    """

    kind: EffectKind
    name: str
    place: Place
    start: Event
    input: bytes
    outcome: Literal["open", "completed", "failed"] = "open"
    output: bytes = b""
    end: Event | None = None
    between: list[Event] | None = None
    detail: Any = None
    order: int = -1
    taken: bool = False

    def also(self, event: Event) -> None:
        """Note an event between the first and the last."""
        if self.between is None:
            self.between = [event]
        else:
            self.between.append(event)

    @property
    def value(self) -> Any:
        """Its output as plain data. Raises LogError where it cannot be decoded."""
        return decode(msgspec.Raw(self.output), self.end or self.start)

    @property
    def events(self) -> list[Event]:
        """All its events in order."""
        return [self.start, *(self.between or ()), *((self.end,) if self.end is not None else ())]


class History:
    """The effects of a log by place, the order of their answers, and the snapshots that the run made."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.places: dict[Place, list[Effect]] = {}
        self.answers: list[Effect] = []
        self.snapshots: dict[Place, list[Event]] = {}
        self.migrated = False
        self.migrated_at = 0
        """Where the run last got another input (ADR 0056), 0: never. What began before was asked by another input."""
        self.open_waits: list[Effect] = []
        self.rested: list[int] = []
        """The sequences of the answers that came while the run was at rest, so that it did nothing else meanwhile."""
        _Reader(self).read(log)
        last = log.events[-1].event_type
        self.terminal = last in _ENDS
        rests = next((e.event_type for e in reversed(log.events) if is_rest_or_work(e)), "") == "EXECUTION_SUSPENDED"
        self.open_ended = last == "EXECUTION_CANCELLED" or not (self.terminal or (self.open_waits and rests))
        """Whether the run was cut off at some point (a crash, a cancellation), so that its code may have gone on."""
        self._keys: dict[int, str] | None = None
        self._children: dict[Place, list[int]] | None = None
        self._namespaces: list[tuple[str, list[Effect]]] | None = None

    @property
    def raw_input(self) -> bytes:
        """The run's input as JSON text: what a migration made of it goes before what it started with."""
        if not self.migrated:
            first = self.log.events[0]
            if first.event_type == "EXECUTION_STARTED":
                first = upcast_event(first)
                check_depth(first.raw, first)
                try:
                    return bytes(read_started(first.raw).input)
                except UNDECODABLE as problem:
                    raise first.misshapen(problem) from None
        found = self.log.state.raw_variables.get("_input", b"")
        return bytes(found) if isinstance(found, msgspec.Raw) else encode(found) if found != b"" else b""

    def children(self, place: Place) -> list[int]:
        """The numbers of the concurrent branches that a branch had and that asked for something, in order."""
        if self._children is None:
            self._children = {}
            for namespace, path in self.places:
                above, _, last = (path or "").rpartition("/")
                if _NUMBER.fullmatch(last):
                    self._children.setdefault((namespace, above or None), []).append(int(last))
            for numbers in self._children.values():
                numbers.sort()
        return self._children.get(place, [])

    def within(self, namespace: str | None) -> list[list[Effect]]:
        """The effects of every place in a namespace and in those that are in it, place by place."""
        if self._namespaces is None:
            inner = [(f"{place[0]}/", effects) for place, effects in self.places.items() if place[0] is not None]
            self._namespaces = sorted(inner, key=_first)
        start = bisect_left(self._namespaces, f"{namespace}/", key=_first)
        rest = itertools.islice(self._namespaces, start, None)
        return [effects for name, effects in itertools.takewhile(lambda e: e[0].startswith(f"{namespace}/"), rest)]

    def key(self, effect: Effect) -> str:
        """The key of an effect: ``poll``, ``poll#2``."""
        if self._keys is None:
            self._keys = self.keys()
        return self._keys[effect.start.sequence]

    def all(self) -> Iterator[Effect]:
        """Every effect, by the event that began it."""
        effects = [effect for place in self.places.values() for effect in place]
        return iter(sorted(effects, key=lambda effect: effect.start.sequence))

    def keys(self) -> dict[int, str]:
        """The key of each effect (``poll#2``) by the sequence of its first event."""
        effects = list(self.all())
        names = occurrence_keys([(effect.name, effect.place[1]) for effect in effects])
        return {effect.start.sequence: name for effect, name in zip(effects, names, strict=True)}


def is_rest_or_work(event: Event) -> bool:
    """Whether an event is the run's own doing, rather than what came to it or was done with it."""
    kept = ("EXECUTION_MIGRATED", "EXECUTION_FORKED")
    return is_kernel_type(event.event_type) and event.event_type not in kept


_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_first = itemgetter(0)


_ENDS = frozenset({"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED", "EXECUTION_CONTINUED"})


def _is_another_try(effect: Effect, event: Event) -> bool:
    """Whether a start is one more of an effect that is under way; else how that ended is lost, and it stays open."""
    if effect.start.event_type != "STEP_STARTED":
        return True
    begun, again = (read_step(one.raw).idempotency_key for one in (effect.start, event))
    return begun is None or again is None or begun == again


class _Reader:
    """Goes through the events once."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.steps: dict[Any, Effect] = {}
        self.calls: dict[Any, Effect] = {}
        self.waits: dict[Place, dict[tuple[str, str | None], Effect]] = {}  # open ones, by event and correlation key
        self.rests = False  # whether nothing was done since the run came to rest at its gates
        self.news: list[Event] = []  # application events that no resume has taken yet

    def read(self, log: Log) -> None:
        event = log.events[0]
        handlers = {
            "STEP_PROGRESS": self.step_between,
            "STEP_COMPLETED": self.step_ended,
            "STEP_FAILED": self.step_failed,
            "TOOL_REQUESTED": self.tool,
            "MODEL_REQUESTED": self.model,
            "TOOL_COMPLETED": self.answered,
            "MODEL_COMPLETED": self.answered,
            "TOOL_FAILED": self.answered,
            "MODEL_FAILED": self.answered,
            "DECISION_RECORDED": self.decision,
            "STATE_SNAPSHOT": self.snapshot,
            "EXECUTION_SUSPENDED": self.suspended,
            "EXECUTION_RESUMED": self.resumed,
            "EXECUTION_MIGRATED": self.migrated,
        }
        steps, places, answers = self.steps, self.history.places, self.history.answers
        check_places(log.events)
        try:
            for event in upcast_events(log.events):
                kind = event.event_type
                if kind == "STEP_STARTED":  # most events are these two, so they are read here
                    began = _read_start(event.raw)
                    key = (event.namespace, event.branch, began.step_id, began.call_id)
                    if key in steps and _is_another_try(steps[key], event):
                        steps[key].also(event)
                        continue
                    self.rests = False
                    place = key[:2]
                    effect = steps[key] = Effect("step", began.step_id, place, event, bytes(began.input))
                    if place in places:
                        places[place].append(effect)
                    else:
                        places[place] = [effect]
                    continue
                if kind == "STEP_COMPLETED":
                    ended = _read_end(event.raw)
                    found = steps.pop((event.namespace, event.branch, ended.step_id, ended.call_id), None)
                    if found is not None and len(ended.output) <= 1000:
                        found.end, found.outcome, found.output = event, "completed", bytes(ended.output)
                        found.order = len(answers)
                        answers.append(found)
                        continue
                    if found is not None:
                        self.end(found, event, False, ended.output)
                        continue
                handler = handlers.get(kind)
                if kind == "EXECUTION_SUSPENDED":
                    self.rests = True
                elif kind != "EXECUTION_RESUMED" and is_rest_or_work(event):
                    self.rests = False
                if handler is not None:
                    handler(event)
                elif not is_kernel_type(event.event_type):
                    self.news.append(event)
            self.history.open_waits = self.all_waits()
        except LogError:
            raise
        except UNDECODABLE as problem:
            raise event.misshapen(problem) from None

    def begin(self, kind: EffectKind, name: str, event: Event, input: msgspec.Raw) -> Effect:
        place = (event.namespace, event.branch)
        effect = Effect(kind, name, place, event, bytes(input))
        effects = self.history.places.get(place)
        if effects is None:
            self.history.places[place] = [effect]
        else:
            effects.append(effect)
        return effect

    def end(self, effect: Effect, event: Event, failed: bool, output: msgspec.Raw) -> None:
        effect.end = event
        effect.outcome = "failed" if failed else "completed"
        effect.output = bytes(output)
        if len(effect.output) > 1000:
            check_depth(output, event)
        effect.order = len(self.history.answers)
        self.history.answers.append(effect)

    def open_step(self, payload: Any, event: Event) -> tuple[Any, Effect]:
        key = (event.namespace, event.branch, payload.step_id, payload.call_id)
        effect = self.steps.get(key)
        if effect is None and payload.call_id is None:
            similar = [other for other in self.steps if other[2] == payload.step_id and other[:2] == key[:2]]
            key = similar[0] if len(similar) == 1 else key
            effect = self.steps.get(key)
        if effect is None:  # its start was not recorded
            effect = self.steps[key] = self.begin("step", payload.step_id, event, payload.input)
        return key, effect

    def step_between(self, event: Event) -> None:
        _, effect = self.open_step(read_step(event.raw), event)
        if effect.start is not event:
            effect.also(event)

    def step_ended(self, event: Event) -> None:
        payload = read_step(event.raw)
        key, effect = self.open_step(payload, event)
        del self.steps[key]
        self.end(effect, event, False, payload.output)

    def step_failed(self, event: Event) -> None:
        payload = read_step(event.raw)
        key, effect = self.open_step(payload, event)
        if payload.will_retry:
            effect.also(event)
        else:
            del self.steps[key]
            self.end(effect, event, True, payload.error)

    def tool(self, event: Event) -> None:
        payload = read_tool_requested(event.raw)
        self.call("tool", payload.call_id, payload.name, event, payload.args)

    def model(self, event: Event) -> None:
        payload = read_model_requested(event.raw)
        self.call("model", payload.call_id, payload.model, event, payload.request)

    def call(self, kind: Literal["tool", "model"], call_id: Any, name: str, event: Event, args: msgspec.Raw) -> None:
        effect = self.calls.get((kind, call_id))
        if effect is not None and effect.outcome == "open" and effect.name == name:  # asked again after a crash
            effect.also(event)
            return
        self.calls[kind, call_id] = self.begin(kind, name, event, args)

    def answered(self, event: Event) -> None:
        payload = read_answer(event.raw)
        kind: Literal["tool", "model"] = "tool" if event.event_type.startswith("TOOL") else "model"
        effect = self.calls.get((kind, payload.call_id))
        if effect is None or effect.outcome != "open":
            effect = self.begin(kind, payload.name or payload.model, event, ABSENT)
        failed = event.event_type.endswith("FAILED")
        output = payload.error if failed else payload.output if kind == "tool" else payload.response
        self.end(effect, event, failed, output)

    def decision(self, event: Event) -> None:
        payload = _read_decision(event.raw)
        effect = self.begin("decision", payload.key, event, ABSENT)
        effect.outcome = "completed"
        effect.output = bytes(payload.value)

    def snapshot(self, event: Event) -> None:
        self.history.snapshots.setdefault((event.namespace, event.branch), []).append(event)

    def migrated(self, event: Event) -> None:
        self.history.migrated = True
        if _read_migrated(event.raw).migrated_input is not ABSENT:
            self.history.migrated_at = event.sequence

    def suspended(self, event: Event) -> None:
        payload = read_suspended(event.raw)
        name = payload.on if isinstance(payload.on, str) else "|".join(payload.on)
        key = None if payload.correlation_key is None else str(payload.correlation_key)
        place = (event.namespace, event.branch)
        waits = self.waits.setdefault(place, {})
        if (name, key) in waits:  # recorded again by a run that was resumed up to it
            waits[name, key].also(event)
            return
        effect = self.begin("gate", name, event, ABSENT)
        effect.input = b"" if key is None else encode(key)
        effect.detail = key
        waits[name, key] = effect

    def all_waits(self) -> list[Effect]:
        """The open waits of all branches, oldest first."""
        waits = [wait for waits in self.waits.values() for wait in waits.values()]
        return sorted(waits, key=lambda wait: wait.start.sequence)

    def resumed(self, event: Event) -> None:
        if self.rests:
            self.history.rested.append(event.sequence)
        self.rests = False
        payload = read_resumed(event.raw)
        wait = self.wait_for(payload, event)
        news, self.news = self.news, []
        if wait is None:
            return
        del self.waits[wait.place][wait.name, wait.detail]
        for piece in news:
            wait.also(piece)
        value = _read_resumed_payload(event.raw).payload
        if value is ABSENT and news and news[-1].event_type == payload.event_type:
            value = news[-1].raw
        self.end(wait, event, payload.event_type == "TIMEOUT", value)

    def wait_for(self, payload: Any, event: Event) -> Effect | None:
        """Which wait a resume ends: by branch, correlation key and event."""
        waits = list(self.waits.get((event.namespace, event.branch), {}).values()) or self.all_waits()
        facts = payload.payload if isinstance(payload.payload, dict) else {}
        key = payload.correlation_key if payload.correlation_key is not None else facts.get("correlationKey")
        if key is not None:
            waits = [wait for wait in waits if wait.detail == str(key)] or waits
        if payload.event_type == "TIMEOUT":
            return next((wait for wait in waits if facts.get("on") == wait.name), None) or next(iter(waits), None)
        fitting = next((wait for wait in waits if payload.event_type in wait.name.split("|")), None)
        return fitting or (waits[0] if len(waits) == 1 else None)


class _Start(msgspec.Struct, gc=False, rename="camel"):
    step_id: str
    call_id: str | int | None = None
    input: msgspec.Raw = ABSENT


class _End(msgspec.Struct, gc=False, rename="camel"):
    step_id: str
    call_id: str | int | None = None
    output: msgspec.Raw = ABSENT


class _RawDecision(msgspec.Struct, gc=False):
    key: str
    value: msgspec.Raw = ABSENT


class _RawMigrated(msgspec.Struct, gc=False, rename="camel"):
    migrated_input: msgspec.Raw = ABSENT


class _RawResumed(msgspec.Struct, gc=False):
    payload: msgspec.Raw = ABSENT


_read_start = msgspec.json.Decoder(_Start).decode
_read_end = msgspec.json.Decoder(_End).decode
_read_decision = msgspec.json.Decoder(_RawDecision).decode
_read_migrated = msgspec.json.Decoder(_RawMigrated).decode
_read_resumed_payload = msgspec.json.Decoder(_RawResumed).decode
