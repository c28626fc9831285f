"""What a divergence says: the first point of difference, the nearest recorded effects, and how to go on."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_loom.errors import ReplayDivergence, printable
from pytest_loom.evals.paths import Rules, format_path
from pytest_loom.evals.values import MISSING, apart, short, walk

if TYPE_CHECKING:
    from pytest_loom.flow.branches import Branch
    from pytest_loom.flow.history import Effect
    from pytest_loom.flow.run import Run
    from pytest_loom.log.event import Event

_FIELD = {"step": "input", "tool": "args", "model": "request", "gate": "correlationKey"}
_VERB = {"step": "runs step", "tool": "calls tool", "model": "calls model", "decision": "decides", "gate": "waits for"}
_SHOWN = 6
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_ACCEPT = "\nIf today's behaviour is right, record the golden anew:\n  pytest --snapshot-update\n"


def mismatch(run: Run, branch: Branch, kind: str, name: str, asked: bytes) -> ReplayDivergence:
    """Today's code asks for something else than what the recorded run did at this place."""
    expected = branch.effects[branch.position]
    rest = branch.effects[branch.position + 1 :]
    asked = run.recorder.scrubbed(asked, _FIELD.get(kind, ""))
    same_name = expected.kind == kind and expected.name == name
    later = next((effect for effect in rest if effect.kind == kind and effect.name == name), None)
    exact = next(
        (effect for effect in rest if effect.kind == kind and effect.name == name and effect.input == asked), None
    )
    was = f"{_doing(expected.kind)} {_name(run, expected)}"
    now = f"{_doing(kind)} {printable(name)}"
    if same_name and exact is None:
        found = "argument-changed"
        what = f"{_Doing(kind)} {printable(name)} is asked something else than in the golden run"
        why = "The recorded answer was to another question, so it is not given."
    elif exact is not None or later is not None:
        found = "order-changed"
        what = f"today's code {_VERB[kind]} {printable(name)} where the golden run had {was}"
        why = f"Either {_name(run, expected)} is no longer asked for, or the order is another one."
    elif expected.kind == kind and expected.input == asked and kind != "decision":
        found = "renamed"
        what = (
            f"today's code {_VERB[kind]} {printable(name)} where the golden run had {was}, with the same {_field(kind)}"
        )
        why = "Renamed? A run that is resumed on this code would not find its answer."
    else:
        found = "step-added"
        what = f"today's code {_VERB[kind]} {printable(name)} where the golden run had {was}"
        why = f"Nothing was recorded for {now}, and replay runs nothing live."
    nearest = _nearest(run, branch, kind, name, asked)
    lines = [what, *(_changes(expected, asked) if found == "argument-changed" else ())]
    if found != "argument-changed":
        lines += _candidates(run, nearest)
    hint = f"{why}{_hint(run, found, kind, expected, asked)}"
    return _error(run, found, "\n    ".join(lines), branch, hint, expected, (kind, name, asked), nearest)


def added(run: Run, branch: Branch, kind: str, name: str, asked: bytes) -> ReplayDivergence:
    """Today's code asks for more than was recorded for this branch."""
    asked = run.recorder.scrubbed(asked, _FIELD.get(kind, ""))
    assert run.history is not None
    again = any(effect.kind == kind and effect.name == name for effect in branch.effects)
    place = f" in branch {printable(branch.place[1])}" if branch.place[1] else ""
    more = "once more than" if again else "which is not in"
    what = f"today's code {_VERB[kind]} {printable(name)}{place}, {more} the golden run"
    where = "was over by then" if run.history.terminal else "was waiting by then"
    why = f"The golden run {where}; nothing is recorded for it, and replay runs nothing live."
    nearest = _nearest(run, branch, kind, name, asked)
    lines = [what, f"asked: {short(_decoded(asked), 200)}" if asked else "", *_candidates(run, nearest)]
    found = "occurrence-added" if again else "step-added"
    text = "\n    ".join(line for line in lines if line)
    return _error(run, found, text, branch, f"{why}{_ACCEPT}", None, (kind, name, asked), nearest)


