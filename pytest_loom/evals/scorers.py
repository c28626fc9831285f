"""Ready-made scorers for ``score_run``: each function makes one, whose score is 1.0 (passed) or 0.0 with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import islice
from typing import Any

from pytest_loom.errors import Unsupported, printable
from pytest_loom.evals.paths import Rules, format_path
from pytest_loom.evals.score import Score
from pytest_loom.evals.trajectory import ArgsMatcher, ArgsMode, Mode, Over, Reference, match_problem, moves
from pytest_loom.evals.values import MISSING, short, walk
from pytest_loom.state import ExecutionState

StateScorer = Callable[[ExecutionState], Score]

_TOKEN_NAMES = (
    ("input_tokens", "output_tokens", "total_tokens"),
    ("prompt_tokens", "completion_tokens", "total_tokens"),
    ("inputTokens", "outputTokens", "totalTokens"),
    ("promptTokens", "completionTokens", "totalTokens"),
    ("prompt_token_count", "candidates_token_count", "total_token_count"),
)
"""How providers name tokens in, tokens out and their sum."""


def completed() -> StateScorer:
    """The run completed."""

    def scorer(state: ExecutionState) -> Score:
        reason = f"the run is {state.status}"
        error = state.variables.get("_error")
        if state.status == "failed" and isinstance(error, dict):
            reason += f": {printable(str(error.get('type')))}: {printable(str(error.get('message')))}"
        return _verdict(state.status == "completed", reason)

    return _called("completed", scorer)


def output_equals(
    value: Any, *, ignore: Iterable[str] = (), tolerance: Mapping[str, float] | None = None
) -> StateScorer:
    """The run's output is this value: JSON data, or a dataclass, pydantic model or the like that says it.

    ``ignore`` and ``tolerance`` are those of ``diff_runs``; an output's path starts with ``output``.
    """
    from pydantic_core import to_jsonable_python

    expected = to_jsonable_python(value)
    patterns = list(ignore)
    Rules(patterns, tolerance)

    def scorer(state: ExecutionState) -> Score:
        rules = Rules(patterns, tolerance)
        node = None if rules.start is None else rules.start.next("output")
        found = walk(expected, state.variables.get("_output", MISSING), rules, node)
        shown = [
            f"{format_path(('output', *path))} is {_text(actual)}, not {_text(wanted)}"
            for path, wanted, actual in islice(found, 3)
        ]
        return _verdict(not shown, "; ".join(shown) or "the output is equal")

    return _called("output_equals", scorer)


def output_matches(schema: Any) -> StateScorer:
    """The run's output fits a type (a pydantic model, a dataclass, ``list[int]``) or a JSON Schema (a dict).

    Types are checked strictly, as JSON: "5" is no int. A JSON Schema needs the package jsonschema, and may only refer
    to itself: nothing is fetched. Raises Unsupported where jsonschema is not installed, ValueError for a plain value.
    """
    if isinstance(schema, (str, bytes, int, float, list, tuple)) or schema is None:
        raise ValueError(f"output_matches takes a type or a JSON Schema, not {schema!r}; output_equals compares values")
    problem_of = _schema_problem(schema) if isinstance(schema, dict) else _type_problem(schema)

    def scorer(state: ExecutionState) -> Score:
        raw = state.raw_variables.get("_output")
        if raw is None:
            return _verdict(False, f"the run has no output: it is {state.status}")
        problem = problem_of(raw, state.variables["_output"])
        return _verdict(not problem, printable(problem, 400) or "the output fits")

    return _called("output_matches", scorer)


def step_count(*, at_most: int | None = None, at_least: int | None = None) -> StateScorer:
    """The number of steps that ran, each occurrence counted, is within bounds."""
    if at_most is None and at_least is None:
        raise ValueError("step_count needs at_most=, at_least= or both")

    def scorer(state: ExecutionState) -> Score:
        count = len(state.frames)
        bounds = [f"at least {at_least}"] if at_least is not None else []
        bounds += [f"at most {at_most}"] if at_most is not None else []
        passed = (at_least is None or count >= at_least) and (at_most is None or count <= at_most)
        return _verdict(passed, f"{count} steps; {' and '.join(bounds)} allowed")

    return _called("step_count", scorer)


def latency(*, at_most_ms: float) -> StateScorer:
    """From the first event to the last it took no longer, in milliseconds; waits for people and timers count."""

    def scorer(state: ExecutionState) -> Score:
        took = state.duration_ms
        return _verdict(took <= at_most_ms, f"{took:g} ms; at most {at_most_ms:g} ms allowed")

    return _called("latency", scorer)


def tokens(*, at_most: int) -> StateScorer:
    """All completed model calls together used no more tokens.

    Fails where a completed call recorded no usage that is understood: what is not known cannot be within a budget.
    """

    def scorer(state: ExecutionState) -> Score:
        calls = [call for call in state.calls if call.kind == "model" and call.status == "completed"]
        used = [_tokens(call.usage) for call in calls]
        unknown = used.count(None)
        total = sum(number for number in used if number is not None)
        if unknown:
            return _verdict(
                False, f"{unknown} of {len(calls)} model calls recorded no usage; the others {total} tokens"
            )
        return _verdict(total <= at_most, f"{total} tokens in {len(calls)} model calls; at most {at_most} allowed")

    return _called("tokens", scorer)


def trajectory_match(
    reference: Reference,
    mode: Mode = "strict",
    over: Over = "steps",
    args: ArgsMode | ArgsMatcher = "exact",
    overrides: Mapping[str, ArgsMode | ArgsMatcher] | None = None,
) -> StateScorer:
    """The run took the reference's path, as LangChain's agentevals defines the modes.

    ``mode``: "strict" the same in the same order, "unordered" the same in any order, "superset" at least the
    reference's, "subset" none beyond the reference's. ``over``: the "steps" (with their inputs) or the "tools" called
    (with their arguments). ``reference``: a Log, an ExecutionState, or a list of names and (name, args); a bare name
    says nothing about arguments. ``args``: "exact", "ignore", "subset" (each argument is the reference's too),
    "superset" (each of the reference's is given) or ``(actual, reference) -> bool``; ``overrides`` the same by name.
    """
    if over not in ("steps", "tools"):
        raise ValueError(f"over {over!r} is neither steps nor tools")
    wanted = moves(reference, over)
    match_problem([], [], mode, args, overrides)

    def scorer(state: ExecutionState) -> Score:
        problem = match_problem(moves(state, over), wanted, mode, args, overrides)
        return _verdict(not problem, problem or f"the {over} match ({mode})")

    return _called("trajectory_match", scorer)


def _verdict(passed: bool, reason: str) -> Score:
    return Score(float(passed), passed, reason)


def _called(name: str, scorer: StateScorer) -> StateScorer:
    scorer.__name__ = name
    return scorer


def _text(value: Any) -> str:
    return "absent" if value is MISSING else short(value)


def _tokens(usage: Any) -> int | None:
    """The tokens of one call: the sum that the provider gives, else in and out together."""
    if not isinstance(usage, dict):
        return None
    for names in _TOKEN_NAMES:
        given, made, total = (_number(usage.get(name)) for name in names)
        if total is not None:
            return total
        if given is not None and made is not None:
            return given + made
    return None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _type_problem(schema: Any) -> Callable[[Any, Any], str]:
    from pydantic import TypeAdapter, ValidationError

    adapter: TypeAdapter[Any] = TypeAdapter(schema)

    def problem_of(raw: Any, output: Any) -> str:
        try:
            adapter.validate_json(bytes(raw), strict=True)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            return f"{format_path(('output', *first['loc']))}: {first['msg']}"
        return ""

    return problem_of


def _schema_problem(schema: dict[str, Any]) -> Callable[[Any, Any], str]:
    try:
        validator_for = import_module("jsonschema.validators").validator_for
        registry = import_module("referencing").Registry()
    except ImportError:
        raise Unsupported(
            "output_matches with a JSON Schema needs the package jsonschema",
            hint="pip install jsonschema, or give a type: output_matches(MyModel).",
        ) from None
    validator_class = validator_for(schema)
    validator_class.check_schema(schema)
    validator = validator_class(schema, registry=registry)

    def problem_of(raw: Any, output: Any) -> str:
        for problem in validator.iter_errors(output):
            return f"{format_path(('output', *problem.absolute_path))}: {problem.message}"
        return ""

    return problem_of
