"""The example project on goldens that went through an import: its tests replay them as they replay its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_loom.plugin.goldens import GoldenRef, _ids
from tests.cli.conftest import Desk
from tests.pages import ROOT, run


def test_imported_goldens_replay_fine(desk: Desk) -> None:
    """Every log of the example project is replaced by what an import makes of it, and its tests are green."""
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    shutil.copytree(ROOT / "example_project", desk.folder / "example_project", ignore=ignore)
    logs = sorted((desk.folder / "example_project/tests/logs").rglob("*.loom.jsonl"))
    assert len(logs) > 10
    for number, file in enumerate(logs):
        folder = Path(f"goldens-{number}")
        assert desk("import", file, "-o", folder).status == 0
        (golden,) = folder.rglob("*.loom.jsonl")
        assert golden.read_bytes() != file.read_bytes()
        shutil.copyfile(golden, file)
    # The summaries of test_snapshots.py are called after the runs, which are called otherwise now.
    done = run("python -m pytest example_project -q --ignore example_project/tests/test_snapshots.py", desk.folder)
    assert done.returncode == 0, done.stdout


def test_parameters_are_called_after_imported_files() -> None:
    """A test over imported goldens is called after their files, since their ids say nothing; others as before."""
    refs = [
        GoldenRef(Path("goldens/refund/rel-1.40.loom.jsonl"), "run-0123456789ab"),
        GoldenRef(Path("goldens/refund/rel-1.41.loom.jsonl"), "run-aaaaaaaaaaaa"),
        GoldenRef(Path("logs/approved.loom.jsonl"), "refund-1001"),
    ]
    assert _ids(refs) == ["rel-1.40", "rel-1.41", "refund-1001"]
