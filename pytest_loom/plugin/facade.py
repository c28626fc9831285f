"""The ``loom`` fixture: loading, comparing, scoring and simulating, with what the test's marker says applied."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_loom.errors import ReplayDivergence
from pytest_loom.evals.values import MISSING
from pytest_loom.plugin.goldens import check_marker, diff_rules
from pytest_loom.plugin.keys import MUTATION
from pytest_loom.plugin.options import SETTINGS
from pytest_loom.plugin.recording import (
    COUNT,
    Recording,
    allowed,
    effects,
    guarded,
    recorded_question,
    scrubber,
    telling,
    writable,
)

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
        request.node.stash[COUNT] = 0  # the same test may run more than once
        if self._marker is not None:
            check_marker(self._marker)

    def load(self, path: str | os.PathLike[str]) -> Log:
        """The log in a file that holds exactly one execution (``load_log``)."""
        from pytest_loom import load_log

        log = load_log(self._path(path))
        mutation = self._request.config.stash.get(MUTATION, None)
        return log if mutation is None else mutation.hand_out(self._request.node, self._path(path), log, {})

    def record(
        self,
        flow: Any,
        input: Any = MISSING,
        *,
        path: str | os.PathLike[str] | None = None,
        events: Iterable[tuple[str, Any]] = (),
        ignore: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> Log:
        """Replay the golden of this call on today's code, and fail where the run came out differently.

        The golden is ``path``, the marker's, or one beside the test file that is named after the test. It is made, and
        made anew, under ``--snapshot-update`` only: the flow then runs (``events`` answer its gates), calls out only
        with ``--loom-live``, and the recording is kept if it replays and the test passes. ``ignore`` adds to the
        marker's; ``allow`` opens the guard for local services.
        """
        from pytest_loom import record, replay

        plan = Recording(self._request, flow, input, path, events, ignore)
        options = self._effects()
        with telling(self._request, plan.golden):
            golden = plan.to_replay()
            if golden is not None:
                return plan.replayed(replay(golden, flow, **self._closed(plan.ignore, allow)))
            with guarded(self._request, allow):
                log = record(flow, input, events=plan.events, **options)
            with plan.baseline():
                again = replay(log, flow, **self._closed(plan.ignore, allow))
            return plan.recorded(log, again)

    async def arecord(
        self,
        flow: Any,
        input: Any = MISSING,
        *,
        path: str | os.PathLike[str] | None = None,
        events: Iterable[tuple[str, Any]] = (),
        ignore: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> Log:
        """``record`` for async tests."""
        from pytest_loom import arecord, areplay

        plan = Recording(self._request, flow, input, path, events, ignore)
        options = self._effects()
        with telling(self._request, plan.golden):
            golden = plan.to_replay()
            if golden is not None:
                return plan.replayed(await areplay(golden, flow, **self._closed(plan.ignore, allow)))
            with guarded(self._request, allow):
                log = await arecord(flow, input, events=plan.events, **options)
            with plan.baseline():
                again = await areplay(log, flow, **self._closed(plan.ignore, allow))
            return plan.recorded(log, again)

    def replay(
        self,
        log: Log,
        flow: Any,
        *,
        on_divergence: Literal["raise", "record"] = "raise",
        ignore: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> Log:
        """Today's code against a recorded log (``replay``), under the marker's rules: the candidate.

        Under ``--snapshot-update``, where today's code does something else than its golden, it is recorded anew with
        the golden's input and answers, so that the new run can be accepted.
        """
        from pytest_loom import record, replay

        closed = self._closed(self._ignored(ignore), allow)
        with telling(self._request, log):
            try:
                self._check_made(log)
                return replay(log, flow, on_divergence=on_divergence, **closed)
            except ReplayDivergence:
                if not self._renews(log):
                    raise
            question, answers = recorded_question(log)
            with guarded(self._request, allow):
                return record(flow, question, events=answers, **self._effects())

    async def areplay(
        self,
        log: Log,
        flow: Any,
        *,
        on_divergence: Literal["raise", "record"] = "raise",
        ignore: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> Log:
        """``replay`` for async tests."""
        from pytest_loom import arecord, areplay

        closed = self._closed(self._ignored(ignore), allow)
        with telling(self._request, log):
            try:
                self._check_made(log)
                return await areplay(log, flow, on_divergence=on_divergence, **closed)
            except ReplayDivergence:
                if not self._renews(log):
                    raise
            question, answers = recorded_question(log)
            with guarded(self._request, allow):
                return await arecord(flow, question, events=answers, **self._effects())

    def resume(
        self,
        log: Log,
        flow: Any,
        *,
        event: str | None = None,
        payload: Any = None,
        correlation_key: str | None = None,
        allow: Iterable[str] = (),
    ) -> Log:
        """Go on with a run (``resume``): what follows its history runs, and calls out only with ``--loom-live``."""
        from pytest_loom import resume

        answer = {"event": event, "payload": payload, "correlation_key": correlation_key}
        with telling(self._request), guarded(self._request, allow):
            return resume(log, flow, **answer, **self._effects())

    async def aresume(
        self,
        log: Log,
        flow: Any,
        *,
        event: str | None = None,
        payload: Any = None,
        correlation_key: str | None = None,
        allow: Iterable[str] = (),
    ) -> Log:
        """``resume`` for async tests."""
        from pytest_loom import aresume

        answer = {"event": event, "payload": payload, "correlation_key": correlation_key}
        with telling(self._request), guarded(self._request, allow):
            return await aresume(log, flow, **answer, **self._effects())

    def fork(self, log: Log, at_sequence: int, *, answer: Any = MISSING) -> Log:
        """A new run with the history of ``log`` up to an event, whose answer may be another (``fork``)."""
        from pytest_loom import fork

        return fork(log, at_sequence, answer=answer)

    async def afork(self, log: Log, at_sequence: int, *, answer: Any = MISSING) -> Log:
        """``fork`` for async tests."""
        return self.fork(log, at_sequence, answer=answer)

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
        self,
        logs: Iterable[Log] | Log | str | os.PathLike[str],
        flows: Any = None,
        *,
        contract: Any = None,
        scope: Any = "auto",
        policy: Any = None,
    ) -> DeployReport:
        """Simulate a deploy (``simulate_deploy``) against ``flows``, by default those of the ``loom_flows`` fixture.

        Without ``contract`` those that were captured (``loom_contracts``) are taken for yesterday's.
        """
        from pytest_loom import simulate_deploy
        from pytest_loom.plugin.items import checks_of, kept_contracts

        if isinstance(logs, (str, os.PathLike)):
            logs = self._path(logs)
        if flows is None:
            flows = self._request.getfixturevalue("loom_flows")
        if contract is None:
            contract = kept_contracts(self._request.config)
        checks = checks_of(self._request.node)
        return simulate_deploy(logs, flows, contract=contract, scope=scope, policy=policy, checks=checks)

    def _effects(self) -> dict[str, Any]:
        config = self._request.config
        return {"effects": effects(config), "scrub": scrubber(config)}

    def _closed(self, ignore: list[str], allow: Iterable[str]) -> dict[str, Any]:
        allow = [*allowed(self._request.config), *allow]
        return {**self._effects(), "ignore": ignore, "allow": allow, "writable": writable(self._request)}

    def _ignored(self, ignore: Iterable[str]) -> list[str]:
        own = diff_rules(self._marker).get("ignore", ()) if self._marker is not None else ()
        return [*own, *ignore]

    def _renews(self, log: Log) -> bool:
        return log.golden is not None and log.golden.accept is not None

    def _check_made(self, log: Log) -> None:
        if self._renews(log):
            recorded_question(log)  # a golden that is still to be made has none, and says so

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
