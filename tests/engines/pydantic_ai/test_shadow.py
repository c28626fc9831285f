"""Shadow resumes of Pydantic AI: what only the framework can tell of a waiting call, with no tool and no model run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest

from pytest_loom.contract.resolve import contract_of
from pytest_loom.deploy import deferred
from pytest_loom.deploy.apart import apart
from pytest_loom.deploy.deferred_shadow import messages_of, shadowed
from pytest_loom.deploy.report import Finding
from pytest_loom.log.event import Log
from pytest_loom.sources.pydantic_ai import source
from tests.sources.test_pydantic_ai import answer, call, prompt, request, response

pydantic_ai: Any = pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")
toolsets: Any = pydantic_ai.toolsets

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot copy a process")

EFFECTS = "LOOM_TEST_EFFECTS"


def effect(text: str) -> None:
    """What must never happen: a line in the file that the test named."""
    with Path(os.environ[EFFECTS]).open("a") as file:
        file.write(text)


@pytest.fixture(autouse=True)
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """No test of this module has an effect."""
    file = tmp_path / "effects.log"
    monkeypatch.setenv(EFFECTS, str(file))
    yield
    assert not file.exists()


def log_of(*messages: dict[str, Any]) -> Log:
    """The log of a history."""
    (log,) = source.read(Path("run.json"), json.dumps(messages).encode())
    assert isinstance(log, Log)
    return log


@pytest.fixture
def waiting() -> Log:
    """One call is done, ``book`` waits; providers count calls anew in each response."""
    return log_of(
        prompt("go"),
        response(call("look", {}, "call_0")),
        request(answer("look", "seen", "call_0")),
        response(call("look", "{}", "call_0"), call("book", {"room": "204", "nights": 2}, "call_1")),
        request(answer("look", "seen", "call_0")),
    )


def judged(log: Log, agent: Any) -> list[Finding]:
    """What schemas and framework find together."""
    contract = contract_of(agent)
    found = [item for check in deferred.CHECKS for item in check(log, contract, None)]
    return shadowed(log, agent, None, found)


def book(room: str, nights: int) -> str:
    """Book."""
    effect("booked")
    return "booked"


def tool(function: Callable[..., Any] = book, **more: Any) -> Any:
    """The tool that waits."""
    return pydantic_ai.Tool(function, name="book", requires_approval=True, takes_ctx=False, **more)


def agent(*tools: Any, sets: Any = ()) -> Any:
    """An agent without a model."""
    return pydantic_ai.Agent(None, tools=list(tools), toolsets=list(sets))


def at_least_three(value: int) -> int:
    """A rule that no schema shows."""
    if value < 3:
        raise ValueError("at least three nights")
    return value


def renamed(
    room: str, count: Annotated[int, pydantic.Field(validation_alias=pydantic.AliasChoices("count", "nights"))]
) -> str:
    """A new name that still reads the old one."""
    effect("booked")
    return "booked"


def stricter(room: str, nights: Annotated[int, pydantic.AfterValidator(at_least_three)]) -> str:
    """A stricter rule."""
    effect("booked")
    return "booked"


def closed(ctx: Any, room: str, nights: int) -> None:
    """A rule on the arguments as a whole."""
    raise pydantic_ai.ModelRetry("rooms below 300 are closed")


def left_out(ctx: Any, definition: Any) -> Any:
    """Leaves the tool out."""
    return None


def kept(ctx: Any, definition: Any) -> Any:
    """Keeps the tool."""
    return definition


def by_dependencies(ctx: Any, definition: Any) -> Any:
    """The documentation's own example: the tool is there for some dependencies only."""
    return definition if ctx.deps == 42 else None


def by_setting(ctx: Any, definition: Any) -> Any:
    """There where a variable is set."""
    return definition if os.environ.get("LOOM_NO_SUCH_FLAG") else None


def with_effect(ctx: Any, definition: Any) -> Any:
    """Writes what it does to a file."""
    effect("prepared")
    return definition


def prepared(how: Callable[..., Any]) -> Any:
    """A prepare function as the framework takes it."""

    async def prepare(ctx: Any, definition: Any) -> Any:
        return how(ctx, definition)

    return prepare


