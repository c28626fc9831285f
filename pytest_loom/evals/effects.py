"""Which events of a log tell of one step, tool call or model call: what a mutant leaves out or moves as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_loom.errors import printable
from pytest_loom.fold import occurrence_keys
from pytest_loom.log.event import Event

Kind = Literal["step", "tool", "model"]
_KINDS: dict[str, Kind] = {"STEP": "step", "TOOL": "tool", "MODEL": "model"}


@dataclass
class Effect:
    """One occurrence of a step (all its attempts), or one call. ``at`` are the places of its events in the log.

    ``key`` is its name with the number of the occurrence (``poll#2``), as in an ExecutionState.
    """

    kind: Kind
    name: str
    branch: str | None
    namespace: str | None
    at: list[int] = field(default_factory=list)
    key: str = ""
    is_over: bool = False

    @property
    def about(self) -> str:
        """The step, tool or model of which it is an occurrence."""
        return f"{self.kind} {self.name}"

    @property
    def shown(self) -> str:
        """What it is called in a sentence."""
        return f"{self.kind}{'' if self.kind == 'step' else ' call'} {printable(self.key)}"


def effects_of(events: Sequence[Event]) -> list[Effect]:
    """The effects in the order in which they began. Raises LogError for a payload that cannot be decoded."""
    found: list[Effect] = []
    under_way: dict[Any, Effect] = {}
    for index, event in enumerate(events):
        prefix, _, stage = event.event_type.partition("_")
        kind = _KINDS.get(prefix)
        if kind is None or stage not in ("STARTED", "REQUESTED", "PROGRESS", "COMPLETED", "FAILED"):
            continue
        payload = event.payload
        name = str(payload.get({"step": "stepId", "tool": "name", "model": "model"}[kind]))
        call = str(payload.get("callId"))
        key: Any = (kind, event.branch, event.namespace, call, name) if kind == "step" else (kind, call)
        effect = under_way.get(key)
        if effect is None or (effect.is_over and stage in ("STARTED", "REQUESTED")):
            effect = under_way[key] = Effect(kind, name, event.branch, event.namespace)
            found.append(effect)
        effect.at.append(index)
        effect.is_over = stage == "COMPLETED" or (stage == "FAILED" and not payload.get("willRetry"))
    for each in _KINDS.values():
        group = [effect for effect in found if effect.kind == each]
        names = occurrence_keys([(effect.name, effect.branch) for effect in group])
        for effect, name in zip(group, names, strict=True):
            effect.key = name
    return found
