"""What changed between two JSON Schemas, and whether the new one still reads what was written under the old.

Data is written by code, so a schema's writer writes what the schema declares: keys that it does not declare are only
expected where it says so (``additionalProperties``). That is what pydantic's models do; JSON Schema alone would have
every new optional key be a break. What cannot be told is None, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_loom.contract.binding import accepts, decimals, node_digest, unread_digest
from pytest_loom.contract.fingerprint import schema_digest
from pytest_loom.contract.nodes import (
    ABSENT,
    MAX_DEPTH,
    Budget,
    Node,
    Read,
    Undecided,
    alike,
    alternatives,
    canonical,
    exact,
    node_of,
    read,
    settled,
    shown_path,
)
from pytest_loom.contract.scalars import FORMATS
from pytest_loom.errors import FlowError, printable

_LOST = ("removed", "ignored")
_ADDED = ("added-required", "added-default", "added-null-default", "added-optional")
_INTEGER, _NUMBER = frozenset({"integer"}), frozenset({"number"})
_READABLE = ("ignored", "default-changed", "format")
"""Kinds that change what data means, but not whether it can be read."""


@dataclass(frozen=True)
class SchemaChange:
    """One change. ``path``: ``item.lines[].sku``, ``*`` for any other key, "" for the whole.

    ``kind``: widened, wider-number (an integer may be any number: all is read, in another unit maybe), narrowed,
    retyped, renamed, removed (data that has it is refused), ignored (dropped without a word), required, added-required,
    added-default, added-null-default, added-optional, default-changed, closed (keys that are not declared are refused
    now), format, undecided. ``breaking``: whether something that was written under
    the old schema is refused, lost or read as something else under the new one; None where that cannot be told.
    ``detail``: one sentence, safe to print.
    """

    path: str
    kind: str
    breaking: bool | None
    detail: str


_Step = str | int
_Raw = tuple[tuple[_Step, ...], str, bool | None, str]


def compare_schemas(old: Any, new: Any) -> list[SchemaChange]:
    """What changed from ``old`` to ``new`` (JSON Schemas; None says nothing); [] where only words or order did.

    Turn the arguments round to ask about a rollback. Never raises for a schema that cannot be followed: that is one
    change of kind ``undecided``.
    """
    return [
        SchemaChange(shown_path(path), kind, breaking, detail)
        for path, kind, breaking, detail in _renames(_walked(old, new))
    ]


def subsumes(reader: Any, writer: Any) -> bool | None:
    """Whether ``reader`` reads every value that is written under ``writer``; None where that cannot be told.

    A key that the reader drops is read: ask ``compare_schemas`` for what is lost.
    """
    answers = [False if kind in _READABLE else breaking for _, kind, breaking, _ in _walked(writer, reader)]
    if True in answers:
        return False
    return None if None in answers else True


def _walked(old: Any, new: Any) -> list[_Raw]:
    try:
        if schema_digest(True if old is None else old) == schema_digest(True if new is None else new):
            return []
        walk = _Walk()
        walk.pair(node_of(old), node_of(new), ())
    except (Undecided, FlowError, RecursionError) as problem:
        cause = "it is nested too deep" if isinstance(problem, RecursionError) else printable(str(problem))
        return [((), "undecided", None, f"the schemas cannot be compared: {cause}")]
    return walk.found


class _Walk:
    """One walk through two schemas side by side; ``found`` collects what differs."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.found: list[_Raw] = []
        self.seen: set[Any] = set()
        self.budget = budget or Budget()

    def add(self, path: tuple[_Step, ...], kind: str, breaking: bool | None, detail: str) -> None:
        self.found.append((path, kind, breaking, detail))

    def pair(self, old: Node, new: Node, path: tuple[_Step, ...]) -> None:
        self.budget.spend()
        old, new = settled(old), settled(new)
        if (old.key, new.key) in self.seen:
            return
        self.seen.add((old.key, new.key))
        if len(path) > MAX_DEPTH:
            raise Undecided(f"it is nested more than {MAX_DEPTH} deep")
        was, now = read(old, self.budget), read(new, self.budget)
        try:
            olds, news = alternatives(old, was, self.budget), alternatives(new, now, self.budget)
        except Undecided as problem:
            if node_digest(old) != node_digest(new):
                self.add(path, "undecided", None, f"it cannot be told: {printable(str(problem))}")
            return
        if len(olds) == len(news) == 1:
            self._one(olds[0], news[0], path)
        else:
            self._choice(olds, news, path)

    def _choice(self, olds: list[Node], news: list[Node], path: tuple[_Step, ...]) -> None:
        """Every old alternative has to fit a new one; a new one that none fits is something new."""
        if len(olds) * len(news) > 2500:
            raise Undecided("there are too many alternatives")
        used: set[int] = set()
        numbers, olds_numbers = decimals(news), [olds[index] for index in decimals(olds)]
        for one in olds:
            trials = []
            for index, other in enumerate(news):
                trial = _Walk(self.budget)
                trial.seen = set(self.seen)
                trial._one(one, other, path)
                trials.append((index, trial.found))
            fitting = [trial for trial in trials if all(breaking is False for _, _, breaking, _ in trial[1])]
            if fitting:
                index, changes = min(fitting, key=lambda trial: len(trial[1]))
                used.add(index)
                self.found += changes
                if index in numbers and one not in olds_numbers and _is_text(read(one, self.budget)):
                    self.add(path, "undecided", None, "a number or a text may be a Decimal, which not every text is")
                continue
            near = [
                trial for trial in trials if not any(kind == "retyped" and at == path for at, kind, _, _ in trial[1])
            ]
            if len(near) == 1:
                used.add(near[0][0])
                self.found += near[0][1]
            elif near:
                used.update(index for index, _ in near)
                self.add(path, "undecided", None, "it cannot be told which of several alternatives reads it")
            else:
                self.add(path, "narrowed", True, f"no longer takes {_name(read(one, self.budget))}")
        for index, other in enumerate(news):
            if index not in used:
                self.add(path, "widened", False, f"now also takes {_name(read(other, self.budget))}")

    def _one(self, old: Node, new: Node, path: tuple[_Step, ...]) -> None:
        """Two nodes without a choice."""
        was, now = read(old, self.budget), read(new, self.budget)
        if now.never or was.never:
            if now.never != was.never:
                self.add(path, *(("narrowed", True) if now.never else ("widened", False)), "no value fits one of them")
            return
        if unread_digest(was) != unread_digest(now):
            names = ", ".join(sorted({key for key, _, _ in (*was.unread, *now.unread)}))
            self.add(path, "undecided", None, f"it cannot be told what a change of {printable(names)} means")
        if not self._types(was, now, path):
            return
        if was.enum is not None or now.enum is not None:
            self._members(was, now, new, path)
            if was.enum is None:
                return  # only a few values are left of what it was
        if was.enum is None:
            self._limits(was, now, path)
        kind = next(iter(now.types or was.types or ("any",)))
        keyed = any(side.declared or side.patterns or side.names or side.extra is not None for side in (was, now))
        if kind == "object" or (kind == "any" and keyed):
            self._object(was, now, path)
        if kind in ("array", "any"):
            self._array(was, now, path)

    def _types(self, was: Read, now: Read, path: tuple[_Step, ...]) -> bool:
        """Compare types and formats. Whether there is more to compare."""
        by_members = any(side.types is None and side.enum is not None for side in (was, now))
        if was.types != now.types and not by_members:
            if now.types is None:
                self.add(path, "widened", False, f"was {_name(was)}, now takes {_name(now)}")
                return False
            if (was.types, now.types) == (_INTEGER, _NUMBER):  # every value is read, in another unit maybe
                self.add(path, "wider-number", False, f"was {_name(was)}, now takes {_name(now)}")
                return True
            if was.types is None or ((was.types, now.types) == (_NUMBER, _INTEGER)):
                self.add(path, "narrowed", True, f"took {_name(was)}, now only {_name(now)}")
                return was.types is not None
            self.add(path, "retyped", True, f"was {_name(was)}, is {_name(now)}")
            return False
        if was.format != now.format and "string" in (was.types or ("string",)):
            words = f"the format was {printable(str(was.format))} and is {printable(str(now.format))}"
            if now.format in FORMATS or now.format == "email":
                self.add(path, "retyped" if now.format in FORMATS else "narrowed", True, words)
            elif was.format in FORMATS or was.format == "email":
                self.add(path, "widened", False, words)
            else:
                self.add(path, "format", False, words)
        return True

    def _members(self, was: Read, now: Read, new: Node, path: tuple[_Step, ...]) -> None:
        if was.enum is None:
            shown = ", ".join(canonical(value) for value in (now.enum or [])[:6])
            self.add(path, "narrowed", True, f"only takes {printable(shown)} now")
            return
        answers = [(value, accepts(new, value, self.budget)) for value in was.enum]
        lost = [value for value, taken in answers if taken is False]
        if lost:
            shown = ", ".join(canonical(value) for value in lost[:6])
            self.add(path, "narrowed", True, f"no longer takes {printable(shown)}")
        elif any(taken is None for _, taken in answers):
            self.add(path, "undecided", None, "it cannot be told whether it still takes every member")
        known = {exact(value) for value in was.enum}
        if now.enum is None:
            self.add(path, "widened", False, "takes more than its members now")
        elif gained := [value for value in now.enum if exact(value) not in known]:
            shown = ", ".join(canonical(value) for value in gained[:6])
            self.add(path, "widened", False, f"now also takes {printable(shown)}")

    def _limits(self, was: Read, now: Read, path: tuple[_Step, ...]) -> None:
        whole = "integer" in (was.types or ())
        before, after = _bounds(was, whole), _bounds(now, whole)
        for key in sorted(before.keys() | after.keys()):
            one, other = before.get(key), after.get(key)
            if one == other:
                continue
            name = {"at": "minimum", "to": "maximum"}.get(key, key)
            words = f"{name} was {_limit(one)} and is {_limit(other)}"
            if key == "multipleOf":
                coarser = one is not None and other is not None and other[0] and one[0] % other[0] == 0
                wider = other is None or coarser
            elif one is None or other is None:
                wider = other is None
            else:
                wider = other < one if key == "at" or key.startswith("min") else other > one
            if key == "multipleOf" and one is not None and not wider:
                self.add(path, "narrowed", None, words)
            else:
                self.add(path, *(("widened", False) if wider else ("narrowed", True)), words)
        if set(was.pattern) != set(now.pattern):
            gained, kept = set(now.pattern) - set(was.pattern), bool(set(was.pattern) - set(now.pattern))
            words = f"the pattern was {_limit(was.pattern)} and is {_limit(now.pattern)}"
            wider = not gained
            self.add(
                path, *(("widened", False) if wider else ("narrowed", None if kept or was.pattern else True)), words
            )

    def _object(self, was: Read, now: Read, path: tuple[_Step, ...]) -> None:
        for name, child in was.properties.items():
            here = (*path, name)
            if name in now.properties:
                continue
            if isinstance(now.extra, Node):
                self.pair(child, now.extra, here)
            elif now.extra is False:
                self.add(here, "removed", True, "is gone, and data that has it is refused")
            elif now.keeps_extra:
                self.add(here, "widened", False, "is no longer declared, but kept")
            else:
                self.add(here, "ignored", True, "is gone, and dropped from data that has it")
        for name, child in now.properties.items():
            if name not in was.properties:
                self._added(was, now, name, child, (*path, name))
        for name in sorted(now.required - was.required - now.properties.keys()):
            self.add((*path, name), "required", True, "is required now")
        for name in was.properties:  # last, so that what a recursive schema changed is said of its outermost place
            if name in now.properties:
                self._both(was, now, name, (*path, name))
        self._extras(was, now, path)

    def _both(self, was: Read, now: Read, name: str, here: tuple[_Step, ...]) -> None:
        before, after = (read(side.properties[name], self.budget).default for side in (was, now))
        same = _default(before) == _default(after)  # null and none are one: nothing that anybody has to be shown
        if name in now.required and name not in was.required:
            self.add(here, "required", True if after is ABSENT else None, "is required now")
        elif name in was.required and name not in now.required:
            self.add(here, "widened", False, "may be left out now")
        elif not same:
            words = f"the default was {_default(before)} and is {_default(after)}"
            self.add(here, "default-changed", None, words)
        self.pair(was.properties[name], now.properties[name], here)

    def _added(self, was: Read, now: Read, name: str, child: Node, here: tuple[_Step, ...]) -> None:
        if isinstance(was.extra, Node):
            self.pair(was.extra, child, here)
        elif was.extra is True or (was.extra is None and not was.declared):
            self.add(here, "narrowed", None, "is declared now: what was written under that name may not fit")
        default = read(child, self.budget).default
        if default is None:
            self.add(here, "added-null-default", False, "is new, null by default")
        elif default is not ABSENT:
            self.add(here, "added-default", False, f"is new, {_default(default)} by default")
        elif name in now.required:
            self.add(here, "added-required", True, "is new and required")
        else:
            self.add(here, "added-optional", False, "is new and may be left out")

    def _extras(self, was: Read, now: Read, path: tuple[_Step, ...]) -> None:
        """Keys that are not declared."""
        here = (*path, "*")
        before, after = (
            [{key: node_digest(node) for key, node in side.patterns.items()}, node_digest(side.names or Node(()))]
            for side in (was, now)
        )
        if before != after:
            self.add(here, "undecided", None, "it cannot be told what a change of the names that fit means")
        if isinstance(was.extra, Node) and isinstance(now.extra, Node):
            self.pair(was.extra, now.extra, here)
        elif was.keeps_extra and not now.keeps_extra:
            kind = "narrowed" if now.extra is False else "ignored"
            self.add(here, kind, True, "keys that are not declared are no longer kept")
        elif was.keeps_extra and isinstance(now.extra, Node):
            self.add(here, "narrowed", True, "keys that are not declared have to fit a type now")
        elif was.keeps_extra and isinstance(was.extra, Node):
            self.add(here, "widened", False, "keys that are not declared may be anything now")
        elif now.extra is False and was.extra is None and not was.keeps_extra:
            self.add(here, "closed", None, "keys that are not declared were dropped, and are refused now")
        elif (now.keeps_extra and not was.keeps_extra) or (was.extra is False and now.extra is None):
            self.add(here, "widened", False, "keys that are not declared are no longer refused")

    def _array(self, was: Read, now: Read, path: tuple[_Step, ...]) -> None:
        if was.unique != now.unique:
            words = (
                "is a set now: what is there twice is dropped or refused" if now.unique else "may hold things twice now"
            )
            self.add(path, *(("retyped", True) if now.unique else ("widened", False)), words)
        anything = node_of(True)
        for index in range(max(len(was.prefix), len(now.prefix))):
            old, new = (
                side.prefix[index] if index < len(side.prefix) else side.items or anything for side in (was, now)
            )
            self.pair(old, new, (*path, index))
        if (was.items or now.items) and not (was.items is None and "maxItems" in was.limits):
            self.pair(was.items or anything, now.items or anything, (*path, "[]"))


