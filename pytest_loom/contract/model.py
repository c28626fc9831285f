"""The Contract: what a flow promises to the runs that were started on it, as plain data that JSON can hold."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class StepContract(_Part):
    """What a step takes and gives, as JSON Schemas, and for engines that resume from a saved state where it leads.

    ``next`` are the steps that may follow (of its own sub-flow; ``*`` where that is decided while it runs), ``asks`` is
    whether it stops to ask a person. ``reads`` and ``writes`` are the keys of the state that its code names, as far as
    that can be seen; they help to judge and promise nothing.
    """

    input_schema: dict[str, Any] | bool | None = None
    output_schema: dict[str, Any] | bool | None = None
    next: tuple[str, ...] | None = None
    asks: bool | None = None
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None


class GateContract(_Part):
    """What the payload of an awaited event has to look like, and ``kind``, what brings it, where its engine tells.

    Nothing waits for a query: it asks, and leaves nothing in a run.
    """

    kind: Literal["signal", "update", "query"] | None = None
    payload_schema: dict[str, Any] | bool | None = None


class ToolContract(_Part):
    """A tool's arguments, its meaning-version, whether it asks for approval, and what it may touch.

    ``external``: its result comes from outside of the run, which never calls it.
    """

    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    version: str | int | None = None
    approval: bool | None = None
    permissions: tuple[str, ...] | None = None
    external: bool | None = None


class AgentContract(_Part):
    """What one of several agents may do: its own tools, to which agent each of its handoffs leads, what it gives.

    ``input_guardrails`` are what looks at the input of a run that starts with it, by name.
    ``more_tools``: it has further tools that cannot be listed without asking a server for them.
    """

    tools: dict[str, ToolContract] | None = None
    handoffs: dict[str, str] | None = None
    output_schema: dict[str, Any] | bool | None = None
    input_guardrails: tuple[str, ...] | None = None
    more_tools: bool | None = None


class Contract(_Part):
    """A flow's contract. Everything but ``workflow_id`` is optional, and a part that is absent is not checked.

    JSON uses camelCase (``Contract.model_validate(json.load(f))``). An unknown key is an error: a misspelt part would
    otherwise be a part that is never checked. ``more_tools``: there are further tools, which cannot be listed without
    running code or asking a server.
    """

    workflow_id: str = Field(min_length=1)
    version: str | None = None
    engine: Literal["journal", "checkpoint"] | None = None
    input_schema: dict[str, Any] | bool | None = None
    output_schema: dict[str, Any] | bool | None = None
    state_schema: dict[str, Any] | bool | None = None
    reducers: dict[str, str] | None = None
    steps: dict[str, StepContract] | None = None
    gates: dict[str, GateContract] | None = None
    joins: dict[str, tuple[str, ...]] | None = None
    tools: dict[str, ToolContract] | None = None
    agents: dict[str, AgentContract] | None = None
    more_tools: bool | None = None
    versions: dict[str, Any] | None = None
