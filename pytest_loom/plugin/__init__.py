"""The pytest plugin: hooks, options and fixtures, each a few lines that call the parts beside it.

Imports nothing but pytest and the standard library until a loom feature is used, so that other test suites in the
same environment do not pay for it (DESIGN section 10). PYTEST_DONT_REWRITE: no assertion in here is for users.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loom.plugin.keys import COLLECTED, FACTS, FAILED, PASSED
from pytest_loom.plugin.options import SETTINGS, accept_command, add_options, failing, hide_summaries, read_settings

if TYPE_CHECKING:
    from pytest_loom.log.event import Log
    from pytest_loom.plugin.facade import Loom

_MARKER = (
    "loom(*paths, ignore=, compare=, tolerance=, comparators=, unordered=, scorers=, thresholds=): the golden logs of"
    " a test, one parameter each, and the rules by which runs are compared and scored"
)

_FIXTURES = frozenset({"loom", "loom_golden", "loom_snapshot"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare flags and settings."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare pytest-loom's own hooks."""
    from pytest_loom.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Judge the settings, and start what this run is known to need; the rest starts with a test that needs it."""
    config.addinivalue_line("markers", _MARKER)
    settings = config.stash[SETTINGS] = read_settings(config)
    config.stash[COLLECTED] = set()
    hide_summaries(config)
    if settings.simulate:
        config.pluginmanager.import_plugin("pytest_loom.plugin.items")
    if settings.mutate:
        from pytest_loom.plugin.mutate import Mutation

        config.pluginmanager.register(Mutation(config), "loom-mutation")
    if settings.simulate or settings.mutate or settings.update or config.getoption("dist", "no") != "no":
        _start(config)


def _start(config: pytest.Config) -> None:
    """Account for what tests tell, and guard the snapshots: once, and only in a run that uses pytest-loom."""
    if not config.pluginmanager.has_plugin("loom-accounting"):
        from pytest_loom.plugin.guard import install
        from pytest_loom.plugin.session import Accounting, Sharing

        install(config)
        worker = hasattr(config, "workerinput")
        config.pluginmanager.register(Sharing() if worker else Accounting(config), "loom-accounting")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let users' sources be asked, from here to the end of the session."""
    config = session.config
    answers = config.hook.pytest_loom_sources(config=config)
    if any(answers):
        from functools import partial

        from pytest_loom.sources import register_source, unregister_source

        for source in [source for answer in answers for source in answer]:
            register_source(source)
            config.add_cleanup(partial(unregister_source, source))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note what was collected whole: a file that skips itself while it is imported (``importorskip``) was not."""
    report = yield
    if report.passed and isinstance(collector, pytest.File):
        collector.config.stash[COLLECTED].add(str(collector.path))
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per golden log."""
    if not _FIXTURES.isdisjoint(metafunc.fixturenames):
        _start(metafunc.config)
        if "loom_golden" in metafunc.fixturenames:
            from pytest_loom.plugin.goldens import parametrize

            parametrize(metafunc)
        if "loom" in metafunc.fixturenames:
            from pytest_loom.plugin.goldens import may_record

            may_record(metafunc)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test's facts ride on its report, and show of our own errors the test's frames rather than ours."""
    _hide_our_frames(call.excinfo)
    report = yield
    if report.when == "call":
        item.stash[PASSED], item.stash[FAILED] = report.passed, report.failed
    facts = item.stash.get(FACTS, None)
    if facts is not None:
        report.loom = facts  # type: ignore[attr-defined]
    return report


def _hide_our_frames(excinfo: pytest.ExceptionInfo[BaseException] | None) -> None:
    """An error raised on purpose says what to do: where in pytest-loom it was raised says nothing to anybody."""
    errors = sys.modules.get("pytest_loom.errors")
    if excinfo is None or errors is None or not isinstance(excinfo.value, errors.LoomError):
        return
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pytest_loom":
            module.__dict__.setdefault("__tracebackhide__", _is_loom_error)


def _is_loom_error(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Asked by pytest of a frame of ours. ``--full-trace`` shows it all the same."""
    return isinstance(excinfo.value, sys.modules["pytest_loom.errors"].LoomError)


@pytest.hookimpl(tryfirst=True)
def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison of runs step by step."""
    diff = sys.modules.get("pytest_loom.evals.diff")
    if diff is None or op != "==":
        return None
    from pytest_loom.evals.explain import explain
    from pytest_loom.log.event import Log

    if isinstance(left, Log) and isinstance(right, Log):
        return ["two logs are never equal to each other:", "  write assert diff_runs(golden, candidate) == []"]
    for differences, other in ((left, right), (right, left)):
        if isinstance(differences, diff.Differences) and differences and other == []:
            nodeid = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            golden = differences.golden
            writable = golden.golden is not None and golden.source == "loom"
            accept = accept_command(config, nodeid) if nodeid and writable else ""
            try:
                return list(explain(differences, accept=accept))
            except Exception as problem:  # pytest would show our own traceback in place of the failed assertion
                return [f"{len(differences)} differences (cannot be explained: {problem!r})", *map(str, differences)]
    return None


@pytest.fixture
def loom(request: pytest.FixtureRequest) -> Loom:
    """Load, compare, score and simulate, with what the test's marker says applied."""
    from pytest_loom.plugin.facade import Loom

    return Loom(request)


@pytest.fixture
def loom_golden(request: pytest.FixtureRequest) -> Log:
    """The golden log that ``@pytest.mark.loom(path)`` names; one test per log where there are several."""
    from pytest_loom.plugin.goldens import golden_of

    return golden_of(request)


@pytest.fixture
def loom_flows(request: pytest.FixtureRequest) -> Any:
    """Today's flows, as ``simulate_deploy`` takes them. Override it where a setting is not enough."""
    from pytest_loom.errors import FlowError
    from pytest_loom.plugin.items import flows_for

    try:
        return flows_for(request.node)
    except FlowError as error:
        raise failing(str(error)) from None


@pytest.fixture
def loom_snapshot(request: pytest.FixtureRequest) -> Any:
    """``assert run == loom_snapshot``: a run's summary (no ids, no times), kept by syrupy."""
    from pytest_loom.plugin.snapshot import make_snapshot

    return make_snapshot(request)