def left_over(run: Run, effects: list[Effect]) -> ReplayDivergence:
    """Today's code ended without asking for effects that were recorded."""
    first = effects[0]
    names = ", ".join(_name(run, effect) for effect in effects[:_SHOWN])
    more = f" and {len(effects) - _SHOWN} more" if len(effects) > _SHOWN else ""
    what = f"today's code ended without {_doing(first.kind)} {names}{more}, which the golden run did"
    if run.raised is not None:
        what = f"today's code raised {raised_where(run.raised)}, and so did not come to {names}{more}"
    lines = [what, *(_line(run, effect) for effect in effects[:_SHOWN])]
    why = "What the golden run did is no longer done."
    instead = next((wait for _, wait, effect in run.parked if effect is None), None)
    asked = None if instead is None else ("gate", str(instead["on"]), b"")
    if asked is not None:
        lines.insert(1, f"it waits for {printable(asked[1])} instead")
    return _error(run, "left-over", "\n    ".join(lines), None, f"{why}{_ACCEPT}", first, asked, effects[:_SHOWN])


def raised_where(problem: BaseException) -> str:
    """``KeyError: 'name' (trip.py:66, in trip)``: an exception, and the line of the application that raised it."""
    place = ""
    for frame, line in traceback.walk_tb(problem.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, sys.prefix, "<")) and "asyncio" not in file:
            place = f" ({os.path.basename(file)}:{line}, in {frame.f_code.co_name})"
    return f"{type(problem).__name__}: {printable(str(problem), 200)}{place}"


def retries(run: Run, effect: Effect, tries: int, allowed: int) -> ReplayDivergence:
    """The recorded run tried a step more often than today's code would."""
    what = (
        f"the golden run tried {_doing(effect.kind)} {_name(run, effect)} {tries} times, today's code gives up after"
        f" {allowed}"
    )
    hint = f"What the golden run got by trying again, today's code would not get: retries={allowed - 1}.{_ACCEPT}"
    return _error(run, "retries", what, None, hint, effect, None, [effect])


def too_early(run: Run, branch: Branch, effect: Effect) -> ReplayDivergence:
    """Today's code asks for an effect before an answer came through a gate that the recorded run waited for."""
    assert run.history is not None
    gate = next(other for other in run.answers if other.end is not None and other.end.sequence == run.barrier)
    what = (
        f"today's code {_VERB[effect.kind]} {_name(run, effect)} before an answer came through gate {_name(run, gate)};"
        " the golden run waited for it"
    )
    why = "What somebody had to decide first would be done without the decision."
    asked = (effect.kind, effect.name, effect.input)
    return _error(run, "order-changed", what, branch, f"{why}{_ACCEPT}", effect, asked, [gate])


def gate_left(run: Run, effect: Effect) -> ReplayDivergence:
    """Today's code gives up on a gate through which the recorded run got an answer."""
    what = f"today's code gives up on gate {_name(run, effect)}, through which the golden run got its answer"
    why = "A timer of its own, or a sibling's failure, ends the wait: the run would go on without the answer."
    return _error(run, "order-changed", what, None, f"{why}{_ACCEPT}", effect, None, [effect])


def wait_left(run: Run, effect: Effect) -> ReplayDivergence:
    """Today's code gives up on a gate at which the recorded run waits: a timer of its own ends the wait."""
    what = f"today's code gives up on gate {_name(run, effect)}, at which the golden run waits"
    why = (
        "A timer of its own ends the wait, in no time when the run is resumed: its answer would come to nothing. Give "
        "the wait its time instead: ctx.suspend(…, timeout=…)."
    )
    return _error(run, "gate-left", what, None, f"{why}{_ACCEPT}", effect, None, [effect])


def before(run: Run, branch: Branch, key: str, effect: Effect) -> ReplayDivergence:
    """Today's code decides something before it asks for what the recorded run did at that point."""
    what = f"today's code decides {printable(key)} where the golden run had {_doing(effect.kind)} {_name(run, effect)}"
    why = f"Either {_name(run, effect)} is no longer asked for, or the order is another one."
    return _error(run, "order-changed", what, branch, f"{why}{_ACCEPT}", effect, ("decision", key, b""), [effect])


