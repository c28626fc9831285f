"""What changed between two runs (ADR 0008): ``assert diff_runs(golden, candidate) == []``.

Bytes first: equal JSON text is equal. What differs is decoded and walked, leaf by leaf. Steps pair by key; where a
step ran another number of times, its occurrences are aligned, so that one dropped turn of a loop is one difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pytest_loom.evals.align import align, align_by, script
from pytest_loom.evals.difference import DEFAULT, KINDS, Difference, Differences, decoded, leaves
from pytest_loom.evals.paths import Comparator, Node, Rules, format_path, is_ignored, pattern_list
from pytest_loom.evals.steps import StepDiff
from pytest_loom.evals.values import MISSING, agree, key_of, walk
from pytest_loom.fold import occurrence_keys
from pytest_loom.log.event import Log
from pytest_loom.state import Call, ExecutionState, Suspension

__all__ = ["DEFAULT", "KINDS", "MISSING", "Difference", "Differences", "diff_runs"]

_OUTCOMES = {"_output": "output", "_error": "error", "_reason": "reason", "_continued_input": "continued"}


def diff_runs(
    golden: Log,
    candidate: Log,
    *,
    ignore: Iterable[str] = (),
    compare: Iterable[str] | Literal["all"] = DEFAULT,
    tolerance: Mapping[str, float] | None = None,
    comparators: Mapping[str, Comparator] | None = None,
    unordered: Iterable[str] | Literal[True] = (),
) -> Differences:
    """What the candidate run does differently from the golden run; an empty list means the same.

    The outcome comes first (status, output; a failed run's error and a cancelled run's reason count as output, under
    the paths ``error`` and ``reason``), then the steps in golden order, extra ones where they happened.

    ``compare``: the kinds to compare, or "all". A step that completed in one run only is a ``step-error`` where that is
    compared, else a ``step-output``. Two failures of a step are compared as ``step-error`` only.
    ``ignore``: path patterns (``assess.output.rationale``, ``*.usage``, ``**.id``, ``items[*].id``). The full path of a
    value is its step's key, ``output``, ``input`` or ``error``, then the path inside; the middle name may be left out.
    A tool's arguments are ``TOOL.args``; a run's own values ``output``, ``status``, ``error``, ``decision.KEY``,
    ``suspension.EVENT``. Ignoring a path ignores what is under it; a step's name alone ignores the step wholly, and
    means each of its occurrences, while ``poll#2`` is the second only.
    ``tolerance``: ``{"abs": x, "rel": y}`` for numbers (not bools), as in math.isclose.
    ``comparators``: path pattern to ``(golden, candidate) -> bool``; the first that matches judges that whole value.
    It is asked only where both sides have a value and the two differ.
    ``unordered``: patterns of lists whose order means nothing, or True for all lists.

    A golden that a test got from ``loom_golden`` brings the marker's rules along; what is given here goes before them,
    ignored paths add up. In a run that was started to accept changes (``--snapshot-update``) such a golden takes the
    candidate for its next self, and the result is [].

    Raises ValueError naming a kind, pattern or tolerance that it does not know, LogError where a log cannot be folded.
    """
    for side in (golden, candidate):
        if not isinstance(side, Log):
            raise TypeError(f"diff_runs compares two Logs, not a {type(side).__name__}; load_log(path) reads one")
    test = golden.golden
    if test is not None:
        own = test.rules
        ignore = [*pattern_list("ignore", own.get("ignore", ())), *pattern_list("ignore", ignore)]
        compare = own.get("compare", DEFAULT) if compare is DEFAULT else compare
        tolerance = own.get("tolerance") if tolerance is None else tolerance
        given = comparators or {}
        # The first that matches judges, so the given ones stand first, and count where both name the same path.
        comparators = {**given, **own.get("comparators", {}), **given}
        unordered = unordered or own.get("unordered", ())
        if test.compared is not None:
            test.compared(
                {"ignore": ignore, "tolerance": tolerance, "comparators": comparators, "unordered": unordered}
            )
    rules, kinds, state = Rules(ignore, tolerance, comparators, unordered), _kinds(compare), golden.state
    if _says_the_same(golden, candidate):
        return Differences(golden, candidate, [])
    found = Differences(golden, candidate, _Diff(state, candidate.state, rules, kinds).all())
    forked = "_forked" in candidate.state.raw_variables  # a question of "what if", which no golden is to become
    if found and test is not None and not forked:
        if test.accept is not None:
            test.accept(candidate)
            found.clear()
        elif test.differs is not None:
            said = {"ignore": ignore, "compare": compare, "tolerance": tolerance, "unordered": unordered}
            test.differs(candidate, {**said, "comparators": list(comparators or ())})
    return found


def _says_the_same(golden: Log, candidate: Log) -> bool:
    """Whether two logs have the same events, but for ids and times, of which the fold makes nothing that is compared.

    So one of them need not be folded, which costs ten times as much as to see this.
    """
    if len(golden.events) != len(candidate.events) or golden.workflow_id != candidate.workflow_id:
        return False
    for one, other in zip(golden.events, candidate.events, strict=True):
        if (
            one.raw != other.raw
            or one.event_type != other.event_type
            or one.branch != other.branch
            or one.namespace != other.namespace
            or one.event_version != other.event_version
            or one.schema_version != other.schema_version
            or one.ignorable != other.ignorable
        ):
            return False
    return True


def _kinds(compare: object) -> frozenset[str]:
    if compare == "all":
        return frozenset(KINDS)
    if isinstance(compare, str) or not isinstance(compare, Iterable):
        raise ValueError(f'compare is "all" or a list of kinds, not {compare!r}')
    kinds = list(compare)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"compare: {unknown[0]!r} is not a kind of difference; the kinds are {', '.join(KINDS)}")
    if not kinds:
        raise ValueError("compare is empty, so nothing would be compared")
    return frozenset(kinds)


class _Diff:
    def __init__(self, golden: ExecutionState, candidate: ExecutionState, rules: Rules, kinds: frozenset[str]) -> None:
        self.golden = golden
        self.candidate = candidate
        self.rules = rules
        self.kinds = kinds

    def all(self) -> Iterator[Difference]:
        yield from self.outcome()
        if "suspension" in self.kinds:
            waits = [_waits(state.waits) for state in (self.golden, self.candidate)]
            yield from self.named("suspension", *waits)
        yield from StepDiff(self.rules, self.kinds).differences(self.golden, self.candidate)
        if "tool-args" in self.kinds:
            yield from self.calls()
        if "decision" in self.kinds:
            yield from self.named("decision", self.golden.decisions, self.candidate.decisions)

    def outcome(self) -> Iterator[Difference]:
        golden, candidate = self.golden, self.candidate
        if "status" in self.kinds and golden.status != candidate.status and not is_ignored(self.at("status")):
            yield Difference("status", "", "", golden.status, candidate.status)
        if "output" not in self.kinds:
            return
        for variable, name in _OUTCOMES.items():
            one, other = golden.raw_variables.get(variable, b""), candidate.raw_variables.get(variable, b"")
            if one != other:
                prefix = () if name == "output" else (name,)
                events = [state.variable_events.get(variable, state.last_event) for state in (golden, candidate)]
                yield from leaves("output", "", one, other, events, self.rules, self.at(name), prefix=prefix)

    def named(self, kind: str, golden: Mapping[str, Any], candidate: Mapping[str, Any]) -> Iterator[Difference]:
        """Values that a run has by name, an occurrence of which is written ``name#2``."""
        if is_ignored(self.at(kind)):
            return
        for key in [*golden, *(key for key in candidate if key not in golden)]:
            node = self.rules.named(key.rpartition("#")[0] or key, key, self.at(kind))
            for path, one, other in walk(golden.get(key, MISSING), candidate.get(key, MISSING), self.rules, node):
                yield Difference(kind, "", format_path((key, *path)), one, other)

    def calls(self) -> Iterator[Difference]:
        """Tool calls in order: first those with the same arguments pair, then what lies between by name."""
        golden, candidate = self.tool_calls(self.golden), self.tool_calls(self.candidate)
        nodes = [self.rules.field(node, "args") for _, _, node in golden]

        def same(i: int, j: int) -> bool:
            one, other = golden[i][1], candidate[j][1]
            return one.name == other.name and agree(_args(one), _args(other), self.rules, nodes[i])

        def key(call: Call, node: Node | None) -> str:
            return f"{call.name!r} {key_of(_args(call), self.rules, self.rules.field(node, 'args'))}"

        found = align_by(
            len(golden),
            len(candidate),
            same,
            lambda i: key(*golden[i][1:]),
            lambda j: key(*candidate[j][1:]),
            exact=self.rules.exact,
        )

        def by_name(gone: range, new: range) -> list[tuple[int, int]]:
            between = align([golden[i][1].name for i in gone], [candidate[j][1].name for j in new])
            return [(gone[i], new[j]) for i, j in between]

        for i, j in script(found, len(golden), len(candidate), by_name):
            if i is None and j is not None:
                yield Difference("tool-args", candidate[j][0], "", MISSING, candidate[j][1].args)
            elif i is not None and j is None:
                yield Difference("tool-args", golden[i][0], "", golden[i][1].args, MISSING)
            elif i is not None and j is not None:
                one, other = golden[i][1], candidate[j][1]
                events = [one.request_event, other.request_event]
                yield from leaves("tool-args", golden[i][0], one.raw_args, other.raw_args, events, self.rules, nodes[i])

    def tool_calls(self, state: ExecutionState) -> list[tuple[str, Call, Node | None]]:
        calls = [call for call in state.calls if call.kind == "tool"]
        keys = occurrence_keys([(call.name, call.branch) for call in calls])
        start = self.rules.start
        found = [(key, call, self.rules.named(call.name, key, start)) for key, call in zip(keys, calls, strict=True)]
        return [entry for entry in found if not is_ignored(entry[2])]

    def at(self, name: str) -> Node | None:
        return None if self.rules.start is None else self.rules.start.next(name)


def _args(call: Call) -> Any:
    return decoded(call.raw_args, call.request_event)


def _waits(suspensions: Iterable[Suspension]) -> dict[str, Any]:
    """All waits, answered ones too, by the event that ends them: a gate that is no longer passed has to show."""
    waits = list(suspensions)
    keys = occurrence_keys([("|".join(wait.events), wait.branch) for wait in waits])
    return {key: {"kind": wait.kind, "pending": wait.pending} for key, wait in zip(keys, waits, strict=True)}
