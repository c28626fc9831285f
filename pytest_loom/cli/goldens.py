"""Writing imported runs below a folder: each file whole, nothing replaced that nobody asked to replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_loom.cli.names import Names
from pytest_loom.cli.sampling import Candidate
from pytest_loom.errors import LoomError
from pytest_loom.log.aliases import linked
from pytest_loom.log.files import write_atomically


class Written:
    """The goldens of one import: ``files`` says what became of each, ``changes`` counts that."""

    def __init__(self, folder: Path, force: bool) -> None:
        self.folder = folder
        self.force = force
        self.names = Names(folder)
        self.files: list[dict[str, Any]] = []
        self.changes = {"new": 0, "replaced": 0, "unchanged": 0, "the same as another": 0}
        self._seen: set[Path] = set()

    def put(self, run: Candidate, aliases: dict[str, str]) -> Path:
        """Write one run, and give its file. Raises LoomError where another golden is in its place."""
        data = linked(run.text.read_bytes(), run.links, aliases)
        run.drop()
        path = self.names.of(run.flow, run.name, f"{run.name} {run.alias}")
        if path.is_symlink():
            raise LoomError("a link is in the golden's place; nothing is written through it", path=str(path))
        if path in self._seen:
            change = "the same as another"
        elif not path.exists():
            change = "new"
        elif path.read_bytes() == data:
            change = "unchanged"
        elif self.force:
            change = "replaced"
        else:
            raise LoomError(
                "a golden of this name is there already, with other content; it was left as it is",
                path=str(path),
                execution_id=run.was,
                hint="Look at what changed, then import with --force, or into another folder.",
            )
        if change in ("new", "replaced"):
            write_atomically(path, data)
        self._seen.add(path)
        self.changes[change] += 1
        facts = {"file": path.relative_to(self.folder).as_posix(), "flow": run.flow, "executionId": run.was}
        more = {"alias": run.alias, "status": run.status, "events": run.events, "bytes": len(data), "change": change}
        self.files.append(facts | more)
        return path
