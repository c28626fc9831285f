"""Keeps syrupy's clean-up away from the files of ``loom_snapshot`` (``*.loomrun``) and cleans up after whole runs only.

syrupy calls a snapshot unused when a run did not touch it, whatever the reason: the test failed first, ``-x`` or
Ctrl-C ended the run, a worker crashed, tests were only collected. Under ``--snapshot-update`` it deletes it then.
So syrupy is told, by its own option for that, not to look at our suffix: nothing that it does can reach our files,
and what it does with other snapshots stays as it is. An unused file is found here, and only after a run that shows it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import printable
from pytest_loom.plugin.keys import COLLECTED
from pytest_loom.plugin.options import SETTINGS, SUFFIX

_WIRE = "loom_snapshot_guard"
_SHOWN = 5


def install(config: pytest.Config) -> None:
    """Put the guard in place; does nothing where syrupy is not loaded."""
    if config.pluginmanager.hasplugin("syrupy") and hasattr(config.option, "ignore_file_extensions"):
        guard = SnapshotGuard(config)
        config.stash[GUARD] = guard
        config.pluginmanager.register(guard, "loom-snapshot-guard")


class SnapshotGuard:
    """What one process saw of the run; under pytest-xdist the controller adds up what its workers saw.

    A run summary is unused when all of this is so: the run was whole (see ``_why_not_whole``), nothing asserted the
    file, and its test file is gone or was collected whole with no test of it skipped. A plain run that finds one ends
    with exit status 1, as syrupy's own do; ``--snapshot-update`` deletes it. A run that was not whole keeps all files.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.asserted: set[str] = set()
        """The files that the running test has asserted so far."""
        self._used: set[str] = set()
        self._files = config.stash[COLLECTED]
        self._collected = 0
        self._left_out = 0
        self._ran: set[str] = set()
        self._failed: dict[str, None] = {}
        self._skipped: set[str] = set()
        self._crashed = False
        self._lines: list[str] = []

    def use(self, location: str) -> None:
        """Note that a test of this run has asserted the file."""
        self.asserted.add(location)
        self._used.add(os.path.realpath(location))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, Any]:
        """Around all others, so that every way to leave tests out is seen, whether or not it is reported."""
        before = {id(item) for item in items}  # not by node id: pytest-xdist's groups rename items
        result = yield
        self._collected = len({item.nodeid for item in items})
        self._left_out = len(before - {id(item) for item in items})
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test counts as run when its body was; ``--setup-only`` passes without running one."""
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.skipped:
            self._ran.add(report.nodeid)
            self._skipped.add(os.path.normpath(self.config.rootpath / report.nodeid.split("::")[0]))
        elif report.when == "call" and report.passed:
            self._ran.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a worker saw. One that crashed took with it which files its tests had used."""
        output = getattr(node, "workeroutput", None)
        self._crashed |= error is not None or output is None
        seen = (output or {}).get(_WIRE)
        if seen is not None:
            self._used.update(seen["used"])
            self._files.update(seen["files"])
            self._collected = max(self._collected, seen["collected"])
            self._left_out = max(self._left_out, seen["left_out"])

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Find the unused files, where this run can tell, and keep, report or delete them."""
        update = self.config.stash[SETTINGS].update
        if not (update or self._used) or self.config.getoption("disable_unused_snapshots", False):
            return
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_WIRE] = {
                "used": sorted(self._used),
                "files": sorted(self._files),
                "collected": self._collected,
                "left_out": self._left_out,
            }
            return
        reason = self._why_not_whole(exitstatus)
        unused = list(self._unused()) if update or not reason else []
        if not unused:
            return
        if reason:
            self._say(f"kept {_summaries(unused)} that this run did not use: {reason}")
        elif update:
            self._delete(unused)
        else:
            fails = not self.config.getoption("warn_unused_snapshots", False)
            so = ", so this run fails" if fails else ""
            self._say(f"{_summaries(unused)} unused{so}: {self._names(unused)}; --snapshot-update deletes unused ones")
            if fails:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """One line on what was kept, found or deleted; nothing where there was nothing."""
        for line in self._lines:
            terminalreporter.write_line(line, yellow=True)

    def _why_not_whole(self, exitstatus: int) -> str:
        """Why this run cannot tell which files are unused, in words; empty when it can."""
        option = self.config.option
        reason = ""
        if option.collectonly:
            reason = "tests were only collected"
        elif exitstatus == pytest.ExitCode.INTERRUPTED:
            reason = "the run was interrupted"
        elif self._crashed:
            reason = "a worker crashed"
        elif self._failed:
            names = ", ".join(printable(name) for name in list(self._failed)[:_SHOWN])
            more = ", …" if len(self._failed) > _SHOWN else ""
            reason = f"{len(self._failed)} {_plural('test', self._failed)} failed ({names}{more})"
        elif exitstatus != pytest.ExitCode.OK:
            reason = f"the run ended with exit status {int(exitstatus)}"
        elif not all((self.config.invocation_params.dir / name).is_dir() for name in option.file_or_dir):
            reason = "only some tests were named on the command line"
        elif self._left_out or getattr(option, "lf", False):
            reason = "some tests were left out (-k, -m, --deselect, --lf, --sw or a plugin)"
        elif len(self._ran) != self._collected:
            reason = f"only {len(self._ran)} of {self._collected} tests ran"
        elif self.config.stash[SETTINGS].update and self.config.getoption("no_cleanup", False):
            reason = "--snapshot-no-cleanup"
        return reason

    def _unused(self) -> Iterator[Path]:
        for folder in sorted({os.path.dirname(name) for name in self._files}):
            found = sorted(Path(folder, self.config.option.snapshot_dirname).glob(f"*/*.{SUFFIX}"))
            if not found:
                continue
            owners: dict[str, set[str]] = {}
            for path in Path(folder).iterdir():
                if path.is_file():
                    owners.setdefault(path.stem, set()).add(str(path))
            for path in found:
                owner = owners.get(path.parent.name, set())
                judged = not owner or (owner & self._files and not owner & self._skipped)
                if judged and os.path.realpath(path) not in self._used:
                    yield path

    def _delete(self, paths: list[Path]) -> None:
        deleted = []
        for path in paths:
            try:
                path.unlink()
            except OSError as problem:
                self._say(f"an unused run summary could not be deleted: {self._names([path])} ({problem.strerror})")
                continue
            deleted.append(path)
            with contextlib.suppress(OSError):  # not empty
                path.parent.rmdir()
        if deleted:
            self._say(f"deleted {_summaries(deleted)} that no test uses any more: {self._names(deleted)}")

    def _names(self, paths: list[Path]) -> str:
        root = self.config.rootpath
        shown = [path.relative_to(root) if path.is_relative_to(root) else path for path in paths[:_SHOWN]]
        names = [printable(str(path), 200) for path in shown]
        return ", ".join(names) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")

    def _say(self, line: str) -> None:
        self._lines.append(f"pytest-loom: {line}")


GUARD = pytest.StashKey[SnapshotGuard]()
"""Where the guard of a pytest session is kept; absent where syrupy is not loaded."""


def _summaries(paths: list[Path]) -> str:
    return f"{len(paths)} run {'summary' if len(paths) == 1 else 'summaries'}"


def _plural(word: str, things: Any) -> str:
    return word if len(things) == 1 else f"{word}s"
