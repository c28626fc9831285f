"""A run state taken apart: its turns with their agents, its calls, and what waits in it."""

from __future__ import annotations

from typing import Any

from pytest_loom.errors import printable
from pytest_loom.sources.openai_agents.calls import (
    Call,
    Decisions,
    agent_of,
    call_of,
    decisions_of,
    invocations,
    outputs,
)
from pytest_loom.sources.shape import Malformed, listed, table, tables, text


class Part:
    """One run state, checked and indexed. Raises Malformed where it is none."""

    def __init__(self, state: dict[str, Any]) -> None:
        if "original_input" not in state or "current_agent" not in state or "context" not in state:
            raise Malformed("it lacks original_input, current_agent or context")
        self.state = state
        self.current = agent_of(state["current_agent"])
        if not self.current:
            raise Malformed("current_agent names no agent")
        self.context = table(state["context"], "context")
        self.items = tables(state.get("session_items"), "session_items")
        self.items += tables(state.get("generated_items"), "generated_items")
        processed = table(state.get("last_processed_response"), "last_processed_response")
        self.items += tables(processed.get("new_items"), "new_items")
        self.decisions: Decisions = decisions_of(self.context)
        self.outputs = outputs(self.items)
        self.invocations = invocations(self.context)
        self.functions = tables(processed.get("functions"), "functions")
        self.schemas = {_asked(entry): _schema(entry) for entry in self.functions}
        self.nested = {
            _asked(entry): entry["agent_run_state"]
            for entry in self.functions
            if isinstance(entry.get("agent_run_state"), dict)
        }
        self.handoffs = {_asked(entry) for entry in tables(processed.get("handoffs"), "handoffs")}
        self.owners: dict[str, str] = {}  # the agent of each call and message, by id
        self.names: dict[str, str] = {}  # the name under which the tool of a call is looked up, by id
        self.agents: dict[str, None] = {}  # all that have to be there when the run goes on, in order
        for item in self.items:
            self.learn(item)
        self.turns = self.read_turns()
        self.calls: list[list[Call]] = []
        self.asked: dict[str, Call] = {}
        for agent, output, _ in self.turns:
            self.calls.append([])
            for raw in output if output is not None else self.leftover:
                call = self.call(raw, agent)
                if call is None:
                    continue
                same = self.asked.setdefault(call.call_id, call)
                if (same.name, same.args) != (call.name, call.args):
                    raise Malformed(f"two different calls have the id {printable(call.call_id)}")
                if same is call:
                    self.calls[-1].append(call)
        deciding = [agent for _, agent, decision in self.decisions.records if agent and decision]
        turns = [agent for agent, _, _ in self.turns]
        self.agents = dict.fromkeys([*turns, *self.agents, *deciding, self.current])

    def learn(self, item: dict[str, Any]) -> None:
        """Which agent an item belongs to, and under which name its tool is looked up."""
        agent = agent_of(item.get("agent"))
        raw = item.get("raw_item")
        if item.get("type") == "handoff_call_item" and isinstance(raw, dict):
            self.handoffs.add(text(raw.get("call_id")))
        named = [agent, *(agent_of(item[place]) for place in ("source_agent", "target_agent") if item.get(place))]
        self.agents.update(dict.fromkeys(one for one in named if one))
        if not agent or not isinstance(raw, dict):
            return
        key = text(raw.get("call_id")) or text(raw.get("id"))
        if item.get("type") != "handoff_output_item":
            self.owners.update({one: agent for one in (key, text(raw.get("id"))) if one and one not in self.owners})
        name, space = text(item.get("tool_name")), text(item.get("tool_namespace"))
        if key and name:
            self.names.setdefault(key, f"{space}.{name}" if space and space != name else name)

    def read_turns(self) -> list[tuple[str, list[dict[str, Any]] | None, Any]]:
        """Agent, output items and usage of each model response; items without a response make a turn without one."""
        found: list[tuple[str, list[dict[str, Any]] | None, Any]] = []
        known: set[str] = set()
        for response in tables(self.state.get("model_responses"), "model_responses"):
            output = tables(response.get("output"), "the output of a response")
            keys = [text(item.get(place)) for place in ("call_id", "id") for item in output]
            known.update(keys)
            agent = next((self.owners[key] for key in keys if key in self.owners), "")
            found.append((agent or (found[-1][0] if found else self.current), output, response.get("usage")))
        raws = [item["raw_item"] for item in self.items if isinstance(item.get("raw_item"), dict)]
        told = [(call_of(raw, ""), raw) for raw in raws]
        self.leftover = [raw for call, raw in told if call is not None and call.call_id not in known]
        if self.leftover:
            first = text(self.leftover[0].get("call_id")) or text(self.leftover[0].get("id"))
            found.insert(0, (self.owners.get(first, self.current), None, None))
        return found

    def call(self, raw: dict[str, Any], agent: str) -> Call | None:
        """The call in an output item, with all that the state says of it."""
        call_id = text(raw.get("call_id")) or text(raw.get("id"))
        call = call_of(raw, self.owners.get(call_id, agent), self.names.get(call_id, ""))
        if call is None:
            return None
        call.kind = "handoff" if call_id in self.handoffs else call.kind
        call.schema = self.schemas.get(call_id)
        known = self.invocations.get(call_id, {})
        done = call_id in self.outputs or call_id in self.nested  # the agent that works as a tool goes on
        call.executed = known.get("executed") is True and not done
        return call

    def pending(self, prefix: str) -> list[dict[str, Any]]:
        """The calls that wait for a decision, each with the decision that is recorded already."""
        step = table(self.state.get("current_step"), "current_step")
        if step.get("type") != "next_step_interruption":
            return []
        told = table(step.get("data"), "the data of current_step").get("interruptions", step.get("interruptions"))
        found = []
        for item in listed(told, "interruptions"):
            entry = table(item, "an interruption")
            raw = table(entry.get("raw_item", entry.get("rawItem")), "the raw item of an interruption")
            name, space = text(entry.get("tool_name")), text(entry.get("tool_namespace"))
            call = call_of(raw, agent_of(entry.get("agent")) or self.current, f"{space}.{name}" if space else name)
            if call is None:
                raise Malformed("an interruption is no tool call")
            asked = self.asked.get(call.call_id)
            if asked is not None and asked.agent == call.agent and asked.args != call.args:
                raise Malformed(f"call {printable(call.call_id)} waits with other arguments than the model asked for")
            said: dict[str, Any] = {"callId": prefix + call.call_id, "name": call.name, "args": call.args}
            said |= {"agent": call.agent, "kind": call.kind}
            if call.server:
                said["server"] = call.server
            schema = self.schemas.get(call.call_id)
            if schema is not None:
                said["toolSchema"] = schema
            decision = self.decisions.of(call)
            if decision is not None:
                said["decision"] = decision
            found.append(said)
        return found


def _asked(entry: dict[str, Any]) -> str:
    """The id of the call that an entry of a response belongs to."""
    return text(table(entry.get("tool_call"), "a tool call").get("call_id"))


def _schema(entry: dict[str, Any]) -> Any:
    """The JSON Schema that is kept beside a call."""
    schema = table(entry.get("tool"), "a tool").get("paramsJsonSchema")
    return schema if isinstance(schema, dict) else None