class Audited(toolsets.WrapperToolset):  # type: ignore[misc]
    """A toolset of the application's own around another."""

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Passes it on."""
        return await super().call_tool(*args, **kwargs)


def dynamic(function: Callable[..., Any]) -> Any:
    """A toolset that a run brings up."""

    def bring(ctx: Any) -> Any:
        return toolsets.FunctionToolset([tool(function)])

    return bring


def test_what_is_put_together_again_is_the_history(waiting: Log) -> None:
    """From the log, the framework reads the same calls, with the ids that it gave them."""
    adapter = pydantic_ai.messages.ModelMessagesTypeAdapter
    messages = adapter.validate_python(messages_of(waiting))
    assert [message.kind for message in messages] == ["request", "response", "request", "response", "request"]
    assert [part.tool_call_id for part in messages[-2].parts] == ["call_0", "call_1"]
    assert [part.tool_call_id for part in messages[-1].parts] == ["call_0"]


@pytest.mark.parametrize(
    ("today", "code"),
    [
        (agent(tool(stricter)), "tool-args"),
        (agent(pydantic_ai.Tool(book, requires_approval=True, args_validator=closed)), "tool-args"),
        (agent(tool(prepare=prepared(left_out))), "tool-missing"),
        (
            agent(sets=[toolsets.FilteredToolset(toolsets.FunctionToolset([tool()]), lambda ctx, definition: False)]),
            "tool-missing",
        ),
        (agent(sets=[lambda ctx: toolsets.FunctionToolset([])]), "tool-missing"),
    ],
    ids=["validator", "args_validator", "prepare", "filter", "dynamic"],
)
def test_what_the_framework_refuses_is_found(waiting: Log, today: Any, code: str) -> None:
    """Validators, prepare functions, filters and dynamic toolsets: no schema shows them, and the model is told no."""
    (found,) = judged(waiting, today)
    assert (found.code, found.severity, found.step) == (code, "breaking", "book")


@pytest.mark.parametrize(
    "today",
    [
        agent(tool()),
        agent(tool(renamed)),
        agent(tool(prepare=prepared(kept))),
        agent(tool(prepare=prepared(by_dependencies))),
        agent(tool(prepare=prepared(by_setting))),
        agent(tool(prepare=prepared(with_effect))),
        agent(sets=[Audited(toolsets.FunctionToolset([tool()]))]),
        agent(sets=[toolsets.ApprovalRequiredToolset(toolsets.FunctionToolset([pydantic_ai.Tool(book)]))]),
        agent(sets=[dynamic(book)]),
    ],
    ids=["same", "alias", "prepare", "deps", "setting", "effect", "wrapper", "approval", "dynamic"],
)
def test_what_is_carried_out_or_cannot_be_told_is_left_alone(waiting: Log, today: Any) -> None:
    """An alias overrules the schema; what dependencies, settings or effects decide is not guessed."""
    assert judged(waiting, today) == []


def test_what_schemas_show_stands_where_the_framework_agrees(waiting: Log) -> None:
    """A renamed argument stays the finding that it was, and is said once."""

    def other(room: str, count: int) -> str:
        raise AssertionError("no tool runs")

    assert {found.code for found in judged(waiting, agent(tool(other)))} == {"tool-args"}
    assert [found.code for found in judged(waiting, agent())] == ["tool-missing"]


def test_an_agent_that_hangs_is_asked_once(waiting: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is killed, what the schemas show stands, and the next run of that agent is not asked at all."""

    def hang(ctx: Any, definition: Any) -> Any:
        while True:
            pass

    asked: list[int] = []

    def quickly(work: Callable[[], Any]) -> Any:
        asked.append(1)
        return apart(work, timeout=0.5)

    monkeypatch.setattr("pytest_loom.deploy.deferred_shadow.apart", quickly)
    hanging = agent(tool(prepare=prepared(hang)))
    assert judged(waiting, hanging) == []
    assert judged(waiting, hanging) == []
    assert len(asked) == 1


def test_a_ci_machine_finds_the_same(waiting: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The framework itself looks for CI and for its own switches: that they are set hides no refusal."""
    for name, value in {"CI": "true", "GITHUB_ACTIONS": "true", "PYDANTIC_AI_NO_BANNER": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert [item.code for item in judged(waiting, agent(tool(stricter)))] == ["tool-args"]


def test_a_call_for_another_system_beside_it_gets_a_result() -> None:
    """Of several calls, those that wait for a result are not approved, which would be an error of its own."""
    definition = pydantic_ai.tools.ToolDefinition(name="ship", parameters_json_schema={"type": "object"})
    calls = [call("ship", {"to": "Ada"}, "s"), call("book", {"room": "204", "nights": 2}, "b")]
    history = [prompt("go"), response(*calls)]
    asked = {"approvals": [calls[1]], "calls": [calls[0]]}
    (log,) = source.read(Path("x.json"), json.dumps({"messages": history, "pending": asked}).encode())
    assert isinstance(log, Log)
    ship = toolsets.ExternalToolset([definition])
    assert judged(log, agent(tool(), sets=[ship])) == []
    assert [found.code for found in judged(log, agent(tool(stricter), sets=[ship]))] == ["tool-args"]
