"""One run of a flow: recorded live, answered from history, or both; what the code asks is matched here.

In replay nothing is live: an effect is answered from the log when it is the next one recorded for its branch and asks
the same. Anything else is a divergence, which ends the run whatever the code catches.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from pytest_loom.errors import LoomError
from pytest_loom.evals.paths import Rules, is_ignored
from pytest_loom.evals.values import agree
from pytest_loom.flow import diverge
from pytest_loom.flow.branches import Branch
from pytest_loom.flow.claims import claim
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.history import Effect, EffectKind, History, Place
from pytest_loom.flow.recorder import Recorder
from pytest_loom.flow.swallowed import MAX_SWALLOWED, end_soon
from pytest_loom.flow.turns import Stop, Turns

Mode = Literal["record", "resume", "replay"]
FIELD = {"step": "input", "tool": "args", "model": "request"}
"""How the paths of a divergence and of ignore rules call what an effect was asked."""

MAX_CLOCK_JUMPS = 1_000
"""How often in a row the clock is put forward without any effect before a replay counts as stuck."""


class Run(Turns):
    """The state of one run while its code executes."""

    def __init__(
        self,
        flow: Flow[..., Any],
        recorder: Recorder,
        *,
        mode: Mode,
        history: History | None = None,
        rules: Rules | None = None,
        lenient: bool = False,
    ) -> None:
        self.flow = flow
        self.recorder = recorder
        self.mode: Mode = mode
        self.replaying = mode == "replay"
        super().__init__(history)
        self.rules = rules if rules is not None else Rules()
        self.lenient = lenient
        self.error: LoomError | None = None
        self.concluded: asyncio.Future[None] | None = None
        self.host: Any = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.threads = 0
        self.started: list[threading.Thread] = []
        self.shuffled = False  # whether a replay may put events in another order than recorded ones by mere chance
        self.rehearsing = False  # whether it is tried, before a run goes on, what its code will do
        self.cut_short = False  # whether it ends where code could not wait, so that other branches were left behind
        self.live = 0
        self.parked: list[tuple[Branch, dict[str, Any], Effect | None]] = []
        self.at_frontier = 0
        self.cancels_expected = 0
        self.streams: list[Any] = []
        self.root: asyncio.Task[Any] | None = None
        self.was_cancelled = False
        self.raised: BaseException | None = None  # by its code, where that was its end
        self.tracing: tuple[int, Any] | None = None

    # What the code asks -----------------------------------------------------------------------------------------

    def recorded(self, place: Place) -> list[Effect]:
        """What was recorded for a branch."""
        return self.history.places.get(place, []) if self.history is not None else []

    def take(
        self, branch: Branch, kind: EffectKind, name: str, asked: bytes, again: Callable[[], bytes] | None = None
    ) -> Effect | None:
        """The recorded effect that answers what the code asks now; None where the code goes on by itself.

        ``again`` gives what is asked in its canonical form, where ``asked`` is a quick one. Raises Stop where today's
        code asks something else than the recorded run did.
        """
        if self.stopping or branch.parked:
            raise self.stop(branch)
        if branch.number and not branch.position:
            claim(self, branch, kind, name, asked, again)
        effects, position = branch.effects, branch.position
        if position == len(effects):
            return self.beyond(branch, kind, name, asked, again)
        effect = effects[position]
        if (
            effect.name == name
            and effect.kind == kind
            and ((effect.input == asked and b"null" not in asked) or self.same(effect, asked, again))
        ):
            if effect.start.sequence > self.barrier and kind != "gate" and self.replaying and not self.lenient:
                self.fail(diverge.too_early(self, branch, effect))
                raise Stop
            if effect.order > self.cursor and not self.concurrent and self.is_strict():
                missed = self.missed(effect.start.sequence, effect)
                if missed:  # with one branch nothing else brings it about
                    self.fail(diverge.out_of_turn(self, (effect.start.sequence, effect), missed))
                    raise Stop
            branch.position = position + 1
            effect.taken = True
            if self.waiting:
                self.wake()
            elif self.concurrent and self.loop is None:
                self.thread_moved(branch.place[1])
            return effect
        return self.elsewhere(branch, kind, name, again() if again is not None else asked)

    def same(self, effect: Effect, asked: bytes, again: Callable[[], bytes] | None) -> bool:
        """Whether the code asks what was recorded, after normalisation: scrubbed, and less what is ignored.

        What was asked before the run got another input is not compared: it is the step that was done, and stands.
        """
        if effect.kind in FIELD and self.before_migration(effect):
            return True
        asked = self.recorder.scrubbed(again() if again is not None else asked, FIELD.get(effect.kind, ""))
        if effect.input == asked or effect.kind not in FIELD:
            return effect.input == asked
        node = self.rules.start
        if node is not None:
            node = self.rules.named(effect.name, self.key_of(effect), node)
            if not is_ignored(node):
                node = self.rules.field(node, FIELD[effect.kind])
            if is_ignored(node):
                return True
        if not effect.input or not asked:
            return False
        return agree(msgspec.json.decode(effect.input), msgspec.json.decode(asked), self.rules, node)

    def before_migration(self, effect: Effect) -> bool:
        """Whether an effect began when the run still had another input."""
        return self.history is not None and effect.start.sequence < self.history.migrated_at

    def elsewhere(self, branch: Branch, kind: EffectKind, name: str, asked: bytes) -> Effect | None:
        """The one recorded effect further on that is just what is asked, where a replay is to go on; else the end."""
        if self.lenient:
            for index in range(branch.position + 1, len(branch.effects)):
                effect = branch.effects[index]
                if effect.kind == kind and effect.name == name and self.same(effect, asked, None):
                    branch.effects = branch.effects[:index] + branch.effects[index + 1 :]
                    effect.taken = True
                    return effect
        error = diverge.mismatch(self, branch, kind, name, asked)
        if kind == "gate" and self.loop is not None:
            self.unrecorded[id(branch)] = error
            return None
        self.fail(error)
        raise Stop

    def beyond(
        self, branch: Branch, kind: EffectKind, name: str, asked: bytes, again: Callable[[], bytes] | None
    ) -> Effect | None:
        """What happens where nothing more was recorded for this branch."""
        if self.concurrent and self.loop is None:
            self.thread_moved(branch.place[1])
        if not self.replaying:
            return None
        assert self.history is not None
        if self.history.open_ended or (kind == "gate" and self.lenient):
            return None
        error = diverge.added(self, branch, kind, name, again() if again is not None else asked)
        if kind == "gate" and self.loop is not None:
            self.unrecorded[id(branch)] = error
            return None
        self.fail(error)
        raise Stop

    def key_of(self, effect: Effect) -> str:
        """The key of a recorded effect."""
        assert self.history is not None
        return self.history.key(effect)

    # Waiting ----------------------------------------------------------------------------------------------------

    async def park(self, branch: Branch, wait: dict[str, Any] | None, effect: Effect | None) -> None:
        """Wait for what this run does not bring: a gate's event, or (``wait`` None) what was never recorded."""
        self.note_wait(branch, wait, effect)
        assert self.loop is not None
        try:
            await self.loop.create_future()
        except asyncio.CancelledError:
            if not self.stopping:  # the code itself gives up on it (a timer, a failed sibling), and goes on
                self.gave_up(branch, wait)
            raise

    def gave_up(self, branch: Branch, wait: dict[str, Any] | None) -> None:
        """The code does not wait there any more."""
        branch.park(False)
        self.unrecorded.pop(id(branch), None)
        left = next((effect for other, _, effect in self.parked if other is branch), None)
        if self.rehearsing and left is not None and branch.position >= len(branch.effects):
            self.fail(diverge.wait_left(self, left))  # the recorded run did not give it up: it waits there
            return
        if wait is None:
            self.at_frontier -= 1
            return
        for _, _, effect in [entry for entry in self.parked if entry[0] is branch]:
            if effect is not None and self.replaying:  # the recorded run rested there too, before it gave up
                self.recorder.events.append(effect.start)
        self.parked = [entry for entry in self.parked if entry[0] is not branch]

    def note_wait(self, branch: Branch, wait: dict[str, Any] | None, effect: Effect | None) -> None:
        """Note that a branch goes no further."""
        branch.park()
        if wait is not None:
            self.parked.append((branch, wait, effect))
        else:
            self.at_frontier += 1

    def idle(self, timeout: float | None) -> bool:
        """Asked by the loop before it sleeps (``timeout``: seconds to the next timer): whether there is news."""
        if self.live or self.threads > 0 or self.concluded is None or self.stopping or self.loop is None:
            return False
        if timeout is not None and not (self.replaying or self.history_left()):
            return False  # a live run waits as long as it takes
        given = self.cursor + len(self.given) + self.cancels_expected
        if self.cancels_expected and given >= len(self.answers) and self.ends_cancelled():
            return self.conclude()
        if self.replaying and (self.parked or self.at_frontier) and self.is_told():
            gates = self.rehearsing and any(effect is not None for _, _, effect in self.parked)
            if not gates or timeout is None or self.jumps >= MAX_CLOCK_JUMPS:
                return self.conclude()
        if timeout is not None and self.jumps < MAX_CLOCK_JUMPS:
            self.jumps += 1
            self.loop.skipped += timeout
            return True
        waits = [(sequence, effect) for sequence, _, future, effect in self.waiting if not future.done()]
        if self.resting and (not waits or min(waits)[0] > self.resting[0][0]):
            return self.open_gate()
        if waits:
            first = min(waits, key=lambda wait: wait[0])
            missed = self.missed(*first) if self.is_strict() else []
            if missed:
                self.fail(diverge.out_of_turn(self, first, missed))
                return True
            self.give_up_on_what_came_before()
            return True
        if self.parked or self.at_frontier:
            return self.conclude()
        return self.conclude_stuck() if self.replaying else False

    def is_strict(self) -> bool:
        """Whether every recorded effect is to come in its order: a whole recording, replayed to the end."""
        whole = self.history is not None and not self.history.open_ended
        return self.replaying and not self.lenient and whole

    def left_gate(self, effect: Effect) -> None:
        """The code gave up on a gate through which an answer came: it would go on without it."""
        if self.replaying and not self.lenient:
            self.fail(diverge.gate_left(self, effect))

    def history_left(self) -> bool:
        """Whether a resumed run still goes over what was recorded."""
        return self.mode == "resume" and self.cursor < len(self.answers)

    def conclude(self) -> bool:
        """Nothing goes on any more: let the run end here."""
        if self.concluded is not None and not self.concluded.done():
            self.concluded.set_result(None)
            return True
        return False

    def conclude_stuck(self) -> bool:
        """Nothing can go on, and nobody said so: the code waits for what replay never brings."""
        if self.concluded is None or self.concluded.done():
            return False
        if self.cancels_expected and self.ends_cancelled():
            return self.conclude()
        self.fail(diverge.stuck(self))
        return True

    def cancels_next(self) -> bool:
        """Whether the code, having come to the end of what was recorded, is to be cancelled as the recorded run was."""
        if not self.ends_cancelled():
            return False
        self.was_cancelled = True
        return True

    def ends_cancelled(self) -> bool:
        """Whether the recorded run was cancelled, and this one not yet."""
        if self.history is None or not self.replaying or self.was_cancelled:
            return False
        return self.history.log.events[-1].event_type == "EXECUTION_CANCELLED"

    def cancel(self) -> None:
        """Cancel the flow's code, from another thread."""
        loop, root = self.loop, self.root
        if loop is not None and root is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(root.cancel)

    def thread_ended(self, path: str | None) -> None:
        """A thread of the run is over."""
        with self.lock:
            self.threads -= 1
            self.thread_moved(path)
        loop = self.loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(lambda: None)
            except RuntimeError:  # closed in between
                return

    # The end ----------------------------------------------------------------------------------------------------

    def fail(self, error: LoomError) -> None:
        """The run ends with this error, whatever its code catches."""
        with self.lock:
            if self.error is None:
                self.error = error
            self.stopping = True
            self.moved.notify_all()
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.conclude)

    def stop(self, branch: Branch) -> Stop:
        """What to raise in code that asks for more after the end. Where it swallows that for ever, more is done."""
        branch.stops += 1
        if branch.stops > MAX_SWALLOWED:
            if self.tracing is None:
                self.tracing = (threading.get_ident(), sys.gettrace())
            end_soon(branch.stops - MAX_SWALLOWED - 1, Stop)
        return Stop()

    def untrace(self) -> None:
        """Put back the trace function that a debugger or a coverage tool had set."""
        if self.tracing is not None and self.tracing[0] == threading.get_ident():
            sys.settrace(self.tracing[1])
            self.tracing = None

    @staticmethod
    def is_stop(problem: BaseException) -> bool:
        """Whether an exception only says that the run is over."""
        return isinstance(problem, Stop)

    def unasked_below(self, branch: Branch) -> Effect | None:
        """The first recorded effect of a branch that this one made, and that nobody has asked for yet."""
        if self.history is None or self.lenient:
            return None
        namespace, path = branch.place
        for effect in self.history.all():
            if not effect.taken and effect.place[0] == namespace and effect.place != branch.place:
                inner = effect.place[1] or ""
                if not path or inner.startswith(f"{path}/"):
                    return effect
        return None

    def left_over(self) -> list[Effect]:
        """Recorded effects that today's code did not ask for."""
        return [effect for effect in self.history.all() if not effect.taken] if self.history is not None else []
