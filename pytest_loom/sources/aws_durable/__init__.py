"""AWS Lambda durable functions: an execution's operations or its history, as JSON files, without AWS and its SDK.

What ``GetDurableExecutionState`` and ``GetDurableExecutionHistory`` give (https://docs.aws.amazon.com/lambda/latest/api/),
the event that Lambda invokes a durable function with, and what the stores of AWS's testing library keep. On resume
the code is run again and each operation is looked up by its place; its name, type and parent have to be the same.
The sibling ``replay`` asks the SDK itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.sources.aws_durable.happenings import execution_of
from pytest_loom.sources.aws_durable.mapping import log_of
from pytest_loom.sources.outline import outline
from pytest_loom.sources.shape import Malformed, document

__all__ = ["AWSDurableSource", "source"]

_STATE, _HISTORY = {"Id", "Type"}, {"EventType", "EventId", "EventTimestamp"}


class AWSDurableSource:
    """Reads the JSON files that ``aws lambda get-durable-execution-state`` and ``…-history`` print."""

    name = "aws-durable"
    engine: Engine = "journal"
    live = False
    suffixes = (".json", ".json.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin a state or a history."""
        keys = outline(head)
        for place in ("Operations", "InitialExecutionState.Operations"):
            if place in keys and ("DurableExecutionArn" in keys or {f"{place}[].{key}" for key in _STATE} <= keys):
                return True
        return {f"Events[].{key}" for key in _HISTORY} <= keys

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """The execution of the file, or what is wrong with it."""
        name = ""
        try:
            execution = execution_of(document(read_document(path)), path.name.partition(".")[0] or "unknown")
            name = execution.execution_id
            yield log_of(execution, path)
        except Malformed as problem:
            yield LogError(f"not a readable durable execution: {problem}", path=str(path), execution_id=name)
        except LogError as error:
            error.execution_id = error.execution_id or name
            yield error


source = AWSDurableSource()
