"""The text of a failed ``assert diff_runs(golden, candidate) == []``: what changed, where, and what to type next.

Plain text for 80 columns, without colour. pytest cuts an explanation after 8 lines or 640 characters outside CI, so
the verdict comes first; lines are made as they are asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.evals.difference import Difference
from pytest_loom.evals.paths import format_name
from pytest_loom.evals.values import MISSING, apart, short
from pytest_loom.log.event import Log

_FIELDS = {
    "output": "output",
    "step-output": "output",
    "step-input": "input",
    "step-error": "error",
    "tool-args": "args",
}
_MAX_VALUE = 60
_MAX_LABEL = 30
_MAX_PATTERNS = 6
_QUOTED_OR_INDEX = re.compile(r'"(?:[^"\\]|\\.)*"|\[\d+\]')

Logs = tuple[Log | None, Log | None]
Row = tuple[str, str, str]
"""What differs, how it was, how it is."""


def explain(differences: Sequence[Difference], *, limit: int = 40, width: int = 80, accept: str = "") -> Iterator[str]:
    """Lines that say what ``diff_runs`` found: the verdict, the differences by step, and what to type next.

    At most ``limit`` differences are shown, in lines of about ``width`` characters. ``accept`` is the command
    that accepts the new run, where there is one: it comes early, since pytest cuts off what is long.
    """
    if not differences:
        yield "no difference"
        return
    logs: Logs = getattr(differences, "golden", None), getattr(differences, "candidate", None)
    golden = logs[0]
    run = f"{printable(golden.workflow_id, 24)}/{printable(golden.execution_id, 24)}: " if golden is not None else ""
    yield f"{run}{_count(len(differences), 'difference')} from the golden run, in {_places(differences)}"
    for name, log in zip(("golden", "candidate"), logs, strict=True):
        if log is not None and log.path and (name == "golden" or log.path != getattr(golden, "path", "")):
            yield f"{name}: {printable(log.path, 400)}"
    if accept:
        yield f"to accept the new run: {printable(accept, 1000)}"
    yield from changes(differences, limit=limit, width=width)
    yield from _how_to_ignore(differences, width)


def changes(differences: Sequence[Difference], *, limit: int, width: int = 80) -> Iterator[str]:
    """The differences by step, at most ``limit`` of them."""
    logs: Logs = getattr(differences, "golden", None), getattr(differences, "candidate", None)
    for place, group in groupby(differences[:limit], key=_place):
        yield place
        yield from _table([_row(difference, logs) for difference in group], width)
    if len(differences) > limit:
        rest = differences[limit:]
        yield f"... and {_count(len(rest), 'more difference')}, in {_places(rest)}"


def _place(difference: Difference) -> str:
    if difference.kind == "decision":
        return "decisions"
    if not difference.step:
        return "outcome"
    return f"{'tool' if difference.kind == 'tool-args' else 'step'} {printable(difference.step, 60)}"


def _places(differences: Iterable[Difference]) -> str:
    """``the outcome and 2 steps``."""
    seen = dict.fromkeys(map(_place, differences))
    parts = ["the outcome"] if "outcome" in seen else []
    for word in ("step", "tool"):
        places = [place for place in seen if place.startswith(f"{word} ")]
        if places:
            parts.append(printable(places[0], 40) if len(places) == 1 else f"{len(places)} {word}s")
    parts += ["decisions"] if "decisions" in seen else []
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _row(difference: Difference, logs: Logs) -> Row:
    kind, path = difference.kind, difference.path
    if kind == "status":
        return "status", str(difference.golden), str(difference.candidate)
    if kind == "step-missing":
        return "missing", short(difference.golden), "the step did not run"
    if kind == "step-extra":
        return "new", "the step did not run", short(difference.candidate)
    if kind == "step-order":
        before, now = (f"after {printable(key, 40)}" if key else "first" for key in _sides(difference))
        return "moved", before, now
    if kind == "suspension":
        label = f"waits for {path}"
    elif kind == "decision" or _is_run_level(difference, logs):
        label = path
    else:
        label = _join(_FIELDS[kind], path)
    golden, candidate = _shown(*_sides(difference))
    if kind == "step-output" and not path:
        golden += _why_absent(difference.step, difference.golden, logs, logs[0])
        candidate += _why_absent(difference.step, difference.candidate, logs, logs[1])
    return label, golden, candidate


def _sides(difference: Difference) -> tuple[Any, Any]:
    return difference.golden, difference.candidate


def _join(field: str, path: str) -> str:
    return f"{field}{'' if not path or path.startswith('[') else '.'}{path}"


def _is_run_level(difference: Difference, logs: Logs) -> bool:
    """Whether an output's path is that of a run's error or reason, rather than of a key of its output."""
    if difference.kind != "output" or all(log is None or log.state.status == "completed" for log in logs):
        return False
    return re.match(r"(error|reason|continued)(?=[.[]|$)", difference.path) is not None


def _why_absent(step: str, value: Any, logs: Logs, log: Log | None) -> str:
    """How a step ended that gave nothing, as far as its key tells which occurrence it was."""
    frames = [None if side is None else side.state.frames.get(step) for side in logs]
    if value is not MISSING or log is None or not all(frames):
        return ""
    frame = log.state.frames[step]
    times = [sum(f.step_id == frame.step_id for f in side.state.frames.values()) for side in logs if side is not None]
    if times[0] != times[1]:
        return ""
    if frame.status != "failed":
        return ", the step never ended"
    error = frame.error
    if not isinstance(error, dict):
        return ", the step failed"
    return ", the step failed: " + printable(f"{error.get('type', 'error')}: {error.get('message', '')}", _MAX_VALUE)


def _shown(golden: Any, candidate: Any) -> tuple[str, str]:
    """Two values short enough for a line; of long texts the part where they begin to differ."""
    golden, candidate = apart(golden, candidate, _MAX_VALUE - 2)
    return _or_absent(golden), _or_absent(candidate)


def _or_absent(value: Any) -> str:
    return "absent" if value is MISSING else short(value, _MAX_VALUE)


def _table(rows: Sequence[Row], width: int) -> Iterator[str]:
    """``label  golden -> candidate``, in columns where they fit, else on lines of their own."""
    fits = [len(label) <= _MAX_LABEL for label, _, _ in rows]
    labels = max((len(row[0]) for row, fit in zip(rows, fits, strict=True) if fit), default=0)
    for (label, golden, candidate), fit in zip(rows, fits, strict=True):
        line = f"  {label:{labels}}  {golden} -> {candidate}"
        if fit and len(line) <= width:
            yield line
        else:
            yield f"  {printable(label, width - 2)}"
            yield f"    golden     {golden}"
            yield f"    candidate  {candidate}"


def ignorable(differences: Sequence[Difference]) -> list[str]:
    """The paths to ignore, were all that may vary to be passed over; a step that came, went or failed is not."""
    logs: Logs = getattr(differences, "golden", None), getattr(differences, "candidate", None)
    found: dict[str, list[str]] = {}
    for difference in differences:
        pattern = _pattern(difference, logs)
        if pattern:
            name = re.sub(r"#\d+$", "", difference.step)
            general = _QUOTED_OR_INDEX.sub(lambda match: match[0] if match[0][0] == '"' else "[*]", pattern)
            found.setdefault(_owned(name, general), []).append(_owned(difference.step, pattern))
    return [one[0] if len(one) == 1 else general for general, one in found.items()]


def _how_to_ignore(differences: Sequence[Difference], width: int) -> Iterator[str]:
    """The ``ignore=`` that passes over values that may vary."""
    patterns = [json.dumps(pattern, ensure_ascii=False) for pattern in ignorable(differences)]
    if not patterns:
        return
    line = f"to ignore what may vary: ignore=[{', '.join(patterns)}]"
    if len(line) <= width:
        yield line
        return
    yield "to ignore what may vary: ignore=["
    for pattern in patterns[:_MAX_PATTERNS]:
        yield f"    {pattern},"
    yield f"]  # and {len(patterns) - _MAX_PATTERNS} more" if len(patterns) > _MAX_PATTERNS else "]"


def _pattern(difference: Difference, logs: Logs) -> str:
    """The path pattern of a changed value, without its step; "" where not both sides have one."""
    kind, path = difference.kind, difference.path
    if difference.golden is MISSING or difference.candidate is MISSING:
        return ""
    if kind in ("decision", "suspension"):
        return _join(kind, path)
    if kind not in _FIELDS:
        return ""
    return path if _is_run_level(difference, logs) else _join(_FIELDS[kind], path)


def _owned(step: str, pattern: str) -> str:
    return _join(format_name(step), pattern) if step else pattern


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
