"""Inspect AI's evaluation logs, ``.eval`` and ``.json``, as one log a sample and epoch, without Inspect.

The format is versioned but not frozen; Inspect's own ``read_eval_log`` is what it is compared with in tests. All that
was written since 0.3.27 (2024) is read: the events of a sample, messages and calls that were pooled, attachments, and
samples in chunks; of older ones, which have no events, the messages. Nothing resumes an evaluation's sample, so the
logs are traces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import read_document
from pytest_loom.sources.inspect_ai.archive import Archive, looks_like_archive
from pytest_loom.sources.inspect_ai.sample import sample_log
from pytest_loom.sources.outline import outline
from pytest_loom.sources.shape import MAX_DEPTH, Malformed, document, table, tables

__all__ = ["InspectSource", "source"]


class InspectSource:
    """Reads the files of a log directory of Inspect."""

    name = "inspect"
    engine: Engine = "trace"
    live = False
    suffixes = (".eval", ".json", ".json.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB begin an evaluation log; the suffix ``.eval`` is enough (then damage is named)."""
        if path.suffix == ".eval" or looks_like_archive(head):
            return True
        keys = outline(head)
        return {"version", "eval.task", "eval.model"} <= keys or {"eval.task", "eval.task_id", "eval.created"} <= keys

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """Each sample of the file as a log, or what is wrong with it."""
        try:
            with path.open("rb") as stream:
                is_archive = stream.read(2) == b"PK" or path.suffix == ".eval"
            yield from _archived(path) if is_archive else _listed(path)
        except Malformed as problem:
            yield _refusal(str(problem), path)
        except LogError as error:
            yield error


def _listed(path: Path) -> Iterator[Log | LogError]:
    """The samples of a ``.json`` log."""
    whole = table(parsed(read_document(path)), "the log")
    header = {key: value for key, value in whole.items() if key != "samples"}
    samples = tables(whole.get("samples"), "samples")
    if not samples:
        yield _refusal(
            "it has no samples: the evaluation ended before its first one, or only its header was kept", path
        )
    for number, sample in enumerate(samples, 1):
        yield sample_log(sample, header, path, number)


def _archived(path: Path) -> Iterator[Log | LogError]:
    """The samples of a ``.eval`` log, each unpacked when its turn comes."""
    with Archive(path) as archive:
        start = archive.names & {"header.json", "_journal/start.json"}
        if not start:
            raise Malformed("it has neither header.json nor _journal/start.json")
        header = table(parsed(archive.read(min(start, key=("header.json", "_journal/start.json").index))), "the header")
        if not archive.samples:
            yield _refusal("it has no samples: the evaluation ended before its first one", path)
        for number, name in enumerate(archive.samples, 1):
            try:
                sample = table(archive.sample(name, parsed), "a sample")
            except (Malformed, LogError) as problem:
                what = problem.what if isinstance(problem, LogError) else str(problem)
                hint = problem.hint if isinstance(problem, LogError) else ""
                yield _refusal(f"sample {number}: {what}", path, hint)
                continue
            yield sample_log(sample, header, path, number)


def parsed(data: bytes) -> Any:
    """A JSON text of Inspect's, which writes numbers that are none as NaN and Infinity: they become texts.

    Raises Malformed.
    """
    try:
        return document(data)
    except Malformed:
        if b"NaN" not in data and b"Infinity" not in data:
            raise
    try:
        plain = json.dumps(json.loads(data, parse_constant=str))
    except (ValueError, RecursionError) as problem:
        kind = "it nests too deep" if isinstance(problem, RecursionError) else "it is not JSON"
        raise Malformed(f"{kind} (more than {MAX_DEPTH} levels, or {type(problem).__name__})") from None
    return document(plain.encode())


def _refusal(what: str, path: Path, hint: str = "") -> LogError:
    return LogError(f"not a readable Inspect log: {what}", path=str(path), hint=hint)


source = InspectSource()
