"""Run today's agent on a recorded history: the model answers as it was recorded, and no tool's body runs.

To be called under the guard. Everything else of the agent is today's: its tools and their validation, approval rules,
``prepare`` functions, output types and validators. Where a run waited, it is gone on from with what was decided then.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

from pytest_loom.errors import LogError, LoomError, ReplayDivergence, Unsupported, printable
from pytest_loom.log.event import Log
from pytest_loom.sources.pydantic_ai.documents import Record
from pytest_loom.sources.pydantic_ai.messages import history_log
from pytest_loom.sources.pydantic_ai.recorded import Call, Turn, turns_of


def replayed_run(log: Log, agent: Any) -> Log:
    """The log of today's agent on the recorded prompts, answers and decisions.

    Raises ReplayDivergence, naming the call, where a tool is gone or refuses its arguments, where it runs or waits
    unlike then, and where the model is asked more or less often; Unsupported where a history does not hold what is
    needed, and where the installed Pydantic AI cannot be answered in place of a model.
    """
    _check_version(log)
    replay = _Replay(log, agent)
    try:
        asyncio.run(replay.run())
    except LoomError:
        raise
    except Exception as problem:
        if replay.asked:
            raise replay.asked[0] from problem
        replay.stopped(problem)
    if replay.asked:
        raise replay.asked[0]
    found = history_log(Record("history", replay.messages, log.execution_id, requests=replay.requests))
    if isinstance(found, LogError):
        raise found
    return found


class _Enough(Exception):
    """Ends the replay of a run that was kept on its way to the model."""


class _Replay:
    def __init__(self, log: Log, agent: Any) -> None:
        self.log = log
        self.agent = agent
        self.turns = turns_of(log)
        self.adapter = importlib.import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
        self.responses = [self.revived({"kind": "response", **turn.response}) for turn in self.turns]
        self.said = 0
        self.asked: list[LoomError] = []
        self.approving = False
        self.messages: list[Any] = []
        self.requests: dict[str, Any] | None = None

    # The runs ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """From the first prompt to where the record ends."""
        prompt = self.content(self.turns[0].prompts)
        history: Any = None
        results: Any = None
        while True:
            before = self.said
            try:
                result = await self.once(prompt, history, results)
            except _Enough:
                return
            if self.asked:
                return
            if self.said == before:  # or it would go round for ever
                raise self.stuck(result.output)
            history = result.all_messages()
            turn = self.turns[self.said - 1]
            self.settle(turn, history)
            self.keep(history, result.output)
            deferred = type(result.output).__name__ == "DeferredToolRequests"
            results = self.decisions(turn, result.output) if deferred else None
            if results is None and self.said == len(self.turns):
                return
            following = self.turns[self.said].prompts if self.said < len(self.turns) else []
            if results is None and not following:
                raise self.left_over()
            prompt = self.content(following)

    async def once(self, prompt: Any, history: Any, results: Any) -> Any:
        """One run of the agent: to its end, or to where calls wait."""
        self.approving = results is not None
        model = self.model()
        with self.agent.override(model=model):  # 1.x wants one of the run as well where the agent has none
            return await self.agent.run(
                prompt,
                model=model,
                message_history=history,
                deferred_tool_results=results,
                capabilities=[self.capability()],
            )

    def decisions(self, turn: Turn, waiting: Any) -> Any:
        """What was decided then about the calls that wait now; None where the record ends with the wait."""
        tools = importlib.import_module("pydantic_ai.tools")
        approvals: dict[str, Any] = {}
        calls: dict[str, Any] = {}
        for part in (*waiting.approvals, *waiting.calls):
            call = turn.call(part.tool_call_id)
            if call is None or (not call.waited and self.names_runs()):
                raise self.diverged(f"today's agent lets {printable(part.tool_name)} wait; the recorded run did not")
            if call.outcome == "open":
                continue
            if call.outcome in ("failed", "retried") and part in waiting.calls:
                raise Unsupported("a failure that came from outside of a run cannot be replayed", path=self.log.path)
            if part in waiting.calls:
                calls[part.tool_call_id] = call.content
            else:
                denied = call.outcome == "denied"
                approvals[part.tool_call_id] = tools.ToolDenied(str(call.content)) if denied else True
        if not approvals and not calls:
            return None
        return tools.DeferredToolResults(approvals=approvals, calls=calls)

    def keep(self, messages: Any, output: Any = None) -> None:
        """What the candidate's log is made of, in the form in which the record was kept."""
        self.messages = json.loads(self.adapter.dump_json(messages))
        if not self.names_runs():
            for message in self.messages:
                message.pop("run_id", None)
        self.requests = None
        if type(output).__name__ == "DeferredToolRequests" and any(call.kind for call in self.turns[-1].calls):
            dump = importlib.import_module("pydantic_core").to_jsonable_python
            self.requests = dump({"approvals": output.approvals, "calls": output.calls})

    def names_runs(self) -> bool:
        """Whether the messages say which run they are of, so that a wait between two of them can be seen."""
        return bool(self.log.events[0].payload.get("manifest", {}).get("runIds"))

    # The answers -------------------------------------------------------------------------------------------------

    def model(self) -> Any:
        """The model that says what was recorded."""
        base: Any = importlib.import_module("pydantic_ai.models.function").FunctionModel
        replay = self

        class Recorded(base):  # type: ignore[misc]
            """Says what was recorded."""

            async def request(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
                """The next answer."""
                return replay.answer(messages)

            def request_stream(self, *args: Any, **kwargs: Any) -> Any:
                """Not to be had: a history is run on without a stream."""
                raise replay.noted(
                    Unsupported("an agent that streams its events cannot be replayed", path=replay.log.path)
                )

        return Recorded(lambda messages, info: None)

    def answer(self, messages: Any) -> Any:
        """The next recorded answer to ``messages``, if today's agent has done by now what was done then."""
        if self.asked:
            raise self.asked[0]
        if self.said:
            self.settle(self.turns[self.said - 1], messages)
        if self.said < len(self.responses):
            self.said += 1
            return self.responses[self.said - 1]
        if self.log.state.status == "running":
            self.keep(messages)
            raise _Enough
        count = len(self.turns)
        raise self.noted(
            self.diverged(f"today's agent asks its model once more than the {count} times that were recorded")
        )

    def capability(self) -> Any:
        """What puts the recorded returns in place of the tools' bodies, under all that decides about a call."""
        base: Any = importlib.import_module("pydantic_ai.capabilities").AbstractCapability
        wrapper: Any = importlib.import_module("pydantic_ai.toolsets").WrapperToolset
        replay = self

        class Answered(wrapper):  # type: ignore[misc]
            """A toolset whose tools give what was recorded."""

            async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
                """What came back then."""
                return replay.returned(name, ctx.tool_call_id)

        class Answering(base):  # type: ignore[misc]
            """Has every toolset of a run answer from the record."""

            def get_wrapper_toolset(self, toolset: Any) -> Any:
                """The toolset, its leaves wrapped."""
                return toolset.visit_and_replace(Answered)

        return Answering()

    def returned(self, name: str, given: str) -> Any:
        """What the tool gave back then, or raised for the model to see."""
        turn = self.turns[self.said - 1]
        call = turn.call(given)
        shown = printable(call.name if call else name)
        if call is None or call.outcome == "open" or (call.waited and not self.approving):
            then = "waited with it" if call is not None and call.waited else "did not"
            raise self.noted(self.diverged(f"today's agent runs {shown}; the recorded run {then}", call))
        exceptions = importlib.import_module("pydantic_ai.exceptions")
        if call.outcome == "retried" and not call.refused:
            raise exceptions.ModelRetry(call.content)
        if call.outcome == "failed" and hasattr(exceptions, "ToolFailed"):
            raise exceptions.ToolFailed(call.content)
        if call.outcome != "success":
            then = f"the recorded run did not: {printable(_reason(call.content), 300)}"
            raise self.noted(self.diverged(f"today's agent runs {shown}; {then}", call))
        if not self.approving and (more := self.beside(turn, call)):
            return importlib.import_module("pydantic_ai.messages").ToolReturn(call.content, content=self.content(more))
        return call.content

    def beside(self, turn: Turn, call: Call) -> list[Any]:
        """What a tool said to the model beside its return: it stands in the next request as a prompt."""
        prompts = turn.prompts_after if self.said == len(self.turns) else self.turns[self.said].prompts
        if any(other.final or other.waited for other in turn.calls):
            return []  # the run ended: the next prompt was a user's
        number = [other for other in turn.calls if other.outcome == "success"].index(call)
        return prompts[number : number + 1]

    # The comparison ----------------------------------------------------------------------------------------------

    def settle(self, turn: Turn, messages: Any) -> None:
        """Hold what has become of the calls of the last answer against what became of them then."""
        now: dict[str, Any] = {}
        for message in reversed(messages):
            if message.kind == "response":
                break
            for part in message.parts:
                if part.part_kind in ("tool-return", "retry-prompt"):
                    now[part.tool_call_id] = part
        for call in turn.calls:
            part = now.get(call.given_id)
            if part is None:
                continue  # it waits, or is yet to be answered
            refused = part.part_kind == "retry-prompt" or getattr(part, "outcome", "success") in ("retried", "failed")
            if refused and call.outcome not in ("retried", "failed"):
                said = "waits" if call.outcome == "open" else "was carried out"
                what = (
                    f"{printable(call.name)} {said}; today's agent refuses it: {printable(_reason(part.content), 300)}"
                )
                raise self.noted(self.diverged(what, call))

    def stuck(self, output: Any) -> ReplayDivergence:
        """Today's agent comes back without having asked its model."""
        waiting = [*getattr(output, "approvals", ()), *getattr(output, "calls", ())]
        names = printable(", ".join(part.tool_name for part in waiting), 200)
        what = f"lets {names} wait again" if waiting else "ends"
        return self.diverged(f"today's agent {what} where the recorded run went on to its model")

    def left_over(self) -> ReplayDivergence:
        """Today's agent ends before the record does."""
        count, left = len(self.turns), len(self.turns) - self.said
        names = [call.name for turn in self.turns[self.said :] for call in turn.calls]
        wanted = f", which called {printable(', '.join(names), 200)}" if names else ""
        return self.diverged(
            f"today's agent ends after {self.said} of {count} recorded answers of its model: {left} left{wanted}"
        )

    def stopped(self, problem: Exception) -> None:
        """Say why today's agent raised. Raises ReplayDivergence."""
        turn = self.turns[self.said - 1] if self.said else None
        calls = ", ".join(call.name for call in turn.calls) if turn else ""
        after = f" after the model called {printable(calls, 200)}" if calls else ""
        what = f"today's agent stops{after}: {type(problem).__name__}: {printable(str(problem), 500)}"
        raise self.diverged(what, turn.calls[0] if turn and turn.calls else None) from problem

    def noted(self, error: LoomError) -> LoomError:
        """``error``, kept: code of the agent may swallow it."""
        self.asked.append(error)
        return error

    def diverged(self, what: str, call: Call | None = None) -> ReplayDivergence:
        return ReplayDivergence(
            what,
            path=self.log.path,
            line=call.line if call else 0,
            execution_id=self.log.execution_id,
            step=call.name if call else "",
            hint="Record the run anew where the change is meant; finish waiting runs on the old code.",
        )

    # Values ------------------------------------------------------------------------------------------------------

    def revived(self, message: dict[str, Any]) -> Any:
        """A message as the framework has it. Raises Unsupported where the installed one does not know it."""
        try:
            return self.adapter.validate_python([message])[0]
        except ValueError as problem:
            raise Unsupported(
                f"the installed Pydantic AI cannot read a recorded message: {printable(str(problem), 300)}",
                path=self.log.path,
                execution_id=self.log.execution_id,
            ) from problem

    def content(self, prompts: list[Any]) -> Any:
        """What a user said, for ``agent.run``; None for nothing."""
        if not prompts:
            return None
        if len(prompts) > 1:
            raise Unsupported("several prompts in one request cannot be replayed", path=self.log.path)
        part = {"part_kind": "user-prompt", "content": prompts[0]}
        return self.revived({"kind": "request", "parts": [part]}).parts[0].content


def _check_version(log: Log) -> None:
    """Raises Unsupported where the installed Pydantic AI has nothing to put in place of the tools' bodies."""
    try:
        found: Any = importlib.import_module("pydantic_ai.capabilities")
    except ImportError:
        found = None
    if not hasattr(getattr(found, "AbstractCapability", None), "get_wrapper_toolset"):
        raise Unsupported(
            "the installed Pydantic AI is too old to replay a history: it has no capabilities that wrap toolsets",
            path=log.path,
            execution_id=log.execution_id,
            hint="Use a later 1.x, or 2.x.",
        )


def _reason(content: Any) -> str:
    """Why a call was sent back, as the model was told: a text, or what did not validate."""
    if not isinstance(content, list):
        return str(content)
    found = [
        f"{'.'.join(map(str, item.get('loc', ())))}: {item.get('msg', '')}"
        for item in content
        if isinstance(item, dict)
    ]
    return "; ".join(found)
