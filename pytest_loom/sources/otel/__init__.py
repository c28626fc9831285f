"""OpenTelemetry traces of agents as logs, for comparing runs: OTLP JSON with the GenAI semantic conventions.

One export request a file, or one a line as the collector's file exporter writes it; conventions since 1.27, what
Pydantic AI and OpenLLMetry wrote before them, and messages in events and log records. No package is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.sources.otel.mapping import trace_logs

__all__ = ["OTelSource", "source"]

_SPANS = re.compile(rb'"resource(?:Spans|_spans|Logs|_logs)"\s*:\s*\[')


class OTelSource:
    """Reads exported spans; nothing can be resumed from them."""

    name = "otel"
    engine: Engine = "trace"
    live = False
    suffixes = (".json", ".json.gz", ".jsonl", ".jsonl.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin an export request."""
        return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" and _SPANS.search(head[:4096]) is not None

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """Each run of the file, or what is wrong with it."""
        try:
            data = read_document(path)
        except LogError as error:
            yield error
            return
        yield from trace_logs(data, path)


source = OTelSource()
