"""A saved history replayed on today's agent: recorded answers and returns, no model, no tool, nothing live."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pytest_loom import areplay, diff_runs, load_log, load_logs, replay
from pytest_loom.errors import LiveCallError, ReplayDivergence, Unsupported
from pytest_loom.log.event import Log
from tests.sources.test_pydantic_ai import answer, call, prompt, request, response, text

pydantic_ai: Any = pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")
pytest.importorskip("pydantic_ai.capabilities", reason="needs a Pydantic AI with capabilities")
function: Any = pytest.importorskip("pydantic_ai.models.function")
core: Any = pytest.importorskip("pydantic_core")

EFFECTS: list[str] = []
DEFERRED = pydantic_ai.DeferredToolRequests


class Bill(BaseModel):
    """What an agent gives back."""

    cents: int


def look(order: str) -> dict[str, Any]:
    """Look."""
    EFFECTS.append("look")
    return {"order": order, "broken": True}


def pay(order: str, cents: int) -> str:
    """Pay."""
    EFFECTS.append("pay")
    return f"{cents} paid"


def fussy(word: str) -> str:
    """Want another word first."""
    EFFECTS.append("fussy")
    if word == "no":
        raise pydantic_ai.ModelRetry("say yes")
    return word


def shown(order: str) -> Any:
    """Show a picture beside the return."""
    EFFECTS.append("shown")
    return pydantic_ai.ToolReturn("see below", content=["a picture of ", order])


def agent(*tools: Any, output: Any = (str, DEFERRED), **more: Any) -> Any:
    """An agent without a model."""
    return pydantic_ai.Agent(None, tools=tools or [look, asking()], output_type=list(output), **more)


def asking(body: Callable[..., Any] = pay, name: str = "pay") -> Any:
    """A tool that asks first."""
    return pydantic_ai.Tool(body, name=name, requires_approval=True)


def scripted(*answers: Any) -> Any:
    """A model that says these, one after the other: lists of parts, or a text."""
    left = list(answers)
    parts = pydantic_ai.messages

    def say(messages: Any, info: Any) -> Any:
        said = left.pop(0)
        return parts.ModelResponse([parts.TextPart(said)] if isinstance(said, str) else said)

    return function.FunctionModel(say)


def ran(one: Any, *args: Any, **more: Any) -> Any:
    """The result of a run."""
    return asyncio.run(one.run(*args, **more))


def called(name: str, call_id: str, **args: Any) -> Any:
    """A call that the model makes."""
    return pydantic_ai.messages.ToolCallPart(name, args, call_id)


def saved(result: Any, folder: Path, *, requests: bool = True) -> Log:
    """The log of a run as applications keep it."""
    kept: Any = json.loads(result.all_messages_json())
    if requests and isinstance(result.output, DEFERRED):
        kept = {"messages": kept, "requests": core.to_jsonable_python(result.output)}
    return kept_as(kept, folder)


def kept_as(document: Any, folder: Path) -> Log:
    """The log of a document in a file."""
    path = folder / "ticket-17.json"
    path.write_text(json.dumps(document))
    EFFECTS.clear()
    return load_log(path)


LOOK = [called("look", "c1", order="A-17")]
PAY = [called("pay", "c2", order="A-17", cents=4999)]


@pytest.fixture
def waiting(tmp_path: Path) -> Log:
    """A run that has looked and waits to pay."""
    return saved(ran(agent(), "order A-17", model=scripted(LOOK, PAY)), tmp_path)


def decided(approval: Any, folder: Path) -> Log:
    """A run that waited, and went on with a decision."""
    one, model = agent(), scripted(LOOK, PAY, "done")
    first = ran(one, "order A-17", model=model)
    results = pydantic_ai.DeferredToolResults(approvals={"c2": approval})
    return saved(ran(one, message_history=first.all_messages(), deferred_tool_results=results, model=model), folder)


def same(log: Log, today: Any) -> Log:
    """Today's agent does what was recorded, and no tool runs."""
    candidate = replay(log, today)
    assert diff_runs(log, candidate, compare="all") == []
    assert [event.event_type for event in candidate.events] == [event.event_type for event in log.events]
    assert candidate.state.status == log.state.status
    assert EFFECTS == []
    return candidate


