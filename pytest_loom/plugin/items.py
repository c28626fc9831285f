"""The test items of ``--loom-deploy-sim``: one per log file, found by ``loom_logs`` or named on the command line.

This module is a plugin of its own, registered with the flag. The items are ``pytest.Function``s, so that fixtures
(``loom_flows`` above all), ``-k``, ``-x``, ``-n`` and JUnit work. A run is a line of a finding, never an item.
PYTEST_DONT_REWRITE: no assertion in here is for users.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loom.plugin.keys import FACTS
from pytest_loom.plugin.options import (
    ADDRESSES,
    SETTINGS,
    Settings,
    failing,
    flows_target,
    import_flows,
    log_files,
    raised_at,
    shown,
)

if TYPE_CHECKING:
    from pytest_loom.deploy.checks import Check
    from pytest_loom.deploy.report import DeployReport
    from pytest_loom.deploy.timeline import Timelines
    from pytest_loom.log.share import Share

FILES = pytest.StashKey[tuple[dict[Path, "Share | None"], list[str]]]()
"""The log files of this session, each with the share of it that is meant, and the patterns that matched none."""

BYTES = pytest.StashKey[int]()
"""How large the log files of this session are together."""

CORPUS = pytest.StashKey[str]()
"""Where the session is a shard: all files that there are, in one word, so that shards of different ones are told."""

CONTRACTS = pytest.StashKey[Any]()
"""The contracts that were captured before."""

TIMELINES = pytest.StashKey["Timelines"]()
"""What chooses the runs of this process that a report shows in full."""

UNUSABLE = pytest.StashKey[dict[str, Exception]]()
"""The ``module:attr`` whose import failed, and how: what an import does is not done twice."""

CACHE_FOLDER = "pytest-loom"
"""Where pytest's cache directory keeps reports of unchanged files."""

PROMISED = pytest.StashKey[set[int]]()
"""The flows (by object) whose contracts are known to the corpus check."""

ITEM_NAME = "deploy-sim"
PROBLEM_NAME = "loom-deploy-sim"


@dataclass
class Selection:
    """What this session was told to collect, and where collection has been.

    ``logs`` are the log files that the command line names; ``chosen`` says that it names any, or single tests: then
    only those are meant.
    """

    logs: set[Path]
    chosen: bool
    folders: dict[Path, pytest.Collector] = field(default_factory=dict)


SELECTION = pytest.StashKey[Selection]()


