"""``--loom-mutate``: would anybody notice? Each passed test that uses a golden runs again with mutants of it.

Registered with the flag, in every process that runs tests. Right after a test has passed, while the fixtures around it
still stand, it is run again: once as it is, which has to pass, and once for each mutant, which ``loom_golden``,
``loom.record`` and ``loom.load`` then hand out in the golden's place. Nothing of these runs is reported; a failure is a
mutant that was noticed. Simulations judge mutants of today's flows themselves (``deploy.flow_mutants``).
PYTEST_DONT_REWRITE: no assertion in here is for users.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import warnings
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from pytest_loom.evals.mutants import Mutant, equivalent, is_sampled, mutants_of, mutated
from pytest_loom.plugin.keys import MUTATION
from pytest_loom.plugin.options import on_github, shown
from pytest_loom.report.github import inert
from pytest_loom.report.mutants import Asked, Fate, MutationReport, mutation_lines

if TYPE_CHECKING:
    from pytest_loom.log.event import Log

_WIRE = "loom_mutation"

MOST_OF_A_TEST = 1000
"""How many mutants one test is run with."""

LIMIT_S = 30.0
"""How many seconds a test may take with a mutant: one that has not ended by then has noticed it."""


@dataclass
class Use:
    """A golden as a test got it, and the rules that it was compared under."""

    log: Log
    rules: list[Mapping[str, Any]] = field(default_factory=list)


class TookTooLong(BaseException):
    """Ends a test that a mutant keeps going."""


class Mutation:
    """Runs tests with mutants, and adds up what became of them; in the controller of pytest-xdist it only adds up."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.found = MutationReport()
        self.uses: dict[tuple[str, str], Use] = {}
        self.simulated: dict[str, Any] = {}
        self.not_passed: set[str] = set()
        self.item: pytest.Item | None = None
        self.current: tuple[tuple[str, str], Log] | None = None
        config.stash[MUTATION] = self

    def hand_out(self, node: Any, path: Path, log: Log, rules: Mapping[str, Any]) -> Log:
        """The golden that a test asks for, or the mutant that it is to be tried with."""
        key = (str(path), log.execution_id)
        if self.current is not None:
            return self.current[1] if self.current[0] == key else log
        if node is self.item:
            use = self.uses.setdefault(key, Use(log))
            use.rules.append(rules)
        return log

    def compared(self, path: Path, log: Log, rules: Mapping[str, Any]) -> None:
        """Note the rules under which a test compared a golden."""
        use = self.uses.get((str(path), log.execution_id))
        if use is not None and self.current is None:
            use.rules.append(rules)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Around everything, so that no plugin's time limit or handler counts the runs with mutants."""
        self.item = item
        self.uses = {}
        result = yield
        if isinstance(item, pytest.Function) and self._may_ask(item):
            with self._unseen(item):
                self._ask(item)
            _tear_down(item, nextitem)
        self.uses = {}
        return result

    def _may_ask(self, item: pytest.Item) -> bool:
        """Whether a test used a golden and passed, so that it has something to say of mutants."""
        stopped = item.session.shouldstop or item.session.shouldfail or self.config.getoption("setuponly", False)
        return bool(self.uses) and not stopped and item.nodeid not in self.not_passed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests did not pass: of those nothing can be asked. And take what simulations found."""
        if not (report.passed or report.outcome == "rerun") or hasattr(report, "wasxfail"):  # type: ignore[comparison-overlap]
            self.not_passed.add(report.nodeid)
        facts = getattr(report, "loom", None)
        if facts is not None and "trials" in facts:
            self.simulated[report.nodeid] = facts["trials"]

    def _ask(self, item: pytest.Function) -> None:
        """Run a test with the mutants of all goldens that it used, those first that nobody has noticed yet."""
        asked = self.found.tests[item.nodeid] = Asked()
        asked.steady = self._passes(item)
        if not asked.steady:
            return
        todo: list[tuple[tuple[str, str], Use, Mutant, Fate]] = []
        for key, use in sorted(self.uses.items()):
            mutants = mutants_of(use.log)
            asked.sampled |= is_sampled(use.log)
            name = shown(key[0], self.config.rootpath)
            for mutant in mutants:
                fate = Fate(mutant.operator, name, key[1], mutant.what, mutant.ask)
                todo.append((key, use, mutant, self.found.look(mutant.name, fate)))
        todo.sort(key=lambda entry: entry[3].noticed)
        asked.spared = max(0, len(todo) - MOST_OF_A_TEST)
        for key, use, mutant, fate in todo[:MOST_OF_A_TEST]:
            if fate.noticed and asked.noticed:
                break  # it has shown that it sees, and the rest is seen
            log = mutated(use.log, mutant)
            if log is None:
                continue
            asked.mutants += 1
            self.current = (key, log)
            passed = self._passes(item)
            self.current = None
            if passed:
                fate.looked.append(item.nodeid)
                fate.excuse = fate.excuse or equivalent(use.log, mutant, use.rules)
            else:
                fate.noticed = True
                asked.noticed += 1

    def _passes(self, item: pytest.Function) -> bool:
        """Whether a test passes, or skips itself: then nobody would have noticed."""
        try:
            with _limited(LIMIT_S):
                reports = runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]  # keeps what is around it
        except TookTooLong:
            return False
        finally:
            _tear_down(item, item.parent)
        return not any(report.failed for report in reports)

    @contextlib.contextmanager
    def _unseen(self, item: pytest.Function) -> Iterator[None]:
        """Nothing of the runs with mutants shows: no tracebacks are made, and no snapshot counts as failed."""
        option = self.config.option
        style, sections = getattr(option, "tbstyle", "auto"), len(item._report_sections)
        snapshots = getattr(getattr(self.config, "_syrupy", None), "_assertions", [])
        asserted = len(snapshots)
        option.tbstyle = "no"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            self.current = None
            option.tbstyle = style
            del item._report_sections[sections:]
            del snapshots[asserted:]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a worker found."""
        found = getattr(node, "workeroutput", {}).get(_WIRE)
        if found is not None:
            self.found.add(found)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Send the worker's share, or let the session fail where something survived."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_WIRE] = self.found.as_packed()
        elif session.exitstatus == pytest.ExitCode.OK and not self.report.ok and not self.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def report(self) -> MutationReport:
        """Everything that is known so far, the simulations' mutants included."""
        whole = MutationReport()
        whole.add(self.found.as_packed())
        for nodeid in sorted(self.simulated):
            whole.add_trials(nodeid, self.simulated[nodeid])
        return whole

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The section of the mutants."""
        if self.config.option.collectonly:
            return
        verbose = self.config.get_verbosity() > 0
        terminalreporter.write_sep("=", "pytest-loom: mutants")
        for line in mutation_lines(self.report, verbose=verbose):
            terminalreporter.write_line(inert(line) if on_github() else line)


def _tear_down(item: pytest.Item, nextitem: Any) -> None:
    """Tear down what the next one does not need. What fails there failed, and was told, after the test itself."""
    pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem),
        when="teardown",
        reraise=(pytest.exit.Exception, KeyboardInterrupt),
    )


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in the block once so much time has gone by: between two bytecodes, whatever runs there."""
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    running, raised = True, False

    def end() -> None:
        nonlocal raised
        with lock:
            if running:
                raised = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TookTooLong))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            running = False
            if raised:  # and not delivered yet
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)
        timer.cancel()
