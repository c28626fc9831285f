"""A session as a log: the answers of the model, the tools that it called, and what people said in between.

The parts of an answer come in lines of their own and are one call of the model. What a subagent did stands under its
name as a namespace: in a session's own file (older CLIs), or in the file that a subagent has to itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.log.event import Log, LogBuilder
from pytest_loom.sources.calls import Calls, moment
from pytest_loom.sources.chat import plain_text
from pytest_loom.sources.claude_agent.chain import KINDS, Entry, session_of, sidechains
from pytest_loom.sources.shape import Malformed, table, text

UNKNOWN_FLOW = "unknown"


def session_log(lines: list[tuple[int, dict[str, Any]]], path: Path, notices: list[str]) -> Log:
    """The log of a file's session. Raises Malformed."""
    entries = [Entry(line, value) for line, value in lines]
    if any("parentUuid" in entry.value for entry in entries):
        links = [entry for entry in entries if entry.kind in KINDS and entry.uuid]
        messages = session_of(links)
        others = sidechains(links) if not messages[-1].is_side else {}
        left_out = {entry.kind for entry in entries if entry.kind not in KINDS}
        result = None
    else:
        messages = [entry for entry in entries if entry.kind in ("user", "assistant")]
        others = {}
        left_out = {entry.kind for entry in entries} - KINDS - {"result", "stream_event"}
        result = next((entry for entry in reversed(entries) if entry.kind == "result"), None)
        if not messages:
            raise Malformed("it holds no message")
    if left_out:
        shown = ", ".join(printable(kind) or "of none" for kind in sorted(left_out)[:8])
        notices = [*notices, f"lines of kinds that are no messages are left out: {shown}"]
    return _Session(messages, others, result, path).log(notices)