def out_of_turn(run: Run, wait: tuple[int, Effect | None], before: list[Effect]) -> ReplayDivergence:
    """Concurrent code waits for an answer that came after others, which nobody asks for at this point."""
    effect = wait[1]
    names = ", ".join(_name(run, other) for other in before[:_SHOWN])
    asks = f"asks for {_doing(effect.kind)} {_name(run, effect)}" if effect is not None else "goes on"
    what = f"today's code {asks} before {names}, which the golden run did first"
    why = "Either that is no longer asked for, or the order is another one."
    return _error(run, "order-changed", what, None, f"{why}{_ACCEPT}", before[0], None, before[:_SHOWN])


def read_on(run: Run, effect: Effect, count: int) -> ReplayDivergence:
    """Today's code asks for more of a stream than the recorded run, which gave it up before it was over."""
    what = (
        f"today's code reads on in the stream of {_doing(effect.kind)} {_name(run, effect)}, which the golden run"
        f" closed after {_pieces(count)}"
    )
    hint = f"What would have come then is not recorded, and replay runs nothing live.{_ACCEPT}"
    return _error(run, "stream", what, None, hint, effect, None, [effect])


def unread(run: Run, effect: Effect, given: int, count: int) -> ReplayDivergence:
    """Today's code gives up a stream at another piece than the recorded run, or before it saw it fail."""
    was = f"all {count}" if count > 1 else "it"
    if effect.outcome == "failed":
        was = f"{_pieces(count)} and then its failure"
    what = (
        f"today's code reads {_pieces(given) if given else 'nothing'} of the stream of {_doing(effect.kind)}"
        f" {_name(run, effect)}, the golden run read {was}"
    )
    hint = f"What the golden run learned from the rest, today's code would not.{_ACCEPT}"
    return _error(run, "stream", what, None, hint, effect, None, [effect])


def _pieces(count: int) -> str:
    return "1 piece" if count == 1 else f"{count} pieces"


def stuck(run: Run) -> ReplayDivergence:
    """Today's code waits for something that no recorded effect brings."""
    names = sorted({_name(run, effect) for effect in run.left_over()})[:_SHOWN]
    what = "today's code waits for something that replay never brings"
    if run.cancels_expected:
        what = "the golden run cancelled an effect here (a timeout, a failed sibling), today's code waits for it"
    what += f"\n    not asked for: {', '.join(names)}" if names else ""
    hint = "Flow code may wait only for what goes through its Context, and for tasks and timers of its own."
    return _error(run, "stuck", what, None, hint, None, None, [])


def unfit(run: Run, effect: Effect, problem: Exception) -> ReplayDivergence:
    """The recorded answer does not fit what today's code says that it gets."""
    from pytest_loom.flow.values import why_not

    reason = why_not(problem) if isinstance(problem, ValueError) else printable(str(problem))
    what = (
        f"the recorded result of {_doing(effect.kind)} {_name(run, effect)} does not fit today's annotation: {reason}"
        f"\n    recorded: {short(_decoded(effect.output), 200)}"
    )
    hint = f"A waiting run would fail here. Keep the type readable, or migrate.{_ACCEPT}"
    return _error(run, "output-type", what, None, hint, effect, None, [effect])


def unfit_state(run: Run, event: Event, problem: ValueError) -> ReplayDivergence:
    """The recorded state does not fit what today's code keeps as its state."""
    from pytest_loom.flow.values import why_not

    state = event.payload.get("state")
    what = f"the recorded state does not fit today's: {why_not(problem)}\n    recorded: {short(state, 200)}"
    hint = (
        "A waiting run would fail here. Raise the state's version and say how the old one is carried over:\n"
        '  @flow(…, versions={"state": …})  and  @migration("state", from_version=…)'
    )
    error = _error(run, "state-type", what, None, hint, None, None, [])
    error.line = event.line
    return error


