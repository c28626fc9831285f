"""Which steps of two runs belong together, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from pytest_loom.evals.align import align_by, longest_increasing, script
from pytest_loom.evals.difference import Difference, decoded, leaves
from pytest_loom.evals.paths import Node, Rules, is_ignored
from pytest_loom.evals.values import MISSING, agree, key_of
from pytest_loom.state import ExecutionState, Frame


class StepDiff:
    """The comparison of the steps of two runs, of the kinds and under the rules given.

    Steps pair by key. Where a step ran another number of times, its occurrences are aligned by status and output.
    """

    def __init__(self, rules: Rules, kinds: frozenset[str]) -> None:
        self.rules = rules
        self.kinds = kinds

    def differences(self, golden_run: ExecutionState, candidate_run: ExecutionState) -> Iterator[Difference]:
        """All of them, in golden order; extra steps come where they happened."""
        golden, candidate = self._frames(golden_run), self._frames(candidate_run)
        pairs = self._pairs(golden, candidate)
        paired = {frame.key: key for key, frame in pairs.items()}
        # An extra step is told after the step that came before it: after golden step KEY, or (None) before all.
        extras: dict[str | None, list[Frame]] = {}
        last: str | None = None
        for frame in candidate:
            last = paired.get(frame.key, last)
            if frame.key not in paired:
                extras.setdefault(last, []).append(frame)
        moved = self._moved(golden, candidate, pairs) if "step-order" in self.kinds else {}
        yield from self._extra(extras.get(None, ()))
        for frame in golden:
            other = pairs.get(frame.key)
            if other is not None:
                if not _same_bytes(frame, other):
                    yield from self._step(frame, other)
            elif "step-missing" in self.kinds:
                yield Difference("step-missing", frame.key, "", _outcome(frame), MISSING)
            if frame.key in moved:
                yield moved[frame.key]
            yield from self._extra(extras.get(frame.key, ()))

    def _extra(self, frames: Iterable[Frame]) -> Iterator[Difference]:
        if "step-extra" in self.kinds:
            for frame in frames:
                yield Difference("step-extra", frame.key, "", MISSING, _outcome(frame))

    def _frames(self, state: ExecutionState) -> list[Frame]:
        return [frame for frame in state.frames.values() if not is_ignored(self._frame_node(frame))]

    def _pairs(self, golden: list[Frame], candidate: list[Frame]) -> dict[str, Frame]:
        """The candidate's frame for each golden key that has one."""
        theirs = {frame.key: frame for frame in candidate}
        if [frame.key for frame in golden] == list(theirs):
            return theirs
        pairs: dict[str, Frame] = {}
        by_id: dict[str, tuple[list[Frame], list[Frame]]] = {}
        for side, frames in enumerate((golden, candidate)):
            for frame in frames:
                by_id.setdefault(frame.step_id, ([], []))[side].append(frame)
        for mine, others in by_id.values():
            mine.sort(key=_occurrence)
            others.sort(key=_occurrence)
            if len(mine) == len(others):
                pairs.update((frame.key, other) for frame, other in zip(mine, others, strict=True))
            elif mine and others:
                pairs.update(self._aligned(mine, others))
        return pairs

    def _aligned(self, golden: list[Frame], candidate: list[Frame]) -> Iterator[tuple[str, Frame]]:
        """Occurrences of one step, of which one run has more: aligned by status and output."""

        def same(i: int, j: int) -> bool:
            one, other = golden[i], candidate[j]
            if one.status != other.status or one.raw_output == other.raw_output:
                return one.status == other.status
            return agree(_output(one), _output(other), self.rules, self._node(one, "output"))

        def key(frame: Frame) -> str:
            return f"{frame.status} {key_of(_output(frame), self.rules, self._node(frame, 'output'))}"

        found = align_by(
            len(golden),
            len(candidate),
            same,
            lambda i: key(golden[i]),
            lambda j: key(candidate[j]),
            exact=self.rules.exact,
        )
        for i, j in script(found, len(golden), len(candidate)):
            if i is not None and j is not None:
                yield golden[i].key, candidate[j]

    def _step(self, golden: Frame, candidate: Frame) -> Iterator[Difference]:
        if golden.status != candidate.status:
            yield from self._ended_otherwise(golden, candidate)
        elif golden.status == "completed" and "step-output" in self.kinds:
            yield from self._field("step-output", "output", golden, candidate)
        elif golden.status == "failed" and "step-error" in self.kinds:
            yield from self._field("step-error", "error", golden, candidate)
        if "step-input" in self.kinds:
            yield from self._field("step-input", "input", golden, candidate)

    def _field(self, kind: str, name: str, golden: Frame, candidate: Frame) -> Iterator[Difference]:
        one, other = getattr(golden, f"raw_{name}"), getattr(candidate, f"raw_{name}")
        if one != other:
            events = [(frame.input_event if name == "input" else None) or frame.event for frame in (golden, candidate)]
            yield from leaves(kind, golden.key, one, other, events, self.rules, self._node(golden, name))

    def _ended_otherwise(self, golden: Frame, candidate: Frame) -> Iterator[Difference]:
        """A step that completed, failed or never ended in one run only: only ignoring the whole step hides it."""
        failed = "failed" in (golden.status, candidate.status)
        if failed and "step-error" in self.kinds and not is_ignored(self._node(golden, "error")):
            errors = [_outcome(frame) if frame.status == "failed" else MISSING for frame in (golden, candidate)]
            yield Difference("step-error", golden.key, "", *errors)
        elif "step-output" in self.kinds:
            completed = "completed" in (golden.status, candidate.status)
            shown = "completed" if completed else "failed"
            values = [_outcome(frame) if frame.status == shown else MISSING for frame in (golden, candidate)]
            yield Difference("step-output", golden.key, "", *values)

    def _moved(self, golden: list[Frame], candidate: list[Frame], pairs: dict[str, Frame]) -> dict[str, Difference]:
        """The fewest steps whose move explains the other order."""
        place = {frame.key: index for index, frame in enumerate(candidate)}
        there = [frame for frame in golden if frame.key in pairs]
        order = [place[pairs[frame.key].key] for frame in there]
        then = [there[rank].key for rank in sorted(range(len(order)), key=order.__getitem__)]
        now = [frame.key for frame in there]
        if now <= then:
            kept = {now[index] for index in longest_increasing(order)}
        else:  # the other way round, so that swapping the runs finds the same steps moved
            rank = {key: index for index, key in enumerate(now)}
            kept = {then[index] for index in longest_increasing([rank[key] for key in then])}
        before = {frame.key: previous.key for previous, frame in pairwise(golden)}
        before_now = {frame.key: previous.key for previous, frame in pairwise(candidate)}
        return {
            key: Difference("step-order", key, "", before.get(key), before_now.get(pairs[key].key))
            for key in now
            if key not in kept
        }

    def _frame_node(self, frame: Frame) -> Node | None:
        return self.rules.named(frame.step_id, frame.key, self.rules.start)

    def _node(self, frame: Frame, field: str) -> Node | None:
        return self.rules.field(self._frame_node(frame), field)


def _output(frame: Frame) -> Any:
    return decoded(frame.raw_output, frame.event)


def _same_bytes(golden: Frame, candidate: Frame) -> bool:
    return (
        golden.status == candidate.status
        and golden.raw_output == candidate.raw_output
        and golden.raw_input == candidate.raw_input
        and golden.raw_error == candidate.raw_error
    )


def _outcome(frame: Frame) -> Any:
    """What a step gave, or how it failed; None where it says neither."""
    return frame.error if frame.status == "failed" else frame.output


def _occurrence(frame: Frame) -> int:
    return 1 if frame.key == frame.step_id else int(frame.key[len(frame.step_id) + 1 :])