@pytest.mark.parametrize("requests", [True, False])
def test_a_run_that_waits(requests: bool, tmp_path: Path) -> None:
    """The same agent waits for the same, whether or not the requests were kept."""
    result = ran(agent(), "order A-17", model=scripted(LOOK, PAY))
    assert same(saved(result, tmp_path, requests=requests), agent()).state.status == "suspended"


@pytest.mark.parametrize("approval", [True, False])
def test_a_run_that_was_decided(approval: bool, tmp_path: Path) -> None:
    """It is gone on from with what was decided then, a yes or a no, up to its end."""
    assert same(decided(approval, tmp_path), agent()).state.status == "completed"


def test_a_decision_that_is_no_longer_asked_for(tmp_path: Path) -> None:
    """A call that was approved then and would run unasked today is a divergence."""
    with pytest.raises(ReplayDivergence, match="runs pay; the recorded run waited"):
        replay(decided(True, tmp_path), agent(look, pay))
    assert EFFECTS == []


def test_a_decision_that_is_never_enough(tmp_path: Path) -> None:
    """A toolset that asks again after each approval does not go round for ever."""

    class Never(pydantic_ai.toolsets.WrapperToolset):  # type: ignore[misc,unused-ignore]
        """Asks whatever was decided."""

        async def call_tool(self, name: str, *args: Any) -> Any:
            """Ask."""
            raise pydantic_ai.ApprovalRequired

    today = agent(look, toolsets=[Never(pydantic_ai.toolsets.FunctionToolset([pay]))])
    with pytest.raises(ReplayDivergence, match="lets pay wait again"):
        replay(decided(True, tmp_path), today)


def test_a_prompt_beside_a_decision(tmp_path: Path) -> None:
    """What a user adds to a decision is said once, in the run that goes on."""
    one, model = agent(), scripted(LOOK + PAY, "done")
    first = ran(one, "order A-17", model=model)
    results = pydantic_ai.DeferredToolResults(approvals={"c2": True})
    history = first.all_messages()
    second = ran(one, "be quick", message_history=history, deferred_tool_results=results, model=model)
    same(saved(second, tmp_path), agent())


def test_messages_that_do_not_name_their_run(tmp_path: Path) -> None:
    """Where no wait can be seen in a decided history, its calls are approved as they were."""
    log = decided(True, tmp_path)
    kept = json.loads(Path(log.path).read_text())
    for message in kept:
        message.pop("run_id", None)
    same(kept_as(kept, tmp_path), agent())


def test_a_stream_is_refused(waiting: Log) -> None:
    """An agent that hands its events out as they come asks its model in another way."""

    async def handler(ctx: Any, events: Any) -> None:
        async for _ in events:
            pass

    today = agent(capabilities=[pydantic_ai.capabilities.ProcessEventStream(handler)])
    with pytest.raises(Unsupported, match="stream"):
        replay(waiting, today)


def test_a_result_from_outside(tmp_path: Path) -> None:
    """A call whose result came from outside gets that one."""
    schema = {"type": "object", "properties": {"order": {"type": "string"}}}
    definition = pydantic_ai.tools.ToolDefinition(name="ask", parameters_json_schema=schema)

    def one() -> Any:
        return agent(look, toolsets=[pydantic_ai.toolsets.ExternalToolset([definition])])

    model = scripted([called("ask", "c1", order="A-17")], "done")
    first = ran(one(), "order A-17", model=model)
    results = pydantic_ai.DeferredToolResults(calls={"c1": {"says": "yes"}})
    second = ran(one(), message_history=first.all_messages(), deferred_tool_results=results, model=model)
    same(saved(second, tmp_path), one())
    same(saved(first, tmp_path), one())


def test_tools_that_send_the_model_back(tmp_path: Path) -> None:
    """Arguments that did not validate, a tool that was not there and a tool's own ModelRetry come again."""
    model = scripted(
        [called("fussy", "c1", wrong=1)], [called("nope", "c2")], [called("fussy", "c3", word="yes")], "done"
    )
    same(saved(ran(agent(fussy, retries=3), "go", model=model), tmp_path), agent(fussy, retries=3))
    model = scripted([called("fussy", "c1", word="no")], [called("fussy", "c1", word="yes")], "done")
    same(saved(ran(agent(fussy), "go", model=model), tmp_path), agent(fussy))


def test_what_is_said_beside_a_return(tmp_path: Path) -> None:
    """A ToolReturn's content comes again as the prompt that it was, of the call that it was of."""
    model = scripted([called("look", "c0", order="B"), called("shown", "c1", order="A")], "done")
    same(saved(ran(agent(look, shown), "go", model=model), tmp_path), agent(look, shown))


