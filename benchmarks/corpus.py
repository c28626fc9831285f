"""The corpora that the benchmarks measure on: made here, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

STEPS = 9
EVENTS_A_RUN = 2 * STEPS + 2

KINDS = (
    "finished",
    "waiting",
    "waiting, results with schemas",
    "a third waiting",
    "finished, 700 bytes a result",
    "mixed",
)
"""Of what a corpus of runs is made. In a ``mixed`` one the lines of ten runs lie among each other."""

_TEXT = "Lorem ipsum dolor sit amet, consectetur adipiscing elit. " * 13
_RESULT = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}, "amount": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["verdict", "amount"],
}


def write_runs(path: Path, events: int, kind: str = "finished") -> Path:
    """A file of refund runs, one after the other, with about ``events`` events of about 220 bytes."""
    runs = (lines(run, kind) for run in range(events // EVENTS_A_RUN))
    with path.open("w", encoding="utf-8") as file:
        for ten in zip(*[runs] * 10, strict=True) if kind == "mixed" else ((run,) for run in runs):
            file.writelines(line for together in zip(*ten, strict=True) for line in together)
    return path


def write_corpus(folder: Path, runs: int, files: int = 10) -> list[Path]:
    """Files of about 2 kB a run: in every other one the lines of ten runs lie among each other; every hundredth run
    waits, every thousandth has done a step that the contract lacks, and one in each file is of a flow of its own."""
    found = []
    for number in range(files):
        path = folder / f"part-{number:02}.loom.jsonl"
        mine = range(number * runs // files, (number + 1) * runs // files)
        texts = (
            lines(
                run,
                "finished" if run % 100 else "waiting",
                steps=4 if run % 1000 else STEPS + 1,
                flow="refund" if run != mine[len(mine) // 2] else f"refund-{number}",
            )
            for run in mine
        )
        with path.open("w", encoding="utf-8") as file:
            while ten := list(islice(texts, 10 if number % 2 else 1)):
                file.writelines(line for together in zip_longest(*ten, fillvalue="") for line in together)
        found.append(path)
    return found


def lines(run: int, kind: str = "finished", *, steps: int = STEPS, flow: str = "refund") -> Iterator[str]:
    """The lines of one run; no two runs have the same values."""
    events = [("EXECUTION_STARTED", f'{{"input":{{"order":"o-{run}","amount":{run}}}}}')]
    for step in range(steps):
        events.append(("STEP_STARTED", f'{{"stepId":"step-{step}","input":{{"order":"o-{run}"}}}}'))
        note = _TEXT[run % 40 :] if "700" in kind else "abcdefghijklmnopqrstuvwxyz"
        output = f'{{"verdict":"ok","amount":{run},"note":"{note}"}}'
        events.append(("STEP_COMPLETED", f'{{"stepId":"step-{step}","output":{output}}}'))
    if kind.startswith("waiting") or (kind == "a third waiting" and not run % 3):
        events.append(("EXECUTION_SUSPENDED", f'{{"on":"Approved","kind":"approval","correlationKey":"o-{run}"}}'))
    else:
        events.append(("EXECUTION_COMPLETED", '{"output":{"ok":true}}'))
    for sequence, (event, payload) in enumerate(events, 1):
        yield (
            f'{{"executionId":"run-{run:06d}","workflowId":"{flow}","sequence":{sequence},'
            f'"timestamp":{1_700_000_000_000 + sequence},"eventType":"{event}","schemaVersion":"1.15.0",'
            f'"payload":{payload}}}\n'
        )


def contract(kind: str = "finished") -> dict[str, Any]:
    """The contract that those runs fit."""
    step = {"outputSchema": _RESULT} if "schemas" in kind else {}
    return {
        "workflowId": "refund",
        "steps": {f"step-{number}": step for number in range(STEPS)},
        "gates": {"Approved": {}},
    }
