"""The corpora that the benchmarks measure on: made here, the same on every machine."""

from __future__ import annotations

from pathlib import Path

STEPS = 9
EVENTS_A_RUN = 2 * STEPS + 2


def write_runs(path: Path, events: int) -> Path:
    """A file of finished refund runs, one after the other, with about ``events`` events of about 220 bytes."""
    with path.open("w", encoding="utf-8") as file:
        for run in range(events // EVENTS_A_RUN):
            lines = [("EXECUTION_STARTED", f'{{"input":{{"order":"o-{run}","amount":{run}}}}}')]
            for step in range(STEPS):
                lines.append(("STEP_STARTED", f'{{"stepId":"step-{step}","input":{{"order":"o-{run}"}}}}'))
                output = f'{{"verdict":"ok","amount":{run},"note":"abcdefghijklmnopqrstuvwxyz"}}'
                lines.append(("STEP_COMPLETED", f'{{"stepId":"step-{step}","output":{output}}}'))
            lines.append(("EXECUTION_COMPLETED", '{"output":{"ok":true}}'))
            for sequence, (kind, payload) in enumerate(lines, 1):
                file.write(
                    f'{{"executionId":"run-{run:06d}","workflowId":"refund","sequence":{sequence},'
                    f'"timestamp":{1_700_000_000_000 + sequence},"eventType":"{kind}","schemaVersion":"1.15.0",'
                    f'"payload":{payload}}}\n'
                )
    return path


def contract() -> dict[str, object]:
    """The contract that those runs fit."""
    return {"workflowId": "refund", "steps": {f"step-{step}": {} for step in range(STEPS)}}
