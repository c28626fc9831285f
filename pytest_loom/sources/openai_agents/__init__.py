"""OpenAI Agents SDK: saved run states (every schema version), SQLite sessions and trace exports, without the SDK.

A run state is a checkpoint: finished work is never run again, so what counts is its frontier. Nothing is imported,
called or revived because a file names it. ``source`` is all three formats behind one interface; the sibling
``contract`` reads today's agents, and ``shadow`` asks the SDK itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.sources.openai_agents.runstate import looks_like_run_state, run_state_log
from pytest_loom.sources.openai_agents.session import looks_like_session, session_logs
from pytest_loom.sources.openai_agents.trace import looks_like_trace, trace_logs

__all__ = ["OpenAIAgentsSource", "source"]


class OpenAIAgentsSource:
    """Reads ``RunState.to_json()`` files, ``SQLiteSession`` databases and exported trace spans."""

    name = "openai-agents"
    engine: Engine = "checkpoint"
    live = False  # a session database says of its own logs that they are
    suffixes = (".json", ".json.gz", ".jsonl", ".jsonl.gz", ".sqlite", ".sqlite3", ".db")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin one of the three formats."""
        return looks_like_run_state(head) or looks_like_trace(head) or looks_like_session(path, head)

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """Each run of the file, or what is wrong with it."""
        with path.open("rb") as stream:
            is_database = stream.read(16).startswith(b"SQLite format 3")
        if is_database:
            yield from session_logs(path)
            return
        try:
            data = read_document(path)
        except LogError as error:
            yield error
            return
        if looks_like_run_state(data[: 64 * 1024]):
            yield run_state_log(data, path)
        else:
            yield from trace_logs(data, path)


source = OpenAIAgentsSource()
