"""Candidates for review: what a failed test would have its golden be is kept beside it, as ``*.new``.

Written where accepting would write the golden itself, and by the same rules: after the test, whole, without secrets, by
one process at a time. Gone when the test passes again, or when a change of the golden is accepted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_loom.errors import LoomError
from pytest_loom.log import candidates
from pytest_loom.log.event import Log
from pytest_loom.plugin.accepted import as_golden
from pytest_loom.plugin.goldens import GoldenRef, file_runs
from pytest_loom.plugin.keys import FACTS, FAILED, PASSED
from pytest_loom.plugin.options import SETTINGS, shown

if TYPE_CHECKING:
    from pytest_loom.flow.recorder import Scrubs


class Pending:
    """What one test compares with one golden, and what becomes of that once the test is over."""

    def __init__(self, request: pytest.FixtureRequest, ref: GoldenRef, golden: Log) -> None:
        self.request = request
        self.ref = ref
        self.golden = golden
        self.found: list[tuple[Log, Mapping[str, Any]]] = []
        request.addfinalizer(self.settle)

    def differs(self, candidate: Log, rules: Mapping[str, Any]) -> None:
        """A run was compared with the golden, and is different."""
        self.found.append((candidate, rules))

    def settle(self) -> None:
        """After the test: keep the candidate of one that failed, let go of that of one that passed."""
        stash = self.request.node.stash
        with contextlib.suppress(OSError, LoomError):  # a folder that cannot be written to spoils no test
            if stash.get(PASSED, False):
                candidates.drop(self.ref.path, self.golden.execution_id, test=self.request.node.nodeid)
            elif stash.get(FAILED, False) and self.found and self.request.config.stash[SETTINGS].pending:
                self.keep()

    def keep(self) -> None:
        """Keep the candidate, where there is one that could be accepted."""
        from pytest_loom.evals.diff import diff_runs
        from pytest_loom.plugin.recording import scrubber

        run, rules = self.found[-1]
        told = candidates.compared(rules)
        if any(diff_runs(run, other, **told.rules) for other, _ in self.found[:-1]):
            return  # different runs were compared with one golden: which of them should it be?
        error = run.state.variables.get("_error") if run.state.status == "failed" else None
        if isinstance(error, dict) and str(error.get("type")).rpartition(".")[2] == "ReplayDivergence":
            return  # not a run, but where one could not go on
        if any(getattr(item, "source", "") != "loom" for item in file_runs(self.ref.path)):
            return
        made = _scrubbed(as_golden(run, self.golden, self.golden.execution_id), scrubber(self.request.config))
        candidates.keep(self.ref.path, made, candidates.Facts(self.request.node.nodeid, told))
        name = shown(self.ref.path, self.request.config.invocation_params.dir)
        self.request.node.stash.setdefault(FACTS, {}).setdefault("pending", []).append(f"{name} {made.execution_id}")


def _scrubbed(log: Log, scrub: Scrubs) -> Log:
    events = [msgspec.structs.replace(event, raw=msgspec.Raw(scrub.raw(bytes(event.raw)))) for event in log.events]
    return Log(events, path=log.path, engine=log.engine)
