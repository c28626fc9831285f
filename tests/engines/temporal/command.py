"""``pytest --loom-deploy-sim`` in a folder, as a process of its own that is killed when it hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]

SECONDS = 120
"""How long one simulation may take; usually it is a few seconds."""


def simulate(folder: Path, app: str) -> tuple[int, dict[str, Any]]:
    """Simulate the deploy of ``app`` (a module with ``flows``) over ``folder/store``: exit status and report."""
    (folder / "app.py").write_text(textwrap.dedent(app))
    (folder / "pytest.ini").write_text("[pytest]\nloom_logs = store/*.json\nloom_flows = app:flows\n")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p pytest_loom.plugin -p syrupy -p no:cacheprovider",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--loom-deploy-sim", "--loom-report=report.json", "-q"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=environment,
    )
    assert (folder / "report.json").exists(), done.stdout[-3000:] + done.stderr[-2000:]
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return done.returncode, report