def _renames(raw: list[_Raw]) -> list[_Raw]:
    """A key that went and one that came beside it, under a like name, are one change."""
    found = list(raw)
    lost = [one for one in raw if one[1] in _LOST and one[0] and one[0][-1] != "*"]
    if len(lost) > 100 or len(raw) > 2000:
        return raw  # another schema altogether
    for gone in lost:
        came = [one for one in found if one[1] in _ADDED and one[0][:-1] == gone[0][:-1]]
        came.sort(key=lambda one: -alike(str(gone[0][-1]), str(one[0][-1])))
        if came and alike(str(gone[0][-1]), str(came[0][0][-1])) >= 0.5:
            words = f"looks renamed to {shown_path(came[0][0])}, which {came[0][3]}"
            found[found.index(gone)] = (gone[0], "renamed", True, words)
            found.remove(came[0])
    return found


def _bounds(said: Read, whole: bool) -> dict[str, tuple[float, bool]]:
    """Limits in comparable form: ``at`` and ``to`` are (number, exclusive?), ordered by what they let through."""
    found: dict[str, tuple[float, bool]] = {}
    for key, limit in said.limits.items():
        if key in ("minimum", "exclusiveMinimum"):
            bound = (limit, key != "minimum")
            bound = (limit + 1, False) if whole and bound[1] and limit == int(limit) else bound
            found["at"] = max(found.get("at", bound), bound)
        elif key in ("maximum", "exclusiveMaximum"):
            bound = (limit, key == "maximum")  # an inclusive bound lets more through
            bound = (limit - 1, True) if whole and not bound[1] and limit == int(limit) else bound
            found["to"] = min(found.get("to", bound), bound)
        else:
            found[key] = (limit, False)
    return found


def _limit(value: Any) -> str:
    if not value:
        return "none"
    return printable(str(value[0]) if isinstance(value, tuple) else ", ".join(map(str, value)))


def _default(value: Any) -> str:
    return "null" if value is ABSENT else printable(canonical(value))


def _is_text(said: Read) -> bool:
    return said.types == frozenset({"string"}) or (said.types is None and said.enum is not None)


def _name(said: Read) -> str:
    if said.types is None:
        return "anything" if said.enum is None else "one of its members"
    kind = " or ".join(sorted(said.types))
    if said.format:
        kind += f" ({said.format})"
    if said.enum:
        kind += " " + ", ".join(canonical(value) for value in said.enum[:4])
    return printable(kind)
