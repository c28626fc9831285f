"""Claude Agent SDK and Claude Code: transcripts of sessions, and the messages that a query prints, without the SDK.

A transcript (``~/.claude/projects/…/<session>.jsonl``, or what a ``SessionStore`` was given) has a line for each entry.
What is read of it is what the package ``claude-agent-sdk`` reads itself (``get_session_messages``): the entries with a
``uuid`` and a ``parentUuid``, of which the branch with the last message is the session, and the subagents' entries. The
other lines are the CLI's own and internal. The messages of a query (``--output-format stream-json``) are those that the
SDK parses into its public types. A session is resumed by the CLI, not by code: the logs are traces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.sources.claude_agent.mapping import session_log
from pytest_loom.sources.outline import outline
from pytest_loom.sources.shape import Malformed, document

__all__ = ["ClaudeAgentSource", "source"]


class ClaudeAgentSource:
    """Reads ``*.jsonl`` files of sessions, and of the subagents beside them."""

    name = "claude-agent"
    engine: Engine = "trace"
    live = False
    suffixes = (".jsonl", ".jsonl.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin a transcript, or the messages of a query."""
        if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
            return False
        keys = outline(head)
        transcript = {"type", "uuid", "parentUuid", "sessionId"} <= keys
        messages = {"type", "session_id", "message.role", "message.content"} <= keys
        return transcript or messages

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """The session of the file, or what is wrong with it."""
        try:
            entries, notices = _entries(read_document(path))
            yield session_log(entries, path, notices)
        except Malformed as problem:
            yield LogError(f"not a readable transcript: {problem}", path=str(path))
        except LogError as error:
            yield error


def _entries(data: bytes) -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    """The entries with the numbers of their lines. A last line without its end was never finished, and is left out."""
    found: list[tuple[int, dict[str, Any]]] = []
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = document(line)
        except Malformed as problem:
            if number == len(lines) and found:
                return found, [f"line {number}, the last one, is cut off: it was left out"]
            raise Malformed(f"line {number}: {problem}") from None
        if not isinstance(entry, dict):
            raise Malformed(f"line {number} is no object: {printable(str(entry), 40)}")
        found.append((number, entry))
    return found, []


source = ClaudeAgentSource()
