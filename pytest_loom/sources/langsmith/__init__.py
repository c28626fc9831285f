"""LangSmith's run trees as logs, for comparing runs: nested, in a list, or one run a line; nothing is imported for it.

What ``Client.list_runs`` and ``read_run(…, load_child_runs=True)`` give, what tracers collect, and what clients send.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.sources.langsmith.mapping import tree_logs
from pytest_loom.sources.langsmith.runs import looks_like_runs

__all__ = ["LangSmithSource", "source"]


class LangSmithSource:
    """Reads exported runs; nothing can be resumed from them."""

    name = "langsmith"
    engine: Engine = "trace"
    live = False
    suffixes = (".json", ".json.gz", ".jsonl", ".jsonl.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin exported runs."""
        return looks_like_runs(head)

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """Each thread or trace of the file, or what is wrong with it."""
        try:
            data = read_document(path)
        except LogError as error:
            yield error
            return
        yield from tree_logs(data, path)


source = LangSmithSource()
