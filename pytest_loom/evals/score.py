"""Scoring one recorded run: named scorers over what the log says happened (ADR 0008)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from numbers import Real
from typing import Any

from pytest_loom.errors import ScoreError, printable
from pytest_loom.log.event import Log
from pytest_loom.state import ExecutionState


@dataclass(frozen=True)
class Score:
    """What a scorer says of a run: a finite number, whether that is good enough (None: not judged), and why."""

    value: float
    passed: bool | None = None
    reason: str = ""


Verdict = Score | bool | float
Scorer = Callable[[ExecutionState], Verdict | Awaitable[Verdict]]
"""Takes the folded run; returns a Score, a bool (1.0 or 0.0, and passed) or a number, or an awaitable of one."""
Scorers = Mapping[str, Scorer] | Iterable[Scorer]


def score_run(run: ExecutionState | Log, scorers: Scorers) -> dict[str, Score]:
    """Each scorer's Score of one run, by name, in the order given.

    ``scorers`` maps names to scorers, or lists scorers that have a name of their own. Async ones are awaited in an
    event loop made for the purpose; where a loop is running already, use ``await ascore_run(...)``.
    Raises ScoreError naming a scorer that raises or returns no score, ValueError for scorers without distinct names.
    """
    state = run.state if isinstance(run, Log) else run
    given: dict[str, Any] = {}
    try:
        for name, scorer in named_scorers(scorers).items():
            given[name] = _call(name, scorer, state)
        waiting = [name for name, verdict in given.items() if isawaitable(verdict)]
        if waiting:
            _refuse_running_loop(waiting[0], state)
    except BaseException:
        for verdict in given.values():
            if iscoroutine(verdict):
                verdict.close()  # else Python warns that it was never awaited
        raise
    if waiting:
        import asyncio

        return asyncio.run(_awaited(given, state))
    return {name: _score(name, verdict, state) for name, verdict in given.items()}


async def ascore_run(run: ExecutionState | Log, scorers: Scorers) -> dict[str, Score]:
    """``score_run`` as a coroutine, for tests that run in an event loop; scorers run one after the other."""
    state = run.state if isinstance(run, Log) else run
    scores: dict[str, Score] = {}
    for name, scorer in named_scorers(scorers).items():
        scores |= await _awaited({name: _call(name, scorer, state)}, state)
    return scores


def named_scorers(scorers: Scorers) -> dict[str, Scorer]:
    """The scorers by name, in the order given. Raises ValueError where one is no scorer or names are not distinct."""
    if isinstance(scorers, str) or not isinstance(scorers, Iterable):
        raise ValueError(f"scorers is a mapping of name to scorer, or a list of scorers, not {scorers!r}")
    named: dict[str, Scorer] = {}
    pairs = scorers.items() if isinstance(scorers, Mapping) else ((_name(scorer), scorer) for scorer in scorers)
    for name, scorer in pairs:
        if not callable(scorer):
            raise ValueError(f"scorer {name!r} is not callable: {scorer!r}")
        if name in named:
            raise ValueError(f'two scorers are called {name!r}; give them names: {{"first": ..., "second": ...}}')
        named[name] = scorer
    return named


def _name(scorer: object) -> str:
    name = getattr(scorer, "name", None) or getattr(scorer, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ValueError(f'a scorer has no name: {scorer!r}; give it one: {{"name": scorer}}')
    return name


def _call(name: str, scorer: Scorer, state: ExecutionState) -> Verdict | Awaitable[Verdict]:
    try:
        return scorer(state)
    except Exception as problem:
        raise _raised(name, problem, state) from problem


async def _awaited(given: Mapping[str, Any], state: ExecutionState) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for name, verdict in given.items():
        try:
            value = await verdict if isawaitable(verdict) else verdict
        except Exception as problem:
            raise _raised(name, problem, state) from problem
        scores[name] = _score(name, value, state)
    return scores


def _refuse_running_loop(name: str, state: ExecutionState) -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise _error(
        f"scorer {name!r} is async, and an event loop is running already", state, hint="Use `await ascore_run(...)`."
    )


def _score(name: str, verdict: object, state: ExecutionState) -> Score:
    if isinstance(verdict, bool):
        return Score(float(verdict), verdict)
    score = verdict if isinstance(verdict, Score) else Score(verdict) if isinstance(verdict, Real) else None  # type: ignore[arg-type]
    if score is None:
        hint = "Is a return missing?" if verdict is None else "A scorer returns a Score, a bool or a number."
        raise _error(f"scorer {name!r} returned {printable(repr(verdict))}, which is no score", state, hint=hint)
    try:
        value = float(score.value)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value) or not (score.passed is None or isinstance(score.passed, bool)):
        raise _error(
            f"scorer {name!r} returned {printable(repr(verdict))}, which is no score",
            state,
            hint="The value of a score is a finite number; passed is True, False or None.",
        )
    return Score(value, score.passed, str(score.reason))


def _raised(name: str, problem: Exception, state: ExecutionState) -> ScoreError:
    return _error(f"scorer {name!r} raised {type(problem).__name__}: {printable(str(problem), 400)}", state)


def _error(what: str, state: ExecutionState, *, hint: str = "") -> ScoreError:
    return ScoreError(what, path=state.first_event.path, execution_id=state.execution_id, hint=hint)
