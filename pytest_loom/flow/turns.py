"""Whose turn it is in a replay: answers are given in the order in which the recorded run got them.

A run with one branch never waits. Concurrent branches wait for what came before in the log, so that code whose way
depends on who was first goes the same way again; where nobody asks for that any more, the next one goes on.
"""

from __future__ import annotations

import heapq
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_loom.flow.history import Effect, History, Place
from pytest_loom.flow.loop import FlowLoop

if TYPE_CHECKING:
    import asyncio

    from pytest_loom.errors import LoomError
    from pytest_loom.flow.branches import Branch

PATIENCE = 0.2
"""Seconds that a thread waits in replay for what other threads did before it, when nothing happens meanwhile."""


class Stop(BaseException):
    """Ends flow code from within: nothing that it catches (Exception) gets in the way."""


class Parked(Stop):
    """Ends sync flow code that waits for a gate, or has come to the end of what was recorded."""


def _in_line(one: Place, other: Place) -> bool:
    """Whether one of two places is within the other."""
    (namespace, path), (outer, above) = sorted((one, other), key=lambda place: len(place[1] or ""), reverse=True)
    return namespace == outer and one != other and f"{path or ''}/".startswith(f"{above}/" if above else "")


class Turns:
    """The order of a run's answers, and who waits for which."""

    def __init__(self, history: History | None) -> None:
        self.history = history
        self.loop: FlowLoop | None = None
        self.stopping = False
        self.concurrent = False
        self.answers: list[Effect] = history.answers if history is not None else []
        self.cursor = 0
        self.given: set[int] = set()
        self.begun: list[Effect] | None = None
        self.asked = 0
        self.jumps = 0
        self.unrecorded: dict[int, LoomError] = {}
        """By branch, what to say of a gate that the recorded run did not wait at, unless the code gives up on it."""
        self.waiting: list[tuple[int, int, asyncio.Future[None], Effect | None]] = []
        self.resting: list[tuple[int, int, asyncio.Future[None], Effect]] = []
        self.gates = list(reversed(history.rested)) if history is not None else []
        self.barrier = self.gates[-1] if self.gates else sys.maxsize
        """The next answer that came through a gate: the run rested then, so that what followed cannot come before."""
        self.lock = threading.RLock()
        self.moved = threading.Condition(self.lock)
        self.moves = 0
        self.queue: list[int] = []
        self.holder: str | None = None  # the thread that got the last answer, until it asks for something or ends

    async def turn(self, effect: Effect) -> None:
        """Wait until this answer is next, or nobody asks for what came before it any more."""
        if self.concurrent and effect.end is not None:
            await self.reach(effect.end.sequence, effect)
        else:
            self.gave(effect)

    async def reach(self, sequence: int, effect: Effect | None = None) -> None:
        """Wait until all came about that the recorded run did before this event, or nobody brings it about any more.

        ``effect`` is the one that this event answers; it counts as given then.
        """
        if self.loop is not None and not self.ready(sequence):
            future = self.loop.create_future()
            heapq.heappush(self.waiting, (sequence, id(future), future, effect))
            await future
        elif effect is not None:
            self.gave(effect)

    async def rest(self, effect: Effect) -> None:
        """Wait for what came through a gate: as in the recorded run, when nothing else goes on, timers included."""
        if self.loop is None or effect.end is None:
            self.gave(effect)
            return
        future = self.loop.create_future()
        heapq.heappush(self.resting, (effect.end.sequence, id(future), future, effect))
        try:
            await future
        except BaseException:
            self.resting = [entry for entry in self.resting if entry[2] is not future]
            heapq.heapify(self.resting)
            if not self.stopping:
                self.left_gate(effect)
            raise

    def open_gate(self) -> bool:
        """Nothing goes on: the next gate that somebody waits at gets its answer. Whether there is one."""
        while self.resting:
            _, _, future, effect = heapq.heappop(self.resting)
            if not future.done():
                self.gave(effect)
                future.set_result(None)
                return True
        return False

    def left_gate(self, effect: Effect) -> None:
        """The code gave up on a gate through which an answer came."""
        raise NotImplementedError

    def thread_turn(self, branch: Branch, effect: Effect) -> None:
        """``turn`` for sync code, whose branches are threads: one of them goes on at a time, as recorded."""
        path = branch.place[1]
        if not self.concurrent or effect.end is None:
            self.gave(effect)
            return
        sequence = effect.end.sequence
        with self.moved:
            self.queue.append(sequence)
            try:
                while not (self.may_go(path) and self.ready(sequence)):
                    if self.stopping:
                        raise self.stop(branch)
                    moves = self.moves
                    self.moved.wait(PATIENCE)
                    if moves == self.moves and sequence == min(self.queue):
                        self.holder = None
                        self.give_up_before(sequence)
            finally:
                self.queue.remove(sequence)
            self.gave(effect)
            self.holder = path
            self.moves += 1
            self.moved.notify_all()

    def may_go(self, path: str | None) -> bool:
        """Whether no other thread got an answer and is still at work with it."""
        return self.holder is None or path == self.holder or str(path).startswith(f"{self.holder}/")

    def thread_moved(self, path: str | None) -> None:
        """A thread asked for something, or ended."""
        with self.moved:
            if self.holder == path:
                self.holder = None
            self.moves += 1
            self.moved.notify_all()

    def ready(self, sequence: int) -> bool:
        """Whether all that was recorded before this event came about: answers were given, and effects asked for."""
        cursor, answers = self.cursor, self.answers
        if cursor < len(answers):
            end = answers[cursor].end
            if end is not None and end.sequence < sequence:
                return False
        return self.unasked() > sequence

    def unasked(self) -> int:
        """Where in the log the first effect begins that the code has not asked for yet."""
        if self.begun is None:
            self.begun = list(self.history.all()) if self.history is not None else []
        while self.asked < len(self.begun) and self.begun[self.asked].taken:
            self.asked += 1
        return self.begun[self.asked].start.sequence if self.asked < len(self.begun) else sys.maxsize

    def gave(self, effect: Effect) -> None:
        """Note that an answer was given; whoever waits for the next one goes on."""
        self.count(effect)
        if self.waiting:
            self.wake()

    def count(self, effect: Effect) -> None:
        """This answer is given."""
        if effect.kind == "gate" and effect.end is not None and effect.end.sequence in self.gates:
            self.gates.remove(effect.end.sequence)
            self.barrier = self.gates[-1] if self.gates else sys.maxsize
        if effect.order == self.cursor:
            self.cursor += 1
            while self.given and self.cursor in self.given:
                self.given.discard(self.cursor)
                self.cursor += 1
        elif effect.order > self.cursor:
            self.given.add(effect.order)
        self.jumps = 0

    def wake(self) -> None:
        """Let go on whoever waits for what is next; all at once where the log has nothing in between."""
        waiting = self.waiting
        while waiting:
            sequence, _, future, effect = waiting[0]
            if not future.done():
                if not self.ready(sequence):
                    return
                future.set_result(None)
                if effect is not None:
                    self.count(effect)
            heapq.heappop(waiting)

    def skip(self, effects: Iterable[Effect]) -> None:
        """These were recorded inside a step that is answered as a whole."""
        for effect in effects:
            if not effect.taken:
                effect.taken = True
                if effect.order >= 0:
                    self.gave(effect)

    def missed(self, sequence: int, effect: Effect | None) -> list[Effect]:
        """What was recorded before an event and is not asked for, though it is in the way from or to its branch.

        Siblings may overtake one another; what a branch did before it made others, or after they were done, may not.
        """
        if effect is None or self.history is None:
            return []
        return [
            other
            for other in self.history.all()
            if other.start.sequence < sequence and not other.taken and _in_line(other.place, effect.place)
        ]

    def is_told(self) -> bool:
        """Whether a run that went on was replayed as far as it was recorded: what its timers would do is not known."""
        if self.history is None or self.history.terminal or self.unrecorded:
            return False
        return self.cursor >= len(self.answers) and self.unasked() == sys.maxsize

    def give_up_on_what_came_before(self) -> None:
        """The next answer comes though what was recorded before it did not come about: nobody asks for that now."""
        self.give_up_before(min(sequence for sequence, _, future, _ in self.waiting if not future.done()))
        self.wake()

    def give_up_before(self, sequence: int) -> None:
        """Wait no longer for what was recorded before an event."""
        while self.cursor < len(self.answers):
            end = self.answers[self.cursor].end
            if end is None or end.sequence >= sequence:
                break
            self.cursor += 1
        while self.unasked() < sequence:
            self.asked += 1

    def stop(self, branch: Branch) -> Stop:
        """What ends the code of a branch."""
        raise NotImplementedError
