"""LangSmith's run trees taken apart: every run of a file, whichever way it was written.

A run is told by ``id``, ``parent_run_id``, ``name``, ``run_type``, times, ``inputs``, ``outputs``, ``error`` and
``extra.metadata`` (https://docs.langchain.com/langsmith/run-data-format): nested in ``child_runs``, in a list, one a
line, or in what clients send (``post`` and ``patch``, where a run comes twice: as it starts and as it ends).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pytest_loom.errors import printable
from pytest_loom.sources.shape import Malformed, documents, table, tables, text

_TYPE = re.compile(rb'"run_type"\s*:\s*"')
_PLACE = re.compile(rb'"(?:dotted_order|trace_id|parent_run_id|child_runs|session_id|session_name)"\s*:')
_ID = re.compile(r"[0-9a-fA-F-]{32,36}$")
_THREAD_KEYS = ("thread_id", "session_id", "conversation_id")
"""What LangSmith takes for the id of a thread, in its order (docs.langchain.com/langsmith/threads)."""


@dataclass
class Run:
    """One run: who it is, when (ms since the epoch), what went in and came out, and how it ended ("" without error)."""

    run_id: str
    parent_id: str
    name: str
    kind: str
    start: float
    end: float | None
    inputs: Any
    outputs: Any
    error: str
    extra: dict[str, Any]
    metadata: dict[str, Any]
    trace_id: str
    said: dict[str, Any] = field(default_factory=dict)
    line: int = 0

    @property
    def thread(self) -> str:
        """The thread that the run names, "" for none."""
        return next((str(found) for key in _THREAD_KEYS if isinstance(found := self.metadata.get(key), (str, int))), "")

    @property
    def node(self) -> str:
        """The node of a LangGraph graph in which it runs, "" for none."""
        return text(self.metadata.get("langgraph_node"))

    @property
    def place(self) -> tuple[str, str]:
        """What tells executions of nodes apart: the node, and its namespace in the checkpoints."""
        return self.node, text(self.metadata.get("langgraph_checkpoint_ns"))


def looks_like_runs(head: bytes) -> bool:
    """Whether a file begins like exported runs."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return start in (b"[", b"{") and _TYPE.search(head) is not None and _PLACE.search(head) is not None


def runs_of(data: bytes) -> dict[str, Run]:
    """Every run of a file by its id, in order of appearance. Raises Malformed."""
    told: dict[str, tuple[dict[str, Any], int]] = {}
    for said, line in _entries(data):
        run_id = _id(said.get("id") or said.get("run_id"))
        if not run_id:
            raise Malformed(_at("a run has no id", line))
        known = told[run_id][0] if run_id in told else {}
        kept = {key: value for key, value in said.items() if value is not None and value != {}}
        for key in ("name", "run_type", "parent_run_id"):
            if known.get(key) and kept.get(key) and known[key] != kept[key]:
                raise Malformed(_at(f"two different runs have the id {printable(run_id)}", line))
        told[run_id] = (known | kept, told[run_id][1] if run_id in told else line)
    return {run_id: _run(run_id, said, line) for run_id, (said, line) in told.items()}


def _entries(data: bytes) -> Iterator[tuple[dict[str, Any], int]]:
    """Each run as it was written, parents before their children."""
    for whole, line in documents(data):
        if isinstance(whole, dict) and "run_type" not in whole and "id" not in whole:
            groups = [tables(whole.get(key), key) for key in ("runs", "post", "patch")]
            whole = [said for group in groups for said in group]
        waiting = list(reversed(tables(whole if isinstance(whole, list) else [whole], "the export")))
        while waiting:
            said = waiting.pop()
            children = tables(said.get("child_runs"), "child_runs")
            for child in children:
                child["parent_run_id"] = child.get("parent_run_id") or said.get("id")
            yield {key: value for key, value in said.items() if key != "child_runs"}, line
            waiting += reversed(children)


def _run(run_id: str, said: dict[str, Any], line: int) -> Run:
    extra = table(said.get("extra"), "extra")
    if said.get("start_time") is None:
        raise Malformed(_at(f"run {printable(run_id)} has no start_time", line))
    order = text(said.get("dotted_order")).split(".")[0]
    trace = text(said.get("trace_id")) or (order.partition("Z")[2] if _ID.search(order) else "")
    end = said.get("end_time")
    return Run(
        run_id=run_id,
        parent_id=_id(said.get("parent_run_id")),
        name=text(said.get("name")) or "unknown",
        kind=text(said.get("run_type")),
        start=_moment(said["start_time"], line),
        end=None if end is None else _moment(end, line),
        inputs=said.get("inputs"),
        outputs=said.get("outputs"),
        error=text(said.get("error")),
        extra=extra,
        metadata=table(extra.get("metadata"), "metadata"),
        trace_id=trace,
        said=said,
        line=line,
    )


def _id(said: Any) -> str:
    if said is None:
        return ""
    if not isinstance(said, str):
        raise Malformed("the id of a run is no text")
    return said


def _moment(said: Any, line: int) -> float:
    """Milliseconds since the epoch: written so, or as ISO 8601, which is UTC where it does not say."""
    try:
        if isinstance(said, (int, float)) and not isinstance(said, bool):
            return datetime.fromtimestamp(said / 1000, UTC).timestamp() * 1000
        moment = datetime.fromisoformat(said)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    except (TypeError, ValueError, OverflowError, OSError):
        raise Malformed(_at(f"{printable(str(said))[:60]} is no time", line)) from None


def _at(what: str, line: int) -> str:
    return f"line {line}: {what}" if line > 1 else what


def unwrapped(value: Any) -> Any:
    """What a function gave back: LangSmith keeps only objects, and puts anything else under ``output``."""
    return value["output"] if isinstance(value, dict) and value.keys() == {"output"} else value
