"""The contract of live agents and graphs: tools wherever they come from, approval rules, and what does not move it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import contract_of

pydantic_ai: Any = pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")
toolsets: Any = pydantic_ai.toolsets


def pay(amount: int, memo: str | None = None) -> str:
    """Pay."""
    raise AssertionError("a contract runs no tool")


def look(x: int) -> str:
    """Look."""
    raise AssertionError("a contract runs no tool")


def agent(*, tools: Any = (), sets: Any = (), **more: Any) -> Any:
    """An agent that cannot run."""
    return pydantic_ai.Agent(None, tools=list(tools), toolsets=list(sets), **more)


def guarded(function: Callable[..., Any]) -> Any:
    """A tool that asks for approval."""
    return pydantic_ai.Tool(function, requires_approval=True)


def tools_of(contract: Contract) -> dict[str, tuple[bool | None, bool | None]]:
    """The tools of a contract, with their approval and whether they are external."""
    return {name: (tool.approval, tool.external) for name, tool in (contract.tools or {}).items()}


def test_tools_with_schema_and_approval() -> None:
    """Tools of the agent are listed with their JSON schema; a guarded one asks for approval."""
    contract = contract_of(agent(tools=[guarded(pay), look], name="desk"))
    assert (contract.workflow_id, contract.engine, contract.more_tools) == ("desk", "checkpoint", None)
    assert tools_of(contract) == {"look": (False, None), "pay": (True, None)}
    schema: Any = (contract.tools or {})["pay"].schema_
    assert schema["required"] == ["amount"]
    assert schema["properties"]["memo"]["default"] is None


def test_tools_of_every_kind_of_toolset() -> None:
    """Prefixes, new names, approvals around a toolset and calls for other systems are all seen through."""
    definition = pydantic_ai.tools.ToolDefinition(name="ship", parameters_json_schema={"type": "object"})
    inner = toolsets.FunctionToolset([pay])
    sets = [
        toolsets.ExternalToolset([definition]),
        toolsets.PrefixedToolset(toolsets.FunctionToolset([look]), prefix="my"),
        toolsets.ApprovalRequiredToolset(toolsets.RenamedToolset(inner, {"transfer": "pay"})),
        toolsets.CombinedToolset([toolsets.FilteredToolset(toolsets.FunctionToolset([look]), lambda ctx, tool: False)]),
        toolsets.ApprovalRequiredToolset(inner, lambda ctx, tool, args: args["amount"] > 10),
    ]
    assert tools_of(contract_of(agent(sets=sets))) == {
        "ship": (False, True),
        "my_look": (False, None),
        "transfer": (True, None),
        "look": (False, None),
        "pay": (None, None),
    }


def test_what_only_a_run_brings_up_is_said_to_be_open() -> None:
    """A toolset that code makes while a run is under way is not asked: the contract says that there may be more."""

    def never(ctx: Any) -> Any:
        raise AssertionError("a contract runs no code")

    live = agent(tools=[look])
    live.toolset(never)
    contract = contract_of(live)
    assert tools_of(contract) == {"look": (False, None)}
    assert contract.more_tools is True


def test_words_and_order_do_not_move_a_contract() -> None:
    """Names, instructions, descriptions and the order of tools are words; an argument, a default, a guard are not."""

    def other_words(amount: int, memo: str | None = None) -> str:
        """Pay somebody. Sums in cents."""
        return ""

    def other_default(amount: int, memo: str | None = "gift") -> str:
        return ""

    base = fingerprint(contract_of(agent(tools=[guarded(pay), look], name="desk")))
    same = agent(
        tools=[look, pydantic_ai.Tool(other_words, name="pay", requires_approval=True)], instructions="Be nice."
    )
    assert fingerprint(contract_of(same)) == base
    for tools in (
        [guarded(pay)],
        [pay, look],
        [look, pydantic_ai.Tool(other_default, name="pay", requires_approval=True)],
    ):
        assert fingerprint(contract_of(agent(tools=tools))) != base


def test_the_output_type_counts_and_the_frameworks_own_words_do_not() -> None:
    """Whether calls may be deferred is part of the contract, but not how this version describes such requests."""
    plain = contract_of(agent(tools=[look]))
    defers = contract_of(agent(tools=[look], output_type=[str, pydantic_ai.DeferredToolRequests]))
    assert plain.output_schema == {"type": "string"}
    assert fingerprint(plain) != fingerprint(defers)
    assert "ToolCallPart" not in defers.model_dump_json()


def test_a_graph_lists_its_nodes_and_its_state() -> None:
    """Graphs of 1.x: a step a node with its fields, and the state's schema."""
    graphs: Any = pytest.importorskip("pydantic_graph.graph", reason="graphs of nodes are of pydantic-graph 1.x")
    nodes: Any = pytest.importorskip("pydantic_graph")

    @dataclass
    class State:
        order: str
        amount: int = 0

    @dataclass
    class Charge(nodes.BaseNode[State, None, str]):  # type: ignore[misc]
        cents: int

        async def run(self, ctx: Any) -> Any:
            raise AssertionError("a contract runs no node")

    Charge.run.__annotations__["return"] = nodes.End[str]
    contract = contract_of(graphs.Graph(nodes=[Charge], name="shop", state_type=State, run_end_type=str))
    steps = contract.steps or {}
    node: Any = steps["Charge"].input_schema
    state: Any = contract.state_schema
    assert (contract.workflow_id, contract.engine, list(steps)) == ("shop", "checkpoint", ["Charge"])
    assert (node["required"], list(state["properties"]), state["required"]) == (
        ["cents"],
        ["order", "amount"],
        ["order"],
    )