class LogFile(pytest.File):
    """A file of recorded runs."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for the whole file; where that is more than one worker's work of pytest-xdist, a part for each."""
        from pytest_loom.deploy.parts import bytes_of, is_divided
        from pytest_loom.log.share import Share

        share = session_files(self.config)[0].get(self.path)
        count = _workers()
        if count > 1 and self.path not in ADDRESSES:
            mine = bytes_of(str(self.path), share)
            count = count if is_divided(mine, session_bytes(self.config), count) else 1
        if count < 2:
            yield DeploySim.made(self, ITEM_NAME, share, self.size)
            return
        for number in range(count):
            part = Share(number, count) if share is None else share.part(Share(number, count))
            yield DeploySim.made(self, f"{ITEM_NAME}[{number + 1}-of-{count}]", part, self.size // count)

    @property
    def size(self) -> int:
        """Its bytes."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


def _workers() -> int:
    """How many workers pytest-xdist has started, which all of them are told alike."""
    told = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    return int(told) if told.isdecimal() else 1


class DeploySim(pytest.Function):
    """Holds the runs of one log file, or the share of them, against today's flows; ``size`` in bytes."""

    share: Share | None = None
    size = 0

    @classmethod
    def made(cls, parent: LogFile, name: str, share: Share | None, size: int) -> DeploySim:
        """The item of a file or of a part of it."""
        item: DeploySim = cls.from_parent(parent, name=name, callobj=deploy_sim)
        item.share, item.size = share, size
        return item

    def reportinfo(self) -> tuple[Path, int, str]:
        """Failures are about the log, not about this module."""
        return self.path, 0, f"{self.parent.name if self.parent else ''}::{self.name}"


class Problem(pytest.Item):
    """Stands for the simulations that cannot even begin for one cause: one readable failure instead of one per log."""

    cause = ""
    logs: tuple[Path, ...] = ()

    def runtest(self) -> None:
        """Fail, saying for which cause and which logs."""
        from pytest_loom.errors import folded
        from pytest_loom.report.junit import not_judged

        self.stash[FACTS] = {"logs": len(self.logs)}
        _tell(self, not_judged(len(self.logs)))
        lines = [f"deploy simulation: {self.cause}"]
        if self.logs:
            names = [shown(path, self.config.invocation_params.dir) for path in self.logs[:3]]
            more = f" and {len(self.logs) - 3} more" if len(self.logs) > 3 else ""
            lines.append(f"  Not judged, therefore: {', '.join(names)}{more}")
        raise failing(folded("\n".join(lines)))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Failures are about the configuration."""
        return self.config.inipath or self.config.rootpath, 0, self.name


def is_simulation(nodeid: str) -> bool:
    """Whether a node id is that of a simulation (pytest-xdist may add the name of a group to it)."""
    name = nodeid.rpartition("::")[2].partition("@")[0].partition("[")[0]
    return name in (ITEM_NAME, PROBLEM_NAME)


def deploy_sim(request: pytest.FixtureRequest, loom_flows: Any) -> None:
    """The body of a simulation item."""
    from pytest_loom.deploy.acks import acknowledge
    from pytest_loom.errors import LoomError, folded
    from pytest_loom.report.junit import not_judged, property_of
    from pytest_loom.report.text import cause_lines

    node = request.node
    config = request.config
    settings = config.stash[SETTINGS]
    share = getattr(node, "share", None)
    try:
        report = _simulated(node, loom_flows, share)
        captured = _captured(settings, loom_flows, report) if settings.update else []
    except LoomError as error:
        _tell(node, not_judged())
        raise failing(folded(f"deploy simulation: not judged: {error}")) from None
    if settings.acks:
        report.finding_rows = report.finding_rows.like(acknowledge(report.findings, settings.acks, date.today()))
    _promise(config, loom_flows, report)
    node.stash[FACTS] = {"report": report.packed(), "captured": captured}
    if settings.mutate:
        node.stash[FACTS]["trials"] = _tried(node, loom_flows, share)
    if share is not None:  # the first part counts for the file: here, and over all shards
        node.stash[FACTS] |= {"logs": int(not share.number % _workers()), "files": int(not share.number)}
    _tell(node, property_of(report))
    if not report.ok:
        raise failing("\n".join(cause_lines(found for found in report.findings if found.blocks)))


def _timelines(config: pytest.Config) -> Timelines | None:
    """Keeps what a few runs of each cause did, over all files, where a report is asked for that shows it."""
    from pytest_loom.report.forms import shows_runs

    if not any(map(shows_runs, config.stash[SETTINGS].reports)):
        return None
    if TIMELINES not in config.stash:
        from pytest_loom.deploy.timeline import Timelines
        from pytest_loom.plugin.recording import scrubber

        config.stash[TIMELINES] = Timelines(scrubber(config))
    return config.stash[TIMELINES]


def _tell(node: pytest.Item, facts: str) -> None:
    """Let JUnit XML say it of the test; a rerun has its own."""
    node.user_properties[:] = [item for item in node.user_properties if item[0] != "loom"]
    node.user_properties.append(("loom", facts))


def _simulated(node: pytest.Item, flows: Any, share: Share | None) -> DeployReport:
    """The report of one item: of a file that is unchanged the one of an earlier session, which pytest's cache keeps."""
    from pytest_loom.deploy.decide import Today
    from pytest_loom.deploy.simulate import simulate_share
    from pytest_loom.deploy.unchanged import report_of
    from pytest_loom.resume.policy import load_policy
    from pytest_loom.sources import LogStream, iter_address, iter_wanted

    settings = node.config.stash[SETTINGS]
    checks = checks_of(node)
    rules: dict[str, Any] = {
        "contract": kept_contracts(node.config),
        "scope": settings.scope,
        "policy": load_policy(settings.policy),
    }
    timelines = _timelines(node.config)
    if node.path in ADDRESSES:
        logs = LogStream(lambda wanted: iter_address(ADDRESSES[node.path], share, wanted))
        return simulate_share(logs, Today(flows), checks=checks, timelines=timelines, **rules)
    file = Path(shown(node.path, node.config.invocation_params.dir))

    def simulate(today: Today) -> DeployReport:
        logs = LogStream(lambda wanted: iter_wanted(file, wanted, share))
        return simulate_share(logs, today, checks=checks, timelines=timelines, **rules)

    is_new = checks or settings.update or timelines is not None  # which no earlier session kept
    folder = None if is_new else _cache_folder(node.config)
    if folder is None:
        return simulate(Today(flows))
    return report_of(file, share, flows, folder, simulate=simulate, **rules)


def _promise(config: pytest.Config, flows: Any, report: DeployReport) -> None:
    """Note all flows that there are today, once: the corpus may have no run of one of them."""
    from pytest_loom.contract.resolve import contract_as, named_flows
    from pytest_loom.errors import LoomError

    promised = config.stash.setdefault(PROMISED, set())
    if id(flows) in promised:
        return
    promised.add(id(flows))
    for name, flow in named_flows(flows).items():
        with contextlib.suppress(LoomError):  # what a run needs of it is said where that run is judged
            report.corpus.promise(name, contract_as(flow, name))


def _tried(node: pytest.Item, flows: Any, share: Share | None) -> dict[str, Any]:
    """What the runs of one item make of mutants of today's flows."""
    from dataclasses import asdict

    from pytest_loom.deploy.acks import acknowledge
    from pytest_loom.deploy.flow_trials import try_mutants
    from pytest_loom.sources import iter_address, iter_file

    settings = node.config.stash[SETTINGS]
    day = date.today()
    if node.path in ADDRESSES:
        runs = iter_address(ADDRESSES[node.path], share)
    else:
        runs = iter_file(Path(shown(node.path, node.config.invocation_params.dir)), share)
    found = try_mutants(
        runs,
        flows,
        contract=kept_contracts(node.config),
        scope=settings.scope,
        policy=settings.policy,
        checks=checks_of(node),
        accepted=lambda findings: acknowledge(findings, settings.acks, day),
    )
    return {name: asdict(trial) for name, trial in found.items()}


def _cache_folder(config: pytest.Config) -> Path | None:
    """Our folder in pytest's cache; None where there is no cache, or none that can be written to."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    try:
        return None if cache is None else cache.mkdir(CACHE_FOLDER)
    except OSError:
        return None


def kept_contracts(config: pytest.Config) -> Any:
    """The contracts that were captured before this session, read as they are asked for; None where none were."""
    from pytest_loom.contract.store import load_contracts

    if CONTRACTS not in config.stash:
        folder = config.stash[SETTINGS].contracts
        config.stash[CONTRACTS] = load_contracts(folder) if folder.is_dir() else None
    return config.stash[CONTRACTS]


def _captured(settings: Settings, flows: Any, report: DeployReport) -> list[str]:
    """Keep today's contracts: of what the logs asked for, and of all that a mapping of flows names."""
    from pytest_loom.contract.resolve import contract_as
    from pytest_loom.contract.store import capture

    contracts = dict(report.contracts)
    if isinstance(flows, Mapping) and "workflowId" not in flows:
        contracts.update((name, contract_as(flow, name)) for name, flow in flows.items() if name not in contracts)
    now = datetime.now(UTC)
    paths = [capture(settings.contracts, contract, now) for contract in contracts.values()]
    return [str(path) for path in paths if path is not None]


def checks_of(node: pytest.Item) -> list[Check]:
    """The checks of the user's own that the hook gives for a test."""
    return [check for answer in node.ihook.pytest_loom_checks(config=node.config) for check in answer]


def flows_for(node: pytest.Item) -> Any:
    """Today's flows for a test: the ``pytest_loom_flows`` hook's answer, else what the ``loom_flows`` setting names.

    Raises FlowError where neither says anything, or what they say cannot be had.
    """
    from pytest_loom.errors import FlowError

    log_path = node.path if isinstance(node, DeploySim) else None
    try:
        answer = node.ihook.pytest_loom_flows(config=node.config, log_path=log_path)
    except Exception as problem:
        what = f"the pytest_loom_flows hook raised {type(problem).__name__}: {problem}{raised_at(problem)}"
        raise FlowError(what, hint="It has to return today's flows, or None to leave it to others.") from problem
    if answer is not None:
        return answer
    settings = node.config.stash[SETTINGS]
    target = flows_target(settings, log_path)
    if target is None:
        what = "loom_flows is not set: against which code should recorded runs be held?"
        if settings.flow_lines:
            what = "no line of loom_flows is for these logs." if log_path else "loom_flows names several applications."
        raise FlowError(
            what,
            hint='Set loom_flows = "module:attr" in pytest\'s configuration, or override the loom_flows fixture.',
        )
    unusable = node.config.stash.setdefault(UNUSABLE, {})
    if target not in unusable:
        try:
            return import_flows(target, settings.base)
        except FlowError as error:
            unusable[target] = error
    raise unusable[target]


def session_files(config: pytest.Config) -> tuple[dict[Path, Share | None], list[str]]:
    """The log files of this session, looked up once, and the patterns that match none."""
    if FILES not in config.stash:
        settings = config.stash[SETTINGS]
        files, empty = log_files(settings)
        meant: dict[Path, Share | None] = dict.fromkeys(files)
        if settings.shard is not None:
            from pytest_loom.deploy.parts import chosen, corpus_of

            config.stash[CORPUS] = corpus_of(files, settings.base)
            stores = {path: settings.shard for path in files if path in ADDRESSES}
            meant = {**stores, **dict(chosen([path for path in files if path not in ADDRESSES], settings.shard))}
        config.stash[FILES] = meant, empty
    return config.stash[FILES]


def session_bytes(config: pytest.Config) -> int:
    """How many bytes the log files of this session have, or the shares of them that are meant."""
    from pytest_loom.deploy.parts import bytes_of

    if BYTES not in config.stash:
        files, _ = session_files(config)
        config.stash[BYTES] = sum(bytes_of(str(path), share) for path, share in files.items())
    return config.stash[BYTES]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> LogFile | None:
    """The collector of a log file that collection walks over, or that the command line names."""
    config = parent.config
    if file_path in session_files(config)[0] or file_path in config.stash[SELECTION].logs:
        return LogFile.from_parent(parent, path=file_path)
    return None


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """Say what a deploy simulation is going to look at."""
    if hasattr(config, "workerinput"):
        return None
    files, _ = session_files(config)
    flows = ", ".join(config.stash[SETTINGS].flow_lines) or "the loom_flows fixture"
    return [f"loom: deploy simulation of {len(files)} log file{'' if len(files) == 1 else 's'} against {flows}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Before collection: note what the command line names."""
    from pytest_loom.sources import sources

    config = session.config
    files, _ = session_files(config)
    suffixes = tuple(suffix for source in sources() for suffix in source.suffixes)
    here = config.invocation_params.dir
    named = {Path(os.path.abspath(here / argument.partition("::")[0])) for argument in config.args}
    logs = {path for path in named if path in files or (path.name.endswith(suffixes) and not path.is_dir())}
    config.stash[SELECTION] = Selection(logs, bool(logs) or any("::" in argument for argument in config.args))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Note where collection has been: fixtures of a conftest.py are found by its folder's collector."""
    if isinstance(collector, pytest.Directory):
        collector.config.stash[SELECTION].folders[collector.path] = collector


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Complete the simulations, and once ``-k`` and the like have chosen, see which of them can begin at all."""
    _add_logs_elsewhere(session, items)
    found = any(isinstance(item, DeploySim) for item in items)
    yield
    _replace_hopeless(session, items, found=found or is_empty_shard(session.config))
    _prepare(items)
    if _workers() > 1:  # the large ones first, so that no worker is left with one at the end
        items.sort(key=lambda item: -item.size if isinstance(item, DeploySim) else 0)


def _prepare(items: list[pytest.Item]) -> None:
    """Start what has to be started before any test runs: a copy of this process without the Temporal SDK at work."""
    simulations = [item for item in items if isinstance(item, DeploySim)]
    if "temporalio" not in sys.modules or not simulations or simulations[0].config.getoption("collectonly", False):
        return
    from pytest_loom.contract.resolve import named_flows
    from pytest_loom.deploy.temporal import prepare
    from pytest_loom.errors import LoomError

    flows: dict[int, Any] = {}
    for item in simulations:
        with contextlib.suppress(LoomError):  # said where the simulation begins
            flows |= {id(flow): flow for flow in named_flows(flows_for(item)).values()}
    prepare(flows.values())


def is_empty_shard(config: pytest.Config) -> bool:
    """Whether there are logs, and all of them are in other shards."""
    return config.stash[SETTINGS].shard is not None and not session_files(config)[0] and bool(config.stash[CORPUS])


def _add_logs_elsewhere(session: pytest.Session, items: list[pytest.Item]) -> None:
    """After collection: add the configured logs that it did not come by, wherever they are (or should be)."""
    config = session.config
    selection = config.stash[SELECTION]
    collected = {item.path for item in items if isinstance(item, DeploySim)}
    for path in () if selection.chosen else session_files(config)[0]:
        if path not in collected and not _ignored(config, path):
            parent = _collector_of(session, path.parent, selection.folders)
            items.extend(session.genitems(LogFile.from_parent(parent, path=path)))


def _collector_of(session: pytest.Session, folder: Path, known: dict[Path, pytest.Collector]) -> pytest.Collector:
    """The collector of a folder: where collection has not been there, a new one, so that its conftest.py counts."""
    if folder in known:
        return known[folder]
    root = session.config.rootpath
    parent: pytest.Collector = session
    if folder != root and folder.is_relative_to(root):
        parent = _collector_of(session, folder.parent, known)
    collector = parent.ihook.pytest_collect_directory(path=folder, parent=parent) if folder.is_dir() else None
    if collector is not None:
        collector.ihook.pytest_collectstart(collector=collector)
        report = collector.ihook.pytest_make_collect_report(collector=collector)  # loads the conftest.py
        collector.ihook.pytest_collectreport(report=report)
    known[folder] = collector or parent
    return known[folder]


def _replace_hopeless(session: pytest.Session, items: list[pytest.Item], *, found: bool) -> None:
    """Put one Problem where simulations cannot begin for one cause; ``found`` says whether there was any log at all."""
    config = session.config
    causes: dict[str, list[pytest.Item]] = {}
    if not found and not config.stash[SELECTION].chosen:
        causes[_no_log(config)] = []
    for item in items:
        cause = _cannot_begin(item) if isinstance(item, DeploySim) else ""
        if cause:
            causes.setdefault(cause, []).append(item)
    hopeless = {item for group in causes.values() for item in group}
    items[:] = [item for item in items if item not in hopeless]
    for number, (cause, group) in enumerate(causes.items(), 1):
        name = PROBLEM_NAME if number == 1 else f"{PROBLEM_NAME}[{number}]"
        problem: Problem = Problem.from_parent(session, name=name, nodeid=name)
        problem.cause = cause
        problem.logs = tuple(item.path for item in group)
        items.append(problem)


def _cannot_begin(item: DeploySim) -> str:
    """Why there are no flows to hold the log against; "" where there are, or where a fixture of the user's has them."""
    from pytest_loom.errors import FlowError

    definitions = item._fixtureinfo.name2fixturedefs.get("loom_flows", ())
    if definitions and definitions[-1].func.__module__ != "pytest_loom.plugin":
        return ""
    try:
        flows_for(item)
    except FlowError as error:
        return str(error)
    return ""


def _no_log(config: pytest.Config) -> str:
    settings = config.stash[SETTINGS]
    patterns = ", ".join(settings.log_patterns) or "the default, every *.loom.jsonl"
    hint = 'Set loom_logs = ["tests/logs/*.loom.jsonl"] in pytest\'s configuration to where your logs are.'
    if settings.log_patterns:
        hint = "Look at loom_logs in pytest's configuration: its patterns start from that folder."
    return (
        f"no log found ({patterns}, below {settings.base}).\n"
        f"  An empty corpus proves nothing, so it is an error.\n  {hint}"
    )


def _ignored(config: pytest.Config, path: Path) -> bool:
    """Whether the user told pytest to leave the file, or a folder above it, out."""
    here = config.invocation_params.dir
    ignored = {Path(os.path.abspath(here / name)) for name in config.getoption("ignore") or ()}
    if not ignored.isdisjoint(path.parents):
        return True
    return bool(config.hook.pytest_ignore_collect(collection_path=path, config=config))