def _error(
    run: Run,
    kind: str,
    what: str,
    branch: Branch | None,
    hint: str,
    expected: Effect | None,
    asked: tuple[str, str, bytes] | None,
    candidates: list[Effect],
) -> ReplayDivergence:
    assert run.history is not None
    event = expected.start if expected is not None else None
    error = ReplayDivergence(
        what,
        path=run.history.log.path,
        line=event.line if event is not None else 0,
        execution_id=run.recorder.execution_id,
        step=run.key_of(expected) if expected is not None else printable(asked[1]) if asked else "",
        hint=hint,
    )
    error.kind = kind
    error.expected = _facts(run, expected) if expected is not None else None
    if asked is not None:
        error.asked = {
            "kind": asked[0],
            "name": asked[1],
            "input": _decoded(asked[2]),
            "branch": branch and branch.place[1],
        }
    error.candidates = tuple(_facts(run, effect) for effect in candidates)
    return error


def _facts(run: Run, effect: Effect) -> dict[str, Any]:
    return {
        "kind": effect.kind,
        "name": effect.name,
        "key": run.key_of(effect),
        "input": _decoded(effect.input),
        "sequence": effect.start.sequence,
        "branch": effect.place[1],
    }


def _nearest(run: Run, branch: Branch, kind: str, name: str, asked: bytes) -> list[Effect]:
    """The recorded effects that come closest to what is asked: same name and few differences first; at most three."""
    assert run.history is not None
    pool = [
        effect
        for place, effects in run.history.places.items()
        for effect in (branch.effects[branch.position :] if place == branch.place else effects)
        if not effect.taken and effect.kind == kind and kind != "decision"
    ]
    data = _decoded(asked)

    def distance(effect: Effect) -> tuple[bool, int, bool, int]:
        close = effect.name == name
        count = _count(effect, data) if close or effect.input == asked else 1000
        return (not close, count, effect.place != branch.place, effect.start.sequence)

    pool = sorted(pool[:500], key=distance)
    return [effect for effect in pool if effect.name == name or effect.input == asked][:3]


def _count(effect: Effect, data: Any) -> int:
    total = 0
    for _ in walk(_decoded(effect.input), data, Rules(), None):
        total += 1
        if total >= 100:
            break
    return total


def _changes(effect: Effect, asked: bytes) -> list[str]:
    found = list(walk(_decoded(effect.input), _decoded(asked), Rules(), None))
    lines = []
    for path, was, now in found[:_SHOWN]:
        recorded, today = map(_said, apart(was, now, 76))
        lines.append(f"{format_path(path) or _field(effect.kind)}: recorded {recorded}, today {today}")
    return [*lines, *([f"… and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]


def _candidates(run: Run, effects: list[Effect]) -> list[str]:
    return ["recorded and not yet asked for: " + _line(run, effect) for effect in effects]


def _line(run: Run, effect: Effect) -> str:
    asked = short(_decoded(effect.input), 70) if effect.input else ""
    return f"event {effect.start.sequence}: {effect.kind} {_name(run, effect)} {asked}".rstrip()


def _hint(run: Run, found: str, kind: str, expected: Effect, asked: bytes) -> str:
    if found != "argument-changed" or kind not in _FIELD or kind == "gate":
        return _ACCEPT
    paths = [path for path, _, _ in walk(_decoded(expected.input), _decoded(asked), Rules(), None)][:2]
    names = [format_path((expected.name, _field(kind), *path)) for path in paths]
    patterns = ", ".join(repr(name) if '"' in name else f'"{name}"' for name in names)
    volatile = f"{'' if run.flow.plain else 'make it with ctx.uuid() or ctx.now(), or '}ignore=[{patterns}]"
    return f"{_ACCEPT}If it differs on every run (an id, a time): {volatile}."


def _field(kind: str) -> str:
    return _FIELD.get(kind, "input")


def _doing(kind: str) -> str:
    return {"model": "model call", "tool": "tool call", "decision": "decision", "gate": "gate"}.get(kind, "step")


def _Doing(kind: str) -> str:
    return _doing(kind).capitalize()


def _name(run: Run, effect: Effect) -> str:
    return printable(run.key_of(effect))


def _said(value: Any) -> str:
    return "absent" if value is MISSING else short(value, 80)


def _decoded(raw: bytes) -> Any:
    return msgspec.json.decode(raw) if raw else MISSING
