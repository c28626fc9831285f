"""A question that a person was asked, beside the one that today's code asks in its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_loom.deploy.report import Severity
from pytest_loom.errors import printable

Verdict = tuple[str, Severity, str]
"""Finding code, severity, and one sentence."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d)?|\d\d:\d\d:\d\d")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,79}")
"""A word without digits: what has digits is an id, a version or an address."""

_ABSENT = object()


@dataclass(frozen=True)
class Answered:
    """The open question as it was shown, and how many the same step asked and got answered before it."""

    value: Any
    index: int


def compare_questions(
    shown: Answered, today: list[Any], sketches: list[Any] | None = None, again: list[Any] | None = None
) -> list[Verdict]:
    """What became of a question: [] where it is asked as it was.

    ``today`` are the questions that today's code asks one after the other, the last being the one that stays open;
    ``sketches`` what can be seen of all questions in its code, in order, a part ``{"$any": True}`` being unknown;
    ``again`` the same questions asked a second time: what differs between the two is made while asking, and left out.
    Answers are matched by position, so that a question which moved gets somebody else's answer: that is breaking, and
    so is another call to approve, or an amount that is gone. Other words or numbers are a warning: nobody but a person
    can see whether they turn the question round.
    """
    place = min(shown.index, len(today) - 1)
    now = today[place]
    if now == shown.value and len(today) == shown.index + 1:
        return []
    earlier = [index for index, value in enumerate(today[:place]) if _is_same(value, shown.value, now)]
    if earlier:
        return [
            (
                "answer-misrouted",
                "breaking",
                f"the open question {_text(shown.value)} is asked as number {earlier[0] + 1} today, where an earlier"
                f" answer is recorded; the answer to it would be taken for the answer to {_text(now)}.",
            )
        ]
    if len(today) <= shown.index:
        return [
            (
                "answer-misrouted",
                "breaking",
                f"{shown.index} answers are recorded before the open question {_text(shown.value)}, and today's code"
                f" comes to {_text(today[-1])} after {len(today) - 1}: answers go to other questions.",
            )
        ]
    if _comes_later(shown.value, now, sketches or []):
        return [
            (
                "answer-misrouted",
                "breaking",
                f"today's code asks {_text(now)} before it comes to the open question {_text(shown.value)}: the answer"
                " to this one would be taken for the answer to that one.",
            )
        ]
    once_more = again[place] if again and len(again) > place else now
    return _requests(shown.value, now) or list(_differences(shown.value, now, once_more, sketches or []))


def _comes_later(shown: Any, now: Any, sketches: list[Any]) -> bool:
    """Whether the question that was shown is another one in the code than the one that is asked in its place."""
    of_shown = [index for index, sketch in enumerate(sketches) if _fits(sketch, shown)]
    of_now = [index for index, sketch in enumerate(sketches) if _fits(sketch, now)]
    return bool(of_shown and of_now) and not set(of_shown) & set(of_now) and min(of_shown) > max(of_now)


def _fits(sketch: Any, value: Any) -> bool:
    if sketch == {"$any": True}:
        return True
    if isinstance(sketch, dict):
        if not isinstance(value, dict) or ("$any" not in sketch and sketch.keys() != value.keys()):
            return False
        return all(key == "$any" or (key in value and _fits(part, value[key])) for key, part in sketch.items())
    if isinstance(sketch, list):
        same = isinstance(value, list) and len(sketch) == len(value)
        return same and all(_fits(part, item) for part, item in zip(sketch, value, strict=False))
    return bool(sketch == value)


def _is_same(value: Any, shown: Any, now: Any) -> bool:
    """Whether an earlier question of today is the one that was shown, rather than the one in its place."""
    return bool(value == shown or (now != shown and similar(value, shown) > max(0.8, similar(now, shown))))


def similar(one: Any, other: Any) -> float:
    """How alike two questions are, from 0 to 1."""
    return difflib.SequenceMatcher(None, repr(one)[:2000], repr(other)[:2000], autojunk=False).ratio()


