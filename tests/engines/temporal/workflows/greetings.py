"""Small histories of the Python SDK: one greeting, and a greeting while two signals arrive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow

HELLO = "SayHelloWorkflow"
DOWN = "ActivityAndSignalsWhileWorkflowDown"
SOON = timedelta(seconds=60)


@dataclass
class Greeted:
    name: str
    should_wait: bool = False
    should_error: bool = False
    should_cause_nondeterminism: bool = False


async def say_hello(name: str) -> str:
    said: str = await workflow.execute_activity("say_hello", name, result_type=str, start_to_close_timeout=SOON)
    return said


@workflow.defn(name=HELLO)
class Hello:
    @workflow.run
    async def run(self, greeted: Greeted) -> str:
        return await say_hello(greeted.name)


@workflow.defn(name=HELLO)
class HelloRenamed:
    """The activity type renamed; this history has no SDK flags, without which the Replayer compares no types."""

    @workflow.run
    async def run(self, greeted: Greeted) -> str:
        said: str = await workflow.execute_activity("greet", greeted.name, result_type=str, start_to_close_timeout=SOON)
        return said


@workflow.defn(name=HELLO)
class HelloTwice:
    """A second greeting behind the first."""

    @workflow.run
    async def run(self, greeted: Greeted) -> str:
        await say_hello(greeted.name)
        return await say_hello(greeted.name)


@workflow.defn(name=HELLO)
class HelloLater:
    """A timer in front of the greeting."""

    @workflow.run
    async def run(self, greeted: Greeted) -> str:
        await workflow.sleep(10)
        return await say_hello(greeted.name)


@workflow.defn(name=HELLO)
class HelloLoud:
    """The same steps with another result."""

    @workflow.run
    async def run(self, greeted: Greeted) -> str:
        return (await say_hello(greeted.name)).upper()


@workflow.defn(name=HELLO)
class HelloRefused:
    """It raises at its end, where it completed."""

    @workflow.run
    async def run(self, greeted: Greeted) -> str:
        await say_hello(greeted.name)
        raise ValueError("no greetings today")


@workflow.defn(name=HELLO)
class HelloPatient:
    """Another timeout, a retry policy of its own."""

    @workflow.run
    async def run(self, greeted: Greeted) -> str:
        said: str = await workflow.execute_activity(
            "say_hello", greeted.name, result_type=str, schedule_to_close_timeout=timedelta(days=1)
        )
        return said


@dataclass
class Numbered:
    """What is greeted, were its name a number."""

    name: int


@workflow.defn(name=HELLO)
class HelloRetyped:
    """The name is a number now."""

    @workflow.run
    async def run(self, greeted: Numbered) -> str:
        return await say_hello(str(greeted.name))


class Down:
    """What the versions of the second workflow share: the trace, and a signal that is noted in it."""

    def __init__(self) -> None:
        self.trace: list[str] = []
        self.signals = 0

    def note(self, signal: str) -> None:
        self.signals += 1
        self.trace.append(f"sig-{signal}")

    async def greet_and_wait(self, signals: int) -> list[str]:
        self.trace.append("act-start")
        greeting = workflow.start_activity("say_hello", "Enchi", start_to_close_timeout=SOON)
        await workflow.wait_condition(lambda: self.signals >= signals)
        self.trace.append(f"counter-{self.signals}")
        await greeting
        self.trace.append("act-done")
        return self.trace


@workflow.defn(name=DOWN)
class Signalled(Down):
    @workflow.run
    async def run(self, task_queue: str) -> list[str]:
        return await self.greet_and_wait(2)

    @workflow.signal
    def dosig(self, name: str) -> None:
        self.note(name)


@workflow.defn(name=DOWN)
class SignalRenamed(Down):
    """The signal has another name: what was sent is buffered for ever."""

    @workflow.run
    async def run(self, task_queue: str) -> list[str]:
        return await self.greet_and_wait(2)

    @workflow.signal
    def do_signal(self, name: str) -> None:
        self.note(name)


@workflow.defn(name=DOWN)
class SignalRetyped(Down):
    """The signal takes an object: the text that was sent is dropped."""

    @workflow.run
    async def run(self, task_queue: str) -> list[str]:
        return await self.greet_and_wait(2)

    @workflow.signal
    def dosig(self, who: Greeted) -> None:
        self.note(who.name)


@workflow.defn(name=DOWN)
class ThreeSignals(Down):
    """It waits for one signal more."""

    @workflow.run
    async def run(self, task_queue: str) -> list[str]:
        return await self.greet_and_wait(3)

    @workflow.signal
    def dosig(self, name: str) -> None:
        self.note(name)


@workflow.defn(name=DOWN)
class SignalAsync(Down):
    """The handler is a coroutine and has a query beside it: nothing that a run would notice."""

    @workflow.run
    async def run(self, task_queue: str) -> list[str]:
        return await self.greet_and_wait(2)

    @workflow.signal
    async def dosig(self, name: str) -> None:
        self.note(name)

    @workflow.query
    def seen(self) -> int:
        return self.signals
