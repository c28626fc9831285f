"""The ``loom`` fixture: loading, comparing, scoring and simulating, with what the test's marker says applied."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loom.plugin.goldens import check_marker, diff_rules
from pytest_loom.plugin.options import SETTINGS

if TYPE_CHECKING:
    from pytest_loom.deploy.report import DeployReport
    from pytest_loom.evals.diff import Difference
    from pytest_loom.evals.score import Score
    from pytest_loom.log.event import Log
    from pytest_loom.state import ExecutionState


class Loom:
    """What a test needs at hand. Relative paths start from the folder of pytest's configuration file."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._marker = request.node.get_closest_marker("loom")
        if self._marker is not None:
            check_marker(self._marker)

    def load(self, path: str | os.PathLike[str]) -> Log:
        """The log in a file that holds exactly one execution (``load_log``)."""
        from pytest_loom import load_log

        return load_log(self._path(path))

    def diff(self, golden: Log, candidate: Log, **rules: Any) -> list[Difference]:
        """What changed (``diff_runs``), under the marker's rules; [] means the same."""
        from pytest_loom import diff_runs
        from pytest_loom.log.event import Golden, Log

        if self._marker is None or not isinstance(golden, Log) or golden.golden is not None:
            return diff_runs(golden, candidate, **rules)  # one from loom_golden brings the rules along itself
        ruled = Log(golden.events, path=golden.path, source=golden.source, engine=golden.engine)
        ruled.golden = Golden(diff_rules(self._marker))
        found = diff_runs(ruled, candidate, **rules)
        found.golden = golden  # it is no golden that a run could accept
        return found

    def score(
        self, run: Log | ExecutionState, scorers: Any = None, *, thresholds: Mapping[str, float] | None = None
    ) -> dict[str, Score]:
        """Score a run (``score_run``) with the marker's, the given and the ``pytest_loom_scorers`` hook's scorers.

        The test fails where a score is below its threshold (the marker's or the given), did not pass, or where there is
        no scorer. A plain number without a threshold judges nothing.
        """
        from pytest_loom import score_run

        return self._judged(score_run(_state(run), self._scorers(scorers)), thresholds)

    async def ascore(
        self, run: Log | ExecutionState, scorers: Any = None, *, thresholds: Mapping[str, float] | None = None
    ) -> dict[str, Score]:
        """``score`` for async tests."""
        from pytest_loom import ascore_run

        return self._judged(await ascore_run(_state(run), self._scorers(scorers)), thresholds)

    def simulate_deploy(
        self, logs: Iterable[Log] | Log | str | os.PathLike[str], flows: Any = None, *, scope: Any = "auto"
    ) -> DeployReport:
        """Simulate a deploy (``simulate_deploy``) against ``flows``, by default those of the ``loom_flows`` fixture."""
        from pytest_loom import simulate_deploy
        from pytest_loom.plugin.items import checks_of

        if isinstance(logs, (str, os.PathLike)):
            logs = self._path(logs)
        if flows is None:
            flows = self._request.getfixturevalue("loom_flows")
        return simulate_deploy(logs, flows, scope=scope, checks=checks_of(self._request.node))

    def _path(self, path: str | os.PathLike[str]) -> Path:
        return self._request.config.stash[SETTINGS].base / path

    def _scorers(self, given: Any) -> dict[str, Any]:
        from pytest_loom.evals.score import named_scorers

        scorers: dict[str, Any] = {}
        for answer in self._request.node.ihook.pytest_loom_scorers(config=self._request.config):
            scorers.update(answer)
        if self._marker is not None:
            scorers.update(named_scorers(self._marker.kwargs.get("scorers", {})))
        scorers.update(named_scorers(given or {}))
        return scorers

    def _judged(self, scores: dict[str, Score], thresholds: Mapping[str, float] | None) -> dict[str, Score]:
        wanted = dict(self._marker.kwargs.get("thresholds", {})) if self._marker is not None else {}
        wanted.update(thresholds or {})
        if not scores:
            pytest.fail("no scorer was given, and none proves nothing", pytrace=False)
        unknown = sorted(set(wanted) - set(scores))
        if unknown:
            pytest.fail(
                f"thresholds name scorers that do not exist: {', '.join(unknown)} (there are: {', '.join(scores)})",
                pytrace=False,
            )
        low = {
            name: score
            for name, score in scores.items()
            if (score.value < wanted[name] if name in wanted else score.passed is False)
        }
        if low:
            are = "score is" if len(scores) == 1 else "scores are"
            lines = [f"{len(low)} of {len(scores)} {are} too low:"]
            for name, score in low.items():
                need = f", wanted {wanted[name]:g}" if name in wanted else ""
                lines.append(f"  {name}: {score.value:g}{need}{f' ({score.reason})' if score.reason else ''}")
            pytest.fail("\n".join(lines), pytrace=False)
        return scores


def _state(run: Log | ExecutionState) -> ExecutionState:
    from pytest_loom.log.event import Log

    return run.state if isinstance(run, Log) else run