def test_an_output_tool_and_the_next_run(tmp_path: Path) -> None:
    """A run that ends in an output tool, and the run after it in the same history."""
    one = agent(look, output=(Bill,))
    model = scripted(
        LOOK,
        [called("final_result", "c2", cents="x")],
        [called("final_result", "c3", cents=1)],
        [called("final_result", "c4", cents=2)],
    )
    first = ran(one, "go", model=model)
    second = ran(one, "and again", message_history=first.all_messages(), model=model)
    same(saved(first, tmp_path), agent(look, output=(Bill,)))
    same(saved(second, tmp_path), agent(look, output=(Bill,)))


def test_a_conversation(tmp_path: Path) -> None:
    """Several runs of one history, each with a prompt and tools of its own."""
    one, model = agent(), scripted(LOOK, "broken", PAY)
    first = ran(one, "order A-17", model=model)
    second = ran(one, "then pay", message_history=first.all_messages(), model=model)
    same(saved(second, tmp_path), agent())


def test_a_run_on_its_way_to_the_model(tmp_path: Path) -> None:
    """A history that ends with what tools gave back is replayed up to there."""
    kept = [prompt("go"), response(call("look", {"order": "A"}, "c1")), request(answer("look", "seen", "c1"))]
    assert same(kept_as(kept, tmp_path), agent()).state.status == "running"


def test_an_approval_that_a_toolset_asks_for(tmp_path: Path) -> None:
    """What a wrapper around the tools decides is today's code, not the record."""
    sets = pydantic_ai.toolsets

    def one(limit: int) -> Any:
        inner = sets.FunctionToolset([pay])
        rule = sets.ApprovalRequiredToolset(inner, lambda ctx, tool, args: args["cents"] > limit)
        return agent(look, toolsets=[sets.PrefixedToolset(rule, "x")])

    ask = [called("x_pay", "c1", order="A", cents=100)]
    log = saved(ran(one(50), "go", model=scripted(ask)), tmp_path)
    same(log, one(50))
    with pytest.raises(ReplayDivergence, match="runs x_pay; the recorded run waited"):
        replay(log, one(500))
    log = saved(ran(one(500), "go", model=scripted(ask, "done")), tmp_path)
    same(log, one(500))
    with pytest.raises(ReplayDivergence, match="lets x_pay wait; the recorded run did not"):
        replay(log, one(50))
    assert EFFECTS == []


def pay_amount(order: str, amount: int) -> str:
    """Pay."""
    raise AssertionError("no tool runs")


def look_deep(number: str) -> str:
    """Look."""
    raise AssertionError("no tool runs")


@pytest.mark.parametrize(
    ("today", "says"),
    [
        (lambda: agent(asking()), "look was carried out; today's agent refuses it: Unknown tool name"),
        (lambda: agent(pydantic_ai.Tool(look_deep, name="look"), asking()), "look was carried out.*number: Field req"),
        (lambda: agent(look), "pay waits; today's agent refuses it: Unknown tool name"),
        (lambda: agent(look, pay), "runs pay; the recorded run waited"),
        (lambda: agent(asking(look, "look"), asking()), "lets look wait; the recorded run did not"),
        (lambda: agent(output=(str,)), "stops after the model called pay"),
    ],
)
def test_a_changed_agent_diverges(today: Any, says: str, waiting: Log) -> None:
    """A tool that is gone, arguments that do not fit, an approval rule that is another: each names its call."""
    with pytest.raises(ReplayDivergence, match=says) as caught:
        replay(waiting, today())
    assert "ticket-17" in str(caught.value)
    assert EFFECTS == []


def test_a_waiting_call_with_another_argument(waiting: Log) -> None:
    """A renamed argument of the call that waits is a divergence."""
    with pytest.raises(ReplayDivergence, match=r"pay waits; today's agent refuses it: .*amount: Field required"):
        replay(waiting, agent(look, asking(pay_amount)))


def test_the_model_is_asked_more_often(tmp_path: Path) -> None:
    """An output that today's agent no longer takes has it ask again: nothing was recorded for that."""
    log = saved(ran(agent(), "go", model=scripted("done")), tmp_path)
    today = agent()

    @today.output_validator  # type: ignore[untyped-decorator,unused-ignore]
    def refuse(value: str) -> str:
        raise pydantic_ai.ModelRetry("longer")

    with pytest.raises(ReplayDivergence, match="asks its model once more than the 1 time"):
        replay(log, today)


