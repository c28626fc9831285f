"""What the session adds up over all tests and workers: the deploy report, accepted goldens, unused ones.

Facts ride on test reports as plain attributes, so that one accounting serves with and without pytest-xdist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import printable, set_in
from pytest_loom.plugin.goldens import unused_goldens, used_goldens
from pytest_loom.plugin.items import CORPUS, Problem, is_empty_shard, is_simulation, session_files
from pytest_loom.plugin.keys import MUTATION
from pytest_loom.plugin.options import SETTINGS, on_github, raised_at, shown

_WIRE = "loom_goldens"
_DETAILED = 20
"""Of so many accepted goldens it is shown what changed."""


class Sharing:
    """Registered in a worker of pytest-xdist: tells the controller which goldens the tests name."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send it with what the worker has to say at its end."""
        session.config.workeroutput[_WIRE] = sorted(map(str, used_goldens(session.config)))  # type: ignore[attr-defined]


class Accounting:
    """Registered where reports arrive: the only process, or the controller of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.facts: dict[str, dict[str, Any]] = {}
        self.simulations: dict[str, None] = {}
        self.stands_for: dict[str, int] = {}
        self.failed: set[str] = set()
        self.shared: set[Path] = set()
        self.report: Any = None
        self.ok = True
        self.numbers: dict[str, Any] = {}
        self.logs = 0
        self.files = 0
        self.not_judged = 0
        self.errors: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which simulations are going to run."""
        self._expect(item.nodeid for item in session.items)
        self.stands_for.update((item.nodeid, len(item.logs)) for item in session.items if isinstance(item, Problem))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """The same, as a worker says it."""
        self._expect(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over which goldens a worker's tests name. One that crashed is no loss: all collect the same."""
        self.shared.update(Path(name) for name in getattr(node, "workeroutput", {}).get(_WIRE, ()))

    def _expect(self, nodeids: Iterable[str]) -> None:
        self.simulations.update(dict.fromkeys(nodeid for nodeid in nodeids if is_simulation(nodeid)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the newest facts of each test (a rerun replaces what came before)."""
        facts = getattr(report, "loom", None)
        if facts is not None:
            self.facts[report.nodeid] = facts
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Add up the deploy report, show it to the hook, and write it."""
        settings = self.config.stash[SETTINGS]
        if not settings.simulate or self.config.getoption("collectonly", False):
            return
        from pytest_loom.deploy.report import DeployReport

        self.report = DeployReport()
        for nodeid in sorted(self.simulations):
            facts = self.facts.get(nodeid, {"logs": self.stands_for.get(nodeid, 1)})
            self.logs += facts.get("logs", 1)
            self.files += facts.get("files", facts.get("logs", 1))
            if "report" in facts:
                self.report.add(DeployReport.unpacked(facts["report"]))
            else:
                self.not_judged += facts.get("logs", 1)
        broken = any(nodeid in self.failed or "report" not in self.facts.get(nodeid, {}) for nodeid in self.simulations)
        some = bool(self.simulations) or is_empty_shard(self.config)
        self.ok = some and self.report.ok and not broken
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and is_empty_shard(self.config):
            session.exitstatus = exitstatus = pytest.ExitCode.OK
        numbers: dict[str, Any] = {"logs": self.files, "not_judged": self.not_judged}
        if settings.shard is not None:
            shard = f"{settings.shard.number + 1}/{settings.shard.of}"
            numbers |= {"shard": shard, "corpus": self.config.stash[CORPUS]}
        self._publish(numbers)
        asked = bool(self.simulations or settings.reports)
        if exitstatus == pytest.ExitCode.OK and (self.errors or (asked and not self.ok)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _publish(self, numbers: dict[str, Any]) -> None:
        """Show the report to the hook, and write it; what goes wrong is said, and makes the session fail."""
        from pytest_loom.report.forms import write_report

        self.numbers = numbers
        try:
            self.config.hook.pytest_loom_report(config=self.config, report=self.report)
        except Exception as problem:
            what = f"{type(problem).__name__}: {problem}{raised_at(problem)}"
            self.errors.append(f"the pytest_loom_report hook raised {what}")
        mutation = self.config.stash.get(MUTATION, None)
        if mutation is not None:
            self.report.mutants = mutation.report.as_dict()
        for path in self.config.stash[SETTINGS].reports:
            try:
                write_report(self.report, path, ok=self.ok, extra=numbers)
            except (OSError, ValueError) as problem:
                reason = getattr(problem, "strerror", None) or problem
                self.errors.append(f"the report {path} could not be written: {reason}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The verdict of the simulation, what was accepted, and goldens that nothing uses."""
        stats = [report for name in ("error", "skipped") for report in terminalreporter.stats.get(name, ())]
        all_collected = not any(isinstance(report, pytest.CollectReport) for report in stats)
        lines = [*self._lines(), *(self._unused_lines() if all_collected else ())]
        if lines:
            terminalreporter.write_sep("=", self._title())
            for line in self._for_ci(lines) if on_github() else lines:
                _write(terminalreporter, line)

    def _for_ci(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines, none of which GitHub takes for a command, and the commands that annotate the pull request."""
        from pytest_loom.report.github import annotation_lines, inert

        yield from map(inert, lines)
        if self.report is not None:
            yield from annotation_lines(self.report, ok=self.ok, extra=self.numbers)

    def _title(self) -> str:
        if self.report is None:
            return "pytest-loom"
        total = len(session_files(self.config)[0])
        share = self.logs if self.logs >= total else f"{self.logs} of {total}"
        return f"pytest-loom: deploy simulation of {_log_files(share)}"

    def _lines(self) -> Iterator[str]:
        accepted = sorted(one for facts in self.facts.values() for one in facts.get("accepted", []))
        if accepted:
            logs = "golden log" if len(accepted) == 1 else "golden logs"
            yield f"accepted {len(accepted)} {logs}; look at the change before you commit it:"
            quiet = self.config.get_verbosity() < 0
            for number, (path, what, details) in enumerate(accepted):
                yield f"  {path} ({what})"
                yield from () if quiet or number >= _DETAILED else (f"    {printable(line, 76)}" for line in details)
        pending = {path for facts in self.facts.values() for path in facts.get("pending", [])}
        if pending:
            wait = "1 candidate waits" if len(pending) == 1 else f"{len(pending)} candidates wait"
            yield f"{wait} for review beside the golden (*.new): pytest-loom review"
        captured = sorted({path for facts in self.facts.values() for path in facts.get("captured", [])})
        if captured:
            here = self.config.invocation_params.dir
            yield f"captured {len(captured)} contract{'' if len(captured) == 1 else 's'}; commit with the deploy:"
            yield from (f"  {shown(path, here)}" for path in captured)
        if self.report is not None:
            yield from self._simulation_lines()

    def _simulation_lines(self) -> Iterator[str]:
        from pytest_loom.report.text import (
            MOST,
            contract_lines,
            finding_lines,
            full_lines,
            strategy_lines,
            verdict_line,
        )

        yield from (f"note: loom_logs {pattern} matches no file" for pattern in session_files(self.config)[1])
        for note in self.report.all_notes():
            yield from set_in(note, "note: ", "  ")
        yield from self._idle_acks()
        quiet, full = self.config.get_verbosity() < 0, self.config.get_verbosity() > 0
        findings = (found for found in self.report.findings if found.blocks or not quiet)
        changed = self.report.changed
        yield from (
            full_lines(findings, changed=changed) if full else finding_lines(findings, most=MOST, changed=changed)
        )
        if not quiet:
            yield from contract_lines(self.report, full=full)
            yield from strategy_lines(self.report)
            yield from self._corpus_lines()
        is_page = any(path.suffix == ".html" for path in self.config.stash[SETTINGS].reports)
        if not (self.report.ok or quiet or full or is_page):
            yield "what to paste for each way out: -v, or --loom-report=report.html"
        if is_empty_shard(self.config):
            yield "nothing to judge: all recorded runs are in other shards"
        elif not self.simulations:
            yield "nothing was judged: no log file was among the selected tests"
        elif self.report.ok and not self.ok:
            yield from set_in(f"NOT JUDGED: {self._not_judged()}", "", "  ")
        else:
            also = f"; NOT JUDGED: {self._not_judged()}" if self.not_judged else ""
            yield from set_in(f"{verdict_line(self.report)}{also}", "", "  ")
        yield from (f"ERROR: {error}" for error in self.errors)
        if not self.errors:
            here = self.config.invocation_params.dir
            yield from (f"report: {shown(path, here)}" for path in self.config.stash[SETTINGS].reports)

    def _idle_acks(self) -> Iterator[str]:
        """Acknowledgements that no finding of a whole simulation needed: misspelt, or done with."""
        if self.not_judged or self.logs < len(session_files(self.config)[0]):
            return
        for ack in self.config.stash[SETTINGS].acks:
            if not any(ack.covers(found) for found in self.report.findings):
                yield f"note: loom_acks: no finding is {printable(ack.code)} of flow {printable(ack.flow)}"

    def _corpus_lines(self) -> Iterator[str]:
        """What this simulation cannot speak of, where ``loom_logs`` says what the corpus is; a part cannot tell."""
        settings = self.config.stash[SETTINGS]
        is_part = settings.shard is not None or self.logs < len(session_files(self.config)[0])
        if is_part or self.not_judged or not settings.log_patterns:
            return
        for note in self.report.corpus.notes(max_age_days=settings.max_age):
            yield from set_in(note, "note: ", "  ")

    def _not_judged(self) -> str:
        """How many, and where it is said why: a test that never ran says nothing."""
        many = f"{self.not_judged} of {_log_files(self.logs)}, " if self.not_judged else ""
        if any(nodeid not in self.facts and nodeid not in self.failed for nodeid in self.simulations):
            return f"{many}since the run stopped early, see above"
        return f"{many}see the failures above"

    def _unused_lines(self) -> Iterator[str]:
        if not _whole_suite(self.config):
            return
        used = self.shared | used_goldens(self.config)
        settings = self.config.stash[SETTINGS]
        simulated = session_files(self.config)[0] if used and (settings.log_patterns or settings.simulate) else {}
        unused = unused_goldens(used, simulated)
        if unused:
            logs = "golden log is" if len(unused) == 1 else "golden logs are"
            yield f"{len(unused)} {logs} used by no test (pytest-loom never deletes one):"
            yield from (f"  {shown(path, self.config.invocation_params.dir)}" for path in unused)


def _whole_suite(config: pytest.Config) -> bool:
    """Whether everything was collected, so that "unused" can be told: no path or test was named by hand."""
    named = config.args_source is config.ArgsSource.ARGS
    left_out = any(config.getoption(name, None) for name in ("ignore", "ignore_glob"))
    return not named and not left_out and config.invocation_params.dir in (config.rootpath, config.stash[SETTINGS].base)


def _log_files(number: object) -> str:
    return f"{number} log file{'' if number == 1 else 's'}"


def _write(terminal: Any, line: str) -> None:
    """A line of the section, its first word painted where it weighs and the terminal takes colours."""
    from pytest_loom.report.text import PAINT, weight

    word = weight(line)
    if word:
        terminal.write(word, **PAINT[word])
    terminal.write_line(line[len(word) :])
