"""A bench for LangGraph: applications from text, stores written by the real library. Skipped without the extra."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.deploy.shadow import close_shadows

NEEDED = ("langgraph", "langgraph.checkpoint.sqlite", "langchain")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


missing = [module for module in NEEDED if not _is_there(module)]
needs_langgraph = pytest.mark.skipif(
    bool(missing), reason=f"needs {', '.join(missing)}: pip install pytest-loom[langgraph]"
)

_numbers = itertools.count()


class Bench:
    """Applications in a folder of their own, each version a module that is loaded under the same name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores: dict[Any, Path] = {}

    def flows(self, text: str) -> dict[str, Any]:
        """Today's flows of an application: its module is ``loom_app``, as the store knows it."""
        folder = self.folder / f"version-{next(_numbers)}"
        folder.mkdir()
        (folder / "loom_app.py").write_text(text)
        sys.modules.pop("loom_app", None)
        sys.path.insert(0, str(folder))
        try:
            return dict(importlib.import_module("loom_app").flows)
        finally:
            sys.path.remove(str(folder))

    def store(
        self, text: str, given: Any, *, answers: list[Any] | None = None, env: dict[str, str] | None = None
    ) -> Path:
        """A store in which one thread, ``t1``, stands where the application stops after input and answers."""
        key = (text, repr(given), repr(answers))
        if key not in self.stores:
            self.stores[key] = self._write(text, given, answers or [], env or {})
        return self.stores[key]

    def _write(self, text: str, given: Any, answers: list[Any], env: dict[str, str]) -> Path:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.types import Command

        path = self.folder / f"store-{next(_numbers)}.sqlite"
        graph = next(iter(self.flows(text).values()))
        connection = sqlite3.connect(path, check_same_thread=False)
        graph.checkpointer = SqliteSaver(connection)
        graph.checkpointer.setup()
        config = {"configurable": {"thread_id": "t1"}}
        os.environ.update(env)
        try:
            graph.invoke(given, config)
            for answer in answers:
                graph.invoke(Command(resume=answer), config)
        except TimeoutError:
            assert env, "only an application that is told to fails"
        finally:
            for name in env:
                del os.environ[name]
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()
        return path


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The bench of this session. The processes of shadow resumes end with it."""
    yield Bench(tmp_path_factory.mktemp("langgraph"))
    close_shadows()
    sys.modules.pop("loom_app", None)
