"""Record the runs of the cases anew, with the code that recorded them.

    python -m tests.native_cases.make_stores [CASE ...]

Each ``[[record]]`` of a case.toml is one run: ``execution``, ``flow``, ``input``, the ``answers`` that it got already,
and ``keep``, how many events a killed process left. ``schema_version`` is that of a later release, which nobody has
yet; ``carried`` runs were taken over to today's code with ``resume_as``. What these two were before is in ``before``.
Times are counted up from a fixed one, so that the same code writes the same bytes.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from pytest_loom import SCHEMA_VERSION, Log, load_log, record, resume_as, write_log
from tests.native_cases.truth import apart, application

HERE = Path(__file__).parent
BEGIN = 1_793_610_000_000
"""2026-11-02, 09:00 UTC, in milliseconds."""


def main(cases: list[str]) -> None:
    """Write the stores of the cases, or of all."""
    for case in [HERE / name for name in cases] or sorted(path.parent for path in HERE.glob("*/case.toml")):
        for run in tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))["record"]:
            carried = run.get("carried", False)
            if carried or "schema_version" in run:
                apart(recorded, case, "old", run, "before")
            apart(taken_over if carried else recorded, case, "new" if carried else "old", run, "store")


def recorded(case: Path, side: str, run: dict[str, Any], folder: str) -> dict[str, Any]:
    """Record one run."""
    flow = application(case, side).flows[run["flow"]]
    answers = [(answer["event"], answer["payload"]) for answer in run.get("answers", [])]
    log = record(flow, run["input"], execution_id=run["execution"], events=answers)
    keep(log, case / folder, run)
    return {}


def taken_over(case: Path, side: str, run: dict[str, Any], folder: str) -> dict[str, Any]:
    """Take the recorded run over to today's code."""
    app = application(case, side)
    log = load_log(case / "before" / f"{run['execution']}.loom.jsonl")
    keep(resume_as(log, app.flows[run["flow"]], transform_state=app.transform_state), case / folder, run)
    return {}


def keep(log: Log, folder: Path, run: dict[str, Any]) -> None:
    """Write a log with steady times, as far as it is to be kept."""
    events = [
        msgspec.structs.replace(event, timestamp=BEGIN + 1000 * event.sequence)
        for event in list(log.events)[: run.get("keep")]
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = write_log(Log(events), folder / f"{run['execution']}.loom.jsonl")
    if "schema_version" in run and folder.name == "store":
        said = f'"schemaVersion":"{SCHEMA_VERSION}"'
        later = said.replace(SCHEMA_VERSION, run["schema_version"])
        path.write_text(path.read_text(encoding="utf-8").replace(said, later), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