class _Session:
    def __init__(self, messages: list[Entry], others: dict[str, list[Entry]], result: Entry | None, path: Path) -> None:
        last = messages[-1].value
        session = text(last.get("sessionId")) or text(last.get("session_id"))
        agent = text(last.get("agentId")) if messages[-1].is_side else ""
        name = "/".join(part for part in (session or path.name.partition(".")[0], agent) if part)
        self.calls = Calls(LogBuilder(name, UNKNOWN_FLOW, path=str(path)))
        self.messages = [entry for entry in messages if not entry.value.get("isMeta")]
        self.others = others
        self.result = result
        self.said: str | None = None
        self.unsent: dict[str | None, list[Any]] = {}
        self.prompted = False

    def log(self, notices: list[str]) -> Log:
        first = self.messages[0] if self.messages else None
        self.calls.at = moment(first.value.get("timestamp")) if first else 0
        prompts = [_prompt(entry) for entry in self.messages if entry.kind == "user"]
        asked = next((prompt for prompt in prompts if prompt is not None), None)
        self.calls.add("EXECUTION_STARTED", {"input": asked, "manifest": self.manifest()})
        for namespace, parts in self.turns():
            self.calls.namespace = namespace
            self.calls.line = parts[0].line
            self.calls.at = moment(parts[0].value.get("timestamp")) or self.calls.at
            if parts[0].kind == "assistant":
                self.answer(parts, namespace)
            else:
                self.from_outside(parts[0], namespace)
        self.calls.namespace = None
        self.end()
        return self.calls.builder.log(source="claude-agent", engine="trace", notices=notices)

    def turns(self) -> list[tuple[str | None, list[Entry]]]:
        """What was said one after the other: an answer of the model has all its parts together."""
        found: list[tuple[str | None, list[Entry]]] = []
        answers: dict[str | None, list[Entry]] = {}  # the last one of each namespace
        for namespace, entry in self.in_order():
            answer = answers.get(namespace)
            if answer and entry.message_id and answer[0].message_id == entry.message_id:
                answer.append(entry)
                continue
            found.append((namespace, [entry]))
            if entry.kind == "assistant":
                answers[namespace] = found[-1][1]
        return found

    def in_order(self) -> list[tuple[str | None, Entry]]:
        """The session's messages; those of each subagent come in where the first of them was written."""
        own = [(text(entry.value.get("parent_tool_use_id")) or None, entry) for entry in self.messages]
        found: list[tuple[str | None, Entry]] = []
        waiting = sorted(self.others.items(), key=lambda one: one[1][0].line)
        for namespace, entry in own:
            while waiting and waiting[0][1][0].line < entry.line and waiting[0][1][-1].line < entry.line:
                name, others = waiting.pop(0)
                found += [(name, other) for other in others]
            found.append((namespace, entry))
        return found + [(name, other) for name, others in waiting for other in others]

    def manifest(self) -> dict[str, Any]:
        last = self.messages[-1].value if self.messages else {}
        facts = {"framework": "claude-agent-sdk", "cliVersion": last.get("version"), "gitBranch": last.get("gitBranch")}
        return {key: value for key, value in facts.items() if value}

    def answer(self, parts: list[Entry], namespace: str | None) -> None:
        """One answer of the model, in as many entries as it has parts, and the tools that it calls."""
        message = parts[0].message
        call_id = self.calls.asks(text(message.get("model")), {"messages": self.unsent.pop(namespace, [])})
        content = [block for entry in parts for block in _content(entry)]
        response = {"content": content, "stopReason": parts[-1].message.get("stop_reason")}
        facts: dict[str, Any] = {"callId": call_id, "response": response, "usage": parts[-1].message.get("usage")}
        self.calls.add("MODEL_COMPLETED", facts)
        self.said = plain_text(content) or self.said if namespace is None else self.said
        for entry in parts:
            for block in entry.blocks("tool_use"):
                self.calls.line = entry.line
                name = text(block.get("name"))
                if not name:
                    raise Malformed(f"line {entry.line}: a tool_use has no name")
                self.calls.calls(name, block.get("input"), text(block.get("id")))

    def from_outside(self, entry: Entry, namespace: str | None) -> None:
        """What was said to the model: results of tools, and prompts."""
        self.unsent.setdefault(namespace, []).append(entry.message)
        for block in entry.blocks("tool_result"):
            facts = self.calls.close(text(block.get("tool_use_id")))
            if facts is None:
                continue  # its call is on another branch
            if block.get("is_error"):
                error = {"type": "ToolError", "message": plain_text(block.get("content")) or "it failed"}
                self.calls.add("TOOL_FAILED", facts | {"error": error})
            else:
                self.calls.add("TOOL_COMPLETED", facts | {"output": _output(block.get("content"))})
        prompt = _prompt(entry)
        if prompt is None or namespace is not None:
            return
        if entry.value.get("isCompactSummary"):
            self.calls.add("ContextCompacted", {"content": prompt})
        elif self.prompted:
            self.calls.add("UserPrompt", {"content": prompt})
        self.prompted = True

    def end(self) -> None:
        """How it ended: as the result of a query says, else with the last answer, where no tool is under way."""
        value = {} if self.result is None else self.result.value
        deferred = table(value.get("deferred_tool_use"), "deferred_tool_use")
        if self.result is not None:
            self.calls.line = self.result.line
        if deferred:
            pending = {"callId": deferred.get("id"), "name": deferred.get("name"), "args": deferred.get("input")}
            self.calls.add("EXECUTION_SUSPENDED", {"on": "DeferredToolUse", "kind": "approval", "pending": pending})
        elif value.get("is_error"):
            kind = text(value.get("subtype")) or "error"
            self.calls.add("EXECUTION_FAILED", {"error": {"type": kind, "message": text(value.get("result")) or kind}})
        elif self.result is not None:
            self.calls.add("EXECUTION_COMPLETED", {"output": value.get("structured_output") or value.get("result")})
        elif not self.calls.is_waiting and self.messages and self.messages[-1].kind == "assistant":
            self.calls.add("EXECUTION_COMPLETED", {"output": self.said})


def _content(entry: Entry) -> list[Any]:
    content = entry.message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _prompt(entry: Entry) -> Any:
    """What a person said in an entry; None where it holds results of tools only."""
    content = entry.message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    said = [part for part in parts if not (isinstance(part, dict) and part.get("type") == "tool_result")]
    return (plain_text(said) or said) if said else None


def _output(content: Any) -> Any:
    """What a tool gave: its text, where it gave nothing else."""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return plain_text(content) or ""
    return content
