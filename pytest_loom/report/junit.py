"""What the testcase of a simulation carries in JUnit XML: one property ``loom`` that holds JSON text."""

from __future__ import annotations

import json
from collections import Counter

from pytest_loom.deploy.report import WORST_FIRST, DeployReport

SCHEMA = 1


def property_of(report: DeployReport) -> str:
    """``{"schema", "ok", "verdict", "verdicts", "codes"}`` and the numbers of ``summary``, the same for the same runs.

    ``verdict`` is the worst of the runs' (``resume`` without any), ``verdicts`` counts them, ``codes`` counts the
    findings that nobody accepted.
    """
    verdicts: Counter[str] = Counter()
    for (verdict, *_), count in report.run_rows.kinds.items():
        verdicts[verdict] += count
    codes: Counter[str] = Counter()
    for (state, code), count in report.finding_rows.kinds.items():
        codes[code] += count if state != "acknowledged" else 0
    facts = {
        "schema": SCHEMA,
        "ok": report.ok,
        "verdict": next((verdict for verdict in WORST_FIRST if verdict in verdicts), "resume"),
        **report.summary(),
        "verdicts": {verdict: verdicts[verdict] for verdict in WORST_FIRST if verdict in verdicts},
        "codes": dict(sorted((+codes).items())),
    }
    return json.dumps(facts)


def not_judged(logs: int = 1) -> str:
    """The property where nothing could be judged: ``{"schema", "ok": false, "verdict": "not-judged", "logs"}``."""
    return json.dumps({"schema": SCHEMA, "ok": False, "verdict": "not-judged", "logs": logs})