def _requests(shown: Any, now: Any) -> list[Verdict]:
    """LangChain's approval requests: as many decisions are given as calls were shown, each of those allowed."""
    was, today = _of(shown, "action_requests"), _of(now, "action_requests")
    if was is None or today is None:
        return []
    if len(was) != len(today):
        return [
            (
                "answer-misrouted",
                "breaking",
                f"{len(was)} calls were shown for a decision each, and today's code asks for {len(today)}: the"
                " decisions that are given do not match, and calls that nobody decided about may run.",
            )
        ]
    found: list[Verdict] = []
    for before, after in zip(was, today, strict=True):
        if (before.get("name"), before.get("args")) != (after.get("name"), after.get("args")):
            text = f"the call {_text(before)} was shown, and today's code asks about {_text(after)}."
            found.append(("approval-stale", "breaking", text))
    for before, after in zip(_of(shown, "review_configs") or [], _of(now, "review_configs") or [], strict=False):
        gone = sorted(
            {*map(str, before.get("allowed_decisions") or ())} - {*map(str, after.get("allowed_decisions") or ())}
        )
        if gone:
            text = (
                f"the decisions {', '.join(printable(word) for word in gone)} were offered for"
                f" {printable(str(before.get('action_name')))}, and today's code refuses them with an error."
            )
            found.append(("gate-changed", "breaking", text))
    return found or [("gate-changed", "warning", _reworded(shown, now))] * (_bare(shown) != _bare(now))


def _bare(value: Any) -> Any:
    """Requests without the words that only describe them."""
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key not in ("description", "args_schema")}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _of(value: Any, key: str) -> list[dict[str, Any]] | None:
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else None


def _differences(shown: Any, now: Any, again: Any, sketches: list[Any]) -> Iterator[Verdict]:
    """Other words are a warning; another thing asked for by the same code, or an amount that is gone, is breaking."""
    made = {path for path, _, _ in _leaves(now, again, "")}
    leaves = [leaf for leaf in _leaves(shown, now, "") if leaf[0] not in made and not _is_moment(*leaf[1:])]
    for path, before, after in leaves:
        where = f" ({printable(path)})" if path else ""
        if _is_identifier(before) and _is_identifier(after) and _is_open(path, now, sketches):
            text = f"the question asked for {_text(before)}{where}, and today's asks for {_text(after)} in its place"
            yield "answer-misrouted", "breaking", f"{text}: the answer to the one is taken for the other's."
            return
        if set(_amounts(before)) - {"0"} and set(_amounts(after)) == {"0"}:
            text = f"{_text(before)} was shown{where}, and today's code would show {_text(after)}"
            yield "approval-stale", "breaking", f"{text}: what is approved is not what would be done."
            return
    if leaves:
        yield "gate-changed", "warning", _reworded(shown, now)


def _is_open(path: str, now: Any, sketches: list[Any]) -> bool:
    """Whether a part of today's question is filled in while the code runs, and is not a word of its own."""
    fitting = [sketch for sketch in sketches if _fits(sketch, now)]
    return any(path not in dict(_words(sketch, "")) for sketch in fitting)


def _words(sketch: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The parts of a sketch that the code says literally, by path."""
    if sketch == {"$any": True}:
        return
    if isinstance(sketch, dict):
        for key, part in sketch.items():
            yield from _words(part, f"{path}.{key}" if path else str(key))
    elif isinstance(sketch, list):
        for index, part in enumerate(sketch):
            yield from _words(part, f"{path}[{index}]")
    else:
        yield path, sketch


def _reworded(shown: Any, now: Any) -> str:
    was, today = _text(shown), _text(now)
    return f"the question was {was} and is {today} today: an answer to the old words is read by the new ones."


def _leaves(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _leaves(one.get(key, _ABSENT), other.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _leaves(left, right, f"{path}[{index}]")
    elif one != other:
        yield path, one, other


def _is_identifier(value: Any) -> bool:
    return isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None


def _is_moment(before: Any, after: Any) -> bool:
    """Whether both are points in time: those of a question are made when it is asked."""
    return all(isinstance(value, str) and _MOMENT.search(value) for value in (before, after))


def _amounts(value: Any) -> list[str]:
    """The numbers that are shown, in a text or by themselves."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [f"{value:g}"]
    return _NUMBER.findall(value) if isinstance(value, str) else []


def _text(value: Any) -> str:
    return printable(repr(value), 100)