def test_recorded_answers_are_left(tmp_path: Path) -> None:
    """An output that today's agent takes at once leaves the rest of the record."""
    old = agent()

    @old.output_validator  # type: ignore[untyped-decorator,unused-ignore]
    def refuse(value: str) -> str:
        if value == "short":
            raise pydantic_ai.ModelRetry("longer")
        return value

    log = saved(ran(old, "go", model=scripted("short", LOOK, "longer")), tmp_path)
    same(log, old)
    with pytest.raises(ReplayDivergence, match=r"ends after 1 of 3 recorded answers.*look"):
        replay(log, agent())


def test_code_that_calls_out(waiting: Log) -> None:
    """Instructions that reach for the network are a live call, whatever the framework makes of the error."""
    today = agent()

    @today.instructions  # type: ignore[untyped-decorator,unused-ignore]
    def news() -> str:
        socket.create_connection(("192.0.2.1", 80), timeout=1)
        return "none"

    with pytest.raises(LiveCallError):
        replay(waiting, today)


def test_other_words_are_the_same(waiting: Log) -> None:
    """Another name, other instructions and another tool more change nothing of what is done."""
    same(waiting, agent(look, asking(), fussy, name="front", instructions="Be kind."))


def test_the_agent_is_as_it_was(waiting: Log) -> None:
    """After a replay the agent has its own model and tools again."""
    today = agent()
    same(waiting, today)
    ran(today, "order A-17", model=scripted(LOOK, PAY))
    assert EFFECTS == ["look"]


def test_dependencies_are_those_of_an_override(waiting: Log) -> None:
    """What instructions ask of ``deps`` is given with ``agent.override``."""
    today, seen = agent(deps_type=str), []

    @today.instructions  # type: ignore[untyped-decorator,unused-ignore]
    def words(ctx: Any) -> str:
        seen.append(ctx.deps)
        return ""

    words.__annotations__["ctx"] = pydantic_ai.RunContext
    with today.override(deps="desk"):
        assert diff_runs(waiting, asyncio.run(areplay(waiting, today)), compare="all") == []
    assert set(seen) == {"desk"}


@pytest.mark.parametrize(
    "messages",
    [
        [response(call("look", {}, "c1"))],
        [request(answer("look", "seen", "c0")), response(text("done"))],
        [prompt("go"), response({"tool_name": "look", "args": {}, "part_kind": "tool-call"})],
        [{**prompt("go"), "parts": prompt("a")["parts"] + prompt("b")["parts"]}, response(text("done"))],
        [prompt("go")],
    ],
)
def test_what_a_history_does_not_hold(messages: Any, tmp_path: Path) -> None:
    """Without a beginning, ids or an answer of the model there is nothing to replay."""
    with pytest.raises(Unsupported):
        replay(kept_as(messages, tmp_path), agent())


def test_a_framework_that_is_too_old(waiting: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without capabilities nothing can stand for the tools: that is said before anything runs."""
    monkeypatch.setitem(sys.modules, "pydantic_ai.capabilities", None)
    with pytest.raises(Unsupported, match="too old"):
        replay(waiting, agent())


def test_requests_alone(tmp_path: Path) -> None:
    """Deferred requests without their history are no run that could be gone over."""
    requests = {"approvals": [call("pay", {"order": "A", "cents": 1}, "c1")], "calls": []}
    with pytest.raises(Unsupported, match="all_messages_json"):
        replay(kept_as(requests, tmp_path), agent())


def test_going_on_after_a_divergence_is_refused(waiting: Log) -> None:
    """Such a run is replayed up to the first divergence only."""
    with pytest.raises(Unsupported):
        replay(waiting, agent(), on_divergence="record")


def test_several_runs_in_a_file(tmp_path: Path) -> None:
    """Each run of a file is a log, and each is replayed by itself."""
    kept = [json.loads(ran(agent(), f"order {n}", model=scripted(LOOK, PAY)).all_messages_json()) for n in "ab"]
    (tmp_path / "runs.json").write_text(json.dumps(kept))
    EFFECTS.clear()
    logs = list(load_logs(tmp_path / "runs.json"))
    assert len(logs) == 2
    for log in logs:
        same(log, agent())
