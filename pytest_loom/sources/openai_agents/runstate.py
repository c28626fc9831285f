"""``RunState.to_json()`` as a log, schema versions 1.0 to 1.21 (openai-agents 0.8 to 0.24).

A step is one turn of an agent: its model response and the calls in it. A state has no times, no model names and no
tool schemas but those of its last response. An agent that works as another's tool keeps a run state of its own in the
state: its events stand in a namespace, its call ids behind the outer call's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, UnknownSchemaVersion, printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.openai_agents.calls import Call, said_text
from pytest_loom.sources.openai_agents.part import Part
from pytest_loom.sources.shape import Malformed, document, table, text

VERSIONS = tuple(f"1.{minor}" for minor in range(22))
"""Every released schema version (SCHEMA_VERSION_SUMMARIES in the SDK's run_state.py)."""

DEFAULT_WORKFLOW = "Agent workflow"
"""What the SDK calls a workflow that nobody named."""

APPROVAL = "ToolApproval"
"""What a suspended run waits for: a decision about each pending call."""

DECIDED = "ToolApprovalDecided"
"""The application event of a decision that holds for calls to come."""

_VERSION_KEY = re.compile(rb'"\$schemaVersion"\s*:')
_STATE_KEY = re.compile(rb'"(current_agent|original_input|model_responses|current_turn)"\s*:')
_MAX_NESTED = 20
_TIME = 0  # a run state does not say when


def looks_like_run_state(head: bytes) -> bool:
    """Whether a file begins like a run state; one that lost its version is still one, and refused for it."""
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
        return False
    keys = {found[1] for found in _STATE_KEY.finditer(head)}
    return len(keys) == 4 or (bool(keys) and _VERSION_KEY.search(head) is not None)


def stem(path: Path) -> str:
    """A file's name without what says its format: the id of the run in it."""
    return path.name.removesuffix(".gz").removesuffix(".json") or path.name


def run_state_log(data: bytes, path: Path) -> Log | LogError:
    """The log of the run state in ``data``, or what is wrong with it; never raises."""
    where: dict[str, Any] = {"path": str(path), "execution_id": stem(path)}
    try:
        state = table(document(data), "the run state")
        version = state.get("$schemaVersion")
        if version not in VERSIONS:
            return _unknown(version, where)
        return _Writer(state, version, path).log()
    except LogError as error:
        return error
    except Malformed as problem:
        hint = "Save it again with RunState.to_json(), whole, or take it out of the corpus if it is no run."
        return LogError(f"not a readable run state: {problem}", hint=hint, **where)


def _unknown(version: Any, where: dict[str, Any]) -> LogError:
    if version is None:
        return LogError(
            "the run state does not say its schema version, and the SDK refuses such a state",
            hint="Save it again with RunState.to_json(), whole.",
            **where,
        )
    shown = printable(version) if isinstance(version, str) else type(version).__name__
    return UnknownSchemaVersion(
        f"run state schema version {shown} is not known here; {VERSIONS[0]} to {VERSIONS[-1]} are",
        hint="Read it with a pytest-loom that knows this version; nothing is guessed. An older SDK refuses it too.",
        **where,
    )


class _Writer:
    """One run state on its way to a log."""

    def __init__(self, state: dict[str, Any], version: str, path: Path) -> None:
        self.state = state
        self.path = path
        self.version = version
        self.trace = table(state.get("trace"), "trace")
        self.agents: dict[str, None] = {}
        self.pending: list[dict[str, Any]] = []
        self.decided: dict[tuple[str, str, str], None] = {}
        self.builder = LogBuilder(stem(path), "unknown", path=str(path))

    def log(self) -> Log:
        """The whole log. Raises Malformed or LogError."""
        part = Part(self.state)
        first = next(iter(part.agents))
        workflow = text(self.trace.get("workflow_name"))
        named = "" if workflow == DEFAULT_WORKFLOW else workflow
        self.builder.workflow_id = named or first
        self.agents.update(part.agents)
        body = LogBuilder(self.builder.execution_id, self.builder.workflow_id, path=str(self.path))
        unfinished = self.write(part, body, "", 0)
        manifest = {
            "runStateSchema": self.version,
            "agent": part.current,
            "agents": list(self.agents),
            "flows": [name for name in dict.fromkeys((named, first)) if name],
            "aliases": self.aliases(),
            "metadata": table(self.trace.get("metadata"), "trace metadata"),
        }
        started = {"input": self.state["original_input"], "manifest": {k: v for k, v in manifest.items() if v}}
        self.builder.add("EXECUTION_STARTED", started, timestamp=_TIME)
        for event in body.events:
            self.builder.add(event.event_type, event.payload, timestamp=_TIME, namespace=event.namespace)
        for tool, agent, decision in self.decided:
            facts = {"tool": tool, "agent": agent, "decision": decision, "always": True}
            self.builder.add(DECIDED, facts, timestamp=_TIME)
        self.end(part, unfinished)
        return self.builder.log(source="openai-agents", engine="checkpoint")

    def aliases(self) -> list[str]:
        """The other ids of the run."""
        found = [self.trace.get("id"), self.trace.get("group_id"), self.state.get("conversation_id")]
        return list(dict.fromkeys(one for one in found if isinstance(one, str) and one))

    def write(self, part: Part, out: LogBuilder, prefix: str, depth: int) -> list[Call]:
        """The turns of a run state and of those inside it; gives the calls that are not finished."""
        if depth > _MAX_NESTED:
            raise Malformed(f"more than {_MAX_NESTED} run states inside each other")
        namespace = prefix.rstrip("/") or None
        unfinished: list[Call] = []
        for number, (agent, output, usage) in enumerate(part.turns, 1):
            turn = f"{prefix}turn-{number}"
            out.add("STEP_STARTED", {"stepId": agent, "callId": turn}, timestamp=_TIME, namespace=namespace)
            if output is not None:
                request = {"callId": turn, "model": "unknown"}
                out.add("MODEL_REQUESTED", request, timestamp=_TIME, namespace=namespace)
                answer = {"callId": turn, "response": output, "usage": usage}
                out.add("MODEL_COMPLETED", answer, timestamp=_TIME, namespace=namespace)
            open_calls = []
            for call in part.calls[number - 1]:
                call.call_id = prefix + call.call_id
                out.add("TOOL_REQUESTED", call.facts(), timestamp=_TIME, namespace=namespace)
                if call.call_id.removeprefix(prefix) in part.outputs:
                    said = part.outputs[call.call_id.removeprefix(prefix)]
                    facts = {"callId": call.call_id, "name": call.name, "output": said}
                    out.add("TOOL_COMPLETED", facts, timestamp=_TIME, namespace=namespace)
                else:
                    open_calls.append(call)
            if not open_calls or number < len(part.turns):
                calls = [{"name": call.name, "args": call.args} for call in part.calls[number - 1]]
                done = {"stepId": agent, "callId": turn, "output": {"text": said_text(output or []), "calls": calls}}
                out.add("STEP_COMPLETED", done, timestamp=_TIME, namespace=namespace)
            else:
                unfinished = open_calls
        self.decided.update(dict.fromkeys(part.decisions.standing()))
        inner: set[str] = set()
        for call_id, state in part.nested.items():
            inner |= self.inner(state, out, f"{prefix}{call_id}/", depth)
        for pending in part.pending(prefix):  # an outer run shows what waits in those inside it too
            if pending["agent"] == part.current or pending["callId"].removeprefix(prefix) not in inner:
                self.pending.append(pending)
        return unfinished

    def inner(self, state: dict[str, Any], out: LogBuilder, prefix: str, depth: int) -> set[str]:
        """Write the run state of an agent that works as a tool; gives the ids of the calls that wait in it."""
        if state.get("$schemaVersion") not in VERSIONS:
            raise Malformed("a run state inside it has a schema version that is not known")
        before = len(self.pending)
        part = Part(state)
        self.agents.update(part.agents)
        self.write(part, out, prefix, depth + 1)
        return {pending["callId"].rpartition("/")[2] for pending in self.pending[before:]}

    def end(self, part: Part, unfinished: list[Call]) -> None:
        """How the run stands."""
        step = table(self.state.get("current_step"), "current_step")
        if self.state.get("terminal_unrecoverable") is True:
            error = {"type": "terminal-unrecoverable", "message": "the SDK marked the run as one that cannot go on"}
            self.builder.add("EXECUTION_FAILED", {"error": error}, timestamp=_TIME)
        elif self.pending:
            waits = {"on": APPROVAL, "kind": "approval", "pending": self.pending}
            self.builder.add("EXECUTION_SUSPENDED", waits, timestamp=_TIME)
        elif not step and part.turns and not unfinished:
            _, output, _ = part.turns[-1]
            said = said_text(output or [])
            if said is not None:
                self.builder.add("EXECUTION_COMPLETED", {"output": said}, timestamp=_TIME)
