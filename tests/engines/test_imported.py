"""An imported run is judged as the run in its store: the shared cases, each from both, on old code and on new."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CASES = os.environ.get("LOOM_CASES")
PACKAGES = {"langgraph": "langgraph", "openai_agents": "agents", "pydantic_ai": "pydantic_ai"}
"""What the applications of a framework import."""

CHOSEN = {
    "langgraph": (
        *("lg-deploy-gate-renamed", "lg-newsletter-inner-review-renamed", "lg-digest-task-inserted"),
        *("lg-deploy-question-inverted", "lg-order-trail-renamed", "lg-booking-toolnode-required-arg"),
        *("lg-payouts-no-longer-guarded", "lg-translate-language-added", "lg-kyc-finished-sibling-renamed"),
    ),
    "openai_agents": ("oa-support-arg-renamed-default", "oa-insurance-agent-renamed", "oa-support-approval-dropped"),
    "pydantic_ai": ("pai-concierge-arg-renamed", "pai-concierge-default-breakfast", "pai-concierge-words-and-name"),
}
"""Cases of every kind, by framework."""

HISTORIES = ("tp-loan-activity-renamed", "tp-loan-activity-appended")

JUDGE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pytest_loom import simulate_deploy
import app
report = simulate_deploy(sys.argv[2], app.flows, contract="loom-contracts")
found = sorted((one.code, one.severity, one.step or "", one.message) for one in report.findings)
print(json.dumps({"ok": report.ok, "findings": found, "notes": report.notes}))
"""

pytestmark = pytest.mark.skipif(CASES is None, reason="needs the shared cases: set LOOM_CASES to their folder")


def cases() -> list[tuple[str, str]]:
    """The chosen cases with their framework."""
    return [(framework, case) for framework, chosen in CHOSEN.items() for case in chosen]


def python(folder: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run this interpreter in a folder where no effect of the application counts."""
    root = os.environ.get("PYTHONPATH", "")
    more = {"EFFECTS_LOG": str(folder / "effects"), "PYTHONDONTWRITEBYTECODE": "1"}
    more["PYTHONPATH"] = os.pathsep.join(filter(None, [path, root]))
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=os.environ | more, capture_output=True, text=True, timeout=120
    )


def judged(folder: Path, code: str, source: str) -> dict[str, Any]:
    """What a simulation says of the runs of ``source`` on this code."""
    done = python(folder, "-c", JUDGE, code, source)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize(("framework", "case"), cases())
def test_the_verdict_is_that_of_the_store(framework: str, case: str, tmp_path: Path) -> None:
    """Codes, severities, steps and words are the same from goldens, on the old code and on the new."""
    package = PACKAGES[framework]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    folder = Path(str(CASES)) / "matrix" / "cases" / framework / case
    for part in ("store", "old", "new"):
        shutil.copytree(folder / part, tmp_path / part)
    imported = ("-m", "pytest_loom", "import", "store", "-o", "goldens", "--flows", "app:flows")
    done = python(tmp_path, *imported, path=str(tmp_path / "old"))
    assert done.returncode == 0, done.stderr
    for code in ("old", "new"):
        store, goldens = (judged(tmp_path, code, source) for source in ("store", "goldens"))
        assert goldens["ok"] == store["ok"]
        assert goldens["findings"] == store["findings"]
        assert bool(goldens["notes"]) == (framework == "openai_agents")
    assert not (tmp_path / "effects").exists()


@pytest.mark.parametrize("case", HISTORIES)
def test_what_a_history_says_is_kept(case: str, tmp_path: Path) -> None:
    """The steps, waits and inputs of a Temporal history are those of its golden, and its engine is Temporal's."""
    from pytest_loom import diff_runs, load_logs

    store = Path(str(CASES)) / "matrix" / "cases" / "temporal" / case / "store"
    assert python(tmp_path, "-m", "pytest_loom", "import", str(store), "-o", "goldens").returncode == 0
    for log in load_logs(store):
        (golden,) = (one for one in load_logs(tmp_path / "goldens") if len(one) == len(log))
        assert (golden.source, golden.engine) == ("temporal", "journal")
        assert diff_runs(log, golden, compare="all") == []
