"""Pydantic AI's saved runs as logs, without pydantic_ai: message histories, deferred tool requests, graph persistence.

Histories of 1.x and 2.x (``all_messages_json()``, ``ModelMessagesTypeAdapter``), alone or in an object with the
``DeferredToolRequests`` that the run waits for, one or several a file; ``DeferredToolRequests`` alone; and what
pydantic-graph 1.x's ``FileStatePersistence`` writes. None of them names the agent or the graph that it belongs to, so
their workflow is ``unknown``. The ``line`` of an event is the number of the message or snapshot that it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.sources.pydantic_ai.documents import looks_like_ours, parse_document
from pytest_loom.sources.pydantic_ai.graph import graph_log
from pytest_loom.sources.pydantic_ai.messages import history_log

__all__ = ["PydanticAISource", "source"]


class PydanticAISource:
    """Reads the JSON files that applications keep of Pydantic AI's runs."""

    name = "pydantic_ai"
    engine: Engine = "checkpoint"
    live = False
    takes_data = True
    suffixes = (".json", ".json.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin messages, deferred requests or graph snapshots."""
        return looks_like_ours(head)

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Log | LogError]:
        """Each run of the file, or what is wrong with it; ``data`` is its decompressed content, if that is at hand."""
        try:
            found = parse_document(read_document(path) if data is None else data, path)
        except LogError as error:
            yield error
            return
        for record in found:
            yield graph_log(record) if record.kind == "graph" else history_log(record)


source = PydanticAISource()
