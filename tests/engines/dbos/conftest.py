"""A bench for DBOS: stores written by the real library in processes of their own. Skipped without the extra."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.deploy.shadow import close_shadows
from tests.engines.dbos.changes import APPS, ARGUMENTS

needs_dbos = pytest.mark.skipif(
    importlib.util.find_spec("dbos") is None, reason="needs dbos: pip install pytest-loom[dbos]"
)
PROCESS = Path(__file__).with_name("resumed.py")

_numbers = itertools.count()


class Bench:
    """Applications in folders of their own, each version a module that is loaded under the same name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores: dict[Any, Path] = {}

    def flows(self, text: str) -> dict[str, Any]:
        """Today's flows of an application: as a process has them that has loaded nothing else."""
        folder = self.fresh()
        (folder / "desk_app.py").write_text(text)
        inner: Any = importlib.import_module("dbos._dbos")
        inner._dbos_global_registry = None
        sys.modules.pop("desk_app", None)
        sys.path.insert(0, str(folder))
        try:
            return dict(importlib.import_module("desk_app").flows)
        finally:
            sys.path.remove(str(folder))

    def fresh(self) -> Path:
        """A new folder."""
        folder = self.folder / f"folder-{next(_numbers)}"
        folder.mkdir()
        return folder

    def store(self, app: str, mail: Any = (), text: str | None = None) -> Path:
        """A database in which the run of an application waits; with mail that nobody has read yet."""
        key = (app, tuple(map(tuple, mail)), text)
        if key not in self.stores:
            folder = self.fresh()
            self.run(folder, text or APPS[app], "start", app, json.dumps(ARGUMENTS[app]))
            if mail:
                self.run(folder, text or APPS[app], "send", json.dumps(mail))
            self.stores[key] = folder / "desk.sqlite"
        return self.stores[key]

    def resumed(self, store: Path, text: str, answers: Any) -> dict[str, Any]:
        """What the real DBOS makes of a copy of the store with an application: status, output, error, effects."""
        folder = self.fresh()
        shutil.copytree(store.parent, folder, dirs_exist_ok=True)
        (folder / "effects.log").unlink(missing_ok=True)
        said = self.run(folder, text, "resume", json.dumps(answers))
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found

    def run(self, folder: Path, text: str, *arguments: str) -> str:
        """Run ``resumed.py`` in a folder with an application; what it prints."""
        (folder / "desk_app.py").write_text(text)
        places = {"DESK_DATABASE": f"sqlite:///{folder}/desk.sqlite", "DESK_EFFECTS": str(folder / "effects.log")}
        done = subprocess.run(
            [sys.executable, str(PROCESS), *arguments],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | places,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The bench, its stores kept for the whole run."""
    return Bench(tmp_path_factory.mktemp("dbos"))


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Processes of one test serve no other, and what it registered with DBOS is forgotten."""
    yield
    close_shadows()
    sys.modules.pop("desk_app", None)
    inner = sys.modules.get("dbos._dbos")
    if inner is not None:
        inner._dbos_global_registry = None  # type: ignore[attr-defined]
        inner._dbos_global_instance = None  # type: ignore[attr-defined]
